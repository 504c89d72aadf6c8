"""IMMUTABLE WHERE: the condition of the rows that no refresh computes again.

A row is immutable if the condition held when the rows of the current version were computed. So each row is computed
once more by the refresh that first finds the condition true, and stays from then on. A row must not leave the past
again, or what was missed meanwhile would be missing: the condition may compare with the current time only such that it
stays true as time passes.

Tests: `test_immutable`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sql.definition.repeatable import is_repeatable
from sql.lexed import Lexed
from sql.query.trees import others
from sql.reading.lineage import query_tree
from sql.reading.parsing import Doubt
from sql.scan import Lexeme
from sql.texts.rewrite import splice

_DATES = frozenset({"current_date", "curdate"})
_TIMES = frozenset({"current_timestamp", "now"})
_BARE = frozenset({"current_date", "current_timestamp"})
"""They need no parentheses."""
_HEAD = "SELECT 1 FROM t WHERE "
_LATER = (exp.LT, exp.LTE)
_EARLIER = (exp.GT, exp.GTE)
_SHIFTING = (exp.Sub, exp.Add, exp.TsOrDsAdd, exp.DateAdd, exp.DateSub, exp.TimestampAdd, exp.TimestampSub)
_KEEPING_ORDER = (
    *_SHIFTING,
    *(exp.Paren, exp.AddMonths, exp.LastDay, exp.DateTrunc, exp.TimestampTrunc, exp.TsOrDsToDate),
    *(exp.Cast, exp.TryCast),
)
"""A later time gives no earlier one through these, as their first operand."""
_TYPES = frozenset({exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ})


class NoPast(ValueError):
    """The condition cannot be used; the text says why."""


def check(condition: str) -> None:
    """Raises NoPast if the condition may change for a row, other than to true as time passes. Spark checks that it is a
    condition on the view's columns."""
    if not is_repeatable(Lexed(f"{_HEAD}{_with(condition, 'DATE(1)', 'TIMESTAMP(1)')}")):
        raise NoPast("it may call only functions that always have the same value, besides current_date() and now()")
    try:
        tree = query_tree(Lexed(_HEAD + condition))
    except Doubt as doubt:
        raise NoPast(f"it is not understood ({doubt})") from doubt
    where = tree.args.get("where")
    if where is None or {key for key, value in tree.args.items() if value} - {"where", "expressions", "from_"}:
        raise NoPast("it is more than one condition")
    if next(where.find_all(exp.Query), None) is not None:
        raise NoPast("it has a subquery")
    _check(where.this)


def at(condition: str, moment: int) -> str:
    """The condition as of a moment, in milliseconds since the epoch; in brackets, and never NULL."""
    time = f"timestamp_millis({moment})"
    return f"coalesce(({_with(condition, f'CAST({time} AS DATE)', time)}), false)"


def columns(condition: str) -> frozenset[str]:
    """The names, in lower case, of the columns that a condition uses which has passed `check`."""
    return frozenset(each.name.lower() for each in query_tree(Lexed(_HEAD + condition)).find_all(exp.Column)) - _BARE


def _check(node: exp.Expr) -> None:
    if isinstance(node, exp.And | exp.Or | exp.Paren):
        for each in others(node, ()):
            _check(each)
        return
    clocks = [each for each in node.walk() if _is_clock(each)]
    if not clocks:
        return
    later = node.args.get("expression") if isinstance(node, _LATER) else node.args.get("this")
    earlier = node.args.get("this") if isinstance(node, _LATER) else node.args.get("expression")
    if not isinstance(node, (*_LATER, *_EARLIER)) or not isinstance(earlier, exp.Expr) or _has_clock(earlier):
        raise NoPast("only comparisons of the form column < time, with the current time, stay true as time passes")
    if not isinstance(later, exp.Expr) or not _keeps_order(later):
        raise NoPast("the time that it compares with is not the current one, truncated or moved by a constant")


def _keeps_order(node: exp.Expr) -> bool:
    """Whether the expression is never earlier at a later time."""
    if _is_clock(node):
        return True
    if not isinstance(node, _KEEPING_ORDER) or not isinstance(node.this, exp.Expr):
        return False
    if isinstance(node, exp.Cast) and node.to.this not in _TYPES:
        return False
    fixed = (each for each in others(node, ("this",)) if not isinstance(each, exp.DataType))
    return _keeps_order(node.this) and not any(_has_clock(each) or each.find(exp.Column) for each in fixed)


def _has_clock(node: exp.Expr) -> bool:
    return any(map(_is_clock, node.walk()))


def _is_clock(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Anonymous) and node.name.lower() in _TIMES
    return named or isinstance(node, exp.CurrentDate | exp.CurrentTimestamp)


def _with(condition: str, date: str, time: str) -> str:
    """The condition with other expressions in place of the current date and time."""
    pieces = Lexed(condition).pieces
    found = []
    for place, piece in enumerate(pieces):
        name = piece.text.lower()
        if piece.kind != "word" or name not in _DATES | _TIMES or (place and pieces[place - 1].text == "."):
            continue
        if (end := _end_of_call(pieces, place)) is not None or name in _BARE:
            found.append((piece.start, piece.end if end is None else end, date if name in _DATES else time))
    return splice(condition, found)


def _end_of_call(pieces: Sequence[Lexeme], place: int) -> int | None:
    """Where the brackets of a call without arguments end; None if none follow."""
    two = [each.text for each in pieces[place + 1 : place + 3]]
    return pieces[place + 2].end if two == ["(", ")"] else None
