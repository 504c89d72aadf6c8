"""The connection by which a door watches the leader, and tells it what it is.

Tests: `test_node`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from gateway.errors import FreshgateError
from gateway.gateways.election import Leaving, Linked, Silent, Vacant
from gateway.proxy.leader_link import Leader, LeaderLink, NotLeading, NotServing, Trust, Unreachable, connect
from gateway.proxy.relay_gate import HEEDED, LEAVING, SUCCEED
from gateway.proxy.ticket_book import TicketBook
from gateway.wire.frame import WireError
from gateway.wire.member import GatewayRole, Member
from gateway.wire.preface import NOTE, Preface, Role

log = logging.getLogger(__name__)

PING_SECONDS = 1.0
SILENT_SECONDS = 3.0
"""A leader that has not answered for so long is suspected."""
RETRY_SECONDS = 0.5
HEEDED_SECONDS = 10.0
"""How long the next leader may take to heed what this gateway has yielded to it. It may be about to take over."""

Report = Linked | Silent | Vacant | Leaving


class ControlLink:
    """Reports whether the leader answers, from `start` to `stop`."""

    def __init__(
        self,
        leader: Leader,
        trust: Trust,
        describe: Callable[[], Member],
        report: Callable[[Report], None],
        book: TicketBook | None = None,
    ) -> None:
        """`describe`: what the leader is told of this gateway. `book`: copies what the leader says of sessions."""
        self._leader = leader
        self._trust = trust
        self._describe = describe
        self._report = report
        self._book = book if book is not None else TicketBook()
        self._task: asyncio.Task[None] | None = None
        self._link: LeaderLink | None = None
        self._answered = 0.0
        self._linked = asyncio.Event()
        self._asked: deque[asyncio.Future[None]] = deque()
        """Who waits for the leader to heed what was yielded, in the order in which they have asked."""
        self._gone = asyncio.Event()
        self._told = ""

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="watching the leader")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._link is not None:
            self._link.abort()
        self._disappoint()

    def say(self) -> None:
        """Tells the leader at once what this gateway is."""
        if self._link is not None and self._linked.is_set():
            self._link.say(self._describe())

    async def heeded(self) -> None:
        """Returns when the leader takes for changed whatever the statements of this gateway's clients have written
        before this call, and has led after that. Raises FreshgateError if it does not answer."""
        try:
            async with asyncio.timeout(HEEDED_SECONDS):
                while True:
                    await self._linked.wait()
                    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._asked.append(asked)
                    assert self._link is not None
                    self._link.say(replace(self._describe(), role=GatewayRole.YIELDED))
                    try:
                        return await asked
                    except Unreachable:
                        await asyncio.sleep(RETRY_SECONDS)
        except TimeoutError:
            raise FreshgateError("The gateway that leads now has not answered.") from None

    def _disappoint(self) -> None:
        self._linked.clear()
        while self._asked:
            if not (asked := self._asked.popleft()).done():
                asked.set_exception(Unreachable("The leading gateway closed the connection."))

    async def _watch(self) -> None:
        mark = self._leader.mark
        while True:
            try:
                self._link = await connect(self._leader, self._trust, Preface(Role.CONTROL, self._leader.name))
                self._book.begin_copy()
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
                self._linked.set()
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
        if self._link is None:
            return
        try:
            for each in self._link.heard(data):
                self._hear(each)
        except WireError as error:
            log.error("the connection to the leading gateway is closed: %s", error)
            self._link.abort()
            self.leader_gone()

    def _hear(self, said: bytes) -> None:
        """Raises WireError."""
        if said.startswith(NOTE):
            self._book.copy(said[len(NOTE) :])
        elif said == HEEDED and self._asked:
            if not (asked := self._asked.popleft()).done():
                asked.set_result(None)
        elif said in (LEAVING, SUCCEED):
            self._report(Leaving(self._leader.mark, heir=said == SUCCEED))

    def leader_writable(self, writable: bool) -> None:
        """What is said is short; a leader that reads nothing of it is silent."""

    def leader_gone(self) -> None:
        self._disappoint()
        self._gone.set()
