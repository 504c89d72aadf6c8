"""Each statement that the gateway sends to Spark fails, breaks off, or is the last one before a kill -9.

Every subject below is one view with one statement about it (CREATE, REFRESH, ALTER, DROP, …). All that is sent for it
is counted by its name; point N is its N-th statement. After each fault the view must be as it was or as it was to be,
and after a restart nothing may be left over, files included.

`scripts/test --all` tries every point of every act; the suite each thirty-second one of some acts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clients import rows, unclosed
from fault_proxy import Fault, FaultProxy
from processes import Engine, Gateway, wait_until
from pyhive.exc import OperationalError
from TCLIService import ttypes
from tiers import EVERYTHING, sampled

from gateway.mv.catalog.naming import definition_of
from gateway.mv.model.properties import PREFIX
from sql.names import TableName
from sql.texts import maintenance

EVERY = 1 if EVERYTHING else 32
TOGETHER = 6
"""Subjects whose statements are stopped at one time: the gateway has eight sessions for short statements."""
STORAGE = "freshgate_storage"
SETTINGS = {"versions.retention": 0, "staleness.probe_interval": 0, "refresh.max_concurrent": 16}


@dataclass(frozen=True)
class Act:
    """A statement about the view {v} over the table {v}_t (with 1 row; 2 after `prepare`)."""

    name: str
    prepare: tuple[str, ...]
    statement: str
    before: Callable[[str], dict[str, int | None]]
    """The views that there are before, and the rows of each; None: there is none of that name."""
    after: Callable[[str], dict[str, int | None]]
    has_trigger: bool = False
    """Reads do not wait for its refreshes, then."""
    says: bool = False
    """It changes what is said of the view, and no rows."""


def _one_row(view: str) -> dict[str, int | None]:
    return {view: 1}


CREATE = "CREATE MATERIALIZED VIEW {v} AS SELECT a FROM {v}_t"
MORE = "INSERT INTO {v}_t VALUES (2)"
SCHEDULE = "REFRESH COMPLETE ON SCHEDULE EVERY 7 DAY"
SCHEDULED = f"CREATE MATERIALIZED VIEW {{v}} {SCHEDULE} AS SELECT a FROM {{v}}_t"
PAUSE = "PAUSE MATERIALIZED VIEW JOB ON {v}"
ACTS = (
    Act("create", (), CREATE, lambda v: {v: None}, lambda v: {v: 1}),
    Act("refresh", (CREATE, MORE), "REFRESH MATERIALIZED VIEW {v}", lambda v: {v: 1}, lambda v: {v: 2}),
    Act("read", (CREATE, MORE), "SELECT * FROM {v}", lambda v: {v: 1}, lambda v: {v: 2}),
    Act(
        "partitions",
        (
            "DROP TABLE {v}_t",
            "CREATE TABLE {v}_t (a INT, d INT) USING parquet PARTITIONED BY (d)",
            "INSERT INTO {v}_t VALUES (1, 1)",
            "CREATE MATERIALIZED VIEW {v} PARTITION BY (d) AS SELECT a, d FROM {v}_t",
            "INSERT INTO {v}_t VALUES (2, 2)",
        ),
        "REFRESH MATERIALIZED VIEW {v} AUTO",
        lambda v: {v: 1},
        lambda v: {v: 2},
    ),
    Act(
        "replace",
        (CREATE,),
        "CREATE OR REPLACE MATERIALIZED VIEW {v} AS SELECT a FROM {v}_t UNION ALL SELECT a FROM {v}_t",
        lambda v: {v: 1},
        lambda v: {v: 2},
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
    Act("comment", (CREATE,), "ALTER MATERIALIZED VIEW {v} COMMENT 'c'", _one_row, _one_row, says=True),
    Act(
        "set",
        (CREATE,),
        "ALTER MATERIALIZED VIEW {v} SET ('workload_group' = 'g', 'replication_num' = '2')",
        _one_row,
        _one_row,
        says=True,
    ),
    Act("owner", (CREATE,), "ALTER MATERIALIZED VIEW {v} OWNER TO other", _one_row, _one_row, says=True),
    Act("trigger", (CREATE,), f"ALTER MATERIALIZED VIEW {{v}} {SCHEDULE}", _one_row, _one_row, True, True),
    Act("pause", (SCHEDULED,), PAUSE, _one_row, _one_row, True, True),
    Act("resume", (SCHEDULED, PAUSE), "RESUME MATERIALIZED VIEW JOB ON {v}", _one_row, _one_row, True, True),
    Act("drop", (CREATE,), "DROP MATERIALIZED VIEW {v}", lambda v: {v: 1}, lambda v: {v: None}),
)
OF_SUITE = {"refresh", "partitions", "swap"}
"""The acts that are part of the suite."""
TRIED = ACTS if EVERYTHING else tuple(act for act in ACTS if act.name in OF_SUITE)


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
    """The view whose name, storage or base table stands in a statement: v and a number."""
    found = re.search(r"\b(?:f\d+__)?(v\d+)(?:_t|_r|_s)?(?:__\w+)?\b", text)
    return found[1] if found else None


def switched_by(text: str) -> str | None:
    """As `subject_of`, of the statements alone that make public views, drop them, or change what they show, and those
    that make definitions (when those are dropped, and how often they are tried, the janitor decides)."""
    switch = re.match(r"CREATE VIEW|DROP VIEW(?!.*__definition\b)|ALTER VIEW \S+ (AS|RENAME)", text)
    return subject_of(text) if switch else None


def noted_by(text: str) -> str | None:
    """As `subject_of`, of the statements alone that note something on a storage table."""
    return subject_of(text) if re.match(rf"ALTER TABLE \S*{STORAGE}\S* (SET|UNSET) TBLPROPERTIES", text) else None


Saying = tuple[str, ...]
"""SHOW CREATE of a view, without its name, its owner, and the state of its job."""


class World:
    """An engine of its own, the proxy before it, and gateways behind that are killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._logs = itertools.count(1)
        self.engine = Engine(directory / "engine")
        self.proxy = FaultProxy(self.engine.host, self.engine.port, subject_of)
        self.database = "f1"
        self.gateway = self.start()
        with unclosed(self.gateway) as cursor:
            rows(cursor, f"CREATE DATABASE {self.database}")
        self.tried: list[str] = []
        self._sent: dict[str, int] = {}
        self.sayings: dict[str, set[Saying]] = {}
        """Of each act that `says`: what is said of a view before, and after."""

    def start(self, **settings: object) -> Gateway:
        log = self._directory / f"gateway-{next(self._logs)}.log"
        return Gateway(log, upstream=self.proxy.address, **{**SETTINGS, **settings})

    def restart(self, faults: dict[tuple[str, int], Fault] | None = None, **settings: object) -> None:
        """After a kill, or an orderly end: faults are over, but for those that the start is to meet."""
        self.gateway.stop()
        self.proxy.hit.clear()
        self.proxy.plan(faults or {})
        self.gateway = self.start(**settings)

    def restart_engine(self) -> None:
        """Spark is killed and started again on its metastore; the gateway stays."""
        self.engine.kill()
        self.proxy.plan({})
        self.engine = Engine(self._directory / "engine")
        self.proxy.host, self.proxy.port = self.engine.host, self.engine.port

    @contextmanager
    def connected(self, *, direct: bool = False) -> Iterator[Any]:
        """A cursor in the database, whose end asks nothing of a server that may be dead."""
        with unclosed(self.engine if direct else self.gateway, self.database) as cursor:
            yield cursor

    def points(self, act: Act, numbers: Iterable[int]) -> list[Point]:
        """Points of an act, each with its view prepared."""
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
        """Makes, straight on Spark, what a CREATE OR REPLACE of a view leaves that was killed before the switch: a
        storage and its definition that no view shows. A gateway that runs may drop each as soon as it is there."""
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

    def statements(self, act: Act) -> int:
        """How many statements an act sends."""
        (point,) = self.points(act, [0])
        before = self.said(point.view) if act.says else None
        self.proxy.plan({})
        assert self.run(point) is None
        count = self.proxy.counts[point.view]
        if before is not None:
            self.sayings[act.name] = {before, self.said(point.view)}
            assert len(self.sayings[act.name]) == 2, "the act has changed nothing"
        return count

    def sends(self, act: Act) -> int:
        """How many statements an act sends; counted once."""
        if act.name not in self._sent:
            self._sent[act.name] = self.statements(act)
        return self._sent[act.name]

    def said(self, view: str) -> Saying:
        with self.connected() as cursor:
            ((_, text),) = rows(cursor, f"SHOW CREATE MATERIALIZED VIEW {view}")
            select = f"SELECT owner FROM freshgate.materialized_views WHERE name = '{view}'"
            ((owner,),) = rows(cursor, select)
            found = rows(cursor, f'SELECT Status FROM jobs("type"="mv") WHERE MvName = \'{view}\'')
        return str(text).replace(view, "{v}"), owner, *(status for (status,) in found)

    def run(self, point: Point, until: Callable[[], None] = lambda: None) -> Exception | None:
        """Runs the act; the error that the client gets, whose session stays open `until` then."""
        with self.connected() as cursor:
            try:
                rows(cursor, point.act.statement.format(v=point.view))
            except Exception as error:
                until()
                return error
            until()
        return None

    def try_all(self, points: list[Point], fault: Fault) -> None:
        """Runs the acts of points, each with its fault. What an act sends last may come from the janitor, later than
        the client's answer, and is waited for."""
        self.proxy.hit.clear()
        self.proxy.plan({point.key: fault for point in points})
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(self.run, points))
        with suppress(AssertionError):
            wait_until(lambda: len(self.proxy.hit) * 2 >= len(points), 60)
        assert len(self.proxy.hit) * 2 >= len(points), f"{fault}: {self.proxy.hit}"
        self.tried += [f"{subject} {number} {fault.value}" for subject, number, _, _ in self.proxy.hit]
        self.proxy.plan({})

    def check(self, points: Iterable[Point], *, settling: bool = False) -> None:
        """Each view is as before or as after, for readers of the gateway and of Spark; reads lead to what is right.

        `settling`: Spark was killed, its connection broke, or it said nothing true. A name that moves does so in
        several calls, and what was cut off between them the gateway ends once Spark answers again.
        """
        with self.connected(direct=True) as direct, self.connected() as cursor:
            for point in points:
                told = [point.act.before(point.view), point.act.after(point.view)]
                names = sorted(told[0].keys() | told[1].keys())
                states = [{name: state.get(name) for name in names} for state in told]
                if settling and len(names) > 1:
                    with suppress(AssertionError):
                        wait_until(partial(_is_settled, direct, cursor, names, states), 60)
                seen = _counts(direct, names)
                assert seen in states, f"{point.act.name} {point.number}: Spark shows {seen}, not one of {states}"
                for name in names:
                    assert (_count(cursor, name) is None) == (seen[name] is None), point
                    if seen[name] is not None:
                        self._check_fresh(cursor, point, name)
                if point.act.says:
                    assert self.said(point.view) in self.sayings[point.act.name], point

    def _check_fresh(self, cursor: Any, point: Point, name: str) -> None:
        """After one more write a read through the gateway shows what the definition says."""
        rows(cursor, f"INSERT INTO {point.view}_t VALUES {'(7, 1)' if point.act.name == 'partitions' else '(7)'}")
        text = rows(cursor, f"SELECT definition FROM freshgate.materialized_views WHERE name = '{name}'")
        assert len(text) == 1, f"{point.act.name} {point.number}: {name} is not in the catalog"
        expected = sorted(rows(cursor, text[0][0]))
        if point.act.has_trigger:
            rows(cursor, f"REFRESH MATERIALIZED VIEW {name} AUTO")
        assert sorted(rows(cursor, f"SELECT * FROM {name}")) == expected, f"{point.act.name} {point.number}"

    def check_nothing_is_left(self) -> None:
        """In the metastore: two objects and one version for each view; in the warehouse: their directories alone."""

        def left() -> list[str]:
            with self.connected() as cursor, self.connected(direct=True) as direct:
                select = "SELECT storage_table FROM freshgate.materialized_views"
                storages = {row[0].rpartition(".")[2] for row in rows(cursor, select)}
                return list(_left(direct, storages, self._directory / "engine" / "warehouse" / f"{STORAGE}.db"))

        found: list[list[str]] = []
        with suppress(AssertionError):
            wait_until(lambda: not (found.append(left()) or found[-1]), 120, "what faults left to be dropped")
        assert found[-1] == []

    def close(self) -> None:
        self.gateway.stop()
        self.proxy.close()
        self.engine.stop()


def _left(direct: Any, storages: set[str], warehouse: Path) -> Iterator[str]:
    present = {row[1] for row in rows(direct, f"SHOW TABLES IN {STORAGE}")}
    yield from sorted(present - storages - {f"{storage}__definition" for storage in storages})
    directories = {path.name for path in warehouse.iterdir() if path.is_dir()} if warehouse.exists() else set()
    yield from sorted(directories - storages)
    for storage in storages & present:
        listed = {row[0] for row in rows(direct, f"SHOW PARTITIONS {STORAGE}.{storage}")}
        shown = {path.name for path in (warehouse / storage).glob("freshgate_version=*")}
        if shown != {partition.partition("/")[0] for partition in listed}:
            yield f"{storage}: partitions {sorted(listed)}, directories {sorted(shown)}"
        if len(shown) > 1 and not any("/" in partition for partition in listed):
            yield f"{storage}: versions {sorted(shown)}"


def _is_settled(direct: Any, cursor: Any, names: list[str], states: list[dict[str, int | None]]) -> bool:
    """Spark and the gateway's catalog have come to the same names."""
    try:
        seen = _counts(direct, names)
    except OperationalError:
        return False  # A name went between two looks at it.
    listed = {row[0] for row in rows(cursor, "SELECT name FROM freshgate.materialized_views")}
    return seen in states and all((seen[name] is not None) == (name in listed) for name in names)


def _counts(cursor: Any, names: Iterable[str]) -> dict[str, int | None]:
    return {name: _count(cursor, name) for name in names}


def _count(cursor: Any, name: str) -> int | None:
    """The rows of a view; None where there is none of that name."""
    if not rows(cursor, f"SHOW VIEWS LIKE '{name}'"):
        return None
    return int(rows(cursor, f"SELECT count(*) FROM {name}")[0][0])


@pytest.fixture(scope="module")
def world(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    running = World(tmp_path_factory.mktemp("faults"))
    yield running
    running.close()


def chosen(world: World, act: Act, turn: int) -> list[int]:
    """The act's points whose turn it is; counted from another place for each act, so that short ones have theirs."""
    first = 7 * ACTS.index(act) + turn
    return [number for number in range(1, world.sends(act) + 1) if (first + number) % EVERY == 0]


@pytest.mark.parametrize("act", sampled(ACTS, OF_SUITE, [act.name for act in ACTS]))
def test_a_statement_fails_or_its_connection_breaks(world: World, act: Act) -> None:
    for turn, fault in enumerate((Fault.ERROR, Fault.CUT, Fault.CUT_AFTER)):
        points = world.points(act, chosen(world, act, turn))
        world.try_all(points, fault)
        # Refused, it is taken back before the client hears of it; broken off, the gateway has yet to ask what became of
        # it.
        world.check(points, settling=fault is not Fault.ERROR)


@pytest.mark.parametrize(
    "name", sampled(("create", "refresh", "replace", "rename", "swap", "take", "drop"), {"refresh"})
)
def test_spark_answers_what_it_has_done_with_an_error(world: World, name: str) -> None:
    """In each statement that changes what names show; as a Spark does that is being stopped."""
    (act,) = (each for each in ACTS if each.name == name)
    world.proxy.subject_of = switched_by
    try:
        count = world.statements(act)
        points = world.points(act, range(1, count + 1))
        world.try_all(points, Fault.ERROR_AFTER)
    finally:
        world.proxy.subject_of = subject_of
    assert len(world.proxy.hit) == len(points) >= 1
    assert set(world.proxy.statuses) <= {ttypes.TStatusCode.SUCCESS_STATUS, ttypes.TStatusCode.SUCCESS_WITH_INFO_STATUS}
    world.check(points, settling=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "names", sampled(["rename swap take", "create refresh replace drop"], {"create refresh replace drop"})
)
def test_spark_runs_late_what_its_connection_has_broken_at(world: World, names: str) -> None:
    """In each statement that changes what names show: what is there when the gateway looks for the first time does not
    stay."""
    world.proxy.subject_of = switched_by
    world.proxy.statuses.clear()
    try:
        acts = [act for act in ACTS if act.name in names.split()]
        points = [point for act in acts for point in world.points(act, range(1, world.statements(act) + 1))]
        world.proxy.hit.clear()
        world.proxy.plan({point.key: Fault.CUT_LATE for point in points})
        ran = partial(wait_until, lambda: len(world.proxy.statuses) == len(points), 60, "Spark to have run them")
        with ThreadPoolExecutor(len(points)) as pool:
            list(pool.map(partial(world.run, until=ran), points))
    finally:
        world.proxy.subject_of = subject_of
        world.proxy.plan({})
    assert len(world.proxy.hit) == len(points) >= len(acts)
    assert set(world.proxy.statuses) <= {ttypes.TStatusCode.SUCCESS_STATUS, ttypes.TStatusCode.SUCCESS_WITH_INFO_STATUS}
    world.check(points, settling=True)


@pytest.mark.thorough
def test_what_is_told_of_a_view_is_what_is_stored(world: World) -> None:
    """Where Spark has stored it and said otherwise, or nothing: a restart changes none of it."""
    world.proxy.subject_of = noted_by
    try:
        acts = [act for act in ACTS if act.says]
        points = [point for act in acts for point in world.points(act, range(1, world.statements(act) + 1))]
        faults = itertools.cycle([Fault.CUT_LATE, Fault.ERROR_AFTER])
        world.proxy.hit.clear()
        world.proxy.statuses.clear()
        world.proxy.plan({point.key: fault for point, fault in zip(points, faults, strict=False)})
        for point in points:
            assert world.run(point) is not None, point
        assert len(world.proxy.hit) == len(points) >= len(acts)
    finally:
        world.proxy.subject_of = subject_of
        world.proxy.plan({})
    wait_until(lambda: len(world.proxy.statuses) == len(points), 60, "Spark to have stored them")
    said = [world.said(point.view) for point in points]
    assert all(each in world.sayings[point.act.name] for each, point in zip(said, points, strict=True))
    world.restart()
    assert [world.said(point.view) for point in points] == said


@pytest.mark.thorough
def test_what_a_replaced_view_stood_on_goes_though_nothing_can_be_noted(world: World) -> None:
    """The names are stored after the switch that readers see; one that is not stored is found out at the next start."""
    (act,) = (each for each in ACTS if each.name == "take")
    world.proxy.subject_of = noted_by
    try:
        count = world.statements(act)
        points = world.points(act, range(1, count + 1))
        world.try_all(points, Fault.ERROR)
    finally:
        world.proxy.subject_of = subject_of
    assert len(world.proxy.hit) == len(points) >= 4
    world.check(points, settling=True)
    world.check_nothing_is_left()


def test_nothing_is_left_of_all_this(world: World) -> None:
    """While the gateway runs on; and after a restart."""
    world.check_nothing_is_left()
    world.restart()
    world.check_nothing_is_left()


@pytest.mark.parametrize(
    "fault", sampled((Fault.ERROR, Fault.CUT, Fault.CUT_AFTER), {"cut"}, ["error", "cut", "cut-after"])
)
def test_a_start_meets_faults(world: World, fault: Fault) -> None:
    """One in each statement that a start sends about a view, each view another one: all of them are served after it."""
    start = Act("start", (CREATE,), "SELECT * FROM {v}", lambda v: {v: 1}, lambda v: {v: 1})
    (first,) = world.points(start, [0])
    world.restart()
    points = world.points(start, range(1, world.proxy.counts[first.view] + 1))
    assert len(points) >= 2
    world.restart({point.key: fault for point in points})
    assert {(subject, number) for subject, number, _, _ in world.proxy.hit} == {point.key for point in points}
    world.proxy.plan({})
    world.check(points)


def test_a_view_that_cannot_be_read_at_a_start_is_not_served_and_keeps_no_other_back(world: World) -> None:
    start = Act("start", (CREATE,), "SELECT * FROM {v}", lambda v: {v: 1}, lambda v: {v: 1})
    lost, well = world.points(start, [0, 0])
    world.restart({(lost.view, number): Fault.ERROR for number in range(1, 20)})
    world.proxy.plan({})
    with world.connected() as cursor:
        said = rows(cursor, f"SELECT state, schema_change FROM freshgate.materialized_views WHERE name = '{lost.view}'")
        assert [state for state, _ in said] == ["DAMAGED"]
        assert "cannot be read" in said[0][1]
        for statement in ("SELECT * FROM {v}", "REFRESH MATERIALIZED VIEW {v}", "DROP MATERIALIZED VIEW {v}"):
            with pytest.raises(Exception, match=r"is damaged: .*cannot be read"):
                rows(cursor, statement.format(v=lost.view))
    world.check([well])
    world.restart()
    world.check([lost])


@pytest.mark.thorough
@pytest.mark.parametrize("running", sampled((False, True), {"start"}, ["start", "survey"]))
def test_recovery_meets_faults(world: World, running: bool) -> None:
    """Each statement of a start, or of a later look at the storage database, that finds and drops what a crash left
    fails once: nothing of it is left in the end, and a view beside it stays."""
    beside = Act("beside", (CREATE,), "SELECT * FROM {v}", _one_row, _one_row)
    (view,) = world.points(beside, [0])

    def recover(names: list[str], faults: dict[tuple[str, int], Fault]) -> None:
        if not running:
            world.leave(view.view, names)
        world.restart(faults, **{"storage.check_interval": 1 if running else 600})
        if running:
            world.leave(view.view, names)
        world.check_nothing_is_left()

    (first,) = world.names(1)
    recover([first], {})
    sent = world.proxy.counts[first]
    assert sent >= 3
    faults = (Fault.ERROR, Fault.CUT, Fault.CUT_AFTER)
    # Otherwise one for each statement, by turns.
    each = faults if EVERY == 1 else (None,)
    points = [(number, fault or faults[number % 3]) for number in range(1, sent + 1) for fault in each]
    names = world.names(len(points))
    recover(names, {(name, number): fault for name, (number, fault) in zip(names, points, strict=True)})
    assert len(world.proxy.hit) * 2 >= len(names), world.proxy.hit
    world.tried += [f"{name} {number} {fault.value}" for name, number, fault, _ in world.proxy.hit]
    world.restart()
    world.check([view])


def _stopped(world: World, points: list[Point], kill: Callable[[], None]) -> None:
    """Runs the acts until each stands at its point, and kills."""
    world.proxy.plan({point.key: Fault.STALL for point in points})
    with ThreadPoolExecutor(len(points)) as pool:
        running = {point.view: pool.submit(world.run, point) for point in points}

        def moving() -> list[str]:
            return [view for view, act in running.items() if view not in world.proxy.stalled and not act.done()]

        try:
            wait_until(lambda: not moving(), 60, "all to be stopped")
        except AssertionError as error:
            others = f"{moving()} have neither stopped nor ended, beside {sorted(world.proxy.stalled)} that stand"
            world.proxy.release()  # Otherwise the threads of those that stand are waited for.
            raise AssertionError(others) from error
        assert world.proxy.stalled
        world.tried += [f"{view} kill" for view in world.proxy.stalled]
        kill()
        world.proxy.release()
        for act in running.values():
            act.result(90)


def _batches(world: World, turn: int, acts: Iterable[Act]) -> Iterator[list[Point]]:
    points = [(act, number) for act in acts for number in chosen(world, act, turn)]
    for start in range(0, len(points), TOGETHER):
        batch: list[Point] = []
        for act, number in points[start : start + TOGETHER]:
            batch += world.points(act, [number])
        yield batch


def test_the_gateway_is_killed_at_each_step(world: World) -> None:
    for batch in _batches(world, 0, TRIED):
        _stopped(world, batch, world.gateway.kill)
        world.restart()
        world.check(batch)
    world.check_nothing_is_left()


@pytest.mark.thorough
def test_spark_is_killed_at_each_step(world: World) -> None:
    for batch in _batches(world, 1, TRIED):
        _stopped(world, batch, world.engine.program.process.kill)
        world.restart_engine()
        world.check(batch, settling=True)
    world.check_nothing_is_left()
    print(f"{len(world.tried)} points were tried")
