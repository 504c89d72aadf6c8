"""Matches the wildcard patterns of SHOW in time that does not grow exponentially with the number of wildcards.

A regular expression backtracks over every wildcard: eleven in a row take seconds for one name.
"""

from __future__ import annotations

from collections.abc import Callable

ANY = "*%"
"""The wildcards for any text: Spark's, and that of LIKE in SQL. Names of views contain neither."""
CHARACTERS_MAX = 1_000
ALTERNATIVES_MAX = 50
"""The maximum number of alternatives with a wildcard, each of which is tried with every name."""

Matches = Callable[[str], bool]


def problem(pattern: str, wildcards: str = ANY) -> str | None:
    """The requirement that a pattern violates; None if it is valid."""
    if len(pattern) > CHARACTERS_MAX:
        return f"a pattern of at most {CHARACTERS_MAX} characters, found {len(pattern)}"
    if len(_parsed(pattern, wildcards)[1]) > ALTERNATIVES_MAX:
        return f"at most {ALTERNATIVES_MAX} alternatives with a wildcard"
    return None


def matcher(pattern: str | None, wildcards: str = ANY) -> Matches:
    """A function that matches names like the pattern of Spark's SHOW TABLES: `wildcards` match any text, `|` separates
    alternatives, case is ignored. The pattern None matches everything."""
    if pattern is None:
        return lambda _: True
    names, globs = _parsed(pattern, wildcards)

    def matches(name: str) -> bool:
        folded = name.lower()
        return folded in names or any(_fits(folded, pieces) for pieces in globs)

    return matches


def _parsed(pattern: str, wildcards: str) -> tuple[frozenset[str], list[tuple[str, ...]]]:
    """The alternatives: names without wildcards, and the others split at their wildcards."""
    for wildcard in wildcards[1:]:
        pattern = pattern.replace(wildcard, wildcards[0])
    alternatives = dict.fromkeys(part.strip().lower() for part in pattern.split("|"))
    names = frozenset(each for each in alternatives if wildcards[0] not in each)
    return names, [tuple(each.split(wildcards[0])) for each in alternatives if each not in names]


def _fits(name: str, pieces: tuple[str, ...]) -> bool:
    """Whether a name consists of the pieces with any text between them. The leftmost match of each piece is the best
    one, because it leaves the most text to the following pieces."""
    first, *middle, last = pieces
    end = len(name) - len(last)
    if end < len(first) or not name.startswith(first) or not name.endswith(last):
        return False
    at = len(first)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
