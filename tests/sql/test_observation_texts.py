"""Tests the statements that observe base tables, and the parsing of Spark's answers."""

from __future__ import annotations

import pytest

from sql.names import SESSION_CATALOG, TableName
from sql.texts import delta_texts, iceberg_texts
from sql.texts.observation import (
    explained_paths,
    is_within,
    list_files,
    listing_tasks,
    partition_values,
    plain_path,
)

COLUMNS = ("day", "n")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("day=a/n=1", ("a", "1")),
        ("Day=x%2Fy %25%3Dé/N=", ("x/y %=é", "")),
        ("day=__HIVE_DEFAULT_PARTITION__/n=a=b", (None, "a=b")),
        ("day=a", None),
        ("day=a/n=1/more=2", None),
        ("n=1/day=a", None),
        ("day/n=1", None),
        ("", None),
    ],
)
def test_partition_values_are_parsed(text: str, values: tuple[str | None, ...] | None) -> None:
    assert partition_values(text, COLUMNS) == values


@pytest.mark.parametrize(
    ("directories", "tasks"),
    [(0, 16), (33, 16), (271, 16), (272, 32), (512, 32), (528, 64), (1_000_000, 64)],
)
def test_listing_tasks_are_a_bounded_power_of_two(directories: int, tasks: int) -> None:
    assert listing_tasks(directories) == tasks


def plan(paths: str) -> str:
    return f"FileScan parquet t[day#1] Location: InMemoryFileIndex{paths}, PartitionFilters: [x], PushedFilters: []"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (plan("(1 paths)[file:/t/day=a]"), ["file:/t/day=a"]),
        (plan("(2 paths)[hdfs://n:1/t/day=a, b, s3a://x/[c], d]"), ["hdfs://n:1/t/day=a, b", "s3a://x/[c], d"]),
        # Truncated, a path that looks like two, and no listing of paths.
        (plan("(3 paths)[file:/t/day=a, file:/t/da..."), None),
        (plan("(1 paths)[file:/t/day=a, file:/b]"), None),
        ("Scan hive t HiveTableRelation [`t`, Partition Cols: [day#1], Pruned Partitions: [(day=a)]]", None),
    ],
)
def test_paths_are_found_in_the_plan(text: str, paths: list[str] | None) -> None:
    assert explained_paths(text) == paths


def test_paths_are_normalized_and_escaped() -> None:
    assert plain_path("file:///a/b/") == plain_path("file:/a/b") == "file:/a/b"
    assert plain_path("hdfs://name:8020/a") == "hdfs://name:8020/a"
    assert is_within("file:/a/b", "file:/a")
    assert is_within("file:/a", "file:/a")
    assert not is_within("file:/ab", "file:/a")
    # Glob characters are escaped and quotes doubled. Spark would substitute a variable before it reads the path.
    assert r"binaryFile.`file:/a \[b\]\{c\}\*\?\\``d'`" in list_files([r"file:/a [b]{c}*?\`d'"])
    with pytest.raises(ValueError, match="variable"):
        list_files(["file:/a/${b}"])


@pytest.mark.parametrize(
    ("pairs", "values"),
    [
        ('[["day","a"],["n","1"]]', ("a", "1")),
        ('[["N","1"],["Day",null]]', (None, "1")),
        ('[["day",""],["n","1"]]', (None, "1")),
        # For removed files, Delta leaves out NULLs.
        ('[["n","1"]]', (None, "1")),
        ("[]", (None, None)),
        (None, None),
        ('[["col-1","a"],["col-2","1"]]', None),
        ('[["col-1","a"]]', None),
    ],
)
def test_partition_values_of_a_delta_commit_are_parsed(
    pairs: str | None, values: tuple[str | None, ...] | None
) -> None:
    assert delta_texts.values_of(pairs, COLUMNS) == values


def test_a_single_partition_value_of_delta_needs_no_name() -> None:
    assert delta_texts.values_of('[["col-1","a"]]', ("day",)) == ("a",)
    assert delta_texts.values_of("[]", ("day",)) == (None,)


def test_only_the_given_delta_commits_are_read() -> None:
    sql = delta_texts.commits("file:///t [1]/", 9, 11)
    names = ",".join(f"{number:020}" for number in (9, 10, 11))
    assert rf"text.`file:/t \[1\]/_delta_log` WITH ('pathGlobFilter' = '{{{names}}}.json')" in sql


def test_iceberg_metadata_tables_are_qualified_by_the_catalog() -> None:
    assert "`lake`.`db`.`t`.files VERSION AS OF 5" in iceberg_texts.files(TableName("db", "t", "lake"), "5", 1)
    assert f"`{SESSION_CATALOG}`.`db`.`t`.snapshots" in iceberg_texts.history(TableName("db", "t"))


@pytest.mark.parametrize(
    ("history", "shown"),
    [
        ([("1", None, "append"), ("2", "1", "append")], "2"),
        ([("1", None, "append"), ("2", "1", "replace"), ("3", "2", "replace")], "1"),
        # The parent has expired, or there is none.
        ([("3", "2", "replace")], "2"),
        ([("3", None, "replace")], "3"),
        ([("3", "3", "replace")], "3"),
        ([], "3"),
    ],
)
def test_iceberg_compactions_are_skipped(history: list[tuple[str, str | None, str]], shown: str) -> None:
    assert iceberg_texts.unreplaced(history, "3" if not history else history[-1][0]) == shown
