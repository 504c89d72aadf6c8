"""Decides which of several gateways may change the views of one metastore: the one that has put its mark last.

Spark's SQL offers no compare-and-set with which two gateways could write safely. So a gateway stores its own mark in
the storage database when it starts, unless it finds that of another gateway that is alive, and checks before it
publishes or drops anything that the mark is still its own. A gateway that finds another mark writes nothing, because
its catalog in memory may be out of date, until the other one has gone: then it puts its own mark again, and reads the
catalog anew.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable

from gateway.errors import FreshgateError, StatementFailed
from gateway.mv.catalog.presence import SILENT_SECONDS, Presence, PresenceMark, Process, Vigil
from gateway.mv.ports import Metastore
from sql.texts import maintenance

log = logging.getLogger(__name__)

LATELY = 0.5
"""For how many seconds a check protects rows of a reserved version: less than a successor waits."""
LOOK_SECONDS = 1.0
"""Interval of looks at the mark of another gateway, at the start."""
GATEWAY = "freshgate.gateway"
WHERE = "freshgate.gateway_at"
RELAY = "freshgate.gateway_relay"
PROCESS = "freshgate.gateway_process"
BEAT = "freshgate.gateway_alive"
LEAVING = "freshgate.gateway_leaving"
"""The mark of the last gateway that has begun to shut down."""
RELEASED = "freshgate.gateway_ended"
"""The mark of the last gateway that was shut down properly."""
NAMES = (GATEWAY, WHERE, RELAY, PROCESS, BEAT, LEAVING, RELEASED)
NO_SUCH_DATABASE = frozenset({"42704", "42P01"})


class Superseded(FreshgateError):
    """Another gateway now serves this metastore."""

    sqlstate = "55006"


class OtherGateway(FreshgateError):
    """Another gateway that is alive serves this metastore, so this one does not start."""

    sqlstate = "55006"


class Fence:
    """This gateway's mark in the storage database."""

    def __init__(
        self,
        metastore: Metastore,
        database: str,
        here: str,
        clock: Callable[[], float] = time.monotonic,
        process: Process | None = None,
        relay: str = "",
    ) -> None:
        """`relay`: the address (HOST:PORT) at which this gateway takes clients that other gateways pass on; empty: it
        takes none."""
        self._metastore = metastore
        self._database = database
        self._here = here
        self._relay = relay
        self._clock = clock
        self._process = Process.own() if process is None else process
        self._mark = secrets.token_hex(8)
        self._taken = False
        self._beats = 0
        self._asked_at = -math.inf
        """When the last successful check began, by the monotonic clock."""
        self.locations: set[str] = set()
        """Locations of the storage database that were seen; more than one if it was changed."""
        self.lost: str | None = None
        """Why this gateway does not change views; None while it may."""

    def vigil(self) -> Vigil:
        """Something that watches the mark of another gateway."""
        return Vigil(self._process, self._clock)

    async def wait_for_other(self) -> None:
        """Returns when no other gateway serves this metastore: at once if none has a mark, or the one that has it has
        ended or is known to be dead. Otherwise watches for its signs of life.

        Raises OtherGateway if it is alive, unless it is being stopped: then waits for its end.
        """
        vigil, told = self.vigil(), ""
        while (presence := vigil.note(found := await self.other())) is not Presence.GONE:
            assert found is not None
            if presence is Presence.ALIVE and not found.leaving:
                raise OtherGateway(
                    f"Another gateway ({found.where}) serves the storage database {self._database} of this metastore: "
                    f"it has given a sign of life while this one watched. Stop it and start this one again, set "
                    f"storage.database to another one for views of its own, or take over with --take-over: the other "
                    f"gateway then only forwards statements."
                )
            doing = "waiting for its end" if found.leaving else "watching for a sign of life of it"
            if told != doing:
                told = doing
                log.info(
                    "found the mark of another gateway (%s): %s, for up to %g s", found.where, doing, SILENT_SECONDS
                )
            await asyncio.sleep(LOOK_SECONDS)
        if told:
            log.info("the other gateway has ended, or has given no sign of life for %.0f s", vigil.silent_seconds)

    async def other(self) -> PresenceMark | None:
        """The mark of another gateway; None if there is none."""
        found = await self._read()
        mark = found.get(GATEWAY, "") if found is not None else ""
        if not found or not mark or mark == self._mark:
            return None
        return PresenceMark(
            mark,
            _place(found.get(WHERE, "")),
            Process.parse(found.get(PROCESS, "")),
            found.get(BEAT, ""),
            leaving=found.get(LEAVING) == mark,
            ended=found.get(RELEASED) == mark,
            relay=_decoded(found.get(RELAY, "")),
        )

    async def take(self) -> bool:
        """Stores the mark if the storage database exists; otherwise the mark is stored when the database is created.
        A gateway that may not write stays so until `regain`.

        Returns whether the database has the mark of a gateway that was not shut down properly: it was killed, or still
        runs.
        """
        found = await self._read()
        if found is None:
            return False
        place = f"{self._here}, started {time.strftime('%F %T', time.gmtime())} UTC"
        await self._put(
            {
                GATEWAY: self._mark,
                WHERE: place.encode().hex(),
                RELAY: self._relay.encode().hex(),
                PROCESS: str(self._process),
                BEAT: self._next_beat(),
            }
        )
        self._taken = True
        return bool(found.get(GATEWAY)) and found.get(RELEASED) != found.get(GATEWAY)

    async def beat(self) -> None:
        """Gives a sign of life, if this gateway has put its mark. Raises Superseded."""
        if await self._confirm():
            await self._put({BEAT: self._next_beat()})

    async def leave(self) -> None:
        """Records that this gateway is being stopped, so that the next one waits for its end."""
        if self._taken and self.lost is None:
            await self._put({LEAVING: self._mark})

    async def holds(self) -> bool:
        """Whether the mark is this gateway's, whether it may write or not. True without a database, which then has no
        mark of another one."""
        found = await self._read()
        return found is None or found.get(GATEWAY) == self._mark

    def regain(self) -> None:
        """From now on this gateway may write again: `take` has put its mark, and the catalog is read anew."""
        self.lost = None

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
        await self._confirm()

    async def _confirm(self) -> bool:
        """As `check`; returns whether there is a database, which then has the mark of this gateway."""
        self.raise_if_lost()
        asked_at = self._clock()
        found = await self._read()
        if found is None:
            return False
        mark = found.get(GATEWAY)
        if mark == self._mark:
            self._asked_at = asked_at
        elif not mark:
            # The database is new or was recreated.
            await self.take()
        else:
            # A concurrent check may have reported it already.
            self.raise_if_lost()
            self.lost = _superseded(_place(found.get(WHERE, "")))
            log.error("%s", self.lost)
            self.raise_if_lost()
        return True

    def raise_if_lost(self) -> None:
        """Raises Superseded if that is known, without asking the metastore."""
        if self.lost is not None:
            raise Superseded(self.lost)

    async def release(self) -> None:
        """Records a proper shutdown, so that the next gateway need not wait for unfinished statements of this one."""
        if self._taken and self.lost is None:
            await self._put({RELEASED: self._mark})

    def _next_beat(self) -> str:
        self._beats += 1
        return f"{self._mark}_{self._beats}"

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
        return maintenance.read_database_properties(rows, NAMES)


def _place(where: str) -> str:
    return _decoded(where) or "at an unknown address"


def _decoded(text: str) -> str:
    """A text that was stored in hexadecimal digits; empty for anything else."""
    try:
        return bytes.fromhex(text).decode(errors="replace")
    except ValueError:
        return ""


def _superseded(place: str) -> str:
    return (
        f"Another gateway ({place}) was started for this metastore and refreshes the materialized views now. This "
        f"gateway forwards statements, but does not change views, and refuses reads of views that would need a "
        f"refresh, until the other one has ended. Connect to the other gateway, or stop it."
    )
