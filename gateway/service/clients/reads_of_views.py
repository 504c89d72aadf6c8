"""Counts the reads of each view.

Tests: `test_recent_statements`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.read_counts import How
from gateway.service.clients.audit import Outcome
from gateway.service.clients.recent_statements import EndedStatement


@dataclass(frozen=True, slots=True)
class ReadsOfViews:
    """Takes statements that have ended."""

    catalog: Catalog

    def count(self, ended: EndedStatement) -> None:
        """Counts it for the views that it read, if it succeeded."""
        if ended.outcome != Outcome.SUCCEEDED or not (ended.views or ended.answered_from):
            return
        for view_id in ended.answered_from:
            self._count(self.catalog.find(view_id), ended, How.REWRITTEN)
        for name in ended.views:
            self._count(self.catalog.entry_named(name), ended, How.NAMED)

    def _count(self, entry: Entry | None, ended: EndedStatement, how: How) -> None:
        if entry is not None:
            how = How.MEMORY if ended.from_memory else how
            waited = ended.waited_ms if entry.view.name in ended.refreshed else 0
            entry.reads.count(how, ended.user, ended.began, waited)
