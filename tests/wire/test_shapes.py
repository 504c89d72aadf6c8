"""Tests that messages recognized by their shape are valid messages, which the scanner would accept."""

from __future__ import annotations

from random import Random

import pytest
from fuzzing.mutation import mutated
from hypothesis import given
from hypothesis import strategies as st
from wire import calls

from gateway.wire import reply as replies
from gateway.wire.frame import WireError
from gateway.wire.message import TO_GUID, TO_NEW_GUID, TO_SECRET, TO_STATEMENT, Handle, with_handle, with_seqid
from gateway.wire.scanner import MessageScanner
from gateway.wire.shapes import Shapes

HANDLES = st.builds(Handle, st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
REPLIES = [
    replies.execute_ok(1, calls.HANDLE),
    replies.closed("CloseOperation", 1),
    replies.error("ExecuteStatement", 1, "no", "42601"),
]
PIECES = [TO_GUID, TO_SECRET, TO_STATEMENT, TO_NEW_GUID, bytes(4), b"\0\0\0\1x", b"\x0b\0\2", b"\x0c\0\1"]


def is_whole(message: bytes) -> bool:
    try:
        return MessageScanner(1 << 20, texts_only=True).feed(message) == len(message)
    except WireError:
        return False


@given(HANDLES, st.integers(-(1 << 31), (1 << 31) - 1), st.text(max_size=3_000))
def test_the_same_call_with_other_values_is_recognized(handle: Handle, seqid: int, text: str) -> None:
    known = Shapes()
    learned = [calls.status(), calls.fetch(), calls.execute("select 1"), REPLIES[0], REPLIES[1]]
    for message in learned:
        assert not known.know(message)
        known.learn(message)
    for message in (*learned[:2], calls.execute(text)):
        assert known.know(with_seqid(with_handle(message, handle), seqid))
    assert known.know(replies.execute_ok(seqid, handle))
    assert not known.know(calls.execute(text, run_async=False))
    assert not known.know(calls.execute(text, queryTimeout=5))
    assert not known.know(calls.status() + b"\0")


@given(st.integers(0, 1 << 32).map(Random), st.integers(1, 4))
def test_a_recognized_message_is_valid(random: Random, times: int) -> None:
    """This includes texts that look like handles, and mutated messages."""
    known = Shapes()
    texts = ["".join(random.choice(PIECES).decode("latin-1") for _ in range(3)) for _ in range(4)]
    samples = [*calls.samples(), *REPLIES, *map(calls.execute, texts)]
    found = 0
    for _ in range(200):
        message = random.choice(samples)
        if random.random() < 0.8:
            message = mutated(message, random, [*samples, *PIECES], times)
        if known.know(message):
            found += 1
            assert is_whole(message)
        elif is_whole(message):
            known.learn(message)
            samples.append(message)
    assert found


HEADS = [TO_GUID, TO_NEW_GUID, TO_GUID[:3], b"\x0c\0\0" + TO_GUID[3:]]
TAILS = [TO_STATEMENT, b"", b"\0\0", b"\0\x08\0\2\0\0\0\0\2\0\3\1", b"\0\0\x0a\0\5", bytes(2)]


def composed(random: Random) -> bytes:
    """A message that a hostile peer could compose of the parts by which shapes are recognized."""
    name = random.choice((b"ExecuteStatement", b"FetchResults"))
    head = b"\x80\1\0" + bytes((random.choice((1, 2)),)) + len(name).to_bytes(4, "big") + name + random.randbytes(4)
    identifier = random.randbytes(16) + random.choice((TO_SECRET, TO_SECRET[:-1])) + random.randbytes(16)
    text = random.choice((b"x", b"\x0b\0\2", TO_STATEMENT)) * random.randrange(3)
    tail = random.choice(TAILS)
    if tail == TO_STATEMENT:
        tail += len(text).to_bytes(4, "big") + text
    return head + random.choice(HEADS) + identifier + tail + random.choice((b"\0", b"\0\0", b"\0\0\0", b"\0\0\0\0"))


@given(st.integers(0, 1 << 32).map(Random))
def test_a_recognized_composed_message_is_valid(random: Random) -> None:
    known = Shapes()
    for message in [composed(random) for _ in range(300)]:
        if known.know(message):
            assert is_whole(message)
        elif is_whole(message):
            known.learn(message)


def test_a_statement_with_the_head_of_a_reply_is_not_recognized() -> None:
    """With the head of a reply, the field of the statement would be a duplicate."""
    known = Shapes()
    known.learn(calls.execute("select 1"))
    wrong = calls.execute("select 1").replace(TO_GUID, TO_NEW_GUID)
    assert not is_whole(wrong)
    assert not known.know(wrong)


def test_a_message_that_occurs_once_is_not_remembered() -> None:
    known = Shapes()
    known.learn(calls.open_session())
    assert not known._known


def test_single_messages_do_not_displace_others() -> None:
    known = Shapes()
    for number in range(100):
        known.learn(replies.error("CloseOperation", 1, f"operation {number} is closed", "HY000"))
    known.learn(REPLIES[0])
    assert known.know(replies.execute_ok(2, calls.OTHER))
    assert len(known._known or ()) <= 32


@pytest.mark.parametrize("message", [b"", b"\x80\1", bytes(8), b"\xff" * 8, b"\xff" * 300, TO_GUID * 4])
def test_an_invalid_message_is_not_recognized(message: bytes) -> None:
    known = Shapes()
    known.learn(calls.status())
    assert not known.know(message)
