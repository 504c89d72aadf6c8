"""An HTTP client that sends single Thrift calls."""

from __future__ import annotations

import base64
import http.client
from typing import Any

from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer


def message(name: str, request: Any) -> bytes:
    """A call as the body of an HTTP request."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    getattr(TCLIService.Client(protocol), f"send_{name}")(request)
    return bytes(buffer.getvalue())


def result(name: str, body: bytes) -> Any:
    client = TCLIService.Client(TBinaryProtocol(TMemoryBuffer(body)))
    return getattr(client, f"recv_{name}")()


class Caller:
    """One HTTP connection with the credentials of a user. `source` is the client's address."""

    def __init__(
        self, port: int, user: str = "ada", *, password: str = "secret", source: str = "127.0.0.1", **headers: str
    ) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0))
        names = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.headers = headers or {"Authorization": f"Basic {names}"}
        self.cookie = ""
        self.path = "/cliservice"

    def post(self, body: bytes, **headers: str) -> tuple[int, bytes]:
        self.connection.request("POST", self.path, body, {**self.headers, **headers})
        response = self.connection.getresponse()
        self.cookie = response.getheader("Set-Cookie") or self.cookie
        return response.status, response.read()

    def call(self, name: str, request: Any, **headers: str) -> Any:
        status, body = self.post(message(name, request), **headers)
        assert status == 200, body
        return result(name, body)

    def open_session(self) -> Any:
        answer = self.call("OpenSession", ttypes.TOpenSessionReq(ttypes.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V6))
        assert answer.status.statusCode == 0, answer
        return answer.sessionHandle

    def select(self, session: Any, sql: str) -> list[Any]:
        """The first column of a query's result."""
        started = self.call("ExecuteStatement", ttypes.TExecuteStatementReq(session, sql, {}, False))
        assert started.status.statusCode == 0, started.status
        fetch = ttypes.TFetchResultsReq(started.operationHandle, ttypes.TFetchOrientation.FETCH_NEXT, 100)
        page = self.call("FetchResults", fetch).results
        self.call("CloseOperation", ttypes.TCloseOperationReq(started.operationHandle))
        column = page.columns[0]
        return list((column.stringVal or column.i64Val or column.i32Val).values)

    def close(self) -> None:
        self.connection.close()
