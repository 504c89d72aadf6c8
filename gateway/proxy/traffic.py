"""Plain counters of the traffic through the gateway's sockets."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.errors import UpstreamLost
from gateway.tally import SHORT_SECONDS, Histogram


@dataclass(slots=True, eq=False)
class Traffic:
    """Counts since the start. Bytes are those on the sockets, including frames and logins."""

    accepted: int = 0
    """Client connections."""
    refused: int = 0
    """Client connections refused because of the limit."""
    starved: int = 0
    """Client connections refused, or left waiting, because the process had too few descriptors."""
    half_read: int = 0
    """Bytes currently buffered for incomplete requests."""
    from_clients: int = 0
    to_clients: int = 0
    from_spark: int = 0
    to_spark: int = 0
    repeated: int = 0
    """Status requests that were answered by comparing bytes."""
    pages_ahead: int = 0
    """Pages of rows that were read ahead, and"""
    pages_ahead_taken: int = 0
    """those that the client then asked for."""
    connects: int = 0
    """Connections to Spark for clients: one per client, and the second ones of sessions."""
    connects_failed: int = 0
    """Connections to Spark that failed; logins that Spark refused are not counted."""
    connect_seconds: Histogram = field(default_factory=lambda: Histogram(SHORT_SECONDS))

    @contextlib.contextmanager
    def connecting(self) -> Iterator[None]:
        """Counts and times the opening of a connection to Spark for a client."""
        self.connects += 1
        began = time.monotonic()
        try:
            yield
        except UpstreamLost:
            self.connects_failed += 1
            raise
        self.connect_seconds.add(time.monotonic() - began)
