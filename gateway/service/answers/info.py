"""Results of SHOW …, DESCRIBE and EXPLAIN. Each function builds a Result from its arguments.

Tests: `test_metadata`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gateway.errors import without_cause
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.troubles import way_out_of_pause
from gateway.mv.model.residence import Held, Residence
from gateway.mv.model.view import MaterializedView, State, Task, TaskStatus, base_key
from gateway.mv.refresh.planner import plan_publish
from gateway.mv.refresh.proposal import RefreshProposal, StandingPartition
from gateway.mv.refresh.refreshed_sets import RefreshedView
from gateway.mv.versions.kept import KeptVersion
from gateway.mv.versions.measures import Measure
from gateway.service.operations.operation import Result
from gateway.wire.rowset import ResultColumn, Type
from sql import wildcards
from sql.grammar import view_properties
from sql.lexed import Lexed
from sql.names import TableName, quote
from sql.reading import lineage
from sql.statement import CreateClauses, Refreshing, ShowCreate, Trigger, WhenStale
from sql.texts import create_text, indentation
from sql.texts.storage_layout import PartitionKey

SHOW_COLUMNS = (
    ResultColumn("database_name", comment="Database of the materialized view"),
    ResultColumn("name", comment="Name of the materialized view"),
    ResultColumn(
        "freshness", comment="FRESH, FRESH_WITHIN_GRACE, STALE when a base table changed, UNKNOWN, or DAMAGED"
    ),
    ResultColumn("version", Type.BIGINT, "Number of the current version, 0 before the first refresh"),
    ResultColumn("last_refresh_time", Type.TIMESTAMP, "When the current version was published, UTC"),
    ResultColumn("owner", comment="Owner of the materialized view"),
    ResultColumn("mode", comment="What starts a refresh, and for how long the rows count as valid, in Hive's words"),
    ResultColumn("comment", comment="Comment of the materialized view; of a damaged one, what is wrong"),
    ResultColumn("security", comment="By whose rights its rows are shown: DEFINER or INVOKER"),
    ResultColumn("memory", comment="LOADED, LOADING, WAITING or NOT_LOADED if its rows are to be in memory"),
    ResultColumn("job", comment="RUNNING or PAUSED: whether the gateway refreshes it by itself, and if not, why"),
)
PARTITION_COLUMNS = (
    ResultColumn("PartitionId", Type.BIGINT),
    ResultColumn("PartitionName"),
    ResultColumn("VisibleVersion", Type.BIGINT),
    ResultColumn("VisibleVersionTime"),
    ResultColumn("State"),
    ResultColumn("PartitionKey"),
    ResultColumn("Range"),
    ResultColumn("SyncWithBaseTables", Type.BOOLEAN),
    ResultColumn("UnsyncTables"),
    ResultColumn("RowCount", Type.BIGINT),
)
VERSION_COLUMNS = (
    ResultColumn("version", Type.BIGINT, "Number of the version, for VERSION AS OF"),
    ResultColumn("state", comment="CURRENT, KEPT, or WRITING while a refresh writes it"),
    ResultColumn("refresh_method", comment="How it was computed"),
    ResultColumn("started_at", Type.TIMESTAMP, "When its refresh began to read, UTC"),
    ResultColumn("published_at", Type.TIMESTAMP, "When it became visible to reads, UTC"),
    ResultColumn("retired_at", Type.TIMESTAMP, "When the next version replaced it, UTC"),
    ResultColumn("row_count", Type.BIGINT, "Number of rows"),
    ResultColumn("size_bytes", Type.BIGINT, "Bytes of its files; versions share the files of unchanged partitions"),
    ResultColumn("readers", Type.BIGINT, "Open statements and transactions that may read it, through this gateway"),
)
DESCRIBE_COLUMNS = (ResultColumn("col_name"), ResultColumn("data_type"), ResultColumn("comment"))
PROPERTY_COLUMNS = (ResultColumn("key"), ResultColumn("value"))
PLAN_COLUMNS = (ResultColumn("plan"),)


# --- SHOW MATERIALIZED VIEWS ---------------------------------------------------------------------------


def show(catalog: Catalog, database: str | None, pattern: str | None) -> Result:
    """SHOW MATERIALIZED VIEWS; `database` None means all databases."""
    matches = wildcards.matcher(pattern)
    rows = [
        _show_row(catalog, view)
        for view in catalog.views()
        if database in {None, view.name.database} and matches(view.name.table)
    ]
    rows += [
        (
            damage.name.database,
            damage.name.table,
            "DAMAGED",
            None,
            None,
            damage.owner,
            None,
            damage.problem,
            None,
            None,
            None,
        )
        for damage in catalog.damaged.values()
        if database in {None, damage.name.database} and matches(damage.name.table)
    ]
    return listed(rows)


def listed(rows: Iterable[tuple[str | int | datetime | None, ...]]) -> Result:
    """The result of SHOW MATERIALIZED VIEWS with these rows."""
    return Result(SHOW_COLUMNS, list(rows))


def _show_row(catalog: Catalog, view: MaterializedView) -> tuple[str | int | datetime | None, ...]:
    residence = catalog.residences.of(view)
    return (
        view.name.database,
        view.name.table,
        catalog.freshness(view.id).value,
        view.current.number,
        moment(view.current.published_at) if view.built else None,
        view.owner,
        _mode(view),
        view.comment,
        view.security.value,
        residence.held.value if residence else None,
        job(view),
    )


def job(view: MaterializedView) -> str:
    """Whether the view's job is paused, why, and what to do."""
    if not view.paused:
        return "RUNNING"
    return f"PAUSED: {view.paused_because}. {way_out_of_pause(view)}" if view.paused_because else "PAUSED"


def show_versions(kept: Iterable[KeptVersion], measures: Mapping[int, Measure], writing: int | None) -> Result:
    """SHOW MATERIALIZED VIEW VERSIONS, newest first."""
    rows: list[tuple[str | int | datetime | None, ...]] = [
        (
            each.version.number,
            "KEPT" if each.retired_at else "CURRENT",
            each.version.method,
            moment(each.version.started_at),
            moment(each.version.published_at),
            moment(each.retired_at) if each.retired_at else None,
            measures.get(each.version.number, Measure(0, 0)).rows,
            measures.get(each.version.number, Measure(0, 0)).bytes,
            each.readers,
        )
        for each in kept
    ]
    if writing is not None:
        rows.append((writing, "WRITING", None, None, None, None, None, None, 0))
    return Result(VERSION_COLUMNS, rows[::-1])


def _mode(view: MaterializedView) -> str:
    """The mode, in Hive's words if there are any."""
    mode = "Refresh on read" if trigger_of(view) == "READ" else _triggered(view.clauses.refreshing)
    if not view.grace_ms:
        return f"{mode} (Valid until source tables modified)"
    minutes, rest = divmod(view.grace_ms, 60_000)
    return f"{mode} (Valid for {view.grace_ms / 1000:g}s)" if rest else f"{mode} (Valid for {minutes}min)"


def _triggered(refreshing: Refreshing) -> str:
    mode = _MODES[refreshing.trigger or Trigger.MANUAL]
    if refreshing.trigger is Trigger.LAG:
        lag = refreshing.lag
        mode = "Refresh for the views that read it" if lag is None else f"{mode} of {create_text.words_of(lag)}"
    floor = refreshing.at_most
    return mode if floor is None else f"{mode}, at most every {create_text.words_of(floor)}"


def trigger_of(view: MaterializedView) -> str:
    """What starts refreshes: READ if no trigger is set and reads refresh the view."""
    return trigger_word(view.clauses.refreshing.trigger, view.when_stale)


def trigger_word(trigger: Trigger | None, when_stale: WhenStale) -> str:
    """The same for a view with this trigger."""
    return "READ" if trigger is None and when_stale is WhenStale.REFRESH else (trigger or Trigger.MANUAL).value


_MODES = {
    Trigger.MANUAL: "Manual refresh",
    Trigger.SCHEDULE: "Refresh by schedule",
    Trigger.COMMIT: "Refresh on commit",
    Trigger.LAG: "Refresh by target lag",
}


def base_names(catalog: Catalog, view: MaterializedView) -> Iterable[str]:
    """The names of the base tables and materialized views that a view reads."""
    names: set[TableName] = set(view.tables)
    names.update(entry.view.name for base in view.views if (entry := catalog.find(base)))
    return map(str, sorted(names))


def moment(milliseconds: int) -> datetime:
    """The time in UTC without a time zone, like a TIMESTAMP on the wire."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)


def time_text(milliseconds: int) -> str:
    """The time in UTC, to the second."""
    return moment(milliseconds).strftime("%Y-%m-%d %H:%M:%S")


# --- one view ------------------------------------------------------------------------------------------


def show_create(statement: ShowCreate, view: MaterializedView, *, frozen: bool) -> Result:
    """The statement that recreates the view, in any session. The result's columns are Doris' or Spark's.

    `frozen`: base tables have gained columns since `SELECT *` was resolved, so the view's columns are listed. Blocks
    as long as `indentation.indented`, so it must not run on the event loop.
    """
    text = create_statement(view, frozen=frozen)
    if statement.kind == "MATERIALIZED VIEW":
        return Result(
            (ResultColumn("Materialized View"), ResultColumn("Create Materialized View")), [(view.name.table, text)]
        )
    return Result((ResultColumn("createtab_stmt"),), [(text,)])


def create_statement(view: MaterializedView, *, frozen: bool) -> str:
    found = lineage.relations(Lexed(view.query))
    query = create_text.qualified(view.query, found.reads if found.exact else (), view.namespace)
    query = indentation.indented(query)
    if frozen and "*" in query:
        query = f"SELECT {', '.join(map(quote, view.columns))} FROM (\n{query}\n)"
    return create_text.create_statement(
        view.name.short, view.listed, view.comment, view.clauses, view.properties, query
    )


def describe(columns: Sequence[Sequence[Any]]) -> Result:
    """DESCRIBE: Spark's description of the columns."""
    return Result(DESCRIBE_COLUMNS, [tuple(row[:3]) for row in columns])


def describe_extended(
    catalog: Catalog,
    view: MaterializedView,
    state: tuple[State, str],
    columns: Sequence[Sequence[Any]],
    *,
    told: bool = True,
) -> Result:
    """DESCRIBE EXTENDED: Spark's description of the columns, then the gateway's details, if possible with Spark's
    names. `told`: with what Spark has said of a refresh that failed."""
    staleness = catalog.staleness(view.id)
    freshness = catalog.freshness(view.id).value + (f": {staleness.reason}" if staleness else "")
    details = {
        "Catalog": view.name.catalog,
        "Database": view.name.database,
        "Table": view.name.table,
        "Owner": view.owner,
        "Created Time": f"{moment(view.created_at)} UTC",
        "Type": "MATERIALIZED_VIEW",
        "Comment": view.comment,
        "View Text": view.query,
        "View Catalog and Namespace": f"{view.namespace.catalog}.{view.namespace.database}",
        "Table Properties": "[" + ", ".join(f"{key}={value}" for key, value in sorted(view.properties.items())) + "]",
        "State": state[0].value + (f": {state[1]}" if state[1] else ""),
        "Freshness": freshness,
        "Version": str(view.current.number),
        "Last Refresh": f"{moment(view.current.published_at)} UTC" if view.built else "never",
        "Last Task": _last_task(catalog.entry(view.id).history.last, told=told),
        "Refresh": create_text.refresh_info(view.clauses, trigger_of(view)),
        "Job": job(view),
        "When Stale": view.when_stale.value,
        "Grace Period": f"{view.grace_ms / 1000:g} seconds",
        "Base Tables": ", ".join(base_names(catalog, view)),
        "Security": view.security.value,
        "Refreshed As": view.refreshed_as or None,
        "Rewrite Enabled": "Yes" if view_properties.rewrite_enabled(view.properties) else "No",
        "In Memory": _memory(catalog.residences.of(view)),
        **_layout(view.clauses),
        "Storage Table": str(view.rows_table),
    }
    rows = [tuple(row[:3]) for row in columns]
    rows += [("", "", ""), ("# Detailed Table Information", "", "")]
    rows += [(key, value, "") for key, value in details.items() if value is not None]
    return Result(DESCRIBE_COLUMNS, rows)


def _last_task(task: Task | None, *, told: bool) -> str | None:
    if task is None:
        return None
    seconds = (task.finished_at - task.created_at) / 1000
    error = task.error if told else without_cause(task.error)
    return f"{task.status} in {seconds:.2f} s, {task.mode} because {task.reason}" + (error and f": {error}")


def _memory(residence: Residence | None) -> str:
    if residence is None:
        return "No"
    if residence.held is not Held.LOADED or residence.since is None:
        return f"{residence.held}: {residence.why}"
    size = f"{residence.rows} rows, {residence.bytes} bytes"
    return f"{residence.held}: version {residence.version}, {size}, since {time_text(residence.since)} UTC"


def _layout(clauses: CreateClauses) -> dict[str, str | None]:
    """How the rows are stored; clauses that were not given are None."""
    partitioning, distribution, clustering = clauses.partitioning, clauses.distribution, clauses.clustering
    return {
        "Stored As": clauses.file_format or "parquet",
        "Location": clauses.location,
        "Partitioned By": str(partitioning) if partitioning else None,
        "Distributed By": f"{', '.join(distribution.columns) or 'RANDOM'}, buckets: {distribution.buckets or 'AUTO'}"
        if distribution
        else None,
        "Clustered By": ", ".join(clustering.distributed) if clustering else None,
        "Immutable Where": clauses.immutable,
    }


def show_properties(view: MaterializedView, key: str | None) -> Result:
    """SHOW TBLPROPERTIES; for a single key, worded as by Spark."""
    if key is None:
        return Result(PROPERTY_COLUMNS, sorted(view.properties.items()))
    value = view.properties.get(key, f"Table {view.name} does not have property: {key}")
    return Result(PROPERTY_COLUMNS, [(key, value)])


def show_partitions(
    tasks: Iterable[tuple[int, Task]], view: MaterializedView, standings: Sequence[StandingPartition]
) -> Result:
    """SHOW PARTITIONS, with those of Doris' columns that have a meaning here. `tasks`: the view's last tasks."""
    column = ", ".join(view.clauses.partitioning.columns) if view.clauses.partitioning else ""
    names = {base_key(table): str(table) for table in view.tables} | {base: view.base_name(base) for base in view.views}
    published = {task.version: task.finished_at for _, task in tasks}
    published[view.current.number] = view.current.published_at
    rows = [
        (
            number,
            each.partition.name,
            each.version,
            # Unknown if the version is so old that its task is no longer in the history.
            "" if (at := published.get(each.version)) is None else time_text(at),
            "NORMAL",
            column,
            each.partition.range,
            not each.unsynced,
            "[" + ", ".join(sorted(names.get(base, base) for base in each.unsynced)) + "]",
            each.partition.rows,
        )
        for number, each in enumerate(standings, 1)
    ]
    return Result(PARTITION_COLUMNS, rows)


REFRESHED_COLUMNS = (
    ResultColumn("database_name"),
    ResultColumn("name"),
    ResultColumn("status"),
    ResultColumn("refresh_method"),
    ResultColumn("version", Type.BIGINT),
    ResultColumn("duration_seconds", Type.DOUBLE),
    ResultColumn("reason"),
    ResultColumn("error"),
    ResultColumn("other_states"),
)


def refreshed_set(outcomes: Iterable[RefreshedView]) -> Result:
    """REFRESH MATERIALIZED VIEWS: a row for each view."""
    return Result(REFRESHED_COLUMNS, [_refreshed(each) for each in outcomes])


def _refreshed(each: RefreshedView) -> tuple[str | int | float | None, ...]:
    name, task = each.view.name, each.task
    method, version, reason = (None,) * 3 if task is None else (task.mode.value, task.version or None, task.reason)
    error = None if each.error is None else str(each.error)
    status = TaskStatus.SUCCESS if error is None else TaskStatus.FAILED
    states = ", ".join(each.apart)
    return name.database, name.table, status.value, method, version, round(each.seconds, 3), reason, error, states


# --- EXPLAIN -------------------------------------------------------------------------------------------


def plan_lines(proposal: RefreshProposal, present: Iterable[tuple[int, PartitionKey]]) -> list[str]:
    """Describes the plan of a refresh. `present`: the partitions in the storage table. Blocks as long as
    `indentation.indented`, so it must not run on the event loop."""
    plan = proposal.plan
    if plan is None:
        return ["method: NOT_REFRESH, because nothing that the view shows has changed"]
    lines = [f"method: {plan.method}, because {plan.reason}", *([f"route: {plan.route}"] if plan.route else [])]
    if plan.past:
        lines.append(f"immutable: rows of version {plan.view.current.number} with {plan.past} stay as they are")
    if names := proposal.first_names():
        more = len(plan.written) - len(names)
        lines.append(f"partitions: {', '.join(names)}{f' and {more} more' if more else ''}")
    written = {(plan.version, key) for key in plan.chosen.keys} if not plan.chosen.all_but else {(plan.version, None)}
    steps = [*plan.write, plan_publish(plan.view, plan.shown([*present, *written]))]
    short = sum(len(step.sql) for step in steps) <= indentation.CHARACTERS_MAX
    for number, step in enumerate(steps, 1):
        # A line break in the statement may be part of a quoted name.
        laid_out = indentation.indented(step.sql).split("\n") if short and "\n" not in step.sql else [step.sql]
        lines += [f"step {number}: {step.purpose}", *(f"    {line}" for line in laid_out)]
    return lines


def explain_refresh(
    catalog: Catalog, view: MaterializedView, plan: Iterable[str], bases: Iterable[str], changes: str
) -> Result:
    """EXPLAIN REFRESH. `plan`: the lines about its plan; `bases`: the views below that are refreshed first; `changes`:
    schema changes that may break the definition."""
    lines = [f"REFRESH MATERIALIZED VIEW {view.name}", f"freshness: {catalog.freshness(view.id).value}"]
    staleness = catalog.staleness(view.id)
    if staleness is not None:
        lines.append(f"because: {staleness.reason}")
    if changes:
        lines.append(f"state: SCHEMA_CHANGE, so it may fail: {changes}")
    lines += [f"first: REFRESH MATERIALIZED VIEW {base}, which it reads and which is stale" for base in bases]
    return _lines([*lines, *plan])


def explain_create(name: TableName, facts: Mapping[str, str], plan: str) -> Result:
    """EXPLAIN CREATE. `plan`: Spark's plan of the definition."""
    lines = [f"CREATE MATERIALIZED VIEW {name}", *(f"{key}: {value}" for key, value in facts.items())]
    lines += ["plan of the definition:", *(f"    {line}" for line in plan.splitlines())]
    return _lines(lines)


def _lines(lines: Iterable[str]) -> Result:
    return Result(PLAN_COLUMNS, [(line,) for line in lines])
