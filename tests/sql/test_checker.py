"""Tests the checker of proofs on recorded plans, and on plans changed or made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest
from plan_pairs import PAIRS, UNSTORABLE, VIEWS, Pair
from record_plans import key, recorded

from sql.proof import plan_json
from sql.proof.checker import NotProved, Proved, can_be_stored, prove
from sql.proof.plan import Node, Plan, Scalar, Value, nodes_of

recorded = cache(recorded)
SUM = "SELECT g, sum(x) s FROM t GROUP BY g"
MERGED = "SELECT g, sum(sx) s FROM v GROUP BY g"


def plan(text: str) -> Plan:
    return plan_json.read(recorded()[" ".join(text.split())])


def named(pair: Pair) -> str:
    return pair.what


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_a_pair_is_proved_or_refused_with_its_reason(pair: Pair) -> None:
    result = prove(plan(key(pair, pair.query)), plan(key(pair, pair.rewritten)))
    if pair.reason:
        assert isinstance(result, NotProved)
        assert pair.reason in result.reason
    else:
        assert result == Proved()


def test_names_of_pairs_are_unique() -> None:
    assert len({pair.what for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize("query", VIEWS.values(), ids=VIEWS.keys())
def test_an_answer_of_the_definitions_can_be_stored(query: str) -> None:
    assert can_be_stored(plan(query)) == Proved()


@pytest.mark.parametrize(("query", "reason"), UNSTORABLE.items())
def test_an_answer_that_depends_on_order_or_time_is_not_stored(query: str, reason: str) -> None:
    result = can_be_stored(plan(query))
    assert isinstance(result, NotProved)
    assert reason in result.reason


def changed(value: Value, change: Callable[[Node], Node]) -> Value:
    """The value with each of its nodes changed, from the bottom up."""
    if isinstance(value, tuple):
        return tuple(changed(each, change) for each in value)
    if isinstance(value, Node):
        return change(replace(value, fields={name: changed(field, change) for name, field in value.fields.items()}))
    return value


def with_fields(kind: str, **fields: Value) -> Callable[[Node], Node]:
    """Sets fields of all nodes of a class."""
    return lambda node: replace(node, fields={**node.fields, **fields}) if node.kind == kind else node


def reason_of(left: Plan, right: Plan) -> str:
    result = prove(left, right)
    assert isinstance(result, NotProved), result
    return result.reason


def both(change: Callable[[Node], Node], text: str = SUM) -> str:
    """The reason why a plan with the change is not proved equal to itself."""
    before = plan(text)
    root = changed(before.root, change)
    assert isinstance(root, Node)
    assert root != before.root, "the change changes nothing"
    after = replace(before, root=root)
    return reason_of(after, after)


OPAQUE = Scalar("opaque", "some.Class")
LISTING = "org.apache.spark.sql.execution.datasources.CatalogFileIndex"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_fields("Sum", evalContext=OPAQUE), "some.Class"),
        (lambda node: replace(node, kind="user.Sum") if node.kind == "Sum" else node, "user.Sum"),
        (lambda node: replace(node, kind="Repeat") if node.kind == "Aggregate" else node, "plan node Repeat"),
        (with_fields("AggregateExpression", mode=Scalar("object", "Partial$")), "in parts"),
        (with_fields("Aggregate", sets=None), "unknown part sets"),
        (with_fields("LogicalRelation", table=None), "not a table of the catalog"),
        (with_fields("LogicalRelation", streaming=Scalar("Boolean", "true")), "not a table of the catalog"),
        (with_fields("LogicalRelation", relation=OPAQUE), "some.Class"),
        (
            with_fields("LogicalRelation", relation=(Scalar("String", "delta.OldVersion"),)),
            "not a table of the catalog",
        ),
        (with_fields("LogicalRelation", output=()), "is not one of the rows below"),
    ],
)
def test_what_is_not_understood_proves_nothing(change: Callable[[Node], Node], reason: str) -> None:
    assert reason in both(change)


@pytest.mark.parametrize(
    "text",
    [
        """SELECT g, sum(x) s FROM t WHERE d >= DATE '2024-01-01' AND k IN (1, 2) GROUP BY g HAVING sum(x) > 3
           ORDER BY s DESC LIMIT 5""",
        "SELECT t.k, t.x, o.n FROM t JOIN o ON t.k = o.k",
        "SELECT g, sum(x) s, rank() OVER (ORDER BY sum(x) DESC) r FROM t GROUP BY g",
    ],
)
def test_every_class_that_is_renamed_is_missed(text: str) -> None:
    """No part of a plan goes unread, except how Spark is to join."""

    def renamed(kind: str, node: Node) -> Node:
        return replace(node, kind=f"other.{kind}") if node.kind == kind else node

    for kind in {each.kind for each in nodes_of(plan(text).root)} - {"JoinHint"}:
        assert both(partial(renamed, kind), text)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("LogicalRelation", {"table": (Scalar("String", "`spark_catalog`.`recorded`.`t`"), Scalar("String", "1"))}),
        ("LogicalRelation", {"relation": (Scalar("String", LISTING), Scalar("String", "{versionasof=1}"))}),
        ("Sum", {"evalContext": Node("NumericEvalContext", {"evalMode": Scalar("Enumeration", "LEGACY")})}),
        ("AggregateExpression", {"isDistinct": Scalar("Boolean", "true")}),
    ],
)
def test_a_field_that_differs_on_one_side_is_seen(kind: str, fields: dict[str, Value]) -> None:
    """27: a table dropped and made again is another one; 12: the ANSI mode."""
    before = plan(SUM)
    root = changed(before.root, with_fields(kind, **fields))
    assert isinstance(root, Node)
    assert reason_of(before, replace(before, root=root))


def test_a_row_filter_on_one_side_is_seen() -> None:
    """32: Spark plans it below all that the text says."""

    def filtered(node: Node) -> Node:
        if node.kind != "LogicalRelation":
            return node
        column = next(each for each in nodes_of(node.fields["output"]) if each.kind == "AttributeReference")
        condition = Node("IsNull", {"child": column}, "boolean")
        return Node("Filter", {"condition": condition, "child": node})

    mine, others = plan(SUM), plan(MERGED)
    assert prove(mine, others) == Proved()
    for before, other in ((mine, others), (others, mine)):
        root = changed(before.root, filtered)
        assert isinstance(root, Node)
        assert "conditions differ" in reason_of(replace(before, root=root), other)


def test_sums_merge_only_in_the_same_mode() -> None:
    """The definition is summed in the mode of the session that created it."""
    before = plan(MERGED)
    legacy = Node(
        "NumericEvalContext",
        {"evalMode": Scalar("Enumeration", "LEGACY"), "allowDecimalPrecisionLoss": Scalar("Boolean", "true")},
    )
    outer = with_fields("Sum", evalContext=legacy)(_function(before.root))
    root = changed(before.root, lambda node: outer if node == _function(before.root) else node)
    assert isinstance(root, Node)
    assert reason_of(plan(SUM), replace(before, root=root))


def _function(root: Node) -> Node:
    """The outer sum of a roll-up."""
    for node in nodes_of(root.fields["aggregateExpressions"]):
        if node.kind == "Sum":
            return node
    raise AssertionError("there is no sum")


def test_a_plan_without_a_column_of_its_answer_is_refused() -> None:
    before = plan(SUM)
    lacking = replace(before, output=(*before.output, replace(before.output[0], id="none")))
    assert "lacks a column" in reason_of(lacking, lacking)


def test_what_may_change_with_time_is_refused() -> None:
    """Spark replaces the date of today by a literal, so the plan itself does not show it."""
    before = plan(SUM)
    dated = replace(before, constants=before.constants | {"CurrentDate"})
    assert "CurrentDate" in reason_of(dated, dated)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"root": null, "output": [], "constants": []}', '{"root": [1]}', "[" * 9999]
)
def test_what_is_not_a_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"plan|JSON|Expecting"):
        plan_json.read(text)


def doubled(times: int) -> Plan:
    """A column that is added to itself again and again, each time in a node above, and then compared: a short plan,
    which stands for an expression of two to the power of `times` operands."""
    before = plan(SUM)
    column, root = before.output[0], before.root
    reference = Node("AttributeReference", {"name": Scalar("UTF8String", column.name)}, column.type, column.id)
    for number in range(times):
        total = Node("Add", {"left": reference, "right": reference}, column.type)
        alias = Node("Alias", {"child": total}, column.type, f"twice{number}")
        root = Node("Project", {"projectList": (alias,), "child": root})
        reference = replace(reference, id=alias.id)
    root = Node(
        "Filter", {"condition": Node("LessThan", {"left": reference, "right": reference}, "boolean"), "child": root}
    )
    root = Node(
        "Aggregate", {"groupingExpressions": (), "aggregateExpressions": (reference,), "child": root, "hint": None}
    )
    return Plan((replace(column, id=reference.id),), frozenset(), root)


def test_a_plan_that_stands_for_very_many_terms_is_not_compared() -> None:
    assert "too long" in reason_of(doubled(60), doubled(60))
    assert "too long" not in reason_of(doubled(3), doubled(3))
    stored = can_be_stored(doubled(60))
    assert isinstance(stored, NotProved)
    assert "too long" in stored.reason
    # What was counted belongs to one proof.
    assert prove(plan(SUM), plan(SUM)) == Proved()


def test_a_plan_that_is_nested_very_deeply_is_not_compared() -> None:
    before = plan(SUM)
    root = before.root
    for _ in range(5_000):
        root = Node("Sort", {"order": (), "global": Scalar("Boolean", "true"), "child": root, "hint": None})
    assert "too deeply" in reason_of(replace(before, root=root), before)
