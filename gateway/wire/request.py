"""Builds the requests that the gateway itself makes about a client's sessions and operations, as message payloads."""

from __future__ import annotations

from typing import Any

from TCLIService import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.wire.envelope import enveloped
from gateway.wire.message import Handle


def unknown() -> bytes:
    """A call of a method that no server knows: its processor says so and does nothing. A call with an unknown handle
    would cost Spark milliseconds, because it answers with a stack trace."""
    protocol = TBinaryProtocol(TMemoryBuffer())
    protocol.writeMessageBegin("Nothing", TMessageType.CALL, 0)
    protocol.writeFieldStop()
    return bytes(protocol.trans.getvalue())


def close_session(session: Handle) -> bytes:
    identifier = ttypes.THandleIdentifier(session.guid, session.secret)
    return _request("CloseSession", ttypes.TCloseSessionReq(ttypes.TSessionHandle(identifier)))


def server_name(session: Handle) -> bytes:
    """The cheapest question about a session: a server answers it from memory."""
    identifier = ttypes.THandleIdentifier(session.guid, session.secret)
    kind = ttypes.TGetInfoType.CLI_DBMS_NAME
    return _request("GetInfo", ttypes.TGetInfoReq(ttypes.TSessionHandle(identifier), kind))


def operation_status(operation: Handle) -> bytes:
    return _request("GetOperationStatus", ttypes.TGetOperationStatusReq(_operation(operation)))


def cancel_operation(operation: Handle) -> bytes:
    return _request("CancelOperation", ttypes.TCancelOperationReq(_operation(operation)))


def close_operation(operation: Handle) -> bytes:
    return _request("CloseOperation", ttypes.TCloseOperationReq(_operation(operation)))


def result_metadata(operation: Handle) -> bytes:
    return _request("GetResultSetMetadata", ttypes.TGetResultSetMetadataReq(_operation(operation)))


def fetch(operation: Handle, orientation: int, rows_max: int) -> bytes:
    """Requests rows."""
    return _request("FetchResults", ttypes.TFetchResultsReq(_operation(operation), orientation, rows_max))


def _operation(operation: Handle) -> Any:
    identifier = ttypes.THandleIdentifier(operation.guid, operation.secret)
    return ttypes.TOperationHandle(identifier, ttypes.TOperationType.EXECUTE_STATEMENT, True)


def _request(name: str, argument: Any) -> bytes:
    return enveloped(name, TMessageType.CALL, 0, argument)
