"""The state of views whose base tables are not what they were."""

from __future__ import annotations

from dataclasses import replace

from fake_spark import named
from fakes import Site
from views import given

from gateway.mv.model.view import Schema, State

INT, TEXT = '{"name": "integer"}', '{"name": "string"}'


async def _states(site: Site) -> dict[str, tuple[State, str]]:
    views = site.catalog.views()
    states = await site.schemas.states(views)
    return {str(view.name): states[view.id] for view in views}


async def test_a_view_above_one_whose_table_has_changed_has_that_state_too() -> None:
    site = Site()
    site.table("s.t", columns=(("a", INT),))
    for dotted, source in (("s.low", "s.t"), ("s.middle", "s.low"), ("s.high", "s.middle"), ("s.beside", "s.u")):
        await site.view(dotted, f"SELECT n FROM {source}")
        entry = site.entry(dotted)
        seen = {named("s.t"): Schema("", (("a", INT),))} if source == "s.t" else {}
        below = site.catalog.names_of(entry.view.views)
        given(entry, schemas=seen, view_names=below)
    assert {state for state, _ in (await _states(site)).values()} == {State.NORMAL}
    site.table("s.t", columns=(("a", TEXT),))
    site.schemas.forget([named("s.t")])
    states = await _states(site)
    assert {name for name, (state, _) in states.items() if state is State.SCHEMA_CHANGE} == {
        "s.low",
        "s.middle",
        "s.high",
    }
    assert states["s.middle"][1] == "the materialized view s.low is in SCHEMA_CHANGE"
    # Asked for alone it says the same.
    high = site.entry("s.high").view
    assert (await site.schemas.states([high]))[high.id] == states["s.high"]
    assert await site.schemas.changes(high) == states["s.high"][1]


async def test_a_name_that_gets_another_view_is_described_again() -> None:
    site = Site()
    before = await site.view("s.v", "SELECT n FROM s.t")
    await site.view("s.other", "SELECT n FROM s.t")
    known = await site.schemas.of([before.name, named("s.other"), named("s.new")])
    assert known[named("s.new")] is None
    assert known[before.name] != Schema("", (("a", INT),))
    site.metastore.add(replace(site.metastore.relations[before.name], columns=(("a", INT),)))
    site.catalog.remove(site.entry("s.v"))
    assert (await site.schemas.of([before.name]))[before.name] == Schema("", (("a", INT),), is_view=True)
    entry = site.entry("s.other")
    site.metastore.add(replace(site.metastore.relations[entry.view.name], name=named("s.new")))
    site.catalog.rename({named("s.new"): entry})
    assert (await site.schemas.of([named("s.new")]))[named("s.new")] is not None
