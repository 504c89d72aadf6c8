"""Base tables: the files, or commits, that each has, and every state in which it ever was.

A row is a token of its own, so that what a query shows tells which writes it has seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Row = tuple[str, str | None, int]
"""Of which table, in which of its partitions (None: it has none), and the token that no other row has."""
Rows = frozenset[Row]
NOTHING: Rows = frozenset()


@dataclass(frozen=True, slots=True)
class File:
    """A data file; `written` is its time of change in milliseconds."""

    name: int
    written: int
    row: Row


@dataclass(frozen=True, slots=True)
class State:
    """What a table held from a moment on."""

    at: float
    rows: Rows
    by: str
    """Who has made it: `outside`, or the gateway through which it came."""


@dataclass(slots=True)
class Table:
    """`partitioned` by a column d of texts."""

    name: str
    provider: str
    partitioned: bool
    files: dict[str | None, dict[int, File]] = field(default_factory=dict)
    """By partition."""
    states: list[State] = field(default_factory=list)
    """Oldest first; the last is that of today."""
    version: int = 0
    """Of a table of Delta's: the number of its last commit."""

    @property
    def rows(self) -> Rows:
        return self.states[-1].rows if self.states else NOTHING

    def copy(self) -> Table:
        files = {partition: dict(found) for partition, found in self.files.items()}
        return Table(self.name, self.provider, self.partitioned, files, list(self.states), self.version)

    def insert(self, partition: str | None, token: int, now: float, by: str) -> int:
        """Adds a row in a file of its own; returns the number of the state."""
        self.files.setdefault(partition, {})[token] = File(token, int(now * 1000), (self.name, partition, token))
        return self._changed(now, by)

    def replace(self, partition: str | None, token: int, now: float, by: str) -> int:
        """INSERT OVERWRITE of one partition, or of all of a table without any."""
        self.files[partition] = {token: File(token, int(now * 1000), (self.name, partition, token))}
        return self._changed(now, by)

    def rewrite(self, partition: str | None, token: int, now: float, by: str) -> int:
        """Another program writes the oldest file of a partition anew, under its name and as long as before."""
        files = self.files.get(partition)
        if not files:
            return self.insert(partition, token, now, by)
        name = next(iter(files))
        files[name] = File(name, int(now * 1000), (self.name, partition, token))
        return self._changed(now, by)

    def truncate(self, now: float, by: str) -> int:
        """Takes all rows away; partitions stay, without files."""
        for files in self.files.values():
            files.clear()
        return self._changed(now, by)

    def drop_partition(self, partition: str | None, now: float, by: str) -> int:
        self.files.pop(partition, None)
        return self._changed(now, by)

    def commit(self, version: int) -> tuple[Rows, Rows]:
        """The rows that a commit added, and those that it removed."""
        after = self.states[version - 1].rows
        before = self.states[version - 2].rows if version > 1 else NOTHING
        return after - before, before - after

    def rows_of_commits(self, tokens: Iterable[int]) -> Rows:
        """The rows with these tokens: files of Delta's stay where they are."""
        wanted = frozenset(tokens)
        return frozenset(row for state in self.states for row in state.rows if row[2] in wanted)

    def _changed(self, now: float, by: str) -> int:
        self.version += 1
        rows = frozenset(file.row for files in self.files.values() for file in files.values())
        self.states.append(State(now, rows, by))
        return len(self.states) - 1


def rows_of(files: Iterable[File]) -> Rows:
    return frozenset(file.row for file in files)
