"""What columns are computed from, in plans as the gateway reads them from Spark."""

from __future__ import annotations

from typing import Any

import pytest

from sql import column_lineage as module
from sql.column_lineage import ColumnLineage, NotTraced, column_lineage
from sql.proof.plan import Node, Output, Plan, Scalar, Value


def text(value: str) -> Scalar:
    return Scalar("String", value)


def node(kind: str, **fields: Value) -> Node:
    return Node(kind, fields)


def column(name: str, kind: str = "int", identifier: str = "") -> Node:
    return Node("AttributeReference", {"name": text(name)}, kind, identifier or name)


def alias(name: str, child: Value) -> Node:
    return Node("Alias", {"child": child, "name": text(name)}, "int", name)


def table(name: str, *columns: str, location: str = "Some(file:/w/t)") -> Node:
    identity = tuple(map(text, (f"`spark_catalog`.`d`.`{name}`", "1", location)))
    return node("LogicalRelation", output=tuple(column(each) for each in columns), table=identity)


def aggregate(function: str, child: Value, **fields: Value) -> Node:
    return node("AggregateExpression", aggregateFunction=node(function, child=child), **fields)


def plan(root: Node, *names: str) -> Plan:
    return Plan(tuple(Output(name, name, "int") for name in names), frozenset(), root)


def shown(found: ColumnLineage) -> dict[str, str]:
    """Sources and their uses as a text for each column; "" for all rows."""

    def line(sources: Any) -> str:
        uses = {
            f"{each.table.table}.{each.column}": "+".join(
                f"{use.effect}{'*' * use.masking}" for use in sorted(sources[each])
            )
            for each in sorted(sources)
        }
        return " ".join(f"{source}:{use}" for source, use in uses.items())

    return {name: line(each) for name, each in {**found.columns, "": found.whole}.items()}


def followed(root: Node, *names: str) -> dict[str, str]:
    return shown(column_lineage(plan(root, *names)))


T = table("t", "a", "b", "c")


def test_a_projection_passes_columns_on_or_computes_them() -> None:
    listed = (column("a"), alias("x", column("b")), alias("y", node("Add", left=column("a"), right=column("c"))))
    root = node("Project", projectList=(*listed, alias("z", Scalar("Integer", "1"))), child=T)
    assert followed(root, "a", "x", "y", "z") == {
        "a": "t.a:IDENTITY",
        "x": "t.b:IDENTITY",
        "y": "t.a:TRANSFORMATION t.c:TRANSFORMATION",
        "z": "",
        "": "",
    }


def test_the_columns_of_a_spark_view_are_those_of_its_query() -> None:
    same = Node("Cast", {"child": column("a")}, "int")
    other = Node("Cast", {"child": column("b")}, "string")
    view = node("View", child=node("Project", projectList=(alias("v", same), alias("w", other)), child=T))
    root = node("SubqueryAlias", child=view)
    assert followed(root, "v", "w") == {"v": "t.a:IDENTITY", "w": "t.b:TRANSFORMATION", "": ""}


def test_groups_conditions_and_orders_decide_about_rows() -> None:
    filtered = node("Filter", condition=node("IsNotNull", child=column("c")), child=T)
    listed = (column("a"), alias("n", aggregate("Sum", column("b"))), alias("k", aggregate("Count", column("b"))))
    grouped = node("Aggregate", groupingExpressions=(column("a"),), aggregateExpressions=listed, child=filtered)
    root = node("Sort", order=(node("SortOrder", child=column("n")),), child=grouped)
    assert followed(root, "a", "n", "k") == {
        "a": "t.a:IDENTITY",
        "n": "t.b:AGGREGATION",
        "k": "t.b:AGGREGATION*",
        "": "t.a:GROUP_BY t.b:SORT t.c:FILTER",
    }


def test_an_aggregate_of_a_computed_column_stays_an_aggregate() -> None:
    inner = node("Project", projectList=(alias("x", node("Abs", child=column("a"))),), child=T)
    listed = (alias("n", aggregate("Sum", column("x"), filter=node("IsNull", child=column("x")))),)
    grouped = node("Aggregate", groupingExpressions=(), aggregateExpressions=listed, child=inner)
    root = node("Project", projectList=(alias("y", node("Abs", child=column("n"))),), child=grouped)
    assert followed(root, "y") == {"y": "t.a:AGGREGATION+CONDITIONAL", "": ""}


@pytest.mark.parametrize(
    ("kind", "names"),
    [("Inner$", ["a", "d"]), ("LeftOuter$", ["a", "d"]), ("LeftSemi$", ["a"]), ("LeftAnti$", ["a"])],
)
def test_a_join_has_the_columns_of_both_sides(kind: str, names: list[str]) -> None:
    condition = node("EqualTo", left=column("a"), right=column("d"))
    root = node("Join", left=T, right=table("u", "d"), joinType=Scalar("object", kind), condition=condition)
    found = followed(root, *names)
    assert found == {name: f"{'u' if name == 'd' else 't'}.{name}:IDENTITY" for name in names} | {
        "": "t.a:JOIN u.d:JOIN"
    }


def test_a_union_has_the_columns_of_all_its_parts() -> None:
    root = node("Union", children=(T, table("u", "d", "e", "f"), table("v", "g", "h", "i")))
    assert followed(root, "a")["a"] == "t.a:IDENTITY u.d:IDENTITY v.g:IDENTITY"
    with pytest.raises(NotTraced, match="different lengths"):
        followed(node("Union", children=(T, table("u", "d"))), "a")


def test_what_is_taken_away_decides_about_rows() -> None:
    root = node("Except", left=table("t", "a"), right=table("u", "d"))
    assert followed(root, "a") == {"a": "t.a:IDENTITY", "": "u.d:FILTER"}


def test_conditions_and_windows_have_an_effect_on_their_column_only() -> None:
    case = node("CaseWhen", branches=(node("Tuple2", _1=column("a"), _2=column("b")),), elseValue=column("c"))
    choice = node("If", predicate=column("a"), trueValue=column("b"), falseValue=None)
    over = node(
        "WindowExpression", windowFunction=node("Lag", input=column("a")), windowSpec=node("Spec", o=column("b"))
    )
    root = node(
        "Window",
        windowExpressions=(alias("w", over),),
        child=node("Project", projectList=(column("a"), column("b"), alias("x", case), alias("y", choice)), child=T),
    )
    assert followed(root, "x", "y", "w") == {
        "x": "t.a:CONDITIONAL t.b:TRANSFORMATION t.c:TRANSFORMATION",
        "y": "t.a:CONDITIONAL t.b:TRANSFORMATION",
        "w": "t.a:TRANSFORMATION t.b:WINDOW",
        "": "",
    }


def test_hashes_mask_what_they_are_computed_from() -> None:
    root = node("Project", projectList=(alias("h", node("Sha2", left=column("a"), right=None)),), child=T)
    assert followed(root, "h")["h"] == "t.a:TRANSFORMATION*"


def test_queries_within_expressions_are_followed() -> None:
    inner = node("Project", projectList=(alias("m", column("d")),), child=table("u", "d", "e"))
    related = node(
        "Filter",
        condition=node("EqualTo", left=column("e"), right=node("OuterReference", e=column("b"))),
        child=inner.fields["child"],
    )
    scalar = node("ScalarSubquery", plan=node("Project", projectList=(alias("m", column("d")),), child=related))
    exists = node("Exists", plan=inner)
    root = node("Project", projectList=(alias("x", scalar),), child=node("Filter", condition=exists, child=T))
    assert followed(root, "x") == {
        "x": "u.d:TRANSFORMATION",
        "": "t.b:FILTER u.d:FILTER u.e:FILTER",
    }


def test_common_table_expressions_may_be_read_twice() -> None:
    definition = node(
        "CTERelationDef", child=node("Project", projectList=(alias("x", column("a")),), child=T), id=Scalar("Long", "7")
    )
    one, two = (node("CTERelationRef", cteId=Scalar("Long", "7"), output=(column(name),)) for name in "pq")
    root = node(
        "WithCTE",
        plan=node("Join", left=one, right=two, joinType=Scalar("object", "Cross$"), condition=None),
        cteDefs=(definition,),
    )
    assert followed(root, "p", "q") == {"p": "t.a:IDENTITY", "q": "t.a:IDENTITY", "": ""}
    again = node("CTERelationDef", child=one, id=Scalar("Long", "7"))
    with pytest.raises(NotTraced, match="common table expression"):
        followed(node("WithCTE", plan=one, cteDefs=(again,)), "p")


def test_rows_of_arrays_and_of_grouping_sets_are_followed() -> None:
    made = node(
        "Generate",
        generator=node("Explode", child=column("c")),
        unrequiredChildIndex=(Scalar("Integer", "1"),),
        generatorOutput=(column("e"),),
        child=T,
    )
    assert followed(made, "a", "c", "e") == {
        "a": "t.a:IDENTITY",
        "c": "t.c:IDENTITY",
        "e": "t.c:TRANSFORMATION",
        "": "",
    }
    rows = ((column("a"), Scalar("Integer", "0")), (Node("Literal", {}, "int"), column("b")))
    expanded = node("Expand", projections=rows, output=(column("x"), column("y")), child=T)
    assert followed(expanded, "x", "y") == {"x": "t.a:IDENTITY", "y": "t.b:IDENTITY", "": ""}


def test_tables_of_other_catalogs_are_named_by_them() -> None:
    names = tuple(map(text, ("ice", "n1", "n2", "T")))
    root = node(
        "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation", output=(column("a"),), table=names
    )
    found = column_lineage(plan(root, "a"))
    ((source,),) = found.columns.values()
    assert str(source.table) == "ice.n1.n2.t"
    assert found.locations == {source.table: ""}


@pytest.mark.parametrize(
    ("location", "wanted"), [("Some(s3a://b/t)", "s3a://b/t"), ("None", ""), ("file:/w", "file:/w")]
)
def test_the_location_of_a_table_is_told(location: str, wanted: str) -> None:
    found = column_lineage(plan(table("t", "a", location=location), "a"))
    assert list(found.locations.values()) == [wanted]


def test_columns_can_be_left_out() -> None:
    root = node("Filter", condition=node("IsNull", child=column("b")), child=T)
    found = column_lineage(plan(root, "a", "b")).without(lambda source: source.column == "b")
    assert shown(found) == {"a": "t.a:IDENTITY", "b": "", "": ""}


@pytest.mark.parametrize(
    "root",
    [
        node("FlatMapGroupsInPandas", child=T),
        node("Project", projectList=(column("unknown"),), child=T),
        node("LogicalRelation", output=(column("a"),), table=None),
        node("Filter", condition=column("a")),
        node("Project", projectList=(alias("y", column("a")),), child=T),
    ],
)
def test_what_is_not_understood_is_not_followed(root: Node) -> None:
    with pytest.raises(NotTraced):
        followed(root, "x")


def test_very_deep_and_very_wide_plans_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Node = T
    for _ in range(20_000):
        deep = node("SubqueryAlias", child=deep)
    with pytest.raises(NotTraced, match="too deeply"):
        column_lineage(plan(deep, "a"))
    monkeypatch.setattr(module, "STEPS_MAX", 50)
    wide = node(
        "Project",
        projectList=tuple(alias(f"x{n}", node("Add", left=column("a"), right=column("b"))) for n in range(40)),
        child=T,
    )
    with pytest.raises(NotTraced, match="too many columns"):
        column_lineage(plan(wide, "x0"))
