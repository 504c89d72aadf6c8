"""Sessions of Hive's newer JDBC drivers over HTTP go on at another gateway when their leader has gone. (Spark's own
driver does so in tests/end_to_end/test_several_gateways.py.)"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from clients import told_to_repeat
from drivers.hive_jdbc import VERSIONS, connected, texts
from processes import Gateway, free_port

StartGateway = Callable[..., Gateway]
pytestmark = pytest.mark.thorough


def member(start: StartGateway) -> Gateway:
    settings = {"listen.http_port": 0, "gateways.enabled": "true", "gateways.secret": "0123456789abcdef" * 2}
    return start(**settings, **{"gateways.address": f"127.0.0.1:{free_port()}"})


def asked(connection: Any, sql: str) -> list[tuple[str | None, ...]]:
    statement = connection.createStatement()
    try:
        return texts(statement.getResultSet()) if statement.execute(sql) else []
    finally:
        statement.close()


@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_hive_jdbc_over_http_outlives_its_leader(
    start_gateway: StartGateway, version: str, ended: signal.Signals
) -> None:
    """Sessions of clients of the door that takes over, and of another door."""
    leader, door, third = (member(start_gateway) for _ in range(3))
    url = "jdbc:hive2://127.0.0.1:{}/default;transportMode=http;httpPath=cliservice"
    database = f"moving_{version.replace('.', '_')}_{ended.name.lower()}"
    with (
        connected(version, url.format(door.http_port)) as here,
        connected(version, url.format(third.http_port)) as there,
    ):
        asked(here, f"CREATE DATABASE {database}")
        for each in (here, there):
            for sql in (f"USE {database}", "SET spark.sql.shuffle.partitions = 7", "SET freshgate.rewrite = off"):
                asked(each, sql)
            asked(each, "CREATE TEMPORARY VIEW mine AS SELECT 42 AS x")
        asked(here, "CREATE TABLE sales (amount INT)")
        asked(here, "INSERT INTO sales VALUES (1)")
        asked(here, "CREATE MATERIALIZED VIEW totals AS SELECT sum(amount) AS total FROM sales")
        leader.program.stop(ended)
        for each in (here, there):
            assert told_to_repeat(partial(asked, each, "SELECT x FROM mine")) == [("42",)]
            assert asked(each, "SELECT current_database()") == [(database,)]
            assert asked(each, "SET spark.sql.shuffle.partitions") == [("spark.sql.shuffle.partitions", "7")]
            assert asked(each, "SET freshgate.rewrite") == [("freshgate.rewrite", "off")]
        asked(here, "INSERT INTO sales VALUES (2)")
        assert asked(there, "SELECT * FROM totals") == [("3",)]
        asked(there, "DROP MATERIALIZED VIEW totals")
        asked(here, f"DROP DATABASE {database} CASCADE")
