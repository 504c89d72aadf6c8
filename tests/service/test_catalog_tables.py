"""The catalog's relations: their columns stand in docs/reference/statements.md, for nothing else lists them all."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from views import view_of

from gateway.access_list import AccessList, Principal
from gateway.mv.catalog.index import Catalog
from gateway.mv.model import properties
from gateway.mv.model.view import (
    PARTITIONS_NAMED_MAX,
    Cause,
    MaterializedView,
    RefreshMode,
    State,
    Task,
    TaskStatus,
    TriggerMode,
    Version,
)
from gateway.mv.statements.rights import Rights
from gateway.service.answers import activity_tables, attention, catalog_tables, refresh_costs
from sql.names import TableName
from sql.statement import CreateClauses, Refreshing, Schedule, Trigger

VIEW = view_of(Version.whole(1, 0, 0, {}))
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "statements.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("relation", "columns"),
    [
        ("INFORMATION_SCHEMA.MATERIALIZED_VIEWS", catalog_tables.INFORMATION_SCHEMA),
        ("mv_infos", catalog_tables.MV_INFOS),
        ("jobs", catalog_tables.JOBS),
        ("tasks", catalog_tables.TASKS),
        ("freshgate.materialized_views", catalog_tables.MATERIALIZED_VIEWS),
        ("freshgate.tables_in_memory", catalog_tables.TABLES_IN_MEMORY),
        ("freshgate.rewrites", catalog_tables.REWRITES),
        ("freshgate.suggested_views", catalog_tables.SUGGESTED_VIEWS),
        ("freshgate.statements", activity_tables.STATEMENT_COLUMNS),
        ("freshgate.reads", activity_tables.READS),
        ("freshgate.limits", activity_tables.LIMITS),
        ("freshgate.attention", attention.ATTENTION),
        ("freshgate.refresh_costs", refresh_costs.REFRESH_COSTS),
        ("freshgate.gateways", catalog_tables.GATEWAYS),
    ],
)
def test_all_columns_are_documented_in_their_order(relation: str, columns: tuple[tuple[str, str], ...]) -> None:
    _, _, listed = PAGE.partition("| relation | columns |")
    (line,) = re.findall(rf"^\| `{re.escape(relation)}` \| (.*) \|$", listed, re.MULTILINE)
    # What stands in brackets tells of values.
    assert re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", line)) == [name for name, _ in columns]


@pytest.mark.parametrize("relation", ["mv_infos", "freshgate.materialized_views"])
def test_a_view_that_is_dropped_while_spark_is_asked_about_it_is_left_out(relation: str) -> None:
    nobody = cast(Any, None)
    catalog = Catalog("s", cast(Any, SimpleNamespace(lost=False)))
    kept = view_of(Version.whole(1, 0, 0, {}))
    gone = replace(kept, id="gone", name=TableName("d", "gone"))
    entries = [catalog.reserve(view) for view in (kept, gone)]
    for entry in entries:
        catalog.show(entry)

    class Schemas:
        async def states(self, views: Iterable[MaterializedView]) -> dict[str, tuple[State, str]]:
            catalog.remove(entries[1])
            return {view.id: (State.NORMAL, "") for view in views}

    async def listed() -> catalog_tables.Table:
        jobs = cast(Any, SimpleNamespace(next_run=lambda _: None))
        tables = catalog_tables.CatalogTables(
            catalog, cast(Any, Schemas()), nobody, jobs, nobody, nobody, nobody, Rights()
        )
        if relation == "mv_infos":
            return await tables.function(relation, {"database": "d"}, Principal("ada"))
        return await tables.materialized_views(Principal("ada"), measured=False)

    assert [row[1] for row in asyncio.run(listed()).rows] == ["v"]


def test_a_task_names_no_more_partitions_than_the_catalog_should_keep() -> None:
    names = [f"p_{number}" for number in range(PARTITIONS_NAMED_MAX + 300)]
    task = Task(1, Cause(TriggerMode.MANUAL, "me"), "why", 5, mode=RefreshMode.PARTIAL).writing(names, len(names))
    assert shown_of(task) == ([*names[:PARTITIONS_NAMED_MAX], "and 300 more"], None, "0.00% (0/500)")
    half = replace(task, completed=250)
    assert shown_of(half)[1:] == ([*names[:PARTITIONS_NAMED_MAX], "and 50 more"], "50.00% (250/500)")
    few = replace(task, completed=2)
    assert shown_of(few)[1:] == (names[:2], "0.40% (2/500)")
    done = replace(task, completed=400, status=TaskStatus.SUCCESS)
    assert shown_of(done) == (*[[*names[:PARTITIONS_NAMED_MAX], "and 300 more"]] * 2, "100.00% (500/500)")
    assert [kept for _, kept in properties.read_tasks(properties.write_tasks([(1, done)]))] == [done]


def test_a_task_shows_its_route() -> None:
    task = Task(1, Cause(TriggerMode.MANUAL, "me"), "why", 5, mode=RefreshMode.INCREMENTAL, status=TaskStatus.SUCCESS)
    assert shown_of(task) == (["v"], ["v"], "100.00% (1/1)")
    route = "INCREMENTAL: 3 new files of d.sales"
    rows = [catalog_tables.task_row(VIEW, each, None) for each in (task, replace(task, route=route))]
    shown = [dict(zip((name for name, _ in catalog_tables.TASKS), row, strict=True)) for row in rows]
    assert [each["Route"] for each in shown] == ["\\N", route]
    assert [each["RefreshMode"] for each in shown] == ["INCREMENTAL"] * 2


def shown_of(task: Task) -> tuple[list[str] | None, list[str] | None, str]:
    """NeedRefreshPartitions, CompletedPartitions, Progress."""
    columns = [name for name, _ in catalog_tables.TASKS]
    row = dict(zip(columns, catalog_tables.task_row(VIEW, task, None), strict=True))
    needed, completed = (
        None if row[name] == "\\N" else json.loads(str(row[name]))
        for name in ("NeedRefreshPartitions", "CompletedPartitions")
    )
    return needed, completed, str(row["Progress"])


def tables_of(*views: MaterializedView, administrators: Iterable[str] = ()) -> catalog_tables.CatalogTables:
    nobody = cast(Any, None)
    catalog = Catalog("s", cast(Any, SimpleNamespace(lost=None)))
    for view in views:
        catalog.show(catalog.reserve(view))

    class Schemas:
        async def states(self, views: Iterable[MaterializedView]) -> dict[str, tuple[State, str]]:
            return {view.id: (State.NORMAL, "") for view in views}

    jobs = cast(Any, SimpleNamespace(next_run=lambda _: None))
    return catalog_tables.CatalogTables(
        catalog, cast(Any, Schemas()), nobody, jobs, nobody, nobody, nobody, Rights(AccessList.of(administrators))
    )


def with_trigger(trigger: Trigger | None, schedule: Schedule | None = None, **changes: Any) -> MaterializedView:
    return replace(VIEW, clauses=CreateClauses(refreshing=Refreshing(trigger=trigger, schedule=schedule)), **changes)


@pytest.mark.parametrize(
    ("view", "enabled", "minutes", "trigger"),
    [
        (with_trigger(None), True, None, "READ"),
        (with_trigger(None, properties={"when_stale": "serve"}), False, None, "MANUAL"),
        (with_trigger(None, properties={"enable_refresh": "false"}), True, None, "READ"),
        (with_trigger(Trigger.MANUAL), False, None, "MANUAL"),
        (with_trigger(Trigger.MANUAL, properties={"enable_refresh": "true"}), False, None, "MANUAL"),
        (with_trigger(Trigger.MANUAL, properties={"when_stale": "refresh"}), True, None, "MANUAL"),
        (with_trigger(Trigger.COMMIT), True, None, "COMMIT"),
        (with_trigger(Trigger.COMMIT, paused=True), False, None, "COMMIT"),
        (with_trigger(Trigger.SCHEDULE, Schedule(10, "MINUTE")), True, 10, "SCHEDULE EVERY 10 MINUTE"),
        (with_trigger(Trigger.SCHEDULE, Schedule(2, "DAY"), paused=True), False, 2880, "SCHEDULE EVERY 2 DAY"),
        (with_trigger(Trigger.SCHEDULE, Schedule(90, "SECOND")), True, None, "SCHEDULE EVERY 90 SECOND"),
        (with_trigger(Trigger.SCHEDULE, Schedule(cron="0 4 * * *")), True, None, 'SCHEDULE CRON "0 4 * * *"'),
    ],
)
def test_what_refreshes_a_view_is_exact(
    view: MaterializedView, enabled: bool, minutes: int | None, trigger: str
) -> None:
    """The properties enable_refresh and refresh_interval_minutes have no effect, so they are not shown."""
    tables = tables_of(view)
    (row,) = asyncio.run(tables.information_schema(None)).rows
    assert row[5:7] == (enabled, minutes)
    (infos,) = asyncio.run(tables.function("mv_infos", {"database": view.name.database}, Principal("ada"))).rows
    assert infos[6] == f"BUILD IMMEDIATE REFRESH AUTO ON {trigger}"


@pytest.mark.parametrize(
    ("who", "sees"),
    [
        (Principal("ada"), True),
        (Principal("root"), True),
        (Principal("zoe", frozenset({"admins"})), True),
        (Principal("zoe", frozenset({"root", "ada"})), False),
        (Principal("eve"), False),
        (Principal(""), False),
    ],
)
def test_the_lists_show_definitions_to_owners_and_administrators(who: Principal, sees: bool) -> None:
    view = replace(VIEW, owner="ada", query="SELECT secret FROM t")
    tables = tables_of(view, administrators=["root", "group:admins"])
    listed = [
        asyncio.run(tables.function("mv_infos", {"database": view.name.database}, who)),
        asyncio.run(tables.materialized_views(who, measured=False)),
    ]
    for table in listed:
        assert ("SELECT secret" in repr(table.rows)) == sees
        (row,) = table.rows
        assert len(row) == len(table.columns)
