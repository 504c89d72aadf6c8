"""The comparison of answers from views with those of the clients' own texts: with fakes of Spark and of the proofs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from fakes import Answer, World, named
from test_rewrites import QUERY, closed, sent, stage

from gateway.config import Rewrite
from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.rewriting.usage import WhyMissed
from gateway.service.clients.pending_statement import PendingStatement
from gateway.service.operations.operation import End

COLUMNS = Answer([("k", "string", None), ("n", "bigint", None)])
RIGHT, WRONG = Answer([(3, 4, "5")]), Answer([(3, 4, "6")])


async def compared(rewritten: Answer = RIGHT, **properties: str) -> World:
    """s.mv answers with these numbers. Every answer is compared."""
    world = await stage(Rewrite(wait=10, canary=1), **properties)
    world.spark.answers.say("^DESCRIBE QUERY", COLUMNS)
    world.spark.answers.say("freshgate: comparison.*FROM s", RIGHT)
    world.spark.answers.say("freshgate: comparison.*`mv`", rewritten)
    return world


async def ask(world: World, times: int = 1) -> None:
    """Queries, and the comparisons that they cause."""
    bob = await world.client("bob")
    for _ in range(times):
        executed = await bob.execute(QUERY)
        assert executed.error is None
        await world.canary_ended()


def comparisons(world: World) -> list[str]:
    return [text for text in world.spark.answers.heard if "freshgate: comparison" in text]


async def test_equal_answers_are_counted() -> None:
    world = await compared()
    await ask(world, 3)
    assert (world.usages.counts.answers_compared, world.usages.counts.answers_differed) == (3, 0)
    assert len(comparisons(world)) == 6
    assert set(sent(world)) == {"mv"}


@pytest.mark.parametrize("early", [True, False])
async def test_answers_are_compared_after_the_client_has_closed_its_session(early: bool) -> None:
    """`early`: before the comparison begins, otherwise during it."""
    world = await compared(WRONG)
    bob = await world.client("bob")
    closing: list[asyncio.Future[None]] = []

    def close(_: str) -> Answer:
        closing.append(asyncio.ensure_future(closed(bob)))
        raise UpstreamLost("The session has ended.")

    if not early:
        world.spark.answers.say("^DESCRIBE QUERY", lambda text: COLUMNS if closing else close(text))
    await bob.execute(QUERY)
    if early:
        await closed(bob)
    await world.canary_ended()
    await asyncio.gather(*closing)
    assert world.usages.counts.answers_differed == 1
    assert world.spark.sessions == {}


async def test_a_wrong_proof_is_found_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    """The prover believes everything, and the view gives other rows."""
    world = await compared(WRONG)
    lines: list[dict[str, object]] = []
    audit = world.service.audit
    audit._write, audit.characters = lambda line, unread=None: lines.append(line), 1_000
    with caplog.at_level(logging.ERROR):
        await ask(world, 100)
    assert sent(world) == ["mv", *["t"] * 99]
    assert world.usages.counts.answers_differed == 1
    assert world.usages.counts.refused[WhyMissed.QUARANTINED] == 99
    assert "s.mv gave other rows than its base tables: other values in 3 rows" in caplog.text
    (line,) = [line for line in lines if line["event"] == "rewrite_difference"]
    assert (line["user"], line["views"], line["text"]) == ("bob", ["s.mv"], QUERY)
    assert "`mv`" in str(line["rewritten"])
    reason = await world.rewrites._standing.objection(world.entry("s.mv").view.id, named("s.mv"))
    assert reason == "the view gave other rows than its base tables: other values in 3 rows"


async def test_one_of_many_is_compared() -> None:
    world = await compared()
    world.canary._every = 10
    chances = iter([0.5, 0.09, 0.1, 0.99])
    world.canary._chance = lambda: next(chances)
    await ask(world, 4)
    assert world.usages.counts.answers_compared == 1


async def test_none_is_compared_if_that_is_off() -> None:
    world = await compared(WRONG)
    world.canary._every = 0
    await ask(world, 3)
    assert comparisons(world) == []


async def test_other_types_are_a_difference() -> None:
    world = await compared()
    world.spark.answers.say("^DESCRIBE QUERY.*`mv`", Answer([("k", "string", None), ("n", "int", None)]))
    await ask(world)
    assert world.usages.counts.answers_differed == 1


async def test_before_a_difference_counts_the_session_lists_the_files_anew() -> None:
    """The client's own text may have read an old listing."""
    world = await compared()
    world.spark.answers.say("comparison.*FROM s", lambda _: RIGHT if "REFRESH TABLE" in heard(world) else WRONG)
    await ask(world)
    assert (world.usages.counts.answers_compared, world.usages.counts.answers_differed) == (1, 0)


def heard(world: World) -> str:
    return " ".join(world.spark.answers.heard)


def write(world: World) -> None:
    world.write("s.t")


def open_write(world: World) -> None:
    write = TablesWritten(frozenset({"insert"}), frozenset({world.table("s.t").name}))
    world.catalog.writes.begin(write)
    world.catalog.writes.send(write)


def set_something(world: World) -> None:
    for session in world.sessions._sessions.values():
        session.settings.note("SET spark.sql.ansi.enabled=false")


def move(world: World) -> None:
    for session in world.sessions._sessions.values():
        session.namespace = None


def hide_and_show(world: World) -> None:
    """A temporary view comes and goes."""
    for session in world.sessions._sessions.values():
        statement = PendingStatement(session)
        session.watch(statement)
        session.ended(statement, End.SUCCEEDED)


@pytest.mark.parametrize("change", [write, open_write, set_something, move, hide_and_show])
async def test_nothing_is_concluded_if_something_changed_meanwhile(change: Callable[[World], Any]) -> None:
    world = await compared()

    def answer(_: str) -> Answer:
        change(world)
        return WRONG

    world.spark.answers.say("comparison.*`mv`", answer)
    await ask(world)
    assert comparisons(world)
    assert (world.usages.counts.answers_compared, world.usages.counts.answers_differed) == (0, 0)


async def test_a_stale_view_is_not_compared() -> None:
    world = await compared(WRONG, rewrite_consistency="OFF")
    world.write("s.t")
    await ask(world)
    assert sent(world) == ["mv"]
    assert comparisons(world) == []


async def test_a_text_that_fails_says_nothing() -> None:
    world = await compared()
    world.spark.answers.say("comparison.*FROM s", StatementFailed("overflow"))
    await ask(world)
    assert (world.usages.counts.answers_compared, world.usages.counts.answers_differed) == (0, 0)


async def test_there_is_one_comparison_at_a_time() -> None:
    world = await compared()
    bob = await world.client("bob")
    await bob.execute(QUERY)
    await world.canary_ended()
    before = len(comparisons(world))
    await asyncio.gather(*(bob.execute(QUERY) for _ in range(5)))
    await world.canary_ended()
    assert len(comparisons(world)) == before + 2
