"""One of several gateways: owns the ports for the life of the process, follows the leader, and leads when it has gone.

While it leads there is a term: a whole gateway, built anew for each term, so that no memory of an earlier one is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from gateway import loops
from gateway.config import Address, ConfigError, version
from gateway.errors import FreshgateError, SparkLost, UpstreamLost
from gateway.gateways.control import HEEDED_SECONDS, ControlLink
from gateway.gateways.election import Act, Election, Event, Follow, OwnTerm, Phase, Registered, Seen
from gateway.mv.catalog.epoch_counts import EpochCounts
from gateway.mv.catalog.fence import OtherGateway, Superseded
from gateway.mv.catalog.presence import SILENT_SECONDS, SUSPECTED_SECONDS, Presence, PresenceMark, Vigil
from gateway.proxy.doorway import Doorway
from gateway.proxy.entrance import Entrance
from gateway.proxy.leader_link import Leader
from gateway.proxy.listener import Listener
from gateway.proxy.page_door import PageDoor, PageHost
from gateway.proxy.relay_gate import RelayGate
from gateway.proxy.ticket_book import Pen
from gateway.wire.member import GatewayRole, Member

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Interval of the leader's looks for its epoch while clients send something. Otherwise its signs of life suffice."""
LOOK_SECONDS = 10.0
"""Interval of a door's looks at the leader's mark while the leader answers."""
SUSPECTING_SECONDS = 0.5
"""The same while it does not, or none is known."""
READY_SECONDS = 15.0
"""How long a leader that is being stopped waits for its successor to be ready, and at most half of
`limits.drain_seconds`."""
MEET_SECONDS = 0.25
"""Interval of its looks for the epoch of its successor after that."""
SPARK_SECONDS = 120.0
"""How long a start waits for a Thrift Server that is not up yet."""


class Watched(Protocol):
    """The mark in the storage database: `mv.catalog.fence.Fence`, which here only looks."""

    def vigil(self) -> Vigil: ...

    async def other(self) -> PresenceMark | None: ...

    async def wait_for_other(self) -> None: ...

    async def examine(self) -> None:
        """Raises FreshgateError for a metastore over which several gateways cannot run."""
        ...


class Register(Protocol):
    """Where gateways say that they lead, and doors see that their leader was lost: `discovery.registration`."""

    def lead(self, mark: str) -> None: ...

    def watch(self, mark: str, report: Callable[[bool], None]) -> None:
        """Reports when the gateway with this mark has gone from there, and when it is there again."""
        ...


class LeadingTerm(Protocol):
    """A gateway that leads: `server.Server`."""

    @property
    def mark(self) -> str: ...

    @property
    def listener(self) -> Listener: ...

    @property
    def page(self) -> PageHost | None:
        """What serves browsers, once it has started."""
        ...

    def member(self) -> Member: ...

    async def prepare(self) -> None:
        """Does what `start` needs, as far as that changes nothing. Raises FreshgateError."""
        ...

    async def start(self) -> None: ...

    async def watch(self) -> None: ...

    async def check(self, *, ask: bool) -> None:
        """Raises Superseded if that is known, or, with `ask`, if Spark says so."""
        ...

    def reload(self) -> None: ...

    async def calm_down(self) -> None:
        """Returns when nothing is under way that `hand_over` would interrupt, or after a few seconds."""
        ...

    async def hand_over(self, acknowledged: Callable[[], Awaitable[None]]) -> None:
        """Gives the epoch up; clients' statements go on. `acknowledged`: returns when the next leader takes for changed
        what they have written."""
        ...

    async def go_on_with(self, tickets: Sequence[bytes], pen: Pen) -> None:
        """Takes over sessions that belong to no connection, whose tickets `pen` writes from now on. Called before
        clients are served."""
        ...

    async def heed(self) -> None:
        """Takes for changed what the leader before may have written. Raises FreshgateError if another one leads."""
        ...

    async def drain(self) -> None: ...

    async def stop(self) -> None: ...


class Probes(Protocol):
    """Answers probes while there is no term: `monitoring.monitor.DoorMonitor`."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Premises:
    """The ports of a node, and what serves there while it does not lead."""

    entrance: Entrance
    """For clients."""
    relays: Entrance
    """For clients that doors pass on."""
    doorway: Doorway
    gate: RelayGate
    monitor: Probes | None
    register: Register | None = None
    page: PageDoor | None = None
    """For browsers."""


class GatewayNode:
    """Binds its ports, starts, drains and stops, as a `server.Server` does."""

    def __init__(
        self,
        premises: Premises,
        watched: Watched,
        open_term: Callable[[], LeadingTerm],
        close_watch: Callable[[], Awaitable[object]],
        drain_seconds: float,
        counts: EpochCounts,
    ) -> None:
        """`close_watch` ends the sessions with which `watched` looks."""
        self._counts = counts
        self._premises = premises
        self._watched = watched
        self._open_term = open_term
        self._close_watch = close_watch
        self._drain_seconds = drain_seconds
        self._vigil = watched.vigil()
        self._election = Election()
        self._since = time.time()
        """When the election has come to this phase, by the machine's clock."""
        self._troubled_at = 0.0
        """When this gateway began to suspect the leader, or to take over, by the event loop's clock."""
        self._found: PresenceMark | None = None
        """What the storage database has said last."""
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._term: LeadingTerm | None = None
        self._prepared: asyncio.Task[LeadingTerm] | None = None
        """The next term, which is being prepared."""
        self._prepared_at = 0.0
        """When that began, by the event loop's clock."""
        self._terms: set[str] = set()
        """The marks of this process's terms."""
        self._control: ControlLink | None = None
        self._ending = loops.BackgroundTasks("the end of a term")
        self._meeting: asyncio.Task[None] | None = None
        """Looks for the gateway to which this one has handed over."""
        self._sent = 0
        """Bytes that clients had sent to this term at the last look at its epoch."""
        self._failure: FreshgateError | None = None
        self._loop = loops.Loop("the election", self._turn)
        self._problem = loops.BackOff("cannot look at the mark of the leading gateway", 1.0, 1.0)
        """Of the looks at the mark."""

    @property
    def leads(self) -> bool:
        return self._election.phase is Phase.LEADING

    def member(self) -> Member:
        """What this gateway says of itself."""
        if self._term is not None and self.leads:
            return self._term.member()
        found = self._found
        role = GatewayRole.__members__.get(self._election.phase.name, GatewayRole.DOOR)
        if self._election.heir and self._prepared is not None and self._prepared.done():
            role = GatewayRole.SUCCESSOR
        return Member(
            str(self._premises.relays.address),
            role,
            found.epoch if found is not None and found.mark == self._election.mark else 0,
            round(self._since * 1000),
            self._premises.doorway.clients,
            version(),
        )

    @property
    def ports(self) -> Sequence[int]:
        """The client ports in use."""
        return self._premises.entrance.numbers

    async def bind(self) -> None:
        """Takes the ports. Clients wait there until this gateway leads or follows. Raises PortUnavailable."""
        await self._premises.relays.bind(self._premises.gate)
        try:
            await self._premises.entrance.bind(self._premises.doorway)
        except OSError:
            self._premises.relays.close()
            raise

    async def watch(self) -> None:
        """Answers probes, even before clients are served. Raises FreshgateError if it cannot listen."""
        if self._premises.monitor is not None:
            await self._premises.monitor.start()

    async def start(self) -> None:
        """Returns when this gateway leads, or follows another one. Raises FreshgateError if it can do neither."""
        if self._premises.page is not None:
            await self._premises.page.start()
        await self._first_look()
        while not (self.leads or self._election.mark):
            await self._turn()
            if self._failure is not None and not isinstance(self._failure, Superseded):
                raise self._failure
        self._premises.entrance.open()
        self._loop.start()

    async def _first_look(self) -> None:
        """Waits for a Thrift Server that is not up yet. Raises OtherGateway for a gateway that takes no relayed
        clients."""
        deadline = asyncio.get_running_loop().time() + SPARK_SECONDS
        backoff = loops.BackOff("waiting for Spark", 1.0, 1.0)
        while True:
            try:
                await self._watched.examine()
                found = await self._watched.other()
                if found is not None and not found.relay:
                    await self._watched.wait_for_other()
                return
            except (UpstreamLost, SparkLost) as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                backoff.note(error)
                await backoff.pause()

    def reload(self) -> None:
        """Loads certificates that were replaced."""
        self._premises.entrance.renew_certificates()
        if self._term is not None:
            self._term.reload()

    async def drain(self) -> None:
        """Takes no new clients. A leader hands over, and its statements may end; a door's clients may leave."""
        await self._loop.stop()
        if self._term is not None and self.leads:
            if await self._premises.gate.find_successor(min(READY_SECONDS, self._drain_seconds / 2)):
                await self._hand_over(self._term)
            await self._term.drain()
            return
        self._premises.entrance.close()
        log.info("stopping when the clients have left; a second signal stops at once")
        await self._premises.doorway.drain(self._drain_seconds)

    async def stop(self) -> None:
        """Closes clients, and ends a term."""
        await self._loop.stop()
        if self._meeting is not None:
            self._meeting.cancel()
        self._unwatch()
        self._discard()
        self._premises.entrance.close()
        self._premises.doorway.close()
        if self._premises.page is not None:
            await self._premises.page.stop()
        if self._term is not None:
            await self._term.stop()
        await self._unmonitor()
        await self._ending.finish(self._drain_seconds)
        # Only now: doors that see this closed take it for the end of the process.
        self._premises.relays.close()
        self._premises.gate.close()
        await self._close_watch()

    async def _hand_over(self, term: LeadingTerm) -> None:
        """Lets a door take over. Clients of other doors wait there meanwhile."""
        log.info("handing over to another gateway")
        await term.calm_down()
        self._premises.gate.hold()
        self._premises.entrance.close(tied_only=True)
        await term.hand_over(self._heeded)
        self._election, _ = self._election.after(OwnTerm.YIELDED)
        self._premises.gate.close()
        self._meeting = asyncio.get_running_loop().create_task(self._meet())
        loops.heard(self._meeting, "looking for the next gateway")

    async def _meet(self) -> None:
        """Connects to the gateway that leads now, so that ends of writes can be told."""
        while True:
            with contextlib.suppress(FreshgateError):
                found = await self._watched.other()
                if found is not None and found.relay and not found.ended and found.mark not in self._terms:
                    leader = Leader(found.mark, Address.parse(found.relay))
                    control = ControlLink(leader, self._premises.doorway.trust, self.member, lambda _: None)
                    control.start()
                    self._control = control
                    return
            await asyncio.sleep(MEET_SECONDS)

    async def _heeded(self) -> None:
        """Returns when the gateway that leads now takes for changed what has been written so far. Raises
        FreshgateError."""
        if self._meeting is None:
            raise FreshgateError("No gateway has taken over yet.")
        try:
            async with asyncio.timeout(HEEDED_SECONDS):
                await asyncio.shield(self._meeting)
        except TimeoutError:
            raise FreshgateError("No gateway has taken over yet.") from None
        assert self._control is not None
        await self._control.heeded()

    # --- turns -------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Waits for an event, or looks at the mark when it is time, and does what follows."""
        event: Event | None
        try:
            async with asyncio.timeout(self._seconds):
                event = await self._events.get()
        except TimeoutError:
            event = await self._look()
        while event is not None:
            phase = self._election.phase
            self._election, decision = self._election.after(event)
            self._note_phase(phase)
            event = None
            self._be_a_door()
            match decision:
                case Follow():
                    self._follow(decision)
                case Act.LOOK:
                    event = await self._look()
                case Act.CAMPAIGN:
                    event = await self._campaign()
                case Act.PREPARE:
                    self._prepare()
                    self._say_ready()
                case Act.RETIRE:
                    self._retire()

    def _note_phase(self, before: Phase) -> None:
        phase = self._election.phase
        if phase is before:
            return
        self._since = time.time()
        if phase is Phase.SUSPECTING or (phase is Phase.CANDIDATE and before is not Phase.SUSPECTING):
            self._troubled_at = asyncio.get_running_loop().time()
        elif phase is Phase.LEADING:
            self._counts.takeover_seconds.add(asyncio.get_running_loop().time() - self._troubled_at)

    @property
    def _seconds(self) -> float:
        """The interval of looks."""
        if self.leads:
            return CHECK_SECONDS
        calm = self._election.phase is Phase.DOOR and self._election.linked
        return LOOK_SECONDS if calm else SUSPECTING_SECONDS

    async def _look(self) -> Event | None:
        """Looks at the mark. Returns None if there is nothing new, or Spark does not answer."""
        for each in (self._premises.entrance, self._premises.relays):
            each.renew_certificates()
        try:
            if self.leads:
                await self._check()
                return None
            found = self._found = await self._watched.other()
        except Superseded:
            return OwnTerm.SUPERSEDED
        except FreshgateError as error:
            self._problem.note(error)
            return None
        self._problem.reset()
        suspected = self._election.phase is Phase.SUSPECTING
        presence = self._vigil.note(found, SUSPECTED_SECONDS if suspected else SILENT_SECONDS)
        if found is None or found.mark in self._terms:
            return Seen("", "", Presence.GONE)
        return Seen(found.mark, found.relay, presence)

    async def _check(self) -> None:
        """Raises Superseded if another gateway leads. Asks Spark only if clients have sent something since."""
        assert self._term is not None
        sent = self._term.listener.traffic.from_clients
        await self._term.check(ask=sent != self._sent)
        self._sent = sent
        self._problem.reset()

    def _follow(self, decision: Follow) -> None:
        self._unwatch()
        try:
            leader = Leader(decision.mark, Address.parse(decision.relay))
        except ConfigError:
            log.warning("another gateway has taken over, which takes no relayed clients: set gateways.enabled there")
            self._premises.doorway.lead_to(None)
            return
        log.info("following the gateway that leads at %s", leader.relay)
        self._premises.doorway.lead_to(leader)
        trust, book = self._premises.doorway.trust, self._premises.gate.book
        self._control = ControlLink(leader, trust, self.member, self._events.put_nowait, book)
        self._control.start()
        if self._premises.register is not None:
            self._premises.register.watch(leader.mark, partial(self._note_registered, leader.mark))

    def _note_registered(self, mark: str, present: bool) -> None:
        log.info("the gateway that leads %s ZooKeeper", "is in" if present else "has left")
        self._events.put_nowait(Registered(mark, present))

    def _be_a_door(self) -> None:
        """Leaves the clients of a gateway that is being stopped to it. Prepares a term once there is a leader."""
        if self._election.leaving and (leader := self._premises.doorway.leader) is not None:
            self._premises.doorway.spare(leader)
        if self._election.linked and self._election.phase is Phase.DOOR:
            self._prepare()

    def _prepare(self) -> None:
        """Prepares a term, unless that was done, or failed a moment ago."""
        now = asyncio.get_running_loop().time()
        if self._prepared is None or (_has_failed(self._prepared) and now - self._prepared_at > LOOK_SECONDS):
            self._prepared_at = now
            self._prepared = asyncio.get_running_loop().create_task(self._prepared_term())
            self._prepared.add_done_callback(lambda _: self._say_ready())
            loops.heard(self._prepared, "preparing to take over")

    async def _prepared_term(self) -> LeadingTerm:
        term = self._open_term()
        try:
            await term.prepare()
        except BaseException:  # Also on cancellation: what the term has opened must be closed.
            await term.stop()
            raise
        return term

    def _say_ready(self) -> None:
        """Tells the leader at once, if it waits for that."""
        if self._control is not None and self._election.heir:
            self._control.say()

    def _discard(self) -> None:
        """Drops a term that was prepared."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return
        if not prepared.done():
            prepared.cancel()
            self._ending.begin(_over(prepared))
        elif not _has_failed(prepared):
            self._ending.begin(prepared.result().stop())

    async def _next_term(self) -> LeadingTerm:
        """The term that was prepared, or a new one."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            try:
                return await prepared
            except Exception as error:  # A bug in what is only to save time must not keep this gateway from leading.
                log.warning("could not prepare to take over: %s", error)
        return self._open_term()

    def _unwatch(self) -> None:
        if self._control is not None:
            self._control.stop()
            self._control = None

    async def _campaign(self) -> OwnTerm:
        """Begins a term."""
        self._unwatch()
        self._premises.doorway.lead_to(None)
        self._failure = None
        log.info("no gateway leads: this one takes over")
        term = self._term = await self._next_term()
        self._terms.add(term.mark)
        if self._premises.register is not None:
            self._premises.register.lead(term.mark)
        self._premises.gate.begin(Leader(term.mark, self._premises.relays.address))
        try:
            await term.start()
        except FreshgateError as error:
            self._failure = error
            if isinstance(error, Superseded | OtherGateway):
                log.info("another gateway has taken over at the same moment")
            else:
                log.warning("could not take over: %s", error)
            self._term = None
            self._premises.gate.close()
            await term.stop()
            return OwnTerm.FAILED
        await term.go_on_with(*self._premises.gate.book.opened())
        self._premises.gate.heed = term.heed
        self._premises.gate.open(term.listener, term.page)
        self._premises.doorway.hand_over(term.listener)
        await self._unmonitor()
        await term.watch()
        log.info("this gateway leads")
        return OwnTerm.WON

    async def _unmonitor(self) -> None:
        if self._premises.monitor is not None:
            await self._premises.monitor.stop()

    def _retire(self) -> None:
        """Ends the term, and is a door meanwhile."""
        log.warning("another gateway leads now: this one passes its clients on")
        assert self._term is not None
        term, self._term = self._term, None
        self._premises.gate.book.close()
        self._premises.entrance.host = self._premises.doorway
        self._premises.doorway.lead_to(None)
        self._premises.gate.close()
        self._ending.begin(self._end(term))

    async def _end(self, term: LeadingTerm) -> None:
        try:
            await term.stop()
            await self.watch()
        finally:
            self._events.put_nowait(OwnTerm.ENDED)


def _has_failed(task: asyncio.Task[LeadingTerm]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _over(task: asyncio.Task[LeadingTerm]) -> None:
    """Returns when the task is over, however it ends."""
    await asyncio.wait([task])
