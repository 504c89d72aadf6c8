"""Spark's types, from their JSON."""

from __future__ import annotations

import json

import pytest

from gateway.mv.model.spark_types import is_compared, is_exact

INT = {"name": "int"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (INT, True),
        ({"name": "string", "collation": "UTF8_BINARY"}, True),
        ({"name": "string", "collation": "UTF8_LCASE"}, False),
        ({"name": "array", "element_type": {"name": "variant"}}, False),
        ({"name": "struct", "fields": [{"name": "x", "type": INT}]}, True),
        ({"name": "struct", "fields": [{"name": "x", "type": {"name": "map", "key_type": INT}}]}, False),
    ],
)
def test_types_that_are_compared_by_all_that_they_consist_of(kind: dict[str, object], expected: bool) -> None:
    assert is_compared(json.dumps(kind)) is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ('{"name": "bigint"}', True),
        ('{"name": "decimal", "precision": 5, "scale": 2}', True),
        ('{"name": "string", "collation": "UTF8_BINARY"}', True),
        ('{"name": "string", "collation": "UTF8_LCASE"}', False),
        ('{"name": "double"}', False),
        ('{"name": "char", "length": 3}', False),
        ('{"name": "array", "element_type": {"name": "int"}}', False),
        ("", False),
    ],
)
def test_types_whose_equal_values_are_the_same(kind: str, expected: bool) -> None:
    assert is_exact(kind) is expected
