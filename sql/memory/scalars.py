"""Scalar expressions of Spark that mean the same in the engine: docs/internals/memory.md argues each.

Where the engine fails, Spark answers: so an expression must never have another value than Spark's, but it may fail
where Spark has one.

Tests: `test_translation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby

from sql.memory.casts import FLOATS, INTEGERS, TIMES, cast, decimal, required
from sql.memory.columns import ColumnFacts
from sql.memory.engine_literals import literal
from sql.memory.engine_texts import Hole, NotListed, Text, Typed, listed, sql
from sql.memory.zone_rules import UTC, UTC_RULES, ZoneRules
from sql.memory.zone_texts import ZoneTexts
from sql.proof.plan import Node, Scalar, Value
from sql.query.aggregates import DIGITS_MAX, Digits, digits_of

FULL_DIGITS = 39
"""To so many digits behind the point Spark divides decimals before it rounds to their type (Decimal./)."""
REPEATED_MAX = 4_000
"""Characters of a text that is written many times."""
_BITS_MIN = 32
"""Of the numbers that can be shifted."""
DOUBLE_DIGITS = 15
"""Whole numbers with so many digits are doubles, and so are their quotients by powers of ten, rounded once."""


class Fact(Enum):
    """What must hold of all values of a column."""

    NO_NEGATIVE_ZERO = "negative zeros"
    ASCII = "letters beyond ASCII"

    def holds(self, facts: ColumnFacts) -> bool:
        return not facts.has_negative_zero if self is Fact.NO_NEGATIVE_ZERO else facts.is_ascii


@dataclass(frozen=True, slots=True)
class EngineColumn:
    """A value of the rows below."""

    value: Typed
    fact: tuple[str, str] | None = None
    """The view's id and the column's name, if it is a column of a view."""


@dataclass(slots=True)
class ValuesBelow:
    """Values that are computed from rows before those of a SELECT are: each from the rows, and from those before it."""

    new_name: Callable[[], str]
    names: dict[Text, str] = field(default_factory=dict)
    """By the texts of the values."""

    def kept(self, text: Text) -> Text:
        if len(text.pieces) == 1 and isinstance(text.pieces[0], str) and text.pieces[0].replace('"', "").isidentifier():
            return text
        if text not in self.names:
            self.names[text] = self.new_name()
        return Text((self.names[text],))

    def source(self, rows: Text) -> Text:
        """The rows with these values."""
        for text, name in self.names.items():
            rows = sql(f"SELECT *, ? AS {name} FROM (?)", text, rows)
        return rows


@dataclass(slots=True)
class EngineScope:
    """The rows that an expression is computed from."""

    columns: Mapping[str, EngineColumn]
    """By their ids."""
    needed: set[tuple[str, str, Fact]] = field(default_factory=set)
    """What must hold of the columns of views: the view, the column, and the fact."""
    aggregate: Callable[[Node], Typed] | None = None
    """How an aggregate is written; None where there can be none."""
    subquery: Callable[[Node], Typed] | None = None
    """How a plan whose only row has the value is written; None where there can be none."""
    zone: ZoneRules = UTC_RULES
    """Of the session."""
    below: ValuesBelow | None = None
    """What is computed from the same rows beforehand; None where nothing can be."""

    def kept(self, text: Text) -> Text:
        """The name of a value that is computed beforehand, so that it can be written many times; or else its text.
        Raises NotListed if that is too long for it."""
        if self.below is not None:
            return self.below.kept(text)
        if len(str(text)) > REPEATED_MAX:
            raise NotListed("it computes a time from a computed time, in a join or a group")
        return text

    def needs(self, node: Node, fact: Fact) -> None:
        """Notes what must hold of all values of an expression, or of those of a function that keeps it. Raises
        NotListed unless the expression is a column of a view."""
        found = self.columns.get(node.id) if node.kind == "AttributeReference" else None
        if found is None or found.fact is None:
            raise NotListed(f"it computes {node.kind} where {fact.value} matter")
        self.needed.add((*found.fact, fact))


def expression(node: Node, scope: EngineScope) -> Typed:
    """Raises NotListed."""
    if node.kind == "AttributeReference":
        if node.id not in scope.columns:
            raise NotListed("it uses a column that is not in memory")
        return scope.columns[node.id].value
    if node.kind == "Hole":
        hole = Hole(int(text_of(node.fields["number"])), node.type, text_of(node.fields["negative"]) == "true")
        required(node.type)
        return Typed(Text((hole,)), node.type)
    if node.kind == "Literal":
        return Typed(Text((literal(node),)), node.type)
    if node.kind == "AggregateExpression":
        if scope.aggregate is None:
            raise NotListed("it contains an aggregate among rows")
        return scope.aggregate(node)
    if node.kind == "ScalarSubquery":
        if scope.subquery is None or node.fields["outerAttrs"] or node.fields["joinCond"]:
            raise NotListed("it contains a subquery that depends on the row around it")
        return scope.subquery(node_of(node.fields["plan"]))
    entry = _WRITERS.get(node.kind)
    if entry is None:
        raise NotListed(f"it contains the expression {node.kind}")
    names, write = entry
    if set(node.fields) != set(names.split()):
        raise NotListed(f"the expression {node.kind} has unknown parts")
    return write(node, scope)


# --- parts of nodes ----------------------------------------------------------------------------------------------


def node_of(value: Value) -> Node:
    if not isinstance(value, Node):
        raise NotListed("a plan lacks a part")
    return value


def nodes_in(value: Value) -> tuple[Node, ...]:
    if not isinstance(value, tuple):
        raise NotListed("a plan lacks a list")
    return tuple(node_of(each) for each in value)


def text_of(value: Value) -> str:
    if not isinstance(value, Scalar) or value.kind == "opaque":
        raise NotListed("a plan lacks a text")
    return value.text


class Decides(NotListed):
    """A literal that may be another one decides what is computed."""

    def __init__(self, hole: int) -> None:
        super().__init__("it computes what it must know before")
        self.hole = hole


def constant(node: Node, kind: str) -> str:
    """The value of a literal that decides what is computed. Raises NotListed, and Decides for a hole."""
    if node.kind == "Hole":
        raise Decides(int(text_of(node.fields["number"])))
    value = node.fields.get("value") if node.kind == "Literal" else None
    if not isinstance(value, Scalar) or node.type != kind:
        raise NotListed("it computes what it must know before")
    return value.text


def _operands(node: Node, scope: EngineScope, *names: str) -> list[Typed]:
    return [expression(node_of(node.fields[name]), scope) for name in names]


def _same_type(values: Sequence[Typed]) -> str:
    (found, *others) = dict.fromkeys(each.type for each in values)
    if others:
        raise NotListed(f"it compares a {found} with a {others[0]}")
    required(found)
    return found


def _mode(node: Node) -> None:
    """Whether overflow is an error or NULL does not matter: the engine fails, and Spark answers."""
    context = node_of(node.fields["evalContext"])
    if context.kind != "NumericEvalContext" or set(context.fields) != {"evalMode", "allowDecimalPrecisionLoss"}:
        raise NotListed("its arithmetic has an unknown mode")


# --- conditions --------------------------------------------------------------------------------------------------


def _comparison(operator: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        operands = _operands(node, scope, "left", "right")
        _same_type(operands)
        return Typed(sql(f"(? {operator} ?)", *operands), "boolean")

    return write


def _connective(operator: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        return Typed(sql(f"(? {operator} ?)", *_operands(node, scope, "left", "right")), "boolean")

    return write


def _not(node: Node, scope: EngineScope) -> Typed:
    return Typed(sql("(NOT ?)", *_operands(node, scope, "child")), "boolean")


def _in(node: Node, scope: EngineScope) -> Typed:
    value = expression(node_of(node.fields["value"]), scope)
    among = [expression(each, scope) for each in nodes_in(node.fields["list"])]
    _same_type([value, *among])
    return Typed(sql("(? IN (?))", value, listed([each.text for each in among])), "boolean")


def _null_test(test: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        return Typed(sql(f"(? {test})", *_operands(node, scope, "child")), "boolean")

    return write


def _if(node: Node, scope: EngineScope) -> Typed:
    asked, *values = _operands(node, scope, "predicate", "trueValue", "falseValue")
    return cast(sql("CASE WHEN ? THEN ? ELSE ? END", asked, *values), _same_type(values))


def _case(node: Node, scope: EngineScope) -> Typed:
    values, parts = list[Typed](), list[Text]()
    branches = node.fields["branches"]
    for branch in branches if isinstance(branches, tuple) else ():
        asked, value = (expression(node_of(each), scope) for each in node_of(branch).fields.values())
        values.append(value)
        parts.append(sql("WHEN ? THEN ?", asked, value))
    if node.fields["elseValue"] is not None:
        values.append(expression(node_of(node.fields["elseValue"]), scope))
        parts.append(sql("ELSE ?", values[-1]))
    if not parts:
        raise NotListed("it has a CASE without branches")
    return cast(sql("CASE ? END", listed(parts, " ")), _same_type(values))


def _of_many(function: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        values = [expression(each, scope) for each in nodes_in(node.fields["children"])]
        found = _same_type(values)
        if function != "coalesce" and found in FLOATS:
            raise NotListed(f"it computes {function} of a {found}")
        return cast(sql(f"{function}(?)", listed([each.text for each in values])), found)

    return write


# --- numbers -----------------------------------------------------------------------------------------------------


def _arithmetic(operator: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        _mode(node)
        left, right = _operands(node, scope, "left", "right")
        if digits_of(node.type) is not None:
            return _decimal_arithmetic(operator, left, right, node.type)
        if node.type not in INTEGERS | FLOATS or {left.type, right.type} != {node.type}:
            raise NotListed(f"it computes {left.type} {operator} {right.type}")
        return cast(sql(f"(? {operator} ?)", left, right), node.type)

    return write


def _decimal_arithmetic(operator: str, left: Typed, right: Typed, type_text: str) -> Typed:
    """Exactly, in a type that has all digits: nothing is rounded."""
    one, other, result = decimal(left.type), decimal(right.type), decimal(type_text)
    scale = one.scale + other.scale if operator == "*" else max(one.scale, other.scale)
    if result.scale < scale or (operator == "*" and one.precision + other.precision > DIGITS_MAX):
        raise NotListed("it rounds a decimal for want of digits")
    if operator == "*":
        return cast(sql("(? * ?)", left, right), type_text)
    wide = f"DECIMAL({DIGITS_MAX},{scale})"
    return cast(sql(f"(CAST(? AS {wide}) {operator} CAST(? AS {wide}))", left, right), type_text)


def _divide(node: Node, scope: EngineScope) -> Typed:
    _mode(node)
    left, right = _operands(node, scope, "left", "right")
    if node.type == "double" and left.type == right.type == "double":
        # Division by zero is an error or NULL in Spark, by its mode.
        return cast(sql("CASE WHEN ? = 0 THEN error('division by zero') ELSE ? / ? END", right, left, right), "double")
    result, divided, divisor = decimal(node.type), decimal(left.type), decimal(right.type)
    if divisor.precision > FULL_DIGITS - result.scale:
        raise NotListed("it divides by a decimal with too many digits")
    above, below = unscaled(left), unscaled(right)
    return quotient(above, below, result.scale - divided.scale + divisor.scale, result)


def unscaled(value: Typed) -> Text:
    """A decimal's digits as a whole number."""
    digits = decimal(value.type)
    if digits.precision + digits.scale >= DIGITS_MAX:
        # A product would need more digits than the engine has.
        return sql("CAST(replace(CAST(? AS VARCHAR), '.', '') AS HUGEINT)", value)
    return sql(f"CAST(? * CAST(1{'0' * digits.scale} AS DECIMAL({digits.scale + 1},0)) AS HUGEINT)", value)


def quotient(above: Text, below: Text, more: int, result: Digits) -> Typed:
    """`above` by `below`, whole numbers, as a decimal, rounded half up (away from zero). The digits of the quotient
    must be `more` than those of `above`. The engine fails if they do not fit."""
    if not 0 <= more < DIGITS_MAX:
        raise NotListed("it divides decimals of unusual types")
    doubled = sql(f"(2 * abs(?) * CAST(1{'0' * more} AS HUGEINT))", above)
    # sign(?) of NULL is NULL, and so is the whole.
    digits = sql(
        "(sign(?) * sign(?) * CAST((? + abs(?)) // (2 * abs(?)) AS HUGEINT))", above, below, doubled, below, below
    )
    return scaled(digits, result)


def scaled(digits: Text, result: Digits) -> Typed:
    """The decimal with these digits."""
    if result.scale == 0:
        return cast(digits, str(result).lower())
    unit = f"CAST('0.{'0' * (result.scale - 1)}1' AS DECIMAL({result.scale},{result.scale}))"
    return cast(sql(f"(CAST(? AS DECIMAL({DIGITS_MAX},0)) * {unit})", digits), str(result).lower())


def _whole_division(operator: str) -> Callable[[Node, EngineScope], Typed]:
    """Both round towards zero, so a remainder has the sign of what is divided."""

    def write(node: Node, scope: EngineScope) -> Typed:
        _mode(node)
        left, right = _operands(node, scope, "left", "right")
        if left.type not in INTEGERS or right.type != left.type:
            raise NotListed(f"it computes {left.type} {operator} {right.type}")
        return cast(sql(f"(? {operator} ?)", left, right), node.type)

    return write


def _bits(operator: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        operands = _operands(node, scope, "left", "right")
        if _same_type(operands) not in INTEGERS:
            raise NotListed(f"it computes {operator} of a {operands[0].type}")
        return cast(sql(f"(? {operator} ?)", *operands), node.type)

    return write


def _shifted(node: Node, scope: EngineScope) -> Typed:
    """As GROUPING asks for the bits of the id of a grouping set, which is never negative."""
    value, places = expression(node_of(node.fields["left"]), scope), constant(node_of(node.fields["right"]), "int")
    if value.type not in {"int", "bigint"} or not 0 <= int(places) < _BITS_MIN:
        raise NotListed(f"it shifts a {value.type}")
    return cast(sql(f"CASE WHEN ? >= 0 THEN ? >> {places} ELSE error('sign') END", value, value), node.type)


def _negated(node: Node, scope: EngineScope) -> Typed:
    (value,) = _operands(node, scope, "child")
    if value.type not in INTEGERS and digits_of(value.type) is None:
        raise NotListed(f"it negates a {value.type}")
    return cast(sql("(- ?)", value), node.type)


def _absolute(node: Node, scope: EngineScope) -> Typed:
    (value,) = _operands(node, scope, "child")
    if value.type not in INTEGERS and digits_of(value.type) is None:
        raise NotListed(f"it computes abs of a {value.type}")
    return cast(sql("abs(?)", value), node.type)


def _round(node: Node, scope: EngineScope) -> Typed:
    value = expression(node_of(node.fields["child"]), scope)
    places, digits = int(constant(node_of(node.fields["scale"]), "int")), decimal(value.type)
    result = decimal(node.type)
    if places >= digits.scale:
        return cast(value.text, node.type)
    if places < 0:
        raise NotListed("it rounds before the point")
    return quotient(unscaled(value), _power(digits.scale - places), 0, Digits(result.precision, result.scale))


def _power(digits: int) -> Text:
    return Text((f"CAST(1{'0' * digits} AS HUGEINT)",))


# --- casts -------------------------------------------------------------------------------------------------------


def _cast(node: Node, scope: EngineScope) -> Typed:
    child = node_of(node.fields["child"])
    if node.type == "timestamp" and (midnight := _day_of_midnight(child)) is not None:
        time = cast(expression(midnight, scope).text, "timestamp")
        return cast(_clocks(node, scope).instant(time.text), "timestamp")
    value = expression(child, scope)
    if "timestamp" in (value.type, node.type) and {value.type, node.type} & (TIMES | {"date", "string"}):
        value = _cast_time(value, node, scope)
    if not _keeps_value(value.type, node.type, node):
        raise NotListed(f"it casts {value.type} to {node.type}")
    digits = digits_of(value.type)
    if digits is not None and (fewer := digits_of(node.type)) is not None and fewer.scale < digits.scale:
        return quotient(unscaled(value), _power(digits.scale - fewer.scale), 0, fewer)
    if node.type == "double" and digits is not None:
        # Both are doubles without rounding, so that the quotient is rounded once.
        return cast(sql(f"(CAST(? AS DOUBLE) / 1e{digits.scale})", unscaled(value)), "double")
    if value.type in TIMES | {"date"} and node.type == "string":
        # Of times, the engine leaves out the zeros at the end of a fraction, too.
        years = "CASE WHEN ? BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' OR ? IS NULL"
        if value.type != "date":
            years = "CASE WHEN year(?) BETWEEN 1 AND 9999 OR ? IS NULL"
        return cast(sql(f"{years} THEN CAST(? AS VARCHAR) ELSE error('year') END", value, value, value), "string")
    return cast(value.text, node.type)


def _day_of_midnight(text: Node) -> Node | None:
    """The date whose text, with ` 00:00:00` behind it, this is: so tools ask for its first moment."""
    parts = nodes_in(text.fields["children"]) if text.kind == "Concat" else ()
    if len(parts) != 2 or parts[0].kind != "Cast" or parts[1].kind not in {"Literal", "Hole"}:
        return None
    day = node_of(parts[0].fields["child"])
    return day if day.type == "date" and constant(parts[1], "string") == " 00:00:00" else None


def _cast_time(value: Typed, node: Node, scope: EngineScope) -> Typed:
    """A value that is cast from or to TIMESTAMP, as the TIMESTAMP_NTZ that the clocks show, or as TIMESTAMP."""
    clocks = _clocks(node, scope)
    if value.type == "timestamp":
        return value if node.type == "timestamp" else Typed(clocks.local(value.text), "timestamp_ntz")
    if value.type == "date":
        return cast(clocks.day_begin(cast(value.text, "timestamp").text), "timestamp")
    return Typed(clocks.instant(value.text), "timestamp") if value.type == "timestamp_ntz" else value


def _keeps_value(before: str, after: str, node: Node) -> bool:
    if before == after:
        return required(before) != ""
    digits, wanted = digits_of(before), digits_of(after)
    if before in INTEGERS:
        return after in INTEGERS or after in {"double", "string"} or wanted is not None
    if digits is not None:
        if wanted is not None:
            return True
        if after == "double":
            return digits.precision <= DOUBLE_DIGITS
        return after == "string" and not _may_be_shown_by_exponent(digits, node)
    if before in {"boolean", "date", "timestamp_ntz"} and after == "string":
        return True
    if {before, after} == {"date", "timestamp_ntz"}:
        return True
    return before == "float" and after == "double"


def _may_be_shown_by_exponent(digits: Digits, node: Node) -> bool:
    """Outside of ANSI mode Spark shows 0.0000001 as 1E-7."""
    return text_of(node.fields["evalMode"]) != "ANSI" and digits.scale > 6


def _clocks(node: Node, scope: EngineScope) -> ZoneTexts:
    """Those of the time zone that the expression is computed in."""
    zone = node.fields.get("timeZoneId")
    name = zone.text if isinstance(zone, Scalar) else ""
    if name in UTC:
        return ZoneTexts(UTC_RULES, scope.kept)
    if name != scope.zone.name:
        raise NotListed("it computes times in another time zone than that of the session")
    return ZoneTexts(scope.zone, scope.kept)


def local_time(value: Typed, node: Node, scope: EngineScope) -> Text:
    """What the clocks show at a time, of which a part is taken."""
    if value.type not in TIMES:
        raise NotListed(f"it takes a part of a {value.type}")
    return value.text if value.type == "timestamp_ntz" else _clocks(node, scope).local(value.text)


# --- strings -----------------------------------------------------------------------------------------------------


def _strings(values: Sequence[Typed]) -> None:
    if any(each.type != "string" for each in values):
        raise NotListed("it uses another type as a string")


def _of_strings(template: str, *names: str, result: str = "string") -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        operands = _operands(node, scope, *names)
        _strings(operands)
        return cast(sql(template, *operands), result)

    return write


def _concat(node: Node, scope: EngineScope) -> Typed:
    values = [expression(each, scope) for each in nodes_in(node.fields["children"])]
    _strings(values)
    return cast(sql("(?)", listed([each.text for each in values], " || ")), "string")


def _changed_case(function: str) -> Callable[[Node, EngineScope], Typed]:
    """Java and the engine know other letters beyond ASCII."""

    def write(node: Node, scope: EngineScope) -> Typed:
        child = node_of(node.fields["child"])
        scope.needs(child, Fact.ASCII)
        value = expression(child, scope)
        _strings([value])
        return cast(sql(f"{function}(?)", value), "string")

    return write


def _substring(node: Node, scope: EngineScope) -> Typed:
    value = expression(node_of(node.fields["str"]), scope)
    _strings([value])
    place, length = (int(constant(node_of(node.fields[name]), "int")) for name in ("pos", "len"))
    if place >= 0:
        return cast(sql(f"substring(?, {max(place, 1)}, {max(length, 0)})", value), "string")
    # From the end. Characters before the first one count, but there are none.
    start, taken = f"(length(?) - {-place})", f"(length(?) - {-place} + {length})"
    text = f"substring(?, greatest({start}, 0) + 1, greatest({taken} - greatest({start}, 0), 0))"
    return cast(sql(text, *[value] * 4), "string")


def _trimmed(side: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        if node.fields["trimStr"] is not None:
            raise NotListed("it trims other characters than blanks")
        value = expression(node_of(node.fields["srcStr"]), scope)
        _strings([value])
        return cast(sql(f"{side}(?, ' ')", value), "string")

    return write


def _like(node: Node, scope: EngineScope) -> Typed:
    value = expression(node_of(node.fields["left"]), scope)
    pattern = constant(node_of(node.fields["right"]), "string")
    escape, wanted = text_of(node.fields["escapeChar"]), expression(node_of(node.fields["right"]), scope)
    if value.type != "string" or escape in _NO_ESCAPES:
        raise NotListed("it uses LIKE of another type, or with an unusual escape")
    if escape not in pattern:
        return Typed(sql("(? LIKE ?)", value, wanted), "boolean")
    # What follows an escape must be a wildcard or an escape: anything else is an error in Spark.
    if escape in pattern.replace(escape * 2, "").replace(f"{escape}%", "").replace(f"{escape}_", ""):
        raise NotListed("it uses an escape in LIKE before another character")
    return Typed(sql(f"(? LIKE ? ESCAPE '{escape}')", value, wanted), "boolean")


_NO_ESCAPES = frozenset("%_'?")
"""Characters that mean something else in a pattern or in the engine's text."""


# --- dates and times ---------------------------------------------------------------------------------------------


def _date_part(template: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        (value,) = _operands(node, scope, "child")
        if value.type != "date":
            raise NotListed(f"it takes a part of a {value.type}")
        return cast(sql(template, value), "int")

    return write


def _time_part(function: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        (value,) = _operands(node, scope, "child")
        return cast(sql(f"{function}(?)", local_time(value, node, scope)), "int")

    return write


_DAY_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
_TIME_UNITS = _DAY_UNITS | {"day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second"}


def _truncated(units: Mapping[str, str], what: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        unit = units.get(constant(node_of(node.fields["format"]), "string").lower())
        value = expression(node_of(node.fields[what]), scope)
        if unit is None or value.type != node.type:
            raise NotListed("it truncates a time to another unit")
        if what == "date" or unit == "second":
            # Offsets are whole seconds.
            return cast(sql(f"date_trunc('{unit}', ?)", value), node.type)
        clocks = _clocks(node, scope)
        if unit in _DAY_UNITS.values():
            return cast(clocks.day_begin(sql(f"date_trunc('{unit}', ?)", clocks.local(value.text))), node.type)
        return cast(clocks.truncated(unit, value.text), node.type)

    return write


def _moved_date(operator: str) -> Callable[[Node, EngineScope], Typed]:
    def write(node: Node, scope: EngineScope) -> Typed:
        start, days = _operands(node, scope, "startDate", "days")
        if start.type != "date" or days.type not in INTEGERS - {"bigint"}:
            raise NotListed(f"it moves a {start.type} by a {days.type}")
        return cast(sql(f"(? {operator} CAST(? AS INTEGER))", start, days), "date")

    return write


def _days_between(node: Node, scope: EngineScope) -> Typed:
    end, start = _operands(node, scope, "endDate", "startDate")
    if end.type != "date" or start.type != "date":
        raise NotListed("it subtracts times")
    return cast(sql("(? - ?)", end, start), "int")


def _moved_months(node: Node, scope: EngineScope) -> Typed:
    """Both keep the day, or take the last one of a month that is too short."""
    start, months = _operands(node, scope, "startDate", "numMonths")
    if start.type != "date" or months.type != "int":
        raise NotListed(f"it moves a {start.type} by months")
    return cast(sql("(? + to_months(?))", start, months), "date")


def _last_day(node: Node, scope: EngineScope) -> Typed:
    (value,) = _operands(node, scope, "startDate")
    if value.type != "date":
        raise NotListed(f"it takes the last day of a {value.type}")
    return cast(sql("last_day(?)", value), "date")


_PATTERN_PIECES = {
    **{"yyyy": "%Y", "y": "%Y", "yy": "%y", "MM": "%m", "M": "%-m", "MMM": "%b", "MMMM": "%B"},
    **{"dd": "%d", "d": "%-d", "DDD": "%j", "E": "%a", "EEE": "%a", "EEEE": "%A"},
    **{"HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "a": "%p", "mm": "%M", "m": "%-M", "ss": "%S", "s": "%-S"},
}
_PATTERN_CHARACTERS = frozenset("0123456789-/.,_ :")
"""What patterns of both show as it is."""


def _pattern(text: str) -> str:
    """The engine's pattern for one of Spark's. Raises NotListed."""
    found = list[str]()
    for letter, letters in groupby(text):
        piece = "".join(letters)
        if letter not in _PATTERN_CHARACTERS and piece not in _PATTERN_PIECES:
            raise NotListed("it formats a time by another pattern")
        found.append(_PATTERN_PIECES.get(piece, piece))
    return "".join(found)


def _formatted(node: Node, scope: EngineScope) -> Typed:
    value, pattern = expression(node_of(node.fields["left"]), scope), constant(node_of(node.fields["right"]), "string")
    return _shown_by(pattern, value, node, scope)


def _shown_by(pattern: str, time: Typed, node: Node, scope: EngineScope) -> Typed:
    """Formats only years with four digits: other ones are shown otherwise."""
    value = _clocks(node, scope).local(time.text)
    if time.type != "timestamp":
        raise NotListed(f"it formats a {time.type}")
    shown = f"strftime(?, '{_pattern(pattern)}')"
    text = f"CASE WHEN year(?) BETWEEN 1000 AND 9999 OR ? IS NULL THEN {shown} ELSE error('year') END"
    return cast(sql(text, value, value, value), "string")


def _formatted_seconds(node: Node, scope: EngineScope) -> Typed:
    seconds = expression(node_of(node.fields["sec"]), scope)
    if seconds.type != "bigint":
        raise NotListed(f"it takes a {seconds.type} as seconds")
    time = Typed(sql("make_timestamp(? * 1000000)", seconds), "timestamp")
    return _shown_by(constant(node_of(node.fields["format"]), "string"), time, node, scope)


def _seconds(node: Node, scope: EngineScope) -> Typed:
    """Spark divides microseconds towards zero, as the engine does."""
    (value,) = _operands(node, scope, "timeExp")
    if value.type not in {"date", "timestamp"}:
        raise NotListed(f"it takes the seconds of a {value.type}")
    if value.type == "date":
        value = Typed(_clocks(node, scope).day_begin(cast(value.text, "timestamp").text), "timestamp")
    return cast(sql("(epoch_us(CAST(? AS TIMESTAMP)) // 1000000)", value), "bigint")


def _same(node: Node, scope: EngineScope) -> Typed:
    (value,) = _operands(node, scope, "child")
    return value


Writer = Callable[[Node, EngineScope], Typed]
_WRITERS: Mapping[str, tuple[str, Writer]] = {
    "Alias": ("child name", _same),
    "KnownNotNull": ("child", _same),
    "UnaryPositive": ("child", _same),
    # Conditions
    "EqualTo": ("left right", _comparison("=")),
    "EqualNullSafe": ("left right", _comparison("IS NOT DISTINCT FROM")),
    "LessThan": ("left right", _comparison("<")),
    "LessThanOrEqual": ("left right", _comparison("<=")),
    "GreaterThan": ("left right", _comparison(">")),
    "GreaterThanOrEqual": ("left right", _comparison(">=")),
    "And": ("left right", _connective("AND")),
    "Or": ("left right", _connective("OR")),
    "Not": ("child", _not),
    "In": ("value list", _in),
    "IsNull": ("child", _null_test("IS NULL")),
    "IsNotNull": ("child", _null_test("IS NOT NULL")),
    "If": ("predicate trueValue falseValue", _if),
    "CaseWhen": ("branches elseValue", _case),
    "Coalesce": ("children", _of_many("coalesce")),
    "Greatest": ("children", _of_many("greatest")),
    "Least": ("children", _of_many("least")),
    # Numbers
    "Add": ("left right evalContext", _arithmetic("+")),
    "Subtract": ("left right evalContext", _arithmetic("-")),
    "Multiply": ("left right evalContext", _arithmetic("*")),
    "Divide": ("left right evalContext", _divide),
    "IntegralDivide": ("left right evalContext", _whole_division("//")),
    "Remainder": ("left right evalContext", _whole_division("%")),
    "BitwiseAnd": ("left right", _bits("&")),
    "BitwiseOr": ("left right", _bits("|")),
    "ShiftRight": ("left right", _shifted),
    "UnaryMinus": ("child failOnError", _negated),
    "Abs": ("child failOnError", _absolute),
    "Round": ("child scale ansiEnabled", _round),
    "Cast": ("child dataType timeZoneId evalMode", _cast),
    # Strings
    "Concat": ("children", _concat),
    "Upper": ("child", _changed_case("upper")),
    "Lower": ("child", _changed_case("lower")),
    "Length": ("child", _of_strings("length(?)", "child", result="int")),
    "Substring": ("str pos len", _substring),
    "StringTrim": ("srcStr trimStr", _trimmed("trim")),
    "StringTrimLeft": ("srcStr trimStr", _trimmed("ltrim")),
    "StringTrimRight": ("srcStr trimStr", _trimmed("rtrim")),
    "StartsWith": ("left right", _of_strings("starts_with(?, ?)", "left", "right", result="boolean")),
    "EndsWith": ("left right", _of_strings("ends_with(?, ?)", "left", "right", result="boolean")),
    "Contains": ("left right", _of_strings("contains(?, ?)", "left", "right", result="boolean")),
    "Like": ("left right escapeChar", _like),
    # Dates and times
    "Year": ("child", _date_part("year(?)")),
    "Quarter": ("child", _date_part("quarter(?)")),
    "Month": ("child", _date_part("month(?)")),
    "WeekOfYear": ("child", _date_part("weekofyear(?)")),
    "DayOfMonth": ("child", _date_part("day(?)")),
    "DayOfYear": ("child", _date_part("dayofyear(?)")),
    "DayOfWeek": ("child", _date_part("(dayofweek(?) + 1)")),
    "WeekDay": ("child", _date_part("(isodow(?) - 1)")),
    "Hour": ("child timeZoneId", _time_part("hour")),
    "Minute": ("child timeZoneId", _time_part("minute")),
    "Second": ("child timeZoneId", _time_part("second")),
    "TruncDate": ("date format", _truncated(_DAY_UNITS, "date")),
    "TruncTimestamp": ("format timestamp timeZoneId", _truncated(_TIME_UNITS, "timestamp")),
    "DateAdd": ("startDate days", _moved_date("+")),
    "DateSub": ("startDate days", _moved_date("-")),
    "DateDiff": ("endDate startDate", _days_between),
    "AddMonths": ("startDate numMonths", _moved_months),
    "LastDay": ("startDate", _last_day),
    "DateFormatClass": ("left right timeZoneId", _formatted),
    "FromUnixTime": ("sec format timeZoneId", _formatted_seconds),
    "UnixTimestamp": ("timeExp format timeZoneId failOnError", _seconds),
    "ToUnixTimestamp": ("timeExp format timeZoneId failOnError", _seconds),
}
"""How an expression is written, by its class, and the fields that it has: one that a later Spark adds may change what
it means."""
