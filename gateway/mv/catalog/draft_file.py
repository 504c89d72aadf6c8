"""A draft of the catalog in a file, so that the next start need not wait until thousands of views are described.

What it says of a view is believed no more than any draft (`foreknowledge`): it may be old, or of another metastore. So
it has no refresh tasks, nor what the versions say of base tables. The file contains the texts of definitions; only the
gateway's account can read it.

Tests: `test_draft_file`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from gateway.mv.catalog.naming import definition_of
from gateway.mv.model import properties as stored
from gateway.mv.model.contents import Contents
from gateway.mv.model.view import MaterializedView
from sql.names import TableName

log = logging.getLogger(__name__)

FORMAT = "freshgate draft 1"
SUFFIX = ".draft"
OWNER_ONLY = 0o600
UNREADABLE = ValueError, KeyError, TypeError, StopIteration, zlib.error, stored.UnreadableProperties
"""What a damaged file, or one of another release, leads to."""
BLOCK_BYTES = 1 << 16
"""The file is read and written in blocks of about this size, so that no step holds the interpreter's lock for long."""


@dataclass(frozen=True, slots=True)
class StoredDraft:
    """Views as they were at some time."""

    views: tuple[MaterializedView, ...]
    listed: Mapping[str, frozenset[str]]
    """The names of the Spark views of each of their databases, from before."""


class Drafts(Protocol):
    """Where a draft is kept."""

    async def read(self) -> StoredDraft | None:
        """None if there is none, or none that can be read. Never raises."""
        ...

    async def write(self, draft: StoredDraft) -> None:
        """Replaces it, if that is possible. Never raises."""
        ...


class DraftFile:
    """One for each storage database."""

    def __init__(self, directory: Path, storage_database: str) -> None:
        self._path = directory / f"{storage_database}{SUFFIX}"
        self._storage_database = storage_database
        self._refused = False

    async def read(self) -> StoredDraft | None:
        """None if there is none, or none that can be read. Never raises."""
        return await asyncio.to_thread(self._read)

    async def write(self, draft: StoredDraft) -> None:
        """Replaces the draft. If that is not possible, the log says so once. Never raises."""
        await asyncio.to_thread(self._write, draft)

    def _read(self) -> StoredDraft | None:
        try:
            with open(self._path, "rb") as file:
                lines = _lines(iter(lambda: file.read(BLOCK_BYTES), b""))
                header = json.loads(next(lines))
                if header["format"] != FORMAT or header["database"] != self._storage_database:
                    raise ValueError("another format, or another storage database")
                listed = {database: frozenset(names) for database, names in header["listed"].items()}
                views = tuple(_view(self._storage_database, *json.loads(line)) for line in lines)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            log.warning("the draft of the catalog in %s is not used: %s", self._path, error)
            return None
        return StoredDraft(views, listed)

    def _write(self, draft: StoredDraft) -> None:
        aside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb") as file:
                for block in _packed(_records(self._storage_database, draft)):
                    file.write(block)
            os.replace(aside, self._path)
        except OSError as error:
            if not self._refused:
                self._refused = True
                log.info("no draft of the catalog is kept for the next start: %s", error)


def _records(storage_database: str, draft: StoredDraft) -> Iterator[str]:
    listed = {database: sorted(names) for database, names in draft.listed.items()}
    yield json.dumps({"format": FORMAT, "database": storage_database, "listed": listed})
    for view in draft.views:
        # What it contains is read again before it counts.
        current = replace(view.current, contents=Contents(), files=None)
        properties = stored.write_view(replace(view, current=current))
        yield json.dumps([view.storage.table, view.current.number, {**properties, **stored.write_job(view)}])


def _view(storage_database: str, table: str, version: int, properties: dict[str, Any]) -> MaterializedView:
    storage = TableName(storage_database, table)
    return stored.read_view(properties, storage, definition_of(storage), version)


def _packed(lines: Iterable[str]) -> Iterator[bytes]:
    packer = zlib.compressobj(level=1)
    for line in lines:
        yield packer.compress(f"{line}\n".encode())
    yield packer.flush()


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Raises ValueError for a file that ends too early."""
    unpacker, rest = zlib.decompressobj(), b""
    for block in blocks:
        *lines, rest = (rest + unpacker.decompress(block)).split(b"\n")
        yield from lines
    if rest or not unpacker.eof:
        raise ValueError("it is not complete")
