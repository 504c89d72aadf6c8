"""Cookies that stand for a login over HTTP, so that its password is checked and sent once, not with each call.

HiveServer2's drivers keep the cookie of this name, send it instead of user and password, and log in anew when it is
refused. Here a cookie is a random key to a login that this gateway remembers: nothing can be made of it elsewhere.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from gateway.wire.memory import Memory
from gateway.wire.sasl import Login

NAME = "hive.server2.auth"
COOKIES_MAX = 20_000
"""Beyond it the oldest go; their clients log in once more."""
CHARACTERS_MAX = 8 * 1024 * 1024
"""Of all names and passwords together: clients choose how long theirs are. The oldest go, too."""

ACCEPTED_SECONDS = 3600.0
"""How much longer than its cookie a right login is known by its Authorization header (`was_accepted`). It decides only
how long a request may be before its login is checked: a client sends the header again when its cookie was refused, with
the request that the cookie came with."""


class Cookies:
    """The cookies that were given out and are not older than `seconds`, and the logins that were right."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._logins: OrderedDict[str, tuple[float, Login]] = OrderedDict()
        self._characters = 0
        self._accepted = Memory(seconds + ACCEPTED_SECONDS, clock)

    def accept(self, authorization: str) -> None:
        """A login by this header was right."""
        self._accepted.keep(_by(authorization), None)

    def was_accepted(self, authorization: str) -> bool:
        """Not long ago. The password may have been changed since: this does not replace its check."""
        return self._accepted.knows(_by(authorization), None)

    def issue(self, login: Login) -> str:
        """A new cookie for a login that was accepted; "" where none are given out."""
        if not self.seconds:
            return ""
        now = self._clock()
        while self._logins:
            oldest, (until, old) = next(iter(self._logins.items()))
            is_full = len(self._logins) >= COOKIES_MAX or self._characters + _length(login) > CHARACTERS_MAX
            if until > now and not is_full:
                break
            del self._logins[oldest]
            self._characters -= _length(old)
        value = secrets.token_urlsafe(32)
        self._logins[value] = (now + self.seconds, login)
        self._characters += _length(login)
        return value

    def find(self, value: str) -> Login | None:
        """The login that a cookie stands for; None where it is unknown or too old."""
        until, login = self._logins.get(value, (0.0, None))
        return login if until > self._clock() else None


def _by(authorization: str) -> Login:
    return Login(authorization, "", "")


def _length(login: Login) -> int:
    return len(login.user) + len(login.password)
