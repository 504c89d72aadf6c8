"""Spark's plans of texts, from the engine that the tests share."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from processes import Engine

from gateway.mv.ports import PlanUnavailable, SqlSession
from gateway.spark.client import Connection, ServerSession
from gateway.spark.plans import EnginePlans
from gateway.wire.endpoint import Endpoint
from sql.proof.plan import Node, Plan, Value

_NUMBERS = itertools.count(1_000_000)


class Asking:
    """Sends requests to the engine as its parent does. Implements `gateway.spark.plans.PlanEngine`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.answer: dict[str, Any] = {}
        """The last one."""

    async def ask(self, request: dict[str, str], seconds: float) -> dict[str, Any] | None:
        number = next(_NUMBERS)
        stdin = self._engine.program.process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"id": number, **request}) + "\n")
        stdin.flush()
        self.answer = json.loads(self._engine.program.line(seconds))
        while self.answer["id"] != number:
            self.answer = json.loads(self._engine.program.line(seconds))
        return self.answer


class Planner:
    """A session at Spark, and the plans of texts in it."""

    def __init__(self, engine: Engine, session: ServerSession) -> None:
        self.session = session
        self.asking = Asking(engine)

    async def plan(self, text: str) -> Plan:
        try:
            return await EnginePlans(self.asking).optimized(self.session.handle.guid, text)
        except PlanUnavailable as error:
            error.add_note(text)
            raise

    async def unfolded(self, text: str) -> Plan:
        return await EnginePlans(self.asking).unfolded(self.session.handle.guid, text)

    async def analyzed(self, text: str) -> Plan:
        return await EnginePlans(self.asking).analyzed(self.session.handle.guid, text)

    async def written(self, text: str, *, unfolded: bool = False) -> str:
        """The plan as the engine writes it."""
        await (self.unfolded(text) if unfolded else self.plan(text))
        written: str = self.asking.answer["plan"]
        return written


class OneSession:
    """Lends one session. Implements `ServiceSessions`."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session

    @contextlib.asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[SqlSession]:
        yield self._session


def renumbered(plan: Plan) -> Any:
    """The plan with the ids of its columns in the order in which they occur, and without what tells tables apart, or
    which constant is counted: `count(1)` and `count(1L)` have one text."""
    ids: dict[str, int] = {}

    def shape(value: Value, *, counted: bool = False) -> Any:
        if isinstance(value, tuple):
            return [shape(each, counted=counted) for each in value]
        if not isinstance(value, Node):
            return value
        if counted and value.kind == "Literal" and value.fields["value"] is not None:
            return "a constant"
        left_out = {"resultId"} | ({"table", "relation"} if "table" in value.fields else set())
        counts = value.kind == "Count"
        fields = {name: shape(field, counted=counts) for name, field in value.fields.items() if name not in left_out}
        number = ids.setdefault(value.id.split(" ")[0], len(ids)) if value.id else None
        return [value.kind, fields, value.type, number]

    root = shape(plan.root)
    return root, [(ids[each.id.split(" ")[0]], each.name, each.type) for each in plan.output]


@contextlib.asynccontextmanager
async def planner(engine: Engine) -> AsyncIterator[Planner]:
    connection = await Connection.open(Endpoint(engine.host, engine.port), "tester")
    try:
        yield Planner(engine, await connection.open_session())
    finally:
        await connection.close()
