"""Python values as Spark's SQL literals, and the texts of Spark's results as Python values."""

from __future__ import annotations

import datetime
import decimal
import math
import re
import uuid
from collections.abc import Callable, Mapping

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\r": "\\r", "\n": "\\n", "\t": "\\t", "\0": "\\0"})
_DAY_TIME = re.compile(r"(-?)(\d+) (\d+):(\d+):(\d+)\.(\d{6})\d*")


def literal(value: object) -> str:
    """The literal that Spark reads as this value, in a session with Spark's default of `escapedStringLiterals`.

    A tuple, list or set is a list in parentheses, as after IN. Raises TypeError for a value of any other type than
    those of Spark's columns, and ValueError for a decimal that is not a number.
    """
    if value is None:
        return "NULL"
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"SQL has no literal for an object of the class {type(value).__name__}: {value!r}")


def quoted(text: str) -> str:
    """A string literal. Spark replaces `${name}` in a statement before it parses it, so the brace is escaped, too."""
    return "'" + text.translate(_ESCAPES).replace("${", "$\\{") + "'"


def _float(value: float) -> str:
    if math.isnan(value):
        return "DOUBLE('NaN')"
    if math.isinf(value):
        return "DOUBLE('Infinity')" if value > 0 else "DOUBLE('-Infinity')"
    # Without the letter, the literal would be a DECIMAL.
    return f"{value!r}D"


def _decimal(value: decimal.Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"DECIMAL has no value {value}")
    return f"{value:f}BD"


def _moment(value: datetime.datetime) -> str:
    return f"TIMESTAMP'{value.isoformat(' ')}'"


def _duration(value: datetime.timedelta) -> str:
    sign, length = ("-", -value) if value < datetime.timedelta() else ("", value)
    minutes, seconds = divmod(length.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours:02}:{minutes:02}:{seconds:02}.{length.microseconds:06}"
    return f"INTERVAL '{sign}{length.days} {clock}' DAY TO SECOND"


def _list(values: tuple[object, ...] | list[object] | set[object]) -> str:
    return f"({', '.join(map(literal, values))})"


# In this order: a bool is an int, a datetime is a date.
_WRITERS: tuple[tuple[type | tuple[type, ...], Callable[..., str]], ...] = (
    (bool, lambda value: "true" if value else "false"),
    (int, int.__repr__),
    (float, _float),
    (decimal.Decimal, _decimal),
    (str, quoted),
    ((bytes, bytearray, memoryview), lambda value: f"X'{bytes(value).hex()}'"),
    (datetime.datetime, _moment),
    (datetime.date, lambda value: f"DATE'{value.isoformat()}'"),
    (datetime.time, lambda value: f"TIME'{value.isoformat()}'"),
    (datetime.timedelta, _duration),
    (uuid.UUID, lambda value: quoted(str(value))),
    ((tuple, list, set, frozenset), _list),
)


def date(text: str) -> datetime.date | str:
    """The text itself if Python has no such date: its years end at 9999."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return text


def timestamp(text: str) -> datetime.datetime | str:
    """The text itself if Python has no such time."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return text


def duration(text: str) -> datetime.timedelta | str:
    """An INTERVAL DAY TO SECOND, which Spark shows as `-3 04:05:06.700000000`."""
    found = _DAY_TIME.fullmatch(text)
    if not found:
        return text
    days, hours, minutes, seconds, micros = (int(part) for part in found.groups()[1:])
    length = datetime.timedelta(days, seconds, micros, minutes=minutes, hours=hours)
    return -length if found[1] else length


READERS: Mapping[str, Callable[[str], object]] = {
    "DATE_TYPE": date,
    "TIMESTAMP_TYPE": timestamp,
    "DECIMAL_TYPE": decimal.Decimal,
    "INTERVAL_DAY_TIME_TYPE": duration,
}
"""By the name of a column's type in HiveServer2's protocol. Values of all other types are as PyHive returns them."""
