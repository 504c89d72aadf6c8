"""Clients' sessions at Spark, as far as the gateway knows them.

Tests: `test_session_model`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from gateway import loops
from gateway.access_list import Principal
from gateway.errors import FreshgateError, LimitReached, StatementFailed, Stopping, UpstreamLost
from gateway.limit_rules import SESSIONS, Bound
from gateway.mv.ports import SqlSession
from gateway.service.clients import transaction
from gateway.service.clients.pending_statement import PendingStatement, settle
from gateway.service.clients.quotas import Quotas
from gateway.service.clients.session_settings import SessionSettings
from gateway.service.clients.side_connections import SideConnection
from gateway.service.clients.sides import Sides
from gateway.service.clients.temporary_views import ANY, ANYTHING, SharedViews, TemporaryViews
from gateway.service.clients.ticket import SessionState
from gateway.service.clients.transaction import Transaction
from gateway.service.operations.operation import End, ForwardedOperation, Operation
from gateway.wire import request
from gateway.wire.frame import WireError
from gateway.wire.message import STATUS_ERROR, Handle, OpenCall, opened, reply_status
from gateway.wire.sasl import Login
from sql.names import SESSION_CATALOG, Namespace
from sql.words import Words

log = logging.getLogger(__name__)

DATABASE_KEY = "use:database"
PROGRESS_KEY = "set:hiveconf:hive.server2.in.place.progress"
INCREMENTAL_COLLECT = "incrementalcollect"
"""Part of the name of spark.sql.thriftServer.incrementalCollect, and, without its points, of
kyuubi.operation.incremental.collect."""
CLOSE_SECONDS = 10.0
"""Time for closing a session at Spark."""
ENDED_TOGETHER = 64
"""Most sessions that are closed concurrently; one that Spark does not answer for takes CLOSE_SECONDS."""
MOVING_SECONDS = 5.0
"""How long a cancelled statement may still change the current database."""
FETCHING_SECONDS = 5.0
"""A client that is fetching a result asks for the next page sooner than this. It is unknown whether it has the last
page: drivers close results that they have read completely, but users leave results open while they view them."""


RUNNING_MAX = 100
"""With more open operations, the next gateway is not told which ones run. Clients have one or two."""
ENDED_SESSION = "Invalid SessionHandle"
"""The start of Spark's message about a session that it does not have."""
_LOOSE = "http"


class SessionPlace:
    """A session's place within the limits: counted in each counter under its key, from OpenSession to its end."""

    def __init__(self, *counted: tuple[Counter[Any], Hashable]) -> None:
        self._counted = counted
        self._taken = True
        for counter, key in counted:
            counter[key] += 1

    def free(self) -> None:
        """Frees the place. Further calls do nothing."""
        if not self._taken:
            return
        self._taken = False
        for counter, key in self._counted:
            counter[key] -= 1
            if not counter[key]:
                del counter[key]


def may_collect_in_parts(words: Words) -> bool:
    """Whether a statement with these lower-case words may change that setting."""
    return INCREMENTAL_COLLECT in words or ("kyuubi" in words and "incremental" in words and "collect" in words)


@dataclass(slots=True)
class Continuity:
    """Whether a session goes on at another gateway, and whether it comes from one."""

    came_as: Login
    """The login with which its client has opened it."""
    moves: bool = False
    """Whether it goes on at the next gateway when this one has gone."""
    arrived: bool = False
    """Whether it comes from another gateway, and Spark has not been asked yet whether it still has it."""
    interrupted: bool = False
    """Whether its transaction ended with another gateway, and its client does not know yet."""
    ties: bool = True
    """Whether Spark ties the sessions that are opened for it to their connections."""
    loose: bool = False
    """Whether it belongs to no connection of its client, because that uses HTTP."""
    stays: bool = False
    """Whether it is loose and cannot go on at the next gateway."""
    taken_over: bool = False
    """Whether it is loose and was opened at another gateway."""
    last: str = ""
    """The digest of the last statement that its client has sent; "" if none, or if it cannot be recognized."""
    last_sender: object = None
    """The connection over which that came, if it came here."""


class Session:
    """A session: the client's handle, Spark's handle, what names mean in it, and its open operations.

    Both handles are the same until Spark is lost and the session is reopened.
    """

    at = ""
    """The name of the server at which it is, if there are several."""
    quotas: Quotas | None = None
    """The numbers that it counts in."""
    groups: frozenset[str] = frozenset()
    """The groups of `user`, as they were when it was opened."""

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
        # Who has logged in is another one if that acts in the user's name (`login.impersonation`).
        self.user = self.account = user
        self.peer = ""
        """The address of the client that opened it."""
        self.place: SessionPlace | None = None
        self.began = time.monotonic()
        self.closed = False
        """Whether its client has closed it."""
        self.over = False
        """Whether nothing of it exists at Spark any more."""
        self.stopped = False
        """Whether it ended because the gateway stopped."""
        self.call = call
        """The request that opened it; `open_payload` is the same one for Spark, in the name of the user."""
        self.temporary = TemporaryViews()
        self.shared = SharedViews()
        self.transaction = Transaction.of(call.configuration)
        """Holds the versions that its transaction sees."""
        self.operations: dict[bytes, Operation | ForwardedOperation] = {}
        self.lost = self.loss_reported = False
        """Whether Spark went away. The next statement fails with that error; the one after it reopens the session."""
        self.used = time.monotonic()
        """When its client last sent a request."""
        self.outstanding = 0
        """The number of statements that Spark has not replied to."""
        # `_has_ended`: whether Spark has closed it, so that nothing depends on its connection.
        self._drifted = self._has_ended = False
        self._reopening = asyncio.Lock()
        self.collects_in_parts = any(INCREMENTAL_COLLECT in key.lower().replace(".", "") for key in call.configuration)
        """Whether Spark may compute this session's rows only when they are fetched, and again from the start for
        earlier rows."""
        self.tied = True
        """Whether Spark ends it with the connection on which it was opened: as it does except over HTTP, unless it was
        untied."""
        self.anchored = False
        """Whether it was opened on its own connection to Spark, not on the client's, and may depend on it."""
        self._login = login
        self.open_payload = open_payload
        self.continuity = Continuity(login)
        self._sides = sides
        self._side: SideConnection | None = None
        self._side_lock = asyncio.Lock()
        self._leads_elsewhere = leads_elsewhere
        self.namespace = _first_namespace(call, leads_elsewhere)
        """None if unknown: Spark is asked when a name must be resolved. If it is doubtful, the previous one."""
        self.moved = 0
        """The number of times a statement has begun or ended that may change the namespace."""
        self._moving_until = 0.0
        self.pending: dict[PendingStatement, None] = {}
        """Statements whose end is not known, and that change what names mean, or relevant settings."""
        self.settings = SessionSettings(call.configuration)

    @property
    def who(self) -> Principal:
        """Whose rights count in it."""
        return Principal(self.user, self.groups)

    async def sql(self) -> SqlSession:
        """Runs the gateway's own statements in this session. Raises UpstreamLost."""
        return (await self.side()).session(self.upstream_handle)

    async def side(self) -> SideConnection:
        """The session's second connection to Spark, opened when first needed, and again if it broke."""
        return await self._connected(to_end=False)

    async def _connected(self, *, to_end: bool) -> SideConnection:
        async with self._side_lock:
            if self.over and not to_end:
                raise UpstreamLost("The session is closed.")
            if self._side is None or not self._side.alive:
                if self.adrift and not self.lost:
                    self._drifted = True
                    raise UpstreamLost("The connection of this session to Spark broke, which ended the session.")
                self._side = await self._sides.connect(self._login, at=None if self.lost else self.at)
            return self._side

    def touch(self) -> bool:
        """Records that the session is used now. Always returns True."""
        self.used = time.monotonic()
        return True

    def anchor(self, side: SideConnection) -> None:
        """The session was opened on this connection."""
        self._side, self.anchored, self.at = side, True, side.at

    async def untie(self) -> None:
        """Makes Spark keep the session when the connection on which it was opened ends: Spark closes the session that
        was opened last there, unless one was closed since. Raises UpstreamLost, WireError."""
        if not (self.tied and self.anchored):
            return
        async with self._side_lock:
            side = self._side
            if side is None:
                return
            other = opened(await side.forward(self.open_payload))
            if other is None:
                return
            closed = reply_status(await side.forward(request.close_session(other[0])))
            if closed.code == STATUS_ERROR or self.over:
                return
            self.tied = False
            if self.continuity.loose:
                return  # The end of this connection is the only sign that Spark may have gone.
            self.anchored = False
            if not side.busy:
                self._side = None
                await self._sides.give_back(self._login, side)

    @property
    def state(self) -> SessionState:
        """What the next gateway must know of it."""
        running: tuple[Handle, ...] = ()
        if len(self.operations) <= RUNNING_MAX:
            found = (at_spark(each) for each in self.operations.values())
            running = tuple(each.handle for each in found if each is not None and not (each.ended or each.lost))
        return SessionState(
            self.upstream_handle,
            self.settings.rewrites,
            self.settings.keeps_results,
            self.transaction.session,
            self.transaction.active,
            self.collects_in_parts,
            running,
            self.at,
            self.settings.lineage_parent,
            self.settings.from_memory,
        )

    def arrive(self, state: SessionState, moving_seconds: float = MOVING_SECONDS) -> None:
        """It goes on here. What another gateway knew of it is doubtful: names, settings and temporary views may be any,
        and a statement that was under way may still change them, for so many seconds."""
        self.upstream_handle, self.at = state.upstream_handle, state.at
        self.tied, self.continuity.arrived, self.continuity.interrupted = False, True, state.in_transaction
        self.settings.rewrites, self.settings.keeps_results = state.rewrites, state.keeps_results
        self.settings.lineage_parent = state.lineage_parent
        self.settings.from_memory = state.from_memory
        self.settings.doubt()
        self.transaction.set_session(state.whole_snapshot)
        self.collects_in_parts = state.collects_in_parts
        self.temporary.may_make(ANY, ANYTHING)
        self.namespace = None
        self._moving_until = time.monotonic() + moving_seconds
        # As one that was opened here, except that it has no connection yet.
        self.anchored = self.continuity.loose

    async def confirm(self, recall: Callable[[Session], Awaitable[None]] | None = None) -> None:
        """Asks Spark whether it still has a session that has arrived; if not, it is lost. `recall`: then asks Spark
        what may have changed since its ticket was made. Raises StatementFailed, UpstreamLost."""
        async with self._reopening:
            if self.continuity.arrived and not self.lost:
                self.namespace = None
                try:
                    await self.resolve_namespace()
                    if recall is not None:
                        await recall(self)
                except (UpstreamLost, StatementFailed) as error:
                    ended = isinstance(error, StatementFailed) and str(error).startswith(ENDED_SESSION)
                    # A session that belongs to no connection does not end with one.
                    if not ended and (self.continuity.loose or isinstance(error, StatementFailed)):
                        raise
                    log.info("a session of %s cannot go on: %s", self.user, error)
                    self.lost = True
                    self.temporary.clear()
            self.continuity.arrived = False

    async def mark_transaction(self, open_: bool) -> None:
        """Tells Spark whether a transaction is open, for the next gateway. Raises UpstreamLost, StatementFailed."""
        text = f"SET {transaction.MARK} = {transaction.OPEN}" if open_ else f"RESET {transaction.MARK}"
        await (await self.sql()).run(text)

    @property
    def adrift(self) -> bool:
        """Whether the connection on which it was opened is gone, and therefore the session at Spark."""
        gone = self._drifted or self._side is None or not self._side.alive
        return self.tied and self.anchored and gone

    def doubt(self) -> None:
        """If the connection of a loose session is gone, Spark may have gone with the session: it is asked before the
        next request."""
        loose = self.continuity.loose and self.continuity.ties and not (self.tied or self.lost)
        if loose and (self._side is None or not self._side.alive):
            self.continuity.arrived = True

    async def end(self) -> None:
        """Ends the session and everything in it at Spark, even if it is over here. If Spark is lost, it has ended."""
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
        """Whether a statement runs, as far as its client knows, or its client may be fetching rows."""
        if self.outstanding:
            return True
        if self.operations and time.monotonic() - self.used < FETCHING_SECONDS:
            return True
        return not self.lost and any(not operation.ended for operation in self.operations.values())

    def runs_own(self) -> bool:
        """Whether one of the gateway's own statements runs."""
        return any(isinstance(each, Operation) and not each.settled for each in self.operations.values())

    @property
    def shows_progress(self) -> bool:
        """Whether the states of the gateway's operations have a progress bar for clients that ask for one."""
        return self.call.configuration.get(PROGRESS_KEY, "").lower() != "false"

    # --- what names mean ---------------------------------------------------------------------------

    def spare(self) -> AbstractAsyncContextManager[SideConnection]:
        """Another connection to Spark, for requests that Spark may hold for seconds. Entering raises UpstreamLost."""
        return self._sides.spare(self._login, self.at)

    def watch(self, statement: PendingStatement) -> None:
        """The statement is about to be forwarded: from now on it may take effect."""
        self.pending[statement] = None
        if statement.moves:
            self.moved += 1
        self.settings.changes += 1

    def ended(self, statement: PendingStatement, end: End) -> None:
        """The statement has ended. A statement that was never sent has changed nothing."""
        if self.pending.pop(statement, self) is None and statement.moves:
            self.moved += 1
            before, self.namespace = self.namespace, None
            if end is End.SUCCEEDED and statement.used:
                self.namespace = self._after_use(statement.used, before)
            if end is End.UNKNOWN:
                self._moving_until = time.monotonic() + MOVING_SECONDS

    def _after_use(self, text: str, before: Namespace | None) -> Namespace | None:
        """The namespace after a USE that has succeeded; None if only Spark knows. PyHive begins each session with
        one."""
        found = _PLAIN_USE.fullmatch(text)
        if found is None or before is None or before.catalog != SESSION_CATALOG or self.namespace_doubtful:
            return None
        if any("catalog" in key.lower() for key in self.call.configuration):
            return None
        # A setting may have made a catalog of this name.
        name = found["name"].lower()
        known = self.settings.has_only_run(text) and not self._leads_elsewhere(name)
        return Namespace(name, SESSION_CATALOG) if known else None

    async def settle(self) -> None:
        """Determines what the session's statements have changed, except for those that still run at Spark: the client
        need not have asked whether they have ended."""
        if self.pending and not self.lost:
            await settle(self.pending)

    @property
    def namespace_doubtful(self) -> bool:
        """Whether the current database or catalog may have changed by the time Spark reads the next statement."""
        return any(each.moves for each in self.pending) or time.monotonic() < self._moving_until

    @property
    def moving_words(self) -> list[Words]:
        """The identifiers of each statement that may currently be changing the current database."""
        return [each.words for each in self.pending if each.moves]

    async def resolve_namespace(self) -> Namespace:
        """The current catalog and database; if doubtful, as they were a moment ago."""
        while (found := self.namespace) is None:
            asked_after = self.moved
            answer = await (await self.sql()).run("SELECT current_catalog(), current_database()")
            match answer.rows:
                case [(str(catalog), str(database))]:
                    found = Namespace(database.lower(), catalog.lower())
                case _:
                    raise UpstreamLost("Spark did not return the current database. Try again.")
            if self.namespace_doubtful:
                return found
            if asked_after == self.moved:
                self.namespace = found
        return found

    @contextlib.asynccontextmanager
    async def twin(self) -> AsyncIterator[SqlSession]:
        """Another session at Spark, opened by the same request as this one was. Raises UpstreamLost."""
        side = await self._sides.connect(self._login, at=self.at)
        try:
            answer = opened(await side.forward(self.open_payload))
            if answer is None:
                raise UpstreamLost("Spark refuses to open another session.")
            try:
                yield side.session(answer[0])
            finally:
                with contextlib.suppress(FreshgateError, WireError, TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await side.forward(request.close_session(answer[0]))
        finally:
            # Not kept for others: the session may still be open.
            await side.close()

    async def reopen(self) -> None:
        """Reopens the session with its first configuration after Spark went away. Concurrent calls reopen it once."""
        async with self._reopening:
            if not self.lost:
                return
            await self.drop_side()
            side = await self.side()
            # Set before the reply, because Spark may open it even if this call is cancelled.
            self.tied, self.anchored = self.continuity.ties, True
            answer = opened(await side.forward(self.open_payload))
            if answer is None:
                raise UpstreamLost("Spark refuses to reopen the session. Reconnect.")
            self.upstream_handle, self.at = answer[0], side.at
            self._drifted = False
            self.namespace = _first_namespace(self.call, self._leads_elsewhere)
            self.settings.reopened()
            self.moved += 1
            self._moving_until = 0.0
            self.lost = self.loss_reported = False
            if self.continuity.loose and self.at:
                # An old ticket could lead back to the server that was lost, and may have kept the session.
                self.continuity.moves, self.continuity.stays = False, True
        if self.continuity.moves:
            await self.untie()

    @property
    def is_empty(self) -> bool:
        """Whether its client has no open operations in it."""
        return not self.operations and not self.outstanding

    @property
    def has_own(self) -> bool:
        """Whether it has resources of the gateway's: an own operation, or a second connection to Spark."""
        return self._side is not None or any(isinstance(each, Operation) for each in self.operations.values())

    async def drop_side(self) -> None:
        side, self._side = self._side, None
        if side is None:
            return
        if self.tied and self.anchored and not self._has_ended:
            await side.close()  # Spark ends the session with this connection.
        else:
            await self._sides.give_back(self._login, side)

    async def cancel_own(self) -> None:
        """Cancels the gateway's own operations in this session."""
        own = [operation for operation in self.operations.values() if isinstance(operation, Operation)]
        await asyncio.gather(*(operation.cancel() for operation in own))


def _first_namespace(call: OpenCall, leads_elsewhere: Callable[[str], bool]) -> Namespace | None:
    """The namespace with which a session begins; None if only Spark knows.

    Spark executes USE with the database's text, which may therefore be quoted, name another catalog, or be a comment.
    """
    configuration = call.configuration
    if any("catalog" in key.lower() or _is_other_use(key) for key in configuration):
        return None
    database = configuration.get(DATABASE_KEY, "default")
    if _PLAIN_NAME.fullmatch(database) is None or leads_elsewhere(database.lower()):
        return None
    return Namespace(database.lower(), SESSION_CATALOG)


def _is_other_use(key: str) -> bool:
    """Whether the key selects a database in another way than by DATABASE_KEY, whose effect in Spark is known."""
    return key.strip().lower().startswith("use:") and key != DATABASE_KEY


_PLAIN_NAME = re.compile(r"[a-z]\w*", re.ASCII | re.IGNORECASE)
_PLAIN_USE = re.compile(r"\s*use\s+(?P<quote>`?)(?P<name>[a-z]\w*)(?P=quote)\s*", re.ASCII | re.IGNORECASE)


def at_spark(operation: Operation | ForwardedOperation) -> ForwardedOperation | None:
    """The operation at Spark, if there is one."""
    return operation if isinstance(operation, ForwardedOperation) else operation.continued


class Sessions:
    """All open sessions and operations, by handle. A handle works from any connection, but only for its user.

    `per_user_max`: most sessions of a user that are open or being opened; 0: unlimited. A loose session does not end
    with a client's connection, and has its own connection to Spark. `loose_seconds`: how long it may be unused; 0:
    unlimited. `loose_max`: most loose sessions; 0: unlimited. `operations_max`: most open operations of one session, so
    that a client that closes none cannot exhaust memory; 0: unlimited. `quotas`: the rules of limits.rules; one about
    a user's sessions takes precedence over `per_user_max`.
    """

    def __init__(
        self,
        per_user_max: int = 0,
        loose_seconds: float = 0.0,
        loose_max: int = 0,
        operations_max: int = 10_000,
        quotas: Quotas | None = None,
        *,
        on_end: Callable[[Session], None] = lambda _: None,
        cancel_jobs: Callable[[str], None] = lambda _: None,
        leads_elsewhere: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`on_end` is called for each session that is over. `cancel_jobs` ends the jobs of a statement, by its public
        id. `leads_elsewhere`: whether USE with this name may select another catalog than Spark's own."""
        self._sessions: dict[bytes, Session] = {}
        self._owners: dict[bytes, Session] = {}
        self._per_user_max = per_user_max
        self._loose_seconds = loose_seconds
        self._loose_max = loose_max
        self.operations_max = operations_max
        self._loose: dict[bytes, Session] = {}
        self._of_user: Counter[str] = Counter()
        self._of_all: Counter[str] = Counter()
        self.quotas = quotas if quotas is not None else Quotas()
        self._sweeper = loops.Loop("sweep of sessions", self._sweep)
        self._ending_later = 0
        self.shared = SharedViews()
        self.leads_elsewhere = leads_elsewhere
        self.stopping = False
        self.ending = False
        """Whether sessions now end because the gateway stops."""
        self._on_end = on_end
        self.cancel_jobs = cancel_jobs
        self.stands: Callable[[], Awaitable[bool]] | None = None
        """Whether this gateway leads at this moment; None if no other one waits to take over."""
        self.loose_changed: Callable[[Session], None] = lambda _: None
        """Called when a loose session may have another ticket than before, or none."""
        self.loose_move: Callable[[], bool] = bool
        """Whether loose sessions that are opened now go on at the next gateway."""
        self.taken_over: set[str] = set()
        """The accounts of loose sessions that were opened at another gateway."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def operations(self) -> int:
        """The number of open operations in all sessions."""
        return len(self._owners)

    def place_for(self, who: Principal, peer: str, *, loose: bool = False) -> SessionPlace:
        """A place for a session that is open already, whatever the limits say."""
        return self._place(who, self.quotas.rules.bounds(SESSIONS, who, peer), loose=loose)

    def _place(self, who: Principal, bounds: Iterable[Bound], *, loose: bool = False) -> SessionPlace:
        counted: list[tuple[Counter[Any], Hashable]] = [(self._of_user, who.name)]
        counted += [(self.quotas.sessions, bound) for bound in bounds]
        return SessionPlace(*counted, *([(self._of_all, _LOOSE)] if loose else []))

    def reserve(self, who: Principal, peer: str = "", *, loose: bool = False) -> SessionPlace:
        """Reserves a place for a session that is about to be opened. The caller frees it if opening fails.

        `peer`: the client's address. Raises Stopping, or LimitReached for the user's sessions, for those that a rule of
        limits.rules counts, or for sessions over HTTP.
        """
        if self.stopping:
            raise stopping()
        if loose and 0 < self._loose_max <= self._of_all[_LOOSE]:
            raise LimitReached(
                f"{self._of_all[_LOOSE]} sessions are open over HTTP; limits.connections allows no more. Close some."
            )
        bounds, open_sessions = self.quotas.check_session(who, peer), self._of_user[who.name]
        is_ruled = self.quotas.rules.says_of_each_user(SESSIONS, who, peer)
        if 0 < self._per_user_max <= open_sessions and not is_ruled:
            raise LimitReached(
                f"{who} has {open_sessions} open sessions; limits.sessions_per_user allows no more. Close some."
            )
        return self._place(who, bounds, loose=loose)

    def add(self, session: Session, place: SessionPlace, *, loose: bool = False) -> None:
        """Adds an open session, which keeps the place until it is removed."""
        self._sessions[session.handle.guid] = session
        session.place, session.shared, session.quotas = place, self.shared, self.quotas
        if loose:
            self._loose[session.handle.guid] = session
            self.loose_changed(session)
            if self._loose_seconds and not self.ending:
                self._sweeper.start()

    async def _sweep(self) -> None:
        await asyncio.sleep(min(self._loose_seconds / 4, 60.0))
        oldest = time.monotonic() - self._loose_seconds
        unused = [session for session in self._loose.values() if self._is_unused(session, oldest)]
        if unused and self.stands is not None and not await self.stands():
            return  # Their clients use them at the next gateway.
        for session in unused:
            log.info("closing a session of %s: no request within limits.http_session_seconds", session.user)
        # Concurrently, because Spark may not answer for one of them, and new ones may expire faster than it answers.
        await self.end_all(unused)

    def _is_unused(self, session: Session, oldest: float) -> bool:
        return session.used < oldest and not session.outstanding and not session.runs_own()

    @property
    def may_end_later(self) -> bool:
        """Whether a session may be closed without its client waiting: such sessions have freed their places, so their
        number is limited here."""
        return self._ending_later < ENDED_TOGETHER

    async def end_later(self, session: Session) -> None:
        """Closes a session that was already removed."""
        self._ending_later += 1
        try:
            await session.end()
            await session.drop_side()
        finally:
            self._ending_later -= 1

    async def end(self, session: Session) -> None:
        """Closes a session that no client uses any more."""
        session.stopped = self.ending
        await session.cancel_own()
        await session.end()
        self.remove(session)
        await session.drop_side()

    async def close(self) -> None:
        """Closes the loose sessions, except those that go on at another gateway."""
        self._sweeper.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * CLOSE_SECONDS):
                if self.stands is not None and not await self.stands():
                    for session in [each for each in self._loose.values() if each.continuity.moves]:
                        await self.leave(session)
                await self.end_all(list(self._loose.values()))

    async def end_all(self, sessions: Sequence[Session]) -> None:
        """Closes sessions, independently of each other's errors. Each may need a connection to Spark."""
        gate = asyncio.Semaphore(ENDED_TOGETHER)

        async def end(session: Session) -> None:
            async with gate:
                await self.end(session)

        for outcome in await asyncio.gather(*(end(each) for each in sessions), return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("a session could not be ended", exc_info=outcome)

    def busy(self) -> int:
        """The number of sessions with a statement that their client waits for."""
        return sum(session.is_busy() for session in self._sessions.values())

    def run_own(self) -> bool:
        """Whether one of the gateway's own statements runs in any session."""
        return any(session.runs_own() for session in self._sessions.values())

    async def leave(self, session: Session) -> None:
        """Forgets a session that goes on at the next gateway."""
        session.stopped = True
        await session.cancel_own()
        self.remove(session)
        await session.drop_side()

    def abandon(self) -> None:
        """Removes the sessions that Spark has not ended in time when the gateway stops."""
        for session in list(self._sessions.values()):
            session.stopped = True
            self.remove(session)

    def remove(self, session: Session) -> None:
        """Removes a session that is over: nothing of it runs at Spark any more."""
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
            self.changed(session)

    def changed(self, session: Session) -> None:
        """Something was noted of the session that the next gateway should know."""
        if session.continuity.loose:
            self.loose_changed(session)

    @property
    def loose(self) -> list[Session]:
        """The loose sessions."""
        return list(self._loose.values())

    def end_jobs(self, operation: ForwardedOperation) -> None:
        """Ends the jobs of a cancelled statement, including those that Spark submits once it has planned it."""
        if not operation.ended and not operation.lost:
            self.cancel_jobs(operation.handle.public_id)

    def lose(self, session: Session) -> None:
        """Spark went away, with everything in the session. The gateway's own operations continue."""
        session.lost = True
        session.temporary.clear()
        # If only the connection broke, they still exist; Spark is asked about views that are unknown here.
        self.shared.views.clear()
        session.transaction.drop()
        for operation in session.operations.values():
            if (forwarded := at_spark(operation)) is not None:
                forwarded.lost = True
                forwarded.close()
        self.changed(session)

    def lose_at(self, server: str) -> None:
        """As `lose`, for every session at a server that is lost."""
        for session in self._sessions.values():
            if session.at == server and not session.lost:
                self.lose(session)

    def by_server(self) -> Counter[str]:
        """The number of sessions at each server, by its name."""
        return Counter(session.at for session in self._sessions.values() if not session.lost)

    def find(self, handle: Handle, users: Collection[str]) -> Session | None:
        session = self._sessions.get(handle.guid)
        if session is None or session.handle != handle or _is_foreign(session, users):
            return None
        session.used = time.monotonic()
        if session.adrift and not session.lost:
            self.lose(session)
        session.doubt()
        return session

    def add_operation(self, session: Session, handle: Handle, operation: Operation | ForwardedOperation) -> bool:
        """Adds an operation. Returns False if another connection has closed the session."""
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
        """The session and its operation, if the handle is known and belongs to one of the users."""
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
    """Whether the handle belongs to another user. Handles cannot be guessed, so it is logged."""
    foreign = session.account not in users
    if foreign:
        log.warning(
            "the handle of a session of %s was used by a client of %s", session.account, ", ".join(users) or "-"
        )
    return foreign


def stopping() -> Stopping:
    return Stopping("The gateway is being stopped. Connect again in a few seconds.")
