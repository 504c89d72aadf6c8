"""What Spark's settings do, as far as rows depend on them.

Whatever is not named here may change rows: two sessions that differ in it are different, and no refresh sets it. This
holds for settings of later releases, of Hadoop, of Hive and of other programs, which Spark hands to readers of files.

Names are exact, and without their beginning `spark.sql.` unless they are in `CONNECTION`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PREFIX = "spark.sql."

HOW_FAST = {
    "adaptive execution: how many tasks, which join": """
        adaptive.advisoryPartitionSizeInBytes adaptive.applyFinalStageShuffleOptimizations
        adaptive.autoBroadcastJoinThreshold adaptive.coalescePartitions.enabled
        adaptive.coalescePartitions.initialPartitionNum adaptive.coalescePartitions.minPartitionNum
        adaptive.coalescePartitions.minPartitionSize adaptive.coalescePartitions.parallelismFirst adaptive.enabled
        adaptive.fetchShuffleBlocksInBatch adaptive.forceApply adaptive.forceOptimizeSkewedJoin
        adaptive.localShuffleReader.enabled adaptive.maxShuffledHashJoinLocalMapThreshold
        adaptive.nonEmptyPartitionRatioForBroadcastJoin adaptive.optimizeSkewsInRebalancePartitions.enabled
        adaptive.rebalancePartitionsSmallPartitionFactor adaptive.shuffle.targetPostShuffleInputSize
        adaptive.skewJoin.enabled adaptive.skewJoin.skewedPartitionFactor
        adaptive.skewJoin.skewedPartitionThresholdInBytes""",
    "which of several equal joins and exchanges": """
        autoBroadcastJoinThreshold broadcastTimeout exchange.reuse
        execution.broadcastHashJoin.outputPartitioningExpandLimit execution.removeRedundantProjects
        execution.removeRedundantSorts execution.replaceHashWithSortAgg execution.reuseSubquery
        execution.useObjectHashAggregateExec execution.usePartitionEvaluator join.preferSortMergeJoin
        maxBroadcastTableSize requireAllClusterKeysForCoPartition requireAllClusterKeysForDistribution
        shuffledHashJoinFactor unionOutputPartitioning""",
    "how many tasks": """
        execution.rangeExchange.sampleSizePerPartition execution.sortBeforeRepartition files.maxPartitionBytes
        files.maxPartitionNum files.minPartitionNum files.openCostInBytes leafNodeDefaultParallelism
        limit.initialNumPartitions limit.scaleUpFactor maxSinglePartitionBytes shuffle.partitions
        sources.ignoreDataLocality sources.parallelPartitionDiscovery.parallelism
        sources.parallelPartitionDiscovery.threshold""",
    "what the optimizer expects of tables": """
        cbo.enabled cbo.joinReorder.card.weight cbo.joinReorder.dp.star.filter cbo.joinReorder.dp.threshold
        cbo.joinReorder.enabled cbo.planStats.enabled cbo.starJoinFTRatio cbo.starSchemaDetection defaultSizeInBytes
        sources.fileCompressionFactor statistics.fallBackToHdfs statistics.parallelFileListingInStatsComputation.enabled
        """,
    "filters that only spare work": """
        optimizer.dynamicPartitionPruning.enabled optimizer.dynamicPartitionPruning.fallbackFilterRatio
        optimizer.dynamicPartitionPruning.reuseBroadcastOnly optimizer.dynamicPartitionPruning.useStats
        optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold
        optimizer.runtime.bloomFilter.creationSideThreshold optimizer.runtime.bloomFilter.enabled
        optimizer.runtime.bloomFilter.expectedNumItems optimizer.runtime.bloomFilter.maxNumBits
        optimizer.runtime.bloomFilter.maxNumItems optimizer.runtime.bloomFilter.numBits
        optimizer.runtimeFilter.number.threshold""",
    "how values are compared with a list": "optimizer.inSetConversionThreshold optimizer.inSetSwitchThreshold",
    "which code is generated": """
        codegen.aggregate.fastHashMap.capacityBit codegen.aggregate.map.twolevel.enabled
        codegen.aggregate.map.twolevel.partialOnly codegen.aggregate.map.vectorized.enable
        codegen.aggregate.sortAggregate.enabled codegen.aggregate.splitAggregateFunc.enabled
        codegen.broadcastCleanedSourceThreshold codegen.hugeMethodLimit
        codegen.join.buildSideOuterShuffledHashJoin.enabled codegen.join.existenceSortMergeJoin.enabled
        codegen.join.fullOuterShuffledHashJoin.enabled codegen.join.fullOuterSortMergeJoin.enabled codegen.maxFields
        codegen.methodSplitThreshold codegen.splitConsumeFuncByOperator codegen.useIdInClassName codegen.wholeStage
        subexpressionElimination.cache.maxEntries""",
    "memory, and when it is spilled": """
        cartesianProductExec.buffer.in.memory.threshold cartesianProductExec.buffer.spill.size.threshold
        cartesianProductExec.buffer.spill.threshold columnVector.offheap.enabled
        execution.topKSortFallbackThreshold inMemoryColumnarStorage.batchSize inMemoryColumnarStorage.compressed
        inMemoryColumnarStorage.hugeVectorReserveRatio inMemoryColumnarStorage.hugeVectorThreshold
        objectHashAggregate.sortBased.fallbackThreshold orc.columnarReaderBatchSize parquet.columnarReaderBatchSize
        sessionWindow.buffer.in.memory.threshold sessionWindow.buffer.spill.size.threshold
        sessionWindow.buffer.spill.threshold sort.enableRadixSort sortMergeJoinExec.buffer.in.memory.threshold
        sortMergeJoinExec.buffer.spill.size.threshold sortMergeJoinExec.buffer.spill.threshold
        windowExec.buffer.in.memory.threshold windowExec.buffer.spill.size.threshold windowExec.buffer.spill.threshold
        """,
    "how shuffles are checked and cleaned": """
        classic.shuffleDependency.fileCleanup.enabled shuffle.orderIndependentChecksum.enableFullRetryOnMismatch
        shuffle.orderIndependentChecksum.enabled shuffleDependency.fileCleanup.enabled
        shuffleDependency.skipMigration.enabled""",
    "how new files are cut and compressed": """
        avro.compression.codec avro.deflate.level avro.xz.level avro.zstandard.bufferPool.enabled avro.zstandard.level
        files.maxRecordsPerFile maxConcurrentOutputFileWriters orc.columnarWriterBatchSize orc.compression.codec
        parquet.compression.codec""",
}
"""Settings that decide how fast a statement is and what it costs, by reason. A view may have them for its refreshes."""

WHAT_IS_SHOWN = {
    "plans, logs and errors": """
        adaptive.logLevel codegen.logLevel codegen.logging.maxLines dataframeCache.logLevel debug.maxToStringFields
        error.messageFormat expressionTreeChangeLog.level maxMetadataStringLength maxPlanStringLength
        nameResolutionLog.level planChangeLog.batches planChangeLog.level planChangeLog.rules
        stackTracesInDataFrameContext ui.explainMode""",
    "the Thrift server's pages, tasks and user interface": """
        execution.interruptOnCancel hive.thriftServer.async legacy.hive.thriftServer.useZeroBasedColumnOrdinalPosition
        thriftServer.incrementalCollect thriftServer.interruptOnCancel thriftServer.queryTimeout
        thriftserver.scheduler.pool thriftserver.ui.retainedSessions thriftserver.ui.retainedStatements""",
    "the console of other programs": """
        cli.print.header repl.eagerEval.enabled repl.eagerEval.maxNumRows repl.eagerEval.truncate""",
    "how binary values are printed; the Thrift server sets it with a session's first query": "binaryOutputStyle",
    "where names are looked up, which plans and stored definitions tell": "defaultCatalog",
    "which SET of a Spark core setting is refused": "legacy.setCommandRejectsSparkCoreConfs",
}
"""Settings that decide what is shown of a statement, or where it runs, by reason."""

HOW_IT_IS_WRITTEN = {
    "the format of new files": "parquet.fieldId.write.enabled parquet.writeLegacyFormat sources.default",
    "how times are stored in new files": """
        avro.datetimeRebaseModeInWrite parquet.datetimeRebaseModeInWrite parquet.int96RebaseModeInWrite
        parquet.outputTimestampType""",
    "what INSERT does": """
        addPartitionInBatch.size execution.fastFailOnFileFormatOutput hive.convertInsertingPartitionedTable
        hive.convertInsertingUnpartitionedTable hive.convertMetastoreInsertDir sources.partitionOverwriteMode
        storeAssignmentPolicy truncateTable.ignorePermissionAcl.enabled""",
    "what CREATE TABLE does": """
        charAsVarchar hive.convertCTAS hive.convertMetastoreCtas legacy.allowNonEmptyLocationInCTAS
        legacy.createHiveTableByDefault sources.bucketing.maxBuckets""",
    "whether CREATE VIEW accepts columns without a name of their own": "legacy.allowAutoGeneratedAliasForView",
    "what ANALYZE TABLE stores": """
        statistics.histogram.enabled statistics.histogram.numBins statistics.ndv.maxError
        statistics.percentile.accuracy statistics.size.autoUpdate.enabled
        statistics.updatePartitionStatsInAnalyzeTable.enabled""",
}
"""Settings that decide what statements write, by reason. Queries do not see them; a refresh never has them."""

CONNECTION = {
    "HiveServer2's own: pages, threads, ports": r"hive\.server2\..*",
    "the gateway's own, of each session": r"freshgate\..*",
    "what Delta's sessions note by themselves: the version of their last commit": (
        r"spark\.databricks\.delta\.lastCommitVersionInSession"
    ),
    "Kyuubi's own: who has connected, how its server works": r"(?:spark\.)?kyuubi\..*",
    "the application: a Spark of a user's own at Kyuubi has others": (
        r"spark\.(?:app\..*|driver\.(?:bindAddress|blockManager\.port|cores|host|memory|memoryOverhead|port)"
        r"|executor\.(?:cores|id|instances|memory|memoryOverhead)|dynamicAllocation\..*|eventLog\..*|master"
        r"|scheduler\..*|submit\.deployMode|ui\..*|yarn\.(?:queue|tags))"
    ),
}
"""Settings of a connection or an application, as patterns of whole names, by reason."""

MEANING = {
    "what expressions mean": """
        ansi.enabled decimalOperations.allowPrecisionLoss function.concatBinaryAsString function.eltOutputAsString
        icu.caseMappings.enabled
        legacy.allowNegativeScaleOfDecimal legacy.allowNullComparisonResultInArraySort
        legacy.allowZeroIndexInFormatString legacy.castComplexTypesToString.enabled legacy.codingErrorAction
        legacy.createEmptyCollectionUsingStringType legacy.decimal.retainFractionDigitsOnTruncate
        legacy.disableMapKeyNormalization legacy.followThreeValuedLogicInArrayExists legacy.fromDayTimeString.enabled
        legacy.groupingIdWithAppendedUserGroupBy legacy.histogramNumericPropagateInputType
        legacy.inSubqueryNullability legacy.integerGroupingId legacy.interval.enabled legacy.javaCharsets
        legacy.literal.pickMinimumPrecision legacy.lpadRpadAlwaysReturnString legacy.negativeIndexInArrayInsert
        legacy.noCharPaddingInPredicate legacy.nullInEmptyListBehavior legacy.percentileDiscCalculation
        legacy.sizeOfNull legacy.statisticalAggregate legacy.truncateForEmptyRegexSplit
        legacy.typeCoercion.datetimeToString.enabled mapKeyDedupPolicy""",
    "how times and names are read": """
        caseSensitive legacy.csv.enableDateTimeParsingFallback legacy.json.enableDateTimeParsingFallback
        legacy.timeParserPolicy session.timeZone timestampType""",
    "which files and partitions are read": """
        files.ignoreCorruptFiles files.ignoreInvalidPartitionPaths files.ignoreMissingFiles
        hive.metastorePartitionPruning
        legacy.readFileSourceTableCacheIgnoreOptions sources.partitionColumnTypeInference.enabled
        sources.validatePartitionColumns""",
    "what a text file holds": """
        columnNameOfCorruptRecord csv.filterPushdown.enabled csv.parser.columnPruning.enabled
        csv.parser.inputBufferSize json.enableExactStringParsing json.enablePartialResults json.filterPushdown.enabled
        json.useUnsafeRow legacy.json.allowEmptyString.enabled legacy.useLegacyXMLParser""",
    "what a file of Parquet, ORC or Avro holds": """
        avro.datetimeRebaseModeInRead avro.filterPushdown.enabled legacy.avro.allowIncompatibleSchema
        legacy.parquet.nanosAsLong legacy.parquet.returnNullStructIfAllFieldsMissing orc.aggregatePushdown
        orc.enableNestedColumnVectorizedReader orc.enableVectorizedReader orc.filterPushdown orc.mergeSchema
        parquet.aggregatePushdown parquet.binaryAsString parquet.datetimeRebaseModeInRead
        parquet.enableNestedColumnVectorizedReader parquet.enableNullTypeVectorizedReader
        parquet.enableVectorizedReader parquet.fieldId.read.enabled parquet.fieldId.read.ignoreMissing
        parquet.filterPushdown parquet.filterPushdown.date parquet.filterPushdown.decimal
        parquet.filterPushdown.string.startsWith parquet.filterPushdown.stringPredicate
        parquet.filterPushdown.timestamp parquet.ignoreVariantAnnotation parquet.inferTimestampNTZ.enabled
        parquet.int96AsTimestamp parquet.int96RebaseModeInRead parquet.int96TimestampConversion parquet.mergeSchema
        parquet.pushdown.inFilterThreshold parquet.reader.respectUnknownTypeAnnotation.enabled
        parquet.recordLevelFilter.enabled parquet.respectSummaryFiles readSideCharPadding""",
}
"""Settings that decide what a definition's query yields, and nothing about how its rows are written, by reason: a
refresh has its creator's."""

OFFERED = {
    "how Spark reads Hive's tables": """
        hive.convertMetastoreAsNullable hive.convertMetastoreOrc hive.convertMetastoreParquet
        hive.convertMetastoreParquet.mergeSchema""",
    "what the optimizer does": """
        bucketing.coalesceBucketsInJoin.enabled bucketing.coalesceBucketsInJoin.maxBucketRatio codegen.fallback
        constraintPropagation.enabled inMemoryColumnarStorage.enableVectorizedReader
        inMemoryColumnarStorage.partitionPruning optimizer.avoidCollapseUDFWithExpensiveExpr
        optimizer.collapseProjectAlwaysInline optimizer.enableCsvExpressionOptimization
        optimizer.enableJsonExpressionOptimization optimizer.excludedRules optimizer.expression.nestedPruning.enabled
        optimizer.maxIterations optimizer.metadataOnly optimizer.nestedPredicatePushdown.supportedFileSources
        optimizer.nestedSchemaPruning.enabled optimizer.replaceExceptWithFilter optimizer.windowGroupLimitThreshold
        sources.bucketing.autoBucketedScan.enabled sources.bucketing.enabled
        sources.v2.bucketing.allowCompatibleTransforms.enabled
        sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled sources.v2.bucketing.enabled
        sources.v2.bucketing.partiallyClusteredDistribution.enabled sources.v2.bucketing.partition.filter.enabled
        sources.v2.bucketing.pushPartValues.enabled sources.v2.bucketing.shuffle.enabled
        sources.v2.bucketing.sorting.enabled subexpressionElimination.enabled
        subexpressionElimination.skipForShortcutExpr""",
    "how Iceberg's tables are read": """
        iceberg.aggregate-push-down.enabled iceberg.data-planning-mode iceberg.delete-planning-mode
        iceberg.executor-cache.enabled iceberg.executor-cache.locality.enabled iceberg.locality.enabled
        iceberg.planning.preserve-data-grouping iceberg.report-column-stats iceberg.split-size
        iceberg.vectorization.enabled""",
}
"""Other settings that a view may have for its refreshes: they concern reading and planning only, but they are known to
have faults that change rows, or are not Spark's. Spark keeps none of them with a definition."""

STATIC = """
    avro.schemaUrlAllowedSchemes broadcastExchange.maxThreadThreshold cache.serializer
    catalog.spark_catalog.defaultDatabase catalogImplementation codegen.cache.maxEntries codegen.comments debug
    defaultUrlStreamHandlerFactory.enabled event.truncate.length extensions extensions.test.loadFromCp
    filesourceTableRelationCacheSize globalTempDatabase hive.metastore.barrierPrefixes hive.metastore.jars
    hive.metastore.jars.path hive.metastore.sharedPrefixes hive.metastore.version
    hive.thriftServer.http.sniHostCheckEnabled hive.thriftServer.singleSession hive.version kafka.disallowedOptions
    legacy.hive.thriftServer.allowSettingSystemProperties legacy.sessionInitWithConfigDefaults metadataCacheTTLSeconds
    queryExecutionListeners reflect.allowList restrictedMode.enabled resultQueryStage.maxThreadThreshold
    shuffleExchange.maxThreadThreshold sources.disabledJdbcConnProviderList sources.schemaStringLengthThreshold
    streaming.streamingQueryListeners streaming.ui.enabled streaming.ui.enabledCustomMetricList
    streaming.ui.retainedProgressUpdates streaming.ui.retainedQueries subquery.maxThreadThreshold ui.retainedExecutions
    warehouse.dir"""
"""Settings of a whole Spark, in every release that has them; Spark keeps them with no view."""

ANSI = PREFIX + "ansi.enabled"


def names(groups: dict[str, str]) -> frozenset[str]:
    """The whole names in a table above."""
    return frozenset(PREFIX + name for text in groups.values() for name in text.split())


_COST = names(HOW_FAST)
_HARMLESS = _COST | names(WHAT_IS_SHOWN) | names(HOW_IT_IS_WRITTEN)
_MEANING = names(MEANING)
_OFFERED = _COST | _MEANING | names(OFFERED)
_STATIC = names({"": STATIC})
_CONNECTION = re.compile("|".join(CONNECTION.values()))
_NEVER_KEPT = re.compile(
    r"spark\.sql\.(?:view\.maxNestedViewDepth|optimizer\.(?!disableHints$)|codegen\.|execution\.|shuffle\.|adaptive\."
    r"|hive\.convertMetastore(?:Parquet|Orc|Ctas)|hive\.convertInserting(?:Unp|P)artitionedTable"
    r"|maven\.additionalRemoteRepositories"
    r"|analyzer\.singlePassResolver\.(?:enabledTentatively|dualRunWithLegacy)$).*"
)
"""What Spark's `ViewHelper` leaves out."""


def is_harmless(name: str) -> bool:
    """Whether equal queries have equal rows in sessions that differ in this setting."""
    return name in _HARMLESS or _CONNECTION.fullmatch(name) is not None


def has_meaning(name: str) -> bool:
    """Whether a refresh has the creator's value of this setting."""
    return name in _MEANING


def is_offered(name: str) -> bool:
    """Whether a view may have a value of its own for its refreshes.

    A refresh runs under the gateway's own account. So no such setting runs code, names a location or holds a secret.
    """
    return name in _OFFERED


def is_kept(name: str) -> bool:
    """Whether Spark keeps a session's value with a view that the session creates, and applies it when it reads the
    view."""
    return name.startswith(PREFIX) and name not in _STATIC and _NEVER_KEPT.fullmatch(name) is None


def applied(kept: Mapping[str, str]) -> dict[str, str]:
    """The settings that Spark applies when it reads a view with which it has kept these.

    Spark 4 keeps the ANSI mode with every view. Where none is kept, Spark 3.5 has created the view in a session with
    that release's default, and every release reads it without ANSI mode.
    """
    return {ANSI: "false", **kept}
