"""What the log of a DROP or ALTER says of the materialized views that read its table."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import Site

from gateway.service.routing import writes
from sql.names import TableName
from sql.understood import Understood


async def world_of(views: int) -> Site:
    site = Site()
    site.table("s.t")
    site.table("s.u")
    for number in range(views):
        await site.view(f"s.v{number:02}", "SELECT count(*) n FROM s.t")
    return site


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("DROP TABLE s.t", True),
        ("ALTER TABLE s.t RENAME TO s.other", True),
        ("ALTER TABLE s.t DROP COLUMN a", True),
        ("ALTER TABLE s.t DROP PARTITION (a = 1)", False),
        ("ALTER TABLE s.t SET TBLPROPERTIES ('a' = 'b')", False),
        ("DROP TABLE s.u", False),
        ("INSERT INTO s.t VALUES (1)", False),
    ],
)
async def test_who_is_told(text: str, warns: bool) -> None:
    site = await world_of(1)
    client = await site.client("ada")
    way: Any = await site.router.consider(client.session, Understood(text))
    assert way.notes == (("Warning: materialized views depend on it: s.t is read by s.v00",) if warns else ())


async def test_many_views() -> None:
    site = await world_of(writes.NAMED_MAX + 2)
    told = writes.Writes(site.catalog, site.scope)
    said = told.warning(Understood("DROP TABLE s.t").look, [TableName("s", "t")])
    assert said.endswith("s.v19 and 2 more")
