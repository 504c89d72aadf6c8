"""Truncated times: what of a time can be computed from its hour, day, month, quarter or year. Weeks end within months,
so nothing longer follows from a week."""

from __future__ import annotations

from datetime import datetime

from sqlglot import exp

from sql.rewriting.forms import call_of, literal_text, type_of
from sql.scan import string_value

UNITS = ("hour", "day", "month", "quarter", "year")
"""Each is a whole number of those before it."""
_ALIASES = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}
_PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "last_day": "month",
    "day": "day",
    "dayofyear": "day",
    "dayofweek": "day",
    "weekday": "day",
    "weekofyear": "day",
    "week": "day",
    "hour": "hour",
}
"""Functions of a time, and the longest unit that determines them."""
_OF_WEEK = "week"


def truncation(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """The unit to which an expression truncates a time, and the time; None if it does not."""
    if (unit := _truncating(node)) is None or unit == _OF_WEEK:
        return None
    inner = _time_of(node)
    within = truncation(inner)
    return (unit, inner) if within is None else (max(unit, within[0], key=UNITS.index), within[1])


def determined_by(node: exp.Expr) -> str | None:
    """The longest unit that determines the value of a function of a time; None for other expressions."""
    if (unit := _truncating(node)) is not None:
        return "day" if unit == _OF_WEEK else unit
    name, arguments = call_of(node)
    return _PARTS.get(name) if len(arguments) == 1 else None


def core(node: exp.Expr) -> exp.Expr:
    """The time whose parts a function of a time computes, without truncations on the way."""
    inner = _time_of(node)
    while (unit := _truncating(inner)) is not None and unit != _OF_WEEK:
        inner = _time_of(inner)
    return inner


def _truncating(node: exp.Expr) -> str | None:
    if type(node) is exp.Cast and type_of(node) == "DATE":
        return "day"
    name, arguments = call_of(node)
    if name in ("to_date", "date") and len(arguments) == 1:
        return "day"
    if name in ("date_trunc", "trunc") and len(arguments) == 2:
        unit = arguments[0 if name == "date_trunc" else 1]
        if isinstance(unit, exp.Literal):
            word = unit.name.lower()
            word = _ALIASES.get(word, word)
            return word if word in UNITS or word == _OF_WEEK else None
    return None


def _time_of(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Cast):
        found = node.this
    else:
        name, arguments = call_of(node)
        found = arguments[1 if name == "date_trunc" else 0]
    return _unbracketed(found)


def _unbracketed(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def at_least(unit: str, shortest: str) -> bool:
    """Whether a unit is a whole number of the other."""
    return UNITS.index(unit) >= UNITS.index(shortest)


def moment_of(node: exp.Expr) -> str | None:
    """The text of a constant date or time; None for anything else."""
    node = _unbracketed(node)
    if isinstance(node, exp.Cast):
        node = _unbracketed(node.this) if type_of(node) in ("DATE", "TIMESTAMP") else node
    else:
        name, arguments = call_of(node)
        node = (
            arguments[0] if name in ("to_date", "to_timestamp", "timestamp", "date") and len(arguments) == 1 else node
        )
    if not isinstance(node, exp.Literal) or (text := literal_text(node))[-1] not in "'\"":
        return None
    return string_value(text)


def is_whole(moment: str, unit: str) -> bool:
    """Whether a unit begins at that moment."""
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        return False
    if found.tzinfo is not None or found.minute or found.second or found.microsecond:
        return False
    begins = {
        "hour": True,
        "day": found.hour == 0,
        "month": (found.day, found.hour) == (1, 0),
        "quarter": (found.day, found.hour, found.month % 3) == (1, 0, 1),
        "year": (found.day, found.hour, found.month) == (1, 0, 1),
    }
    return begins[unit]
