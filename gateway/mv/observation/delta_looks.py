"""Looks at Delta tables: which version each has, and whether its rows changed since the last look.

The id of a table is in its log and takes a statement that may read the whole state of the table. So it is asked for
only if the table's history does not prove that the log is the one of the last look.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gateway.errors import StatementFailed
from gateway.loops import aside
from gateway.mv.model.snapshot import PartitionValues, Snapshot, fingerprint
from gateway.mv.observation.delta_log import keeps_columns
from gateway.mv.ports import Relation, SqlSession
from sql.names import TableName
from sql.texts import observation

DELTA = "delta"
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


class DeltaLooks:
    """Remembers what proves that a log continues. Every method may raise what Spark raises."""

    def __init__(self, last: Mapping[TableName, Snapshot]) -> None:
        """`last`: the last observation of each table, from which the next one continues."""
        self._last = last
        self.seen: dict[TableName, _Seen] = {}

    def identified(self, table: TableName, relation: Relation) -> Relation:
        """The relation with the table's id, as the last look found it."""
        seen = self.seen.get(table)
        return relation if relation.created or seen is None else replace(relation, created=seen.id)

    async def look(self, session: SqlSession, table: TableName, relation: Relation) -> Snapshot:
        """Everything that can be read of a table is in its log, and a version in it never changes. `relation`: with the
        table's id, or without it, which is then asked for if that is necessary."""
        if table.aspect.removeprefix(observation.VERSION_CLAUSE).isdigit():
            return Snapshot(
                _identity(relation.created or await table_id(session, relation.name), relation), table.aspect
            )
        continued = await self._continued(session, table, relation) if not relation.created else None
        return continued or await self._anew(session, table, relation)

    async def _continued(self, session: SqlSession, table: TableName, relation: Relation) -> Snapshot | None:
        """None if the log is perhaps another one than at the last look. A row of the history has the time and the
        measures of its commit, so no other log has an equal one."""
        seen, last = self.seen.get(table), self._last.get(table)
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
        last = self._last.get(table)
        if last is not None and last.identity == identity and last.position.isdigit():
            followed = await _followed(session, relation, last, commits)
            if followed is not None:
                return followed
        return Snapshot(identity, version, version, position=version[1:])


async def table_id(session: SqlSession, table: TableName) -> str:
    """The id of a Delta table, which no other table has. Raises what Spark raises."""
    detail = await session.run(observation.delta_detail(table))
    return str(detail.rows[0][detail.columns.index("id")])


async def _commits(session: SqlSession, relation: Relation) -> Sequence[Commit]:
    """The latest commits, newest first."""
    return (await session.run(observation.delta_history(relation.name))).rows


def _identity(created: str, relation: Relation) -> str:
    return fingerprint(DELTA, created, observation.plain_path(relation.location))


async def _followed(
    session: SqlSession, relation: Relation, last: Snapshot, commits: Sequence[Commit]
) -> Snapshot | None:
    """The snapshot after the newest of the commits, from an earlier one; None if its changes are not known."""
    version, position = int(commits[0][_VERSION]), int(last.position)
    if position == version:
        return last
    if not position < version <= position + observation.COMMITS_MAX:
        return None
    if not (relation.partition_columns or last.partitions):
        followed = _by_operations(last, commits)
        if followed is not None:
            return followed
    # If the log cannot be read by SQL or was cleaned up, start anew.
    with contextlib.suppress(StatementFailed):
        rows = (await session.run(observation.delta_commits(relation.location, position + 1, version))).rows
        length = len(rows) + len(last.partitions)
        known = await aside(length, _by_actions, last, rows, relation.partition_columns, version)
        harmless = observation.HARMLESS_OPERATIONS
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
            values = observation.delta_values(detail, columns)
            if columns and values is None:
                return None
            if columns and values is not None:
                latest[values] = max(changed, latest.get(values, -1))
        elif kind == "schema":
            described.update(json.loads(versions))
        elif detail in observation.HARMLESS_OPERATIONS:
            harmless.update(json.loads(versions))
    if commits != version - int(last.position):
        return None
    partitions.update((values, f"v{changed}") for values, changed in latest.items())
    state = f"v{newest}" if newest >= 0 else last.state
    return _Told(Snapshot(last.identity, state, last.default, partitions, str(version)), bool(described - harmless))
