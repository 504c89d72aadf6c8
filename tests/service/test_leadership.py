"""What a gateway routes and tells while another one may have taken over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from fakes import Client, Site

from gateway.mv.catalog.epoch_counts import What
from gateway.service.leadership import Leadership
from gateway.wire import message


async def waited_for(several: bool = True) -> tuple[Site, Client]:
    """A gateway beside which others wait to take over, which has not checked its epoch lately."""
    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    site.service = replace(site.service, leadership=Leadership(cast(Any, site.fence)) if several else None)
    client = await site.client()
    site.fence.is_sure_now = False
    return site, client


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT * FROM s.mv", "INSERT INTO s.t VALUES (1)", "SHOW MATERIALIZED VIEWS"]
)
@pytest.mark.parametrize("run_async", [True, False])
async def test_nothing_is_routed_unless_it_leads(text: str, run_async: bool) -> None:
    site, client = await waited_for()
    site.fence.lost = "Another gateway leads."
    heard = len(site.spark.operations)
    executed = await client.execute(text, run_async=run_async)
    assert (executed.sqlstate, executed.handle) == ("55006", None)
    assert len(site.spark.operations) == heard
    assert site.fence.checks == 1
    assert site.fence.counts.fenced == {What.STATEMENT: 1}


async def test_a_gateway_that_is_sure_asks_nobody() -> None:
    site, client = await waited_for()
    site.fence.is_sure_now = True
    await client.execute("SELECT 1")
    assert site.fence.checks == 0


async def test_a_gateway_alone_asks_nobody() -> None:
    site, client = await waited_for(several=False)
    site.fence.lost = "Another gateway was started with --take-over."
    assert (await client.execute("SELECT 1")).sqlstate is None
    assert site.fence.checks == 0


async def test_the_end_of_a_synchronous_write_is_not_told_by_a_gateway_that_may_not_lead() -> None:
    site, client = await waited_for()

    def overtaken(payload: bytes) -> None:
        site.fence.lost = "Another gateway leads."

    answer = await during(site, client.execute("INSERT INTO s.t VALUES (1)", run_async=False), overtaken)
    assert answer.sqlstate == "08007"
    assert "look whether what it writes is there" in (answer.error or "")
    # Here it counts, whatever the client is told.
    assert not site.catalog.writes._pending


async def test_a_synchronous_read_needs_no_second_check() -> None:
    site, client = await waited_for()

    def overtaken(payload: bytes) -> None:
        site.fence.lost = "Another gateway leads."

    assert (await during(site, client.execute("SELECT 1", run_async=False), overtaken)).sqlstate is None


@pytest.mark.parametrize("polls", [1, 2])
async def test_the_end_of_a_write_is_not_told_by_a_gateway_that_may_not_lead(polls: int) -> None:
    """Neither the first time nor when the client asks again."""
    site, client = await waited_for()
    executed = await client.execute("INSERT INTO s.t VALUES (1)")
    assert executed.sqlstate is None
    site.fence.lost = "Another gateway leads."
    for _ in range(polls):
        status = await executed.poll()
        assert status.status.sqlState == "08007"


async def test_the_end_of_a_write_is_told_by_a_gateway_that_leads() -> None:
    site, client = await waited_for()
    executed = await client.execute("INSERT INTO s.t VALUES (1)")
    checks = site.fence.checks
    assert (await executed.poll()).operationState is not None
    assert site.fence.checks == checks + 1
    # It was told, so another gateway has to look after it.
    site.fence.lost = "Another gateway leads."
    assert (await executed.poll()).status.sqlState is None


async def during(site: Site, running: Any, then: Any) -> Any:
    """Runs a statement, and calls `then` while Spark does."""
    answer = site.spark.answer

    async def answering(payload: bytes) -> bytes:
        found = await answer(payload)
        if message.peek(payload).name == "ExecuteStatement":
            then(payload)
        return found

    site.spark.answer = answering  # type: ignore[method-assign]
    return await running
