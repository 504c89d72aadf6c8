"""Tests the proofs with random queries, rewritings and wrong rewritings, and their rows.

`FRESHGATE_PAIRS=100000 scripts/test tests/spark/test_random_proofs.py` tests so many pairs instead of the few of the
suite; another `FRESHGATE_SEED` chooses other ones, `FRESHGATE_CLASSES=self_joins,leaders` only some classes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from typing import Any

import pytest
from batched_answers import QUICK, Asked, answers
from planning import Planner, planner, renumbered
from processes import Engine
from random_classes import CLASSES, Case
from random_pairs import TABLES, Trial, Wrong, rows
from tiers import EVERYTHING

from gateway.mv.ports import PlanUnavailable
from gateway.spark.plan_texts import TextPlans
from sql.names import Namespace, TableName
from sql.proof import checker, identities, lossless, merging, parts
from sql.proof.checker import Proved, ProvedRows, can_be_stored, prove
from sql.proof.plan import Plan, Value
from sql.proof.terms import NotUnderstood, Term
from sql.table_keys import TableKeys, keys_in

PAIRS = int(os.environ.get("FRESHGATE_PAIRS", "1000" if EVERYTHING else "240"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
CHOSEN = os.environ.get("FRESHGATE_CLASSES", ",".join(CLASSES)).split(",")
TRIALS_OF_A_CASE = 20 if PAIRS > 1_000 else 4
TRIALS_BY_TEXT = 7 if PAIRS > 1_000 else 1
"""Of these, so many are also planned by the texts of plans."""
PAIR_SECONDS = 10.0
PROVED_LEAST = 0.95
PROVED_BY_TEXT_LEAST = 0.4
DATABASE = "random_pairs"
_NAMESPACE = Namespace(DATABASE)


def _keys(**declared: str) -> dict[str, TableKeys]:
    return {TableName(DATABASE, table).quoted: keys_in(text, _NAMESPACE) for table, text in declared.items()}


KEYS = _keys(e="PRIMARY KEY (ek)", f="FOREIGN KEY (k) REFERENCES e (ek)")
"""They hold of all rows."""


def _alike(right: Callable[..., Term], *ops: str) -> Callable[..., Term]:
    """A `compose` to which these operations are the first one."""

    def careless(op: str, args: tuple[Term, ...], detail: tuple[str, ...], type_text: str) -> Term:
        return right(ops[0] if op in ops else op, args, detail, type_text)

    return careless


def _any_order(right: Callable[..., Term]) -> Callable[..., Term]:
    """A `compose` to which all windows are alike."""

    def careless(op: str, args: tuple[Term, ...], detail: tuple[str, ...], type_text: str) -> Term:
        return right(op, () if op == "WindowSpecDefinition" else args, detail, type_text)

    return careless


def _merges_all(self: object, call: Term) -> Term:
    return call.args[0].args[0].args[1] if call.args[0].args[0].op == "column" else call


def _found_alike(left: ProvedRows, right: ProvedRows, condition: Value) -> Term:
    return Term("exists", (Term("rows"),), type="boolean")


def _any_copy(source: Term, where: Iterable[Term]) -> tuple[list[int], frozenset[Term]]:
    return [0], frozenset(each for each in where if each.op != "EqualTo")


def _any_part(met: frozenset[Term], rest: frozenset[Term]) -> tuple[frozenset[Term], Term] | None:
    tests = [each.args[0] for each in rest if each.op == "Not" and each.args[0].op == "Coalesce"]
    return (met & rest, tests[0]) if tests else None


def _one_join(right: Callable[[Value], str], kind: str, other: str) -> Callable[[Value], str]:
    """A `_text` to which one kind of joins is another one."""
    return lambda value: right(value).replace(kind, other)


@dataclass(frozen=True, slots=True)
class Mistake:
    what: str
    replaced: tuple[tuple[object, str, Any], ...]
    """Where, and by what."""


CASES_FOR_A_MISTAKE = 4
"""Of each class, at most."""


def _nothing_apart(relations: object, others: object) -> dict[Term, Term]:
    return {}


_compose, _text = identities.compose, checker._text
_ONE_OCCURRENCE = Mistake(
    "occurrences are one", ((checker, "apart", _nothing_apart), (merging, "apart", _nothing_apart))
)
_NOTHING_IS_NULL = Mistake(
    "nothing else is NULL", ((lossless, "_is_certain", lambda condition: condition.op == "IsNotNull"),)
)
_EXISTS_ALIKE = Mistake("EXISTS is alike", ((checker, "_exists", _found_alike),))
_RANKS_ALIKE = Mistake("ranks are alike", ((checker, "compose", _alike(_compose, "Rank", "DenseRank")),))
_WINDOWS_ALIKE = Mistake("windows are alike", ((checker, "compose", _any_order(_compose)),))
_VALUES_ALIKE = Mistake("aggregates are alike", ((checker, "compose", _alike(_compose, "Max", "Min", "Sum")),))
_MERGES_ALL = Mistake("everything merges", ((merging._Merging, "_call", _merges_all),))
_LEFT_IS_INNER = Mistake("LEFT is INNER", ((checker, "_text", _one_join(_text, "LeftOuter", "Inner")),))
_FULL_IS_LEFT = Mistake("FULL is LEFT", ((checker, "_text", _one_join(_text, "FullOuter", "LeftOuter")),))
_ANY_PART = Mistake("any part is the rest", ((parts, "_split", _any_part),))
_ANY_COPY = Mistake("any copy is left", ((lossless, "copies_of", _any_copy),))
MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "groups_of_a_table": (_MERGES_ALL,),
    "self_joins": (_ONE_OCCURRENCE,),
    "one_occurrence": (_ONE_OCCURRENCE,),
    "several_views": (_EXISTS_ALIKE, _MERGES_ALL),
    "views_of_views": (_MERGES_ALL,),
    "rows_that_are_found": (_EXISTS_ALIKE,),
    "correlated_values": (_VALUES_ALIKE,),
    "several_sets_of_keys": (_MERGES_ALL,),
    "leaders": (_RANKS_ALIKE, _WINDOWS_ALIKE),
    "outer_views": (_LEFT_IS_INNER,),
    "parts_of_the_rows": (_ANY_PART,),
    "wider_views": (_NOTHING_IS_NULL,),
    "rows_found_or_others": (_EXISTS_ALIKE,),
    "one_of_several_sets": (_ANY_COPY,),
    "full_views": (_FULL_IS_LEFT,),
    "ranked_views": (_RANKS_ALIKE, _WINDOWS_ALIKE),
}
"""By the classes, mistakes in the lemmas that they need."""


@pytest.fixture(scope="module")
def outcome(engine: Engine) -> Outcome:
    """What one series of cases shows, which all tests look at."""

    async def play() -> Outcome:
        async with asyncio.timeout(600 + PAIRS * PAIR_SECONDS), planner(engine) as working, planner(engine) as other:
            return await Series(working, other).play()

    found = asyncio.run(play())
    print(f"seed {SEED}: {dict(found.counts)}, mistakes: {dict(found.found)}")
    return found


def test_what_is_proved_is_equal_and_nothing_wrong_is_proved(outcome: Outcome) -> None:
    assert outcome.wrong == []
    assert outcome.counts["proved"] >= PROVED_LEAST * outcome.counts["right"]


def test_a_mistake_in_a_lemma_proves_wrong_rewritings(outcome: Outcome) -> None:
    """So the test can fail: each class of rewritings finds the mistakes in what it needs."""
    assert [each for name in CHOSEN for each in named_mistakes(name) if not outcome.found[each]] == []


def test_texts_of_plans_are_read_as_the_exact_plans(outcome: Outcome) -> None:
    """All texts of some trials are read, of right rewritings and wrong ones. Not all are understood, so fewer pairs are
    proved."""
    assert outcome.misread == []
    assert outcome.counts["proved by text"] >= PROVED_BY_TEXT_LEAST * outcome.counts["right by text"]


def named_mistakes(name: str) -> dict[str, Mistake]:
    """The mistakes of a class."""
    return {f"{name}: {mistake.what}": mistake for mistake in MISTAKES[name]}


@dataclass(slots=True)
class Outcome:
    """What a series has shown."""

    counts: Counter[str] = field(default_factory=Counter)
    """`pairs`: of a query and a rewriting that was made for it; `crossed`: of a query and rewritings that were made for
    other queries on the same views."""
    wrong: list[str] = field(default_factory=list)
    """Rewritings that are proved and are not equal to their queries."""
    misread: list[str] = field(default_factory=list)
    """Queries whose plans are others by their texts."""
    found: Counter[str] = field(default_factory=Counter)
    """By the mistakes in lemmas: how many rewritings with other rows they prove."""


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A text with Spark's plan of it."""

    text: str
    plan: Plan
    read: Plan | None
    """Its plan, read from its text; None if that is not wanted or not possible."""

    @property
    def asked(self) -> Asked:
        return Asked(_over(self.text, "stored"), tuple((each.name, each.type) for each in self.plan.output))


@dataclass(slots=True)
class PlannedTrial:
    """A trial, with those of its texts that Spark plans."""

    query: Planned
    right: Planned | None = None
    wrong: list[tuple[Wrong, Planned]] = field(default_factory=list)

    def rewritings(self) -> Iterator[Planned]:
        if self.right is not None:
            yield self.right
        yield from (planned for _, planned in self.wrong)


class Forms:
    """The forms of plans, each of which is compared with many others, in the place of `checker._answer`."""

    def __init__(self) -> None:
        self._answer = checker._answer
        self._known: dict[int, tuple[Plan, ProvedRows | NotUnderstood]] = {}

    def of(self, plan: Plan) -> ProvedRows:
        if id(plan) not in self._known:
            try:
                self._known[id(plan)] = plan, self._answer(plan)
            except NotUnderstood as reason:
                self._known[id(plan)] = plan, reason
        _, found = self._known[id(plan)]
        if isinstance(found, NotUnderstood):
            raise found
        return found


@contextmanager
def remembering(mistake: Mistake | None = None) -> Iterator[None]:
    """Proves, perhaps with a mistake, and reads each plan once."""
    with pytest.MonkeyPatch.context() as patch:
        for replacement in mistake.replaced if mistake is not None else ():
            patch.setattr(*replacement)
        patch.setattr(checker, "_answer", Forms().of)
        yield


Pair = tuple[Planned, Planned]
"""A query and a rewriting."""
Explained = Callable[[str], Awaitable[Plan]]


class Series:
    """Cases of all classes. What Spark plans for a case serves all that is tried with it, and its rows are compared in
    few statements."""

    def __init__(self, working: Planner, other: Planner) -> None:
        """`other`: for the texts of plans, in a session that serves for nothing else."""
        self._working = working
        self._other = other
        self._random = random.Random(SEED)
        self._outcome = Outcome()
        self._counts = self._outcome.counts

    async def play(self) -> Outcome:
        texts = TextPlans()
        async with self._database(), texts.of(self._other.session) as reading:
            for number in count():
                chosen = [name for name in CHOSEN if number == 0 or self._is_missing(name, number)]
                if not chosen:
                    break
                for name in chosen:
                    await self._case(CLASSES[name](self._random), named_mistakes(name), texts, reading)
        return self._outcome

    def _is_missing(self, name: str, played: int) -> bool:
        """Whether more cases of a class are wanted."""
        few = self._counts["pairs"] < PAIRS
        return few or (played < CASES_FOR_A_MISTAKE and not all(map(self._outcome.found.get, named_mistakes(name))))

    @asynccontextmanager
    async def _database(self) -> AsyncIterator[None]:
        execute = self._working.session.run
        await execute(f"CREATE DATABASE {DATABASE}")
        try:
            for statement in (f"USE {DATABASE}", "SET TIME ZONE 'UTC'", *QUICK, *TABLES.values()):
                await execute(statement)
            for statement in (f"USE {DATABASE}", "SET TIME ZONE 'UTC'"):
                await self._other.session.run(statement)
            yield
        finally:
            await execute(f"DROP DATABASE {DATABASE} CASCADE")

    async def _case(self, case: Case, mistakes: Mapping[str, Mistake], texts: TextPlans, reading: bytes) -> None:
        self._counts[f"cases: {case.kind}"] += 1
        await self._fill(case)
        planned: list[PlannedTrial] = []
        for number, trial in enumerate(islice(case.trials, TRIALS_OF_A_CASE)):
            explained = partial(texts.optimized, reading) if number < TRIALS_BY_TEXT else None
            if (found := await self._planned(trial, explained)) is not None:
                planned.append(found)
        proved = [*self._proved(case, planned), *self._crossed(case, planned), *self._proved_by_text(case, planned)]
        suspected = {name: list(self._accepted(case, planned, mistake)) for name, mistake in mistakes.items()}
        rows = await self._rows([*proved, *(pair for pairs in suspected.values() for pair in pairs)])
        for query, rewritten in proved:
            left, right = rows[query], rows[rewritten]
            if left is None or right is None:
                self._counts["failed"] += 1
            elif left != right:
                more, less = left - right, right - left
                self._outcome.wrong.append(f"{query.text}\n{rewritten.text}\n{case.views}\n{more}\n{less}")
            else:
                self._counts["compared"] += 1
        for name, pairs in suspected.items():
            self._outcome.found[name] += sum(rows[query] != rows[rewritten] for query, rewritten in pairs)

    async def _fill(self, case: Case) -> None:
        """Creates a case's views, with random rows below them."""
        execute = self._working.session.run
        for table, values in rows(self._random).items():
            await execute(f"INSERT OVERWRITE {table} VALUES {', '.join(values)}")
        for place, definition in enumerate(case.views):
            await execute(f"CREATE OR REPLACE VIEW defined_{place} AS {definition.format(lower='stored_0')}")
            await execute(f"DROP TABLE IF EXISTS stored_{place}")
            await execute(f"CREATE TABLE stored_{place} USING parquet AS SELECT * FROM defined_{place}")
            storable = can_be_stored(await self._working.plan(f"SELECT * FROM defined_{place}"))
            assert storable == Proved(), f"{storable}: {definition}"

    async def _planned(self, trial: Trial, explained: Explained | None) -> PlannedTrial | None:
        self._counts["right"] += bool(trial.right)
        query = await self._plan(trial.query, explained)
        if query is None:
            return None
        found = PlannedTrial(query)
        if trial.right:
            found.right = await self._plan(trial.right, explained)
            self._counts["right by text"] += explained is not None
        for each in trial.wrong:
            if (planned := await self._plan(each.sql, explained)) is None:
                self._counts["refused by Spark"] += 1
            else:
                found.wrong.append((each, planned))
        return found

    async def _plan(self, text: str, explained: Explained | None) -> Planned | None:
        over = _over(text, "defined")
        try:
            plan = await self._working.plan(over)
        except PlanUnavailable as error:
            print(f"no plan: {str(error).splitlines()[0]}\n  {text}")
            return None
        read: Plan | None = None
        if explained is not None:
            with contextlib.suppress(PlanUnavailable):
                read = await explained(over)
            if read is not None and renumbered(read) != renumbered(plan):
                self._outcome.misread.append(text)
        return Planned(text, plan, read)

    def _proved(self, case: Case, planned: list[PlannedTrial]) -> Iterator[Pair]:
        """The pairs that are proved."""
        keys = KEYS if case.keyed else {}
        with remembering():
            for trial in planned:
                if (right := trial.right) is not None:
                    self._counts["pairs"] += 1
                    if (result := prove(trial.query.plan, right.plan, keys)) == Proved():
                        self._counts["proved"] += 1
                        yield trial.query, right
                    else:
                        self._counts[f"not proved: {case.kind}"] += 1
                        print(f"not proved: {result}\n  {trial.query.text}\n  {right.text}\n  {case.views}")
                for wrong, rewritten in trial.wrong:
                    self._counts["pairs"] += 1
                    self._counts[f"wrong: {wrong.what}"] += 1
                    if prove(trial.query.plan, rewritten.plan, keys) == Proved():
                        self._counts["proved, changed nothing"] += 1
                        yield from self._doubted(case, trial.query, wrong, rewritten)

    def _doubted(self, case: Case, query: Planned, wrong: Wrong, rewritten: Planned) -> Iterator[Pair]:
        """A wrong rewriting that is proved is equal all the same, if it can be."""
        if wrong.perhaps:
            yield query, rewritten
        else:
            self._outcome.wrong.append(f"{wrong.what}:\n{query.text}\n{rewritten.text}\n{case.views}")

    def _crossed(self, case: Case, planned: list[PlannedTrial]) -> Iterator[Pair]:
        keys = KEYS if case.keyed else {}
        with remembering():
            for one in planned:
                for rewritten in (its for other in planned if other is not one for its in other.rewritings()):
                    self._counts["crossed"] += 1
                    if prove(one.query.plan, rewritten.plan, keys) == Proved():
                        self._counts["crossed, proved"] += 1
                        yield one.query, rewritten

    def _proved_by_text(self, case: Case, planned: list[PlannedTrial]) -> Iterator[Pair]:
        """The pairs that are proved by plans that were read from their texts."""
        keys = KEYS if case.keyed else {}
        with remembering():
            for trial in planned:
                if (query := trial.query.read) is None:
                    continue
                if trial.right is not None and trial.right.read is not None:
                    proved = prove(query, trial.right.read, keys) == Proved()
                    self._counts["proved by text"] += proved
                    if proved:
                        yield trial.query, trial.right
                for wrong, rewritten in trial.wrong:
                    if rewritten.read is not None and prove(query, rewritten.read, keys) == Proved():
                        yield from self._doubted(case, trial.query, wrong, rewritten)

    def _accepted(self, case: Case, planned: list[PlannedTrial], mistake: Mistake) -> Iterator[Pair]:
        """The wrong rewritings that a mistake proves."""
        keys = KEYS if case.keyed else {}
        with remembering(mistake):
            for trial in planned:
                for _, rewritten in trial.wrong:
                    if prove(trial.query.plan, rewritten.plan, keys) == Proved():
                        yield trial.query, rewritten

    async def _rows(self, pairs: Iterable[Pair]) -> dict[Planned, Counter[str] | None]:
        """The rows of all texts over the tables as they are; None if Spark refuses one."""
        asked = {planned: planned.asked for pair in pairs for planned in pair}
        found = await answers(self._working, list(asked.values()))
        return {
            planned: None if answer is None else Counter(_shown(answer))
            for planned, answer in zip(asked, found, strict=True)
        }


def _over(text: str, kind: str) -> str:
    return text.format(view=f"{kind}_0", other=f"{kind}_1", lower="stored_0")


def _shown(answer: Iterable[Iterable[object]]) -> Iterator[str]:
    """Rows as texts, of which equal ones are equal: NaN, and no sign of a zero."""
    for row in answer:
        yield repr([each + 0.0 if isinstance(each, float) else each for each in row])
