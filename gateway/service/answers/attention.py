"""What is wrong with views, as a table for queries: freshgate.attention.

Tests: `test_troubles`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.access_list import Principal
from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.troubles import Trouble, Troubled, in_order, trouble_of_damaged, troubles_of
from gateway.mv.statements.rights import Rights
from gateway.service.answers.catalog_tables import Table, moment_text, strings
from sql.names import TableName
from sql.redaction import redact
from sql.texts.literals import Value

ROWS_MAX = 1_000
"""Most rows in a query: they become part of its text. The worst come first."""


@dataclass(frozen=True, slots=True)
class Attention:
    catalog: Catalog
    rights: Rights
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    async def table(self, who: Principal) -> Table:
        """freshgate.attention: a row for each thing that is wrong with a view. Lets other work run in between."""
        turn, now, inquiry, found = Turn(), self.now_ms(), self.catalog.inquiry(), list[Troubled]()
        owners, told_all = dict[TableName, str](), set[TableName]()
        for view in self.catalog.views():
            if (entry := self.catalog.find(view.id)) is not None:
                troubles = list(troubles_of(entry, inquiry.awaited(view), now))
                found += ((view.name, trouble) for trouble in troubles)
                if troubles:
                    owners[view.name] = view.owner
                if troubles and self.rights.may_refresh(who, view):
                    told_all.add(view.name)
            if await turn.pause():
                inquiry = self.catalog.inquiry()
        for damage in self.catalog.damaged.values():
            found.append((damage.name, trouble_of_damaged(damage)))
            owners[damage.name] = damage.owner or ""
        rows = list[tuple[Value, ...]]()
        for place, (name, trouble) in enumerate(in_order(found)[:ROWS_MAX], 1):
            shown = told(trouble, everything=name in told_all)
            since = moment_text(shown.since) if shown.since else None
            rest = shown.what, shown.advice, shown.error or None
            rows.append((place, shown.kind, name.database, name.table, owners[name] or None, since, *rest))
        return Table(ATTENTION, rows)


def told(trouble: Trouble, *, everything: bool) -> Trouble:
    """Without passwords, and unless `everything`, without what only those see who may refresh the view."""
    return replace(trouble, error=redact(trouble.error) if everything else "")


ATTENTION = (
    ("place", "BIGINT"),
    *strings("what", "database_name", "name", "owner"),
    ("since", "TIMESTAMP"),
    *strings("why", "advice", "error"),
)
"""`place`: 1 is the worst."""
