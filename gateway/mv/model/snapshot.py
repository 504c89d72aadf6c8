"""What base tables looked like when they were observed, as values that are compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

PartitionValues = tuple[str | None, ...]
"""The values of a table's partition columns, in their order, as Spark's texts; None is NULL."""


MIXED = ""
"""The state of a table whose partitions were not all looked at in one look: then only they are compared."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at a table. Equal states are equal rows; unequal ones may be.

    The state of a partition is `partitions.get(values, default)`. A listing of files names every partition, so that
    its default means "not there"; a look at a log names those that changed since the first look, which the default
    stands for. A table without partitions has none, and its state is `state`.
    """

    identity: str
    """Which table it is: one that was dropped and created again under the same name has another."""
    state: str
    """Of the whole table."""
    default: str = ""
    partitions: Mapping[PartitionValues, str] = field(default_factory=dict)
    position: str = ""
    """Where in the table's own history this look was taken (Delta's version, Iceberg's snapshot), for the next one."""

    def of_partition(self, values: PartitionValues) -> str:
        return self.partitions.get(values, self.default)

    def changed(self, before: Snapshot | None) -> frozenset[PartitionValues] | None:
        """The partitions whose states are not those of an earlier look, gone ones included; None: all may be."""
        if before is None or before.identity != self.identity or before.default != self.default:
            return None
        if before.state == self.state:
            return frozenset()
        either = before.partitions.keys() | self.partitions.keys()
        found = frozenset(values for values in either if before.of_partition(values) != self.of_partition(values))
        # Where all partitions are equal, the table has changed somewhere that they do not tell.
        return found if found or before.state == MIXED else None


GONE = Snapshot("", "gone")
"""Of a name that nothing has, and that may be any word of a text."""
MISSING = Snapshot("", "missing")
"""Of a name that nothing has. A definition that Spark has taken reads something under each of its names: so there was
something, or there is something that only Spark sees."""


@dataclass(frozen=True, slots=True)
class Unobserved:
    """A table of which nothing can be told, and why: it counts as neither changed nor unchanged."""

    reason: str


Observed = Snapshot | Unobserved


def fingerprint(*texts: str) -> str:
    """Sixteen hexadecimal digits of texts."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        encoded = text.encode("utf-8")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()
