"""Tests a gateway over two Thrift Servers with one metastore, whose sessions cache what files a table has."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from end_to_end.test_several_gateways import SECRET, counted, read
from metastore import at_metastore, running_metastore
from processes import Engine, Gateway, free_port, wait_until
from pyhive.exc import OperationalError
from TCLIService import ttypes

pytestmark = pytest.mark.thorough

TAKEOVER_SECONDS = 60.0
"""Most of it is a busy machine's, whose other Spark has not run a statement yet."""
CACHES = {
    "spark.sql.filesourceTableRelationCacheSize": "1000",
    "spark.sql.hive.filesourcePartitionFileCacheSize": "262144000",
}


@dataclass
class Sparks:
    """Two Thrift Servers."""

    home: Path
    settings: dict[str, str]
    engines: list[Engine]

    @property
    def address(self) -> str:
        return ",".join(f"{each.host}:{each.port}" for each in self.engines)

    def start(self, name: str) -> Engine:
        return Engine(self.home / name, spark=self.settings)


@pytest.fixture
def sparks(spark_server: None, tmp_path: Path) -> Iterator[Sparks]:
    with contextlib.ExitStack() as stack:
        (tmp_path / "metastore").mkdir()
        _, port = stack.enter_context(running_metastore(tmp_path / "metastore"))
        settings = {**at_metastore(port), **CACHES, "spark.driver.memory": "900m", "spark.sql.shuffle.partitions": "2"}
        # Otherwise several gateways refuse to run.
        settings["spark.hadoop.datanucleus.cache.level2"] = "false"
        settings["spark.sql.warehouse.dir"] = (tmp_path / "warehouse").as_uri()
        sparks = Sparks(tmp_path, settings, [])
        with ThreadPoolExecutor() as pool:
            for engine in pool.map(sparks.start, ("one", "other")):
                stack.callback(engine.stop)
                sparks.engines.append(engine)
        yield sparks


@contextlib.contextmanager
def gateway_over(sparks: Sparks, **settings: Any) -> Iterator[Gateway]:
    gateway = Gateway(
        sparks.home / "gateway.log", upstream=sparks.address, settings={"staleness.probe_interval": 0, **settings}
    )
    try:
        yield gateway
    finally:
        gateway.stop()


def server_of(cursor: Any) -> str:
    return str(rows(cursor, "SET spark.app.id")[0][1])


def test_clients_of_two_servers_see_each_others_writes_through_views(sparks: Sparks) -> None:
    with contextlib.ExitStack() as stack:
        gateway = stack.enter_context(gateway_over(sparks, **{"upstream.share": "true"}))
        log = gateway.log
        wait_until(lambda: "is up" in log.read_text(encoding="utf-8"), TAKEOVER_SECONDS, "the other server")
        people = [stack.enter_context(pyhive(gateway.host, gateway.port)) for _ in range(4)]
        servers = [server_of(each) for each in people]
        assert sorted(servers.count(each) for each in set(servers)) == [2, 2]
        here = people[0]
        there = next(each for each, server in zip(people, servers, strict=True) if server != servers[0])
        rows(here, "CREATE DATABASE shared")
        rows(here, "CREATE TABLE shared.t (a INT, g STRING) USING parquet PARTITIONED BY (g)")
        rows(here, "CREATE MATERIALIZED VIEW shared.m PARTITION BY (g) AS SELECT sum(a) s, g FROM shared.t GROUP BY g")
        total = 0
        for amount in range(1, 7):
            writer, reader = (here, there) if amount % 2 else (there, here)
            # Both sessions know the table's files, and the view's, from before.
            rows(reader, "SELECT * FROM shared.t")
            rows(writer, f"INSERT INTO shared.t VALUES ({amount}, 'x')")
            total += amount
            assert rows(reader, "SELECT s FROM shared.m WHERE g = 'x'") == [(total,)]
            assert rows(writer, "SELECT s FROM shared.m") == [(total,)]

        for text in ("CACHE TABLE shared.t", "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1"):
            with pytest.raises(OperationalError, match=r"upstream\.share"):
                rows(there, text)

        # As Hue does: a session over a connection that has a session of its own at the other server.
        client, handle = there._connection._client, here._connection._sessionHandle
        for run_async in (True, False):
            run = client.ExecuteStatement(ttypes.TExecuteStatementReq(handle, "SELECT s FROM shared.m", {}, run_async))
            operation = run.operationHandle
            wait_until(partial(finished, client, operation), TAKEOVER_SECONDS, "the statement")
            page = client.FetchResults(ttypes.TFetchResultsReq(operation, 0, 10))
            assert page.results.columns[0].i64Val.values == [total]
            assert client.CloseOperation(ttypes.TCloseOperationReq(operation)).status.statusCode == 0
        assert rows(there, "SELECT s FROM shared.m") == [(total,)]


def finished(client: Any, operation: Any) -> bool:
    status = client.GetOperationStatus(ttypes.TGetOperationStatusReq(operation))
    return bool(status.operationState == ttypes.TOperationState.FINISHED_STATE)


@pytest.mark.parametrize("share", ["false", "true"])
def test_a_server_killed_under_load_loses_no_row(sparks: Sparks, share: str) -> None:
    with gateway_over(sparks, **{"upstream.share": share}) as gateway, counted([gateway], seed=5) as tokens:
        tokens.go_on(120)
        tokens.note("killing the home")
        sparks.engines[0].kill()
        wait_until(lambda: read(gateway, "SELECT 1") == [(1,)], TAKEOVER_SECONDS, "the other server")
        tokens.go_on(120)
        log = gateway.log.read_text(encoding="utf-8")
        assert f"Spark at {sparks.engines[1].host}:{sparks.engines[1].port} takes the place of" in log


@contextlib.contextmanager
def gateways_over(sparks: Sparks, names: Sequence[str], **settings: Any) -> Iterator[list[Gateway]]:
    """Gateways of which the first one leads."""
    with contextlib.ExitStack() as stack:
        found = []
        for name in names:
            several: dict[str, Any] = {
                "storage.database": "freshgate_storage",
                "gateways.enabled": "true",
                "gateways.address": f"127.0.0.1:{free_port()}",
                "gateways.secret": SECRET,
                "staleness.probe_interval": 0,
            }
            gateway = Gateway(sparks.home / f"{name}.log", upstream=sparks.address, settings={**several, **settings})
            stack.callback(gateway.stop)
            found.append(gateway)
        yield found


@pytest.mark.parametrize("share", ["false", "true"])
@pytest.mark.parametrize("order", ["spark, then leader", "leader, then spark", "both at once"])
def test_servers_and_gateways_are_lost_under_load_and_no_row_is(sparks: Sparks, order: str, share: str) -> None:
    with gateways_over(sparks, ("one", "two"), **{"upstream.share": share}) as gateways:
        leader, door = gateways
        if share == "true":
            log = leader.log
            wait_until(lambda: "is up" in log.read_text(encoding="utf-8"), TAKEOVER_SECONDS, "the other server")
        with counted(gateways, seed=7) as tokens:
            tokens.go_on(120)
            for step in order.split(", then "):
                tokens.note(f"killing {step}")
                if step != "spark":
                    gateways.remove(leader)
                    leader.kill()
                if step != "leader":
                    sparks.engines[0].kill()
                began = time.monotonic()
                wait_until(lambda: read(door, "SELECT 1") == [(1,)], TAKEOVER_SECONDS, "a read through the door")
                tokens.note(f"served after {time.monotonic() - began:.1f} s")
                tokens.go_on(120)
