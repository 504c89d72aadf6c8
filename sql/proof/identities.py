"""Expressions and conditions in canonical form, by identities that hold for all values.

Tests: `test_random_proofs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from sql.proof.averages import of_decimals, of_integers, plain
from sql.proof.cases import CASES, exactly, is_widened
from sql.proof.implication import implied
from sql.proof.terms import NotUnderstood, Term, in_order, is_key, literal, null, step
from sql.proof.understood_classes import COMMUTATIVE, FLIPPED, NULL_IGNORED, STRICT, has_identity, is_collated

ZERO = literal("Long", "0", "bigint")
ONE = literal("Integer", "1", "int")
IF = ("predicate=#", "trueValue=#", "falseValue=#")


def compose(op: str, args: tuple[Term, ...], detail: tuple[str, ...], type_text: str) -> Term:
    """An expression in canonical form. Raises NotUnderstood where an operand may stand only by itself."""
    for each in args if op != "key" else ():
        if is_collated(each.type):
            raise NotUnderstood(f"it computes with a string of a collation ({each.type})")
        if not has_identity(each.type) and is_key(each):
            raise NotUnderstood(f"it computes with a group's key of type {each.type}, of which equal values may differ")
    if op in FLIPPED:
        return Term(FLIPPED[op], args[::-1], detail, type_text)
    if op in COMMUTATIVE:
        return Term(op, tuple(sorted(args, key=lambda term: term.digest)), detail, type_text)
    term = Term(op, args, detail, type_text)
    return _IDENTITIES[op](term) if op in _IDENTITIES else term


def replaced(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with another one in the place of each of its columns, but for those of its subqueries."""
    if term.op == "column":
        return term if term.args[0].op == "side" else change(term)
    if not term.args or term.op == "core":
        return term
    return compose(term.op, tuple(replaced(each, change) for each in term.args), term.detail, term.type)


def core(relations: tuple[Term, ...], where: Iterable[Term]) -> Term:
    """All combinations of the relations' rows that meet all conditions."""
    ordered = tuple(sorted(relations, key=lambda term: term.digest))
    return Term("core", (Term("relations", ordered), Term("where", needed(where))))


def needed(where: Iterable[Term]) -> tuple[Term, ...]:
    """Leaves out conditions that follow from another one: `x > 2` from `x > 3`, `x IS NOT NULL` from either."""
    left = frozenset(where)
    strict = {found for condition in left for found in strict_columns(condition)}
    kept = [each for each in in_order(left) if not (each.op == "IsNotNull" and each.args[0] in strict)]
    for each in tuple(kept):
        # Only from one that is kept, so that of two equal ones one stays.
        if any(other != each and implied(each, other) for other in kept):
            kept.remove(each)
    return tuple(kept)


def strict_columns(term: Term) -> Iterator[Term]:
    """The columns whose NULL makes the term NULL."""
    step()
    if term.op == "column":
        yield term
    elif term.op in STRICT:
        for each in term.args[:1] if term.op == "In" else term.args:
            yield from strict_columns(each)


def _logical(term: Term) -> Term:
    flat = [part for each in term.args for part in (each.args if each.op == term.op else (each,))]
    return Term(term.op, in_order(flat), type=term.type)


def _in(term: Term) -> Term:
    return Term("In", (term.args[0], *in_order(term.args[1:])), type=term.type)


def _case(term: Term) -> Term:
    """CASE with one branch is IF."""
    if term.detail[0] != "branches=[(#,#)]":
        return term
    return Term("If", (*term.args[:2], term.args[2] if len(term.args) > 2 else null(term.type)), IF, term.type)


def _cast(term: Term) -> Term:
    """A cast to the operand's own type; a decimal with more digits, cast back; an average."""
    (operand,) = term.args
    if operand.type == term.type:
        # A view casts its columns to the types that it had when it was created. Spark leaves that out, but not always.
        return operand
    if operand.op == "widened" and (narrow := operand.args[0]) is not None:
        if narrow.type == term.type:
            return narrow
        if is_widened(narrow.type, term.type):
            return Term("widened", (narrow,), type=term.type)
    return of_decimals(term)


def _coalesce(term: Term) -> Term:
    first = term.args[0]
    if first.op == "null for none" and term.args[1:] == (ZERO,):
        return first.args[0]
    return first if _is_count(first) and first.type == term.type else term


def _is_count(term: Term) -> bool:
    """Whether the term is a count of a group's rows, which is never NULL."""
    if term.op == "column" and term.args[0].op == "grouped":
        term = term.args[1]
    return term.op == "AggregateExpression" and term.args[0].op == "Count"


def _aggregate(term: Term) -> Term:
    """An aggregate of `CASE WHEN p THEN x END` that ignores NULLs is one of x with FILTER; `count(7)` is `count(1)`."""
    function, *tests = term.args
    if function.op in NULL_IGNORED and len(function.args) == 1:
        operand = function.args[0]
        if operand.op == "If" and operand.args[2] == null(operand.type):
            test, operand, _ = operand.args
            tests = [compose("And", (test, *tests), (), "boolean") if tests else test]
        if function.op == "Count" and operand.op == "Literal" and operand != null(operand.type):
            operand = ONE
        function = Term(function.op, (operand,), function.detail, function.type)
        if function.op == "Average":
            function = plain(function)
    made = Term(term.op, (function, *tests), filtered(term.detail) if tests else term.detail, term.type)
    return exactly(made) if function.op == "Sum" and function.args[0].op in CASES else made


def filtered(detail: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of an aggregate expression that has a FILTER."""
    return tuple("filter=#" if each.startswith("filter=") else each for each in detail)


_UNITS = {"DAY": 0, "DD": 0, "MONTH": 1, "MM": 1, "MON": 1, "QUARTER": 2, "YEAR": 3, "YYYY": 3, "YY": 3}
_NAMES = ("DAY", "MONTH", "QUARTER", "YEAR")
"""Each is made of whole ones of those before it. Weeks are not: a week may have days of two months."""


def _truncated(term: Term) -> Term:
    """A truncated time, truncated to the same or a larger unit, in the same time zone."""
    unit, time = term.args
    while (size := _unit(unit)) is not None:
        if time.op == "TruncTimestamp" and time.detail == term.detail and (inner := _unit(time.args[0])) is not None:
            if inner > size:
                break
            time = time.args[1]
        elif (day := _day_of(time, term.detail)) is not None:
            time = day
        else:
            break
    if size is not None:
        unit = literal("UTF8String", _NAMES[size], "string")
    return Term(term.op, (unit, time), term.detail, term.type)


def _unit(term: Term) -> int | None:
    if term.op != "Literal" or not term.detail[0].startswith("value=UTF8String '"):
        return None
    return _UNITS.get(term.detail[0].removeprefix("value=UTF8String '").removesuffix("'").upper())


def _day_of(time: Term, detail: tuple[str, ...]) -> Term | None:
    """t of CAST(CAST(t AS DATE) AS TIMESTAMP) in the time zone of `detail`."""
    if time.op != "Cast" or time.type != "timestamp" or time.args[0].op != "Cast" or time.args[0].type != "date":
        return None
    inner = time.args[0].args[0]
    zone = [each for each in detail if each.startswith("timeZoneId=")]
    zones = [each for cast in (time, time.args[0]) for each in cast.detail if each.startswith("timeZoneId=")]
    return inner if inner.type == "timestamp" and zones == zone * 2 else None


def _on(term: Term) -> Term:
    return Term("on", in_order(term.args))


_IDENTITIES: Mapping[str, Callable[[Term], Term]] = {
    "on": _on,
    "And": _logical,
    "Or": _logical,
    "In": _in,
    "CaseWhen": _case,
    "Cast": _cast,
    "Divide": of_integers,
    "Coalesce": _coalesce,
    "AggregateExpression": _aggregate,
    "TruncTimestamp": _truncated,
}
