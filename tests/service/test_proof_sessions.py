"""The sessions at Spark in which queries are compared with views."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from fakes import Answer, FakeSide, FakeSpark, FakeSqlSession
from raw_session import encoded
from TCLIService import ttypes

from gateway.errors import StatementFailed
from gateway.mv.ports import PlanUnavailable, SqlSession
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


class Sql(FakeSqlSession):
    """A session with settings; one of them cannot be changed."""

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> Answer:
        assert isinstance(self.spark, Spark)
        settings = self.spark.settings[self.session.handle.guid]
        self.spark.asked_in[self.session.handle.guid].append(sql)
        if sql == "SET":
            return Answer(sorted(settings.items()))
        if (change := _CHANGE.fullmatch(sql)) is not None:
            if change[2] == FIXED:
                raise StatementFailed("it cannot be changed")
            settings.pop(change[2], None)
            settings |= {change[2]: change[3]} if change[1] == "SET" else {}
        return Answer([])


class Spark(FakeSpark):
    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[bytes, dict[str, str]] = defaultdict(lambda: {"a": "1", "b": "2"})
        self.asked_in: dict[bytes, list[str]] = defaultdict(list)

    async def connect(self, login: Login, *, ask: bool = False) -> FakeSide:
        return Side(self)


class Side(FakeSide):
    def session(self, handle: Handle) -> SqlSession:
        return Sql(self._spark, self._spark.sessions[handle.guid])


class Texts:
    """Implements `ports.PlanTexts`."""

    def __init__(self) -> None:
        self.sessions: list[SqlSession] = []

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        self.sessions.append(session)
        yield b"name"


def client(spark: Spark) -> Session:
    found = opened(spark.hear(OPEN))
    assert found is not None
    return Session(found[0], 5, "ada", Login("ada", "x", NOSASL), open_session(OPEN), OPEN, Sides(spark, 60.0))


async def test_the_embedded_engine_plans_in_the_session_itself() -> None:
    spark = Spark()
    session = client(spark)
    async with ProofSessions().of(session, NAMESPACE) as planning:
        assert await planning.name() == session.upstream_handle.guid
        assert len(spark.sessions) == 1


async def test_another_session_gets_the_settings_and_ends_afterwards() -> None:
    spark, texts = Spark(), Texts()
    session = client(spark)
    own = session.upstream_handle.guid
    spark.settings[own] = {"a": "3", "c": "4"}
    async with ProofSessions(texts).of(session, NAMESPACE) as planning:
        assert len(spark.sessions) == 1
        assert await planning.name() == await planning.name() == b"name"
        (twin,) = spark.sessions.keys() - {own}
        assert spark.sessions[twin].user == spark.sessions[own].user
        assert spark.settings[twin] == spark.settings[own] == {"a": "3", "c": "4"}
        assert spark.asked_in[twin][-1] == "USE `spark_catalog`.`shop`"
        assert spark.asked_in[own] == ["SET"]
        assert len(texts.sessions) == 1
    assert spark.sessions.keys() == {own}


async def test_nothing_is_planned_under_other_settings() -> None:
    spark, texts = Spark(), Texts()
    session = client(spark)
    spark.settings[session.upstream_handle.guid] = {"a": "1", "b": "2", FIXED: "x"}
    async with ProofSessions(texts).of(session, NAMESPACE) as planning:
        with pytest.raises(PlanUnavailable, match=FIXED):
            await planning.name()
    assert not texts.sessions
