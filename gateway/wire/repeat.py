"""Answers a request that repeats the last one except for its sequence id, by comparing bytes.

The Hive driver that Spark ships asks for an operation's status once per row, so a result of a million rows takes a
million such answers.
"""

from __future__ import annotations

_SEQID_BYTES = 4
_TO_NAME = 8


class Repeat:
    """The bytes of a request and of its reply on the wire, around their sequence ids."""

    __slots__ = ("_after", "_before", "_reply_after", "_reply_before", "_seqid", "_seqid_end", "_size")

    def __init__(self, request: bytes, reply: bytes, on_wire: tuple[bytes, bytes]) -> None:
        """`on_wire`: both as they were received and sent, including what preceded them."""
        asked, answered = on_wire
        self._seqid = len(asked) - len(request) + _seqid_offset(request)
        self._seqid_end = self._seqid + _SEQID_BYTES
        self._size = len(asked)
        self._before, self._after = asked[: self._seqid], asked[self._seqid_end :]
        reply_seqid = len(answered) - len(reply) + _seqid_offset(reply)
        self._reply_before, self._reply_after = answered[:reply_seqid], answered[reply_seqid + _SEQID_BYTES :]

    def answer(self, data: bytes) -> bytes | None:
        """Returns the reply's bytes if `data` is exactly the request again; otherwise None."""
        if len(data) != self._size or not data.startswith(self._before) or not data.endswith(self._after):
            return None
        return self._reply_before + data[self._seqid : self._seqid_end] + self._reply_after


def _seqid_offset(message: bytes) -> int:
    return _TO_NAME + int.from_bytes(message[4:_TO_NAME], "big")
