"""Limits the memory for partially received requests of all clients together."""

from __future__ import annotations

from gateway.proxy.traffic import Traffic

FREE_BYTES = 65_536
"""Always allowed to each client: the size of an ordinary request."""


class HalfRead:
    """The buffered part of one client's request, counted in `Traffic.half_read`."""

    __slots__ = ("_bytes_max", "_traffic", "bytes")

    def __init__(self, traffic: Traffic, bytes_max: int) -> None:
        self.bytes = 0
        self._traffic = traffic
        self._bytes_max = bytes_max

    def has_room(self, received: int, *, partial: bool, begun: bool) -> bool:
        """Records `received` bytes. Returns False if this client's part is too large for the total. `partial`: a
        request is incomplete. `begun`: it began within these bytes."""
        held = 0 if not partial else received if begun else self.bytes + received
        self._traffic.half_read += held - self.bytes
        self.bytes = held
        return held <= FREE_BYTES or self._traffic.half_read <= self._bytes_max

    def release(self) -> None:
        """Releases what the client held."""
        self._traffic.half_read -= self.bytes
        self.bytes = 0
