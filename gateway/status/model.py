"""Converts rows of the gateway's catalog to views and tasks. Pure.

A row maps column names, in lower case, to values. Columns that the gateway does not have are missing.

Tests: `test_status`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Row = Mapping[str, Any]

NOTHING_KNOWN: Row = {}
DAMAGED = "DAMAGED"
PAUSED = "PAUSED"
RUNNING = "RUNNING"
LOADED = "LOADED"
NO_SCHEDULE = "MANUAL TRIGGER"
"""What a gateway says of a view without a schedule, as Doris does."""
NULL_TEXT = "\\N"
"""How tasks() represents a missing value."""
_PROGRESS = re.compile(r"(\d+(?:\.\d+)?)\s*%\s*\((\d+)/(\d+)\)")


@dataclass(frozen=True, slots=True)
class InMemoryState:
    """Whether the rows of a view are in memory. `since` is in UTC."""

    state: str
    """LOADED, LOADING, WAITING or NOT_LOADED."""
    asked_by: str | None
    """VIEW or READS."""
    reason: str | None
    """Why it is not loaded, or waits."""
    rows: int | None
    bytes: int | None
    since: datetime | None
    answers: int | None
    """The reads that its rows have answered."""


@dataclass(frozen=True, slots=True)
class View:
    """One materialized view. Times are in UTC; None: missing, or not reported by the gateway."""

    database: str
    name: str
    state: str
    freshness: str
    """FRESH, FRESH_WITHIN_GRACE, STALE, UNKNOWN, or DAMAGED for a view with a missing part or changed rows."""
    reason: str | None
    """Why the view is not fresh, or what is missing."""
    stale_since: datetime | None
    version: int | None
    last_refresh_time: datetime | None
    trigger: str | None
    schedule: str | None
    """Set if the trigger is SCHEDULE or LAG, and if there is an AT MOST EVERY."""
    paused: bool | None
    next_refresh_time: datetime | None
    """None for a paused view, too."""
    is_refreshing: bool
    last_task_status: str | None
    last_task_error: str | None
    stale_noticed: datetime | None = None
    """When a look found a change that did not pass through the gateway: it was made between `stale_since` and then."""
    stale_by: str | None = None
    """Who wrote first since the last refresh, as far as the user may know."""
    failures_in_a_row: int = 0
    failing_since: datetime | None = None
    paused_because: str | None = None
    """Why the gateway has paused its refreshes; None if it has not."""
    memory: InMemoryState | None = None
    """None: it is not to be in memory, or that is not reported."""

    @property
    def title(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class RefreshTask:
    """A running or waiting refresh. Times are in UTC."""

    id: str
    database: str
    view: str
    status: str
    trigger: str | None
    """MANUAL, COMMIT, SYSTEM (a schedule) or READ."""
    user: str | None
    created_at: datetime | None
    started_at: datetime | None
    method: str | None
    reason: str | None
    percent: float | None
    partitions_done: int | None
    partitions_needed: int | None
    spark_progress: str | None
    row_count: int | None

    @property
    def title(self) -> str:
        return f"{self.database}.{self.view}"

    @property
    def since(self) -> datetime | None:
        """When it started to run, or to wait."""
        return self.started_at if self.status == RUNNING and self.started_at else self.created_at


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a view, in the gateway's words."""

    what: str
    """DAMAGED, FAILING, LATE, UNKNOWN, PAUSED or SLOW; a newer gateway may know others."""
    database: str
    name: str
    owner: str | None
    since: datetime | None
    why: str
    advice: str
    error: str | None
    """What Spark said, as far as the user may know."""

    @property
    def title(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class ListedGateway:
    """One of the gateways over the same metastore."""

    address: str
    role: str
    """LEADER, DOOR, ..."""
    epoch: int | None
    since: datetime | None
    """In UTC, by the clock of that gateway."""
    clients: int | None
    version: str | None


@dataclass(frozen=True, slots=True)
class Activity:
    """What --json also tells. None: not asked for, or not reported. Times are milliseconds since the epoch."""

    reads: Sequence[Row] | None = None
    """Rows of freshgate.reads."""
    statements: Sequence[Row] | None = None
    """Rows of freshgate.statements, the last one first."""
    refresh_costs: Sequence[Row] | None = None
    """Rows of freshgate.refresh_costs."""


NO_ACTIVITY = Activity()


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a gateway: views by name, and tasks, running ones first."""

    views: tuple[View, ...]
    tasks: tuple[RefreshTask, ...]
    guard: str | None = None
    """Whether the guard inside Spark protects what views store: ACTIVE, ABSENT, OFF or UNKNOWN. None: not reported."""
    guard_reason: str | None = None
    """Why it does not."""
    gateways: tuple[ListedGateway, ...] = ()
    """The one that leads first; empty: not reported."""
    servers: str | None = None
    """The state of each of several Spark servers. None: there is one, or it is not reported."""
    limits_reached: str | None = None
    """Who is at a limit, as far as the user may know."""
    audit_lines_lost: int | None = None
    """Lines of the audit that could not be written. None: not reported."""
    attention: tuple[Problem, ...] | None = None
    """What is wrong, the worst first; None: not reported."""
    activity: Activity = NO_ACTIVITY
    tables_in_memory: Sequence[Row] | None = None
    """Rows of freshgate.tables_in_memory; None: not reported."""

    @property
    def memory(self) -> tuple[InMemoryState, ...]:
        """What is known of each view that is to be in memory."""
        return tuple(view.memory for view in self.views if view.memory is not None)

    @property
    def worst(self) -> dict[tuple[str, str], Problem]:
        """The worst that is wrong with each view, by database and name."""
        return {(each.database, each.name): each for each in reversed(self.attention or ())}

    @property
    def next(self) -> tuple[View, ...]:
        """The views with a next run, the soonest first."""
        due = [(view.next_refresh_time, view.title, view) for view in self.views if view.next_refresh_time]
        return tuple(view for _, _, view in sorted(due, key=lambda item: item[:2]))


def status_of(
    views: Iterable[Row],
    jobs: Iterable[Row],
    tasks: Iterable[Row],
    about: Row = NOTHING_KNOWN,
    gateways: Iterable[Row] = (),
    attention: Iterable[Row] | None = None,
    activity: Activity = NO_ACTIVITY,
    tables_in_memory: Sequence[Row] | None = None,
) -> Status:
    """Converts rows of freshgate.materialized_views (times as milliseconds since the epoch), jobs() and tasks(), the
    one of freshgate.gateway, those of SHOW GATEWAYS, of freshgate.attention and of freshgate.tables_in_memory. If the
    views have no job_status, that of their jobs is used."""
    job_status = {(job.get("mvdatabasename"), job.get("mvname")): _text(job, "status") for job in jobs}
    shown = [_view(row, job_status.get((row.get("database_name"), row.get("name")))) for row in views]
    running = [_task(row) for row in tasks]
    return Status(
        tuple(sorted(shown, key=lambda view: (view.database, view.name))),
        tuple(sorted(running, key=lambda task: (task.status != RUNNING, str(task.since or ""), task.title, task.id))),
        _text(about, "storage_guard"),
        _text(about, "storage_guard_reason"),
        tuple(map(_member, gateways)),
        _text(about, "spark_servers"),
        _text(about, "limits_reached"),
        about.get("audit_lines_lost"),
        None if attention is None else tuple(map(_problem, attention)),
        activity,
        tables_in_memory,
    )


def json_of(status: Status, now: datetime) -> dict[str, Any]:
    """The object that --json prints: times in ISO 8601, ages and numbers as numbers, None for unknown values."""
    worst = status.worst
    return {
        "attention": None if status.attention is None else [_problem_json(each, now) for each in status.attention],
        "views": [_view_json(view, worst.get((view.database, view.name)), now) for view in status.views],
        "tasks": [_task_json(task, now) for task in status.tasks],
        "next": [
            {
                "database": view.database,
                "name": view.name,
                "next_refresh_time": _iso(view.next_refresh_time),
                "in_seconds": _age(now, view.next_refresh_time),
                "schedule": view.schedule,
            }
            for view in status.next
        ],
        "gateways": [
            {
                "address": each.address,
                "role": each.role,
                "epoch": each.epoch,
                "since": _iso(each.since),
                "since_seconds": _age(each.since, now),
                "clients": each.clients,
                "version": each.version,
            }
            for each in status.gateways
        ],
        "storage_guard": status.guard and {"state": status.guard, "reason": status.guard_reason},
        "spark_servers": status.servers,
        "limits_reached": status.limits_reached,
        "audit_lines_lost": status.audit_lines_lost,
        "tables_in_memory": _rows_json(status.tables_in_memory),
        "reads": _rows_json(status.activity.reads),
        "statements": _rows_json(status.activity.statements),
        "refresh_costs": _rows_json(status.activity.refresh_costs),
    }


def _view(row: Row, job_status: str | None) -> View:
    state = _text(row, "state") or ""
    trigger, schedule = _text(row, "refresh_trigger"), _text(row, "refresh_schedule")
    job_status = _text(row, "job_status") or job_status
    paused = None if job_status is None else job_status == PAUSED
    return View(
        database=_text(row, "database_name") or "",
        name=_text(row, "name") or "",
        state=state,
        freshness=DAMAGED if state == DAMAGED else _text(row, "freshness") or "UNKNOWN",
        reason=_text(row, "schema_change") or _text(row, "stale_because"),
        stale_since=_moment(row.get("stale_since")),
        version=row.get("version"),
        last_refresh_time=_moment(row.get("last_refresh_time")),
        trigger=trigger,
        schedule=schedule if schedule != NO_SCHEDULE else None,
        paused=paused,
        next_refresh_time=None if paused else _moment(row.get("next_refresh_time")),
        is_refreshing=bool(row.get("is_refreshing")),
        last_task_status=_text(row, "last_task_status"),
        last_task_error=_text(row, "last_task_error"),
        stale_noticed=_moment(row.get("stale_noticed")),
        stale_by=_text(row, "stale_by"),
        failures_in_a_row=row.get("failures_in_a_row") or 0,
        failing_since=_moment(row.get("failing_since")),
        paused_because=_text(row, "paused_because"),
        memory=_memory(row),
    )


def _memory(row: Row) -> InMemoryState | None:
    if (state := _text(row, "memory")) is None:
        return None
    said = _text(row, "memory_asked_by"), _text(row, "memory_reason")
    size = row.get("memory_rows"), row.get("memory_bytes")
    return InMemoryState(state, *said, *size, _moment(row.get("memory_since")), row.get("memory_answers"))


def _task(row: Row) -> RefreshTask:
    progress = _PROGRESS.fullmatch(_text(row, "progress") or "")
    rows = _text(row, "rowcount")
    return RefreshTask(
        id=_text(row, "taskid") or "",
        database=_text(row, "mvdatabasename") or "",
        view=_text(row, "mvname") or "",
        status=_text(row, "status") or "",
        trigger=_trigger(_text(row, "taskcontext")),
        user=_text(row, "triggeredby"),
        created_at=_moment(_text(row, "createtime")),
        started_at=_moment(_text(row, "starttime")),
        method=_text(row, "refreshmode"),
        reason=_text(row, "reason"),
        percent=float(progress[1]) if progress else None,
        partitions_done=int(progress[2]) if progress else None,
        partitions_needed=int(progress[3]) if progress else None,
        spark_progress=_text(row, "sparkprogress"),
        row_count=int(rows) if rows is not None and rows.isdecimal() else None,
    )


def _problem(row: Row) -> Problem:
    return Problem(
        what=_text(row, "what") or "",
        database=_text(row, "database_name") or "",
        name=_text(row, "name") or "",
        owner=_text(row, "owner"),
        since=_moment(row.get("since")),
        why=_text(row, "why") or "",
        advice=_text(row, "advice") or "",
        error=_text(row, "error"),
    )


def _member(row: Row) -> ListedGateway:
    return ListedGateway(
        address=_text(row, "address") or "",
        role=_text(row, "role") or "",
        epoch=row.get("epoch"),
        since=_moment(_text(row, "since")),
        clients=row.get("clients"),
        version=_text(row, "version"),
    )


def _text(row: Row, column: str) -> str | None:
    value = row.get(column)
    return None if value is None or value in ("", NULL_TEXT) else str(value)


def _trigger(context: str | None) -> str | None:
    try:
        found = json.loads(context or "{}")
    except ValueError:
        return None
    return str(found["triggerMode"]) if isinstance(found, dict) and found.get("triggerMode") else None


def _moment(value: int | str | None) -> datetime | None:
    """Converts milliseconds since the epoch, or a string in UTC. A string that is not a time gives None."""
    if value is None:
        return None
    if isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _problem_json(problem: Problem, now: datetime) -> dict[str, Any]:
    return {
        "what": problem.what,
        "database": problem.database,
        "name": problem.name,
        "owner": problem.owner,
        "since": _iso(problem.since),
        "since_seconds": _age(problem.since, now),
        "why": problem.why,
        "advice": problem.advice,
        "error": problem.error,
    }


def _rows_json(rows: Sequence[Row] | None) -> list[dict[str, Any]] | None:
    """Rows under the names of their columns; names that are listed in a text become lists."""
    if rows is None:
        return None
    return [{_KEYS.get(name, name): _value_json(name, value) for name, value in row.items()} for row in rows]


_KEYS = {"database_name": "database"}
MOMENTS = frozenset({"start_time", "last_read_time", "memory_since"})
_LISTS = frozenset({"views", "refreshed", "user_names"})


def _value_json(name: str, value: Any) -> Any:
    if name in MOMENTS:
        return _iso(_moment(value))
    if name in _LISTS:
        return value.split(", ") if value else []
    return value


def _memory_json(memory: InMemoryState) -> dict[str, Any]:
    return {
        "state": memory.state,
        "asked_by": memory.asked_by,
        "reason": memory.reason,
        "rows": memory.rows,
        "bytes": memory.bytes,
        "since": _iso(memory.since),
        "answers": memory.answers,
    }


def _view_json(view: View, worst: Problem | None, now: datetime) -> dict[str, Any]:
    return {
        "database": view.database,
        "name": view.name,
        "state": view.state,
        "freshness": view.freshness,
        "reason": view.reason,
        "stale_since": _iso(view.stale_since),
        "version": view.version,
        "last_refresh_time": _iso(view.last_refresh_time),
        "last_refresh_age_seconds": _age(view.last_refresh_time, now),
        "trigger": view.trigger,
        "schedule": view.schedule,
        "paused": view.paused,
        "next_refresh_time": _iso(view.next_refresh_time),
        "is_refreshing": view.is_refreshing,
        "last_task_status": view.last_task_status,
        "last_task_error": view.last_task_error,
        "memory": None if view.memory is None else _memory_json(view.memory),
        "stale_noticed": _iso(view.stale_noticed),
        "stale_by": view.stale_by,
        "failures_in_a_row": view.failures_in_a_row,
        "failing_since": _iso(view.failing_since),
        "paused_because": view.paused_because,
        "trouble": None if worst is None else worst.what,
    }


def _task_json(task: RefreshTask, now: datetime) -> dict[str, Any]:
    return {
        "id": task.id,
        "database": task.database,
        "view": task.view,
        "status": task.status,
        "trigger": task.trigger,
        "user": task.user,
        "created_at": _iso(task.created_at),
        "started_at": _iso(task.started_at),
        "elapsed_seconds": _age(task.since, now),
        "method": task.method,
        "reason": task.reason,
        "percent": task.percent,
        "partitions_done": task.partitions_done,
        "partitions_needed": task.partitions_needed,
        "spark_progress": task.spark_progress,
        "row_count": task.row_count,
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _age(moment: datetime | None, now: datetime | None) -> float | None:
    """Seconds from the first to the second moment, to the millisecond."""
    return None if moment is None or now is None else round((now - moment).total_seconds(), 3)
