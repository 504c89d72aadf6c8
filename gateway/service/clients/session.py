"""Sessions: what the gateway knows of a client's session at Spark."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager

from gateway import loops
from gateway.errors import FreshgateError, LimitReached, Stopping, UpstreamLost
from gateway.mv.ports import SqlSession
from gateway.service.clients.side_connections import SideConnection
from gateway.service.clients.sides import Sides
from gateway.service.clients.temporary_views import SharedViews, TemporaryViews
from gateway.service.clients.transaction import Transaction
from gateway.service.clients.unseen import Unseen, settle
from gateway.service.operations.operation import End, ForwardedOperation, Operation
from gateway.wire import request
from gateway.wire.frame import WireError
from gateway.wire.message import STATUS_ERROR, Handle, OpenCall, opened, reply_status
from gateway.wire.sasl import Login
from sql.names import SESSION_CATALOG, Namespace
from sql.words import Words

log = logging.getLogger(__name__)

DATABASE_KEY = "use:database"
INCREMENTAL_COLLECT = "incrementalcollect"
"""The word of spark.sql.thriftServer.incrementalCollect."""
CLOSE_SECONDS = 10.0
"""For telling Spark that a session is over."""
ENDED_TOGETHER = 64
"""Sessions that are closed at one time; one that Spark does not answer for keeps its place for CLOSE_SECONDS."""
MOVING_SECONDS = 5.0
"""How long a cancelled statement may still change the current database."""
FETCHING_SECONDS = 5.0
"""A client that fetches a result asks for the next page sooner. Whether it has had the last one nobody knows: drivers
close what they have read to its end, and people leave open what they look at."""


_LOOSE = "http"


class Place:
    """Room for one session, counted from the request to open it until it is over: in each counter under the key."""

    def __init__(self, *counted: tuple[Counter[str], str]) -> None:
        self._counted = counted
        self._taken = True
        for counter, key in counted:
            counter[key] += 1

    def free(self) -> None:
        """Gives it back, once, however often it is called."""
        if not self._taken:
            return
        self._taken = False
        for counter, key in self._counted:
            counter[key] -= 1
            if not counter[key]:
                del counter[key]


class Session:
    """One session: its client's handle, Spark's handle, what names mean in it, and its open operations.

    The two handles are the same until Spark is lost and the session is opened anew.
    """

    def __init__(
        self,
        handle: Handle,
        protocol: int,
        user: str,
        login: Login,
        call: OpenCall,
        open_payload: bytes,
        sides: Sides,
        leads_elsewhere: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.handle = handle
        self.upstream_handle = handle
        self.protocol = protocol
        self.user = user
        self.peer = ""
        """The address of the client that has opened it."""
        self.place: Place | None = None
        self.began = time.monotonic()
        self.closed = False
        """Its client has closed it."""
        self.over = False
        """Nothing of it is at Spark any more."""
        self.stopped = False
        """The gateway has ended it with itself."""
        self.call = call
        """The request that opened it."""
        self.temporary = TemporaryViews()
        self.shared = SharedViews()
        self.transaction = Transaction.of(call.configuration)
        """The versions that its transaction sees."""
        self.operations: dict[bytes, Operation | ForwardedOperation] = {}
        self.lost = False
        """Spark went away; the next statement fails with the news, the one after it finds a new session."""
        self.told_lost = False
        self.used = time.monotonic()
        """When its client last asked for something."""
        self.outstanding = 0
        """Statements whose reply is due from Spark."""
        self._drifted = False
        self._has_ended = False  # Spark has closed it, so that nothing of it ends with a connection.
        self._reopening = asyncio.Lock()
        self.collects_in_parts = any(INCREMENTAL_COLLECT in key.lower() for key in call.configuration)
        """Spark may make this session's rows only when they are fetched, and all of them again to go back."""
        self.tied = True
        """Spark ends it with the connection that it was opened on; not so over HTTP."""
        self.anchored = False
        """It was opened on its own connection to Spark, not on one of the client's."""
        self._login = login
        self._open_payload = open_payload
        self._sides = sides
        self._side: SideConnection | None = None
        self._side_lock = asyncio.Lock()
        self._first_namespace = _first_namespace(call, leads_elsewhere)
        self.namespace: Namespace | None = self._first_namespace
        """None: unknown, Spark is asked when a name must be resolved. Where it is uncertain, that of before."""
        self.moved = 0
        """Grows with each statement that has ended and may have changed the namespace."""
        self._moving_until = 0.0
        self.unseen: dict[Unseen, None] = {}
        """Statements whose end nobody has seen, and that change what names mean, or settings that matter here."""

    async def sql(self) -> SqlSession:
        """To run the gateway's own statements in this session. Raises UpstreamLost."""
        return (await self.side()).session(self.upstream_handle)

    async def side(self) -> SideConnection:
        """The session's second connection to Spark, opened when first needed and again when it broke."""
        return await self._connected(to_end=False)

    async def _connected(self, *, to_end: bool) -> SideConnection:
        async with self._side_lock:
            if self.over and not to_end:
                raise UpstreamLost("The session is closed.")
            if self._side is None or not self._side.alive:
                if self.adrift and not self.lost:
                    self._drifted = True
                    raise UpstreamLost("The connection of this session to Spark broke, and the session with it.")
                self._side = await self._sides.connect(self._login)
            return self._side

    def touch(self) -> bool:
        """It is used now. Always true."""
        self.used = time.monotonic()
        return True

    def anchor(self, side: SideConnection) -> None:
        """The session was opened on this connection."""
        self._side, self.anchored = side, True

    @property
    def adrift(self) -> bool:
        """The connection that it was opened on is gone, and so is the session at Spark."""
        gone = self._drifted or self._side is None or not self._side.alive
        return self.tied and self.anchored and gone

    async def end(self) -> None:
        """Ends it at Spark, with all that runs in it and though it is over here; a Spark that is gone has done so."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                if not self.lost:
                    side = await self._connected(to_end=True)
                    closed = reply_status(await side.forward(request.close_session(self.upstream_handle)))
                    self._has_ended = closed.code != STATUS_ERROR
        except (FreshgateError, WireError, TimeoutError) as error:
            why = str(error) or f"no answer within {CLOSE_SECONDS:g} seconds"
            log.info("a session of %s could not be closed at Spark: %s", self.user, why)

    def is_busy(self) -> bool:
        """A statement runs, as far as its client has seen, or may be between two pages of its rows."""
        if self.outstanding:
            return True
        if self.operations and time.monotonic() - self.used < FETCHING_SECONDS:
            return True
        return not self.lost and any(not operation.ended for operation in self.operations.values())

    def runs_own(self) -> bool:
        """A statement of the gateway's own runs."""
        return any(isinstance(each, Operation) and not each.settled for each in self.operations.values())

    # --- what names mean ---------------------------------------------------------------------------

    def spare(self) -> AbstractAsyncContextManager[SideConnection]:
        """A further connection to Spark, for a question that Spark may hold for seconds. Entering raises
        UpstreamLost."""
        return self._sides.spare(self._login)

    def watch(self, statement: Unseen) -> None:
        """The statement is about to be forwarded: from now on it may be done."""
        self.unseen[statement] = None

    def ended(self, statement: Unseen, end: End) -> None:
        """The statement has ended. One that was never sent has changed nothing."""
        if self.unseen.pop(statement, self) is None and statement.moves:
            self.moved += 1
            self.namespace = None
            if end is End.UNKNOWN:
                self._moving_until = time.monotonic() + MOVING_SECONDS

    async def settle(self) -> None:
        """What the session's statements have changed is known afterwards, but for those that Spark is still busy with:
        a client need not ask whether they have ended."""
        if self.unseen and not self.lost:
            await settle(self.unseen)

    @property
    def namespace_uncertain(self) -> bool:
        """The current database, or catalog, may be another one by the time that Spark reads the next statement."""
        return any(each.moves for each in self.unseen) or time.monotonic() < self._moving_until

    @property
    def moving_words(self) -> list[Words]:
        """The identifiers of each statement that may be changing the current database now."""
        return [each.words for each in self.unseen if each.moves]

    async def resolve_namespace(self) -> Namespace:
        """The current catalog and database; where that is uncertain, as they were a moment ago."""
        while (found := self.namespace) is None:
            asked_after = self.moved
            answer = await (await self.sql()).run("SELECT current_catalog(), current_database()")
            match answer.rows:
                case [(str(catalog), str(database))]:
                    found = Namespace(database.lower(), catalog.lower())
                case _:
                    raise UpstreamLost("Spark did not say what the current database is. Try again.")
            if self.namespace_uncertain:
                return found
            if asked_after == self.moved:
                self.namespace = found
        return found

    async def reopen(self) -> None:
        """Opens the session anew, after Spark went away, with its first configuration; once, whoever asks."""
        async with self._reopening:
            if not self.lost:
                return
            await self.drop_side()
            side = await self.side()
            self.anchored = True  # Though nobody may wait for the reply, Spark may open it.
            answer = opened(await side.forward(self._open_payload))
            if answer is None:
                raise UpstreamLost("Spark does not open the session again. Reconnect.")
            self.upstream_handle = answer[0]
            self._drifted = False
            self.namespace = self._first_namespace
            self.moved += 1
            self._moving_until = 0.0
            self.lost = self.told_lost = False

    @property
    def is_empty(self) -> bool:
        """Nothing of its client's is open in it."""
        return not self.operations and not self.outstanding

    @property
    def has_own(self) -> bool:
        """Something of the gateway's own belongs to it: an operation, or a second connection to Spark."""
        return self._side is not None or any(isinstance(each, Operation) for each in self.operations.values())

    async def drop_side(self) -> None:
        side, self._side = self._side, None
        if side is None:
            return
        if self.tied and self.anchored and not self._has_ended:
            await side.close()  # Spark ends the session with it.
        else:
            await self._sides.give_back(self._login, side)

    async def cancel_own(self) -> None:
        """Stops the gateway's own operations of this session."""
        own = [operation for operation in self.operations.values() if isinstance(operation, Operation)]
        await asyncio.gather(*(operation.cancel() for operation in own))


def _first_namespace(call: OpenCall, leads_elsewhere: Callable[[str], bool]) -> Namespace | None:
    """The namespace that a session begins with; None where only Spark can tell.

    Spark runs the database as the rest of a USE statement, so that it may be quoted, of another catalog, or a comment.
    """
    configuration = call.configuration
    if any("catalog" in key.lower() or _is_other_use(key) for key in configuration):
        return None
    database = configuration.get(DATABASE_KEY, "default")
    if _PLAIN_NAME.fullmatch(database) is None or leads_elsewhere(database.lower()):
        return None
    return Namespace(database.lower(), SESSION_CATALOG)


def _is_other_use(key: str) -> bool:
    """USE in another way than by the one key of which it is known what Spark does with it."""
    return key.strip().lower().startswith("use:") and key != DATABASE_KEY


_PLAIN_NAME = re.compile(r"[a-z]\w*", re.ASCII | re.IGNORECASE)


def at_spark(operation: Operation | ForwardedOperation) -> ForwardedOperation | None:
    """The operation at Spark, where there is one."""
    return operation if isinstance(operation, ForwardedOperation) else operation.continued


class Sessions:
    """Every open session and operation, by handle: a handle works from any connection, but only for its user.

    `per_user_max`: sessions of one user that are open or being opened, 0 for any number. `loose_seconds`: how long a
    session may be unused that does not end with a client's connection, 0 for ever. `loose_max`: how many such there may
    be, each with a connection to Spark, 0 for any number.
    """

    def __init__(
        self,
        per_user_max: int = 0,
        loose_seconds: float = 0.0,
        loose_max: int = 0,
        *,
        on_end: Callable[[Session], None] = lambda _: None,
        cancel_jobs: Callable[[str], None] = lambda _: None,
        leads_elsewhere: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`on_end` is called for each session that is over. `cancel_jobs` ends the jobs of a statement, by its public
        id. `leads_elsewhere`: whether a session that begins with USE of this name may be in another catalog than
        Spark's own."""
        self._sessions: dict[bytes, Session] = {}
        self._owners: dict[bytes, Session] = {}
        self._per_user_max = per_user_max
        self._loose_seconds = loose_seconds
        self._loose_max = loose_max
        self._loose: dict[bytes, Session] = {}
        self._of_user: Counter[str] = Counter()
        self._of_all: Counter[str] = Counter()
        self._sweeper = loops.Loop("sweep of sessions", self._sweep)
        self._ending_later = 0
        self.shared = SharedViews()
        self.leads_elsewhere = leads_elsewhere
        self.stopping = False
        self.ending = False
        """What ends from here on does so because the gateway does."""
        self._on_end = on_end
        self.cancel_jobs = cancel_jobs

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def operations(self) -> int:
        """How many are open, in all sessions."""
        return len(self._owners)

    def reserve(self, user: str, *, loose: bool = False) -> Place:
        """Room for a session that is about to be opened; whoever asks frees it where none comes of it.

        Raises Stopping, or LimitReached, where the user can open no further session, or nobody one over HTTP.
        """
        if self.stopping:
            raise stopping()
        if loose and 0 < self._loose_max <= self._of_all[_LOOSE]:
            raise LimitReached(
                f"{self._of_all[_LOOSE]} sessions are open over HTTP; limits.http_sessions allows no more. Close some."
            )
        if 0 < self._per_user_max <= self._of_user[user]:
            raise LimitReached(
                f"{user} has {self._of_user[user]} open sessions; limits.sessions_per_user allows no more. Close some."
            )
        return Place((self._of_user, user), *([(self._of_all, _LOOSE)] if loose else []))

    def add(self, session: Session, place: Place, *, loose: bool = False) -> None:
        """An open session has the place until it is removed. `loose`: it does not end with a client's connection."""
        self._sessions[session.handle.guid] = session
        session.place, session.shared = place, self.shared
        if loose:
            self._loose[session.handle.guid] = session
            if self._loose_seconds and not self.ending:
                self._sweeper.start()

    async def _sweep(self) -> None:
        await asyncio.sleep(min(self._loose_seconds / 4, 60.0))
        oldest = time.monotonic() - self._loose_seconds
        unused = [session for session in self._loose.values() if self._is_unused(session, oldest)]
        for session in unused:
            log.info("a session of %s is closed: no request for too long (limits.http_session_seconds)", session.user)
        # Many at once: for one of them Spark may not answer, and they may come faster than it answers one.
        await self.end_all(unused)

    def _is_unused(self, session: Session, oldest: float) -> bool:
        return session.used < oldest and not session.outstanding and not session.runs_own()

    @property
    def may_end_later(self) -> bool:
        """Few enough are being ended whose clients do not wait for it: those have no place any more that would limit
        them."""
        return self._ending_later < ENDED_TOGETHER

    async def end_later(self, session: Session) -> None:
        """Closes one that was removed already."""
        self._ending_later += 1
        try:
            await session.end()
            await session.drop_side()
        finally:
            self._ending_later -= 1

    async def end(self, session: Session) -> None:
        """Closes a session of which no client speaks any more."""
        session.stopped = self.ending
        await session.cancel_own()
        await session.end()
        self.remove(session)
        await session.drop_side()

    async def close(self) -> None:
        """Closes the sessions that end with no connection."""
        self._sweeper.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * CLOSE_SECONDS):
                await self.end_all(list(self._loose.values()))

    async def end_all(self, sessions: Sequence[Session]) -> None:
        """Whatever one of them runs into, the others must be ended too. Each may need a connection to Spark."""
        gate = asyncio.Semaphore(ENDED_TOGETHER)

        async def end(session: Session) -> None:
            async with gate:
                await self.end(session)

        for outcome in await asyncio.gather(*(end(each) for each in sessions), return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("a session could not be ended", exc_info=outcome)

    def busy(self) -> int:
        """How many have a statement that their client waits for."""
        return sum(session.is_busy() for session in self._sessions.values())

    def abandon(self) -> None:
        """The gateway ends, and Spark has not said in time that these have ended."""
        for session in list(self._sessions.values()):
            session.stopped = True
            self.remove(session)

    def remove(self, session: Session) -> None:
        """The session is over: nothing of it runs at Spark any more."""
        known = self._sessions.pop(session.handle.guid, None) is not None
        if session.place is not None:
            session.place.free()
        self._loose.pop(session.handle.guid, None)
        session.over = True
        session.transaction.drop()
        for guid, operation in session.operations.items():
            self._owners.pop(guid, None)
            if (forwarded := at_spark(operation)) is not None:
                self.end_jobs(forwarded)
                forwarded.close()
        session.operations.clear()
        if known:
            self._on_end(session)

    def end_jobs(self, operation: ForwardedOperation) -> None:
        """Of a statement that Spark was told to end: also those that it submits once it is planned."""
        if not operation.ended and not operation.lost:
            self.cancel_jobs(operation.handle.public_id)

    def lose(self, session: Session) -> None:
        """Spark went away, with everything in the session. The gateway's own operations go on."""
        session.lost = True
        session.temporary.clear()
        # Where only the connection broke they are still there; Spark is asked about those that nobody knows.
        self.shared.views.clear()
        session.transaction.drop()
        for operation in session.operations.values():
            if (forwarded := at_spark(operation)) is not None:
                forwarded.lost = True
                forwarded.close()

    def find(self, handle: Handle, users: Collection[str]) -> Session | None:
        session = self._sessions.get(handle.guid)
        if session is None or session.handle != handle or _is_foreign(session, users):
            return None
        session.used = time.monotonic()
        if session.adrift and not session.lost:
            self.lose(session)
        return session

    def add_operation(self, session: Session, handle: Handle, operation: Operation | ForwardedOperation) -> bool:
        """False where the session is over: it was closed from another connection meanwhile."""
        if session.handle.guid not in self._sessions:
            return False
        session.operations[handle.guid] = operation
        self._owners[handle.guid] = session
        return True

    def remove_operation(self, session: Session, handle: Handle) -> None:
        session.operations.pop(handle.guid, None)
        self._owners.pop(handle.guid, None)

    def find_operation(
        self, handle: Handle, users: Collection[str]
    ) -> tuple[Session, Operation | ForwardedOperation] | None:
        """The operation and its session, where the handle is known and belongs to the user."""
        session = self._owners.get(handle.guid)
        if session is None or _is_foreign(session, users):
            return None
        operation = session.operations.get(handle.guid)
        if operation is None or operation.handle != handle:
            return None
        session.used = time.monotonic()
        if session.adrift and not session.lost:
            self.lose(session)
        return session, operation


def _is_foreign(session: Session, users: Collection[str]) -> bool:
    """Another user's handle: nobody comes by one by chance."""
    foreign = session.user not in users
    if foreign:
        log.warning("a handle of a session of %s came from a client that is %s", session.user, ", ".join(users) or "-")
    return foreign


def stopping() -> Stopping:
    return Stopping("The gateway is being stopped and takes nothing new. Connect again in some seconds.")
