"""The files of a table, the young ones by name: as clocks differ and writers take their time, only an old file has
certainly been there at an earlier listing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import StatementFailed
from gateway.mv.formats.listings import PATH_NOT_FOUND
from gateway.mv.formats.table_format import FILES_MAX
from gateway.mv.model.marks import Fold, Mark, YoungFile, of_files
from gateway.mv.model.snapshot import PartitionValues, fingerprint
from gateway.mv.ports import SqlSession
from sql.increments.reasons import NotIncremental, Reason
from sql.names import TableName
from sql.texts import observation

ROWS_MAX = 200_000
"""How many files and directories one listing may have as rows."""
EVER = 2**62
"""A bound after which no file was modified."""
SETTLED_MS = 3_600_000
"""Files older than an hour are folded into one number: clocks differ less, and a writer takes less from the time of a
file to its appearance."""


@dataclass(frozen=True, slots=True)
class YoungFiles:
    """The files of a table: those that were modified until `bound`, and the younger ones."""

    bound: int
    older: Fold
    young: tuple[YoungFile, ...]
    latest: int = 0
    """When the latest of the older ones was modified."""
    places: Mapping[PartitionValues, str] | None = None
    """As `FileTables.places`."""

    def mark(self, identity: str, now_ms: int) -> Mark:
        return of_files(identity, self.bound, self.older, self.young, now_ms - SETTLED_MS, self.latest)


async def listed_rows(session: SqlSession, statement: str) -> list[tuple[Any, ...]]:
    try:
        return list((await session.run(statement)).rows)
    except StatementFailed as error:
        if error.sqlstate == PATH_NOT_FOUND:
            return []
        raise


def partition_hashes(places: Mapping[PartitionValues, str]) -> dict[str, int]:
    """A hash of the partitions at each location. A file with a new one has new rows, even if it has not changed."""
    at: dict[str, list[str]] = {}
    for values, place in places.items():
        at.setdefault(place, []).append(json.dumps(values))
    return {place: int(fingerprint(place, *sorted(values)), 16) >> 1 for place, values in at.items()}


def young_files(
    bound: int, rows: Iterable[Sequence[Any]], places: Mapping[str, int] | None, roots: Sequence[str]
) -> YoungFiles:
    """The files at and below `places`, or all of them. Those of directories that are not partitions do not count."""
    older, young, latest = Fold(), list[YoungFile](), 0
    for directory, path, xor, count, size, modified in rows:
        if not any(observation.is_within(directory, root) for root in roots):
            raise ValueError(f"Files of {', '.join(roots[:3])} are listed as those of {directory}.")
        partition = 0 if places is None else _place_of(directory, places)
        if partition is None:
            continue
        if path is None:
            older += Fold(int(xor), int(count), int(size) + int(count) * partition)
            latest = max(latest, int(modified))
        else:
            young.append(YoungFile(str(path), int(xor), int(modified), int(size), partition, directory))
    return YoungFiles(bound if bound < EVER else latest, older, tuple(young), latest)


def _place_of(directory: str, places: Mapping[str, int]) -> int | None:
    """The hash of the partitions that the files of a directory belong to; None if they belong to none."""
    while directory and directory not in places:
        directory = directory.rpartition("/")[0]
    return places.get(directory)


def new_files(table: TableName, mark: Mark, found: YoungFiles) -> list[YoungFile]:
    """New files are those that were modified after the mark's bound and are not known to it."""
    here = {file.key for file in found.young}
    if found.older.count < mark.older.count or not mark.younger <= here:
        why = "were removed, replaced, or given to another partition"
        raise NotIncremental(Reason.ROWS_REMOVED, f"files of {table} {why}")
    if found.older != mark.older:
        late = found.older.count > mark.older.count
        why = "appeared with a time before the last refresh" if late else "were replaced"
        raise NotIncremental(Reason.LATE_FILE if late else Reason.ROWS_REMOVED, f"files of {table} {why}")
    new = [file for file in found.young if file.key not in mark.younger]
    if len(new) > FILES_MAX:
        raise NotIncremental(Reason.TOO_MANY_FILES, f"{table} has {len(new)} new files")
    return new
