"""Fixtures: each test of a driver runs directly against Spark's Thrift server and through a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from byte_chain import Chain, chain
from clients import pyhive, rows
from databases import make_database
from drivers.contents import DATABASE, SETUP, Reference, Server
from processes import Engine, Gateway


@pytest.fixture(scope="session")
def direct(engine: Engine) -> Iterator[Server]:
    """Spark's Thrift server, with the database that the drivers' tests read."""
    with pyhive(engine.host, engine.port) as cursor:
        for statement in SETUP:
            rows(cursor, statement)
        yield Server("direct", engine.host, engine.port)
        rows(cursor, f"DROP DATABASE {DATABASE} CASCADE")


@pytest.fixture(scope="session")
def through(direct: Server, gateway: Gateway) -> Server:
    """The gateway in front of the same Spark."""
    return Server("gateway", gateway.host, gateway.port)


@pytest.fixture(params=["direct", "gateway"])
def server(request: pytest.FixtureRequest, direct: Server, through: Server) -> Server:
    return direct if request.param == "direct" else through


@pytest.fixture(scope="session")
def reference(direct: Server) -> Reference:
    return Reference(direct)


@pytest.fixture
def life_database(gateway: Gateway) -> Iterator[str]:
    """The name of a database for the life cycle of a materialized view."""
    for database in make_database(gateway, "life"):
        yield database.name


@pytest.fixture
def recorded(engine: Engine, direct: Server, life_database: str, tmp_path: Path) -> Iterator[Chain]:
    """A separate gateway between two recorders, in front of the Spark with the drivers' database."""
    with chain(engine, life_database, tmp_path / "gateway.log") as running:
        yield running
