"""What a statement needs: the decision that the whole gateway is about.

A statement that mentions nothing of interest is forwarded after one cheap look at its words. Any other is parsed; what
it reads and writes decides whether views are made fresh first, whether a write is noted, or whether it is refused.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gateway.errors import NotAllowed, SyntaxRefused
from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import Write
from gateway.mv.observation.schemas import Schemas
from gateway.mv.refresh.progress import Report
from gateway.service.answers.catalog_tables import CatalogTables, Table
from gateway.service.answers.commands import Commands
from gateway.service.clients.audit import Mentions
from gateway.service.clients.bounds import spliced
from gateway.service.clients.session import INCREMENTAL_COLLECT, Session
from gateway.service.clients.transaction import SETTING, VALUES
from gateway.service.operations.operation import NO_ROWS, End, Result
from gateway.service.routing import script_reads, stale_reads
from gateway.service.routing.gatekeeper import CHANGING, Claim, Gatekeeper, Subject, takes_temporary
from gateway.service.routing.long_texts import LONG_CHARACTERS, parts_bounded
from gateway.service.routing.outcomes import Own, Route, Waiting
from gateway.service.routing.reads import Reading, Reads
from gateway.service.routing.scope import RELATION_WORDS, Scope, folded, unseen, watch
from gateway.service.routing.version_reads import VersionReads
from sql.definition.bases import function_name
from sql.grammar import view_properties
from sql.grammar.cursor import SyntaxProblem
from sql.names import Namespace, TableName
from sql.reading import catalog_functions
from sql.statement import (
    AlterMaterializedView,
    BeginTransaction,
    CreateMaterializedView,
    DropMaterializedView,
    EndTransaction,
    Forwarded,
    Glance,
    NamedCommand,
    Parts,
    SetProperties,
)
from sql.texts import rewrite
from sql.understood import Understood
from sql.words import may_hold_path

log = logging.getLogger(__name__)

LATE_COMMIT_SECONDS = 30.0
"""How long a cancelled statement may still commit. Spark has been seen to take two seconds."""
_QUERYING = frozenset({"select", "values", "table", "show", "describe", "desc", "explain", "list", "help"})
_TENDING = frozenset({"set", "reset", "use", "cache", "uncache", "refresh", "clear", "analyze"})
READING = _QUERYING | _TENDING
"""First words of statements that never change a table; `with`, `from` and `map` may lead to an INSERT or MERGE."""
WRITING_WORDS = frozenset({"insert", "merge", "update", "delete", "into"})
ROW_CHANGES = frozenset({"insert", "merge", "update", "delete", "load", "truncate", "with", "from", "map", "reduce"})
"""First words of statements that change rows and nothing else of a table."""
CATALOG_WORDS = catalog_functions.WORDS | {"materialized_views"}
"""Without one of these a text asks the catalog for nothing."""
DATABASE_WORDS = frozenset({"databases", "schemas", "namespaces"})
MEASURED_COLUMNS = frozenset({"versions_kept", "row_count", "size_bytes", "total_size_bytes"})
"""Columns of freshgate.materialized_views for which Spark must count; nobody waits for what he does not ask for."""
SETTINGS = frozenset({"set", "reset"})
RUNNING = frozenset({"begin", "execute", "explain"})
"""First words of texts that run other statements."""
_SHOW_DATABASES = re.compile(r"\s*show\s+(?:databases|schemas|namespaces)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """What the gateway answers itself."""

    commands: Commands
    tables: CatalogTables
    lists_storage: bool
    """SHOW DATABASES is left to Spark, which lists the storage database as well."""


class Router:
    """Decides about statements."""

    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        schemas: Schemas,
        reads: Reads,
        version_reads: VersionReads,
        gatekeeper: Gatekeeper,
        own: OwnAnswers,
    ) -> None:
        self._catalog = catalog
        self._scope = scope
        self._schemas = schemas
        self._reads = reads
        self._version_reads = version_reads
        self._gatekeeper = gatekeeper
        self._own = own
        self._texts = gatekeeper.texts

    async def close(self) -> None:
        """Ends what reads long texts."""
        await self._texts.close()

    # --- the cheap way -----------------------------------------------------------------------------

    def plain(self, session: Session, known: Understood) -> Route | None:
        """The route of a statement that mentions nothing of interest; None where `consider` must decide."""
        return None if session.unseen or len(known.text) > LONG_CHARACTERS else self._plain(session, known)

    def _plain(self, session: Session, known: Understood) -> Route | None:
        look = known.look
        if INCREMENTAL_COLLECT in look.words:
            session.collects_in_parts = True  # Or not: that it may is enough.
        if look.maybe_command or not look.words.isdisjoint(CATALOG_WORDS) or self._lists_databases(look):
            return None
        if look.keyword in SETTINGS and _of_snapshot(known) is not None:
            return None
        writes = _may_write(look)
        if writes and not look.words.isdisjoint(RELATION_WORDS):
            return None
        if not self._catalog.idle and (
            self._scope.of_interest(session, look.words, writes=writes)
            or known.composes
            or (writes and self._gatekeeper.may_hide(known))
            or (writes and (_moves_files(look) or may_hold_path(look.words)))
        ):
            return None
        route = Route(runs_others=_runs_others(look))
        if writes:
            self._note(route, session, self._catalog.writes.begin(look.words, None, anything=_moves_files(look)))
        if _may_change_namespace(look):
            watch(route, session, moves=True, words=look.words)
        return route

    # --- the thorough way --------------------------------------------------------------------------

    async def consider(self, session: Session, known: Understood) -> Route | Waiting | Own:
        """Raises FreshgateError where the statement is refused."""
        await session.settle()
        await self._scope.name_temporary(session)
        with parts_bounded():
            await self._settle(known)
            while True:
                moved = session.moved
                route = await self._consider(session, known)
                if moved == session.moved:
                    return route
                # Another statement of the session has ended meanwhile: the names may mean something else.
                _then(route).abandon(End.FAILED)

    async def _consider(self, session: Session, known: Understood) -> Route | Waiting | Own:
        statement, look = known.statement, known.look
        if len(known.text) > LONG_CHARACTERS and (plain := self._plain(session, known)) is not None:
            return plain
        if isinstance(statement, BeginTransaction | EndTransaction):
            return Own(partial(self._transaction, statement, session))
        if not isinstance(statement, Forwarded):
            if isinstance(statement, CreateMaterializedView) and statement.clauses.location is not None:
                await self._gatekeeper.check_location(statement.clauses.location)
            return Own(partial(self._own.commands.run, statement, session))
        if self._lists_databases(look) and _SHOW_DATABASES.match(known.text, known.start):
            return Own(partial(self._own.commands.databases, known.text, session))
        namespace = await session.resolve_namespace()
        command = self._about_view(namespace, known)
        name = _changed_name(command, statement, look)
        claim = None if name is None else await self._gatekeeper.claim(session, name, namespace)
        if command is not None and claim is None and not await self._is_shadowed(session, command):
            return Own(partial(self._own.commands.run, command, session))
        try:
            return await self._route(session, namespace, known, claim)
        except BaseException:  # cancelled too: the statement never goes to Spark
            session.temporary.leaving.discard(claim)
            raise

    async def _route(
        self,
        session: Session,
        namespace: Namespace,
        known: Understood,
        claim: Claim | None,
    ) -> Route | Waiting:
        """Of a statement that is Spark's. `claim`: it is about a temporary view."""
        if calls := known.catalog_calls:
            known = Understood(await self._with_functions(known.text, calls), look=known.look)
            await self._settle(known)
        journey = await self._version_reads.journey(known, namespace, session, self._texts)
        if journey is None:
            return await self._forward(session, namespace, known, claim, changed=bool(calls))
        try:
            await self._settle(journey.known)
            splices = journey.splices()
            route = await self._forward(session, namespace, journey.rest(), claim, splices, changed=bool(calls))
        except BaseException:  # cancelled too: nobody reads the versions
            self._version_reads.release(journey)
            raise
        then = _then(route)
        then.closes.append(partial(self._version_reads.release, journey))
        travelled = frozenset(view.name for _, view, _ in journey.travels.values())
        then.mentions = replace(then.mentions, views=then.mentions.views | travelled)
        return route

    async def _forward(
        self,
        session: Session,
        namespace: Namespace,
        known: Understood,
        claim: Claim | None,
        versions: Sequence[rewrite.Splice] = (),
        *,
        changed: bool,
    ) -> Route | Waiting:
        """`versions`: what puts versions in the place of views; `changed`: the text is not the client's any more."""
        statement, look = known.sparks, known.look
        if not self._catalog.idle:
            await self._scope.learn(session, namespace, look.words)
        composed = not statement.exact and (known.composes or statement.everything)
        if not statement.exact:
            log.info(
                "statement not understood (%s), so every name in it counts: %s", statement.reason, known.shown[:200]
            )
        targets = [TableName.resolve(parts, namespace) for parts in statement.writes]
        subject = Subject(session, namespace, known, _may_write_after_all(known), claim.name if claim else None)
        subject = await self._gatekeeper.check(subject)
        splices = [*versions, *await self._catalog_tables(known, changed=changed)]
        route = Route(runs_others=_runs_others(look))
        try:
            self._gatekeeper.note(subject, claim, route)
            self._gatekeeper.watch(subject, route)
            write = self._open_write(session, namespace, statement, look, targets, composed=composed)
            if look.keyword not in ROW_CHANGES:
                changing = frozenset(targets) if write is None else write.tables or frozenset()
                route.sends.append(partial(self._schemas.forget, changing))
                route.ends.append(lambda _: self._schemas.forget(changing))
            if write is not None:
                self._note(route, session, write)
            made = frozenset[Parts]()
            if not statement.exact and not self._catalog.idle:
                made = subject.known.temporaries
            self._scope.note(route, session, namespace, statement, look, made, composed=composed)
            if look.keyword in SETTINGS and (said := _of_snapshot(known)) is not None:
                watch(route, session)
                route.ends.append(partial(_set_snapshot, session, _whole_session(said)))
            if changed or splices:
                route.text = spliced(known.text, splices)
            place = stale_reads.Place(known, namespace)
            return await self._read(session, route, place, splices, write, targets, composed=composed)
        except BaseException:  # cancelled too: the statement never goes to Spark
            route.abandon(End.FAILED)
            raise

    async def _read(
        self,
        session: Session,
        route: Route,
        place: stale_reads.Place,
        splices: Sequence[rewrite.Splice],
        write: Write | None,
        targets: list[TableName],
        *,
        composed: bool,
    ) -> Route | Waiting:
        """What must happen first, where the statement reads views."""
        read, statement = stale_reads.Read(), place.statement
        if statement.touches_rows and statement.creates_view is None:
            read = await self._scope.views_read(session, place.namespace, statement, composed=composed)
            if write is not None and place.known.steps:
                await self._check_script(session, place)
        route.mentions = self._mentions(place.namespace, statement, targets, read)
        transaction = session.transaction
        pinned = transaction.active and bool(read.all)
        reading = Reading(
            session, route, place, read, route.text, splices, write, composed, pinned, transaction.epoch, composed
        )
        if pinned:
            reading = await self._reads.exactly(reading)
            self._version_reads.check(transaction, place, reading.read)
        if self._reads.must_wait(reading):
            return Waiting(route, partial(self._reads.prepare, reading))
        self._reads.depart(reading)
        return route

    def _note(self, route: Route, session: Session, write: Write) -> None:
        self._reads.writers[write.number] = unseen(route, session)
        route.ends.append(partial(self._end_write, write))

    def _end_write(self, write: Write, end: End) -> None:
        self._reads.writers.pop(write.number, None)
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

    async def _settle(self, known: Understood) -> None:
        """Finds out what the text is. Raises SyntaxRefused, and LimitReached for one that takes too long to read."""
        try:
            await self._texts.read(known)
            known.statement  # noqa: B018
        except SyntaxProblem as problem:
            raise SyntaxRefused(str(problem), sqlstate=problem.sqlstate) from problem

    # --- what the statement mentions ---------------------------------------------------------------

    def _mentions(
        self, namespace: Namespace, statement: Forwarded, targets: list[TableName], read: stale_reads.Read
    ) -> Mentions:
        """Of a text that was not understood only what matters here: it may hold tens of thousands of other names."""
        views = frozenset(self._catalog.names_of(read.all).values())
        if not statement.exact:
            return Mentions(views)
        spelt = {reference.parts for reference in statement.reads}
        reads = frozenset(TableName.resolve(parts, namespace) for parts in spelt)
        return Mentions(views, reads, frozenset(() if statement.drops_database else targets))

    def _about_view(self, namespace: Namespace, known: Understood) -> NamedCommand | None:
        """The command of ours that a statement of Spark's becomes because it names one of our views."""
        if known.look.words.isdisjoint(self._catalog.view_words):
            return None
        command = known.about
        if command is None or self._catalog.named(TableName.resolve(command.name, namespace)) is None:
            return None
        return _checked(command)

    async def _is_shadowed(self, session: Session, command: NamedCommand) -> bool:
        """Whether a command that changes nothing is about a temporary view of the session's."""
        name = command.name
        if len(name) > 1 or isinstance(command, DropMaterializedView | AlterMaterializedView):
            return False
        return self._scope.temporary(session).may_be(name) and await takes_temporary(await session.sql(), name[0])

    def _lists_databases(self, look: Glance) -> bool:
        return look.keyword == "show" and not self._own.lists_storage and not look.words.isdisjoint(DATABASE_WORDS)

    def _open_write(
        self,
        session: Session,
        namespace: Namespace,
        statement: Forwarded,
        look: Glance,
        targets: list[TableName],
        *,
        composed: bool,
    ) -> Write | None:
        if statement.keeps_rows:
            return None
        tables = self._tables_written(session, namespace, statement, targets, composed)
        anything = _writes_anything(statement, targets, composed) or (not statement.exact and _moves_files(look))
        if anything:
            tables.update(self._catalog.tables())
        return self._catalog.writes.begin(look.words, tables, anything=anything) if tables or anything else None

    def _tables_written(
        self,
        session: Session,
        namespace: Namespace,
        statement: Forwarded,
        targets: list[TableName],
        composed: bool,
    ) -> set[TableName]:
        if statement.keeps_rows:
            return set()
        tables = set(targets)
        if statement.drops_database:
            tables.update(*(self._catalog.tables_in(target.table) for target in targets))
        if statement.changes_function:
            tables.add(function_name(statement.changes_function, namespace))
        if _writes_anything(statement, targets, composed):
            tables.update(self._catalog.tables())
        elif self._scope.moves(session, statement):
            names = folded(statement.writes)
            tables.update(table for table in self._catalog.tables() if not names.isdisjoint(table.ends))
        return tables.union(self._catalog.changed_with(tables, exact=statement.exact))

    async def _check_script(self, session: Session, place: stale_reads.Place) -> None:
        script = script_reads.Script(place.statement, place.known.steps, place.namespace)
        reads = partial(self._scope.views_read, session, place.namespace)
        await script_reads.check(self._catalog, script, reads, partial(self._tables_written, session, place.namespace))

    # --- the catalog as tables ---------------------------------------------------------------------

    async def _with_functions(self, text: str, calls: Sequence[catalog_functions.FunctionCall]) -> str:
        """The text with mv_infos(), jobs() and tasks() replaced by their rows."""
        splices: list[rewrite.Splice] = []
        rows: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        for call in calls:
            if (asked := (call.function, call.arguments)) not in rows:
                table = await self._own.tables.function(call.function, dict(call.arguments))
                rows[asked] = await _inline(table)
            splices.append((call.start, call.end, rows[asked]))
            if not call.aliased:
                splices.append((call.end, call.end, f" AS {call.function}"))
        return spliced(text, splices)

    async def _catalog_tables(self, known: Understood, *, changed: bool) -> list[rewrite.Splice]:
        """The splices that put rows in the place of INFORMATION_SCHEMA.MATERIALIZED_VIEWS and of ours."""
        statement = known.sparks
        found = rewrite.catalog_references(statement)
        if (found or changed) and statement.creates_view is not None and not statement.temporary:
            raise NotAllowed(
                "The catalog of materialized views cannot stand in a permanent view: it would show today's rows for "
                "ever. Use a temporary view, or query it directly.",
                sqlstate="0A000",
            )
        if not found:
            return []
        splices: list[rewrite.Splice] = []
        rows: dict[tuple[str, str | None], str] = {}
        for reference, schema, database in found:
            if (schema, database) not in rows:
                rows[schema, database] = await _inline(await self._catalog_table(known, schema, database))
            splices += rewrite.replacement(known.places, reference, rows[schema, database], "MATERIALIZED_VIEWS")
        return splices

    async def _catalog_table(self, known: Understood, schema: str, database: str | None) -> Table:
        if schema != "freshgate":
            return await self._own.tables.information_schema(database)
        measured = not known.look.words.isdisjoint(MEASURED_COLUMNS) or known.asks_for_all
        return await self._own.tables.materialized_views(measured=measured)


async def _inline(table: Table) -> str:
    """The table as a query; of many rows, some at a time."""
    turn, lines = Turn(), list[str]()
    for row in table.rows:
        lines.append(rewrite.inline_line(table.columns, row))
        await turn.pause()
    return rewrite.inline_lines(table.columns, lines)


def _checked(command: NamedCommand) -> NamedCommand:
    """Spark takes any property of a view; of ours the known ones must have values that mean something."""
    if isinstance(command, AlterMaterializedView) and isinstance(command.change, SetProperties):
        try:
            pairs = view_properties.check(command.change.properties, free=True)
        except SyntaxProblem as problem:
            raise SyntaxRefused(str(problem), sqlstate=problem.sqlstate) from problem
        return replace(command, change=SetProperties(pairs))
    return command


def _runs_others(look: Glance) -> bool:
    """A script, or EXECUTE IMMEDIATE: a parse error may come after a part of it was done."""
    return not look.words.isdisjoint({"begin", "execute"})


def _changed_name(command: NamedCommand | None, statement: Forwarded, look: Glance) -> Parts | None:
    """What a DROP or ALTER is about, of what may be a view."""
    if isinstance(command, DropMaterializedView | AlterMaterializedView):
        return command.name
    if command is not None or look.keyword not in CHANGING or statement.drops_database or not statement.exact:
        return None
    return next(iter(statement.writes), None)


_KEEPING_FILES = frozenset({"insert", "merge", "update", "delete", "truncate", "alter", "drop", "with", "from", "map"})
_FILE_WORDS = frozenset({"inpath", "location", "path", "directory"})


def _moves_files(look: Glance) -> bool:
    """Whether a statement that writes may write, or take away, files by their path: those of any table."""
    return look.keyword not in _KEEPING_FILES and not look.words.isdisjoint(_FILE_WORDS)


def _writes_anything(statement: Forwarded, targets: Iterable[TableName], composed: bool) -> bool:
    """The files of a directory may be those of any table."""
    if statement.writes_files or any(_is_path(target.table) for target in targets):
        return True
    return composed and (statement.everything or bool(statement.writes))


def _is_path(name: str) -> bool:
    """As the table's name in delta.`/lake/sales`."""
    return "/" in name


def _may_write(look: Glance) -> bool:
    if look.keyword in READING:
        return look.keyword == "explain" and "immediate" in look.words  # Spark runs what it explains.
    return look.keyword not in {"with", "from", "map", "reduce"} or not look.words.isdisjoint(WRITING_WORDS)


def _may_write_after_all(known: Understood) -> bool:
    """The same of a statement whose words variables may change."""
    return _may_write(known.look) or ("${" in known.text and bool(known.sparks.writes))


def _may_change_namespace(look: Glance) -> bool:
    if look.keyword in {*SETTINGS, *RUNNING} and not look.words.isdisjoint({"catalog", "defaultcatalog"}):
        return True
    if look.keyword == "reset" and isinstance(look.words, frozenset) and len(look.words) == 1:
        return True
    return "use" in look.words


_SNAPSHOT_SETTING = re.compile(
    rf"set\s+`?{re.escape(SETTING)}`?\s*=\s*(.*)|reset(?:\s+`?{re.escape(SETTING)}`?)?", re.IGNORECASE | re.DOTALL
)


def _of_snapshot(known: Understood) -> str | None:
    """What SET or RESET makes of freshgate.snapshot; None where the text is about something else."""
    text, start = known.text, known.start
    if len(text) - start > LONG_CHARACTERS:
        return None
    found = _SNAPSHOT_SETTING.fullmatch(text[start:].rstrip("; \t\r\n"))
    return None if found is None else (found[1] or VALUES[1]).strip(" '\"").lower()


def _whole_session(value: str) -> bool:
    if value not in VALUES:
        raise SyntaxRefused(f"{SETTING} is {' or '.join(VALUES)}, not {value}.", sqlstate="22023")
    return value == VALUES[0]


def _set_snapshot(session: Session, whole: bool, end: End) -> None:
    if end is End.SUCCEEDED:
        session.transaction.set_session(whole)


def _then(outcome: Route | Waiting | Own) -> Route:
    """How the statement goes to Spark in the end, where it does."""
    if isinstance(outcome, Own):
        return Route()
    return outcome.then if isinstance(outcome, Waiting) else outcome
