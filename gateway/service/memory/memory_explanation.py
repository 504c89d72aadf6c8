"""EXPLAIN REWRITE: whether a query would be answered from rows in memory, and why not.

Tests: `test_memory_answers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.residence import Residence
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import PlanUnavailable
from gateway.mv.refresh.habits import Habits
from gateway.mv.rewriting.verdicts import Verdict
from gateway.service.clients.session import Session
from gateway.service.clients.visibility import may_describe
from gateway.service.memory.memory_answers import EngineRead, MemoryAnswers, MemoryRead, SparksRead, WhySpark
from gateway.service.recording import unrecordable
from gateway.service.routing.rewrite_explanation import ExplainedRow
from gateway.service.routing.router import Router
from gateway.service.routing.ways import FromView, RefreshFirst, Sent, UnknownTables, sent
from sql.definition.bases import bases
from sql.names import TableName
from sql.understood import Understood

NOT_REPEATABLE = "not repeatable"
"""The reason of a read whose answer depends on more than versions of views."""
_LINE = "\n"


class MemoryExplanation:
    """Foresees how queries are answered. Nothing of a query is run."""

    def __init__(self, router: Router, catalog: Catalog, habits: Habits, answers: MemoryAnswers | None) -> None:
        """`answers`: None if no views are held in memory."""
        self._router = router
        self._catalog = catalog
        self._habits = habits
        self._answers = answers

    async def foresee(self, session: Session, query: str) -> ExplainedRow | None:
        """None if the query reads no view, none that the user may describe, or if it would be answered by views that
        it does not name and of which none is to be in memory."""
        try:
            # A way that is decided in a transaction decides which versions it reads.
            pinned = session.transaction.active
            way = None if pinned else await self._router.foreseen(session, Understood(query))
        except FreshgateError:
            return None  # Running the query says why.
        if way is None and not pinned:
            return None
        views = self._views(await _named(session, query) if way is None else sent(way).mentions.views)
        if not views or not all([await may_describe(view, session) for view in views]):
            return None
        wanted = {view.id: self._catalog.residences.of(view) for view in views}
        if isinstance(way, FromView) and not any(wanted.values()):
            return None
        found = await self._found(session, way, views, wanted)
        name = ", ".join(str(view.name) for view in views)
        if isinstance(found, str):
            return ExplainedRow(name, Verdict.SPARK, found)
        if found.learned is None:
            reason = f"{WhySpark.NEW}: Spark answers the first query of a shape, the engine the next ones by this text"
            return ExplainedRow(name, Verdict.SPARK, reason, found.text)
        tables = (
            f"version {view.current.number} of {view.name}, {_rows(wanted[view.id])}, is the table "
            f"{found.tables[view.id].table}"
            for view in views
        )
        others = (f"the base table {base} is the table {held.table}" for base, held in found.bases.items())
        return ExplainedRow(
            name, Verdict.MEMORY, f"the engine reads rows in memory: {'; '.join((*tables, *others))}", found.text
        )

    def _views(self, named: Iterable[TableName]) -> list[MaterializedView]:
        """The views among these names."""
        found = (self._catalog.named(name) for name in sorted(named, key=str))
        return list({view.id: view for view in found if view is not None}.values())

    async def _found(
        self, session: Session, way: Sent | None, views: list[MaterializedView], wanted: dict[str, Residence | None]
    ) -> EngineRead | str:
        """What the engine would be asked, or why Spark is. `way`: None in a transaction."""
        if way is None:
            return f"{NOT_REPEATABLE}: in a transaction, it reads the versions of the first read"
        if isinstance(way, RefreshFirst):
            known = [self._catalog.staleness(view.id) for view in views]
            stale = "; ".join(each.reason for each in known if each is not None)
            after = "the query waits for a refresh first, whose rows are loaded after it"
            return f"{WhySpark.NOT_LOADED}: {after}{stale and f' ({stale})'}"
        source = sent(way).source
        if isinstance(source, UnknownTables):
            return f"{WhySpark.NOT_LOADED}: {source}"
        if isinstance(source, str):
            return f"{NOT_REPEATABLE}: {source}"
        if (reason := unrecordable(session, self._habits)) is not None:
            return f"{NOT_REPEATABLE}: {reason}"
        absent = WhySpark.NOT_LOADED + ": " + "; ".join(self._absent(view, wanted[view.id]) for view in views)
        if self._answers is None:
            return absent
        try:
            found = await self._answers.foreseen(MemoryRead.of(session, source, self._habits))
        except (FreshgateError, PlanUnavailable, TimeoutError) as error:
            # A plan would follow in the next lines.
            return f"{WhySpark.NEW}: {str(error).partition(_LINE)[0] or 'Spark gave no plan in time'}"
        if not isinstance(found, SparksRead):
            return found
        if found.why is WhySpark.NOT_LOADED:
            return absent
        # The engine's advice would follow in the next lines.
        return f"{found.why}: {found.detail.partition(_LINE)[0]}" if found.detail else str(found.why)

    def _absent(self, view: MaterializedView, known: Residence | None) -> str:
        """Where the view's rows are."""
        if known is not None:
            return f"{view.name} is {known.held}" + (f", because {known.why}" if known.why else "")
        off = self._catalog.residences.off
        return (
            off
            or f"{view.name} is not to be in memory: ALTER MATERIALIZED VIEW {view.name} SET IN MEMORY has it loaded"
        )


async def _named(session: Session, query: str) -> tuple[TableName, ...]:
    """The relations that a query names."""
    return (await asyncio.to_thread(bases, query, await session.resolve_namespace())).relations


def _rows(known: Residence | None) -> str:
    return f"{known.rows:,} rows" if known is not None and known.rows is not None else "rows unknown"
