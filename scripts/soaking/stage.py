"""One Spark, and one gateway life after another before it."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clients import rows, unclosed
from processes import Engine, Gateway

DATABASE = "soak"
SETTINGS = {"staleness.probe_interval": 0, "versions.retention": 20}
CONTENT = "SELECT part, count(*) AS n, max(tx) AS last, sum(tx) AS total FROM {} GROUP BY part"
KILL_SHADOW_SECONDS = 2.0
"""After a kill: how long a failure counts as its consequence."""


class Stage:
    """What all actors share. Close it."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.stop = threading.Event()
        self.serving = threading.Event()
        """Set while a gateway is there."""
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._directory = directory
        self._lives = 0
        self._lock = threading.Lock()
        self._killed: list[tuple[float, float]] = []
        """When each kill was, and when the next gateway served."""
        self.engine = Engine(directory / "engine")
        self.gateway = self._start()
        with unclosed(self.gateway) as cursor:
            self._prepare(cursor)
        self.serving.set()

    def _start(self) -> Gateway:
        self._lives += 1
        log = self._directory / f"gateway-{self._lives}.log"
        return Gateway(log, upstream=f"{self.engine.host}:{self.engine.port}", **SETTINGS)

    def _prepare(self, cursor: Any) -> None:
        rows(cursor, f"CREATE DATABASE {DATABASE}")
        rows(cursor, f"USE {DATABASE}")
        for table in ("near", "far"):
            rows(cursor, f"CREATE TABLE {table} (tx BIGINT, part INT) USING parquet PARTITIONED BY (part)")
            rows(cursor, f"CREATE MATERIALIZED VIEW {table}_whole AS {CONTENT.format(table)}")
            rows(cursor, f"CREATE MATERIALIZED VIEW {table}_parts PARTITION BY (part) AS {CONTENT.format(table)}")
        above = "SELECT part, n, last, total FROM near_parts"
        rows(cursor, f"CREATE MATERIALIZED VIEW near_above PARTITION BY (part) AS {above}")

    @contextmanager
    def connected(self, *, direct: bool = False) -> Iterator[Any]:
        with unclosed(self.engine if direct else self.gateway, DATABASE) as cursor:
            yield cursor

    def kill(self) -> None:
        """kill -9, and the next life."""
        began = time.monotonic()
        with self._lock:
            self._killed.append((began, float("inf")))
        self.serving.clear()
        self.gateway.kill()
        self.gateway = self._start()
        self.serving.set()
        with self._lock:
            self._killed[-1] = (began, time.monotonic())

    def is_shadowed(self, began: float) -> bool:
        """Whether what began then and failed now may have failed because of a kill."""
        now = time.monotonic()
        with self._lock:
            return any(killed <= now and began <= served + KILL_SHADOW_SECONDS for killed, served in self._killed)

    def report(self, what: str) -> None:
        """A fault; the run goes on, and fails."""
        with self._lock:
            self.faults.append(what)

    def close(self) -> None:
        self.gateway.stop()
        self.engine.stop()
