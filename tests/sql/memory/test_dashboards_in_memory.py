"""Tests how many of the texts that BI tools send, and that a view answers, are answered from its rows in memory."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from engine_answers import answer, fill
from memory_dashboards import COLUMNS, DATABASE, QUERIES
from record_memory import RecordedQuery, recorded_queries

from gateway.service.memory.comparing import difference
from sql.memory.engine_texts import NotListed
from sql.memory.shape_query import shape_query
from sql.memory.translation import EngineQuery, ViewSource
from sql.memory.zone_rules import UTC_RULES
from sql.proof import plan_json
from sql.rewriting.shape import shape_of

SOURCES = {
    f"spark_catalog.{DATABASE}.{table}": ViewSource(
        table, {name: (name, type_text.lower()) for name, type_text in columns.items()}
    )
    for table, columns in COLUMNS.items()
}
ANSWERED_LEAST = 62
"""All: three of them join a base table."""


@pytest.fixture(scope="module")
def recorded() -> dict[str, RecordedQuery]:
    return recorded_queries()


@pytest.fixture(scope="module")
def engine(recorded: dict[str, RecordedQuery]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for table, columns in COLUMNS.items():
            types = {name: type_text.lower() for name, type_text in columns.items()}
            fill(connection, table, types, recorded[f"SELECT * FROM {DATABASE}.{table}"].rows)
        yield connection


def query_of(text: str, recorded: dict[str, RecordedQuery]) -> tuple[EngineQuery, str]:
    """The query for the engine, and its text with the literals of this one. Raises NotListed."""
    shape, said = shape_of(text), recorded[text]
    plans = [plan_json.read(each) for each in (said.plan, said.unfolded, said.varied or said.unfolded)]
    try:
        found = shape_query((plans[1], plans[2]), shape, SOURCES, UTC_RULES)
    except NotListed:
        found = shape_query((plans[0], plans[0]), shape, SOURCES, UTC_RULES)
    return found.query, found.text(shape.literals, lambda table: table.view)


def test_dashboards_are_answered_from_memory(
    engine: duckdb.DuckDBPyConnection, recorded: dict[str, RecordedQuery]
) -> None:
    answered, refused = 0, list[str]()
    for text in QUERIES:
        try:
            query, engines = query_of(text, recorded)
        except NotListed as reason:
            refused.append(f"{reason}: {text}")
            continue
        assert difference(query, answer(engine, query, engines), recorded[text].rows) is None, text
        answered += 1
    print(*refused, sep="\n")
    assert answered >= ANSWERED_LEAST, refused
