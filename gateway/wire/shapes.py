"""Messages that are whole because one of their shape was.

To walk a message value by value takes longer than all else that is done about a short one. What decides where it ends,
and whether it is well-formed, is its shape: its bytes without the sequence id, without what a handle holds and without
a statement's text, which may be anything. A connection's calls have a dozen shapes.
"""

from __future__ import annotations

from typing import Final

from gateway.wire.message import TO_GUID, TO_NEW_GUID, TO_SECRET, TO_STATEMENT
from gateway.wire.scanner import CALL

_IDENTIFIER_BYTES: Final = 39
"""From a guid's first byte to the one behind the secret."""
_BYTES_MAX: Final = 160
"""Of what stands behind a handle, or behind the head of a message without one: 20 to 40 bytes in all calls that a
driver makes for each statement."""
_SHAPES_MAX: Final = 32


class Shapes:
    """The shapes of one connection's messages, in one direction."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[bytes] | None = None  # Most connections of a thousand idle.

    def know(self, message: bytes) -> bool:
        """Whether these bytes are exactly one message, for one of their shape was."""
        return self._known is not None and shape(message) in self._known

    def learn(self, message: bytes) -> None:
        """One message that was walked from its first to its last byte."""
        if (found := shape(message)) is None:
            return
        if self._known is None or len(self._known) >= _SHAPES_MAX:
            self._known = set()  # Of what comes again the next one is walked, and known from then on.
        self._known.add(found)


def shape(message: bytes) -> bytes | None:
    """What messages have in common that are walked alike; None for one that is not worth it.

    What is left out stands in strings only, whose lengths are given by what stands before them; so no bytes can be
    left out that would be walked.
    """
    name_end = 8 + int.from_bytes(message[4:8], "big")
    body = name_end + 4
    if message.startswith(TO_GUID, body):
        guid, layout = body + len(TO_GUID), b"\1"
    elif message.startswith(TO_NEW_GUID, body):
        guid, layout = body + len(TO_NEW_GUID), b"\2"
    elif message[3:4] == bytes((CALL,)):
        return None  # OpenSession, which comes once.
    else:
        return _shape(message, name_end, b"\0", body)
    rest = guid + _IDENTIFIER_BYTES
    if not message.startswith(TO_SECRET, guid + 16):
        return None
    if layout == b"\1" and message.startswith(TO_STATEMENT, rest):
        text = rest + len(TO_STATEMENT) + 4
        rest, layout = text + int.from_bytes(message[text - 4 : text], "big"), b"\3"
    return _shape(message, name_end, layout, rest)


def _shape(message: bytes, name_end: int, layout: bytes, rest: int) -> bytes | None:
    # Every message ends with a byte behind its last value: where none is left, the text or the head is cut off.
    if not 0 < len(message) - rest <= _BYTES_MAX:
        return None
    return message[:name_end] + layout + message[rest:]
