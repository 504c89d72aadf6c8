"""Finds the client's address in a request that a web proxy has passed on."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_PROXIES_MAX = 20
"""Longest chain of proxies."""


class TrustedProxies:
    """The proxies whose X-Forwarded-For header is trusted: addresses, or networks such as 10.0.0.0/8."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = tuple(ip_network(each, strict=False) for each in networks)

    def origin(self, peer: str, forwarded_for: str) -> str | None:
        """The client's address if a trusted proxy names it; `peer` is the connection's other end.

        Each proxy appends the address of its own client. So the list is read from its end, as long as the writer of
        each entry is trusted: anybody may have written the first entries.
        """
        if not self._networks or not forwarded_for:
            return None
        known, found = _address(peer), None
        for entry in reversed(forwarded_for.rsplit(",", _PROXIES_MAX)):
            if known is None or not self._trusts(known):
                break
            # An IPv6 scope may be any text.
            known = _address(_without_port(entry.strip())) if "%" not in entry else None
            if known is not None:
                found = str(known)
        return found

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # An IPv4 client of an IPv6 socket.
    return getattr(address, "ipv4_mapped", None) or address


def _without_port(entry: str) -> str:
    """Some proxies write 192.0.2.1:4711, or [2001:db8::1]:4711."""
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry
