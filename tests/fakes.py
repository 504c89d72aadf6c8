"""Fakes of the ports, connected to the real catalog, router and dispatcher, for tests without Spark.

    site = Site()
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    bob = await site.client("bob")
    site.spark.holds("INSERT INTO s.t VALUES (1)")    # this statement runs until the test finishes it
    insert = await bob.execute("INSERT INTO s.t VALUES (1)")
    insert.at_spark.finish()
    await bob.execute("SELECT n FROM s.mv")
    assert site.refreshed == ["s.mv"]

`Site` is a gateway in front of `fake_spark.FakeSpark`, and `Client` one of its clients. `gateway.assembly` builds the
gateway, as it does in the simulated world (`world.assembly`).
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

from explanations import explained
from fake_spark import Answer, FakeMetastore, FakePlans, FakeSpark, FakeSqlSession, SparkOperation, SparkSession, named
from raw_session import decoded, encoded
from TCLIService import ttypes
from views import given, view_of

from gateway.access_list import AccessList
from gateway.assembly.answers import catalog_rows
from gateway.assembly.at_spark import AtSpark
from gateway.assembly.clients import serve
from gateway.assembly.records import Records
from gateway.assembly.refreshes import Planning, Refreshes, Scheduling
from gateway.assembly.rewriting import Rewriting
from gateway.assembly.routing import routed
from gateway.assembly.views import KeptVersions, known_views
from gateway.config import Rewrite, SessionRules, Settings
from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.catalog.epoch_counts import EpochCounts
from gateway.mv.catalog.fence import Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.restoration import Restored
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.ledger import Ledger, TablesWritten
from gateway.mv.model.view import Cause, MaterializedView, Version
from gateway.mv.observation.changes import Changes
from gateway.mv.observation.inspection import Inspection, Inspector
from gateway.mv.observation.relations import definition_reads
from gateway.mv.ports import Relation, RelationKind, SqlSession
from gateway.mv.refresh.expected_costs import ExpectedCosts
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.increments import Increments
from gateway.mv.refresh.progress import Report
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.candidates import Candidates
from gateway.mv.rewriting.partly_stale import Mixture
from gateway.mv.rewriting.permission import OpenReader
from gateway.mv.rewriting.proving import Reader
from gateway.mv.rewriting.quarantine import Quarantine
from gateway.mv.rewriting.suggestions import Suggestions
from gateway.mv.rewriting.unanswered import Unanswered
from gateway.mv.rewriting.usage import Usages
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.measures import Measure
from gateway.mv.versions.readers import Readers
from gateway.service.answers.commands import Commands
from gateway.service.answers.healing import Healing
from gateway.service.clients.audit import Audit
from gateway.service.clients.proof_sessions import ProofSessions
from gateway.service.clients.session import Session
from gateway.service.decision import Forward, decided
from gateway.service.dispatch import Dispatch
from gateway.service.operations.operation import NO_ROWS, Result
from gateway.service.results.store import ResultStore
from gateway.wire import message
from gateway.wire.message import Handle
from gateway.wire.sasl import PLAIN, Login
from sql.mentioned import Mentioned
from sql.names import Namespace, TableName
from sql.rewriting.matching import Proposal
from sql.rewriting.shape import Shape
from sql.statement import Command
from sql.table_keys import NOTHING_KNOWN, TableKeys
from sql.texts.public_view import shown_rows
from sql.texts.storage_layout import StorageLayout

STORAGE = "storage"
ROOT = Rights(AccessList.of(["root"]))

# --- parts of the gateway that refresh views or observe tables ----------------------------------------------


class FakeTasks:
    """Replaces `mv.refresh.tasks` for the router: a refresh ends immediately, or fails if `failing` has the view."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.made: list[tuple[str, Cause]] = []
        self.failing: dict[str, FreshgateError] = {}
        self.gone: dict[str, str] = {}
        """The answers of `known_gone`, by the name of the view."""
        self.on_refresh: Callable[[str], None] = lambda _: None
        """Called with the name of a view when it is refreshed."""
        self.working = asyncio.Event()
        """While it is cleared, refreshes do not end."""
        self.working.set()

    def known_gone(self, view_id: str) -> str | None:
        entry = self._catalog.find(view_id)
        return None if entry is None else self.gone.get(str(entry.view.name))

    async def make_fresh(self, view_id: str, cause: Cause, report: Report) -> None:
        entry = self._catalog.entry(view_id)
        contains = entry.ledger.events
        self.made.append((str(entry.view.name), cause))
        await self.working.wait()
        if (error := self.failing.get(str(entry.view.name))) is not None:
            raise error
        self.on_refresh(str(entry.view.name))
        number = entry.view.current.number + 1
        given(entry, current=Version.whole(number, 1, 1, {}), versions_reserved=number + 1)
        entry.ledger.publish(contains)

    def note_unchanged(self, view_id: str, cause: Cause) -> None: ...


class FakeCommands:
    """Records the gateway's own statements without running them."""

    def __init__(self) -> None:
        self.heard: list[Command] = []

    async def run(self, command: Command, session: Session, report: Report) -> Result:
        self.heard.append(command)
        return NO_ROWS


class FakeStorages:
    """Replaces `mv.observation.storage_looks`: stored rows are as they were published."""

    def due(self, entry: Entry, oldest: float) -> bool:
        return False

    async def look(self, entry: Entry, oldest: float) -> None: ...


class FakeInspector:
    """Replaces `mv.observation.inspection` for the router: no look is ever due, and no view is known by a draft."""

    def is_drafted(self, views: Iterable[str]) -> bool:
        list(views)
        return False

    async def read_drafted(self, views: Iterable[str]) -> None: ...

    def due(self, views: Iterable[str]) -> bool:
        list(views)
        return False

    async def check(self, views: Iterable[str], not_before: float | None = None) -> list[str]:
        list(views)
        return []

    def storage_due(self, views: Iterable[str]) -> bool:
        return False

    async def check_storage(self, views: Iterable[str]) -> None: ...

    def version_due(self, view: MaterializedView, version: Version) -> bool:
        return False

    async def check_version(self, view: MaterializedView, version: Version) -> None: ...

    async def cached(self, view: MaterializedView) -> list[TableName]:
        return []

    async def inspect(self, view: MaterializedView, not_before: float) -> Inspection:
        return Inspection({}, {})


class FakeProver:
    """Replaces `mv.rewriting.proving`: believes every proposal, except those of the views in `refuted`."""

    def __init__(self) -> None:
        self.rights = FakeReadersRights()
        self.refuted: dict[str, str] = {}
        """By the view's name, the reason."""
        self.ready = asyncio.Event()
        """Proofs take as long as it is not set."""
        self.ready.set()
        self.begun = asyncio.Event()
        """Whether a proof was asked for."""
        self.asked = 0

    async def refutation(
        self,
        reader: Reader,
        shape: Shape,
        proposal: Proposal,
        views: Sequence[MaterializedView],
        keys: Mapping[TableName, TableKeys] = NOTHING_KNOWN,
    ) -> str | None:
        self.asked += 1
        self.begun.set()
        await self.ready.wait()
        if isinstance(reader.sql, FakeSqlSession) and reader.sql.session not in reader.sql.spark.sessions.values():
            raise UpstreamLost("The session has ended.")
        return next((self.refuted[str(view.name)] for view in views if str(view.name) in self.refuted), None)

    def forget(self, named: Mentioned) -> None:
        self.rights.forget(named)


class FakeReadersRights:
    """Replaces `mv.rewriting.readers_rights`: rows differ as the test says, once that was asked."""

    def __init__(self) -> None:
        self.differing: dict[tuple[str, str], str] = {}
        """By the view's name and the user, the reason."""
        self.asked: list[tuple[str, str]] = []
        self._known: dict[tuple[str, str], str] = {}

    def known(self, view: MaterializedView, user: str) -> str | None:
        return self._known.get((str(view.name), user))

    async def difference(self, view: MaterializedView, user: str, _: OpenReader) -> str:
        key = str(view.name), user
        if key not in self._known:
            self.asked.append(key)
            self._known[key] = self.differing.get(key, "")
        return self._known[key]

    def forget(self, named: Mentioned) -> None:
        self._known.clear()


class FakePartlyStale:
    """Stands for `mv.rewriting.partly_stale`: these views are partly stale, by id."""

    def __init__(self) -> None:
        self.mixtures: dict[str, Mixture] = {}
        self.rests: dict[str, Mixture] = {}
        self.prepared: list[Mixture] = []
        self.overtaken = False
        """Whether a write begins while a text runs."""

    async def of(self, view_id: str) -> Mixture | str:
        return self.mixtures.get(view_id, "the view is not fresh")

    def with_rest(self, view_id: str) -> Mixture | str:
        return self.rests.get(view_id, "the view has only a part of the rows")

    async def prepare(self, mixed: Mixture, _: SqlSession) -> None:
        self.prepared.append(mixed)

    def holds(self, mixed: Mixture) -> bool:
        return mixed in self.prepared and not self.overtaken


class FakeMeasures:
    """Replaces `mv.versions.measures`: versions have no bytes."""

    async def of(self, views: Iterable[MaterializedView]) -> dict[str, dict[int, Measure]]:
        return {view.id: {} for view in views}


class FakeFence:
    """A fence whose epoch stands until a test sets `lost`; `locations` are the directories of the storage database."""

    def __init__(self) -> None:
        self.lost: str | None = None
        self.is_sure_now = True
        self.checks = 0
        self.counts = EpochCounts()
        self.locations = {"file:/warehouse/storage.db"}

    async def check(self) -> None: ...

    async def sure(self) -> None:
        if not self.is_sure_now:
            self.checks += 1
        if self.lost is not None:
            raise Superseded(self.lost)

    def is_sure(self, _: float) -> bool:
        return self.is_sure_now and self.lost is None


# --- the site --------------------------------------------------------------------------------------------


class Site:
    """A gateway in front of a fake Spark, whose clients are `Client`s."""

    def __init__(
        self,
        rewrite: Rewrite | None = None,
        *,
        result_bytes: int = 0,
        counted: int = 10,
        healing: Healing | None = None,
        limits: tuple[str, ...] = (),
        session: SessionRules | None = None,
    ) -> None:
        """`result_bytes`: of results in memory. `counted`: shapes of unanswered queries. `limits`: limits.rules.
        `session`: rules about settings."""
        usual = Settings()
        settings = replace(
            usual,
            storage=replace(usual.storage, database=STORAGE),
            access=replace(usual.access, administrators=("root",), rights_seconds=100.0),
            rewrite=rewrite or Rewrite(wait=10, canary=0),
            limits=replace(usual.limits, rules=limits),
            session=session or usual.session,
        )
        audit, nothing = Audit(), cast(Any, SimpleNamespace())
        self.metastore = FakeMetastore()
        self.spark = FakeSpark()
        self.spark.answers.say(r"^EXPLAIN EXTENDED SELECT \* FROM ", lambda text: Answer([(explained(text),)]))
        self.fence = FakeFence()
        self.habits = Habits()
        self.restored: list[Restored] = []
        """Views that were restored."""

        def report(restored: Restored) -> None:
            self.restored.append(restored)
            audit.restored(restored)

        pools = [nothing] * 4
        engine = SimpleNamespace(cancel_statement=lambda _: None)
        at_spark = cast(Any, AtSpark)(
            engine, self.spark, self.habits, *pools, self.metastore, FakePlans({}), self.fence, nothing, nothing
        )
        self.inspector = FakeInspector()
        views = known_views(settings, at_spark, report)
        views = replace(views, inspector=cast(Inspector, self.inspector))
        self.catalog, self.confirmation, self.settlement = views.catalog, views.confirmation, views.settlement
        self.relations, self.schemas, self.quarantine = views.relations, views.schemas, Quarantine()
        self.catalog.news.moved.add(self.relations.forget_sources, self.schemas.forget)
        self.readers = Readers()
        versions = KeptVersions(self.readers, nothing, nothing, nothing)
        self.tasks = FakeTasks(self.catalog)
        surroundings = Surroundings("pool", self.habits, self.metastore)
        increments = Increments(self.catalog, self.metastore, self.habits, Changes(views.observer), nothing)
        self.costs = ExpectedCosts(self.catalog, increments)
        self.prover = FakeProver()
        self.rights = self.prover.rights
        planning = Planning(surroundings, nothing, cast(Any, self.rights))
        refreshes = cast(Any, Refreshes)(planning, *[nothing] * 4, self.tasks, self.costs, nothing)
        self.partly_stale = FakePartlyStale()
        candidates, sessions = Candidates(self.catalog, self.schemas), ProofSessions(FakePlans({}))
        self.usages, self.unanswered = Usages(100), Unanswered(counted if settings.rewrite.advice else 0)
        rewriting = cast(Any, Rewriting)(
            candidates,
            FakeMeasures(),
            self.prover,
            self.partly_stale,
            sessions,
            self.quarantine,
            self.usages,
            self.unanswered,
            Suggestions(self.catalog, self.schemas, self.metastore, candidates, self.unanswered),
        )
        self.results = ResultStore(result_bytes, 1 << 20, 600.0)
        records = Records(audit, None, self.results)
        scheduling = Scheduling(nothing, nothing, nothing, nothing)
        rows = catalog_rows(settings, at_spark, views, refreshes, scheduling, rewriting, records)
        routing = routed(settings, at_spark, views, versions, refreshes, rewriting, rows, records)
        self.router, self.effects, self.scope = routing.router, routing.effects, routing.scope
        self.known, self.rewrites, self.canary = routing.answers, routing.rewrites, routing.canary
        self.commands = FakeCommands()
        served = serve(settings, at_spark, views, routing, cast(Commands, self.commands), records, None)
        self.service = replace(served, healing=healing or Healing())
        self.sides, self.sessions = self.service.sides, self.service.sessions

    # --- tables and views

    def table(self, dotted: str, **relation: Any) -> Relation:
        return self.metastore.add(Relation(named(dotted), RelationKind.TABLE, **relation))

    def spark_view(self, dotted: str, text: str, **relation: Any) -> Relation:
        name = named(dotted)
        view = Relation(name, RelationKind.VIEW, view_text=text, namespace=Namespace(name.database), **relation)
        self.relations.forget(name.database)
        return self.metastore.add(view)

    async def view(
        self,
        dotted: str,
        query: str,
        *,
        owner: str = "ada",
        built: bool = True,
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> MaterializedView:
        """Creates a materialized view, which is fresh if `built`."""
        name = named(dotted)
        namespace = Namespace(name.database)
        sources = await self.relations.sources_of(await definition_reads(query, namespace))
        view_id = f"{name.database}__{name.table}__{secrets.token_hex(4)}"
        version = Version.whole(1 if built else 0, 1, 1, {})
        storage = TableName(STORAGE, view_id)
        view = replace(
            view_of(version),
            id=view_id,
            name=name,
            storage=storage,
            definition=TableName(STORAGE, f"{view_id}__definition"),
            query=query,
            namespace=namespace,
            columns=("n",),
            owner=owner,
            tables=sources.tables,
            views=sources.views,
            layout=StorageLayout(),
            followed=None,
            properties=dict(properties),
            versions_reserved=version.number + 1,
        )
        self.catalog.show(self.catalog.reserve(view))
        shown = shown_rows(storage, view.columns, version.shown, view.layout)
        self.metastore.add(Relation(name, RelationKind.VIEW, view_text=shown, namespace=namespace))
        self.relations.forget(name.database)
        return view

    def entry(self, dotted: str) -> Entry:
        view = self.catalog.named(named(dotted))
        assert view is not None, dotted
        return self.catalog.entry(view.id)

    def ledger(self, dotted: str) -> Ledger:
        return self.entry(dotted).ledger

    def write(self, dotted: str) -> None:
        """Notes a finished write to a table through the gateway."""
        write = TablesWritten(frozenset({"insert"}), frozenset({named(dotted)}))
        self.catalog.writes.begin(write)
        self.catalog.writes.send(write)
        self.catalog.writes.end(write)

    @property
    def refreshed(self) -> list[str]:
        """The names of the views refreshed since the last call, in order."""
        names, self.tasks.made = [name for name, _ in self.tasks.made], []
        return names

    def plan(self, text: str, *views: str) -> None:
        """Makes EXPLAIN of a text show that it reads the rows of these views, given by their ids."""
        self.spark.answers.say(f"^EXPLAIN EXTENDED {re.escape(text)}$", plan_of(*views))

    async def canary_ended(self) -> None:
        """Waits for the comparison that runs."""
        await self.canary._background.finish(10)

    # --- clients

    async def client(self, user: str = "ada", configuration: Mapping[str, str] | None = None) -> Client:
        """A client that is logged in and has a session."""
        dispatch = Dispatch(self.service)
        dispatch.came_from("10.0.0.1:5")
        dispatch.login(Login(user, "x", PLAIN))
        await dispatch.admit()
        client = Client(self, dispatch, user)
        await client.open(configuration or {})
        return client

    async def second(self, first: Client) -> Client:
        """Another connection that uses the same session."""
        dispatch = Dispatch(self.service)
        dispatch.login(Login(first.user, "x", PLAIN))
        await dispatch.admit()
        client = Client(self, dispatch, first.user)
        client.session = first.session
        return client


@dataclass(eq=False)
class Executed:
    """A client's statement and its outcome."""

    client: Client
    handle: Handle | None
    """The handle that the client has; None if the statement was refused immediately."""
    sqlstate: str | None
    error: str | None

    @property
    def at_spark(self) -> SparkOperation:
        """Spark's operation."""
        assert self.handle is not None, self.error
        operation = self.client.session.operations[self.handle.guid]
        handle = getattr(operation, "continued", None) or operation
        return self.client.site.spark.operations[handle.handle.guid]

    async def poll(self) -> Any:
        """The reply to GetOperationStatus."""
        return await self.client.ask("GetOperationStatus", ttypes.TGetOperationStatusReq(self._operation))

    async def close(self) -> None:
        await self.client.ask("CloseOperation", ttypes.TCloseOperationReq(self._operation))

    async def cancel(self) -> None:
        await self.client.ask("CancelOperation", ttypes.TCancelOperationReq(self._operation))

    @property
    def log(self) -> list[str]:
        """The gateway's lines in the operation's log; empty if the statement was forwarded immediately."""
        assert self.handle is not None
        report = getattr(self.client.session.operations[self.handle.guid], "report", None)
        return [] if report is None else report.fetch(0)

    @property
    def _operation(self) -> Any:
        assert self.handle is not None, self.error
        identifier = ttypes.THandleIdentifier(self.handle.guid, self.handle.secret)
        return ttypes.TOperationHandle(identifier, ttypes.TOperationType.EXECUTE_STATEMENT, True)


class Client:
    """A client connection with one session."""

    def __init__(self, site: Site, dispatch: Dispatch, user: str) -> None:
        self.site = site
        self.dispatch = dispatch
        self.user = user
        self.session = cast(Session, None)

    async def open(self, configuration: Mapping[str, str]) -> None:
        """Opens another session, which the client uses from now on."""
        await self.ask("OpenSession", ttypes.TOpenSessionReq(COLUMNAR, self.user, "x", dict(configuration)))
        self.session = next(reversed(self.site.sessions._sessions.values()))

    @property
    def at_spark(self) -> SparkSession:
        return self.site.spark.sessions[self.session.upstream_handle.guid]

    async def execute(self, text: str, *, run_async: bool = True, settle: bool = True) -> Executed:
        """Runs a statement until Spark has started it or it has failed, without asking for its status.

        `settle`: waits until the gateway has forwarded it; otherwise it may still wait for a refresh.
        """
        answer = await self.exchange(self._execution(text, run_async=run_async))
        status = message.reply_status(answer)
        handle = message.execute_handle(answer)
        if handle is not None and settle:
            operation = self.session.operations.get(handle.guid)
            if (waiting := getattr(operation, "settle", None)) is not None:
                await waiting()
                error = getattr(operation, "error", None)
                if error is not None:
                    return Executed(self, handle, error.sqlstate, str(error))
        return Executed(self, handle, status.sqlstate, status.message)

    async def begin(self, text: str) -> Callable[[], None]:
        """Sends a synchronous statement. The returned function makes Spark run it and reply."""
        decision = await decided(self.dispatch.request(self._execution(text, run_async=False)))
        assert isinstance(decision, Forward)
        assert decision.on_reply is not None
        forward, on_reply = decision.payload, decision.on_reply
        return lambda: cast(None, on_reply(self.site.spark.hear(forward)))

    def _execution(self, text: str, *, run_async: bool) -> bytes:
        identifier = ttypes.THandleIdentifier(self.session.handle.guid, self.session.handle.secret)
        request = ttypes.TExecuteStatementReq(ttypes.TSessionHandle(identifier), text, {}, run_async)
        return encoded("ExecuteStatement", request)

    async def ask(self, name: str, request: Any) -> Any:
        """The response to one call."""
        return decoded(await self.exchange(encoded(name, request)))

    async def exchange(self, payload: bytes) -> bytes:
        """The reply to one request, processed as `proxy.relay` does."""
        decision = await decided(self.dispatch.request(payload))
        answer = decision.payload
        if isinstance(decision, Forward):
            answer = await self.site.spark.answer(decision.payload)
            if decision.on_reply is not None:
                decision.on_reply(answer)
            elif decision.on_sent is not None:
                decision.on_sent()
            answer = answer if decision.mend is None else decision.mend(answer)
            answer = answer if decision.confirm is None else await decision.confirm(answer)
        self.dispatch.replied()
        return answer

    async def leave(self) -> None:
        """Closes the client's connection."""
        if (ending := self.dispatch.client_lost()) is not None:
            await ending


def plan_of(*views: str) -> Answer:
    """A plan that reads the rows of these views, given by their ids."""
    lines = ["== Analyzed Logical Plan ==", *(f"Relation {STORAGE}.{view}" for view in views)]
    return Answer([("\n".join(lines),)])


COLUMNAR = 5
"""HIVE_CLI_SERVICE_PROTOCOL_V6."""
