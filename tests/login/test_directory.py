"""Logins against a real OpenLDAP server, under each of HiveServer2's settings."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from slapd import ADMINISTRATOR, ADMINISTRATOR_PASSWORD, GROUPS, PARTNERS, PASSWORDS, PEOPLE, SUFFIX, Slapd

from gateway.config import Ldap
from gateway.login.authenticator import Refused, Unavailable
from gateway.login.directory import LdapDirectory
from gateway.login.ldap import LdapUsers

PATTERNS = {"user_dn_pattern": f"uid=%s,{PEOPLE}", "group_dn_pattern": f"cn=%s,{GROUPS}"}
ACCOUNT = {"bind_dn": ADMINISTRATOR, "bind_password": ADMINISTRATOR_PASSWORD}
BY_NAME = {"guid_key": "cn", "user_membership_key": "memberOf"}
SOFT_HYPHEN = "\u00ad"


def users(slapd: Slapd, **settings: Any) -> LdapUsers:
    chosen = Ldap(**{"url": slapd.url, "base_dn": PEOPLE, "timeout": 5, **settings})
    return LdapUsers(chosen, LdapDirectory(chosen))


def lets_in(found: LdapUsers, user: str, password: str | None = None) -> bool:
    try:
        found.verify(user, PASSWORDS[user] if password is None else password)
    except Refused:
        return False
    return True


@pytest.mark.parametrize(
    "settings",
    [{}, PATTERNS, {"user_dn_pattern": f"uid=%s,{GROUPS}:uid=%s,{PEOPLE}"}, {**PATTERNS, **ACCOUNT}, ACCOUNT],
    ids=["base", "pattern", "second pattern", "search account", "search account below base"],
)
def test_the_right_password_and_no_other(slapd: Slapd, settings: dict[str, str]) -> None:
    found = users(slapd, **settings)
    assert lets_in(found, "ada")
    assert lets_in(found, "o,d+d")
    assert not lets_in(found, "ada", "eve's secret")
    assert not lets_in(found, "nobody", "ada's secret")


@pytest.mark.parametrize("settings", [{}, PATTERNS, ACCOUNT], ids=["base", "pattern", "search account"])
@pytest.mark.parametrize(
    "user", ["*", "ad*", "ada)(uid=*", "ada,ou=people", "", "\\", "=", "ada,", "a\0b", "%s", "uid=%s"]
)
def test_names_do_not_leave_their_place(slapd: Slapd, settings: dict[str, str], user: str) -> None:
    assert not lets_in(users(slapd, **settings, user_filter=("ada",)), user, "ada's secret")


@pytest.mark.parametrize("password", ["", SOFT_HYPHEN, SOFT_HYPHEN * 3], ids=["none", "soft hyphen", "soft hyphens"])
def test_no_password_is_no_login_even_where_the_directory_takes_it_as_one(slapd: Slapd, password: str) -> None:
    for settings in ({}, PATTERNS, ACCOUNT):
        assert not lets_in(users(slapd, **settings), "ada", password)


def test_a_dn_as_the_name(slapd: Slapd) -> None:
    dn = f"uid=ada,{PEOPLE}"
    for settings in ({}, PATTERNS, ACCOUNT, {"user_filter": ("ada",)}, {**PATTERNS, "group_filter": ("analysts",)}):
        found = users(slapd, **settings)
        assert lets_in(found, dn, "ada's secret")
        assert not lets_in(found, dn, "eve's secret")
    assert not lets_in(users(slapd, **PATTERNS, group_filter=("others",)), dn, "ada's secret")


def test_a_list_of_users(slapd: Slapd) -> None:
    found = users(slapd, user_filter=("ADA", "someone"))
    assert lets_in(found, "ada")
    assert not lets_in(found, "eve")


@pytest.mark.parametrize("key", [{}, BY_NAME], ids=["members of groups", "groups of users"])
@pytest.mark.parametrize("account", [{}, ACCOUNT], ids=["own search", "search account"])
def test_a_list_of_groups(slapd: Slapd, key: dict[str, str], account: dict[str, str]) -> None:
    # A user's name is looked for under the same key as a group's.
    names = {"ada": "Ada", "eve": "Eve"} if key else {"ada": "ada", "eve": "eve"}
    patterns = {"user_dn_pattern": f"{'cn' if key else 'uid'}=%s,{PEOPLE}:uid=%s,{PEOPLE}"}
    found = users(slapd, **{**PATTERNS, **patterns, **key, **account}, group_filter=("nothing", "analysts"))
    # With cn as the key only a login by DN binds without a search account.
    dn = f"uid=ada,{PEOPLE}"
    if key and account:
        assert lets_in(found, names["ada"], "ada's secret")
        assert not lets_in(found, names["eve"], "eve's secret")
    elif not key:
        assert lets_in(found, "ada")
        assert lets_in(found, dn, "ada's secret")
        assert not lets_in(found, "eve")


def test_groups_are_known_by_their_short_name_without_case(slapd: Slapd) -> None:
    assert lets_in(users(slapd, **PATTERNS, group_filter=("ANALYSTS",)), "ada")
    assert not lets_in(users(slapd, **PATTERNS, group_filter=("analyst",)), "ada")


@pytest.mark.parametrize(
    ("query", "who"),
    [
        ("(uid=ada)", {"ada"}),
        ("(objectClass=inetOrgPerson)", {"ada", "eve"}),
        ("(cn=others)", {"eve"}),
        ("(cn=x)", set()),
    ],
)
def test_a_query_of_ones_own(slapd: Slapd, query: str, who: set[str]) -> None:
    # It goes before the lists, and finds users or groups that name them.
    found = users(slapd, **PATTERNS, **{"base_dn": SUFFIX}, custom_ldap_query=query, user_filter=("nobody",))
    assert {user for user in ("ada", "eve") if lets_in(found, user)} == who


def test_tls(slapd: Slapd) -> None:
    for settings in ({"url": slapd.tls_url}, {"start_tls": True}):
        assert lets_in(users(slapd, **settings, ca=str(slapd.ca)), "ada")


@pytest.mark.parametrize("way", ["ldaps", "start_tls"])
def test_a_directory_that_nobody_vouches_for_gets_no_password(slapd: Slapd, way: str) -> None:
    settings = {"url": slapd.tls_url} if way == "ldaps" else {"start_tls": True}
    with pytest.raises(Unavailable, match="certificate verify failed"):
        users(slapd, **settings).verify("ada", PASSWORDS["ada"])


@pytest.mark.parametrize("way", ["ldaps", "start_tls"])
def test_a_certificate_of_another_host(slapd: Slapd, way: str) -> None:
    port, scheme = (slapd.tls_port, "ldaps") if way == "ldaps" else (slapd.port, "ldap")
    found = users(slapd, url=f"{scheme}://127.0.0.1:{port}", start_tls=way == "start_tls", ca=str(slapd.ca))
    with pytest.raises(Unavailable):
        found.verify("ada", PASSWORDS["ada"])


def test_the_next_server_stands_in(slapd: Slapd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert lets_in(users(slapd, url=f"ldap://127.0.0.1:{port} {slapd.url}"), "ada")
    with pytest.raises(Unavailable, match=str(port)):
        users(slapd, url=f"ldap://127.0.0.1:{port}").verify("ada", PASSWORDS["ada"])


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
def test_a_server_that_says_nothing_is_given_up(slapd: Slapd, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable):
            users(slapd, url=url, timeout=1).verify("ada", PASSWORDS["ada"])


def test_a_refused_search_account_is_nobodys_wrong_password(slapd: Slapd) -> None:
    with pytest.raises(Unavailable, match=r"ldap\.bind_dn"):
        users(slapd, bind_dn=ADMINISTRATOR, bind_password="wrong").verify("ada", PASSWORDS["ada"])


def test_a_filter_that_is_none(slapd: Slapd) -> None:
    with pytest.raises(Unavailable, match="filter"):
        users(slapd, custom_ldap_query="(uid=").verify("ada", PASSWORDS["ada"])


def test_ones_password_does_not_open_the_groups_of_another_of_the_same_name(slapd: Slapd) -> None:
    patterns = {**PATTERNS, "user_dn_pattern": f"UID = %s, {PEOPLE.upper()}:uid=%s,{PARTNERS}"}
    for lists in ({"group_filter": ("analysts",)}, {"user_filter": ("ada",)}):
        found = users(slapd, **patterns, **lists)
        assert lets_in(found, "ada", "ada's secret")
        with pytest.raises(Refused, match="the password is that of uid=ada,ou=partners"):
            found.verify("ada", "another ada's secret")
        assert lets_in(users(slapd, **patterns), "ada", "another ada's secret")


def test_two_entries_of_one_name_are_nobody(slapd: Slapd) -> None:
    found = users(slapd, **ACCOUNT, base_dn=SUFFIX, user_dn_pattern=f"objectClass=inetOrgPerson,{PEOPLE}")
    assert not lets_in(found, "ada")
