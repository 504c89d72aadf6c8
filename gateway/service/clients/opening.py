"""Who a client is, and its sessions from OpenSession to their end: over SASL, without it, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from gateway.errors import FreshgateError, LimitReached, LoginAbandoned, StatementFailed, Stopping, UpstreamLost
from gateway.login.authenticator import Authenticator
from gateway.loops import Errands
from gateway.service.clients.audit import Audit
from gateway.service.clients.handover import ANONYMOUS, Handover
from gateway.service.clients.session import CLOSE_SECONDS, Place, Session, Sessions
from gateway.service.clients.side_connections import SideConnection
from gateway.service.clients.sides import Sides
from gateway.service.decision import Answer, Decision, Forward, decided, failure
from gateway.wire import message, reply, request
from gateway.wire.connection import NOSASL
from gateway.wire.frame import WireError
from gateway.wire.http_connection import COOKIE_LOGIN, HTTP
from gateway.wire.message import Handle, Head, OpenCall
from gateway.wire.sasl import Login

log = logging.getLogger(__name__)

OPEN_BYTES_MAX = 1024 * 1024
"""Longest OpenSession. It is kept for as long as the session, which may have to be opened anew. Drivers send some
hundred bytes, and what settings their URL has."""
UNWANTED_SECONDS = 20.0
"""For Spark to open a session whose client has gone; then the connection that it was asked over is closed."""


class Opening:
    """One client connection's logins, and the sessions that it opens and closes.

    `close_left`: sessions that Spark keeps when a connection breaks are closed there (healing.leaked_sessions).
    """

    def __init__(
        self,
        sessions: Sessions,
        sides: Sides,
        handover: Handover,
        authenticator: Authenticator,
        audit: Audit,
        background: Errands,
        *,
        close_left: bool,
    ) -> None:
        self._sessions = sessions
        self._sides = sides
        self._handover = handover
        self._authenticator = authenticator
        self._audit = audit
        self._background = background
        self._close_left = close_left
        self.peer = "unknown"
        """The client's address."""
        self.login = Login("", "", NOSASL)
        """The last one: without SASL each session of a connection may be another user's."""
        self.users: set[str] = set()
        """Whose handles work on this connection."""
        self._mine: list[Session] = []
        """Sessions that were opened on this connection."""
        self._newest: Session | None = None
        """The one that Spark closes with the connection: opened last, and none was closed since."""
        self._left: Session | None = None
        """Its client has closed it, and Spark has not said yet that it has."""
        self._joined_as: str | None = None
        """Whose name and password the connection to Spark was made with; None while there is none."""
        self._asked: SideConnection | None = None
        """Where Spark alone checks passwords: the connection on which it was asked about one that came over HTTP. A
        session is opened there if that is what the client wants first, as drivers do."""
        self._place: Place | None = None
        """Of the session that Spark was asked for over that connection and has not opened yet."""

    # --- logins ------------------------------------------------------------------------------------

    async def admit(self) -> bool:
        """Checks the login of a client that has one before its first request. Returns whether Spark must accept it now.

        Raises FreshgateError.
        """
        mechanism = self.login.mechanism
        if mechanism != COOKIE_LOGIN:  # Its password was checked when the cookie was given out.
            await self._authenticator.check(self.login, self.peer)
        if mechanism == HTTP and not self._authenticator.vouches(self.login):
            try:
                self._asked = await self._sides.connect(self._handover.login(self.login), ask=True)
            except StatementFailed as error:
                await self.refused_by_spark(error)
                raise
            self._authenticator.accepted(self.login)
        self.users.add(self.login.user)
        # Over HTTP a connection may bring one request only, and that none for Spark.
        return mechanism not in {HTTP, COOKIE_LOGIN}

    async def refused_by_spark(self, error: FreshgateError) -> None:
        """Returns when the client may hear of it: guessing takes time where Spark checks passwords, too."""
        await self._authenticator.refused(self.login, self.peer, str(error))

    def login_ended(self, error: FreshgateError | None) -> None:
        if self.login.mechanism != COOKIE_LOGIN or error is not None:
            self._audit.login(self.login.user, self.peer, error)

    def upstream_login(self) -> Login:
        """With what to log in to Spark for the client's own connection."""
        self._joined_as = self.login.user
        return self._handover.login(self.login)

    # --- OpenSession -------------------------------------------------------------------------------

    def request(self, payload: bytes) -> Decision:
        """An OpenSession. Raises WireError for bytes that are none."""
        call = message.open_session(payload)
        if self.login.mechanism != NOSASL:
            return self._open_as(self.login, call, payload)
        login = Login(call.username or ANONYMOUS, call.password or "", NOSASL)
        if self._authenticator.required:
            return self._check_and_open(login, call, payload)
        return self._open_as(login, call, payload)

    async def _check_and_open(self, login: Login, call: OpenCall, payload: bytes) -> Forward | Answer:
        """Without SASL each OpenSession is a login."""
        try:
            await self._authenticator.check(login, self.peer)
        except FreshgateError as error:
            self._audit.login(login.user, self.peer, error)
            return Answer(failure(message.peek(payload), error))
        except asyncio.CancelledError:
            self._audit.login(login.user, self.peer, LoginAbandoned())
            raise
        return await decided(self._open_as(login, call, payload))

    def _open_as(self, login: Login, call: OpenCall, payload: bytes) -> Decision:
        try:
            self._handover.refuse_another(login, call, self._joined_as)
            _check_length(payload)
        except FreshgateError as error:
            return self._refuse(login, payload, error)
        self.login = login
        payload = self._handover.open_session(login, payload)
        if self._over_http or self._handover.mechanism == HTTP:
            return self._open_apart(call, payload)
        try:
            place = self._place = self._sessions.reserve(login.user)
        except FreshgateError as error:
            return self._refuse(login, payload, error)
        return Forward(payload, lambda answer: self._replied(call, payload, place, answer))

    def _refuse(self, login: Login, payload: bytes, error: FreshgateError) -> Answer:
        self._without_session(login, error)
        return Answer(failure(message.peek(payload), error))

    def _without_session(self, login: Login, error: FreshgateError) -> None:
        """No session comes of an OpenSession. Without SASL that was the login, too, and right as far as is known where
        the gateway has checked it, or a limit stands before it."""
        if login.mechanism == NOSASL:
            if not self._authenticator.required and not isinstance(error, LimitReached | Stopping):
                self._audit.login(login.user, self.peer, error)
                return
            if self._authenticator.required:
                self._audit.login(login.user, self.peer, None)
        self._audit.session_refused(login.user, self.peer, error)

    def _replied(self, call: OpenCall, payload: bytes, place: Place, answer: bytes) -> None:
        """Spark has opened a session of this connection, or refused it."""
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
        self._told(session, answer)

    def _own(self, session: Session) -> None:
        """It ends with the client's connection."""
        # Spark has taken the login now, too.
        self.users.add(session.user)
        # Those that ended over another connection would be kept for as long as the client stays.
        self._mine = [*(each for each in self._mine if not each.over), session]
        self._newest = session

    def _told(self, session: Session | None, answer: bytes) -> None:
        """What comes of an OpenSession is known."""
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
        """Over HTTP a session is not the connection's: it gets one to Spark of its own, with which it ends there. Where
        Spark speaks HTTP it would keep one that was asked for by a client who has gone."""
        try:
            # Nothing is reserved before the task runs: one that is cancelled earlier would never give it back.
            place = self._sessions.reserve(self.login.user, loose=self._over_http)
            try:
                side = await self._connected()
            except BaseException:  # cancelled too
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
            if isinstance(error, StatementFailed):  # Spark takes no such login.
                await self.refused_by_spark(error)
            return refusal
        if session is not None and not self._over_http:
            self._own(session)
        self._told(session, answer)
        return Answer(answer)

    async def _connected(self) -> SideConnection:
        """A connection to Spark for one session. Raises UpstreamLost, or StatementFailed where Spark refuses."""
        if self._asked is not None and self._asked.alive:
            asked, self._asked = self._asked, None
            return asked
        self.drop_asked()
        return await self._sides.connect(self._handover.login(self.login))

    def drop_asked(self) -> None:
        """It is of no use any more: the client wants something else first, may open no session, or is gone."""
        asked, self._asked = self._asked, None
        if asked is not None:
            self._background.begin(asked.close())

    async def _open_on(
        self, side: SideConnection, place: Place, call: OpenCall, payload: bytes
    ) -> tuple[Session | None, bytes]:
        """The session, where Spark has opened it, and Spark's reply. Raises UpstreamLost."""
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
        return session, answer

    async def _end_unwanted(self, opening: asyncio.Task[tuple[Session | None, bytes]]) -> None:
        """The client has gone meanwhile and knows no handle. A Spark that speaks HTTP would keep the session."""
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
        session = Session(handle, protocol, self.login.user, login, call, payload, self._sides, elsewhere)
        session.peer = self.peer
        session.tied = self._handover.mechanism != HTTP
        return session

    # --- CloseSession ------------------------------------------------------------------------------

    def close(self, session: Session, head: Head, payload: bytes) -> Decision:
        """`payload`: the request as it goes to Spark."""
        if session.lost:
            return self._close_lost(session, head)
        if session.is_empty:
            return self._close_empty(session, head, payload)
        if session.anchored:
            return self._close_loose(session, head)
        at_spark = Forward(payload, lambda _: self._forget(session))
        return self._close_at_spark(session, at_spark) if session.has_own else at_spark

    def _close_empty(self, session: Session, head: Head, payload: bytes) -> Decision:
        """Nothing runs in it and no rows are left: its client need not wait for Spark, which takes milliseconds."""
        closed = reply.closed(head.name, head.seqid)
        if session.anchored:
            if not self._sessions.may_end_later:
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
        """Spark has answered to a CloseSession whose client has heard so already."""
        status = message.reply_status(answer)
        self._forget(session)
        self._left = None
        if status.code == message.STATUS_ERROR:
            log.info("Spark has not closed a session of %s: %s", self.login.user, status.message)

    async def _close_at_spark(self, session: Session, at_spark: Forward) -> Forward:
        await session.cancel_own()
        await session.drop_side()
        return at_spark

    async def _close_loose(self, session: Session, head: Head) -> Answer:
        session.closed = True
        # Also when the client goes at once: nothing else would end it.
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

    def upstream_lost(self, *, told: bool) -> None:
        """The connection to Spark broke. `told`: the client hears of it now, as the answer to a request."""
        self._joined_as = None
        self._end_closed()
        self._without_reply(UpstreamLost("Spark closed the connection before it opened the session."))
        if self._handover.mechanism != HTTP:
            for session in self._mine:
                self._sessions.lose(session)
                if self._close_left and session is not self._newest:
                    self._background.begin(self._end_left(session.upstream_handle))
            self._newest = None
        if told:
            for session in self._mine:
                session.told_lost = session.lost

    def not_joined(self, error: FreshgateError) -> None:
        """No connection to Spark could be made for a request, so nothing was asked there."""
        self._joined_as = None
        self._without_reply(error)

    def _without_reply(self, error: FreshgateError) -> None:
        """No answer comes to an OpenSession that is under way, if there is one. Without SASL it was a login."""
        if self._place is not None and self.login.mechanism == NOSASL:
            self._without_session(self.login, error)
        self._free_place()

    def _end_closed(self) -> None:
        """Nobody knows whether Spark has heard of the session's end."""
        left, self._left = self._left, None
        if left is not None and self._close_left:
            self._background.begin(self._end_left(left.upstream_handle))

    async def _end_left(self, handle: Handle) -> None:
        """Where only the connection broke, and not Spark, it has closed the newest session and kept the others."""
        with contextlib.suppress(FreshgateError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                side = await self._sides.connect(self._handover.login(self.login))
                try:
                    await side.forward(request.close_session(handle))
                finally:
                    await side.close()

    async def client_lost(self) -> None:
        """Ends the client's sessions at Spark, so that what they were writing has ended when it is noted as ended.

        Where the setting leaves it to Spark, which ends the newest one only, the others stay open and can be used from
        any connection.
        """
        self._without_reply(LoginAbandoned())
        self.drop_asked()
        self._end_closed()
        mine, self._mine = [session for session in self._mine if not session.over], []
        if not self._close_left:
            mine = [session for session in mine if session is self._newest or session.anchored]
        await self._sessions.end_all(mine)


def _check_length(payload: bytes) -> None:
    """Raises LimitReached."""
    if len(payload) > OPEN_BYTES_MAX:
        raise LimitReached(
            f"The request to open a session has {len(payload)} bytes, and at most {OPEN_BYTES_MAX} are allowed. Set "
            f"what is long with SET statements."
        )


def _refusal(answer: bytes) -> FreshgateError:
    """Why Spark has opened no session."""
    status = message.reply_status(answer)
    return FreshgateError(status.message or "Spark opened no session.", status.sqlstate)
