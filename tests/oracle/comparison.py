"""Compares what Spark's parser finds in a text with what the gateway finds: the gateway may miss nothing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from oracle.plans import Note, Plan, built_in, value_of

from gateway.service.clients.session import Session
from gateway.service.routing import router
from gateway.service.routing.first_words import may_write_after_all
from gateway.service.routing.written_out import UNDEFINED, substituted
from sql.grammar.cursor import SyntaxProblem
from sql.lexed import Lexed
from sql.names import Parts
from sql.reading import hidden
from sql.statement import Forwarded, Glance, Statement
from sql.understood import Understood

_NAMES = frozenset({"UnresolvedIdentifier", "UnresolvedTable", "UnresolvedView", "UnresolvedTableOrView"})
_WRITING = frozenset(
    [
        *("AddColumns", "AddConstraint", "AddPartitions", "AlterColumns", "AlterTableClusterBy", "AlterTableCollation"),
        *(
            "AlterTableChangeColumnCommand",
            "AlterViewAs",
            "AlterViewSchemaBinding",
            "CreateTable",
            "CreateTableAsSelect",
        ),
        *("CreateTableLikeCommand", "CreateView", "DropColumns"),
        *("DropConstraint", "DropPartitions", "DropTable", "DropView", "LoadData", "RecoverPartitions", "RenameColumn"),
        *("RenamePartitions", "RenameTable", "RepairTable", "ReplaceColumns", "ReplaceTable", "ReplaceTableAsSelect"),
        *(
            "SetTableLocation",
            "SetTableProperties",
            "SetTableSerDeProperties",
            "SetViewProperties",
            "TruncatePartition",
        ),
        *("TruncateTable", "UnsetTableProperties", "UnsetViewProperties"),
    ]
)
"""Commands that may change the named table or view."""
_NOT_WRITING = frozenset(
    [
        *("AnalyzeColumn", "AnalyzeTable", "AnalyzeTables", "CacheTable", "Call", "CommentOnNamespace"),
        *("CommentOnTable", "CompoundBody", "CreateFunction", "CreateFunctionCommand", "CreateNamespace"),
        *("CreateSQLFunctionCommand", "CreateUserDefinedFunction", "CreateVariable", "DeleteFromTable"),
        *("DescribeColumn", "DescribeFunction", "DescribeNamespace", "DescribeQueryCommand", "DescribeRelation"),
        *("DescribeProcedure", "DescribeTablePartition", "DropFunction", "DropFunctionCommand", "DropNamespace"),
        *("DropVariable", "ExplainCommand", "InsertIntoDir", "InsertIntoStatement", "MergeIntoTable"),
        *("OverwriteByExpression", "RefreshFunction", "RefreshTable", "ResetCommand", "SetCatalogAndNamespace"),
        *("SetCatalogCommand", "SetCommand", "SetNamespaceCollation", "SetNamespaceCommand", "SetNamespaceLocation"),
        *("SetNamespaceProperties", "SetVariable", "ShowColumns", "ShowCreateTable", "ShowFunctions"),
        *("ShowNamespaces", "ShowPartitions", "ShowProcedures", "ShowTableExtended", "ShowTablePartition"),
        *("ShowTableProperties", "ShowTables", "ShowViews", "UncacheTable", "UnsetNamespaceProperties", "UpdateTable"),
        *("UseCommand", "AddArchivesCommand", "AddFilesCommand", "AddJarsCommand", "ClearCacheCommand"),
        *("ListArchivesCommand", "ListFilesCommand", "ListJarsCommand", "RefreshResource", "ShowCatalogsCommand"),
        *("ShowCurrentNamespaceCommand", "DescribeDatabaseCommand", "InsertIntoStatement", "ShowCollationsCommand"),
        *("CacheTableAsSelect", "CreateTempViewUsing", "CreateViewCommand", "CreateMaterializedViewAsSelect"),
        *("ShowTablesCommand", "CreateIndex", "DropIndex", "SetVariableCommand", "OverwritePartitionsDynamic"),
    ]
)
_NAMESPACES = frozenset({"SetCatalogAndNamespace", "SetCatalogCommand", "SetNamespaceCommand"})
_LOOKING = ("Explain", "Describe", "Show", "Uncache", "Refresh", "Comment", "refused")
"""Commands that only inspect what they name; "refused": a query where Spark accepts none."""
_UNRUN = (*_LOOKING, "nothing")
"""These, and queries whose result is always empty."""
_NO_TABLE = frozenset(
    [
        *("CreateNamespace", "SetNamespaceProperties", "SetNamespaceLocation", "UnsetNamespaceProperties"),
        *(
            "CreateFunction",
            "CreateUserDefinedFunction",
            "DropFunction",
            "CreateVariable",
            "DropVariable",
            "SetVariable",
        ),
        *_NAMESPACES,
    ]
)
"""Commands that name something other than a table."""
_VIEWS = frozenset({"AlterViewAs", "AlterViewSchemaBinding", "DropView", "SetViewProperties", "UnsetViewProperties"})


@dataclass(frozen=True)
class SparkReading:
    """What Spark finds in a text."""

    plan: Plan

    def _of(self, *kinds: str) -> Iterator[Note]:
        return (note for note in self.plan.notes if note.kind in kinds)

    @cached_property
    def commands(self) -> frozenset[str]:
        return frozenset(note.owner for note in self._of("command") if not note.owner.startswith(_UNRUN))

    @cached_property
    def named(self) -> frozenset[Parts]:
        """All names, whether read, written or neither."""
        return frozenset(fold(note.parts) for note in self.plan.notes if note.parts)

    @cached_property
    def reads(self) -> frozenset[Parts]:
        """The relations whose rows it reads."""
        return self._read_by(_UNRUN) | {fold(note.parts) for note in self._of(*_NAMES) if note.owner == "AnalyzeTable"}

    @cached_property
    def queried(self) -> frozenset[Parts]:
        """The relations that it reads, including those in queries that a constant condition makes empty: the gateway
        must know these names, too."""
        return self.reads | self._read_by(_LOOKING)

    def _read_by(self, others: tuple[str, ...]) -> frozenset[Parts]:
        return frozenset(
            fold(note.parts)
            for note in self._of("UnresolvedRelation")
            if note.owner != "target" and not note.owner.startswith(others)
        )

    @cached_property
    def writes(self) -> frozenset[Parts]:
        found = {fold(note.parts) for note in self._of("UnresolvedRelation") if note.owner == "target"}
        found |= {fold(note.parts) for note in self._of(*_NAMES) if note.owner in _WRITING}
        like = [note for note in self._of("TableIdentifier") if note.owner in _WRITING]
        source = {id(note) for before, note in itertools.pairwise(like) if _is_like(before) and _is_like(note)}
        return frozenset(found | {fold(note.parts) for note in like if id(note) not in source})

    @cached_property
    def renamed(self) -> frozenset[str]:
        """The last parts of new names; an unqualified new name stays in the database of the old one."""
        return frozenset(note.parts[-1].lower() for note in self._of("newName") if note.owner == "RenameTable")

    @cached_property
    def temporaries(self) -> frozenset[str]:
        """The last parts of the names of created temporary views and functions."""
        owners = {"CreateViewCommand", "CreateTempViewUsing", "CacheTableAsSelect", "CreateSQLFunctionCommand"}
        return frozenset(
            note.parts[-1].lower()
            for note in self._of("TableIdentifier", "tempViewName", "FunctionIdentifier")
            if note.owner in owners and (note.kind == "FunctionIdentifier") == ("Function" in note.owner)
        )

    @cached_property
    def changed_views(self) -> frozenset[Parts]:
        return frozenset(fold(note.parts) for note in self._of(*_NAMES) if note.owner in _VIEWS)

    @cached_property
    def dropped_databases(self) -> frozenset[Parts]:
        return frozenset(fold(note.parts) for note in self._of("UnresolvedNamespace") if note.owner == "DropNamespace")

    @cached_property
    def calls(self) -> frozenset[Parts]:
        """The called functions that are not built in."""
        return frozenset(
            fold(note.parts)
            for note in self._of("function")
            if not note.owner.startswith(_LOOKING)
            and (len(note.parts) > 1 or note.parts[-1].lower() not in built_in())
            and not note.parts[-1].lower().startswith("identifier")
        )

    @cached_property
    def composed(self) -> bool:
        """Whether a name or a statement is built when the statement runs."""
        return any(not note.owner.startswith(_UNRUN) and note.owner not in _NO_TABLE for note in self._of("composed"))

    @cached_property
    def changes_namespace(self) -> bool:
        settings = (note.parts[0].lower() for note in self._of("setting") if not note.owner.startswith(_UNRUN))
        chosen = any(key in ("spark.sql.defaultcatalog", "null") for key in settings)
        return chosen or not self.commands.isdisjoint(_NAMESPACES)

    def unknown(self) -> frozenset[str]:
        """The commands that this module does not know."""
        return self.commands - _WRITING - _NOT_WRITING


def _is_like(note: Note) -> bool:
    return note.owner == "CreateTableLikeCommand"


def fold(parts: Iterable[str]) -> Parts:
    return tuple(part.lower() for part in parts)


@dataclass(frozen=True)
class Ours:
    """What the gateway finds in a text."""

    text: str

    @cached_property
    def known(self) -> Understood:
        return Understood(self.text)

    @property
    def statement(self) -> Statement | SyntaxProblem:
        try:
            return self.known.statement
        except SyntaxProblem as problem:
            return problem

    @property
    def look(self) -> Glance:
        return self.known.look

    @cached_property
    def may_write(self) -> bool:
        return isinstance(self.statement, Forwarded) and may_write_after_all(self.known)

    @property
    def composes(self) -> bool:
        return self.known.composes

    @cached_property
    def whole(self) -> str:
        """The text with the values of variables, if the gateway substitutes them before it searches for statements
        within the statement, and the texts with variables that EXECUTE IMMEDIATE may run, with their values."""
        if not self.may_write:
            return self.text
        text = _with_values(self.text) if "${" in self.text else self.text
        within = Lexed(text).within.texts if "immediate" in text.lower() else ()
        inner = [each.text for each in within if "${" in each.text]
        return ";\n".join([text, _with_values(";\n".join(inner))]) if inner else text

    @cached_property
    def temporaries(self) -> frozenset[Parts]:
        return hidden.temporaries(Lexed(self.whole))

    @cached_property
    def changes(self) -> hidden.HiddenChanges:
        """The changes by statements within the statement. The gateway does not search them in a statement that only
        reads."""
        return hidden.changes(Lexed(self.whole)) if self.may_write else hidden.HiddenChanges()


class _Variables:
    """A session with the same variables as the oracle's Spark parser."""

    async def sql(self) -> _Variables:
        return self

    async def run(self, text: str) -> _Answer:
        name = text.removeprefix("SET `").removesuffix("`").replace("``", "`")
        value = value_of(name)
        return _Answer([(name, UNDEFINED if value is None else value)])


@dataclass(frozen=True)
class _Answer:
    rows: list[tuple[str, str]]


_RUNNER = asyncio.Runner()


def _with_values(text: str) -> str:
    """The text with the values that the gateway would substitute."""
    return _RUNNER.run(substituted(cast(Session, _Variables()), text))


class Comparison:
    """Compares Spark's plan of a text that it accepts with what the gateway finds."""

    def __init__(self, plan: Plan, text: str) -> None:
        self._root, self._spark, self._ours = plan.root, SparkReading(plan), Ours(text)

    def misses(self) -> list[str]:
        """What the gateway misses, as "kind: what"."""
        spark, ours, statement = self._spark, self._ours, self._ours.statement
        if not isinstance(statement, Forwarded):
            ours_too = self._root in {"Call", "CreateMaterializedViewAsSelect", "ExplainCommand"}
            if ours_too and not ours.look.words.isdisjoint({"materialized", "refresh_materialized_view"}):
                return []
            if self._root == "RefreshResource" and isinstance(statement, SyntaxProblem):
                return []  # A misspelt MATERIALIZED VIEW, which Spark would take for a path.
            return [f"taken for ours: {type(statement).__name__}"]
        found = [f"unknown to the oracle: {name}" for name in spark.unknown()]
        found += [*_by_words(spark, ours), *_by_names(spark, ours, statement)]
        return [*found, *_by_changes(spark, ours, statement)]

    def spurious(self) -> bool | None:
        """Whether an exact statement has a name that Spark does not find; None for a statement that is not exact."""
        statement = self._ours.statement
        if not isinstance(statement, Forwarded) or not statement.exact:
            return None
        names = {fold(reference.parts) for reference in statement.reads} | {fold(parts) for parts in statement.writes}
        return not names <= self._spark.named


def misses(text: str, plan: Plan) -> list[str]:
    """What Spark finds in a text that it accepts, and the gateway does not."""
    return Comparison(plan, text).misses()


def _by_words(spark: SparkReading, ours: Ours) -> Iterator[str]:
    """The names that the cheap scan misses. If it finds nothing, the statement is not read further."""
    if ours.composes:
        return
    words = ours.look.words
    for parts in sorted(spark.queried | spark.writes | spark.changed_views):
        if parts[-1] not in words and parts[-1]:
            yield f"not among the words: {parts}"
    if spark.writes and not ours.may_write:
        yield "may not write"
    if spark.changes_namespace and not router._may_change_namespace(ours.look):
        yield "may not change the namespace"


def _by_names(spark: SparkReading, ours: Ours, statement: Forwarded) -> Iterator[str]:
    everything = not statement.exact and ours.composes
    if spark.composed and not everything:
        yield "composed"
    reads = {fold(reference.parts) for reference in statement.reads}
    writes = {fold(parts) for parts in statement.writes}
    if not everything:
        for parts in sorted(spark.queried - reads):
            yield f"not read: {parts}"
        if spark.reads and not statement.touches_rows and statement.creates_view is None:
            yield f"rows not touched: {sorted(spark.reads)}"
    if not (everything and writes):
        for parts in sorted(spark.writes - writes):
            yield f"not written: {parts}"
        for name in sorted(spark.renamed - {parts[-1] for parts in writes}):
            yield f"not written: {name}"
        if spark.writes and statement.keeps_rows and spark.commands != {"AddColumns"}:
            yield f"does not keep rows: {sorted(spark.writes)}"
    calls = {parts[-1].lower() for parts in statement.calls} | {parts[-1] for parts in reads if not statement.exact}
    if not everything:
        for parts in sorted(spark.calls):
            if parts[-1] not in calls:
                yield f"not called: {parts}"
    if "InsertIntoDir" in spark.commands and not (statement.writes_files or everything):
        yield "no files written"


def _by_changes(spark: SparkReading, ours: Ours, statement: Forwarded) -> Iterator[str]:
    if spark.changes_namespace and not (statement.changes_namespace or (ours.composes and not statement.exact)):
        yield "namespace not changed"
    if statement.exact:
        made = {statement.creates_view[-1].lower()} if statement.creates_view and statement.temporary else set()
        dropped = {fold(statement.drops)} if statement.drops and statement.drops_database else set()
        views, databases = {fold(parts) for parts in statement.writes}, dropped
        told = told_databases = True
    else:
        made, changes = {parts[-1] for parts in ours.temporaries}, ours.changes
        views, databases = {fold(parts) for parts in changes.views}, {fold(parts) for parts in changes.databases}
        told, told_databases = changes.told, changes.told_databases
    if "" not in made:
        for name in sorted(spark.temporaries - made):
            yield f"not made for the session: {name}"
    if told:
        for parts in sorted(spark.changed_views - views):
            yield f"view not changed: {parts}"
    if told_databases:
        for parts in sorted(spark.dropped_databases - databases):
            yield f"database not dropped: {parts}"
