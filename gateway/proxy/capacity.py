"""Whether there is room for another client: connections, and the process's descriptors.

Tests: `test_listener`, `test_descriptors`.
"""

from __future__ import annotations

import logging

from gateway.proxy.descriptors import REPORT_SECONDS, Room
from gateway.proxy.traffic import Traffic
from gateway.tally import Seldom

log = logging.getLogger(__name__)


class Capacity:
    """Counts the clients that are refused or left waiting."""

    def __init__(self, connections_max: int, traffic: Traffic) -> None:
        self._connections_max = connections_max
        self._traffic = traffic
        self._room = Room()
        self._seldom = Seldom(REPORT_SECONDS)

    def is_full(self, taken: int, who: str = "a client") -> bool:
        """Whether so many connections leave room for no further one; then counts a refusal."""
        if taken < self._connections_max:
            return False
        self._traffic.refused += 1
        # Whoever can connect can have this happen thousands of times a second.
        if self._seldom.is_due():
            log.warning("%s was refused: %d connections are open (limits.connections)", who, taken)
        return True

    def refusal(self, taken: int, descriptor: int, who: str = "a client") -> str | None:
        """Returns why a client cannot be served beside so many others, or None. `descriptor` is its connection's."""
        if self._room.is_short(descriptor):
            self._traffic.starved += 1
            self._room.report(f"{who} was refused")
            return "The gateway has too many open files and sockets to serve another client. Try again later."
        if self.is_full(taken, who):
            return f"Too many connections: the gateway serves {self._connections_max}. Try again later."
        return None

    def starve(self, error: OSError) -> None:
        """Reports that a client waits because it cannot be accepted."""
        self._traffic.starved += 1
        self._room.report(f"a client waits, because it cannot be accepted ({error.strerror or error})")
