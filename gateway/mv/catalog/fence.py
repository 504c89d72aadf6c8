"""Decides which of several gateways may change the views of one metastore: the one that was started last.

Two gateways on one metastore are a mistake, or a new gateway takes over while the old one drains. Spark's SQL offers no
compare-and-set with which both could write safely. So each gateway stores its own mark in the storage database when it
starts, and checks before it publishes or drops anything that the mark is still its own. A gateway that finds another
mark never writes again, because its catalog in memory may be out of date.
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
"""For how many seconds a check protects rows of a reserved version: less than a successor waits."""
GATEWAY = "freshgate.gateway"
WHERE = "freshgate.gateway_at"
RELEASED = "freshgate.gateway_ended"
"""The mark of the last gateway that was shut down properly."""
NO_SUCH_DATABASE = frozenset({"42704", "42P01"})


class Superseded(FreshgateError):
    """Another gateway now serves this metastore."""

    sqlstate = "55006"


class Fence:
    """This gateway's mark in the storage database."""

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
        """When the last successful check began, by the monotonic clock."""
        self.locations: set[str] = set()
        """Locations of the storage database that were seen; more than one if it was changed."""
        self.lost: str | None = None
        """Why this gateway no longer changes views; None while it may."""

    async def take(self) -> bool:
        """Stores the mark if the storage database exists; otherwise the mark is stored when the database is created.

        Returns whether the database has the mark of a gateway that was not shut down properly: it was killed, or still
        runs.
        """
        found = await self._read()
        if found is None:
            return False
        place = f"{self._here}, started {time.strftime('%F %T', time.gmtime())} UTC"
        await self._put({GATEWAY: self._mark, WHERE: place.encode().hex()})
        self._taken = True
        return bool(found.get(GATEWAY)) and found.get(RELEASED) != found.get(GATEWAY)

    async def check_lately(self) -> None:
        """As `check`, unless the last check was a moment ago."""
        self.raise_if_lost()
        if self._clock() - self._asked_at > LATELY:
            await self.check()

    def is_sure(self, seconds: float) -> bool:
        """Whether this gateway was the one that may write at most so many seconds ago, or a moment ago."""
        return self.lost is None and self._clock() - self._asked_at <= max(LATELY, seconds)

    async def check(self) -> None:
        """Returns if this gateway may write. Raises Superseded if another gateway has stored its mark."""
        self.raise_if_lost()
        asked_at = self._clock()
        found = await self._read()
        if found is None:
            return
        mark = found.get(GATEWAY)
        if mark == self._mark:
            self._asked_at = asked_at
        elif not mark:
            # The database is new or was recreated.
            await self.take()
        else:
            # A concurrent check may have reported it already.
            self.raise_if_lost()
            self.lost = _superseded(found.get(WHERE, ""))
            log.error("%s", self.lost)
            self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """Raises Superseded if that is known, without asking the metastore."""
        if self.lost is not None:
            raise Superseded(self.lost)

    async def release(self) -> None:
        """Records a proper shutdown, so that the next gateway need not wait for unfinished statements of this one."""
        if self._taken and self.lost is None:
            await self._put({RELEASED: self._mark})

    async def _put(self, properties: dict[str, str]) -> None:
        await self._metastore.run(maintenance.set_database_properties(self._database, properties))

    async def _read(self) -> dict[str, str] | None:
        """Freshgate's properties of the storage database; None if there is no such database."""
        try:
            rows = (await self._metastore.run(maintenance.describe_database(self._database))).rows
        except StatementFailed as error:
            # A metastore with a temporary fault may also report this, but it does not list databases then.
            if error.sqlstate in NO_SUCH_DATABASE and self._database not in await self._metastore.databases():
                return None
            raise
        if (location := maintenance.read_database_location(rows)) is not None:
            self.locations.add(location)
        return maintenance.read_database_properties(rows, (GATEWAY, WHERE, RELEASED))


def _superseded(where: str) -> str:
    try:
        place = bytes.fromhex(where).decode(errors="replace") or "at an unknown address"
    except ValueError:
        place = "at an unknown address"
    return (
        f"Another gateway ({place}) was started for this metastore and refreshes the materialized views now. This "
        f"gateway forwards statements, but no longer changes views, and refuses reads of views that would need a "
        f"refresh. Connect to the other gateway, or stop it and restart this one."
    )
