"""What went through the gateway's sockets, in plain numbers: whoever looks in reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.tally import SHORT_SECONDS, Histogram


@dataclass(slots=True, eq=False)
class Traffic:
    """Counted since the start. Bytes are those of the sockets, frames and logins included."""

    accepted: int = 0
    """Client connections."""
    refused: int = 0
    """Client connections that found no place."""
    half_read: int = 0
    """Bytes of requests that are held now and are not complete."""
    from_clients: int = 0
    to_clients: int = 0
    from_spark: int = 0
    to_spark: int = 0
    repeated: int = 0
    """Status requests that were answered by comparing bytes."""
    pages_ahead: int = 0
    """Pages of rows that Spark was asked for before the client asked, and"""
    pages_ahead_taken: int = 0
    """those of them that it then asked for."""
    connects: int = 0
    """Connections to Spark that work for a client: his own, and his sessions' second ones."""
    connects_failed: int = 0
    """Those that could not be made; a login that Spark refused is none of them."""
    connect_seconds: Histogram = field(default_factory=lambda: Histogram(SHORT_SECONDS))
