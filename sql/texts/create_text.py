"""Generates CREATE MATERIALIZED VIEW statements, and Doris' short descriptions of a refresh.

`parser.parse` parses the output of `create_statement` back to the same values. SHOW CREATE MATERIALIZED VIEW relies on
it. Names and strings are escaped such that the gateway's parser and Spark's read them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sql.names import SESSION_CATALOG, Namespace, TableName, quote
from sql.statement import (
    Clustering,
    CreateClauses,
    Distribution,
    ListedColumn,
    Pairs,
    Partitioning,
    Reference,
    Refreshing,
    Schedule,
    Trigger,
)
from sql.texts.literals import string_token
from sql.texts.rewrite import splice


def create_statement(
    name: str,
    columns: Sequence[ListedColumn],
    comment: str | None,
    clauses: CreateClauses,
    properties: Mapping[str, str] | Pairs,
    query: str,
) -> str:
    """The CREATE statement with one clause per line. `name` is already quoted, as `TableName.short` is."""
    lines = [f"CREATE MATERIALIZED VIEW {name}{_column_list(columns)}"]
    lines += _clause_lines(clauses)
    if comment is not None:
        lines.append(f"COMMENT {string_token(comment)}")
    pairs = tuple(properties.items()) if isinstance(properties, Mapping) else properties
    if pairs:
        listed = ",\n".join(f"  {string_token(key)} = {string_token(value)}" for key, value in pairs)
        lines.append(f"TBLPROPERTIES (\n{listed})")
    # On the line of AS, the first line of a query would be indented further than its other lines.
    lines += ["AS", query] if "\n" in query else [f"AS {query}"]
    return "\n".join(lines)


def _column_list(columns: Sequence[ListedColumn]) -> str:
    if not columns:
        return ""
    listed = ",\n".join(
        f"  {quote(column.name)}" + ("" if column.comment is None else f" COMMENT {string_token(column.comment)}")
        for column in columns
    )
    return f" (\n{listed})"


def _clause_lines(clauses: CreateClauses) -> Iterator[str]:
    if clauses.deferred:
        yield "BUILD DEFERRED"
    yield from _refreshing_lines(clauses.refreshing)
    if clauses.partitioning is not None:
        words = "PARTITION BY" if clauses.partitioning.follows else "PARTITIONED BY"
        yield f"{words} ({', '.join(map(_partition, clauses.partitioning.parts))})"
    if clauses.distribution is not None:
        yield _distribution(clauses.distribution)
    if clauses.clustering is not None:
        yield _clustering(clauses.clustering)
    if clauses.file_format is not None:
        yield f"USING {clauses.file_format}"
    if clauses.location is not None:
        yield f"LOCATION {string_token(clauses.location)}"
    if clauses.keys:
        yield f"{'DUPLICATE ' if clauses.duplicate else ''}KEY ({_names(clauses.keys)})"
    if clauses.security is not None:
        yield f"SECURITY {clauses.security}"
    if clauses.immutable is not None:
        yield f"IMMUTABLE WHERE ({clauses.immutable})"


def _refreshing_lines(refreshing: Refreshing) -> Iterator[str]:
    schedule = refreshing.schedule
    words = [] if refreshing.method is None else [str(refreshing.method)]
    if refreshing.trigger not in (None, Trigger.LAG) and (schedule is None or schedule.cron is None):
        pace = _at_most(refreshing, string_token) if schedule is None else _every(schedule, string_token)
        words.append(f"ON {refreshing.trigger}{pace}")
    if words:
        yield f"REFRESH {' '.join(words)}"
    if refreshing.trigger is Trigger.LAG:
        yield _lag(refreshing, string_token)
    if schedule is not None and schedule.cron is not None:
        yield f"SCHEDULE{_cron(schedule, string_token)}"


def _partition(partitioning: Partitioning) -> str:
    column = quote(partitioning.column)
    if partitioning.transform:
        return partitioning.transformed(column)
    return column if partitioning.unit is None else f"date_trunc({column}, {string_token(partitioning.unit.lower())})"


def _distribution(distribution: Distribution) -> str:
    if distribution.sorted_by:
        columns, ordered = _names(distribution.columns), _names(distribution.sorted_by)
        return f"CLUSTERED BY ({columns}) SORTED BY ({ordered}) INTO {distribution.buckets} BUCKETS"
    kind = f"HASH({_names(distribution.columns)})" if distribution.columns else "RANDOM"
    return f"DISTRIBUTED BY {kind} BUCKETS {'AUTO' if distribution.buckets is None else distribution.buckets}"


def _clustering(clustering: Clustering) -> str:
    if clustering.sorted_by == clustering.distributed:
        return f"CLUSTER BY ({_names(clustering.distributed)})"
    ordered = f" SORTED ON ({_names(clustering.sorted_by)})" if clustering.sorted_by else ""
    return f"DISTRIBUTED ON ({_names(clustering.distributed)}){ordered}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(quote(name) for name in names)


def qualified(query: str, references: Iterable[Reference], namespace: Namespace) -> str:
    """The query with every unqualified name qualified by its database, so that it means the same in any database.

    `references` are the relations that `lineage.relations` found in `query`, which must be exact. In a catalog other
    than spark_catalog, names of at most two parts also get the catalog.
    """
    catalog = [] if namespace.catalog.lower() == SESSION_CATALOG else [quote(namespace.catalog)]
    prefixes: dict[int, str] = {}
    for reference in references:
        parts = [*catalog, quote(namespace.database)] if len(reference.parts) == 1 else catalog
        is_path = bool(TableName.resolve(reference.parts, namespace).path)
        if len(reference.parts) <= 2 and parts and not is_path:
            prefixes[reference.start] = ".".join(parts) + "."
    return splice(query, [(start, start, prefix) for start, prefix in prefixes.items()])


_UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


def words_of(total: int) -> str:
    """Whole seconds as users write them, in the largest unit of which they are a multiple: `10 minutes`."""
    unit = next(unit for unit, seconds in _UNITS.items() if total % seconds == 0 and total >= seconds)
    number = total // _UNITS[unit]
    return f"{number} {unit}{'s' * (number != 1)}"


# --- Doris' descriptions --------------------------------------------------------------------------------


def refresh_info(clauses: CreateClauses, trigger: str) -> str:
    """RefreshInfo in mv_infos, with the defaults written out: `BUILD IMMEDIATE REFRESH AUTO ON MANUAL`.

    `trigger`: what starts refreshes; READ, which no statement takes, if reads do.
    """
    given = clauses.refreshing
    text = f"BUILD {'DEFERRED' if clauses.deferred else 'IMMEDIATE'} REFRESH {given.method or 'AUTO'}"
    if given.trigger is Trigger.LAG:
        return f"{text} {_lag(given, _double_quoted)}"
    text += f" ON {trigger}{_at_most(given, _double_quoted)}"
    if given.schedule is None:
        return text
    return text + _every(given.schedule, _double_quoted) + _cron(given.schedule, _double_quoted)


def recurring_strategy(clauses: CreateClauses) -> str:
    """RecurringStrategy in jobs: the schedule, the target lag, what AT MOST EVERY says, otherwise `MANUAL TRIGGER`,
    also for ON COMMIT."""
    schedule = clauses.refreshing.schedule
    if clauses.refreshing.trigger is Trigger.LAG:
        return _lag(clauses.refreshing, str)
    if schedule is None:
        return _at_most(clauses.refreshing, str).strip() or "MANUAL TRIGGER"
    return (_every(schedule, str) + _cron(schedule, str)).strip()


def _double_quoted(text: str) -> str:
    return f'"{text}"'


def _lag(refreshing: Refreshing, quoted: Callable[[str], str]) -> str:
    if refreshing.lag is None:
        return "TARGET LAG DOWNSTREAM"
    return f"TARGET LAG {quoted(words_of(refreshing.lag))}{_at_most(refreshing, quoted)}"


def _at_most(refreshing: Refreshing, quoted: Callable[[str], str]) -> str:
    return "" if refreshing.at_most is None else f" AT MOST EVERY {quoted(words_of(refreshing.at_most))}"


def _every(schedule: Schedule, quoted: Callable[[str], str]) -> str:
    if schedule.every is None:
        return ""
    starts = "" if schedule.starts is None else f" STARTS {quoted(schedule.starts)}"
    return f" EVERY {schedule.every} {schedule.unit}{starts}"


def _cron(schedule: Schedule, quoted: Callable[[str], str]) -> str:
    if schedule.cron is None:
        return ""
    zone = "" if schedule.time_zone is None else f" AT TIME ZONE {quoted(schedule.time_zone)}"
    return f" CRON {quoted(schedule.cron)}{zone}"
