"""Tests the warnings at the start about how passwords are checked."""

from __future__ import annotations

import logging

import pytest

from gateway import settings_file
from gateway.login import methods


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["listen.host=0.0.0.0"], ["the gateway listens on 0.0.0.0 for other machines, and checks no passwords; set"]),
        (["listen.host=::"], ["the gateway listens on :: for other machines, and checks no passwords; set"]),
        (
            ["listen.host=gate.example", "upstream.address=spark.example:10000"],
            ["the gateway listens on gate.example for other machines, and checks passwords only if Spark does;"],
        ),
        ([], []),
        (["listen.host=localhost"], []),
        (["listen.host=::1"], []),
        (["listen.host=0.0.0.0", "authentication=ldap", "ldap.url=ldaps://ldap.example"], []),
        (
            ["authentication=ldap", "ldap.url=ldap://ldap.example"],
            ["passwords are sent to ldap://ldap.example unencrypted"],
        ),
    ],
)
def test_unchecked_or_unencrypted_passwords_are_a_warning(
    overrides: list[str], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        methods.authenticator(settings_file.load(None, overrides))
    assert len(caplog.messages) == len(said)
    for message, text in zip(caplog.messages, said, strict=True):
        assert message.startswith(text)
