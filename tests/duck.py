"""Runs the texts of refreshes by rows in DuckDB, whose SQL is near enough to Spark's, and compares the view with its
definition."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import Any

import duckdb
from exact_floats import ExactFloat

from sql.increments import changed_rows, texts
from sql.increments.analysis import analyse
from sql.increments.expansion import SparkView
from sql.increments.named_keys import NamedKeys, named_keys
from sql.increments.outline import Kind, Outline
from sql.increments.reasons import NotIncremental
from sql.increments.terms import ChangeTerm, terms
from sql.names import Namespace, TableName

TABLES = {"t": ("a", "b", "v", "w", "f"), "u": ("a", "c", "v")}
_SQL_TYPES = {"a": "INTEGER", "b": "VARCHAR", "c": "VARCHAR", "v": "INTEGER", "w": "DECIMAL(8,2)", "f": "DOUBLE"}
_TYPES = {"a": "int", "b": "string", "c": "string", "v": "int", "w": "decimal(8,2)", "f": "double"}
FEW = 2
"""How many keys are named by constants."""
_KINDS = {"INTEGER": "int", "VARCHAR": "string", "BIGINT": "bigint"}
"""Types of DuckDB by Spark's names."""
_SUMS = {"int": "bigint", "double": "double", "decimal(8,2)": "decimal(18,2)"}
_AVERAGES = {"int": "double", "double": "double", "decimal(8,2)": "decimal(12,6)"}
VIEWS = {
    TableName("other", view): SparkView(text, Namespace(), tuple("abvwf"), tuple(outputs))
    for view, text, outputs in (
        ("some", "SELECT v AS z, b AS y, a AS x, f, w FROM t WHERE a > 0 ORDER BY a", "zyxwf"),
        (
            "both",
            "SELECT * FROM t UNION ALL SELECT u.a, c, u.v, w, f FROM u JOIN t ON u.a = t.v",
            "abvwf",
        ),
        (
            "above",
            "WITH s AS (SELECT * FROM other.some) SELECT x.*, y.f AS g FROM s AS x, s AS y WHERE x.a = y.v",
            "abvwg",
        ),
    )
}
Row = tuple[Any, ...]


def name(table: str) -> TableName:
    return TableName("default", table)


@dataclass(frozen=True)
class Definition:
    text: str
    columns: tuple[str, ...]
    keys: str = ""
    """The keys of grouping sets, for which DuckDB's grouping_id has arguments."""
    checked: str = ""
    """What is compared, if it is not the text: DuckDB has a total of no rows."""


@dataclass(frozen=True)
class Step:
    """The rows that are added and removed; a removed row is a number, modulo how many there are."""

    added: dict[str, list[Row]]
    removed: dict[str, list[int]] = field(default_factory=dict)


def _type(text: str) -> str:
    """Spark's type of an expression of the typing query."""
    found = re.fullmatch(r"(\w+)\((.*?)\)(?: FILTER \(.*\))?", text)
    assert found is not None, text
    function, argument = found[1], found[2].partition(",")[0] if found[1] in ("max_by", "min_by") else found[2]
    kind = "boolean" if ">" in argument else _TYPES[re.findall(r"\b([abcvwf])\b", argument)[-1]]
    if function in ("sum", "avg"):
        return (_SUMS if function == "sum" else _AVERAGES)[kind]
    return kind


def types(query: str | None) -> dict[str, str]:
    """What Spark would tell of the typing query."""
    if query is None:
        return {}
    if query.startswith("SELECT * FROM"):
        return {f"t{number}": "int" for number in range(40)}
    return {label: _type(text) for text, label in re.findall(r"(?:SELECT |, )((?:\w+\().*?) AS `(t\d+)`", query)}


def outline_of(definition: Definition) -> Outline:
    columns = {name(table): columns for table, columns in TABLES.items()}
    draft = analyse(definition.text, Namespace(), columns, definition.columns, named=False, views=VIEWS)
    return draft.typed(types(draft.typing()), ansi=True)


def translated(text: str, keys: str) -> str:
    text = text.replace("`", '"').replace("grouping_id()", f"grouping({keys})").replace("LEFT SEMI", "SEMI")
    text = text.replace(" <=> ", " IS NOT DISTINCT FROM ")
    text = re.sub(r"count_if\(([^()]*)\)", r"count(CASE WHEN \1 THEN 1 END)", text)  # of no rows it is NULL in DuckDB
    return re.sub(r"any_value\((.*?), true\)", r"any_value(\1)", text.replace("LEFT ANTI", "ANTI"))


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """The only database of this process: making one takes longer than a refresh. With one thread, as a query of a few
    rows waits longer for others than it runs."""
    made = duckdb.connect(config={"threads": 1})
    made.execute("ATTACH ':memory:' AS spark_catalog; CREATE SCHEMA spark_catalog.\"default\"")
    made.execute('USE spark_catalog."default"')
    for table, columns in TABLES.items():
        made.execute(f"CREATE TABLE {table} ({', '.join(f'{each} {_SQL_TYPES[each]}' for each in columns)})")
    # It takes longer than running a query over a few rows.
    made.execute("PRAGMA disable_optimizer")
    made.execute("CREATE SCHEMA other")
    for view, about in VIEWS.items():
        items = ", ".join(f"{output} AS {name}" for output, name in zip(about.outputs, about.columns, strict=True))
        made.execute(f"CREATE VIEW other.{view.table} AS SELECT {items} FROM ({about.text})")
    return made


class Duck:
    """The database with the base tables, filled anew."""

    def __init__(self, rows: dict[str, list[Row]]) -> None:
        self._db = _database()
        self._rows = {table: list(rows[table]) for table in TABLES}
        for table in TABLES:
            self._fill(table, table, self._rows[table])

    def query(self, text: str, keys: str = "") -> list[Row]:
        return self._db.execute(translated(text, keys)).fetchall()

    def store(self, text: str, keys: str) -> None:
        self._db.execute(f"CREATE OR REPLACE TABLE stored AS {translated(text, keys)}")

    def _fill(self, table: str, like: str, rows: Sequence[Row]) -> None:
        columns = ", ".join(f"{column} {_SQL_TYPES[column]}" for column in TABLES[like])
        self._db.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
        if listed := [f"({', '.join('?' * len(row))})" for row in rows]:
            self._db.execute(f"INSERT INTO {table} VALUES {', '.join(listed)}", [*chain(*rows)])

    def change(self, step: Step, *, removes: bool) -> tuple[dict[TableName, str], ...]:
        """Changes the base tables; the queries of the added rows, the old rows and the removed rows."""
        added, before, removed = {}, {}, {}
        for table in TABLES:
            new, gone = step.added.get(table, []), step.removed.get(table, []) if removes else []
            old = self._rows[table]
            gone = sorted({number % len(old) for number in gone}) if old else []
            if not new and not gone:
                continue
            for prefix, rows in (("added", new), ("before", old), ("removed", [old[number] for number in gone])):
                self._fill(f"{prefix}_{table}", table, rows)
            self._rows[table] = [row for number, row in enumerate(old) if number not in gone] + new
            self._fill(table, table, self._rows[table])
            if new:
                added[name(table)] = f"SELECT * FROM added_{table}"
            if gone:
                removed[name(table)] = f"SELECT * FROM removed_{table}"
            before[name(table)] = f"SELECT * FROM before_{table}"
        return added, before, removed


def counted(rows: Iterable[Row], *, exact: bool = False) -> Counter[Row]:
    """`exact`: 0.0 is not -0.0. Which of them a group has is open in the engine."""
    kind = ExactFloat if exact else float

    def plain(value: Any) -> Any:
        return kind(round(float(value), 3)) if isinstance(value, float | Decimal) else value

    return Counter(tuple(map(plain, row)) for row in rows)


Stored = Callable[[Outline], str]


def _all_stored(_: Outline) -> str:
    return "SELECT * FROM stored"


def play(
    definition: Definition,
    rows: dict[str, list[Row]],
    steps: Sequence[Step],
    *,
    outline: Outline | None = None,
    stored: Stored = _all_stored,
) -> None:
    """Fails if a view that is refreshed by rows has other rows than its definition."""
    outline = outline or outline_of(definition)
    duck = Duck(rows)
    view = _Rows(duck, definition, outline) if outline.kind is Kind.ROWS else _Groups(duck, definition, outline, stored)
    for step in steps:
        removes = outline.subtracts or outline.kind is Kind.ROWS or outline.regroups
        added, before, removed = duck.change(step, removes=removes)
        fed = added.keys() & removed.keys() if len(step.added.get("t", ())) % 2 else set()
        signed = {table: _signed(table) for table in fed}
        for table in (added.keys() | removed.keys()) - signed.keys():
            _narrow(duck, outline, table, added, removed)
        try:
            now = {name(table): f"SELECT * FROM {table}" for table in TABLES}
            change = terms(outline, added, before, removed, now, signed)
        except NotIncremental:
            fixed = {place.table for place in outline.places if not place.grows}
            assert fixed & (added.keys() | removed.keys())
            view.complete()
            continue
        groups = outline.kind is Kind.GROUPS
        if groups and any(term.removes for term in change) and not outline.subtracts and not outline.regroups:
            view.complete()
            continue
        view.merge(change)
        exact, expected = outline.kind is Kind.ROWS, duck.query(definition.checked or definition.text)
        assert counted(view.shown(), exact=exact) == counted(expected, exact=exact), definition.text


def _signed(table: TableName) -> str:
    """The added and the removed rows of a table in one query, as a feed of changes has them."""
    parts = (f"SELECT *, {told} AS freshgate_removed FROM {rows}_{table.table}" for told, rows in _FEED)
    return " UNION ALL ".join(parts)


_FEED = (("true", "removed"), ("false", "added"))


def _narrow(duck: Duck, outline: Outline, table: TableName, *changed: dict[TableName, str]) -> None:
    """Narrows the queries of the added and the removed rows of a table, as refreshes do with small ones."""
    added, removed = changed
    if table in added and table in removed:
        added[table], removed[table] = changed_rows.net(added[table], removed[table])
    if not (columns := outline.joined(table)):
        return
    listed = [queries[table] for queries in changed if table in queries]
    rows = duck.query(changed_rows.few_values(listed, columns, FEW))
    values = _named(rows, len(columns)) if len(rows) <= FEW else None
    for queries in changed:
        if table in queries and not rows:
            del queries[table]
        elif table in queries and values is not None:
            queries[table] = changed_rows.restricted(queries[table], columns, values)


def _named(rows: Sequence[Row], width: int) -> NamedKeys | None:
    """The values in rows of strings and types."""
    kinds = [tuple(_KINDS.get(each, each) for each in row[width:]) for row in rows]
    return named_keys([(*row[:width], *kind) for row, kind in zip(rows, kinds, strict=True)], width)


class _Rows:
    """A view whose rows are stored in a table."""

    def __init__(self, duck: Duck, definition: Definition, outline: Outline) -> None:
        self._duck, self._definition, self._outline = duck, definition, outline
        self._columns = ", ".join(f'"{column}"' for column in definition.columns)
        self.complete()

    def complete(self) -> None:
        self._duck.store(f"SELECT * FROM ({self._definition.text}) AS d({self._columns})", "")

    def merge(self, change: Sequence[ChangeTerm]) -> None:
        stored = "SELECT * FROM stored"
        if any(term.removes for term in change):
            kinds = self._duck.query(f"SELECT column_name, column_type FROM (DESCRIBE {stored})")
            floats = {str(name): str(kind) for name, kind in kinds if kind in {"FLOAT", "DOUBLE"}}
            self._duck.store(texts.subtracted(self._outline, stored, change, floats), "")
        elif change:
            self._duck.store(f"({stored}) UNION ALL ({texts.appended(self._outline, change)})", "")

    def shown(self) -> Iterable[Row]:
        return self._duck.query("SELECT * FROM stored")


class _Groups:
    """A view whose groups are stored in a table."""

    def __init__(self, duck: Duck, definition: Definition, outline: Outline, stored: Stored) -> None:
        self._duck, self._definition, self._outline, self._stored = duck, definition, outline, stored
        self.complete()

    def complete(self) -> None:
        self._removed = False
        self._duck.store(texts.complete(self._outline), self._definition.keys)

    def merge(self, change: Sequence[ChangeTerm]) -> None:
        removes = any(term.removes for term in change)
        groups = self._outline.groups
        assert groups is not None
        if not change:
            return
        if not groups.states or (removes and not self._outline.subtracts):
            stored, keys = self._stored(self._outline), self._definition.keys
            few = self._duck.query(texts.few_touched(self._outline, change, FEW))
            named = _named(few, len(groups.keys)) if len(few) <= FEW else None
            self._duck.store(texts.regrouped(self._outline, stored, change, {}, named), keys)
            return
        self._removed |= removes
        self._duck.store(texts.merged(self._outline, self._stored(self._outline), change), self._definition.keys)
        if not self._removed:
            fresh = self._duck.query(texts.complete(self._outline), self._definition.keys)
            assert counted(self._duck.query("SELECT * FROM stored")) == counted(fresh), self._definition.text

    def shown(self) -> Iterable[Row]:
        columns = ", ".join(f'"{column}"' for column in self._definition.columns)
        conditions = ["freshgate_shown"] if self._outline.filtered else []
        conditions += ["freshgate_n > 0"] if self._definition.checked else []
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._duck.query(f"SELECT {columns} FROM stored{where}")
