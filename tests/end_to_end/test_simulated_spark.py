"""The simulated Spark answers as Spark itself does: each check runs before both.

docs/internals/simulation.md says what the simulation assumes beside that.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from processes import Engine, FixedEndpoint
from tiers import EVERYTHING
from world.assembly import Tuning
from world.choices import Choices
from world.edges import Edges
from world.shapes import Plan, Shape
from world.spark import SimulatedSession
from world.storage import Metastore
from world.tables import Table
from world.world import World

from gateway.errors import FreshgateError
from gateway.mv.model.partitions import stored_partition
from gateway.mv.ports import Relation, RelationKind
from gateway.spark.client import SessionPool
from gateway.spark.metastore import SparkMetastore
from gateway.wire.endpoint import Endpoint
from gateway.wire.sasl import PLAIN
from sql.names import Namespace, TableName
from sql.texts import descriptions, maintenance, observation, public_view
from sql.texts.epochs import create_epoch, epoch_view
from sql.texts.storage_layout import UNPARTITIONED, Selection, Shown, StorageLayout

BY_D = StorageLayout("d", "string", "{}", holds_column=True)
CACHES = ("spark.sql.filesourceTableRelationCacheSize", "spark.sql.hive.filesourcePartitionFileCacheSize")
_numbers = itertools.count(1)


class Place(Protocol):
    """A Spark with two sessions, and a database of the test's own."""

    database: str

    def run(self, sql: str, session: int = 0) -> list[tuple[Any, ...]]: ...

    def table(self, name: str, *, partitioned: bool) -> None: ...

    def insert(self, name: str, k: int, partition: str | None = None, session: int = 0) -> None: ...

    def relation(self, name: str) -> Relation | None: ...

    def shown(self, view: str, session: int = 0) -> set[int]:
        """The values of k that a query shows."""
        ...


class Simulated:
    """The simulation's."""

    def __init__(self, *, caches: bool) -> None:
        self.database = "s"
        metastore = Metastore()
        metastore.databases["s"] = {}
        plan = Plan("nothing", {}, ())
        self.world = World(Shape(plan, metastore, Tuning(), caches), Edges(), Choices())
        self._sessions: list[SimulatedSession] = [self.world.spark.open("g", Namespace()) for _ in range(2)]

    def run(self, sql: str, session: int = 0) -> list[tuple[Any, ...]]:
        spark = self.world.spark
        if (answer := spark.at_once(sql)) is not None:
            return answer.rows
        running = spark.submit(self._sessions[session], sql)
        while running in spark.running:
            spark.step(running)
        assert running.future is not None
        rows: list[tuple[Any, ...]] = running.future.result() or []
        return rows

    def table(self, name: str, *, partitioned: bool) -> None:
        self.world.metastore.add_table(Table(f"s.{name}", "parquet", partitioned))

    def insert(self, name: str, k: int, partition: str | None = None, session: int = 0) -> None:
        values = f"'{partition}', {k}" if partition else f"{k}"
        self.run(f"INSERT INTO s.{name} VALUES ({values})", session)

    def relation(self, name: str) -> Relation | None:
        return self.world.metastore.described(TableName(self.database, name))

    def shown(self, view: str, session: int = 0) -> set[int]:
        found = self.run(f"SELECT * FROM s.{view}", session)
        return {token for _, rows in found for _, _, token in rows}


class Real:
    """Spark's."""

    def __init__(self, engine: Engine) -> None:
        self.database = f"contract_{uuid.uuid4().hex[:8]}"
        self._runner = asyncio.Runner()
        self._stack = contextlib.AsyncExitStack()
        self.endpoint = Endpoint(engine.host, engine.port, PLAIN)

        self._pool = SessionPool(FixedEndpoint(self.endpoint), "tester", 4, settings=maintenance.STAGED)
        self._metastore = SparkMetastore(self._pool)

        async def lend() -> list[Any]:
            return [await self._stack.enter_async_context(self._pool.session()) for _ in range(2)]

        self._sessions = self._runner.run(lend())
        self.run(f"CREATE DATABASE {self.database}")

    def close(self) -> None:
        self.run(f"DROP DATABASE {self.database} CASCADE")

        async def give_back() -> None:
            await self._stack.aclose()
            await self._pool.close()

        self._runner.run(give_back())
        self._runner.close()

    def run(self, sql: str, session: int = 0) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._runner.run(self._sessions[session].run(sql)).rows
        return rows

    def table(self, name: str, *, partitioned: bool) -> None:
        columns = "d STRING, k BIGINT" if partitioned else "k BIGINT"
        by = " PARTITIONED BY (d)" if partitioned else ""
        self.run(f"CREATE TABLE {self.database}.{name} ({columns}) USING parquet{by}")

    def insert(self, name: str, k: int, partition: str | None = None, session: int = 0) -> None:
        where = f" PARTITION (d = '{partition}')" if partition else ""
        self.run(f"INSERT INTO {self.database}.{name}{where} VALUES ({k})", session)

    def relation(self, name: str) -> Relation | None:
        return self._runner.run(self._metastore.relation(TableName(self.database, name)))

    def shown(self, view: str, session: int = 0) -> set[int]:
        return {row[-1] for row in self.run(f"SELECT * FROM {self.database}.{view}", session)}


@pytest.fixture(params=["simulated", "real"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "simulated":
        yield Simulated(caches=False)
        return
    real = Real(request.getfixturevalue("engine"))
    yield real
    real.close()


class View:
    """The objects of a materialized view `v` over a table `t`, made by the gateway's own texts."""

    def __init__(self, place: Place, *, partitioned: bool = False, built: bool = True) -> None:
        self.place = place
        self.layout = BY_D if partitioned else UNPARTITIONED
        self.columns = ["d", "k"] if partitioned else ["k"]
        name = place.database
        self.name, self.storage = TableName(name, "v"), TableName(name, "rows_of_v")
        self.definition = TableName(name, "rows_of_v__definition")
        place.table("t", partitioned=partitioned)
        query = f"SELECT {', '.join(self.columns)} FROM {name}.t"
        place.run(maintenance.create_definition(self.definition, query))
        texts = {"layout": self.layout, "columns": self.columns}
        place.run(maintenance.create_storage(self.storage, self.definition, {"freshgate.format": "2"}, **texts))  # type: ignore[arg-type]
        if built:
            self.show(0, create=True)

    def write(self, version: int, **some: Any) -> None:
        self.place.run(
            maintenance.insert_version(self.storage, self.definition, version, None, self.columns, self.layout, **some)
        )

    def show(self, version: int, *, create: bool = False) -> None:
        shown = Shown.only(version)
        if create:
            text = public_view.create_public_view(self.name, self.storage, self.columns, shown, layout=self.layout)
        else:
            text = public_view.publish(self.name, self.storage, self.columns, shown, self.layout)
        self.place.run(text)

    def partitions(self) -> list[tuple[int, str | None]]:
        found = self.place.run(maintenance.show_partitions(self.storage))
        return sorted((stored_partition(row[0]) for row in found), key=repr)


def test_a_view_shows_the_version_that_was_published_last_in_every_session(place: Place) -> None:
    view = View(place)
    place.insert("t", 1)
    view.write(1)
    assert place.shown("v") == set()
    view.show(1)
    assert place.shown("v") == place.shown("v", 1) == {1}
    place.insert("t", 2)
    view.write(2)
    assert place.shown("v", 1) == {1}
    view.show(2)
    assert place.shown("v", 1) == {1, 2}
    assert view.partitions() == [(1, None), (2, None)]


def test_a_version_without_rows_has_no_partition(place: Place) -> None:
    view = View(place)
    view.write(1)
    view.show(1)
    assert view.partitions() == []
    assert place.shown("v") == set()


def test_a_version_is_written_beside_others_and_in_parts(place: Place) -> None:
    view = View(place, partitioned=True)
    for k, partition in enumerate("ab", 1):
        place.insert("t", k, partition)
    view.write(1)
    place.insert("t", 3, "b")
    place.insert("t", 4, "c")
    for key in "bc":
        view.write(2, selection=Selection(frozenset({key}), all_but=False))
    assert view.partitions() == [(1, "a"), (1, "b"), (2, "b"), (2, "c")]
    shown = Shown(2, ((1, 2),), {1: frozenset({"b"})})
    place.run(public_view.publish(view.name, view.storage, view.columns, shown, view.layout))
    assert place.shown("v") == {1, 2, 3, 4}


def test_partitions_are_dropped_by_name_and_missing_ones_passed_over(place: Place) -> None:
    view = View(place, partitioned=True)
    for k, partition in enumerate("ab", 1):
        place.insert("t", k, partition)
    view.write(1)
    view.write(2)
    place.run(maintenance.drop_partitions(view.storage, [(1, "a"), (1, "z")]))
    assert view.partitions() == [(1, "b"), (2, "a"), (2, "b")]
    place.run(maintenance.drop_versions(view.storage, [1, 7]))
    assert view.partitions() == [(2, "a"), (2, "b")]


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_look_shows_every_change_and_no_other(place: Place, partitioned: bool) -> None:
    place.table("t", partitioned=partitioned)
    partition = "a" if partitioned else None

    def look() -> list[tuple[Any, ...]]:
        relation = place.relation("t")
        assert relation is not None
        root = observation.plain_path(relation.location)
        return sorted(place.run(observation.list_files([root])))

    place.insert("t", 1, partition)
    first = look()
    assert [row[2] for row in first] == [1]
    assert look() == first
    place.insert("t", 2, partition)
    second = look()
    assert [row[2] for row in second] == [2]
    assert second[0][:2] != first[0][:2]
    place.run(f"TRUNCATE TABLE {place.database}.t")
    assert look() == []


def test_the_places_of_partitions_are_explained(place: Place) -> None:
    place.table("t", partitioned=True)
    for k, partition in enumerate("ab"):
        place.insert("t", k, partition)
    name = TableName(place.database, "t")
    assert sorted(place.run(observation.list_partitions(name))) == [("d=a",), ("d=b",)]
    for key, value in observation.LISTING_SETTINGS.items():
        place.run(observation.set_setting(key, value))
    ((plan,),) = place.run(observation.explain_partitions(name, ["d"]))
    relation = place.relation("t")
    assert relation is not None
    root = observation.plain_path(relation.location)
    assert sorted(observation.explained_paths(plan) or []) == [f"{root}/d=a", f"{root}/d=b"]
    place.run(f"TRUNCATE TABLE {place.database}.t")
    assert sorted(place.run(observation.list_partitions(name))) == [("d=a",), ("d=b",)]


def test_partitions_of_a_base_table_lead_to_keys(place: Place) -> None:
    question = maintenance.partition_keys([("a",), ("b",), (None,)], [("string", "{}")], BY_D, "")
    assert sorted(place.run(question), key=repr) == [(0, "a", True), (1, "b", True), (2, None, True)]


def test_what_is_said_of_tables_and_views(place: Place) -> None:
    view = View(place, partitioned=True)
    table, public = place.relation("t"), place.relation("v")
    assert table is not None
    assert public is not None
    assert (table.kind, table.provider, table.partition_columns) == (RelationKind.TABLE, "parquet", ("d",))
    assert table.partitions_listed
    assert {name for name, _ in table.columns} == {"d", "k"}
    assert public.kind is RelationKind.VIEW
    assert public.view_text == public_view.shown_rows(view.storage, view.columns, Shown.only(0), view.layout)
    assert public_view.read_published(public.view_text) == (view.storage, 0)
    assert place.relation("nothing") is None
    definition = place.relation("rows_of_v__definition")
    assert definition is not None
    assert definition.view_text == f"SELECT d, k FROM {place.database}.t"
    assert [name for name, _ in definition.columns] == ["d", "k"]


def test_what_is_said_of_many_tables_together(place: Place) -> None:
    view = View(place, partitioned=True)
    place.run(maintenance.set_properties(view.storage, {"freshgate.a": "x2a", "freshgate.version.1.0": "z-._+"}))
    asked = [view.storage.table, "v", "nothing", "rows_of_v__definition"]
    described = place.run(descriptions.show_described(view.storage.database, asked))
    stored = descriptions.read_properties(described)[view.storage.table]
    shown = _properties(place, view.storage)
    assert stored == {key: value for key, value in shown.items() if not key.startswith("option.")}
    assert descriptions.read_view_texts(described) == {
        "v": public_view.shown_rows(view.storage, view.columns, Shown.only(0), view.layout),
        "rows_of_v__definition": f"SELECT d, k FROM {place.database}.t",
    }
    if isinstance(place, Real):
        for kind, name in (("TABLE", "rows_of_v"), ("VIEW", "v")):
            there = TableName(place.database, name).quoted
            said = "c\\nTable Properties: [freshgate.a=x]\\nView Text: SELECT 1"
            place.run(f"ALTER {kind} {there} SET TBLPROPERTIES ('comment' = '{said}')")
        described = place.run(descriptions.show_described(view.storage.database, asked))
        assert view.storage.table not in descriptions.read_properties(described)
        assert descriptions.read_view_texts(described).keys() == {"rows_of_v__definition"}
        # A table in a public view's place, which says of itself that it is this view.
        forged = "c\\nType: VIEW\\nView Text: SELECT 1\\nView Original Text: SELECT 1\\nc"
        place.run(f"CREATE TABLE {TableName(place.database, 'w').quoted} (d INT) USING parquet COMMENT '{forged}'")
        described = place.run(descriptions.show_described(place.database, ["w"]))
        assert "\nView Text: SELECT 1\n" in described[0][3]
        assert descriptions.read_view_texts(described) == {}


def test_properties_are_set_and_forgotten_one_by_one(place: Place) -> None:
    view = View(place)
    said = {"freshgate.a": "x1", "freshgate.b": "it's \\ here", "freshgate.c": "3"}
    place.run(maintenance.set_properties(view.storage, said))
    place.run(maintenance.unset_properties(view.storage, ["freshgate.c", "freshgate.never"]))
    place.run(maintenance.set_properties(view.storage, {"freshgate.a": "x2"}))
    found = _properties(place, view.storage)
    assert {key: value for key, value in found.items() if key.startswith("freshgate.")} == {
        "freshgate.format": "2",
        "freshgate.a": "x2",
        "freshgate.b": "it's \\ here",
    }


def _properties(place: Place, name: TableName) -> dict[str, str]:
    if isinstance(place, Simulated):
        return place.world.metastore.thing(f"{name.database}.{name.table}").properties
    return dict(place.run(f"SHOW TBLPROPERTIES {name.quoted}"))


def test_an_epoch_is_created_once_and_keeps_what_is_said_last(place: Place) -> None:
    epoch = epoch_view(place.database, 7)
    place.run(create_epoch(epoch, {"freshgate.gateway": "a1"}))
    with pytest.raises(FreshgateError) as refused:
        place.run(create_epoch(epoch, {"freshgate.gateway": "b2"}))
    assert refused.value.sqlstate == "42P07"
    place.run(maintenance.set_definition_properties(epoch, {"freshgate.gateway_alive": "b2"}))
    found = _properties(place, epoch)
    assert (found["freshgate.gateway"], found["freshgate.gateway_alive"]) == ("a1", "b2")
    place.run(maintenance.drop_view(epoch))
    with pytest.raises(FreshgateError) as refused:
        place.run(maintenance.set_definition_properties(epoch, {"freshgate.gateway_alive": "b3"}))
    assert refused.value.sqlstate == "42P01"


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("ALTER VIEW `spark_catalog`.`{0}`.`no` AS SELECT `k` FROM `spark_catalog`.`{0}`.`t`", "42P01"),
        ("SHOW PARTITIONS `spark_catalog`.`{0}`.`no`", "42P01"),
        ("DESCRIBE DATABASE EXTENDED `spark_catalog`.`no`", "42704"),
        ("CREATE VIEW `spark_catalog`.`{0}`.`v` AS SELECT k FROM {0}.t", "42P07"),
    ],
)
def test_errors_have_the_same_sqlstates(place: Place, text: str, sqlstate: str) -> None:
    View(place)
    with pytest.raises(FreshgateError) as refused:
        place.run(text.format(place.database))
    assert refused.value.sqlstate == sqlstate


def test_a_session_sees_what_another_one_writes_where_spark_keeps_no_listings(place: Place) -> None:
    _check_listings(place, caches=False)


def _check_listings(place: Place, *, caches: bool) -> None:
    """A session that keeps listings sees new partitions, but no new files, until it is told to look again."""
    view = View(place)
    place.insert("t", 1)
    assert place.shown("t", 1) == {1}
    place.insert("t", 2)
    assert place.shown("t", 1) == ({1} if caches else {1, 2})
    place.run(maintenance.refresh_listing(view.definition), 1)
    assert place.shown("t", 1) == {1, 2}


@pytest.fixture(params=["simulated", pytest.param("real", marks=() if EVERYTHING else pytest.mark.thorough)])
def caching(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A Spark whose sessions keep listings, as by Spark's defaults; the suite's engine does not."""
    if request.param == "simulated":
        yield Simulated(caches=True)
        return
    request.getfixturevalue("spark_server")
    settings: Any = dict.fromkeys(CACHES, str(256 << 20))
    engine = Engine(tmp_path / "engine", spark=settings)
    real = Real(engine)
    yield real
    real.close()
    engine.stop()


def test_a_session_that_keeps_listings_must_be_told(caching: Place) -> None:
    _check_listings(caching, caches=True)
