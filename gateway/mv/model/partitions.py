"""The partitions of a view under Doris' names, as in SHOW PARTITIONS and REFRESH … PARTITIONS."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from gateway.mv.model.view import MaterializedView
from sql.statement import Partitioning
from sql.texts.observation import unescaped
from sql.texts.storage_layout import DEFAULT_PARTITION, PartitionKey, divided, joined, unmarked

NAME_CHARACTERS_MAX = 50
_LEFT_OUT = re.compile(r"[^a-zA-Z0-9,]")


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: its name, its values in Doris' notation, and its number of rows."""

    name: str
    range: str
    rows: int
    values: tuple[str | None, ...] = ()
    """Spark's text of the value of each partition column; empty for views without partitions."""


class Called:
    """Finds partitions by the names that statements use."""

    def __init__(self, partitions: Iterable[Partition], columns: Iterable[str]) -> None:
        self._columns = [column.lower() for column in columns]
        self._named: dict[str, list[Partition]] = {}
        self._of_value: dict[tuple[str, str], list[Partition]] = {}
        for each in partitions:
            self._named.setdefault(each.name, []).append(each)
            for column, value in zip(self._columns, each.values, strict=False):
                if value is not None:
                    self._of_value.setdefault((column, value), []).append(each)

    def __getitem__(self, name: str) -> list[Partition]:
        """The partitions with this name from SHOW PARTITIONS (several may share it), or with Spark's `column=value`; of
        several columns, all with the values in `a=1/b=2`."""
        return self._named.get(name, []) + self._with_values(name)

    def _with_values(self, name: str) -> list[Partition]:
        said = dict(map(_said, name.split("/") if len(self._columns) > 1 else [name]))
        first, *rest = ((column, value) for column, value in said.items())
        found = self._of_value.get(first, [])
        for column, value in rest:
            place = self._columns.index(column) if column in self._columns else None
            found = [each for each in found if place is not None and each.values[place] == value]
        return found


def _said(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    return column.lower() if equals else "", value


def partition(partitioning: Partitioning, values: Sequence[str | None], kinds: Sequence[str], rows: int) -> Partition:
    """The partition of a value for each column (Spark's text, or None for NULL), of the types `kinds`.

    A date is a range to the next one (`p_20231017_20231018`), any other value a list of one (`p_bj`).
    """
    names, ranges = zip(*map(_described, partitioning.parts, values, kinds), strict=True)
    return Partition(_name(",".join(names)), ", ".join(ranges), rows, tuple(values))


def _described(part: Partitioning, value: str | None, kind: str) -> tuple[str, str]:
    """What the name says of a value, and its range."""
    if value is None:
        return "NULL", "(NULL)"
    bounds = _bounds(value, part.unit) if kind == "date" or part.unit else None
    if bounds is None:
        return value, f"('{value}')"
    low, high = bounds
    return f"{low},{high}", f"[('{low}'), ('{high}'))"


class StoredPartitions:
    """Describes the partitions that the storage table of a view keeps."""

    def __init__(self, view: MaterializedView) -> None:
        self._parts = view.layout.parts
        self._kinds = [part.kind for part in self._parts]
        self._by = view.partitioning

    def of(self, key: PartitionKey, rows: int = 0) -> Partition:
        parts = self._parts
        values = [unmarked(part, each) for part, each in zip(parts, divided(key, len(parts)), strict=True)]
        return partition(self._by, values, self._kinds, rows)


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
    version, *rest = path.split("/")
    values = [each.partition("=")[2] for each in rest]
    key = joined([None if each == DEFAULT_PARTITION else unescaped(each) for each in values]) if values else None
    return int(version.partition("=")[2]), key
