"""Determines how each view answers a query: matches them, and has each match proved in the client's session.

Tests: `test_rewrites`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import PlanUnavailable
from gateway.mv.rewriting.candidates import Candidates, Participant
from gateway.mv.rewriting.proving import Prover, filled
from gateway.mv.rewriting.usage import Counts
from gateway.mv.rewriting.verdicts import Consideration, Considered, Grounds, ProvedAnswer, Refusal, Verdict
from gateway.mv.versions.measures import Measures
from gateway.service.clients.proof_sessions import ProofSession, ProofSessions
from gateway.service.clients.session import Session
from gateway.service.routing.scope import ViewScope
from sql.definition.bases import bases
from sql.mentioned import Mentioned
from sql.names import Namespace, TableName
from sql.rewriting.matching import Miss, Proposal, propose
from sql.rewriting.shape import Shape
from sql.table_keys import NOTHING_KNOWN, TableKeys
from sql.words import Words

log = logging.getLogger(__name__)

NO_KEYS_SEEN = "the keys that its joins need are not known to hold"
RELATIONS_MAX = 50
"""Of a query, as many are described. A text that is not understood may have more names."""


class Examiner:
    """Compares queries with the views that take part."""

    def __init__(
        self,
        catalog: Catalog,
        scope: ViewScope,
        candidates: Candidates,
        measures: Measures,
        prover: Prover,
        sessions: ProofSessions,
        counts: Counts,
    ) -> None:
        self._catalog = catalog
        self._scope = scope
        self._candidates = candidates
        self._measures = measures
        self._prover = prover
        self._sessions = sessions
        self._counts = counts

    async def note(self, session: Session) -> None:
        """As `ProofSessions.note`, before the examination may have to wait."""
        await self._sessions.note(session)

    def forget(self, named: Mentioned) -> None:
        """As `Prover.forget`."""
        self._prover.forget(named)

    async def examine(
        self, session: Session, namespace: Namespace, shape: Shape, words: Words, begun: Consideration
    ) -> Considered:
        """What each view is to the query. Raises FreshgateError."""
        try:
            return await self._examined(session, namespace, shape, words, begun)
        except FreshgateError as error:
            # The client may have closed its session meanwhile, which says nothing of the views.
            log.info("how views answer a query is determined in another session: %s", error)
            return await self._examined(session, namespace, shape, words, begun, apart=True)

    async def _examined(
        self,
        session: Session,
        namespace: Namespace,
        shape: Shape,
        words: Words,
        begun: Consideration,
        *,
        apart: bool = False,
    ) -> Considered:
        """The same. `apart`: without the client's session."""
        revision = self._catalog.revision
        grounds = await self._grounds(shape, namespace, begun)
        views = await self._candidates.fitting(words)
        columns = {table: schema.names for table, schema in grounds.schemas.items()}
        self._counts.considered += 1
        answers: list[ProvedAnswer] = []
        refusals: list[Refusal] = []
        async with self._sessions.of(session, namespace, apart=apart) as planning:
            for proposal in await asyncio.to_thread(propose, shape, namespace, views, columns.get):
                if isinstance(proposal, Miss):
                    refusals.append(Refusal(proposal.view, Verdict.REJECTED, proposal.reason))
                    continue
                view = self._catalog.named(proposal.view)
                if view is None:
                    continue
                self._counts.matched += 1
                keys = self._candidates.keys(view)
                reason = NO_KEYS_SEEN if proposal.by_keys else await self._refutation(planning, shape, proposal, view)
                keyed = None
                if reason is not None and keys.keys:
                    keyed = keys.version
                    reason = await self._refutation(planning, shape, proposal, view, keys.keys)
                if reason is not None:
                    refusals.append(Refusal(proposal.view, Verdict.NOT_PROVED, reason, proposal.template))
                    continue
                self._counts.proved += 1
                pinned = tuple((number, shape.literals[number]) for number in sorted(proposal.pinned))
                proved = Participant.of(view)
                answers.append(
                    ProvedAnswer(view.id, view.name, proposal.template, pinned, proved, proposal.adds_rest, keyed)
                )
        answers = await self._smallest_first(answers)
        return Considered(tuple(answers), tuple(refusals), time.monotonic(), grounds, revision, shape.key)

    async def _grounds(self, shape: Shape, namespace: Namespace, begun: Consideration) -> Grounds:
        """Raises FreshgateError."""
        named = await asyncio.to_thread(bases, filled(shape, shape.literals), namespace)
        relations = [name for name in named.relations if not name.path and not name.aspect][:RELATIONS_MAX]
        begun.sources = await self._scope.sources([*relations, *named.functions]) | frozenset(relations)
        participants = await self._candidates.participants(begun.sources)
        return Grounds(await self._candidates.schemas(relations), begun.sources, participants)

    async def _refutation(
        self,
        planning: ProofSession,
        shape: Shape,
        proposal: Proposal,
        view: MaterializedView,
        keys: Mapping[TableName, TableKeys] = NOTHING_KNOWN,
    ) -> str | None:
        """Raises FreshgateError."""
        try:
            reader = await planning.reader()
        except PlanUnavailable as error:
            return str(error)
        return await self._prover.refutation(reader, shape, proposal, view, keys)

    async def _smallest_first(self, answers: list[ProvedAnswer]) -> list[ProvedAnswer]:
        if len(answers) < 2:
            return answers
        entries = [entry for answer in answers if (entry := self._catalog.find(answer.view_id)) is not None]
        measured = await self._measures.of([entry.view for entry in entries])
        sizes = {view_id: sum(each.bytes for each in found.values()) for view_id, found in measured.items()}
        return sorted(answers, key=lambda answer: (answer.adds_rest, sizes.get(answer.view_id, 0)))
