"""Logs users in to the page, and knows who they are at each request.

Tests: `test_page_logins`, `test_provider_logins`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TYPE_CHECKING, TypeVar

from gateway.access_list import Principal
from gateway.errors import FreshgateError, LoginAbandoned, LoginDenied, LoginUnchecked
from gateway.login.code_returns import Return
from gateway.login.refusal_log import RefusalLog
from gateway.login.threads import LoginThreads
from gateway.login.verifier import Unavailable, WrongLogin
from gateway.page.visitors import Visitor, Visitors
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.clients.audit import Audit
from gateway.service.clients.handover import Logins
from gateway.wire.http_connection import HTTP
from gateway.wire.sasl import Login

if TYPE_CHECKING:
    from gateway.login.code_logins import CodeLogins

T = TypeVar("T")

NOBODY = Visitor(Login("", "", HTTP), float("inf"), 0.0)
"""Where nobody logs in: everybody may look, and nobody may do anything."""
PROVIDER_SECONDS = 3600.0
"""How long a login at an identity provider counts: so late the page learns that the provider has shut a user out. A
browser that is still logged in there comes back without being asked anything."""


class PageLogins:
    """Sends browsers to an identity provider if there is one, and checks passwords if they are accepted."""

    def __init__(
        self,
        logins: Logins,
        audit: Audit,
        proxies: TrustedProxies,
        provider: CodeLogins | None = None,
        *,
        takes_passwords: bool = True,
    ) -> None:
        """`logins`: how passwords are checked. `proxies`: those whose word about a browser's address counts."""
        self._authenticator = logins.authenticator
        self._groups = logins.groups
        self._audit = audit
        self._proxies = proxies
        self._provider = provider
        self.takes_passwords = takes_passwords
        self._visitors = Visitors()
        self._threads = LoginThreads()
        self._log = RefusalLog()

    @property
    def required(self) -> bool:
        return self._authenticator.required

    @property
    def provider(self) -> str:
        """The identity provider's host; empty without one."""
        return "" if self._provider is None else self._provider.provider

    # --- with a password ----------------------------------------------------------------------------------

    async def enter(self, user: str, password: str, peer: str) -> str:
        """Checks a password; returns the cookie of the visit. Raises FreshgateError."""

        async def check() -> tuple[Login, Hashable]:
            # Read first, because a change during the check may not be included in it.
            standing = await self._authenticator.standing(user)
            return await self._authenticator.check(Login(user, password, HTTP), peer), standing

        return await self._entered(user, peer, check)

    # --- at an identity provider --------------------------------------------------------------------------

    async def begin(self, redirect: str, peer: str) -> tuple[str, str]:
        """An attempt, which the browser keeps, and the address where it goes now. `redirect`: where it comes back.

        Raises FreshgateError.
        """
        provider = self._provider
        if provider is None:
            raise LoginDenied("There is no identity provider: log in with a password.")
        attempt = provider.begin()
        return attempt, await self._at_provider(lambda: provider.address(attempt, redirect), peer)

    async def enter_returned(self, attempt: str, redirect: str, given: Return, peer: str) -> str:
        """Logs in a user who comes back; returns the cookie of the visit. Raises FreshgateError."""
        provider = self._provider
        if provider is None:
            raise LoginDenied("There is no identity provider: log in with a password.")

        async def identify() -> tuple[Login, Hashable]:
            found = await self._at_provider(lambda: provider.identify(attempt, redirect, given), peer)
            return Login(found.user, "", HTTP, time.monotonic() + PROVIDER_SECONDS, found.groups), None

        return await self._entered("", peer, identify)

    async def _at_provider(self, work: Callable[[], T], peer: str) -> T:
        try:
            return await self._threads.run(work)
        except WrongLogin as error:
            refused: FreshgateError = LoginDenied(
                f"The login at {self.provider} is not accepted; the gateway's log says why. Try again."
            )
            reason = str(error)
        except Unavailable as error:
            refused = LoginUnchecked(
                f"{self.provider} does not answer as it should; the gateway's log says why. Try again in a moment."
            )
            reason = str(error)
        self._log.refused(f"a user at {self.provider}", peer, reason)
        raise refused

    async def _entered(self, user: str, peer: str, check: Callable[[], Awaitable[tuple[Login, Hashable]]]) -> str:
        """The cookie of the visit that begins if a login passes the check."""
        try:
            login, standing = await check()
        except FreshgateError as error:
            self._audit.login(user, peer, error)
            raise
        except asyncio.CancelledError:
            self._audit.login(user, peer, LoginAbandoned())
            raise
        self._audit.login(login.user, peer, None)
        return self._visitors.enter(login, standing)

    # --- afterwards ---------------------------------------------------------------------------------------

    async def visitor(self, cookie: str) -> Visitor | None:
        """Who has this cookie, with the groups that count now; None if nobody has, or the user must log in again.

        Raises LoginUnchecked if that is unknown at the moment.
        """
        if not self.required:
            return NOBODY
        visitor = self._visitors.find(cookie)
        if visitor is None:
            return None
        login = visitor.login
        if visitor.standing is not None and await self._authenticator.standing(login.user) != visitor.standing:
            self._visitors.leave(cookie)
            return None
        groups = await self._groups.of(login.user) if self._groups.has_sources else frozenset[str]()
        visitor.who = Principal(login.user, login.groups | groups)
        return visitor

    def leave(self, cookie: str) -> None:
        """Ends a visit, if there is one."""
        self._visitors.leave(cookie)

    # --- where a browser is -------------------------------------------------------------------------------

    def peer(self, connected: tuple[str, int] | None, forwarded_for: Sequence[str]) -> str:
        """The browser's address, for turns, the log and the audit. `forwarded_for`: headers of the request."""
        if connected is None:
            return "unknown"
        host, port = connected
        found = self._proxies.origin(host, ", ".join(forwarded_for))
        return found or f"{host}:{port}"

    def over_tls(self, connected: tuple[str, int] | None, forwarded_proto: Sequence[str]) -> bool:
        """Whether a trusted proxy says that the browser uses TLS. `forwarded_proto`: headers of the request."""
        if connected is None or not self._proxies.trusts(connected[0]) or not forwarded_proto:
            return False
        return forwarded_proto[-1].rpartition(",")[2].strip().lower() == "https"
