"""Reads plans from the text of EXPLAIN EXTENDED, where no process can write them exactly: docs/internals/proof.md.

The text shows neither types nor modes nor where a string ends. Types are inferred from the columns of the tables. The
rest is made certain by what is refused: texts with such strings, and all functions whose text has two meanings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sql.proof.expression_text import PADS, READ_CALLS, STATIC_CALL, Reading, SessionFacts, items
from sql.proof.literal_text import Loose
from sql.proof.plan import Node, Output, Plan, Scalar, Value
from sql.proof.sources import Literals, casts_of_literals, literals_of
from sql.proof.understood_classes import LISTINGS, PADDED, words
from sql.query.explanations import Line, nodes, sections, tree

_COLUMN = re.compile(r"([A-Za-z_]\w*)#(\d+)(L?)", re.ASCII)
_RELATION = re.compile(r"([\w.]+)\[([^\[\] ]*)\] (\w+)", re.ASCII)
_HIVE = re.compile(
    r"\[((?:`\w+`\.){2}`\w+`), ([\w.]+), Data Cols: \[([^\[\]]*)\], Partition Cols: \[([^\[\]]*)\]\]", re.ASCII
)
_CALL = re.compile(r"(?<![\w$.])([^\W\d][\w$.]*+)\(")
_SIMPLE = words("""
    min max sum count avg bit_and bit_or bit_xor bool_and bool_or every some any count_if cast coalesce isnull
    isnotnull year quarter month day dayofmonth dayofweek weekday dayofyear weekofyear extract date_part hour
    minute second trunc date_trunc to_date last_day outer between Some decimal
    """) | {STATIC_CALL, PADDED}
"""Functions in an analyzed plan whose value of numbers never prints like a number of another type."""
_KEPT = words("""
    try_sum try_avg stddev stddev_samp stddev_pop variance var_samp var_pop corr percentile
    approx_count_distinct collect_list collect_set first last
    """)
"""Aggregates that the optimized plan has under the same name, if they are used, and which are not read there."""
_REPLACED = words("""
    nvl ifnull nullif char_length character_length to_timestamp left right rpad
    """)
"""Functions that the optimized plan shows as others that are read."""
_UNDERSTOOD = _SIMPLE | _KEPT | _REPLACED | READ_CALLS
_ANALYZED = words("""
    Project Filter Aggregate Join SubqueryAlias Relation HiveTableRelation View Sort GlobalLimit LocalLimit Offset
    Union Expand Distinct WithCTE CTERelationDef CTERelationRef
    PermanentViewMarker
    """)
"""Plan nodes of a statement before optimization. Others may have come from texts that are not known, as the bodies of
SQL functions do. Kyuubi's AuthZ puts a PermanentViewMarker around each view, and others around filters and masks."""
_PADDED_TO = re.compile(rf"{re.escape(PADDED)}\([^()]*, (\d+)\)", re.ASCII)
_TEXTUAL = words("concat substring trim left right upper lower")
"""Functions that make texts of texts."""
_TIME_FORMAT = "yyyy-MM-dd HH:mm:ss"
"""Spark adds it where a format is left out."""
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_JOINS = ("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti")


@dataclass(frozen=True, slots=True)
class PlanTable:
    """A table of the catalog, as DESCRIBE shows it."""

    columns: tuple[tuple[str, str], ...]
    """Names and types; a type that is not understood is empty."""
    identity: tuple[str, ...]
    """Its name, when it was created, and where it is."""
    format: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Those of the session and of all views that the statement reads, which are equal."""

    ansi: bool
    loses_precision: bool
    zone: str


def tables_in(explained: str) -> frozenset[str]:
    """The tables that the optimized plan reads: `catalog.database.table`. Raises ValueError."""
    lines = nodes(_plan(explained, "Optimized"))
    return frozenset(name for line in lines if (name := _table_name(line.text)) is not None)


def views_in(explained: str) -> frozenset[str]:
    """The views that the statement reads, as quoted names. Raises ValueError."""
    lines = [each.text for each in nodes(_plan(explained, "Analyzed"))]
    names = [line.removeprefix("View (").split(", [")[0] for line in lines if line.startswith("View (")]
    if any(re.fullmatch(r"(`\w+`\.){2}`\w+`", name, re.ASCII) is None for name in names):
        raise ValueError("it reads a view whose name the plan's text does not show")
    return frozenset(names)


def read(
    explained: str,
    output: tuple[tuple[str, str], ...],
    tables: Mapping[str, PlanTable],
    sources: tuple[str, ...],
    settings: PlanSettings,
) -> Plan:
    """The plan that EXPLAIN EXTENDED shows of a statement.

    `output`: the names and types of the statement's columns. `sources`: the statement, and the definitions of the views
    that it reads. Raises ValueError with a reason for users.
    """
    literals, optimized = literals_of(sources), _plan(explained, "Optimized")
    before = [each.text for each in nodes(_plan(explained, "Analyzed"))]
    integers = _integers(before, _called(before, literals), literals)
    odd = sorted((name for name, _ in output if _PLAIN_NAME.fullmatch(name) is None), key=len, reverse=True)
    if any("#" in name or "\n" in name for name in odd):
        raise ValueError("the plan's text does not show where the name of a column ends")
    strings = literals.strings | _padded(literals.strings, optimized) | {_TIME_FORMAT}
    session = SessionFacts(
        settings.ansi,
        settings.loses_precision,
        settings.zone,
        strings,
        integers,
        literals.integers,
        tuple(dict.fromkeys(odd)),
    )
    root, columns = _Tree(optimized, session, tables).node()
    if [type_text for _, type_text in columns] != [type_text for _, type_text in output]:
        raise ValueError("the plan's text does not show the types of all columns")
    outputs = tuple(Output(identifier, *described) for (identifier, _), described in zip(columns, output, strict=True))
    return Plan(outputs, frozenset(), root)


# --- the whole text ------------------------------------------------------------------------------------


def _plan(explained: str, name: str) -> Line:
    """A plan without values of several lines, and without subqueries if it is optimized. Raises ValueError."""
    found = tree(sections(explained)[name])
    refuses_queries = name == "Optimized"
    if any((refuses_queries and each.queries) or "\n" in each.text for each in nodes(found)):
        raise ValueError("Spark's plan is not laid out as a tree")
    return found


def _padded(strings: frozenset[str], optimized: Line) -> frozenset[str]:
    """The strings of a statement as Spark pads them for comparisons with the columns of CHAR in the plan."""
    lengths = {int(found[1]) for line in nodes(optimized) for found in _PADDED_TO.finditer(line.text)}
    return frozenset(each.ljust(length) for each in strings for length in lengths)


def _called(analyzed: Sequence[str], literals: Literals) -> frozenset[str]:
    """The functions of the statement before optimization, of which constants are replaced by their values. `analyzed`:
    the plan's lines, in any order."""
    called = frozenset(found[1] for line in analyzed for found in _CALL.finditer(line))
    for kind in sorted({line.partition(" ")[0] for line in analyzed} - _ANALYZED):
        raise ValueError(f"it contains the plan node {kind}")
    for name in sorted(called - _UNDERSTOOD):
        raise ValueError(f"the plan's text does not show enough of the function {name}")
    if (literals.has_spaces or PADS in called) and not called.isdisjoint(_TEXTUAL):
        raise ValueError("it makes texts of others, with spaces, so the plan's text does not show where they end")
    return called


def _integers(analyzed: Sequence[str], called: frozenset[str], literals: Literals) -> frozenset[str]:
    """The digits of which the plan's text shows that they are an INT."""
    text = "\n".join(analyzed)
    casts = {value: type_text for value, type_text in casts_of_literals(text) if type_text not in {"int", "double"}}
    computed = any(f" {operator} " in text for operator in ("+", "-", "*", "%", "/"))
    if called - _SIMPLE - _KEPT or " div " in text or (casts and computed):
        return frozenset()
    return literals.integers - casts.keys()


def _table_name(line: str) -> str | None:
    if line.startswith("Relation ") and (found := _RELATION.fullmatch(line.removeprefix("Relation "))) is not None:
        return found[1]
    if line.startswith("HiveTableRelation ") and (found := _HIVE.fullmatch(line.partition(" ")[2])) is not None:
        return found[1].replace("`", "")
    return None


# --- plan nodes ----------------------------------------------------------------------------------------

_Columns: TypeAlias = list[tuple[str, str]]
"""The ids and types of a node's columns, in their order."""


class _Tree:
    """A node with all below it."""

    def __init__(self, line: Line, session: SessionFacts, tables: Mapping[str, PlanTable]) -> None:
        kind, _, rest = line.text.partition(" ")
        self._kind = kind
        self._below = [_Tree(each, session, tables).node() for each in line.children]
        self._tables = tables
        self._line = line.text
        types = {identifier: type_text for _, columns in self._below for identifier, type_text in columns}
        self._reading = Reading(rest, session, types)

    def node(self) -> tuple[Node, _Columns]:
        children, read = _NODES.get(self._kind, (0, None))
        if read is None:
            raise ValueError(f"it contains the plan node {self._kind}")
        if children not in (len(self._below), -1):
            raise ValueError(f"the plan node {self._kind} has an unknown part")
        fields, columns = read(self)
        self._reading.end()
        if len({identifier for identifier, _ in columns}) < len(columns) and self._kind in {"Join", "Expand"}:
            raise ValueError("the plan's text does not show which of two columns is meant")
        kind = "LogicalRelation" if self._kind == "Relation" else self._kind
        return Node(kind, fields), columns

    @property
    def _child(self) -> Node:
        return self._below[0][0]

    @property
    def _columns(self) -> _Columns:
        return self._below[0][1]

    def project(self) -> tuple[Mapping[str, Value], _Columns]:
        # Nothing follows if no column is used.
        listed = self._reading.listed(self._reading.named) if self._reading.text else ()
        return {"projectList": listed, "child": self._child}, list(items(listed).items())

    def filter(self) -> tuple[Mapping[str, Value], _Columns]:
        return {"condition": self._reading.condition(), "child": self._child}, self._columns

    def aggregate(self) -> tuple[Mapping[str, Value], _Columns]:
        keys: tuple[Node, ...] = ()
        first = self._reading.text.count("], [") and not self._reading.text.startswith("[[")
        if first:
            keys = self._reading.listed(self._reading.expression)
            self._reading.expect(", ")
        listed = self._reading.listed(self._reading.named)
        fields: dict[str, Value] = {
            "groupingExpressions": keys,
            "aggregateExpressions": listed,
            "child": self._child,
            "hint": None,
        }
        return fields, [(each.id, each.type) for each in listed]

    def sort(self) -> tuple[Mapping[str, Value], _Columns]:
        order = self._reading.listed(self._reading.order)
        self._reading.expect(", true")
        fields: dict[str, Value] = {
            "order": order,
            "global": Scalar("Boolean", "true"),
            "child": self._child,
            "hint": None,
        }
        return fields, self._columns

    def join(self) -> tuple[Mapping[str, Value], _Columns]:
        kind = next((each for each in _JOINS if self._reading.takes(each)), "")
        if not kind:
            raise ValueError("it contains a join of another type")
        condition = self._reading.condition() if self._reading.takes(", ") else None
        (left, left_columns), (right, right_columns) = self._below
        no_hint = Node("JoinHint", {"leftHint": None, "rightHint": None})
        fields: dict[str, Value] = {
            "left": left,
            "right": right,
            "joinType": Scalar("object", f"{kind}$"),
            "condition": condition,
            "hint": no_hint,
        }
        if {each for each, _ in left_columns} & {each for each, _ in right_columns}:
            raise ValueError("the plan's text does not show which of two columns is meant")
        return fields, left_columns + (right_columns if kind not in {"LeftSemi", "LeftAnti"} else [])

    def union(self) -> tuple[Mapping[str, Value], _Columns]:
        self._reading.expect("false, false")
        no = Scalar("Boolean", "false")
        children = tuple(child for child, _ in self._below)
        if len({tuple(type_text for _, type_text in columns) for _, columns in self._below}) != 1:
            raise ValueError("it contains a union of different types")
        return {"children": children, "byName": no, "allowMissingCol": no}, self._columns

    def limit(self) -> tuple[Mapping[str, Value], _Columns]:
        name = "offsetExpr" if self._kind == "Offset" else "limitExpr"
        return {name: self._reading.fixed(self._reading.loose(), "int"), "child": self._child}, self._columns

    def expand(self) -> tuple[Mapping[str, Value], _Columns]:
        reading = self._reading
        start = reading.place
        reading.place = reading.text.rindex("], [") + 3
        names = reading.listed(lambda: _defined(reading.new_attribute()))
        end, reading.place = reading.place, start
        reading.expect("[")
        rows: list[list[Node | Loose]] = []
        while not rows or reading.takes(", "):
            reading.expect("[")
            row = [reading.loose()]
            while reading.takes(", "):
                row.append(reading.loose())
            reading.expect("]")
            rows.append(row)
        reading.expect("], ")
        reading.place = end
        columns = []
        for place, name in enumerate(names):
            known = {value.type for row in rows if isinstance(value := row[place], Node)}
            columns.append((name.id, known.pop() if known else "bigint" if name.type else "int"))
        projections = tuple(
            tuple(reading.fixed(value, type_text) for value, (_, type_text) in zip(row, columns, strict=True))
            for row in rows
        )
        output = tuple(replace(name, type=type_text) for name, (_, type_text) in zip(names, columns, strict=True))
        return {"projections": projections, "output": output, "child": self._child}, columns

    def relation(self) -> tuple[Mapping[str, Value], _Columns]:
        table, output = self._table()
        files = (Scalar("String", min(LISTINGS)), *(Scalar("String", each) for each in table.format))
        identity = tuple(Scalar("String", each) for each in table.identity)
        no = Scalar("Boolean", "false")
        fields: dict[str, Value] = {"output": output, "streaming": no, "table": identity, "relation": files}
        return fields, list(items(output).items())

    def hive_relation(self) -> tuple[Mapping[str, Value], _Columns]:
        table, output = self._table()
        identity = tuple(Scalar("String", each) for each in (*table.identity, *table.format))
        return {"output": output, "table": identity}, list(items(output).items())

    def _table(self) -> tuple[PlanTable, tuple[Node, ...]]:
        name, rest = _table_name(self._line), self._reading.text
        table = self._tables.get(name or "")
        if name is None or table is None or name.count(".") != 2:
            raise ValueError("it reads rows that are not a table of the catalog")
        found = _HIVE.fullmatch(rest) if self._kind == "HiveTableRelation" else _RELATION.fullmatch(rest)
        assert found is not None
        texts = [found[3], found[4]] if self._kind == "HiveTableRelation" else [found[2]]
        written = [each.strip() for text in texts if text for each in text.split(",")]
        columns = [_COLUMN.fullmatch(each) for each in written]
        if [each and each[1] for each in columns] != [column for column, _ in table.columns]:
            raise ValueError(f"the plan's text does not show the columns of {name}")
        self._reading.place = len(rest)
        output = []
        for each, (column, type_text) in zip(columns, table.columns, strict=True):
            assert each is not None
            if bool(each[3]) != (type_text == "bigint"):
                raise ValueError(f"the table {name} has changed meanwhile")
            output.append(Node("AttributeReference", {"name": Scalar("String", column)}, type_text, each[2]))
        return table, tuple(output)


def _defined(name: tuple[str, str, bool]) -> Node:
    """A column that is defined here; its type is only a mark until it is known."""
    return Node("AttributeReference", {"name": Scalar("String", name[0])}, "bigint" if name[2] else "", name[1])


_NODES: Mapping[str, tuple[int, Callable[[_Tree], tuple[Mapping[str, Value], _Columns]] | None]] = {
    "Relation": (0, _Tree.relation),
    "HiveTableRelation": (0, _Tree.hive_relation),
    "Project": (1, _Tree.project),
    "Filter": (1, _Tree.filter),
    "Sort": (1, _Tree.sort),
    "Join": (2, _Tree.join),
    "Aggregate": (1, _Tree.aggregate),
    "Union": (-1, _Tree.union),
    "Expand": (1, _Tree.expand),
    "GlobalLimit": (1, _Tree.limit),
    "LocalLimit": (1, _Tree.limit),
    "Offset": (1, _Tree.limit),
}
"""The number of a node's children, -1: any, and how it is read."""
