"""Literals: of plans, as the engine's SQL, and of clients' texts, as values of the type that a plan gives them.

Tests: `test_translation`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal

from sql.memory.casts import INTEGERS, TIMES, required
from sql.memory.engine_texts import NotListed
from sql.memory.zone_rules import ZoneRules
from sql.proof.plan import Node, Scalar
from sql.query.aggregates import Digits, digits_of

_INTEGER = re.compile(r"\d{1,38}", re.ASCII)
_NUMBER = re.compile(r"\d{1,38}(?:\.\d{0,38})?|\.\d{1,38}", re.ASCII)
_DOUBLE = re.compile(r"\d{1,38}(?:\.\d{0,38})?[dD]?", re.ASCII)
_SUFFIXES = {"tinyint": "yY", "smallint": "sS", "bigint": "lL"}
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{6}|\.\d{3})?)?", re.ASCII)
_EPOCH = date(1970, 1, 1)
_DAYS = (date.min - _EPOCH).days, (date.max - _EPOCH).days
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_ESCAPES = frozenset("\\\0$")
"""Characters that may stand for something else in a string, or for its end in the engine."""


def literal(node: Node) -> str:
    """A literal of a plan as the engine's SQL. Raises NotListed."""
    value = node.fields["value"]
    if value is None:
        return f"CAST(NULL AS {required(node.type)})"
    if not isinstance(value, Scalar) or value.kind == "opaque":
        raise NotListed(f"it contains a literal of type {node.type}")
    return written(value.text, node.type)


def written(value: str, type_text: str) -> str:
    """A value as the plan writes it, as the engine's SQL. Raises NotListed."""
    if type_text in INTEGERS:
        return f"CAST({value} AS {required(type_text)})"
    if digits_of(type_text) is not None:
        return f"CAST('{Decimal(value):f}' AS {required(type_text)})"
    if type_text not in _WRITERS:
        raise NotListed(f"it contains a literal of type {type_text}")
    return _WRITERS[type_text](value)


def _quoted(value: str) -> str:
    if "\0" in value:
        raise NotListed("it contains a string with a NUL character")
    return "'" + value.replace("'", "''") + "'"


def _date(days: str) -> str:
    if not _DAYS[0] <= int(days) <= _DAYS[1]:
        raise NotListed("it contains a date with a year of more than four digits")
    return f"CAST('{_EPOCH + timedelta(days=int(days))}' AS DATE)"


def _moment(microseconds: str) -> str:
    return f"make_timestamp(CAST({microseconds} AS BIGINT))"


def _floating(type_text: str, layout: str) -> Callable[[str], str]:
    """The literal of a number that the plan writes as its bits."""

    def write(bits: str) -> str:
        value = struct.unpack(layout, int(bits, 16).to_bytes(struct.calcsize(layout)))[0]
        return f"CAST('{value!r}' AS {required(type_text)})"

    return write


_WRITERS: Mapping[str, Callable[[str], str]] = {
    "boolean": lambda value: value,
    "string": _quoted,
    "date": _date,
    "timestamp": _moment,
    "timestamp_ntz": _moment,
    "float": _floating("float", ">f"),
    "double": _floating("double", ">d"),
}


# --- literals of clients' texts ----------------------------------------------------------------------------------


def read(text: str, type_text: str, zone: ZoneRules) -> str | None:
    """What a plan writes for a literal of a client's text, if that has exactly one value of this type; None if that is
    not certain. No sign precedes the text. `zone`: that of the session."""
    text = text.rstrip(_SUFFIXES.get(type_text, ""))
    if type_text in INTEGERS:
        found = _INTEGER.fullmatch(text)
        return str(int(text)) if found is not None and int(text) < 1 << (_BITS[type_text] - 1) else None
    if (digits := digits_of(type_text)) is not None:
        return _read_decimal(text, digits)
    if type_text == "double":
        return _bits(float(text.rstrip("dD"))) if _DOUBLE.fullmatch(text) is not None else None
    value = _plain_string(text)
    if value is None or type_text == "string":
        return value
    try:
        return _read_time(value, type_text, zone)
    except ValueError:
        return None


def negative(value: str, type_text: str) -> str | None:
    """What a plan writes for the same number with a sign; None for anything but a number, and for the DOUBLE zero: an
    integer or a decimal that is cast to it has lost its sign before, and -0.0D has not."""
    if type_text in INTEGERS or digits_of(type_text) is not None:
        return value if Decimal(value) == 0 else f"-{value}"
    if type_text == "double":
        number = struct.unpack(">d", int(value, 16).to_bytes(8))[0]
        return _bits(-number) if number else None
    return None


def canonical(value: str, type_text: str) -> str:
    """A value as the plan writes it, in the one form that `read` gives: Spark writes 0E-10 for 0.0000000000."""
    return f"{Decimal(value):f}" if digits_of(type_text) is not None else value


def _bits(value: float) -> str:
    return format(int.from_bytes(struct.pack(">d", value)), "x")


def _read_decimal(text: str, digits: Digits) -> str | None:
    if _NUMBER.fullmatch(text) is None:
        return None
    shown = f"{Decimal(text):.{digits.scale}f}"
    if Decimal(shown) != Decimal(text) or len(shown.replace(".", "").lstrip("0")) > digits.precision:
        return None
    return shown


def _plain_string(text: str) -> str | None:
    """The content of a string in which nothing is escaped."""
    value = text[1:-1]
    if len(text) < len("''") or text[0] not in "'\"" or text[-1] != text[0]:
        return None
    return None if text[0] in value or not _ESCAPES.isdisjoint(value) else value


def _read_time(value: str, type_text: str, zone: ZoneRules) -> str | None:
    """Raises ValueError."""
    if type_text == "date":
        return str((date.fromisoformat(value) - _EPOCH).days) if _DAY.fullmatch(value) is not None else None
    if type_text not in TIMES or _TIME.fullmatch(value) is None:
        return None
    local = (datetime.fromisoformat(value) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    found = local if type_text == "timestamp_ntz" else zone.instant(local)
    return None if found is None else str(found)
