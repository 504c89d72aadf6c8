"""Tests sessions over HTTP that outlive the gateway that has opened them: every door keeps their tickets, and Spark
says what is true of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from service.test_moving_sessions import gateway
from service.test_opening import Gateway, Opener, Side, run, until
from wire import calls

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.progress import Lines
from gateway.service.clients import opening, transaction
from gateway.service.clients.moving import LooseSessions
from gateway.service.clients.session import MOVING_SECONDS, Session
from gateway.service.clients.ticket import LooseTicket, TicketKeeper
from gateway.service.decision import Answer, Forward, decided
from gateway.service.dispatch import Dispatch
from gateway.service.operations.operation import ForwardedOperation
from gateway.service.routing.own_statements import OwnStatements
from gateway.wire import message, request
from gateway.wire.http_connection import HTTP
from gateway.wire.message import Handle
from gateway.wire.sasl import PLAIN, Login
from sql.statement import BeginTransaction, EndTransaction

INSERT = "INSERT INTO t VALUES (1)"


class Over(Side):
    """A connection whose sessions have settings."""

    def session(self, handle: Handle) -> SqlSession:
        spark = cast(SessionsWithSettings, self._spark)

        async def run_(text: str) -> Any:
            if spark.is_down:
                raise UpstreamLost("down")
            if handle.guid not in spark.sessions:
                raise StatementFailed("Invalid SessionHandle: SessionHandle [0]", "HY000")
            settings = spark.settings.setdefault(handle.guid, {})
            if text.startswith("SET "):
                name, _, value = text.removeprefix("SET ").partition(" = ")
                if value:
                    settings[name] = value
                return SimpleNamespace(rows=[(name, settings.get(name, "<undefined>"))])
            if text.startswith("RESET "):
                settings.pop(text.removeprefix("RESET "), None)
                return SimpleNamespace(rows=[])
            return SimpleNamespace(rows=[("spark_catalog", "sales")])

        return cast(SqlSession, SimpleNamespace(run=run_))


class SessionsWithSettings(Opener):
    """Keeps sessions that were untied, and their settings."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[bytes, dict[str, str]] = {}
        self.is_down = False

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> Side:
        await super().connect(login, ask=ask, at=at)
        self.sides[-1] = Over(self)
        return self.sides[-1]


class Keeper:
    """A book. Implements `TicketKeeper`."""

    def __init__(self, is_copied: bool = True) -> None:
        self.tickets: dict[bytes, bytes] = {}
        self.earlier: list[bytes] = []
        """All that there ever were."""
        self.is_copied = is_copied
        self.on_copy: Callable[[], None] = lambda: None

    def keep(self, key: bytes, ticket: bytes) -> None:
        self.tickets[key] = ticket
        self.earlier.append(ticket)

    def drop(self, key: bytes) -> None:
        self.tickets.pop(key, None)


@dataclass
class Leader:
    gate: Gateway
    keeper: Any

    @property
    def loose(self) -> LooseSessions:
        assert self.gate.service.loose is not None
        return self.gate.service.loose

    async def client(self, user: str = "ada") -> Dispatch:
        """A new connection."""
        client = Dispatch(self.gate.service)
        client.came_from("10.0.0.1:5")
        client.login(Login(user, "x", HTTP))
        await client.admit()
        return client

    async def opened(self, user: str = "ada") -> Session:
        answer = await decided((await self.client(user)).request(calls.open_session()))
        assert isinstance(answer, Answer)
        found = message.opened(answer.payload)
        assert found is not None
        session = self.gate.sessions.find(found[0], [user])
        assert session is not None
        await until(lambda: not session.tied)
        return session

    async def asked(
        self, handle: Handle, text: str = "SELECT 1", client: Dispatch | None = None, seqid: int = 0
    ) -> Forward | Answer:
        client = client if client is not None else await self.client()
        return await decided(client.request(message.with_handle(calls.execute(text, seqid=seqid), handle)))

    async def ends(self, handle: Handle, user: str = "ada") -> str | None:
        """Closes the session. Returns the error."""
        client = await self.client(user)
        answer = await decided(client.request(request.close_session(handle)))
        assert isinstance(answer, Answer)
        return message.reply_status(answer.payload).message


async def leader(
    spark: SessionsWithSettings, *tickets: bytes, leads: bool = True, keeper: TicketKeeper | None = None
) -> Leader:
    """A gateway that leads, and goes on with these sessions."""
    spark.answers.set()
    gate = gateway(spark, leads)
    book: TicketKeeper = Keeper() if keeper is None else keeper
    service = gate.service
    assert service.leadership is not None
    gate.sessions.stands = service.leadership.stands
    handover = service.logins.handover
    loose = LooseSessions(gate.sessions, service.sides, handover, service.audit, service.background, 30.0)
    gate.service = replace(service, loose=loose)
    await loose.go_on_with(tickets, book)
    return Leader(gate, book)


def sqlstate(decision: Forward | Answer) -> str | None:
    assert isinstance(decision, Answer)
    return message.reply_status(decision.payload).sqlstate


def text(decision: Forward | Answer) -> str:
    assert isinstance(decision, Answer)
    return message.reply_status(decision.payload).message or ""


def test_a_session_goes_on_at_the_next_leader() -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        assert spark.asked == ["OpenSession", "OpenSession", "CloseSession"]
        (ticket,) = first.keeper.tickets.values()
        second = await leader(spark, ticket)
        assert isinstance(await second.asked(session.handle), Forward)
        (same,) = second.gate.sessions.loose
        assert (same.account, same.handle) == ("ada", session.handle)
        assert (await same.resolve_namespace()).database == "sales"
        assert same.temporary.nameless
        assert same.settings.opaque
        # Nobody else has its handle, and the limits count it.
        assert "Invalid SessionHandle" in text(await second.asked(session.handle, client=await second.client("eve")))
        assert second.gate.sessions._of_user["ada"] == second.gate.sessions._of_all["http"] == 1
        # The next one after that goes on with it, too, until it is closed.
        third = await leader(spark, *second.keeper.tickets.values())
        assert isinstance(await third.asked(session.handle), Forward)
        assert await third.ends(session.handle) is None
        assert spark.sessions == set()
        assert third.keeper.tickets == {}
        assert third.gate.sessions.loose == []

    run(check)


def test_no_ticket_is_of_any_use_once_the_session_is_closed() -> None:
    """Also one that was kept by a door that has heard nothing since."""

    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        spark.closes.clear()
        closing = first.ends(session.handle)
        ended = asyncio.ensure_future(closing)
        await until(lambda: spark.asked[-1] == "CloseSession" and len(spark.asked) == 4)
        assert not ended.done()
        spark.closes.set()
        assert await ended is None
        assert first.keeper.tickets == {}
        assert first.keeper.earlier
        for ticket in first.keeper.earlier:
            second = await leader(spark, ticket)
            for _ in range(2):
                assert "Invalid SessionHandle" in text(await second.asked(session.handle))
            assert second.keeper.tickets == {}
            # Spark was asked for no session.
            assert spark.sessions == set()

    run(check)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, (True, True, False)),
        ({"freshgate.rewrite": "off"}, (False, True, False)),
        ({"freshgate.result_cache": "'OFF'", "freshgate.rewrite": "on"}, (True, False, False)),
        ({"freshgate.snapshot": "session"}, (True, True, True)),
        ({"freshgate.snapshot": "nonsense"}, (True, True, False)),
    ],
)
def test_an_old_ticket_leads_to_the_state_of_now(settings: dict[str, str], found: tuple[bool, ...]) -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        (old,) = first.keeper.earlier
        spark.settings[session.handle.guid] = settings
        session.settings.rewrites = not found[0]
        first.gate.sessions.changed(session)
        for ticket in (old, first.keeper.earlier[-1]):
            second = await leader(spark, ticket)
            answer = await second.asked(session.handle)
            (same,) = second.gate.sessions.loose
            assert (same.settings.rewrites, same.settings.keeps_results, same.transaction.session) == found
            if found[2]:
                assert sqlstate(answer) == "25000"
                answer = await second.asked(session.handle)
            assert isinstance(answer, Forward)
            assert not same.collects_in_parts

    run(check)


def test_rows_that_are_computed_in_parts_are_known() -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        spark.settings[session.handle.guid] = {"spark.sql.thriftServer.incrementalCollect": "true"}
        second = await leader(spark, *first.keeper.tickets.values())
        await second.asked(session.handle)
        (same,) = second.gate.sessions.loose
        assert same.collects_in_parts

    run(check)


def test_a_transaction_ends_with_its_leader_also_if_the_ticket_is_old() -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        (old,) = first.keeper.earlier
        own = OwnStatements(*[cast(Any, SimpleNamespace(begin=lambda it, everything: it.begin()))] * 4)
        begin, end = BeginTransaction(snapshot=False), EndTransaction(commit=True, chain=False)
        await own.execute(cast(Any, SimpleNamespace(statement=begin)), session, Lines(lambda _: None))
        assert spark.settings[session.handle.guid] == {transaction.MARK: transaction.OPEN}
        second = await leader(spark, old)
        assert sqlstate(await second.asked(session.handle)) == "25000"
        assert isinstance(await second.asked(session.handle), Forward)
        await own.execute(cast(Any, SimpleNamespace(statement=end)), session, Lines(lambda _: None))
        third = await leader(spark, old)
        assert isinstance(await third.asked(session.handle), Forward)

    run(check)


def test_a_statement_that_comes_twice_runs_once() -> None:
    """Hive's driver sends it again if the connection ends without a reply, to this leader or the next."""

    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        client = await first.client()
        assert isinstance(await first.asked(session.handle, INSERT, client, seqid=5), Forward)
        # Before it is sent to Spark, or done by the gateway, doors know of it.
        known, sent = map(LooseTicket.decoded, first.keeper.earlier[-2:])
        assert (known.busy, sent.busy) == (False, True)
        assert known.last == sent.last != ""
        (ticket,) = first.keeper.tickets.values()
        second = await leader(spark, ticket)
        for each in (first, second):
            assert sqlstate(await each.asked(session.handle, INSERT, seqid=5)) == "08007"
            assert sqlstate(await each.asked(session.handle, INSERT, seqid=5)) == "08007"
            assert isinstance(await each.asked(session.handle, INSERT, seqid=6), Forward)
            # Reads are run again. What has no number cannot be recognized.
            for number in (7, 0):
                for _ in range(2):
                    assert isinstance(await each.asked(session.handle, "SELECT 1", seqid=number), Forward)
        for _ in range(2):
            assert isinstance(await second.asked(session.handle, INSERT), Forward)
        # A program that gives all its calls the same number uses one connection.
        assert isinstance(await first.asked(session.handle, INSERT, client, seqid=9), Forward)
        assert isinstance(await first.asked(session.handle, INSERT, client, seqid=9), Forward)

    run(check)


@pytest.mark.parametrize("yielded", [False, True])
def test_what_runs_is_ended_unless_the_leader_has_handed_over(yielded: bool) -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        operation = ForwardedOperation(calls.OTHER)
        first.gate.sessions.add_operation(session, calls.OTHER, operation)
        first.gate.sessions.changed(session)
        if yielded:
            first.loose.hand_over()
        before = len(spark.asked)
        second = await leader(spark, *first.keeper.tickets.values())
        (same,) = second.gate.sessions.loose
        if not yielded:
            await until(lambda: spark.asked[before:] == ["CancelOperation", "CloseOperation"])
        status = (await second.client()).request(calls.status(handle=calls.OTHER))
        assert sqlstate(await decided(status)) == "08007"
        await second.asked(same.handle)
        assert same.namespace_doubtful
        longer = same._moving_until - time.monotonic() > MOVING_SECONDS
        assert longer is yielded
        assert (len(spark.asked) == before) is yielded

    run(check)


@pytest.mark.parametrize("leads", [True, False])
def test_a_leader_that_stops_ends_only_sessions_with_which_no_other_goes_on(leads: bool) -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark, leads=leads)
        session = await first.opened()
        first.gate.sessions._loose_seconds = 0.001
        first.gate.sessions.ending = True
        await first.gate.sessions.close()
        assert first.gate.sessions.loose == []
        assert (session.handle.guid in spark.sessions) is not leads

    run(check)


@pytest.mark.parametrize("leads", [True, False])
def test_a_leader_that_was_superseded_ends_no_unused_session(leads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark, leads=leads)
        session = await first.opened()
        session.used -= 1000
        first.gate.sessions._loose_seconds = 0.004
        await first.gate.sessions._sweep()
        assert (session.handle.guid in spark.sessions) is not leads

    run(check)


def test_a_session_whose_connection_breaks_is_asked_for_at_spark() -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        # Only the connection: the session is the same.
        await spark.sides[0].close()
        assert isinstance(await first.asked(session.handle), Forward)
        assert session.upstream_handle == session.handle
        # Spark does not answer: the session stays.
        await cast(Any, session._side).close()
        spark.is_down = True
        assert sqlstate(await first.asked(session.handle)) == "08S01"
        spark.is_down = False
        assert isinstance(await first.asked(session.handle), Forward)
        # Spark was started anew: its client is told once, and gets another one, which goes on elsewhere too.
        await cast(Any, session._side).close()
        spark.sessions.clear()
        assert sqlstate(await first.asked(session.handle)) == "08S01"
        assert first.keeper.tickets == {}
        assert isinstance(await first.asked(session.handle), Forward)
        assert spark.sessions == {session.upstream_handle.guid}
        (ticket,) = first.keeper.tickets.values()
        second = await leader(spark, ticket)
        assert isinstance(await second.asked(session.handle), Forward)
        # Those of before lead nowhere.
        third = await leader(spark, first.keeper.earlier[0])
        assert "Invalid SessionHandle" in text(await third.asked(session.handle))

    run(check)


def test_a_session_that_was_opened_at_another_server_moves_no_more() -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        session = await first.opened()
        session.at = "spark-2"
        first.gate.sessions.lose(session)
        spark.sides[-1].at = "spark-2"
        assert sqlstate(await first.asked(session.handle)) == "08S01"
        session._side = None
        connect = spark.connect

        async def elsewhere(login: Login, *, ask: bool = False, at: str | None = None) -> Side:
            side = await connect(login, ask=ask, at=at)
            side.at = "spark-3"
            return side

        spark.connect = elsewhere  # type: ignore[method-assign]
        assert isinstance(await first.asked(session.handle), Forward)
        assert session.tied
        assert first.keeper.tickets == {}

    run(check)


def test_sessions_move_once_there_is_a_door() -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        first = await leader(spark)
        first.keeper.is_copied = False
        client = await first.client()
        answer = await decided(client.request(calls.open_session()))
        assert isinstance(answer, Answer)
        (session,) = first.gate.sessions.loose
        assert (session.tied, first.keeper.tickets, spark.asked) == (True, {}, ["OpenSession"])
        first.keeper.on_copy()
        await until(lambda: bool(first.keeper.tickets))
        assert not session.tied
        second = await leader(spark, *first.keeper.tickets.values())
        assert isinstance(await second.asked(session.handle), Forward)
        first.keeper.on_copy()
        await first.gate.service.background.finish(10)
        assert spark.asked == ["OpenSession", "OpenSession", "CloseSession"]

    run(check)


def test_a_session_that_needs_a_long_request_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        monkeypatch.setattr(opening, "MOVING_BYTES_MAX", 10)
        first = await leader(SessionsWithSettings())
        await decided((await first.client()).request(calls.open_session()))
        (session,) = first.gate.sessions.loose
        first.keeper.on_copy()
        await first.gate.service.background.finish(10)
        assert session.continuity.stays
        assert session.tied
        assert first.keeper.tickets == {}

    run(check)


def test_sessions_of_a_single_gateway_stay_tied() -> None:
    async def check() -> None:
        spark = SessionsWithSettings()
        spark.answers.set()
        gate = Gateway(5, mechanism=PLAIN)
        gate.spark = spark
        gate.service.sides._upstream = spark
        client = Dispatch(gate.service)
        client.login(Login("ada", "x", HTTP))
        await client.admit()
        await decided(client.request(calls.open_session()))
        assert spark.asked == ["OpenSession"]
        (session,) = gate.sessions.loose
        assert session.tied

    run(check)
