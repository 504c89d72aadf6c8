"""Random rows of the table of memory_corpus.py, with values at which engines disagree."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime

import duckdb
from memory_corpus import COLUMNS

from sql.memory.columns import ColumnFacts, MemoryColumn
from sql.memory.engine_types import decimal_digits
from sql.memory.row_lines import FACTS, facts_query

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_PLAIN = (
    "a",
    "b",
    "x",
    "xy_z",
    "x1y2z",
    "",
    "A",
    " a ",
    "ab",
    "zz%",
    "ab cd",
    "100%",
    "z%",
    "2024-01-01",
    "12",
    "\t",
    "a\n",
)
_ODD = (
    "it's",
    "ß",
    "É",
    "é",
    "İ",
    "ǆ",
    "\U0001d518b",
    "日本",
    "a\u00a0",
    "\u2028",
    "ﬁ",
    "Σς",
    "\\",
    "\\%",
    '"',
    "\x00z",
)
_DOUBLES = (
    "0.0",
    "-0.0",
    "NaN",
    "Infinity",
    "-Infinity",
    "4.9E-324",
    "1.7976931348623157E308",
    "1E16",
    "9007199254740993",
)
_NEAR_CHANGES = 0.3
_DAYS = (0, -1, 59, 365, 10957, 11016, 19782, 19783, 18993, 20818, -141428, -719162, 2932896)
"""Days around the epoch, leap days, ends of years and weeks, and the ends of the calendar."""
_MIDDLE = 19_723  # 2024-01-01
_CHANGES = (
    *("2023-03-26 01:00", "2023-10-29 01:00", "2024-03-31 01:00", "2024-10-27 01:00"),
    *("2023-04-01 15:00", "2023-09-30 15:30", "2024-04-06 15:00", "2024-10-05 15:30"),
    *("2023-03-12 05:00", "2023-11-05 05:00", "2024-03-10 05:00", "2024-11-03 05:00"),
    *("2023-04-27 22:00", "2023-10-26 21:00", "2024-04-25 22:00", "2024-10-31 21:00"),
)
"""When clocks are changed in the zones of CHANGING, one line for each."""
CHANGING = ("Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo", "Asia/Kolkata", "-03:30")
"""Time zones, the clocks of some of which are changed."""


class Rows:
    """Makes rows. Some have no odd values at all, because a single one can make each query fail."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._odd = self._chance.choice((0.0, 0.0, 0.03, 0.2))
        self._nulls = self._chance.choice((0.0, 0.1, 0.1, 0.5))

    def as_sql(self) -> str:
        """The rows as VALUES."""
        many = self._chance.choice((0, 1, 7, 60, 120, 120, 240))
        rows = [", ".join(map(self._value, COLUMNS.values())) for _ in range(many)]
        nothing = ", ".join(f"CAST(NULL AS {each})" for each in COLUMNS.values())
        listed = ", ".join(f"({row})" for row in rows or [nothing])
        return f"SELECT * FROM VALUES {listed}" + ("" if rows else " WHERE false")

    def _value(self, kind: str) -> str:
        chance, odd = self._chance, self._chance.random() < self._odd
        if chance.random() < self._nulls:
            return f"CAST(NULL AS {kind})"
        if (digits := decimal_digits(kind)) is not None:
            most = 10 ** digits[0] - 1
            unscaled = (
                chance.choice((most, -most, most // 2))
                if odd
                else chance.choice((0, 5, 25, chance.randint(-(10**6), 10**6)))
            )
            return f"CAST('{unscaled}E-{digits[1]}' AS {kind})"
        if kind in _BITS:
            edge = 1 << (_BITS[kind] - 1)
            return (
                f"CAST('{chance.choice((edge - 1, -edge, edge // 2)) if odd else chance.randint(-20, 20)}' AS {kind})"
            )
        if kind in {"double", "float"}:
            return f"CAST('{chance.choice(_DOUBLES) if odd else chance.choice((0.5, 1.25, -3.0, 0.1, 2.0))}' AS {kind})"
        if kind == "string":
            return f"CAST(X'{chance.choice(_ODD if odd else _PLAIN).encode().hex()}' AS STRING)"
        if kind == "boolean":
            return chance.choice(("true", "false"))
        days = chance.choice(_DAYS) if odd else _MIDDLE + chance.randint(-400, 400)
        if kind == "date":
            return f"date_from_unix_date({days})"
        micros = days * 86_400_000_000 + chance.choice((0, 1, 86_399_999_999, chance.randrange(86_400_000_000)))
        if chance.random() < _NEAR_CHANGES:
            moment = datetime.fromisoformat(f"{chance.choice(_CHANGES)}+00:00")
            micros = int(moment.timestamp()) * 10**6 + chance.randint(-8, 8) * 900_000_000 - chance.randint(0, 1)
        return f"CAST(timestamp_micros({micros}) AS {kind})"


def facts_of(engine: duckdb.DuckDBPyConnection, table: str) -> Mapping[str, ColumnFacts]:
    """What holds of the values of a table's columns in the engine, as after a load."""
    columns = [MemoryColumn(*each) for each in COLUMNS.items()]
    (row,) = engine.execute(facts_query(columns, table)).fetchall()
    return {each.name: _facts(row[1 + FACTS * n :][:FACTS]) for n, each in enumerate(columns)}


def _facts(found: Sequence[object]) -> ColumnFacts:
    nulls, nan, negative, wide, _, low, high, _ = found
    times = low if isinstance(low, int) else None, high if isinstance(high, int) else None
    return ColumnFacts(bool(nulls), bool(nan), bool(negative), not wide, *times)
