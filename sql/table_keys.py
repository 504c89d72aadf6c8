"""Keys of tables, as the property `freshgate.keys` declares them: `PRIMARY KEY (a); FOREIGN KEY (b) REFERENCES t (c)`.

Nothing is taken for granted: `checks` makes the queries that show whether they hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sql.names import Namespace, TableName

PROPERTY = "freshgate.keys"
_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_NAMES = rf"\(\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*\)"
_CLAUSE = re.compile(
    rf"\s*(?:(PRIMARY\s+KEY|UNIQUE|NOT\s+NULL)\s*{_NAMES}|FOREIGN\s+KEY\s*{_NAMES}\s*REFERENCES\s+"
    rf"({_NAME}(?:\.{_NAME}){{0,2}})\s*{_NAMES})\s*",
    re.IGNORECASE,
)
_PART = re.compile(_NAME)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Where none of the columns is NULL, there is a row of the other table with these values."""

    columns: tuple[str, ...]
    table: str
    """Its name with catalog and database, in quotes."""
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableKeys:
    """What holds of the rows of a table. Names of columns are in lower case."""

    unique: frozenset[frozenset[str]] = frozenset()
    """Columns of which no two rows have the same values."""
    present: frozenset[str] = frozenset()
    """Columns that are never NULL."""
    foreign: tuple[ForeignKey, ...] = ()

    def __or__(self, other: TableKeys) -> TableKeys:
        return TableKeys(self.unique | other.unique, self.present | other.present, (*self.foreign, *other.foreign))


NO_KEYS = TableKeys()
NOTHING_KNOWN: Mapping[TableName, TableKeys] = {}


def keys_in(text: str, namespace: Namespace) -> TableKeys:
    """The keys that a property declares. Raises ValueError with what is not understood."""
    unique, present, foreign = set[frozenset[str]](), set[str](), list[ForeignKey]()
    for part in filter(str.strip, text.split(";")):
        found = _CLAUSE.fullmatch(part)
        if found is None:
            raise ValueError(part.strip())
        kind = " ".join((found[1] or "").upper().split())
        if found[3]:
            table = TableName.resolve(tuple(map(_plain, _PART.findall(found[4]))), namespace)
            columns, others = _names(found[3]), _names(found[5])
            if len(columns) != len(others):
                raise ValueError(part.strip())
            foreign.append(ForeignKey(columns, table.quoted, others))
            continue
        names = frozenset(_names(found[2]))
        unique |= set() if kind == "NOT NULL" else {names}
        present |= set() if kind == "UNIQUE" else names
    return TableKeys(frozenset(unique), frozenset(present), tuple(foreign))


def _names(text: str) -> tuple[str, ...]:
    return tuple(_plain(each).lower() for each in _PART.findall(text))


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def referring(keys: TableKeys, tables: Collection[str]) -> TableKeys:
    """The keys without those that refer to other tables than these, given by their quoted names."""
    return replace(keys, foreign=tuple(each for each in keys.foreign if each.table in tables))


def checks(table: str, keys: TableKeys) -> Iterator[tuple[TableKeys, str, str]]:
    """Each of the keys of a table, what it says, and a query that returns a row if that is not true."""
    for unique in sorted(map(sorted, keys.unique)):
        names = _listed(unique)
        where = " AND ".join(f"{_quoted(name)} IS NOT NULL" for name in unique)
        query = f"SELECT 1 FROM {table} WHERE {where} GROUP BY {names} HAVING count(*) > 1 LIMIT 1"
        yield TableKeys(unique=frozenset({frozenset(unique)})), f"that ({names}) of {table} is unique", query
    for name in sorted(keys.present):
        query = f"SELECT 1 FROM {table} WHERE {_quoted(name)} IS NULL LIMIT 1"
        yield TableKeys(present=frozenset({name})), f"that {_quoted(name)} of {table} is not NULL", query
    for key in keys.foreign:
        pairs = zip(key.columns, key.others, strict=True)
        on = " AND ".join(f"one.{_quoted(name)} = other.{_quoted(its)}" for name, its in pairs)
        where = " AND ".join(f"one.{_quoted(name)} IS NOT NULL" for name in key.columns)
        query = f"SELECT 1 FROM {table} AS one LEFT ANTI JOIN {key.table} AS other ON {on} WHERE {where} LIMIT 1"
        yield TableKeys(foreign=(key,)), f"that ({_listed(key.columns)}) of {table} is in {key.table}", query


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
