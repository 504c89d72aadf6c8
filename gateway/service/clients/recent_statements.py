"""The statements that ended last: how each was answered, and what it waited for.

Tests: `test_recent_statements`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from sql.names import TableName

STATEMENTS_MAX = 2_000
CHARACTERS_MAX = 4_000_000
"""Of their texts and errors together. The oldest statements are forgotten first."""


@dataclass(frozen=True, slots=True)
class EndedStatement:
    """One statement. Times are milliseconds since the epoch; texts are as the client sent them, and may hold secrets
    (`sql.redaction`)."""

    number: int
    """As in the log and the audit."""
    user: str
    account: str
    """Who has logged in, if that is another user."""
    peer: str
    session: str
    began: int
    took_ms: int
    waited_ms: int
    """Of that, for refreshes, and for its turn."""
    taken_for: str
    outcome: str
    sqlstate: str
    error: str
    views: frozenset[TableName]
    """Materialized views that it names, directly or through other views."""
    refreshed: tuple[TableName, ...]
    answered_from: tuple[str, ...]
    """The ids of the views whose rows answered it although it does not name them."""
    why_not: str
    """Why no view answered a query on base tables of views that take part in rewriting."""
    from_memory: bool
    characters: int
    text: str
    """Its first characters, at most `TEXT_CHARACTERS_MAX`."""

    @property
    def is_cut(self) -> bool:
        return len(self.text) < self.characters


class RecentStatements:
    """Keeps a bounded number of them."""

    def __init__(self, most: int = STATEMENTS_MAX, characters: int = CHARACTERS_MAX) -> None:
        self._most, self._characters_max = most, characters
        self._kept = deque[EndedStatement]()
        self._characters = 0

    def add(self, ended: EndedStatement) -> None:
        if is_look(ended):
            return
        self._kept.append(ended)
        self._characters += _size(ended)
        while len(self._kept) > self._most or self._characters > self._characters_max:
            self._characters -= _size(self._kept.popleft())

    def __iter__(self) -> Iterator[EndedStatement]:
        """The last one first."""
        return reversed(self._kept)


def is_look(ended: EndedStatement) -> bool:
    """Whether a statement did nothing but look at the gateway, as `freshgate status --watch` does again and again: soon
    there would be no others."""
    if ended.outcome != "succeeded" or ended.is_cut:
        return False
    words = ended.text.lower().rstrip("; ").split()
    if words[:1] != ["select"] or "from" not in words or sum("select" in word for word in words) > 1:
        return words == ["show", "gateways"]
    source, following = [*words[words.index("from") + 1 :], "", ""][:2]
    own = source.startswith(OWN) and source.removeprefix(OWN).isidentifier()
    return (own or source in LOOKS) and following in {"", "where", "order", "limit"}


OWN, LOOKS = "freshgate.", frozenset({'tasks("type"="mv")', 'jobs("type"="mv")'})


def _size(ended: EndedStatement) -> int:
    return len(ended.text) + len(ended.error)
