"""Tests that user input in DNs and filters is escaped, as ldap3 and OpenLDAP parse them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap3.operation.search import parse_filter
from ldap3.protocol.convert import prepare_filter_for_sending
from ldap3.utils.dn import parse_dn

from gateway.login import ldap_text as texts

VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
HARD = st.text('\\,+="<>;# *()%s\0aé', min_size=1, max_size=12)


def equal_pairs(text: str) -> list[tuple[str, bytes]]:
    """The comparisons in a filter, as ldap3 sends them."""
    found: list[tuple[str, bytes]] = []

    def walk(node: object) -> None:
        for child in getattr(node, "elements", None) or []:
            walk(child)
        assertion = getattr(node, "assertion", None)
        if assertion and "value" in assertion:
            found.append((assertion["attr"], prepare_filter_for_sending(assertion["value"])))

    walk(parse_filter(text, None, True, True, None, False))
    return found


@given(VALUES | HARD)
def test_a_value_in_a_dn_is_escaped(value: str) -> None:
    dn = f"uid={texts.escaped_in_dn(value)},ou=people,dc=example"
    assert texts.first_value(dn) == value
    assert texts.base_of(dn) == "ou=people,dc=example"
    if value == value.strip():
        parts = parse_dn(dn)
        assert [part[0] for part in parts] == ["uid", "ou", "dc"]
        assert texts.unescaped_from_dn(parts[0][1]) == value


@given(VALUES | HARD)
def test_a_value_in_a_filter_is_escaped(value: str) -> None:
    filters = {
        texts.person_named(value): [("uid", value), ("sAMAccountName", value)],
        texts.groups_with("member", value, value): [("member", value), ("member", value)],
        texts.part_filter("uid=%s,ou=people", value): [("uid", value)],
        texts.part_filter(f"uid={texts.escaped_in_dn(value)},ou=people"): [("uid", value)],
    }
    for text, expected in filters.items():
        pairs = [pair for pair in equal_pairs(text) if pair[0] != "objectClass"]
        assert pairs == [(name, each.encode()) for name, each in expected]


@given(st.text(max_size=30) | HARD)
def test_any_name_is_read_or_refused(name: str) -> None:
    for function in (texts.short_name, texts.first_value, texts.part_filter, texts.unescaped_from_dn):
        try:
            function(name)
        except ValueError:
            continue
    assert texts.base_of(name) in name or texts.base_of(name) == ""


@pytest.mark.parametrize(
    ("user", "short", "without_domain"),
    [
        ("ada", "ada", "ada"),
        ("ada@example.com", "ada", "ada"),
        ("ada/host@REALM", "ada", "ada"),
        ("@ada", "@ada", "@ada"),
        ("uid=ada,ou=people,dc=example", "ada", "uid=ada,ou=people,dc=example"),
        ("uid=a\\,da,ou=people", "a,da", "uid=a\\,da,ou=people"),
        ("uid = a\\\\\\  ,ou=people", "a\\ ", "uid = a\\\\\\  ,ou=people"),
        ("uid=a\\2cda,ou=people", "a,da", "uid=a\\2cda,ou=people"),
    ],
)
def test_a_user_name_has_a_short_form(user: str, short: str, without_domain: str) -> None:
    assert texts.short_name(user) == short
    assert texts.without_domain(user) == without_domain


def test_patterns_are_split_and_have_defaults() -> None:
    assert texts.patterns("", "dc=example") == ("uid=%s,dc=example",)
    assert texts.patterns("", "") == ()
    assert texts.patterns("uid=%s,ou=a:cn=%s,ou=b:nothing", "y") == ("uid=%s,ou=a", "cn=%s,ou=b")
    assert texts.bases(("uid=%s,ou=a,dc=b", "ou=c,dc=d")) == ("ou=a,dc=b", "ou=c,dc=d")


@pytest.mark.parametrize(
    ("user", "domain", "found"),
    [
        ("ada", "", ("uid=ada,ou=a", "uid=ada,ou=b")),
        ("a,b", "", ("uid=a\\,b,ou=a", "uid=a\\,b,ou=b")),
        ("ada", "example.com", ("ada@example.com",)),
        ("ada@other.com", "example.com", ("ada@other.com",)),
        ("uid=ada,ou=c", "example.com", ("uid=ada,ou=c",)),
    ],
)
def test_principals_are_built_from_patterns_or_the_domain(user: str, domain: str, found: tuple[str, ...]) -> None:
    assert texts.principals(user, domain, ("uid=%s,ou=a", "uid=%s,ou=b")) == found
    assert texts.principals("ada", "", ()) == ("ada",)


def test_what_lies_below_a_base() -> None:
    assert texts.lies_below("cn=A, ou=groups,dc=example", "OU=groups, dc=example")
    assert texts.lies_below("cn=a,dc=example", "cn=a,dc=example")
    for other in ("cn=a,ou=subgroups,dc=example", "ou=groups,dc=example,dc=evil", "cn=a,ou=people,dc=example"):
        assert not texts.lies_below(other, "ou=groups,dc=example")
