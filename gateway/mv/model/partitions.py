"""The partitions of a view under Doris' names, as in SHOW PARTITIONS and REFRESH … PARTITIONS."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from gateway.mv.model.view import MaterializedView
from sql.statement import Partitioning
from sql.texts.observation import unescaped
from sql.texts.storage_layout import DEFAULT_PARTITION, PartitionKey, unmarked

NAME_CHARACTERS_MAX = 50
_LEFT_OUT = re.compile(r"[^a-zA-Z0-9,]")


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: its name, its values in Doris' notation, and its number of rows."""

    name: str
    range: str
    rows: int
    value: str | None = None
    """Spark's text of the value; None for NULL and for views without partitions."""


class Called:
    """Finds partitions by the names that statements use."""

    def __init__(self, partitions: Iterable[Partition], column: str) -> None:
        self._column = column.lower()
        self._named: dict[str, list[Partition]] = {}
        self._of_value: dict[str, list[Partition]] = {}
        for each in partitions:
            self._named.setdefault(each.name, []).append(each)
            if each.value is not None:
                self._of_value.setdefault(each.value, []).append(each)

    def __getitem__(self, name: str) -> list[Partition]:
        """The partitions with this name from SHOW PARTITIONS (several may share it), or with Spark's `column=value`."""
        said, equals, value = name.partition("=")
        of_value = self._of_value.get(value, []) if equals and said.lower() == self._column else []
        return self._named.get(name, []) + of_value


def partition(partitioning: Partitioning, value: str | None, kind: str, rows: int) -> Partition:
    """The partition of a value (Spark's text, or None for NULL) of the type `kind`.

    A date is a range to the next one (`p_20231017_20231018`), any other value a list of one (`p_bj`).
    """
    if value is None:
        return Partition("p_NULL", "(NULL)", rows)
    bounds = _bounds(value, partitioning.unit) if kind == "date" or partitioning.unit else None
    if bounds is None:
        return Partition(_name(value), f"('{value}')", rows, value)
    low, high = bounds
    return Partition(_name(f"{low},{high}"), f"[('{low}'), ('{high}'))", rows, value)


def of_key(view: MaterializedView, key: PartitionKey, rows: int = 0) -> Partition:
    """The partition that the storage table keeps under this key."""
    partitioning = view.clauses.partitioning or Partitioning(view.layout.column)
    return partition(partitioning, unmarked(view.layout, key), view.layout.kind, rows)


def _bounds(value: str, unit: str | None) -> tuple[str, str] | None:
    try:
        if unit is None:
            day = date.fromisoformat(value)
            return value, str(day + timedelta(days=1))
        moment = datetime.fromisoformat(value)
        high = _after(moment, unit)
    except (ValueError, OverflowError):
        return None
    if unit == "HOUR":
        return str(moment.replace(tzinfo=None)), str(high.replace(tzinfo=None))
    return str(moment.date()), str(high.date())


def _after(moment: datetime, unit: str) -> datetime:
    match unit:
        case "HOUR":
            return moment + timedelta(hours=1)
        case "DAY":
            return moment + timedelta(days=1)
        case "WEEK":
            return moment + timedelta(weeks=1)
    months = moment.year * 12 + moment.month - 1 + {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
    return moment.replace(year=months // 12, month=months % 12 + 1, day=1)


def _name(description: str) -> str:
    """Doris' rule, except that a long name ends with a digest of the description instead of a hash and the time."""
    name = "p_" + _LEFT_OUT.sub("", description).replace(",", "_")
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    return name[:30] + hashlib.sha256(description.encode()).hexdigest()[:16]


def stored_partition(path: str) -> tuple[int, PartitionKey]:
    """Splits a storage table's partition, as SHOW PARTITIONS writes it, into version and key:
    `freshgate_version=8/freshgate_partition=a%2Fb`, or the version alone."""
    version, _, rest = path.partition("/")
    value = rest.partition("=")[2]
    key = None if not rest or value == DEFAULT_PARTITION else unescaped(value)
    return int(version.partition("=")[2]), key
