"""Tests statements that wait because of limits.rules, from the client's request to Spark."""

from __future__ import annotations

import asyncio

import pytest
from fakes import Client, Executed, Site

from gateway.service.clients import quotas

ONE = ("* each: statements 1, queue 2", "root: statements unlimited")
LIMITED = "54000"


async def first(site: Site, user: str = "ada") -> tuple[Client, Executed]:
    """A statement that runs at Spark."""
    client = await site.client(user)
    return client, await client.execute("SELECT 1")


async def waiting(client: Client, text: str = "SELECT 2") -> Executed:
    executed = await client.execute(text, settle=False)
    await asyncio.sleep(0)
    assert text not in client.site.spark.texts
    return executed


async def begun(site: Site, text: str) -> None:
    async with asyncio.timeout(20):
        while text not in site.spark.texts:  # noqa: ASYNC110 (what is waited for sets no event)
            await asyncio.sleep(0)


async def test_a_statement_runs_when_one_before_it_has_ended() -> None:
    site = Site(limits=ONE)
    client, running = await first(site)
    second = await waiting(client)
    assert second.sqlstate is None
    assert second.log == ["Waiting for one of 1 statements that ada may run at a time (limits.rules: " + ONE[0] + ")"]
    # Others have numbers of their own.
    await first(site, "eve")
    await running.poll()
    await begun(site, "SELECT 2")
    await second.poll()
    assert second.at_spark.text == "SELECT 2"


async def test_too_many_are_refused_with_the_rule() -> None:
    site = Site(limits=ONE)
    client, _ = await first(site)
    for text in ("SELECT 2", "SELECT 3"):
        await waiting(await site.client(), text)
    refused = await client.execute("SELECT 4")
    assert refused.sqlstate == LIMITED
    assert "ada has 1 running statements and 2 that wait, and the rule '* each: statements 1, queue 2'" in str(
        refused.error
    )
    for text in ("SELECT 5", "SELECT 6", "SELECT 7"):
        assert (await (await site.client("root")).execute(text)).sqlstate is None


@pytest.mark.parametrize("how", ["cancel", "close", "leave"])
async def test_one_that_is_given_up_makes_room_for_those_behind(how: str) -> None:
    site = Site(limits=ONE)
    _, running = await first(site)
    one, two = await site.client(), await site.client()
    given_up = await waiting(one, "SELECT 2")
    await waiting(two, "SELECT 3")
    if how == "cancel":
        await given_up.cancel()
    elif how == "close":
        await given_up.close()
    else:
        await one.dispatch.client_lost()
    await running.poll()
    await begun(site, "SELECT 3")
    assert "SELECT 2" not in site.spark.texts
    assert site.sessions.quotas.turns.waiting == 0


async def test_the_gateways_own_statements_and_views_wait_as_well() -> None:
    site = Site(limits=ONE)
    site.table("s.sales")
    await site.view("s.daily", "SELECT n FROM s.sales", built=False)
    client, running = await first(site)
    read = await waiting(client, "SELECT n FROM s.daily")
    shown = await client.execute("SHOW MATERIALIZED VIEWS", settle=False)
    await running.poll()
    await begun(site, "SELECT n FROM s.daily")
    assert site.refreshed == ["s.daily"]
    await read.poll()
    async with asyncio.timeout(20):
        while site.sessions.quotas.turns.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await shown.poll()
    async with asyncio.timeout(20):
        while any(use.used for use in site.sessions.quotas.uses()):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_client_that_does_not_ask_does_not_hold_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "LOOK_SECONDS", 0.001)
    site = Site(limits=ONE)
    site.sessions.quotas.turns._look_seconds = 0.001
    await first(site)
    await waiting(await site.client())
    await begun(site, "SELECT 2")


async def test_a_closed_session_gives_its_place_back() -> None:
    site = Site(limits=ONE)
    client, _ = await first(site)
    await waiting(await site.client())
    await client.dispatch.client_lost()
    await begun(site, "SELECT 2")


async def test_users_see_their_own_numbers_and_administrators_all() -> None:
    site = Site(limits=("* each: sessions 9, statements 9", "group:x: sessions 3"))
    for user, seen in (("ada", ["ada"]), ("root", ["ada", "eve", "root"])):
        await site.client("eve")
        client = await site.client(user)
        await client.execute("SELECT * FROM freshgate.limits")
        text = site.spark.texts[-1]
        assert [each for each in ("ada", "eve", "root") if f"'{each}'" in text] == seen
