"""What tools see of materialized views when they ask for metadata: GetSchemas, GetTables, GetColumns and the like.

Spark answers these calls; it knows materialized views as views, and the storage database as one like any other. A
`Listing` changes the pages of rows that a client fetches of such a call. A page in which it changes nothing passes as
it came, and no more than one page is in memory.
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
"""What clients ask for: the first as Hive has it, the second as PostgreSQL and Oracle do."""

ROWS_MAX = 1000
"""Rows of one page asked of Spark: 1,000 rows of 23 columns take 30 ms to read and write again, in which nothing else
is done. A client that wants more fetches again, for only an empty page is the end."""

DATABASE_COLUMNS = {"GetSchemas": 0, "GetTables": 1, "GetColumns": 1, "GetFunctions": 1}
"""Where the name of a row's database stands. Spark lists its built-in functions once for each database."""
TABLE_COLUMN, TYPE_COLUMN = 2, 3


class Listing(ABC):
    """The rows of one metadata call, as its client shall see them."""

    def request(self, payload: bytes) -> bytes:
        """What to ask Spark for instead, so that its rows suffice."""
        return payload

    async def fetch(self, forward: Callable[[bytes], Awaitable[bytes]], payload: bytes) -> bytes:
        """Answers a FetchResults request for rows; `forward` asks Spark.

        A page of which no row is left is not given out, the next one is: clients take an empty page for the end.
        Raises what `forward` raises, and WireError for rows that cannot be read.
        """
        call = message.fetch_call(payload)
        rows_max = self._rows_max(call)
        page, nothing_left = self._changed(await forward(message.with_fetch(payload, call.orientation, rows_max)))
        # Only forwards does a next page come: Spark refuses the other ways, and another server may turn in circles.
        while nothing_left and call.orientation in {FETCH_NEXT, FETCH_FIRST}:
            page, nothing_left = self._changed(await forward(message.with_fetch(payload, FETCH_NEXT, rows_max)))
        return page

    def _rows_max(self, call: FetchCall) -> int:
        return min(call.rows_max, ROWS_MAX)

    def _changed(self, answer: bytes) -> tuple[bytes, bool]:
        """Spark's reply as the client shall have it, and whether it had rows and has none any more."""
        place = message.results(answer)
        if place is None or not self._concerns(answer):
            return answer, False
        rows = reply.read_rows(answer, place)
        if not self.change(rows):
            return answer, False
        return reply.with_rows(answer, place, rows), not rowset.count_rows(rows)

    @abstractmethod
    def _concerns(self, answer: bytes) -> bool:
        """Whether a reply may have rows to change: a quick look at its bytes, to spare reading them."""

    @abstractmethod
    def change(self, rows: Any) -> bool:
        """Changes a TRowSet in place. False where there is nothing to change, as in one without rows."""


class WithoutDatabase(Listing):
    """All rows but those of one database, whose name stands in column `column`."""

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
    """What a client's list of table types means."""

    ask: tuple[str, ...] | None
    """The types to ask Spark for; None: those that the client gave."""
    shown_as: str
    """The type of the materialized views."""
    views: bool
    """Other views are shown too."""

    @classmethod
    def of(cls, types: Sequence[str]) -> ListedAs:
        """No types are all types. Tools that know tables or views only see materialized views as views."""
        others = tuple(each for each in types if each not in SPELLINGS)
        if len(others) < len(types):
            return cls(others if VIEW in others else (*others, VIEW), MATERIALIZED_VIEW, VIEW in others)
        if VIEW in types or not types:
            return cls(None, VIEW if types else MATERIALIZED_VIEW, True)
        if TABLE in types:
            return cls((*types, VIEW), VIEW, False)
        return cls(None, VIEW, True)


class Tables(Listing):
    """Tables, views, and the materialized views among the views; those of the database `hidden` are left out."""

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
    """Spark's table types, and before them MATERIALIZED_VIEW: the specification wants them sorted."""

    def __init__(self) -> None:
        self._given = False
        self._due = False

    def _rows_max(self, call: FetchCall) -> int:
        # Spark forgets the rows of a metadata call that it gave: FETCH_FIRST goes on with the others, and so does ours.
        self._due = not self._given and call.rows_max > 0
        return super()._rows_max(call) - self._due

    def _concerns(self, answer: bytes) -> bool:
        return self._due

    def change(self, rows: Any) -> bool:
        rowset.put_first(rows, MATERIALIZED_VIEW)
        self._given = True
        return True


class ListedOperation(ForwardedOperation):
    """A metadata call's operation at Spark, whose rows change on their way to the client."""

    def __init__(self, handle: Handle, listing: Listing) -> None:
        super().__init__(handle)
        self.listing = listing


def listing_of(name: str, payload: bytes, catalog: Catalog, show_storage: bool) -> Listing | None:
    """How the rows of a metadata call change; None where they never do."""
    hidden = None if show_storage else catalog.storage_database
    if name == "GetTableTypes":
        return TableTypes()
    if name == "GetTables":
        # A view that is dropped while its row is on the way was one when Spark made the list.
        before = frozenset(view.name for view in catalog.views())
        return Tables(
            ListedAs.of(message.table_types(payload)),
            lambda table: table in before or catalog.named(table) is not None,
            hidden,
        )
    if name in DATABASE_COLUMNS and hidden is not None:
        return WithoutDatabase(hidden, DATABASE_COLUMNS[name])
    return None
