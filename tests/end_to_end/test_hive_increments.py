"""Refreshes by rows over tables of Hive's formats: Spark reads them with readers of its own, so their new files can be
read by name; the view equals its definition after every write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Database, make_database
from end_to_end.test_incremental import assert_equal, route
from processes import Gateway
from tiers import sampled

SALES = (
    "CREATE TABLE sales (id INT, item VARCHAR(9), price DECIMAL(10,2), parts ARRAY<STRUCT<nr: INT>>) STORED AS {format}"
)
DAYS = "CREATE TABLE days (id INT, item STRING) PARTITIONED BY (day STRING, nr INT) STORED AS {format}"
FILL = (
    "INSERT INTO sales SELECT CAST(id AS INT), concat('i', id % 7), CAST(id AS DECIMAL(10,2)) / 3, "
    "array(named_struct('nr', CAST(id AS INT))) FROM range({first}, {last})"
)
OF_SALES = {
    "filtered": "SELECT id, upper(item) AS item, parts FROM sales WHERE id % 3 > 0",
    "counted": "SELECT item, count(*) AS n, sum(price) AS p FROM sales GROUP BY item",
}
OF_DAYS = {
    "all_days": ("", "SELECT * FROM days"),
    "per_day": ("", "SELECT day, nr, count(*) AS n, max(id) AS top FROM days GROUP BY day, nr"),
    "within": ("PARTITION BY (day)", "SELECT day, nr, count(*) AS n FROM days GROUP BY day, nr"),
}
ODD_DAYS = "(1, 'a', '01', 1), (2, 'b', 'x:y {z}, [q]*?', 2), (3, 'c', NULL, 3), (4, 'd', 'ä%', NULL)"


@pytest.fixture
def hive(gateway: Gateway) -> Iterator[Database]:
    yield from make_database(gateway, "hive")


@pytest.mark.parametrize("kind", sampled(["PARQUET", "ORC"], {"PARQUET"}))
def test_new_files_of_a_table(hive: Database, kind: str) -> None:
    hive.run(SALES.format(format=kind), FILL.format(first=0, last=50))
    for view, definition in OF_SALES.items():
        hive.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL AS {definition}")
    hive.run(FILL.format(first=50, last=60))
    for view, definition in OF_SALES.items():
        assert_equal(hive, view, definition)
        assert route(hive, view)[0] == "INCREMENTAL", route(hive, view)


def test_new_files_in_partitions_with_odd_names(hive: Database) -> None:
    hive.run("SET hive.exec.dynamic.partition.mode=nonstrict", DAYS.format(format="ORC"))
    hive.run("INSERT INTO days VALUES (0, 'z', 'first', 0), (9, 'y', '01', 1)")
    for view, (by, definition) in OF_DAYS.items():
        hive.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL {by} AS {definition}")
    hive.run(f"INSERT INTO days VALUES {ODD_DAYS}", "INSERT INTO days VALUES (5, 'e', 'x:y {z}, [q]*?', 2)")
    for view, (_, definition) in OF_DAYS.items():
        assert_equal(hive, view, definition)
        assert route(hive, view)[0] == "INCREMENTAL", route(hive, view)


def test_a_partition_elsewhere(hive: Database, tmp_path: Path) -> None:
    hive.run("SET hive.exec.dynamic.partition.mode=nonstrict", DAYS.format(format="PARQUET"))
    hive.run("INSERT INTO days VALUES (0, 'z', 'first', 0)")
    view, definition = "per_day", OF_DAYS["per_day"][1]
    hive.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    hive.run(
        f"ALTER TABLE days ADD PARTITION (day = 'far', nr = 1) LOCATION '{tmp_path}'",
        "INSERT INTO days PARTITION (day = 'far', nr = 1) VALUES (7, 'q')",
    )
    assert_equal(hive, view, definition)
    assert route(hive, view)[0] == "COMPLETE"
    assert "outside its location" in route(hive, view)[1]
    hive.run("INSERT INTO days VALUES (1, 'a', 'first', 0)")
    assert_equal(hive, view, definition)
    assert route(hive, view)[0] == "INCREMENTAL"


def test_tables_that_hive_reads(hive: Database) -> None:
    hive.run(SALES.format(format="TEXTFILE"), FILL.format(first=0, last=50))
    hive.run(f"CREATE MATERIALIZED VIEW counted REFRESH INCREMENTAL FALLBACK AS {OF_SALES['counted']}")
    hive.run(FILL.format(first=50, last=60))
    assert_equal(hive, "counted", OF_SALES["counted"])
    assert route(hive, "counted")[0] == "COMPLETE"
    assert "HIVE_TEXT" in route(hive, "counted")[1]


@pytest.mark.parametrize("made", sampled(["STORED AS PARQUET", "STORED AS ORC", "USING parquet"], {"STORED AS ORC"}))
def test_texts_of_a_fixed_length(hive: Database, made: str) -> None:
    """Spark compares a column of the type CHAR with padded texts, but not what was computed of it or read past it."""
    hive.run(f"CREATE TABLE flags (flag CHAR(5), id INT) {made}", "INSERT INTO flags VALUES ('x', 1)")
    definitions = {
        "flagged": "SELECT flag, id FROM flags WHERE flag = 'x'",
        "grouped": "SELECT flag, count(*) AS n FROM flags GROUP BY flag",
        "having": "SELECT flag, count(*) AS n FROM flags GROUP BY flag HAVING flag = 'x'",
        "compared": "SELECT CASE WHEN flag = 'x' THEN 1 ELSE 0 END AS one, max(id) AS top FROM flags GROUP BY flag",
    }
    for view, definition in definitions.items():
        hive.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    hive.run("INSERT INTO flags VALUES ('x', 2), ('y', 3)")
    for view, definition in definitions.items():
        assert_equal(hive, view, definition)


def test_files_of_another_writer(hive: Database, tmp_path: Path) -> None:
    """Hive wrote ORC files without names, which Spark reads by the places of the columns."""
    at, files = f"STORED AS ORC LOCATION '{tmp_path / 't'}'", f"USING orc LOCATION '{tmp_path / 't'}'"
    hive.run(
        f"CREATE TABLE places (id INT, item STRING) {at}", f"CREATE TABLE nameless (_col0 INT, _col1 STRING) {files}"
    )
    hive.run("INSERT INTO places VALUES (1, 'a')")
    hive.run("CREATE MATERIALIZED VIEW placed REFRESH INCREMENTAL FALLBACK AS SELECT id, item FROM places")
    hive.run("INSERT INTO nameless VALUES (2, 'b')", "INSERT INTO places VALUES (3, 'c')")
    assert_equal(hive, "placed", "SELECT id, item FROM places")
    assert "PROVIDER" in route(hive, "placed")[1], route(hive, "placed")
