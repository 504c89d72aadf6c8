"""Plans a refresh as a value. Planning has no effects; `executor` executes the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from gateway.mv import many
from gateway.mv.freshness.drift import next_manifest
from gateway.mv.model.contents import Basis, Keyed
from gateway.mv.model.marks import Mark
from gateway.mv.model.view import Manifest, MaterializedView, RefreshMode
from gateway.mv.refresh.habits import Habits
from sql.grammar import view_properties
from sql.names import TableName, quote
from sql.texts import maintenance, public_view
from sql.texts.literals import safe_literal
from sql.texts.storage_layout import ALL, MARKED, PartitionKey, Selection, Shown

SHUFFLES = "spark.sql.shuffle.partitions"
NAMED_TOGETHER = 200
"""How many partitions one INSERT names. Spark passes a list to the metastore as nested comparisons; 1,000 of them have
been seen to overflow its stack."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement for Spark, and its purpose."""

    sql: str
    purpose: str
    inserts: bool = False
    """Whether it writes rows."""
    partitions: int = 0
    """How many partitions it writes; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Rows of a state of the base tables that is known exactly, which a later refresh by rows continues from."""

    rows: maintenance.RowsQuery | None = None
    """The query that computes them; None: the definition view does."""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    """The state of each base table, by `base_key`; empty if it can only be compared by `keyed`."""
    states: str = ""
    """As `Basis.states`."""
    filtered: bool = False
    """As `Shown.flagged`."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Hidden columns that the storage table lacks, and their types."""
    keyed: Keyed | None = None
    """As `Basis.keyed`."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The definition's rows."""

    exact: Exact | None = None
    """None: no refresh by rows can follow."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The rows of the current version, and what the changed rows of the base tables add to them."""

    exact: Exact
    appends: bool = False
    """The new version is shown together with the earlier ones."""
    bytes: int = 0
    """Of the files with changed rows, as far as they are known."""
    whole_bytes: int = 0
    """Of the base tables; 0: unknown."""
    again: int = 0
    """How many groups are computed from all rows of the base tables; the others are kept or merged."""
    shuffles: int = 0
    """Into how many partitions Spark shuffles rows; 0: as it is set."""


@dataclass(frozen=True, slots=True)
class PartlyRecomputed:
    """The rows with some values of one column, recomputed, and the others as the current version has them: right only
    if the base tables are still as they were observed."""

    exact: Exact


@dataclass(frozen=True, slots=True)
class Copied:
    """The rows of the current version, which were in several, as one."""

    exact: Exact


@dataclass(frozen=True, slots=True)
class Inherited:
    """The rows of a new definition, computed from those of the view that it replaces."""

    exact: Exact
    view_id: str
    """Of that view."""
    version: int
    """The version of that view."""
    basis: Basis | None
    """As `Contents.basis`, of the same state of the base tables."""
    adds_rest: bool = False
    """Whether rows of the base tables are added that the view does not have: right only if these are still as they were
    observed."""

    @property
    def beside(self) -> str:
        """What is read beside the stored rows, for people; empty if nothing is."""
        return ", and those that it does not have from the base tables" if self.adds_rest else ""


RowSource = Recomputed | Merged | PartlyRecomputed | Copied | Inherited
"""Where the rows of a new version come from."""
PLAINLY = Recomputed()


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """A refresh of one view into a new version: execute `write`, store the properties, then publish."""

    view: MaterializedView
    version: int
    mode: RefreshMode
    reason: str
    chosen: Selection
    written: frozenset[PartitionKey]
    """The partitions that it writes, as far as they are known in advance."""
    left: frozenset[PartitionKey]
    """Partitions that have left the window of partition_sync_limit."""
    renewed: tuple[TableName, ...]
    """Tables whose caches Spark refreshes first."""
    write: tuple[Step, ...]
    source: RowSource
    past: str = ""
    """As `MaterializedView.past`; empty if it copies no immutable rows."""
    route: str = ""
    """Which methods were considered, and why this one was chosen."""
    snapshot: str = ""
    """The commit that has the rows, once they are written; only of open rows."""

    @property
    def appends(self) -> bool:
        """Whether it only adds rows to those of the current version."""
        return isinstance(self.source, Merged) and self.source.appends

    @property
    def wished(self) -> Mapping[str, str]:
        """Settings of Spark with which it is written faster."""
        shuffles = self.source.shuffles if isinstance(self.source, Merged) else 0
        return {SHUFFLES: str(shuffles)} if shuffles else {}

    @property
    def inserts(self) -> int:
        """How many INSERTs write it."""
        return sum(step.inserts for step in self.write)

    @property
    def method(self) -> str:
        return {RefreshMode.PARTIAL: "PARTITIONS"}.get(self.mode, self.mode.value)

    @property
    def manifest(self) -> Manifest:
        return next_manifest(self.view.current.manifest, self.version, self.chosen, self.left)

    def shown(self, present: Iterable[tuple[int, PartitionKey]]) -> Shown:
        """What the public view will show; `present` are the partitions of the storage table."""
        before = self.view.current.shown
        if self.view.layout.open is not None:
            return replace(Shown.only(self.version), snapshot=self.snapshot)
        if not self.view.layout.partitioned:
            shown = before.followed_by(self.version) if self.appends else Shown.only(self.version)
            return replace(shown, flagged=self._filtered)
        everything = self.chosen.everything or not self.view.built
        shown = Shown.only(self.version) if everything else before.followed_by(self.version)
        return self.manifest.shown(replace(shown, flagged=shown.flagged or self._filtered), present)

    @property
    def _filtered(self) -> bool:
        return self.source.exact is not None and self.source.exact.filtered


def plan_refresh(
    view: MaterializedView,
    version: int,
    reason: str,
    habits: Habits,
    *,
    renewed: Iterable[TableName] = (),
    chosen: Selection = ALL,
    known: frozenset[PartitionKey] = frozenset(),
    left: frozenset[PartitionKey] = frozenset(),
    kept: frozenset[PartitionKey] = frozenset(),
    source: RowSource = PLAINLY,
) -> RefreshPlan:
    """`kept` are those of the partitions not to be written that are left out by the condition of immutable rows, and so
    need not be named. `renewed` are tables whose old state Spark may have cached. `known` are partitions that the view
    will have: all known ones if all but some are written, or if refresh_partition_num divides the work.
    """
    write = []
    if habits.caches_listings:
        write.append(Step(maintenance.refresh_listing(view.definition), "see every file of the base tables"))
    renewed = tuple(renewed)
    for table in renewed:
        write.append(Step(maintenance.refresh_listing(table), f"see {table} as it is now"))
    exact = source.exact
    if exact is not None and exact.missing:
        write.append(Step(maintenance.add_columns(view.rows_table, exact.missing), "add columns for later refreshes"))
    if view.clauses.location is not None:
        placed = maintenance.place_version(view.storage, version, view.clauses.location)
        write.append(Step(placed, f"put version {version} below LOCATION"))
    # The first version of a new view has the number that is already the current one.
    past = "" if isinstance(source, Copied) or version == view.current.number else view.past
    written = _written(view, chosen, known, left)
    named = replace(chosen, keys=chosen.keys - kept) if chosen.all_but else chosen
    # Readers of open rows see each statement's commit, so there is one.
    alone = view.layout.open is not None and view.layout.partitioned
    batches = [named] if alone else list(_batches(view, named, written))
    for number, batch in enumerate(batches, 1):
        rows = maintenance.insert_version(
            view.storage,
            _rows(view, source, past, in_place=view.by_partitions and not chosen.everything),
            version,
            view.clauses.clustering,
            view.columns,
            view.layout,
            batch,
            window(view),
            staged=habits.stages_writes,
            stays=_stays(view, source, batch),
        )
        part = f", part {number} of {len(batches)}" if len(batches) > 1 else ""
        count = len(written - batch.keys if batch.all_but else batch.keys)
        write.append(Step(rows, f"write version {version}{part}", inserts=True, partitions=count))
    mode = RefreshMode.COMPLETE if chosen.everything else RefreshMode.PARTIAL
    mode = mode if isinstance(source, Recomputed | Inherited) else RefreshMode.INCREMENTAL
    return RefreshPlan(view, version, mode, reason, chosen, written, left, renewed, tuple(write), source, past)


def _rows(view: MaterializedView, source: RowSource, past: str, *, in_place: bool) -> TableName | maintenance.RowsQuery:
    """What the INSERT reads: immutable rows as the current version has them, unless they stay `in_place`, and the
    source's other rows."""
    exact = source.exact
    rows = view.definition if exact is None or exact.rows is None else exact.rows
    if not past:
        return rows
    if isinstance(rows, TableName):
        rows = maintenance.RowsQuery(maintenance.rows_of_definition(rows, view.columns))
    if in_place or (isinstance(source, Merged) and source.appends):
        return maintenance.rows_meeting(rows, view.columns, f"NOT {past}")
    stored = maintenance.past_rows(view.storage, view.columns, rows.hidden, view.current.shown, view.layout)
    return maintenance.with_past(stored, rows, view.columns, past)


def _stays(view: MaterializedView, source: RowSource, chosen: Selection) -> maintenance.RowsThatStay | None:
    """What a version of open rows has of the current one."""
    if isinstance(source, Merged) and source.appends:
        return maintenance.RowsThatStay()
    if view.layout.open is None or not view.layout.partitioned or chosen.everything or not view.current.shown.snapshot:
        return None
    return maintenance.RowsThatStay(view.current.shown, source.exact.missing if source.exact is not None else {})


def _written(
    view: MaterializedView, chosen: Selection, known: frozenset[PartitionKey], left: frozenset[PartitionKey]
) -> frozenset[PartitionKey]:
    if not chosen.all_but:
        return chosen.keys - left
    cut = view_properties.partitions_together(view.properties) is not None
    return known - chosen.keys if view.layout.partitioned and (cut or not chosen.everything) else frozenset()


def _batches(view: MaterializedView, chosen: Selection, written: frozenset[PartitionKey]) -> Iterator[Selection]:
    """The selection that each INSERT writes: all, or at most refresh_partition_num or NAMED_TOGETHER partitions."""
    size = view_properties.partitions_together(view.properties)
    if size is None and not chosen.all_but and len(chosen.keys) > NAMED_TOGETHER:
        size = NAMED_TOGETHER
    if size is None or not view.layout.partitioned:
        if chosen.all_but or chosen.keys:
            yield chosen
        return
    keys = iter(many.in_order(written, in_order))
    batches = list(iter(lambda: frozenset(islice(keys, size)), frozenset[PartitionKey]()))
    if not chosen.all_but:
        yield from (Selection(batch, all_but=False) for batch in batches)
        return
    yield from (Selection(batch, all_but=False) for batch in batches[:-1])
    # The last batch also has the rows of unknown partitions, which may come from another branch of a UNION.
    yield Selection(chosen.keys.union(*batches[:-1]))


def in_order(key: PartitionKey) -> tuple[bool, str]:
    """The sort key for the order in which partitions are written."""
    return key is not None, key or ""


def window(view: MaterializedView) -> str:
    """The condition that a row is within partition_sync_limit; empty if there is no limit."""
    return _window(view, _moment(view, quote(view.layout.column)))


def window_of_column(view: MaterializedView) -> str:
    """As `window`, for the view's column as `maintenance.partition_keys` names it."""
    return _window(view, _moment(view, maintenance.OF_VIEW))


def window_of_key(view: MaterializedView) -> str:
    """As `window`, for a partition's key as `maintenance.keys_without` names it."""
    if view.layout.holds_column or view.layout.key == MARKED:
        return _window(view, _moment(view, f"CAST({maintenance.KEY} AS {view.layout.kind})"))
    return _window(view, f"CAST({maintenance.KEY} AS TIMESTAMP)")


def _moment(view: MaterializedView, column: str) -> str:
    """The view's column as a timestamp."""
    if view.layout.kind != "string":
        return f"CAST({column} AS TIMESTAMP)"
    pattern = safe_literal(view_properties.date_format(view.properties))
    return f"try_to_timestamp({column}, {pattern})"


def _window(view: MaterializedView, moment: str) -> str:
    """The limit includes or excludes whole partitions."""
    limited = view_properties.partition_window(view.properties)
    if limited is None or not view.layout.partitioned:
        return ""
    return maintenance.within(moment, limited[1], limited[0], view.partitioning.unit)


def plan_publish(view: MaterializedView, shown: Shown) -> Step:
    """The switch alone. With NEVER_BUILT as the version, it empties the view."""
    return Step(
        public_view.publish(view.name, view.storage, view.columns, shown, view.layout),
        f"switch readers from version {view.current.number} to {shown.number}",
    )
