"""Functions whose value may differ from one run of a definition to the next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from sql.scan import Lexeme, lexemes, string_value

DATE_FUNCTIONS = frozenset(
    {
        "today",
        "tomorrow",
        "yesterday",
        "current_date",
        "curdate",
        "current_time",
        "current_timestamp",
        "localtimestamp",
        "now",
        "current_timezone",
    }
)
"""What `enable_nondeterministic_function` allows, as Doris has it: they are the same for all rows of one refresh.
(unix_timestamp() is printed as one of current_timestamp().)"""
CHANGING_FUNCTIONS = frozenset(
    {
        "rand",
        "random",
        "randn",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "current_user",
        "user",
        "session_user",
        "current_database",
        "current_schema",
        "current_catalog",
        "reflect",
        "try_reflect",
        "java_method",
    }
)
"""Of these every row, every session or every file layout has values of its own."""
WITHOUT_BRACKETS = frozenset(
    {"current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "user", "session_user"}
)
"""Called by their bare names, too, where no column has them."""
SAMPLE = "tablesample"
METADATA = "_metadata"
"""The hidden column with the name and time of the file that a row was read from."""
MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
"""Strings that Spark reads as such times, where it makes a date or a time of them."""
_TIME_TYPES = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz"})
_TO_TIME = _TIME_TYPES | {"cast", "try_cast", "to_date", "to_timestamp", "try_to_timestamp", "try_to_date"}
_ALL = DATE_FUNCTIONS | CHANGING_FUNCTIONS
_CALL = re.compile(r"(?<![\w.`])(\w+)\(")
# Blanks of one line: the plan shows a literal's line ends, and thousands of them must not be read from each one on.
_SAMPLE_NODE = re.compile(r"^[ \t:+|-]*+Sample ", re.MULTILINE)


def nondeterministic(query: str, plan: str) -> frozenset[str]:
    """The functions of these kinds that a query calls in the end, through views and SQL functions too; TABLESAMPLE
    without REPEATABLE among them.

    `plan` is what EXPLAIN EXTENDED prints, without any field left out. It shows literals without quotes: a name that
    stands before a bracket in a string of the query, and nowhere else in it, is no call.
    """
    analyzed = plan.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    found = {name.lower() for name in _CALL.findall(analyzed)} & _ALL
    pieces = list(lexemes(query))
    strings = "".join(piece.text.lower() for piece in pieces if piece.kind == "string")
    words = {piece.text.lower() for piece in pieces if piece.kind == "word"}
    calls = {piece.text.lower() for piece, after in pairwise(pieces) if after.text == "("} | (words & WITHOUT_BRACKETS)
    found = {name for name in found if name in calls or f"{name}(" not in strings}
    if _SAMPLE_NODE.search(analyzed) and "repeatable" not in words:
        found.add(SAMPLE)
    if METADATA in words and f"{METADATA}#" in analyzed:
        found.add(METADATA)
    return frozenset(found | _moments(pieces))


def _moments(pieces: Sequence[Lexeme]) -> set[str]:
    """Such strings where a time is made of them: DATE 'today', to_date('today'), CAST('now' AS TIMESTAMP)."""
    found = set()
    for at, piece in enumerate(pieces):
        if piece.kind != "string" or (text := string_value(piece.text).strip().lower()) not in MOMENTS:
            continue
        before = [each.text.lower() for each in pieces[max(0, at - 2) : at]]
        if before[-1:] and (before[-1] in _TIME_TYPES or (before[-1] == "(" and before[0] in _TO_TIME)):
            found.add(text)
    return found
