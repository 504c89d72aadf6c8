"""Writes whose end nobody has noticed: clients need not ask for the status of their statements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import Ending


def unseen_writes(catalog: Catalog, view_ids: Iterable[str]) -> dict[int, Ending | None]:
    """The open writes to base tables of the views, and of those below, that may have ended unnoticed, by their numbers.
    None: this cannot be found out."""
    found = {}
    for view_id in view_ids:
        for below in catalog.reads(view_id):
            entry = catalog.find(below)
            for number in entry.ledger.open if entry is not None else ():
                ending = catalog.writes.ending(number)
                if ending is None or not ending.known:
                    found[number] = ending
    return found


async def see_writes(catalog: Catalog, view_ids: Iterable[str]) -> None:
    """Finds out which of these writes have ended. A write counts as ended if Spark does not tell."""

    async def look(number: int, ending: Ending | None) -> None:
        if ending is None or not await ending.look():
            catalog.doubt_write(number)

    await asyncio.gather(*(look(number, ending) for number, ending in unseen_writes(catalog, view_ids).items()))
