"""Tests that the checker accepts no plan that was changed to have another answer.

`FRESHGATE_MUTANTS=500000 scripts/test tests/sql/test_plan_mutants.py` offers so many; another `FRESHGATE_SEED` chooses
other ones.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from plan_mutants import Change, changes, mutant, some
from plan_pairs import PAIRS
from record_plans import key, recorded

from sql.proof import cases, checker, merging, plan_json
from sql.proof.checker import Proved, ProvedRows, _kept_by, _stacked, prove
from sql.proof.identities import replaced
from sql.proof.plan import Plan, Value
from sql.proof.terms import Term
from sql.proof.understood_classes import PADDED

MUTANTS = int(os.environ.get("FRESHGATE_MUTANTS", "2000"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))


@cache
def proved_pairs() -> tuple[tuple[str, Plan, Plan, list[Change]], ...]:
    """The pairs that are proved, with all changes of the query."""
    plans = recorded()
    found = []
    for pair in PAIRS:
        query, rewritten = (plan_json.read(plans[key(pair, text)]) for text in (pair.query, pair.rewritten))
        if not pair.reason and (known := changes(query)):
            found.append((pair.what, query, rewritten, known))
    return tuple(found)


def offered(count: int) -> tuple[Counter[str], list[str]]:
    """What was changed how often, and what was accepted nevertheless. No mutant is offered twice."""
    source, counts, accepted = random.Random(SEED), Counter[str](), []
    pairs, seen = proved_pairs(), set[tuple[int, frozenset[int]]]()
    sizes = [len(known) ** 2 for *_, known in pairs]
    while len(seen) < count:
        (place,) = source.choices(range(len(pairs)), sizes)
        what, query, rewritten, known = pairs[place]
        made = some(source, known)
        if (mark := (place, frozenset(map(id, made)))) in seen:
            continue
        seen.add(mark)
        counts.update(each.what for each in made)
        # It is compared with the rewriting, which is merged, or with the query, which is not.
        if prove(mutant(query, made), source.choice((rewritten, query))) == Proved():
            accepted.append(f"{what}: {[(each.what, each.path) for each in made]}")
    return counts, accepted


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forms of the plans that are not changed, which are compared with every mutant."""
    answer = checker._answer
    forms = {id(plan): answer(plan) for _, *pair, _ in proved_pairs() for plan in pair}
    monkeypatch.setattr(checker, "_answer", lambda plan: forms.get(id(plan)) or answer(plan))


@pytest.mark.usefixtures("remembered")
def test_no_mutant_is_accepted() -> None:
    counts, accepted = offered(MUTANTS)
    print(f"seed {SEED}: {MUTANTS} different mutants of {len(proved_pairs())} queries, changes: {dict(counts)}")
    assert accepted == []
    assert len(counts) >= 20, "kinds of changes are missing"


def test_each_change_alone_is_refused() -> None:
    wrong = [
        (what, change.what, change.path)
        for what, query, rewritten, known in proved_pairs()
        for change in known
        if prove(mutant(query, (change,)), rewritten) == Proved()
    ]
    assert wrong == []


def test_wrong_identities_accept_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test can fail: each of these mistakes is found."""
    right = checker.compose

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
    right = checker.compose

    def careless(op: str, args: tuple[Term, ...], detail: tuple[str, ...], type_text: str) -> Term:
        return args[0] if op == PADDED else right(op, args, detail, type_text)

    monkeypatch.setattr(checker, "compose", careless)
    accepted = {
        change.what
        for _, query, rewritten, known in proved_pairs()
        for change in known
        if prove(mutant(query, (change,)), rewritten) == Proved()
    }
    assert {"no padding", "another literal"} <= accepted
