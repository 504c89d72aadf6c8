"""The engine for views in memory: a real process, fed with lines as Spark prints them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import psutil
import pytest
from processes import environment, wait_until

from gateway.errors import FreshgateError
from gateway.memory import memory_engine
from gateway.memory.frames import LOADS_AT_ONCE
from gateway.memory.memory_engine import MemoryEngine
from gateway.memory.page_encoding import PageFormat
from gateway.mv.ports import KeptRows, MemoryAnswer, MemoryUnavailable
from gateway.spark import protocol
from sql.memory.columns import ColumnFacts, MemoryColumn
from sql.memory.engine_types import identifier

MIB = 1 << 20
NUMBERS = (MemoryColumn("n", "bigint"), MemoryColumn("t", "string"))
COUNT = (MemoryColumn("c", "bigint"),)
LONG = "SELECT count(*) FROM range(100000000) a, range(1000000) b"
"""Takes hours."""


def part(*lines: str) -> bytes:
    """A page of lines, as Spark sends it."""
    return PageFormat(["string"]).page(0, [(line,) for line in lines])


async def parts(*pages: bytes) -> AsyncGenerator[bytes, None]:
    for page in pages:
        yield page


def numbered(first: int, last: int) -> bytes:
    return part(*(f'{n}\t"row {n}"' for n in range(first, last)))


def rows_of(answer: MemoryAnswer) -> list[tuple[object, ...]]:
    found = [row for page in answer.pages for row in protocol.rows_of(protocol.decode("FetchResults", page).results)]
    assert len(found) == answer.rows
    return found


async def ask(
    engine: MemoryEngine,
    text: str,
    columns: Sequence[MemoryColumn] = COUNT,
    *,
    rows: int = 100_000,
    size: int = 64 * MIB,
    seconds: float = 30.0,
) -> list[tuple[object, ...]]:
    return rows_of(await engine.run(text, columns, rows, size, seconds))


@contextlib.asynccontextmanager
async def serving(on_lost: Callable[[], None] = lambda: None) -> AsyncIterator[MemoryEngine]:
    engine = MemoryEngine(128 * MIB, 2, on_lost)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def test_a_table_is_loaded_from_pages_and_queried() -> None:
    async with serving() as engine:
        loaded = await engine.load("V 1", NUMBERS, parts(numbered(0, 3_000), numbered(3_000, 5_000), part()))
        assert (loaded.rows, loaded.columns) == (5_000, NUMBERS)
        assert 5_000 * 24 < loaded.bytes < 5_000 * 40
        assert engine.counters.tables == {"V 1": loaded}
        assert await ask(engine, 'SELECT sum(n)::BIGINT FROM "V 1"') == [(12_497_500,)]
        ordered = await ask(engine, 'SELECT * FROM "V 1" ORDER BY n DESC', NUMBERS)
        assert ordered == [(n, f"row {n}") for n in reversed(range(5_000))]
        await engine.drop("V 1")
        assert engine.counters.tables == {}
        with pytest.raises(MemoryUnavailable) as caught:
            await ask(engine, 'SELECT count(*) FROM "V 1"')
        assert caught.value.reason == "failed"
        assert "V 1" in caught.value.detail
        await engine.drop("V 1")


ALL = tuple(
    MemoryColumn(f'c `{number}"', kind)
    for number, kind in enumerate(
        (
            *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,18)"),
            *("string", "date", "timestamp", "timestamp_ntz"),
        )
    )
)


async def test_values_of_all_types() -> None:
    async with serving() as engine:
        least = (
            'false\t-128\t-32768\t-2147483648\t-9223372036854775808\t-1.0E10\tNaN\t-999.99\t0E-18\t"a\tb\nc""\r\x00ü"\t'
        )
        least += "-719893\t-62135596800000000\t253402300800500000"
        most = "true\t127\t32767\t2147483647\t9223372036854775807\tInfinity\t-0.0\t0.00\t"
        most += '99999999999999999999.999999999999999999\t""\t2932897\t1\t1000000'
        loaded = await engine.load("t", ALL, parts(part(least, most, "\t" * (len(ALL) - 1))))
        shown = (*ALL[:5], MemoryColumn("f", "double"), *ALL[6:])
        rows = await ask(
            engine, f"SELECT * REPLACE ({identifier(ALL[5].name)}::DOUBLE AS {identifier(ALL[5].name)}) FROM t", shown
        )
        assert str(rows[0][6]) == "nan"
        assert rows[0][:6] == (False, -128, -32768, -(1 << 31), -(1 << 63), -1e10)
        assert rows[0][7:] == (
            *("-999.99", "0.000000000000000000", 'a\tb\nc"\r\x00ü', "-0001-01-01"),
            *("0001-01-01 00:00:00", "+10000-01-01 00:00:00.5"),
        )
        assert rows[1][:6] == (True, 127, 32767, (1 << 31) - 1, (1 << 63) - 1, float("inf"))
        assert str(rows[1][6]) == "-0.0"
        assert rows[1][7:] == (
            *("0.00", "99999999999999999999.999999999999999999", "", "+10000-01-01"),
            *("1970-01-01 00:00:00.000001", "1970-01-01 00:00:01"),
        )
        assert rows[2] == (None,) * len(ALL)
        facts = list(loaded.facts.values())
        assert tuple(loaded.facts) == tuple(each.name for each in ALL)
        assert all(each.has_nulls for each in facts)
        assert [(each.minimum, each.maximum) for each in facts[:5]] == [
            *((None, None), (-128, 127), (-32768, 32767), (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1))
        ]
        assert [(each.has_nan, each.has_negative_zero) for each in facts[5:7]] == [(False, False), (True, True)]
        assert [(each.minimum, each.maximum) for each in facts[7:9]] == [(-99999, 0), (0, 10**38 - 1)]
        assert not facts[9].is_ascii
        assert [(each.minimum, each.maximum) for each in facts[10:]] == [
            *((-719893, 2932897), (-62135596800000000, 1), (1000000, 253402300800500000))
        ]


async def test_facts_of_a_table_without_peculiar_values() -> None:
    async with serving() as engine:
        columns = (MemoryColumn("d", "double"), MemoryColumn("t", "string"))
        loaded = await engine.load("t", columns, parts(part('1.5\t"a"', '0.0\t"~"')))
        plain = ColumnFacts(has_nulls=False, has_nan=False, has_negative_zero=False)
        assert loaded.facts == {"d": plain, "t": ColumnFacts(False, False, False, is_ascii=True)}


async def test_a_table_of_one_column_and_of_no_rows() -> None:
    async with serving() as engine:
        await engine.load("one", COUNT, parts(part("1\t", "\t", "2\t")))
        assert await ask(engine, "SELECT * FROM one") == [(1,), (None,), (2,)]
        loaded = await engine.load("none", NUMBERS, parts())
        assert (loaded.rows, loaded.bytes, loaded.facts["n"].minimum) == (0, 0, None)
        assert await ask(engine, "SELECT n FROM none") == []


async def test_a_table_begins_with_rows_of_another_one() -> None:
    async with serving() as engine:
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))
        for table, without, rows in (("u", "", 15), ("v", "n IN (7, 8) OR n IS NULL", 13)):
            loaded = await engine.load(table, NUMBERS, parts(numbered(10, 15)), kept=KeptRows("t", without))
            assert (loaded.rows, loaded.facts["n"].maximum) == (rows, 14)
            assert await ask(engine, f"SELECT count(*) FROM {table}") == [(rows,)]
        assert await ask(engine, "SELECT count(*) FROM t") == [(10,)]
        with pytest.raises(MemoryUnavailable) as caught:
            await engine.load("w", NUMBERS, parts(), kept=KeptRows("gone"))
        assert caught.value.reason == "failed"


async def test_readers_keep_the_old_rows_until_the_new_ones_are_complete() -> None:
    async with serving() as engine:
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))
        go_on = asyncio.Event()

        async def slowly() -> AsyncGenerator[bytes, None]:
            yield numbered(0, 4_000)
            await go_on.wait()
            yield numbered(4_000, 5_000)

        loading = asyncio.create_task(engine.load("t", NUMBERS, slowly()))
        assert await ask(engine, "SELECT count(*) FROM t") == [(10,)]
        go_on.set()
        await loading
        assert await ask(engine, "SELECT count(*) FROM t") == [(5_000,)]


FAULTY = (
    (('1\t"a"', 'one\t"b"'), "failed"),
    (('1\t"a"', '2\t"b"\t3'), "failed"),
    (('1\t"a"', '2\t"b'), "failed"),
    (("99999999999999999999\t",), "failed"),
    (('1\t"\ufffd"',), "text"),
)
"""Lines, and the reason why they cannot be loaded."""


async def test_a_failed_load_changes_nothing() -> None:
    async with serving() as engine:
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))
        for lines, reason in FAULTY:
            with pytest.raises(MemoryUnavailable) as caught:
                await engine.load("t", NUMBERS, parts(part(*lines), *[numbered(0, 4_000)] * 20))
            assert (lines, caught.value.reason) == (lines, reason)
            assert await ask(engine, "SELECT count(*) FROM t") == [(10,)]
        assert engine.counters.failures == {"failed": 4, "text": 1}


async def test_a_load_whose_rows_cannot_be_fetched_changes_nothing() -> None:
    async with serving() as engine:
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))

        async def failing() -> AsyncGenerator[bytes, None]:
            yield numbered(0, 4_000)
            raise TimeoutError("of the source")

        for kept in (None, KeptRows("t")):
            with pytest.raises(TimeoutError, match="of the source"):
                await engine.load("t", NUMBERS, failing(), kept=kept)
            assert await ask(engine, "SELECT count(*) FROM t") == [(10,)]


async def test_a_page_that_is_none_fails_the_load() -> None:
    async with serving() as engine:
        for page in (b"nonsense", part("1\t")[:-1], PageFormat(["bigint"]).page(0, [(1,)])):
            with pytest.raises(MemoryUnavailable) as caught:
                await engine.load("t", COUNT, parts(page))
            assert caught.value.reason == "failed"
        await engine.load("t", COUNT, parts(part("1\t")))


async def test_a_cancelled_load_ends_its_source() -> None:
    async with serving() as engine:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def endless() -> AsyncGenerator[bytes, None]:
            try:
                yield numbered(0, 10)
                begun.set()
                await asyncio.Event().wait()
            finally:
                ended.set()

        for _ in range(2 * LOADS_AT_ONCE):
            begun.clear()
            ended.clear()
            loading = asyncio.create_task(engine.load("t", NUMBERS, endless()))
            await begun.wait()
            loading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await loading
            assert ended.is_set()
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))


async def test_a_source_is_read_no_faster_than_the_engine_takes_parts() -> None:
    """The process is halted, so it takes nothing: few parts leave the source."""
    async with serving() as engine:
        assert engine.pid is not None
        given = 0

        async def counted() -> AsyncGenerator[bytes, None]:
            nonlocal given
            for _ in range(100):
                given += 1
                yield numbered(0, 4_000)

        os.kill(engine.pid, signal.SIGSTOP)
        loading = asyncio.create_task(engine.load("t", NUMBERS, counted()))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert given <= memory_engine.PARTS_AHEAD + 1
        os.kill(engine.pid, signal.SIGCONT)
        assert (await loading).rows == 400_000


REFUSED = (
    ("SELECT nonsense", COUNT, "failed"),
    ("SELECT 1", COUNT, "failed"),
    ("SELECT 1::BIGINT, 2::BIGINT", COUNT, "failed"),
    ("SELECT 1::BIGINT; SELECT 2::BIGINT", COUNT, "failed"),
    ("DROP TABLE t", COUNT, "failed"),
    ("SELECT CAST('x' AS BIGINT)", COUNT, "failed"),
    ("SELECT X'00'", (MemoryColumn("c", "binary"),), "type"),
    ("SELECT 1::FLOAT", (MemoryColumn("c", "float"),), "type"),
    ("SELECT range FROM range(100001)", COUNT, "rows"),
    ("SELECT repeat('x', 1000000) FROM range(100)", (MemoryColumn("c", "string"),), "bytes"),
    ("SELECT count(DISTINCT md5(range::VARCHAR)) FROM range(5000000)", COUNT, "memory"),
    *(
        (text, COUNT, "failed")
        for text in (
            *("SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('/proc/self/environ')"),
            *("SELECT * FROM glob('/*')", "COPY t TO '/tmp/memory_engine_test.csv'", "SET threads = 3"),
            *("ATTACH '/tmp/memory_engine_test.db'", "INSTALL httpfs", "SELECT * FROM read_csv('/dev/fd/0')"),
        )
    ),
)
"""Texts, with the columns that they should have, and the reason why they have no answer."""


async def test_what_fails_says_why_and_reaches_nothing() -> None:
    async with serving() as engine:
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))
        for text, columns, reason in REFUSED:
            with pytest.raises(MemoryUnavailable) as caught:
                await ask(engine, text, columns)
            assert (text, caught.value.reason) == (text, reason)
            assert await ask(engine, "SELECT count(*) FROM t") == [(10,)]
        assert engine.counters.failures == Counter(reason for _, _, reason in REFUSED)


async def test_a_long_query_holds_nobody_up() -> None:
    """One thread is busy for hours, and others do the rest."""
    async with serving() as engine:
        long = asyncio.create_task(ask(engine, LONG, seconds=1_000))
        for number in range(5):
            await engine.load("t", NUMBERS, parts(numbered(0, number)))
            assert await ask(engine, "SELECT count(*) FROM t") == [(number,)]
        await engine.drop("t")
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long


async def test_loads_whose_source_is_silent_hold_no_query_up() -> None:
    async with serving() as engine:
        await engine.load("t", NUMBERS, parts(*[numbered(0, 4_000)] * 25))
        loading = [asyncio.create_task(engine.load(f"u{n}", NUMBERS, never())) for n in range(2 * LOADS_AT_ONCE)]
        for _ in range(20):
            assert await ask(engine, "SELECT sum(n)::BIGINT FROM t") == [(25 * sum(range(4_000)),)]
        await engine.drop("t")
        for each in loading:
            each.cancel()
        assert {type(each) for each in await asyncio.gather(*loading, return_exceptions=True)} == {
            asyncio.CancelledError
        }


async def test_readers_see_whole_tables_whatever_happens_beside_them() -> None:
    """Each table has as many rows as its greatest number says, while others replace and drop it."""
    dice, answered = random.Random(5), Counter[str]()
    columns = [MemoryColumn("c", "bigint")] * 2

    async def work(engine: MemoryEngine) -> None:
        for _ in range(40):
            kind = dice.choice(("load", "drop", "read", "read", "read"))
            with contextlib.suppress(MemoryUnavailable):  # It is dropped, or another load of it is under way.
                match kind:
                    case "load":
                        await engine.load("t", NUMBERS, parts(numbered(0, dice.randrange(1, 3_000))))
                    case "drop":
                        await engine.drop("t")
                    case _:
                        ((count, most),) = await ask(engine, "SELECT count(*), max(n) + 1 FROM t", columns)
                        assert count == most
                answered[kind] += 1

    async with serving() as engine:
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))
        await asyncio.gather(*(work(engine) for _ in range(6)))
    assert set(answered) == {"load", "drop", "read"}


async def test_a_query_is_given_up_in_time() -> None:
    async with serving() as engine:
        for _ in range(5):
            began = time.monotonic()
            with pytest.raises(MemoryUnavailable) as caught:
                await ask(engine, LONG, seconds=0.05)
            assert caught.value.reason in {"time", "busy"}, "Perhaps it has not begun."
            assert time.monotonic() - began < 5
        assert await ask(engine, "SELECT 1::BIGINT") == [(1,)]
        pid = engine.pid
        assert pid is not None
        wait_until(lambda: psutil.Process(pid).cpu_percent(0.2) < 50, what="the engine to be idle")


async def test_queries_do_not_wait_for_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their callers ask Spark. Nothing is ended for that."""
    monkeypatch.setattr(memory_engine, "WAIT_SECONDS", 0.1)
    async with serving() as engine:
        pid = engine.pid
        long = [asyncio.create_task(ask(engine, LONG, seconds=1_000)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await asyncio.gather(*(ask(engine, "SELECT 1::BIGINT") for _ in range(20)), return_exceptions=True)
        assert {str(each) for each in refused} == {"busy: it waited for others for 0.1 seconds"}
        for each in long:
            each.cancel()
        await asyncio.gather(*long, return_exceptions=True)
        monkeypatch.undo()
        assert await ask(engine, "SELECT 1::BIGINT") == [(1,)]
        assert engine.pid == pid


async def test_a_caller_that_leaves_the_queue_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has not begun ends at once, whatever runs before it: the process is not taken for one that hangs."""
    monkeypatch.setattr(memory_engine, "STOP_SECONDS", 0.5)
    async with serving() as engine:
        pid = engine.pid
        long = [asyncio.create_task(ask(engine, LONG, seconds=1_000)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(ask(engine, "SELECT 1::BIGINT")) for _ in range(20)]
        await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        process = engine._process
        assert process is not None
        await asyncio.to_thread(wait_until, lambda: process.queries == 2, 30, "the end of what waits")
        for each in long:
            each.cancel()
        await asyncio.gather(*long, return_exceptions=True)
        assert await ask(engine, "SELECT 1::BIGINT") == [(1,)]
        assert engine.pid == pid


async def test_500_queries_at_once_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_engine, "WAIT_SECONDS", 60.0)
    async with serving() as engine:
        answers = await asyncio.gather(*(ask(engine, "SELECT count(*) FROM range(1000)") for _ in range(500)))
        assert answers == [[(1000,)]] * 500


async def test_queries_beyond_the_queue_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_engine, "WAIT_SECONDS", 60.0)
    monkeypatch.setattr(memory_engine, "WAITING_MAX", 10)
    async with serving() as engine:
        answers = await asyncio.gather(
            *(ask(engine, "SELECT count(*) FROM range(1000)") for _ in range(50)), return_exceptions=True
        )
        refused = [each for each in answers if isinstance(each, MemoryUnavailable)]
        assert {each.reason for each in refused} == {"busy"}
        assert [each for each in answers if not isinstance(each, MemoryUnavailable)] == [[(1000,)]] * 12
        assert engine.counters.queries == 12
        assert await ask(engine, "SELECT 1::BIGINT") == [(1,)]


async def test_a_process_that_ends_is_replaced() -> None:
    lost = asyncio.Event()
    async with serving(lost.set) as engine:
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))
        pid = engine.pid
        assert pid is not None
        running = asyncio.create_task(ask(engine, LONG, seconds=1_000))
        loading = asyncio.create_task(engine.load("u", NUMBERS, never()))
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        for each in (running, loading):
            with pytest.raises(MemoryUnavailable) as caught:
                await each
            assert caught.value.reason == "lost"
        await lost.wait()
        assert engine.counters.tables == {}
        with pytest.raises(MemoryUnavailable):
            await ask(engine, "SELECT count(*) FROM t")
        # A load waits for the next process.
        await engine.load("t", NUMBERS, parts(numbered(0, 20)))
        assert engine.pid not in {pid, None}
        assert engine.counters.losses == 1
        assert await ask(engine, "SELECT count(*) FROM t") == [(20,)]


async def never() -> AsyncGenerator[bytes, None]:
    yield numbered(0, 10)
    await asyncio.Event().wait()


async def test_a_process_that_does_not_end_a_query_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = asyncio.Event()
    async with serving(lost.set) as engine:
        monkeypatch.setattr(memory_engine, "STOP_SECONDS", 0.1)
        pid = engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(MemoryUnavailable):
            await ask(engine, "SELECT 1::BIGINT", seconds=0.1)
        await lost.wait()
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))
        assert await ask(engine, "SELECT count(*) FROM t") == [(10,)]


async def test_without_duckdb_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FreshgateError, match=r"Install freshgate\[memory\]"):
        await MemoryEngine(MIB, 1).start()


async def test_a_process_that_does_not_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less memory than the engine needs for itself."""
    engine = MemoryEngine(0, 0)
    with pytest.raises(MemoryUnavailable) as caught:
        await engine.start()
    assert caught.value.reason == "lost"
    assert engine.pid is None
    with pytest.raises(MemoryUnavailable):
        await ask(engine, "SELECT 1::BIGINT")


async def test_a_table_larger_than_memory_is_refused() -> None:
    async with serving() as engine:
        await engine.load("t", NUMBERS, parts(numbered(0, 10)))
        wide = part(*(f'{n}\t"{n:0>1000}"' for n in range(1_000)))
        with pytest.raises(MemoryUnavailable) as caught:
            await engine.load("t", NUMBERS, parts(*[wide] * 200))
        assert caught.value.reason == "memory"
        assert await ask(engine, "SELECT count(*) FROM t") == [(10,)]


async def test_replaced_tables_leave_memory() -> None:
    """40 MB six times, of 128 MiB."""
    async with serving() as engine:
        wide = part(*(f'{n}\t"{n:0>1000}"' for n in range(1_000)))
        for _ in range(6):
            loaded = await engine.load("t", NUMBERS, parts(*[wide] * 40))
            assert loaded.rows == 40_000


async def test_the_process_ends_with_the_engine() -> None:
    """Also in the middle of a query."""
    async with serving() as engine:
        assert engine.pid is not None
        process = psutil.Process(engine.pid)
        running = asyncio.create_task(ask(engine, LONG, seconds=1_000))
        await asyncio.sleep(0)
    assert not process.is_running()
    with pytest.raises(MemoryUnavailable):
        await running


def test_the_process_ends_when_its_parent_is_killed() -> None:
    """In the middle of a query: nobody is left to kill it."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], env=environment(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    try:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        wait_until(lambda: child.cpu_times().user > 0.5, what="the query to run")
    finally:
        parent.kill()
        parent.communicate()
    child.wait(30)


PARENT = f"""
import asyncio
from gateway.memory.memory_engine import MemoryEngine
from sql.memory.columns import MemoryColumn

async def main():
    engine = MemoryEngine({128 * MIB}, 1)
    await engine.start()
    print(engine.pid, flush=True)
    await engine.run("{LONG}", [MemoryColumn("c", "bigint")], 1, 1000, 1000)

asyncio.run(main())
"""
