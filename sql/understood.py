"""One reading of a text, with all that the router asks of it; of a very long one in bounded space."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sql.classify import classify, glance
from sql.lexed import Lexed
from sql.reading import hidden
from sql.scan import skip_blank
from sql.statement import Forwarded, Glance, Statement
from sql.words import CHARACTERS_MAX, bounded

NAMES_MAX = 5_000
"""Names of one statement that are kept; one with more counts as reading and writing everything."""


@dataclass(frozen=True, slots=True)
class Understood:
    """What a text is."""

    statement: Statement
    look: Glance
    composes: bool
    """A name in it may be put together when it runs."""
    start: int
    """Where its first word stands, behind comments."""


def understood(text: str) -> Understood:
    """Raises SyntaxProblem for a faulty statement of ours."""
    lexed = Lexed(text)
    look = glance(lexed)
    statement = classify(lexed, look)
    if isinstance(statement, Forwarded):
        statement = with_few_names(statement)
    look = replace(look, words=bounded(look.words))
    return Understood(statement, look, hidden.composes(lexed, look.words), skip_blank(text))


def with_few_names(statement: Forwarded) -> Forwarded:
    """The statement, or what stands for one of too many names."""
    names = [*(reference.parts for reference in statement.reads), *statement.writes, *statement.calls]
    if len(names) <= NAMES_MAX and sum(len(part) for parts in names for part in parts) <= CHARACTERS_MAX:
        return statement
    reason = statement.reason or f"it has more than {NAMES_MAX} names"
    return replace(statement, reads=(), writes=(), calls=(), exact=False, everything=True, reason=reason)


def seen(text: str) -> Glance:
    """A glance, in bounded space."""
    look = glance(Lexed(text))
    return replace(look, words=bounded(look.words))
