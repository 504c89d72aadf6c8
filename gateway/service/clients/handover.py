"""How a user is handed on to Spark: who logs in there, and as whom a session runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.errors import FreshgateError
from gateway.login.authenticator import Authenticator, Unchecked
from gateway.wire import message
from gateway.wire.connection import NOSASL
from gateway.wire.message import OpenCall
from gateway.wire.sasl import Login

ANONYMOUS = "anonymous"
"""Name and password of clients that give none, as Hive's drivers have it."""
PROXY_USER_KEY = "hive.server2.proxy.user"
"""In OpenSession's configuration: as whom Spark is to run the session (ThriftCLIService.getProxyUser)."""


@dataclass(frozen=True, slots=True)
class Handover:
    """`mechanism`: how Spark is logged in to, "PLAIN", "NOSASL" or "HTTP".

    `account` logs in to Spark for every user, each of whom is named as a proxy user; None: each user does himself.
    `checked`: the gateway has checked who the users are. `substitutes`: Spark has rules about who may name another
    user; without them anybody could be anybody there.
    """

    mechanism: str
    account: Login | None = None
    checked: bool = False
    substitutes: bool = True

    def login(self, login: Login) -> Login:
        """With what to log in to Spark: the client's own name and password, if no account stands for all users.

        Spark takes no empty password, so it gets the one drivers send then.
        """
        if self.account is not None:
            return self.account
        return Login(login.user or ANONYMOUS, login.password or ANONYMOUS, self.mechanism)

    def refuse_another(self, login: Login, call: OpenCall, joined_as: str | None) -> None:
        """Raises FreshgateError where Spark would take the session for somebody else's than the gateway does.

        `joined_as`: with whose name the connection to Spark was made; None where there is none yet.
        """
        if self.account is not None or not self.substitutes:
            _refuse_proxy_user(login.user, call, "itself names the user" if self.account else "hands the login on")
        if self.account is None and self.mechanism != NOSASL and joined_as not in (None, login.user):
            # Spark takes every session of a connection for the one's whose password it has seen.
            raise FreshgateError(
                f"This connection is {joined_as!r}'s at Spark. Open another one for {login.user!r}.", "28000"
            )

    def open_session(self, login: Login, payload: bytes) -> bytes:
        """The OpenSession request as it goes to Spark, in the name of the user who was let in."""
        if self.account is not None:
            payload = message.with_configuration(payload, {PROXY_USER_KEY: login.user})
            return message.with_names(payload, self.account.user, self.account.password)
        if self.mechanism == NOSASL and (self.checked or login.mechanism != NOSASL):
            # Spark believes what stands here, and so would a client with SASL name whom it likes.
            own = self.login(login)
            return message.with_names(payload, own.user, own.password)
        return payload


@dataclass(frozen=True, slots=True)
class Logins:
    """How clients log in: who checks it, and how it is handed on to Spark."""

    handover: Handover
    authenticator: Authenticator = field(default_factory=Unchecked)


def _refuse_proxy_user(user: str, call: OpenCall, gateway: str) -> None:
    """Raises FreshgateError (42501) for another user's name, under any spelling of the key that somebody might read."""
    named = {value for key, value in call.configuration.items() if PROXY_USER_KEY in key.lower()} - {user}
    if named:
        other = min(named)
        raise FreshgateError(
            f"User {user!r} cannot open a session as {other!r}: the gateway {gateway} to Spark. Leave {PROXY_USER_KEY} "
            f"out, or log in as {other!r}.",
            "42501",
        )
