"""Tests sessions that outlive the gateway that has opened them: a door keeps their tickets for the next one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from service.test_opening import Gateway, Opener, Side, run, until
from wire import calls

from gateway.errors import FreshgateError, StatementFailed, UpstreamLost
from gateway.mv.ports import SqlSession
from gateway.service.clients.session import RUNNING_MAX, Session
from gateway.service.clients.ticket import SessionState
from gateway.service.decision import Answer, Forward, decided
from gateway.service.dispatch import Dispatch
from gateway.service.leadership import Leadership
from gateway.service.operations.operation import ForwardedOperation
from gateway.service.routing.underway import Effects
from gateway.service.routing.ways import Send
from gateway.wire import message
from gateway.wire.message import Handle
from gateway.wire.sasl import PLAIN, Login


class Asked(Side):
    """A connection over which the gateway runs statements of its own."""

    def session(self, handle: Handle) -> SqlSession:
        async def run(_: str) -> Any:
            if handle.guid not in self._spark.sessions:
                raise StatementFailed("Invalid SessionHandle: SessionHandle [0]", "HY000")
            return SimpleNamespace(rows=[("spark_catalog", "sales")])

        return cast(SqlSession, SimpleNamespace(run=run))


class KeptSessions(Opener):
    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> Side:
        await super().connect(login, ask=ask, at=at)
        self.sides[-1] = Asked(self)
        return self.sides[-1]


def gateway(spark: Opener, leads: bool = True) -> Gateway:
    """A gateway before this Spark, whose epoch stands if it `leads`."""

    async def stands() -> bool:
        return leads

    made = Gateway(5, router=SimpleNamespace(plain=lambda *_: Send()), effects=Effects(*[cast(Any, None)] * 8))
    made.spark = spark
    made.service.sides._upstream = spark
    leadership = SimpleNamespace(stands=stands, needs_check=lambda _: False)
    made.service = replace(made.service, leadership=cast(Leadership, leadership))
    return made


async def passed_on(leader: Gateway) -> tuple[Dispatch, Session]:
    """A door's client, with a session that Spark keeps."""
    leader.spark.answers.set()
    client = Dispatch(leader.service)
    client.moving.passed_on()
    client.came_from("10.0.0.1:5")
    client.login(Login("ada", "x", PLAIN))
    await client.admit()
    answer = await decided(client.request(calls.open_session()))
    assert isinstance(answer, Answer)
    found = message.opened(answer.payload)
    assert found is not None
    session = leader.sessions.find(found[0], ["ada"])
    assert session is not None
    await until(lambda: not session.tied)
    return client, session


async def arrived(next_one: Gateway, ticket: bytes | None) -> tuple[Dispatch, Session]:
    assert ticket is not None
    client = Dispatch(next_one.service)
    client.moving.passed_on()
    client.came_from("10.0.0.1:5")
    assert client.moving.arrive(ticket) == Login("ada", "x", PLAIN)
    (session,) = next_one.sessions._sessions.values()
    return client, session


async def asked(client: Dispatch, session: Session, text: str = "SELECT 1") -> Forward | Answer:
    payload = message.with_handle(calls.execute(text), session.handle)
    return await decided(client.request(payload))


def sqlstate(decision: Forward | Answer) -> str | None:
    assert isinstance(decision, Answer)
    return message.reply_status(decision.payload).sqlstate


def test_spark_keeps_the_session_of_a_doors_client_and_the_next_leader_ends_it() -> None:
    async def check() -> None:
        spark = KeptSessions()
        leader, next_one = gateway(spark), gateway(spark)
        client, session = await passed_on(leader)
        assert spark.asked == ["OpenSession", "OpenSession", "CloseSession"]
        assert spark.sessions == {session.handle.guid}
        # Its connection is free for others.
        assert not session.anchored
        assert not session.has_own
        ticket = client.moving.ticket()
        assert client.moving.ticket() is None
        client.moving.left()
        await client.client_lost()
        assert len(leader.sessions) == 0
        assert spark.sessions == {session.handle.guid}
        second, same = await arrived(next_one, ticket)
        assert same.handle == session.handle
        assert isinstance(await asked(second, same), Forward)
        assert (await same.resolve_namespace()).database == "sales"
        assert next_one.sessions._of_user["ada"] == 1
        await second.client_lost()
        assert spark.sessions == set()

    run(check)


def test_a_leader_that_was_superseded_leaves_sessions_alone() -> None:
    async def check() -> None:
        spark = KeptSessions()
        for leads in (True, False):
            client, session = await passed_on(gateway(spark, leads=leads))
            await client.client_lost()
            assert (session.handle.guid in spark.sessions) is not leads

    run(check)


def test_what_another_gateway_knew_is_doubtful() -> None:
    async def check() -> None:
        spark = KeptSessions()
        leader, next_one = gateway(spark), gateway(spark)
        client, session = await passed_on(leader)
        client.moving.ticket()
        session.settings.rewrites = False
        session.settings.lineage_parent = "airflow/dag/run"
        session.transaction.begin()
        operation = ForwardedOperation(calls.OTHER)
        leader.sessions.add_operation(session, calls.OTHER, operation)
        ticket = client.moving.ticket()
        operation.ended = True
        assert client.moving.ticket() is not None
        second, same = await arrived(next_one, ticket)
        assert (same.settings.rewrites, same.settings.keeps_results) == (False, True)
        assert same.settings.lineage_parent == "airflow/dag/run"
        assert same.settings.opaque
        assert same.temporary.nameless
        assert same.namespace is None
        assert same.namespace_doubtful
        # What ran is ended, and its client told.
        await until(lambda: spark.asked[-2:] == ["CancelOperation", "CloseOperation"])
        status = await decided(second.request(calls.status(handle=calls.OTHER)))
        assert sqlstate(status) == "08007"
        closed = await decided(second.request(calls.close(handle=calls.OTHER)))
        assert sqlstate(closed) is None
        # impyla tries this first, and closes it otherwise if it is told that there is no such call.
        close = calls.close(handle=calls.OTHER)
        tried = await decided(second.request(close.replace(b"\x0eCloseOperation", b"\x14CloseImpalaOperation")))
        assert isinstance(tried, Answer)
        assert b"Invalid method name: 'CloseImpalaOperation'" in tried.payload
        # The transaction has ended, which is said once.
        assert sqlstate(await asked(second, same)) == "25000"
        assert isinstance(await asked(second, same), Forward)

    run(check)


def test_a_session_that_has_ended_at_spark_is_said_to_be_lost_once() -> None:
    async def check() -> None:
        spark = KeptSessions()
        client, session = await passed_on(gateway(spark))
        ticket = client.moving.ticket()
        spark.sessions.clear()
        next_one = gateway(spark)
        second, same = await arrived(next_one, ticket)
        assert sqlstate(await asked(second, same)) == UpstreamLost.sqlstate
        assert isinstance(await asked(second, same), Forward)
        # It was opened again, so that Spark keeps it again.
        assert same.upstream_handle != session.handle
        assert spark.sessions == {same.upstream_handle.guid}
        assert not same.tied

    run(check)


def test_a_session_that_was_lost_before_it_was_used_again_is_lost_once() -> None:
    async def check() -> None:
        spark = KeptSessions()
        client, _ = await passed_on(gateway(spark))
        next_one = gateway(spark)
        second, same = await arrived(next_one, client.moving.ticket())
        next_one.sessions.lose(same)
        assert sqlstate(await asked(second, same)) == UpstreamLost.sqlstate
        assert isinstance(await asked(second, same), Forward)

    run(check)


def test_a_session_stays_tied_if_spark_opens_no_other_one() -> None:
    async def check() -> None:
        leader = gateway(KeptSessions())
        _, session = await passed_on(leader)
        session.tied = session.anchored = True
        session._side = leader.spark.sides[0]
        leader.spark.refuses_to_close = True
        await session.untie()
        assert session.tied
        leader.spark.answer = FreshgateError("broken")
        try:
            await session.untie()
        except FreshgateError:
            assert session.tied

    run(check)


def test_only_so_many_running_statements_are_told() -> None:
    async def check() -> None:
        leader = gateway(KeptSessions())
        _, session = await passed_on(leader)
        for number in range(RUNNING_MAX + 1):
            handle = Handle(number.to_bytes(16, "big"), b"s" * 16)
            leader.sessions.add_operation(session, handle, ForwardedOperation(handle))
        assert session.state == SessionState(session.handle)

    run(check)


def test_a_gateway_leaves_when_nothing_is_left_to_do() -> None:
    async def check() -> None:
        leader = gateway(KeptSessions())
        client, session = await passed_on(leader)
        assert not client.moving.leaves(calls.status())
        leader.sessions.stopping = True
        assert client.moving.leaves(calls.status())
        session.outstanding = 1
        assert not client.moving.leaves(calls.status())

    run(check)


def test_a_client_of_the_leader_itself_is_served_as_ever() -> None:
    async def check() -> None:
        leader = gateway(KeptSessions())
        client = await leader.client(PLAIN)
        assert isinstance(await decided(client.request(calls.open_session())), Forward)
        await asyncio.sleep(0)

    run(check)
