"""The engine of views in memory fails, through a real gateway: nobody sees more than Spark's own answer."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psutil
import pytest
from clients import pyhive, rows, unclosed
from databases import Database, make_database
from processes import Engine, wait_until
from seen_gateway import Seen, start
from TCLIService import ttypes

ROWS = 3_000
QUERY_SECONDS = 2.0
BYTES = 32 << 20
GROUPS = "SELECT k, count(*) AS n, sum(d) AS d, max(name) AS name FROM {name}.v WHERE id < {id} GROUP BY k ORDER BY k"
CROSS = (
    "SELECT sum(length(concat(a.name, b.name, c.name)) + a.k) FROM {name}.v a, {name}.v b, {name}.v c "
    "WHERE a.id < {id} AND b.id < {id} AND c.id < {id}"
)
CROWDED = re.compile("memory.bytes leaves no room|tried again: memory")
"""Why a view is not in memory beside others: there is no room for it, or the engine found none while it was loaded."""
WIDE = (
    "SELECT max(n) FROM (SELECT a.id AS x, b.id AS y, count(*) AS n FROM {name}.v a JOIN {name}.v b ON a.one = b.one "
    "WHERE a.id < {id} GROUP BY a.id, b.id)"
)
LAG_SECONDS = 2.0
"""How late a timer of the gateway's event loop may be, on a machine with many times its load."""


@pytest.fixture(scope="module")
def seen(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    found = start(
        tmp_path_factory.mktemp("memory_faults"),
        f"{engine.host}:{engine.port}",
        # A process that is killed again and again is started again without a pause.
        constants={"gateway.memory.memory_engine.STEADY_SECONDS": 0.0},
        settings={
            "memory.bytes": BYTES,
            "memory.query_seconds": QUERY_SECONDS,
            "memory.canary": 20,
            "result_cache.bytes": 0,
        },
    )
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
    """Waits until the engine answers queries of this shape, which numbers with as many digits have."""
    wait_until(lambda: from_memory(database.cursor, text(database, query, 13)), 120, f"{query} to be learned")


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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("query", "number", "reason"),
    [(WIDE, 600, "engine: memory: "), (CROSS, 600, "engine: time: ")],
    ids=["memory", "time"],
)
def test_a_query_that_the_engine_cannot_answer_is_seen_before_anybody_waits(
    view: Database, seen: Seen, query: str, number: int, reason: str
) -> None:
    """The first query is Spark's, and what the engine makes of it is seen in the background. What is in memory
    stays."""
    loaded(view, "v")
    pid, sql = engine_pid(seen), text(view, query, number)
    expected = view.rows(sql)

    def is_known() -> bool:
        ((_, verdict, why, _),) = view.rows(f"EXPLAIN REWRITE {sql}")
        return verdict == "SPARK" and str(why).startswith(reason)

    wait_until(is_known, 60, reason)
    before = seen.metric("memory_misses_total", reason="engine")
    assert view.rows(sql) == expected
    assert seen.metric("memory_misses_total", reason="engine") == before + 1
    assert from_memory(view.cursor, text(view, GROUPS, 77))
    assert engine_pid(seen) == pid


@pytest.mark.thorough
def test_views_that_do_not_fit_together(view: Database, seen: Seen) -> None:
    """Some of them are in memory, all are answered, and each says where it is."""
    names = ["f1", "f2", "f3"]
    columns = "id, concat('some longer text of a row ', id) AS a, concat('and one more of them ', id) AS b"
    view.run("CREATE TABLE large USING parquet AS SELECT id FROM range(130000)")
    for name in names:
        view.run(f"CREATE MATERIALIZED VIEW {name} IN MEMORY AS SELECT {columns} FROM large")
    table = f"freshgate.materialized_views WHERE database_name = '{view.name}' AND name LIKE 'f_'"

    def settled() -> bool:
        found = view.rows(f"SELECT memory, coalesce(memory_reason, '') FROM {table}")
        crowded = [why for state, why in found if state != "LOADED" and CROWDED.search(str(why))]
        return bool(crowded) and any(state == "LOADED" for state, _ in found)

    wait_until(settled, 120, "a part of the views to be in memory")
    for name in names:
        assert view.rows(f"SELECT count(*) FROM {view.name}.{name} WHERE id < 77") == [(77,)]
    told = [rows(view.cursor, f"EXPLAIN REWRITE SELECT count(*) FROM {view.name}.{name}")[0] for name in names]
    assert any(CROWDED.search(str(each[2])) for each in told), told
    assert seen.metric("memory_bytes") <= BYTES
    view.run(*[f"DROP MATERIALIZED VIEW {name}" for name in names])


def test_clients_that_go_in_the_middle_leave_nothing(view: Database, seen: Seen) -> None:
    loaded(view, "v")
    learned(view, GROUPS)
    pid, sessions = engine_pid(seen), seen.metric("sessions")
    for number in range(20):
        with unclosed(view.gateway) as cursor:
            cursor.execute(text(view, GROUPS, 1_000 + number), async_=True)
    wait_until(lambda: seen.metric("sessions") <= sessions, 60, "the sessions to end")
    assert from_memory(view.cursor, text(view, GROUPS, 79))
    assert engine_pid(seen) == pid


def test_500_queries_at_once(view: Database, seen: Seen) -> None:
    """Those that would wait for a second or more go to Spark."""
    loaded(view, "v")
    gateway, sessions, each = view.gateway, 20, 25
    with pyhive(gateway.host, gateway.port) as cursor:
        # What is learned holds for sessions with the same current database.
        wait_until(lambda: from_memory(cursor, text(view, GROUPS, 100)), 120, "the shape to be learned")
    before = counted(seen)
    answered = seen.metric("memory_answers_total")

    def answers(number: int) -> list[tuple[int, list[tuple[Any, ...]]]]:
        with ExitStack() as stack:
            first = stack.enter_context(pyhive(gateway.host, gateway.port))
            cursors = [first, *(first._connection.cursor() for _ in range(each - 1))]
            asked = [(cursor, 100 + number * each + place) for place, cursor in enumerate(cursors)]
            for cursor, literal in asked:
                cursor.execute(text(view, GROUPS, literal), async_=True)
            found = []
            for cursor, literal in asked:
                wait_until(lambda: _over(cursor), 120, "an answer")  # noqa: B023
                found.append((literal, shown(cursor.fetchall())))
                cursor.close()
            return found

    with ThreadPoolExecutor(sessions) as pool:
        found = [each for some in pool.map(answers, range(sessions)) for each in some]
    assert len(found) == 500
    assert [literal for literal, answer in found if answer != expected(literal)] == []
    assert counted(seen) - before == 500
    assert seen.metric("memory_answers_total") > answered + 100


def _over(cursor: Any) -> bool:
    state = cursor.poll().operationState
    assert state not in (ttypes.TOperationState.ERROR_STATE, ttypes.TOperationState.CANCELED_STATE)
    return bool(state == ttypes.TOperationState.FINISHED_STATE)


def test_what_the_engine_prevents_costs_the_gateway_nothing(seen: Seen) -> None:
    """After all of this nothing is under way."""
    wait: Callable[[], bool] = lambda: seen.metric("operations") <= 1  # noqa: E731
    wait_until(wait, 60, "the operations to end")


def test_a_base_table_is_read_from_memory_in_the_state_that_spark_would_read(view: Database, engine: Engine) -> None:
    """Whoever has written it, and whether or not its rows can be loaded."""
    view.run("CREATE TABLE c USING parquet AS SELECT id, concat('s', id % 2) AS segment FROM range(7)")
    join = (
        "SELECT segment, count(*) AS n, sum(one) FROM {name}.v JOIN {name}.c ON v.k = c.id WHERE v.id < {id} "
        "GROUP BY segment ORDER BY 1"
    )
    learned(view, join)
    answered = text(view, join, 70)
    assert rows(view.cursor, answered) == [("s0", 40, 40), ("s1", 30, 30)]
    # A write past the gateway is seen by the next read, as at Spark.
    with pyhive(engine.host, engine.port) as other:
        rows(other, f"INSERT INTO {view.name}.c VALUES (1, 's9')")
        assert rows(view.cursor, answered) == [("s0", 40, 40), ("s1", 30, 30), ("s9", 10, 10)]
        learned(view, join)
        rows(other, f"INSERT OVERWRITE {view.name}.c VALUES (-1, 's9')")
        assert rows(view.cursor, answered) == []
        rows(other, f"INSERT OVERWRITE {view.name}.c SELECT id, concat('s', id % 2) FROM range(7)")
        rows(other, f"INSERT INTO {view.name}.c VALUES (1, 's9')")
        assert rows(view.cursor, answered) == [("s0", 40, 40), ("s1", 30, 30), ("s9", 10, 10)]
    learned(view, join)
    view.run("INSERT INTO c VALUES (2, 's9')")
    assert rows(view.cursor, answered) == [("s0", 40, 40), ("s1", 30, 30), ("s9", 20, 20)]
    learned(view, join)
    assert rows(view.cursor, answered) == [("s0", 40, 40), ("s1", 30, 30), ("s9", 20, 20)]
    # The engine is never given a text that Spark does not tell exactly: the load fails.
    view.run("INSERT INTO c VALUES (2, CAST(X'FF' AS STRING))")
    for _ in range(3):
        assert not from_memory(view.cursor, answered)
        assert [n for _, n, _ in rows(view.cursor, answered)] == [40, 30, 20, 10]
    view.run("INSERT OVERWRITE c VALUES (2, 's2')")
    assert rows(view.cursor, answered) == [("s2", 10, 10)]
