"""How the rows of a view lie in its storage table: the versions and partitions that they belong to, and the conditions
that select some of these.

Tests: `test_maintenance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sql.names import quote
from sql.texts.literals import safe_literal
from sql.texts.open_rows import OpenRows

VERSION_COLUMN = "freshgate_version"
"""The storage table's first partition column: the version that a row belongs to."""
PARTITION_COLUMN = "freshgate_partition"
"""The second partition column, if the view itself is partitioned. It does not have the name of the view's column,
because the metastore's partition filter fails for names that begin with an underscore."""
SHOWN_COLUMN = "freshgate_shown"
"""A hidden column of the storage table: whether HAVING includes the row."""
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The metastore's text for NULL as a partition's value."""

PartitionKey = str | None
"""The text of one of the view's own partitions; None is NULL."""


@dataclass(frozen=True, slots=True)
class StorageLayout:
    """How the storage table is partitioned below the version: not at all, or by the view's own partitions."""

    column: str = ""
    """The view's partition column; empty: the view is not partitioned."""
    kind: str = ""
    """The column's type as SQL."""
    key: str = "{}"
    """The partition's key as SQL, with {} for the column."""
    holds_column: bool = False
    """True: the storage's partition column is the view's column, so that filters of queries prune partitions. False: it
    is the key's text, and the column is stored in the files."""
    time_zone: str = ""
    """The time zone in which keys are computed; empty if they do not depend on it."""
    open: OpenRows | None = None
    """The table that has the rows instead of the storage table, one commit a version. Such a view has no partitions."""

    def key_of(self, column: str) -> str:
        return self.key.replace(PLACE, column)

    @property
    def row_key(self) -> str:
        """A row's value of the storage's partition column."""
        return quote(self.column) if self.holds_column else self.key_of(quote(self.column))

    def stored(self, columns: Sequence[str]) -> str:
        """The columns that are stored in the files."""
        if not self.holds_column:
            return "*"
        return ", ".join(quote(column) for column in columns if column.lower() != self.column.lower()) or "*"

    def shown(self, columns: Iterable[str]) -> str:
        """The columns as the storage table has them, by their own names."""
        own = self.column.lower() if self.holds_column else None
        return ", ".join(
            f"{quote(PARTITION_COLUMN)} AS {quote(column)}" if column.lower() == own else quote(column)
            for column in columns
        )

    @property
    def partitioned(self) -> bool:
        return bool(self.column)


UNPARTITIONED = StorageLayout()
MARK = "_"
MARKED = f"CASE WHEN {{}} = '' OR right({{}}, 1) IN (' ', '{MARK}') THEN concat({{}}, '{MARK}') ELSE {{}} END"
"""A layout's key for strings that a metastore would confuse (empty, or with a final blank): it appends a mark. Strings
that end with the mark get another one, so that keys stay distinct."""


def unmarked(layout: StorageLayout, key: PartitionKey) -> PartitionKey:
    """The string that has this key."""
    return key.removesuffix(MARK) if key is not None and layout.key == MARKED else key


PLACE = "{}"
"""The placeholder for a column in SQL templates."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The rows that a public view shows: those of the versions in `ranges`, except the `hidden` partitions, which later
    versions have replaced."""

    number: int
    """The current version."""
    ranges: tuple[tuple[int, int], ...]
    """The first and last version of each range, ascending; the last one is `number`. The ranges contain only published
    versions, because a failed or interrupted refresh may still write rows of its version."""
    hidden: Mapping[int, frozenset[PartitionKey]] = field(default_factory=dict)
    flagged: bool = False
    """Whether SHOWN_COLUMN tells which of the rows are shown: the others are groups that HAVING excludes, kept because
    a later refresh by rows may change them."""
    snapshot: str = ""
    """The commit of open rows that has them; empty if the rows are in the storage table, or there are none."""

    @classmethod
    def only(cls, version: int) -> Shown:
        return cls(version, ((version, version),))

    def followed_by(self, version: int) -> Shown:
        """The same rows and all rows of a further version."""
        *before, (first, last) = self.ranges
        if version == last + 1:
            return replace(self, number=version, ranges=(*before, (first, version)))
        return replace(self, number=version, ranges=(*self.ranges, (version, version)))

    @property
    def versions(self) -> int:
        """How many versions have rows in it, at most."""
        return sum(last - first + 1 for first, last in self.ranges)

    def has(self, version: int) -> bool:
        return any(first <= version <= last for first, last in self.ranges)

    def shows(self, version: int, key: PartitionKey) -> bool:
        return self.has(version) and key not in self.hidden.get(version, ())


@dataclass(frozen=True, slots=True)
class Selection:
    """Some of a view's partitions: `keys`, or all except these."""

    keys: frozenset[PartitionKey] = frozenset()
    all_but: bool = True

    @property
    def everything(self) -> bool:
        return self.all_but and not self.keys


ALL = Selection()


def shown_condition(shown: Shown, layout: StorageLayout) -> str:
    """The condition on partitions, by which Spark prunes them, together with the reader's own filter. The ranges of
    versions are pushed to the metastore. Spark itself excludes hidden partitions; they are grouped by version, so that
    each group is one set."""
    flag = _flag(layout) if shown.flagged else ""
    if shown.ranges == ((shown.number, shown.number),) and not shown.hidden:
        return f"{VERSION_COLUMN} = {shown.number}{flag}"
    ranges = " OR ".join(f"{VERSION_COLUMN} BETWEEN {first} AND {last}" for first, last in shown.ranges)
    predicate = f"{VERSION_COLUMN} <= {shown.number} AND ({ranges})"
    if shown.hidden:
        groups = " ".join(
            f"WHEN {version} THEN {_none_of(keys, layout)}" for version, keys in sorted(shown.hidden.items())
        )
        predicate += f" AND CASE {VERSION_COLUMN} {groups} ELSE true END"
    return predicate + flag


def _flag(layout: StorageLayout) -> str:
    """Partitions that were recomputed without hidden columns have only rows that are shown."""
    return f" AND coalesce({SHOWN_COLUMN}, true)" if layout.partitioned else f" AND {SHOWN_COLUMN}"


def _none_of(keys: Iterable[PartitionKey], layout: StorageLayout) -> str:
    """The condition that the storage's partition is none of these."""
    text = quote(PARTITION_COLUMN)
    if layout.holds_column and layout.kind != "string":
        text = f"CAST({text} AS STRING)"
    named = sorted(key for key in keys if key is not None)
    conditions = [f"coalesce({text} NOT IN ({', '.join(map(safe_literal, named))}), true)"] if named else []
    if None in keys:
        conditions.append(f"{quote(PARTITION_COLUMN)} IS NOT NULL")
    return " AND ".join(conditions)


def selected(selection: Selection, layout: StorageLayout) -> str:
    """The condition on the definition's rows for the selected partitions; empty for all.

    It compares the view's column itself, so that Spark pushes the condition down to the base table's partitions.
    """
    if selection.everything:
        return ""
    named = sorted(key for key in selection.keys if key is not None)
    column = quote(layout.column)
    conditions = []
    if named and layout.holds_column:
        conditions.append(f"{column} IN ({', '.join(_typed(key, layout.kind) for key in named)})")
    elif named:
        conditions.append(f"{layout.row_key} IN ({', '.join(map(safe_literal, named))})")
    if None in selection.keys:
        conditions.append(f"{layout.row_key} IS NULL")
    met = " OR ".join(conditions) or "false"
    return f"NOT coalesce({met}, false)" if selection.all_but else f"({met})"


def _typed(text: str, kind: str) -> str:
    return safe_literal(text) if kind == "string" else f"CAST({safe_literal(text)} AS {kind})"
