"""Tests the Node package `hive-driver`, with a process per session."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from byte_chain import Chain, assert_same_bytes
from drivers.contents import (
    COLUMNS,
    DATABASE,
    ERRORS,
    EVERY_TYPE,
    NO_ROWS,
    NOTHING,
    PAGED,
    PAGES,
    SLEEPS,
    USER,
    Reference,
    Server,
    first_line,
    life,
)
from jars import ROOT
from tiers import sampled

SCRIPT = Path(__file__).parent / "node" / "session.cjs"
PACKAGES = ROOT / ".cache" / "node" / "node_modules"
SECONDS = 120.0
CLI_DBMS_NAME = 17
Step = dict[str, Any]


def session(server: Server, *steps: Step, sasl: bool = True) -> list[dict[str, Any]]:
    """Runs the steps in one session, and returns their outcomes; see the script."""
    given = {
        "host": server.host,
        "port": server.port,
        "user": USER,
        "sasl": sasl,
        "database": DATABASE,
        "steps": steps,
    }
    done = run_script(given)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    for outcome in outcomes:
        if "failed" in outcome:
            outcome["message"] = first_line(outcome["message"])
    return list(outcomes)


def run_script(given: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", str(SCRIPT)],
        input=json.dumps(given),
        env={**os.environ, "NODE_PATH": str(PACKAGES)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def reads(server: Server) -> list[dict[str, Any]]:
    metadata = (
        {"call": "getTypeInfo"},
        {"call": "getCatalogs"},
        {"call": "getSchemas", "request": {"schemaName": f"{DATABASE}%"}},
        {"call": "getTables", "request": {"schemaName": DATABASE, "tableName": "%"}},
        {"call": "getColumns", "request": {"schemaName": DATABASE, "tableName": "every_type", "columnName": "%"}},
        {"call": "getFunctions", "request": {"schemaName": DATABASE, "functionName": "abs"}},
        {"call": "getPrimaryKeys", "request": {"schemaName": DATABASE, "tableName": "orders"}},
    )
    return session(
        server,
        {"info": CLI_DBMS_NAME},
        {"sql": EVERY_TYPE},
        {"sql": NO_ROWS},
        {"sql": NOTHING},
        {"sql": PAGES, "maxRows": 1000},
        *({"sql": sql} for sql in ERRORS),
        {"sql": SLEEPS, "cancel": True},
        {"sql": "SELECT 1 AS one"},
        {"sql": SLEEPS, "seconds": 1},
        *metadata,
    )


def test_the_node_driver_reads_and_lists(server: Server, reference: Reference) -> None:
    name, every, none, nothing, pages, *rest = reference.answer(server, reads)
    assert [row["nothing"] for row in nothing["rows"]] == [None, None]
    assert name["rows"] == ["Spark SQL"]
    assert [list(row) for row in every["rows"]] == [["id", *COLUMNS]] * 4
    assert [
        every["rows"][number][words] for number, words in ((0, "padded"), (1, "words"), (2, "day"), (3, "words"))
    ] == [
        "ab   ",
        "ü 😀\ttab",
        None,
        "",
    ]
    assert none["rows"] == []
    assert [(row["id"], row["words"]) for row in pages["rows"]] == PAGED
    assert pages["fetches"] > 2
    failures, rest = rest[: len(ERRORS)], rest[len(ERRORS) :]
    (cancelled, following, late), metadata = rest[:3], rest[3:]
    assert [failure["state"] for failure in failures] == list(ERRORS.values())
    assert cancelled["message"] == "The operation was canceled by a client"
    assert following["rows"] == [{"one": 1}]
    assert "failed" in late
    types, catalogs, schemas, tables, columns, functions, keys = (answer["rows"] for answer in metadata)
    assert len(types) > 10
    assert [row["TABLE_SCHEM"] for row in schemas] == [DATABASE]
    assert sorted(row["TABLE_NAME"] for row in tables) == ["every_type", "orders", "orders_view"]
    assert [row["COLUMN_NAME"] for row in columns] == ["id", *COLUMNS]
    assert (catalogs, keys) == ([], [])
    assert "abs" in {row["FUNCTION_NAME"] for row in functions}


def test_the_node_driver_works_without_sasl(through: Server, direct: Server) -> None:
    """The tests' Spark requires SASL; the gateway accepts clients with and without SASL."""
    assert session(through, {"sql": EVERY_TYPE}, sasl=False) == session(direct, {"sql": EVERY_TYPE})


@pytest.mark.parametrize("sasl", sampled([True, False], {"True"}))
def test_the_node_driver_runs_the_life_cycle_of_a_view(through: Server, life_database: str, sasl: bool) -> None:
    steps = life(f"{life_database}.orders", f"{life_database}.totals")
    outcomes = session(through, *({"sql": statement} for statement, _ in steps), sasl=sasl)
    for (statement, expected), outcome in zip(steps, outcomes, strict=True):
        assert "failed" not in outcome, (statement, outcome)
        if expected is not None:
            found = [tuple(str(value).lower() for value in row.values()) for row in outcome["rows"]]
            assert found == expected, statement


@pytest.mark.thorough
def test_the_node_driver_sees_the_bytes_of_spark(recorded: Chain) -> None:
    server = Server("recorded", recorded.host, recorded.port)
    reads(server)
    assert session(server, {"sql": f"SELECT n FROM {recorded.database}.m"}, sasl=False)[0]["fetches"] > 0
    assert assert_same_bytes(recorded)["CancelOperation"] == 1
