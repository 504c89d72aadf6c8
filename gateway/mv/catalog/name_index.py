"""The views by name, in order, and the words that their names consist of."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from gateway.mv.catalog.dependencies import CountedWords
from gateway.mv.freshness.entry import Entry
from sql.names import TableName


class NameIndex:
    """Each change costs no more however many views there are."""

    def __init__(self, storage_database: str) -> None:
        self._entries: dict[TableName, Entry] = {}
        self._ordered: list[TableName] = []
        self._coming: dict[TableName, Entry] = {}
        """Names that a view may have already, by an ALTER whose end is not known."""
        self.words = CountedWords([storage_database])
        """The table parts of the names, also of damaged views, and the name of the storage database."""

    def __len__(self) -> int:
        return len(self._ordered)

    def __contains__(self, name: TableName) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Entry]:
        """Iterates in the order of the names."""
        return map(self._entries.__getitem__, self._ordered)

    def owner(self, name: TableName) -> Entry | None:
        """The view that certainly has this name."""
        return self._entries.get(name)

    def get(self, name: TableName) -> Entry | None:
        """The view with this name, or that may have it already."""
        return self._entries.get(name) or self._coming.get(name)

    def expect(self, name: TableName, entry: Entry) -> None:
        """From now on, a view may have this name instead of its own."""
        if name not in self._coming:
            self.words.add(name.table)
        self._coming[name] = entry

    def settle(self, entry: Entry) -> None:
        """The view has only its own name."""
        for name in [name for name, coming in self._coming.items() if coming is entry]:
            del self._coming[name]
            self.words.remove(name.table)

    def give(self, name: TableName, entry: Entry) -> None:
        """Gives a name to a view. The view that has it now loses it."""
        if name not in self._entries:
            insort(self._ordered, name)
            self.words.add(name.table)
        self._entries[name] = entry

    def take(self, name: TableName, entry: Entry) -> None:
        """Takes a name from a view, unless another view has it."""
        if self._entries.get(name) is entry:
            del self._entries[name]
            del self._ordered[bisect_left(self._ordered, name)]
            self.words.remove(name.table)
