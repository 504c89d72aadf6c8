"""Traces the columns of tables, joins and set operations to partition columns. Parses no text.

Tests: `test_following`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sql.names import TableName
from sql.query import resolution
from sql.query.resolution import HALF_JOINS, NULL_SIDES, Column, Named


@dataclass(frozen=True, slots=True)
class Lost:
    """A column without a known origin, and the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Origin:
    """A column derived from a partition column by `calls`, innermost first: DATE or a unit of date_trunc."""

    table: TableName
    column: str
    unit: str | None
    calls: tuple[str, ...] = ()
    scans: int = 1
    """How many mentions of the table it was traced to; only set operations have several."""
    mixed: object = None
    """Identifies this column if a set operation adds rows of other relations, which also affect the column's type. In
    those rows, another column with the same origin may have another value."""

    def determines(self, other: Value) -> bool:
        """Whether equal values of this column imply equal values of `other`, a column of the same relation."""
        return (
            isinstance(other, Origin)
            and (self.table, self.column) == (other.table, other.column)
            and self.calls == other.calls[: len(self.calls)]
            and self.mixed is other.mixed
        )

    def is_like(self, other: Origin) -> bool:
        return (self.table, self.column, self.calls) == (other.table, other.column, other.calls)


Value = Origin | Lost


Traced: TypeAlias = Column[Value]
"""An output column, or a column of a FROM clause."""


def without_origin(column: Traced, reason: str) -> Traced:
    return column if isinstance(column.value, Lost) else replace(column, value=Lost(reason))


@dataclass(frozen=True, slots=True)
class TracedRelation:
    """The columns of a query or table, and the tables read for them."""

    columns: tuple[Traced, ...]
    reads: Counter[TableName]
    """How often each table is read, with views expanded."""
    complete: bool = True
    """False if more columns may follow."""
    problem: str = ""
    """The reason why columns are unknown, if there is a specific one."""

    def lost(self, reason: str) -> TracedRelation:
        return replace(self, columns=tuple(without_origin(column, reason) for column in self.columns))

    def renamed(self, names: Sequence[str]) -> TracedRelation:
        """The relation with these column names; unchanged if `names` is empty."""
        if not names:
            return self
        known = self.columns if len(self.columns) == len(names) or not self.complete else ()
        values = [column.value for column in known[: len(names)]]
        values += [Lost(UNCERTAIN)] * (len(names) - len(values))
        return TracedRelation(tuple(map(Column, names, values)), self.reads)


UNCERTAIN = "it is not certain which column it is"
UNKNOWN_COLUMNS = TracedRelation((), Counter(), complete=False)


@dataclass(frozen=True, slots=True)
class TracedScope(resolution.Scope[Value]):
    """The columns of a FROM clause, and the tables read for them."""

    reads: Counter[TableName] = field(default_factory=Counter)

    @classmethod
    def of_relation(cls, relation: TracedRelation, qualifiers: Iterable[tuple[str, ...]]) -> TracedScope:
        named = resolution.relation(relation.columns, qualifiers, complete=relation.complete)
        return cls.of(named).with_reads(relation.reads)

    def lost(self, reason: str) -> TracedScope:
        return self.mapped(lambda column: without_origin(column, reason))

    def uncertain(self, reason: str) -> TracedScope:
        lost = self.lost(reason)
        return replace(lost, relations=(*lost.relations, Named(complete=False)))

    def with_reads(self, reads: Counter[TableName]) -> TracedScope:
        return replace(self, reads=self.reads + reads)

    def joined_with(self, other: TracedScope) -> TracedScope:
        return self.beside(other).with_reads(other.reads)

    def origin(self, parts: Sequence[str]) -> Value:
        """The column that a name means. Fields of structs are not resolved."""
        values, complete = self.found(parts)
        if len(values) == 1 and complete:
            return values[0]
        return Lost(f"it is not certain which column {'.'.join(parts)} is")


# --- joins and set operations ------------------------------------------------------------------------


NULLABLE = "it comes from the side of an outer join that may be NULL"


def joined(
    left: TracedScope, right: TracedScope, label: str, *, natural: bool = False, using: Sequence[str] = ()
) -> TracedScope:
    """The scope of a join; `label` is one of NULL_SIDES."""
    null_left, null_right = NULL_SIDES[label]
    left, right = left.lost(NULLABLE) if null_left else left, right.lost(NULLABLE) if null_right else right
    if natural or using:
        names = left.common(right) if natural else using
        pairs = None if names is None else left.keys(right, names)
        if pairs is None:
            return left.joined_with(right).uncertain("it is not certain which columns a join by column names has")
        return left.joined_by(right, pairs, label).with_reads(right.reads)
    return left.with_reads(right.reads) if label.endswith(HALF_JOINS) else left.joined_with(right)


def value_at(relation: TracedRelation, place: int) -> Value:
    return relation.columns[place].value if 0 <= place < len(relation.columns) else Lost(UNCERTAIN)


def merged(left: Value, right: Value, left_reads: Counter[TableName], right_reads: Counter[TableName]) -> Value:
    """A column of a set operation. A side that does not read the other side's table may have any value in it."""
    if isinstance(left, Origin) and isinstance(right, Origin) and left.is_like(right):
        mixed = None if left.mixed is None and right.mixed is None else object()
        return replace(left, scans=left.scans + right.scans, mixed=mixed)
    for value, other, other_reads in ((left, right, right_reads), (right, left, left_reads)):
        if isinstance(value, Origin):
            if not other_reads[value.table]:
                return replace(value, mixed=object())
            why = other.reason if isinstance(other, Lost) else "the column is derived from it in another way there"
            problem = Lost(f"not all parts of a set operation that read {value.table} follow it: {why}")
    return problem if isinstance(left, Origin) or isinstance(right, Origin) else left


def kept(found: TracedRelation, keys: Sequence[Value], reason: str) -> TracedRelation:
    """The relation in which only those columns keep their origin that one of the keys determines."""
    columns = tuple(
        column
        if any(isinstance(key, Origin) and key.determines(column.value) for key in keys)
        else without_origin(column, reason)
        for column in found.columns
    )
    return replace(found, columns=columns)
