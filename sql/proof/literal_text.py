"""Literals in the text of a plan, which shows neither their types nor where they end."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from sql.proof.plan import Node, Scalar
from sql.proof.understood_classes import words
from sql.query.aggregates import digits_of

_LETTERS = r"[-%^]?\w[^\s()\[\]#@,\\]*"
WORD = re.compile(_LETTERS)
"""A piece of a literal, in the text of a plan. No operator is such a word, as no operator has a letter or a digit."""
KEYWORDS = words("""
    AND OR NOT AS as THEN ELSE else WHEN END CASE if IN LIKE ESCAPE div FILTER ASC DESC NULLS distinct
    windowspecdefinition null true false NaN Infinity
    """)
"""Words that separate expressions, or may be something else than a string, in the case in which Spark prints them."""
VALUES = frozenset({"null", "true", "false"})
_SAFE = re.compile(rf" ?{_LETTERS}(?: {_LETTERS})*")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,18})", re.ASCII)
_DECIMAL = re.compile(r"-?\d+(?:\.(\d+))?", re.ASCII)
_DOUBLE = re.compile(r"-?\d+\.\d+(?:E-?\d+)?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = date(1970, 1, 1)
_INTEGERS = {"tinyint": ("Byte", 8), "smallint": ("Short", 16), "int": ("Integer", 32), "bigint": ("Long", 64)}


@dataclass(frozen=True, slots=True)
class Loose:
    """A literal whose type is not known yet."""

    text: str


def is_safe(text: str) -> bool:
    """Whether a string in the text of a plan ends where it seems to end, and can be nothing else."""
    return _SAFE.fullmatch(text) is not None and KEYWORDS.isdisjoint(text.split())


def literal_of(text: str, type_text: str, zone: str, strings: frozenset[str]) -> Node:
    """Raises ValueError if the text is not that of a literal of this type."""
    if text == "null":
        value = None
    elif type_text == "string":
        if text not in strings:
            # It was computed while Spark planned, so it may contain what separates expressions.
            raise ValueError(f"the plan's text has a computed string, {text!r}")
        value = Scalar("UTF8String", text)
    else:
        value = _value(text, type_text, zone)
        if value is None:
            raise ValueError(f"the plan's text has {text!r} where a {type_text} is expected")
    return Node("Literal", {"value": value, "dataType": Scalar("DataType", type_text)}, type_text)


def _value(text: str, type_text: str, zone: str) -> Scalar | None:
    if type_text in _INTEGERS:
        kind, bits = _INTEGERS[type_text]
        fits = _INTEGER.fullmatch(text) is not None and -(1 << bits - 1) <= int(text) < 1 << bits - 1
        return Scalar(kind, text) if fits and text != "-0" else None
    if (digits := digits_of(type_text)) is not None:
        found = _DECIMAL.fullmatch(text)
        whole = text.removeprefix("-").replace(".", "").lstrip("0")
        if found is None or len(found[1] or "") != digits.scale or len(whole) > digits.precision:
            return None
        return Scalar("Decimal", text)
    return _READERS[type_text](text, zone) if type_text in _READERS else None


def _boolean(text: str, _: str) -> Scalar | None:
    return Scalar("Boolean", text) if text in {"true", "false"} else None


def _double(text: str, _: str) -> Scalar | None:
    if _DOUBLE.fullmatch(text) is None:
        return None
    return Scalar("Double", format(int.from_bytes(struct.pack(">d", float(text))), "x"))


def _date(text: str, _: str) -> Scalar | None:
    if _DATE.fullmatch(text) is None:
        return None
    return Scalar("Integer", str((date.fromisoformat(text) - _EPOCH).days))


def _timestamp(text: str, zone: str) -> Scalar | None:
    """Microseconds. A time that the zone has twice, or that Spark may convert by another rule, is refused."""
    if _TIME.fullmatch(text) is None:
        return None
    local = datetime.fromisoformat(text)
    if zone != "UTC":
        try:
            known = ZoneInfo(zone)
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"the time zone {zone} is not known") from error
        first, second = (local.replace(tzinfo=known, fold=fold) for fold in (0, 1))
        if local.year < 1900 or first.utcoffset() != second.utcoffset():
            raise ValueError(f"the plan's text does not show which time {text} is")
        local = first.astimezone(UTC).replace(tzinfo=None)
    return Scalar("Long", str((local - datetime(1970, 1, 1)) // timedelta(microseconds=1)))


_READERS: Mapping[str, Callable[[str, str], Scalar | None]] = {
    "boolean": _boolean,
    "double": _double,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": lambda text, _: _timestamp(text, "UTC"),
}
