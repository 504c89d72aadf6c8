"""Determines what the answer of a read depends on: if only on known versions of materialized views, and on base tables
whose rows are in memory in a known state, it can be given again.

Tests: `test_known_sources`, and `test_memory_answers` with base tables.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

from gateway.errors import FreshgateError
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.service.routing.facts import Facts
from gateway.service.routing.scope import ViewScope
from gateway.service.routing.ways import RepeatableRead, UnknownTables
from sql.definition.bases import bases
from sql.definition.repeatable import is_repeatable
from sql.names import TableName
from sql.statement import Forwarded
from sql.understood import Understood

QUERIES = frozenset({"select", "with"})
"""First words of statements whose answers are kept."""
CHARACTERS_MAX = 16_000
"""Longer texts are not looked at: a dashboard sends shorter ones."""


NO_TABLES: frozenset[TableName] = frozenset()


class HeldTables(Protocol):
    """The base tables in memory: `mv.memory.base_tables`."""

    def holds(self, tables: Set[TableName]) -> bool:
        """Whether rows of all of them are in memory, of whatever state."""
        ...

    def version(self, table: TableName) -> tuple[str, str, int] | None:
        """The id, the name and the number of its rows in memory, if the table has these rows, as far as was observed
        recently enough."""
        ...

    def why(self, table: TableName) -> str:
        """Why its rows are not in memory."""
        ...

    def due(self, tables: frozenset[TableName]) -> bool:
        """Whether `look` would have to ask Spark."""
        ...

    async def look(self, tables: frozenset[TableName]) -> None:
        """Observes those whose last observation is too old."""
        ...


class KnownAnswers:
    """Decides from a statement's text, and from what its session may have made."""

    def __init__(self, catalog: Catalog, scope: ViewScope, fence: Fence, seconds: float, *, active: bool) -> None:
        """`seconds`: how stale this gateway's view of the catalog may be while another one publishes."""
        self._catalog = catalog
        self._scope = scope
        self._fence = fence
        self._seconds = seconds
        self.active = active
        self.tables: HeldTables | None = None
        """None: no base table is held in memory."""

    def source(self, facts: Facts, views: frozenset[str]) -> RepeatableRead | str:
        """What the answer of a statement depends on, or why that is not known. `views`: those that it certainly reads,
        in their current versions; they are fresh enough."""
        if (reason := self._of_session(facts) or self._of_text(facts, views)) is not None:
            return reason
        entries = [self._catalog.entry(view) for view in sorted(views)]
        versions = tuple((entry.view.id, str(entry.view.name), entry.view.current.number) for entry in entries)
        for name in sorted(others := self._others(facts), key=str):
            reason = f"it also reads {name}, not only materialized views"
            if self.tables is None:
                return reason
            if (version := self.tables.version(name)) is None:
                return UnknownTables.of(f"{reason}: {self.tables.why(name)}", others, versions[: len(entries)])
            versions = (*versions, version)
        return RepeatableRead(facts.known.text, facts.namespace, versions, facts.session.settings.changes, bool(others))

    def to_look_at(self, facts: Facts, views: frozenset[str]) -> frozenset[TableName]:
        """The base tables in memory that must be observed before `source` is asked."""
        if self.tables is None or not views or not (others := self._others(facts)) or not self.tables.holds(others):
            return NO_TABLES
        known = self._of_session(facts) is None and self._of_text(facts, views) is None
        return others if known and self.tables.due(others) else NO_TABLES

    def _others(self, facts: Facts) -> frozenset[TableName]:
        """What a text names besides materialized views."""
        names = (TableName.resolve(each.parts, facts.namespace) for each in facts.statement.reads)
        return frozenset(name for name in names if self._catalog.named(name) is None)

    def _of_session(self, facts: Facts) -> str | None:
        """What the session may have changed."""
        session, settings = facts.session, facts.session.settings
        if not self.active or not (settings.keeps_results or settings.from_memory):
            return "the gateway, or the session by SET, does without answers from memory"
        if settings.opaque:
            return "the session has run statements after which its settings or variables are unknown"
        if session.pending or session.namespace_doubtful:
            return "a statement of the session that may change what names mean has not ended"
        if self._scope.temporary(session).mentioned(facts.look.words):
            return "it mentions a temporary view or function of the session"
        if session.namespace != facts.namespace:
            # It has changed while the read waited for a refresh: Spark will look for the names elsewhere.
            return "the current database has changed"
        return None

    def _of_text(self, facts: Facts, views: frozenset[str]) -> str | None:
        """What else than these views the text may read."""
        known, statement = facts.known, facts.statement
        if not _is_query(known, statement):
            return f"it is not a single SELECT or WITH of at most {CHARACTERS_MAX:,} characters"
        if not views or not all(map(self._is_certain, views)):
            return "it is not certain which rows the view shows"
        if self._scope.may_call_others(statement):
            return "it calls what may be a function that a user has made"
        for reference in statement.reads:
            view = self._catalog.named(name := TableName.resolve(reference.parts, facts.namespace))
            if reference.perhaps or (view is not None and view.id not in views):
                return f"it also reads {'.'.join(reference.parts)}, not only materialized views"
            if view is None and (name.path or self._is_of_gateway(name)):
                return f"it also reads {name}, which is not a base table"
        if self._selects(facts):
            return "it reads a version of a table, or a table with options"
        if not is_repeatable(known.lexed):
            return "it calls a function that may have another value next time, or samples"
        return None

    def _is_of_gateway(self, name: TableName) -> bool:
        """Whether the name may be that of a table which the gateway makes, or shows."""
        return name.database == self._catalog.storage_database or name in self._catalog.damaged

    def _selects(self, facts: Facts) -> bool:
        """Whether a clause after a table's name chooses what is read of it."""
        if not self._others(facts):
            return False
        return any(each.aspect for each in bases(facts.known.text, facts.namespace).relations)

    def _is_certain(self, view_id: str) -> bool:
        """Whether it is known which version the view shows."""
        entry = self._catalog.find(view_id)
        if entry is None or not entry.visible:
            return False
        return entry.view.complete and not (entry.doubtful or entry.damage)

    async def hold(self) -> bool:
        """Whether the versions that `source` knows are the current ones: Spark would show what another gateway has
        published. Asks the metastore if that was not known lately; all who wait share one question."""
        if self._fence.is_sure(self._seconds):
            return True
        try:
            await self._fence.sure()
        except FreshgateError:
            return False
        return True


def _is_query(known: Understood, statement: Forwarded) -> bool:
    """Whether it is a single query, which reads what its text names and changes nothing."""
    return (
        statement.exact
        and known.look.keyword in QUERIES
        and len(known.text) <= CHARACTERS_MAX
        and not (statement.writes or statement.drops or statement.everything)
        and statement.creates_view is None
        and not known.composes
    )
