"""Tests that a repeated request gets the same answer as if it were parsed, and that no other request does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import reply, request
from gateway.wire.frame import frame
from gateway.wire.message import Handle, with_seqid
from gateway.wire.repeat import Repeat

REQUEST = request.operation_status(Handle(b"g" * 16, b"s" * 16))
REPLY = reply.operation_status(0, 2)
seqids = st.integers(-(2**31), 2**31 - 1)


def repeat_of(request: bytes, reply: bytes, framed: bool) -> Repeat:
    return Repeat(request, reply, (frame(request), frame(reply)) if framed else (request, reply))


@given(st.booleans(), seqids, seqids)
def test_the_same_request_gets_the_same_reply(framed: bool, first: int, later: int) -> None:
    on_wire = frame if framed else bytes
    repeat = repeat_of(with_seqid(REQUEST, first), with_seqid(REPLY, first), framed)
    assert repeat.answer(on_wire(with_seqid(REQUEST, later))) == on_wire(with_seqid(REPLY, later))


@given(st.booleans(), st.integers(0, len(REQUEST) + 3), st.integers(1, 255))
def test_a_request_with_another_byte_is_not_recognized(framed: bool, place: int, flipped: int) -> None:
    data = bytearray(frame(REQUEST) if framed else REQUEST)
    place %= len(data)
    data[place] ^= flipped
    answer = repeat_of(REQUEST, REPLY, framed).answer(bytes(data))
    start = (4 if framed else 0) + 8 + len("GetOperationStatus")
    assert (answer is not None) == (start <= place < start + 4)


@given(st.booleans(), st.integers(0, 3), st.binary(max_size=3))
def test_incomplete_and_multiple_requests_are_not_recognized(framed: bool, cut: int, more: bytes) -> None:
    whole = frame(REQUEST) if framed else REQUEST
    data = whole[: len(whole) - cut] + more
    if data != whole:
        assert repeat_of(REQUEST, REPLY, framed).answer(data) is None
    assert repeat_of(REQUEST, REPLY, framed).answer(whole + whole) is None
