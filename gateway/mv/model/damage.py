"""Views of which somebody dropped or replaced a part, past the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import NoSuchView
from sql.names import TableName

NO_STORAGE = "its storage table was dropped outside the gateway"
NO_VIEW = "its view was dropped or replaced outside the gateway"


@dataclass(frozen=True, slots=True)
class Damage:
    """What is known of such a view."""

    name: TableName
    storage: TableName
    owner: str | None
    problem: str
    droppable: bool = True
    """False for one that a later Freshgate has written: it is not damaged for that."""

    @property
    def advice(self) -> str:
        if not self.droppable:
            return "Nothing of it is changed."
        return f"Run DROP MATERIALIZED VIEW {self.name}, which removes what is left of it, then create it again."


def damaged(damage: Damage) -> NoSuchView:
    """What is said of a view that a statement names."""
    said = f"The materialized view {damage.name} is damaged: {damage.problem.rstrip('.')}. {damage.advice}"
    return NoSuchView(said, sqlstate="58030")
