"""What a refresh would cost now, by method, without asking Spark: freshgate.refresh_costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from fakes import Site
from views import given

from gateway.access_list import AccessList, Principal
from gateway.mv.freshness.drift import Drift
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.contents import Basis, Contents, Keyed
from gateway.mv.model.marks import Fold
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import Cause, RefreshMode, Task, TaskStatus, TriggerMode, base_key
from gateway.mv.refresh.expected_costs import NOT_LOOKED, SMALL, ExpectedCost, ExpectedCosts
from gateway.mv.refresh.increments import Increments
from gateway.mv.statements.rights import Rights
from gateway.service.answers.refresh_costs import REFRESH_COSTS, RefreshCosts
from sql.names import TableName
from sql.statement import Method
from sql.texts.storage_layout import StorageLayout

SALES = base_key(TableName("s", "sales"))
DONE = Task(1, Cause(TriggerMode.MANUAL, "ada"), "", 1, TaskStatus.SUCCESS, RefreshMode.COMPLETE, 1, 9_001, version=1)
MARKS = cast(Any, {SALES: None})
BY_ROWS = Basis(MARKS, complete_ms=10_000, rows_ms=2_000, rows_bytes=5)


class FakeIncrements:
    """What is known of a definition and its tables."""

    def __init__(self, *, hindrance: str = "", small: bool = False, size: int = 0) -> None:
        self.hindrance, self.small, self.size = hindrance, small, size

    def known_hindrance(self, _: Any) -> str:
        return self.hindrance

    def is_known_small(self, _: Any) -> bool:
        return self.small

    def known_bytes(self, _: Any) -> int:
        return self.size


async def stage() -> tuple[Site, Entry]:
    site = Site()
    site.table("s.sales")
    await site.view("s.daily", "SELECT n FROM s.sales")
    return site, site.entry("s.daily")


def changed(site: Site, entry: Entry, found: Drift | None = None) -> None:
    """A look has found a change."""
    site.write("s.sales")
    observed = found or Drift(behind=((0, frozenset({SALES})),))
    entry.compare(observed, entry.ledger.events, {TableName("s", "sales"): 1.0}, 1)
    assert entry.observed_drift is not None


def has(entry: Entry, basis: Basis | None = None, **view: Any) -> None:
    """What the version contains, and what the view is."""
    if basis is not None:
        view["current"] = replace(entry.view.current, contents=Contents(basis=basis))
    given(entry, **view)


def with_method(entry: Entry, method: Method) -> None:
    clauses = entry.view.clauses
    given(entry, clauses=replace(clauses, refreshing=replace(clauses.refreshing, method=method)))


def costs(site: Site, **known: Any) -> ExpectedCosts:
    return ExpectedCosts(site.catalog, cast(Increments, FakeIncrements(**known)))


def cost(site: Site, entry: Entry, **known: Any) -> ExpectedCost:
    return costs(site, **known).of(entry)


async def test_a_fresh_view_costs_nothing() -> None:
    site, entry = await stage()
    found = cost(site, entry)
    assert (found.method, found.expected_ms) == (RefreshMode.NOT_REFRESH, 0)


async def test_a_view_that_was_never_built_has_no_estimate() -> None:
    site = Site()
    site.table("s.sales")
    await site.view("s.daily", "SELECT n FROM s.sales", built=False)
    found = cost(site, site.entry("s.daily"))
    assert (found.method, found.expected_ms) == (RefreshMode.COMPLETE, None)


async def test_a_refresh_by_rows_is_expected_if_it_is_cheaper() -> None:
    site, entry = await stage()
    has(entry, BY_ROWS)
    changed(site, entry)
    found = cost(site, entry)
    assert (found.method, found.expected_ms) == (RefreshMode.INCREMENTAL, 2_000)
    assert (found.complete_ms, found.partial_ms, found.incremental_ms) == (10_000, None, 2_000)


async def test_recomputing_is_expected_if_that_is_cheaper() -> None:
    site, entry = await stage()
    has(entry, replace(BY_ROWS, rows_ms=9_000))
    changed(site, entry)
    found = cost(site, entry)
    assert (found.method, found.expected_ms) == (RefreshMode.COMPLETE, 10_000)
    assert found.because == "by rows it would take 9.0 s"
    with_method(entry, Method.INCREMENTAL)
    assert cost(site, entry).method is RefreshMode.INCREMENTAL


@pytest.mark.parametrize(
    ("known", "because"),
    [({"small": True}, SMALL), ({"hindrance": "OPERATOR: it has LIMIT"}, "OPERATOR: it has LIMIT")],
)
async def test_recomputing_is_expected_for_small_tables_and_odd_definitions(known: Any, because: str) -> None:
    site, entry = await stage()
    has(entry, BY_ROWS)
    changed(site, entry)
    found = cost(site, entry, **known)
    assert (found.method, found.because) == (RefreshMode.COMPLETE, because)


async def test_rows_with_the_values_of_changed_partitions_are_expected() -> None:
    site, entry = await stage()
    has(entry, replace(BY_ROWS, marks={}, keyed=Keyed("n", SALES, Snapshot("i", "s"))))
    changed(site, entry)
    found = cost(site, entry)
    assert found.method is RefreshMode.INCREMENTAL
    assert found.because.startswith("rows with the values of changed partitions")


async def test_without_a_basis_earlier_refreshes_tell() -> None:
    site, entry = await stage()
    for took in (9_000, 1_000, 5_000):
        entry.history.begin(replace(DONE, finished_at=1 + took))
    entry.history.begin(replace(DONE, status=TaskStatus.FAILED, version=0, finished_at=2))
    changed(site, entry)
    found = cost(site, entry)
    assert (found.method, found.expected_ms) == (RefreshMode.COMPLETE, 5_000)


async def test_after_a_write_that_was_not_looked_at_the_method_is_that_of_the_last_one() -> None:
    site, entry = await stage()
    has(entry, BY_ROWS)
    entry.history.begin(replace(DONE, mode=RefreshMode.INCREMENTAL))
    site.write("s.sales")
    found = cost(site, entry)
    assert (found.method, found.because, found.expected_ms) == (RefreshMode.INCREMENTAL, NOT_LOOKED, 2_000)


@pytest.mark.parametrize(
    ("found", "share"),
    [
        (Drift(partitions=frozenset({("1",)}), followed=SALES), 0.25),
        (Drift(partitions=frozenset({(str(each),) for each in range(9)}), followed=SALES), 1.0),
        (Drift(partitions=frozenset({("1",)}), followed=SALES, behind=((0, frozenset({"other"})),)), 1.0),
        (Drift(wholly=frozenset({SALES}), followed=SALES), 1.0),
    ],
    ids=["one", "more than there were", "another table, too", "all"],
)
async def test_partitions_cost_their_share_of_everything(found: Drift, share: float) -> None:
    site, entry = await stage()
    followed = Snapshot("i", "s", partitions={(str(each),): "x" for each in range(4)})
    contents = Contents(followed, basis=replace(BY_ROWS, marks={}))
    has(entry, current=replace(entry.view.current, contents=contents), layout=StorageLayout("n", "int", "n"))
    changed(site, entry, found)
    seen = cost(site, entry)
    assert seen.share == share
    assert seen.method is (RefreshMode.PARTIAL if share < 1 else RefreshMode.COMPLETE)
    assert seen.expected_ms == round(10_000 * share)


# --- in SQL --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("user", "told"), [("ada", True), ("root", True), ("bob", False)])
async def test_the_table_has_a_row_for_each_view_and_reasons_for_those_who_may_refresh(user: str, told: bool) -> None:
    site, entry = await stage()
    has(entry, BY_ROWS)
    entry.history.begin(DONE)
    changed(site, entry)
    costs = RefreshCosts(
        site.catalog, ExpectedCosts(site.catalog, cast(Any, FakeIncrements())), Rights(AccessList.of(["root"]))
    )
    table = await costs.table(Principal(user))
    (row,) = [dict(zip([name for name, _ in REFRESH_COSTS], each, strict=True)) for each in table.rows]
    assert (row["database_name"], row["name"], row["owner"]) == ("s", "daily", "ada")
    assert (row["expected_method"], row["expected_ms"]) == ("INCREMENTAL", 2_000)
    assert (row["complete_ms"], row["median_complete_ms"], row["refreshes"], row["refreshes_ms"]) == (
        10_000,
        9_000,
        1,
        9_000,
    )
    assert (row["because"] is not None) is told


async def test_a_query_gets_it_from_memory() -> None:
    site, _ = await stage()
    client = await site.client("ada")
    before = len(site.spark.texts)
    await client.execute("SELECT * FROM freshgate.refresh_costs")
    (sent,) = site.spark.texts[before:]
    assert "'NOT_REFRESH'" in sent


async def test_a_definition_is_quick_if_all_its_rows_were() -> None:
    site, entry = await stage()
    entry.history.tasks.clear()
    assert not costs(site).is_quick(entry)
    entry.history.begin(replace(DONE, finished_at=DONE.started_at + 4_999))
    assert costs(site).is_quick(entry)
    has(entry, replace(BY_ROWS, complete_ms=5_000))
    assert not costs(site).is_quick(entry)


async def test_base_tables_are_compared_with_the_stored_rows() -> None:
    site, entry = await stage()
    given(entry, current=replace(entry.view.current, files=Fold(1, 1, 100)))
    assert [costs(site, size=size).reads_little(entry.view) for size in (0, 1, 399, 400)] == [False, True, True, False]
