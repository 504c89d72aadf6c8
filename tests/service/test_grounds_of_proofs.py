"""What proofs of rewritten queries depend on: tables that no view names, other views, and changes of both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import Client, World, named
from views import given

from gateway.config import Rewrite
from gateway.mv.model.view import Schema
from gateway.mv.observation import schemas
from tests.service.test_rewrites import DEFINITION, INSERT, QUERY, add_view, sent, stage

JOINED = "SELECT t.k, count(*) AS n FROM s.t JOIN o.d ON t.k = d.k WHERE d.x > 1 GROUP BY t.k"
DIMENSION = (("k", '{"name": "string"}'), ("x", '{"name": "int"}'))
AT_ONCE = Rewrite(canary=0)
"""No query waits for a proof."""


async def considered(world: World) -> None:
    """Waits for the shapes that are being considered."""
    await world.rewrites._background.finish(10)


async def test_a_query_that_joins_a_table_of_no_view_is_answered() -> None:
    world = await stage()
    world.table("o.d", columns=DIMENSION)
    bob = await world.client("bob")
    await bob.execute(JOINED)
    assert sent(world) == ["mv"]
    assert "o.d" in world.spark.texts[-1].replace("`", "")


async def test_a_query_that_joins_a_spark_view_of_no_view_is_answered() -> None:
    world = await stage()
    world.table("o.e", columns=DIMENSION)
    world.spark_view("o.d", "SELECT * FROM o.e", columns=DIMENSION)
    bob = await world.client("bob")
    await bob.execute(JOINED)
    assert sent(world) == ["mv"]
    await bob.execute("ALTER TABLE o.e DROP COLUMN x")
    await bob.execute(JOINED)
    assert world.prover.asked == 2


async def test_the_columns_of_a_table_are_asked_for_once() -> None:
    world = await stage()
    world.table("o.d", columns=DIMENSION)
    bob = await world.client("bob")
    for condition in ("d.x > 1", "d.x < t.k", "d.x IS NULL"):
        await bob.execute(JOINED.replace("d.x > 1", condition))
    assert sent(world) == ["mv", "mv", "mv"]
    assert world.metastore.asked.count(("relation", named("o.d"))) == 1


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
    world = await stage()
    world.table("o.d", columns=DIMENSION)
    bob = await world.client("bob")
    await bob.execute(JOINED)
    world.table("o.d", columns=(DIMENSION[0], ("y", '{"name": "int"}')))
    await bob.execute(statement)
    await bob.execute(JOINED)
    world.ledger("s.mv").publish(world.ledger("s.mv").events)
    await bob.execute(JOINED.replace("d.x", "d.y"))
    assert sent(world) == ["mv", "t", "mv"]


async def test_a_statement_about_other_tables_ends_no_proof() -> None:
    world = await stage()
    world.table("o.d", columns=DIMENSION)
    bob = await world.client("bob")
    await bob.execute(JOINED)
    await bob.execute("CREATE TABLE o.other AS SELECT k, count(*) FROM o.unrelated GROUP BY k")
    await bob.execute("DROP VIEW IF EXISTS o.another")
    await bob.execute(JOINED)
    assert sent(world) == ["mv", "mv"]
    assert world.prover.asked == 1


async def test_a_table_that_was_changed_without_the_gateway_is_seen_when_its_columns_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await stage()
    world.table("o.d", columns=DIMENSION)
    bob = await world.client("bob")
    await bob.execute(JOINED)
    world.table("o.d", columns=(("k", '{"name": "string"}'),))
    await bob.execute(JOINED)
    assert world.prover.asked == 1
    monkeypatch.setattr(world.schemas, "_interval", 0.0)
    await bob.execute(JOINED)
    await considered(world)
    monkeypatch.setattr(world.schemas, "_interval", 60.0)
    await bob.execute(JOINED)
    assert sent(world) == ["mv", "mv", "mv", "t"]


async def test_no_more_schemas_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "KNOWN_MAX", 10)
    world = World()
    names = [named(f"s.t{number}") for number in range(30)]
    for name in names:
        world.table(str(name), columns=DIMENSION)
    await world.schemas.of(names)
    assert [name for name in names if not world.schemas.outdated(name)] == names[-10:]


# --- views that come and go --------------------------------------------------------------------------------


async def test_views_of_other_tables_end_no_proof() -> None:
    world = await stage()
    bob = await world.client("bob")
    await bob.execute(QUERY)
    world.table("o.u", columns=DIMENSION)
    await world.view("o.mv", "SELECT x, count(*) AS n FROM o.u GROUP BY x", use_for_rewrite="true")
    await world.view("o.aside", DEFINITION)
    world.catalog.rename({named("o.later"): world.entry("o.mv")})
    world.catalog.remove(world.entry("o.later"))
    await bob.execute(QUERY)
    await considered(world)
    assert sent(world) == ["mv", "mv"]
    assert world.prover.asked == 1


async def proving() -> tuple[World, Client]:
    """A world in which a proof for Bob's query is under way."""
    world = await stage(AT_ONCE)
    world.prover.ready.clear()
    bob = await world.client("bob")
    await bob.execute(QUERY)
    while not world.prover.asked:
        await world.settlement.look(world.entry("s.mv"))
    return world, bob


async def test_a_view_of_another_table_that_is_created_meanwhile_ends_no_proof_under_way() -> None:
    world, bob = await proving()
    await world.view("o.mv", "SELECT x, count(*) AS n FROM o.u GROUP BY x", use_for_rewrite="true")
    world.prover.ready.set()
    await considered(world)
    await bob.execute(QUERY)
    assert sent(world) == ["t", "mv"]
    assert world.prover.asked == 1


async def test_a_change_of_the_table_ends_a_proof_under_way() -> None:
    world, bob = await proving()
    carl = await world.client("carl")
    await carl.execute("ALTER TABLE s.t ADD COLUMN x INT")
    world.ledger("s.mv").publish(world.ledger("s.mv").events)
    world.prover.ready.set()
    await considered(world)
    await bob.execute(QUERY)
    assert sent(world) == ["t", "t"]


async def test_old_answers_are_used_until_a_new_view_of_the_table_was_considered() -> None:
    world = await stage(AT_ONCE)
    bob = await world.client("bob")
    await bob.execute(QUERY)
    await considered(world)
    await add_view(world, "s.mv2", use_for_rewrite="true")
    world.prover.ready.clear()
    await bob.execute(QUERY)
    await bob.execute(QUERY)
    assert sent(world) == ["t", "mv", "mv"]
    world.prover.ready.set()
    await considered(world)
    await (await bob.execute(INSERT)).poll()
    world.ledger("s.mv2").publish(world.ledger("s.mv2").events)
    await bob.execute(QUERY)
    assert "`mv2`" in world.spark.texts[-1]


async def test_a_proof_does_not_outlive_the_properties_of_its_view() -> None:
    """A view that holds only its newest partitions has fewer rows than its definition."""
    world = await stage(AT_ONCE)
    bob = await world.client("bob")
    await bob.execute(QUERY)
    await considered(world)
    entry = world.entry("s.mv")
    async with entry.lock:
        after = replace(entry.view, properties={**entry.view.properties, "partition_sync_limit": "3"})
        entry.alter(after, rewritten=False, watches_others=False)
    world.prover.refuted["s.mv"] = "it holds only its newest partitions"
    await bob.execute(QUERY)
    await considered(world)
    await bob.execute(QUERY)
    assert sent(world) == ["t", "t", "t"]


async def test_a_view_that_was_refused_is_considered_again_after_a_refresh_of_other_tables() -> None:
    """Its base table was dropped and created with other columns, and considered before the refresh."""
    world = await stage(AT_ONCE)
    world.prover.refuted["s.mv"] = "the types differ"
    bob = await world.client("bob")
    await bob.execute(QUERY)
    await considered(world)
    world.prover.refuted.clear()
    await bob.execute(QUERY)
    await considered(world)
    seen = Schema("", (("k", '{"name": "string"}'),))
    assert world.entry("s.mv").view.schemas != {named("s.t"): seen}
    given(world.entry("s.mv"), schemas={named("s.t"): seen})
    await bob.execute(QUERY)
    await considered(world)
    await bob.execute(QUERY)
    assert sent(world) == ["t", "t", "t", "mv"]
    assert world.prover.asked == 2


async def test_a_view_that_is_dropped_and_created_with_other_columns_answers_at_once() -> None:
    """Spark's description of the dropped view, which is kept for a while, has nothing to do with the new one."""
    world = await stage(AT_ONCE)
    bob = await world.client("bob")
    await bob.execute(QUERY)
    await considered(world)
    world.catalog.remove(world.entry("s.mv"))
    view = await world.view("s.mv", "SELECT k, max(k) AS m, count(*) AS n FROM s.t GROUP BY k", use_for_rewrite="true")
    given(world.entry("s.mv"), columns=("k", "m", "n"))
    columns = tuple((name, '{"name": "string"}') for name in ("k", "m", "n"))
    world.metastore.relations[view.name] = replace(world.metastore.relations[view.name], columns=columns)
    await bob.execute(QUERY)
    await considered(world)
    await bob.execute(QUERY)
    assert sent(world) == ["t", "t", "mv"]
