"""How a refresh is cut into INSERTs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import view_of

from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.planner import NAMED_TOGETHER, SHUFFLES, Copied, Exact, Merged, plan_refresh
from sql.statement import CreateClauses
from sql.texts.maintenance import RowsQuery
from sql.texts.storage_layout import UNPARTITIONED, Selection

DAYS = [f"day{number:04}" for number in range(2 * NAMED_TOGETHER + 1)]


def view(**properties: str) -> MaterializedView:
    return replace(view_of(Version.whole(1, 0, 0, {})), properties=properties)


@pytest.mark.parametrize(
    ("view", "changed", "expected"),
    [
        (view(), len(DAYS), [NAMED_TOGETHER, NAMED_TOGETHER, 1]),
        (view(), NAMED_TOGETHER, [NAMED_TOGETHER]),
        (view(refresh_partition_num="50"), 120, [50, 50, 20]),
        (view(refresh_partition_num="300"), len(DAYS), [300, 101]),
    ],
)
def test_one_insert_names_not_too_many_partitions(view: MaterializedView, changed: int, expected: list[int]) -> None:
    """The metastore's filters nest once for each of them."""
    chosen = Selection(frozenset(DAYS[:changed]), all_but=False)
    plan = plan_refresh(view, 2, "some", Habits(), chosen=chosen)
    named = [[day for day in DAYS if f"'{day}'" in step.sql] for step in plan.write if step.inserts]
    assert [len(days) for days in named] == expected
    assert sorted(day for days in named for day in days) == DAYS[:changed]


@pytest.mark.parametrize(
    ("view", "known", "kept", "expected", "parts"),
    [
        (view(), 5, 2, 3, [3]),
        (view(refresh_partition_num="2"), 5, 2, 3, [2, 1]),
        (view(), 5, 0, 0, [0]),
        (view(refresh_partition_num="2"), 5, 0, 5, [2, 2, 1]),
    ],
)
def test_of_all_but_some_the_plan_knows_those_that_anybody_knows(
    view: MaterializedView, known: int, kept: int, expected: int, parts: list[int]
) -> None:
    """The last INSERT writes those that nobody knew, too."""
    chosen = Selection(frozenset(DAYS[:kept]), all_but=True)
    plan = plan_refresh(view, 2, "some", Habits(), chosen=chosen, known=frozenset(DAYS[:known]))
    assert plan.written == frozenset(DAYS[kept : kept + expected])
    assert [step.partitions for step in plan.write if step.inserts] == parts


def test_immutable_rows_are_those_of_the_time_when_the_version_was_computed() -> None:
    """A later refresh that only copied rows, or wrote single partitions, decides nothing."""
    current = replace(Version.whole(3, 5, 6, {}), computed_at=4)
    given = replace(view_of(current), layout=UNPARTITIONED, clauses=CreateClauses(immutable="day < current_date()"))
    plan = plan_refresh(given, 4, "some", Habits())
    assert plan.past == "coalesce((day < CAST(timestamp_millis(4) AS DATE)), false)"
    (step,) = [step for step in plan.write if step.inserts]
    past, rest = step.sql.split(" UNION ALL ")
    assert "WHERE freshgate_version = 3" in past
    assert f"WHERE {plan.past}" in past
    assert "v__definition" in rest
    assert f"WHERE NOT {plan.past}" in rest


def test_what_is_built_first_and_what_is_copied_has_no_past() -> None:
    clauses = CreateClauses(immutable="day < current_date()")
    new = replace(view_of(Version.whole(1, 5, 6, {})), clauses=clauses)
    assert not plan_refresh(new, 1, "first build", Habits()).past
    assert not plan_refresh(new, 2, "copied", Habits(), source=Copied(Exact(RowsQuery("SELECT 1")))).past
    assert not plan_refresh(replace(new, current=Version.whole(NEVER_BUILT, 0, 0, {})), 2, "first", Habits()).past
    assert plan_refresh(new, 2, "some", Habits()).past


def test_rows_that_are_added_to_the_past_are_left_out() -> None:
    current = Version.whole(3, 5, 6, {})
    given = replace(view_of(current), layout=UNPARTITIONED, clauses=CreateClauses(immutable="day < 3"))
    source = Merged(Exact(RowsQuery("SELECT added", ("freshgate_n",))), appends=True, shuffles=20)
    assert plan_refresh(given, 4, "some", Habits(), source=source).wished == {SHUFFLES: "20"}
    assert not plan_refresh(given, 4, "some", Habits()).wished
    (step,) = [step for step in plan_refresh(given, 4, "some", Habits(), source=source).write if step.inserts]
    assert "UNION ALL" not in step.sql
    assert "WHERE NOT coalesce((day < 3), false)" in step.sql


@pytest.mark.parametrize(("chosen", "stored"), [(Selection(frozenset({"1"})), False), (Selection(), True)])
def test_immutable_partitions_stay_in_place_if_the_version_does_not_replace_them(
    chosen: Selection, stored: bool
) -> None:
    given = replace(view_of(Version.whole(3, 5, 6, {})), clauses=CreateClauses(immutable="day < '2'"))
    plan = plan_refresh(given, 4, "some", Habits(), chosen=chosen, kept=chosen.keys)
    (step,) = [step for step in plan.write if step.inserts]
    assert ("freshgate_version = 3" in step.sql) == stored
    assert "IN ('1')" not in step.sql
    assert "NOT coalesce((day < '2'), false)" in step.sql
    assert plan.manifest.writer("1") == (4 if stored else 3)
