"""The sessions at Spark in which queries are compared with views."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from fake_spark import Answer, FakeSpark, FakeSqlSession, OnePlanPlans, SparkSession
from raw_session import encoded
from TCLIService import ttypes

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.ports import PlanUnavailable, SqlSession
from gateway.mv.rewriting.proving import Reader
from gateway.service.clients.proof_sessions import ProofSessions
from gateway.service.clients.session import Session
from gateway.service.clients.sides import Sides
from gateway.wire.connection import NOSASL
from gateway.wire.message import Handle, open_session, opened
from gateway.wire.sasl import Login
from sql.names import Namespace

OPEN = encoded("OpenSession", ttypes.TOpenSessionReq(5, "ada", None, {}))
NAMESPACE = Namespace("shop")
FIXED = "spark.sql.fixed"
_CHANGE = re.compile(r"(SET|RESET) `([^`]*)`(?:=`([^`]*)`)?")


class SparkWithSettings(FakeSpark):
    """Its sessions have settings; one of them cannot be changed."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[bytes, dict[str, str]] = defaultdict(lambda: {"a": "1", "b": "2"})
        self.asked_in: dict[bytes, list[str]] = defaultdict(list)

    async def run(self, session: SparkSession, sql: str, on_start: Callable[[str], None] | None) -> Answer:
        settings = self.settings[session.handle.guid]
        self.asked_in[session.handle.guid].append(sql)
        if sql == "SET":
            return Answer(sorted(settings.items()))
        if (change := _CHANGE.fullmatch(sql)) is not None:
            if change[2] == FIXED:
                raise StatementFailed("it cannot be changed")
            settings.pop(change[2], None)
            settings |= {change[2]: change[3]} if change[1] == "SET" else {}
        return Answer([])


class Texts(OnePlanPlans):
    """Knows no plan."""

    def __init__(self, *, in_place: bool = False) -> None:
        self.in_place = in_place
        self.checks_rights = in_place
        self.sessions: list[SqlSession] = []

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        self.sessions.append(session)
        yield b"name"


def own(reader: Reader) -> bytes:
    """The session at Spark of a reader."""
    assert isinstance(reader.sql, FakeSqlSession)
    handle: Handle = reader.sql.session.handle
    return handle.guid


def client(spark: SparkWithSettings) -> Session:
    found = opened(spark.hear(OPEN))
    assert found is not None
    return Session(found[0], 5, "ada", Login("ada", "x", NOSASL), open_session(OPEN), OPEN, Sides(spark, 60.0))


async def test_the_embedded_engine_plans_in_the_session_itself() -> None:
    spark = SparkWithSettings()
    session = client(spark)
    async with ProofSessions(Texts(in_place=True)).of(session, NAMESPACE) as planning:
        assert own(await planning.reader()) == session.upstream_handle.guid
        assert len(spark.sessions) == 1


async def test_another_session_gets_the_settings_and_ends_afterwards() -> None:
    spark, texts = SparkWithSettings(), Texts()
    session = client(spark)
    own = session.upstream_handle.guid
    spark.settings[own] = {"a": "3", "c": "4"}
    async with ProofSessions(texts).of(session, NAMESPACE) as planning:
        assert len(spark.sessions) == 1
        assert await planning.reader() is await planning.reader()
        assert (await planning.reader()).name == b"name"
        (twin,) = spark.sessions.keys() - {own}
        assert spark.sessions[twin].user == spark.sessions[own].user
        assert spark.settings[twin] == spark.settings[own] == {"a": "3", "c": "4"}
        assert spark.asked_in[twin][-1] == "USE `spark_catalog`.`shop`"
        assert spark.asked_in[own] == ["SET"]
        assert len(texts.sessions) == 1
    assert spark.sessions.keys() == {own}


async def test_nothing_is_planned_under_other_settings() -> None:
    spark, texts = SparkWithSettings(), Texts()
    session = client(spark)
    spark.settings[session.upstream_handle.guid] = {"a": "1", "b": "2", FIXED: "x"}
    async with ProofSessions(texts).of(session, NAMESPACE) as planning:
        with pytest.raises(PlanUnavailable, match=FIXED):
            await planning.reader()
    assert not texts.sessions


async def closed(spark: SparkWithSettings, session: Session) -> None:
    """Its client has closed it, and it has ended at Spark."""
    await session.end()
    session.closed = session.over = True
    assert session.upstream_handle.guid not in spark.sessions


@pytest.mark.parametrize("in_place", [True, False])
async def test_a_session_that_its_client_has_closed_is_replaced_by_one_like_it(in_place: bool) -> None:
    spark = SparkWithSettings()
    sessions, session = ProofSessions(Texts(in_place=in_place)), client(spark)
    settings = {"a": "3", "c": "4"}
    spark.settings[session.upstream_handle.guid] = dict(settings)
    session.settings.note("SET a=3")
    session.settings.note("SET c=4")
    await sessions.note(session)
    await closed(spark, session)
    async with sessions.of(session, NAMESPACE) as planning:
        twin = own(await planning.reader())
        assert spark.settings[twin] == settings
        assert spark.asked_in[twin][-1] == "USE `spark_catalog`.`shop`"
        assert spark.sessions[twin].user == "ada"
    async with sessions.spare(session, NAMESPACE) as spare:
        assert isinstance(spare, FakeSqlSession)
        assert spark.settings[spare.session.handle.guid] == settings
    assert spark.sessions == {}


async def test_the_settings_of_a_session_are_those_of_every_session_that_was_set_alike() -> None:
    spark = SparkWithSettings()
    sessions, first, second = ProofSessions(Texts(in_place=True)), client(spark), client(spark)
    await sessions.note(first)
    await sessions.note(second)
    assert spark.asked_in[second.upstream_handle.guid] == []
    await closed(spark, second)
    async with sessions.of(second, NAMESPACE) as planning:
        await planning.reader()


def differs(session: Session) -> None:
    session.settings.note("SET a=now()", constant=False)


def was_set(session: Session) -> None:
    session.settings.note("SET a=4")


@pytest.mark.parametrize("change", [differs, was_set])
async def test_nothing_is_planned_if_the_settings_of_a_closed_session_are_not_known(
    change: Callable[[Session], None],
) -> None:
    spark = SparkWithSettings()
    sessions, session = ProofSessions(Texts(in_place=True)), client(spark)
    await sessions.note(session)
    change(session)
    await closed(spark, session)
    async with sessions.of(session, NAMESPACE) as planning:
        with pytest.raises(UpstreamLost, match="before its settings were known"):
            await planning.reader()
    assert spark.sessions == {}
