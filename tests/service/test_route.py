"""What the router makes of statements, and what it knows of their sessions: with fakes of Spark and its metastore."""

from __future__ import annotations

from fakes import World

READ = "SELECT n FROM s.mv"
INSERT = "INSERT INTO s.t VALUES (1)"


async def stage() -> World:
    """ada's s.mv, which counts the rows of s.t."""
    world = World()
    world.table("s.t")
    await world.view("s.mv", "SELECT count(*) n FROM s.t")
    return world


async def test_a_read_after_a_write_is_fresh() -> None:
    world = await stage()
    bob = await world.client("bob")
    await bob.execute(READ)
    assert world.refreshed == []
    insert = await bob.execute(INSERT)
    await insert.poll()
    await bob.execute(READ)
    assert world.refreshed == ["s.mv"]
