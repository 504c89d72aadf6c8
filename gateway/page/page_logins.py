"""Logs users in to the page, and knows who they are at each request.

Tests: `test_page_logins`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.access_list import Principal
from gateway.errors import FreshgateError, LoginAbandoned
from gateway.page.visitors import Visitor, Visitors
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.clients.audit import Audit
from gateway.service.clients.handover import Logins
from gateway.wire.http_connection import HTTP
from gateway.wire.sasl import Login

NOBODY = Visitor(Login("", "", HTTP), float("inf"), 0.0)
"""Where nobody logs in: everybody may look, and nobody may do anything."""


class PageLogins:
    """`logins`: how they are checked. `proxies`: those whose word about a browser's address counts."""

    def __init__(self, logins: Logins, audit: Audit, proxies: TrustedProxies) -> None:
        self._authenticator = logins.authenticator
        self._groups = logins.groups
        self._audit = audit
        self._proxies = proxies
        self._visitors = Visitors()

    @property
    def required(self) -> bool:
        return self._authenticator.required

    async def enter(self, user: str, password: str, peer: str) -> str:
        """Checks a password; returns the cookie of the visit. Raises FreshgateError."""
        try:
            # Read first, because a change during the check may not be included in it.
            standing = await self._authenticator.standing(user)
            login = await self._authenticator.check(Login(user, password, HTTP), peer)
        except FreshgateError as error:
            self._audit.login(user, peer, error)
            raise
        except asyncio.CancelledError:
            self._audit.login(user, peer, LoginAbandoned())
            raise
        self._audit.login(login.user, peer, None)
        return self._visitors.enter(login, standing)

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

    def peer(self, connected: tuple[str, int] | None, forwarded_for: Sequence[str]) -> str:
        """The browser's address, for turns, the log and the audit. `forwarded_for`: headers of the request."""
        if connected is None:
            return "unknown"
        host, port = connected
        found = self._proxies.origin(host, ", ".join(forwarded_for))
        return found or f"{host}:{port}"
