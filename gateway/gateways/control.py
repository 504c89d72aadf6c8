"""The connection by which a door watches the leader, and tells it what it is.

Tests: `test_node`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.gateways.election import Linked, Silent, Vacant
from gateway.proxy.leader_link import Leader, LeaderLink, NotLeading, NotServing, Trust, Unreachable, connect
from gateway.wire.member import Member
from gateway.wire.preface import Preface, Role

log = logging.getLogger(__name__)

PING_SECONDS = 1.0
SILENT_SECONDS = 3.0
"""A leader that has not answered for so long is suspected."""
RETRY_SECONDS = 0.5


class ControlLink:
    """Reports whether the leader answers, from `start` to `stop`."""

    def __init__(
        self,
        leader: Leader,
        trust: Trust,
        describe: Callable[[], Member],
        report: Callable[[Linked | Silent | Vacant], None],
    ) -> None:
        """`describe`: what the leader is told of this gateway."""
        self._leader = leader
        self._trust = trust
        self._describe = describe
        self._report = report
        self._task: asyncio.Task[None] | None = None
        self._link: LeaderLink | None = None
        self._answered = 0.0
        self._gone = asyncio.Event()
        self._told = ""

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="watching the leader")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._link is not None:
            self._link.abort()

    async def _watch(self) -> None:
        mark = self._leader.mark
        while True:
            try:
                self._link = await connect(self._leader, self._trust, Preface(Role.CONTROL, self._leader.name))
                self._link.attach(self, 1 << 16)
            except NotLeading as error:
                self._tell(str(error))
                self._report(Vacant(mark))
            except (Unreachable, NotServing) as error:
                self._tell(str(error))
                self._report(Silent(mark))
            else:
                self._tell("")
                self._report(Linked(mark))
                await self._ping(self._link)
                continue  # At once: a leader that was killed is noticed by the next attempt.
            await asyncio.sleep(RETRY_SECONDS)

    async def _ping(self, link: LeaderLink) -> None:
        """Returns when the connection is lost."""
        loop = asyncio.get_running_loop()
        self._answered = loop.time()
        self._gone.clear()
        while not self._gone.is_set():
            link.say(self._describe())
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await self._gone.wait()
            except TimeoutError:
                if loop.time() - self._answered > SILENT_SECONDS:
                    self._tell("The leading gateway does not answer.")
                    self._report(Silent(self._leader.mark))
                elif self._told:
                    self._tell("")
                    self._report(Linked(self._leader.mark))

    def _tell(self, problem: str) -> None:
        """Logs what has changed."""
        if problem != self._told:
            log.log(logging.WARNING if problem else logging.INFO, "%s", problem or "the leading gateway answers")
            self._told = problem

    # --- `leader_link.LeaderReceiver` --------------------------------------------------------------------------

    def leader_data(self, data: bytes) -> None:
        self._answered = asyncio.get_running_loop().time()

    def leader_writable(self, writable: bool) -> None:
        """What is said is short; a leader that reads nothing of it is silent."""

    def leader_gone(self) -> None:
        self._gone.set()
