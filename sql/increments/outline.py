"""Which definitions can be refreshed by rows, and what is stored for it.

Tests: `test_increment_definitions`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sql.increments.scopes import Place
from sql.increments.states import AggregateState
from sql.increments.templates import Aggregate, Template, is_key
from sql.increments.written import Edit, spliced
from sql.names import TableName

GROUPING = "freshgate_g"
"""The hidden column that tells the totals of ROLLUP from the groups of a NULL key."""
SHOWN = "freshgate_shown"
"""The hidden column that says whether a group fulfils HAVING."""


class Kind(StrEnum):
    ROWS = "ROWS"
    """Each row follows from one row of each table."""
    GROUPS = "GROUPS"
    """Rows are groups, which are merged."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One SELECT of the definition; offsets into its text."""

    start: int
    end: int
    casts: tuple[str, ...] = ()
    """The types of the definition's columns, if this branch has others."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key of the groups and the column that stores it."""

    text: str
    column: str
    hidden: bool
    origin: tuple[int, str] | None = None
    """If it is a column of a table, the offset of the table's mention, and the column's name there."""

    def name(self, number: int) -> str:
        """Its column while states are merged."""
        return f"freshgate_k{number}"


@dataclass(frozen=True, slots=True)
class Groups:
    """How the rows are grouped, and what is kept of each group."""

    body: tuple[int, int]
    """The offsets of FROM and WHERE."""
    keys: tuple[StoredKey, ...]
    grouping: str
    """What follows GROUP BY; empty: one group of all rows."""
    sets: bool
    """Whether there are several grouping sets."""
    items: tuple[Template, ...]
    having: Template | None
    states: tuple[AggregateState, ...]
    """Empty if an aggregate does not follow from states: touched groups are always computed from all their rows."""
    visible: Mapping[str, int]
    """The columns of the view that are themselves states, with the number of the state."""
    finals: Mapping[Aggregate, str]
    distinct: tuple[int, int] | None = None
    """The offsets of the word DISTINCT: the keys are the view's columns."""
    condition: int | None = None
    """The offset of what follows WHERE, if the body has one."""
    layers: tuple[Edit, ...] | None = None
    """If all rows with a key's values, not one, are computed together, as by a window: what adds the hidden keys to the
    definition. There are no items then."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A definition that can be refreshed by rows."""

    kind: Kind
    places: tuple[Place, ...]
    text: str
    """The definition, without hints."""
    columns: tuple[str, ...]
    """Those of the view."""
    branches: tuple[Branch, ...]
    groups: Groups | None = None
    subtracts: bool = False
    """Whether removed rows can be subtracted from groups."""
    origins: tuple[tuple[int, str] | None, ...] = ()
    """ROWS: of each of the view's columns, as `StoredKey.origin`; empty if none is known."""

    @property
    def tables(self) -> frozenset[TableName]:
        return frozenset(place.table for place in self.places)

    def joined(self, table: TableName) -> tuple[str, ...]:
        """The columns of the table that the definition compares with columns of other relations."""
        return tuple(dict.fromkeys(name for place in self.places if place.table == table for name in place.joined))

    @property
    def hidden(self) -> tuple[str, ...]:
        """The storage's columns behind the view's own, in order."""
        groups = self.groups
        if groups is None:
            return ()
        return (
            *((GROUPING,) if groups.sets else ()),
            *(key.column for key in groups.keys if key.hidden),
            *(state.column for state in groups.states if state.column not in groups.visible),
            *((SHOWN,) if groups.having is not None else ()),
        )

    @property
    def regroups(self) -> bool:
        """Whether some of its groups can be computed alone, by their keys."""
        return self.groups is not None and bool(self.groups.keys) and not self.groups.sets

    @property
    def adds_floats(self) -> bool:
        """Whether a merge adds values of FLOAT or DOUBLE, whose sum depends on the order."""
        return self.groups is not None and any(state.adds_floats for state in self.groups.states)

    @property
    def filtered(self) -> bool:
        return self.groups is not None and self.groups.having is not None

    def tells(self, column: str) -> bool:
        """Whether the stored rows have this column of the view even where HAVING excludes them."""
        if self.groups is None or self.groups.having is None:
            return True
        place = [name.lower() for name in self.columns].index(column.lower())
        return is_key(self.groups.items[place])

    @property
    def signature(self) -> str:
        """It differs where the hidden columns mean anything else."""
        groups = self.groups
        told: object = self.kind.value
        if groups is not None:
            states = [(state.column, state.text, state.kind) for state in groups.states]
            keys = [(key.column, key.text) for key in groups.keys]
            told = (self.kind.value, self.hidden, states, keys, groups.grouping, groups.having, self.subtracts)
        return hashlib.sha256(repr(told).encode()).hexdigest()[:16]

    def spliced(self, start: int, end: int, edits: Sequence[Edit]) -> str:
        return spliced(self.text, start, end, edits)
