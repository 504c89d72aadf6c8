"""Materialized views in the results of metadata calls: GetSchemas, GetTables, GetColumns and so on.

Spark answers these calls, with materialized views as views, and with the storage database like any other. A `Listing`
changes the pages of rows that a client fetches. Other pages pass unchanged, and at most one page is in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.mv.catalog.index import Catalog
from gateway.service.operations.operation import ForwardedOperation
from gateway.wire import message, reply, rowset
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FetchCall, Handle
from sql.names import TableName

TABLE = "TABLE"
VIEW = "VIEW"
MATERIALIZED_VIEW = "MATERIALIZED_VIEW"
SPELLINGS = frozenset({MATERIALIZED_VIEW, "MATERIALIZED VIEW"})
"""The type in requests: the first as in Hive, the second as in PostgreSQL and Oracle."""

ROWS_MAX = 1000
"""Most rows per page requested from Spark: parsing and writing 1,000 rows of 23 columns blocks the event loop for
30 ms. A client that wants more fetches again, because only an empty page is the end."""

DATABASE_COLUMNS = {"GetSchemas": 0, "GetTables": 1, "GetColumns": 1, "GetFunctions": 1}
"""The column with the name of a row's database. Spark lists its built-in functions once for each database."""
TABLE_COLUMN, TYPE_COLUMN = 2, 3


class Listing(ABC):
    """Changes the rows of one metadata call for its client."""

    def request(self, payload: bytes) -> bytes:
        """The request to send to Spark instead, so that its answer contains all needed rows."""
        return payload

    async def fetch(self, forward: Callable[[bytes], Awaitable[bytes]], payload: bytes) -> bytes:
        """Answers a FetchResults request for rows; `forward` asks Spark.

        A page without remaining rows is skipped, because clients take an empty page for the end. Raises what `forward`
        raises, and WireError for rows that cannot be parsed.
        """
        call = message.fetch_call(payload)
        rows_max = self._rows_max(call)
        page, nothing_left = self._changed(await forward(message.with_fetch(payload, call.orientation, rows_max)))
        # Only forward fetches lead to a next page: Spark refuses the others, and another server might loop.
        while nothing_left and call.orientation in {FETCH_NEXT, FETCH_FIRST}:
            page, nothing_left = self._changed(await forward(message.with_fetch(payload, FETCH_NEXT, rows_max)))
        return page

    def _rows_max(self, call: FetchCall) -> int:
        return min(call.rows_max, ROWS_MAX)

    def _changed(self, answer: bytes) -> tuple[bytes, bool]:
        """The reply for the client, and whether all of its rows were removed."""
        place = message.results(answer)
        if place is None or not self._concerns(answer):
            return answer, False
        rows = reply.read_rows(answer, place)
        if not self.change(rows):
            return answer, False
        return reply.with_rows(answer, place, rows), not rowset.count_rows(rows)

    @abstractmethod
    def _concerns(self, answer: bytes) -> bool:
        """Whether a reply may have rows to change: a fast test of its bytes, which often avoids parsing."""

    @abstractmethod
    def change(self, rows: Any) -> bool:
        """Changes a TRowSet in place. Returns False if nothing changed, for example without rows."""


class WithoutDatabase(Listing):
    """Removes the rows of one database, whose name is in column `column`."""

    def __init__(self, database: str, column: int) -> None:
        self._database = database
        self._column = column

    def _concerns(self, answer: bytes) -> bool:
        return self._database.encode() in answer

    def change(self, rows: Any) -> bool:
        names = rowset.texts_of(rows, self._column)
        kept = [index for index, name in enumerate(names) if name != self._database]
        if len(kept) == len(names):
            return False
        rowset.keep_rows(rows, kept)
        return True


@dataclass(frozen=True, slots=True)
class ListedAs:
    """The meaning of a client's list of table types."""

    ask: tuple[str, ...] | None
    """The types to request from Spark; None for those in the client's request."""
    shown_as: str
    """The type with which materialized views are shown."""
    views: bool
    """Whether other views are shown too."""

    @classmethod
    def of(cls, types: Sequence[str]) -> ListedAs:
        """An empty list means all types. Tools that ask only for tables or views get materialized views as views."""
        others = tuple(each for each in types if each not in SPELLINGS)
        if len(others) < len(types):
            return cls(others if VIEW in others else (*others, VIEW), MATERIALIZED_VIEW, VIEW in others)
        if VIEW in types or not types:
            return cls(None, VIEW if types else MATERIALIZED_VIEW, True)
        if TABLE in types:
            return cls((*types, VIEW), VIEW, False)
        return cls(None, VIEW, True)


class Tables(Listing):
    """Tables and views, with the type of materialized views changed; without the database `hidden`."""

    def __init__(self, wanted: ListedAs, is_materialized: Callable[[TableName], bool], hidden: str | None) -> None:
        self._wanted = wanted
        self._is_materialized = is_materialized
        self._hidden = hidden

    def request(self, payload: bytes) -> bytes:
        return payload if self._wanted.ask is None else message.with_table_types(payload, self._wanted.ask)

    def _concerns(self, answer: bytes) -> bool:
        return VIEW.encode() in answer or (self._hidden is not None and self._hidden.encode() in answer)

    def change(self, rows: Any) -> bool:
        columns = (DATABASE_COLUMNS["GetTables"], TABLE_COLUMN, TYPE_COLUMN)
        kept: list[int] = []
        materialized: list[int] = []
        found = list(zip(*(rowset.texts_of(rows, column) for column in columns), strict=True))
        for index, (database, table, kind) in enumerate(found):
            if self._hidden is not None and database == self._hidden:
                continue
            # A temporary view has no database.
            if kind == VIEW and database and table and self._is_materialized(TableName(database, table)):
                materialized.append(index)
            elif kind == VIEW and not self._wanted.views:
                continue
            kept.append(index)
        renamed = materialized if self._wanted.shown_as != VIEW else []
        if not renamed and len(kept) == len(found):
            return False
        rowset.put_texts(rows, TYPE_COLUMN, dict.fromkeys(renamed, self._wanted.shown_as))
        rowset.keep_rows(rows, kept)
        return True


class TableTypes(Listing):
    """Spark's table types after MATERIALIZED_VIEW, because the specification requires them to be sorted."""

    def __init__(self) -> None:
        self._given = False
        self._due = False

    def _rows_max(self, call: FetchCall) -> int:
        # Spark drops the rows that it has returned for a metadata call: FETCH_FIRST continues with the others, as here.
        self._due = not self._given and call.rows_max > 0
        return super()._rows_max(call) - self._due

    def _concerns(self, answer: bytes) -> bool:
        return self._due

    def change(self, rows: Any) -> bool:
        rowset.put_first(rows, MATERIALIZED_VIEW)
        self._given = True
        return True


class ListedOperation(ForwardedOperation):
    """A metadata call's operation at Spark, whose rows are changed for the client."""

    def __init__(self, handle: Handle, listing: Listing) -> None:
        super().__init__(handle)
        self.listing = listing


def listing_of(name: str, payload: bytes, catalog: Catalog) -> Listing | None:
    """How the rows of a metadata call change; None if they never do."""
    hidden = catalog.storage_database
    if name == "GetTableTypes":
        return TableTypes()
    if name == "GetTables":
        # A view that is dropped during the call still was a materialized view when Spark made the list.
        before = frozenset(view.name for view in catalog.views())
        return Tables(
            ListedAs.of(message.table_types(payload)),
            lambda table: table in before or catalog.named(table) is not None,
            hidden,
        )
    if name in DATABASE_COLUMNS and hidden is not None:
        return WithoutDatabase(hidden, DATABASE_COLUMNS[name])
    return None
