"""As whom a session may be opened: nobody becomes another user by what the configuration of OpenSession says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import assembly, settings_file
from gateway.errors import FreshgateError
from gateway.service.clients.handover import ANONYMOUS, PROXY_USER_KEY, Handover
from gateway.wire import message
from gateway.wire.connection import NOSASL, PLAIN
from gateway.wire.message import OpenCall
from gateway.wire.sasl import Login
from tests.wire import calls

EVE = Login("eve", "secret", PLAIN)
ACCOUNT = Handover(PLAIN, Login("svc", "its secret", PLAIN), checked=True)
EMBEDDED = Handover(PLAIN, checked=True, substitutes=False)
FILE = ["authentication=file"]


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
        handover.refuse_another(EVE, call(**{key: other, "use:database": "s"}), None)
    assert refusal.value.sqlstate == "42501"


@given(spellings(), st.sampled_from([ACCOUNT, EMBEDDED]))
def test_a_user_may_name_himself(key: str, handover: Handover) -> None:
    handover.refuse_another(EVE, call(**{key: "eve"}), None)


def test_of_two_names_none_may_be_anothers() -> None:
    """Whichever of them Spark takes."""
    with pytest.raises(FreshgateError, match="as 'root'"):
        EMBEDDED.refuse_another(EVE, call(**{PROXY_USER_KEY: "eve", f"set:hiveconf:{PROXY_USER_KEY}": "root"}), None)


def test_the_account_names_the_user_once() -> None:
    payload = ACCOUNT.open_session(EVE, calls.open_session())
    opened = message.open_session(payload)
    assert (opened.username, opened.configuration[PROXY_USER_KEY]) == ("svc", "eve")


def test_another_spark_decides_by_its_own_rules() -> None:
    Handover(PLAIN, checked=True).refuse_another(EVE, call(**{PROXY_USER_KEY: "root"}), "eve")


@pytest.mark.parametrize("handover", [EMBEDDED, Handover(PLAIN)])
def test_a_connection_is_one_users_at_spark(handover: Handover) -> None:
    with pytest.raises(FreshgateError, match="Open another one for 'eve'"):
        handover.refuse_another(Login("eve", "secret", NOSASL), call(), "ada")


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
    handover = assembly.handover(settings_file.load(None, overrides), PLAIN)
    try:
        handover.refuse_another(EVE, call(**{PROXY_USER_KEY: ANONYMOUS}), None)
    except FreshgateError:
        assert refused
    else:
        assert not refused
