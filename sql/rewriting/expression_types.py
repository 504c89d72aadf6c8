"""Types that Spark gives to expressions over columns of known types. Types are in upper case; what is not known is
UNKNOWN, which counts as a type without identity and with approximate sums."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sql.query.aggregates import APPROXIMATE, bounded, digits_of, digits_of_sum
from sql.rewriting.forms import call_of, literal_text, type_of

TypeOf = Callable[[exp.Column], str]
"""The type of a resolved column."""
UNKNOWN = "DOUBLE"
"""Nothing is concluded from a DOUBLE but that its sums may not be added up."""
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_NAMES = {
    "STRING": "date_format from_unixtime concat substring upper lower trim string",
    "DATE": "to_date date trunc last_day add_months",
    "TIMESTAMP": "date_trunc to_timestamp timestamp",
    "INT": "year quarter month day dayofweek dayofyear weekofyear weekday hour minute second length int",
    "BIGINT": "count count_if bigint",
    "BOOLEAN": "bool_and bool_or boolean",
}
_RESULTS = {name: type_ for type_, names in _NAMES.items() for name in names.split()}
_OF_ARGUMENT = frozenset({"min", "max", "bit_and", "bit_or", "bit_xor", "abs", "coalesce"})


def type_of_value(node: exp.Expr, type_of_column: TypeOf) -> str:
    """The type of an expression, or of an aggregate."""
    match node:
        case exp.Column():
            return type_of_column(node).upper()
        case exp.Paren():
            return type_of_value(node.this, type_of_column)
        case exp.Cast():
            return type_of(node).upper()
        case exp.Literal():
            return _literal(literal_text(node))
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic(node, type_of_column)
    name, arguments = call_of(node)
    if name == "sum" and len(arguments) == 1:
        return _sum(type_of_value(arguments[0], type_of_column))
    if name in _OF_ARGUMENT and arguments:
        return type_of_value(arguments[0], type_of_column)
    return _RESULTS.get(name, UNKNOWN)


def is_exact(type_: str) -> bool:
    """Whether sums of the type do not depend on the order of the rows."""
    return type_ not in APPROXIMATE


def _literal(text: str) -> str:
    if text[-1] in "'\"":
        return "STRING"
    if text.isdecimal():
        return "INT" if len(text) < _DIGITS["INT"] else "BIGINT"
    whole, _, fraction = text.partition(".")
    if whole.isdecimal() and fraction.isdecimal():
        return str(bounded(max(len((whole + fraction).lstrip("0")), len(fraction)), len(fraction)))
    return UNKNOWN


def _arithmetic(node: exp.Expr, type_of_column: TypeOf) -> str:
    left, right = (type_of_value(each, type_of_column) for each in (node.this, node.expression))
    if left in _DIGITS and right in _DIGITS:
        return max(left, right, key=_DIGITS.__getitem__)
    mine, other = _digits(node.this, left), _digits(node.expression, right)
    if mine is None or other is None:
        return UNKNOWN
    (precision, scale), (its, its_scale) = mine, other
    if isinstance(node, exp.Mul):
        return str(bounded(precision + its + 1, scale + its_scale))
    longest = max(scale, its_scale)
    return str(bounded(max(precision - scale, its - its_scale) + longest + 1, longest))


def _digits(node: exp.Expr, type_: str) -> tuple[int, int] | None:
    """Precision and scale of a number beside a decimal; those of a whole literal are its own."""
    if (found := digits_of(type_)) is not None:
        return found
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal) and (text := literal_text(node)).isdecimal():
        return max(len(text.lstrip("0")), 1), 0
    return (_DIGITS[type_], 0) if type_ in _DIGITS else None


def _sum(type_: str) -> str:
    if type_ in _DIGITS:
        return "BIGINT"
    digits = digits_of(type_)
    return UNKNOWN if digits is None else str(digits_of_sum(digits))
