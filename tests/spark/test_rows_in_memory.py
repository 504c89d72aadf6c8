"""Rows of a real Spark in memory are exactly those of Spark, and pages from memory have exactly Spark's bytes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from processes import Engine
from TCLIService import ttypes

from gateway.errors import StatementFailed
from gateway.memory.engine_process import PAGE_ROWS
from gateway.memory.memory_engine import MemoryEngine
from gateway.mv.ports import LoadedTable
from gateway.spark import protocol
from gateway.spark.client import Connection, ServerSession
from gateway.wire import message
from gateway.wire.columnar import ColumnarPage
from gateway.wire.endpoint import Endpoint
from sql.memory.columns import MemoryColumn
from sql.memory.engine_types import identifier
from sql.memory.row_lines import lines_query, loadable

DEADLINE_SECONDS = 120.0
MIB = 1 << 20

COLUMNS = tuple(
    MemoryColumn(name, kind)
    for name, kind in (
        *(("id", "bigint"), ("b", "boolean"), ("t", "tinyint"), ("s", "smallint"), ("i", "int"), ("l", "bigint")),
        *(("d", "double"), ("f", "float"), ("small", "decimal(5,2)"), ("large", "decimal(38,18)")),
        *(("whole", "decimal(18,0)"), ("text", "string"), ('a `b"\t', "varchar(20)"), ("day", "date")),
        *(("at", "timestamp"), ("shown", "timestamp_ntz")),
    )
)
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Australia/Lord_Howe",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.datetime.java8API.enabled": "false",
        "spark.sql.caseSensitive": "true",
    },
    {"spark.sql.session.timeZone": "America/New_York", "spark.sql.codegen.wholeStage": "false"},
)
"""Sessions that load, on which the rows must not depend."""


@contextlib.asynccontextmanager
async def session_at(engine: Engine, **configuration: str) -> AsyncIterator[ServerSession]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        connection = await Connection.open(Endpoint(engine.host, engine.port), "tester")
        try:
            yield await connection.open_session(configuration, "default")
        finally:
            await connection.close()


@contextlib.asynccontextmanager
async def memory() -> AsyncIterator[MemoryEngine]:
    served = MemoryEngine(256 * MIB, 2)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()


def values(dice: random.Random) -> Iterator[str]:
    """One row, as expressions of Spark's."""

    def integer(bits: int) -> int:
        edge = 1 << (bits - 1)
        return dice.choice((0, 1, -1, edge - 1, -edge, dice.randrange(-edge, edge), dice.randrange(-100, 100)))

    def double() -> str:
        kept = struct.unpack(">d", dice.randbytes(8))[0]
        edges = ("0.0", "-0.0", "NaN", "Infinity", "-Infinity", "4.9E-324", "1.7976931348623157E308", "0.1", "1E23")
        return dice.choice((*edges, repr(kept), repr(dice.uniform(-1e6, 1e6)), repr(dice.randrange(1 << 53) / 100)))

    def decimal(precision: int, scale: int) -> str:
        most = 10**precision - 1
        kept = dice.choice((0, 1, -1, most, -most, dice.randrange(-most, most + 1), dice.randrange(-1000, 1000)))
        return f"CAST('{kept}E-{scale}' AS DECIMAL({precision},{scale}))"

    def text(most: int) -> str:
        odd = (
            "\t",
            "\n",
            "\r",
            "\r\n",
            '"',
            '""',
            "'",
            "\\",
            "\\N",
            "NULL",
            ",",
            " ",
            "é",
            "ß",
            "\U0001d518",
            "\u2028",
            "\x00",
        )
        size = dice.choice((0, 1, 2, most))
        kept = "".join(dice.choice((*odd, "a", "b", chr(dice.randrange(32, 0xD800)))) for _ in range(size))[:most]
        return f"CAST(X'{kept.encode('utf-8').hex()}' AS STRING)"

    def micros() -> int:
        days = dice.choice((0, -1, 10957, -719162, 2932896, 2932897, dice.randrange(-800_000, 3_000_000)))
        return days * 86_400_000_000 + dice.choice((0, 1, 500_000, 86_399_999_999, dice.randrange(86_400_000_000)))

    yield from (dice.choice(("TRUE", "FALSE")), *(f"CAST({integer(bits)} AS {name})" for bits, name in INTEGERS))
    yield from (f"CAST('{double()}' AS DOUBLE)", f"CAST('{double()}' AS FLOAT)")
    yield from (decimal(5, 2), decimal(38, 18), decimal(18, 0), text(40), f"CAST({text(20)} AS VARCHAR(20))")
    yield from (f"date_from_unix_date({micros() // 86_400_000_000})", f"timestamp_micros({micros()})")
    yield f"CAST(timestamp_micros({micros()}) AS TIMESTAMP_NTZ)"


INTEGERS = ((8, "TINYINT"), (16, "SMALLINT"), (32, "INT"), (64, "DECIMAL(20,0)"))


def row(number: int, dice: random.Random) -> str:
    nulls = dice.choice((0.0, 0.1, 1.0))
    kept = ("NULL" if dice.random() < nulls else each for each in values(dice))
    return f"({number}L, {', '.join(kept)})"


async def made(session: ServerSession, rows: int, seed: int) -> str:
    """A table of random rows."""
    dice, table = random.Random(seed), f"memory_{uuid.uuid4().hex}"
    names = ", ".join(f"c{number}" for number in range(len(COLUMNS)))
    typed = ", ".join(
        f"CAST(c{number} AS {column.type}) AS `{column.name.replace('`', '``')}`"
        for number, column in enumerate(COLUMNS)
    )
    for first in range(0, rows, 400):
        inline = ", ".join(row(number, dice) for number in range(first, min(rows, first + 400)))
        begun = f"INSERT INTO {table}" if first else f"CREATE TABLE {table} USING parquet AS"
        await session.run(f"{begun} SELECT {typed} FROM VALUES {inline} AS v({names})")
    return table


async def spark_pages(session: ServerSession, text: str, rows: int = PAGE_ROWS) -> list[bytes]:
    """All pages of Spark's answer, with the number of the call that pages from memory have; an empty one if there are
    no rows."""
    handle = await session.execute(text)
    outcome = await session.wait(handle)
    assert outcome.error is None, outcome.error
    request = ttypes.TFetchResultsReq(protocol.operation_handle(handle), ttypes.TFetchOrientation.FETCH_NEXT, rows)
    found: list[bytes] = []
    while True:
        page = await session.connection.forward(protocol.encode("FetchResults", request, 1))
        if found and not ColumnarPage(page).rows:
            return found
        found.append(message.with_seqid(page, 0))


async def load(
    served: MemoryEngine, session: ServerSession, table: str, columns: Sequence[MemoryColumn]
) -> LoadedTable:
    kept = loadable(columns)
    return await served.load("t", kept, session.pages(lines_query(kept, table), 1_000))


def differences(
    pages: Sequence[bytes], expected: Sequence[bytes], columns: Sequence[MemoryColumn]
) -> list[tuple[str, str, str]]:
    """The first values that differ, with their columns: the bytes of pages say little."""
    rows, others = (
        [row for page in each for row in protocol.rows_of(protocol.decode("FetchResults", page).results)]
        for each in (pages, expected)
    )
    pairs = (
        (repr(one), repr(other), n)
        for row, kept in zip(rows, others, strict=True)
        for n, (one, other) in enumerate(zip(row, kept, strict=True))
    )
    return [(columns[n].name, one, other) for one, other, n in pairs if one != other][:5]


SHOWN = tuple(each for each in loadable(COLUMNS) if each.type != "float")


@pytest.mark.parametrize(
    ("seed", "rows"), [(20, 400), *(pytest.param(seed, 2_000, marks=pytest.mark.thorough) for seed in range(21, 31))]
)
async def test_loaded_rows_and_their_pages_are_spark_s(engine: Engine, seed: int, rows: int) -> None:
    """Loaded in sessions with different settings, and read in one whose time zone is UTC. That a float is loaded
    exactly shows as a double."""
    async with session_at(engine, **{"spark.sql.session.timeZone": "UTC"}) as reader, memory() as served:
        table = await made(reader, rows, seed)
        try:
            names = [each.name.replace("`", "``") for each in SHOWN]
            selected = ", ".join(f"`{name}`" for name in names) + ", CAST(f AS DOUBLE) AS wide"
            expected = await spark_pages(reader, f"SELECT {selected} FROM {table} ORDER BY id")
            text = ", ".join(identifier(each.name) for each in SHOWN) + ", f::DOUBLE"
            types = (*SHOWN, MemoryColumn("wide", "double"))
            for settings in SETTINGS:
                async with session_at(engine, **settings) as loader:
                    loaded = await load(served, loader, table, COLUMNS)
                assert loaded.rows == rows
                answer = await served.run(f"SELECT {text} FROM t ORDER BY id", types, rows, 64 * MIB, 60.0)
                assert differences(answer.pages, expected, types) == []
                assert list(answer.pages) == expected
        finally:
            await reader.run(f"DROP TABLE {table}")


LITERALS = """
SELECT CAST(NULL AS BOOLEAN), CAST(NULL AS TINYINT), CAST(NULL AS SMALLINT), CAST(NULL AS INT), CAST(NULL AS BIGINT),
  CAST(NULL AS DOUBLE), CAST(NULL AS DECIMAL(5,2)), CAST(NULL AS STRING), CAST(NULL AS DATE), CAST(NULL AS TIMESTAMP)
"""


async def test_pages_of_literals_have_spark_s_bytes(engine: Engine) -> None:
    """Values under NULLs, and answers of no rows."""
    kinds = ("boolean", "tinyint", "smallint", "int", "bigint", "double", "decimal(5,2)", "string", "date", "timestamp")
    columns = [MemoryColumn("c", kind) for kind in kinds]
    async with session_at(engine) as session, memory() as served:
        for text in (LITERALS, f"{LITERALS} WHERE 1 = 0"):
            answer = await served.run(text, columns, 10, MIB, 30.0)
            assert list(answer.pages) == await spark_pages(session, text)
            assert answer.rows == ColumnarPage(answer.pages[0]).rows


async def test_columns_of_other_types_are_left_out(engine: Engine) -> None:
    kinds = {
        "a": ("1", "int"),
        "b": ("array(1)", "array<int>"),
        "c": ("map(1, 2)", "map<int,int>"),
        "d": ("named_struct('x', 1)", "struct<x:int>"),
        "e": ("X'00'", "binary"),
        "f": ("INTERVAL 1 DAY", "interval day"),
        "g": ("'x' COLLATE UNICODE_CI", "string collate UNICODE_CI"),
        "h": ("parse_json('1')", "variant"),
        "i": ("CAST(1 AS DECIMAL(3,1))", "decimal(3,1)"),
    }
    query = "(SELECT " + ", ".join(f"{text} AS {name}" for name, (text, _) in kinds.items()) + ")"
    async with session_at(engine) as session, memory() as served:
        told = await session.run(f"SELECT {', '.join(f'typeof({name})' for name in kinds)} FROM {query}")
        columns = [MemoryColumn(name, kind) for name, kind in zip(kinds, told.rows[0], strict=True)]
        assert [each.type for each in columns] == [kind for _, kind in kinds.values()]
        loaded = await load(served, session, query, columns)
    assert loaded.columns == (MemoryColumn("a", "int"), MemoryColumn("i", "decimal(3,1)"))


async def test_pages_come_one_after_the_other_and_end_with_the_reader(engine: Engine) -> None:
    async with session_at(engine) as session:
        pages = [page async for page in session.pages("SELECT id FROM range(2500)", 1_000)]
        assert [ColumnarPage(page).rows for page in pages] == [1_000, 1_000, 500]
        assert [page async for page in session.pages("SELECT 1 WHERE 1 = 0", 1_000)] == []
        for failing in ("SELECT nothing", "SELECT raise_error('as told')"):
            with pytest.raises(StatementFailed):
                await anext(session.pages(failing, 10))
        source = session.pages("SELECT id FROM range(2500)", 1_000)
        await anext(source)
        await source.aclose()
        assert (await session.run("SELECT 1")).rows == [(1,)]
        endless = asyncio.ensure_future(anext(session.pages("SELECT count(*) FROM range(100000000000000)", 1)))
        await asyncio.sleep(0)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        assert (await session.run("SELECT 2")).rows == [(2,)]


async def test_bytes_that_are_no_text_are_not_taken_for_one(engine: Engine) -> None:
    """Spark's reply has U+FFFD in their place."""
    async with session_at(engine) as session, memory() as served:
        columns = (MemoryColumn("x", "string"),)
        with pytest.raises(Exception, match=r"^text: the column x has the character U\+FFFD"):
            await load(served, session, "(SELECT CAST(X'61F09F98' AS STRING) AS x)", columns)
