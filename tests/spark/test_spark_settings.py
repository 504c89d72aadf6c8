"""The lists of Spark's settings: true for every release, and never wider than what is known."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest
from clients import start_jvm
from oracle.settings_corpus import Found, divided, usable
from setting_lists import listed, of_release, of_this_jvm
from spark_releases import LOCKED, RELEASES, home_of

from gateway.mv.refresh.increments import _PARSING
from sql import spark_settings
from sql.spark_settings import HOW_FAST, HOW_IT_IS_WRITTEN, MEANING, OFFERED, WHAT_IS_SHOWN, names

SETTINGS = listed()
EVERY = {name: setting for release in RELEASES for name, setting in SETTINGS[release].items()}
"""What the newest release says that has a setting."""
TABLES = {
    "HOW_FAST": HOW_FAST,
    "WHAT_IS_SHOWN": WHAT_IS_SHOWN,
    "HOW_IT_IS_WRITTEN": HOW_IT_IS_WRITTEN,
    "MEANING": MEANING,
    "OFFERED": OFFERED,
}
CODE_PLACES_SECRETS = re.compile(
    r"class|committer|plugin|provider|listener|factory|command|credential|password|secret|token|auth|jar|ur[il]\b|path"
    r"|locations?\b|dir\b|director|python|pyspark",
    re.IGNORECASE,
)

HARMLESS_WORDS = {
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled",
    "spark.sql.files.ignoreInvalidPartitionPaths",
    "spark.sql.codegen.useIdInClassName",
}
"""Settings whose names only look like that."""


KEPT_OTHERWISE = {
    ("4.0", "spark.sql.analyzer.singlePassResolver.dualRunWithLegacy"),
    ("4.3", "spark.sql.artifact.copyFromLocalToFs.allowDestLocal"),
}
"""What some releases keep with views and others do not: a setting for tests of Spark, and one of Spark Connect."""
CHANGED = {
    "ANSI mode is kept with every view, or off": "ansi.enabled",
    "the gateway asks Spark for the values, and the creator's are kept": """
        avro.datetimeRebaseModeInRead legacy.nullInEmptyListBehavior legacy.timeParserPolicy
        parquet.datetimeRebaseModeInRead parquet.int96RebaseModeInRead""",
    "by default, other files are written": """
        avro.datetimeRebaseModeInWrite legacy.createHiveTableByDefault orc.compression.codec
        parquet.compression.codec parquet.datetimeRebaseModeInWrite parquet.int96RebaseModeInWrite""",
    "another way to the same rows": """
        adaptive.coalescePartitions.parallelismFirst autoBroadcastJoinThreshold columnVector.offheap.enabled
        execution.replaceHashWithSortAgg execution.useObjectHashAggregateExec limit.initialNumPartitions
        maxSinglePartitionBytes optimizer.dynamicPartitionPruning.fallbackFilterRatio
        optimizer.runtime.bloomFilter.creationSideThreshold optimizer.runtime.bloomFilter.enabled shuffle.partitions
        shuffle.orderIndependentChecksum.enableFullRetryOnMismatch shuffle.orderIndependentChecksum.enabled
        shuffleDependency.fileCleanup.enabled unionOutputPartitioning""",
    "what is logged and shown": """
        adaptive.logLevel dataframeCache.logLevel error.messageFormat
        expressionTreeChangeLog.level planChangeLog.level thriftServer.interruptOnCancel""",
    "only said in other words": "legacy.allowZeroIndexInFormatString optimizer.metadataOnly",
    "a view may set them, and they make its sessions different": """
        sources.v2.bucketing.enabled sources.v2.bucketing.partiallyClusteredDistribution.enabled
        sources.v2.bucketing.pushPartValues.enabled sources.v2.bucketing.shuffle.enabled""",
}
"""Listed settings of which releases say different things, in their defaults or their descriptions, and why they are
listed for all of them."""

GUILTY = {"icu.caseMappings.enabled", "hive.manageFilesourcePartitions", "parquet.outputTimestampType"}
"""What the net of settings finds if these are taken for harmless, or for settings of refreshes."""

UNUSABLE = {
    "analyzer.maxIterations",
    "analyzer.singlePassResolver.enabled",
    "analyzer.singlePassResolver.throwFromResolverGuard",
    "catalog.spark_catalog",
    "extendedExplainProviders",
    "legacy.v1IdentifierNoCatalog",
}
"""Settings with a value with which Spark itself fails at every query, or at every CREATE VIEW."""


def given() -> list[str]:
    return [name for table in TABLES.values() for name in sorted(names(table))]


def of_spark(found: Iterator[str] | list[str]) -> list[str]:
    return [name for name in found if not name.startswith("spark.sql.iceberg.")]


def test_the_settings_of_the_installed_release_are_those_of_the_list() -> None:
    """A difference means a release with new settings: they change rows until a person has looked at them."""
    start_jvm()
    assert of_this_jvm() == SETTINGS[LOCKED]


@pytest.mark.thorough
@pytest.mark.parametrize("release", [release for release in RELEASES if release != LOCKED])
def test_the_settings_of_other_releases_are_those_of_the_list(release: str) -> None:
    if home_of(release) is None:
        pytest.skip(f"Spark {release} is not installed: scripts/setup --spark-versions")
    assert of_release(release) == SETTINGS[release]


def test_every_release_is_in_the_list() -> None:
    assert SETTINGS.keys() == set(RELEASES)


def test_every_name_is_a_setting_of_a_session_and_stands_in_one_table() -> None:
    assert [name for name in of_spark(given()) if name not in SETTINGS[LOCKED]] == []
    assert len(given()) == len(set(given()))
    assert len(given()) == sum(len(text.split()) for table in TABLES.values() for text in table.values())
    for release, settings in SETTINGS.items():
        assert [name for name in given() if name in settings and settings[name].static] == [], release


@pytest.mark.parametrize("release", RELEASES)
def test_spark_keeps_with_a_view_what_the_gateway_expects(release: str) -> None:
    odd = {(release, name) for name, each in SETTINGS[release].items() if each.kept != spark_settings.is_kept(name)}
    assert odd == {each for each in KEPT_OTHERWISE if each[0] == release}


def test_settings_that_releases_describe_differently_have_been_looked_at() -> None:
    told = {
        name: {(each[name].default, each[name].text) for each in SETTINGS.values() if name in each} for name in given()
    }
    assert {name for name, what in told.items() if len(what) > 1} == names(CHANGED)


def test_what_increments_take_for_the_default_is_that_of_every_release() -> None:
    # Spark 3.5 refuses the queries that a policy reads otherwise than another.
    as_good = {("3.5", "spark.sql.legacy.ctePrecedencePolicy"): "EXCEPTION"}
    for release, settings in SETTINGS.items():
        for name, value in _PARSING.items():
            assert settings[name].default.lower() == as_good.get((release, name), value).lower(), (release, name)


def test_without_a_kept_mode_a_view_is_read_without_ansi() -> None:
    assert SETTINGS["3.5"][spark_settings.ANSI].default == "false"
    assumed = "spark.sql.assumeAnsiFalseIfNotPersisted.enabled"
    assert {settings[assumed].default for release, settings in SETTINGS.items() if release != "3.5"} == {"true"}
    assert spark_settings.applied({}) == {spark_settings.ANSI: "false"}
    assert spark_settings.applied({spark_settings.ANSI: "true"}) == {spark_settings.ANSI: "true"}


def test_what_is_not_listed_changes_rows() -> None:
    harmless = names(HOW_FAST) | names(WHAT_IS_SHOWN) | names(HOW_IT_IS_WRITTEN)
    assert {name for name in EVERY if spark_settings.is_harmless(name)} == harmless
    for name in (
        "spark.sql.brandNew",
        "spark.hadoop.x",
        "textinputformat.record.delimiter",
        "fs.s3a.endpoint",
        "hive.x",
    ):
        assert not spark_settings.is_harmless(name)
        assert not spark_settings.has_meaning(name)
        assert not spark_settings.is_offered(name)


def test_no_refresh_has_a_setting_that_changes_what_is_written() -> None:
    assert not [name for name in names(HOW_IT_IS_WRITTEN) if spark_settings.is_offered(name)]
    assert not [name for name in names(HOW_IT_IS_WRITTEN) if spark_settings.has_meaning(name)]


def test_no_view_can_set_code_places_or_secrets() -> None:
    offered = {name for name in chain(EVERY, names(OFFERED)) if spark_settings.is_offered(name)}
    assert {name for name in offered if CODE_PLACES_SECRETS.search(name)} == HARMLESS_WORDS


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("spark.sql.ansi.enabled", True),
        ("spark.sql.hive.manageFilesourcePartitions", True),
        ("spark.sql.parquet.outputTimestampType", True),
        ("spark.sql.hive.convertMetastoreParquet.mergeSchema", False),
        ("spark.sql.optimizer.excludedRules", False),
        ("spark.sql.optimizer.disableHints", True),
        ("spark.sql.shuffle.partitions", False),
        ("spark.sql.warehouse.dir", False),
        ("spark.app.name", False),
    ],
)
def test_what_spark_keeps_with_a_view(name: str, kept: bool) -> None:
    assert spark_settings.is_kept(name) is kept


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ([], []),
        ([{3}], ["3"]),
        ([{0}, {9}], ["0", "9"]),
        ([{2, 7}], ["2 with 7"]),
        ([{1}, {2, 7}], ["1", "2 with 7"]),
    ],
)
def test_the_net_names_the_guilty_ones(bad: list[set[int]], named: list[str]) -> None:
    def check(settings: Sequence[str], keys: Collection[str]) -> Found:
        return {key: "odd" for key in keys if any(each <= set(map(int, settings)) for each in bad)}

    assert sorted(divided([str(number) for number in range(10)], check, ["a", "b"])) == named


def test_what_fails_only_together_is_tried_apart() -> None:
    def fails(settings: Sequence[str]) -> bool:
        return "3" in settings or {"2", "7"} <= set(settings)

    kept = [number for number in "0123456789" if number not in "37"]
    assert usable(list("0123456789"), fails) == ([kept, ["7"]], ["3"])


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("check", ["sharp", "harmless", "refreshed", "created", "shown"])
def test_no_setting_changes_what_it_must_not(check: str, tmp_path: Path) -> None:
    """Two other values of each setting, over a corpus of queries (`oracle/settings_net.py`)."""
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "tests" / "oracle" / "settings_net.py"), str(tmp_path), check]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(root / "tests")))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=True, env=environment)
    (told,) = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    guilty = {name.partition("=")[0].removeprefix("spark.sql.") for name in told["guilty"]}
    assert guilty == (GUILTY if check == "sharp" else set()), told
    assert {name.partition("=")[0].removeprefix("spark.sql.") for name in told["unusable"]} <= UNUSABLE
    assert told["tried"] >= (len(GUILTY) if check == "sharp" else 200)
