"""What two gateways say to each other before one passes a client's bytes to the other, without I/O.

The leader greets with a nonce. The door answers with a nonce of its own and the preface: whose bytes follow, and which
leader it means. The leader accepts or refuses. Both authenticate what they say with a shared secret and both nonces, so
nothing that was recorded can be said again, and neither passes passwords to a stranger.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum

from gateway.wire.frame import WireError
from gateway.wire.member import MEMBER_BYTES_MAX, Member

GREETING = b"freshgate-relay-1\n"
PREFACE_BYTES_MAX = 4096
_NONCE_BYTES = _PROOF_BYTES = 32
_HEAD_BYTES = 2 + _NONCE_BYTES + _PROOF_BYTES
_WELCOME_BYTES = 1 + _PROOF_BYTES
_FRAME_HEAD_BYTES = 2 + _PROOF_BYTES
NOTE = b"="
"""Begins a note of the leader's: its length in four bytes, its proof, and then itself. What else the leader says to a
door that watches it is a single byte."""
NOTE_BYTES_MAX = 128 * 1024
_NOTE_HEAD_BYTES = len(NOTE) + 4 + _PROOF_BYTES


class Role(Enum):
    CLIENT = "client"
    """A client's bytes follow."""
    PAGE = "page"
    """The bytes of a browser for the page follow; both ends pass them on as they are."""
    CONTROL = "control"
    """The door watches whether the leader lives, and says at intervals what it is (`wire.member`): the leader sends
    back a byte for each time."""


class Welcome(IntEnum):
    """What the leader answers."""

    ACCEPTED = 1
    WAIT = 2
    """It takes no new clients at the moment, because it is starting or being stopped."""
    NOT_LEADING = 3
    """This gateway is not the leader that the door means."""
    UNSERVED = 4
    """It leads, but does not serve this transport."""
    UNTRUSTED = 5
    """The door has another secret. Only this answer is not authenticated."""
    ENDED = 6
    """It has served this client itself: what the client had here ended with its connection."""


@dataclass(frozen=True, slots=True)
class Preface:
    """What a door says.

    `leader` is the leader's mark and the address to which the door has connected. So the leader refuses a door that was
    sent to another address, by an epoch that was changed, and what listens there learns no passwords.
    """

    role: Role
    leader: str
    transport: str = ""
    """The port that the client has connected to: binary or http."""
    host: str = ""
    """The client's address, and"""
    port: int = 0
    """its port."""
    secure: bool = False
    """TLS protects the client's connection to the door."""
    ticket: str = ""
    """For a client that another leader has served: `ticket_digest` of its ticket, which follows once the leader has
    accepted, after its length in four bytes."""
    earlier: str = ""
    """That other leader, as `leader`."""

    def encoded(self) -> bytes:
        fields = [
            self.role.value,
            self.leader,
            self.transport,
            self.host,
            self.port,
            self.secure,
            self.ticket,
            self.earlier,
        ]
        return json.dumps(fields).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Preface:
        """Raises WireError for anything that `encoded` does not return."""
        try:
            role, leader, transport, host, port, secure, ticket, earlier = json.loads(data)
            known = Role(role)
        except (ValueError, TypeError, RecursionError) as error:
            raise WireError("the preface of a relayed connection cannot be read") from error
        texts = all(isinstance(each, str) for each in (leader, transport, host, ticket, earlier))
        if not texts or type(port) is not int or type(secure) is not bool:
            raise WireError("the preface of a relayed connection has fields of other types")
        return cls(known, leader, transport, host, port, secure, ticket, earlier)


def ticket_digest(ticket: bytes) -> str:
    return hashlib.sha256(ticket).hexdigest()


class Distrust(WireError):
    """The other end does not have the same secret."""


class LeaderEnd:
    """The leader's end of a new connection: send `greeting`, feed `receive`, then send `answer`."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._theirs = b""
        self._received = b""
        self._heard = b""
        self._frames = self._notes = 0
        self.greeting = GREETING + self._nonce

    def receive(self, data: bytes) -> Preface | None:
        """Returns the preface once it is complete. Raises Distrust if it was made with another secret, WireError for
        anything else that is none; `WireError.answer` is what to send before closing."""
        self._received += data
        if len(self._received) < _HEAD_BYTES:
            return None
        length = int.from_bytes(self._received[:2], "big")
        if length > PREFACE_BYTES_MAX:
            raise WireError("the preface of a relayed connection is too long")
        if len(self._received) < _HEAD_BYTES + length:
            return None
        if len(self._received) > _HEAD_BYTES + length:
            raise WireError("bytes follow the preface of a relayed connection before it was answered")
        self._theirs, proof = self._received[2 : 2 + _NONCE_BYTES], self._received[2 + _NONCE_BYTES : _HEAD_BYTES]
        body = self._received[_HEAD_BYTES:]
        if not hmac.compare_digest(proof, _proof(self._secret, b"door", self._nonce, self._theirs, body)):
            raise Distrust("a gateway with another gateways.secret asks to relay", _refusal())
        return Preface.decoded(body)

    def answer(self, welcome: Welcome) -> bytes:
        said = bytes((welcome,))
        return said + _proof(self._secret, b"leader", self._nonce, self._theirs, said)

    def members(self, data: bytes) -> list[Member]:
        """What a door says of itself, over a connection that was accepted as its control; at most a frame is kept.
        Raises Distrust if it was not this door, in this order; WireError for anything else that `DoorEnd.said` does
        not return."""
        self._heard += data
        found = []
        while len(self._heard) >= _FRAME_HEAD_BYTES:
            length = int.from_bytes(self._heard[:2], "big")
            if length > MEMBER_BYTES_MAX:
                raise WireError("what a gateway says of itself is too long")
            if len(self._heard) < _FRAME_HEAD_BYTES + length:
                break
            proof, body = self._heard[2:_FRAME_HEAD_BYTES], self._heard[_FRAME_HEAD_BYTES:][:length]
            self._heard = self._heard[_FRAME_HEAD_BYTES + length :]
            if not hmac.compare_digest(proof, self._frame_proof(body)):
                raise Distrust("what a gateway says of itself was changed on its way")
            self._frames += 1
            found.append(Member.decoded(body))
        return found

    def note(self, body: bytes) -> bytes:
        """What to send to a door that watches this gateway in order to tell it this."""
        proof = _note_proof(self._secret, self._nonce, self._theirs, self._notes, body)
        self._notes += 1
        return NOTE + len(body).to_bytes(4, "big") + proof + body

    def _frame_proof(self, body: bytes) -> bytes:
        return _frame_proof(self._secret, self._nonce, self._theirs, self._frames, body)


class DoorEnd:
    """The door's end of a new connection: feed `receive` and send what it returns until there is a `welcome`."""

    def __init__(self, secret: str, preface: Preface) -> None:
        self._secret = secret.encode()
        self._body = preface.encoded()
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._theirs = b""
        self._received = b""
        self._heard = bytearray()
        self._frames = self._notes = 0
        self.welcome: Welcome | None = None
        self.rest = b""
        """What followed the welcome."""

    def receive(self, data: bytes) -> bytes:
        """Raises Distrust if the other end does not have the secret, WireError if it greets otherwise."""
        self._received += data
        if not self._theirs:
            return self._greeted()
        if len(self._received) >= _WELCOME_BYTES:
            self._judged()
        return b""

    def said(self, member: Member) -> bytes:
        """What to send in order to say this, once the connection is accepted as the control."""
        body = member.encoded()
        proof = _frame_proof(self._secret, self._theirs, self._nonce, self._frames, body)
        self._frames += 1
        return len(body).to_bytes(2, "big") + proof + body

    def heard(self, data: bytes) -> Iterator[bytes]:
        """What the leader says over a connection by which this gateway watches it: single bytes, and notes, which begin
        with NOTE. Raises Distrust for a note that is not this leader's, in this order; WireError for a longer one than
        NOTE_BYTES_MAX."""
        self._heard += data
        start = 0
        try:
            while start < len(self._heard):
                if self._heard[start] != NOTE[0]:
                    yield bytes(self._heard[start : start + 1])
                    start += 1
                    continue
                end = self._note_end(start)
                if end is None:
                    break
                proof = self._heard[start + len(NOTE) + 4 : start + _NOTE_HEAD_BYTES]
                body = bytes(self._heard[start + _NOTE_HEAD_BYTES : end])
                expected = _note_proof(self._secret, self._theirs, self._nonce, self._notes, body)
                if not hmac.compare_digest(proof, expected):
                    raise Distrust("what the leading gateway says was changed on its way")
                self._notes += 1
                start = end
                yield NOTE + body
        finally:
            del self._heard[:start]

    def _note_end(self, start: int) -> int | None:
        """Where a note ends; None if it is not complete."""
        if len(self._heard) < start + _NOTE_HEAD_BYTES:
            return None
        length = int.from_bytes(self._heard[start + len(NOTE) : start + len(NOTE) + 4], "big")
        if length > NOTE_BYTES_MAX:
            raise WireError("what the leading gateway says is too long")
        end = start + _NOTE_HEAD_BYTES + length
        return end if end <= len(self._heard) else None

    def _greeted(self) -> bytes:
        if not self._received.startswith(GREETING[: len(self._received)]):
            raise WireError("what listens there does not greet as a gateway of this release")
        if len(self._received) < len(GREETING) + _NONCE_BYTES:
            return b""
        if len(self._received) > len(GREETING) + _NONCE_BYTES:
            raise WireError("the other gateway sent bytes before it was answered")
        self._theirs, self._received = self._received[len(GREETING) :], b""
        proof = _proof(self._secret, b"door", self._theirs, self._nonce, self._body)
        return len(self._body).to_bytes(2, "big") + self._nonce + proof + self._body

    def _judged(self) -> None:
        said, proof = self._received[:1], self._received[1:_WELCOME_BYTES]
        if said[0] == Welcome.UNTRUSTED:
            raise Distrust("the other gateway has another gateways.secret")
        if not hmac.compare_digest(proof, _proof(self._secret, b"leader", self._theirs, self._nonce, said)):
            raise Distrust("what listens there does not know gateways.secret")
        try:
            self.welcome = Welcome(said[0])
        except ValueError as error:
            raise WireError("the other gateway answered with an unknown welcome") from error
        self.rest = self._received[_WELCOME_BYTES:]


def _refusal() -> bytes:
    return bytes((Welcome.UNTRUSTED,)) + bytes(_PROOF_BYTES)


def _frame_proof(secret: bytes, leaders: bytes, doors: bytes, number: int, body: bytes) -> bytes:
    """With its number, so that no frame can be left out or said again."""
    return _proof(secret, b"says", leaders, doors, number.to_bytes(8, "big") + body)


def _note_proof(secret: bytes, leaders: bytes, doors: bytes, number: int, body: bytes) -> bytes:
    return _proof(secret, b"notes", leaders, doors, number.to_bytes(8, "big") + body)


def _proof(secret: bytes, end: bytes, leaders: bytes, doors: bytes, said: bytes) -> bytes:
    """`end` and the nonces have fixed lengths for each end, so no two different sayings have the same bytes."""
    return hmac.new(secret, end + leaders + doors + said, hashlib.sha256).digest()
