"""The page of rows that Spark was asked for before the client of a connection asked: one at most.

It stands between what Spark sends and what the client waits for. What is longer than may be kept stays at Spark, whose
connection is not read meanwhile. Where the client wants something else, the page is thrown away and Spark told to go
back, before it hears of anything else: so its answers come in the order of what is done with them, and nobody who reads
on over another connection waits for what was wanted here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.proxy.traffic import Traffic
from gateway.proxy.upstream import Upstream
from gateway.service.decision import Page
from gateway.wire.frame import WireError
from gateway.wire.reading import Ahead

log = logging.getLogger(__name__)

KEPT_SECONDS = 10.0
"""For which a client is waited for. Somebody looks at the rows he has; Spark and the gateway have better use for their
memory."""
BACK_SECONDS = 20.0
"""For Spark to answer a page, and to go back, when the client has gone: who reads on after that is told an error."""


class ReadAhead:
    """Of one connection to Spark, while nothing else is under way there. `on_change` is called when it may have to be
    read again, or no longer, and when `go_back` is due."""

    def __init__(self, bytes_max: int, traffic: Traffic, on_change: Callable[[], None]) -> None:
        self._bytes_max = bytes_max
        self._traffic = traffic
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._page: Ahead | None = None
        self._asked = 0.0

    @property
    def full(self) -> bool:
        """No more can be kept."""
        return self._page is not None and self._page.held > self._bytes_max

    @property
    def discarding(self) -> bool:
        """What comes next is thrown away."""
        return self._page is not None and self._page.dropped and not self._page.complete

    def ask(self, upstream: Upstream, page: Page) -> None:
        """A page has gone to the client. Spark makes the next one meanwhile, where the client is likely to want it."""
        ahead = page.ended(may_read_ahead=self._page is None)
        if ahead is None:
            return
        self._page, self._asked = ahead, self._loop.time()
        ahead.on_drop = self._changed
        self._traffic.pages_ahead += 1
        upstream.send(ahead.request)

    def claim(self, ahead: Ahead, request: bytes) -> bool:
        """The client asks for it: the next `receive` has what has come of it. False where it is not there any more."""
        if ahead is not self._page or ahead.dropped:
            return False
        self._traffic.pages_ahead_taken += 1
        ahead.claim(request)
        return True

    def receive(self, data: bytes) -> list[bytes]:
        """What of Spark's next bytes is for whoever waits now. Raises WireError where they are no page."""
        if self._page is None:
            return [data]
        pieces = self._page.receive(data)
        self._changed()
        return pieces

    def make_way(self) -> None:
        """Spark is about to be asked for something else, which may take long: it goes back before that."""
        if self._page is not None:
            self._page.drop()

    def go_back(self, upstream: Upstream) -> None:
        """Tells Spark where the client is, if that is due."""
        if self._page is not None and (back := self._page.go_back()) is not None:
            upstream.send(back)

    def sweep(self, now: float) -> None:
        """Drops a page that the client has not come for; `now` is the event loop's time in seconds."""
        if self._page is not None and now - self._asked > KEPT_SECONDS:
            self._page.drop()

    def part(self, upstream: Upstream) -> None:
        """The client leaves the connection to Spark, which is closed when nothing is under way that others wait for."""
        page, self._page = self._page, None
        if page is None:
            upstream.close()
        else:
            WayBack(upstream, page)

    def lose(self) -> None:
        """The connection broke."""
        page, self._page = self._page, None
        if page is not None:
            page.lose()

    def _changed(self) -> None:
        if self._page is not None and self._page.over:
            self._page = None
        self._on_change()


class WayBack:
    """A connection to Spark that its client has left with a page under way, until Spark stands again where the client
    was: its session may stay, and others read on."""

    def __init__(self, upstream: Upstream, page: Ahead) -> None:
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
            log.error("connection to Spark of a client that has gone closed: %s", error)
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
