"""What an observation of a base table has seen."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.mv.model.snapshot import Observed
from gateway.mv.ports import Function, Relation
from sql.names import TableName


@dataclass(frozen=True, slots=True)
class Look:
    """One observation of a table: what it looked like."""

    observed: Observed
    began: float
    """By the observer's clock."""
    is_view: bool = False
    relation: Relation | None = None
    """None for functions, for tables that do not exist, and if the metastore did not answer."""
    function: Function | None = None
    root: TableName | None = None
    """The table whose cache Spark must refresh if the name is that of a branch or a metadata table."""
