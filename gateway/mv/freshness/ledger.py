"""Noted writes: forwarded statements that may have changed what a materialized view reads.

Each view has a ledger of numbered events. A write makes two: one before it is forwarded, and one when it has ended; it
may commit at any time in between. A refresh that begins when the last event is n contains all writes that had ended by
then. Its version is stale if a write ended later.

The ledgers are not stored. After a start, views are checked again before they count as fresh: an observation of the
base tables shows writes that passed through a killed gateway as well as those that bypassed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from sql.names import TableName
from sql.words import Words

REMOVING = frozenset(
    {"overwrite", "delete", "merge", "truncate", "drop", "replace", "update", "alter", "call", "execute"}
)
"""Words of statements that may remove rows, even together with INSERT."""
MISSED_MAX = 100
"""How many writes are remembered with time and tables. The first ones are kept: they tell since when a version is
stale."""

WORKED_OUT_MAX = 20
"""Of how many open writes the tables are worked out at once, which takes a millisecond each. The others count by their
words."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A write that has ended: the event and the time (milliseconds since the epoch) of its end, and its tables."""

    event: int
    at: int
    tables: frozenset[TableName]


@dataclass(slots=True)
class Ledger:
    """The noted writes of one view."""

    events: int = 0
    """The number of the last event."""
    ended: int = 0
    """The number of the last event that ended a write."""
    contains: int = 0
    """The last event before the refresh of the current version began."""
    open: dict[int, int] = field(default_factory=dict)
    """Writes that have not ended: their ids, and the events of their beginning."""
    removing: set[int] = field(default_factory=set)
    """Those of the open writes that may remove rows."""
    removed: int = 0
    """The event when the last such write ended."""
    missed: list[Missed] = field(default_factory=list)
    """The first writes that the current version may miss, oldest first."""

    @property
    def stale(self) -> bool:
        return self.ended > self.contains

    def begin(self, write: int, *, removes: bool = False) -> None:
        """`removes`: the write may remove rows, after which a table can look again as it did before."""
        self.events += 1
        self.open[write] = self.events
        if removes:
            self.removing.add(write)

    def removed_since(self, event: int) -> bool:
        """Whether a write that removes rows was open after an event: a refresh that began then may have read rows that
        no observation has shown."""
        return bool(self.removing) or self.removed > event

    def written_since(self, event: int) -> bool:
        """Whether any write was open after an event."""
        return bool(self.open) or self.events > event

    def end(self, write: int, at: int = 0, tables: frozenset[TableName] = frozenset()) -> bool:
        """Records that a write has ended and may have changed `tables`. Returns whether it was noted here."""
        noted = self.open.pop(write, None) is not None
        if noted:
            self.touch(at, tables)
        if write in self.removing:
            self.removing.discard(write)
            self.removed = self.events
        return noted

    def forget(self, write: int) -> None:
        """Removes a write that was refused before it did anything."""
        self.open.pop(write, None)
        self.removing.discard(write)

    def touch(self, at: int, tables: frozenset[TableName]) -> None:
        """Records a change of something that the view reads."""
        self.events += 1
        self.ended = self.events
        if len(self.missed) < MISSED_MAX:
            self.missed.append(Missed(self.events, at, tables))

    def publish(self, contains: int) -> None:
        """Records that the current version contains everything up to the event `contains`."""
        self.contains = contains
        self.missed = [missed for missed in self.missed if missed.event > contains]


Targets = Callable[[], frozenset[TableName] | None]


def unknown_targets() -> None:
    """Nothing is known of the tables of a write but their words."""


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A forwarded statement that may write.

    `tables` are the tables it may change. They are None, and not worked out, if no view's base table occurred in the
    statement. A view that is created meanwhile is checked against its identifiers, `words`: most statements that
    mention a base table then only read it, so that `targets` works out the tables.
    """

    number: int
    words: Words
    tables: frozenset[TableName] | None
    anything: bool = False
    """It may change any table, even one that no view reads yet."""
    targets: Targets = unknown_targets
    """The tables; None if they cannot be worked out."""
    noted: set[str] = field(default_factory=set)
    """The ids of the views that have noted it, because there may be thousands of others."""

    @property
    def removes(self) -> bool:
        """Whether it may remove rows. INSERT INTO only adds files with new names."""
        return "insert" not in self.words or not self.words.isdisjoint(REMOVING)


class Ending(Protocol):
    """Finds out whether a statement has ended: clients need not ask."""

    @property
    def known(self) -> bool:
        """Whether it is known that it has ended, or that it runs."""
        ...

    async def look(self) -> bool:
        """Finds it out; False if Spark does not answer."""
        ...


class OpenWrites:
    """Every forwarded statement that may write and has not ended, whether or not it concerns base tables.

    A view that is created while such a statement runs must know about it: the statement may commit after the view's
    first refresh has read.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._open: dict[int, Write] = {}
        self._endings: dict[int, Ending] = {}

    def begin(
        self,
        words: Words,
        tables: Iterable[TableName] | None,
        *,
        anything: bool = False,
        targets: Targets = unknown_targets,
    ) -> Write:
        """The parameters are the fields of `Write`."""
        known = None if tables is None else frozenset(tables)
        write = Write(next(self._numbers), words, known, anything, targets)
        self._open[write.number] = write
        return write

    def watch(self, write: Write, ending: Ending) -> None:
        """`ending` finds out whether the write has ended."""
        self._endings[write.number] = ending

    def ending(self, number: int) -> Ending | None:
        """None: it cannot be found out, because Spark was told to cancel the write."""
        return self._endings.get(number)

    def end(self, write: Write) -> None:
        self._open.pop(write.number, None)
        self._endings.pop(write.number, None)

    def find(self, number: int) -> Write | None:
        return self._open.get(number)

    def touching(self, tables: frozenset[TableName]) -> list[Write]:
        """The open writes that may change one of `tables`."""
        stems = frozenset(stem for table in tables for stem in table.stems)
        words = frozenset(name.lower() for _, name in stems)
        found, worked_out = list[Write](), 0
        for write in self._open.values():
            known = write.tables
            if known is None and not write.anything:
                if write.words.isdisjoint(words):
                    continue
                if worked_out < WORKED_OUT_MAX:
                    worked_out += 1
                    known = write.targets()
            if write.anything or known is None or any(not stems.isdisjoint(table.stems) for table in known):
                found.append(write)
        return found
