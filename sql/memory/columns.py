"""The columns of a table in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryColumn:
    """A column of a table in memory, or of an answer from there."""

    name: str
    type: str
    """Spark's type, as DESCRIBE and `typeof` print it: `bigint`, `decimal(10,2)`, `timestamp_ntz`, ..."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What is known of all values of a column. A fact that is not known has its default."""

    has_nulls: bool = True
    has_nan: bool = True
    """Of a float or double: whether one of them is NaN."""
    has_negative_zero: bool = True
    """Of a float or double: whether one of them is -0.0."""
    is_ascii: bool = False
    """Of a string: whether all of its characters are below U+0080."""
    minimum: int | None = None
    """Of an integer, of a date (days since 1970-01-01), or of a timestamp (microseconds since then): the least value.
    Of a decimal: its least value times the power of ten that makes all of them integers. None if all values are NULL,
    too."""
    maximum: int | None = None


def times_of(columns: Iterable[tuple[str, ColumnFacts]]) -> tuple[int, int] | None:
    """The first and the last time in columns, given their types: seconds since 1970-01-01 00:00:00, of dates those of
    midnight. None if there is none."""
    found = list[int]()
    for kind, facts in columns:
        if facts.minimum is not None and facts.maximum is not None:
            if kind == "date":
                found += (facts.minimum * 86_400, facts.maximum * 86_400)
            elif kind in {"timestamp", "timestamp_ntz"}:
                found += (facts.minimum // 1_000_000, facts.maximum // 1_000_000)
    return (min(found), max(found)) if found else None
