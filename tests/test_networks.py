"""Tests how a client's address is read, and which networks have it."""

from __future__ import annotations

import pytest

from gateway.networks import Networks, address_of

NETWORKS = Networks(["127.0.0.1", "10.1.2.3/8", "2001:db8:1::/48"])


@pytest.mark.parametrize(
    ("peer", "found"),
    [
        ("10.9.9.9", True),
        ("10.9.9.9:4711", True),
        (" 127.0.0.1 ", True),
        ("[::ffff:10.9.9.9]:4711", True),
        ("::ffff:127.0.0.1", True),
        ("[2001:db8:1::5]:4711", True),
        ("2001:db8:1::5", True),
        ("2001:db8:1::5%eth0", True),
        ("192.0.2.1:4711", False),
        ("[2001:db8:2::5]:4711", False),
        ("[10.9.9.9", True),
        ("unknown", False),
        ("/run/socket", False),
        ("", False),
        (":", False),
        ("[]", False),
    ],
)
def test_a_client_is_in_a_network(peer: str, found: bool) -> None:
    assert NETWORKS.have(peer) is found
    assert not Networks().have(peer)


def test_an_address_is_read_without_its_port_and_scope() -> None:
    assert str(address_of("[fe80::1%eth0]:4711")) == "fe80::1"
    assert str(address_of("192.0.2.1:4711")) == "192.0.2.1"
    assert address_of("gateway.example:4711") is None


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/33"):
        Networks(["10.0.0.0/33"])
