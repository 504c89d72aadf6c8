"""Queries on base tables that are answered from a view of which some partitions are stale."""

from __future__ import annotations

import json
from dataclasses import replace

from fake_spark import ERROR, SparkOperation, named
from fakes import Client, Site

from gateway.mv.freshness.drift import Drift
from gateway.mv.rewriting.partly_stale import Mixture
from gateway.mv.rewriting.usage import WhyMissed
from gateway.service.operations.operation import Operation

QUERY = "SELECT item, sum(n) AS s FROM s.sales WHERE day > DATE '2024-01-01' GROUP BY item"
MIXED = "(SELECT * FROM fresh UNION ALL SELECT * FROM anew) AS daily"
COLUMNS = tuple(
    (name, json.dumps({"name": kind})) for name, kind in (("day", "date"), ("item", "string"), ("n", "bigint"))
)


async def stage() -> Site:
    """s.daily answers queries on s.sales, and has become partly stale."""
    site = Site()
    site.table("s.sales", columns=COLUMNS)
    query = "SELECT day, item, sum(n) AS n FROM s.sales GROUP BY day, item"
    await site.view("s.daily", query, properties={"use_for_rewrite": "true"})
    shown = await site.metastore.relation(named("s.daily"))
    assert shown is not None
    site.metastore.add(replace(shown, columns=COLUMNS))
    site.write("s.sales")
    view_id = site.entry("s.daily").view.id
    relation = "(SELECT * FROM fresh UNION ALL SELECT * FROM anew)"
    site.partly_stale.mixtures[view_id] = Mixture(view_id, relation, 2, 30, Drift(), 0)
    return site


async def test_the_stale_rows_are_computed_and_nothing_is_refreshed() -> None:
    site = await stage()
    bob = await site.client("bob")
    operation = await bob.execute(QUERY)
    assert operation.error is None
    assert MIXED in site.spark.texts[-1]
    assert site.spark.texts[-1].startswith("SELECT daily.item, sum(daily.n) AS s FROM (")
    assert "'2024-01-01'" in site.spark.texts[-1]
    assert site.refreshed == []
    assert len(site.partly_stale.prepared) == 1
    assert site.usages.counts.used == 1


async def test_a_fresh_view_is_read_as_it_is() -> None:
    site = await stage()
    bob = await site.client("bob")
    entry = site.entry("s.daily")
    entry.ledger.publish(entry.ledger.events)
    await bob.execute(QUERY)
    assert "FROM `spark_catalog`.`s`.`daily` AS daily" in site.spark.texts[-1]
    assert not site.partly_stale.prepared


async def test_without_a_mixture_the_query_goes_to_spark_as_it_came() -> None:
    site = await stage()
    bob = await site.client("bob")
    site.partly_stale.mixtures.clear()
    await bob.execute(QUERY)
    assert site.spark.texts[-1] == QUERY
    assert site.usages.counts.refused == {WhyMissed.NOT_FRESH: 1}


async def test_the_version_is_kept_until_the_answer_is_closed() -> None:
    site = await stage()
    bob = await site.client("bob")
    operation = await bob.execute(QUERY)
    view_id = site.entry("s.daily").view.id
    assert view_id in site.readers._reads_of
    await operation.close()
    assert view_id not in site.readers._reads_of


async def test_a_write_while_it_runs_makes_the_query_run_as_it_came() -> None:
    """Rows computed anew may show the write, and the view's rows do not. The proof holds: the view is used again."""
    site = await stage()
    bob = await site.client("bob")

    def write(operation: SparkOperation) -> None:
        site.partly_stale.overtaken = MIXED in operation.text

    site.spark.on_start = write
    operation = await bob.execute(QUERY)
    assert operation.error is None
    mixed, own = site.spark.texts[-2:]
    assert MIXED in mixed
    assert own == QUERY
    assert (site.usages.counts.used, site.usages.counts.failed) == (0, 0)
    assert site.usages.counts.refused == {WhyMissed.NOT_FRESH: 1}
    site.spark.on_start = lambda _: None
    await bob.execute(QUERY)
    assert MIXED in site.spark.texts[-1]


async def test_a_failure_makes_the_query_run_as_it_came() -> None:
    site = await stage()
    bob = await site.client("bob")
    site.spark.on_start = lambda operation: operation.finish(ERROR) if MIXED in operation.text else None
    operation = await bob.execute(QUERY)
    assert operation.at_spark.text == QUERY
    assert (site.usages.counts.used, site.usages.counts.failed) == (0, 1)


async def test_explain_shows_what_is_computed_anew() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(f"EXPLAIN {QUERY}")
    assert site.spark.texts[-1].startswith("EXPLAIN SELECT daily.item")
    assert MIXED in site.spark.texts[-1]
    assert await verdicts(bob) == [
        ("CHOSEN", "it is proved to give the same rows; 2 of 30 partitions are stale and are computed anew")
    ]


async def test_a_fresh_view_is_preferred() -> None:
    """It may have more bytes: here both have none, and the first one is stale."""
    site = await stage()
    query = "SELECT day, item, sum(n) AS n, count(*) AS c FROM s.sales GROUP BY day, item"
    await site.view("s.fresh", query, properties={"use_for_rewrite": "true"})
    shown = await site.metastore.relation(named("s.fresh"))
    assert shown is not None
    site.metastore.add(replace(shown, columns=(*COLUMNS, ("c", COLUMNS[2][1]))))
    bob = await site.client("bob")
    await bob.execute(QUERY)
    assert "FROM `spark_catalog`.`s`.`fresh` AS fresh" in site.spark.texts[-1]
    assert await verdicts(bob) == [
        ("CHOSEN", "it is proved to give the same rows, and fresh"),
        ("USABLE", "it would give the same rows, but s.fresh is fresh"),
    ]


async def verdicts(bob: Client) -> list[tuple[str, str]]:
    """Without ages."""
    done = await bob.execute(f"EXPLAIN REWRITE {QUERY}")
    assert done.handle is not None
    operation = bob.session.operations[done.handle.guid]
    assert isinstance(operation, Operation)
    return [(str(verdict), str(reason).partition("; refreshed")[0]) for _, verdict, reason, _ in operation._result.rows]


# --- views that have a part of the rows ------------------------------------------------------------------------

WHOLE = "SELECT item, sum(n) AS s FROM s.sales GROUP BY item"
REST = "AS recent UNION ALL SELECT"


async def stage_with_rest() -> Site:
    """s.recent has the rows of s.sales from a day on."""
    site = Site()
    site.table("s.sales", columns=COLUMNS)
    query = "SELECT day, item, sum(n) AS n FROM s.sales WHERE day >= DATE '2024-01-01' GROUP BY day, item"
    await site.view("s.recent", query, properties={"use_for_rewrite": "true"})
    shown = await site.metastore.relation(named("s.recent"))
    assert shown is not None
    site.metastore.add(replace(shown, columns=COLUMNS))
    view_id = site.entry("s.recent").view.id
    site.partly_stale.rests[view_id] = Mixture(view_id, "s.recent", 0, 0, None, 0)
    return site


async def test_the_rest_of_the_rows_is_read_from_the_base_table() -> None:
    site = await stage_with_rest()
    bob = await site.client("bob")
    operation = await bob.execute(WHOLE)
    assert operation.error is None
    assert REST in site.spark.texts[-1]
    assert len(site.partly_stale.prepared) == 1
    assert site.usages.counts.used == 1


async def test_without_the_setting_the_rest_is_not_read() -> None:
    site = await stage_with_rest()
    site.partly_stale.rests.clear()
    bob = await site.client("bob")
    await bob.execute(WHOLE)
    assert site.spark.texts[-1] == WHOLE


async def test_an_answer_during_which_a_write_begins_is_thrown_away() -> None:
    site = await stage_with_rest()
    bob = await site.client("bob")
    site.partly_stale.overtaken = True
    await bob.execute(WHOLE)
    assert site.spark.texts[-1] == WHOLE
