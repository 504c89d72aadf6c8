"""BEGIN, COMMIT and ROLLBACK, as PostgreSQL and MariaDB write them.

Spark knows none of them. A text that begins with BEGIN is Spark's script where anything else follows.
"""

from __future__ import annotations

from sql.grammar.cursor import NOT_SUPPORTED, Grammar
from sql.statement import BeginTransaction, EndTransaction

FIRST_WORDS = frozenset({"begin", "start", "commit", "rollback"})
_NOISE = ("WORK", "TRANSACTION")
_MODES = (
    ("READ", "ONLY"),
    ("READ", "WRITE"),
    ("ISOLATION", "LEVEL", "READ", "UNCOMMITTED"),
    ("ISOLATION", "LEVEL", "READ", "COMMITTED"),
    ("ISOLATION", "LEVEL", "REPEATABLE", "READ"),
    ("ISOLATION", "LEVEL", "SERIALIZABLE"),
    ("NOT", "DEFERRABLE"),
    ("DEFERRABLE",),
)
"""Taken, without a meaning of their own: reads of materialized views are repeatable, and writes are Spark's."""
_SNAPSHOT = ("WITH", "CONSISTENT", "SNAPSHOT")


def begin(grammar: Grammar) -> BeginTransaction | None:
    """What follows BEGIN; None for a script of Spark's."""
    grammar.accept_any(*_NOISE)
    snapshot = _modes(grammar)
    while grammar.accept(";"):
        pass
    return BeginTransaction(snapshot) if grammar.peek() is None else None


def start(grammar: Grammar) -> BeginTransaction:
    """What follows START TRANSACTION."""
    snapshot = _modes(grammar)
    grammar.expect_end()
    return BeginTransaction(snapshot)


def _modes(grammar: Grammar) -> bool:
    """Whether every view's version counts from the beginning, not from its first use."""
    snapshot = False
    while True:
        if grammar.accept(*_SNAPSHOT):
            snapshot = True
        elif not any(grammar.accept(*mode) for mode in _MODES):
            return snapshot
        grammar.accept(",")


def end(grammar: Grammar, *, commit: bool) -> EndTransaction:
    """What follows COMMIT or ROLLBACK."""
    grammar.accept_any(*_NOISE)
    if not commit and grammar.sees("TO"):
        raise grammar.refusal(
            "there are no savepoints: ROLLBACK ends the transaction, and undoes no write", sqlstate=NOT_SUPPORTED
        )
    chain = False
    if grammar.accept("AND"):
        chain = not grammar.accept("NO")
        grammar.expect("CHAIN")
    grammar.accept("NO", "RELEASE")
    grammar.expect_end()
    return EndTransaction(commit, chain)
