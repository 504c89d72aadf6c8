"""Looks at base tables: what each kind of change shows on real Spark, and who shares a look."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from clients import rows
from eye import LOOK_SECONDS, Eye, named, watching
from fakes import FakeStorages
from processes import Engine
from tiers import sampled
from views import view_of

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.snapshot import PartitionValues, Snapshot, Unobserved
from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.mv.ports import Relation, RelationKind
from sql.names import TableName

NOTHING: frozenset[PartitionValues] = frozenset()
"""No partition has changed."""
ANYTHING = None
"""Any partition may have changed."""


def parts(*values: str | None) -> frozenset[PartitionValues]:
    return frozenset((value,) for value in values)


@pytest.fixture(scope="module")
def eye(lake_engine: Engine) -> Iterator[Eye]:
    with watching(lake_engine) as opened:
        yield opened


def data_file(directory: Path) -> Path:
    return next(path for path in directory.iterdir() if path.name[0] not in "._")


def rewrite(file: Path) -> None:
    """Another program writes other bytes of the same number under the same name, a little later."""
    status = file.stat()
    file.write_bytes(bytes(reversed(file.read_bytes())))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 2_000_000))


# --- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "stored"),
    sampled(
        [
            ("of_parquet", "(id INT, day STRING) USING parquet PARTITIONED BY (day)"),
            ("of_hive", "(id INT) PARTITIONED BY (Day STRING) ROW FORMAT DELIMITED STORED AS TEXTFILE"),
        ],
        {"parquet"},
        ["parquet", "hive"],
    ),
)
def test_partitions_of_files(eye: Eye, tmp_path: Path, name: str, stored: str) -> None:
    """Spark's own format, whose plans show where the partitions are, and one of Hive, whose plans do not."""
    eye.run(f"CREATE TABLE {name} {stored}")
    assert eye.begin(name).partitions == {}
    insert = f"INSERT INTO {name} SELECT * FROM VALUES"
    odd = "x y/%=é'\"{[*?:#"
    assert eye.changed(
        name, f"{insert} (1, 'a'), (2, 'b'), (3, NULL), (4, '{odd.replace(chr(39), chr(92) + chr(39))}')"
    )
    assert eye.before[name].partitions.keys() == parts("a", "b", None, odd)
    assert eye.changed(name) == NOTHING
    written = f"{insert} (5, 'b'), (6, 'c')"
    overwritten = f"INSERT OVERWRITE {name} PARTITION (day = 'a') VALUES (7)"
    added = f"ALTER TABLE {name} ADD PARTITION (day = 'new')"
    assert eye.changed(name, written, overwritten, added) == parts("a", "b", "c", "new")
    dropped = [f"ALTER TABLE {name} DROP PARTITION (day = '{value}')" for value in ("b", "new")]
    assert eye.changed(name, *dropped, f"{insert} (8, 'b')") == parts("b", "new")

    # What other programs do. What Spark's queries do not see does not count.
    home = eye.directory(name)
    by_value = {path.name.partition("=")[2]: path for path in home.iterdir() if "=" in path.name}
    shutil.copy(data_file(by_value["a"]), by_value["a"] / "another")
    rewrite(data_file(by_value["__HIVE_DEFAULT_PARTITION__"]))
    shutil.rmtree(by_value["b"])
    (by_value["c"] / "_hidden").write_text("of a writer", encoding="utf-8")
    shutil.copytree(by_value["a"], home / "Day=unlisted")
    assert eye.changed(name) == parts("a", "b", None)

    # Partitions elsewhere: outside, and at the usual place of another.
    elsewhere = tmp_path / "a place [of] its own, with commas"
    shutil.copytree(by_value["a"], elsewhere)
    assert eye.changed(name, f"ALTER TABLE {name} PARTITION (day = 'a') SET LOCATION '{elsewhere}'") == parts("a")
    shutil.copy(data_file(by_value["a"]), by_value["a"] / "of nobody")
    data_file(by_value["c"]).unlink()
    assert eye.changed(name) == parts("c")
    rewrite(data_file(elsewhere))
    moved = f"ALTER TABLE {name} PARTITION (day = 'c') SET LOCATION '{by_value['a']}'"
    assert eye.changed(name, moved) == parts("a", "c")
    shutil.copy(data_file(by_value["a"]), by_value["a"] / "of c")
    assert eye.changed(name) == parts("c")
    # A place within another partition's: each file counts once.
    within = elsewhere / "within"
    shutil.copytree(by_value["a"], within)
    eye.begin(name)
    assert ("w",) in (eye.changed(name, f"ALTER TABLE {name} ADD PARTITION (day = 'w') LOCATION '{within}'") or ())
    rewrite(data_file(within))
    assert ("w",) in (eye.changed(name) or ())
    rewrite(data_file(elsewhere))
    assert eye.changed(name) == parts("a")

    # The same files, read as other rows; and another table.
    assert eye.changed(name, f"ALTER TABLE {name} ADD COLUMNS (more INT)") is ANYTHING
    eye.run(f"DROP TABLE {name}")
    assert eye.changed(name) is ANYTHING
    gone = eye.look(name)
    assert (gone.observed, gone.relation) == (Snapshot("", "gone"), None)
    shutil.rmtree(home, ignore_errors=True)
    assert eye.changed(name, f"CREATE TABLE {name} {stored}") is ANYTHING


def test_other_files(eye: Eye, tmp_path: Path) -> None:
    """Formats, also of Hive, tables without partitions, partitions by several columns, and a place that is gone."""
    for kind in ("orc", "csv", "json"):
        eye.run(f"CREATE TABLE of_{kind} (id INT) USING {kind}", f"INSERT INTO of_{kind} VALUES (1)")
        assert eye.begin(f"of_{kind}").partitions == {}
        assert eye.changed(f"of_{kind}") == NOTHING
        assert eye.changed(f"of_{kind}", f"INSERT INTO of_{kind} VALUES (1)") is ANYTHING
    assert eye.changed("of_csv", "INSERT OVERWRITE of_csv VALUES (2), (2)") is ANYTHING
    assert eye.changed("of_csv", "ALTER TABLE of_csv SET SERDEPROPERTIES ('sep' = '2')") is ANYTHING
    assert eye.changed("of_csv", "TRUNCATE TABLE of_csv") is ANYTHING
    assert eye.changed("of_csv") == NOTHING

    eye.run("CREATE TABLE texts (id INT) PARTITIONED BY (Day STRING) STORED AS TEXTFILE")
    eye.begin("texts")
    assert eye.changed("texts", "INSERT INTO texts VALUES (1, 'a'), (2, 'b')") == parts("a", "b")
    rewrite(data_file(eye.directory("texts") / "day=a"))
    assert eye.changed("texts") == parts("a")

    place = tmp_path / "b [c] {d}*?"
    eye.run(
        f"CREATE TABLE placed (id INT, n INT, day DATE) USING parquet PARTITIONED BY (n, day) LOCATION '{place}'",
        "INSERT INTO placed VALUES (1, 7, DATE'2024-01-01'), (2, 8, NULL)",
    )
    assert eye.begin("placed").partitions.keys() == {("7", "2024-01-01"), ("8", None)}
    rewrite(data_file(place / "n=8" / "day=__HIVE_DEFAULT_PARTITION__"))
    assert eye.changed("placed") == frozenset({("8", None)})
    shutil.move(place, tmp_path / "away")
    assert eye.changed("placed") == frozenset({("7", "2024-01-01"), ("8", None)})
    assert rows(eye.cursor, "SELECT * FROM placed") == [], "so Spark sees a table whose place is gone"
    shutil.move(tmp_path / "away", place)
    assert eye.changed("placed") == frozenset({("7", "2024-01-01"), ("8", None)})


def test_what_cannot_be_observed(eye: Eye) -> None:
    """Neither changed nor unchanged, and said why; views are what they say."""
    eye.run(
        "CREATE TABLE of_jdbc USING jdbc OPTIONS (url 'jdbc:derby:memory:x;create=true', dbtable 'sys.systables')",
        "CREATE TABLE broken (id INT, day STRING) USING parquet PARTITIONED BY (day)",
        "INSERT INTO broken VALUES (1, 'a')",
    )
    why = "tables of the format jdbc cannot be observed without the table property freshgate.watermark"
    assert eye.look("of_jdbc").observed == Unobserved(f"default.of_jdbc: {why}")
    assert isinstance(eye.look("no_catalog.a.b").observed, Unobserved)
    eye.begin("broken")
    eye.run("ALTER TABLE broken PARTITION (day = 'a') SET LOCATION 'nofs:/x'")
    look = eye.look("broken")
    assert isinstance(look.observed, Unobserved)
    assert "nofs" in look.observed.reason
    assert look.relation is not None

    eye.run("CREATE VIEW seen AS SELECT id FROM broken")
    eye.begin("seen")
    assert eye.look("seen").is_view
    assert eye.changed("seen", "CREATE OR REPLACE VIEW seen AS SELECT id FROM broken") == NOTHING
    assert eye.changed("seen", "ALTER VIEW seen AS SELECT id + 1 AS id FROM broken") is ANYTHING


def test_a_watermark(eye: Eye) -> None:
    """A table in a database of its own, which Spark reads through JDBC."""
    source = "url 'jdbc:derby:memory:marked;create=true'"
    eye.run(
        f"CREATE TABLE marked USING jdbc OPTIONS ({source}, dbtable 'ORDERS') "
        "TBLPROPERTIES ('freshgate.watermark' = 'ID') AS SELECT 1 AS id, 'a' AS what",
        f"CREATE TABLE mark USING jdbc OPTIONS ({source}, "
        """query 'SELECT max(\\"id\\") AS m, count(*) AS n FROM ORDERS')""",
    )
    eye.begin("marked")
    assert eye.changed("marked") == NOTHING
    assert eye.changed("marked", "INSERT INTO marked VALUES (2, 'b')") is ANYTHING
    assert eye.changed("marked", "INSERT INTO marked VALUES (1, 'c')") is ANYTHING
    by_query = "ALTER TABLE marked SET TBLPROPERTIES ('freshgate.watermark' = 'SELECT * FROM default.mark')"
    assert eye.changed("marked", by_query) is ANYTHING
    assert eye.changed("marked", "ALTER TABLE marked SET TBLPROPERTIES ('other' = 'text')") == NOTHING
    assert eye.changed("marked", "INSERT INTO marked VALUES (3, 'd')") is ANYTHING
    # Nothing else tells of a change.
    assert eye.changed("marked", "INSERT OVERWRITE marked VALUES (1, 'z'), (1, 'z'), (1, 'z'), (3, 'z')") == NOTHING

    eye.run("ALTER TABLE marked SET TBLPROPERTIES ('freshgate.watermark' = 'INSERT INTO marked VALUES (4, \\'e\\')')")
    assert isinstance(eye.look("marked").observed, Unobserved)
    eye.run("ALTER TABLE marked SET TBLPROPERTIES ('freshgate.watermark' = 'SELECT 1) x; DROP TABLE marked --')")
    assert isinstance(eye.look("marked").observed, Unobserved)
    eye.run("ALTER TABLE marked UNSET TBLPROPERTIES ('freshgate.watermark')")
    assert isinstance(eye.look("marked").observed, Unobserved)
    assert rows(eye.cursor, "SELECT count(*) FROM marked") == [(4,)]


# --- Delta and Iceberg -----------------------------------------------------------------------------------


def test_delta(eye: Eye) -> None:
    eye.run(
        "CREATE TABLE delt (id INT, n INT, day STRING) USING delta PARTITIONED BY (n, day) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO delt SELECT id, 1, day FROM VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, NULL) AS t(id, day)",
    )
    first = eye.begin("delt")
    assert (first.default, first.state, first.partitions, first.position) == ("v1", "v1", {}, "1")
    assert eye.changed("delt") == NOTHING
    a, b, null = ("1", "a"), ("1", "b"), ("1", None)
    inserted, deleted = "INSERT INTO delt VALUES (5, 1, NULL), (6, 2, 'c')", "DELETE FROM delt WHERE id = 1"
    assert eye.changed("delt", inserted, deleted) == frozenset({null, ("2", "c"), a})
    merge = "MERGE INTO delt USING (SELECT 2 AS id) s ON delt.id = s.id WHEN MATCHED THEN UPDATE SET day = 'b'"
    assert eye.changed("delt", merge) == frozenset({a, b})
    assert eye.changed("delt", "UPDATE delt SET id = 9 WHERE id = 4") == frozenset({null})
    state = eye.before["delt"].state
    assert eye.changed("delt", "OPTIMIZE delt", "ALTER TABLE delt SET TBLPROPERTIES ('some' = 'text')") == NOTHING
    assert eye.before["delt"].state == state
    assert eye.before["delt"].position > first.position

    # After a restart: from a stored look, or from none.
    again = eye.another()
    again.seed(named("delt"), first)
    assert eye.snapshot("delt", again).changed(first) == frozenset({a, b, null, ("2", "c")})
    assert eye.snapshot("delt", again) == eye.before["delt"]
    assert eye.snapshot("delt", eye.another()).changed(first) is ANYTHING

    assert eye.changed("delt", "ALTER TABLE delt ADD COLUMNS (more INT)") is ANYTHING
    assert eye.changed("delt", "DROP TABLE delt", CREATE_DELTA.format("delt")) is ANYTHING


CREATE_DELTA = "CREATE TABLE {} (id INT, n INT, day STRING) USING delta PARTITIONED BY (n, day)"


@pytest.mark.thorough
def test_what_no_partition_of_delta_tells(eye: Eye) -> None:
    """Other rows from of old, and a log that was cleaned up."""
    eye.run(CREATE_DELTA.format("old"), "INSERT INTO old VALUES (1, 1, 'a')", "INSERT INTO old VALUES (2, 1, 'b')")
    eye.begin("old")
    assert eye.changed("old", "RESTORE TABLE old TO VERSION AS OF 1") == frozenset({("1", "b")})
    # Delta writes a checkpoint with version 10, and needs no earlier part of the log from then on.
    for number in range(9 - int(eye.before["old"].position)):
        eye.run(f"ALTER TABLE old SET TBLPROPERTIES ('some' = '{number}')")
    position = int(eye.begin("old").position)
    eye.run(*(f"ALTER TABLE old SET TBLPROPERTIES ('some' = '{number}')" for number in range(2)))
    assert eye.snapshot("old", _seeded(eye, "old")).changed(eye.before["old"]) == NOTHING
    (eye.directory("old") / "_delta_log" / f"{position + 1:020}.json").unlink()
    assert eye.snapshot("old", _seeded(eye, "old")).changed(eye.before["old"]) is ANYTHING


def _seeded(eye: Eye, table: str) -> Observer:
    observer = eye.another()
    observer.seed(named(table), eye.before[table])
    return observer


@pytest.mark.thorough
def test_delta_without_partitions(eye: Eye) -> None:
    eye.run("CREATE TABLE whole (id INT) USING delta")
    eye.begin("whole")
    assert eye.changed("whole", "INSERT INTO whole VALUES (1)") is ANYTHING
    assert eye.changed("whole", "ALTER TABLE whole SET TBLPROPERTIES ('some' = 'text')") == NOTHING
    assert eye.changed("whole", "TRUNCATE TABLE whole") is ANYTHING
    before = eye.before["whole"]
    # With a log that is as long, and then longer.
    writes = (f"INSERT INTO whole VALUES ({number})" for number in range(int(before.position) + 1))
    assert eye.changed("whole", "DROP TABLE whole", "CREATE TABLE whole (id INT) USING delta", *writes) is ANYTHING
    assert eye.before["whole"].identity != before.identity


@pytest.mark.thorough
def test_iceberg(eye: Eye) -> None:
    table = "lake.db.ice"
    eye.run(f"CREATE TABLE {table} (id INT, n INT, day DATE) USING iceberg PARTITIONED BY (n, day)")
    assert eye.begin(table).partitions == {}
    days = "VALUES (1, 1, DATE'2024-01-01'), (2, 1, DATE'2024-01-01'), (3, 2, NULL)"
    a, null = ("1", "2024-01-01"), ("2", None)
    assert eye.changed(table, f"INSERT INTO {table} {days}") == frozenset({a, null})
    assert eye.changed(table) == NOTHING
    assert eye.changed(table, f"INSERT INTO {table} VALUES (4, 3, NULL)") == frozenset({("3", None)})
    assert eye.changed(table, f"DELETE FROM {table} WHERE id = 1") == frozenset({a})
    properties = "('write.delete.mode' = 'merge-on-read')"
    assert eye.changed(table, f"ALTER TABLE {table} SET TBLPROPERTIES {properties}") == NOTHING
    assert eye.changed(table, f"INSERT INTO {table} VALUES (1, 1, DATE'2024-01-01')") == frozenset({a})
    merge = f"MERGE INTO {table} t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert eye.changed(table, merge) == frozenset({null})
    assert eye.changed(table, f"DELETE FROM {table} WHERE n = 3") == frozenset({("3", None)})
    branch = f"ALTER TABLE {table} CREATE BRANCH side"
    assert eye.changed(table, branch, f"INSERT INTO {table}.branch_side VALUES (9, 9, NULL)") == NOTHING
    assert eye.snapshot(table, _seeded(eye, table)) == eye.before[table]

    # A column that was dropped and added again is another one, and no snapshot tells.
    assert eye.changed(table, f"ALTER TABLE {table} ADD COLUMN more INT") is ANYTHING
    again = f"ALTER TABLE {table} ADD COLUMN more INT"
    assert eye.changed(table, f"ALTER TABLE {table} DROP COLUMN more", again) is ANYTHING
    # Once the table was partitioned in another way, only the whole is followed.
    assert eye.changed(table, f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)") is ANYTHING
    assert eye.changed(table, f"INSERT INTO {table} VALUES (1, 1, NULL, 1)") is ANYTHING
    compacted = "CALL lake.system.rewrite_data_files(table => 'db.ice', options => map('rewrite-all', 'true'))"
    assert eye.changed(table, compacted) == NOTHING
    create = f"CREATE TABLE {table} (id INT, n INT, day DATE) USING iceberg PARTITIONED BY (n, day)"
    assert eye.changed(table, f"DROP TABLE {table}", create) is ANYTHING
    # Plain columns, but not those by which the first files were written.
    unpartitioned = create.partition(" PARTITIONED")[0]
    field = f"ALTER TABLE {table} ADD PARTITION FIELD n"
    eye.changed(table, f"DROP TABLE {table}", unpartitioned, f"INSERT INTO {table} VALUES (1, 1, NULL)", field)
    assert eye.changed(table, f"INSERT INTO {table} VALUES (2, 2, NULL)") is ANYTHING
    # Sessions have cached the table, whose files are gone.
    for number in range(3):
        anew = f"INSERT INTO {table} VALUES ({number}, 2, NULL)"
        assert eye.changed(table, f"DROP TABLE {table} PURGE", unpartitioned, anew) is ANYTHING


def test_a_relation_of_delta_and_iceberg(eye: Eye) -> None:
    """Columns are told as those of other tables are."""
    columns = "(id INT, d DECIMAL(10,2), t TIMESTAMP, s STRING)"
    eye.run(*(f"CREATE TABLE {name} {columns} USING {kind}" for name, kind in KINDS.items()))
    found = {kind: eye.look(name).relation for name, kind in KINDS.items()}
    parquet, delta, iceberg = found["parquet"], found["delta"], found["iceberg"]
    assert parquet is not None
    assert delta is not None
    assert iceberg is not None
    assert parquet.columns == delta.columns == iceberg.columns
    assert [relation.provider for relation in (parquet, delta, iceberg)] == ["parquet", "delta", "iceberg"]
    assert len({parquet.created, delta.created, ""}) == 3
    assert iceberg.created == ""


KINDS = {"col_parquet": "parquet", "col_delta": "delta", "lake.db.col_iceberg": "iceberg"}


# --- who shares a look --------------------------------------------------------------------------------


@dataclass
class Answer:
    rows: list[tuple[Any, ...]]
    columns: tuple[str, ...] = ()


@dataclass(eq=False)
class SlowListings:
    """A metastore with one table of files, each look at which takes as long as the test says."""

    clock: float = 100.0
    listings: list[asyncio.Future[int]] = field(default_factory=list)
    """Each listing of files that has begun: the test ends it with the number of files, or an error."""
    _began: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def relation(self, name: TableName, *, identify: bool = True) -> Relation:
        return Relation(name, RelationKind.TABLE, created="then", provider="parquet", location="file:/t")

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[SlowListings]:
        yield self

    async def run(self, sql: str) -> Answer:
        if "binaryFile" not in sql:
            return Answer([])
        listing: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        async with self._began:
            self.listings.append(listing)
            self._began.notify_all()
        return Answer([("file:/t", 1, await listing, 1)])

    async def begun(self, number: int) -> asyncio.Future[int]:
        async with asyncio.timeout(10), self._began:
            await self._began.wait_for(lambda: len(self.listings) >= number)
        return self.listings[number - 1]


TABLE = TableName("default", "t")


def on_fake(
    check: Callable[[SlowListings, Observer], Coroutine[Any, Any, None]], look_seconds: float = LOOK_SECONDS
) -> None:
    async def run() -> None:
        fake = SlowListings()
        metastore: Any = fake
        async with asyncio.timeout(10):
            await check(fake, Observer(metastore, metastore, look_seconds, lambda: fake.clock))

    asyncio.run(run())


async def turns() -> None:
    """Turns of the event loop, with which everything that need not wait is done."""
    for _ in range(20):
        await asyncio.sleep(0)


async def state(asked: asyncio.Task[dict[TableName, Look]]) -> str:
    observed = (await asked)[TABLE].observed
    assert isinstance(observed, Snapshot)
    return observed.state


def test_a_storage_that_does_not_answer() -> None:
    """Nothing is told of the table, and the look ends; nobody looks again before that is due."""

    async def check(fake: SlowListings, observer: Observer) -> None:
        look = (await observer.observe([TABLE], 0.0))[TABLE]
        assert isinstance(look.observed, Unobserved)
        assert "observing it took longer than 0.05 seconds" in look.observed.reason
        assert fake.listings[0].cancelled()
        assert not observer.due([TABLE], fake.clock)

    on_fake(check, look_seconds=0.05)


def test_askers_share_looks() -> None:
    async def check(fake: SlowListings, observer: Observer) -> None:
        def ask(not_before: float) -> asyncio.Task[dict[TableName, Look]]:
            return asyncio.create_task(observer.observe([TABLE], not_before))

        assert observer.due([TABLE], 0.0)
        early = [ask(100.0), ask(50.0), ask(0.0)]
        one = await fake.begun(1)
        # These want a look that begins later: one for all of them, after the one that runs.
        fake.clock = 110.0
        late = [ask(105.0) for _ in range(3)]
        cancelled = ask(105.0)
        # One turn of the loop, no time: it has asked, and is cancelled while it waits.
        await asyncio.sleep(0)
        cancelled.cancel()
        one.set_result(1)
        states = {await state(asked) for asked in early}
        two = await fake.begun(2)
        two.set_result(2)
        states |= {await state(asked) for asked in late}
        assert len(states) == 2
        assert len(fake.listings) == 2
        assert not observer.due([TABLE], 110.0)
        assert observer.due([TABLE], 110.5)
        assert (await observer.observe([TABLE], 110.0))[TABLE].began == 110.0
        assert len(fake.listings) == 2
        observer.forget([TABLE])
        assert observer.due([TABLE], 0.0)

    on_fake(check)


def test_a_touch_outdates_looks() -> None:
    """Also one that runs, and in the very moment in which it began. The clock stands still."""

    async def check(fake: SlowListings, observer: Observer) -> None:
        first = asyncio.create_task(observer.observe([TABLE], 0.0))
        one = await fake.begun(1)
        observer.touch([TABLE])
        second = asyncio.create_task(observer.observe([TABLE], 0.0))
        one.set_result(1)
        before = await state(first)
        assert observer.due([TABLE], 0.0)
        # Touches after the asker came are not his.
        two = await fake.begun(2)
        observer.touch([TABLE])
        two.set_result(2)
        assert await state(second) != before
        assert len(fake.listings) == 2
        assert observer.due([TABLE], 0.0)

    on_fake(check)


def test_nothing_is_kept_of_tables_at_which_nobody_looks() -> None:
    """Each day's staging table may be written beside a base table."""

    async def check(fake: SlowListings, observer: Observer) -> None:
        for number in range(50):
            observer.touch([TABLE, TableName("default", f"t{number}")])
        assert observer._touched == {}
        asked = asyncio.create_task(observer.observe([TABLE], 0.0))
        (await fake.begun(1)).set_result(1)
        await asked
        assert not observer.due([TABLE], 0.0)
        observer.touch([TABLE])
        assert observer.due([TABLE], 0.0)

    on_fake(check)


def test_who_asks_for_a_table_that_is_forgotten_has_one_look() -> None:
    """He came after a touch, joined a look from before it, and the last view that read the table was dropped."""

    async def check(fake: SlowListings, observer: Observer) -> None:
        first = asyncio.create_task(observer.observe([TABLE], 0.0))
        one = await fake.begun(1)
        observer.touch([TABLE])
        second = asyncio.create_task(observer.observe([TABLE], 0.0))
        await turns()
        observer.forget([TABLE])
        one.set_result(1)
        before = await state(first)
        (await fake.begun(2)).set_result(2)
        await turns()
        assert len(fake.listings) == 2
        assert await state(second) != before

    on_fake(check)


@dataclass
class Stage:
    """Views before an observer."""

    fake: SlowListings
    observer: Observer
    view: MaterializedView = field(default_factory=lambda: reading("v", TABLE))

    def __post_init__(self) -> None:
        nobody: Any = None
        self.catalog = Catalog("s", nobody)
        self.inspector = Inspector(self.catalog, nobody, self.observer, nobody, cast(Any, FakeStorages()), 0)
        self.catalog.news.unread.add(self.observer.forget)
        self.observer.looked.add(self.inspector.forget_unread)
        self.catalog.show(self.catalog.reserve(reading("other", OTHER)))

    async def look(self, view: MaterializedView, then: Callable[[], object] = lambda: None) -> None:
        """A look at the view's table, from `then` on ended; nothing where one is remembered."""
        listed = len(self.fake.listings)
        asked = asyncio.create_task(self.inspector.inspect(view, 0.0))
        await turns()
        if not asked.done():
            then()
            (await self.fake.begun(listed + 1)).set_result(1)
        await asked

    @property
    def remembered(self) -> set[TableName]:
        observer = self.observer
        return {each for memory in (observer._known, *observer.formats.memories) for each in memory}


def reading(view_id: str, table: TableName) -> MaterializedView:
    any_view = view_of(Version.whole(1, 0, 0, {}))
    return replace(any_view, id=view_id, name=TableName("d", view_id), tables=frozenset({table}), followed=None)


OTHER = TableName("default", "other")


def test_a_look_that_ends_after_its_views_leaves_nothing() -> None:
    async def check(fake: SlowListings, observer: Observer) -> None:
        stage = Stage(fake, observer)
        for _ in range(3):
            entry = stage.catalog.reserve(stage.view)
            stage.catalog.show(entry)
            await stage.look(stage.view, partial(stage.catalog.remove, entry))
            assert stage.remembered == set()
        # A view that came meanwhile goes on from it.
        entry = stage.catalog.reserve(stage.view)

        def come_again() -> None:
            stage.catalog.remove(entry)
            stage.catalog.reserve(stage.view)

        await stage.look(stage.view, come_again)
        assert stage.remembered == {TABLE}

    on_fake(check)


def test_what_a_create_has_seen_is_kept_while_it_is_under_way() -> None:
    async def check(fake: SlowListings, observer: Observer) -> None:
        stage = Stage(fake, observer)
        for works in (False, True):
            stage.catalog.building.add("v")
            await stage.look(stage.view)
            looks = len(fake.listings)
            await stage.look(reading("other", OTHER))
            await stage.look(stage.view)
            assert TABLE in stage.remembered
            assert len(fake.listings) <= looks + 1
            if works:
                stage.catalog.show(stage.catalog.reserve(stage.view))
            stage.catalog.building.discard("v")
            observer.touch([OTHER])
            await stage.look(reading("other", OTHER))
            assert stage.remembered == ({TABLE, OTHER} if works else {OTHER})

    on_fake(check)


def test_failures_are_looks_without_knowledge() -> None:
    """Spark's errors are remembered like looks; that Spark is away is not."""

    async def check(fake: SlowListings, observer: Observer) -> None:
        async def fail(number: int, error: Exception) -> Look:
            asked = asyncio.create_task(observer.observe([TABLE], float("inf")))
            (await fake.begun(number)).set_exception(error)
            if isinstance(error, StatementFailed):
                (await fake.begun(number + 1)).set_exception(error)
            return (await asked)[TABLE]

        lost = await fail(1, UpstreamLost("Spark is away."))
        assert lost.observed == Unobserved("Spark is away.")
        assert observer.due([TABLE], 0.0)
        failed = await fail(2, StatementFailed("No disk."))
        assert failed.observed == Unobserved("The files at file:/t cannot be listed. Spark said: No disk.")
        assert failed.relation is not None
        assert not observer.due([TABLE], 0.0)
        # Files that went while they were listed: the second try counts.
        fake.clock += 1.0
        asked = asyncio.create_task(observer.observe([TABLE], float("inf")))
        (await fake.begun(4)).set_exception(StatementFailed("A file is gone."))
        (await fake.begun(5)).set_result(1)
        assert await state(asked)

    on_fake(check)


def test_seeds() -> None:
    """The one that knows partitions, then the latest, is gone on from."""

    async def check(_: SlowListings, observer: Observer) -> None:
        brief, early = Snapshot("i", "v9", position="9"), Snapshot("i", "v3", "v1", {("a",): "v3"}, "3")
        late = Snapshot("i", "v4", "v1", {("a",): "v4"}, "10")
        for seeds in ([brief, early, late], [late, early, brief], [early, late, brief]):
            observer.forget([TABLE])
            for seed in seeds:
                observer.seed(TABLE, seed)
            assert observer._tools.last[TABLE] == late

    on_fake(check)
