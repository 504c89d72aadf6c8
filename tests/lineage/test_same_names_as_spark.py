"""openlineage-spark, as a listener in the same Spark, tells of the same datasets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from jars import jar
from lake import ICEBERG, lake_archives, lake_settings
from lineage_receiver import LineageReceiver
from processes import Engine, Gateway, wait_until

pytestmark = pytest.mark.thorough

LISTENER = "openlineage-spark_2.13"
Dataset = tuple[str, str]


@pytest.fixture(scope="module")
def both(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Any, Any, Path]]:
    """A gateway, what it tells, what the listener in its Spark tells, and a directory."""
    try:
        archives = [*lake_archives(), jar(LISTENER)]
    except FileNotFoundError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("listened")
    ours, sparks = LineageReceiver(), LineageReceiver()
    settings = {
        **lake_settings(directory / "lake"),
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": sparks.url,
        "spark.openlineage.namespace": "spark",
    }
    engine = Engine(directory / "data", archives=archives, spark=settings)
    given: dict[str, Any] = {"lineage.url": ours.url}
    gateway = Gateway(directory / "gateway.log", upstream=f"{engine.host}:{engine.port}", settings=given)
    yield gateway, ours, sparks, directory
    gateway.stop()
    engine.stop()
    for receiver in (ours, sparks):
        receiver.close()


def name_of(dataset: dict[str, Any]) -> Dataset:
    return dataset["namespace"], dataset["name"]


def symlinks_of(dataset: dict[str, Any]) -> set[Dataset]:
    identifiers = dataset["facets"].get("symlinks", {}).get("identifiers", [])
    return {(each["namespace"], each["name"]) for each in identifiers}


def schema_of(dataset: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((each["name"], each["type"]) for each in dataset["facets"].get("schema", {}).get("fields", []))


def writes_of(receiver: LineageReceiver, storage: Dataset) -> list[dict[str, Any]]:
    """The runs of Spark that have written to a table, and read others."""
    ended = [each for each in receiver.events if each.get("eventType") == "COMPLETE"]
    return [each for each in ended if storage in map(name_of, each["outputs"]) and each["inputs"]]


def computed_twice(receiver: LineageReceiver, view: str) -> bool:
    return len(receiver.of(view)) == 2


def test_sparks_own_integration_gives_the_same_names(both: tuple[Gateway, Any, Any, Path]) -> None:
    gateway, ours, sparks, directory = both
    dated = (directory / "apart" / "2024-01-31").as_uri()
    with pyhive(gateway.host, gateway.port, user="ada") as cursor:
        for text in (
            "CREATE DATABASE shop",
            "USE shop",
            "CREATE TABLE plain (k INT, v DECIMAL(10,2), at TIMESTAMP, tags ARRAY<SMALLINT>) USING parquet",
            "INSERT INTO plain VALUES (1, 2.5, TIMESTAMP'2024-01-01 00:00:00', array(1))",
            f"CREATE TABLE apart (k INT, w BIGINT) USING parquet LOCATION '{dated}'",
            "INSERT INTO apart VALUES (1, 2)",
            "CREATE TABLE hived (k INT, x STRING) STORED AS TEXTFILE",
            "INSERT INTO hived VALUES (1, 'x')",
            "CREATE TABLE changing (k INT, y DOUBLE) USING delta",
            "INSERT INTO changing VALUES (1, 0.5)",
            f"CREATE TABLE {ICEBERG}.cold.ice (k INT, z DATE) USING iceberg",
            f"INSERT INTO {ICEBERG}.cold.ice VALUES (1, DATE'2024-01-01')",
            "CREATE VIEW seen AS SELECT k, v FROM plain WHERE k > 0",
            "CREATE MATERIALIZED VIEW low AS SELECT k, sum(v) AS s FROM seen GROUP BY k",
            "CREATE MATERIALIZED VIEW high AS SELECT l.k, max(s) AS s, max(w) AS w, max(x) AS x, max(y) AS y, "
            "max(z) AS z FROM low l JOIN apart a ON l.k = a.k JOIN hived h ON l.k = h.k JOIN changing c ON l.k = c.k "
            f"JOIN {ICEBERG}.cold.ice i ON l.k = i.k GROUP BY l.k",
            "CREATE TABLE copied USING parquet AS SELECT * FROM high",
        ):
            rows(cursor, text)
        wait_until(lambda: any("copied" in each["name"] for one in sparks.events for each in one.get("outputs", ())))
        for view in ("low", "high"):
            wait_until(partial(computed_twice, ours, f"shop.{view}"), seconds=60)
            told = ours.of(f"shop.{view}")[1]
            (output,) = told["outputs"]
            wait_until(partial(writes_of, sparks, name_of(output)), seconds=60)
            spark = writes_of(sparks, name_of(output))[-1]
            (written,) = (each for each in spark["outputs"] if name_of(each) == name_of(output))
            assert symlinks_of(written) <= symlinks_of(output)
            before, after = ({name_of(each): each for each in one["inputs"]} for one in (told, spark))
            assert before.keys() == after.keys()
            for name, each in before.items():
                if each["facets"].get("datasetType"):
                    # To Spark, a materialized view is its storage table.
                    assert symlinks_of(each) > symlinks_of(after[name])
                else:
                    assert symlinks_of(each) == symlinks_of(after[name]), name
                    assert schema_of(each) == schema_of(after[name]), name
        assert len(before) == 5
        # What a client reads of a view, the listener tells of the same dataset.
        copied = next(name_of(each) for one in sparks.events for each in one["outputs"] if "copied" in each["name"])
        read = {name_of(each) for one in writes_of(sparks, copied) for each in one["inputs"]}
        assert name_of(output) in read
