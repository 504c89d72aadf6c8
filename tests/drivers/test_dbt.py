"""Tests dbt with its Spark adapter, and with dbt-freshgate: models that read a materialized view that dbt builds."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from byte_chain import Chain, assert_same_bytes
from clients import pyhive, rows
from drivers.contents import USER, Reference, Server
from jars import ROOT

PROJECT = Path(__file__).parent / "dbt_project"
ADAPTER = ROOT / "conf" / "dbt-freshgate"
PYTHON = Path(os.environ.get("FRESHGATE_DBT_PYTHON") or ROOT / ".cache" / "dbt" / "bin" / "python")
SCHEMA = "shop"
SECONDS = 300.0
Results = dict[str, str]


def dbt(server: Server, place: Path, *arguments: str, totals: str = "materialized_view", by: str = "spark") -> Results:
    """Runs dbt with an adapter, and returns the status of each node of its project. dbt writes its files below
    `place`."""
    done = subprocess.run(
        # The `dbt` script would not do: it contains the path at which the environment was created.
        [str(PYTHON), "-m", "dbt.cli.main", *arguments, "--target", by, "--vars", json.dumps({"totals": totals})],
        cwd=PROJECT,
        env={
            **os.environ,
            "PYTHONPATH": str(ADAPTER),
            "DBT_PROFILES_DIR": str(PROJECT),
            "DBT_TARGET_PATH": str(place / "target"),
            "DBT_LOG_PATH": str(place / "logs"),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "DBT_USE_COLORS": "false",
            "SHOP_HOST": server.host,
            "SHOP_PORT": str(server.port),
            "SHOP_USER": USER,
            "SHOP_SCHEMA": SCHEMA,
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((place / "target" / "run_results.json").read_text(encoding="utf-8"))
    return {each["unique_id"]: each["status"] for each in results["results"]}


def contents(server: Server) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every model."""
    with pyhive(server.host, server.port, USER, database=SCHEMA) as cursor:
        models = ("orders", "daily_totals", "best_days", "days_above_average", "days_so_far")
        return {model: sorted(rows(cursor, f"SELECT * FROM {model}")) for model in models}


def plain_project(server: Server, place: Path) -> list[Any]:
    """Builds the project with features of Spark alone, the incremental model twice."""
    try:
        return [
            dbt(server, place, "build", totals="view"),
            dbt(server, place, "run", "--select", "days_so_far", totals="view"),
            contents(server),
        ]
    finally:
        with pyhive(server.host, server.port, USER) as cursor:
            rows(cursor, f"DROP DATABASE IF EXISTS {SCHEMA} CASCADE")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dbt")


@pytest.mark.thorough
def test_dbt_builds_a_project_without_materialized_views(server: Server, reference: Reference, place: Path) -> None:
    built, again, found = reference.answer(server, plain_project, place)
    assert set(built.values()) == {"success", "pass"}
    assert set(again.values()) == {"success"}
    assert [str(row[0]) for row in found["best_days"]] == ["2026-01-01"]


@pytest.mark.thorough
def test_dbt_builds_a_project_with_a_materialized_view(through: Server, place: Path) -> None:
    view = "model.shop.daily_totals"
    build = partial(dbt, through, place, by="freshgate")
    try:
        built = build("build")
        assert set(built.values()) == {"success", "pass"}
        assert built[view] == "success"
        with pyhive(through.host, through.port, USER, database=SCHEMA) as cursor:
            assert [row[1] for row in rows(cursor, f"SHOW MATERIALIZED VIEWS IN {SCHEMA}")] == ["daily_totals"]
            (version,) = [row[3] for row in rows(cursor, f"SHOW MATERIALIZED VIEWS IN {SCHEMA}")]
        build("run-operation", "insert_order", "--args", "{day: 2026-01-02, amount: 41}")
        # best_days reads the view and so refreshes it, although this run does not build the view.
        assert build("run", "--select", "best_days") == {"model.shop.best_days": "success"}
        found = contents(through)
        assert [(str(day), total) for day, total in found["best_days"]] == [("2026-01-01", 15), ("2026-01-02", 42)]
        again = build("build", "--exclude", "resource_type:seed")
        assert set(again.values()) == {"success", "pass"}
        build("run-operation", "refresh", "--args", f"{{view: {SCHEMA}.daily_totals}}")
        with pyhive(through.host, through.port, USER, database=SCHEMA) as cursor:
            shown = rows(cursor, f"SHOW MATERIALIZED VIEWS IN {SCHEMA}")
            assert [(row[1], row[2]) for row in shown] == [("daily_totals", "FRESH")]
            assert shown[0][3] > version
        assert build("run", "--full-refresh", "--select", "daily_totals") == {view: "success"}
        # dbt drops the view when the model becomes something else.
        assert build("run", "--select", "daily_totals", totals="table") == {view: "success"}
        with pyhive(through.host, through.port, USER, database=SCHEMA) as cursor:
            assert rows(cursor, f"SHOW MATERIALIZED VIEWS IN {SCHEMA}") == []
    finally:
        with pyhive(through.host, through.port, USER) as cursor:
            rows(cursor, f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
            for row in rows(cursor, f"SHOW MATERIALIZED VIEWS IN {SCHEMA}"):
                rows(cursor, f"DROP MATERIALIZED VIEW {SCHEMA}.{row[1]}")
            rows(cursor, f"DROP DATABASE {SCHEMA} CASCADE")


@pytest.mark.thorough
def test_dbt_sees_the_bytes_of_spark(recorded: Chain, place: Path) -> None:
    plain_project(Server("recorded", recorded.host, recorded.port), place)
    assert assert_same_bytes(recorded)["ExecuteStatement"] > 20
