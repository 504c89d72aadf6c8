"""Finds the names in a statement that was forwarded without being read."""

from __future__ import annotations

from gateway.service.clients.audit import Line, Unread, listed
from sql.grammar.cursor import SyntaxProblem
from sql.names import Parts, TableName
from sql.statement import (
    BeginTransaction,
    Command,
    CreateMaterializedView,
    EndTransaction,
    Explain,
    ExplainRewrite,
    Forwarded,
    RefreshMaterializedViews,
    ShowGateways,
    ShowMaterializedViews,
    SwapMaterializedViews,
)
from sql.understood import TooMuch, Understood


def names(unread: Unread) -> Line:
    """The lists `views` (of the gateway's own commands), `reads` and `writes` of a statement's audit line; empty if the
    text is not understood. Names are qualified as far as the statement's current database is known."""
    try:
        statement = unread.known.statement
        if isinstance(statement, Forwarded):
            return _forwarded(unread, statement)
        return _command(unread, statement)
    except (SyntaxProblem, RecursionError, TooMuch):
        return {}


def _forwarded(unread: Unread, statement: Forwarded) -> Line:
    if not statement.exact:
        return {}
    reads = [reference.parts for reference in statement.reads]
    writes = () if statement.drops_database else statement.writes
    return {"reads": _listed(unread, reads), "writes": _listed(unread, writes)}


def _command(unread: Unread, command: Command) -> Line:
    if isinstance(command, ShowMaterializedViews | ShowGateways | BeginTransaction | EndTransaction):
        return {}
    if isinstance(command, ExplainRewrite):
        query = Understood(command.query).statement
        return _forwarded(unread, query) if isinstance(query, Forwarded) else {}
    if isinstance(command, RefreshMaterializedViews | SwapMaterializedViews):
        return {"views": _listed(unread, command.names)}
    of = command.statement if isinstance(command, Explain) else command
    line: Line = {"views": _listed(unread, [of.name])}
    if isinstance(of, CreateMaterializedView):
        definition = Understood(of.query).statement
        if isinstance(definition, Forwarded):
            line |= _forwarded(unread, definition)
    return line


def _listed(unread: Unread, mentioned: tuple[Parts, ...] | list[Parts]) -> list[str]:
    namespace = unread.namespace
    if namespace is None:
        return listed({".".join(parts).lower() for parts in mentioned})
    return listed({str(TableName.resolve(parts, namespace)) for parts in mentioned})
