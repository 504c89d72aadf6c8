"""The properties of a materialized view: which names are known, what they may say, and what they mean.

Doris' table properties for asynchronous materialized views are the core; other families' names that mean the same
stand beside them. A name without a meaning in Spark is kept and shown. How strict the check of names is depends on the
clause: TBLPROPERTIES is Spark's and takes any name, PROPERTIES, WITH and OPTIONS take only known ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from sql.grammar import intervals
from sql.grammar.cursor import WRONG_VALUE, SyntaxProblem
from sql.grammar.refresh_settings import is_offered
from sql.names import TableName
from sql.statement import Pairs, Trigger, WhenStale
from sql.texts.maintenance import STAGED

OWN_PREFIX = "freshgate."
"""The catalog's own entries stand beside the user's under this prefix, so no user may set one."""
_SESSION_PREFIX = "session."
_RENAMED_SETTINGS = frozenset({"mapred.reduce.tasks", "mapreduce.job.reduces"})
"""Spark sets another setting for these, which resetting them does not set back."""
_OWN_SETTINGS = frozenset(name.lower() for name in STAGED)
"""A refresh depends on them."""
_SETTING_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_NEAR = 0.85
"""How alike (difflib's ratio) an unknown name of TBLPROPERTIES is to a known one when it counts as misspelt."""

_WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_NUMBER = re.compile(r"\d{1,10}(?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Known:
    allowed: str
    """What a value may be, for the message."""
    read: Callable[[str], str | None]
    """The value as it is kept, or None where it is not allowed."""


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


def _one_of(*words: str) -> _Known:
    return _Known(", ".join(words), lambda value: value.upper() if value.upper() in words else None)


_SECONDS = _Known("a number of seconds from 0 on", _number)
_BOOLEAN = _Known("true or false", _boolean)
_TEXT = _Known("any text", _any)

_MEANING: Mapping[str, _Known] = {
    "grace_period": _SECONDS,
    "when_stale": _one_of(*WhenStale),
    "excluded_trigger_tables": _TEXT,
    "async_mv.query_rewrite.consistency_relaxed_tables": _TEXT,
    "refresh_partition_num": _Known("a whole number", _whole),
    "workload_group": _TEXT,
    "partition_sync_limit": _Known("a whole number from 1 on", _from_one),
    "partition_sync_time_unit": _one_of("DAY", "MONTH", "YEAR"),
    "partition_date_format": _TEXT,
    "enable_nondeterministic_function": _BOOLEAN,
    "use_for_rewrite": _BOOLEAN,
    "probe_interval": _SECONDS,
    "max_staleness": _Known(
        "an interval of a fixed length, such as INTERVAL '30' MINUTE",
        lambda value: None if intervals.seconds_of(value) is None else value,
    ),
    "mv_rewrite_staleness_second": _SECONDS,
}
_KEPT: Mapping[str, _Known] = {
    "enable_refresh": _BOOLEAN,
    "refresh_interval_minutes": _Known("a number of minutes", _number),
    "allow_non_incremental_definition": _BOOLEAN,
    **dict.fromkeys(("friendly_name", "labels", "tags", "expiration_timestamp", "kms_key_name"), _TEXT),
    **dict.fromkeys(("rewriting.time.window", "tablespace", "fillfactor", "parallel_workers"), _TEXT),
    **dict.fromkeys(("format_version", "sorted_by", "storage_schema", "data_location", "object_store_layout"), _TEXT),
    **dict.fromkeys(("replication_num", "replication_allocation", "min_load_replica_num", "colocate_with"), _TEXT),
    **dict.fromkeys(("light_schema_change", "enable_duplicate_without_keys_by_default", "in_memory"), _TEXT),
    **dict.fromkeys(("disable_auto_compaction", "enable_single_replica_compaction", "binlog.enable"), _TEXT),
    **dict.fromkeys(("ivm_use_full_keys", "ivm_partition_window_limit", "resource_group", "partition_ttl"), _TEXT),
    **dict.fromkeys(("partition_ttl_number", "partition_refresh_number", "partition_refresh_strategy"), _TEXT),
    **dict.fromkeys(("partition_retention_condition", "auto_refresh_partitions_limit", "refresh_mode"), _TEXT),
    **dict.fromkeys(("excluded_refresh_tables", "query_rewrite_consistency", "transparent_mv_rewrite_mode"), _TEXT),
    **dict.fromkeys(("force_external_table_query_rewrite", "unique_constraints", "foreign_key_constraints"), _TEXT),
}
"""Names of other families that a typed list may hold; they do nothing in Spark."""
_CLAUSES: Mapping[str, _Known] = {
    "format": _one_of("PARQUET", "ORC"),
    "location": _Known("a directory", lambda value: value if value.strip() else None),
    "partitioning": _TEXT,
    "partitioned_by": _TEXT,
    "description": _TEXT,
}
"""Trino's and BigQuery's properties that are clauses elsewhere. CREATE makes them clauses; none is ever stored."""
_RESERVED = frozenset(
    {"location", "provider", "owner", "external", "is_managed_location", "comment", "table_type", "collation"}
)
_RESERVED_PREFIXES = ("view.", "spark.sql.", "transient_")
"""What Spark keeps for itself among the properties of a view: it refuses them, or reads its own state out of them."""
_KEPT_PREFIXES = (
    *("autovacuum_", "vacuum_", "toast.", "toast_", "storage_", "compression", "bloom_filter_", "dynamic_partition."),
    *("parquet.", "parquet_", "orc.", "orc_", "pipelines.", "delta."),
)


def normalised(name: str, value: str, *, free: bool) -> str:
    """The value as it is kept: booleans in small letters, words of a fixed set in capitals, all else as given.

    `free`: the clause takes any name (TBLPROPERTIES). Raises ValueError, with a message for the user, where the name
    or the value is not allowed.
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
    """Raises ValueError, with a message for the user, for a name that may not be set."""
    if free and (name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIXES)):
        raise ValueError(f"the property {name} is Spark's own and cannot be set; choose another name")
    if name.lower().startswith(OWN_PREFIX):
        raise ValueError(f"the property {name} is the catalog's own: names under {OWN_PREFIX} cannot be set")
    if name.startswith(_SESSION_PREFIX) and not _SETTING_NAME.fullmatch(name.removeprefix(_SESSION_PREFIX)):
        raise ValueError(f"illegal key:{name}; behind {_SESSION_PREFIX} stands the name of one of Spark's settings")
    if name.removeprefix(_SESSION_PREFIX).lower() in _RENAMED_SETTINGS:
        raise ValueError(f"illegal key:{name}; write {_SESSION_PREFIX}spark.sql.shuffle.partitions")
    if name.removeprefix(_SESSION_PREFIX).lower() in _OWN_SETTINGS:
        raise ValueError(f"illegal key:{name}; refreshes need this setting as the gateway sets it")
    # StarRocks' session variables have no dots. They are kept, and Spark hears nothing of them.
    setting = name.removeprefix(_SESSION_PREFIX)
    if name.startswith(_SESSION_PREFIX) and "." in setting and not is_offered(setting):
        raise ValueError(
            f"illegal key:{name}; a view sets only what decides plans and results of its query, such as "
            f"{_SESSION_PREFIX}spark.sql.shuffle.partitions"
        )
    if name in _MEANING or name in _KEPT or name.startswith((_SESSION_PREFIX, *_KEPT_PREFIXES)):
        return
    if not free and name in _CLAUSES:
        return
    candidates = list(_MEANING) if free else [*_MEANING, *_KEPT, *_CLAUSES]
    near = get_close_matches(name.lower(), candidates, n=1, cutoff=_NEAR if free else 0.6)
    if free and near:
        raise ValueError(f"the property {name} is not known: did you mean {near[0]}?")
    if not free:
        advice = f"did you mean {near[0]}?" if near else "TBLPROPERTIES takes names of your own"
        raise ValueError(f"illegal key:{name}; {advice}")


def check(pairs: Pairs, *, free: bool, position: int = 0) -> Pairs:
    """The pairs as they are kept. Raises SyntaxProblem (SQLSTATE 22023) at `position`, see `normalised`."""
    try:
        return tuple((name, normalised(name, value, free=free)) for name, value in pairs)
    except ValueError as error:
        raise SyntaxProblem(str(error), position, WRONG_VALUE) from None


# --- what they mean ----------------------------------------------------------------------------------


def grace_seconds(properties: Mapping[str, str]) -> float:
    """How stale a read may be, in seconds: grace_period, else BigQuery's or StarRocks' word for it, else 0.

    A stored value that cannot be read counts as 0, the strictest.
    """
    for name in ("grace_period", "mv_rewrite_staleness_second"):
        if (value := properties.get(name)) is not None:
            return float(value) if _NUMBER.fullmatch(value) else 0.0
    return intervals.seconds_of(properties.get("max_staleness", "")) or 0.0


def session_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for the view's refresh: the properties below `session.`, without that. What is not offered may
    have been stored by somebody else, past the checks, and counts for nothing."""
    below = {
        name.removeprefix(_SESSION_PREFIX): value
        for name, value in properties.items()
        if name.startswith(_SESSION_PREFIX)
    }
    return {name: value for name, value in below.items() if is_offered(name)}


def when_stale(properties: Mapping[str, str], trigger: Trigger | None) -> WhenStale:
    """What a read of the stale view does: the property, else SERVE where it was said what refreshes the view."""
    said = properties.get("when_stale", "").upper()
    if said in list(WhenStale):
        return WhenStale(said)
    return WhenStale.REFRESH if trigger is None else WhenStale.SERVE


def probe_seconds(properties: Mapping[str, str]) -> float | None:
    """How old a look at the base tables may be for a read, in seconds; None where the gateway's setting counts."""
    value = properties.get("probe_interval")
    return float(value) if value is not None and _NUMBER.fullmatch(value) else None


def partitions_together(properties: Mapping[str, str]) -> int | None:
    """Partitions of one INSERT, Doris' refresh_partition_num; None: all. Less than 1 is 1, as in Doris."""
    value = properties.get("refresh_partition_num")
    return max(1, int(value)) if value is not None and _WHOLE.fullmatch(value) else None


def partition_window(properties: Mapping[str, str]) -> tuple[int, str] | None:
    """The last units of partitions that the view holds, and the unit; None where it holds them all."""
    limit = properties.get("partition_sync_limit")
    if limit is None or not _WHOLE.fullmatch(limit):
        return None
    return int(limit), properties.get("partition_sync_time_unit", "DAY")


def date_format(properties: Mapping[str, str]) -> str:
    """How a text partition column writes its date, as Spark's pattern; Doris writes MySQL's, %Y-%m-%d by default.

    Raises ValueError, with a message for the user, for what has no such pattern.
    """
    return "".join(map(_pattern, _PIECES.findall(properties.get("partition_date_format", "%Y-%m-%d"))))


_PIECES = re.compile(r"%.?|[^%]", re.DOTALL)
_PATTERNS = {"%Y": "yyyy", "%y": "yy", "%m": "MM", "%d": "dd", "%H": "HH", "%i": "mm", "%s": "ss", "%S": "ss"}


def _pattern(piece: str) -> str:
    if piece in _PATTERNS:
        return _PATTERNS[piece]
    if piece.startswith("%") or piece.isalpha() or piece in "{}[]#'\\":
        raise ValueError(
            f"valid partition_date_format: {', '.join(_PATTERNS)} and signs between them, such as %Y-%m-%d; "
            f"found '{piece}'"
        )
    return piece


def is_excluded(properties: Mapping[str, str], table: TableName) -> bool:
    """Is the table named by excluded_trigger_tables? Parts that are left out match anything, as in Doris."""
    full = (table.catalog, *table.database.split("."), table.table)
    for name in properties.get("excluded_trigger_tables", "").split(","):
        parts = tuple(part.strip().strip("`").lower() for part in name.split("."))
        if name.strip() and full[-len(parts) :] == parts:
            return True
    return False


def allows_nondeterministic(properties: Mapping[str, str]) -> bool:
    """May the definition call current_date() and its like?"""
    return properties.get("enable_nondeterministic_function", "false").lower() == "true"


def rewrite_enabled(properties: Mapping[str, str]) -> bool:
    """Is the view offered for rewriting queries of its base tables? Shown by SHOW MATERIALIZED VIEWS."""
    return properties.get("use_for_rewrite", "true").lower() == "true"


def is_clause(name: str) -> bool:
    """Is the name, in a list of known ones, a clause of CREATE in other families?"""
    return name in _CLAUSES
