"""A result as its client reads it, page for page, and the page that Spark makes ready meanwhile.

When a page has gone to the client, Spark can be asked for the next one at once: it makes it while the client works on
the one before. The client has it when it asks for just that page. Where it turns out to want something else, Spark is
told to go back to where the client is. FETCH_PRIOR of as many rows as the last page has leaves its iterators exactly
as they were (`FetchIterator` in Spark's sources), and costs that page once more; where Spark would have to run the
query again, nothing may be read ahead.
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
"""Of the page before one that is asked for ahead. What else the client wants waits until a longer one is there."""
_REQUEST_BYTES_MAX = 512
"""Of a request that is remembered; drivers' have about 120 bytes."""
_TO_SEQID, _BEHIND_SEQID = 20, 24
"""In a message of FetchResults."""
_BEGINNING_BYTES = 512
"""Of a frame, header included: enough to count a page's rows by."""
_PAGE_BEGINS = frozenset(b"\x80\x01\x00" + bytes((kind,)) for kind in (REPLY, EXCEPTION))


class Reading:
    """How the rows of one operation are read. `reader` stands for the connection that it is read over."""

    __slots__ = ("_back", "_call", "_may", "_reader", "_rows", "_tail", "ahead", "lost")

    def __init__(self) -> None:
        self.ahead: Ahead | None = None
        """The page that Spark was asked for and the client has not."""
        self.lost = False
        """Nobody knows where Spark stands in the result."""
        self._may = True
        self._reader: object = None
        self._tail = b""  # The last page's request, from behind its sequence id.
        self._call: FetchCall | None = None
        self._rows = 0  # Of the last page that was alike, and
        self._back: bytes | None = None  # the request that gives it again: to make it takes as long as all else here.

    def call(self, payload: bytes) -> FetchCall:
        """What a FetchResults request asks for. Raises WireError for bytes that are none."""
        alike = self._call if payload[_BEHIND_SEQID:] == self._tail else None
        return alike if alike is not None else message.fetch_call(payload)

    def asked_elsewhere(self, reader: object) -> Ahead | None:
        """The page that was asked for over another connection: nothing may be asked over this one until Spark is back
        from there."""
        return self.ahead if self.ahead is not None and reader is not self._reader else None

    def page(self, payload: bytes, call: FetchCall, reader: object) -> ReadPage:
        """What becomes of a request for rows, where nothing was `asked_elsewhere`."""
        if self._reader is None:
            self._reader = reader
        elif reader is not self._reader:
            self._may = False  # Two connections may ask at one time.
        claims = self.ahead
        if claims is not None and not claims.answers(payload):
            claims.drop()
            claims = None
        return ReadPage(self, payload, call, claims)

    def close(self) -> None:
        """No more rows of it are wanted."""
        self._may = False
        if self.ahead is not None:
            self.ahead.drop(for_good=True)

    def strayed(self) -> None:
        """A page was asked for in vain: nobody guesses again about this result."""
        self._may = False

    def passed(self, page: ReadPage, beginning: _Frame) -> Ahead | None:
        """A page has gone to its client. The next one, where it is worth to ask for it: behind two alike, for many a
        tool shows the first one and asks for no more."""
        alike = page.payload[_BEHIND_SEQID:] == self._tail
        short = len(page.payload) <= _REQUEST_BYTES_MAX
        self._tail, self._call = (page.payload[_BEHIND_SEQID:], page.call) if short else (b"", None)
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
    """The request that gives a page of so many rows again; None where it cannot be made of the page's."""
    back = message.with_fetch(page.payload, FETCH_PRIOR, rows)
    if message.fetch_call(back) != FetchCall(page.call.operation, FETCH_PRIOR, rows, FETCH_ROWS):
        return None  # A field is missing, which means FETCH_NEXT then.
    return back


class ReadPage:
    """A FetchResults request for rows, and its reply in chunks, frames' headers included."""

    __slots__ = ("_frame", "_reading", "call", "claims", "payload")

    def __init__(self, reading: Reading, payload: bytes, call: FetchCall, claims: Ahead | None) -> None:
        self._reading = reading
        self._frame = _Frame()
        self.payload = payload
        self.call = call
        self.claims = claims
        """The page that Spark was asked for already: it is this one."""

    def receive(self, data: bytes) -> tuple[bytes, None]:
        """What goes to the client of the reply's next bytes: all of them."""
        self._frame.take(data)
        return data, None

    def ended(self, *, may_read_ahead: bool) -> Ahead | None:
        """The reply has gone to the client. The next page, where Spark is to be asked for it now."""
        if not may_read_ahead:
            return None
        return self._reading.passed(self, self._frame)


class Ahead:
    """A page that Spark was asked for before the client: kept as it comes, until the client asks or will not."""

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

    def __init__(self, reading: Reading, request: bytes, back: bytes, rows: int) -> None:
        """`back`: what to ask Spark where the page is dropped; it answers as many rows."""
        self._reading = reading
        self._page = _Frame()
        self._frames = deque([self._page])  # What Spark has still to send of it.
        self._known = False
        self._kept: list[bytes] = []
        self._seqid: bytes | None = None
        self._back: bytes | None = back
        self._rows = rows
        self.request = request
        self.held = 0
        """Bytes that wait for the client."""
        self.dropped = False
        self.over = False
        """It is on its way to the client, or Spark is where it was before."""
        self.on_drop: Callable[[], None] = _nothing
        """Called when it is dropped: then `go_back` is due."""
        self.on_over: list[Callable[[], None]] = []

    @property
    def complete(self) -> bool:
        """Spark has sent all that it was asked for."""
        return not self._frames

    def answers(self, payload: bytes) -> bool:
        """Whether a FetchResults request asks for this page."""
        return not self.dropped and payload[_BEHIND_SEQID:] == self.request[_BEHIND_SEQID:]

    def receive(self, data: bytes) -> list[bytes]:
        """Takes what Spark sends next. Returns what is somebody else's: what stands behind the page, or the page itself
        once the client has asked for it.

        Raises `WireError` where it is no answer to the request.
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
        behind = [data] if data else []
        if self.dropped:
            self._end_when_back()
            return behind
        if self._seqid is None or not self._known:
            return behind
        begin = HEADER_BYTES + _TO_SEQID
        first = self._kept[0]
        self._kept[0] = first[:begin] + self._seqid + first[begin + len(self._seqid) :]
        page = self._kept + behind
        self._forget()
        self._end()
        return page

    def claim(self, request: bytes) -> None:
        """The client asks for it. What has come of it is returned by the next `receive`."""
        self._seqid = request[_TO_SEQID:_BEHIND_SEQID]

    def drop(self, *, for_good: bool = False) -> None:
        """The client will not ask for it, nor, `for_good`, anybody for any other row of this result."""
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
        """What to ask Spark now, so that it stands again where the client is; its reply is taken from here on."""
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
        for told in waiting:
            told()

    def _keep(self, piece: bytes) -> None:
        if self._kept and len(self._kept[0]) < HEADER_BYTES + _BEHIND_SEQID:
            self._kept[0] += piece  # What is to be changed stands in one piece.
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
        """Against bytes that belong to the page before, of a server that spreads one over several frames."""
        if not self._known and (complete or len(begun) >= _BEHIND_SEQID):
            if begun[:4] not in _PAGE_BEGINS or begun[4:_BEHIND_SEQID] != self.request[4:_BEHIND_SEQID]:
                raise WireError("Spark answered to a request for rows by something else")
            self._known = True
        if complete and self.dropped and rows_in(begun) is None:
            self._reading.lost = True  # An error: it may not have moved.


class _Frame:
    """The next frame: how much of it has come, and its beginning."""

    __slots__ = ("_beginning", "_came")

    def __init__(self) -> None:
        self._beginning = b""
        self._came = 0

    @property
    def size(self) -> int:
        """Header included; that alone while it has not come whole."""
        if len(self._beginning) < HEADER_BYTES:
            return HEADER_BYTES
        return HEADER_BYTES + int.from_bytes(self._beginning[:HEADER_BYTES], "big")

    @property
    def complete(self) -> bool:
        return self._came >= HEADER_BYTES and self._came == self.size

    @property
    def message(self) -> bytes:
        """What stands in it, as far as it has come and was kept."""
        return self._beginning[HEADER_BYTES : self.size]

    def take(self, data: bytes) -> int:
        """How many of these bytes are the frame's; the others stand behind it."""
        if self._came < _BEGINNING_BYTES:
            self._beginning += data[: _BEGINNING_BYTES - self._came]
        known = len(self._beginning) >= HEADER_BYTES
        taken = min(len(data), self.size - self._came) if known else len(data)
        self._came += taken
        return taken


def _nothing() -> None:
    """Nobody is to hear of it."""
