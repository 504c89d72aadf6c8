"""The data test `not_stale` and the macro `is_stale`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt
from views import drop_schema

SCHEMA = """
models:
  - name: totals
    data_tests: [not_stale]
  - name: plain
    data_tests: [not_stale]
"""
ASK = """
{% macro ask(name) %}{{ log('stale: ' ~ is_stale(ref(name)), info=true) }}{% endmacro %}
"""
QUERY = "select sum(number) as total from {{ ref('numbers') }}"


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    return {"numbers.csv": "number\n1\n2\n"}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return {
        "totals.sql": "{{ config(materialized='materialized_view', refresh_on='manual') }}" + QUERY,
        "plain.sql": "{{ config(materialized='view') }}" + QUERY,
        "schema.yml": SCHEMA,
    }


@pytest.fixture(scope="class")
def macros() -> dict[str, str]:
    return {"ask.sql": ASK}


def outcome(select: str) -> str:
    (result,) = run_dbt(["test", "--select", select], expect_pass=None)
    return str(result.status)


class TestFreshness:
    def test_a_stale_view_fails_until_it_is_refreshed(self, project: Any, capsys: pytest.CaptureFixture[str]) -> None:
        def said(name: str) -> str:
            capsys.readouterr()
            run_dbt(["run-operation", "ask", "--args", f"{{name: {name}}}"], expect_pass=None)
            return capsys.readouterr().out

        run_dbt(["build", "--exclude", "plain"])
        assert "stale: False" in said("totals")
        project.run_sql(f"insert into {project.test_schema}.numbers values (3)")
        assert outcome("totals") == "fail"
        assert "stale: True" in said("totals")
        run_dbt(["run", "--select", "totals"])
        assert outcome("totals") == "pass"
        run_dbt(["run", "--select", "plain"])
        assert outcome("plain") == "fail"
        assert "is not a materialized view" in said("plain")
        drop_schema(project)
