"""Delta tables: everything that can be read of one is in its log, and a version in it never changes.

A look asks which version a table has, and whether its rows changed since the last look. The id of a table is in its log
and takes a statement that may read the whole state of the table. So it is asked for only if the table's history does
not prove that the log is the one of the last look.

Tests: `test_delta_looks`, `test_added_rows`.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

from gateway.errors import StatementFailed
from gateway.loops import in_thread
from gateway.mv.concurrency import both
from gateway.mv.formats.delta_log import DeltaFile, DeltaLog, keeps_columns, log_of
from gateway.mv.formats.file_schemas import difference
from gateway.mv.formats.table_format import (
    FILES_MAX,
    LISTED_MAX,
    Change,
    Moment,
    TableFormat,
    Tools,
    columns_of,
    is_table,
    provider_of,
    refuse_metadata_column,
)
from gateway.mv.model.marks import Mark
from gateway.mv.model.snapshot import PartitionValues, Snapshot, fingerprint
from gateway.mv.ports import Relation, SqlSession
from sql.increments.reasons import NotIncremental, Reason
from sql.names import TableName
from sql.texts import additions, delta_texts, observation

log = logging.getLogger(__name__)
T = TypeVar("T")
DELTA = "delta"
COMMITS_MAX = 1_000
SINGLE_MAX = 50
"""How many files that the table no longer has are read by their paths."""
VERSIONS_MAX = 32
"""In how many versions of a table one refresh looks for changed rows."""
FEED = "delta.enableChangeDataFeed"
MAPPING = "delta.columnMapping.mode"
_ADDED, _REMOVED = ("insert", "update_postimage"), ("delete", "update_preimage")
_WRITES = frozenset({"WRITE", "STREAMING UPDATE", "DELETE", "UPDATE", "MERGE"})
"""Operations that keep the table's id and may change rows."""
_MOVES = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END"})
"""Operations that change no rows."""

_ROWS = (
    *("numOutputRows", "numUpdatedRows", "numDeletedRows"),
    *("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
)
"""Measures of these operations: one that is not 0 means that rows were written or deleted."""
_VERSION, _OPERATION, _MEASURES = 0, 4, 12
"""Columns of DESCRIBE HISTORY (`DeltaHistory` in Delta's sources): the measures are a map of texts, as JSON."""

Commit = tuple[Any, ...]
"""A row of DESCRIBE HISTORY, with its version, time, operation and measures."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The latest commit of a table at its last look."""

    id: str
    location: str
    commit: Commit


class DeltaTables(TableFormat):
    title = "a Delta table"
    cheap = has_history = True
    from_metadata: ClassVar = {"spark.databricks.delta.optimizeMetadataQuery.enabled": "false"}
    paths = frozenset({DELTA})

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.seen: dict[TableName, _Seen] = {}
        """What proves that a log continues."""
        self.memories = (self.seen,)

    @classmethod
    def reads(cls, relation: Relation) -> bool:
        return provider_of(relation) == DELTA and is_table(relation)

    @classmethod
    async def complete(
        cls, session: SqlSession, relation: Relation, again: Callable[[], Awaitable[Relation]], *, identify: bool
    ) -> Relation:
        """With the table's own id instead of the time when it was created."""
        return replace(relation, created=await table_id(session, relation.name) if identify else "")

    # --- looks -------------------------------------------------------------------------------------

    def expected(self, relation: Relation) -> Relation | None:
        """Without the id, which the look asks for if that is necessary."""
        return replace(relation, created="")

    def identified(self, table: TableName, relation: Relation) -> Relation:
        """With the table's id, as the last look found it."""
        seen = self.seen.get(table)
        return relation if relation.created or seen is None else replace(relation, created=seen.id)

    async def look(self, table: TableName, relation: Relation, root: Relation | None) -> Snapshot:
        async with self._tools.listings.session() as session:
            snapshot = await self.look_in(session, table, relation)
        self._tools.last[table] = snapshot
        return snapshot

    async def look_in(self, session: SqlSession, table: TableName, relation: Relation) -> Snapshot:
        """`relation`: with the table's id, or without it, which is then asked for if that is necessary."""
        if table.aspect.removeprefix(observation.VERSION_CLAUSE).isdigit():
            return Snapshot(
                _identity(relation.created or await table_id(session, relation.name), relation), table.aspect
            )
        continued = await self._continued(session, table, relation) if not relation.created else None
        return continued or await self._anew(session, table, relation)

    async def _continued(self, session: SqlSession, table: TableName, relation: Relation) -> Snapshot | None:
        """None if the log is perhaps another one than at the last look. A row of the history has the time and the
        measures of its commit, so no other log has an equal one."""
        seen, last = self.seen.get(table), self._tools.last.get(table)
        if seen is None or last is None or seen.location != relation.location:
            return None
        identity = _identity(seen.id, relation)
        if (last.identity, last.position) != (identity, str(seen.commit[_VERSION])):
            return None
        commits = await _commits(session, relation)
        snapshot = await _followed(session, relation, last, commits) if seen.commit in commits else None
        if snapshot is not None:
            self.seen[table] = replace(seen, commit=commits[0])
        return snapshot

    async def _anew(self, session: SqlSession, table: TableName, relation: Relation) -> Snapshot:
        # The id first: if the table is created again in between, the next look notices it.
        created = relation.created or await table_id(session, relation.name)
        commits = await _commits(session, relation)
        identity, version = _identity(created, relation), f"v{int(commits[0][_VERSION])}"
        self.seen[table] = _Seen(created, relation.location, commits[0])
        last = self._tools.last.get(table)
        if last is not None and last.identity == identity and last.position.isdigit():
            followed = await _followed(session, relation, last, commits)
            if followed is not None:
                return followed
        return Snapshot(identity, version, version, position=version[1:])

    # --- changes -----------------------------------------------------------------------------------

    def check(self, relation: Relation) -> None:
        refuse_metadata_column(relation)

    async def mark(self, relation: Relation, snapshot: Snapshot, now: Moment) -> Mark:
        return Mark(snapshot.identity, snapshot.position)

    async def since(self, relation: Relation, snapshot: Snapshot, mark: Mark, now: Moment) -> Change:
        return await self._change(relation, mark, Mark(snapshot.identity, snapshot.position))

    def rows(self, relation: Relation, mark: Mark) -> str:
        return additions.rows_at(relation.name, columns_of(relation), mark.position)

    async def size(self, relation: Relation) -> int | None:
        async with self._tools.listings.session() as session:
            detail = await session.run(delta_texts.detail(relation.name))
        return int(detail.rows[0][detail.columns.index("sizeInBytes")])

    async def _change(self, relation: Relation, mark: Mark, now: Mark) -> Change:
        table, columns = relation.name, columns_of(relation)
        first, last = int(mark.position) + 1, int(now.position)
        before = additions.rows_at(table, columns, mark.position)
        if last < first:
            if last < first - 1:
                raise NotIncremental(Reason.BASE_REPLACED, f"{table} has an earlier version than the view contains")
            return Change(now, before=before)
        found, feed = await both(
            self._asking(lambda session: _log(session, table, relation, first, last)),
            self._asking(lambda session: _has_property(session, table, FEED, "true")),
        )
        if not found.net.changes:
            return Change(now, before=before)
        if not feed:
            found = found.net
        needed, earlier = await both(
            self._asking(lambda session: _has(session, relation, found.needed)),
            self._asking(
                lambda session: _has(session, relation, found.before, mark.position, removes=not found.appends)
            ),
        )
        if not needed or not (earlier or found.appends or feed):
            raise NotIncremental(Reason.HISTORY_GONE, f"files of {table} with changed rows were deleted by VACUUM")
        before, size = before if earlier else "", sum(file.bytes for file in found.changed)
        if feed:
            plus, minus = (delta_texts.feed(table, columns, first, last, kind) for kind in (_ADDED, _REMOVED))
            if found.appends:
                return Change(now, plus, None, before, size)
            return Change(now, plus, minus, before, size, delta_texts.whole_feed(table, columns, first, last, _REMOVED))
        mapped = not await self._asking(lambda session: _has_property(session, table, MAPPING, "none", absent=True))
        came = [(file, last if file.gone is None else file.gone - 1) for file in found.files if file.plus is not None]
        went = [(file, file.minus if file.moved_in else first - 1) for file in found.files if file.minus is not None]
        added, removed = await both(
            self._rows(relation, came, mapped=mapped), self._rows(relation, went, mapped=mapped)
        )
        return Change(now, added, removed, before, size)

    async def _rows(self, relation: Relation, files: Sequence[tuple[DeltaFile, int]], *, mapped: bool) -> str | None:
        if not files:
            return None
        return await self._asking(lambda session: _rows_of(session, relation, files, mapped=mapped))

    async def _asking(self, ask: Callable[[SqlSession], Coroutine[None, None, T]]) -> T:
        async with self._tools.listings.session() as session:
            return await ask(session)


async def table_id(session: SqlSession, table: TableName) -> str:
    """The id of a Delta table, which no other table has. Raises what Spark raises."""
    detail = await session.run(delta_texts.detail(table))
    return str(detail.rows[0][detail.columns.index("id")])


async def _commits(session: SqlSession, relation: Relation) -> Sequence[Commit]:
    """The latest commits, newest first."""
    return (await session.run(delta_texts.history(relation.name))).rows


def _identity(created: str, relation: Relation) -> str:
    return fingerprint(DELTA, created, observation.plain_path(relation.location))


async def _followed(
    session: SqlSession, relation: Relation, last: Snapshot, commits: Sequence[Commit]
) -> Snapshot | None:
    """The snapshot after the newest of the commits, from an earlier one; None if its changes are not known."""
    version, position = int(commits[0][_VERSION]), int(last.position)
    if position == version:
        return last
    if not position < version <= position + delta_texts.COMMITS_MAX:
        return None
    if not (relation.partition_columns or last.partitions):
        followed = _by_operations(last, commits)
        if followed is not None:
            return followed
    # If the log cannot be read by SQL or was cleaned up, start anew.
    with contextlib.suppress(StatementFailed):
        rows = (await session.run(delta_texts.commits(relation.location, position + 1, version))).rows
        length = len(rows) + len(last.partitions)
        known = await in_thread(length, _by_actions, last, rows, relation.partition_columns, version)
        harmless = delta_texts.HARMLESS_OPERATIONS
        if known is not None and (
            not known.is_described or await keeps_columns(session, relation.location, position, version, harmless)
        ):
            return known.snapshot
    return None


def _by_operations(last: Snapshot, commits: Sequence[Commit]) -> Snapshot | None:
    """The snapshot of a table without partitions; None if the operations tell too little: perhaps none of them has
    changed a row."""
    position, version = int(last.position), int(commits[0][_VERSION])
    later = [commit for commit in commits if int(commit[_VERSION]) > position]
    if len(later) != version - position or not {commit[_OPERATION] for commit in later} <= _WRITES | _MOVES:
        return None
    writes = [commit for commit in later if commit[_OPERATION] in _WRITES]
    if writes and not any(map(_has_written, writes)):
        return None
    state = f"v{int(writes[0][_VERSION])}" if writes else last.state
    return Snapshot(last.identity, state, last.default, position=str(version))


def _has_written(commit: Commit) -> bool:
    """Whether a commit has certainly written or deleted rows."""
    try:
        measures = json.loads(commit[_MEASURES])
        return any(int(measures.get(name, 0)) > 0 for name in _ROWS)
    except (LookupError, TypeError, ValueError):
        return False


class _Told(NamedTuple):
    """What the files of some commits tell."""

    snapshot: Snapshot
    is_described: bool
    """Whether the snapshot is only right if the table's columns have not changed."""


def _by_actions(last: Snapshot, rows: Iterable[tuple[Any, ...]], columns: Sequence[str], version: int) -> _Told | None:
    """The snapshot of a Delta table at `version`, from an earlier one and the commits since; None if they do not
    suffice, because some are gone."""
    partitions, newest, commits = dict(last.partitions), -1, 0
    described, harmless = set[int](), set[int]()
    latest: dict[PartitionValues, int] = {}
    for kind, detail, changed, versions, number in rows:
        if kind is None:
            commits = number
        elif kind == "data":
            newest = max(newest, changed)
            values = delta_texts.values_of(detail, columns)
            if columns and values is None:
                return None
            if columns and values is not None:
                latest[values] = max(changed, latest.get(values, -1))
        elif kind == "schema":
            described.update(json.loads(versions))
        elif detail in delta_texts.HARMLESS_OPERATIONS:
            harmless.update(json.loads(versions))
    if commits != version - int(last.position):
        return None
    partitions.update((values, f"v{changed}") for values, changed in latest.items())
    state = f"v{newest}" if newest >= 0 else last.state
    return _Told(Snapshot(last.identity, state, last.default, partitions, str(version)), bool(described - harmless))


# --- changes -----------------------------------------------------------------------------------------------


async def _log(session: SqlSession, table: TableName, relation: Relation, first: int, last: int) -> DeltaLog:
    """What the commits did. Raises NotIncremental if that is not known, or if there are other columns since."""
    if last - first >= COMMITS_MAX:
        raise NotIncremental(Reason.TOO_MANY_FILES, f"{table} has {last - first + 1} new commits")
    try:
        rows = (await session.run(delta_texts.actions(relation.location, first, last, LISTED_MAX))).rows
        found = await in_thread(len(rows), log_of, rows)
        described = found.described and not await keeps_columns(session, relation.location, first - 1, last)
    except StatementFailed as error:
        raise NotIncremental(Reason.HISTORY_GONE, f"the log of {table} cannot be read: {error}") from error
    if found.commits < last - first + 1:
        raise NotIncremental(
            Reason.HISTORY_GONE, f"the log of {table} no longer has all commits since the last refresh"
        )
    if described:
        raise NotIncremental(Reason.BASE_REPLACED, f"columns or properties of {table} have changed")
    if len(rows) >= LISTED_MAX and all(file.added or file.removed or file.feeds for file in found.files):
        raise NotIncremental(Reason.TOO_MANY_FILES, f"more than {LISTED_MAX} files of {table} have changed")
    return found


async def _has(
    session: SqlSession, relation: Relation, files: Sequence[DeltaFile], version: str = "", *, removes: bool = False
) -> bool:
    """Whether these files are there, of which there are none if nothing was removed; and whether the version can be
    read, if there are files or if `removes`."""
    if not files and not removes:
        return True
    table = relation.name if version else None
    try:
        paths = [file.path for file in files]
        await session.run(delta_texts.present(relation.location, paths, table, version or "0"))
    except StatementFailed:
        return False
    return True


async def _rows_of(
    session: SqlSession, relation: Relation, files: Sequence[tuple[DeltaFile, int]], *, mapped: bool
) -> str:
    """The query for the rows of files, each with a version that has it. Those of which no row is deleted are read
    themselves where the table has no columns that are not in its files; the others through the table."""
    table = relation.name
    if len(files) > FILES_MAX:
        raise NotIncremental(Reason.TOO_MANY_FILES, f"{table} has {len(files)} new files")
    columns, by = columns_of(relation), relation.partition_columns
    queries, direct = list[str](), set[str]()
    plain = [file for file, _ in files if not file.vector and additions.is_plain(file.path)]
    here = sorted(file.path for file in plain if file.gone is None)
    gone = sorted(file.path for file in plain if file.gone is not None)
    for names, text in ((here, delta_texts.files), (gone, delta_texts.single_files)):
        if by or mapped or not names or (names is gone and len(gone) > SINGLE_MAX):
            continue
        query = text(relation.location, columns, names)
        # Delta leaves out columns that a DataFrame does not have; files of other writers may have narrower ones.
        if why := await difference(session, relation, query):
            log.info("%s; they are read through the table", why)
        else:
            queries.append(query)
            direct.update(names)
    through: dict[int, list[DeltaFile]] = {}
    for file, version in files:
        if file.path in direct:
            continue
        if not delta_texts.is_unique(file.name):
            raise NotIncremental(Reason.PROVIDER, f"{table} has a new file whose name may not be unique: {file.path}")
        through.setdefault(version, []).append(file)
    if len(through) > VERSIONS_MAX:
        raise NotIncremental(Reason.TOO_MANY_FILES, f"changed rows of {table} are in {len(through)} versions of it")
    kinds = {} if mapped else {name: kind for name, kind in relation.columns if name in by}
    for version, read in sorted(through.items()):
        filters = delta_texts.partition_filters(kinds, [file.values for file in read])
        queries.append(delta_texts.files_at(table, columns, [file.name for file in read], version, filters))
    return " UNION ALL ".join(queries)


async def _has_property(session: SqlSession, table: TableName, name: str, value: str, *, absent: bool = False) -> bool:
    """Whether a table has the property with this value; `absent`: or does not have it."""
    found = str((await session.run(delta_texts.table_property(table, name))).rows[0][1])
    return found.lower() == value or (absent and "does not have property" in found)
