"""Tests that the checker accepts no plan that was changed to have another answer.

`FRESHGATE_MUTANTS=500000 scripts/test tests/sql/test_plan_mutants.py` offers so many; another `FRESHGATE_SEED` chooses
other ones.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

import pytest
from pair_corpora import CORPORA, corpus, keys_of, outcomes
from plan_mutants import Change, changes, mutant, some
from plan_pairs import PAIRS
from record_pairs import recorded as recorded_corpus
from record_plans import key, recorded

from gateway.mv.rewriting.proving import filled
from sql.proof import cases, checker, identities, merging, plan_json
from sql.proof.checker import Proved, ProvedRows, _kept_by, _stacked, prove
from sql.proof.identities import replaced
from sql.proof.lossless import KeysOf, knowing
from sql.proof.plan import Plan, Value
from sql.proof.terms import Term
from sql.proof.understood_classes import PADDED
from sql.rewriting.shape import shape_of

MUTANTS = int(os.environ.get("FRESHGATE_MUTANTS", "2000"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))


@dataclass(frozen=True, slots=True)
class Mutable:
    """A pair that is proved, with all changes of the query that give it another answer."""

    what: str
    query: Plan
    rewritten: Plan
    changes: list[Change]
    keys: KeysOf

    def accepts(self, made: tuple[Change, ...], compared: Plan) -> bool:
        return prove(mutant(self.query, made), compared, self.keys) == Proved()


_OF_COPIES = {"no cast", "a key dropped", "a copy dropped", "a copy twice", "another literal", "another column"}
SAME = {
    # Groups of groups: which smaller ones there are does not matter.
    "SELECT deptno, sum(total) AS s FROM (SELECT deptno, empid, sum(salary) AS total FROM emps GROUP BY deptno, empid) "
    "GROUP BY deptno": {"a key dropped", "another column"},
    "SELECT customer, sum(amount) AS a FROM view_11 WHERE shop = 3 GROUP BY customer": {"a key dropped"},
    # It keeps every row once, by a key, whatever is compared with the key.
    "SELECT a.shop, sum(b.amount) AS s FROM sales a JOIN sales b ON a.shop = b.shop LEFT JOIN sales c ON c.id = a.id "
    "WHERE b.pieces > 2 GROUP BY a.shop": {"another column"},
    # Both occurrences of the table with the column of the other one: the same query.
    "SELECT a.v1, b.v2 FROM t0 a JOIN t0 b ON a.v1 = b.v2 WHERE a.v1 > 3": {"another column"},
    # Of several sets of keys one is chosen: the copies of rows for the others do not matter.
    "SELECT day, customer, sum(amount) AS a FROM sales GROUP BY CUBE (day, customer) "
    "HAVING grouping_id(day, customer) = 1": _OF_COPIES,
    "SELECT day, customer, grouping(day) AS g, sum(amount) AS a FROM sales "
    "GROUP BY GROUPING SETS ((day, customer), (customer), ()) HAVING grouping(day) = 1": _OF_COPIES,
}
"""Changes that may leave the answer as it is, by queries."""
NO_PADDING = "no padding"
"""The change of queries that read a CHAR."""
SAME_BY_KEYS = frozenset({"another join"})
"""If each row finds one, inner joins and LEFT JOINs are the same."""


@cache
def proved_pairs() -> tuple[Mutable, ...]:
    return tuple(each for each in (*_pairs(), *_pairs_of_corpora()) if each.changes)


def _pairs() -> Iterator[Mutable]:
    plans = recorded()
    for pair in PAIRS:
        query, rewritten = (plan_json.read(plans[key(pair, text)]) for text in (pair.query, pair.rewritten))
        if not pair.reason:
            yield Mutable(pair.what, query, rewritten, changes(query), {})


def _pairs_of_corpora() -> Iterator[Mutable]:
    for name in CORPORA:
        columns, known = recorded_corpus(name)
        plans = known.readable()
        for each in asyncio.run(outcomes(corpus(name), columns, known)):
            if not each.proposals:
                continue
            (proposal, *_), shape = each.proposals, shape_of(each.question.text)
            query = plans[filled(shape, shape.literals)]
            text = proposal.template.over(*(view.table for view in proposal.views)).fill(shape.literals)
            if (rewritten := plans.get(text)) is None:
                # The view has an order, and is read without it.
                continue
            needs_keys = prove(query, rewritten) != Proved()
            keys = {table.quoted: its for table, its in keys_of(corpus(name)).items()} if needs_keys else {}
            same = SAME.get(each.question.text, set()) | (SAME_BY_KEYS if keys else frozenset())
            made = [change for change in changes(query) if change.what not in same]
            yield Mutable(each.question.text, query, rewritten, made, keys)


def offered(count: int) -> tuple[Counter[str], list[str]]:
    """What was changed how often, and what was accepted nevertheless. No mutant is offered twice."""
    source, counts, accepted = random.Random(SEED), Counter[str](), []
    pairs, seen = proved_pairs(), set[tuple[int, frozenset[int]]]()
    sizes = list(accumulate(len(each.changes) ** 2 for each in pairs))
    while len(seen) < count:
        (place,) = source.choices(range(len(pairs)), cum_weights=sizes)
        pair = pairs[place]
        made = some(source, pair.changes)
        if (mark := (place, frozenset(map(id, made)))) in seen:
            continue
        seen.add(mark)
        counts.update(each.what for each in made)
        # It is compared with the rewriting, which is merged, or with the query, which is not.
        if pair.accepts(made, source.choice((pair.rewritten, pair.query))):
            accepted.append(f"{pair.what}: {[(each.what, each.path) for each in made]}")
    return counts, accepted


@cache
def unchanged_forms() -> dict[int, ProvedRows]:
    """The forms of the plans that are not changed, by their ids."""
    forms: dict[int, ProvedRows] = {}
    for pair in proved_pairs():
        with knowing(pair.keys):
            forms |= {id(plan): checker._answer(plan) for plan in (pair.query, pair.rewritten)}
    return forms


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that are not changed, which are compared with every mutant, are read once."""
    forms, answer = unchanged_forms(), checker._answer
    monkeypatch.setattr(checker, "_answer", lambda plan: forms.get(id(plan)) or answer(plan))


@pytest.mark.usefixtures("remembered")
def test_no_mutant_is_accepted() -> None:
    counts, accepted = offered(MUTANTS)
    print(f"seed {SEED}: {MUTANTS} different mutants of {len(proved_pairs())} queries, changes: {dict(counts)}")
    assert accepted == []
    assert len(counts) >= 20, "kinds of changes are missing"


@pytest.mark.usefixtures("remembered")
def test_each_change_alone_is_refused() -> None:
    wrong = [
        (pair.what, change.what, change.path)
        for pair in proved_pairs()
        for change in pair.changes
        if pair.accepts((change,), pair.rewritten)
    ]
    assert wrong == []


def test_wrong_identities_accept_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test can fail: each of these mistakes is found."""
    right = identities.compose

    def careless(op: str, args: tuple[Term, ...], detail: tuple[str, ...], type_text: str) -> Term:
        return right(op.removesuffix("OrEqual"), args, detail, type_text)

    monkeypatch.setattr(checker, "compose", careless)
    assert offered(300)[1]
    monkeypatch.undo()
    monkeypatch.setattr(checker, "needed", lambda where: ())
    monkeypatch.setattr(
        checker, "core", lambda relations, where: Term("core", (Term("relations", relations), Term("where")))
    )
    assert offered(300)[1]


def _kept_alike(left: ProvedRows, right: ProvedRows, condition: Value, *, is_anti: bool) -> ProvedRows:
    return _kept_by(left, right, condition, is_anti=False)


def _whatever_column(source: Term, ids: tuple[str, ...], branches: list[list[Term]]) -> ProvedRows:
    """A column of a union by the set of its values."""
    rows = _stacked(source, ids, branches)
    return replace(rows, output=tuple((each, _sorted_branches(term)) for each, term in rows.output))


def _sorted_branches(term: Term) -> Term:
    source, name = term.args
    return Term("column", (source, Term("branches", tuple(sorted(name.args, key=lambda each: each.digest)))))


def _merges_all(self: object, call: Term) -> Term:
    """Counts of groups, and averages of averages, as if they were those of rows."""
    inner = call.args[0].args[0]
    return inner.args[1] if inner.op == "column" else call


def _measures_are_keys(self: object, term: Term) -> Term:
    def below(each: Term) -> Term:
        name = each.args[1]
        return (
            name.args[0].args[0] if name.op == "AggregateExpression" else name if each.args[0].op == "grouped" else each
        )

    return replaced(term, below)


@pytest.mark.parametrize(
    ("module", "name", "fault", "found"),
    [
        (checker, "_kept_by", _kept_alike, "EXISTS is not NOT EXISTS"),
        (checker, "_stacked", _whatever_column, "the values of two branches in other rows"),
        (checker, "_subquery", lambda node: Term("only value", type=node.type), "another value of a subquery"),
        (cases, "is_zero", lambda term: term.op == "Literal", "CASE with 1 instead of 0"),
        (merging._Merging, "_call", _merges_all, "averages of averages in several sets of keys"),
        (merging._Merging, "by_key", _measures_are_keys, "EXISTS of a measure"),
    ],
    ids=["EXISTS", "UNION ALL", "a value", "CASE", "GROUPING SETS", "keys"],
)
def test_a_wrong_lemma_proves_a_wrong_pair(
    module: object, name: str, fault: object, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = recorded()
    (pair,) = (each for each in PAIRS if each.what == found)
    query, rewritten = (plan_json.read(plans[key(pair, text)]) for text in (pair.query, pair.rewritten))
    assert prove(query, rewritten) != Proved()
    monkeypatch.setattr(module, name, fault)
    if hasattr(merging, name):
        monkeypatch.setattr(merging, name, fault)
    assert prove(query, rewritten) == Proved()


def test_a_wrong_reading_of_char_accepts_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    right = identities.compose

    def careless(op: str, args: tuple[Term, ...], detail: tuple[str, ...], type_text: str) -> Term:
        return args[0] if op == PADDED else right(op, args, detail, type_text)

    monkeypatch.setattr(checker, "compose", careless)
    padded = (pair for pair in proved_pairs() if any(change.what == NO_PADDING for change in pair.changes))
    accepted = {change.what for pair in padded for change in pair.changes if pair.accepts((change,), pair.rewritten)}
    assert {NO_PADDING, "another literal"} <= accepted
