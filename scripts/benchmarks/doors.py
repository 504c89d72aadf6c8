"""Measures several gateways: what the leader and a door cost beside HAProxy, and how long takeovers take."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from clients import rows, unclosed
from drivers.hive_jdbc import VERSIONS, connected
from processes import Gateway, free_port, wait_until
from pyhive.exc import OperationalError
from thrift.transport.TTransport import TTransportException
from zookeeper_server import ZooKeeperServer

from benchmarks.fetch import PAGE_ROWS, ROW
from benchmarks.figures import Figure, in_turn
from benchmarks.haproxy import haproxy
from benchmarks.stand import Stand
from benchmarks.transports import HERE, MANY, SHORT, connect, queries

ROWS = 10_000
TIMES = 5
"""Takeovers of each kind."""
LONGEST_SECONDS = 120.0

Loss = Callable[[Gateway], object]


def figures(stand: Stand) -> Iterator[Figure]:
    yield from _passed_on(stand)
    yield _takeovers(stand, "killed process", Gateway.kill, 6)
    yield _takeovers(stand, "SIGTERM", Gateway.stop, None)
    yield _takeovers(stand, "hanging process, without ZooKeeper", _pause, 25)
    folder = stand.directory / "zookeeper"
    folder.mkdir()
    zookeeper = ZooKeeperServer(folder)
    try:
        settings = {"discovery.zookeeper": zookeeper.address}
        yield _takeovers(stand, "hanging process, with ZooKeeper", _pause, 10, **settings)
    finally:
        zookeeper.stop()


def _passed_on(stand: Stand) -> Iterator[Figure]:
    """In all but the last figures, both ways end at the same leader."""
    version = VERSIONS[1]
    directory = stand.directory / "doors"
    directory.mkdir()
    with several(stand, "passed") as (leader, door), haproxy(directory, leader.port) as port:
        urls = {"the leader": leader.url, "a door": door.url, "HAProxy": f"{HERE}:{port}/default"}
        for name in ("a door", "HAProxy"):
            yield from _compared(stand, version, f"{name} before the leader", urls["the leader"], urls[name])
        yield from _compared(stand, version, "a door instead of HAProxy", urls["HAProxy"], urls["a door"])
        yield from _compared(stand, version, "a leader instead of a single gateway", stand.gateway.url, leader.url)


def _compared(stand: Stand, version: str, name: str, one: str, other: str) -> Iterator[Figure]:
    turns = in_turn(connect(version, one), connect(version, other), stand.runs(SHORT), warm_up=10)
    yield turns.ratio("doors", f"connect, {name}", None)
    with connected(version, one) as here, connected(version, other) as there:
        turns = in_turn(*queries((here, there), "SELECT 1", 1, 1), stand.runs(5 * SHORT), warm_up=20)
        yield turns.ratio("doors", f"SELECT 1, {name}", None)
        many = queries((here, there), f"SELECT {ROW} FROM range({ROWS})", ROWS, PAGE_ROWS)
        yield in_turn(*many, stand.runs(10 * MANY), warm_up=3).ratio("doors", f"{ROWS:,} rows, {name}", None)


@contextlib.contextmanager
def several(stand: Stand, name: str, **settings: object) -> Iterator[tuple[Gateway, Gateway]]:
    """A leader and a door over the stand's Spark, with a storage database of their own."""
    common: dict[str, Any] = {
        "gateways.enabled": "true",
        "gateways.secret": secrets.token_hex(16),
        "storage.database": f"storage_{secrets.token_hex(4)}",
        "result_cache.bytes": 0,
        "limits.drain_seconds": 1,
        # A client waits for the next leader, instead of trying again.
        "gateways.wait_seconds": LONGEST_SECONDS,
        **settings,
    }
    with contextlib.ExitStack() as stack:
        gateways = []
        for number in range(2):
            address = {"gateways.address": f"127.0.0.1:{free_port()}"}
            upstream = f"{stand.engine.host}:{stand.engine.port}"
            log = stand.directory / f"{name}-{number}.log"
            gateway = Gateway(log, upstream=upstream, settings={**common, **address})
            stack.callback(gateway.kill)
            wait_until(partial(serves, gateway), LONGEST_SECONDS, "the gateway")
            gateways.append(gateway)
        leader, door = gateways
        yield leader, door


def _takeovers(stand: Stand, what: str, lose: Loss, limit: float | None, **settings: object) -> Figure:
    """From the loss of the leader until a new client of the door has an answer."""
    taken = []
    for number in range(stand.runs(TIMES)):
        with several(stand, f"{what}-{number}", **settings) as (leader, door):
            began = time.monotonic()
            lose(leader)
            wait_until(partial(serves, door), LONGEST_SECONDS, "the takeover")
            taken.append(time.monotonic() - began)
    shown = f"{min(taken):.1f} .. {max(taken):.1f} s"
    return Figure("takeover", what, statistics.median(taken), "s", limit, "", shown, len(taken))


def _pause(gateway: Gateway) -> None:
    os.kill(gateway.pid, signal.SIGSTOP)


def serves(gateway: Gateway) -> bool:
    """Whether a new client is answered."""
    try:
        with unclosed(gateway) as cursor:
            return rows(cursor, "SELECT 1") == [(1,)]
    except (OperationalError, TTransportException, OSError):
        return False
