"""The comparison of answers from views with those of the clients' own texts: with fakes of Spark and of the proofs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from fake_spark import Answer, named
from fakes import Site
from service.test_rewrites import QUERY, closed, sent, stage

from gateway.config import Rewrite
from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.rewriting.usage import WhyMissed
from gateway.service.clients.pending_statement import PendingStatement
from gateway.service.operations.operation import End

COLUMNS = Answer([("k", "string", None), ("n", "bigint", None)])
RIGHT, WRONG = Answer([(3, 4, "5")]), Answer([(3, 4, "6")])


async def compared(rewritten: Answer = RIGHT, **properties: str) -> Site:
    """s.mv answers with these numbers. Every answer is compared."""
    site = await stage(Rewrite(wait=10, canary=1), properties)
    site.spark.answers.say("^DESCRIBE QUERY", COLUMNS)
    site.spark.answers.say("freshgate: comparison.*FROM s", RIGHT)
    site.spark.answers.say("freshgate: comparison.*`mv`", rewritten)
    return site


async def ask(site: Site, times: int = 1) -> None:
    """Queries, and the comparisons that they cause."""
    bob = await site.client("bob")
    for _ in range(times):
        executed = await bob.execute(QUERY)
        assert executed.error is None
        await site.canary_ended()


def comparisons(site: Site) -> list[str]:
    return [text for text in site.spark.answers.heard if "freshgate: comparison" in text]


async def test_equal_answers_are_counted() -> None:
    site = await compared()
    await ask(site, 3)
    assert (site.usages.counts.answers_compared, site.usages.counts.answers_differed) == (3, 0)
    assert len(comparisons(site)) == 6
    assert set(sent(site)) == {"mv"}


@pytest.mark.parametrize("early", [True, False])
async def test_answers_are_compared_after_the_client_has_closed_its_session(early: bool) -> None:
    """`early`: before the comparison begins, otherwise during it."""
    site = await compared(WRONG)
    bob = await site.client("bob")
    closing: list[asyncio.Future[None]] = []

    def close(_: str) -> Answer:
        closing.append(asyncio.ensure_future(closed(bob)))
        raise UpstreamLost("The session has ended.")

    if not early:
        site.spark.answers.say("^DESCRIBE QUERY", lambda text: COLUMNS if closing else close(text))
    await bob.execute(QUERY)
    if early:
        await closed(bob)
    await site.canary_ended()
    await asyncio.gather(*closing)
    assert site.usages.counts.answers_differed == 1
    assert site.spark.sessions == {}


async def test_a_wrong_proof_is_found_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    """The prover believes everything, and the view gives other rows."""
    site = await compared(WRONG)
    lines: list[dict[str, object]] = []
    audit = site.service.audit
    audit._write, audit.characters = lambda line, unread=None: lines.append(line), 1_000
    with caplog.at_level(logging.ERROR):
        await ask(site, 100)
    assert sent(site) == ["mv", *["t"] * 99]
    assert site.usages.counts.answers_differed == 1
    assert site.usages.counts.refused[WhyMissed.QUARANTINED] == 99
    assert "s.mv gave other rows than its base tables: other values in 3 rows" in caplog.text
    (line,) = [line for line in lines if line["event"] == "rewrite_difference"]
    assert (line["user"], line["views"], line["text"]) == ("bob", ["s.mv"], QUERY)
    assert "`mv`" in str(line["rewritten"])
    reason = await site.rewrites._standing.objection(site.entry("s.mv").view.id, named("s.mv"))
    assert reason == "the view gave other rows than its base tables: other values in 3 rows"


async def test_one_of_many_is_compared() -> None:
    site = await compared()
    site.canary._every = 10
    chances = iter([0.5, 0.09, 0.1, 0.99])
    site.canary._chance = lambda: next(chances)
    await ask(site, 4)
    assert site.usages.counts.answers_compared == 1


async def test_none_is_compared_if_that_is_off() -> None:
    site = await compared(WRONG)
    site.canary._every = 0
    await ask(site, 3)
    assert comparisons(site) == []


async def test_other_types_are_a_difference() -> None:
    site = await compared()
    site.spark.answers.say("^DESCRIBE QUERY.*`mv`", Answer([("k", "string", None), ("n", "int", None)]))
    await ask(site)
    assert site.usages.counts.answers_differed == 1


async def test_before_a_difference_counts_the_session_lists_the_files_anew() -> None:
    """The client's own text may have read an old listing."""
    site = await compared()
    site.spark.answers.say("comparison.*FROM s", lambda _: RIGHT if "REFRESH TABLE" in heard(site) else WRONG)
    await ask(site)
    assert (site.usages.counts.answers_compared, site.usages.counts.answers_differed) == (1, 0)


def heard(site: Site) -> str:
    return " ".join(site.spark.answers.heard)


def write(site: Site) -> None:
    site.write("s.t")


def open_write(site: Site) -> None:
    write = TablesWritten(frozenset({"insert"}), frozenset({site.table("s.t").name}))
    site.catalog.writes.begin(write)
    site.catalog.writes.send(write)


def set_something(site: Site) -> None:
    for session in site.sessions._sessions.values():
        session.settings.note("SET spark.sql.ansi.enabled=false")


def move(site: Site) -> None:
    for session in site.sessions._sessions.values():
        session.namespace = None


def hide_and_show(site: Site) -> None:
    """A temporary view comes and goes."""
    for session in site.sessions._sessions.values():
        statement = PendingStatement(session)
        session.watch(statement)
        session.ended(statement, End.SUCCEEDED)


@pytest.mark.parametrize("change", [write, open_write, set_something, move, hide_and_show])
async def test_nothing_is_concluded_if_something_changed_meanwhile(change: Callable[[Site], Any]) -> None:
    site = await compared()

    def answer(_: str) -> Answer:
        change(site)
        return WRONG

    site.spark.answers.say("comparison.*`mv`", answer)
    await ask(site)
    assert comparisons(site)
    assert (site.usages.counts.answers_compared, site.usages.counts.answers_differed) == (0, 0)


async def test_a_stale_view_is_not_compared() -> None:
    site = await compared(WRONG, rewrite_consistency="OFF")
    site.write("s.t")
    await ask(site)
    assert sent(site) == ["mv"]
    assert comparisons(site) == []


async def test_a_text_that_fails_says_nothing() -> None:
    site = await compared()
    site.spark.answers.say("comparison.*FROM s", StatementFailed("overflow"))
    await ask(site)
    assert (site.usages.counts.answers_compared, site.usages.counts.answers_differed) == (0, 0)


async def test_there_is_one_comparison_at_a_time() -> None:
    site = await compared()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    await site.canary_ended()
    before = len(comparisons(site))
    await asyncio.gather(*(bob.execute(QUERY) for _ in range(5)))
    await site.canary_ended()
    assert len(comparisons(site)) == before + 2
