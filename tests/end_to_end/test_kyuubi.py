"""The life of a view in front of an Apache Kyuubi, which starts the Sparks: a gateway, and a cursor on each. The
environment variable that names its directory is needed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows, unclosed
from databases import NAP, Database, make_database
from kyuubi import HOME, Kyuubi, home_of_kyuubi
from metastore import running_metastore
from processes import Gateway, wait_until
from pyhive.exc import OperationalError
from TCLIService import ttypes

LIMIT = 20
"""How many rows of a result Kyuubi returns."""
LEVELS = {
    "SERVER": {"kyuubi.operation.result.max.rows": str(LIMIT)},
    "USER": {"kyuubi.operation.incremental.collect": "true"},
}
"""Which sessions share a Spark, and a setting with which Kyuubi returns results in another way."""
BY_DAY = "SELECT sum(amount) AS total, count(*) AS n, day FROM orders GROUP BY day"
ALL = "SELECT day, amount FROM orders WHERE amount > 0"
SLEEPING = "SELECT amount, nap('java.lang.Thread', 'sleep', bigint(amount)) AS nothing FROM orders"
RUNNING = "SELECT count(*) FROM tasks('type'='mv') WHERE Status = 'RUNNING'"
SHOW = "SHOW MATERIALIZED VIEWS IN killed"
LEFT = "SHOW TABLES IN storage_restarted LIKE 'kept__*'"
UNENDED = {ttypes.TOperationState.INITIALIZED_STATE, ttypes.TOperationState.RUNNING_STATE}
ENDLESS = "SELECT count(*) FROM range(100000000000000)"


@dataclass(frozen=True)
class Place:
    """A Kyuubi, and gateways in front of it."""

    kyuubi: Kyuubi
    directory: Path
    _numbers: Iterator[int]

    def gateway(self, storage: str = "", **settings: Any) -> Gateway:
        number = next(self._numbers)
        wanted: dict[str, Any] = {"storage.database": storage or f"storage_{number}", "staleness.probe_interval": 0}
        wanted |= settings
        log = self.directory / f"gateway-{number}.log"
        return Gateway(log, upstream=f"{self.kyuubi.host}:{self.kyuubi.port}", settings=wanted)


@pytest.fixture(scope="module", params=LEVELS)
def place(
    request: pytest.FixtureRequest, spark_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    home = home_of_kyuubi()
    if home is None:
        pytest.skip(f"{HOME} names no directory of an Apache Kyuubi")
    directory = tmp_path_factory.mktemp("kyuubi")
    settings = {"kyuubi.engine.share.level": request.param, **LEVELS[request.param]}
    (directory / "metastore").mkdir()
    with running_metastore(directory / "metastore") as (_, port):
        kyuubi = Kyuubi(home, directory / "kyuubi", port, settings)
        yield Place(kyuubi, directory, itertools.count(1))
        kyuubi.stop()


@pytest.fixture(scope="module")
def running(place: Place) -> Iterator[Gateway]:
    gateway = place.gateway()
    yield gateway
    gateway.stop()


@pytest.fixture
def base(running: Gateway) -> Iterator[Database]:
    """A database with a table `orders` of two days."""
    for database in make_database(running):
        database.run(
            "CREATE TABLE orders (amount INT, day STRING) USING parquet PARTITIONED BY (day)",
            "INSERT INTO orders VALUES (10, 'mon'), (5, 'mon'), (7, 'tue')",
        )
        yield database


@pytest.fixture
def direct(place: Place, base: Database) -> Iterator[Any]:
    """A cursor on Kyuubi."""
    with pyhive(place.kyuubi.host, place.kyuubi.port) as cursor:
        rows(cursor, f"USE {base.name}")
        yield cursor


def answers(gateway: Gateway) -> bool:
    """Whether a new session has a Spark. Kyuubi sends sessions to a dead one for a while."""
    with contextlib.suppress(OperationalError), unclosed(gateway) as cursor:
        return rows(cursor, "SELECT 1") == [(1,)]
    return False


def refused(cursor: Any, sql: str) -> tuple[str, str]:
    """The SQLSTATE and the message of a refused statement."""
    with pytest.raises(OperationalError) as error:
        rows(cursor, sql)
    status = error.value.args[0].status
    return str(status.sqlState), str(status.errorMessage)


def assert_same(base: Database, direct: Any, view: str, definition: str) -> None:
    """Compares a view, read through the gateway, with its definition, read from Kyuubi."""
    rows(direct, "REFRESH TABLE orders")
    expected = sorted(rows(direct, definition), key=repr)
    assert 0 < len(expected) < LIMIT
    assert base.rows(f"SELECT * FROM {view}") == expected


def test_views_are_fresh_when_they_are_read(base: Database, direct: Any) -> None:
    base.run(
        f"CREATE MATERIALIZED VIEW whole AS {BY_DAY}",
        f"CREATE MATERIALIZED VIEW parts PARTITION BY (day) AS {BY_DAY}",
        f"CREATE MATERIALIZED VIEW added REFRESH INCREMENTAL AS {ALL}",
    )
    for amount, day in ((1, "tue"), (2, "wed"), (-3, "mon")):
        rows(direct, f"INSERT INTO orders VALUES ({amount}, '{day}')")
        for view, definition in (("whole", BY_DAY), ("parts", BY_DAY), ("added", ALL)):
            assert_same(base, direct, view, definition)
    tasks = rows(base.cursor, 'SELECT MvName, RefreshMode FROM tasks("type"="mv") ORDER BY CAST(TaskId AS BIGINT)')
    modes = dict(tasks)
    assert (modes["whole"], modes["parts"], modes["added"]) == ("COMPLETE", "PARTIAL", "INCREMENTAL")
    rows(direct, "TRUNCATE TABLE orders")
    assert base.rows("SELECT * FROM added") == base.rows("SELECT * FROM parts") == []


def test_a_view_is_shown_altered_refreshed_and_dropped(base: Database) -> None:
    base.run(f"CREATE MATERIALIZED VIEW m AS {BY_DAY}", "REFRESH MATERIALIZED VIEW m COMPLETE")
    assert (base.freshness("m"), base.version("m")) == ("FRESH", 2)
    base.run("ALTER MATERIALIZED VIEW m RENAME TO r", "ALTER MATERIALIZED VIEW r SET ('grace_period' = '3600')")
    base.run("INSERT INTO orders VALUES (1, 'sun')")
    assert base.freshness("r") == "FRESH_WITHIN_GRACE"
    assert base.rows("SELECT * FROM r") == [(15, 2, "mon"), (7, 1, "tue")]
    base.run("DROP MATERIALIZED VIEW r")
    assert rows(base.cursor, f"SHOW MATERIALIZED VIEWS IN {base.name}") == []


def test_refusals_say_why(base: Database) -> None:
    base.run(f"CREATE MATERIALIZED VIEW m AS {BY_DAY}")
    state, message = refused(base.cursor, "CREATE MATERIALIZED VIEW r AS SELECT absent FROM orders")
    assert (state, "absent" in message) == ("42703", True)
    state, message = refused(base.cursor, "CREATE MATERIALIZED VIEW r AS SELECT a FROM nothing")
    assert (state, "nothing" in message) == ("42P01", True)
    assert refused(base.cursor, "CREATE MATERIALIZED VIEW r AS SELEC 1")[0] == "42601"
    assert refused(base.cursor, "DROP TABLE m")[0] == "42809"
    base.run("DROP TABLE orders")
    assert "orders" in refused(base.cursor, "REFRESH MATERIALIZED VIEW m")[1]


def test_views_are_listed_with_their_type(base: Database) -> None:
    base.run(f"CREATE MATERIALIZED VIEW m AS {BY_DAY}", "CREATE VIEW v AS SELECT 1 AS one")
    client, session = base.cursor._connection.client, base.cursor._connection.sessionHandle
    listing = client.GetTables(ttypes.TGetTablesReq(session, schemaName=base.name, tableName="%"))
    page = client.FetchResults(ttypes.TFetchResultsReq(listing.operationHandle, maxRows=100))
    names, types = (page.results.columns[column].stringVal.values for column in (2, 3))
    assert dict(zip(names, types, strict=True)) == {"m": "MATERIALIZED_VIEW", "orders": "TABLE", "v": "VIEW"}


def test_a_running_statement_is_cancelled(base: Database) -> None:
    base.cursor.execute(ENDLESS, async_=True)
    base.cursor.cancel()
    assert base.cursor.poll().operationState == ttypes.TOperationState.CANCELED_STATE
    assert base.rows("SELECT 1") == [(1,)]


def test_a_restart_loads_the_views(place: Place) -> None:
    first = place.gateway("storage_restarted")
    with pyhive(first.host, first.port) as cursor:
        rows(cursor, "CREATE DATABASE kept")
        rows(cursor, "CREATE TABLE kept.orders (amount INT) USING parquet")
        rows(cursor, "CREATE MATERIALIZED VIEW kept.m AS SELECT sum(amount) AS total FROM kept.orders")
        rows(cursor, "INSERT INTO kept.orders VALUES (1)")
    assert first.stop() == 0
    second = place.gateway("storage_restarted")
    with pyhive(second.host, second.port) as cursor:
        assert rows(cursor, "SELECT * FROM kept.m") == [(1,)]
        rows(cursor, "DROP MATERIALIZED VIEW kept.m")
        wait_until(lambda: rows(cursor, LEFT) == [], 60, "the storage to be empty")
    second.stop()


def test_the_secret_of_a_guard_is_kept_from_the_sparks(place: Place) -> None:
    secret = "s" * 64
    with pytest.raises(AssertionError, match="does not work behind it"):
        place.gateway(**{"upstream.guard_secret": secret})
    assert [each for each in place.kyuubi.sparks() if secret in " ".join(each.cmdline())] == []


def test_a_view_outlives_the_sparks(place: Place) -> None:
    gateway = place.gateway()
    with unclosed(gateway) as cursor:
        for statement in (
            "CREATE DATABASE killed",
            "USE killed",
            NAP,
            "CREATE TABLE orders (amount INT) USING parquet",
        ):
            rows(cursor, statement)
        rows(cursor, f"CREATE MATERIALIZED VIEW m AS {SLEEPING}")
        rows(cursor, "INSERT INTO orders VALUES (100000)")
        cursor.execute("SELECT * FROM m", async_=True)
        with unclosed(gateway) as other:
            wait_until(lambda: rows(other, RUNNING) == [(1,)], 60, "the refresh to run")
        place.kyuubi.kill_sparks()
        wait_until(lambda: cursor.poll().operationState not in UNENDED, 60, "the read to end")
        ended = cursor.poll()
    assert (ended.operationState, ended.sqlState) == (ttypes.TOperationState.ERROR_STATE, "08007")
    assert "Kyuubi has no Spark for the session" in ended.errorMessage
    wait_until(lambda: answers(gateway), 120, "another Spark")
    with unclosed(gateway) as cursor:
        rows(cursor, "TRUNCATE TABLE killed.orders")
        rows(cursor, "INSERT INTO killed.orders VALUES (3)")
        assert rows(cursor, "SELECT amount FROM killed.m") == [(3,)]
        version = rows(cursor, SHOW)[0][3]
    place.kyuubi.kill_sparks()
    wait_until(lambda: answers(gateway), 120, "another Spark")
    with pyhive(gateway.host, gateway.port) as cursor:
        assert rows(cursor, "SELECT amount FROM killed.m") == [(3,)]
        assert rows(cursor, SHOW)[0][2:4] == ("FRESH", version)
        rows(cursor, "INSERT INTO killed.orders VALUES (4)")
        assert sorted(rows(cursor, "SELECT amount FROM killed.m")) == [(3,), (4,)]
        rows(cursor, "DROP MATERIALIZED VIEW killed.m")
    gateway.stop()
