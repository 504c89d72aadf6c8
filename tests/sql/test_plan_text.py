"""Tests of what is read, and what is refused, in the text of a plan."""

from __future__ import annotations

import pytest

from sql.proof.checker import Proved, prove
from sql.proof.literal_text import literal_of
from sql.proof.plan import Plan, Scalar
from sql.proof.plan_text import PlanSettings, PlanTable, read, tables_in, views_in
from sql.proof.sources import literals_of

NAME = "spark_catalog.shop.t"
COLUMNS = (
    *(("k", "int"), ("g", "string"), ("d", "date"), ("ts", "timestamp"), ("y", "bigint"), ("m", "decimal(10,2)")),
    *(("f", "double"), ("b", "boolean"), ("n", "")),
)
TABLE = PlanTable(COLUMNS, (NAME, "2026", "file:/t"), ("parquet", ""))
RELATION = f"Relation {NAME}[k#0,g#1,d#2,ts#3,y#4L,m#5,f#6,b#7,n#8] parquet"
SETTINGS = PlanSettings(ansi=True, loses_precision=True, zone="UTC")


def explained(optimized: str, analyzed: str = "", types: str = "s: bigint") -> str:
    parts = {"Parsed": "'Project", "Analyzed": f"{types}\n{analyzed or optimized}", "Optimized": optimized}
    texts = (f"== {name} Logical Plan ==\n{text}\n" for name, text in parts.items())
    return "\n".join((*texts, "== Physical Plan ==\nScan"))


def plan_of(optimized: str, output: str, *sources: str, analyzed: str = "", settings: PlanSettings = SETTINGS) -> Plan:
    """`output`: names and types of columns, as `s bigint, g string`."""
    columns = [tuple(each.split(" ", 1)) for each in output.split(", ")]
    described = tuple((name, type_text) for name, type_text in columns)
    return read(explained(optimized, analyzed), described, {NAME: TABLE}, sources, settings)


def filtered(condition: str, *sources: str, analyzed: str = "") -> Plan:
    return plan_of(f"Project [k#0]\n+- Filter {condition}\n   +- {RELATION}", "k int", *sources, analyzed=analyzed)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("((k#0 > 3) AND isnotnull(g#1))", "(isnotnull(g#1) AND (3 < k#0))"),
        ("k#0 IN (1,2)", "k#0 IN (2,1)"),
        ("(g#1 = New York)", "(New York = g#1)"),
        ("NOT g#1 IN (a,b)", "NOT g#1 IN (b,a)"),
        ("StartsWith(g#1, a)", "StartsWith(g#1, a)"),
        ("(if ((k#0 > 3)) a else b = g#1)", "(g#1 = CASE WHEN (k#0 > 3) THEN a ELSE b END)"),
        ("(d#2 >= 2024-01-01)", "(2024-01-01 <= d#2)"),
    ],
)
def test_equal_conditions_are_proved(one: str, other: str) -> None:
    source = "SELECT k FROM t WHERE g IN ('a', 'b', 'New York')"
    assert prove(filtered(one, source), filtered(other, source)) == Proved()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("(k#0 > 3)", "(k#0 > 4)"),
        ("(k#0 > 3)", "(y#4L > 3)"),
        ("(g#1 = 1)", "(k#0 = 1)"),
        ("g#1 LIKE a_b", "(g#1 = a_b)"),
        ("(m#5 = 1.00)", "(m#5 = 1.10)"),
        ("(ts#3 >= 2024-01-01 00:00:00)", "(ts#3 >= 2024-01-01 00:00:00.5)"),
    ],
)
def test_different_conditions_are_not_proved(one: str, other: str) -> None:
    source = "SELECT k FROM t WHERE g IN ('1', 'a_b')"
    assert prove(filtered(one, source), filtered(other, source)) != Proved()


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("(k#0 > 3.0)", "where a int is expected"),
        ("(k#0 > 99999999999)", "where a int is expected"),
        ("(m#5 > 1.5)", r"where a decimal\(10,2\) is expected"),
        ("(k#0 = y#4L)", "a bigint where a int is expected"),
        ("(k#0L > 3)", "has another type"),
        ("(y#4 > 3)", "has another type"),
        ("(k#9 > 3)", "does not have there"),
        ("isnotnull(n#8)", "does not show the type of the column n"),
        ("(g#1 = a b c)", "a computed string"),
        ("(g#1 = x AND y)", "not understood"),
        ("(k#0 > 3) OR b#7", "not understood"),
        ("NOT b#7 IN (true,false)", "what a list of conditions is compared with"),
        ("(2 = 2)", "of which type the value 2 is"),
        ("((m#5 + m#5) > 3.00)", "the type of an operation"),
        ("((k#0 / k#0) > 3.0)", "the type of a division"),
        ("(mine(k#0) > 3)", "enough of the function mine"),
        ("(try_cast(g#1 as int) > 3)", "enough of the function try_cast"),
        ("(hour(ts#3, Some(Asia/Tokyo)) > 3)", "not understood"),
        ("k#0", "a int where a boolean is expected"),
        ("(ts#3 > 2024-01-01)", "where a timestamp is expected"),
        ("(g#1 = -)", "not understood"),
    ],
)
def test_a_condition_that_is_not_understood_is_refused(condition: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        filtered(condition, "SELECT k FROM t WHERE g IN ('x', 'y')")


PADDED = "static_invoke(CharVarcharCodegenUtils.readSidePadding(g#1, 5))"
LONGER = "static_invoke(CharVarcharCodegenUtils.readSidePadding(g#1, 6))"


@pytest.mark.parametrize(
    ("one", "other", "proved"),
    [
        (f"({PADDED} = x    )", f"(x     = {PADDED})", True),
        (f"{PADDED} IN (x    ,y z  )", f"{PADDED} IN (y z  ,x    )", True),
        (f"({PADDED} > x    )", f"(x     < {PADDED})", True),
        (f"({LONGER} = rpad({PADDED}, 6,  ))", f"(rpad({PADDED}, 6,  ) = {LONGER})", True),
        (f"({LONGER} = rpad({PADDED}, 6,  ))", f"({LONGER} = {PADDED})", False),
        (f"({PADDED} = x    )", f"({PADDED} = x)", False),
        (f"({PADDED} = x    )", "(g#1 = x    )", False),
        (f"({PADDED} = x    )", f"({LONGER} = x     )", False),
        (f"NOT ({PADDED} = y z  )", f"({PADDED} = y z  )", False),
    ],
)
def test_char_is_compared_with_padded_strings(one: str, other: str, proved: bool) -> None:
    source = "SELECT k FROM t WHERE g IN ('x', 'y z')"
    # So that the lengths of all columns of CHAR are known.
    both = f"(isnotnull({PADDED}) AND isnotnull({LONGER}))"
    left, right = (filtered(f"({both} AND {each})", source, analyzed="Filter rpad(x, 5,  )") for each in (one, other))
    assert (prove(left, right) == Proved()) == proved


@pytest.mark.parametrize(
    ("condition", "analyzed", "reason"),
    [
        (f"({PADDED} = x   )", "", "a computed string"),
        (f"({PADDED} = x     )", "", "a computed string"),
        (f"({PADDED} = w    )", "", "a computed string"),
        ("(g#1 = x    )", "", "a computed string"),
        (f"({PADDED} = x    )", "Filter (rpad(x, 5,  ) = concat(g#1, x))", "with spaces"),
        (f"({PADDED} = rpad(g#1, 5, x))", "", "not understood"),
        ("(static_invoke(Mine.readSidePadding(g#1, 5)) = x)", "", "enough of the function Mine.readSidePadding"),
        ("(static_invoke(g#1, 5) = x)", "", "not understood"),
        ("isnotnull(static_invoke(CharVarcharCodegenUtils.readSidePadding(k#0, 5)))", "", "where a string is expected"),
    ],
)
def test_padding_that_is_not_understood_is_refused(condition: str, analyzed: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        filtered(condition, "SELECT k FROM t WHERE g IN ('x', 'y')", analyzed=analyzed)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("SELECT concat('a, b', k)", "where the string 'a, b' ends"),
        ("SELECT '('", r"where the string '\(' ends"),
        ("SELECT 'x AND y'", "where the string"),
        ("SELECT 'x THEN y'", "where the string"),
        ("SELECT 'x AS y'", "where the string"),
        ("SELECT 'a#1'", "where the string"),
        ("SELECT 'a\nb'", "where the string"),
        ("SELECT r'a'", "where the string"),
        ("SELECT 'it''s'", "where the string"),
        ("SELECT 'a\\nb'", "where the string"),
        ("SELECT ''", "where the string"),
        ("SELECT 'null'", "where the string"),
        ("SELECT 'x ' 'AND y'", "where the string|several parts"),
        ("SELECT DATE 'today'", "such as 'today'"),
        ("SELECT 'now '", "such as 'today'"),
        ("SELECT * FROM t WITH (k = 'v')", "the options"),
        ("SELECT * FROM t wItH/**/(k = 'v')", "the options"),
    ],
)
def test_a_statement_whose_plan_is_not_shown_exactly_is_refused(source: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        literals_of([source])


def test_only_integers_that_are_written_as_such_are_known() -> None:
    found = literals_of(["SELECT 1, 2L, 3.0, 4, 4S, 05, 'x', 6e1, 7.", 'SELECT 8, "y z"'])
    assert found.integers == {"1", "8"}
    assert found.strings == {"x", "y z"}
    assert found.has_spaces


@pytest.mark.parametrize(
    "analyzed",
    [
        "Project [try_add(k#0, 1) AS s#9]",
        "Project [current_date(Some(UTC)) AS s#9]",
        "Project [spark_catalog.shop.mine(k#0) AS s#9]",
        "Project [éupper(g#1) AS s#9]",
        "SQLFunctionNode spark_catalog.shop.mine",
        "Project [concat(g#1, x) AS s#9]",
    ],
)
def test_what_a_statement_was_before_optimization_counts(analyzed: str) -> None:
    source = "SELECT k FROM t WHERE g = 'New York'"
    with pytest.raises(ValueError, match=r"function|plan node|with spaces"):
        filtered("(k#0 > 3)", source, analyzed=analyzed)


def test_a_number_without_a_context_is_an_int_only_if_nothing_else_prints_so() -> None:
    optimized = f"Aggregate [sum(CASE WHEN (k#0 > 3) THEN 1 ELSE 0 END) AS s#9L]\n+- {RELATION}"
    assert plan_of(optimized, "s bigint", "SELECT sum(CASE WHEN k > 3 THEN 1 ELSE 0 END) s FROM t")
    for source, analyzed in (
        ("SELECT sum(CASE WHEN k > 3 THEN 1L ELSE 0 END) s FROM t", ""),
        ("SELECT sum(CASE WHEN k > 3 THEN '1' ELSE 0 END) s FROM t", ""),
        ("SELECT 1, 0", "Project [cast(1 as bigint) AS s#9L]"),
        ("SELECT 1, 0", "Project [(cast(2 as bigint) + 1) AS s#9L]"),
        ("SELECT 1, 0", "Project [(2 div 2) AS s#9L]"),
    ):
        with pytest.raises(ValueError, match="of which type the value"):
            plan_of(optimized, "s bigint", source, analyzed=analyzed)


def test_modes_and_zones_are_those_of_the_session() -> None:
    optimized = f"Aggregate [sum(y#4L) AS s#9L]\n+- {RELATION}"
    others = PlanSettings(ansi=False, loses_precision=True, zone="UTC")
    plan, other = (plan_of(optimized, "s bigint", settings=settings) for settings in (SETTINGS, others))
    assert prove(plan, plan) == Proved()
    assert prove(plan, other) != Proved()


@pytest.mark.parametrize("name", ["sum(k)", "od,d name", "a AS b", "a [0]"])
def test_columns_of_the_answer_may_have_any_name(name: str) -> None:
    optimized = f"Sort [{name}#9L ASC NULLS FIRST], true\n+- Aggregate [sum(k#0) AS {name}#9L]\n   +- {RELATION}"
    found = read(explained(optimized), ((name, "bigint"),), {NAME: TABLE}, (), SETTINGS)
    assert [each.name for each in found.output] == [name]
    with pytest.raises(ValueError, match=r"plain word|not understood|not show"):
        read(explained(optimized), (("other", "bigint"),), {NAME: TABLE}, (), SETTINGS)


@pytest.mark.parametrize(
    ("optimized", "reason"),
    [
        (f"Project [k#0 AS s#9]\n+- {RELATION}\n+- {RELATION}", "an unknown part"),
        (f"Project [k#0 AS s#9]\n   +- {RELATION}", "tree"),
        (f"Aggregate [k#0], [k#0 AS s#9], hint\n+- {RELATION}", "not understood"),
        (f"Generate explode(n#8)\n+- {RELATION}", "the plan node Generate|function"),
        (f"Join Inner, (k#0 = k#0)\n:- {RELATION}\n+- {RELATION}", "which of two columns"),
        ("Project [k#0 AS s#9]\n+- Relation parquet.t[k#0] parquet", "not a table of the catalog"),
        (f"Project [k#0 AS s#9]\n+- Relation {NAME}[k#0] parquet", "does not show the columns"),
        ("LocalRelation <empty>, [s#9]", "plan node LocalRelation"),
        ("Project [k#0 AS s#9]\n+- InMemoryRelation [k#0], StorageLevel(disk)", "plan node InMemoryRelation|function"),
        (f"Project [k#0 AS s#9L]\n+- {RELATION}", "another type"),
        (f"Project [g#1 AS s#9]\n+- {RELATION}", "types of all columns"),
    ],
)
def test_a_plan_that_is_not_understood_is_refused(optimized: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        plan_of(optimized, "s int", "SELECT")


def test_tables_and_views_are_named() -> None:
    analyzed = f"Project [k#0]\n+- View (`spark_catalog`.`shop`.`v`, [k#0])\n   +- {RELATION}"
    text = explained(f"Project [k#0]\n+- {RELATION}", analyzed)
    assert tables_in(text) == {NAME}
    assert views_in(text) == {"`spark_catalog`.`shop`.`v`"}
    with pytest.raises(ValueError, match="whose name"):
        views_in(text.replace("`spark_catalog`.`shop`.`v`", "`mine`"))
    with pytest.raises(ValueError, match="does not explain"):
        tables_in("org.apache.spark.sql.AnalysisException")


def test_literals_become_what_spark_stores() -> None:
    def value(text: str, type_text: str, zone: str = "UTC") -> object:
        return literal_of(text, type_text, zone, frozenset({"a"})).fields["value"]

    assert value("2024-01-01", "date") == Scalar("Integer", "19723")
    assert value("1970-01-02 00:00:00.5", "timestamp") == Scalar("Long", "86400500000")
    assert value("1970-01-01 09:00:00", "timestamp", "Asia/Tokyo") == Scalar("Long", "0")
    assert value("-2.0", "double") == Scalar("Double", "c000000000000000")
    assert value("-0.0", "double") == Scalar("Double", "8000000000000000")
    assert value("1.50", "decimal(3,2)") == Scalar("Decimal", "1.50")
    assert value("null", "string") is None
    assert value("a", "string") == Scalar("UTF8String", "a")


@pytest.mark.parametrize(
    ("text", "type_text", "zone"),
    [
        ("2024-10-27 02:30:00", "timestamp", "Europe/Berlin"),
        ("1800-01-01 00:00:00", "timestamp", "Europe/Berlin"),
        ("2024-01-01 00:00:00", "timestamp", "Mars/Base"),
        ("+12024-01-01", "date", "UTC"),
        ("1.5", "decimal(3,2)", "UTC"),
        ("12.50", "decimal(3,2)", "UTC"),
        ("1", "double", "UTC"),
        ("NaN", "double", "UTC"),
        ("128", "tinyint", "UTC"),
        ("1", "binary", "UTC"),
        ("1", "struct<a:int>", "UTC"),
        ("yes", "boolean", "UTC"),
    ],
)
def test_a_literal_of_another_form_is_refused(text: str, type_text: str, zone: str) -> None:
    with pytest.raises(ValueError, match=r"text|zone"):
        literal_of(text, type_text, zone, frozenset())
