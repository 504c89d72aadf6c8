"""A HiveServer2 over HTTP that answers without a Spark."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from gateway.config import Address
from gateway.status.client import Target

FINE = ttypes.TStatus(0)
MISSING = "[SCHEMA_NOT_FOUND] The schema `nowhere` cannot be found. Verify the spelling.\n\tat a.b.C(D.java:1)"


class Sessions:
    """A HiveServer2 without rows and without the database `nowhere`; records open sessions and their statements."""

    def __init__(self) -> None:
        self.open: set[bytes] = set()
        self.statements: list[str] = []
        self.configurations: list[dict[str, str]] = []
        """Those with which clients opened sessions."""
        self.told: dict[str, str] = {}
        """What it tells about each new session."""

    def OpenSession(self, call: Any) -> Any:
        self.configurations.append(dict(call.configuration or {}))
        name = bytes([len(self.open)]) * 16
        self.open.add(name)
        handle = ttypes.TSessionHandle(ttypes.THandleIdentifier(name, name))
        return ttypes.TOpenSessionResp(FINE, call.client_protocol, handle, self.told)

    def CloseSession(self, call: Any) -> Any:
        self.open.remove(call.sessionHandle.sessionId.guid)
        return ttypes.TCloseSessionResp(FINE)

    def ExecuteStatement(self, call: Any) -> Any:
        self.statements.append(call.statement)
        if "`nowhere`" in call.statement:
            return ttypes.TExecuteStatementResp(ttypes.TStatus(3, None, "42704", 0, MISSING))
        number = ttypes.THandleIdentifier(b"o" * 16, b"o" * 16)
        return ttypes.TExecuteStatementResp(FINE, ttypes.TOperationHandle(number, 0, True))

    def GetResultSetMetadata(self, call: Any) -> Any:
        return ttypes.TGetResultSetMetadataResp(FINE, ttypes.TTableSchema([]))

    def FetchResults(self, call: Any) -> Any:
        return ttypes.TFetchResultsResp(FINE, False, ttypes.TRowSet(0, [], []))

    def CloseOperation(self, call: Any) -> Any:
        return ttypes.TCloseOperationResp(FINE)


class Served(ThreadingHTTPServer):
    """Serves `Sessions` over HTTP, with TLS if there is a certificate."""

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.sessions = Sessions()
        self.refusal: tuple[int, bytes] | None = None
        """The status and page with which every request is answered."""
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing: a client that does not trust the certificate closes the connection."""

    def target(self, **parts: Any) -> Target:
        return Target(Address("127.0.0.1", self.server_port), http_path="cliservice", **parts)

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Served

    def do_POST(self) -> None:
        asked, answer = TMemoryBuffer(self.rfile.read(int(self.headers["Content-Length"]))), TMemoryBuffer()
        status = 200
        if self.server.refusal is None:
            TCLIService.Processor(self.server.sessions).process(TBinaryProtocol(asked), TBinaryProtocol(answer))
        else:
            status, page = self.server.refusal
            answer.write(page)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer.getvalue())))
        self.end_headers()
        self.wfile.write(answer.getvalue())

    def log_message(self, *_: Any) -> None:
        """Prints nothing to standard error."""
