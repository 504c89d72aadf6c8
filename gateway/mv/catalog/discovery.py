"""What the objects in the storage database are: views that can be served, what crashes left, and damage."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.errors import StatementFailed
from gateway.loops import aside
from gateway.mv.catalog import naming
from gateway.mv.catalog.naming import definition_of
from gateway.mv.model import properties as stored
from gateway.mv.model.damage import NO_STORAGE, NO_VIEW, Damage
from gateway.mv.model.view import Leftover, MaterializedView, Version, name_of_id
from gateway.mv.ports import Metastore
from sql.names import TableName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a storage table, or a definition without one, turned out to be; nothing of it all where it is not ours."""

    view: MaterializedView | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """The view's, as they are stored."""
    leftover: Leftover | None = None
    """What should be dropped; beside a view its versions that are not current."""
    damage: Damage | None = None


async def of_storage(metastore: Metastore, storage: TableName) -> Finding:
    """What cannot be read, at the second time either, is damage: it keeps no other view from being served, and must not
    be served as if it were fresh. Raises UpstreamLost."""
    try:
        return await _of_readable(metastore, storage)
    except StatementFailed as error:
        log.info("%s is read once more: %s", storage, error)
    try:
        return await _of_readable(metastore, storage)
    except StatementFailed as error:
        log.warning("%s cannot be read: %s", storage, error)
        if not await _may_exist(metastore, storage):
            # Spark may go on with a DROP of the killed gateway before.
            return Finding()
        problem = f"its storage table cannot be read, which is tried again later: {error}"
        return Finding(damage=Damage(_name_of({}, storage), storage, None, problem, droppable=False))


async def of_definition(metastore: Metastore, storage: TableName) -> Finding:
    """Where only the definition is there. A view that still shows the storage is damaged; the id has the view's name in
    it. Raises UpstreamLost."""
    definition = definition_of(storage)
    words = storage.table.split("__")[:-1]
    for end in range(1, len(words)):
        name = TableName("__".join(words[:end]), "__".join(words[end:]))
        try:
            shown = await naming.published(metastore, name, storage)
        except StatementFailed as error:
            log.warning("%s is left alone: %s cannot be read: %s", definition, name, error)
            return Finding()
        if shown is not None:
            return Finding(damage=Damage(name, storage, await _owner_of(metastore, definition), NO_STORAGE))
    return Finding(leftover=Leftover(storage, definition))


async def _owner_of(metastore: Metastore, definition: TableName) -> str | None:
    try:
        return stored.read_owner(await metastore.properties(definition))
    except StatementFailed as error:
        log.warning("nobody can tell whose %s is: %s", definition, error)
        return None


async def _of_readable(metastore: Metastore, storage: TableName) -> Finding:
    found = await metastore.properties(storage)
    if not stored.is_ours(found):
        log.warning("%s is not a storage table of Freshgate; it is left alone", storage)
        return Finding()
    definition = definition_of(storage)
    try:
        shown = await naming.settled(metastore, found, storage)
        if shown is None:
            return await without_view(metastore, stored.read_name(found), storage, found)
        if not stored.was_published(found):
            # Spark has refused a DROP, or a gateway was killed in the middle of a CREATE or DROP.
            await naming.mark_published(metastore, storage)
        name, version = shown
        view = replace(await stored.view_read(found, storage, definition, version), name=name)
    except stored.UnreadableProperties as error:
        owner, droppable = stored.read_owner(found), not isinstance(error, stored.LaterFormat)
        return Finding(damage=Damage(_name_of(found, storage), storage, owner, str(error), droppable))
    # Rows of versions that have no properties are found when the janitor comes by later: a listing less for each
    # view now.
    if not stored.versions(found) - {version}:
        return Finding(view, found)
    before = await aside(stored.partitions_at_most(found), _before, view.current, found)
    return Finding(view, found, Leftover(storage, definition, whole=False, versions=before))


async def without_view(
    metastore: Metastore, name: TableName, storage: TableName, properties: Mapping[str, str]
) -> Finding:
    """A storage table that its view does not show: what a broken CREATE, DROP or REPLACE left, or damage."""
    replaced = await naming.shown(metastore, name) is not None
    if stored.was_published(properties) and not replaced:
        return Finding(damage=Damage(name, storage, stored.read_owner(properties), NO_VIEW))
    return Finding(leftover=Leftover(storage, definition_of(storage)))


async def _may_exist(metastore: Metastore, table: TableName) -> bool:
    try:
        return await metastore.relation(table) is not None
    except StatementFailed:
        return True


def _before(version: Version, properties: Mapping[str, str]) -> tuple[Version, ...]:
    """The versions before one, as far as they are kept, oldest first. (A version that was never published is no other
    one's `previous`.)"""
    found: list[Version] = []
    numbers = stored.versions(properties)
    while version.previous in numbers and version.previous < version.number:
        try:
            version = stored.read_version(properties, version.previous)
        except (stored.UnreadableProperties, ValueError, KeyError, TypeError) as error:
            log.warning("version %d cannot be read and is dropped: %s", version.previous, error)
            break
        found.append(version)
    return tuple(reversed(found))


def _name_of(properties: Mapping[str, str], storage: TableName) -> TableName:
    """The name of the view that a storage table was made for, as far as it can be told."""
    try:
        return stored.read_name(properties)
    except (stored.UnreadableProperties, ValueError):
        return name_of_id(storage.table)
