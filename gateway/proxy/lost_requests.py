"""How a door answers requests for a leader that has gone, in the client's transport.

Tests: `test_doorway`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.service.answers.without_leader import unanswered
from gateway.wire import http_calls
from gateway.wire.connection import ClientEnd
from gateway.wire.frame import WireError


@dataclass(frozen=True, slots=True)
class Told:
    """`answers` go to the client; `kept` is part of a request, for the next leader; `ends`: the connection ends."""

    answers: bytes = b""
    kept: bytes = b""
    ends: bool = False


def over_binary(wire: ClientEnd, received: bytes, answer: Callable[[bytes], bytes], *, framed: bool) -> Told:
    """Raises WireError if what was received cannot be answered. `wire`: a new one; `framed`: by SASL."""
    wire.resume(framed=framed)
    requests = [each for each in wire.receive(received) if isinstance(each, bytes)]
    if not requests:
        return Told(kept=received)
    if wire.partial:
        raise WireError("part of a request follows others")
    return Told(b"".join(wire.send(answer(each)) for each in requests))


def over_http(received: bytes) -> Told:
    """Calls get their reply; what is none is answered with status 502."""
    try:
        bodies = http_calls.bodies(received)
        answers = [unanswered(each) for each in bodies]
    except WireError:
        return Told(http_calls.unknown(), ends=True)
    if not bodies:
        return Told(kept=received)
    last = len(answers) - 1
    parts = (http_calls.answer(each, last=number == last) for number, each in enumerate(answers))
    return Told(b"".join(parts), ends=True)
