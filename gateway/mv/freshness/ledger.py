"""Noted writes: forwarded statements that may have changed what a materialized view reads.

Each view has a ledger of numbered events. A write makes two: one before it is forwarded, and one when it has ended; it
may commit at any time in between. A refresh that begins when the last event is n contains all writes that had ended by
then. Its version is stale if a write ended later.

The ledgers are not stored. After a start, views are checked again before they count as fresh: an observation of the
base tables shows writes that passed through a killed gateway as well as those that bypassed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.mv.model.view import WrittenBy
from sql.names import TableName
from sql.words import Words

MISSED_MAX = 100
"""How many writes are remembered with time and tables. The first ones are kept: they tell since when a version is
stale."""

REMOVING = frozenset(
    {"overwrite", "delete", "merge", "truncate", "drop", "replace", "update", "alter", "call", "execute"}
)
"""Words of statements that may remove rows, even together with INSERT."""

Targets = Callable[[], frozenset[TableName] | None]


def unknown_targets() -> None:
    """Nothing is known of the tables of a write but their words."""


@dataclass(frozen=True, slots=True, eq=False)
class TablesWritten:
    """A statement may write to tables: the views that depend on them become stale when it has ended.

    `tables` are None, and not worked out, if no view's base table occurred in the statement. A view that is created
    meanwhile is checked against its identifiers, `words`: most statements that mention a base table then only read it,
    so that `targets` works out the tables.
    """

    words: Words
    tables: frozenset[TableName] | None
    anything: bool = False
    """It may change any table, even one that no view reads yet."""
    targets: Targets = unknown_targets
    """The tables; None if they cannot be worked out."""
    writer: WrittenBy | None = None

    @property
    def removes(self) -> bool:
        """Whether it may remove rows. INSERT INTO only adds files with new names."""
        return "insert" not in self.words or not self.words.isdisjoint(REMOVING)


@dataclass(frozen=True, slots=True)
class Missed:
    """A write that has ended: the event and the time (milliseconds since the epoch) of its end, its tables, and who
    wrote, if known."""

    event: int
    at: int
    tables: frozenset[TableName]
    writer: WrittenBy | None = None


@dataclass(slots=True)
class Ledger:
    """The noted writes of one view."""

    events: int = 0
    """The number of the last event."""
    ended: int = 0
    """The number of the last event that ended a write."""
    contains: int = 0
    """The last event before the refresh of the current version began."""
    open: dict[TablesWritten, int] = field(default_factory=dict)
    """Writes that have not ended, and the events of their beginning."""
    removing: set[TablesWritten] = field(default_factory=set)
    """Those of the open writes that may remove rows."""
    removed: int = 0
    """The event when the last such write ended."""
    missed: list[Missed] = field(default_factory=list)
    """The first writes that the current version may miss, oldest first."""

    @property
    def stale(self) -> bool:
        return self.ended > self.contains

    def begin(self, write: TablesWritten) -> None:
        """Records a write that is about to be sent. After one that removes rows, a table can look again as before."""
        self.events += 1
        self.open[write] = self.events
        if write.removes:
            self.removing.add(write)

    def removed_since(self, event: int) -> bool:
        """Whether a write that removes rows was open after an event: a refresh that began then may have read rows that
        no observation has shown."""
        return bool(self.removing) or self.removed > event

    def written_since(self, event: int) -> bool:
        """Whether any write was open after an event."""
        return bool(self.open) or self.events > event

    def end(self, write: TablesWritten, at: int = 0, tables: frozenset[TableName] = frozenset()) -> bool:
        """Records that a write has ended and may have changed `tables`. Returns whether it was noted here."""
        noted = self.open.pop(write, None) is not None
        if noted:
            self.touch(at, tables, write.writer)
        if write in self.removing:
            self.removing.discard(write)
            self.removed = self.events
        return noted

    def forget(self, write: TablesWritten) -> None:
        """Removes a write that was refused before it did anything."""
        self.open.pop(write, None)
        self.removing.discard(write)

    def touch(self, at: int, tables: frozenset[TableName], writer: WrittenBy | None = None) -> None:
        """Records a change of something that the view reads."""
        self.events += 1
        self.ended = self.events
        if len(self.missed) < MISSED_MAX:
            self.missed.append(Missed(self.events, at, tables, writer))

    def publish(self, contains: int) -> None:
        """Records that the current version contains everything up to the event `contains`."""
        self.contains = contains
        self.missed = [missed for missed in self.missed if missed.event > contains]
