"""Tests the properties of a view: known names, allowed values and their meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.grammar import view_properties
from sql.grammar.cursor import SyntaxProblem
from sql.grammar.intervals import seconds_of, text_of
from sql.grammar.view_properties import check
from sql.statement import Trigger, WhenStale


def fault(name: str, value: str, *, free: bool) -> str:
    with pytest.raises(SyntaxProblem) as caught:
        check(((name, value),), free=free, position=7)
    assert (caught.value.sqlstate, caught.value.position) == ("22023", 7)
    return str(caught.value)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("grace_period", "0", "0"),
        ("grace_period", "1.5", "1.5"),
        ("when_stale", "inline", "INLINE"),
        ("use_for_rewrite", "FALSE", "false"),
        ("in_memory", "TRUE", "true"),
        ("incremental_float_sums", "False", "false"),
        ("partition_sync_time_unit", "month", "MONTH"),
        ("refresh_partition_num", "-1", "-1"),
        ("max_staleness", "INTERVAL '30' MINUTE", "INTERVAL '30' MINUTE"),
        ("max_staleness", "4 hours", "4 hours"),
        ("session.spark.sql.ansi.enabled", "Anything", "Anything"),
        ("excluded_trigger_tables", "", ""),
        ("replication_num", "1", "1"),
        ("autovacuum_enabled", "on", "on"),
        ("compression", "zstd", "zstd"),
    ],
)
def test_a_valid_value_is_normalized(free: bool, name: str, value: str, kept: str) -> None:
    assert check(((name, value),), free=free) == ((name, kept),)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grace_period", "-1"),
        ("grace_period", ""),
        ("grace_period", "1e3"),
        ("grace_period", "٣"),
        ("probe_interval", "often"),
        ("when_stale", "SHRUG"),
        ("use_for_rewrite", "1"),
        ("in_memory", "always"),
        ("incremental_float_sums", "no"),
        ("refresh_partition_num", "two"),
        ("partition_sync_limit", "0"),
        ("partition_sync_time_unit", "HOUR"),
        ("max_staleness", "1 month"),
    ],
)
def test_an_invalid_value_is_refused_by_every_clause(free: bool, name: str, value: str) -> None:
    message = fault(name, value, free=free)
    assert message.startswith(f"valid {name}: ")
    assert message.endswith(f"found '{value}'")


def test_unknown_and_reserved_names_are_refused() -> None:
    assert fault("freshgate.id", "1", free=True) == fault("freshgate.id", "1", free=False)
    assert "without freshgate." in fault("FreshGate.x", "1", free=True)
    assert fault("grace_perod", "1", free=True).endswith("did you mean grace_period?")
    assert fault("Grace_Period", "1", free=True).endswith("did you mean grace_period?")
    assert fault("replication_nums", "1", free=False) == "illegal key:replication_nums; did you mean replication_num?"
    assert fault("zzz", "1", free=False).startswith("illegal key:zzz; ")
    own = "session.spark.sql.sources.partitionOverwriteMode"
    assert fault(own, "static", free=True).startswith(f"illegal key:{own}; ")
    assert check((("zzz", "1"), ("period", "x"), ("format", "csv")), free=True)[2] == ("format", "csv")
    assert fault("format", "csv", free=False).startswith("valid format: ")


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(
    "setting",
    [
        "spark.sql.warehouse.dir",
        "spark.sql.extensions",
        "spark.sql.catalog.lake",
        "spark.sql.catalog.spark_catalog.uri",
        "spark.sql.defaultCatalog",
        "spark.sql.sources.commitProtocolClass",
        "spark.sql.sources.outputCommitterClass",
        "spark.sql.parquet.output.committer.class",
        "spark.sql.adaptive.customCostEvaluatorClass",
        "spark.sql.queryExecutionListeners",
        "spark.sql.cache.serializer",
        "spark.sql.streaming.checkpointLocation",
        "spark.sql.hive.metastore.jars.path",
        "spark.sql.redaction.string.regex",
        "spark.sql.variable.substitute",
        "spark.sql.maven.additionalRemoteRepositories",
        "spark.sql.udt.allowedDynamicUDTClasses",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.defaultFS",
        "spark.executorEnv.X",
        "fs.s3a.access.key",
        "hive.exec.pre.hooks",
        "javax.jdo.option.ConnectionPassword",
        "SPARK.SQL.SHUFFLE.PARTITIONS",
        # They change what is written, not only what is read.
        "spark.sql.hive.manageFilesourcePartitions",
        "spark.sql.parquet.outputTimestampType",
        "spark.sql.parquet.datetimeRebaseModeInWrite",
        "spark.sql.storeAssignmentPolicy",
        "spark.sql.orc.impl",
        # Of no release that is known.
        "spark.sql.legacy.brandNew",
        "spark.sql",
        "spark.sql.files",
    ],
)
def test_a_setting_that_runs_code_names_a_location_or_changes_what_is_written_is_refused(
    free: bool, setting: str
) -> None:
    name = f"session.{setting}"
    assert fault(name, "1", free=free).startswith(f"illegal key:{name}; ")
    assert view_properties.session_settings({name: "1", "session.spark.sql.ansi.enabled": "true"}) == {
        "spark.sql.ansi.enabled": "true"
    }


def test_session_variables_of_starrocks_are_stored_but_not_set() -> None:
    pairs = (("session.query_timeout", "300"),)
    assert check(pairs, free=False) == pairs
    assert view_properties.session_settings(dict(pairs)) == {}


@pytest.mark.parametrize(
    "setting",
    [
        "spark.sql.shuffle.partitions",
        "spark.sql.adaptive.skewJoin.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.session.timeZone",
        "spark.sql.ansi.enabled",
        "spark.sql.caseSensitive",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.files.maxRecordsPerFile",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.optimizer.excludedRules",
        "spark.sql.parquet.datetimeRebaseModeInRead",
        "spark.sql.parquet.compression.codec",
        "spark.sql.hive.convertMetastoreOrc",
        "spark.sql.sources.v2.bucketing.enabled",
    ],
)
def test_a_setting_that_affects_plans_and_results_is_accepted(setting: str) -> None:
    pairs = ((f"session.{setting}", "1"),)
    assert check(pairs, free=False) == check(pairs, free=True) == pairs
    assert view_properties.session_settings(dict(pairs)) == {setting: "1"}


@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        ({}, 0),
        ({"grace_period": "60", "max_staleness": "1 hour"}, 60),
        ({"max_staleness": 'INTERVAL "4:0:0" HOUR TO SECOND'}, 14_400),
        ({"mv_rewrite_staleness_second": "30"}, 30),
        ({"grace_period": "damaged", "max_staleness": "1 hour"}, 0),
        ({"max_staleness": "damaged"}, 0),
    ],
)
def test_grace_seconds_come_from_any_of_three_properties(properties: dict[str, str], seconds: float) -> None:
    assert view_properties.grace_seconds(properties) == seconds


@pytest.mark.parametrize(
    ("properties", "trigger", "expected"),
    [
        ({}, None, WhenStale.REFRESH),
        ({}, Trigger.MANUAL, WhenStale.SERVE),
        ({}, Trigger.SCHEDULE, WhenStale.SERVE),
        ({}, Trigger.COMMIT, WhenStale.SERVE),
        ({"when_stale": "FAIL"}, Trigger.MANUAL, WhenStale.FAIL),
        ({"when_stale": "inline"}, None, WhenStale.INLINE),
        ({"when_stale": "damaged"}, Trigger.MANUAL, WhenStale.SERVE),
    ],
)
def test_when_stale_defaults_by_the_trigger(
    properties: dict[str, str], trigger: Trigger | None, expected: WhenStale
) -> None:
    assert view_properties.when_stale(properties, trigger) is expected


def test_boolean_properties_have_defaults() -> None:
    assert view_properties.allows_nondeterministic({"enable_nondeterministic_function": "TRUE"})
    assert not view_properties.allows_nondeterministic({})
    assert view_properties.merges_float_sums({})
    assert view_properties.merges_float_sums({"incremental_float_sums": "true"})
    assert not view_properties.merges_float_sums({"incremental_float_sums": "FALSE"})
    assert view_properties.rewrite_enabled({"use_for_rewrite": "TRUE"})
    found = [view_properties.in_memory({"in_memory": each}) for each in ("TRUE", "false", "of old")]
    assert [*found, view_properties.in_memory({})] == [True, False, None, None]
    assert not view_properties.rewrite_enabled({})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 MINUTE", 600),
        ("INTERVAL '10' MINUTE", 600),
        ("interval 1.5 hours", None),
        ("INTERVAL '1.5' HOURS", 5_400),
        ("INTERVAL '1 02:03:04' DAY TO SECOND", 93_784),
        ("INTERVAL '1 02' DAY TO HOUR", 93_600),
        ("INTERVAL '02:03' MINUTE TO SECOND", 123),
        ("INTERVAL '0-0 0 4:0:0' YEAR TO SECOND", 14_400),
        ("0-0 1 4:0:0", 100_800),
        ("1 day 2 hours", 93_600),
        ("INTERVAL '1 day 2 hours'", 93_600),
        ("INTERVAL '1-0 0 0:0:0' YEAR TO SECOND", None),
        ("INTERVAL '1:2' SECOND TO HOUR", None),
        ("INTERVAL '1:2' HOUR TO SECOND", None),
        ("INTERVAL '1' YEAR", None),
        ("INTERVAL '1' DAY x", None),
        ("INTERVAL", None),
        ("1 day 2", None),
        ("x hours", None),
        ("", None),
    ],
)
def test_an_interval_of_fixed_length_is_converted_to_seconds(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


words = st.sampled_from(["INTERVAL", "'1'", "2", ":", "-", "DAY", "TO", "SECOND", "YEAR", "x"])


@given(st.text(max_size=20) | st.lists(words).map(" ".join))
def test_any_text_is_an_interval_or_gives_none(text: str) -> None:
    found = seconds_of(text)
    assert found is None or found >= 0


def test_whole_seconds_are_written_without_a_fraction() -> None:
    assert (text_of(60.0), text_of(0.5), text_of(0)) == ("60", "0.5", "0")
