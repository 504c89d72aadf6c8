"""Finds statements about materialized views whose first words are misspelt.

Spark would refuse them with its whole grammar, or take `REFRESH MATERIALISED VIEW v` for the refresh of a path.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from sql.grammar.cursor import Grammar
from sql.scan import folded, skip_blank

FIRST_WORDS = frozenset({"create", "drop", "refresh", "alter", "show", "analyze", "pause", "resume", "cancel"})
"""No statement of Spark's has MATERIALIZED, however it is spelt, next to one of these, except REFRESH of a path."""
_MATERIALIZED = "materialized"
_VIEW = ("view", "views")
_SECOND_WORD = re.compile(r"\w+\s+(?:or\s+replace\s+)?(m\w{9,13})\s", re.IGNORECASE)
_LIKENESS = 0.74
"""Of MATERIALISED, MATERILIZED, MATERIALIZE and VEIW, but not of VALUES. As in `difflib`."""


def may_be(text: str) -> bool:
    """Whether the word after the first one may be a misspelt MATERIALIZED. A cheap check, which comments evade."""
    found = _SECOND_WORD.match(text, skip_blank(text))
    return found is not None and _is_materialized(found[1].lower())


def refuse(grammar: Grammar) -> None:
    """Raises SyntaxProblem if the text begins like a statement about a materialized view, with its words misspelt."""
    first = grammar.accept_any(*(word.upper() for word in FIRST_WORDS))
    if first is None:
        return
    if first == "CREATE":
        grammar.accept("OR", "REPLACE")
    kind, noun = _word(grammar, 0), _word(grammar, 1)
    is_exact = kind == _MATERIALIZED
    if is_exact or (_is_materialized(kind) and bool(get_close_matches(noun, _VIEW, cutoff=_LIKENESS))):
        if first == "REFRESH" and not noun:
            return
        if is_exact:
            grammar.take()
        expected = "VIEWS" if first == "SHOW" else "VIEW"
        raise grammar.problem(expected if is_exact else f"MATERIALIZED {expected}")


def _word(grammar: Grammar, distance: int) -> str:
    piece = grammar.peek(distance)
    return folded(piece.text) if piece is not None and piece.kind == "word" else ""


def _is_materialized(word: str) -> bool:
    return bool(get_close_matches(word, (_MATERIALIZED,), cutoff=_LIKENESS))
