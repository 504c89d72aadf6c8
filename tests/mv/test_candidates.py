"""Which views are compared with a query that names none of them."""

from __future__ import annotations

from dataclasses import replace

from fake_spark import named
from fakes import Site

from gateway.mv.rewriting import candidates
from gateway.mv.rewriting.candidates import Candidates

SALES = "SELECT count(*) AS n FROM s.sales"
JOINED = "SELECT count(*) AS n FROM s.sales JOIN s.shops USING (shop)"
TAKES_PART = {"use_for_rewrite": "true"}


async def world_with_views() -> tuple[Site, Candidates]:
    site = Site()
    for table in ("s.sales", "s.shops", "s.days"):
        site.table(table, columns=(("shop", '"string"'), ("day", '"date"')))
    await site.view("s.one", SALES, properties=TAKES_PART)
    await site.view("s.both", JOINED, properties=TAKES_PART)
    await site.view("s.other", "SELECT count(*) AS n FROM s.days")
    return site, Candidates(site.catalog, site.schemas)


async def fitting(known: Candidates, *words: str) -> set[str]:
    return {view.name.table for view in await known.fitting(frozenset(words))}


async def test_a_view_fits_a_text_with_the_names_of_all_its_tables() -> None:
    _, known = await world_with_views()
    assert known.words == {"sales", "shops"}
    assert await fitting(known, "select", "sales") == {"one"}
    assert await fitting(known, "select", "sales", "shops") == {"one", "both"}
    assert await fitting(known, "shops", "days") == set()
    (view,) = await known.fitting(frozenset({"sales"}))
    assert view.bases == {named("s.sales"): ("shop", "day")}


async def test_a_view_that_no_longer_takes_part_fits_nothing() -> None:
    site, known = await world_with_views()
    assert "shops" in known.words
    entry = site.entry("s.both")
    async with entry.lock:
        after = replace(entry.view, properties={"use_for_rewrite": "false"})
        entry.alter(after, rewritten=False, watches_others=False)
    assert known.words == {"sales"}
    assert await fitting(known, "sales", "shops") == {"one"}


async def test_a_statement_waits_for_a_few_definitions_only() -> None:
    site, known = await world_with_views()
    many = 3 * candidates.READ_AT_ONCE
    for number in range(many):
        site.table(f"s.t{number}")
        await site.view(f"s.v{number}", f"SELECT count(*) AS n FROM s.t{number}", properties=TAKES_PART)
    assert len(known.words) == candidates.READ_AT_ONCE
    assert await fitting(known, "sales") == {"one"}
    assert len(known.words) == many + 2


async def test_the_types_of_a_view_are_those_that_spark_writes() -> None:
    site = Site()
    site.table("s.t", columns=(("d", '{"name": "date"}'),))
    await site.view("s.v", "SELECT d, sum(price) AS p FROM t GROUP BY d", properties=TAKES_PART)
    total = '{"name": "decimal", "precision": 20, "scale": 2}'
    shown = site.metastore.relations[named("s.v")]
    site.metastore.add(replace(shown, columns=(("d", '{"name": "date"}'), ("p", total))))
    (view,) = await Candidates(site.catalog, site.schemas).fitting(frozenset({"t"}))
    assert view.types == ("date", "decimal(20,2)")
