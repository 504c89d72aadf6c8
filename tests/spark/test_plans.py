"""Tests that the embedded engine writes the plans of texts in a client's session."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from increment_faults import DEFINITIONS, of_places, of_texts
from outlines import outline_of
from planning import Planner, planner
from processes import Engine
from record_explanations import explain, increments_database
from record_plans import database, plans_of, recorded

from gateway.errors import UpstreamLost
from gateway.mv.ports import PlanUnavailable
from gateway.spark.plans import EnginePlans
from sql.column_lineage import NotTraced, Sources, column_lineage
from sql.increments.agreement import disagreement, marked
from sql.increments.outline import Outline
from sql.proof import plan_json
from sql.proof.checker import NotProved, Proved, prove
from sql.proof.plan import nodes_of
from sql.query.explanations import NoPlan

DEADLINE_SECONDS = 300.0


def run(engine: Engine, check: Callable[[Planner], Awaitable[None]]) -> None:
    async def within_deadline() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), planner(engine) as working:
            await check(working)

    asyncio.run(within_deadline())


def test_a_plan_has_the_settings_and_temporary_views_of_its_session(engine: Engine) -> None:
    async def check(working: Planner) -> None:
        await working.session.run("CREATE TEMPORARY VIEW mine AS SELECT 1 AS x, 2 AS y")
        ansi = await working.plan("SELECT sum(x + y) s FROM mine")
        await working.session.run("SET spark.sql.ansi.enabled=false")
        legacy = await working.plan("SELECT sum(x + y) s FROM mine")
        modes = [
            {str(node.fields.get("evalMode")) for node in nodes_of(plan.root) if "evalMode" in node.fields}
            for plan in (ansi, legacy)
        ]
        assert len(modes[0]) == len(modes[1]) == 1
        assert modes[0] != modes[1]

    run(engine, check)


def test_planning_executes_nothing_and_leaves_the_session_as_it_was(engine: Engine) -> None:
    async def check(working: Planner) -> None:
        await working.session.run("SELECT 1")  # Spark adds a setting of its own after a session's first statement.
        before = (await working.session.run("SET")).rows
        await working.plan("CREATE TABLE never_created (x INT) USING parquet")
        await working.plan("SET spark.sql.ansi.enabled=false")
        await working.plan("SELECT 1 AS x")
        assert (await working.session.run("SET")).rows == before
        assert (await working.session.run("SHOW TABLES LIKE 'never_created'")).rows == []

    run(engine, check)


@pytest.mark.parametrize(
    ("text", "reason"), [("SELECT nothing", "UNRESOLVED_COLUMN"), ("SELECT 1 +", "PARSE_SYNTAX_ERROR")]
)
def test_a_text_that_spark_refuses_has_no_plan(engine: Engine, text: str, reason: str) -> None:
    async def check(working: Planner) -> None:
        with pytest.raises(PlanUnavailable, match=reason):
            await working.plan(text)

    run(engine, check)


def test_a_session_that_ended_has_no_plans(engine: Engine) -> None:
    async def check(working: Planner) -> None:
        with pytest.raises(UpstreamLost, match="session has ended"):
            await EnginePlans(working.asking).optimized(uuid.uuid4().bytes, "SELECT 1")

    run(engine, check)


def test_a_cached_table_is_planned_as_a_table(engine: Engine) -> None:
    async def check(working: Planner) -> None:
        await working.session.run("CREATE TABLE cached_once (x INT) USING parquet")
        try:
            before = await working.plan("SELECT x FROM cached_once")
            await working.session.run("CACHE TABLE cached_once")
            assert prove(before, await working.plan("SELECT x FROM cached_once")) == Proved()
        finally:
            await working.session.run("DROP TABLE cached_once")

    run(engine, check)


def test_a_table_made_again_is_another_one(engine: Engine) -> None:
    async def check(working: Planner) -> None:
        await working.session.run("CREATE TABLE made_again (x INT) USING parquet")
        before = await working.plan("SELECT x FROM made_again")
        await working.session.run("DROP TABLE made_again")
        await working.session.run("CREATE TABLE made_again (x INT) USING orc")
        try:
            assert isinstance(prove(before, await working.plan("SELECT x FROM made_again")), NotProved)
        finally:
            await working.session.run("DROP TABLE made_again")

    run(engine, check)


def test_recorded_plans_are_those_of_spark(engine: Engine) -> None:
    """`tests/record_plans.py` records them again. Ids of columns differ from one run to the next."""

    async def check(working: Planner) -> None:
        async with database(working):
            plans = await plans_of(working)
        assert plans.keys() == recorded().keys()
        differing = [text for text, plan in recorded().items() if shape(plan) != shape(plans[text])]
        assert differing == []

    def shape(written: str) -> list[Any]:
        plan = plan_json.read(written)
        kinds = sorted((node.kind, node.type, *sorted(node.fields)) for node in nodes_of(plan.root))
        return [[(each.name, each.type) for each in plan.output], sorted(plan.constants), kinds]

    run(engine, check)


def test_an_analysis_agrees_with_the_plans_of_this_spark(engine: Engine) -> None:
    """`tests/record_explanations.py` records more of them for the fast tests."""

    async def check(working: Planner) -> None:
        async with increments_database(working):
            explained = {text: await explain(working, text) for text in sampled_texts()}
        for text, outline in SAMPLED.items():
            assert disagreement(outline, explained[text], explained[marked(outline)]) is None, text
        missed = [text for text, wrong in WRONG if not differs(wrong, explained[text], explained[marked(wrong)])]
        assert missed == []

    def differs(outline: Outline, definition: str, read: str) -> bool:
        try:
            return disagreement(outline, definition, read) is not None
        except NoPlan:
            return True

    run(engine, check)


SAMPLED = {text: outline_of(text, columns) for text, columns in DEFINITIONS[::9]}
WRONG = [(text, wrong) for _, text, wrong in of_texts() if text in SAMPLED]
WRONG += [(text, wrong) for text, outline in SAMPLED.items() for _, wrong in of_places(outline)]


def sampled_texts() -> set[str]:
    return {*SAMPLED, *map(marked, SAMPLED.values()), *(marked(wrong) for _, wrong in WRONG)}


def test_without_an_answer_there_is_no_plan() -> None:
    class Silent:
        async def ask(self, request: dict[str, str], seconds: float) -> dict[str, Any] | None:
            return None

    with pytest.raises(PlanUnavailable, match="no plan in time"):
        asyncio.run(EnginePlans(Silent()).optimized(bytes(16), "SELECT 1"))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("java.lang.IllegalArgumentException: Spark has no session 1.", UpstreamLost),
        ("org.apache.hive.service.cli.HiveSQLException: Invalid SessionHandle: SessionHandle [1]", UpstreamLost),
        ("org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]", PlanUnavailable),
    ],
)
def test_a_session_that_ends_while_it_plans_says_nothing_of_the_query(error: str, expected: type[Exception]) -> None:
    class Refusing:
        async def ask(self, request: dict[str, str], seconds: float) -> dict[str, Any]:
            return {"error": error}

    with pytest.raises(expected):
        asyncio.run(EnginePlans(Refusing()).optimized(bytes(16), "SELECT 1"))


FOLLOWED = {
    "SELECT day, sum(amount) total, count(*) n FROM filtered GROUP BY day": {
        "day": "t.day:IDENTITY",
        "total": "t.amount:AGGREGATION",
        "n": "",
        "": "t.day:GROUP_BY t.id:FILTER",
    },
    "WITH x AS (SELECT shop, CASE WHEN id > 1 THEN amount ELSE 0 END a FROM t) SELECT s.city, x.a, sha2(x.shop, 256) h,"
    " row_number() OVER (PARTITION BY s.city ORDER BY x.a) r FROM x JOIN s ON x.shop = s.shop": {
        "city": "s.city:IDENTITY",
        "a": "t.amount:TRANSFORMATION t.id:CONDITIONAL",
        "h": "t.shop:TRANSFORMATION",
        "r": "s.city:WINDOW t.amount:WINDOW t.id:WINDOW",
        "": "s.shop:JOIN t.shop:JOIN",
    },
    "SELECT max(id) m, (SELECT max(city) FROM s) c FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.city <> 'x') "
    "UNION ALL SELECT 1, city FROM s WHERE shop IN (SELECT shop FROM t)": {
        "m": "t.id:AGGREGATION",
        "c": "s.city:AGGREGATION+IDENTITY",
        "": "s.city:FILTER s.shop:FILTER t.shop:FILTER",
    },
    "SELECT id, tag FROM t LATERAL VIEW explode(tags) e AS tag ORDER BY day LIMIT 3": {
        "id": "t.id:IDENTITY",
        "tag": "t.tags:TRANSFORMATION",
        "": "t.day:SORT",
    },
    "SELECT shop, sum(amount) a, grouping_id() g FROM t GROUP BY CUBE (shop, day)": {
        "shop": "t.shop:IDENTITY",
        "a": "t.amount:AGGREGATION",
        "g": "",
        "": "t.day:GROUP_BY t.shop:GROUP_BY",
    },
    "SELECT DISTINCT shop FROM t INTERSECT SELECT shop FROM s": {
        "shop": "s.shop:IDENTITY t.shop:IDENTITY",
        "": "t.shop:GROUP_BY",
    },
    "SELECT t.id, u.n FROM t, LATERAL (SELECT count(*) n FROM s WHERE s.shop = t.shop) u": {
        "id": "t.id:IDENTITY",
        "n": "",
        "": "s.shop:FILTER t.shop:FILTER",
    },
    "SELECT sum(amount) a FROM t JOIN (VALUES (1)) v(k) ON id = k": {
        "a": "t.amount:AGGREGATION",
        "": "t.id:JOIN",
    },
}
"""Queries, and what their columns are computed from; "" stands for what decides about rows."""


def _uses(sources: Sources) -> str:
    found = sorted((f"{each.table.table}.{each.column}", sorted(uses)) for each, uses in sources.items())
    return " ".join(f"{source}:{'+'.join(use.effect for use in uses)}" for source, uses in found)


def test_what_columns_are_computed_from_is_found_in_analyzed_plans(engine: Engine) -> None:
    async def check(working: Planner) -> None:
        for text in (
            "CREATE DATABASE followed",
            "USE followed",
            "CREATE TABLE t (id INT, amount DECIMAL(10,2), day DATE, shop STRING, tags ARRAY<STRING>) USING parquet",
            "CREATE TABLE s (shop STRING, city STRING) STORED AS TEXTFILE",
            "CREATE VIEW filtered AS SELECT * FROM t WHERE id > 0",
        ):
            await working.session.run(text)
        try:
            for text, wanted in FOLLOWED.items():
                found = column_lineage(await working.analyzed(text))
                uses = {name: _uses(each) for name, each in {**found.columns, "": found.whole}.items()}
                assert uses == wanted, text
                assert all(each.endswith(f"/followed.db/{table.table}") for table, each in found.locations.items())
            (location,) = column_lineage(await working.analyzed("SELECT id FROM t")).locations.values()
            files = await working.analyzed(f"SELECT * FROM text.`{location}`")
            with pytest.raises(NotTraced, match="not a table of the catalog"):
                column_lineage(files)
        finally:
            await working.session.run("DROP DATABASE followed CASCADE")

    run(engine, check)
