"""Checks logins against LDAP, with HiveServer2's settings `hive.server2.authentication.ldap.*`.

A login binds to the directory with the user's name and password. With a search account (`ldap.bind_dn`), the account
finds the user's entry, and the login binds with that. Then the filters decide: a custom query, or else the lists of
users and groups.

Tests: `test_directory`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from gateway.config import Ldap
from gateway.login import ldap_text as texts
from gateway.login.verifier import NO_GROUPS, Unavailable, WrongLogin

log = logging.getLogger(__name__)

DEFAULT_KEY = "member"
MEMBER_OF = "memberof"
"""The value of `ldap.group_membership_key` with which users' entries name groups, in lower case."""
NESTED_MAX = 20
"""Groups in groups in groups are followed so far."""
LISTED_TOGETHER = 50
"""Groups in one filter."""
FOUND_MAX = 2
"""If exactly one entry must match, finding two is enough to know."""


@dataclass(frozen=True, slots=True)
class LdapEntry:
    """A search result: a DN, and the values of the requested attributes."""

    dn: str
    values: tuple[str, ...] = ()


class Search(Protocol):
    """A connection bound to the directory."""

    def search(self, base: str, text: str, attribute: str = "", found_max: int = 0) -> Sequence[LdapEntry]:
        """Returns the entries at and below a base that match a filter, at most `found_max` if that is not 0.

        Raises Unavailable.
        """
        ...


class LdapService(Protocol):
    """An LDAP service."""

    def bind(self, principal: str, password: str) -> AbstractContextManager[Search]:
        """Binds to the directory. Raises Refused or Unavailable."""
        ...


class LdapUsers:
    """Checks passwords against a directory. Implements `Verifier` and `GroupSource`."""

    name = "ldap"
    knows_its_users = False

    is_cheap = False

    def __init__(self, settings: Ldap, directory: LdapService, *, finds_groups: bool = False) -> None:
        """`finds_groups`: whether `verify` returns the groups of a user who searches the directory for herself. With a
        search account, `groups_of` finds them."""
        self._settings = settings
        self._finds_groups = finds_groups and not settings.bind_dn
        self._directory = directory
        base = settings.base_dn
        self._user_patterns = texts.patterns(settings.user_dn_pattern, base)
        self._user_bases = texts.bases(self._user_patterns)
        self._group_bases = texts.bases(texts.patterns(settings.group_dn_pattern, base))
        self._users = frozenset(user.lower() for user in settings.user_filter)
        self._groups = frozenset(group.lower() for group in settings.group_filter)

    def verify(self, user: str, password: str) -> frozenset[str]:
        try:
            if self._settings.bind_dn:
                self._verify_by_search(user, password)
                return NO_GROUPS
            with self._bind(user, password) as (search, principal):
                self._filter(search, user, principal)
                if not self._finds_groups:
                    return NO_GROUPS
                dn = principal if texts.is_dn(principal) else self._find_certainly(search, user)
                return self._groups_at(search, dn)
        except ValueError as error:
            # Only the user's input can be invalid: the settings were checked.
            raise WrongLogin(str(error)) from error

    def groups_of(self, user: str) -> frozenset[str]:
        """The groups of the entry that has exactly this name, found by the search account; none without one."""
        if not self._settings.bind_dn:
            return NO_GROUPS
        try:
            with self._bind_to_search() as search:
                return self._groups_at(search, self._find_certainly(search, user))
        except ValueError:
            return NO_GROUPS  # No entry can have such a name.

    def version(self, _: str) -> None:
        """Always None: changes in a directory cannot be detected from here."""

    def _verify_by_search(self, user: str, password: str) -> None:
        with self._bind_to_search() as search:
            self._filter(search, user)
            dn = self._find_user(search, user)
        if dn is None:
            raise WrongLogin("not exactly one entry of the directory has this name")
        with self._bind(dn, password):
            return

    @contextlib.contextmanager
    def _bind(self, user: str, password: str) -> Iterator[tuple[Search, str]]:
        """Binds with the first principal that the directory accepts, and yields that principal too."""
        *others, last = texts.principals(user, self._settings.domain, self._user_patterns)
        with contextlib.ExitStack() as stack:
            for principal in others:
                try:
                    search = stack.enter_context(self._directory.bind(principal, password))
                    break
                except WrongLogin as error:
                    log.debug("the directory refused %r: %s", principal, error)
            else:
                principal, search = last, stack.enter_context(self._directory.bind(last, password))
            yield search, principal

    @contextlib.contextmanager
    def _bind_to_search(self) -> Iterator[Search]:
        settings = self._settings
        with contextlib.ExitStack() as stack:
            try:
                search, _ = stack.enter_context(self._bind(settings.bind_dn, settings.bind_password))
            except WrongLogin as error:
                raise Unavailable(f"the directory refuses ldap.bind_dn: {error}") from error
            yield search

    # --- filters -----------------------------------------------------------------------------------

    def _filter(self, search: Search, typed: str, principal: str = "") -> None:
        """Raises Refused if the user may not log in. `principal`: the one with which the password was right."""
        user = texts.without_domain(typed)
        if self._settings.custom_ldap_query:
            self._custom_query(search, user)
            return
        if not self._users and not self._groups:
            return
        dn = self._find_user(search, user)
        if dn is None:
            raise WrongLogin("not exactly one entry of the directory has this name")
        if texts.is_dn(principal) and principal.lower() != dn.lower() and self._find_user(search, principal) != dn:
            # Two patterns may each have an entry of this name: the password of one must not give the groups of the
            # other.
            raise WrongLogin(f"the password belongs to {principal}, but the name belongs to {dn}")
        if self._users and texts.short_name(user).lower() not in self._users:
            raise WrongLogin("ldap.user_filter does not contain this user")
        if self._groups:
            self._check_groups(search, dn)

    def _custom_query(self, search: Search, user: str) -> None:
        settings = self._settings
        for entry in search.search(settings.base_dn, settings.custom_ldap_query, self._member_key):
            for name in (entry.dn, *entry.values):
                if user.lower() in (name.lower(), _short(name).lower()):
                    return
        raise WrongLogin("ldap.custom_ldap_query does not find this user")

    def _check_groups(self, search: Search, dn: str) -> None:
        if not any(_short(group).lower() in self._groups for group in self._all_groups(search, dn)):
            raise WrongLogin("this user is in no group of ldap.group_filter")

    def _groups_at(self, search: Search, dn: str | None) -> frozenset[str]:
        """The names of the groups of an entry."""
        return NO_GROUPS if dn is None else frozenset(_short(group) for group in self._all_groups(search, dn))

    def _all_groups(self, search: Search, dn: str) -> list[str]:
        """The DNs of the groups of an entry, with those that these are in, if nested groups count."""
        if self._settings.nested_groups == "matching_rule":
            return self._search(search, self._group_bases, texts.groups_around(self._member_key, dn))
        found = self._named_groups(search, dn) if self._names_groups else self._listing_groups(search, dn)
        return self._with_outer_groups(search, found) if self._settings.nested_groups == "search" else found

    def _with_outer_groups(self, search: Search, groups: Sequence[str]) -> list[str]:
        found, inner = dict.fromkeys(groups), list(groups)
        for _ in range(NESTED_MAX):
            outer: list[str] = []
            for start in range(0, len(inner), LISTED_TOGETHER):
                listed = texts.groups_of_any(self._member_key, inner[start : start + LISTED_TOGETHER])
                outer += self._search(search, self._group_bases, listed)
            inner = [group for group in dict.fromkeys(outer) if group not in found]
            if not inner:
                break
            found.update(dict.fromkeys(inner))
        return list(found)

    @property
    def _names_groups(self) -> bool:
        """Whether a user's entry names groups, instead of groups their members."""
        return self._settings.group_membership_key.lower() == MEMBER_OF

    @property
    def _member_key(self) -> str:
        """The attribute by which groups list their members, who may name their groups as well."""
        return DEFAULT_KEY if self._names_groups else self._settings.group_membership_key

    def _listing_groups(self, search: Search, dn: str) -> list[str]:
        """The groups that list the user, whatever their class: only groups have members."""
        text = texts.groups_with(self._settings.group_membership_key, dn, texts.short_name(dn))
        return self._search(search, self._group_bases, text)

    def _named_groups(self, search: Search, dn: str) -> list[str]:
        """The groups that the user's entry names."""
        found = search.search(texts.base_of(dn), texts.person_at(dn), self._settings.group_membership_key)
        named = [group for entry in found if entry.dn.lower() == dn.lower() for group in entry.values]
        return [group for group in named if any(texts.lies_below(group, base) for base in self._group_bases)]

    # --- searches ----------------------------------------------------------------------------------

    def _find_user(self, search: Search, user: str) -> str | None:
        """The DN of the user's entry; None if there is not exactly one."""
        if texts.is_dn(user):
            found = self._search(search, (texts.base_of(user),), texts.person_at(user), FOUND_MAX)
        else:
            found = self._find_by_patterns(search, user)
            if not found:
                found = self._search(search, self._user_bases, texts.person_named(user), FOUND_MAX)
        return found[0] if len(found) == 1 else None

    def _find_certainly(self, search: Search, user: str) -> str | None:
        """The DN of the entry that a name means without a password that proves it: `ada@example.com` is not `ada` of
        another domain."""
        if texts.is_dn(user) or not texts.has_domain(user):
            return self._find_user(search, user)
        found = self._search(search, self._user_bases, texts.person_with_principal(user), FOUND_MAX)
        if len(found) == 1:
            return found[0]
        name, domain = texts.without_domain(user), self._settings.domain.strip()
        if domain and user.lower() == f"{name}@{domain}".lower():
            return self._find_user(search, name)
        return None

    def _find_by_patterns(self, search: Search, user: str) -> list[str]:
        for pattern in self._user_patterns:
            found = self._search(search, (texts.base_of(pattern),), texts.part_filter(pattern, user), FOUND_MAX)
            if found:
                return found
        return []

    def _search(self, search: Search, bases: Iterable[str], text: str, found_max: int = 0) -> list[str]:
        # Two patterns may have the same base: an entry found twice is still one entry.
        found = [entry.dn for base in bases for entry in search.search(base, text, found_max=found_max)]
        return list(dict.fromkeys(found))


def _short(name: str) -> str:
    """The first value of a DN; any other name unchanged."""
    try:
        return texts.first_value(name)
    except ValueError:
        return name
