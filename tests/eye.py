"""An observer of a real Spark, for tests that change tables there and look at them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from clients import pyhive, rows
from processes import Engine, FixedEndpoint

from gateway.mv.model.snapshot import PartitionValues, Snapshot
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.spark.client import SessionPool
from gateway.spark.metastore import SparkMetastore
from gateway.wire.endpoint import Endpoint
from sql.names import Namespace, TableName
from sql.texts import observation

NOW = float("inf")
"""Asks for a look that begins now."""
LOOK_SECONDS = 300.0


def named(table: str) -> TableName:
    return TableName.resolve(tuple(table.split(".")), Namespace())


class Eye:
    """An observer of a real Spark, and a client that changes tables there."""

    def __init__(self, port: int, cursor: Any, runner: asyncio.Runner) -> None:
        self.cursor = cursor
        self.runner = runner
        place = FixedEndpoint(Endpoint("127.0.0.1", port))
        self.pool = SessionPool(place, "observer", 4, settings=observation.LISTING_SETTINGS)
        self.observer = self.another()
        self.before: dict[str, Snapshot] = {}

    def another(self) -> Observer:
        """As after a restart of the gateway."""
        return Observer(SparkMetastore(self.pool), self.pool, LOOK_SECONDS)

    def run(self, *statements: str) -> None:
        for statement in statements:
            rows(self.cursor, statement)

    def look(self, table: str, observer: Observer | None = None) -> Look:
        seen = (observer or self.observer).observe([named(table)], NOW)
        return self.runner.run(seen)[named(table)]

    def snapshot(self, table: str, observer: Observer | None = None) -> Snapshot:
        observed = self.look(table, observer).observed
        assert isinstance(observed, Snapshot), observed
        return observed

    def begin(self, table: str) -> Snapshot:
        self.before[table] = self.snapshot(table)
        return self.before[table]

    def changed(self, table: str, *statements: str) -> frozenset[PartitionValues] | None:
        """What of the table has changed since the last look at it, after the statements."""
        self.run(*statements)
        before = self.before[table]
        return self.begin(table).changed(before)

    def directory(self, table: str) -> Path:
        remembered = self.runner.run(self.observer.observe([named(table)], 0.0))[named(table)]
        assert remembered.relation is not None
        return Path(unquote(urlparse(remembered.relation.location).path))


@contextlib.contextmanager
def watching(engine: Engine) -> Iterator[Eye]:
    with pyhive(engine.host, engine.port) as cursor, asyncio.Runner() as runner:
        opened = Eye(engine.port, cursor, runner)
        yield opened
        runner.run(opened.pool.close())
