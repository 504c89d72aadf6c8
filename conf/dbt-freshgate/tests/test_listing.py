"""Listing the relations of a schema, without a server."""

from __future__ import annotations

import time
from typing import Any

import agate
import pytest
from dbt.adapters.freshgate import FreshgateAdapter, FreshgateRelation
from dbt_common.exceptions import DbtRuntimeError

pytestmark = pytest.mark.sample
SCHEMA = FreshgateRelation.create(schema="shop")
VIEW = "Catalog: spark_catalog\nType: VIEW\nSchema: root\n |-- day: date (nullable = true)\n"
TABLE = "Catalog: spark_catalog\nType: MANAGED\nProvider: parquet\nSchema: root\n |-- day: date (nullable = true)\n"


class Served(FreshgateAdapter):
    """An adapter whose macros are answered by a server that this class imitates."""

    def __init__(self, tables: int, views: int, refusal: str = "") -> None:
        self.statements: list[str] = []
        listed = [("shop", f"table_{number}", False, TABLE) for number in range(tables)]
        listed += [("shop", f"view_{number}", False, VIEW) for number in range(2 * views)]
        self._listed = agate.Table(listed, ["namespace", "tableName", "isTemporary", "information"])
        self._views = agate.Table([("shop", f"view_{number}") for number in range(views)], ["database", "name"])
        self._refusal = refusal

    def execute_macro(self, macro_name: str, *_: Any, **__: Any) -> Any:
        self.statements.append(macro_name)
        if macro_name == "freshgate__list_materialized_views":
            if self._refusal:
                raise DbtRuntimeError(self._refusal)
            return self._views
        return self._listed


def test_two_statements_list_ten_thousand_relations() -> None:
    served = Served(tables=8_000, views=1_000)
    began = time.process_time()
    relations = served.list_relations_without_caching(SCHEMA)
    # Half a second, mostly dbt-spark's own.
    assert time.process_time() - began < 20
    assert len(served.statements) == 2
    kinds = [str(relation.type) for relation in relations]
    assert [kinds.count(kind) for kind in ("table", "view", "materialized_view")] == [8_000, 1_000, 1_000]
    assert {relation.identifier for relation in relations if relation.is_materialized_view} == {
        f"view_{number}" for number in range(1_000)
    }


def test_an_empty_schema_takes_one_statement() -> None:
    served = Served(tables=0, views=0)
    assert served.list_relations_without_caching(SCHEMA) == []
    assert len(served.statements) == 1


def test_a_server_without_a_gateway_is_asked_once() -> None:
    served = Served(tables=1, views=1, refusal="[PARSE_SYNTAX_ERROR] Syntax error at or near 'MATERIALIZED'")
    for _ in range(2):
        assert [str(found.type) for found in served.list_relations_without_caching(SCHEMA)] == ["table", "view", "view"]
    assert served.statements.count("freshgate__list_materialized_views") == 1


def test_other_errors_are_errors() -> None:
    with pytest.raises(DbtRuntimeError, match="lost"):
        Served(tables=1, views=1, refusal="the connection to Spark was lost").list_relations_without_caching(SCHEMA)
