"""Tests when a metastore's answer "not found" is believed. A real metastore's database cannot be made to fail for a
moment only, so a scripted session answers in its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from gateway.errors import StatementFailed
from gateway.mv.catalog.fence import Fence
from gateway.mv.ports import UNKNOWN_SETTINGS
from gateway.spark.metastore import SparkMetastore
from gateway.spark.row_list import RowList
from sql.names import TableName

NAME = TableName("shop", "orders")
DESCRIBED = '{"type": "MANAGED", "provider": "parquet", "columns": []}'
NO_SCHEMA = StatementFailed("[SCHEMA_NOT_FOUND] The schema `shop` cannot be found.", "42704")
NO_TABLE = StatementFailed("[TABLE_OR_VIEW_NOT_FOUND] The table or view cannot be found.", "42P01")

Answers = Mapping[str, list[list[tuple[object, ...]] | StatementFailed]]


class Scripted:
    """A session, and its pool: gives its answers to each kind of statement in order, then repeats the last one."""

    def __init__(self, answers: Answers) -> None:
        self._answers = {start: list(each) for start, each in answers.items()}

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Scripted]:
        yield self

    async def run(self, sql: str) -> RowList:
        answers = next(each for start, each in self._answers.items() if sql.startswith(start))
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, StatementFailed):
            raise answer
        return RowList((), answer)


def metastore(**answers: list[list[tuple[object, ...]] | StatementFailed]) -> SparkMetastore:
    return SparkMetastore(Scripted({start.replace("_", " "): each for start, each in answers.items()}))  # type: ignore[arg-type]


def test_a_table_that_is_listed_but_not_found_once_is_looked_up_again() -> None:
    asked = metastore(
        DESCRIBE=[NO_TABLE, [(DESCRIBED,)]], SHOW_TABLES=[[("shop", "orders", "false")]], SHOW_TBLPROPERTIES=[[]]
    )
    found = asyncio.run(asked.relation(NAME))
    assert found is not None
    assert found.provider == "parquet"


def test_a_table_that_is_neither_found_nor_listed_does_not_exist() -> None:
    assert asyncio.run(metastore(DESCRIBE=[NO_TABLE], SHOW_TABLES=[[]]).relation(NAME)) is None
    without = metastore(DESCRIBE=[NO_TABLE], SHOW_TABLES=[NO_SCHEMA], SHOW_DATABASES=[[("default",)]])
    assert asyncio.run(without.relation(NAME)) is None


def test_a_table_that_stays_listed_but_not_found_is_an_error() -> None:
    asked = metastore(DESCRIBE=[NO_TABLE], SHOW_TABLES=[[("shop", "orders", "false")]])
    with pytest.raises(StatementFailed, match="TABLE_OR_VIEW_NOT_FOUND"):
        asyncio.run(asked.relation(NAME))


@pytest.mark.parametrize("method", ["tables", "views"])
def test_a_database_that_is_listed_but_not_found_is_an_error_not_an_empty_list(method: str) -> None:
    asked = metastore(SHOW_TABLES=[NO_SCHEMA], SHOW_VIEWS=[NO_SCHEMA], SHOW_DATABASES=[[("shop",)]])
    with pytest.raises(StatementFailed, match="SCHEMA_NOT_FOUND"):
        asyncio.run(getattr(asked, method)("shop"))
    gone = metastore(SHOW_TABLES=[NO_SCHEMA], SHOW_VIEWS=[NO_SCHEMA], SHOW_DATABASES=[[("default",)]])
    assert asyncio.run(getattr(gone, method)("shop")) == frozenset()


def test_a_relation_is_not_reported_missing_if_its_database_is_not_found_for_a_moment() -> None:
    asked = metastore(DESCRIBE=[NO_TABLE], SHOW_TABLES=[NO_SCHEMA], SHOW_DATABASES=[[("shop",)]])
    with pytest.raises(StatementFailed, match="SCHEMA_NOT_FOUND"):
        asyncio.run(asked.relation(NAME))


def test_the_fence_does_not_open_if_its_database_is_listed_but_not_found() -> None:
    failing = metastore(DESCRIBE_DATABASE=[NO_SCHEMA], SHOW_DATABASES=[[("freshgate_storage",)]])
    with pytest.raises(StatementFailed, match="SCHEMA_NOT_FOUND"):
        asyncio.run(Fence(failing, "freshgate_storage", "here").check())
    new = metastore(DESCRIBE_DATABASE=[NO_SCHEMA], SHOW_DATABASES=[[("default",)]])
    asyncio.run(Fence(new, "freshgate_storage", "here").check())


async def test_a_view_is_told_from_one_that_finds_its_columns_elsewhere() -> None:
    described = {
        "type": "VIEW",
        "columns": [{"name": "a", "type": {"name": "int"}}],
        "view_text": "SELECT * FROM t",
        "view_catalog_and_namespace": "spark_catalog.shop",
        "view_query_output_columns": ["x"],
        "view_creation_spark_configuration": {"spark.sql.ansi.enabled": "true"},
        "collation": "UTF8_BINARY",
    }
    found = []
    for change in ({}, {"view_query_output_columns": ["y"]}, {"collation": "UTF8_LCASE"}):
        answer: list[tuple[object, ...]] = [(json.dumps({**described, **change}),)]
        relation = await metastore(DESCRIBE_TABLE=[answer]).relation(NAME)
        assert relation is not None
        found.append(relation)
    assert [(each.outputs, each.collation) for each in found[:2]] == [(("x",), "UTF8_BINARY"), (("y",), "UTF8_BINARY")]
    assert len({each.reading for each in found}) == 3


@pytest.mark.parametrize(
    ("configuration", "kept"),
    [
        (None, {"spark.sql.ansi.enabled": "false"}),
        ({"spark.sql.mapKeyDedupPolicy": "x"}, {"spark.sql.ansi.enabled": "false", "spark.sql.mapKeyDedupPolicy": "x"}),
        ({"spark.sql.ansi.enabled": "true"}, {"spark.sql.ansi.enabled": "true"}),
        (UNKNOWN_SETTINGS, UNKNOWN_SETTINGS),
    ],
)
async def test_a_view_of_spark_3_5_has_no_ansi_mode(configuration: dict[str, str] | None, kept: dict[str, str]) -> None:
    """Spark 4 keeps the mode with every view, Spark 3.5 only if the session had set it."""
    described = {
        "type": "VIEW",
        "columns": [{"name": "a", "type": {"name": "int"}}],
        "view_text": "SELECT * FROM t",
        "view_creation_spark_configuration": configuration,
    }
    relation = await metastore(DESCRIBE_TABLE=[[(json.dumps(described),)]]).relation(NAME)
    assert relation is not None
    assert relation.settings == kept
