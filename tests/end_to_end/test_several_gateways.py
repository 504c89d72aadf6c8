"""Tests two gateways over one Spark: one leads, the other passes its clients on, and takes over when it has gone."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from certificates import Certificates
from clients import pyhive, rows, unclosed
from processes import Gateway, free_port, wait_until
from pyhive.exc import OperationalError
from thrift.transport.TTransport import TTransportException

TAKEOVER_SECONDS = 20.0
"""A killed process is noticed at once; most of this is a busy machine's."""
SECRET = "0123456789abcdef" * 2


class Pair:
    """Gateways with the settings of several."""

    def __init__(self, start: Callable[..., Gateway], directory: Path, certificates: Certificates) -> None:
        self._start = start
        self._directory = directory
        self._certificates = certificates

    def gateway(self, name: str, **settings: Any) -> Gateway:
        return self._start(
            **{
                "gateways.enabled": "true",
                "gateways.address": f"127.0.0.1:{free_port()}",
                "gateways.secret": SECRET,
                "gateways.tls_ca": self._certificates.ca,
                "tls.certificate": self._certificates.server,
                "tls.ports": "http",
                "log.audit": self.audit(name),
                **settings,
            }
        )

    def audit(self, name: str) -> Path:
        return self._directory / f"{name}.jsonl"

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self.audit(name)
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@pytest.fixture
def pair(start_gateway: Callable[..., Gateway], tmp_path: Path, certificates: Certificates) -> Pair:
    return Pair(start_gateway, tmp_path, certificates)


def read(gateway: Gateway, sql: str) -> list[tuple[Any, ...]] | None:
    """The rows for a new client; None if it is not served."""
    try:
        with unclosed(gateway) as cursor:
            return sorted(rows(cursor, sql))
    except (OperationalError, TTransportException, OSError):
        return None


def probe(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_door_passes_clients_on_and_takes_over(pair: Pair) -> None:
    metrics = free_port()
    leader, door = pair.gateway("leader"), pair.gateway("door", **{"metrics.port": metrics})
    with pyhive(leader.host, leader.port) as here, pyhive(door.host, door.port, user="ada") as there:
        rows(here, "CREATE DATABASE several")
        rows(here, "CREATE TABLE several.sales (region STRING, amount INT)")
        rows(here, "INSERT INTO several.sales VALUES ('north', 1)")
        rows(
            there, "CREATE MATERIALIZED VIEW several.totals AS SELECT region, sum(amount) FROM several.sales GROUP BY 1"
        )
        for amount in range(2, 5):
            writer, reader = (here, there) if amount % 2 else (there, here)
            rows(writer, f"INSERT INTO several.sales VALUES ('north', {amount})")
            assert rows(reader, "SELECT * FROM several.totals") == [("north", sum(range(amount + 1)))]
        handle = there._connection._transport._trans.handle
        ours = [line for line in pair.lines("leader") if line.get("user") == "ada"]
        assert {line["client"] for line in ours} == {":".join(map(str, handle.getsockname()))}
        assert pair.lines("door") == []
        assert probe(metrics, "/readyz")[0] == 200
        assert "passes its clients on" in probe(metrics, "/metrics")[1]

    leader.kill()
    expected = [("north", 10)]
    wait_until(lambda: read(door, "SELECT * FROM several.totals") == expected, TAKEOVER_SECONDS, "the takeover")
    assert pair.lines("door")
    assert "freshgate_" in probe(metrics, "/metrics")[1]

    back = pair.gateway("back")
    with pyhive(back.host, back.port) as here, pyhive(door.host, door.port) as there:
        rows(here, "INSERT INTO several.sales VALUES ('south', 5)")
        assert sorted(rows(there, "SELECT * FROM several.totals")) == [("north", 10), ("south", 5)]
    assert pair.lines("back") == []

    assert door.stop() == 0
    expected.append(("south", 5))
    wait_until(lambda: read(back, "SELECT * FROM several.totals") == expected, TAKEOVER_SECONDS, "the handover")
    with pyhive(back.host, back.port, user="ada") as cursor:
        rows(cursor, "DROP MATERIALIZED VIEW several.totals")
        rows(cursor, "DROP DATABASE several CASCADE")


def test_a_gateway_with_another_secret_leaves_the_leader_alone(pair: Pair) -> None:
    leader = pair.gateway("leader")
    other = pair.gateway("other", **{"gateways.secret": "f" * 32, "gateways.wait_seconds": 0})
    assert read(other, "SELECT 1") is None
    assert read(leader, "SELECT 1") == [(1,)]
    assert pair.lines("other") == []
