"""What a version contains: snapshots, to compare looks with, and marks, from which a refresh by rows continues."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gateway.mv.model.marks import Mark, read, written
from gateway.mv.model.snapshot import Snapshot, read_snapshot, written_snapshot

NEVER_BUILT = 0
"""The version that a view shows before its first refresh; no row has it."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A column of a view without partitions whose values follow the partitions of a base table."""

    column: str
    base: str
    """The table's `base_key`."""
    snapshot: Snapshot
    """The table's partitions as the version has read them."""


FIXED_SHARE = 4
"""A refresh by rows is not estimated to take less than this part of the last one, however few bytes it reads."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The state of each base table in a version, by `base_key`: the version has read exactly these rows. Empty if that
    is not known."""

    marks: Mapping[str, Mark]
    states: str = ""
    """The signature of the definition's shape (`sql.increments`) whose hidden columns the version has; empty: none."""
    complete_ms: int = 0
    """How long the last complete refresh wrote, in milliseconds; 0: unknown."""
    rows_ms: int = 0
    """How long the last refresh by rows wrote. Each complete refresh halves it, so that a slow one is tried again."""
    rows_bytes: int = 0
    """How many bytes of changed files that one read."""
    keyed: Keyed | None = None
    same_as: int = 0
    """The number of an earlier version that shows the same rows, which were copied into this one; 0: none."""

    def estimate(self, size: int, whole: int) -> int:
        """The milliseconds that a refresh by rows takes for `size` bytes of changed files; 0: unknown. `whole`: the
        bytes of the base tables; 0: unknown.

        Most of a small refresh is a fixed price. More bytes cost about what they cost a complete refresh, which reads
        all of them.
        """
        if not (self.rows_ms and whole):
            return self.rows_ms
        more = (size - self.rows_bytes) * self.complete_ms // whole
        return max(self.rows_ms // FIXED_SHARE, self.rows_ms + more)

    def after_rows(self, marks: Mapping[str, Mark], took_ms: int, size: int) -> Basis:
        """The basis of the next version, which a refresh by rows wrote."""
        return replace(self, marks=marks, rows_ms=max(1, took_ms), rows_bytes=size, same_as=0)

    def after_complete(self, marks: Mapping[str, Mark], states: str, took_ms: int) -> Basis:
        """The basis of the next version, which a complete refresh wrote."""
        return Basis(marks, states, max(1, took_ms), self.rows_ms // 2, self.rows_bytes)

    def after_parts(self, marks: Mapping[str, Mark], states: str) -> Basis:
        """The basis of the next version, for which some partitions, or the rows with some values, were recomputed."""
        return replace(self, marks=marks, states=states, rows_ms=self.rows_ms // 2, same_as=0)


NO_BASIS = Basis({})


@dataclass(frozen=True, slots=True)
class Contents:
    """What a version contains of its base tables, which are named by their `base_key`s.

    `followed` is the snapshot of the table whose partitions the view follows: each partition as it was when the view's
    partition was written. `others` holds the snapshots of all other tables, each with the first version that saw them.
    """

    followed: Snapshot | None = None
    others: tuple[tuple[int, Mapping[str, Snapshot]], ...] = ()
    basis: Basis | None = None
    """What a refresh by rows can continue from; None: the next refresh cannot be by rows."""

    @property
    def keyed(self) -> Keyed | None:
        return self.basis.keyed if self.basis is not None else None

    @property
    def same_as(self) -> int:
        """As `Basis.same_as`."""
        return self.basis.same_as if self.basis is not None else 0

    def doubtful(self, version: int) -> Contents:
        """These contents, changed so that they equal no later snapshot: the rows may not match the snapshots."""
        *layers, (since, states) = self.others or ((NEVER_BUILT, {}),)
        doubted = {base: state.doubtful(version) for base, state in states.items()}
        return Contents(self.followed and self.followed.doubtful(version), (*layers, (since, doubted)))

    def others_of(self, version: int) -> Mapping[str, Snapshot]:
        """The snapshots of the other tables that the given version has read."""
        place = bisect_right(self.others, version, key=lambda entry: entry[0])
        return self.others[place - 1][1] if place else {}


def written_basis(basis: Basis) -> list[Any]:
    return [
        {base: written(mark) for base, mark in sorted(basis.marks.items())},
        basis.states,
        basis.complete_ms,
        basis.rows_ms,
        basis.rows_bytes,
        *([_written_keyed(basis.keyed)] if basis.keyed is not None or basis.same_as else []),
        *([basis.same_as] if basis.same_as else []),
    ]


def _written_keyed(keyed: Keyed | None) -> list[Any] | None:
    return None if keyed is None else [keyed.column, keyed.base, written_snapshot(keyed.snapshot)]


def read_basis(record: list[Any] | None) -> Basis | None:
    """None if the version has none: an earlier release wrote it, or its tables changed while they were read."""
    if record is None:
        return None
    marks, states, complete_ms, rows_ms, rows_bytes, *further = record
    keyed, same_as = (further + [None, 0][len(further) :])[:2]
    return Basis(
        {base: read(mark) for base, mark in marks.items()},
        states,
        complete_ms,
        rows_ms,
        rows_bytes,
        None if keyed is None else Keyed(keyed[0], keyed[1], read_snapshot(keyed[2])),
        same_as,
    )
