"""EXECUTE IMMEDIATE: the expression whose value it executes."""

from __future__ import annotations

import re

from sql.lexed import Lexed

_LITERAL = re.compile(r"\s*'\s*(\w+)\b[^'\\]*'\s*", re.ASCII)
"""A text that means the same whatever the settings of literals are."""


def first_word(lexed: Lexed) -> str:
    """The first word of the statement that EXECUTE IMMEDIATE executes, in lower case, if that is a plain literal;
    otherwise empty. A name in it may still be built at run time."""
    found = argument(lexed)
    if found is None or "${" in lexed.text:
        return ""
    literal = _LITERAL.fullmatch(found[0])
    return "" if literal is None else literal[1].lower()


def argument(lexed: Lexed) -> tuple[str, str] | None:
    """The expression that EXECUTE IMMEDIATE executes and its USING clause; None for other statements."""
    text, pieces = lexed.text, lexed.pieces
    words = [piece.text.upper() if piece.kind == "word" else "" for piece in pieces]
    if words[:2] != ["EXECUTE", "IMMEDIATE"] or len(words) < 3:
        return None
    places = {word: place for place, word in enumerate(words) if word in {"INTO", "USING"} and place > 2}
    end = pieces[min(places.values())].start if places else len(text.rstrip("; \t\r\n"))
    return text[pieces[2].start : end].rstrip(), text[pieces[places["USING"]].start :] if "USING" in places else ""
