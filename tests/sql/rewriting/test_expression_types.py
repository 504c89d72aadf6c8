"""Types of expressions are Spark's; what is not known counts as approximate."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sql.rewriting.dialect import parsed
from sql.rewriting.expression_types import UNKNOWN, is_exact, type_of_value
from sql.rewriting.shape import shape_of

COLUMNS = {
    "i": "int",
    "l": "bigint",
    "s": "smallint",
    "d": "decimal(15,2)",
    "e": "decimal(7,3)",
    "f": "double",
    "t": "string",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i", "INT"),
        ("(i + s)", "INT"),
        ("i * l", "BIGINT"),
        ("d * (1 - e)", "DECIMAL(24,5)"),
        ("d * 2.50", "DECIMAL(19,4)"),
        ("i + e", "DECIMAL(14,3)"),
        ("d - e", "DECIMAL(17,3)"),
        ("d * d * d", "DECIMAL(38,6)"),
        ("d + f", UNKNOWN),
        ("d / 2", UNKNOWN),
        ("sum(i)", "BIGINT"),
        ("sum(d)", "DECIMAL(25,2)"),
        ("sum(d * d * d)", "DECIMAL(38,6)"),
        ("sum(f)", UNKNOWN),
        ("count(*)", "BIGINT"),
        ("min(t)", "STRING"),
        ("max(1)", "INT"),
        ("bool_or(i = 1)", "BOOLEAN"),
        ("CAST(t AS DATE)", "DATE"),
        ("date_trunc('DAY', t)", "TIMESTAMP"),
        ("date_format(t, 'yyyy')", "STRING"),
        ("my_function(i)", UNKNOWN),
    ],
)
def test_the_type_of_an_expression(text: str, expected: str) -> None:
    (item,) = parsed(shape_of(f"SELECT {text}")).expressions
    assert isinstance(item, exp.Expr)
    assert type_of_value(item, lambda column: COLUMNS[column.name]) == expected
    assert is_exact(expected) == (expected != UNKNOWN)
