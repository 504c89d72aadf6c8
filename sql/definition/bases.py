"""What a definition's text reads, as names: tables, paths, versions of tables, and the functions that it may call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from sql.definition.functions import FUNCTIONS, NO_FUNCTIONS
from sql.names import FUNCTION, Namespace, TableName
from sql.reading import time_travel
from sql.reading.hidden import composes
from sql.reading.lineage import relations
from sql.scan import dotted_name, lexemes, skip_blank
from sql.statement import Parts


@dataclass(frozen=True, slots=True)
class Bases:
    """What a text names."""

    relations: tuple[TableName, ...]
    """Tables and views, and paths; with the clause behind the name that says which of a table's versions is read."""
    functions: tuple[TableName, ...]
    """Functions that it may call beside Spark's own, if there are such."""
    exact: bool
    """All `relations` are relations. Otherwise they may be any words of the text."""
    composed: bool
    """There are names that do not stand in the text, for they are put together when it runs."""


@lru_cache(maxsize=4_096)
def bases(text: str, namespace: Namespace) -> Bases:
    """What the text names, unqualified names resolved in `namespace`. Never raises."""
    clauses = list(_clauses(text))
    # Not every reader of queries knows these clauses; without them each place in the text is what it was.
    lineage = relations(_blanked(text, clauses))
    found = [
        replace(TableName.resolve(reference.parts, namespace), aspect=_aspect(text, clauses, reference.end))
        for reference in lineage.reads
    ]
    calls = set(_calls(text))
    if not lineage.exact:
        # Longer names in such a text are any chains of words.
        calls |= {parts for parts in lineage.calls if len(parts) <= 2 and not _is_built_in(parts)}
    functions = [function_name(parts, namespace) for parts in sorted(calls)]
    composed = not lineage.exact and "identifier" in text.lower() and composes(text, {"identifier"})
    return Bases(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(functions)), lineage.exact, composed)


def of_expression(text: str, namespace: Namespace) -> Bases:
    """What an expression names, such as the body of a SQL function."""
    return bases(f"SELECT {text}", namespace)


def function_name(parts: Parts, namespace: Namespace) -> TableName:
    database, catalog = namespace.database, namespace.catalog
    found = TableName.resolve(tuple(part.lower() for part in parts), Namespace(database, catalog))
    return replace(found, aspect=FUNCTION)


def _calls(text: str) -> Iterator[Parts]:
    """The names that stand before a bracket and are none of Spark's own functions; aliases with columns among them."""
    pieces = list(lexemes(text))
    place = 0
    while place < len(pieces):
        parts, after = dotted_name(pieces, place)
        if parts and after < len(pieces) and pieces[after].text == "(":
            quoted = pieces[after - 1].kind != "word"
            if not _is_built_in(parts) and (quoted or len(parts) > 1 or parts[0].lower() not in NO_FUNCTIONS):
                yield parts
        place = max(after, place + 1)


def _is_built_in(parts: Parts) -> bool:
    # Of functions with one name Spark takes its own first.
    return len(parts) == 1 and parts[0].lower() in FUNCTIONS


Span = tuple[int, int, str]
"""A clause behind a relation's name: from where to where, and what it says."""


def _clauses(text: str) -> Iterator[Span]:
    """The clauses that say which version of a relation is read, or how, in their order."""
    folded = text.lower()
    if "of" in folded and ("version" in folded or "timestamp" in folded or "system_time" in folded):
        for travel in time_travel.find(text, len(text)):
            said = (
                f"VERSION AS OF {travel.version}" if travel.version is not None else f"TIMESTAMP AS OF {travel.moment}"
            )
            yield travel.start, travel.end, said
    if "with" in folded:
        yield from _options(text)


def _options(text: str) -> Iterator[Span]:
    """The clauses WITH ('key' = 'value'); before a CTE the word has no bracket behind it."""
    start, depth, before = -1, 0, None
    for piece in lexemes(text):
        if start < 0 and piece.text == "(" and before is not None and before.text.upper() == "WITH":
            start = before.start
        if start >= 0 and piece.kind == "symbol":
            depth += {"(": 1, ")": -1}.get(piece.text, 0)
            if depth == 0:
                yield start, piece.end, text[start : piece.end]
                start = -1
        before = piece


def _blanked(text: str, clauses: list[Span]) -> str:
    for start, end, _ in clauses:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def _aspect(text: str, clauses: list[Span], end: int) -> str:
    """What the clauses say that stand right behind `end`."""
    said = []
    for start, after, clause in sorted(clauses):
        if skip_blank(text, end) == start:
            said.append(clause)
            end = after
    return " ".join(said)
