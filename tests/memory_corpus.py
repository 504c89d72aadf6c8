"""Queries on a table that holds what a view would hold, for the engine that answers them from memory.

`record_memory` records Spark's plans and answers, so that the tests of the translation need no Spark.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

DATABASE, TABLE = "in_memory", "sales"
BASE = "base"
"""A base table with the same columns, for random queries."""
COLUMNS = {
    "day": "date",
    "shop": "string",
    "n": "int",
    "orders": "bigint",
    "amount": "decimal(12,2)",
    "rate": "decimal(20,10)",
    "d": "double",
    "f": "float",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "b": "boolean",
    "s": "smallint",
    "t": "tinyint",
}
_ROWS = 160
_NULLS = 0.12
_TEXTS = ("a", "b", "x", "xy_z", "x1y2z", "", "A", " a ", "ab", "zz%", "ab cd", "it's", "100%", "\\\\")

QUERIES = tuple(
    " ".join(query.split())
    for query in re.sub("--.*", "", Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")).split(";")
    if query.strip()
)
REFUSED = {
    "SELECT sum(d) FROM sales": "whose sum depends on their order",
    "SELECT d, count(*) FROM sales GROUP BY d": "groups by a floating-point number",
    "SELECT round(d, 1) FROM sales": "uses a double as a decimal",
    "SELECT CAST(d AS INT) FROM sales": "casts double to int",
    "SELECT CAST(amount AS INT) FROM sales": "casts decimal(12,2) to int",
    "SELECT CAST(shop AS INT) FROM sales": "casts string to int",
    "SELECT stddev(n) FROM sales": "the aggregate StddevSamp",
    "SELECT collect_list(n) FROM sales": "the aggregate CollectList",
    "SELECT mode(n) FROM sales": "the aggregate Mode",
    "SELECT n, lag(n) OVER (ORDER BY day) FROM sales": "may have equal rows",
    "SELECT sum(n) OVER (ORDER BY day ROWS 2 PRECEDING) FROM sales": "may have equal rows",
    "SELECT sum(n) OVER (ORDER BY s RANGE 2 PRECEDING) FROM sales": "distances of values",
    "SELECT date_format(ts, 'QQQ') FROM sales": "another pattern",
    "SELECT shop, nth_value(n, 2) OVER (PARTITION BY shop ORDER BY n) FROM sales": "the window function NthValue",
    "SELECT shop LIKE '%x' ESCAPE '%' FROM sales": "unusual escape",
    "SELECT initcap(shop) FROM sales": "the expression InitCap",
    "SELECT array(n) FROM sales": "the expression CreateArray",
    "SELECT f FROM sales": "it shows a FLOAT",
    "SELECT max(day) - min(day) FROM sales": "the expression SubtractDates",
    "SELECT sum(rate * rate * rate) FROM sales": "want of digits",
}
"""Queries that Spark answers, each with a part of the reason."""


SEVERAL = ("SELECT shop, first(n) FROM sales GROUP BY shop", "SELECT last(b, true) FROM sales")
"""Queries that have another answer if the rows come in another order."""


def rows_as_sql() -> str:
    """The rows of the table, as VALUES."""
    chance = random.Random(1)
    rows = [[_value(chance, type_text) for type_text in COLUMNS.values()] for _ in range(_ROWS)]
    return "VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)


def _value(chance: random.Random, type_text: str) -> str:
    if chance.random() < _NULLS:
        return f"CAST(NULL AS {type_text})"
    return f"CAST({_MAKERS[type_text](chance)} AS {type_text})"


def _day(chance: random.Random, years: Sequence[int]) -> str:
    return f"{chance.choice(years):04d}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"


def _time(chance: random.Random) -> str:
    fraction = chance.choice(("0", "5", "123456", "120", "000001"))
    hours = f"{chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:{chance.randint(0, 59):02d}.{fraction}"
    return f"{_day(chance, (1970, 2023, 2024))} {hours}"


_MAKERS: dict[str, Callable[[random.Random], str]] = {
    "date": lambda chance: f"DATE'{_day(chance, (1583, 1970, 1999, 2023, 2024, 9900))}'",
    "string": lambda chance: "'" + chance.choice(_TEXTS).replace("'", "\\'") + "'",
    "int": lambda chance: str(chance.randint(-8, 8)),
    "bigint": lambda chance: str(chance.randint(-(10**6), 10**6)),
    "decimal(12,2)": lambda chance: f"{chance.randint(-(10**6), 10**6) / 100:.2f}",
    "decimal(20,10)": lambda chance: f"{chance.randint(-(10**12), 10**12)}BD / 10000000000BD",
    "double": lambda chance: f"{chance.choice((0.5, 1.25, -3.0, 1e10, 0.1))!r}D",
    "float": lambda chance: str(chance.choice((0.5, 1.25, -3.0))),
    "timestamp": lambda chance: f"TIMESTAMP'{_time(chance)}'",
    "timestamp_ntz": lambda chance: f"TIMESTAMP_NTZ'{_time(chance)}'",
    "boolean": lambda chance: chance.choice(("true", "false")),
    "smallint": lambda chance: str(chance.randint(-300, 300)),
    "tinyint": lambda chance: str(chance.randint(-100, 100)),
}
"""A value of each type as SQL."""
