"""Reads addresses of clients, and finds the networks that they are in.

Tests: `test_networks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """The address in a text, which may have a port (192.0.2.1:4711, [2001:db8::1]:4711) or a scope; None if it has
    none. An IPv4 client of an IPv6 socket has its IPv4 address."""
    try:
        address = ip_address(_without_port(text.strip()).partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


class Networks:
    """Addresses, and networks such as 10.0.0.0/8."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Raises ValueError for a text that is neither."""
        self._networks = tuple(ip_network(each, strict=False) for each in texts)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)

    def have(self, peer: str) -> bool:
        """Whether the address of a client, with or without its port, is in one of them."""
        address = address_of(peer)
        return address is not None and address in self
