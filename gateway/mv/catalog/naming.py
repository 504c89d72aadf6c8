"""The names under which the metastore shows storage tables, and the completion of interrupted renames.

Tests: `test_settlement`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import maintenance, public_view
from sql.texts.open_rows import ROWS_SUFFIX
from sql.texts.storage_layout import Shown

log = logging.getLogger(__name__)

DEFINITION_SUFFIX = "__definition"
LATE_SECONDS = 5.0
"""How long Spark may continue a statement on a view whose connection broke; it normally takes a tenth of a second."""
UNKNOWN_OUTCOMES = frozenset({"HY008", "08007"})
"""SQLSTATEs that leave the outcome unknown: the statement was cancelled, or its operation is no longer known."""


def create_public(view: MaterializedView) -> str:
    """The statement that creates the view's public view, over its current version."""
    return public_view.create_public_view(
        view.name, view.storage, view.columns, view.current.shown, view.comment, view.properties, view.layout
    )


def publish(name: TableName, view: MaterializedView, shown: Shown) -> str:
    """The statement that makes the public view of this name show rows of the view."""
    return public_view.publish(name, view.storage, view.columns, shown, view.layout)


def definition_of(storage: TableName) -> TableName:
    return TableName(storage.database, storage.table + DEFINITION_SUFFIX)


def id_of(table: str) -> str:
    """The id of the view to which an object of the storage database belongs, by its name."""
    return table.removesuffix(DEFINITION_SUFFIX).removesuffix(ROWS_SUFFIX)


async def shown(metastore: Metastore, name: TableName) -> tuple[TableName, int] | None:
    """The storage table and version that the public view of a name shows; None if it shows none."""
    relation = await metastore.relation(name)
    return public_view.read_published(relation.view_text) if relation else None


async def published(metastore: Metastore, name: TableName, storage: TableName) -> int | None:
    """The version that the public view of a name shows; None if it shows another storage table or does not exist."""
    found = await shown(metastore, name)
    return found[1] if found and found[0] == storage else None


async def shown_as(metastore: Metastore, name: TableName) -> str | None:
    """The id of the view that the public view of a name shows; None if it shows none."""
    found = await shown(metastore, name)
    return found[0].table if found else None


def is_unknown(error: FreshgateError) -> bool:
    """Whether Spark may have carried out, or may still carry out, the statement that failed with this error."""
    return isinstance(error, UpstreamLost) or error.sqlstate in UNKNOWN_OUTCOMES


async def unmoved(metastore: Metastore, view: MaterializedView, version: int | None, error: FreshgateError) -> bool:
    """Whether the public view certainly still shows this version after a statement failed with `error`. None: it did
    not show the storage table before.

    A Spark that is shutting down may report an error for a statement that it has carried out. If the connection was
    lost, the outcome is unknown, and the statement may still be running.
    """
    if is_unknown(error):
        return False
    try:
        return await published(metastore, view.name, view.storage) == version
    except FreshgateError:
        return False


async def mark_published(metastore: Metastore, storage: TableName) -> None:
    """Marks a storage table as shown by a view: if no view shows it later, that is damage, not a leftover to drop. If
    the mark cannot be stored now, the next start stores it."""
    try:
        await metastore.run(maintenance.set_properties(storage, stored.write_published()))
    except FreshgateError as error:
        log.warning("%s is published, but could not be marked as published: %s", storage, error)


async def settled(
    metastore: Metastore, properties: Mapping[str, str], storage: TableName
) -> tuple[TableName, int] | None:
    """The name under which a storage table is shown, and the version; None if no view shows it.

    Completes an ALTER that was interrupted while it renamed the storage table if it had begun to change the views;
    otherwise discards it.
    """
    name, move = stored.read_name(properties), stored.read_move(properties)
    if move is None:
        version = await published(metastore, name, storage)
        return None if version is None else (name, version)
    target, moved_version = move
    if (version := await published(metastore, target, storage)) is not None:
        # The other storage of a swap may be about to take the old name; otherwise nothing may show it there.
        found = target, version
        if name != target and await published(metastore, name, storage) is not None:
            await _drop_unwanted(metastore, name, storage)
    elif (
        not (begun := await _has_begun(metastore, properties))
        and (version := await published(metastore, name, storage)) is not None
    ):
        found = name, version
    elif begun or await _is_to_take(metastore, target, storage, properties):
        columns, layout = stored.read_columns(properties), stored.read_layout(properties)
        rows = (await stored.version_read(properties, moved_version)).shown
        await metastore.run(public_view.publish(target, storage, columns, rows, layout))
        found = target, moved_version
    else:
        return None
    await metastore.run(maintenance.set_properties(storage, stored.write_name(found[0])))
    await metastore.run(maintenance.unset_properties(storage, stored.moving_keys()))
    return found


async def _has_begun(metastore: Metastore, properties: Mapping[str, str]) -> bool:
    """Whether an ALTER of several names has changed the first of them: then the others are to be changed, too."""
    first = stored.read_first_move(properties)
    return first is not None and await published(metastore, *first) is not None


async def _is_to_take(
    metastore: Metastore, target: TableName, storage: TableName, properties: Mapping[str, str]
) -> bool:
    """Whether a name that shows another storage table is to show this one, as in the middle of an ALTER: the other
    one has another name, or this one is shown nowhere and was not dropped. A leftover intention does not take
    another view's name."""
    there = await shown_as(metastore, target)
    if there is None:
        return False
    if stored.was_published(properties) and await metastore.relation(stored.read_name(properties)) is None:
        return True
    if await metastore.relation(other := TableName(storage.database, there)) is None:
        return False
    found = await metastore.properties(other)
    move = stored.read_move(found)
    return (move[0] if move is not None else stored.read_name(found)) != target


async def _drop_unwanted(metastore: Metastore, name: TableName, storage: TableName) -> None:
    """Drops a view that shows `storage` under its old name, unless the other storage table of a swap will take the
    name.

    Checks again just before, because the swap may have been completed meanwhile.
    """
    if not await _is_wanted(metastore, name, storage) and await published(metastore, name, storage) is not None:
        await metastore.run(maintenance.drop_view(name))


async def _is_wanted(metastore: Metastore, name: TableName, storage: TableName) -> bool:
    """Whether another storage table is to be shown under this name."""
    for table in await metastore.tables(storage.database):
        other = TableName(storage.database, table)
        if other == storage or id_of(table) != table:
            continue
        move = stored.read_move(await metastore.properties(other))
        if move is not None and move[0] == name:
            return True
    return False
