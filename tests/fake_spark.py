"""One fake of Spark, for the fast tests and for the simulated world: a metastore, sessions, and the calls of Thrift.

`SparkServer` has sessions and operations, and answers the calls that gateways forward or make themselves.
`MetastorePort` asks what a metastore holds. There are two kinds, which differ in who carries out a statement:

- `FakeSpark`: the test. A statement has ended when its ExecuteStatement is answered, even if its client never polls;
  those passed to `holds` run until the test calls `finish`. Only `USE` has an effect; a test that needs other effects
  sets `on_finish`. `FakeMetastore` holds what the test adds.
- `world.spark.SimulatedSpark`: its own tables, in steps that a history orders, with faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar, cast

import composing
from TCLIService import ttypes
from thrift.Thrift import TMessageType

from gateway.errors import FreshgateError, StatementFailed, UpstreamLost
from gateway.mv.ports import Before, Function, Outlet, PlanUnavailable, Relation, RelationKind, SqlSession
from gateway.service.operations.operation import TERMINAL_STATES, OperationState, new_handle
from gateway.spark.servers import KnownServer, Servers
from gateway.wire import message, reply
from gateway.wire.envelope import enveloped
from gateway.wire.message import Handle
from gateway.wire.sasl import PLAIN, Login
from sql.names import FUNCTION, Namespace, TableName
from sql.proof.plan import Plan

FINISHED, ERROR, CANCELED = OperationState.FINISHED, OperationState.ERROR, OperationState.CANCELED
NAMESPACE_QUESTION = "SELECT current_catalog(), current_database()"


def named(dotted: str) -> TableName:
    """The name of `s.t`, or of `lake.s.t` in another catalog."""
    return TableName.resolve(tuple(dotted.split(".")), Namespace())


def not_found(dotted: str) -> StatementFailed:
    """Spark's error for a missing table or view."""
    return StatementFailed(f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {dotted} cannot be found.", "42P01")


# --- answers to the gateway's own statements -------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """Implements `ports.Rows`."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    columns: tuple[str, ...] = ()


Outcome = Answer | FreshgateError | Callable[[str], Answer]
"""Spark's answer to one of the gateway's own statements."""


class Answers:
    """The answers to statements. The first pattern that matches the text counts; other statements have no rows."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._results: list[tuple[re.Pattern[str], Outcome]] = []

    def say(self, pattern: str, result: Outcome) -> None:
        """Adds an answer, which takes precedence over earlier ones."""
        self._results.insert(0, (re.compile(pattern, re.IGNORECASE), result))

    def to(self, text: str) -> Answer:
        for pattern, result in self._results:
            if pattern.search(text):
                if isinstance(result, FreshgateError):
                    raise result
                return result if isinstance(result, Answer) else result(text)
        return Answer()


class OnePlanPlans:
    """Implements `ports.Plans` with one plan for each text, however it is asked for: `optimized`, which derived classes
    say."""

    in_place = True
    checks_rights = True

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        yield b"name"

    async def optimized(self, session: bytes, text: str) -> Plan:
        raise PlanUnavailable(f"There is no plan of {text}")

    async def unfolded(self, session: bytes, text: str) -> Plan:
        return await self.optimized(session, text)

    async def analyzed(self, session: bytes, text: str) -> Plan:
        return await self.optimized(session, text)


class FakePlans(OnePlanPlans):
    """Plans by their texts."""

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        self._plans = plans

    async def optimized(self, session: bytes, text: str) -> Plan:
        if text not in self._plans:
            return await super().optimized(session, text)
        return self._plans[text]


# --- the metastore ---------------------------------------------------------------------------------------------


class Held(Protocol):
    """What a metastore holds."""

    def described(self, name: TableName) -> Relation | None: ...

    def database_names(self) -> Iterable[str]: ...

    def names(self, database: str) -> Iterable[str]:
        """The tables and views of a database."""
        ...

    def view_names(self, database: str) -> Iterable[str]: ...

    def properties_of(self, table: TableName) -> Mapping[str, str]: ...


H = TypeVar("H", bound=Held)
T = TypeVar("T")


class MetastorePort(ABC, Generic[H]):
    """Implements `ports.Metastore`, without functions. Each question goes through `_ask`."""

    @abstractmethod
    async def _ask(self, method: str, subject: object, look: Callable[[H], T]) -> T:
        """What `look` finds in the metastore."""

    async def relation(self, name: TableName, *, identify: bool = True) -> Relation | None:
        found = await self._ask("relation", name, lambda held: held.described(name))
        return replace(found, created="") if found and found.provider == "delta" and not identify else found

    async def databases(self) -> frozenset[str]:
        return await self._ask("databases", "", lambda held: frozenset(held.database_names()))

    async def tables(self, database: str) -> frozenset[str]:
        return await self._ask("tables", database, lambda held: frozenset(held.names(database)))

    async def views(self, database: str, pattern: str = "*") -> frozenset[str]:
        found = await self._ask("views", database, lambda held: frozenset(held.view_names(database)))
        return frozenset(fnmatch.filter(found, pattern))

    async def function(self, name: TableName) -> Function | None:
        return None

    async def functions(self, database: str) -> frozenset[str]:
        return frozenset()

    async def properties(self, table: TableName) -> Mapping[str, str]:
        return await self._ask("properties", table, lambda held: held.properties_of(table))


class FakeMetastore(MetastorePort["FakeMetastore"]):
    """Holds what the test adds. While `answering` is cleared, all calls wait."""

    def __init__(self) -> None:
        self.relations: dict[TableName, Relation] = {}
        self.functions_by_name: dict[TableName, Function] = {}
        self.stored: dict[TableName, dict[str, str]] = {}
        self.databases_known = {"default"}
        self.answers = Answers()
        self.asked: list[tuple[str, object]] = []
        """The called methods with their subjects."""
        self.answering = asyncio.Event()
        self.answering.set()

    def add(self, relation: Relation) -> Relation:
        self.relations[relation.name] = relation
        self.databases_known.add(relation.name.database)
        return relation

    def add_function(self, dotted: str, function: Function) -> None:
        name = replace(named(dotted), aspect=FUNCTION)
        self.functions_by_name[name] = function
        self.databases_known.add(name.database)

    def drop(self, name: TableName) -> None:
        del self.relations[name]

    # --- what it holds

    def described(self, name: TableName) -> Relation | None:
        return self.relations.get(name)

    def database_names(self) -> Iterable[str]:
        return self.databases_known

    def names(self, database: str) -> Iterable[str]:
        return [name.table for name in self.relations if name.database == database]

    def view_names(self, database: str) -> Iterable[str]:
        found = [each for each in self.relations.values() if each.kind is RelationKind.VIEW]
        return [each.name.table for each in found if each.name.database == database]

    def properties_of(self, table: TableName) -> Mapping[str, str]:
        return self.stored.get(table, {})

    # --- questions

    async def function(self, name: TableName) -> Function | None:
        return await self._ask("function", name, lambda _: self.functions_by_name.get(name))

    async def functions(self, database: str) -> frozenset[str]:
        found = frozenset(name.table for name in self.functions_by_name if name.database == database)
        return await self._ask("functions", database, lambda _: found)

    async def run(self, sql: str) -> Answer:
        await self._ask("run", sql, lambda _: None)
        self.answers.heard.append(sql)
        return self.answers.to(sql)

    @asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[FakeMetastore]:
        """As `ports.ServiceSessions`, whose statements have the same answers."""
        yield self

    async def _ask(self, method: str, subject: object, look: Callable[[FakeMetastore], T]) -> T:
        self.asked.append((method, subject))
        await self.answering.wait()
        return look(self)


# --- Spark's Thrift Server -------------------------------------------------------------------------------------


@dataclass(eq=False)
class SparkSession:
    """A session at Spark with its state."""

    user: str
    namespace: Namespace
    handle: Handle = field(default_factory=new_handle)
    operations: list[SparkOperation] = field(default_factory=list)
    alive: bool = True


@dataclass(eq=False)
class SparkOperation:
    """A client's statement at Spark."""

    text: str
    session: SparkSession
    handle: Handle = field(default_factory=new_handle)
    state: OperationState = OperationState.RUNNING
    sqlstate: str | None = None
    reason: str | None = "it failed"
    """The message of a failure."""
    on_finish: Callable[[SparkOperation], object] = lambda _: None
    """Called when it succeeds."""
    lost: UpstreamLost | None = None
    """With what questions about it fail, because its connection broke."""
    polled: int = 0
    """How often the client or the gateway asked for its status."""
    closed: bool = False
    rows: list[int] = field(default_factory=list)
    fetched: int = 0
    """How many rows were fetched."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def fetch(self, seqid: int, again: bool) -> bytes:
        """All rows, or those that were not fetched yet."""
        begins = 0 if again else self.fetched
        self.fetched = len(self.rows)
        column = ttypes.TColumn(i64Val=ttypes.TI64Column(self.rows[begins:], b""))
        response = ttypes.TFetchResultsResp(ttypes.TStatus(0), False, ttypes.TRowSet(begins, [], [column]))
        return enveloped("FetchResults", TMessageType.REPLY, seqid, response)

    def finish(self, state: OperationState = FINISHED, sqlstate: str | None = None) -> None:
        """Ends the statement. If it succeeds, it takes effect."""
        if self.state in TERMINAL_STATES:
            return
        self.state, self.sqlstate = state, sqlstate
        self.ended.set()
        if state is FINISHED:
            self.on_finish(self)

    def fail(self, error: FreshgateError) -> None:
        """Ends the statement with an error."""
        if isinstance(error, UpstreamLost):
            self.lost = error
        self.reason = str(error)
        self.finish(ERROR, error.sqlstate)


S = TypeVar("S", bound=SparkSession)


class SparkServer(ABC, Generic[S]):
    """Implements `service.clients.side_connections.Upstream`, and answers forwarded calls (`hear`).

    Like Spark, it holds a status call until the statement has ended.
    """

    mechanism = PLAIN

    def __init__(self) -> None:
        self.sessions: dict[bytes, S] = {}
        self.operations: dict[bytes, SparkOperation] = {}
        self.application = 1
        """Another one after a restart, at which all connections break."""
        self.asked: list[str] = []
        """The names of all calls of clients and of the gateway."""
        self.answering = asyncio.Event()
        """While it is cleared, calls over side connections wait."""
        self.answering.set()
        self.down = False
        self.checks: Any = SimpleNamespace()
        self.servers = Servers([KnownServer(cast(Any, None))], self.checks)
        """As `spark.connector` has: this one, which is always the home."""

    # --- what its two kinds do in their own ways

    @abstractmethod
    def open(self, user: str, namespace: Namespace) -> S:
        """A new session."""

    @abstractmethod
    def execute(self, session: S, text: str) -> SparkOperation:
        """Begins a client's statement. Raises StatementFailed where it is refused immediately."""

    @abstractmethod
    async def run(self, session: S, sql: str, on_start: Callable[[str], None] | None) -> Answer:
        """One of the gateway's own statements, as `ports.SqlSession.run`."""

    def knows(self, session: bytes) -> bool:
        """Whether a session with this GUID has not ended."""
        return session in self.sessions

    # --- calls

    async def answer(self, payload: bytes) -> bytes:
        """The reply to one call; waits as Spark would. Raises UpstreamLost if the statement lost its connection."""
        handle = message.request_handle(payload)
        operation = self.operations.get(handle.guid) if handle is not None else None
        if operation is not None and message.peek(payload).name == "GetOperationStatus":
            operation.polled += 1
            await operation.ended.wait()
            if operation.lost is not None:
                raise operation.lost
        return self.hear(payload)

    def hear(self, payload: bytes) -> bytes:
        """The reply to one call, without waiting."""
        name = message.peek(payload).name
        self.asked.append(name)
        handle = message.request_handle(payload)
        if name == "OpenSession":
            return self._open(payload)
        if handle is None:
            return reply.unknown_method(name, 1)
        match name:
            case "ExecuteStatement":
                return self._execute(self.sessions[handle.guid], payload)
            case "CloseSession":
                self.sessions.pop(handle.guid, None)
                return reply.closed(name, 1)
            case "GetInfo" if self.knows(handle.guid):
                return reply.closed(name, 1)  # Only the status is read.
        operation = self.operations.get(handle.guid)
        if operation is None or operation.closed:
            return reply.error(name, 1, "Invalid OperationHandle", "HY000")
        return self._about(name, operation, payload)

    def _open(self, payload: bytes) -> bytes:
        call = message.open_session(payload)
        session = self.open(call.username or "", Namespace(call.configuration.get("use:database", "default")))
        identifier = ttypes.THandleIdentifier(session.handle.guid, session.handle.secret)
        opened = ttypes.TOpenSessionResp(ttypes.TStatus(0), call.protocol, ttypes.TSessionHandle(identifier), {})
        return enveloped("OpenSession", TMessageType.REPLY, 1, opened)

    def _execute(self, session: S, payload: bytes) -> bytes:
        try:
            operation = self.execute(session, message.statement(payload).statement)
        except StatementFailed as error:
            return reply.error("ExecuteStatement", 1, str(error), error.sqlstate)
        return reply.execute_ok(1, operation.handle)

    def _about(self, name: str, operation: SparkOperation, payload: bytes) -> bytes:
        match name:
            case "GetOperationStatus":
                failed = operation.reason if operation.state is ERROR else None
                return reply.operation_status(1, operation.state, operation.sqlstate, failed)
            case "GetResultSetMetadata" if operation.rows:
                return enveloped(name, TMessageType.REPLY, 1, ttypes.TGetResultSetMetadataResp(ttypes.TStatus(0)))
            case "FetchResults" if operation.rows:
                return operation.fetch(1, message.fetch_call(payload).orientation == message.FETCH_FIRST)
            case "CancelOperation":
                operation.finish(CANCELED)
            case "CloseOperation":
                operation.finish(OperationState.CLOSED)
                operation.closed = True
        return reply.closed(name, 1)

    # --- the gateway's own connections

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> FakeSide:
        if self.down:
            raise UpstreamLost("Spark does not answer.")
        side = FakeSide(self)
        side.at = at or ""
        return side


class FakeSide:
    """Implements `service.clients.side_connections.SideConnection`."""

    busy = False
    at = ""

    def __init__(self, spark: SparkServer[Any], outlet: Outlet | None = None) -> None:
        self._spark = spark
        self._outlet = outlet
        self._application = spark.application
        self._closed = False

    @property
    def alive(self) -> bool:
        return not self._closed and self._application == self._spark.application

    async def forward(self, payload: bytes) -> bytes:
        await self._spark.answering.wait()
        if self._spark.down:
            self._closed = True
            raise UpstreamLost("Spark does not answer.")
        return await self._spark.answer(payload)

    def session(self, handle: Handle) -> SqlSession:
        at_spark = self._spark.sessions.get(handle.guid)
        if at_spark is None:
            raise UpstreamLost("Invalid SessionHandle")
        return FakeSqlSession(self._spark, at_spark, self._outlet)

    async def close(self) -> None:
        self._closed = True


@dataclass(eq=False)
class FakeSqlSession(Generic[S]):
    """Implements `ports.SqlSession`: the gateway's own statements in a session."""

    spark: SparkServer[S]
    session: S
    outlet: Outlet | None = None

    async def run(self, sql: str, *, on_start: Callable[[str], None] | None = None) -> Answer:
        async def send(text: str, before: Before | None) -> Answer:
            if before is not None:
                await before()
            return await self.spark.run(self.session, text, on_start)

        return await (send(sql, None) if self.outlet is None else self.outlet.run(sql, send))

    def spoil(self) -> None:
        self.session.alive = False


class FakeSpark(SparkServer[SparkSession]):
    """Carries out statements as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = Answers()
        """The answers to the gateway's own statements in clients' sessions."""
        self.on_start: Callable[[SparkOperation], None] = lambda _: None
        self.on_finish: Callable[[SparkOperation], object] = lambda _: None
        self.explain: Callable[[SparkSession, str], Answer] | None = None
        """Answers EXPLAIN EXTENDED of a text in a session, in place of `answers`."""
        self.value: Callable[[SparkOperation], int] | None = None
        """What each result consists of, one row of one column, when its statement is executed; None: no rows."""
        self.refusal: StatementFailed | None = None
        """With what every further statement is refused immediately."""
        self._held: set[str] = set()

    def holds(self, *texts: str) -> None:
        """Makes statements with these texts run until the test ends them."""
        self._held.update(texts)

    def releases(self) -> None:
        """Further statements end at once. Those that run still wait for the test."""
        self._held.clear()

    @property
    def texts(self) -> list[str]:
        """The statements that clients have sent, in order."""
        return [operation.text for operation in self.operations.values()]

    def operation(self, text: str) -> SparkOperation:
        """The last operation with this text."""
        return next(each for each in reversed(self.operations.values()) if each.text == text)

    def open(self, user: str, namespace: Namespace) -> SparkSession:
        session = SparkSession(user, namespace)
        self.sessions[session.handle.guid] = session
        return session

    def execute(self, session: SparkSession, text: str) -> SparkOperation:
        if self.refusal is not None:
            raise self.refusal
        operation = SparkOperation(text, session, on_finish=self._carry_out)
        session.operations.append(operation)
        self.operations[operation.handle.guid] = operation
        self.on_start(operation)
        if self.value is not None:
            operation.rows = [self.value(operation)]
        if text not in self._held:
            operation.finish()
        return operation

    def _carry_out(self, operation: SparkOperation) -> None:
        """Applies the effect of a statement that has succeeded."""
        if found := re.fullmatch(r"\s*use\s+(?:(\w+)\.)?(\w+)\s*;?", operation.text, re.IGNORECASE):
            catalog = found[1] or operation.session.namespace.catalog
            operation.session.namespace = Namespace(found[2].lower(), catalog.lower())
        self.on_finish(operation)

    async def run(self, session: SparkSession, sql: str, on_start: Callable[[str], None] | None) -> Answer:
        namespace = session.namespace
        self.answers.heard.append(sql)
        await self.answering.wait()
        if sql == NAMESPACE_QUESTION:
            return Answer([(namespace.catalog, namespace.database)])
        explained = sql.removeprefix("EXPLAIN EXTENDED ")
        if self.explain is not None and explained != sql:
            return self.explain(session, explained)
        answer = self.answers.to(sql)
        if not answer.rows and sql.startswith("SELECT (") and len(sql) < 10_000:
            with contextlib.suppress(composing.Unknown):
                return Answer([composing.values(sql, {})])
        return answer
