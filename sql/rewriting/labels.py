"""The names that Spark gives to columns of a result without an alias, as far as they can be known.

The client's driver reads them, so a rewriting must have the same ones. Spark prints the expression: functions in lower
case, columns without their table, strings without quotes.
"""

from __future__ import annotations

import re

from sqlglot import exp

from sql.rewriting.forms import literal_text, type_of
from sql.scan import string_value

_SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
}
_PRINTED_NAMES = """
    sum count min max avg mean year quarter month day dayofmonth dayofweek dayofyear weekofyear hour minute second
    date_trunc trunc date_format last_day add_months months_between to_date concat upper lower length substring substr
    round abs coalesce nullif date_add date_sub datediff bool_and bool_or bit_and bit_or stddev
    variance collect_set collect_list first last row_number rank dense_rank
"""
_PRINTED_CALLS = frozenset(_PRINTED_NAMES.split())
"""Functions that Spark prints by these names, with all arguments as written; not, for example, if and floor."""
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def label_of(item: exp.Expr) -> str | None:
    """The name of an item of SELECT; None if it is not known."""
    match item:
        case exp.Alias():
            return item.alias
        case exp.Column():
            return item.name
        case exp.Paren():
            return label_of(item.this)
        case exp.Cast() if isinstance(item.this, exp.Column) and type(item) is exp.Cast:
            return str(item.this.name)
    return _printed(item)


def _printed(node: exp.Expr) -> str | None:
    match node:
        case exp.Column():
            return str(node.name)
        case exp.Paren():
            return _printed(node.this)
        case exp.Star():
            return "1"
        case exp.Literal():
            return _literal(node)
        case exp.Anonymous() if node.name.lower() in _PRINTED_CALLS:
            return _call(node)
        case exp.Cast() if type(node) is exp.Cast and not isinstance(node.this, exp.Literal):
            # (A cast literal may have been written as DATE '…', which Spark prints otherwise.)
            inner = _printed(node.this)
            return None if inner is None else f"CAST({inner} AS {type_of(node).replace(' ', '')})"
    if (sign := _SIGNS.get(type(node))) is not None:
        left, right = _printed(node.this), _printed(node.expression)
        return None if left is None or right is None else f"({left} {sign} {right})"
    return None


def _literal(node: exp.Expr) -> str | None:
    text = literal_text(node)
    if text[-1] in "'\"":
        return string_value(text)
    return text if _PLAIN_NUMBER.fullmatch(text) else None


def _call(node: exp.Expr) -> str | None:
    arguments, distinct = node.expressions, ""
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments, distinct = arguments[0].expressions, "DISTINCT "
    printed = [_printed(each) for each in arguments]
    if not all(isinstance(each, str) for each in printed):
        return None
    return f"{node.name.lower()}({distinct}{', '.join(map(str, printed))})"
