"""Limits the length of a page of rows: a page that is too long is discarded and fetched again with fewer rows.

The header of its frame tells a page's length, so a page that is too long is recognized before any of it is buffered.
The gateway discards it, tells Spark to return to the page's first row (a FETCH_PRIOR of no rows does that in Spark's
iterators), and fetches as many rows as should fit. A single row passes however long it is, because there is nothing
smaller to fetch.
"""

from __future__ import annotations

from gateway.wire import message
from gateway.wire.frame import HEADER_BYTES, WireError
from gateway.wire.message import FETCH_NEXT, FETCH_PRIOR
from gateway.wire.scanner import LIST, STRUCT

SHARE = 0.9
"""The share of the limit that the next attempt aims at, because rows differ in length."""
GROW_BELOW = 0.25
"""After a reduced page that fills less than this share of the limit, the next pages may have more rows."""
_REWOUND_BYTES_MAX = 1 << 20
"""Longest reply to going back: no rows, or an error with its stack trace."""


class Fit:
    """How many rows of one operation fit; shared by its pages."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: int | None = None
        """None: no limit has been needed so far."""


class FittedPage:
    """A FetchResults request for rows, and its reply in chunks that include frame headers."""

    __slots__ = ("_asked", "_bytes_max", "_fit", "_kept", "_left", "_limited", "_payload", "_state", "request")

    def __init__(self, payload: bytes, bytes_max: int, fit: Fit) -> None:
        call = message.fetch_call(payload)
        self._payload = payload
        self._bytes_max = bytes_max
        self._fit = fit
        # For FETCH_PRIOR the number of rows also says where they begin.
        self._limited = fit.rows is not None and call.orientation != FETCH_PRIOR and call.rows_max > fit.rows
        self._asked = fit.rows if self._limited and fit.rows is not None else call.rows_max
        self.request = message.with_fetch(payload, call.orientation, self._asked) if self._limited else payload
        """The request to send to Spark first."""
        self._state = self._look
        self._kept = b""
        self._left = 0

    claims = None

    def ended(self, *, may_read_ahead: bool) -> None:
        """Reads nothing ahead, because the length of the next page is unknown."""

    def receive(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Takes the next bytes of the reply; returns what goes to the client, and the request to send to Spark now, if
        any.

        Raises `WireError` if Spark's reply to going back is not one.
        """
        return self._state(data)

    def _look(self, data: bytes) -> tuple[bytes, bytes | None]:
        data = self._kept + data
        if len(data) < HEADER_BYTES:
            self._kept = data
            return b"", None
        self._kept = b""
        length = int.from_bytes(data[:HEADER_BYTES], "big")
        if length <= self._bytes_max or self._asked <= 1:
            self._remember(length)
            self._state = self._pass
            return data, None
        held = rows_in(data[HEADER_BYTES:])
        rows = self._asked if held is None else max(1, min(held, self._asked))
        self._asked = max(1, min(rows - 1, int(rows * SHARE * self._bytes_max / length)))
        self._left = HEADER_BYTES + length
        self._state = self._discard
        return self._discard(data)

    def _pass(self, data: bytes) -> tuple[bytes, bytes | None]:
        return data, None

    def _remember(self, length: int) -> None:
        fit = self._fit
        if self._limited:
            grows = length < GROW_BELOW * self._bytes_max
            fit.rows = self._asked * 2 if grows else self._asked

    def _discard(self, data: bytes) -> tuple[bytes, bytes | None]:
        self._left -= len(data)
        if self._left > 0:
            return b"", None
        if self._left < 0:
            raise WireError("Spark sent bytes after a page")
        self._limited = True
        self._state = self._rewound
        return b"", message.with_fetch(self._payload, FETCH_PRIOR, 0)

    def _rewound(self, data: bytes) -> tuple[bytes, bytes | None]:
        data = self._kept + data
        self._kept = data
        if len(data) < HEADER_BYTES:
            return b"", None
        length = int.from_bytes(data[:HEADER_BYTES], "big")
        if length > _REWOUND_BYTES_MAX or len(data) > HEADER_BYTES + length:
            raise WireError("Spark's reply does not match the request to go back in a result")
        if len(data) < HEADER_BYTES + length:
            return b"", None
        self._kept = b""
        if message.reply_status(data[HEADER_BYTES:]).code == message.STATUS_ERROR:
            self._state = self._pass
            return data, None
        self._state = self._look
        return b"", message.with_fetch(self._payload, FETCH_NEXT, self._asked)


def rows_in(reply: bytes) -> int | None:
    """The number of rows in a FetchResults reply, from its first bytes; None if they do not tell."""
    try:
        results = _field(reply, _field(reply, message.peek(reply).body_offset, 0, STRUCT), 3, STRUCT)
        rows = _field(reply, results, 2, LIST)
        if count := _count(reply, rows):
            return count
        columns = _field(reply, results, 3, LIST)
        if not _count(reply, columns):
            return None
        # The first column is a union. Its only member is a struct that begins with the values.
        member = columns + 5
        return _count(reply, _field(reply, member + 3, 1, LIST))
    except (IndexError, WireError):
        return None


def _field(reply: bytes, start: int, number: int, kind: int) -> int:
    found = message.find_field(reply, start, number, kind)
    if found is None:
        raise WireError("no such field")
    return found


def _count(reply: bytes, start: int) -> int:
    """The number of items of a list."""
    if len(reply) < start + 5:
        raise IndexError
    return int.from_bytes(reply[start + 1 : start + 5], "big")
