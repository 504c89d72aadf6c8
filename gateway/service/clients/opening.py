"""A client's logins, and its sessions from OpenSession to their end: with SASL, without SASL, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from gateway.access_list import Principal
from gateway.errors import FreshgateError, LimitReached, LoginAbandoned, StatementFailed, Stopping, UpstreamLost
from gateway.loops import BackgroundTasks
from gateway.service.clients import own_settings
from gateway.service.clients.audit import Audit
from gateway.service.clients.handover import ANONYMOUS, Logins
from gateway.service.clients.moving import arrived, end_operation, ticket_of, untied
from gateway.service.clients.session import CLOSE_SECONDS, Session, SessionPlace, Sessions
from gateway.service.clients.setting_rules import SettingRules
from gateway.service.clients.side_connections import SideConnection
from gateway.service.clients.sides import Sides
from gateway.service.clients.ticket import Ticket
from gateway.service.decision import Answer, Decision, Forward, decided, failure
from gateway.wire import message, reply, request
from gateway.wire.connection import NOSASL
from gateway.wire.frame import WireError
from gateway.wire.http_connection import COOKIE_LOGIN, HTTP
from gateway.wire.message import Handle, Head, OpenCall
from gateway.wire.sasl import Login

log = logging.getLogger(__name__)

OPEN_BYTES_MAX = 1024 * 1024
"""Longest OpenSession request. It is kept as long as the session, which may have to be reopened. Drivers send a few
hundred bytes, plus the settings in their URL."""
MOVING_BYTES_MAX = 40_000
"""Longest such request of a session over HTTP that goes on at the next leader: its ticket contains it."""
UNWANTED_SECONDS = 20.0
"""Time for Spark to open a session whose client has gone; then the connection that requested it is closed."""


class Opening:
    """The logins of one client connection, and the sessions that it opens and closes.

    `stands`: whether this gateway leads at this moment; None if no other one waits to take over. `close_left`: whether
    sessions that Spark keeps when a connection breaks are closed (`Healing.leaked_sessions`).
    """

    def __init__(
        self,
        sessions: Sessions,
        sides: Sides,
        logins: Logins,
        rules: SettingRules,
        audit: Audit,
        background: BackgroundTasks,
        stands: Callable[[], Awaitable[bool]] | None,
        *,
        close_left: bool,
    ) -> None:
        self._sessions = sessions
        self._sides = sides
        self._rules = rules
        self._handover = logins.handover
        self._authenticator = logins.authenticator
        self._groups_of_users = logins.groups
        self._audit = audit
        self._background = background
        self._stands = stands
        self._close_left = close_left
        self.moves = False
        """Whether a door passes the client on, so that its sessions go on at the next leader."""
        self.has_arrived = False
        """Whether the client comes from another leader."""
        self._has_left = False
        """Whether the next leader goes on with the client."""
        self._told: object = None
        """What the last ticket was made of."""
        self.peer = "unknown"
        """The client's address."""
        self.do_as = ""
        """In whose name the client acts, if the URL of the HTTP transport says so."""
        self.login = Login("", "", NOSASL)
        """The last login: without SASL, each session of a connection may belong to another user."""
        self._who = Principal("")
        """As whom the last session was requested: the login's user, or another one in whose name that acts."""
        self.users: set[str] = set()
        """The logins whose handles work on this connection."""
        self._mine: list[Session] = []
        """Sessions that were opened on this connection."""
        self._newest: Session | None = None
        """The session that Spark closes with the connection: the last opened, if none was closed since."""
        self._left: Session | None = None
        """A session that its client has closed, and Spark not yet as far as known."""
        self._joined_as: str | None = None
        """The user whose login opened the connection to Spark; None while there is no connection."""
        self._asked: SideConnection | None = None
        """If only Spark checks passwords: the connection on which it checked one that came over HTTP. If the client's
        first request opens a session, as with drivers, that session uses it."""
        self._at: str | None = None
        """The name of the server that the client's own connection goes to; None while there is none."""
        self._place: SessionPlace | None = None
        """The place of the session that was requested from Spark and is not open yet."""

    # --- logins ------------------------------------------------------------------------------------

    async def admit(self) -> bool:
        """Checks a login that comes before the first request. Returns whether Spark must also accept it now.

        Raises FreshgateError.
        """
        mechanism = self.login.mechanism
        if mechanism != COOKIE_LOGIN:  # It was checked when the cookie was issued.
            self.login = await self._authenticator.check(self.login, self.peer)
        if mechanism == HTTP and not self._authenticator.vouches(self.login):
            try:
                self._asked = await self._sides.connect(self._handover.login(self.login), ask=True)
            except StatementFailed as error:
                await self.refused_by_spark(error)
                raise
            self._authenticator.accepted(self.login)
        self.users.add(self.login.user)
        # Over HTTP, a connection may bring only one request, and not one for Spark.
        return not self._over_http

    async def refused_by_spark(self, error: FreshgateError) -> None:
        """Returns when the client may be told: guessing passwords takes time even if Spark checks them."""
        await self._authenticator.refused(self.login, self.peer, str(error))

    def login_ended(self, error: FreshgateError | None) -> None:
        if self.login.mechanism != COOKIE_LOGIN or error is not None:
            self._audit.login(self.login.user, self.peer, error)

    def joined(self, at: str) -> None:
        """The client's own connection goes to this server."""
        self._at = at

    @property
    def bound_to(self) -> str | None:
        """The server that the client's own connection must keep to, because sessions end with it; None if it need
        not."""
        bound = any(session.tied and not (session.anchored or session.lost or session.over) for session in self._mine)
        return self._at if bound else None

    def upstream_login(self) -> Login:
        """The login for the client's own connection to Spark."""
        self._joined_as = self.login.user
        return self._handover.login(self.login)

    # --- OpenSession -------------------------------------------------------------------------------

    def request(self, payload: bytes) -> Decision:
        """Decides about an OpenSession request. Raises WireError if it is malformed."""
        call = message.open_session(payload)
        if self.login.mechanism != NOSASL:
            return self._open_as(self.login, call, payload)
        login = Login(call.username or ANONYMOUS, call.password or "", NOSASL)
        if self._authenticator.required:
            return self._check_and_open(login, call, payload)
        return self._open_as(login, call, payload)

    async def _check_and_open(self, login: Login, call: OpenCall, payload: bytes) -> Forward | Answer:
        """Without SASL, each OpenSession is a login."""
        try:
            login = await self._authenticator.check(login, self.peer)
        except FreshgateError as error:
            self._audit.login(login.user, self.peer, error)
            return Answer(failure(message.peek(payload), error))
        except asyncio.CancelledError:
            self._audit.login(login.user, self.peer, LoginAbandoned())
            raise
        return await decided(self._open_as(login, call, payload))

    def _open_as(self, login: Login, call: OpenCall, payload: bytes) -> Decision:
        other = self._handover.names_another(login, call, self.do_as)
        if self._groups_of_users.has_sources:
            return self._find_groups_and_open(login, other, call, payload)
        return self._open_in(login, frozenset() if other else login.groups, call, payload)

    async def _find_groups_and_open(self, login: Login, other: str, call: OpenCall, payload: bytes) -> Forward | Answer:
        """What the login has brought are not the groups of the user in whose name it acts."""
        try:
            groups = await self._groups_of_users.of(other or login.user)
        except asyncio.CancelledError:
            if login.mechanism == NOSASL:
                self._without_session(login, LoginAbandoned())
            raise
        if not other:
            groups |= login.groups
        return await decided(self._open_in(login, groups, call, payload))

    def _open_in(self, login: Login, groups: frozenset[str], call: OpenCall, payload: bytes) -> Decision:
        try:
            user = self._handover.user_of(login, call, self._joined_as, self.peer, self.do_as, groups)
            _check_length(payload)
            payload = self._rules.opened(payload)
        except FreshgateError as error:
            return self._refuse(login, payload, error)
        call = message.open_session(payload)
        self.login, self._who = login, Principal(user, groups)
        payload = self._handover.open_session(login, payload, user)
        if self._over_http or self._handover.mechanism == HTTP or self.moves:
            return self._open_apart(call, payload)
        try:
            place = self._place = self._sessions.reserve(Principal(user, groups), self.peer)
        except FreshgateError as error:
            return self._refuse(login, payload, error)
        return Forward(payload, lambda answer: self._replied(call, payload, place, answer))

    def _refuse(self, login: Login, payload: bytes, error: FreshgateError) -> Answer:
        self._without_session(login, error)
        return Answer(failure(message.peek(payload), error))

    def _without_session(self, login: Login, error: FreshgateError) -> None:
        """An OpenSession failed. Without SASL it was also a login, which counts as accepted if the gateway checked it,
        and is not counted if it was not checked because of a limit."""
        if login.mechanism == NOSASL:
            if not self._authenticator.required and not isinstance(error, LimitReached | Stopping):
                self._audit.login(login.user, self.peer, error)
                return
            if self._authenticator.required:
                self._audit.login(login.user, self.peer, None)
        self._audit.session_refused(login.user, self.peer, error)

    def _replied(self, call: OpenCall, payload: bytes, place: SessionPlace, answer: bytes) -> None:
        """Spark has opened a session on this connection, or refused to."""
        try:
            session = self._opened(call, payload, answer)
            if session is not None:
                self._sessions.add(session, place)
                self._place = None
                self._own(session)
        except WireError as error:
            self._without_reply(UpstreamLost(f"Spark's reply cannot be read: {error}."))
            raise
        self._free_place()
        self._record_outcome(session, answer)

    def _own(self, session: Session) -> None:
        """The session ends with the client's connection."""
        # Spark has now accepted the login too.
        self.users.add(session.account)
        # Otherwise sessions that ended over another connection would be kept until the client leaves.
        self._mine = [*(each for each in self._mine if not each.over), session]
        self._newest = session if not self.moves else None

    def _record_outcome(self, session: Session | None, answer: bytes) -> None:
        """Records the outcome of an OpenSession."""
        if session is None:
            self._without_session(self.login, _refusal(answer))
        elif self.login.mechanism == NOSASL:
            self.login_ended(None)

    @property
    def _over_http(self) -> bool:
        return self.login.mechanism in {HTTP, COOKIE_LOGIN}

    def _free_place(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            place.free()

    async def _open_apart(self, call: OpenCall, payload: bytes) -> Answer:
        """Opens a session on its own connection to Spark, with which it ends there, because over HTTP sessions do not
        belong to connections. A Spark with transport http would also keep a session whose client has gone."""
        try:
            # Reserved only here, because a task that is cancelled before it runs would never free the place.
            place = self._sessions.reserve(self._who, self.peer, loose=self._over_http)
            try:
                side = await self._connected()
            except BaseException:  # Including cancellation.
                place.free()
                raise
            opening = self._background.begin(self._open_on(side, place, call, payload))
            try:
                session, answer = await asyncio.shield(opening)
            except asyncio.CancelledError:
                self._background.begin(self._end_unwanted(opening))
                raise
        except asyncio.CancelledError:
            if self.login.mechanism == NOSASL:
                self._without_session(self.login, LoginAbandoned())
            raise
        except FreshgateError as error:
            self.drop_asked()
            refusal = self._refuse(self.login, payload, error)
            if isinstance(error, StatementFailed):  # Spark refuses the login.
                await self.refused_by_spark(error)
            return refusal
        if session is not None and not self._over_http:
            self._own(session)
        self._record_outcome(session, answer)
        return Answer(answer)

    async def _connected(self) -> SideConnection:
        """A connection to Spark for one session. Raises UpstreamLost, or StatementFailed if Spark refuses the login."""
        if self._asked is not None and self._asked.alive:
            asked, self._asked = self._asked, None
            return asked
        self.drop_asked()
        return await self._sides.connect(self._handover.login(self.login))

    def drop_asked(self) -> None:
        """Closes the connection that checked the password: the client's first request did not open a session, or was
        refused, or the client is gone."""
        asked, self._asked = self._asked, None
        if asked is not None:
            self._background.begin(asked.close())

    async def _open_on(
        self, side: SideConnection, place: SessionPlace, call: OpenCall, payload: bytes
    ) -> tuple[Session | None, bytes]:
        """Returns the session, or None if Spark refused it, and Spark's reply. Raises UpstreamLost."""
        session = None
        try:
            answer = await side.forward(payload)
            session = self._opened(call, payload, answer)
        finally:
            if session is None:
                place.free()
                await side.close()
        if session is not None:
            session.anchor(side)
            self._sessions.add(session, place, loose=self._over_http)
            if session.continuity.moves:
                self._background.begin(untied(session))
        return session, answer

    async def _end_unwanted(self, opening: asyncio.Task[tuple[Session | None, bytes]]) -> None:
        """Ends a session whose client left before it got the handle: a Spark with transport http would keep it."""
        await asyncio.wait([opening], timeout=UNWANTED_SECONDS)
        opening.cancel()
        with contextlib.suppress(FreshgateError, WireError, asyncio.CancelledError):
            session, _ = await opening
            if session is not None:
                await self._sessions.end(session)

    def _opened(self, call: OpenCall, payload: bytes, answer: bytes) -> Session | None:
        found = message.opened(answer)
        if found is None:
            return None
        handle, protocol = found
        login = self._handover.login(self.login)
        self._audit.opened()
        elsewhere = self._sessions.leads_elsewhere
        session = Session(handle, protocol, self._who.name, login, call, payload, self._sides, elsewhere)
        session.peer, session.account = self.peer, self.login.user
        session.groups = self._who.groups
        own_settings.apply(session, {**own_settings.opened_with(call.configuration), **self._rules.own})
        session.continuity.came_as, session.continuity.loose = self.login, self._over_http
        session.continuity.stays = self._over_http and len(payload) > MOVING_BYTES_MAX
        loose_moves = self._over_http and not session.continuity.stays and self._sessions.loose_move()
        session.continuity.moves = self.moves or loose_moves
        session.tied = session.continuity.ties = self._handover.mechanism != HTTP
        session.at = self._at or ""
        return session

    # --- at the next leader ------------------------------------------------------------------------

    def passed_on(self) -> None:
        """Implements `decision.Moving`."""
        self.moves = True

    def stays(self) -> None:
        """Implements `decision.Moving`."""
        self.moves = False

    def left(self) -> None:
        """Implements `decision.Moving`."""
        self._has_left = True

    def leaves(self, request: bytes) -> bool:
        """Implements `decision.Moving`."""
        if not self._sessions.stopping:
            return False
        if not self._over_http:
            return not any(each.is_busy() for each in self._mine)
        # Only this gateway has the rows of what ran here.
        with contextlib.suppress(WireError):
            handle = message.request_handle(request)
            return handle is None or self._sessions.find_operation(handle, self.users) is None
        return False

    def ticket(self) -> bytes | None:
        """What the next leader needs to go on with this client; None if it is as it was at the last call."""
        mine = [each for each in self._mine if not (each.over or each.lost)]
        states = [each.state for each in mine]
        now = self.login, len(self.users), states, [each.handle for each in mine]
        if now == self._told:
            return None
        self._told = now
        users = tuple(sorted(self.users))
        sessions = tuple(ticket_of(each, state) for each, state in zip(mine, states, strict=True))
        return Ticket(self.login, users, sessions).encoded()

    def arrive(self, ticket: bytes) -> Login:
        """Goes on with a client of another leader."""
        found = Ticket.decoded(ticket)
        self.login, self.has_arrived = found.login, True
        self.users |= set(found.users)
        for each in found.sessions:
            session = arrived(each, self._handover, self._sides, self._sessions)
            session.continuity.moves = self.moves
            session.arrive(each.state)
            self._audit.opened()
            self._sessions.add(session, self._sessions.place_for(session.who, session.peer))
            self._mine.append(session)
            for running in each.state.running:
                self._background.begin(end_operation(session, running))
        return found.login

    async def _go_on_elsewhere(self) -> bool:
        """Whether the next leader goes on with the sessions, so that they must not be ended at Spark."""
        if self._has_left or not self.moves:
            return self._has_left
        # While this gateway is being stopped, a door leaves its clients here: this one has gone by itself.
        return self._stands is not None and not self._sessions.stopping and not await self._stands()

    # --- CloseSession ------------------------------------------------------------------------------

    def close(self, session: Session, head: Head, payload: bytes) -> Decision:
        """Decides about a CloseSession request. `payload`: the request for Spark."""
        if session.lost:
            return self._close_lost(session, head)
        if session.is_empty:
            return self._close_empty(session, head, payload)
        if session.anchored:
            return self._close_loose(session, head)
        at_spark = Forward(payload, lambda _: self._forget(session))
        return self._close_at_spark(session, at_spark) if session.has_own else at_spark

    def _close_empty(self, session: Session, head: Head, payload: bytes) -> Decision:
        """Closes a session without operations: its client need not wait for Spark, which takes milliseconds."""
        closed = reply.closed(head.name, head.seqid)
        if session.anchored:
            if not self._sessions.may_end_later or session.continuity.moves:
                # Once its client knows that it is closed, no ticket of it may be of any use.
                return self._close_loose(session, head)
            self._forget(session)
            self._background.begin(self._sessions.end_later(session))
            return Answer(closed)

        def on_sent() -> None:
            self._forget(session)
            self._left = session

        at_spark = Forward(payload, partial(self._closed, session), at_once=closed, on_sent=on_sent)
        return self._close_at_spark(session, at_spark) if session.has_own else at_spark

    def _closed(self, session: Session, answer: bytes) -> None:
        """Spark has answered a CloseSession that was already answered to the client."""
        status = message.reply_status(answer)
        self._forget(session)
        self._left = None
        if status.code == message.STATUS_ERROR:
            log.info("Spark did not close a session of %s: %s", self.login.user, status.message)

    async def _close_at_spark(self, session: Session, at_spark: Forward) -> Forward:
        await session.cancel_own()
        await session.drop_side()
        return at_spark

    async def _close_loose(self, session: Session, head: Head) -> Answer:
        session.closed = True
        # Shielded, because nothing else would end it if the client disconnects at once.
        await asyncio.shield(self._background.begin(self._sessions.end(session)))
        self._forget(session)
        return Answer(reply.closed(head.name, head.seqid))

    async def _close_lost(self, session: Session, head: Head) -> Answer:
        await session.cancel_own()
        self._forget(session)
        await session.drop_side()
        return Answer(reply.closed(head.name, head.seqid))

    def _forget(self, session: Session) -> None:
        self._newest = None
        session.closed = True
        self._sessions.remove(session)
        if session in self._mine:
            self._mine.remove(session)

    # --- ends of connections -----------------------------------------------------------------------

    def upstream_lost(self, *, reported: bool) -> None:
        """The connection to Spark broke. `reported`: the client learns of it now, in the reply to a request."""
        self._joined_as = None
        self._end_closed()
        self._without_reply(UpstreamLost("Spark closed the connection before it opened the session."))
        if self._handover.mechanism != HTTP:
            for session in self._mine:
                if session.at != (self._at or ""):
                    continue  # It was opened again at another server.
                self._sessions.lose(session)
                # A statement that runs there counts as running while Spark knows the session.
                running = not session.tied and session.outstanding
                if self._close_left and session is not self._newest and not running:
                    self._background.begin(self._end_left(session.upstream_handle, session.at))
            self._newest = None
        self._at = None
        if reported:
            for session in self._mine:
                session.loss_reported = session.lost

    def not_joined(self, error: FreshgateError) -> None:
        """No connection to Spark could be opened for a request, so Spark has not received it."""
        self._joined_as = None
        self._without_reply(error)

    def _without_reply(self, error: FreshgateError) -> None:
        """An OpenSession that is under way, if any, will not be answered. Without SASL it was a login."""
        if self._place is not None and self.login.mechanism == NOSASL:
            self._without_session(self.login, error)
        self._free_place()

    def _end_closed(self) -> None:
        """Closes a session again if it is unknown whether Spark has received its CloseSession."""
        left, self._left = self._left, None
        if left is not None and self._close_left:
            self._background.begin(self._end_left(left.upstream_handle, left.at))

    async def _end_left(self, handle: Handle, at: str) -> None:
        """Closes a session that Spark has kept: if only the connection broke, Spark closes just the newest session."""
        with contextlib.suppress(FreshgateError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                side = await self._sides.connect(self._handover.login(self.login), at=at)
                try:
                    await side.forward(request.close_session(handle))
                finally:
                    await side.close()

    async def client_lost(self) -> None:
        """Ends the client's sessions at Spark, so that their writes have ended when they are recorded as ended.

        Without `Healing.leaked_sessions`, Spark ends only the newest one; the others stay open, and can be used from
        any connection.
        """
        self._without_reply(LoginAbandoned())
        self.drop_asked()
        self._end_closed()
        mine, self._mine = [session for session in self._mine if not session.over], []
        if mine and await self._go_on_elsewhere():
            for session in mine:
                await self._sessions.leave(session)
            return
        if not self._close_left:
            mine = [session for session in mine if session is self._newest or session.anchored or not session.tied]
        await self._sessions.end_all(mine)


def _check_length(payload: bytes) -> None:
    """Raises LimitReached."""
    if len(payload) > OPEN_BYTES_MAX:
        raise LimitReached(
            f"The request to open a session has {len(payload)} bytes; at most {OPEN_BYTES_MAX} are allowed. Set long "
            f"values with SET statements instead."
        )


def _refusal(answer: bytes) -> FreshgateError:
    """The reason why Spark refused a session."""
    status = message.reply_status(answer)
    return FreshgateError(status.message or "Spark refused to open a session.", status.sqlstate)
