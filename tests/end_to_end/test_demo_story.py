"""The demo's story on a Spark that runs already, with fewer flights. Every step checks its own answer."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from clients import pyhive, rows
from seen_gateway import Seen

from gateway.demonstration import command
from gateway.demonstration.flights import DATABASE, TABLES
from gateway.demonstration.story import STORM_FLIGHTS

CARRIERS = {"UA": "United Air Lines", "B6": "JetBlue Airways"}
PLACES = {"LAX": "Los Angeles Intl", "BOS": "General Edward Lawrence Logan Intl"}
DAYS = ((5, 1, 40), (8, 17, 60), (12, 29, 30), (12, 30, STORM_FLIGHTS))
"""Month, day of 2013, and the number of flights."""


def flights() -> Iterator[dict[str, object]]:
    for month, day, count in DAYS:
        for number in range(count):
            hour = 5 + number % 18
            cancelled = number % 9 == 0
            yield {
                **{"year": 2013, "month": month, "day": day, "hour": hour, "minute": 0, "flight": number},
                "dep_delay": "NA" if cancelled else number % 97 - 5,
                "arr_delay": "NA" if cancelled else number % 83 - 9,
                "carrier": list(CARRIERS)[number % 2],
                "tailnum": f"N{number % 31}",
                "origin": ("EWR", "JFK")[number % 2],
                "dest": list(PLACES)[number % 3 % 2],
                "time_hour": f"2013-{month:02}-{day:02}T{hour:02}:00:00Z",
            }


def weather() -> Iterator[dict[str, object]]:
    for month, day, _ in DAYS:
        for hour in range(5, 23):
            for origin in ("EWR", "JFK"):
                yield {
                    **{"origin": origin, "year": 2013, "month": month, "day": day, "hour": hour},
                    **{"wind_speed": hour * 1.5, "precip": hour % 2 / 10, "visib": hour % 4 * 0.6},
                    "time_hour": f"2013-{month:02}-{day:02}T{hour:02}:00:00Z",
                }


def write(directory: Path, table: str, found: Iterable[dict[str, object]]) -> None:
    """A file as the package has it; a column that is not given is NA."""
    columns = [column.split()[0] for column in TABLES[table].split(", ")]
    with open(directory / f"{table}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="NA")
        writer.writeheader()
        writer.writerows(found)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    write(directory, "flights", flights())
    write(directory, "weather", weather())
    write(directory, "airlines", ({"carrier": key, "name": name} for key, name in CARRIERS.items()))
    write(directory, "airports", ({"faa": key, "name": name} for key, name in PLACES.items()))
    write(directory, "planes", ({"tailnum": f"N{number}"} for number in range(31)))
    return directory


def test_every_answer_is_right(rewriting: Seen, data: Path, tmp_path: Path) -> None:
    gateway = rewriting.gateway
    lines = command.told(f"jdbc:hive2://{gateway.host}:{gateway.port}/", gateway.port, data, tmp_path, ended=True)
    assert len(lines) > 10
    assert all(min(seconds) > 0 for _, seconds in lines)
    with pyhive(gateway.host, gateway.port) as cursor:
        rows(cursor, f"DROP DATABASE {DATABASE} CASCADE")
