"""Decides what a read of stale views needs, by WHEN STALE and the grace period of each view.

Tests: `test_stale_notes`, `test_invokers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.errors import NotFresh
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.damage import changed
from gateway.mv.model.view import MaterializedView
from gateway.service.routing.facts import Facts
from gateway.service.routing.invokers import refused
from gateway.service.routing.ways import RefreshFirst
from sql.names import TableName, quote
from sql.statement import WhenStale
from sql.texts import rewrite

INLINED_IN = frozenset({"select", "with", "from", "table", "insert", "create", ""})
"""First words of statements in which a query can replace a name."""


@dataclass(slots=True)
class Wanted:
    """What is needed before a read is forwarded: refreshed views, a changed text, refreshed file listings."""

    fresh: list[str] = field(default_factory=list)
    splices: list[rewrite.Splice] = field(default_factory=list)
    listings: list[TableName] = field(default_factory=list)
    """Definitions that run in the reader's own session, in which Spark may have cached old listings of their files."""
    inlined: list[MaterializedView] = field(default_factory=list)
    """The views whose definitions run, or would run, in the session; their tables may have to be refreshed there."""
    perhaps: list[str] = field(default_factory=list)
    """The stale views that the statement may read."""

    @property
    def anything(self) -> bool:
        """Whether the read has to wait."""
        return bool(self.fresh or self.listings or self.inlined or self.perhaps)


def mattering(catalog: Catalog, views: Iterable[str]) -> list[str]:
    """The views without those that are gone, and those that are served whatever has changed in their base tables, which
    need no observation."""
    return [view_id for view_id in sorted(views) if _matters(catalog, view_id)]


def _matters(catalog: Catalog, view_id: str) -> bool:
    entry = catalog.find(view_id)
    if entry is None:
        return False
    return bool(entry.damage) or not (entry.view.when_stale is WhenStale.SERVE and entry.view.complete)


def wanted(catalog: Catalog, first: RefreshFirst, *, caches_listings: bool) -> Wanted:
    """What the read needs. A transaction must see the same rows again, so no definition can replace a view in it.
    `caches_listings`: whether sessions keep the lists of a table's files.

    Raises NotFresh if a view that is certainly read must not be served.
    """
    facts, read, wanted = first.facts, first.unpinned, Wanted()
    surely, pinned = facts.statement.exact, first.transaction is not None
    for view_id, reason in first.withheld.items():
        _withhold(catalog.entry(view_id).view, reason, first, wanted, catalog, caches_listings=caches_listings)
    for view_id in mattering(catalog, read.all.difference(first.withheld)):
        staleness = catalog.staleness(view_id) if catalog.is_stale(view_id) else None
        if staleness is None or catalog.is_tolerated(view_id, staleness):
            continue
        view, damage = catalog.entry(view_id).view, catalog.entry(view_id).damage
        policy = view.when_stale
        if view_id in read.perhaps:
            wanted.perhaps.append(view_id)
            continue
        inlined = policy is WhenStale.INLINE and view_id not in first.foreign
        if inlined and surely and view_id not in read.below and not pinned and (splices := _splices(view, facts)):
            # The definition replaces the view, so the views that it reads must be fresh.
            _inline(view, splices, wanted, catalog, caches_listings=caches_listings)
            continue
        if damage and surely and policy in {WhenStale.FAIL, WhenStale.SERVE}:
            raise changed(view.name, damage) if catalog.entry(view_id).changed_rows else _misread(view)
        # A view that was built in part is completed first, because it cannot be served yet.
        if surely and (policy is WhenStale.FAIL or (policy is WhenStale.SERVE and not view.built)):
            raise _not_fresh(view, staleness.reason)
        wanted.fresh.append(view_id)
    return wanted


def _inline(
    view: MaterializedView,
    splices: Iterable[rewrite.Splice],
    wanted: Wanted,
    catalog: Catalog,
    *,
    caches_listings: bool,
) -> None:
    wanted.splices.extend(splices)
    wanted.inlined.append(view)
    wanted.fresh.extend(base for base in sorted(view.views) if catalog.is_stale(base))
    wanted.listings.extend([view.definition] if caches_listings else [])


def _withhold(
    view: MaterializedView,
    reason: str,
    first: RefreshFirst,
    wanted: Wanted,
    catalog: Catalog,
    *,
    caches_listings: bool,
) -> None:
    """The reader is not shown the stored rows of the view: its definition replaces it, stale or not. Raises NotAllowed
    if it cannot."""
    facts, read = first.facts, first.read
    if first.transaction is not None:
        raise refused(view, reason, "A transaction reads stored rows, which stay as they are")
    if view.id not in read.direct - read.below or not facts.statement.exact:
        raise refused(view, reason, "This statement reads it through a view or function, or by a name that is built")
    if not (splices := _splices(view, facts)):
        raise refused(view, reason, "A query cannot replace its name in this statement")
    _inline(view, splices, wanted, catalog, caches_listings=caches_listings)


def notes(catalog: Catalog, views: Iterable[str]) -> tuple[str, ...]:
    """Tells which of the views are stale and read as they are."""
    found = []
    for view_id in sorted(views):
        staleness = catalog.staleness(view_id) if catalog.is_stale(view_id) else None
        if staleness is None:
            continue
        view = catalog.entry(view_id).view
        if catalog.is_tolerated(view_id, staleness):
            why = f"the view is within its grace period of {view.grace_ms / 1000:g} s"
        elif view.when_stale is WhenStale.SERVE:
            why = "the view is set to WHEN STALE SERVE"
        else:
            continue
        found.append(f"Warning: the rows of materialized view {view.name} are stale: {staleness.reason}; {why}")
    return tuple(found)


def _splices(view: MaterializedView, facts: Facts) -> list[rewrite.Splice]:
    """The splices that replace each mention by the definition; none if the text does not allow it."""
    if facts.look.keyword not in INLINED_IN or (around := facts.known.places).disturb(view.name):
        return []
    mentions = facts.mentions(view.name)
    if any(mention.perhaps for mention in mentions):
        return []
    query = f"(SELECT * FROM {view.definition.quoted})"
    return [
        splice
        for mention in mentions
        for splice in rewrite.replacement(around, mention, query, quote(mention.parts[-1]))
    ]


def _misread(view: MaterializedView) -> NotFresh:
    return NotFresh(
        f"The materialized view {view.name} must be refreshed before it is read: {view.misread}. Run REFRESH "
        f"MATERIALIZED VIEW {view.name}."
    )


def _not_fresh(view: MaterializedView, reason: str) -> NotFresh:
    if not view.complete:
        built = "been built in part only" if view.built else "not been built yet"
        return NotFresh(
            f"The materialized view {view.name} has {built}, and by its settings, reads do not build it. "
            f"Run REFRESH MATERIALIZED VIEW {view.name}."
        )
    return NotFresh(
        f"The materialized view {view.name} is stale: {reason}. It is set to WHEN STALE FAIL. Run REFRESH MATERIALIZED "
        f"VIEW {view.name}, or ALTER MATERIALIZED VIEW {view.name} SET ('when_stale' = 'REFRESH')."
    )
