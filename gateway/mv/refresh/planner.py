"""What a refresh will do, as a value. Deciding it has no effect; `executor` carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from gateway.mv import many
from gateway.mv.freshness.drift import next_manifest
from gateway.mv.model.view import Manifest, MaterializedView, RefreshMode
from gateway.mv.refresh.habits import Habits
from sql.grammar import view_properties
from sql.names import TableName, quote
from sql.texts import maintenance
from sql.texts.maintenance import ALL, PartitionKey, Selection, Shown
from sql.texts.rewrite import safe_literal

NAMED_TOGETHER = 200
"""Partitions that one INSERT names. Spark hands a list to the metastore as one comparison in another, and that has been
seen to overflow its stack at 1,000."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement for Spark, and what it is for."""

    sql: str
    purpose: str
    inserts: bool = False
    """Whether it writes rows."""
    partitions: int = 0
    """How many partitions it writes, where they are known."""


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """A refresh of one view into a new version: `write` first, then the properties are stored, then `publish`."""

    view: MaterializedView
    version: int
    mode: RefreshMode
    reason: str
    chosen: Selection
    written: frozenset[PartitionKey]
    """The partitions that it writes, as far as they are known before."""
    left: frozenset[PartitionKey]
    """Partitions that have left the window of partition_sync_limit."""
    renewed: tuple[TableName, ...]
    """Tables that Spark is told to look at anew first."""
    write: tuple[Step, ...]

    @property
    def inserts(self) -> int:
        """How many INSERTs write it."""
        return sum(step.inserts for step in self.write)

    @property
    def method(self) -> str:
        return "COMPLETE" if self.mode is RefreshMode.COMPLETE else "PARTITIONS"

    @property
    def manifest(self) -> Manifest:
        return next_manifest(self.view.current.manifest, self.version, self.chosen, self.left)

    def shown(self, present: Iterable[tuple[int, PartitionKey]]) -> Shown:
        """What the public view shows then; `present` are the partitions that the storage has."""
        if not self.view.layout.partitioned:
            return Shown.only(self.version)
        before = self.view.current.shown
        everything = self.chosen.everything or not self.view.built
        shown = Shown.only(self.version) if everything else before.followed_by(self.version)
        return self.manifest.shown(shown, present)


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
) -> RefreshPlan:
    """`renewed` are tables that Spark may remember as they were, so that it must be told. `known` are partitions
    that the view will have; where all but some are written, or refresh_partition_num cuts the work, all that anybody
    knows of.
    """
    write = []
    if habits.caches_listings:
        write.append(Step(maintenance.refresh_listing(view.definition), "see every file of the base tables"))
    renewed = tuple(renewed)
    for table in renewed:
        write.append(Step(maintenance.refresh_listing(table), f"see {table} as it is now"))
    if view.clauses.location is not None:
        placed = maintenance.place_version(view.storage, version, view.clauses.location)
        write.append(Step(placed, f"put version {version} where LOCATION says"))
    written = _written(view, chosen, known, left)
    batches = list(_batches(view, chosen, written))
    for number, batch in enumerate(batches, 1):
        rows = maintenance.insert_version(
            view.storage,
            view.definition,
            version,
            view.clauses.clustering,
            view.columns,
            view.layout,
            batch,
            window(view),
            staged=habits.stages_writes,
        )
        part = f", part {number} of {len(batches)}" if len(batches) > 1 else ""
        count = len(written - batch.keys if batch.all_but else batch.keys)
        write.append(Step(rows, f"write version {version}{part}", inserts=True, partitions=count))
    mode = RefreshMode.COMPLETE if chosen.everything else RefreshMode.PARTIAL
    return RefreshPlan(view, version, mode, reason, chosen, written, left, renewed, tuple(write))


def _written(
    view: MaterializedView, chosen: Selection, known: frozenset[PartitionKey], left: frozenset[PartitionKey]
) -> frozenset[PartitionKey]:
    if not chosen.all_but:
        return chosen.keys - left
    cut = view_properties.partitions_together(view.properties) is not None
    return known - chosen.keys if view.layout.partitioned and (cut or not chosen.everything) else frozenset()


def _batches(view: MaterializedView, chosen: Selection, written: frozenset[PartitionKey]) -> Iterator[Selection]:
    """What each INSERT writes: all, or as many partitions as refresh_partition_num says, or the metastore can take."""
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
    # The last one has rows of partitions that nobody knows yet, too: they may come from another branch of a UNION.
    yield Selection(chosen.keys.union(*batches[:-1]))


def in_order(key: PartitionKey) -> tuple[bool, str]:
    """Sorts partitions as they are written."""
    return key is not None, key or ""


def window(view: MaterializedView) -> str:
    """The condition that a row lies within what partition_sync_limit says; empty where there is no such limit."""
    return _window(view, _moment(view, quote(view.layout.column)))


def window_of_column(view: MaterializedView) -> str:
    """The same of the view's column as `maintenance.partition_keys` names it."""
    return _window(view, _moment(view, maintenance.OF_VIEW))


def window_of_key(view: MaterializedView) -> str:
    """The same of a partition's key as `maintenance.keys_without` names it."""
    if view.layout.holds_column or view.layout.key == maintenance.MARKED:
        return _window(view, _moment(view, f"CAST({maintenance.KEY} AS {view.layout.kind})"))
    return _window(view, f"CAST({maintenance.KEY} AS TIMESTAMP)")


def _moment(view: MaterializedView, column: str) -> str:
    """The time of the view's column."""
    if view.layout.kind != "string":
        return f"CAST({column} AS TIMESTAMP)"
    pattern = safe_literal(view_properties.date_format(view.properties))
    return f"try_to_timestamp({column}, {pattern})"


def _window(view: MaterializedView, moment: str) -> str:
    """Whole partitions stay, or go."""
    limited = view_properties.partition_window(view.properties)
    if limited is None or not view.layout.partitioned:
        return ""
    unit = view.clauses.partitioning.unit if view.clauses.partitioning else None
    return maintenance.within(moment, limited[1], limited[0], unit)


def plan_publish(view: MaterializedView, shown: Shown) -> Step:
    """The switch alone; NEVER_BUILT as the version empties the view."""
    return Step(
        maintenance.publish(view.name, view.storage, view.columns, shown, view.layout),
        f"switch readers from version {view.current.number} to {shown.number}",
    )
