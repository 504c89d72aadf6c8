"""Tests Superset with the dialect and its engine spec: in a browser, and with the calls of its pages.

`scripts/setup --with-superset` installs what it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from drivers.contents import SLEEPS
from processes import ROOT, Gateway, wait_until
from superset_site import PASSWORD, PYTHON, USER, Caller, Site, prepare

DATABASE = "tea_shop"
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SCRIPT = ROOT / "tests" / "superset_browser.py"
SCRIPT_SECONDS = 280
TABLE = f"{DATABASE}.orders"
SETUP = (
    f"CREATE DATABASE {DATABASE}",
    f"CREATE TABLE {TABLE} (day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, product STRING, amount DECIMAL(9,2)) "
    "USING parquet COMMENT 'all orders'",
    f"INSERT INTO {TABLE} SELECT DATE'2026-01-01' + CAST(id % 90 AS INT), "
    "TIMESTAMP'2026-01-01 00:00:00' + make_dt_interval(0, 0, CAST(id * 433 AS INT), 0), "
    "TIMESTAMP_NTZ'2026-01-01 00:00:00' + make_dt_interval(0, 0, CAST(id * 433 AS INT), 0), "
    "element_at(array('tea', 'coffee', 'cocoa'), CAST(id % 3 AS INT) + 1), CAST(id % 17 AS DECIMAL(9,2)) "
    "FROM range(300)",
    f"CREATE VIEW {DATABASE}.tea AS SELECT * FROM {TABLE} WHERE product = 'tea'",
    f"CREATE MATERIALIZED VIEW {DATABASE}.daily COMMENT 'orders of each day' AS "
    f"SELECT day, product, sum(amount) AS total, count(*) AS orders FROM {TABLE} GROUP BY day, product",
)

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not PYTHON.exists(), reason="Superset is not installed: scripts/setup --with-superset"),
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="Chromium is not installed: scripts/setup --with-superset"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("superset")
    prepare(directory)
    running = Site(directory)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def shop(gateway: Gateway) -> Iterator[str]:
    """The address of a database with orders, and a materialized view of them."""
    with pyhive(gateway.host, gateway.port) as cursor:
        for statement in SETUP:
            rows(cursor, statement)
        yield f"freshgate://tester@{gateway.host}:{gateway.port}/{DATABASE}"
        rows(cursor, f"DROP MATERIALIZED VIEW {DATABASE}.daily")
        rows(cursor, f"DROP DATABASE {DATABASE} CASCADE")


@pytest.fixture(scope="module")
def seen(site: Site, shop: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the browser saw, by the name of the step."""
    pictures = Path(os.environ.get("FRESHGATE_PICTURES") or tmp_path_factory.mktemp("pictures"))
    options = {
        "browser": BROWSER,
        "driver": DRIVER,
        "url": site.url,
        "user": USER,
        "password": PASSWORD,
        "database": shop,
        "schema": DATABASE,
        "pictures": str(pictures),
    }
    done = subprocess.run(
        [str(PYTHON), str(SCRIPT)],
        input=json.dumps(options),
        capture_output=True,
        text=True,
        timeout=SCRIPT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr[-3000:]}\npictures: {pictures}\n{site.log.read_text()[-3000:]}"
    return dict(json.loads(done.stdout))


def test_a_chart_is_fresh_after_an_insert(seen: dict[str, Any]) -> None:
    """The browser logs in, reads the lists and the view, makes a dataset on it and charts, and writes to the table."""
    assert "/login" not in seen["welcome"]
    assert "90 rows" in seen["result"]
    assert {DATABASE, "default", "orders", "tea", "daily"} <= set(seen["tree"])
    databases, schemas, tables = ([name.split("\n")[-1] for name in names] for names in seen["lists"])
    assert "Tea shop" in databases
    assert {DATABASE, "default"} <= set(schemas)
    assert set(tables) == {"orders", "tea", "daily"}
    assert "returned no data" in seen["inserted"]
    assert float(seen["after"].replace(",", "")) == float(seen["before"].replace(",", "")) + 1000


@pytest.fixture(scope="module")
def caller(site: Site) -> Caller:
    return Caller(site)


@pytest.fixture(scope="module")
def connected(caller: Caller, shop: str) -> int:
    """The number of a connection to the shop."""
    caller.call("POST", "/database/test_connection/", {"sqlalchemy_uri": shop, "database_name": "calls"})
    created = {"database_name": "calls", "sqlalchemy_uri": shop, "allow_dml": True}
    return int(caller.call("POST", "/database/", created)["id"])


@pytest.fixture(scope="module")
def orders(caller: Caller, connected: int) -> int:
    """The number of a dataset on the base table."""
    created = {"database": connected, "schema": DATABASE, "table_name": "orders"}
    return int(caller.call("POST", "/dataset/", created)["id"])


def test_superset_lists_tables_and_views(caller: Caller, connected: int) -> None:
    found = caller.call("GET", f"/database/{connected}")["result"]
    assert (found["backend"], found["engine_information"]["supports_file_upload"]) == ("freshgate", False)
    assert DATABASE in caller.call("GET", f"/database/{connected}/schemas/")["result"]
    listed = caller.call("GET", f"/database/{connected}/tables/?q=(schema_name:{DATABASE})")["result"]
    assert {(each["value"], each["type"]) for each in listed} == {
        ("orders", "table"),
        ("tea", "view"),
        ("daily", "materialized_view"),
    }
    metadata = caller.call("GET", f"/database/{connected}/table_metadata/?name=daily&schema={DATABASE}")
    assert metadata["comment"] == "orders of each day"
    assert [(column["name"], column["type"]) for column in metadata["columns"]] == [
        ("day", "DATE"),
        ("product", "STRING"),
        ("total", "DECIMAL"),
        ("orders", "BIGINT"),
    ]
    extra = caller.call("GET", f"/database/{connected}/table_metadata/extra/?name=daily&schema={DATABASE}")
    assert extra["metadata"]["freshness"] in {"FRESH", "STALE"}
    extra = caller.call("GET", f"/database/{connected}/table_metadata/extra/?name=orders&schema={DATABASE}")
    assert extra["metadata"] == {}
    assert "date_trunc" in caller.call("GET", f"/database/{connected}/function_names/")["function_names"]


def test_superset_knows_the_types(caller: Caller, orders: int) -> None:
    columns = caller.call("GET", f"/dataset/{orders}")["result"]["columns"]
    temporal, string, numeric = 2, 1, 0
    assert {each["column_name"]: (each["type_generic"], each["is_dttm"]) for each in columns} == {
        "day": (temporal, True),
        "at": (temporal, True),
        "local": (temporal, True),
        "product": (string, False),
        "amount": (numeric, False),
    }


def chart(caller: Caller, dataset: int, **query: object) -> list[dict[str, Any]]:
    """The rows of a chart."""
    body = {
        "datasource": {"id": dataset, "type": "table"},
        "force": True,
        "result_format": "json",
        "result_type": "full",
        "queries": [{"row_limit": 1000, **query}],
    }
    return list(caller.call("POST", "/chart/data", body)["result"][0]["data"])


@pytest.mark.parametrize("column", ["day", "at", "local"])
def test_spark_accepts_every_time_grain(caller: Caller, connected: int, orders: int, column: str) -> None:
    grains = caller.call("GET", f"/dataset/{orders}")["result"]["time_grain_sqla"]
    assert len(grains) == 16
    for duration in [None, *(duration for duration, _ in grains)]:
        axis = {"timeGrain": duration, "columnType": "BASE_AXIS", "sqlExpression": column, "label": column}
        within = {
            "granularity": column,
            "time_range": "2026-01-05 : 2026-02-01",
            "extras": {"time_grain_sqla": duration},
        }
        found = chart(caller, orders, metrics=["count"], columns=[{**axis, "expressionType": "SQL"}], **within)
        assert sum(row["count"] for row in found) == (107 if column == "day" else 90), duration


def query(caller: Caller, connected: int, sql: str, **options: object) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the answer of SQL Lab."""
    body = {"database_id": connected, "sql": sql, "schema": DATABASE, "runAsync": False, "queryLimit": 100, **options}
    return caller.try_call("POST", "/sqllab/execute/", {"client_id": uuid.uuid4().hex[:11], **body})


def test_sql_lab_runs_the_statements_of_the_gateway(caller: Caller, connected: int) -> None:
    for sql in (
        "SHOW MATERIALIZED VIEWS",
        "REFRESH MATERIALIZED VIEW daily",
        "CREATE MATERIALIZED VIEW second ENABLE QUERY REWRITE AS SELECT count(*) AS c FROM orders",
        "EXPLAIN REFRESH MATERIALIZED VIEW second",
        "SHOW CREATE TABLE second",
        "SELECT c FROM second VERSION AS OF 1",
        "DROP MATERIALIZED VIEW second",
    ):
        status, answer = query(caller, connected, sql)
        assert (status, answer.get("status")) == (200, "success"), f"{sql}: {answer}"


def test_sql_lab_shows_errors_without_the_stack_trace(caller: Caller, connected: int) -> None:
    status, answer = query(caller, connected, "SELECT nothing FROM nowhere")
    text = json.dumps(answer)
    assert status >= 400
    assert "TABLE_OR_VIEW_NOT_FOUND" in text
    assert "infoMessages" not in text


def test_sql_lab_stops_a_query(caller: Caller, site: Site, connected: int, gateway: Gateway) -> None:
    answers: list[tuple[int, dict[str, Any]]] = []
    name, other = uuid.uuid4().hex[:11], Caller(site)

    def run() -> None:
        answers.append(query(caller, connected, SLEEPS, client_id=name))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: running(other, name), what="the query to run")
    other.call("POST", "/query/stop", {"client_id": name})
    thread.join(30)
    assert not thread.is_alive()
    ((status, answer),) = answers
    assert (status, answer["status"]) == (200, "stopped")


def running(caller: Caller, name: str) -> bool:
    """Whether a query of SQL Lab runs."""
    found = caller.call("GET", "/query/updated_since?q=(last_updated_ms:0)")["result"]
    return any((each["id"], each["state"]) == (name, "running") for each in found)
