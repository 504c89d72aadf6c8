"""What a refresh that failed tells those who wait for it."""

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
"""SQLSTATEs by which Spark says that what a definition reads is not there any more: a table, its database, a column,
or a view's column with the type it had."""


class BaseTableMissing(RefreshFailed):
    """The definition reads something that no longer exists, or is not what it was."""


class Diagnosis:
    """Says what is wrong, and what to do about it."""

    def __init__(self, catalog: Catalog, settlement: Settlement, schemas: Schemas, metastore: Metastore) -> None:
        self._catalog = catalog
        self._settlement = settlement
        self._schemas = schemas
        self._metastore = metastore

    async def of(self, view: MaterializedView, error: FreshgateError) -> FreshgateError:
        """The error to raise instead: BaseTableMissing if something that the definition reads is surely gone."""
        if isinstance(error, RefreshFailed | Superseded):
            # Our own words say it all.
            return error
        kept = f"version {view.current.number} stays published" if view.built else "it has no rows yet"
        said = f"The refresh of materialized view {view.name} failed; {kept}. "
        cause = in_words_of(view.name, view.definition, str(error))
        if error.sqlstate in GONE:
            try:
                if missing := await self._missing(view, said, cause, error):
                    return missing
            except StatementFailed as failed:
                log.warning("cannot tell what of %s is not there: %s", view.name, failed)
        advice = f"Mend the cause and run REFRESH MATERIALIZED VIEW {view.name}, or read again."
        # What is not there now may be there when it is tried again.
        sqlstate = RefreshFailed.sqlstate if error.sqlstate in GONE else error.sqlstate
        return RefreshFailed(said + advice, sqlstate=sqlstate, cause=cause)

    async def _missing(
        self, view: MaterializedView, said: str, cause: str, error: FreshgateError
    ) -> BaseTableMissing | None:
        """None if all is there: a metastore that is out of order for a moment says of what it has that it has none.

        Raises what the metastore raises.
        """
        entry = self._catalog.find(view.id)
        if entry is not None and (damage := await self._settlement.find_damage(entry)):
            return BaseTableMissing(damage, sqlstate="58030")
        self._schemas.forget(view.tables)
        changes = await self._schemas.changes(view)
        if not changes and not await self._is_refused(view):
            return None
        said += f"What it reads has changed: {changes}. " if changes else ""
        advice = "Bring that back, or replace the view with CREATE OR REPLACE MATERIALIZED VIEW."
        return BaseTableMissing(said + advice, sqlstate=error.sqlstate, cause=cause)

    async def _is_refused(self, view: MaterializedView) -> bool:
        """Whether Spark says now, too, that something which the definition reads is not there."""
        try:
            await self._metastore.run(maintenance.describe_rows(view.definition))
        except StatementFailed as error:
            return error.sqlstate in GONE
        return False


def in_words_of(view: TableName, definition: TableName, message: str) -> str:
    """Spark's message with the view's name for that of its definition, which no user has ever seen."""
    return message.replace(definition.short, view.short).replace(str(definition), str(view))
