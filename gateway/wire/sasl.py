"""Thrift's SASL handshake: both roles for the mechanism PLAIN (RFC 4616), the server's for GSSAPI (`gssapi`).

A handshake message is a status byte, a 4-byte length, and the payload. The client sends the mechanism with START, and
the credentials, or its first token, with OK (pure-sasl) or COMPLETE (Java). The server ends with COMPLETE, or with BAD
and a text.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from gateway.wire.frame import OTHER_BEGINNINGS, WireError, check_protocol

START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5
HEADER_BYTES = 5
MECHANISM_BYTES_MAX = 20
"""RFC 4422, section 3.1."""


PLAIN = "PLAIN"
GSSAPI = "GSSAPI"
TOKEN_BYTES_MAX = 64 * 1024
"""Longest token of Kerberos. Active Directory writes a user's groups into tickets, which makes them 48 KiB at most."""


@dataclass(frozen=True, slots=True)
class Login:
    """The identity that a client claims. `mechanism`: "PLAIN", "GSSAPI" (then `exchange` has the client's ticket), or
    "NOSASL" (then OpenSession has the credentials), or over HTTP one of `http_connection`'s. `until`: when it ends, by
    time.monotonic()."""

    user: str
    password: str = field(repr=False)
    mechanism: str
    until: float = math.inf
    groups: frozenset[str] = frozenset()
    """The user's groups, as far as what checked the login has named them."""
    exchange: Exchange | None = field(default=None, repr=False, compare=False)


class SecurityContext(Protocol):
    """What a client and a server have in common after a ticket was accepted (RFC 2743)."""

    def wrap(self, data: bytes, *, confidential: bool) -> bytes:
        """Protects data for the other end, which only that can read if `confidential`."""
        ...

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        """Returns the other end's data, and whether only this end could read it. Raises WireError if it was
        changed."""
        ...


@dataclass(slots=True)
class Exchange:
    """A client's token, and what comes of it: `login.kerberos` sets the other fields."""

    token: bytes
    answer: bytes = b""
    """The server's token, by which the client knows the server; empty if it has not asked for one."""
    context: SecurityContext | None = None
    names: frozenset[str] = frozenset()
    """What the client may call itself: its principal, and its user name."""


class LoginRefused(Exception):
    """The server refused the login; the text is the server's."""


def negotiation(status: int, payload: bytes = b"") -> bytes:
    return bytes((status,)) + len(payload).to_bytes(4, "big") + payload


def refusal(message: str) -> bytes:
    return negotiation(BAD, message.encode("utf-8", "replace"))


class NegotiationReader:
    """Reads handshake messages from chunks. `rest` holds the bytes that have not been consumed."""

    __slots__ = ("_bytes_max", "rest")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.rest = b""

    def feed(self, data: bytes) -> None:
        self.rest += data

    def next(self) -> tuple[int, bytes] | None:
        """Returns status and payload of the next message; None if it is incomplete. Raises `WireError`."""
        if self.rest and not START <= self.rest[0] <= COMPLETE:
            if len(self.rest) < HEADER_BYTES and self.rest[:1] in OTHER_BEGINNINGS:
                return None
            check_protocol(self.rest)
            raise WireError(f"status {self.rest[0]} is not a SASL handshake status")
        if len(self.rest) < HEADER_BYTES:
            return None
        length = int.from_bytes(self.rest[1:HEADER_BYTES], "big")
        if length > self._bytes_max:
            raise WireError(f"a handshake message of {length} bytes exceeds the limit of {self._bytes_max} bytes")
        end = HEADER_BYTES + length
        if len(self.rest) < end:
            return None
        status, payload = self.rest[0], self.rest[HEADER_BYTES:end]
        self.rest = self.rest[end:]
        return status, payload


class SaslServer:
    """The server's role until there is a login: reads START and the credentials, or the first token. `WireError.answer`
    holds the BAD reply for the client."""

    __slots__ = ("_mechanisms", "_reader", "_started")

    def __init__(self, bytes_max: int, mechanisms: Collection[str] = (PLAIN,)) -> None:
        """`mechanisms`: PLAIN, GSSAPI or both."""
        self._reader = NegotiationReader(max(bytes_max, TOKEN_BYTES_MAX) if GSSAPI in mechanisms else bytes_max)
        self._mechanisms = mechanisms
        self._started = ""

    @property
    def rest(self) -> bytes:
        """What the client sent after the handshake."""
        return self._reader.rest

    def receive(self, data: bytes) -> Login | None:
        """Returns the login once it is complete."""
        self._reader.feed(data)
        try:
            while (message := self._reader.next()) is not None:
                if self._started:
                    return _plain_login(*message) if self._started == PLAIN else _ticket_login(*message)
                self._start(*message)
        except WireError as error:
            raise WireError(str(error), refusal(str(error))) from None
        return None

    def _start(self, status: int, payload: bytes) -> None:
        if status != START:
            raise WireError("the SASL handshake must begin with START")
        mechanism = payload[:MECHANISM_BYTES_MAX].decode("ascii", "replace")
        if mechanism not in self._mechanisms or len(payload) > MECHANISM_BYTES_MAX:
            ways = " or ".join(_WAYS[each] for each in (PLAIN, GSSAPI) if each in self._mechanisms)
            raise WireError(f"Unsupported mechanism type {mechanism}: connect with {ways}.")
        self._started = mechanism


_WAYS = {PLAIN: "PLAIN, with user name and password", GSSAPI: "GSSAPI, with a ticket of Kerberos (principal=...)"}


def _ticket_login(status: int, payload: bytes) -> Login:
    if status not in (OK, COMPLETE):
        raise WireError("the client aborted the SASL handshake")
    return Login("", "", GSSAPI, exchange=Exchange(payload))


def _plain_login(status: int, payload: bytes) -> Login:
    if status not in (OK, COMPLETE):
        raise WireError("the client aborted the SASL handshake")
    parts = payload.split(b"\0")
    if len(parts) != 3:
        raise WireError("a PLAIN login has three parts: authorization identity, user, password")
    try:
        identity, user, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise WireError("user name and password must be UTF-8") from None
    if not user:
        raise WireError("No user name was provided.")
    if identity not in ("", user):
        raise WireError(f"User {user} cannot log in as another user, {identity}.")
    return Login(user, password, PLAIN)


class PlainClient:
    """The client's role: `start` is all that the client sends; then the server's answer is read."""

    __slots__ = ("_login", "_reader")
    more = b""
    seal = None

    def __init__(self, login: Login, bytes_max: int) -> None:
        if "\0" in login.user or "\0" in login.password:
            # NUL separates the parts: one inside a name or password would log in as another user.
            raise LoginRefused("User name and password must not contain the character NUL.")
        self._login = login
        self._reader = NegotiationReader(bytes_max)

    def start(self) -> bytes:
        credentials = f"\0{self._login.user}\0{self._login.password}".encode("utf-8", "replace")
        return negotiation(START, b"PLAIN") + negotiation(COMPLETE, credentials)

    @property
    def rest(self) -> bytes:
        """What the server sent after the handshake."""
        return self._reader.rest

    def receive(self, data: bytes) -> bool:
        """Returns True once the login is accepted. Raises `LoginRefused` with the server's text, or `WireError`."""
        self._reader.feed(data)
        message = self._reader.next()
        if message is None:
            return False
        status, payload = message
        if status in (BAD, ERROR):
            raise LoginRefused(
                payload.decode("utf-8", "replace") or "The server refused the login without giving a reason."
            )
        if status != COMPLETE:
            raise WireError("the server continues the handshake after the PLAIN credentials")
        return True
