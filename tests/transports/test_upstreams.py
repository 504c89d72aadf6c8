"""Tests the gateway in front of Thrift servers with various transports and authentication methods."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Certificates
from clients import Jdbc, beeline, pyhive, rows
from passwords import PASSWORDS, logins_of
from processes import Gateway, Setting, ThriftServers
from slapd import PASSWORDS as IN_DIRECTORY
from tiers import sampled

from gateway.login.authenticator import REFUSAL_SECONDS

_numbers = itertools.count(1)
_VARIABLES = {
    "nosasl": ";auth=noSasl",
    "http": ";transportMode=http",
    "http_strict": ";transportMode=http",
    "https": ";transportMode=http;ssl=true",
    "tls": ";ssl=true",
}


def url_of(servers: ThriftServers, kind: str) -> str:
    """The JDBC URL of a server."""
    return f"jdbc:hive2://localhost:{servers.ports[kind]}/{_VARIABLES.get(kind, '')}"


@pytest.fixture(params=sampled(("sasl", "nosasl", "http", "https", "tls"), {"https"}))
def before(
    request: pytest.FixtureRequest, thrift_servers: ThriftServers, certificates: Certificates, tmp_path: Path
) -> Iterator[Gateway]:
    """A gateway in front of a server of each kind."""
    kind: str = request.param
    settings: dict[str, Setting] = {
        "listen.http_port": 0,
        "storage.database": f"storage_{next(_numbers)}",
    }
    if kind in ("https", "tls"):
        settings["upstream.tls_ca"] = certificates.ca
    upstream = url_of(thrift_servers, kind)
    running = Gateway(tmp_path / "gateway.log", upstream=upstream, settings=settings)
    yield running
    running.stop()


def test_a_view_is_created_refreshed_read_and_dropped(before: Gateway) -> None:
    number = next(_numbers)
    with pyhive(before.host, before.port) as cursor:
        rows(cursor, f"CREATE TABLE sales_{number} (day INT, amount INT) USING parquet")
        rows(cursor, f"INSERT INTO sales_{number} VALUES (1, 10), (1, 5), (2, 7)")
        query = f"SELECT day, sum(amount) AS total FROM sales_{number} GROUP BY day"
        rows(cursor, f"CREATE MATERIALIZED VIEW daily_{number} AS {query}")
        assert sorted(rows(cursor, f"SELECT * FROM daily_{number}")) == [(1, 15), (2, 7)]
        rows(cursor, f"INSERT INTO sales_{number} VALUES (2, 1)")
        assert sorted(rows(cursor, f"SELECT * FROM daily_{number}")) == [(1, 15), (2, 8)]
        assert rows(cursor, "SELECT current_user()") == [("tester",)]
        cursor.execute("SELECT id, repeat('x', 1000) FROM range(20000)")
        assert sum(len(row[1]) for row in cursor) == 20_000_000
    shown = beeline(before.url, f"SELECT total FROM daily_{number} ORDER BY day;")
    assert shown.stdout.split() == ["total", "15", "8"]
    with pyhive(before.host, before.port) as cursor:
        rows(cursor, f"DROP MATERIALIZED VIEW daily_{number}")


def test_a_client_may_use_http(before: Gateway) -> None:
    number = next(_numbers)
    with Jdbc(f"jdbc:hive2://{before.host}:{before.http_port}/default;transportMode=http;httpPath=cliservice") as jdbc:
        jdbc.execute(f"CREATE TABLE over_{number} (a INT) USING parquet")
        jdbc.execute(f"CREATE MATERIALIZED VIEW of_{number} AS SELECT sum(a) AS s FROM over_{number}")
        jdbc.execute(f"INSERT INTO over_{number} VALUES (1), (2)")
        assert jdbc.query(f"SELECT s FROM of_{number}")[1] == [(3,)]
        assert jdbc.query("SELECT current_user()")[1] == [("tester",)]
        assert len(jdbc.query("SELECT id, repeat('x', 1000) FROM range(5000)")[1]) == 5000
        jdbc.execute(f"DROP MATERIALIZED VIEW of_{number}")


def test_a_client_gets_the_error_of_spark(before: Gateway) -> None:
    with pyhive(before.host, before.port) as cursor, pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        rows(cursor, "SELECT * FROM nowhere")


@pytest.mark.parametrize("hand_on", ["replay", "proxy_user"])
@pytest.mark.parametrize("kind", sampled(["nosasl", "http"], {"http"}))
def test_spark_runs_statements_as_the_clients_user(
    thrift_servers: ThriftServers, tmp_path: Path, kind: str, hand_on: str
) -> None:
    settings: dict[str, Setting] = {
        "listen.http_port": 0,
        "storage.database": f"storage_{next(_numbers)}",
        "authentication.hand_on": hand_on,
        "upstream.user": "svc",
        "upstream.password": "svc's secret",
        **logins_of(tmp_path / "users"),
    }
    before = Gateway(tmp_path / "gateway.log", upstream=url_of(thrift_servers, kind), settings=settings)
    try:
        over_http = f"jdbc:hive2://{before.host}:{before.http_port}/default;transportMode=http;httpPath=cliservice"
        with (
            pyhive(before.host, before.port, "ada", auth="CUSTOM", password=PASSWORDS["ada"]) as ada,
            Jdbc(over_http, "eve", PASSWORDS["eve"]) as eve,
        ):
            for _ in range(2):
                assert rows(ada, "SELECT current_user()") == [("ada",)]
                assert eve.query("SELECT current_user()")[1] == [("eve",)]
    finally:
        before.stop()


def test_passwords_are_checked_by_spark_over_http(thrift_servers: ThriftServers, tmp_path: Path) -> None:
    """The gateway does not check passwords. Refusals by Spark are delayed, with every transport of the client."""
    settings: dict[str, Setting] = {
        "listen.http_port": 0,
        "upstream.user": "svc",
        "upstream.password": IN_DIRECTORY["svc"],
        "storage.database": f"storage_{next(_numbers)}",
    }
    before = Gateway(tmp_path / "gateway.log", upstream=url_of(thrift_servers, "http_strict"), settings=settings)
    over_http = f"jdbc:hive2://{before.host}:{before.http_port}/default;transportMode=http;httpPath=cliservice"
    try:
        with (
            pyhive(before.host, before.port, "ada", auth="LDAP", password=IN_DIRECTORY["ada"]) as ada,
            Jdbc(over_http, "eve", IN_DIRECTORY["eve"]) as eve,
        ):
            assert rows(ada, "SELECT current_user()") == [("ada",)]
            assert eve.query("SELECT current_user()")[1] == [("eve",)]
        began = time.monotonic()
        with pytest.raises(Exception, match=r"refused|Error validating"), Jdbc(before.url, "ada", "wrong"):
            pass
        with pytest.raises(Exception, match="401"), Jdbc(over_http, "ada", "wrong"):
            pass
        assert time.monotonic() - began >= 2 * REFUSAL_SECONDS
        log = before.log.read_text(encoding="utf-8")
        # Hive JDBC tries twice over HTTP.
        assert log.count("WARNING gateway.login.refusal_log: login of 'ada' from 127.0.0.1") >= 2
        assert "wrong" not in log
    finally:
        before.stop()
