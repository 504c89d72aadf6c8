"""Rows added since a mark, on real Spark: the old rows and the changes give the new ones, or there is a reason."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from clients import rows
from eye import Eye, named, watching
from processes import Engine
from tiers import sampled

from gateway.mv.formats.table_format import Change
from gateway.mv.formats.young_files import SETTLED_MS
from gateway.mv.model import marks
from gateway.mv.model.marks import Mark
from gateway.mv.observation.changes import Changes
from sql.increments.reasons import NotIncremental, Reason

pytestmark = pytest.mark.thorough
SAME, ADDED, SIGNED = "same", "added", "signed"
"""What a change may be, if there is no reason against it."""
HOUR = 3600
COLUMNS = "(id INT, name STRING, day STRING)"


def variants(*parameters: Mapping[str, Any], kept: set[str]) -> list[Any]:
    """All combinations of named values; those named in `kept` belong to the suite."""
    found = list(itertools.product(*parameters))
    values = [tuple(each[name] for each, name in zip(parameters, names, strict=True)) for names in found]
    return sampled(values, kept, ["-".join(names) for names in found])


@pytest.fixture(scope="module")
def eye(lake_engine: Engine) -> Iterator[Eye]:
    with watching(lake_engine) as opened:
        opened.run(
            "SET spark.databricks.delta.retentionDurationCheck.enabled=false",
            # VACUUM lists with as many tasks.
            "SET spark.sql.sources.parallelPartitionDiscovery.parallelism=2",
        )
        yield opened


class Book:
    """A table with its rows and its mark at the last check."""

    def __init__(self, eye: Eye, table: str, now_ms: Callable[[], int] | None = None) -> None:
        self.eye, self.table = eye, table
        self.directory = eye.directory(table)
        self.changes = Changes(eye.observer, now_ms) if now_ms else Changes(eye.observer)
        self.rows: Counter[Any] = Counter()
        self.mark = Mark("")
        self.written = 0
        self.detail = ""

    def run(self, *statements: str) -> None:
        self.eye.run(*statements)

    def count(self, query: str) -> Counter[Any]:
        return Counter(rows(self.eye.cursor, query))

    def contents(self) -> Counter[Any]:
        self.run(f"REFRESH TABLE {self.table}")
        return self.count(f"SELECT * FROM {self.table}")

    def begin(self) -> None:
        self.mark = self.eye.runner.run(self.changes.mark(named(self.table), self.eye.look(self.table)))
        self.rows = self.contents()
        assert marks.read(marks.written(self.mark)) == self.mark

    def since(self) -> Change:
        return self.eye.runner.run(self.changes.since(named(self.table), self.eye.look(self.table), self.mark))

    def holds(self, mark: Mark) -> bool:
        look = self.eye.look(self.table)
        return self.eye.runner.run(self.changes.holding(named(self.table), look, mark))

    def check(self) -> str:
        """What happened since the last check. Fails if the rows are not what the change says."""
        try:
            change = self.since()
        except NotIncremental as refusal:
            self.detail = refusal.detail
            self.begin()
            return refusal.reason
        self.run(f"REFRESH TABLE {self.table}")
        added, removed = (self.count(query) if query else Counter() for query in (change.added, change.removed))
        now = self.contents()
        before = self.rows.copy()
        assert now == before + added - removed, change
        assert removed <= before + added
        if change.before:
            assert self.count(change.before) == before, change
        assert self.holds(change.mark)
        query = self.changes.rows(named(self.table), self.eye.look(self.table), change.mark)
        assert "VERSION AS OF" in query or self.count(query) == now
        self.mark, self.rows = change.mark, now
        return SIGNED if change.removed else ADDED if change.added else SAME

    # --- writes ------------------------------------------------------------------------------------------

    def append(self, days: Iterable[str] = ("a", "b")) -> None:
        self.written += 3
        each = ", ".join(f"({self.written + at}, 'n{at}', '{day}')" for at in range(2) for day in days)
        self.run(f"INSERT INTO {self.table} VALUES {each}")

    def files(self) -> list[Path]:
        """The data files in the table's directory, the youngest last."""
        found = (path for path in self.directory.rglob("*") if path.is_file())
        return sorted((path for path in found if path.name[0] not in "._"), key=lambda path: path.stat().st_mtime_ns)

    def newest_ms(self) -> int:
        return self.files()[-1].stat().st_mtime_ns // 1_000_000

    def copy(self, older_by: float, name: str = "copied") -> None:
        """A copy of the youngest file, with a time `older_by` seconds before it."""
        self.written += 1
        file = self.files()[-1]
        status = file.stat()
        new = file.with_name(f"{name}{self.written}{file.suffix}")
        shutil.copy(file, new)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns - int(older_by * 1e9)))


Create = Callable[[str, str], Book]


@pytest.fixture
def create(eye: Eye) -> Iterator[Create]:
    """Creates a table with these clauses, and drops it after the test."""
    tables: list[str] = []

    def created(table: str, clauses: str) -> Book:
        eye.run(f"CREATE TABLE {table} {COLUMNS} {clauses}")
        tables.append(table)
        return Book(eye, table)

    yield created
    for table in tables:
        eye.run(f"DROP TABLE {table}")


def touch(file: Path, seconds: float) -> None:
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + int(seconds * 1e9)))


# --- files ---------------------------------------------------------------------------------------------


def append_twice(book: Book) -> None:
    book.append()
    book.append()


OVERWRITE = "INSERT OVERWRITE {0} VALUES (7, 'o', 'a')"
FILE_STEPS: dict[str, tuple[Callable[[Book], None], str, str]] = {
    # What is done, and what it is for a mark of which all files are young, and for one of which all are settled.
    "nothing": (lambda book: None, SAME, SAME),
    "append": (Book.append, ADDED, ADDED),
    "new day": (lambda book: book.append([f"x y/%=é\\'\"{{[*?:#{book.written}"]), ADDED, ADDED),
    "two": (append_twice, ADDED, ADDED),
    "same time": (lambda book: book.copy(0), ADDED, Reason.LATE_FILE),
    "late": (lambda book: book.copy(20), ADDED, Reason.LATE_FILE),
    "very late": (lambda book: book.copy(2 * HOUR), Reason.LATE_FILE, Reason.LATE_FILE),
    "hidden": (lambda book: book.copy(0, "_hidden"), SAME, SAME),
    "dot": (lambda book: book.copy(0, ".hidden"), SAME, SAME),
    "touch": (lambda book: touch(book.files()[0], 0.002), Reason.ROWS_REMOVED, Reason.ROWS_REMOVED),
    "delete": (lambda book: book.files()[0].unlink(), Reason.ROWS_REMOVED, Reason.ROWS_REMOVED),
    "overwrite": (lambda book: book.run(OVERWRITE.format(book.table)), Reason.ROWS_REMOVED, Reason.ROWS_REMOVED),
}


@pytest.mark.parametrize(
    ("stored", "partitioned", "settled"),
    variants(
        {"parquet": "parquet", "orc": "orc", "csv": "csv", "json": "json"},
        {"flat": False, "partitioned": True},
        {"young": False, "settled": True},
        kept={"parquet-partitioned-young", "csv-flat-settled"},
    ),
)
def test_histories_of_files(eye: Eye, create: Create, stored: str, partitioned: bool, settled: bool) -> None:
    table = f"default.c_{stored}_{partitioned}_{settled}".lower()
    by = "PARTITIONED BY (day)" if partitioned else ""
    book = create(table, f"USING {stored} {by}")
    if settled:
        book.changes = Changes(eye.observer, lambda: (book.newest_ms() if book.files() else 0) + SETTLED_MS)
    book.begin()
    assert book.check() == SAME
    book.append()
    assert book.check() == ADDED
    steps = list(FILE_STEPS)
    random.Random(table).shuffle(steps)
    for step in steps:
        act, young, old = FILE_STEPS[step]
        act(book)
        assert book.check() == (old if settled else young), step
    eye.run(f"ALTER TABLE {table} ADD COLUMNS (more INT)")
    assert book.check() == Reason.BASE_REPLACED


def test_partitions_elsewhere(eye: Eye, create: Create, tmp_path: Path) -> None:
    """Directories that are not partitions do not count, those of partitions elsewhere do, and one may be two."""
    table, elsewhere = "default.c_places", tmp_path / "else where"
    book = create(table, "USING parquet PARTITIONED BY (day)")
    book.append()
    book.begin()
    stray = book.files()[-1].parent.with_name("day=stray")
    shutil.copytree(book.files()[-1].parent, stray)
    assert book.check() == SAME
    eye.run(f"ALTER TABLE {table} ADD PARTITION (day='e') LOCATION '{elsewhere}'")
    assert book.check() == SAME
    book.append(["a", "e"])
    assert book.check() == ADDED
    eye.run(f"ALTER TABLE {table} ADD PARTITION (day='f') LOCATION '{elsewhere}'")
    assert book.check() != SAME, "the same files are a second partition"
    book.append(["f"])
    book.check()
    eye.run(f"ALTER TABLE {table} PARTITION (day='e') RENAME TO PARTITION (day='g')")
    assert book.check() != SAME
    eye.run(f"ALTER TABLE {table} ADD PARTITION (day='stray')")
    assert book.check() == ADDED
    eye.run(f"ALTER TABLE {table} DROP PARTITION (day='stray')")
    assert book.check() == Reason.ROWS_REMOVED


# --- Delta -----------------------------------------------------------------------------------------------


def _delta(*, feed: bool, partitioned: bool, more: str = "") -> str:
    by = "PARTITIONED BY (day)" if partitioned else ""
    properties = f"'delta.enableChangeDataFeed' = '{str(feed).lower()}'{more}"
    return f"USING delta {by} TBLPROPERTIES ({properties})"


DELTA_STEPS: dict[str, tuple[str, str, str]] = {
    # Statements, and what they are without the feed and with it.
    "nothing": ("", SAME, SAME),
    "append": ("INSERT INTO {0} VALUES (1, 'x', 'a'), (2, 'y', 'b')", ADDED, ADDED),
    "nulls": ("INSERT INTO {0} VALUES (1, NULL, NULL), (2, '', 'x y/%=é#')", ADDED, ADDED),
    "optimize": ("OPTIMIZE {0}", SAME, SAME),
    "append and optimize": ("INSERT INTO {0} VALUES (3, 'z', 'a'), (4, 'z', 'b'); OPTIMIZE {0}", ADDED, ADDED),
    "around": (
        "INSERT INTO {0} VALUES (5, 'v', 'a'); OPTIMIZE {0}; INSERT INTO {0} VALUES (6, 'v', 'a'); "
        "INSERT INTO {0} VALUES (7, 'v', 'c'); OPTIMIZE {0}; INSERT INTO {0} VALUES (8, 'v', 'c')",
        ADDED,
        ADDED,
    ),
    "update": (
        "INSERT INTO {0} VALUES (1, 'u', 'a'); UPDATE {0} SET name = 'up' WHERE name IN ('u', 'n0')",
        SIGNED,
        SIGNED,
    ),
    "delete": (
        "INSERT INTO {0} VALUES (1, 'd', 'a'), (2, 'e', 'a'); DELETE FROM {0} WHERE name IN ('d', 'n0')",
        SIGNED,
        SIGNED,
    ),
    "overwrite": ("INSERT OVERWRITE {0} VALUES (1, 'x', 'a'), (2, 'y', 'b')", SIGNED, SIGNED),
    "came and left": ("INSERT INTO {0} VALUES (1, 'l', 'a'); DELETE FROM {0} WHERE name = 'l'", SAME, SAME),
    "restore": ("INSERT INTO {0} VALUES (1, 'r', 'a'); RESTORE TABLE {0} TO VERSION AS OF {1}", SAME, SAME),
    "restore of properties": (
        "ALTER TABLE {0} SET TBLPROPERTIES ('a' = 'c'); RESTORE TABLE {0} TO VERSION AS OF {1}",
        Reason.BASE_REPLACED,
        Reason.BASE_REPLACED,
    ),
    "merge": (
        "MERGE INTO {0} t USING (SELECT 99 AS id, 'new' AS name, 'c' AS day) s ON t.id = s.id AND false "
        "WHEN NOT MATCHED THEN INSERT *",
        ADDED,
        ADDED,
    ),
    "property": ("ALTER TABLE {0} SET TBLPROPERTIES ('a' = 'b')", Reason.BASE_REPLACED, Reason.BASE_REPLACED),
    "column": ("ALTER TABLE {0} ADD COLUMNS (more INT)", Reason.BASE_REPLACED, Reason.BASE_REPLACED),
}
DELTA_KINDS = {
    "plain": "",
    "vectors": ", 'delta.enableDeletionVectors' = 'true'",
    "mapped": ", 'delta.columnMapping.mode' = 'name'",
}


@pytest.mark.parametrize(
    ("feed", "partitioned", "kind"),
    variants(
        {"log": False, "feed": True},
        {"flat": False, "partitioned": True},
        {kind: kind for kind in DELTA_KINDS},
        kept={"log-partitioned-plain", "log-flat-plain", "feed-flat-vectors"},
    ),
)
def test_histories_of_delta(eye: Eye, create: Create, feed: bool, partitioned: bool, kind: str) -> None:
    table = f"default.d_{kind}_{feed}_{partitioned}".lower()
    book = create(table, _delta(feed=feed, partitioned=partitioned, more=DELTA_KINDS[kind]))
    book.begin()
    book.append()
    assert book.check() == ADDED
    book.append()
    assert book.check() == ADDED
    steps = [step for step in DELTA_STEPS if step != "column"]
    random.Random(table).shuffle(steps)
    for step in [*steps, "column"]:
        statements, plain, fed = DELTA_STEPS[step]
        if "n0" in statements:
            book.append()
            assert book.check() == ADDED
        for statement in filter(None, statements.split("; ")):
            eye.run(statement.format(table, book.mark.position))
        assert book.check() == (fed if feed else plain), step


@pytest.mark.parametrize(
    ("feed", "partitioned", "kind"),
    variants(
        {"log": False, "feed": True},
        {"flat": False, "partitioned": True},
        {kind: kind for kind in DELTA_KINDS},
        kept={"log-partitioned-plain", "feed-flat-vectors"},
    ),
)
def test_restores_of_delta(eye: Eye, create: Create, feed: bool, partitioned: bool, kind: str) -> None:
    """Any RESTORE is as any other commit: to versions before and after the mark, and over compactions."""
    table = f"default.r_{kind}_{feed}_{partitioned}".lower()
    book = create(table, _delta(feed=feed, partitioned=partitioned, more=DELTA_KINDS[kind]))
    luck, found, version = random.Random(table), set[str](), 0

    def act() -> None:
        nonlocal version
        action = luck.choice(["append", "restore", "restore", "delete", "update", "optimize", "restore to a time"])
        if action == "append":
            book.append()
        elif action.startswith("restore"):
            to = luck.randrange(max(0, version - 6), version + 1)
            at = next(row[1] for row in rows(eye.cursor, f"DESCRIBE HISTORY {table}") if row[0] == to)
            book.run(f"RESTORE TABLE {table} TO VERSION AS OF {to}" if action == "restore"
                     else f"RESTORE TABLE {table} TO TIMESTAMP AS OF '{at}'")  # fmt: skip
        else:
            some = f"WHERE id % {luck.randint(2, 4)} = 0"
            book.run({"delete": f"DELETE FROM {table} {some}", "update": f"UPDATE {table} SET name = 'u' {some}",
                      "optimize": f"OPTIMIZE {table}"}[action])  # fmt: skip
        version = int(rows(eye.cursor, f"DESCRIBE HISTORY {table} LIMIT 1")[0][0])

    book.append()
    book.begin()
    eye.begin(table)
    for _ in range(12):
        for _ in range(luck.randint(1, 3)):
            act()
        before, changed = book.rows, eye.changed(table)
        found.add(book.check())
        if changed is not None and partitioned:
            same = {row: count for row, count in before.items() if (row[2],) not in changed}
            assert same == {row: count for row, count in book.rows.items() if (row[2],) not in changed}
    assert found <= {SAME, ADDED, SIGNED}
    assert len(found) > 1


@pytest.mark.parametrize(
    ("feed", "partitioned"),
    variants({"log": False, "feed": True}, {"flat": False, "partitioned": True}, kept={"log-flat", "feed-partitioned"}),
)
def test_vacuumed_delta(eye: Eye, create: Create, feed: bool, partitioned: bool) -> None:
    """Files that were added, compacted and vacuumed away since the mark."""
    table = f"default.v_{feed}_{partitioned}".lower()
    book = create(table, _delta(feed=feed, partitioned=partitioned))
    book.append()
    book.begin()
    book.append()
    book.append()
    eye.run(f"OPTIMIZE {table}", f"VACUUM {table} RETAIN 0 HOURS")
    book.append()
    assert book.check() == Reason.HISTORY_GONE
    assert "VACUUM" in book.detail


def test_an_earlier_version_that_vacuum_deleted(eye: Eye, create: Create) -> None:
    """The added files are there; those of the earlier version, which OPTIMIZE replaced, are not."""
    book = create("default.v_before", _delta(feed=False, partitioned=False))
    book.append()
    book.append()
    book.begin()
    eye.run("OPTIMIZE default.v_before", "VACUUM default.v_before RETAIN 0 HOURS")
    book.append()
    assert book.since().before == ""
    assert book.check() == ADDED


# --- Iceberg ---------------------------------------------------------------------------------------------

ICEBERG_STEPS = {
    "nothing": ("", SAME),
    "append": ("INSERT INTO {0} VALUES (1, 'x', 'a'), (2, 'y', 'b')", ADDED),
    "compact": ("CALL lake.system.rewrite_data_files(table => '{0}', options => map('rewrite-all', 'true'))", SAME),
    "append and compact": (
        "INSERT INTO {0} VALUES (3, 'x', 'a'); "
        "CALL lake.system.rewrite_data_files(table => '{0}', options => map('rewrite-all', 'true')); "
        "INSERT INTO {0} VALUES (4, 'y', 'b')",
        ADDED,
    ),
    "delete": ("INSERT INTO {0} VALUES (9, 'x', 'a'); DELETE FROM {0} WHERE id = 9", SIGNED),
    "update": ("INSERT INTO {0} VALUES (1, 'u', 'a'); UPDATE {0} SET name = 'v' WHERE name = 'u'", SIGNED),
    "overwrite": ("INSERT OVERWRITE {0} VALUES (1, 'x', 'a'), (2, 'y', 'b')", SIGNED),
    "column": ("ALTER TABLE {0} ADD COLUMNS (more INT); INSERT INTO {0} VALUES (1, 'x', 'a', 2)", Reason.BASE_REPLACED),
    "partitioning": ("ALTER TABLE {0} ADD PARTITION FIELD bucket(4, id)", Reason.BASE_REPLACED),
}


@pytest.mark.parametrize(
    ("writing", "partitioned"),
    variants(
        {"copy": "copy-on-write", "merge": "merge-on-read"},
        {"flat": False, "partitioned": True},
        kept={"merge-partitioned"},
    ),
)
def test_histories_of_iceberg(eye: Eye, create: Create, writing: str, partitioned: bool) -> None:
    table = f"lake.default.i_{writing.partition('-')[0]}_{partitioned}".lower()
    by = "PARTITIONED BY (day)" if partitioned else ""
    modes = ", ".join(f"'write.{action}.mode' = '{writing}'" for action in ("delete", "update", "merge"))
    book = create(table, f"USING iceberg {by} TBLPROPERTIES ({modes})")
    book.begin()
    assert book.check() == SAME
    book.append()
    assert book.check() == ADDED
    last = ["partitioning", "column"]
    steps = [step for step in ICEBERG_STEPS if step not in last]
    random.Random(table).shuffle(steps)
    for step in [*steps, *last]:
        statements, expected = ICEBERG_STEPS[step]
        for statement in filter(None, statements.split("; ")):
            eye.run(statement.format(table))
        assert book.check() == expected, step


@pytest.mark.parametrize("kind", variants({"copy": "copy", "merge": "merge", "vectors": "vectors"}, kept={"merge"}))
def test_random_histories_of_iceberg(eye: Eye, create: Create, kind: str) -> None:
    """Rows that are deleted and updated between appends, compactions and roll-backs."""
    table = f"lake.default.i_random_{kind}"
    writing = "copy-on-write" if kind == "copy" else "merge-on-read"
    modes = ", ".join(f"'write.{action}.mode' = '{writing}'" for action in ("delete", "update", "merge"))
    version = 3 if kind == "vectors" else 2
    book = create(table, f"USING iceberg TBLPROPERTIES ('format-version' = '{version}', {modes})")
    luck, found = random.Random(table), set[str]()
    book.append()
    book.begin()
    for _ in range(10):
        for _ in range(luck.randint(1, 3)):
            some = f"WHERE id % {luck.randint(2, 4)} = {luck.randint(0, 1)}"
            action = luck.choice(("append", "append", "delete", "update", "compact", "deletes", "roll back"))
            snapshots = rows(eye.cursor, f"SELECT snapshot_id FROM {table}.snapshots")
            call = "CALL lake.system."
            match action:
                case "append":
                    book.append()
                case "delete" | "update":
                    eye.run(
                        {"delete": f"DELETE FROM {table} {some}", "update": f"UPDATE {table} SET name = 'u' {some}"}[
                            action
                        ]
                    )
                case "compact" | "deletes":
                    what = "data_files" if action == "compact" else "position_delete_files"
                    eye.run(f"{call}rewrite_{what}(table => '{table}', options => map('rewrite-all', 'true'))")
                case _:
                    eye.run(f"{call}set_current_snapshot('{table}', {luck.choice(snapshots)[0]})")
        found.add(book.check())
    assert found <= {SAME, ADDED, SIGNED}
    assert SIGNED in found


def test_iceberg_history(eye: Eye, create: Create) -> None:
    table = "lake.default.i_history"
    book = create(table, "USING iceberg")
    book.append()
    first = rows(eye.cursor, f"SELECT snapshot_id FROM {table}.snapshots")[0][0]
    book.append()
    book.begin()
    eye.run(f"CALL lake.system.rollback_to_snapshot('{table}', {first})")
    assert book.check() == SIGNED
    book.append()
    assert book.check() == ADDED
    book.append()
    book.append()
    eye.run(f"CALL lake.system.expire_snapshots(table => '{table}', older_than => now(), retain_last => 1)")
    assert book.check() == Reason.HISTORY_GONE
