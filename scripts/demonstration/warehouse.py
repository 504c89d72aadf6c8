"""A second connection beside beeline's, for what is not shown: loading the tables, and checking the answers."""

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
    """The gateway answered something that is not true."""


class Warehouse:
    """Runs statements through the gateway with PyHive."""

    def __init__(self, cursor: hive.Cursor) -> None:
        self._cursor = cursor

    def rows(self, sql: str) -> list[Row]:
        self._cursor.execute(sql)
        return self._cursor.fetchall() if self._cursor.description else []

    def freshness(self, database: str) -> Mapping[str, str]:
        """FRESH or STALE of each materialized view. Asking refreshes nothing."""
        return {row[1]: row[2] for row in self.rows(f"SHOW MATERIALIZED VIEWS IN {database}")}

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Raises WrongAnswer unless both are equal."""
        if found != wanted:
            raise WrongAnswer(f"{what}: expected {_short(wanted)}, found {_short(found)}.")

    def expect_soon(self, what: str, look: Callable[[], object], wanted: object) -> None:
        """As `expect`, for what happens in the background."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := look()) != wanted and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        self.expect(what, found, wanted)

    def expect_same_rows(self, view: str, query: str) -> None:
        """Compares the view with a query on the base tables: the same rows, each as often, in any order."""
        shown, wanted = Counter(self.rows(f"SELECT * FROM {view}")), Counter(self.rows(query))
        self.expect(f"Rows of {view} that its definition does not give", list(shown - wanted), [])
        self.expect(f"Rows that the definition of {view} gives and it has not", list(wanted - shown), [])


@contextlib.contextmanager
def connected_warehouse(port: int, user: str) -> Iterator[Warehouse]:
    connection = hive.connect(host="127.0.0.1", port=port, username=user, auth="NOSASL")
    with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
        yield Warehouse(cursor)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
