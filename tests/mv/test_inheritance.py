"""Rows of a changed definition that are computed from the stored rows of the view that it replaces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from record_plans import recorded
from staging import staged_by
from warehouse import House, Person, Report, Warehouse

from gateway.errors import StatementFailed
from gateway.mv.freshness.drift import Drift
from gateway.mv.model.view import Freshness, MaterializedView
from gateway.mv.observation.inspection import Inspection, Inspector
from gateway.mv.ports import PlanUnavailable, SqlSession
from gateway.mv.refresh import expected_costs
from gateway.mv.refresh.expected_costs import ExpectedCosts
from gateway.mv.rewriting import inheritance
from gateway.service.clients.session import Session
from sql.classify import classify
from sql.lexed import Lexed
from sql.names import Namespace
from sql.proof import plan_json
from sql.proof.plan import Plan
from sql.statement import Method

CREATE = "CREATE MATERIALIZED VIEW s.m AS SELECT a FROM s.t"
NARROWER = "CREATE OR REPLACE MATERIALIZED VIEW s.m AS SELECT a FROM s.t WHERE a > 5"
STORED = re.compile(r"FROM \(SELECT `a` FROM (?:`\w+`\.){2}`\w+` WHERE freshgate_version = (\d+)\)")
BOUNDED = "CREATE OR REPLACE MATERIALIZED VIEW s.m AS SELECT a FROM s.t WHERE a > 50"
MIXED = re.compile(r"WHERE freshgate_version = \d+\).* UNION ALL SELECT .* FROM `spark_catalog`.`s`.`t`")
WHY = re.compile(r"Its rows are computed from the base tables, because (.*)")


class PlansAlike:
    """Every query has the same plan, but for those with a text of `others`. Implements `ports.Plans`."""

    in_place = True
    checks_rights = True

    def __init__(self) -> None:
        known = recorded()
        self._all = plan_json.read(known["SELECT g, sum(x) s FROM t GROUP BY g"])
        self._other = plan_json.read(known["SELECT g, sum(x) s FROM t WHERE x > 0 GROUP BY g"])
        self.others = "no such text"
        self.missing = False

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        yield b"name"

    async def optimized(self, session: bytes, text: str) -> Plan:
        if self.missing:
            raise PlanUnavailable("there is no plan")
        return self._other if self.others in text else self._all

    async def analyzed(self, session: bytes, text: str) -> Plan:
        return await self.optimized(session, text)


class Changing:
    """Inspects views; each time it seems to be of another state of their tables that it found no drift."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector, self._times = inspector, 0

    async def check(self, view_ids: list[str], not_before: float) -> None:
        await self._inspector.check(view_ids, not_before)

    async def inspect(self, view: MaterializedView, not_before: float) -> Inspection:
        found = await self._inspector.inspect(view, not_before)
        self._times += 1
        observed = {base: replace(each, state=str(self._times)) for base, each in found.snapshots.items()}
        return NoDrift(observed, found.looks)


class NoDrift(Inspection):
    async def drift(self, view: MaterializedView) -> Drift:
        return Drift()


class Stage:
    def __init__(self) -> None:
        self.warehouse, self.plans = Warehouse(), PlansAlike()
        self.warehouse.table("s.t")
        self.house = House(self.warehouse, plans=self.plans)

    async def replace(self, text: str = NARROWER) -> str:
        """Replaces the view; returns the statement that wrote the rows that are shown."""
        before = len(self.warehouse.texts)
        await self.house.run(text)
        (*_, written) = [each for each in self.warehouse.texts[before:] if each.startswith("INSERT ")]
        assert self.house.entry("s.m").view.storage.table in written
        return written

    async def refused(self, text: str = NARROWER) -> str:
        """The same, for rows that are computed from the base tables; returns why."""
        report = Report()
        person = Person(self.warehouse, "ada", Namespace())
        await self.house.commands.run(cast(Any, classify(Lexed(text))), cast(Session, person), report)
        assert not any(map(STORED.search, self.warehouse.texts[-20:]))
        assert self.freshness is Freshness.FRESH
        return next((found[1] for line in report if (found := WHY.match(line))), "")

    @property
    def freshness(self) -> Freshness:
        return self.house.catalog.freshness(self.house.entry("s.m").view.id)


@pytest.fixture(autouse=True)
def _slow_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every view takes long to compute, unless a test says otherwise."""
    monkeypatch.setattr(expected_costs, "QUICK_MS", 0)


staged = staged_by(Stage, lambda stage: stage.house.run(CREATE))


async def standing() -> Stage:
    stage = Stage()
    await stage.house.run(CREATE)
    return stage


@staged
async def test_rows_come_from_those_of_the_replaced_view(stage: Stage) -> None:
    old = stage.house.entry("s.m").view
    written = await stage.replace()
    found = STORED.search(written)
    assert found is not None, written
    assert found[1] == str(old.current.number)
    assert old.storage.table in written
    assert "`t`" not in written
    view = stage.house.entry("s.m").view
    assert view.id != old.id
    assert view.current.contents.others[-1][1] == old.current.contents.others[-1][1]
    assert stage.freshness is Freshness.FRESH
    (_, task), *_ = stage.house.entry("s.m").history.tasks
    assert "version 1 of the replaced view" in task.route


@staged
async def test_rows_that_the_replaced_view_does_not_have_are_added(stage: Stage) -> None:
    await stage.house.run(BOUNDED)
    old = stage.house.entry("s.m").view
    written = await stage.replace()
    assert MIXED.search(written), written
    assert "WHERE (t_0.a <= 50 OR t_0.a IS NULL) AND t_0.a > 5" in written
    view = stage.house.entry("s.m").view
    assert view.current.contents.others[-1][1] == old.current.contents.others[-1][1]
    assert stage.freshness is Freshness.FRESH
    (_, task), *_ = stage.house.entry("s.m").history.tasks
    assert task.route.endswith("and those that it does not have from the base tables")


@staged
async def test_added_rows_are_of_the_state_of_the_stored_ones(stage: Stage) -> None:
    """Otherwise everything is computed anew."""
    await stage.house.run(BOUNDED)
    hold = stage.warehouse.hold(r"^INSERT .* UNION ALL ")
    replacing = asyncio.create_task(stage.replace())
    await hold.reached.wait()
    stage.warehouse.write("s.t")
    hold.go.set()
    written = await replacing
    assert STORED.search(written) is None
    assert " UNION ALL " not in written
    assert "DROP IF EXISTS PARTITION (freshgate_version = 1)" in " ".join(stage.warehouse.texts)


@staged
async def test_rows_are_added_only_of_tables_that_can_be_compared(stage: Stage) -> None:
    await stage.house.run(BOUNDED)
    stage.house.refreshes.inheritance._inspector = cast(Any, Changing(stage.house.views.inspector))
    assert await stage.refused() == "s.t has to be read, too"


@staged
async def test_a_later_write_makes_the_new_view_stale(stage: Stage) -> None:
    await stage.replace()
    stage.warehouse.write("s.t")
    await stage.house.views.inspector.check([stage.house.entry("s.m").view.id], not_before=float("inf"))
    assert stage.freshness is Freshness.STALE


@staged
async def test_rows_of_a_stale_view_are_not_used(stage: Stage) -> None:
    stage.warehouse.write("s.t")
    assert await stage.refused() == "its base tables have changed since its last refresh"


@pytest.mark.parametrize(
    ("text", "others", "asked"),
    [
        (NARROWER, "nothing", True),
        (NARROWER, "> 5", False),
        (NARROWER.replace(" AS ", " BUILD COMPLETE AS "), "", False),
    ],
)
async def test_a_stale_view_is_refreshed_by_rows_first_if_it_has_the_new_ones(
    text: str, others: str, asked: bool
) -> None:
    stage = Stage()
    await stage.house.run(CREATE)
    stage.warehouse.write("s.t")
    stage.plans.others = others
    refresh = stage.house.refreshes.tasks.refresh = AsyncMock()  # type: ignore[method-assign]
    await stage.house.run(text)
    assert [call.args[1].method for call in refresh.call_args_list] == [Method.INCREMENTAL] * asked
    await stage.house.refreshes.tasks.stop_all()


@staged
async def test_explain_tells_whence_the_rows_come(stage: Stage) -> None:
    async def explained(text: str) -> str:
        lines = [str(line) for (line,) in await stage.house.run(f"EXPLAIN {text}")]
        return next((line for line in lines if line.startswith("rows: ")), "")

    assert await explained(NARROWER) == "rows: from the stored rows of version 1"
    assert await explained(NARROWER.replace(" AS ", " BUILD COMPLETE AS ")) == ""
    stage.warehouse.write("s.t")
    assert "if a refresh by rows makes it fresh first" in await explained(NARROWER)
    stage.plans.others = "__definition"
    assert "from the base tables, because" in await explained(NARROWER)
    assert stage.house.entry("s.m").view.query == "SELECT a FROM s.t"


@staged
async def test_rows_are_not_used_unless_it_is_proved(stage: Stage) -> None:
    stage.plans.others = "> 5"
    assert await stage.refused()


@staged
async def test_rows_are_not_used_without_plans(stage: Stage) -> None:
    stage.plans.missing = True
    assert await stage.refused() == "there is no plan"


@staged
async def test_rows_that_are_asked_for_anew_are_computed(stage: Stage) -> None:
    assert await stage.refused(NARROWER.replace(" AS ", " BUILD COMPLETE AS ", 1)) == ""


@staged
async def test_a_view_that_is_always_recomputed_is(stage: Stage) -> None:
    assert "REFRESH COMPLETE" in await stage.refused(NARROWER.replace(" AS ", " REFRESH COMPLETE AS ", 1))


async def test_what_is_computed_quickly_is_computed_anew_unless_rows_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = await standing()
    monkeypatch.setattr(expected_costs, "QUICK_MS", 60_000)
    assert "quickly" in await stage.refused()
    by_rows = NARROWER.replace(" AS ", " REFRESH INCREMENTAL FALLBACK AS ", 1)
    assert STORED.search(await stage.replace(by_rows))


async def test_the_time_of_rows_that_came_from_stored_ones_is_not_that_of_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = await standing()
    await stage.replace()
    monkeypatch.setattr(expected_costs, "QUICK_MS", 60_000)
    assert STORED.search(await stage.replace(NARROWER.replace("> 5", "> 6")))


async def test_rows_that_are_only_selected_come_from_base_tables_of_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await standing()
    monkeypatch.setattr(ExpectedCosts, "reads_little", lambda *_: True)
    # The plans of this stage are those of groups.
    assert STORED.search(await stage.replace())
    monkeypatch.setattr(inheritance, "combines_rows", lambda _: False)
    assert STORED.search(await stage.replace()) is None
    (_, task), *_ = stage.house.entry("s.m").history.tasks
    assert not task.of_replaced


@staged
async def test_rows_of_a_damaged_view_are_not_used(stage: Stage) -> None:
    entry = stage.house.entry("s.m")
    entry.examine(entry.view.current.number, "they were changed", 0.0)
    # A look would find that they were not.
    stage.house.refreshes.inheritance.wants_fresh = AsyncMock(return_value=False)  # type: ignore[method-assign]
    assert "damaged" in await stage.refused()


@staged
async def test_rows_that_miss_changes_are_not_used(stage: Stage) -> None:
    await stage.house.run("ALTER MATERIALIZED VIEW s.m SET ('excluded_trigger_tables' = 's.t')")
    assert "excluded_trigger_tables" in await stage.refused()


@staged
async def test_rows_that_were_computed_with_other_settings_are_not_used(stage: Stage) -> None:
    properties = "PROPERTIES ('session.spark.sql.ansi.enabled' = 'false')"
    assert "other settings" in await stage.refused(NARROWER.replace(" AS ", f" {properties} AS ", 1))


@staged
async def test_what_spark_does_not_write_is_computed_from_the_base_tables(stage: Stage) -> None:
    stage.warehouse.failing[r"^INSERT .*WHERE freshgate_version = 1\)"] = StatementFailed("no", "42000")
    assert STORED.search(await stage.replace()) is None
    assert stage.freshness is Freshness.FRESH


@staged
async def test_the_rows_stay_while_they_are_read(stage: Stage) -> None:
    old = stage.house.entry("s.m").view
    hold = stage.warehouse.hold(r"^INSERT .*WHERE freshgate_version = 1\)")
    replacing = asyncio.create_task(stage.replace())
    await hold.reached.wait()
    current = old.current
    assert stage.house.versions.readers.count(old.id, current.number, 0, None) == 1
    # A write meanwhile is not in the rows, which come from before.
    stage.warehouse.write("s.t")
    hold.go.set()
    await replacing
    await stage.house.views.inspector.check([stage.house.entry("s.m").view.id], not_before=float("inf"))
    assert stage.freshness is Freshness.STALE
    assert stage.house.versions.readers.count(old.id, current.number, 0, None) == 0
