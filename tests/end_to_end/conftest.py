"""Fixtures: a separate database for each test or each module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clients import pyhive
from databases import Database, make_database
from processes import Engine, Gateway


@pytest.fixture
def database(gateway: Gateway) -> Iterator[Database]:
    yield from make_database(gateway)


@pytest.fixture(scope="module")
def shared(gateway: Gateway) -> Iterator[Database]:
    """One database for those tests of a module that only add to it."""
    yield from make_database(gateway, "shared")


@pytest.fixture
def direct(engine: Engine) -> Iterator[Any]:
    """A cursor directly on Spark."""
    with pyhive(engine.host, engine.port) as cursor:
        yield cursor
