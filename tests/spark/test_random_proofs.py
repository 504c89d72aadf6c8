"""Tests the proofs with random queries, rewritings and wrong rewritings, and their rows.

`FRESHGATE_PAIRS=100000 scripts/test tests/spark/test_random_proofs.py` tests so many pairs instead of the few of the
suite; another `FRESHGATE_SEED` chooses other ones, `FRESHGATE_CLASSES=self_joins,leaders` only some classes.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import pytest
from planning import Planner, planner, renumbered
from processes import Engine
from random_classes import CLASSES, Case
from random_pairs import TABLES, Trial, Wrong, rows
from tiers import EVERYTHING

from gateway.errors import StatementFailed
from gateway.mv.ports import PlanUnavailable
from gateway.spark.plan_texts import TextPlans
from gateway.spark.row_list import RowList
from sql.names import Namespace, TableName
from sql.proof import checker, identities, lossless, merging, parts
from sql.proof.checker import Proved, ProvedRows, can_be_stored, prove
from sql.proof.plan import Plan, Value
from sql.proof.terms import NotUnderstood, Term
from sql.table_keys import TableKeys, keys_in

PAIRS = int(os.environ.get("FRESHGATE_PAIRS", "1000" if EVERYTHING else "240"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
CHOSEN = os.environ.get("FRESHGATE_CLASSES", ",".join(CLASSES)).split(",")
TRIALS_OF_A_CASE = 20 if PAIRS > 1_000 else 2
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


Mistake = tuple[tuple[object, str, Any], ...]
"""What is replaced, and by what."""
CASES_FOR_A_MISTAKE, TRIALS_FOR_A_MISTAKE = 4, 4


def _nothing_apart(relations: object, others: object) -> dict[Term, Term]:
    return {}


_compose, _text = identities.compose, checker._text
_ONE_OCCURRENCE: Mistake = ((checker, "apart", _nothing_apart), (merging, "apart", _nothing_apart))
_NOTHING_IS_NULL: Mistake = ((lossless, "_is_certain", lambda condition: condition.op == "IsNotNull"),)
_EXISTS_ALIKE: Mistake = ((checker, "_exists", _found_alike),)
_RANKS_ALIKE: Mistake = ((checker, "compose", _alike(_compose, "Rank", "DenseRank")),)
_WINDOWS_ALIKE: Mistake = ((checker, "compose", _any_order(_compose)),)
_MERGES_ALL: Mistake = ((merging._Merging, "_call", _merges_all),)
MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "groups_of_a_table": (_MERGES_ALL,),
    "self_joins": (_ONE_OCCURRENCE,),
    "one_occurrence": (_ONE_OCCURRENCE,),
    "several_views": (_EXISTS_ALIKE, _MERGES_ALL),
    "views_of_views": (_MERGES_ALL,),
    "rows_that_are_found": (_EXISTS_ALIKE,),
    "correlated_values": (((checker, "compose", _alike(_compose, "Max", "Min", "Sum")),),),
    "several_sets_of_keys": (_MERGES_ALL,),
    "leaders": (_RANKS_ALIKE, _WINDOWS_ALIKE),
    "outer_views": (((checker, "_text", _one_join(_text, "LeftOuter", "Inner")),),),
    "parts_of_the_rows": (((parts, "_split", _any_part),),),
    "wider_views": (_NOTHING_IS_NULL,),
    "rows_found_or_others": (_EXISTS_ALIKE,),
    "one_of_several_sets": (((lossless, "copies_of", _any_copy),),),
    "full_views": (((checker, "_text", _one_join(_text, "FullOuter", "LeftOuter")),),),
    "ranked_views": (_RANKS_ALIKE, _WINDOWS_ALIKE),
}
"""By the classes, mistakes in the lemmas that they need."""


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[Plan, ProvedRows | NotUnderstood]]:
    """The forms of plans, each of which is compared with many others."""
    answer = checker._answer
    forms: dict[int, tuple[Plan, ProvedRows | NotUnderstood]] = {}

    def once(plan: Plan) -> ProvedRows:
        if id(plan) not in forms:
            try:
                forms[id(plan)] = plan, answer(plan)
            except NotUnderstood as reason:
                forms[id(plan)] = plan, reason
        _, found = forms[id(plan)]
        if isinstance(found, NotUnderstood):
            raise found
        return found

    monkeypatch.setattr(checker, "_answer", once)
    return forms


def test_what_is_proved_is_equal_and_nothing_wrong_is_proved(
    engine: Engine, remembered: dict[int, tuple[Plan, ProvedRows | NotUnderstood]]
) -> None:
    async def check() -> None:
        async with asyncio.timeout(60 + PAIRS * PAIR_SECONDS), planner(engine) as working:
            counts = await Proving(working, remembered.clear).run()
        print(f"seed {SEED}: {dict(counts)}")
        assert counts["proved"] >= PROVED_LEAST * counts["right"]

    asyncio.run(check())


def test_a_mistake_in_a_lemma_proves_wrong_rewritings(
    engine: Engine,
    remembered: dict[int, tuple[Plan, ProvedRows | NotUnderstood]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the test can fail: each class of rewritings finds the mistakes in what it needs."""

    async def check() -> None:
        async with asyncio.timeout(1_200), planner(engine) as working:
            proving = Proving(working, remembered.clear)
            missed = await proving.missed_mistakes(monkeypatch)
        assert missed == []

    asyncio.run(check())


def test_texts_of_plans_are_read_as_the_exact_plans(engine: Engine) -> None:
    """All texts are tried, right and wrong ones. Not all are read, so fewer pairs are proved."""

    async def check() -> None:
        pairs = max(PAIRS // 3, 20)
        async with asyncio.timeout(60 + pairs * PAIR_SECONDS), planner(engine) as working, planner(engine) as other:
            await other.session.run("SET TIME ZONE 'UTC'")
            texts = TextPlans()
            async with texts.of(other.session) as name:

                async def plan(text: str) -> Plan:
                    exact = await working.plan(text)
                    if not namespace:
                        namespace.append(await other.session.run(f"USE {DATABASE}"))
                    read = await texts.optimized(name, text)
                    assert renumbered(read) == renumbered(exact), text
                    return read

                namespace: list[RowList] = []
                counts = await Proving(working, plan=plan, pairs=pairs).run()
        print(f"seed {SEED}: {dict(counts)}")
        assert counts["proved"] >= PROVED_BY_TEXT_LEAST * counts["right"]

    asyncio.run(check())


@dataclass(slots=True)
class Planned:
    """A trial, with the plans of those of its texts that Spark plans."""

    trial: Trial
    query: Plan
    right: Plan | None = None
    wrong: list[tuple[Wrong, Plan]] = field(default_factory=list)

    def rewritings(self) -> Iterator[tuple[str, Plan]]:
        if self.right is not None:
            yield self.trial.right, self.right
        yield from ((each.sql, plan) for each, plan in self.wrong)


class Proving:
    """Counts what is proved. `pairs`: at least so many of a query and a rewriting that was made for it; `crossed` are
    those of a query and rewritings that were made for other queries on the same views."""

    def __init__(
        self,
        working: Planner,
        forget: Callable[[], None] = lambda: None,
        plan: Callable[[str], Awaitable[Plan]] | None = None,
        pairs: int = PAIRS,
    ) -> None:
        self._working = working
        self._forget = forget
        self._plan = plan or working.plan
        self._pairs = pairs
        self._random = random.Random(SEED)
        self._counts: Counter[str] = Counter()
        self._rows: dict[str, Counter[str] | None] = {}
        """By texts over the tables as they are; None if Spark refuses one."""

    async def run(self) -> Counter[str]:
        async with self._database():
            for name in cycle(CHOSEN):
                if self._counts["pairs"] >= self._pairs:
                    break
                await self._case(CLASSES[name](self._random))
        return self._counts

    @asynccontextmanager
    async def _database(self) -> AsyncIterator[None]:
        execute = self._working.session.run
        await execute(f"CREATE DATABASE {DATABASE}")
        try:
            for statement in (f"USE {DATABASE}", "SET TIME ZONE 'UTC'", *TABLES.values()):
                await execute(statement)
            yield
        finally:
            await execute(f"DROP DATABASE {DATABASE} CASCADE")

    async def missed_mistakes(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The classes, with a mistake in the proof by which no wrong rewriting with other rows is proved."""
        missed: list[str] = []
        async with self._database():
            for name, mistakes in MISTAKES.items():
                waiting = list(mistakes)
                for _ in range(CASES_FOR_A_MISTAKE):
                    case = CLASSES[name](self._random)
                    planned = await self.planned(case, TRIALS_FOR_A_MISTAKE)
                    waiting = [each for each in waiting if not await self._finds(case, planned, each, monkeypatch)]
                    if not waiting:
                        break
                missed += [f"{name}: {attribute}" for ((_, attribute, _), *_) in waiting]
        return missed

    async def _finds(
        self, case: Case, planned: list[Planned], mistake: Mistake, monkeypatch: pytest.MonkeyPatch
    ) -> bool:
        keys = KEYS if case.keyed else {}
        found: list[tuple[str, str]] = []
        self._forget()
        with monkeypatch.context() as patch:
            for replacement in mistake:
                patch.setattr(*replacement)
            for each in planned:
                found += (
                    (each.trial.query, wrong.sql)
                    for wrong, plan in each.wrong
                    if prove(each.query, plan, keys) == Proved()
                )
        self._forget()
        return any([await self._answer(query) != await self._answer(wrong) for query, wrong in found])

    async def planned(self, case: Case, count: int) -> list[Planned]:
        """Creates a case's views with random rows, and plans some of its trials."""
        execute = self._working.session.run
        self._forget()
        self._rows.clear()
        for table, values in rows(self._random).items():
            await execute(f"INSERT OVERWRITE {table} VALUES {', '.join(values)}")
        for place, definition in enumerate(case.views):
            await execute(f"CREATE OR REPLACE VIEW defined_{place} AS {definition.format(lower='stored_0')}")
            await execute(f"DROP TABLE IF EXISTS stored_{place}")
            await execute(f"CREATE TABLE stored_{place} USING parquet AS SELECT * FROM defined_{place}")
            storable = can_be_stored(await self._working.plan(f"SELECT * FROM defined_{place}"))
            assert storable == Proved(), f"{storable}: {definition}"
        found = [await self._planned(trial) for trial in islice(case.trials, count)]
        return [each for each in found if each is not None]

    async def _planned(self, trial: Trial) -> Planned | None:
        query = await self._plan_of(trial.query)
        if query is None:
            self._counts["right"] += bool(trial.right)
            return None
        found = Planned(trial, query)
        if trial.right:
            self._counts["right"] += 1
            found.right = await self._plan_of(trial.right)
        for each in trial.wrong:
            if (plan := await self._plan_of(each.sql)) is None:
                self._counts["refused by Spark"] += 1
            else:
                found.wrong.append((each, plan))
        return found

    async def _plan_of(self, text: str) -> Plan | None:
        try:
            return await self._plan(_over(text, "defined"))
        except PlanUnavailable as error:
            print(f"no plan: {error}\n  {text}")
            return None

    async def _case(self, case: Case) -> None:
        keys = KEYS if case.keyed else {}
        planned = await self.planned(case, TRIALS_OF_A_CASE)
        for each in planned:
            trial = each.trial
            if each.right is not None:
                self._counts["pairs"] += 1
                if (result := prove(each.query, each.right, keys)) == Proved():
                    self._counts["proved"] += 1
                    await self._compare(case, trial.query, trial.right)
                else:
                    self._counts[f"not proved: {case.kind}"] += 1
                    print(f"not proved: {result}\n  {trial.query}\n  {trial.right}\n  {case.views}")
            for wrong, plan in each.wrong:
                self._counts["pairs"] += 1
                self._counts[f"wrong: {wrong.what}"] += 1
                if prove(each.query, plan, keys) == Proved():
                    assert wrong.perhaps, f"{wrong.what}:\n{trial.query}\n{wrong.sql}\n{case.views}"
                    self._counts["proved, changed nothing"] += 1
                    await self._compare(case, trial.query, wrong.sql)
        await self._crossed(case, planned, keys)

    async def _crossed(self, case: Case, planned: list[Planned], keys: dict[str, TableKeys]) -> None:
        for one in planned:
            for text, plan in (its for other in planned if other is not one for its in other.rewritings()):
                self._counts["crossed"] += 1
                if prove(one.query, plan, keys) == Proved():
                    self._counts["crossed, proved"] += 1
                    await self._compare(case, one.trial.query, text)

    async def _compare(self, case: Case, query: str, rewritten: str) -> None:
        left, right = await self._answer(query), await self._answer(rewritten)
        if left is None or right is None:
            self._counts["failed"] += 1
        else:
            self._counts["compared"] += 1
            assert left == right, f"{query}\n{rewritten}\n{case.views}\n{left - right}\n{right - left}"

    async def _answer(self, text: str) -> Counter[str] | None:
        text = _over(text, "stored")
        if text not in self._rows:
            try:
                self._rows[text] = Counter(_shown((await self._working.session.run(text)).rows))
            except StatementFailed as error:
                print(f"failed: {error}\n  {text}")
                self._rows[text] = None
        return self._rows[text]


def _over(text: str, kind: str) -> str:
    return text.format(view=f"{kind}_0", other=f"{kind}_1", lower="stored_0")


def _shown(answer: Iterable[Iterable[object]]) -> Iterator[str]:
    """Rows as texts, of which equal ones are equal: NaN, and no sign of a zero."""
    for row in answer:
        yield repr([each + 0.0 if isinstance(each, float) else each for each in row])
