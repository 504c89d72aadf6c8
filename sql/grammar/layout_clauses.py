"""The layout clauses: partitioning, buckets, clustering and file format.

Tests: `test_parser`.
"""

from __future__ import annotations

from dataclasses import replace

from sql.grammar.cursor import Grammar, listed
from sql.statement import Clustering, Distribution, Partitioning
from sql.texts.open_formats import OPEN_FORMATS

FORMATS = ("PARQUET", "ORC")
TABLE_FORMATS = tuple(each.upper() for each in OPEN_FORMATS)
UNITS = ("HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
"""The units that date_trunc may truncate to in a partitioning."""


def followed_partition(grammar: Grammar) -> Partitioning:
    """Parses what follows PARTITION BY: Doris' clause has parentheses, BigQuery's has none."""
    parenthesized = grammar.sees("(")
    return replace(partition(grammar), follows=parenthesized)


def partition(grammar: Grammar) -> Partitioning:
    """Columns, or date_trunc of columns; BigQuery omits the parentheses of its only one."""
    parenthesized = grammar.accept("(")
    found = [partition_expression(grammar)]
    while parenthesized and grammar.accept(","):
        place = grammar.position
        found.append(partition_expression(grammar))
        if found[-1].column.lower() in {each.column.lower() for each in found[:-1]}:
            raise grammar.refusal(f"the column {found[-1].column} occurs twice", place)
    if parenthesized and not grammar.accept(")"):
        raise grammar.problem("a comma or ) after the partition column")
    return replace(found[0], further=tuple(found[1:]))


_TRUNCATING = ("DATE_TRUNC", "TIMESTAMP_TRUNC", "DATETIME_TRUNC")
_TRANSFORMS = {
    "DATE": "DAY",
    **{unit: unit for unit in UNITS},
    **{f"{unit}S": unit for unit in UNITS},
}
"""The units of BigQuery's DATE(column) and of the transforms of Spark and Iceberg."""


def partition_expression(grammar: Grammar) -> Partitioning:
    """A column, date_trunc(column, unit), or a transform such as days(column)."""
    function = grammar.peek()
    after = grammar.peek(1)
    if function is None or function.kind != "word" or after is None or after.text != "(":
        return Partitioning(grammar.expect_identifier("a column or date_trunc(column, 'unit')"))
    name = function.text.upper()
    if name not in _TRUNCATING and name not in _TRANSFORMS and name not in _NUMBERED:
        raise grammar.problem("a column or date_trunc(column, 'unit')")
    grammar.take()
    grammar.expect("(")
    if name in _NUMBERED:
        found = _numbered(grammar, name)
    elif name in _TRANSFORMS:
        found = Partitioning(grammar.expect_identifier("a column"), _TRANSFORMS[name])
    else:
        found = _truncation(grammar)
    if not grammar.accept(")"):
        raise grammar.problem(") after the unit" if name in _TRUNCATING else ") after the column")
    return found


_NUMBERED = ("BUCKET", "TRUNCATE")


def _numbered(grammar: Grammar, name: str) -> Partitioning:
    """Parses the arguments in the order of Spark (number, column) or of Trino (column, number)."""
    piece = grammar.peek()
    column = "" if piece is None or piece.text.isdecimal() else grammar.expect_identifier("a column")
    if column and not grammar.accept(","):
        raise grammar.problem("a comma and a number after the column")
    number = grammar.expect_number(f"a number and a column in {name.lower()}")
    if not column and not grammar.accept(","):
        raise grammar.problem("a comma and a column after the number")
    return Partitioning(column or grammar.expect_identifier("a column"), transform=f"{name.lower()}({number})")


def _truncation(grammar: Grammar) -> Partitioning:
    """Parses the arguments in the order of Doris and BigQuery (column, unit) or of Spark ('unit', column)."""
    place = grammar.position
    unit = grammar.string()
    column = "" if unit is not None else grammar.expect_identifier("a column in date_trunc")
    if not grammar.accept(","):
        raise grammar.problem("a comma (date_trunc takes a column and a unit such as 'month')")
    if unit is not None:
        column = grammar.expect_identifier("a column after the unit")
    else:
        place = grammar.position
        unit = grammar.string() or grammar.expect_identifier("a unit in date_trunc")
    if unit.upper() not in UNITS:
        raise grammar.refusal(f"timeUnit not support: {unit}; use {listed(UNITS)}", place)
    return Partitioning(column, unit.upper())


def distributed_by(grammar: Grammar) -> Distribution:
    """Parses what follows Doris' DISTRIBUTED BY: HASH (columns) or RANDOM, and a number of BUCKETS."""
    columns: tuple[str, ...] = ()
    if grammar.expect_any("HASH", "RANDOM", after="DISTRIBUTED BY") == "HASH":
        columns = grammar.bracketed("HASH")
    buckets = None
    if grammar.accept("BUCKETS") and not grammar.accept("AUTO"):
        buckets = grammar.expect_number("AUTO or the number of buckets")
    return Distribution(columns, buckets)


def clustered_by(grammar: Grammar) -> Distribution:
    """Parses what follows Spark's CLUSTERED BY: (columns) [SORTED BY (columns)] INTO n BUCKETS."""
    columns = grammar.bracketed("CLUSTERED BY")
    ordered = _ordered(grammar) if grammar.accept("SORTED", "BY") else ()
    if not grammar.accept("INTO"):
        raise grammar.problem("SORTED BY or INTO with the number of buckets after CLUSTERED BY")
    buckets = grammar.expect_number("the number of buckets")
    grammar.expect("BUCKETS")
    return Distribution(columns, buckets, ordered)


def _ordered(grammar: Grammar) -> tuple[str, ...]:
    """Parses what follows SORTED BY: (column [ASC], …). Spark also sorts buckets only in ascending order."""
    if not grammar.accept("("):
        raise grammar.problem("(columns) after SORTED BY")
    columns = []
    while True:
        columns.append(grammar.expect_identifier("a column's name"))
        grammar.accept("ASC")
        if not grammar.accept(","):
            break
    if not grammar.accept(")"):
        raise grammar.problem("ASC, a comma or ) after the column")
    return tuple(columns)


def clustered_on(grammar: Grammar) -> Clustering:
    """Parses what follows Hive's CLUSTERED ON: rows are distributed and sorted by the same columns."""
    columns = grammar.bracketed("CLUSTERED ON")
    return Clustering(columns, columns)


def distributed_on(grammar: Grammar) -> Clustering:
    """Parses what follows Hive's DISTRIBUTED ON: (columns) [SORTED ON (columns)]."""
    columns = grammar.bracketed("DISTRIBUTED ON")
    ordered = grammar.bracketed("SORTED ON") if grammar.accept("SORTED", "ON") else ()
    return Clustering(columns, ordered)


def cluster_by(grammar: Grammar) -> Clustering:
    """Parses what follows CLUSTER BY, in parentheses in Databricks, without in BigQuery, or StarRocks' ORDER BY."""
    if grammar.sees("("):
        columns = grammar.bracketed("CLUSTER BY")
    elif grammar.sees("AUTO") or grammar.sees("NONE"):
        raise grammar.problem("columns after CLUSTER BY")
    else:
        columns = grammar.identifiers("a column's name")
    return Clustering(columns, columns)


def file_format(grammar: Grammar, after: str) -> str:
    """The file format after USING or STORED AS, in lower case. Others, such as PostgreSQL's heap, are refused."""
    formats = (*FORMATS, *TABLE_FORMATS) if after == "USING" else FORMATS
    return grammar.expect_any(*formats, after=after).lower()
