"""Finds the names in a definition's text: tables, paths, table versions, and the functions that it may call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sql.definition.functions import FUNCTIONS, NO_FUNCTIONS
from sql.lexed import Lexed
from sql.names import FUNCTION, Namespace, Parts, TableName
from sql.reading import time_travel
from sql.reading.hidden import composes
from sql.reading.lineage import relations
from sql.scan import Lexeme, dotted_name, skip_blank


@dataclass(frozen=True, slots=True)
class Bases:
    """The names in a text."""

    relations: tuple[TableName, ...]
    """Tables, views and paths. `aspect` holds the clause after the name that selects a version of the table."""
    functions: tuple[TableName, ...]
    """Functions other than Spark's own that it may call, if they exist."""
    exact: bool
    """Whether all `relations` are certain to be relations. Otherwise they may be any words of the text."""
    composed: bool
    """Whether the text builds names at run time, which it does not contain."""


@lru_cache(maxsize=4_096)
def bases(text: str, namespace: Namespace) -> Bases:
    """The names in the text, with unqualified names resolved in `namespace`. Never raises."""
    lexed = Lexed(text)
    clauses = sorted(_clauses(lexed))
    # Not every parser knows these clauses. Blanks in their place keep all offsets.
    lineage = relations(lexed.without([(start, end) for start, end, _ in clauses]) if clauses else lexed)
    found = [
        replace(TableName.resolve(reference.parts, namespace), aspect=_aspect(text, clauses, reference.end))
        for reference in lineage.reads
    ]
    calls = set(_calls(lexed.pieces))
    if not lineage.exact:
        # In such a text, longer names may be any sequence of words and dots.
        calls |= {parts for parts in lineage.calls if len(parts) <= 2 and not _is_built_in(parts)}
    functions = [function_name(parts, namespace) for parts in sorted(calls)]
    composed = not lineage.exact and "identifier" in text.lower() and composes(lexed, {"identifier"})
    return Bases(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(functions)), lineage.exact, composed)


def of_expression(text: str, namespace: Namespace) -> Bases:
    """The names in an expression, such as the body of a SQL function."""
    return bases(f"SELECT {text}", namespace)


def function_name(parts: Parts, namespace: Namespace) -> TableName:
    database, catalog = namespace.database, namespace.catalog
    found = TableName.resolve(tuple(part.lower() for part in parts), Namespace(database, catalog))
    return replace(found, aspect=FUNCTION)


def _calls(pieces: Sequence[Lexeme]) -> Iterator[Parts]:
    """The names before a parenthesis, without Spark's own functions. Aliases with a column list are included."""
    place = 0
    while place < len(pieces):
        parts, after = dotted_name(pieces, place)
        if parts and after < len(pieces) and pieces[after].text == "(":
            quoted = pieces[after - 1].kind != "word"
            if not _is_built_in(parts) and (quoted or len(parts) > 1 or parts[0].lower() not in NO_FUNCTIONS):
                yield parts
        place = max(after, place + 1)


def _is_built_in(parts: Parts) -> bool:
    # An unqualified function name means Spark's own function first.
    return len(parts) == 1 and parts[0].lower() in FUNCTIONS


Span = tuple[int, int, str]
"""A clause after a relation's name: start, end, and a normalized text."""


def _clauses(lexed: Lexed) -> Iterator[Span]:
    """The clauses that select a relation's version or give it options."""
    folded = lexed.text.lower()
    if "of" in folded and ("version" in folded or "timestamp" in folded or "system_time" in folded):
        for travel in time_travel.find(lexed, len(lexed.text)):
            clause = (
                f"VERSION AS OF {travel.version}" if travel.version is not None else f"TIMESTAMP AS OF {travel.moment}"
            )
            yield travel.start, travel.end, clause
    if "with" in folded:
        yield from _options(lexed)


def _options(lexed: Lexed) -> Iterator[Span]:
    """The clauses WITH ('key' = 'value'). The WITH of a CTE has no parenthesis after it."""
    start, depth, before = -1, 0, None
    for piece in lexed.pieces:
        if start < 0 and piece.text == "(" and before is not None and before.text.upper() == "WITH":
            start = before.start
        if start >= 0 and piece.kind == "symbol":
            depth += {"(": 1, ")": -1}.get(piece.text, 0)
            if depth == 0:
                yield start, piece.end, lexed.text[start : piece.end]
                start = -1
        before = piece


def _aspect(text: str, clauses: list[Span], end: int) -> str:
    """The clauses that directly follow the position `end`."""
    following = []
    for start, after, clause in clauses:
        if skip_blank(text, end) == start:
            following.append(clause)
            end = after
    return " ".join(following)
