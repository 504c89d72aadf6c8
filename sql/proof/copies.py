"""The lemma of copies: of rows that are expanded for several sets of keys, a condition on the number of the set, or on
anything else that is a constant in each copy, leaves the copies for which it is true.

Tests: `test_copies`, `test_random_proofs`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

from sql.proof.cases import INTEGERS
from sql.proof.identities import replaced
from sql.proof.terms import Term, columns_of

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_UNKNOWN = 2**64
"""Beyond the range of all types."""


def copies_of(source: Term, where: Iterable[Term]) -> tuple[list[int], frozenset[Term]] | None:
    """The copies of an expanded source whose rows meet those conditions that are true or false in a whole copy, and the
    other conditions; None if there are no such conditions."""
    count, others = int(source.detail[0]), set[Term]()
    left = list(range(count))
    for each in where:
        results = [_result(of_copy(each, source, place)) for place in range(count)]
        if None in results or all(its.args[0] != source for its in columns_of(each)):
            others.add(each)
        else:
            left = [place for place in left if results[place] == 1]
    return (left, frozenset(others)) if len(left) < count or len(others) < len(set(where)) else None


def of_copy(term: Term, source: Term, place: int) -> Term:
    """A term over one copy of the rows below the source."""
    return replaced(term, lambda each: each.args[1].args[place] if each.args[0] == source else each)


def _result(term: Term) -> int | None:
    """The value of integers and conditions, as 0 and 1, without columns; None if that is NULL or not known."""
    if term.op == "Literal":
        return _value(term)
    operands = [_result(each) for each in term.args]
    if term.op in _LOGICAL and None not in operands:
        return _LOGICAL[term.op]([each for each in operands if each is not None])
    compute = _COMPUTED.get(term.op)
    if compute is None or None in operands or any(each.type not in _BITS for each in term.args):
        return None
    found = compute([each for each in operands if each is not None])
    if term.type == "boolean":
        return None if term.op == "Cast" else found
    bits = _BITS.get(term.type, 0)
    return found if bits and -(2 ** (bits - 1)) <= found < 2 ** (bits - 1) else None


def _value(literal: Term) -> int | None:
    kind, _, text = literal.detail[0].removeprefix("value=").partition(" ")
    value = ast.literal_eval(text) if kind in {*INTEGERS.values(), "Boolean"} else ""
    if kind == "Boolean":
        return int(value == "true")
    return int(value) if value else None


_Computed = Mapping[str, Callable[[Sequence[int]], int]]
_LOGICAL: _Computed = {
    "And": min,
    "Or": max,
    "Not": lambda values: 1 - values[0],
}
_COMPUTED: _Computed = {
    "EqualTo": lambda values: int(values[0] == values[1]),
    "LessThan": lambda values: int(values[0] < values[1]),
    "LessThanOrEqual": lambda values: int(values[0] <= values[1]),
    "In": lambda values: int(values[0] in values[1:]),
    "Cast": lambda values: values[0],
    "BitwiseAnd": lambda values: values[0] & values[1],
    "ShiftRight": lambda values: values[0] >> values[1] if 0 <= values[1] < 32 else _UNKNOWN,
}
"""What conditions on `grouping` and `grouping_id` are made of."""
