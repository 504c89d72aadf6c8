"""Finds functions whose value may differ from one run of a definition to the next."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

from sql.lexed import Lexed
from sql.scan import Lexeme, string_values

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
"""The functions that `enable_nondeterministic_function` allows, as in Doris: they have one value for all rows of a
refresh. (Spark's plan shows unix_timestamp() as one of current_timestamp().)"""
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
"""Functions whose value depends on the row, the session or the file layout."""
WITHOUT_PARENTHESES = frozenset(
    {"current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "user", "session_user"}
)
"""Functions that can also be called without parentheses, unless a column has that name."""
SAMPLE = "tablesample"
OPTIMIZED = "== Optimized Logical Plan =="
"""What follows the analyzed plan in the output of EXPLAIN EXTENDED."""
METADATA = "_metadata"
"""The hidden column with the name and time of the file that a row was read from."""
MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
"""Strings that mean these times when Spark converts them to a date or timestamp."""
COMPUTED = "cast"
"""Stands for a conversion of a computed constant to a date or timestamp: its value may be one of MOMENTS."""
UNSEEDED = "aes_encrypt"
"""This function generates a random initialization vector, unless one is given or its mode needs none."""
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
"""Hive's nondeterministic classes, from which a function can be created. Other classes, and those of users, are
trusted, because no plan shows what they do."""
_TIME_TYPES = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz"})
_TO_TIME = _TIME_TYPES | {"cast", "try_cast", "to_date", "to_timestamp", "try_to_timestamp", "try_to_date"}
_ALL = DATE_FUNCTIONS | CHANGING_FUNCTIONS
_CALL = re.compile(r"(?<![\w.`])(\w+)\(")
_CLASS = re.compile(r"\b(?:Hive\w+#|HiveFunctionWrapper\()org\.apache\.hadoop\.hive\.ql\.udf\.(?:\w+\.)?(\w+)\b")
_SAMPLE_NODE = re.compile(r"^[ :+|-]*Sample ", re.MULTILINE)


def nondeterministic(query: str, plan: str, below: Iterable[str] = ()) -> frozenset[str]:
    """The nondeterministic functions that a query calls, also through views and SQL functions, and TABLESAMPLE without
    REPEATABLE.

    `plan` is the complete output of EXPLAIN EXTENDED. It shows literals without quotes, so a name before a parenthesis
    is not a call if the query has it only within a string. It shows DATE 'today' as a plain date, so the query itself
    is searched for such literals, and so are the texts of the views that it reads (`below`).
    """
    analyzed = plan.partition("== Analyzed Logical Plan ==")[2].partition(OPTIMIZED)[0]
    found = {name.lower() for name in _CALL.findall(analyzed)} & _ALL
    pieces = Lexed(query).pieces
    strings = "".join(piece.text.lower() for piece in pieces if piece.kind == "string")
    words = {piece.text.lower() for piece in pieces if piece.kind == "word"}
    calls = {piece.text.lower() for piece, after in pairwise(pieces) if after.text == "("} | (
        words & WITHOUT_PARENTHESES
    )
    found = {name for name in found if name in calls or f"{name}(" not in strings}
    found |= HIVE_CLASSES.intersection(_CLASS.findall(analyzed))
    if _SAMPLE_NODE.search(analyzed) and "repeatable" not in words:
        found.add(SAMPLE)
    if METADATA in words and f"{METADATA}#" in analyzed:
        found.add(METADATA)
    shown = list(_calls(analyzed, {UNSEEDED, *_CASTS, *_PARSED, *_COERCING}))
    if any(name == UNSEEDED and _generates_vector(arguments) for name, arguments in shown):
        found.add(UNSEEDED)
    return frozenset(
        found.union(_constant_times(shown), _moments(pieces), *(_moments(Lexed(text).pieces) for text in below))
    )


def _moments(pieces: Sequence[Lexeme]) -> set[str]:
    """MOMENTS that are converted to a time: DATE 'today', to_date('today'), CAST('now' AS TIMESTAMP)."""
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
    """The moment that `text` begins with; a time zone may follow it ('today CET'). Empty if there is none."""
    found = _MOMENT.match(text)
    return found[1].lower() if found else ""


# --- calls in Spark's analyzed plan -------------------------------------------------------------------

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
"""Calls whose value is not a string."""
_COERCING = ("between", "nullif", "nvl", "nvl2", "ifnull", "equal_null", "decode")
"""Functions that implicitly convert a string to a time, which the plan does not show."""


def _constant_times(calls: Iterable[_Call]) -> set[str]:
    """The moments in constants that are converted to a time. Spark resolves `today` in every constant expression,
    also if Spark itself has added the cast."""
    found: set[str] = set()
    for name, argument in calls:
        if name in _CASTS:
            if typed := _TYPED.search(argument, max(0, len(argument) - _TYPED_CHARACTERS)):
                found |= _moments_in(argument[: typed.start()])
        elif name in _PARSED:
            first, *others = _split_arguments(argument)
            if others[:1] in ([], ["None"]):
                found |= _moments_in(first)
        elif name in _COERCING:
            constants = (each for each in _split_arguments(argument) if "#" not in each)
            found.update(within[1].lower() for each in constants if (within := _MOMENT_WITHIN.search(each)))
    return found


def _moments_in(text: str) -> set[str]:
    if "#" in text:  # a column: Spark does not resolve 'today' in its values
        return set()
    if "(" not in text:
        within = _MOMENT_WITHIN.search(text) if " " in text.strip() else _MOMENT.match(text)
        return {within[1].lower()} if within else set()
    text = text.strip()
    known = text.startswith("(") or _TYPED_OTHERWISE.match(text) or _OF_TIMES.match(text)
    return set() if known else {COMPUTED}


def _generates_vector(arguments: str) -> bool:
    """Whether aes_encrypt(input, key, mode, padding, iv, aad) generates its vector; the mode ECB needs none."""
    parts = _split_arguments(arguments)
    mode, vector = (parts[-4].strip(), parts[-2].strip()) if len(parts) >= 6 else ("", "")
    return mode.upper() != "ECB" and vector in ("", "cast( as binary)", "cast(null as binary)", "null")


_SIGN = re.compile(r"(?<![\w.`])(\w+)\(|[()\n]")
_ARGUMENTS_CHARACTERS_MAX = 2_000
"""Longer arguments are not constants in practice, and the limit keeps nested calls from taking quadratic time."""


def _calls(plan: str, names: Container[str]) -> Iterator[_Call]:
    """The calls of these functions, each with its arguments. A call never spans lines of the plan."""
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


def _split_arguments(arguments: str) -> list[str]:
    """Splits at the commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for found in re.finditer(r"[()]|, ", arguments):
        sign = found.group()
        if sign == ", " and not depth:
            parts.append(arguments[start : found.start()])
            start = found.end()
        depth += {"(": 1, ")": -1}.get(sign, 0)
    return [*parts, arguments[start:]]
