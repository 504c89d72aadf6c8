"""Parses with sqlglot, in a bounded number of steps.

sqlglot tries what a text might mean and goes back if it is something else. In a nest of such attempts, each level
doubles the work: thirty calls within each other, each with a JOIN between its arguments, would take for ever. sqlglot
has no limit for this. Its compiled classes can neither be extended nor interrupted, and hold the interpreter's lock.
But each attempt looks up a word in one of three tables of the parser's class, which are replaced by tables that count.
So a parse ends after the same number of steps on any machine, and other threads run in between.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token

SPARK = Dialect.get_or_raise("spark")
STEPS = 500
"""The number of steps for a text of any length. A step takes up to six microseconds."""
STEPS_A_TOKEN = 1.5
"""What each token adds. Ordinary texts take less than one step per token, lists of types in types in types 1.3."""


class Doubt(Exception):
    """The text is not understood exactly."""


class _StepBudget(threading.local):
    """The steps that remain for the current parse of this thread. Without one, sqlglot is used by another program."""

    left: float = float("inf")


_steps = _StepBudget()


def _step() -> None:
    _steps.left -= 1
    if _steps.left < 0:
        raise Doubt("sqlglot would have to try too many readings")


class _CountedSet(set[Any]):
    def __contains__(self, key: object) -> bool:
        _step()
        return super().__contains__(key)


class _CountedMap(dict[Any, Any]):
    def __contains__(self, key: object) -> bool:
        _step()
        return super().__contains__(key)


COUNTED = {"UNARY_PARSERS": _CountedMap, "TYPE_TOKENS": _CountedSet, "JOIN_METHODS": _CountedSet}
"""Each operand of an expression is looked up in the first, each word that may begin a type in the second, and what
follows a relation in the third."""
for _name, _kind in COUNTED.items():
    setattr(SPARK.parser_class, _name, _kind(getattr(SPARK.parser_class, _name)))


def trees_of(tokens: Sequence[Token], text: str) -> list[exp.Expr | None]:
    """sqlglot's trees of a text's statements. Raises Doubt if it takes too many steps, and what sqlglot raises."""
    steps = _steps.left = STEPS + STEPS_A_TOKEN * len(tokens)
    try:
        found = SPARK.parser().parse(list(tokens), text)
        if _steps.left == steps and any(found):
            raise Doubt("this release of sqlglot has no limit for its steps")
        return found
    finally:
        _steps.left = float("inf")
