"""Tests the warnings at the start about how passwords are checked."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway import settings_file
from gateway.config import ConfigError
from gateway.errors import FreshgateError
from gateway.login import exposure, methods

OF_JWT = ["authentication=jwt", "jwt.issuer=https://id.example", "jwt.audience=a", "listen.http_port=0"]


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
        methods.of(settings_file.load(None, overrides))
    assert len(caplog.messages) == len(said)
    for message, text in zip(caplog.messages, said, strict=True):
        assert message.startswith(text)


def test_a_gateway_without_the_keys_of_its_tokens_does_not_start(tmp_path: Path) -> None:
    given = ["authentication=jwt", "jwt.issuer=https://id.example", "jwt.audience=freshgate", "listen.http_port=0"]
    missing = tmp_path / "keys.json"
    with pytest.raises(FreshgateError, match=r"Cannot read the keys from .*keys.json: No such file.*Check jwt.keys"):
        methods.of(settings_file.load(None, [*given, f"jwt.keys={missing}"]))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["authentication=jwt"], "jwt.issuer is empty"),
        (["jwt.issuer=https://id.example", "jwt.audience=a", "listen.http_port=0"], "authentication.method is none"),
        (["authentication=jwt", "jwt.issuer=https://id.example", "listen.http_port=0"], "jwt.audience is empty"),
        (["authentication=jwt", "jwt.issuer=https://id.example", "jwt.audience=a"], "listen.http_port is -1"),
        (
            [*OF_JWT, "upstream.address=spark.example:10000"],
            "authentication.hand_on is replay",
        ),
        ([*OF_JWT, "jwt.algorithms=HS256"], "whose keys are secrets"),
        ([*OF_JWT, "jwt.algorithms=none"], "jwt.algorithms"),
    ],
)
def test_settings_of_tokens_that_contradict_each_other_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings_file.load(None, overrides)


@pytest.mark.parametrize(
    "given", [["jwt.keys=http://id.example/keys"], ["jwt.issuer=http://id.example"], ["jwt.issuer=company"]]
)
def test_keys_that_anybody_could_replace_are_refused(given: list[str]) -> None:
    with pytest.raises(FreshgateError, match="log in as anybody"):
        exposure.check(settings_file.load(None, [*OF_JWT, *given]))
