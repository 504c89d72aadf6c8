"""Tests that stored rows that are changed past the gateway are not read, and are computed anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from databases import Database
from processes import Engine
from pyhive.exc import OperationalError

RIGHT = [(1, "x"), (2, "y")]
DAMAGED = "58030"


@dataclass(frozen=True)
class Outsider:
    """A user with a session of his own at Spark, and access to the files."""

    database: Database
    spark: Any
    table: str
    """The storage table of the view `v`."""
    directory: Path
    """Its directory."""

    @property
    def version(self) -> int:
        return self.database.version("v")

    @property
    def files(self) -> list[Path]:
        """The files of the rows that the view shows."""
        return sorted((self.directory / f"freshgate_version={self.version}").rglob("*.parquet"))

    def run(self, statement: str) -> None:
        """@T is the storage table, @V the current version, @D a directory with another row."""
        places = {"@T": self.table, "@V": str(self.version), "@D": str(self.directory.parent / "evil_rows")}
        for place, value in places.items():
            statement = statement.replace(place, value)
        rows(self.spark, statement)

    def sees(self) -> list[tuple[Any, ...]]:
        return sorted(rows(self.spark, f"SELECT * FROM {self.database.name}.v"), key=repr)


@pytest.fixture
def outsider(database: Database, engine: Engine) -> Iterator[Outsider]:
    database.run(
        "CREATE TABLE t (a INT, b STRING) USING parquet PARTITIONED BY (b)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('probe_interval' = '0') AS SELECT a, b FROM t",
    )
    with pyhive(engine.host, engine.port, user="eve") as spark:
        ((text,),) = rows(spark, f"SHOW CREATE TABLE {database.name}.v")
        _, storage, table, *_ = text.partition(" FROM ")[2].partition(" WHERE ")[0].replace("`", "").split(".")
        (location,) = (
            row[1] for row in rows(spark, f"DESCRIBE TABLE EXTENDED {storage}.{table}") if row[0] == "Location"
        )
        yield Outsider(database, spark, f"{storage}.{table}", Path(location.removeprefix("file:")))


def _copy(outsider: Outsider) -> None:
    shutil.copy(outsider.files[0], outsider.files[0].with_name("part-evil.parquet"))


def _replace(outsider: Outsider) -> None:
    first, *_, last = outsider.files
    first.write_bytes(last.read_bytes())
    (first.parent / f".{first.name}.crc").unlink(missing_ok=True)


def _delete(outsider: Outsider) -> None:
    outsider.files[0].unlink()


ATTACKS: dict[str, str | Callable[[Outsider], None]] = {
    "INSERT INTO": "INSERT INTO @T VALUES (666, 'evil', @V)",
    "INSERT OVERWRITE": "INSERT OVERWRITE @T PARTITION (freshgate_version = @V) VALUES (666, 'evil')",
    "TRUNCATE": "TRUNCATE TABLE @T",
    "DROP PARTITION": "ALTER TABLE @T DROP PARTITION (freshgate_version = @V)",
    "SET LOCATION": "ALTER TABLE @T PARTITION (freshgate_version = @V) SET LOCATION '@D'",
    "a copied file": _copy,
    "a replaced file": _replace,
    "a deleted file": _delete,
}


def test_changed_rows_are_not_read(outsider: Outsider) -> None:
    outsider.run(f"CREATE TABLE {outsider.database.name}.evil USING parquet LOCATION '@D' AS SELECT 666 AS a, 'z' AS b")
    for name, attack in ATTACKS.items():
        before = outsider.version
        if isinstance(attack, str):
            outsider.run(attack)
        else:
            attack(outsider)
        assert outsider.sees() != RIGHT, name
        assert outsider.database.rows("SELECT * FROM v") == RIGHT, name
        assert outsider.version > before, name
        assert outsider.sees() == RIGHT, name
    log = outsider.database.gateway.log.read_text(encoding="utf-8")
    found = [line for line in log.splitlines() if f"{outsider.database.name}.v is damaged" in line]
    assert len(found) == len(ATTACKS)


def test_an_altered_public_view_is_restored(outsider: Outsider) -> None:
    assert outsider.database.rows("SELECT * FROM v") == RIGHT
    name = f"{outsider.database.name}.v"
    for text in ("SELECT 666 AS a, 'z' AS b", "SELECT `a`, `a` AS `b` FROM @T WHERE freshgate_version = @V"):
        outsider.run(f"ALTER VIEW {name} AS {text}")
        assert outsider.sees() != RIGHT
        assert outsider.database.rows("SELECT * FROM v") == RIGHT
        assert outsider.sees() == RIGHT


@pytest.mark.parametrize("policy", ["SERVE", "FAIL"])
def test_a_view_that_reads_do_not_refresh_says_what_to_do(outsider: Outsider, policy: str) -> None:
    outsider.database.run(f"ALTER MATERIALIZED VIEW v SET ('when_stale' = '{policy}')")
    assert outsider.database.rows("SELECT * FROM v") == RIGHT
    _copy(outsider)
    with pytest.raises(OperationalError) as refused:
        outsider.database.rows("SELECT * FROM v")
    status = refused.value.args[0].status
    assert status.sqlState == DAMAGED
    assert "Run REFRESH MATERIALIZED VIEW" in status.errorMessage
    assert outsider.database.freshness("v") == "DAMAGED"
    outsider.database.run("REFRESH MATERIALIZED VIEW v")
    assert outsider.database.rows("SELECT * FROM v") == RIGHT


def test_no_refresh_of_partitions_continues_from_changed_ones(outsider: Outsider) -> None:
    outsider.database.run(
        "CREATE MATERIALIZED VIEW p PARTITION BY (b) TBLPROPERTIES ('probe_interval' = '60') "
        "AS SELECT b, count(*) AS n FROM t GROUP BY b"
    )
    before = outsider.database.version("p")
    ((text,),) = rows(outsider.spark, f"SHOW CREATE TABLE {outsider.database.name}.p")
    table = text.partition(" FROM ")[2].partition(" WHERE ")[0].replace("`", "").removeprefix("spark_catalog.")
    # The look at the rows of this version is recent: only what the refresh does itself can find this.
    rows(outsider.spark, f"INSERT INTO {table} VALUES (666, {before}, 'y')")
    outsider.database.run("INSERT INTO t VALUES (3, 'x')")
    assert outsider.database.rows("SELECT b, n FROM p") == [("x", 2), ("y", 1)]
    outsider.database.run("DROP MATERIALIZED VIEW p")


def test_a_damaged_view_can_be_dropped(outsider: Outsider) -> None:
    outsider.run("TRUNCATE TABLE @T")
    outsider.database.run("DROP MATERIALIZED VIEW v")
    assert not [row for row in outsider.database.rows("SHOW TABLES") if row[1] == "v"]
