"""Tests the translation of Spark's plans for the engine: recorded answers of Spark, and faults planted in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import duckdb
import pytest
from engine_answers import RELATION, SOURCE, SOURCES, answer, engine_with, plain
from memory_corpus import QUERIES, REFUSED, SEVERAL, TABLE
from record_memory import recorded_queries

from gateway.service.memory.comparing import difference
from sql.memory import engine_aggregates, scalars, translation, windows
from sql.memory.casts import cast
from sql.memory.engine_literals import negative, read
from sql.memory.engine_texts import NotListed, sql
from sql.memory.settled import Settling
from sql.memory.shape_query import ShapeQuery, shape_query, varied
from sql.memory.translation import ViewSource, is_whole, reading_of, translated
from sql.memory.zone_rules import UTC_RULES
from sql.proof import plan_json
from sql.proof.plan import Node, Plan, Scalar
from sql.rewriting.shape import shape_of

recorded_queries = cache(recorded_queries)
ALL = f"SELECT * FROM {TABLE}"


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """The engine, with the rows of the table."""
    with engine_with(recorded_queries()[ALL].rows) as connection:
        yield connection


def plan_of(query: str) -> Plan:
    return plan_json.read(recorded_queries()[query].plan)


@pytest.mark.parametrize("query", QUERIES)
def test_the_engine_gives_sparks_answer(engine: duckdb.DuckDBPyConnection, query: str) -> None:
    found = translated(plan_of(query), SOURCES)
    assert difference(found, answer(engine, found, plain(found)), recorded_queries()[query].rows) is None


def shape_query_of(query: str) -> ShapeQuery:
    """The query for all queries of the shape, from the plans of two."""
    other = recorded_queries()[query].varied
    plan = plan_json.read(recorded_queries()[query].unfolded)
    plans = plan, plan if other is None else plan_json.read(other)
    return shape_query(plans, shape_of(query), SOURCES, UTC_RULES)


@pytest.mark.parametrize("query", QUERIES)
def test_a_text_with_holes_is_that_of_each_query(engine: duckdb.DuckDBPyConnection, query: str) -> None:
    found, shape = shape_query_of(query), shape_of(query)
    text = found.text(shape.literals, lambda _: "rows")
    assert difference(found.query, answer(engine, found.query, text), recorded_queries()[query].rows) is None
    others = tuple(
        literal if number in found.pinned else changed
        for number, (literal, changed) in enumerate(zip(shape.literals, varied(shape), strict=True))
    )
    other = recorded_queries()[query].varied
    if len(found.pinned) < len(shape.literals) and other is not None and not found.pinned:
        plan = plan_json.read(other)
        direct = shape_query((plan, plan), replace(shape, literals=varied(shape)), SOURCES, UTC_RULES).query
        text = found.text(others, lambda _: "rows")
        wanted = answer(engine, direct, plain(direct))
        assert difference(found.query, answer(engine, found.query, text), wanted) is None


def test_no_literal_that_is_computed_with_is_left_out() -> None:
    """Spark's usual plan of this has no sign of `> 1`, and 'ab' for the first column."""
    (query,) = (each for each in QUERIES if each.startswith("SELECT left('abc', 2)"))
    found, literals = shape_query_of(query), shape_of(query).literals
    assert [literals[number] for number in sorted(found.pinned)] == ["2", "'abc'"]  # that of left, the pattern
    text = found.text(["0" if each == "3" else each for each in literals], lambda _: "rows")
    assert "= CAST(0 AS INTEGER)" in text
    assert "> CAST(1 AS INTEGER)" in text


def test_equal_numbers_of_different_types_are_told_apart() -> None:
    (query,) = (each for each in QUERIES if "s = -19S" in each)
    found, literals = shape_query_of(query), shape_of(query).literals
    assert literals == ("19S", "19", "20S")
    assert found.pinned.keys() <= {1}
    text = found.text(("17S", *literals[1:]), lambda _: "rows")
    assert "CAST(-17 AS SMALLINT)" in text
    assert "-19" not in text


def test_literals_of_conditions_are_holes() -> None:
    query = next(each for each in QUERIES if each.startswith("SELECT day, sum(amount) AS a"))
    found, literals = shape_query_of(query), shape_of(query).literals
    assert {literals[number] for number in found.pinned} == {"10"}  # that of LIMIT
    others = ["'it''s'" if each == "'x'" else each for each in literals]
    with pytest.raises(NotListed, match="no such value"):
        found.text(others, lambda _: "rows")
    with pytest.raises(NotListed, match="another literal"):
        found.text(["11" if each == "10" else each for each in literals], lambda _: "rows")
    others = ["99999999999" if each == "7" else each for each in literals]
    with pytest.raises(NotListed, match="no such value"):
        found.text(others, lambda _: "rows")


def test_a_query_computes_what_could_be_at_fault() -> None:
    """The length of a list does not matter, and what every query does is not a part."""
    query = next(
        each for each in QUERIES if each.startswith("SELECT shop FROM sales UNION ALL SELECT CAST(n AS STRING)")
    )
    assert shape_query_of(query).parts == {"Cast(int)", "Union"}
    query = next(each for each in QUERIES if "n IN (1, 2" in each)
    assert shape_query_of(query).parts >= {"In(int)", "EqualTo(date)"}
    assert not {"Literal()", "Filter"} & shape_query_of(query).parts


@pytest.mark.parametrize(("query", "reason"), REFUSED.items())
def test_what_is_not_listed_is_refused_with_its_reason(query: str, reason: str) -> None:
    with pytest.raises(NotListed, match=re.escape(reason)):
        translated(plan_of(query), SOURCES)


@pytest.mark.parametrize(
    ("start", "counted", "order"),
    [
        ("SELECT shop, n FROM (SELECT shop, n, row_number()", True, ()),
        ("SELECT shop, count(*) AS c FROM (SELECT shop FROM sales LIMIT", False, ()),
        ("SELECT shop, n FROM (SELECT shop, n FROM sales ORDER BY n LIMIT", True, ()),
        ("SELECT shop, count(*) AS c FROM sales GROUP BY shop ORDER BY c DESC, shop LIMIT", True, (1, 0)),
    ],
)
def test_of_several_right_answers_only_what_they_share_is_compared(
    start: str, counted: bool, order: tuple[int, ...]
) -> None:
    query = next(each for each in QUERIES if each.startswith(start))
    found = translated(plan_of(query), SOURCES)
    assert (found.determined, found.counted, found.order) == (False, counted, order)
    rows = recorded_queries()[query].rows
    assert (difference(found, rows[1:], rows) is None) is not counted


@pytest.mark.parametrize("query", SEVERAL)
def test_the_first_of_several_values_is_sparks(engine: duckdb.DuckDBPyConnection, query: str) -> None:
    found = translated(plan_of(query), SOURCES)
    with pytest.raises(duckdb.Error, match="several values"):
        answer(engine, found, plain(found))


def test_a_column_that_is_not_in_memory_is_refused_where_it_is_used() -> None:
    source = ViewSource("v", {name: each for name, each in SOURCE.columns.items() if name != "amount"})
    query = "SELECT count(*) FROM sales"
    assert translated(plan_of(query), {RELATION: source}).views == {"v"}
    with pytest.raises(NotListed, match="not in memory"):
        translated(plan_of(QUERIES[0]), {RELATION: source})
    with pytest.raises(NotListed, match="what is not in memory"):
        translated(plan_of(query), {})


def test_a_view_with_a_varchar_is_whole() -> None:
    plan = plan_of(ALL)
    shown = [Node("AttributeReference", {}, each.type, each.id) for each in plan.output]
    read = {name: Node("Cast", {"child": replace(shown[1], type=name)}, "string") for name in ("varchar(5)", "int")}
    for name, value in read.items():
        items = (shown[0], Node("Alias", {"child": value}, "string", "9 -"), *shown[2:])
        root = Node("Project", {"projectList": items, "child": plan.root})
        assert is_whole(replace(plan, root=root), SOURCE, RELATION) == (name == "varchar(5)")


def test_a_view_is_whole_if_only_its_own_conditions_choose_rows() -> None:
    assert is_whole(plan_of(ALL), SOURCE, RELATION)
    filtered = plan_of("SELECT shop FROM sales WHERE shop = 'it''s' OR shop = \"100%\" OR shop = ' a '")
    assert not is_whole(filtered, SOURCE, RELATION)
    assert is_whole(filtered, ViewSource("v", SOURCE.columns, frozenset({"shop"})), RELATION)
    dates = plan_of(next(each for each in QUERIES if each.startswith("SELECT day, n FROM sales")))
    assert not is_whole(dates, ViewSource("v", SOURCE.columns, frozenset({"n"})), RELATION)
    assert is_whole(dates, ViewSource("v", SOURCE.columns, frozenset({"n"}), frozenset({"day"})), RELATION)
    masked = plan_of(next(each for each in QUERIES if each.startswith("SELECT concat(")))
    assert not is_whole(masked, SOURCE, RELATION)


def test_a_base_table_is_read_as_its_rows_in_memory_were_read() -> None:
    """Which files are listed, and by what, depends on the query; the format and the options do not."""
    query = QUERIES[0]
    reading = reading_of(plan_of(ALL))
    assert reading is not None
    held = ViewSource("v", SOURCE.columns, reading=reading)
    assert translated(plan_of(query), {RELATION: held}).views == {"v"}
    other = ViewSource("v", SOURCE.columns, reading=(*reading[:-1], ("org.example.Format", "{mergeSchema=true}")))
    with pytest.raises(NotListed, match="in another way"):
        translated(plan_of(query), {RELATION: other})
    assert not is_whole(plan_of(ALL), other, RELATION)
    assert reading_of(plan_of("SELECT count(*) FROM sales")) is None, "A plan of other nodes reads nothing alone."


# Faults that a translation could have: each must be seen in the answer of one of the queries at least.
FAULTS = {
    "NULLs last": (windows, "_NULLS", {"NullsFirst$": "NULLS LAST", "NullsLast$": "NULLS FIRST"}),
    "the other direction": (windows, "_DIRECTIONS", {"Ascending$": "DESC", "Descending$": "ASC"}),
    "outer joins as inner ones": (
        translation,
        "_JOINS",
        {**translation._JOINS, "LeftOuter": "JOIN", "FullOuter": "JOIN"},
    ),
    "semi joins as joins": (translation, "_JOINS", {**translation._JOINS, "LeftSemi": "JOIN"}),
    "rank is dense": (
        windows,
        "_FUNCTIONS",
        {
            **windows._FUNCTIONS,
            "Rank": windows._FUNCTIONS["DenseRank"],
            "DenseRank": windows._FUNCTIONS["Rank"],
        },
    ),
    "a later row as an earlier one": (
        windows,
        "_FUNCTIONS",
        {
            **windows._FUNCTIONS,
            "Lag": (*windows._FUNCTIONS["Lag"][:2], partial(windows._beside, "lead", "inputOffset")),
        },
    ),
    "frames end with their partition": (
        windows,
        "_BOUNDS",
        {**windows._BOUNDS, "CurrentRow$": windows._BOUNDS["UnboundedFollowing$"]},
    ),
    "months as numbers": (scalars, "_PATTERN_PIECES", {**scalars._PATTERN_PIECES, "MMM": "%m"}),
    "twelve hours as a day": (scalars, "_PATTERN_PIECES", {**scalars._PATTERN_PIECES, "h": "%-H"}),
}


def _writer(module: Any, kind: str, write: Any) -> tuple[Any, str, Any]:
    names, _ = module._WRITERS[kind]
    return module, "_WRITERS", {**module._WRITERS, kind: (names, write)}


FAULTS |= {
    "< includes": _writer(scalars, "LessThan", scalars._comparison("<=")),
    "> includes": _writer(scalars, "GreaterThan", scalars._comparison(">=")),
    "<=> as =": _writer(scalars, "EqualNullSafe", scalars._comparison("=")),
    "days from Sunday as 0": _writer(scalars, "DayOfWeek", scalars._date_part("dayofweek(?)")),
    "days from Monday as 1": _writer(scalars, "WeekDay", scalars._date_part("isodow(?)")),
    "days forth": _writer(scalars, "DateSub", scalars._moved_date("+")),
    "trims the other side": _writer(scalars, "StringTrimLeft", scalars._trimmed("rtrim")),
    "averages of whole numbers as sums": _writer(engine_aggregates, "Average", engine_aggregates._sum),
    "counts all": _writer(
        engine_aggregates, "Count", lambda node, scope, over, distinct: cast(over("count(*)"), "bigint")
    ),
    "the least": _writer(engine_aggregates, "Max", engine_aggregates._extreme("min")),
    "nothing escapes": _writer(
        scalars,
        "Like",
        lambda node, scope: cast(sql("(? LIKE ?)", *scalars._operands(node, scope, "left", "right")), "boolean"),
    ),
    "parts from the start": _writer(
        scalars,
        "Substring",
        lambda node, scope: cast(
            sql(
                f"substring(?, {abs(int(scalars.constant(node.fields['pos'], 'int')))})",
                *scalars._operands(node, scope, "str"),
            ),
            "string",
        ),
    ),
    "seconds rounded down": _writer(
        scalars,
        "UnixTimestamp",
        lambda node, scope: cast(
            sql(
                "CAST(floor(epoch_us(CAST(? AS TIMESTAMP)) / 1000000) AS BIGINT)",
                *scalars._operands(node, scope, "timeExp"),
            ),
            "bigint",
        ),
    ),
    "decimals cut off": _writer(
        scalars,
        "Cast",
        lambda node, scope: (
            cast(sql("floor(?)", scalars.expression(node.fields["child"], scope)), node.type)
            if node.type == "decimal(20,0)"
            else scalars._cast(node, scope)
        ),
    ),
    "a remainder as a quotient": _writer(scalars, "Remainder", scalars._whole_division("//")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(
    engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    assert any(differs(engine, query) for query in QUERIES)


def differs(engine: duckdb.DuckDBPyConnection, query: str) -> bool:
    try:
        found = translated(plan_of(query), SOURCES)
        rows = answer(engine, found, plain(found))
    except (NotListed, duckdb.Error):
        return False
    return difference(found, rows, recorded_queries()[query].rows) is not None


@pytest.mark.parametrize("type_text", ["int", "decimal(3,1)"])
def test_a_zero_with_a_sign_is_no_negative_zero(type_text: str) -> None:
    """An exact number loses it before it is cast to DOUBLE."""
    zero = Node("Literal", {"value": Scalar("String", "0" if type_text == "int" else "0.0")}, type_text)
    hole = Node("Hole", {"number": Scalar("Integer", "0"), "negative": Scalar("Boolean", "false")}, type_text)
    settling = Settling(("0",), UTC_RULES)
    for child in (zero, hole):
        cast = Node("Cast", {"child": Node("UnaryMinus", {"child": child}, type_text)}, "double")
        found = settling.settled(cast)
        assert isinstance(found, Node)
        assert found.kind == "Cast", "The engine computes it."
    assert negative(read("0", "double", UTC_RULES) or "", "double") is None
    assert negative("3ff0000000000000", "double") == "bff0000000000000"
