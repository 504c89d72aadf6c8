"""Tests of plans read from the text of EXPLAIN: recorded answers of Spark, changed ones, and a real Spark."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from fake_spark import Answer
from plan_pairs import PAIRS, VIEWS, Pair
from planning import planner, renumbered
from processes import Engine
from record_plans import DATABASE, database, key, recorded, recorded_answers
from tiers import EVERYTHING

from gateway.errors import StatementFailed
from gateway.mv.ports import PlanUnavailable
from gateway.spark.plan_texts import TextPlans
from sql.proof import plan_json
from sql.proof.checker import Proved, can_be_stored, prove
from sql.proof.plan import Plan

recorded, recorded_answers = cache(recorded), cache(recorded_answers)
SUM = "SELECT g, sum(x) s FROM t GROUP BY g"
OF_SPARK = PAIRS if EVERYTHING else PAIRS[::5]
"""What the real Spark explains again."""
PROVED_LEAST = 46
"""Of the pairs whose exact plans are proved to be equal."""


class Recorded:
    """A session that answers as Spark did. Implements `mv.ports.SqlSession`."""

    def __init__(self, what: str = "", change: Callable[[str, list[Any]], list[Any]] = lambda _, rows: rows) -> None:
        self._answers = recorded_answers()[what]
        self._change = change
        self.asked: list[str] = []

    async def run(self, sql: str, *, on_start: object = None) -> Answer:
        self.asked.append(sql)
        # How plans are shown may change without a new recording.
        given: list[Any] | None = [] if sql.startswith("SET ") and "=" in sql else self._answers.get(sql)
        if given is None:
            raise StatementFailed(f"Spark was not asked {sql}")
        return Answer([tuple(row) for row in self._change(sql, given)])

    def spoil(self) -> None: ...


def plan(text: str, session: Recorded) -> Plan:
    async def read() -> Plan:
        plans = TextPlans()
        async with plans.of(session) as name:
            return await plans.optimized(name, " ".join(text.split()))

    return asyncio.run(read())


def outcome(pair: Pair) -> bool | str:
    """Whether the texts prove the pair, or why there are no plans. Plans are those that exact plans are."""
    what = pair.what if pair.settings else ""
    if what not in recorded_answers():
        return "not recorded"
    session, plans = Recorded(what), []
    for text in (pair.query, pair.rewritten):
        try:
            plans.append(plan(text, session))
        except PlanUnavailable as error:
            return str(error)
        assert renumbered(plans[-1]) == renumbered(plan_json.read(recorded()[key(pair, text)])), text
    return prove(plans[0], plans[1]) == Proved()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.what)
def test_a_text_yields_the_exact_plan_or_none(pair: Pair) -> None:
    assert not (pair.reason and outcome(pair) is True)


def test_most_right_pairs_are_proved() -> None:
    outcomes = {pair.what: outcome(pair) for pair in PAIRS if not pair.reason}
    proved = [what for what, found in outcomes.items() if found is True]
    assert len(proved) >= PROVED_LEAST, outcomes


@pytest.mark.parametrize("name", sorted(VIEWS.keys() - {"v", "plain", "ranked"}))
def test_definitions_can_be_stored(name: str) -> None:
    found = plan(VIEWS[name], Recorded())
    assert can_be_stored(found) == Proved()


def test_windows_are_not_read() -> None:
    with pytest.raises(PlanUnavailable, match="Window"):
        plan(VIEWS["ranked"], Recorded())


def changed(sql: str, before: str, after: str) -> Callable[[str, list[Any]], list[Any]]:
    """Another answer to a statement that begins so."""

    def change(asked: str, rows: list[Any]) -> list[Any]:
        if not asked.startswith(sql):
            return rows
        text = json.dumps(rows)
        assert before in text
        return list(json.loads(text.replace(before, after)))

    return change


EXPLAIN = "EXPLAIN EXTENDED"
CREATED = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed("DESCRIBE QUERY", '"bigint"', '"int"'), "does not show the types of all columns"),
        (changed("DESCRIBE TABLE", r"\"provider\":\"parquet", r"\"provider\":\"jdbc"), "of the format jdbc"),
        (changed("DESCRIBE TABLE", r"\"name\":\"x\"", r"\"name\":\"xx\""), "does not show the columns"),
        (changed(EXPLAIN, "sum(x#", "try_sum(x#"), "enough of the function try_sum"),
        (changed(EXPLAIN, "sum(x#", "mine(x#"), "enough of the function mine"),
        (changed(EXPLAIN, "+- Project", "+- Sample 0.0, 0.5, false, 7"), "the plan node Sample"),
        (changed(EXPLAIN, "+- Project", "+- Project (2)"), "a part that is not understood"),
        (changed(EXPLAIN, "spark_catalog.recorded.t[", "parquet.t["), "not a table of the catalog"),
        (changed(EXPLAIN, "== Optimized Logical Plan ==", "== Optimized =="), "does not explain"),
        (changed(EXPLAIN, "   +- Relation", "      +- Relation"), "not laid out as a tree"),
    ],
)
def test_what_is_not_understood_is_no_plan(change: Callable[[str, list[Any]], list[Any]], reason: str) -> None:
    assert plan(SUM, Recorded())
    with pytest.raises(PlanUnavailable, match=reason):
        plan(SUM, Recorded("", change))


def test_a_table_that_changes_meanwhile_has_no_plan() -> None:
    times = iter(range(100))

    def change(sql: str, rows: list[Any]) -> list[Any]:
        changed: list[Any] = json.loads(json.dumps(rows).replace("00:00:00Z", f"00:00:{next(times):02}Z"))
        return changed

    with pytest.raises(PlanUnavailable, match="is being changed"):
        plan(SUM, Recorded("", change))


def test_a_table_made_again_is_another_one() -> None:
    remade = changed("DESCRIBE TABLE", CREATED, "2026-01-02T00:00:00Z")
    assert prove(plan(SUM, Recorded()), plan(SUM, Recorded())) == Proved()
    assert prove(plan(SUM, Recorded()), plan(SUM, Recorded("", remade))) != Proved()


def test_the_settings_of_the_session_are_those_of_the_views() -> None:
    """The text of a sum is the same in ANSI mode and without."""
    text = "SELECT g, sum(sx) s FROM joined GROUP BY g"
    assert plan(text, Recorded())
    legacy = changed("DESCRIBE TABLE", 'ansi.enabled\\":\\"true', 'ansi.enabled\\":\\"false')
    with pytest.raises(PlanUnavailable, match=r"another spark\.sql\.ansi\.enabled"):
        plan(text, Recorded("", lambda sql, rows: legacy(sql, rows) if "joined" in sql else rows))


def test_a_view_that_a_refresh_has_published_is_planned() -> None:
    """Its session writes otherwise than others, which no query sees."""
    text, begins = "SELECT g, sum(sx) s FROM joined GROUP BY g", r"view_creation_spark_configuration\":{"
    for name, planned in (("sources.partitionOverwriteMode", True), ("legacy.sizeOfNull", False)):
        added = rf"{begins}\"spark.sql.{name}\":\"dynamic\","
        session = Recorded("", changed("DESCRIBE TABLE EXTENDED `spark_catalog`.`recorded`.`joined`", begins, added))
        if planned:
            assert plan(text, session) == plan(text, Recorded())
        else:
            with pytest.raises(PlanUnavailable):
                plan(text, session)


def test_the_session_is_prepared_for_nothing_but_plans() -> None:
    session = Recorded()
    plan(SUM, session)
    changes = [sql for sql in session.asked if sql.startswith("SET ") and "=" in sql]
    assert any(sql.startswith("SET spark.sql.optimizer.excludedRules=") for sql in changes)
    assert any(sql.startswith("SET spark.sql.debug.maxToStringFields=") for sql in changes)


def test_texts_of_spark_yield_exact_plans(engine: Engine) -> None:
    """The recorded answers are those of Spark: its texts now yield the plans that they yield."""

    async def check() -> None:
        async with planner(engine) as exact, planner(engine) as explaining, database(exact):
            await explaining.session.run(f"USE {DATABASE}")
            await explaining.session.run("SET TIME ZONE 'UTC'")
            plans = TextPlans()
            async with plans.of(explaining.session) as name:
                for pair in (pair for pair in OF_SPARK if not pair.settings):
                    for text in (pair.query, pair.rewritten):
                        text = " ".join(text.split())
                        try:
                            found = renumbered(await plans.optimized(name, text))
                        except PlanUnavailable:
                            with pytest.raises(PlanUnavailable):
                                await asyncio.to_thread(plan, text, Recorded())
                            continue
                        assert found == renumbered(await exact.plan(text)), text
                        assert found == renumbered(await asyncio.to_thread(plan, text, Recorded())), text

    asyncio.run(check())
