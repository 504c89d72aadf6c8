"""The texts that move rows from Spark into a table in memory, exactly.

Spark prints each row as one line: values between tabs, nothing for NULL, strings in quotes, doubled within. Whatever
depends on a setting of the session is avoided: dates are numbers of days, timestamps numbers of microseconds, and
control characters come from CHAR(). Spark's text of a double or float is that of Java, which determines its value;
NaN, infinities and -0.0 have texts of their own. A decimal has all of its digits, perhaps with an exponent.

The engine reads the lines with its reader of CSV, and makes dates and timestamps of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from sql.memory.columns import MemoryColumn
from sql.memory.engine_types import decimal_digits, engine_type, identifier, plain_type
from sql.names import quote

LINES_AT_ONCE = 10_000
"""The lines in a page: some hundred kilobytes, as a rule."""
LINE_BYTES_MAX = 1 << 20
"""The longest line that the engine reads. The reader's buffers are a multiple of it."""
_TAB = "char(9)"
_QUOTE_DOUBLED = "concat('\"', replace({0}, '\"', '\"\"'), '\"')"
_NTZ_MICROSECONDS = (
    "((cast(unix_date(cast({0} AS date)) AS bigint) * 24 + hour({0})) * 60 + minute({0})) * 60000000"
    " + cast(extract(SECOND FROM {0}) * 1000000 AS bigint)"
)
"""Casts of it to other types, and functions that take timestamps, depend on the session's time zone."""
_PRINTED = {
    "string": _QUOTE_DOUBLED,
    "date": "cast(unix_date({0}) AS string)",
    "timestamp": "cast(unix_micros({0}) AS string)",
    "timestamp_ntz": f"cast({_NTZ_MICROSECONDS} AS string)",
}
_READ = {"date": "INTEGER", "timestamp": "BIGINT", "timestamp_ntz": "BIGINT"}
"""As which type the engine reads what it converts afterwards."""
_CONVERTED = {
    "date": "DATE '1970-01-01' + {0}",
    "timestamp": "make_timestamp({0})",
    "timestamp_ntz": "make_timestamp({0})",
}
_DUMMY = "_"
"""A second column, in case there is only one: an empty line is a row for nobody."""


def loadable(columns: Sequence[MemoryColumn]) -> tuple[MemoryColumn, ...]:
    """The columns that can be in memory, with the types of their values there."""
    return tuple(
        MemoryColumn(each.name, plain_type(each.type)) for each in columns if engine_type(each.type) is not None
    )


def lines_query(columns: Sequence[MemoryColumn], relation: str) -> str:
    """Spark's query with a line for each row of a relation (a name, or a query in parentheses). `columns` are all
    loadable, and at least one."""
    printed = [_printed(each) for each in columns]
    if len(printed) == 1:
        printed.append("''")
    return f"SELECT concat_ws({_TAB}, {', '.join(printed)}) AS line FROM {relation}"


def _printed(column: MemoryColumn) -> str:
    text = _PRINTED.get(column.type, "cast({0} AS string)").format(quote(column.name))
    return f"coalesce({text}, '')"


def rows_query(columns: Sequence[MemoryColumn], path: str) -> str:
    """The engine's query with the rows of the lines that it reads from a path."""
    names = [f"c{number}" for number in range(len(columns))]
    read = {
        name: _READ.get(column.type) or engine_type(column.type) for name, column in zip(names, columns, strict=True)
    }
    if len(names) == 1:
        read[_DUMMY] = "VARCHAR"
    kinds = ", ".join(f"'{name}': '{kind}'" for name, kind in read.items())
    selected = ", ".join(
        f"{_CONVERTED.get(column.type, '{0}').format(name)} AS {identifier(column.name)}"
        for name, column in zip(names, columns, strict=True)
    )
    return (
        f"SELECT {selected} FROM read_csv('{path}', auto_detect=false, header=false, delim='\t', quote='\"',"
        f" escape='\"', new_line='\\n', nullstr='', allow_quoted_nulls=false, max_line_size={LINE_BYTES_MAX},"
        f" buffer_size={8 * LINE_BYTES_MAX}, columns={{{kinds}}})"
    )


def facts_query(columns: Sequence[MemoryColumn], table: str) -> str:
    """The engine's query with one row of a table in memory: the number of rows, then FACTS values for each column."""
    return f"SELECT count(*), {', '.join(_facts(each) for each in columns)} FROM {identifier(table)}"


FACTS = 8
"""Of each column: whether it has NULLs, NaN, -0.0, other characters than ASCII's, U+FFFD; its minimum, maximum, and the
bytes of its strings. NULL means that it has none."""


def _facts(column: MemoryColumn) -> str:
    value, kind = identifier(column.name), column.type
    nan = negative = wide = replaced = "NULL"
    low = high = size = "NULL"
    if kind in {"float", "double"}:
        nan, negative = f"bool_or(isnan({value}))", f"bool_or({value} = 0 AND signbit({value}))"
    elif kind == "string":
        wide = f"bool_or(strlen({value}) <> length({value}))"
        replaced = f"bool_or(contains({value}, chr(65533)))"
        size = f"sum(strlen({value}))"
    elif kind != "boolean":
        ordered = value
        if kind == "date":
            ordered = f"datediff('day', DATE '1970-01-01', {value})"
        elif kind in {"timestamp", "timestamp_ntz"}:
            ordered = f"epoch_us({value})"
        low, high = f"min({ordered})", f"max({ordered})"
    return ", ".join((f"count({value}) < count(*)", nan, negative, wide, replaced, low, high, size))


_WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4, "string": 16}
_DECIMAL_WIDTHS = ((4, 2), (9, 4), (18, 8), (38, 16))


def width(column: MemoryColumn) -> int:
    """The bytes that a value takes, apart from those of strings."""
    if (digits := decimal_digits(column.type)) is not None:
        return next(found for most, found in _DECIMAL_WIDTHS if digits[0] <= most)
    return _WIDTHS.get(column.type, 8)
