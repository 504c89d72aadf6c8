"""What the first word of a statement tells about it."""

from __future__ import annotations

from sql.statement import Glance
from sql.understood import Understood

_QUERYING = frozenset({"select", "values", "table", "show", "describe", "desc", "explain", "list", "help"})
_TENDING = frozenset({"set", "reset", "use", "cache", "uncache", "refresh", "clear", "analyze"})
READING = _QUERYING | _TENDING
"""First words of statements that never change a table; `with`, `from` and `map` may lead to an INSERT or MERGE."""
WRITING_WORDS = frozenset({"insert", "merge", "update", "delete", "into"})
ROW_CHANGES = frozenset({"insert", "merge", "update", "delete", "load", "truncate", "with", "from", "map", "reduce"})
"""First words of statements that change only the rows of a table."""


def may_write(look: Glance) -> bool:
    """Whether a statement may change a table."""
    if look.keyword in READING:
        return look.keyword == "explain" and "immediate" in look.words  # EXPLAIN runs it.
    return look.keyword not in {"with", "from", "map", "reduce"} or not look.words.isdisjoint(WRITING_WORDS)


def may_write_after_all(known: Understood) -> bool:
    """Like `may_write`, also for a statement that variables may change, and one that changes statistics."""
    look = known.look
    return may_write(look) or look.keyword == "analyze" or ("${" in known.text and bool(known.sparks.writes))
