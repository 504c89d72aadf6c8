"""The merge lemma: groups of smaller groups are groups of the rows below, if every measure merges.

Tests: `test_random_proofs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from sql.proof.cases import CASES, INTEGERS, is_zero, measured, narrowed, with_results, zero
from sql.proof.equalities import Equalities
from sql.proof.identities import ONE, compose, core, filtered, replaced
from sql.proof.occurrences import apart, renamed
from sql.proof.terms import ONLY_VALUE, Term, column, columns_of, conditions, in_order, null, within
from sql.proof.understood_classes import DUPLICATES_IGNORED, MERGED_BY_ITSELF, has_identity, is_collated
from sql.query.aggregates import digits_of, digits_of_sum, sum_is_certain

Output: TypeAlias = tuple[tuple[str, Term], ...]
Groups: TypeAlias = tuple[tuple[Term, ...], frozenset[Term], frozenset[Term], Output]
"""Relations, conditions, keys, and what is computed of each group."""
DISTINCT = "isDistinct=Boolean 'true'"


class _Unmergeable(Exception):
    """A value that cannot be computed from the measures of smaller groups."""


def merge(
    source: Term, relations: tuple[Term, ...], where: frozenset[Term], keys: frozenset[Term], output: Output
) -> Groups | None:
    """The same groups over the rows of which `source`, one of the relations, has groups; None if that is not certain.

    Each row of the other relations meets every row of a group, or none, because the conditions use the group's keys
    only. Groups without keys always have one row, also of no rows, so they are not merged.
    """
    if source.op != "grouped" or not source.args[1].args:
        return None
    inner_relations, inner_where = source.args[0].args
    others = tuple(each for each in relations if each != source)
    names = apart(inner_relations.args, others)
    if names is None:
        return None
    # A table may be below the groups and beside them.
    together = (*(names.get(each, each) for each in others), *inner_relations.args)
    where, keys = (frozenset(renamed(each, names) for each in terms) for terms in (where, keys))
    output = tuple((each, renamed(term, names)) for each, term in output)
    merging = _Merging(source, keys)
    try:
        conjuncts = {part for each in where for part in conditions(merging.by_key(each))}
        merged = tuple((each, merging.merged(term)) for each, term in output)
        return together, frozenset(conjuncts.union(inner_where.args)), frozenset(map(merging.by_key, keys)), merged
    except _Unmergeable:
        return None


def merge_expanded(
    source: Term, relations: tuple[Term, ...], where: frozenset[Term], keys: frozenset[Term], output: Output
) -> Groups | None:
    """The same groups of expanded rows below, where `source`, one of the relations, expands groups for several sets of
    keys; None if that is not certain.

    A group of the source stands for rows of which each is expanded like the group, because what differs among the
    copies uses its keys only.
    """
    if source.op != "expanded":
        return None
    inner_relations, inner_where = source.args[0].args
    for groups in inner_relations.args:
        if groups.op == "grouped" and groups.args[1].args:
            others = tuple(each for each in inner_relations.args if each != groups)
            together = (*others, *groups.args[0].args[0].args)
            if len(set(together)) == len(together):
                try:
                    return _Expanded.over(source, groups, keys, together, inner_where).merged(relations, where, output)
                except _Unmergeable:
                    continue
    return None


def merge_optional(
    source: Term, relations: tuple[Term, ...], where: frozenset[Term], keys: frozenset[Term], output: Output
) -> Groups | None:
    """The same groups of a LEFT JOIN of the rows below, where `source`, one of the relations, is a LEFT JOIN of groups;
    None if that is not certain.

    Each row of the right side meets every row of a group, or none, because ON uses the group's keys only.
    """
    if source.op != "LeftOuter":
        return None
    (inner_relations, inner_where), on = source.args[0].args, source.args[2]
    for groups in inner_relations.args:
        if groups.op == "grouped" and groups.args[1].args:
            together = (*(each for each in inner_relations.args if each != groups), *groups.args[0].args[0].args)
            # What stands beside the LEFT JOIN must not be taken for its left side.
            if len(set(together)) == len(together) and set(together).isdisjoint(relations):
                try:
                    optional = _Optional.over(source, groups, keys, together, inner_where, on)
                    return optional.merged(relations, where, keys, output)
                except _Unmergeable:
                    continue
    return None


def without_outer_join(
    source: Term, relations: tuple[Term, ...], where: frozenset[Term], keys: frozenset[Term], output: Output
) -> Groups | None:
    """The same groups without a LEFT JOIN of which only the left side is used; None if that is not certain.

    It keeps every row of the left side, perhaps several times. So no aggregate may count repetitions.
    """
    calls = [term for _, value in output for term in within(value) if term.op == "AggregateExpression"]
    if source.op != "LeftOuter" or any(each.args[0].op not in DUPLICATES_IGNORED for each in calls):
        return None
    kept_relations, kept_where = source.args[0].args
    together = (*(each for each in relations if each != source), *kept_relations.args)
    if len(set(together)) < len(together):
        return None

    def below(each: Term) -> Term:
        if each.args[0] != source:
            return each
        if each.args[1].op != "left":
            raise _Unmergeable
        return each.args[1].args[0]

    try:
        conjuncts = {part for each in where for part in conditions(replaced(each, below))}
        values = tuple((each, replaced(term, below)) for each, term in output)
        return (
            together,
            frozenset(conjuncts.union(kept_where.args)),
            frozenset(replaced(key, below) for key in keys),
            values,
        )
    except _Unmergeable:
        return None


@dataclass(frozen=True, slots=True)
class _Merging:
    source: Term
    keys: frozenset[Term]
    """The keys of the groups of groups."""

    def by_key(self, term: Term) -> Term:
        """A term that uses no measure of the source, over the rows below."""

        def below(each: Term) -> Term:
            if each.args[0] != self.source:
                return each
            if each.args[1] not in self.source.args[1].args:
                raise _Unmergeable
            return each.args[1]

        return replaced(term, below)

    def merged(self, term: Term) -> Term:
        """What is computed of a group of groups, over the rows below."""
        if term.op == "key":
            return Term("key", (self.by_key(term.args[0]),), type=term.type)
        if term in self.keys or term.op in {"column", "exists", ONLY_VALUE} or not term.args:
            return self.by_key(term)
        if term.op == "AggregateExpression":
            return self._call(term)
        return compose(term.op, tuple(map(self.merged, term.args)), term.detail, term.type)

    def _call(self, call: Term) -> Term:
        function, *tests = call.args
        if (function.op in DUPLICATES_IGNORED or DISTINCT in call.detail) and self._uses_keys(call):
            return self.by_key(call)
        measure = function.args[0]
        if measure.op in CASES and function.op == "Sum" and DISTINCT not in call.detail:
            return self._case(call)
        if measure.op == "widened" and function.op == "Sum":
            # A sum of sums, which has more digits only.
            measure = measure.args[0]
        if measure.op != "column" or measure.args[0] != self.source or DISTINCT in call.detail:
            raise _Unmergeable
        inner = measure.args[1]
        if inner.op != "AggregateExpression" or DISTINCT in inner.detail:
            raise _Unmergeable
        merged = _filtered(inner, [self.by_key(each) for each in tests])
        below = inner.args[0]
        if function.op == "Sum" and below.op == "Count":
            # Of no group at all the sum is NULL, and the count is 0.
            return merged if self.keys and not tests else Term("null for none", (merged,), type=call.type)
        if function.op == below.op and function.detail == below.detail and not is_collated(below.args[0].type):
            if function.op in MERGED_BY_ITSELF and call.type == merged.type:
                return merged
            if function.op == "Sum":
                return _sum(call, merged)
        raise _Unmergeable

    def _case(self, call: Term) -> Term:
        """A sum of a CASE over keys of measures, zeros and NULL: all rows of a group have one result."""
        function, *tests = call.args
        values = {each: self._value(each, function) for each in measured(function.args[0])}
        types = {each.type for each in values.values()}
        if len(types) != 1 or _is_try(function):
            raise _Unmergeable
        (type_,) = types

        def result(each: Term) -> Term:
            return values[each] if each in values else zero(type_) if is_zero(each) else null(type_)

        case = with_results(function.args[0], result, self.by_key, type_)
        inner = "bigint" if type_ in INTEGERS else _type_of_sum(type_)
        summed = compose("Sum", (case,), function.detail, inner)
        merged = compose(call.op, (summed, *map(self.by_key, tests)), call.detail, inner)
        return merged if type_ in INTEGERS else _sum(call, merged)

    def _value(self, measure: Term, function: Term) -> Term:
        """What a measure is a sum of."""
        measure = narrowed(measure)
        if measure.op != "column" or measure.args[0] != self.source:
            raise _Unmergeable
        inner = measure.args[1]
        if inner.op != "AggregateExpression" or DISTINCT in inner.detail or len(inner.args) > 1:
            raise _Unmergeable
        below = inner.args[0]
        if below.op == "Count" and below.args == (ONE,) and inner.type == measure.type:
            return ONE
        if below.op != "Sum" or below.detail != function.detail:
            raise _Unmergeable
        (value,) = below.args
        if value.type not in INTEGERS and (digits_of(value.type) is None or inner.type != _type_of_sum(value.type)):
            raise _Unmergeable
        return value

    def _uses_keys(self, call: Term) -> bool:
        used = [each for each in columns_of(call) if each.args[0] == self.source]
        return all(each.args[1] in self.source.args[1].args and has_identity(each.type) for each in used)


def _type_of_sum(type_: str) -> str:
    digits = digits_of(type_)
    if digits is None:
        raise _Unmergeable
    return str(digits_of_sum(digits)).lower()


@dataclass(frozen=True, slots=True)
class _Expanded:
    source: Term
    below: Term
    """The rows below the groups, expanded."""
    merging: _Merging

    @classmethod
    def over(
        cls, source: Term, groups: Term, keys: frozenset[Term], relations: tuple[Term, ...], where: Term
    ) -> _Expanded:
        merging = _Merging(groups, keys)
        conjuncts = {part for each in where.args for part in conditions(merging.by_key(each))}
        below = core(relations, conjuncts.union(groups.args[0].args[1].args))
        return cls(source, Term("expanded", (below,), source.detail), merging)

    def merged(self, relations: tuple[Term, ...], where: frozenset[Term], output: Output) -> Groups:
        return (
            (*(each for each in relations if each != self.source), self.below),
            frozenset(part for each in where for part in conditions(replaced(each, self._by_key))),
            frozenset(replaced(key, self._by_key) for key in self.merging.keys),
            tuple((each, self._value(term)) for each, term in output),
        )

    def _by_key(self, each: Term) -> Term:
        """A column whose copies use the keys only."""
        return self._copies(map(self.merging.by_key, each.args[1].args)) if each.args[0] == self.source else each

    def _copies(self, values: Iterable[Term]) -> Term:
        copies = tuple(values)
        return column(self.below, Term("branches", copies, type=copies[0].type))

    def _value(self, term: Term) -> Term:
        if term.op == "key":
            return Term("key", (replaced(term.args[0], self._by_key),), type=term.type)
        if term in self.merging.keys or term.op in {"column", "exists", ONLY_VALUE} or not term.args:
            return replaced(term, self._by_key)
        if term.op == "AggregateExpression":
            count = int(self.source.detail[0])
            return replaced(self.merging.merged(replaced(term, self._same)), lambda each: self._copies([each] * count))
        return compose(term.op, tuple(map(self._value, term.args)), term.detail, term.type)

    def _same(self, each: Term) -> Term:
        """A column that all copies take over as it is."""
        if each.args[0] != self.source or len(set(each.args[1].args)) > 1:
            raise _Unmergeable
        return each.args[1].args[0]


@dataclass(frozen=True, slots=True)
class _Optional:
    """A LEFT JOIN of groups, and that of the rows below."""

    source: Term
    below: Term
    merging: _Merging
    equal: Equalities
    """Of the rows below."""

    @classmethod
    def over(
        cls, source: Term, groups: Term, keys: frozenset[Term], relations: tuple[Term, ...], where: Term, on: Term
    ) -> _Optional:
        merging = _Merging(groups, frozenset(_without_side(each, source) for each in keys))
        conjuncts = {part for each in where.args for part in conditions(merging.by_key(each))}
        equal = Equalities(conjuncts.union(groups.args[0].args[1].args))

        def kept(term: Term) -> Term:
            """A condition of ON."""
            if term.op == "column" and term.args[0].op == "side":
                side = term.args[1]
                if side.op != "left":
                    return term
                value = equal.settled(merging.by_key(side.args[0]))
                return column(term.args[0], Term("left", (value,), type=value.type))
            if not term.args or term.op in {"column", "core"}:
                return term
            return compose(term.op, tuple(map(kept, term.args)), term.detail, term.type)

        left = core(relations, equal.where())
        made = Term("LeftOuter", (left, source.args[1], Term("on", in_order(map(kept, on.args)))))
        return cls(source, made, merging, equal)

    def merged(
        self, relations: tuple[Term, ...], where: frozenset[Term], keys: frozenset[Term], output: Output
    ) -> Groups:
        return (
            (*(each for each in relations if each != self.source), self.below),
            frozenset(part for each in where for part in conditions(self._by_key(each))),
            frozenset(map(self._by_key, keys)),
            tuple((each, self._above(self.merging.merged(_without_side(term, self.source)))) for each, term in output),
        )

    def _by_key(self, term: Term) -> Term:
        return self._above(self.merging.by_key(_without_side(term, self.source)))

    def _above(self, term: Term) -> Term:
        """A term over both sides, over the LEFT JOIN of the rows below."""

        def change(each: Term) -> Term:
            if each.args[0] == self.source:
                return column(self.below, each.args[1])
            if each.args[0] in self.below.args[0].args[0].args:
                # It may be equal to a literal, which is the same on both sides of the join.
                settled = self.equal.settled(each)
                left = Term("left", (settled,), type=each.type)
                return column(self.below, left) if settled.op == "column" else settled
            return each

        return replaced(term, change)


def _without_side(term: Term, source: Term) -> Term:
    """A term with the columns of the left side of a LEFT JOIN as they are below."""

    def change(each: Term) -> Term:
        return each.args[1].args[0] if each.args[0] == source and each.args[1].op == "left" else each

    return replaced(term, change)


def _sum(call: Term, merged: Term) -> Term:
    """A sum of sums. Sums of floating-point numbers depend on the order; try_sum is NULL where a part overflows."""
    if _is_try(call.args[0]):
        raise _Unmergeable
    if call.type == merged.type == "bigint":
        return merged
    summed, result, wider = (digits_of(each) for each in (merged.args[0].args[0].type, merged.type, call.type))
    # In ANSI mode a sum that overflows fails. Otherwise it is NULL, but not of fewer than 10^10 rows if it has ten more
    # digits than its operands.
    fails = any("'ANSI'" in each for each in call.args[0].detail)
    if summed is None or result is None or wider is None or not wider.scale == result.scale == summed.scale:
        raise _Unmergeable
    if fails or (sum_is_certain(summed) and result == digits_of_sum(summed)):
        return merged if call.type == merged.type else Term("widened", (merged,), type=call.type)
    raise _Unmergeable


def _filtered(call: Term, tests: list[Term]) -> Term:
    """An aggregate of those rows only that meet the tests."""
    if not tests:
        return call
    function, *before = call.args
    test = compose("And", (*before, *tests), (), "boolean") if before else tests[0]
    return compose(call.op, (function, test), filtered(call.detail), call.type)


def _is_try(function: Term) -> bool:
    return any("TRY" in each for each in function.detail)
