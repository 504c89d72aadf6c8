"""Snapshots of base tables, as values that can be compared."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.mv.many import in_order

PartitionValues = tuple[str | None, ...]
"""The values of a table's partition columns, in order, as Spark's texts; None is NULL."""


PASSED = "~"
"""Ends a state that a table had before its rows were read, and no longer had afterwards."""
_DOUBTFUL = re.compile(r"~\d+$")
MIXED = ""
"""The state of a table whose partitions come from different observations: only the partitions can be compared."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one observation of a table showed. Equal states mean equal rows; unequal states may also.

    The state of a partition is `partitions.get(values, default)`. A listing of files names every partition, so its
    default means "does not exist". An observation of a table's log names the partitions that changed since the first
    observation; the default stands for the others. For a table without partitions, only `state` counts.
    """

    identity: str
    """Identifies the table: one that was dropped and created again under the same name has another identity."""
    state: str
    """The state of the whole table."""
    default: str = ""
    partitions: Mapping[PartitionValues, str] = field(default_factory=dict)
    position: str = ""
    """The position in the table's history (Delta's version, Iceberg's snapshot), where the next observation starts."""

    def of_partition(self, values: PartitionValues) -> str:
        return self.partitions.get(values, self.default)

    def changed(self, before: Snapshot | None) -> frozenset[PartitionValues] | None:
        """The partitions that differ from an earlier snapshot, removed ones included; None if all may differ."""
        if before is None or before.identity != self.identity or before.default != self.default:
            return None
        if before.state == self.state:
            return frozenset()
        either = before.partitions.keys() | self.partitions.keys()
        found = frozenset(values for values in either if before.of_partition(values) != self.of_partition(values))
        # All partitions are equal although the table has changed: the change is not in a known partition.
        return found if found or before.state == MIXED else None

    def doubtful(self, version: int) -> Snapshot:
        """This snapshot, changed so that it equals no other look: rows that were read for the version, and are gone
        again, may be of another state of the table."""
        return replace(self, identity=f"{self.identity}~{version}")

    @property
    def is_doubtful(self) -> bool:
        """Whether it was made by `doubtful`."""
        return _DOUBTFUL.search(self.identity) is not None

    def until(self, after: Snapshot | None) -> Snapshot:
        """What rows contain that were read between this look and the look `after`: this snapshot, in which whatever
        differs equals no other look. For rows that came in between were perhaps read, and may go again.

        A table with a log is never in the same state again.
        """
        changed = None if after is None else after.changed(self)
        if self.position or changed == frozenset():
            return self
        if changed is None:
            return replace(self, identity=self.identity + PASSED)
        passed = {values: self.of_partition(values) + PASSED for values in changed}
        return replace(self, state=self.state + PASSED, partitions={**self.partitions, **passed})


GONE = Snapshot("", "gone")
"""For a name that does not exist and that may be any word of a text."""
MISSING = Snapshot("", "missing")
"""For a name that does not exist although Spark has accepted a definition with it: it existed once, or only Spark sees
it."""


@dataclass(frozen=True, slots=True)
class Unobserved:
    """A table that cannot be observed, and why: it counts neither as changed nor as unchanged."""

    reason: str


Observed = Snapshot | Unobserved


def fingerprint(*texts: str) -> str:
    """A digest of the texts: sixteen hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        encoded = text.encode("utf-8")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def written_snapshot(snapshot: Snapshot) -> list[Any]:
    """As JSON."""
    partitions = in_order(snapshot.partitions.items(), repr)
    return [snapshot.identity, snapshot.state, snapshot.default, snapshot.position, partitions]


def read_snapshot(record: list[Any]) -> Snapshot:
    identity, state, default, position, partitions = record
    return Snapshot(identity, state, default, {tuple(values): kept for values, kept in partitions}, position)
