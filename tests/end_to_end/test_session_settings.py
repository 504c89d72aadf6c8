"""Settings of sessions that change rows: of creators, and of readers whose queries views answer. On real Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from pyhive import hive
from seen_gateway import Seen, told
from tiers import sampled

TIMES = "SELECT k, max(t) AS t FROM times GROUP BY k"
SUM = "SELECT sum(v) AS s FROM parts"
WORDS = "SELECT initcap(s) AS i, upper(s) AS u, lower(s) AS l, count(*) AS c FROM words GROUP BY ALL"
LINES = "SELECT s, count(*) AS c FROM lines GROUP BY s ORDER BY s"
DEFAULTS = "SELECT sum(a) AS s FROM numbers"


@pytest.fixture(scope="module")
def place(rewriting: Seen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Tables whose rows depend on settings."""
    gateway, directory = rewriting.gateway, tmp_path_factory.mktemp("lines")
    (directory / "a.txt").write_text("a|b\nc|d\n")
    with pyhive(gateway.host, gateway.port, user="ada") as ada:
        rows(ada, "CREATE DATABASE odd")
        rows(ada, "USE odd")
        rows(ada, "CREATE TABLE times (k INT, t TIMESTAMP)")
        rows(ada, "INSERT INTO times VALUES (1, TIMESTAMP'2024-01-01 00:00:00.123456')")
        rows(ada, "CREATE TABLE parts (v INT, p INT) USING parquet PARTITIONED BY (p)")
        rows(ada, "INSERT INTO parts VALUES (1, 1)")
        (location,) = {row[1] for row in rows(ada, "DESCRIBE EXTENDED parts") if row[0] == "Location"}
        files = Path(location.removeprefix("file:"))
        # A directory that nobody has registered as a partition.
        shutil.copytree(files / "p=1", files / "p=2")
        rows(ada, "CREATE TABLE words (s STRING)")
        rows(ada, "INSERT INTO words VALUES ('ŉß ǆ ﬁ İ')")
        rows(ada, f"CREATE TABLE lines (s STRING) STORED AS TEXTFILE LOCATION 'file:{directory}'")
        rows(ada, "CREATE TABLE flag (f STRING)")
        rows(ada, "CREATE TABLE numbers (a INT)")
        rows(ada, "INSERT INTO numbers VALUES (2147483647), (1)")
    yield rewriting
    with pyhive(gateway.host, gateway.port, user="ada") as ada:
        rows(ada, "DROP DATABASE odd CASCADE")


@pytest.fixture
def ada(place: Seen) -> Iterator[Any]:
    with pyhive(place.gateway.host, place.gateway.port, user="ada", database="odd") as cursor:
        yield cursor


@pytest.fixture
def bob(place: Seen) -> Iterator[Any]:
    with pyhive(place.gateway.host, place.gateway.port, user="bob", database="odd") as cursor:
        yield cursor


@pytest.mark.parametrize(
    "setting",
    sampled(
        ["parquet.outputTimestampType=TIMESTAMP_MILLIS", "parquet.writeLegacyFormat=true"],
        {"parquet.outputTimestampType=TIMESTAMP_MILLIS"},
    ),
)
def test_a_creators_setting_for_writing_does_not_change_the_rows(ada: Any, bob: Any, setting: str) -> None:
    rows(ada, f"SET spark.sql.{setting}")
    rows(ada, f"CREATE MATERIALIZED VIEW latest ENABLE QUERY REWRITE REFRESH INCREMENTAL FALLBACK AS {TIMES}")
    try:
        for day in (2, 3):
            assert rows(bob, "SELECT t FROM latest") == rows(bob, "SELECT max(t) FROM times")
            rows(bob, f"INSERT INTO times VALUES (1, TIMESTAMP'2024-02-{day:02} 00:00:00.{day}23456')")
        assert rows(bob, "SELECT t FROM latest") == rows(bob, "SELECT max(t) FROM times")
        done = rows(bob, """SELECT RefreshMode FROM tasks("type"="mv") WHERE MvName = 'latest'""")
        assert ("INCREMENTAL",) in done
        assert "CHOSEN" in told(bob, "latest", TIMES), "such a setting makes no session different"
    finally:
        rows(ada, "DROP MATERIALIZED VIEW latest")


def test_a_view_of_a_session_without_partition_management_has_rows(ada: Any, bob: Any) -> None:
    rows(ada, "SET spark.sql.hive.manageFilesourcePartitions=false")
    rows(ada, f"CREATE MATERIALIZED VIEW everywhere AS {SUM}")
    try:
        (expected,) = rows(ada, "SELECT s FROM everywhere")
        assert expected is not None
        assert rows(bob, "SELECT s FROM everywhere") == [expected]
        rows(bob, "INSERT INTO parts VALUES (10, 1)")
        with pytest.raises(hive.OperationalError, match="manageFilesourcePartitions"):
            rows(ada, "REFRESH MATERIALIZED VIEW everywhere INCREMENTAL")
    finally:
        rows(ada, "DROP MATERIALIZED VIEW everywhere")


@pytest.mark.parametrize(
    ("view", "query", "setting"),
    [
        ("of_parts", SUM, "spark.sql.hive.manageFilesourcePartitions=false"),
        ("of_words", WORDS, "spark.sql.icu.caseMappings.enabled=false"),
        ("of_lines", LINES, "textinputformat.record.delimiter=|"),
    ],
)
def test_a_reader_with_a_setting_that_changes_rows_has_its_own(
    place: Seen, bob: Any, view: str, query: str, setting: str
) -> None:
    name = setting.partition("=")[0]
    gateway = place.gateway
    rows(bob, f"CREATE MATERIALIZED VIEW {view} ENABLE QUERY REWRITE AS {query.partition(' ORDER')[0]}")
    try:
        said = told(bob, view, query)
        assert "CHOSEN" in said, said
        with_view = rows(bob, query)
        rows(bob, f"SET {setting}")
        assert name in told(bob, view, query)
        found = rows(bob, query)
        rows(bob, "SET freshgate.rewrite=off")
        assert found == rows(bob, query) != with_view
        # The same when the session is opened with it.
        options = {f"set:hiveconf:{name}": setting.partition("=")[2]}
        with pyhive(gateway.host, gateway.port, user="bob", database="odd", configuration=options) as opened:
            assert rows(opened, query) == found
    finally:
        rows(bob, f"DROP MATERIALIZED VIEW {view}")


def test_sessions_of_which_no_text_tells_the_settings_share_no_proofs(place: Seen, bob: Any) -> None:
    """Both sessions send the same texts. Their variables, and so their settings, differ."""
    gateway = place.gateway
    rows(bob, f"CREATE MATERIALIZED VIEW total ENABLE QUERY REWRITE AS {SUM}")
    try:
        found = {}
        for value in ("true", "false"):
            rows(bob, f"INSERT OVERWRITE flag VALUES ('{value}')")
            with pyhive(gateway.host, gateway.port, user="bob", database="odd") as session:
                rows(session, "DECLARE VARIABLE managed STRING DEFAULT 'true'")
                rows(session, "SET VAR managed = (SELECT f FROM flag)")
                rows(session, "EXECUTE IMMEDIATE 'SET spark.sql.hive.manageFilesourcePartitions=' || managed")
                found[value] = rows(session, SUM)
        assert found["false"] != found["true"]
    finally:
        rows(bob, "DROP MATERIALIZED VIEW total")


def test_a_session_with_harmless_settings_is_answered_from_the_view(place: Seen, bob: Any) -> None:
    rows(bob, f"CREATE MATERIALIZED VIEW added ENABLE QUERY REWRITE AS {DEFAULTS}")
    options = {
        "set:hiveconf:hive.server2.thrift.resultset.default.fetch.size": "77",
        "set:hiveconf:spark.sql.shuffle.partitions": "3",
    }
    gateway = place.gateway
    try:
        with pyhive(gateway.host, gateway.port, user="bob", database="odd", configuration=options) as opened:
            rows(opened, "SET spark.sql.adaptive.enabled=false")
            rows(opened, "SET spark.sql.sources.partitionOverwriteMode=DYNAMIC")
            # What it is anyway.
            rows(opened, "SET spark.sql.ansi.enabled=true")
            assert "CHOSEN" in told(opened, "added", DEFAULTS)
    finally:
        rows(bob, "DROP MATERIALIZED VIEW added")


def test_a_property_of_a_view_cannot_change_what_is_written(bob: Any) -> None:
    setting = "session.spark.sql.parquet.outputTimestampType"
    with pytest.raises(hive.OperationalError, match="illegal key"):
        rows(bob, f"CREATE MATERIALIZED VIEW cut PROPERTIES ('{setting}' = 'TIMESTAMP_MILLIS') AS {TIMES}")
