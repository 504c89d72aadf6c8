"""Holds the page of rows that was read ahead for a client; at most one per connection.

It stands between Spark and the client. A page longer than may be kept stays at Spark, whose connection is not read
meanwhile. If the client wants something else, the page is discarded and Spark is told to go back before anything else
is sent to it. So Spark's replies arrive in the order in which they are used, and a reader on another connection does
not wait for what was wanted here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.proxy.traffic import Traffic
from gateway.proxy.upstream import UpstreamSocket
from gateway.service.decision import Page
from gateway.wire.frame import WireError
from gateway.wire.reading import Ahead

log = logging.getLogger(__name__)

KEPT_SECONDS = 10.0
"""How long a page is kept for its client. A user may be looking at the rows; Spark and the gateway have better use for
the memory."""
BACK_SECONDS = 20.0
"""How long Spark may take to deliver a page and go back once the client has gone. After that, a reader of the result
gets an error."""


class ReadAhead:
    """The page read ahead over one connection to Spark while nothing else is under way there. `on_change` is called
    when that connection may have to be read again, or no longer, and when `go_back` is due."""

    def __init__(self, bytes_max: int, traffic: Traffic, on_change: Callable[[], None]) -> None:
        self._bytes_max = bytes_max
        self._traffic = traffic
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._page: Ahead | None = None
        self._asked = 0.0

    @property
    def full(self) -> bool:
        """No more data can be kept."""
        return self._page is not None and self._page.held > self._bytes_max

    @property
    def discarding(self) -> bool:
        """The next data is discarded."""
        return self._page is not None and self._page.dropped and not self._page.complete

    def ask(self, upstream: UpstreamSocket, page: Page) -> None:
        """A page has gone to the client: asks Spark for the next one if the client is likely to want it."""
        ahead = page.ended(may_read_ahead=self._page is None)
        if ahead is None:
            return
        self._page, self._asked = ahead, self._loop.time()
        ahead.on_drop = self._changed
        self._traffic.pages_ahead += 1
        upstream.send(ahead.request)

    def claim(self, ahead: Ahead, request: bytes) -> bool:
        """Gives the page to the client; the next `receive` returns what has arrived of it. False if the page is
        gone."""
        if ahead is not self._page or ahead.dropped:
            return False
        self._traffic.pages_ahead_taken += 1
        ahead.claim(request)
        return True

    def receive(self, data: bytes) -> list[bytes]:
        """Returns the part of Spark's next bytes that the current request waits for. Raises WireError if they are not a
        page."""
        if self._page is None:
            return [data]
        pieces = self._page.receive(data)
        self._changed()
        return pieces

    def make_way(self) -> None:
        """Drops the page, because Spark is about to get another request, which may take long: it goes back before
        that."""
        if self._page is not None:
            self._page.drop()

    def go_back(self, upstream: UpstreamSocket) -> None:
        """Tells Spark to go back to the client's position, if that is due."""
        if self._page is not None and (back := self._page.go_back()) is not None:
            upstream.send(back)

    def sweep(self, now: float) -> None:
        """Drops a page that the client has not come for; `now` is the event loop's time in seconds."""
        if self._page is not None and now - self._asked > KEPT_SECONDS:
            self._page.drop()

    def part(self, upstream: UpstreamSocket) -> None:
        """The client leaves the connection to Spark. It is closed once nothing is under way that others wait for."""
        page, self._page = self._page, None
        if page is None:
            upstream.close()
        else:
            WayBack(upstream, page)

    def lose(self) -> None:
        """The connection to Spark is lost."""
        page, self._page = self._page, None
        if page is not None:
            page.lose()

    def _changed(self) -> None:
        if self._page is not None and self._page.over:
            self._page = None
        self._on_change()


class WayBack:
    """Keeps a connection that its client has left with a page under way, until Spark has gone back to the client's
    position: the session may continue, and others may read on."""

    def __init__(self, upstream: UpstreamSocket, page: Ahead) -> None:
        self._upstream = upstream
        self._page = page
        self._timer = asyncio.get_running_loop().call_later(BACK_SECONDS, self.upstream_gone)
        page.on_drop = self._go_on
        upstream.attach(self)
        page.drop()
        self._go_on()

    def upstream_data(self, data: bytes) -> None:
        try:
            self._page.receive(data)
        except WireError as error:
            log.error("closed a connection to Spark whose client has gone: %s", error)
            self.upstream_gone()
        else:
            self._go_on()

    def upstream_gone(self) -> None:
        self._page.lose()
        self._go_on()

    def _go_on(self) -> None:
        if self._page.over:
            self._timer.cancel()
            self._upstream.close()
            return
        if (back := self._page.go_back()) is not None:
            self._upstream.send(back)
        self._upstream.resume()
