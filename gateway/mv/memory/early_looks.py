"""Looks at the base tables of views in memory before a read must wait for it.

An observation is valid for a while (`staleness.probe_interval`). A read after that waits for the next one, at Spark,
which takes many times as long as an answer from memory. So reads that are answered while it is valid have it renewed
in the background, once most of its time is over. Views that nobody reads are not looked at.

Tests: `test_early_looks`.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.loops import BackgroundTasks
from gateway.mv.catalog.index import Catalog
from gateway.mv.observation.inspection import Inspector

EARLY = 2 / 3
"""The share of its time after which an observation is renewed."""
SECONDS_MIN = 3.0
"""Observations that are valid for less are not: Spark would be asked all the time."""


class EarlyLooks:
    """Renews observations of views that are read."""

    def __init__(self, catalog: Catalog, inspector: Inspector, leads: Callable[[], bool] = lambda: True) -> None:
        """`leads`: whether this gateway may still decide what is fresh."""
        self._catalog = catalog
        self._inspector = inspector
        self._leads = leads
        self._looking: set[str] = set()
        self._background = BackgroundTasks("looking at the base tables of views in memory")

    def read(self, view_id: str) -> None:
        """The view has answered a read from memory."""
        entry = self._catalog.find(view_id)
        if entry is None or view_id in self._looking or entry.ledger.stale or not self._leads():
            return
        if self._inspector.probe_seconds(entry.view) < SECONDS_MIN or not self._inspector.due([view_id], EARLY):
            return
        self._looking.add(view_id)
        self._background.begin(self._look(view_id))

    async def _look(self, view_id: str) -> None:
        try:
            await self._inspector.check([view_id], share=EARLY)
        finally:
            self._looking.discard(view_id)
