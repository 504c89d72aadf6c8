"""Looks at base tables: what each looked like when it was last looked at, and who may share a look.

Files are listed, Delta's log and Iceberg's metadata tables are read, all by statements in service sessions. No row of a
base table is read; what the files of a partition are is folded to one row inside Spark.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from gateway.errors import FreshgateError, StatementFailed, UpstreamLost
from gateway.loops import aside
from gateway.mv import many
from gateway.mv.model.snapshot import GONE, Observed, PartitionValues, Snapshot, Unobserved, fingerprint
from gateway.mv.ports import Function, Metastore, Relation, RelationKind, Sessions, SqlSession
from gateway.mv.subscribers import Subscribers
from sql.names import FUNCTION, TableName
from sql.texts import observation

FILE_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryfile", "hive"})
ICEBERG = "iceberg"
LONG_NAMES = ("org.apache.spark.sql.", "com.databricks.spark.")
"""What old tables have before the name of a format."""
PATH_NOT_FOUND = "42K03"
UNKNOWN_DIRECTORIES = 1000
"""Where nothing tells how many directories a listing comes through."""
LOCATIONS_TOGETHER = 50
"""Locations that one statement lists."""
NAMED_MAX = 3
"""Locations that a reason names."""
DESCRIBED_NEWLY, DESCRIBED_AGAIN = 200, 64
"""Partitions of a table of Hive's formats whose places one look asks for, for the first time and anew; see
`_asked`."""
DESCRIBING_SESSIONS = 4


@dataclass(frozen=True, slots=True)
class Look:
    """What a table looked like."""

    observed: Observed
    began: float
    """By the clock of the observer."""
    is_view: bool = False
    relation: Relation | None = None
    """None where there is no such table, or the metastore did not answer, and of functions."""
    function: Function | None = None
    root: TableName | None = None
    """The table that Spark must look at anew where the name is that of a branch or a metadata table."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A look, and which touch of any table was the last before it began."""

    look: Look
    touch: int

    def serves(self, not_before: float, touch: int) -> bool:
        return self.look.began >= not_before and self.touch >= touch


FEW_FILES = 64
"""So many files one task asks for, one after the other: 50 ms each in an object store that is slow."""


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a directory: the sum of all their names, times and sizes, how many, and their bytes."""

    directory: str
    sum: str
    count: int


class Observer:
    """Looks at base tables; looks are shared by all who ask meanwhile, and remembered.

    The sessions are for looks alone: they keep the settings that make listings cheap.
    """

    def __init__(
        self,
        metastore: Metastore,
        sessions: Sessions,
        look_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metastore = metastore
        self._clock = clock
        self._tables = _Tables(sessions, look_seconds)
        self._known: dict[TableName, _Known] = {}
        self._running: dict[TableName, asyncio.Task[_Known]] = {}
        self._touches = 0
        self._touched: dict[TableName, int] = {}
        self.looked: Subscribers[[TableName]] = Subscribers()
        """A look at this table has ended."""

    async def observe(self, tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
        """A look at each table that began at `not_before` or later, and not before the table was last touched. What
        cannot be observed is Unobserved; never raises FreshgateError."""
        names = list(dict.fromkeys(tables))
        looks = await asyncio.gather(*(self._shared(name, not_before) for name in names))
        return dict(zip(names, looks, strict=True))

    def due(self, tables: Iterable[TableName], not_before: float) -> bool:
        """Whether `observe` would have to look."""
        return any(self._remembered(table, not_before, self._touched.get(table, 0)) is None for table in tables)

    def is_newer(self, tables: Iterable[TableName], compared: Mapping[TableName, float]) -> bool:
        """Whether a look at one of the tables is known that is not the one which began when `compared` says."""
        return any(
            (known := self._known.get(table)) is not None and known.look.began != compared.get(table)
            for table in tables
        )

    def touch(self, tables: Iterable[TableName]) -> None:
        """A statement may have changed them: looks that began before now do not count. Of most tables that statements
        write there is none."""
        for table in tables:
            # Of a function this is all that may tell that it is another one.
            if table in self._known or table in self._running or table.is_function:
                self._touches += 1
                self._touched[table] = self._touches

    def seed(self, table: TableName, snapshot: Snapshot) -> None:
        """A stored earlier look, from which the next one goes on. Of several the best is kept: one that knows what
        partitions looked like, and then the latest."""
        known = self._tables.last.get(table)
        if known is None or _rank(snapshot) > _rank(known):
            self._tables.last[table] = snapshot

    def forget(self, tables: Iterable[TableName]) -> None:
        """No view reads them any more. One that is being looked at stays: `looked` tells when that has ended."""
        for table in frozenset(tables) - self._running.keys():
            for remembered in (self._known, self._touched, *self._tables.remembering):
                remembered.pop(table, None)

    async def _relations(self, table: TableName) -> tuple[Relation | None, Relation | None]:
        """What a name stands for; and the Iceberg table whose branch, or metadata table, that is, if it is one."""
        if table.path:
            return Relation(table, RelationKind.TABLE, provider=table.database, location=table.path), None
        relation = await self._metastore.relation(table.whole)
        if relation is None or relation.provider != ICEBERG or (above := table.above) is None:
            return relation, None
        root = await self._metastore.relation(above)
        return relation, root if root is not None and root.provider == ICEBERG else None

    def _function(self, name: TableName, function: Function | None, touch: int) -> Observed:
        """Of a function of a class only the class can be seen. So a statement that has created it anew, perhaps with
        another archive, has changed it."""
        if function is None:
            return GONE
        anew = self._touched.get(name, 0) if not function.body else 0
        return Snapshot(FUNCTION, fingerprint(function.described) + (f"+{min(anew, touch)}" if anew else ""))

    def _remembered(self, table: TableName, not_before: float, touch: int) -> Look | None:
        known = self._known.get(table)
        return known.look if known is not None and known.serves(not_before, touch) else None

    async def _shared(self, table: TableName, not_before: float) -> Look:
        # Nobody can ask for a look of the future, and touches from now on are not waited for.
        not_before, touch = min(not_before, self._clock()), self._touched.get(table, 0)
        while True:
            look = self._remembered(table, not_before, touch)
            if look is not None:
                return look
            task = self._running.get(table)
            if task is None:
                task = self._running[table] = asyncio.create_task(self._look(table))
            # Who is cancelled leaves the look to the others.
            known = await asyncio.shield(task)
            if known.serves(not_before, touch):
                return known.look

    async def _look(self, table: TableName) -> _Known:
        # Not the table's last one: who asks may know of that, and it may have been forgotten since.
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
                relation, root = await self._relations(table)
                observed = await self._tables.observed(table, relation, root)
        except UpstreamLost as error:
            # Spark is soon back; the next to ask tries again.
            observed, remember = Unobserved(str(error)), False
        except (FreshgateError, ValueError) as error:
            observed = Unobserved(str(error))
        except TimeoutError:
            observed = Unobserved(f"{table}: a look took longer than staleness.look_timeout allows")
        finally:
            del self._running[table]
        is_view = relation is not None and relation.kind is not RelationKind.TABLE
        known = _Known(Look(observed, began, is_view, relation, function, root.name if root else None), touch)
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
    """Where the partitions of one table are, as far as it was asked; who was asked for longest ago stands first."""

    identity: str
    found: dict[PartitionValues, str] = field(default_factory=dict)
    partitions: int = 0
    """How many the table had."""


class _Tables:
    """One look at one table, by what it is stored as."""

    def __init__(self, sessions: Sessions, look_seconds: float) -> None:
        self._sessions = sessions
        self._look_seconds = look_seconds
        self.last: dict[TableName, Snapshot] = {}
        """Looks with a position, from which the next ones go on."""
        self.places: dict[TableName, _Places] = {}
        self.files: dict[TableName, int] = {}
        """How many files the last look found."""
        self.remembering = (self.last, self.places, self.files)
        self._set_up: WeakKeyDictionary[SqlSession, int] = WeakKeyDictionary()
        """Sessions that have the settings for listing, and the number of tasks that each lists with."""

    async def observed(self, table: TableName, relation: Relation | None, root: Relation | None) -> Observed:
        if relation is None:
            return GONE
        if relation.kind is RelationKind.VIEW:
            return _view(relation)
        provider = relation.provider
        for prefix in LONG_NAMES:
            provider = provider.removeprefix(prefix)
        if provider in FILE_FORMATS and relation.location and relation.kind is RelationKind.TABLE:
            return await self._files_twice(relation)
        if provider not in {"delta", ICEBERG} or (table.path and provider == ICEBERG):
            what = f"tables of {relation.provider}" if relation.provider else "tables that name no format"
            return Unobserved(f"{table}: {what} cannot be observed")
        async with self._session() as session:
            if provider == "delta":
                snapshot = await self._delta_at(session, table, relation)
            elif root is not None or table.aspect:
                return await self._iceberg_at(session, table, root or relation)
            else:
                snapshot = await self._iceberg(session, relation)
        self.last[table] = snapshot
        return snapshot

    # --- Delta ---------------------------------------------------------------------------------------

    async def _delta_at(self, session: SqlSession, table: TableName, relation: Relation) -> Snapshot:
        """All that can be read of a table is in its log; a version that is in there stays what it is."""
        if table.path:
            detail = await session.run(observation.delta_detail(table))
            relation = replace(relation, created=str(detail.rows[0][detail.columns.index("id")]))
        if table.aspect.removeprefix(observation.VERSION_CLAUSE).isdigit():
            return Snapshot(_delta_identity(relation), table.aspect)
        return await self._delta(session, relation)

    async def _delta(self, session: SqlSession, relation: Relation) -> Snapshot:
        identity = _delta_identity(relation)
        version = int((await session.run(observation.delta_version(relation.name))).rows[0][0])
        last = self.last.get(relation.name)
        if last is not None and last.identity == identity and last.position.isdigit():
            position = int(last.position)
            if position == version:
                return last
            if position < version <= position + observation.COMMITS_MAX:
                commits = observation.delta_commits(relation.location, position + 1, version)
                # A log that SQL may not read, or that was cleaned up, has nothing to go on from.
                with contextlib.suppress(StatementFailed):
                    rows = (await session.run(commits)).rows
                    followed = await aside(
                        len(rows) + len(last.partitions), _followed, last, rows, relation.partition_columns, version
                    )
                    if followed is not None:
                        return followed
        first = f"v{version}"
        return Snapshot(identity, first, first, position=str(version))

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
            raise StatementFailed(f"{table} does not tell its current snapshot.")
        last = self.last.get(table)
        if last and (last.identity, last.position) == (identity, position) and (last.default or last.partitions):
            return last
        if relation.partition_columns:
            width = len(relation.partition_columns)
            # Of a table that was partitioned in another way before Spark may refuse the question.
            with contextlib.suppress(StatementFailed):
                rows = (await session.run(observation.iceberg_files(relation.name, position, width))).rows
                found = await aside(len(rows), _of_iceberg, identity, position, rows, width)
                if found is not None:
                    return found
        history = (await session.run(observation.iceberg_history(table))).rows
        state = f"s{observation.unreplaced(history, position)}"
        return Snapshot(identity, state, state, position=position)

    async def _iceberg_at(self, session: SqlSession, table: TableName, root: Relation) -> Observed:
        """A branch, a tag, a snapshot; or anything else that can be read of a table, whose every change has a metadata
        file of its own."""
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
            # Files and partitions that went between two statements of one look are no reason to know nothing.
            return await self._files(relation)

    async def _files(self, relation: Relation) -> Snapshot:
        root = observation.plain_path(relation.location)
        columns = (json.dumps(relation.columns), json.dumps(relation.partition_columns))
        identity = fingerprint(relation.created, root, relation.provider, relation.reading, *columns)
        if relation.name.path:
            return Snapshot(identity, _state_of(await self._matched(relation.name)))
        if not relation.partition_columns:
            return Snapshot(identity, _state_of(self._noted(relation.name, await self._listed(relation.name, [root]))))
        if not relation.partitions_listed:
            found = self._noted(relation.name, await self._listed(relation.name, [root]))
            return await aside(len(found), _of_directories, identity, found, root, relation.partition_columns)
        # Where partitions have no locations of their own, as usual, all files are below the table's: they are listed
        # while Spark tells the places.
        places, at_root = await asyncio.gather(
            self._partition_places(relation, root, identity),
            self._listed(relation.name, [root], self._partitions_then(relation.name)),
            return_exceptions=True,
        )
        if isinstance(places, BaseException):
            raise places
        roots = await aside(len(places), _roots, places.values(), root)
        files = await self._listed(relation.name, [place for place in roots if place != root], len(places))
        if root in roots:
            if isinstance(at_root, BaseException):
                raise at_root
            files += at_root
        self._noted(relation.name, files)
        return await aside(len(files) + len(places), _of_places, identity, files, places)

    async def _listed(
        self, table: TableName, locations: Sequence[str], directories: int = UNKNOWN_DIRECTORIES
    ) -> list[_Files]:
        found: list[_Files] = []
        if not locations:
            return found
        few = self.files.get(table, FEW_FILES + 1) <= FEW_FILES
        async with self._session() as session:
            await self._prepare(session, directories)
            for start in range(0, len(locations), LOCATIONS_TOGETHER):
                found += await _list(session, locations[start : start + LOCATIONS_TOGETHER], few=few)
        return found

    async def _matched(self, name: TableName) -> list[_Files]:
        """The files of a path, in which there may be `*` and its like."""
        async with self._session() as session:
            rows = (await session.run(observation.list_files([name.path], patterns=True))).rows
        return [_Files(directory, f"{directory} {' '.join(map(str, sums))}", sums[1]) for directory, *sums in rows]

    def _noted(self, table: TableName, files: list[_Files]) -> list[_Files]:
        # Of very many it does not matter how many they are.
        self.files[table] = sum(part.count for part in files[: FEW_FILES + 1])
        return files

    def _partitions_then(self, table: TableName) -> int:
        """How many partitions the last look found, about as many as this one will."""
        memory = self.places.get(table)
        return memory.partitions if memory is not None else UNKNOWN_DIRECTORIES

    async def _partition_places(self, relation: Relation, root: str, identity: str) -> dict[PartitionValues, str]:
        """Where each partition of the metastore's list is: below the table's location by default, anywhere else
        where the partition has a location of its own."""
        columns = relation.partition_columns
        async with self._session() as session:
            names = (await session.run(observation.list_partitions(relation.name))).rows
            listed = await aside(len(names), _listed_places, names, columns, root)
            if not listed:
                return {}
            await self._prepare(session, len(listed))
            plan = (await session.run(observation.explain_partitions(relation.name, columns))).rows
        paths = await aside(len(listed), observation.explained_paths, plan[0][0])
        memory = self.places.get(relation.name)
        if memory is None or memory.identity != identity:
            memory = self.places[relation.name] = _Places(identity)
        memory.partitions = len(listed)
        if paths is not None:
            return await self._explained(relation, memory, listed, frozenset(paths), root)
        # Where there are very many, some are believed to be at their usual places until a later look has asked.
        return {**listed, **await self._asked(relation, memory, listed, DESCRIBED_NEWLY)}

    async def _explained(
        self,
        relation: Relation,
        memory: _Places,
        listed: Mapping[PartitionValues, str],
        paths: frozenset[str],
        root: str,
    ) -> dict[PartitionValues, str]:
        """`paths` has the places of all partitions, but does not say which is whose. Where a partition's usual place is
        among them, and no other partition has it, that is its own; the others are asked for."""
        usual = await aside(len(paths), _usual, paths, listed, relation.partition_columns, root)
        memory.found = {values: place for values, place in memory.found.items() if place in paths}
        asked = await self._asked(relation, memory, listed.keys() - usual.keys(), len(listed))
        if taken := set(asked.values()):
            asked |= await self._describe(relation, [values for values, path in usual.items() if path in taken])
        places = usual | asked
        if not paths <= set(places.values()):
            # A partition stands at its usual place by name, and is elsewhere.
            return await self._describe(relation, list(listed))
        return places

    async def _asked(
        self, relation: Relation, memory: _Places, wanted: Collection[PartitionValues], most: int
    ) -> dict[PartitionValues, str]:
        """The places of partitions whose places no plan tells, `most` of them for the first time.

        There is only one statement for each partition, and Spark asks the metastore for one after the other. So each
        is asked for once and remembered, and some anew in every look, for a place may be changed.
        """
        known, new = await aside(len(wanted), _divided, wanted, memory.found)
        asked = await self._describe(relation, new[:most] + known[:DESCRIBED_AGAIN])
        memory.found = {values: memory.found[values] for values in known if values not in asked} | asked
        return dict(memory.found)

    async def _describe(self, relation: Relation, wanted: Collection[PartitionValues]) -> dict[PartitionValues, str]:
        waiting = list(wanted)
        found: dict[PartitionValues, str] = {}

        async def work() -> None:
            async with self._session() as session:
                while waiting:
                    values = waiting.pop()
                    describe = observation.describe_partition(relation.name, relation.partition_columns, values)
                    try:
                        answer = await session.run(describe)
                    except BaseException:  # cancelled too: the other workers need not go on
                        waiting.clear()
                        raise
                    found[values] = observation.described_location(answer.rows[0][0])

        workers = min(DESCRIBING_SESSIONS, -(-len(waiting) // DESCRIBED_AGAIN))
        await asyncio.gather(*(work() for _ in range(workers)))
        return found

    async def _prepare(self, session: SqlSession, directories: int) -> None:
        """Makes it list with as many tasks as so many directories are worth."""
        tasks = observation.listing_tasks(directories)
        if directories > observation.LISTED_AT_ONCE and self._set_up[session] != tasks:
            await session.run(observation.set_setting(observation.LISTING_TASKS, str(tasks)))
            self._set_up[session] = tasks

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[SqlSession]:
        """A session with the settings for listing, which it keeps. Raises TimeoutError where it is needed for too long;
        the wait for one does not count."""
        async with self._sessions.session() as session, asyncio.timeout(self._look_seconds):
            if session not in self._set_up:
                for key, value in observation.LISTING_SETTINGS.items():
                    await session.run(observation.set_setting(key, value))
                self._set_up[session] = observation.LISTING_TASKS_MAX
            yield session


# --- states --------------------------------------------------------------------------------------------


def _delta_identity(relation: Relation) -> str:
    return fingerprint("delta", relation.created, observation.plain_path(relation.location))


def _view(relation: Relation) -> Snapshot:
    """What a view is made of. What its tables hold is theirs to tell."""
    namespace = relation.namespace
    columns = json.dumps(relation.columns)
    state = fingerprint(relation.view_text, namespace.catalog, namespace.database, columns, relation.reading)
    return Snapshot("view", state)


def _divided(
    wanted: Iterable[PartitionValues], found: Container[PartitionValues]
) -> tuple[list[PartitionValues], list[PartitionValues]]:
    """Those that were found, and the others."""
    divided: tuple[list[PartitionValues], list[PartitionValues]] = ([], [])
    for values in wanted:
        divided[values not in found].append(values)
    return divided


def _of_iceberg(identity: str, position: str, rows: Sequence[tuple[Any, ...]], width: int) -> Snapshot | None:
    """None where the table was partitioned in another way before: then its files have other values, or none."""
    if any(row[-1] != 0 for row in rows):
        return None
    states = {tuple(row[:width]): fingerprint(f"{row[width]} {row[width + 1]}") for row in rows}
    return _snapshot(identity, states, position)


def _of_directories(identity: str, files: Iterable[_Files], root: str, columns: Sequence[str]) -> Snapshot:
    return _snapshot(identity, _inferred(files, root, columns))


def _of_places(identity: str, files: Iterable[_Files], places: Mapping[PartitionValues, str]) -> Snapshot:
    return _snapshot(identity, _folded(files, places))


def _snapshot(identity: str, partitions: Mapping[PartitionValues, str], position: str = "") -> Snapshot:
    """Of a table of which every partition is known."""
    states = (json.dumps([values, state]) for values, state in partitions.items())
    return Snapshot(identity, fingerprint(*many.in_order(states, str)), "", partitions, position)


def _state_of(files: Iterable[_Files]) -> str:
    return fingerprint(*sorted(part.sum for part in files))


def _values(name: str, columns: Sequence[str]) -> PartitionValues:
    values = observation.partition_values(name, columns)
    if values is None:
        raise ValueError(f"The partition {name} has other columns than {', '.join(columns)}.")
    return values


def _listed_places(names: Iterable[Sequence[str]], columns: Sequence[str], root: str) -> dict[PartitionValues, str]:
    """Where partitions of these names are by default."""
    return {_values(name, columns): f"{root}/{name}" for (name,) in names}


def _roots(places: Collection[str], root: str) -> list[str]:
    """The directories that have all places below them: the table's location, and what is elsewhere."""
    roots = [root] if any(observation.is_within(place, root) for place in places) else []
    roots += many.in_order({place for place in places if not observation.is_within(place, root)}, str)
    # Files that are listed twice would cancel each other out.
    known = frozenset(roots)
    return [place for place in roots if known.isdisjoint(_above(place))]


def _above(place: str) -> Iterator[str]:
    """The directories that a place is in."""
    while place := place.rpartition("/")[0]:
        yield place


async def _list(session: SqlSession, locations: Sequence[str], *, few: bool) -> list[_Files]:
    """A location that is not there has no files; so Spark's queries see it."""
    try:
        rows = (await session.run(observation.list_files(locations, few=few))).rows
    except StatementFailed as error:
        if error.sqlstate != PATH_NOT_FOUND:
            # Of a path that it cannot list Spark says less than which one it was.
            named = ", ".join(locations[:NAMED_MAX])
            raise StatementFailed(f"The files at {named} cannot be listed.", error.sqlstate, str(error)) from error
        if len(locations) == 1:
            return []
        return [part for location in locations for part in await _list(session, [location], few=few)]
    return await aside(len(rows), _files_of, rows, locations)


def _files_of(rows: Iterable[tuple[Any, ...]], locations: Sequence[str]) -> list[_Files]:
    found = []
    for directory, *sums in rows:
        if not any(observation.is_within(directory, location) for location in locations):
            raise ValueError(f"Files of {', '.join(locations)} are listed as those of {directory}.")
        found.append(_Files(directory, " ".join(map(str, sums)), sums[1]))
    return found


def _usual(
    paths: Iterable[str], listed: Container[PartitionValues], columns: Sequence[str], root: str
) -> dict[PartitionValues, str]:
    """Those of the paths at which partitions are by default."""
    found = {}
    for path in paths:
        values = observation.partition_values(path[len(root) + 1 :], columns)
        if values is not None and values in listed and observation.is_within(path, root):
            found[values] = path
    return found


def _folded(files: Iterable[_Files], places: Mapping[PartitionValues, str]) -> dict[PartitionValues, str]:
    """The state of each partition, from the files at its place and below. Files elsewhere do not count."""
    at: dict[str, list[_Files]] = {place: [] for place in places.values()}
    for part in files:
        place = part.directory
        while place and place not in at:
            place = place.rpartition("/")[0]
        if place:
            at[place].append(part)
    states = {place: _state_of(parts) for place, parts in at.items()}
    return {values: states[place] for values, place in places.items()}


def _inferred(files: Iterable[_Files], root: str, columns: Sequence[str]) -> dict[PartitionValues, str]:
    """The partitions of a table of which the metastore has no list: the directories are the list."""
    found: dict[PartitionValues, list[_Files]] = {}
    for part in files:
        segments = part.directory[len(root) + 1 :].split("/")[: len(columns)]
        values = observation.partition_values("/".join(segments), columns)
        if values is not None:
            found.setdefault(values, []).append(part)
    return {values: _state_of(parts) for values, parts in found.items()}


def _followed(last: Snapshot, rows: Iterable[tuple[Any, ...]], columns: Sequence[str], version: int) -> Snapshot | None:
    """Delta's table at `version`, from an earlier look and what the commits since did; None where they do not tell all:
    some are gone, or the table's columns may have become others."""
    partitions, newest, commits = dict(last.partitions), -1, 0
    described, harmless = set[int](), set[int]()
    latest: dict[PartitionValues, int] = {}
    for kind, detail, changed, versions, number in rows:
        if kind is None:
            commits = number
        elif kind == "data":
            newest = max(newest, changed)
            values = observation.delta_values(detail, columns)
            if columns and values is None:
                return None
            if columns and values is not None:
                latest[values] = max(changed, latest.get(values, -1))
        elif kind == "schema":
            described.update(json.loads(versions))
        elif detail in observation.HARMLESS_OPERATIONS:
            harmless.update(json.loads(versions))
    if commits != version - int(last.position) or described - harmless:
        return None
    partitions.update((values, f"v{changed}") for values, changed in latest.items())
    state = f"v{newest}" if newest >= 0 else last.state
    return Snapshot(last.identity, state, last.default, partitions, str(version))
