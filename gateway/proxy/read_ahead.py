"""The page of rows that Spark was asked for before the client of a connection asked: one at most.

It stands between what Spark sends and what the client waits for. What is longer than may be kept stays at Spark, whose
connection is not read meanwhile, and is thrown away where the client wants something else first.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.proxy.traffic import Traffic
from gateway.proxy.upstream import Upstream
from gateway.service.decision import Page
from gateway.wire.reading import Ahead


class ReadAhead:
    """Of one connection to Spark. `on_change` is called when it may have to be read again, or no longer."""

    def __init__(self, bytes_max: int, traffic: Traffic, on_change: Callable[[], None]) -> None:
        self._bytes_max = bytes_max
        self._traffic = traffic
        self._on_change = on_change
        self._page: Ahead | None = None

    @property
    def pending(self) -> bool:
        """There is a page that the client has not asked for, or the rest of one comes that nobody wants."""
        return self._page is not None

    @property
    def full(self) -> bool:
        """No more can be kept."""
        return self._page is not None and self._page.held > self._bytes_max

    def ask(self, upstream: Upstream, page: Page) -> None:
        """A page has gone to the client. Spark makes the next one meanwhile, where the client is likely to want it."""
        ahead = page.ended(may_read_ahead=self._page is None)
        if ahead is None:
            return
        self._page = ahead
        ahead.on_drop = self._dropped
        self._traffic.pages_ahead += 1
        upstream.send(ahead.request)

    def claim(self, ahead: Ahead, request: bytes) -> bool:
        """The client asks for it: the next `receive` has what has come of it. False where it was lost meanwhile."""
        if ahead is not self._page:
            return False
        self._traffic.pages_ahead_taken += 1
        ahead.claim(request)
        return True

    def receive(self, data: bytes) -> list[bytes]:
        """What of Spark's next bytes is for whoever waits now. Raises WireError where they are no page."""
        if self._page is None:
            return [data]
        pieces = self._page.receive(data)
        if self._page.over:
            self._page = None
        self._on_change()
        return pieces

    def make_way(self) -> None:
        """The client waits for what comes behind it."""
        if self.full:
            self.drop()

    def drop(self) -> None:
        """The client is not expected to ask for it any more."""
        if self._page is not None:
            self._page.drop()

    def lose(self) -> None:
        """The connection broke."""
        page, self._page = self._page, None
        if page is not None:
            page.lose()

    def _dropped(self) -> None:
        if self._page is not None and self._page.over:
            self._page = None
        self._on_change()
