"""Aggregates of a query from the measures of a view: merged where several of the view's groups make one of the query's,
as they are where the groups are the same.

Tests: `test_matching`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from sql.query.aggregates import (
    APPROXIMATE,
    DIGITS_MAX,
    MERGED_BY_ITSELF,
    REPETITIONS_IGNORED,
    Digits,
    digits_in_sum,
    digits_of,
    digits_of_sum,
)
from sql.query.averaging import quotient
from sql.rewriting.blocks import GROUPING, aggregates_in, is_aggregate
from sql.rewriting.candidate import Mismatch, ViewColumn
from sql.rewriting.derivation import Derivation
from sql.rewriting.forms import (
    COUNT_OF_ROWS,
    as_case,
    call_of,
    form,
    holes_in,
    literal_text,
    mapped,
    results_of,
    shown,
)

MEASURES_STEP = 4
_DISTINCT = frozenset({"count", "sum", "avg"}) | REPETITIONS_IGNORED
_INT_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Rollup:
    """Writes aggregates over the measures of a view."""

    over: Derivation
    same_groups: bool
    """Whether the view's groups are those of the query: each measure is the result."""
    has_keys: bool
    """Whether the query groups by anything: otherwise it has a row even where the view has none."""

    def value(self, node: exp.Expr) -> exp.Expr:
        """An expression of the query over the view's columns. Raises Mismatch."""

        def change(each: exp.Expr) -> exp.Expr | None:
            if isinstance(each, exp.Window):
                return self._window(each)
            return self._aggregate(each) if is_aggregate(each) else None

        if next(aggregates_in(node), None) is None and node.find(exp.Window) is None:
            return self.over.value(node)
        if (changed := change(node)) is not None:
            return changed
        return type(node)(**{place: self._values(value) for place, value in node.args.items()})

    def _values(self, value: object) -> object:
        if isinstance(value, exp.Expr):
            return self.value(value)
        return [self._values(each) for each in value] if isinstance(value, list) else value

    def _window(self, window: exp.Expr) -> exp.Expr:
        """The function of a window stays; what it is computed from is written over the view."""

        def inner(each: exp.Expr) -> exp.Expr | None:
            return None if each is window or each is window.this or _is_frame(each) else self.value(each)

        return mapped(window, inner)

    # --- calls

    def _aggregate(self, node: exp.Expr) -> exp.Expr:
        call, condition = node, None
        if isinstance(node, exp.Filter):
            call, condition = node.this, self.over.value(node.expression.this)
        name, arguments = call_of(call)
        if name in GROUPING:
            return _grouping(call, self.over)
        if condition is not None and (found := self._measure(form(node))) is not None:
            return self._merged_measure(name, found, None, node)
        if (found := self._measure(form(call))) is not None and (self.same_groups or _is_merged(name, arguments)):
            return self._merged_measure(name, found, condition, call)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            return self._distinct(name, arguments[0], condition)
        compute = _COMPUTED.get(name)
        if compute is not None and len(arguments) == 1:
            return compute(self, arguments[0], condition)
        if name in REPETITIONS_IGNORED and len(arguments) == 1:
            derived = self.over.value(arguments[0])
            return self._only(derived, condition) if self.same_groups else _call(name, derived, condition)
        raise _missing(f"the view has no {shown(call)}, and it cannot be computed from the view's groups")

    def _measure(self, of: str) -> ViewColumn | None:
        return self.over.view.measures.get(of)

    def _merged_measure(
        self, name: str, measure: ViewColumn, condition: exp.Expr | None, written: exp.Expr
    ) -> exp.Expr:
        if name == "count":
            return self._counted(self.over.column(measure), condition)
        if name == "sum":
            return self._summed(measure, condition)
        if not self.same_groups and name not in MERGED_BY_ITSELF:
            raise _missing(f"the view's {shown(written)} cannot be added up over its groups")
        return self._merged(name, self.over.column(measure), condition)

    def _merged(self, name: str, column: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        return self._only(column, condition) if self.same_groups else _call(name, column, condition)

    @staticmethod
    def _only(value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        """The value of a group, if the condition, which is on keys, holds for it."""
        return value if condition is None else exp.Case(ifs=[exp.If(this=condition, true=value)])

    def _counted(self, counts: exp.Expr, condition: exp.Expr | None, *, partly: bool = False) -> exp.Expr:
        """The sum of counts; `partly`: some are NULL. No rows are counted as 0."""
        total = self._merged("sum", counts, condition)
        if not partly and condition is None and (self.has_keys or self.same_groups):
            return total
        return exp.Anonymous(this="coalesce", expressions=[total, exp.Literal.number(0)])

    def _summed(self, measure: ViewColumn, condition: exp.Expr | None) -> exp.Expr:
        self._check_exact(measure)
        return self._typed(self._merged("sum", self.over.column(measure), condition), measure.type)

    def _check_exact(self, measure: ViewColumn) -> None:
        if not self.same_groups and measure.type.upper() in APPROXIMATE:
            raise _missing(f"sums of {measure.type.upper()} differ in the last digit if they are added up")

    def _typed(self, total: exp.Expr, type_: str) -> exp.Expr:
        """The sum of sums, which has more digits, as the type of the sum."""
        return total if self.same_groups or digits_of(type_) is None else _cast(total, type_)

    def _distinct(self, name: str, distinct: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        if self.same_groups:
            raise _missing("the view does not count distinct values in its groups")
        try:
            values = [self.over.value(each) for each in distinct.expressions]
        except Mismatch as mismatch:
            raise _missing(f"distinct values of other columns than keys cannot be counted: {mismatch}") from None
        if name not in _DISTINCT:
            raise _missing(f"{name}(DISTINCT …) cannot be computed from groups")
        return _call(name, exp.Distinct(expressions=values), condition)

    # --- calls that are computed from other measures

    def _sum(self, argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        if (case := as_case(argument)) is not None:
            return self._sum_of_case(case, condition)
        if _number_of(argument) == "1" and (rows := self._measure(COUNT_OF_ROWS)) is not None:
            return self._merged("sum", self.over.column(rows), condition)
        raise _missing(f"the view has no sum({shown(argument)})")

    def _sum_of_case(self, case: exp.Case, condition: exp.Expr | None) -> exp.Expr:
        types: list[str] = []
        branches = [self._branch(branch, types) for branch in case.args["ifs"]]
        default = case.args.get("default")
        otherwise = None if default is None else self._branch_value(default, types)
        made = exp.Case(this=self._optional(case.this), ifs=branches, default=otherwise)
        if types and digits_of(types[0]) is None and any("." in literal_text(each) for each in _numbers(case)):
            raise _missing(f"the type of {shown(case)} is not known")
        with_zero = any(literal_text(each) == "0" for each in _numbers(case))
        type_ = _widened(types[0], with_zero=with_zero) if types else ""
        return self._typed(self._merged("sum", made, condition), type_)

    def _optional(self, node: exp.Expr | None) -> exp.Expr | None:
        return None if node is None else self.over.value(node)

    def _branch(self, branch: exp.Expr, types: list[str]) -> exp.If:
        return exp.If(this=self.over.value(branch.this), true=self._branch_value(branch.args["true"], types))

    def _branch_value(self, result: exp.Expr, types: list[str]) -> exp.Expr:
        """The sum over a group of what CASE gives for each of its rows."""
        number = _number_of(result)
        if isinstance(result, exp.Null) or _is_zero(result):
            self.over.pinned |= holes_in(result)
            return result
        measure = self._measure(COUNT_OF_ROWS if number == "1" else f"sum({form(result)})")
        if measure is None:
            raise _missing(f"the view has no {'count(*)' if number == '1' else f'sum({shown(result)})'}")
        self._check_exact(measure)
        types.append(measure.type)
        return self.over.column(measure)

    def _count(self, argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        case = as_case(argument)
        if case is None:
            present = exp.Not(this=exp.Is(this=argument, expression=exp.Null()))
            case = exp.Case(ifs=[exp.If(this=present, true=exp.Literal.number(1))])
        elif case.this is not None or not isinstance(case.args.get("default") or exp.Null(), exp.Null):
            raise _missing(f"the view has no count({shown(argument)})")
        branches = [
            exp.If(this=self.over.value(each.this), true=self.over.column(self._counts(each.args["true"])))
            for each in case.args["ifs"]
        ]
        return self._counted(exp.Case(ifs=branches), condition, partly=True)

    def _counts(self, counted: exp.Expr) -> ViewColumn:
        of = COUNT_OF_ROWS if isinstance(counted, exp.Literal) else f"count({form(counted)})"
        if (found := self._measure(of)) is None:
            raise _missing(
                "the view has no count(*)" if of == COUNT_OF_ROWS else f"the view has no count({shown(counted)})"
            )
        return found

    def _count_if(self, argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        return self._count(exp.Case(ifs=[exp.If(this=argument, true=exp.Literal.number(1))]), condition)

    def _avg(self, argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
        total, rows = self._measure(f"sum({form(argument)})"), self._measure(f"count({form(argument)})")
        if total is None or rows is None:
            raise _missing(f"an average needs sum({shown(argument)}) and count({shown(argument)}) in the view")
        self._check_exact(total)
        counted = self._merged("sum", self.over.column(rows), condition)
        summed = self._summed(total, condition)
        digits = digits_of(total.type)
        if digits is not None and digits.precision >= DIGITS_MAX:
            raise _missing("the type of the average is not known")
        averaged = None if digits is None else digits_in_sum(digits)
        return quotient(averaged, summed, counted, _cast, _divided)


_COMPUTED: dict[str, Callable[[Rollup, exp.Expr, exp.Expr | None], exp.Expr]] = {
    "sum": Rollup._sum,
    "count": Rollup._count,
    "count_if": Rollup._count_if,
    "avg": Rollup._avg,
}


def _grouping(call: exp.Expr, over: Derivation) -> exp.Expr:
    return mapped(call, lambda each: None if each is call else over.value(each))


def _is_merged(name: str, arguments: list[exp.Expr]) -> bool:
    """Whether results of groups make the result of all; counts of distinct values do not."""
    is_distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    return name in MERGED_BY_ITSELF or (name in ("sum", "count") and not is_distinct)


def _is_frame(node: exp.Expr) -> bool:
    return isinstance(node, exp.Order | exp.Ordered | exp.WindowSpec | exp.Literal | exp.Filter | exp.Where)


def _call(name: str, argument: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    call = exp.Anonymous(this=name, expressions=[argument])
    return call if condition is None else exp.Filter(this=call, expression=exp.Where(this=condition))


def _cast(node: exp.Expr, type_: str) -> exp.Expr:
    return exp.Cast(this=node, to=_type(type_))


def _divided(total: exp.Expr, count: exp.Expr) -> exp.Expr:
    return exp.Div(this=total, expression=count)


@lru_cache(maxsize=1_024)
def _type(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect="spark")


def _number_of(node: exp.Expr) -> str:
    """The text of a number; empty for anything else."""
    text = literal_text(node) if isinstance(node, exp.Literal) else ""
    return text if text.isdecimal() else ""


def _numbers(case: exp.Case) -> list[exp.Expr]:
    return [each for each in results_of(case) if isinstance(each, exp.Literal)]


def _is_zero(node: exp.Expr) -> bool:
    text = literal_text(node) if isinstance(node, exp.Literal) else ""
    return bool(text) and not text.replace(".", "", 1).strip("0") and text != "."


def _widened(type_: str, *, with_zero: bool) -> str:
    """The type of a sum whose argument may also be the INT 0."""
    digits = digits_of(type_)
    if digits is None or not with_zero:
        return type_
    precision, scale = digits_in_sum(digits)
    return str(digits_of_sum(Digits(max(precision - scale, _INT_DIGITS) + scale, scale)))


def _missing(reason: str) -> Mismatch:
    return Mismatch(MEASURES_STEP, reason)
