"""Executes the statements that the gateway does not send to Spark."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.mv.refresh.progress import Report
from gateway.service.answers import healing
from gateway.service.answers.commands import Commands
from gateway.service.clients.session import Session
from gateway.service.operations.operation import NO_ROWS, Result
from gateway.service.routing import rewrite_explanation
from gateway.service.routing.invokers import Invokers
from gateway.service.routing.rewrites import Rewrites
from gateway.service.routing.version_reads import VersionReads
from gateway.service.routing.ways import ListDatabases, ListNames, ListSettings, Own
from gateway.wire.rowset import ResultColumn
from sql.statement import BeginTransaction, EndTransaction, ExplainRewrite, ShowPartitions


@dataclass(frozen=True, slots=True)
class OwnStatements:
    """Everything that `ways.Own` may be."""

    commands: Commands
    rewrites: Rewrites
    version_reads: VersionReads
    invokers: Invokers
    foresee: rewrite_explanation.Foresee | None = None
    """None: EXPLAIN REWRITE says nothing of rows in memory."""

    async def execute(self, own: Own, session: Session, report: Report) -> Result:
        """`report` receives lines for the operation's log. Raises FreshgateError."""
        match own.statement:
            case BeginTransaction() | EndTransaction() as statement:
                if session.continuity.loose and session.continuity.moves:
                    await session.mark_transaction(isinstance(statement, BeginTransaction) or statement.chain)
                return self._transaction(statement, session, report)
            case ExplainRewrite() as statement:
                return await rewrite_explanation.explain(self.rewrites, self.foresee, statement, session)
            case ListDatabases(text):
                return await self.commands.databases(text, session)
            case ListSettings(text, rules):
                answer = await (await session.sql()).run(text)
                rows = rules.shown(answer.rows)
                return Result(tuple(ResultColumn(name) for name in answer.columns), rows)
            case ListNames(text):
                return await healing.names_first(text, session)
            case ShowPartitions(name) as statement:
                await self.invokers.check_named(session, name, "Its partitions are named by what its rows contain")
                return await self.commands.run(statement, session, report)
            case statement:
                return await self.commands.run(statement, session, report)

    def _transaction(self, statement: BeginTransaction | EndTransaction, session: Session, report: Report) -> Result:
        transaction = session.transaction
        if isinstance(statement, EndTransaction):
            if not transaction.open:
                report("Warning: there is no transaction in progress")
            elif not statement.commit:
                report("Warning: writes are not undone; Spark has no transactions")
            transaction.end()
            if not statement.chain:
                return NO_ROWS
        elif transaction.open:
            report("Warning: there is already a transaction in progress")
            return NO_ROWS
        everything = isinstance(statement, BeginTransaction) and statement.snapshot
        self.version_reads.begin(transaction, everything=everything)
        report("Reads of a materialized view see one version of it until COMMIT. Writes take effect at once")
        return NO_ROWS
