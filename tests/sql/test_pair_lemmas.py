"""The lemmas that the corpora of pairs need: that they refuse what is changed, and that a mistake in one of them shows.

The plans are those that were recorded for the corpora.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from pair_corpora import CORPORA, Outcome, corpus, keys_of, outcomes
from plan_mutants import changes, mutant
from record_pairs import recorded

from gateway.mv.rewriting.proving import filled
from sql.proof import checker, identities, implication, lossless, merging, parts
from sql.proof.checker import Proved, can_be_stored, prove
from sql.proof.equalities import Equalities
from sql.proof.identities import compose, core, replaced
from sql.proof.merging import Groups, merge_optional
from sql.proof.plan import Node, Plan, Value
from sql.proof.terms import Term, column
from sql.rewriting.shape import shape_of
from sql.table_keys import TableKeys

WHOLE = (
    "SELECT deptno, max(empid) AS m FROM emps GROUP BY deptno",
    "SELECT c3, sum(c2) AS s FROM parts GROUP BY c3",
    "SELECT o_custkey, sum(o_totalprice) AS s, count(*) AS c FROM orders GROUP BY o_custkey",
)
"""Queries for all rows, of which views have a part: whatever is changed in a part changes the answer."""


@cache
def plans(name: str) -> dict[str, Plan]:
    _, known = recorded(name)
    return known.readable()


@cache
def proved() -> tuple[tuple[str, Outcome], ...]:
    found = []
    for name in CORPORA:
        columns, known = recorded(name)
        found += [(name, each) for each in asyncio.run(outcomes(corpus(name), columns, known)) if each.proposals]
    return tuple(found)


def both_plans(name: str, outcome: Outcome) -> tuple[Plan, Plan]:
    (proposal, *_), shape = outcome.proposals, shape_of(outcome.question.text)
    rewritten = proposal.template.over(*(view.table for view in proposal.views)).fill(shape.literals)
    return plans(name)[filled(shape, shape.literals)], plans(name)[rewritten]


def keys(name: str) -> dict[str, TableKeys]:
    return {table.quoted: its for table, its in keys_of(corpus(name)).items()}


def unions() -> list[tuple[Plan, Plan]]:
    return [both_plans(name, each) for name, each in proved() if each.question.text in WHOLE]


def accepted(pairs: list[tuple[Plan, Plan]]) -> list[str]:
    """The changes of the rewritings that are accepted."""
    return [
        f"{change.what}: {change.path}"
        for query, rewritten in pairs
        for change in changes(rewritten)
        if prove(query, mutant(rewritten, (change,))) == Proved()
    ]


def test_a_changed_part_of_the_rows_is_refused() -> None:
    assert len(unions()) == len(WHOLE)
    assert accepted(unions()) == []


def test_parts_that_are_not_compared_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(met: frozenset[Term], rest: frozenset[Term]) -> tuple[frozenset[Term], Term] | None:
        tests = [each for each in rest if each.op in {"Not", "Or"}]
        return (met & rest, tests[0]) if tests else None

    monkeypatch.setattr(parts, "_split", careless)
    assert accepted(unions())


def test_parts_that_both_lack_a_value_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_BEYOND", {each: each for each in parts._BEYOND})
    assert accepted(unions())


def test_parts_that_both_lack_what_is_null_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows for which it is not known whether the condition is true."""
    assert not any(prove(query, without_nulls(rewritten)) == Proved() for query, rewritten in unions())
    monkeypatch.setattr(parts, "_tests", without_regard_to_nulls)
    assert any(prove(query, without_nulls(rewritten)) == Proved() for query, rewritten in unions())


def without_nulls(rewritten: Plan) -> Plan:
    """The plan in which nothing is asked whether it is NULL: `x < 5 OR x IS NULL` is `x < 5`."""

    def kept(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(kept, value))
        if not isinstance(value, Node):
            return value
        fields = {name: kept(each) for name, each in value.fields.items()}
        found = replace(value, fields=fields)
        if value.kind == "Or" and isinstance(right := fields["right"], Node) and right.kind == "IsNull":
            return fields["left"]
        return found

    root = kept(rewritten.root)
    assert isinstance(root, Node)
    assert root != rewritten.root
    return replace(rewritten, root=root)


def without_regard_to_nulls(negation: Term, _: frozenset[Term]) -> Iterator[frozenset[Term]]:
    cases = [each for each in (negation.args if negation.op == "Or" else (negation,)) if each.op != "IsNull"]
    if all(each.op in parts._BEYOND for each in cases):
        yield frozenset(Term(parts._BEYOND[each.op], each.args[::-1], each.detail, each.type) for each in cases)


def test_without_keys_what_needs_them_is_refused() -> None:
    needing = [(name, each) for name, each in proved() if each.proposals[0].by_keys]
    assert len(needing) >= 20
    for name, each in needing:
        assert prove(*both_plans(name, each), keys(name)) == Proved()
        assert prove(*both_plans(name, each)) != Proved(), each.question.text


@pytest.mark.parametrize("kind", ["unique", "foreign"])
def test_both_kinds_of_keys_are_needed(kind: str) -> None:
    nothing: dict[str, Any] = {"unique": frozenset(), "foreign": ()}
    for name, each in proved():
        if not each.proposals[0].by_keys or "LEFT JOIN" in corpus(name).views[each.proposals[0].views[0].table]:
            continue
        fewer = {table: replace(its, **{kind: nothing[kind]}) for table, its in keys(name).items()}
        assert prove(*both_plans(name, each), fewer) != Proved(), each.question.text


def test_a_foreign_key_that_may_be_null_joins_fewer_rows() -> None:
    needing = [(name, each) for name, each in proved() if each.proposals[0].by_keys]
    refused = 0
    for name, each in needing:
        nullable = {table: replace(its, present=frozenset()) for table, its in keys(name).items()}
        refused += prove(*both_plans(name, each), nullable) != Proved()
    assert refused >= 10


# --- mistakes ------------------------------------------------------------------------------------------

CHANGED = {
    "SELECT name FROM emps WHERE deptno > 30",
    "SELECT v2, v5 FROM t0 JOIN t1 ON v1 = v4 WHERE v4 > 7",
    "SELECT deptno, sum(salary) AS s FROM emps GROUP BY deptno",
    "SELECT empid, name FROM emps WHERE deptno = 10",
    "SELECT v2, v5 FROM t0 JOIN t1 ON v1 = v4",
    "SELECT x.id, y.id AS z, x.amount - y.amount AS d FROM sales x JOIN sales y ON x.shop = y.shop AND x.day < y.day "
    "WHERE x.shop > 3",
}


def accepted_changes() -> set[str]:
    """The changes of some pairs that are accepted, among them some that change no answer."""
    found = set[str]()
    for name, each in proved():
        if each.question.text in CHANGED:
            one, other = both_plans(name, each)
            for left, right in ((one, other), (other, one)):
                made = (
                    (f"{each.question.text} {change.what} {change.path}", mutant(left, (change,)))
                    for change in changes(left)
                )
                found |= {what for what, plan in made if prove(plan, right, keys(name)) == Proved()}
    return found


@cache
def right() -> set[str]:
    return accepted_changes()


def _all_settled(self: Equalities, term: Term) -> Term:
    return Term("any", type=term.type) if term.op == "column" else term


def _any_alternative(weak: Term, strong: Term) -> bool:
    return weak.op == "Or" or IMPLIED(weak, strong)


def _without_literals(weak: Term, strong: Term) -> bool:
    return weak.op == strong.op and weak.args[0].type == strong.args[0].type


IMPLIED = implication.implied
MISTAKES: Mapping[str, tuple[Any, str, Callable[..., object]]] = {
    "all columns are equal": (Equalities, "settled", _all_settled),
    "one of several alternatives is true": (identities, "implied", _any_alternative),
    "literals do not matter": (identities, "implied", _without_literals),
    "occurrences of a table are one": (checker, "apart", lambda relations, others: {}),
    "each row finds one": (lossless, "_always_finds", lambda compared, table: True),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_accepts_changes(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = right()
    monkeypatch.setattr(*MISTAKES[mistake])
    assert accepted_changes() - before


@pytest.mark.parametrize("name", CORPORA)
def test_views_that_answer_can_be_stored(name: str) -> None:
    for each in (outcome for its, outcome in proved() if its == name):
        for view in each.proposals[0].views:
            assert can_be_stored(plans(name)[f"SELECT * FROM {view.table}"]) == Proved()


# --- a LEFT JOIN of groups -----------------------------------------------------------------------------

FACTS, PLACES = Term("table", type="facts"), Term("table", type="places")


def _field(table: Term, name: str) -> Term:
    return column(table, Term("field", detail=(name,), type="int"))


def _groups_left_join(compared: Term) -> tuple[Term, Term]:
    """Groups of facts by k with a sum of x, and their LEFT JOIN with places where `compared` = places.p."""
    groups = Term("grouped", (core((FACTS,), ()), Term("keys", (_field(FACTS, "k"),))))
    sides = (Term("left", (column(groups, compared),), type="int"), Term("right", (_field(PLACES, "p"),), type="int"))
    on = compose("EqualTo", tuple(column(Term("side"), each) for each in sides), ("left=#", "right=#"), "boolean")
    return groups, Term("LeftOuter", (core((groups,), ()), core((PLACES,), ()), Term("on", (on,))))


SUM = Term("AggregateExpression", (Term("Sum", (_field(FACTS, "x"),), type="bigint"),), ("filter=none",), "bigint")


def _merged(compared: Term, summed: Term, *beside: Term) -> Groups | None:
    """Groups by the place of the LEFT JOIN, perhaps joined with more: what becomes of a sum of a column."""
    groups, joined = _groups_left_join(compared)
    name = Term("left", (column(groups, SUM),), type="bigint") if summed == SUM else summed
    total = Term("AggregateExpression", (Term("Sum", (column(joined, name),), type="bigint"),), SUM.detail, "bigint")
    key = column(joined, Term("right", (_field(PLACES, "q"),), type="int"))
    return merge_optional(joined, (joined, *beside), frozenset(), frozenset({key}), (("1", total),))


def test_groups_below_a_left_join_are_merged() -> None:
    found = _merged(_field(FACTS, "k"), SUM)
    assert found is not None
    (source,), _, _, ((_, total),) = found
    assert source.args[0] == core((FACTS,), ())
    assert total.args[0].args[0] == column(source, Term("left", (_field(FACTS, "x"),), type="int"))


def test_groups_below_a_left_join_are_not_merged_where_rows_would_meet_others() -> None:
    right = Term("right", (_field(PLACES, "x"),), type="bigint")
    assert _merged(SUM, SUM) is None, "ON uses a measure"
    assert _merged(_field(FACTS, "k"), right) is None, "each row of the right side counts once for each row of a group"
    assert _merged(_field(FACTS, "k"), SUM, FACTS) is None, "the table is beside the join, too"


def test_a_left_join_of_groups_on_a_measure_is_merged_by_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging._Merging, "by_key", lambda self, term: replaced(term, lambda each: each.args[1]))
    assert _merged(SUM, SUM) is not None
