"""Proves that a text over a view answers a query: by Spark's own plans of both, in the client's session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Plans, PlanUnavailable, SqlSession
from gateway.mv.refresh.surroundings import Surroundings
from sql.grammar import view_properties
from sql.proof.checker import NotProved, can_be_stored, prove
from sql.rewriting.matching import Proposal
from sql.rewriting.shape import HOLE, Shape


class Prover:
    """Proves in sessions of clients."""

    def __init__(self, plans: Plans, surroundings: Surroundings) -> None:
        self._plans = plans
        self._surroundings = surroundings

    async def refutation(
        self, session: bytes, sql: SqlSession, shape: Shape, proposal: Proposal, view: MaterializedView
    ) -> str | None:
        """Why it is not proved that the proposal answers all queries of the shape; None if it is.

        `session`: the GUID of the client's session at Spark. `sql`: runs statements in it. Raises FreshgateError.
        """
        if (reason := _shortfall(view)) is not None:
            return reason
        if (reason := await self._surroundings.difference(view, sql)) is not None:
            # Plans do not show what readers of files do by the settings of the session.
            return reason
        try:
            return await difference(self._plans, session, shape, proposal, view.definition.quoted)
        except PlanUnavailable as error:
            return str(error)


async def difference(plans: Plans, session: bytes, shape: Shape, proposal: Proposal, definition: str) -> str | None:
    """Why a proposal is not proved to have the answers of all queries of the shape; None if it has them.

    `definition`: the view's definition as a relation, as SQL. Raises PlanUnavailable. What the literals are must not
    matter, so the proof is made for those at hand, and once more for others.
    """
    others = [
        literal if number in proposal.pinned else changed
        for number, (literal, changed) in enumerate(zip(shape.literals, shape.changed(), strict=True))
    ]
    over = proposal.template.over(definition)
    stored = can_be_stored(await plans.optimized(session, f"SELECT * FROM {definition}"))
    if isinstance(stored, NotProved):
        return stored.reason
    for literals in dict.fromkeys((shape.literals, tuple(others))):
        query = await plans.optimized(session, filled(shape, literals))
        rewritten = await plans.optimized(session, over.fill(literals))
        if isinstance(found := await asyncio.to_thread(prove, query, rewritten), NotProved):
            return found.reason
    return None


def _shortfall(view: MaterializedView) -> str | None:
    """Why even a fresh view may have other rows than its definition; None if it has the same."""
    if view_properties.partition_window(view.properties) is not None:
        return "the view holds only its newest partitions (partition_sync_limit)"
    if excluded := sorted(filter(view.excludes, {*view.tables, *view.view_names.values()})):
        return f"changes of {excluded[0]} do not make the view stale (excluded_trigger_tables)"
    return None


def filled(shape: Shape, literals: Sequence[str]) -> str:
    """A query of the shape, with these literals."""
    rest = iter(literals)
    return " ".join(next(rest) if piece[0] == HOLE else piece for piece in shape.pieces)
