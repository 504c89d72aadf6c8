"""Cookies that replace a login over HTTP, so that a password is checked and sent once instead of with each call.

HiveServer2's drivers keep the cookie of this name, send it instead of user name and password, and log in again when it
is refused. The cookie is a random key to a login that this gateway remembers; it is of no use anywhere else.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from gateway.wire.memory import Memory
from gateway.wire.sasl import Login

NAME = "hive.server2.auth"
COOKIE_SECONDS = 3600.0
"""How long a cookie replaces user name and password: so much longer is a removed user served."""
COOKIES_MAX = 20_000
"""Above this, the oldest are dropped; their clients log in once more."""
CHARACTERS_MAX = 8 * 1024 * 1024
"""Of all user names and passwords together, because clients choose their lengths. Above this, the oldest are dropped
too."""

ACCEPTED_SECONDS = 3600.0
"""How much longer than its cookie an accepted Authorization header is remembered (`was_accepted`). It decides only how
long a request may be before its login is checked: after its cookie was refused, a client sends the header together with
the same request."""


class Cookies:
    """The issued cookies that have not expired after `seconds`, or with their logins, and the accepted Authorization
    headers."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._logins: OrderedDict[str, tuple[float, Login]] = OrderedDict()
        self._characters = 0
        self._accepted = Memory(seconds + ACCEPTED_SECONDS, clock)

    def accept(self, authorization: str) -> None:
        """Records that the login in this header was accepted."""
        self._accepted.keep(_as_login(authorization), None)

    def was_accepted(self, authorization: str) -> bool:
        """Whether this header was accepted recently. The password may have changed since, so this does not replace its
        check."""
        return self._accepted.knows(_as_login(authorization), None)

    def issue(self, login: Login) -> str:
        """Returns a new cookie for an accepted login; "" if cookies are off."""
        if not self.seconds:
            return ""
        now = self._clock()
        if self.seconds_of(login) <= 0:
            return ""
        while self._logins:
            oldest, (until, old) = next(iter(self._logins.items()))
            is_full = len(self._logins) >= COOKIES_MAX or self._characters + _length(login) > CHARACTERS_MAX
            if until > now and not is_full:
                break
            del self._logins[oldest]
            self._characters -= _length(old)
        value = secrets.token_urlsafe(32)
        self._logins[value] = (now + self.seconds_of(login), login)
        self._characters += _length(login)
        return value

    def now(self) -> float:
        """The time by the clock of cookies."""
        return self._clock()

    def seconds_of(self, login: Login) -> float:
        """How long a cookie for this login counts from now on."""
        return min(self.seconds, login.until - self._clock())

    def find(self, value: str) -> Login | None:
        """Returns the login of a cookie; None if the cookie is unknown or has expired."""
        until, login = self._logins.get(value, (0.0, None))
        return login if until > self._clock() else None


def _as_login(authorization: str) -> Login:
    return Login(authorization, "", "")


def _length(login: Login) -> int:
    return len(login.user) + len(login.password)
