"""Changes of a small table that is joined with a large one, on real Spark: a refresh by rows reads only those files of
the large table that may have rows with the changed keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from lake import ICEBERG
from processes import Engine, Gateway

GROUPS = "SELECT d.g, count(*) AS n, sum(f.x) AS s FROM {fact} f JOIN {dim} d ON f.k = d.k GROUP BY d.g"
LEFT = "SELECT f.k, max(d.w) AS w, count(*) AS n FROM {fact} f LEFT JOIN {dim} d ON f.k = d.k GROUP BY f.k"
ROWS = "SELECT f.k, f.x, d.w FROM {fact} f JOIN {dim} d ON f.k = d.k"
FACTS = """CREATE TABLE {fact} USING {provider} AS
SELECT /*+ REPARTITION_BY_RANGE(8, k) */ CAST(id DIV 10 AS INT) AS k, id AS x FROM range(800)"""
DIMENSION = """CREATE TABLE {dim} USING {provider} AS
SELECT CAST(id AS INT) AS k, concat('g', id % 5) AS g, CAST(id % 7 AS INT) AS w FROM range(80)"""


@pytest.fixture(scope="module")
def gateway(lake_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(
        tmp_path_factory.mktemp("dimensions") / "gateway.log",
        upstream=f"{lake_engine.host}:{lake_engine.port}",
        # Every table whose size is known is a large one.
        constants={"gateway.assembly.refreshes.Increments.from_bytes": 1},
        settings={"staleness.probe_interval": 0},
    )
    yield running
    running.stop()


@pytest.mark.parametrize("provider", ["delta", "iceberg"])
def test_files_without_changed_keys_are_not_read(provider: str, gateway: Gateway, lake_engine: Engine) -> None:
    database = f"dimensions_{provider}"
    place = f"{ICEBERG}.{database}" if provider == "iceberg" else database
    names = {"fact": f"{place}.fact", "dim": f"{place}.dim", "provider": provider}
    views = {name: text.format(**names) for name, text in (("groups", GROUPS), ("outer", LEFT), ("plain", ROWS))}
    with pyhive(gateway.host, gateway.port) as through, pyhive(lake_engine.host, lake_engine.port) as direct:
        for each in {database, place}:
            rows(through, f"CREATE DATABASE {each}")
        for text in (FACTS, DIMENSION):
            rows(through, text.format(**names))
        for name, definition in views.items():
            rows(through, f"CREATE MATERIALIZED VIEW {database}.{name} REFRESH INCREMENTAL AS {definition}")
        needless = _files_without(direct, names["fact"], 33, 34)
        assert len(needless) >= 6
        rows(through, f"UPDATE {names['dim']} SET w = w + 10, g = 'new' WHERE k IN (33, 34)")
        _refresh_without(needless, through, [f"{database}.{name}" for name in views])
        for name, definition in views.items():
            shown = sorted(map(repr, rows(through, f"SELECT * FROM {database}.{name}")))
            assert shown == sorted(map(repr, rows(direct, definition))), name


def _files_without(direct: Any, table: str, *keys: int) -> list[Path]:
    """The files of a table that have no row with these keys."""
    found = rows(direct, f"SELECT input_file_name(), max(k IN {keys}) FROM {table} GROUP BY 1")
    return [Path(str(file).removeprefix("file:").replace("///", "/")) for file, has in found if not has]


def _refresh_without(files: list[Path], through: Any, views: list[str]) -> None:
    """Refreshes while these files are not there: whoever reads them fails."""
    for file in files:
        file.rename(f"{file}.away")
    try:
        for view in views:
            rows(through, f"REFRESH MATERIALIZED VIEW {view} INCREMENTAL")
    finally:
        for file in files:
            Path(f"{file}.away").rename(file)
