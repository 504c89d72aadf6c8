"""A result as its client reads it, page for page, and the page that Spark makes ready meanwhile.

When a page has gone to the client, Spark can be asked for the next one at once: it makes it while the client works on
the one before. The client has it when it asks for just that page. Where it asks for other rows of the result, Spark is
told first to go back to where the client is (FETCH_PRIOR, as in `page`), which is cheap while Spark has all rows in
memory; where it would have to run the query again, nothing may be read ahead.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.wire import message
from gateway.wire.frame import HEADER_BYTES, WireError
from gateway.wire.message import FetchCall
from gateway.wire.page import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR, rows_in
from gateway.wire.scanner import EXCEPTION, REPLY

FETCH_ROWS = 0
_TO_SEQID, _BEHIND_SEQID = 20, 24
"""In a message of FetchResults."""
_BEGINNING_BYTES = 512
"""Of a frame, header included: enough to count a page's rows by."""
_PAGE_BEGINS = frozenset(b"\x80\x01\x00" + bytes((kind,)) for kind in (REPLY, EXCEPTION))


class Reading:
    """How the rows of one operation are read. Spark may stand a page further than the client."""

    __slots__ = ("_astray", "_call", "_may", "_reader", "_rows", "_tail", "ahead", "unsure")

    def __init__(self) -> None:
        self.ahead: Ahead | None = None
        """The page that Spark was asked for and the client has not."""
        self.unsure = False
        """Nobody knows where Spark stands, for a connection broke: rows may be missing from here on."""
        self._may = True
        self._reader: object = None  # Whose connection the last page went over, and
        self._tail = b""  # with which request, from behind its sequence id.
        self._call: FetchCall | None = None
        self._rows = 0  # The last page's.
        self._astray: bytes | None = None  # The request whose page was dropped: Spark stands behind that one.

    def asked_elsewhere(self, reader: object) -> Ahead | None:
        """The page that was asked for over another connection, and of which Spark must be done before it is told to go
        back over this one."""
        return self.ahead if self.ahead is not None and self.ahead.reader is not reader else None

    def page(self, payload: bytes, reader: object) -> ReadPage | None:
        """What becomes of a FetchResults request, where nothing was `asked_elsewhere`; None for one that is about no
        rows. `reader`: whose connection this is. Raises WireError for bytes that are no such request."""
        tail = payload[_BEHIND_SEQID:]
        call = self._call if tail == self._tail else None
        if call is None:
            call = message.fetch_call(payload)
        if call.fetch_type != FETCH_ROWS:
            return None
        if (ahead := self.ahead) is not None:
            if not ahead.dropped and ahead.request[_BEHIND_SEQID:] == tail:
                return ReadPage(self, payload, call, reader, claims=ahead)
            ahead.drop()
        back = self._back(call)
        return ReadPage(self, payload, call, reader, back=back)

    def close(self) -> None:
        """No more rows of it are wanted."""
        self._may = False
        if self.ahead is not None:
            self.ahead.drop()

    def strayed(self, request: bytes) -> None:
        """A page was asked for ahead, and the client wants something else: nobody guesses again about this result."""
        self._may = False
        self._astray = request

    def lose(self) -> None:
        """A connection broke over which Spark was asked for a page, and may have made it."""
        self._may = False
        self._astray = None
        self.unsure = True

    def _back(self, call: FetchCall) -> bytes | None:
        """What to ask Spark before the request, so that it stands where the client is."""
        astray, self._astray = self._astray, None
        if call.orientation == FETCH_FIRST:
            self.unsure = False
            return None
        if astray is None:
            return None
        self.unsure = True
        # Rows forward begin where it then stands. Backwards they are counted from where the last page began.
        return message.with_fetch(astray, FETCH_PRIOR, 0 if call.orientation == FETCH_NEXT else self._rows)

    def passed(self, page: ReadPage, rows: int | None, *, may_read_ahead: bool) -> Ahead | None:
        """A page has gone to its client. The next one, where it is worth to ask for it: behind two alike, for many a
        tool shows the first one and asks for no more."""
        tail = page.payload[_BEHIND_SEQID:]
        alike = tail == self._tail and page.reader is self._reader
        self._tail, self._call, self._reader, self._rows = tail, page.call, page.reader, rows or 0
        may = may_read_ahead and self._may and self.ahead is None
        if not may or not alike or not rows or page.call.orientation != FETCH_NEXT:
            return None
        self.ahead = Ahead(self, page.payload, page.reader)
        return self.ahead


class ReadPage:
    """A FetchResults request for rows, and its reply in chunks, frames' headers included."""

    __slots__ = ("_back", "_frame", "_reading", "call", "claims", "payload", "reader", "request")

    def __init__(
        self,
        reading: Reading,
        payload: bytes,
        call: FetchCall,
        reader: object,
        *,
        claims: Ahead | None = None,
        back: bytes | None = None,
    ) -> None:
        self._reading = reading
        self._back = _Frame() if back is not None else None
        self._frame = _Frame()
        self.payload = payload
        self.call = call
        self.reader = reader
        self.claims = claims
        """The page that Spark was asked for already: it is this one."""
        self.request = payload if back is None else back
        """What to ask Spark first."""

    def receive(self, data: bytes) -> tuple[bytes, bytes | None]:
        """What goes to the client of the reply's next bytes, and what to ask Spark now, where that is due.

        Raises `WireError` where Spark does not go back.
        """
        if self._back is None:
            self._frame.take(data)
            return data, None
        if self._back.take(data) < len(data):
            raise WireError("Spark sent bytes behind a page")
        if not self._back.complete:
            return b"", None
        if rows_in(self._back.message) is None:
            raise WireError("Spark answered to going back in a result by something else")
        self._back = None
        self._reading.unsure = False
        return b"", self.payload

    def ended(self, *, may_read_ahead: bool) -> Ahead | None:
        """The reply has gone to the client. The next page, where Spark is to be asked for it now."""
        return self._reading.passed(self, rows_in(self._frame.message), may_read_ahead=may_read_ahead)


class Ahead:
    """A page that Spark was asked for before the client: kept as it comes, until the client asks or will not."""

    __slots__ = (
        "_frame",
        "_kept",
        "_known",
        "_reading",
        "_seqid",
        "dropped",
        "held",
        "on_drop",
        "on_over",
        "over",
        "reader",
        "request",
    )

    def __init__(self, reading: Reading, request: bytes, reader: object) -> None:
        self._reading = reading
        self._frame = _Frame()
        self._known = False
        self._kept: list[bytes] = []
        self.held = 0
        """Bytes that wait for the client."""
        self._seqid: bytes | None = None
        self.request = request
        self.reader = reader
        self.dropped = False
        self.over = False
        """It is on its way to the client, or nothing more of it comes."""
        self.on_drop: Callable[[], None] = _nothing
        """Called when what still comes of it is to be thrown away."""
        self.on_over: list[Callable[[], None]] = []

    @property
    def complete(self) -> bool:
        """Spark has sent all of it."""
        return self._frame.complete

    def receive(self, data: bytes) -> list[bytes]:
        """Takes what Spark sends next. Returns what is somebody else's: what stands behind the page, or the page itself
        once the client has asked for it.

        Raises `WireError` where it is no answer to the request.
        """
        end = self._frame.take(data)
        self._check()
        mine, rest = (data, b"") if end == len(data) else (data[:end], data[end:])
        behind = [rest] if rest else []
        if self.dropped:
            self._end_if(self.complete)
            return behind
        if mine:
            self._keep(mine)
        if self._seqid is None or not self._known:
            return behind
        begin = HEADER_BYTES + _TO_SEQID
        first = self._kept[0]
        self._kept[0] = first[:begin] + self._seqid + first[begin + len(self._seqid) :]
        page = self._kept + behind
        self._forget()
        self._end_if(True)
        return page

    def _keep(self, piece: bytes) -> None:
        if self._kept and len(self._kept[0]) < HEADER_BYTES + _BEHIND_SEQID:
            self._kept[0] += piece  # What is to be changed stands in one piece.
        else:
            self._kept.append(piece)
        self.held += len(piece)

    def _forget(self) -> None:
        self._kept = []
        self.held = 0

    def claim(self, request: bytes) -> None:
        """The client asks for it. What has come of it is returned by the next `receive`."""
        self._seqid = request[_TO_SEQID:_BEHIND_SEQID]

    def drop(self) -> None:
        """The client will not ask for it: Spark stands where the client is not."""
        if self.dropped or self.over or self._seqid is not None:
            return
        self.dropped = True
        self._forget()
        self._reading.strayed(self.request)
        self._end_if(self.complete)
        self.on_drop()

    def lose(self) -> None:
        """The connection broke. Whether Spark has made the page nobody knows."""
        self.drop()
        if not self.over:
            self._reading.lose()
            self._end_if(True)

    def _check(self) -> None:
        """Against bytes that belong to the page before, of a server that spreads one over several frames."""
        if self._known:
            return
        begun = self._frame.message
        if len(begun) < _BEHIND_SEQID:
            if self.complete:
                raise WireError("Spark answered to a request for rows by something else")
            return
        if begun[:4] not in _PAGE_BEGINS or begun[4:_BEHIND_SEQID] != self.request[4:_BEHIND_SEQID]:
            raise WireError("Spark answered to a request for rows by something else")
        self._known = True

    def _end_if(self, over: bool) -> None:
        if not over or self.over:
            return
        self.over = True
        self._reading.ahead = None
        waiting, self.on_over = self.on_over, []
        for told in waiting:
            told()


class _Frame:
    """The next frame: how much of it has come, and its beginning."""

    __slots__ = ("_beginning", "_came")

    def __init__(self) -> None:
        self._beginning = b""
        self._came = 0

    @property
    def _size(self) -> int | None:
        if len(self._beginning) < HEADER_BYTES:
            return None
        return HEADER_BYTES + int.from_bytes(self._beginning[:HEADER_BYTES], "big")

    @property
    def complete(self) -> bool:
        return self._came == self._size

    @property
    def message(self) -> bytes:
        """What stands in it, as far as it has come and was kept."""
        return self._beginning[HEADER_BYTES : self._size]

    def take(self, data: bytes) -> int:
        """How many of these bytes are the frame's; the others stand behind it."""
        if self._came < _BEGINNING_BYTES:
            self._beginning += data[: _BEGINNING_BYTES - self._came]
        size = self._size
        taken = len(data) if size is None else min(len(data), size - self._came)
        self._came += taken
        return taken


def _nothing() -> None:
    """Nobody is to hear of it."""
