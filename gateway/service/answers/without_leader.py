"""What a door answers for a leader that has gone: clients must not wait, or take a closed connection for a call that
was never made.

Tests: `test_doorway`.
"""

from __future__ import annotations

from gateway.errors import FreshgateError
from gateway.service.decision import failure
from gateway.wire import message, reply
from gateway.wire.frame import WireError
from sql.classify import glance
from sql.lexed import Lexed

_READING = frozenset({"select", "show", "describe", "desc", "explain", "values"})
"""First words of statements that change nothing."""
_CLOSING = frozenset({"CloseOperation", "CancelOperation", "CloseSession"})
"""What they end has ended, or ends with the session."""


def unanswered(request: bytes) -> bytes:
    """The answer to a request that the leader had when it went. Raises WireError if it is not a call."""
    head = message.peek(request)
    if head.name in _CLOSING:
        return reply.closed(head.name, head.seqid)
    if head.name in message.UNKNOWN_METHODS:
        return reply.unknown_method(head.name, head.seqid)
    if head.name == "GetOperationStatus" or (head.name == "ExecuteStatement" and not only_reads(request)):
        text = (
            "The gateway that led has gone, and it is unknown whether the statement took effect. Look whether what it "
            "changes is there before you run it once more; your session goes on."
        )
        return failure(head, FreshgateError(text, "08007"))
    if head.name == "OpenSession":
        return failure(head, FreshgateError("The gateway that led has gone. Connect again in a few seconds.", "08S01"))
    text = "The gateway that led has gone before it had answered. Run the statement again; your session goes on."
    return failure(head, FreshgateError(text, "08S01"))


def unserved(request: bytes, problem: str) -> bytes:
    """The answer to a request that no leader has had. Raises WireError if it is not a call."""
    head = message.peek(request)
    return failure(head, FreshgateError(problem, "08001"))


def only_reads(request: bytes) -> bool:
    """Whether an ExecuteStatement certainly changes nothing."""
    try:
        text = message.statement(request).statement
    except WireError:
        return False
    return glance(Lexed(text)).keyword.lower() in _READING
