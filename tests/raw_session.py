"""A HiveServer2 client that sends single Thrift calls and returns the replies as bytes or objects."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Self

from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

ANSWER_SECONDS = 60.0
COLUMNAR, ROW_WISE = 5, 4
"""HIVE_CLI_SERVICE_PROTOCOL_V6 and V5."""
NEXT, PRIOR, FIRST = 0, 1, 4
RUNNING_STATES = (0, 1, 7)
"""INITIALIZED, RUNNING and PENDING."""


def encoded(name: str, request: Any, seqid: int = 1) -> bytes:
    """A call as a message, without a frame."""
    protocol = TBinaryProtocol(TMemoryBuffer())
    protocol.writeMessageBegin(name, TMessageType.CALL, seqid)
    getattr(TCLIService, f"{name}_args")(request).write(protocol)
    return bytes(protocol.trans.getvalue())


def decoded(reply: bytes) -> Any:
    """The response in a reply message."""
    protocol = TBinaryProtocol(TMemoryBuffer(reply))
    name, kind, _ = protocol.readMessageBegin()
    assert kind == TMessageType.REPLY, reply
    result = getattr(TCLIService, f"{name}_result")()
    result.read(protocol)
    return result.success


def without_trace(reply: bytes) -> Any:
    """The response without the server's stack trace.

    Two traces of the same error may differ: after some calls, a JVM replaces the stack frames of reflection.
    """
    response = decoded(reply)
    assert response.status.infoMessages, response
    response.status.infoMessages = None
    return response


def login(user: str) -> bytes:
    """The two messages of a SASL PLAIN client."""
    names = f"\0{user}\0anonymous".encode()
    return b"\x01\0\0\0\x05PLAIN\x05" + len(names).to_bytes(4, "big") + names


class Closed(Exception):
    """The server has closed the connection instead of answering."""


class RawConnection:
    """The connection of a SASL client that is logged in. Close it, or use it as a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), ANSWER_SECONDS)
        self.socket.sendall(login("tester"))
        assert self._read(5) == b"\x05\0\0\0\0"

    def call(self, name: str, request: Any) -> bytes:
        """The reply as a message. Raises `Closed`."""
        return self.exchange(encoded(name, request))

    def exchange(self, message: bytes) -> bytes:
        """Sends one message in one frame, and returns the message in the reply's frame. Raises `Closed`."""
        try:
            self.socket.sendall(len(message).to_bytes(4, "big") + message)
        except ConnectionError:
            raise Closed from None
        return self.receive()

    def send(self, name: str, request: Any) -> None:
        """Sends a call; `receive` returns the reply."""
        message = encoded(name, request)
        self.socket.sendall(len(message).to_bytes(4, "big") + message)

    def receive(self) -> bytes:
        """The message in the next frame. Raises `Closed`."""
        try:
            return self._read(int.from_bytes(self._read(4), "big"))
        except ConnectionError:
            raise Closed from None

    def ask(self, name: str, request: Any) -> Any:
        """The response. Raises `Closed`."""
        return decoded(self.call(name, request))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise Closed
            data += piece
        return bytes(data)

    def close(self) -> None:
        """Closes the connection without a message, as a killed client does."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RawSession(RawConnection):
    """A connection with a session. Its end does not close the session; the server does."""

    def __init__(self, server: Any, protocol: int = COLUMNAR, configuration: Mapping[str, str] | None = None) -> None:
        super().__init__(server.host, server.port)
        self.handle = self.open(protocol, configuration)

    def open(self, protocol: int = COLUMNAR, configuration: Mapping[str, str] | None = None) -> Any:
        """Opens another session on this connection."""
        opened = self.ask("OpenSession", ttypes.TOpenSessionReq(protocol, "tester", None, dict(configuration or {})))
        assert opened.status.statusCode == 0, opened.status
        return opened.sessionHandle

    def list(self, name: str, *arguments: Any) -> bytes:
        """The reply to a metadata call, or to any other call whose first argument is the session."""
        return self.call(name, getattr(ttypes, f"T{name}Req")(self.handle, *arguments))

    def execute(self, sql: str, *, run_async: bool = False, limit_seconds: int | None = None) -> Any:
        """Starts a statement and returns its operation."""
        begun = decoded(self.list("ExecuteStatement", sql, {}, run_async, limit_seconds))
        assert begun.status.statusCode == 0, begun.status.errorMessage
        return begun.operationHandle

    def metadata(self, operation: Any) -> bytes:
        return self.call("GetResultSetMetadata", ttypes.TGetResultSetMetadataReq(operation))

    def fetch(self, operation: Any, rows_max: int = 1000, orientation: int = NEXT) -> bytes:
        return self.call("FetchResults", ttypes.TFetchResultsReq(operation, orientation, rows_max, 0))

    def wait(self, operation: Any) -> int:
        """Waits for the end of the operation and returns its state."""
        while True:
            state = self.ask("GetOperationStatus", ttypes.TGetOperationStatusReq(operation)).operationState
            if state not in RUNNING_STATES:
                return int(state)


def texts(reply: bytes) -> list[tuple[str, ...]]:
    """The rows of a columnar FetchResults reply, with only the string columns."""
    results = decoded(reply).results
    columns = [column.stringVal.values for column in results.columns if column.stringVal is not None]
    return list(zip(*columns, strict=True))


def column_names(reply: bytes) -> list[str]:
    """The column names in a GetResultSetMetadata reply."""
    return [column.columnName for column in decoded(reply).schema.columns]
