"""The fastest answer: to a request that is the last one again, but for its sequence id.

The Hive driver that Spark ships asks for an operation's status once per row: whatever such an answer takes, a result
takes a million times.
"""

from __future__ import annotations

_SEQID_BYTES = 4
_TO_NAME = 8


class Repeat:
    """Knows a request's bytes and its reply's, as they stand on the wire, around their sequence ids."""

    __slots__ = ("_before", "_behind", "_reply_before", "_reply_behind", "_seqid", "_seqid_end", "_size")

    def __init__(self, request: bytes, reply: bytes, on_wire: tuple[bytes, bytes]) -> None:
        """`on_wire`: the two as they were read and sent, with what stood before them there."""
        asked, answered = on_wire
        self._seqid = len(asked) - len(request) + _seqid_offset(request)
        self._seqid_end = self._seqid + _SEQID_BYTES
        self._size = len(asked)
        self._before, self._behind = asked[: self._seqid], asked[self._seqid_end :]
        reply_seqid = len(answered) - len(reply) + _seqid_offset(reply)
        self._reply_before, self._reply_behind = answered[:reply_seqid], answered[reply_seqid + _SEQID_BYTES :]

    def answer(self, data: bytes) -> bytes | None:
        """The reply's bytes if `data` is the whole request again; None for anything else."""
        if len(data) != self._size or not data.startswith(self._before) or not data.endswith(self._behind):
            return None
        return self._reply_before + data[self._seqid : self._seqid_end] + self._reply_behind


def _seqid_offset(message: bytes) -> int:
    return _TO_NAME + int.from_bytes(message[4:_TO_NAME], "big")
