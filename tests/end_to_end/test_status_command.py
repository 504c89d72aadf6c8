"""Tests the program `freshgate status` with real gateways."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from databases import NAP, Database
from fault_proxy import Fault, FaultProxy
from forks import completed
from processes import ROOT, Engine, Gateway, Program, environment, wait_until
from pyhive.exc import OperationalError
from tiers import sampled

NAP_MS = 30_000
"""The maximum duration of the refresh that a test observes; the test cancels it earlier."""
TABLES_READ = 6
"""How many of freshgate's tables one display with --json reads."""


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "gateway", "status", "--url", url, *arguments]


def status(url: str, *arguments: str, columns: int = 120) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end, with the given terminal width and its output piped."""
    variables = {**environment(), "COLUMNS": str(columns)}
    return completed(command(url, *arguments)[1:], variables, directory=ROOT, seconds=120)


def json_status(database: Database, *arguments: str) -> dict[str, Any]:
    """Returns the JSON status of one database, as the owner of its views sees it."""
    done = status(database.gateway.url, "--json", "--user", "tester", "--database", database.name, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def watching(url: str, *arguments: str, stderr: Path | None = None) -> Iterator[Program]:
    program = Program(command(url, "--watch", "0.1", *arguments), stderr=stderr)
    try:
        yield program
    finally:
        program.stop(signal.SIGKILL)


VIEWS = (
    "CREATE TABLE t (a INT) USING parquet",
    "INSERT INTO t VALUES (1)",
    "CREATE MATERIALIZED VIEW m AS SELECT a FROM t",
    "CREATE MATERIALIZED VIEW served WHEN STALE SERVE AS SELECT 1 / a AS share FROM t",
)


@pytest.fixture
def base(database: Database) -> Database:
    """A table t with one row, the view `m` over it, and `served`, which reads do not refresh."""
    database.run(*VIEWS)
    return database


@pytest.fixture(scope="module")
def unchanged(shared: Database) -> Database:
    """The same for tests that change nothing."""
    shared.run(*VIEWS)
    return shared


def test_stale_views_are_shown_with_their_reasons(base: Database) -> None:
    assert [view["freshness"] for view in json_status(base)["views"]] == ["FRESH", "FRESH"]
    (alone,) = json_status(base)["gateways"]
    assert (alone["role"], alone["since_seconds"] < 3600) == ("LEADER", True)
    base.run("INSERT INTO t VALUES (0)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        base.run("REFRESH MATERIALIZED VIEW served")
    m, served = json_status(base)["views"]
    assert (m["database"], m["name"], m["freshness"], m["version"], m["trigger"]) == (
        base.name,
        "m",
        "STALE",
        1,
        "READ",
    )
    assert m["reason"] == f"{base.name}.t has changed"
    assert 0 <= m["last_refresh_age_seconds"] < 600
    assert m["last_refresh_time"] < m["stale_since"]
    assert (m["last_task_status"], served["last_task_status"]) == ("SUCCESS", "FAILED")
    assert "DIVIDE_BY_ZERO" in served["last_task_error"]
    assert (m["paused"], m["next_refresh_time"]) == (False, None)
    done = status(base.gateway.url, "--user", "tester", "--database", base.name.upper())
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 materialized views: 2 STALE." in done.stdout
    assert re.search(rf"^{base.name}\.m +STALE +\d+s +\S.* READ ", done.stdout, re.MULTILINE)
    assert f"because {base.name}.t has changed\n" in done.stdout
    assert re.search(rf"^FAILING +{base.name}\.served +\d+s ago", done.stdout, re.MULTILINE)
    assert "the last refresh has failed; Mend the cause. Then REFRESH MATERIALIZED VIEW" in done.stdout
    assert "DIVIDE_BY_ZERO" not in status(base.gateway.url, "--user", "eve", "--database", base.name).stdout
    found = json_status(base)
    assert [(each["what"], each["name"]) for each in found["attention"]] == [("FAILING", "served")]
    assert {each["name"] for each in found["reads"]} == {"m", "served"}
    assert "REFRESH MATERIALIZED VIEW served" in [each["text"] for each in found["statements"]]
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.thorough
def test_a_schedule_is_shown(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW hourly REFRESH AUTO ON SCHEDULE EVERY 1 HOUR AS SELECT a FROM t")
    (view,) = (each for each in json_status(base)["views"] if each["name"] == "hourly")
    assert (view["trigger"], view["schedule"]) == ("SCHEDULE", "EVERY 1 HOUR")


@pytest.mark.thorough
def test_the_next_runs_are_shown(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW late REFRESH AUTO ON SCHEDULE EVERY 1 DAY STARTS '2090-01-31 04:00:00' "
        "AS SELECT a FROM t"
    )
    found = json_status(base)
    (view,) = (each for each in found["views"] if each["name"] == "late")
    (run,) = found["next"]
    assert run["name"] == "late"
    assert view["next_refresh_time"] == run["next_refresh_time"]
    assert run["next_refresh_time"].startswith("2090-01-31T04:00:00")
    shown = status(base.gateway.url, "--database", base.name).stdout
    assert re.search(r"\.late .* 2090-01-31 04:00:00$", shown, re.MULTILINE)
    base.run("PAUSE MATERIALIZED VIEW JOB ON late")
    paused = json_status(base)
    assert [each["next_refresh_time"] for each in paused["views"] if each["name"] == "late"] == [None]
    assert paused["next"] == []


def test_times_do_not_depend_on_the_sessions_time_zone(unchanged: Database) -> None:
    """Spark shows TIMESTAMPs in the session's time zone, which its configuration may set."""
    (expected,) = rows(
        unchanged.cursor,
        "SELECT unix_millis(last_refresh_time) FROM freshgate.materialized_views "
        f"WHERE database_name = '{unchanged.name}' AND name = 'm'",
    )
    stamp = json_status(unchanged)["views"][0]["last_refresh_time"]
    (shown,) = rows(unchanged.cursor, f"SELECT unix_millis(TIMESTAMP'{stamp}')")
    assert shown == expected


def test_a_running_refresh_is_shown(database: Database) -> None:
    slow = "SELECT max(s) AS slept FROM (SELECT nap('java.lang.Thread', 'sleep', bigint(a)) AS s FROM t)"
    database.run(NAP, "CREATE TABLE t (a INT) USING parquet", f"CREATE MATERIALIZED VIEW m WHEN STALE SERVE AS {slow}")
    assert json_status(database)["tasks"] == []
    database.run(f"INSERT INTO t VALUES ({NAP_MS})")
    with pyhive(database.gateway.host, database.gateway.port, database=database.name) as cursor:
        cursor.execute("REFRESH MATERIALIZED VIEW m", async_=True)
        wait_until(lambda: json_status(database)["tasks"], what="the task")
        (task,) = json_status(database)["tasks"]
        assert (task["database"], task["view"], task["status"]) == (database.name, "m", "RUNNING")
        assert (task["user"], task["trigger"]) == ("tester", "MANUAL")
        assert (task["partitions_done"], task["partitions_needed"], task["percent"]) == (0, 1, 0.0)
        assert 0 <= task["elapsed_seconds"] < NAP_MS / 1000
        assert json_status(database)["views"][0]["is_refreshing"] is True
        done = status(database.gateway.url, "--database", database.name)
        assert "Tasks: 1 running, 0 waiting." in done.stdout
        assert re.search(
            rf"^{database.name}\.m +RUNNING +\[.{{10}}\] 0% +0 of 1 .* tester \(MANUAL\)", done.stdout, re.M
        )
        cursor.cancel()
    wait_until(lambda: json_status(database)["tasks"] == [], what="the end of the refresh")


@pytest.mark.thorough
def test_a_damaged_view_is_shown(base: Database, direct: Any) -> None:
    storage = base.gateway.storage
    for name in (row[1] for row in rows(direct, f"SHOW TABLES IN {storage} LIKE '{base.name}__m__*'")):
        rows(direct, f"DROP {'VIEW' if name.endswith('__definition') else 'TABLE'} {storage}.{name}")
    base.run("INSERT INTO t VALUES (2)")
    with pytest.raises(OperationalError):
        base.rows("SELECT * FROM m")
    assert base.freshness("m") == "DAMAGED"
    done = status(base.gateway.url, "--database", base.name, columns=200)
    assert "2 materialized views: 1 STALE, 1 DAMAGED." in done.stdout
    assert re.search(rf"^DAMAGED +{base.name}\.m +- +its storage table was dropped", done.stdout, re.M)
    assert re.search(rf"^{base.name}\.m +DAMAGED +- +- ", done.stdout, re.M)
    assert [view["freshness"] for view in json_status(base)["views"]] == ["DAMAGED", "STALE"]


@pytest.mark.parametrize(
    "suffix", sampled([";auth=noSasl", ";user=ada;password=any", "?x=y#z"], {";user=ada;password=any"})
)
def test_url_parameters_are_accepted(unchanged: Database, suffix: str) -> None:
    url = unchanged.gateway.url.removesuffix("/default") + f"/{unchanged.name}{suffix}"
    done = status(url, "--json", "--user", "bob")
    assert (done.returncode, done.stderr) == (0, "")
    assert {"m", "served"} <= {view["name"] for view in json.loads(done.stdout)["views"]}


def test_sessions_over_http_are_closed(start_gateway: Any, tmp_path: Path) -> None:
    """A session over HTTP does not end with its connection, so it must be closed, even if its database is missing."""
    audit = tmp_path / "audit.jsonl"
    gateway = start_gateway(**{"listen.http_port": 0, "log.audit": audit})
    url = f"jdbc:hive2://127.0.0.1:{gateway.http_port}"
    found = status(f"{url}/default;transportMode=http", "--json", "--user", "finds")
    assert (found.returncode, found.stderr) == (0, "")
    missing = status(f"{url}/nowhere;transportMode=http", "--user", "misses")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "SCHEMA_NOT_FOUND" in missing.stderr

    def ended() -> dict[str, str]:
        lines = [json.loads(line) for line in audit.read_text(encoding="utf-8").splitlines()]
        return {line["user"]: line["outcome"] for line in lines if line["event"] == "session_end"}

    wait_until(lambda: len(ended()) == 2, what="both sessions to end")
    assert ended() == {"finds": "closed", "misses": "closed"}


def test_an_unreachable_gateway_is_reported() -> None:
    with socket.socket() as taken:
        # The port is bound, but nothing listens.
        taken.bind(("127.0.0.1", 0))
        url = f"jdbc:hive2://127.0.0.1:{taken.getsockname()[1]}"
        for arguments in ((), ("--watch",), ("--json",)):
            done = status(url, *arguments)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"freshgate: Cannot reach a gateway at {url}/default: Connection refused. ")
            assert "freshgate serve" in done.stderr
            assert done.stderr.count("\n") == 1


def test_a_server_that_is_not_a_gateway_and_a_missing_database_are_reported(engine: Engine, gateway: Gateway) -> None:
    spark = status(engine.url)
    assert spark.returncode == 1
    assert f"{engine.url} is not a Freshgate gateway" in spark.stderr
    missing = status(gateway.url.replace("/default", "/no%20such"))
    assert missing.returncode == 1
    assert "SCHEMA_NOT_FOUND" in missing.stderr
    unknown = status(gateway.url, "--database", "no such")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert f"{gateway.url} has no database 'no such'. Choose another with --database." in unknown.stderr


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Cannot reach a gateway at {url}: it closed the connection. "),
        (b"", "Cannot reach a gateway at {url}: it closed the connection. "),
        (b"\x05\x00\x00\x00\x00" * 3, "Cannot reach a gateway at {url}: "),
        (b"\x03\x00\x00\x00\x08it's bad", "{url} refused the login: it's bad. Check --user, "),
        (b"\x03\x00\x00\x00\x03no.", "{url} refused the login: no. Check --user, "),
        (b"\x04\x00\x00\x00\x00", "{url} refused the login: it gave no reason. Check --user, "),
    ],
)
def test_invalid_replies_and_refused_logins_are_reported(answer: bytes, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"jdbc:hive2://127.0.0.1:{server.getsockname()[1]}/default"
        with subprocess.Popen(command(url), stderr=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as program:
            peer, _ = server.accept()
            with peer:
                peer.sendall(answer)
                peer.shutdown(socket.SHUT_WR)
                # Unread bytes would reset the connection.
                while peer.recv(1000):
                    pass
            _, shown = program.communicate(timeout=60)
    assert program.returncode == 1
    assert shown.startswith(f"freshgate: {message.format(url=url)}")
    assert shown.count("\n") == 1


# --- watching ------------------------------------------------------------------------------------------


def test_ctrl_c_ends_watching_with_exit_code_0(unchanged: Database) -> None:
    with watching(unchanged.gateway.url, "--database", unchanged.name) as program:
        blocks = [program.line() for _ in range(30)]
        assert [line for line in blocks if line.startswith("jdbc:hive2://")][1:]
        assert [line for line in blocks if line.startswith(f"{unchanged.name}.m ")][1:]
        assert program.stop(signal.SIGINT) == 0


def test_watching_prints_one_json_object_per_line(base: Database) -> None:
    with watching(base.gateway.url, "--database", base.name, "--json") as program:
        assert [view["name"] for view in json.loads(program.line())["views"]] == ["m", "served"]
        base.run("DROP MATERIALIZED VIEW served")
        wait_until(lambda: len(json.loads(program.line())["views"]) == 1, what="the view to be gone")
        assert program.stop(signal.SIGINT) == 0


@pytest.fixture
def proxy(gateway: Gateway) -> Iterator[FaultProxy]:
    """A proxy between the program and the gateway that counts statements by the relation that they read."""

    def relation(sql: str) -> str | None:
        found = re.search(r"FROM (\w+)", sql)
        return found and found[1]

    running = FaultProxy(gateway.host, gateway.port, relation)
    yield running
    running.close()


@pytest.mark.thorough
def test_an_update_takes_a_few_statements(base: Database, proxy: FaultProxy) -> None:
    for number in range(3):
        base.run(f"CREATE MATERIALIZED VIEW more{number} AS SELECT a FROM t")
    with watching(f"jdbc:hive2://{proxy.address}/", "--database", base.name, "--json") as program:
        assert len(json.loads(program.line())["views"]) == 5
        assert proxy.counts["freshgate"] <= TABLES_READ
        before = proxy.counts.copy()
        for _ in range(5):
            program.line()
        after = proxy.counts - before
        assert after["tasks"] >= 4
        assert set(after) == {"freshgate", "tasks"}
        assert (after["tasks"] - 1) * TABLES_READ <= after["freshgate"] <= (after["tasks"] + 1) * TABLES_READ
        assert program.stop(signal.SIGINT) == 0


def test_watching_continues_after_the_gateway_was_unreachable(
    unchanged: Database, proxy: FaultProxy, tmp_path: Path
) -> None:
    errors = tmp_path / "errors"

    def reported() -> int:
        return errors.read_text(encoding="utf-8").count(" Trying again every 0.1 s.\n")

    url = f"jdbc:hive2://{proxy.address}/"
    with watching(url, "--database", unchanged.name, "--json", stderr=errors) as program, socket.socket() as dead:
        assert len(json.loads(program.line())["views"]) == 2
        dead.bind(("127.0.0.1", 0))
        proxy.port = dead.getsockname()[1]
        proxy.plan({("tasks", 1): Fault.CUT})
        wait_until(lambda: reported() >= 3, what="the reports")
        assert f"Cannot reach a gateway at {url}default" in errors.read_text(encoding="utf-8")
        proxy.port = unchanged.gateway.port
        before = proxy.counts["tasks"]
        wait_until(lambda: program.line() and proxy.counts["tasks"] > before + 2, what="further updates")
        assert program.stop(signal.SIGINT) == 0


def test_a_closed_pipe_is_not_an_error(gateway: Gateway) -> None:
    program = subprocess.Popen(
        command(gateway.url, "--watch", "0.1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("jdbc:hive2://")
        program.stdout.close()
        assert program.wait(60) == 0
        assert program.stderr is not None
        assert program.stderr.read() == ""
