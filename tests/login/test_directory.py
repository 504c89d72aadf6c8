"""Tests logins against a real OpenLDAP server, with each of HiveServer2's settings."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from slapd import ADMINISTRATOR, ADMINISTRATOR_PASSWORD, GROUPS, PARTNERS, PASSWORDS, PEOPLE, SUFFIX, Slapd

from gateway.config import Ldap
from gateway.login.directory import LdapDirectory
from gateway.login.ldap import LdapEntry, LdapUsers
from gateway.login.verifier import Unavailable, WrongLogin

PATTERNS = {"user_dn_pattern": f"uid=%s,{PEOPLE}", "group_dn_pattern": f"cn=%s,{GROUPS}"}
ACCOUNT = {"bind_dn": ADMINISTRATOR, "bind_password": ADMINISTRATOR_PASSWORD}
BY_NAME = {"group_membership_key": "memberOf"}
SOFT_HYPHEN = "\u00ad"


def ldap(slapd: Slapd, **settings: Any) -> Ldap:
    return Ldap(**{"url": slapd.url, "base_dn": PEOPLE, **settings})


def users(slapd: Slapd, **settings: Any) -> LdapUsers:
    chosen = ldap(slapd, **settings)
    return LdapUsers(chosen, LdapDirectory(chosen, 5))


def directory_of(slapd: Slapd) -> LdapDirectory:
    return LdapDirectory(Ldap(url=slapd.url), 5)


def lets_in(found: LdapUsers, user: str, password: str | None = None) -> bool:
    try:
        found.verify(user, PASSWORDS[user] if password is None else password)
    except WrongLogin:
        return False
    return True


@pytest.mark.parametrize(
    "settings",
    [{}, PATTERNS, {"user_dn_pattern": f"uid=%s,{GROUPS}:uid=%s,{PEOPLE}"}, {**PATTERNS, **ACCOUNT}, ACCOUNT],
    ids=["base", "pattern", "second pattern", "search account", "search account below base"],
)
def test_only_the_right_password_is_accepted_by_the_directory(slapd: Slapd, settings: dict[str, str]) -> None:
    found = users(slapd, **settings)
    assert lets_in(found, "ada")
    assert lets_in(found, "o,d+d")
    assert not lets_in(found, "ada", "eve's secret")
    assert not lets_in(found, "nobody", "ada's secret")


@pytest.mark.parametrize("settings", [{}, PATTERNS, ACCOUNT], ids=["base", "pattern", "search account"])
@pytest.mark.parametrize(
    "user", ["*", "ad*", "ada)(uid=*", "ada,ou=people", "", "\\", "=", "ada,", "a\0b", "%s", "uid=%s"]
)
def test_user_names_are_escaped(slapd: Slapd, settings: dict[str, str], user: str) -> None:
    assert not lets_in(users(slapd, **settings, user_filter=("ada",)), user, "ada's secret")


@pytest.mark.parametrize("password", ["", SOFT_HYPHEN, SOFT_HYPHEN * 3], ids=["none", "soft hyphen", "soft hyphens"])
def test_an_empty_password_is_refused_even_if_the_directory_accepts_it(slapd: Slapd, password: str) -> None:
    for settings in ({}, PATTERNS, ACCOUNT):
        assert not lets_in(users(slapd, **settings), "ada", password)


def test_a_dn_is_accepted_as_the_user_name(slapd: Slapd) -> None:
    dn = f"uid=ada,{PEOPLE}"
    for settings in ({}, PATTERNS, ACCOUNT, {"user_filter": ("ada",)}, {**PATTERNS, "group_filter": ("analysts",)}):
        found = users(slapd, **settings)
        assert lets_in(found, dn, "ada's secret")
        assert not lets_in(found, dn, "eve's secret")
    assert not lets_in(users(slapd, **PATTERNS, group_filter=("others",)), dn, "ada's secret")


def test_only_listed_users_are_accepted(slapd: Slapd) -> None:
    found = users(slapd, user_filter=("ADA", "someone"))
    assert lets_in(found, "ada")
    assert not lets_in(found, "eve")


@pytest.mark.parametrize("key", [{}, BY_NAME], ids=["members of groups", "groups of users"])
@pytest.mark.parametrize("account", [{}, ACCOUNT], ids=["own search", "search account"])
def test_only_members_of_listed_groups_are_accepted(slapd: Slapd, key: dict[str, str], account: dict[str, str]) -> None:
    found = users(slapd, **{**PATTERNS, **key, **account}, group_filter=("nothing", "analysts"))
    assert lets_in(found, "ada")
    assert lets_in(found, f"uid=ada,{PEOPLE}", "ada's secret")
    assert lets_in(found, "o,d+d")
    assert not lets_in(found, "eve")


def test_groups_elsewhere_do_not_count(slapd: Slapd) -> None:
    for key in ({}, BY_NAME):
        found = users(slapd, **{**PATTERNS, **key, "group_dn_pattern": f"cn=%s,{PARTNERS}"}, group_filter=("analysts",))
        assert not lets_in(found, "ada")


def test_a_custom_query_finds_members_whatever_lists_groups(slapd: Slapd) -> None:
    settings = {**PATTERNS, **BY_NAME, "base_dn": SUFFIX, "custom_ldap_query": "(cn=analysts)"}
    assert lets_in(users(slapd, **settings), "ada")
    assert not lets_in(users(slapd, **settings), "eve")


def test_group_names_are_case_insensitive(slapd: Slapd) -> None:
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
def test_a_custom_query_selects_users(slapd: Slapd, query: str, who: set[str]) -> None:
    # The query takes precedence over the lists. It finds users, or groups with their members.
    found = users(slapd, **PATTERNS, **{"base_dn": SUFFIX}, custom_ldap_query=query, user_filter=("nobody",))
    assert {user for user in ("ada", "eve") if lets_in(found, user)} == who


@pytest.mark.parametrize("key", [{}, BY_NAME], ids=["members of groups", "groups of users"])
def test_groups_of_users_are_found_with_and_without_a_search_account(slapd: Slapd, key: dict[str, str]) -> None:
    settings = {**PATTERNS, **key}
    found = users(slapd, **settings, **ACCOUNT)
    assert found.groups_of("ada") == found.groups_of("o,d+d") == {"analysts"}
    assert found.groups_of("eve") == {"others"}
    for nobody in ("svc", "zoe", "*", "ad*", "", "\\", "=", "ada,", "uid=ada,ou=nowhere", "ada@example.com", "ada/x"):
        assert found.groups_of(nobody) == set()
    assert found.verify("ada", PASSWORDS["ada"]) == set()
    own = LdapUsers(ldap(slapd, **settings), directory_of(slapd), finds_groups=True)
    assert own.verify("ada", PASSWORDS["ada"]) == {"analysts"}
    assert own.verify(f"uid=ada,{PEOPLE}", PASSWORDS["ada"]) == {"analysts"}
    assert own.verify("svc", PASSWORDS["svc"]) == set()
    assert own.groups_of("ada") == set()


def test_a_name_with_a_domain_has_no_groups_of_another_domain(slapd: Slapd) -> None:
    """slapd has no userPrincipalName, by which Active Directory would find ada@other."""
    found = users(slapd, **PATTERNS, **ACCOUNT, domain="Example.com")
    assert found.groups_of("ada@example.COM") == found.groups_of("ada") == {"analysts"}
    assert found.groups_of("ada@other.example") == set()
    # Two entries have this name, and the password of one must not give the groups of the other.
    two = {"user_dn_pattern": f"uid=%s,{PARTNERS}:uid=%s,{PEOPLE}", "group_dn_pattern": f"cn=%s,{GROUPS}"}
    assert users(slapd, **two, **ACCOUNT).groups_of("ada") == set()
    own = LdapUsers(ldap(slapd, **two), directory_of(slapd), finds_groups=True)
    assert own.verify("ada", "another ada's secret") == set()
    assert own.verify("ada", PASSWORDS["ada"]) == {"analysts"}


@pytest.mark.parametrize("key", [{}, BY_NAME], ids=["members of groups", "groups of users"])
def test_groups_in_groups_count_if_asked_for(slapd: Slapd, key: dict[str, str]) -> None:
    """Two of these groups contain each other."""
    settings = {**PATTERNS, **key, **ACCOUNT, "nested_groups": "search"}
    assert users(slapd, **settings).groups_of("ada") == {"analysts", "staff", "company"}
    assert users(slapd, **settings).groups_of("eve") == {"others"}
    assert lets_in(users(slapd, **settings, group_filter=("company",)), "ada")
    assert not lets_in(users(slapd, **{**settings, "nested_groups": "none"}, group_filter=("company",)), "ada")


def test_active_directory_follows_groups_in_groups_itself() -> None:
    asked: list[str] = []

    class Recorder:
        """A directory that has an entry for everything, and records what is searched for."""

        @contextlib.contextmanager
        def bind(self, principal: str, password: str) -> Iterator[Recorder]:
            yield self

        def search(self, base: str, text: str, attribute: str = "", found_max: int = 0) -> list[LdapEntry]:
            asked.append(text)
            return [LdapEntry("cn=Ada (1),dc=example")]

    settings = Ldap(
        url="ldap://ad",
        base_dn="dc=example",
        nested_groups="matching_rule",
        group_membership_key="memberOf",
        bind_dn=ACCOUNT["bind_dn"],
        bind_password=ACCOUNT["bind_password"],
    )
    found = LdapUsers(settings, Recorder()).groups_of("ada@example")
    assert found == {"Ada (1)"}
    assert "(userPrincipalName=ada@example)" in asked[0]
    assert asked[1] == r"(member:1.2.840.113556.1.4.1941:=cn=Ada\20\281\29,dc=example)"


def test_a_directory_that_does_not_answer_knows_no_groups(slapd: Slapd) -> None:
    with pytest.raises(Unavailable):
        users(slapd, **PATTERNS, bind_dn=ADMINISTRATOR, bind_password="wrong").groups_of("ada")
    with pytest.raises(Unavailable):
        users(slapd, url="ldap://127.0.0.1:1", **PATTERNS, **ACCOUNT).groups_of("ada")


def test_the_directory_is_reached_over_tls(slapd: Slapd) -> None:
    for settings in ({"url": slapd.tls_url}, {"start_tls": True}):
        assert lets_in(users(slapd, **settings, ca=str(slapd.ca)), "ada")


@pytest.mark.parametrize("way", ["ldaps", "start_tls"])
def test_an_untrusted_directory_gets_no_password(slapd: Slapd, way: str) -> None:
    settings = {"url": slapd.tls_url} if way == "ldaps" else {"start_tls": True}
    with pytest.raises(Unavailable, match="certificate verify failed"):
        users(slapd, **settings).verify("ada", PASSWORDS["ada"])


@pytest.mark.parametrize("way", ["ldaps", "start_tls"])
def test_a_certificate_of_another_host_is_refused(slapd: Slapd, way: str) -> None:
    port, scheme = (slapd.tls_port, "ldaps") if way == "ldaps" else (slapd.port, "ldap")
    found = users(slapd, url=f"{scheme}://127.0.0.1:{port}", start_tls=way == "start_tls", ca=str(slapd.ca))
    with pytest.raises(Unavailable):
        found.verify("ada", PASSWORDS["ada"])


def test_the_next_server_is_used_if_one_is_down(slapd: Slapd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert lets_in(users(slapd, url=f"ldap://127.0.0.1:{port} {slapd.url}"), "ada")
    with pytest.raises(Unavailable, match=str(port)):
        users(slapd, url=f"ldap://127.0.0.1:{port}").verify("ada", PASSWORDS["ada"])


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
def test_a_silent_server_times_out(slapd: Slapd, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        chosen = ldap(slapd, url=f"{scheme}://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unavailable):
            LdapUsers(chosen, LdapDirectory(chosen, 1)).verify("ada", PASSWORDS["ada"])


def test_a_refused_search_account_is_a_configuration_error(slapd: Slapd) -> None:
    with pytest.raises(Unavailable, match=r"ldap\.bind_dn"):
        users(slapd, bind_dn=ADMINISTRATOR, bind_password="wrong").verify("ada", PASSWORDS["ada"])


def test_an_invalid_filter_is_a_configuration_error(slapd: Slapd) -> None:
    with pytest.raises(Unavailable, match="filter"):
        users(slapd, custom_ldap_query="(uid=").verify("ada", PASSWORDS["ada"])


def test_groups_are_those_of_the_entry_whose_password_was_checked(slapd: Slapd) -> None:
    patterns = {**PATTERNS, "user_dn_pattern": f"UID = %s, {PEOPLE.upper()}:uid=%s,{PARTNERS}"}
    for lists in ({"group_filter": ("analysts",)}, {"user_filter": ("ada",)}):
        found = users(slapd, **patterns, **lists)
        assert lets_in(found, "ada", "ada's secret")
        with pytest.raises(WrongLogin, match="the password belongs to uid=ada,ou=partners"):
            found.verify("ada", "another ada's secret")
        assert lets_in(users(slapd, **patterns), "ada", "another ada's secret")


def test_an_ambiguous_user_name_is_refused(slapd: Slapd) -> None:
    found = users(slapd, **ACCOUNT, base_dn=SUFFIX, user_dn_pattern=f"objectClass=inetOrgPerson,{PEOPLE}")
    assert not lets_in(found, "ada")
