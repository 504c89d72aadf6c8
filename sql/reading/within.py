"""The texts that a text may run: what its string literals hold, and the literals in those.

EXECUTE IMMEDIATE runs what a literal stands for, IDENTIFIER takes it for a name, and CALL hands it to a procedure. What
it stands for depends on settings that are not known here, so it counts as all of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sql.scan import Literals, marks, string_values

DEPTH_MAX = 4
"""Literals within literals. Each level doubles the backslashes of the one below."""
CHARACTERS_MAX = 400_000
"""Of all texts within one. Longer ones are not looked into."""


SIGNS = ("\\", "''", '""')
"""Where a literal holds none of these, it stands for the same under every setting."""
_SETTING = re.compile("(?:escaped|consecutive)StringLiterals", re.IGNORECASE)
"""One that may change between the texts."""


@dataclass(frozen=True, slots=True)
class Within:
    """Every text that may run, each once, the outermost first. Not `whole`: there are more, deeper or longer."""

    texts: tuple[str, ...] = ()
    whole: bool = True


@lru_cache(maxsize=8)
def within(text: str) -> Within:
    """What may run within `text`, itself left out. Never raises."""
    if "'" not in text and '"' not in text:
        return Within()
    if _SETTING.search(text) is not None:
        return Within(whole=False)
    found: dict[str, None] = {}
    left = CHARACTERS_MAX
    for setting in Literals if any(sign in text for sign in SIGNS) else [Literals.UNESCAPED]:
        level = [text]
        for _ in range(DEPTH_MAX):
            inner = dict.fromkeys(value for each in level for value in _values(each, setting))
            level = [each for each in inner if "'" in each or '"' in each]
            left -= sum(len(each) for each in inner)
            if left < 0:
                return Within(tuple(found), whole=False)
            found.update(inner)
        if any(_values(each, setting) for each in level):
            return Within(tuple(found), whole=False)
    return Within(tuple(found))


def _values(text: str, setting: Literals) -> list[str]:
    """What the literals of a text stand for; adjacent ones are one, as they are for Spark."""
    values = [string_values(run)[setting] for run in _runs(text)]
    if setting is not Literals.AS_WRITTEN:
        return values
    return [value for value in values if "\\" not in value or not _has_backslash(value)]


def _has_backslash(text: str) -> bool:
    """Whether one stands outside of quotes and comments: no such text is SQL, nor a name."""
    position = 0
    for mark in marks(text):
        if "\\" in text[position : mark.start]:
            return True
        position = mark.end
    return "\\" in text[position:]


def _runs(text: str) -> Iterator[list[str]]:
    run: list[str] = []
    position = 0
    for mark in marks(text):
        if run and not _is_blank(text[position : mark.start]):
            yield run
            run = []
        if mark.kind == "string":
            run.append(text[mark.start : mark.end])
        elif mark.kind == "quoted" and run:
            yield run
            run = []
        position = mark.end
    if run:
        yield run


def _is_blank(text: str) -> bool:
    return not text or text.isspace()
