"""The settings under which Spark plans what is proved."""

from __future__ import annotations

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."
_FILES = "org.apache.spark.sql.execution.datasources."
EXCLUDED = (
    # Conditions that follow from others, in other places of different plans.
    _OPTIMIZER + "InferFiltersFromConstraints",
    _OPTIMIZER + "InferFiltersFromGenerate",
    # Sums of other types, where that is faster.
    _OPTIMIZER + "DecimalAggregates",
    # Depend on statistics.
    _OPTIMIZER + "CostBasedJoinReorder",
    # Limits of parts of the rows.
    _OPTIMIZER + "LimitPushDown",
    _OPTIMIZER + "LimitPushDownThroughWindow",
    # Keeps some rows of each rank before they are ranked, and the condition on the rank anyway.
    _OPTIMIZER + "InferWindowGroupLimit",
    # Several subqueries as columns of one.
    _OPTIMIZER + "MergeScalarSubqueries",
    _OPTIMIZER + "MergeSubplans",
    # List the files, and keep the conditions anyway.
    _FILES + "PruneFileSourcePartitions",
    "org.apache.spark.sql.hive.execution.PruneHiveTablePartitions",
)
FOLDING = (
    # Compute values from literals.
    *(_OPTIMIZER + rule for rule in ("ConstantFolding", "ConstantPropagation", "ReorderAssociativeOperator")),
    # Choose other operators by the values of literals: of patterns, beyond the limits of a type, for rows of NULLs.
    *(_OPTIMIZER + rule for rule in ("LikeSimplification", "UnwrapCastInBinaryComparison", "EliminateOuterJoin")),
    # Moves a literal into branches, to where it can be computed.
    _OPTIMIZER + "PushFoldableIntoBranches",
)
"""Rules by which a plan may hold for some values of its literals only."""
EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
SETTINGS = {
    EXCLUDED_RULES: ",".join(EXCLUDED),
    # A long IN list would become a set, whose values the writer does not show.
    "spark.sql.optimizer.inSetConversionThreshold": "100000",
    # A table would have a type of its own in each query.
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.metadataOnly": "false",
}
UNFOLDED = {**SETTINGS, EXCLUDED_RULES: ",".join((*EXCLUDED, *FOLDING))}
"""In a session for proofs: plans that depend on nothing but the text and the tables' columns."""
