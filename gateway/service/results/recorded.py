"""A result of Spark's that is kept: its metadata, its rows, and the status with which it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.wire import columnar, reply
from gateway.wire.envelope import replied
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR, FetchCall, with_seqid

_ORIENTATIONS = {2: "FETCH_RELATIVE", 3: "FETCH_ABSOLUTE", 5: "FETCH_LAST"}
"""Those that Spark refuses."""
_UNSUPPORTED = "HY106"
_PROTOCOL_ERROR = 7
"""TApplicationException.PROTOCOL_ERROR."""
_INT = 1 << 32


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Recorded:
    """Replies of Spark about one operation, of which none has its handle."""

    status: bytes
    """To GetOperationStatus, when it had ended."""
    metadata: bytes
    """To GetResultSetMetadata."""
    pages: Sequence[columnar.ColumnarPage]
    """All rows in order; at least one page, which may have no rows."""
    bytes: int
    """How much memory it takes, about."""

    @property
    def rows(self) -> int:
        return sum(page.rows for page in self.pages)


class FetchPosition:
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
        """The reply to a request for rows, or Spark's error for an orientation that it refuses."""
        if call.orientation not in (FETCH_NEXT, FETCH_PRIOR, FETCH_FIRST):
            return _refused(seqid, call)
        begins = {FETCH_NEXT: self._position, FETCH_PRIOR: self._began - call.rows_max, FETCH_FIRST: 0}
        self._began = min(max(begins[call.orientation], 0), self.recorded.rows)
        self._position = min(self._began + max(_as_int(call.rows_max), 0), self.recorded.rows)
        body = columnar.page(self.recorded.pages, self._began, self._position - self._began)
        return replied("FetchResults", seqid, body)


def _as_int(number: int) -> int:
    """A long as Scala makes an Int of it."""
    number %= _INT
    return number - _INT if number >= _INT // 2 else number


def _refused(seqid: int, call: FetchCall) -> bytes:
    name = _ORIENTATIONS.get(call.orientation)
    if name is None:
        text = "Required field 'orientation' is unset! It is none of TFetchOrientation."
        return reply.exception("FetchResults", seqid, text, _PROTOCOL_ERROR)
    text = f"The fetch type {name} is not supported for this resultset"
    return reply.error("FetchResults", seqid, text, _UNSUPPORTED)
