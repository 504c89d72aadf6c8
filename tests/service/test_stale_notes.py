"""What the log of a read says of rows that are known to be stale."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fakes import Client, Site

from gateway.mv.refresh.progress import Lines
from gateway.service.routing.ways import RefreshFirst
from sql.understood import Understood

log = logging.getLogger(__name__)


async def notes(site: Site, client: Client) -> tuple[str, ...]:
    way: Any = await site.router.consider(client.session, Understood("SELECT n FROM s.v"))
    send = await site.router.prepare(way, Lines(log.debug)) if isinstance(way, RefreshFirst) else way
    return tuple(send.notes)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"when_stale": "SERVE"}, "the view is set to WHEN STALE SERVE"),
        ({"grace_period": "60"}, "the view is within its grace period of 60 s"),
    ],
)
async def test_rows_that_are_served_although_they_are_stale(properties: dict[str, str], why: str) -> None:
    site = Site()
    site.table("s.t")
    await site.view("s.v", "SELECT count(*) n FROM s.t", properties=properties)
    client = await site.client("ada")
    assert await notes(site, client) == ()
    site.write("s.t")
    assert await notes(site, client) == (
        f"Warning: the rows of materialized view s.v are stale: s.t has changed; {why}",
    )


async def test_a_view_that_is_refreshed_has_no_note() -> None:
    site = Site()
    site.table("s.t")
    await site.view("s.v", "SELECT count(*) n FROM s.t")
    client = await site.client("ada")
    site.write("s.t")
    assert await notes(site, client) == ()
