"""Determines what the answer of a read depends on: if only on known versions of materialized views, it can be given
again."""

from __future__ import annotations

import contextlib

from gateway.errors import FreshgateError
from gateway.loops import BackgroundTasks
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.service.routing.facts import Facts
from gateway.service.routing.scope import ViewScope
from gateway.service.routing.ways import RepeatableRead
from sql.definition.repeatable import is_repeatable
from sql.names import TableName
from sql.statement import Forwarded
from sql.understood import Understood

QUERIES = frozenset({"select", "with"})
"""First words of statements whose answers are kept."""
CHARACTERS_MAX = 16_000
"""Longer texts are not looked at: a dashboard sends shorter ones."""


class KnownAnswers:
    """Decides from a statement's text, and from what its session may have made."""

    def __init__(self, catalog: Catalog, scope: ViewScope, fence: Fence, seconds: float, *, active: bool) -> None:
        """`seconds`: how stale this gateway's view of the catalog may be while another one publishes."""
        self._catalog = catalog
        self._scope = scope
        self._fence = fence
        self._seconds = seconds
        self._background = BackgroundTasks("asking whether another gateway has taken over")
        self.active = active

    def source(self, facts: Facts, views: frozenset[str]) -> RepeatableRead | str:
        """What the answer of a statement depends on, or why that is not known. `views`: those that it certainly reads,
        in their current versions; they are fresh enough."""
        if (reason := self._of_session(facts) or self._of_text(facts, views)) is not None:
            return reason
        if not self._fence.is_sure(self._seconds):
            # Spark would show what another gateway has published. This read asks Spark; the next ones need not.
            if not self._background.running:
                self._background.begin(self._ask())
            return "another gateway may have published a later version"
        entries = [self._catalog.entry(view) for view in sorted(views)]
        versions = ((entry.view.id, str(entry.view.name), entry.view.current.number) for entry in entries)
        return RepeatableRead(facts.known.text, facts.namespace, tuple(versions), facts.session.settings.changes)

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
            view = self._catalog.named(TableName.resolve(reference.parts, facts.namespace))
            if view is None or view.id not in views or reference.perhaps:
                return f"it also reads {'.'.join(reference.parts)}, not only materialized views"
        if not is_repeatable(known.lexed):
            return "it calls a function that may have another value next time, or samples"
        return None

    def _is_certain(self, view_id: str) -> bool:
        """Whether it is known which version the view shows."""
        entry = self._catalog.find(view_id)
        if entry is None or not entry.visible:
            return False
        return entry.view.complete and not (entry.doubtful or entry.damage)

    async def _ask(self) -> None:
        with contextlib.suppress(FreshgateError):
            await self._fence.check()


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
