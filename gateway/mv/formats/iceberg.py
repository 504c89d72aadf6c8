"""Iceberg tables: each write makes a snapshot, which never changes. A session keeps a table as it first found it.

Tests: `test_looks`, `test_added_rows`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from gateway.errors import StatementFailed
from gateway.loops import in_thread
from gateway.mv.formats.file_schemas import difference
from gateway.mv.formats.table_format import (
    Change,
    Moment,
    TableFormat,
    columns_of,
    is_table,
    of_partitions,
    provider_of,
)
from gateway.mv.model.marks import Mark
from gateway.mv.model.snapshot import Observed, Snapshot, Unobserved, fingerprint
from gateway.mv.ports import Relation, SqlSession
from sql.increments.reasons import NotIncremental, Reason
from sql.names import TableName
from sql.texts import additions, iceberg_texts, observation

ICEBERG = "iceberg"


class IcebergTables(TableFormat):
    title = "an Iceberg table"
    cheap = cached = has_parts = has_history = True
    from_metadata: ClassVar = {"spark.sql.iceberg.aggregate-push-down.enabled": "false"}

    @classmethod
    def reads(cls, relation: Relation) -> bool:
        return provider_of(relation) == ICEBERG and is_table(relation) and not relation.name.path

    @classmethod
    async def complete(
        cls, session: SqlSession, relation: Relation, again: Callable[[], Awaitable[Relation]], *, identify: bool
    ) -> Relation:
        # The session may have described the table as it first found it.
        await session.run(observation.renew(relation.name))
        relation = await again()
        reading, spec = await _schema(session, relation.name)
        # After a change of partitioning, older files have other partition values than their rows, or none.
        columns = relation.partition_columns if spec == "0" else ()
        return replace(relation, reading=reading, partition_columns=columns)

    @classmethod
    def follows(cls, kind: str) -> bool:
        return "timestamp" not in kind

    # --- looks -------------------------------------------------------------------------------------

    async def look(self, table: TableName, relation: Relation, root: Relation | None) -> Observed:
        async with self._tools.listings.session() as session:
            if root is not None or table.aspect:
                return await self._part(session, table, root or relation)
            snapshot = await self._table(session, relation)
        self._tools.last[table] = snapshot
        return snapshot

    async def _table(self, session: SqlSession, relation: Relation) -> Snapshot:
        table = relation.name
        columns = (json.dumps(relation.columns), json.dumps(relation.partition_columns))
        identity = fingerprint(ICEBERG, relation.reading, observation.plain_path(relation.location), *columns)
        await session.run(observation.renew(table))
        position = str((await session.run(iceberg_texts.snapshot(table))).rows[0][1])
        if position == iceberg_texts.NO_SNAPSHOT:
            return Snapshot(identity, "empty", "" if relation.partition_columns else "empty", position=position)
        if not position.isdigit():
            raise StatementFailed(f"{table} does not report its current snapshot.")
        last = self._tools.last.get(table)
        if last and (last.identity, last.position) == (identity, position) and (last.default or last.partitions):
            return last
        if relation.partition_columns:
            width = len(relation.partition_columns)
            # Spark may refuse this for a table that was partitioned differently before.
            with contextlib.suppress(StatementFailed):
                rows = (await session.run(iceberg_texts.files(relation.name, position, width))).rows
                found = await in_thread(len(rows), _of_partitions, identity, position, rows, width)
                if found is not None:
                    return found
        history = (await session.run(iceberg_texts.history(table))).rows
        state = f"s{iceberg_texts.unreplaced(history, position)}"
        return Snapshot(identity, state, state, position=position)

    async def _part(self, session: SqlSession, table: TableName, root: Relation) -> Observed:
        """A branch, a tag or a snapshot; or anything else that can be read of a table, whose changes all write a new
        metadata file."""
        identity = fingerprint(ICEBERG, root.reading, observation.plain_path(root.location), json.dumps(root.columns))
        await session.run(observation.renew(root.name))
        ref, fixed = iceberg_texts.selected(table)
        if ref:
            found = (await session.run(iceberg_texts.ref(root.name, ref))).rows
            if found:
                history = (await session.run(iceberg_texts.history(root.name))).rows
                return Snapshot(identity, f"s{iceberg_texts.unreplaced(history, str(found[0][0]))}")
            if not fixed:
                return Unobserved(f"{root.name} has no branch or tag {ref}")
        if fixed:
            return Snapshot(identity, str(table))
        files = (await session.run(iceberg_texts.metadata_files(root.name))).rows
        return Snapshot(identity, fingerprint(*(str(row[0]) for row in files[-1:])))

    # --- changes -----------------------------------------------------------------------------------

    def check(self, relation: Relation) -> None:
        pass

    async def mark(self, relation: Relation, snapshot: Snapshot, now: Moment) -> Mark:
        async with self._tools.listings.session() as session:
            position = await _current(session, relation.name)
            await _check_schema(session, relation, position)
        return Mark(snapshot.identity, position)

    async def since(self, relation: Relation, snapshot: Snapshot, mark: Mark, now: Moment) -> Change:
        if not now.dialect.takes_options:
            raise NotIncremental(Reason.PROVIDER, "this release of Spark cannot name snapshots of Iceberg in FROM")
        async with self._tools.listings.session() as session:
            return await _change(session, relation, mark)

    def rows(self, relation: Relation, mark: Mark) -> str:
        columns = columns_of(relation)
        if mark.position == iceberg_texts.NO_SNAPSHOT:
            return f"{additions.all_rows(relation.name, columns)} WHERE false"
        return additions.rows_at(relation.name, columns, mark.position)

    async def size(self, relation: Relation) -> int | None:
        async with self._tools.listings.session() as session:
            return int((await session.run(iceberg_texts.size(relation.name))).rows[0][0] or 0)


async def _schema(session: SqlSession, name: TableName) -> tuple[str, str]:
    """A fingerprint of the ids of the table and its schema, and the id of its partition spec. No statement shows them:
    a column that was dropped and added again is a different one. Empty if the metadata file cannot be read from SQL."""
    try:
        files = (await session.run(iceberg_texts.metadata_files(name))).rows
        ids = (await session.run(iceberg_texts.ids(files[-1][0]))).rows if files else []
    except (StatementFailed, ValueError):
        return "", ""
    return (fingerprint(*map(str, ids[0])), str(ids[0][-1])) if len(ids) == 1 else ("", "")


def _of_partitions(identity: str, position: str, rows: Sequence[tuple[Any, ...]], width: int) -> Snapshot | None:
    """None if the table was partitioned differently before: then some files have other values, or none."""
    if any(row[-1] != 0 for row in rows):
        return None
    states = {tuple(row[:width]): fingerprint(f"{row[width]} {row[width + 1]}") for row in rows}
    return of_partitions(identity, states, position)


# --- changes ---------------------------------------------------------------------------------------------


async def _current(session: SqlSession, table: TableName) -> str:
    await session.run(observation.renew(table))
    return str((await session.run(iceberg_texts.snapshot(table))).rows[0][1])


async def _check_schema(session: SqlSession, relation: Relation, snapshot: str) -> None:
    """A query of a snapshot has the columns that the table had then. Raises NotIncremental if it has others now."""
    if snapshot == iceberg_texts.NO_SNAPSHOT:
        return
    ids = await _schema_ids(session, relation.name, snapshot)
    if ids is not None:
        of_table, of_snapshot = ids
        same = of_snapshot is None or of_snapshot == of_table
    else:
        columns = columns_of(relation)
        same = not await difference(session, relation, additions.rows_at(relation.name, columns, snapshot))
    if not same:
        raise NotIncremental(Reason.BASE_REPLACED, f"the columns of {relation.name} have changed since its last write")


async def _schema_ids(session: SqlSession, table: TableName, snapshot: str) -> tuple[Any, Any] | None:
    """The ids of the table's schema, and of the snapshot's (None: it has none); None if the metadata file cannot be
    read from SQL."""
    try:
        files = (await session.run(iceberg_texts.metadata_files(table))).rows
        found = (await session.run(iceberg_texts.schema_ids(files[-1][0], snapshot))).rows if files else []
    except (StatementFailed, ValueError):
        return None
    return (found[0][0], found[0][1]) if len(found) == 1 and found[0][0] is not None else None


async def _change(session: SqlSession, relation: Relation, mark: Mark) -> Change:
    table, columns = relation.name, columns_of(relation)
    position = await _current(session, table)
    now = Mark(mark.identity, position)
    if mark.position == iceberg_texts.NO_SNAPSHOT:
        await _check_schema(session, relation, position)
        empty = f"{additions.all_rows(table, columns)} WHERE false"
        added = None if position == mark.position else additions.rows_at(table, columns, position)
        return Change(now, added, None, empty)
    before = additions.rows_at(table, columns, mark.position)
    if position == mark.position:
        return Change(now, before=before)
    history = {str(row[0]): row for row in (await session.run(iceberg_texts.history(table))).rows}
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
    added = iceberg_texts.appended(table, columns, mark.position, position) if appends else None
    return Change(now, added, None, before)
