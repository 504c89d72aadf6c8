"""Tests that the checker accepts no plan that was changed to have another answer.

`FRESHGATE_MUTANTS=500000 scripts/test tests/sql/test_plan_mutants.py` offers so many; another `FRESHGATE_SEED` chooses
other ones.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from functools import cache

import pytest
from plan_mutants import Change, changes, mutant, some
from plan_pairs import PAIRS
from record_plans import key, recorded

from sql.proof import checker, plan_json
from sql.proof.checker import Proved, prove
from sql.proof.plan import Plan
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
