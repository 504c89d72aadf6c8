"""The sets of keys of GROUP BY with ROLLUP, CUBE or GROUPING SETS, and how a view's columns tell their groups apart.

Tests: `test_key_sets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from sqlglot import exp

from sql.reading.parsing import Doubt
from sql.rewriting.forms import call_of, form

SETS_MAX = 64


def key_sets(group: exp.Group) -> list[frozenset[str]]:
    """The sets, by the keys' forms, as often as they are grouped by. Raises Doubt."""
    parts: list[list[frozenset[str]]] = []
    plain = [each for each in group.expressions if not isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets)]
    if (behind := group.args.get("rollup") or group.args.get("cube")) is not None:
        # GROUP BY a, b WITH ROLLUP
        parts.append(_of_clause(type(behind[0]), plain))
    else:
        parts += ([_keys_of(each)] for each in plain)
    for each in group.expressions:
        if isinstance(each, exp.GroupingSets):
            parts.append([_keys_of(its) for its in each.expressions])
        elif isinstance(each, exp.Rollup | exp.Cube):
            parts.append(_of_clause(type(each), each.expressions))
    found = [frozenset[str]().union(*chosen) for chosen in product(*parts)]
    if len(found) > SETS_MAX:
        raise Doubt("it has too many sets of keys")
    return found


def _of_clause(kind: type[exp.Expr], items: Sequence[exp.Expr]) -> list[frozenset[str]]:
    keys = [_keys_of(each) for each in items]
    if issubclass(kind, exp.Rollup):
        return [frozenset[str]().union(*keys[:count]) for count in range(len(keys) + 1)]
    sizes = range(len(keys) + 1)
    return [frozenset[str]().union(*chosen) for size in sizes for chosen in combinations(keys, size)]


def _keys_of(item: exp.Expr) -> frozenset[str]:
    """The keys of a set, or of an item of ROLLUP or CUBE."""
    if isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets):
        raise Doubt("it has sets of keys within others")
    if isinstance(item, exp.Tuple):
        return frozenset(map(form, item.expressions))
    return frozenset({form(item.this if isinstance(item, exp.Paren) else item)})


def number_of(call: exp.Expr, keys: Sequence[str], used: frozenset[str]) -> int | None:
    """What `grouping` or `grouping_id` is in the groups of a set of these keys; None if it is another function."""
    name, arguments = call_of(call)
    if name not in ("grouping", "grouping_id"):
        return None
    named = list(map(form, arguments)) or list(keys)
    return sum(1 << place for place, each in enumerate(reversed(named)) if each not in used)


def told_apart(numbers: Sequence[tuple[int, ...]]) -> Iterator[int]:
    """The places of those that occur once."""
    for place, each in enumerate(numbers):
        if numbers.count(each) == 1:
            yield place
