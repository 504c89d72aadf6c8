"""Explains a failed refresh to those who wait for it."""

from __future__ import annotations

import logging

from gateway.errors import FreshgateError, RefreshFailed, StatementFailed
from gateway.mv.catalog.fence import Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.model.view import MaterializedView
from gateway.mv.observation.schemas import Schemas
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import maintenance

log = logging.getLogger(__name__)

GONE = frozenset({"42P01", "42704", "42703", "51024"})
"""SQLSTATEs with which Spark reports that something a definition reads no longer exists: a table, its database, a
column, or a column of a view with its old type."""
DATA = "22"
"""The class of SQLSTATEs for values that cannot be computed or stored."""


class BaseTableMissing(RefreshFailed):
    """The definition reads something that no longer exists or has changed."""


class Diagnosis:
    """Says what went wrong, and what to do about it."""

    def __init__(self, catalog: Catalog, settlement: Settlement, schemas: Schemas, metastore: Metastore) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._schemas = schemas
        self._metastore = metastore

    async def of(self, view: MaterializedView, error: FreshgateError) -> FreshgateError:
        """The error to raise instead. BaseTableMissing if something that the definition reads no longer exists."""
        if isinstance(error, RefreshFailed | Superseded):
            # The gateway's own errors need no explanation.
            return error
        kept = f"version {view.current.number} stays published" if view.built else "it has no rows yet"
        problem = f"The refresh of materialized view {view.name} failed; {kept}. "
        if view.refreshed_as:
            problem += f"It reads in the name of its owner {view.refreshed_as}. "
        cause = in_words_of(view.name, view.definition, str(error))
        if error.sqlstate in GONE:
            try:
                if missing := await self._missing(view, problem, cause, error):
                    return missing
            except StatementFailed as failed:
                log.warning("cannot determine what %s reads that no longer exists: %s", view.name, failed)
        advice = f"Fix the cause, then run REFRESH MATERIALIZED VIEW {view.name}, or read again."
        if error.sqlstate.startswith(DATA) and (changes := await self._schemas.changes(view)):
            # The view keeps the types that it was created with, so a wider type below may not fit.
            problem += f"What it reads has changed: {changes}. "
            advice = "Replace the view with CREATE OR REPLACE MATERIALIZED VIEW if its columns need other types."
        if view.refreshed_as:
            advice += (
                f" If {view.refreshed_as} may not read this, or write the storage database, an administrator can give "
                f"the view to another user: ALTER MATERIALIZED VIEW {view.name} OWNER TO user."
            )
        # What is missing may exist when it is tried again.
        sqlstate = RefreshFailed.sqlstate if error.sqlstate in GONE else error.sqlstate
        return RefreshFailed(problem + advice, sqlstate=sqlstate, cause=cause)

    async def _missing(
        self, view: MaterializedView, problem: str, cause: str, error: FreshgateError
    ) -> BaseTableMissing | None:
        """None if nothing is missing: a metastore with a temporary fault may report that something does not exist.

        Raises what the metastore raises.
        """
        entry = self._catalog.find(view.id)
        if entry is not None and (damage := await self._settlement.find_damage(entry)):
            return BaseTableMissing(damage, sqlstate="58030")
        self._schemas.forget(view.tables)
        changes = await self._schemas.changes(view)
        if not changes and not await self._is_refused(view):
            return None
        problem += f"What it reads has changed: {changes}. " if changes else ""
        advice = "Restore that, or replace the view with CREATE OR REPLACE MATERIALIZED VIEW."
        return BaseTableMissing(problem + advice, sqlstate=error.sqlstate, cause=cause)

    async def _is_refused(self, view: MaterializedView) -> bool:
        """Whether Spark still reports that something the definition reads does not exist."""
        try:
            await self._metastore.run(maintenance.describe_rows(view.definition))
        except StatementFailed as error:
            return error.sqlstate in GONE
        return False


def in_words_of(view: TableName, definition: TableName, message: str) -> str:
    """Spark's message with the view's name in place of its definition's, which users do not know."""
    return message.replace(definition.short, view.short).replace(str(definition), str(view))
