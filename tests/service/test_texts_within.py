"""What the router makes of texts that hold others, or that Spark reads otherwise than they look."""

from __future__ import annotations

import pytest
from fake_spark import Answer
from fakes import Site

from gateway.errors import StatementFailed

READ = "SELECT n FROM s.mv"


async def stage(**properties: str) -> Site:
    """ada's s.mv, which counts the rows of s.t."""
    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t", properties=properties)
    return site


@pytest.mark.parametrize(
    "text",
    [
        r"EXECUTE IMMEDIATE 'SELECT n FROM\ns.mv'",
        "EXECUTE IMMEDIATE 'SELECT n FROM s./**/mv'",
        "EXECUTE IMMEDIATE 'SELECT n FROM s.m' 'v'",
        r"BEGIN EXECUTE IMMEDIATE 'SELECT n FROM\ts.\155v'; END",
        "SELECT /* /*+ */ n FROM s.mv --*/",
        "SELECT /*+ x('*/') */ n FROM s.mv",
        r"SELECT r'\', n FROM s.mv -- '",
        "\u017felect n from s.mv",
    ],
)
async def test_a_read_is_seen(text: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    site.write("s.t")
    await bob.execute(text)
    assert site.refreshed == ["s.mv"]


@pytest.mark.parametrize(
    "text",
    [
        r"EXECUTE IMMEDIATE 'INSERT INTO\ts.t VALUES (1)'",
        "EXECUTE IMMEDIATE 'INSERT INTO s./**/t VALUES (1)'",
        r"BEGIN EXECUTE IMMEDIATE '\111NSERT INTO s.\164 VALUES (1)'; END",
        r"EXPLAIN EXECUTE IMMEDIATE 'INSERT INTO\ts.t VALUES (1)'",
        "\u0131nsert into s.t values (1)",
        "INSERT /* /*+ */ INTO s.t VALUES (1) --*/",
    ],
)
async def test_a_write_is_seen(text: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    await (await bob.execute(text)).poll()
    await bob.execute(READ)
    assert site.refreshed == ["s.mv"]


@pytest.mark.parametrize(
    "text",
    [
        r"EXECUTE IMMEDIATE 'D\ROP \VIEW s.mv'",
        r"EXECUTE IMMEDIATE 'DROP\nVIEW s./**/mv'",
        "BEGIN /* /*+ */ DROP VIEW s.mv; --*/\nEND",
        "BEGIN DROP V\u0131EW s.mv; END",
        r"BEGIN EXECUTE IMMEDIATE 'U\SE s'; DROP VIEW mv; END",
        "BEGIN EXECUTE IMMEDIATE 'U' || 'SE s'; ALTER VIEW mv AS SELECT 666 n; END",
    ],
)
async def test_a_change_of_a_view_is_refused(text: str) -> None:
    site = await stage()
    mallory = await site.client("mallory")
    refused = await mallory.execute(text)
    assert refused.sqlstate == "42809"
    assert "s.mv" in str(refused.error)


@pytest.mark.parametrize("text", ["u\u017fe s", r"EXECUTE IMMEDIATE 'U\SE s'", "EXECUTE IMMEDIATE 'US' 'E s'"])
async def test_a_chosen_database_is_asked_for_again(text: str) -> None:
    site = await stage()
    mallory = await site.client("mallory")
    await mallory.execute("SELECT 1")
    chosen = await mallory.execute(text)
    await chosen.poll()
    assert mallory.session.namespace is None


async def test_a_cte_hides_a_view_only_where_case_does_not_count() -> None:
    """Whether it does is a setting of the session, by which Spark says what is read."""
    site = await stage(when_stale="INLINE")
    bob = await site.client("bob")
    await (await bob.execute("USE s")).poll()
    site.write("s.t")
    text = "WITH MV AS (SELECT 5 n) SELECT n FROM mv"
    site.spark.answers.say("EXPLAIN EXTENDED", Answer([("== Analyzed Logical Plan ==\nCTE [MV]",)]))
    await bob.execute(text)
    assert site.refreshed == []
    plan = f"== Analyzed Logical Plan ==\nRelation {site.entry('s.mv').view.id}"
    site.spark.answers.say("EXPLAIN EXTENDED", Answer([(plan,)]))
    read = await bob.execute(text)
    assert site.refreshed == ["s.mv"]
    assert read.at_spark.text == text
    site.write("s.t")
    await bob.execute("WITH mv AS (SELECT 5 n) SELECT n FROM mv")
    assert site.refreshed == []


async def test_a_database_whose_name_spark_cannot_tell_is_not_dropped() -> None:
    site = await stage()
    bob = await site.client("bob")
    site.spark.answers.say(r"SELECT \('a'", StatementFailed("No.", sqlstate="42000"))
    refused = await bob.execute("DROP SCHEMA IDENTIFIER('a' || 'b')")
    assert refused.sqlstate == "42000"
    assert site.spark.texts == []
    nothing = await Site().client("bob")
    assert (await nothing.execute("DROP SCHEMA IDENTIFIER('a' || 'b')")).error is None


@pytest.mark.parametrize(
    ("text", "name", "refused"),
    [
        ("DROP SCHEMA IDENTIFIER('a' || 'b')", "ab", False),
        ("DROP SCHEMA IF EXISTS IDENTIFIER('a' || 'b') CASCADE", "s", True),
        ("DROP VIEW IDENTIFIER('a' || 'b')", "s.v", False),
        ("DROP VIEW IDENTIFIER('a' || 'b')", "s.mv", True),
        ("DROP VIEW IDENTIFIER('a' || 'b')", "s.`MV`", True),
        ("ALTER VIEW IDENTIFIER('a' || 'b') AS SELECT 666 n", "s.mv", True),
        ("DROP TABLE IDENTIFIER('a' || 'b')", "s.t", False),
    ],
)
async def test_a_name_that_is_put_together_is_asked_for(text: str, name: str, refused: bool) -> None:
    site = await stage()
    bob = await site.client("bob")
    site.spark.answers.say(r"SELECT \('a'", Answer([(name,)]))
    await bob.execute(text)
    assert (site.spark.texts == []) is refused, "the gateway drops a materialized view itself, if its owner asks"
