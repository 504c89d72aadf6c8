"""Sessions whose clients poll or do not, against a model of Spark: a read shows every write that had ended before."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from fake_spark import ERROR, Answer, SparkOperation, SparkSession
from fakes import Client, Executed, Site, plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.service.clients import pending_statement

DATABASES = ("s0", "s1")
VIEWS = [f"{database}.mv" for database in DATABASES]
READS = ["mv", "s0.mv", "v", "global_temp.g", "IDENTIFIER('s1' || '.mv')"]
SHARED = "CREATE OR REPLACE GLOBAL TEMPORARY VIEW g AS SELECT n FROM"
TEXTS = [
    *(f"USE {database}" for database in DATABASES),
    *(f"CREATE OR REPLACE TEMPORARY VIEW v AS SELECT n FROM {view}" for view in ("mv", "s0.mv")),
    *(f"{SHARED} {view}" for view in VIEWS),
    *("DROP VIEW v", "DROP VIEW global_temp.g", "finish", "cancel", "close"),
    *(f"INSERT INTO {table} VALUES (1)" for table in ("t", "s0.t", "s1.t")),
    *(f"SELECT n FROM {name}" for name in READS),
]


@dataclass(frozen=True)
class Step:
    """A client runs a text; `held`: Spark is busy with it until a later step. Or the oldest such statement ends.

    `polled`: the client asks for its status; before a read it is, Spark has ended what its session was busy with.
    """

    client: int
    text: str
    held: bool = False
    polled: bool = False


def steps_of(seed: int) -> list[Step]:
    """Drawn evenly: a list that hypothesis makes has few kinds of steps."""
    draw = random.Random(seed)
    return [
        Step(draw.choice([0, 0, 0, 1]), draw.choice(TEXTS), draw.random() < 0.5, draw.random() < 0.5) for _ in range(30)
    ]


class Model:
    """What Spark does: tables that grow, views that show what they were computed from, names of each session."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.rows = Counter[str]()
        """Of each database's table."""
        self.shown = Counter[str]()
        """What each database's view shows."""
        self.temporary: dict[tuple[SparkSession | None, str], str] = {}
        self.targets: dict[SparkOperation, str | None] = {}
        self.read: str | None = None
        self.counted = 0
        self.overtaken = False
        """What changes names ends between the gateway's look at a read and Spark's."""
        site.spark.on_start, site.spark.on_finish = self.start, self.finish
        site.spark.explain = self.explain
        site.tasks.on_refresh = self.refresh
        site.spark.answers.say("^SHOW ", Answer())

    def refresh(self, view: str) -> None:
        database = view.partition(".")[0]
        self.shown[database] = self.rows[database]

    def meant(self, session: SparkSession, name: str) -> str | None:
        """The database of the table or view that a name means; None where there is none."""
        name = re.sub(r"IDENTIFIER\('(\w+)' \|\| '(\.\w+)'\)", r"\1\2", name)
        *database, last = name.split(".")
        if database == ["global_temp"]:
            return self.temporary.get((None, last))
        if last in {"v", "g"}:
            return self.temporary.get((session, last))
        found = database[0] if database else session.namespace.database
        return found if found in DATABASES else None

    def explain(self, session: SparkSession, text: str) -> Answer:
        database = self.meant(session, text.split(" FROM ", 1)[1])
        return plan_of(*([self.site.entry(f"{database}.mv").view.id] if database else []))

    def start(self, operation: SparkOperation) -> None:
        session, text = operation.session, operation.text
        if text.startswith("SELECT") and self.overtaken:
            for each in session.operations[:-1]:
                if not each.text.startswith("INSERT"):
                    each.finish()
        if found := re.search(r"(?:FROM|INTO) (.+?)(?: VALUES.*)?$", text):
            self.targets[operation] = self.meant(session, found[1])
        if text.startswith("SELECT"):
            self.read = self.targets[operation]
            self.counted = self.shown[self.read] if self.read else 0

    def finish(self, operation: SparkOperation) -> None:
        text, target = operation.text, self.targets.get(operation)
        place = None if "global" in text.lower() else operation.session
        if text.startswith("CREATE"):
            if target is None:
                operation.state = ERROR
            else:
                self.temporary[place, "g" if place is None else "v"] = target
        elif text.startswith("DROP"):
            if self.temporary.pop((place, text[-1]), None) is None:
                operation.state = ERROR
        elif text.startswith("INSERT") and target is not None:
            self.rows[target] += 1


async def story(steps: Sequence[Step]) -> None:
    site = Site()
    for database in DATABASES:
        site.table(f"{database}.t")
        await site.view(f"{database}.mv", "SELECT count(*) n FROM t")
    model = Model(site)
    clients = [await site.client(user) for user in ("ada", "bob")]
    held: list[Executed] = []
    for step in steps:
        if step.text in {"finish", "cancel", "close"}:
            if held:
                await end(held.pop(0), step.text)
            continue
        await run(site, model, clients[step.client], step, held)


async def end(statement: Executed, how: str) -> None:
    if how == "finish":
        statement.at_spark.finish()
        for _ in range(5):
            await asyncio.sleep(0)  # Spark's answer to a question that it has held is on its way.
    else:
        await (statement.cancel() if how == "cancel" else statement.close())


async def run(site: Site, model: Model, client: Client, step: Step, held: list[Executed]) -> None:
    reads = step.text.startswith("SELECT")
    if step.held and not reads:
        site.spark.holds(step.text)
    before, model.overtaken = Counter(model.rows), step.polled
    done = await client.execute(step.text)
    site.spark._held.clear()
    assert done.error is None
    if reads and model.read is not None:
        assert model.counted >= before[model.read], step
    if step.held and not reads:
        held.append(done)
    elif step.polled:
        await done.poll()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_a_read_shows_what_had_ended(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending_statement, "WAIT_SECONDS", 0.004)
        patch.setattr(pending_statement, "HELD_SECONDS", 0.002)
        asyncio.run(asyncio.wait_for(story(steps_of(seed)), 20))
