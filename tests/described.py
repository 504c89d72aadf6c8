"""Descriptions of tables and views as Spark prints them in the answer to SHOW TABLE EXTENDED."""

from __future__ import annotations

from collections.abc import Mapping


def described_row(
    database: str, name: str, properties: Mapping[str, str], view_text: str = "", *, comment: str = ""
) -> tuple[str, str, bool, str]:
    """One row: database, name, whether it is a temporary view, and the description."""
    kind = [f"Type: {'VIEW' if view_text else 'MANAGED'}", *([f"Comment: {comment}"] if comment else [])]
    texts = [f"View Text: {view_text}", f"View Original Text: {view_text}"] if view_text else ["Provider: parquet"]
    listed = ", ".join(f"{key}={value}" for key, value in sorted(properties.items()))
    lines = [
        "Catalog: spark_catalog",
        f"Database: {database}",
        f"Table: {name}",
        "Owner: freshgate",
        *kind,
        *texts,
        *([f"Table Properties: [{listed}]"] if properties else []),
        "Storage Properties: [serialization.format=1]",
        "Schema: root",
        " |-- n: long (nullable = true)",
    ]
    return database, name, False, "\n".join(lines) + "\n\n"
