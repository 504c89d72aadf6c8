"""Hands users on to Spark: with which login to connect there, and as which user a session runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.access_list import Principal
from gateway.errors import FreshgateError
from gateway.login.authenticator import Authenticator, Unchecked
from gateway.login.groups import NO_SOURCES, UserGroups
from gateway.login.impersonation import NOBODY, Impersonation
from gateway.wire import message
from gateway.wire.connection import NOSASL
from gateway.wire.message import OpenCall
from gateway.wire.sasl import Login

ANONYMOUS = "anonymous"
"""Name and password for clients that give none, as in Hive's drivers."""
PROXY_USER_KEY = "hive.server2.proxy.user"
"""In OpenSession's configuration: the user as which Spark runs the session (ThriftCLIService.getProxyUser)."""


@dataclass(frozen=True, slots=True)
class Handover:
    """The way of handing users on. `mechanism`: for logging in to Spark, "PLAIN", "NOSASL" or "HTTP".

    `account`: the login for all users, who are named as proxy users; None: each user logs in with their own.
    `checked`: whether the gateway has checked the users' passwords. `substitutes`: whether Spark has rules about who
    may name another user; without them, anybody could act as any user. `impersonation`: who may name whom by the
    gateway's own rules, whatever Spark's are.
    """

    mechanism: str
    account: Login | None = None
    checked: bool = False
    substitutes: bool = True
    impersonation: Impersonation = NOBODY

    def login(self, login: Login) -> Login:
        """The login for Spark: the account for all users, or else the client's own name and password.

        Spark accepts no empty password, so it gets the one that drivers send in that case.
        """
        if self.account is not None:
            return self.account
        return Login(login.user or ANONYMOUS, login.password or ANONYMOUS, self.mechanism)

    def names_another(self, login: Login, call: OpenCall, do_as: str = "") -> str:
        """The user in whose name an account of `access.impersonators` wants to act, if it names one; "" otherwise."""
        named = _named_in(call) | {do_as}
        others = named - {login.user, ""}
        return others.pop() if len(others) == 1 and self.impersonation.concerns(login.user) else ""

    def user_of(
        self,
        login: Login,
        call: OpenCall,
        joined_as: str | None,
        peer: str = "",
        do_as: str = "",
        groups: frozenset[str] = frozenset(),
    ) -> str:
        """As whom the session runs. Raises FreshgateError if Spark would run it as another user than the gateway
        assumes, or the login may not act in the name of the user that it names.

        `joined_as`: the user whose login opened the connection to Spark; None if there is no connection yet. `peer`:
        the client's address. `do_as`: whom the URL of the HTTP transport names.
        `groups`: those of the user that `names_another` has returned.
        """
        user, named = login.user, _named_in(call)
        if self.impersonation.concerns(user) and (named or do_as):
            user = self._named(user, named | ({do_as} if do_as else set()), peer, groups)
        elif do_as not in ("", user):
            raise _not_allowed(user, do_as, "access.impersonators has no rule for it")
        elif (others := named - {user}) and (self.account is not None or not self.substitutes):
            gateway = "itself names the user" if self.account else "hands the login on"
            raise _not_allowed(user, min(others), f"the gateway {gateway} to Spark")
        if self.account is None and self.mechanism != NOSASL and joined_as not in (None, login.user):
            # Spark assigns all sessions of a connection to the user whose password it has checked.
            raise FreshgateError(
                f"This connection belongs to {joined_as!r} at Spark. Open another one for {login.user!r}.", "28000"
            )
        return user

    def _named(self, account: str, named: set[str], peer: str, groups: frozenset[str]) -> str:
        """Whom an account of `access.impersonators` names."""
        for other in sorted(named - {account}):
            if len(named) > 1:
                raise _not_allowed(account, other, "it names more than one user")
            if not self.impersonation.allows(account, Principal(other, groups), peer):
                raise _not_allowed(account, other, f"access.impersonators does not allow it from {peer or 'anywhere'}")
        return named.pop()

    def open_session(self, login: Login, payload: bytes, user: str) -> bytes:
        """The OpenSession request for Spark, in the name of `user`."""
        if self.account is not None or user != login.user:
            payload = message.with_configuration(payload, {PROXY_USER_KEY: user})
        if self.account is not None:
            return message.with_names(payload, self.account.user, self.account.password)
        if self.mechanism == NOSASL and (self.checked or login.mechanism != NOSASL):
            # Spark trusts these fields, so a client with SASL could otherwise name any user.
            own = self.login(login)
            return message.with_names(payload, own.user, own.password)
        return payload


@dataclass(frozen=True, slots=True)
class Logins:
    """How clients' logins are checked, and how they are handed on to Spark."""

    handover: Handover
    authenticator: Authenticator = field(default_factory=Unchecked)
    groups: UserGroups = NO_SOURCES
    """Where the groups of users are found besides in tokens."""


def _not_allowed(user: str, other: str, why: str) -> FreshgateError:
    return FreshgateError(
        f"User {user!r} cannot open a session as {other!r}: {why}. Remove {PROXY_USER_KEY} or doAs, or log in as "
        f"{other!r}.",
        "42501",
    )


def _named_in(call: OpenCall) -> set[str]:
    """The users that a client names, under any spelling of the key that Spark might accept."""
    return {value for key, value in call.configuration.items() if PROXY_USER_KEY in key.lower()}
