"""A gateway over a metastore in memory, to create, refresh, alter and drop views without Spark.

    warehouse = Warehouse()
    warehouse.table("s.t")
    house = House(warehouse)
    await house.run("CREATE MATERIALIZED VIEW s.m AS SELECT a FROM s.t")

The sessions of a `Warehouse` run those of the gateway's statements that change the metastore, and record their texts.
There are no rows: the count of each table is one. `hold` blocks a statement until the test releases it.

The simulated world also runs the gateway's statements, with rows and partitions, and with time that a history moves.
This one stays beside it: its tests use asyncio's own loop, and texts that the world does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, cast

from fake_spark import Answer, FakePlans, named

from gateway.access_list import Principal
from gateway.assembly.answers import commands_of
from gateway.assembly.at_spark import AtSpark, OwnersAtSpark, fence_of
from gateway.assembly.one_gateway import subscribe
from gateway.assembly.refreshes import refreshed_views, scheduling_of
from gateway.assembly.views import kept_versions, known_views
from gateway.config import Address, Settings
from gateway.errors import FreshgateError, StatementFailed
from gateway.mv.freshness.entry import Entry
from gateway.mv.ports import OwnerRefused
from gateway.mv.refresh.habits import Habits
from gateway.proxy.traffic import Traffic
from gateway.service.clients.session import Session
from gateway.service.clients.session_settings import SessionSettings
from gateway.service.results.store import ResultStore
from gateway.spark.connector import Connector
from gateway.spark.metastore import SparkMetastore
from gateway.spark.servers import KnownServer
from gateway.spark.storage_guard import StorageGuard
from gateway.wire.endpoint import Endpoint
from sql.classify import classify
from sql.grammar.parser import parse_about
from sql.lexed import Lexed
from sql.names import Namespace, TableName

_NAME = r"`([^`]+)`\.`([^`]+)`\.`([^`]+)`"
_PAIR = re.compile(r"'((?:[^'\\]|\\.)*)'(?: = '((?:[^'\\]|\\.)*)')?")


@dataclass
class Thing:
    """A table or a view."""

    kind: str
    text: str = ""
    namespace: Namespace = field(default_factory=Namespace)
    properties: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


@dataclass
class Hold:
    """A blocked statement: `reached` is set when it arrives, and it continues when `go` is set."""

    pattern: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)


class Warehouse:
    """Implements `ports.Sessions`."""

    def __init__(self) -> None:
        self.things: dict[TableName, Thing] = {}
        self.databases: dict[str, dict[str, str]] = {"default": {}}
        self.texts: list[str] = []
        self.files: dict[str, int] = {}
        """For each table's directory, a number that grows with each write."""
        self.failing: dict[str, FreshgateError] = {}
        """By pattern of the text, the error with which a statement fails once."""
        self._holds: list[Hold] = []

    def table(self, dotted: str) -> TableName:
        name = named(dotted)
        self.databases.setdefault(name.database, {})
        self.things[name] = Thing("TABLE")
        return name

    def write(self, dotted: str) -> None:
        """Writes to a table without the gateway."""
        self.files[dotted] = self.files.get(dotted, 0) + 1

    def hold(self, pattern: str) -> Hold:
        self._holds.append(Hold(pattern))
        return self._holds[-1]

    def shown(self, dotted: str) -> str:
        return self.things[named(dotted)].text

    @contextlib.asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[WarehouseSession]:
        yield WarehouseSession(self, Namespace())

    async def carry_out(self, sql: str, namespace: Namespace) -> Answer:
        self.texts.append(sql)
        for hold in [each for each in self._holds if re.search(each.pattern, sql)]:
            self._holds.remove(hold)
            hold.reached.set()
            await hold.go.wait()
        for pattern in [each for each in self.failing if re.search(each, sql)]:
            raise self.failing.pop(pattern)
        return self.answer(sql, namespace)

    def answer(self, sql: str, namespace: Namespace) -> Answer:
        for pattern, work in _STATEMENTS:
            if found := re.fullmatch(pattern, sql, re.DOTALL):
                return Answer(work(self, found, namespace) or [])
        return Answer()

    def thing(self, found: re.Match[str]) -> tuple[TableName, Thing]:
        name = TableName(found[2], found[3], found[1])
        if name not in self.things:
            raise StatementFailed(f"[TABLE_OR_VIEW_NOT_FOUND] {name} cannot be found.", "42P01")
        return name, self.things[name]


@dataclass(eq=False)
class WarehouseSession:
    """Implements `ports.SqlSession`."""

    warehouse: Warehouse
    namespace: Namespace

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> Answer:
        return await self.warehouse.carry_out(sql, self.namespace)

    def spoil(self) -> None: ...


Rows = list[tuple[Any, ...]] | None


def _pairs(text: str) -> dict[str, str]:
    return {re.sub(r"\\(.)", r"\1", key): re.sub(r"\\(.)", r"\1", value) for key, value in _PAIR.findall(text)}


def _create_view(warehouse: Warehouse, found: re.Match[str], namespace: Namespace) -> None:
    name = TableName(found[2], found[3], found[1])
    if name in warehouse.things:
        raise StatementFailed(f"[TABLE_OR_VIEW_ALREADY_EXISTS] {name}", "42P07")
    warehouse.things[name] = Thing("VIEW", found[5], namespace, _pairs(found[4] or ""))


def _alter_view(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> None:
    warehouse.thing(found)[1].text = found[4]


def _rename(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> None:
    name, thing = warehouse.thing(found)
    del warehouse.things[name]
    warehouse.things[TableName(name.database, found[4])] = thing


def _set(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> None:
    warehouse.thing(found)[1].properties.update(_pairs(found[4] or ""))


def _unset(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> None:
    for key in _pairs(found[4]):
        warehouse.thing(found)[1].properties.pop(key, None)


def _create_table(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> None:
    warehouse.things[TableName(found[2], found[3], found[1])] = Thing("TABLE", properties=_pairs(found[4] or ""))


def _drop(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> None:
    warehouse.things.pop(TableName(found[2], found[3], found[1]), None)


def _describe(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> Rows:
    name, thing = warehouse.thing(found)
    described: dict[str, object] = {
        "columns": [{"name": "a", "type": {"name": "bigint"}}],
        "created_time": str(id(thing)),
    }
    if thing.kind == "VIEW":
        place = f"{thing.namespace.catalog}.{thing.namespace.database}"
        described |= {"type": "VIEW", "view_text": thing.text, "view_catalog_and_namespace": place}
        described["view_creation_spark_configuration"] = thing.settings
    else:
        described |= {"type": "MANAGED", "provider": "parquet", "location": f"file:/w/{name}"}
    return [(json.dumps(described),)]


def _columns(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> Rows:
    warehouse.thing(found)
    return [("a", "bigint", None)]


def _tables(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> Rows:
    if found[2] not in warehouse.databases:
        raise StatementFailed(f"[SCHEMA_NOT_FOUND] {found[2]}", "42704")
    wanted = "VIEW" if found[1] == "VIEWS" else ""
    return [
        (name.database, name.table, False)
        for name, thing in warehouse.things.items()
        if name.database == found[2] and wanted in thing.kind and fnmatchcase(name.table, found[3] or "*")
    ]


def _create_database(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> None:
    warehouse.databases.setdefault(found[1], {})


def _describe_database(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> Rows:
    if found[1] not in warehouse.databases:
        raise StatementFailed(f"[SCHEMA_NOT_FOUND] {found[1]}", "42704")
    return [("Location", f"file:/w/{found[1]}.db")]


def _files(warehouse: Warehouse, found: re.Match[str], _: Namespace) -> Rows:
    return [(f"file:/w/{found[1]}", str(warehouse.files.get(found[1], 0)), 1, 1)]


def _storage(*_: object) -> Rows:
    return [("Location: InMemoryFileIndex(0 paths)[], PartitionFilters: []",)]


_STATEMENTS: list[tuple[str, Callable[[Warehouse, re.Match[str], Namespace], Rows]]] = [
    (rf"CREATE VIEW {_NAME}( .*?)? AS ((?:SELECT|WITH) .*)", _create_view),
    (rf"ALTER VIEW {_NAME} AS (.*)", _alter_view),
    (rf"ALTER VIEW {_NAME} RENAME TO `(.*)`", _rename),
    (rf"ALTER (?:VIEW|TABLE) {_NAME} SET TBLPROPERTIES \((.*)\)", _set),
    (rf"ALTER (?:VIEW|TABLE) {_NAME} UNSET TBLPROPERTIES IF EXISTS \((.*)\)", _unset),
    (rf"CREATE TABLE {_NAME} .*? TBLPROPERTIES \((.*)\) AS SELECT .*", _create_table),
    (rf"DROP (?:VIEW|TABLE) IF EXISTS {_NAME}", _drop),
    (rf"DESCRIBE TABLE EXTENDED {_NAME} AS JSON", _describe),
    (r"SHOW (TABLES|VIEWS) IN `spark_catalog`\.`(.*?)`(?: LIKE '(.*)')?", _tables),
    (r"SHOW DATABASES IN `spark_catalog`", lambda warehouse, *_: [(name,) for name in warehouse.databases]),
    (rf"SHOW TBLPROPERTIES {_NAME}", lambda warehouse, found, _: list(warehouse.thing(found)[1].properties.items())),
    (r"CREATE DATABASE IF NOT EXISTS `spark_catalog`\.`(.*)`", _create_database),
    (r"DESCRIBE DATABASE EXTENDED `spark_catalog`\.`(.*)`", _describe_database),
    (r"SELECT left\(path.*binaryFile\.`file:/w/(.*?)`.*", _files),
    (r"SET ([\w.]+)", lambda _, found, __: [(found[1], "0")]),
    (r"EXPLAIN SELECT 1 FROM .* WHERE freshgate_version .*", _storage),
    (r"EXPLAIN .*", lambda *_: [("== Physical Plan ==",)]),
    (r"DESCRIBE QUERY .*", lambda *_: [("a", "bigint", None)]),
    (rf"DESCRIBE (?:TABLE )?{_NAME}", _columns),
    (r"SELECT count\(\*\) .*", lambda *_: [(1,)]),
]


class Report(list[str]):
    """Implements `progress.Report`."""

    def __call__(self, line: str, /) -> None:
        self.append(line)

    def watch(self, progress: object) -> None: ...


@dataclass
class Person:
    """The part of a client's session that commands use."""

    warehouse: Warehouse
    user: str
    namespace: Namespace
    settings: SessionSettings = field(default_factory=lambda: SessionSettings({}))

    @property
    def who(self) -> Principal:
        return Principal(self.user)

    async def sql(self) -> WarehouseSession:
        return WarehouseSession(self.warehouse, self.namespace)

    async def resolve_namespace(self) -> Namespace:
        return self.namespace


class WarehouseOwners:
    """Implements `ports.OwnerSessions`. `texts`: what ran in the name of an owner."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.texts: list[tuple[str, str]] = []
        self.refused: dict[str, str] = {}
        """For whom Spark opens no session, and why."""

    @contextlib.asynccontextmanager
    async def session(self, owner: str, *, fresh: bool = False) -> AsyncIterator[WarehouseSession]:
        if owner in self.refused:
            raise OwnerRefused(owner, self.refused[owner])
        yield _OwnersSession(self.warehouse, Namespace(), owner, self.texts)


@dataclass(eq=False)
class _OwnersSession(WarehouseSession):
    owner: str
    texts: list[tuple[str, str]]

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> Answer:
        self.texts.append((self.owner, sql))
        return await super().run(sql, on_start=on_start)


class House:
    """The parts of a gateway over a warehouse, connected as the server connects them."""

    def __init__(self, warehouse: Warehouse, settings: Settings | None = None, plans: Any = None) -> None:
        self.warehouse = warehouse
        self.owners = WarehouseOwners(warehouse)

        class NoEngine:
            address = Address("spark.example", 10000)

            async def of_statement(self, statement: str) -> None:
                return None

            def cancel_statement(self, statement: str) -> None:
                pass

        settings, engine, pool = settings or Settings(), cast(Any, NoEngine()), cast(Any, warehouse)
        habits = Habits()
        protocol, servers, connecting = Endpoint("", 0), [KnownServer(engine.address)], Traffic().connecting
        connector = Connector(servers, protocol, settings.upstream, StorageGuard("", ""), habits, connecting)
        metastore = SparkMetastore(pool)
        fence = fence_of(settings, metastore)
        plans, owners = plans or FakePlans({}), cast(Any, self.owners)
        at_spark = AtSpark(engine, connector, habits, pool, pool, pool, pool, metastore, plans, fence, pool, pool)
        at_spark = replace(at_spark, owners=OwnersAtSpark(owners, owners))
        self.views = known_views(settings, at_spark, lambda _: None)
        self.versions = kept_versions(settings, at_spark, self.views)
        self.refreshes = refreshed_views(settings, at_spark, self.views, self.versions)
        scheduling = scheduling_of(settings, at_spark, self.views, self.refreshes)
        subscribe(self.views, self.versions, scheduling, ResultStore(0, 0, 0.0))
        self.catalog = self.views.catalog
        self.commands = commands_of(settings, at_spark, self.views, self.versions, self.refreshes, scheduling)

    async def run(self, text: str, user: str = "ada", namespace: Namespace | None = None) -> list[tuple[Any, ...]]:
        """Runs one of the gateway's own statements and returns its rows."""
        person = Person(self.warehouse, user, namespace or Namespace())
        # Some of Spark's own statements are commands if they name a materialized view.
        command = parse_about(Lexed(text)) or classify(Lexed(text))
        result = await self.commands.run(cast(Any, command), cast(Session, person), Report())
        return [tuple(row) for row in result.rows]

    def entry(self, dotted: str) -> Entry:
        view = self.catalog.named(named(dotted))
        assert view is not None, dotted
        return self.catalog.entry(view.id)
