"""The keys with which an identity provider signs tokens: a JSON Web Key Set (RFC 7517) in a file or at an address.

Tests: `test_tokens`.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError

from joserfc.errors import JoseError
from joserfc.jwk import Key, OctKey, import_key

from gateway.login.exposure import host_of, is_local, is_trusted
from gateway.login.verifier import Unavailable, WrongLogin
from gateway.no_redirects import NoRedirects

log = logging.getLogger(__name__)

DISCOVERY = "/.well-known/openid-configuration"
"""Below the issuer's address: a document that names that of the keys (OpenID Connect Discovery 1.0, section 4)."""
ANSWER_SECONDS = 10.0
READ_SECONDS = 300.0
"""How old keys may be that are used without asking for new ones: so long is a key accepted that was withdrawn."""
UNKNOWN_SECONDS = 30.0
"""The shortest time between two readings, whatever keys tokens name: anybody can name some."""
KEPT_SECONDS = 24 * 3600.0
"""How long the last keys are used if new ones cannot be read."""
BYTES_MAX = 1 << 20
MALFORMED = (ValueError, KeyError, TypeError, RecursionError, JoseError)

Keys = dict[str | None, Key]
"""By their ids; the only key of a set is also there as None."""


class SigningKeys:
    """Keys by their ids. An address is read in a thread of its own, and no login but the one that needs it waits."""

    def __init__(self, place: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`place`: a file, the address of a key set, or that of an issuer with a slash-less end of `DISCOVERY`."""
        self._place = place
        self._clock = clock
        self._keys: Keys = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._stamp: tuple[int, int] | None = None
        self._problem = ""
        self._reading: Future[None] | None = None
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="signing keys")
        self._opener = urllib.request.build_opener(
            NoRedirects, urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )

    @property
    def at_address(self) -> bool:
        return "://" in self._place

    def start(self) -> None:
        """Reads the keys. Raises Unavailable for a file without keys; an address is read in the background."""
        if self.at_address:
            self._begin()
        else:
            self._read_file()

    def named(self, key_id: str | None) -> Key:
        """The key with this id; None: the only one. Raises WrongLogin if there is none, Unavailable if that is not
        known."""
        if not self.at_address:
            self._read_file()
        elif self._age(self._read_at) > READ_SECONDS:
            self._begin()
        found = self._keys.get(key_id)
        if found is None and self.at_address:
            found = self._after_reading(key_id)
        if found is None:
            raise WrongLogin(f"no key of {self._place} has the id {key_id!r}" if key_id else "the token names no key")
        if self.at_address and self._age(self._read_at) > KEPT_SECONDS:
            raise Unavailable(f"the keys are too old: {self._problem}")
        return found

    def _after_reading(self, key_id: str | None) -> Key | None:
        """The key if a reading that this call begins finds it."""
        reading = self._begin()
        if reading is not None:
            reading.result(2 * ANSWER_SECONDS)
        elif self._reading is not None:
            raise Unavailable(f"the keys are being read from {self._place}")
        if self._read_at is None:
            raise Unavailable(self._problem or f"the keys have not been read from {self._place} yet")
        return self._keys.get(key_id)

    def _age(self, at: float | None) -> float:
        return float("inf") if at is None else self._clock() - at

    def _begin(self) -> Future[None] | None:
        """Begins to read the address, unless that was tried a moment ago."""
        with self._lock:
            if self._reading is not None or self._age(self._tried_at) < UNKNOWN_SECONDS:
                return None
            self._tried_at = self._clock()
            self._reading = self._thread.submit(self._read_address)
            return self._reading

    def _read_address(self) -> None:
        try:
            place = self._place
            if place.endswith(DISCOVERY):
                place = self._published_place(self._fetch(place))
            self._keep(self._fetch(place))
        except (OSError, URLError, HTTPException, *MALFORMED) as error:
            self._fail(f"cannot read the keys from {self._place}: {error}")
        finally:
            with self._lock:
                self._reading = None

    def _published_place(self, document: Any) -> str:
        """Raises ValueError."""
        found = str(document["jwks_uri"])
        if not is_trusted(found) or (is_local(host_of(found)) and not is_local(host_of(self._place))):
            raise ValueError(f"it names {found}, which is not an https:// address")
        return found

    def _fetch(self, place: str) -> Any:
        with self._opener.open(place, timeout=ANSWER_SECONDS) as answer:
            content = answer.read(BYTES_MAX + 1)
        if len(content) > BYTES_MAX:
            raise ValueError(f"{place} has more than {BYTES_MAX} bytes")
        return json.loads(content)

    def _read_file(self) -> None:
        """Reads the file again if it has changed. Raises Unavailable if it has never been readable."""
        path = Path(self._place)
        try:
            stat = path.stat()
            if (stamp := (stat.st_mtime_ns, stat.st_size)) == self._stamp:
                return
            self._keep(json.loads(path.read_bytes()))
            self._stamp = stamp
        except (OSError, *MALFORMED) as error:
            self._fail(f"cannot read the keys from {path}: {getattr(error, 'strerror', None) or error}")
            if self._read_at is None:
                raise Unavailable(self._problem) from error

    def _keep(self, key_set: Any) -> None:
        """Raises ValueError, KeyError, TypeError or JoseError if there is no usable key."""
        keys = dict(_usable(key_set["keys"], secrets=not self.at_address))
        if not keys:
            raise ValueError("it has no key that signs")
        if len(keys) == 1:
            keys[None] = next(iter(keys.values()))
        self._keys, self._read_at = keys, self._clock()
        if self._problem:
            log.info("the keys that sign tokens are read again from %s", self._place)
        self._problem = ""

    def _fail(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("%s; %s", problem, "the last ones are used" if self._keys else "no token is accepted")
        self._problem = problem


def _usable(keys: list[Any], *, secrets: bool) -> Iterator[tuple[str | None, Key]]:
    """The keys that verify signatures. A kind of key that is not known is none (RFC 7517, section 5); nor is a secret
    that everybody can read."""
    for each in keys:
        try:
            key = import_key(each)
        except (JoseError, ValueError) as error:
            log.info("a key is left out: %s", error)
            continue
        if each.get("use", "sig") == "sig" and (secrets or not isinstance(key, OctKey)):
            key.ensure_kid()
            yield key.kid, key
