"""Tests with random writes to partitions that a read equals its query and only changed partitions are recomputed."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlparse

import pytest
from clients import rows, unclosed
from databases import Database
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from processes import Engine, Gateway, wait_until
from tiers import EVERYTHING

from sql.texts.literals import safe_literal

# Each example takes many seconds of Spark's time: few examples, each with many steps.
EXAMPLES = 15 if EVERYTHING else 1
STEPS = 12
SLOW = 25_000
"""A length with which the definition takes seconds."""

Kind = Literal["INT", "STRING", "DATE"]
Values = tuple[str | None, ...]
"""The values of a partition of the base table, as Spark's texts; None is NULL."""
Key = str | None
Files = frozenset[str]

# The names of a view's partitions omit special characters; the names of these values are still distinct. Derby does
# not distinguish texts that differ only in trailing spaces.
POOLS: dict[Kind, list[str | None]] = {
    "INT": ["-3", "0", "7", "20240101", None],
    "STRING": [" a b", "t ", "x/y", "50%25", "it's", 'say "hi"', "ü", "b=c", "Ab", "aB", "\\n", "", None],
    "DATE": ["2024-01-15", "2024-01-16", "2024-02-29", "1969-12-31", None],
}
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def literal(value: str | None, kind: Kind) -> str:
    if value is None:
        return "NULL"
    return {"INT": value, "STRING": safe_literal(value), "DATE": f"DATE'{value}'"}[kind]


@dataclass(frozen=True)
class Definition:
    """A query whose column {p} follows the partition column {p} of t."""

    query: str
    other: bool = False
    """Whether it reads the second table; a change of that table makes every partition stale."""
    unit: str = ""


PLAIN = [
    Definition("SELECT a, {p}, s FROM t WHERE a > 0"),
    Definition("SELECT {p}, count(*) AS n, sum(a) AS total, min(s) AS least FROM t GROUP BY {p}"),
    Definition("SELECT DISTINCT s, {p} FROM t"),
    Definition("SELECT t.{p}, t.a, u.w FROM t JOIN u ON t.k = u.k", other=True),
    Definition("SELECT u.w, t.{p}, t.a FROM u JOIN t ON t.k = u.k", other=True),
    Definition("SELECT t.{p}, t.a, u.w FROM t LEFT JOIN u ON t.k = u.k", other=True),
    Definition("SELECT t.{p}, t.a, u.w FROM u RIGHT JOIN t ON t.k = u.k", other=True),
    Definition("SELECT {p}, a FROM t UNION ALL SELECT {p}, k FROM u", other=True),
    Definition("SELECT {p}, a, rank() OVER (PARTITION BY {p} ORDER BY a) AS r FROM t"),
    Definition("SELECT s, {p}, a FROM seen WHERE a IS NOT NULL"),
    Definition("WITH q AS (SELECT {p}, k, max(a) AS m FROM seen GROUP BY 1, 2) SELECT q.{p}, m FROM q"),
]
ROLLED_UP = [
    Definition("SELECT {p}, a FROM t", unit="month"),
    Definition("SELECT date_trunc('month', {p}) AS {p}, count(*) AS n FROM t GROUP BY 1", unit="month"),
    Definition("SELECT t.{p}, a, w FROM t LEFT JOIN u USING (k)", other=True, unit="year"),
]
ABOVE = "SELECT {p}, count(*) AS n FROM {below} GROUP BY {p}"


@dataclass(frozen=True)
class Setting:
    """The base tables and the views of one scenario."""

    kinds: tuple[Kind, ...]
    position: int
    """The index of the partition column that the view follows."""
    file_format: str
    definition: Definition
    above: bool
    """Whether another materialized view reads the first one."""
    together: int | None
    """The property refresh_partition_num."""

    @property
    def kind(self) -> Kind:
        return self.kinds[self.position]

    @property
    def pools(self) -> list[list[str | None]]:
        return [POOLS[kind] for kind in self.kinds]

    @property
    def columns(self) -> tuple[str, ...]:
        return ("p", "_q")[: len(self.kinds)]

    @property
    def column(self) -> str:
        return self.columns[self.position]

    @property
    def query(self) -> str:
        return self.definition.query.format(p=self.column)

    def values(self, data: tuple[int, ...]) -> Values:
        """Maps numbers to partition values."""
        return tuple(POOLS[kind][number % len(POOLS[kind])] for kind, number in zip(self.kinds, data, strict=False))

    def spec(self, values: Values) -> str:
        pairs = zip(self.columns, values, self.kinds, strict=True)
        return ", ".join(f"{column} = {literal(value, kind)}" for column, value, kind in pairs)

    def row(self, row: tuple[int | None, int | None, str], values: Values = ()) -> str:
        a, k, s = row
        head = ["NULL" if a is None else str(a), s, "NULL" if k is None else str(k)]
        return f"({', '.join([*head, *map(literal, values, self.kinds)])})"


@dataclass(frozen=True)
class Step:
    what: str
    directly: bool = False
    """Whether it runs directly on Spark."""
    picks: tuple[int, ...] = (0, 0)
    rows: tuple[tuple[tuple[int | None, int | None, str], tuple[int, ...]], ...] = ()
    target: int = 0


@st.composite
def scenes(draw: st.DrawFn) -> Setting:
    kinds = draw(st.lists(st.sampled_from(list(POOLS)), min_size=1, max_size=2).map(tuple))
    position = draw(st.integers(0, len(kinds) - 1))
    pool = PLAIN + ROLLED_UP if kinds[position] == "DATE" else PLAIN
    definition = draw(st.sampled_from(pool))
    return Setting(
        kinds,
        position,
        draw(st.sampled_from(["parquet", "orc", "json"])),
        definition,
        not definition.unit and draw(st.booleans()),
        draw(st.sampled_from([None, None, 1, 2])),
    )


numbers = st.one_of(st.none(), st.integers(-2, 4))
texts = st.sampled_from(["NULL", "''", "'x'", "'it\\'s'"])
picks = st.tuples(st.integers(0, 12), st.integers(0, 12))
some_rows = st.lists(st.tuples(st.tuples(numbers, numbers, texts), picks), min_size=1, max_size=3).map(tuple)
WRITES = [
    "INSERT",
    "INSERT",
    "INSERT STATIC",
    "INSERT STATIC",
    "INSERT PARTLY",
    "INSERT NOTHING",
    "OVERWRITE DYNAMIC",
    "OVERWRITE ALL",
    "OVERWRITE PARTITION",
    "OVERWRITE PARTITION",
    "EMPTY PARTITION",
    "TRUNCATE PARTITION",
    "TRUNCATE",
    "DROP PARTITION",
    "DROP PARTITION",
    "ADD PARTITION",
    "RENAME PARTITION",
    "FILE COPIED",
    "FILE COPIED",
    "FILE REMOVED",
    "OTHER INSERT",
    "OTHER INSERT",
    "OTHER TRUNCATE",
]
writes = st.builds(Step, st.sampled_from(WRITES), st.booleans(), picks, some_rows)
uses = st.builds(
    Step,
    st.sampled_from(["READ", "READ", "READ", "AUTO", "COMPLETE", "PARTITIONS", "PARTITIONS", "RESTART", "KILL"]),
    picks=picks,
    target=st.integers(0, 1),
)
sequences = st.lists(st.one_of(writes, writes, uses), min_size=5, max_size=STEPS)


# --- the expected behaviour ----------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """The state of everything that a view reads."""

    partitions: dict[Values, object]
    """The partitions of the table that it follows."""
    other: object = None
    """The state of all other tables."""
    whole: object = None
    """A value whose change makes every partition of the followed table a changed one."""


@dataclass(frozen=True)
class Chosen:
    """A set of a view's partitions: the given ones, or all except the given ones."""

    keys: frozenset[Key]
    all_but: bool = False
    touched: frozenset[Key] = frozenset()
    """With `all_but`: the partitions that changes of the followed table affect."""

    def __contains__(self, key: Key) -> bool:
        return (key in self.keys) != self.all_but

    def __bool__(self) -> bool:
        return self.all_but or bool(self.keys)


ALL_PARTITIONS = Chosen(frozenset(), all_but=True)


@dataclass
class Model:
    """The state from which each partition of a view was written."""

    name: str
    unit: str
    kind: Kind
    position: int
    seen: State
    others: dict[Key, object] = field(default_factory=dict)
    """The state of all other tables for each partition written after the last write of all partitions."""
    since_all: dict[Key, int] = field(default_factory=dict)
    all_written: int = 0
    task: int = 0
    """The last task that was checked."""
    versions: dict[str, int] = field(default_factory=dict)
    """The version of each partition, by name, at the last check."""
    shown: set[str] = field(default_factory=set)
    """The names of the partitions at the last check."""
    _numbers: int = 0

    def key(self, values: Values) -> Key:
        return self.key_of(values[self.position])

    def key_of(self, value: str | None) -> Key:
        """Returns the key of a value of the view's column, given as text."""
        if value is None or not self.unit:
            return value
        return value[: {"month": 8, "year": 5}[self.unit]] + {"month": "01", "year": "01-01"}[self.unit]

    def label(self, key: Key) -> str:
        """Returns the partition's name in Doris."""
        if key is None:
            return "p_NULL"
        if self.kind == "DATE":
            day = date.fromisoformat(key)
            step = {"": 1, "month": 31, "year": 366}[self.unit]
            high = day + timedelta(days=step)
            high = high.replace(day=1) if self.unit else high
            key = f"{day},{high}"
        return "p_" + re.sub("[^a-zA-Z0-9,]", "", key).replace(",", "_")

    def stale(self, now: State) -> Chosen:
        """Returns the partitions that a refresh must write."""
        if self.seen.whole != now.whole:
            return ALL_PARTITIONS
        either = self.seen.partitions.keys() | now.partitions.keys()
        touched = {
            self.key(values) for values in either if self.seen.partitions.get(values) != now.partitions.get(values)
        }
        if self.seen.other != now.other:
            fresh = {key for key, other in self.others.items() if other == now.other and key not in touched}
            return Chosen(frozenset(fresh), all_but=True, touched=frozenset(touched))
        return Chosen(frozenset(touched | {key for key, other in self.others.items() if other != now.other}))

    def wrote(self, chosen: Chosen, now: State) -> None:
        self._numbers += 1
        if chosen.all_but:
            self.seen = now
            self.others = {}
            self.all_written, self.since_all = (
                self._numbers,
                {key: number for key, number in self.since_all.items() if key not in chosen},
            )
            return
        partitions = {values: token for values, token in self.seen.partitions.items() if self.key(values) not in chosen}
        partitions |= {values: token for values, token in now.partitions.items() if self.key(values) in chosen}
        self.seen = State(partitions, self.seen.other, now.whole)
        self.others |= dict.fromkeys(chosen.keys, now.other)
        self.since_all |= dict.fromkeys(chosen.keys, self._numbers)

    def as_state(self) -> State:
        """Returns the state that a view over this one reads."""
        return State({(key,): number for key, number in self.since_all.items()}, whole=self.all_written)


# --- the world -------------------------------------------------------------------------------------------


class GatewaysInTurn:
    """A sequence of gateways in front of one Spark, and access to its files."""

    def __init__(self, engine: Engine, direct: Any, database: Database, start: Callable[..., Gateway]) -> None:
        self.name = database.name
        self.direct = direct
        self._start = start
        self._open = ExitStack()
        self._begin()

    def _begin(self) -> None:
        self.gateway = self._start(**{"staleness.probe_interval": 0})
        self.through = self._open.enter_context(unclosed(self.gateway, self.name))

    def restart(self, *, kill: bool) -> None:
        note("kill -9" if kill else "restart")
        if kill:
            self.gateway.kill()
            self._open.close()
        else:
            self._open.close()
            assert self.gateway.stop() == 0
        self._begin()

    def close(self) -> None:
        self._open.close()

    def run(self, *statements: str, directly: bool = False) -> None:
        for statement in statements:
            note(f"{'spark' if directly else 'gateway'}: {statement}")
            rows(self.direct if directly else self.through, statement)

    # --- the current state -----------------------------------------------------------------------------

    def now(self, setting: Setting) -> State:
        """Returns the state that the first view reads, from the files themselves."""
        root = self._location("t")
        listed = rows(self.direct, "SHOW PARTITIONS t")
        partitions: dict[Values, object] = {_values(name): _files(root / name) for (name,) in listed}
        return State(partitions, _files(self._location("u")) if setting.definition.other else None)

    def files(self, table: str) -> list[Path]:
        """Returns the data files of all partitions."""
        places = [self._location(table) / name for (name,) in rows(self.direct, f"SHOW PARTITIONS {table}")]
        return sorted(place / file for place in places for file in _files(place))

    def _location(self, table: str) -> Path:
        described = {row[0]: row[1] for row in rows(self.direct, f"DESCRIBE EXTENDED {table}")}
        return Path(unquote(urlparse(described["Location"]).path))

    def shown(self, view: str, column: str) -> list[str | None]:
        """Returns the values of the partition column in the published version."""
        found = rows(self.direct, f"SELECT DISTINCT CAST({column} AS STRING) FROM {view}")
        return sorted((row[0] for row in found), key=repr)

    def versions(self, view: str) -> dict[str, tuple[int, bool]]:
        """Returns, for each partition of a view, the version that wrote it and whether it is in sync."""
        return {row[1]: (int(row[2]), row[7]) for row in rows(self.through, f"SHOW PARTITIONS {view}")}

    def tasks(self, view: str, after: int) -> list[Task]:
        found = rows(
            self.through,
            'SELECT TaskId, Status, RefreshMode, NeedRefreshPartitions FROM tasks("type"="mv") '
            f"WHERE MvName = '{view}' AND MvDatabaseName = '{self.name}'",
        )
        tasks = (Task(int(row[0]), row[1], row[2], None if row[3] == "\\N" else json.loads(row[3])) for row in found)
        return sorted((task for task in tasks if task.number > after), key=lambda task: task.number)


@dataclass(frozen=True)
class Task:
    number: int
    status: str
    mode: str
    partitions: list[str] | None


def _files(directory: Path) -> Files:
    if not directory.is_dir():
        return frozenset()
    return frozenset(path.name for path in directory.iterdir() if path.name[0] not in "._")


def _values(name: str) -> Values:
    texts = (unquote(part.partition("=")[2]) for part in name.split("/"))
    return tuple(None if text == DEFAULT_PARTITION else text for text in texts)


class Scenario:
    """The base tables, the views over them, and the expected refreshes."""

    def __init__(self, gateways: GatewaysInTurn, setting: Setting) -> None:
        self.gateways = gateways
        self.setting = setting
        self.queries = {"m": setting.query}
        if setting.above:
            self.queries["top"] = ABOVE.format(p=setting.column, below="m")

    def begin(self) -> None:
        setting, gateways = self.setting, self.gateways
        typed = [f"{column} {kind}" for column, kind in zip(setting.columns, setting.kinds, strict=True)]
        gateways.run(
            "DROP VIEW IF EXISTS seen",
            *(f"DROP TABLE IF EXISTS {table}" for table in "tu"),
            f"CREATE TABLE t (a INT, s STRING, k INT, {', '.join(typed)}) USING {setting.file_format} "
            f"PARTITIONED BY ({', '.join(setting.columns)})",
            f"CREATE TABLE u (k INT, w STRING, {setting.column} {setting.kind}) USING {setting.file_format}",
            f"CREATE VIEW seen AS SELECT k, a, {setting.column}, s FROM t",
            f"INSERT INTO u VALUES (1, 'one', {literal(POOLS[setting.kind][0], setting.kind)}), (2, 'two', NULL)",
        )
        first = [setting.row((number, number, "'x'"), setting.values((number, number))) for number in range(3)]
        gateways.run(f"INSERT INTO t VALUES {', '.join(first)}")
        clause = f"date_trunc({setting.column}, '{setting.definition.unit}')"
        partition = clause if setting.definition.unit else setting.column
        together = f"PROPERTIES ('refresh_partition_num' = '{setting.together}') " if setting.together else ""
        for name, query in self.queries.items():
            gateways.run(f"CREATE MATERIALIZED VIEW {name} PARTITION BY ({partition}) {together}AS {query}")
        unit, kind = setting.definition.unit, setting.kind
        self.views = [Model("m", unit, kind, setting.position, gateways.now(setting))]
        if setting.above:
            self.views.append(Model("top", unit, kind, 0, self.views[0].as_state()))
        for view in self.views:
            view.task = max((task.number for task in gateways.tasks(view.name, 0)), default=0)
            view.versions = {name: version for name, (version, _) in gateways.versions(view.name).items()}
            view.shown = set(view.versions)

    def end(self) -> None:
        self.gateways.run(*(f"DROP MATERIALIZED VIEW IF EXISTS {name}" for name in reversed(self.queries)))

    def step(self, step: Step) -> None:
        if step.what in {"RESTART", "KILL"}:
            self.gateways.restart(kill=step.what == "KILL")
        elif step.what in {"READ", "AUTO", "COMPLETE", "PARTITIONS"}:
            self.use(step)
        elif step.what in {"FILE COPIED", "FILE REMOVED"}:
            self._by_program(step)
        else:
            self.gateways.run(*self._write(step), directly=step.directly)

    # --- writes ----------------------------------------------------------------------------------------

    def _write(self, step: Step) -> list[str]:
        setting, what = self.setting, step.what
        chosen = setting.values(step.picks)
        # Spark refuses an empty text as a static partition value, and fails on NULL in some statements.
        static = tuple(value or pool[0] for value, pool in zip(chosen, setting.pools, strict=True))
        spec = setting.spec(static)
        full = ", ".join(setting.row(row, setting.values(data)) for row, data in step.rows)
        bare = ", ".join(setting.row(row) for row, _ in step.rows)
        match what:
            case "INSERT":
                return [f"INSERT INTO t VALUES {full}"]
            case "INSERT STATIC":
                return [f"INSERT INTO t PARTITION ({spec}) VALUES {bare}"]
            case "INSERT PARTLY" if len(setting.kinds) > 1:
                first, rest = spec.partition(", _q = ")[::2]
                return [
                    f"INSERT INTO t PARTITION ({first}, _q) SELECT a, s, k, {rest} FROM VALUES {bare} AS v(a, s, k)"
                ]
            case "INSERT PARTLY" | "INSERT NOTHING":
                return ["INSERT INTO t SELECT * FROM t WHERE a > 1000"]
            case "OVERWRITE DYNAMIC":
                mode = "spark.sql.sources.partitionOverwriteMode"
                return [f"SET {mode}=DYNAMIC", f"INSERT OVERWRITE t VALUES {full}", f"RESET {mode}"]
            case "OVERWRITE ALL":
                return [f"INSERT OVERWRITE t VALUES {full}"]
            case "OVERWRITE PARTITION":
                return [f"INSERT OVERWRITE t PARTITION ({spec}) VALUES {bare}"]
            case "EMPTY PARTITION":
                return [f"INSERT OVERWRITE t PARTITION ({spec}) SELECT k, w, k FROM u WHERE k > 1000"]
            case "TRUNCATE":
                return ["TRUNCATE TABLE t"]
            case "ADD PARTITION":
                return [f"ALTER TABLE t ADD IF NOT EXISTS PARTITION ({spec})"]
            case "OTHER INSERT":
                return [f"INSERT INTO u VALUES {', '.join(map(self._other_row, step.rows))}"]
            case "OTHER TRUNCATE":
                return ["TRUNCATE TABLE u"]
        return self._alter(step, spec, static)

    def _other_row(self, row: tuple[tuple[int | None, int | None, str], tuple[int, ...]]) -> str:
        (_, k, w), data = row
        # In a branch of UNION ALL, an empty text that is not a partition value is refused.
        value = POOLS[self.setting.kind][data[0] % len(POOLS[self.setting.kind])] or None
        return f"({'NULL' if k is None else k}, {w}, {literal(value, self.setting.kind)})"

    def _alter(self, step: Step, spec: str, chosen: Values) -> list[str]:
        """Returns statements that need an existing partition."""
        there = sorted(self.gateways.now(self.setting).partitions, key=repr)
        if not there:
            return []
        old = there[step.picks[0] % len(there)]
        named = self.setting.spec(old)
        match step.what:
            case "TRUNCATE PARTITION":
                return [f"TRUNCATE TABLE t PARTITION ({named})"]
            case "DROP PARTITION":
                return [f"ALTER TABLE t DROP PARTITION ({named})"]
            case "RENAME PARTITION" if chosen not in there and None not in (*chosen, *old):
                return [f"ALTER TABLE t PARTITION ({named}) RENAME TO PARTITION ({spec})"]
            case "RENAME PARTITION":
                return []
        raise AssertionError(step.what)

    def _by_program(self, step: Step) -> None:
        """Copies a file within its partition or removes one, as another program would."""
        files = self.gateways.files("t")
        if not files:
            return
        file = files[step.picks[0] % len(files)]
        note(f"program: {step.what} {file}")
        if step.what == "FILE REMOVED":
            file.unlink()
        else:
            shutil.copy(file, file.with_name(f"{uuid.uuid4().hex}-{file.name}"))

    # --- reads and refreshes ---------------------------------------------------------------------------

    def use(self, step: Step) -> None:
        """Reads or refreshes a view, which first refreshes the views below it; checks the tasks of all of them."""
        chain = self.views[: 1 + step.target % len(self.views)]
        target = chain[-1]
        now = self.gateways.now(self.setting)
        named = self._named(target, now, step.picks[0]) if step.what == "PARTITIONS" else None
        if step.what == "PARTITIONS" and named is None:
            return
        expected: list[tuple[Model, Chosen, set[str]]] = []
        for view in chain:
            chosen = view.stale(now)
            if view is target and step.what == "COMPLETE":
                chosen = ALL_PARTITIONS
            elif view is target and named is not None and view.seen.whole == now.whole:
                chosen = Chosen(frozenset({named.key}))
            expected.append((view, chosen, {view.label(view.key(values)) for values in now.partitions}))
            if chosen:
                view.wrote(chosen, now)
            now = view.as_state()
        if step.what == "READ":
            self._read(target)
        else:
            label = f" ({named.label})" if named is not None else ""
            self.gateways.run(f"REFRESH MATERIALIZED VIEW {target.name} {step.what}{label}")
        now = self.gateways.now(self.setting)
        for view, chosen, followed in expected:
            self._check(view, chosen, followed, view.stale(now))
            now = view.as_state()

    def _named(self, view: Model, now: State, pick: int) -> Named | None:
        """Returns a partition that REFRESH may name: one of the view or, for the first view, of its base table."""
        keys = {view.key_of(value) for value in self.gateways.shown(view.name, self.setting.column)}
        if view is self.views[0]:
            keys |= {view.key(values) for values in now.partitions}
        there = sorted(keys, key=repr)
        if not there:
            return None
        key = there[pick % len(there)]
        return Named(key, view.label(key))

    def _read(self, view: Model) -> None:
        query = self.setting.query
        if view is not self.views[0]:
            query = ABOVE.format(p=self.setting.column, below=f"({query}) below")
        note(f"read {view.name}")
        found = sorted(rows(self.gateways.through, f"SELECT * FROM {view.name}"), key=repr)
        assert found == sorted(rows(self.gateways.direct, query), key=repr), view.name

    def _check(self, view: Model, chosen: Chosen, followed: set[str], stale: Chosen) -> None:
        """Checks that exactly the `chosen` partitions were written, and exactly the `stale` ones are not in sync.

        `followed`: the labels of the followed table's partitions."""
        tasks = self.gateways.tasks(view.name, view.task)
        view.task = max((task.number for task in tasks), default=view.task)
        assert {task.status for task in tasks} <= {"SUCCESS"}
        labels = {view.label(key) for key in chosen.keys}
        done = [task for task in tasks if task.mode != "NOT_REFRESH"]
        assert [task.mode for task in done] == ["PARTIAL" if labels else "COMPLETE"] * bool(chosen), view
        for task in done:
            self._check_named(view, chosen, followed, task.partitions or [])
        before, after = view.versions, self.gateways.versions(view.name)
        newest = max(before.values(), default=0)
        for name, (version, synced) in after.items():
            written = (name in labels) != chosen.all_but
            assert version > newest if written else version == before.get(name), (name, version, before, chosen)
            late = (name in {view.label(key) for key in stale.keys}) != stale.all_but
            assert synced is not late, (name, stale)
        view.versions = {**before, **{name: version for name, (version, _) in after.items()}}
        view.shown = set(after)

    def _check_named(self, view: Model, chosen: Chosen, followed: set[str], named: list[str]) -> None:
        """Checks that the task names the `chosen` partitions."""
        labels = {view.label(key) for key in chosen.keys}
        assert len(set(named)) == len(named)
        if not chosen.all_but:
            assert set(named) == labels
        elif not labels and (self.setting.together is None or not followed):
            assert named == [view.name]
        else:
            there = view.shown | {view.label(key) for key in chosen.touched} if labels else followed
            also = followed | view.shown if self.setting.together else set()
            assert there - labels <= set(named) <= (there | also) - labels, (view, chosen)


@dataclass(frozen=True)
class Named:
    """A partition of a view and its name in Doris."""

    key: Key
    label: str


@pytest.fixture
def gateways(engine: Engine, database: Database, start_gateway: Callable[..., Gateway]) -> Iterator[GatewaysInTurn]:
    with unclosed(engine, database.name) as direct:
        running = GatewaysInTurn(engine, direct, database, start_gateway)
        yield running
        running.close()


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(setting=scenes(), steps=sequences)
def test_reads_equal_their_query_and_refresh_only_changed_partitions(
    gateways: GatewaysInTurn, setting: Setting, steps: list[Step]
) -> None:
    scenario = Scenario(gateways, setting)
    try:
        scenario.begin()
        for step in [*steps, Step("READ", target=len(scenario.queries) - 1)]:
            scenario.step(step)
    finally:
        scenario.end()


@pytest.mark.thorough
def test_a_refresh_of_partitions_that_was_killed_is_repeated(
    database: Database, direct: Any, start_gateway: Callable[..., Gateway]
) -> None:
    """No rows of the incomplete refresh are shown, the next refresh completes it, and its rows are dropped."""
    # The function takes quadratic time: seconds for ten thousand characters. (A view with a user-defined function
    # cannot follow partitions.)
    query = "SELECT p, a, levenshtein(repeat('x', a), repeat('y', a)) AS distance FROM t"
    read = "SELECT p, a FROM m ORDER BY p, a"
    old, new = [("a", 1), ("b", 1), ("c", 1)], [("b", 2), ("c", SLOW)]
    gateway = start_gateway(**{"versions.retention": 0})
    with unclosed(gateway, database.name) as cursor, ThreadPoolExecutor(1) as pool:
        for statement in (
            "CREATE TABLE t (a INT, p STRING) USING parquet PARTITIONED BY (p)",
            "INSERT INTO t VALUES (1, 'a'), (1, 'b'), (1, 'c')",
            f"CREATE MATERIALIZED VIEW m PARTITION BY (p) PROPERTIES ('refresh_partition_num' = '1') AS {query}",
            f"INSERT INTO t VALUES (2, 'b'), ({SLOW}, 'c')",
        ):
            rows(cursor, statement)
        (storage,) = (
            row[1]
            for row in rows(direct, f"SHOW TABLES IN {gateway.storage} LIKE '{database.name}__m__*'")
            if not row[1].endswith("__definition")
        )

        def stored() -> set[tuple[str, str]]:
            """Returns the version and key of each partition in the storage."""
            names = (row[0] for row in rows(direct, f"SHOW PARTITIONS {gateway.storage}.{storage}"))
            pairs = ([text.partition("=")[2] for text in name.split("/")] for name in names)
            return {(version, key) for version, key in pairs}

        reading = pool.submit(rows, cursor, read)
        wait_until(lambda: len(stored()) == 4, what="the first part of the refresh")
        gateway.kill()
        assert reading.exception(30) is not None
    assert {key for version, key in stored() if version != "1"} == {"b"}
    assert rows(direct, read.replace("FROM m", f"FROM {database.name}.m")) == old
    again = start_gateway(**{"versions.retention": 0})
    with unclosed(again, database.name) as cursor:
        assert [row[2] for row in rows(cursor, "SHOW MATERIALIZED VIEWS LIKE 'm'")] == ["STALE"]
        assert rows(cursor, read) == sorted(old + new)
        tasks = rows(
            cursor,
            'SELECT RefreshMode, NeedRefreshPartitions FROM tasks("type"="mv") WHERE MvName = \'m\' '
            f"AND MvDatabaseName = '{database.name}' ORDER BY CAST(TaskId AS BIGINT) DESC LIMIT 1",
        )
        assert [(mode, json.loads(partitions)) for mode, partitions in tasks] == [("PARTIAL", ["p_b", "p_c"])]
        shown = {(str(row[2]), row[1].removeprefix("p_")) for row in rows(cursor, "SHOW PARTITIONS m")}
        assert {key: version == "1" for version, key in shown} == {"a": True, "b": False, "c": False}
        wait_until(lambda: stored() == shown, what="all other partitions of the storage to be dropped")
        rows(cursor, "INSERT INTO t VALUES (5, 'a')")
        assert rows(cursor, read) == sorted([*old, *new, ("a", 5)])
        rows(cursor, "DROP MATERIALIZED VIEW m")
