"""A second connection, for what is not shown: loading the tables, and checking the answers."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyhive import hive

Row = tuple[Any, ...]
WAIT_SECONDS = 30.0
PAUSE_SECONDS = 0.2
SHOWN_MAX = 400


class WrongAnswer(Exception):
    """The gateway gave a wrong answer."""


class Warehouse:
    """Runs statements through the gateway with PyHive."""

    def __init__(self, cursor: hive.Cursor) -> None:
        self._cursor = cursor

    def rows(self, sql: str) -> list[Row]:
        self._cursor.execute(sql)
        return self._cursor.fetchall() if self._cursor.description else []

    def freshness(self, database: str) -> Mapping[str, str]:
        """FRESH or STALE for each materialized view. Asking does not refresh."""
        return {row[1]: row[2] for row in self.rows(f"SHOW MATERIALIZED VIEWS IN {database}")}

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Raises WrongAnswer if they differ."""
        if found != wanted:
            raise WrongAnswer(f"{what}: expected {_short(wanted)}, found {_short(found)}.")

    def expect_soon(self, what: str, read: Callable[[], object], wanted: object) -> None:
        """Like `expect`, for something that happens in the background."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := read()) != wanted and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        self.expect(what, found, wanted)

    def expect_same_rows(self, view: str, query: str) -> None:
        """Compares the view with a query on the base tables: the same rows with the same multiplicity, in any order."""
        shown, wanted = Counter(self.rows(f"SELECT * FROM {view}")), Counter(self.rows(query))
        self.expect(f"Rows of {view} that its definition does not return", list(shown - wanted), [])
        self.expect(f"Rows that the definition of {view} returns and the view lacks", list(wanted - shown), [])


@contextlib.contextmanager
def connected_warehouse(port: int, user: str) -> Iterator[Warehouse]:
    connection = hive.connect(host="127.0.0.1", port=port, username=user, auth="NOSASL")
    with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
        # Answers are compared with the base tables themselves.
        cursor.execute("SET freshgate.rewrite = off")
        yield Warehouse(cursor)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
