"""Spark and a gateway in front of it, which are killed and restarted."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clients import rows, unclosed
from fault_proxy import FaultProxy
from processes import Engine, Gateway

DATABASE = "soak"
TABLES = ("near", "far")
SETTINGS: dict[str, Any] = {
    "staleness.probe_interval": 0,
    "storage.database": "storage_of_soak",
    "versions.retention": 20,
}
CONTENT = "SELECT part, count(*) AS n, max(tx) AS last, sum(tx) AS total FROM {} GROUP BY part"
KILL_SHADOW_SECONDS = 2.0
"""How long after a kill a failure counts as its consequence."""


class Stage:
    """What all actors share. Close it."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.stop = threading.Event()
        self.serving = threading.Event()
        """Set while Spark and a gateway are running."""
        self.spark_lives = 1
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._directory = directory
        self._lives = 0
        self._lock = threading.Lock()
        self._killed: list[tuple[float, float]] = []
        """The time of each kill, and of its recovery."""
        self.engine = Engine(directory / "engine")
        # A restarted Spark has another port.
        self._way = FaultProxy(self.engine.host, self.engine.port, lambda _: None)
        self.gateway = self._start()
        with unclosed(self.gateway) as cursor:
            self._prepare(cursor)
        self.serving.set()

    def _start(self) -> Gateway:
        self._lives += 1
        log = self._directory / f"gateway-{self._lives}.log"
        return Gateway(log, upstream=self._way.address, settings=SETTINGS)

    def _prepare(self, cursor: Any) -> None:
        rows(cursor, f"CREATE DATABASE {DATABASE}")
        rows(cursor, f"USE {DATABASE}")
        for table in TABLES:
            rows(cursor, f"CREATE TABLE {table} (tx BIGINT, part INT) USING parquet PARTITIONED BY (part)")
            rows(cursor, f"CREATE MATERIALIZED VIEW {table}_whole AS {CONTENT.format(table)}")
            rows(cursor, f"CREATE MATERIALIZED VIEW {table}_parts PARTITION BY (part) AS {CONTENT.format(table)}")
        above = "SELECT part, n, last, total FROM near_parts"
        rows(cursor, f"CREATE MATERIALIZED VIEW near_above PARTITION BY (part) AS {above}")

    @contextmanager
    def connected(self, *, direct: bool = False) -> Iterator[Any]:
        with unclosed(self.engine if direct else self.gateway, DATABASE) as cursor:
            yield cursor

    def kill_gateway(self) -> None:
        """Kills the gateway with kill -9, and starts another."""
        with self._killing():
            self.gateway.kill()
            self.gateway = self._start()

    def kill_spark(self) -> None:
        """Kills Spark with kill -9, and restarts it on the same metastore; the gateway stays."""
        with self._killing():
            self.engine.kill()
            self._tidy()
            self.engine = Engine(self._directory / "engine")
            self._way.host, self._way.port = self.engine.host, self.engine.port
            self.spark_lives += 1
            with self.connected(direct=True) as direct:
                for table in TABLES:
                    # Registers files that a killed INSERT has already moved into place.
                    rows(direct, f"MSCK REPAIR TABLE {table}")

    def _tidy(self) -> None:
        """Removes what a killed Spark left in `_temporary`, because Spark's next INSERT into the table would commit it
        too."""
        for table in TABLES:
            place = self.engine.data_dir / "warehouse" / f"{DATABASE}.db" / table
            shutil.rmtree(place / "_temporary", ignore_errors=True)

    @contextmanager
    def _killing(self) -> Iterator[None]:
        began = time.monotonic()
        with self._lock:
            self._killed.append((began, float("inf")))
        self.serving.clear()
        yield
        self.serving.set()
        with self._lock:
            self._killed[-1] = (began, time.monotonic())

    def is_shadowed(self, began: float) -> bool:
        """Whether something that began then and failed now may have failed because of a kill."""
        now = time.monotonic()
        with self._lock:
            return any(killed <= now and began <= served + KILL_SHADOW_SECONDS for killed, served in self._killed)

    def report(self, what: str) -> None:
        """Records a fault; the run continues, and fails."""
        with self._lock:
            self.faults.append(what)

    def close(self) -> None:
        self.gateway.stop()
        self._way.close()
        self.engine.stop()
