"""Views whose storage table, stored rows or public view were changed outside the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import NoSuchView, NotFresh
from sql.names import TableName

NO_STORAGE = "its storage table was dropped outside the gateway"
NO_VIEW = "its view was dropped or replaced outside the gateway"


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged view, as far as it can still be described."""

    name: TableName
    storage: TableName
    owner: str | None
    problem: str
    droppable: bool = True
    """False for a view that a newer Freshgate wrote: such a view is not damaged."""

    @property
    def advice(self) -> str:
        if not self.droppable:
            return "It is left unchanged."
        return f"Run DROP MATERIALIZED VIEW {self.name}, which removes what is left of it, then create it again."


def damaged(damage: Damage) -> NoSuchView:
    """The error for a statement that names a damaged view."""
    message = f"The materialized view {damage.name} is damaged: {damage.problem.rstrip('.')}. {damage.advice}"
    return NoSuchView(message, sqlstate="58030")


def changed(name: TableName, problem: str) -> NotFresh:
    """The error for a read of a view whose stored rows were changed, and which a read does not refresh."""
    message = (
        f"The materialized view {name} is damaged: {problem}. Run REFRESH MATERIALIZED VIEW {name}, which computes its "
        f"rows anew."
    )
    return NotFresh(message, sqlstate="58030")


def changed_version(name: TableName, version: int) -> NotFresh:
    """The error for a read of a version whose stored rows were changed."""
    message = (
        f"Version {version} of the materialized view {name} is damaged: its stored rows were changed outside the "
        f"gateway. Read the current version: without a clause, or after the end of the transaction."
    )
    return NotFresh(message, sqlstate="58030")
