"""What a refresh of each view would cost now, as a table for queries: freshgate.refresh_costs.

Tests: `test_expected_costs`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.access_list import Principal
from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import RefreshMode
from gateway.mv.refresh.expected_costs import ExpectedCosts
from gateway.mv.statements.rights import Rights
from gateway.service.answers.catalog_tables import Table, strings
from sql.texts.literals import Value

ROWS_MAX = 10_000
"""Most rows in a query: they become part of its text."""


@dataclass(frozen=True, slots=True)
class RefreshCosts:
    catalog: Catalog
    costs: ExpectedCosts
    rights: Rights

    async def table(self, who: Principal) -> Table:
        """freshgate.refresh_costs: a row for each view. Asks Spark nothing, and lets other work run in between."""
        turn, rows = Turn(), list[tuple[Value, ...]]()
        for view in self.catalog.views()[:ROWS_MAX]:
            if (entry := self.catalog.find(view.id)) is not None:
                rows.append(self._row(entry, who))
            await turn.pause()
        return Table(REFRESH_COSTS, rows)

    def _row(self, entry: Entry, who: Principal) -> tuple[Value, ...]:
        view, history, cost = entry.view, entry.history, self.costs.of(entry)
        done = [task for _, task in history.tasks if task.version and task.started_at and task.finished_at]
        return (
            view.name.database,
            view.name.table,
            view.owner,
            None if cost.method is None else cost.method.value,
            cost.expected_ms,
            # It may quote what Spark said of the definition.
            cost.because if self.rights.may_refresh(who, view) else None,
            None if cost.share is None else round(100 * cost.share),
            cost.complete_ms,
            cost.partial_ms,
            cost.incremental_ms,
            *(history.usual_ms(mode) for mode in METHODS),
            len(done),
            sum(task.finished_at - task.started_at for task in done),
        )


METHODS = (RefreshMode.COMPLETE, RefreshMode.PARTIAL, RefreshMode.INCREMENTAL)
REFRESH_COSTS = (
    *strings("database_name", "name", "owner", "expected_method"),
    ("expected_ms", "BIGINT"),
    ("because", "STRING"),
    ("percent", "BIGINT"),
    ("complete_ms", "BIGINT"),
    ("partial_ms", "BIGINT"),
    ("incremental_ms", "BIGINT"),
    ("median_complete_ms", "BIGINT"),
    ("median_partial_ms", "BIGINT"),
    ("median_incremental_ms", "BIGINT"),
    ("refreshes", "BIGINT"),
    ("refreshes_ms", "BIGINT"),
)
