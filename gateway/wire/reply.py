"""Builds the replies that the gateway itself gives, as message payloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from TCLIService import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.wire.envelope import enveloped
from gateway.wire.frame import WireError
from gateway.wire.message import METADATA_METHODS, STATUS_ERROR, Handle, ValuePlace
from gateway.wire.rowset import ResultColumn, table_schema

SUCCESS = 0

METHODS = (
    "OpenSession",
    "CloseSession",
    "GetInfo",
    "ExecuteStatement",
    *METADATA_METHODS,
    "GetOperationStatus",
    "CancelOperation",
    "CloseOperation",
    "GetResultSetMetadata",
    "FetchResults",
    "GetDelegationToken",
    "CancelDelegationToken",
    "RenewDelegationToken",
)
# The generated types lack these methods. Their error reply is only a status, like that of CloseSession.
STATUS_ONLY = ("SetClientInfo", "UploadData", "DownloadData")

_UNREADABLE = (TException, EOFError, ValueError, RecursionError, MemoryError)
"""What the generated readers raise for malformed bytes."""

_RESPONSES: dict[str, Any] = {
    **{name: getattr(ttypes, f"T{name}Resp") for name in METHODS},
    **dict.fromkeys(STATUS_ONLY, ttypes.TCloseSessionResp),
}


class InfoKind(Enum):
    """The members of TGetInfoValue that GetInfo replies use."""

    TEXT = "stringValue"
    SHORT = "smallIntValue"
    BITS = "integerBitmask"
    FLAG = "integerFlag"
    LENGTH = "lenValue"


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """A table of strings and a progress bar, which clients draw while an operation runs.

    Hive's clients require exactly nine headers, and as many strings in each row.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    fraction: float
    """0 to 1."""
    footer: str
    started_ms: int
    """Milliseconds since the epoch."""


def execute_ok(seqid: int, handle: Handle) -> bytes:
    """ExecuteStatement began the operation `handle`."""
    operation = ttypes.TOperationHandle(
        ttypes.THandleIdentifier(handle.guid, handle.secret),
        ttypes.TOperationType.EXECUTE_STATEMENT,
        True,
    )
    return _reply("ExecuteStatement", seqid, ttypes.TExecuteStatementResp(_success(), operation))


def closed(name: str, seqid: int) -> bytes:
    """CloseOperation, CloseSession, CancelOperation or SetClientInfo succeeded."""
    return _reply(name, seqid, _RESPONSES[name](status=_success()))


def error(name: str, seqid: int, message: str, sqlstate: str, code: int = 0) -> bytes:
    """The method failed: its own reply with an error status, from which drivers raise SQLException with the SQLSTATE.

    A method without a status (GetQueryId, unknown methods) gets a Thrift exception.
    """
    response_type = _RESPONSES.get(name)
    if response_type is None:
        return exception(name, seqid, message)
    response = response_type(
        status=ttypes.TStatus(STATUS_ERROR, sqlState=sqlstate, errorCode=code, errorMessage=message)
    )
    # Fields that Thrift requires even in an error: without them Spark's own GetInfo reply breaks the connection.
    if name == "GetInfo":
        response.infoValue = ttypes.TGetInfoValue(lenValue=0)
    elif name == "OpenSession":
        response.serverProtocolVersion = 0
    return _reply(name, seqid, response)


def exception(name: str, seqid: int, message: str, kind: int = int(TApplicationException.INTERNAL_ERROR)) -> bytes:
    """A Thrift exception: for methods without a status, and for faults of the gateway itself."""
    protocol = TBinaryProtocol(TMemoryBuffer())
    protocol.writeMessageBegin(name, TMessageType.EXCEPTION, seqid)
    TApplicationException(kind, message).write(protocol)
    return bytes(protocol.trans.getvalue())


def unknown_method(name: str, seqid: int) -> bytes:
    return exception(name, seqid, f"Invalid method name: '{name}'", int(TApplicationException.UNKNOWN_METHOD))


def operation_status(
    seqid: int,
    state: int,
    sqlstate: str | None = None,
    message: str | None = None,
    *,
    has_result_set: bool | None = None,
    progress: ProgressUpdate | None = None,
) -> bytes:
    """A GetOperationStatus reply. States as in TOperationState: 1 running, 2 finished, 3 cancelled, 4 closed, 5 error.
    `progress` only if the client asked for it; without it a client ends its progress bar."""
    response = ttypes.TGetOperationStatusResp(
        status=_success(),
        operationState=state,
        sqlState=sqlstate,
        errorCode=0 if message is not None else None,
        errorMessage=message,
        hasResultSet=has_result_set,
        progressUpdateResponse=_progress(progress) if progress is not None else None,
    )
    return _reply("GetOperationStatus", seqid, response)


def _progress(update: ProgressUpdate) -> Any:
    return ttypes.TProgressUpdateResp(
        headerNames=list(update.headers),
        rows=[list(row) for row in update.rows],
        progressedPercentage=update.fraction,
        status=ttypes.TJobExecutionStatus.IN_PROGRESS,
        footerSummary=update.footer,
        startTime=update.started_ms,
    )


def info(seqid: int, kind: InfoKind, value: str | int) -> bytes:
    """A GetInfo reply: `value` is a string with TEXT, otherwise a number."""
    return _reply("GetInfo", seqid, ttypes.TGetInfoResp(_success(), ttypes.TGetInfoValue(**{kind.value: value})))


def result_metadata(seqid: int, columns: Sequence[ResultColumn]) -> bytes:
    return _reply("GetResultSetMetadata", seqid, ttypes.TGetResultSetMetadataResp(_success(), table_schema(columns)))


def fetch(seqid: int, rows: Any) -> bytes:
    """A FetchResults reply with a TRowSet. `hasMoreRows` is false, as in Spark: clients fetch until no row comes."""
    return _reply("FetchResults", seqid, ttypes.TFetchResultsResp(_success(), False, rows))


def read_rows(reply: bytes, place: ValuePlace) -> Any:
    """Reads the TRowSet at a place in a FetchResults reply. Raises `WireError` if it is malformed."""
    row_set = ttypes.TRowSet()
    try:
        row_set.read(TBinaryProtocol(TMemoryBuffer(reply[place.start : place.end])))
    except _UNREADABLE as cause:
        raise WireError(f"the rows in the reply cannot be read: {cause}") from cause
    return row_set


def with_rows(reply: bytes, place: ValuePlace, row_set: Any) -> bytes:
    """Returns the FetchResults reply with another TRowSet at that place; all other bytes are unchanged."""
    protocol = TBinaryProtocol(TMemoryBuffer())
    row_set.write(protocol)
    return reply[: place.start] + bytes(protocol.trans.getvalue()) + reply[place.end :]


def _success() -> Any:
    return ttypes.TStatus(SUCCESS)


def _reply(name: str, seqid: int, response: Any) -> bytes:
    return enveloped(name, TMessageType.REPLY, seqid, response)
