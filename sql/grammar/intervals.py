"""SQL intervals: INTERVAL '1 02:03:04' DAY TO SECOND, INTERVAL 10 MINUTE, 10 MINUTE."""

from __future__ import annotations

import re

from sql.grammar.cursor import Grammar, SyntaxProblem, listed
from sql.lexed import Lexed

SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800}
"""The units of fixed length, in seconds."""
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_MONTHS = re.compile(r"0+-0+\s+", re.ASCII)


def unit_word(word: str) -> str:
    """`hours` -> `HOUR`; any other word in upper case."""
    upper = word.upper()
    return upper.removesuffix("S") if upper.removesuffix("S") in SECONDS else upper


def seconds(grammar: Grammar) -> float:
    """Consumes an interval and returns its seconds. Months and years are refused: they have no fixed length."""
    place = grammar.position
    grammar.accept("INTERVAL")
    amount = grammar.string()
    if amount is None:
        amount = _plain_number(grammar)
    elif any(character.isalpha() for character in amount) and (spelled := _spelled(amount)) is not None:
        return spelled
    first = _unit(grammar)
    last = _unit(grammar) if grammar.accept("TO") else first
    total = _seconds_of(amount.strip(), first, last)
    if total is None:
        span = first if first == last else f"{first} TO {last}"
        raise grammar.refusal(f"'{amount}' is not an interval of fixed length in {span}", place)
    return total


def seconds_of(text: str) -> float | None:
    """The seconds of a text that is an interval, also `10 minutes` or BigQuery's `0-0 0 4:0:0`; otherwise None."""
    grammar = Grammar(Lexed(text))
    try:
        total = seconds(grammar)
        grammar.expect_end()
    except SyntaxProblem:
        return _spelled(text)
    return total


def text_of(total: float) -> str:
    """Seconds as the value of a property; a whole number is written without a fraction."""
    return str(int(total)) if total == int(total) else str(total)


def _plain_number(grammar: Grammar) -> str:
    piece = grammar.peek()
    if piece is None or piece.kind != "word" or not _NUMBER.fullmatch(piece.text):
        raise grammar.problem("an interval, such as INTERVAL '10' MINUTE or 10 MINUTE")
    grammar.take()
    return piece.text


def _unit(grammar: Grammar) -> str:
    piece = grammar.peek()
    unit = "" if piece is None or piece.kind != "word" else unit_word(piece.text)
    if unit not in SECONDS and unit not in ("YEAR", "MONTH"):
        raise grammar.problem(f"a unit of time ({listed(tuple(SECONDS))})")
    grammar.take()
    return unit


def _spelled(amount: str) -> float | None:
    """`1 day 2 hours`, or BigQuery's canonical `years-months days hours:minutes:seconds`."""
    words = amount.split()
    if len(words) >= 2 and len(words) % 2 == 0 and all(unit_word(unit) in SECONDS for unit in words[1::2]):
        if not all(_NUMBER.fullmatch(number) for number in words[::2]):
            return None
        return sum(
            float(number) * SECONDS[unit_word(unit)] for number, unit in zip(words[::2], words[1::2], strict=True)
        )
    return _seconds_of(amount.strip(), "YEAR", "SECOND")


def _seconds_of(amount: str, first: str, last: str) -> float | None:
    if first == last:
        return float(amount) * SECONDS[first] if first in SECONDS and _NUMBER.fullmatch(amount) else None
    if first == "YEAR":
        found = _MONTHS.match(amount)
        amount, first = (amount[found.end() :], "DAY") if found else ("", first)
    if first not in _FIELDS or last not in _FIELDS or _FIELDS.index(first) >= _FIELDS.index(last):
        return None
    fields = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    days, _, clock = amount.rpartition(" ") if first == "DAY" else ("", "", amount)
    numbers = [*([days.strip()] if first == "DAY" else []), *clock.split(":")]
    if len(numbers) != len(fields) or not all(_NUMBER.fullmatch(number) for number in numbers):
        return None
    return sum(float(number) * SECONDS[field] for number, field in zip(numbers, fields, strict=True))
