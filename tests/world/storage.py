"""What Spark's metastore holds: databases, views, storage tables with their partitions and properties, base tables.

It is what a history changes and what outlives gateways and Sparks. A history begins with a copy of one in which the
views were created; what never changes in place is shared between copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from gateway.errors import StatementFailed
from gateway.mv.ports import Relation, RelationKind
from sql.names import Namespace, TableName
from world.tables import NOTHING, Rows, Table

CREATORS = {"spark.sql.session.timeZone": "UTC"}
"""The settings that Spark keeps with a view."""
Key = str | None
"""A partition of a view's own; None: NULL, or the view has none."""
Place = tuple[int, Key]
"""A partition of a storage table: which version, and which of the view's partitions."""
LONG = '{"name": "bigint"}'
TEXT = '{"name": "string", "collation": "UTF8_BINARY"}'
Columns = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Thing:
    """A view, or a table that is not a base table. `text` is a view's; `partitions` are a storage table's."""

    created: int
    columns: Columns
    text: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    partitions: dict[Place, Rows] = field(default_factory=dict)
    partitioned: bool = False
    """By partitions of the view's own below the version."""
    given_up: set[int] = field(default_factory=set)
    """Versions of which an INSERT was begun that nobody waits for any more."""
    written: set[tuple[int, str]] = field(default_factory=set)
    """Versions, and the gateways that have begun to write them."""

    @property
    def is_view(self) -> bool:
        return bool(self.text)

    def copy(self) -> Thing:
        return replace(
            self,
            properties=dict(self.properties),
            partitions=dict(self.partitions),
            given_up=set(self.given_up),
            written=set(self.written),
        )


_NOT_THERE = Thing(0, ())


class Metastore:
    """What Spark's metastore holds, by `database.table`, folded. Implements `fake_spark.Held`."""

    def __init__(self) -> None:
        self.databases: dict[str, dict[str, str]] = {"default": {}}
        self.things: dict[str, Thing] = {}
        self.tables: dict[str, Table] = {}
        self._created = 0
        self._relations: dict[str, Relation] = {}
        """As they were asked for last; those of what has changed since are left out."""

    def copy(self) -> Metastore:
        other = Metastore()
        other.databases = {name: dict(properties) for name, properties in self.databases.items()}
        other.things = {name: thing.copy() for name, thing in self.things.items()}
        other.tables = {name: table.copy() for name, table in self.tables.items()}
        other._created = self._created
        other._relations = dict(self._relations)
        return other

    # --- changing ----------------------------------------------------------------------------------

    def add_table(self, table: Table) -> None:
        self.tables[table.name] = table
        self.databases.setdefault(table.name.partition(".")[0], {})

    def add(self, name: str, columns: Columns, text: str = "") -> Thing:
        """Raises StatementFailed where the name is taken."""
        if name in self.things or name in self.tables:
            raise StatementFailed(f"[TABLE_OR_VIEW_ALREADY_EXISTS] {name} exists already.", "42P07")
        if name.partition(".")[0] not in self.databases:
            raise StatementFailed(f"[SCHEMA_NOT_FOUND] The schema of {name} cannot be found.", "42704")
        self._created += 1
        thing = self.things[name] = Thing(self._created, columns, text)
        return thing

    def remove(self, name: str) -> None:
        """Where it is there."""
        self.things.pop(name, None)
        self._relations.pop(name, None)

    def rename(self, name: str, other: str) -> None:
        if other in self.things:
            raise StatementFailed(f"[TABLE_OR_VIEW_ALREADY_EXISTS] {other} exists already.", "42P07")
        self.things[other] = self.thing(name)
        self.remove(name)

    def show(self, name: str, text: str) -> None:
        """ALTER VIEW … AS."""
        self.thing(name).text = text
        self._relations.pop(name, None)

    # --- reading -----------------------------------------------------------------------------------

    def thing(self, name: str) -> Thing:
        """Raises StatementFailed where there is none."""
        if (found := self.things.get(name)) is None:
            raise StatementFailed(f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {name} cannot be found.", "42P01")
        return found

    def database_names(self) -> Iterable[str]:
        return self.databases

    def properties_of(self, table: TableName) -> Mapping[str, str]:
        """Raises StatementFailed where there is no such table or view."""
        return dict(self.thing(f"{table.database}.{table.table}").properties)

    def names(self, database: str) -> frozenset[str]:
        """The tables and views of a database; empty where there is no such database."""
        prefix = f"{database}."
        found = (name for name in (*self.things, *self.tables) if name.startswith(prefix))
        return frozenset(name.removeprefix(prefix) for name in found)

    def view_names(self, database: str) -> frozenset[str]:
        names = self.names(database)
        return frozenset(name for name in names if self.things.get(f"{database}.{name}", _NOT_THERE).is_view)

    def described(self, name: TableName) -> Relation | None:
        """What the port says of it."""
        dotted = f"{name.database}.{name.table}"
        known = self._relations.get(dotted)
        if known is None and (known := self._described(name, dotted)) is not None:
            self._relations[dotted] = known
        return known

    def _described(self, name: TableName, dotted: str) -> Relation | None:
        if (table := self.tables.get(dotted)) is not None:
            return Relation(
                name,
                RelationKind.TABLE,
                columns=columns_of(table),
                created="1",
                provider=table.provider,
                location=f"file:/w/{dotted}",
                partition_columns=("d",) if table.partitioned else (),
                partitions_listed=table.partitioned and table.provider == "parquet",
            )
        if (thing := self.things.get(dotted)) is None:
            return None
        kind = RelationKind.VIEW if thing.is_view else RelationKind.TABLE
        described = Relation(
            name,
            kind,
            thing.text,
            Namespace(),
            thing.columns,
            str(thing.created),
            settings=CREATORS if thing.is_view else {},
        )
        return described if thing.is_view else replace(described, provider="parquet", location=f"file:/w/{dotted}")


def columns_of(table: Table) -> Columns:
    return (("d", TEXT), ("k", LONG)) if table.partitioned else (("k", LONG),)


# --- public views --------------------------------------------------------------------------------------------

_NAME = r"`spark_catalog`\.`(\w+)`\.`(\w+)`"
_SHOWN = re.compile(rf"SELECT .+ FROM {_NAME} WHERE (freshgate_version .+)", re.DOTALL)
_ONLY = re.compile(r"freshgate_version = (\d+)")
_RANGES = re.compile(r"freshgate_version <= (\d+) AND \(([^()]+)\)(?: AND CASE freshgate_version (.+) ELSE true END)?")
_RANGE = re.compile(r"freshgate_version BETWEEN (\d+) AND (\d+)")
_LEFT_OUT = re.compile(r"WHEN (\d+) THEN (.+?)(?= WHEN |$)")
_TEXTS = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a public view's text says, read here and not by the gateway's own code."""

    storage: str
    number: int
    has: Callable[[Place], bool]


@lru_cache(maxsize=10_000)
def shown(text: str) -> Shown | None:
    """None for a text that is not a public view's."""
    if (found := _SHOWN.fullmatch(text)) is None:
        return None
    storage, predicate = f"{found[1]}.{found[2]}", found[3]
    if (only := _ONLY.fullmatch(predicate)) is not None:
        number = int(only[1])
        return Shown(storage, number, lambda place: place[0] == number)
    ranged = _RANGES.fullmatch(predicate)
    assert ranged is not None, predicate
    ranges = [(int(first), int(last)) for first, last in _RANGE.findall(ranged[2])]
    hidden = {int(version): _left_out(said) for version, said in _LEFT_OUT.findall(ranged[3] or "")}

    def has(place: Place) -> bool:
        within = any(first <= place[0] <= last for first, last in ranges)
        return within and place[1] not in hidden.get(place[0], ())

    return Shown(storage, int(ranged[1]), has)


def _left_out(said: str) -> frozenset[Key]:
    texts: list[Key] = list(_TEXTS.findall(said))
    return frozenset([*texts, None] if "IS NOT NULL" in said else texts)


def rows_at(storage: Thing, places: Iterable[Place]) -> Mapping[Key, Rows]:
    """The rows by partition of the view. Raises StatementFailed for a partition that is gone."""
    found: dict[Key, Rows] = {}
    for place in places:
        if place not in storage.partitions:
            raise StatementFailed(f"[FAILED_READ_FILE.FILE_NOT_EXIST] of version {place[0]}, {place[1]}", "KD001")
        found[place[1]] = found.get(place[1], NOTHING) | storage.partitions[place]
    return found
