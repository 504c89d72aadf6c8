"""What a refresh would find, by which a failed one is told from one that may work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import pytest
from fakes import FakeStorages
from views import SALES, SHOPS, given, view_of

from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.ledger import TablesWritten
from gateway.mv.model.snapshot import Observed, Snapshot, Unobserved
from gateway.mv.model.view import Version
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.look import Look
from sql.names import TableName

BELOW = TableName("d", "below")


class Tables:
    """What the observer would have seen of them."""

    def __init__(self) -> None:
        self.seen: dict[TableName, Observed] = {table: Snapshot("id", "1") for table in (SALES, SHOPS)}
        self.looks = 0

    def touch(self, tables: Iterable[TableName]) -> None: ...

    def forget(self, tables: Iterable[TableName]) -> None: ...

    async def observe(self, tables: Iterable[TableName], not_before: float) -> dict[TableName, Look]:
        self.looks += 1
        return {table: Look(self.seen[table], self.looks) for table in tables}


WRITE = TablesWritten(frozenset({"insert"}), frozenset())


def write(entry: Entry) -> None:
    entry.ledger.begin(WRITE)
    entry.ledger.end(WRITE)


def say(entry: Entry) -> None:
    given(entry, properties={"session.spark.sql.ansi.enabled": "false"})


def resume(entry: Entry) -> None:
    given(entry, job_since=5)


def publish(entry: Entry) -> None:
    given(entry, current=Version.whole(2, 0, 0, {}))


@pytest.mark.parametrize(
    ("change", "at", "equal"),
    [
        (lambda entry: None, "v", True),
        (lambda entry: entry.ledger.begin(WRITE), "v", True),
        (write, "v", False),
        (write, "below", False),
        (say, "v", False),
        (resume, "v", False),
        (publish, "below", False),
    ],
)
def test_what_counts_as_a_change(change: Callable[[Entry], object], at: str, equal: bool) -> None:
    """At the view and at the one below it."""
    catalog, inspector, _ = stage()
    before = asyncio.run(inspector.situation("v"))
    change(catalog.entry(at))
    assert before is not None
    assert (asyncio.run(inspector.situation("v")) == before) is equal


def test_tables_that_look_otherwise_or_cannot_be_looked_at() -> None:
    _, inspector, tables = stage()
    before = asyncio.run(inspector.situation("v"))
    tables.seen[SHOPS] = Snapshot("id", "2")
    after = asyncio.run(inspector.situation("v"))
    assert before != after
    assert after == asyncio.run(inspector.situation("v"))
    tables.seen[SHOPS] = Unobserved("it is not listed")
    assert asyncio.run(inspector.situation("v")) is None


def stage() -> tuple[Catalog, Inspector, Tables]:
    """d.v reads d.sales and d.below, which reads d.shops."""
    nobody = cast(Any, None)
    catalog, tables = Catalog("s", nobody), Tables()
    view = view_of(Version.whole(1, 0, 0, {}))
    below = replace(view, id="below", name=BELOW, tables=frozenset({SHOPS}))
    above = replace(view, tables=frozenset({SALES}), views=frozenset({"below"}))
    for each in (below, above):
        catalog.show(catalog.reserve(each))
    return catalog, Inspector(catalog, nobody, cast(Any, tables), nobody, cast(Any, FakeStorages()), 0), tables
