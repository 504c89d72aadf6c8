"""What a refresh will do, as a value. Deciding it has no effect; `executor` carries it out."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.mv.model import MaterializedView
from sql import maintenance


@dataclass(frozen=True, slots=True)
class Step:
    """One statement for Spark, and what it is for."""

    sql: str
    purpose: str


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """A refresh of one view into a new version: `write` first, then the properties are stored, then `publish`."""

    view: MaterializedView
    version: int
    method: str
    reason: str
    write: tuple[Step, ...]
    publish: Step


def plan_refresh(view: MaterializedView, version: int, reason: str, *, renew_listing: bool) -> RefreshPlan:
    """A complete refresh. `renew_listing`: Spark's sessions may hold old file listings of the base tables."""
    write = []
    if renew_listing:
        write.append(Step(maintenance.refresh_listing(view.definition), "see every file of the base tables"))
    if view.clauses.location is not None:
        placed = maintenance.place_version(view.storage, version, view.clauses.location)
        write.append(Step(placed, f"put version {version} where LOCATION says"))
    rows = maintenance.insert_version(view.storage, view.definition, version, view.clauses.clustering)
    write.append(Step(rows, f"write version {version}"))
    return RefreshPlan(
        view=view,
        version=version,
        method="COMPLETE",
        reason=reason,
        write=tuple(write),
        publish=plan_publish(view, version),
    )


def plan_publish(view: MaterializedView, version: int) -> Step:
    """The switch alone; NEVER_BUILT as the version empties the view."""
    return Step(
        maintenance.publish(view.name, view.storage, view.columns, version),
        f"switch readers from version {view.current.number} to {version}",
    )
