"""How a refresh is cut into INSERTs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import view_of

from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.planner import NAMED_TOGETHER, plan_refresh
from sql.texts.storage_layout import Selection

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
