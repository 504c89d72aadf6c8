"""What proofs of rewritten queries depend on: tables that no view names, other views, and changes of both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_spark import named
from fakes import Client, Site
from service.test_rewrites import DEFINITION, INSERT, QUERY, add_view, sent, stage
from views import given

from gateway.config import Rewrite
from gateway.mv.model.view import Schema
from gateway.mv.observation import schemas

JOINED = "SELECT t.k, count(*) AS n FROM s.t JOIN o.d ON t.k = d.k WHERE d.x > 1 GROUP BY t.k"
DIMENSION = (("k", '{"name": "string"}'), ("x", '{"name": "int"}'))
AT_ONCE = Rewrite(canary=0)
"""No query waits for a proof."""


async def considered(site: Site) -> None:
    """Waits for the shapes that are being considered."""
    await site.rewrites._background.finish(10)


async def test_a_query_that_joins_a_table_of_no_view_is_answered() -> None:
    site = await stage()
    site.table("o.d", columns=DIMENSION)
    bob = await site.client("bob")
    await bob.execute(JOINED)
    assert sent(site) == ["mv"]
    assert "o.d" in site.spark.texts[-1].replace("`", "")


async def test_a_query_that_joins_a_spark_view_of_no_view_is_answered() -> None:
    site = await stage()
    site.table("o.e", columns=DIMENSION)
    site.spark_view("o.d", "SELECT * FROM o.e", columns=DIMENSION)
    bob = await site.client("bob")
    await bob.execute(JOINED)
    assert sent(site) == ["mv"]
    await bob.execute("ALTER TABLE o.e DROP COLUMN x")
    await bob.execute(JOINED)
    assert site.prover.asked == 2


async def test_the_columns_of_a_table_are_asked_for_once() -> None:
    site = await stage()
    site.table("o.d", columns=DIMENSION)
    bob = await site.client("bob")
    for condition in ("d.x > 1", "d.x < t.k", "d.x IS NULL"):
        await bob.execute(JOINED.replace("d.x > 1", condition))
    assert sent(site) == ["mv", "mv", "mv"]
    assert site.metastore.asked.count(("relation", named("o.d"))) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE o.d ADD COLUMN y INT",
        "DROP TABLE o.d",
        "CREATE OR REPLACE TABLE o.d (k STRING, y INT)",
        "DROP DATABASE o CASCADE",
        "EXECUTE IMMEDIATE 'ALTER TABLE IDENTIFIER(:t) ADD COLUMN y INT' USING 'o.d' AS t",
        "BEGIN ALTER TABLE o.d ADD COLUMN y INT; END",
    ],
)
async def test_a_changed_table_of_no_view_ends_the_proof_at_once(statement: str) -> None:
    site = await stage()
    site.table("o.d", columns=DIMENSION)
    bob = await site.client("bob")
    await bob.execute(JOINED)
    site.table("o.d", columns=(DIMENSION[0], ("y", '{"name": "int"}')))
    await bob.execute(statement)
    await bob.execute(JOINED)
    site.ledger("s.mv").publish(site.ledger("s.mv").events)
    await bob.execute(JOINED.replace("d.x", "d.y"))
    assert sent(site) == ["mv", "t", "mv"]


async def test_a_statement_about_other_tables_ends_no_proof() -> None:
    site = await stage()
    site.table("o.d", columns=DIMENSION)
    bob = await site.client("bob")
    await bob.execute(JOINED)
    await bob.execute("CREATE TABLE o.other AS SELECT k, count(*) FROM o.unrelated GROUP BY k")
    await bob.execute("DROP VIEW IF EXISTS o.another")
    await bob.execute(JOINED)
    assert sent(site) == ["mv", "mv"]
    assert site.prover.asked == 1


async def test_a_table_that_was_changed_without_the_gateway_is_seen_when_its_columns_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = await stage()
    site.table("o.d", columns=DIMENSION)
    bob = await site.client("bob")
    await bob.execute(JOINED)
    site.table("o.d", columns=(("k", '{"name": "string"}'),))
    await bob.execute(JOINED)
    assert site.prover.asked == 1
    monkeypatch.setattr(site.schemas, "_interval", 0.0)
    await bob.execute(JOINED)
    await considered(site)
    monkeypatch.setattr(site.schemas, "_interval", 60.0)
    await bob.execute(JOINED)
    assert sent(site) == ["mv", "mv", "mv", "t"]


async def test_no_more_schemas_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "KNOWN_MAX", 10)
    site = Site()
    names = [named(f"s.t{number}") for number in range(30)]
    for name in names:
        site.table(str(name), columns=DIMENSION)
    await site.schemas.of(names)
    assert [name for name in names if not site.schemas.outdated(name)] == names[-10:]


# --- views that come and go --------------------------------------------------------------------------------


async def test_views_of_other_tables_end_no_proof() -> None:
    site = await stage()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    site.table("o.u", columns=DIMENSION)
    await site.view("o.mv", "SELECT x, count(*) AS n FROM o.u GROUP BY x", properties={"use_for_rewrite": "true"})
    await site.view("o.aside", DEFINITION)
    site.catalog.rename({named("o.later"): site.entry("o.mv")})
    site.catalog.remove(site.entry("o.later"))
    await bob.execute(QUERY)
    await considered(site)
    assert sent(site) == ["mv", "mv"]
    assert site.prover.asked == 1


async def proving() -> tuple[Site, Client]:
    """A site in which a proof for Bob's query is under way."""
    site = await stage(AT_ONCE)
    site.prover.ready.clear()
    bob = await site.client("bob")
    await bob.execute(QUERY)
    while not site.prover.asked:
        await site.settlement.look(site.entry("s.mv"))
    return site, bob


async def test_a_view_of_another_table_that_is_created_meanwhile_ends_no_proof_under_way() -> None:
    site, bob = await proving()
    await site.view("o.mv", "SELECT x, count(*) AS n FROM o.u GROUP BY x", properties={"use_for_rewrite": "true"})
    site.prover.ready.set()
    await considered(site)
    await bob.execute(QUERY)
    assert sent(site) == ["t", "mv"]
    assert site.prover.asked == 1


async def test_a_change_of_the_table_ends_a_proof_under_way() -> None:
    site, bob = await proving()
    carl = await site.client("carl")
    await carl.execute("ALTER TABLE s.t ADD COLUMN x INT")
    site.ledger("s.mv").publish(site.ledger("s.mv").events)
    site.prover.ready.set()
    await considered(site)
    await bob.execute(QUERY)
    assert sent(site) == ["t", "t"]


async def test_old_answers_are_used_until_a_new_view_of_the_table_was_considered() -> None:
    site = await stage(AT_ONCE)
    bob = await site.client("bob")
    await bob.execute(QUERY)
    await considered(site)
    await add_view(site, "s.mv2", use_for_rewrite="true")
    site.prover.ready.clear()
    await bob.execute(QUERY)
    await bob.execute(QUERY)
    assert sent(site) == ["t", "mv", "mv"]
    site.prover.ready.set()
    await considered(site)
    await (await bob.execute(INSERT)).poll()
    site.ledger("s.mv2").publish(site.ledger("s.mv2").events)
    await bob.execute(QUERY)
    assert "`mv2`" in site.spark.texts[-1]


async def test_a_proof_does_not_outlive_the_properties_of_its_view() -> None:
    """A view that holds only its newest partitions has fewer rows than its definition."""
    site = await stage(AT_ONCE)
    bob = await site.client("bob")
    await bob.execute(QUERY)
    await considered(site)
    entry = site.entry("s.mv")
    async with entry.lock:
        after = replace(entry.view, properties={**entry.view.properties, "partition_sync_limit": "3"})
        entry.alter(after, rewritten=False, watches_others=False)
    site.prover.refuted["s.mv"] = "it holds only its newest partitions"
    await bob.execute(QUERY)
    await considered(site)
    await bob.execute(QUERY)
    assert sent(site) == ["t", "t", "t"]


async def test_a_view_that_was_refused_is_considered_again_after_a_refresh_of_other_tables() -> None:
    """Its base table was dropped and created with other columns, and considered before the refresh."""
    site = await stage(AT_ONCE)
    site.prover.refuted["s.mv"] = "the types differ"
    bob = await site.client("bob")
    await bob.execute(QUERY)
    await considered(site)
    site.prover.refuted.clear()
    await bob.execute(QUERY)
    await considered(site)
    seen = Schema("", (("k", '{"name": "string"}'),))
    assert site.entry("s.mv").view.schemas != {named("s.t"): seen}
    given(site.entry("s.mv"), schemas={named("s.t"): seen})
    await bob.execute(QUERY)
    await considered(site)
    await bob.execute(QUERY)
    assert sent(site) == ["t", "t", "t", "mv"]
    assert site.prover.asked == 2


async def test_a_view_that_is_dropped_and_created_with_other_columns_answers_at_once() -> None:
    """Spark's description of the dropped view, which is kept for a while, has nothing to do with the new one."""
    site = await stage(AT_ONCE)
    bob = await site.client("bob")
    await bob.execute(QUERY)
    await considered(site)
    site.catalog.remove(site.entry("s.mv"))
    view = await site.view(
        "s.mv", "SELECT k, max(k) AS m, count(*) AS n FROM s.t GROUP BY k", properties={"use_for_rewrite": "true"}
    )
    given(site.entry("s.mv"), columns=("k", "m", "n"))
    columns = tuple((name, '{"name": "string"}') for name in ("k", "m", "n"))
    site.metastore.relations[view.name] = replace(site.metastore.relations[view.name], columns=columns)
    await bob.execute(QUERY)
    await considered(site)
    await bob.execute(QUERY)
    assert sent(site) == ["t", "t", "mv"]
