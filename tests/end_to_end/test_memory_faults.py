"""The engine of views in memory fails, through a real gateway: nobody sees more than Spark's own answer."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from clients import pyhive, rows
from databases import Database, make_database
from processes import Engine, wait_until
from seen_gateway import Seen, start

ROWS = 3_000
BYTES = 32 << 20
GROUPS = "SELECT k, count(*) AS n, sum(d) AS d, max(name) AS name FROM {name}.v WHERE id < {id} GROUP BY k ORDER BY k"
LAG_SECONDS = 2.0
"""How late a timer of the gateway's event loop may be, on a machine with many times its load."""


@pytest.fixture(scope="module")
def seen(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    limits: dict[str, Any] = {"memory.bytes": BYTES, "memory.canary": 20}
    # A process that is killed again and again is started again without a pause.
    settings: dict[str, Any] = {"constants": {"gateway.memory.memory_engine.STEADY_SECONDS": 0.0}, **limits}
    directory = tmp_path_factory.mktemp("memory_faults")
    found = start(directory, f"{engine.host}:{engine.port}", **{"result_cache.bytes": 0}, **settings)
    yield found
    lag = found.metric("event_loop_lag_max_seconds")
    found.gateway.stop()
    assert not [line for line in found.lines() if line["event"] == "memory_difference"]
    assert lag < LAG_SECONDS


@pytest.fixture(scope="module")
def database(seen: Seen) -> Iterator[Database]:
    yield from make_database(seen.gateway, "faulty", dropped=False)


@pytest.fixture(scope="module")
def view(database: Database) -> Database:
    """A view in memory, with a shape of queries that the engine has learned."""
    database.run(
        f"CREATE TABLE t USING parquet AS SELECT id, id % 7 AS k, concat('n', id % 50) AS name, 1 AS one, "
        f"CAST(id AS DECIMAL(10,2)) AS d FROM range({ROWS})",
        "CREATE MATERIALIZED VIEW v IN MEMORY AS SELECT * FROM t",
    )
    loaded(database, "v")
    learned(database, GROUPS)
    return database


def loaded(database: Database, view: str) -> None:
    where = f"database_name = '{database.name}' AND name = '{view}'"
    state = f"SELECT memory FROM freshgate.materialized_views WHERE {where}"
    wait_until(lambda: database.rows(state) == [("LOADED",)], 120, f"{view} to be in memory")


def text(database: Database, query: str, number: int) -> str:
    return query.format(name=database.name, id=number)


def from_memory(cursor: Any, sql: str) -> bool:
    cursor.execute(sql)
    cursor.fetchall()
    return any("Answered from rows in memory" in str(line) for line in cursor.fetch_logs())


def learned(database: Database, query: str) -> None:
    """Waits until the engine answers queries of this shape."""
    wait_until(lambda: from_memory(database.cursor, text(database, query, 3)), 120, f"{query} to be learned")


def engine_pid(seen: Seen) -> int | None:
    for each in psutil.Process(seen.gateway.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # Also one that was killed and is not waited for yet.
            if any("engine_process" in part for part in each.cmdline()):
                return int(each.pid)
    return None


def killed(seen: Seen) -> int:
    """Kills the engine's process, once there is one; returns its id."""
    wait_until(lambda: engine_pid(seen) is not None, 60, "the engine's process")
    pid = engine_pid(seen)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def expected(number: int) -> list[tuple[Any, ...]]:
    """What GROUPS returns."""
    found = []
    for k in range(7):
        ids = [each for each in range(min(number, ROWS)) if each % 7 == k]
        if ids:
            found.append((k, len(ids), f"{sum(ids)}.00", max(f"n{each % 50}" for each in ids)))
    return found


def shown(answer: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(k, n, str(d), name) for k, n, d, name in answer]


class Readers:
    """Clients that read all the time; each answer must be right."""

    def __init__(self, database: Database, number: int = 3) -> None:
        self.answers = 0
        self.faults: list[str] = []
        self._database = database
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(each,)) for each in range(number)]

    def _read(self, number: int) -> None:
        gateway = self._database.gateway
        with pyhive(gateway.host, gateway.port) as cursor:
            for each in itertools.count(10 + number, 13):
                if self._over.is_set():
                    return
                try:
                    found = shown(rows(cursor, text(self._database, GROUPS, each % ROWS)))
                except Exception as error:
                    self.faults.append(repr(error))
                    return
                if found != expected(each % ROWS):
                    self.faults.append(f"{each % ROWS}: {found}")
                    return
                self.answers += 1

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads)
        assert self.faults == []


def counted(seen: Seen) -> float:
    """Reads that were answered from memory, or were not."""
    return seen.metric("memory_answers_total") + seen.metric("memory_misses_total")


def test_the_process_is_killed_again_and_again_while_it_answers(view: Database, seen: Seen) -> None:
    loaded(view, "v")
    before = counted(seen)
    with Readers(view) as readers:
        for _ in range(3):
            pid, since = killed(seen), readers.answers
            wait_until(lambda: engine_pid(seen) not in (None, pid), 60, "another process")  # noqa: B023
            wait_until(lambda: readers.answers > since + 5, 120, "answers")  # noqa: B023
    assert counted(seen) - before == readers.answers
    loaded(view, "v")
    learned(view, GROUPS)
    assert seen.metric("memory_evictions_total", reason="lost") >= 1


@pytest.mark.thorough
def test_the_process_is_killed_in_a_load(view: Database, seen: Seen) -> None:
    """Its next version, and then the whole view, is loaded again; readers see each write at once."""
    database = view
    database.run("CREATE TABLE many USING parquet AS SELECT id, id % 7 AS k FROM range(400000)")
    database.run("CREATE MATERIALIZED VIEW m IN MEMORY AS SELECT * FROM many")
    where = f"database_name = '{database.name}' AND name = 'm'"
    states = f"SELECT memory FROM freshgate.materialized_views WHERE {where}"
    for number in (1, 2):
        wait_until(lambda: database.rows(states)[0][0] in ("LOADING", "LOADED"), 60, "a load")
        killed(seen)
        database.run(f"INSERT INTO many VALUES ({-number}, 0)")
        count = f"SELECT count(*) FROM {database.name}.m WHERE id < 10"
        assert database.rows(count) == [(10 + number,)]
    loaded(database, "m")
    learned(database, "SELECT count(*) FROM {name}.m WHERE id < {id}")
    assert database.rows(count) == [(12,)]
    database.run("DROP MATERIALIZED VIEW m", "DROP TABLE many")
