"""What is told of views: values that `reports` collects and `events` writes.

Tests: `test_lineage_reports`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from gateway.lineage.dataset_names import DatasetName, NamedDataset
from gateway.mv.freshness.news import Life
from gateway.mv.model.view import MaterializedView, Task, TaskStatus
from sql.column_lineage import ColumnLineage
from sql.names import TableName

NESTED_MAX = 50
"""How many types within each other are told."""
_TYPE_NAMES = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "timestamp_ltz": "timestamp",
    "varchar": "string",
    "char": "string",
}
"""Spark's names of types where they differ from those of SQL."""

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Names, and types as Spark's JSON."""


class RunState(StrEnum):
    """The words of OpenLineage."""

    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class RunTold:
    """A refresh has begun to write, or has ended."""

    state: RunState
    view: MaterializedView
    """As it is then."""
    task: Task
    creates: bool = False
    """Whether it is the first refresh of a new view, which its CREATE makes."""


@dataclass(frozen=True, slots=True)
class LifeTold:
    """A view was created without rows, or altered, renamed or dropped."""

    life: Life
    view: MaterializedView
    before: TableName
    """Its name before that."""
    at: int
    """In milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class ToldColumn:
    """`fields` are the parts of a struct, a map or an array, by Spark's names of them."""

    name: str
    type: str
    fields: tuple[ToldColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class Input:
    """A base table, or the storage table of a view below."""

    table: TableName
    named: NamedDataset
    columns: Columns = ()
    version: str = ""
    """Of a format whose tables have versions; empty if it is not known."""
    is_view: bool = False


@dataclass(frozen=True, slots=True)
class ToldLineage:
    found: ColumnLineage
    names: Mapping[TableName, DatasetName]
    """Of all tables in it."""


@dataclass(frozen=True, slots=True)
class DescribedView:
    """What Spark tells of a view and of what it reads."""

    output: NamedDataset | None = None
    """The view itself; None if it is not known where its rows are."""
    inputs: tuple[Input, ...] = ()
    columns: Columns = ()
    lineage: ToldLineage | None = None
    """What the columns are computed from; None if it is not known."""
    engine: str = ""
    """Spark's version; empty if it is not known."""
    before: DatasetName | None = None
    """The name in the metastore that a renamed view had."""


def state_of(status: TaskStatus) -> RunState:
    """How a task that has ended is told."""
    return {TaskStatus.SUCCESS: RunState.COMPLETE, TaskStatus.FAILED: RunState.FAIL}.get(status, RunState.ABORT)


def columns_of(columns: Columns) -> tuple[ToldColumn, ...]:
    """Columns with the types that openlineage-spark tells of them."""
    return tuple(_column(name, json.loads(kind)) for name, kind in columns)


def _column(name: str, kind: Mapping[str, Any], depth: int = 0) -> ToldColumn:
    title, below = str(kind.get("name", "")), list[tuple[str, Any]]()
    if title == "struct":
        below = [(str(each["name"]), each["type"]) for each in kind.get("fields", ())]
    elif title == "array":
        below = [("_element", kind.get("element_type"))]
    elif title == "map":
        below = [("key", kind.get("key_type")), ("value", kind.get("value_type"))]
    elif title == "decimal":
        title = f"decimal({kind.get('precision')},{kind.get('scale')})"
    inner = [(part, each) for part, each in below if isinstance(each, Mapping) and depth < NESTED_MAX]
    return ToldColumn(
        name, _TYPE_NAMES.get(title, title), tuple(_column(part, each, depth + 1) for part, each in inner)
    )
