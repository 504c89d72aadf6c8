"""Sessions that go on at the next leader: what it is told of them, and how it takes them over.

Tests: `test_moving_sessions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from gateway.errors import FreshgateError
from gateway.loops import BackgroundTasks
from gateway.service.clients.audit import Audit
from gateway.service.clients.handover import Handover
from gateway.service.clients.session import MOVING_SECONDS, Session, Sessions
from gateway.service.clients.sides import Sides
from gateway.service.clients.ticket import LooseTicket, SessionState, SessionTicket, TicketKeeper
from gateway.wire import message, request
from gateway.wire.frame import WireError
from gateway.wire.http_connection import HTTP
from gateway.wire.message import Handle

log = logging.getLogger(__name__)

TAKEN_TOGETHER = 20
"""Sessions that are taken over in one turn of the event loop."""
BUSY_SECONDS = 60.0
"""How long a statement of which no end is known may still change the current database."""


def ticket_of(session: Session, state: SessionState) -> SessionTicket:
    """Makes the ticket of a session in this state."""
    return SessionTicket(
        session.handle,
        session.protocol,
        session.user,
        session.peer,
        session.continuity.came_as,
        session.open_payload,
        state,
        session.groups,
    )


def arrived(each: SessionTicket, handover: Handover, sides: Sides, sessions: Sessions) -> Session:
    """A session from another gateway, which `Session.arrive` must still be told. Raises WireError."""
    call, login = message.open_session(each.open_payload), handover.login(each.login)
    session = Session(
        each.handle, each.protocol, each.user, login, call, each.open_payload, sides, sessions.leads_elsewhere
    )
    session.peer, session.account, session.groups = each.peer, each.login.user, each.groups
    session.continuity.came_as = each.login
    session.continuity.ties = handover.mechanism != HTTP
    return session


async def untied(session: Session) -> None:
    """Has Spark keep the session when this gateway goes, if Spark can."""
    try:
        await session.untie()
    except (FreshgateError, WireError) as error:
        log.info("a session of %s stays tied to this gateway: %s", session.user, error)


async def end_operation(session: Session, operation: Handle) -> None:
    """Ends a statement whose client has been told that its gateway has gone."""
    with contextlib.suppress(FreshgateError, WireError):
        async with session.spare() as side:
            await side.forward(request.cancel_operation(operation))
            await side.forward(request.close_operation(operation))


class LooseSessions:
    """The sessions that belong to no connection of their clients: doors keep their tickets."""

    def __init__(
        self,
        sessions: Sessions,
        sides: Sides,
        handover: Handover,
        audit: Audit,
        background: BackgroundTasks,
        drain_seconds: float,
    ) -> None:
        """`drain_seconds`: how long a gateway that has handed over lets statements end."""
        self._sessions = sessions
        self._sides = sides
        self._handover = handover
        self._audit = audit
        self._background = background
        self._keeper: TicketKeeper | None = None
        """None until this gateway leads."""
        self._drain_seconds = drain_seconds
        self._yielded = False
        self._told: dict[bytes, object] = {}
        """What the ticket of a session was made of."""
        sessions.loose_changed, sessions.loose_move = self.changed, self._is_copied

    def changed(self, session: Session) -> None:
        """Keeps a new ticket if it would be another one than before. Called for each reply."""
        if self._keeper is None:
            return
        key, moves = session.handle.guid, session.continuity.moves
        if session.over and session.stopped and moves:
            self._told.pop(key, None)  # It goes on elsewhere.
            return
        if session.over or session.lost or not moves:
            if self._told.pop(key, None) is not None:
                self._keeper.drop(key)
            return
        state, busy = session.state, bool(session.outstanding) or session.runs_own()
        now = state, busy, session.continuity.last, self._yielded
        if self._told.get(key) == now:
            return
        self._told[key] = now
        ticket = LooseTicket(ticket_of(session, state), session.continuity.last, busy, self._yielded)
        self._keeper.keep(key, ticket.encoded())

    def _is_copied(self) -> bool:
        """Whether a door could go on with sessions. Without one they end with their connections to Spark, so that
        none stays there."""
        return self._keeper is not None and self._keeper.is_copied

    def _begin_moving(self) -> None:
        """There is a door now."""
        self._background.begin(self._move(self._sessions.loose))

    async def _move(self, sessions: Sequence[Session]) -> None:
        """Lets sessions go on elsewhere that were opened before, one after the other: it costs Spark something."""
        for session in sessions:
            continuity = session.continuity
            if not (continuity.moves or continuity.stays or session.over):
                continuity.moves = True
                await untied(session)
                self.changed(session)

    def hand_over(self) -> None:
        """This gateway has handed over. Its statements go on, and their sessions at the next one, too."""
        self._yielded = True
        for session in self._sessions.loose:
            self.changed(session)

    async def go_on_with(self, tickets: Sequence[bytes], keeper: TicketKeeper) -> None:
        """Takes over the sessions of the leader before. From now on, `keeper` keeps their tickets."""
        self._keeper = keeper
        keeper.on_copy = self._begin_moving
        for number, ticket in enumerate(tickets, start=1):
            try:
                self._take_over(LooseTicket.decoded(ticket))
            except WireError as error:
                log.error("a session of another gateway cannot go on: %s", error)
            if number % TAKEN_TOGETHER == 0:
                await asyncio.sleep(0)
        if tickets:
            log.info("going on with %d sessions over HTTP", len(tickets))

    def _take_over(self, ticket: LooseTicket) -> None:
        """Raises WireError."""
        each = ticket.session
        session = arrived(each, self._handover, self._sides, self._sessions)
        continuity = session.continuity
        continuity.loose = continuity.taken_over = continuity.moves = True
        continuity.last = ticket.last
        seconds = MOVING_SECONDS
        if ticket.busy or (ticket.yielded and each.state.running):
            seconds = max(BUSY_SECONDS, self._drain_seconds)
        session.arrive(each.state, seconds)
        self._audit.opened()
        self._sessions.taken_over.add(session.account)
        self._sessions.add(session, self._sessions.place_for(session.who, session.peer, loose=True), loose=True)
        if not ticket.yielded:
            for running in each.state.running:
                self._background.begin(end_operation(session, running))
