"""Noted writes: which statements that passed through the gateway may have changed what a materialized view reads.

Each view has a ledger of numbered events. A write makes two: one before it is forwarded, one when it has ended; it may
have committed at any moment between. A refresh that begins when the last event is n contains everything of the writes
that had ended by then; its version is stale when a write ended later.

Nothing of this is stored. After a start no view counts as fresh before its base tables were looked at: that shows what
came through a gateway that was killed as well as what came past it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from sql.names import TableName
from sql.words import Words

REMOVING = frozenset(
    {"overwrite", "delete", "merge", "truncate", "drop", "replace", "update", "alter", "call", "execute"}
)
"""Words of statements that may take rows away, beside an INSERT."""
MISSED_MAX = 100
"""Writes remembered with time and table; of more than these the first ones tell since when a version is stale."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A write that has ended: the event of its end, when that was (milliseconds since the epoch), what it changed."""

    event: int
    at: int
    tables: frozenset[TableName]


@dataclass(slots=True)
class Ledger:
    """The noted writes of one view."""

    events: int = 0
    """Number of the last event."""
    ended: int = 0
    """Number of the last event that was the end of a write."""
    contains: int = 0
    """The last event before the refresh of the current version began."""
    open: dict[int, int] = field(default_factory=dict)
    """Writes that have not ended: their id, and the event of their beginning."""
    removing: set[int] = field(default_factory=set)
    """Those of the open writes that may take rows away."""
    removed: int = 0
    """The event of the last such write's end."""
    missed: list[Missed] = field(default_factory=list)
    """The first writes that the current version may miss, oldest first."""

    @property
    def stale(self) -> bool:
        return self.ended > self.contains

    def begin(self, write: int, *, removes: bool = False) -> None:
        """`removes`: it may take rows away, so that a table may look again as it did before."""
        self.events += 1
        self.open[write] = self.events
        if removes:
            self.removing.add(write)

    def removed_since(self, event: int) -> bool:
        """Whether a write that takes rows away was open after an event: a refresh that began then may have read what no
        look has shown."""
        return bool(self.removing) or self.removed > event

    def end(self, write: int, at: int = 0, tables: frozenset[TableName] = frozenset()) -> bool:
        """A write has ended at a time; it may have changed `tables`. Whether it was noted here."""
        noted = self.open.pop(write, None) is not None
        if noted:
            self.touch(at, tables)
        if write in self.removing:
            self.removing.discard(write)
            self.removed = self.events
        return noted

    def forget(self, write: int) -> None:
        """A write was refused before it did anything."""
        self.open.pop(write, None)
        self.removing.discard(write)

    def touch(self, at: int, tables: frozenset[TableName]) -> None:
        """Something that the view reads has changed."""
        self.events += 1
        self.ended = self.events
        if len(self.missed) < MISSED_MAX:
            self.missed.append(Missed(self.events, at, tables))

    def publish(self, contains: int) -> None:
        """A version that contains everything up to the event `contains` is current now."""
        self.contains = contains
        self.missed = [missed for missed in self.missed if missed.event > contains]


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A forwarded statement that may write.

    `tables` are what it may change; None while nobody needed to know, because no view's base table stood in it: then
    `words` are its identifiers, and a view that is created while it runs judges by them.
    """

    number: int
    words: Words
    tables: frozenset[TableName] | None
    anything: bool = False
    """It may change any table, also one that is no view's yet."""
    noted: set[str] = field(default_factory=set)
    """The ids of the views with which it was noted: there may be thousands of others."""

    @property
    def removes(self) -> bool:
        """Whether it may take rows away. INSERT INTO only adds files of new names."""
        return "insert" not in self.words or not self.words.isdisjoint(REMOVING)


class OpenWrites:
    """Every forwarded statement that may write and has not ended, base tables or not.

    A view that is created while such a statement runs must know of it: it may commit after the view's first refresh
    has read.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._open: dict[int, Write] = {}

    def begin(self, words: Words, tables: Iterable[TableName] | None, *, anything: bool = False) -> Write:
        write = Write(next(self._numbers), words, None if tables is None else frozenset(tables), anything)
        self._open[write.number] = write
        return write

    def end(self, write: Write) -> None:
        self._open.pop(write.number, None)

    def find(self, number: int) -> Write | None:
        return self._open.get(number)

    def touching(self, tables: frozenset[TableName]) -> list[Write]:
        """The open writes that may change one of `tables`."""
        stems = frozenset(stem for table in tables for stem in table.stems)
        words = frozenset(name.lower() for _, name in stems)
        return [write for write in self._open.values() if _touches(write, stems, words)]


def _touches(write: Write, stems: frozenset[tuple[str, str]], words: frozenset[str]) -> bool:
    if write.anything:
        return True
    if write.tables is not None:
        return any(not stems.isdisjoint(table.stems) for table in write.tables)
    return not write.words.isdisjoint(words)
