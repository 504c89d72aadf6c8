"""Refreshes by rows of definitions that read Spark views: when a view stands for its query, and when it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from explanations import explained
from fake_spark import Answer, Answers, FakeMetastore, named
from views import view_of

from gateway.mv.catalog.index import Catalog
from gateway.mv.formats.hive import CONVERSIONS
from gateway.mv.formats.table_format import Change
from gateway.mv.freshness.drift import Drift
from gateway.mv.model.contents import Basis, Contents
from gateway.mv.model.marks import Fold, Mark
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import MaterializedView, Version, base_key
from gateway.mv.observation.changes import Changes
from gateway.mv.observation.inspection import Inspection
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.mv.ports import UNKNOWN_SETTINGS, Relation, RelationKind, SqlSession
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.increments import GATHERED_BYTES_MAX, Increments
from gateway.mv.refresh.narrowing import CHANGED_BYTES_MAX
from gateway.mv.refresh.planner import SHUFFLES, Merged
from sql.increments.reasons import NotIncremental, Reason
from sql.names import Namespace, TableName
from sql.texts.storage_layout import UNPARTITIONED

TABLE, VIEW = named("s.t"), named("o.v")
INT = '{"name": "int"}'
UTC = {"spark.sql.session.timeZone": "UTC"}
CONVERTING = dict.fromkeys(CONVERSIONS.values(), "true")
SHOWN = Relation(
    VIEW,
    RelationKind.VIEW,
    view_text="SELECT k AS z, x FROM t",
    namespace=Namespace("s"),
    columns=(("a", INT), ("b", INT)),
    outputs=("z", "x"),
    settings=UTC,
    collation="UTF8_BINARY",
)


class FakeChanges:
    """Implements `Changes` for one table, to which rows are added."""

    def __init__(self) -> None:
        self.bytes = 0
        """Of the files with changed rows."""
        self.known = 0
        """Of the table."""

    def known_size(self, table: object) -> int:
        return self.known

    async def size(self, table: object, look: Look) -> int | None:
        return None if look.is_view else 10

    def check(self, table: TableName, look: Look, is_on: Callable[[str], bool]) -> None:
        if not look.is_view:
            Changes(Observer(cast(Any, None), cast(Any, None))).check(table, look, is_on)

    async def mark(self, table: object, look: Look) -> Mark:
        return Mark("t", "2")

    async def since(self, table: object, look: Look, mark: Mark) -> Change:
        return Change(Mark("t", "2"), "SELECT * FROM added", None, "SELECT * FROM before", self.bytes)

    def rows(self, table: object, look: Look, mark: Mark) -> str:
        return f"SELECT * FROM t{mark.position}"


class Session:
    """Answers as Spark does."""

    def __init__(self) -> None:
        self.answers = Answers()
        self.answers.say("^DESCRIBE QUERY", Answer([("a", "int", None), ("b", "int", None)]))
        self.answers.say("^EXPLAIN EXTENDED", lambda text: Answer([(explained(text),)]))

    async def run(self, sql: str, *, on_start: object = None) -> Answer:
        self.answers.heard.append(sql)
        return self.answers.to(sql)

    def spoil(self) -> None: ...


class Stage:
    def __init__(self, query: str = "SELECT b, a FROM o.v") -> None:
        self.metastore, self.session = FakeMetastore(), Session()
        version = replace(Version.whole(1, 1, 1, {}), contents=Contents(basis=Basis({base_key(TABLE): Mark("t", "1")})))
        self.view: MaterializedView = replace(
            view_of(version),
            query=query,
            columns=("b", "a"),
            namespace=Namespace("m"),
            tables=frozenset({TABLE, VIEW}),
            views=frozenset(),
            layout=UNPARTITIONED,
            followed=None,
            properties={},
        )
        self.metastore.add(Relation(self.view.definition, RelationKind.VIEW, settings=UTC))
        self.changes = FakeChanges()
        changes = cast(Changes, self.changes)
        catalog = Catalog("s", cast(Any, None))
        catalog.show(catalog.reserve(self.view))
        self.habits = Habits()
        self.habits.defaults = CONVERTING
        self.increments = Increments(catalog, self.metastore, self.habits, changes, cast(Any, None), 100)

    async def exact(self, shown: Relation = SHOWN) -> str:
        found = await self.increments.exact(self.view, self.inspection(shown), cast(SqlSession, self.session))
        assert found.rows is not None
        return found.rows.query

    async def merged(self, *changed: str) -> Merged:
        found = Drift(behind=((0, frozenset(changed)),))
        session = cast(SqlSession, self.session)
        merged = await self.increments.plan(self.view, found, self.inspection(SHOWN), session)
        assert merged is not None
        return merged

    async def appended(self, *changed: str) -> str:
        rows = (await self.merged(*changed)).exact.rows
        assert rows is not None
        return rows.query

    def inspection(self, shown: Relation) -> Inspection:
        columns = (("k", INT), ("x", INT))
        table = Relation(
            TABLE, RelationKind.TABLE, columns=columns, provider="hive", converted="orc", location="file:/t"
        )
        looks = {
            TABLE: Look(Snapshot("t", "2"), 0, relation=table),
            VIEW: Look(Snapshot("view", "1"), 0, is_view=True, relation=shown),
        }
        return Inspection({}, looks)


async def test_settings_that_change_no_meaning_may_differ() -> None:
    printed = {**UTC, "spark.sql.binaryOutputStyle": "UTF-8", "spark.sql.shuffle.partitions": "7"}
    assert "freshgate_view" in await Stage().exact(replace(SHOWN, settings=printed))


async def test_a_table_that_is_read_with_the_classes_of_hive() -> None:
    stage = Stage()
    assert "added" in await stage.appended(base_key(TABLE))
    stage.habits.defaults = {**CONVERTING, "spark.sql.hive.convertMetastoreOrc": "false"}
    with pytest.raises(NotIncremental, match="convertMetastoreOrc is off") as refused:
        await stage.appended(base_key(TABLE))
    assert refused.value.reason is Reason.HIVE_TEXT


async def test_a_view_stands_for_its_query() -> None:
    stage = Stage()
    described = "SELECT `z` AS `a`, `x` AS `b` FROM (SELECT k AS z, x FROM `spark_catalog`.`s`.`t`) AS `freshgate_view`"
    inner = "(SELECT k AS z, x FROM ({}) AS `t`) AS `freshgate_view`"
    expected = "SELECT `x` AS `b`, `z` AS `a` FROM " + inner
    assert await stage.exact() == expected.format("SELECT * FROM t2")
    heard = [each for each in stage.session.answers.heard if not each.startswith(("SET ", "RESET "))]
    mark = inner.format("SELECT * FROM `spark_catalog`.`s`.`t` AS `freshgate_place_0`")
    assert heard == [
        "DESCRIBE QUERY SELECT * FROM `spark_catalog`.`o`.`v`",
        f"DESCRIBE QUERY {described}",
        f"EXPLAIN EXTENDED SELECT * FROM {stage.view.definition.quoted}",
        f"EXPLAIN EXTENDED SELECT `x` AS `b`, `z` AS `a` FROM {mark}",
    ]
    before = len(stage.session.answers.heard)
    assert await stage.appended(base_key(TABLE)) == expected.format("SELECT * FROM added")
    assert len(stage.session.answers.heard) == before
    assert await stage.increments.is_small(stage.view, stage.inspection(SHOWN))


JOINED = "SELECT v.b, v.a FROM o.v JOIN s.t ON v.a = t.k"


@pytest.mark.parametrize(
    ("query", "size", "adaptive", "hint"),
    [
        ("SELECT b, a FROM o.v", 10, "true", "COALESCE(1)"),
        ("SELECT b, a FROM o.v", GATHERED_BYTES_MAX, "false", "COALESCE(1)"),
        ("SELECT b, a FROM o.v", GATHERED_BYTES_MAX + 1, "true", ""),
        ("SELECT b, a FROM o.v", 0, "true", ""),
        (JOINED, 10, "true", "REBALANCE"),
        (JOINED, 10, "false", ""),
        (JOINED, GATHERED_BYTES_MAX + 1, "true", ""),
    ],
)
async def test_few_rows_are_written_to_one_file(query: str, size: int, adaptive: str, hint: str) -> None:
    stage = Stage(query)
    stage.changes.bytes = size
    stage.habits.defaults = {**CONVERTING, "spark.sql.adaptive.enabled": adaptive}
    text = await stage.appended(base_key(TABLE))
    assert text.startswith(f"SELECT /*+ {hint} */ * FROM (" if hint else ("SELECT `x`", "(SELECT"))


MIB = 2**20


@pytest.mark.parametrize(
    ("query", "changed", "known", "set_to", "shuffles"),
    [
        ("SELECT b, a FROM o.v", 10, 0, "200", 16),
        ("SELECT b, a FROM o.v", 50 * MIB, 0, "200", 50),
        ("SELECT b, a FROM o.v", 200 * MIB, 0, "200", 0),
        ("SELECT b, a FROM o.v", 0, 0, "200", 0),
        ("SELECT b, a FROM o.v", 10, 0, "16", 0),
        ("SELECT b, a FROM o.v", 10, 0, "", 0),
        # The table is there twice, so its changed rows meet all of them.
        (JOINED, 10, 0, "200", 0),
        (JOINED, 10, 40 * MIB, "200", 40),
    ],
)
async def test_few_rows_are_shuffled_into_few_partitions(
    query: str, changed: int, known: int, set_to: str, shuffles: int
) -> None:
    stage = Stage(query)
    stage.changes.bytes, stage.changes.known = changed, known
    stage.habits.defaults = {**CONVERTING, SHUFFLES: set_to}
    assert (await stage.merged(base_key(TABLE))).shuffles == shuffles


async def test_partitions_that_the_view_asks_for_are_left_to_it() -> None:
    stage = Stage()
    stage.changes.bytes, stage.habits.defaults = 10, {**CONVERTING, SHUFFLES: "200"}
    stage.view = replace(stage.view, properties={f"session.{SHUFFLES}": "64"})
    assert (await stage.merged(base_key(TABLE))).shuffles == 0


@pytest.mark.parametrize(
    ("size", "hint"), [(0, "REBALANCE"), (10, "COALESCE(1)"), (GATHERED_BYTES_MAX + 1, "REBALANCE")]
)
def test_many_versions_are_copied_to_few_files(size: int, hint: str) -> None:
    stage = Stage()
    stage.habits.defaults = {"spark.sql.adaptive.enabled": "true"}
    view = replace(stage.view, current=replace(stage.view.current, files=Fold(1, 3, size) if size else None))
    rows = stage.increments.copied(view).rows
    assert rows is not None
    assert rows.query.startswith(f"SELECT /*+ {hint} */ * FROM (SELECT `b`, `a` FROM ")


async def test_another_text_of_the_view_is_analysed_anew() -> None:
    stage = Stage()
    await stage.exact()
    assert "WHERE x > 1" in await stage.exact(replace(SHOWN, view_text="SELECT k AS z, x FROM t WHERE x > 1"))
    with pytest.raises(NotIncremental) as caught:
        await stage.appended(base_key(TABLE), base_key(VIEW))
    assert caught.value.reason is Reason.BASE_REPLACED
    assert "o.v" in caught.value.detail


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"settings": {"spark.sql.session.timeZone": "Asia/Tokyo"}}, "spark.sql.session.timeZone"),
        ({"settings": {**UTC, "spark.sql.legacy.sizeOfNull": "true"}}, "spark.sql.legacy.sizeOfNull"),
        ({"settings": {}}, "spark.sql.session.timeZone"),
        ({"collation": "UTF8_LCASE"}, "collation UTF8_LCASE"),
        ({"outputs": ()}, "told apart"),
        ({"view_text": "SELECT count(*) AS z, x FROM t GROUP BY x"}, ""),
    ],
)
async def test_a_view_that_means_something_else_is_refused(changed: dict[str, Any], detail: str) -> None:
    with pytest.raises(NotIncremental) as caught:
        await Stage("SELECT v.b, v.a FROM o.v JOIN s.t ON v.a = t.k").exact(replace(SHOWN, **changed))
    assert caught.value.reason in (Reason.OPERATOR, Reason.AGGREGATE_NOT_ON_TOP)
    assert detail in caught.value.detail
    assert not detail or "o.v" in caught.value.detail


async def test_settings_that_change_nothing_may_differ() -> None:
    same = {**UTC, "spark.sql.shuffle.partitions": "7", "spark.sql.caseSensitive": "false"}
    assert await Stage().exact(replace(SHOWN, settings=same))


async def test_a_view_whose_columns_have_other_types_today_is_refused() -> None:
    stage = Stage()
    stage.session.answers.say("freshgate_view", Answer([("a", "bigint", None), ("b", "int", None)]))
    with pytest.raises(NotIncremental, match=r"o\.v has other columns") as caught:
        await stage.exact()
    assert caught.value.reason is Reason.OPERATOR


async def test_a_definition_that_spark_plans_in_another_way_is_refused() -> None:
    stage = Stage()
    stage.session.answers.say(r"^EXPLAIN EXTENDED SELECT \* FROM `spark", Answer([(explained("", "csv"),)]))
    for _ in range(2):
        with pytest.raises(NotIncremental, match="Spark plans the definition in another way") as caught:
            await stage.exact()
        assert caught.value.reason is Reason.OPERATOR
    assert sum("EXPLAIN" in each for each in stage.session.answers.heard) == 2
    assert stage.session.answers.heard[-1].startswith("RESET ")


async def test_a_definition_that_cannot_be_planned_is_planned_again() -> None:
    stage = Stage()
    stage.session.answers.say("^EXPLAIN", Answer([("Error occurred during query planning",)]))
    with pytest.raises(NotIncremental, match="Error occurred"):
        await stage.exact()
    stage.session.answers.say("^EXPLAIN", lambda text: Answer([(explained(text),)]))
    assert "freshgate_view" in await stage.exact()


@pytest.mark.parametrize("setting", ["ctePrecedencePolicy", "parser.havingWithoutGroupByAsWhere"])
async def test_a_definition_that_spark_would_read_in_another_way_is_refused(setting: str) -> None:
    """In the legacy policy, an inner CTE does not hide an outer one of its name."""
    stage = Stage()
    settings = {**UTC, f"spark.sql.legacy.{setting}": "LEGACY" if "Policy" in setting else "true"}
    stage.metastore.add(Relation(stage.view.definition, RelationKind.VIEW, settings=settings))
    with pytest.raises(NotIncremental, match=f"created with another .*{setting}"):
        await stage.exact(replace(SHOWN, settings=settings))


@pytest.mark.parametrize(
    ("created", "server", "detail"),
    [
        ({}, {}, ""),
        # Refreshes have it.
        ({"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.icu.caseMappings.enabled": "false"}, {}, ""),
        # Of what is written: refreshes never have it, and rows do not depend on it.
        ({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}, {}, ""),
        ({"spark.sql.hive.manageFilesourcePartitions": "false"}, {}, "manageFilesourcePartitions"),
        ({"spark.sql.brandNew": "1"}, {}, "spark.sql.brandNew"),
        ({"spark.sql.brandNew": "1"}, {"spark.sql.brandNew": "1"}, ""),
        # Set for the whole Spark since: Spark reads the definition without it.
        ({}, {"spark.sql.ansi.enabled": "false"}, "spark.sql.ansi.enabled"),
        # Spark keeps none of these with a definition.
        ({}, {"spark.sql.catalog.lake": "x.Catalog", "spark.app.id": "1", "spark.sql.warehouse.dir": "/"}, ""),
        (UNKNOWN_SETTINGS, {}, "does not tell"),
    ],
)
async def test_a_refresh_by_rows_has_all_settings_that_spark_keeps_with_the_definition(
    created: dict[str, str], server: dict[str, str], detail: str
) -> None:
    stage = Stage()
    settings = created if created == UNKNOWN_SETTINGS else {**UTC, **created}
    stage.metastore.add(Relation(stage.view.definition, RelationKind.VIEW, settings=settings))
    habits = stage.increments._habits
    habits.settings = {**habits.settings, **server}
    if detail:
        with pytest.raises(NotIncremental, match=detail):
            await stage.exact(replace(SHOWN, settings=settings))
    else:
        assert await stage.exact(replace(SHOWN, settings=settings))


async def test_few_join_keys_of_a_small_change_are_constants() -> None:
    stage = Stage(JOINED)
    stage.session.answers.say("^REFRESH TABLE", Answer([]))
    stage.session.answers.say("^SELECT CAST", Answer([("7", "int")]))
    restricted = "WHERE ((`k`) IN (CAST('7' AS INT)))"
    stage.changes.bytes = 10
    assert restricted not in await stage.appended(base_key(TABLE))
    # The other tables are large.
    stage.increments._from_bytes = 0
    assert restricted in await stage.appended(base_key(TABLE))
    first, second = stage.session.answers.heard[-2:]
    assert (first, second.startswith("SELECT CAST(`k` AS STRING), typeof(`k`) FROM")) == (
        f"REFRESH TABLE {TABLE.quoted}",
        True,
    )
    stage.changes.bytes = CHANGED_BYTES_MAX + 1
    assert restricted not in await stage.appended(base_key(TABLE))
