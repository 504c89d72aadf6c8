"""Functions whose value may differ from one run of a definition to the next."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

from sql.scan import Lexeme, lexemes, string_values

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
COMPUTED = "cast"
"""A constant text that is computed, where a date or time is made of it: it may become such a string."""
UNSEEDED = "aes_encrypt"
"""Draws an initialization vector by itself, unless it is given one, or needs none."""
HIVE_CLASSES = frozenset(
    {
        "UDFUUID",
        "UDFRand",
        "UDFUnixTimeStamp",
        "GenericUDFUnixTimeStamp",
        "GenericUDFCurrentDate",
        "GenericUDFCurrentTimestamp",
        "GenericUDFCurrentUser",
        "GenericUDFLoggedInUser",
        "GenericUDFCurrentGroups",
        "GenericUDFCurrentDatabase",
        "GenericUDFCurrentCatalog",
        "GenericUDFCurrentSchema",
        "GenericUDFSurrogateKey",
        "GenericUDFInFile",
    }
)
"""Hive's own, which a function can be created from. Others are trusted, and those of users: no plan tells of them."""
_TIME_TYPES = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz"})
_TO_TIME = _TIME_TYPES | {"cast", "try_cast", "to_date", "to_timestamp", "try_to_timestamp", "try_to_date"}
_ALL = DATE_FUNCTIONS | CHANGING_FUNCTIONS
_CALL = re.compile(r"(?<![\w.`])(\w+)\(")
_CLASS = re.compile(r"\b(?:Hive\w+#|HiveFunctionWrapper\()org\.apache\.hadoop\.hive\.ql\.udf\.(?:\w+\.)?(\w+)\b")
_SAMPLE_NODE = re.compile(r"^[ :+|-]*Sample ", re.MULTILINE)


def nondeterministic(query: str, plan: str, below: Iterable[str] = ()) -> frozenset[str]:
    """The functions of these kinds that a query calls in the end, through views and SQL functions too; TABLESAMPLE
    without REPEATABLE among them.

    `plan` is what EXPLAIN EXTENDED prints, without any field left out. It shows literals without quotes: a name that
    stands before a bracket in a string of the query, and nowhere else in it, is no call. It shows DATE 'today' as the
    date that it was, so `below` are the texts of the views that the query reads.
    """
    analyzed = plan.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    found = {name.lower() for name in _CALL.findall(analyzed)} & _ALL
    pieces = list(lexemes(query))
    strings = "".join(piece.text.lower() for piece in pieces if piece.kind == "string")
    words = {piece.text.lower() for piece in pieces if piece.kind == "word"}
    calls = {piece.text.lower() for piece, after in pairwise(pieces) if after.text == "("} | (words & WITHOUT_BRACKETS)
    found = {name for name in found if name in calls or f"{name}(" not in strings}
    found |= HIVE_CLASSES.intersection(_CLASS.findall(analyzed))
    if _SAMPLE_NODE.search(analyzed) and "repeatable" not in words:
        found.add(SAMPLE)
    if METADATA in words and f"{METADATA}#" in analyzed:
        found.add(METADATA)
    shown = list(_calls(analyzed, {UNSEEDED, *_CASTS, *_PARSED, *_COERCING}))
    if any(name == UNSEEDED and _draws(arguments) for name, arguments in shown):
        found.add(UNSEEDED)
    return frozenset(found.union(_times_made(shown), *(_moments(list(lexemes(text))) for text in (query, *below))))


def _moments(pieces: Sequence[Lexeme]) -> set[str]:
    """Such strings where a time is made of them: DATE 'today', to_date('today'), CAST('now' AS TIMESTAMP)."""
    found = set()
    for at, piece in enumerate(pieces):
        if piece.kind != "string" or (at and pieces[at - 1].kind == "string"):
            continue
        run = [each.text for each in takewhile(lambda each: each.kind == "string", pieces[at:])]
        moments = {moment for value in string_values(run).values() if (moment := _moment(value))}
        before = [each.text.lower() for each in pieces[max(0, at - 2) : at]]
        if before[-1:] and (before[-1] in _TIME_TYPES or (before[-1] == "(" and before[0] in _TO_TIME)):
            found |= moments
    return found


_MOMENT = re.compile(rf"\s*({'|'.join(sorted(MOMENTS))})", re.IGNORECASE)
_MOMENT_WITHIN = re.compile(rf"(?<![\w#])({'|'.join(sorted(MOMENTS))})\b(?![#(])", re.IGNORECASE)


def _moment(text: str) -> str:
    """A time zone may follow it, as in 'today CET'."""
    found = _MOMENT.match(text)
    return found[1].lower() if found else ""


# --- what Spark's analyzed plan shows ----------------------------------------------------------------

_Call = tuple[str, str]
_CASTS = ("cast", "try_cast")
_TYPED_CHARACTERS = len(" as timestamp_ltz")
_TYPED = re.compile(r" as (?:date|timestamp|timestamp_ltz|timestamp_ntz)\Z")
_TYPED_OTHERWISE = re.compile(
    r"(?:try_)?cast\(.* as (?!string\b|varchar\b|char\b)[a-z_]+(?:\([\d,]*\))?\)\Z", re.DOTALL
)
_PARSED = ("to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz", "try_to_date", "try_to_timestamp")
_OF_TIMES = re.compile(
    r"(?:try_)?(?:make_date|make_timestamp\w*|date_add|date_sub|dateadd|timestampadd|add_months|last_day|next_day|trunc"
    r"|date_trunc|to_date|to_timestamp\w*|date_from_unix_date|timestamp_\w+|from_utc_timestamp|to_utc_timestamp"
    r"|convert_timezone|current_\w+|now|localtimestamp|unix_\w+)\(.*\)\Z",
    re.DOTALL,
)
"""Calls whose value is no text."""
_COERCING = ("between", "nullif", "nvl", "nvl2", "ifnull", "equal_null", "decode")
"""Functions in whose arguments the plan does not show that a time is made of a text."""


def _times_made(calls: Iterable[_Call]) -> set[str]:
    """Of constant texts: Spark reads `today` where that can be computed without a row, whoever wrote the cast."""
    found: set[str] = set()
    for name, argument in calls:
        if name in _CASTS:
            if typed := _TYPED.search(argument, max(0, len(argument) - _TYPED_CHARACTERS)):
                found |= _made_of(argument[: typed.start()])
        elif name in _PARSED:
            first, *others = _parted(argument)
            if others[:1] in ([], ["None"]):
                found |= _made_of(first)
        elif name in _COERCING:
            constants = (each for each in _parted(argument) if "#" not in each)
            found.update(within[1].lower() for each in constants if (within := _MOMENT_WITHIN.search(each)))
    return found


def _made_of(text: str) -> set[str]:
    if "#" in text:  # a column's value: there 'today' is no time
        return set()
    if "(" not in text:
        within = _MOMENT_WITHIN.search(text) if " " in text.strip() else _MOMENT.match(text)
        return {within[1].lower()} if within else set()
    text = text.strip()
    known = text.startswith("(") or _TYPED_OTHERWISE.match(text) or _OF_TIMES.match(text)
    return set() if known else {COMPUTED}


def _draws(arguments: str) -> bool:
    """Whether aes_encrypt(input, key, mode, padding, iv, aad) draws a vector: ECB needs none."""
    parts = _parted(arguments)
    mode, vector = (parts[-4].strip(), parts[-2].strip()) if len(parts) >= 6 else ("", "")
    return mode.upper() != "ECB" and vector in ("", "cast( as binary)", "cast(null as binary)", "null")


_SIGN = re.compile(r"(?<![\w.`])(\w+)\(|[()\n]")
_ARGUMENTS_CHARACTERS_MAX = 2_000
"""Nobody computes a constant with more; and calls within calls must not take quadratic time."""


def _calls(plan: str, names: Container[str]) -> Iterator[_Call]:
    """The calls of these functions, each with what stands in its brackets. No call goes on in the next line."""
    opened: list[tuple[str, int]] = []
    for found in _SIGN.finditer(plan):
        sign = found.group()
        if sign == "\n":
            opened.clear()
        elif sign != ")":
            opened.append((found[1] or "", found.end()))
        elif opened:
            name, start = opened.pop()
            if name in names and found.start() - start <= _ARGUMENTS_CHARACTERS_MAX:
                yield name, plan[start : found.start()]


def _parted(arguments: str) -> list[str]:
    """By the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for found in re.finditer(r"[()]|, ", arguments):
        sign = found.group()
        if sign == ", " and not depth:
            parts.append(arguments[start : found.start()])
            start = found.end()
        depth += {"(": 1, ")": -1}.get(sign, 0)
    return [*parts, arguments[start:]]
