"""Proves that a text over a view answers a query: by Spark's own plans of both, in the client's session."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.mv.ports import Plans, PlanUnavailable
from sql.proof.checker import NotProved, can_be_stored, prove
from sql.rewriting.matching import Proposal
from sql.rewriting.shape import HOLE, Shape


async def refutation(plans: Plans, session: bytes, shape: Shape, proposal: Proposal, definition: str) -> str | None:
    """Why it is not proved that the proposal answers all queries of the shape; None if it is.

    `definition`: the view's definition as a relation, as SQL. What the literals are must not matter, so the proof is
    made for those at hand, and once more for others.
    """
    others = [
        literal if number in proposal.pinned else changed
        for number, (literal, changed) in enumerate(zip(shape.literals, shape.changed(), strict=True))
    ]
    over = proposal.template.over(definition)
    try:
        stored = can_be_stored(await plans.optimized(session, f"SELECT * FROM {definition}"))
    except PlanUnavailable as error:
        return str(error)
    if isinstance(stored, NotProved):
        return stored.reason
    for literals in dict.fromkeys((shape.literals, tuple(others))):
        try:
            query = await plans.optimized(session, filled(shape, literals))
            rewritten = await plans.optimized(session, over.fill(literals))
        except PlanUnavailable as error:
            return str(error)
        if isinstance(found := prove(query, rewritten), NotProved):
            return found.reason
    return None


def filled(shape: Shape, literals: Sequence[str]) -> str:
    """A query of the shape, with these literals."""
    rest = iter(literals)
    return " ".join(next(rest) if piece[0] == HOLE else piece for piece in shape.pieces)
