"""What is read from definitions agrees with how Spark plans them; what a wrong analysis would read does not.

Spark's plans are recorded: see tests/record_explanations.py.
"""

from __future__ import annotations

from collections import Counter

import pytest
from increment_faults import DEFINITIONS, NOT_READ_SO, of_keys, of_places, of_texts
from outlines import outline_of
from record_explanations import recorded

from sql.increments.agreement import disagreement, is_within_keys, keyed, marked
from sql.increments.outline import Outline
from sql.increments.planned_rows import computed
from sql.query.explanations import Line, NoPlan, sections, tree

EXPLAINED = recorded()


def found(outline: Outline, text: str) -> str | None:
    try:
        return disagreement(outline, EXPLAINED[text.rstrip(";")], EXPLAINED[marked(outline)])
    except NoPlan as error:
        return str(error)


@pytest.mark.parametrize(("text", "columns"), DEFINITIONS)
def test_definitions_agree(text: str, columns: str | None) -> None:
    assert found(outline_of(text, columns), text) is None


@pytest.mark.parametrize(("text", "columns"), DEFINITIONS)
def test_a_wrong_mention_is_found(text: str, columns: str | None) -> None:
    assert [what for what, wrong in of_places(outline_of(text, columns)) if found(wrong, text) is None] == []


def test_a_wrong_reading_is_found() -> None:
    faults = list(of_texts())
    assert [(what, text) for what, text, wrong in faults if found(wrong, text) is None] == []
    assert len(faults) > 140
    assert min(Counter(what for what, _, _ in faults).values()) > 0


KEYED = [(text, columns) for text, columns in DEFINITIONS if keyed(outline_of(text, columns))]


@pytest.mark.parametrize(("text", "columns"), KEYED)
def test_windows_and_groups_are_computed_within_the_keys(text: str, columns: str | None) -> None:
    outline = outline_of(text, columns)
    explained = EXPLAINED[keyed(outline)]
    assert is_within_keys(outline, explained)
    assert not any(is_within_keys(wrong, explained) for wrong in of_keys(outline))


@pytest.mark.parametrize("text", NOT_READ_SO)
def test_a_name_that_spark_takes_for_another_one(text: str) -> None:
    """Spark compares the alias with what the column of the same name would be compared with."""
    assert "CAST" in (found(outline_of(text), text) or "").upper()


UNION = """== Parsed Logical Plan ==

== Analyzed Logical Plan ==
a: int
Project [a#1]
+- SubqueryAlias x

== Optimized Logical Plan ==
Union false, false
:- Project [a#1 AS `it's`#9]
:  +- Filter (isnotnull(b#2) AND (b#2 = x
  y))
:     +- Relation spark_catalog.s.t[a#1,b#2] parquet
+- Project [c#5]
   +- Relation spark_catalog.s.u[c#5] parquet

== Physical Plan ==
"""


def optimized(explained: str) -> Line:
    return tree(sections(explained)["Optimized"])


def test_names_and_numbers_do_not_count() -> None:
    other = UNION.replace("a#1 AS `it's`#9", "a#31").replace("a#1", "a#31").replace("c#5", "c#7")
    assert computed(optimized(UNION)) == computed(optimized(other))
    for one, wrong in (("b#2 =", "a#1 ="), ("[c#5]\n", "[(c#5 + 1) AS c#6]\n"), ("s.u", "s.v")):
        assert computed(optimized(UNION)) != computed(optimized(UNION.replace(one, wrong, 1)))


def test_a_plan_is_read_as_a_tree() -> None:
    plan = optimized(UNION)
    assert [each.kind for each in plan.children] == ["Project", "Project"]
    (condition,) = plan.children[0].children
    assert condition.text == "Filter (isnotnull(b#2) AND (b#2 = x\n  y))"
    assert tree(sections(UNION)["Analyzed"]).kind == "Project"
    with pytest.raises(NoPlan, match="Error occurred"):
        optimized("Error occurred during query planning")
