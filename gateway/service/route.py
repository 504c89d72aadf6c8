"""What a statement needs: the decision that the whole gateway is about.

A statement that mentions nothing of interest is forwarded after one cheap look at its words. Any other is parsed; what
it reads and writes decides whether views are made fresh first, whether a write is noted, or whether it is refused.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from gateway.errors import NotAllowed, RefreshFailed, SyntaxRefused
from gateway.mv.catalog import Catalog
from gateway.mv.changes import Write
from gateway.mv.executor import BaseTableMissing, Executor, Report
from gateway.mv.janitor import Janitor, Read
from gateway.mv.relations import Relations
from gateway.service import info
from gateway.service.commands import Commands
from gateway.service.operation import End, Result
from gateway.service.session import Session
from sql import rewrite
from sql.classify import classify, glance
from sql.names import Namespace, TableName
from sql.parser import SyntaxProblem
from sql.statement import Forwarded, Glance, Parts

log = logging.getLogger(__name__)

LATE_COMMIT_SECONDS = 30.0
"""How long a cancelled statement may still commit. Spark has been seen to take two seconds."""
READING = frozenset(
    [
        "select",
        "values",
        "table",
        "show",
        "describe",
        "desc",
        "explain",
        "set",
        "reset",
        "list",
        "help",
        "cache",
        "uncache",
        "refresh",
        "clear",
        "analyze",
        "use",
    ]
)
"""First words of statements that never change a table; `with`, `from` and `map` may lead to an INSERT or MERGE."""
WRITING_WORDS = frozenset({"insert", "merge", "update", "delete", "into"})
RELATION_WORDS = frozenset({"view", "database", "schema", "namespace", "function", "databases"})
GLOBAL_TEMPORARY = "global_temp"
INFORMATION_SCHEMA_WORD = "materialized_views"


@dataclass(slots=True, eq=False)
class Route:
    """To Spark; `text` replaces the statement's where it is not None.

    `on_end` is called when the statement has ended, `on_close` when its rows cannot be fetched any more. Each action
    runs once.
    """

    text: str | None = None
    ends: list[Callable[[End], None]] = field(default_factory=list)
    closes: list[Callable[[], None]] = field(default_factory=list)

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


class Router:
    """Decides about statements."""

    def __init__(
        self, catalog: Catalog, relations: Relations, executor: Executor, janitor: Janitor, commands: Commands
    ) -> None:
        self._catalog = catalog
        self._relations = relations
        self._executor = executor
        self._janitor = janitor
        self._commands = commands
        self._global_temporary: dict[str, frozenset[TableName]] = {}

    # --- the cheap way -----------------------------------------------------------------------------

    def plain(self, session: Session, text: str) -> Route | None:
        """The route of a statement that mentions nothing of interest; None where `consider` must decide."""
        look = glance(text)
        if look.maybe_command or INFORMATION_SCHEMA_WORD in look.words:
            return None
        writes = _may_write(look)
        if writes and not RELATION_WORDS.isdisjoint(look.words):
            return None
        if not self._catalog.idle and (self._of_interest(session, look, writes) or _composed(look, text)):
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
            and words.isdisjoint(session.temporary)
            and words.isdisjoint(self._global_temporary)
            and self._relations.known(session.namespace.database, words)
        )

    # --- the thorough way --------------------------------------------------------------------------

    async def consider(self, session: Session, text: str) -> Route | Waiting | Own:
        """Raises FreshgateError where the statement is refused."""
        try:
            statement = classify(text)
        except SyntaxProblem as problem:
            raise SyntaxRefused(str(problem)) from problem
        if not isinstance(statement, Forwarded):
            return Own(partial(self._commands.run, statement, session))
        look = glance(text)
        namespace = await session.resolve_namespace()
        if not self._catalog.idle:
            await self._relations.learn(namespace.database, look.words)
        composed = not statement.exact and _composed(look, text)
        if not statement.exact:
            log.info("statement not understood (%s), so every name in it counts: %.200s", statement.reason, text)
        targets = [TableName.resolve(parts, namespace) for parts in statement.writes]
        self._refuse_protected(statement, targets)
        route = Route(text=self._with_information_schema(text, statement))
        write = self._open_write(statement, look, targets, composed=composed)
        if write is not None:
            self._note(route, write)
        self._note_relations(route, session, namespace, statement, look)
        if composed:
            route.ends.append(partial(_forget_namespace, session))
        try:
            views: frozenset[str] = frozenset()
            if statement.touches_rows and statement.creates_view is None:
                views = await self._views_read(session, namespace, statement, composed=composed)
            stale = self._begin_read(route, views)
            if stale:
                # A view that only may be read must not fail the statement when it cannot be refreshed.
                survived = RefreshFailed if composed else BaseTableMissing
                return Waiting(route, partial(self._make_fresh, stale, write, survived))
            await self._begin_write(write)
        except BaseException:
            route.abandon(End.FAILED)
            raise
        return route

    def _begin_read(self, route: Route, views: frozenset[str]) -> list[str]:
        """Keeps the views' versions until the statement is closed; returns the views that are stale."""
        if views:
            route.closes.append(partial(self._release, self._janitor.begin_read(views)))
        return [view_id for view_id in sorted(views) if self._catalog.is_stale(view_id)]

    async def _make_fresh(
        self, stale: Iterable[str], write: Write | None, survived: type[RefreshFailed], report: Report
    ) -> None:
        await asyncio.gather(*(self._make_one_fresh(view_id, survived, report) for view_id in stale))
        await self._begin_write(write)

    async def _make_one_fresh(self, view_id: str, survived: type[RefreshFailed], report: Report) -> None:
        try:
            await self._executor.make_fresh(view_id, report)
        except survived as error:
            # The rows that are stored are all there is; a dashboard should rather show them than nothing.
            report(f"Warning: serving the stored rows. {error}")

    async def _begin_write(self, write: Write | None) -> None:
        if write is not None:
            await self._catalog.begin_write(write)

    def _release(self, read: Read) -> None:
        self._janitor.release(read)

    def _note(self, route: Route, write: Write) -> None:
        route.ends.append(partial(self._end_write, write))

    def _end_write(self, write: Write, end: End) -> None:
        if end is not End.UNKNOWN:
            self._catalog.end_write(write)
            return
        late = self._catalog.suspect_write(write)
        asyncio.get_running_loop().call_later(LATE_COMMIT_SECONDS, self._catalog.end_write, late)

    # --- what the statement mentions ---------------------------------------------------------------

    async def _views_read(
        self, session: Session, namespace: Namespace, statement: Forwarded, *, composed: bool
    ) -> frozenset[str]:
        """The materialized views that the statement reads; all, where its text does not say.

        A temporary view hides a table; both count, for it may be gone by now. Only names that may lead to a view are
        looked at: a text that is not understood may have tens of thousands of others.
        """
        if composed:
            return frozenset(view.id for view in self._catalog.views())
        names: set[TableName] = set()
        leading = self._catalog.view_words | self._relations.view_words
        for parts in {reference.parts for reference in statement.reads}:
            names |= self._temporary(session, parts)
            if parts[-1].lower() in leading:
                names.add(TableName.resolve(parts, namespace))
        for parts in statement.calls:
            names |= self._temporary(session, parts)
        return (await self._relations.sources_of(names)).views

    def _temporary(self, session: Session, parts: Parts) -> frozenset[TableName]:
        """What a temporary view or function of that name reads."""
        name = parts[-1].lower()
        if len(parts) == 1:
            return session.temporary.get(name, frozenset())
        return self._global_temporary.get(name, frozenset()) if parts[-2].lower() == GLOBAL_TEMPORARY else frozenset()

    def _open_write(
        self, statement: Forwarded, look: Glance, targets: list[TableName], *, composed: bool
    ) -> Write | None:
        tables = set(targets)
        if statement.drops_database:
            tables.update(*(self._catalog.tables_in(target.table) for target in targets))
        if (composed and targets) or statement.writes_files:
            tables.update(self._catalog.tables())
        return self._catalog.writes.begin(look.words, tables) if tables else None

    def _note_relations(
        self, route: Route, session: Session, namespace: Namespace, statement: Forwarded, look: Glance
    ) -> None:
        """What the statement changes about names: current database, temporary views, Spark's views."""
        if statement.changes_namespace:
            route.ends.append(partial(_forget_namespace, session))
        if statement.temporary and statement.creates_view:
            reads = {TableName.resolve(reference.parts, namespace) for reference in statement.reads}
            for parts in (*(reference.parts for reference in statement.reads), *statement.calls):
                reads |= self._temporary(session, parts)
            views = self._global_temporary if _is_global(statement.creates_view) else session.temporary
            route.ends.append(partial(_add_temporary, views, statement.creates_view[-1].lower(), frozenset(reads)))
        elif not RELATION_WORDS.isdisjoint(look.words):
            databases = {TableName.resolve(parts, namespace).database for parts in statement.writes}
            route.ends.append(lambda _: self._forget(databases))

    def _forget(self, databases: Iterable[str]) -> None:
        for database in databases:
            self._relations.forget(database)

    def _with_information_schema(self, text: str, statement: Forwarded) -> str | None:
        """The text with INFORMATION_SCHEMA.MATERIALIZED_VIEWS replaced by its rows; None where it does not occur."""
        found = rewrite.information_schema_references(statement)
        if not found:
            return None
        if statement.creates_view is not None and not statement.temporary:
            raise NotAllowed(
                "INFORMATION_SCHEMA.MATERIALIZED_VIEWS cannot stand in a permanent view: it would show today's rows "
                "for ever. Use a temporary view, or query it directly.",
                sqlstate="0A000",
            )
        replacements = []
        for reference, database in found:
            rows = info.information_schema(self._catalog, database)
            table = rewrite.inline_table(info.INFORMATION_SCHEMA_COLUMNS, rows)
            replacements.append(rewrite.replacement(text, reference, table, "MATERIALIZED_VIEWS"))
        return rewrite.splice(text, replacements)

    # --- what must not be written ------------------------------------------------------------------

    def _refuse_protected(self, statement: Forwarded, targets: list[TableName]) -> None:
        storage = self._catalog.storage_database
        if statement.drops_database:
            for target in targets:
                self._refuse_drop_database(target.table)
            return
        for target in targets:
            if target.database == storage and (statement.exact or target.table != storage):
                raise NotAllowed(
                    f"{target} holds rows of a materialized view; only a refresh changes it. "
                    f"Change the view's base tables, or use REFRESH or DROP MATERIALIZED VIEW."
                )
            # A text that could not be parsed may only read the view; Spark itself refuses to write to one.
            if statement.exact and not statement.temporary and self._catalog.named(target) is not None:
                raise self._write_to_view(target, statement)

    def _write_to_view(self, view: TableName, statement: Forwarded) -> NotAllowed:
        if statement.drops is not None:
            return NotAllowed(f"{view} is a materialized view. Use DROP MATERIALIZED VIEW {view}.")
        if statement.creates_view is not None:
            return NotAllowed(
                f"{view} is a materialized view and cannot be replaced by a view. "
                f"Use CREATE OR REPLACE MATERIALIZED VIEW, or drop it first."
            )
        return NotAllowed(
            f"{view} is a materialized view; it is immutable and refreshes from its base tables. "
            f"Change those, or run REFRESH MATERIALIZED VIEW {view}."
        )

    def _refuse_drop_database(self, database: str) -> None:
        if database == self._catalog.storage_database:
            raise NotAllowed(f"The database {database} holds the rows of materialized views. Drop the views instead.")
        views = [str(view.name) for view in self._catalog.views() if view.name.database == database]
        if views:
            raise NotAllowed(
                f"The database {database} has materialized views: {', '.join(views[:5])}. "
                f"Run DROP MATERIALIZED VIEW for each first."
            )


def _may_write(look: Glance) -> bool:
    if look.keyword in READING:
        return False
    return look.keyword not in {"with", "from", "map", "reduce"} or not WRITING_WORDS.isdisjoint(look.words)


def _may_change_namespace(look: Glance) -> bool:
    return "use" in look.words or (look.keyword == "set" and "catalog" in look.words)


_PLAIN_ARGUMENT = re.compile(
    r"""\bidentifier\s*\(\s*'[^'\\]*'\s*\)|\bimmediate\s+(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*(?=;|using\b|into\b|\Z)""",
    re.IGNORECASE | re.DOTALL,
)
"""IDENTIFIER('t') and EXECUTE IMMEDIATE 'text': what they name stands in the text after all."""


def _composed(look: Glance, text: str) -> bool:
    """A name, or a whole statement, may be put together when the text runs, so that it does not stand in it."""
    if "${" in text or "directory" in look.words:
        return True
    if look.words.isdisjoint({"identifier", "immediate"}):
        return False
    words = _PLAIN_ARGUMENT.sub(" ", text).lower()
    return "identifier" in words or "immediate" in words


def _is_global(name: Parts) -> bool:
    return len(name) > 1 and name[-2].lower() == GLOBAL_TEMPORARY


def _add_temporary(views: dict[str, frozenset[TableName]], name: str, reads: frozenset[TableName], end: End) -> None:
    if end is not End.FAILED:
        views[name] = reads if end is End.SUCCEEDED else reads | views.get(name, frozenset())


def _forget_namespace(session: Session, _: End) -> None:
    session.namespace = None
