"""Refreshes by rows over Delta and Iceberg tables, on real Spark behind a gateway."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from databases import NAP
from lake import ICEBERG, OPEN, VACUUM_AT_ONCE
from processes import ROOT, Engine, Gateway, wait_until
from pyhive.exc import OperationalError
from tiers import EVERYTHING, sampled

FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
GROUPS = "SELECT item, count(*) AS n, sum(qty) AS s, avg(price) AS a FROM {t} GROUP BY item"
HAVING = "SELECT item, sum(qty) AS s FROM {t} GROUP BY item HAVING count(*) > 2"
TOTAL = "SELECT count(*) AS n, sum(price) AS p FROM {t}"
FILTER = "SELECT id, item FROM {t} WHERE qty > 2"
EXTREME = "SELECT item, max(qty) AS m FROM {t} GROUP BY item"
SETTINGS: dict[str, Any] = {
    "staleness.probe_interval": 0,
    "storage.iceberg_catalog": OPEN,
    "storage.delta_catalog": "spark_catalog",
    # Nobody reads the earlier versions. Removing them would take a tenth of Spark's time; `hasty` does.
    "versions.retention": 86400,
}
READERS = "FRESHGATE_READERS_PYTHON"
"""The environment variable that names a Python with delta-rs and PyIceberg."""
_numbers = itertools.count(1)


@dataclass
class Lake:
    """A database behind a gateway, and a cursor to Spark itself, whose files are in `data`."""

    name: str
    through: Any
    direct: Any
    data: Path

    def run(self, *statements: str) -> None:
        for statement in statements:
            rows(self.through, statement)

    def view(self, name: str, definition: str) -> None:
        self.run(f"CREATE MATERIALIZED VIEW {self.name}.{name} REFRESH INCREMENTAL FALLBACK AS {definition}")

    def directory(self, table: str) -> Path:
        """The directory of a table that other engines read."""
        *_, database, name = table.split(".")
        if table.startswith(f"{OPEN}."):
            return self.data.with_name(OPEN) / database / name
        return self.data / "warehouse" / f"{database}.db" / name

    def files(self, table: str) -> set[Path]:
        return {path for path in self.directory(table).rglob("*.parquet") if path.parent.name != "_delta_log"}

    def seen(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """The rows of a table that other engines read, sorted: by Spark without the gateway, and by another reader, if
        there is one."""
        seen = sorted(rows(self.direct, f"SELECT {', '.join(columns)} FROM {table}"), key=repr)
        if python := os.environ.get(READERS):
            word = "iceberg" if table.startswith(f"{OPEN}.") else "delta"
            command = [python, str(ROOT / "tests" / "foreign_reader.py"), word, str(self.directory(table))]
            read = subprocess.run([*command, *columns], capture_output=True, text=True, check=False)
            assert read.returncode == 0, read.stderr
            expected = [json.dumps([None if each is None else str(each) for each in row]) for row in seen]
            assert sorted(read.stdout.splitlines()) == sorted(expected), table
        return seen

    def check(self, definitions: Mapping[str, str]) -> dict[str, str]:
        """The views equal their definitions; returns the mode of the last refresh of each and its route."""
        for name, definition in definitions.items():
            shown = sorted(rows(self.through, f"SELECT * FROM {self.name}.{name}"), key=repr)
            assert shown == sorted(rows(self.through, definition), key=repr), name
        found = rows(
            self.through,
            'SELECT MvName, RefreshMode, Route FROM tasks("type"="mv") '
            f"WHERE MvDatabaseName = '{self.name}' ORDER BY CAST(TaskId AS BIGINT)",
        )
        said = {str(name): f"{mode} {route}" for name, mode, route in found}
        return {name: said[name] for name in definitions}

    def expect(self, mode: str, definitions: Mapping[str, str], reason: str = "") -> None:
        """The views equal their definitions, and this is how they were refreshed."""
        said = self.check(definitions)
        other = {name: text for name, text in said.items() if not (text.startswith(mode) and reason in text)}
        assert not other


@pytest.fixture(scope="module")
def gateway(lake_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("increments")
    upstream = f"{lake_engine.host}:{lake_engine.port}"
    running = Gateway(home / "gateway.log", upstream=upstream, settings=SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def hasty(lake_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that keeps nothing which nobody reads."""
    settings = {**SETTINGS, "versions.retention": 0}
    upstream = f"{lake_engine.host}:{lake_engine.port}"
    running = Gateway(
        tmp_path_factory.mktemp("hasty") / "gateway.log", upstream=upstream, constants=VACUUM_AT_ONCE, settings=settings
    )
    yield running
    running.stop()


@pytest.fixture
def lake(gateway: Gateway, lake_engine: Engine) -> Iterator[Lake]:
    name = f"li{next(_numbers)}"
    with pyhive(gateway.host, gateway.port) as through, pyhive(lake_engine.host, lake_engine.port) as direct:
        made = Lake(name, through, direct, lake_engine.data_dir)
        made.run(f"CREATE DATABASE {name}")
        # Nobody drops the views: the gateway ends with the module.
        yield made


def test_partitions_by_transforms_of_iceberg(lake: Lake) -> None:
    """A change of one hour and bucket costs one partition of each view."""
    base = f"{ICEBERG}.{lake.name}.events"
    lake.run(
        f"CREATE DATABASE {ICEBERG}.{lake.name}",
        f"CREATE TABLE {base} (k INT, ts TIMESTAMP, c STRING) USING iceberg PARTITIONED BY (hours(ts), bucket(4, c))",
        f"INSERT INTO {base} SELECT id, timestamp_seconds(1704067200 + id * 20000), concat('c', id % 7) FROM range(20)",
    )
    definitions = {
        "daily": f"SELECT CAST(ts AS DATE) AS day, count(*) AS n FROM {base} GROUP BY 1",
        "hourly": f"SELECT ts, k FROM {base}",
        "bucketed": f"SELECT c, count(*) AS n FROM {base} GROUP BY c",
        "both": f"SELECT c, ts, count(*) AS n FROM {base} GROUP BY c, ts",
    }
    clauses = {
        "daily": "day",
        "hourly": "date_trunc('HOUR', ts)",
        "bucketed": "bucket(4, c)",
        "both": "bucket(4, c), date_trunc('DAY', ts)",
    }
    for name, by in clauses.items():
        lake.run(f"CREATE MATERIALIZED VIEW {lake.name}.{name} PARTITION BY ({by}) AS {definitions[name]}")
    for write in (
        f"INSERT INTO {base} VALUES (100, TIMESTAMP'2024-01-03 05:00:00', 'c1'), (101, NULL, NULL)",
        f"DELETE FROM {base} WHERE k = 3",
    ):
        lake.run(write)
        lake.expect("PARTIAL", definitions)
    with pytest.raises(OperationalError, match="cannot be partitioned by bucket"):
        lake.run(f"CREATE MATERIALIZED VIEW {lake.name}.other PARTITION BY (bucket(5, c)) AS SELECT c FROM {base}")
    with pytest.raises(OperationalError, match="should be HOUR"):
        lake.run(f"CREATE MATERIALIZED VIEW {lake.name}.other PARTITION BY (ts) AS SELECT ts FROM {base}")


def table(lake: Lake, provider: str, more: str = "") -> str:
    name = f"{ICEBERG}.{lake.name}.t" if provider == "iceberg" else f"{lake.name}.t"
    if provider == "iceberg":
        lake.run(f"CREATE DATABASE IF NOT EXISTS {ICEBERG}.{lake.name}")
    lake.run(f"CREATE TABLE {name} (id INT, item STRING, qty INT, price DECIMAL(10,2)) USING {provider} {more}")
    lake.run(insert(name, 0, 40))
    return name


def insert(name: str, first: int, count: int) -> str:
    return (
        f"INSERT INTO {name} SELECT CAST({first} + id AS INT), CASE WHEN id % 5 > 0 THEN concat('i', id % 5) END, "
        f"CASE WHEN id % 3 > 0 THEN CAST(id % 7 AS INT) END, CAST(id AS DECIMAL(10,2)) / 7 FROM range({count})"
    )


def views(lake: Lake, name: str, **definitions: str) -> dict[str, str]:
    made = {view: text.format(t=name) for view, text in definitions.items()}
    for view, definition in made.items():
        lake.view(view, definition)
    return made


def test_the_change_data_feed_of_delta(lake: Lake) -> None:
    name = table(lake, "delta", FEED)
    made = views(lake, name, grouped=GROUPS, kept=HAVING, total=TOTAL, filtered=FILTER, extreme=EXTREME)
    grouped, kept, total, _, extreme = ({view: definition} for view, definition in made.items())
    # A view that is not read sees several changes at once later.
    for read, write in (
        (grouped, f"UPDATE {name} SET qty = qty + 1, item = 'i9' WHERE id % 4 = 0"),
        (kept | total, f"DELETE FROM {name} WHERE item = 'i1'"),
        (
            grouped | extreme,
            f"MERGE INTO {name} USING (SELECT * FROM VALUES (3, 'i3', 5, 1.5), (99, 'i1', 1, 2.5) "
            f"AS s(id, item, qty, price)) AS s ON {name}.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        ),
        (made, f"DELETE FROM {name} WHERE qty IS NULL OR item IS NULL"),
    ):
        lake.run(write)
        lake.expect("INCREMENTAL", read)
    lake.run(f"DELETE FROM {name}")
    lake.check(grouped | total | extreme)


def test_delta_without_its_feed(lake: Lake) -> None:
    name = table(lake, "delta")
    made = views(lake, name, grouped=GROUPS, filtered=FILTER, extreme=EXTREME)
    lake.run(insert(name, 100, 10))
    lake.run(f"OPTIMIZE {name}")
    lake.expect("INCREMENTAL", made)
    lake.run(f"DELETE FROM {name} WHERE id < 5", f"UPDATE {name} SET qty = 9 WHERE id % 7 = 0")
    lake.expect("INCREMENTAL", made)
    lake.run(f"ALTER TABLE {name} ADD COLUMNS (more STRING)", f"INSERT INTO {name} VALUES (1, 'x', 9, 1.0, 'm')")
    lake.expect("COMPLETE", {"grouped": made["grouped"]})


@pytest.mark.parametrize("more", sampled(["PARTITIONED BY (item)", ""], {"by item"}, ["by item", "not"]))
def test_partitioned_tables_of_delta(lake: Lake, more: str) -> None:
    name = table(lake, "delta", more)
    made = views(lake, name, grouped=GROUPS, filtered=FILTER)
    lake.run(insert(name, 100, 10))
    lake.expect("INCREMENTAL", made)


def test_windows_full_joins_and_subqueries_of_iceberg(lake: Lake) -> None:
    """Also deletes of the table whose added rows can take rows away."""
    name = table(lake, "iceberg")
    other = f"{ICEBERG}.{lake.name}.o"
    lake.run(f"CREATE TABLE {other} (item STRING, name STRING) USING iceberg")
    lake.run(f"INSERT INTO {other} VALUES ('i1', 'one'), ('i9', 'nine'), (NULL, 'none')")
    made = {
        "last": "SELECT id, qty FROM (SELECT *, row_number() OVER (PARTITION BY item ORDER BY id DESC) AS n"
        f" FROM {name}) WHERE n = 1",
        "best": "SELECT item, qty, sum(price) AS p, rank() OVER (PARTITION BY item ORDER BY sum(price)) AS r"
        f" FROM {name} GROUP BY item, qty",
        "both": f"SELECT t.id, o.name FROM {name} AS t FULL JOIN {other} AS o ON t.item = o.item",
        "within": f"SELECT id FROM {name} WHERE qty > 1 AND item IN (SELECT item FROM {other})",
    }
    for view, definition in made.items():
        lake.view(view, definition)
    lake.run(insert(name, 100, 3), f"INSERT INTO {other} VALUES ('i2', 'two'), ('i9', 'again')")
    lake.expect("INCREMENTAL", made)
    lake.run(f"DELETE FROM {name} WHERE id = 101", f"DELETE FROM {other} WHERE item = 'i1' OR name = 'again'")
    lake.expect("INCREMENTAL", made)


def append_file(lake: Lake, name: str, query: str, scratch: Path) -> None:
    """Appends a file as it is. Delta does so with that of a DataFrame which lacks columns of the table."""
    rows(lake.direct, f"INSERT OVERWRITE DIRECTORY '{scratch}' USING parquet {query}")
    described = rows(lake.direct, f"DESCRIBE TABLE EXTENDED {name}")
    table = Path(next(str(row[1]) for row in described if row[0] == "Location").removeprefix("file:"))
    (file,) = scratch.glob("part-*.parquet")
    shutil.copy(file, table)
    action = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "dataChange": True}
    log = table / "_delta_log"
    commit = log / f"{len(list(log.glob('*.json'))):020}.json"
    commit.write_text(json.dumps({"add": {**action, "modificationTime": time.time_ns() // 10**6}}), encoding="utf-8")


def test_files_of_delta_with_other_columns(lake: Lake, tmp_path: Path) -> None:
    name = f"{lake.name}.narrow"
    lake.run(f"CREATE TABLE {name} (id BIGINT, item STRING) USING delta", f"INSERT INTO {name} VALUES (1, 'a')")
    made = views(lake, name, product="SELECT id * 1000000 AS p, item FROM {t}", best="SELECT max(id) AS m FROM {t}")
    for number, query in enumerate(("SELECT CAST(5000000 AS INT) AS id", "SELECT 'b' AS item", "SELECT 3L AS id")):
        append_file(lake, name, query, tmp_path / str(number))
        lake.expect("INCREMENTAL", made)
    append_file(lake, name, "SELECT CAST(7 AS INT) AS id", tmp_path / "int")
    lake.run(f"INSERT INTO {name} VALUES (8, 'c')")
    lake.expect("INCREMENTAL", made)


MODES = ", ".join(f"'write.{action}.mode' = 'merge-on-read'" for action in ("delete", "update", "merge"))


@pytest.mark.parametrize(
    "more", sampled(["", f"TBLPROPERTIES ({MODES})"], {"merge on read"}, ["copy", "merge on read"])
)
def test_iceberg(lake: Lake, more: str) -> None:
    name = table(lake, "iceberg", more)
    made = views(lake, name, filtered=FILTER, kept=HAVING, extreme=EXTREME)
    lake.run(insert(name, 100, 10), insert(name, 150, 5))
    lake.expect("INCREMENTAL", made)
    lake.run(f"DELETE FROM {name} WHERE id % 2 = 0", f"UPDATE {name} SET qty = 1, item = 'i9' WHERE id % 9 = 1")
    lake.expect("INCREMENTAL", made)
    lake.run(f"DELETE FROM {name} WHERE item IS NULL")
    explained = rows(lake.through, f"EXPLAIN REFRESH MATERIALIZED VIEW {lake.name}.extreme INCREMENTAL")
    assert "groups are computed again" in str(explained)
    lake.expect("INCREMENTAL", {"extreme": made["extreme"]})


def test_iceberg_columns_that_change_without_a_snapshot(lake: Lake) -> None:
    """A query of the last snapshot has the columns of its time."""
    name = table(lake, "iceberg")
    definitions = {"filtered": "SELECT id, item FROM {t} WHERE qty IS NULL", "grouped": GROUPS}
    made = views(lake, name, **(definitions if EVERYTHING else {"filtered": definitions["filtered"]}))
    changes = [
        [f"ALTER TABLE {name} DROP COLUMN qty", f"ALTER TABLE {name} ADD COLUMN qty INT"],
        [f"ALTER TABLE {name} ADD COLUMN more INT"],
        [
            f"ALTER TABLE {name} RENAME COLUMN id TO other",
            f"ALTER TABLE {name} RENAME COLUMN qty TO id",
            f"ALTER TABLE {name} RENAME COLUMN other TO qty",
        ],
    ]
    for change in changes if EVERYTHING else [changes[0], changes[-1]]:
        lake.run(*change)
        lake.expect("COMPLETE", made)
        for mode in ("COMPLETE", "INCREMENTAL"):
            lake.run(f"INSERT INTO {name} (id, item, qty, price) VALUES (7, 'i1', 2, 1.5)")
            lake.expect(mode, made)


def storage_table(cursor: Any, view: str) -> str:
    return next(str(row[1]) for row in rows(cursor, f"DESCRIBE EXTENDED {view}") if row[0] == "Storage Table")


COMPACT = {"ICEBERG": f"CALL {OPEN}.system.rewrite_data_files(table => '{{}}')", "DELTA": "OPTIMIZE {}"}


@pytest.mark.parametrize("word", sampled(["ICEBERG", "DELTA"], {"DELTA"}))
def test_rows_that_other_engines_read(lake: Lake, word: str) -> None:
    name = table(lake, "parquet")
    made = {view: text.format(t=name) for view, text in (("grouped", GROUPS), ("filtered", FILTER), ("kept", HAVING))}
    shared = dict[str, str]()
    for view, definition in made.items():
        clauses = f"REFRESH INCREMENTAL FALLBACK USING {word}"
        lake.run(f"CREATE MATERIALIZED VIEW {lake.name}.{view} {clauses} AS {definition}")
        shared[view] = storage_table(lake.through, f"{lake.name}.{view}")
    columns = {"grouped": ("item", "n", "s", "a"), "filtered": ("id", "item"), "kept": ("item", "s")}

    def check() -> None:
        """What other engines see is what the definition gives: one snapshot, all rows, no others."""
        for view, definition in made.items():
            assert lake.seen(shared[view], columns[view]) == sorted(rows(lake.direct, definition), key=repr), view

    by_rows, whole = {view: made[view] for view in ("grouped", "filtered")}, {"kept": made["kept"]}
    check()
    lake.run(insert(name, 100, 10))
    lake.expect("INCREMENTAL", by_rows)
    lake.expect("COMPLETE", whole, "STATES_MISSING: other engines")
    check()
    first = rows(lake.through, f"SELECT count(*) FROM {lake.name}.filtered VERSION AS OF 1")
    assert first == rows(lake.through, f"SELECT count(*) FROM ({made['filtered']}) WHERE id < 100")
    check_sizes(lake, made)
    # A compaction changes nothing for readers, and a refresh by rows continues after it.
    rows(lake.direct, COMPACT[word].format(shared["filtered"].removeprefix(f"{OPEN}.")))
    lake.check(by_rows)
    lake.run(insert(name, 200, 10))
    lake.expect("INCREMENTAL", by_rows)
    lake.check(whole)
    check()
    # What others do to the table is found, and undone.
    rows(lake.direct, f"DELETE FROM {shared['filtered']} WHERE id < 100")
    rows(lake.direct, f"INSERT INTO {shared['kept']} VALUES ('evil', 1)")
    lake.expect("COMPLETE", {"filtered": made["filtered"], "kept": made["kept"]})
    check()
    # In dynamic mode, no row would be replaced.
    lake.run(f"TRUNCATE TABLE {name}")
    lake.check(made)
    check()
    lake.run(f"ALTER MATERIALIZED VIEW {lake.name}.kept RENAME TO renamed")
    assert rows(lake.through, f"SELECT item, s FROM {lake.name}.renamed") == []
    lake.run(f"CREATE OR REPLACE MATERIALIZED VIEW {lake.name}.filtered USING {word} AS {made['filtered']}")
    lake.check({"filtered": made["filtered"]})
    lake.run(f"DROP MATERIALIZED VIEW {lake.name}.renamed")
    database, _, dropped = shared["kept"].rpartition(".")
    there = {str(row[1]) for row in rows(lake.direct, f"SHOW TABLES IN {database}")}
    assert shared["grouped"].rpartition(".")[2] in there
    assert dropped not in there


@pytest.mark.parametrize("word", sampled(["ICEBERG", "DELTA"], {"ICEBERG"}))
def test_partitions_of_rows_that_other_engines_read(lake: Lake, word: str) -> None:
    """Only changed partitions are computed; each version is one commit with all of them."""
    base = f"{lake.name}.days"
    lake.run(
        f"CREATE TABLE {base} (id INT, at TIMESTAMP, day DATE, c STRING) USING parquet PARTITIONED BY (day, c)",
        f"INSERT INTO {base} SELECT id, timestamp_seconds(1704067200 + id * 20000), "
        "CAST(timestamp_seconds(1704067200 + id * 20000) AS DATE), concat('c', id % 3) FROM range(30)",
    )
    definitions = {
        "daily": f"SELECT day, count(*) AS n, sum(id) AS s FROM {base} GROUP BY day",
        "both": f"SELECT c, day, id FROM {base}",
        "monthly": f"SELECT day, c, max(id) AS last FROM {base} GROUP BY day, c",
    }
    clauses = {"daily": "day", "both": "c, day", "monthly": "date_trunc(day, 'month')"}
    shared, columns = dict[str, str](), {"daily": ["day", "n", "s"], "both": ["c", "day", "id"]}
    columns["monthly"] = ["day", "c", "last"]
    for name, by in clauses.items():
        lake.run(f"CREATE MATERIALIZED VIEW {lake.name}.{name} PARTITION BY ({by}) USING {word} AS {definitions[name]}")
        shared[name] = storage_table(lake.through, f"{lake.name}.{name}")

    def check(*modes: str, read: Mapping[str, str] = definitions) -> None:
        """What other engines see is what the definition gives, and what the gateway shows; a view was refreshed so."""
        said = lake.check(read)
        assert not {name: text for name, text in said.items() if modes and not text.startswith(modes)}
        for name, definition in read.items():
            assert lake.seen(shared[name], columns[name]) == sorted(rows(lake.direct, definition), key=repr), name

    check()
    for writes in (
        [f"INSERT INTO {base} VALUES (100, NULL, DATE'2024-01-03', 'c1'), (101, NULL, NULL, NULL)"],
        [
            f"ALTER TABLE {base} DROP PARTITION (day = DATE'2024-01-02')",
            f"INSERT INTO {base} VALUES (102, NULL, DATE'2024-02-03', 'c9')",
        ],
    ):
        lake.run(*writes)
        check("PARTIAL", "INCREMENTAL")
    named = rows(lake.through, f"SHOW PARTITIONS FROM {lake.name}.daily")
    (days,) = rows(lake.direct, f"SELECT count(DISTINCT coalesce(CAST(day AS STRING), '')) FROM {base}")[0]
    assert len(named) == days
    name = next(str(row[1]) for row in named if "20240203" in str(row))
    lake.run(f"REFRESH MATERIALIZED VIEW {lake.name}.daily PARTITIONS ({name})")
    check(read={"daily": definitions["daily"]})
    lake.run(f"REFRESH MATERIALIZED VIEW {lake.name}.daily COMPLETE")
    check(read={"daily": definitions["daily"]})


@pytest.mark.parametrize("word", sampled(["ICEBERG", "DELTA"], {"DELTA"}))
def test_rows_that_other_engines_read_go_when_nobody_needs_them(lake: Lake, hasty: Gateway, word: str) -> None:
    base, view = f"{lake.name}.base", f"{lake.name}.m"
    lake.run(f"CREATE TABLE {base} (a INT) USING parquet", f"INSERT INTO {base} VALUES (1)")
    with pyhive(hasty.host, hasty.port) as writer, pyhive(hasty.host, hasty.port) as reader:

        def read(cursor: Any, version: str = "") -> list[tuple[Any, ...]]:
            return rows(cursor, f"SELECT a FROM {view} {version}")

        rows(writer, f"CREATE MATERIALIZED VIEW {view} USING {word} AS SELECT a FROM {base}")
        table = storage_table(writer, view)
        rows(reader, "BEGIN")
        assert read(reader) == [(1,)]
        for number in (2, 3):
            rows(writer, f"INSERT OVERWRITE {base} VALUES ({number})")
            assert read(writer) == [(number,)]
        # What is read stays. A VACUUM knows only ages, so the second version may stay with the first.
        listed = f"SHOW MATERIALIZED VIEW VERSIONS {view}"
        wait_until(lambda: sorted(int(row[0]) for row in rows(writer, listed)) == [1, 3], what="version 2 to be gone")
        if word == "ICEBERG":
            wait_until(lambda: len(lake.files(table)) == 2, 90, "its file to be gone")
        with pytest.raises(OperationalError, match="has no version 2"):
            read(writer, "VERSION AS OF 2")
        assert read(reader) == read(writer, "VERSION AS OF 1") == [(1,)]
        rows(reader, "COMMIT")
        # A read counts until its client closes it, here with its next statement.
        assert read(writer) == [(3,)]
        wait_until(lambda: len(lake.files(table)) == 1, 90, "all other files to be gone")
        assert read(reader) == lake.seen(table, ["a"]) == [(3,)]
        rows(writer, f"DROP MATERIALIZED VIEW {view}")
        wait_until(lambda: not lake.directory(table).exists(), 90, "the table to be gone")


@pytest.mark.thorough
@pytest.mark.parametrize("word", ["ICEBERG", "DELTA"])
def test_a_compaction_during_a_refresh_does_not_make_it_fail(lake: Lake, word: str) -> None:
    """Delta refuses the commit then."""
    base, view = f"{lake.name}.base", f"{lake.name}.m"
    query = f"SELECT a, {lake.name}.nap('java.lang.Thread', 'sleep', bigint(a)) AS slept FROM {base}"
    lake.run(f"USE {lake.name}", NAP, f"CREATE TABLE {base} (a INT) USING parquet")
    lake.run(*(f"INSERT INTO {base} VALUES ({number})" for number in range(6)))
    lake.run(f"CREATE MATERIALIZED VIEW {view} USING {word} AS {query}", f"INSERT INTO {base} VALUES (10000)")
    table = storage_table(lake.through, view)
    before = lake.files(table)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(rows, lake.through, f"SELECT a FROM {view}")
        wait_until(lambda: lake.files(table) - before, 60, "one of the files")
        rows(lake.direct, COMPACT[word].format(table.removeprefix(f"{OPEN}.")))
        assert not reading.done()
        assert sorted(reading.result(120)) == [(number,) for number in (*range(6), 10000)]
    assert len(lake.seen(table, ["a"])) == 7


def check_sizes(lake: Lake, definitions: Mapping[str, str]) -> None:
    """The sizes of the kept versions are known."""
    for view, definition in definitions.items():
        shown = rows(lake.through, f"SHOW MATERIALIZED VIEW VERSIONS {lake.name}.{view}")
        (count,) = rows(lake.through, f"SELECT count(*) FROM ({definition})")[0]
        assert int(shown[0][6]) == count, shown
        assert all(int(row[7]) > 0 for row in shown), shown
        (found,) = rows(
            lake.through,
            "SELECT row_count, size_bytes, versions_kept FROM freshgate.materialized_views "
            f"WHERE database_name = '{lake.name}' AND name = '{view}'",
        )
        assert found[0] == count, found
        assert found[1] > 0, found
        assert found[2] >= 1, found


def test_a_zero_that_changes_its_sign(lake: Lake) -> None:
    """Rows that Spark finds equal and that are not the same count as changes, of tables and of views below."""
    table, names = f"{lake.name}.t", f"{lake.name}.names"
    lake.run(
        f"CREATE TABLE {table} (k INT, d DOUBLE) USING delta {FEED}",
        f"CREATE TABLE {names} (k INT, name STRING) USING delta",
        f"INSERT INTO {table} VALUES (1, 0.0D), (2, -0.0D), (3, 0.0D), (3, -0.0D)",
        f"INSERT INTO {names} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    )
    definitions = {
        "kept": f"SELECT k, d FROM {table}",
        "joined": f"SELECT t.k, t.d, n.name FROM {table} t JOIN {names} n ON t.k = n.k",
        "above": f"SELECT v.k, v.d, n.name FROM {lake.name}.kept v JOIN {names} n ON v.k = n.k",
    }
    for name, definition in definitions.items():
        lake.view(name, definition)
    for changes in ([("-0.0D", "k = 1"), ("0.0D", "k = 2")], [("-d", "k = 3")], [("-d", "true")]):
        lake.run(*(f"UPDATE {table} SET d = {value} WHERE {where}" for value, where in changes))
        lake.expect("INCREMENTAL", definitions)
