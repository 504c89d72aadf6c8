"""Rows added since a mark, without Spark: no history of files loses or repeats one, and every doubt has a reason."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from fake_spark import Answer, FakeMetastore, named
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import StatementFailed
from gateway.mv.formats import hive
from gateway.mv.formats.delta_log import log_of
from gateway.mv.formats.files import change_of
from gateway.mv.formats.table_format import FILES_MAX, LISTED_MAX, Change
from gateway.mv.formats.young_files import (
    EVER,
    SETTLED_MS,
    YoungFiles,
    new_files,
    partition_hashes,
    young_files,
)
from gateway.mv.model import marks
from gateway.mv.model.marks import YOUNGER_MAX, Fold, Mark, YoungFile, of_files
from gateway.mv.model.snapshot import PartitionValues, Snapshot, Unobserved, fingerprint
from gateway.mv.observation.changes import Changes
from gateway.mv.observation.look import Look
from gateway.mv.observation.observer import Observer
from gateway.mv.ports import Relation, RelationKind
from sql.increments.reasons import NotIncremental, Reason
from sql.names import TableName
from sql.texts import additions, delta_texts, iceberg_texts

PLAIN, DELTA, ICEBERG = named("s.t"), named("s.d"), named("lake.s.i")
STRING, INT, STAMP = '{"name": "string"}', '{"name": "int"}', '{"name": "timestamp_ltz"}'


class ObservedTables(FakeMetastore):
    """A metastore that is also the sessions in which its tables are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = Changes(Observer(self, cast(Any, self), 60.0), lambda: 0)

    def say(self, pattern: str, *rows: tuple[Any, ...]) -> None:
        self.answers.say(pattern, Answer(list(rows)))

    def fail(self, pattern: str) -> None:
        self.answers.say(pattern, StatementFailed("It is gone."))

    def mark(self, table: TableName) -> Mark:
        return asyncio.run(self.changes.mark(table, look(table)))

    def since(self, table: TableName, mark: Mark, look_at: Look | None = None) -> Change:
        return asyncio.run(self.changes.since(table, look_at or look(table), mark))

    def refusal(self, table: TableName, mark: Mark, look_at: Look | None = None) -> Reason:
        with pytest.raises(NotIncremental) as refused:
            self.since(table, mark, look_at)
        return refused.value.reason


def look(table: TableName, identity: str = "i", provider: str = "", **parts: Any) -> Look:
    known = {PLAIN: "parquet", DELTA: "delta", ICEBERG: "iceberg"}
    columns = (("id", INT), ("day", STRING))
    described = {"location": f"file:/w/{table.table}", "columns": columns, **parts}
    relation = Relation(table, RelationKind.TABLE, provider=provider or known[table], **described)
    return Look(Snapshot(identity, "state", position="5"), 0.0, relation=relation)


# --- files ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    name: str
    modified: int
    partition: int

    @property
    def young(self) -> YoungFile:
        # In another partition it is another file: its path is hashed.
        hashed = int(fingerprint(self.name, str(self.modified), str(self.partition)), 16)
        return YoungFile(self.name, hashed, self.modified, 10, self.partition)


def listing(files: Iterable[File], bound: int) -> YoungFiles:
    listed = [file.young for file in files]
    old = [file for file in listed if file.modified <= bound]
    young = tuple(file for file in listed if file.modified > bound)
    latest = max((file.modified for file in old), default=0)
    return YoungFiles(bound, sum((file.fold for file in old), Fold()), young, latest)


class Directory(ObservedTables):
    """One with these files, listed at this time."""

    def __init__(self, now: int) -> None:
        super().__init__()
        self.changes = Changes(Observer(self, cast(Any, self), 60.0), lambda: now + SETTLED_MS)
        self.files: frozenset[File] = frozenset()
        self.answers.say("binaryFile", self._list)

    def _list(self, text: str) -> Answer:
        bound = re.search(r"> (\d+) THEN", text)
        assert bound is not None
        found = listing(self.files, int(bound[1]))
        rows: list[Any] = [("file:/w/t", file.path, file.hash, 1, file.bytes, file.modified) for file in found.young]
        older = found.older
        folded = [("file:/w/t", None, older.xor, older.count, older.sum, found.latest)] if older.count else []
        return Answer(rows + folded)


# Partitions' hashes are large, as real ones are: sums of small ones would be equal by chance.
FILES = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(0, 6), st.sampled_from([3 << 40, 5 << 50]))
).map(lambda files: frozenset(File(name, *parts) for name, parts in files.items()))


@given(st.lists(st.tuples(FILES, st.integers(0, 7)), min_size=2, max_size=5))
def test_no_history_of_files_loses_or_repeats_one(history: list[tuple[frozenset[File], int]]) -> None:
    """With every time of a file, before, at and after the bound, and any progress of the bound."""
    (before, settled), *later = history
    mark = of_files("i", settled, *_parts(before, settled), settled)
    for now, settled in later:
        found = listing(now, mark.bound)
        try:
            new = new_files(PLAIN, mark, found)
            seen = of_files("i", found.bound, found.older, found.young, settled, found.latest)
            change = change_of(PLAIN, ["id"], seen, new)
        except NotIncremental as refusal:
            late = any(file.modified <= mark.bound for file in now - before)
            reasons = {Reason.ROWS_REMOVED: bool(before - now), Reason.LATE_FILE: late}
            possible = reasons[refusal.reason]
            mark = of_files("i", settled, *_parts(now, settled), settled)
        else:
            possible = before <= now
            paths = sorted(file.name for file in now - before)
            assert change.added == (additions.rows_of_files(PLAIN, ["id"], _order(now, before)) if paths else None)
            assert change.bytes == 10 * len(paths)
            mark = change.mark
        assert possible
        assert marks.read(json.loads(json.dumps(marks.written(mark)))) == mark
        before = now


PLAIN_FILES = FILES.map(lambda files: frozenset(replace(file, partition=0) for file in files))


@given(PLAIN_FILES, PLAIN_FILES, st.integers(0, 7))
def test_what_holds_was_read(before: frozenset[File], later: frozenset[File], now: int) -> None:
    """A query that reads the files until the latest of a mark reads the files of the mark, or the mark does not hold.
    Later files do no harm, unless one has the time of a file that has been folded."""
    spark = Directory(now)
    spark.files = before
    mark = spark.mark(PLAIN)
    assert mark.until == max((file.modified for file in before), default=0)
    spark.files = later
    read = frozenset(file for file in later if file.modified <= mark.until)
    held = asyncio.run(spark.changes.holding(PLAIN, look(PLAIN), mark))
    assert read == before or not held
    assert held or read != before or any(file.modified <= mark.bound for file in later - before)


def _parts(files: Iterable[File], bound: int) -> tuple[Fold, tuple[YoungFile, ...]]:
    found = listing(files, bound)
    return found.older, found.young


def _order(now: frozenset[File], before: frozenset[File]) -> list[str]:
    return [file.name for file in now if file not in before]


def test_a_mark_names_few_files() -> None:
    """The oldest files beyond that are folded, and with them all that have the time of the last folded one."""
    files = [YoungFile(f"f{number}", number, number // 2, 1) for number in range(YOUNGER_MAX + 5)]
    mark = of_files("i", 0, Fold(), files, 0)
    assert len(mark.younger) <= YOUNGER_MAX
    assert mark.older.count + len(mark.younger) == len(files)
    assert {file.hash for file in files if file.modified > mark.bound} == mark.younger


def test_more_young_files_than_a_listing_names() -> None:
    spark = ObservedTables()
    young = [("file:/w/t", f"f{number}", number, 1, 1, 5) for number in range(LISTED_MAX + 1)]
    spark.say("binaryFile", *young)
    spark.say(f"> {EVER} ", ("file:/w/t", None, 77, LISTED_MAX + 1, LISTED_MAX + 1, 5))
    mark = spark.mark(PLAIN)
    assert (mark.bound, mark.older, mark.younger) == (5, Fold(77, LISTED_MAX + 1, LISTED_MAX + 1), frozenset())
    assert spark.refusal(PLAIN, Mark("i")) is Reason.TOO_MANY_FILES


def test_files_that_cannot_be_listed() -> None:
    spark = ObservedTables()
    spark.say("binaryFile", ("file:/elsewhere", None, 1, 1, 1, 1))
    assert spark.refusal(PLAIN, Mark("i")) is Reason.PROVIDER
    assert spark.refusal(PLAIN, Mark("i"), look(PLAIN, location="file:/w/${x}")) is Reason.PROVIDER


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ({"identity": "other"}, Reason.BASE_REPLACED),
        ({"provider": "hive"}, Reason.HIVE_TEXT),
        ({"provider": "jdbc"}, Reason.PROVIDER),
        ({"columns": (("_METADATA", STRING),)}, Reason.PROVIDER),
    ],
)
def test_other_tables(described: dict[str, Any], reason: Reason) -> None:
    assert ObservedTables().refusal(PLAIN, Mark("i"), look(PLAIN, **described)) is reason


def test_a_table_that_cannot_be_observed() -> None:
    with pytest.raises(NotIncremental, match="PROVIDER: Spark is away"):
        ObservedTables().since(PLAIN, Mark("i"), replace(look(PLAIN), observed=Unobserved("Spark is away")))


def test_names_that_are_no_tables() -> None:
    for table in (named("parquet./data/*"), replace(ICEBERG, aspect="VERSION AS OF 1")):
        assert ObservedTables().refusal(table, Mark("i"), look(table, provider="parquet")) is Reason.PROVIDER


def test_a_location_with_other_partitions() -> None:
    """The same files at a location that is one more partition, another one, or another's."""
    rows = [
        ("file:/w/t/a", None, 5, 2, 20, 1),
        ("file:/w/t/b", None, 6, 2, 20, 1),
        ("file:/w/t/stray", "s", 1, 1, 1, 9),
    ]
    folds = list[Fold]()
    all_places: tuple[dict[PartitionValues, str], ...] = (
        {("1",): "file:/w/t/a", ("2",): "file:/w/t/b"},
        {("1",): "file:/w/t/a", ("2",): "file:/w/t/b", ("3",): "file:/w/t/b"},
        {("1",): "file:/w/t/a", ("3",): "file:/w/t/b"},
        {("2",): "file:/w/t/a", ("1",): "file:/w/t/b"},
    )
    for places in all_places:
        found = young_files(3, rows, partition_hashes(places), ["file:/w/t"])
        assert not found.young
        assert (found.older.xor, found.older.count) == (5 ^ 6, 4)
        folds.append(found.older)
    assert len(set(folds)) == 4


# --- Hive's tables -------------------------------------------------------------------------------------

HIVE = {"provider": "hive", "converted": "orc"}
OF_DAY: dict[str, Any] = {**HIVE, "partition_columns": ("day",), "partitions_listed": True}


def young(path: str, directory: str = "file:/w/t") -> tuple[Any, ...]:
    return (directory, path, len(path), 1, 10, 5)


class HiveDirectory(ObservedTables):
    """A table `s.t` and the types of its new files."""

    def __init__(
        self,
        *files: tuple[Any, ...],
        types: Sequence[tuple[str, str]] = (("id", "int"),),
        declared: Sequence[tuple[str, str]] = (("id", "int"),),
        stored: Sequence[str] = ("ID",),
    ) -> None:
        super().__init__()
        self.say("binaryFile", *files)
        self.say("DESCRIBE QUERY.* FROM orc", *types)
        self.say(r"DESCRIBE QUERY SELECT \* FROM orc", *((name, "int") for name in stored))
        self.say("DESCRIBE TABLE", *declared, ("# Partition Information", "", ""))


def test_new_files_of_a_hive_table_are_read_by_their_paths() -> None:
    spark = HiveDirectory(young("file:/w/t/000000_0"))
    change = spark.since(PLAIN, Mark("i"), look(PLAIN, columns=(("id", INT),), **HIVE))
    assert change.added == (
        "SELECT `id` FROM orc.`file:/w/t` WITH ('pathGlobFilter' = '{000000_0}', 'recursiveFileLookup' = 'true', "
        "'mergeSchema' = 'true') WHERE _metadata.file_path IN ('file:/w/t/000000_0')"
    )
    assert (change.before, change.bytes) == ("", 10)


def test_nothing_new_in_a_hive_table() -> None:
    assert HiveDirectory().since(PLAIN, Mark("i"), look(PLAIN, **HIVE)).added is None


@pytest.mark.parametrize(
    ("files", "kind", "described"),
    [
        (young("file:/w/t/a,b"), "int", {}),
        (young("file:/w/t/sub/a", "file:/w/t/sub"), "int", {}),
        (young("file:/w/t/a"), "bigint", {}),
        (young("file:/w/t/a"), "int", {"columns": (("id", STAMP),), "partition_columns": ("id",)}),
    ],
)
def test_files_of_a_hive_table_that_are_not_simply_read(
    files: tuple[Any, ...], kind: str, described: dict[str, Any]
) -> None:
    there = look(PLAIN, **{"columns": (("id", INT),), **HIVE, **described})
    assert HiveDirectory(files, types=[("id", kind)]).refusal(PLAIN, Mark("i"), there) is Reason.PROVIDER


def test_types_of_a_hive_table_that_its_files_do_not_have() -> None:
    """Spark pads CHAR, but not in a query of the files."""
    there = look(PLAIN, columns=(("id", '{"name": "string"}'),), **HIVE)
    for kind, stored in (("char(3)", "string"), ("struct<a:int,... 3 more fields>", "struct<a:int,... 3 more fields>")):
        spark = HiveDirectory(young("file:/w/t/a"), types=[("id", stored)], declared=[("id", kind)])
        assert spark.refusal(PLAIN, Mark("i"), there) is Reason.PROVIDER
    spark = HiveDirectory(young("file:/w/t/a"), types=[("id", "string")], declared=[("id", "varchar(3)")])
    assert spark.since(PLAIN, Mark("i"), there).added


def test_files_of_a_hive_table_that_lack_a_column() -> None:
    spark = HiveDirectory(young("file:/w/t/a"))
    spark.answers.say("DESCRIBE QUERY", StatementFailed("There is no column `id`.", "42703"))
    assert spark.refusal(PLAIN, Mark("i"), look(PLAIN, columns=(("id", INT),), **HIVE)) is Reason.PROVIDER


@pytest.mark.parametrize("stored", [("_col0", "id"), ("id", "more")])
def test_orc_files_whose_columns_have_other_places(stored: Sequence[str]) -> None:
    """Spark reads an ORC file with names such as `_col0` by the places of the columns."""
    spark = HiveDirectory(young("file:/w/t/a"), stored=stored)
    assert spark.refusal(PLAIN, Mark("i"), look(PLAIN, columns=(("id", INT),), **HIVE)) is Reason.PROVIDER


def test_files_of_partitions_have_the_values_of_their_partition() -> None:
    files = [YoungFile(f"file:/w/t/day={day}/a", 1, 5, 1, 7, f"file:/w/t/day={day}") for day in ("1", "x%3A{2}")]
    places: dict[PartitionValues, str] = {("1",): files[0].directory, (None,): files[1].directory, ("3",): "file:/w/3"}
    relation = look(PLAIN, **OF_DAY).relation
    assert relation is not None
    spark = ObservedTables()
    for asked in ("DESCRIBE QUERY", "DESCRIBE TABLE"):
        spark.say(asked, ("id", "int"), ("day", "string"))
    spark.say(r"DESCRIBE QUERY SELECT \* FROM orc", ("id", "int"))
    assert asyncio.run(hive.added(cast(Any, spark), relation, files, places)) == (
        "SELECT `id`, `day` FROM (SELECT _metadata.file_path AS freshgate_file, `id` FROM "
        r"orc.`file:/w/t/{day=1,day=x%3A\{2\}}` WITH ('pathGlobFilter' = '{a}', 'recursiveFileLookup' = 'true', "
        "'mergeSchema' = 'true')) JOIN (VALUES ('file:/w/t/day=1/a', CAST('1' AS string)), "
        "('file:/w/t/day=x%3A{2}/a', CAST(NULL AS string))) AS freshgate_files(freshgate_file, `day`) "
        "USING (freshgate_file)"
    )
    odd: list[dict[PartitionValues, str]] = [{("1",): files[0].directory}, {**places, ("4",): files[0].directory}]
    for listed in odd:
        with pytest.raises(NotIncremental, match="not in the directory of one partition"):
            asyncio.run(hive.added(cast(Any, spark), relation, files, listed))


def test_a_mark_of_a_hive_table_holds_only_if_nothing_has_appeared() -> None:
    """Its rows cannot be read without those of later files."""
    spark = Directory(0)
    spark.files = frozenset({File("a", 3, 0)})
    there = look(PLAIN, **HIVE)
    mark = asyncio.run(spark.changes.mark(PLAIN, there))
    assert asyncio.run(spark.changes.holding(PLAIN, there, mark))
    assert spark.changes.rows(PLAIN, there, mark) == "SELECT `id`, `day` FROM `spark_catalog`.`s`.`t`"
    spark.files |= {File("b", SETTLED_MS + 6, 0)}
    assert asyncio.run(spark.changes.holding(PLAIN, look(PLAIN), mark))
    assert not asyncio.run(spark.changes.holding(PLAIN, there, mark))


# --- Delta -----------------------------------------------------------------------------------------------

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
PART = f"part-0-{UUID}.c000.snappy.parquet"
OLD = PART.replace("part-0", "part-1")


def commits(number: int = 2, *, described: bool = False) -> tuple[Any, ...]:
    return (True, number, described, *[None] * 12)


def file(
    path: str | None = PART, added: int | None = 4, removed: int | None = None, gone: int | None = None, **more: Any
) -> tuple[Any, ...]:
    values = json.dumps(more["values"]) if "values" in more else "{}"
    vector, balanced = more.get("vector", False), more.get("balanced", False)
    first = more.get("first_added", added), more.get("first_removed", removed), more.get("first_there", added)
    return (False, 1, False, path, added, removed, gone, more.get("feeds"), 10, vector, values, balanced, *first)


class Delta(ObservedTables):
    """A table that had version 3 at the mark, and had version 5 at the look."""

    def __init__(self, *rows: tuple[Any, ...], **properties: str) -> None:
        super().__init__()
        self.say("DESCRIBE (TABLE|QUERY)", ("id", "int"), ("day", "string"))
        self.say("_delta_log", *rows)
        for key in ("delta.enableChangeDataFeed", "delta.columnMapping.mode"):
            given = properties.get(key.rpartition(".")[2], "Table d does not have property")
            self.say(f"SHOW TBLPROPERTIES .*{key}", (key, given))

    def change(self, **parts: Any) -> Change:
        return self.since(DELTA, Mark("i", "3"), look(DELTA, **parts))

    def reason(self, **parts: Any) -> Reason:
        return self.refusal(DELTA, Mark("i", "3"), look(DELTA, **parts))


FEED = {"enableChangeDataFeed": "true"}


def test_appends_to_delta() -> None:
    change = Delta(commits(), file()).change()
    assert change.mark == Mark("i", "5")
    assert change.added == delta_texts.files("file:/w/d", ["id", "day"], [PART])
    assert (change.removed, change.bytes) == (None, 10)
    assert change.before.endswith("VERSION AS OF 3")


@pytest.mark.parametrize(
    "stored",
    [
        [("id", "smallint"), ("day", "string")],
        StatementFailed("There is no column `day`.", "42703"),
        StatementFailed("The types of `id` cannot be merged.", "58030"),
    ],
)
def test_files_of_delta_with_other_columns_are_read_through_the_table(stored: Any) -> None:
    """As Delta writes those of a DataFrame that lacks a column."""
    spark = Delta(commits(), file())
    spark.answers.say("DESCRIBE QUERY", stored if isinstance(stored, StatementFailed) else Answer(stored))
    assert (spark.change().added or "").endswith(f"VERSION AS OF 5 WHERE _metadata.file_name IN ('{PART}')")


def test_files_of_delta_that_cannot_be_looked_at() -> None:
    spark = Delta(commits(), file())
    spark.answers.say("DESCRIBE QUERY", StatementFailed("It is lost.", "08S01"))
    with pytest.raises(StatementFailed, match="lost"):
        spark.change()


def test_commits_without_rows() -> None:
    change = Delta(commits(), file("old", None, None, 5)).change()
    assert (change.added, change.removed) == (None, None)


def test_files_that_moved_are_read_where_they_were() -> None:
    """A file that OPTIMIZE has replaced since is not in the last version: if it is gone, a query by its path fails."""
    rows = [commits(), file(), file(OLD, 4, None, 5)]
    change = Delta(*rows).change()
    assert change.added is not None
    assert change.added.split(" UNION ALL ") == [
        delta_texts.files("file:/w/d", ["id", "day"], [PART]),
        delta_texts.single_files("file:/w/d", ["id", "day"], [OLD]),
    ]
    many = [file(f"part-{number}-{UUID}", 4, None, 5) for number in range(60)]
    assert "VERSION AS OF 4 WHERE _metadata.file_name IN ('" in (Delta(*rows, *many).change().added or "")


def test_a_file_that_was_added_again() -> None:
    found = log_of([commits(), file(PART, 5, None, 4)])
    assert found.changed[0].gone is None


def test_partitioned_and_mapped_delta() -> None:
    path = f"day=x%2520y/{PART}"
    change = Delta(commits(), file(path, values={"day": "x%20y"})).change(partition_columns=("day",))
    assert change.added is not None
    assert change.added.endswith(f"VERSION AS OF 5 WHERE _metadata.file_name IN ('{PART}') AND "
                                 "(CAST(`day` AS STRING) IN ('x%20y'))")  # fmt: skip
    mapped = Delta(commits(), file(), mode="name").change()
    assert mapped.added is not None
    assert mapped.added.endswith(f"VERSION AS OF 5 WHERE _metadata.file_name IN ('{PART}')")


def test_filters_on_partitions() -> None:
    values: list[dict[str, str | None] | None] = [{"day": "b", "at": "1", "n": ""}, {"day": "a", "at": "2", "n": None}]
    kinds = {"day": STRING, "at": STAMP, "n": INT}
    expected = ["(CAST(`day` AS STRING) IN ('a', 'b'))", "(`n` IS NULL)"]
    assert delta_texts.partition_filters(kinds, values) == expected
    assert delta_texts.partition_filters(kinds, [*values, None]) == []


def test_updates_and_deletes_in_the_feed() -> None:
    for row in (file(OLD, None, 5, 5), file(vector=True), file(None, None, 5, 5)):
        change = Delta(commits(), row, **FEED).change()
        assert change.added is not None
        assert change.removed is not None
        assert "table_changes('`spark_catalog`.`s`.`d`', 4, 5)" in change.removed
        kinds = "('delete', 'update_preimage')"
        assert change.signed == (
            f"SELECT `id`, `day`, _change_type IN {kinds} AS `freshgate_removed` "
            "FROM table_changes('`spark_catalog`.`s`.`d`', 4, 5)"
        )


def test_files_that_were_written_anew() -> None:
    change = Delta(commits(), file(), file(OLD, None, 5, 5)).change()
    assert change.added == delta_texts.files("file:/w/d", ["id", "day"], [PART])
    assert change.removed == delta_texts.single_files("file:/w/d", ["id", "day"], [OLD])
    assert change.bytes == 20
    # Came and left again.
    assert Delta(commits(), file(added=4, removed=5, gone=5)).change().removed is None
    # A compaction made it, whose rows were removed.
    moved = Delta(commits(), file(OLD, None, 5, 5, first_there=4), file()).change(partition_columns=("day",))
    assert f"VERSION AS OF 4 WHERE _metadata.file_name IN ('{OLD}')" in (moved.removed or "")


@pytest.mark.parametrize(
    ("row", "added", "removed"),
    [
        # Rows of an old file were deleted.
        (file(OLD, 4, 4, 4, vector=True), 5, 3),
        # Twice.
        (file(OLD, 5, 5, 5, vector=True, first_added=4, first_removed=4, first_there=4), 5, 3),
        # And then the rest.
        (file(OLD, 4, 5, 5, vector=True, first_removed=4, first_there=4), None, 3),
        # And then the rest was moved.
        (file(OLD, 4, 4, 5, vector=True), 4, 3),
        # Rows of a new file were deleted.
        (file(OLD, 5, 5, 5, vector=True, first_added=4, first_there=4), 5, None),
        # A file that came with another file's rows.
        (file(OLD, 5, 5, 5, vector=True, first_there=4), 5, 4),
    ],
)
def test_deletion_vectors(row: tuple[Any, ...], added: int | None, removed: int | None) -> None:
    """The rows after them, and those before."""
    change = Delta(commits(), row).change()
    for found, version in ((change.added, added), (change.removed, removed)):
        expected = None if version is None else f"VERSION AS OF {version} WHERE _metadata.file_name IN ('{OLD}')"
        assert (found or "").endswith(expected or "")
        assert (found is None) == (version is None)


def test_earlier_versions_that_cannot_be_read() -> None:
    spark = Delta(commits(), file(OLD, 4, 4, 4, vector=True))
    spark.fail("VERSION AS OF 3 WHERE false")
    assert spark.reason() is Reason.HISTORY_GONE


def test_changed_rows_in_very_many_versions() -> None:
    names = (f"part-{number}-{UUID}.parquet" for number in range(40))
    rows = [file(name, None, number + 5, number + 5, first_there=number + 4) for number, name in enumerate(names)]
    assert Delta(commits(), *rows).reason(partition_columns=("day",)) is Reason.TOO_MANY_FILES


WRITE, OPTIMIZE = ("WRITE", None), ("OPTIMIZE", None)


def restored(*log: tuple[str, str | None], **properties: str) -> Delta:
    """A table with this log, up to version 5: the operations, and the version that a RESTORE goes back to."""
    spark = Delta(commits(described=True), file(), **properties)

    def described(text: str) -> Answer:
        listed = re.search(r"\{([\d,]+)\}", text)
        assert listed is not None
        found = [log[int(version) - 6] for version in listed[1].split(",") if int(version) > 5 - len(log)]
        return Answer([(operation not in {"WRITE", "OPTIMIZE"}, operation, to) for operation, to in found])

    spark.answers.say("operationParameters", described)
    return spark


@pytest.mark.parametrize("properties", [{}, FEED])
@pytest.mark.parametrize(
    "log",
    [
        [WRITE, ("RESTORE", "3")],
        [WRITE, ("RESTORE", "4")],
        [("RESTORE", "3"), ("RESTORE", "4")],
        [("SET TBLPROPERTIES", None), WRITE, WRITE, ("RESTORE", "2")],
        [OPTIMIZE, ("RESTORE", "1"), WRITE, ("RESTORE", "2")],
        [WRITE, WRITE, WRITE, WRITE, ("RESTORE", None)],
    ],
)
def test_a_restore_is_like_other_commits(log: list[tuple[str, str | None]], properties: dict[str, str]) -> None:
    """Its commit has the columns of the version that it goes back to, which nothing has changed since then."""
    assert restored(*log, **properties).change().added


@pytest.mark.parametrize(
    "log",
    [
        [("ADD COLUMNS", None), ("RESTORE", "3")],
        [("SET TBLPROPERTIES", None), ("RESTORE", "3")],
        [WRITE, ("CREATE OR REPLACE TABLE", None)],
        [WRITE, ("RESTORE", "2")],
        [("CHANGE COLUMN", None), WRITE, ("RESTORE", "2")],
        [("CHANGE COLUMN", None), ("RESTORE", "1"), WRITE, ("RESTORE", "2")],
        [("SET TBLPROPERTIES", None), WRITE, WRITE, WRITE, ("RESTORE", None)],
    ],
)
def test_a_restore_of_perhaps_other_columns(log: list[tuple[str, str | None]]) -> None:
    """Something has set them since the version that it goes back to, or the log is gone."""
    assert restored(*log, **FEED).reason() is Reason.BASE_REPLACED


def test_rows_that_came_and_left_again() -> None:
    passing = file("passing", 4, 5, 5, balanced=True)
    assert Delta(commits(), passing).change().added is None
    assert Delta(commits(), passing, **FEED).change().added is None
    assert "passing" not in (Delta(commits(), passing, file()).change().added or "passing")
    fed = Delta(commits(), passing, file(), **FEED).change()
    assert fed.removed is not None, "the feed has them among the added rows, too"
    other = Delta(commits(), file(OLD, 5, 4, 4, balanced=True, vector=True)).change()
    assert other.added is not None
    assert other.removed is not None


def test_the_feed_of_appends() -> None:
    change = Delta(commits(), file(), **FEED).change()
    assert (change.added or "").count("table_changes") == 1
    assert change.removed is None


def test_delta_histories_that_say_no_more() -> None:
    assert Delta(commits(1), file()).reason() is Reason.HISTORY_GONE
    assert Delta(commits(), file("x,y.parquet")).reason() is Reason.PROVIDER
    unread = Delta()
    unread.fail("_delta_log")
    assert unread.reason() is Reason.HISTORY_GONE
    assert unread.refusal(DELTA, Mark("i", "9")) is Reason.BASE_REPLACED
    assert unread.refusal(DELTA, Mark("i", "-2000")) is Reason.TOO_MANY_FILES


def test_files_that_vacuum_deleted() -> None:
    gone = Delta(commits(), file(PART, 4, None, 5), file("old", None, None, 5))
    gone.fail(f"binaryFile.*{PART}")
    assert gone.reason() is Reason.HISTORY_GONE
    old = Delta(commits(), file(), file("old", None, None, 5))
    old.fail("binaryFile.*old")
    assert old.change().before == ""
    assert old.change().added


def test_a_log_of_very_many_files() -> None:
    rows = [file(f"p{number}", 4) for number in range(LISTED_MAX)]
    assert Delta(commits(), *rows).reason() is Reason.TOO_MANY_FILES
    moved = [file(f"p{number}", None, None, 5) for number in range(LISTED_MAX)]
    assert Delta(commits(), file(), *moved).change().added


# --- Iceberg ---------------------------------------------------------------------------------------------


def iceberg(current: str, *history: tuple[Any, ...], schemas: tuple[Any, Any] = (1, 1)) -> ObservedTables:
    """`schemas`: the ids of the table's schema and the current snapshot's."""
    spark = ObservedTables()
    spark.say("metadata_log_entries", ("file:/w/i/v0.json",), ("file:/w/i/v1.json",))
    spark.say("FROM text.*v1.json", schemas)
    spark.say("current-snapshot-id", ("current-snapshot-id", current))
    spark.say(r"\.snapshots", *((*each, 0)[:4] for each in history))
    return spark


ROWS = ["id", "day"]


def test_appends_to_iceberg() -> None:
    history = [(1, None, "append"), (2, 1, "append"), (3, 2, "replace")]
    change = iceberg("3", *history).since(ICEBERG, Mark("i", "1"))
    assert change.added == iceberg_texts.appended(ICEBERG, ROWS, "1", "3")
    assert change.before.endswith("VERSION AS OF 1")
    assert iceberg("3", *history).since(ICEBERG, Mark("i", "2")).added is None
    assert iceberg("3", *history).since(ICEBERG, Mark("i", "3")).added is None
    all_rows = iceberg("3", *history).since(ICEBERG, Mark("i", "none")).added
    assert (all_rows or "").endswith("VERSION AS OF 3")


@pytest.mark.parametrize(
    ("current", "history"),
    [("2", [(2, 1, "append")]), ("3", [(3, 2, "append")]), ("2", [(1, None, "append")]), ("none", [])],
)
def test_iceberg_histories_that_say_no_more(current: str, history: list[tuple[Any, ...]]) -> None:
    reason = iceberg(current, *history).refusal(ICEBERG, Mark("i", "1"))
    assert reason is (Reason.ROWS_REMOVED if current == "none" else Reason.HISTORY_GONE)


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_iceberg_files_that_were_written_anew(operation: str) -> None:
    """The changelog leaves out compactions, and refuses delete files, also those that are gone again."""
    history = [(1, None, "append"), (2, 1, operation), (3, 2, "replace"), (4, 3, operation)]
    change = iceberg("4", *history).since(ICEBERG, Mark("i", "1"))
    assert change.added == iceberg_texts.changelog(ICEBERG, ROWS, "1", "4", "INSERT")
    assert change.removed == iceberg_texts.changelog(ICEBERG, ROWS, "1", "4", "DELETE")
    assert change.signed == iceberg_texts.whole_changelog(ICEBERG, ROWS, "1", "4")
    for place in range(4):
        some = [(*each, int(number == place)) for number, each in enumerate(history)]
        spark = iceberg("4", *some)
        spark.say(r"HAVING count\(DISTINCT side\)", (True, 0, "f", 7))
        found = spark.since(ICEBERG, Mark("i", "1"))
        assert "changes" not in (found.added or "changes")
        assert (found.removed, found.bytes) == (None, 14)
        assert (found.added or "").count("VERSION AS OF 2 ") == (found.added or "").count("VERSION AS OF 4 ") == 1


def by_files(*files: tuple[Any, ...], current: str = "2") -> ObservedTables:
    spark = iceberg(current, (1, None, "append"), (2, 1, "delete", 1), (3, 1, "append"))
    spark.say(r"HAVING count\(DISTINCT side\)", *files)
    return spark


def test_iceberg_positions_that_were_deleted() -> None:
    change = by_files((True, 1, "d", 5)).since(ICEBERG, Mark("i", "1"))
    assert change.added is None
    assert change.removed == iceberg_texts.rows_deleted_elsewhere(ICEBERG, ROWS, "1", "2", [])
    both = by_files((True, 1, "d", 5), (True, 0, "new", 5), (False, 0, "old", 5), (False, 1, "e", 5))
    change = both.since(ICEBERG, Mark("i", "1"))
    for text, snapshot, other, own in ((change.added, "2", "1", "new"), (change.removed, "1", "2", "old")):
        parts = (
            iceberg_texts.rows_of_files(ICEBERG, ROWS, snapshot, [own]),
            iceberg_texts.rows_deleted_elsewhere(ICEBERG, ROWS, snapshot, other, [own]),
        )
        assert text == " UNION ALL ".join(parts)


def test_iceberg_tables_that_were_rolled_back() -> None:
    """No snapshot leads to the other one."""
    change = by_files((False, 0, "old", 5), current="3").since(ICEBERG, Mark("i", "2"))
    assert change.removed == iceberg_texts.rows_of_files(ICEBERG, ROWS, "2", ["old"])


def test_iceberg_files_that_say_no_more() -> None:
    assert by_files((True, 2, "d", 5)).refusal(ICEBERG, Mark("i", "1")) is Reason.ROWS_REMOVED
    many = ((True, 0, f"f{number}", 1) for number in range(FILES_MAX + 1))
    assert by_files(*many).refusal(ICEBERG, Mark("i", "1")) is Reason.TOO_MANY_FILES
    hidden = look(ICEBERG, columns=(("id", INT), ("_pos", INT)))
    assert by_files((True, 0, "f", 5)).refusal(ICEBERG, Mark("i", "1"), hidden) is Reason.PROVIDER


@pytest.mark.parametrize("schemas", [(2, 1), (None, None)])
def test_iceberg_snapshots_of_other_columns(schemas: tuple[Any, Any]) -> None:
    """A query of a snapshot has the columns of that time, and a column that was added again under its name is another.
    If the metadata is not readable, names and types are compared."""
    history = [(1, None, "append"), (2, 1, "append")]
    for mark in ("1", "none"):
        spark = iceberg("2", *history, schemas=schemas)
        spark.say("DESCRIBE TABLE", ("id", "int"), ("day", "string"))
        spark.say("DESCRIBE QUERY", ("id", "int"))
        assert spark.refusal(ICEBERG, Mark("i", mark)) is Reason.BASE_REPLACED
        with pytest.raises(NotIncremental, match="have changed since its last write"):
            spark.mark(ICEBERG)
        spark.say("DESCRIBE QUERY", ("id", "int"), ("day", "string"))
        assert schemas[0] is not None or spark.mark(ICEBERG) == Mark("i", "2")


def test_old_iceberg_snapshots_without_a_schema() -> None:
    assert iceberg("2", (1, None, "append"), schemas=(3, None)).mark(ICEBERG) == Mark("i", "2")
    assert iceberg("none", schemas=(3, 2)).mark(ICEBERG) == Mark("i", "none")


def test_positions_hold() -> None:
    spark = iceberg("3")
    for mark in ("2", "3"):
        assert asyncio.run(spark.changes.holding(ICEBERG, look(ICEBERG), Mark("i", mark)))
