"""Recognizes complete messages by the shape of earlier ones.

Scanning a short message value by value costs more than everything else that is done with it. Where it ends, and whether
it is well-formed, is determined by its shape: its bytes without the sequence id, the content of a handle and the text
of a statement, which may be anything. The calls of a connection have a dozen shapes.
"""

from __future__ import annotations

from typing import Final

from gateway.wire.message import TO_GUID, TO_NEW_GUID, TO_SECRET, TO_STATEMENT
from gateway.wire.scanner import CALL

_IDENTIFIER_BYTES: Final = 39
"""From a guid's first byte to the one after the secret."""
_BYTES_MAX: Final = 160
"""Longest part after the handle, or after the head of a message without one. It has 20 to 40 bytes in all calls that a
driver makes for each statement."""
_SHAPES_MAX: Final = 32


class Shapes:
    """The shapes of one connection's messages, in one direction."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[bytes] | None = None  # Allocated on demand: of a thousand connections, most idle.

    def know(self, message: bytes) -> bool:
        """Whether these bytes are exactly one message, because one of their shape was."""
        return self._known is not None and shape(message) in self._known

    def learn(self, message: bytes) -> None:
        """Records the shape of a message that was scanned completely."""
        if (found := shape(message)) is None:
            return
        if self._known is None or len(self._known) >= _SHAPES_MAX:
            self._known = set()  # Shapes that come again are learned again.
        self._known.add(found)


def shape(message: bytes) -> bytes | None:
    """The bytes that determine how a message is scanned; None for a message that is not worth remembering.

    The omitted bytes are all inside strings, whose lengths precede them, so no omitted byte affects the scan.
    """
    name_end = 8 + int.from_bytes(message[4:8], "big")
    body = name_end + 4
    if message.startswith(TO_GUID, body):
        guid, layout = body + len(TO_GUID), b"\1"
    elif message.startswith(TO_NEW_GUID, body):
        guid, layout = body + len(TO_NEW_GUID), b"\2"
    elif message[3:4] == bytes((CALL,)):
        return None  # OpenSession, sent once.
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
    # Every message has a stop byte after its last value. If no byte is left, the text or the head is truncated.
    if not 0 < len(message) - rest <= _BYTES_MAX:
        return None
    return message[:name_end] + layout + message[rest:]
