"""Tables whose source tells nothing of its changes, such as those behind JDBC, and of every format that is not known.

Their owner can say how a change shows: the table property `freshgate.watermark` is a column, of which the highest value
and the number of rows are compared, or a query that gives one row. Without it they cannot be observed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from gateway.errors import StatementFailed
from gateway.mv.formats.table_format import TableFormat, is_table
from gateway.mv.model.snapshot import Observed, Snapshot, Unobserved, fingerprint
from gateway.mv.ports import Relation, SqlSession
from sql.names import TableName, quote

WATERMARK = "freshgate.watermark"
_QUERY = re.compile(r"(?:SELECT|WITH)\b", re.IGNORECASE)


class OtherTables(TableFormat):
    title = "a table of another format"

    @classmethod
    def reads(cls, relation: Relation) -> bool:
        return is_table(relation)

    @classmethod
    async def complete(
        cls, session: SqlSession, relation: Relation, again: Callable[[], Awaitable[Relation]], *, identify: bool
    ) -> Relation:
        try:
            properties = (await session.run(f"SHOW TBLPROPERTIES {relation.name.quoted}")).rows
        except StatementFailed:
            # Catalogs of other sources may have no properties.
            return relation
        return replace(relation, watermark=next((str(text) for key, text, *_ in properties if key == WATERMARK), ""))

    async def look(self, table: TableName, relation: Relation, root: Relation | None) -> Observed:
        if not relation.watermark or table.aspect:
            what = f"tables of the format {relation.provider}" if relation.provider else "tables without a format"
            return Unobserved(f"{table}: {what} cannot be observed without the table property {WATERMARK}")
        statement = statement_of(relation)
        if statement is None:
            names = ", ".join(name for name, _ in relation.columns)
            return _unusable(table, f"is neither a column ({names}) nor a query: {relation.watermark}")
        async with self._tools.listings.session() as session:
            try:
                rows = (await session.run(statement)).rows
            except StatementFailed as error:
                return _unusable(table, f"cannot be read: {error}")
        if len(rows) != 1:
            return _unusable(table, f"gives {'no row' if not rows else 'several rows'} instead of one")
        return Snapshot(_identity(relation), fingerprint(json.dumps([str(value) for value in rows[0]])))


def statement_of(relation: Relation) -> str | None:
    """The statement that reads the watermark, with two rows at most; None if the property has no valid value. Whatever
    the property says, the statement is a query: in parentheses, nothing else is accepted by Spark."""
    given = relation.watermark.strip()
    column = next((name for name, _ in relation.columns if name.lower() == given.lower()), None)
    if column is not None:
        return f"SELECT max({quote(column)}), count(*) FROM {relation.name.quoted}"
    if not _QUERY.match(given):
        return None
    # A comment at the end of the text must not swallow the parenthesis.
    return f"SELECT * FROM ({given}\n) LIMIT 2"


def _unusable(table: TableName, why: str) -> Unobserved:
    return Unobserved(f"{table}: its table property {WATERMARK} {why}")


def _identity(relation: Relation) -> str:
    """Another watermark says nothing about rows that were read before."""
    columns = json.dumps(relation.columns)
    return fingerprint("watermark", relation.created, relation.provider, relation.reading, columns, relation.watermark)
