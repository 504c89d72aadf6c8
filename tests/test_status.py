"""Tests how `freshgate status` shows the catalog's rows: values, texts of given widths, and JSON."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyhive.exc import OperationalError
from TCLIService import ttypes

from gateway import __main__ as freshgate
from gateway.config import Address
from gateway.status import text
from gateway.status.client import STATEMENTS_MAX, BadUrl, Client, StatusFailed, Target
from gateway.status.model import Status, json_of, status_of
from gateway.status.text import Style

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
URL = "jdbc:hive2://127.0.0.1:10000/default"
LOCAL = Target(Address("127.0.0.1", 10000))
WIDTHS = (1, 5, 20, 40, 79, 80, 81, 120, 200, 400)


def ago(seconds: float) -> int:
    """Milliseconds since the epoch, the format of times in the query of the views."""
    return int((NOW - timedelta(seconds=seconds)).timestamp() * 1000)


def view(name: str, **columns: Any) -> dict[str, Any]:
    """A row of freshgate.materialized_views for a fresh view that reads refresh."""
    return {
        "database_name": "nyc",
        "name": name,
        "state": "NORMAL",
        "schema_change": None,
        "freshness": "FRESH",
        "stale_because": None,
        "stale_since": None,
        "version": 3,
        "refresh_trigger": "READ",
        "refresh_schedule": "MANUAL TRIGGER",
        "last_refresh_time": ago(3723),
        "is_refreshing": False,
        "last_task_status": "SUCCESS",
        "last_task_error": None,
        **columns,
    }


NEWEST = (
    *("stale_noticed", "stale_by", "failures_in_a_row", "failing_since", "paused_because"),
    *("memory", "memory_asked_by", "memory_reason", "memory_rows", "memory_bytes", "memory_since", "memory_answers"),
)


def task(name: str, **columns: str) -> dict[str, Any]:
    """A row of tasks() for a running refresh, without the columns that an older gateway lacks."""
    return {
        "taskid": "17",
        "mvname": name,
        "mvdatabasename": "nyc",
        "status": "RUNNING",
        "errormsg": "\\N",
        "createtime": "2026-03-01 11:59:00",
        "starttime": "2026-03-01 11:59:30",
        "finishtime": "\\N",
        "taskcontext": '{"triggerMode":"MANUAL","partitions":[],"isComplete":false}',
        "refreshmode": "PARTIAL",
        "progress": "50.00% (1/2)",
        "triggeredby": "ada",
        "reason": "nyc.flights has changed in 2 partitions",
        **columns,
    }


STALE = view(
    "daily_delays", freshness="STALE", stale_because="nyc.flights has changed in 1 partition", stale_since=ago(303)
)
HOURLY = view(
    "hourly",
    refresh_trigger="SCHEDULE",
    refresh_schedule="EVERY 1 HOUR",
    job_status="RUNNING",
    next_refresh_time=ago(-600),
)
FAILED = view(
    "weekly",
    freshness="STALE",
    stale_because="nyc.flights has changed",
    stale_since=ago(200_000),
    refresh_trigger="SCHEDULE",
    refresh_schedule="EVERY 1 WEEK",
    job_status="PAUSED",
    next_refresh_time=ago(-60),
    last_task_status="FAILED",
    last_task_error="The refresh of materialized view nyc.weekly failed; version 3 stays published. Fix the cause.\n"
    "\tSpark said: [DIVIDE_BY_ZERO] Division by zero.",
)
DAMAGED = view(
    "gone",
    state="DAMAGED",
    schema_change="its storage table was dropped outside the gateway",
    freshness=None,
    version=None,
    refresh_trigger=None,
    refresh_schedule=None,
    last_refresh_time=None,
    is_refreshing=None,
    last_task_status=None,
)
WAITING = task(
    "hourly",
    taskid="18",
    status="PENDING",
    starttime="\\N",
    taskcontext='{"triggerMode":"SYSTEM"}',
    progress="\\N",
    triggeredby="freshgate",
    reason="",
)
WRONG = [
    {
        "place": 1,
        "what": "DAMAGED",
        "database_name": "nyc",
        "name": "gone",
        "owner": None,
        "since": None,
        "why": "its storage table was dropped outside the gateway",
        "advice": "Run DROP MATERIALIZED VIEW nyc.gone, which removes what is left of it, then create it again.",
        "error": None,
    },
    {
        "place": 2,
        "what": "FAILING",
        "database_name": "nyc",
        "name": "weekly",
        "owner": "ada",
        "since": ago(200_000),
        "why": "2 refreshes in a row have failed",
        "advice": "Mend the cause. Then REFRESH MATERIALIZED VIEW nyc.weekly.",
        "error": "[DIVIDE_BY_ZERO] Division by zero.",
    },
]
"""Rows of freshgate.attention."""
BUSY = status_of(
    [HOURLY, FAILED, DAMAGED, STALE],
    [],
    [WAITING, task("daily_delays", sparkprogress="stage 2 of 3, 45 of 200 tasks", rowcount="\\N")],
    attention=WRONG,
)


def shown(status: Status, width: int, **style: Any) -> str:
    return "\n".join(text.render(status, NOW, Style(width, **style), URL)) + "\n"


# --- texts ---------------------------------------------------------------------------------------------


def test_a_narrow_terminal_has_notes_below_the_lines() -> None:
    assert (
        shown(BUSY, 80)
        == """\
jdbc:hive2://127.0.0.1:10000/default at 2026-03-01 12:00:00 UTC
4 materialized views: 1 FRESH, 2 STALE, 1 DAMAGED. Tasks: 1 running, 1 waiting.

WHAT     VIEW        SINCE
DAMAGED  nyc.gone    -
  its storage table was dropped outside the gateway
  Run DROP MATERIALIZED VIEW nyc.gone, which removes what is left of it, then...
FAILING  nyc.weekly  2d 7h ago
  2 refreshes in a row have failed
  Mend the cause. Then REFRESH MATERIALIZED VIEW nyc.weekly.
  error: [DIVIDE_BY_ZERO] Division by zero.

TASK             STATUS   PROGRESS          PARTITIONS  TIME  BY
nyc.da...delays  RUNNING  [#####.....] 50%  1 of 2      30s   ada (MANUAL)
  stage 2 of 3, 45 of 200 tasks
  because nyc.flights has changed in 2 partitions
nyc.hourly       PENDING  [..........] -    -           1m    freshgate (SYSTEM)

NEXT        IN   AT (UTC)
nyc.hourly  10m  2026-03-01 12:10:00

VIEW              STATE    STALE FOR  REFRESHED  TRIGGER   NEXT    LAST TASK
nyc.daily_delays  STALE    5m 3s      1h 2m      READ      -       SUCCESS
  because nyc.flights has changed in 1 partition
nyc.gone          DAMAGED  -          -          -         -       -
nyc.hourly        FRESH    -          1h 2m      SCHEDULE  10m     SUCCESS
  schedule: EVERY 1 HOUR
nyc.weekly        FAILING  2d 7h      1h 2m      SCHEDULE  paused  FAILED
  because nyc.flights has changed
  schedule: EVERY 1 WEEK
"""
    )


def test_a_wide_terminal_has_notes_in_a_column() -> None:
    assert [line.rstrip() for line in shown(BUSY, 200, unicode=True).splitlines()[3:]] == [
        "WHAT     VIEW        SINCE      NOTES",
        "DAMAGED  nyc.gone    -          its storage table was dropped outside the gateway; Run DROP "
        "MATERIALIZED VIEW nyc.gone, which removes what is left of it, then create it again.",
        "FAILING  nyc.weekly  2d 7h ago  2 refreshes in a row have failed; Mend the cause. Then REFRESH "
        "MATERIALIZED VIEW nyc.weekly.; error: [DIVIDE_BY_ZERO] Division by zero.",
        "",
        "TASK              STATUS   PROGRESS          PARTITIONS  TIME  BY                  NOTES",
        "nyc.daily_delays  RUNNING  [█████░░░░░] 50%  1 of 2      30s   ada (MANUAL)        stage 2 of 3, 45 "
        "of 200 tasks; because nyc.flights has changed in 2 partitions",
        "nyc.hourly        PENDING  [░░░░░░░░░░] -    -           1m    freshgate (SYSTEM)",
        "",
        "NEXT        IN   AT (UTC)",
        "nyc.hourly  10m  2026-03-01 12:10:00",
        "",
        "VIEW              STATE    STALE FOR  REFRESHED  TRIGGER   NEXT    LAST TASK  NOTES",
        "nyc.daily_delays  STALE    5m 3s      1h 2m      READ      -       SUCCESS    because nyc.flights "
        "has changed in 1 partition",
        "nyc.gone          DAMAGED  -          -          -         -       -",
        "nyc.hourly        FRESH    -          1h 2m      SCHEDULE  10m     SUCCESS    schedule: EVERY 1 HOUR",
        "nyc.weekly        FAILING  2d 7h      1h 2m      SCHEDULE  paused  FAILED     because nyc.flights "
        "has changed; schedule: EVERY 1 WEEK",
    ]


def test_an_empty_catalog_is_shown_as_such() -> None:
    expected = f"{URL} at 2026-03-01 12:00:00 UTC\nNo materialized views. Tasks: 0 running, 0 waiting.\n"
    assert shown(status_of([], [], []), 80) == expected


def test_a_single_fresh_view_has_no_column_of_notes() -> None:
    lines = shown(status_of([view("m")], [], []), 200).splitlines()
    assert lines[1:] == [
        "1 materialized view: 1 FRESH. Tasks: 0 running, 0 waiting.",
        "",
        "VIEW   STATE  STALE FOR  REFRESHED  TRIGGER  NEXT  LAST TASK",
        "nyc.m  FRESH  -          1h 2m      READ     -     SUCCESS",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rows = [
        STALE,
        HOURLY,
        FAILED,
        DAMAGED,
        view("表" * 30),
        view("x" * 300),
        view("e\u0301" * 50, stale_because="é" * 500),
    ]
    status = status_of(rows, [], [WAITING, task("y" * 300, triggeredby="z" * 100)])
    for unicode in (False, True):
        for line in text.render(status, NOW, Style(width, unicode=unicode), URL):
            assert text.characters(line) <= width, line


def test_columns_stay_aligned_under_wide_characters() -> None:
    lines = shown(status_of([view("表"), view("abc")], [], []), 80).splitlines()[-2:]
    assert [text.characters(line.partition("FRESH")[0]) for line in lines] == [9, 9]


def test_long_names_are_shortened_in_the_middle() -> None:
    rows = [view(f"delays_of_all_airlines_in_the_year_{year}") for year in (2012, 2013)]
    names = [line.split()[0] for line in shown(status_of(rows, [], []), 80).splitlines()[-2:]]
    assert [(name[:8], name[-5:]) for name in names] == [("nyc.dela", "_2012"), ("nyc.dela", "_2013")]
    assert all("..." in name for name in names)


def test_control_characters_in_names_and_errors_are_removed() -> None:
    evil = view("a\x1b[2Jb\r\nc", last_task_status="FAILED", last_task_error="x\x1b]0;title\x07\u202ey")
    output = shown(status_of([evil], [], []), 200, colour=False)
    assert output.isprintable() is False  # line ends
    assert all(line.isprintable() for line in output.splitlines())
    assert "nyc.a [2Jb c" in output


def test_colour_has_no_width_and_does_not_apply_to_names() -> None:
    status = status_of([STALE, DAMAGED, view("FAILED", database_name="FRESH")], [], [])
    for width in (80, 200):
        coloured = shown(status, width, colour=True)
        assert re.sub(r"\x1b\[\d*m", "", coloured) == shown(status, width)
        assert "\x1b[33mSTALE\x1b[0m" in coloured
        assert "\x1b[31mDAMAGED\x1b[0m" in coloured
        assert "FRESH.FAILED " in coloured


@pytest.mark.parametrize("height", [17, 24, 50])
def test_a_small_terminal_shows_problems_first(height: int) -> None:
    rows = [view(f"v{number:05}") for number in range(10_000)]
    rows[9_000] = view("v09000", freshness="STALE", stale_because="nyc.t has changed", stale_since=ago(1))
    tasks = [task(f"v{number:05}", taskid=str(number)) for number in range(500)]
    status = status_of([{**row, "next_refresh_time": ago(-60)} for row in rows], [], tasks)
    lines = text.render(status, NOW, Style(80, height), URL)
    assert len(lines) <= height
    assert any(line.startswith("nyc.v09000  STALE") for line in lines)
    assert sum(line.startswith("and ") for line in lines) == 3


def test_the_number_of_omitted_views_is_shown() -> None:
    rows = [view(f"v{number}") for number in range(50)] + [{**FAILED, "name": f"w{number}"} for number in range(50)]
    lines = text.render(status_of(rows, [], []), NOW, Style(80, 20), URL)
    assert len(lines) == 20
    assert lines[-1] == "and 96 more, 46 of them stale, failed or damaged"
    assert len(text.render(status_of(rows, [], []), NOW, Style(80), URL)) == 4 + 50 + 50 * 4


def test_the_soonest_runs_are_shown() -> None:
    rows = [{**HOURLY, "name": f"v{number:02}", "next_refresh_time": ago(60 * number - 1200)} for number in range(30)]
    lines = shown(status_of([*rows, FAILED], [], []), 80).splitlines()
    place = lines.index("NEXT     IN   AT (UTC)")
    assert lines[place + 1] == "nyc.v29  due  2026-03-01 11:51:00"
    assert lines[place + 10] == "nyc.v20  due  2026-03-01 12:00:00"
    assert lines[place + 11 : place + 13] == ["and 20 more", ""]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (303, "5m 3s"),
        (3600, "1h"),
        (3659, "1h"),
        (7500, "2h 5m"),
        (86_400, "1d"),
        (273_600, "3d 4h"),
        (86_400 * 400, "400d"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, said: str) -> None:
    assert text.duration(seconds) == said


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        (None, "[..........] -"),
        (0.0, "[..........] 0%"),
        (9.99, "[..........] 9%"),
        (10.0, "[#.........] 10%"),
        (99.99, "[#########.] 99%"),
        (100.0, "[##########] 100%"),
        (250.0, "[##########] 100%"),
    ],
)
def test_a_progress_bar_is_full_only_at_the_end(percent: float | None, said: str) -> None:
    assert text.bar(percent, Style(80)) == said


# --- values --------------------------------------------------------------------------------------------


def test_who_is_at_a_limit_is_shown() -> None:
    about = {"limits_reached": "ada: 2 sessions (* each: sessions 2)"}
    status = status_of([], [], [], about)
    assert "At a limit: ada: 2 sessions (* each: sessions 2)" in text.render(status, NOW, Style(80), "here")
    assert json_of(status, NOW)["limits_reached"] == about["limits_reached"]
    assert "At a limit" not in "".join(text.render(status_of([], [], []), NOW, Style(80), "here"))


def test_json_has_times_in_iso_and_numbers_as_numbers() -> None:
    found = json.loads(json.dumps(json_of(BUSY, NOW)))
    assert list(found) == [
        *("attention", "views", "tasks", "next", "gateways", "storage_guard", "spark_servers", "limits_reached"),
        *("audit_lines_lost", "tables_in_memory", "reads", "statements", "refresh_costs"),
    ]
    assert [(each["what"], each["name"]) for each in found["attention"]] == [("DAMAGED", "gone"), ("FAILING", "weekly")]
    assert found["attention"][1] == {
        "what": "FAILING",
        "database": "nyc",
        "name": "weekly",
        "owner": "ada",
        "since": "2026-02-27T04:26:40+00:00",
        "since_seconds": 200_000.0,
        "why": "2 refreshes in a row have failed",
        "advice": "Mend the cause. Then REFRESH MATERIALIZED VIEW nyc.weekly.",
        "error": "[DIVIDE_BY_ZERO] Division by zero.",
    }
    assert found["storage_guard"] is None
    assert [each["name"] for each in found["views"]] == ["daily_delays", "gone", "hourly", "weekly"]
    weekly = found["views"][3]
    assert weekly.pop("last_task_error") == FAILED["last_task_error"]
    assert weekly == {
        "database": "nyc",
        "name": "weekly",
        "state": "NORMAL",
        "freshness": "STALE",
        "reason": "nyc.flights has changed",
        "stale_since": "2026-02-27T04:26:40+00:00",
        "version": 3,
        "last_refresh_time": "2026-03-01T10:57:57+00:00",
        "last_refresh_age_seconds": 3723.0,
        "trigger": "SCHEDULE",
        "schedule": "EVERY 1 WEEK",
        "paused": True,
        "next_refresh_time": None,
        "is_refreshing": False,
        "last_task_status": "FAILED",
        "stale_noticed": None,
        "stale_by": None,
        "failures_in_a_row": 0,
        "failing_since": None,
        "paused_because": None,
        "memory": None,
        "trouble": "FAILING",
    }
    gone = found["views"][1]
    assert (gone["freshness"], gone["state"], gone["version"]) == ("DAMAGED", "DAMAGED", None)
    assert (gone["reason"], gone["paused"]) == ("its storage table was dropped outside the gateway", None)
    assert found["tasks"] == [
        {
            "id": "17",
            "database": "nyc",
            "view": "daily_delays",
            "status": "RUNNING",
            "trigger": "MANUAL",
            "user": "ada",
            "created_at": "2026-03-01T11:59:00+00:00",
            "started_at": "2026-03-01T11:59:30+00:00",
            "elapsed_seconds": 30.0,
            "method": "PARTIAL",
            "reason": "nyc.flights has changed in 2 partitions",
            "percent": 50.0,
            "partitions_done": 1,
            "partitions_needed": 2,
            "spark_progress": "stage 2 of 3, 45 of 200 tasks",
            "row_count": None,
        },
        {
            "id": "18",
            "database": "nyc",
            "view": "hourly",
            "status": "PENDING",
            "trigger": "SYSTEM",
            "user": "freshgate",
            "created_at": "2026-03-01T11:59:00+00:00",
            "started_at": None,
            "elapsed_seconds": 60.0,
            "method": "PARTIAL",
            "reason": None,
            "percent": None,
            "partitions_done": None,
            "partitions_needed": None,
            "spark_progress": None,
            "row_count": None,
        },
    ]
    assert found["next"] == [
        {
            "database": "nyc",
            "name": "hourly",
            "next_refresh_time": "2026-03-01T12:10:00+00:00",
            "in_seconds": 600.0,
            "schedule": "EVERY 1 HOUR",
        }
    ]


def test_what_is_in_memory_is_told() -> None:
    size = {"memory_rows": 365, "memory_bytes": 3 << 20, "memory_since": ago(60), "memory_answers": 7}
    status = status_of(
        [
            view("a", memory="LOADED", memory_asked_by="VIEW", memory_reason=None, **size),
            view("b", memory="NOT_LOADED", memory_asked_by="READS", memory_reason="memory.bytes leaves no room for it"),
            view("c", memory=None),
        ],
        [],
        [],
    )
    first, second, third = (each["memory"] for each in json_of(status, NOW)["views"])
    since = "2026-03-01T11:59:00+00:00"
    loaded = {"state": "LOADED", "asked_by": "VIEW", "reason": None, "rows": 365, "bytes": 3 << 20}
    assert first == {**loaded, "since": since, "answers": 7}
    assert (second["state"], second["reason"], third) == ("NOT_LOADED", "memory.bytes leaves no room for it", None)
    shown = "\n".join(text.render(status, NOW, Style(200), URL))
    assert "In memory: 1 of 2 views, 3.0 MiB" in shown
    assert "memory: not loaded, because memory.bytes leaves no room for it" in shown


def test_paused_jobs_are_read_from_jobs_if_the_views_lack_the_column() -> None:
    jobs = [
        {"mvdatabasename": "nyc", "mvname": "a", "status": "PAUSED"},
        {"mvdatabasename": "other", "mvname": "b", "status": "PAUSED"},
        {"mvdatabasename": "nyc", "mvname": "b", "status": "RUNNING"},
        {"mvdatabasename": "nyc", "mvname": "c", "status": "PAUSED"},
    ]
    status = status_of([view("a"), view("b"), view("c", job_status="RUNNING"), view("d")], jobs, [])
    assert [each.paused for each in status.views] == [True, False, False, None]


def test_a_changed_schema_takes_precedence_over_a_changed_table() -> None:
    row = view("m", state="SCHEMA_CHANGE", schema_change="nyc.t was dropped", stale_because="nyc.t has changed")
    assert status_of([row], [], []).views[0].reason == "nyc.t was dropped"


@pytest.mark.parametrize("context", ["\\N", "", "{", "[]", '"x"', '{"partitions":[]}'])
def test_a_task_with_an_unreadable_context_is_shown(context: str) -> None:
    (found,) = status_of([], [], [task("m", taskcontext=context, progress="soon", createtime="?", starttime="?")]).tasks
    assert (found.trigger, found.percent, found.since) == (None, None, None)
    assert "ada" in shown(Status((), (found,)), 80)
    assert "(" not in shown(Status((), (found,)), 80).splitlines()[-2]


def test_rows_written_are_shown() -> None:
    (found,) = status_of([], [], [task("m", rowcount="1500")]).tasks
    assert found.row_count == 1500
    assert "1500 rows" in shown(Status((), (found,)), 80)


# --- statements ----------------------------------------------------------------------------------------


class Gateway:
    """Replaces PyHive's connection to a gateway, and its cursor. The views also have the given columns."""

    def __init__(self, views: list[dict[str, Any]], *columns: str) -> None:
        self.statements: list[tuple[str, Any]] = []
        self.columns = [*view("m"), *columns]
        """Of the views."""
        self.tables: dict[str, list[dict[str, Any]]] = {"materialized_views": views}
        """By name in `freshgate`; others have no rows."""
        self._rows: list[dict[str, Any]] = []
        self._shown: list[str] = []

    def cursor(self, arraysize: int) -> Gateway:
        assert arraysize > 0
        return self

    def execute(self, sql: str, parameters: Any) -> None:
        self.statements.append((sql, parameters))
        table = (re.findall(r"FROM freshgate\.(\w+)", sql) or [""])[0]
        self._shown = [name[0] or name[1] for name in re.findall(r"\bAS (\w+)|(\w+)(?=,| FROM)", sql)]
        self._rows = self.tables.get(table, [])
        for column in self._shown if table == "materialized_views" else []:
            if column not in self.columns:
                message = f"[UNRESOLVED_COLUMN] A column with name `{column}` cannot be resolved. SQLSTATE: 42703"
                raise OperationalError(ttypes.TExecuteStatementResp(ttypes.TStatus(3, None, "42703", 0, message)))

    @property
    def description(self) -> list[tuple[str]]:
        return [(name,) for name in self._shown]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [tuple(row.get(name) for name in self._shown) for row in self._rows]

    def close(self) -> None:
        """Nothing is open."""


class Refusing(Gateway):
    """An older one, which refuses some statements."""

    def __init__(self, **refused: str) -> None:
        """`refused`: the SQLSTATE by the statement's last word."""
        super().__init__([view("m")], "job_status", "next_refresh_time", *NEWEST)
        self._refused = refused

    def execute(self, sql: str, parameters: Any) -> None:
        super().execute(sql, parameters)
        state = self._refused.get(re.sub(r" LIMIT \d+$", "", sql).rpartition(".")[2].rpartition(" ")[2])
        if state is not None:
            raise OperationalError(ttypes.TExecuteStatementResp(ttypes.TStatus(3, None, state, 0, "no such thing")))


def test_a_gateway_with_all_columns_gets_four_queries() -> None:
    gateway = Gateway([HOURLY, FAILED], "job_status", "next_refresh_time", *NEWEST)
    status = Client(LOCAL, gateway, None).status("NYC")
    assert [each.title for each in status.next] == ["nyc.hourly"]
    assert [each.paused for each in status.views] == [False, True]
    views, tasks, attention, about, gateways = gateway.statements
    assert "unix_millis(since) AS since" in attention[0]
    assert attention[0].endswith(" FROM freshgate.attention WHERE database_name = %(database)s")
    assert gateways == ("SHOW GATEWAYS", None)
    assert about == ("SELECT * FROM freshgate.gateway", None)
    assert "unix_millis(next_refresh_time) AS next_refresh_time" in views[0]
    assert views[0].endswith(" FROM freshgate.materialized_views WHERE database_name = %(database)s")
    assert tasks[0].endswith(" WHERE Status IN ('RUNNING', 'PENDING') AND MvDatabaseName = %(database)s")
    assert views[1] == tasks[1] == {"database": "nyc"}
    # Spark would count the rows of all versions.
    assert not re.search(r"\*|row_count|size_bytes|versions_kept", views[0])


@pytest.mark.parametrize("known", [(), ("job_status",), ("next_refresh_time",)])
def test_columns_that_a_gateway_lacks_are_queried_once(known: tuple[str, ...]) -> None:
    gateway = Gateway([view("m")], *known)
    client = Client(LOCAL, gateway, None)
    client.status(None)
    first = len(gateway.statements)
    assert first <= 10
    assert [each.name for each in client.status(None).views] == ["m"]
    later = [sql for sql, _ in gateway.statements[first:]]
    assert len(later) == (5 if "job_status" in known else 6)
    assert all(column in later[0] for column in known)


def test_a_missing_column_of_every_gateway_is_an_error() -> None:
    gateway = Gateway([])
    gateway.columns.remove("freshness")
    with pytest.raises(StatusFailed, match="`freshness` cannot be resolved") as failure:
        Client(LOCAL, gateway, None).status(None)
    assert failure.value.sqlstate == "42703"


# --- URLs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("jdbc:hive2://127.0.0.1:10000/default", LOCAL),
        ("jdbc:hive2://127.0.0.1:10000", LOCAL),
        ("jdbc:hive2://127.0.0.1/", LOCAL),
        ("hive2://127.0.0.1", LOCAL),
        ("127.0.0.1:10000", LOCAL),
        ("[::1]:7", Target(Address("::1", 7))),
        (" JDBC:HIVE2://127.0.0.1:10000/ ", LOCAL),
        ("jdbc:hive2://127.0.0.1:10000;auth=noSasl", replace(LOCAL, sasl=False)),
        ("jdbc:hive2://127.0.0.1:10000/;ssl=false;AUTH=NOSASL;", replace(LOCAL, sasl=False)),
        ("jdbc:hive2://127.0.0.1:10000/;ssl=true", replace(LOCAL, tls=True)),
        ("jdbc:hive2://127.0.0.1:10000/;transportMode=http;httpPath=/p", replace(LOCAL, http_path="p")),
        ("jdbc:hive2://127.0.0.1:10000/;transportMode=HTTP", replace(LOCAL, http_path="cliservice")),
        ("jdbc:hive2://127.0.0.1:10000/nyc?a=b;c=d#e=f", replace(LOCAL, database="nyc")),
        ("jdbc:hive2://127.0.0.1:10000/a%20b%2Fc", replace(LOCAL, database="a b/c")),
        (
            "jdbc:hive2://127.0.0.1:10000/nyc;user=ada%3B;password=a%3Db=c",
            replace(LOCAL, database="nyc", user="ada;", password="a=b=c"),
        ),
        ("jdbc:hive2://[::1]:10001/", Target(Address("::1", 10001))),
        ("jdbc:hive2://[::1]/", Target(Address("::1", 10000))),
        ("jdbc:hive2://spark.example:10001/d;transportMode=binary", Target(Address("spark.example", 10001), "d")),
    ],
)
def test_a_url_is_parsed(url: str, target: Target) -> None:
    assert Target.parse(url) == target


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "is not the URL of a gateway"),
        ("127.0.0.1", "Write HOST:PORT or jdbc:hive2://HOST:PORT/DATABASE"),
        ("127.0.0.1:10000/nyc", "is not the URL of a gateway"),
        ("h:0", "is not the URL of a gateway"),
        ("jdbc:hive2:///nyc", "is not the URL of a gateway"),
        ("jdbc:hive2://h:0/", "is not the URL of a gateway"),
        ("jdbc:hive2://h:port/", "is not the URL of a gateway"),
        ("jdbc:hive2://a:1,b:2/;serviceDiscoveryMode=zooKeeper", "names several hosts"),
        ("jdbc:hive2://h/;transportMode=udp", "transportMode=udp is not supported"),
        ("jdbc:hive2://h/;principal=hive/_HOST@X", "does not support Kerberos"),
    ],
)
def test_an_invalid_url_is_refused(url: str, said: str) -> None:
    with pytest.raises(BadUrl, match=re.escape(said)) as refusal:
        Target.parse(url)
    assert refusal.value.sqlstate == "22023"


def test_no_message_has_the_password() -> None:
    assert "secret" not in str(Target.parse("jdbc:hive2://h/;user=u;password=secret"))
    with pytest.raises(BadUrl) as refusal:
        Target.parse("jdbc:hive2://h:x/;password=secret;user=u")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "nowhere"], "is not the URL of a gateway"),
        (["--set", "listen.port=0"], "Pass --url"),
        (["--set", "listen.prot=1"], "Did you mean 'listen.port'?"),
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert freshgate.main(["status", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_port_of_serve_is_that_of_status(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert freshgate.main(["status", "--port", str(port)]) == 1
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_an_invalid_pause_is_refused(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        freshgate.main(["status", "--watch", seconds])
    assert end.value.code == 2
    assert "number of seconds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "line", "told"),
    [
        ({"storage_guard": "ACTIVE", "storage_guard_reason": None}, "Guard inside Spark: ACTIVE", ("ACTIVE", None)),
        (
            {"storage_guard": "ABSENT", "storage_guard_reason": "no jar"},
            "Guard inside Spark: ABSENT: no jar",
            ("ABSENT", "no jar"),
        ),
    ],
)
def test_the_guard_inside_spark_is_shown(row: dict[str, Any], line: str, told: tuple[str, str | None]) -> None:
    status = status_of([], [], [], row)
    assert text.render(status, NOW, Style(80), "x")[2] == line
    assert json_of(status, NOW)["storage_guard"] == {"state": told[0], "reason": told[1]}


@pytest.mark.parametrize(("refused", "state"), [("gateway", "42P01"), ("GATEWAYS", "42601"), ("attention", "42P01")])
def test_an_older_gateway_is_asked_once(refused: str, state: str) -> None:
    gateway = Refusing(**{refused: state})
    client = Client(LOCAL, gateway, None)
    for _ in range(2):
        status = client.status(None)
        assert [each.name for each in status.views] == ["m"]
        assert (status.guard, status.gateways) == (None, ())
        assert (status.attention is None) is (refused == "attention")
    assert len(gateway.statements) == 9


def test_json_has_reads_and_the_last_statements() -> None:
    gateway = Refusing()
    gateway.tables["reads"] = [
        {"database_name": "nyc", "name": "m", "named_reads": 3, "last_read_time": ago(60), "user_names": "ada, bob"},
        {"database_name": "nyc", "name": "n", "named_reads": 0, "last_read_time": None, "user_names": None},
    ]
    gateway.tables["refresh_costs"] = [{"database_name": "nyc", "name": "m", "expected_method": "COMPLETE"}]
    gateway.tables["statements"] = [{"statement": 8, "start_time": ago(5), "views": "nyc.m", "refreshed": None}]
    status = Client(LOCAL, gateway, None).status("NYC", everything=True)
    assert gateway.statements[-3][0].endswith("FROM freshgate.reads WHERE database_name = %(database)s")
    # Those of all databases: a statement may name views of several.
    assert gateway.statements[-2][0].endswith(f"FROM freshgate.statements LIMIT {STATEMENTS_MAX}")
    found = json.loads(json.dumps(json_of(status, NOW)))
    (cost,) = found["refresh_costs"]
    assert (cost["database"], cost["name"], cost["expected_method"]) == ("nyc", "m", "COMPLETE")
    first, second = found["reads"]
    assert (first["database"], first["name"], first["named_reads"]) == ("nyc", "m", 3)
    assert (first["last_read_time"], first["user_names"]) == ("2026-03-01T11:59:00+00:00", ["ada", "bob"])
    assert (second["last_read_time"], second["user_names"]) == (None, [])
    (statement,) = found["statements"]
    assert (statement["statement"], statement["start_time"]) == (8, "2026-03-01T11:59:55+00:00")
    assert (statement["views"], statement["refreshed"]) == (["nyc.m"], [])


def test_reads_and_statements_are_asked_for_json_alone() -> None:
    gateway = Refusing()
    status = Client(LOCAL, gateway, None).status(None)
    assert not [sql for sql, _ in gateway.statements if "reads" in sql or "statements" in sql]
    found = json_of(status, NOW)
    assert (found["reads"], found["statements"], found["refresh_costs"]) == (None, None, None)


def test_an_older_gateway_has_no_reads() -> None:
    status = Client(LOCAL, Refusing(reads="42P01", statements="42P01", refresh_costs="42P01"), None).status(
        None, everything=True
    )
    found = json_of(status, NOW)
    assert (found["reads"], found["statements"], found["refresh_costs"]) == (None, None, None)


def gateway_row(number: int, role: str, since: object) -> dict[str, Any]:
    address = f"gateway-{number}.example:10009"
    return {"address": address, "role": role, "epoch": 7, "since": since, "clients": 10 * number, "version": "0.1.0"}


def test_several_gateways_are_shown() -> None:
    rows = [
        gateway_row(1, "LEADER", NOW.replace(tzinfo=None) - timedelta(hours=3, minutes=12)),
        gateway_row(2, "SILENT", None),
    ]
    status = status_of([], [], [], {}, rows)
    lines = text.render(status, NOW, Style(80), "x")
    assert [line.split() for line in lines[3:6]] == [
        ["GATEWAY", "ROLE", "FOR", "EPOCH", "CLIENTS", "VERSION"],
        ["gateway-1.example:10009", "LEADER", "3h", "12m", "7", "10", "0.1.0"],
        ["gateway-2.example:10009", "SILENT", "-", "7", "20", "0.1.0"],
    ]
    leader, silent = json_of(status, NOW)["gateways"]
    assert (leader["since_seconds"], leader["role"], leader["clients"]) == (11_520, "LEADER", 10)
    assert (silent["since"], silent["since_seconds"]) == (None, None)
    # One that is alone needs no table, unless something is wrong with it.
    assert len(text.render(status_of([], [], [], {}, rows[:1]), NOW, Style(80), "x")) == 2
    assert any("SUPERSEDED" in line for line in _shown_of(gateway_row(1, "SUPERSEDED", None)))


def _shown_of(*rows: dict[str, Any]) -> list[str]:
    return text.render(status_of([], [], [], {}, rows), NOW, Style(80), "x")


def test_a_streak_of_failures_and_who_wrote_are_told() -> None:
    failing = view(
        "m",
        freshness="STALE",
        stale_because="nyc.flights has changed",
        stale_by="eve",
        last_task_status="FAILED",
        last_task_error="no",
        failures_in_a_row=3,
        failing_since=ago(7200),
    )
    lines = "\n".join(text.render(status_of([failing], [], []), NOW, text.Style(200), "g"))
    assert "failing: 3 refreshes in a row, for 2h" in lines
    assert "because nyc.flights has changed, by eve" in lines
