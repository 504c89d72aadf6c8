"""Answers of the engine for views in memory to queries on the table of memory_corpus.py, in the tests' own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest
from memory_corpus import BASE, COLUMNS, DATABASE, TABLE

from gateway.memory.page_encoding import date_text, decimal_text, timestamp_text
from gateway.wire.columnar import Value
from sql.memory.engine_types import engine_type
from sql.memory.translation import EngineQuery, ViewSource

BASE_RELATION = f"spark_catalog.{DATABASE}.{BASE}"
RELATION = f"spark_catalog.{DATABASE}.{TABLE}"
SOURCE = ViewSource("v", {name: (name, type_text) for name, type_text in COLUMNS.items()})
SOURCES = {RELATION: SOURCE}


@contextmanager
def engine_with(rows: Sequence[Sequence[Any]]) -> Iterator[duckdb.DuckDBPyConnection]:
    """The engine, with these rows of the table as its table `rows`."""
    with duckdb.connect() as connection:
        fill(connection, "rows", COLUMNS, rows)
        yield connection


def fill(
    engine: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], rows: Sequence[Sequence[Any]]
) -> None:
    """Creates a table with these rows. `columns`: their types as Spark calls them."""
    typed = ", ".join(f'"{name}" {engine_type(type_text)}' for name, type_text in columns.items())
    engine.execute(f"CREATE TABLE {table} ({typed})")
    if rows:
        engine.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in columns)})", rows)


def answer(engine: duckdb.DuckDBPyConnection, query: EngineQuery, text: str) -> list[list[Value]]:
    """The rows, with values as the Thrift server shows them."""
    rows = engine.execute(text).fetchall()
    types = [each.type for each in query.output]
    return [[shown(value, kind) for value, kind in zip(row, types, strict=True)] for row in rows]


def shown(value: Any, type_text: str) -> Value:
    text = TEXTS.get("decimal" if type_text.startswith("decimal") else type_text)
    return value if text is None or value is None else text(value)


TEXTS: Mapping[str, Callable[[Any], str]] = {
    "date": date_text,
    "timestamp": timestamp_text,
    "timestamp_ntz": timestamp_text,
    "decimal": decimal_text,
}


def plain(query: EngineQuery) -> str:
    """The text of a query without holes."""
    return query.text.filled(lambda hole: pytest.fail(f"{hole}"), lambda _: "rows")
