"""Clients whose answers the small server corrupts, as a broken Spark might: other clients must not notice."""

from __future__ import annotations

import asyncio
import itertools
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from raw_session import decoded

from fuzzing import peer
from fuzzing.actors import Attacker
from fuzzing.peer import BinaryPeer, HttpPeer, Peer
from fuzzing.spark import MISLED

ANSWER_SECONDS = 1.0
"""A reply that claims to be longer than it is never ends."""
_numbers = itertools.count()
P = TypeVar("P", bound=Peer)


class Misled(Attacker[P]):
    """Runs through a session with calls of all kinds, whatever the answers say."""

    @abstractmethod
    async def connect(self) -> P: ...

    def ways(self) -> Sequence[Callable[[P], Awaitable[None]]]:
        return (self._dialogue,)

    async def _dialogue(self, client: P) -> None:
        user = f"{MISLED}-{next(_numbers)}"
        await client.log_in(user)
        session = operation = None
        for _ in range(self._random.randrange(2, 15)):
            message = peer.open_session(user) if session is None else self._message(session, operation)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    answer = await client.exchange(message)
            except TimeoutError:
                return
            self._check_answer(answer)
            response = _read(answer)
            session = getattr(response, "sessionHandle", None) or session
            operation = getattr(response, "operationHandle", None) or operation


class MisledOverBinary(Misled[BinaryPeer]):
    name = "misled session"

    async def connect(self) -> BinaryPeer:
        return await BinaryPeer.connect(self._stage.port)


class MisledOverHttp(Misled[HttpPeer]):
    name = "misled HTTP session"

    async def connect(self) -> HttpPeer:
        return await HttpPeer.connect(self._stage.http_port, self._random)


def _read(answer: bytes) -> Any:
    """The response; None if the bytes are not one."""
    try:
        return decoded(answer)
    except Exception:  # Whatever Thrift raises for malformed bytes.
        return None
