"""A result of Spark's that is kept: its metadata, its rows, and the status with which it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.wire import columnar, reply
from gateway.wire.envelope import replied
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR, FetchCall, with_seqid


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Replies of Spark about one operation, of which none has its handle."""

    status: bytes
    """To GetOperationStatus, when it had ended."""
    metadata: bytes
    """To GetResultSetMetadata."""
    pages: Sequence[columnar.Page]
    """All rows in order; at least one page, which may have no rows."""
    bytes: int
    """How much memory it takes, about."""

    @property
    def rows(self) -> int:
        return sum(page.rows for page in self.pages)


class Cursor:
    """Where a client is in a recorded result. Spark's IterableFetchIterator moves alike."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self._position = 0
        self._began = 0
        """Where the last page began."""

    def status(self, seqid: int) -> bytes:
        return with_seqid(self.recorded.status, seqid)

    def metadata(self, seqid: int) -> bytes:
        return with_seqid(self.recorded.metadata, seqid)

    def fetch(self, seqid: int, call: FetchCall) -> bytes:
        """The reply to a request for rows."""
        match call.orientation:
            case _ if call.orientation == FETCH_NEXT:
                self._began = self._position
            case _ if call.orientation == FETCH_FIRST:
                self._began = 0
            case _ if call.orientation == FETCH_PRIOR:
                self._began = max(0, self._began - max(0, call.rows_max))
            case _:
                text = "The fetch type is not supported for this resultset. Fetch the next, first or prior rows."
                return reply.error("FetchResults", seqid, text, "HY106")
        self._position = min(self._began + max(0, call.rows_max), self.recorded.rows)
        body = columnar.page(self.recorded.pages, self._began, self._position - self._began)
        return replied("FetchResults", seqid, body)
