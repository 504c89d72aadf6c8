"""Relations, of which some are materialized views."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.base.relation import SerializableIterable
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark import SparkRelation


@dataclass(frozen=True, eq=False, repr=False)
class FreshgateRelation(SparkRelation):
    """A table, view or materialized view."""

    # dbt reads these to choose between CREATE OR REPLACE and a swap of names.
    renameable_relations: SerializableIterable = field(
        default_factory=lambda: frozenset({RelationType.Table, RelationType.View, RelationType.MaterializedView})
    )
    replaceable_relations: SerializableIterable = field(
        default_factory=lambda: frozenset({RelationType.View, RelationType.MaterializedView})
    )
