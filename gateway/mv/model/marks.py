"""Marks of base tables: the exact state that a version of a view contains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

YOUNGER_MAX = 512
"""How many files a mark names."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Files as a whole: the XOR of their hashes, their number, and the sum of their bytes and partitions' hashes."""

    xor: int = 0
    count: int = 0
    sum: int = 0

    def __add__(self, other: Fold) -> Fold:
        return Fold(self.xor ^ other.xor, self.count + other.count, self.sum + other.sum)


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of a table: which files, which version, or which snapshot it had."""

    identity: str
    """As `Snapshot.identity`."""
    position: str = ""
    """The version of a Delta table or of a materialized view, the snapshot of an Iceberg table."""
    bound: int = 0
    """In milliseconds since the epoch: files that were modified until then are in `older`."""
    older: Fold = Fold()
    younger: frozenset[int] = frozenset()
    """The `YoungFile.key` of each younger file."""
    until: int = 0
    """When the latest file was modified, in milliseconds since the epoch: a query that reads no later files reads the
    files of this mark, unless one appears late."""


@dataclass(frozen=True, slots=True)
class YoungFile:
    """A file that was modified after the bound of a listing."""

    path: str
    """As `_metadata.file_path` has it in a query of the table."""
    hash: int
    """Of its path, time and length."""
    modified: int
    """In milliseconds since the epoch."""
    bytes: int
    partition: int = 0
    """The hash of its partition's values and location, if these are not part of its path."""
    directory: str = ""
    """Where it is, not encoded."""

    @property
    def key(self) -> int:
        return self.hash ^ self.partition

    @property
    def fold(self) -> Fold:
        return Fold(self.hash, 1, self.bytes + self.partition)


def of_files(identity: str, bound: int, older: Fold, young: Iterable[YoungFile], settled: int, latest: int = 0) -> Mark:
    """The mark of a table with these files. Files that were modified until `settled`, and all but the YOUNGER_MAX
    youngest, are folded: a file that appears later with such a time is noticed, but not told from an overwritten one.
    `latest` is the time of the latest one in `older`.
    """
    ordered = sorted(young, key=lambda file: file.modified, reverse=True)
    bound = max(bound, settled, ordered[YOUNGER_MAX].modified if len(ordered) > YOUNGER_MAX else 0)
    folded = sum((file.fold for file in ordered if file.modified <= bound), older)
    younger = frozenset(file.key for file in ordered if file.modified > bound)
    return Mark(identity, "", bound, folded, younger, ordered[0].modified if ordered else latest)


def written(mark: Mark) -> list[Any]:
    older = mark.older
    return [
        mark.identity,
        mark.position,
        mark.bound,
        [older.xor, older.count, older.sum],
        sorted(mark.younger),
        mark.until,
    ]


def read(record: list[Any]) -> Mark:
    identity, position, bound, older, younger, until = record
    return Mark(identity, position, bound, Fold(*older), frozenset(younger), until)
