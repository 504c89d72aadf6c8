"""Tests what is answered from the rows of views in memory: with fakes of Spark, the engine, and what is learned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from fake_spark import Answer, FakePlans
from fakes import Client, Site

from gateway.errors import StatementFailed
from gateway.memory.page_encoding import PageFormat
from gateway.mv.model.residence import Held, Residence, Wish
from gateway.mv.ports import MemoryAnswer, MemoryUnavailable, PlanUnavailable, RowEngine, SqlSession
from gateway.mv.rewriting.proving import Reader
from gateway.service.clients.session import Session
from gateway.service.memory import memory_answers
from gateway.service.memory.distrust import DistrustedAnswers
from gateway.service.memory.first_queries import AT_SPARK
from gateway.service.memory.learning import Learner
from gateway.service.memory.memory_answers import CROWD, MemoryAnswers, MemoryLimits, WhySpark
from gateway.service.memory.memory_explanation import MemoryExplanation
from gateway.service.routing.ways import RepeatableRead
from gateway.wire.columnar import ColumnarPage, rows_of
from sql.memory.columns import ColumnFacts, MemoryColumn
from sql.memory.engine_texts import Hole, NotListed, Text, ViewTable
from sql.memory.scalars import Fact
from sql.memory.shape_query import ShapeQuery
from sql.memory.translation import EngineQuery
from sql.memory.zone_rules import UTC_RULES
from sql.names import Namespace, TableName
from sql.proof.plan import Output
from sql.rewriting.shape import Shape

READ = "SELECT n FROM s.mv WHERE n < 5"
OTHER = "SELECT n FROM s.mv WHERE n < 7"
JOIN = "SELECT n FROM s.mv JOIN s.c ON c.id = mv.n WHERE n < 5"
TABLE = "table s.c 1"
MAX, MIN = (f"SELECT {name}(n) FROM s.mv WHERE n < 5" for name in ("max", "min"))


@dataclass
class FakeResident:
    table: str
    columns: tuple[MemoryColumn, ...] = (MemoryColumn("n", "bigint"),)
    facts: Mapping[str, ColumnFacts] = field(default_factory=lambda: {"n": ColumnFacts(is_ascii=True)})


class Memory:
    """A gateway whose only view is in memory. Implements the ports of MemoryAnswers."""

    def __init__(self, site: Site, view: str) -> None:
        self.site, self.view = site, view
        self.value: object = 1
        """What the engine says."""
        self.asked: list[str] = []
        self.reads: list[str] = []
        self.loaded: dict[tuple[str, int], FakeResident] = {(view, 1): FakeResident("t1")}
        self.refusal = ""
        self.needed: frozenset[tuple[str, str, Fact]] = frozenset()
        self.unavailable = ""
        self.parts = frozenset({"Sum(bigint)"})
        self.learned = 0
        self.told: list[str] = []
        self.wanted: list[frozenset[TableName]] = []
        self.chance = 1.0
        self.answers = MemoryAnswers(
            site.catalog,
            self,
            cast(RowEngine, self),
            cast(Learner, self),
            MemoryLimits(rights_seconds=100.0, bytes_max=1 << 20, query_seconds=10.0, canary=10),
            lambda session, views, found, text: self.told.append(found),
            site.results.forget,
            lambda: self.chance,
        )
        foresee = MemoryExplanation(site.router, site.catalog, site.habits, self.answers).foresee
        own = replace(site.service.own, foresee=foresee)
        site.service = replace(site.service, memory=self.answers, own=own)
        site.effects.forgetting.append(self.answers.forget)

    def resident(self, view_id: str, version: int) -> FakeResident | None:
        return self.loaded.get((view_id, version))

    def used(self, view_id: str) -> None:
        self.reads.append(view_id)

    def table_named(self, table_id: str) -> TableName | None:
        return TableName("s", "c") if table_id.startswith("table ") else None

    def joined(self, tables: frozenset[TableName]) -> None:
        self.wanted.append(tables)

    async def is_so_now(self, table: TableName, number: int) -> bool:
        return self.site.known.tables is not None and self.site.known.tables.version(table) == (TABLE, "s.c", number)

    async def run(self, text: str, columns: object, rows_max: int, bytes_max: int, seconds: float) -> MemoryAnswer:
        self.asked.append(text)
        if self.unavailable:
            raise MemoryUnavailable(self.unavailable)
        return MemoryAnswer((PageFormat(["bigint"]).page(0, [(self.value,)]),), 1)

    async def learn(
        self,
        session: Session,
        read: RepeatableRead,
        shape: Shape,
        columns: Mapping[str, Any],
        times: tuple[int, int] | None,
    ) -> ShapeQuery:
        self.learned += 1
        if self.refusal:
            raise NotListed(self.refusal)
        text = Text(("SELECT n FROM ", ViewTable(self.view), " WHERE n < ", Hole(0, "bigint")))
        return ShapeQuery(
            EngineQuery(text, (Output("1", "n", "bigint"),), self.needed), {}, UTC_RULES, parts=self.parts
        )

    async def read(self, client: Client, text: str = READ) -> object:
        """The value that a read returns."""
        read = await client.execute(text)
        operation = client.session.operations[cast(Any, read.handle).guid]
        recorded = getattr(operation, "_cursor", None)
        await self.answers._background.finish(10)
        return None if recorded is None else next(iter(rows_of(recorded.recorded.pages)))[0]

    @property
    def missed(self) -> dict[str, int]:
        return dict(self.answers.counts.missed)


class FakeTables:
    """Implements `routing.known_answers.HeldTables` for s.c, if it is in memory."""

    def __init__(self, number: int | None = 1) -> None:
        self.number = number
        """Of the rows that were last observed to be those of the table."""
        self.is_due = False
        self.looks: list[frozenset[TableName]] = []
        self.on_look: Callable[[], object] = lambda: None

    def holds(self, tables: Set[TableName]) -> bool:
        return tables <= {TableName("s", "c")}

    def version(self, table: TableName) -> tuple[str, str, int] | None:
        return None if self.number is None or table != TableName("s", "c") else (TABLE, "s.c", self.number)

    def why(self, table: TableName) -> str:
        return "it is being loaded"

    def due(self, tables: frozenset[TableName]) -> bool:
        return self.is_due

    async def look(self, tables: frozenset[TableName]) -> None:
        self.looks.append(tables)
        self.is_due = False
        self.on_look()


async def with_table(*, result_bytes: int = 0, number: int | None = 1) -> tuple[Memory, FakeTables]:
    """The rows of s.c are in memory, too."""
    memory, tables = await stage(result_bytes=result_bytes), FakeTables(number)
    memory.site.table("s.c")
    memory.site.known.tables = tables
    memory.loaded[TABLE, 1] = FakeResident("t9")
    return memory, tables


async def stage(*, result_bytes: int = 0) -> Memory:
    site = Site(result_bytes=result_bytes)
    site.habits.collects_whole = True
    site.table("s.t")
    view = await site.view("s.mv", "SELECT count(*) n FROM s.t")
    site.spark.value = lambda _: 1
    site.spark.answers.say(r"^/\* freshgate: comparison", Answer([(1,)]))
    site.known.active = True
    return Memory(site, view.id)


async def test_the_first_query_of_a_shape_goes_to_spark_and_the_next_ones_do_not() -> None:
    memory = await stage()
    client = await memory.site.client()
    assert await memory.read(client) == 1
    assert memory.missed == {WhySpark.NEW: 1}
    assert memory.asked == ['SELECT n FROM "t1" WHERE n < CAST(5 AS BIGINT)'], "It is compared once with Spark's."
    memory.value = 2
    assert await memory.read(client) == 2
    assert await memory.read(client, OTHER) == 2
    assert memory.asked[1:] == [f'SELECT n FROM "t1" WHERE n < CAST({n} AS BIGINT)' for n in (5, 7)]
    assert memory.reads == [memory.view] * 2
    assert (memory.answers.counts.answered, memory.learned) == (2, 1)


async def test_a_crowd_waits_for_what_is_learned_from_the_first_ones() -> None:
    memory = await stage()
    clients = [await memory.site.client() for _ in range(20)]
    texts = [READ.replace("5", str(number)) for number in range(10, 30)]
    assert await asyncio.gather(*map(memory.read, clients, texts)) == [1] * 20
    assert (memory.missed, memory.learned) == ({WhySpark.NEW: AT_SPARK}, 1)
    assert memory.answers.counts.answered == 20 - AT_SPARK


async def test_a_crowd_waits_once_for_what_is_not_listed() -> None:
    memory = await stage()
    memory.refusal = "percentile"
    for numbers in (range(10, 30), range(30, 50)):
        clients = [await memory.site.client() for _ in numbers]
        texts = [READ.replace("5", str(number)) for number in numbers]
        assert await asyncio.gather(*map(memory.read, clients, texts)) == [1] * 20
    assert memory.answers.counts.answered == 0


async def test_a_session_that_changes_meanwhile_asks_spark() -> None:
    memory = await stage()
    clients = [await memory.site.client() for _ in range(AT_SPARK + 1)]
    *_, last = clients
    original = memory.learn

    async def learn(*arguments: Any, **named: Any) -> ShapeQuery:
        last.session.settings.changes += 1
        return await original(*arguments, **named)

    memory.learn = learn  # type: ignore[method-assign]
    # Nothing is learned from its answer, which therefore is not recorded.
    assert await asyncio.gather(*map(memory.read, clients)) == [1] * AT_SPARK + [None]
    assert memory.answers.counts.answered == 0


async def test_a_kept_answer_is_given_again_without_the_engine() -> None:
    memory = await stage(result_bytes=1 << 24)
    client = await memory.site.client()
    await memory.read(client)
    assert await memory.read(client, OTHER) == 1
    asked = len(memory.asked)
    assert await memory.read(client, OTHER) == 1
    assert len(memory.asked) == asked


async def test_a_session_can_do_without() -> None:
    memory = await stage()
    client = await memory.site.client()
    await memory.read(client)
    asked = len(memory.asked)
    off = await client.execute("SET freshgate.memory = off")
    await off.poll()
    memory.value = 2
    await memory.read(client)
    assert len(memory.asked) == asked
    assert memory.missed == {WhySpark.NEW: 1, WhySpark.OFF: 1}


async def test_only_the_version_that_the_read_would_see_answers() -> None:
    memory = await stage()
    client = await memory.site.client()
    await memory.read(client)
    memory.loaded = {(memory.view, 2): FakeResident("t2")}
    asked = len(memory.asked)
    await memory.read(client)
    assert len(memory.asked) == asked
    assert memory.missed == {WhySpark.NEW: 1, WhySpark.NOT_LOADED: 1}


async def test_other_columns_in_memory_are_learned_anew() -> None:
    memory = await stage()
    client = await memory.site.client()
    await memory.read(client)
    memory.loaded[(memory.view, 1)].columns = (MemoryColumn("n", "int"),)
    asked = len(memory.asked)
    await memory.read(client)
    assert (memory.learned, len(memory.asked)) == (2, asked + 1), "It is only compared."


async def test_what_is_not_listed_is_learned_once() -> None:
    memory = await stage()
    memory.refusal = "it contains a part"
    client = await memory.site.client()
    for _ in range(3):
        await memory.read(client)
    assert (memory.learned, memory.asked) == (1, [])
    assert memory.missed == {WhySpark.NEW: 1, WhySpark.NOT_LISTED: 2}


async def test_values_for_which_a_text_is_not_meant_are_sparks() -> None:
    memory = await stage()
    memory.needed = frozenset({(memory.view, "n", Fact.NO_NEGATIVE_ZERO)})
    client = await memory.site.client()
    for _ in range(2):
        await memory.read(client)
    assert memory.asked == []
    assert memory.missed == {WhySpark.NEW: 1, WhySpark.VALUES: 1}
    memory.loaded[(memory.view, 1)].facts = {"n": ColumnFacts(has_negative_zero=False)}
    await memory.read(client)
    assert len(memory.asked) == 1


@pytest.mark.parametrize(("reason", "asked"), [("busy", 3), ("failed", 1)])
async def test_an_engine_that_has_no_answer_is_not_asked_in_vain(reason: str, asked: int) -> None:
    memory = await stage()
    memory.unavailable = reason
    client = await memory.site.client()
    for _ in range(3):
        await memory.read(client)
    assert len(memory.asked) == asked
    assert memory.missed == {WhySpark.NEW: 1, WhySpark.ENGINE: 2}


async def test_another_user_is_learned_apart() -> None:
    memory = await stage()
    await memory.read(await memory.site.client("ada"))
    await memory.read(await memory.site.client("bob"))
    assert memory.learned == 2
    assert memory.missed == {WhySpark.NEW: 2}


async def test_a_first_answer_that_is_not_sparks_quarantines_shape_and_view() -> None:
    memory = await stage()
    memory.value = 2
    client = await memory.site.client()
    await memory.read(client)
    assert memory.told == ["1 of 1 rows differ"]
    await memory.read(client)
    await memory.read(client, "SELECT max(n) FROM s.mv")
    assert memory.missed == {WhySpark.NEW: 1, WhySpark.QUARANTINED: 2}
    assert (memory.answers.counts.answered, memory.answers.counts.answers_differed) == (0, 1)


async def test_a_comparison_finds_an_answer_that_is_not_sparks() -> None:
    memory = await stage(result_bytes=1 << 24)
    client = await memory.site.client()
    await memory.read(client)
    memory.value, memory.chance = 2, 0.0
    assert await memory.read(client, OTHER) == 2
    await asyncio.sleep(0)
    assert memory.told == ["1 of 1 rows differ"]
    assert memory.answers.counts.answers_compared == 1
    assert len(memory.site.results) == 0, "The wrong answer is not given again."


async def test_a_comparison_is_put_off_while_a_crowd_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = await stage()
    clients = [await memory.site.client() for _ in range(2 * CROWD)]
    await memory.read(clients[0])
    memory.chance = 0.0
    original, together = memory.run, asyncio.Barrier(len(clients))

    async def run(*arguments: Any) -> MemoryAnswer:
        await together.wait()
        answer = await original(*arguments)
        for _ in range(memory.answers._answering):
            await asyncio.sleep(0)
        return answer

    async def crowd() -> int:
        compared = memory.answers.counts.answers_compared
        monkeypatch.setattr(memory, "run", run)
        await asyncio.gather(*map(memory.read, clients))
        monkeypatch.setattr(memory, "run", original)
        return memory.answers.counts.answers_compared - compared

    begun = list[int]()
    compare = memory.answers._compare

    def compared(*arguments: Any) -> Coroutine[Any, Any, None]:
        begun.append(memory.answers._answering)
        return compare(*arguments)

    monkeypatch.setattr(memory.answers, "_compare", compared)
    assert await crowd() >= 1, "The last ones are few."
    assert max(begun) < CROWD
    monkeypatch.setattr(memory_answers, "OWED_SECONDS", -1.0)
    await crowd()
    assert max(begun) >= CROWD, "It is not put off for ever."


async def test_what_else_computes_the_same_things_is_sparks_until_it_may_be_tried_again() -> None:
    """Nobody knows which of them was at fault; a refresh does not change it."""
    memory = await stage()
    site, client = memory.site, await memory.site.client()
    await memory.read(client)
    await memory.read(client, MAX)
    memory.parts = frozenset({"Upper(string)"})
    await memory.read(client, MIN)
    memory.value, memory.chance = 2, 0.0
    assert await memory.read(client) == 2
    await asyncio.sleep(0)
    assert len(memory.told) == len(memory.answers.distrust) == 1
    memory.value, memory.chance = 1, 1.0
    # The same rows, as if they were of another version.
    (difference,) = memory.answers.distrust._found
    read = replace(difference.read, versions=tuple((view, name, 0) for view, name, _ in difference.read.versions))
    memory.answers.distrust._found = [replace(difference, read=read)]
    asked = len(memory.asked)
    await memory.read(client)
    await memory.read(client, MAX)
    assert len(memory.asked) == asked
    assert await why(client, MAX) == (
        "quarantined: it computes Sum(bigint), as an answer from s.mv did that was not Spark's"
    )
    assert "of this shape" in await why(client)
    await memory.read(client, MIN)
    assert len(memory.asked) == asked + 1, "It computes something else."
    memory.answers.altered(memory.view)
    assert len(memory.answers.distrust) == 1, "Something else of it has changed."
    entry = site.entry("s.mv")
    entry._view = replace(entry.view, properties={"in_memory": "false"})
    memory.answers.altered(memory.view)
    assert len(memory.answers.distrust) == 0


async def test_after_a_difference_of_a_query_that_computes_nothing_spark_answers_everything() -> None:
    distrust = DistrustedAnswers()
    read = RepeatableRead("", Namespace("s"), (("1", "s.mv", 1),), 0)
    distrust.note(read, "a", frozenset())
    assert distrust.of_query("b", frozenset({"Sum(bigint)"})) is not None
    distrust.forget("2")
    distrust.forget("1")
    assert distrust.of_query("b", frozenset({"Sum(bigint)"})) is None
    for _ in range(101):
        distrust.note(read, "a", frozenset({"x"}))
    other = replace(read, versions=(("2", "s.other", 1),))
    assert "more than 100" in str(distrust.of_views(other))


async def test_a_change_of_rights_ends_what_was_learned() -> None:
    memory = await stage()
    client = await memory.site.client()
    await memory.read(client)
    change = await (await memory.site.client()).execute("GRANT SELECT ON s.mv TO bob")
    await change.poll()
    await memory.read(client)
    assert memory.learned == 2


async def test_what_was_learned_of_a_view_ends_with_its_properties() -> None:
    memory = await stage()
    client = await memory.site.client()
    await memory.read(client)
    entry = memory.site.entry("s.mv")
    async with entry.lock:
        entry.alter(replace(entry.view, properties={"a": "b"}), rewritten=False, watches_others=False)
    await memory.read(client)
    assert memory.learned == 2


class PlansForAll(FakePlans):
    """As EXPLAIN's, which a plugin does not restrict."""

    checks_rights = False


class OwnSession:
    """Spark refuses the user every read."""

    async def run(self, sql: str, *, on_start: object = None) -> Answer:
        raise StatementFailed(f"no right: {sql}")

    def spoil(self) -> None: ...


@pytest.mark.parametrize("plans", [PlansForAll({}), FakePlans({})])
async def test_nothing_is_learned_where_spark_refuses_the_user_a_view(plans: FakePlans) -> None:
    """What was learned before ends by itself: the plans would be the same."""
    memory = await stage()
    nothing = cast(Any, None)
    learner = Learner(memory.site.catalog, plans, nothing, nothing, nothing, nothing)

    @asynccontextmanager
    async def twin() -> AsyncIterator[SqlSession]:
        yield OwnSession()

    reader, view = Reader(b"name", OwnSession(), "ada", twin), memory.site.entry("s.mv").view
    if plans.checks_rights:
        await learner._check_rights(reader, [view.name])
    else:
        with pytest.raises(
            PlanUnavailable, match=r"does not let ada read s\.mv: no right: CREATE OR REPLACE TEMPORARY"
        ):
            await learner._check_rights(reader, [view.name])


# --- base tables -----------------------------------------------------------------------------------------------


async def test_a_join_with_a_base_table_in_memory_is_answered() -> None:
    memory, tables = await with_table()
    client = await memory.site.client()
    assert await memory.read(client, JOIN) == 1
    memory.value = 2
    assert await memory.read(client, JOIN) == 2
    assert memory.reads == [memory.view, TABLE]
    assert (tables.looks, memory.wanted) == ([], [])


async def test_a_join_with_a_table_that_is_not_in_memory_is_sparks_and_counted() -> None:
    memory, tables = await with_table(number=None)
    client = await memory.site.client()
    for _ in range(2):
        await memory.read(client, JOIN)
    assert memory.asked == []
    assert memory.wanted == [frozenset({TableName("s", "c")})] * 2
    assert memory.missed == {WhySpark.NOT_LOADED: 2}
    ((_, verdict, reason, _),) = await explained(client, JOIN)
    assert (verdict, reason) == (
        "SPARK",
        "not loaded: it also reads s.c, not only materialized views: it is being loaded",
    )
    assert len(memory.wanted) == 2, "EXPLAIN is not counted."
    # Without the view in memory, the table would not help.
    memory.loaded.clear()
    await memory.read(client, JOIN)
    assert len(memory.wanted) == 2
    assert tables.looks == []


async def test_a_table_is_looked_at_before_its_rows_are_used() -> None:
    memory, tables = await with_table()
    client = await memory.site.client()
    await memory.read(client, JOIN)
    tables.is_due = True
    asked = len(memory.asked)
    assert await memory.read(client, JOIN) == 1
    assert (tables.looks, len(memory.asked)) == ([frozenset({TableName("s", "c")})], asked + 1)
    # The look shows other rows.
    tables.is_due, tables.on_look = True, lambda: setattr(tables, "number", None)
    await memory.read(client, JOIN)
    assert len(memory.asked) == asked + 1


async def test_other_rows_of_a_table_are_another_answer() -> None:
    memory, tables = await with_table(result_bytes=1 << 24)
    client = await memory.site.client()
    await memory.read(client, JOIN)
    kept = len(memory.site.results)
    memory.value = 2
    assert await memory.read(client, JOIN) == 2, "Spark's answer was not kept: its rows may be of another state."
    assert len(memory.site.results) == kept + 1
    asked = len(memory.asked)
    assert await memory.read(client, JOIN) == 2
    assert len(memory.asked) == asked, "The engine's answer is kept."
    tables.number = 2
    memory.loaded[TABLE, 2] = FakeResident("t10")
    memory.value = 3
    assert await memory.read(client, JOIN) == 3
    tables.number = None
    await memory.read(client, JOIN)
    assert memory.site.spark.texts.count(JOIN) == 2


async def test_a_difference_counts_if_spark_reads_the_rows_in_memory() -> None:
    """The client's session may know earlier files."""
    memory, _ = await with_table()
    fresh = list[str]()

    def refreshed(text: str) -> Answer:
        fresh.append(text)
        return Answer([])

    memory.site.spark.answers.say(r"^REFRESH", refreshed)
    memory.site.spark.answers.say(r"^/\* freshgate: comparison", lambda _: Answer([(7 if fresh else 1,)]))
    client = await memory.site.client()
    memory.value = 7
    assert await memory.read(client, JOIN) == 1
    assert (memory.told, memory.answers.counts.learned) == ([], 1), "Spark has the same, once it knows the files."
    assert fresh == ["REFRESH TABLE `spark_catalog`.`s`.`c`"]


async def test_a_difference_from_a_table_that_has_just_changed_is_none() -> None:
    memory, tables = await with_table()
    client = await memory.site.client()
    await memory.read(client, JOIN)
    memory.chance, memory.value, number = 0.0, 8, tables.number
    tables.on_look = lambda: None

    def written(_: str) -> Answer:
        tables.number = 2
        return Answer([])

    memory.site.spark.answers.say(r"^REFRESH", written)
    assert await memory.read(client, JOIN) == 8
    assert memory.told == []
    tables.number = number
    memory.site.spark.answers.say(r"^REFRESH", Answer([]))
    await memory.read(client, JOIN)
    assert len(memory.told) == 1
    ((_, _, reason, _),) = await explained(client, JOIN)
    assert reason == "quarantined: an answer from version 1 of s.mv in memory was not Spark's"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n FROM s.mv JOIN s.c VERSION AS OF 3 ON c.id = mv.n",
        "SELECT n FROM s.mv JOIN s.c TIMESTAMP AS OF '2026-01-01' AS c ON c.id = mv.n",
        "SELECT n FROM s.mv JOIN s.c WITH ('mergeSchema' = 'true') ON c.id = mv.n",
        "SELECT n FROM s.mv JOIN parquet.`/data/c` c ON c.id = mv.n",
        "SELECT n FROM s.mv JOIN s.c TABLESAMPLE (10 ROWS) ON c.id = mv.n",
        "SELECT n FROM s.mv JOIN s.other c ON c.id = mv.n",
        "SELECT n FROM s.c WHERE rand() < 0.5",
        "WITH C AS (SELECT 1 AS id) SELECT n FROM s.mv JOIN c ON c.id = mv.n",
    ],
)
async def test_what_else_is_read_of_a_table_is_sparks(text: str) -> None:
    memory, _ = await with_table()
    client = await memory.site.client()
    for _ in range(2):
        await memory.read(client, text)
    assert (memory.asked, memory.learned) == ([], 0)


async def test_a_temporary_view_hides_a_table() -> None:
    memory, _ = await with_table()
    client = await memory.site.client()
    await (await client.execute("USE s")).poll()
    await (await client.execute("CREATE TEMPORARY VIEW c AS SELECT 1 AS id")).poll()
    await memory.read(client, "SELECT n FROM s.mv JOIN c ON c.id = mv.n WHERE n < 5")
    assert memory.learned == 0


async def test_a_table_with_another_column_is_looked_at_again() -> None:
    """ADD COLUMNS keeps all rows, but `SELECT *` shows another column."""
    memory, _ = await with_table()
    touched = list[TableName]()
    memory.site.catalog.news.touched.add(touched.extend)
    assert memory.site.catalog.watch(TableName("s", "c"))
    client = await memory.site.client()
    await (await client.execute("ALTER TABLE s.c ADD COLUMNS (extra INT)")).poll()
    assert TableName("s", "c") in touched
    del touched[:]
    await (await client.execute("ALTER TABLE s.other ADD COLUMNS (extra INT)")).poll()
    assert TableName("s", "c") not in touched


async def test_in_a_transaction_no_table_is_read_from_memory() -> None:
    memory, _ = await with_table()
    client = await memory.site.client()
    await memory.read(client, JOIN)
    asked = len(memory.asked)
    await (await client.execute("BEGIN TRANSACTION")).poll()
    await memory.read(client, JOIN)
    assert len(memory.asked) == asked


def test_rows_of_pages_are_read_from_their_bytes() -> None:
    types = ["bigint", "string", "double", "boolean", "int", "smallint", "tinyint"]
    rows = [(1, "a", 0.5, True, 2, 3, 4), (None,) * 7, (-1, "é", -0.5, False, -2, -3, -4)]
    page = ColumnarPage(PageFormat(types).page(0, rows))
    assert list(rows_of([page])) == rows


# --- EXPLAIN REWRITE -------------------------------------------------------------------------------------------


async def explained(client: Client, text: str = READ) -> list[tuple[Any, ...]]:
    done = await client.execute(f"EXPLAIN REWRITE {text}")
    assert done.error is None
    operation = client.session.operations[cast(Any, done.handle).guid]
    return [tuple(row) for row in cast(Any, operation)._result.rows]


async def why(client: Client, text: str = READ) -> str:
    """Why Spark answers a query."""
    ((view, verdict, reason, _),) = await explained(client, text)
    assert (view, verdict) == ("s.mv", "SPARK")
    return str(reason)


async def test_explain_rewrite_says_what_the_engine_runs() -> None:
    memory = await stage()
    memory.site.catalog.residences.off = ""
    memory.site.catalog.residences.set(memory.view, Residence(Held.LOADED, Wish.READS, "", 1, 1234, 5, 6))
    client = await memory.site.client()
    new = await explained(client)
    assert new[0][1:3] == (
        "SPARK",
        "not learned yet: Spark answers the first query of a shape, the engine the next ones by this text",
    )
    await memory.read(client)
    ((view, verdict, reason, text),) = await explained(client)
    assert (view, verdict) == ("s.mv", "MEMORY")
    assert reason == "the engine reads rows in memory: version 1 of s.mv, 1,234 rows, is the table t1"
    assert text == new[0][3] == 'SELECT n\nFROM "t1"\nWHERE n < CAST(5 AS BIGINT)'
    assert memory.missed == {WhySpark.NEW: 1}, "It counts nothing"
    assert len(memory.asked) == 1, "and runs nothing."


async def test_explain_rewrite_says_why_spark_answers() -> None:
    memory = await stage()
    site, client = memory.site, await memory.site.client()
    site.catalog.residences.off = ""
    memory.refusal = "it contains a part"
    assert await why(client) == "not listed: it contains a part"
    memory.refusal = ""
    memory.needed = frozenset({(memory.view, "n", Fact.NO_NEGATIVE_ZERO)})
    memory.loaded[(memory.view, 1)].facts = {"n": ColumnFacts(has_negative_zero=True)}
    assert await why(client) == "values: the column n has negative zeros"
    memory.needed = frozenset()
    table = memory.loaded.pop((memory.view, 1))
    assert await why(client) == (
        "not loaded: s.mv is not to be in memory: ALTER MATERIALIZED VIEW s.mv SET IN MEMORY has it loaded"
    )
    site.catalog.residences.set(memory.view, Residence(Held.NOT_LOADED, Wish.READS, "no room is left"))
    assert await why(client) == "not loaded: s.mv is NOT_LOADED, because no room is left"
    memory.loaded[(memory.view, 1)] = table
    assert (await why(client, "SELECT n, rand() FROM s.mv")).startswith("not repeatable: it calls a function that")
    assert (await why(client, "SELECT n FROM s.mv, s.t")).startswith("not repeatable: it also reads s.t, not")
    site.habits.collects_whole = False
    assert (await why(client)).startswith("not repeatable: Spark computes the rows")
    site.habits.collects_whole = True
    memory.unavailable = "rows"
    await memory.read(client)
    assert await why(client) == "engine: rows"
    await (await client.execute("SET freshgate.memory = off")).poll()
    assert (await why(client)).startswith("off: ")


async def test_explain_rewrite_says_that_the_view_is_stale() -> None:
    memory = await stage()
    client = await memory.site.client()
    memory.site.write("s.t")
    said = await why(client)
    assert said.startswith("not loaded: the query waits for a refresh first")
    assert "s.t" in said
    assert not memory.site.refreshed


async def test_a_transaction_reads_other_versions() -> None:
    memory = await stage()
    client = await memory.site.client()
    await (await client.execute("BEGIN")).poll()
    assert "in a transaction" in await why(client)


async def test_what_an_answer_saves_is_what_spark_took_for_the_first_query(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = await stage()
    client = await memory.site.client()
    await memory.read(client)
    (learned,) = next(iter(memory.answers._shapes._known.values()))
    assert learned.seconds > 0
    for _ in range(3):
        await memory.read(client)
    counts = memory.answers.counts
    assert 0 < counts.saved <= 3 * learned.seconds
