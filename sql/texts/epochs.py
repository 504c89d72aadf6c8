"""The epochs of gateways: views in the storage database. The gateway whose epoch stands changes materialized views.

`CREATE VIEW` is the statement of Spark that only one of several gateways can carry out: it fails if the view exists.
So a successor creates the epoch with the next number, and drops those before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sql.names import TableName
from sql.texts.maintenance import property_list

PATTERN = "freshgate_epoch_*"
"""What `SHOW VIEWS` takes for the names of epochs."""
_NAME = re.compile(r"freshgate_epoch_([1-9]\d*)")


def epoch_view(database: str, number: int) -> TableName:
    return TableName(database, f"freshgate_epoch_{number}")


def epochs_in(database: str, names: Iterable[str]) -> list[TableName]:
    """The epochs among the names of tables and views of the storage database, in the order of their numbers."""
    return sorted((TableName(database, name) for name in names if is_epoch(name)), key=number_of)


def is_epoch(name: str) -> bool:
    """Whether a table or view of the storage database with this name is an epoch."""
    return _NAME.fullmatch(name) is not None


def number_of(epoch: TableName) -> int:
    return int(epoch.table.rpartition("_")[2])


def create_epoch(epoch: TableName, properties: Mapping[str, str]) -> str:
    """Fails if it exists."""
    return f"CREATE VIEW {epoch.quoted} TBLPROPERTIES ({property_list(properties)}) AS SELECT 1 AS freshgate_epoch"
