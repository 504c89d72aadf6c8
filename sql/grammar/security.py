"""Parses SECURITY DEFINER | INVOKER, as Presto and Trino write it.

Tests: `test_parser`.
"""

from __future__ import annotations

from sql.grammar.cursor import Grammar
from sql.statement import Security


def security(grammar: Grammar) -> Security:
    """Parses what follows SECURITY."""
    return Security(grammar.expect_any("DEFINER", "INVOKER", after="SECURITY"))
