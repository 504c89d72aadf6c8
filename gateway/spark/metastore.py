"""Spark's metastore through SQL: what exists, its columns and properties.

Everything goes through statements of Spark 4 (DESCRIBE … AS JSON, SHOW …), so that an embedded engine and any Thrift
server are asked the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gateway.errors import StatementFailed
from gateway.mv.ports import Relation, RelationKind, Rows, Sessions
from sql.names import Namespace, TableName, quote

NOT_FOUND = frozenset({"42P01", "42704"})
"""SQLSTATEs of TABLE_OR_VIEW_NOT_FOUND and SCHEMA_NOT_FOUND."""


class SparkMetastore:
    """Implements `mv.ports.Metastore` over service sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def run(self, sql: str) -> Rows:
        async with self._sessions.session() as session:
            return await session.run(sql)

    async def relation(self, name: TableName) -> Relation | None:
        try:
            answer = await self.run(f"DESCRIBE TABLE EXTENDED {name.quoted} AS JSON")
        except StatementFailed as error:
            if error.sqlstate in NOT_FOUND:
                return None
            raise
        return _relation(name, json.loads(answer.rows[0][0]))

    async def databases(self) -> frozenset[str]:
        return frozenset(row[0].lower() for row in (await self.run("SHOW DATABASES")).rows)

    async def tables(self, database: str) -> frozenset[str]:
        return await self._names(f"SHOW TABLES IN {quote(database)}")

    async def views(self, database: str) -> frozenset[str]:
        return await self._names(f"SHOW VIEWS IN {quote(database)}")

    async def _names(self, sql: str) -> frozenset[str]:
        """The names in an answer of (namespace, name, isTemporary)."""
        try:
            answer = await self.run(sql)
        except StatementFailed as error:
            if error.sqlstate in NOT_FOUND:
                return frozenset()
            raise
        return frozenset(row[1].lower() for row in answer.rows if row[2] not in (True, "true"))

    async def properties(self, table: TableName) -> Mapping[str, str]:
        answer = await self.run(f"SHOW TBLPROPERTIES {table.quoted}")
        return {row[0]: row[1] for row in answer.rows}

    async def versions(self, table: TableName) -> frozenset[int]:
        """Reads `freshgate_version=8` or `freshgate_version=8/d=3`."""
        answer = await self.run(f"SHOW PARTITIONS {table.quoted}")
        first_levels = (row[0].split("/", 1)[0].split("=", 1)[1] for row in answer.rows)
        return frozenset(int(version) for version in first_levels if version.isdigit())


def _relation(name: TableName, described: dict[str, Any]) -> Relation:
    columns = tuple((column["name"], json.dumps(column["type"])) for column in described.get("columns", ()))
    created = str(described.get("created_time", ""))
    if described.get("type") != "VIEW":
        return Relation(name, RelationKind.TABLE, columns=columns, created=created)
    if described.get("catalog_name") == "system":
        return Relation(name, RelationKind.TEMPORARY_VIEW, columns=columns)
    catalog, _, database = described.get("view_catalog_and_namespace", "").partition(".")
    return Relation(
        name=name,
        kind=RelationKind.VIEW,
        view_text=described.get("view_text", ""),
        namespace=Namespace(_unquoted(database) or name.database, catalog or name.catalog),
        columns=columns,
        created=created,
    )


def _unquoted(identifier: str) -> str:
    if identifier.startswith("`") and identifier.endswith("`"):
        return identifier[1:-1].replace("``", "`")
    return identifier
