"""freshgate.suggested_views: for which queries views are suggested, and to whom."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fake_spark import ERROR, Answer, named
from fakes import Site

from gateway.config import Rewrite
from gateway.mv.rewriting.unanswered import CHARACTERS_MAX
from sql.names import Namespace

BY_ITEM = "SELECT item, sum(n) AS s FROM s.sales WHERE day >= DATE '2024-01-0{}' GROUP BY item"
BY_DAY = "SELECT day, count(*) AS c FROM s.sales WHERE item = 'secret' GROUP BY day"
SUGGESTED = "SELECT item, day, count(*) AS row_count, sum(n) AS sum_n FROM s.sales GROUP BY item, day"


def columns_of(**kinds: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, f'{{"name": "{kind}"}}') for name, kind in kinds.items())


def stage(counted: int = 10) -> Site:
    site = Site(Rewrite(advice=counted > 0, wait=10), counted=counted)
    site.table("s.sales", columns=columns_of(day="date", item="string", n="bigint"))
    site.metastore.answers.say("^DESCRIBE TABLE EXTENDED .* AS JSON$", Answer([('{"statistics": {"num_rows": 100}}',)]))
    return site


async def run(site: Site, user: str, *texts: str) -> None:
    client = await site.client(user)
    for text in texts:
        operation = await client.execute(text)
        await operation.poll()


async def suggested(site: Site, user: str, columns: str = "*") -> str:
    """The rows that a user sees, as SQL; empty if there are none."""
    await run(site, user, f"SELECT {columns} FROM freshgate.suggested_views")
    found = site.spark.texts[-1]
    assert found.startswith(f"SELECT {columns} FROM (SELECT CAST(")
    return "" if "WHERE FALSE" in found else found.partition("VALUES ")[2].rpartition(" AS t(")[0]


async def test_a_view_is_suggested_for_queries_that_no_view_answered() -> None:
    site = stage()
    await run(site, "bob", BY_ITEM.format(1), BY_ITEM.format(2), BY_DAY)
    shown = await suggested(site, "bob")
    # The columns of the query that took longest come first.
    assert re.match(
        r"\('s', '(sales_by_item_day|sales_by_day_item)', 'CREATE MATERIALIZED VIEW s\.\1 ENABLE QUERY REWRITE AS ",
        shown,
    )
    assert re.search(r"sum\(n\) AS sum_n FROM s\.sales GROUP BY (item, day|day, item)', 2, 3, ", shown)
    assert "'bob'" in shown
    assert "'s.sales', 100, NULL" in shown
    assert "secret" not in shown


async def test_users_see_suggestions_for_their_own_queries() -> None:
    site = stage()
    await run(site, "bob", BY_ITEM.format(1))
    await run(site, "eve", BY_DAY)
    assert await suggested(site, "mallory") == ""
    assert "sum_n" in await suggested(site, "bob")
    assert "sum_n" not in (eves := await suggested(site, "eve"))
    assert "'eve'" in eves
    everybody = await suggested(site, "root")
    assert "GROUP BY item, day', 2, 2, " in everybody or "GROUP BY day, item', 2, 2, " in everybody
    assert "'bob, eve'" in everybody


async def test_nothing_is_counted_without_the_setting() -> None:
    site = stage(counted=0)
    await run(site, "bob", BY_ITEM.format(1))
    assert site.unanswered.items() == []
    assert await suggested(site, "bob") == ""


async def test_what_is_counted_in_bounded_space() -> None:
    site = stage(counted=2)
    await run(site, "bob", *(f"SELECT item AS i{number}, count(*) FROM s.sales GROUP BY item" for number in range(4)))
    assert [asked.shape[15:17] for asked, _ in site.unanswered.items()] == ["i2", "i3"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT item FROM s.sales",
        "SHOW TABLES",
        "INSERT INTO s.other SELECT count(*) FROM s.sales",
        f"SELECT count(*) FROM s.sales WHERE item = '{'x' * CHARACTERS_MAX}'",
        "EXPLAIN SELECT count(*) FROM s.sales",
        "SELECT count(*) FROM freshgate.rewrites",
        "SELECT count(*) FROM s.daily",
    ],
)
async def test_other_statements_are_not_counted(text: str) -> None:
    site = stage()
    await site.view("s.daily", "SELECT day, count(*) AS c FROM s.sales GROUP BY day")
    await run(site, "bob", text)
    assert site.unanswered.items() == []


async def test_failed_queries_and_those_on_temporary_views_are_not_counted() -> None:
    site = stage()
    site.spark.on_start = lambda operation: operation.finish(ERROR, "42000")
    await run(site, "bob", BY_DAY)
    site.spark.on_start = lambda _: None
    await run(
        site, "bob", "CREATE TEMPORARY VIEW sales AS SELECT 1 AS day", "SELECT day, count(*) FROM sales GROUP BY day"
    )
    assert site.unanswered.items() == []


async def test_the_namespace_is_asked_for_after_it_may_have_changed() -> None:
    site = stage()
    site.spark.answers.say("^SELECT current_catalog", Answer([("spark_catalog", "s")]))
    await run(site, "bob", "USE s", "SELECT item, count(*) AS c FROM sales GROUP BY item")
    ((asked, runs),) = site.unanswered.items()
    assert (asked.namespace, runs.count) == (Namespace("s"), 1)


async def test_queries_that_a_view_answers_get_no_suggestion() -> None:
    site = stage()
    await run(site, "bob", BY_ITEM.format(1), BY_DAY)
    await site.view("s.mine", SUGGESTED, properties={"use_for_rewrite": "true"})
    shown = await site.metastore.relation(named("s.mine"))
    assert shown is not None
    kinds = columns_of(item="string", day="date", row_count="bigint", sum_n="bigint")
    site.metastore.add(replace(shown, columns=kinds))
    assert await suggested(site, "bob") == ""


async def test_a_suggested_view_answers_as_soon_as_it_exists() -> None:
    site = stage()
    await run(site, "bob", BY_ITEM.format(1))
    assert "'sales_by_item_day'" in await suggested(site, "bob")
    await site.view("s.sales_by_item_day", SUGGESTED, properties={"use_for_rewrite": "true"})
    shown = await site.metastore.relation(named("s.sales_by_item_day"))
    assert shown is not None
    kinds = columns_of(item="string", day="date", row_count="bigint", sum_n="bigint")
    site.metastore.add(replace(shown, columns=kinds))
    await run(site, "bob", BY_ITEM.format(1))
    assert "FROM `spark_catalog`.`s`.`sales_by_item_day`" in site.spark.texts[-1]


async def test_a_suggestion_has_a_free_name() -> None:
    site = stage()
    site.table("s.sales_by_item_day", columns=columns_of(x="int"))
    await run(site, "bob", BY_ITEM.format(1))
    assert "'sales_by_item_day_2'" in await suggested(site, "bob")
