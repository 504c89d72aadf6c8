"""Checks some of the answers from views: the client's own text and the one that ran are compared in the background.

A proof rules out other rows, so a difference is a bug, or the stored rows were changed. Both texts run in the
client's session, as its user, one comparison at a time. Only what is certain counts: if the base tables or the session
may have changed meanwhile, nothing is concluded.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.errors import FreshgateError
from gateway.loops import BackgroundTasks
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import Freshness
from gateway.mv.observation.inspection import Inspector
from gateway.mv.ports import PlanUnavailable, SqlSession
from gateway.mv.rewriting.quarantine import Quarantine
from gateway.mv.rewriting.usage import Counts
from gateway.mv.rewriting.verdicts import AnsweringView
from gateway.service.clients.proof_sessions import ProofSessions
from gateway.service.clients.session import Session
from sql.names import Namespace, TableName
from sql.rewriting import comparison
from sql.texts import maintenance

log = logging.getLogger(__name__)

COMPARED_SECONDS = 300.0
"""A comparison that takes longer is given up."""
MARK = "/* freshgate: comparison */ "
"""Begins the statements, for whoever looks at Spark's."""
State = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Answered:
    """A query that was answered from views."""

    session: Session
    namespace: Namespace
    """Where its names were looked for."""
    views: tuple[AnsweringView, ...]
    query: str
    """The client's text."""
    rewritten: str
    unchanged: Callable[[], bool]
    """Whether names and settings still mean the same in the session."""

    @property
    def named(self) -> str:
        return ", ".join(str(view.name) for view in self.views)


Tell = Callable[[Session, Sequence[TableName], str, str, str], None]
"""Receives a difference: the session, the views, what differs, the client's text and the one that ran."""


class Canary:
    """Compares one of `every` answers; none if that is 0."""

    def __init__(
        self,
        catalog: Catalog,
        inspector: Inspector,
        quarantine: Quarantine,
        counts: Counts,
        every: int,
        tell: Tell,
        sessions: ProofSessions,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._catalog = catalog
        self._inspector = inspector
        self._quarantine = quarantine
        self._counts = counts
        self._every = every
        self._tell = tell
        self._sessions = sessions
        self._chance = chance
        self._comparing: asyncio.Task[None] | None = None
        self._background = BackgroundTasks("comparing an answer from a view with its base tables")

    def consider(self, answered: Answered) -> None:
        """Compares the answer if its turn has come. By chance, because dashboards repeat their queries in turn."""
        busy = self._comparing is not None and not self._comparing.done()
        if not self._every or busy or self._chance() * self._every >= 1:
            return
        self._comparing = self._background.begin(self._compare(answered))

    async def _compare(self, answered: Answered) -> None:
        query, rewritten = comparison.determined(answered.query), comparison.determined(answered.rewritten)
        if query is None or rewritten is None:
            return
        await self._sessions.note(answered.session)
        try:
            async with asyncio.timeout(COMPARED_SECONDS):
                found = await self._found(answered, query, rewritten)
        except TimeoutError:
            log.info("a comparison of %s with its base tables took too long", answered.named)
            return
        except (FreshgateError, PlanUnavailable) as error:
            log.info("%s was not compared with its base tables: %s", answered.named, error)
            return
        if found is not None:
            self._counts.answers_differed += 1
            for view in answered.views:
                self._quarantine.add(view.id, f"the view gave other rows than its base tables: {found}")
            log.error("%s gave other rows than its base tables: %s. %s", answered.named, found, _ADVICE)
            names = [view.name for view in answered.views]
            self._tell(answered.session, names, found, answered.query, answered.rewritten)

    async def _found(self, answered: Answered, query: str, rewritten: str) -> str | None:
        """What differs. Raises as `_difference` does."""
        try:
            return await self._difference(answered, query, rewritten, apart=False)
        except FreshgateError as error:
            # The client may have closed its session meanwhile.
            log.info("%s is compared with its base tables in another session: %s", answered.named, error)
            return await self._difference(answered, query, rewritten, apart=True)

    async def _difference(self, answered: Answered, query: str, rewritten: str, *, apart: bool) -> str | None:
        """Raises FreshgateError if the texts fail, and PlanUnavailable if no session is like the client's."""
        before = self._state(answered)
        if before is None:
            return None
        async with self._sessions.spare(answered.session, answered.namespace, apart=apart) as sql:
            found = await _difference(sql, query, rewritten)
            if found is not None:
                # The session may have an old listing of the tables' files, in which the client's own text misses rows.
                for table in sorted(self._tables(answered)):
                    await sql.run(maintenance.refresh_listing(table))
                found = await _difference(sql, query, rewritten)
        await self._inspector.check([view.id for view in answered.views], not_before=time.monotonic())
        if self._state(answered) != before:
            return None
        self._counts.answers_compared += 1
        return found

    def _state(self, answered: Answered) -> State | None:
        """The versions of the views and of those below them, and what was written to their base tables. None if one is
        not fresh, a write has not ended, or the session has changed: nothing can be concluded then."""
        ids = [view.id for view in answered.views]
        if not answered.unchanged() or any(self._catalog.freshness(each) is not Freshness.FRESH for each in ids):
            return None
        entries = self._entries(answered)
        if any(entry.ledger.open for entry in entries) or any(self._catalog.current(each) < 0 for each in ids):
            return None
        return {entry.view.id: (entry.view.current.number, entry.ledger.events) for entry in entries}

    def _entries(self, answered: Answered) -> list[Entry]:
        ids = dict.fromkeys(each for view in answered.views for each in self._catalog.reads(view.id))
        return [entry for each in ids if (entry := self._catalog.find(each)) is not None]

    def _tables(self, answered: Answered) -> set[TableName]:
        return {table for entry in self._entries(answered) for table in entry.view.tables if not table.aspect}


_ADVICE = (
    "It answers no queries any more that do not name it. Please report this. To use it again, refresh it and run ALTER "
    "MATERIALIZED VIEW ... ENABLE QUERY REWRITE."
)


async def _difference(sql: SqlSession, query: str, rewritten: str) -> str | None:
    columns = [await _columns(sql, each) for each in (query, rewritten)]
    if columns[0] != columns[1]:
        return "other names or types of columns"
    types = [kind for _, kind in columns[0]]
    rows = [(await sql.run(MARK + comparison.summary(each, types))).rows[0] for each in (rewritten, query)]
    return comparison.difference(rows[1], rows[0], types)


async def _columns(sql: SqlSession, query: str) -> list[tuple[str, str]]:
    return [(str(name), str(kind)) for name, kind, *_ in (await sql.run(comparison.describe(query))).rows]
