"""One page of rows that must not be longer than a client can take: discarded, and asked for again with fewer rows.

A page's length stands in its frame's header, so that a too long one is known before anything of it is kept. It goes
nowhere, Spark is told to go back to where it began (FETCH_PRIOR of no rows, which its iterators take for just that),
and asked for as many rows as should fit. One row alone passes however long it is: there is nothing less to ask for.
"""

from __future__ import annotations

from gateway.wire import message
from gateway.wire.frame import HEADER_BYTES, WireError
from gateway.wire.message import FETCH_NEXT, FETCH_PRIOR
from gateway.wire.scanner import LIST, STRUCT

SHARE = 0.9
"""Of the limit that the next try aims at: rows are of different lengths."""
GROW_BELOW = 0.25
"""A page that was made smaller and fills less than this share of the limit lets the next ones have more rows."""
_REWOUND_BYTES_MAX = 1 << 20
"""Longest answer to going back: no rows, or an error with its stack."""


class Fit:
    """How many rows of one operation fitted; shared by its pages."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: int | None = None
        """None: as many as were asked for, so far."""


class Page:
    """A FetchResults request for rows, and its reply in chunks, frames' headers included."""

    __slots__ = ("_asked", "_bytes_max", "_fit", "_kept", "_left", "_limited", "_payload", "_state", "request")

    def __init__(self, payload: bytes, bytes_max: int, fit: Fit) -> None:
        call = message.fetch_call(payload)
        self._payload = payload
        self._bytes_max = bytes_max
        self._fit = fit
        # Of rows backwards their number says where they begin.
        self._limited = fit.rows is not None and call.orientation != FETCH_PRIOR and call.rows_max > fit.rows
        self._asked = fit.rows if self._limited and fit.rows is not None else call.rows_max
        self.request = message.with_fetch(payload, call.orientation, self._asked) if self._limited else payload
        """What to ask Spark first."""
        self._state = self._look
        self._kept = b""
        self._left = 0

    claims = None

    def ended(self, *, may_read_ahead: bool) -> None:
        """Nothing is read ahead: how long the next page will be is not known."""

    def receive(self, data: bytes) -> tuple[bytes, bytes | None]:
        """What goes to the client of the reply's next bytes, and what to ask Spark now, where that is due.

        Raises `WireError` where Spark answers to going back with something else.
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
            raise WireError("Spark sent bytes behind a page")
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
            raise WireError("Spark answered to going back in a result by something else")
        if len(data) < HEADER_BYTES + length:
            return b"", None
        self._kept = b""
        if message.reply_status(data[HEADER_BYTES:]).code == message.STATUS_ERROR:
            self._state = self._pass
            return data, None
        self._state = self._look
        return b"", message.with_fetch(self._payload, FETCH_NEXT, self._asked)


def rows_in(reply: bytes) -> int | None:
    """How many rows a FetchResults reply has, by its beginning; None where that does not tell."""
    try:
        results = _field(reply, _field(reply, message.peek(reply).body_offset, 0, STRUCT), 3, STRUCT)
        rows = _field(reply, results, 2, LIST)
        if count := _count(reply, rows):
            return count
        columns = _field(reply, results, 3, LIST)
        if not _count(reply, columns):
            return None
        # The first column is a union, whose one member is a struct that begins with the values.
        member = columns + 5
        return _count(reply, _field(reply, member + 3, 1, LIST))
    except (IndexError, WireError):
        return None


def _field(reply: bytes, start: int, number: int, kind: int) -> int:
    """Where the value of a field of the struct at `start` begins. Raises WireError, or IndexError at the bytes' end."""
    while (found := reply[start]) != 0:
        if int.from_bytes(reply[start + 1 : start + 3], "big") == number:
            if found != kind:
                raise WireError("a field of another type")
            return start + 3
        start = message.value_end(reply, start + 3, found)
    raise WireError("no such field")


def _count(reply: bytes, start: int) -> int:
    """Of the items of a list."""
    if len(reply) < start + 5:
        raise IndexError
    return int.from_bytes(reply[start + 1 : start + 5], "big")
