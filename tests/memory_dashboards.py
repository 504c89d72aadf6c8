"""Texts as BI tools send them (tests/sql/rewriting/dashboards.sql), as rewriting asks them of views: for the engine
that answers them from memory. `record_memory` records what Spark says of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from star import TABLES, VIEWS
from statement_cases import load

from sql.rewriting.candidate import RewritableView

DATABASE = "in_memory_dashboards"
QUERIES = tuple(
    expected.split(": ", 1)[1].replace("shop.", "")
    for _, expected in load("rewriting/dashboards.sql")
    if ": - " not in expected
)
"""Each reads views, and a few of them small tables, too."""
_BASES = {
    "customer": "BIGINT STRING BIGINT STRING",
    "nation": "BIGINT STRING BIGINT",
    "part": "BIGINT STRING STRING STRING INT",
}
_ROWS = 120
_NULLS = 0.08
_TEXTS = tuple(dict.fromkeys(re.findall(r"'([A-Za-z]+)'", " ".join(QUERIES))))
_MAKERS: dict[str, Callable[[random.Random], str]] = {
    "DATE": lambda chance: f"DATE'{_day(chance)}'",
    "TIMESTAMP": lambda chance: f"TIMESTAMP'{_day(chance)} {chance.randint(0, 23):02d}:00:00'",
    "STRING": lambda chance: f"'{chance.choice(_TEXTS)}'",
    "BOOLEAN": lambda chance: chance.choice(("true", "false")),
    "BIGINT": lambda chance: str(chance.randint(1, 40)),
    "INT": lambda chance: str(chance.choice((1, 7, 2001, 2002))),
    "DOUBLE": lambda chance: f"{chance.randint(-400, 4000) / 8}D",
}


def _day(chance: random.Random) -> str:
    year = chance.choice((1993, 1994, 1995, 1996, 1997, 1998, 2020, 2023, 2024))
    return f"{year}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"


def _columns(view: RewritableView) -> dict[str, str]:
    return dict(zip(view.columns, view.types, strict=True))


COLUMNS = {name: _columns(view) for name, view in VIEWS.items()} | {
    table.table: dict(zip(names, _BASES[table.table].split(), strict=True))
    for table, names in TABLES.items()
    if table.table in _BASES
}
"""The columns of each view and table, with their types."""


def statements() -> list[str]:
    """Creates the views, as tables, and the tables, with rows."""
    found = list[str]()
    for table, columns in COLUMNS.items():
        chance = random.Random(table)
        rows = [f"({', '.join(_value(chance, each) for each in columns.values())})" for _ in range(_ROWS)]
        found.append(f"CREATE TABLE {table} ({', '.join(map(' '.join, columns.items()))}) USING PARQUET")
        found.append(f"INSERT INTO {table} VALUES {', '.join(rows)}")
    return found


def _value(chance: random.Random, kind: str) -> str:
    if chance.random() < _NULLS:
        return f"CAST(NULL AS {kind})"
    if kind.startswith("DECIMAL"):
        return f"CAST({chance.randint(-(10**5), 10**8)} AS DECIMAL(20,0)) / 100"
    return f"CAST({_MAKERS[kind](chance)} AS {kind})"
