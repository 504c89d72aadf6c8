"""Decides whether the answer to a query may be known already, and what it depends on.

It is asked after the decision about freshness, in the place of sending the query to Spark: the views that the query
reads are as a query that goes to Spark would find them.
"""

from __future__ import annotations

from gateway.config import ResultCache
from gateway.mv.catalog.index import Catalog
from gateway.mv.observation.relations import Relations
from gateway.service.clients.session import Session
from gateway.service.clients.temporary_views import Reachable
from gateway.service.results.current import Current
from gateway.service.results.key import Key
from gateway.service.routing.outcomes import Route
from gateway.service.routing.stale_reads import Place, Read
from gateway.wire.rowset import COLUMNAR_PROTOCOL
from sql.definition.repeatable import is_repeatable
from sql.names import TableName

FIRST_WORDS = frozenset({"select", "with", "from", "table"})
"""First words of queries."""
CHARACTERS_MAX = 16_000
"""Longer texts are not looked at: a dashboard sends shorter ones."""


class KnownAnswers:
    """Makes the keys of answers."""

    def __init__(self, catalog: Catalog, relations: Relations, current: Current, settings: ResultCache) -> None:
        self._catalog = catalog
        self._relations = relations
        self._current = current
        self._enabled = settings.bytes > 0
        self._shared = settings.shared

    def key(self, session: Session, route: Route, place: Place, read: Read) -> Key | None:
        """The key of the answer to a query that is about to be sent as it stands there; None if its answer must come
        from Spark."""
        if not self._enabled or route.text is not None or not session.settings.remembers or session.settings.opaque:
            return None
        if not self._is_certain(session) or not self._is_query(place) or not self._reads_only(place, read):
            return None
        words = place.known.look.words
        temporary = Reachable(session.temporary, session.shared)
        if temporary.mentioned(words) or not is_repeatable(place.known.lexed):
            return None
        if any(call[-1].lower() in self._relations.view_words for call in place.statement.calls):
            return None  # A function that a user has made may hide one of Spark's.
        if (views := self._current.seen(read.direct)) is None:
            return None
        user = "" if self._shared else session.user
        return Key(place.known.text, user, session.protocol, session.settings.id, place.namespace, views)

    def _is_certain(self, session: Session) -> bool:
        """Whether all that names and settings mean in the session is known."""
        known = not session.unseen and not session.namespace_uncertain and not session.temporary.nameless
        return known and session.protocol >= COLUMNAR_PROTOCOL and not session.collects_in_parts

    def _is_query(self, place: Place) -> bool:
        statement, known = place.statement, place.known
        if known.look.keyword not in FIRST_WORDS or len(known.text) > CHARACTERS_MAX:
            return False
        writes = statement.writes or statement.writes_files or statement.creates_view or statement.changes_namespace
        return statement.exact and statement.touches_rows and not writes

    def _reads_only(self, place: Place, read: Read) -> bool:
        """Whether the query reads these materialized views by their names, and nothing else."""
        if not read.direct or read.below or read.perhaps:
            return False
        for reference in place.statement.reads:
            view = self._catalog.named(TableName.resolve(reference.parts, place.namespace))
            if reference.perhaps or view is None or view.id not in read.direct:
                return False
        return True
