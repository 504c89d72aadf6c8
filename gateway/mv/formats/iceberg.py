"""Iceberg tables: each write makes a snapshot, which never changes. A session keeps a table as it first found it.

Tests: `test_looks`, `test_added_rows`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from gateway.errors import StatementFailed
from gateway.loops import in_thread
from gateway.mv.formats.file_schemas import difference
from gateway.mv.formats.table_format import (
    FILES_MAX,
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
from gateway.mv.model.spark_types import sql_type
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
        if spec != "0":
            relation = replace(relation, partition_columns=(), transforms=())
        return replace(relation, reading=reading)

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
        by = relation.partition_columns or relation.transforms
        columns = (json.dumps(relation.columns), json.dumps(by))
        identity = fingerprint(ICEBERG, relation.reading, observation.plain_path(relation.location), *columns)
        await session.run(observation.renew(table))
        position = str((await session.run(iceberg_texts.snapshot(table))).rows[0][1])
        if position == iceberg_texts.NO_SNAPSHOT:
            return Snapshot(identity, "empty", "" if by else "empty", position=position)
        if not position.isdigit():
            raise StatementFailed(f"{table} does not report its current snapshot.")
        last = self._tools.last.get(table)
        if last and (last.identity, last.position) == (identity, position) and (last.default or last.partitions):
            return last
        if by:
            width = len(by)
            # Spark may refuse this for a table that was partitioned differently before.
            with contextlib.suppress(StatementFailed):
                rows = (await session.run(iceberg_texts.files(relation.name, position, width))).rows
                found = await in_thread(len(rows), _of_partitions, identity, position, rows, relation)
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


def _of_partitions(
    identity: str, position: str, rows: Sequence[tuple[Any, ...]], relation: Relation
) -> Snapshot | None:
    """None if the table was partitioned differently before: then some files have other values, or none."""
    if any(row[-1] != 0 for row in rows):
        return None
    kinds = {name.lower(): sql_type(kind) for name, kind in relation.columns}
    fields = [iceberg_texts.partition_field(each) for each in relation.transforms]
    texts = [partial(field.text, kind=kinds.get(field.column.lower(), "")) for field in fields]
    width, states = len(relation.partition_columns or relation.transforms), {}
    for row in rows:
        values = tuple(row[:width])
        try:
            values = tuple(text(value) for text, value in zip(texts, values, strict=True)) if texts else values
        except (ValueError, OverflowError):
            return None
        states[values] = fingerprint(f"{row[width]} {row[width + 1]}")
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
    if position == iceberg_texts.NO_SNAPSHOT:
        raise NotIncremental(Reason.ROWS_REMOVED, f"{table} was rolled back to the state without a snapshot")
    history = {str(row[0]): _Commit(*row[1:]) for row in (await session.run(iceberg_texts.chain(table))).rows}
    if not {mark.position, position} <= history.keys():
        raise NotIncremental(Reason.HISTORY_GONE, f"{table} no longer has the snapshot that the view contains")
    await _check_schema(session, relation, position)
    steps = _steps(history, mark.position, position)
    operations = {step.operation for step in steps.values()}
    # Of several mentions of a table in one statement, Spark gives all the options of the first.
    if steps and operations <= {"append", "replace"}:
        added = iceberg_texts.appended(table, columns, mark.position, position) if "append" in operations else None
        return Change(now, added, None, before)
    if steps and all(step.delete_files == 0 for step in (history[mark.position], *steps.values())):
        plus, minus = (
            iceberg_texts.changelog(table, columns, mark.position, position, kind) for kind in ("INSERT", "DELETE")
        )
        signed = iceberg_texts.whole_changelog(table, columns, mark.position, position)
        return Change(now, plus, minus, before, signed=signed)
    stretches = [*_stretches(steps, mark.position)] if steps else [(mark.position, position)]
    found = [await _by_files(session, relation, first, last) for first, last in stretches]
    plus, minus = (" UNION ALL ".join(filter(None, texts)) for texts in zip(*(each[:2] for each in found), strict=True))
    return Change(now, plus or None, minus or None, before, sum(size for *_, size in found))


_OF_FILES = frozenset({"_file", "_pos"})
"""Iceberg's columns for the file of a row and its position there."""


class _Commit(NamedTuple):
    parent: object
    operation: str
    delete_files: int | None


def _steps(history: Mapping[str, _Commit], first: str, last: str) -> dict[str, _Commit]:
    """The snapshots after `first` up to `last`, in order; none if `first` is not an ancestor of `last`."""
    found: dict[str, _Commit] = {}
    at = last
    while at != first:
        if at not in history:
            return {}
        found[at] = history[at]
        at = str(history[at].parent)
    return dict(reversed(found.items()))


def _stretches(steps: Mapping[str, _Commit], first: str) -> Iterator[tuple[str, str]]:
    """The pairs of snapshots between which rows have changed: compactions end one."""
    start = last = first
    for snapshot, commit in steps.items():
        if commit.operation == "replace":
            if last != start:
                yield start, last
            start = snapshot
        last = snapshot
    if last != start:
        yield start, last


async def _by_files(session: SqlSession, relation: Relation, first: str, last: str) -> tuple[str, str, int]:
    """The queries for added and for removed rows, empty if there are none, by the files that only one of two snapshots
    has; and the bytes of these files."""
    table, columns = relation.name, columns_of(relation)
    if hidden := next((column for column in columns if column.lower() in _OF_FILES), None):
        raise NotIncremental(Reason.PROVIDER, f"{table} has a column {hidden}")
    for snapshot in (first, last):
        await _check_schema(session, relation, snapshot)
    rows = (await session.run(iceberg_texts.differing_files(table, first, last, FILES_MAX + 1))).rows
    if len(rows) > FILES_MAX:
        raise NotIncremental(Reason.TOO_MANY_FILES, f"more than {FILES_MAX} files of {table} have changed")
    if any(kind > 1 for _, kind, *_ in rows):
        raise NotIncremental(Reason.ROWS_REMOVED, f"rows of {table} were deleted by their values (equality deletes)")
    texts: list[str] = []
    for later, snapshot, other in ((True, last, first), (False, first, last)):
        own = [path for side, kind, path, _ in rows if side is later and kind == 0]
        parts = [iceberg_texts.rows_of_files(table, columns, snapshot, own)] if own else []
        # Positions that only the other snapshot deletes.
        if any(side is not later and kind == 1 for side, kind, *_ in rows):
            parts.append(iceberg_texts.rows_deleted_elsewhere(table, columns, snapshot, other, own))
        texts.append(" UNION ALL ".join(parts))
    return texts[0], texts[1], sum(size for *_, size in rows)
