"""Finds the client's address in a request that a web proxy has passed on."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.networks import Networks, address_of

_PROXIES_MAX = 20
"""Longest chain of proxies."""


class TrustedProxies:
    """The proxies whose X-Forwarded-For header is trusted: addresses, or networks such as 10.0.0.0/8."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = Networks(networks)

    def trusts(self, peer: str) -> bool:
        """Whether the connection's other end is such a proxy."""
        known = address_of(peer)
        return known is not None and bool(self._networks) and known in self._networks

    def origin(self, peer: str, forwarded_for: str) -> str | None:
        """The client's address if a trusted proxy names it; `peer` is the connection's other end.

        Each proxy appends the address of its own client. So the list is read from its end, as long as the writer of
        each entry is trusted: anybody may have written the first entries.
        """
        if not self._networks or not forwarded_for:
            return None
        known, found = address_of(peer), None
        for entry in reversed(forwarded_for.rsplit(",", _PROXIES_MAX)):
            if known is None or known not in self._networks:
                break
            # An IPv6 scope may be any text.
            known = address_of(entry) if "%" not in entry else None
            if known is not None:
                found = str(known)
        return found
