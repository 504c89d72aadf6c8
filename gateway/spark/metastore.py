"""Reads Spark's metastore through SQL: what exists, its columns and properties.

All reads are statements of Spark 4 (DESCRIBE … AS JSON, SHOW …), so an embedded engine and any Thrift server are read
the same way, and a session at an older Spark answers them too (`gateway.spark.older`). Tables of Delta, Iceberg and
other catalogs do not support AS JSON: their plain DESCRIBE is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from gateway.errors import StatementFailed
from gateway.mv.formats.known_formats import format_of
from gateway.mv.model.snapshot import fingerprint
from gateway.mv.ports import UNKNOWN_SETTINGS, Function, Relation, RelationKind, Rows, ServiceSessions, SqlSession
from gateway.spark.printed_description import read_description, type_of, unquoted
from sql.grammar.cursor import NOT_SUPPORTED
from sql.names import SESSION_CATALOG, Namespace, TableName, quote, quoted_database
from sql.spark_settings import applied
from sql.texts import observation

NOT_FOUND = frozenset({"42P01", "42704"})
"""SQLSTATEs of TABLE_OR_VIEW_NOT_FOUND and SCHEMA_NOT_FOUND."""
VOLATILE_PROPERTIES = re.compile(
    r"transient_lastDdlTime|last_modified_\w+|num(Files|Rows|Partitions|FilesErasureCoded)|totalSize|rawDataSize"
    r"|COLUMN_STATS_ACCURATE|STATS_\w+|DO_NOT_UPDATE_STATS|comment|(spark|impala|freshgate)\..*",
    re.IGNORECASE,
)
"""Properties of Hive tables that change with statistics, or do not affect how files are read."""
_OWN_FILE_FORMATS = frozenset(
    {
        "org.apache.hadoop.mapred.TextInputFormat",
        "org.apache.hadoop.mapred.SequenceFileInputFormat",
        "org.apache.hadoop.hive.ql.io.RCFileInputFormat",
        "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat",
    }
)
"""Hive's input formats that read the files in the table's directories. Others read files listed elsewhere
(SymlinkTextInputFormat), or leave out uncommitted ones (Hudi's)."""
_CONVERTED = {
    "parquet": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "orc": "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
}
"""The formats for which Spark may use its own reader, with Hive's input format."""
PLAIN_OPTIONS = frozenset({"serialization.format"})
"""Options of a Hive table that do not change how its files are read."""
NO_FUNCTION = NOT_FOUND | {"42883"}
"""SQLSTATEs of UNRESOLVED_ROUTINE and ROUTINE_NOT_FOUND, in addition to NOT_FOUND."""
_PLAIN = re.compile(r"\w+", re.ASCII)
"""A name that Hive's metastore accepts."""


class SparkMetastore:
    """Implements `mv.ports.Metastore` over the gateway's own sessions."""

    def __init__(self, sessions: ServiceSessions) -> None:
        self._sessions = sessions

    async def run(self, sql: str) -> Rows:
        async with self._sessions.session() as session:
            return await session.run(sql)

    async def relation(self, name: TableName, *, identify: bool = True) -> Relation | None:
        for last in (False, True):
            try:
                return await self._describe(name, identify=identify)
            except StatementFailed as error:
                if error.sqlstate not in NOT_FOUND:
                    raise
                if not await self._is_listed(name):
                    return None
                if last:
                    raise
        return None

    async def _describe(self, name: TableName, *, identify: bool) -> Relation:
        async with self._sessions.session() as session:
            try:
                answer = await session.run(f"DESCRIBE TABLE EXTENDED {name.quoted} AS JSON")
            except StatementFailed as error:
                if error.sqlstate != NOT_SUPPORTED:
                    raise
                return await _describe_plainly(session, name, identify=identify)
            relation = _relation(name, json.loads(answer.rows[0][0]))
            return await _completed(session, relation, partial(_described_again, session, name), identify=identify)

    async def _is_listed(self, name: TableName) -> bool:
        """Whether a table or view exists although Spark reported that it was not found.

        If its database does not answer for a moment, Hive's metastore reports that a namespace does not exist
        (ObjectStore.getDatabase), and Spark then reports that its tables are not found. Listing them fails with a real
        error instead.
        """
        if name.catalog != SESSION_CATALOG or not _PLAIN.fullmatch(name.table):
            return False
        listed = await self._names(
            f"SHOW TABLES IN {quoted_database(name.database)} LIKE '{name.table}'", name.database
        )
        return name.table in listed

    async def databases(self) -> frozenset[str]:
        return frozenset(row[0].lower() for row in (await self.run(f"SHOW DATABASES IN {quote(SESSION_CATALOG)}")).rows)

    async def tables(self, database: str) -> frozenset[str]:
        return await self._names(f"SHOW TABLES IN {quoted_database(database)}", database)

    async def views(self, database: str, pattern: str = "*") -> frozenset[str]:
        like = "" if pattern == "*" else f" LIKE '{pattern}'"
        return await self._names(f"SHOW VIEWS IN {quoted_database(database)}{like}", database)

    async def _names(self, sql: str, database: str) -> frozenset[str]:
        """The names in a result of (namespace, name, isTemporary)."""
        try:
            answer = await self.run(sql)
        except StatementFailed as error:
            # A missing database is believed only if the list of databases confirms it (`_is_listed`).
            if error.sqlstate in NOT_FOUND and database not in await self.databases():
                return frozenset()
            raise
        return frozenset(row[1].lower() for row in answer.rows if row[2] not in (True, "true"))

    async def function(self, name: TableName) -> Function | None:
        async with self._sessions.session(fresh=True) as session:
            try:
                answer = await session.run(f"DESCRIBE FUNCTION EXTENDED {name.quoted}")
            except StatementFailed as error:
                if error.sqlstate not in NO_FUNCTION:
                    raise
                # As with relations, a missing function is believed only if the list confirms it.
                if name.table in await self._functions(session.run, name.database):
                    raise
                return None
        return _function([str(row[0]) for row in answer.rows], Namespace(name.database))

    async def functions(self, database: str) -> frozenset[str]:
        return await self._functions(self.run, database)

    async def _functions(self, run: Callable[[str], Awaitable[Rows]], database: str) -> frozenset[str]:
        of_session = f"{quote(SESSION_CATALOG)}.{quote(database)}"
        try:
            answer = await run(f"SHOW USER FUNCTIONS IN {of_session}")
        except StatementFailed as error:
            if error.sqlstate in NOT_FOUND and database not in await self.databases():
                return frozenset()
            raise
        # Functions of the session and of extensions have no database.
        listed = [row[0].lower().split(".") for row in answer.rows]
        return frozenset(parts[-1] for parts in listed if len(parts) > 1)

    async def properties(self, table: TableName) -> Mapping[str, str]:
        answer = await self.run(f"SHOW TBLPROPERTIES {table.quoted}")
        return {row[0]: row[1] for row in answer.rows}


# --- DESCRIBE … AS JSON --------------------------------------------------------------------------------


def _relation(name: TableName, described: dict[str, Any]) -> Relation:
    columns = tuple((column["name"], json.dumps(column["type"])) for column in described.get("columns", ()))
    created = str(described.get("created_time", ""))
    if described.get("type") != "VIEW":
        return Relation(
            name,
            RelationKind.TABLE,
            columns=columns,
            created=created,
            provider=_provider(described),
            location=described.get("location", ""),
            partition_columns=tuple(described.get("partition_columns", ())),
            partitions_listed=described.get("partition_provider") == "Catalog",
            reading=_reading(described),
            converted=_converted(described),
        )
    if described.get("catalog_name") == "system":
        return Relation(name, RelationKind.TEMPORARY_VIEW, columns=columns)
    catalog, _, database = described.get("view_catalog_and_namespace", "").partition(".")
    settings = described.get("view_creation_spark_configuration") or {}
    outputs, collation = described.get("view_query_output_columns") or (), described.get("collation", "")
    return Relation(
        name=name,
        kind=RelationKind.VIEW,
        view_text=described.get("view_text", ""),
        namespace=Namespace(unquoted(database) or name.database, catalog or name.catalog),
        columns=columns,
        created=created,
        reading=fingerprint(json.dumps([settings, outputs, collation], sort_keys=True)),
        settings=settings if settings == UNKNOWN_SETTINGS else applied(settings),
        outputs=tuple(outputs),
        collation=collation,
    )


def _provider(described: dict[str, Any]) -> str:
    provider = str(described.get("provider", "")).lower()
    handler = described.get("table_properties", {}).get("storage_handler")
    if provider == "hive" and handler is None:
        input_format = described.get("input_format")
        handler = None if input_format in _OWN_FILE_FORMATS else input_format
    return f"{provider} with {handler}" if handler else provider


def _converted(described: dict[str, Any]) -> str:
    """As `Relation.converted`. The names of the serdes are those of Spark's rule RelationConversions."""
    options = described.get("storage_properties") or {}
    # Spark 3.5 prints the options as one text.
    if described.get("provider") != "hive" or not isinstance(options, dict) or options.keys() - PLAIN_OPTIONS:
        return ""
    serde = str(described.get("serde_library", "")).lower()
    for name, input_format in _CONVERTED.items():
        if name in serde and described.get("input_format") == input_format:
            properties = frozenset(described.get("table_properties", {})) - {f"{name}.compression", f"{name}.compress"}
            return "" if any(key.startswith(f"{name}.") for key in properties) else name
    return ""


def _reading(described: dict[str, Any]) -> str:
    """A fingerprint of serde and options; for Hive tables also of the properties, which the serde gets."""
    parts = {key: described.get(key) for key in ("serde_library", "input_format", "storage_properties")}
    if described.get("provider") == "hive":
        properties = described.get("table_properties", {})
        parts["table_properties"] = {
            key: text for key, text in properties.items() if not VOLATILE_PROPERTIES.fullmatch(key)
        }
    return fingerprint(json.dumps(parts, sort_keys=True))


# --- DESCRIBE FUNCTION ---------------------------------------------------------------------------------------

_USAGE = "Usage: "
_SQL_FUNCTION = "sqlFunction."
_NAMESPACE_PART = "catalogAndNamespace.part."


def _function(rows: list[str], namespace: Namespace) -> Function:
    """Reads DESCRIBE FUNCTION; of a SQL function, `Usage` has all that is stored, as JSON."""
    described = "\n".join(rows)
    usage = next((row.removeprefix(_USAGE) for row in rows if row.startswith(_USAGE)), "")
    if not any(row == f"Class: {_SQL_FUNCTION}" for row in rows):
        return Function(described)
    try:
        parts: dict[str, str] = json.loads(usage)
    except ValueError as error:
        raise StatementFailed(f"Spark's description of the SQL function cannot be read: {usage[:100]}") from error
    # This is when the session loaded the function, not when it was created.
    parts.pop(f"{_SQL_FUNCTION}createTime", None)
    query, expression = (parts.get(f"{_SQL_FUNCTION}{part}", "") for part in ("query", "expression"))
    catalog, database = (parts.get(f"{_NAMESPACE_PART}{place}", "") for place in (0, 1))
    known = Namespace(database or namespace.database, catalog or namespace.catalog)
    return Function(json.dumps(parts, sort_keys=True), query or expression, is_query=bool(query), namespace=known)


# --- DESCRIBE of tables of other catalogs ------------------------------------------------------------------


async def _describe_plainly(session: SqlSession, name: TableName, *, identify: bool) -> Relation:
    try:
        relation = await _described_again(session, name)
    except StatementFailed as error:
        if error.sqlstate in NOT_FOUND:
            raise
        # Spark reads files of the table that the session has cached. Since it was created again, they may be gone.
        await session.run(observation.renew(name))
        relation = await _described_again(session, name)
    return await _completed(session, relation, partial(_described_again, session, name), identify=identify)


async def _described_again(session: SqlSession, name: TableName) -> Relation:
    return _described(name, (await session.run(f"DESCRIBE TABLE EXTENDED {name.quoted}")).rows)


async def _completed(
    session: SqlSession, relation: Relation, again: Callable[[], Awaitable[Relation]], *, identify: bool
) -> Relation:
    found = format_of(relation)
    return relation if found is None else await found.complete(session, relation, again, identify=identify)


def _described(name: TableName, rows: list[tuple[Any, ...]]) -> Relation:
    found = read_description(rows)
    detail = found.detail or {}
    known = {column.lower() for column, _ in found.columns}
    return Relation(
        name,
        RelationKind.TABLE,
        columns=tuple((column, json.dumps(type_of(kind))) for column, kind in found.columns),
        provider=detail.get("Provider", "").lower(),
        location=detail.get("Location", ""),
        partition_columns=found.partitioned_by if all(part.lower() in known for part in found.partitioned_by) else (),
        transforms=found.transforms,
    )
