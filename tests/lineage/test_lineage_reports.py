"""What is told of refreshes and of views, from the events of the catalog and of tasks to the bodies that are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest
from fake_spark import Answer
from fakes import Site
from views import given

from gateway.errors import StatementFailed
from gateway.lineage import described_views
from gateway.lineage.dataset_names import Naming
from gateway.lineage.described_views import Describing
from gateway.lineage.events import OpenLineageWriter
from gateway.lineage.reports import Reports
from gateway.lineage.sender import Sender
from gateway.lineage.told import ToldColumn, columns_of
from gateway.mv.freshness.entry import Entry
from gateway.mv.freshness.news import Life
from gateway.mv.model.contents import Contents
from gateway.mv.model.marks import Fold
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import Cause, RefreshMode, Schema, TaskStatus, TriggerMode, base_key
from gateway.mv.ports import PlanUnavailable, Relation, RelationKind
from gateway.mv.refresh.task_log import TaskLog
from sql.names import TableName
from sql.proof.plan import Node, Output, Plan, Scalar

SETTINGS = {"spark.sql.catalogImplementation": "hive", "hive.metastore.uris": "thrift://meta:9083"}
PARENT = "airflow/dag.task/01920000-0000-7000-8000-000000000001"
INT = '{"name":"int"}'


class Sent:
    """In the place of a sender."""

    def __init__(self) -> None:
        self.counts = {"sent": 0, "failed": 0, "dropped": 0}
        self.events: list[dict[str, Any]] = []

    def start(self) -> None: ...

    def send(self, body: bytes) -> None:
        self.events.append(json.loads(body))

    async def stop(self) -> None: ...


class Telling:
    """A site whose views are told of."""

    def __init__(self, waiting_max: int = 100) -> None:
        self.site = Site()
        self.sent = Sent()
        catalog, self.metastore = self.site.catalog, self.site.metastore
        self.log = TaskLog(catalog, cast(Any, self.site.fence), self.metastore, cast(Any, self.metastore))
        self.metastore.answers.say(r"^SELECT count\(\*\)", Answer([(3,)]))

        def view(view_id: str) -> Any:
            entry = catalog.find(view_id)
            return entry.view if entry is not None else None

        self.plans: dict[str, Plan] = {}
        """By the ids of views."""
        self.observed: dict[TableName, Relation] = {}
        naming: Callable[[], Naming] = lambda: Naming(SETTINGS)  # noqa: E731
        describing = Describing(view, self.observed.get, self.metastore, naming, lambda: "4.1.4", self.plan)
        writer = OpenLineageWriter("ours", "1.2.3")
        self.reports = Reports(describing, writer, cast(Sender, self.sent), lambda: 5_000, waiting_max)
        self.log.writes.add(self.reports.task_writes)
        self.log.ended.add(self.reports.task_ended)
        self.log.counted.add(self.reports.task_counted)
        catalog.news.lives.add(self.reports.lives)

    async def plan(self, view: Any) -> Plan:
        if view.id not in self.plans:
            raise PlanUnavailable("There is none.")
        return self.plans[view.id]

    async def view(self, dotted: str, query: str, **fields: Any) -> Entry:
        """A view over stored rows."""
        view = await self.site.view(dotted, query)
        columns = (("n", INT), ("__version", '{"name":"bigint"}'))
        self.stored(view.storage, columns)
        entry = self.site.entry(dotted)
        if fields:
            given(entry, **fields)
        return entry

    def stored(self, storage: TableName, columns: tuple[tuple[str, str], ...]) -> None:
        location = f"s3a://lake/{storage.database}.db/{storage.table}"
        self.metastore.add(Relation(storage, RelationKind.TABLE, location=location, columns=columns))

    async def told(self) -> list[dict[str, Any]]:
        """What was told since the last call."""
        self.reports.start()
        await self.log.stop()
        async with asyncio.timeout(20):
            await self.reports.all_told()
        await self.reports._loop.stop()
        found, self.sent.events = self.sent.events, []
        return found

    async def refresh(self, entry: Entry, cause: Cause, version: int = 2, **task: Any) -> None:
        """A refresh that succeeds."""
        number, _ = self.log.begin(entry, cause)
        self.log.start(entry, number)
        record = entry.history.task(number)
        assert record is not None
        self.log.amend(entry, number, replace(record, **task))
        self.log.write(entry, number)
        current = replace(entry.view.current, number=version)
        ending = self.log.written(entry, number, version)
        given(entry, current=current)
        self.log.succeed(entry, ending)
        if version:
            self.log.count(entry, number, version)

    async def failed(self, entry: Entry, cause: Cause, status: TaskStatus, error: str, *, begun: bool = True) -> None:
        number, _ = self.log.begin(entry, cause)
        if begun:
            self.log.start(entry, number)
            self.log.write(entry, number)
        self.log.fail(entry, number, status, error)


def facets(each: Mapping[str, Any], *path: str) -> Any:
    """What is below these names, without what every facet has."""
    found: Any = each
    for name in path:
        found = found[name]
    return _plain(found)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if name not in ("_producer", "_schemaURL")}
    return [_plain(each) for each in value] if isinstance(value, list) else value


MANUAL = Cause(TriggerMode.MANUAL, "ada")


async def test_a_refresh_is_told_with_what_it_reads_and_writes() -> None:
    telling = Telling()
    telling.site.table("s.t", location="hdfs://name:8020/w/t", columns=(("a", INT),))
    entry = await telling.view("s.mv", "SELECT count(*) n FROM s.t", comment="Counts", owner="ada")
    table = TableName("s", "t")
    states = {base_key(table): Snapshot("t", "x", position="17")}
    given(entry, current=replace(entry.view.current, contents=Contents(others=((1, states),))))
    files = Fold(0, 4, 4096)
    given(entry, current=replace(entry.view.current, files=files))
    await telling.refresh(entry, MANUAL)
    start, complete = await telling.told()
    assert [each["eventType"] for each in (start, complete)] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert UUID(start["run"]["runId"]).version == 7
    assert start["producer"] == start["run"]["facets"]["processing_engine"]["_producer"] == "urn:freshgate:1.2.3"
    assert facets(start, "run", "facets") == {
        "processing_engine": {"name": "spark", "version": "4.1.4", "openlineageAdapterVersion": "1.2.3"}
    }
    assert (start["job"]["namespace"], start["job"]["name"]) == ("ours", "s.mv")
    assert facets(start, "job", "facets") == {
        "jobType": {"processingType": "BATCH", "integration": "FRESHGATE", "jobType": "REFRESH"},
        "sql": {"query": "SELECT count(*) n FROM s.t", "dialect": "spark"},
        "ownership": {"owners": [{"name": "ada", "type": "OWNER"}]},
        "documentation": {"description": "Counts"},
    }
    (read,) = _plain(complete["inputs"])
    assert read == {
        "namespace": "hdfs://name:8020",
        "name": "/w/t",
        "inputFacets": {},
        "facets": {
            "symlinks": {"identifiers": [{"namespace": "hive://meta:9083", "name": "s.t", "type": "TABLE"}]},
            "schema": {"fields": [{"name": "a", "type": "integer"}]},
            "version": {"datasetVersion": "17"},
        },
    }
    (wrote,) = _plain(complete["outputs"])
    storage = entry.view.storage
    assert (wrote["namespace"], wrote["name"]) == ("s3://lake", f"{storage.database}.db/{storage.table}")
    assert wrote["facets"] == {
        "datasetType": {"datasetType": "VIEW", "subType": "MATERIALIZED"},
        "symlinks": {
            "identifiers": [
                {"namespace": "hive://meta:9083", "name": name, "type": "TABLE"} for name in ("s.mv", str(storage))
            ]
        },
        "schema": {"fields": [{"name": "n", "type": "integer"}]},
        "documentation": {"description": "Counts"},
        "lifecycleStateChange": {"lifecycleStateChange": "OVERWRITE"},
        "version": {"datasetVersion": "2"},
    }
    assert wrote["outputFacets"] == {"outputStatistics": {"rowCount": 3, "size": 4096, "fileCount": 4}}
    (before,) = _plain(start["outputs"])
    assert before["name"] == wrote["name"]
    assert before["outputFacets"] == {}


async def test_a_refresh_by_rows_overwrites_nothing() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    await telling.refresh(entry, MANUAL, mode=RefreshMode.INCREMENTAL)
    _, complete = await telling.told()
    assert "lifecycleStateChange" not in complete["outputs"][0]["facets"]


async def test_emptying_a_view_truncates_it() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    number, task = telling.log.begin(entry, MANUAL)
    telling.log.amend(entry, number, replace(task, started_at=1))
    telling.log.succeed(entry, telling.log.written(entry, number, 0))
    start, complete = await telling.told()
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    change = facets(complete["outputs"][0], "facets", "lifecycleStateChange")
    assert change == {"lifecycleStateChange": "TRUNCATE"}


@pytest.mark.parametrize(
    ("status", "state", "begun"),
    [
        (TaskStatus.FAILED, "FAIL", True),
        (TaskStatus.FAILED, "FAIL", False),
        (TaskStatus.CANCELED, "ABORT", True),
    ],
)
async def test_a_refresh_that_fails_says_why(status: TaskStatus, state: str, begun: bool) -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n FROM t WHERE key = aes_decrypt(x, 'hush')")
    await telling.failed(entry, MANUAL, status, "no such table, password='hush'", begun=begun)
    start, end = await telling.told()
    assert (start["eventType"], end["eventType"]) == ("START", state)
    message = facets(end, "run", "facets", "errorMessage")
    assert message == {"message": "no such table, password=***", "programmingLanguage": "SQL"}
    assert "hush" not in json.dumps([start, end])
    assert end["outputs"][0]["outputFacets"] == {}


async def test_what_never_began_is_not_told() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    await telling.failed(entry, MANUAL, TaskStatus.CANCELED, "", begun=False)
    assert await telling.told() == []


@pytest.mark.parametrize(
    ("trigger", "told"),
    [
        (TriggerMode.MANUAL, ["START", "COMPLETE"]),
        (TriggerMode.SYSTEM, ["START", "COMPLETE"]),
        (TriggerMode.READ, []),
        (TriggerMode.COMMIT, []),
    ],
)
async def test_a_refresh_with_nothing_to_do_writes_nothing(trigger: TriggerMode, told: list[str]) -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    number, _ = telling.log.begin(entry, Cause(trigger, "ada"))
    telling.log.start(entry, number)
    telling.log.unchanged(entry, number)
    found = await telling.told()
    assert [each["eventType"] for each in found] == told
    assert [each["outputs"] for each in found[1:]] == [[] for _ in found[1:]]


async def test_the_run_of_a_client_is_the_parent_and_a_schedule_has_a_time() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    await telling.refresh(entry, Cause(TriggerMode.READ, "ada", parent=PARENT))
    found = await telling.told()
    await telling.refresh(entry, Cause(TriggerMode.SYSTEM, "EVERY", due=1_764_000_000_000), version=3)
    found += await telling.told()
    parents = [facets(each, "run", "facets").get("parent") for each in found]
    assert parents[2:] == [None, None]
    for parent in parents[:2]:
        assert (parent["job"]["namespace"], parent["job"]["name"]) == ("airflow", "dag.task")
        assert parent["run"]["runId"] == PARENT.rpartition("/")[2]
    time = {"nominalStartTime": "2025-11-24T16:00:00.000+00:00"}
    assert [facets(each, "run", "facets").get("nominalTime") for each in found] == [None, None, time, time]


async def test_views_below_are_inputs_and_spark_views_are_looked_through() -> None:
    telling = Telling()
    telling.site.table("s.t", location="file:/w/t")
    telling.site.spark_view("s.v", "SELECT * FROM s.t")
    below = await telling.view("s.low", "SELECT 1 n")
    entry = await telling.view("s.high", "SELECT n FROM s.low JOIN s.v")
    given(entry, schemas={TableName("s", "v"): Schema("", (), is_view=True)})
    given(entry, current=replace(entry.view.current, views={below.view.id: 4}))
    await telling.refresh(entry, MANUAL)
    _, complete = await telling.told()
    read = {each["name"]: each["facets"] for each in complete["inputs"]}
    low = f"{below.view.storage.database}.db/{below.view.storage.table}"
    assert set(read) == {"/w/t", low}
    assert _plain(read[low])["version"] == {"datasetVersion": "4"}
    assert _plain(read[low])["datasetType"] == {"datasetType": "VIEW", "subType": "MATERIALIZED"}


def plan_of(*columns: str) -> Plan:
    """A plan that reads these columns of s.t."""
    attributes = tuple(Node("AttributeReference", {"name": Scalar("String", each)}, "int", each) for each in columns)
    identity = tuple(Scalar("String", each) for each in ("`spark_catalog`.`s`.`t`", "1", "Some(file:/w/t)"))
    relation = Node("LogicalRelation", {"output": attributes, "table": identity})
    return Plan(tuple(Output(each, each, "int") for each in columns), frozenset(), relation)


async def test_the_columns_of_a_view_are_traced_to_those_of_tables() -> None:
    telling = Telling()
    telling.site.table("s.t", location="file:/w/t", columns=(("n", INT),))
    entry = await telling.view("s.mv", "SELECT n FROM s.t")
    telling.plans[entry.view.id] = plan_of("n")
    await telling.refresh(entry, MANUAL)
    start, complete = await telling.told()
    assert "columnLineage" not in start["outputs"][0]["facets"]
    assert facets(complete["outputs"][0], "facets", "columnLineage") == {
        "fields": {
            "n": {
                "inputFields": [
                    {
                        "namespace": "file",
                        "name": "/w/t",
                        "field": "n",
                        "transformations": [
                            {"type": "DIRECT", "subtype": "IDENTITY", "description": "", "masking": False}
                        ],
                    }
                ]
            }
        },
        "dataset": [],
    }


async def test_very_many_columns_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described_views, "FIELDS_MAX", 3)
    telling = Telling()
    telling.site.table("s.t", location="file:/w/t", columns=tuple((name, INT) for name in "abcd"))
    entry = await telling.view("s.mv", "SELECT * FROM s.t")
    telling.plans[entry.view.id] = plan_of(*"abcd")
    await telling.refresh(entry, MANUAL)
    _, complete = await telling.told()
    assert [each["name"] for each in complete["inputs"]] == ["/w/t"]
    assert "schema" not in complete["inputs"][0]["facets"]
    assert "columnLineage" not in complete["outputs"][0]["facets"]
    assert complete["outputs"][0]["facets"]["schema"]["fields"]


async def test_a_refresh_is_told_although_spark_does_not_answer() -> None:
    telling = Telling()
    telling.site.table("s.t", location="file:/w/t")
    entry = await telling.view("s.mv", "SELECT 1 n FROM s.t")
    telling.metastore.relations.pop(entry.view.storage)

    async def lost(*_: object, **__: object) -> None:
        raise StatementFailed("Spark is gone", sqlstate="08S01")

    telling.metastore.relation = lost  # type: ignore[method-assign]
    await telling.refresh(entry, MANUAL)
    found = await telling.told()
    assert [each["eventType"] for each in found] == ["START", "COMPLETE"]
    assert [each["outputs"] for each in found] == [[], []]


async def test_a_new_view_is_told_when_everybody_sees_it() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    entry._visible = False
    number, _ = telling.log.begin(entry, MANUAL)
    telling.log.start(entry, number)
    telling.log.write(entry, number)
    telling.log.succeed(entry, telling.log.written(entry, number, 1))
    (start,) = await telling.told()
    assert start["eventType"] == "START"
    entry.show()
    telling.log.count(entry, number, 1)
    (complete,) = await telling.told()
    assert facets(complete["outputs"][0], "facets", "lifecycleStateChange") == {"lifecycleStateChange": "CREATE"}


async def test_a_new_view_that_is_given_up_has_failed() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    entry._visible = False
    number, _ = telling.log.begin(entry, MANUAL)
    telling.log.write(entry, number)
    telling.log.succeed(entry, telling.log.written(entry, number, 1))
    telling.site.catalog.remove(entry)
    _, failed = await telling.told()
    assert failed["eventType"] == "FAIL"
    assert facets(failed, "run", "facets", "errorMessage")["message"] == "The materialized view s.mv was not created."


async def test_what_else_happens_to_views_is_told() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    catalog = telling.site.catalog
    telling.reports.lives(Life.ALTERED, entry.view, entry.view.name)
    catalog.rename({TableName("s", "other"): entry})
    catalog.remove(entry)
    altered, renamed, dropped = await telling.told()
    changes = [facets(each, "dataset", "facets", "lifecycleStateChange") for each in (altered, renamed, dropped)]
    assert changes == [
        {"lifecycleStateChange": "ALTER"},
        {
            "lifecycleStateChange": "RENAME",
            "previousIdentifier": {"namespace": "hive://meta:9083", "name": "s.mv"},
        },
        {"lifecycleStateChange": "DROP"},
    ]
    assert {each["dataset"]["name"] for each in (altered, renamed, dropped)} == {
        f"{entry.view.storage.database}.db/{entry.view.storage.table}"
    }
    assert altered["eventTime"] == "1970-01-01T00:00:05.000+00:00"
    symlinks = facets(renamed, "dataset", "facets", "symlinks")["identifiers"]
    assert symlinks[0]["name"] == "s.other"


async def test_a_view_without_rows_is_told_when_it_is_created() -> None:
    telling = Telling()
    await telling.site.view("s.built", "SELECT 1 n")
    view = await telling.site.view("s.mv", "SELECT 1 n", built=False)
    telling.stored(view.storage, (("n", INT),))
    (created,) = await telling.told()
    assert created["dataset"]["name"].endswith(view.storage.table)
    assert facets(created, "dataset", "facets", "lifecycleStateChange") == {"lifecycleStateChange": "CREATE"}


async def test_what_waits_is_bounded() -> None:
    telling = Telling(waiting_max=2)
    entry = await telling.view("s.mv", "SELECT 1 n")
    for _ in range(5):
        telling.reports.lives(Life.ALTERED, entry.view, entry.view.name)
    assert telling.sent.counts["dropped"] == 3
    assert len(await telling.told()) == 2


async def test_a_stop_tells_what_is_left_without_spark() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    await telling.refresh(entry, MANUAL)
    assert len(await telling.told()) == 2
    number, _ = telling.log.begin(entry, MANUAL)
    telling.log.write(entry, number)
    telling.log.succeed(entry, telling.log.written(entry, number, 3))
    telling.metastore.answering.clear()
    telling.reports.start()
    await telling.reports.stop()
    assert [each["eventType"] for each in telling.sent.events] == ["START", "COMPLETE"]
    assert telling.sent.events[1]["outputs"][0]["name"].endswith(entry.view.storage.table)


async def test_a_stop_tells_what_was_being_described() -> None:
    telling = Telling()
    entry = await telling.view("s.mv", "SELECT 1 n")
    telling.metastore.answering.clear()
    telling.reports.start()
    telling.reports.lives(Life.ALTERED, entry.view, entry.view.name)
    await telling.failed(entry, MANUAL, TaskStatus.FAILED, "no", begun=False)
    await asyncio.sleep(0)
    await telling.reports.stop()
    assert [each["eventType"] for each in telling.sent.events] == ["START", "FAIL"]
    # Where the view is stored was not known, so the other event had no name.
    assert telling.sent.counts["dropped"] == 1


def test_types_are_told_as_sparks_integration_does() -> None:
    kinds = {
        "a": '{"name":"bigint"}',
        "b": '{"name":"decimal","precision":10,"scale":2}',
        "c": '{"name":"array","element_type":{"name":"smallint"},"element_nullable":true}',
        "d": '{"name":"map","key_type":{"name":"string"},"value_type":{"name":"timestamp_ltz"}}',
        "e": '{"name":"struct","fields":[{"name":"x","type":{"name":"tinyint"},"nullable":true}]}',
        "f": '{"name":"varchar","length":3}',
    }
    assert columns_of(tuple(kinds.items())) == (
        ToldColumn("a", "long"),
        ToldColumn("b", "decimal(10,2)"),
        ToldColumn("c", "array", (ToldColumn("_element", "short"),)),
        ToldColumn("d", "map", (ToldColumn("key", "string"), ToldColumn("value", "timestamp"))),
        ToldColumn("e", "struct", (ToldColumn("x", "byte"),)),
        ToldColumn("f", "string"),
    )
