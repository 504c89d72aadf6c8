"""What Spark's parser sees in a text beside what the gateway sees: nothing that Spark sees may be missed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from oracle.plans import Note, Plan, built_in, value_of

from gateway.service.clients.session import Session
from gateway.service.routing import route
from gateway.service.routing.gatekeeper import UNDEFINED, behind, substituted
from sql.classify import classify, glance
from sql.grammar.cursor import SyntaxProblem
from sql.reading import hidden
from sql.statement import Forwarded, Glance, Parts, Statement

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
"""Commands that may change the table or view that they name."""
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
"""What only looks at what it names; "refused": a query where Spark takes none."""
_UNRUN = (*_LOOKING, "nothing")
"""What finds no rows whatever the tables hold, too."""
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
"""Commands whose own name is no table's."""
_VIEWS = frozenset({"AlterViewAs", "AlterViewSchemaBinding", "DropView", "SetViewProperties", "UnsetViewProperties"})


@dataclass(frozen=True)
class Spark:
    """A plan, sorted."""

    plan: Plan

    def _of(self, *kinds: str) -> Iterator[Note]:
        return (note for note in self.plan.notes if note.kind in kinds)

    @cached_property
    def commands(self) -> frozenset[str]:
        return frozenset(note.owner for note in self._of("command") if not note.owner.startswith(_UNRUN))

    @cached_property
    def named(self) -> frozenset[Parts]:
        """Every name, read, written, or neither."""
        return frozenset(fold(note.parts) for note in self.plan.notes if note.parts)

    @cached_property
    def reads(self) -> frozenset[Parts]:
        """Whose rows it reads."""
        return self._read_by(_UNRUN) | {fold(note.parts) for note in self._of(*_NAMES) if note.owner == "AnalyzeTable"}

    @cached_property
    def queried(self) -> frozenset[Parts]:
        """The same, with those of which a constant leaves no row: their names must be known, too."""
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
        """Last parts of new names: a bare one stays in the database of the old one."""
        return frozenset(note.parts[-1].lower() for note in self._of("newName") if note.owner == "RenameTable")

    @cached_property
    def temporaries(self) -> frozenset[str]:
        """Last parts of the temporary views and functions that are made."""
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
        """Functions that are none of Spark's own."""
        return frozenset(
            fold(note.parts)
            for note in self._of("function")
            if not note.owner.startswith(_LOOKING)
            and (len(note.parts) > 1 or note.parts[-1].lower() not in built_in())
            and not note.parts[-1].lower().startswith("identifier")
        )

    @cached_property
    def composed(self) -> bool:
        """A name, or a text, is put together when the statement runs."""
        return any(not note.owner.startswith(_UNRUN) and note.owner not in _NO_TABLE for note in self._of("composed"))

    @cached_property
    def changes_namespace(self) -> bool:
        settings = (note.parts[0].lower() for note in self._of("setting") if not note.owner.startswith(_UNRUN))
        chosen = any(key in ("spark.sql.defaultcatalog", "null") for key in settings)
        return chosen or not self.commands.isdisjoint(_NAMESPACES)

    def unknown(self) -> frozenset[str]:
        """Commands that this module does not know."""
        return self.commands - _WRITING - _NOT_WRITING


def _is_like(note: Note) -> bool:
    return note.owner == "CreateTableLikeCommand"


def fold(parts: Iterable[str]) -> Parts:
    return tuple(part.lower() for part in parts)


@dataclass(frozen=True)
class Ours:
    """What the gateway sees in a text."""

    text: str

    @cached_property
    def statement(self) -> Statement | SyntaxProblem:
        try:
            return classify(self.text, self.look)
        except SyntaxProblem as problem:
            return problem

    @cached_property
    def look(self) -> Glance:
        return glance(self.text)

    @cached_property
    def may_write(self) -> bool:
        said = self.statement
        return isinstance(said, Forwarded) and route._may_write_after_all(said, self.look, self.text)

    @cached_property
    def composes(self) -> bool:
        return hidden.composes(self.text, self.look.words)

    @cached_property
    def whole(self) -> str:
        """The text, with variables' values in their places where the gateway puts them there before it looks for
        statements within the statement."""
        if not self.may_write:
            return self.text
        text = _with_values(self.text) if "${" in self.text else self.text
        inner = hidden.with_variables(text)
        return behind(text, _with_values(behind(*inner))) if inner else text

    @cached_property
    def temporaries(self) -> frozenset[Parts]:
        return hidden.temporaries(self.whole)

    @cached_property
    def changes(self) -> hidden.Changes:
        """Nobody looks at these where a statement counts as one that only reads."""
        return hidden.changes(self.whole) if self.may_write else hidden.Changes()


class _Variables:
    """A session that knows variables as Spark's parser does here."""

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
    """As the gateway asks for them."""
    return _RUNNER.run(substituted(cast(Session, _Variables()), text))


class Comparison:
    """What Spark sees in a text that it accepts, beside what the gateway sees."""

    def __init__(self, plan: Plan, text: str) -> None:
        self._root, self._spark, self._ours = plan.root, Spark(plan), Ours(text)

    def misses(self) -> list[str]:
        """What the gateway does not see; "kind: what"."""
        spark, ours = self._spark, self._ours
        said = ours.statement
        if not isinstance(said, Forwarded):
            ours_too = self._root in {"Call", "CreateMaterializedViewAsSelect", "ExplainCommand"}
            if ours_too and not ours.look.words.isdisjoint({"materialized", "refresh_materialized_view"}):
                return []
            return [f"taken for ours: {type(said).__name__}"]
        found = [f"unknown to the oracle: {name}" for name in spark.unknown()]
        return [*found, *_by_words(spark, ours), *_by_names(spark, ours, said), *_by_changes(spark, ours, said)]

    def spurious(self) -> bool | None:
        """Whether a statement that is understood exactly has a name that Spark does not see; None for another one."""
        said = self._ours.statement
        if not isinstance(said, Forwarded) or not said.exact:
            return None
        names = {fold(reference.parts) for reference in said.reads} | {fold(parts) for parts in said.writes}
        return not names <= self._spark.named


def misses(text: str, plan: Plan) -> list[str]:
    """What Spark sees in a text that it accepts, and the gateway does not."""
    return Comparison(plan, text).misses()


def _by_words(spark: Spark, ours: Ours) -> Iterator[str]:
    """What the cheap look must show, for nothing else is asked where it shows nothing."""
    if ours.composes:
        return
    words = ours.look.words
    for parts in sorted(spark.queried | spark.writes | spark.changed_views):
        if parts[-1] not in words and parts[-1]:
            yield f"not among the words: {parts}"
    if spark.writes and not ours.may_write:
        yield "may not write"
    if spark.changes_namespace and not route._may_change_namespace(ours.look):
        yield "may not change the namespace"


def _by_names(spark: Spark, ours: Ours, said: Forwarded) -> Iterator[str]:
    everything = not said.exact and ours.composes
    if spark.composed and not everything:
        yield "composed"
    reads = {fold(reference.parts) for reference in said.reads}
    writes = {fold(parts) for parts in said.writes}
    if not everything:
        for parts in sorted(spark.queried - reads):
            yield f"not read: {parts}"
        if spark.reads and not said.touches_rows and said.creates_view is None:
            yield f"rows not touched: {sorted(spark.reads)}"
    if not (everything and writes):
        for parts in sorted(spark.writes - writes):
            yield f"not written: {parts}"
        for name in sorted(spark.renamed - {parts[-1] for parts in writes}):
            yield f"not written: {name}"
        if spark.writes and said.keeps_rows and spark.commands != {"AddColumns"}:
            yield f"does not keep rows: {sorted(spark.writes)}"
    calls = {parts[-1].lower() for parts in said.calls} | {parts[-1] for parts in reads if not said.exact}
    if not everything:
        for parts in sorted(spark.calls):
            if parts[-1] not in calls:
                yield f"not called: {parts}"
    if "InsertIntoDir" in spark.commands and not (said.writes_files or everything):
        yield "no files written"


def _by_changes(spark: Spark, ours: Ours, said: Forwarded) -> Iterator[str]:
    if spark.changes_namespace and not (said.changes_namespace or (ours.composes and not said.exact)):
        yield "namespace not changed"
    if said.exact:
        made = {said.creates_view[-1].lower()} if said.creates_view and said.temporary else set()
        dropped = {fold(said.drops)} if said.drops and said.drops_database else set()
        views, databases, told, told_databases = {fold(parts) for parts in said.writes}, dropped, True, True
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
