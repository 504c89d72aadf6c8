"""The test stand: a Spark Thrift server, a gateway in front of it, and clients of both."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from clients import Jdbc, pyhive, rows
from metastore import at_metastore, running_metastore
from processes import STORAGE, Engine, Gateway

from benchmarks import tpch
from benchmarks.wire import Wire

DRIVER_MEMORY = "3g"
"""Spark collects a result of 100 MB before it sends it; a smaller heap would measure garbage collection."""
SAMPLE_SECONDS = 0.02


class Stand:
    """What all measures share. A context manager."""

    def __init__(
        self, directory: Path, *, scale: float, rows: int, runs: int | None, wire: Wire | None, service: bool
    ) -> None:
        """`service`: use a metastore service, as most warehouses do, instead of one inside Spark."""
        self.directory = directory
        self._wire = wire
        self.scale = scale
        self.rows = rows
        self._runs = runs
        self._stack = contextlib.ExitStack()
        self._views: tuple[str, ...] | None = None
        try:
            self.metastore: dict[str, Any] = at_metastore(self._serve_metastore()) if service else {}
            spark: dict[str, Any] = {"spark.driver.memory": DRIVER_MEMORY, **self.metastore}
            self.engine = Engine(directory / "engine", spark=spark)
            self._stack.callback(self.engine.stop)
            upstream = f"{self.engine.host}:{self.engine.port}"
            # A read that is answered from memory would hide what a read costs; `repeated` has its own gateway.
            computing: dict[str, Any] = {"result_cache.bytes": 0, "storage.database": STORAGE}
            self.gateway = Gateway(directory / "gateway.log", upstream=upstream, settings=computing)
            self._stack.callback(self.gateway.stop)
            self.behind_wire(self.engine.port, self.gateway.port)
            self.process = psutil.Process(self.gateway.pid)
            self.direct = self._cursor(self.engine)
            self.through = self._cursor(self.gateway)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Stand:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def behind_wire(self, *ports: int) -> None:
        """Limits the servers on these ports to the command line's rate, if there is one. Call it once per port."""
        if self._wire is not None:
            for port in ports:
                self._wire.limit(port)

    def _serve_metastore(self) -> int:
        """Starts the metastore service; returns its port."""
        home = self.directory / "metastore"
        home.mkdir()
        return self._stack.enter_context(running_metastore(home))[1]

    def runs(self, usual: int) -> int:
        """The number of pairs to measure: the command line's, or the measure's own."""
        return self._runs or usual

    def cursors(self) -> tuple[Any, Any]:
        """PyHive cursors that stay open until the end: direct, and through the gateway."""
        return self.direct, self.through

    def _cursor(self, server: Engine | Gateway) -> Any:
        return self._stack.enter_context(pyhive(server.host, server.port))

    @contextlib.contextmanager
    def jdbc(self) -> Iterator[tuple[Jdbc, Jdbc]]:
        """JDBC connections: direct, and through the gateway."""
        with Jdbc(self.engine.url) as direct, Jdbc(self.gateway.url) as through:
            yield direct, through

    def query(self, sql: str, *, direct: bool = False) -> list[tuple[Any, ...]]:
        return rows(self.direct if direct else self.through, sql)

    def load_tables(self) -> None:
        """Creates the TPC-H tables in the database `tpch`, on the first call."""
        if (tpch.DATABASE,) not in self.query("SHOW DATABASES", direct=True):
            tpch.load(lambda sql: self.query(sql, direct=True), self.scale, self.directory / "tpch")

    def views(self) -> tuple[str, ...]:
        """Creates materialized views of the TPC-H queries, on the first call; returns their names."""
        if self._views is None:
            self.load_tables()
            for name, query in tpch.QUERIES.items():
                self.query(f"CREATE MATERIALIZED VIEW {tpch.DATABASE}.{name} AS {query}")
            self._views = tuple(f"{tpch.DATABASE}.{name}" for name in tpch.QUERIES)
        return self._views

    def version(self, view: str) -> int:
        """The number of the view's current version."""
        database, _, name = view.partition(".")
        ((version,),) = ((row[3],) for row in self.query(f"SHOW MATERIALIZED VIEWS IN {database} LIKE '{name}'"))
        return int(version)

    def resident(self) -> int:
        """The gateway's memory in bytes."""
        return int(self.process.memory_info().rss)

    def processor_seconds(self) -> float:
        """The processor time that the gateway's process has used."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


class Peak:
    """The gateway's peak memory while the block runs, sampled often."""

    def __init__(self, resident: Callable[[], int]) -> None:
        self._resident = resident
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self.bytes = 0

    def __enter__(self) -> Peak:
        self.bytes = self._resident()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.bytes = max(self.bytes, self._resident())

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self.bytes = max(self.bytes, self._resident())
