"""The statements that every driver runs, and the answers that do not depend on the driver."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DATABASE = "drivers"
USER = "tester"

COLUMNS = {
    "yes": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "whole": "INT",
    "big": "BIGINT",
    "narrow": "FLOAT",
    "wide": "DOUBLE",
    "exact": "DECIMAL(38,18)",
    "words": "STRING",
    "short_words": "VARCHAR(5)",
    "padded": "CHAR(5)",
    "octets": "BINARY",
    "day": "DATE",
    "instant": "TIMESTAMP",
    "wall_clock": "TIMESTAMP_NTZ",
    "months": "INTERVAL YEAR TO MONTH",
    "seconds": "INTERVAL DAY TO SECOND",
    "list": "ARRAY<INT>",
    "named": "MAP<STRING,INT>",
    "both": "STRUCT<a:INT,b:STRING>",
}
"""Every type that Spark's Thrift server can return, by the name of the column in `every_type`."""

VALUES = (
    "(1, true, 1Y, -2S, 3, 4L, CAST(1.5 AS FLOAT), -2.5D, 12345678901234567890.123456789012345678BD, 'text', 'ab', "
    "'ab', "
    "X'41FF', DATE'2020-02-29', TIMESTAMP'2020-01-31 12:34:56.789012', TIMESTAMP_NTZ'2021-07-01 00:00:00', "
    "INTERVAL '1-2' YEAR TO MONTH, INTERVAL '3 04:05:06.7' DAY TO SECOND, array(1, NULL), map('k', 1), "
    "named_struct('a', 1, 'b', 'x'))",
    "(2, false, -128Y, 32767S, -2147483648, 9223372036854775807L, CAST('NaN' AS FLOAT), CAST('-Infinity' AS DOUBLE), "
    "-0.000000000000000001BD, 'ü 😀\\ttab', 'é', '', X'', DATE'0001-01-01', TIMESTAMP'1969-12-31 23:59:59', "
    "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', INTERVAL '-1-2' YEAR TO MONTH, "
    "INTERVAL '-0 00:00:00.000001' DAY TO SECOND, array(), map(), named_struct('a', NULL, 'b', ''))",
    "(3, " + ", ".join(["NULL"] * len(COLUMNS)) + ")",
)
EMPTY_WORDS = "(4, " + ", ".join("''" if name == "words" else "NULL" for name in COLUMNS) + ")"

SETUP = (
    f"CREATE DATABASE {DATABASE}",
    f"CREATE TABLE {DATABASE}.every_type (id INT COMMENT 'the row', "
    + ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    + ") USING parquet COMMENT 'one column of each type'",
    f"INSERT INTO {DATABASE}.every_type VALUES " + ", ".join([*VALUES, EMPTY_WORDS]),
    f"CREATE TABLE {DATABASE}.orders (`a b` INT, `é` STRING) USING parquet",
    f"CREATE VIEW {DATABASE}.orders_view AS SELECT `a b` FROM {DATABASE}.orders",
)

EVERY_TYPE = f"SELECT * FROM {DATABASE}.every_type ORDER BY id"
WITHOUT_INTERVALS = (
    f"SELECT id, {', '.join(name for name in COLUMNS if 'INTERVAL' not in COLUMNS[name])} "
    f"FROM {DATABASE}.every_type ORDER BY id"
)
NO_ROWS = f"SELECT * FROM {DATABASE}.every_type WHERE id < 0"
NOTHING = "SELECT id, NULL AS nothing FROM range(2) ORDER BY id"
"""A query with a column of the type VOID."""
PAGES = "SELECT id, CAST(id AS STRING) AS words FROM range(2500) ORDER BY id"
PAGED = [(number, str(number)) for number in range(2500)]
UNKNOWN_TABLE = "SELECT nothing FROM nowhere"
UNREADABLE = "SELEKT 1"
DIVIDES = "SELECT 1 / id FROM range(1)"
"""A query that fails when it runs, not when it is planned."""
ERRORS = {UNKNOWN_TABLE: "42P01", UNREADABLE: "42601", DIVIDES: "22012"}
"""Failing statements with Spark's SQLSTATEs."""
SLEEPS = "SELECT reflect('java.lang.Thread', 'sleep', 60000L) FROM range(1)"
"""A query that runs for a minute, unless it is cancelled."""

TEXTS = ["it's", "", 'say "x"', "ü 😀", "100%", "a?b:c", "-- no comment"]
"""Parameters that a driver must escape."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Server:
    """The server that a driver connects to: Spark's Thrift server, or the gateway in front of it."""

    name: str
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"jdbc:hive2://{self.host}:{self.port}/{DATABASE}"


Look = Callable[..., Any]
"""Runs something on a server, and returns the outcome as comparable values."""


class Reference:
    """The answers of Spark's Thrift server, each of which is taken once per run."""

    def __init__(self, direct: Server) -> None:
        self._direct = direct
        self._answers: dict[tuple[Any, ...], Any] = {}

    def answer(self, server: Server, look: Look, *arguments: Any) -> Any:
        """The answer of a server, which must equal that of Spark's Thrift server."""
        key = (look, *arguments)
        if key not in self._answers:
            self._answers[key] = look(self._direct, *arguments)
        if server == self._direct:
            return self._answers[key]
        answer = look(server, *arguments)
        assert answer == self._answers[key]
        return answer


def first_line(error: object) -> str:
    """The message of an error without the stack trace and without ids of sessions."""
    return _UUID.sub("<id>", str(error).partition("\n")[0].strip())


def life(orders: str, totals: str) -> list[tuple[str, list[tuple[str, ...]] | None]]:
    """The life cycle of a materialized view: statements with their expected rows as strings; None: any rows."""
    read = f"SELECT day, total FROM {totals} ORDER BY day"
    query = f"SELECT day, sum(amount) AS total FROM {orders} GROUP BY day"
    database, _, view = totals.partition(".")
    staleness = f"SELECT is_stale FROM {database}.INFORMATION_SCHEMA.MATERIALIZED_VIEWS"
    return [
        (f"CREATE TABLE {orders} (day STRING, amount INT) USING parquet", None),
        (f"INSERT INTO {orders} VALUES ('mon', 10), ('mon', 5), ('tue', 1)", None),
        (f"CREATE MATERIALIZED VIEW {totals} AS {query}", None),
        (read, [("mon", "15"), ("tue", "1")]),
        (f"INSERT INTO {orders} VALUES ('tue', 41)", None),
        (staleness, [("true",)]),
        (read, [("mon", "15"), ("tue", "42")]),
        (f"{query} ORDER BY day", [("mon", "15"), ("tue", "42")]),
        (staleness, [("false",)]),
        (f"SELECT table_name FROM {database}.INFORMATION_SCHEMA.MATERIALIZED_VIEWS", [(view,)]),
        (f"SHOW MATERIALIZED VIEWS IN {database}", None),
        (f"REFRESH MATERIALIZED VIEW {totals}", None),
        (f"ALTER MATERIALIZED VIEW {totals} RENAME TO {totals}_2", None),
        (f"SELECT total FROM {totals}_2 WHERE day = 'tue'", [("42",)]),
        (f"DROP MATERIALIZED VIEW {totals}_2", None),
        (f"SHOW MATERIALIZED VIEWS IN {database}", []),
    ]


def lives(run: Callable[[str], list[tuple[Any, ...]]], database: str) -> None:
    """Runs the life cycle of a view. `run` runs a statement and returns its rows, or [] if it has none."""
    for statement, expected in life(f"{database}.orders", f"{database}.totals"):
        found = run(statement)
        if expected is not None:
            assert [tuple(str(value).lower() for value in row) for row in found] == expected, statement
