"""Stored rows that are changed outside the gateway: they are found, not read, not used, and computed anew."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from fake_spark import Answer, named
from staging import staged_by
from warehouse import House, Report, Thing, Warehouse

from gateway.errors import FreshgateError, RefreshFailed, StatementFailed
from gateway.mv.freshness.pending import ViewsEndangered
from gateway.mv.model import properties as stored
from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.marks import Fold
from gateway.mv.model.view import Cause, Freshness, MaterializedView, State, TriggerMode
from gateway.mv.observation.stored_files import _of_version
from gateway.service.routing.facts import ViewsRead
from gateway.service.routing.reads import Reads
from sql.names import Namespace, TableName
from sql.texts.storage_layout import Shown

NOW = float("inf")
DIRECTORY = re.compile(r"binaryFile\.`(file:/s/[^`]*)`")
CREATE = "CREATE MATERIALIZED VIEW s.m AS SELECT a FROM s.t"
ABOVE = "CREATE MATERIALIZED VIEW s.top AS SELECT a FROM s.m"


class Stores(Warehouse):
    """Has a file for each version that is written, and for what a test adds."""

    def __init__(self) -> None:
        super().__init__()
        self.table("s.t")
        self.stored: dict[str, dict[str, int]] = {}
        """By directory of a version, the files with the hash of each."""
        self.spoils_on: dict[str, dict[str, int]] = {}
        """Of which version the rows are changed while rows of a storage, whose name begins so, are written."""
        self.listings = 0
        self.listed: list[str] = []
        """By the last statement."""

    def answer(self, sql: str, namespace: Namespace) -> Any:
        if found := re.match(r"INSERT \w+ `\w+`\.`\w+`\.`(\w+)` .* CAST\((\d+) AS BIGINT\)", sql):
            self.stored[_place(found[1], found[2])] = {"part-0": hash(sql)}
            for storage in [each for each in self.spoils_on if found[1].startswith(each)]:
                self.spoils_on.pop(storage)["part-evil"] = 666
        if found := re.match(r"EXPLAIN SELECT 1 FROM `\w+`\.`\w+`\.`(\w+)` WHERE freshgate_version = (\d+)", sql):
            if TableName("freshgate_storage", found[1]) not in self.things:
                raise StatementFailed(f"[TABLE_OR_VIEW_NOT_FOUND] {found[1]}", "42P01")
            return Answer([(self.plan(_place(found[1], found[2])),)])
        if places := DIRECTORY.findall(sql):
            self.listings += 1
            self.listed = places
            # One statement also lists the files of base tables.
            others = super().answer(sql, namespace).rows if "`file:/w/" in sql else None
            return Answer([*self.folded(places), *(others or ())])
        return super().answer(sql, namespace)

    def plan(self, place: str) -> str:
        paths = [place] if place in self.stored else []
        where = f"InMemoryFileIndex({len(paths)} paths)[{', '.join(paths)}]"
        return f"== Physical Plan ==\nLocation: {where}, PartitionFilters: []"

    def folded(self, places: list[str]) -> list[tuple[Any, ...]]:
        if not any(place in self.stored for place in places):
            raise StatementFailed("[PATH_NOT_FOUND] Path does not exist.", "42K03")
        rows: list[tuple[Any, ...]] = []
        for place in places:
            xor = 0
            for each in (files := self.stored.get(place, {})).values():
                xor ^= each
            if files:
                rows.append((place, xor, len(files), 10 * len(files)))
        return rows


def _place(table: str, version: str) -> str:
    return f"file:/s/{table}/freshgate_version={version}"


class Stage:
    def __init__(self) -> None:
        self.warehouse = Stores()
        self.house = House(self.warehouse)

    @property
    def view(self) -> MaterializedView:
        return self.house.entry("s.m").view

    @property
    def files(self) -> dict[str, int]:
        """Those of the current version."""
        return self.warehouse.stored[_place(self.view.storage.table, str(self.view.current.number))]

    async def look(self) -> str:
        """What a look that begins now finds."""
        await self.house.views.inspector.check([self.view.id], not_before=float("inf"))
        return self.house.entry("s.m").damage

    async def read(self) -> None:
        await self.house.refreshes.tasks.make_fresh(self.view.id, Cause(TriggerMode.READ, "ada"), Report())


staged = staged_by(Stage, lambda stage: stage.house.run(CREATE))


@staged
async def test_rows_as_they_were_published_are_sound(stage: Stage) -> None:
    assert stage.view.current.files == Fold(next(iter(stage.files.values())), 1, 10)
    assert not await stage.look()


@pytest.mark.parametrize("how", ["a file was added", "a file was replaced", "all files are gone"])
def test_changed_rows_are_found_and_computed_anew(how: str, caplog: pytest.LogCaptureFixture) -> None:
    @staged
    async def work(stage: Stage) -> None:
        before = stage.view.current.number
        match how:
            case "a file was added":
                stage.files["part-evil"] = 666
            case "a file was replaced":
                stage.files["part-0"] ^= 666
            case _:
                stage.warehouse.stored.clear()
        assert "changed outside the gateway" in await stage.look()
        (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
        assert "s.m is damaged" in line
        assert "unknown, not through this gateway" in line
        assert (await stage.house.views.schemas.states([stage.view]))[stage.view.id][0] is State.DAMAGED
        assert stage.house.catalog.is_stale(stage.view.id)
        await stage.read()
        assert stage.view.current.number > before
        assert stage.view.current.method == "COMPLETE"
        assert not stage.house.entry("s.m").damage
        assert not await stage.look()

    work()


@staged
async def test_rows_that_are_as_published_again_are_sound_again(stage: Stage) -> None:
    stage.files["part-evil"] = 666
    assert await stage.look()
    del stage.files["part-evil"]
    assert not await stage.look()
    assert not stage.house.catalog.is_stale(stage.view.id)


@staged
async def test_a_statement_of_this_gateway_is_named(stage: Stage) -> None:
    found: list[str] = []
    by = frozenset({stage.view.id}), "eve", "session", 7, "INSERT INTO x"
    stage.house.catalog.endangered.begin(ViewsEndangered(*by))
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("gateway.mv.observation.storage_looks").addHandler(handler)
    stage.files["part-evil"] = 666
    await stage.look()
    assert "eve: INSERT INTO x" in found[0]


@staged
async def test_refresh_mends(stage: Stage) -> None:
    stage.files["part-evil"] = 666
    await stage.house.run("REFRESH MATERIALIZED VIEW s.m")
    assert not await stage.look()


@staged
async def test_a_look_is_shared_and_not_repeated(stage: Stage) -> None:
    stage.house.views.storages._kept.clear()
    before = stage.warehouse.listings
    entry, oldest = stage.house.entry("s.m"), stage.house.views.storages.now()
    await asyncio.gather(*(stage.house.views.storages.look(entry, oldest) for _ in range(20)))
    await stage.house.views.storages.look(entry, oldest)
    assert stage.warehouse.listings == before + 1


@staged
async def test_a_look_after_a_refresh_by_rows_does_not_list_what_was_dropped_since(stage: Stage) -> None:
    """One directory that is missing would fail the statement that lists all, so that each was listed alone."""
    files, table, number = stage.house.views.storages._files, stage.view.storage.table, stage.view.current.number
    new = Shown.only(number + 1)
    stage.warehouse.stored[_place(table, str(new.number))] = {"part-0": 7}
    found, _ = await files.of(stage.view, new, stage.view.current.shown)
    del stage.warehouse.stored[_place(table, str(number))]
    assert await files.of(stage.view, new) == [found]
    assert stage.warehouse.listed == [_place(table, str(new.number))]


@staged
async def test_a_look_of_a_read_asks_for_each_thing_once_and_lists_files_once(stage: Stage) -> None:
    inspector, nobody = stage.house.views.inspector, cast(Any, None)
    reads = Reads(stage.house.catalog, nobody, nobody, nobody, inspector, *[nobody] * 5)
    texts = stage.warehouse.texts
    for look in (
        partial(inspector.check, [stage.view.id], NOW),
        partial(reads._look, ViewsRead(frozenset([stage.view.id]))),
    ):
        await inspector.check([stage.view.id], NOW)
        inspector._probe_seconds = 0
        del texts[:]
        await look()
        asked = [" ".join(text.split()[:2]) for text in texts if not text.startswith("SET")]
        assert sorted(asked) == [
            *("DESCRIBE TABLE", "DESCRIBE TABLE", "EXPLAIN SELECT", "SELECT left(path,", "SHOW TBLPROPERTIES")
        ]


@staged
async def test_a_view_without_a_mark_is_not_looked_at(stage: Stage) -> None:
    entry = stage.house.entry("s.m")
    entry._view = replace(entry.view, current=replace(entry.view.current, files=None))
    stage.files["part-evil"] = 666
    assert not await stage.look()


@staged
async def test_rows_that_cannot_be_listed_are_computed_anew(stage: Stage) -> None:
    stage.warehouse.plan = lambda place: "Error occurred during query planning: No FileSystem for scheme"  # type: ignore[method-assign]
    assert "cannot be looked at" in await stage.look()
    catalog, entry = stage.house.views.catalog, stage.house.entry("s.m")
    assert entry.unexamined
    assert catalog.freshness(stage.view.id) is Freshness.UNKNOWN
    del stage.warehouse.plan
    assert not await stage.look()
    assert not entry.unexamined
    assert catalog.freshness(stage.view.id) is Freshness.FRESH


@staged
async def test_damage_is_told_and_kept_whether_or_not_rows_could_be_looked_at_before(stage: Stage) -> None:
    plan, looks = stage.warehouse.plan, stage.house.views.storages
    stage.warehouse.plan = lambda place: "Error occurred during query planning"  # type: ignore[method-assign]
    await stage.look()
    assert looks.found == 0
    stage.warehouse.plan = plan  # type: ignore[method-assign]
    stage.files["part-foreign"] = 7
    assert "changed outside the gateway" in await stage.look()
    assert looks.found == 1
    stage.warehouse.plan = lambda place: "Error occurred during query planning"  # type: ignore[method-assign]
    assert "changed outside the gateway" in await stage.look()
    entry = stage.house.entry("s.m")
    assert not entry.unexamined
    assert stage.house.views.catalog.freshness(stage.view.id) is Freshness.DAMAGED


@staged
async def test_rows_of_another_gateway_are_not_damage(stage: Stage) -> None:
    """It has published another version, and the rows of this one are gone."""
    shown = stage.warehouse.things[stage.view.name]
    shown.text = shown.text.replace("freshgate_version = 1", "freshgate_version = 9")
    stage.warehouse.stored.clear()
    assert not await stage.look()
    assert stage.house.entry("s.m").doubtful


@staged
async def test_a_kept_version_is_compared_with_its_own_mark(stage: Stage) -> None:
    looks, view, version = stage.house.views.storages, stage.view, stage.view.current
    assert await looks.is_sound(view, version)
    assert looks.is_sound_lately(view, version, looks.now() - 60)
    stage.files["part-evil"] = 666
    assert await looks.is_sound(view, version, looks.now() - 60)
    assert not await looks.is_sound(view, version)
    assert not looks.is_sound_lately(view, version, looks.now() - 60)


@staged
async def test_what_is_published_beside_damaged_rows_is_recomputed(stage: Stage) -> None:
    """A refresh that has used stored rows looks at them once more before it publishes."""
    entry, looks = stage.house.entry("s.m"), stage.house.views.storages
    stage.files["part-evil"] = 666
    await looks.mark(entry, Shown.only(1), alone=True)
    assert not entry.damage
    await looks.mark(entry, Shown.only(1), alone=False)
    assert entry.damage


@staged
async def test_rows_of_a_view_that_change_while_a_refresh_above_reads_them_are_not_published(stage: Stage) -> None:
    await stage.house.run(ABOVE)
    above, warehouse = stage.house.entry("s.top"), stage.warehouse
    warehouse.spoils_on[above.view.storage.table] = stage.files
    before = stage.view.current.number
    await stage.house.run("REFRESH MATERIALIZED VIEW s.top COMPLETE")
    assert stage.view.current.number > before
    assert not await stage.look()
    assert above.view.current.views == {stage.view.id: stage.view.current.number}


@staged
async def test_a_view_is_not_created_from_rows_that_changed_meanwhile(stage: Stage) -> None:
    stage.warehouse.spoils_on["s__top"] = stage.files
    with pytest.raises(RefreshFailed, match="changed outside the gateway"):
        await stage.house.run(ABOVE)
    await stage.house.run(ABOVE)
    assert not await stage.look()


@staged
async def test_a_view_that_was_not_built_when_it_was_read_is_sound(stage: Stage) -> None:
    increments = stage.house.refreshes.executor._increments
    assert await increments.are_sound({stage.view.id: NEVER_BUILT})
    assert not await increments.are_sound({stage.view.id: stage.view.current.number + 1})
    stage.files["part-evil"] = 666
    assert not await increments.are_sound({stage.view.id: NEVER_BUILT})


def test_the_directory_of_a_version() -> None:
    version = "file:/w/m/freshgate_version=7"
    assert _of_version(version) == version
    assert _of_version(f"{version}/freshgate_partition=a%2Fb") == version
    assert _of_version("file:/elsewhere/freshgate_partition=a") == "file:/elsewhere/freshgate_partition=a"
    assert _of_version(f"{version}/x/freshgate_partition=a") == f"{version}/x/freshgate_partition=a"


# --- public views ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forged", ["SELECT 666 AS a", "SELECT `b` AS `a` FROM {rest}"])
def test_an_altered_public_view_is_restored(forged: str, caplog: pytest.LogCaptureFixture) -> None:
    @staged
    async def work(stage: Stage) -> None:
        await stage.look()
        public = stage.warehouse.things[stage.view.name]
        right = public.text
        public.text = forged.format(rest=right.partition(" FROM ")[2])
        await stage.look()
        assert public.text == right
        assert not stage.house.entry("s.m").doubtful
        (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
        assert "has been restored; statements that may have done this: unknown, not through this gateway" in line

    work()


@staged
async def test_the_name_of_a_view_that_was_created_since_belongs_to_its_owner(stage: Stage) -> None:
    await stage.look()
    name = stage.view.name
    stage.warehouse.things[name] = Thing("VIEW", "SELECT 666 AS a")
    await stage.house.views.inspector.check([stage.view.id], not_before=float("inf"))
    assert stage.warehouse.things[name].text == "SELECT 666 AS a"
    assert name in stage.house.catalog.damaged


@staged
async def test_a_view_that_is_being_renamed_is_not_restored(stage: Stage) -> None:
    await stage.look()
    entry, public = stage.house.entry("s.m"), stage.warehouse.things[stage.view.name]
    stage.warehouse.things[stage.view.storage].properties |= stored.write_move(named("s.n"), 1)
    public.text = "SELECT 666 AS a"
    async with entry.lock:
        created = stage.house.views.settlement._created[entry]
        assert not await stage.house.views.settlement._restore(entry, created)
    assert public.text == "SELECT 666 AS a"


# --- a missing storage table ----------------------------------------------------------------------------------


@staged
async def test_a_dropped_storage_table_is_created_again(stage: Stage) -> None:
    storage = stage.view.storage
    lost = stage.warehouse.things.pop(storage)
    stage.warehouse.stored.clear()
    assert "storage table was dropped" in await stage.look()
    await stage.read()
    assert not await stage.look()
    made = stage.warehouse.things[storage].properties
    passing = {"freshgate.version.1", *(key for key in lost.properties if key.startswith("freshgate.task."))}
    assert made.keys() >= lost.properties.keys() - passing
    assert stored.was_published(made)
    assert stage.view.current.number in stored.versions(made)


@staged
async def test_without_its_definition_a_dropped_storage_table_is_not_created(stage: Stage) -> None:
    for name in (stage.view.storage, stage.view.definition):
        del stage.warehouse.things[name]
    name = stage.view.name
    stage.warehouse.failing["^CREATE TABLE"] = StatementFailed("[TABLE_OR_VIEW_NOT_FOUND]", "42P01")
    assert "storage table was dropped" in await stage.look()
    with pytest.raises(FreshgateError) as refused:
        await stage.read()
    assert refused.value.sqlstate == "58030"
    assert name in stage.house.catalog.damaged
