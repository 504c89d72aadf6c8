"""Tests how two gateways introduce a relayed connection: whatever is cut, changed, said again or made up."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.frame import WireError
from gateway.wire.member import MEMBER_BYTES_MAX, TEXT_CHARACTERS_MAX, GatewayRole, Member
from gateway.wire.preface import (
    GREETING,
    NOTE,
    NOTE_BYTES_MAX,
    PREFACE_BYTES_MAX,
    Distrust,
    DoorEnd,
    LeaderEnd,
    Preface,
    Role,
    Welcome,
)

SECRET = "s" * 32
MEMBER = Member("gateway-1:10009", GatewayRole.DOOR, 3, 1_700_000_000_000, 7, "0.1.0")
CLIENT = Preface(Role.CLIENT, "mark", "http", "2001:db8::1", 4711, secure=True)
texts = st.text(max_size=60)
prefaces = st.builds(Preface, st.sampled_from(Role), texts, texts, texts, st.integers(0, 65535), st.booleans())
spoken = st.sampled_from([each for each in Welcome if each is not Welcome.UNTRUSTED])


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def preface_of(leader: LeaderEnd, door: DoorEnd) -> bytes:
    """What the door answers to the greeting."""
    return door.receive(leader.greeting)


@given(prefaces, spoken, st.lists(st.integers(0, 1000), max_size=5), st.binary(max_size=50))
def test_it_arrives_however_it_is_cut(preface: Preface, welcome: Welcome, cuts: list[int], rest: bytes) -> None:
    leader, door = LeaderEnd(SECRET), DoorEnd(SECRET, preface)
    said = b"".join(door.receive(piece) for piece in pieces(leader.greeting, cuts))
    heard = [leader.receive(piece) for piece in pieces(said, cuts)]
    assert [each for each in heard if each is not None] == [preface]
    assert heard[-1] == preface
    for piece in pieces(leader.answer(welcome), cuts):
        assert door.welcome is None
        assert door.receive(piece) == b""
    assert door.welcome is welcome
    other = DoorEnd(SECRET, preface)
    assert leader.receive(b"") == preface
    second = LeaderEnd(SECRET)
    second.receive(preface_of(second, other))
    other.receive(second.answer(welcome) + rest)
    assert (other.welcome, other.rest) == (welcome, rest)


@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=4))
def test_garbage_is_never_a_preface(data: bytes, cuts: list[int]) -> None:
    leader, door = LeaderEnd(SECRET), DoorEnd(SECRET, CLIENT)
    with contextlib.suppress(WireError):
        assert all(leader.receive(piece) is None for piece in pieces(data, cuts))
    with contextlib.suppress(WireError):
        for piece in pieces(data, cuts):
            door.receive(piece)
    assert door.welcome is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_never_believed(place: int, change: int) -> None:
    leader, door = LeaderEnd(SECRET), DoorEnd(SECRET, CLIENT)
    said = bytearray(preface_of(leader, door))
    said[place % len(said)] ^= change
    try:
        assert leader.receive(bytes(said)) is None
    except WireError:
        return
    # A greater length: the rest is waited for.
    assert place % len(said) < 2


@given(st.integers(0, 32), st.integers(1, 255), spoken)
def test_a_changed_verdict_is_never_believed(place: int, change: int, welcome: Welcome) -> None:
    leader, door = LeaderEnd(SECRET), DoorEnd(SECRET, CLIENT)
    leader.receive(preface_of(leader, door))
    answer = bytearray(leader.answer(welcome))
    answer[place] ^= change
    with pytest.raises(Distrust):
        door.receive(bytes(answer))
    assert door.welcome is None


def test_nothing_can_be_said_again() -> None:
    leader, door = LeaderEnd(SECRET), DoorEnd(SECRET, CLIENT)
    said = preface_of(leader, door)
    assert leader.receive(said) == CLIENT
    with pytest.raises(Distrust):
        LeaderEnd(SECRET).receive(said)
    other = DoorEnd(SECRET, CLIENT)
    preface_of(leader, other)
    with pytest.raises(Distrust):
        other.receive(leader.answer(Welcome.ACCEPTED))


def test_what_a_door_has_said_is_not_taken_from_a_leader() -> None:
    """A stranger that sends a door's own proof back to it is not believed."""
    door = DoorEnd(SECRET, CLIENT)
    said = door.receive(GREETING + bytes(32))
    with pytest.raises(Distrust):
        door.receive(bytes((Welcome.ACCEPTED,)) + said[34:66])


def test_another_secret_is_told_to_both() -> None:
    leader, door = LeaderEnd(SECRET), DoorEnd("t" * 32, CLIENT)
    with pytest.raises(Distrust, match=r"another gateways\.secret asks") as refused:
        leader.receive(preface_of(leader, door))
    with pytest.raises(Distrust, match=r"has another gateways\.secret"):
        door.receive(refused.value.answer)


def test_a_preface_has_a_limit() -> None:
    leader = LeaderEnd(SECRET)
    with pytest.raises(WireError, match="too long"):
        leader.receive((PREFACE_BYTES_MAX + 1).to_bytes(2, "big") + bytes(100))


def test_bytes_before_the_answer_are_refused() -> None:
    leader, door = LeaderEnd(SECRET), DoorEnd(SECRET, CLIENT)
    with pytest.raises(WireError, match="follow the preface"):
        leader.receive(preface_of(leader, door) + b"x")
    with pytest.raises(WireError, match="before it was answered"):
        DoorEnd(SECRET, CLIENT).receive(leader.greeting + b"x")


@pytest.mark.parametrize("data", [b"[]", b"{}", b"1", b'["client", 1, "", "", 0, false]', b"[" * 4000, b"\xff"])
def test_a_preface_of_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        Preface.decoded(data)


def test_a_server_that_is_no_gateway_is_recognized() -> None:
    with pytest.raises(WireError, match="does not greet"):
        DoorEnd(SECRET, CLIENT).receive(b"HTTP/1.1 400 Bad Request")


def watching() -> tuple[LeaderEnd, DoorEnd]:
    """The ends of a door's control connection."""
    leader, door = LeaderEnd(SECRET), DoorEnd(SECRET, Preface(Role.CONTROL, "mark"))
    leader.receive(preface_of(leader, door))
    door.receive(leader.answer(Welcome.ACCEPTED))
    return leader, door


numbers = st.integers(0, 2**61)
names = st.text(max_size=TEXT_CHARACTERS_MAX)
members = st.builds(Member, names, st.sampled_from(GatewayRole), numbers, numbers, numbers, names)


@given(st.lists(members, max_size=4), st.lists(st.integers(0, 4000), max_size=6))
def test_what_a_door_says_of_itself_arrives_however_it_is_cut(said: list[Member], cuts: list[int]) -> None:
    leader, door = watching()
    heard = [leader.members(piece) for piece in pieces(b"".join(map(door.said, said)), cuts)]
    assert [each for some in heard for each in some] == said


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_of_it_is_never_believed(place: int, change: int) -> None:
    leader, door = watching()
    said = bytearray(door.said(MEMBER))
    said[place % len(said)] ^= change
    with contextlib.suppress(WireError):
        assert leader.members(bytes(said)) == []


def test_it_cannot_be_said_again_nor_left_out_nor_said_over_another_connection() -> None:
    leader, door = watching()
    first, second = door.said(MEMBER), door.said(MEMBER)
    assert leader.members(first) == [MEMBER]
    with pytest.raises(Distrust):
        leader.members(first)
    for said in (second, first):
        leader, _ = watching()
        with pytest.raises(Distrust):
            leader.members(said)


def test_nothing_long_is_kept_or_believed() -> None:
    leader, _ = watching()
    with pytest.raises(WireError, match="too long"):
        leader.members((MEMBER_BYTES_MAX + 1).to_bytes(2, "big") + bytes(32))
    leader, door = watching()
    long = dataclasses.replace(MEMBER, address="\N{GRINNING FACE}" * 10_000)
    (heard,) = leader.members(door.said(long))
    assert heard.address == long.address[:TEXT_CHARACTERS_MAX]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"7",
        b"[]",
        b'["a", "DOOR", 1, 2, "v"]',
        b'["a", "KING", 1, 2, 3, "v"]',
        b'["a", "DOOR", -1, 2, 3, "v"]',
        b'["a", "DOOR", 1.5, 2, 3, "v"]',
        b'["a", "DOOR", true, 2, 3, "v"]',
        b'["a", "DOOR", 1, 99999999999999999999, 3, "v"]',
        b'[7, "DOOR", 1, 2, 3, "v"]',
        b'["a", ["DOOR"], 1, 2, 3, "v"]',
        b'["' + b"a" * 256 + b'", "DOOR", 1, 2, 3, "v"]',
        b"[" * 4000,
    ],
)
def test_other_values_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        Member.decoded(body)


def watched() -> tuple[LeaderEnd, DoorEnd]:
    """A leader and a door that watches it."""
    leader, door = LeaderEnd(SECRET), DoorEnd(SECRET, Preface(Role.CONTROL, "mark"))
    leader.receive(preface_of(leader, door))
    door.receive(leader.answer(Welcome.ACCEPTED))
    return leader, door


@given(st.lists(st.sampled_from([b"!", b"+"]) | st.binary(min_size=1, max_size=80).map(NOTE.__add__)), st.data())
def test_what_a_leader_tells_arrives_however_it_is_cut(told: list[bytes], drawn: st.DataObject) -> None:
    leader, door = watched()
    sent = b"".join(leader.note(each[1:]) if each.startswith(NOTE) else each for each in told)
    cuts = drawn.draw(st.lists(st.integers(0, len(sent)), max_size=5))
    assert [heard for piece in pieces(sent, cuts) for heard in door.heard(piece)] == told


@given(st.integers(5, 50), st.integers(1, 255))
def test_a_changed_byte_of_a_note_is_never_believed(place: int, change: int) -> None:
    leader, door = watched()
    sent = bytearray(leader.note(b"a session's ticket"))
    place %= len(sent)
    sent[place] ^= change
    heard: list[bytes] = []
    with contextlib.suppress(WireError):
        heard.extend(door.heard(bytes(sent)))
    assert all(not each.startswith(NOTE) for each in heard)


def test_no_note_is_left_out_said_again_or_said_to_another_door() -> None:
    leader, door = watched()
    first, second = leader.note(b"first"), leader.note(b"second")
    for sent in (second, first + first):
        with pytest.raises(Distrust):
            list(watched_again(leader, door).heard(sent))
    other, _ = watched()
    with pytest.raises(Distrust):
        list(watched_again(leader, door).heard(other.note(b"first")))
    assert list(door.heard(first + second)) == [NOTE + b"first", NOTE + b"second"]


def watched_again(leader: LeaderEnd, door: DoorEnd) -> DoorEnd:
    """A door with the same nonces that has heard nothing."""
    same = DoorEnd(SECRET, Preface(Role.CONTROL, "mark"))
    same._nonce, same._theirs = door._nonce, door._theirs
    return same


def test_a_note_has_a_limit() -> None:
    leader, door = watched()
    assert list(door.heard(leader.note(bytes(NOTE_BYTES_MAX)))) == [NOTE + bytes(NOTE_BYTES_MAX)]
    with pytest.raises(WireError, match="too long"):
        list(door.heard(leader.note(bytes(NOTE_BYTES_MAX + 1))))
