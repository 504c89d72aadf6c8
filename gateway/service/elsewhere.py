"""Requests for a session that is at another Spark server than the client's own connection.

Handles work from any connection, so some clients (Hue) use a session over a connection on which they have opened
another one. That connection cannot go elsewhere, because its session ends with it.

Tests: `test_sessions_elsewhere`.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.errors import FreshgateError, UpstreamLost
from gateway.service.clients.session import Session
from gateway.service.decision import Answer, Decision, Forward, decided, failure
from gateway.wire.message import peek


async def forwarded(
    session: Session, decision: Decision, abandon: Callable[[FreshgateError | None], None]
) -> Forward | Answer:
    """Carries out a decision over another connection, to the session's server. `abandon`: a statement gets no reply;
    with the error if it was not sent."""
    action = await decided(decision)
    if isinstance(action, Answer):
        return action
    head = peek(action.payload)
    if action.page is not None and action.page.claims is not None:
        # It was read ahead over a connection that this client has left.
        return Answer(failure(head, UpstreamLost("The connection to Spark broke. Run the statement again.")))
    sent = False
    try:
        async with session.spare() as side:
            sent = True
            answer = await side.forward(action.payload)
    except FreshgateError as error:
        abandon(None if sent else error)
        return Answer(failure(head, error))
    return Answer(await _processed(action, answer))


async def _processed(action: Forward, answer: bytes) -> bytes:
    """What the client gets for Spark's reply."""
    if action.mend is not None:
        answer = action.mend(answer)
    if action.on_reply is not None:
        action.on_reply(answer)
    return answer if action.confirm is None else await action.confirm(answer)
