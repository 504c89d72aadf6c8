"""Measures every driver and transport: connecting, short queries, many rows and wide rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jpype
from certificates import PASSWORD, Certificates, make_certificates
from clients import pyhive, rows
from drivers.hive_jdbc import VERSIONS, connected
from processes import Gateway, ThriftServers

from benchmarks.fetch import PAGE_ROWS, ROW, loop
from benchmarks.figures import Figure, Work, in_turn
from benchmarks.haproxy import haproxy
from benchmarks.stand import Stand

ABOVE_RELAY = 0.03
LIMIT = 1.05
CONNECTS = 15
WARM_UP = 20
"""The driver's first connections take three times as long."""
SHORT = 60
MANY = 3
WIDE_PAIRS = 25
"""Every few pairs, Java collects 100 MB of garbage, on either side."""
WIDE_ROWS = 100
HERE = "jdbc:hive2://127.0.0.1"
HTTP = ";transportMode=http;httpPath=cliservice"
Server = tuple[str, int]
"""Host and port."""
WIDE = f"SELECT id, repeat('x', 1000000) AS wide FROM range({WIDE_ROWS})"


@dataclass(frozen=True, slots=True)
class Way:
    """How a client connects, to Spark and to the gateway alike."""

    name: str
    direct: str
    through: str
    """Both are JDBC URLs."""


def drivers(stand: Stand) -> Iterator[Figure]:
    """The versions of Hive's driver, and PyHive, over the plain binary transport."""
    for version in VERSIONS:
        yield from _measured(stand, f"JDBC {version}", version, stand.engine.url, stand.gateway.url)
    engine, gateway = stand.engine, stand.gateway
    yield from _pyhive(stand, "PyHive", (engine.host, engine.port), (gateway.host, gateway.port))


def transports(stand: Stand) -> Iterator[Figure]:
    """HTTP and TLS, against a Spark with the same transport: the gateway terminates it, and connects to Spark over
    plain SASL or HTTP."""
    directory = stand.directory / "transports"
    directory.mkdir()
    certificates = make_certificates(directory)
    servers = ThriftServers(directory, certificates.key_store, **stand.metastore)
    try:
        stand.behind_wire(*servers.ports.values())
        for way in _ways(stand, directory, certificates, servers):
            yield from _measured(stand, way.name, VERSIONS[0], way.direct, way.through)
        yield _of_spark(stand, servers)
    finally:
        servers.stop()


def _of_spark(stand: Stand, servers: ThriftServers) -> Figure:
    """Spark's own two transports without a gateway, because a client that comes over HTTP and continues over SASL uses
    both."""
    by_http, by_sasl = (
        connect(VERSIONS[0], f"{HERE}:{servers.ports[mechanism]}/default{tail}")
        for mechanism, tail in (("http", HTTP), ("sasl", ""))
    )
    turns = in_turn(by_http, by_sasl, stand.runs(CONNECTS), warm_up=WARM_UP)
    return turns.ratio("transport", f"connect, JDBC {VERSIONS[0]}, SASL instead of HTTP, both directly", None)


def relay(stand: Stand) -> Iterator[Figure]:
    """A program that only relays bytes, and the gateway, both against a direct connection. The gateway may cost what
    that program costs, and ABOVE_RELAY more."""
    directory = stand.directory / "relay"
    directory.mkdir()
    version = VERSIONS[1]
    with haproxy(directory, stand.engine.port) as port:
        stand.behind_wire(port)
        bare, direct = f"jdbc:hive2://127.0.0.1:{port}/default", stand.engine.url
        relayed = list(_measured(stand, f"JDBC {version}, HAProxy", version, direct, bare, None))
        yield from relayed
        through = _measured(stand, f"JDBC {version}, gateway beside HAProxy", version, direct, stand.gateway.url, None)
        yield from _limited(through, relayed)
        here, there = (stand.engine.host, stand.engine.port), (stand.gateway.host, stand.gateway.port)
        relayed = list(_pyhive(stand, "PyHive, HAProxy", here, ("127.0.0.1", port), None))
        yield from relayed
        yield from _limited(_pyhive(stand, "PyHive, gateway beside HAProxy", here, there, None), relayed)


def _limited(figures: Iterator[Figure], relayed: Sequence[Figure]) -> Iterator[Figure]:
    for figure, other in zip(figures, relayed, strict=True):
        yield replace(figure, limit=other.value + ABOVE_RELAY)


def _ways(stand: Stand, directory: Path, certificates: Certificates, servers: ThriftServers) -> Iterator[Way]:
    trust = f";ssl=true;sslTrustStore={certificates.trust_store};trustStorePassword={PASSWORD}"
    for secure, mechanism in ((False, "sasl"), (True, "sasl"), (False, "http")):
        settings: dict[str, Any] = {
            "listen.http_port": 0,
            "storage.database": f"storage_{secure}_{mechanism}".lower(),
        }
        if secure:
            settings["tls.certificate"] = certificates.server
        upstream = f"jdbc:hive2://127.0.0.1:{servers.ports[mechanism]}/"
        upstream += ";transportMode=http" if mechanism == "http" else ""
        gateway = Gateway(directory / f"gateway-{secure}-{mechanism}.log", upstream=upstream, settings=settings)
        stand.behind_wire(gateway.port, gateway.http_port)
        try:
            if secure:
                tail = f"/default{trust}"
                yield Way("TLS", f"{HERE}:{servers.ports['tls']}{tail}", f"{HERE}:{gateway.port}{tail}")
            tail = f"/default{HTTP}{trust if secure else ''}"
            direct = servers.ports["https" if secure else "http"]
            name = f"{'HTTPS' if secure else 'HTTP'}, on by {mechanism.upper()}"
            yield Way(name, f"{HERE}:{direct}{tail}", f"{HERE}:{gateway.http_port}{tail}")
        finally:
            gateway.stop()


def _measured(
    stand: Stand, name: str, version: str, direct: str, through: str, limit: float | None = LIMIT
) -> Iterator[Figure]:
    turns = in_turn(connect(version, direct), connect(version, through), stand.runs(CONNECTS), warm_up=WARM_UP)
    yield turns.ratio("transport", f"connect, {name}", limit)
    with contextlib.ExitStack() as stack:
        sides = stack.enter_context(connected(version, direct)), stack.enter_context(connected(version, through))
        short = queries(sides, "SELECT 1", 1, 1)
        turns = in_turn(*short, stand.runs(SHORT), warm_up=10)
        yield turns.ratio("transport", f"SELECT 1, {name}", limit)
        many = queries(sides, f"SELECT {ROW} FROM range({stand.rows})", stand.rows, PAGE_ROWS)
        yield in_turn(*many, stand.runs(MANY)).ratio("transport", f"{stand.rows:,} rows, {name}", limit, "s")
        wide = queries(sides, WIDE, WIDE_ROWS, 20)
        turns = in_turn(*wide, stand.runs(WIDE_PAIRS), warm_up=3)
        yield turns.ratio("transport", f"{WIDE_ROWS} rows of 1 MB, {name}", limit, "s")


def connect(version: str, url: str) -> Work:
    def once() -> None:
        with connected(version, url):
            pass

    return once


def queries(sides: tuple[Any, Any], sql: str, expected: int, page: int) -> tuple[Work, Work]:
    """The same query over both connections."""
    direct, through = (_query(connection, sql, expected, page) for connection in sides)
    return direct, through


def _query(connection: Any, sql: str, expected: int, page: int) -> Work:
    def once() -> None:
        statement = connection.createStatement()
        statement.setFetchSize(page)
        result = statement.executeQuery(sql)
        columns = result.getMetaData().getColumnCount()
        found = int(loop().evaluate([result, jpype.JInt(columns)]).longValue())
        statement.close()
        if found != expected:
            raise SystemExit(f"bench: expected {expected} rows, got {found}.")

    return once


def _pyhive(stand: Stand, name: str, direct: Server, through: Server, limit: float | None = LIMIT) -> Iterator[Figure]:
    def connect(server: Server) -> Work:
        def once() -> None:
            with pyhive(*server):
                pass

        return once

    turns = in_turn(connect(direct), connect(through), stand.runs(CONNECTS), warm_up=WARM_UP)
    yield turns.ratio("transport", f"connect, {name}", limit)
    with contextlib.ExitStack() as stack:
        cursors = stack.enter_context(pyhive(*direct)), stack.enter_context(pyhive(*through))
        for cursor in cursors:
            cursor.arraysize = 20
        turns = in_turn(_wide(cursors[0]), _wide(cursors[1]), stand.runs(WIDE_PAIRS), warm_up=3)
        yield turns.ratio("transport", f"{WIDE_ROWS} rows of 1 MB, {name}", limit, "s")


def _wide(cursor: Any) -> Work:
    return lambda: rows(cursor, WIDE)
