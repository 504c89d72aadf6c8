"""How a version of a view follows from an earlier one that is in memory, as far as that saves loading all rows.

Tests: `test_version_changes`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.mv.model.view import MaterializedView, Version
from sql.memory.kept_partitions import partitions_condition
from sql.texts import public_view
from sql.texts.storage_layout import PartitionKey

KEYS_MAX = 1_000
"""Changed partitions up to which the others are kept. With more, there is little to save, and the texts grow long."""


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """What turns the rows of the earlier version into those of the later one."""

    without: str
    """The condition on rows of the earlier version that are not in the later one, in the engine's SQL; empty if all
    are."""
    added: str
    """Spark's query for the other rows of the later version."""


def version_changes(view: MaterializedView, before: Version, after: Version) -> VersionChanges | None:
    """None if the later version does not share rows with the earlier one, or not in a way that can be told from the
    rows. `view`: of which both are versions, and which is as it was then."""
    if not (before.complete and after.complete) or after.shown.snapshot:
        # Of versions with commits of their own, it is not known which rows they share.
        return None
    added = public_view.rows_beyond(view.storage, view.columns, after.shown, before.shown, view.layout)
    if not view.layout.partitioned:
        return VersionChanges("", added) if _extends(before, after) else None
    changed, same = changed_keys(before, after), before.manifest.default == after.manifest.default
    if (
        not same
        or before.shown.flagged != after.shown.flagged
        or not view.layout.holds_column
        or view.layout.further
        or len(changed) > KEYS_MAX
    ):
        return None
    without = partitions_condition(view.layout.column, view.layout.kind, changed)
    return None if without is None else VersionChanges(without, added)


def changed_keys(before: Version, after: Version) -> frozenset[PartitionKey]:
    """The partitions that a later version has written, or no longer shows."""
    old, new = before.manifest, after.manifest
    keys = old.exceptions.keys() | new.exceptions.keys()
    return frozenset(key for key in keys if old.writer(key) != new.writer(key))


def _extends(before: Version, after: Version) -> bool:
    """Whether the later version shows whatever the earlier one shows, and rows of further versions."""
    if before.shown.hidden or after.shown.hidden or before.shown.flagged or after.shown.flagged:
        return False
    return all(
        any(first <= start and end <= last for first, last in after.shown.ranges) for start, end in before.shown.ranges
    )
