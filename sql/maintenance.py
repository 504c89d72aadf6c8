"""The texts of a materialized view's life: its definition view, its storage table, its public view.

Each function gives one statement for Spark, with names quoted and literals safe from variable substitution.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from sql.names import TableName, quote
from sql.rewrite import safe_literal
from sql.statement import Clauses, Clustering, Column, Distribution, Partitioning

VERSION_COLUMN = "freshgate_version"
"""The storage table's partition column: which version a row belongs to."""
PLAIN = Clauses()


def create_database(database: str) -> str:
    return f"CREATE DATABASE IF NOT EXISTS {quote(database)}"


def create_definition(definition: TableName, query: str, columns: Sequence[Column] = ()) -> str:
    """The view that keeps the query; the query's text is the user's own and stays as it is."""
    listed = ", ".join(quote(column.name) + _comment(column.comment) for column in columns)
    return f"CREATE VIEW {definition.quoted}{f' ({listed})' if listed else ''} AS {query}"


def create_storage(
    storage: TableName,
    definition: TableName,
    properties: Mapping[str, str],
    comment: str | None = None,
    clauses: Clauses = PLAIN,
) -> str:
    """The managed table that holds the versions' rows, a partition a version; no row yet.

    Made from the definition itself: no text that Spark prints of a type names every type so that it can be read back.
    """
    return (
        f"CREATE TABLE {storage.quoted} USING {clauses.file_format or 'parquet'} "
        f"PARTITIONED BY ({quote(VERSION_COLUMN)}){_buckets(clauses.distribution)}{_comment(comment)} "
        f"TBLPROPERTIES ({_pairs(properties)}) "
        f"AS SELECT *, CAST(0 AS BIGINT) AS {quote(VERSION_COLUMN)} FROM {definition.quoted} LIMIT 0"
    )


def _buckets(distribution: Distribution | None) -> str:
    """Spark's buckets; without columns or a number of them there are none."""
    if distribution is None or not distribution.columns or distribution.buckets is None:
        return ""
    order = f" SORTED BY ({_listed(distribution.sorted_by)})" if distribution.sorted_by else ""
    return f" CLUSTERED BY ({_listed(distribution.columns)}){order} INTO {distribution.buckets} BUCKETS"


def create_public_view(
    view: TableName,
    storage: TableName,
    columns: Sequence[str],
    version: int,
    comment: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> str:
    """The view that users read, over one version. Column comments come from the storage table."""
    listed = f" TBLPROPERTIES ({_pairs(properties)})" if properties else ""
    return f"CREATE VIEW {view.quoted}{_comment(comment)}{listed} AS {_shown(storage, columns, version)}"


def publish(view: TableName, storage: TableName, columns: Sequence[str], version: int) -> str:
    """The one statement that switches readers to `version`. (CREATE OR REPLACE VIEW would lose the properties.)"""
    return f"ALTER VIEW {view.quoted} AS {_shown(storage, columns, version)}"


def _shown(storage: TableName, columns: Sequence[str], version: int) -> str:
    return f"SELECT {', '.join(map(quote, columns))} FROM {storage.quoted} WHERE {VERSION_COLUMN} = {version}"


_NAME = r"`(?:[^`]|``)*`"
_SHOWN = re.compile(
    rf"SELECT {_NAME}(?:, {_NAME})* FROM (?:({_NAME})\.)?({_NAME})\.({_NAME}) WHERE {VERSION_COLUMN} = (\d+)"
)


def read_published(view_text: str) -> tuple[TableName, int] | None:
    """The storage table and the version that a public view's text shows; None if the text is not one of `publish`."""
    found = _SHOWN.fullmatch(view_text.strip())
    if found is None:
        return None
    *names, version = found.groups()
    parts = tuple(name[1:-1].replace("``", "`").lower() for name in names if name is not None)
    storage = TableName(parts[-2], parts[-1], parts[0]) if len(parts) == 3 else TableName(parts[0], parts[1])
    return storage, int(version)


def insert_version(
    storage: TableName, definition: TableName, version: int, clustering: Clustering | None = None
) -> str:
    """The rows of a version. A number is never used twice, so its partition is empty before."""
    order = ""
    if clustering is not None:
        order = f" DISTRIBUTE BY {_listed(clustering.distributed)}"
        order += f" SORT BY {_listed(clustering.sorted_by)}" if clustering.sorted_by else ""
    partition = f"PARTITION ({VERSION_COLUMN} = {version})"
    return f"INSERT INTO {storage.quoted} {partition} SELECT * FROM {definition.quoted}{order}"


def place_version(storage: TableName, version: int, location: str) -> str:
    """Makes a version's files lie below `location`, in a directory named after the storage table.

    The table stays a managed one, so that the files go with the version.
    """
    path = f"{location.rstrip('/')}/{storage.table}/{VERSION_COLUMN}={version}"
    return f"ALTER TABLE {storage.quoted} ADD PARTITION ({VERSION_COLUMN} = {version}) LOCATION {safe_literal(path)}"


def rename_view(view: TableName, renamed: TableName) -> str:
    return f"ALTER VIEW {view.quoted} RENAME TO {renamed.quoted}"


def analyze(storage: TableName, rest: str) -> str:
    """Statistics of the stored rows; `rest` is what follows the name in ANALYZE TABLE."""
    return f"ANALYZE TABLE {storage.quoted} {rest}"


def measure_versions(storages: Iterable[TableName]) -> str:
    """Rows of (storage, version, rows, bytes) for each version that has any row; no column is read."""
    return " UNION ALL ".join(
        f"SELECT {safe_literal(storage.table)} AS storage, version, sum(n) AS n, sum(bytes) AS bytes FROM ("
        f"SELECT {VERSION_COLUMN} AS version, _metadata.file_path AS path, max(_metadata.file_size) AS bytes, "
        f"count(*) AS n FROM {storage.quoted} GROUP BY {VERSION_COLUMN}, _metadata.file_path) GROUP BY version"
        for storage in storages
    )


def partition_values(source: TableName, partitioning: Partitioning, version: int | None) -> str:
    """Rows of (value as text, its type's name, number of rows) for each partition of the view's own.

    In a version of the storage table `source`; without a version, in all that the definition `source` yields.
    """
    column = quote(partitioning.column)
    value = column if partitioning.unit is None else f"date_trunc('{partitioning.unit}', {column})"
    where = "" if version is None else f" WHERE {VERSION_COLUMN} = {version}"
    return (
        f"SELECT CAST(value AS STRING) AS value, typeof(value) AS kind, n FROM ("
        f"SELECT {value} AS value, count(*) AS n FROM {source.quoted}{where} GROUP BY 1) ORDER BY value"
    )


def explain_definition(definition: TableName) -> str:
    """Shows the analyzed plan, with the functions that the definition calls in the end."""
    return f"EXPLAIN EXTENDED SELECT * FROM {definition.quoted}"


def drop_versions(storage: TableName, versions: Iterable[int]) -> str:
    """Rows and files of at least one version; versions that are not there are passed over."""
    partitions = ", ".join(f"PARTITION ({VERSION_COLUMN} = {version})" for version in versions)
    if not partitions:
        raise ValueError("no version to drop")
    return f"ALTER TABLE {storage.quoted} DROP IF EXISTS {partitions}"


def set_properties(storage: TableName, properties: Mapping[str, str]) -> str:
    """At least one property."""
    if not properties:
        raise ValueError("no property to set")
    return f"ALTER TABLE {storage.quoted} SET TBLPROPERTIES ({_pairs(properties)})"


def set_view_properties(view: TableName, properties: Mapping[str, str], comment: str | None) -> str:
    """Properties and comment of the public view; the metastore keeps the comment as one of them."""
    return f"ALTER VIEW {view.quoted} SET TBLPROPERTIES ({_pairs({**properties, 'comment': comment or ''})})"


def unset_view_properties(view: TableName, keys: Iterable[str]) -> str:
    """At least one key."""
    return f"ALTER VIEW {view.quoted} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(safe_literal, keys))})"


def unset_properties(storage: TableName, keys: Iterable[str]) -> str:
    """At least one key; those that are not there are passed over."""
    listed = ", ".join(map(safe_literal, keys))
    if not listed:
        raise ValueError("no property to unset")
    return f"ALTER TABLE {storage.quoted} UNSET TBLPROPERTIES IF EXISTS ({listed})"


def refresh_listing(definition: TableName) -> str:
    """Renews the session's file listings of all that the definition reads, through views and subqueries."""
    return f"REFRESH TABLE {definition.quoted}"


def drop_view(view: TableName) -> str:
    return f"DROP VIEW IF EXISTS {view.quoted}"


def drop_table(table: TableName) -> str:
    return f"DROP TABLE IF EXISTS {table.quoted}"


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(map(quote, columns))


def _comment(text: str | None) -> str:
    return "" if text is None else f" COMMENT {safe_literal(text)}"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{safe_literal(key)} = {safe_literal(value)}" for key, value in properties.items())
