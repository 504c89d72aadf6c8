"""Observes base tables, remembers the last observation of each, and shares observations among callers.

It lists files and reads Delta's log and Iceberg's metadata tables, all by statements in service sessions. It reads no
row of a base table; Spark aggregates the files of a partition to one row.

Tests: `test_observation`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.errors import FreshgateError, StatementFailed, UpstreamLost
from gateway.loops import aside
from gateway.mv import many
from gateway.mv.model.snapshot import GONE, Observed, PartitionValues, Snapshot, Unobserved, fingerprint
from gateway.mv.observation.delta_looks import DELTA, DeltaLooks
from gateway.mv.observation.listings import FEW_FILES, LOOK_SECONDS, UNKNOWN_DIRECTORIES, Files, Listings
from gateway.mv.ports import Function, Metastore, Relation, RelationKind, ServiceSessions, SqlSession
from gateway.mv.subscribers import Subscribers
from sql.names import FUNCTION, TableName
from sql.texts import observation

FILE_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryfile", "hive"})
ICEBERG = "iceberg"
LONG_NAMES = ("org.apache.spark.sql.", "com.databricks.spark.")
"""Old prefixes of the names of formats."""
DESCRIBED_NEWLY, DESCRIBED_AGAIN = 200, 64
"""For how many partitions of a Hive table one observation asks for the location, for the first time and again; see
`_asked`."""
DESCRIBING_SESSIONS = 4


@dataclass(frozen=True, slots=True)
class Look:
    """One observation of a table: what it looked like."""

    observed: Observed
    began: float
    """By the observer's clock."""
    is_view: bool = False
    relation: Relation | None = None
    """None for functions, for tables that do not exist, and if the metastore did not answer."""
    function: Function | None = None
    root: TableName | None = None
    """The table whose cache Spark must refresh if the name is that of a branch or a metadata table."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """An observation, and the number of the last touch of any table before it began."""

    look: Look
    touch: int

    def serves(self, not_before: float, touch: int) -> bool:
        return self.look.began >= not_before and self.touch >= touch


SIZED_MAX = 1_000
"""Directories whose sizes are added: this happens on the event loop."""
LARGE = 2**62
"""Stands for the bytes of more directories."""


class Observer:
    """Observes base tables. Concurrent callers share observations, and the last one of each table is remembered.

    The sessions are used only for observations: they keep the settings that make listings cheap.
    """

    def __init__(
        self,
        metastore: Metastore,
        sessions: ServiceSessions,
        look_seconds: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metastore = metastore
        self._clock = clock
        self._tables = _Tables(sessions, look_seconds)
        self._known: dict[TableName, _Observed] = {}
        self._running: dict[TableName, asyncio.Task[_Observed]] = {}
        self._touches = 0
        self._touched: dict[TableName, int] = {}
        self.looked: Subscribers[[TableName]] = Subscribers()
        """An observation of this table has ended."""

    async def observe(self, tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
        """An observation of each table that began at or after `not_before` and after the table's last touch. A table
        that cannot be observed is Unobserved; never raises FreshgateError."""
        names = list(dict.fromkeys(tables))
        looks = await asyncio.gather(*(self._shared(name, not_before) for name in names))
        return dict(zip(names, looks, strict=True))

    def due(self, tables: Iterable[TableName], not_before: float) -> bool:
        """Whether `observe` would have to ask Spark."""
        return any(self._remembered(table, not_before, self._touched.get(table, 0)) is None for table in tables)

    def is_newer(self, tables: Iterable[TableName], compared: Mapping[TableName, float]) -> bool:
        """Whether another observation of one of the tables is known than the one that began as `compared` says."""
        return any(
            (known := self._known.get(table)) is not None and known.look.began != compared.get(table)
            for table in tables
        )

    def touch(self, tables: Iterable[TableName]) -> None:
        """Invalidates earlier observations of these tables, because a statement may have changed them. Most tables that
        are written have none."""
        for table in tables:
            # For a function, a touch may be the only sign that it was replaced.
            if table in self._known or table in self._running or table.is_function:
                self._touches += 1
                self._touched[table] = self._touches

    def seed(self, table: TableName, snapshot: Snapshot) -> None:
        """Adds a stored earlier observation, from which the next one continues. Of several, the best is kept: one that
        has the states of partitions, then the latest."""
        known = self._tables.last.get(table)
        if known is None or _rank(snapshot) > _rank(known):
            self._tables.last[table] = snapshot

    @property
    def listings(self) -> Listings:
        """Lists files, also for looks at other things than base tables."""
        return self._tables.listings

    def session(self) -> AbstractAsyncContextManager[SqlSession]:
        """A session for looks, as `Listings.session`."""
        return self.listings.session()

    async def places(self, relation: Relation) -> dict[PartitionValues, str] | None:
        """The location of each partition that the metastore lists; None if it lists none of this table, so that all
        files below the table's location count. Raises what Spark raises."""
        if not (relation.partition_columns and relation.partitions_listed):
            return None
        return await self._tables.places_of(relation)

    def size(self, table: TableName) -> int | None:
        """The bytes of the table's files at the last observation; None if they were not listed."""
        return self._tables.sizes.get(table)

    def has_few_files(self, table: TableName) -> bool:
        """Whether the last observation found so few that listing them in one task is faster."""
        return self._tables.files.get(table, FEW_FILES + 1) <= FEW_FILES

    def forget(self, tables: Iterable[TableName]) -> None:
        """Forgets tables that no view reads any longer. A table that is being observed is kept; `looked` tells when
        that has ended."""
        for table in frozenset(tables) - self._running.keys():
            for remembered in (self._known, self._touched, *self._tables.remembering):
                remembered.pop(table, None)

    async def _described(self, table: TableName) -> tuple[Relation | None, Relation | None, Awaitable[Observed]]:
        """As `_relations`, with the state. The files of a table are listed, and Delta's history is read, while Spark
        describes the table: mostly it is what it was at the last look. Of a Delta table, the id is left out."""
        known = self._known.get(table)
        expected = known.look.relation if known is not None else None
        if expected is None or not (is_of_files(expected) or is_delta(expected)):
            relation, root = await self._relations(table)
            return relation, root, self._tables.observed(table, relation, root)
        if is_delta(expected):
            expected = replace(expected, created="")
        listing = asyncio.ensure_future(self._tables.observed(table, expected, None))
        try:
            relation, root = await self._relations(table, identify=not is_delta(expected))
        except BaseException:  # Also on cancellation: nobody waits for the listing any more.
            await _stopped(listing)
            raise
        if relation == expected:
            return relation, root, listing
        await _stopped(listing)
        return relation, root, self._tables.observed(table, relation, root)

    async def _relations(self, table: TableName, *, identify: bool = True) -> tuple[Relation | None, Relation | None]:
        """The relation of this name; and, if it is a branch or metadata table of an Iceberg table, that table.
        `identify`: as in `Metastore.relation`."""
        if table.path:
            return Relation(table, RelationKind.TABLE, provider=table.database, location=table.path), None
        relation = await self._metastore.relation(table.whole, identify=identify)
        if relation is None or relation.provider != ICEBERG or (above := table.above) is None:
            return relation, None
        root = await self._metastore.relation(above)
        return relation, root if root is not None and root.provider == ICEBERG else None

    def _function(self, name: TableName, function: Function | None, touch: int) -> Observed:
        """Only the class name of a function that is implemented by a class is visible. So a statement that has
        recreated it, perhaps with another archive, counts as a change."""
        if function is None:
            return GONE
        anew = self._touched.get(name, 0) if not function.body else 0
        return Snapshot(FUNCTION, fingerprint(function.described) + (f"+{min(anew, touch)}" if anew else ""))

    def _remembered(self, table: TableName, not_before: float, touch: int) -> Look | None:
        known = self._known.get(table)
        return known.look if known is not None and known.serves(not_before, touch) else None

    async def _shared(self, table: TableName, not_before: float) -> Look:
        # Callers cannot ask for a future observation, and do not wait for later touches.
        not_before, touch = min(not_before, self._clock()), self._touched.get(table, 0)
        while True:
            look = self._remembered(table, not_before, touch)
            if look is not None:
                return look
            task = self._running.get(table)
            if task is None:
                task = self._running[table] = asyncio.create_task(self._look(table))
            # A cancelled caller does not cancel the shared observation.
            known = await asyncio.shield(task)
            if known.serves(not_before, touch):
                return known.look

    async def _look(self, table: TableName) -> _Observed:
        # The last touch of any table, not of this one: this table's may have been forgotten since.
        began, touch = self._clock(), self._touches
        relation: Relation | None = None
        root: Relation | None = None
        function: Function | None = None
        observed: Observed
        remember = True
        try:
            if table.is_function:
                function = await self._metastore.function(table)
                observed = self._function(table, function, touch)
            else:
                relation, root, state = await self._described(table)
                observed = await state
                if relation is not None and provider_of(relation) == DELTA:
                    relation = self._tables.delta.identified(table, relation)
        except UpstreamLost as error:
            # Spark will soon be back; the next caller tries again.
            observed, remember = Unobserved(str(error)), False
        except (FreshgateError, ValueError) as error:
            observed = Unobserved(str(error))
        except TimeoutError:
            observed = Unobserved(f"{table}: observing it took longer than {self.listings.look_seconds:g} seconds")
        finally:
            del self._running[table]
        is_view = relation is not None and relation.kind is not RelationKind.TABLE
        known = _Observed(Look(observed, began, is_view, relation, function, root.name if root else None), touch)
        if remember:
            self._known[table] = known
        else:
            self._known.pop(table, None)
        self.looked.tell(table)
        return known


def _rank(snapshot: Snapshot) -> tuple[bool, int, bool]:
    position = int(snapshot.position) if snapshot.position.isdigit() else -1
    return bool(snapshot.default), position, bool(snapshot.partitions)


@dataclass(slots=True)
class _Places:
    """The known locations of the partitions of one table. The one that was asked for longest ago comes first."""

    identity: str
    found: dict[PartitionValues, str] = field(default_factory=dict)
    partitions: int = 0
    """How many partitions the table had."""


class _Tables:
    """Makes one observation of one table, depending on how it is stored."""

    def __init__(self, sessions: ServiceSessions, look_seconds: float) -> None:
        self.listings = Listings(sessions, look_seconds)
        self.last: dict[TableName, Snapshot] = {}
        """Observations with a position, from which the next ones continue."""
        self.places: dict[TableName, _Places] = {}
        self.files: dict[TableName, int] = {}
        """How many files the last observation found."""
        self.sizes: dict[TableName, int] = {}
        """How many bytes these files have."""
        self.delta = DeltaLooks(self.last)
        self.remembering = (self.last, self.places, self.files, self.sizes, self.delta.seen)

    async def observed(self, table: TableName, relation: Relation | None, root: Relation | None) -> Observed:
        if relation is None:
            return GONE
        if relation.kind is RelationKind.VIEW:
            return _view(relation)
        if is_of_files(relation):
            return await self._files_twice(relation)
        provider = provider_of(relation)
        if provider not in {DELTA, ICEBERG} or (table.path and provider == ICEBERG):
            what = f"tables of the format {relation.provider}" if relation.provider else "tables without a format"
            return Unobserved(f"{table}: {what} cannot be observed")
        async with self.listings.session() as session:
            if provider == DELTA:
                snapshot = await self.delta.look(session, table, relation)
            elif root is not None or table.aspect:
                return await self._iceberg_at(session, table, root or relation)
            else:
                snapshot = await self._iceberg(session, relation)
        self.last[table] = snapshot
        return snapshot

    # --- Iceberg -------------------------------------------------------------------------------------

    async def _iceberg(self, session: SqlSession, relation: Relation) -> Snapshot:
        table = relation.name
        columns = (json.dumps(relation.columns), json.dumps(relation.partition_columns))
        identity = fingerprint("iceberg", relation.reading, observation.plain_path(relation.location), *columns)
        await session.run(observation.renew(table))
        position = str((await session.run(observation.iceberg_snapshot(table))).rows[0][1])
        if position == observation.NO_SNAPSHOT:
            return Snapshot(identity, "empty", "" if relation.partition_columns else "empty", position=position)
        if not position.isdigit():
            raise StatementFailed(f"{table} does not report its current snapshot.")
        last = self.last.get(table)
        if last and (last.identity, last.position) == (identity, position) and (last.default or last.partitions):
            return last
        if relation.partition_columns:
            width = len(relation.partition_columns)
            # Spark may refuse this for a table that was partitioned differently before.
            with contextlib.suppress(StatementFailed):
                rows = (await session.run(observation.iceberg_files(relation.name, position, width))).rows
                found = await aside(len(rows), _of_iceberg, identity, position, rows, width)
                if found is not None:
                    return found
        history = (await session.run(observation.iceberg_history(table))).rows
        state = f"s{observation.unreplaced(history, position)}"
        return Snapshot(identity, state, state, position=position)

    async def _iceberg_at(self, session: SqlSession, table: TableName, root: Relation) -> Observed:
        """A branch, a tag or a snapshot; or anything else that can be read of a table, whose changes all write a new
        metadata file."""
        identity = fingerprint("iceberg", root.reading, observation.plain_path(root.location), json.dumps(root.columns))
        await session.run(observation.renew(root.name))
        ref, fixed = observation.iceberg_selected(table)
        if ref:
            found = (await session.run(observation.iceberg_ref(root.name, ref))).rows
            if found:
                history = (await session.run(observation.iceberg_history(root.name))).rows
                return Snapshot(identity, f"s{observation.unreplaced(history, str(found[0][0]))}")
            if not fixed:
                return Unobserved(f"{root.name} has no branch or tag {ref}")
        if fixed:
            return Snapshot(identity, str(table))
        files = (await session.run(observation.iceberg_metadata_files(root.name))).rows
        return Snapshot(identity, fingerprint(*(str(row[0]) for row in files[-1:])))

    # --- files -----------------------------------------------------------------------------------------

    async def _files_twice(self, relation: Relation) -> Snapshot:
        try:
            return await self._files(relation)
        except StatementFailed:
            # Files or partitions that vanish between two statements of one observation are no reason to give up.
            return await self._files(relation)

    async def places_of(self, relation: Relation) -> dict[PartitionValues, str]:
        """The location of each partition that the metastore lists."""
        root = observation.plain_path(relation.location)
        return await self._partition_places(relation, root, _files_identity(relation, root))

    async def _files(self, relation: Relation) -> Snapshot:
        root = observation.plain_path(relation.location)
        identity = _files_identity(relation, root)
        if relation.name.path:
            return Snapshot(identity, _state_of(await self._matched(relation.name)))
        if not relation.partition_columns:
            return Snapshot(identity, _state_of(self._noted(relation.name, await self._listed(relation.name, [root]))))
        if not relation.partitions_listed:
            found = self._noted(relation.name, await self._listed(relation.name, [root]))
            return await aside(len(found), _of_directories, identity, found, root, relation.partition_columns)
        # Usually no partition has a location of its own, and all files are below the table's location: list them while
        # Spark reports the locations.
        places, at_root = await asyncio.gather(
            self._partition_places(relation, root, identity),
            self._listed(relation.name, [root], self._partitions_then(relation.name)),
            return_exceptions=True,
        )
        if isinstance(places, BaseException):
            raise places
        roots = await aside(len(places), roots_of, places.values(), root)
        files = await self._listed(relation.name, [place for place in roots if place != root], len(places))
        if root in roots:
            if isinstance(at_root, BaseException):
                raise at_root
            files += at_root
        self._noted(relation.name, files)
        return await aside(len(files) + len(places), _of_places, identity, files, places)

    async def _listed(
        self, table: TableName, locations: Sequence[str], directories: int = UNKNOWN_DIRECTORIES
    ) -> list[Files]:
        return await self.listings.files(locations, self.files.get(table), directories)

    async def _matched(self, name: TableName) -> list[Files]:
        """The files of a path, which may contain wildcards."""
        async with self.listings.session() as session:
            rows = (await session.run(observation.list_files([name.path], patterns=True))).rows
        return [
            Files(directory, f"{directory} {' '.join(map(str, sums))}", int(sums[0]), sums[1], int(sums[2]))
            for directory, *sums in rows
        ]

    def _noted(self, table: TableName, files: list[Files]) -> list[Files]:
        # The exact number does not matter if it is large.
        self.files[table] = sum(part.count for part in files[: FEW_FILES + 1])
        self.sizes[table] = sum(part.bytes for part in files[:SIZED_MAX]) if len(files) <= SIZED_MAX else LARGE
        return files

    def _partitions_then(self, table: TableName) -> int:
        """How many partitions the last observation found; this one will find about as many."""
        memory = self.places.get(table)
        return memory.partitions if memory is not None else UNKNOWN_DIRECTORIES

    async def _partition_places(self, relation: Relation, root: str, identity: str) -> dict[PartitionValues, str]:
        """The location of each listed partition: below the table's location by default, anywhere if the partition has a
        location of its own."""
        columns = relation.partition_columns
        async with self.listings.session() as session:
            names = (await session.run(observation.list_partitions(relation.name))).rows
            listed = await aside(len(names), _listed_places, names, columns, root)
            if not listed:
                return {}
            await self.listings.prepare(session, len(listed))
            plan = (await session.run(observation.explain_partitions(relation.name, columns))).rows
        paths = await aside(len(listed), _explained_paths, plan[0][0])
        memory = self.places.get(relation.name)
        if memory is None or memory.identity != identity:
            memory = self.places[relation.name] = _Places(identity)
        memory.partitions = len(listed)
        if paths is not None:
            return await self._explained(relation, memory, listed, paths, root)
        # If there are very many, some are assumed to be at their usual locations until a later observation asks.
        return {**listed, **await self._asked(relation, memory, listed, DESCRIBED_NEWLY)}

    async def _explained(
        self,
        relation: Relation,
        memory: _Places,
        listed: Mapping[PartitionValues, str],
        paths: frozenset[str],
        root: str,
    ) -> dict[PartitionValues, str]:
        """`paths` are the locations of all partitions, without saying which belongs to which. If a partition's usual
        location is among them and no other partition has it, it is that partition's; the others are asked for."""
        usual, others = await aside(len(paths), _usual, paths, listed, relation.partition_columns, root)
        memory.found = {values: place for values, place in memory.found.items() if place in paths}
        asked = await self._asked(relation, memory, others, len(listed))
        if taken := set(asked.values()):
            asked |= await self._describe(relation, [values for values, path in usual.items() if path in taken])
        places = await aside(len(paths), _all_places, usual, asked, paths)
        # None: a partition that seems to be at its usual location is elsewhere.
        return await self._describe(relation, list(listed)) if places is None else places

    async def _asked(
        self, relation: Relation, memory: _Places, wanted: Collection[PartitionValues], most: int
    ) -> dict[PartitionValues, str]:
        """The locations of partitions that no plan shows, at most `most` of them for the first time.

        Each partition needs a statement, and Spark asks the metastore for one after the other. So each is asked for
        once and remembered, and in every observation some are asked for again, because a location can be changed.
        """
        known, new = await aside(len(wanted), _divided, wanted, memory.found)
        asked = await self._describe(relation, new[:most] + known[:DESCRIBED_AGAIN])
        memory.found = {values: memory.found[values] for values in known if values not in asked} | asked
        return dict(memory.found)

    async def _describe(self, relation: Relation, wanted: Collection[PartitionValues]) -> dict[PartitionValues, str]:
        waiting = list(wanted)
        found: dict[PartitionValues, str] = {}

        async def work() -> None:
            async with self.listings.session() as session:
                while waiting:
                    values = waiting.pop()
                    describe = observation.describe_partition(relation.name, relation.partition_columns, values)
                    try:
                        answer = await session.run(describe)
                    except BaseException:  # Also on cancellation: stop the other workers.
                        waiting.clear()
                        raise
                    found[values] = observation.described_location(answer.rows[0][0])

        workers = min(DESCRIBING_SESSIONS, -(-len(waiting) // DESCRIBED_AGAIN))
        await asyncio.gather(*(work() for _ in range(workers)))
        return found


async def _stopped(task: asyncio.Future[Observed]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def is_of_files(relation: Relation) -> bool:
    """Whether its state is that of the files in a directory, or in those of its partitions."""
    in_files = provider_of(relation) in FILE_FORMATS and relation.kind is RelationKind.TABLE
    return in_files and bool(relation.location)


def is_delta(relation: Relation) -> bool:
    return provider_of(relation) == DELTA and relation.kind is RelationKind.TABLE


def provider_of(relation: Relation) -> str:
    """The short name of the table's format."""
    provider = relation.provider
    for prefix in LONG_NAMES:
        provider = provider.removeprefix(prefix)
    return provider


# --- states --------------------------------------------------------------------------------------------


def _files_identity(relation: Relation, root: str) -> str:
    columns = (json.dumps(relation.columns), json.dumps(relation.partition_columns))
    return fingerprint(relation.created, root, relation.provider, relation.reading, *columns)


def _view(relation: Relation) -> Snapshot:
    """The snapshot of a view's own definition. Its tables are observed separately."""
    namespace = relation.namespace
    columns = json.dumps(relation.columns)
    state = fingerprint(relation.view_text, namespace.catalog, namespace.database, columns, relation.reading)
    return Snapshot("view", state)


def _divided(
    wanted: Iterable[PartitionValues], found: Container[PartitionValues]
) -> tuple[list[PartitionValues], list[PartitionValues]]:
    """Divides partitions into those that were found and the others."""
    divided: tuple[list[PartitionValues], list[PartitionValues]] = ([], [])
    for values in wanted:
        divided[values not in found].append(values)
    return divided


def _of_iceberg(identity: str, position: str, rows: Sequence[tuple[Any, ...]], width: int) -> Snapshot | None:
    """None if the table was partitioned differently before: then some files have other values, or none."""
    if any(row[-1] != 0 for row in rows):
        return None
    states = {tuple(row[:width]): fingerprint(f"{row[width]} {row[width + 1]}") for row in rows}
    return _snapshot(identity, states, position)


def _of_directories(identity: str, files: Iterable[Files], root: str, columns: Sequence[str]) -> Snapshot:
    return _snapshot(identity, _inferred(files, root, columns))


def _of_places(identity: str, files: Iterable[Files], places: Mapping[PartitionValues, str]) -> Snapshot:
    return _snapshot(identity, _folded(files, places))


def _snapshot(identity: str, partitions: Mapping[PartitionValues, str], position: str = "") -> Snapshot:
    """The snapshot of a table of which all partitions are known."""
    states = (json.dumps([values, state]) for values, state in partitions.items())
    return Snapshot(identity, fingerprint(*many.in_order(states, str)), "", partitions, position)


def _state_of(files: Iterable[Files]) -> str:
    return fingerprint(*sorted(part.sum for part in files))


def _values(name: str, columns: Sequence[str]) -> PartitionValues:
    values = observation.partition_values(name, columns)
    if values is None:
        raise ValueError(f"The partition {name} does not have the columns {', '.join(columns)}.")
    return values


def _listed_places(names: Iterable[Sequence[str]], columns: Sequence[str], root: str) -> dict[PartitionValues, str]:
    """The default locations of partitions with these names."""
    return {_values(name, columns): f"{root}/{name}" for (name,) in names}


def roots_of(places: Collection[str], root: str) -> list[str]:
    """The directories that contain all these locations: the table's location, and those elsewhere."""
    roots = [root] if any(observation.is_within(place, root) for place in places) else []
    roots += many.in_order({place for place in places if not observation.is_within(place, root)}, str)
    # Files that are listed twice would cancel out in the sums.
    known = frozenset(roots)
    return [place for place in roots if known.isdisjoint(_above(place))]


def _above(place: str) -> Iterator[str]:
    """The directories that contain this location."""
    while place := place.rpartition("/")[0]:
        yield place


def _explained_paths(plan: str) -> frozenset[str] | None:
    paths = observation.explained_paths(plan)
    return None if paths is None else frozenset(paths)


def _usual(
    paths: Iterable[str], listed: Mapping[PartitionValues, str], columns: Sequence[str], root: str
) -> tuple[dict[PartitionValues, str], Set[PartitionValues]]:
    """The paths that are the default locations of partitions, by partition; and the other partitions."""
    found = {}
    for path in paths:
        values = observation.partition_values(path[len(root) + 1 :], columns)
        if values is not None and values in listed and observation.is_within(path, root):
            found[values] = path
    return found, listed.keys() - found.keys()


def _all_places(
    usual: Mapping[PartitionValues, str], asked: Mapping[PartitionValues, str], paths: frozenset[str]
) -> dict[PartitionValues, str] | None:
    """The location of each partition; None if one of the paths belongs to no partition."""
    places = {**usual, **asked}
    return places if paths <= set(places.values()) else None


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
