"""Traces the columns of tables, joins and set operations to partition columns. Parses no text.

Tests: `test_following`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sql.names import TableName


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


@dataclass(frozen=True, slots=True)
class Column:
    """An output column, or a column of a FROM clause."""

    name: str | None
    """None if Spark generates it."""
    value: Value
    qualifiers: frozenset[tuple[str, ...]] = frozenset()

    @property
    def folded(self) -> str | None:
        return None if self.name is None else self.name.lower()

    def lost(self, reason: str) -> Column:
        return self if isinstance(self.value, Lost) else replace(self, value=Lost(reason))


@dataclass(frozen=True, slots=True)
class Relation:
    """The columns of a query or table, and the tables read for them."""

    columns: tuple[Column, ...]
    reads: Counter[TableName]
    """How often each table is read, with views expanded."""
    complete: bool = True
    """False if more columns may follow."""
    problem: str = ""
    """The reason why columns are unknown, if there is a specific one."""

    def lost(self, reason: str) -> Relation:
        return replace(self, columns=tuple(column.lost(reason) for column in self.columns))

    def renamed(self, names: Sequence[str]) -> Relation:
        """The relation with these column names; unchanged if `names` is empty."""
        if not names:
            return self
        known = self.columns if len(self.columns) == len(names) or not self.complete else ()
        values = [column.value for column in known[: len(names)]]
        values += [Lost(UNCERTAIN)] * (len(names) - len(values))
        return Relation(tuple(map(Column, names, values)), self.reads)


UNCERTAIN = "it is not certain which column it is"
UNKNOWN_COLUMNS = Relation((), Counter(), complete=False)


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns of a FROM clause, in which names are resolved."""

    columns: tuple[Column, ...] = ()
    hidden: tuple[Column, ...] = ()
    """Columns that USING and NATURAL joins hide: only qualified names find them."""
    relations: tuple[tuple[frozenset[tuple[str, ...]], bool], ...] = ()
    """The qualifiers of each relation, and whether all its columns are known."""
    reads: Counter[TableName] = field(default_factory=Counter)

    @classmethod
    def of(cls, relation: Relation, qualifiers: Iterable[tuple[str, ...]]) -> Scope:
        names = frozenset(tuple(part.lower() for part in parts) for parts in qualifiers)
        columns = tuple(replace(column, qualifiers=names) for column in relation.columns)
        return cls(columns, (), ((names, relation.complete),), relation.reads)

    def lost(self, reason: str) -> Scope:
        columns, hidden = (tuple(column.lost(reason) for column in each) for each in (self.columns, self.hidden))
        return replace(self, columns=columns, hidden=hidden)

    def uncertain(self, reason: str) -> Scope:
        return replace(self.lost(reason), relations=(*self.relations, (frozenset(), False)))

    def with_reads(self, reads: Counter[TableName]) -> Scope:
        return replace(self, reads=self.reads + reads)

    def beside(self, other: Scope) -> Scope:
        return Scope(
            self.columns + other.columns,
            self.hidden + other.hidden,
            self.relations + other.relations,
            self.reads + other.reads,
        )

    @property
    def complete(self) -> bool:
        return all(complete for _, complete in self.relations)

    def named(self, name: str) -> list[Column]:
        return [column for column in self.columns if column.folded == name.lower()]

    def resolve(self, parts: Sequence[str]) -> Value:
        """The column that a name means. Fields of structs are not resolved."""
        *qualifier, name = (part.lower() for part in parts)
        if not qualifier:
            found, complete = self.named(name), self.complete
        else:
            offered = [*self.columns, *self.hidden]
            found = [column for column in offered if column.folded == name and tuple(qualifier) in column.qualifiers]
            complete = all(complete for names, complete in self.relations if tuple(qualifier) in names)
        if len(found) == 1 and complete:
            return found[0].value
        return Lost(f"it is not certain which column {'.'.join(parts)} is")

    def star(self, qualifier: Sequence[str]) -> list[Column] | None:
        """The columns of `*` or `t.*`; None if they are not certain."""
        if not qualifier:
            return list(self.columns) if self.complete else None
        folded = tuple(part.lower() for part in qualifier)
        matching = [complete for names, complete in self.relations if folded in names]
        if matching != [True] or self.hidden:
            return None
        return [column for column in self.columns if folded in column.qualifiers]


# --- joins and set operations ------------------------------------------------------------------------


NULLABLE = "it comes from the side of an outer join that may be NULL"
JOINS = frozenset({"", "INNER", "CROSS", "SEMI", "LEFT SEMI", "ANTI", "LEFT ANTI"}) | {
    f"{side}{outer}" for side in ("LEFT", "RIGHT", "FULL") for outer in ("", " OUTER")
}
"""The words that may precede JOIN, except NATURAL."""


def joined(left: Scope, right: Scope, label: str, *, natural: bool = False, using: Sequence[str] = ()) -> Scope:
    """The scope of a join; `label` is one of JOINS."""
    if label.startswith(("RIGHT", "FULL")):
        left = left.lost(NULLABLE)
    if label in ("LEFT", "LEFT OUTER", "FULL", "FULL OUTER"):
        right = right.lost(NULLABLE)
    if natural or using:
        names = _common(left, right) if natural else using
        both = None if names is None else _by_names(left, right, names, label)
        return both or left.beside(right).uncertain("it is not certain which columns a join by column names has")
    return left.with_reads(right.reads) if label.endswith(("SEMI", "ANTI")) else left.beside(right)


def _common(left: Scope, right: Scope) -> list[str] | None:
    """The columns of a NATURAL join; None if they are not certain. Spark compares these names case-sensitively."""
    sides = [[column.name for column in scope.columns] for scope in (left, right)]
    names = [name for side in sides for name in side if name is not None]
    if len(names) < len(sides[0]) + len(sides[1]) or len(set(names)) != len({name.lower() for name in names}):
        return None
    return [name for name in sides[0] if name in sides[1] and name is not None]


def _by_names(left: Scope, right: Scope, names: Sequence[str], label: str) -> Scope | None:
    """The scope of a join by column names; None if it is not certain. The join columns come first and only once: those
    of the right side in a right join, otherwise those of the left side."""
    keys = [(left.named(name), right.named(name)) for name in names]
    if not (left.complete and right.complete) or any(len(mine) != 1 or len(other) != 1 for mine, other in keys):
        return None
    mine, others = [pair[0][0] for pair in keys], [pair[1][0] for pair in keys]
    rests = [
        [column for column in scope.columns if not any(column is key for key in used)]
        for scope, used in ((left, mine), (right, others))
    ]
    if label.endswith(("SEMI", "ANTI")):
        return replace(left, columns=(*mine, *rests[0])).with_reads(right.reads)
    shown, hidden = (others, mine) if label.startswith("RIGHT") else (mine, others)
    both = left.beside(right)
    return replace(both, columns=(*shown, *rests[0], *rests[1]), hidden=(*both.hidden, *hidden))


def value_at(relation: Relation, place: int) -> Value:
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


def kept(found: Relation, keys: Sequence[Value], reason: str) -> Relation:
    """The relation in which only those columns keep their origin that one of the keys determines."""
    columns = tuple(
        column if any(isinstance(key, Origin) and key.determines(column.value) for key in keys) else column.lost(reason)
        for column in found.columns
    )
    return replace(found, columns=columns)
