"""Tests versions of views: transactions that see one version of each view, reads of earlier versions, and retention."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import pytest
from clients import Jdbc, pyhive, rows, unclosed
from databases import NAP, Database
from processes import Gateway, wait_until
from tiers import sampled

WAIT = "gateway.assembly.views.KeptLimits.wait_seconds"
"""A constant of the gateway."""


@pytest.fixture
def base(database: Database) -> Database:
    """A database with a table t of one row."""
    database.run("CREATE TABLE t (a INT) USING parquet", "INSERT INTO t VALUES (1)")
    return database


@pytest.fixture
def one_view(base: Database) -> Database:
    """The same with a view."""
    base.run("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    return base


@pytest.fixture
def views(one_view: Database) -> Database:
    """Tables t and u, and a view over each."""
    one_view.run(
        "CREATE TABLE u (b INT) USING parquet",
        "INSERT INTO u VALUES (1)",
        "CREATE MATERIALIZED VIEW k AS SELECT count(*) AS n FROM u",
    )
    return one_view


@contextmanager
def session(
    database: Database, gateway: Gateway | None = None, configuration: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Any]:
    server = gateway or database.gateway
    with pyhive(server.host, server.port, database=database.name, configuration=dict(configuration)) as cursor:
        yield cursor


def kept(cursor: Any, view: str) -> dict[int, tuple[Any, ...]]:
    """Returns the rows of SHOW MATERIALIZED VIEW VERSIONS by version number."""
    return {row[0]: row for row in rows(cursor, f"SHOW MATERIALIZED VIEW VERSIONS {view}")}


# --- transactions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end"),
    sampled([("BEGIN", "COMMIT"), ("START TRANSACTION READ ONLY;", "ROLLBACK WORK")], {"begin"}, ["begin", "start"]),
)
def test_a_transaction_sees_one_version_of_each_view(views: Database, begin: str, end: str) -> None:
    """The version is chosen at the view's first use, and applies to joins, subqueries, aliases and CTAS. Other sessions
    see the newest version immediately."""
    with session(views) as reader:
        rows(reader, begin)
        assert rows(reader, "SELECT n FROM m") == [(1,)]
        views.run("INSERT INTO t VALUES (2)", "INSERT INTO u VALUES (2)")
        assert views.rows("SELECT m.n, k.n FROM m JOIN k") == [(2, 2)]
        # This is the first use of k, so its newest version is read.
        assert rows(reader, "SELECT m.n, k.n FROM m CROSS JOIN k") == [(1, 2)]
        views.run("INSERT INTO t VALUES (3)", "INSERT INTO u VALUES (3)")
        assert views.rows("SELECT m.n, k.n FROM m JOIN k") == [(3, 3)]
        assert rows(reader, f"WITH c AS (SELECT n FROM {views.name}.m) SELECT c.n, x.n FROM c, k AS x") == [(1, 2)]
        assert rows(reader, "TABLE m") == [(1,)]
        rows(reader, "CREATE TABLE copied USING parquet AS SELECT n FROM m WHERE n IN (SELECT n FROM m)")
        assert rows(reader, "SELECT * FROM copied") == [(1,)]
        rows(reader, end)
        assert rows(reader, "SELECT m.n, k.n FROM m JOIN k") == [(3, 3)]


@pytest.mark.thorough
def test_with_consistent_snapshot_chooses_versions_at_the_start(views: Database) -> None:
    with session(views) as reader:
        rows(reader, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        views.run("INSERT INTO u VALUES (2)")
        assert views.rows("SELECT n FROM k") == [(2,)]
        assert rows(reader, "SELECT n FROM k") == [(1,)]
        rows(reader, "COMMIT AND CHAIN")
        assert rows(reader, "SELECT n FROM k") == [(2,)]
        views.run("INSERT INTO u VALUES (3)")
        assert rows(reader, "SELECT n FROM k") == [(2,)]
        rows(reader, "COMMIT")
        assert rows(reader, "SELECT n FROM k") == [(3,)]


@pytest.mark.parametrize("at_opening", sampled([True, False], {"True"}))
def test_freshgate_snapshot_makes_a_session_one_transaction(one_view: Database, at_opening: bool) -> None:
    configuration = {"set:hiveconf:freshgate.snapshot": "session"} if at_opening else {}
    with session(one_view, configuration=configuration) as reader:
        if not at_opening:
            assert rows(reader, "SET freshgate.snapshot = session") == [("freshgate.snapshot", "session")]
        assert rows(reader, "SELECT n FROM m") == [(1,)]
        one_view.run("INSERT INTO t VALUES (2)")
        assert one_view.rows("SELECT n FROM m") == [(2,)]
        rows(reader, "BEGIN")
        rows(reader, "COMMIT")
        assert rows(reader, "SELECT n FROM m") == [(1,)]
        rows(reader, "SET freshgate.snapshot=statement")
        assert rows(reader, "SELECT n FROM m") == [(2,)]
        with pytest.raises(Exception, match="session or statement, not both"):
            rows(reader, "SET freshgate.snapshot=both")


def test_a_refresh_in_a_transaction_does_not_change_its_version(one_view: Database) -> None:
    with Jdbc(f"jdbc:hive2://{one_view.gateway.host}:{one_view.gateway.port}/{one_view.name}") as reader:
        reader.execute("BEGIN")
        assert reader.query("SELECT n FROM m")[1] == [(1,)]
        one_view.run("INSERT INTO t VALUES (2)")
        reader.execute("REFRESH MATERIALIZED VIEW m")
        assert one_view.rows("SELECT n FROM m") == [(2,)]
        assert reader.query("SELECT n FROM m")[1] == [(1,)]
        reader.execute("COMMIT")
        assert reader.query("SELECT n FROM m")[1] == [(2,)]


def test_a_read_whose_version_cannot_be_chosen_is_refused_in_a_transaction(one_view: Database) -> None:
    """A materialized view below a Spark view could be read in a wrong version."""
    one_view.run("CREATE VIEW above AS SELECT n FROM m")
    with session(one_view) as reader:
        rows(reader, "BEGIN")
        with pytest.raises(Exception, match="cannot be read in this way in a transaction"):
            rows(reader, "SELECT * FROM above")
        with pytest.raises(Exception, match="cannot be read in this way in a transaction"):
            rows(reader, f"SELECT {one_view.name}.m.n FROM {one_view.name}.m")
        assert rows(reader, "SELECT a FROM t") == [(1,)]
        rows(reader, "ROLLBACK")
        assert rows(reader, "BEGIN SELECT n FROM m; END") == [(1,)], "BEGIN of a script"
        assert rows(reader, "SELECT * FROM above") == [(1,)], "there is no transaction"


# --- VERSION AS OF, TIMESTAMP AS OF ------------------------------------------------------------------------


def test_earlier_versions_can_be_read(one_view: Database) -> None:
    with session(one_view) as reader:
        assert rows(reader, "SELECT n FROM m") == [(1,)]
        (before,) = rows(reader, "SELECT CAST(current_timestamp() AS STRING)")[0]
        first = one_view.version("m")
        for number in (2, 3):
            one_view.run(f"INSERT INTO t VALUES ({number})")
            assert one_view.rows("SELECT n FROM m") == [(number,)]
        last = one_view.version("m")
        for number, version in ((1, first), (3, last)):
            assert rows(reader, f"SELECT n FROM m VERSION AS OF {version}") == [(number,)]
        joined = f"SELECT x.n, m.n FROM m FOR SYSTEM_VERSION AS OF '{first}' x JOIN m ON x.n < m.n"
        assert rows(reader, joined) == [(1, 3)]
        assert rows(reader, f"SELECT n FROM {one_view.name}.m TIMESTAMP AS OF '{before}' WHERE n = 1") == [(1,)]
        assert rows(reader, "SELECT n FROM m FOR SYSTEM_TIME AS OF current_timestamp() AS x") == [(3,)]
        hour = "SELECT n FROM m TIMESTAMP AS OF current_timestamp() - INTERVAL 1 HOUR"
        for wrong, message in (
            (hour, "The materialized view .*m keeps no version of that time"),
            (f"SELECT n FROM m VERSION AS OF {last + 1}", f"has no version {last + 1}. Kept versions"),
            ("SELECT n FROM m TIMESTAMP AS OF 'yesterday evening'", "needs a time"),
            (f"CREATE VIEW old AS SELECT n FROM m VERSION AS OF {first}", "cannot read a version"),
        ):
            with pytest.raises(Exception, match=message):
                rows(reader, wrong)


def test_versions_are_listed_with_their_readers(one_view: Database) -> None:
    with session(one_view) as reader:
        rows(reader, "BEGIN")
        assert rows(reader, "SELECT n FROM m") == [(1,)]
        first = one_view.version("m")
        one_view.run("INSERT INTO t VALUES (2)")
        assert one_view.rows("SELECT n FROM m") == [(2,)]
        listed = kept(one_view.cursor, "m")
        second = one_view.version("m")
        assert list(listed) == [second, first]
        assert (listed[first][1], listed[first][8] > 0) == ("KEPT", True)
        assert (listed[second][1], listed[second][6], listed[second][8]) == ("CURRENT", 1, 0)
        # A version is replaced when the next one is published, shortly after that one was computed.
        assert listed[first][5] >= listed[second][4]
        assert listed[first][7] > 0


# --- retention ---------------------------------------------------------------------------------------------


def stored_versions(gateway: Gateway, direct: Any, database: Database, view: str) -> set[int]:
    """Returns the versions that have a partition in the storage table."""
    listed = rows(direct, f"SHOW TABLES IN {gateway.storage} LIKE '{database.name}__{view}__*'")
    (storage,) = [row[1] for row in listed if not row[1].endswith("__definition")]
    found = rows(direct, f"SHOW PARTITIONS {gateway.storage}.{storage}")
    return {int(re.findall(r"\d+", row[0])[0]) for row in found}


@pytest.mark.thorough
def test_only_versions_in_use_by_transactions_are_kept(base: Database, start_gateway: Any, direct: Any) -> None:
    """A transaction keeps its version but no later ones, until COMMIT or until its connection ends."""
    gateway: Gateway = start_gateway(**{"versions.retention": 0})
    with session(base, gateway) as writer:
        rows(writer, "CREATE MATERIALIZED VIEW p AS SELECT count(*) AS n FROM t")

        def stored() -> set[int]:
            return stored_versions(gateway, direct, base, "p")

        for end in ("COMMIT", None):
            with session(base, gateway) as reader:
                rows(reader, "BEGIN")
                (pinned,) = rows(reader, "SELECT n FROM p")
                (first,) = kept(writer, "p")
                for number in (1, 2, 3):
                    rows(writer, f"INSERT INTO t VALUES ({number})")
                    rows(writer, "SELECT n FROM p")
                newest = max(kept(writer, "p"))
                wait_until(lambda: stored() == {first, newest}, what="the intermediate versions to be dropped")  # noqa: B023
                assert rows(reader, "SELECT n FROM p") == [pinned]
                if end is not None:
                    rows(reader, end)
                    wait_until(lambda: stored() == {newest}, what="the released version to be dropped")  # noqa: B023
            wait_until(lambda: stored() == {newest}, what="the lost transaction's version to be dropped")  # noqa: B023
        rows(writer, "DROP MATERIALIZED VIEW p")


@pytest.mark.thorough
def test_versions_max_count_makes_refreshes_wait_and_then_fail(base: Database, start_gateway: Any) -> None:
    settings = {"versions.retention": 0, "versions.max_count": 2}
    gateway: Gateway = start_gateway(constants={WAIT: 1}, **settings)
    with session(base, gateway) as writer, session(base, gateway) as reader, ThreadPoolExecutor(1) as pool:
        rows(writer, "CREATE MATERIALIZED VIEW p AS SELECT count(*) AS n FROM t")
        rows(reader, "BEGIN")
        assert rows(reader, "SELECT n FROM p") == [(1,)]
        (first,) = kept(writer, "p")
        rows(writer, "INSERT INTO t VALUES (2)")
        assert rows(writer, "SELECT n FROM p") == [(2,)]
        rows(writer, "INSERT INTO t VALUES (3)")
        with pytest.raises(
            Exception, match=rf"it already keeps 2 versions.*versions.max_count is 2.*{first} \(\d readers\)"
        ):
            rows(writer, "SELECT n FROM p")
        waiting = pool.submit(rows, writer, "SELECT n FROM p")
        wait_until(waiting.running, what="the refresh to wait")
        rows(reader, "COMMIT")
        assert waiting.result(30) == [(3,)]
        rows(writer, "DROP MATERIALIZED VIEW p")


@pytest.mark.thorough
def test_versions_max_bytes_makes_refreshes_fail(base: Database, start_gateway: Any) -> None:
    settings = {"versions.retention": 0, "versions.max_bytes": 1_000}
    gateway: Gateway = start_gateway(constants={WAIT: 0}, **settings)
    with session(base, gateway) as writer:
        rows(writer, "CREATE MATERIALIZED VIEW p AS SELECT a FROM t")
        rows(writer, "INSERT INTO t SELECT id FROM range(10000)")
        with pytest.raises(Exception, match=r"its versions take \d+ bytes, and versions.max_bytes is 1000"):
            rows(writer, "SELECT count(*) FROM p")
        (row,) = rows(writer, "SHOW MATERIALIZED VIEWS LIKE 'p'")
        assert row[2] == "STALE"
        rows(writer, "DROP MATERIALIZED VIEW p")


@pytest.mark.thorough
def test_earlier_versions_of_a_partitioned_view_can_be_read(base: Database) -> None:
    """Each version shows its own rows of every partition, even if a later version has rewritten the partition."""
    query = "SELECT d, count(*) AS n FROM p GROUP BY d"
    base.run(
        "CREATE TABLE p (a INT, d INT) USING parquet PARTITIONED BY (d)",
        "INSERT INTO p VALUES (1, 1), (1, 2)",
        f"CREATE MATERIALIZED VIEW parts PARTITION BY (d) AS {query}",
    )
    shown = {base.version("parts"): base.rows(query)}
    for change in (
        "INSERT INTO p VALUES (2, 2), (2, 3)",
        "ALTER TABLE p DROP PARTITION (d = 1)",
        "INSERT INTO p VALUES (3, 3)",
        "REFRESH MATERIALIZED VIEW parts COMPLETE",
        "INSERT INTO p VALUES (4, 1)",
    ):
        base.run(change, "SELECT * FROM parts")
        shown[base.version("parts")] = base.rows(query)
    assert len(shown) == 6
    for number, content in shown.items():
        assert base.rows(f"SELECT * FROM parts VERSION AS OF {number}") == content
        joined = f"SELECT x.d, x.n FROM parts VERSION AS OF {number} x LEFT JOIN parts ON x.d = parts.d"
        assert base.rows(joined) == content
    with session(base) as reader:
        rows(reader, "BEGIN")
        pinned = sorted(rows(reader, "SELECT * FROM parts"))
        base.run("INSERT INTO p VALUES (5, 2)", "SELECT * FROM parts")
        assert sorted(rows(reader, "SELECT * FROM parts")) == pinned == shown[max(shown)]


def test_versions_survive_a_restart(base: Database, start_gateway: Any) -> None:
    first: Gateway = start_gateway()
    with session(base, first) as writer:
        rows(writer, "CREATE MATERIALIZED VIEW p AS SELECT count(*) AS n FROM t")
        (one,) = kept(writer, "p")
        rows(writer, "INSERT INTO t VALUES (2)")
        assert rows(writer, "SELECT n FROM p") == [(2,)]
        before = {number: row[:8] for number, row in kept(writer, "p").items()}
    assert first.stop() == 0
    again: Gateway = start_gateway()
    with session(base, again) as reader:
        after = {number: row[:8] for number, row in kept(reader, "p").items()}
        assert after.keys() == before.keys()
        assert rows(reader, f"SELECT n FROM p VERSION AS OF {one}") == [(1,)]
        rows(reader, "DROP MATERIALIZED VIEW p")


@pytest.mark.thorough
def test_a_stopping_gateway_deletes_the_rows_of_its_refresh(base: Database, start_gateway: Any, direct: Any) -> None:
    """On SIGTERM during a refresh of several batches its rows are deleted immediately, not at the next start."""
    gateway: Gateway = start_gateway(**{"limits.drain_seconds": 1})
    with unclosed(gateway, base.name) as writer, ThreadPoolExecutor(1) as pool:
        # With text files Spark checks for cancellation at each row; with Parquet, every four thousand rows.
        rows(writer, "CREATE TABLE parted (x INT, d INT) USING csv PARTITIONED BY (d)")
        rows(
            writer,
            "CREATE MATERIALIZED VIEW p PARTITION BY (d) PROPERTIES ('refresh_partition_num' = '1') "
            "AS SELECT d, max(levenshtein(repeat('x', x), repeat('y', x))) AS distance FROM parted GROUP BY d",
        )
        (current,) = kept(writer, "p")
        # The last partition takes minutes.
        rows(writer, "INSERT INTO parted SELECT 3000, 2 FROM range(5000) UNION ALL VALUES (1, 0), (1, 1)")
        reading = pool.submit(rows, writer, "SELECT * FROM p")
        wait_until(
            lambda: len(stored_versions(gateway, direct, base, "p")) > 0,
            what="the first batch to be written",
        )
        assert gateway.stop() == 0
        assert reading.exception(30) is not None
    assert stored_versions(gateway, direct, base, "p") <= {current}


# --- two gateways, and changes made directly on Spark --------------------------------------------------------


def test_of_two_gateways_one_refreshes_and_the_other_takes_over_after_it(
    base: Database, start_gateway: Any, direct: Any
) -> None:
    """A second gateway refuses to start; with --take-over the first one refuses refreshes until the second is gone."""
    first: Gateway = start_gateway(constants={"gateway.server.BEAT_SECONDS": 1}, **{"staleness.probe_interval": 0})
    with session(base, first) as one:
        rows(one, "CREATE MATERIALIZED VIEW p AS SELECT count(*) AS n FROM t")
        rows(one, "CREATE MATERIALIZED VIEW q WHEN STALE SERVE AS SELECT count(*) AS n FROM t")
        with pytest.raises(AssertionError, match=rf"process {first.pid}, started .* has given a sign of life"):
            start_gateway(**{"staleness.probe_interval": 0})
        second: Gateway = start_gateway(take_over=True, **{"staleness.probe_interval": 0})
        with session(base, second) as two:
            rows(one, "INSERT INTO t VALUES (2)")
            for statement in (
                "SELECT n FROM p",
                "REFRESH MATERIALIZED VIEW p",
                "CREATE MATERIALIZED VIEW r AS SELECT a FROM t",
                "DROP MATERIALIZED VIEW p",
                "ALTER MATERIALIZED VIEW p RENAME TO r",
            ):
                with pytest.raises(Exception, match=r"Another gateway .* was started for this metastore"):
                    rows(one, statement)
            # Reads that need no refresh still work; no view counts as fresh.
            assert rows(one, "SELECT n FROM q") == [(1,)]
            assert {row[2] for row in rows(one, "SHOW MATERIALIZED VIEWS") if row[1] in "pq"} == {"UNKNOWN"}
            # The first gateway logs the other one once.
            assert first.log.read_text(encoding="utf-8").count("Another gateway") == 1
            assert rows(two, "SELECT n FROM p") == [(2,)]
            assert rows(direct, f"SELECT n FROM {base.name}.p") == [(2,)]
            rows(two, "DROP MATERIALIZED VIEW p")
            rows(two, "CREATE MATERIALIZED VIEW s AS SELECT sum(a) AS n FROM t")
        second.kill()
        wait_until(
            lambda: "materialized views again" in first.log.read_text(encoding="utf-8"), what="the first to take over"
        )
        rows(one, "INSERT INTO t VALUES (4)")
        assert rows(one, "SELECT n FROM s") == [(7,)]
        assert {row[1] for row in rows(one, "SHOW MATERIALIZED VIEWS")} >= {"q", "s"}
        with pytest.raises(Exception, match=r"p.*(not found|cannot be found)"):
            rows(one, "SELECT n FROM p")
    assert first.stop() == 0


@pytest.mark.thorough
def test_a_refresh_fails_when_another_gateway_is_started(base: Database, start_gateway: Any, direct: Any) -> None:
    """The first gateway's refresh publishes nothing."""
    first: Gateway = start_gateway()
    with session(base, first) as one, ThreadPoolExecutor(1) as pool:
        rows(one, NAP)
        rows(one, "CREATE TABLE naps (a INT) USING parquet")
        slow = "SELECT nap('java.lang.Thread', 'sleep', bigint(a)) AS slept FROM naps"
        rows(one, f"CREATE MATERIALIZED VIEW p AS SELECT count(*) AS n, max(slept) AS slept FROM ({slow})")
        rows(one, "INSERT INTO naps VALUES (6000)")
        losing = pool.submit(rows, one, "SELECT n FROM p")
        wait_until(lambda: "Refreshing" in first.log.read_text(encoding="utf-8"), what="the refresh to begin")
        second: Gateway = start_gateway(take_over=True, **{"versions.retention": 0})
        with session(base, second) as two:
            rows(two, "INSERT OVERWRITE naps VALUES (1), (1)")
            assert rows(two, "SELECT n FROM p") == [(2,)]
            assert "Another gateway" in str(losing.exception(60))
            task = 'SELECT Status, ErrorMsg FROM tasks("type"="mv") WHERE MvName = \'p\' AND MvDatabaseName = '
            lost = [error for status, error in rows(one, f"{task}'{base.name}'") if status == "FAILED"]
            assert ["Another gateway" in error for error in lost] == [True]
            assert rows(direct, f"SELECT n FROM {base.name}.p") == [(2,)]
            newest = max(kept(two, "p"))
            rows(two, "INSERT OVERWRITE naps VALUES (1), (1), (1)")
            assert rows(two, "SELECT n FROM p") == [(3,)]
            assert max(kept(two, "p")) > newest
            rows(two, "DROP MATERIALIZED VIEW p")


def drop_part(direct: Any, gateway: Gateway, database: Database, view: str, part: str) -> None:
    if part == "view":
        rows(direct, f"DROP VIEW {database.name}.{view}")
        return
    if part == "replaced":
        rows(direct, f"CREATE OR REPLACE VIEW {database.name}.{view} AS SELECT -1 AS a")
        return
    for row in rows(direct, f"SHOW TABLES IN {gateway.storage} LIKE '{database.name}__{view}__*'"):
        is_definition = row[1].endswith("__definition")
        if is_definition is (part == "definition"):
            rows(direct, f"DROP {'VIEW' if is_definition else 'TABLE'} {gateway.storage}.{row[1]}")


@pytest.mark.parametrize("restarted", sampled([False, True], {"True"}))
@pytest.mark.parametrize(
    ("part", "reason"),
    sampled(
        [
            ("view", "its view was dropped"),
            ("replaced", "its view was dropped or replaced"),
            ("storage", "its storage table was dropped"),
        ],
        {"storage"},
        ["view", "replaced", "storage"],
    ),
)
def test_a_damaged_view_is_reported_and_can_be_dropped(
    base: Database, start_gateway: Any, direct: Any, part: str, reason: str, restarted: bool
) -> None:
    gateway: Gateway = start_gateway(**{"staleness.probe_interval": 0})
    with session(base, gateway) as cursor:
        rows(cursor, "CREATE MATERIALIZED VIEW p AS SELECT a FROM t")
        rows(cursor, "CREATE MATERIALIZED VIEW q AS SELECT a FROM t")
        drop_part(direct, gateway, base, "p", part)
    if restarted:
        gateway.stop()
        gateway = start_gateway()
    with session(base, gateway) as cursor:
        if not restarted:
            # The damage is found by the next observation of the view or by the next refresh.
            rows(cursor, "INSERT INTO t VALUES (2)")
            if part == "replaced":
                # The observation found another view under the name, which is read like any Spark view.
                assert rows(cursor, "SELECT * FROM p") == [(-1,)]
            elif part == "storage":
                # This gateway knows everything that was stored, and creates the table again.
                assert sorted(rows(cursor, "SELECT a FROM p")) == [(1,), (2,)]
                assert {row[1]: row[2] for row in rows(cursor, "SHOW MATERIALIZED VIEWS")}["p"] == "FRESH"
                rows(cursor, "DROP MATERIALIZED VIEW p")
                rows(cursor, "DROP MATERIALIZED VIEW q")
                return
            else:
                with pytest.raises(Exception, match=r"damaged|TABLE_OR_VIEW_NOT_FOUND"):
                    rows(cursor, "SELECT * FROM p")
        found = {row[1]: row for row in rows(cursor, "SHOW MATERIALIZED VIEWS")}
        assert found["p"][2] == "DAMAGED"
        assert reason in found["p"][7]
        select = "SELECT state FROM freshgate.materialized_views WHERE name = 'p' AND database_name = "
        assert rows(cursor, f"{select} '{base.name}'") == [("DAMAGED",)]
        with pytest.raises(Exception, match=f"is damaged: {reason}.*Run DROP MATERIALIZED VIEW"):
            rows(cursor, "REFRESH MATERIALIZED VIEW p")
        expected = sorted(rows(cursor, "SELECT a FROM t"))
        assert sorted(rows(cursor, "SELECT a FROM q")) == expected
        with (
            pyhive(gateway.host, gateway.port, "mallory", database=base.name) as other,
            pytest.raises(Exception, match="belongs to tester; mallory may not drop it"),
        ):
            rows(other, "DROP MATERIALIZED VIEW p")
        if part == "storage":
            rows(cursor, "CREATE OR REPLACE MATERIALIZED VIEW p AS SELECT a FROM t")
            assert sorted(rows(cursor, "SELECT a FROM p")) == expected
        if part == "replaced":
            # The name belongs to the Spark view that replaced the materialized one.
            assert rows(cursor, "SELECT a FROM p") == [(-1,)]
            with pytest.raises(Exception, match="already exists and is a view, not a materialized view"):
                rows(cursor, "CREATE OR REPLACE MATERIALIZED VIEW p AS SELECT a FROM t")
        rows(cursor, "DROP MATERIALIZED VIEW p")
        if part == "replaced":
            assert rows(cursor, "SELECT a FROM p") == [(-1,)]
            rows(cursor, "DROP VIEW p")
        rows(cursor, "DROP MATERIALIZED VIEW q")
        left = rows(direct, f"SHOW TABLES IN {gateway.storage} LIKE '{base.name}__*'")
        assert left == []


@pytest.mark.thorough
def test_a_view_over_a_table_that_cannot_be_observed_is_never_fresh(database: Database, start_gateway: Any) -> None:
    """This holds after a refresh, after a restart, and in queries of the catalog's tables."""
    freshness = f"SELECT freshness FROM freshgate.materialized_views WHERE database_name = '{database.name}'"
    for number in range(2):
        gateway = start_gateway(take_over=bool(number), **{"staleness.probe_interval": 3600})
        with session(database, gateway) as cursor:
            if number == 0:
                url = f"jdbc:derby:memory:{database.name};create=true"
                rows(cursor, f"CREATE TABLE far USING jdbc OPTIONS (url '{url}', dbtable 'sys.systables')")
                rows(cursor, "CREATE MATERIALIZED VIEW m WHEN STALE SERVE AS SELECT count(*) AS n FROM far")
                assert rows(cursor, freshness) == [("UNKNOWN",)]
                rows(cursor, "REFRESH MATERIALIZED VIEW m")
            assert rows(cursor, freshness) == [("UNKNOWN",)]
            stale = "SELECT is_stale FROM INFORMATION_SCHEMA.MATERIALIZED_VIEWS WHERE table_name = 'm'"
            assert rows(cursor, f"{stale} AND table_schema = '{database.name}'") == [(True,)]
            assert len(rows(cursor, "SELECT n FROM m")) == 1
            if number:
                rows(cursor, "DROP MATERIALIZED VIEW m")


def test_a_lost_definition_is_reported_and_the_rows_stay(base: Database, start_gateway: Any, direct: Any) -> None:
    gateway: Gateway = start_gateway()
    with session(base, gateway) as cursor:
        rows(cursor, "CREATE MATERIALIZED VIEW p AS SELECT a FROM t")
        drop_part(direct, gateway, base, "p", "definition")
        rows(cursor, "INSERT INTO t VALUES (2)")
        assert rows(cursor, "SELECT a FROM p") == [(1,)]
        with pytest.raises(Exception, match=r"The definition of materialized view .* was dropped outside the gateway"):
            rows(cursor, "REFRESH MATERIALIZED VIEW p")
        rows(cursor, "CREATE OR REPLACE MATERIALIZED VIEW p AS SELECT a FROM t")
        assert sorted(rows(cursor, "SELECT a FROM p")) == [(1,), (2,)]
        rows(cursor, "DROP MATERIALIZED VIEW p")
