"""Profiles: the transports, wrong logins, session settings, and a Spark Thrift Server without a gateway."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.freshgate import FreshgateCredentials
from dbt.tests.util import run_dbt
from dbt_common.exceptions import DbtRuntimeError
from views import drop_schema, failed, relation_type, rows, run, write_model


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    return {"numbers.csv": "number\n1\n2\n"}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return {}


@pytest.fixture
def shop(project: Any) -> Iterator[Any]:
    run_dbt(["seed"])
    yield project
    for path in Path(project.project_root, "models").iterdir():
        path.unlink()
    drop_schema(project)


class TestHttp:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self) -> dict[str, Any]:
        place = {"host": os.environ["FRESHGATE_HOST"], "port": int(os.environ["FRESHGATE_HTTP_PORT"])}
        return {"type": "freshgate", "method": "http", "user": "tester", "threads": 2, **place}

    def test_a_view_over_http(self, shop: Any) -> None:
        write_model(shop, "model", "select * from {{ ref('numbers') }}")
        run()
        assert relation_type(shop, "model") == "materialized_view"
        assert rows(shop, "model") == [(1,), (2,)]


class TestSessionSettings:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, gateway: dict[str, Any]) -> dict[str, Any]:
        settings = {"spark.sql.session.timeZone": "Asia/Kathmandu"}
        return {"type": "freshgate", "user": "tester", "threads": 1, "server_side_parameters": settings, **gateway}

    def test_server_side_parameters_are_settings_of_the_session(self, shop: Any) -> None:
        query = "select number, date_format(timestamp_seconds(number), 'HH:mm') as clock from {{ ref('numbers') }}"
        write_model(shop, "model", query)
        run()
        assert {clock for _, clock in rows(shop, "model")} == {"05:30"}


class TestPlainServer:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self) -> dict[str, Any]:
        place = {"host": "127.0.0.1", "port": int(os.environ["FRESHGATE_UPSTREAM_PORT"])}
        return {"type": "freshgate", "user": "tester", "threads": 1, **place}

    def test_only_a_materialized_view_is_refused(self, shop: Any) -> None:
        for materialized in ("table", "view", "incremental"):
            write_model(shop, materialized, "select * from {{ ref('numbers') }}", materialized=materialized)
        run()
        run()
        assert rows(shop, "table") == [(1,), (2,)]
        write_model(shop, "model", "select * from {{ ref('numbers') }}")
        message = failed("--select", "model")
        assert "is a Spark Thrift Server without Freshgate" in message
        # A table of that name stays.
        write_model(shop, "table", "select * from {{ ref('numbers') }}")
        assert "is a Spark Thrift Server without Freshgate" in failed("--select", "table")
        assert rows(shop, "table") == [(1,), (2,)]


class TestProfiles:
    def test_another_method_is_refused(self) -> None:
        with pytest.raises(DbtRuntimeError, match="use thrift or http"):
            FreshgateCredentials(host="h", schema="s", user="u", method="odbc", database=None)  # type: ignore[arg-type]

    def test_a_user_is_needed(self) -> None:
        with pytest.raises(DbtRuntimeError, match="user"):
            FreshgateCredentials(host="h", schema="s", database=None)

    def test_the_defaults(self) -> None:
        credentials = FreshgateCredentials(host="h", schema="s", user="u", database=None)
        assert (credentials.type, credentials.method, credentials.port) == ("freshgate", "thrift", 10000)
        assert credentials.poll_interval < 1
