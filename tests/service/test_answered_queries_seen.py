"""What can be seen of queries that are answered from views which they do not name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fake_spark import ERROR, SparkOperation, named
from fakes import Client, Site

from gateway.monitoring.audit_file import encoded
from gateway.mv.rewriting.usage import WhyMissed
from gateway.service.answers import catalog_tables
from gateway.service.clients.audit import Line
from gateway.service.operations.operation import Operation
from gateway.service.routing import rewrite_explanation
from sql.names import Namespace

QUERY = "SELECT item, sum(n) AS s FROM s.sales GROUP BY item"
OTHER_DAY = "SELECT item, sum(n) AS s FROM s.sales WHERE day = DATE '{}' GROUP BY item"
FROM_VIEW = "FROM `spark_catalog`.`s`.`daily` AS daily"
ENABLED = {"use_for_rewrite": "true"}


def columns_of(**kinds: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, json.dumps({"name": kind})) for name, kind in kinds.items())


async def stage() -> Site:
    """s.daily, which takes part and groups s.sales by day and item; s.total, which does not take part."""
    site = Site()
    site.table("s.sales", columns=columns_of(day="date", item="string", n="bigint"))
    query = "SELECT day, item, sum(n) AS n, count(*) AS c FROM s.sales GROUP BY day, item"
    await site.view("s.daily", query, properties=ENABLED)
    await site.view("s.total", "SELECT sum(n) AS n FROM s.sales")
    await described(site, "s.daily", day="date", item="string", n="bigint", c="bigint")
    return site


async def described(site: Site, view: str, **kinds: str) -> None:
    """Spark describes the view with these columns."""
    shown = await site.metastore.relation(named(view))
    assert shown is not None
    site.metastore.add(replace(shown, columns=columns_of(**kinds)))


async def sent(site: Site, text: str) -> str:
    """What Spark receives in the place of a text."""
    client = await site.client("bob")
    await client.execute(text)
    return site.spark.texts[-1]


async def rewrites(site: Site, user: str) -> list[str]:
    """The rows of freshgate.rewrites that a user sees, as SQL."""
    client = await site.client(user)
    await client.execute("SELECT * FROM freshgate.rewrites")
    found = site.spark.texts[-1]
    assert found.startswith("SELECT * FROM (SELECT CAST(")
    return [] if "WHERE FALSE" in found else found.partition("VALUES (")[2].rpartition(") AS t(")[0].split("), (")


# --- plain EXPLAIN ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["EXPLAIN ", "explain extended ", "EXPLAIN FORMATTED\n", "EXPLAIN /* why */ COST "])
async def test_explain_shows_the_plan_that_would_run(head: str) -> None:
    site = await stage()
    assert FROM_VIEW in (rewritten := await sent(site, QUERY))
    assert await sent(site, head + QUERY) == head + rewritten
    site.write("s.sales")
    assert await sent(site, head + QUERY) == head + QUERY
    assert site.usages.counts.used == 1


async def test_explain_of_anything_else_is_sparks() -> None:
    site = await stage()
    for text in (
        "EXPLAIN",
        "EXPLAIN SELECT rewrite FROM s.sales",
        "EXPLAIN INSERT INTO s.sales SELECT * FROM s.sales",
        "EXPLAIN SELECT n FROM s.sales",
    ):
        assert await sent(site, text) == text


# --- hints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "used"),
    [
        ("NO_REWRITE", False),
        ("NO_REWRITE()", False),
        ("no_use_mv", False),
        ("NO_USE_MV(daily)", False),
        ("NO_USE_MV(`s`.`daily`)", False),
        ("NO_USE_MV(other)", True),
        ("NO_USE_MV(x.daily)", True),
        ("REWRITE", True),
        ("REWRITE(daily)", True),
        ("REWRITE(s.daily)", True),
        ("REWRITE(spark_catalog.s.daily)", True),
        ("USE_MV(S.Daily)", True),
        ("USE_MV(aily)", False),
        ("USE_MV(other)", False),
        ("USE_MV(other, daily)", True),
        ("BROADCAST(sales)", False),
    ],
)
async def test_hints_choose_among_the_views(hint: str, used: bool) -> None:
    site = await stage()
    text = QUERY.replace("SELECT", f"SELECT /*+ {hint} */")
    assert (FROM_VIEW in await sent(site, text)) == used


# --- what is counted -------------------------------------------------------------------------------------------


async def test_hits_and_misses_are_counted_by_reason() -> None:
    site = await stage()
    bob = await site.client("bob")
    for _ in range(3):
        await bob.execute(QUERY)
    site.write("s.sales")
    operation = await bob.execute(QUERY)
    await operation.poll()
    counts = site.usages.counts
    assert (counts.considered, counts.matched, counts.proved, counts.used) == (1, 1, 1, 3)
    assert counts.refused == {WhyMissed.NOT_FRESH: 1}
    (row,) = await rewrites(site, "bob")
    assert row.startswith(
        "'bob', 'default', 'SELECT item , sum ( n ) AS s FROM s . sales GROUP BY item', 's.daily', 3, 1, 'not fresh: 1'"
    )


async def test_users_see_their_own_shapes_without_literals() -> None:
    site = await stage()
    ada, bob = await site.client("ada"), await site.client("bob")
    for day in ("2024-01-01", "2024-01-02"):
        await bob.execute(OTHER_DAY.format(day))
    await ada.execute(QUERY)
    (row,) = await rewrites(site, "bob")
    assert "WHERE day = DATE ? GROUP BY item" in row
    assert "'s.daily', 2, 0" in row
    assert "bob" not in "".join(await rewrites(site, "ada"))
    assert len(await rewrites(site, "root")) == 2
    assert await rewrites(site, "eve") == []


async def test_a_failure_at_spark_counts_as_a_miss() -> None:
    site = await stage()

    def fail(operation: SparkOperation) -> None:
        if FROM_VIEW in operation.text:
            operation.finish(ERROR, "42000")

    site.spark.on_start = fail
    bob = await site.client("bob")
    done = await bob.execute(QUERY)
    assert done.at_spark.text == QUERY
    counts = site.usages.counts
    assert (counts.used, counts.failed, counts.refused) == (0, 1, {WhyMissed.FAILED: 1})


async def test_time_saved_is_estimated_from_both_texts() -> None:
    site = await stage()
    usage = site.usages.of("shape", Namespace("s"), "bob")
    usage.used((named("s.daily"),))
    usage.took(0.1)
    assert usage.saved_seconds is None
    usage.missed(WhyMissed.NOT_FRESH)
    usage.own.add(2.0)
    usage.missed(WhyMissed.NOT_FRESH)
    usage.own.add(4.0)
    usage.used((named("s.daily"),))
    usage.took(0.5)
    assert usage.saved_seconds == pytest.approx(2 * 3.0 - 0.6)
    assert site.usages.counts.saved_seconds == pytest.approx(2.5)
    usage.used((named("s.daily"),))
    usage.took(10.0)
    assert site.usages.counts.saved_seconds == pytest.approx(2.5)


async def test_usage_takes_bounded_space() -> None:
    site = await stage()
    for number in range(300):
        site.usages.of(f"{number}", Namespace("s"), "bob")
    assert len(site.usages.items()) == 100


# --- the audit -------------------------------------------------------------------------------------------------


async def test_the_audit_has_both_texts() -> None:
    site = await stage()
    lines: list[dict[str, object]] = []
    audit = site.service.audit
    audit._write, audit.characters = lambda line, unread=None: lines.append(line), 1_000
    bob = await site.client("bob")
    answered = await bob.execute(QUERY)
    assert lines[-1]["text"] == QUERY
    assert lines[-1]["rewritten"] == answered.at_spark.text
    assert lines[-1]["views"] == ["s.daily"]
    assert lines[-1]["taken_for"] == "read"
    site.write("s.sales")
    await (await bob.execute(QUERY)).poll()
    assert lines[-1]["text"] == QUERY
    assert lines[-1]["reads"] == ["s.sales"]
    assert "rewritten" not in lines[-1]


async def test_the_audit_has_the_text_that_ran_after_a_failure() -> None:
    site = await stage()
    lines: list[dict[str, object]] = []
    audit = site.service.audit
    audit._write, audit.characters = lambda line, unread=None: lines.append(line), 1_000
    site.spark.on_start = lambda operation: operation.finish(ERROR) if FROM_VIEW in operation.text else None
    bob = await site.client("bob")
    await (await bob.execute(QUERY)).poll()
    assert lines[-1]["outcome"] == "succeeded"
    assert lines[-1]["reads"] == ["s.sales"]
    assert "rewritten" not in lines[-1]


def test_a_password_in_either_text_is_redacted() -> None:
    line: Line = {
        "text": "SELECT 'a' AS x WHERE password = 'secret1'",
        "rewritten": "SELECT 1 WHERE password = 'secret1'",
    }
    assert b"secret1" not in encoded(line)


# --- EXPLAIN REWRITE -------------------------------------------------------------------------------------------


async def explained(site: Site, text: str, client: Client | None = None) -> list[tuple[Any, ...]]:
    client = client or await site.client("bob")
    done = await client.execute(f"EXPLAIN REWRITE {text}")
    assert done.error is None
    assert done.handle is not None
    operation = client.session.operations[done.handle.guid]
    assert isinstance(operation, Operation)
    return [tuple(row) for row in operation._result.rows]


async def test_the_chosen_view_has_its_text_laid_out() -> None:
    site = await stage()
    ((view, verdict, reason, text),) = await explained(site, QUERY)
    assert (view, verdict) == ("s.daily", "CHOSEN")
    assert reason.startswith("it is proved to give the same rows, and fresh; refreshed ")
    assert text.split("\n")[1:] == [FROM_VIEW, "GROUP BY daily.item"]
    assert site.usages.counts.used == site.usages.counts.refused.total() == 0


async def test_a_stale_view_says_what_it_misses() -> None:
    site = await stage()
    site.write("s.sales")
    ((view, verdict, reason, text),) = await explained(site, QUERY)
    assert (view, verdict) == ("s.daily", "STALE")
    assert "is stale, for " in reason
    assert FROM_VIEW in text


async def test_what_is_not_proved_shows_the_text() -> None:
    site = await stage()
    site.prover.refuted["s.daily"] = "a column is computed differently"
    ((_, verdict, reason, text),) = await explained(site, QUERY)
    assert (verdict, reason) == ("NOT PROVED", "a column is computed differently")
    assert FROM_VIEW in text


async def test_of_several_views_one_is_chosen() -> None:
    site = await stage()
    await site.view("s.by_item", "SELECT item, sum(n) AS n FROM s.sales GROUP BY item", properties=ENABLED)
    await described(site, "s.by_item", item="string", n="bigint")
    site.table("s.shops", columns=columns_of(item="string"))
    await site.view("s.joined", "SELECT o.item FROM s.sales JOIN s.shops o ON o.item = sales.item", properties=ENABLED)
    rows = await explained(site, QUERY)
    assert [row[1] for row in rows] == ["CHOSEN", "USABLE", "REJECTED"]
    assert rows[1][2] == f"it would give the same rows, but {rows[0][0]} has fewer bytes"
    assert rows[2] == ("s.joined", "REJECTED", "the view reads s.shops, which the query does not name", None)


async def test_a_query_that_no_view_answers_has_reasons() -> None:
    site = await stage()
    ((_, verdict, reason, text),) = await explained(site, "SELECT avg(price) FROM s.sales")
    assert (verdict, text) == ("REJECTED", None)
    assert reason
    ((view, verdict, reason, text),) = await explained(site, "SELECT 1 FROM s.other")
    assert (view, verdict, text) == (None, "REJECTED", None)
    assert "reads a table of the query" in reason
    ((_, verdict, reason, _),) = await explained(site, "INSERT INTO s.x SELECT item FROM s.sales")
    assert (verdict, reason) == ("REJECTED", "it is not a query")


async def test_without_views_that_take_part_it_says_how_to_let_one() -> None:
    site = Site()
    site.table("s.sales")
    ((view, verdict, reason, _),) = await explained(site, QUERY)
    assert (view, verdict) == (None, "REJECTED")
    assert "ENABLE QUERY REWRITE" in reason


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("SET freshgate.rewrite = off", "freshgate.rewrite is off"),
        ("BEGIN", "transaction"),
        ("SET freshgate.snapshot = session", "transaction"),
        ("CREATE TEMPORARY VIEW sales AS SELECT 1 AS n", "temporary view"),
        ("CREATE TEMPORARY FUNCTION sum AS 'x.Y'", "temporary view or function"),
    ],
)
async def test_a_session_may_rule_out_every_view(before: str, reason: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    await (await bob.execute(before)).poll()
    ((view, verdict, said, text),) = await explained(site, QUERY, bob)
    assert (view, verdict, text) == ("s.daily", "REJECTED", None)
    assert reason in said


async def test_a_hint_that_excludes_the_view_is_the_reason() -> None:
    site = await stage()
    ((_, verdict, reason, _),) = await explained(site, QUERY.replace("SELECT", "SELECT /*+ NO_USE_MV(daily) */"))
    assert (verdict, reason) == ("REJECTED", "a hint of the query excludes the view")


async def test_a_proof_that_takes_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    site = await stage()
    monkeypatch.setattr(rewrite_explanation, "CONSIDERED_SECONDS", 0.01)
    site.prover.ready.clear()
    ((_, verdict, reason, _),) = await explained(site, QUERY)
    assert (verdict, reason) == ("CONSIDERING", "no outcome within 0.01 s; ask again")
    site.prover.ready.set()
    monkeypatch.setattr(rewrite_explanation, "CONSIDERED_SECONDS", 30.0)
    ((_, verdict, _, _),) = await explained(site, QUERY)
    assert verdict == "CHOSEN"


async def test_the_shapes_used_last_are_listed_first_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    site = await stage()
    for number in range(5):
        site.usages.of(f"SELECT {number}", Namespace("s"), "bob").missed(WhyMissed.NO_VIEW)
    site.usages.of("SELECT 1", Namespace("s"), "bob")
    monkeypatch.setattr(catalog_tables, "REWRITE_ROWS_MAX", 3)
    found = await rewrites(site, "bob")
    assert ["SELECT 1" in found[0], "SELECT 4" in found[1], "SELECT 3" in found[2], len(found)] == [True, True, True, 3]
    monkeypatch.setattr(catalog_tables, "REWRITE_CHARACTERS_MAX", len("SELECT 1"))
    assert len(await rewrites(site, "bob")) == 1


@pytest.mark.parametrize(
    ("consistency", "verdict", "reason"),
    [
        ("off", "CHOSEN", "stale, which its rewrite_consistency allows"),
        ("loose", "CHOSEN", "stale, within its grace period"),
        ("checked", "STALE", "would give the same rows if it were fresh"),
    ],
)
async def test_how_fresh_the_view_must_be_shows(consistency: str, verdict: str, reason: str) -> None:
    site = Site()
    site.table("s.sales", columns=columns_of(day="date", item="string", n="bigint"))
    query = "SELECT item, sum(n) AS n FROM s.sales GROUP BY item"
    settings = {"rewrite_consistency": consistency, "grace_period": "3600" if consistency == "loose" else "0"}
    await site.view("s.daily", query, properties={**ENABLED, **settings})
    await described(site, "s.daily", item="string", n="bigint")
    site.write("s.sales")
    ((_, word, said, _),) = await explained(site, QUERY)
    assert (word, reason in said) == (verdict, True), said
