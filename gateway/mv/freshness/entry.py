"""A view as the gateway serves it: what is stored of it, and what is known beside that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.mv.freshness.drift import Drift, unseen
from gateway.mv.freshness.ledger import Ledger
from gateway.mv.model.history import History
from gateway.mv.model.view import MaterializedView, Version
from sql.names import TableName


@dataclass(slots=True, eq=False)
class Entry:
    """One view and what the gateway knows of it beyond the catalog's properties."""

    view: MaterializedView
    ledger: Ledger
    history: History = field(default_factory=History)
    """Of its refresh tasks."""
    visible: bool = True
    """False while CREATE builds it: writes are noted already, no statement finds it by name."""
    recorded: bool = True
    """The catalog's properties exist, so that more can be stored with them."""
    writing: int | None = None
    """The version that a refresh is writing now."""
    perhaps: int | None = None
    """A version whose switch was sent before the connection broke: Spark may still carry it out."""
    drift: Drift | None = None
    """How the base tables differed from the current version when they were looked at last, or why nobody has looked;
    None where they did not."""
    compared: Mapping[TableName, float] | None = None
    """When the looks at base tables began with which the current version was compared last (the observer's clock); None
    where it was with none."""
    fresh_at: int | None = None
    """When they were looked at last and did not differ, in milliseconds since the epoch."""
    uncertain: bool = False
    """Nobody heard what became of a statement that changes the public view: only the metastore knows what it shows. Set
    by `Catalog.doubt`."""
    late_until: float = 0.0
    """Until then (monotonic) Spark may still carry such a statement out."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held over changes of the stored properties: the metastore replaces a table's properties as a whole, so of two
    concurrent changes one would be lost."""


def enter(entry: Entry, version: Version, contains: int, reserved: int) -> MaterializedView:
    """Enters in the ledger that `version` is current; returns the view that has it."""
    entry.ledger.publish(contains)
    view = entry.view.published(version, reserved)
    entry.drift, entry.compared, entry.fresh_at = unseen(view), None, version.started_at
    return view
