"""Remembers recently accepted passwords, so that a client that sends its password with each request is not checked each
time."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from gateway.wire.sasl import Login

LOGINS_MAX = 20_000
"""Above this, the oldest are dropped, and checked once more."""


class Memory:
    """Remembers each login for `seconds` from its check, by a hash under a key that never leaves this process.

    Thread-safe.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._logins: OrderedDict[bytes, tuple[float, Hashable, frozenset[str]]] = OrderedDict()
        self._lock = threading.Lock()

    def knows(self, login: Login, version: Hashable) -> bool:
        """Whether the login was kept with the same version and has not expired."""
        return self.groups_of(login, version) is not None

    def groups_of(self, login: Login, version: Hashable) -> frozenset[str] | None:
        """The groups with which the login was kept; None if it is not known."""
        mark = self._mark(login)
        with self._lock:
            until, kept, groups = self._logins.get(mark, (0.0, None, frozenset()))
        return groups if until > self._clock() and kept == version else None

    def keep(self, login: Login, version: Hashable, groups: frozenset[str] = frozenset()) -> None:
        """Records that the password is right. `version` identifies the data that it was checked against."""
        if not self._seconds:
            return
        now, mark = self._clock(), self._mark(login)
        with self._lock:
            self._logins.pop(mark, None)
            while self._logins:
                oldest, (until, *_) = next(iter(self._logins.items()))
                if until > now and len(self._logins) < LOGINS_MAX:
                    break
                del self._logins[oldest]
            self._logins[mark] = (now + self._seconds, version, groups)

    def _mark(self, login: Login) -> bytes:
        parts = login.user.encode(), login.password.encode()
        # The length of the first part keeps ("a", "bc") apart from ("ab", "c").
        return hashlib.blake2b(b"%d:%b%b" % (len(parts[0]), *parts), key=self._key, digest_size=32).digest()
