"""Clients: each has a session and one statement at a time, which goes the way of `service.dispatch`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from gateway.errors import FreshgateError, StatementFailed, UpstreamLost
from gateway.mv.refresh.progress import Lines
from gateway.service.clients.session import Session
from gateway.service.operations.operation import End, ForwardedOperation
from gateway.service.routing.underway import Underway
from gateway.service.routing.ways import Own, RefreshFirst, Way
from gateway.service.routing.ways import sent as as_sent
from sql.understood import Understood
from world.assembly import Gateway, context_of
from world.oracle import Read, Write
from world.spark import Over, SimulatedSession, Statement

if TYPE_CHECKING:
    from world.world import World


@lru_cache(maxsize=10_000)
def _read(text: str) -> Understood:
    """Once, though it comes again in many histories."""
    return Understood(text)


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement, and what is to be told of it to the oracle."""

    text: str
    read: Read | None
    write: Write | None
    waits: bool = True
    leaves: bool = False
    """It is synchronous, and its connection breaks at once."""


class Client:
    """One person at a gateway; at another gateway, or after Spark was lost, in a session of its own."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.said = ""
        """What became of its last statement."""
        self.rests_until = 0.0
        """It sends nothing before."""
        self._world = world
        self._gateway: Gateway | None = None
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._running: Statement | None = None
        self._sent: Sent | None = None

    @property
    def busy(self) -> bool:
        return self._task is not None

    @property
    def at(self) -> Gateway | None:
        """The gateway at which its statement is."""
        return self._gateway if self._task is not None else None

    # --- what a history has it do ------------------------------------------------------------------

    def begin(self, gateway: Gateway, text: str, *, read: Read | None = None, write: Write | None = None) -> None:
        """Sends a statement now, and waits for its end."""
        self._send(gateway, Sent(text, read, write))

    def fire(self, gateway: Gateway, text: str, write: Write) -> None:
        """Sends a statement now, and never asks what has become of it."""
        self._send(gateway, Sent(text, None, write, waits=False))

    def leave(self, gateway: Gateway, text: str, write: Write) -> None:
        """Sends a synchronous statement now, and breaks the connection."""
        self._send(gateway, Sent(text, None, write, leaves=True))

    def _send(self, gateway: Gateway, sent: Sent) -> None:
        session = self._session_at(gateway)
        self._sent = sent
        self._world.tell(self.name, f"{sent.text}  (at {gateway.name}{'' if sent.waits else ', and asks no more'})")
        self.said = "cancelled"
        execution = self._execute(gateway, session, sent)
        self._task = task = self._world.loop.create_task(execution, context=context_of(gateway))
        task.add_done_callback(lambda done: self._over(done, sent))

    def cancel(self) -> None:
        """CancelOperation, or the client goes while its statement waits in the gateway."""
        running, self._running = self._running, None
        if running is not None and running.future is not None:
            future = running.future
            self._world.spark.cancel(running)
            if running.synchronous:
                self._session = None
            if not future.done():
                future.set_exception(StatementFailed("The statement was ended before its end (canceled).", "HY008"))
        elif self._task is not None:
            self._task.cancel()

    def lost(self) -> None:
        """Its gateway is no more."""
        if self._sent is not None and self._task is not None:
            self._world.tell(self.name, f"{self._sent.text}: its connection is lost")
        self._task = self._session = self._running = None

    # --- at the gateway ----------------------------------------------------------------------------

    def _session_at(self, gateway: Gateway) -> Session:
        if self._gateway is not gateway or self._session is None:
            self._gateway = gateway
            self._session = gateway.open_session(self.name)
        return self._session

    async def _execute(self, gateway: Gateway, session: Session, sent: Sent) -> None:
        try:
            await self._decided(gateway, session, sent)
            self.said = "done"
        except FreshgateError as error:
            self.said = f"{error.sqlstate} {error}"
            self._world.failed(sent.text, error, gateway)
        except Over:
            pass
        except Exception as error:  # anything but an error for clients is a fault
            self._world.violate(f"{sent.text} ends with {error!r}")
            self._world.trace(error)

    def _over(self, task: asyncio.Task[None], sent: Sent) -> None:
        if self._task is task:
            self._world.tell(self.name, f"{sent.text}: {self.said}")
            self._task = None

    async def _decided(self, gateway: Gateway, session: Session, sent: Sent) -> None:
        if self._world.several:
            await self._led(gateway)
        known = _read(sent.text)
        way: Way | None = gateway.router.plain(session, known)
        if way is None:
            way = await gateway.router.consider(session, known)
        report = Lines(lambda line: self._world.tell(self.name, line))
        if isinstance(way, Own):
            await gateway.own.execute(way, session, report)
            return
        underway = gateway.effects.begin(session, as_sent(way))
        if isinstance(way, RefreshFirst):
            await self._refreshed(gateway, way, underway, report)
        answer = None if sent.read is None else await self._known(gateway, underway)
        if sent.read is not None and answer is not None:
            self._world.tell(self.name, f"{sent.text} is answered from memory")
            underway.abandon(End.SUCCEEDED)
            first, storage, rows = answer
            self._world.oracle.end_read(sent.read, storage, rows, first)
            return
        try:
            await self._at_spark(gateway, session, underway, sent)
        except asyncio.CancelledError:  # The client goes when its statement has ended and its rows are not all read.
            underway.abandon()
            raise

    async def _known(self, gateway: Gateway, underway: Underway) -> tuple[Read, str, dict[Any, Any]] | None:
        """As `Executions._known`."""
        if (source := underway.send.repeatable) is None or not await gateway.router.answers_hold():
            return None
        return gateway.answers.get(source)

    async def _refreshed(self, gateway: Gateway, first: RefreshFirst, underway: Underway, report: Lines) -> None:
        try:
            underway.departs(await gateway.router.prepare(first, report))
            gateway.router.check_again(first)
        except BaseException:
            underway.abandon(End.FAILED)
            raise

    async def _at_spark(self, gateway: Gateway, session: Session, underway: Underway, sent: Sent) -> None:
        """As `Dispatch._forward` and `_started`: what is noted of a reply is noted when the client has it."""
        synchronous = sent.leaves or (sent.write is not None and sent.waits and self._world.choices.once_in(2))
        source, text = underway.send.repeatable, underway.send.text or sent.text
        underway.sent(synchronous=synchronous)
        spark = self._world.spark
        try:
            at_spark = spark.sessions.get(session.upstream_handle.guid)
            if at_spark is None:
                raise UpstreamLost("Spark went away.")
            self._running = running = spark.submit(at_spark, text)
            running.write, running.synchronous = sent.write, synchronous
            future = running.future
            assert future is not None
            if sent.leaves:
                self.cancel()
            if not sent.waits:
                self._watched(underway, at_spark, future, sent)
                return
            answer = await future
        except UpstreamLost:
            self._session = None
            self._ended(underway, End.UNKNOWN, sent)
            underway.closed()
            raise
        except StatementFailed as error:
            self._ended(underway, End.UNKNOWN if error.sqlstate == "HY008" else End.FAILED, sent)
            underway.closed()
            raise
        finally:
            self._running = None
        self._ended(underway, End.SUCCEEDED, sent)
        if self._world.several and sent.write is not None:
            await self._confirmed(gateway)
            sent.write.told = True
        await self._world.moment()
        if sent.read is not None and running.reads and gateway.alive:
            if source is not None:
                gateway.answers[source] = sent.read, running.reads, dict(answer)
            self._world.oracle.end_read(sent.read, running.reads, dict(answer))
        underway.closed()

    def _ended(self, underway: Underway, end: End, sent: Sent) -> None:
        underway.ended(end)
        if sent.write is not None:
            sent.write.heard = True

    async def _led(self, gateway: Gateway) -> None:
        """As `Leadership.then`."""
        await gateway.fence.sure()

    async def _confirmed(self, gateway: Gateway) -> None:
        """As `Leadership.confirmed`."""
        await gateway.acknowledged()

    def _watched(self, underway: Underway, at_spark: SimulatedSession, ends: asyncio.Future[Any], sent: Sent) -> None:
        """As `Executions.watched`: nobody asks about it but the gateway, where that needs to know."""
        operation = ForwardedOperation(self._world.spark.operation_of(at_spark, sent.text, ends).handle)
        ends.add_done_callback(partial(self._heard, operation))
        underway.started(operation)
        if sent.write is not None:
            sent.write.running = ends

    def _heard(self, operation: ForwardedOperation, done: asyncio.Future[object]) -> None:
        """Whoever does not ask hears of nothing but the end of the connection: the gateway closes it, too."""
        if not done.cancelled() and isinstance(done.exception(), UpstreamLost):
            self._session = None
            operation.end(End.UNKNOWN)
