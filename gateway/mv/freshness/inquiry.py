"""Which views are stale, why and since when, from what is known about each view and the views below it.

Tests: `test_staleness`, `test_paced`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from gateway.mv.freshness.drift import PARTLY_BUILT, reason
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import MaterializedView, Staleness
from sql.names import TableName

T = TypeVar("T")

GONE = Staleness(0, "it was dropped")
REASON_CHARACTERS_MAX = 2_000
"""A reason that is longer, because very many views lie below each other, is told without views between."""


def bases(entries: Mapping[str, Entry], view: MaterializedView) -> list[str]:
    """The ids of the materialized views whose changes make this view stale."""
    return [
        base
        for base in sorted(view.views)
        if (entry := entries.get(base)) is None or not view.excludes(entry.view.name)
    ]


class Inquiry:
    """Answers questions about the views at one moment. It remembers its answers, because very many paths may lead to
    the same view, and answers for the views below first, because thousands may lie below each other.

    A view that reads itself counts as stale.
    """

    def __init__(
        self, entries: Mapping[str, Entry], *, lost: bool, passes: Callable[[MaterializedView], bool] = lambda _: True
    ) -> None:
        """`lost`: another gateway now refreshes the views. `passes`: whether that a view is stale makes those above it
        stale; that it was refreshed always does."""
        self._entries = entries
        self._lost = lost
        self._passes = passes
        self._awaited: dict[bool, Inquiry] = {}
        self._stale: dict[str, bool] = {}
        self._found: dict[str, Staleness | None] = {}

    def is_stale(self, view_id: str) -> bool:
        """Whether the current version misses a finished write to its base tables or to those of a view below."""
        for entry, misses in self._upwards(view_id, self._stale, True, self._misses_itself):
            self._stale[entry.view.id] = misses or self._misses_below(entry)
        return self._stale[view_id]

    def staleness(self, view_id: str) -> Staleness | None:
        """Why and since when the current version is stale; None if it is fresh."""
        for entry, _ in self._upwards(view_id, self._found, GONE, self._is_told_by_itself):
            self._found[entry.view.id] = self._staleness(entry)
        return self._found[view_id]

    def awaited(self, view: MaterializedView) -> Staleness | None:
        """The staleness that the view's own refreshes would end: they refresh views below first that nothing else
        refreshes. With a lag, they do so for those with another lag, too."""
        lags = view.keeps_lag
        if lags not in self._awaited:

            def passes(below: MaterializedView) -> bool:
                return below.clauses.refreshing.follows or (lags and below.keeps_lag)

            self._awaited[lags] = Inquiry(self._entries, lost=self._lost, passes=passes)
        return self._awaited[lags].staleness(view.id)

    def _upwards(
        self, view_id: str, known: dict[str, T], open_answer: T, enough: Callable[[Entry], bool]
    ) -> Iterator[tuple[Entry, bool]]:
        """The views whose answers are not `known` and lead to that of the given one, each after those below it, and
        whether `enough` is true of it: then nothing is needed of the views below. Until a view's turn, and for ever if
        there is no such view, its answer is `open_answer`; a view that reads itself finds that."""
        pending, begun = [view_id], dict[str, bool]()
        while pending:
            current = pending[-1]
            if current not in known:
                known[current] = open_answer
                if (entry := self._entries.get(current)) is not None:
                    begun[current] = enough(entry)
                    if not begun[current]:
                        pending += [base for base in bases(self._entries, entry.view) if base not in known]
                continue
            pending.pop()
            if current in begun:
                yield self._entries[current], begun.pop(current)

    def _misses_itself(self, entry: Entry) -> bool:
        stale = self._lost or entry.ledger.stale or entry.drift or entry.doubtful or entry.damage
        return bool(stale) or not entry.view.complete

    def _misses_below(self, entry: Entry) -> bool:
        seen = entry.view.current.views
        return any(
            base not in self._entries
            or seen.get(base) != self._entries[base].view.current.number
            or (self._stale[base] and self._passes(self._entries[base].view))
            for base in bases(self._entries, entry.view)
        )

    def _is_told_by_itself(self, entry: Entry) -> bool:
        return self._lost or not entry.view.complete or bool(entry.damage)

    def _staleness(self, entry: Entry) -> Staleness | None:
        view, ledger = entry.view, entry.ledger
        if not view.complete:
            return Staleness(view.created_at, PARTLY_BUILT if view.built else "it has not been built yet")
        if self._lost:
            return Staleness(view.current.started_at, "another gateway refreshes it now")
        if entry.damage:
            return Staleness(0, entry.damage)
        reasons = []
        if ledger.missed:
            missed = ledger.missed[0]
            tables = ", ".join(map(str, sorted(missed.tables & view.tables)))
            reasons.append(Staleness(missed.at, f"{tables or 'what it reads'} has changed", writer=missed.writer))
        elif ledger.stale:
            reasons.append(Staleness(view.current.started_at, "what it reads has changed"))
        if entry.doubtful and not reasons:
            reasons.append(Staleness(view.current.started_at, "the connection broke while a version was published"))
        for base in bases(self._entries, view):
            reasons += filter(None, [self._base_staleness(view, base)])
        if entry.drift is not None and not any(each.since for each in reasons):
            # The change happened between the last observation without a difference and the first one with it.
            since = 0 if entry.drift.unknown else entry.fresh_at or view.current.started_at
            reasons.append(Staleness(since, reason(view, entry.drift), entry.noticed_at or 0))
        return min(reasons, key=lambda each: each.since or float("inf")) if reasons else None

    def _is_name(self, name: TableName | None) -> bool:
        return any(entry.view.name == name for entry in self._entries.values() if entry.visible)

    def _base_staleness(self, view: MaterializedView, base: str) -> Staleness | None:
        entry, known = self._entries.get(base), view.base_name(base)
        if entry is None:
            how = "replaced" if self._is_name(view.view_names.get(base)) else "dropped"
            return Staleness(view.current.started_at, f"the materialized view {known}, which it reads, was {how}")
        if known != str(entry.view.name):
            return Staleness(
                view.current.started_at,
                f"the materialized view {known}, which it reads, is now named {entry.view.name}",
            )
        if (seen := view.current.views.get(base)) != entry.view.current.number:
            since = entry.missed_since(seen) or view.current.started_at
            return Staleness(since, f"the materialized view {entry.view.name} was refreshed")
        below = self._found[base] if self._passes(entry.view) else None
        if below is None:
            return None
        how = "is" if below.since else "may be"
        return replace(below, reason=f"the materialized view {entry.view.name} {how} stale: {_shortened(below.reason)}")


def _shortened(reason: str) -> str:
    if len(reason) <= REASON_CHARACTERS_MAX:
        return reason
    return f"...: {reason[-REASON_CHARACTERS_MAX // 2 :].partition(': ')[2]}"
