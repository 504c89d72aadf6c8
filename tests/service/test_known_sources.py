"""What is known of the answer of a read, by what its session has sent before."""

from __future__ import annotations

import pytest
from fakes import Client, Site

from gateway.service.clients.session_settings import SessionSettings
from gateway.service.routing.facts import Facts
from gateway.service.routing.ways import RepeatableRead
from sql.names import Namespace
from sql.understood import Understood


async def stage() -> Site:
    site = Site(result_bytes=1 << 20)
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    return site


def source(site: Site, client: Client, text: str = "SELECT n FROM mv", database: str = "s") -> RepeatableRead | None:
    """What a read of s.mv in a database depends on, if that is known."""
    views = frozenset({site.entry("s.mv").view.id})
    found = site.known.source(Facts.of(client.session, Namespace(database), Understood(text)), views)
    return found if isinstance(found, RepeatableRead) else None


async def in_s(site: Site) -> Client:
    client = await site.client("ada")
    await (await client.execute("USE s")).poll()
    assert source(site, client) is not None
    return client


async def test_settings_that_overlap_are_not_those_of_another_session() -> None:
    """Spark runs them in any order, and the last one counts."""
    site = await stage()
    client = await in_s(site)
    texts = ["SET spark.sql.ansi.enabled = true", "SET spark.sql.ansi.enabled = false"]
    site.spark.holds(*texts)
    for text in texts:
        await client.execute(text, settle=False)
    assert source(site, client) is None
    for text in reversed(texts):
        site.spark.operation(text).finish()
    await client.session.settle()
    assert source(site, client) is None


async def test_settings_one_after_the_other_are_known() -> None:
    site = await stage()
    first, second = await in_s(site), await in_s(site)
    for client in (first, second):
        for text in ("SET spark.sql.ansi.enabled = true", "RESET spark.sql.ansi.enabled"):
            await (await client.execute(text)).poll()
    assert source(site, first) is not None
    assert first.session.settings.id == second.session.settings.id
    await (await first.execute("RESET")).poll()
    assert first.session.settings.id != second.session.settings.id


@pytest.mark.parametrize(
    "text",
    [
        "SET VAR a = 1",
        "SET VARIABLE a = rand()",
        "DECLARE a INT DEFAULT 1",
        "DECLARE OR REPLACE VARIABLE a = current_user()",
        "EXECUTE IMMEDIATE 'SET spark.sql.ansi.enabled = true'",
        "BEGIN SET spark.sql.ansi.enabled = true; END",
        "CREATE TEMPORARY VIEW mv AS SELECT 1 AS n",
        "EXECUTE IMMEDIATE 'CREATE TEMPORARY VIEW mv AS SELECT 1 AS n'",
        "BEGIN CREATE TEMPORARY VIEW mv AS SELECT 1 AS n; END",
    ],
)
async def test_what_no_answer_is_known_after(text: str) -> None:
    site = await stage()
    client = await in_s(site)
    await (await client.execute(text)).poll()
    assert source(site, client) is None


async def test_no_answer_is_known_if_the_session_wants_none_from_memory() -> None:
    """Neither one that was kept, nor one from rows in memory."""
    site = await stage()
    client = await in_s(site)
    await (await client.execute("SET freshgate.result_cache = off")).poll()
    assert source(site, client) is not None
    await (await client.execute("SET freshgate.memory = off")).poll()
    assert source(site, client) is None


@pytest.mark.parametrize(
    "text", ["USE other", "SET spark.sql.ansi.enabled = true", "CREATE TEMPORARY VIEW mv AS SELECT 1"]
)
async def test_nothing_is_known_while_it_runs(text: str) -> None:
    site = await stage()
    client = await in_s(site)
    site.spark.holds(text)
    await client.execute(text, settle=False)
    assert source(site, client) is None
    site.spark.operation(text).finish()


async def test_a_database_that_was_chosen_while_a_read_waited() -> None:
    """Spark looks for its names in the new one."""
    site = await stage()
    client = await in_s(site)
    await (await client.execute("USE other")).poll()
    assert source(site, client, database="s") is None


async def test_a_source_ends_with_the_next_change() -> None:
    """The statement may be sent before the read reaches Spark."""
    site = await stage()
    client = await in_s(site)
    found = source(site, client)
    assert found is not None
    await (await client.execute("SET spark.sql.ansi.enabled = true")).poll()
    assert found.changes != client.session.settings.changes


def test_different_configurations_are_different() -> None:
    assert SessionSettings({"a": "b=c"}).id != SessionSettings({"a=b": "c"}).id
    assert SessionSettings({"a": "1", "b": "2"}).id == SessionSettings({"b": "2", "a": "1"}).id


def test_sessions_whose_settings_no_text_tells_differ_from_all_others() -> None:
    """The values may come from variables, and a statement that failed may have had an effect."""
    one, other = SessionSettings({}), SessionSettings({})
    for settings in (one, other):
        settings.note("EXECUTE IMMEDIATE 'SET a=' || x", constant=False)
    assert one.id != other.id
    one, other = SessionSettings({}), SessionSettings({})
    for settings in (one, other):
        settings.note("SET a=1", change="it")
    assert one.id == other.id
    for settings in (one, other):
        settings.ended("it", certainly=False)
    assert one.id != other.id
    one.reopened()
    assert one.id == SessionSettings({}).id
