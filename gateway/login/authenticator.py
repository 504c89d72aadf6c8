"""Checks logins, each by what its client offers, and delays refusals."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Hashable, Sequence
from typing import Protocol

from gateway.errors import FreshgateError, LoginDenied, LoginUnchecked
from gateway.login.address_turns import AddressTurns
from gateway.login.passwords import Passwords
from gateway.login.refusal_log import RefusalLog
from gateway.login.threads import LoginThreads
from gateway.login.verifier import (
    USER_CHARACTERS_MAX,
    TicketVerifier,
    TokenVerifier,
    Unavailable,
    Verifier,
    WrongLogin,
    WrongTicket,
)
from gateway.wire.http_connection import BEARER, HTTP, NEGOTIATE
from gateway.wire.memory import Memory
from gateway.wire.sasl import TOKEN_BYTES_MAX, Exchange, Login

log = logging.getLogger(__name__)

PASSWORD_CHARACTERS_MAX = 4096
TOKEN_CHARACTERS_MAX = 16_384
"""Longer names and passwords are refused unhashed, because hashing megabytes would let anybody overload the gateway."""
REFUSAL_SECONDS = 1.0
"""A refused login is answered so late, so that guessing passwords takes time. No other login waits."""


class Authenticator(Protocol):
    """Decides about each login."""

    @property
    def required(self) -> bool:
        """False if Spark alone decides who may log in."""
        ...

    async def check(self, login: Login, peer: str = "") -> Login:
        """Returns the login, with the user's name, if the user may log in. `peer` is the client's address, for the log.

        Raises LoginDenied, which does not say whether the user exists, or LoginUnchecked.
        """
        ...

    async def standing(self, user: str) -> Hashable:
        """Changes when this user is known to have to log in again: the password is another one, or the user is gone.

        Raises LoginUnchecked.
        """
        ...

    def vouches(self, login: Login) -> bool:
        """Whether a login over HTTP that passed `check` need not be checked by Spark."""
        ...

    def accepted(self, login: Login) -> None:
        """Spark has accepted the login."""
        ...

    async def refused(self, login: Login, peer: str, reason: str) -> None:
        """Spark has refused the login. Returns when the client may be told."""
        ...


class Unchecked:
    """Accepts every login, because Spark decides. `memory` remembers what Spark has accepted over HTTP."""

    required = False

    def __init__(self, memory: Memory | None = None, refusal_delay: float = 0.0) -> None:
        self._memory = memory if memory is not None else Memory(0.0)
        self._refusal_delay = refusal_delay
        self._log = RefusalLog()

    async def check(self, login: Login, peer: str = "") -> Login:
        if login.mechanism == BEARER:
            await self.refused(login, peer, "authentication.method is none, so nobody checks tokens")
            raise _denied(login)
        return login

    async def standing(self, user: str) -> Hashable:
        return None

    def vouches(self, login: Login) -> bool:
        return self._memory.knows(login, None)

    def accepted(self, login: Login) -> None:
        self._memory.keep(login, None)

    async def refused(self, login: Login, peer: str, reason: str) -> None:
        self._log.refused(_who(login), peer, reason)
        await asyncio.sleep(self._refusal_delay)


class Checked:
    """Asks what checks passwords, tokens, or tickets. A refusal takes `refusal_delay` seconds, so that guessing
    takes time.

    `memory` remembers passwords accepted over HTTP, because a client without cookies logs in with each request.
    """

    required = True

    def __init__(
        self,
        verifiers: Sequence[Verifier],
        refusal_delay: float,
        concurrent_checks: int,
        memory: Memory | None = None,
        tokens: TokenVerifier | None = None,
        tickets: TicketVerifier | None = None,
    ) -> None:
        """Without verifiers no password, and without `tokens` or `tickets` none of these is accepted."""
        memory = memory if memory is not None else Memory(0.0)
        self._passwords = Passwords(verifiers, memory, concurrent_checks)
        self._tokens = tokens
        self._token_threads = LoginThreads(concurrent_checks)
        self._tickets = tickets
        self._ticket_threads = LoginThreads(concurrent_checks)
        self._turns = AddressTurns(concurrent_checks // 2)
        self._refusal_delay = refusal_delay
        self._log = RefusalLog()

    async def check(self, login: Login, peer: str = "") -> Login:
        loop = asyncio.get_running_loop()
        began, address = loop.time(), peer.rpartition(":")[0] or peer
        try:
            _check_form(login)
            async with self._turns.turn(address):
                return await self._checked(login)
        except WrongTicket as refused:
            reason, error = str(refused), _ticket_denied(refused)
        except WrongLogin as refused:
            reason, error = str(refused), _denied(login)
        except Unavailable as unavailable:
            reason, error = str(unavailable), _unavailable(login)
        except Exception as fault:
            # A fault of the gateway: a login that was not checked must not get in.
            log.exception("the check of a login failed in the gateway")
            reason, error = repr(fault), _unavailable(login)
        except asyncio.CancelledError:
            log.warning("login of %s from %s: the client left before it was checked", _who(login), peer)
            raise
        self._turns.refused(address)
        self._log.refused(_who(login), peer, reason)
        # Nothing else is held meanwhile.
        await asyncio.sleep(self._seconds_left(loop.time() - began))
        raise error

    async def standing(self, user: str) -> Hashable:
        try:
            return await self._passwords.versions(user)
        except Unavailable as unavailable:
            self._log.refused(_shown(user), "", str(unavailable))
            raise LoginUnchecked(
                "The gateway cannot read who may log in; its log says why. Try again in a moment."
            ) from unavailable

    def vouches(self, login: Login) -> bool:
        return True

    def accepted(self, login: Login) -> None:
        return

    async def refused(self, login: Login, peer: str, reason: str) -> None:
        self._log.refused(_who(login), peer, reason)
        await asyncio.sleep(self._refusal_delay)

    async def _checked(self, login: Login) -> Login:
        """Raises WrongLogin, WrongTicket or Unavailable."""
        if login.mechanism == BEARER:
            return await self._identified(login)
        if login.exchange is not None:
            return await self._accepted(login, login.exchange)
        return await self._passwords.check(login)

    async def _identified(self, login: Login) -> Login:
        """The login of the user whom a token names. Spark never gets the token: who has it can log in elsewhere."""
        tokens = self._tokens
        if tokens is None:
            raise WrongLogin("jwt.issuer is not set, so no token is accepted")
        found = await self._token_threads.run(lambda: tokens.identify(login.password))
        return Login(found.user, "", HTTP, time.monotonic() + found.until - time.time(), found.groups)

    async def _accepted(self, login: Login, exchange: Exchange) -> Login:
        """The login of the user whom a ticket names. Nobody can hand it on: the gateway has no ticket for Spark in the
        user's name."""
        tickets = self._tickets
        if tickets is None:
            raise WrongTicket("this server accepts none")
        found = await self._ticket_threads.run(lambda: tickets.accept(exchange))
        mechanism = HTTP if login.mechanism == NEGOTIATE else login.mechanism
        return Login(found.user, "", mechanism, time.monotonic() + found.until - time.time())

    def _seconds_left(self, passed: float) -> float:
        """Seconds until a whole multiple of the delay has passed. The duration of a check would reveal how far it
        got."""
        return self._refusal_delay - passed % self._refusal_delay if self._refusal_delay else 0.0


def _check_form(login: Login) -> None:
    """Raises WrongLogin for credentials that no method accepts.

    A directory treats an empty password as an anonymous login, and accepts it.
    """
    if login.mechanism == BEARER:
        if not 0 < len(login.password) <= TOKEN_CHARACTERS_MAX:
            raise WrongLogin(f"the token has {len(login.password)} characters, and may have {TOKEN_CHARACTERS_MAX}")
        return
    if login.exchange is not None:
        if not 0 < len(login.exchange.token) <= TOKEN_BYTES_MAX:
            raise WrongTicket(f"it has {len(login.exchange.token)} bytes")
        return
    if not login.user.strip():
        raise WrongLogin("the user name is missing")
    if not login.password.strip():
        raise WrongLogin("the password is missing")
    if "\0" in login.user or "\0" in login.password:
        raise WrongLogin("the user name or password contains the character NUL")
    if len(login.user) > USER_CHARACTERS_MAX or len(login.password) > PASSWORD_CHARACTERS_MAX:
        raise WrongLogin("the user name or password is too long")


def _ticket_denied(refused: WrongTicket) -> FreshgateError:
    return LoginDenied(f"The ticket of Kerberos is not accepted: {refused}.")


def _denied(login: Login) -> FreshgateError:
    if login.mechanism == BEARER:
        return LoginDenied(
            "The token is not accepted: it has expired or is not valid, or its user has no access. Get a new one; the "
            "gateway's log says why."
        )
    return LoginDenied(
        f"User {_shown(login.user)} cannot log in: the user name or password is wrong, or the user has no access."
    )


def _unavailable(login: Login) -> FreshgateError:
    what = "The ticket of Kerberos" if login.exchange is not None else f"The password of user {_shown(login.user)}"
    if login.mechanism == BEARER:
        what = "The token"
    return LoginUnchecked(f"{what} cannot be checked at the moment; the gateway's log says why. Try again.")


def _who(login: Login) -> str:
    if login.exchange is not None:
        return "a ticket"
    return "a token" if login.mechanism == BEARER else _shown(login.user)


def _shown(user: str) -> str:
    """The name on one line and shortened, because clients choose it freely."""
    return repr(user if len(user) <= 100 else user[:100] + "...")
