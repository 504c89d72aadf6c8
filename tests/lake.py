"""Spark with Delta Lake and Iceberg."""

from __future__ import annotations

from pathlib import Path

from jars import jar

ARCHIVES = ("delta-spark_4.1_2.13", "delta-storage", "iceberg-spark-runtime-4.1_2.13")
ICEBERG = "lake"
"""The catalog of Iceberg tables. Delta tables are in spark_catalog."""


def lake_archives() -> list[Path]:
    """The archives for the class path. spark.jars would not do: Hive closes its class loader when the server's first
    session ends."""
    return [jar(artifact) for artifact in ARCHIVES]


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
    }
