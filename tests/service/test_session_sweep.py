"""Sessions that no client asks for any more, where no connection tells so."""

from __future__ import annotations

import asyncio
from typing import Any

from raw_session import encoded
from TCLIService import ttypes

from gateway.access_list import Principal
from gateway.mv.ports import SqlSession
from gateway.service.clients.session import Session, Sessions
from gateway.service.clients.sides import Sides
from gateway.wire.connection import NOSASL
from gateway.wire.message import Handle, open_session
from gateway.wire.reply import closed
from gateway.wire.sasl import Login

OPEN = encoded("OpenSession", ttypes.TOpenSessionReq(5, "ada", None, {}))
LOGIN = Login("ada", "x", NOSASL)


class Side:
    """A connection to a Spark that answers no call before `answering`."""

    alive = True
    at = ""

    def __init__(self, answering: asyncio.Event) -> None:
        self.asked = asyncio.Event()
        self._answering = answering

    async def forward(self, payload: bytes) -> bytes:
        self.asked.set()
        await self._answering.wait()
        return closed("CloseSession", 1)

    def session(self, handle: Handle) -> SqlSession:
        raise AssertionError("nobody asks for it")

    @property
    def busy(self) -> bool:
        return not self._answering.is_set()

    async def close(self) -> None:
        pass


class NoUpstream:
    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> Any:
        raise AssertionError("nobody asks for it")


def test_a_session_that_spark_does_not_close_keeps_no_other_open() -> None:
    async def run() -> None:
        answering = asyncio.Event()
        sides = [Side(answering) for _ in range(3)]
        ended: list[Session] = []
        sessions = Sessions(loose_seconds=0.01, on_end=ended.append)
        for number, side in enumerate(sides):
            handle = Handle(bytes([number]) * 16, bytes(16))
            session = Session(handle, 5, "ada", LOGIN, open_session(OPEN), OPEN, Sides(NoUpstream(), 0.0))
            session.anchor(side)
            session.used -= 1.0  # so that the first sweep has them all
            sessions.add(session, sessions.reserve(Principal("ada")), loose=True)
        async with asyncio.timeout(20):
            for side in sides:
                await side.asked.wait()
            assert not ended
            answering.set()
            while len(sessions):  # noqa: ASYNC110 (what is waited for sets no event)
                await asyncio.sleep(0.001)
        assert len(ended) == 3
        await sessions.close()

    asyncio.run(run())
