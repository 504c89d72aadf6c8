"""How the rows of a view lie in its storage table: the versions and partitions that they belong to, and the conditions
that select some of these.

Tests: `test_maintenance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""The text of one of the view's partitions; None is NULL. With several partition columns, their `joined` texts."""
_NULL = "%"
"""NULL in the key of several columns: elsewhere the sign begins %25 or %2F."""


def joined(texts: Sequence[PartitionKey]) -> PartitionKey:
    """The key of a partition of these values of the partition columns."""
    if len(texts) == 1:
        return texts[0]
    return "/".join(_NULL if each is None else each.replace("%", "%25").replace("/", "%2F") for each in texts)


def divided(key: PartitionKey, count: int) -> tuple[PartitionKey, ...]:
    """The values of as many partition columns, of which the key was joined."""
    if count == 1 or key is None:
        return (key,)
    parts = key.split("/")
    return tuple(None if each == _NULL else each.replace("%2F", "/").replace("%25", "%") for each in parts)


def partition_columns(count: int) -> list[str]:
    """The storage's partition columns below the version, for as many of the view's."""
    return [PARTITION_COLUMN if number == 1 else f"{PARTITION_COLUMN}_{number}" for number in range(1, count + 1)]


def _joined_sql(texts: Sequence[str]) -> str:
    """As `joined`, for SQL of strings."""
    if len(texts) == 1:
        return texts[0]
    marked = (f"coalesce(replace(replace({each}, '%', '%25'), '/', '%2F'), '{_NULL}')" for each in texts)
    return f"concat_ws('/', {', '.join(marked)})"


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
    """The table that has the rows instead of the storage table, one commit a version. It has the view's columns, and
    each version has all partitions."""
    further: tuple[StorageLayout, ...] = ()
    """Those of the view's other partition columns."""
    function: str = ""
    """The function of the column that divides the view, as SQL with {} for the column; `kind` is its type and `key` of
    its value. Empty: the column itself."""

    @property
    def parts(self) -> tuple[StorageLayout, ...]:
        """One for each of the view's partition columns; of each, only what concerns its column."""
        return (self, *self.further) if self.column else ()

    @property
    def places(self) -> dict[str, StorageLayout]:
        """The storage's partition columns below the version, in order."""
        return dict(zip(partition_columns(len(self.parts)), self.parts, strict=True))

    @property
    def held(self) -> dict[str, str]:
        """The storage's column for each of the view's that a partition column holds, by name in lower case."""
        if self.open is not None:
            return {}
        return {part.column.lower(): name for name, part in self.places.items() if part.holds_column}

    def key_of(self, column: str) -> str:
        """The key as SQL, if there is one partition column."""
        return self.key.replace(PLACE, column)

    def key_sql(self, columns: Sequence[str]) -> str:
        """A partition's key as SQL of type STRING, of these values of the view's partition columns."""
        texts = [f"CAST({part.key_of(column)} AS STRING)" for part, column in zip(self.parts, columns, strict=True)]
        return _joined_sql(texts)

    @property
    def stored_key(self) -> str:
        """The key as SQL of the storage's partition columns."""
        return _joined_sql([f"CAST({quote(name)} AS STRING)" for name in self.places])

    @property
    def row_key(self) -> str:
        """A row's value of the storage's partition column for this column."""
        return quote(self.column) if self.holds_column else self.key_of(self.row_value)

    @property
    def row_value(self) -> str:
        """What divides the view, of a row."""
        return self.function.replace(PLACE, quote(self.column)) if self.function else quote(self.column)

    def stored(self, columns: Sequence[str]) -> str:
        """The columns that are stored in the files."""
        held = self.held
        if not held:
            return "*"
        return ", ".join(quote(column) for column in columns if column.lower() not in held) or "*"

    def shown(self, columns: Iterable[str]) -> str:
        """The columns as the storage table has them, by their own names."""
        held = self.held
        return ", ".join(
            f"{quote(held[column.lower()])} AS {quote(column)}" if column.lower() in held else quote(column)
            for column in columns
        )

    @property
    def open_by(self) -> tuple[str, ...]:
        """The columns by whose values the table of open rows is divided: those that divide the view themselves."""
        return tuple(part.column for part in self.parts if not part.function and part.key == PLACE)

    @property
    def all_keys(self) -> str:
        """The keys of a row of the view as SQL."""
        return self.key_sql([part.row_value for part in self.parts])

    @property
    def partitioned(self) -> bool:
        return bool(self.column)


UNPARTITIONED = StorageLayout()
MARK = "_"
MARKED = f"CASE WHEN {{}} = '' OR right({{}}, 1) IN (' ', '{MARK}') THEN concat({{}}, '{MARK}') ELSE {{}} END"
"""A layout's key for strings that a metastore would confuse (empty, or with a final blank): it appends a mark. Strings
that end with the mark get another one, so that keys stay distinct."""


def unmarked(layout: StorageLayout, key: PartitionKey) -> PartitionKey:
    """The string that has this key, of one partition column."""
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
    if layout.further:
        text = layout.stored_key
    elif layout.holds_column and layout.kind != "string":
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
    keys = [divided(key, len(layout.parts)) for key in selection.keys]
    met = " OR ".join(_met(keys, layout.parts)) or "false"
    return f"NOT coalesce({met}, false)" if selection.all_but else f"({met})"


def _met(keys: Iterable[Sequence[PartitionKey]], parts: Sequence[StorageLayout]) -> Iterator[str]:
    """Conditions, one of which a row of one of these partitions meets. `keys` have a value for each of the columns.
    Partitions with the same values of all but one column are named together."""
    part = parts[0]
    if len(parts) > 1:
        below: dict[frozenset[tuple[PartitionKey, ...]], set[PartitionKey]] = {}
        of_first: dict[PartitionKey, set[tuple[PartitionKey, ...]]] = {}
        for first, *rest in keys:
            of_first.setdefault(first, set()).add(tuple(rest))
        for first, others in of_first.items():
            below.setdefault(frozenset(others), set()).add(first)
        for same, firsts in sorted(below.items(), key=lambda each: sorted(map(str, each[1]))):
            of_others, of_firsts = _met(same, parts[1:]), _met(((each,) for each in firsts), parts[:1])
            yield f"({' OR '.join(of_firsts)}) AND ({' OR '.join(of_others)})"
        return
    texts = {key for (key,) in keys}
    named = sorted(key for key in texts if key is not None)
    if named and (part.holds_column or (part.function and part.key != MARKED)):
        yield f"{part.row_value} IN ({', '.join(_typed(key, part.kind) for key in named)})"
    elif named:
        yield f"{part.row_key} IN ({', '.join(map(safe_literal, named))})"
    if None in texts:
        yield f"{part.row_key} IS NULL"


def _typed(text: str, kind: str) -> str:
    return safe_literal(text) if kind == "string" else f"CAST({safe_literal(text)} AS {kind})"
