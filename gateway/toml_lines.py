"""Finds the line of each key in a TOML file, for messages. The standard library's parser does not tell it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_PART = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\w-]+)"""
_NAME = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_TABLE = re.compile(rf"[ \t]*\[\[?[ \t]*({_NAME})[ \t]*\]")
_KEY = re.compile(rf"[ \t]*({_NAME})[ \t]*=")
_QUOTES = re.compile(r"\"{3}|'{3}")


def lines_of(text: str) -> Mapping[str, int]:
    """Maps the dotted name of each key to its line, counted from 1. Keys in inline tables are missing."""
    found: dict[str, int] = {}
    table = ""
    within = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not within:
            if head := _TABLE.match(line):
                table = f"{_dotted(head[1])}."
            elif key := _KEY.match(line):
                found.setdefault(table + _dotted(key[1]), number)
        for quotes in _QUOTES.findall(line):
            # The other kind of quotes is text within a string of several lines.
            within = quotes if not within else "" if quotes == within else within
    return found


def _dotted(name: str) -> str:
    return ".".join(_plain(part) for part in re.findall(_PART, name))


def _plain(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1]
    if not part.startswith('"'):
        return part
    try:
        return str(json.loads(part))
    except ValueError:  # An escape that only TOML has.
        return part[1:-1]
