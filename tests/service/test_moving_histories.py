"""Histories of gateways that die while sessions over HTTP are used: a session that goes on is its client's own, in the
state that its client has left it in, and none goes on after it was closed.

Doors miss news: what they know may be old when they lead. Faults are put back, and must be found.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from service.test_moving_http_sessions import INSERT, Leader, SessionsWithSettings, leader, sqlstate, text
from service.test_opening import run

from gateway.mv.refresh.progress import Lines
from gateway.proxy.ticket_book import TicketBook
from gateway.service import dispatch
from gateway.service.clients import moving, own_settings
from gateway.service.clients.opening import Opening
from gateway.service.clients.session import Session, Sessions
from gateway.service.decision import Answer, Forward
from gateway.service.routing.own_statements import OwnStatements
from gateway.wire import message, reply
from gateway.wire.message import Handle
from sql.statement import BeginTransaction, EndTransaction

USERS = ("ada", "eve")
HISTORIES = 60
STEPS = 40
PER_USER = 5
"""The limit of `test_moving_sessions.gateway`."""


class Wrong(AssertionError):
    """A client has seen what it must not see."""


@dataclass
class Known:
    """What a client knows of its session."""

    handle: Handle
    user: str
    rewrites: bool = True
    cached: bool = True
    memory: bool = True
    whole: bool = False
    in_transaction: bool = False
    marked: bool = False
    """It has begun a transaction and not ended it, although it was told that the gateway has ended it."""
    closed: bool = False
    leader: int = 0
    """The leader at which it was used last."""


@dataclass
class Door:
    book: TicketBook = field(default_factory=TicketBook)
    hears: bool = False


class History:
    """One leader and its doors, from the start to a few takeovers."""

    def __init__(self, seed: int, *, cuts: bool) -> None:
        self._random = random.Random(seed)
        self._cuts = cuts
        self._spark = SessionsWithSettings()
        self._doors = [Door() for _ in range(3)]
        self._sessions: list[Known] = []
        self._number = self._sent = 0
        self._leader: Leader = cast(Leader, None)
        self._own = OwnStatements(*[cast(Any, SimpleNamespace(begin=lambda it, everything: it.begin()))] * 4)

    async def run(self) -> None:
        await self._lead(self._doors[0])
        steps: list[tuple[Callable[[], Any], float]] = [
            (self._open, 2),
            (self._set, 4),
            (self._transact, 2),
            (self._close, 1),
            (self._use, 8),
            (self._insert, 2),
            (self._die, 1),
            (self._hand_over, 1),
            (self._hear, 1),
        ]
        for _ in range(STEPS):
            ((step, _),) = self._random.choices(steps, [weight for _, weight in steps])
            await step()

    # --- gateways ------------------------------------------------------------------------------------------

    async def _lead(self, door: Door) -> None:
        self._number += 1
        tickets, pen = door.book.opened()
        door.book.copies = 1
        door.book.tell = self._tell
        self._leader = await leader(self._spark, *tickets, keeper=pen)
        self._book = door.book
        for each in self._doors:
            if each is not door and (not self._cuts or self._random.random() < 0.7):
                await self._link(each)
            else:
                each.hears = False

    async def _link(self, door: Door) -> None:
        door.book.begin_copy()
        await self._book.tell_all(door.book.copy)
        door.hears = True

    def _tell(self, note: bytes) -> None:
        for each in self._doors:
            if each.hears:
                each.book.copy(note)

    async def _die(self) -> None:
        """The leader dies. The next one may have heard nothing for long."""
        self._book.tell = lambda note: None
        self._book.close()
        doors = [each for each in self._doors if each.book is not self._book]
        for each in doors:
            each.hears = False
        await self._lead(self._random.choice(doors))

    async def _hand_over(self) -> None:
        """The leader is stopped, and ends when another one leads."""

        async def stands() -> bool:
            return False

        before = self._leader
        before.loose.hand_over()
        before.gate.sessions.stands = stands
        await self._die()
        before.gate.sessions.ending = True
        await before.gate.sessions.close()

    async def _hear(self) -> None:
        """A door is cut off, or comes back."""
        if self._cuts:
            door = self._random.choice([each for each in self._doors if each.book is not self._book])
            if door.hears:
                door.hears = False
            else:
                await self._link(door)

    # --- clients -------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        user = self._random.choice(USERS)
        if self._leader.gate.sessions._of_user[user] >= PER_USER:
            return
        session = await self._leader.opened(user)
        self._sessions.append(Known(session.handle, user, leader=self._number))

    async def _used(self, known: Known) -> Session | None:
        """The session at the leader, if its client can use it there; its state must be what the client knows."""
        answer = await self._leader.asked(known.handle, client=await self._leader.client(known.user))
        if known.closed and not (isinstance(answer, Answer) and "Invalid SessionHandle" in text(answer)):
            raise Wrong("a session goes on after it was closed")
        if isinstance(answer, Answer) and "Invalid SessionHandle" in text(answer):
            if not (self._cuts or known.closed):
                raise Wrong("a session did not go on although every door has heard all")
            return None
        moved, known.leader = known.leader != self._number, self._number
        ended = isinstance(answer, Answer) and sqlstate(answer) == "25000"
        if moved and not ended and (known.in_transaction or known.whole):
            raise Wrong("a transaction went on without its versions")
        if moved and ended and (known.marked or known.whole):
            known.in_transaction = False
            answer = await self._leader.asked(known.handle, client=await self._leader.client(known.user))
        if not isinstance(answer, Forward):
            raise Wrong(f"a session that goes on ends with {text(answer)}")
        if message.request_handle(answer.payload) != known.handle:
            raise Wrong("a statement is sent to another session")
        session = self._leader.gate.sessions.find(known.handle, [known.user])
        assert session is not None
        session.outstanding = 0
        settings = session.settings
        found = settings.rewrites, settings.keeps_results, settings.from_memory, session.transaction.session
        if found != (known.rewrites, known.cached, known.memory, known.whole):
            raise Wrong("a session has other settings than its client has left")
        if session.transaction.open is not known.in_transaction:
            raise Wrong("a session has another transaction")
        return session

    async def _use(self) -> None:
        if not self._sessions:
            return
        known = self._random.choice(self._sessions)
        await self._used(known)
        other = USERS[1 - USERS.index(known.user)]
        answer = await self._leader.asked(known.handle, client=await self._leader.client(other))
        if not isinstance(answer, Answer):
            raise Wrong("a user has the session of another one")

    async def _one(self) -> tuple[Known, Session] | None:
        known = self._random.choice(self._sessions) if self._sessions else None
        session = await self._used(known) if known is not None else None
        return (known, session) if known is not None and session is not None else None

    async def _set(self) -> None:
        if (one := await self._one()) is None:
            return
        known, session = one
        name, values = self._random.choice(list(own_settings._VALUES.items()))
        value = self._random.choice(values)
        # Spark has it before the client has the reply.
        await (await session.sql()).run(f"SET {name} = {value}")
        own_settings.apply(session, {name: value})
        self._leader.gate.sessions.changed(session)
        if name == own_settings.REWRITE:
            known.rewrites = value == "on"
        elif name == own_settings.RESULT_CACHE:
            known.cached = value == "on"
        elif name == own_settings.MEMORY:
            known.memory = value == "on"
        else:
            known.whole = value == "session"

    async def _transact(self) -> None:
        if (one := await self._one()) is None:
            return
        known, session = one
        known.marked = known.in_transaction = not known.in_transaction
        statement = BeginTransaction() if known.in_transaction else EndTransaction(commit=True)
        await self._own.execute(cast(Any, SimpleNamespace(statement=statement)), session, Lines(lambda _: None))
        self._leader.gate.sessions.changed(session)

    async def _insert(self) -> None:
        """A write whose reply does not come, because the leader dies, or the door: Hive's driver sends it again."""
        if (one := await self._one()) is None:
            return
        known, session = one
        if known.marked or known.whole:
            return
        self._sent += 1
        first = await self._leader.asked(
            known.handle, INSERT, client=await self._leader.client(known.user), seqid=self._sent
        )
        assert isinstance(first, Forward)
        session.outstanding = 0
        if dies := self._random.random() < 0.5:
            await self._die()
        again = await self._leader.asked(
            known.handle, INSERT, client=await self._leader.client(known.user), seqid=self._sent
        )
        # If the leader dies together with the news for the next one, both end without an answer.
        if isinstance(again, Forward) and not (dies and self._cuts):
            raise Wrong("a statement runs twice")

    async def _close(self) -> None:
        if (one := await self._one()) is not None:
            assert await self._leader.ends(one[0].handle, one[0].user) is None
            one[0].closed = True


def histories(*, cuts: bool, count: int = HISTORIES) -> None:
    for seed in range(count):
        run(History(seed, cuts=cuts).run)


@pytest.mark.parametrize("cuts", [False, True])
def test_sessions_go_on_as_they_were_left(cuts: bool) -> None:
    histories(cuts=cuts)


def _nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def believe(session: Session) -> None: ...

    monkeypatch.setattr(own_settings, "recall", believe)


def _transactions_are_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(session: Session, open_: bool) -> None: ...

    monkeypatch.setattr(Session, "mark_transaction", nothing)


def _closed_ones_are_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def again(sessions: Any, session: Session, head: Any) -> Answer:
        session.continuity.taken_over, session.loss_reported = False, True
        await session.reopen()
        raise Wrong("a session goes on after it was closed")

    monkeypatch.setattr(dispatch, "_never_again", again)


def _spark_may_close_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(self: Opening, session: Session, head: Any) -> Answer:
        self._forget(session)
        return Answer(reply.closed(head.name, head.seqid))

    monkeypatch.setattr(Opening, "_close_loose", told)


def _tickets_are_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    made = moving.ticket_of
    before: list[Any] = []

    def mixed(session: Session, state: Any) -> Any:
        before.append(state)
        return made(session, before[max(0, len(before) - 2)])

    monkeypatch.setattr(moving, "ticket_of", mixed)


def _handles_work_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = moving.arrived

    def anybody(*arguments: Any) -> Session:
        session = made(*arguments)
        session.account = USERS[0]
        return session

    monkeypatch.setattr(moving, "arrived", anybody)


def _what_is_sent_again_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "repeated", lambda *_: None)


def _a_leader_that_stops_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Sessions.close

    async def all_(self: Sessions) -> None:
        self.stands = None
        await close(self)

    monkeypatch.setattr(Sessions, "close", all_)


def _news_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = moving.LooseSessions.changed

    def first_only(self: moving.LooseSessions, session: Session) -> None:
        if session.handle.guid not in self._told or session.over:
            changed(self, session)

    monkeypatch.setattr(moving.LooseSessions, "changed", first_only)


@pytest.mark.parametrize("put_back", [_what_is_sent_again_is_new, _a_leader_that_stops_ends_all, _news_come_late])
def test_a_fault_is_found_although_doors_hear_all(
    put_back: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    with pytest.raises(Wrong):
        histories(cuts=False)


def _doors_are_told_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TicketBook, "drop", lambda *_: None)


@pytest.mark.parametrize(
    "put_back",
    [
        _nothing_is_asked,
        _transactions_are_not_marked,
        _closed_ones_are_opened_again,
        _spark_may_close_later,
        _tickets_are_mixed_up,
        _handles_work_for_all,
    ],
)
def test_a_fault_that_is_put_back_is_found(
    put_back: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back(monkeypatch)
    with pytest.raises(Wrong):
        histories(cuts=True)


def test_old_tickets_that_are_not_dropped_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    _doors_are_told_nothing_new(monkeypatch)
    histories(cuts=True)
