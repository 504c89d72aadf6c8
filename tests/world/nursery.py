"""Makes the worlds in which histories begin: the views are created by a gateway of the real code, and no fault."""

from __future__ import annotations

from world import shapes
from world.assembly import Tuning
from world.choices import Choices
from world.edges import Edges
from world.shapes import Plan, Shape
from world.storage import Metastore, shown
from world.world import NURSERY, World

SERVING = (" ON COMMIT ", " TARGET LAG ")
"""Clauses of views whose reads get the current version."""


def made(plan: Plan, edges: Edges, incremental_from: int) -> Metastore:
    """The metastore of a world whose views are there. If `incremental_from` is 0, refreshes by rows can follow."""
    metastore = Metastore()
    shapes.base_tables(plan, metastore)
    world = World(
        Shape(plan, metastore, Tuning(incremental_from=incremental_from)), edges, Choices(), began=NURSERY, tell=True
    )
    try:
        world.prepare(plan.creates)
    except BaseException:
        print("\n".join(world.story))
        raise
    return world.metastore


def shape(plan: Plan, metastore: Metastore, tuning: Tuning, *, caches: bool) -> Shape:
    named = {create.split(" ")[3]: any(words in create for words in SERVING) for create in plan.creates}
    found = ((shown(metastore.thing(name).text), serves) for name, serves in named.items())
    served = frozenset(public.storage for public, serves in found if public is not None and serves)
    return Shape(plan, metastore, tuning, caches, served)
