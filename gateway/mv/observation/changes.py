"""Finds the rows that were added to a base table, or removed from it, since a mark, by statements alone, which list
files and read logs. No row is read here; the answer is a query for the rows.

Tests: `test_added_rows`, `test_added_rows_on_spark`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gateway.errors import FreshgateError, StatementFailed
from gateway.loops import aside
from gateway.mv.concurrency import both
from gateway.mv.model.marks import Fold, Mark, YoungFile, of_files
from gateway.mv.model.snapshot import PartitionValues, Snapshot, Unobserved, fingerprint
from gateway.mv.observation import hive_files
from gateway.mv.observation.delta_log import DeltaFile, DeltaLog, keeps_columns, log_of
from gateway.mv.observation.delta_looks import DELTA
from gateway.mv.observation.file_schemas import difference
from gateway.mv.observation.listings import PATH_NOT_FOUND
from gateway.mv.observation.observer import (
    FILE_FORMATS,
    ICEBERG,
    Look,
    Observer,
    provider_of,
    roots_of,
)
from gateway.mv.ports import Relation, RelationKind, SqlSession
from sql.increments.reasons import NotIncremental, Reason
from sql.names import TableName
from sql.releases import NEWEST, Speaking
from sql.texts import additions, observation

log = logging.getLogger(__name__)
HIVE = "hive"
WITH_HISTORY = frozenset({DELTA, ICEBERG})
"""Formats of which an earlier state can be read."""
T = TypeVar("T")
FILES_MAX = 2_000
"""How many new files one refresh names in a statement."""
LISTED_MAX = 20_000
"""How many files one listing names, or one reading of a log. If more are young, a mark folds all."""
ROWS_MAX = 200_000
"""How many files and directories one listing may have as rows."""
EVER = 2**62
"""A bound after which no file was modified."""
COMMITS_MAX = 1_000
SETTLED_MS = 3_600_000
"""Files older than an hour are folded into one number: clocks differ less, and a writer takes less from the time of a
file to its appearance."""
SIZE_SECONDS = 600.0
"""For how long a size is remembered: only its order matters."""
SIZES_MAX = 10_000
"""Tables whose sizes are remembered; many may have been dropped meanwhile."""
FEED = "delta.enableChangeDataFeed"
MAPPING = "delta.columnMapping.mode"
_ADDED, _REMOVED = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a table since a mark, as queries with all columns of the table in its order."""

    mark: Mark
    """The state after it."""
    added: str | None = None
    """Exactly the added rows; None: there are none."""
    removed: str | None = None
    before: str = ""
    """The rows at the earlier mark; empty if they cannot be read."""
    bytes: int = 0
    """Of the added files; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of a table: those that were modified until `bound`, and the younger ones."""

    bound: int
    older: Fold
    young: tuple[YoungFile, ...]
    latest: int = 0
    """When the latest of the older ones was modified."""
    places: Mapping[PartitionValues, str] | None = None
    """As `Observer.places`."""


class Changes:
    """Every method may raise NotIncremental, and what Spark raises."""

    def __init__(
        self,
        observer: Observer,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        *,
        dialect: Speaking = lambda: NEWEST,
    ) -> None:
        self._observer = observer
        self._dialect = dialect
        self._now_ms = now_ms
        self._sizes: dict[TableName, tuple[float, int | None]] = {}
        """When the bytes of a table were asked for, and how many these were."""

    async def size(self, table: TableName, look: Look) -> int | None:
        """About how many bytes the table has; None if that is unknown. Never raises what Spark raises."""
        listed, relation = self._observer.size(table), look.relation
        if listed is not None or relation is None or look.is_view:
            return listed
        known = self._sizes.get(table)
        if known is None or known[0] < time.monotonic() - SIZE_SECONDS:
            try:
                known = time.monotonic(), await self._ask_size(table, provider_of(relation))
            except (FreshgateError, TimeoutError, ValueError):
                return None
            if len(self._sizes) >= SIZES_MAX:
                self._sizes.clear()
            self._sizes[table] = known
        return known[1]

    def known_size(self, table: TableName) -> int:
        """As `size`, as far as it is known without a statement; 0 if it is not."""
        _, asked = self._sizes.get(table, (0.0, None))
        return self._observer.size(table) or asked or 0

    async def _ask_size(self, table: TableName, provider: str) -> int | None:
        async with self._observer.session() as session:
            if provider == DELTA:
                detail = await session.run(observation.delta_detail(table))
                return int(detail.rows[0][detail.columns.index("sizeInBytes")])
            if provider == ICEBERG:
                return int((await session.run(additions.iceberg_bytes(table))).rows[0][0] or 0)
        return None

    def check(self, table: TableName, look: Look) -> None:
        """Raises NotIncremental if changes of the table can never be found."""
        _plain(table, look)

    async def mark(self, table: TableName, look: Look) -> Mark:
        """The state of the table: now, or at the look, if it has a history."""
        relation, identity = _plain(table, look)
        provider = provider_of(relation)
        with _refusals(table):
            if provider == DELTA:
                return Mark(identity, _position(look))
            if provider == ICEBERG:
                async with self._observer.session() as session:
                    position = await _iceberg_snapshot(session, table)
                    await _check_schema(session, relation, position)
                    return Mark(identity, position)
            settled = self._now_ms() - SETTLED_MS
            try:
                found = await self._list(relation, settled)
            except NotIncremental:
                found = await self._list(relation, EVER)
            return of_files(identity, found.bound, found.older, found.young, settled, found.latest)

    async def since(self, table: TableName, look: Look, mark: Mark) -> Change:
        """What happened to the table since the mark."""
        relation, identity = _plain(table, look)
        if identity != mark.identity:
            raise NotIncremental(Reason.BASE_REPLACED, f"{table} was replaced, or its columns have changed")
        provider = provider_of(relation)
        with _refusals(table):
            if provider == DELTA:
                return await self._delta_change(relation, mark, Mark(identity, _position(look)))
            if provider == ICEBERG:
                if not self._dialect().takes_options:
                    raise NotIncremental(
                        Reason.PROVIDER, "this release of Spark cannot name snapshots of Iceberg in FROM"
                    )
                async with self._observer.session() as session:
                    return await _iceberg_change(session, relation, mark)
            return await self._files_since(table, relation, mark)

    def rows(self, table: TableName, look: Look, mark: Mark) -> str:
        """The query for the rows of the table at its present mark, with all its columns. Rows that appear while it runs
        are not read; `holding` tells whether it was so."""
        relation, _ = _plain(table, look)
        columns = [name for name, _ in relation.columns]
        if provider_of(relation) == HIVE:
            return additions.all_rows(table, columns)
        if provider_of(relation) not in WITH_HISTORY:
            return additions.rows_until(table, columns, mark.until)
        if mark.position == observation.NO_SNAPSHOT:
            return f"{additions.all_rows(table, columns)} WHERE false"
        return additions.rows_at(table, columns, mark.position)

    async def holding(self, table: TableName, look: Look, mark: Mark) -> bool:
        """Whether `rows`, and a query of its files by name, have read what the mark contains: nothing has vanished, and
        no file has appeared with a time until which they read. (For a Hive table: at any time.)"""
        relation, _ = _plain(table, look)
        provider = provider_of(relation)
        with _refusals(table):
            if provider in WITH_HISTORY:
                # A version stays what it was, and a query of one fails if its files are gone.
                return True
            found = await self._list(relation, mark.bound)
        until = EVER if provider == HIVE else mark.until
        return found.older == mark.older and mark.younger == {
            file.key for file in found.young if file.modified <= until
        }

    # --- Delta -----------------------------------------------------------------------------------------

    async def _delta_change(self, relation: Relation, mark: Mark, now: Mark) -> Change:
        table, columns = relation.name, [name for name, _ in relation.columns]
        first, last = int(mark.position) + 1, int(now.position)
        before = additions.rows_at(table, columns, mark.position)
        if last < first:
            if last < first - 1:
                raise NotIncremental(Reason.BASE_REPLACED, f"{table} has an earlier version than the view contains")
            return Change(now, before=before)
        found, feed = await both(
            self._asking(lambda session: _delta_log(session, table, relation, first, last)),
            self._asking(lambda session: _has_property(session, table, FEED, "true")),
        )
        if not found.net.changes:
            return Change(now, before=before)
        if not feed:
            found = found.net
        if not found.appends and not feed:
            raise NotIncremental(Reason.FEED_NOT_ENABLED, f"rows of {table} were updated or deleted, and {FEED} is off")
        needed, earlier = await both(
            self._asking(lambda session: _delta_has(session, relation, found.needed)),
            self._asking(lambda session: _delta_has(session, relation, found.before, mark.position)),
        )
        if not needed:
            raise NotIncremental(Reason.HISTORY_GONE, f"files of {table} with changed rows were deleted by VACUUM")
        before, size = before if earlier else "", sum(file.bytes for file in found.added)
        if feed:
            plus, minus = (additions.delta_feed(table, columns, first, last, kind) for kind in (_ADDED, _REMOVED))
            return Change(now, plus, None if found.appends else minus, before, size)
        mapped = not await self._asking(lambda session: _has_property(session, table, MAPPING, "none", absent=True))
        added = await self._asking(lambda session: _delta_added(session, relation, found.added, last, mapped=mapped))
        return Change(now, added, None, before, size)

    async def _asking(self, ask: Callable[[SqlSession], Coroutine[None, None, T]]) -> T:
        async with self._observer.session() as session:
            return await ask(session)

    # --- files -----------------------------------------------------------------------------------------

    async def _files_since(self, table: TableName, relation: Relation, mark: Mark) -> Change:
        found = await self._list(relation, mark.bound)
        new = _new_files(table, mark, found)
        settled = self._now_ms() - SETTLED_MS
        now = of_files(mark.identity, found.bound, found.older, found.young, settled, found.latest)
        if provider_of(relation) != HIVE:
            return _files_change(table, now, [name for name, _ in relation.columns], new)
        if not new:
            return Change(now)
        async with self._observer.session() as session:
            added = await hive_files.added(session, relation, new, found.places)
        return Change(now, added, bytes=sum(file.bytes for file in new))

    async def _list(self, relation: Relation, bound: int) -> _Listing:
        try:
            return await self._list_once(relation, bound)
        except StatementFailed:
            # Files or partitions that vanish between two statements are no reason to give up.
            return await self._list_once(relation, bound)

    async def _list_once(self, relation: Relation, bound: int) -> _Listing:
        found = await self._observer.places(relation)
        places = None if found is None else await aside(len(found), _partitions, found)
        root = observation.plain_path(relation.location)
        roots = [root] if places is None else await aside(len(places), roots_of, places, root)
        few, rows = self._observer.has_few_files(relation.name), list[tuple[Any, ...]]()
        async with self._observer.session() as session:
            for place in roots:
                rows += await _listed(session, additions.list_young_files(place, bound, ROWS_MAX + 1, few=few))
                if len(rows) > ROWS_MAX:
                    raise NotIncremental(Reason.TOO_MANY_FILES, f"{relation.name} has too many directories")
        listing = await aside(len(rows), _listing, bound, rows, places, roots)
        if len(listing.young) > LISTED_MAX:
            raise NotIncremental(Reason.TOO_MANY_FILES, f"{relation.name} has more than {LISTED_MAX} young files")
        return replace(listing, places=found)


def _position(look: Look) -> str:
    """The position of a look at a table with a history."""
    return look.observed.position if isinstance(look.observed, Snapshot) else ""


def _plain(table: TableName, look: Look) -> tuple[Relation, str]:
    """The table and its identity. Raises NotIncremental if its changes cannot be found."""
    relation = look.relation
    if isinstance(look.observed, Unobserved):
        raise NotIncremental(Reason.PROVIDER, look.observed.reason)
    if relation is None or not isinstance(look.observed, Snapshot) or table.aspect or table.path or look.root:
        raise NotIncremental(Reason.PROVIDER, f"{table} is not a plain table")
    provider = provider_of(relation)
    if provider == HIVE and not relation.converted:
        raise NotIncremental(Reason.HIVE_TEXT, f"Spark reads {table} with Hive's classes")
    if provider not in FILE_FORMATS | WITH_HISTORY or relation.kind is not RelationKind.TABLE:
        raise NotIncremental(Reason.PROVIDER, f"changes of {table} cannot be found ({relation.provider})")
    if provider != ICEBERG and any(name.lower() == "_metadata" for name, _ in relation.columns):
        raise NotIncremental(Reason.PROVIDER, f"{table} has a column _metadata")
    return relation, look.observed.identity


@contextlib.contextmanager
def _refusals(table: TableName) -> Iterator[None]:
    """Raises NotIncremental where Spark cannot be asked, or does not answer in time."""
    try:
        yield
    except ValueError as error:
        raise NotIncremental(Reason.PROVIDER, str(error)) from error
    except TimeoutError as error:
        why = f"a look at {table} took too long"
        raise NotIncremental(Reason.PROVIDER, why) from error


async def _listed(session: SqlSession, statement: str) -> list[tuple[Any, ...]]:
    try:
        return list((await session.run(statement)).rows)
    except StatementFailed as error:
        if error.sqlstate == PATH_NOT_FOUND:
            return []
        raise


def _partitions(places: Mapping[PartitionValues, str]) -> dict[str, int]:
    """A hash of the partitions at each location. A file with a new one has new rows, even if it has not changed."""
    at: dict[str, list[str]] = {}
    for values, place in places.items():
        at.setdefault(place, []).append(json.dumps(values))
    return {place: int(fingerprint(place, *sorted(values)), 16) >> 1 for place, values in at.items()}


def _listing(
    bound: int, rows: Iterable[Sequence[Any]], places: Mapping[str, int] | None, roots: Sequence[str]
) -> _Listing:
    """The files at and below `places`, or all of them. Those of directories that are not partitions do not count."""
    older, young, latest = Fold(), list[YoungFile](), 0
    for directory, path, xor, count, size, modified in rows:
        if not any(observation.is_within(directory, root) for root in roots):
            raise ValueError(f"Files of {', '.join(roots[:3])} are listed as those of {directory}.")
        partition = 0 if places is None else _place_of(directory, places)
        if partition is None:
            continue
        if path is None:
            older += Fold(int(xor), int(count), int(size) + int(count) * partition)
            latest = max(latest, int(modified))
        else:
            young.append(YoungFile(str(path), int(xor), int(modified), int(size), partition, directory))
    return _Listing(bound if bound < EVER else latest, older, tuple(young), latest)


def _place_of(directory: str, places: Mapping[str, int]) -> int | None:
    """The hash of the partitions that the files of a directory belong to; None if they belong to none."""
    while directory and directory not in places:
        directory = directory.rpartition("/")[0]
    return places.get(directory)


def _new_files(table: TableName, mark: Mark, found: _Listing) -> list[YoungFile]:
    """New files are those that were modified after the mark's bound and are not known to it."""
    here = {file.key for file in found.young}
    if found.older.count < mark.older.count or not mark.younger <= here:
        why = "were removed, replaced, or given to another partition"
        raise NotIncremental(Reason.ROWS_REMOVED, f"files of {table} {why}")
    if found.older != mark.older:
        late = found.older.count > mark.older.count
        why = "appeared with a time before the last refresh" if late else "were replaced"
        raise NotIncremental(Reason.LATE_FILE if late else Reason.ROWS_REMOVED, f"files of {table} {why}")
    new = [file for file in found.young if file.key not in mark.younger]
    if len(new) > FILES_MAX:
        raise NotIncremental(Reason.TOO_MANY_FILES, f"{table} has {len(new)} new files")
    return new


def _files_change(table: TableName, now: Mark, columns: Sequence[str], new: Sequence[YoungFile]) -> Change:
    if not new:
        return Change(now, before=additions.rows_until(table, columns, now.until))
    paths = [file.path for file in new]
    return Change(
        now,
        additions.rows_of_files(table, columns, paths),
        None,
        additions.rows_until(table, columns, now.until, without=paths),
        sum(file.bytes for file in new),
    )


# --- Delta -----------------------------------------------------------------------------------------------


async def _delta_log(session: SqlSession, table: TableName, relation: Relation, first: int, last: int) -> DeltaLog:
    """What the commits did. Raises NotIncremental if that is not known, or if there are other columns since."""
    if last - first >= COMMITS_MAX:
        raise NotIncremental(Reason.TOO_MANY_FILES, f"{table} has {last - first + 1} new commits")
    try:
        rows = (await session.run(additions.delta_actions(relation.location, first, last, LISTED_MAX))).rows
        found = await aside(len(rows), log_of, rows)
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


async def _delta_has(session: SqlSession, relation: Relation, files: Sequence[DeltaFile], version: str = "") -> bool:
    """Whether these files are there, of which there are none if nothing was removed; and, if so, whether the version
    can be read."""
    if not files:
        return True
    table = relation.name if version else None
    try:
        paths = [file.path for file in files]
        await session.run(additions.delta_present(relation.location, paths, table, version or "0"))
    except StatementFailed:
        return False
    return True


async def _delta_added(
    session: SqlSession, relation: Relation, files: Sequence[DeltaFile], last: int, *, mapped: bool
) -> str:
    """The query for the rows of added files. A file that the last version no longer has, because its rows were moved,
    is read in the latest version that has it."""
    table = relation.name
    if len(files) > FILES_MAX:
        raise NotIncremental(Reason.TOO_MANY_FILES, f"{table} has {len(files)} new files")
    columns, by = [name for name, _ in relation.columns], relation.partition_columns
    queries, direct = list[str](), set[str]()
    if not by and not mapped:
        direct = {file.path for file in files if file.gone is None and additions.is_plain(file.path)}
    if direct:
        query = additions.delta_files(relation.location, columns, sorted(direct))
        # Delta leaves out columns that a DataFrame does not have; files of other writers may have narrower ones.
        if why := await difference(session, relation, query):
            log.info("%s; they are read through the table", why)
            direct = set()
        else:
            queries.append(query)
    through: dict[int, list[DeltaFile]] = {}
    for file in files:
        if file.path in direct:
            continue
        if not additions.is_unique(file.name):
            raise NotIncremental(Reason.PROVIDER, f"{table} has a new file whose name may not be unique: {file.path}")
        through.setdefault(last if file.gone is None else file.gone - 1, []).append(file)
    kinds = {} if mapped else {name: kind for name, kind in relation.columns if name in by}
    for version, read in sorted(through.items()):
        filters = additions.partition_filters(kinds, [file.values for file in read])
        queries.append(additions.delta_files_at(table, columns, [file.name for file in read], version, filters))
    return " UNION ALL ".join(queries)


async def _has_property(session: SqlSession, table: TableName, name: str, value: str, *, absent: bool = False) -> bool:
    """Whether a table has the property with this value; `absent`: or does not have it."""
    found = str((await session.run(additions.table_property(table, name))).rows[0][1])
    return found.lower() == value or (absent and "does not have property" in found)


# --- Iceberg ---------------------------------------------------------------------------------------------


async def _iceberg_snapshot(session: SqlSession, table: TableName) -> str:
    await session.run(observation.renew(table))
    return str((await session.run(observation.iceberg_snapshot(table))).rows[0][1])


async def _check_schema(session: SqlSession, relation: Relation, snapshot: str) -> None:
    """A query of a snapshot has the columns that the table had then. Raises NotIncremental if it has others now."""
    if snapshot == observation.NO_SNAPSHOT:
        return
    ids = await _schema_ids(session, relation.name, snapshot)
    if ids is not None:
        of_table, of_snapshot = ids
        same = of_snapshot is None or of_snapshot == of_table
    else:
        columns = [name for name, _ in relation.columns]
        same = not await difference(session, relation, additions.rows_at(relation.name, columns, snapshot))
    if not same:
        raise NotIncremental(Reason.BASE_REPLACED, f"the columns of {relation.name} have changed since its last write")


async def _schema_ids(session: SqlSession, table: TableName, snapshot: str) -> tuple[Any, Any] | None:
    """The ids of the table's schema, and of the snapshot's (None: it has none); None if the metadata file cannot be
    read from SQL."""
    try:
        files = (await session.run(observation.iceberg_metadata_files(table))).rows
        found = (await session.run(additions.iceberg_schema_ids(files[-1][0], snapshot))).rows if files else []
    except (StatementFailed, ValueError):
        return None
    return (found[0][0], found[0][1]) if len(found) == 1 and found[0][0] is not None else None


async def _iceberg_change(session: SqlSession, relation: Relation, mark: Mark) -> Change:
    table, columns = relation.name, [name for name, _ in relation.columns]
    position = await _iceberg_snapshot(session, table)
    now = Mark(mark.identity, position)
    if mark.position == observation.NO_SNAPSHOT:
        await _check_schema(session, relation, position)
        empty = f"{additions.all_rows(table, columns)} WHERE false"
        added = None if position == mark.position else additions.rows_at(table, columns, position)
        return Change(now, added, None, empty)
    before = additions.rows_at(table, columns, mark.position)
    if position == mark.position:
        return Change(now, before=before)
    history = {str(row[0]): row for row in (await session.run(observation.iceberg_history(table))).rows}
    appends, at = 0, position
    while at != mark.position:
        if at not in history:
            if at == "None" and mark.position in history:
                raise NotIncremental(Reason.ROWS_REMOVED, f"{table} was rolled back to an earlier snapshot")
            raise NotIncremental(Reason.HISTORY_GONE, f"{table} no longer has the snapshot that the view contains")
        _, parent, operation = history[at]
        if operation not in {"append", "replace"}:
            raise NotIncremental(Reason.ROWS_REMOVED, f"rows of {table} were replaced or deleted ({operation})")
        appends, at = appends + (operation == "append"), str(parent)
    if mark.position not in history:
        raise NotIncremental(Reason.HISTORY_GONE, f"{table} no longer has the snapshot that the view contains")
    await _check_schema(session, relation, position)
    added = additions.iceberg_appended(table, columns, mark.position, position) if appends else None
    return Change(now, added, None, before)
