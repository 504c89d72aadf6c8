"""Which of Spark's settings a view may set for its refreshes: those that affect plans and results of queries.

A refresh runs under the gateway's own account. So a view may not set anything that runs code, names a location or holds
a secret.
"""

from __future__ import annotations

import re

_PREFIX = "spark.sql."
_GROUPS = (
    *("adaptive.", "aggregate.", "ansi.", "avro.", "bucketing.", "cartesianProductExec.", "cbo.", "codegen."),
    *("constraintPropagation.", "crossJoin.", "csv.", "datetime.", "decimalOperations.", "execution.", "files."),
    *("function.", "hive.convertMetastore", "hive.metastorePartitionPruning", "iceberg.", "icu.", "join."),
    *("inMemoryColumnarStorage.", "json.", "jsonGenerator.", "legacy.", "limit.", "objectHashAggregate.", "optimizer."),
    *("orc.", "parquet.", "shuffle.", "sort.", "sortMergeJoinExec.", "statistics.", "subexpressionElimination."),
    *("sources.bucketing.", "sources.v2.bucketing.", "sources.parallelPartitionDiscovery.", "windowExec."),
    *("sources.partitionColumnTypeInference.",),
)
_NAMES = frozenset(
    {
        *(
            "autoBroadcastJoinThreshold",
            "broadcastTimeout",
            "caseSensitive",
            "charAsVarchar",
            "columnNameOfCorruptRecord",
        ),
        *("groupByAliases", "groupByOrdinal", "hive.manageFilesourcePartitions", "leafNodeDefaultParallelism"),
        *("mapKeyDedupPolicy", "maxBroadcastTableSize", "maxSinglePartitionBytes", "orderByOrdinal", "pivotMaxValues"),
        *("preserveCharVarcharTypeInfo", "readSideCharPadding", "session.timeZone", "shuffledHashJoinFactor"),
        *("storeAssignmentPolicy", "timestampType", "transposeMaxValues"),
    }
)
_NEVER = re.compile(
    r"class|committer|plugin|provider|listener|factory|command|credential|password|secret|token|auth|jar|ur[il]\b|"
    r"path|locations?\b|dir\b|director|python|pyspark",
    re.IGNORECASE,
)
"""Words in the names of settings that name code, locations or secrets; refused in every group."""


def is_offered(name: str) -> bool:
    """Whether a view may set Spark's setting `name`."""
    if not name.startswith(_PREFIX):
        return False
    rest = name.removeprefix(_PREFIX)
    return rest in _NAMES or (rest.startswith(_GROUPS) and _NEVER.search(rest) is None)
