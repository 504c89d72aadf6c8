"""Tests that concurrent readers share one refresh, keep their version, and wait only for what they read."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from threading import Barrier
from typing import Any

import pytest
from clients import pyhive, rows
from databases import NAP, Database
from processes import wait_until
from pyhive.exc import OperationalError
from tiers import sampled

READERS = 40


def test_many_readers_of_a_stale_view_cause_one_refresh(database: Database) -> None:
    database.run("CREATE TABLE t (a INT) USING parquet", "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    before = database.version("m")
    database.run("INSERT INTO t VALUES (1)")
    barrier = Barrier(READERS)

    def read(cursor: Any) -> list[tuple[Any, ...]]:
        barrier.wait(60)
        return rows(cursor, f"SELECT n FROM {database.name}.m")

    with ExitStack() as stack, ThreadPoolExecutor(READERS) as pool:
        cursors = [stack.enter_context(pyhive(database.gateway.host, database.gateway.port)) for _ in range(READERS)]
        assert list(pool.map(read, cursors)) == [[(1,)]] * READERS
    assert database.version("m") == before + 1


@pytest.mark.thorough
def test_a_reader_keeps_its_version_across_twenty_refreshes(
    database: Database, start_gateway: Any, engine: Any
) -> None:
    """Rows are fetched page by page during refreshes. Other versions and their files are dropped immediately, the
    reader's own at its end."""
    gateway = start_gateway(**{"versions.retention": 0})
    count, rounds = 20_000, 20
    with pyhive(gateway.host, gateway.port, database=database.name) as writer:
        rows(writer, f"CREATE TABLE t USING parquet AS SELECT id, 0 AS round FROM range({count})")
        rows(writer, "CREATE MATERIALIZED VIEW m AS SELECT id, round FROM t")
        listed = rows(writer, f"SHOW TABLES IN {gateway.storage} LIKE '{database.name}__m*'")
        (storage,) = [row[1] for row in listed if not row[1].endswith("__definition")]
        directory = engine.data_dir / "warehouse" / f"{gateway.storage}.db" / storage

        def versions() -> set[int]:
            """Returns the versions that have files or a partition in the metastore."""
            found = [row[0] for row in rows(writer, f"SHOW PARTITIONS {gateway.storage}.{storage}")]
            found += [path.name for path in directory.glob("freshgate_version=*")]
            return {int(name.partition("=")[2]) for name in found}

        with pyhive(
            gateway.host,
            gateway.port,
            database=database.name,
            configuration={"set:hiveconf:spark.sql.thriftServer.incrementalCollect": "true"},
        ) as reader:
            reader.arraysize = 500
            (own,) = versions()
            reader.execute("SELECT id, round FROM m")
            seen = [reader.fetchone()]
            for number in range(1, rounds + 1):
                rows(writer, f"INSERT OVERWRITE t SELECT id, {number} FROM range({count})")
                assert rows(writer, "SELECT DISTINCT round FROM m") == [(number,)]
                seen += reader.fetchmany(500)
            wait_until(lambda: versions() == {own, own + rounds}, what="the intermediate versions to be dropped")
            seen += reader.fetchall()
        assert sorted(row[0] for row in seen) == list(range(count))
        assert {row[1] for row in seen} == {0}
        wait_until(lambda: versions() == {own + rounds}, what="the reader's version to be dropped")
        rows(writer, "DROP MATERIALIZED VIEW m")


SLOW = (
    "SELECT count(*) AS n, max(slept) AS slept "
    "FROM (SELECT nap('java.lang.Thread', 'sleep', bigint(a)) AS slept FROM t)"
)
"""Occupies one of Spark's two slots for the sum of t in milliseconds."""


@pytest.mark.thorough
def test_a_reader_of_another_view_does_not_wait(database: Database) -> None:
    """Other views and tables answer during one view's long refresh."""
    database.run(
        NAP,
        "CREATE TABLE t (a BIGINT) USING parquet",
        "CREATE TABLE u (a INT) USING parquet",
        f"CREATE MATERIALIZED VIEW slow AS {SLOW}",
        "CREATE MATERIALIZED VIEW quick AS SELECT count(*) AS n FROM u",
        "INSERT INTO t VALUES (8000)",
        "INSERT INTO u VALUES (1)",
    )
    with (
        pyhive(database.gateway.host, database.gateway.port, database=database.name) as waiting,
        ThreadPoolExecutor(1) as pool,
    ):
        read = pool.submit(rows, waiting, "SELECT n FROM slow")
        assert database.rows("SELECT n FROM quick") == [(1,)]
        assert database.rows("SELECT a FROM u") == [(1,)]
        assert not read.done()
        assert read.result(60) == [(1,)]


def wait_for_slow(cursor: Any) -> None:
    """Waits until the refresh of `slow` runs, in any database."""
    statuses = 'SELECT Status FROM tasks("type"="mv") WHERE MvName = \'slow\''
    wait_until(lambda: ("RUNNING",) in rows(cursor, statuses), 60, "the refresh of slow")


def make_tables(cursor: Any) -> None:
    """Creates `slow`, whose refresh takes as long as the rows of t say, and `between`, a Spark view over u."""
    for statement in (
        NAP,
        "CREATE TABLE t (a BIGINT) USING parquet",
        "CREATE TABLE u (a INT) USING parquet",
        "CREATE TABLE w (a INT) USING parquet",
        "CREATE VIEW between AS SELECT a FROM u",
        f"CREATE MATERIALIZED VIEW slow AS {SLOW}",
    ):
        rows(cursor, statement)


@pytest.mark.thorough
def test_a_spark_view_may_be_replaced_while_a_refresh_waits_its_turn(database: Database, start_gateway: Any) -> None:
    """A write to the table that the replaced view now reads is noted, although no observation is due.

    The view is replaced repeatedly, because the test cannot see when the refresh determines its base tables.
    """
    gateway = start_gateway(**{"refresh.max_concurrent": 1, "staleness.probe_interval": 100_000})

    def connected() -> Any:
        return pyhive(gateway.host, gateway.port, database=database.name)

    with connected() as cursor, connected() as reader, connected() as refresher, ThreadPoolExecutor(2) as pool:
        make_tables(cursor)
        rows(cursor, "CREATE MATERIALIZED VIEW top AS SELECT count(*) AS n FROM between")
        rows(cursor, "INSERT INTO t VALUES (5000)")
        read = pool.submit(rows, reader, "SELECT n FROM slow")
        wait_for_slow(cursor)
        refreshed = pool.submit(rows, refresher, "REFRESH MATERIALIZED VIEW top")
        until = time.monotonic() + 4
        for number in count():
            rows(cursor, f"CREATE TABLE w{number} (a INT) USING parquet")
            rows(cursor, f"CREATE OR REPLACE VIEW between AS SELECT a FROM w{number}")
            if read.done() or time.monotonic() > until:
                break
        assert read.result(60) == [(1,)]
        assert refreshed.exception(60) is None
        rows(cursor, f"INSERT INTO w{number} VALUES (1)")
        assert rows(cursor, "SELECT n FROM top") == [(1,)]
        for view in ("top", "slow"):
            rows(cursor, f"DROP MATERIALIZED VIEW {view}")


@pytest.mark.thorough
def test_creation_fails_if_a_spark_view_it_reads_is_replaced_meanwhile(database: Database) -> None:
    make_tables(database.cursor)
    database.run("INSERT INTO t VALUES (5000)")
    create = (
        "CREATE MATERIALIZED VIEW top PROPERTIES ('probe_interval' = '100000') AS "
        "SELECT (SELECT count(*) FROM between) AS n, (SELECT n FROM slow) AS below"
    )
    with (
        pyhive(database.gateway.host, database.gateway.port, database=database.name) as waiting,
        ThreadPoolExecutor(1) as pool,
    ):
        created = pool.submit(rows, waiting, create)
        wait_for_slow(database.cursor)
        database.run("CREATE OR REPLACE VIEW between AS SELECT a FROM w")
        assert not created.done()
        with pytest.raises(OperationalError, match=rf"{database.name}\.top reads was replaced") as raised:
            created.result(60)
    assert raised.value.args[0].status.sqlState == "40001"
    database.run(create, "INSERT INTO w VALUES (1)")
    assert database.rows("SELECT n, below FROM top") == [(1, 1)]


@pytest.mark.thorough
@pytest.mark.parametrize("clause", sampled(["WHEN STALE SERVE", "GRACE PERIOD 1 HOUR"], {"WHEN STALE SERVE"}))
def test_readers_that_accept_stale_rows_do_not_wait_for_a_refresh(database: Database, clause: str) -> None:
    """DDL of other views does not wait either."""
    database.run(
        NAP,
        "CREATE TABLE t (a BIGINT) USING parquet",
        f"CREATE MATERIALIZED VIEW m {clause} AS {SLOW}",
        "INSERT INTO t VALUES (30000)",
        "REFRESH MATERIALIZED VIEW m ASYNC",
    )
    assert database.rows("SELECT n FROM m") == [(0,)]
    database.run(
        "CREATE MATERIALIZED VIEW other AS SELECT a FROM t",
        "ALTER MATERIALIZED VIEW other RENAME TO another",
        "DROP MATERIALIZED VIEW another",
    )
    assert database.rows("SELECT n FROM m") == [(0,)]
    select = 'SELECT count(*) FROM tasks("type"="mv") WHERE Status = \'RUNNING\' AND MvDatabaseName = '
    assert database.rows(f"{select} '{database.name}'") == [(1,)]


def test_handles_work_for_their_user_only(database: Database) -> None:
    with (
        pyhive(database.gateway.host, database.gateway.port, user="alice") as alice,
        pyhive(database.gateway.host, database.gateway.port, user="mallory") as mallory,
    ):
        alice.execute("SELECT 42 AS secret")
        mallory.execute("SELECT 1 AS own")
        own, mallory._operationHandle = mallory._operationHandle, alice._operationHandle
        with pytest.raises(Exception, match="Invalid OperationHandle"):
            mallory.fetchall()
        mallory._operationHandle = own
        session, mallory._connection._sessionHandle = (
            mallory._connection._sessionHandle,
            alice._connection._sessionHandle,
        )
        with pytest.raises(Exception, match="Invalid SessionHandle"):
            mallory.execute("SELECT current_user()")
        mallory._connection._sessionHandle = session
        assert alice.fetchall() == [(42,)]


def test_one_of_several_concurrent_creations_of_a_name_succeeds(database: Database) -> None:
    """The others are refused, and the view works."""
    database.run("CREATE TABLE t (a INT) USING parquet", "INSERT INTO t VALUES (1)")

    def create(number: int) -> str:
        with pyhive(database.gateway.host, database.gateway.port, database=database.name) as cursor:
            try:
                rows(cursor, f"CREATE MATERIALIZED VIEW m AS SELECT a, {number} AS number FROM t")
            except Exception as error:
                return str(error)
            return ""

    with ThreadPoolExecutor(3) as pool:
        outcomes = sorted(pool.map(create, range(3)))
    assert outcomes[0] == ""
    assert all("42P07" in outcome for outcome in outcomes[1:])
    assert len(database.rows("SELECT * FROM m")) == 1


@pytest.mark.thorough
def test_a_cancelled_reader_does_not_affect_others(database: Database) -> None:
    """Its refresh is cancelled if nobody else waits for it; a later reader starts a new one."""
    database.run(
        NAP,
        "CREATE TABLE t (a BIGINT) USING parquet",
        "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n, max(s) AS s "
        "FROM (SELECT nap('java.lang.Thread', 'sleep', bigint(a)) AS s FROM t)",
        "INSERT INTO t VALUES (2000)",
    )
    with pyhive(database.gateway.host, database.gateway.port, database=database.name) as impatient:
        impatient.execute("SELECT n FROM m", async_=True)
        wait_until(impatient.fetch_logs, what="the refresh to begin")
        impatient.cancel()
        assert database.rows("SELECT n FROM m") == [(1,)]
