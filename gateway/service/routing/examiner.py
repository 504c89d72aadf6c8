"""Determines how each view answers a query: matches them, and has each match proved in the client's session.

Tests: `test_rewrites`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from gateway.errors import FreshgateError
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import PlanUnavailable
from gateway.mv.rewriting.candidates import Candidates, Participant
from gateway.mv.rewriting.proving import Prover, filled
from gateway.mv.rewriting.usage import Counts
from gateway.mv.rewriting.verdicts import (
    AnsweringView,
    Consideration,
    Considered,
    Grounds,
    ProvedAnswer,
    Refusal,
    Verdict,
)
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
                    refusals.append(Refusal((proposal.view,), Verdict.REJECTED, proposal.reason))
                    continue
                names = (*proposal.views, *proposal.below)
                needed = [view for name in names if (view := self._catalog.named(name)) is not None]
                if len(needed) < len(names):
                    continue
                self._counts.matched += 1
                found = await self._proved(planning, shape, proposal, needed)
                if isinstance(found, ProvedAnswer):
                    self._counts.proved += 1
                    answers.append(found)
                else:
                    refusals.append(Refusal(proposal.views, Verdict.NOT_PROVED, found, proposal.template))
        answers = await self._smallest_first(answers)
        return Considered(tuple(answers), tuple(refusals), time.monotonic(), grounds, revision, shape.key)

    async def _grounds(self, shape: Shape, namespace: Namespace, begun: Consideration) -> Grounds:
        """Raises FreshgateError."""
        named = await asyncio.to_thread(bases, filled(shape, shape.literals), namespace)
        relations = [name for name in named.relations if not name.path and not name.aspect][:RELATIONS_MAX]
        begun.sources = await self._scope.sources([*relations, *named.functions]) | frozenset(relations)
        participants = await self._candidates.participants(begun.sources)
        return Grounds(await self._candidates.schemas(relations), begun.sources, participants)

    async def _proved(
        self, planning: ProofSession, shape: Shape, proposal: Proposal, views: Sequence[MaterializedView]
    ) -> ProvedAnswer | str:
        """The answer, or why it is not proved. `views`: those of the proposal, and those below. Raises
        FreshgateError."""
        known = [self._candidates.keys(view) for view in views]
        keys = {table: its for each in known for table, its in each.keys.items()}
        reason = NO_KEYS_SEEN if proposal.by_keys else await self._refutation(planning, shape, proposal, views)
        needs_keys = reason is not None and bool(keys)
        if needs_keys:
            reason = await self._refutation(planning, shape, proposal, views, keys)
        if reason is not None:
            return reason
        parts = tuple(
            AnsweringView(view.id, view.name, Participant.of(view), its.version if needs_keys and its.keys else None)
            for view, its in zip(views, known, strict=True)
        )
        pinned = tuple((number, shape.literals[number]) for number in sorted(proposal.pinned))
        read = len(proposal.views)
        return ProvedAnswer(parts[:read], proposal.template, pinned, proposal.adds_rest, proposal.tables, parts[read:])

    async def _refutation(
        self,
        planning: ProofSession,
        shape: Shape,
        proposal: Proposal,
        views: Sequence[MaterializedView],
        keys: Mapping[TableName, TableKeys] = NOTHING_KNOWN,
    ) -> str | None:
        """Raises FreshgateError."""
        try:
            reader = await planning.reader()
        except PlanUnavailable as error:
            return str(error)
        return await self._prover.refutation(reader, shape, proposal, views, keys)

    async def _smallest_first(self, answers: list[ProvedAnswer]) -> list[ProvedAnswer]:
        """Sorts by the bytes of the views. An answer from more views goes before those from some of these, because it
        reads fewer base tables."""
        if len(answers) < 2:
            return answers
        ids = dict.fromkeys(each for answer in answers for each in answer.ids)
        entries = [entry for each in ids if (entry := self._catalog.find(each)) is not None]
        measured = await self._measures.of([entry.view for entry in entries])
        sizes = {view_id: sum(each.bytes for each in found.values()) for view_id, found in measured.items()}

        def rank(answer: ProvedAnswer) -> tuple[bool, bool, int]:
            replaced = any(other.replaces(answer) for other in answers)
            return answer.adds_rest, replaced, sum(sizes.get(each, 0) for each in answer.ids)

        return sorted(answers, key=rank)
