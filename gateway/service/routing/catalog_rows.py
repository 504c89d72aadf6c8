"""The catalog as tables: its rows take the place of INFORMATION_SCHEMA.MATERIALIZED_VIEWS, of Freshgate's own
relations, and of the calls of mv_infos(), jobs() and tasks()."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.errors import NotAllowed
from gateway.loops import Turn
from gateway.service.answers.activity_tables import ActivityTables
from gateway.service.answers.attention import Attention
from gateway.service.answers.catalog_tables import About, CatalogTables, Table
from gateway.service.answers.members import Members
from gateway.service.answers.refresh_costs import RefreshCosts
from gateway.service.clients.bounds import spliced
from gateway.service.clients.session import Session
from sql.texts import literals, rewrite
from sql.understood import Understood

MEASURED_COLUMNS = frozenset({"versions_kept", "row_count", "size_bytes", "total_size_bytes"})
"""Columns of freshgate.materialized_views that Spark must compute, which is done only for queries that name them."""


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """`about` describes the gateway, `members` all over this metastore, `activity` what happens at this one,
    `attention` what is wrong with views, `costs` what their refreshes would cost."""

    tables: CatalogTables
    about: Callable[[], About]
    members: Members
    activity: ActivityTables
    attention: Attention
    costs: RefreshCosts

    async def with_functions(self, session: Session, known: Understood) -> str:
        """The text with the rows of the functions that it calls."""
        splices: list[rewrite.Splice] = []
        rows: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        for call in known.catalog_calls:
            if (asked := (call.function, call.arguments)) not in rows:
                table = await self.tables.function(call.function, dict(call.arguments), session.who)
                rows[asked] = await _inline(table)
            splices.append((call.start, call.end, rows[asked]))
            if not call.aliased:
                splices.append((call.end, call.end, f" AS {call.function}"))
        return spliced(known.text, splices)

    async def splices(self, session: Session, known: Understood, *, changed: bool) -> list[rewrite.Splice]:
        """The splices that replace relations by rows. `changed`: rows have replaced functions already."""
        statement = known.sparks
        found = rewrite.catalog_references(statement)
        if (found or changed) and statement.creates_view is not None and not statement.temporary:
            raise NotAllowed(
                "A permanent view cannot read the catalog of materialized views, because it would always show the rows "
                "of its creation. Use a temporary view, or query the catalog directly.",
                sqlstate="0A000",
            )
        splices: list[rewrite.Splice] = []
        rows: dict[tuple[str, str, str | None], str] = {}
        for reference, schema, database in found:
            asked = reference.parts[-1].lower().rpartition(".")[2], schema, database
            if asked not in rows:
                rows[asked] = await _inline(await self._table(session, known, *asked))
            splices += rewrite.replacement(known.places, reference, rows[asked], asked[0].upper())
        return splices

    async def _table(self, session: Session, known: Understood, name: str, schema: str, database: str | None) -> Table:
        if schema != "freshgate":
            return await self.tables.information_schema(database)
        if name == "rewrites":
            return self.tables.rewrites(session.who)
        if name == "tables_in_memory":
            return self.tables.tables_in_memory()
        if name == "suggested_views":
            return await self.tables.suggested_views(session.who)
        if name == "statements":
            return await self.activity.statements(session.who)
        if name == "reads":
            return await self.activity.reads(session.who)
        if name == "attention":
            return await self.attention.table(session.who)
        if name == "refresh_costs":
            return await self.costs.table(session.who)
        if name == "limits":
            return self.activity.limits(session)
        if name == "gateway":
            return replace(self.about(), limits_reached=self.activity.limits_reached(session)).table
        if name == "gateways":
            return self.members.table()
        measured = not known.look.words.isdisjoint(MEASURED_COLUMNS) or known.asks_for_all
        return await self.tables.materialized_views(session.who, measured=measured)


async def _inline(table: Table) -> str:
    """The table as a query; pauses for other tasks."""
    turn, lines = Turn(), list[str]()
    for row in table.rows:
        lines.append(literals.inline_line(table.columns, row))
        await turn.pause()
    return literals.inline_lines(table.columns, lines)
