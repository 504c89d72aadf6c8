"""Classifies the objects in the storage database: views that can be served, leftovers of crashes, and damage.

Tests: `test_loading`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gateway.errors import StatementFailed
from gateway.loops import in_thread
from gateway.mv.catalog import naming
from gateway.mv.catalog.naming import definition_of
from gateway.mv.model import properties as stored
from gateway.mv.model.damage import NO_STORAGE, NO_VIEW, Damage
from gateway.mv.model.view import Leftover, MaterializedView, Version, name_of_id
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import public_view

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a storage table, or a definition without one, turned out to be. Empty for foreign objects."""

    view: MaterializedView | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """The stored properties of the view."""
    leftover: Leftover | None = None
    """What should be dropped. With a view: its versions that are not current."""
    damage: Damage | None = None


async def of_storage(metastore: Metastore, storage: TableName) -> Finding:
    """Classifies a storage table. If it cannot be read twice in a row, it is reported as damage: other views are served
    all the same, and this one is not served as if it were fresh. Raises UpstreamLost."""
    try:
        return await _of_readable(metastore, storage)
    except StatementFailed as error:
        log.info("%s could not be read, trying again: %s", storage, error)
    try:
        return await _of_readable(metastore, storage)
    except StatementFailed as error:
        log.warning("%s cannot be read: %s", storage, error)
        if not await _may_exist(metastore, storage):
            # A DROP of the gateway that was killed before may still be running.
            return Finding()
        problem = f"its storage table cannot be read (Freshgate will try again): {error}"
        return Finding(damage=Damage(_name_of({}, storage), storage, None, problem, droppable=False))


def plain_name(properties: Mapping[str, str]) -> TableName | None:
    """The name of the view that a storage table with these properties belongs to, unless more than its public view must
    be looked at to classify it: another table's, a damaged one's, or one whose name was changing."""
    try:
        plain = stored.was_published(properties) and stored.read_move(properties) is None
        return stored.read_name(properties) if plain else None
    except (stored.UnreadableProperties, ValueError):
        return None


async def of_described(properties: Mapping[str, str], storage: TableName, view_text: str) -> Finding | None:
    """Classifies a storage table with a `plain_name` by what is known of it and its public view; None if that is not
    a view as it should be, so that `of_storage` must ask again."""
    name, shown = plain_name(properties), public_view.read_published(view_text)
    if name is None or shown is None or shown[0] != storage:
        return None
    try:
        return await shown_as(properties, storage, name, shown[1])
    except stored.UnreadableProperties:
        return None


async def of_stored(properties: Mapping[str, str], storage: TableName, name: TableName) -> MaterializedView | None:
    """The view of a storage table, as if its last stored version were current; None if that cannot be read."""
    numbers = stored.versions(properties)
    try:
        view = await stored.view_read(properties, storage, definition_of(storage), max(numbers)) if numbers else None
    except stored.UnreadableProperties:
        return None
    return None if view is None else replace(view, name=name)


async def of_definition(metastore: Metastore, storage: TableName) -> Finding:
    """Classifies a definition without a storage table. If a view still shows the missing table, it is damaged; the id
    contains the view's name. Raises UpstreamLost."""
    definition = definition_of(storage)
    words = storage.table.split("__")[:-1]
    for end in range(1, len(words)):
        name = TableName("__".join(words[:end]), "__".join(words[end:]))
        try:
            shown = await naming.published(metastore, name, storage)
        except StatementFailed as error:
            log.warning("%s is ignored because %s cannot be read: %s", definition, name, error)
            return Finding()
        if shown is not None:
            return Finding(damage=Damage(name, storage, await _owner_of(metastore, definition), NO_STORAGE))
    return Finding(leftover=Leftover(storage, definition))


async def _owner_of(metastore: Metastore, definition: TableName) -> str | None:
    try:
        return stored.read_owner(await metastore.properties(definition))
    except StatementFailed as error:
        log.warning("the owner of %s cannot be read: %s", definition, error)
        return None


async def _of_readable(metastore: Metastore, storage: TableName) -> Finding:
    found = await metastore.properties(storage)
    if not stored.is_ours(found):
        log.warning("%s is not a storage table of Freshgate and is ignored", storage)
        return Finding()
    try:
        shown = await naming.settled(metastore, found, storage)
        if shown is None:
            return await without_view(metastore, stored.read_name(found), storage, found)
        if not stored.was_published(found):
            # Spark refused a DROP, or a gateway was killed during a CREATE or DROP.
            await naming.mark_published(metastore, storage)
        return await shown_as(found, storage, *shown)
    except stored.UnreadableProperties as error:
        return Finding(damage=unreadable(found, storage, error))


def unreadable(found: Mapping[str, str], storage: TableName, error: stored.UnreadableProperties) -> Damage:
    """The damage of a view whose stored properties cannot be read."""
    owner, droppable = stored.read_owner(found), not isinstance(error, stored.LaterFormat)
    return Damage(_name_of(found, storage), storage, owner, str(error), droppable)


async def shown_as(found: Mapping[str, str], storage: TableName, name: TableName, version: int) -> Finding:
    """A view that its public view shows in this version. Raises UnreadableProperties."""
    view = replace(await stored.view_read(found, storage, definition_of(storage), version), name=name)
    # Partitions of versions without properties are left to the janitor's later round: this saves a listing for each
    # view now.
    if not stored.versions(found) - {version}:
        return Finding(view, found)
    before = await in_thread(stored.partitions_at_most(found), _before, view.current, found)
    return Finding(view, found, Leftover(storage, view.definition, whole=False, versions=before))


async def without_view(
    metastore: Metastore, name: TableName, storage: TableName, properties: Mapping[str, str]
) -> Finding:
    """Classifies a storage table that its view does not show: a leftover of an interrupted CREATE, DROP or REPLACE, or
    damage."""
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
    """The stored versions before the given one, oldest first. (A version that was never published is not the `previous`
    of another one.)"""
    found: list[Version] = []
    numbers = stored.versions(properties)
    while version.previous in numbers and version.previous < version.number:
        try:
            version = stored.read_version(properties, version.previous)
        except (stored.UnreadableProperties, ValueError, KeyError, TypeError) as error:
            log.warning("an earlier version, %d, cannot be read and is dropped: %s", version.previous, error)
            break
        found.append(version)
    return tuple(reversed(found))


def _name_of(properties: Mapping[str, str], storage: TableName) -> TableName:
    """The name of the view that a storage table belongs to, as far as it can be determined."""
    try:
        return stored.read_name(properties)
    except (stored.UnreadableProperties, ValueError):
        return name_of_id(storage.table)
