"""Looks at what is not a plain table: paths, versions of tables, functions; without Spark."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any, cast

import pytest
from fake_spark import Answer, FakeMetastore, named
from fakes import FakeStorages
from views import view_of

from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.drift import drift
from gateway.mv.model import properties as stored
from gateway.mv.model.snapshot import GONE, MISSING, Snapshot, Unobserved
from gateway.mv.model.view import MaterializedView, Version, base_key
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.mv.observation.schemas import schemas_seen
from gateway.mv.ports import Function, Relation, RelationKind
from gateway.spark.metastore import _function
from sql.definition.bases import bases
from sql.definition.following import CannotFollow
from sql.names import FUNCTION, Namespace, TableName
from sql.statement import Partitioning
from sql.texts import maintenance

NOW = float("inf")
NOBODY = cast(Any, None)
ICEBERG, DELTA = named("lake.i.t"), named("s.d")


def commit(version: int, at: str = "then") -> tuple[Any, ...]:
    """A row of DESCRIBE HISTORY."""
    return (version, at, None, None, "WRITE")


class ObservedTables(FakeMetastore):
    """A metastore that is also the sessions in which its tables are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.observer = Observer(self, cast(Any, self), 60.0)
        self.heard = self.answers.heard
        self.add(Relation(ICEBERG, RelationKind.TABLE, provider="iceberg", location="file:/i/t", reading="1"))
        self.add(Relation(DELTA, RelationKind.TABLE, provider="delta", location="file:/s/d", created="1"))
        self.say("current-snapshot-id", ("current-snapshot-id", "1"))
        self.say(r"\.snapshots", ("1", None, "append"), ("2", "1", "append"), ("3", "2", "replace"))
        self.metadata_files("v1.json")

    def say(self, pattern: str, *rows: tuple[Any, ...], columns: tuple[str, ...] = ()) -> None:
        self.answers.say(pattern, Answer(list(rows), columns))

    def metadata_files(self, *files: str) -> None:
        self.say("metadata_log_entries", *((file,) for file in files))

    async def look(self, name: TableName) -> Look:
        return (await self.observer.observe([name], NOW))[name]

    async def state(self, name: TableName) -> str:
        observed = (await self.look(name)).observed
        assert isinstance(observed, Snapshot), observed
        return observed.state

    def below(self, name: str) -> TableName:
        """A branch or metadata table of the Iceberg table."""
        found = named(f"lake.i.t.{name}")
        self.add(replace(self.relations[ICEBERG], name=found, partition_columns=()))
        return found


def read(clause: str) -> TableName:
    return bases(f"SELECT * FROM {clause}", Namespace("s")).relations[0]


# --- files -----------------------------------------------------------------------------------------------

PLAIN = named("s.p")


class Warehouse(ObservedTables):
    """Describes the table `s.p` only after its files have been listed, as soon as `patient`."""

    def __init__(self) -> None:
        super().__init__()
        self.patient, self.listed = False, asyncio.Event()
        self.place("file:/s/p")
        self.answers.say("binaryFile", self._list)

    def place(self, location: str) -> None:
        self.add(Relation(PLAIN, RelationKind.TABLE, provider="parquet", location=location, created="1"))

    def _list(self, text: str) -> Answer:
        self.listed.set()
        return Answer([(location, 1, 1, 1) for location in ("file:/s/p", "file:/s/q") if f"`{location}`" in text])

    async def relation(self, name: TableName, *, identify: bool = True) -> Relation | None:
        if self.patient:
            async with asyncio.timeout(10):
                await self.listed.wait()
        return await super().relation(name, identify=identify)


async def test_files_are_listed_while_the_table_is_described() -> None:
    spark = Warehouse()
    first = await spark.look(PLAIN)
    spark.patient = True
    spark.listed.clear()
    spark.heard.clear()
    again = await spark.look(PLAIN)
    assert again.observed == first.observed
    assert sum("binaryFile" in text for text in spark.heard) == 1


async def test_a_table_that_is_elsewhere_now_is_listed_there() -> None:
    spark = Warehouse()
    first = await spark.look(PLAIN)
    spark.place("file:/s/q")
    moved = await spark.look(PLAIN)
    assert moved.observed != first.observed
    assert "`file:/s/q`" in spark.heard[-1]
    spark.relations.pop(PLAIN)
    assert (await spark.look(PLAIN)).observed == GONE


# --- paths -----------------------------------------------------------------------------------------------


async def test_a_path_is_its_files() -> None:
    spark = ObservedTables()
    name = read("csv.`/Data/*/[ab].csv`")
    spark.say("binaryFile", ("file:/Data/x", 1, 1, 1), ("file:/Data/y", 2, 1, 1))
    before = await spark.state(name)
    # As the definition has it: the case kept, and what stands for other names not escaped.
    assert any("binaryFile.`/Data/*/[ab].csv`" in text for text in spark.heard)
    assert await spark.state(name) == before
    spark.say("binaryFile", ("file:/Data/x", 1, 1, 1), ("file:/Data/z", 2, 1, 1))
    assert await spark.state(name) != before
    assert not [each for each in spark.asked if each[0] == "relation"]


async def test_the_path_of_a_delta_table_is_its_log() -> None:
    spark = ObservedTables()
    name = read("delta.`/Data/D`")
    spark.say("DESCRIBE HISTORY `delta`.`/Data/D`", commit(4))
    spark.say("DESCRIBE DETAIL `delta`.`/Data/D`", ("delta", "id-1"), columns=("format", "id"))
    before = (await spark.look(name)).observed
    assert before == Snapshot(cast(Snapshot, before).identity, "v4", "v4", position="4")
    spark.say("DESCRIBE HISTORY", commit(4, at="later"))
    spark.say("DESCRIBE DETAIL", ("delta", "id-2"), columns=("format", "id"))
    assert cast(Snapshot, (await spark.look(name)).observed).identity != before.identity


@pytest.mark.parametrize("clause", ["image.`/Data/X`", "iceberg.`/Data/X`", "s.`Data/X`"])
async def test_a_path_of_another_format_is_not_observed(clause: str) -> None:
    assert isinstance((await ObservedTables().look(read(clause))).observed, Unobserved)


async def test_what_a_path_is_to_others() -> None:
    """It has no schema that could change, and Spark is told of it in its own way."""
    spark = ObservedTables()
    name = read("parquet.`/Data/X`")
    spark.say("binaryFile", ("file:/Data/X", 1, 1, 1))
    assert schemas_seen({name: await spark.look(name)}) == {}
    assert maintenance.refresh_listing(name) == "REFRESH '/Data/X'"


# --- versions of tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clause", ["lake.i.t VERSION AS OF 'b'", "lake.i.t FOR SYSTEM_VERSION AS OF 'b' AS x", "lake.i.t.branch_b"]
)
async def test_a_branch_is_its_own_snapshot(clause: str) -> None:
    spark = ObservedTables()
    spark.below("branch_b")
    name = read(clause)
    spark.say(r"refs WHERE name = 'b'", ("2",))
    assert await spark.state(name) == "s2"
    # The same rows in other files.
    spark.say(r"refs WHERE name = 'b'", ("3",))
    assert await spark.state(name) == "s2"
    spark.say(r"refs WHERE name = 'b'", ("1",))
    assert await spark.state(name) == "s1"
    spark.say(r"refs WHERE name = 'b'")
    assert isinstance((await spark.look(name)).observed, Unobserved)


@pytest.mark.parametrize("clause", ["lake.i.t VERSION AS OF 77", "lake.i.t VERSION AS OF '77'"])
async def test_a_snapshot_of_iceberg_stays(clause: str) -> None:
    spark = ObservedTables()
    name = read(clause)
    before = await spark.look(name)
    spark.metadata_files("v1.json", "v2.json")
    assert (await spark.look(name)).observed == before.observed


@pytest.mark.parametrize(
    "clause",
    [
        *("lake.i.t.files", "lake.i.t.snapshots", "lake.i.t.at_timestamp_5", "lake.i.t TIMESTAMP AS OF '2024-01-01'"),
        *("lake.i.t WITH ('branch' = 'b')", "lake.i.t VERSION AS OF 77 WITH ('x' = 'y')"),
    ],
)
async def test_all_else_of_iceberg_changes_with_each_commit(clause: str) -> None:
    spark = ObservedTables()
    name = read(clause)
    if name.table != "t":
        spark.below(name.table)
    before = await spark.state(name)
    spark.metadata_files("v1.json", "v2.json")
    assert await spark.state(name) != before


async def test_a_table_that_is_called_like_a_branch_is_a_table() -> None:
    spark = ObservedTables()
    name = named("lake.i.branch_b")
    spark.add(replace(spark.relations[ICEBERG], name=name))
    look = await spark.look(name)
    assert (look.root, cast(Snapshot, look.observed).position) == (None, "1")


async def test_versions_of_delta() -> None:
    spark = ObservedTables()
    fixed, moment, plain = read("d VERSION AS OF 3"), read("d TIMESTAMP AS OF '2024-01-01'"), read("d")
    spark.say("DESCRIBE HISTORY", commit(4))
    spark.say("DESCRIBE DETAIL", ("1",), columns=("id",))
    before = [(await spark.look(name)).observed for name in (fixed, moment, plain)]
    spark.say("DESCRIBE HISTORY", commit(5))
    after = [(await spark.look(name)).observed for name in (fixed, moment, plain)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, False]
    # Created again it is another table, also in the past.
    spark.say("DESCRIBE DETAIL", ("2",), columns=("id",))
    assert (await spark.look(fixed)).observed != before[0]


# --- functions ---------------------------------------------------------------------------------------------


async def test_a_function_is_what_is_said_of_it() -> None:
    spark = ObservedTables()
    name = TableName("s", "f", aspect=FUNCTION)
    spark.add_function("s.f", Function("Class: A"))
    first = await spark.state(name)
    assert await spark.state(name) == first
    spark.observer.touch([name])
    anew = await spark.state(name)
    assert anew != first, "of its archive nothing is said"
    assert await spark.state(name) == anew
    spark.add_function("s.f", Function("Body: x", "x"))
    body = await spark.state(name)
    spark.observer.touch([name])
    assert await spark.state(name) == body not in {first, anew}
    spark.functions_by_name.clear()
    assert (await spark.look(name)).observed == GONE


# --- what is missing ----------------------------------------------------------------------------------------


def over(query: str) -> MaterializedView:
    found = bases(query, Namespace("s"))
    tables = frozenset(found.relations)
    view = view_of(Version.whole(1, 0, 0, {}))
    return replace(view, query=query, namespace=Namespace("s"), tables=tables, followed=None)


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ("SELECT * FROM text.bare, d", {"`text`.`bare`"}),
        ("SELECT * FROM lake.i.Upper", {"`lake`.`i`.`upper`"}),
        # Every word of a text that is not understood.
        ("SELECT * FROM d WHERE a = IDENTIFIER('a')", set()),
    ],
)
async def test_a_name_that_nothing_has_is_missing_where_it_is_surely_a_name(query: str, missing: set[str]) -> None:
    spark = ObservedTables()
    spark.say("DESCRIBE HISTORY", (4,))
    inspector = Inspector(Catalog("x", NOBODY), NOBODY, spark.observer, NOBODY, cast(Any, FakeStorages()), 0)
    found = await inspector.inspect(over(query), NOW)
    assert {base for base, look in found.observed.items() if look == MISSING} == missing
    assert MISSING not in found.snapshots.values()


async def test_names_that_are_put_together_are_never_known() -> None:
    spark = ObservedTables()
    spark.say("DESCRIBE HISTORY", (4,))
    inspector = Inspector(Catalog("x", NOBODY), NOBODY, spark.observer, NOBODY, cast(Any, FakeStorages()), 0)
    view = over("SELECT * FROM IDENTIFIER('s' || '.d')")
    found = await inspector.inspect(view, NOW)
    assert not drift(view, found.observed).none


# --- what is stored ------------------------------------------------------------------------------------------


def test_names_are_stored_as_they_are() -> None:
    view = over("SELECT * FROM parquet.`/Data/X`, lake.i.t VERSION AS OF 'B', lake.i.t")
    assert len(set(map(base_key, view.tables))) == 3
    again = stored.read_view(stored.write_view(view), view.storage, view.definition, 1)
    assert again.tables == view.tables


def test_names_of_earlier_releases_are_read() -> None:
    view = over("SELECT * FROM d")
    assert stored.write_view(view)["freshgate.tables"] == "x" + b'["[\\"spark_catalog\\", \\"s\\", \\"d\\"]"]'.hex()


@pytest.mark.parametrize(
    "clause", ["lake.i.t.branch_b", "lake.i.t VERSION AS OF 'b'", "lake.i.t WITH ('branch' = 'b')"]
)
async def test_partitions_do_not_follow_another_version(clause: str) -> None:
    """Which of a branch's partitions have changed no look tells."""
    spark = ObservedTables()
    table = replace(
        spark.relations[ICEBERG],
        columns=(("a", '{"name": "int"}'), ("d", '{"name": "string"}')),
        partition_columns=("d",),
    )
    spark.add(table)
    spark.add(replace(table, name=named("lake.i.t.branch_b")))
    spark.say(r"refs WHERE name = 'b'", ("2",))
    inspector = Inspector(Catalog("x", NOBODY), NOBODY, spark.observer, NOBODY, cast(Any, FakeStorages()), 0)
    for source, follows in (("lake.i.t", True), (clause, False)):
        view = replace(over(f"SELECT d, count(*) AS n FROM {source} GROUP BY d"), columns=("d", "n"))
        looks = (await inspector.inspect(view, NOW)).looks
        with contextlib.nullcontext() if follows else pytest.raises(CannotFollow):
            inspector.following(view, Partitioning("d"), looks)


def test_when_a_session_loaded_a_function_says_nothing_of_it() -> None:
    def described(body: str, loaded: int) -> Function:
        told = {"sqlFunction.expression": body, "sqlFunction.createTime": str(loaded)}
        return _function(["Class: sqlFunction.", f"Usage: {json.dumps(told)}"], Namespace("s"))

    assert described("x + 1", 1) == described("x + 1", 2)
    assert described("x + 1", 1) != described("x + 2", 1)
