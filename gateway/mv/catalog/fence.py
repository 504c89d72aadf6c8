"""Decides which of several gateways may change the views of one metastore. It is the one whose epoch exists.

An epoch is a view in the storage database that belongs to one gateway. `CREATE VIEW` is a compare-and-set: of several
gateways that create the epoch with the next number, one succeeds. It drops the epochs before its own, and that is what
ends the term of the gateway before. A gateway creates an epoch when it starts, unless it finds that of another one that
is alive, and checks before it publishes or drops anything that its own stands. That is positive evidence: a metastore
with a fault reports things as missing, and never shows what is not there. A gateway that has lost its epoch writes
nothing, because its catalog in memory may be out of date, until the other one has gone: then it creates the next epoch,
and reads the catalog anew.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping
from enum import Enum

from gateway.errors import FreshgateError, StatementFailed
from gateway.mv.catalog import unsafe_metastore
from gateway.mv.catalog.epoch_counts import EpochCounts, What
from gateway.mv.catalog.presence import SILENT_SECONDS, Presence, PresenceMark, Process, Vigil
from gateway.mv.ports import Metastore
from sql.names import TableName
from sql.texts import epochs, maintenance

log = logging.getLogger(__name__)

LATELY = 0.5
"""For how many seconds a check protects rows of a reserved version: less than a successor waits."""
SURE_SECONDS = 1.0
"""For how many seconds a check holds for what clients ask and are told: less than a successor waits."""
LOOK_SECONDS = 1.0
"""Interval of looks at the epoch of another gateway, at the start."""
GATEWAY = "freshgate.gateway"
WHERE = "freshgate.gateway_at"
RELAY = "freshgate.gateway_relay"
PROCESS = "freshgate.gateway_process"
BEAT = "freshgate.gateway_alive"
LEAVING = "freshgate.gateway_leaving"
"""Its gateway has begun to shut down."""
YIELDED = "freshgate.gateway_yielded"
"""Its gateway changes and routes nothing any more, and tells no end of a write that the next one does not know of.
Statements of its clients may still run."""
RELEASED = "freshgate.gateway_ended"
"""Its gateway was shut down properly."""
NO_SUCH_VIEW = frozenset({"42704", "42P01"})


def since_boot() -> float:
    """Seconds since some moment, also those in which the machine was suspended, where the platform has such a clock. It
    says how old a check is."""
    return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)


_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", None)


class Superseded(FreshgateError):
    """Another gateway now serves this metastore."""

    sqlstate = "55006"


class OtherGateway(FreshgateError):
    """Another gateway that is alive serves this metastore, so this one does not start."""

    sqlstate = "55006"


class Predecessor(Enum):
    """How the gateway has ended that had the epoch before."""

    NONE = "none"
    ENDED = "ended"
    """It was shut down properly."""
    YIELDED = "yielded"
    """It has handed over; its clients may still read."""
    LOST = "lost"
    """It was killed, or still runs, and may not know that it was superseded."""


class Fence:
    """This gateway's epoch in the storage database."""

    def __init__(
        self,
        metastore: Metastore,
        database: str,
        here: str,
        clock: Callable[[], float] | None = None,
        process: Process | None = None,
        relay: str = "",
        *,
        several: bool = False,
        trusts_clock: bool = True,
    ) -> None:
        """`relay`: the address (HOST:PORT) at which this gateway takes clients that other gateways pass on; empty: it
        takes none. `several`: other gateways wait for their turn, so the storage database is created for an epoch.
        `trusts_clock`: a check makes sure for a moment, not only who waits for it. `clock` stands for the machine's."""
        self._metastore = metastore
        self._database = database
        self._here = here
        self._relay = relay
        self._several = several
        self._clock = since_boot if clock is None else clock
        self._watch = time.monotonic if clock is None else clock
        """Of vigils: in a machine that was suspended, nobody has watched meanwhile."""
        self._trusts_clock = trusts_clock
        self._process = Process.own() if process is None else process
        self._mark = secrets.token_hex(8)
        self._epoch: TableName | None = None
        """None: there was no database in which one could stand."""
        self._taking = asyncio.Lock()
        self._checking: asyncio.Task[None] | None = None
        """The check that all wait for who must be sure."""
        self._beats = 0
        self._asked_at = -math.inf
        """When the last successful check began, by `since_boot`."""
        self.counts = EpochCounts()
        self.since = time.time()
        """When this gateway has taken its epoch, or has lost it, by the machine's clock."""
        self.runs_scripts = False
        """Whether Spark runs scripts, so that changes fail there once the epoch is gone. Asked for one of several."""
        self.locations: set[str] = set()
        """Locations of the storage database that were seen; more than one if it was changed."""
        self.changing = 0
        """Statements under way that change views or storage."""
        self.lost: str | None = None
        """Why this gateway does not change views; None while it may."""

    @property
    def epoch_view(self) -> TableName | None:
        """This gateway's epoch; None: there was no database in which one could stand."""
        return self._epoch

    @property
    def mark(self) -> str:
        """What other gateways recognize this one by."""
        return self._mark

    @property
    def epoch_number(self) -> int:
        """The number of this gateway's epoch; 0: there was no database in which one could stand."""
        return 0 if self._epoch is None else epochs.number_of(self._epoch)

    def vigil(self) -> Vigil:
        """Something that watches the mark of another gateway."""
        return Vigil(self._process, self._watch)

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

    async def examine(self) -> None:
        """Raises UnsafeMetastore for one that may show an epoch for longer than it stands."""
        await unsafe_metastore.refuse(self._metastore)

    async def other(self) -> PresenceMark | None:
        """The mark of another gateway; None if there is none.

        Of several epochs, that is the first one: a gateway that creates the next one has not taken over before it has
        dropped those before it.
        """
        for epoch in await self._epochs():
            if (found := await self._properties(epoch)) is not None and found.get(GATEWAY) != self._mark:
                return _presence(found, epochs.number_of(epoch))
        return None

    async def take(self) -> Predecessor:
        """Creates the next epoch if the storage database exists; otherwise it is created with the database. A gateway
        that may not write stays so until `regain`. Returns how the gateway before has ended. Raises Superseded if
        another gateway does the same.
        """
        async with self._taking:
            return await self._take()

    async def _take(self) -> Predecessor:
        if not await self._found_database():
            self._epoch = None
            return Predecessor.NONE
        if self._several:
            self.runs_scripts = await self._tries_scripts()
        before = await self._epochs()
        last = await self._properties(before[-1]) if before else None
        epoch = epochs.epoch_view(self._database, epochs.number_of(before[-1]) + 1 if before else 1)
        await self._create(epoch)
        for each in before:
            await self._metastore.run(maintenance.drop_view(each))
        # A gateway that was late may have created one that was dropped long ago, or another one has the next.
        if (await self._epochs())[-1:] != [epoch]:
            raise Superseded(_superseded(await self._place_of_last()))
        self._epoch, self.since = epoch, time.time()
        if last is None:
            # What was listed and cannot be read may be that of a gateway that runs.
            return Predecessor.LOST if before else Predecessor.NONE
        if RELEASED in last:
            return Predecessor.ENDED
        return Predecessor.YIELDED if YIELDED in last else Predecessor.LOST

    async def _tries_scripts(self) -> bool:
        try:
            await self._metastore.run(epochs.TRIED)
        except StatementFailed as error:
            log.warning(
                "Spark runs no scripts (Spark 4 does, with spark.sql.scripting.enabled), so a change that it carries "
                "out seconds after it was sent takes effect even if another gateway leads by then: %s",
                error,
            )
            return False
        return True

    async def _create(self, epoch: TableName) -> None:
        """Raises Superseded if another gateway has created it at the same moment."""
        place = f"{self._here}, started {time.strftime('%F %T', time.gmtime())} UTC"
        said = {
            GATEWAY: self._mark,
            WHERE: place.encode().hex(),
            RELAY: self._relay.encode().hex(),
            PROCESS: str(self._process),
            BEAT: self._next_beat(),
        }
        try:
            await self._metastore.run(epochs.create_epoch(epoch, said))
        except FreshgateError:
            # Spark may have created it although it reports an error.
            if (found := await self._properties(epoch)) is None:
                raise
            if found.get(GATEWAY) != self._mark:
                raise Superseded(_superseded(_place(found.get(WHERE, "")))) from None

    async def beat(self) -> None:
        """Gives a sign of life, if this gateway has an epoch. Raises Superseded."""
        if await self._confirm():
            await self._set({BEAT: self._next_beat()})
            await self._has_database()

    async def leave(self) -> None:
        """Records that this gateway is being stopped, so that the next one waits for its end."""
        if self.lost is None:
            await self._set({LEAVING: "true"})

    async def is_at(self, metastore: Metastore) -> bool:
        """Whether this is the metastore in which the epoch of this gateway stands, or stood until another gateway took
        over. True if it has none. Raises what the metastore raises."""
        if self._epoch is None:
            return True
        standing = epochs.epochs_in(self._database, await metastore.views(self._database, epochs.PATTERN))
        if self._epoch not in standing:
            own = epochs.number_of(self._epoch)
            return any(epochs.number_of(each) > own for each in standing)
        return (await metastore.properties(self._epoch)).get(GATEWAY) == self._mark

    async def holds(self) -> bool:
        """Whether the epoch of this gateway stands, whether it may write or not. True without a database, in which
        there is none of another one."""
        if self._epoch is not None and await self._stands(self._epoch):
            return True
        return not await self._has_database()

    def regain(self) -> None:
        """From now on this gateway may write again: `take` has put its mark, and the catalog is read anew."""
        self.lost = None

    async def check_lately(self) -> None:
        """As `check`, unless the last check was a moment ago."""
        self.raise_if_lost()
        if not self.is_sure(LATELY):
            await self.check()

    async def look_lately(self) -> None:
        """As `check_lately`, for whoever changes nothing."""
        if not self.is_sure(LATELY):
            await self._confirm()

    def is_sure(self, seconds: float) -> bool:
        """Whether this gateway was the one that may write at most so many seconds ago, or a moment ago."""
        return self.lost is None and self._clock() - self._asked_at <= max(LATELY, seconds)

    async def sure(self) -> None:
        """Returns if no other gateway can have told a client anything before this call: the last check began less than
        SURE_SECONDS ago, if the clock is trusted, or one that begins after the call succeeds. Any number of callers
        share a check.

        Raises Superseded, and what Spark raises if the check fails: then it is not known.
        """
        called = self._clock()
        while self._asked_at < called and not self.is_sure_now:
            if self._checking is None:
                self._checking = asyncio.ensure_future(self._check_for_all())
                # Its callers get an error. If all of them were cancelled, asyncio would log that nobody took it.
                self._checking.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.shield(self._checking)
        self._tell_loss()

    async def sure_to_change(self) -> None:
        """As `sure`, for a change of views or storage."""
        try:
            await self.sure()
        except Superseded:
            self.counts.fenced[What.CHANGE] += 1
            raise

    async def _check_for_all(self) -> None:
        try:
            await self._confirm()
        finally:
            # Here, and not in a callback: who calls `sure` before that ran would wait for what is over, without end.
            self._checking = None

    @property
    def is_sure_now(self) -> bool:
        """Whether `sure` would return without a check."""
        recent = self._trusts_clock and self._clock() - self._asked_at < SURE_SECONDS
        return recent and self.lost is None

    async def check(self) -> None:
        """Returns if this gateway may write. Raises Superseded if another gateway has taken over."""
        try:
            await self._confirm()
        except Superseded:
            self.counts.fenced[What.CHANGE] += 1
            raise

    async def _confirm(self) -> bool:
        """As `check`; returns whether there is a database, in which then the epoch of this gateway stands."""
        self._tell_loss()
        asked_at = self._clock()
        epoch = self._epoch
        try:
            if epoch is None or not await self._stands(epoch):
                async with self._taking:
                    # A concurrent check may have reported it already, or created one.
                    self._tell_loss()
                    if self._epoch == epoch and not await self._retake():
                        return False
        finally:
            self.counts.check_seconds.add(self._clock() - asked_at)
        # It may have stepped down meanwhile.
        self._tell_loss()
        self._asked_at = max(self._asked_at, asked_at)
        return True

    async def _retake(self) -> bool:
        """Creates an epoch where there is none: the database is new or was recreated. Returns whether there is a
        database. Raises Superseded if another gateway has one."""
        if not await self._found_database():
            self._epoch = None
            return False
        standing = await self._epochs()
        if self._epoch is not None and self._epoch in standing:
            # The metastore had a fault, unless the database was recreated.
            if (found := await self._properties(self._epoch)) is None:
                raise FreshgateError(f"Spark lists {self._epoch}, and cannot find it. Try again later.")
            if found.get(GATEWAY) == self._mark:
                return True
        try:
            if standing:
                raise Superseded(_superseded(await self._place_of_last()))
            await self._take()
        except Superseded as error:
            self.lost, self.since = str(error), time.time()
            log.error("%s", self.lost)
            raise
        return True

    def raise_if_lost(self) -> None:
        """Raises Superseded if that is known, without asking the metastore."""
        if self.lost is not None:
            self.counts.fenced[What.CHANGE] += 1
        self._tell_loss()

    def _tell_loss(self) -> None:
        if self.lost is not None:
            raise Superseded(self.lost)

    async def release(self) -> None:
        """Records a proper shutdown, so that the next gateway need not wait for unfinished statements of this one. The
        epoch stays, because otherwise its number would be used again."""
        if self.lost is None:
            await self._set({RELEASED: "true"})

    def step_down(self, why: str) -> None:
        """From now on this gateway changes, routes and tells nothing that only the one that leads may; `why` says that
        to clients."""
        if self.lost is None:
            self.lost, self.since = why, time.time()

    async def hand_over(self) -> None:
        """Lets the next gateway lead at once. Call it after `step_down`, when nothing that changes views is under
        way."""
        await self._set({YIELDED: "true"})

    def _next_beat(self) -> str:
        self._beats += 1
        return f"{self._mark}_{self._beats}"

    async def _set(self, properties: Mapping[str, str]) -> None:
        if self._epoch is not None:
            await self._metastore.run(maintenance.set_definition_properties(self._epoch, properties))

    async def _stands(self, epoch: TableName) -> bool:
        found = await self._properties(epoch)
        return found is not None and found.get(GATEWAY) == self._mark

    async def _properties(self, epoch: TableName) -> Mapping[str, str] | None:
        """None: it cannot be found."""
        try:
            return await self._metastore.properties(epoch)
        except StatementFailed as error:
            if error.sqlstate not in NO_SUCH_VIEW:
                raise
            return None

    async def _epochs(self) -> list[TableName]:
        """In the order of their numbers."""
        return epochs.epochs_in(self._database, await self._metastore.views(self._database, epochs.PATTERN))

    async def _place_of_last(self) -> str:
        for epoch in reversed(await self._epochs()):
            if (found := await self._properties(epoch)) is not None:
                return _place(found.get(WHERE, ""))
        return _place("")

    async def _found_database(self) -> bool:
        """Whether there is a database for an epoch."""
        if await self._has_database():
            return True
        if self._several:
            await self._metastore.run(maintenance.create_database(self._database))
        return self._several

    async def _has_database(self) -> bool:
        """Whether the storage database exists; notes its location."""
        try:
            rows = (await self._metastore.run(maintenance.describe_database(self._database))).rows
        except StatementFailed as error:
            # A metastore with a temporary fault may also report this, but it does not list databases then.
            if error.sqlstate in NO_SUCH_VIEW and self._database not in await self._metastore.databases():
                return False
            raise
        if (location := maintenance.read_database_location(rows)) is not None:
            self.locations.add(location)
        return True


def _presence(found: Mapping[str, str], epoch: int) -> PresenceMark:
    return PresenceMark(
        found.get(GATEWAY, ""),
        _place(found.get(WHERE, "")),
        Process.parse(found.get(PROCESS, "")),
        found.get(BEAT, ""),
        leaving=LEAVING in found,
        ended=RELEASED in found or YIELDED in found,
        relay=_decoded(found.get(RELAY, "")),
        epoch=epoch,
    )


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
