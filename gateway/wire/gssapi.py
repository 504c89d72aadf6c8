"""The end of a SASL handshake with GSSAPI (RFC 4752): both sides agree how frames are protected. No I/O.

Tests: `test_kerberos`, `test_service_tickets`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from gateway.wire.frame import WireError
from gateway.wire.sasl import (
    BAD,
    COMPLETE,
    ERROR,
    GSSAPI,
    OK,
    START,
    TOKEN_BYTES_MAX,
    Exchange,
    LoginRefused,
    NegotiationReader,
    SecurityContext,
    negotiation,
    refusal,
)

FRAME_BYTES_MAX = 64 * 1024
"""Of data in one protected frame that the gateway sends, so that protecting it takes a third of a millisecond; and what
it says that it reads, as Java's servers do. What it reads is in fact limited as all requests are."""
_READ_BYTES_MAX = 0xFFFFFF
"""What the gateway says to Spark that it reads: the most that three bytes say. Spark writes a page as one frame."""
_CHOICE_BYTES = 4
_NEGOTIATION_BYTES_MAX = 16 * 1024


class Layer(IntEnum):
    """How frames are protected."""

    AUTH = 1
    """Not at all."""
    AUTH_INT = 2
    """Nobody can change them."""
    AUTH_CONF = 4
    """Nobody can read them."""


LAYERS = {"auth": Layer.AUTH, "auth-int": Layer.AUTH_INT, "auth-conf": Layer.AUTH_CONF}
"""By the names of hive.server2.thrift.sasl.qop."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What both sides have agreed upon."""

    context: SecurityContext
    confidential: bool
    frame_bytes_max: int
    """Of data in one frame that the other side reads."""

    def seal(self, data: bytes) -> bytes:
        """The content of one frame."""
        return self.context.wrap(data, confidential=self.confidential)

    def unseal(self, data: bytes) -> bytes:
        """Raises WireError if the content of a frame was changed, or is not protected as agreed."""
        plain, confidential = self.context.unwrap(data)
        if self.confidential and not confidential:
            raise WireError("a frame is not encrypted, as both sides had agreed")
        return plain


class LayerServer:
    """The server's role after it has accepted a client's ticket. Send `start`, then what `receive` returns."""

    def __init__(self, exchange: Exchange, layers: Collection[Layer]) -> None:
        assert exchange.context is not None
        self._context = exchange.context
        self._answer = exchange.answer
        self._names = exchange.names
        self._layers = layers
        self._reader = NegotiationReader(_NEGOTIATION_BYTES_MAX)
        self._offered = False
        self.done = False
        self.seal: Seal | None = None
        """None for frames that are not protected."""

    @property
    def rest(self) -> bytes:
        """What the client sent after the handshake."""
        return self._reader.rest

    def start(self) -> bytes:
        """The server's token. A client that has not asked for one gets the offer at once."""
        return negotiation(OK, self._answer) if self._answer else self._offer()

    def _offer(self) -> bytes:
        self._offered = True
        size = 0 if set(self._layers) == {Layer.AUTH} else FRAME_BYTES_MAX
        offer = bytes((sum(set(self._layers)),)) + size.to_bytes(3, "big")
        return negotiation(OK, self._context.wrap(offer, confidential=False))

    def receive(self, data: bytes) -> bytes:
        """Raises WireError; its `answer` is the BAD reply."""
        self._reader.feed(data)
        try:
            if self.done or (message := self._reader.next()) is None:
                return b""
            return self._read(*message)
        except WireError as error:
            raise WireError(str(error), refusal(str(error))) from None

    def _read(self, status: int, payload: bytes) -> bytes:
        if status not in (OK, COMPLETE):
            raise WireError("the client aborted the SASL handshake")
        if not self._offered:
            if payload:
                raise WireError("the client sent a second token, but its first one was enough")
            return self._offer()
        self._choose(self._context.unwrap(payload)[0])
        self.done = True
        return negotiation(COMPLETE)

    def _choose(self, choice: bytes) -> None:
        if len(choice) < _CHOICE_BYTES:
            raise WireError("the client's choice of a protection is incomplete")
        layer, size, name = choice[0], int.from_bytes(choice[1:_CHOICE_BYTES], "big"), choice[_CHOICE_BYTES:]
        if layer not in {int(each) for each in self._layers}:
            offered = ", ".join(name for name, each in LAYERS.items() if each in self._layers)
            raise WireError(f"This server offers the protection {offered}: connect with saslQop={offered}.")
        if name and name.decode("utf-8", "replace") not in self._names:
            raise WireError(f"{min(self._names)} cannot log in as another user, {name.decode('utf-8', 'replace')}.")
        if layer != Layer.AUTH:
            if not size:
                raise WireError("the client asks for protected frames, and says that it reads none")
            self.seal = Seal(self._context, layer == Layer.AUTH_CONF, min(size, FRAME_BYTES_MAX))


class ClientContext(SecurityContext, Protocol):
    """The client's end of a context, which has made its first token."""

    token: bytes
    """That token."""

    def accept(self, answer: bytes) -> None:
        """Knows the server by its token. Raises WireError if that is wrong."""
        ...


class GssapiClient:
    """The client's role: send `start`, then `more` after each `receive`."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._reader = NegotiationReader(TOKEN_BYTES_MAX)
        self._known = self._chosen = False
        self.more = b""
        """What to send now."""
        self.seal: Seal | None = None
        """Set once `receive` has returned True; None for frames that are not protected."""

    @property
    def rest(self) -> bytes:
        """What the server sent after the handshake."""
        return self._reader.rest

    def start(self) -> bytes:
        return negotiation(START, GSSAPI.encode()) + negotiation(OK, self._context.token)

    def receive(self, data: bytes) -> bool:
        """Returns True once the login is accepted. Raises `LoginRefused` with the server's text, or `WireError`."""
        self._reader.feed(data)
        self.more = b""
        message = self._reader.next()
        if message is None:
            return False
        status, payload = message
        if status in (BAD, ERROR):
            raise LoginRefused(payload.decode("utf-8", "replace") or "The server refused the ticket.")
        if status == COMPLETE and self._chosen:
            return True
        if status != OK or self._chosen:
            raise WireError("the server ends or continues the handshake where it must not")
        self.more = self._reply(payload)
        return False

    def _reply(self, payload: bytes) -> bytes:
        if not self._known:
            self._known = True
            self._context.accept(payload)
            return negotiation(OK)
        self._chosen = True
        offer, _ = self._context.unwrap(payload)
        if len(offer) != _CHOICE_BYTES:
            raise WireError("the server's offer of protections is incomplete")
        offered = [layer for layer in Layer if offer[0] & layer]
        if not offered:
            raise WireError("the server offers no protection that is known")
        layer, size = offered[0], int.from_bytes(offer[1:], "big")
        if layer != Layer.AUTH:
            self.seal = Seal(self._context, layer == Layer.AUTH_CONF, min(size, FRAME_BYTES_MAX) or FRAME_BYTES_MAX)
        own = 0 if layer == Layer.AUTH else _READ_BYTES_MAX
        return negotiation(COMPLETE, self._context.wrap(bytes((layer,)) + own.to_bytes(3, "big"), confidential=False))
