"""How a statement ended at Spark, as its replies tell."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.service.operations.operation import TERMINAL_STATES, End, ForwardedOperation, OperationState
from gateway.wire import message

PARSE_ERROR = "42601"

_ENDS: Mapping[int, End] = {OperationState.FINISHED: End.SUCCEEDED, OperationState.ERROR: End.FAILED}
"""A cancelled or timed-out statement may still commit."""


def status_seen(operation: ForwardedOperation, answer: bytes) -> int | None:
    """Takes note of a GetOperationStatus reply. Returns the state in it; None in an error."""
    state = message.operation_state(answer)
    if state in TERMINAL_STATES:
        # Spark tells that a statement has failed a moment before it can tell why.
        if state != OperationState.ERROR or message.operation_error(answer):
            operation.final_status = answer
        if operation.statement is not None:
            operation.statement.seen(state, answer)
        operation.end(_end(operation, state, answer))
    return state


def refused(answer: bytes, *, runs_others: bool) -> End:
    """Of a statement that Spark answered with an error at once. `runs_others`: a part of it may have been done."""
    parse_error = message.reply_status(answer).sqlstate == PARSE_ERROR
    return End.REFUSED if parse_error and not runs_others else End.FAILED


def _end(operation: ForwardedOperation, state: int | None, status: bytes) -> End:
    end = _ENDS.get(state, End.UNKNOWN) if state is not None else End.UNKNOWN
    parse_error = end is End.FAILED and message.operation_sqlstate(status) == PARSE_ERROR
    return End.REFUSED if parse_error and not operation.runs_others else end
