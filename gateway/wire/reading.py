"""Reads a result page by page, and asks Spark for the next page in advance.

Once a page has gone to the client, Spark can be asked for the next one at once, and makes it while the client processes
the previous one. The client gets it when it asks for exactly that page. If the client wants something else, Spark is
told to go back to where the client is. A FETCH_PRIOR of as many rows as the last page has leaves Spark's iterators
exactly as they were (`FetchIterator` in Spark's sources), and costs that page once more. If Spark would have to run the
query again for it, nothing may be read ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gateway.wire import message
from gateway.wire.frame import HEADER_BYTES, WireError
from gateway.wire.message import FETCH_NEXT, FETCH_PRIOR, FETCH_ROWS, FetchCall
from gateway.wire.page import rows_in
from gateway.wire.scanner import EXCEPTION, REPLY

PAGE_BYTES_MAX = 32 << 20
"""Longest page after which the next one is read ahead, because the client's other requests wait until that one has
arrived."""
_REQUEST_BYTES_MAX = 512
"""Longest request that is remembered; drivers' have about 120 bytes."""
_TO_SEQID, _AFTER_SEQID = 20, 24
"""Offsets in a FetchResults message."""
_BEGINNING_BYTES = 512
"""Bytes kept of the start of a frame, header included: enough to count the rows of a page."""
_PAGE_BEGINS = frozenset(b"\x80\x01\x00" + bytes((kind,)) for kind in (REPLY, EXCEPTION))


class ResultReading:
    """How the rows of one operation are read. `reader` identifies the connection that reads them."""

    __slots__ = ("_back", "_call", "_may", "_reader", "_rows", "_tail", "ahead", "lost")

    def __init__(self) -> None:
        self.ahead: Ahead | None = None
        """The page that Spark was asked for and the client has not received."""
        self.lost = False
        """Spark's position in the result is unknown."""
        self._may = True
        self._reader: object = None
        self._tail = b""  # The last page's request, after its sequence id.
        self._call: FetchCall | None = None
        self._rows = 0  # The rows of the last repeated request, and
        # the request that returns to it; cached, because building it costs as much as everything else here.
        self._back: bytes | None = None

    def call(self, payload: bytes) -> FetchCall:
        """Reads a FetchResults request. Raises WireError if the bytes are not one."""
        alike = self._call if payload[_AFTER_SEQID:] == self._tail else None
        return alike if alike is not None else message.fetch_call(payload)

    def asked_elsewhere(self, reader: object) -> Ahead | None:
        """The page that was asked for over another connection. No page may be asked for over this one until Spark has
        returned from there."""
        return self.ahead if self.ahead is not None and reader is not self._reader else None

    def page(self, payload: bytes, call: FetchCall, reader: object) -> ReadPage:
        """Takes a request for rows, unless `asked_elsewhere` returned a page."""
        if self._reader is None:
            self._reader = reader
        elif reader is not self._reader:
            self._may = False  # Two connections may ask at the same time.
        claims = self.ahead
        if claims is not None and not claims.answers(payload):
            claims.drop()
            claims = None
        return ReadPage(self, payload, call, claims)

    def close(self) -> None:
        """No more rows of the result are wanted."""
        self._may = False
        if self.ahead is not None:
            self.ahead.drop(for_good=True)

    def strayed(self) -> None:
        """A page was read ahead in vain: reads nothing ahead of this result any more."""
        self._may = False

    def passed(self, page: ReadPage, beginning: _Frame) -> Ahead | None:
        """Records that a page has gone to its client. Returns the next page if reading it ahead is worthwhile: after
        two equal requests, because many tools show the first page and ask for no more."""
        alike = page.payload[_AFTER_SEQID:] == self._tail
        short = len(page.payload) <= _REQUEST_BYTES_MAX
        self._tail, self._call = (page.payload[_AFTER_SEQID:], page.call) if short else (b"", None)
        if not alike:
            self._rows = 0
        if not (self._may and alike and self.ahead is None and page.call.orientation == FETCH_NEXT):
            return None
        rows = rows_in(beginning.message)
        if not rows or beginning.size > PAGE_BYTES_MAX:
            return None
        if rows != self._rows:
            self._rows, self._back = rows, _way_back(page, rows)
        if self._back is None:
            return None
        self.ahead = Ahead(self, page.payload, self._back, rows)
        return self.ahead


def _way_back(page: ReadPage, rows: int) -> bytes | None:
    """The request that repeats a page of so many rows; None if it cannot be derived from the page's request."""
    back = message.with_fetch(page.payload, FETCH_PRIOR, rows)
    if message.fetch_call(back) != FetchCall(page.call.operation, FETCH_PRIOR, rows, FETCH_ROWS):
        return None  # A field is missing, which would mean FETCH_NEXT.
    return back


class ReadPage:
    """A FetchResults request for rows, and its reply in chunks that include frame headers."""

    __slots__ = ("_frame", "_reading", "call", "claims", "payload")

    def __init__(self, reading: ResultReading, payload: bytes, call: FetchCall, claims: Ahead | None) -> None:
        self._reading = reading
        self._frame = _Frame()
        self.payload = payload
        self.call = call
        self.claims = claims
        """The page read ahead that answers this request."""

    def receive(self, data: bytes) -> tuple[bytes, None]:
        """Takes the next bytes of the reply; returns what goes to the client, which is all of them."""
        self._frame.take(data)
        return data, None

    def ended(self, *, may_read_ahead: bool) -> Ahead | None:
        """The reply has gone to the client. Returns the next page if Spark is to be asked for it now."""
        if not may_read_ahead:
            return None
        return self._reading.passed(self, self._frame)


class Ahead:
    """A page read ahead: it is kept as it arrives, until the client asks for it or will not."""

    __slots__ = (
        "_back",
        "_frames",
        "_kept",
        "_known",
        "_page",
        "_reading",
        "_rows",
        "_seqid",
        "dropped",
        "held",
        "on_drop",
        "on_over",
        "over",
        "request",
    )

    def __init__(self, reading: ResultReading, request: bytes, back: bytes, rows: int) -> None:
        """`back`: the request to send to Spark if the page is dropped; its reply has as many rows."""
        self._reading = reading
        self._page = _Frame()
        self._frames = deque([self._page])  # The frames that Spark has not yet sent completely.
        self._known = False
        self._kept: list[bytes] = []
        self._seqid: bytes | None = None
        self._back: bytes | None = back
        self._rows = rows
        self.request = request
        self.held = 0
        """Bytes kept for the client."""
        self.dropped = False
        self.over = False
        """The page is on its way to the client, or Spark has returned to its position before the page."""
        self.on_drop: Callable[[], None] = _nothing
        """Called when the page is dropped: then `go_back` is due."""
        self.on_over: list[Callable[[], None]] = []

    @property
    def complete(self) -> bool:
        """Spark has answered every request."""
        return not self._frames

    def answers(self, payload: bytes) -> bool:
        """Whether a FetchResults request asks for this page."""
        return not self.dropped and payload[_AFTER_SEQID:] == self.request[_AFTER_SEQID:]

    def receive(self, data: bytes) -> list[bytes]:
        """Takes Spark's next bytes. Returns those to pass on: what follows the page, or the page once the client has
        asked for it.

        Raises `WireError` if they do not answer the request.
        """
        while self._frames and data:
            frame = self._frames[0]
            end = frame.take(data)
            self._check(frame)
            if not self.dropped:
                self._keep(data[:end])
            data = data[end:]
            if frame.complete:
                self._frames.popleft()
        rest = [data] if data else []
        if self.dropped:
            self._end_when_back()
            return rest
        if self._seqid is None or not self._known:
            return rest
        begin = HEADER_BYTES + _TO_SEQID
        first = self._kept[0]
        self._kept[0] = first[:begin] + self._seqid + first[begin + len(self._seqid) :]
        page = self._kept + rest
        self._forget()
        self._end()
        return page

    def claim(self, request: bytes) -> None:
        """The client asks for the page. The next `receive` returns what has arrived of it."""
        self._seqid = request[_TO_SEQID:_AFTER_SEQID]

    def drop(self, *, for_good: bool = False) -> None:
        """The client will not ask for the page; `for_good`: nobody will read any other row of this result either."""
        if self.over or self._seqid is not None:
            return
        if for_good and self._back is not None:
            self._back = None
            self._reading.lost = True
        if not self.dropped:
            self.dropped = True
            self._forget()
            self._reading.strayed()
            if self._page.complete:
                self._check_page(self._page.message, complete=True)
        self._end_when_back()
        self.on_drop()

    def go_back(self) -> bytes | None:
        """Returns the request that takes Spark back to the client's position; its reply is consumed here."""
        if not self.dropped:
            return None
        back, self._back = self._back, None
        if back is not None:
            self._frames.append(_Frame())
        return back

    def lose(self) -> None:
        """The connection broke."""
        self._forget()
        if not self.over:
            self.dropped = True
            self._reading.strayed()
            self._reading.lost = True
            self._end()

    def _end_when_back(self) -> None:
        if not self._frames and self._back is None:
            self._end()

    def _end(self) -> None:
        if self.over:
            return
        self.over = True
        self._reading.ahead = None
        waiting, self.on_over = self.on_over, []
        for callback in waiting:
            callback()

    def _keep(self, piece: bytes) -> None:
        if self._kept and len(self._kept[0]) < HEADER_BYTES + _AFTER_SEQID:
            self._kept[0] += piece  # The bytes that `receive` replaces must be in one piece.
        else:
            self._kept.append(piece)
        self.held += len(piece)

    def _forget(self) -> None:
        self._kept = []
        self.held = 0

    def _check(self, frame: _Frame) -> None:
        if frame is self._page:
            self._check_page(frame.message, complete=frame.complete)
        elif frame.complete and rows_in(frame.message) != self._rows:
            self._reading.lost = True

    def _check_page(self, begun: bytes, *, complete: bool) -> None:
        """Guards against bytes of the previous page, from a server that spreads a page over several frames."""
        if not self._known and (complete or len(begun) >= _AFTER_SEQID):
            if begun[:4] not in _PAGE_BEGINS or begun[4:_AFTER_SEQID] != self.request[4:_AFTER_SEQID]:
                raise WireError("Spark's reply does not match the request for rows")
            self._known = True
        if complete and self.dropped and rows_in(begun) is None:
            self._reading.lost = True  # An error: Spark may not have moved.


class _Frame:
    """The next frame: how many bytes have arrived, and the first of them."""

    __slots__ = ("_beginning", "_came")

    def __init__(self) -> None:
        self._beginning = b""
        self._came = 0

    @property
    def size(self) -> int:
        """The length including the header; only the header's until it is complete."""
        if len(self._beginning) < HEADER_BYTES:
            return HEADER_BYTES
        return HEADER_BYTES + int.from_bytes(self._beginning[:HEADER_BYTES], "big")

    @property
    def complete(self) -> bool:
        return self._came >= HEADER_BYTES and self._came == self.size

    @property
    def message(self) -> bytes:
        """The frame's content as far as it has arrived and was kept."""
        return self._beginning[HEADER_BYTES : self.size]

    def take(self, data: bytes) -> int:
        """Returns how many of these bytes belong to the frame; the others follow it."""
        if self._came < _BEGINNING_BYTES:
            self._beginning += data[: _BEGINNING_BYTES - self._came]
        known = len(self._beginning) >= HEADER_BYTES
        taken = min(len(data), self.size - self._came) if known else len(data)
        self._came += taken
        return taken


def _nothing() -> None:
    """The default for `on_drop`."""
