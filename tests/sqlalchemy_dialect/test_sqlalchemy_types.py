"""Tests the types that SQLAlchemy's dialect reads from the texts of DESCRIBE."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import types

from gateway.sqlalchemy import column_types
from gateway.sqlalchemy.column_types import UnknownType, columns, parsed


@pytest.mark.parametrize(
    ("text", "kind", "spec"),
    [
        ("boolean", types.BOOLEAN, "BOOLEAN"),
        ("tinyint", column_types.TINYINT, "TINYINT"),
        ("smallint", types.SMALLINT, "SMALLINT"),
        ("int", types.INTEGER, "INTEGER"),
        ("bigint", types.BIGINT, "BIGINT"),
        ("float", types.FLOAT, "FLOAT"),
        ("double", column_types.DOUBLE, "DOUBLE"),
        ("decimal(38,18)", types.DECIMAL, "DECIMAL(38, 18)"),
        ("decimal(5, 0)", types.DECIMAL, "DECIMAL(5, 0)"),
        ("string", column_types.STRING, "STRING"),
        ("string collate UTF8_LCASE", column_types.STRING, "STRING COLLATE UTF8_LCASE"),
        ("varchar(5)", types.VARCHAR, "VARCHAR(5)"),
        ("char(5)", types.CHAR, "CHAR(5)"),
        ("binary", types.BINARY, "BINARY"),
        ("date", types.DATE, "DATE"),
        ("timestamp", types.TIMESTAMP, "TIMESTAMP"),
        ("timestamp_ntz", column_types.TIMESTAMP_NTZ, "TIMESTAMP_NTZ"),
        ("time(6)", column_types.TIME, "TIME"),
        ("variant", column_types.VARIANT, "VARIANT"),
        ("void", types.NullType, "NULL"),
        ("interval year to month", column_types.INTERVAL_YEAR_MONTH, "INTERVAL YEAR TO MONTH"),
        ("interval month", column_types.INTERVAL_YEAR_MONTH, "INTERVAL MONTH"),
        ("interval day to second", column_types.INTERVAL_DAY_TIME, "INTERVAL DAY TO SECOND"),
        ("interval minute to second", column_types.INTERVAL_DAY_TIME, "INTERVAL MINUTE TO SECOND"),
        ("array<int>", column_types.ARRAY, "ARRAY<INTEGER>"),
        ("map<string,array<date>>", column_types.MAP, "MAP<STRING, ARRAY<DATE>>"),
        ("struct<>", column_types.STRUCT, "STRUCT<>"),
        ("struct<a:int,b c:decimal(3,2)>", column_types.STRUCT, "STRUCT<`a`: INTEGER, `b c`: DECIMAL(3, 2)>"),
        ("struct<`x:``y`:interval day>", column_types.STRUCT, "STRUCT<`x:``y`: INTERVAL DAY>"),
        ("struct<a:struct<b:int>,... 5 more fields>", column_types.STRUCT, "STRUCT<`a`: STRUCT<`b`: INTEGER>, ...>"),
    ],
)
def test_a_type_is_read(text: str, kind: type, spec: str) -> None:
    found = parsed(text)
    assert type(found) is kind
    assert str(found) == spec


@pytest.mark.parametrize(
    "text", ["", "geometry(4326)", "int int", "array", "array<int", "map<int>", "struct<a>", "int(3)"]
)
def test_another_text_is_no_type(text: str) -> None:
    with pytest.raises(UnknownType):
        parsed(text)


_SIMPLE = st.sampled_from(
    ["INTEGER", "STRING", "DECIMAL(7, 2)", "INTERVAL DAY TO SECOND", "TIMESTAMP_NTZ", "VARCHAR(3)"]
)
_TYPES = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        inner.map(lambda item: f"ARRAY<{item}>"),
        st.tuples(inner, inner).map(lambda pair: f"MAP<{pair[0]}, {pair[1]}>"),
        st.lists(st.tuples(st.text("ab`:,<> ", min_size=1, max_size=3), inner), max_size=3).map(
            lambda fields: "STRUCT<" + ", ".join(f"`{n.replace('`', '``')}`: {kind}" for n, kind in fields) + ">"
        ),
    ),
    max_leaves=6,
)


@given(_TYPES)
def test_the_name_of_a_type_is_read_as_the_type(text: str) -> None:
    assert str(parsed(text)) == text


@given(st.text("arymapstuci<>:,`() 15.", max_size=20))
def test_a_text_is_a_type_or_refused(text: str) -> None:
    with contextlib.suppress(UnknownType):
        assert str(parsed(text))


def test_partition_columns_and_headings_are_left_out() -> None:
    described = [
        ("# day", "date", ""),
        ("p", "int", "which"),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "int", "which"),
    ]
    assert list(columns(iter(described))) == [("# day", "date", None), ("p", "int", "which")]
