"""Determines whether a view can be refreshed by rows, and what such a refresh writes.

Tests: `test_increments_over_spark_views`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from gateway.errors import StatementFailed
from gateway.loops import in_thread
from gateway.mv.catalog.index import Catalog
from gateway.mv.concurrency import gathered, together
from gateway.mv.formats.known_formats import EXPLAINED_WHOLE
from gateway.mv.formats.listings import PATH_NOT_FOUND
from gateway.mv.formats.table_format import Change
from gateway.mv.freshness.drift import Drift
from gateway.mv.model.contents import Basis
from gateway.mv.model.marks import Mark
from gateway.mv.model.spark_types import BINARY, float_type, has_floats_within, is_compared, sql_type
from gateway.mv.model.view import MaterializedView, base_key
from gateway.mv.observation.changes import Changes
from gateway.mv.observation.inspection import Inspection
from gateway.mv.observation.look import Look
from gateway.mv.observation.schemas import has_char
from gateway.mv.ports import UNKNOWN_SETTINGS, Metastore, Relation, RelationKind, SqlSession
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.narrowing import CHANGED_BYTES_MAX, Narrowing
from gateway.mv.refresh.planner import SHUFFLES, Exact, Merged
from gateway.mv.refresh.views_below import ViewsBelow
from gateway.mv.temporary_settings import with_settings
from sql.grammar import view_properties
from sql.increments import texts
from sql.increments.agreement import disagreement, is_within_keys, keyed, marked
from sql.increments.analysis import Kind, Outline, analyse
from sql.increments.expansion import SparkView, query_of
from sql.increments.named_keys import NamedKeys, named_keys
from sql.increments.reasons import NotIncremental, Reason
from sql.increments.terms import ChangeTerm, terms
from sql.names import TableName
from sql.query.explanations import NoPlan
from sql.spark_settings import has_meaning, is_harmless, is_kept
from sql.texts import maintenance, public_view
from sql.texts.maintenance import RowsQuery

FROM_BYTES = 64 * 2**20
"""Of base tables from which on AUTO considers refreshes by rows: for smaller tables a complete refresh is as fast."""
AGAIN_MAX = 100_000
"""How many groups are computed again at most. Spark sends their keys to each of its tasks."""
NAMED_MAX = 200
"""How many of these groups are named by constants, so that Spark skips files of the base tables."""
GATHERED_BYTES_MAX = 4 * 2**20
"""Up to how many bytes of files are written as one file. Spark lets a task read so many bytes of small files anyway."""
SHUFFLED_BYTES = 2**20
"""Of files, for each partition into which a refresh by rows shuffles what it reads: Spark's own pages are 64 times as
large, but nobody knows how well files are compressed."""
SHUFFLES_MIN = 16
VERSIONS_MAX = 32
"""How many versions a view shows together before the next refresh copies them into one."""
ANSI = "spark.sql.ansi.enabled"
ADAPTIVE = "spark.sql.adaptive.enabled"
REFUSED = "42"
"""The class of SQLSTATEs for statements that Spark cannot analyze."""
VANISHED = frozenset({PATH_NOT_FOUND, "42KD9", "42P01"})
"""SQLSTATEs for files that are gone, for directories in which no file is left (UNABLE_TO_INFER_SCHEMA), and for tables
that another program drops and creates again."""
_PARSING = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "false",
}
"""Settings that decide how a definition is read, with the values for which `sql.increments` is right."""


@dataclass(frozen=True, slots=True)
class _Analysed:
    """A definition's outline, and what it was derived from."""

    columns: Mapping[TableName, tuple[tuple[str, str], ...]]
    views: Mapping[TableName, SparkView]
    properties: Mapping[str, str]
    outline: Outline | NotIncremental
    hidden: Mapping[str, str]
    """The types of the hidden columns."""


class Increments:
    """Plans refreshes by rows. Every method may raise NotIncremental, and what Spark raises."""

    def __init__(
        self,
        catalog: Catalog,
        metastore: Metastore,
        habits: Habits,
        changes: Changes,
        below: ViewsBelow,
        from_bytes: int = FROM_BYTES,
    ) -> None:
        """AUTO considers refreshes by rows of base tables of at least `from_bytes`."""
        self._catalog = catalog
        self._metastore = metastore
        self._habits = habits
        self._changes = changes
        self._below = below
        self._from_bytes = from_bytes
        self._analysed: dict[str, _Analysed] = {}
        """By view id."""
        self._created: dict[str, Mapping[str, str]] = {}
        """The settings with which definitions were created, which never change, by view id."""

    async def is_small(self, view: MaterializedView, inspection: Inspection) -> bool:
        """Whether a complete refresh is fast because the view reads little."""
        below = [entry.view for base in view.views if (entry := self._catalog.find(base)) is not None]
        if any(each.current.contents.basis is not None for each in below):
            return False
        looks = inspection.looks
        sizes = [
            await self._changes.size(table, looks[table]) for table in sorted(view.tables) if not looks[table].is_view
        ]
        return None not in sizes and sum(size or 0 for size in sizes) < self._from_bytes

    def is_known_small(self, view: MaterializedView) -> bool:
        """As `is_small`, as far as it is known without a statement."""
        if any((entry := self._catalog.find(base)) and entry.view.current.contents.basis for base in view.views):
            return False
        sizes = [self._changes.known_size(table) for table in view.tables if not table.is_function]
        return bool(sizes) and all(sizes) and sum(sizes) < self._from_bytes

    def known_bytes(self, view: MaterializedView) -> int:
        """How many bytes the base tables have; 0 if only a statement could tell."""
        return 0 if view.views else self._bytes_of(table for table in view.tables if not table.is_function)

    def known_hindrance(self, view: MaterializedView) -> str:
        """Why the definition cannot be refreshed by rows, as far as it was determined; empty if nothing is known."""
        known = self._analysed.get(view.id)
        found = known.outline if known is not None else None
        return str(found) if isinstance(found, NotIncremental) else ""

    # --- what a version holds --------------------------------------------------------------------------

    async def exact(
        self, view: MaterializedView, inspection: Inspection, session: SqlSession, *, only: Sequence[str] = ()
    ) -> Exact:
        """What a refresh that recomputes rows must write so that later ones can be by rows. `only`: only rows with
        some values of these columns are recomputed; the others must have what these get. `session` has the view's
        settings."""
        found = await self._analysis(view, inspection, session)
        outline = _outline(found)
        if only:
            self._basis(view, outline)
        if untold := [column for column in only if not outline.tells(column)]:
            raise NotIncremental(Reason.STATES_MISSING, f"rows that HAVING excludes do not have {', '.join(untold)}")
        tables = dict(self._bases(view, outline))
        marks = await together(tables, lambda base: self._mark(view, base, tables[base], inspection))
        now = self._rows_now(view, outline, marks, inspection)
        sources = {place.number: now[place.table] for place in outline.places}
        if outline.kind is Kind.ROWS:
            return Exact(RowsQuery(texts.whole(outline, sources)), marks)
        _check_shown(view, outline)
        stored = await self._metastore.relation(view.rows_table)
        present = {name.lower(): sql_type(kind) for name, kind in stored.columns} if stored is not None else {}
        missing = {name: kind for name, kind in found.hidden.items() if name not in present}
        if any(present.get(name, kind).lower() != kind.lower() for name, kind in found.hidden.items()):
            raise NotIncremental(Reason.STATES_MISSING, "a hidden column was stored with another type")
        rows = RowsQuery(texts.complete(outline, sources), tuple(found.hidden))
        return Exact(rows, marks, outline.signature, outline.filtered, missing)

    async def states(self, view: MaterializedView, inspection: Inspection, session: SqlSession) -> Exact:
        """What refreshes by rows store of the view, without the marks: the query of its groups with the hidden columns,
        whose types are `missing`; no query if nothing is stored beside its own columns."""
        found = await self._analysis(view, inspection, session)
        outline = _outline(found)
        if outline.kind is Kind.ROWS:
            return Exact()
        rows = RowsQuery(texts.complete(outline), tuple(found.hidden))
        return Exact(rows, {}, outline.signature, outline.filtered, found.hidden)

    def _rows_now(
        self, view: MaterializedView, outline: Outline, marks: Mapping[str, Mark], inspection: Inspection
    ) -> dict[TableName, str]:
        """The queries for the rows of the base tables at these marks."""
        return {
            table: self._rows_of(view, base, table, marks[base], inspection)
            for base, table in self._bases(view, outline)
        }

    def _rows_of(self, view: MaterializedView, base: str, table: TableName, mark: Mark, inspection: Inspection) -> str:
        if base in view.views:
            return self._below.rows(self._catalog.entry(base).view, mark)
        return self._changes.rows(table, inspection.looks[table], mark)

    async def _analysis(self, view: MaterializedView, inspection: Inspection, session: SqlSession) -> _Analysed:
        columns = self._columns(view, inspection)
        found = {name: look.relation for name, look in inspection.looks.items() if look.is_view and look.relation}
        await self._check_settings(view, found)
        views = {name: _spark_view(name, relation) for name, relation in found.items()}
        known = self._analysed.get(view.id)
        now = columns, views, view.properties
        if known is None or (known.columns, known.views, known.properties) != now:
            try:
                known = await self._analyse(view, columns, views, session)
            except NoPlan as error:
                # Perhaps it can be planned at the next time.
                raise NotIncremental(Reason.OPERATOR, str(error)) from error
            self._analysed[view.id] = known
            self._forget_dropped()
        return known

    async def _analyse(
        self,
        view: MaterializedView,
        columns: Mapping[TableName, tuple[tuple[str, str], ...]],
        views: Mapping[TableName, SparkView],
        session: SqlSession,
    ) -> _Analysed:
        names = {table: [name for name, _ in listed] for table, listed in columns.items()}
        hidden: dict[str, str] = {}
        try:
            named = bool(view.listed)
            size = len(view.query) + sum(len(each.text) for each in views.values())
            draft = await in_thread(
                size, analyse, view.query, view.namespace, names, view.columns, named=named, views=views
            )
            for name in sorted(views):
                await self._check_view(name, views, session)
            typing = draft.typing()
            types = {} if typing is None else await _types(session, typing)
            ansi = bool(types) and str((await session.run(f"SET {ANSI}")).rows[0][1]).lower() == "true"
            outline = draft.typed(types, ansi=ansi)
            if draft.computes:
                await self._check_unpadded(outline)
            if not view_properties.merges_float_sums(view.properties) and outline.adds_floats:
                raise NotIncremental(Reason.FUNCTION_NOT_MERGEABLE, "its property incremental_float_sums is false")
            if not all(outline.tells(part.column) for part in view.layout.parts):
                raise NotIncremental(
                    Reason.OPERATOR, "it has HAVING, and its partition column is not a key of its groups"
                )
            await self._check_plans(view, outline, session)
            if outline.hidden:
                found = await _types(session, texts.complete(outline))
                hidden = {name: found[name] for name in outline.hidden}
        except NotIncremental as reason:
            return _Analysed(columns, views, view.properties, reason, {})
        return _Analysed(columns, views, view.properties, outline, hidden)

    async def _check_plans(self, view: MaterializedView, outline: Outline, session: SqlSession) -> None:
        """Raises NotIncremental if Spark plans the definition in another way than it was read."""
        async with with_settings(session, EXPLAINED_WHOLE):
            definition = await _explained(session, maintenance.explain_definition(view.definition))
            read = await _explained(session, maintenance.explained_plans(marked(outline)))
            keys = keyed(outline)
            within = await _explained(session, maintenance.explained_plans(keys)) if keys else ""
        size = len(definition) + len(read)
        if (problem := await in_thread(size, disagreement, outline, definition, read)) is not None:
            raise NotIncremental(Reason.OPERATOR, problem)
        if within and not await in_thread(len(within), is_within_keys, outline, within):
            raise NotIncremental(Reason.OPERATOR, "Spark does not compute its windows and groups within their keys")

    async def _check_unpadded(self, outline: Outline) -> None:
        """Spark pads what it compares with a column of the type CHAR, but not with a key or a MAX of such a column."""
        for table in sorted(outline.tables):
            below = self._catalog.named(table)
            relation = await self._metastore.relation(table if below is None else below.storage)
            if relation is None or await has_char(self._metastore.run, relation.name, relation.columns):
                what = f"it computes with its groups, and {table} has a column of the type CHAR"
                raise NotIncremental(Reason.OPERATOR, what)

    async def _check_view(self, name: TableName, views: Mapping[TableName, SparkView], session: SqlSession) -> None:
        """Spark casts the columns of a view to the types that they had when it was created."""
        shown = await _types(session, f"SELECT * FROM {name.quoted}")
        if shown != await _types(session, query_of(name, views)):
            raise NotIncremental(Reason.OPERATOR, f"the view {name} has other columns than its query has today")

    def give_up(self, view: MaterializedView, error: StatementFailed) -> None:
        """Remembers that Spark does not accept the statements of this view's refreshes by rows."""
        if error.sqlstate in VANISHED or not error.sqlstate.startswith(REFUSED):
            return
        if (known := self._analysed.get(view.id)) is not None:
            reason = NotIncremental(Reason.OPERATOR, f"Spark refuses its statement: {error}")
            self._analysed[view.id] = replace(known, outline=reason, hidden={})

    def _columns(self, view: MaterializedView, inspection: Inspection) -> dict[TableName, tuple[tuple[str, str], ...]]:
        """The columns of everything that the definition reads, with their types as far as they matter."""
        if view.calls_functions:
            raise NotIncremental(Reason.OPERATOR, "it calls user-defined functions")
        if view.triggers != view.tables or any(
            (entry := self._catalog.find(base)) and view.excludes(entry.view.name) for base in view.views
        ):
            raise NotIncremental(Reason.OPERATOR, "excluded_trigger_tables hides changes of a table that it reads")
        for name in view_properties.session_settings(view.properties):
            if not is_harmless(name):
                raise NotIncremental(Reason.OPERATOR, f"its property session.{name} may change what it means")
        found: dict[TableName, tuple[tuple[str, str], ...]] = {}
        for table in view.tables:
            relation = inspection.looks[table].relation
            if relation is not None and relation.kind is RelationKind.VIEW:
                continue
            if relation is None or relation.kind is not RelationKind.TABLE or table.path:
                raise NotIncremental(Reason.OPERATOR, f"it reads {table}, which is not a plain table")
            found[table] = relation.columns
        for base in view.views:
            below = self._catalog.entry(base).view
            found[below.name] = tuple((column, "") for column in below.columns)
        return found

    async def _check_settings(self, view: MaterializedView, views: Mapping[TableName, Relation]) -> None:
        """Spark reads the definition with the settings that it keeps with it. A text of the gateway's, in which the
        query stands, has those of the session. `views`: the Spark views that it reads, which must have the same."""
        if (created := self._created.get(view.id)) is None:
            definition = await self._metastore.relation(view.definition)
            if definition is None:
                raise NotIncremental(Reason.HISTORY_GONE, "its definition view does not exist")
            created = self._created[view.id] = definition.settings
        if created == UNKNOWN_SETTINGS:
            raise NotIncremental(Reason.OPERATOR, "Spark does not tell with which settings it was created")
        known = self._habits.settings
        for name, plain in _PARSING.items():
            if created.get(name, known.get(name, plain)).lower() != plain.lower():
                raise NotIncremental(Reason.OPERATOR, f"it was created with another {name} than {plain}")
        for spark_view, relation in views.items():
            _check_settings(spark_view, relation.settings, created)
        for name in sorted({*created, *filter(self._would_be_kept, known)}):
            if is_harmless(name) or (name in created and (has_meaning(name) or self._is_so(name, created[name]))):
                continue
            value = created.get(name, "no value")
            raise NotIncremental(Reason.OPERATOR, f"it was created with {value} of {name}, unlike a refresh's")

    def _would_be_kept(self, name: str) -> bool:
        """Whether Spark would keep a setting that a service session has with a definition that it creates: not those
        of data sources and catalogs, which Spark does not know."""
        return is_kept(name) and (name in self._habits.defaults or has_meaning(name))

    def _is_so(self, name: str, value: str) -> bool:
        """Whether a service session has this value."""
        plain = _PARSING.get(name, "")
        return self._habits.is_so(name, value) or plain == value.lower() == self._habits.settings.get(name, plain)

    def _forget_dropped(self) -> None:
        for view_id in [each for each in self._created if self._catalog.find(each) is None]:
            if view_id not in self._catalog.building:
                self._analysed.pop(view_id, None)
                del self._created[view_id]

    # --- a refresh by rows -----------------------------------------------------------------------------

    async def plan(
        self, view: MaterializedView, found: Drift, inspection: Inspection, session: SqlSession
    ) -> Merged | None:
        """What the changes of the base tables since the current version add to it; None if no row that it reads has
        changed."""
        analysed = await self._analysis(view, inspection, session)
        outline = _outline(analysed)
        if replaced := next((name for name in sorted(analysed.views) if base_key(name) in found.tables), None):
            raise NotIncremental(Reason.BASE_REPLACED, f"the view {replaced} was replaced")
        for base, table in self._bases(view, outline):
            if base not in view.views:
                self._changes.check(table, inspection.looks[table], self._is_on)
        _check_shown(view, outline)
        basis = self._basis(view, outline)
        tables = dict(self._bases(view, outline))
        changed, sparing = [base for base in tables if base in found.tables], len(outline.places) > 1
        changes = await together(
            changed,
            lambda base: self._change(view, base, tables[base], inspection, basis.marks[base], sparing=sparing),
        )
        changes = {
            base: await self._narrowed(analysed, outline, tables, base, change, inspection, session)
            for base, change in changes.items()
        }
        marks = {**basis.marks, **{base: change.mark for base, change in changes.items()}}
        now = self._rows_now(view, outline, marks, inspection)
        summands = terms(
            outline,
            {tables[base]: change.added for base, change in changes.items() if change.added is not None},
            {tables[base]: change.before for base, change in changes.items()},
            {tables[base]: change.removed for base, change in changes.items() if change.removed is not None},
            now,
            {tables[base]: change.signed for base, change in changes.items() if change.signed},
        )
        if not summands:
            return None
        summands = tuple(_pinned(outline, term, now) for term in summands)
        size = sum(change.bytes for change in changes.values())
        again, named = 0, None
        if _regroups(outline, summands):
            # A session keeps what it has read of Iceberg's tables, and would not find the new snapshots.
            for table in sorted(tables[base] for base in changed if base not in view.views):
                await session.run(maintenance.refresh_listing(table))
            again, named = await _touched(outline, summands, session)
        subtracts = outline.kind is Kind.ROWS and _removes(summands)
        floats = await self._floats(view) if subtracts else {}
        rows, appends = _rows(view, outline, analysed.hidden, summands, now, named, floats)
        read = [size] if appends else [size, view.current.stored_bytes]
        # The changed rows of one table are joined with the other tables. If two tables have changed, or if a table is
        # read twice, its own rows are read as well.
        every = again or len(changed) > 1 or len(outline.places) > len(tables)
        joined = [self._known_bytes(base, table) for base, table in tables.items() if every or base not in changed]
        if outline.kind is Kind.ROWS and all(read) and sum(read) <= GATHERED_BYTES_MAX:
            rows = self._gathered(view, rows, by_one=len(outline.places) == 1)
        whole = 0 if view.views else self._bytes_of(tables.values())
        shuffles = self._shuffles(view, [*read, *joined])
        return Merged(Exact(rows, marks, basis.states, outline.filtered), appends, size, whole, again, shuffles)

    def _shuffles(self, view: MaterializedView, read: Sequence[int]) -> int:
        """As `Merged.shuffles`. `read`: the bytes of everything that the INSERT reads, 0 where they are unknown. Each
        task writes all partitions: Spark's default of 200 costs up to half a second where few rows are shuffled."""
        known = self._habits.settings.get(SHUFFLES) or self._habits.defaults.get(SHUFFLES, "")
        if not all(read) or not known.isdecimal() or SHUFFLES in view_properties.session_settings(view.properties):
            return 0
        found = max(SHUFFLES_MIN, sum(read) // SHUFFLED_BYTES)
        return found if found < int(known) else 0

    def _known_bytes(self, base: str, table: TableName) -> int:
        """As `_base_bytes`, without asking."""
        below = self._catalog.find(base)
        return self._changes.known_size(table) if below is None else below.view.current.stored_bytes

    def _gathered(self, view: MaterializedView, rows: RowsQuery, *, by_one: bool) -> RowsQuery:
        """The query, such that few rows become one file: otherwise each task that reads writes one. `by_one`: one task
        does all. If it must not, Spark gathers the rows of many."""
        if view.layout.partitioned:
            return rows
        if by_one:
            return replace(rows, query=texts.gathered(rows.query, "COALESCE(1)"))
        if self._is_on(ADAPTIVE) and view.clauses.clustering is None:
            return replace(rows, query=texts.gathered(rows.query, "REBALANCE"))
        return rows

    async def _narrowed(
        self,
        analysed: _Analysed,
        outline: Outline,
        tables: Mapping[str, TableName],
        base: str,
        change: Change,
        inspection: Inspection,
        session: SqlSession,
    ) -> Change:
        """The change with less work for what follows: without rows that left and came again, if this spares more than
        it costs, and with its few join keys as constants, if large tables are joined with it."""
        changed = change.bytes or await self._base_bytes(base, tables[base], inspection)
        if not 0 < changed <= CHANGED_BYTES_MAX:
            return change
        found = Narrowing(analysed.columns[tables[base]], outline.joined(tables[base]))
        is_joined = bool(found.joined) and await self._are_large(tables, base, inspection)
        if is_joined or not outline.subtracts:
            change = found.net(change)
        if not is_joined:
            return change
        if self._catalog.find(base) is None:
            await session.run(maintenance.refresh_listing(tables[base]))
        return await found.named(change, session)

    async def _are_large(self, tables: Mapping[str, TableName], base: str, inspection: Inspection) -> bool:
        """Whether the other tables are so large that a statement pays that spares reading them."""
        others = [self._base_bytes(*each, inspection) for each in tables.items() if each[0] != base]
        return sum(await gathered(others)) >= self._from_bytes

    async def _base_bytes(self, base: str, table: TableName, inspection: Inspection) -> int:
        """About how many bytes a table, or what a view below shows, has; 0 if that is unknown."""
        if (below := self._catalog.find(base)) is not None:
            return below.view.current.stored_bytes
        return await self._changes.size(table, inspection.looks[table]) or 0

    async def _floats(self, view: MaterializedView) -> dict[str, str]:
        """The view's columns of FLOAT and DOUBLE, with their types. Raises NotIncremental unless removed rows can be
        found among the stored ones."""
        stored = await self._metastore.relation(view.storage)
        columns = stored.columns if stored is not None else ()
        for name, kind in columns:
            if not is_compared(kind) or has_floats_within(kind):
                raise NotIncremental(Reason.ROWS_REMOVED, f"the column {name} cannot be compared with removed rows")
        return {name: floats for name, kind in columns if name in view.columns and (floats := float_type(kind))}

    def _bytes_of(self, tables: Iterable[TableName]) -> int:
        """The bytes of all of these tables; 0 if they are not known without asking."""
        sizes = [self._changes.known_size(table) for table in tables]
        return sum(sizes) if all(sizes) else 0

    def copied(self, view: MaterializedView) -> Exact:
        """The rows of a version that is shown together with earlier ones, as a version of its own."""
        few = 0 < view.current.stored_bytes <= GATHERED_BYTES_MAX
        return Exact(self._gathered(view, RowsQuery(_stored(view, ())), by_one=few))

    def _basis(self, view: MaterializedView, outline: Outline) -> Basis:
        """What the current version contains, from which rows of this outline can continue."""
        basis = view.current.contents.basis
        if basis is None or not {base for base, _ in self._bases(view, outline)} <= basis.marks.keys():
            raise NotIncremental(Reason.HISTORY_GONE, "it is not known exactly what the current version has read")
        if outline.kind is Kind.GROUPS and basis.states != outline.signature:
            raise NotIncremental(Reason.STATES_MISSING, "the current version has no keys or states of its groups")
        return basis

    def _bases(self, view: MaterializedView, outline: Outline) -> Iterable[tuple[str, TableName]]:
        """What the definition reads: the `base_key`s and names of its tables and of the views below."""
        below = {self._catalog.entry(base).view.name: base for base in view.views}
        return [(below.get(table, base_key(table)), table) for table in sorted(outline.tables)]

    async def _change(
        self, view: MaterializedView, base: str, table: TableName, inspection: Inspection, mark: Mark, *, sparing: bool
    ) -> Change:
        if base in view.views:
            return await self._below.since(self._catalog.entry(base).view, mark, inspection, sparing=sparing)
        return await self._changes.since(table, inspection.looks[table], mark)

    def _is_on(self, setting: str) -> bool:
        return self._habits.is_so(setting, "true")

    # --- the state of the base tables ------------------------------------------------------------------

    async def _mark(self, view: MaterializedView, base: str, table: TableName, inspection: Inspection) -> Mark:
        if base in view.views:
            return self._below.mark(self._catalog.entry(base).view, inspection)
        return await self._changes.mark(table, inspection.looks[table])

    def reading(self, view: MaterializedView) -> AbstractContextManager[None]:
        """Keeps the versions of views below that a refresh reads: those of now, and those that the view contains."""
        basis = view.current.contents.basis
        marks = basis.marks if basis is not None else {}
        read = [(base, int(marks[base].position)) for base in view.views & marks.keys()]
        for base in view.views:
            current = self._catalog.entry(base).view.current
            read += [(base, current.number), (base, current.contents.same_as)]
        return self._below.reading(read)

    async def are_sound(self, read: Mapping[str, int]) -> bool:
        """Whether the stored rows of views that were read, from the versions with these numbers on, are those that were
        published: a look before they were read does not tell what was read."""
        return await self._below.are_sound(read)

    async def hold(self, view: MaterializedView, marks: Mapping[str, Mark], looks: Mapping[TableName, Look]) -> bool:
        """Whether what was read since has exactly the rows of these marks. (A version of a view never changes.)"""
        named = {base_key(table): table for table in view.tables}
        read = [(named[base], mark) for base, mark in marks.items() if base not in view.views]
        return all(await gathered(self._changes.holding(table, looks[table], mark) for table, mark in read))


def _outline(found: _Analysed) -> Outline:
    if isinstance(found.outline, NotIncremental):
        raise found.outline
    return found.outline


def _spark_view(name: TableName, relation: Relation) -> SparkView:
    if relation.collation not in ("", BINARY):
        raise NotIncremental(Reason.OPERATOR, f"the strings of the view {name} have the collation {relation.collation}")
    columns = tuple(column for column, _ in relation.columns)
    return SparkView(relation.view_text, relation.namespace, columns, relation.outputs)


def _check_settings(name: TableName, views: Mapping[str, str], definitions: Mapping[str, str]) -> None:
    """Spark reads a view with the settings of its making, and with initial values where it has none."""
    if views == UNKNOWN_SETTINGS:
        raise NotIncremental(Reason.OPERATOR, f"Spark does not tell with which settings the view {name} was created")
    for setting in sorted({*views, *definitions}):
        plain = _PARSING.get(setting)
        there, here = views.get(setting, plain), definitions.get(setting, plain)
        if there != here and not is_harmless(setting):
            raise NotIncremental(
                Reason.OPERATOR,
                f"the view {name} was created with {there or 'no'} {setting}, and the definition with {here or 'none'}",
            )


async def _explained(session: SqlSession, statement: str) -> str:
    return "\n".join(str(row[0]) for row in (await session.run(statement)).rows)


async def _types(session: SqlSession, query: str) -> dict[str, str]:
    """The types of a query's columns, as SQL."""
    rows = (await session.run(maintenance.query_types(query))).rows
    return {str(name): str(kind) for name, kind, *_ in rows}


def _check_shown(view: MaterializedView, outline: Outline) -> None:
    """Raises NotIncremental if readers past the gateway would be shown rows that the view does not show."""
    if outline.filtered and view.layout.open is not None:
        shown = "other engines would be shown the groups that HAVING excludes"
        raise NotIncremental(Reason.STATES_MISSING, shown)


def _pinned(outline: Outline, term: ChangeTerm, now: Mapping[TableName, str]) -> ChangeTerm:
    """The term, in which tables that it reads as they are have the rows of their marks."""
    others = {place.number: now[place.table] for place in outline.places if place.branch == term.branch}
    return replace(term, sources={**others, **term.sources})


def _stored(view: MaterializedView, hidden: Iterable[str]) -> str:
    return public_view.stored_rows(view.storage, (*view.columns, *hidden), view.current.shown, view.layout)


def _removes(summands: Iterable[ChangeTerm]) -> bool:
    return any(term.removes for term in summands)


def _regroups(outline: Outline, summands: Sequence[ChangeTerm]) -> bool:
    """Whether the touched groups must be computed from all their rows."""
    groups = outline.groups
    return groups is not None and (not groups.states or (_removes(summands) and not outline.subtracts))


async def _touched(
    outline: Outline, summands: Sequence[ChangeTerm], session: SqlSession
) -> tuple[int, NamedKeys | None]:
    """The number of touched groups, and their keys if these are few."""
    if not outline.regroups:
        raise NotIncremental(Reason.ROWS_REMOVED, "removed rows cannot be subtracted from its aggregates")
    keys = len(outline.groups.keys) if outline.groups is not None else 0
    few = (await session.run(texts.few_touched(outline, summands, NAMED_MAX))).rows
    if len(few) <= NAMED_MAX:
        return len(few), named_keys(few, keys)
    counted = f"SELECT count(*) FROM ({texts.touched(outline, summands)})"
    found = int((await session.run(counted)).rows[0][0])
    if found > AGAIN_MAX:
        raise NotIncremental(Reason.DEARER, f"{found} groups have changed and would have to be computed again")
    return found, None


def _rows(
    view: MaterializedView,
    outline: Outline,
    hidden: Mapping[str, str],
    summands: Sequence[ChangeTerm],
    now: Mapping[TableName, str],
    named: NamedKeys | None,
    floats: Mapping[str, str],
) -> tuple[RowsQuery, bool]:
    """The query for the new version's rows, and whether they are shown together with the earlier versions. A partition
    belongs to one version. `now`: the queries for the rows of the base tables. `named`: the keys of the touched
    groups, if they are few. `floats`: as in `texts.subtracted`."""
    shown, stored = view.current.shown, _stored(view, hidden)
    if _regroups(outline, summands):
        sources = {place.number: now[place.table] for place in outline.places}
        return RowsQuery(texts.regrouped(outline, stored, summands, sources, named), tuple(hidden)), False
    if outline.kind is Kind.GROUPS:
        return RowsQuery(texts.merged(outline, stored, summands), tuple(hidden)), False
    if _removes(summands):
        if view.layout.partitioned:
            raise NotIncremental(Reason.ROWS_REMOVED, "rows were removed from a table, and the view has no groups")
        return RowsQuery(texts.subtracted(outline, stored, summands, floats)), False
    added = texts.appended(outline, summands)
    if shown.versions < VERSIONS_MAX and not view.layout.partitioned:
        return RowsQuery(added), True
    return RowsQuery(f"({stored}) UNION ALL ({added})", adds=True), False
