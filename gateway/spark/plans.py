"""Reads Spark's plans of texts in clients' sessions, from the embedded engine."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from gateway.errors import UpstreamLost
from gateway.mv.ports import PlanUnavailable, SqlSession
from gateway.spark.client import ENDED_SESSION, ServerSession
from sql.proof import plan_json
from sql.proof.plan import Plan

NO_SESSION = "Spark has no session"
"""In PlanWriter's error about a session that is not open."""
PLAN_SECONDS = 30.0
"""How long to wait for a plan. No statement waits for it."""


class PlanEngine(Protocol):
    async def ask(self, request: dict[str, str], seconds: float) -> dict[str, Any] | None: ...


class EnginePlans:
    """Implements `mv.ports.Plans`. The name of a session is the public part of its handle."""

    in_place = True
    checks_rights = True

    def __init__(self, engine: PlanEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        assert isinstance(session, ServerSession)
        yield session.handle.guid

    async def optimized(self, session: bytes, text: str) -> Plan:
        return await self._plan({"session": str(uuid.UUID(bytes=session)), "plan": text})

    async def analyzed(self, session: bytes, text: str) -> Plan:
        return await self._plan({"session": str(uuid.UUID(bytes=session)), "plan": text, "stage": "analyzed"})

    async def unfolded(self, session: bytes, text: str) -> Plan:
        return await self._plan({"session": str(uuid.UUID(bytes=session)), "plan": text, "stage": "unfolded"})

    async def _plan(self, request: dict[str, str]) -> Plan:
        answer = await self._engine.ask(request, PLAN_SECONDS)
        if answer is None:
            raise PlanUnavailable("Spark gave no plan in time.")
        if not isinstance(written := answer.get("plan"), str):
            error = str(answer.get("error", "Spark gave no plan."))
            raise UpstreamLost("The session has ended.") if _has_ended(error) else PlanUnavailable(error)
        try:
            return await asyncio.to_thread(plan_json.read, written)
        except ValueError as error:
            raise PlanUnavailable(str(error)) from error


def _has_ended(error: str) -> bool:
    """Whether this is an error about a session that is not open, or was closed while Spark planned."""
    return NO_SESSION in error or ENDED_SESSION in error
