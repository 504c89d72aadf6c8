"""The states of aggregate functions: what is stored of a group so that further rows can be added to it.

Tests: `test_increment_mutants`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sql.increments.reasons import Reason
from sql.increments.templates import Aggregate
from sql.increments.written import refuse
from sql.names import quote
from sql.query.aggregates import (
    APPROXIMATE,
    COUNTS,
    MERGED_BY_ITSELF,
    ORDERED,
    SYNONYMS,
    digits_of,
    digits_of_average,
)
from sql.query.averaging import (
    EXACT_SCALE_MAX,
    SPARE_DIGITS,
    SUMMED_EXACTLY,
    exact_quotient,
    quotient,
    spare_digits,
)

COUNT = "freshgate_n"
"""The number of a group's rows."""
_INTEGRAL = SUMMED_EXACTLY | {"bigint"}
_DIGITS_MAX = 18
"""Of decimals whose average is computed."""
_PART_BITS = 21
_PART = 2**_PART_BITS - 1


@dataclass(frozen=True, slots=True)
class AggregateState:
    """One value that is kept of a group."""

    number: int
    text: str
    """How it is computed of the definition's rows."""
    merge: str
    """How it is computed of the states of parts of the group."""
    kind: str
    """Its type."""
    exact: bool
    """Whether the state of removed rows can be subtracted."""
    counts: bool = False
    column: str = ""
    """The column that stores it."""

    @property
    def adds_floats(self) -> bool:
        return self.kind.upper() in APPROXIMATE and self.merge.startswith("sum(")

    @property
    def merged(self) -> str:
        """The merge in the state's own type, which only sums do not keep."""
        return f"CAST({self.merge} AS {self.kind})" if "sum(" in self.merge else self.merge

    @property
    def name(self) -> str:
        """Its column while states are merged."""
        return COUNT if self.number < 0 else f"freshgate_s{self.number}"


ROWS = AggregateState(-1, "count(*)", f"sum({quote(COUNT)})", "bigint", True, True, COUNT)


class Types:
    """The types that Spark has told."""

    def __init__(self, texts: Sequence[str], types: Mapping[str, str], ansi: bool) -> None:
        self._types = {text: types[label(number)].lower() for number, text in enumerate(texts)}
        self.ansi = ansi

    def of(self, text: str) -> str:
        found = self._types[text]
        if "collate" in found:
            raise refuse(f"{text} is a string with a collation", Reason.FUNCTION_NOT_MERGEABLE)
        return found


def label(number: int) -> str:
    """The column of the typing query."""
    return f"t{number}"


def function_of(aggregate: Aggregate) -> str:
    """The name by which its function is known here."""
    return SYNONYMS.get(aggregate.function, aggregate.function)


def value_text(argument: str) -> str:
    """An aggregate of the same type as the argument."""
    return f"any_value({argument})"


def questions(aggregate: Aggregate) -> list[str]:
    """The expressions whose types decide the states."""
    function = function_of(aggregate)
    if function in COUNTS or aggregate.verbatim:
        return []
    if function == "avg":
        argument = aggregate.arguments[0]
        return [value_text(argument), aggregate.text, aggregate.of("sum", argument)]
    if function in ORDERED:
        return [aggregate.text, aggregate.of(ORDERED[function], aggregate.arguments[1])]
    return [aggregate.text]


def subtractable(aggregate: Aggregate, types: Types) -> bool:
    """Whether removed rows can be subtracted."""
    function = function_of(aggregate)
    if aggregate.verbatim:
        return False
    if function in COUNTS:
        return True
    if function == "sum":
        return types.of(aggregate.text).upper() not in APPROXIMATE
    if function != "avg":
        return False
    kind = types.of(value_text(aggregate.arguments[0]))
    return kind in _INTEGRAL or digits_of(kind) is not None


class States:
    """The states of all aggregates of a definition; equal ones are stored once."""

    def __init__(self, types: Types, subtracts: bool) -> None:
        self._types = types
        self._subtracts = subtracts
        self._found: dict[str, AggregateState] = {ROWS.text: ROWS}
        self.finals: dict[Aggregate, str] = {}
        """By aggregate, its value as an expression over the merged states."""

    def all(self) -> tuple[AggregateState, ...]:
        return tuple(self._found.values())

    def add(self, aggregate: Aggregate) -> AggregateState | None:
        """The state that is the aggregate's value itself; None if the value is computed of several."""
        function = function_of(aggregate)
        own: AggregateState | None = None
        if aggregate.verbatim:
            raise refuse(aggregate.verbatim, Reason.FUNCTION_NOT_MERGEABLE)
        if function in COUNTS:
            own = self._state(aggregate.text, "coalesce(sum({}), 0)", "bigint", exact=True, counts=True)
            final = _column(own)
        elif function == "sum":
            own = self._sum(aggregate)
            final = self._unless_none(aggregate, _column(own)) if self._subtracts else _column(own)
        elif function == "avg":
            final = self._average(aggregate)
        elif function in ORDERED:
            final = _column(self._ordered(aggregate, function))
        elif function in MERGED_BY_ITSELF or function == "any_value":
            merge = "any_value({}, true)" if function == "any_value" else f"{function}({{}})"
            own = self._state(aggregate.text, merge, self._types.of(aggregate.text))
            final = _column(own)
        else:
            raise refuse(function, Reason.FUNCTION_NOT_MERGEABLE)
        self.finals[aggregate] = final
        return own

    def _state(self, text: str, merge: str, kind: str, *, exact: bool = False, counts: bool = False) -> AggregateState:
        if text not in self._found:
            number = len(self._found) - 1
            name = f"freshgate_s{number}"
            merged = merge.replace("{}", quote(name))
            self._found[text] = AggregateState(number, text, merged, kind, exact, counts, name)
        return self._found[text]

    def _sum(self, aggregate: Aggregate) -> AggregateState:
        text = aggregate.of("sum", *aggregate.arguments)
        kind = self._types.of(text)
        exact = kind == "bigint" or digits_of(kind) is not None
        if not exact and kind.upper() not in APPROXIMATE:
            raise refuse(f"sum of {kind}", Reason.FUNCTION_NOT_MERGEABLE)
        if kind.startswith("decimal") and not self._types.ansi:
            raise refuse("sum of decimals without ANSI mode, which hides an overflow", Reason.FUNCTION_NOT_MERGEABLE)
        return self._state(text, "sum({})", kind, exact=exact)

    def _count(self, aggregate: Aggregate) -> str:
        text = aggregate.of("count", *aggregate.arguments)
        return _column(self._state(text, "coalesce(sum({}), 0)", "bigint", exact=True, counts=True))

    def _unless_none(self, aggregate: Aggregate, value: str) -> str:
        """A sum of no values is NULL, also after subtraction."""
        return f"CASE WHEN {self._count(aggregate)} > 0 THEN {value} END"

    def _average(self, aggregate: Aggregate) -> str:
        """Integers: Spark adds them as DOUBLE. Their exact sum, divided as DOUBLE, is the same as long as it has no
        more than 53 bits, beyond which Spark's own result depends on the order of the rows. It can be subtracted."""
        (argument,) = aggregate.arguments
        kind = self._types.of(value_text(argument))
        digits = digits_of(kind)
        count = self._count(aggregate)
        if kind == "bigint":
            total = self._wide_sum(aggregate, argument)
        elif digits is not None:
            result = digits_of(self._types.of(aggregate.text))
            if digits.precision > _DIGITS_MAX or result != digits_of_average(digits):
                raise refuse(f"avg of {kind}", Reason.FUNCTION_NOT_MERGEABLE)
            total = _column(self._sum(aggregate))
        elif kind in SUMMED_EXACTLY or kind.upper() in APPROXIMATE or kind == "string":
            total = _column(self._sum(aggregate))
        else:
            raise refuse(f"avg of {kind}", Reason.FUNCTION_NOT_MERGEABLE)
        if digits is not None and spare_digits(digits) < SPARE_DIGITS and digits.scale <= EXACT_SCALE_MAX:
            value = exact_quotient(digits, total, count)
        else:
            value = quotient(digits, total, count, _cast, "{} / {}".format)
        return f"CASE WHEN {count} > 0 THEN {value} END"

    def _wide_sum(self, aggregate: Aggregate, argument: str) -> str:
        """The exact sum of BIGINT as a decimal, because it may overflow where the average does not. It is kept as the
        sums of three parts of the bits, which cannot overflow before 2^41 rows; Spark adds them several times as fast
        as decimals."""
        middle = f"shiftright(({argument}), {_PART_BITS}) & {_PART}"
        parts = (f"shiftright(({argument}), {2 * _PART_BITS})", middle, f"({argument}) & {_PART}")
        sums = [_column(self._state(aggregate.of("sum", part), "sum({})", "bigint", exact=True)) for part in parts]
        high, middle, low = (f"CAST({each} AS DECIMAL(20,0))" for each in sums)
        base = f"CAST({_PART + 1} AS DECIMAL(7,0))"
        return f"(({high} * {base} + {middle}) * {base} + {low})"

    def _ordered(self, aggregate: Aggregate, function: str) -> AggregateState:
        """max_by(x, y) is kept with the greatest y."""
        greatest = aggregate.of(ORDERED[function], aggregate.arguments[1])
        by = self._state(greatest, f"{ORDERED[function]}({{}})", self._types.of(greatest))
        merge = f"{function}({{}}, {_column(by)})"
        return self._state(aggregate.text, merge, self._types.of(aggregate.text))


def _cast(text: str, kind: str) -> str:
    return f"CAST({text} AS {kind})"


def _column(state: AggregateState) -> str:
    return quote(state.name)
