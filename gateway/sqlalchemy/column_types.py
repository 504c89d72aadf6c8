"""Spark's types for SQLAlchemy, and their names in DESCRIBE.

Tests: `test_sqlalchemy_types`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import types
from sqlalchemy.sql import sqltypes, type_api

_FIELD = re.compile(r"\s*+(?:`((?:[^`]|``)*+)`|([^:<>,`]*+))\s*+:")
_NAME = re.compile(r"\s*(\w+)(?:\s*\(\s*(\w+)\s*(?:,\s*(\w+)\s*)?\))?")
_COLLATION = re.compile(r"\s+collate\s+([\w.]+)", re.IGNORECASE)
_INTERVAL = re.compile(r"\s+(year|month|day|hour|minute|second)(?:\s+to\s+(month|hour|minute|second))?", re.IGNORECASE)
_MORE = re.compile(r"\s*\.\.\. \d+ more fields\s*")
"""Spark shortens structs with more fields than spark.sql.debug.maxToStringFields."""


# SQLAlchemy 1.4 has no parameters for its classes, so those below have none.


class _Named:
    """A type whose name is the same in every statement, whatever dialect compiles it.

    Each class repeats `__visit_name__`: SQLAlchemy looks for it only in the class itself.
    """

    def get_col_spec(self, **_: Any) -> str:
        return type(self).__name__


class TINYINT(_Named, types.SmallInteger):
    """One byte."""

    __visit_name__ = "user_defined"


class DOUBLE(_Named, types.Float):  # type: ignore[type-arg]
    """Eight bytes, the type of Python's float."""

    __visit_name__ = "user_defined"


class STRING(_Named, types.Text):
    """Text of any length. `collation` is None for Spark's default, UTF8_BINARY."""

    __visit_name__ = "user_defined"

    def get_col_spec(self, **_: Any) -> str:
        return f"STRING COLLATE {self.collation}" if self.collation else "STRING"


class TIMESTAMP_NTZ(_Named, types.TIMESTAMP):
    """A time of the calendar and clock, without a time zone. (Spark's TIMESTAMP is an instant, which results show in
    the session's time zone.)"""

    __visit_name__ = "user_defined"


class TIME(_Named, types.TIME):
    """A time of the day, since Spark 4.1 (`spark.sql.timeType.enabled`); its Thrift server sends text."""

    __visit_name__ = "user_defined"

    def result_processor(self, dialect: Any, coltype: object) -> Any:
        return lambda text: datetime.time.fromisoformat(text) if isinstance(text, str) else text


class VARIANT(_Named, types.TypeEngine):  # type: ignore[type-arg]
    """Semi-structured values. Spark's Thrift server returns none: select `to_json(column)` or `variant_get(...)`."""

    __visit_name__ = "user_defined"

    hashable = False


class INTERVAL_DAY_TIME(_Named, type_api.NativeForEmulated, sqltypes._AbstractInterval):
    """A duration: datetime.timedelta. `fields` is for example `DAY TO SECOND`."""

    __visit_name__ = "user_defined"

    native = True

    def __init__(self, fields: str = "DAY TO SECOND") -> None:
        self.fields = fields

    @classmethod
    def adapt_emulated_to_native(cls, impl: Any, **_: Any) -> INTERVAL_DAY_TIME:
        """SQLAlchemy's portable Interval, whose precisions Spark does not have."""
        return cls()

    @property
    def python_type(self) -> type[datetime.timedelta]:
        return datetime.timedelta

    def get_col_spec(self, **_: Any) -> str:
        return f"INTERVAL {self.fields}"


class INTERVAL_YEAR_MONTH(_Named, types.TypeEngine):  # type: ignore[type-arg]
    """Years and months, for which Python has no class: text as Spark shows it, `1-2`. `fields` is for example
    `YEAR TO MONTH`."""

    __visit_name__ = "user_defined"

    def __init__(self, fields: str = "YEAR TO MONTH") -> None:
        self.fields = fields

    @property
    def python_type(self) -> type[str]:
        return str

    def get_col_spec(self, **_: Any) -> str:
        return f"INTERVAL {self.fields}"


class Nested(_Named, types.TypeEngine):  # type: ignore[type-arg]
    """An array, a map or a struct. Results are text, because Spark's Thrift server sends these values as text that is
    not always JSON."""

    __visit_name__ = "user_defined"

    @property
    def python_type(self) -> type[str]:
        return str


class ARRAY(Nested):
    """`item` is the type of the elements."""

    __visit_name__ = "user_defined"

    def __init__(self, item: types.TypeEngine[Any]) -> None:
        self.item = item

    def get_col_spec(self, **_: Any) -> str:
        return f"ARRAY<{self.item}>"


class MAP(Nested):
    """`key` and `value` are the types of its entries."""

    __visit_name__ = "user_defined"

    def __init__(self, key: types.TypeEngine[Any], value: types.TypeEngine[Any]) -> None:
        self.key = key
        self.value = value

    def get_col_spec(self, **_: Any) -> str:
        return f"MAP<{self.key}, {self.value}>"


class STRUCT(Nested):
    """`fields` are names with types, in order. A struct with many fields lacks the last ones (`is_shortened`), because
    Spark does not show them."""

    __visit_name__ = "user_defined"

    def __init__(self, *fields: tuple[str, types.TypeEngine[Any]], is_shortened: bool = False) -> None:
        self.fields = fields
        self.is_shortened = is_shortened

    def get_col_spec(self, **_: Any) -> str:
        fields = [f"`{name.replace('`', '``')}`: {kind}" for name, kind in self.fields]
        return f"STRUCT<{', '.join(fields)}{', ...' if self.is_shortened else ''}>"


_SIMPLE: dict[str, type[types.TypeEngine[Any]]] = {
    "boolean": types.BOOLEAN,
    "tinyint": TINYINT,
    "byte": TINYINT,
    "smallint": types.SMALLINT,
    "short": types.SMALLINT,
    "int": types.INTEGER,
    "integer": types.INTEGER,
    "bigint": types.BIGINT,
    "long": types.BIGINT,
    "float": types.FLOAT,
    "real": types.FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": types.BINARY,
    "date": types.DATE,
    "timestamp": types.TIMESTAMP,
    "timestamp_ltz": types.TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "variant": VARIANT,
    "void": types.NullType,
}


class UnknownType(ValueError):
    """The text names no type of Spark 4."""


def parsed(text: str) -> types.TypeEngine[Any]:
    """The type with this name in DESCRIBE. Raises UnknownType."""
    kind, end = _parse(text, 0)
    if text[end:].strip():
        raise UnknownType(text)
    return kind


def _parse(text: str, begin: int) -> tuple[types.TypeEngine[Any], int]:
    """The type that begins there, and where it ends."""
    found = _NAME.match(text, begin)
    if not found:
        raise UnknownType(text)
    name, end = found[1].lower(), found.end()
    if text.startswith("<", end) and name in {"array", "map"}:
        return _array_or_map(name, text, end + 1)
    if text.startswith("<", end) and name == "struct":
        return _struct(text, end + 1)
    if name == "interval":
        return _interval(text, end)
    if name == "string" and (collated := _COLLATION.match(text, end)):
        return STRING(collation=collated[1]), collated.end()
    return _simple(name, [part for part in found.groups()[1:] if part]), end


def _simple(name: str, arguments: list[str]) -> types.TypeEngine[Any]:
    numbers = [int(argument) for argument in arguments if argument.isdigit()]
    match name, numbers:
        case (("decimal" | "dec" | "numeric"), _):
            precision, scale, *_ = [*numbers, 0] if numbers else [10, 0]
            return types.DECIMAL(precision, scale)
        case "varchar", [length]:
            return types.VARCHAR(length)
        case "char", [length]:
            return types.CHAR(length)
        case "time", _:
            return TIME()
        case _, [] if name in _SIMPLE and not arguments:
            return _SIMPLE[name]()
    raise UnknownType(name)


def _array_or_map(name: str, text: str, begin: int) -> tuple[types.TypeEngine[Any], int]:
    first, end = _parse(text, begin)
    if name == "array":
        return ARRAY(first), _expect(text, end, ">")
    second, end = _parse(text, _expect(text, end, ","))
    return MAP(first, second), _expect(text, end, ">")


def _struct(text: str, begin: int) -> tuple[STRUCT, int]:
    fields: list[tuple[str, types.TypeEngine[Any]]] = []
    end = begin
    while not text.startswith(">", end):
        if fields:
            end = _expect(text, end, ",")
        if more := _MORE.match(text, end):
            return STRUCT(*fields, is_shortened=True), _expect(text, more.end(), ">")
        named = _FIELD.match(text, end)
        if not named:
            raise UnknownType(text)
        kind, end = _parse(text, named.end())
        fields.append((named[2].rstrip() if named[1] is None else named[1].replace("``", "`"), kind))
    return STRUCT(*fields), end + 1


def _expect(text: str, begin: int, mark: str) -> int:
    """Where the text continues behind the mark and the blanks before it."""
    found = re.compile(rf"\s*{mark}").match(text, begin)
    if not found:
        raise UnknownType(text)
    return found.end()


def _interval(text: str, begin: int) -> tuple[types.TypeEngine[Any], int]:
    found = _INTERVAL.match(text, begin)
    if not found:
        raise UnknownType(text)
    fields = " TO ".join(part.upper() for part in found.groups() if part)
    kind = INTERVAL_YEAR_MONTH if fields.startswith(("YEAR", "MONTH")) else INTERVAL_DAY_TIME
    return kind(fields), found.end()


def columns(rows: Iterator[tuple[str, str, str | None]]) -> Iterator[tuple[str, str, str | None]]:
    """Names, types and comments of DESCRIBE's columns. Headings end them: these have no type. Below the headings, the
    partition columns appear again."""
    for name, kind, comment in rows:
        if not kind:
            return
        yield name, kind, comment or None
