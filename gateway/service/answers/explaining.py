"""EXPLAIN of CREATE and REFRESH MATERIALIZED VIEW: what they would do, without doing it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import Cause, MaterializedView
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.schemas import Schemas
from gateway.mv.ports import SqlSession
from gateway.mv.refresh.proposal import RefreshProposal
from gateway.mv.refresh.proposer import Proposer
from gateway.mv.rewriting.inheritance import Inheritance
from gateway.mv.statements.creation import Creation
from gateway.mv.statements.rights import Caller
from gateway.mv.versions.version_numbers import VersionNumbers
from gateway.service.answers import info
from gateway.service.answers.upkeep import check_method, manual
from gateway.service.operations.operation import Result
from sql.grammar import view_properties
from sql.names import TableName
from sql.statement import CreateClauses, CreateMaterializedView, RefreshMaterializedView
from sql.texts import create_text


class Explaining:
    """Explains statements. All methods raise what Spark raises."""

    def __init__(
        self,
        catalog: Catalog,
        inspector: Inspector,
        schemas: Schemas,
        proposer: Proposer,
        numbers: VersionNumbers,
        creation: Creation,
        inheritance: Inheritance,
    ) -> None:
        self._catalog = catalog
        self._inspector = inspector
        self._schemas = schemas
        self._proposer = proposer
        self._numbers = numbers
        self._creation = creation
        self._inheritance = inheritance

    async def refresh(self, statement: RefreshMaterializedView, view: MaterializedView) -> Result:
        check_method(statement, view)
        cause = replace(manual(statement, ""), not_before=time.monotonic())
        await self._inspector.check([view.id], cause.not_before)
        bases = [
            entry.view.name
            for base in sorted(view.views)
            if (entry := self._catalog.find(base)) and self._catalog.is_stale(base)
        ]
        async with self._proposer.session_for(view) as session:
            proposal = await self._proposer.propose(view, view, cause, self._numbers.expected(view), session)
            if proposal.plan is None and bases:
                proposal = await self._after_bases(view, cause, session)
            present = await self._proposer.present(view)
        changes = await self._schemas.changes(view)
        plan = await asyncio.to_thread(info.plan_lines, proposal, present)
        return info.explain_refresh(self._catalog, proposal.view, plan, map(str, bases), changes)

    async def _after_bases(self, view: MaterializedView, cause: Cause, session: SqlSession) -> RefreshProposal:
        """What a refresh would do once the stale views below are refreshed. Their changes are not known before."""
        whole = replace(cause, complete=True, partitions=())
        number = self._numbers.expected(view)
        proposal = await self._proposer.propose(view, view, whole, number, session)
        staleness = self._catalog.staleness(view.id)
        reason = staleness.reason if staleness else ""
        if view.followed is None:
            return replace(proposal, plan=proposal.plan and replace(proposal.plan, reason=reason))
        reason += "; only the partitions that its refresh changes are written"
        # It is not known yet which ones.
        return replace(proposal, plan=proposal.plan and replace(proposal.plan, reason=reason, written=frozenset()))

    async def create(self, statement: CreateMaterializedView, caller: Caller) -> Result:
        name = TableName.resolve(statement.name, caller.namespace)
        checked = replace(statement, if_not_exists=False)
        sources, plan = await self._creation.check(checked, name, caller)
        clauses, properties = statement.clauses, dict(statement.properties)
        reads = [
            *map(str, sorted(sources.tables)),
            *(str(self._catalog.entry(view).view.name) for view in sources.views),
        ]
        trigger = clauses.refreshing.trigger
        when_stale = view_properties.when_stale(properties, trigger)
        facts = {
            "reads": ", ".join(reads),
            "refresh": create_text.refresh_info(clauses, info.trigger_word(trigger, when_stale)),
            "partitions": _partitions_text(clauses),
            "when stale": when_stale.value,
            "grace period": f"{view_properties.grace_seconds(properties):g} seconds",
            "stored as": clauses.file_format or "parquet",
            **({"immutable": f"rows with {clauses.immutable}"} if clauses.immutable else {}),
            "built": "by the first refresh" if clauses.deferred else "at once",
        }
        old = self._catalog.named(name)
        if old is not None and not (clauses.deferred or statement.anew):
            view = replace(
                old, query=statement.query, namespace=caller.namespace, clauses=clauses, properties=properties
            )
            view = replace(view, tables=sources.tables, views=sources.views)
            facts["rows"] = await self._inheritance.foreseen(old, view)
        return info.explain_create(name, facts, plan)


def _partitions_text(clauses: CreateClauses) -> str:
    partitioning = clauses.partitioning
    if partitioning is None:
        return "none: a refresh recomputes everything"
    if partitioning.follows:
        return f"by {partitioning}: CREATE checks whose partitions they follow; a refresh writes changed ones"
    return f"by {partitioning}, following a base table's partitions if possible"
