"""Mutates bytes as faulty and hostile peers do: randomly, truncated, with hostile lengths, reordered.

Pure, and without imports from this package, so that property tests can use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

LENGTHS = (0, 1, -1, 0x7FFFFFFF, -0x80000000, 0x7FFFFFF0, 1 << 24, 1 << 20, 65535, 128, 5)
"""Replacements of a 4-byte length or count."""
KINDS = bytes(range(18)) + b"\x7f\x80\xff"
"""Replacements of a type byte: Thrift's types, and others."""
NEST = b"\x0c\x00\x01"
LIST_OF_LISTS = b"\x0f\x00\x01" + b"\x0f\x00\x00\x00\x01" * 80
DEPTH = 300

Mutation = Callable[[bytearray, Random, Sequence[bytes]], None]


def flip(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """Flips a bit."""
    place = random.randrange(len(data))
    data[place] ^= 1 << random.randrange(8)


def replace(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """Replaces a byte with one that has a meaning in many places."""
    data[random.randrange(len(data))] = random.choice(KINDS)


def cut(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """Removes a range; often everything from an offset on."""
    start = random.randrange(len(data))
    end = len(data) if random.random() < 0.4 else min(len(data), start + random.randrange(1, 40))
    del data[start:end]


def double(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """Repeats a range: fields, values, whole messages."""
    start = random.randrange(len(data))
    stretch = data[start : start + random.randrange(1, 200)]
    data[start:start] = stretch


def splice(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """Inserts or substitutes a range of another message."""
    other = random.choice(others) if others else bytes(data)
    start = random.randrange(len(other) + 1)
    stretch = other[start : start + random.randrange(1, 200)]
    place = random.randrange(len(data) + 1)
    data[place : place + random.choice((0, len(stretch)))] = stretch


def resize(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """Changes what may be a length."""
    if len(data) < 4:
        return
    # Most lengths are small, so their first two bytes are zero.
    places = [place for place in range(len(data) - 3) if data[place] == 0 and data[place + 1] == 0]
    place = random.choice(places) if places and random.random() < 0.9 else random.randrange(len(data) - 3)
    old = int.from_bytes(data[place : place + 4], "big", signed=True)
    new = random.choice(LENGTHS) if random.random() < 0.6 else old + random.choice((-1, 1, 4, -4))
    data[place : place + 4] = (new & 0xFFFFFFFF).to_bytes(4, "big")


def nest(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """Inserts deeply nested structs or lists."""
    place = random.randrange(len(data) + 1)
    data[place:place] = random.choice((NEST * DEPTH, LIST_OF_LISTS))


def swap(data: bytearray, random: Random, others: Sequence[bytes]) -> None:
    """Swaps two ranges."""
    first, second, third = sorted(random.randrange(len(data) + 1) for _ in range(3))
    data[first:third] = data[second:third] + data[first:second]


MUTATIONS: tuple[Mutation, ...] = (flip, flip, replace, replace, resize, resize, cut, double, splice, nest, swap)
"""More likely mutations are listed twice."""


def mutated(data: bytes, random: Random, others: Sequence[bytes] = (), times: int = 1) -> bytes:
    """Returns the data after some mutations."""
    changed = bytearray(data)
    for _ in range(times):
        if not changed:
            break
        random.choice(MUTATIONS)(changed, random, others)
    return bytes(changed)


def reordered(messages: Sequence[bytes], random: Random) -> list[bytes]:
    """Returns the messages with some removed, repeated or moved."""
    changed = list(messages)
    for _ in range(random.randrange(1, 4)):
        if not changed:
            break
        place = random.randrange(len(changed))
        taken = changed[place] if random.random() < 0.5 else changed.pop(place)
        changed.insert(random.randrange(len(changed) + 1), taken)
        if random.random() < 0.3:
            changed.pop(random.randrange(len(changed)))
    return changed


def pieces(data: bytes, random: Random) -> list[bytes]:
    """Cuts the data at random: not at all, into some pieces, or, if it is short, into bytes."""
    way = random.random()
    if way < 0.4 or len(data) < 2:
        return [data] if data else []
    if way < 0.5 and len(data) < 400:
        return [data[place : place + 1] for place in range(len(data))]
    cuts = sorted({0, len(data), *(random.randrange(len(data)) for _ in range(random.randrange(1, 6)))})
    return [data[start:end] for start, end in pairwise(cuts)]
