"""Tables whose rows are in files of a directory, or of those of the partitions: Spark's own formats, by name or path.

A look lists the files. Spark aggregates those of a partition to one row, and opens none.

Tests: `test_added_rows`, `test_observation`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from gateway.errors import StatementFailed
from gateway.loops import in_thread
from gateway.mv.formats.listings import FEW_FILES, UNKNOWN_DIRECTORIES, Files
from gateway.mv.formats.partition_places import PartitionPlaces, roots_of
from gateway.mv.formats.table_format import (
    LISTED_MAX,
    Change,
    Moment,
    TableFormat,
    Tools,
    columns_of,
    is_table,
    of_partitions,
    provider_of,
    refuse_metadata_column,
)
from gateway.mv.formats.young_files import (
    EVER,
    ROWS_MAX,
    SETTLED_MS,
    YoungFiles,
    listed_rows,
    new_files,
    partition_hashes,
    young_files,
)
from gateway.mv.model.marks import Mark, YoungFile
from gateway.mv.model.snapshot import PartitionValues, Snapshot, fingerprint
from gateway.mv.ports import Relation
from sql.increments.reasons import NotIncremental, Reason
from sql.names import TableName
from sql.texts import additions, observation

SIZED_MAX = 1_000
"""Directories whose sizes are added: this happens on the event loop."""
LARGE = 2**62
"""Stands for the bytes of more directories."""


class FileTables(TableFormat):
    title = "a table of files"
    shown_in_plans = True
    held_in_memory = True
    providers: ClassVar = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryfile"})
    paths = providers

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._places = PartitionPlaces(tools.listings)
        self._counts: dict[TableName, int] = {}
        """How many files the last observation found."""
        self.memories = (self._places.known, self._counts)

    @classmethod
    def reads(cls, relation: Relation) -> bool:
        return provider_of(relation) in cls.providers and is_table(relation) and bool(relation.location)

    # --- looks -------------------------------------------------------------------------------------

    def expected(self, relation: Relation) -> Relation | None:
        return relation

    async def look(self, table: TableName, relation: Relation, root: Relation | None) -> Snapshot:
        try:
            return await self._files(relation)
        except StatementFailed:
            # Files or partitions that vanish between two statements of one observation are no reason to give up.
            return await self._files(relation)

    async def _files(self, relation: Relation) -> Snapshot:
        root = observation.plain_path(relation.location)
        identity = _identity(relation, root)
        if relation.name.path:
            return Snapshot(identity, _state_of(await self._matched(relation.name)))
        if not relation.partition_columns:
            return Snapshot(identity, _state_of(self._noted(relation.name, await self._listed(relation.name, [root]))))
        if not relation.partitions_listed:
            found = self._noted(relation.name, await self._listed(relation.name, [root]))
            return await in_thread(len(found), _of_directories, identity, found, root, relation.partition_columns)
        # Usually no partition has a location of its own, and all files are below the table's location: list them while
        # Spark reports the locations.
        places, at_root = await asyncio.gather(
            self._places.of(relation, root, identity),
            self._listed(relation.name, [root], self._places.count(relation.name)),
            return_exceptions=True,
        )
        if isinstance(places, BaseException):
            raise places
        roots = await in_thread(len(places), roots_of, places.values(), root)
        files = await self._listed(relation.name, [place for place in roots if place != root], len(places))
        if root in roots:
            if isinstance(at_root, BaseException):
                raise at_root
            files += at_root
        self._noted(relation.name, files)
        return await in_thread(len(files) + len(places), _of_places, identity, files, places)

    async def _listed(
        self, table: TableName, locations: Sequence[str], directories: int = UNKNOWN_DIRECTORIES
    ) -> list[Files]:
        return await self._tools.listings.files(locations, self._counts.get(table), directories)

    async def _matched(self, name: TableName) -> list[Files]:
        """The files of a path, which may contain wildcards."""
        async with self._tools.listings.session() as session:
            rows = (await session.run(observation.list_files([name.path], patterns=True))).rows
        return [
            Files(directory, f"{directory} {' '.join(map(str, sums))}", int(sums[0]), sums[1], int(sums[2]))
            for directory, *sums in rows
        ]

    def _noted(self, table: TableName, files: list[Files]) -> list[Files]:
        # The exact number does not matter if it is large.
        self._counts[table] = sum(part.count for part in files[: FEW_FILES + 1])
        self._tools.sizes[table] = sum(part.bytes for part in files[:SIZED_MAX]) if len(files) <= SIZED_MAX else LARGE
        return files

    async def places(self, relation: Relation) -> dict[PartitionValues, str] | None:
        """The location of each partition that the metastore lists; None if it lists none of this table, so that all
        files below the table's location count."""
        if not (relation.partition_columns and relation.partitions_listed):
            return None
        root = observation.plain_path(relation.location)
        return await self._places.of(relation, root, _identity(relation, root))

    # --- changes -----------------------------------------------------------------------------------

    def check(self, relation: Relation) -> None:
        refuse_metadata_column(relation)

    async def mark(self, relation: Relation, snapshot: Snapshot, now: Moment) -> Mark:
        try:
            found = await self._list(relation, now.ms - SETTLED_MS)
        except NotIncremental:
            found = await self._list(relation, EVER)
        return found.mark(snapshot.identity, now.ms)

    async def since(self, relation: Relation, snapshot: Snapshot, mark: Mark, now: Moment) -> Change:
        found = await self._list(relation, mark.bound)
        new = new_files(relation.name, mark, found)
        return await self._change(relation, found.mark(mark.identity, now.ms), found, new)

    async def _change(self, relation: Relation, now: Mark, found: YoungFiles, new: Sequence[YoungFile]) -> Change:
        """`now`: the mark of what was found, with these new files."""
        return change_of(relation.name, columns_of(relation), now, new)

    def rows(self, relation: Relation, mark: Mark) -> str:
        return additions.rows_until(relation.name, columns_of(relation), mark.until)

    def reads_until(self, mark: Mark) -> int:
        """Until which time of change `rows` reads files."""
        return mark.until

    async def holding(self, relation: Relation, mark: Mark) -> bool:
        found, until = await self._list(relation, mark.bound), self.reads_until(mark)
        return found.older == mark.older and mark.younger == {
            file.key for file in found.young if file.modified <= until
        }

    async def _list(self, relation: Relation, bound: int) -> YoungFiles:
        try:
            return await self._list_once(relation, bound)
        except StatementFailed:
            # Files or partitions that vanish between two statements are no reason to give up.
            return await self._list_once(relation, bound)

    async def _list_once(self, relation: Relation, bound: int) -> YoungFiles:
        found = await self.places(relation)
        places = None if found is None else await in_thread(len(found), partition_hashes, found)
        root = observation.plain_path(relation.location)
        roots = [root] if places is None else await in_thread(len(places), roots_of, places, root)
        few, rows = self._counts.get(relation.name, FEW_FILES + 1) <= FEW_FILES, list[tuple[Any, ...]]()
        async with self._tools.listings.session() as session:
            for place in roots:
                rows += await listed_rows(session, additions.list_young_files(place, bound, ROWS_MAX + 1, few=few))
                if len(rows) > ROWS_MAX:
                    raise NotIncremental(Reason.TOO_MANY_FILES, f"{relation.name} has too many directories")
        listing = await in_thread(len(rows), young_files, bound, rows, places, roots)
        if len(listing.young) > LISTED_MAX:
            raise NotIncremental(Reason.TOO_MANY_FILES, f"{relation.name} has more than {LISTED_MAX} young files")
        return replace(listing, places=found)


def change_of(table: TableName, columns: Sequence[str], now: Mark, new: Sequence[YoungFile]) -> Change:
    """Without removed rows: these files are all that is new."""
    paths = [file.path for file in new]
    before = additions.rows_until(table, columns, now.until, without=paths)
    if not new:
        return Change(now, before=before)
    added = additions.rows_of_files(table, columns, paths)
    return Change(now, added, None, before, sum(file.bytes for file in new))


# --- states --------------------------------------------------------------------------------------------


def _identity(relation: Relation, root: str) -> str:
    columns = (json.dumps(relation.columns), json.dumps(relation.partition_columns))
    return fingerprint(relation.created, root, relation.provider, relation.reading, *columns)


def _of_directories(identity: str, files: Iterable[Files], root: str, columns: Sequence[str]) -> Snapshot:
    return of_partitions(identity, _inferred(files, root, columns))


def _of_places(identity: str, files: Iterable[Files], places: Mapping[PartitionValues, str]) -> Snapshot:
    return of_partitions(identity, _folded(files, places))


def _state_of(files: Iterable[Files]) -> str:
    return fingerprint(*sorted(part.sum for part in files))


def _folded(files: Iterable[Files], places: Mapping[PartitionValues, str]) -> dict[PartitionValues, str]:
    """The state of each partition, from the files at and below its location. Files elsewhere do not count."""
    at: dict[str, list[Files]] = {place: [] for place in places.values()}
    for part in files:
        place = part.directory
        while place and place not in at:
            place = place.rpartition("/")[0]
        if place:
            at[place].append(part)
    states = {place: _state_of(parts) for place, parts in at.items()}
    return {values: states[place] for values, place in places.items()}


def _inferred(files: Iterable[Files], root: str, columns: Sequence[str]) -> dict[PartitionValues, str]:
    """The partitions of a table without a list in the metastore: its directories are the list."""
    found: dict[PartitionValues, list[Files]] = {}
    for part in files:
        segments = part.directory[len(root) + 1 :].split("/")[: len(columns)]
        values = observation.partition_values("/".join(segments), columns)
        if values is not None:
            found.setdefault(values, []).append(part)
    return {values: _state_of(parts) for values, parts in found.items()}
