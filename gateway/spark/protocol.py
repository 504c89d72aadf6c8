"""Encodes and decodes HiveServer2's calls for the gateway's own statements: Thrift structs to messages and back, no
I/O."""

from __future__ import annotations

import re
from typing import Any

from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.errors import FreshgateError, SparkLost, StatementFailed, UpstreamLost
from gateway.wire import rowset
from gateway.wire.frame import WireError
from gateway.wire.message import Handle

# The first version with columnar results. The gateway's own statements need nothing of later ones.
PROTOCOL = ttypes.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V6

FAILED_STATUSES = (ttypes.TStatusCode.ERROR_STATUS, ttypes.TStatusCode.INVALID_HANDLE_STATUS)

_NEEDED = {
    "OpenSession": "sessionHandle",
    "ExecuteStatement": "operationHandle",
    "GetOperationStatus": "operationState",
    "FetchResults": "results",
}
"""The field that each successful reply must have; Thrift itself declares it optional."""

# Spark's own format: [CLASS.SUBCLASS] text SQLSTATE: 42P01, then the position; a plan or stack trace follows.
_CLASS = re.compile(r"\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] ")
_SQLSTATE = re.compile(r"SQLSTATE: (?P<sqlstate>[0-9A-Z]{5})(?:; line \d+ pos \d+| \(line \d+, pos \d+\))?")
# The Thrift server repeats the class: [CLASS] java.Exception: [CLASS] text.
_REPEATED_CLASS = re.compile(r"(\[[A-Z][A-Z0-9_.]+\]) [\w.$]+:\s+(?=\1)")
_STACK = re.compile(r"\n[ \t]*+at |\nCaused by: |\n\n?== |\n'|\nDriver stacktrace")
_CAUSE = re.compile(r"\nCaused by: [\w.$]+: (\[[A-Z][A-Z0-9_.]+\] [^\n]*)")
"""A cause with one of Spark's own conditions, which says more than the failure of the task that it ended."""
_CLOSED = "Invalid OperationHandle"
"""The operation was closed while a caller waited for it."""
_LOST = re.compile(r"Socket for SessionHandle \[[^\]\n]*\] is closed|[\w.]+\.TTransportException(?:: |\Z)")
"""Kyuubi lost its connection to the Spark that ran the statement."""
_NOT_LAUNCHED = "Error operating LaunchEngine: "
"""What Kyuubi puts before the reason if it found no Spark for a new session. Each statement of the session fails so."""
_PREFIXES = ("Error running query: ", "Error operating ExecuteStatement: ", _NOT_LAUNCHED)
"""What Spark's Thrift server and Kyuubi put before the reason of a failed statement."""
_JAVA_CLASS = re.compile(r"^(?:[a-z][\w]*\.)+[A-Z][\w$]*(?:Exception|Error)?: ")
MESSAGE_CHARACTERS_MAX = 2000  # People read a message; a stack trace of Spark has 9,000 characters.
UNKNOWN_OUTCOME = "08007"
"""The SQLSTATE of an error that leaves open whether the statement was carried out."""
UNSENT = "08003"
"""The SQLSTATE with which Kyuubi refuses statements of a session whose Spark has ended."""
READ_CHARACTERS_MAX = 20_000
"""How much of a message is searched. The error is followed by plans, stack traces, and the text of the statement, which
may have megabytes."""


def encode(name: str, request: Any, seqid: int) -> bytes:
    """Returns the call `name` with its request struct, as a strict binary message."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer, strictRead=True, strictWrite=True)
    protocol.writeMessageBegin(name, TMessageType.CALL, seqid)
    getattr(TCLIService, f"{name}_args")(request).write(protocol)
    protocol.writeMessageEnd()
    payload: bytes = buffer.getvalue()
    return payload


def decode(name: str, payload: bytes) -> Any:
    """Returns the response struct of the reply to `name`.

    Raises StatementFailed if its status is an error, UpstreamLost if the bytes are not such a reply.
    """
    protocol = TBinaryProtocol(TMemoryBuffer(payload), strictRead=True, strictWrite=True)
    try:
        method, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            problem = TApplicationException()
            problem.read(protocol)
            raise StatementFailed(f"The Spark Thrift server failed to process {name}: {problem.message}")
        result = getattr(TCLIService, f"{name}_result")()
        result.read(protocol)
    except (TException, EOFError, ValueError) as error:
        raise UpstreamLost(f"The Spark Thrift server sent an invalid reply to {name}: {error}") from error
    if method != name or result.success is None:
        raise UpstreamLost(f"The Spark Thrift server answered {method} to {name}.")
    status = result.success.status
    if status is None:
        raise UpstreamLost(f"The Spark Thrift server answered {name} without a status.")
    if status.statusCode in FAILED_STATUSES:
        raise failure(status.errorMessage or "\n".join(status.infoMessages or ()), status.sqlState)
    needed = _NEEDED.get(name)
    if needed is not None and getattr(result.success, needed) is None:
        raise UpstreamLost(f"The Spark Thrift server answered {name} without its {needed}.")
    return result.success


def failure(message: str | None, sqlstate: str | None = None) -> StatementFailed:
    """Returns Spark's error without stack trace and plan: `[CLASS] text SQLSTATE: 42P01; line 1 pos 14`."""
    text = _REPEATED_CLASS.sub("", (message or "Spark gave no reason.")[:READ_CHARACTERS_MAX])
    named = _CLASS.search(text)
    # Two expressions, because a single one would search for the second part again after each bracket.
    if named and (found := _SQLSTATE.search(text, named.end())):
        return StatementFailed(_shortened(text[named.start() : found.end()]), sqlstate or found["sqlstate"])
    causes = _CAUSE.findall(text)
    text = _STACK.split(text.strip(), maxsplit=1)[0].strip()
    lost, unsent = False, sqlstate == UNSENT
    while True:
        lost = lost or _LOST.match(text) is not None
        unsent = unsent or text.startswith(_NOT_LAUNCHED)
        if text.startswith(_CLOSED):
            sqlstate = UNKNOWN_OUTCOME
        bare = _JAVA_CLASS.sub("", text)
        for prefix in _PREFIXES:
            bare = bare.removeprefix(prefix)
        if bare == text:
            if lost or unsent:
                return _lost(bare, UNSENT if unsent else UNKNOWN_OUTCOME)
            if causes and causes[-1] not in bare:
                bare = f"{_shortened(bare)} Caused by: {causes[-1]}"
            return StatementFailed(_shortened(bare), sqlstate or FreshgateError.sqlstate)
        text = bare


def _lost(reason: str, sqlstate: str) -> SparkLost:
    return SparkLost(_shortened(f"Kyuubi has no Spark for the session: {reason}".removesuffix(": ")), sqlstate)


def _shortened(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARACTERS_MAX else text[:MESSAGE_CHARACTERS_MAX] + " ..."


def operation_handle(handle: Handle) -> Any:
    """Spark compares guid, secret and kind; the kind of every statement is EXECUTE_STATEMENT."""
    return ttypes.TOperationHandle(
        ttypes.THandleIdentifier(handle.guid, handle.secret), ttypes.TOperationType.EXECUTE_STATEMENT, True
    )


def session_handle(handle: Handle) -> Any:
    return ttypes.TSessionHandle(ttypes.THandleIdentifier(handle.guid, handle.secret))


def handle_of(thrift_handle: Any) -> Handle:
    """Returns the handle in a Thrift session or operation handle. Raises UpstreamLost if it is empty."""
    named = getattr(thrift_handle, "sessionId", None) or getattr(thrift_handle, "operationId", None)
    if named is None or named.guid is None or named.secret is None:
        raise UpstreamLost("The Spark Thrift server sent an empty handle.")
    return Handle(named.guid, named.secret)


def rows_of(row_set: Any) -> list[tuple[Any, ...]]:
    """The rows of a TRowSet, with the values that Thrift carries: decimals, dates and nested values are strings.

    A client's session may use a protocol before V6; then the gateway's own statements in it return rows instead of
    columns. Raises UpstreamLost if the rows are malformed.
    """
    try:
        return rowset.rows_of(row_set)
    except WireError as error:
        raise UpstreamLost(f"The Spark Thrift server sent rows that cannot be read: {error}.") from error
