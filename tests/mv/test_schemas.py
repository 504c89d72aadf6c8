"""The state of views whose base tables are not what they were."""

from __future__ import annotations

from dataclasses import replace

from fakes import World, named
from views import given

from gateway.mv.model.view import Schema, State

INT, TEXT = '{"name": "integer"}', '{"name": "string"}'


async def _states(world: World) -> dict[str, tuple[State, str]]:
    views = world.catalog.views()
    states = await world.schemas.states(views)
    return {str(view.name): states[view.id] for view in views}


async def test_a_view_above_one_whose_table_has_changed_has_that_state_too() -> None:
    world = World()
    world.table("s.t", columns=(("a", INT),))
    for dotted, source in (("s.low", "s.t"), ("s.middle", "s.low"), ("s.high", "s.middle"), ("s.beside", "s.u")):
        await world.view(dotted, f"SELECT n FROM {source}")
        entry = world.entry(dotted)
        seen = {named("s.t"): Schema("", (("a", INT),))} if source == "s.t" else {}
        below = world.catalog.names_of(entry.view.views)
        given(entry, schemas=seen, view_names=below)
    assert {state for state, _ in (await _states(world)).values()} == {State.NORMAL}
    world.table("s.t", columns=(("a", TEXT),))
    world.schemas.forget([named("s.t")])
    states = await _states(world)
    assert {name for name, (state, _) in states.items() if state is State.SCHEMA_CHANGE} == {
        "s.low",
        "s.middle",
        "s.high",
    }
    assert states["s.middle"][1] == "the materialized view s.low is in SCHEMA_CHANGE"
    # Asked for alone it says the same.
    high = world.entry("s.high").view
    assert (await world.schemas.states([high]))[high.id] == states["s.high"]
    assert await world.schemas.changes(high) == states["s.high"][1]


async def test_a_name_that_gets_another_view_is_described_again() -> None:
    world = World()
    before = await world.view("s.v", "SELECT n FROM s.t")
    await world.view("s.other", "SELECT n FROM s.t")
    known = await world.schemas.of([before.name, named("s.other"), named("s.new")])
    assert known[named("s.new")] is None
    assert known[before.name] != Schema("", (("a", INT),))
    world.metastore.add(replace(world.metastore.relations[before.name], columns=(("a", INT),)))
    world.catalog.remove(world.entry("s.v"))
    assert (await world.schemas.of([before.name]))[before.name] == Schema("", (("a", INT),), is_view=True)
    entry = world.entry("s.other")
    world.metastore.add(replace(world.metastore.relations[entry.view.name], name=named("s.new")))
    world.catalog.rename({named("s.new"): entry})
    assert (await world.schemas.of([named("s.new")]))[named("s.new")] is not None
