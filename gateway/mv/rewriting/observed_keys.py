"""Keys of base tables that were seen to hold in the state that a view shows.

The table property `freshgate.keys` declares them. Spark checks them by queries, for each version of a view before its
first use in a proof. A key that does not hold is not used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import Freshness, MaterializedView
from gateway.mv.observation.inspection import Inspector
from gateway.mv.ports import Metastore, SqlSession
from gateway.mv.refresh.proposer import Proposer
from sql.names import Namespace, TableName
from sql.table_keys import NO_KEYS, NOTHING_KNOWN, PROPERTY, TableKeys, checks, keys_in, referring
from sql.texts.maintenance import refresh_listing

log = logging.getLogger(__name__)
NOW = float("inf")
"""An observation that begins now."""


@dataclass(frozen=True, slots=True)
class VersionKeys:
    """What holds of the rows of a view's base tables in the state that one of its versions shows."""

    version: int
    keys: Mapping[TableName, TableKeys]


class ObservedKeys:
    """Checks the keys of the base tables of views."""

    def __init__(
        self,
        catalog: Catalog,
        metastore: Metastore,
        inspector: Inspector,
        proposer: Proposer,
        caches_listings: Callable[[], bool],
    ) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._inspector = inspector
        self._proposer = proposer
        self._caches_listings = caches_listings
        self._known: dict[str, VersionKeys] = {}

    def known(self, view: MaterializedView) -> VersionKeys:
        """What was seen to hold for the view's current version."""
        found = self._known.get(view.id)
        number = view.current.number
        return found if found is not None and found.version == number else VersionKeys(number, NOTHING_KNOWN)

    async def observe(self, view: MaterializedView) -> None:
        """Checks the keys that the view's base tables declare, unless that was done for its current version. Nothing is
        known afterwards if that was not possible. Never raises."""
        entry = self._catalog.find(view.id)
        found = self._known.get(view.id)
        if entry is None or not entry.view.complete or (found and found.version == entry.view.current.number):
            return
        self._known = {each: kept for each, kept in self._known.items() if self._catalog.find(each) is not None}
        try:
            await self._observe(entry)
        except FreshgateError as error:
            log.info("the keys of the base tables of %s are not known: %s", view.name, error)

    async def _observe(self, entry: Entry) -> None:
        view, number = entry.view, entry.view.current.number
        declared = {} if view.views else await self._declared(view)
        if not declared:
            self._known[view.id] = VersionKeys(number, NOTHING_KNOWN)
            return
        if not await self._is_fresh(entry):
            return
        events = entry.ledger.events
        async with self._proposer.session_for(view) as session:
            found = await self._checked(view, declared, session)
        # What Spark has read is what the version shows only if nothing was written from its refresh until now.
        if await self._is_fresh(entry) and entry.ledger.events == events and entry.view.current.number == number:
            self._known[view.id] = VersionKeys(number, found)

    async def _is_fresh(self, entry: Entry) -> bool:
        await self._inspector.check([entry.view.id], NOW)
        return not entry.ledger.open and self._catalog.freshness(entry.view.id) is Freshness.FRESH

    async def _declared(self, view: MaterializedView) -> dict[TableName, TableKeys]:
        """The keys, except those that refer to a table that the view does not read: nothing tells when it changes."""
        found: dict[TableName, TableKeys] = {}
        quoted = {table.quoted for table in view.tables}
        for table in sorted(view.tables):
            text = (await self._metastore.properties(table)).get(PROPERTY)
            if text is None:
                continue
            try:
                found[table] = referring(keys_in(text, Namespace(table.database, table.catalog)), quoted)
            except ValueError as error:
                log.warning("%s of %s is not understood: %s", PROPERTY, table, error)
        return found

    async def _checked(
        self, view: MaterializedView, declared: Mapping[TableName, TableKeys], session: SqlSession
    ) -> dict[TableName, TableKeys]:
        """The keys that hold. Raises FreshgateError."""
        for name in (*([view.definition] if self._caches_listings() else []), *await self._inspector.cached(view)):
            await session.run(refresh_listing(name))
        found: dict[TableName, TableKeys] = {}
        for table, keys in declared.items():
            for key, what, violations in checks(table.quoted, keys):
                if (await session.run(violations)).rows:
                    log.warning("%s says %s, which does not hold", PROPERTY, what)
                else:
                    found[table] = found.get(table, NO_KEYS) | key
        return found
