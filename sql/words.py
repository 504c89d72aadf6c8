"""The words of a text as a set, or as a Bloom filter if there are very many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from zlib import crc32

WORDS_MAX = 20_000
"""The maximum number of words in a set; a text of 8 MiB may have millions."""
CHARACTERS_MAX = 500_000
"""The maximum length of all words in a set; a single word may have megabytes."""
_BITS_A_WORD = 32
_BITS_MAX = 1 << 23
"""With more than 262,144 words there are fewer bits for each, so more other words seem to be contained."""
_SEEDS = (0, 0x9E3779B9, 0x85EBCA6B)


class Words(Protocol):
    """The interface of both forms."""

    def __contains__(self, word: object, /) -> bool: ...

    def isdisjoint(self, others: Iterable[str], /) -> bool: ...

    def __and__(self, others: frozenset[str], /) -> frozenset[str]: ...


class ManyWords:
    """A Bloom filter, mostly with four bytes per word: it contains all words of the text, and one in a thousand others.
    It is not iterable, so it must be the left operand of `&` and `isdisjoint`."""

    __slots__ = ("_bits", "has_paths")

    def __init__(self, words: frozenset[str]) -> None:
        self.has_paths = any(map(_is_path, words))
        bits = min(len(words) * _BITS_A_WORD, _BITS_MAX - 1)
        self._bits = bytearray((1 << bits.bit_length()) // 8)
        for word in words:
            for place in self._places(word):
                self._bits[place >> 3] |= 1 << (place & 7)

    def _places(self, word: str) -> Iterable[int]:
        data, last = word.encode("utf-8", "surrogatepass"), len(self._bits) * 8 - 1
        return (crc32(data, seed) & last for seed in _SEEDS)

    def __contains__(self, word: object, /) -> bool:
        if not isinstance(word, str):
            return False
        return all(self._bits[place >> 3] & (1 << (place & 7)) for place in self._places(word))

    def isdisjoint(self, others: Iterable[str], /) -> bool:
        return not any(word in self for word in others)

    def __and__(self, others: frozenset[str], /) -> frozenset[str]:
        return frozenset(word for word in others if word in self)


def bounded(words: Words) -> Words:
    """The words, in bounded space."""
    if not isinstance(words, frozenset) or (len(words) <= WORDS_MAX and sum(map(len, words)) <= CHARACTERS_MAX):
        return words
    return ManyWords(words)


def may_hold_path(words: Words) -> bool:
    """Whether one of the words may be a path, such as the table's name in delta.`/lake/sales`."""
    return (
        words.has_paths if isinstance(words, ManyWords) else isinstance(words, frozenset) and any(map(_is_path, words))
    )


def _is_path(word: str) -> bool:
    return "/" in word
