"""What a refresh would do, and the observations behind it: values, which `proposer` makes.

Tests: `test_proposal`.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.mv.freshness.drift import next_contents
from gateway.mv.model.contents import Basis, Contents
from gateway.mv.model.partitions import Partition, StoredPartitions
from gateway.mv.model.snapshot import PartitionValues
from gateway.mv.model.view import PARTITIONS_NAMED_MAX, MaterializedView
from gateway.mv.observation.inspection import Inspection
from gateway.mv.refresh.planner import PartlyRecomputed, RefreshPlan, in_order
from sql.texts.storage_layout import ALL, PartitionKey, Selection


@dataclass(frozen=True, slots=True)
class Keys:
    """Maps partitions of the followed table to the view's. Those outside partition_sync_limit are omitted."""

    of: Mapping[PartitionValues, PartitionKey] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StandingPartition:
    """A partition of a view, the version that wrote it, and the tables whose changes it misses."""

    partition: Partition
    version: int
    unsynced: frozenset[str]


@dataclass(frozen=True, slots=True)
class RefreshProposal:
    """What a refresh would do, and the observations behind it."""

    view: MaterializedView
    """The view, with what it reads and follows now."""
    plan: RefreshPlan | None
    """None if nothing that the view shows has changed."""
    inspection: Inspection
    keys: Keys = field(default=Keys())
    partly: bool = False
    """Only named partitions are refreshed; nothing new is known about the others."""
    no_rows: bool = False
    """The base tables have changed, but none of the rows that the view reads."""
    narrowed: bool = False
    """As `Version.narrowed`."""
    after: Inspection | None = None
    """The base tables after the rows were written, if anything was written to them meanwhile."""

    @property
    def partitions(self) -> int:
        """How many partitions must be processed, of the view and of its base tables."""
        return self.view.current.partitions + self.inspection.partitions

    @property
    def compares(self) -> bool:
        """Whether the rows to write are only right if the base tables are still as they were observed: what the version
        contains, and later refreshes by rows continue from, is the state of the tables afterwards."""
        if self.plan is None or self.plan.source.exact is None or not self.plan.source.exact.marks:
            return False
        return isinstance(self.plan.source, PartlyRecomputed) or not self.plan.chosen.everything

    def contents(self, version: int, basis: Basis | None) -> Contents:
        """The contents of the version that the plan writes, or of the current version if it writes nothing."""
        chosen = self.plan.chosen if self.plan else Selection(all_but=False)
        if self.no_rows:
            chosen = ALL
        return next_contents(self.view, version, chosen, self.inspection.until(self.after), self.keys.of, basis)

    def first_names(self) -> tuple[str, ...]:
        """The names of the first partitions that are recomputed, in order, as far as they are known; empty if all are
        written at once."""
        written = self.plan.written if self.plan else ()
        first = heapq.nsmallest(PARTITIONS_NAMED_MAX, written, key=in_order)
        stored = StoredPartitions(self.view)
        return tuple(stored.of(key).name for key in first)
