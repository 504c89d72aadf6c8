"""Requests that have begun to come: what all clients together may have held of them."""

from __future__ import annotations

from gateway.proxy.traffic import Traffic

FREE_BYTES = 65_536
"""Of each client, whatever the others hold: an ordinary request."""


class HalfRead:
    """What is held of one client's request that is not complete, counted in `Traffic.half_read`."""

    __slots__ = ("_bytes_max", "_traffic", "bytes")

    def __init__(self, traffic: Traffic, bytes_max: int) -> None:
        self.bytes = 0
        self._traffic = traffic
        self._bytes_max = bytes_max

    def has_room(self, received: int, *, partial: bool, begun: bool) -> bool:
        """Bytes were `received`; False where it is this client whose part is too much for all. `partial`: a request is
        not complete. `begun`: it has begun with these bytes."""
        held = 0 if not partial else received if begun else self.bytes + received
        self._traffic.half_read += held - self.bytes
        self.bytes = held
        return held <= FREE_BYTES or self._traffic.half_read <= self._bytes_max

    def release(self) -> None:
        """The client is gone."""
        self._traffic.half_read -= self.bytes
        self.bytes = 0
