"""How sessions are opened: what a user may have at one time, and what becomes of one that nobody waits for any more."""

from __future__ import annotations

import asyncio
import gc
import secrets
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kept_lines import KeptLines
from TCLIService import ttypes
from wire import calls

from gateway.access_list import Principal
from gateway.config import Impersonator
from gateway.errors import StatementFailed, UpstreamLost
from gateway.login.authenticator import Authenticator, Unchecked
from gateway.login.groups import UserGroups
from gateway.login.impersonation import Impersonation
from gateway.mv.catalog.index import Catalog
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.habits import Habits
from gateway.service.clients import opening as service_opening
from gateway.service.clients import session as service_session
from gateway.service.clients.audit import Audit
from gateway.service.clients.handover import PROXY_USER_KEY, Handover, Logins
from gateway.service.clients.opening import OPEN_BYTES_MAX
from gateway.service.clients.session import FETCHING_SECONDS, Session, Sessions
from gateway.service.clients.sides import Sides
from gateway.service.clients.temporary_views import UncertainChange
from gateway.service.decision import Answer, Forward, decided
from gateway.service.dispatch import Dispatch, Service
from gateway.service.operations.operation import End, ForwardedOperation, Operation, Result
from gateway.service.routing.own_statements import OwnStatements
from gateway.service.routing.router import Router
from gateway.service.routing.underway import Effects
from gateway.service.routing.ways import Send, TemporaryViewsChanged
from gateway.wire import message, reply
from gateway.wire.connection import NOSASL
from gateway.wire.frame import WireError
from gateway.wire.http_connection import COOKIE_LOGIN, HTTP
from gateway.wire.memory import Memory
from gateway.wire.message import Handle
from gateway.wire.sasl import PLAIN, Login

DEADLINE_SECONDS = 60.0
LIMITED = "54000"
REFUSED = reply.error("OpenSession", 7, "no session for you", "HY000")


def opened() -> bytes:
    """Spark's reply with a new session."""
    handle = calls.session(Handle(secrets.token_bytes(16), secrets.token_bytes(16)))
    return calls.reply("OpenSession", ttypes.TOpenSessionResp(ttypes.TStatus(0), 9, handle, {}))


class Side:
    """A connection of the gateway's to Spark, whose replies come when the test lets them."""

    def __init__(self, spark: Opener) -> None:
        self.alive = True
        self.busy = False
        self.at = ""
        self._spark = spark

    async def forward(self, payload: bytes) -> bytes:
        name = message.peek(payload).name
        self._spark.asked.append(name)
        if name == "CloseSession":
            handle = message.request_handle(payload)
            assert handle is not None
            await self._spark.closes.wait()
            if self._spark.refuses_to_close:
                return reply.error(name, 1, "not now", "HY000")
            self._spark.sessions.discard(handle.guid)
            return reply.closed(name, 1)
        await self._spark.answers.wait()
        if isinstance(self._spark.answer, Exception):
            raise self._spark.answer
        answer = self._spark.answer or opened()
        if (found := message.opened(answer)) is not None:
            self._spark.sessions.add(found[0].guid)
        return answer

    def session(self, handle: Handle) -> SqlSession:
        raise AssertionError

    async def close(self) -> None:
        self.alive = False


class Opener:
    """Implements `side_connections.Upstream`. Opens sessions, and keeps them until they are closed, as over HTTP."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.closes = asyncio.Event()
        self.closes.set()
        self.connects = asyncio.Event()
        self.connects.set()
        self.answer: bytes | Exception | None = None
        self.asked: list[str] = []
        self.sides: list[Side] = []
        self.sessions: set[bytes] = set()
        self.connecting = 0
        self.refusal: StatementFailed | None = None
        self.refuses_to_close = False

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> Side:
        self.connecting += 1
        if self.refusal is not None:
            raise self.refusal
        await self.connects.wait()
        self.sides.append(Side(self))
        return self.sides[-1]


class Gateway:
    """A gateway for `per_user_max` sessions of each user, before an `Opener`."""

    def __init__(
        self, per_user_max: int = 1, router: object = None, mechanism: str = PLAIN, effects: object = None
    ) -> None:
        self.spark = Opener()
        self.sessions = Sessions(per_user_max)
        self.lines = KeptLines()
        nothing = cast(Any, None)
        self.service = Service(
            cast(Catalog, nothing),
            cast(Router, router),
            cast(Effects, effects),
            cast(OwnStatements, nothing),
            Sides(self.spark, 60.0),
            Logins(Handover(mechanism)),
            Habits(),
            sessions=self.sessions,
            audit=Audit(self.lines.keep),
        )

    def checked_by(self, authenticator: Any) -> Service:
        """The service, whose logins are checked so."""
        return replace(self.service, logins=replace(self.service.logins, authenticator=authenticator))

    async def session(self) -> tuple[Dispatch, Session]:
        """A client's, with the handle that `calls` has."""
        client = await self.client(PLAIN)
        answer = ttypes.TOpenSessionResp(ttypes.TStatus(0), 9, calls.session(), {})
        replied(await forwarded(client), calls.reply("OpenSession", answer))
        session = self.sessions.find(calls.HANDLE, ["ada"])
        assert session is not None
        return client, session

    async def client(self, mechanism: str, user: str = "ada") -> Dispatch:
        """The way of a client that is logged in; without SASL its calls say who it is."""
        dispatch = Dispatch(self.service)
        dispatch.came_from("10.0.0.1:5")
        dispatch.login(Login(user, "x", mechanism) if mechanism != NOSASL else Login("", "", NOSASL))
        if mechanism != NOSASL:
            await dispatch.admit()
        return dispatch


def run(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def within_deadline() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await check()

    asyncio.run(within_deadline())


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 (what is waited for sets no event)
        await asyncio.sleep(0)


async def forwarded(dispatch: Dispatch) -> Forward:
    """An OpenSession that goes to Spark over the client's own connection."""
    decision = await decided(dispatch.request(calls.open_session()))
    assert isinstance(decision, Forward)
    return decision


def replied(forward: Forward, answer: bytes) -> None:
    assert forward.on_reply is not None
    forward.on_reply(answer)


async def refused(dispatch: Dispatch) -> bool:
    """The next OpenSession is one too many."""
    decision = await decided(dispatch.request(calls.open_session()))
    return not isinstance(decision, Forward) and message.reply_status(decision.payload).sqlstate == LIMITED


def test_who_does_not_get_a_session_is_in_the_audit() -> None:
    async def check() -> None:
        gateway = Gateway(1)
        lines = gateway.lines
        client, second = await gateway.client(PLAIN), await gateway.client(PLAIN)
        replied(await forwarded(client), REFUSED)
        replied(await forwarded(client), opened())
        assert await refused(second)
        over_http = await gateway.client(HTTP)
        assert await refused(over_http)
        assert [(line["event"], line["user"], line["sqlstate"]) for line in lines] == [
            ("session", "ada", "HY000"),
            ("session", "ada", LIMITED),
            ("session", "ada", LIMITED),
        ]
        assert gateway.service.audit.counts.sessions_refused == 3

    run(check)


def test_without_sasl_each_session_is_a_login_in_the_audit() -> None:
    """Whether Spark refuses it, or is not there; and where the gateway has checked it, a limit comes after it."""

    async def check() -> None:
        gateway = Gateway()
        client = await gateway.client(NOSASL)
        replied(await forwarded(client), REFUSED)
        await forwarded(client)
        client.not_joined(calls.open_session(), StatementFailed("wrong password", "28000"))
        await forwarded(client)
        client.upstream_lost(calls.open_session())
        checked = Dispatch(gateway.checked_by(Everybody()))
        checked.login(Login("", "", NOSASL))
        replied(await forwarded(checked), opened())
        assert await refused(checked)
        assert [(line["event"], line.get("sqlstate")) for line in gateway.lines] == [
            ("login", "HY000"),
            ("login", "28000"),
            ("login", "08S01"),
            ("login", None),
            ("login", None),
            ("session", LIMITED),
        ]

    run(check)


def test_a_session_is_busy_while_its_client_may_be_reading() -> None:
    """From the reply on, however long that took; of the gateway's own statements until it has heard of their end."""

    async def check() -> None:
        gateway = Gateway(router=SimpleNamespace(plain=lambda *_: Send()), effects=Effects(*[cast(Any, None)] * 8))
        client, session = await gateway.session()
        begun = await decided(client.request(calls.execute("SELECT 1", run_async=False)))
        assert isinstance(begun, Forward)
        session.used -= 2 * FETCHING_SECONDS
        replied(begun, reply.execute_ok(7, calls.HANDLE))
        client.replied()
        assert session.is_busy()
        session.used -= 2 * FETCHING_SECONDS
        assert not session.is_busy()
        own = Operation(calls.OTHER, 9)
        gateway.sessions.add_operation(session, own.handle, own)
        own.start(asyncio.sleep(0, Result(())))
        await until(lambda: own.settled)
        session.used -= 2 * FETCHING_SECONDS
        assert session.is_busy()
        own.status(7)
        session.used -= 2 * FETCHING_SECONDS
        assert not session.is_busy()

    run(check)


def test_a_call_that_is_none_is_the_clients_fault_in_a_lost_session_too() -> None:
    async def check() -> None:
        gateway = Gateway()
        client, session = await gateway.session()
        gateway.sessions.lose(session)
        request = ttypes.TExecuteStatementReq(calls.session(), None)
        answer = await decided(client.request(calls.call("ExecuteStatement", request)))
        assert isinstance(answer, Answer)
        assert b"This is not a valid ExecuteStatement call" in answer.payload

    run(check)


def test_a_statement_that_finds_spark_gone_is_in_the_audit() -> None:
    """The news that its session is lost, and the vain attempt to open it anew."""

    async def check() -> None:
        gateway = Gateway()
        client, session = await gateway.session()
        gateway.sessions.lose(session)
        gateway.spark.refusal = StatementFailed("it starts", sqlstate="08S01")
        for _ in range(2):
            answer = await decided(client.request(calls.execute("SELECT 1")))
            assert message.reply_status(answer.payload).sqlstate == "08S01"
        lines = [(line["event"], line["outcome"], line["sqlstate"]) for line in gateway.lines]
        assert lines == [("statement", "failed", "08S01")] * 2

    run(check)


def test_what_is_begun_in_a_session_that_is_closed_meanwhile_is_ended() -> None:
    """From another connection: nobody else would ever close it."""

    async def check() -> None:
        ends: list[End] = []
        among: Any = SimpleNamespace(begin=lambda _: None, end=lambda _, end: ends.append(end))
        send = Send(effects=(TemporaryViewsChanged(among, UncertainChange()),))
        gateway = Gateway(router=SimpleNamespace(plain=lambda *_: send), effects=Effects(*[cast(Any, None)] * 8))
        client, session = await gateway.session()
        begun = await decided(client.request(calls.execute("INSERT INTO t VALUES (1)", run_async=True)))
        assert isinstance(begun, Forward)
        gateway.sessions.remove(session)
        replied(begun, reply.execute_ok(7, calls.HANDLE))
        assert ends == [End.UNKNOWN]
        assert gateway.sessions.operations == 0
        with pytest.raises(UpstreamLost, match="closed"):
            await session.side()

    run(check)


# --- the limit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [PLAIN, NOSASL])
def test_sessions_that_are_being_opened_count(mechanism: str) -> None:
    async def check() -> None:
        gateway = Gateway(2)
        first, second, third = [await gateway.client(mechanism) for _ in range(3)]
        requests = [await forwarded(first), await forwarded(second)]
        assert await refused(third)
        for each in requests:
            replied(each, opened())
        assert len(gateway.sessions) == 2
        assert await refused(third)
        await first.client_lost()
        await forwarded(third)
        assert await refused(await gateway.client(mechanism))

    run(check)


@pytest.mark.parametrize("mechanism", [HTTP, COOKIE_LOGIN])
def test_sessions_that_are_being_opened_count_over_http(mechanism: str) -> None:
    async def check() -> None:
        gateway = Gateway(2)
        clients = [await gateway.client(mechanism) for _ in range(5)]
        opening = [asyncio.ensure_future(decided(each.request(calls.open_session()))) for each in clients]
        await until(lambda: len(gateway.spark.asked) == 2)
        gateway.spark.answers.set()
        answers = [message.reply_status((await each).payload) for each in opening]
        assert [each.sqlstate for each in answers].count(LIMITED) == 3
        assert len(gateway.sessions) == len(gateway.spark.sessions) == 2
        stranger = await gateway.client(mechanism, "eve")
        assert not await refused(stranger)

    run(check)


def lost(dispatch: Dispatch, _: Forward) -> None:
    assert dispatch.upstream_lost(calls.open_session()) is not None


def not_joined(dispatch: Dispatch, _: Forward) -> None:
    answer = message.reply_status(dispatch.not_joined(calls.open_session(), UpstreamLost("it is away")))
    assert (answer.sqlstate, answer.message) == ("08S01", "it is away")


@pytest.mark.parametrize("mechanism", [PLAIN, NOSASL])
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(not_joined, id="no connection to Spark"),
        pytest.param(lambda _, forward: replied(forward, REFUSED), id="Spark refuses"),
        pytest.param(lost, id="the connection to Spark breaks"),
        pytest.param(lambda dispatch, _: dispatch.client_lost(), id="the client goes"),
    ],
)
def test_a_place_of_which_nothing_comes_is_given_back(how: Callable[..., Any], mechanism: str) -> None:
    async def check() -> None:
        gateway = Gateway()
        first, second = [await gateway.client(mechanism) for _ in range(2)]
        forward = await forwarded(first)
        assert await refused(second)
        if (done := how(first, forward)) is not None:
            await done
        replied(await forwarded(second), opened())
        # Given back once: the limit is not one more from then on.
        assert await refused(await gateway.client(mechanism))
        assert len(gateway.sessions) == 1

    run(check)


def test_a_reply_that_is_none_gives_the_place_back() -> None:
    async def check() -> None:
        gateway = Gateway()
        forward = await forwarded(await gateway.client(PLAIN))
        assert forward.on_reply is not None
        with pytest.raises(WireError):
            forward.on_reply(opened()[:-60])
        await forwarded(await gateway.client(PLAIN))

    run(check)


@pytest.mark.parametrize("answer", [REFUSED, UpstreamLost("it is gone")], ids=["refused", "lost"])
def test_a_place_over_http_is_given_back(answer: bytes | Exception) -> None:
    async def check() -> None:
        gateway = Gateway()
        client = await gateway.client(HTTP)
        gateway.spark.answers.set()
        for gateway.spark.answer in (answer, answer):
            assert not await refused(client)
            assert len(gateway.sessions) == 0
            assert not gateway.spark.sides[-1].alive
        gateway.spark.answer = None
        assert not await refused(client)
        assert await refused(client)

    run(check)


def test_sessions_over_http_are_as_many_as_connections_may_be() -> None:
    """Each has a connection to Spark that ends with no client's."""

    async def check() -> None:
        gateway = Gateway()
        gateway.sessions = Sessions(loose_max=2)
        gateway.service = replace(gateway.service, sessions=gateway.sessions)
        gateway.spark.answers.set()
        for user in ("ada", "bob"):
            assert not await refused(await gateway.client(HTTP, user))
        assert await refused(await gateway.client(HTTP, "eve"))
        # Those end with their client.
        await forwarded(await gateway.client(PLAIN, "eve"))

    run(check)


def test_a_closed_session_gives_its_place_back_once() -> None:
    async def check() -> None:
        gateway = Gateway()
        gateway.spark.answers.set()
        client = await gateway.client(HTTP)
        answer = await decided(client.request(calls.open_session()))
        assert isinstance(answer, Answer)
        found = message.opened(answer.payload)
        assert found is not None
        close = calls.call("CloseSession", ttypes.TCloseSessionReq(calls.session(found[0])))
        for _ in range(2):
            await decided(client.request(close))
        await gateway.service.background.finish(DEADLINE_SECONDS)
        assert not gateway.spark.sessions
        assert not await refused(client)
        assert await refused(client)

    run(check)


CLOSE = calls.call("CloseSession", ttypes.TCloseSessionReq(calls.session()))


async def closed_at_once(client: Dispatch) -> Forward:
    """A CloseSession on its way, which the client knows to be answered."""
    closing = await decided(client.request(CLOSE))
    assert isinstance(closing, Forward)
    assert closing.on_sent is not None
    closing.on_sent()
    return closing


def test_a_session_is_still_there_where_spark_could_not_be_told() -> None:
    """Its client hears so, and may close it again."""

    async def check() -> None:
        gateway = Gateway()
        client, session = await gateway.session()
        assert isinstance(await decided(client.request(CLOSE)), Forward)
        client.not_joined(CLOSE, UpstreamLost("Spark is not there"))
        assert not session.over
        replied(await closed_at_once(client), reply.closed("CloseSession", 7))
        assert session.over

    run(check)


def test_a_session_that_another_connection_has_closed_is_not_closed_again() -> None:
    async def check() -> None:
        gateway = Gateway()
        client, session = await gateway.session()
        other = await gateway.client(HTTP)
        replied(await closed_at_once(other), reply.closed("CloseSession", 7))
        await client.client_lost()
        assert session.over
        assert gateway.spark.asked == []

    run(check)


def test_sessions_that_others_have_closed_are_not_kept_by_the_connection_that_opened_them() -> None:
    async def check() -> None:
        gateway = Gateway()
        client, first = await gateway.session()
        other = await gateway.client(HTTP)
        gone = weakref.ref(first)
        del first
        for _ in range(2):
            replied(await closed_at_once(other), reply.closed("CloseSession", 7))
            answer = ttypes.TOpenSessionResp(ttypes.TStatus(0), 9, calls.session(), {})
            replied(await forwarded(client), calls.reply("OpenSession", answer))
        gc.collect()
        assert gone() is None

    run(check)


def test_a_request_for_a_session_that_is_very_long_is_refused() -> None:
    async def check() -> None:
        gateway = Gateway()
        client = await gateway.client(PLAIN)
        settings = {"set:hiveconf:a": "x" * OPEN_BYTES_MAX}
        asked = calls.call("OpenSession", ttypes.TOpenSessionReq(9, "ada", "x", settings))
        answer = _payload(await decided(client.request(asked)))
        assert "Set long values with SET statements" in (message.reply_status(answer).message or "")
        assert not await refused(client)

    run(check)


def test_few_sessions_end_later_than_their_clients_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else open and closed in turn they would be without limit at a Spark that is slow to close them."""
    monkeypatch.setattr(service_session, "ENDED_TOGETHER", 2)

    async def check() -> None:
        gateway = Gateway(per_user_max=1)
        gateway.spark.answers.set()
        gateway.spark.closes.clear()
        client = await gateway.client(HTTP)
        for later in (True, True, False):
            assert isinstance(await decided(client.request(calls.open_session())), Answer)
            (session,) = gateway.sessions._sessions.values()
            close = calls.call("CloseSession", ttypes.TCloseSessionReq(calls.session(session.handle)))
            closing = asyncio.ensure_future(decided(client.request(close)))
            if later:
                await closing
            else:
                await until(lambda: len(gateway.spark.asked) == 6)
                assert await refused(client)
                gateway.spark.closes.set()
                await closing
        await gateway.service.background.finish(DEADLINE_SECONDS)
        assert not gateway.spark.sessions

    run(check)


def test_a_session_without_operations_is_over_before_spark_says_so() -> None:
    """Its client has the answer at once, and may open another one in its place."""

    async def check() -> None:
        gateway = Gateway(per_user_max=1)
        client, session = await gateway.session()
        closing = await closed_at_once(client)
        assert (closing.payload, closing.at_once) == (CLOSE, reply.closed("CloseSession", 7))
        assert session.over
        await forwarded(client)

    run(check)


@pytest.mark.parametrize("outcome", ["closed", "refused", "connection lost", "client gone"])
def test_a_closed_session_is_closed_again_where_nobody_knows_whether_spark_has_heard(outcome: str) -> None:
    async def check() -> None:
        gateway = Gateway()
        client, _ = await gateway.session()
        closing = await closed_at_once(client)
        if outcome == "closed":
            replied(closing, reply.closed("CloseSession", 7))
        elif outcome == "refused":
            replied(closing, reply.error("CloseSession", 7, "I know no such session", "HY000"))
        elif outcome == "connection lost":
            assert client.upstream_lost(None) is None
        await client.client_lost()
        await gateway.service.background.finish(DEADLINE_SECONDS)
        assert gateway.spark.asked == ["CloseSession"] * (outcome in {"connection lost", "client gone"})

    run(check)


def test_a_session_with_an_operation_is_over_when_spark_has_closed_it() -> None:
    """What runs in it must have ended when the client hears so."""

    async def check() -> None:
        gateway = Gateway()
        client, session = await gateway.session()
        gateway.sessions.add_operation(session, calls.HANDLE, ForwardedOperation(calls.HANDLE))
        closing = await decided(client.request(CLOSE))
        assert isinstance(closing, Forward)
        assert closing.at_once is None
        assert not session.over
        replied(closing, reply.closed("CloseSession", 7))
        assert session.over

    run(check)


@pytest.mark.parametrize("ended", [False, True])
def test_an_operation_that_has_ended_is_closed_before_spark_says_so(ended: bool) -> None:
    async def check() -> None:
        gateway = Gateway()
        client, session = await gateway.session()
        operation = ForwardedOperation(calls.HANDLE)
        gateway.sessions.add_operation(session, calls.HANDLE, operation)
        if ended:
            operation.end(End.SUCCEEDED)
        closing = await decided(client.request(calls.close()))
        assert isinstance(closing, Forward)
        assert closing.at_once == (reply.closed("CloseOperation", 7) if ended else None)
        assert not operation.closed, "Spark may not be there to hear of it"
        if ended:
            assert closing.on_sent is not None
            closing.on_sent()
        else:
            replied(closing, reply.closed("CloseOperation", 7))
        assert operation.closed
        assert not session.operations

    run(check)


# --- who says who it is ----------------------------------------------------------------------------------------


class Everybody:
    """An authenticator that lets everybody in."""

    required = True

    async def check(self, login: Login, peer: str = "") -> Login:
        return login

    def vouches(self, login: Login) -> bool:
        return True

    def accepted(self, login: Login) -> None:
        raise AssertionError("Spark was asked")

    async def refused(self, login: Login, peer: str, reason: str) -> None:
        raise AssertionError("Spark was asked")


class Book:
    """Groups of users."""

    name = "book"
    is_cheap = True

    def groups_of(self, user: str) -> frozenset[str]:
        return {"ada": frozenset({"analysts"}), "hue": frozenset({"servers"})}.get(user, frozenset())


@pytest.mark.parametrize(
    ("user", "named", "groups"),
    [
        ("ada", "", {"analysts", "from the login"}),
        ("ada", "ada", {"analysts", "from the login"}),
        ("hue", "", {"servers", "from the login"}),
        ("hue", "ada", {"analysts"}),
        ("hue", "eve", None),
        ("ada", "eve", None),
    ],
)
def test_a_session_has_the_groups_of_its_user_not_of_the_account(
    user: str, named: str, groups: set[str] | None
) -> None:
    """An account may act for analysts, and what its own login has brought is not theirs."""

    async def check() -> None:
        gateway = Gateway()
        rules = Impersonation([Impersonator.parse("hue: group:analysts, group:servers")])
        logins = Logins(Handover(PLAIN, substitutes=False, impersonation=rules), groups=UserGroups([Book()]))
        client = Dispatch(replace(gateway.service, logins=logins))
        client.login(Login(user, "x", PLAIN, groups=frozenset({"from the login"})))
        await client.admit()
        payload = calls.open_session()
        if named:
            payload = message.with_configuration(payload, {PROXY_USER_KEY: named})
        decision = await decided(client.request(payload))
        if groups is None:
            assert isinstance(decision, Answer)
            assert message.reply_status(decision.payload).sqlstate == "42501"
            return
        assert isinstance(decision, Forward)
        answer = ttypes.TOpenSessionResp(ttypes.TStatus(0), 9, calls.session(), {})
        replied(decision, calls.reply("OpenSession", answer))
        session = gateway.sessions.find(calls.HANDLE, [user])
        assert session is not None
        assert session.who == Principal(named or user, frozenset(groups))

    run(check)


@pytest.mark.parametrize(
    ("mechanism", "authenticator", "joined", "asked"),
    [
        (PLAIN, Unchecked(), True, 0),
        (PLAIN, Everybody(), True, 0),
        (HTTP, Unchecked(), False, 1),
        (HTTP, Everybody(), False, 0),
        (COOKIE_LOGIN, Unchecked(), False, 0),
        (COOKIE_LOGIN, Everybody(), False, 0),
    ],
)
def test_spark_is_asked_first_where_nobody_else_has_said_who_it_is(
    mechanism: str, authenticator: Authenticator, joined: bool, asked: int
) -> None:
    async def check() -> None:
        gateway = Gateway()
        dispatch = Dispatch(gateway.checked_by(authenticator))
        dispatch.login(Login("ada", "x", mechanism))
        assert await dispatch.admit() is joined
        assert gateway.spark.connecting == asked

    run(check)


class Slow(Unchecked):
    """Refuses when the test lets it."""

    def __init__(self) -> None:
        super().__init__(Memory(60.0), 60.0)
        self.asked, self.over = asyncio.Event(), asyncio.Event()

    async def refused(self, login: Login, peer: str, reason: str) -> None:
        self.asked.set()
        await self.over.wait()


@pytest.mark.parametrize("connects", [False, True])
def test_without_sasl_spark_refuses_as_slowly_over_http(connects: bool) -> None:
    """Where it says so at the connection, and where it does at the first call."""

    async def check() -> None:
        gateway, slow = Gateway(mechanism=HTTP), Slow()
        refusal = StatementFailed("Spark refused the login of ada", "28000")
        gateway.spark.refusal = None if connects else refusal
        gateway.spark.answer = refusal
        gateway.spark.answers.set()
        client = Dispatch(gateway.checked_by(slow))
        client.login(Login("", "", NOSASL))
        answer = asyncio.ensure_future(decided(client.request(calls.open_session())))
        await slow.asked.wait()
        assert not answer.done()
        slow.over.set()
        assert message.reply_status(_payload(await answer)).sqlstate == "28000"

    run(check)


def test_who_is_refused_by_spark_over_http_owns_nothing() -> None:
    async def check() -> None:
        gateway = Gateway()
        gateway.spark.refusal = StatementFailed("Spark refused the login of ada", "28000")
        with pytest.raises(StatementFailed):
            await gateway.client(HTTP)
        gateway.spark.refusal = None
        first = await gateway.client(HTTP)
        gateway.spark.answers.set()
        await decided(first.request(calls.open_session()))
        (guid,) = gateway.spark.sessions
        gateway.spark.refusal = StatementFailed("Spark refused the login of ada", "28000")
        second = Dispatch(gateway.service)
        second.login(Login("ada", "wrong", HTTP))
        with pytest.raises(StatementFailed):
            await second.admit()
        closing = calls.call("CloseSession", ttypes.TCloseSessionReq(calls.session(Handle(guid, guid))))
        refusal = await decided(second.request(closing))
        assert isinstance(refusal, Answer)
        assert "Invalid SessionHandle" in (message.reply_status(refusal.payload).message or "")

    run(check)


def test_the_session_is_opened_where_spark_was_asked() -> None:
    async def check() -> None:
        gateway = Gateway(2)
        gateway.spark.answers.set()
        client = await gateway.client(HTTP)
        (asked,) = gateway.spark.sides
        assert isinstance(await decided(client.request(calls.open_session())), Answer)
        assert gateway.spark.sides == [asked]
        assert isinstance(await decided(client.request(calls.open_session())), Answer)
        assert len(gateway.spark.sides) == 2

    run(check)


def test_where_spark_was_asked_and_has_gone_no_session_is_opened() -> None:
    async def check() -> None:
        gateway = Gateway()
        gateway.spark.answers.set()
        client = await gateway.client(HTTP)
        gateway.spark.sides[0].alive = False
        assert message.opened(_payload(await decided(client.request(calls.open_session())))) is not None
        assert len(gateway.spark.sides) == 2

    run(check)


@pytest.mark.parametrize("refuses", [True, False])
@pytest.mark.parametrize("mechanism", [HTTP, PLAIN])
def test_the_connection_of_a_closed_session_serves_the_next_one(mechanism: str, refuses: bool) -> None:
    """Not so where Spark has not closed it: over SASL its end is the session's."""

    async def check() -> None:
        gateway = Gateway(2, mechanism=mechanism)
        gateway.spark.answers.set()
        gateway.spark.refuses_to_close = refuses
        client = await gateway.client(COOKIE_LOGIN)
        for _ in range(2):
            answer = _payload(await decided(client.request(calls.open_session())))
            handle, _ = message.opened(answer) or (None, 0)
            assert handle is not None
            await decided(client.request(calls.call("CloseSession", ttypes.TCloseSessionReq(calls.session(handle)))))
            await gateway.service.background.finish(DEADLINE_SECONDS)
        ended_with_it = refuses and mechanism == PLAIN
        assert len(gateway.spark.sides) == 1 + ended_with_it
        assert gateway.spark.sides[0].alive == (not ended_with_it)
        await gateway.service.sides.close()

    run(check)


def test_a_session_that_is_opened_anew_for_nobody_ends_with_its_connection() -> None:
    """Its client has gone meanwhile, and Spark's reply may come yet."""

    async def check() -> None:
        gateway = Gateway()
        _, session = await gateway.session()
        gateway.sessions.lose(session)
        reopening = asyncio.ensure_future(session.reopen())
        await until(lambda: gateway.spark.asked == ["OpenSession"])
        reopening.cancel()
        await asyncio.wait([reopening])
        await gateway.sessions.end(session)
        assert [side.alive for side in gateway.spark.sides] == [False]

    run(check)


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "wants something else"])
def test_a_connection_of_no_use_is_closed(leaves: bool) -> None:
    async def check() -> None:
        gateway = Gateway()
        client = await gateway.client(HTTP)
        (asked,) = gateway.spark.sides
        if leaves:
            await client.client_lost()
        else:
            await decided(client.request(calls.status()))
        await until(lambda: not asked.alive)

    run(check)


def test_spark_is_not_asked_again_about_a_login_that_it_has_just_taken() -> None:
    async def check() -> None:
        gateway = Gateway()
        gateway.service = gateway.checked_by(Unchecked(Memory(1000.0)))
        for _ in range(3):
            client = await gateway.client(HTTP)
            await client.client_lost()
        assert gateway.spark.connecting == 1
        await gateway.client(HTTP, "bob")
        assert gateway.spark.connecting == 2

    run(check)


def _payload(decision: Forward | Answer) -> bytes:
    assert isinstance(decision, Answer)
    return decision.payload


# --- clients that go -------------------------------------------------------------------------------------------


def test_a_client_that_goes_before_the_work_begins_takes_no_place() -> None:
    async def check() -> None:
        gateway = Gateway()
        decision = (await gateway.client(COOKIE_LOGIN)).request(calls.open_session())
        assert not isinstance(decision, Forward | Answer)
        opening = asyncio.ensure_future(decision)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
        assert gateway.spark.connecting == 0
        gateway.spark.answers.set()
        assert not await refused(await gateway.client(COOKIE_LOGIN))

    run(check)


def test_a_client_that_goes_while_the_gateway_connects_opens_nothing() -> None:
    async def check() -> None:
        gateway = Gateway()
        gateway.spark.connects.clear()
        opening = asyncio.ensure_future(decided((await gateway.client(COOKIE_LOGIN)).request(calls.open_session())))
        await until(lambda: gateway.spark.connecting)
        opening.cancel()
        await asyncio.wait([opening])
        gateway.spark.connects.set()
        gateway.spark.answers.set()
        assert not await refused(await gateway.client(COOKIE_LOGIN))
        assert gateway.spark.asked == ["OpenSession"]

    run(check)


@pytest.mark.parametrize("answer", [None, REFUSED, UpstreamLost("it is gone")], ids=["opened", "refused", "lost"])
@pytest.mark.parametrize("mechanism", [HTTP, PLAIN, NOSASL])
def test_a_session_is_closed_whose_client_has_gone_meanwhile(mechanism: str, answer: bytes | Exception | None) -> None:
    """A Spark that speaks HTTP would keep it, however the client has come."""

    async def check() -> None:
        gateway = Gateway(mechanism=HTTP)
        gateway.spark.answer = answer
        opening = asyncio.ensure_future(decided((await gateway.client(mechanism)).request(calls.open_session())))
        await until(lambda: gateway.spark.asked)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
        # It may be opened yet, and counts until then.
        assert await refused(await gateway.client(HTTP))
        gateway.spark.answers.set()
        await gateway.service.background.finish(DEADLINE_SECONDS)
        assert gateway.spark.asked == ["OpenSession"] + ["CloseSession"] * (answer is None)
        assert not gateway.spark.sessions
        assert len(gateway.sessions) == 0
        await gateway.service.sides.close()
        assert not gateway.spark.sides[0].alive
        gateway.spark.answer = None
        assert not await refused(await gateway.client(HTTP))

    run(check)


@pytest.mark.parametrize("mechanism", [PLAIN, NOSASL])
def test_sessions_at_a_spark_that_speaks_http_end_with_their_client(mechanism: str) -> None:
    async def check() -> None:
        gateway = Gateway(2, mechanism=HTTP)
        gateway.spark.answers.set()
        client = await gateway.client(mechanism)
        for count in (1, 2):
            assert isinstance(await decided(client.request(calls.open_session())), Answer)
            assert len(gateway.sessions) == len(gateway.spark.sessions) == count
        assert client.logged_in
        await client.client_lost()
        assert not gateway.spark.sessions
        assert len(gateway.sessions) == 0

    run(check)


def test_a_session_that_spark_never_opens_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its client has gone: the connection that it was asked over is closed."""
    monkeypatch.setattr(service_opening, "UNWANTED_SECONDS", 0.01)

    async def check() -> None:
        gateway = Gateway()
        opening = asyncio.ensure_future(decided((await gateway.client(HTTP)).request(calls.open_session())))
        await until(lambda: gateway.spark.asked)
        opening.cancel()
        await asyncio.wait([opening])
        await gateway.service.background.finish(DEADLINE_SECONDS)
        assert not gateway.spark.sides[0].alive
        gateway.spark.answers.set()
        assert not await refused(await gateway.client(HTTP))

    run(check)
