"""Views whose rows other engines read: each version is one commit of a table of Iceberg."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from fake_spark import Answer
from hypothesis import given
from hypothesis import strategies as st
from warehouse import House, Report, Warehouse

from gateway.config import Settings
from gateway.errors import DefinitionRefused, FreshgateError, NotAllowed, RefreshFailed, StatementFailed
from gateway.mv.formats import open_tables
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Cause, MaterializedView, TriggerMode
from sql.names import Namespace, TableName
from sql.texts import maintenance
from sql.texts.open_rows import PROPERTY, OpenRows, read_commits, written_last
from sql.texts.storage_layout import Shown, StorageLayout

CREATE = "CREATE MATERIALIZED VIEW s.m {}USING ICEBERG AS SELECT a FROM s.t"
STORAGE = TableName("freshgate_storage", "s__m__0a1b2c3d")
ROWS = OpenRows("iceberg", TableName("freshgate_storage", "s__m__0a1b2c3d__rows", "shared"))
LAYOUT = StorageLayout(open=ROWS)


class Lake(Warehouse):
    """Has one table of Iceberg, of which it knows the commits."""

    def __init__(self) -> None:
        super().__init__()
        self.table("s.t")
        self.exists = False
        self.cached = "false"
        self.commits: dict[int, tuple[int | None, str, int | None]] = {}
        """By snapshot: parent, operation and tag."""
        self.head: int | None = None
        self.made = 0
        self.tag: int | None = None
        self.modes: list[str] = []
        self.left = -1
        """How many statements succeed before one fails; -1: all do."""
        self.late = False
        """Whether the one that fails is carried out all the same."""
        self.mode = ""
        self.keeps_views = True
        self.views: list[str] = []
        """What happened to the view beside the table."""

    def commit(self, operation: str, tag: int | None) -> None:
        self.made += 1
        number = 100 + self.made
        self.commits[number], self.head = (self.head, operation, tag), number

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
        if sql.endswith("cache-enabled`"):
            return Answer([("", self.cached)])
        if found := re.match(r"(CREATE OR REPLACE|DROP) VIEW (IF EXISTS )?`shared`", sql):
            if not self.keeps_views:
                raise StatementFailed("the catalog keeps no views", "0A000")
            self.views.append(found[1])
            return Answer()
        if "`shared`" not in sql or sql.startswith(("CREATE VIEW", "ALTER VIEW")):
            return super().answer(sql, namespace)
        if sql.startswith("SELECT snapshot_id, parent_id"):
            return Answer(self.listed())
        self.change(sql)
        return Answer()

    def note(self, sql: str) -> None:
        if found := re.fullmatch(r"SET `([^`]*)`(?:=`([^`]*)`)?", sql):
            match found.groups():
                case (name, value) if name.endswith("freshgate-version"):
                    self.tag = int(value)
                case (name, value) if name.endswith("partitionOverwriteMode"):
                    self.mode = value

    def listed(self) -> list[tuple[Any, ...]]:
        if not self.exists:
            raise StatementFailed("[TABLE_OR_VIEW_NOT_FOUND]", "42P01")
        return [
            (number, parent, operation, tag, 1, number, 1, 10 * number, number == self.head)
            for number, (parent, operation, tag) in self.commits.items()
        ]

    def change(self, sql: str) -> None:
        if sql.startswith("CREATE TABLE"):
            if not self.exists:
                self.exists = True
                self.commit("append", None)
        elif sql.startswith("DROP TABLE"):
            self.exists = False
        elif sql.startswith("INSERT"):
            self.modes.append(f"{sql.split(' `', maxsplit=1)[0]} {self.mode}")
            self.commit("append" if sql.startswith("INSERT INTO") else "overwrite", self.tag)
        elif found := re.search(r"expire_snapshots.* array\((.*)\)\)", sql):
            for each in found[1].split(", "):
                del self.commits[int(each.removesuffix("L"))]
        elif found := re.search(r"rollback_to_snapshot.*=> (\d+)L", sql):
            self.head = int(found[1])


class Stage:
    def __init__(self, *, described: bool = False) -> None:
        self.lake = Lake()
        settings = Settings()
        storage = replace(settings.storage, iceberg_catalog="shared", iceberg_view_metadata=described)
        self.house = House(self.lake, replace(settings, storage=storage))
        tasks = self.house.refreshes.tasks
        tasks._limits = replace(tasks._limits, retries=0)

    @property
    def view(self) -> MaterializedView:
        return self.house.entry("s.m").view

    @property
    def snapshot(self) -> str:
        return self.view.current.shown.snapshot

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


def staged(work: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        stage = Stage()
        await stage.house.run(CREATE.format(""))
        await work(stage)
        await stage.house.refreshes.tasks.stop_all()

    def test() -> None:
        asyncio.run(run())

    test.__name__ = work.__name__  # type: ignore[attr-defined]
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
    assert stage.lake.commits[int(stage.snapshot)][0] == int(first)
    assert not await stage.look()
    await stage.sweep()
    assert [str(each) for each in stage.lake.commits] == [stage.snapshot]


@staged
async def test_a_view_is_found_again_by_its_properties(stage: Stage) -> None:
    found = stage.lake.things[stage.view.storage].properties
    view = stored.read_view(found, stage.view.storage, stage.view.definition, 1)
    assert (view.layout, view.current.shown) == (stage.view.layout, stage.view.current.shown)
    assert maintenance.read_published(stage.lake.shown("s.m")) == (stage.view.storage, 1)


@staged
async def test_what_another_writer_does_is_found_and_undone(stage: Stage) -> None:
    stage.lake.commit("replace", 1)
    assert not await stage.look(), "a compaction has changed no row"
    stage.lake.commit("append", None)
    assert "changed outside the gateway" in await stage.look()
    await stage.refresh()
    assert not await stage.look()


@staged
async def test_a_table_that_was_dropped_is_created_again(stage: Stage) -> None:
    stage.lake.exists = False
    await stage.look()
    stage.lake.commits.clear()
    stage.lake.head = None
    await stage.house.refreshes.tasks.make_fresh(stage.view.id, Cause(TriggerMode.MANUAL, "ada"), Report())
    assert stage.lake.exists
    assert not await stage.look()


@staged
async def test_other_engines_do_not_go_on_seeing_what_was_not_published(stage: Stage) -> None:
    published = stage.snapshot
    stage.lake.failing["ALTER TABLE .*freshgate.version.2"] = StatementFailed("no", "XX000")
    with pytest.raises(FreshgateError):
        await stage.refresh()
    assert str(stage.lake.head) != published
    assert not await stage.look(), "readers through the gateway do not see it"
    await stage.sweep()
    assert str(stage.lake.head) == published == stage.snapshot
    assert published in map(str, stage.lake.commits)


@pytest.mark.parametrize("late", [False, True])
def test_whatever_fails_the_view_and_its_table_agree_in_the_end(late: bool) -> None:
    @staged
    async def work(stage: Stage) -> None:
        reached = 0
        for left in range(40):
            stage.lake.left, stage.lake.late = left, late
            try:
                await stage.refresh()
            except FreshgateError:
                reached = left
            finally:
                stage.lake.left = -1
            assert stage.snapshot in map(str, stage.lake.commits), "what readers see was expired"
            assert stage.snapshot in stage.lake.shown("s.m")
            await stage.sweep()
            await stage.refresh()
            assert not await stage.look()
            assert str(stage.lake.head) == stage.snapshot
            await stage.sweep()
            assert [str(each) for each in stage.lake.commits] == [stage.snapshot]
            assert stage.lake.mode == "dynamic"
        assert reached > 5, "no step of a refresh has failed"

    work()


@staged
async def test_a_commit_that_is_missing_is_told(stage: Stage) -> None:
    def lost(operation: str, tag: int | None) -> None: ...

    stage.lake.commit = lost  # type: ignore[method-assign]
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


async def test_the_draft_of_iceberg_is_kept_if_asked_for() -> None:
    """A view beside the table, which goes with it, also if the catalog keeps no views when it is created."""
    for can in (True, False):
        stage = Stage(described=True)
        stage.lake.keeps_views = can
        await stage.house.run(CREATE.format(""))
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
    await stage.house.run(CREATE.format(""))
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
    at = replace(view, tables=frozenset({TableName("x", "a", "lake", "VERSION AS OF 3")}))
    assert await open_tables.refresh_state(States(**snapshots).run, at, 12) == ""
    assert PROPERTY + "refresh-state" in ROWS.settings(3, said)


@staged
async def test_its_statistics_are_its_own(stage: Stage) -> None:
    with pytest.raises(NotAllowed, match="statistics of its own"):
        await stage.house.run("ANALYZE TABLE s.m COMPUTE STATISTICS")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("PARTITION BY (a) ", "cannot have partitions"),
        ("LOCATION '/data/views' ", "LOCATION"),
        ("CLUSTERED BY (a) INTO 2 BUCKETS ", "cannot have buckets"),
        ("SECURITY INVOKER ", "whoever may read the table"),
    ],
)
def test_clauses_that_do_not_go_with_it_are_refused(more: str, said: str) -> None:
    with pytest.raises(FreshgateError, match=said):
        asyncio.run(Stage().house.run(CREATE.format(more)))


def test_sessions_must_not_keep_tables() -> None:
    stage = Stage()
    stage.lake.cached = "true"
    with pytest.raises(DefinitionRefused, match="cache-enabled = false"):
        asyncio.run(stage.house.run(CREATE.format("")))
    with pytest.raises(DefinitionRefused, match=r"storage\.iceberg_catalog"):
        asyncio.run(House(Lake()).run(CREATE.format("")))


# --- commits ---------------------------------------------------------------------------------------------


def _commits(*rows: tuple[int, int | None, str, int | None]) -> Any:
    last = rows[-1][0]
    return read_commits([(*row, 1, 1, 1, 1, row[0] == last) for row in rows])


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
    text = maintenance.shown_rows(STORAGE, columns, shown, LAYOUT)
    assert maintenance.read_published(text) == (STORAGE, number)
    assert maintenance.selects_alike(text, maintenance.shown_rows(STORAGE, columns, Shown.only(0), LAYOUT))
    assert maintenance.read_published(text.replace("WHERE true", "WHERE a")) in {None, (STORAGE, number)}
