"""Tests that each of the 35 known ways to rewrite a query wrongly has a test.

Those of `tests/plan_pairs.py` begin with the number of the trap; the others are named here.
"""

from __future__ import annotations

import re
from pathlib import Path

from plan_pairs import PAIRS, UNSTORABLE

TESTS = Path(__file__).parent.parent
TRAPS = range(1, 36)
ELSEWHERE = {
    21: ("sql/test_mixture.py", "test_each_row_comes_from_one_side"),  # also without a value of the partition's column
    22: ("sql/test_mixture.py", "test_groups_of_both_sides_are_merged"),
    25: ("sql/rewriting/test_matching.py", "test_off_altogether"),  # TABLESAMPLE, VERSION AS OF, t@v1
    26: ("sql/rewriting/test_matching.py", "test_temporary_names_are_off"),  # and names of another namespace
    27: ("spark/test_plans.py", "test_a_table_made_again_is_another_one"),
    29: ("sql/rewriting/test_matching.py", "test_traps"),  # aliases, ordinals, GROUP BY ALL
    30: ("sql/test_checker.py", "test_an_answer_that_depends_on_order_or_time_is_not_stored"),  # a view with LIMIT
    32: ("sql/test_checker.py", "test_a_row_filter_on_one_side_is_seen"),
    33: ("service/test_rewrites.py", "test_a_write_that_ends_while_the_query_is_routed_counts"),
}
"""By the number of the trap, the file and the name of its test."""


def test_each_trap_has_a_test() -> None:
    numbers = [re.match(r"[\d, ]+(?=:)", pair.what) for pair in PAIRS]
    named = {int(number) for found in numbers if found for number in found[0].split(",")}
    assert named | ELSEWHERE.keys() == set(TRAPS)
    for path, name in ELSEWHERE.values():
        assert f"def {name}(" in (TESTS / path).read_text(encoding="utf-8")


def test_views_with_limits_are_among_the_definitions_that_are_not_stored() -> None:
    assert any("LIMIT" in query for query in UNSTORABLE)
