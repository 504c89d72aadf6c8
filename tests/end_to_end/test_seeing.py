"""Tests metrics, probes, logs and the audit of a gateway on real Spark."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from clients import Jdbc, beeline, pyhive, rows
from databases import NAP
from processes import Engine, Gateway, free_port, wait_until
from pyhive import hive
from seen_gateway import Seen, start
from TCLIService import ttypes

PASSWORD = "hunter2-is-secret"
RUNNING = (
    ttypes.TOperationState.INITIALIZED_STATE,
    ttypes.TOperationState.RUNNING_STATE,
    ttypes.TOperationState.PENDING_STATE,
)
SLEEP = "SELECT reflect('java.lang.Thread', 'sleep', 60000L)"


@pytest.fixture(scope="module")
def seen(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    directory = tmp_path_factory.mktemp("seeing")
    settings = {"storage.database": "seeing_storage", "log.level": "DEBUG", "log.format": "json"}
    running = start(directory, f"{engine.host}:{engine.port}", settings=settings)
    with pyhive("127.0.0.1", running.gateway.port) as cursor:
        rows(cursor, "CREATE DATABASE seeing")
        yield running
        rows(cursor, "DROP DATABASE seeing CASCADE")
    running.gateway.stop()


@contextlib.contextmanager
def table(seen: Seen, name: str) -> Iterator[Any]:
    """A cursor, a table with the given name, and a materialized view over it, `<name>_mv`."""
    with pyhive("127.0.0.1", seen.gateway.port, user="alice", database="seeing") as cursor:
        rows(cursor, f"CREATE TABLE {name} (a INT) USING parquet")
        rows(cursor, f"INSERT INTO {name} VALUES (1)")
        rows(cursor, f"CREATE MATERIALIZED VIEW {name}_mv AS SELECT sum(a) AS s FROM {name}")
        try:
            yield cursor
        finally:
            rows(cursor, f"DROP MATERIALIZED VIEW {name}_mv")
            rows(cursor, f"DROP TABLE {name}")


def test_an_alter_names_the_views_that_depend_on_its_table(seen: Seen) -> None:
    with table(seen, "altered") as cursor:
        cursor.execute("ALTER TABLE altered ADD COLUMN b INT", async_=True)
        wait_until(lambda: cursor.poll().operationState not in RUNNING)
        said = [str(line) for line in cursor.fetch_logs()]
        assert "Warning: materialized views depend on it: seeing.altered is read by seeing.altered_mv" in said


def test_a_read_of_a_stale_view_is_counted_and_audited(seen: Seen) -> None:
    with table(seen, "stale") as cursor:
        waited = seen.metric("statements_total", taken_for="waited", outcome="succeeded")
        refreshed = seen.metric("refreshes_total", outcome="success", method="complete")
        assert seen.metric("view_staleness_seconds", database="seeing", view="stale_mv") == 0
        published = seen.metric("view_last_refresh_timestamp_seconds", view="stale_mv")
        rows(cursor, "INSERT INTO stale VALUES (2)")
        assert seen.metric("view_staleness_seconds", database="seeing", view="stale_mv") > 0
        assert rows(cursor, "SELECT s FROM stale_mv -- read stale") == [(3,)]
        assert seen.metric("view_staleness_seconds", database="seeing", view="stale_mv") == 0
        assert seen.metric("view_last_refresh_timestamp_seconds", view="stale_mv") > published
        assert seen.metric("statements_total", taken_for="waited", outcome="succeeded") == waited + 1
        assert seen.metric("refreshes_total", outcome="success", method="complete") == refreshed + 1
        line = seen.line_of("read stale")
        assert (line["taken_for"], line["outcome"], line["user"]) == ("waited", "succeeded", "alice")
        assert line["views"] == line["refreshed"] == ["seeing.stale_mv"]
        assert line["client"].startswith("127.0.0.1:")
        assert line["milliseconds"] >= 0
        assert rows(cursor, "SELECT s FROM stale_mv -- read fresh") == [(3,)]
        assert seen.line_of("read fresh")["taken_for"] == "read"
        written = seen.line_of("INSERT INTO stale VALUES (2)")
        assert (written["taken_for"], written["writes"]) == ("write", ["seeing.stale"])


def test_traffic_is_counted(seen: Seen) -> None:
    names = ("client_received_bytes_total", "client_sent_bytes_total", "upstream_sent_bytes_total")
    before = {name: seen.metric(name) for name in (*names, "upstream_received_bytes_total")}
    requests = seen.metric("requests_total", method="ExecuteStatement")
    logins = seen.metric("logins_total", outcome="accepted")
    sessions = seen.metric("sessions")
    with pyhive("127.0.0.1", seen.gateway.port) as cursor:
        assert rows(cursor, "SELECT 1 -- traffic") == [(1,)]
        assert seen.metric("sessions") == sessions + 1
        assert seen.metric("client_connections") >= 2
    assert all(seen.metric(name) > value for name, value in before.items())
    # PyHive starts each connection with a USE.
    assert seen.metric("requests_total", method="ExecuteStatement") == requests + 2
    assert seen.metric("requests_total", method="other") >= 0
    assert seen.metric("logins_total", outcome="accepted") == logins + 1
    wait_until(lambda: seen.metric("sessions") == sessions, what="the session to end")
    assert seen.metric("upstream_up") == 1
    assert seen.metric("upstream_connect_duration_seconds_count") > 0
    line = seen.line_of("-- traffic")
    assert line["taken_for"] == "forwarded"
    assert not {"views", "reads", "writes", "refreshed"} & line.keys()


def test_the_audit_names_tables_that_no_view_reads(seen: Seen) -> None:
    with pyhive("127.0.0.1", seen.gateway.port) as cursor:
        rows(cursor, "CREATE DATABASE elsewhere")
        rows(cursor, "CREATE TABLE elsewhere.plain AS SELECT 1 AS a")
        rows(cursor, "SELECT * FROM elsewhere.plain -- plain")
        line = seen.line_of("-- plain")
        assert (line["taken_for"], line["reads"]) == ("forwarded", ["elsewhere.plain"])
        rows(cursor, "INSERT INTO elsewhere.plain VALUES (2)")
        assert seen.line_of("INSERT INTO elsewhere")["writes"] == ["elsewhere.plain"]
        rows(cursor, "DROP DATABASE elsewhere CASCADE")


def test_refused_and_failed_statements_are_audited(seen: Seen) -> None:
    with table(seen, "guarded") as cursor:
        refused = seen.metric("statements_total", taken_for="refused")
        with pytest.raises(hive.OperationalError, match="guarded_mv"):
            rows(cursor, "INSERT INTO guarded_mv VALUES (5)")
        assert seen.metric("statements_total", taken_for="refused", outcome="refused") == refused + 1
        line = seen.line_of("INSERT INTO guarded_mv")
        assert (line["outcome"], line["sqlstate"]) == ("refused", "42809")
        assert "guarded_mv" in line["error"]
        with pytest.raises(hive.OperationalError):
            rows(cursor, "SELECT nothing_like_it FROM guarded")
        line = seen.line_of("nothing_like_it")
        assert (line["outcome"], line["sqlstate"]) == ("failed", "42703")
        assert "nothing_like_it" in line["error"]
        assert "\n" not in line["error"]
        cursor.execute("SELECT also_missing FROM guarded", async_=True)
        wait_until(lambda: cursor.poll().operationState not in RUNNING, what="the statement to end")
        assert seen.line_of("also_missing")["outcome"] == "failed"


def test_a_cancelled_statement_is_audited(seen: Seen) -> None:
    with pyhive("127.0.0.1", seen.gateway.port) as cursor:
        cursor.execute(f"{SLEEP} -- cancelled", async_=True)
        cursor.cancel()
        cursor.close()
        assert seen.line_of("-- cancelled")["outcome"] == "cancelled"


@pytest.mark.thorough
def test_a_cancelled_refresh_is_audited_and_counted(seen: Seen) -> None:
    with table(seen, "slow") as cursor:
        rows(cursor, NAP)
        query = "SELECT max(b) AS b FROM (SELECT nap('java.lang.Thread', 'sleep', bigint(a)) AS b FROM slow)"
        rows(cursor, f"CREATE MATERIALIZED VIEW slower AS {query}")
        rows(cursor, "INSERT INTO slow VALUES (60000)")
        cursor.execute("SELECT * FROM slower -- waits", async_=True)
        wait_until(lambda: seen.metric("refreshes_running") == 1, what="the refresh to run")
        cursor.cancel()
        line = seen.line_of("-- waits")
        assert (line["taken_for"], line["outcome"], line["refreshed"]) == ("waited", "cancelled", ["seeing.slower"])
        wait_until(lambda: seen.metric("refreshes_total", outcome="canceled") >= 1, what="the refresh to be counted")
        rows(cursor, "DROP MATERIALIZED VIEW slower")


def test_each_driver_is_audited(seen: Seen) -> None:
    beeline(seen.gateway.url, "SELECT 'from beeline'", user="bea")
    with Jdbc(seen.gateway.url, user="joe") as jdbc:
        assert jdbc.query("SELECT 'from jdbc'")[1] == [("from jdbc",)]
    with pyhive("127.0.0.1", seen.gateway.port, user="pia") as cursor:
        rows(cursor, "SELECT 'from pyhive'")
    for driver, user in (("beeline", "bea"), ("jdbc", "joe"), ("pyhive", "pia")):
        line = seen.line_of(f"from {driver}")
        assert (line["user"], line["outcome"]) == (user, "succeeded")
        login = [each for each in seen.lines() if each["event"] == "login" and each["user"] == user]
        assert [each["outcome"] for each in login] == ["accepted"]
        assert seen.end_of(user)["session"] == line["session"]


def test_the_gateways_own_statements_are_audited(seen: Seen) -> None:
    with table(seen, "owned") as cursor:
        rows(cursor, "REFRESH MATERIALIZED VIEW owned_mv COMPLETE")
        line = seen.line_of("REFRESH MATERIALIZED VIEW owned_mv")
        assert (line["taken_for"], line["outcome"], line["refreshed"]) == ("command", "succeeded", ["seeing.owned_mv"])
        assert line["views"] == ["seeing.owned_mv"]


def test_passwords_are_neither_logged_nor_audited(seen: Seen) -> None:
    """This covers logins and statements, valid or not, at the log level DEBUG."""
    connection = hive.connect("127.0.0.1", seen.gateway.port, username="eve", password=PASSWORD, auth="LDAP")
    with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
        for statement in (
            f"SET spark.my.password={PASSWORD}",
            f"CREATE TABLE seeing.jdbc USING jdbc OPTIONS (url 'jdbc:none://u:{PASSWORD}@h/d', password '{PASSWORD}')",
            f"CREATE TABLE seeing.x USING jdbc OPTIONS (password '{PASSWORD}', not a statement at all",
            f"CREATE MATERIALIZED VIEW seeing.x TBLPROPERTIES ('my.token' = '{PASSWORD}') AS SELECT * FROM nowhere",
            f"REFRESH MATERIALIZED VIEW seeing.x PASSWORD '{PASSWORD}'",
        ):
            with contextlib.suppress(hive.OperationalError):
                rows(cursor, statement)
    seen.end_of("eve")
    # PyHive starts each connection with a USE.
    assert sum(line["user"] == "eve" and line["event"] == "statement" for line in seen.lines()) == 6
    assert PASSWORD not in seen.audit.read_text(encoding="utf-8")
    assert PASSWORD not in seen.gateway.log.read_text(encoding="utf-8")


def test_log_lines_are_json_with_ids(seen: Seen) -> None:
    with table(seen, "logged") as cursor, Jdbc(seen.gateway.url, user="alice") as jdbc:
        rows(cursor, "INSERT INTO logged VALUES (3)")
        jdbc.query("SELECT * FROM seeing.logged_mv -- logged")
        line = seen.line_of("-- logged")
    log = [json.loads(each) for each in seen.gateway.log.read_text(encoding="utf-8").splitlines()]
    about = [each for each in log if each.get("statement") == line["statement"]]
    assert [each["operation"] for each in about if "Refreshing" in each["message"]] == [line["operation"]]
    assert all((each["session"], each["user"]) == (line["session"], "alice") for each in about)


def test_a_login_without_sasl_is_audited(seen: Seen) -> None:
    with pyhive("127.0.0.1", seen.gateway.port, user="nora", auth="NOSASL") as cursor:
        assert rows(cursor, "SELECT 'without sasl'") == [("without sasl",)]
    line = seen.line_of("without sasl")
    assert (line["user"], line["outcome"]) == ("nora", "succeeded")
    assert [each["outcome"] for each in seen.lines() if each["event"] == "login" and each["user"] == "nora"]


def test_a_lost_client_is_audited(seen: Seen) -> None:
    connection = hive.connect("127.0.0.1", seen.gateway.port, username="van")
    cursor = connection.cursor()
    cursor.execute(f"{SLEEP} -- vanished", async_=True)
    connection._transport.close()
    assert seen.line_of("-- vanished")["outcome"] in ("unknown", "cancelled")
    assert seen.end_of("van")["outcome"] == "lost"


@pytest.mark.thorough
@pytest.mark.usefixtures("spark_server")
def test_the_readiness_probe_fails_while_spark_is_down(tmp_path: Path) -> None:
    """The gateway has an embedded engine and restarts it."""
    port, audit = free_port(), tmp_path / "audit.jsonl"
    gateway = Gateway(
        tmp_path / "gateway.log",
        data_dir=tmp_path / "data",
        constants={"gateway.assembly.reporting.Readiness.interval": 0.2},
        settings={"metrics.port": port, "log.audit": audit},
    )
    seen = Seen(gateway, port, audit)
    try:
        wait_until(lambda: seen.get("/readyz")[0] == 200, what="the gateway to be ready")
        assert seen.metric("upstream_up") == 1

        def not_ready() -> bool:
            # A probe waits up to ten seconds for Spark, so a Spark that restarts earlier must be killed again.
            for child in _children(gateway):
                with contextlib.suppress(psutil.NoSuchProcess):  # The child may have ended.
                    if child.name() == "java":
                        child.kill()
            return seen.get("/readyz")[0] == 503

        wait_until(not_ready, what="the gateway not to be ready")
        assert seen.get("/healthz") == (200, '{"status": "alive"}\n')
        assert seen.metric("upstream_up") == 0
        wait_until(lambda: seen.get("/readyz")[0] == 200, 120, what="the gateway to be ready again")
    finally:
        gateway.stop()


def _children(gateway: Gateway) -> list[Any]:
    found: list[Any] = psutil.Process(gateway.pid).children(recursive=True)
    return found
