"""Fixtures: a separate database for each test or each module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clients import pyhive
from databases import Database, make_database
from processes import Engine, Gateway, Setting, free_port
from seen_gateway import Seen


@pytest.fixture
def database(gateway: Gateway) -> Iterator[Database]:
    yield from make_database(gateway)


@pytest.fixture(scope="module")
def shared(gateway: Gateway) -> Iterator[Database]:
    """One database for those tests of a module that only add to it."""
    yield from make_database(gateway, "shared")


@pytest.fixture(scope="session")
def rewriting(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """A gateway with an embedded engine, which answers queries from views. It compares all answers, and they must be
    equal. Each module has a database of its own."""
    directory, port = tmp_path_factory.mktemp("rewriting"), free_port()
    audit = directory / "audit.jsonl"
    settings: dict[str, Setting] = {"rewrite.wait": 60, "rewrite.canary": 1, "rewrite.partly_stale": "true"}
    settings |= {"rewrite.advice": "true", "staleness.probe_interval": 0, "access.administrators": "root"}
    settings |= {"log.audit": audit, "log.level": "DEBUG", "metrics.port": port}
    gateway = Gateway(directory / "gateway.log", data_dir=directory / "data", settings=settings)
    seen = Seen(gateway, port, audit)
    yield seen
    gateway.stop()
    assert not [line for line in seen.lines() if line["event"] == "rewrite_difference"]


@pytest.fixture
def direct(engine: Engine) -> Iterator[Any]:
    """A cursor directly on Spark."""
    with pyhive(engine.host, engine.port) as cursor:
        yield cursor
