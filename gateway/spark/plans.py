"""Reads Spark's plans of texts in clients' sessions, from the embedded engine."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Protocol

from gateway.mv.ports import PlanUnavailable
from sql.proof import plan_json
from sql.proof.plan import Plan

PLAN_SECONDS = 30.0
"""How long to wait for a plan. Nobody's statement waits for it."""


class Engine(Protocol):
    async def ask(self, request: dict[str, str], seconds: float) -> dict[str, Any] | None: ...


class EnginePlans:
    """Implements `mv.ports.Plans`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def optimized(self, session: bytes, text: str) -> Plan:
        identifier = str(uuid.UUID(bytes=session))
        answer = await self._engine.ask({"session": identifier, "plan": text}, PLAN_SECONDS)
        if answer is None:
            raise PlanUnavailable("Spark gave no plan in time.")
        if not isinstance(written := answer.get("plan"), str):
            raise PlanUnavailable(str(answer.get("error", "Spark gave no plan.")))
        try:
            return await asyncio.to_thread(plan_json.read, written)
        except ValueError as error:
            raise PlanUnavailable(str(error)) from error
