"""As whom a session may be opened: nobody becomes another user by what the configuration of OpenSession says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import calls

from gateway import settings_file
from gateway.access_list import AccessList, Principal
from gateway.assembly import clients
from gateway.config import ConfigError, Impersonator
from gateway.errors import FreshgateError
from gateway.login.impersonation import Impersonation
from gateway.service.clients.handover import ANONYMOUS, PROXY_USER_KEY, Handover
from gateway.wire import message
from gateway.wire.connection import NOSASL
from gateway.wire.message import OpenCall
from gateway.wire.sasl import PLAIN, Login

EVE = Login("eve", "secret", PLAIN)
ACCOUNT = Handover(PLAIN, Login("svc", "its secret", PLAIN), checked=True)
EMBEDDED = Handover(PLAIN, checked=True, substitutes=False)
FILE = ["authentication=file"]


SUPERSET = Login("superset", "secret", PLAIN)
RULES = ("superset: * from 10.0.0.0/8, ::1", "hue: ada, bob", "knox: *, root", "hal: group:analysts, group:admins, bob")
IMPERSONATION = Impersonation(map(Impersonator.parse, RULES), AccessList.of(["root", "eve", "group:admins"]))


def call(**configuration: str) -> OpenCall:
    return OpenCall("eve", "secret", configuration, 9)


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """Ways in which a client can write the key that this or another version of Spark might read."""
    key = "".join(draw(st.sampled_from([c.lower(), c.upper()])) for c in PROXY_USER_KEY)
    prefix = draw(st.sampled_from(["", "set:", "set:hiveconf:", "hiveconf:", "set:system:", "set:hivevar:", " ", "\t"]))
    return prefix + key + draw(st.sampled_from(["", " ", "\n", "\0"]))


@given(spellings(), st.sampled_from([ACCOUNT, EMBEDDED]), st.sampled_from(["root", "", "eve ", "EVE"]))
def test_no_spelling_names_another_user(key: str, handover: Handover, other: str) -> None:
    with pytest.raises(FreshgateError, match="cannot open a session as") as refusal:
        handover.user_of(EVE, call(**{key: other, "use:database": "s"}), None)
    assert refusal.value.sqlstate == "42501"


@given(spellings(), st.sampled_from([ACCOUNT, EMBEDDED]))
def test_a_user_may_name_himself(key: str, handover: Handover) -> None:
    handover.user_of(EVE, call(**{key: "eve"}), None)


def test_of_two_names_none_may_be_anothers() -> None:
    """Whichever of them Spark takes."""
    with pytest.raises(FreshgateError, match="as 'root'"):
        EMBEDDED.user_of(EVE, call(**{PROXY_USER_KEY: "eve", f"set:hiveconf:{PROXY_USER_KEY}": "root"}), None)


def test_the_account_names_the_user_once() -> None:
    payload = ACCOUNT.open_session(EVE, calls.open_session(), "eve")
    opened = message.open_session(payload)
    assert (opened.username, opened.configuration[PROXY_USER_KEY]) == ("svc", "eve")


def test_another_spark_decides_by_its_own_rules() -> None:
    Handover(PLAIN, checked=True).user_of(EVE, call(**{PROXY_USER_KEY: "root"}), "eve")


@pytest.mark.parametrize("handover", [EMBEDDED, Handover(PLAIN)])
def test_a_connection_is_one_users_at_spark(handover: Handover) -> None:
    with pytest.raises(FreshgateError, match="Open another one for 'eve'"):
        handover.user_of(Login("eve", "secret", NOSASL), call(), "ada")


@pytest.mark.parametrize(
    ("overrides", "refused"),
    [
        ([], False),
        (FILE, True),
        ([*FILE, "upstream.address=spark:10000"], False),
        ([*FILE, "upstream.address=spark:10000", "authentication.hand_on=proxy_user"], True),
        ([*FILE, "authentication.hand_on=proxy_user"], True),
    ],
)
def test_who_may_name_another_user_follows_from_the_settings(overrides: list[str], refused: bool) -> None:
    handover = clients.handover(settings_file.load(None, overrides), PLAIN)
    try:
        handover.user_of(EVE, call(**{PROXY_USER_KEY: ANONYMOUS}), None)
    except FreshgateError:
        assert refused
    else:
        assert not refused


# --- accounts that may act in others' names ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("account", "user", "peer", "allowed"),
    [
        ("superset", "ada", "10.1.2.3:4711", True),
        ("superset", "ada", "10.1.2.3", True),
        ("superset", "ada", "[::1]:4711", True),
        ("superset", "ada", "[::ffff:10.1.2.3]:4711", True),
        ("superset", "ada", "192.0.2.1:4711", False),
        ("superset", "ada", "[::2]:4711", False),
        ("superset", "ada", "unknown", False),
        ("superset", "ada", "", False),
        ("superset", "root", "10.1.2.3:4711", False),
        ("superset", "", "10.1.2.3:4711", False),
        ("superset", " ", "10.1.2.3:4711", False),
        ("hue", "ada", "192.0.2.1:4711", True),
        ("hue", "zoe", "192.0.2.1:4711", False),
        ("knox", "root", "192.0.2.1:4711", True),
        ("knox", "eve", "192.0.2.1:4711", False),
        ("ada", "bob", "10.1.2.3:4711", False),
        ("Superset", "ada", "10.1.2.3:4711", False),
        ("hal", "bob", "10.1.2.3:4711", True),
        ("hal", "ada", "10.1.2.3:4711", False),
        ("hal", "analysts", "10.1.2.3:4711", False),
        ("hal", "group:analysts", "10.1.2.3:4711", False),
    ],
)
def test_rules_say_who_may_name_whom_from_where(account: str, user: str, peer: str, *, allowed: bool) -> None:
    assert IMPERSONATION.allows(account, Principal(user), peer) is allowed


@pytest.mark.parametrize(
    ("account", "user", "groups", "allowed"),
    [
        ("hal", "ada", {"analysts"}, True),
        ("hal", "ada", {"others"}, False),
        ("hal", "root", {"analysts"}, False),
        ("hal", "ada", {"analysts", "admins"}, False),
        ("hal", "ada", {"admins"}, False),
        ("hal", "bob", {"admins"}, True),
        ("superset", "ada", {"admins"}, False),
        ("knox", "root", {"admins"}, True),
    ],
)
def test_rules_name_groups_of_the_named_user(account: str, user: str, groups: set[str], *, allowed: bool) -> None:
    """Administrators, also those by their groups, are meant only by their names."""
    assert IMPERSONATION.allows(account, Principal(user, frozenset(groups)), "10.1.2.3:1") is allowed


@pytest.mark.parametrize("handover", [ACCOUNT, EMBEDDED, Handover(PLAIN, checked=True)])
def test_an_account_opens_sessions_in_the_name_of_others(handover: Handover) -> None:
    allowing = replace(handover, impersonation=IMPERSONATION)
    named = call(**{PROXY_USER_KEY: "ada"})
    assert allowing.user_of(SUPERSET, named, "superset", "10.0.0.1:1") == "ada"
    assert allowing.user_of(SUPERSET, call(), None, "10.0.0.1:1", "ada") == "ada"
    assert allowing.user_of(SUPERSET, named, None, "10.0.0.1:1", "ada") == "ada"
    assert allowing.user_of(SUPERSET, call(), None, "192.0.2.1:1") == "superset"
    opened = message.open_session(allowing.open_session(SUPERSET, calls.open_session(), "ada"))
    assert opened.configuration[PROXY_USER_KEY] == "ada"
    for configuration, peer, do_as in (
        ({PROXY_USER_KEY: "ada"}, "192.0.2.1:1", ""),
        ({PROXY_USER_KEY: "root"}, "10.0.0.1:1", ""),
        ({PROXY_USER_KEY: "ada"}, "10.0.0.1:1", "bob"),
        ({PROXY_USER_KEY: "ada", f"set:{PROXY_USER_KEY}": "root"}, "10.0.0.1:1", ""),
        ({f"set:hiveconf:{PROXY_USER_KEY.upper()}": "root"}, "10.0.0.1:1", ""),
        ({}, "10.0.0.1:1", "root"),
    ):
        with pytest.raises(FreshgateError, match="cannot open a session as") as refusal:
            allowing.user_of(SUPERSET, call(**configuration), None, peer, do_as)
        assert refusal.value.sqlstate == "42501"


@pytest.mark.parametrize("handover", [ACCOUNT, EMBEDDED, Handover(PLAIN, checked=True)])
def test_a_url_names_nobody_else_without_a_rule(handover: Handover) -> None:
    assert handover.user_of(EVE, call(), None, "10.0.0.1:1", "eve") == "eve"
    with pytest.raises(FreshgateError, match=r"as 'root': access.impersonators has no rule"):
        handover.user_of(EVE, call(), None, "10.0.0.1:1", "root")


@pytest.mark.parametrize(
    "rule",
    ["superset", "superset:", ": ada", "superset: from 10.0.0.1", "superset: * from", "superset: * from here", "a: , "],
)
def test_a_rule_that_says_less_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match="Write ACCOUNT: USER, USER from HOST"):
        Impersonator.parse(rule)
    with pytest.raises(ConfigError, match="must say ACCOUNT: USER, USER from HOST"):
        settings_file.load(None, [f"access.impersonators={json.dumps([rule])}"])


def test_two_rules_for_one_account_are_refused() -> None:
    with pytest.raises(ConfigError, match="two rules for hue"):
        settings_file.load(None, ['access.impersonators=["hue: ada", "hue: bob"]'])
