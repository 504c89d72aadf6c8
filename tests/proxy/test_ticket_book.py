"""Tests that doors have the tickets that the leader has, however their copies begin."""

from __future__ import annotations

import random

import pytest

from gateway.proxy.ticket_book import TOLD_TOGETHER, TicketBook
from gateway.wire.chunks import TICKET_BYTES_MAX
from gateway.wire.frame import WireError

KEYS = [bytes([number]) * 16 for number in range(8)]


@pytest.mark.parametrize("seed", range(50))
async def test_a_copy_has_what_the_leader_has(seed: int) -> None:
    """Copies begin at any time, also anew; the leader changes while they are told."""
    chosen = random.Random(seed)
    leader, copies = TicketBook(), [TicketBook() for _ in range(3)]
    tickets, pen = leader.opened()
    assert tickets == []
    told: list[TicketBook] = []

    def tell(note: bytes) -> None:
        for each in told:
            each.copy(note)

    leader.tell = tell
    for number in range(60):
        key = chosen.choice(KEYS)
        if chosen.random() < 0.7:
            pen.keep(key, b"%d" % number)
        else:
            pen.drop(key)
        if chosen.random() < 0.1:
            each = chosen.choice(copies)
            each.begin_copy()
            if each not in told:
                told.append(each)
            await leader.tell_all(each.copy)
    assert told
    for each in told:
        assert each._tickets == leader._tickets
    tickets, _ = told[0].opened()
    assert sorted(tickets) == sorted(leader._tickets.values())
    assert len(told[0]) == 0


async def test_what_a_leader_does_not_tell_is_forgotten_when_it_has_told_everything() -> None:
    first, second, door = TicketBook(), TicketBook(), TicketBook()
    _, pen = first.opened()
    for number in range(TOLD_TOGETHER + 1):
        pen.keep(number.to_bytes(16, "big"), b"first")
    door.begin_copy()
    await first.tell_all(door.copy)
    _, other = second.opened()
    other.keep(KEYS[0], b"second")
    door.begin_copy()
    assert len(door) == TOLD_TOGETHER + 1
    await second.tell_all(door.copy)
    assert door._tickets == {KEYS[0]: b"second"}


def test_a_book_that_copies_is_not_written() -> None:
    book = TicketBook()
    _, pen = book.opened()
    pen.keep(KEYS[0], b"mine")
    book.begin_copy()
    pen.keep(KEYS[0], b"late")
    pen.drop(KEYS[0])
    assert book._tickets == {KEYS[0]: b"mine"}
    book.copy(b"+" + KEYS[0] + b"theirs")
    _, again = book.opened()
    again.keep(KEYS[1], b"new")
    assert book._tickets == {KEYS[1]: b"new"}


def test_a_ticket_that_is_too_long_is_not_kept() -> None:
    book = TicketBook()
    notes: list[bytes] = []
    book.tell = notes.append
    _, pen = book.opened()
    pen.keep(KEYS[0], b"x")
    pen.keep(KEYS[0], b"x")
    pen.keep(KEYS[0], bytes(TICKET_BYTES_MAX + 1))
    assert notes == [b"+" + KEYS[0] + b"x", b"-" + KEYS[0]]
    assert len(book) == 0


@pytest.mark.parametrize("note", [b"", b"?", b"+" + KEYS[0], b"-" + KEYS[0] + b"x", b"-" + KEYS[0][:15], b".x"])
def test_what_a_leader_cannot_say_is_an_error(note: bytes) -> None:
    with pytest.raises(WireError):
        TicketBook().copy(note)
