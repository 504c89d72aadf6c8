"""A world: Spark, gateways, clients and what happens to them, one event after the other as a history's choices say."""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.model.view import Freshness
from world.actions import Action
from world.assembly import Gateway, context_of
from world.choices import Choices
from world.client import Client
from world.edges import Edges
from world.loop import RATES, Loop
from world.narration import words
from world.oracle import OUTSIDE, Oracle, Write
from world.shapes import Shape
from world.spark import Armed, Fault, Over, SimulatedSpark, Statement
from world.tables import Table

NURSERY, HISTORY = 1_000.0, 5_000.0
"""When views are created, and when histories begin, in seconds of the loop."""
STEPS_MAX = 10_000
"""Of one history; one that takes more does not end."""
PACES = (8, 3, 20)
CANCELLATIONS_MAX = 20
"""How often a task is cancelled at the end of a history."""
TURNS_MAX = 2_000
"""Callbacks between two events."""
SPOILS = ("spoil", "lose", "drop", "grow")
"""What is done to stored rows past the gateways."""
TICK = 0.001
"""Seconds that each event takes."""
STAYS_SECONDS = 40.0
"""Longer than looks are trusted."""
HEEDED_SECONDS, HEEDED_LOOK_SECONDS = 10.0, 0.5
"""How long a gateway that has handed over waits for the next one before it tells an end, and how often it looks."""
TAKEOVER_SECONDS = 10.0
"""So soon after a leader was killed all views have been read."""
CLEAN_SECONDS = 1500.0
"""After so long nothing is left that nobody needs: ten minutes after a start, and half a minute after that."""


class Violated(Exception):
    """Something was so that must never be."""


class World:
    """The simulated world of one history."""

    def __init__(
        self,
        shape: Shape,
        edges: Edges,
        choices: Choices,
        *,
        began: float = HISTORY,
        tell: bool = False,
        several: bool = False,
    ) -> None:
        """`several`: gateways wait for their turn, and only the one that leads serves clients."""
        self.loop = Loop(began)
        self._began = began
        edges.begin(self.loop, int(began))
        self.choices = choices
        self.shape = shape
        self.tuning = shape.tuning
        self.metastore = shape.metastore.copy()
        self.spark = SimulatedSpark(self, self.metastore, caches=shape.caches)
        self.oracle = Oracle(self)
        self.gateways: list[Gateway] = []
        self.clients = {name: Client(self, name) for name in ("ada", "bob", "eve")}
        self.violations: list[str] = []
        self.story: list[str] = []
        self.several = several
        self._tells = tell
        self._queues: dict[str, deque[Action]] = {}
        self._moments: list[asyncio.Future[None]] = []
        self._dead: set[str] = set()
        self._leaving: list[Gateway] = []
        """Those that have handed over, or are about to."""
        self._starts = 0
        self._tokens = 100
        self.calm = self.over = False
        self._pace = PACES[choices.of(len(PACES))]
        """Once in so many steps something new begins while something is under way, and as often time passes."""

    # --- what is said ------------------------------------------------------------------------------

    def tell(self, who: str, what: str) -> None:
        if self._tells:
            self.story.append(f"{self.loop.now - self._began:9.3f}  {who}: {what}")

    def violate(self, what: str) -> None:
        self.tell("WRONG", what)
        self.violations.append(what)

    def trace(self, error: BaseException) -> None:
        if self._tells:
            self.story.extend(traceback.format_exception(error))

    def failed(self, text: str, error: FreshgateError, gateway: Gateway) -> None:
        """A client's statement has ended with an error. Readers at a gateway that another one has taken over from are
        protected by the retention time alone, as those that go directly to Spark."""
        broken = error.sqlstate == "KD001" and gateway is self.gateways[-1] and not self.oracle.spoilt
        if broken or error.sqlstate == "58005" or len(error.sqlstate) != 5:
            self.violate(f"{text} ends with {error.sqlstate} {error}")

    def epoch_of(self, gateway: str) -> str | None:
        """The epoch of a gateway; None: it has none yet."""
        fences = [each.fence.epoch_view for each in self.gateways if each.name == gateway]
        return next((f"{epoch.database}.{epoch.table}" for epoch in fences if epoch is not None), None)

    def is_dead(self, gateway: str) -> bool:
        return gateway in self._dead

    def committed(self, running: Statement, table: Table) -> None:
        """A client's write has changed its table."""
        if running.write is not None:
            running.write.state = len(table.states) - 1

    async def moment(self) -> None:
        """Returns at once, or when others have done something."""
        if self.choices.of(4) == 3:
            self._moments.append(future := self.loop.create_future())
            await future

    # --- events ------------------------------------------------------------------------------------

    def play(self, actions: list[Action]) -> None:
        """Does what a history says, and then what must be possible in the end. Raises Violated."""
        for action in actions:
            self._queues.setdefault(action.actor, deque()).append(action)
        with self.loop.running():
            try:
                self._start()
                self._until(lambda: not any(self._queues.values()) and self._idle())
                self._end_well()
                self._checked()
            finally:
                self._abandon()

    def prepare(self, texts: Iterable[str]) -> None:
        """Has a gateway serve, ada run these statements, and the gateway end in order. Raises Violated."""
        with self.loop.running():
            self._start()
            self._until(self._idle)
            for text in texts:
                gateway = self._serving()
                assert gateway is not None
                self.clients["ada"].begin(gateway, text)
                self._until(self._idle)
            stopping = self.loop.create_task(self.gateways[0].stop())
            self._until(stopping.done)
            self._abandon()

    def _idle(self) -> bool:
        return not any(client.busy for client in self.clients.values()) and self._serving() is not None

    def _until(self, over: Callable[[], bool]) -> None:
        for _ in range(STEPS_MAX):
            self._run_ready()
            self._checked()
            if over():
                return
            self._next_event()
        raise Violated("it comes to no end")

    def _run_ready(self) -> None:
        """Callbacks that are ready, all or some of them, before the next event."""
        loop = self.loop
        if loop.ready:
            few = self.choices.of(8) - 4
            left = few if few > 0 else TURNS_MAX
            while loop.ready and left:
                loop.step()
                left -= 1
            if few <= 0 and loop.ready:
                raise Violated("a task is busy without end, and asks Spark nothing")

    def _next_event(self) -> None:
        """What happens next: a step of what is under way, something new, or the time passes until something waits no
        longer."""
        going, new, timer = list(self._going_on()), list(self._new()), self._timer()
        if not (going or new or timer is not None):
            if not self.loop.ready:
                raise Violated("everybody waits for ever")
            return
        self.loop.pass_time(self.loop.now + TICK)
        chosen = self.choices.of(self._pace)
        if timer is not None and (chosen == self._pace - 2 or not (going or new)):
            self.loop.pass_time(timer)
        elif events := new if new and (chosen == self._pace - 1 or not going) else going:
            events[self.choices.of(len(events))]()

    def _going_on(self) -> Iterator[Callable[[], None]]:
        """The steps of what is under way, the oldest first."""
        for running in self.spark.running:
            if not running.is_slow and running.rests_until <= self.loop.now:
                yield partial(self._step, running)
        for future in self._moments:
            yield partial(self._end_moment, future)

    def _new(self) -> Iterator[Callable[[], None]]:
        """What an actor may begin, and the steps of what is slow or late: after much else, or after little."""
        for running in self.spark.running:
            if running.is_slow and running.rests_until <= self.loop.now:
                yield partial(self._step, running)
        for actor, queue in self._queues.items():
            if queue and self._may_act(actor):
                yield partial(self._act, queue)

    def _timer(self) -> float | None:
        """The next moment for which something waits; None where Spark must do something before."""
        timer = None if self.loop.ready else self.loop.next_timer()
        if timer is None or not self.spark.running:
            return timer
        return timer if timer < min(running.deadline for running in self.spark.running) else None

    def _step(self, running: Statement) -> None:
        if self._tells:
            who = running.gateway if running.future is not None else "Spark, late"
            more = " (goes on)" if running.steps is not None else ""
            fault = f", and {running.fault.value}" if running.fault is not None and not more else ""
            self.tell(who, f"{words(running.text)}{more}{fault}")
        self.spark.step(running)

    def _end_moment(self, future: asyncio.Future[None]) -> None:
        self._moments.remove(future)
        if not future.done():
            future.set_result(None)

    def _checked(self) -> None:
        if self.violations:
            raise Violated(self.violations[0])
        for complaint in self.loop.complaints:
            error = complaint.get("exception")
            if not isinstance(error, Over):
                raise Violated(f"{complaint.get('message')}: {error!r}")
        self.loop.complaints.clear()

    # --- actions -----------------------------------------------------------------------------------

    def _may_act(self, actor: str) -> bool:
        action = self._queues[actor][0]
        if action.verb == "cancel":
            # Only what runs can be cancelled; a client that does nothing more is not waited for.
            return self.clients[action.subject].busy or not self._queues.get(action.subject)
        client = self.clients.get(actor)
        if client is None:
            return True
        return not client.busy and client.rests_until <= self.loop.now and self._is_served(actor)

    def _is_served(self, actor: str) -> bool:
        """Whether a gateway takes what a client sends: ada stays at the first one, doors hold the others."""
        serving = self._serving()
        return serving is not None and (not self.several or actor == "ada" or serving is self.gateways[-1])

    def _serving(self) -> Gateway | None:
        return next((gateway for gateway in reversed(self.gateways) if gateway.serves and gateway.alive), None)

    def _act(self, queue: deque[Action]) -> None:
        action = queue.popleft()
        client = self.clients.get(action.actor)
        if client is not None:
            self._act_as(client, action)
        elif action.actor == OUTSIDE:
            self.tell(OUTSIDE, f"{action.verb} {action.subject}")
            self._change(action)
        else:
            self.tell("fate", action.told)
            self._befall(action)

    def _act_as(self, client: Client, action: Action) -> None:
        serving = [gateway for gateway in self.gateways if gateway.serves and gateway.alive]
        gateway = serving[0 if client.name == "ada" else -1]
        name = action.subject
        if action.verb == "rest":
            client.rests_until = self.loop.now + action.number
            self.loop.wake(client.rests_until)
        elif action.verb == "read":
            client.begin(gateway, f"SELECT * FROM {name}", read=self.oracle.begin_read(name, gateway.name))
        elif action.verb == "ask":
            self.oracle.may_lose(action.text)
            client.begin(gateway, action.text)
        else:
            write = Write(gateway.name, name)
            self.oracle.writes.append(write)
            if action.verb == "fire":
                client.fire(gateway, self._text(action), write)
            elif action.verb == "leave":
                client.leave(gateway, self._text(action), write)
            else:
                client.begin(gateway, self._text(action), write=write)

    def _text(self, action: Action) -> str:
        if action.verb == "truncate" or action.removes:
            return f"TRUNCATE TABLE {action.subject}"
        self._tokens += 1
        partition = f"'{action.partition}', " if self.metastore.tables[action.subject].partitioned else ""
        verb = "OVERWRITE" if action.verb == "overwrite" else "INTO"
        return f"INSERT {verb} {action.subject} VALUES ({partition}{self._tokens})"

    def _change(self, action: Action) -> None:
        """Another program writes a base table, or stored rows."""
        if action.verb in SPOILS:
            self._tokens += 1
            self.oracle.spoil(action.subject, action.verb, self._tokens)
            return
        table, now = self.metastore.tables[action.subject], self.loop.now
        partition = action.partition if table.partitioned else None
        self._tokens += 1
        match action.verb:
            case "insert":
                table.insert(partition, self._tokens, now, OUTSIDE)
            case "overwrite":
                table.replace(partition, self._tokens, now, OUTSIDE)
            case "rewrite":
                table.rewrite(partition, self._tokens, now, OUTSIDE)
            case "truncate":
                table.truncate(now, OUTSIDE)

    def _befall(self, action: Action) -> None:
        match action.verb:
            case "fault":
                self.spark.armed.append(Armed(action.subject, Fault[action.partition], action.number))
            case "kill gateway":
                if (gateway := self._serving()) is not None:
                    self._kill(gateway)
                    self._start()
            case "start gateway":
                self._start()
            case "pause gateway":
                self._pause(action.number)
            case "depose gateway":
                self._pause(action.number)
                self._start()
            case "hand over":
                self._hand_over()
            case "kill Spark":
                self.spark.restart()
            case "cancel":
                self.clients[action.subject].cancel()
            case "wait":
                self.loop.call_later(float(action.number), lambda: None)

    def _hand_over(self) -> None:
        """The gateway is stopped, and the next one leads while clients' statements end here."""
        gateway = self._serving()
        if gateway is None or gateway in self._leaving:
            return
        self._leaving.append(gateway)
        heir = self._gateway()

        def leave(_: object) -> None:
            work = gateway.hand_over(partial(self._acknowledged, gateway))
            leaving = self.loop.create_task(work, context=context_of(gateway))
            leaving.add_done_callback(lambda _: self._start(heir))

        # It reads a draft of the views while the other one may change them.
        self.loop.create_task(heir.prepare(), context=context_of(heir)).add_done_callback(leave)

    async def _acknowledged(self, before: Gateway) -> None:
        """As `GatewayNode._heeded`: the next gateway knows that what was written may have changed."""
        try:
            async with asyncio.timeout(HEEDED_SECONDS):
                after = await self._after(before)
                await self.loop.create_task(after.heed(), context=context_of(after))
        except TimeoutError:
            raise FreshgateError("No gateway has taken over yet.") from None

    async def _after(self, before: Gateway) -> Gateway:
        """The next gateway, once it serves."""
        while True:
            after = self.gateways[-1]
            if after is not before and after.serves:
                return after
            await asyncio.sleep(HEEDED_LOOK_SECONDS)

    def _pause(self, seconds: float) -> None:
        if (gateway := self._serving()) is not None:
            self.loop.pause(gateway.name)
            self.loop.call_later(seconds, self._resume, gateway)

    def _resume(self, gateway: Gateway) -> None:
        self.tell("fate", f"{gateway.name} goes on")
        self.loop.resume(gateway.name)

    def _kill(self, gateway: Gateway) -> None:
        gateway.alive = False
        self._dead.add(gateway.name)
        self.spark.kill_gateway(gateway.name)
        for client in self.clients.values():
            if client.at is gateway:
                client.lost()

    def _gateway(self) -> Gateway:
        self._starts += 1
        gateway = Gateway(self.spark, f"g{self._starts}", self.tuning, several=self.several)
        if self.several:
            self.loop.set_rate(gateway.name, RATES[self.choices.of(len(RATES))])
        return gateway

    def _start(self, gateway: Gateway | None = None) -> None:
        gateway = self._gateway() if gateway is None else gateway
        self.gateways.append(gateway)
        starting = self.loop.create_task(gateway.start(), context=context_of(gateway))
        starting.add_done_callback(lambda done: self._started(gateway, done))

    def _started(self, gateway: Gateway, done: asyncio.Task[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None:
            self.tell(gateway.name, "serves")
        elif isinstance(error, FreshgateError):
            self.tell(gateway.name, f"could not start: {error}")
            self._kill(gateway)
            self._start()
        elif not isinstance(error, Over):
            self.violate(f"the start of a gateway ends with {error!r}")

    # --- the end -----------------------------------------------------------------------------------

    def _end_well(self) -> None:
        """Nothing happens any more, and after a while every view can be read as it should be, and nothing is left."""
        self.calm = True
        clean, settles = self.choices.of(8) == 7, self.choices.of(4) == 3
        self.choices = Choices()
        self.spark.armed.clear()
        self.tell("fate", "nothing happens any more")
        for gateway in self.gateways:
            self.loop.resume(gateway.name)
        self._pass(0.0)  # A thread may still run a statement to its end.
        self._pass(self.shape.plan.calm)
        if settles:
            self._settle()
        refused = [view for view in self.oracle.views() if not self._can_be_read(view)]
        if clean or refused:
            # Also a view that could not be read at the start is looked at again.
            self._pass(CLEAN_SECONDS)
            self.oracle.check_clean()
        for gateway in self.gateways:
            self.oracle.check_alarms(gateway.found_damaged)
        for view in refused:
            if not self._can_be_read(view):
                self.violate(f"{view} cannot be read in the end: {self.clients['eve'].said}")
        if self.several:
            self._take_over()

    def _take_over(self) -> None:
        """The leader is killed, and noticed at once. Soon after that every view can be read."""
        killed_at = self.loop.now
        self.tell("fate", "kill gateway")
        self._kill(self.gateways[-1])
        self._start()
        self._until(lambda: self.gateways[-1].serves and self._idle())
        for view in self.oracle.views():
            if not self._can_be_read(view):
                self.violate(f"{view} cannot be read after a takeover: {self.clients['eve'].said}")
        if (seconds := self.loop.now - killed_at) > TAKEOVER_SECONDS:
            self.violate(f"after the leader was killed, reads took {seconds:.1f} s")

    def _settle(self) -> None:
        """A refresh makes every view fresh, and it stays so: no doubt outlives the statements that have caused it."""
        gateway = self.gateways[-1]
        settled = [view for view in self.oracle.views() if self._is_refreshed(view, gateway)]
        for seconds in (0.0, STAYS_SECONDS):
            self._pass(seconds)
            for view in settled:
                looking = self.loop.create_task(gateway.freshness(view))
                self._until(looking.done)
                state, reason = looking.result()
                if state is not Freshness.FRESH:
                    self.violate(f"{view} was refreshed, nothing has happened since, and it is {state.value}: {reason}")

    def _is_refreshed(self, view: str, gateway: Gateway) -> bool:
        ada = self.clients["ada"]
        for _ in range(2):  # Of a session that was lost the client is told once.
            ada.begin(gateway, f"REFRESH MATERIALIZED VIEW {view}")
            self._until(self._idle)
            if not ada.said.startswith(UpstreamLost.sqlstate):
                break
        return ada.said == "done"

    def _can_be_read(self, view: str) -> bool:
        """Whether one of the gateways lets it be read; all are asked, because none may show old rows."""
        said = [self._read_in_the_end(view, gateway) for gateway in self.gateways if gateway.alive]
        return "done" in said

    def _read_in_the_end(self, view: str, gateway: Gateway) -> str:
        """What becomes of a read."""
        eve = self.clients["eve"]
        for _ in range(2):  # Of a session that was lost the client is told once.
            eve.begin(gateway, f"SELECT * FROM {view}", read=self.oracle.begin_read(view, gateway.name))
            self._until(self._idle)
            if not eve.said.startswith(UpstreamLost.sqlstate):
                break
        return eve.said

    def _pass(self, seconds: float) -> None:
        until = self.loop.now + seconds
        self.loop.wake(until)
        self._until(lambda: self.loop.now >= until and not self.spark.running and self._idle())

    def _abandon(self) -> None:
        """Ends all tasks; what they still do has no effect. A task that waits after its cancellation is cancelled
        again: one that is collected as garbage would run its handlers without a loop."""
        self.over = self.loop.closed = True
        for _ in range(CANCELLATIONS_MAX):
            if not (tasks := asyncio.all_tasks(self.loop)):
                break
            for task in tasks:
                task.cancel()
            for _ in range(TURNS_MAX):
                if not self.loop.ready:
                    break
                self.loop.step()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a history."""

    wrong: str | None
    made: list[int]
    story: list[str]


def happen(
    shape: Shape, edges: Edges, actions: list[Action], choices: Choices, *, tell: bool = False, several: bool = False
) -> Outcome:
    """Plays a history."""
    world = World(shape, edges, choices, tell=tell, several=several)
    wrong: str | None = None
    try:
        world.play(actions)
    except Violated as violated:
        wrong = str(violated)
    return Outcome(wrong, choices.made, world.story)
