"""The properties of a materialized view: known names, allowed values and meaning.

Most are Doris' table properties of asynchronous materialized views; other databases' names for the same properties are
also known. Names without a meaning in Spark are stored and shown. TBLPROPERTIES is Spark's clause and takes any name;
PROPERTIES, WITH and OPTIONS take only known names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from sql.grammar import intervals
from sql.grammar.cursor import WRONG_VALUE, SyntaxProblem
from sql.names import TableName
from sql.spark_settings import is_offered
from sql.statement import Consistency, Pairs, Trigger, WhenStale
from sql.texts.maintenance import STAGED

OWN_PREFIX = "freshgate."
"""The prefix of the catalog's entries, which are stored among the user's properties. Users may not set them."""
REWRITE = "use_for_rewrite"
CONSISTENCY = "rewrite_consistency"
IN_MEMORY = "in_memory"
FLOAT_SUMS = "incremental_float_sums"
_SESSION_PREFIX = "session."
_RENAMED_SETTINGS = frozenset({"mapred.reduce.tasks", "mapreduce.job.reduces"})
"""Spark sets another setting instead of these, and RESET of these does not reset it."""
_OWN_SETTINGS = frozenset(name.lower() for name in STAGED)
"""The settings that the gateway sets for a refresh, which depends on them."""
_SETTING_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_NEAR = 0.85
"""The similarity (difflib's ratio) from which an unknown name in TBLPROPERTIES counts as a misspelt known one."""

_WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_NUMBER = re.compile(r"\d{1,10}(?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Property:
    allowed: str
    """Describes the allowed values in messages."""
    read: Callable[[str], str | None]
    """Returns the value as it is stored, or None if it is not allowed."""


def _number(value: str) -> str | None:
    return value if _NUMBER.fullmatch(value) else None


def _whole(value: str) -> str | None:
    return value if _WHOLE.fullmatch(value) else None


def _from_one(value: str) -> str | None:
    return value if _WHOLE.fullmatch(value) and int(value) >= 1 else None


def _boolean(value: str) -> str | None:
    return value.lower() if value.lower() in ("true", "false") else None


def _any(value: str) -> str:
    return value


def _one_of(*words: str) -> _Property:
    return _Property(", ".join(words), lambda value: value.upper() if value.upper() in words else None)


_SECONDS = _Property("a number of seconds, 0 or more", _number)
_BOOLEAN = _Property("true or false", _boolean)
_TEXT = _Property("any text", _any)

_MEANING: Mapping[str, _Property] = {
    "grace_period": _SECONDS,
    "when_stale": _one_of(*WhenStale),
    "excluded_trigger_tables": _TEXT,
    "async_mv.query_rewrite.consistency_relaxed_tables": _TEXT,
    "refresh_partition_num": _Property("a whole number", _whole),
    "workload_group": _TEXT,
    "partition_sync_limit": _Property("a whole number, 1 or more", _from_one),
    "partition_sync_time_unit": _one_of("DAY", "MONTH", "YEAR"),
    "partition_date_format": _TEXT,
    "enable_nondeterministic_function": _BOOLEAN,
    FLOAT_SUMS: _BOOLEAN,
    REWRITE: _BOOLEAN,
    CONSISTENCY: _one_of(*Consistency),
    IN_MEMORY: _BOOLEAN,
    "probe_interval": _SECONDS,
    "max_staleness": _Property(
        "an interval of fixed length, such as INTERVAL '30' MINUTE",
        lambda value: None if intervals.seconds_of(value) is None else value,
    ),
    "mv_rewrite_staleness_second": _SECONDS,
}
_KEPT: Mapping[str, _Property] = {
    "enable_refresh": _BOOLEAN,
    "refresh_interval_minutes": _Property("a number of minutes", _number),
    "allow_non_incremental_definition": _BOOLEAN,
    **dict.fromkeys(("friendly_name", "labels", "tags", "expiration_timestamp", "kms_key_name"), _TEXT),
    **dict.fromkeys(("rewriting.time.window", "tablespace", "fillfactor", "parallel_workers"), _TEXT),
    **dict.fromkeys(("format_version", "sorted_by", "storage_schema", "data_location", "object_store_layout"), _TEXT),
    **dict.fromkeys(("replication_num", "replication_allocation", "min_load_replica_num", "colocate_with"), _TEXT),
    **dict.fromkeys(("light_schema_change", "enable_duplicate_without_keys_by_default"), _TEXT),
    **dict.fromkeys(("disable_auto_compaction", "enable_single_replica_compaction", "binlog.enable"), _TEXT),
    **dict.fromkeys(("ivm_use_full_keys", "ivm_partition_window_limit", "resource_group", "partition_ttl"), _TEXT),
    **dict.fromkeys(("partition_ttl_number", "partition_refresh_number", "partition_refresh_strategy"), _TEXT),
    **dict.fromkeys(("partition_retention_condition", "auto_refresh_partitions_limit", "refresh_mode"), _TEXT),
    **dict.fromkeys(("excluded_refresh_tables", "query_rewrite_consistency", "transparent_mv_rewrite_mode"), _TEXT),
    **dict.fromkeys(("force_external_table_query_rewrite", "unique_constraints", "foreign_key_constraints"), _TEXT),
}
"""Names of other databases that PROPERTIES, WITH and OPTIONS accept; they have no effect in Spark."""
_CLAUSES: Mapping[str, _Property] = {
    "format": _one_of("PARQUET", "ORC"),
    "location": _Property("a directory", lambda value: value if value.strip() else None),
    "partitioning": _TEXT,
    "partitioned_by": _TEXT,
    "description": _TEXT,
}
"""Trino's and BigQuery's properties that other databases write as clauses. CREATE turns them into clauses; none is
stored."""
_RESERVED = frozenset(
    {"location", "provider", "owner", "external", "is_managed_location", "comment", "table_type", "collation"}
)
_RESERVED_PREFIXES = ("view.", "spark.sql.", "transient_")
"""Spark reserves these properties of a view: it refuses to set them, or keeps its own state in them."""
_KEPT_PREFIXES = (
    *("autovacuum_", "vacuum_", "toast.", "toast_", "storage_", "compression", "bloom_filter_", "dynamic_partition."),
    *("parquet.", "parquet_", "orc.", "orc_", "pipelines.", "delta."),
)


def normalised(name: str, value: str, *, free: bool) -> str:
    """The value as it is stored: booleans in lower case, words of a fixed set in upper case, others unchanged.

    `free`: the clause takes any name (TBLPROPERTIES). Raises ValueError, with a message for the user, if the name or
    the value is not allowed.
    """
    check_name(name, free=free)
    known = _MEANING.get(name) or (None if free else _CLAUSES.get(name) or _KEPT.get(name))
    if known is None:
        return value
    kept = known.read(value)
    if kept is None:
        raise ValueError(f"valid {name}: {known.allowed}; found '{value}'")
    return kept


def check_name(name: str, *, free: bool) -> None:
    """Raises ValueError, with a message for the user, if the name may not be set."""
    if free and (name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIXES)):
        raise ValueError(f"the property {name} is reserved by Spark; choose another name")
    if name.lower().startswith(OWN_PREFIX):
        raise ValueError(f"the property {name} is reserved by Freshgate; choose a name without {OWN_PREFIX}")
    if name.startswith(_SESSION_PREFIX) and not _SETTING_NAME.fullmatch(name.removeprefix(_SESSION_PREFIX)):
        raise ValueError(f"illegal key:{name}; the name of one of Spark's settings must follow {_SESSION_PREFIX}")
    if name.removeprefix(_SESSION_PREFIX).lower() in _RENAMED_SETTINGS:
        raise ValueError(f"illegal key:{name}; use {_SESSION_PREFIX}spark.sql.shuffle.partitions")
    if name.removeprefix(_SESSION_PREFIX).lower() in _OWN_SETTINGS:
        raise ValueError(f"illegal key:{name}; refreshes depend on the gateway's value of this setting")
    # StarRocks' session variables have no dots. They are stored but not sent to Spark.
    setting = name.removeprefix(_SESSION_PREFIX)
    if name.startswith(_SESSION_PREFIX) and "." in setting and not is_offered(setting):
        raise ValueError(
            f"illegal key:{name}; a view may set only settings that affect plans and results of its query, and not "
            f"what is written, such as {_SESSION_PREFIX}spark.sql.shuffle.partitions"
        )
    if name in _MEANING or name in _KEPT or name.startswith((_SESSION_PREFIX, *_KEPT_PREFIXES)):
        return
    if not free and name in _CLAUSES:
        return
    candidates = list(_MEANING) if free else [*_MEANING, *_KEPT, *_CLAUSES]
    near = get_close_matches(name.lower(), candidates, n=1, cutoff=_NEAR if free else 0.6)
    if free and near:
        raise ValueError(f"the property {name} is unknown: did you mean {near[0]}?")
    if not free:
        advice = f"did you mean {near[0]}?" if near else "use TBLPROPERTIES for names of your own"
        raise ValueError(f"illegal key:{name}; {advice}")


def check(pairs: Pairs, *, free: bool, position: int = 0) -> Pairs:
    """The pairs as they are stored. Raises SyntaxProblem (SQLSTATE 22023) at `position`; see `normalised`."""
    try:
        return tuple((name, normalised(name, value, free=free)) for name, value in pairs)
    except ValueError as error:
        raise SyntaxProblem(str(error), position, WRONG_VALUE) from None


# --- meaning -----------------------------------------------------------------------------------------


def grace_seconds(properties: Mapping[str, str]) -> float:
    """How stale a read may be, in seconds: grace_period, else BigQuery's or StarRocks' name for it, else 0.

    A stored value that is not a number counts as 0, the strictest value.
    """
    for name in ("grace_period", "mv_rewrite_staleness_second"):
        if (value := properties.get(name)) is not None:
            return float(value) if _NUMBER.fullmatch(value) else 0.0
    interval = properties.get("max_staleness")
    return 0.0 if interval is None else intervals.seconds_of(interval) or 0.0


def session_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for the view's refresh: the properties that begin with `session.`, without this prefix.

    Settings that are not allowed are ignored: someone may have stored them without the gateway's checks.
    """
    below = {
        name.removeprefix(_SESSION_PREFIX): value
        for name, value in properties.items()
        if name.startswith(_SESSION_PREFIX)
    }
    return {name: value for name, value in below.items() if is_offered(name)}


def when_stale(properties: Mapping[str, str], trigger: Trigger | None) -> WhenStale:
    """What a read of the stale view does: the property, else SERVE if the view has a trigger, else REFRESH."""
    given = properties.get("when_stale", "").upper()
    if given and given in list(WhenStale):
        return WhenStale(given)
    return WhenStale.REFRESH if trigger is None else WhenStale.SERVE


def probe_seconds(properties: Mapping[str, str]) -> float | None:
    """The maximum age of an observation for a read, in seconds; None: the gateway's setting applies."""
    value = properties.get("probe_interval")
    return float(value) if value is not None and _NUMBER.fullmatch(value) else None


def partitions_together(properties: Mapping[str, str]) -> int | None:
    """How many partitions one INSERT writes (Doris' refresh_partition_num); None: all. Below 1 means 1, as in Doris."""
    value = properties.get("refresh_partition_num")
    return max(1, int(value)) if value is not None and _WHOLE.fullmatch(value) else None


def partition_window(properties: Mapping[str, str]) -> tuple[int, str] | None:
    """How many recent units of partitions the view holds, and the unit; None: it holds all partitions."""
    limit = properties.get("partition_sync_limit")
    if limit is None or not _WHOLE.fullmatch(limit):
        return None
    return int(limit), properties.get("partition_sync_time_unit", "DAY")


def date_format(properties: Mapping[str, str]) -> str:
    """Spark's pattern for the dates in a partition column of strings. The property has MySQL's format, as in Doris;
    the default is %Y-%m-%d.

    Raises ValueError, with a message for the user, if Spark has no pattern for it.
    """
    return "".join(map(_pattern, _PIECES.findall(properties.get("partition_date_format", "%Y-%m-%d"))))


_PIECES = re.compile(r"%.?|[^%]", re.DOTALL)
_PATTERNS = {"%Y": "yyyy", "%y": "yy", "%m": "MM", "%d": "dd", "%H": "HH", "%i": "mm", "%s": "ss", "%S": "ss"}


def _pattern(piece: str) -> str:
    if piece in _PATTERNS:
        return _PATTERNS[piece]
    if piece.startswith("%") or piece.isalpha() or piece in "{}[]#'\\":
        raise ValueError(
            f"valid partition_date_format: {', '.join(_PATTERNS)} with separators between them, such as %Y-%m-%d; "
            f"found '{piece}'"
        )
    return piece


def is_excluded(properties: Mapping[str, str], table: TableName) -> bool:
    """Whether excluded_trigger_tables names the table. Omitted parts of a name match anything, as in Doris."""
    full = (table.catalog, *table.database.split("."), table.table)
    for name in properties.get("excluded_trigger_tables", "").split(","):
        parts = tuple(part.strip().strip("`").lower() for part in name.split("."))
        if name.strip() and full[-len(parts) :] == parts:
            return True
    return False


def allows_nondeterministic(properties: Mapping[str, str]) -> bool:
    """Whether the definition may call functions such as current_date()."""
    return properties.get("enable_nondeterministic_function", "false").lower() == "true"


def merges_float_sums(properties: Mapping[str, str]) -> bool:
    """Whether a refresh by rows may add new rows to stored sums and averages of FLOAT and DOUBLE. The result is that of
    one of the orders in which Spark itself may add."""
    return properties.get(FLOAT_SUMS, "true").lower() == "true"


def rewrite_enabled(properties: Mapping[str, str]) -> bool:
    """Whether the view may answer queries that do not name it (ENABLE QUERY REWRITE)."""
    return properties.get(REWRITE, "false").lower() == "true"


def in_memory(properties: Mapping[str, str]) -> bool | None:
    """Whether the rows are to be held in memory (IN MEMORY); None: only if the view is read often."""
    return {"true": True, "false": False}.get(properties.get(IN_MEMORY, "").lower())


def consistency(properties: Mapping[str, str]) -> Consistency | None:
    """How fresh the view must be to answer queries that do not name it; None: the default."""
    given = properties.get(CONSISTENCY, "").upper()
    return Consistency(given) if given in list(Consistency) else None


def is_clause(name: str) -> bool:
    """Whether the property replaces a clause that CREATE has in other databases."""
    return name in _CLAUSES
