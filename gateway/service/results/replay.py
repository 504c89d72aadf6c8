"""An answer of Spark's in memory, and its replay to a client."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.service.results.key import Key
from gateway.wire import message, reply
from gateway.wire.columnar import ColumnarPage, Span, joined
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR, FetchCall

PAGE_BYTES = 300
"""What a page takes besides its payload, without its columns."""
COLUMN_BYTES = 150
"""What a column of a page takes besides its values."""
_ORIENTATIONS = {2: "FETCH_RELATIVE", 3: "FETCH_ABSOLUTE", 5: "FETCH_LAST"}
"""Those that Spark refuses."""
_UNSUPPORTED = "HY106"
_PROTOCOL_ERROR = 7
_INT = 1 << 32


def size_of(page: ColumnarPage) -> int:
    """The bytes that a page takes in memory."""
    return len(page.payload) + PAGE_BYTES + COLUMN_BYTES * len(page.kinds)


@dataclass(eq=False, slots=True)
class Entry:
    """The whole answer to a query: Spark's own replies."""

    key: Key
    metadata: bytes
    """The reply to GetResultSetMetadata."""
    pages: Sequence[ColumnarPage]
    """At least one, in order, without gaps, from the first row on."""
    born: float
    """When Spark had made it, by the monotonic clock."""
    rows: int = field(init=False)
    size: int = field(init=False)
    """What it takes in memory."""
    replays: int = 0
    """How many clients may still fetch it."""
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = self.pages[-1].start + self.pages[-1].rows
        self.size = len(self.metadata) + self.key.bytes + sum(map(size_of, self.pages))
        self._starts = [page.start for page in self.pages]

    def page(self, begin: int, end: int) -> bytes:
        """A page with the rows from `begin` to `end` (exclusive), which exist; its sequence id is any."""
        at = max(0, bisect_right(self._starts, begin) - 1)
        first = self.pages[at]
        if first.start == begin and first.rows == end - begin:
            return first.payload
        spans, row = list[Span](), begin
        while row < end:
            page = self.pages[at]
            upto = min(end, page.start + page.rows)
            if upto > row:
                spans.append((page, row - page.start, upto - page.start))
                row = upto
            at += 1
        return joined(begin, spans or [(first, 0, 0)])


class Replay:
    """The answer as an operation's: it moves through the rows as Spark's iterators do."""

    def __init__(self, entry: Entry, released: Callable[[Entry], None]) -> None:
        """`released` is called once no more rows are fetched."""
        self.entry = entry
        self._released: Callable[[Entry], None] | None = released
        self._start = 0
        """The first row of the last page."""
        self._position = 0
        """The row behind it."""

    def release(self) -> None:
        """No more rows are fetched."""
        released, self._released = self._released, None
        if released is not None:
            released(self.entry)

    def metadata(self, seqid: int) -> bytes:
        return message.with_seqid(self.entry.metadata, seqid)

    def fetch(self, seqid: int, call: FetchCall) -> bytes:
        """The reply to a request for rows, or Spark's error for an orientation that it refuses."""
        if call.orientation not in (FETCH_NEXT, FETCH_PRIOR, FETCH_FIRST):
            return _refused(seqid, call)
        begins = {FETCH_NEXT: self._position, FETCH_PRIOR: self._start - call.rows_max, FETCH_FIRST: 0}
        self._start = min(max(begins[call.orientation], 0), self.entry.rows)
        self._position = min(self._start + max(_as_int(call.rows_max), 0), self.entry.rows)
        return message.with_seqid(self.entry.page(self._start, self._position), seqid)


def _as_int(number: int) -> int:
    """A long as Scala makes an Int of it."""
    number %= _INT
    return number - _INT if number >= _INT // 2 else number


def _refused(seqid: int, call: FetchCall) -> bytes:
    name = _ORIENTATIONS.get(call.orientation)
    if name is None:
        text = "Required field 'orientation' is unset! It is none of TFetchOrientation."
        return reply.exception("FetchResults", seqid, text, _PROTOCOL_ERROR)
    return reply.error(
        "FetchResults", seqid, f"The fetch type {name} is not supported for this resultset", _UNSUPPORTED
    )
