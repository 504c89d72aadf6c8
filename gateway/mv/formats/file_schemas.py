"""Whether files that are read by their names have the columns that their table shows."""

from __future__ import annotations

import re

from gateway.errors import StatementFailed
from gateway.mv.ports import Relation, SqlSession
from sql.texts import maintenance

REFUSED = ("42", "58030")
"""The class of SQLSTATEs for statements that Spark cannot analyze, and that of queries of files for which it finds no
schema (FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY): their types cannot be merged."""
_PADDED = re.compile(r"\bchar\(\d+\)")
_LIMITED = re.compile(r"\bvarchar\(\d+\)")
_SHORTENED = " more fields"
"""In the text of a type of which Spark does not print all."""


async def difference(session: SqlSession, relation: Relation, query: str) -> str:
    """Why the table may show other rows than the query of its files; empty: it shows the same. The table is read with
    its own columns; the query, with those of all the files. Raises what Spark raises, apart from refusals of the query,
    as for files that all lack a column, or have it with types that cannot be merged."""
    described = (await session.run(maintenance.describe(relation.name))).rows[: len(relation.columns)]
    try:
        stored = [(name, kind) for name, kind, *_ in (await session.run(maintenance.query_types(query))).rows]
    except StatementFailed as error:
        if not error.sqlstate.startswith(REFUSED):
            raise
        return f"new files of {relation.name} have other columns: {error}"
    # Writers may leave out the blanks at the end of texts of a fixed length, which Spark adds when it reads the table.
    if any(_PADDED.search(kind) for _, kind, *_ in described):
        return f"{relation.name} has a column of the type CHAR"
    declared = [(name, _LIMITED.sub("string", kind)) for name, kind, *_ in described]
    if declared != stored or any(_SHORTENED in kind for _, kind in stored):
        return f"the new files of {relation.name} have other types than its columns"
    return ""
