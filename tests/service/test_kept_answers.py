"""What ends answers in memory, or keeps a session from them: with fakes of Spark and its metastore."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from fakes import Executed, Site

from gateway.errors import StatementFailed

READ = "SELECT n FROM s.mv"


async def stage() -> Site:
    site = Site(result_bytes=1 << 24)
    site.habits.collects_whole = True
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    site.spark.value = lambda _: 1
    return site


CHANGING = [
    "GRANT SELECT ON s.mv TO bob",
    "REVOKE SELECT ON s.mv FROM bob",
    "DENY SELECT ON s.mv TO bob",
    "DROP ROLE readers",
    "CREATE ROLE readers",
    "SET ROLE readers",
    "ALTER ROLE readers DROP bob",
    "ALTER TABLE s.t SET OWNER TO eve",
    "ALTER DATABASE s OWNER TO eve",
    "ALTER TABLE s.t SET ROW FILTER f ON (a)",
    "ALTER TABLE s.t ALTER COLUMN a SET MASK f",
    "DROP POLICY p ON s.t",
    "EXECUTE IMMEDIATE 'REVO' || 'KE SELECT ON s.mv FROM bob'",
    "BEGIN REVOKE SELECT ON s.mv FROM bob; END",
    "BEGIN EXECUTE IMMEDIATE 'DROP RO' || 'LE readers'; END",
    "label: BEGIN REVOKE SELECT ON s.mv FROM bob; END",
    "/* c */ drop /* d */ role readers",
    "EXPLAIN EXECUTE IMMEDIATE 'DROP ROLE readers'",
    "UNDO RIGHTS ON s.mv OF bob",
    "CREATE USER eve",
    "CREATE GROUP readers",
    "CREATE POLICY p ON s.t AS SELECT 1",
    "CREATE ROW FILTER f ON s.t AS SELECT 1",
    "CREATE ROLE view AS SELECT 1",
    "CREATE TABLE s.new (a INT MASK f)",
    "CREATE TABLE s.new (a INT) WITH ROW FILTER f ON (a)",
    "CREATE TABLE s.new USING parquet OWNER eve AS SELECT 1 AS a",
    "CREATE VIEW s.v OWNER eve AS SELECT 1 AS a",
    "CREATE VIEW s.v AS SELECT 1 AS user; REVOKE SELECT ON s.mv FROM bob",
    "CREATE DATABASE new OWNER eve",
    "ALTER VIEW s.v OWNER TO eve",
    "ALTER VIEW s.v AS SELECT 1; SET ROLE admin",
    "EXPLAIN ANALYZE DROP ROLE readers",
    "EXPLAIN SET ROLE admin",
]
HARMLESS = [
    "SELECT 1 AS role",
    "INSERT INTO s.other SELECT 'owner' AS role",
    "CREATE TABLE s.other (a INT)",
    "DROP TABLE s.other",
    "ALTER TABLE s.other ADD COLUMNS (b INT)",
    "BEGIN SELECT 1; END",
    "SET spark.sql.shuffle.partitions = 3",
    "SHOW ROLES",
    "OPTIMIZE s.other",
    "CREATE TABLE s.new AS SELECT sum(a) FILTER (WHERE a > 1) AS owner FROM s.other",
    "CREATE OR REPLACE VIEW s.v AS SELECT user, `role`, 'x' AS owner FROM s.other",
    "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT a AS user FROM s.other",
    "CREATE TABLE IF NOT EXISTS s.new (user STRING, role STRING) USING parquet PARTITIONED BY (role)",
    "CREATE TABLE s.new (a INT) TBLPROPERTIES (owner = 'eve')",
    "CREATE FUNCTION s.f(owner STRING) RETURNS STRING RETURN owner",
    "CREATE DATABASE new COMMENT 'of this user'",
    "ALTER VIEW s.v AS SELECT a AS user FROM s.other",
    "EXPLAIN SELECT a AS owner FROM s.other",
    "EXPLAIN EXTENDED WITH user AS (SELECT 1) SELECT * FROM user",
]


async def kept(site: Site, user: str = "bob") -> int:
    """How many results are in memory after a read."""
    client = await site.client(user)
    read = await client.execute(READ)
    await read.poll()
    return len(site.results)


@pytest.mark.parametrize("text", CHANGING)
async def test_what_may_change_rights_ends_all_answers(text: str) -> None:
    site = await stage()
    site.spark.holds(text)
    assert await kept(site) == 1
    ada = await site.client()
    change = await ada.execute(text)
    assert len(site.results) == 0
    assert await kept(site) == 0, "It runs."
    change.at_spark.finish()
    await change.poll()
    assert await kept(site) == 1


async def test_a_change_of_rights_whose_client_leaves_has_ended() -> None:
    site = await stage()
    ada = await site.client()
    change = await ada.execute("REVOKE SELECT ON s.mv FROM bob")
    await change.close()
    assert await kept(site) == 1


async def test_a_refused_change_of_rights_ends_nothing_for_long() -> None:
    site = await stage()
    site.spark.refusal = StatementFailed("no", "42000")
    ada = await site.client()
    await ada.execute("DROP ROLE readers")
    site.spark.refusal = None
    assert await kept(site) == 1


@pytest.mark.parametrize("text", HARMLESS)
async def test_what_changes_no_rights_leaves_them(text: str) -> None:
    site = await stage()
    site.table("s.other")
    assert await kept(site) == 1
    ada = await site.client()
    await ada.execute(text)
    assert len(site.results) == 1


async def test_users_share_nothing_also_if_they_differ_in_case() -> None:
    site = await stage()
    for count, user in enumerate(("bob", "Bob", "eve", "BOB"), start=1):
        assert await kept(site, user) == count
    assert await kept(site, "bob") == 4


# --- settings ------------------------------------------------------------------------------------------


async def test_two_settings_at_once_tell_nothing() -> None:
    """Spark may run them in either order, and another session's in the other one."""
    site = await stage()
    texts = [f"SET spark.sql.session.timeZone = {zone}" for zone in ("Asia/Tokyo", "UTC")]
    site.spark.holds(*texts)
    bob = await site.client("bob")
    both = [await bob.execute(text) for text in texts]
    for each in reversed(both):
        each.at_spark.finish()
        await each.poll()
    read = await bob.execute(READ)
    await read.poll()
    assert len(site.results) == 0


async def test_settings_one_after_the_other_are_known() -> None:
    site = await stage()
    for _ in range(2):
        bob = await site.client("bob")
        for zone in ("Asia/Tokyo", "UTC"):
            await (await bob.execute(f"SET spark.sql.session.timeZone = {zone}")).poll()
        await (await bob.execute(READ)).poll()
        assert len(site.results) == 1
    assert site.results.counts.hits == 1


async def test_nothing_is_kept_if_sessions_of_spark_share_their_settings() -> None:
    """As with an incremental collection."""
    site = Site(result_bytes=1 << 24)
    assert not site.habits.collects_whole
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    site.spark.value = lambda _: 1
    assert await kept(site) == 0


OPAQUE = [
    "EXECUTE IMMEDIATE 'SET spark.sql.ansi.enabled = false'",
    "BEGIN SET spark.sql.ansi.enabled = false; END",
    "SET VARIABLE x = 1",
    "DECLARE x INT",
]


@pytest.mark.parametrize("text", OPAQUE)
async def test_a_session_with_settings_that_no_text_tells_has_no_answers_in_memory(text: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    await (await bob.execute(text)).poll()
    await (await bob.execute(READ)).poll()
    assert len(site.results) == 0


async def test_sessions_opened_with_other_settings_share_nothing() -> None:
    site = await stage()
    for zone in ("UTC", "Asia/Tokyo"):
        bob = await site.client("bob", {"set:hiveconf:spark.sql.session.timeZone": zone})
        await (await bob.execute(READ)).poll()
    assert len(site.results) == 2


RUNNING = ["SET a = 1", "RESET", "USE other", "CREATE TEMPORARY VIEW mv AS SELECT 1 AS n", "DECLARE n INT"]


@pytest.mark.parametrize("text", RUNNING)
async def test_a_read_beside_what_changes_its_meaning_is_not_kept(text: str) -> None:
    """Whether the read comes first or second."""
    site = await stage()
    site.spark.holds(text, READ)
    bob = await site.client("bob")
    read = await bob.execute(READ, settle=False)
    await until(lambda: READ in site.spark.texts)
    change = await bob.execute(text, settle=False)
    site.spark.operation(READ).finish()
    await (await settled(read)).poll()
    assert len(site.results) == 0
    again = await bob.execute(READ, settle=False)
    await until(lambda: site.spark.texts.count(READ) == 2)
    site.spark.operation(READ).finish()
    await (await settled(again)).poll()
    assert len(site.results) == 0
    site.spark.operation(text).finish()
    await change.poll()


async def test_an_answer_is_given_again_once_it_is_certain_that_this_gateway_leads() -> None:
    site = await stage()
    assert await kept(site) == 1
    site.fence.is_sure_now = False
    assert await kept(site) == 1
    assert site.fence.checks == 1
    assert site.spark.texts.count(READ) == 1


async def test_spark_answers_if_another_gateway_may_have_published() -> None:
    site = await stage()
    assert await kept(site) == 1
    site.fence.lost = "Another gateway leads."
    await kept(site)
    assert site.spark.texts.count(READ) == 2


@pytest.mark.parametrize("how", ["close", "cancel", "disconnect"])
async def test_others_wait_on_when_the_first_of_equal_reads_leaves(how: str) -> None:
    """Spark runs the statement once more, for all of them."""
    site = await stage()
    site.spark.holds(READ)
    clients = [await site.client("bob") for _ in range(4)]
    first, *others = [await client.execute(READ, settle=False) for client in clients]
    await until(lambda: site.spark.texts.count(READ) == 1)
    if how == "disconnect":
        if (cleaning := first.client.dispatch.client_lost()) is not None:
            await cleaning
    else:
        await getattr(first, how)()
    await until(lambda: site.spark.texts.count(READ) == 2)
    site.spark.operation(READ).finish()
    for each in others:
        await (await settled(each)).poll()
    assert site.spark.texts.count(READ) == 2
    assert site.results.counts.shared == 2
    assert [sum("an equal query has just run" in line for line in each.log) for each in others] == [0, 1, 1]


async def settled(executed: Executed) -> Executed:
    assert executed.handle is not None
    operation = executed.client.session.operations[executed.handle.guid]
    if (waiting := getattr(operation, "settle", None)) is not None:
        await waiting()
    return executed


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)
