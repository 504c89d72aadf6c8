"""Which settings of a session a statement changes or shows: SET, RESET, SET TIME ZONE, also within EXECUTE IMMEDIATE.

Tests: `test_setting_statements`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from sql.lexed import Lexed
from sql.reading import immediate
from sql.scan import Lexeme

TIME_ZONE = "spark.sql.session.timeZone"
ALIASES = {
    "mapred.reduce.tasks": "spark.sql.shuffle.partitions",
    "mapreduce.job.reduces": "spark.sql.shuffle.partitions",
}
"""Names by which SET sets another setting."""
KEY_PIECES_MAX = 200
"""A name of a setting has fewer words and points."""
LONG_CHARACTERS = 20_000
"""A longer script is not read for this."""
UNCLEAR = "?"
"""The name of a setting that cannot be told."""
_PREFIXES = re.compile(r"(?:(?:set|hiveconf|hivevar|metaconf|system|env|spark|sparkconf):)*+", re.IGNORECASE)
_LITERAL = re.compile(r"'([^'\\$]*)'|\"([^\"\\$]*)\"")
"""A text that means the same whatever the settings of literals are."""


class Does(Enum):
    """What a statement does with a setting."""

    SETS = "SET"
    RESETS = "RESET"
    SHOWS = "SHOW"


@dataclass(frozen=True, slots=True)
class SettingUse:
    """`name` is empty for all settings (RESET; SET and SET -v), or UNCLEAR."""

    does: Does
    name: str


def plain_name(key: str) -> str:
    """The name of a setting in a key of SET or of OpenSession's configuration, without prefixes such as
    `set:hiveconf:`, by which clients spell it. Case stays."""
    name = key.strip().strip("`").strip()
    name = name[_PREFIXES.match(name).end() :]  # type: ignore[union-attr] # It matches the empty text.
    return ALIASES.get(name.lower(), name)


def uses(lexed: Lexed) -> list[SettingUse]:
    """What the statement does with settings; empty if it surely leaves them alone."""
    first = lexed.at(0)
    word = first.text.lower() if first is not None and first.kind == "word" else ""
    variable = lexed.text.find("${")
    if variable >= 0 and (first is None or variable <= first.end):
        # Spark puts values of settings there before it reads the statement, which may then be any.
        return [SettingUse(Does.SETS, UNCLEAR)]
    match word:
        case "set" | "reset":
            return _set_or_reset(lexed, word)
        case "begin" | "execute" | "explain":
            return _executed(lexed, word)
    return []


def _set_or_reset(lexed: Lexed, word: str) -> list[SettingUse]:
    rest, assigns = list[Lexeme](), False
    while (piece := lexed.at(1 + len(rest))) is not None and len(rest) < KEY_PIECES_MAX:
        assigns = piece.kind != "quoted" and "=" in piece.text
        if assigns:
            break
        rest.append(piece)
    words = [each.text.upper() for each in rest[:2]]
    if len(rest) >= KEY_PIECES_MAX or any(each.text == "$" or "${" in each.text for each in rest):
        return [SettingUse(Does.SETS, UNCLEAR)]
    if words == ["TIME", "ZONE"] and word == "set":
        return [SettingUse(Does.SETS, TIME_ZONE)]
    is_other = words[:1] in (["VAR"], ["VARIABLE"], ["CATALOG"], ["ROLE"])
    if word == "set" and is_other and (len(words) > 1 or not assigns):
        return []
    head = piece.text.partition("=")[0] if assigns and piece is not None else ""
    name = plain_name("".join(each.text for each in rest).rstrip(";") + head)
    if word == "reset":
        return [SettingUse(Does.RESETS, name)]
    if assigns:
        return [SettingUse(Does.SETS, name or UNCLEAR)]
    return [SettingUse(Does.SHOWS, "" if name.lower() == "-v" else name)]


def _executed(lexed: Lexed, word: str) -> list[SettingUse]:
    """What the texts of EXECUTE IMMEDIATE do, also of those in a script. SET in a script sets its variables."""
    if word == "explain":
        return []  # Spark only plans what follows.
    if len(lexed.text) > LONG_CHARACTERS:
        return [SettingUse(Does.SETS, UNCLEAR)]
    pieces, found = lexed.pieces, list[SettingUse]()
    words = [piece.text.upper() if piece.kind == "word" else "" for piece in pieces]
    for place, pair in enumerate(pairwise(words)):
        if pair == ("EXECUTE", "IMMEDIATE") and place + 2 < len(pieces):
            end = next((at for at in range(place + 2, len(pieces)) if pieces[at].text == ";"), len(pieces))
            run = immediate.at(lexed, place + 2, end)
            literal = _LITERAL.fullmatch(run.expression.strip())
            if literal is None:
                found.append(SettingUse(Does.SETS, UNCLEAR))
            else:
                found += uses(Lexed(literal[1] if literal[1] is not None else literal[2]))
    return found
