"""HiveServer2's calls as bytes, for the gateway's own statements: Thrift structs to messages and back, no I/O."""

from __future__ import annotations

import re
from typing import Any

from TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from gateway.errors import FreshgateError, StatementFailed, UpstreamLost
from gateway.wire import rowset
from gateway.wire.frame import WireError
from gateway.wire.message import Handle

# The first version with columnar results. Later ones add what the gateway's own statements do not need.
PROTOCOL = ttypes.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V6

FAILED_STATUSES = (ttypes.TStatusCode.ERROR_STATUS, ttypes.TStatusCode.INVALID_HANDLE_STATUS)

_NEEDED = {
    "OpenSession": "sessionHandle",
    "ExecuteStatement": "operationHandle",
    "GetOperationStatus": "operationState",
    "FetchResults": "results",
}
"""What a reply without an error must have; Thrift lets it be left out."""

# Spark's own form: [CLASS.SUBCLASS] text SQLSTATE: 42P01, then where; the plan or the stack follows.
_CLASS = re.compile(r"\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] ")
_SQLSTATE = re.compile(r"SQLSTATE: (?P<sqlstate>[0-9A-Z]{5})(?:; line \d+ pos \d+| \(line \d+, pos \d+\))?")
# The Thrift server says the class twice: [CLASS] java.Exception: [CLASS] text.
_TWICE = re.compile(r"(\[[A-Z][A-Z0-9_.]+\]) [\w.$]+:\s+(?=\1)")
_STACK = re.compile(r"\n[ \t]*+at |\nCaused by: |\n\n?== |\n'|\nDriver stacktrace")
_JAVA_CLASS = re.compile(r"^(?:[a-z][\w]*\.)+[A-Z][\w$]*(?:Exception|Error)?: ")
MESSAGE_CHARACTERS_MAX = 2000  # a message is read by people; a stack trace of Spark has 9,000
READ_CHARACTERS_MAX = 20_000
"""Of a message: behind its error stand plans, stacks, and the whole text of a statement that may have megabytes."""


def encode(name: str, request: Any, seqid: int) -> bytes:
    """The call `name` with its request struct, as a strict binary message."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer, strictRead=True, strictWrite=True)
    protocol.writeMessageBegin(name, TMessageType.CALL, seqid)
    getattr(TCLIService, f"{name}_args")(request).write(protocol)
    protocol.writeMessageEnd()
    payload: bytes = buffer.getvalue()
    return payload


def decode(name: str, payload: bytes) -> Any:
    """The response struct of the reply to `name`.

    Raises StatementFailed when its status is an error, UpstreamLost when the bytes are no such reply.
    """
    protocol = TBinaryProtocol(TMemoryBuffer(payload), strictRead=True, strictWrite=True)
    try:
        method, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            problem = TApplicationException()
            problem.read(protocol)
            raise StatementFailed(f"The Spark Thrift server cannot do {name}: {problem.message}")
        result = getattr(TCLIService, f"{name}_result")()
        result.read(protocol)
    except (TException, EOFError, ValueError) as error:
        raise UpstreamLost(f"The Spark Thrift server sent what is no reply to {name}: {error}") from error
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
    """Spark's error without its stack trace and plan: `[CLASS] text SQLSTATE: 42P01; line 1 pos 14`."""
    text = _TWICE.sub("", (message or "Spark gave no reason.")[:READ_CHARACTERS_MAX])
    named = _CLASS.search(text)
    # Not in one expression, which would look for the second part again behind each bracket.
    if named and (found := _SQLSTATE.search(text, named.end())):
        return StatementFailed(_shortened(text[named.start() : found.end()]), sqlstate or found["sqlstate"])
    text = _STACK.split(text.strip(), maxsplit=1)[0].strip()
    if text.startswith("Invalid OperationHandle"):
        # It was closed under who waits for it: what became of the statement is not known.
        sqlstate = "08007"
    while True:
        bare = _JAVA_CLASS.sub("", text.removeprefix("Error running query: "))
        if bare == text:
            return StatementFailed(_shortened(bare), sqlstate or FreshgateError.sqlstate)
        text = bare


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
    """The handle in a Thrift session or operation handle. Raises UpstreamLost where there is none in it."""
    named = getattr(thrift_handle, "sessionId", None) or getattr(thrift_handle, "operationId", None)
    if named is None or named.guid is None or named.secret is None:
        raise UpstreamLost("The Spark Thrift server gave an empty handle.")
    return Handle(named.guid, named.secret)


def rows_of(row_set: Any) -> list[tuple[Any, ...]]:
    """The rows of a TRowSet. Values are what Thrift carries: decimals, dates and nested values are texts.

    A client's session may be of a protocol before V6: then the gateway's own statements in it come as rows, too.
    Raises UpstreamLost for what are no rows.
    """
    try:
        return rowset.rows_of(row_set)
    except WireError as error:
        raise UpstreamLost(f"The Spark Thrift server sent rows that cannot be read: {error}.") from error
