"""Decides what happens with a statement.

A statement without any name of interest is forwarded after a cheap scan of its words. Other statements are parsed. What
a statement reads and writes decides whether views are refreshed first, a write is noted, or the statement is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gateway.errors import FreshgateError, NotAllowed, SyntaxRefused
from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import Write
from gateway.mv.observation.schemas import Schemas
from gateway.mv.refresh.progress import Report
from gateway.mv.rewriting.unanswered import Unanswered
from gateway.mv.rewriting.usage import Missed
from gateway.service.answers.catalog_tables import About, CatalogTables, Table
from gateway.service.answers.commands import Commands
from gateway.service.clients import own_settings
from gateway.service.clients.audit import Mentions
from gateway.service.clients.bounds import spliced
from gateway.service.clients.session import Session, may_collect_in_parts
from gateway.service.operations.operation import NO_ROWS, End, Result
from gateway.service.routing import dependents, rewrite_explanation, script_reads, stale_reads
from gateway.service.routing.first_words import READING, ROW_CHANGES, may_write, may_write_after_all
from gateway.service.routing.gatekeeper import CHANGING, Claim, Gatekeeper, Subject, takes_temporary
from gateway.service.routing.known_answers import KnownAnswers
from gateway.service.routing.long_texts import LONG_CHARACTERS, parts_bounded
from gateway.service.routing.outcomes import Own, Route, Waiting, always, at_once
from gateway.service.routing.reads import Reading, Reads
from gateway.service.routing.rewrites import FIRST_WORDS, Hit, Pass, Rewrites
from gateway.service.routing.scope import RELATION_WORDS, Scope, folded, unseen, watch
from gateway.service.routing.version_reads import VersionReads
from sql.definition.bases import function_name
from sql.grammar import view_properties
from sql.grammar.cursor import SyntaxProblem
from sql.mentioned import Mentioned
from sql.names import Namespace, TableName
from sql.reading import catalog_functions, explained
from sql.statement import (
    AlterMaterializedView,
    BeginTransaction,
    CreateMaterializedView,
    DropMaterializedView,
    EndTransaction,
    ExplainRewrite,
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

QUERIES = FIRST_WORDS - {"explain"}
CATALOG_WORDS = catalog_functions.WORDS | rewrite.OWN
"""A text without any of these words does not query the catalog."""
DATABASE_WORDS = frozenset({"databases", "schemas", "namespaces"})
MEASURED_COLUMNS = frozenset({"versions_kept", "row_count", "size_bytes", "total_size_bytes"})
"""Columns of freshgate.materialized_views that Spark must compute, which is done only for queries that name them."""
SETTINGS = frozenset({"set", "reset"})
KEEPING_SETTINGS = (
    READING - SETTINGS | ROW_CHANGES | frozenset({"create", "drop", "alter", "comment", "grant", "revoke"})
)
"""First words of statements that change no setting of their session, and run no other statement."""
RUNNING = frozenset({"begin", "execute", "explain"})
"""First words of texts that run other statements."""
USE_CHARACTERS_MAX = 300
"""A longer USE is not one that only names a database."""
_SHOW_DATABASES = re.compile(r"\s*show\s+(?:databases|schemas|namespaces)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """What the gateway answers itself."""

    commands: Commands
    tables: CatalogTables
    about: Callable[[], About]
    unanswered: Unanswered
    """Counts the queries for which views are suggested."""
    known: KnownAnswers
    """Finds the reads whose results are kept in memory."""


class Router:
    """Finds the route of each statement."""

    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        schemas: Schemas,
        reads: Reads,
        version_reads: VersionReads,
        gatekeeper: Gatekeeper,
        own: OwnAnswers,
        rewrites: Rewrites,
    ) -> None:
        self._catalog = catalog
        self._scope = scope
        self._schemas = schemas
        self._reads = reads
        self._version_reads = version_reads
        self._gatekeeper = gatekeeper
        self._own = own
        self._rewrites = rewrites
        self._unanswered = own.unanswered
        self._texts = gatekeeper.texts

    async def close(self) -> None:
        """Ends the processes that parse long texts."""
        await self._texts.close()

    # --- the cheap way -----------------------------------------------------------------------------

    def plain(self, session: Session, known: Understood) -> Route | None:
        """The route of a statement without any name of interest; None if `consider` must decide."""
        return None if session.unseen or len(known.text) > LONG_CHARACTERS else self._plain(session, known)

    def _plain(self, session: Session, known: Understood) -> Route | None:
        look = known.look
        if may_collect_in_parts(look.words):
            session.collects_in_parts = True  # Perhaps not, but this is the safe assumption.
        if look.maybe_command or not look.words.isdisjoint(CATALOG_WORDS) or self._lists_databases(look):
            return None
        if look.keyword in SETTINGS and _own_setting(known) is not None:
            return None
        writes = may_write(look)
        if writes and not look.words.isdisjoint(RELATION_WORDS):
            return None
        if not self._catalog.idle and (
            self._scope.of_interest(session, look.words, writes=writes)
            or self._rewrites.concerns(session, look)
            or known.composes
            or (writes and self._gatekeeper.may_hide(known))
            or (writes and (_moves_files(look) or may_hold_path(look.words)))
        ):
            return None
        took = None
        if self._unanswered.counts and look.keyword in QUERIES:
            if session.namespace is None:
                return None
            took = self._counting(session, session.namespace, known)
        route = Route(runs_others=_runs_others(look), took=took)
        if writes:
            self._note(route, session, self._unread_write(session, known))
        if _may_change_namespace(look):
            watch(route, session, moves=True, words=look.words)
            _note_use(route, known)
        self._note_meanings(route, session, known)
        return route

    # --- the thorough way --------------------------------------------------------------------------

    async def consider(self, session: Session, known: Understood) -> Route | Waiting | Own:
        """Raises FreshgateError if the statement is refused."""
        await session.settle()
        await self._scope.name_temporary(session)
        with parts_bounded():
            await self._settle(known)
            while True:
                moved, names = session.moved, self._names()
                route = await self._consider(session, known)
                if moved == session.moved and not self._renamed(names, known):
                    return route
                # Another statement has ended meanwhile, so the names may mean something else.
                _then(route).abandon(End.FAILED)

    def _names(self) -> tuple[int, frozenset[str]]:
        """The catalog's revision, and the names of its views."""
        return self._catalog.revision, self._catalog.view_words

    def _renamed(self, before: tuple[int, frozenset[str]], known: Understood) -> bool:
        """Whether names in a statement may belong to other views than before, for example after a RENAME."""
        revision, words = before
        if revision == self._catalog.revision:
            return False
        return known.composes or not known.look.words.isdisjoint(words | self._catalog.view_words)

    async def _consider(self, session: Session, known: Understood) -> Route | Waiting | Own:
        statement, look = known.statement, known.look
        if len(known.text) > LONG_CHARACTERS and (plain := self._plain(session, known)) is not None:
            return plain
        if isinstance(statement, BeginTransaction | EndTransaction):
            return Own(partial(self._transaction, statement, session))
        if isinstance(statement, ExplainRewrite):
            return Own(partial(rewrite_explanation.explain, self._rewrites, statement, session))
        if not isinstance(statement, Forwarded):
            if isinstance(statement, CreateMaterializedView) and statement.clauses.location is not None:
                await self._gatekeeper.check_location(statement.clauses.location)
            return Own(partial(self._own.commands.run, statement, session))
        if self._lists_databases(look) and _SHOW_DATABASES.match(known.text, known.start):
            return Own(partial(self._own.commands.databases, known.text, session))
        written = await self._gatekeeper.written_out(session, known)
        route = await self._written(session, written)
        if written is not known and (then := _then(route)).text is None:
            then.text = written.text
        return route

    async def _written(self, session: Session, known: Understood) -> Route | Waiting | Own:
        """The route of a statement for Spark, without anything that it puts together at run time if it may write."""
        statement, look = known.sparks, known.look
        namespace = await session.resolve_namespace()
        command = self._about_view(namespace, known)
        name = _changed_name(command, statement, look)
        claim = None if name is None else await self._gatekeeper.claim(session, name, namespace)
        if command is not None and claim is None and not await self._is_shadowed(session, command):
            return Own(partial(self._own.commands.run, command, session))
        if self._rewrites.concerns(session, look):
            return await self._answered(session, namespace, known, claim)
        return await self._as_it_came(session, namespace, known, claim)

    async def _as_it_came(
        self, session: Session, namespace: Namespace, known: Understood, claim: Claim | None
    ) -> Route | Waiting:
        """The route of a statement as it came."""
        try:
            route = await self._route(session, namespace, known, claim)
        except BaseException:  # Including cancellation: the statement is never sent to Spark.
            session.temporary.leaving.discard(claim)
            raise
        counted = self._unanswered.counts and known.look.keyword in QUERIES
        if counted and isinstance(route, Route) and not route.mentions.views:
            route.took = self._counting(session, namespace, known)
        return route

    def _counting(self, session: Session, namespace: Namespace, known: Understood) -> Callable[[float], None] | None:
        """Receives the seconds that a query took which no view answers, for which views may be suggested."""
        words = known.look.words
        if not words.isdisjoint(CATALOG_WORDS) or self._scope.temporary(session).mentioned(words):
            return None
        return self._unanswered.receiver(known.text, namespace, session.user)

    async def _answered(
        self, session: Session, namespace: Namespace, known: Understood, claim: Claim | None
    ) -> Route | Waiting:
        """The route of a query that a view may answer, or of EXPLAIN of one."""
        start = explained.query_start(known.lexed) if known.look.keyword == "explain" else 0
        if start is None:
            return await self._as_it_came(session, namespace, known, claim)
        found = await self._rewrites.find(session, namespace, known.look.words, known.text[start:])
        if isinstance(found, Hit):
            if (waiting := await self._rewritten(session, namespace, known, found, known.text[:start])) is not None:
                return waiting
            found = Pass(Missed.NOT_FRESH, found.usage)
        route = await self._as_it_came(session, namespace, known, claim)
        if not start:
            took = found.count()
            if isinstance(route, Route):  # Otherwise the time would contain that of a refresh.
                route.took = took if route.took is None else _both(took, route.took)
        return route

    async def _rewritten(
        self, session: Session, namespace: Namespace, known: Understood, hit: Hit, head: str
    ) -> Waiting | None:
        """The way of a statement that names the view; None if that would have to wait for a refresh. `head`: what
        precedes the query in EXPLAIN, which shows the plan that would run, and is not counted."""
        try:
            text = Understood(head + hit.text)
            outcome = await self._forward(session, namespace, text, None, changed=False, vouched=hit.vouched)
        except FreshgateError as error:
            # The client has not named the view, so nothing about the view is an error of the client's statement.
            log.info("%s does not answer a query in the place of its base tables: %s", hit.answer.view, error)
            return None
        if isinstance(outcome, Waiting):
            outcome.then.abandon(End.FAILED)
            return None
        outcome.text = outcome.text or head + (hit.mixed or hit.text)
        outcome.stands_in = True
        if hit.mixed:
            outcome.source = None  # It also reads base tables.
        if not head:
            outcome.took = hit.usage.used(hit.answer.view)
            outcome.ends.append(partial(self._rewrites.succeeded, session, known.look.words, known.text, hit))

        async def instead(error: FreshgateError) -> Waiting:
            reason = self._rewrites.failed(hit, error)
            route = await self._route(session, await session.resolve_namespace(), known, None)
            took = None if head else hit.usage.failed(hit.answer.view, reason)
            if isinstance(route, Waiting):
                return route
            route.took = took
            return Waiting(route, at_once)

        return Waiting(outcome, at_once, instead, hit.vouched if hit.mixed else always)

    async def _route(
        self,
        session: Session,
        namespace: Namespace,
        known: Understood,
        claim: Claim | None,
    ) -> Route | Waiting:
        """The route of a statement for Spark. `claim`: it changes a temporary view."""
        if calls := known.catalog_calls:
            known = Understood(await self._with_functions(session, known.text, calls), look=known.look)
            await self._settle(known)
        journey = await self._version_reads.journey(known, namespace, session, self._texts)
        if journey is None:
            return await self._forward(session, namespace, known, claim, changed=bool(calls))
        try:
            await self._settle(journey.known)
            splices = journey.splices()
            route = await self._forward(session, namespace, journey.rest(), claim, splices, changed=bool(calls))
        except BaseException:  # Including cancellation: the versions are not read.
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
        vouched: Callable[[], bool] | None = None,
    ) -> Route | Waiting:
        """`versions`: the splices that replace views by versions. `changed`: the text is no longer the client's.
        `vouched`: as in `Place`."""
        statement, look = known.sparks, known.look
        if not self._catalog.idle:
            await self._scope.learn(session, namespace, look.words)
        composed = not statement.exact and (known.composes or statement.everything)
        if not statement.exact:
            log.info(
                "statement not understood (%s), so every name in it counts: %s", statement.reason, known.shown[:200]
            )
        targets = [TableName.resolve(parts, namespace) for parts in statement.writes]
        subject = Subject(session, namespace, known, may_write_after_all(known), claim.name if claim else None)
        await self._gatekeeper.check(subject)
        splices = [*versions, *await self._catalog_tables(session, known, changed=changed)]
        route = Route(runs_others=_runs_others(look))
        try:
            self._gatekeeper.note(subject, claim, route)
            self._gatekeeper.watch(subject, route)
            self._gatekeeper.keep(subject, route)
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
            _note_use(route, known)
            if look.keyword in SETTINGS and (said := _own_setting(known)) is not None:
                own_settings.check(said)
                watch(route, session)
                route.ends.append(partial(_set_own, session, said))
            self._note_meanings(route, session, known)
            if changed or splices:
                route.text = spliced(known.text, splices)
            place = stale_reads.Place(known, namespace, vouched)
            return await self._read(session, route, place, splices, write, targets, composed=composed)
        except BaseException:  # Including cancellation: the statement is never sent to Spark.
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
        """The route, after a preparation if the statement reads views that need one."""
        read, statement = stale_reads.Read(), place.statement
        if statement.touches_rows and statement.creates_view is None:
            read = await self._scope.views_read(session, place.namespace, statement, composed=composed)
            if write is not None and place.known.steps:
                await self._check_script(session, place)
        route.mentions = self._mentions(place.namespace, statement, targets, read)
        transaction = session.transaction
        pinned = transaction.active and bool(read.all)
        reading = Reading(
            session,
            route,
            place,
            read,
            route.text,
            splices,
            write,
            composed,
            pinned,
            transaction.epoch,
            self._own.known,
            composed,
        )
        if pinned:
            reading = await self._reads.exactly(reading)
            self._version_reads.check(transaction, place, reading.read)
        if self._reads.must_wait(reading):
            return Waiting(route, partial(self._reads.prepare, reading))
        self._reads.depart(reading)
        if said := dependents.warning(self._catalog, place.known.look, targets):
            route.notes += (said,)
        return route

    def _note_meanings(self, route: Route, session: Session, known: Understood) -> None:
        """Notes that the statement may change settings of the session, or what names and rights mean: proofs of how
        views answer queries depend on them."""
        look = known.look
        if look.keyword not in KEEPING_SETTINGS or not look.words.isdisjoint({"variable", "immediate"}):
            constant = look.keyword in SETTINGS and look.words.isdisjoint({"variable", "var"})
            change = object()
            route.sends.append(partial(session.settings.note, known.text, constant=constant, change=change))
            route.ends.append(lambda end: session.settings.ended(change, certainly=end is End.SUCCEEDED))
            if self._rewrites.active or self._own.known.active:
                watch(route, session)
        if may_write(look) and look.keyword not in ROW_CHANGES and self._rewrites.active:
            named = Mentioned(look.words, anything=known.composes)
            route.sends.append(partial(self._forget_meanings, named))
            route.ends.append(lambda _: self._forget_meanings(named))

    def _forget_meanings(self, named: Mentioned) -> None:
        self._schemas.forget_named(named)
        self._rewrites.forget(named)

    def _note(self, route: Route, session: Session, write: Write) -> None:
        self._catalog.writes.watch(write, unseen(route, session))
        route.ends.append(partial(self._end_write, route, write))

    def _end_write(self, route: Route, write: Write, end: End) -> None:
        if end is End.REFUSED:
            self._catalog.forget_write(write)
            return
        if end is not End.UNKNOWN:
            self._catalog.end_write(write)
            return
        route.late(partial(self._catalog.end_write, self._catalog.suspect_write(write)))

    async def _transaction(
        self, statement: BeginTransaction | EndTransaction, session: Session, report: Report
    ) -> Result:
        """Executes BEGIN, COMMIT or ROLLBACK, which are not sent to Spark."""
        transaction = session.transaction
        if isinstance(statement, EndTransaction):
            if not transaction.open:
                report("Warning: there is no transaction in progress")
            elif not statement.commit:
                report("Warning: writes are not undone; Spark has no transactions")
            transaction.end()
            if not statement.chain:
                return NO_ROWS
        elif transaction.open:
            report("Warning: there is already a transaction in progress")
            return NO_ROWS
        everything = isinstance(statement, BeginTransaction) and statement.snapshot
        self._version_reads.begin(transaction, everything=everything)
        report("Reads of a materialized view see one version of it until COMMIT. Writes take effect at once")
        return NO_ROWS

    async def _settle(self, known: Understood) -> None:
        """Reads the text. Raises SyntaxRefused, and LimitReached if it takes too long to parse."""
        try:
            await self._texts.read(known)
            known.statement  # noqa: B018
        except SyntaxProblem as problem:
            raise SyntaxRefused(str(problem), sqlstate=problem.sqlstate) from problem

    # --- what the statement mentions ---------------------------------------------------------------

    def _mentions(
        self, namespace: Namespace, statement: Forwarded, targets: list[TableName], read: stale_reads.Read
    ) -> Mentions:
        """The names for the audit; only views if the text is not understood, because it may have very many names."""
        views = frozenset(self._catalog.names_of(read.all).values())
        if not statement.exact:
            return Mentions(views)
        spelt = {reference.parts for reference in statement.reads}
        reads = frozenset(TableName.resolve(parts, namespace) for parts in spelt)
        return Mentions(views, reads, frozenset(() if statement.drops_database else targets))

    def _about_view(self, namespace: Namespace, known: Understood) -> NamedCommand | None:
        """The gateway's command that a statement of Spark stands for because it names a materialized view."""
        if known.look.words.isdisjoint(self._catalog.view_words):
            return None
        command = known.about
        if command is None or self._catalog.named(TableName.resolve(command.name, namespace)) is None:
            return None
        return _checked(command)

    async def _is_shadowed(self, session: Session, command: NamedCommand) -> bool:
        """Whether a command that changes nothing refers to a temporary view of the session."""
        name = command.name
        if len(name) > 1 or isinstance(command, DropMaterializedView | AlterMaterializedView):
            return False
        return self._scope.temporary(session).may_be(name) and await takes_temporary(await session.sql(), name[0])

    def _lists_databases(self, look: Glance) -> bool:
        return look.keyword == "show" and not look.words.isdisjoint(DATABASE_WORDS)

    def _unread_write(self, session: Session, known: Understood) -> Write:
        """The write of a statement that concerns no view. It is read if a view is created meanwhile that it may
        concern."""
        look, namespace = known.look, None if session.namespace_uncertain else session.namespace

        def targets() -> frozenset[TableName] | None:
            if namespace is None or len(known.text) > LONG_CHARACTERS or known.composes:
                return None
            statement = known.statement
            if not isinstance(statement, Forwarded) or not statement.exact or statement.drops_database:
                return None
            written = [TableName.resolve(parts, namespace) for parts in statement.writes]
            if _writes_anything(statement, written, composed=False) or self._scope.moves(session, statement):
                return None
            return frozenset(self._tables_written(session, namespace, statement, written, composed=False))

        return self._catalog.writes.begin(look.words, None, anything=_moves_files(look), targets=targets)

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

    async def _with_functions(
        self, session: Session, text: str, calls: Sequence[catalog_functions.FunctionCall]
    ) -> str:
        """The text with the calls of mv_infos(), jobs() and tasks() replaced by their rows."""
        splices: list[rewrite.Splice] = []
        rows: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        for call in calls:
            if (asked := (call.function, call.arguments)) not in rows:
                table = await self._own.tables.function(call.function, dict(call.arguments), session.user)
                rows[asked] = await _inline(table)
            splices.append((call.start, call.end, rows[asked]))
            if not call.aliased:
                splices.append((call.end, call.end, f" AS {call.function}"))
        return spliced(text, splices)

    async def _catalog_tables(self, session: Session, known: Understood, *, changed: bool) -> list[rewrite.Splice]:
        """The splices that replace INFORMATION_SCHEMA.MATERIALIZED_VIEWS and Freshgate's own relations by rows."""
        statement = known.sparks
        found = rewrite.catalog_references(statement)
        if (found or changed) and statement.creates_view is not None and not statement.temporary:
            raise NotAllowed(
                "A permanent view cannot read the catalog of materialized views, because it would always show the rows "
                "of its creation. Use a temporary view, or query the catalog directly.",
                sqlstate="0A000",
            )
        if not found:
            return []
        splices: list[rewrite.Splice] = []
        rows: dict[tuple[str, str, str | None], str] = {}
        for reference, schema, database in found:
            asked = reference.parts[-1].lower().rpartition(".")[2], schema, database
            if asked not in rows:
                rows[asked] = await _inline(await self._catalog_table(session, known, *asked))
            splices += rewrite.replacement(known.places, reference, rows[asked], asked[0].upper())
        return splices

    async def _catalog_table(
        self, session: Session, known: Understood, name: str, schema: str, database: str | None
    ) -> Table:
        if schema != "freshgate":
            return await self._own.tables.information_schema(database)
        if name == "rewrites":
            return self._own.tables.rewrites(session.user)
        if name == "suggested_views":
            return await self._own.tables.suggested_views(session.user)
        if name == "gateway":
            return self._own.about().table
        measured = not known.look.words.isdisjoint(MEASURED_COLUMNS) or known.asks_for_all
        return await self._own.tables.materialized_views(session.user, measured=measured)


def _both(one: Callable[[float], None], other: Callable[[float], None]) -> Callable[[float], None]:
    def took(seconds: float) -> None:
        one(seconds)
        other(seconds)

    return took


async def _inline(table: Table) -> str:
    """The table as a query; pauses for other tasks."""
    turn, lines = Turn(), list[str]()
    for row in table.rows:
        lines.append(rewrite.inline_line(table.columns, row))
        await turn.pause()
    return rewrite.inline_lines(table.columns, lines)


def _checked(command: NamedCommand) -> NamedCommand:
    """The command, with its known properties checked; Spark accepts any."""
    if isinstance(command, AlterMaterializedView) and isinstance(command.change, SetProperties):
        try:
            pairs = view_properties.check(command.change.properties, free=True)
        except SyntaxProblem as problem:
            raise SyntaxRefused(str(problem), sqlstate=problem.sqlstate) from problem
        return replace(command, change=SetProperties(pairs))
    return command


def _runs_others(look: Glance) -> bool:
    """Whether it is a script or EXECUTE IMMEDIATE, of which a part may be executed before a parse error."""
    return not look.words.isdisjoint({"begin", "execute"})


def _changed_name(command: NamedCommand | None, statement: Forwarded, look: Glance) -> Parts | None:
    """The name that a DROP or ALTER changes, if it may be that of a view."""
    if isinstance(command, DropMaterializedView | AlterMaterializedView):
        return command.name
    if command is not None or look.keyword not in CHANGING or statement.drops_database or not statement.exact:
        return None
    return next(iter(statement.writes), None)


_KEEPING_FILES = frozenset({"insert", "merge", "update", "delete", "truncate", "alter", "drop", "with", "from", "map"})
_FILE_WORDS = frozenset({"inpath", "location", "path", "directory"})


def _moves_files(look: Glance) -> bool:
    """Whether a statement that writes may write or move files by path, which may be those of any table."""
    return look.keyword not in _KEEPING_FILES and not look.words.isdisjoint(_FILE_WORDS)


def _writes_anything(statement: Forwarded, targets: Iterable[TableName], composed: bool) -> bool:
    """Whether it may write to any table, for example through a path."""
    if statement.writes_files or any(_is_path(target.table) for target in targets):
        return True
    return composed and (statement.everything or bool(statement.writes))


def _is_path(name: str) -> bool:
    """Whether a table's name is a path, as in delta.`/lake/sales`."""
    return "/" in name


def _may_change_namespace(look: Glance) -> bool:
    if look.keyword in {*SETTINGS, *RUNNING} and not look.words.isdisjoint({"catalog", "defaultcatalog"}):
        return True
    if look.keyword == "reset" and isinstance(look.words, frozenset) and len(look.words) == 1:
        return True
    return "use" in look.words


def _own_setting(known: Understood) -> Mapping[str, str] | None:
    """The values that SET or RESET gives settings of the gateway's; None if the text is another statement."""
    text, start = known.text, known.start
    return None if len(text) - start > LONG_CHARACTERS else own_settings.assigned(text[start:])


def _set_own(session: Session, values: Mapping[str, str], end: End) -> None:
    if end is End.SUCCEEDED:
        own_settings.apply(session, values)


def _then(outcome: Route | Waiting | Own) -> Route:
    """The route by which the statement goes to Spark, if it does."""
    if isinstance(outcome, Own):
        return Route()
    return outcome.then if isinstance(outcome, Waiting) else outcome


def _note_use(route: Route, known: Understood) -> None:
    if known.look.keyword == "use" and len(known.text) <= USE_CHARACTERS_MAX and route.unseen is not None:
        route.unseen.used = known.text
