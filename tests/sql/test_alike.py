"""Plans of one text that are the same, and such that only seem to be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from record_plans import recorded

from sql.proof import plan_json
from sql.proof.alike import alike
from sql.proof.plan import Node, Plan, Scalar, Value

TEXTS = recorded()
QUERY = "SELECT g, sum(x) s FROM t GROUP BY g"


def plan(text: str = QUERY) -> Plan:
    return plan_json.read(TEXTS[text])


def renumbered(value: Value) -> Value:
    if isinstance(value, Node):
        fields = {name: renumbered(field) for name, field in value.fields.items()}
        return replace(value, id=value.id and f"other{value.id}", fields=fields)
    return tuple(map(renumbered, value)) if isinstance(value, tuple) else value


def with_numbers(one: Plan) -> Plan:
    root = renumbered(one.root)
    assert isinstance(root, Node)
    return replace(one, root=root, output=tuple(replace(each, id=f"other{each.id}") for each in one.output))


def test_plans_differ_in_the_numbers_of_columns_only() -> None:
    assert alike(plan(), plan())
    assert alike(plan(), with_numbers(plan()))
    assert alike(with_numbers(plan()), plan())


def test_every_recorded_plan_is_like_itself_unless_a_part_was_not_read() -> None:
    for text in TEXTS:
        one = plan(text)
        assert alike(one, with_numbers(one)) is ("kind='opaque'" not in repr(one)), text


def test_a_filter_a_column_in_another_place_and_other_names_are_seen() -> None:
    assert not alike(plan(), plan("SELECT g, sum(x) s FROM t WHERE x > 0 GROUP BY g"))
    one = plan()
    first, second = one.output
    assert not alike(one, replace(one, output=(second, first)))
    assert not alike(one, replace(one, output=(replace(first, name="h"), second)))
    assert not alike(one, replace(one, output=(first,)))
    assert not alike(one, replace(one, constants=frozenset({"CurrentUser"})))


@pytest.mark.parametrize(("kind", "expected"), [("opaque", False), ("number", True)])
def test_what_was_not_read_may_differ(kind: str, expected: bool) -> None:
    root = Node("Odd", {"part": Scalar(kind, "1")})
    assert alike(Plan((), frozenset(), root), Plan((), frozenset(), root)) is expected
