"""Checks passwords by several methods: a file, a directory, a company's own program.

A user whom a method is sure to have (the users file) is that method's alone. Otherwise the first method that accepts
the password decides. One that does not answer does not hold logins that another one accepts.

Tests: `test_several_methods`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace

from gateway.login.threads import LoginThreads
from gateway.login.verifier import Unavailable, UnknownUser, Verifier, WrongLogin
from gateway.wire.http_connection import HTTP
from gateway.wire.memory import Memory
from gateway.wire.sasl import Login

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 2.0
"""How long a method may take before the next one is asked, too."""


class Passwords:
    """The methods, in the order in which they are asked.

    `memory` remembers passwords accepted over HTTP, because a client without cookies logs in with each request.
    """

    def __init__(
        self,
        verifiers: Sequence[Verifier],
        memory: Memory,
        concurrent_checks: int,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        # Those that know their users need no other one for these.
        first = sorted(verifiers, key=lambda each: not each.knows_its_users)
        self._methods = [_Method(each, memory, concurrent_checks) for each in first]
        self._patience_seconds = patience_seconds
        self._version_threads = LoginThreads()

    async def versions(self, user: str) -> Hashable:
        """Changes whenever something is known to have changed that affects `check` for this user. Raises
        Unavailable."""
        return await self._version_threads.run(lambda: tuple(each.version(user) for each in self._methods))

    async def check(self, login: Login) -> Login:
        """The login, with the groups that the method has found. Raises WrongLogin or Unavailable."""
        # One that is down is asked last, because it may take long not to answer.
        waiting = sorted(self._methods, key=lambda each: each.is_down)
        asked: dict[asyncio.Task[Login], _Method] = {}
        problems: list[tuple[str, Exception]] = []
        try:
            while waiting or asked:
                if waiting:
                    method = waiting.pop(0)
                    asked[asyncio.create_task(method.check(login))] = method
                patience = self._patience_seconds if waiting else None
                done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    for slow in asked.values():
                        slow.is_down = True
                for task in done:
                    method = asked.pop(task)
                    try:
                        return task.result()
                    except (WrongLogin, Unavailable) as error:
                        if method.decides(error):
                            raise
                        problems.append((method.name, error))
        finally:
            for task in asked:
                task.cancel()
        raise _together(problems)


class _Method:
    """A verifier with its threads."""

    def __init__(self, verifier: Verifier, memory: Memory, concurrent_checks: int) -> None:
        self.name = verifier.name
        self._verifier = verifier
        self._memory = memory
        self._threads = LoginThreads(concurrent_checks)
        self.is_down = False
        """Whether it could not check the last password, or was too slow."""

    async def check(self, login: Login) -> Login:
        """Raises WrongLogin or Unavailable."""
        try:
            groups = await self._threads.run(lambda: self._verify(login))
        except WrongLogin:
            self.is_down = False
            raise
        except Unavailable:
            self.is_down = True
            raise
        except Exception as fault:
            self.is_down = True
            # A fault of the gateway or of the method: a login that was not checked must not get in.
            log.exception("the check of a login by the method %s failed", self.name)
            raise Unavailable(repr(fault)) from fault
        self.is_down = False
        return replace(login, groups=groups)

    def version(self, user: str) -> Hashable:
        """As the verifier's."""
        return self._verifier.version(user)

    def decides(self, error: WrongLogin | Unavailable) -> bool:
        """Whether this outcome is final."""
        known = isinstance(error, WrongLogin) and not isinstance(error, UnknownUser)
        return self._verifier.knows_its_users and known

    def _verify(self, login: Login) -> frozenset[str]:
        if login.mechanism != HTTP:
            return self._verifier.verify(login.user, login.password)
        # Read first, because a change during the check may not be included in it.
        version = self.name, self._verifier.version(login.user)
        known = self._memory.groups_of(login, version)
        if known is None:
            known = self._verifier.verify(login.user, login.password)
            self._memory.keep(login, version, known)
        return known


def _together(problems: Sequence[tuple[str, Exception]]) -> Exception:
    """What the methods have said. If one cannot check the password, that may be the one that would accept it."""
    if not problems:
        return WrongLogin("no method checks passwords: authentication.method names only ones for tokens or tickets")
    text = "; ".join(f"{name}: {error}" if len(problems) > 1 else str(error) for name, error in problems)
    down = any(isinstance(error, Unavailable) for _, error in problems)
    return Unavailable(text) if down else WrongLogin(text)
