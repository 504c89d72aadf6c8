"""Who has logged in to the page, by cookie. Kept in memory only.

Tests: `test_visitors`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from gateway.access_list import Principal
from gateway.wire.sasl import Login

IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 12 * 3600.0
VISITORS_MAX = 1_000
"""Those who were seen last stay."""
COOKIE_BYTES = 32
ANYBODY = Principal("")


@dataclass(slots=True)
class Visitor:
    """One browser. Times are seconds of `time.monotonic`."""

    login: Login
    until: float
    """When the login ends."""
    seen: float
    standing: Hashable = None
    """What was true of the user at the login, and must stay so; None: nothing."""
    who: Principal = ANYBODY
    """The user, with the groups that counted at the last request."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(COOKIE_BYTES))
    """What the forms of this visitor contain: other sites do not know it."""
    said: str = ""
    """What the next page tells once: the outcome of a button."""

    def sent(self, token: str) -> bool:
        """Whether a form has come from a page that was made for this visitor."""
        return hmac.compare_digest(self.token.encode(), token.encode("utf-8", "replace"))


class Visitors:
    """Remembers digests of the cookies, so that a copy of the memory opens nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[bytes, Visitor] = {}

    def enter(self, login: Login, standing: Hashable = None) -> str:
        """Begins a visit; returns its cookie, which nobody can guess."""
        now, cookie = self._clock(), secrets.token_urlsafe(COOKIE_BYTES)
        self._known[_digest(cookie)] = Visitor(
            replace(login, password=""), min(login.until, now + LONGEST_SECONDS), now, standing
        )
        while len(self._known) > VISITORS_MAX:
            del self._known[next(iter(self._known))]
        return cookie

    def find(self, cookie: str) -> Visitor | None:
        """The visitor with this cookie; None if there is none, or the visit is over."""
        key, now = _digest(cookie), self._clock()
        visitor = self._known.pop(key, None)
        if visitor is None or now >= min(visitor.until, visitor.seen + IDLE_SECONDS):
            return None
        visitor.seen = now
        self._known[key] = visitor
        return visitor

    def leave(self, cookie: str) -> None:
        self._known.pop(_digest(cookie), None)


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()
