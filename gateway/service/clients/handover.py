"""Hands users on to Spark: with which login to connect there, and as which user a session runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.errors import FreshgateError
from gateway.login.authenticator import Authenticator, Unchecked
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
    may name another user; without them, anybody could act as any user.
    """

    mechanism: str
    account: Login | None = None
    checked: bool = False
    substitutes: bool = True

    def login(self, login: Login) -> Login:
        """The login for Spark: the account for all users, or else the client's own name and password.

        Spark accepts no empty password, so it gets the one that drivers send in that case.
        """
        if self.account is not None:
            return self.account
        return Login(login.user or ANONYMOUS, login.password or ANONYMOUS, self.mechanism)

    def refuse_another(self, login: Login, call: OpenCall, joined_as: str | None) -> None:
        """Raises FreshgateError if Spark would run the session as another user than the gateway assumes.

        `joined_as`: the user whose login opened the connection to Spark; None if there is no connection yet.
        """
        if self.account is not None or not self.substitutes:
            _refuse_proxy_user(login.user, call, "itself names the user" if self.account else "hands the login on")
        if self.account is None and self.mechanism != NOSASL and joined_as not in (None, login.user):
            # Spark assigns all sessions of a connection to the user whose password it has checked.
            raise FreshgateError(
                f"This connection belongs to {joined_as!r} at Spark. Open another one for {login.user!r}.", "28000"
            )

    def open_session(self, login: Login, payload: bytes) -> bytes:
        """The OpenSession request for Spark, in the name of the user who has logged in."""
        if self.account is not None:
            payload = message.with_configuration(payload, {PROXY_USER_KEY: login.user})
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


def _refuse_proxy_user(user: str, call: OpenCall, gateway: str) -> None:
    """Raises FreshgateError (42501) if another user is named, under any spelling of the key that Spark might accept."""
    named = {value for key, value in call.configuration.items() if PROXY_USER_KEY in key.lower()} - {user}
    if named:
        other = min(named)
        raise FreshgateError(
            f"User {user!r} cannot open a session as {other!r}: the gateway {gateway} to Spark. Remove "
            f"{PROXY_USER_KEY}, or log in as {other!r}.",
            "42501",
        )
