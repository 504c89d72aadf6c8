"""Which of several gateways may change the views of one metastore: the one that was started last.

Two gateways on one metastore are a mistake, or a new one that takes over while the old one still drains. Spark's SQL
offers no compare-and-set to let both write. So each puts its own mark into the storage database when it starts, and
looks, before it publishes or drops anything, whether the mark is still its own. One that finds another's mark never
writes again: its catalog in memory may be out of date.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Callable

from gateway.errors import FreshgateError, StatementFailed
from gateway.mv.ports import Metastore
from sql.texts import maintenance

log = logging.getLogger(__name__)

LATELY = 0.5
"""Seconds for which an answer holds that guards rows of a reserved version: less than a successor waits."""
GATEWAY = "freshgate.gateway"
WHERE = "freshgate.gateway_at"
RELEASED = "freshgate.gateway_ended"
"""The mark of the last gateway that ended in order."""
NO_SUCH_DATABASE = frozenset({"42704", "42P01"})


class Superseded(FreshgateError):
    """Another gateway serves this metastore."""

    sqlstate = "55006"


class Fence:
    """This gateway's mark."""

    def __init__(
        self,
        metastore: Metastore,
        database: str,
        here: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metastore = metastore
        self._database = database
        self._here = here
        self._clock = clock
        self._mark = secrets.token_hex(8)
        self._taken = False
        self._asked_at = -math.inf
        """When the metastore was last asked and had this gateway's mark, by the monotonic clock."""
        self.locations: set[str] = set()
        """Where the storage database lies, as far as the metastore was asked; more than one where that was changed."""
        self.lost: str | None = None
        """Why this gateway changes nothing any more."""

    async def take(self) -> bool:
        """Puts the mark, where the storage database exists; otherwise it is put when that is made.

        Returns whether another gateway's was there that was not ended in order: it was killed, or still runs.
        """
        found = await self._read()
        if found is None:
            return False
        place = f"{self._here}, started {time.strftime('%F %T', time.gmtime())} UTC"
        await self._put({GATEWAY: self._mark, WHERE: place.encode().hex()})
        self._taken = True
        return bool(found.get(GATEWAY)) and found.get(RELEASED) != found.get(GATEWAY)

    async def check_lately(self) -> None:
        """As `check`, but does not ask again so soon after it."""
        self.raise_if_lost()
        if self._clock() - self._asked_at > LATELY:
            await self.check()

    async def check(self) -> None:
        """Raises Superseded where another gateway has put its mark since; returns when this one may write."""
        self.raise_if_lost()
        asked_at = self._clock()
        found = await self._read()
        if found is None:
            return
        mark = found.get(GATEWAY)
        if mark == self._mark:
            self._asked_at = asked_at
        elif not mark:
            # The database is new, or was made anew.
            await self.take()
        else:
            # Another one who asked at the same time has said it.
            self.raise_if_lost()
            self.lost = _superseded(found.get(WHERE, ""))
            log.error("%s", self.lost)
            self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """What is known without asking."""
        if self.lost is not None:
            raise Superseded(self.lost)

    async def release(self) -> None:
        """Says that this gateway has ended in order, so that the next one need not wait for what it has under way."""
        if self._taken and self.lost is None:
            await self._put({RELEASED: self._mark})

    async def _put(self, properties: dict[str, str]) -> None:
        await self._metastore.run(maintenance.set_database_properties(self._database, properties))

    async def _read(self) -> dict[str, str] | None:
        """The storage database's properties of ours; None where there is no such database."""
        try:
            rows = (await self._metastore.run(maintenance.describe_database(self._database))).rows
        except StatementFailed as error:
            # A metastore that is out of order for a moment says so, too; of a list it does not.
            if error.sqlstate in NO_SUCH_DATABASE and self._database not in await self._metastore.databases():
                return None
            raise
        if (location := maintenance.read_database_location(rows)) is not None:
            self.locations.add(location)
        return maintenance.read_database_properties(rows, (GATEWAY, WHERE, RELEASED))


def _superseded(where: str) -> str:
    try:
        place = bytes.fromhex(where).decode(errors="replace") or "not known where"
    except ValueError:
        place = "not known where"
    return (
        f"Another gateway ({place}) was started for this metastore and refreshes the materialized views now; this one "
        f"forwards statements, changes no view any more, and refuses reads of views that it would have to refresh "
        f"first. Connect to that one, or stop it and restart this one."
    )
