"""What a statement needs: the decision that the whole gateway is about.

A statement that mentions nothing of interest is forwarded after one cheap look at its words. Any other is parsed; what
it reads and writes decides whether views are made fresh first, whether a write is noted, or whether it is refused.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from gateway.errors import FreshgateError, NotAllowed, RefreshFailed, SyntaxRefused
from gateway.mv.catalog import Catalog
from gateway.mv.changes import Write
from gateway.mv.damage import damaged
from gateway.mv.executor import BaseTableMissing
from gateway.mv.model import Cause, TriggerMode
from gateway.mv.progress import Report
from gateway.mv.readers import Readers
from gateway.mv.relations import Relations
from gateway.mv.schemas import Schemas
from gateway.mv.tasks import Tasks
from gateway.service import staleness
from gateway.service.audit import NOTHING, Mentions
from gateway.service.catalog_tables import CatalogTables
from gateway.service.commands import Commands
from gateway.service.operation import NO_ROWS, End, Result
from gateway.service.protection import Protection
from gateway.service.session import INCREMENTAL_COLLECT, Session
from gateway.service.temporary_views import Reachable, TemporaryViews
from gateway.service.transaction import SETTING, VALUES
from gateway.service.version_reads import VersionReads
from sql import catalog_functions, hidden, maintenance, rewrite, view_properties
from sql.classify import classify, glance
from sql.grammar import SyntaxProblem
from sql.names import Namespace, TableName
from sql.parser import parse_about
from sql.redaction import redact
from sql.scan import skip_blank
from sql.statement import (
    AlterMaterializedView,
    BeginTransaction,
    EndTransaction,
    Forwarded,
    Glance,
    NamedCommand,
    Parts,
    SetProperties,
    Statement,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

LONG_CHARACTERS = 4_000
"""To understand a longer text may take milliseconds: others' work goes on meanwhile."""
LATE_COMMIT_SECONDS = 30.0
"""How long a cancelled statement may still commit. Spark has been seen to take two seconds."""
_QUERYING = frozenset({"select", "values", "table", "show", "describe", "desc", "explain", "list", "help"})
_TENDING = frozenset({"set", "reset", "use", "cache", "uncache", "refresh", "clear", "analyze"})
READING = _QUERYING | _TENDING
"""First words of statements that never change a table; `with`, `from` and `map` may lead to an INSERT or MERGE."""
WRITING_WORDS = frozenset({"insert", "merge", "update", "delete", "into"})
ROW_CHANGES = frozenset({"insert", "merge", "update", "delete", "load", "truncate", "with", "from", "map", "reduce"})
"""First words of statements that change rows and nothing else of a table."""
RELATION_WORDS = frozenset({"view", "database", "schema", "namespace", "function", "databases"})
CATALOG_WORDS = frozenset({"materialized_views", "mv_infos", "jobs", "tasks"})
"""Without one of these a text asks the catalog for nothing."""
ABOUT = frozenset({"show", "describe", "desc", "drop", "comment", "analyze", "alter"})
"""First words of Spark's statements that are commands of ours where they name one of our views."""
DATABASE_WORDS = frozenset({"databases", "schemas", "namespaces"})
MEASURED_COLUMNS = frozenset({"versions_kept", "row_count", "size_bytes", "total_size_bytes"})
"""Columns of freshgate.materialized_views for which Spark must count; nobody waits for what he does not ask for."""
SETTINGS = frozenset({"set", "reset"})
_COUNT_ALL = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_SHOW_DATABASES = re.compile(r"\s*show\s+(?:databases|schemas|namespaces)\b", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class Route:
    """To Spark; `text` replaces the statement's where it is not None.

    `on_end` is called when the statement has ended, `on_close` when its rows cannot be fetched any more. Each action
    runs once.
    """

    text: str | None = None
    ends: list[Callable[[End], None]] = field(default_factory=list)
    closes: list[Callable[[], None]] = field(default_factory=list)
    mentions: Mentions = NOTHING

    def on_end(self, end: End) -> None:
        actions, self.ends = self.ends, []
        for action in actions:
            action(end)

    def on_close(self) -> None:
        actions, self.closes = self.closes, []
        for action in actions:
            action()

    def abandon(self, end: End = End.UNKNOWN) -> None:
        """Nobody will hear more of the statement. FAILED: it never went to Spark."""
        self.on_end(end)
        self.on_close()


@dataclass(frozen=True, slots=True)
class Waiting:
    """To Spark, by the route `then`, once `wait` has returned: it makes stale views fresh."""

    then: Route
    wait: Callable[[Report], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Own:
    """The gateway executes it."""

    work: Callable[[Report], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class _Reading:
    """A statement that reads views, and what is known of it before they are fresh."""

    session: Session
    route: Route
    place: staleness.Place
    read: staleness.Read
    text: str | None
    """What stands in the statement's place so far; None: itself."""
    splices: Sequence[rewrite.Splice]
    write: Write | None
    composed: bool
    """Its names are put together when it runs."""
    pinned: bool
    """It belongs to a transaction, which sees one version of each view."""
    epoch: int
    """The transaction's."""

    @property
    def unpinned(self) -> staleness.Read:
        """What of it must be fresh: of a transaction, what that has not used before."""
        known = self.session.transaction.pins.keys() if self.pinned else frozenset()
        return replace(self.read, direct=self.read.direct - known)


class Router:
    """Decides about statements."""

    def __init__(
        self,
        catalog: Catalog,
        relations: Relations,
        schemas: Schemas,
        tasks: Tasks,
        stale_reads: staleness.StaleReads,
        version_reads: VersionReads,
        readers: Readers,
        commands: Commands,
        tables: CatalogTables,
        *,
        show_storage: bool,
    ) -> None:
        self._catalog = catalog
        self._relations = relations
        self._schemas = schemas
        self._tasks = tasks
        self._version_reads = version_reads
        self._readers = readers
        self._commands = commands
        self._tables = tables
        self._protection = Protection(catalog)
        self._stale_reads = stale_reads
        self._show_storage = show_storage
        self._global_temporary = TemporaryViews()

    # --- the cheap way -----------------------------------------------------------------------------

    def plain(self, session: Session, text: str) -> Route | None:
        """The route of a statement that mentions nothing of interest; None where `consider` must decide."""
        return None if len(text) > LONG_CHARACTERS else self._plain(session, text, glance(text))

    def _plain(self, session: Session, text: str, look: Glance) -> Route | None:
        if INCREMENTAL_COLLECT in look.words:
            session.collects_in_parts = True  # Or not: that it may is enough.
        if look.maybe_command or not look.words.isdisjoint(CATALOG_WORDS) or self._lists_databases(look):
            return None
        if look.keyword in SETTINGS and _of_snapshot(text) is not None:
            return None
        writes = _may_write(look)
        if writes and not RELATION_WORDS.isdisjoint(look.words):
            return None
        if not self._catalog.idle and (
            self._of_interest(session, look, writes)
            or hidden.composes(text, look.words)
            or (writes and any(map(_is_path, look.words)))
        ):
            return None
        route = Route()
        if writes:
            self._note(route, self._catalog.writes.begin(look.words, None))
        if _may_change_namespace(look):
            route.ends.append(partial(_forget_namespace, session))
        return route

    def _of_interest(self, session: Session, look: Glance, writes: bool) -> bool:
        words, catalog = look.words, self._catalog
        if session.namespace is None:
            return True
        return not (
            words.isdisjoint(catalog.view_words)
            and words.isdisjoint(self._relations.view_words)
            and (not writes or words.isdisjoint(catalog.table_words))
            and not self._temporary(session).mentioned(words)
            and self._relations.known(session.namespace.database, words)
        )

    # --- the thorough way --------------------------------------------------------------------------

    async def consider(self, session: Session, text: str) -> Route | Waiting | Own:
        """Raises FreshgateError where the statement is refused."""
        statement, look = await _understood(text)
        if len(text) > LONG_CHARACTERS and (plain := self._plain(session, text, look)) is not None:
            return plain
        if isinstance(statement, BeginTransaction | EndTransaction):
            return Own(partial(self._transaction, statement, session))
        if not isinstance(statement, Forwarded):
            return Own(partial(self._commands.run, statement, session))
        if self._lists_databases(look) and _SHOW_DATABASES.match(text, skip_blank(text)):
            return Own(partial(self._commands.databases, text, session))
        namespace = await session.resolve_namespace()
        if (command := self._about_view(session, namespace, look, text)) is not None:
            return Own(partial(self._commands.run, command, session))
        if calls := self._calls(look, text):
            text = await self._with_functions(text, calls)
            statement = _forwarded(text)
        journey = await self._version_reads.journey(text, look, namespace, session)
        if journey is None:
            return await self._forward(session, namespace, statement, look, text, changed=bool(calls))
        statement = _forwarded(journey.text)
        try:
            splices = journey.splices(statement)
            statement = replace(statement, reads=journey.rest(statement))
            route = await self._forward(session, namespace, statement, look, journey.text, splices, changed=bool(calls))
        except BaseException:  # cancelled too: nobody reads the versions
            self._readers.release(journey.read)
            raise
        then = route.then if isinstance(route, Waiting) else route
        then.closes.append(partial(self._readers.release, journey.read))
        travelled = frozenset(view.name for _, view, _ in journey.travels.values())
        then.mentions = replace(then.mentions, views=then.mentions.views | travelled)
        return route

    async def _forward(
        self,
        session: Session,
        namespace: Namespace,
        statement: Forwarded,
        look: Glance,
        text: str,
        versions: Sequence[rewrite.Splice] = (),
        *,
        changed: bool,
    ) -> Route | Waiting:
        """`versions`: what puts versions in the place of views; `changed`: the text is not the client's any more."""
        if not self._catalog.idle:
            await self._relations.learn(namespace.database, look.words)
        composed = not statement.exact and hidden.composes(text, look.words)
        if not statement.exact:
            shown = redact(text[:200], cut=True)
            log.info("statement not understood (%s), so every name in it counts: %s", statement.reason, shown)
        targets = await _apart(text, lambda: [TableName.resolve(parts, namespace) for parts in statement.writes])
        if not self._is_of_temporary(session, statement, look):
            self._protection.check(statement, targets)
            if not statement.exact and not self._catalog.idle:
                within = await _apart(text, partial(hidden.changes, text))
                self._protection.check_within(statement, within, namespace)
                await self._suspect_temporary(session, namespace, statement, text, composed=composed)
        splices = [*versions, *await self._catalog_tables(text, statement, look, changed=changed)]
        route = Route()
        write = self._open_write(statement, look, targets, composed=composed)
        if look.keyword not in ROW_CHANGES:
            changing = frozenset(targets) if write is None else write.tables or frozenset()
            route.ends.append(lambda _: self._schemas.forget(changing))
        if write is not None:
            self._note(route, write)
        self._note_relations(route, session, namespace, statement, look)
        if composed:
            route.ends.append(partial(_forget_namespace, session))
        if look.keyword in SETTINGS and (said := _of_snapshot(text)) is not None:
            route.ends.append(partial(_set_snapshot, session, _whole_session(said)))
        try:
            read = staleness.Read()
            if statement.touches_rows and statement.creates_view is None:
                if composed:
                    read = staleness.Read(perhaps=frozenset(view.id for view in self._catalog.views()))
                else:
                    read = await self._views_read(session, namespace, statement)
            route.mentions = self._mentions(namespace, statement, targets, read)
            if changed or splices:
                route.text = rewrite.splice(text, splices)
            place = staleness.Place(statement, text, look.keyword, namespace)
            pinned = session.transaction.active and bool(read.all)
            if pinned:
                self._version_reads.check(session.transaction, place, read)
            epoch = session.transaction.epoch
            task = _Reading(session, route, place, read, route.text, splices, write, composed, pinned, epoch)
            if self._readers.is_held(read.all) or self._stale_reads.due(task.unpinned) or self._wanted(task).anything:
                return Waiting(route, partial(self._prepare, task))
            self._depart(task)
        except BaseException:  # cancelled too: the statement never goes to Spark
            route.abandon(End.FAILED)
            raise
        return route

    def _begin_read(self, route: Route, views: frozenset[str]) -> None:
        """Keeps the views' versions until the statement is closed; not those from before its refresh."""
        if views:
            read = self._readers.begin(views)
            route.ends.append(lambda _: self._readers.planned(read))
            route.closes.append(partial(self._readers.release, read))

    def _wanted(self, reading: _Reading) -> staleness.Wanted:
        """What must happen first; the statement's text is changed where definitions stand in for views."""
        wanted = self._stale_reads.wanted(reading.place, reading.unpinned, pinned=reading.pinned)
        reading.route.text = reading.text
        if wanted.splices:
            reading.route.text = rewrite.splice(reading.place.text, [*reading.splices, *wanted.splices])
        return wanted

    async def _prepare(self, reading: _Reading, report: Report) -> None:
        """Looks, and makes fresh, until the names mean what was made fresh."""
        while True:
            await self._readers.admission(reading.read.all)
            for unchanged in await self._stale_reads.look(reading.unpinned):
                self._tasks.note_unchanged(unchanged, Cause(TriggerMode.READ, reading.session.user))
            await self._make_fresh(reading, self._wanted(reading), report)
            place, read = reading.place, reading.read
            if not reading.composed:
                read = await self._views_read(reading.session, place.namespace, place.statement)
            if read == reading.read and not self._readers.is_held(read.all):
                break
            reading = replace(reading, read=read)
        self._depart(reading)

    async def _make_fresh(self, reading: _Reading, wanted: staleness.Wanted, report: Report) -> None:
        cause = Cause(TriggerMode.READ, reading.session.user)
        # A view that only may be read must not fail the statement when it cannot be refreshed.
        survived = RefreshFailed if reading.composed else BaseTableMissing
        await asyncio.gather(*(self._make_one_fresh(view, cause, survived, report) for view in wanted.fresh))
        tables = [table for view in wanted.inlined for table in await self._stale_reads.cached(view)]
        for name in (*wanted.listings, *tables):
            await (await reading.session.sql()).run(maintenance.refresh_listing(name))

    async def _make_one_fresh(self, view_id: str, cause: Cause, survived: type[RefreshFailed], report: Report) -> None:
        if (known := self._tasks.known_gone(view_id)) is not None:
            report(f"Warning: serving the stored rows. {known}")
            return
        try:
            await self._tasks.make_fresh(view_id, cause, report)
        except survived as error:
            entry = self._catalog.find(view_id)
            if entry is not None and not entry.view.built and survived is BaseTableMissing:
                raise
            # The rows that are stored are all there is; a dashboard should rather show them than nothing.
            report(f"Warning: serving the stored rows. {error}")
        except FreshgateError:
            # Its name means another view by now, or none; one that stands below is missed by Spark.
            if self._catalog.find(view_id) is not None:
                raise

    def _depart(self, reading: _Reading) -> None:
        """Everything that the statement reads is as it should be."""
        if reading.pinned:
            splices, read = self._version_reads.depart(
                reading.session.transaction, reading.epoch, reading.place, reading.read
            )
            reading.route.closes.append(partial(self._readers.release, read))
            reading.route.text = rewrite.splice(reading.place.text, [*reading.splices, *splices])
        else:
            self._begin_read(reading.route, reading.read.all)
        if reading.write is not None:
            self._catalog.begin_write(reading.write)

    def _note(self, route: Route, write: Write) -> None:
        route.ends.append(partial(self._end_write, write))

    def _end_write(self, write: Write, end: End) -> None:
        if end is End.REFUSED:
            self._catalog.forget_write(write)
            return
        if end is not End.UNKNOWN:
            self._catalog.end_write(write)
            return
        late = self._catalog.suspect_write(write)
        asyncio.get_running_loop().call_later(LATE_COMMIT_SECONDS, self._catalog.end_write, late)

    async def _transaction(
        self, statement: BeginTransaction | EndTransaction, session: Session, report: Report
    ) -> Result:
        """BEGIN, COMMIT, ROLLBACK. Spark hears nothing of them."""
        transaction = session.transaction
        if isinstance(statement, EndTransaction):
            if not transaction.open:
                report("Warning: there is no transaction in progress")
            elif not statement.commit:
                report("Warning: nothing that was written is undone; Spark has no transactions")
            transaction.end()
            if not statement.chain:
                return NO_ROWS
        elif transaction.open:
            report("Warning: there is already a transaction in progress")
            return NO_ROWS
        everything = isinstance(statement, BeginTransaction) and statement.snapshot
        self._version_reads.begin(transaction, everything=everything)
        report("Reads of a materialized view see one version of it until COMMIT. Writes are done at once")
        return NO_ROWS

    # --- what the statement mentions ---------------------------------------------------------------

    async def _views_read(self, session: Session, namespace: Namespace, statement: Forwarded) -> staleness.Read:
        """Only names that may lead to a view are looked at: a text that is not understood may have tens of thousands of
        others. A temporary view hides a table; both count, for it may be gone by now."""
        direct: set[str] = set()
        perhaps: set[str] = set()
        names = self._read_elsewhere(statement)
        leading = self._catalog.view_words | self._relations.view_words
        temporary = self._temporary(session)
        sure = {each.parts for each in statement.reads if not each.perhaps}
        for parts in temporary.among((each.parts for each in statement.reads), leading):
            names |= temporary.reads(parts)
            if parts[-1].lower() in leading:
                name = TableName.resolve(parts, namespace)
                view = self._catalog.named(name)
                if name in self._catalog.damaged:
                    await self._refuse_damaged(name)
                if view is None:
                    names.add(name)
                else:
                    (direct if parts in sure and not _is_temporary(session, parts) else perhaps).add(view.id)
        for parts in temporary.among(statement.calls, frozenset()):
            names |= temporary.reads(parts)
        below = (await self._relations.sources_of(names)).views
        return staleness.Read(frozenset(direct), below, frozenset(perhaps))

    def _read_elsewhere(self, statement: Forwarded) -> set[TableName]:
        """The views of other databases that its names may mean."""
        if not _moves(statement):
            return set()
        names = _folded(reference.parts for reference in statement.reads)
        views = {view.name for view in self._catalog.views() if not names.isdisjoint(view.name.ends)}
        return views.union(self._relations.called(names))

    def _mentions(
        self, namespace: Namespace, statement: Forwarded, targets: list[TableName], read: staleness.Read
    ) -> Mentions:
        """Of a text that was not understood only what matters here: it may hold tens of thousands of other names."""
        views = frozenset(self._catalog.names_of(read.all).values())
        if not statement.exact:
            return Mentions(views)
        reads = frozenset(TableName.resolve(reference.parts, namespace) for reference in statement.reads)
        return Mentions(views, reads, frozenset(() if statement.drops_database else targets))

    async def _refuse_damaged(self, name: TableName) -> None:
        """A view that cannot be kept fresh is not read as if it were. The name may be somebody else's by now."""
        damage = self._catalog.damaged[name]
        if await self._catalog.published(name, damage.storage) is not None:
            raise damaged(damage)

    def _about_view(self, session: Session, namespace: Namespace, look: Glance, text: str) -> NamedCommand | None:
        """The command of ours that a statement of Spark's becomes because it names one of our views."""
        if look.keyword not in ABOUT or look.words.isdisjoint(self._catalog.view_words):
            return None
        command = parse_about(text)
        if command is None or _is_temporary(session, command.name):
            return None
        return _checked(command) if self._catalog.named(TableName.resolve(command.name, namespace)) else None

    def _is_of_temporary(self, session: Session, statement: Forwarded, look: Glance) -> bool:
        """DROP or ALTER VIEW of a temporary view: Spark takes it before another of that name.

        A dropped one is forgotten at once: the next DROP of the name must not reach what stands behind it.
        """
        name = statement.drops or statement.creates_view
        if name is None or look.keyword not in {"drop", "alter"} or not _is_temporary(session, name):
            return False
        if statement.drops is not None:
            session.temporary.drop(name[-1].lower())
        return True

    def _lists_databases(self, look: Glance) -> bool:
        return look.keyword == "show" and not self._show_storage and not look.words.isdisjoint(DATABASE_WORDS)

    def _temporary(self, session: Session) -> Reachable:
        return Reachable(session.temporary, self._global_temporary)

    def _open_write(
        self, statement: Forwarded, look: Glance, targets: list[TableName], *, composed: bool
    ) -> Write | None:
        if statement.keeps_rows:
            return None
        tables = set(targets)
        if statement.drops_database:
            tables.update(*(self._catalog.tables_in(target.table) for target in targets))
        # The files of a directory may be those of any table.
        somewhere = statement.writes_files or any(_is_path(target.table) for target in targets)
        if (composed and targets) or somewhere:
            tables.update(self._catalog.tables())
        elif _moves(statement):
            names = _folded(statement.writes)
            tables.update(table for table in self._catalog.tables() if not names.isdisjoint(table.ends))
        return self._catalog.writes.begin(look.words, tables) if tables else None

    def _note_relations(
        self, route: Route, session: Session, namespace: Namespace, statement: Forwarded, look: Glance
    ) -> None:
        """What the statement changes about names: current database, temporary views, Spark's views."""
        if statement.changes_namespace:
            route.ends.append(partial(_forget_namespace, session))
        if statement.temporary and statement.creates_view:
            reads = self._names_read(session, namespace, statement)
            route.ends.append(partial(self._temporary(session).add, statement.creates_view, reads))
        elif not RELATION_WORDS.isdisjoint(look.words):
            databases = {TableName.resolve(parts, namespace).database for parts in statement.writes}
            route.ends.append(lambda _: self._forget(databases))
            if (view := statement.creates_view) and look.keyword == "alter" and self._temporary(session).may_be(view):
                self._temporary(session).suspect([view], self._names_read(session, namespace, statement))

    def _names_read(self, session: Session, namespace: Namespace, statement: Forwarded) -> frozenset[TableName]:
        """What it reads, and what the temporary views and functions read that it names."""
        temporary = self._temporary(session)
        reads = self._read_elsewhere(statement)
        reads |= {TableName.resolve(reference.parts, namespace) for reference in statement.reads}
        for parts in (*(reference.parts for reference in statement.reads), *statement.calls):
            reads |= temporary.reads(parts)
        return frozenset(reads)

    async def _suspect_temporary(
        self, session: Session, namespace: Namespace, statement: Forwarded, text: str, *, composed: bool
    ) -> None:
        """The temporary views that a text may make which is not understood."""
        made = await _apart(text, partial(hidden.temporaries, text))
        if made:
            reads = self._names_read(session, namespace, statement)
            everything = {view.name for view in self._catalog.views()} if composed else set[TableName]()
            self._temporary(session).suspect(made, reads | everything)

    def _forget(self, databases: Iterable[str]) -> None:
        for database in databases:
            self._relations.forget(database)

    # --- the catalog as tables ---------------------------------------------------------------------

    def _calls(self, look: Glance, text: str) -> tuple[catalog_functions.FunctionCall, ...]:
        return () if look.words.isdisjoint(CATALOG_WORDS) else catalog_functions.find(text)

    async def _with_functions(self, text: str, calls: Sequence[catalog_functions.FunctionCall]) -> str:
        """The text with mv_infos(), jobs() and tasks() replaced by their rows."""
        splices = []
        for call in calls:
            table = await self._tables.function(call.function, dict(call.arguments))
            rows = rewrite.inline_table(table.columns, table.rows)
            splices.append((call.start, call.end, rows if call.aliased else f"{rows} AS {call.function}"))
        return rewrite.splice(text, splices)

    async def _catalog_tables(
        self, text: str, statement: Forwarded, look: Glance, *, changed: bool
    ) -> list[rewrite.Splice]:
        """The splices that put rows in the place of INFORMATION_SCHEMA.MATERIALIZED_VIEWS and of ours."""
        found = rewrite.catalog_references(statement)
        if (found or changed) and statement.creates_view is not None and not statement.temporary:
            raise NotAllowed(
                "The catalog of materialized views cannot stand in a permanent view: it would show today's rows for "
                "ever. Use a temporary view, or query it directly.",
                sqlstate="0A000",
            )
        splices = []
        for reference, schema, database in found:
            own = schema == "freshgate"
            measured = not look.words.isdisjoint(MEASURED_COLUMNS) or "*" in _COUNT_ALL.sub("", text)
            table = (
                await self._tables.materialized_views(measured=measured)
                if own
                else self._tables.information_schema(database)
            )
            rows = rewrite.inline_table(table.columns, table.rows)
            splices.append(rewrite.replacement(text, reference, rows, "MATERIALIZED_VIEWS"))
        return splices


async def _understood(text: str) -> tuple[Statement, Glance]:
    """Raises SyntaxRefused."""
    return await _apart(text, lambda: (_classified(text), glance(text)))


async def _apart(text: str, work: Callable[[], T]) -> T:
    """Work on a text, beside the event loop where it is long."""
    return work() if len(text) <= LONG_CHARACTERS else await asyncio.to_thread(work)


def _classified(text: str) -> Statement:
    try:
        return classify(text)
    except SyntaxProblem as problem:
        raise SyntaxRefused(str(problem), sqlstate=problem.sqlstate) from problem


def _checked(command: NamedCommand) -> NamedCommand:
    """Spark takes any property of a view; of ours the known ones must have values that mean something."""
    if isinstance(command, AlterMaterializedView) and isinstance(command.change, SetProperties):
        try:
            pairs = view_properties.check(command.change.properties, free=True)
        except SyntaxProblem as problem:
            raise SyntaxRefused(str(problem), sqlstate=problem.sqlstate) from problem
        return replace(command, change=SetProperties(pairs))
    return command


def _forwarded(text: str) -> Forwarded:
    """A statement that is known to be Spark's."""
    statement = classify(text)
    assert isinstance(statement, Forwarded)
    return statement


def _is_path(name: str) -> bool:
    """As the table's name in delta.`/lake/sales`."""
    return "/" in name


def _may_write(look: Glance) -> bool:
    if look.keyword in READING:
        return look.keyword == "explain" and "immediate" in look.words  # Spark runs what it explains.
    return look.keyword not in {"with", "from", "map", "reduce"} or not WRITING_WORDS.isdisjoint(look.words)


def _may_change_namespace(look: Glance) -> bool:
    if look.keyword in {"set", "reset"} and not look.words.isdisjoint({"catalog", "defaultcatalog"}):
        return True
    return "use" in look.words


def _is_temporary(session: Session, name: Parts) -> bool:
    """Whether a temporary view of the session has had the name."""
    return len(name) == 1 and name[0].lower() in session.temporary


def _moves(statement: Forwarded) -> bool:
    """Whether it may be in another database, or catalog, by the time it comes to a name."""
    return not statement.exact and statement.changes_namespace


def _folded(names: Iterable[Parts]) -> set[Parts]:
    return {tuple(part.lower() for part in parts) for parts in names}


_SNAPSHOT_SETTING = re.compile(
    rf"set\s+`?{re.escape(SETTING)}`?\s*=\s*(.*)|reset(?:\s+`?{re.escape(SETTING)}`?)?", re.IGNORECASE | re.DOTALL
)


def _of_snapshot(text: str) -> str | None:
    """What SET or RESET makes of freshgate.snapshot; None where the text is about something else."""
    found = _SNAPSHOT_SETTING.fullmatch(text[skip_blank(text) :].rstrip("; \t\r\n"))
    return None if found is None else (found[1] or VALUES[1]).strip(" '\"").lower()


def _whole_session(value: str) -> bool:
    if value not in VALUES:
        raise SyntaxRefused(f"{SETTING} is {' or '.join(VALUES)}, not {value}.", sqlstate="22023")
    return value == VALUES[0]


def _set_snapshot(session: Session, whole: bool, end: End) -> None:
    if end is End.SUCCEEDED:
        session.transaction.set_session(whole)


def _forget_namespace(session: Session, _: End) -> None:
    session.namespace = None
