"""Spark with Delta Lake and Iceberg."""

from __future__ import annotations

from pathlib import Path

from jars import LOCK, SPARK_LOCK, jar

ARCHIVES = {
    "3.5": {
        "delta-spark_2.12": SPARK_LOCK,
        "delta-storage": SPARK_LOCK,
        "iceberg-spark-runtime-3.5_2.12": SPARK_LOCK,
    },
    "4.0": {"delta-spark_4.0_2.13": SPARK_LOCK, "delta-storage": LOCK, "iceberg-spark-runtime-4.0_2.13": SPARK_LOCK},
    "4.1": {"delta-spark_4.1_2.13": LOCK, "delta-storage": LOCK, "iceberg-spark-runtime-4.1_2.13": LOCK},
}
"""By release of Spark: the archives, and the locks that pin them. For 4.2 and 4.3 neither was published
when this was written."""
ICEBERG = "lake"
"""The catalog of Iceberg tables. Delta tables are in spark_catalog."""
OPEN = "shared"
"""The catalog for views that other engines read: no session keeps its tables."""

VACUUM_AT_ONCE = {f"sql.texts.delta_rows.{name}": 0 for name in ("MARGIN_HOURS", "BATCH_MS")}
"""Constants of a gateway with which the files of a version in a Delta table go as soon as nobody needs them."""


def lake_archives(release: str = "4.1") -> list[Path]:
    """The archives for the class path. spark.jars would not do: Hive closes its class loader when the server's first
    session ends. Raises FileNotFoundError if one is not downloaded."""
    return [jar(artifact, lock=lock) for artifact, lock in ARCHIVES[release].items()]


def lake_settings(warehouse: Path) -> dict[str, str]:
    """The Spark settings for Delta Lake and Iceberg; `warehouse` is the directory of the Iceberg tables."""
    return {
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        f"spark.sql.catalog.{ICEBERG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{ICEBERG}.type": "hadoop",
        f"spark.sql.catalog.{ICEBERG}.warehouse": warehouse.as_uri(),
        f"spark.sql.catalog.{OPEN}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{OPEN}.type": "hadoop",
        f"spark.sql.catalog.{OPEN}.warehouse": warehouse.with_name("shared").as_uri(),
        f"spark.sql.catalog.{OPEN}.cache-enabled": "false",
    }
