"""Tables with the rows of views, which other engines read: what their commits have, and those that go.

Tests: `test_open_rows`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Set

from gateway.errors import StatementFailed
from gateway.mv.model.marks import Fold
from gateway.mv.model.snapshot import fingerprint
from gateway.mv.model.view import Kept, MaterializedView, Version
from gateway.mv.ports import Rows
from sql.texts import iceberg_texts
from sql.texts.iceberg_rows import IcebergRows, SourceState
from sql.texts.iceberg_rows import refresh_state as written_state
from sql.texts.open_rows import Before, Commit, Expiry, OpenRows, Past, written_last
from sql.texts.storage_layout import Shown

log = logging.getLogger(__name__)

NO_SUCH_ABILITY = "0A000"
"""The SQLSTATE of what a catalog cannot do."""
Run = Callable[[str], Awaitable[Rows]]
"""Runs a statement. Raises what Spark raises."""


async def commits(run: Run, rows: OpenRows, needed: Iterable[str] = ()) -> dict[str, Commit]:
    """The latest commits of the table by snapshot, back to the first that is `needed`."""
    answer = await run(rows.commits())
    found = rows.read(answer.columns, answer.rows)
    if further := rows.further(found, frozenset(needed) - {""}):
        answer = await run(further)
        found = rows.read(answer.columns, answer.rows)
    return found


def before(view: MaterializedView, *, appends: bool) -> Before:
    """What is there before a refresh writes rows: nothing that stays, unless it `appends`."""
    files = view.current.files
    return Before(files.count, files.sum) if appends and files is not None else Before()


async def refresh_state(run: Run, view: MaterializedView, started_ms: int) -> str:
    """The states of the base tables before a refresh reads them, for a description in Iceberg's terms; empty if it
    reads anything else than the main branches of Iceberg tables, or a state is not known. Never raises what Spark
    raises."""
    if view.views or any(table.aspect or iceberg_texts.selected(table) != ("", False) for table in view.tables):
        return ""
    found = []
    try:
        for table in sorted(view.tables):
            position = (await run(iceberg_texts.snapshot(table))).rows[0][1]
            files = (await run(iceberg_texts.metadata_files(table))).rows
            (ids,) = (await run(iceberg_texts.ids(files[-1][0]))).rows
            found.append(SourceState(table, str(ids[0]), int(position)))
    except (StatementFailed, ValueError, IndexError) as error:
        log.debug("%s: the states of its base tables are not known: %s", view.name, error)
        return ""
    return written_state(found, started_ms)


async def create(run: Run, view: MaterializedView, rows: OpenRows) -> None:
    """Creates the table, without rows, if it does not exist. Raises what Spark raises."""
    await run(rows.create_database())
    await run(rows.create(view.definition, view.columns, view.layout.open_by, view.comment))


async def describe(run: Run, rows: OpenRows, query: str, columns: Iterable[str]) -> None:
    """Creates the view beside the table, if it shall have one and the catalog keeps views."""
    if not (rows.described and isinstance(rows, IcebergRows)):
        return
    try:
        await run(rows.create_view(query, columns))
    except StatementFailed as error:
        log.warning("%s has no view beside it: %s", rows.table, error)


async def forget(run: Run, rows: OpenRows) -> None:
    """Drops the table, and the view beside it. Raises what Spark raises."""
    if rows.described and isinstance(rows, IcebergRows):
        try:
            await run(rows.drop_view())
        except StatementFailed as error:
            # Spark has no views in this catalog, as without Iceberg's extensions.
            if error.sqlstate != NO_SUCH_ABILITY:
                raise
    await run(rows.drop())


def of_version(found: dict[str, Commit], version: int) -> Commit | None:
    """The commit that a refresh has made last for a version; None if there is none."""
    own = {each.snapshot: each for each in found.values() if each.version == version}
    before = {each.parent for each in own.values()}
    return next((each for snapshot, each in own.items() if snapshot not in before), None)


def follows(found: dict[str, Commit], commit: Commit, snapshot: str) -> bool:
    """Whether a commit adds to the rows of this snapshot, and to no others."""
    before = found.get(commit.parent)
    while before is not None and before.snapshot != snapshot and before.rewrites:
        before = found.get(before.parent)
    return before is not None and before.snapshot == snapshot


def folds(found: dict[str, Commit], view: MaterializedView, shown: Iterable[Shown]) -> list[Fold]:
    """The mark of each of these contents. If another writer has changed what readers of the table see, the current
    version has that writer's."""
    last = written_last(found)
    foreign = last is not None and (last.version is None or last.version < view.current.number)
    marks = []
    for each in shown:
        seen = last if foreign and each.number == view.current.number else found.get(each.snapshot)
        marks.append(_fold(seen) if seen is not None else Fold())
    return marks


def _fold(commit: Commit) -> Fold:
    return Fold(int(fingerprint(commit.identity), 16), commit.files, commit.bytes)


def needed(kept: Kept, readable: Iterable[Version]) -> frozenset[str]:
    """The snapshots that readers or the view need."""
    return frozenset({kept.shown.snapshot, *(version.shown.snapshot for version in readable)} - {""})


def expiry(
    rows: OpenRows, found: dict[str, Commit], kept: Kept, readable: Iterable[Version], now: int, done: int
) -> Expiry:
    """What removes the commits that nobody needs: neither readers, nor the view, nor a refresh that is running. `now`
    and `done`: as in `Past`."""
    used = needed(kept, readable) | {each.snapshot for each in found.values() if _is_begun(each, kept)}
    return rows.expiry(found, _unneeded(found, used), used, Past(now, done, idle=not kept.begun))


def _unneeded(found: dict[str, Commit], used: Set[str]) -> list[str]:
    """The snapshots besides these. The current one stays in any case."""
    return [each.snapshot for each in found.values() if each.snapshot not in used and not each.current]


def left_behind(found: dict[str, Commit], kept: Kept) -> bool:
    """Whether what other readers see is a version that was never published, and that nobody writes any more."""
    last = written_last(found)
    return (
        last is not None
        and last.version is not None
        and last.version > kept.shown.number
        and not kept.begun
        and last.version < kept.reserved
        and kept.shown.snapshot in found
    )


def _is_begun(commit: Commit, kept: Kept) -> bool:
    return commit.version is not None and (commit.version in kept.begun or commit.version >= kept.reserved)
