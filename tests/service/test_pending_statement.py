"""Tests what is known about a statement whose end is not known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.errors import UpstreamLost
from gateway.service.clients import pending_statement
from gateway.service.clients.pending_statement import PendingStatement
from gateway.service.operations.operation import ForwardedOperation, new_handle
from gateway.wire import message, reply


class Broken:
    """A connection to Spark that breaks when it is asked about a statement."""

    async def forward(self, payload: bytes) -> bytes:
        head = message.peek(payload)
        if head.name == "GetOperationStatus":
            raise UpstreamLost("The connection broke.")
        return reply.unknown_method(head.name, head.seqid)


@contextlib.asynccontextmanager
async def spare() -> AsyncIterator[Any]:
    yield Broken()


async def test_a_failed_question_says_nothing() -> None:
    statement = PendingStatement(cast(Any, SimpleNamespace(spare=spare)))
    statement.started(ForwardedOperation(new_handle()))
    assert not await statement.look()
    assert not statement.known


# --- unknown outcomes ------------------------------------------------------------------------------------------


class SessionAnswers:
    """Answers questions about one session, in this order: whether it is known, or that Spark is away."""

    def __init__(self, answers: list[bool | None]) -> None:
        self.answers = answers
        self.handle = new_handle()

    def session(self, *, tied: bool = True) -> Any:
        return SimpleNamespace(upstream_handle=self.handle, tied=tied, spare=self.spare)

    @contextlib.asynccontextmanager
    async def spare(self) -> AsyncIterator[Any]:
        known = self.answers.pop(0)
        if known is None:
            raise UpstreamLost("Spark does not answer.")

        async def forward(payload: bytes) -> bytes:
            assert message.request_handle(payload) == self.handle
            head = message.peek(payload)
            if known:
                return reply.closed("CloseSession", head.seqid)
            return reply.error(head.name, head.seqid, "Invalid SessionHandle", "HY000")

        yield SimpleNamespace(forward=forward)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_statement, "SESSION_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(pending_statement, "LATE_SECONDS", 0.0)


async def outlived(spark: SessionAnswers, *, synchronous: bool = True, **session: bool) -> None:
    statement = PendingStatement(spark.session(**session))
    statement.sent(synchronous=synchronous)
    async with asyncio.timeout(10):
        await statement.outlive()


@pytest.mark.usefixtures("quick")
async def test_a_synchronous_statement_is_over_after_its_session() -> None:
    spark = SessionAnswers([True, None, True, False, True])
    await outlived(spark)
    assert spark.answers == [True]


@pytest.mark.usefixtures("quick")
async def test_an_asynchronous_statement_is_over_soon() -> None:
    spark = SessionAnswers([True])
    await outlived(spark, synchronous=False)
    assert spark.answers == [True]


@pytest.mark.usefixtures("quick")
async def test_a_session_that_outlives_its_connection_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_statement, "UNTIED_SECONDS", 0.0)
    spark = SessionAnswers([True])
    await outlived(spark, tied=False)
    assert spark.answers == [True]
