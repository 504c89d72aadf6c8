"""Which tables and materialized views each view reads, in both directions.

Thousands of views may exist, and each CREATE, DROP and ALTER changes one of them. So each change costs what that view
reads, however many others there are.

Tests: `test_index`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.mv.model.view import MaterializedView
from sql.names import TableName

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class ManyToMany(Generic[K, V]):
    """A set of values for each key. Keys without values are forgotten."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[K, set[V]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def of(self, key: K) -> Iterable[V]:
        return self._values.get(key, ())

    def keys(self) -> Iterable[K]:
        return self._values.keys()

    def add(self, key: K, value: V) -> bool:
        """Adds a value that the key does not have. Returns whether it is the only one."""
        values = self._values.setdefault(key, set())
        values.add(value)
        return len(values) == 1

    def remove(self, key: K, value: V) -> bool:
        """Returns whether the key has no value any longer."""
        values = self._values[key]
        values.remove(value)
        if not values:
            del self._values[key]
        return not values


class CountedWords:
    """Words that are counted, and the set of those that are there. The set is built when it is first asked for after a
    change: that takes microseconds for thousands of words."""

    __slots__ = ("_counts", "_set")

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._counts = Counter(words)
        self._set: frozenset[str] | None = None

    @property
    def all(self) -> frozenset[str]:
        if self._set is None:
            self._set = frozenset(self._counts)
        return self._set

    def add(self, word: str) -> None:
        self._counts[word] += 1
        if self._counts[word] == 1:
            self._set = None

    def remove(self, word: str) -> None:
        self._counts[word] -= 1
        if not self._counts[word]:
            del self._counts[word]
            self._set = None


@dataclass(frozen=True, slots=True)
class _Reads:
    """What the relations hold of one view."""

    tables: frozenset[TableName]
    triggers: frozenset[TableName]
    views: frozenset[str]


NOTHING = _Reads(frozenset(), frozenset(), frozenset())


class Dependencies:
    """What all views read."""

    def __init__(self) -> None:
        self._reads: dict[str, _Reads] = {}
        self._readers: ManyToMany[TableName, str] = ManyToMany()
        self._dependents: ManyToMany[TableName, str] = ManyToMany()
        self._above: ManyToMany[str, str] = ManyToMany()
        self._by_stem: ManyToMany[tuple[str, str], TableName] = ManyToMany()
        self._words = CountedWords()
        self._watched: set[TableName] = set()

    def watch(self, table: TableName) -> None:
        """Changes of this table count, whether or not a view reads it."""
        if table not in self._dependents and table not in self._watched:
            self._begin(table)
        self._watched.add(table)

    def unwatch(self, table: TableName) -> None:
        if table in self._watched and table not in self._dependents:
            self._end(table)
        self._watched.discard(table)

    def put(self, view: MaterializedView) -> frozenset[TableName]:
        """Adds a view, or what it reads now. Returns the tables that no view reads any longer."""
        triggers = view.triggers
        # Mostly equal: one set for both.
        reads = _Reads(view.tables, view.tables if triggers == view.tables else triggers, view.views)
        before = self._reads.get(view.id, NOTHING)
        self._reads[view.id] = reads
        return self._replace(view.id, before, reads)

    def remove(self, view_id: str) -> frozenset[TableName]:
        """Removes a view. Returns the tables that no view reads any longer."""
        return self._replace(view_id, self._reads.pop(view_id, NOTHING), NOTHING)

    def _replace(self, view_id: str, before: _Reads, now: _Reads) -> frozenset[TableName]:
        for table in now.tables - before.tables:
            self._readers.add(table, view_id)
        for table in now.triggers - before.triggers:
            if self._dependents.add(table, view_id) and table not in self._watched:
                self._begin(table)
        for base in now.views - before.views:
            self._above.add(base, view_id)
        for base in before.views - now.views:
            self._above.remove(base, view_id)
        for table in before.triggers - now.triggers:
            if self._dependents.remove(table, view_id) and table not in self._watched:
                self._end(table)
        unread = {table for table in before.tables - now.tables if self._readers.remove(table, view_id)}
        return frozenset(unread - self._watched)

    def _begin(self, table: TableName) -> None:
        for stem in table.stems:
            if self._by_stem.add(stem, table):
                for word in stem:
                    self._words.add(word)

    def _end(self, table: TableName) -> None:
        for stem in table.stems:
            if self._by_stem.remove(stem, table):
                for word in stem:
                    self._words.remove(word)

    # --- reading -----------------------------------------------------------------------------------

    @property
    def words(self) -> frozenset[str]:
        """The table and database parts of the names of the tables whose changes count. The databases count because of
        DROP DATABASE."""
        return self._words.all

    def tables(self) -> list[TableName]:
        """The tables whose changes count."""
        return list(dict.fromkeys((*self._dependents.keys(), *self._watched)))

    def is_read(self, table: TableName) -> bool:
        """Whether a view reads this table, even if its changes do not count, or the table is watched."""
        return table in self._readers or table in self._watched

    def dependents(self, table: TableName) -> Iterable[str]:
        """The views that changes of this table make stale."""
        return self._dependents.of(table)

    def readers(self, table: TableName) -> Iterable[str]:
        """The views that read this table, even if its changes do not count."""
        return self._readers.of(table)

    def above(self, view_id: str) -> Iterable[str]:
        """The views that read this view, even if its changes do not count."""
        return self._above.of(view_id)

    def of_stem(self, stem: tuple[str, str]) -> Iterable[TableName]:
        """The tables whose changes count that have this stem."""
        return self._by_stem.of(stem)
