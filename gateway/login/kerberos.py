"""Accepts tickets of Kerberos, through MIT's library. Every call may block.

Tests: `test_kerberos`.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gssapi
from gssapi.exceptions import GSSError

from gateway.config import Kerberos
from gateway.login import keytab
from gateway.login.keytab import BadKeytab, KeytabKey
from gateway.login.principals import LocalNames, NoName
from gateway.login.verifier import Identity, Unavailable, WrongTicket
from gateway.wire.frame import WireError
from gateway.wire.sasl import Exchange

log = logging.getLogger(__name__)

OLD_KEY_SECONDS = 24 * 3600.0
"""How long replaced keys are accepted: tickets that were issued for them live no longer, as a rule."""
_SYSTEM_ERRORS = range(1, 200)
_REPLAY_CACHE_ERRORS = range(-1765328220, -1765328212)
"""KRB5_RC_IO and its like: the tickets that were used before cannot be read or noted."""


class Sealing:
    """A context of gssapi as `wire.sasl.SecurityContext`. Its library must not be called for one context by two threads
    at the same time."""

    def __init__(self, context: gssapi.SecurityContext) -> None:
        self._context = context
        self._lock = threading.Lock()

    def wrap(self, data: bytes, *, confidential: bool) -> bytes:
        with self._lock:
            return bytes(self._context.wrap(data, confidential).message)

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        try:
            with self._lock:
                found = self._context.unwrap(data)
        except GSSError as error:
            raise WireError(f"a frame's protection is wrong: {reason_of(error)}") from None
        return bytes(found.message), bool(found.encrypted)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Keys:
    """The keytab at a time."""

    stamp: tuple[int, int, int]
    entries: list[KeytabKey]
    older: list[tuple[float, KeytabKey]]
    """Keys that were replaced, and until when they are accepted, by time.monotonic()."""
    credentials: gssapi.Credentials


class Tickets:
    """Accepts tickets for the services in a keytab, which is read again after a change."""

    def __init__(self, settings: Kerberos, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises BadRules."""
        self._path = Path(settings.keytab)
        self._wanted = settings.principals
        self._clock = clock
        self._realm = default_realm()
        self._names = LocalNames.parse(settings.auth_to_local, self._realm)
        self._lock = threading.Lock()
        self._keys: _Keys | None = None

    def start(self) -> None:
        """Reads the keytab. Raises Unavailable."""
        keys = self._current()
        found = list(keytab.principals(keys.entries))
        missing = [each for each in map(self._full, self._wanted) if each not in found]
        if missing:
            raise Unavailable(f"the keytab {self._path} has no key of {', '.join(missing)}")
        if self._path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
            log.warning("keytab %s: every account can read or write it; set its mode to 0600", self._path)
        log.info(
            "tickets of Kerberos are accepted for %s", ", ".join(map(self._full, self._wanted)) or ", ".join(found)
        )

    def accept(self, exchange: Exchange) -> Identity:
        """Whom a client's token names; sets the other fields of `exchange`. Raises WrongLogin, Unavailable."""
        keys = self._current()
        context = gssapi.SecurityContext(creds=keys.credentials, usage="accept")
        try:
            answer = context.step(exchange.token) or b""
            complete = context.complete  # The package raises an error of the step only with the next call.
        except GSSError as error:
            raise _refusal(error) from None
        if not complete:
            # Only Kerberos' first token can be accepted at once. Within SPNEGO, the library does not say what is wrong.
            raise WrongTicket(
                "the ticket was not accepted: it has been used before, is of another service, or the client offers "
                "another mechanism than Kerberos"
            )
        service = str(context.target_name)
        if self._wanted and service not in map(self._full, self._wanted):
            raise WrongTicket(f"the ticket is for {service}, which kerberos.principals does not name")
        principal = str(context.initiator_name)
        try:
            user = self._names.name_of(principal)
        except NoName as error:
            raise WrongTicket(str(error)) from None
        exchange.answer, exchange.context = bytes(answer), Sealing(context)
        exchange.names = frozenset((principal, user))
        return Identity(user, frozenset(), time.time() + context.lifetime)

    def _full(self, principal: str) -> str:
        return principal if "@" in principal else f"{principal}@{self._realm}"

    def _current(self) -> _Keys:
        with self._lock:
            try:
                state = self._path.stat()
                stamp = (state.st_ino, state.st_mtime_ns, state.st_size)
                keys = self._keys
                if keys is None or stamp != keys.stamp or self._has_ended(keys):
                    self._keys = self._read(stamp, keys)
                    if keys is not None:
                        log.info("keytab %s: read again", self._path)
                assert self._keys is not None
                return self._keys
            except (OSError, BadKeytab, GSSError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                text = f"the keytab {self._path} cannot be read: {reason}"
                if self._keys is None:
                    raise Unavailable(text) from error
                # Half written, or being replaced: the keys that were read before are still right.
                log.error("%s", text)
                return self._keys

    def _has_ended(self, keys: _Keys) -> bool:
        return any(until <= self._clock() for until, _ in keys.older)

    def _read(self, stamp: tuple[int, int, int], before: _Keys | None) -> _Keys:
        entries = keytab.read(self._path.read_bytes())
        if not entries:
            raise BadKeytab("it has no key")
        now = self._clock()
        until = {} if before is None else {each.raw: now + OLD_KEY_SECONDS for each in before.entries}
        until |= {} if before is None else {each.raw: end for end, each in before.older}
        replaced = [] if before is None else [*before.entries, *(each for _, each in before.older)]
        every = [
            each for each in keytab.with_older(entries, replaced) if each.raw not in until or until[each.raw] > now
        ]
        kept = set(map(id, entries))
        older = [(until[each.raw], each) for each in every if id(each) not in kept]
        # In a file that has no name: nothing of it reaches a disk.
        file = os.memfd_create("keytab", os.MFD_CLOEXEC)
        try:
            os.write(file, keytab.written([*entries, *(each for _, each in older)]))
            credentials = gssapi.Credentials(usage="accept", store={"keytab": f"FILE:/proc/self/fd/{file}"})
        except BaseException:  # Also for an interrupt: the keys must not stay in an open file.
            os.close(file)
            raise
        keys = _Keys(stamp, entries, older, credentials)
        weakref.finalize(keys, os.close, file)
        return keys


def default_realm() -> str:
    """That of this machine; empty if its configuration names none."""
    try:
        name = gssapi.Name("x", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
    except GSSError:
        return ""
    return str(name).rpartition("@")[2]


def reason_of(error: GSSError) -> str:
    """What the library says, in one line."""
    minor = error.min_code
    texts = error.get_all_statuses(minor, False) if minor else error.get_all_statuses(error.maj_code, True)
    return "; ".join(texts)


def _refusal(error: GSSError) -> Exception:
    code = error.min_code if error.min_code < 1 << 31 else error.min_code - (1 << 32)
    if code in _SYSTEM_ERRORS or code in _REPLAY_CACHE_ERRORS:
        return Unavailable(f"tickets cannot be checked: {reason_of(error)} (see KRB5RCACHEDIR)")
    return WrongTicket(reason_of(error))
