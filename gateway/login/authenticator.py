"""The check of a login: in threads of its own, a bounded number at a time, and slow where it ends in a refusal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from gateway.errors import FreshgateError, LoginDenied, LoginUnchecked
from gateway.wire.http_connection import HTTP
from gateway.wire.memory import Memory
from gateway.wire.sasl import Login

log = logging.getLogger(__name__)

USER_CHARACTERS_MAX = 1024
PASSWORD_CHARACTERS_MAX = 4096
"""Longer ones are refused unread: hashing megabytes would be work that anybody could make us do."""
WAITING_MAX = 64
"""Logins that wait for each thread; further ones are told to come again. A hash takes a twentieth of a second."""


class Refused(Exception):
    """The name or the password is wrong, or the user may not log in here. The text is for the log alone."""


class Unavailable(Exception):
    """Nobody's password can be checked at the moment. The text is for the log alone."""


class Verifier(Protocol):
    """Knows users and passwords. Its calls block, and come from several threads at a time."""

    def verify(self, user: str, password: str) -> None:
        """Returns for the right password; it is not empty. Raises Refused or Unavailable."""
        ...

    def version(self) -> Hashable:
        """Another value than before when something is seen to have changed that the answers hang on.

        Raises Unavailable.
        """
        ...


class Authenticator(Protocol):
    """What the service asks about each login."""

    @property
    def required(self) -> bool:
        """False where Spark alone decides who may log in."""
        ...

    async def check(self, login: Login, peer: str = "") -> None:
        """Returns for a user who may log in. `peer` is the client's address, for the log.

        Raises LoginDenied, which does not say whether the user exists, or LoginUnchecked.
        """
        ...

    def vouches(self, login: Login) -> bool:
        """Whether Spark need not be asked about a login over HTTP that `check` has let through."""
        ...

    def accepted(self, login: Login) -> None:
        """Spark has been asked, and takes it."""
        ...

    async def refused(self, login: Login, peer: str, reason: str) -> None:
        """Spark has been asked, and does not take it. Returns when the client may hear of it."""
        ...


class Unchecked:
    """Lets everybody through: Spark decides. What it has accepted over HTTP is accepted by `memory` again."""

    required = False

    def __init__(self, memory: Memory | None = None, refusal_delay: float = 0.0) -> None:
        self._memory = memory if memory is not None else Memory(0.0)
        self._refusal_delay = refusal_delay

    async def check(self, login: Login, peer: str = "") -> None:
        return

    def vouches(self, login: Login) -> bool:
        return self._memory.knows(login, None)

    def accepted(self, login: Login) -> None:
        self._memory.keep(login, None)

    async def refused(self, login: Login, peer: str, reason: str) -> None:
        await _refuse(login, peer, reason, self._refusal_delay)


class Checked:
    """Asks a verifier. A refusal comes `refusal_delay` seconds after the login, so that guessing takes time.

    What it has let in over HTTP is let in by `memory` again: a client without cookies logs in with each request.
    """

    required = True

    def __init__(
        self, verifier: Verifier, refusal_delay: float, concurrent_checks: int, memory: Memory | None = None
    ) -> None:
        self._verifier = verifier
        self._memory = memory if memory is not None else Memory(0.0)
        self._refusal_delay = refusal_delay
        self._threads = ThreadPoolExecutor(concurrent_checks, thread_name_prefix="login")
        self._under_way = 0
        self._under_way_max = (1 + WAITING_MAX) * concurrent_checks

    async def check(self, login: Login, peer: str = "") -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            _check_form(login)
            await self._in_thread(login)
            return
        except Refused as refused:
            reason, error = str(refused), _denied(login.user)
        except Unavailable as unavailable:
            reason, error = str(unavailable), _unavailable(login.user)
        except Exception as fault:
            # Our own fault: what was not checked must not get in.
            log.exception("the check of a login failed in the gateway")
            reason, error = repr(fault), _unavailable(login.user)
        except asyncio.CancelledError:
            log.warning("login of %s from %s: the client left before it was checked", _shown(login.user), peer)
            raise
        await _refuse(login, peer, reason, self._seconds_left(loop.time() - began))
        raise error

    async def _in_thread(self, login: Login) -> None:
        if self._under_way >= self._under_way_max:
            raise Unavailable(f"{self._under_way} logins are being checked or wait for it")
        self._under_way += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._verify, login)
        finally:
            self._under_way -= 1

    def vouches(self, login: Login) -> bool:
        return True

    def accepted(self, login: Login) -> None:
        return

    async def refused(self, login: Login, peer: str, reason: str) -> None:
        await _refuse(login, peer, reason, self._refusal_delay)

    def _verify(self, login: Login) -> None:
        if login.mechanism != HTTP:
            self._verifier.verify(login.user, login.password)
            return
        # Asked first: a change that comes during the check may not be in it.
        version = self._verifier.version()
        if not self._memory.knows(login, version):
            self._verifier.verify(login.user, login.password)
            self._memory.keep(login, version)

    def _seconds_left(self, passed: float) -> float:
        """Until a whole number of delays has passed: how long a check took would tell how far it came."""
        return self._refusal_delay - passed % self._refusal_delay if self._refusal_delay else 0.0


async def _refuse(login: Login, peer: str, reason: str, delay: float) -> None:
    """Tells the log at once and the client later. Only he waits: nothing of ours is held meanwhile."""
    log.warning("login of %s from %s refused: %s", _shown(login.user), peer or "unknown", reason)
    await asyncio.sleep(delay)


def _check_form(login: Login) -> None:
    """Raises Refused for what no method accepts.

    A directory takes an empty password as a wish to be nobody, and says yes.
    """
    if not login.user.strip():
        raise Refused("it has no user name")
    if not login.password.strip():
        raise Refused("it has no password")
    if "\0" in login.user or "\0" in login.password:
        raise Refused("its name or password contains the character NUL")
    if len(login.user) > USER_CHARACTERS_MAX or len(login.password) > PASSWORD_CHARACTERS_MAX:
        raise Refused("its name or password is too long")


def _denied(user: str) -> FreshgateError:
    return LoginDenied(f"User {_shown(user)} cannot log in: the name or the password is wrong, or has no access here.")


def _unavailable(user: str) -> FreshgateError:
    return LoginUnchecked(
        f"The password of user {_shown(user)} cannot be checked at the moment; the gateway's log says why. Try again."
    )


def _shown(user: str) -> str:
    """The name on one line, and not for pages: clients choose it freely."""
    return repr(user if len(user) <= 100 else user[:100] + "...")
