"""Records an answer while the client that asked for it reads it.

Nothing is read ahead of the client, and nothing waits for the recording. Only a client that reads its result from the
first row to the last, in order, leaves a recording that is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from gateway.service.operations.operation import End
from gateway.service.results.key import Key
from gateway.service.results.replay import Entry, size_of
from gateway.wire import message
from gateway.wire.columnar import ColumnarPage, is_alike, joined
from gateway.wire.frame import FrameReader, WireError
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FetchCall

VALUES_MAX = 250_000
"""Most values of an answer: to cut its pages takes the event loop some 30 ms."""
PAGES_MAX = 1_000
_FRAME_BYTES_MAX = (1 << 31) - 1


class Recording:
    """An answer that is being recorded; at most one for each key. `over` once it is kept, or will never be."""

    def __init__(
        self,
        key: Key,
        bytes_max: int,
        grow: Callable[[Recording, int], bool],
        finish: Callable[[Recording, Entry | None], None],
        clock: Callable[[], float],
    ) -> None:
        """`grow`: whether so many more bytes may be held. `finish` takes the outcome, exactly once."""
        self.key = key
        self.held = 0
        """The bytes that it holds."""
        self.over = False
        self.succeeded = False
        """Whether the statement has succeeded at Spark, as far as known."""
        self.moved_at = clock()
        """When its client last got a part of the answer."""
        self._bytes_max = bytes_max
        self._grow = grow
        self._finish = finish
        self._clock = clock
        self.made_at = 0.0
        """When the statement was known to have succeeded."""
        self.ask: Callable[[], Awaitable[object]] | None = None
        """Makes sure that Spark is being asked whether the statement has ended."""
        self._undisturbed: Callable[[], bool] = lambda: True
        self._metadata: bytes | None = None
        self._pages: list[ColumnarPage] = []
        self._rows = self._values = 0
        self._complete = False
        self._open: _Copy | None = None
        self._news: asyncio.Event | None = None

    # --- the statement -----------------------------------------------------------------------------

    def begin(self, undisturbed: Callable[[], bool], ask: Callable[[], Awaitable[object]]) -> None:
        """The statement is about to be sent. `undisturbed`: whether its session is still as the key says."""
        self._undisturbed, self.ask = undisturbed, ask

    def ended(self, end: End) -> None:
        """The statement has ended at Spark."""
        if end is not End.SUCCEEDED or not self._undisturbed():
            self.spoil()
            return
        self.succeeded = True
        self.moved_at = self.made_at = self._clock()
        self._tell()

    def spoil(self) -> None:
        """Nothing is kept: the statement failed or was closed, its client reads in another order, or it is too long."""
        self._end(None)

    def _end(self, entry: Entry | None) -> None:
        if self.over:
            return
        self.over = True
        self._pages, self._metadata, self._open = [], None, None
        self._finish(self, entry)
        self._tell()

    # --- what its client gets ----------------------------------------------------------------------

    def described(self, answer: bytes) -> None:
        """Takes the reply to GetResultSetMetadata. Before the end, Spark describes another result."""
        if self.over:
            return
        with suppress(WireError):
            if self.succeeded and message.reply_status(answer).code == 0:
                if self._metadata is None and not self._hold(len(answer)):
                    return
                self._metadata = answer
                self._moved()
                return
        self.spoil()

    def page(self, call: FetchCall, *, whole: bool) -> _Copy | None:
        """Takes the next request for rows; the result takes its reply. `whole`: a page that has fewer rows than were
        asked for is the last one."""
        if self.over:
            return None
        if self._open is not None or not self.succeeded or call.orientation not in (FETCH_NEXT, FETCH_FIRST):
            self.spoil()  # Two connections read at the same time, or not from the first row to the last.
            return None
        self._open = _Copy(self, call.rows_max if whole else 1, self._bytes_max)
        return self._open

    def came(self, answer: bytes, rows_max: int) -> None:
        """A page has come."""
        self._open = None
        if self.over:
            return
        try:
            page = ColumnarPage(answer)
        except WireError:
            self.spoil()
            return
        self._rows += page.rows
        self._values += page.values
        in_order = page.start + page.rows == self._rows and joined(page.start, [(page, 0, page.rows)]) == answer
        few = self._values <= VALUES_MAX and len(self._pages) < PAGES_MAX and is_alike([*self._pages[:1], page])
        if not (in_order and few):
            self.spoil()
            return
        if page.rows or not self._pages:
            if not self._hold(size_of(page)):
                return
            self._pages.append(page)
        self._complete = self._complete or page.rows < rows_max
        self._moved()

    def _hold(self, more: int) -> bool:
        if self.held + more > self._bytes_max or not self._grow(self, more):
            self.spoil()
            return False
        return True

    def _moved(self) -> None:
        self.moved_at = self._clock()
        if self._complete and self._metadata is not None:
            self._end(Entry(self.key, self._metadata, tuple(self._pages), self.made_at))
        else:
            self._tell()

    # --- waiting -----------------------------------------------------------------------------------

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()

    async def wait(self, seconds: float) -> None:
        """Returns when it has changed, or after that time."""
        if self._news is None:
            self._news = asyncio.Event()
        news = self._news
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()


class _Copy:
    """Takes a reply as it goes to its client. Implements `decision.Copy`."""

    def __init__(self, recording: Recording, rows_max: int, bytes_max: int) -> None:
        self._recording = recording
        self._rows_max = rows_max
        self._left = bytes_max
        self._frames = FrameReader(_FRAME_BYTES_MAX)
        self._parts: list[bytes] = []

    def part(self, data: bytes, *, framed: bool, ended: bool) -> None:
        if self._recording.over:
            self._parts.clear()
            return
        self._left -= len(data)
        if self._left < 0:
            self._recording.spoil()
            return
        try:
            self._parts += [piece for piece, _ in self._frames.feed(data)] if framed else [data]
        except WireError:
            self._recording.spoil()
            return
        if ended:
            answer = b"".join(self._parts)
            self._parts.clear()
            self._recording.came(answer, self._rows_max)
