"""Requests and replies written by independent code: PyHive's generated types."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.wire.message import Handle

HANDLE = Handle(bytes(range(16)), bytes(range(100, 116)))
OTHER = Handle(b"G" * 16, b"S" * 16)


def identifier(handle: Handle = HANDLE) -> Any:
    return ttypes.THandleIdentifier(handle.guid, handle.secret)


def session(handle: Handle = HANDLE) -> Any:
    return ttypes.TSessionHandle(identifier(handle))


def operation(handle: Handle = HANDLE) -> Any:
    return ttypes.TOperationHandle(identifier(handle), 0, True)


def call(name: str, request: Any, seqid: int = 7) -> bytes:
    return _message(name, TMessageType.CALL, getattr(TCLIService, f"{name}_args")(request), seqid)


def reply(name: str, response: Any, seqid: int = 7) -> bytes:
    return _message(name, TMessageType.REPLY, getattr(TCLIService, f"{name}_result")(response), seqid)


def _message(name: str, kind: int, body: Any, seqid: int) -> bytes:
    protocol = TBinaryProtocol(TMemoryBuffer())
    protocol.writeMessageBegin(name, kind, seqid)
    body.write(protocol)
    return bytes(protocol.trans.getvalue())


def read_reply(payload: bytes) -> Any:
    """The response, read by a client's generated code."""
    protocol = TBinaryProtocol(TMemoryBuffer(payload))
    name, kind, _ = protocol.readMessageBegin()
    assert kind == TMessageType.REPLY
    result = getattr(TCLIService, f"{name}_result")()
    result.read(protocol)
    assert protocol.trans.cstringio_buf.read() == b"", "bytes after the message"
    result.success.validate()
    return result.success


def read_call(payload: bytes) -> Any:
    """The request, read by a server's generated code."""
    protocol = TBinaryProtocol(TMemoryBuffer(payload))
    name, kind, _ = protocol.readMessageBegin()
    assert kind == TMessageType.CALL
    arguments = getattr(TCLIService, f"{name}_args")()
    arguments.read(protocol)
    return arguments.req


def execute(text: str, run_async: bool = True, seqid: int = 7, **rest: Any) -> bytes:
    overlay = rest.pop("confOverlay", {"k": "v"})
    request = ttypes.TExecuteStatementReq(session(), text, overlay, run_async, **rest)
    return call("ExecuteStatement", request, seqid)


def status(seqid: int = 7, handle: Handle = HANDLE) -> bytes:
    return call("GetOperationStatus", ttypes.TGetOperationStatusReq(operation(handle), True), seqid)


def close(seqid: int = 7, handle: Handle = HANDLE) -> bytes:
    return call("CloseOperation", ttypes.TCloseOperationReq(operation(handle)), seqid)


def open_session(seqid: int = 7) -> bytes:
    request = ttypes.TOpenSessionReq(9, "ada", "secret", {"use:database": "sales", "ключ": "значение"})
    return call("OpenSession", request, seqid)


def fetch(seqid: int = 7) -> bytes:
    return call("FetchResults", ttypes.TFetchResultsReq(operation(), 0, 1000, 1), seqid)


def samples() -> list[bytes]:
    """One request of each form."""
    return [
        open_session(),
        execute("select 1"),
        execute("", run_async=False, seqid=-1),
        execute("select '" + "ä" * 3000 + "'"),
        status(),
        fetch(0),
        call("GetInfo", ttypes.TGetInfoReq(session(), 17)),
        call("GetTables", ttypes.TGetTablesReq(session(), "", "%", "t", ["TABLE", "VIEW"])),
        call("CloseSession", ttypes.TCloseSessionReq(session())),
        call("GetLog", ttypes.TGetLogReq(operation())),
    ]


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data split at the given positions, modulo its length."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]
