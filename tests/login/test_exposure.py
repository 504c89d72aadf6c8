"""Tests the checks at the start for a gateway that other machines can reach."""

from __future__ import annotations

import logging

import pytest

from gateway import settings_file
from gateway.errors import FreshgateError
from gateway.login import exposure

OPEN = "listen.host=0.0.0.0"
FILE = "authentication=file"
LDAP = ["authentication=ldap", "ldap.url=ldaps://ldap.example"]
SPARK = "upstream.address=spark.example:10000"
ACCEPTED = "engine.accept_user_code=true"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([OPEN, FILE], "every user who can log in could run programs .* freshgate-users included"),
        ([OPEN, *LDAP], "every user who can log in could run programs .* all its files\\. "),
        ([OPEN], "everybody who reaches the port could run programs"),
        (["listen.host=::", FILE, "listen.port=-1", "listen.http_port=0"], "listen.host is ::"),
        (["listen.host=gate.example", FILE, "authentication.hand_on=proxy_user"], "listen.host is gate.example"),
    ],
)
def test_the_embedded_engine_is_refused_for_other_machines(overrides: list[str], said: str) -> None:
    with pytest.raises(FreshgateError, match=said) as refusal:
        exposure.check(settings_file.load(None, overrides))
    assert "engine.accept_user_code = true" in str(refusal.value)


@pytest.mark.parametrize(
    ("overrides", "warned"),
    [
        ([FILE], []),
        (["listen.host=localhost", *LDAP], []),
        (["listen.host=127.0.0.7", FILE], []),
        (["listen.host=::1", SPARK], []),
        ([OPEN, SPARK], ["listen.port"]),
        ([OPEN, FILE, ACCEPTED], ["listen.port"]),
        ([OPEN, ACCEPTED], []),
        ([OPEN, SPARK, "listen.http_port=0"], ["listen.port", "listen.http_port"]),
        ([OPEN, SPARK, "listen.http_port=0", "listen.port=-1"], ["listen.http_port"]),
        ([OPEN, SPARK, "listen.http_port=0", "tls.certificate=a.pem"], []),
        ([OPEN, SPARK, "listen.http_port=0", "tls.certificate=a.pem", "tls.ports=http"], ["listen.port"]),
        ([OPEN, SPARK, "listen.http_port=0", "tls.certificate=a.pem", "tls.ports=binary"], ["listen.http_port"]),
    ],
)
def test_a_port_without_tls_for_passwords_is_a_warning(
    overrides: list[str], warned: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        exposure.check(settings_file.load(None, overrides))
    assert [text.split()[2] for text in caplog.messages] == warned
    assert all("unencrypted" in text and "tls.certificate" in text for text in caplog.messages)


@pytest.mark.parametrize(
    ("address", "warned"), [("127.0.0.1:1", False), ("localhost:1", False), ("gate.example:1", True)]
)
def test_passwords_between_gateways_are_a_warning(address: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    given = [SPARK, "gateways.enabled=true", f"gateways.address={address}", f"gateways.secret={'s' * 32}"]
    with caplog.at_level(logging.WARNING):
        exposure.check(settings_file.load(None, given))
    assert [text for text in caplog.messages if "gateways.address" in text] == caplog.messages
    assert bool(caplog.messages) == warned
    caplog.clear()
    exposure.check(settings_file.load(None, [*given, "gateways.tls_ca=ca.pem", "tls.certificate=a.pem"]))
    assert caplog.messages == []
