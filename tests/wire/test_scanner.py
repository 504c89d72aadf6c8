"""Tests that the end of a message is found in one piece, byte by byte, in random pieces, and with trailing bytes."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from TCLIService import ttypes
from wire import calls

from gateway.wire import reply as replies
from gateway.wire.frame import WireError
from gateway.wire.rowset import ResultColumn, Type, row_set
from gateway.wire.scanner import MessageScanner, message_end

MIB = 1 << 20
HEAD = b"\x80\x01\x00\x01\x00\x00\x00\x01f\x00\x00\x00\x07"


def scan(pieces: list[bytes]) -> int | None:
    """The end, counted from the first byte of the first piece."""
    scanner = MessageScanner(MIB)
    before = 0
    for piece in pieces:
        if (end := scanner.feed(piece)) is not None:
            return before + end
        before += len(piece)
    return None


def result_page() -> bytes:
    columns = [ResultColumn("text"), ResultColumn("number", Type.BIGINT), ResultColumn("flag", Type.BOOLEAN)]
    rows = [(f"row {index}" * (index % 5), index, None) for index in range(50)]
    return replies.fetch(1, row_set(columns, rows, 9))


MESSAGES = [*calls.samples(), result_page(), replies.fetch(1, row_set([ResultColumn("a")], [("x",), (None,)], 0))]


@pytest.mark.parametrize("message", MESSAGES)
def test_the_end_of_a_message_is_found(message: bytes) -> None:
    assert message_end(message, MIB) == len(message)
    assert message_end(message + b"trailing", MIB) == len(message)
    assert message_end(message[:-1], MIB) is None
    assert scan([bytes((byte,)) for byte in message + b"\x80"]) == len(message)


@given(st.sampled_from(MESSAGES), st.lists(st.integers(0, 100_000), max_size=12), st.binary(max_size=9))
def test_the_end_is_found_in_random_pieces_with_trailing_bytes(
    message: bytes, cuts: list[int], trailing: bytes
) -> None:
    assert scan(calls.pieces_of(message + trailing, cuts)) == len(message)


@given(st.sampled_from(MESSAGES), st.integers(0, 50), st.lists(st.integers(0, 100_000), max_size=3))
def test_a_message_may_start_within_a_chunk(message: bytes, start: int, cuts: list[int]) -> None:
    first, *rest = calls.pieces_of(message, cuts)
    scanner = MessageScanner(MIB)
    end = scanner.feed(b"#" * start + first, start)
    before = start + len(first)
    for piece in rest:
        assert end is None
        end = scanner.feed(piece)
        end, before = (None if end is None else before + end), before + len(piece)
    assert end == start + len(message)


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_incomplete(data: bytes) -> None:
    for message in (data, HEAD + data):
        try:
            end = message_end(message, MIB)
        except WireError:
            continue
        assert end is None or 0 < end <= len(message)


@given(st.sampled_from(MESSAGES), st.data())
def test_a_damaged_message_has_the_same_outcome_in_any_pieces(message: bytes, data: st.DataObject) -> None:
    damaged = bytearray(message)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))

    def outcome(pieces: list[bytes]) -> object:
        try:
            return scan(pieces)
        except WireError:
            return WireError

    whole = outcome([bytes(damaged)])
    assert outcome([bytes((byte,)) for byte in damaged]) in (whole, None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x0b\x00\x01\x7f\xff\xff\xff", "limit"),
        (b"\x0b\x00\x01\xff\xff\xff\xff", "limit"),
        (b"\x0f\x00\x01\x0b\x7f\xff\xff\xff", "limit"),
        (b"\x0f\x00\x01\x0a\x00\x08\x00\x00", "limit"),
        (b"\x0d\x00\x01\x0b\x0b\x7f\xff\xff\xff", "limit"),
        (b"\x05\x00\x01", "does not exist"),
        (b"\x7f\x00\x01", "does not exist"),
        (b"\x0f\x00\x01\x05\x00\x00\x00\x01", "does not exist"),
        (b"\x0c\x00\x01" * 65, "deeper"),
        (b"\x08\x00\x01\x00\x00\x00\x01" * 2, "twice"),
        (b"\x0f\x00\x01\x0b\x00\x00\x00\x02\xff\xff\xff\xff", "string"),
    ],
)
def test_a_hostile_body_is_refused_immediately(body: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        message_end(HEAD + body, MIB)


@pytest.mark.parametrize(
    "head",
    [
        b"GET ",
        b"\x16\x03",
        b"\x80\x02",
        b"\x80\x01\0\x01\0\0\0\0",
        b"\x80\x01\0\x01\0\0\x02\0",
        HEAD[:3] + b"\x09" + HEAD[4:],
    ],
)
def test_an_invalid_head_is_refused(head: bytes) -> None:
    with pytest.raises(WireError):
        message_end(head, MIB)


def test_many_small_values_are_bounded() -> None:
    empty_structs = HEAD + b"\x0f\x00\x01\x0c\x00\x0f\x00\x00" + bytes(983_040) + b"\0"
    assert message_end(empty_structs, MIB) == len(empty_structs)
    with pytest.raises(WireError, match="number of values"):
        MessageScanner(MIB, values_max=1000).feed(empty_structs)


def test_too_many_values_are_refused_before_they_are_scanned() -> None:
    """Scanning them all would take ten seconds and delay all other clients."""
    head = HEAD + b"\x0f\x00\x01\x0c" + (16 * MIB).to_bytes(4, "big")
    started = time.process_time()
    with pytest.raises(WireError, match="number of values"):
        MessageScanner(32 * MIB, values_max=5000).feed(head + bytes(16 * MIB))
    assert time.process_time() - started < 1


def test_single_bytes_take_no_quadratic_time() -> None:
    """In quadratic time, a long list in single bytes would take minutes."""
    count = 40_000
    message = HEAD + b"\x0f\x00\x01\x0c" + count.to_bytes(4, "big") + bytes(count) + b"\0"
    started = time.process_time()
    assert scan([bytes((byte,)) for byte in message]) == len(message)
    assert time.process_time() - started < 5


def test_unknown_fields_of_every_type_are_scanned() -> None:
    """A newer client might send such fields."""
    body = (
        b"\x02\x00\x01\x01" + b"\x03\x00\x02\x01" + b"\x04\x00\x03" + bytes(8) + b"\x06\x00\x04\0\0"
        b"\x0a\x00\x05" + bytes(8) + b"\x0d\x00\x06\x0b\x0c\0\0\0\x01\0\0\0\x01k\0"
        b"\x0e\x00\x07\x08\0\0\0\x02" + bytes(8) + b"\x0f\x00\x08\x0f\0\0\0\x01\x0b\0\0\0\x01\0\0\0\x02ab"
        b"\x0d\x00\x09\0\0\0\0\0\0" + b"\0"
    )
    assert message_end(HEAD + body + b"x", MIB) == len(HEAD + body)
    assert scan([bytes((byte,)) for byte in HEAD + body]) == len(HEAD + body)


def test_random_structs_written_by_thrift_are_scanned() -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    for _ in range(50):
        configuration = {str(chance.random()): "v" * chance.randrange(50) for _ in range(chance.randrange(30))}
        message = calls.call("OpenSession", ttypes.TOpenSessionReq(chance.randrange(11), "u", None, configuration))
        assert message_end(message + b"\0", MIB) == len(message), f"seed {seed}"
