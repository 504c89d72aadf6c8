"""Views whose rows other engines read: each version is one commit of a table of Iceberg or Delta."""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fake_spark import Answer
from hypothesis import given
from hypothesis import strategies as st
from staging import staged_by
from warehouse import House, Report, Warehouse, WarehouseSession

from gateway.config import Settings
from gateway.errors import DefinitionRefused, FreshgateError, NotAllowed, RefreshFailed, StatementFailed
from gateway.mv.formats import open_tables
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Cause, Leftover, MaterializedView, TriggerMode
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.planner import plan_refresh
from sql.names import Namespace, TableName
from sql.texts import maintenance, public_view
from sql.texts.delta_rows import METADATA
from sql.texts.iceberg_rows import PROPERTY, IcebergRows
from sql.texts.open_rows import Before, written_last
from sql.texts.storage_layout import Selection, Shown, StorageLayout

CREATE = "CREATE MATERIALIZED VIEW s.m {}USING {} AS SELECT a FROM s.t"
STORAGE = TableName("freshgate_storage", "s__m__0a1b2c3d")
ROWS = IcebergRows(TableName("freshgate_storage", "s__m__0a1b2c3d__rows", "shared"))
LAYOUT = StorageLayout(open=ROWS)
HOUR = 3_600_000


@dataclass(frozen=True)
class Made:
    """A commit of the fake table."""

    parent: int | None
    operation: str
    tag: int | None
    files: frozenset[int]
    at: int
    said: str | None = None
    target: int | None = None


class Lake(Warehouse, ABC):
    """Has one table of rows, of which it knows the commits and the files."""

    word: str
    """After USING."""
    overwrite: str
    append: str
    """What the format calls these operations."""
    compaction: str
    settings: Mapping[str, str]
    """Spark's answers to SET."""

    def __init__(self) -> None:
        super().__init__()
        self.table("s.t")
        self.exists = False
        self.commits: dict[int, Made] = {}
        self.head: int | None = None
        self.made = 0
        self.disk: set[int] = set()
        """The files that are there."""
        self.now = 1_800_000_000_000
        self.said: str | None = None
        """What commits of the session say of themselves."""
        self.modes: list[str] = []
        self.left = -1
        """How many statements succeed before one fails; -1: all do."""
        self.late = False
        """Whether the one that fails is carried out all the same."""
        self.mode = ""
        self.keeps_views = True
        self.views: list[str] = []
        """What happened to the view beside the table."""

    # --- the table -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def tag(self) -> int | None: ...

    @abstractmethod
    def is_about_rows(self, sql: str) -> bool:
        """Whether a statement reads or changes the table of rows, or its catalog."""

    @abstractmethod
    def listed(self, sql: str) -> Answer | None:
        """The commits, if the statement lists them."""

    @abstractmethod
    def upkeep(self, sql: str) -> None:
        """Expires commits or rolls back."""

    def commit(self, operation: str, tag: int | None, target: int | None = None) -> None:
        self.made += 1
        number = self.first + self.made
        before = self.files_of(self.head)
        if operation == self.append or not self.commits:
            files = before | {self.made}
        elif target is not None:
            files = self.files_of(target)
        else:
            files = before if operation in self.keeping else frozenset({self.made})
        self.disk |= files - before if target is None else set()
        said = self.said if tag is not None else None
        self.commits[number] = Made(self.head, operation, tag, files, self.now, said, target)
        self.head = number
        self.now += 1_000

    first = 100
    keeping: frozenset[str] = frozenset()
    """Operations after which the table has the files that it had."""

    def files_of(self, snapshot: int | str | None) -> frozenset[int]:
        made = self.commits.get(int(snapshot)) if snapshot not in (None, "") else None
        return made.files if made is not None else frozenset()

    def reads(self, snapshot: str) -> bool:
        """Whether readers find this commit, and all of its files."""
        return int(snapshot) in self.commits and self.files_of(snapshot) <= self.disk

    def shows(self, snapshot: str) -> bool:
        """Whether readers that name no commit see the rows of this one."""
        return self.reads(snapshot) and self.files_of(self.head) == self.files_of(snapshot)

    @property
    def leftover(self) -> set[int]:
        """Files that the table does not have now."""
        return self.disk - self.files_of(self.head)

    # --- statements ------------------------------------------------------------------------------------

    def answer(self, sql: str, namespace: Namespace) -> Any:
        fails = self.left == 0
        self.left -= self.left >= 0
        if fails and not self.late:
            raise StatementFailed("no", "XX000")
        answer = self.carried_out(sql, namespace)
        if fails:
            raise StatementFailed("no, or so it seems", "XX000")
        return answer

    def carried_out(self, sql: str, namespace: Namespace) -> Any:
        self.note(sql)
        if (found := re.fullmatch(r"SET `([^`=]*)`", sql)) and found[1] in self.settings:
            return Answer([(found[1], self.settings[found[1]])])
        if found := re.match(r"(CREATE OR REPLACE|DROP) VIEW (IF EXISTS )?`shared`", sql):
            if not self.keeps_views:
                raise StatementFailed("the catalog keeps no views", "0A000")
            self.views.append(found[1])
            return Answer()
        if not self.is_about_rows(sql) or sql.startswith(("CREATE VIEW", "ALTER VIEW")):
            return super().answer(sql, namespace)
        listed = self.listed(sql)
        if listed is None:
            self.change(sql)
            return Answer()
        if not self.exists:
            raise StatementFailed("[TABLE_OR_VIEW_NOT_FOUND]", "42P01")
        return listed

    def note(self, sql: str) -> None:
        if found := re.fullmatch(r"(?:SET|RESET) `([^`]*)`(?:=`([^`]*)`)?", sql):
            match found.groups():
                case (name, value) if name.endswith(("freshgate-version", "userMetadata")):
                    self.said = value
                case (name, value) if name.endswith("partitionOverwriteMode"):
                    self.mode = value

    def change(self, sql: str) -> None:
        if sql.startswith("CREATE TABLE"):
            if not self.exists:
                self.exists = True
                self.commit(self.append, None)
        elif sql.startswith("DROP TABLE"):
            self.lose()
        elif sql.startswith("INSERT"):
            self.modes.append(f"{sql.split(' `', maxsplit=1)[0]} {self.mode}")
            self.commit(self.append if sql.startswith("INSERT INTO") else self.overwrite, self.tag)
        else:
            self.upkeep(sql)

    def lose(self) -> None:
        self.exists = False
        self.commits.clear()
        self.disk.clear()
        self.head = None


class IcebergLake(Lake):
    word, append, overwrite, compaction = "ICEBERG", "append", "overwrite", "replace"

    def __init__(self) -> None:
        super().__init__()
        self.settings = {"spark.sql.catalog.shared.cache-enabled": "false"}

    @property
    def tag(self) -> int | None:
        return None if self.said is None else int(self.said)

    def is_about_rows(self, sql: str) -> bool:
        return "`shared`" in sql

    def listed(self, sql: str) -> Answer | None:
        if not sql.startswith("SELECT snapshot_id, parent_id"):
            return None
        return Answer(
            [
                (number, made.parent, made.operation, made.tag, 1, 1, 10 * number, number == self.head)
                for number, made in self.commits.items()
            ]
        )

    def upkeep(self, sql: str) -> None:
        if found := re.search(r"expire_snapshots.* array\((.*)\)\)", sql):
            for each in found[1].split(", "):
                del self.commits[int(each.removesuffix("L"))]
            self.disk &= {file for made in self.commits.values() for file in made.files}
        elif found := re.search(r"rollback_to_snapshot.*=> (\d+)L", sql):
            self.head = int(found[1])


class DeltaLake(Lake):
    word, append, overwrite, compaction = "DELTA", "WRITE append", "WRITE", "OPTIMIZE"
    keeping = frozenset({"VACUUM END", "ADD COLUMNS"})

    def __init__(self) -> None:
        super().__init__()
        self.settings = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
        self.hours: list[int] = []
        """The ages of the VACUUMs."""
        self.delay = 0
        """The milliseconds after which a VACUUM begins."""

    first = -1

    @property
    def tag(self) -> int | None:
        return None if self.said is None else int(json.loads(self.said)["freshgate-version"])

    def is_about_rows(self, sql: str) -> bool:
        return "__rows`" in sql

    def listed(self, sql: str) -> Answer | None:
        if (found := re.match(r"DESCRIBE HISTORY .* LIMIT (\d+)", sql)) is None:
            return None
        columns = ("version", "timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata")
        rows = [
            (
                number,
                str(datetime.fromtimestamp(made.at / 1000, UTC).replace(tzinfo=None)),
                made.operation.removesuffix(" append"),
                json.dumps({"version": str(made.target), "timestamp": None}),
                json.dumps({"numFiles": "1", "numOutputRows": "1", "numOutputBytes": "10"}),
                made.said,
            )
            for number, made in sorted(self.commits.items(), reverse=True)
        ]
        return Answer(rows[: int(found[1])], columns)

    def upkeep(self, sql: str) -> None:
        if found := re.match(r"VACUUM .* RETAIN (\d+) HOURS", sql):
            self.hours.append(int(found[1]))
            self.vacuum(self.now + self.delay - int(found[1]) * HOUR)
        elif found := re.match(r"RESTORE .* VERSION AS OF (\d+)", sql):
            assert self.reads(found[1])
            self.commit("RESTORE", None, int(found[1]))

    def vacuum(self, until: int) -> None:
        """Removes the files that have left the table until then."""
        went: dict[int, int] = {}
        for made in self.commits.values():
            before = self.files_of(made.parent)
            went |= dict.fromkeys(before - made.files, made.at)
            for file in made.files:
                went.pop(file, None)
        self.disk -= {file for file, at in went.items() if at < until}


LAKES: list[type[Lake]] = [IcebergLake, DeltaLake]


class Stage:
    def __init__(self, lake: Lake | None = None, *, described: bool = False) -> None:
        self.lake = lake or IcebergLake()
        settings = Settings()
        storage = replace(
            settings.storage, iceberg_catalog="shared", delta_catalog="spark_catalog", iceberg_view_metadata=described
        )
        self.house = House(self.lake, replace(settings, storage=storage))
        tasks = self.house.refreshes.tasks
        tasks._limits = replace(tasks._limits, retries=0)
        self.house.versions.janitor._removal._now_ms = lambda: self.lake.now

    @property
    def view(self) -> MaterializedView:
        return self.house.entry("s.m").view

    @property
    def snapshot(self) -> str:
        return self.view.current.shown.snapshot

    async def create(self, clauses: str = "") -> None:
        await self.house.run(CREATE.format(clauses, self.lake.word))

    async def refresh(self) -> None:
        await self.house.run("REFRESH MATERIALIZED VIEW s.m")

    async def look(self) -> str:
        await self.house.views.inspector.check([self.view.id], not_before=float("inf"))
        return self.house.entry("s.m").damage

    async def sweep(self) -> None:
        janitor = self.house.versions.janitor
        for each in janitor._all():
            each.not_before = 0
        await janitor.sweep()

    async def later(self) -> None:
        """The janitor's next turn after a while."""
        self.lake.now += 2 * HOUR
        await self.sweep()


def staged(work: Callable[[Stage], Awaitable[None]]) -> Callable[[type[Lake]], None]:
    """Plays the test with a table of each format."""

    @pytest.mark.parametrize("lake", LAKES)
    def test(lake: type[Lake]) -> None:
        staged_by(lambda: Stage(lake()), Stage.create)(work)()

    test.__name__ = work.__name__
    return test


@staged
async def test_each_version_is_one_commit_that_replaces_all_rows(stage: Stage) -> None:
    first = stage.snapshot
    assert f"VERSION AS OF {first} /* {stage.view.storage.quoted} WHERE freshgate_version = 1" in (
        stage.lake.shown("s.m")
    )
    await stage.refresh()
    assert stage.lake.modes == ["INSERT OVERWRITE static"] * 2
    assert stage.lake.mode == "dynamic", "other views need it in this session"
    assert stage.lake.said is None
    assert stage.lake.commits[int(stage.snapshot)].parent == int(first)
    assert not await stage.look()
    await stage.sweep()
    await stage.later()
    assert stage.lake.shows(stage.snapshot)
    assert not stage.lake.leftover


@staged
async def test_a_view_is_found_again_by_its_properties(stage: Stage) -> None:
    found = stage.lake.things[stage.view.storage].properties
    view = stored.read_view(found, stage.view.storage, stage.view.definition, 1)
    assert (view.layout, view.current.shown) == (stage.view.layout, stage.view.current.shown)
    assert public_view.read_published(stage.lake.shown("s.m")) == (stage.view.storage, 1)


@staged
async def test_what_another_writer_does_is_found_and_undone(stage: Stage) -> None:
    stage.lake.commit(stage.lake.compaction, 1)
    assert not await stage.look(), "a compaction has changed no row"
    stage.lake.commit(stage.lake.append, None)
    assert "changed outside the gateway" in await stage.look()
    await stage.refresh()
    assert not await stage.look()


@staged
async def test_a_table_that_was_dropped_is_created_again(stage: Stage) -> None:
    before = stage.view.current
    stage.lake.lose()
    stage.lake.made *= not isinstance(stage.lake, DeltaLake)  # Which counts from 0 again.
    await stage.look()
    await stage.house.refreshes.tasks.make_fresh(stage.view.id, Cause(TriggerMode.MANUAL, "ada"), Report())
    assert stage.lake.exists
    assert not await stage.look()
    sound = await stage.house.views.storages.is_sound(stage.view, before)
    assert not sound, "a commit of the same number is of another table"


@staged
async def test_other_engines_do_not_go_on_seeing_what_was_not_published(stage: Stage) -> None:
    published = stage.snapshot
    stage.lake.failing["ALTER TABLE .*freshgate.version.2"] = StatementFailed("no", "XX000")
    with pytest.raises(FreshgateError):
        await stage.refresh()
    assert not stage.lake.shows(published)
    assert not await stage.look(), "readers through the gateway do not see it"
    await stage.sweep()
    assert stage.lake.shows(published)
    assert published == stage.snapshot
    await stage.later()
    assert not await stage.look()
    assert stage.lake.shows(published)
    assert not stage.lake.leftover


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("lake", LAKES)
def test_whatever_fails_the_view_and_its_table_agree_in_the_end(late: bool, lake: type[Lake]) -> None:
    @staged
    async def work(stage: Stage) -> None:
        reached = 0
        for left in range(60):
            stage.lake.left, stage.lake.late = left, late
            try:
                await stage.refresh()
            except FreshgateError:
                reached = left
            finally:
                stage.lake.left = -1
            assert stage.lake.reads(stage.snapshot), "what readers see was expired"
            assert f"VERSION AS OF {stage.snapshot} " in stage.lake.shown("s.m")
            await stage.sweep()
            assert stage.lake.reads(stage.snapshot), "what readers see was expired"
            await stage.refresh()
            assert not await stage.look()
            await stage.sweep()
            await stage.later()
            assert stage.lake.shows(stage.snapshot)
            assert not stage.lake.leftover
            assert stage.lake.mode == "dynamic"
        assert reached > 5, "no step of a refresh has failed"

    work(lake)


@staged
async def test_a_commit_that_is_missing_is_told(stage: Stage) -> None:
    def lost(operation: str, tag: int | None) -> None: ...

    stage.lake.commit = lost  # type: ignore[method-assign,assignment]
    with pytest.raises(RefreshFailed, match="does not show the rows of version 2"):
        await stage.refresh()


@staged
async def test_the_table_goes_with_the_view(stage: Stage) -> None:
    await stage.house.run("DROP MATERIALIZED VIEW s.m")
    await stage.sweep()
    assert not stage.lake.exists
    assert not [
        name for name in stage.lake.things if name.database == "freshgate_storage" and "epoch" not in name.table
    ]


# --- what only a VACUUM makes hard -----------------------------------------------------------------------


class DeltaStage(Stage):
    lake: DeltaLake

    def __init__(self) -> None:
        super().__init__(DeltaLake())


in_delta = staged_by(DeltaStage, Stage.create)


@in_delta
async def test_a_vacuum_keeps_the_files_of_versions_that_are_read(stage: DeltaStage) -> None:
    lake = stage.lake
    first = stage.view.current
    with stage.house.versions.readers.reading([(stage.view.id, 1)]):
        for _ in range(5):
            lake.now += HOUR
            await stage.refresh()
            await stage.later()
            lake.commit("OPTIMIZE", None)
        # It may begin late.
        lake.delay = HOUR - 10_000
        await stage.later()
        assert lake.reads(first.shown.snapshot)
        assert lake.reads(stage.snapshot)
    await stage.refresh()
    await stage.later()
    await stage.later()
    assert not lake.reads(first.shown.snapshot)
    assert lake.shows(stage.snapshot)
    assert not lake.leftover


@in_delta
async def test_a_compaction_takes_no_file_from_the_readers(stage: DeltaStage) -> None:
    lake = stage.lake
    await stage.refresh()
    lake.now += 3 * HOUR
    lake.commit("OPTIMIZE", None)
    for _ in range(3):
        stage.house.versions.janitor.retire(stage.view.id, Leftover(stage.view.storage, stage.view.definition, False))
        await stage.later()
    assert lake.hours, "the first version is gone"
    assert lake.reads(stage.snapshot)
    assert not await stage.look()


@in_delta
async def test_a_refresh_that_another_writer_overtakes_writes_its_rows_again(stage: DeltaStage) -> None:
    overtaken = StatementFailed("[DELTA_CONCURRENT_DELETE_DELETE]", "2D521")
    stage.lake.failing["INSERT OVERWRITE"] = overtaken
    await stage.refresh()
    assert stage.lake.shows(stage.snapshot)
    assert stage.view.current.number == 2
    # Once: it would not end if others went on.
    stage.lake.failing |= {"INSERT": overtaken, "OVERWRITE": overtaken}
    with pytest.raises(FreshgateError, match="CONCURRENT"):
        await stage.refresh()


@in_delta
async def test_a_vacuum_is_repeated_only_for_something(stage: DeltaStage) -> None:
    lake = stage.lake
    for _ in range(30):
        await stage.refresh()
        lake.now += 60_000
        await stage.sweep()
    assert len(lake.hours) <= 1
    await stage.later()
    done = len(lake.hours)
    await stage.later()
    assert len(lake.hours) == done
    assert not lake.leftover
    assert stage.house.versions.janitor.waiting == 0


@in_delta
async def test_rows_are_counted_with_those_before(stage: DeltaStage) -> None:
    """Delta tells the size of what a commit adds; the mark is of all files that readers see."""
    lake = stage.lake
    before = open_tables.before(stage.view, appends=True)
    assert (before.files, before.bytes) == (1, 10)
    assert open_tables.before(stage.view, appends=False).files == 0
    rows = stage.view.layout.open
    assert rows is not None
    lake.said = rows.settings(2, before)[METADATA]
    lake.commit("WRITE append", 2)
    found = await open_tables.commits(WarehouseSession(lake, Namespace()).run, rows)
    last = open_tables.of_version(found, 2)
    assert last is not None
    assert (last.files, last.bytes, last.added) == (2, 20, 1)


@in_delta
async def test_old_commits_are_found(stage: DeltaStage) -> None:
    lake = stage.lake
    for _ in range(40):
        lake.commit("OPTIMIZE", None)
    assert not await stage.look()
    lake.commit("WRITE append", None)
    assert await stage.look()


async def test_the_draft_of_iceberg_is_kept_if_asked_for() -> None:
    """A view beside the table, which goes with it, also if the catalog keeps no views when it is created."""
    for can in (True, False):
        stage = Stage(described=True)
        stage.lake.keeps_views = can
        await stage.create()
        assert await stage.look() == ""
        assert stage.lake.views == (["CREATE OR REPLACE"] if can else [])
        found = stored.read_layout(stored.write_view(stage.view)).open
        assert found is not None
        assert found.described
        await stage.house.run("DROP MATERIALIZED VIEW s.m")
        assert stage.lake.views == (["CREATE OR REPLACE", "DROP"] if can else [])
        assert not stage.lake.exists


class States:
    """Base tables with these current snapshots."""

    def __init__(self, **snapshots: str) -> None:
        self.snapshots = snapshots

    async def run(self, sql: str) -> Answer:
        name = next(name for name in self.snapshots if f"`{name}`" in sql or f"/{name}/" in sql)
        if sql.startswith("SHOW TBLPROPERTIES"):
            return Answer([("current-snapshot-id", self.snapshots[name])])
        if "metadata_log_entries" in sql:
            return Answer([(f"file:/i/{name}/v1.json",)])
        return Answer([(f"uuid of {name}", "0", "0")])


@pytest.mark.parametrize(
    ("snapshots", "known"),
    [({"a": "7", "b": "8"}, True), ({"a": "7", "b": "none"}, False), ({"a": "no property"}, False)],
)
async def test_the_draft_is_told_the_states_of_base_tables(snapshots: dict[str, str], known: bool) -> None:
    stage = Stage()
    await stage.create()
    view = replace(stage.view, tables=frozenset(TableName("x.y", name, "lake") for name in snapshots))
    said = await open_tables.refresh_state(States(**snapshots).run, view, 12)
    if not known:
        assert said == ""
        return
    record = json.loads(said)
    assert [record["view-version-id"], record["refresh-start-timestamp-ms"]] == [1, 12]
    assert record["source-states"][1] == {
        "type": "table",
        "catalog": "lake",
        "namespace": ["x", "y"],
        "name": "b",
        "uuid": "uuid of b",
        "snapshot-id": 8,
    }
    for part in (TableName("x", "a", "lake", "VERSION AS OF 3"), TableName("x.a", "branch_b", "lake")):
        at = replace(view, tables=frozenset({part}))
        assert await open_tables.refresh_state(States(a="1", branch_b="2").run, at, 12) == ""
    assert PROPERTY + "refresh-state" in ROWS.settings(3, Before(), said)


@staged
async def test_its_statistics_are_its_own(stage: Stage) -> None:
    with pytest.raises(NotAllowed, match="statistics of its own"):
        await stage.house.run("ANALYZE TABLE s.m COMPUTE STATISTICS")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("LOCATION '/data/views' ", "LOCATION"),
        ("CLUSTERED BY (a) INTO 2 BUCKETS ", "cannot have buckets"),
        ("SECURITY INVOKER ", "whoever may read the table"),
    ],
)
@pytest.mark.parametrize("lake", LAKES)
def test_clauses_that_do_not_go_with_it_are_refused(more: str, said: str, lake: type[Lake]) -> None:
    with pytest.raises(FreshgateError, match=said):
        asyncio.run(Stage(lake()).create(more))


@pytest.mark.parametrize(
    ("lake", "value", "said"),
    [(IcebergLake, "true", "cache-enabled = false"), (DeltaLake, "builtin", "Spark has no Delta Lake")],
)
def test_the_catalog_must_be_fit_for_it(lake: type[Lake], value: str, said: str) -> None:
    stage = Stage(lake())
    (name,) = stage.lake.settings
    stage.lake.settings = {name: value}
    with pytest.raises(DefinitionRefused, match=said) as refused:
        asyncio.run(stage.create())
    assert refused.value.sqlstate == "55000"
    named = rf"storage\.{stage.lake.word.lower()}_catalog"
    with pytest.raises(DefinitionRefused, match=named):
        asyncio.run(House(lake()).run(CREATE.format("", stage.lake.word)))


# --- partitions ------------------------------------------------------------------------------------------

HABITS = Habits()
BY_A = StorageLayout("a", "bigint", holds_column=True, open=ROWS)
MONTHS = StorageLayout("d", "date", "date_format(date_trunc('MONTH', {}), 'yyyy-MM-dd')", open=ROWS)
SOME = Selection(frozenset({"1", None}), all_but=False)


def test_a_version_of_some_partitions_has_copies_of_the_others() -> None:
    """One statement, and so one commit. Columns that the version before did not have yet are NULL in these."""
    kept = maintenance.RowsThatStay(replace(Shown.only(3), snapshot="77"), {"freshgate_n": "bigint"})
    text = maintenance.insert_version(STORAGE, ROWS.view, 4, None, ["a"], BY_A, SOME, stays=kept)
    some = "(`a` IN (CAST('1' AS bigint)) OR `a` IS NULL)"
    found, others = f"SELECT `a` FROM {ROWS.view.quoted} WHERE {some}", f"NOT coalesce({some}, false)"
    assert text == (
        f"INSERT OVERWRITE {ROWS.table.quoted} (`a`) SELECT /*+ REBALANCE(`a`) */ `a` FROM ({found} UNION ALL "
        f"SELECT `a` FROM {ROWS.table.quoted} VERSION AS OF 77 WHERE {others})"
    )
    rows = maintenance.RowsQuery("SELECT 1, 2", ("freshgate_n",))
    text = maintenance.insert_version(STORAGE, rows, 4, None, ["a"], BY_A, SOME, "a > 0", stays=kept)
    assert "SELECT `a`, CAST(NULL AS bigint) AS `freshgate_n` FROM" in text
    assert text.endswith(f"WHERE {others} AND a > 0)"), "partitions that have left the window are not copied"


def test_the_plan_of_some_partitions_is_one_statement() -> None:
    async def work() -> None:
        stage = Stage()
        await stage.create()
        view = replace(stage.view, layout=BY_A, properties={"refresh_partition_num": "1"})
        some = Selection(frozenset({"1", "2", "3"}), all_but=False)
        for chosen in (some, replace(some, all_but=True), Selection(frozenset(), all_but=False)):
            plan = plan_refresh(view, 2, "", HABITS, chosen=chosen, known=frozenset("1234"))
            assert plan.inserts == 1
            (step,) = [step for step in plan.write if step.inserts]
            assert f"UNION ALL SELECT `a` FROM {view.rows_table.quoted} VERSION AS OF {stage.snapshot}" in step.sql
        plan = plan_refresh(view, 2, "", HABITS)
        assert "UNION ALL" not in plan.write[-1].sql

    asyncio.run(work())


def test_partitions_are_those_of_the_table_if_they_can_be() -> None:
    create = ROWS.create(STORAGE, ["a", "d"], BY_A.open_by, None)
    assert "USING iceberg PARTITIONED BY (`a`) TBLPROPERTIES" in create
    assert "PARTITIONED BY" not in ROWS.create(STORAGE, ["a"], BY_A.open_by, None)
    assert MONTHS.open_by == ()
    counted = maintenance.partition_rows(STORAGE, replace(Shown.only(3), snapshot="77"), MONTHS)
    assert "date_format(date_trunc('MONTH', `d`), 'yyyy-MM-dd')" in counted
    assert counted.count("VERSION AS OF 77") == 1
    assert "freshgate_version" not in counted


# --- commits ---------------------------------------------------------------------------------------------


def _commits(*rows: tuple[int, int | None, str, int | None]) -> Any:
    last = rows[-1][0]
    return ROWS.read((), [(*row, 1, 1, 1, row[0] == last) for row in rows])


def test_rows_are_added_to_those_of_the_published_version_only() -> None:
    found = _commits((1, None, "append", 1), (2, 1, "replace", 1), (3, 2, "append", 2))
    assert open_tables.follows(found, found["3"], "1")
    assert not open_tables.follows(found, found["2"], "7")
    found = _commits((1, None, "append", 1), (2, 1, "append", None), (3, 2, "append", 2))
    assert not open_tables.follows(found, found["3"], "1")


def test_the_last_of_several_attempts_counts() -> None:
    found = _commits((1, None, "append", None), (2, 1, "overwrite", 1), (3, 2, "overwrite", 1))
    assert open_tables.of_version(found, 1) == found["3"]
    assert open_tables.of_version(found, 2) is None
    found = _commits((1, None, "append", 4), (2, 1, "replace", 4))
    assert written_last(found) == found["1"]


@given(st.integers(1, 2**60), st.integers(0, 2**62), st.lists(st.sampled_from("abc`"), min_size=1), st.booleans())
def test_the_text_of_a_public_view_tells_storage_and_version(
    number: int, snapshot: int, columns: list[str], built: bool
) -> None:
    shown = replace(Shown.only(number), snapshot=str(snapshot) if built else "")
    text = public_view.shown_rows(STORAGE, columns, shown, LAYOUT)
    assert public_view.read_published(text) == (STORAGE, number)
    assert public_view.selects_alike(text, public_view.shown_rows(STORAGE, columns, Shown.only(0), LAYOUT))
    assert public_view.read_published(text.replace("WHERE true", "WHERE a")) in {None, (STORAGE, number)}
