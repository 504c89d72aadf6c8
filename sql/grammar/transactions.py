"""BEGIN, COMMIT and ROLLBACK, with the syntax of PostgreSQL and MariaDB.

Spark has no such statements. If anything else follows BEGIN, the text is a script for Spark.
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
"""Accepted without effect: reads of materialized views are repeatable anyway, and writes are Spark's."""
_SNAPSHOT = ("WITH", "CONSISTENT", "SNAPSHOT")


def begin(grammar: Grammar) -> BeginTransaction | None:
    """Parses what follows BEGIN; None for a script for Spark."""
    grammar.accept_any(*_NOISE)
    snapshot = _modes(grammar)
    while grammar.accept(";"):
        pass
    return BeginTransaction(snapshot) if grammar.peek() is None else None


def start(grammar: Grammar) -> BeginTransaction:
    """Parses what follows START TRANSACTION."""
    snapshot = _modes(grammar)
    grammar.expect_end()
    return BeginTransaction(snapshot)


def _modes(grammar: Grammar) -> bool:
    """Parses the modes; True if the transaction fixes all views' versions at its start, not each at its first use."""
    snapshot = False
    while True:
        if grammar.accept(*_SNAPSHOT):
            snapshot = True
        elif not any(grammar.accept(*mode) for mode in _MODES):
            return snapshot
        grammar.accept(",")


def end(grammar: Grammar, *, commit: bool) -> EndTransaction:
    """Parses what follows COMMIT or ROLLBACK."""
    grammar.accept_any(*_NOISE)
    if not commit and grammar.sees("TO"):
        raise grammar.refusal(
            "savepoints are not supported: use ROLLBACK without TO; it ends the transaction and undoes no write",
            sqlstate=NOT_SUPPORTED,
        )
    chain = False
    if grammar.accept("AND"):
        chain = not grammar.accept("NO")
        grammar.expect("CHAIN")
    grammar.accept("NO", "RELEASE")
    grammar.expect_end()
    return EndTransaction(commit, chain)
