"""Tests which proxies are trusted to name a client's address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.trusted_proxies import TrustedProxies

TRUSTED = ("127.0.0.1", "10.0.0.0/8", "2001:db8:1::/48")


@pytest.mark.parametrize(
    ("peer", "header", "origin"),
    [
        ("127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "198.51.100.7, 203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "203.0.113.9, 10.1.2.3", "203.0.113.9"),
        ("127.0.0.1", "198.51.100.7,203.0.113.9 ,\t10.1.2.3", "203.0.113.9"),
        ("127.0.0.1", "10.7.7.7, 10.1.2.3", "10.7.7.7"),
        ("127.0.0.1", "203.0.113.9:4711", "203.0.113.9"),
        ("127.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("127.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("2001:db8:1::5", "203.0.113.9", "203.0.113.9"),
        ("::ffff:127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1", "203.0.113.9, unknown, 10.1.2.3", "10.1.2.3"),
        ("127.0.0.1", "fe80::1%anything at all", None),
        ("127.0.0.1", "203.0.113.9, fe80::1%eth0, 10.1.2.3", "10.1.2.3"),
        ("127.0.0.1", "unknown", None),
        ("127.0.0.1", "", None),
        ("127.0.0.1", ",,", None),
        ("192.0.2.1", "203.0.113.9", None),
        ("/run/socket", "203.0.113.9", None),
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(peer: str, header: str, origin: str | None) -> None:
    assert TrustedProxies(TRUSTED).origin(peer, header) == origin


def test_no_proxy_is_trusted_by_default() -> None:
    assert TrustedProxies().origin("127.0.0.1", "203.0.113.9") is None


def test_only_the_end_of_a_long_header_is_read() -> None:
    assert TrustedProxies(TRUSTED).origin("127.0.0.1", "203.0.113.9" + ",10.1.2.3" * 7000) == "10.1.2.3"


@given(
    st.lists(st.sampled_from(["203.0.113.9", "10.1.2.3", "unknown", "\r\nx", "1.2.3.4.5", ""])),
    st.sampled_from(["203.0.113.1", "2001:db8::7"]),
    st.lists(st.sampled_from(["10.9.9.9", "127.0.0.1"]), max_size=3),
)
def test_addresses_sent_by_the_client_are_ignored(begun: list[str], client: str, proxies: list[str]) -> None:
    header = ", ".join([*begun, client, *proxies])
    assert TrustedProxies(TRUSTED).origin("127.0.0.1", header) == client
