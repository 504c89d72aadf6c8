"""Tests when a statement whose end was not seen counts as over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.errors import UpstreamLost
from gateway.loops import Errands
from gateway.service.clients import aftermath
from gateway.service.clients.session import Session
from gateway.service.operations.operation import new_handle
from gateway.wire import message, reply


class Spark:
    """Answers questions about one session, in this order: whether it is known, or that Spark is away."""

    def __init__(self, answers: list[bool | None]) -> None:
        self.answers = answers
        self.handle = new_handle()

    def session(self, *, tied: bool = True) -> Session:
        return cast(Session, SimpleNamespace(upstream_handle=self.handle, tied=tied, spare=self.spare))

    @asynccontextmanager
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


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aftermath, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(aftermath, "LATE_SECONDS", 0.0)


async def _called_back(spark: Spark, **session: bool) -> None:
    over = asyncio.Event()
    aftermath.of_synchronous(spark.session(**session), Errands("waiting"))(over.set)
    async with asyncio.timeout(10):
        await over.wait()


async def test_a_synchronous_statement_is_over_after_its_session() -> None:
    spark = Spark([True, None, True, False, True])
    await _called_back(spark)
    assert spark.answers == [True]


async def test_a_session_that_outlives_its_connection_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aftermath, "UNTIED_SECONDS", 0.0)
    spark = Spark([True])
    await _called_back(spark, tied=False)
    assert spark.answers == [True]
