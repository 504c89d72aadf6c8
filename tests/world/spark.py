"""A Spark Thrift Server: sessions, and statements that run step by step as the scheduler chooses.

Gateways reach it through `world.ports`. Its faults are armed beforehand (`Fault`). A real Spark has shown all of them:
docs/internals/simulation.md.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, cast

from fake_spark import Answer, SparkOperation, SparkServer, SparkSession

from gateway.errors import FreshgateError, StatementFailed, UpstreamLost
from gateway.mv.catalog.draft_file import StoredDraft
from sql.names import Namespace
from sql.texts import epochs
from world import statements
from world.loop import RATES
from world.storage import Metastore
from world.tables import File, Table

if TYPE_CHECKING:
    from world.oracle import Write
    from world.world import World

SHORT_SECONDS = 0.4
"""How long a statement of the metastore takes at most: fence and janitor rely on that it is less than half a second."""
LATE_SECONDS = 4.9
"""How long Spark goes on with such a statement whose connection broke."""
LATE_INSERT_SECONDS = 29.0
"""The same of one that writes rows, also where it was cancelled."""
LATE_JOB_SECONDS = 1.0
"""As in `gateway.spark.client`: what a cancelled statement may still begin is waited for."""
SYNCHRONOUS_SECONDS = 200.0
"""The same of one that its thread runs to the end, whatever happens to the connection; the session lasts until then."""
SYNCHRONOUS_RESTS = (0, 45, 100)
"""How many seconds such a one does nothing that others see."""
KILLED_SECONDS = 0.9
"""The same of a short statement whose gateway was killed: its successor waits a second."""
BYTES_LATE_SECONDS = (0.3, 1, 3, 12)
"""How much later than it was sent a change of one of several gateways may reach Spark."""
CHANGES = frozenset({"create", "publish", "props", "drop", "insert"})
"""The kinds of the statements by which gateways change views and storage."""
GATEWAYS_KILLED_SECONDS = {"insert": LATE_INSERT_SECONDS, "write": LATE_INSERT_SECONDS}
VERSION = "4.1.4 0000000000000000000000000000000000000000"
"""As `version()` prints it."""
SETTINGS = {
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.thriftServer.incrementalCollect": "false",
    "spark.sql.hive.thriftServer.singleSession": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.globalTempDatabase": "global_temp",
}


class Over(BaseException):
    """The history is over: what is still done has no effect."""


class Fault(Enum):
    """What becomes of a statement."""

    FAILS = "fails"
    LIES = "succeeds and answers with an error"
    CUT = "is never carried out, for its connection breaks"
    CUT_AFTER = "succeeds, but its connection breaks before the answer"
    LATE = "loses its connection, and is carried out later"


@dataclass(slots=True)
class Armed:
    """A fault that the `nth` next statement of a kind will meet."""

    kind: str
    fault: Fault
    nth: int


@dataclass(slots=True, eq=False)
class Statement:
    """One that runs. Without a `future` nobody waits for it any more."""

    spark: SimulatedSpark
    session: SimulatedSession
    kind: str
    text: str
    work: Callable[[Statement], object]
    future: asyncio.Future[Any] | None
    deadline: float
    rests_until: float = 0.0
    """It takes no step before."""
    fault: Fault | None = None
    lasts: bool = False
    """Its steps are far apart."""
    steps: Iterator[None] | None = None
    answer: object = None
    """What it comes to, once it is done."""
    synchronous: bool = False
    """The thread that has read it runs it, to the end."""
    shares_directory: str | None = None
    """The storage table into which it writes by INSERT INTO."""
    directory_emptied: bool = False
    write: Write | None = None
    """Of a client: what is known of it."""
    reads: str = ""
    """The storage table of the materialized view that it reads."""
    writes: tuple[str, int] | None = None
    """The storage table and the version of which it writes rows."""

    @property
    def is_slow(self) -> bool:
        """Others do much meanwhile. What nobody waits for any more is slow."""
        return self.lasts or self.future is None

    @property
    def world(self) -> World:
        return self.spark.world

    @property
    def metastore(self) -> Metastore:
        return self.spark.metastore

    @property
    def gateway(self) -> str:
        return self.session.gateway


@dataclass(eq=False)
class SimulatedSession(SparkSession):
    """Its `user` is the name of the gateway that has opened it."""

    listings: dict[tuple[str, str | None], tuple[File, ...]] = field(default_factory=dict)
    """Files of base tables as they were listed first, where Spark keeps listings."""
    caches: bool = False

    @property
    def gateway(self) -> str:
        return self.user

    def listed(self, table: Table) -> Iterable[tuple[str | None, Iterable[File]]]:
        """The files that a query of this session reads; partitions themselves are always those of today."""
        for partition, files in table.files.items():
            if not self.caches:
                yield partition, files.values()
                continue
            place = (table.name, partition)
            if place not in self.listings:
                self.listings[place] = tuple(files.values())
            yield partition, self.listings[place]

    def forget(self, name: str) -> None:
        """REFRESH TABLE, and the session's own writes."""
        self.listings.clear()


class SimulatedSpark(SparkServer[SimulatedSession]):
    """One server; `restart` makes it another."""

    def __init__(self, world: World, metastore: Metastore, *, caches: bool) -> None:
        super().__init__()
        self.world = world
        self.metastore = metastore
        self.caches = caches
        self.running: list[Statement] = []
        self.armed: list[Armed] = []
        self.draft: StoredDraft | None = None
        """The one that a gateway has kept for the next start."""
        self._settings = {**SETTINGS, "spark.app.id": "1"}
        for name in ("filesourceTableRelationCacheSize", "hive.filesourcePartitionFileCacheSize"):
            self._settings[f"spark.sql.{name}"] = "1000" if caches else "0"

    # --- what gateways ask -------------------------------------------------------------------------

    def knows(self, session: bytes) -> bool:
        """A thread notices only after its statement that its session shall end."""
        runs = (each.session.handle.guid == session for each in self.running if each.synchronous)
        return session in self.sessions or any(runs)

    def open(self, user: str, namespace: Namespace) -> SimulatedSession:
        session = SimulatedSession(user, namespace, caches=self.caches)
        self.sessions[session.handle.guid] = session
        return session

    def execute(self, session: SimulatedSession, text: str) -> SparkOperation:
        running = self.submit(session, text)
        assert running.future is not None
        return self.operation_of(session, text, running.future)

    def operation_of(self, session: SimulatedSession, text: str, ends: asyncio.Future[Any]) -> SparkOperation:
        """What may be asked about a statement that was submitted."""
        operation = SparkOperation(text, session)
        self.operations[operation.handle.guid] = operation
        ends.add_done_callback(partial(_note_end, operation))
        return operation

    async def run(self, session: SimulatedSession, sql: str, on_start: Callable[[str], None] | None) -> Answer:
        if (answer := self.at_once(sql)) is not None:
            return answer
        running = self.submit(session, sql)
        if self.world.several and running.kind in CHANGES and self.world.choices.once_in(12):
            self._rest(running, BYTES_LATE_SECONDS[self.world.choices.of(len(BYTES_LATE_SECONDS))])
        if on_start is not None:
            on_start("1")
        columns = ("id",) if running.text.startswith("DESCRIBE DETAIL") else ()
        return Answer(await self.ended(running) or [], columns)

    async def ended(self, running: Statement) -> Any:
        """What a statement answers. Who is cancelled has it cancelled here, and waits a moment."""
        assert running.future is not None
        try:
            return await running.future
        except asyncio.CancelledError:
            self.cancel(running)
            await asyncio.sleep(LATE_JOB_SECONDS)
            raise

    def at_once(self, text: str) -> Answer | None:
        """The answer to SET and RESET, between which nothing matters, and to questions for what Spark can do."""
        if text == epochs.TRIED:
            return Answer([(1,)])
        if text == "SELECT version()":
            return Answer([(VERSION,)])
        word, _, rest = text.partition(" ")
        if word not in {"SET", "RESET"}:
            return None
        if word == "RESET" or "=" in rest:
            return Answer([])
        if not rest:
            return Answer(list(self._settings.items()))
        return Answer([(rest, self._settings.get(rest, "<undefined>"))])

    def submit(self, session: SimulatedSession, text: str) -> Statement:
        """Begins a statement. Raises as `begin`."""
        if (script := statements.SCRIPT.fullmatch(text)) is not None:
            found, epoch = statements.known(script["statement"]), f"{script[1]}.{script[2]}"
            return self.begin(session, found.kind, script["statement"], lambda at: self._in_script(at, epoch, found))
        found = statements.known(text)
        return self.begin(session, found.kind, text, lambda at: self._carry_out(at, found))

    def _carry_out(self, running: Statement, found: statements.Known) -> object:
        if running.kind in CHANGES:
            self.world.oracle.before_change(running)
        return found.handler(running, found.found)

    def _in_script(self, running: Statement, epoch: str, found: statements.Known) -> statements.Steps:
        """Runs the two statements of a script, the second one at once or a moment after the first one."""
        running.metastore.thing(epoch)
        if self.world.choices.once_in(4):
            deadline = running.deadline
            running.deadline = min(deadline, self.world.loop.now + SHORT_SECONDS)
            yield
            running.deadline = deadline
        answer: Any = self._carry_out(running, found)
        if isinstance(answer, GeneratorType):
            answer = yield from answer
        return cast("statements.Answer", answer or [])

    def begin(self, session: SimulatedSession, kind: str, text: str, work: Callable[[Statement], object]) -> Statement:
        """Raises UpstreamLost where the session is gone. A gateway that was killed hears nothing any more."""
        if self.world.over:
            raise Over
        if self.world.is_dead(session.gateway):
            return Statement(self, session, kind, text, work, self.world.loop.create_future(), 0.0)
        if not session.alive:
            raise UpstreamLost("The connection to Spark is closed. Try again.")
        long = kind in {"insert", "write", "read", "look"}
        deadline = float("inf") if long else self.world.loop.now + SHORT_SECONDS
        running = Statement(self, session, kind, text, work, self.world.loop.create_future(), deadline)
        running.fault = self._fault_of(kind)
        running.lasts = kind in {"insert", "read"} and self.world.choices.once_in(6)
        self.running.append(running)
        return running

    def _fault_of(self, kind: str) -> Fault | None:
        for armed in self.armed:
            if armed.kind == kind:
                armed.nth -= 1
                if armed.nth < 0:
                    self.armed.remove(armed)
                    return armed.fault
        return None

    def cancel(self, running: Statement) -> None:
        """Nobody waits for it any more; it may be carried out all the same, and later. The client of a synchronous one
        can only break its connection."""
        if running.synchronous:
            self._lose(running.session)
        if running in self.running and running.future is not None:
            self._let_go(running, LATE_INSERT_SECONDS if running.kind in {"insert", "write"} else LATE_SECONDS)

    def _rest(self, running: Statement, seconds: float) -> None:
        """It takes no step before."""
        running.rests_until = self.world.loop.now + seconds
        running.deadline = max(running.deadline, running.rests_until + SHORT_SECONDS)
        self.world.loop.wake(running.rests_until)

    def _go_on(self, running: Statement, seconds: float) -> None:
        """Nobody waits for it any more, and it ends within so many seconds. Gateways wait a little longer, several of
        them by clocks of their own."""
        running.deadline = self.world.loop.now + (seconds * min(RATES) if self.world.several else seconds)
        if running.rests_until >= running.deadline:
            running.rests_until = running.deadline - SHORT_SECONDS
            self.world.loop.wake(running.rests_until)

    def _let_go(self, running: Statement, seconds: float) -> None:
        """It ends at once, or later, or is carried out later."""
        running.future = None
        if running.synchronous:
            self._run_on(running)
            return
        becomes = self.world.choices.of(4)
        if becomes < 2:
            self._abort(running)
            return
        self._go_on(running, seconds)
        running.fault = Fault.FAILS if becomes == 2 else None
        if running.kind == "insert":
            self.world.oracle.given_up(running)

    def _run_on(self, running: Statement) -> None:
        """A synchronous statement whose connection is gone: it is carried out, perhaps much later."""
        running.deadline = self.world.loop.now + SYNCHRONOUS_SECONDS
        self._rest(running, SYNCHRONOUS_RESTS[self.world.choices.of(len(SYNCHRONOUS_RESTS))])

    # --- steps -------------------------------------------------------------------------------------

    def step(self, running: Statement) -> None:
        """Carries out the next part of a statement."""
        fault = running.fault
        if running.future is None and fault is Fault.FAILS:
            self._abort(running)
            return
        if running.steps is None and fault is not None and running.future is not None and self._fails(running, fault):
            return
        try:
            done = self._advance(running)
        except StatementFailed as error:
            self._end(running, error)
            return
        if not done:
            return
        if fault is Fault.LIES and running.future is not None:
            self._end(running, StatementFailed("[INTERNAL_ERROR] Spark is being stopped.", "XX000"))
        elif fault is Fault.CUT_AFTER and running.future is not None:
            self._lose(running.session)
            self._end(running, UpstreamLost("Spark closed the connection before it answered. Try again."))
        else:
            self._end(running, running.answer)

    def _fails(self, running: Statement, fault: Fault) -> bool:
        """Whether it is not carried out now."""
        lost = UpstreamLost("Spark closed the connection before it answered. Try again.")
        match fault:
            case Fault.FAILS:
                self._abort(running, StatementFailed("[INTERNAL_ERROR] No space left on device.", "XX000"))
            case Fault.CUT:
                self._lose(running.session)
                self._abort(running, lost)
            case Fault.LATE:
                self._lose(running.session)
                future, running.future = running.future, None
                late = LATE_INSERT_SECONDS if running.kind in {"insert", "write"} else LATE_SECONDS
                self._go_on(running, late)
                if running.synchronous:
                    self._run_on(running)
                if running.kind == "insert":
                    self.world.oracle.given_up(running)
                _answer(future, lost)
            case _:
                return False
        return True

    def _advance(self, running: Statement) -> bool:
        """Whether it is done."""
        if running.steps is None:
            found = running.work(running)
            if not isinstance(found, GeneratorType):
                running.answer = found
                return True
            running.steps = found
        try:
            next(running.steps)
        except StopIteration as done:
            running.answer = done.value
            return True
        return False

    def _end(self, running: Statement, outcome: Any) -> None:
        self.running.remove(running)
        if running.kind == "insert" and isinstance(outcome, FreshgateError):
            self.world.oracle.given_up(running)
        _answer(running.future, outcome)

    def _abort(self, running: Statement, error: FreshgateError | None = None) -> None:
        """It ends before its end."""
        self.running.remove(running)
        if running.kind == "insert":
            self.world.oracle.given_up(running)
            for other in self.running:
                if running.shares_directory is not None and other.shares_directory == running.shares_directory:
                    other.directory_emptied = True
        if error is not None:
            _answer(running.future, error)

    # --- ends --------------------------------------------------------------------------------------

    def _lose(self, session: SimulatedSession) -> None:
        session.alive = False
        self.sessions.pop(session.handle.guid, None)

    def kill_gateway(self, name: str) -> None:
        """All its connections break; nobody there hears anything more."""
        for running in [each for each in self.running if each.gateway == name]:
            if running.future is not None:
                self._let_go(running, self._outlives(running))
        for session in [each for each in self.sessions.values() if each.gateway == name]:
            self._lose(session)

    def _outlives(self, running: Statement) -> float:
        """How long a statement goes on whose gateway was killed. Changes by one of several may come at any time."""
        if self.world.several and running.kind in CHANGES:
            return LATE_INSERT_SECONDS
        return GATEWAYS_KILLED_SECONDS.get(running.kind, KILLED_SECONDS)

    def restart(self) -> None:
        """It is killed, and another one serves at once. A step that was about to be done may have been."""
        lost = UpstreamLost("Spark closed the connection before it answered. Try again.")
        for running in list(self.running):
            if running in self.running and self.world.choices.of(2):
                with contextlib.suppress(StatementFailed):
                    self._advance(running)
            if running in self.running:
                self._abort(running, lost)
        for session in list(self.sessions.values()):
            self._lose(session)
        self.application += 1
        self._settings["spark.app.id"] = str(self.application)


def _note_end(operation: SparkOperation, ends: asyncio.Future[Any]) -> None:
    error = None if ends.cancelled() else ends.exception()
    if isinstance(error, FreshgateError):
        operation.fail(error)
    elif error is None:
        operation.finish()


def _answer(future: asyncio.Future[Any] | None, outcome: object) -> None:
    if future is None or future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
        # Whoever waited may have gone.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
    else:
        future.set_result(outcome)
