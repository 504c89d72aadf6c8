"""How fresh a view must be to answer queries that do not name it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest
from fake_spark import named
from fakes import Site
from service.test_rewrites import QUERY, sent, stage
from views import given

from gateway.mv.freshness.drift import NOT_LOOKED
from gateway.mv.model.snapshot import GONE
from gateway.mv.model.view import MaterializedView, Schema
from gateway.mv.observation.inspection import Inspection
from gateway.mv.observation.look import Look

GRACE = {"grace_period": "1000"}
LEVELS = ("CHECKED", "STRICT", "LOOSE", "OFF")


async def answered_by(site: Site) -> str:
    """What answers a query whose shape is known."""
    client = await site.client("bob")
    executed = await client.execute(QUERY)
    assert executed.error is None
    assert site.refreshed == []
    return sent(site)[-1]


@pytest.mark.parametrize(
    ("level", "grace", "source"),
    [("CHECKED", GRACE, "t"), ("STRICT", GRACE, "t"), ("LOOSE", GRACE, "mv"), ("LOOSE", {}, "t"), ("OFF", {}, "mv")],
)
async def test_a_stale_view(level: str, grace: dict[str, str], source: str) -> None:
    site = await stage(properties={"rewrite_consistency": level, **grace})
    assert await answered_by(site) == "mv"
    site.write("s.t")
    assert await answered_by(site) == source


@pytest.mark.parametrize("when_stale", ["SERVE", "FAIL", "INLINE"])
async def test_what_reads_of_the_stale_view_do_does_not_matter(when_stale: str) -> None:
    for level, source in (("CHECKED", "t"), ("OFF", "mv")):
        site = await stage(properties={"rewrite_consistency": level, "when_stale": when_stale})
        site.write("s.t")
        assert await answered_by(site) == source


@pytest.mark.parametrize("level", LEVELS)
async def test_a_view_of_which_nothing_is_known_never_answers(level: str) -> None:
    site = await stage(properties={"rewrite_consistency": level, **GRACE})
    cast(Any, site.entry("s.mv"))._drift = NOT_LOOKED
    assert await answered_by(site) == "t"


@pytest.mark.parametrize("level", LEVELS)
async def test_a_view_that_was_never_built_never_answers(level: str) -> None:
    site = await stage(properties={"rewrite_consistency": level, **GRACE})
    current = replace(site.entry("s.mv").view.current, number=0)
    given(site.entry("s.mv"), current=current)
    assert await answered_by(site) == "t"


@pytest.mark.parametrize("level", ["LOOSE", "OFF"])
async def test_a_stale_view_over_a_table_with_other_columns_does_not_answer(level: str) -> None:
    site = await stage(properties={"rewrite_consistency": level, **GRACE})
    given(
        site.entry("s.mv"),
        schemas={named("s.t"): Schema("", (("k", '{"name": "string"}'), ("gone", '{"name": "int"}')))},
    )
    site.write("s.t")
    assert await answered_by(site) == "t"


async def test_strict_looks_at_the_tables_for_each_query() -> None:
    site = await stage(properties={"rewrite_consistency": "STRICT"})
    looked = looks(site)
    for _ in range(3):
        assert await answered_by(site) == "mv"
    assert len(looked) == 3
    assert all(looked)


async def test_checked_looks_when_that_is_due() -> None:
    site = await stage()
    looked = looks(site)
    await answered_by(site)
    assert looked == []
    site.inspector.due = lambda views: bool(list(views))  # type: ignore[method-assign]
    assert await answered_by(site) == "mv"
    assert looked == [None]


async def test_off_looks_only_if_nothing_is_known() -> None:
    site = await stage(properties={"rewrite_consistency": "OFF"})
    looked = looks(site)
    site.inspector.due = lambda views: bool(list(views))  # type: ignore[method-assign]
    assert await answered_by(site) == "mv"
    assert looked == []
    cast(Any, site.entry("s.mv"))._drift = NOT_LOOKED
    assert await answered_by(site) == "t"
    assert looked == [None]


@pytest.mark.parametrize(
    ("providers", "looks_now"), [(["delta"], True), (["iceberg", "delta"], True), (["delta", "parquet"], False)]
)
async def test_strict_is_the_default_where_a_look_is_cheap(providers: list[str], looks_now: bool) -> None:
    site = await stage()
    looked = looks(site)

    async def inspect(view: MaterializedView, not_before: float) -> Inspection:
        tables = [site.table(f"s.t{number}", provider=each) for number, each in enumerate(providers)]
        return Inspection({}, {table.name: Look(GONE, 0.0, relation=table) for table in tables})

    site.inspector.inspect = inspect  # type: ignore[method-assign]
    await answered_by(site)
    assert bool(looked) is looks_now


async def test_a_quarantined_view_answers_again_when_it_is_confirmed() -> None:
    site = await stage()
    assert await answered_by(site) == "mv"
    view_id = site.entry("s.mv").view.id
    site.quarantine.add(view_id, "it gave other rows")
    assert await answered_by(site) == "t"
    site.ledger("s.mv").publish(site.ledger("s.mv").events)
    assert await answered_by(site) == "t"
    site.quarantine.release(view_id)
    assert await answered_by(site) == "mv"


def looks(site: Site) -> list[float | None]:
    """The times that looks must not be older than; None: those of the view."""
    looked: list[float | None] = []

    async def check(views: Iterable[str], not_before: float | None = None) -> list[str]:
        looked.append(not_before)
        return []

    site.inspector.check = check  # type: ignore[method-assign]
    return looked
