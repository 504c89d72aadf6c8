"""What a materialized view is, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from sql.names import Namespace, TableName


class Freshness(Enum):
    """How the current version stands to the base tables."""

    FRESH = "FRESH"
    STALE = "STALE"


@dataclass(frozen=True, slots=True)
class Watermark:
    """What a version contains for sure.

    `events` is the number of the last noted write of which everything was visible when the refresh began to read.
    `views` maps each materialized view that the definition reads (its id) to the version that was current then.
    """

    events: int
    views: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Version:
    """One published, immutable content. Times are milliseconds since the epoch."""

    number: int
    started_at: int
    published_at: int
    watermark: Watermark
    method: str = "COMPLETE"


@dataclass(frozen=True, slots=True)
class MaterializedView:
    """One materialized view as the catalog holds it.

    `tables` are the base tables, found through views: the names whose writes make the view stale. It includes the
    Spark views on the way (a view that is replaced changes the content as well). `views` are the materialized views
    that the definition reads, by id.
    """

    id: str
    name: TableName
    storage: TableName
    definition: TableName
    query: str
    namespace: Namespace
    """Against what the query's unqualified names were resolved at creation."""
    columns: tuple[str, ...]
    owner: str
    created_at: int
    tables: frozenset[TableName]
    views: frozenset[str]
    properties: Mapping[str, str]
    comment: str | None
    current: Version
    mark: int
    """Number of the last noted write that the catalog has stored."""
    versions_reserved: int
    """No version with this number or a greater one was ever begun."""

    def published(self, version: Version, mark: int, reserved: int) -> MaterializedView:
        return replace(self, current=version, mark=mark, versions_reserved=reserved)
