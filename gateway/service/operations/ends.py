"""Determines from Spark's replies how a statement ended."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.service.operations.operation import TERMINAL_STATES, End, ForwardedOperation, OperationState
from gateway.wire import message

PARSE_ERROR = "42601"

_ENDS: Mapping[int, End] = {OperationState.FINISHED: End.SUCCEEDED, OperationState.ERROR: End.FAILED}
"""A cancelled or timed-out statement may still commit."""


def status_seen(operation: ForwardedOperation, answer: bytes) -> int | None:
    """Processes a GetOperationStatus reply. Returns the state in it; None for an error."""
    state = message.operation_state(answer)
    if state in TERMINAL_STATES:
        # Spark reports that a statement has failed a moment before it reports why.
        if state != OperationState.ERROR or message.operation_error(answer):
            operation.final_status = answer
        if operation.statement is not None:
            operation.statement.seen(state, answer)
        operation.end(_end(operation, state, answer))
    return state


def refused(answer: bytes, *, runs_others: bool) -> End:
    """The end of a statement that Spark refused at once. `runs_others`: a part of it may have been executed."""
    parse_error = message.reply_status(answer).sqlstate == PARSE_ERROR
    return End.REFUSED if parse_error and not runs_others else End.FAILED


def _end(operation: ForwardedOperation, state: int | None, status: bytes) -> End:
    end = _ENDS.get(state, End.UNKNOWN) if state is not None else End.UNKNOWN
    parse_error = end is End.FAILED and message.operation_sqlstate(status) == PARSE_ERROR
    return End.REFUSED if parse_error and not operation.runs_others else end
