"""Which relations a text may name, by its words alone."""

from __future__ import annotations

from dataclasses import dataclass

from sql.names import TableName
from sql.words import Words

_DATABASES = frozenset({"database", "schema", "namespace"})


@dataclass(frozen=True, slots=True)
class Mentioned:
    """The tables, views and functions that a statement may name."""

    words: Words
    anything: bool = False
    """It may build names at run time."""

    def includes(self, name: TableName) -> bool:
        """A name counts in any database. A database counts as all that is in it, if the statement may be about
        databases."""
        return self.anything or name.table in self.words or (self._names_databases and name.database in self.words)

    @property
    def _names_databases(self) -> bool:
        return not self.words.isdisjoint(_DATABASES)
