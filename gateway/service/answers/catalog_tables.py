"""The catalog's tables for queries: INFORMATION_SCHEMA.MATERIALIZED_VIEWS as in BigQuery, mv_infos(), jobs() and
tasks() as in Doris, and Freshgate's own freshgate.materialized_views, freshgate.tables_in_memory, freshgate.rewrites,
freshgate.suggested_views, freshgate.gateway and freshgate.gateways.

Each is spliced into the query as an inline table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gateway.access_list import Principal
from gateway.errors import FreshgateError, without_cause
from gateway.loops import Turn
from gateway.mv.catalog.index import Catalog
from gateway.mv.jobs.jobs import RefreshJobs
from gateway.mv.model.damage import Damage
from gateway.mv.model.residence import Residence, TableResidence
from gateway.mv.model.view import Freshness, MaterializedView, RefreshMode, State, Task, TaskStatus, base_key
from gateway.mv.observation.schemas import Schemas
from gateway.mv.refresh.progress import Progress
from gateway.mv.refresh.tasks import Tasks
from gateway.mv.rewriting.suggestions import Advice, Suggestions
from gateway.mv.rewriting.usage import CountedQueries, Durations, Usage, Usages
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.measures import Measure, Measures
from gateway.service.answers import info
from gateway.service.answers.rebuilds import incremental_rebuild
from sql.grammar import intervals, view_properties
from sql.redaction import redact
from sql.rewriting.shape import readable
from sql.statement import Refreshing, Trigger, WhenStale
from sql.texts import create_text
from sql.texts.literals import Value

NULL_TEXT = "\\N"
"""NULL in Doris' text columns."""
TASK_ROWS_MAX = 10_000
"""Most rows of tasks() in a query: they become part of its text, and Spark parses only a few megabytes per second. With
more than a hundred views, fewer of each view's last tasks are shown, but at least one."""
REWRITE_ROWS_MAX, REWRITE_CHARACTERS_MAX = 1_000, 1_000_000
"""Most rows of freshgate.rewrites, and characters of their shapes, for the same reason. Those used last come first."""
SUGGESTION_ROWS_MAX = 100
"""Most rows of freshgate.suggested_views, those for the queries that took the longest in all."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns as (name, STRING | BIGINT | BOOLEAN | DOUBLE | TIMESTAMP); a TIMESTAMP is ISO text in UTC."""

    columns: tuple[tuple[str, str], ...]
    rows: Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class About:
    """The row of freshgate.gateway."""

    storage_database: str
    storage_guard: str
    """ACTIVE, ABSENT, OFF or UNKNOWN (`gateway.spark.storage_guard`)."""
    storage_guard_reason: str | None
    """Why the guard is not active."""
    spark_version: str | None
    spark_servers: str | None = None
    """The state of each of several Spark servers."""
    limits_reached: str = ""
    """Who is at a limit of limits.rules, as far as the user may know."""
    audit_lines_lost: int = 0
    """Lines of the audit that could not be written."""

    @property
    def table(self) -> Table:
        guard = self.storage_guard, self.storage_guard_reason
        versions = self.spark_version, self.spark_servers
        return Table(
            ABOUT, [(self.storage_database, *guard, *versions, self.limits_reached or None, self.audit_lines_lost)]
        )


class BadArguments(FreshgateError):
    """A catalog function was called with arguments that Doris does not accept."""

    sqlstate = "22023"


class CatalogTables:
    """Builds these tables from the catalog."""

    def __init__(
        self,
        catalog: Catalog,
        schemas: Schemas,
        measures: Measures,
        jobs: RefreshJobs,
        tasks: Tasks,
        usages: Usages,
        suggestions: Suggestions,
        rights: Rights,
    ) -> None:
        self._catalog = catalog
        self._schemas = schemas
        self._measures = measures
        self._schedule = jobs
        self._queue = tasks
        self._usages = usages
        self._suggestions = suggestions
        self._rights = rights

    async def function(self, name: str, arguments: Mapping[str, str], who: Principal) -> Table:
        """mv_infos("database"="…"), jobs("type"="mv"), tasks("type"="mv"), as the user may see them. Raises
        BadArguments."""
        wanted = "database" if name == "mv_infos" else "type"
        for key in arguments:
            if key.lower() != wanted:
                raise BadArguments(f'\'{key}\' is invalid property of {name}(). Write {name}("{wanted}"="…").')
        value = next(iter(arguments.values()), None)
        if name == "mv_infos":
            if not value:
                raise BadArguments(
                    'Invalid async materialized view metadata query: mv_infos() takes "database"="name of a database".'
                )
            return await self._mv_infos(value.lower(), who)
        if value is None or value.lower() != "mv":
            raise BadArguments(f'{name}() supports only the type mv. Write {name}("type"="mv").')
        return await (self._jobs() if name == "jobs" else self._tasks(who))

    # --- Doris -------------------------------------------------------------------------------------

    async def _mv_infos(self, database: str, who: Principal) -> Table:
        views = [view for view in self._catalog.views() if view.name.database == database]
        states = await self._schemas.states(views)
        return Table(MV_INFOS, await self._rows(views, lambda view: [self._mv_info(who, view, *states[view.id])]))

    async def _rows(
        self, views: Iterable[MaterializedView], rows_of: Callable[[MaterializedView], Iterable[tuple[Value, ...]]]
    ) -> list[tuple[Value, ...]]:
        """The rows of the views, except those dropped meanwhile. Lets other work run in between."""
        turn, rows = Turn(), list[tuple[Value, ...]]()
        for view in views:
            if self._catalog.find(view.id) is not None:
                rows += rows_of(view)
            await turn.pause()
        return rows

    def _mv_info(self, who: Principal, view: MaterializedView, state: State, detail: str) -> tuple[Value, ...]:
        last = self._catalog.entry(view.id).history.last
        properties = ", ".join(f"{key}={value}" for key, value in view.properties.items())
        return (
            number_of(view.id),
            view.name.table,
            job_name(view),
            state.value,
            detail,
            "INIT" if last is None else "SUCCESS" if last.status is TaskStatus.SUCCESS else "FAIL",
            create_text.refresh_info(view.clauses, info.trigger_of(view)),
            view.query if self._rights.is_owner(who, view) else None,
            f"EnvInfo{{ctlId='{view.namespace.catalog}', dbId='{view.namespace.database}'}}",
            f"{{{properties}}}",
            _partition_info(view),
            state is State.NORMAL and self._catalog.freshness(view.id) is Freshness.FRESH,
        )

    async def _jobs(self) -> Table:
        return Table(JOBS, await self._rows(self._catalog.views(), lambda view: [_job(view)]))

    async def _tasks(self, who: Principal) -> Table:
        views = self._catalog.views()
        of_each = max(1, TASK_ROWS_MAX // max(1, len(views)))

        def rows_of(view: MaterializedView) -> Iterable[tuple[Value, ...]]:
            tasks = [task for _, task in list(self._catalog.entry(view.id).history.tasks)[-of_each:]]
            if not self._rights.may_refresh(who, view):
                tasks = [without_rows(task) for task in tasks]
            return [task_row(view, task, self._queue.progress(view.id)) for task in tasks]

        return Table(TASKS, await self._rows(views, rows_of))

    # --- BigQuery ----------------------------------------------------------------------------------

    async def information_schema(self, database: str | None) -> Table:
        """INFORMATION_SCHEMA.MATERIALIZED_VIEWS; `database` None means all databases."""

        def rows_of(view: MaterializedView) -> Iterable[tuple[Value, ...]]:
            if database in {None, view.name.database}:
                yield (
                    view.name.catalog,
                    view.name.database,
                    view.name.table,
                    moment_text(view.current.published_at) if view.built else None,
                    moment_text(view.current.started_at) if view.built else None,
                    _is_automatic(view),
                    _minutes(view.clauses.refreshing),
                    moment_text(view.current.published_at),
                    self._catalog.is_stale(view.id),
                )

        return Table(INFORMATION_SCHEMA, await self._rows(self._catalog.views(), rows_of))

    # --- Freshgate ---------------------------------------------------------------------------------

    async def materialized_views(self, who: Principal, *, measured: bool) -> Table:
        """freshgate.materialized_views, with the definitions of the user's own views; of all views for an
        administrator. `measured`: whether it needs rows and bytes, which Spark counts for new
        versions."""
        views = self._catalog.views()
        states = await self._schemas.states(views)
        measures = await self._measures.of(views) if measured else {}
        rows = await self._rows(
            views, lambda view: [self._everything(who, view, states[view.id], measures.get(view.id))]
        )
        return Table(MATERIALIZED_VIEWS, [*rows, *map(_damaged, self._catalog.damaged.values())])

    def rewrites(self, who: Principal) -> Table:
        """freshgate.rewrites: the shapes of the user's own queries; of all users for an administrator."""
        everything = self._rights.is_administrator(who)
        rows, characters = list[tuple[Value, ...]](), 0
        for asked, usage in reversed(self._usages.items()):
            if not everything and asked.user != who.name:
                continue
            characters += len(asked.shape)
            if len(rows) == REWRITE_ROWS_MAX or characters > REWRITE_CHARACTERS_MAX:
                break
            rows.append(_rewrite(asked, usage))
        return Table(REWRITES, rows)

    def tables_in_memory(self) -> Table:
        """freshgate.tables_in_memory: the base tables that are held beside views in memory, or are to be."""
        return Table(TABLES_IN_MEMORY, list(map(_table_in_memory, self._catalog.residences.tables())))

    async def suggested_views(self, who: Principal) -> Table:
        """freshgate.suggested_views: for the user's own queries; for those of all users for an administrator."""
        found = await self._suggestions.of(None if self._rights.is_administrator(who) else who.name)
        return Table(SUGGESTED_VIEWS, [_suggestion(each) for each in found[:SUGGESTION_ROWS_MAX]])

    def _everything(
        self, who: Principal, view: MaterializedView, state: tuple[State, str], measures: Mapping[int, Measure] | None
    ) -> tuple[Value, ...]:
        history = self._catalog.entry(view.id).history
        last, last_refresh = history.last, history.last_refresh
        staleness = self._catalog.staleness(view.id)
        writer = staleness.writer if staleness and self._rights.is_administrator(who) else None
        streak = history.streak
        measured = measures if measures is not None else {}
        current = measured.get(view.current.number, Measure(0, 0)) if measures is not None and view.built else None
        return (
            view.name.database,
            view.name.table,
            view.owner,
            view.comment,
            state[0].value,
            state[1] or None,
            self._catalog.freshness(view.id).value,
            staleness.reason if staleness else None,
            moment_text(staleness.since) if staleness and staleness.since else None,
            moment_text(staleness.noticed) if staleness and staleness.noticed else None,
            None if writer is None else writer.user,
            None if writer is None else redact(writer.text, cut=True),
            view.when_stale.value,
            view.grace_ms // 1000,
            info.trigger_of(view),
            create_text.recurring_strategy(view.clauses),
            view.current.number if view.built else None,
            len(measured) if measures is not None else None,
            current.rows if current else None,
            current.bytes if current else None,
            sum(measure.bytes for measure in measured.values()) if measures is not None else None,
            ", ".join(info.base_names(self._catalog, view)),
            moment_text(view.current.published_at) if view.built else None,
            view.current.method if view.built else None,
            last_refresh.reason if last_refresh else None,
            last_refresh.finished_at - last_refresh.created_at if last_refresh else None,
            last.status.value if last else None,
            _error_told(last, told=self._rights.may_refresh(who, view)) or None if last else None,
            len(streak),
            moment_text(streak[-1].finished_at) if streak and streak[-1].finished_at else None,
            any(task.status is TaskStatus.RUNNING for task in history.unended),
            "PAUSED" if view.paused else "RUNNING",
            moment_text(next_run) if (next_run := self._schedule.next_run(view.id)) is not None else None,
            moment_text(view.created_at),
            view.query if self._rights.is_owner(who, view) else None,
            str(view.rows_table),
            incremental_rebuild(view),
            view_properties.rewrite_enabled(view.properties),
            view.security.value,
            self._rights.may_refresh(who, view),
            ", ".join(map(str, sorted(view.refreshers))) if self._rights.is_owner(who, view) else None,
            *_memory(self._catalog.residences.of(view), self._catalog.residences.answers[view.id]),
            view.paused_because or None,
        )


def _memory(residence: Residence | None, answers: int) -> tuple[Value, ...]:
    """The columns that tell whether the view is in memory."""
    if residence is None:
        return (None,) * 7
    return (
        residence.held.value,
        residence.asked.value,
        residence.why or None,
        residence.rows,
        residence.bytes,
        moment_text(residence.since) if residence.since is not None else None,
        answers,
    )


def _table_in_memory(table: TableResidence) -> tuple[Value, ...]:
    held, _, *others = _memory(table.residence, table.answers)
    return (table.name.database, table.name.table, held, *others)


def _damaged(damage: Damage) -> tuple[Value, ...]:
    """The row of a damaged view."""
    known = {
        "database_name": damage.name.database,
        "name": damage.name.table,
        "owner": damage.owner,
        "state": "DAMAGED",
        "schema_change": damage.problem,
        "storage_table": str(damage.storage),
    }
    return tuple(known.get(name) for name, _ in MATERIALIZED_VIEWS)


def _rewrite(asked: CountedQueries, usage: Usage) -> tuple[Value, ...]:
    saved, misses = usage.saved_seconds, usage.misses
    return (
        asked.user,
        asked.namespace.database,
        readable(asked.shape),
        ", ".join(dict.fromkeys(str(view) for views, _ in usage.hits.most_common() for view in views)) or None,
        usage.hits.total(),
        misses.total(),
        ", ".join(f"{reason}: {number}" for reason, number in misses.most_common()) or None,
        None if saved is None or not usage.hits else round(saved * 1000),
        _milliseconds(usage.answered),
        _milliseconds(usage.own),
    )


def _suggestion(advice: Advice) -> tuple[Value, ...]:
    view = advice.suggestion.view
    return (
        view.name.database,
        view.name.table,
        advice.suggestion.statement,
        advice.queries,
        advice.runs,
        round(advice.seconds * 1000),
        round(advice.seconds * 1000 / advice.runs),
        ", ".join(sorted(advice.users)),
        advice.example,
        ", ".join(map(str, view.bases)),
        advice.base_rows,
        advice.base_bytes,
        round(advice.longest * 1000),
        advice.suggestion.rows,
    )


def _milliseconds(durations: Durations) -> int | None:
    return None if durations.mean is None else round(durations.mean * 1000)


def _is_automatic(view: MaterializedView) -> bool:
    """Whether a read, a schedule or a change of a base table refreshes the view."""
    triggered = view.clauses.refreshing.trigger in (Trigger.SCHEDULE, Trigger.COMMIT, Trigger.LAG) and not view.paused
    return triggered or view.when_stale is WhenStale.REFRESH


def _minutes(refreshing: Refreshing) -> int | None:
    """The interval of a schedule, or the lag, if it is whole minutes."""
    schedule = refreshing.schedule
    if refreshing.lag is not None:
        return None if refreshing.lag % 60 else refreshing.lag // 60
    if schedule is None or schedule.every is None or schedule.unit is None:
        return None
    minutes, rest = divmod(schedule.every * intervals.SECONDS[schedule.unit], 60)
    return None if rest else minutes


def number_of(text: str) -> int:
    """A number below 2^63 for an id, for numeric columns. It is the same after each start."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def job_name(view: MaterializedView) -> str:
    return f"inner_mtmv_{number_of(view.id)}"


def _partition_info(view: MaterializedView) -> str:
    partitioning, followed = view.clauses.partitioning, view.followed
    if partitioning is None or followed is None:
        return "MTMVPartitionInfo{partitionType=SELF_MANAGE}"
    names = {base_key(table): str(table) for table in view.tables} | {base: view.base_name(base) for base in view.views}
    truncated = [f"date_trunc({part.column}, {part.unit})" for part in view.partitioning.parts if part.unit]
    kind = "EXPR" if truncated else "FOLLOW_BASE_TABLE"
    unit = f", expr='{', '.join(truncated)}'" if truncated else ""
    related = f"relatedTable={names.get(followed.base, followed.base)}, relatedCol='{followed.columns}'"
    columns = ", ".join(view.partitioning.columns)
    return f"MTMVPartitionInfo{{partitionType={kind}, {related}, partitionCol='{columns}'{unit}}}"


def _job(view: MaterializedView) -> tuple[Value, ...]:
    scheduled = view.clauses.refreshing.trigger in (Trigger.SCHEDULE, Trigger.LAG)
    return (
        str(number_of("job " + view.id)),
        job_name(view),
        str(number_of(view.id)),
        view.name.table,
        str(number_of(view.name.database)),
        view.name.database,
        "RECURRING" if scheduled else "MANUAL",
        create_text.recurring_strategy(view.clauses),
        "PAUSED" if view.paused else "RUNNING",
        info.time_text(view.created_at),
    )


def without_rows(task: Task) -> Task:
    """The task without what may be values of rows: names of partitions, and what Spark has said."""
    cause = replace(task.cause, partitions=())
    return replace(task, partitions=(), cause=cause, error=_error_told(task, told=False))


def _error_told(task: Task, *, told: bool) -> str:
    return task.error if told else without_cause(task.error)


def task_row(view: MaterializedView, task: Task, progress: Progress | None) -> tuple[Value, ...]:
    """One row of tasks()."""
    whole = not task.partitions and task.mode in {RefreshMode.COMPLETE, RefreshMode.INCREMENTAL}
    names, needed = ((view.name.table,), 1) if whole else (task.partitions, task.needed)
    finished = needed if task.status is TaskStatus.SUCCESS else min(task.completed, needed)
    partitions = ",".join(f'"{name}"' for name in task.cause.partitions)
    complete = str(task.cause.complete).lower()
    return (
        view.name.database,
        view.name.table,
        task.status.value,
        task.mode.value,
        task.reason,
        NULL_TEXT if task.rows is None else str(task.rows),
        info.time_text(task.started_at) if task.started_at else NULL_TEXT,
        str(task.finished_at - (task.started_at or task.created_at)) if task.finished_at else NULL_TEXT,
        task.error or NULL_TEXT,
        task.cause.user,
        f"{100 * finished / needed:.2f}% ({finished}/{needed})" if needed else NULL_TEXT,
        (progress.spark_words() if progress and task.status is TaskStatus.RUNNING else "") or NULL_TEXT,
        task.route or NULL_TEXT,
        info.time_text(task.created_at),
        info.time_text(task.finished_at) if task.finished_at else NULL_TEXT,
        _names(names, needed),
        _names(names, finished),
        f'{{"triggerMode":"{task.cause.trigger}","partitions":[{partitions}],"isComplete":{complete}}}',
        str(task.id),
        str(number_of("job " + view.id)),
        job_name(view),
        str(number_of(view.id)),
        str(number_of(view.name.database)),
        NULL_TEXT,
    )


def _names(names: Sequence[str], count: int) -> str:
    """A list of `count` names, of which only the first are known."""
    listed = [*names[:count], *([f"and {count - len(names)} more"] if count > len(names) else [])]
    return f"[{','.join(json.dumps(name, ensure_ascii=False) for name in listed)}]" if listed else NULL_TEXT


def moment_text(milliseconds: int) -> str:
    """The time in UTC as a TIMESTAMP of a Table."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ")


def strings(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, "STRING") for name in names)


MV_INFOS = (
    ("Id", "BIGINT"),
    *strings("Name", "JobName", "State", "SchemaChangeDetail", "RefreshState", "RefreshInfo", "QuerySql"),
    *strings("EnvInfo", "MvProperties", "MvPartitionInfo"),
    ("SyncWithBaseTables", "BOOLEAN"),
)
JOBS = strings(
    "Id",
    "Name",
    "MvId",
    "MvName",
    "MvDatabaseId",
    "MvDatabaseName",
    "ExecuteType",
    "RecurringStrategy",
    "Status",
    "CreateTime",
)
TASKS = (
    # Doris' and Freshgate's own, those first that tell the most.
    *strings("MvDatabaseName", "MvName", "Status", "RefreshMode", "Reason", "RowCount", "StartTime", "DurationMs"),
    *strings("ErrorMsg", "TriggeredBy", "Progress", "SparkProgress", "Route", "CreateTime", "FinishTime"),
    *strings("NeedRefreshPartitions", "CompletedPartitions", "TaskContext", "TaskId", "JobId", "JobName"),
    *strings("MvId", "MvDatabaseId", "LastQueryId"),
)
INFORMATION_SCHEMA = (
    ("table_catalog", "STRING"),
    ("table_schema", "STRING"),
    ("table_name", "STRING"),
    ("last_refresh_time", "TIMESTAMP"),
    ("refresh_watermark", "TIMESTAMP"),
    ("enable_refresh", "BOOLEAN"),
    ("refresh_interval_minutes", "BIGINT"),
    ("last_modified_time", "TIMESTAMP"),
    ("is_stale", "BOOLEAN"),
)
"""BigQuery's view, with bqemulator's is_stale. refresh_watermark is when the last refresh began to read: the view
contains all writes that ended before."""
MATERIALIZED_VIEWS = (
    *strings("database_name", "name", "owner", "comment", "state", "schema_change"),
    *strings("freshness", "stale_because"),
    ("stale_since", "TIMESTAMP"),
    ("stale_noticed", "TIMESTAMP"),
    *strings("stale_by", "stale_statement", "when_stale"),
    ("grace_period_seconds", "BIGINT"),
    *strings("refresh_trigger", "refresh_schedule"),
    ("version", "BIGINT"),
    ("versions_kept", "BIGINT"),
    ("row_count", "BIGINT"),
    ("size_bytes", "BIGINT"),
    ("total_size_bytes", "BIGINT"),
    ("base_tables", "STRING"),
    ("last_refresh_time", "TIMESTAMP"),
    *strings("last_refresh_method", "last_refresh_reason"),
    ("last_refresh_ms", "BIGINT"),
    *strings("last_task_status", "last_task_error"),
    ("failures_in_a_row", "BIGINT"),
    ("failing_since", "TIMESTAMP"),
    ("is_refreshing", "BOOLEAN"),
    ("job_status", "STRING"),
    ("next_refresh_time", "TIMESTAMP"),
    ("created_at", "TIMESTAMP"),
    *strings("definition", "storage_table", "incremental_rebuild"),
    ("rewriting_enabled", "BOOLEAN"),
    ("security", "STRING"),
    ("may_refresh", "BOOLEAN"),
    ("refresh_granted_to", "STRING"),
    *strings("memory", "memory_asked_by", "memory_reason"),
    ("memory_rows", "BIGINT"),
    ("memory_bytes", "BIGINT"),
    ("memory_since", "TIMESTAMP"),
    ("memory_answers", "BIGINT"),
    ("paused_because", "STRING"),
)
TABLES_IN_MEMORY = (
    *strings("database_name", "name", "memory", "memory_reason"),
    ("memory_rows", "BIGINT"),
    ("memory_bytes", "BIGINT"),
    ("memory_since", "TIMESTAMP"),
    ("memory_answers", "BIGINT"),
)
"""A row for each base table that is wanted in memory, with the columns of MATERIALIZED_VIEWS."""
ABOUT = (
    ("storage_database", "STRING"),
    ("storage_guard", "STRING"),
    ("storage_guard_reason", "STRING"),
    ("spark_version", "STRING"),
    ("spark_servers", "STRING"),
    ("limits_reached", "STRING"),
    ("audit_lines_lost", "BIGINT"),
)
GATEWAYS = (
    *strings("address", "role"),
    ("epoch", "BIGINT"),
    ("since", "TIMESTAMP"),
    ("clients", "BIGINT"),
    ("version", "STRING"),
)
"""A row for each gateway over this metastore (`service.answers.members`)."""
REWRITES = (
    *strings("user_name", "database_name", "shape", "view"),
    ("hits", "BIGINT"),
    ("misses", "BIGINT"),
    ("misses_by_reason", "STRING"),
    ("saved_ms", "BIGINT"),
    ("mean_view_ms", "BIGINT"),
    ("mean_base_ms", "BIGINT"),
)
"""A row for each shape of a query that names base tables of views that take part."""
SUGGESTED_VIEWS = (
    *strings("database_name", "name", "statement"),
    ("queries", "BIGINT"),
    ("runs", "BIGINT"),
    ("total_ms", "BIGINT"),
    ("mean_ms", "BIGINT"),
    *strings("users", "example", "base_tables"),
    ("base_rows", "BIGINT"),
    ("base_bytes", "BIGINT"),
    ("estimated_refresh_ms", "BIGINT"),
    ("estimated_rows", "BIGINT"),
)
"""A row for each view that would have answered queries."""
