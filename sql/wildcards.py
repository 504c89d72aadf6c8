"""Patterns with wildcards, as SHOW has them, matched in time that grows with the name and not with the pattern's stars.

A regular expression tries each star with every length: eleven in a row take seconds for one name.
"""

from __future__ import annotations

from collections.abc import Callable

ANY = "*%"
"""Any text: to Spark, and to LIKE in SQL. No view's name has one of them in it."""
CHARACTERS_MAX = 1_000
ALTERNATIVES_MAX = 50
"""With a wildcard: each is tried with every name."""

Matches = Callable[[str], bool]


def problem(pattern: str, wildcards: str = ANY) -> str | None:
    """Why a pattern is not taken; None where it is."""
    if len(pattern) > CHARACTERS_MAX:
        return f"a pattern of at most {CHARACTERS_MAX} characters, found {len(pattern)}"
    if len(_parsed(pattern, wildcards)[1]) > ALTERNATIVES_MAX:
        return f"at most {ALTERNATIVES_MAX} alternatives with a wildcard"
    return None


def matcher(pattern: str | None, wildcards: str = ANY) -> Matches:
    """Spark's pattern of SHOW TABLES: each of the `wildcards` is any text, `|` separates alternatives, case does not
    count. None matches everything."""
    if pattern is None:
        return lambda _: True
    names, globs = _parsed(pattern, wildcards)

    def matches(name: str) -> bool:
        folded = name.lower()
        return folded in names or any(_fits(folded, pieces) for pieces in globs)

    return matches


def _parsed(pattern: str, wildcards: str) -> tuple[frozenset[str], list[tuple[str, ...]]]:
    """The alternatives: whole names, and those with wildcards as the texts between these."""
    for wildcard in wildcards[1:]:
        pattern = pattern.replace(wildcard, wildcards[0])
    alternatives = dict.fromkeys(part.strip().lower() for part in pattern.split("|"))
    names = frozenset(each for each in alternatives if wildcards[0] not in each)
    return names, [tuple(each.split(wildcards[0])) for each in alternatives if each not in names]


def _fits(name: str, pieces: tuple[str, ...]) -> bool:
    """Whether a name is the pieces with any texts between them. The leftmost place of each piece is the best one: it
    leaves the most to those behind it."""
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
