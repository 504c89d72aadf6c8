"""Tests with a fault at each statement that the gateway sends to Spark: an error, a lost connection, or a kill -9.

Each act runs one statement (CREATE, REFRESH, ALTER, DROP, …) on a view of its own. The proxy counts the statements that
mention the view; point N is the N-th of them. After each fault the view must have its old or its new state, and
after a restart nothing may be left behind, including files.

`scripts/test --all` tests every point of every act; the suite tests one point of some acts with each fault.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clients import rows, unclosed
from databases import NAP
from fault_proxy import Fault, FaultProxy
from lake import OPEN, VACUUM_AT_ONCE, lake_archives, lake_settings
from processes import Engine, Gateway, Setting, wait_until
from pyhive.exc import OperationalError
from TCLIService import ttypes
from tiers import EVERYTHING, sampled

from gateway.mv.catalog.naming import definition_of
from gateway.mv.model.properties import PREFIX
from gateway.mv.refresh.tasks import COMPACTED_FROM
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.epochs import epochs_in
from sql.texts.open_rows import ROWS_SUFFIX

TOGETHER = 6
"""Views whose statements are stopped at the same time: the gateway has eight sessions for short statements."""
STORAGE = "storage_of_faults"
SETTINGS: dict[str, Setting] = {
    # Sees the definitions of all views.
    "access.administrators": "tester",
    "storage.database": STORAGE,
    "versions.retention": 0,
    "staleness.probe_interval": 0,
    "refresh.max_concurrent": 16,
    "storage.iceberg_catalog": OPEN,
    "storage.delta_catalog": "spark_catalog",
}


@dataclass(frozen=True)
class Act:
    """A statement about the view {v} over the table {v}_t, which has 1 row (2 after `prepare`)."""

    name: str
    prepare: tuple[str, ...]
    statement: str
    before: Callable[[str], dict[str, int | None]]
    """The number of rows of each view before the statement; None: no view has the name."""
    after: Callable[[str], dict[str, int | None]]
    has_trigger: bool = False
    """Whether the view has a schedule, so that reads do not refresh it."""
    describes: bool = False
    """Whether the statement changes the description of the view, not its rows."""
    says: str = ""
    """A part of the statement's log if there is no fault."""


def _one_row(view: str) -> dict[str, int | None]:
    return {view: 1}


def _two_rows(view: str) -> dict[str, int | None]:
    return {view: 2}


CREATE = "CREATE MATERIALIZED VIEW {v} AS SELECT a FROM {v}_t"
MORE = "INSERT INTO {v}_t VALUES (2)"
BY_D = (
    "DROP TABLE {v}_t",
    "CREATE TABLE {v}_t (a INT, d INT) USING parquet PARTITIONED BY (d)",
    "INSERT INTO {v}_t VALUES (1, 1)",
)
MORE_BY_D = "INSERT INTO {v}_t VALUES (2, 2)"
REPLACE = "CREATE OR REPLACE MATERIALIZED VIEW {v} AS SELECT a FROM {v}_t UNION ALL SELECT a FROM {v}_t"
GROUPED = "SELECT a, count(*) AS n, avg(a) AS m FROM {v}_t GROUP BY a"
SCHEDULE = "REFRESH COMPLETE ON SCHEDULE EVERY 7 DAY"
SCHEDULED = f"CREATE MATERIALIZED VIEW {{v}} {SCHEDULE} AS SELECT a FROM {{v}}_t"
BY_ROWS = "CREATE MATERIALIZED VIEW {v} REFRESH INCREMENTAL FALLBACK AS "
INCREMENTAL = "REFRESH MATERIALIZED VIEW {v} INCREMENTAL FALLBACK"
PAUSE = "PAUSE MATERIALIZED VIEW JOB ON {v}"


def open_acts(word: str) -> tuple[Act, ...]:
    """Acts on views whose rows other engines read."""
    name, using = word.lower(), f"USING {word} AS "
    create, by_rows = CREATE.replace("AS ", using), BY_ROWS.replace("AS ", using)
    old, new = _one_row, _two_rows
    partitioned = f"CREATE MATERIALIZED VIEW {{v}} PARTITION BY (d) {using}SELECT a, d FROM {{v}}_t"
    return (
        Act(f"{name} create", (), create, lambda v: {v: None}, old),
        Act(f"{name} refresh", (create, MORE), "REFRESH MATERIALIZED VIEW {v}", old, new),
        Act(f"{name} append", (by_rows + "SELECT a FROM {v}_t", MORE), INCREMENTAL, old, new),
        Act(f"{name} merge", (by_rows + GROUPED, MORE), INCREMENTAL, old, new),
        Act(f"{name} partitions", (*BY_D, partitioned, MORE_BY_D), "REFRESH MATERIALIZED VIEW {v} AUTO", old, new),
        Act(f"{name} replace", (create,), REPLACE.replace("AS ", using), old, new),
        Act(f"{name} drop", (create,), "DROP MATERIALIZED VIEW {v}", old, lambda v: {v: None}),
    )


ACTS = (
    Act("create", (), CREATE, lambda v: {v: None}, lambda v: {v: 1}),
    Act("refresh", (CREATE, MORE), "REFRESH MATERIALIZED VIEW {v}", lambda v: {v: 1}, lambda v: {v: 2}),
    Act("read", (CREATE, MORE), "SELECT * FROM {v}", lambda v: {v: 1}, lambda v: {v: 2}),
    Act(
        "partitions",
        (*BY_D, "CREATE MATERIALIZED VIEW {v} PARTITION BY (d) AS SELECT a, d FROM {v}_t", MORE_BY_D),
        "REFRESH MATERIALIZED VIEW {v} AUTO",
        lambda v: {v: 1},
        lambda v: {v: 2},
    ),
    Act("replace", (CREATE,), REPLACE, lambda v: {v: 1}, lambda v: {v: 2}),
    Act(
        "inherit",
        (MORE, BY_ROWS + "SELECT a FROM {v}_t WHERE a > 1"),
        "CREATE OR REPLACE MATERIALIZED VIEW {v} REFRESH INCREMENTAL FALLBACK AS SELECT a FROM {v}_t WHERE a > 0",
        lambda v: {v: 1},
        lambda v: {v: 2},
        says="and those that it does not have from the base tables",
    ),
    Act("rename", (CREATE,), "ALTER MATERIALIZED VIEW {v} RENAME TO {v}_r", lambda v: {v: 1}, lambda v: {f"{v}_r": 1}),
    Act(
        "swap",
        (CREATE, "CREATE MATERIALIZED VIEW {v}_s AS SELECT a, a AS b FROM {v}_t UNION ALL SELECT 5, 5 FROM {v}_t"),
        "ALTER MATERIALIZED VIEW {v} REPLACE WITH MATERIALIZED VIEW {v}_s",
        lambda v: {v: 1, f"{v}_s": 2},
        lambda v: {v: 2, f"{v}_s": 1},
    ),
    Act(
        "take",
        (CREATE, "CREATE MATERIALIZED VIEW {v}_s AS SELECT a, a AS b FROM {v}_t UNION ALL SELECT 5, 5 FROM {v}_t"),
        "ALTER MATERIALIZED VIEW {v} REPLACE WITH MATERIALIZED VIEW {v}_s PROPERTIES ('swap' = 'false')",
        lambda v: {v: 1, f"{v}_s": 2},
        lambda v: {v: 2, f"{v}_s": None},
    ),
    Act(
        "swaps",
        (
            CREATE,
            "CREATE MATERIALIZED VIEW {v}_s AS SELECT a, a AS b FROM {v}_t UNION ALL SELECT 5, 5 FROM {v}_t",
            "CREATE MATERIALIZED VIEW {v}_r AS SELECT count(*) AS n FROM {v}_t",
            "CREATE MATERIALIZED VIEW {v}_q AS SELECT a FROM {v}_t LATERAL VIEW explode(array(1, 2, 3)) e AS b",
        ),
        "ALTER MATERIALIZED VIEWS SWAP ({v} WITH {v}_s, {v}_r WITH {v}_q)",
        lambda v: {v: 1, f"{v}_s": 2, f"{v}_r": 1, f"{v}_q": 3},
        lambda v: {v: 2, f"{v}_s": 1, f"{v}_r": 3, f"{v}_q": 1},
    ),
    Act("comment", (CREATE,), "ALTER MATERIALIZED VIEW {v} COMMENT 'c'", _one_row, _one_row, describes=True),
    Act(
        "set",
        (CREATE,),
        "ALTER MATERIALIZED VIEW {v} SET ('workload_group' = 'g', 'replication_num' = '2')",
        _one_row,
        _one_row,
        describes=True,
    ),
    Act("owner", (CREATE,), "ALTER MATERIALIZED VIEW {v} OWNER TO other", _one_row, _one_row, describes=True),
    Act("trigger", (CREATE,), f"ALTER MATERIALIZED VIEW {{v}} {SCHEDULE}", _one_row, _one_row, True, True),
    Act("pause", (SCHEDULED,), PAUSE, _one_row, _one_row, True, True),
    Act("resume", (SCHEDULED, PAUSE), "RESUME MATERIALIZED VIEW JOB ON {v}", _one_row, _one_row, True, True),
    Act("drop", (CREATE,), "DROP MATERIALIZED VIEW {v}", lambda v: {v: 1}, lambda v: {v: None}),
    Act("append", (BY_ROWS + "SELECT a FROM {v}_t", MORE), INCREMENTAL, lambda v: {v: 1}, lambda v: {v: 2}),
    Act("merge", (BY_ROWS + GROUPED, MORE), INCREMENTAL, lambda v: {v: 1}, lambda v: {v: 2}),
    *open_acts("ICEBERG"),
    *open_acts("DELTA"),
)
SCATTER = Act(
    "compact",
    (BY_ROWS + "SELECT a FROM {v}_t", *(MORE, INCREMENTAL) * (COMPACTED_FROM - 2), MORE),
    INCREMENTAL,
    lambda v: {v: COMPACTED_FROM - 1},
    lambda v: {v: COMPACTED_FROM},
)
"""Its refresh leaves so many versions that the gateway copies them into one in the background."""
OF_SUITE = {"refresh", "merge"}
"""The acts that the suite runs."""
KILLED = OF_SUITE | {"iceberg append", "delta refresh"}
"""The acts at whose switch the suite kills the gateway."""


@dataclass(frozen=True)
class Point:
    """The N-th statement of an act, on a view of its own."""

    act: Act
    view: str
    number: int

    @property
    def key(self) -> tuple[str, int]:
        return self.view, self.number


def subject_of(text: str) -> str | None:
    """Returns the view (v and a number) that a statement mentions by its name, storage or base table."""
    found = re.search(r"\b(?:f\d+__)?(v\d+)(?:_[tqrs])?(?:__\w+)?\b", text)
    return found[1] if found else None


def switched_by(text: str) -> str | None:
    """Like `subject_of`, but only for statements that create, drop or change public views, or create definitions.

    Statements that drop definitions are excluded, because their time and number depend on the janitor."""
    switch = re.match(r"CREATE VIEW|DROP VIEW(?!.*__definition\b)|ALTER VIEW \S+ (AS|RENAME)", text)
    return subject_of(text) if switch else None


def noted_by(text: str) -> str | None:
    """Like `subject_of`, but only for statements that set properties of a storage table."""
    return subject_of(text) if re.match(rf"ALTER TABLE \S*{STORAGE}\S* (SET|UNSET) TBLPROPERTIES", text) else None


Description = tuple[str, ...]
"""SHOW CREATE of a view without its name, then its owner and the state of its job."""


class FaultySite:
    """An engine, a proxy in front of it, and gateways that are killed and restarted."""

    def __init__(self, directory: Path, shared: Engine | None) -> None:
        """`shared`: the engine of all tests. Without it there is a separate one, which may be killed."""
        self._directory = directory
        self._numbers = itertools.count(1)
        self._logs = itertools.count(1)
        self._shared = shared
        self.engine = shared or self._engine()
        self.proxy = FaultProxy(self.engine.host, self.engine.port, subject_of)
        self.database = "f1"
        self.gateway = self.start()
        with unclosed(self.gateway) as cursor:
            rows(cursor, f"CREATE DATABASE {self.database}")
        self.tested: list[str] = []
        self._sent: dict[str, list[str]] = {}
        self.descriptions: dict[str, set[Description]] = {}
        """For each act that `describes`: the descriptions before and after."""

    def _engine(self) -> Engine:
        home = self._directory / "engine"
        return Engine(home / "data", archives=lake_archives(), spark=lake_settings(home / "lake"))

    def start(self, *, constants: Mapping[str, object] | None = None, **settings: Setting) -> Gateway:
        log = self._directory / f"gateway-{next(self._logs)}.log"
        tuned = {**VACUUM_AT_ONCE, **(constants or {})}
        return Gateway(log, upstream=self.proxy.address, constants=tuned, settings={**SETTINGS, **settings})

    def restart(
        self, faults: dict[tuple[str, int], Fault] | None = None, constants: Mapping[str, object] | None = None
    ) -> None:
        """Restarts the gateway, after a kill or normally; only the given faults happen during the start."""
        self.gateway.stop()
        self.proxy.hit.clear()
        self.proxy.plan(faults or {})
        self.gateway = self.start(constants=constants)

    def restart_engine(self) -> None:
        """Kills Spark and starts it again on its metastore; the gateway keeps running."""
        assert self._shared is None
        self.engine.kill()
        self.proxy.plan({})
        self.engine = self._engine()
        self.proxy.host, self.proxy.port = self.engine.host, self.engine.port

    @contextmanager
    def connected(self, *, direct: bool = False) -> Iterator[Any]:
        """A cursor in the database that sends nothing when it ends, because the server may be dead."""
        with unclosed(self.engine if direct else self.gateway, self.database) as cursor:
            yield cursor

    def points(self, act: Act, numbers: Iterable[int]) -> list[Point]:
        """Creates points of an act, each with a view of its own, and prepares the views."""
        found = [Point(act, f"v{next(self._numbers)}", number) for number in numbers]
        self.proxy.plan({})
        with self.connected() as cursor:
            for point in found:
                rows(cursor, f"CREATE TABLE {point.view}_t (a INT) USING parquet")
                rows(cursor, f"INSERT INTO {point.view}_t VALUES (1)")
                for statement in act.prepare:
                    rows(cursor, statement.format(v=point.view))
        return found

    def names(self, count: int) -> list[str]:
        return [f"v{next(self._numbers)}" for _ in range(count)]

    def leave(self, of: str, names: Iterable[str]) -> None:
        """Creates, directly on Spark, what a CREATE OR REPLACE leaves behind if it is killed before the switch.

        That is a storage table and its definition that no view uses. A running gateway may drop each immediately."""
        with self.connected(direct=True) as cursor:
            like = f"SHOW TABLES IN {STORAGE} LIKE '{self.database}__{of}__*'"
            (original,) = (row[1] for row in rows(cursor, like) if not row[1].endswith("__definition"))
            found = rows(cursor, f"SHOW TBLPROPERTIES {STORAGE}.{original}")
            properties = {key: value for key, value in found if key.startswith(PREFIX) and key != f"{PREFIX}published"}
            for name in names:
                storage = TableName(STORAGE, f"{self.database}__{name}__00000000")
                shape = definition_of(TableName(STORAGE, original))
                rows(cursor, maintenance.create_storage(storage, shape, properties))
                rows(cursor, maintenance.create_definition(definition_of(storage), "SELECT 1 AS a"))

    def statements(self, act: Act) -> list[str]:
        """Runs an act without faults; returns the statements that it sends."""
        (point,) = self.points(act, [0])
        before = self.describe(point.view) if act.describes else None
        self.proxy.plan({})
        assert self.run(point) is None
        if act.says:
            with self.connected() as cursor:
                found = rows(cursor, f'SELECT Route FROM tasks("type"="mv") WHERE MvName = \'{point.view}\'')
            assert any(act.says in str(route) for (route,) in found), found
        sent = list(self.proxy.sent[point.view])
        if before is not None:
            self.descriptions[act.name] = {before, self.describe(point.view)}
            assert len(self.descriptions[act.name]) == 2, "the act has changed nothing"
        return sent

    def sent(self, act: Act) -> list[str]:
        """Returns the statements of an act; runs it only once."""
        if act.name not in self._sent:
            self._sent[act.name] = self.statements(act)
        return self._sent[act.name]

    def storing(self, act: Act) -> int:
        """The number of the statement that stores what the written version has: the next one is the switch."""
        sent = self.sent(act)
        inserted = next(place for place, text in enumerate(sent) if text.startswith("INSERT"))
        return next(place for place in range(inserted, len(sent)) if noted_by(sent[place])) + 1

    def describe(self, view: str) -> Description:
        with self.connected() as cursor:
            ((_, text),) = rows(cursor, f"SHOW CREATE MATERIALIZED VIEW {view}")
            select = f"SELECT owner FROM freshgate.materialized_views WHERE name = '{view}'"
            ((owner,),) = rows(cursor, select)
            found = rows(cursor, f'SELECT Status FROM jobs("type"="mv") WHERE MvName = \'{view}\'')
        return str(text).replace(view, "{v}"), owner, *(status for (status,) in found)

    def run(self, point: Point, until: Callable[[], None] = lambda: None) -> Exception | None:
        """Runs the act and returns the client's error; the session stays open while `until` runs."""
        with self.connected() as cursor:
            try:
                rows(cursor, point.act.statement.format(v=point.view))
            except Exception as error:
                until()
                return error
            until()
        return None

    def try_all(self, points: list[Point], fault: Fault) -> None:
        """Runs the acts of points, each with the fault. Waits for the last statements: the janitor may send them after
        the client has its answer."""
        assert points
        self.proxy.hit.clear()
        self.proxy.plan({point.key: fault for point in points})
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(self.run, points))
        with suppress(AssertionError):
            wait_until(lambda: len(self.proxy.hit) * 2 >= len(points), 60)
        assert len(self.proxy.hit) * 2 >= len(points), f"{fault}: {self.proxy.hit}"
        self.tested += [f"{subject} {number} {fault.value}" for subject, number, _, _ in self.proxy.hit]
        self.proxy.plan({})

    def check(self, points: Iterable[Point], *, settling: bool = False) -> None:
        """Checks that each view has its old or its new state, through the gateway and at Spark, and reads correctly.

        `settling`: the outcome at Spark was unknown. Moving a name takes several calls; the gateway completes an
        interrupted move once Spark answers again, so the check waits.
        """
        with self.connected(direct=True) as direct, self.connected() as cursor:
            for point in points:
                expected = [point.act.before(point.view), point.act.after(point.view)]
                names = sorted(expected[0].keys() | expected[1].keys())
                states = [{name: state.get(name) for name in names} for state in expected]
                if settling and len(names) > 1:
                    with suppress(AssertionError):
                        wait_until(partial(_is_settled, direct, cursor, names, states), 60)
                seen = _counts(direct, names)
                assert seen in states, f"{point.act.name} {point.number}: Spark shows {seen}, not one of {states}"
                for name in names:
                    assert (_count(cursor, name) is None) == (seen[name] is None), point
                    if seen[name] is not None:
                        self._check_fresh(cursor, point, name)
                if point.act.describes:
                    assert self.describe(point.view) in self.descriptions[point.act.name], point

    def _check_fresh(self, cursor: Any, point: Point, name: str) -> None:
        """Writes once more, and checks that a read through the gateway equals the definition."""
        rows(cursor, f"INSERT INTO {point.view}_t VALUES {'(7, 1)' if 'partitions' in point.act.name else '(7)'}")
        text = rows(cursor, f"SELECT definition FROM freshgate.materialized_views WHERE name = '{name}'")
        assert len(text) == 1, f"{point.act.name} {point.number}: {name} is not in the catalog"
        expected = sorted(rows(cursor, text[0][0]))
        if point.act.has_trigger:
            rows(cursor, f"REFRESH MATERIALIZED VIEW {name} AUTO")
        assert sorted(rows(cursor, f"SELECT * FROM {name}")) == expected, f"{point.act.name} {point.number}"

    def files_of_rows(self, view: str) -> set[Path]:
        """The data files of a view that other engines read."""
        data = self.engine.data_dir
        above = (data / "warehouse" / f"{STORAGE}.db", data.with_name(OPEN) / STORAGE)
        found = (path for each in above for path in each.glob(f"{self.database}__{view}__*{ROWS_SUFFIX}/**/*.parquet"))
        return {path for path in found if path.parent.name != "_delta_log"}

    def left(self) -> list[str]:
        """What is there besides two objects and one version of each view, and one epoch; and in the tables of rows
        besides the files of the version."""
        with self.connected() as cursor, self.connected(direct=True) as direct:
            found = rows(cursor, "SELECT name, storage_table FROM freshgate.materialized_views")
            tables = {table.rpartition(".")[2] for _, table in found}
            warehouse = self.engine.data_dir / "warehouse" / f"{STORAGE}.db"
            shared = self.engine.data_dir.with_name(OPEN) / STORAGE
            lines = [*_left(direct, tables, warehouse), *sorted({path.name for path in shared.glob("*")} - tables)]
            for name, table in found:
                if table.endswith(ROWS_SUFFIX):
                    lines += _left_of_rows(direct, name, table, self.files_of_rows(name))
        return lines

    def check_nothing_is_left(self) -> None:
        found: list[list[str]] = []

        def is_nothing_left() -> bool:
            found.append(self.left())
            return not found[-1]

        with suppress(AssertionError):
            wait_until(is_nothing_left, 120, "what faults left to be dropped")
        assert found[-1] == []

    def close(self) -> None:
        self.gateway.stop()
        self.proxy.close()
        if self._shared is None:
            self.engine.stop()
            return
        with unclosed(self.engine) as cursor:
            for database in (self.database, STORAGE):
                rows(cursor, f"DROP DATABASE {database} CASCADE")


def _left(direct: Any, tables: set[str], warehouse: Path) -> Iterator[str]:
    """`tables`: those with the rows of views."""
    storages = {table.removesuffix(ROWS_SUFFIX) for table in tables}
    present = {row[1] for row in rows(direct, f"SHOW TABLES IN {STORAGE}")}
    standing = {epoch.table for epoch in epochs_in(STORAGE, present)[-1:]}
    yield from sorted(present - storages - tables - standing - {f"{storage}__definition" for storage in storages})
    directories = {path.name for path in warehouse.iterdir() if path.is_dir()} if warehouse.exists() else set()
    yield from sorted(directories - storages - tables)
    for storage in storages & present:
        listed = {row[0] for row in rows(direct, f"SHOW PARTITIONS {STORAGE}.{storage}")}
        shown = {path.name for path in (warehouse / storage).glob("freshgate_version=*")}
        if shown != {partition.partition("/")[0] for partition in listed}:
            yield f"{storage}: partitions {sorted(listed)}, directories {sorted(shown)}"
        if len(shown) > 1 and not any("/" in partition for partition in listed):
            yield f"{storage}: versions {sorted(shown)}"


def _left_of_rows(direct: Any, view: str, table: str, found: Iterable[Path]) -> Iterator[str]:
    """What is left in a table of rows, and whether others see the version that the view shows."""
    in_iceberg = table.startswith(OPEN)
    listed = f"SELECT file_path FROM {table}.files" if in_iceberg else f"SELECT _metadata.file_path FROM {table}"
    there, files = {path.name for path in found}, {Path(path).name for (path,) in rows(direct, listed)}
    if there != files:
        yield f"{view}: files {sorted(there - files)}, without {sorted(files - there)}"
    if in_iceberg and len(commits := rows(direct, f"SELECT snapshot_id FROM {table}.snapshots")) > 1:
        yield f"{view}: commits {commits}"
    counts = [rows(direct, f"SELECT count(*) FROM {each}") for each in (view, table)]
    if counts[0] != counts[1]:
        yield f"{view}: readers and those of its table see {counts}"


def _is_settled(direct: Any, cursor: Any, names: list[str], states: list[dict[str, int | None]]) -> bool:
    """Returns whether Spark and the gateway's catalog have the same names."""
    try:
        seen = _counts(direct, names)
    except OperationalError:
        return False  # A view was dropped between the two queries.
    listed = {row[0] for row in rows(cursor, "SELECT name FROM freshgate.materialized_views")}
    return seen in states and all((seen[name] is not None) == (name in listed) for name in names)


def _counts(cursor: Any, names: Iterable[str]) -> dict[str, int | None]:
    return {name: _count(cursor, name) for name in names}


def _count(cursor: Any, name: str) -> int | None:
    """Returns the number of rows of a view, or None if no view has the name."""
    if not rows(cursor, f"SHOW VIEWS LIKE '{name}'"):
        return None
    return int(rows(cursor, f"SELECT count(*) FROM {name}")[0][0])


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, spark_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultySite]:
    shared = None if EVERYTHING else request.getfixturevalue("lake_engine")
    running = FaultySite(tmp_path_factory.mktemp("faults"), shared)
    yield running
    running.close()


def chosen(site: FaultySite, act: Act, turn: int) -> list[int]:
    """Returns the selected points of an act. Each turn of the suite has another one of them."""
    count = len(site.sent(act))
    return list(range(1, count + 1)) if EVERYTHING else [(7 * ACTS.index(act) + 5 * turn) % count + 1]


@pytest.mark.parametrize("act", sampled(ACTS, OF_SUITE, [act.name for act in ACTS]))
def test_a_failed_statement_or_connection_leaves_the_old_or_the_new_state(site: FaultySite, act: Act) -> None:
    for turn, fault in enumerate((Fault.ERROR, Fault.CUT, Fault.CUT_AFTER)):
        points = site.points(act, chosen(site, act, turn))
        site.try_all(points, fault)
        # After an error the gateway undoes its changes before it answers. After a lost connection it must still ask
        # Spark for the outcome.
        site.check(points, settling=fault is not Fault.ERROR)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["create", "refresh", "replace", "rename", "swap", "take", "drop"])
def test_an_error_for_a_statement_that_was_executed_leaves_the_old_or_the_new_state(
    site: FaultySite, name: str
) -> None:
    """The fault hits each statement that changes views; a Spark that is being stopped answers like this."""
    (act,) = (each for each in ACTS if each.name == name)
    site.proxy.subject_of = switched_by
    try:
        count = len(site.statements(act))
        points = site.points(act, range(1, count + 1))
        site.try_all(points, Fault.ERROR_AFTER)
    finally:
        site.proxy.subject_of = subject_of
    assert len(site.proxy.hit) == len(points) >= 1
    assert set(site.proxy.statuses) <= {ttypes.TStatusCode.SUCCESS_STATUS, ttypes.TStatusCode.SUCCESS_WITH_INFO_STATUS}
    site.check(points, settling=True)


@pytest.mark.thorough
@pytest.mark.parametrize("names", ["rename swap take", "create refresh replace drop"])
def test_a_statement_that_spark_executes_after_the_connection_is_lost_is_resolved(site: FaultySite, names: str) -> None:
    """The fault hits each statement that changes views: the state that the gateway first finds is not final."""
    site.proxy.subject_of = switched_by
    site.proxy.statuses.clear()
    try:
        acts = [act for act in ACTS if act.name in names.split()]
        points = [point for act in acts for point in site.points(act, range(1, len(site.statements(act)) + 1))]
        site.proxy.hit.clear()
        site.proxy.plan({point.key: Fault.CUT_LATE for point in points})
        ran = partial(wait_until, lambda: len(site.proxy.statuses) == len(points), 60, "Spark to have run them")
        with ThreadPoolExecutor(len(points)) as pool:
            list(pool.map(partial(site.run, until=ran), points))
    finally:
        site.proxy.subject_of = subject_of
        site.proxy.plan({})
    assert len(site.proxy.hit) == len(points) >= len(acts)
    assert set(site.proxy.statuses) <= {ttypes.TStatusCode.SUCCESS_STATUS, ttypes.TStatusCode.SUCCESS_WITH_INFO_STATUS}
    site.check(points, settling=True)


@pytest.mark.thorough
def test_the_description_of_a_view_survives_a_restart_after_an_unknown_outcome(site: FaultySite) -> None:
    """Spark has stored the description but answered with an error, or not at all."""
    site.proxy.subject_of = noted_by
    try:
        acts = [act for act in ACTS if act.describes]
        points = [point for act in acts for point in site.points(act, range(1, len(site.statements(act)) + 1))]
        faults = itertools.cycle([Fault.CUT_LATE, Fault.ERROR_AFTER])
        site.proxy.hit.clear()
        site.proxy.statuses.clear()
        site.proxy.plan({point.key: fault for point, fault in zip(points, faults, strict=False)})
        for point in points:
            assert site.run(point) is not None, point
        assert len(site.proxy.hit) == len(points) >= len(acts)
    finally:
        site.proxy.subject_of = subject_of
        site.proxy.plan({})
    wait_until(lambda: len(site.proxy.statuses) == len(points), 60, "Spark to have stored them")
    found = [site.describe(point.view) for point in points]
    assert all(each in site.descriptions[point.act.name] for each, point in zip(found, points, strict=True))
    site.restart()
    assert [site.describe(point.view) for point in points] == found


@pytest.mark.thorough
def test_the_storage_of_a_replaced_view_is_dropped_although_no_property_can_be_set(site: FaultySite) -> None:
    """The name is stored after the switch that readers see; if that fails, the next start notices."""
    (act,) = (each for each in ACTS if each.name == "take")
    site.proxy.subject_of = noted_by
    try:
        count = len(site.statements(act))
        points = site.points(act, range(1, count + 1))
        site.try_all(points, Fault.ERROR)
    finally:
        site.proxy.subject_of = subject_of
    assert len(site.proxy.hit) == len(points) >= 4
    site.check(points, settling=True)
    site.check_nothing_is_left()


def test_nothing_is_left_behind(site: FaultySite) -> None:
    """Holds while the gateway keeps running and after a restart."""
    site.check_nothing_is_left()
    site.restart()
    site.check_nothing_is_left()


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.CUT, Fault.CUT_AFTER], ids=["error", "cut", "cut-after"])
def test_views_are_served_after_faults_during_the_start(site: FaultySite, fault: Fault) -> None:
    """For each statement that a start sends about a view, one view has the fault at it."""
    start = Act("start", (CREATE,), "SELECT * FROM {v}", lambda v: {v: 1}, lambda v: {v: 1})
    (first,) = site.points(start, [0])
    site.restart()
    points = site.points(start, range(1, len(site.proxy.sent[first.view]) + 1))
    assert len(points) >= 2
    site.restart({point.key: fault for point in points})
    assert {(subject, number) for subject, number, _, _ in site.proxy.hit} == {point.key for point in points}
    site.proxy.plan({})
    site.check(points)


@pytest.mark.thorough
def test_a_view_that_cannot_be_loaded_at_the_start_is_damaged_and_the_others_are_served(site: FaultySite) -> None:
    start = Act("start", (CREATE,), "SELECT * FROM {v}", lambda v: {v: 1}, lambda v: {v: 1})
    lost, intact = site.points(start, [0, 0])
    site.restart({(lost.view, number): Fault.ERROR for number in range(1, 20)})
    site.proxy.plan({})
    with site.connected() as cursor:
        query = f"SELECT state, schema_change FROM freshgate.materialized_views WHERE name = '{lost.view}'"
        found = rows(cursor, query)
        assert [state for state, _ in found] == ["DAMAGED"]
        assert "cannot be read" in found[0][1]
        for statement in ("SELECT * FROM {v}", "REFRESH MATERIALIZED VIEW {v}", "DROP MATERIALIZED VIEW {v}"):
            with pytest.raises(Exception, match=r"is damaged: .*cannot be read"):
                rows(cursor, statement.format(v=lost.view))
    site.check([intact])
    site.restart()
    site.check([lost])


@pytest.mark.thorough
@pytest.mark.parametrize("running", [False, True], ids=["start", "survey"])
def test_leftovers_of_a_crash_are_dropped_in_spite_of_faults(site: FaultySite, running: bool) -> None:
    """Each statement that finds and drops leftovers, at a start or in a later survey of the storage database, fails
    once. In the end nothing is left, and another view is unaffected."""
    other = Act("other", (CREATE,), "SELECT * FROM {v}", _one_row, _one_row)
    (view,) = site.points(other, [0])

    def recover(names: list[str], faults: dict[tuple[str, int], Fault]) -> None:
        if not running:
            site.leave(view.view, names)
        site.restart(faults, constants={"gateway.server.SURVEY_SECONDS": 1 if running else 600})
        if running:
            site.leave(view.view, names)
        site.check_nothing_is_left()

    (first,) = site.names(1)
    recover([first], {})
    sent = len(site.proxy.sent[first])
    assert sent >= 3
    faults = (Fault.ERROR, Fault.CUT, Fault.CUT_AFTER)
    # The suite has one fault for each statement, in turn.
    each = faults if EVERYTHING else (None,)
    points = [(number, fault or faults[number % 3]) for number in range(1, sent + 1) for fault in each]
    names = site.names(len(points))
    recover(names, {(name, number): fault for name, (number, fault) in zip(names, points, strict=True)})
    assert len(site.proxy.hit) * 2 >= len(names), site.proxy.hit
    site.tested += [f"{name} {number} {fault.value}" for name, number, fault, _ in site.proxy.hit]
    site.restart()
    site.check([view])


def _kill_at(site: FaultySite, points: list[Point], kill: Callable[[], None]) -> None:
    """Runs the acts until each is stalled at its point, then kills."""
    site.proxy.plan({point.key: Fault.STALL for point in points})
    with ThreadPoolExecutor(len(points)) as pool:
        running = {point.view: pool.submit(site.run, point) for point in points}

        def moving() -> list[str]:
            return [view for view, act in running.items() if view not in site.proxy.stalled and not act.done()]

        try:
            wait_until(lambda: not moving(), 60, "all to be stopped")
        except AssertionError as error:
            others = f"{moving()} have neither stalled nor ended; {sorted(site.proxy.stalled)} are stalled"
            site.proxy.release()  # Otherwise the pool would wait for the stalled threads.
            raise AssertionError(others) from error
        assert site.proxy.stalled
        site.tested += [f"{view} kill" for view in site.proxy.stalled]
        kill()
        site.proxy.release()
        for act in running.values():
            act.result(90)


def _batches(site: FaultySite, turn: int) -> Iterator[list[Point]]:
    """The suite has the switch of a few acts, with its statements counted by `switched_by`."""
    if EVERYTHING:
        points = [(act, number) for act in ACTS for number in chosen(site, act, turn)]
    else:
        points = [(act, 1) for act in ACTS if act.name in KILLED]
    for start in range(0, len(points), TOGETHER):
        batch: list[Point] = []
        for act, number in points[start : start + TOGETHER]:
            batch += site.points(act, [number])
        yield batch


def test_a_kill_of_the_gateway_at_each_step_leaves_the_old_or_the_new_state(site: FaultySite) -> None:
    site.proxy.subject_of = subject_of if EVERYTHING else switched_by
    try:
        for batch in _batches(site, 0):
            _kill_at(site, batch, site.gateway.kill)
            site.restart()
            site.check(batch)
    finally:
        site.proxy.subject_of = subject_of
    site.check_nothing_is_left()


@pytest.mark.thorough
def test_a_kill_of_spark_at_each_step_leaves_the_old_or_the_new_state(site: FaultySite) -> None:
    for batch in _batches(site, 1):
        _kill_at(site, batch, site.engine.program.process.kill)
        site.restart_engine()
        site.check(batch, settling=True)
    site.check_nothing_is_left()
    print(f"{len(site.tested)} points were tested")


@pytest.mark.thorough
@pytest.mark.parametrize("killed", ["gateway", "spark"])
@pytest.mark.parametrize("word", ["ICEBERG", "DELTA"])
def test_a_kill_while_rows_are_written_leaves_the_published_ones(site: FaultySite, word: str, killed: str) -> None:
    """Files that no commit has are not seen, and go with the table at the latest."""
    (view,) = site.names(1)
    query = f"SELECT a, nap('java.lang.Thread', 'sleep', bigint(a)) AS slept FROM {view}_t"
    site.proxy.plan({})
    with site.connected() as cursor, site.connected(direct=True) as direct, ThreadPoolExecutor(1) as pool:
        for statement in (
            NAP,
            f"CREATE TABLE {view}_t (a INT) USING parquet",
            f"INSERT INTO {view}_t VALUES (1)",
            f"CREATE MATERIALIZED VIEW {view} USING {word} AS {query}",
            f"INSERT INTO {view}_t VALUES (10000)",
        ):
            rows(cursor, statement)
        before = site.files_of_rows(view)
        reading = pool.submit(rows, cursor, f"SELECT a FROM {view}")
        wait_until(lambda: site.files_of_rows(view) - before, 60, "one of the files")
        (site.gateway.kill if killed == "gateway" else site.engine.program.process.kill)()
        assert reading.exception(60) is not None
        if killed == "gateway":
            assert rows(direct, f"SELECT a FROM {view}") == [(1,)]
    if killed == "gateway":
        site.restart()
    else:
        site.restart_engine()
    with site.connected() as cursor:
        for rest in ([(1,), (10000,)], [(3,)]):
            assert sorted(rows(cursor, f"SELECT a FROM {view}")) == rest
            rows(cursor, f"INSERT OVERWRITE {view}_t VALUES (3)")
        rows(cursor, f"DROP MATERIALIZED VIEW {view}")
    site.check_nothing_is_left()


@dataclass(frozen=True)
class Aftermath:
    """What the gateway does in the background after an act: no client waits for it."""

    name: str
    act: Act
    last: str
    """How its last statement begins."""
    fails: bool = False
    """The act fails after its rows were written, before they are published."""

    def faults(self, site: FaultySite, point: Point) -> dict[tuple[str, int], Fault]:
        """The faults before it at this point."""
        return {(point.view, site.storing(self.act)): Fault.ERROR} if self.fails else {}

    def numbers(self, site: FaultySite) -> range:
        """The numbers of its statements. Nothing else is asked meanwhile, which would count as well."""
        (point,) = site.points(self.act, [0])
        faults = self.faults(site, point)
        first = site.storing(self.act) if self.fails else len(site.sent(self.act))
        site.proxy.plan(faults)
        assert (site.run(point) is None) == (not self.fails)
        sent = site.proxy.sent[point.view]

        def ends() -> list[int]:
            return [number for number, text in enumerate(sent, 1) if number > first and re.match(self.last, text)]

        wait_until(ends, 60, f"the end of {self.name}")
        return range(first + 1, ends()[0] + 1)


EXPIRY = {"iceberg": r"CALL .*expire_snapshots", "delta": "VACUUM"}
OPEN_ACTS = {"iceberg refresh", "iceberg append", "delta refresh", "delta append"}
AFTERMATHS = (
    Aftermath("compaction", SCATTER, r"ALTER TABLE \S+ DROP"),
    *(Aftermath(f"expiry after {act.name}", act, EXPIRY[act.name.split()[0]]) for act in ACTS if act.name in OPEN_ACTS),
    # Refreshes of reads are not tried again.
    *(
        Aftermath(
            f"roll back of {act.name}",
            replace(act, name=f"{act.name} by a read", statement="SELECT * FROM {v}"),
            EXPIRY[act.name.split()[0]],
            True,
        )
        for act in ACTS
        if act.name in OPEN_ACTS
    ),
)


@pytest.mark.thorough
@pytest.mark.parametrize("killed", ["gateway", "spark"])
@pytest.mark.parametrize("aftermath", AFTERMATHS, ids=[each.name for each in AFTERMATHS])
def test_a_kill_at_each_step_in_the_background_leaves_all_rows(
    site: FaultySite, killed: str, aftermath: Aftermath
) -> None:
    numbers = list(aftermath.numbers(site))
    assert numbers
    for start in range(0, len(numbers), TOGETHER):
        points = site.points(aftermath.act, numbers[start : start + TOGETHER])
        faults = {point.key: Fault.STALL for point in points}
        for point in points:
            faults |= aftermath.faults(site, point)
        site.proxy.plan(faults)
        with ThreadPoolExecutor(len(points)) as pool:
            running = [pool.submit(site.run, point) for point in points]
            with suppress(AssertionError):
                wait_until(lambda: len(site.proxy.stalled) == len(points), 60)  # noqa: B023
            assert site.proxy.stalled, f"none of {points} was reached"
            site.tested += [f"{view} kill" for view in site.proxy.stalled]
            (site.gateway.kill if killed == "gateway" else site.engine.program.process.kill)()
            site.proxy.release()
            for act in running:
                act.result(90)
        if killed == "gateway":
            site.restart()
        else:
            site.restart_engine()
        site.check(points, settling=killed == "spark")
    # Rows that were added since are a version of their own.
    with site.connected() as cursor:
        for (name,) in rows(cursor, "SELECT name FROM freshgate.materialized_views"):
            rows(cursor, f"REFRESH MATERIALIZED VIEW {name} COMPLETE")
    site.check_nothing_is_left()
