"""Under which name the metastore shows a storage, and what is left to do where an ALTER that changed it was cut off."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.model import properties as stored
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import maintenance
from sql.texts.maintenance import Shown

log = logging.getLogger(__name__)

DEFINITION_SUFFIX = "__definition"
LATE_SECONDS = 5.0
"""How long Spark may go on with a statement on a view whose connection broke: it takes a tenth of a second."""
UNTOLD = frozenset({"HY008", "08007"})
"""SQLSTATEs that do not tell what became of a statement: it was cancelled, or its operation is known no more."""


def create_public(view: MaterializedView) -> str:
    """The statement that creates the view's public view, over its current version."""
    return maintenance.create_public_view(
        view.name, view.storage, view.columns, view.current.shown, view.comment, view.properties, view.layout
    )


def publish(name: TableName, view: MaterializedView, shown: Shown) -> str:
    """The statement that makes a name's public view show rows of the view."""
    return maintenance.publish(name, view.storage, view.columns, shown, view.layout)


def definition_of(storage: TableName) -> TableName:
    return TableName(storage.database, storage.table + DEFINITION_SUFFIX)


async def shown(metastore: Metastore, name: TableName) -> tuple[TableName, int] | None:
    """The storage, and its version, that the public view of a name shows; None where it shows none."""
    relation = await metastore.relation(name)
    return maintenance.read_published(relation.view_text) if relation else None


async def published(metastore: Metastore, name: TableName, storage: TableName) -> int | None:
    """The version that the public view of a name shows, None where it shows another storage or is gone."""
    found = await shown(metastore, name)
    return found[1] if found and found[0] == storage else None


async def shown_as(metastore: Metastore, name: TableName) -> str | None:
    """The id of the view that the public view of a name shows; None where it shows none."""
    found = await shown(metastore, name)
    return found[0].table if found else None


def is_untold(error: FreshgateError) -> bool:
    """Whether Spark may have carried out, or may still carry out, the statement that ended so."""
    return isinstance(error, UpstreamLost) or error.sqlstate in UNTOLD


async def unmoved(metastore: Metastore, view: MaterializedView, version: int | None, error: FreshgateError) -> bool:
    """Whether the public view surely shows this version, as before the statement that ended with `error`. None: it was
    not to show the storage before.

    A Spark that is being stopped answers with an error what it has done. From a lost one nobody knows, and what was
    ended before its end may go on.
    """
    if is_untold(error):
        return False
    try:
        return await published(metastore, view.name, view.storage) == version
    except FreshgateError:
        return False


async def mark_published(metastore: Metastore, storage: TableName) -> None:
    """Stores that a view shows the storage: should it come to show nothing, that is damage, and no leftover to be
    dropped. Where it cannot be stored now, the next start does it."""
    try:
        await metastore.run(maintenance.set_properties(storage, stored.write_published()))
    except FreshgateError as error:
        log.warning("%s is published, but not marked so: %s", storage, error)


async def settled(
    metastore: Metastore, properties: Mapping[str, str], storage: TableName
) -> tuple[TableName, int] | None:
    """The name under which a storage is shown, and the version; None where no view shows it.

    An ALTER that was cut off while it gave a storage another name is brought to its end where it had begun to
    change the views, and forgotten where it had not.
    """
    name, move = stored.read_name(properties), stored.read_move(properties)
    if move is None:
        version = await published(metastore, name, storage)
        return None if version is None else (name, version)
    target, moved_version = move
    if (version := await published(metastore, target, storage)) is not None:
        # The other storage of a swap may be about to take the old name; if none does, nobody is to read it.
        found = target, version
        if name != target and await published(metastore, name, storage) is not None:
            await _drop_unwanted(metastore, name, storage)
    elif (version := await published(metastore, name, storage)) is not None:
        found = name, version
    elif await _is_to_take(metastore, target, storage, properties):
        columns, layout = stored.read_columns(properties), stored.read_layout(properties)
        rows = (await stored.version_read(properties, moved_version)).shown
        await metastore.run(maintenance.publish(target, storage, columns, rows, layout))
        found = target, moved_version
    else:
        return None
    await metastore.run(maintenance.set_properties(storage, stored.write_name(found[0])))
    await metastore.run(maintenance.unset_properties(storage, stored.moving_keys()))
    return found


async def _is_to_take(
    metastore: Metastore, target: TableName, storage: TableName, properties: Mapping[str, str]
) -> bool:
    """Whether a name that shows another storage so far is to show this one, as in the middle of an ALTER: the other one
    goes by another name, or this one is shown under none and was not dropped. An intention that was left behind does
    not take another view's name."""
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
    """Drops a view that shows `storage` under its old name, unless the other storage of a swap is to have it.

    Looked at twice: the other one may have been brought to its end meanwhile.
    """
    if not await _is_wanted(metastore, name, storage) and await published(metastore, name, storage) is not None:
        await metastore.run(maintenance.drop_view(name))


async def _is_wanted(metastore: Metastore, name: TableName, storage: TableName) -> bool:
    """Whether another storage is to be shown under this name."""
    for table in await metastore.tables(storage.database):
        other = TableName(storage.database, table)
        if other == storage or table.endswith(DEFINITION_SUFFIX):
            continue
        move = stored.read_move(await metastore.properties(other))
        if move is not None and move[0] == name:
            return True
    return False
