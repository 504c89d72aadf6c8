"""Answers reads from the rows of views in memory.

The same gate decides as for answers that are given again (`routing.known_answers`): a read that depends on nothing but
known versions of views. The first query of a shape goes to Spark; from its answer and its plan is learned how the
engine answers the next ones. Whatever goes wrong, Spark answers.

Tests: `test_memory_answers`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self

from gateway.errors import FreshgateError
from gateway.loops import BackgroundTasks, in_thread
from gateway.mv.catalog.index import Catalog
from gateway.mv.ports import MemoryUnavailable, PlanUnavailable, RowEngine
from gateway.mv.refresh.habits import Habits
from gateway.mv.rewriting.candidates import Participant
from gateway.mv.rewriting.verdicts import ShapeKey
from gateway.service.clients.session import Session
from gateway.service.memory.comparing import difference
from gateway.service.memory.distrust import DistrustedAnswers
from gateway.service.memory.first_queries import FirstQueries
from gateway.service.memory.learned_shapes import LearnedShape, LearnedShapes, MemoryKey
from gateway.service.memory.learning import Learner
from gateway.service.results.recorded import Recorded
from gateway.service.routing.canary import MARK
from gateway.service.routing.ways import RepeatableRead, UnknownTables
from gateway.wire.columnar import ColumnarPage, rows_of
from sql.grammar import view_properties
from sql.memory.columns import ColumnFacts, MemoryColumn, times_of
from sql.memory.engine_texts import NotListed
from sql.memory.engine_types import identifier
from sql.memory.shape_query import ShapeQuery
from sql.mentioned import Mentioned
from sql.names import TableName
from sql.rewriting.shape import Shape, shape_of
from sql.texts import maintenance

log = logging.getLogger(__name__)

ROWS_MAX = 100_000
"""Of an answer. Larger ones are Spark's."""
LEARNING_MAX = 100
"""Shapes that wait to be learned."""
LEARNED_SECONDS = 60.0
"""Learning that takes longer is given up."""
HELD_TIMES = 2.0
"""How often `access.rights_seconds` a shape is used before it must have been learned anew."""
CROWD = 4
"""Reads that are answered at once."""
OWED_SECONDS = 60.0
"""How long a crowd may put off a comparison."""
FAILED_MAX = 2_000
CELL_BYTES = 8


class WhySpark(StrEnum):
    """Why Spark answered a read of views that depends on nothing but their versions."""

    NOT_LOADED = "not loaded"
    """The rows of a view are not in memory, or those of an earlier version."""
    NEW = "not learned yet"
    NOT_LISTED = "not listed"
    """The plan has a part whose meaning in the engine is not known to be the same."""
    VALUES = "values"
    """The view has values of which an expression may mean something else in the engine."""
    ENGINE = "engine"
    """The engine had no answer: it failed, was busy, or took too long."""
    QUARANTINED = "quarantined"
    """An answer of this kind, or from these rows, was not Spark's."""
    OFF = "off"
    """freshgate.memory is off in the session."""


@dataclass(slots=True)
class AnswerCounts:
    """Counts since the start."""

    answered: int = 0
    seconds: float = 0.0
    """That these answers took."""
    saved: float = 0.0
    """Seconds that Spark took for the first query of the same shape, less those of these answers."""
    missed: Counter[str] = field(default_factory=Counter)
    """By `WhySpark`."""
    learned: int = 0
    answers_compared: int = 0
    answers_differed: int = 0


class Resident(Protocol):
    """A version of a view, or a state of a base table, in memory: `mv.memory`."""

    @property
    def table(self) -> str:
        """Its name in the engine."""
        ...

    @property
    def columns(self) -> tuple[MemoryColumn, ...]: ...

    @property
    def facts(self) -> Mapping[str, ColumnFacts]: ...


class Residents(Protocol):
    """The views and base tables in memory: `mv.memory`."""

    def resident(self, view_id: str, version: int) -> Resident | None: ...

    def used(self, view_id: str) -> None:
        """A read was answered from it."""
        ...

    def table_named(self, table_id: str) -> TableName | None:
        """The name of a base table in memory, by its id; None for a view."""
        ...

    def joined(self, tables: frozenset[TableName]) -> None:
        """A read could have been answered if these base tables were in memory, too."""
        ...

    async def is_so_now(self, table: TableName, number: int) -> bool:
        """Whether the table has the rows with this number, by an observation that begins now."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryRead:
    """A read that may be answered from memory."""

    session: Session
    read: RepeatableRead
    client: tuple[object, ...]
    """As in MemoryKey."""

    @classmethod
    def of(cls, session: Session, read: RepeatableRead, habits: Habits) -> Self:
        return cls(session, read, (session.protocol, habits.application))


@dataclass(frozen=True, slots=True)
class SparksRead:
    """Spark answers the read."""

    why: WhySpark
    detail: str = ""
    """What else is known of the reason."""


@dataclass(frozen=True, slots=True)
class EngineRead:
    """A read as the engine gets it."""

    shape: Shape
    learned: LearnedShape | None
    """None: the shape is new."""
    query: ShapeQuery
    text: str
    tables: Mapping[str, Resident]
    """By the ids of views and base tables."""
    bases: Mapping[str, Resident]
    """Of these, the base tables, by their names."""


Tell = Callable[[Session, Sequence[TableName], str, str], None]
"""Receives a difference: the session, the views, what differs, and the client's text."""


class MemoryAnswers:
    """All answers from memory, for all clients."""

    def __init__(
        self,
        catalog: Catalog,
        residents: Residents,
        engine: RowEngine,
        learner: Learner,
        limits: MemoryLimits,
        tell: Tell,
        drop_results: Callable[[str], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`drop_results` forgets the answers that are given again of the view with this id."""
        self._drop_results = drop_results
        self._catalog = catalog
        self._residents = residents
        self._engine = engine
        self._learner = learner
        self._limits = limits
        self._tell = tell
        self._chance = chance
        self.counts = AnswerCounts()
        self._shapes = LearnedShapes()
        self._learning: dict[MemoryKey, asyncio.Task[None]] = {}
        self._first = FirstQueries()
        self._turn = asyncio.Lock()
        self._failed: OrderedDict[tuple[object, ...], str] = OrderedDict()
        """Why the engine could not answer a text or a shape, by that and the versions; the oldest first."""
        self.distrust = DistrustedAnswers()
        self._comparing: asyncio.Task[None] | None = None
        self._owed: float | None = None
        """Since when a comparison is due."""
        self._answering = 0
        """How many reads the engine is answering."""
        self._background = BackgroundTasks("learning how queries are answered from memory")

    def has(self, asked: MemoryRead) -> bool:
        """Whether the rows of all views that it reads are in memory."""
        return asked.session.settings.from_memory and self._tables(asked.read) is not None

    def count_left(self, asked: MemoryRead) -> None:
        """Counts a read that Spark answers without `answer` being asked, if memory could not have answered it."""
        if not self.has(asked):
            off = not asked.session.settings.from_memory
            self.counts.missed[WhySpark.OFF if off else WhySpark.NOT_LOADED] += 1

    def miss_tables(self, session: Session, source: UnknownTables) -> None:
        """Counts a read that Spark answers because it also reads base tables that are not in memory."""
        if session.settings.from_memory and all(
            self._residents.resident(view, number) is not None for view, _, number in source.versions
        ):
            self.counts.missed[WhySpark.NOT_LOADED] += 1
            self._residents.joined(source.tables)

    # --- answers -----------------------------------------------------------------------------------

    async def answer(self, asked: MemoryRead) -> Recorded | None:
        """The answer; None if Spark must answer."""
        found = await self._answer(asked)
        if isinstance(found, SparksRead):
            self.counts.missed[found.why] += 1
            return None
        return found

    async def _answer(self, asked: MemoryRead) -> Recorded | SparksRead:
        found = self.prepared(asked)
        if isinstance(found, SparksRead) and found.why is WhySpark.NEW and await self._waited(asked, found):
            found = self.prepared(asked)
        if isinstance(found, SparksRead):
            return found
        learned = found.learned
        if learned is None:
            return SparksRead(WhySpark.NEW)
        if time.monotonic() - learned.at > self._limits.rights_seconds:
            self._learn_soon(asked, found.shape, Recorded(learned.status, learned.metadata, (), 0), learned.seconds)
        began = time.monotonic()
        pages = await self._run(found, asked.read)
        if isinstance(pages, SparksRead):
            return pages
        took = time.monotonic() - began
        self.counts.answered += 1
        self.counts.seconds += took
        self.counts.saved += max(learned.seconds - took, 0.0)
        for view in found.tables:
            self._residents.used(view)
        self._compare_sometimes(asked, found.query, pages)
        return Recorded(learned.status, learned.metadata, pages, sum(page.bytes for page in pages))

    async def _waited(self, asked: MemoryRead, found: SparksRead) -> bool:
        """Waits for what is learned from equal queries that are at Spark already. Returns whether it has, and the text
        still means the same."""
        changes = asked.session.settings.changes
        waited = not found.detail and await self._first.wait(_key(asked, shape_of(asked.read.text)))
        return waited and asked.session.settings.changes == changes

    def at_spark(self, asked: MemoryRead) -> AbstractContextManager[None]:
        """Spark answers the read, while others of its shape may wait for what is learned from it."""
        return self._first.at_spark(_key(asked, shape_of(asked.read.text)))

    def prepared(self, asked: MemoryRead) -> EngineRead | SparksRead:
        """What the engine would be asked now. Nothing is counted."""
        if not asked.session.settings.from_memory:
            return SparksRead(WhySpark.OFF, "SET freshgate.memory = on ends this")
        tables = self._tables(asked.read)
        if tables is None:
            return SparksRead(WhySpark.NOT_LOADED)
        if (reason := self.distrust.of_views(asked.read)) is not None:
            return SparksRead(WhySpark.QUARANTINED, reason)
        shape = shape_of(asked.read.text)
        key = _key(asked, shape)
        learned = self._shapes.find(key, shape.literals)
        if learned is None or not self._holds(key, learned, tables):
            return SparksRead(WhySpark.NEW, shape.trouble or "")
        if learned.query is None:
            return SparksRead(WhySpark.NOT_LISTED, learned.reason)
        return self._engine_read(shape, learned, learned.query, tables, asked.read)

    async def foreseen(self, asked: MemoryRead) -> EngineRead | SparksRead:
        """What the engine would be asked once the shape is learned. Raises what Spark raises, PlanUnavailable, and
        TimeoutError."""
        found = self.prepared(asked)
        tables = self._tables(asked.read)
        if isinstance(found, EngineRead) or found.why is not WhySpark.NEW or found.detail or tables is None:
            return found
        shape = shape_of(asked.read.text)
        columns = {view: tuple(each.columns) for view, each in tables.items()}
        async with self._turn, asyncio.timeout(LEARNED_SECONDS):
            try:
                query = await self._learner.learn(asked.session, asked.read, shape, columns, _times(tables))
            except NotListed as error:
                return SparksRead(WhySpark.NOT_LISTED, str(error))
        return self._engine_read(shape, None, query, tables, asked.read)

    def _engine_read(
        self,
        shape: Shape,
        learned: LearnedShape | None,
        query: ShapeQuery,
        tables: Mapping[str, Resident],
        read: RepeatableRead,
    ) -> EngineRead | SparksRead:
        if (reason := self.distrust.of_query(shape.key, query.parts)) is not None:
            return SparksRead(WhySpark.QUARANTINED, reason)
        try:
            text = query.text(shape.literals, lambda name: identifier(tables[name.view].table))
        except NotListed as error:
            return SparksRead(WhySpark.NOT_LISTED, str(error))
        for view, column, fact in sorted(query.query.needed, key=str):
            if not fact.holds(tables[view].facts[column]):
                return SparksRead(WhySpark.VALUES, f"the column {column} has {fact.value}")
        for asked in (text, shape.key):
            if (failed := self._failed.get((asked, read.versions))) is not None:
                return SparksRead(WhySpark.ENGINE, failed)
        bases = {str(name): tables[each] for each, name in self._tables_of(read).items()}
        return EngineRead(shape, learned, query, text, tables, bases)

    def _tables(self, read: RepeatableRead) -> dict[str, Resident] | None:
        """The tables of all views that it reads, in the versions that it reads; None if one is not in memory."""
        found = dict[str, Resident]()
        for view, _, version in read.versions:
            resident = self._residents.resident(view, version)
            if resident is None:
                return None
            found[view] = resident
        return found

    def _tables_of(self, read: RepeatableRead) -> dict[str, TableName]:
        """The base tables that it reads, by id."""
        found = {each: self._residents.table_named(each) for each, _, _ in read.versions} if read.reads_tables else {}
        return {each: name for each, name in found.items() if name is not None}

    def _holds(self, key: MemoryKey, learned: LearnedShape, tables: Mapping[str, Resident]) -> bool:
        """Whether what was learned still holds: the views are the same, and the rights of the user were asked."""
        entries = {view: self._catalog.find(view) for view in learned.views}
        same = all(entry is not None and learned.views[view].is_still(entry.view) for view, entry in entries.items())
        same = same and all(tables[view].columns == columns for view, columns in learned.columns.items())
        if not same:
            self._shapes.drop(key)
        return same and time.monotonic() - learned.at < HELD_TIMES * self._limits.rights_seconds

    async def _run(self, engine: EngineRead, read: RepeatableRead) -> tuple[ColumnarPage, ...] | SparksRead:
        columns = [MemoryColumn(each.name, each.type) for each in engine.query.query.output]
        limits = self._limits
        self._answering += 1
        try:
            answer = await self._engine.run(engine.text, columns, ROWS_MAX, limits.bytes_max, limits.query_seconds)
        except MemoryUnavailable as error:
            log.debug("no answer from memory: %s", error)
            if error.reason not in _PASSING:
                same = engine.shape.key if error.reason in _OF_SHAPES else engine.text
                self._failed[same, read.versions] = str(error)
                if len(self._failed) > FAILED_MAX:
                    self._failed.popitem(last=False)
            return SparksRead(WhySpark.ENGINE, str(error))
        finally:
            self._answering -= 1
        return tuple([await in_thread(len(page) // CELL_BYTES, ColumnarPage, page) for page in answer.pages])

    # --- learning ----------------------------------------------------------------------------------

    def observe(self, asked: MemoryRead, recorded: Recorded, seconds: float) -> None:
        """Spark has answered the read in so many seconds: its replies tell the columns of the queries of its shape."""
        if self.has(asked) and self.distrust.of_views(asked.read) is None:
            self._learn_soon(asked, shape_of(asked.read.text), recorded, seconds)

    def _learn_soon(self, asked: MemoryRead, shape: Shape, recorded: Recorded, seconds: float) -> None:
        key = _key(asked, shape)
        learned = self._shapes.find(key, shape.literals)
        fresh = learned is not None and time.monotonic() - learned.at < self._limits.rights_seconds
        if shape.trouble or fresh or key in self._learning or len(self._learning) >= LEARNING_MAX:
            return
        self._learning[key] = task = self._background.begin(self._learn(key, asked, shape, recorded, seconds))
        self._first.learns(key)
        task.add_done_callback(lambda _: self._end_learning(key, shape))

    def _end_learning(self, key: MemoryKey, shape: Shape) -> None:
        self._learning.pop(key, None)
        learned = self._shapes.find(key, shape.literals)
        self._first.learned(key, anything=learned is not None and learned.query is not None)

    async def _learn(self, key: MemoryKey, asked: MemoryRead, shape: Shape, recorded: Recorded, seconds: float) -> None:
        async with self._turn:
            forgotten, tables = self._shapes.forgotten, self._tables(asked.read)
            entries = {view: self._catalog.find(view) for view, _, _ in asked.read.versions}
            if tables is None:
                return
            views = {view: Participant.of(entry.view) for view, entry in entries.items() if entry is not None}
            columns = {view: tuple(each.columns) for view, each in tables.items()}
            query, reason = None, ""
            try:
                async with asyncio.timeout(LEARNED_SECONDS):
                    query = await self._learner.learn(asked.session, asked.read, shape, columns, _times(tables))
            except NotListed as error:
                reason = str(error)
                log.debug("a query is not answered from memory: %s", reason)
            except (FreshgateError, PlanUnavailable, TimeoutError) as error:
                log.info("it is not learned how a query is answered from memory: %s", str(error) or "no answer in time")
                return
            replies = recorded.status, recorded.metadata
            names = tuple(self._tables_of(asked.read).values())
            at = time.monotonic()
            learned = LearnedShape(query, reason, shape.literals, *replies, seconds, views, columns, at, names)
            if query is not None and recorded.pages and not await self._agrees(asked, shape, query, recorded):
                return
            if forgotten == self._shapes.forgotten:
                self._shapes.put(key, learned)
                self.counts.learned += query is not None

    async def _agrees(self, asked: MemoryRead, shape: Shape, query: ShapeQuery, recorded: Recorded) -> bool:
        """Whether the engine's answer is the one that Spark has just given, if it has one. Only then is it used."""
        if (tables := self._tables(asked.read)) is None:
            return False
        engine = self._engine_read(shape, None, query, tables, asked.read)
        if isinstance(engine, SparksRead) or isinstance(pages := await self._run(engine, asked.read), SparksRead):
            return True
        found = await asyncio.to_thread(difference, engine.query.query, rows_of(pages), rows_of(recorded.pages))
        if found is not None and asked.read.reads_tables:
            # The client's session may know earlier files of a table: Spark is asked again, after a REFRESH TABLE.
            return await self._is_sparks(asked, engine.query, pages)
        return found is None or not await self._note(asked, shape, engine.query, found)

    # --- comparisons -------------------------------------------------------------------------------

    def _compare_sometimes(self, asked: MemoryRead, query: ShapeQuery, pages: tuple[ColumnarPage, ...]) -> None:
        """Compares it by chance, because dashboards repeat their queries in turn; one comparison at a time. One that is
        due in a crowd, which it would slow down more than a hundred answers do, is made of a later answer."""
        now, every = time.monotonic(), self._limits.canary
        if every and self._owed is None and self._chance() * every < 1:
            self._owed = now
        if self._owed is None or (self._comparing is not None and not self._comparing.done()):
            return
        if self._answering < CROWD or now - self._owed > OWED_SECONDS:
            self._owed = None
            self._comparing = self._background.begin(self._compare(asked, query, pages))

    async def _compare(self, asked: MemoryRead, query: ShapeQuery, pages: tuple[ColumnarPage, ...]) -> None:
        await self._is_sparks(asked, query, pages)

    async def _is_sparks(self, asked: MemoryRead, query: ShapeQuery, pages: tuple[ColumnarPage, ...]) -> bool:
        """Whether Spark has just given the same answer."""
        session = asked.session
        changes = session.settings.changes
        try:
            async with asyncio.timeout(LEARNED_SECONDS), session.spare() as side:
                same = side.session(session.upstream_handle)
                for name in self._tables_of(asked.read).values():
                    await same.run(maintenance.refresh_listing(name))
                rows = (await same.run(MARK + asked.read.text)).rows
        except (FreshgateError, TimeoutError) as error:
            log.info("an answer from memory was not compared: %s", str(error) or "no answer in time")
            return False
        if session.settings.changes != changes or session.namespace != asked.read.namespace:
            return False
        found = await asyncio.to_thread(difference, query.query, rows_of(pages), rows)
        self.counts.answers_compared += 1
        if found is not None:
            await self._note(asked, shape_of(asked.read.text), query, found)
        return found is None

    async def _note(self, asked: MemoryRead, shape: Shape, query: ShapeQuery, found: str) -> bool:
        """Ends answers like this one (`distrust`), unless Spark may have read other versions. Returns whether the
        difference is certain."""
        tables = self._tables_of(asked.read)
        for each, _, number in asked.read.versions:
            if each in tables and not await self._residents.is_so_now(tables[each], number):
                return False
        versions = [each for each in asked.read.versions if each[0] not in tables]
        if any(self._catalog.current(view) != version for view, _, version in versions):
            return False
        self.counts.answers_differed += 1
        self.distrust.note(asked.read, shape.key, query.parts)
        for view in asked.read.views:
            self._drop_results(view)
        names = [*(self._catalog.entry(view).view.name for view, _, _ in versions), *tables.values()]
        shown = ", ".join(map(str, names))
        log.error("an answer from the rows of %s in memory differs from Spark's: %s. %s", shown, found, _ADVICE)
        self._tell(asked.session, names, found, asked.read.text)
        return True

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean, or, if it may name anything, rights."""
        self._shapes.forget(named)
        self._first.forget()

    def altered(self, view_id: str) -> None:
        """A view that must not be in memory is no longer a reason to distrust the engine."""
        entry = self._catalog.find(view_id)
        if entry is None or view_properties.in_memory(entry.view.properties) is False:
            self.distrust.forget(view_id)


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Limits of answers."""

    rights_seconds: float
    """How long a user's rights are believed."""
    bytes_max: int
    """Of an answer."""
    query_seconds: float
    canary: int
    """One of so many answers is compared with Spark's; 0: none."""


_PASSING = frozenset({"busy", "lost", "loading"})
"""Reasons of the engine that say nothing of the text."""
_OF_SHAPES = frozenset({"time", "memory"})
"""Reasons that other literals hardly change: whoever asks with other ones must not wait for the same end."""
_ADVICE = (
    "Spark answers such queries from now on. ALTER MATERIALIZED VIEW ... SET NOT IN MEMORY, and then SET IN MEMORY, "
    "has them tried again. Please report this."
)


def _times(tables: Mapping[str, Resident]) -> tuple[int, int] | None:
    return times_of((column.type, each.facts[column.name]) for each in tables.values() for column in each.columns)


def _key(asked: MemoryRead, shape: Shape) -> MemoryKey:
    read, settings = asked.read, asked.session.settings
    shape_key = ShapeKey(shape.key, read.namespace, asked.session.user, settings.id)
    return MemoryKey(shape_key, tuple(view for view, _, _ in read.versions), asked.client)
