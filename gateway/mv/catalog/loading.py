"""Reads views from the storage database into the catalog, at the start and periodically."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set

from gateway.errors import FreshgateError, StatementFailed
from gateway.loops import Turn
from gateway.mv.catalog import described, discovery
from gateway.mv.catalog.draft_file import StoredDraft
from gateway.mv.catalog.foreknowledge import judge
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.naming import id_of
from gateway.mv.concurrency import gathered
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.damage import NO_STORAGE
from gateway.mv.model.history import History
from gateway.mv.model.read_counts import ReadCounts
from gateway.mv.model.view import Leftover, name_of_id
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import public_view
from sql.texts.epochs import is_epoch

log = logging.getLogger(__name__)

Take = Callable[[discovery.Finding], Leftover | None]
"""Adds what was found to the catalog. Returns what should be dropped."""

OUTLINED_FROM = 500
"""So many views are served before all of them have been described."""
BATCHES = 2
"""How many statements that describe many tables run at a time: Spark's only client of the metastore serves one after
another, so that a second one only fills the time in which the gateway reads the first one's answer."""


class Loading:
    """Describes many views in one statement, and asks the metastore about up to `parallel` others at a time."""

    def __init__(self, catalog: Catalog, metastore: Metastore, parallel: int) -> None:
        self._catalog = catalog
        self._metastore = metastore
        self._parallel = parallel
        self._listed: dict[str, frozenset[str]] | None = None
        """The Spark views of each database with views, from before the draft was read; None without a draft."""

    async def load(self) -> tuple[list[Entry], list[Leftover]]:
        """Reads all views; of thousands only what is stored of them, which takes half the time: which versions their
        public views show is asked later. Returns the views of which that is not known yet, and what should be dropped.
        """
        names = await self._metastore.tables(self._catalog.storage_database)
        plain = sorted(table for table in _storages(names) & names if described.is_plain(table))
        outlined = await self._outline(plain) if len(plain) >= OUTLINED_FROM else {}
        leftovers = await self._load(self._take, known=outlined.keys())
        return list(outlined.values()), leftovers

    async def _outline(self, tables: Sequence[str]) -> dict[str, Entry]:
        """Adds the views whose names only one storage table has, and a Spark view. The version that it shows is taken
        to be the last one that is stored."""
        catalog, known, turn = self._catalog, dict[str, tuple[TableName, Mapping[str, str]]](), Turn()
        for some in described.pieces(tables):
            known |= await described.named_storages(self._metastore, catalog.storage_database, some)
        count = Counter(name for name, _ in known.values())
        listed = await self._listings({name.database for name in count})
        for table, (name, properties) in known.items():
            if count[name] == 1 and name.table in listed.get(name.database, ()):
                view = await discovery.of_stored(properties, TableName(catalog.storage_database, table), name)
                if view is not None:
                    catalog.add(view, History())
            await turn.pause()
        return {entry.view.id: entry for entry in catalog.entries()}

    async def recall(self, draft: StoredDraft) -> None:
        """Takes over the views of an earlier draft. It is done once, before `draft`."""
        turn = Turn()
        for view in draft.views:
            self._catalog.add(view, History())
            await turn.pause()
        self._listed = dict(draft.listed)

    async def draft(self) -> None:
        """Reads the views that can be described together, while another gateway may change them; of those that were
        recalled, only the names. Changes nothing. Raises what the metastore raises."""
        catalog = self._catalog
        names = await self._metastore.tables(catalog.storage_database)
        for entry in [each for each in catalog.entries() if each.view.id not in names]:
            catalog.remove(entry)
        plain = sorted(table for table in _storages(names) & names if described.is_plain(table))
        new = [table for table in plain if catalog.find(table) is None]
        # Before the views are read. Those that were renamed may be in other databases.
        listed = await self._listings({name_of_id(table).database for table in new})
        for tables in described.pieces(new):  # One after the other: nobody waits for it.
            await self._load_described(tables, self._take)
        # A list from before a draft that was recalled stands: what came later may show one of its views.
        self._listed = {**listed, **(self._listed or {})}

    async def sketch(self) -> StoredDraft:
        """A draft of the catalog as it is. Raises what the metastore raises."""
        # Before the names are taken from the catalog.
        listed = await self._listings({view.name.database for view in self._catalog.views()})
        return StoredDraft(tuple(self._catalog.views()), listed)

    @property
    def drafted(self) -> bool:
        """Whether there is a draft."""
        return self._listed is not None

    async def believe(self) -> tuple[list[Entry], list[Leftover]]:
        """Makes the draft the catalog, after this gateway has taken the epoch. Returns the views that must be looked
        at before what the catalog says of them counts, and what should be dropped. Raises what the metastore raises."""
        catalog, listed = self._catalog, self._listed
        assert listed is not None
        for name in list(catalog.damaged):
            catalog.forget_damage(name)
        drafted = {entry.view.id: entry for entry in catalog.entries()}
        names = await self._metastore.tables(catalog.storage_database)
        now = await self._listings({entry.view.name.database for entry in drafted.values()} | listed.keys())
        verdict = judge({view_id: entry.view.name for view_id, entry in drafted.items()}, listed, names, now)
        kept = verdict.kept - await self._shown_by(verdict.appeared)
        for view_id in drafted.keys() - kept:
            catalog.remove(drafted[view_id])
        leftovers = await self._load(self._take, known=kept)
        return [drafted[view_id] for view_id in sorted(kept)], leftovers

    async def _shown_by(self, names: Set[TableName]) -> set[str]:
        """The ids of the materialized views that these Spark views show."""
        texts = await described.view_texts(self._metastore, names)
        gate = asyncio.Semaphore(self._parallel)

        async def read(name: TableName) -> str:
            async with gate:
                relation = await self._metastore.relation(name)
            return relation.view_text if relation is not None else ""

        others = await gathered(read(name) for name in sorted(names - texts.keys()))
        found = (public_view.read_published(text) for text in (*texts.values(), *others))
        return {shown[0].table for shown in found if shown is not None}

    async def _listings(self, databases: Iterable[str]) -> dict[str, frozenset[str]]:
        """The Spark views of these databases; without those that cannot be listed, for example because they were
        dropped."""
        found = {}
        for database in sorted(databases):
            try:
                found[database] = frozenset(await self._metastore.views(database))
            except StatementFailed as error:
                log.info("the views of %s cannot be listed: %s", database, error)
        return found

    async def reload(self) -> list[Leftover]:
        """Reads all views anew, because another gateway may have changed them. Those of the catalog are replaced one by
        one, so that each is known at any moment. Returns what should be dropped."""
        catalog, seen = self._catalog, set[str]()
        for name in list(catalog.damaged):
            catalog.forget_damage(name)

        def replace(finding: discovery.Finding) -> Leftover | None:
            if finding.view is not None:
                seen.add(finding.view.id)
                if (entry := catalog.find(finding.view.id)) is not None:
                    catalog.remove(entry)
            return self._take(finding)

        leftovers = await self._load(replace)
        for entry in [each for each in catalog.entries() if each.visible and each.view.id not in seen]:
            catalog.remove(entry)
        return leftovers

    async def _load(self, take: Take, known: Set[str] = frozenset()) -> list[Leftover]:
        """Reads all storage tables but those that are `known`."""
        names = await self._metastore.tables(self._catalog.storage_database)
        storages, batches = _storages(names) - self._catalog.building - known, asyncio.Semaphore(BATCHES)
        plain = sorted(table for table in storages & names if described.is_plain(table))
        pieces = await gathered(self._read_together(tables, take, batches) for tables in described.pieces(plain))
        found = {table: leftover for piece in pieces for table, leftover in piece.items()}
        gate = asyncio.Semaphore(self._parallel)

        async def read(table: str) -> Leftover | None:
            async with gate:
                return await self._discover(table, names, take)

        others = await gathered(read(table) for table in sorted(storages - found.keys()))
        return [leftover for leftover in (*found.values(), *others) if leftover is not None]

    async def _read_together(
        self, tables: Sequence[str], take: Take, batches: asyncio.Semaphore
    ) -> dict[str, Leftover | None]:
        async with batches:
            return await self._load_described(tables, take)

    async def _load_described(self, tables: Sequence[str], take: Take) -> dict[str, Leftover | None]:
        """Adds the views of those storage tables that are, with their public views, as they should be. Returns these
        tables, with what should be dropped. The public views are described after the storage tables, because a version
        is stored before it is shown."""
        database = self._catalog.storage_database
        known = await described.named_storages(self._metastore, database, tables)
        texts = await described.view_texts(self._metastore, {name for name, _ in known.values()})
        added, turn = dict[str, Leftover | None](), Turn()
        for table, (name, properties) in known.items():
            finding = await discovery.of_described(properties, TableName(database, table), texts.get(name, ""))
            if finding is not None:
                added[table] = take(finding)
            await turn.pause()
        return added

    async def survey(self) -> list[Leftover]:
        """Reads the storage database again: statements of a killed gateway may complete long after it, and users drop
        things. Reports damage and returns what should be dropped."""
        catalog = self._catalog
        names = await self._metastore.tables(catalog.storage_database)
        if not names and any(catalog.entries()):
            # An empty answer means that the metastore has a fault, not that all views are gone.
            return []
        for entry in [each for each in catalog.entries() if each.visible and each.view.id not in names]:
            # Ask for it by name: the list may be older than the table.
            if await self._metastore.relation(entry.view.storage) is None and catalog.find(entry.view.id) is entry:
                catalog.report_damage(entry, NO_STORAGE)
        # Includes damaged views: they may have been repaired.
        unknown = _storages(names) - catalog.building
        unknown = {table for table in unknown if catalog.find(table) is None}
        found = [await self._discover_late(table, names) for table in sorted(unknown)]
        for damage in [each for each in catalog.damaged.values() if each.storage.table not in names]:
            if not damage.droppable:
                catalog.forget_damage(damage.name)
        return [leftover for leftover in found if leftover is not None]

    async def _discover_late(self, table: str, names: Container[str]) -> Leftover | None:
        """Skips a table that cannot be read now until the next time, so that it does not delay the others."""
        try:
            return await self._discover(table, names, self._take)
        except FreshgateError as error:
            log.warning("cannot read %s, will try again: %s", table, error)
            return None

    async def _discover(self, table: str, names: Container[str], take: Take) -> Leftover | None:
        """Classifies a storage table, or one of which `names` has only the definition. Returns what should be
        dropped."""
        storage = TableName(self._catalog.storage_database, table)
        look = discovery.of_storage if table in names else discovery.of_definition
        return take(await look(self._metastore, storage))

    def _take(self, finding: discovery.Finding) -> Leftover | None:
        """Adds what was found to the catalog. Returns what should be dropped."""
        if finding.damage is not None:
            self._catalog.add_damage(finding.damage)
        if finding.view is not None:
            history = History.of_stored(finding.properties, finding.view.current.number)
            self._catalog.add(finding.view, history, ReadCounts.of_stored(finding.properties))
        return finding.leftover


def _storages(names: Iterable[str]) -> set[str]:
    """The storage tables to which the objects of the storage database belong, whether they exist or not."""
    return {id_of(name) for name in names if not is_epoch(name)}
