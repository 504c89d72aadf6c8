"""Keys of base tables are used only if they hold in the state that a view shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from fakes import Site

from gateway.mv.model.view import MaterializedView
from gateway.mv.rewriting.observed_keys import ObservedKeys
from sql.names import TableName
from sql.table_keys import ForeignKey, TableKeys

FACTS, SHOPS = TableName("s", "facts"), TableName("s", "shops")
DECLARED = {
    FACTS: {
        "freshgate.keys": "NOT NULL (shop); FOREIGN KEY (shop) REFERENCES shops (shop);FOREIGN KEY (x) REFERENCES z (x)"
    },
    SHOPS: {"freshgate.keys": "PRIMARY KEY (shop)"},
}
HOLDING = {
    FACTS: TableKeys(present=frozenset({"shop"}), foreign=(ForeignKey(("shop",), SHOPS.quoted, ("shop",)),)),
    SHOPS: TableKeys(frozenset({frozenset({"shop"})}), frozenset({"shop"})),
}


class Checked:
    """Stands for the metastore, the proposer and its session: `violated` are parts of queries that return a row."""

    def __init__(self, declared: Mapping[TableName, Mapping[str, str]]) -> None:
        self.declared = declared
        self.violated = ""
        self.asked: list[str] = []
        self.rows: list[tuple[int]] = []
        self.meanwhile: Any = None
        """What happens while a query runs."""

    async def properties(self, table: TableName) -> Mapping[str, str]:
        return self.declared.get(table, {})

    @asynccontextmanager
    async def session_for(self, view: MaterializedView) -> AsyncIterator[Checked]:
        yield self

    async def run(self, text: str) -> Checked:
        self.asked.append(text)
        if self.meanwhile is not None:
            self.meanwhile()
        self.rows = [(1,)] if self.violated and self.violated in text else []
        return self


async def stage(declared: Mapping[TableName, Mapping[str, str]] = DECLARED) -> tuple[Site, Checked, ObservedKeys]:
    site, checked = Site(), Checked(declared)
    site.table("s.facts")
    site.table("s.shops")
    await site.view(
        "s.daily", "SELECT f.shop, count(*) AS c FROM s.facts f JOIN s.shops s ON f.shop = s.shop GROUP BY 1"
    )
    inspector = cast(Any, site.inspector)
    return site, checked, ObservedKeys(site.catalog, cast(Any, checked), inspector, cast(Any, checked), lambda: False)


async def test_keys_that_hold_are_known_for_the_version() -> None:
    site, checked, keys = await stage()
    view = site.entry("s.daily").view
    await keys.observe(view)
    assert keys.known(view).keys == HOLDING
    count = len(checked.asked)
    await keys.observe(view)
    assert len(checked.asked) == count


async def test_a_key_that_does_not_hold_is_not_known() -> None:
    site, checked, keys = await stage()
    checked.violated = "LEFT ANTI JOIN"
    await keys.observe(view := site.entry("s.daily").view)
    assert keys.known(view).keys[FACTS].foreign == ()
    assert keys.known(view).keys[SHOPS] == HOLDING[SHOPS]


async def test_nothing_is_known_if_a_write_begins_meanwhile() -> None:
    site, checked, keys = await stage()
    checked.meanwhile = lambda: site.write("s.facts")
    await keys.observe(view := site.entry("s.daily").view)
    assert keys.known(view).keys == {}


async def test_nothing_is_known_of_a_stale_view() -> None:
    site, checked, keys = await stage()
    site.write("s.facts")
    await keys.observe(view := site.entry("s.daily").view)
    assert keys.known(view).keys == {}
    assert checked.asked == []


@pytest.mark.parametrize("text", [None, "PRIMARY KEY shop"])
async def test_without_keys_nothing_is_asked(text: str | None) -> None:
    site, checked, keys = await stage({} if text is None else {SHOPS: {"freshgate.keys": text}})
    await asyncio.sleep(0)
    await keys.observe(view := site.entry("s.daily").view)
    assert keys.known(view).keys == {}
    assert checked.asked == []
