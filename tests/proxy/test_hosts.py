"""Tests which requests over HTTP are served: those of drivers, scrapers and probes, not those of web pages."""

from __future__ import annotations

import logging
from http import HTTPStatus

import pytest

from gateway.proxy.hosts import Hosts

REBOUND = "evil.example:10001"
"""The name of a web site whose owner lets it mean 127.0.0.1."""


def hosts(*names: str, exposed: bool = False) -> Hosts:
    return Hosts(names, exposed=exposed, setting="listen.http_hosts")


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("names", [(), ("gateway.example",)])
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:10001", "[::1]:10001", "10.0.0.1", "localhost", "LocalHost:10001", "a.localhost", None],
)
def test_addresses_and_localhost_are_always_accepted(host: str | None, names: tuple[str, ...], exposed: bool) -> None:
    assert hosts(*names, exposed=exposed).refusal(host, None) is None


@pytest.mark.parametrize(
    ("host", "names", "exposed", "accepted"),
    [
        (REBOUND, (), False, False),
        (REBOUND, (), True, True),
        (REBOUND, ("gateway.example",), True, False),
        ("127.0.0.1.evil.example", (), False, False),
        ("localhost.evil.example", (), False, False),
        ("evil.example.", (), False, False),
        ("127.0.0.1@evil.example", (), False, False),
        ("freshgate", (), False, True),
        ("freshgate", ("gateway.example",), True, False),
        ("Gateway.Example:443", ("gateway.example",), False, True),
        ("gateway.example.", ("gateway.example",), True, True),
        ("gateway.example, evil.example", ("gateway.example",), True, False),
        ("a, b", (), False, False),
        ("[::1", (), False, False),
        ("", (), False, False),
    ],
)
def test_names(host: str, names: tuple[str, ...], exposed: bool, accepted: bool) -> None:
    refusal = hosts(*names, exposed=exposed).refusal(host, None)
    if accepted:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal[0] is HTTPStatus.MISDIRECTED_REQUEST
        assert "listen.http_hosts" in refusal[1]


@pytest.mark.parametrize(
    "origin", ["http://evil.example:10001", "null", "", "http://127.0.0.1:10001", "HTTPS://B.EXAMPLE"]
)
@pytest.mark.parametrize("exposed", [False, True])
def test_web_pages_are_refused(origin: str, exposed: bool) -> None:
    """Also those of the gateway's own address: the gateway serves no pages."""
    refusal = hosts(exposed=exposed).refusal("127.0.0.1", origin)
    assert refusal is not None
    assert refusal[0] is HTTPStatus.FORBIDDEN


def test_the_log_has_a_line_for_many_refusals(caplog: pytest.LogCaptureFixture) -> None:
    some = hosts()
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            assert some.refusal(f"a{number}.example\n", None) is not None
    (line,) = caplog.messages
    assert r"(Host: a0.example\n)" in line
