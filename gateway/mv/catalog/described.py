"""Describes many tables and views of the metastore in one statement, as far as that can be read in one way.

Tests: `test_loading`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from gateway.errors import StatementFailed
from gateway.loops import Turn
from gateway.mv.catalog import discovery
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import descriptions

log = logging.getLogger(__name__)

T = TypeVar("T")

TOGETHER = 100
"""How many tables one statement describes, a few kilobytes each."""


async def named_storages(
    metastore: Metastore, database: str, tables: Sequence[str]
) -> dict[str, tuple[TableName, Mapping[str, str]]]:
    """For those of the storage tables that have a `discovery.plain_name`: this name, and the properties."""
    found, turn = dict[str, tuple[TableName, Mapping[str, str]]](), Turn()
    for row in await _described(metastore, database, tables):
        for table, properties in descriptions.read_properties([row]).items():
            if (name := discovery.plain_name(properties)) is not None:
                found[table] = name, properties
        await turn.pause()
    return found


async def view_texts(metastore: Metastore, names: Iterable[TableName]) -> dict[TableName, str]:
    """The texts of public views, as far as they can be read together."""
    databases: dict[str, list[str]] = {}
    for name in names:
        if is_plain(name.table):
            databases.setdefault(name.database, []).append(name.table)
    found: dict[TableName, str] = {}
    for database, views in databases.items():
        texts = descriptions.read_view_texts(await _described(metastore, database, views))
        found |= {TableName(database, view): text for view, text in texts.items()}
    return found


def is_plain(table: str) -> bool:
    """Whether a table of this name can be described together with others."""
    return descriptions.PLAIN_NAME.fullmatch(table) is not None


def pieces(things: Sequence[T], size: int = TOGETHER) -> Iterator[Sequence[T]]:
    """Divides them into groups of at most `size`."""
    for start in range(0, len(things), size):
        yield things[start : start + size]


async def _described(metastore: Metastore, database: str, tables: Sequence[str]) -> list[tuple[Any, ...]]:
    """Descriptions of tables; none if Spark cannot describe them together, for example because one was dropped
    meanwhile. Raises UpstreamLost."""
    if not tables:
        return []
    try:
        return (await metastore.run(descriptions.show_described(database, tables))).rows
    except StatementFailed as error:
        log.info("%d tables of %s cannot be described together: %s", len(tables), database, error)
        return []
