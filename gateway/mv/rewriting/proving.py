"""Proves that a text over a view answers a query: by Spark's own plans of both, in the client's session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Plans, PlanUnavailable, SqlSession
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.permission import OpenReader
from gateway.mv.rewriting.readers_rights import RIGHTS_DIFFER, RIGHTS_REFUSED, ReadersRights
from gateway.mv.rewriting.refreshers_plans import RefreshersPlans, all_of
from sql.grammar import view_properties
from sql.mentioned import Mentioned
from sql.names import TableName
from sql.proof.checker import NotProved, can_be_stored, is_ordered, prove
from sql.rewriting.matching import Proposal
from sql.rewriting.shape import HOLE, Shape
from sql.table_keys import NOTHING_KNOWN, TableKeys


@dataclass(frozen=True, slots=True)
class Reader:
    """A session with the user, the settings and the current database of a client."""

    name: bytes
    """For `Plans.optimized`."""
    sql: SqlSession
    """Runs statements in it."""
    user: str
    twin: OpenReader
    """Opens another session of the user's."""


class Prover:
    """Proves in sessions of clients."""

    def __init__(
        self,
        plans: Plans,
        surroundings: Surroundings,
        refreshers: RefreshersPlans,
        rights: ReadersRights,
        below: Callable[[MaterializedView], Iterable[MaterializedView]],
    ) -> None:
        """`below`: the views below a view whose rows are shown by the rights of each reader."""
        self._plans = plans
        self._surroundings = surroundings
        self._refreshers = refreshers
        self._rights = rights
        self._below = below

    async def refutation(
        self,
        reader: Reader,
        shape: Shape,
        proposal: Proposal,
        views: Sequence[MaterializedView],
        keys: Mapping[TableName, TableKeys] = NOTHING_KNOWN,
    ) -> str | None:
        """Why it is not proved that the proposal answers all queries of the shape; None if it is. `keys`: what holds of
        the base tables' rows. Raises FreshgateError."""
        for view in views:
            # Plans do not show what readers of files do by the settings of the session.
            reason = shortfall(view) or await self._surroundings.difference(view, reader.sql)
            if reason is not None:
                return reason
        try:
            definitions = {view.name: view.definition.quoted for view in views}
            reason = await difference(self._plans, reader.name, shape, proposal, definitions, keys)
            return await self._stored_otherwise(reader, views) if reason is None else reason
        except PlanUnavailable as error:
            return str(error)

    async def _stored_otherwise(self, reader: Reader, views: Sequence[MaterializedView]) -> str | None:
        """Why a definition may have other rows for the reader than those that are stored, which the account that
        refreshes the view was shown; None if it has the same. Raises PlanUnavailable, and what Spark raises."""
        found = {each.id: each for view in views for each in (view, *self._below(view))}
        for each in found.values():
            if (refused := await self._rights.refusal(each, reader.user, reader.twin)) is not None:
                return f"{RIGHTS_REFUSED}: {refused}"
            refreshed = await self._refreshers.of(each)
            if refreshed.unlike:
                return refreshed.unlike
            read = await self._plans.optimized(reader.name, all_of(each.definition.quoted))
            if isinstance(await asyncio.to_thread(prove, read, refreshed.plan), NotProved):
                return RIGHTS_DIFFER
        return None

    def forget(self, named: Mentioned) -> None:
        """As in `RefreshersPlans`."""
        self._refreshers.forget(named)
        self._rights.forget(named)


async def difference(
    plans: Plans,
    session: bytes,
    shape: Shape,
    proposal: Proposal,
    definitions: Mapping[TableName, str],
    keys: Mapping[TableName, TableKeys] = NOTHING_KNOWN,
) -> str | None:
    """Why a proposal is not proved to have the answers of all queries of the shape; None if it has them.

    `definitions`: those of its views, and of those below, as relations, as SQL. `keys`: what holds of their base
    tables' rows. Raises PlanUnavailable. What the literals are must not matter, so the proof is made for those at hand,
    and once more for others.
    """
    others = [
        literal if number in proposal.pinned else changed
        for number, (literal, changed) in enumerate(zip(shape.literals, shape.changed(), strict=True))
    ]
    through = proposal.through
    if through is not None and (reason := await difference(plans, session, shape, through, definitions, keys)):
        return reason
    relations: list[str] = []
    for definition in (definitions[view] for view in proposal.views):
        plan = await plans.optimized(session, all_of(definition))
        if isinstance(stored := can_be_stored(plan), NotProved):
            return stored.reason
        relations.append(_unordered(definition) if is_ordered(plan) else definition)
    over = proposal.template.over(*relations)
    known = {table.quoted: its for table, its in keys.items()}
    for literals in dict.fromkeys((shape.literals, tuple(others))):
        asked = filled(shape, literals) if through is None else through.template.fill(literals)
        query = await plans.optimized(session, asked)
        rewritten = await plans.optimized(session, over.fill(literals))
        if isinstance(found := await asyncio.to_thread(prove, query, rewritten, known), NotProved):
            return found.reason
    return None


def _unordered(definition: str) -> str:
    """The definition's rows as they are read from storage, in any order."""
    return f"(SELECT /*+ REPARTITION(1) */ * FROM {definition})"


def shortfall(view: MaterializedView) -> str | None:
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
