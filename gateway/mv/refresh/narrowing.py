"""Narrows the changes of small tables, such as dimensions, before they are joined with large ones.

Tests: `test_narrowing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.mv.formats.table_format import Change
from gateway.mv.model.spark_types import are_exact, is_exact, sql_type
from gateway.mv.ports import SqlSession
from sql.increments import changed_rows
from sql.increments.named_keys import NAMED_TYPES, named_keys

CHANGED_BYTES_MAX = 64 * 2**20
"""Up to how many bytes of files with changed rows are compared with each other, or looked at in a statement of their
own."""
VALUES_MAX = 200
"""How many values of a column are named by constants."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is known of a table whose rows have changed."""

    columns: Sequence[tuple[str, str]]
    """With their types as JSON, which are empty if they are unknown."""
    joined: Sequence[str]
    """Those that the definition compares with columns of other relations."""

    def net(self, change: Change) -> Change:
        """Without rows that were removed and added again, as where files were written anew, if equal rows are the
        same."""
        if change.added is None or change.removed is None or not are_exact(self.columns):
            return change
        added, removed = changed_rows.net(change.added, change.removed)
        return replace(change, added=added, removed=removed, signed="")

    async def named(self, change: Change, session: SqlSession) -> Change:
        """With the few values of joined columns as constants; without rows, if there turn out to be none. Raises what
        Spark raises."""
        kinds = {name.lower(): kind for name, kind in self.columns}
        columns = [name for name in self.joined if _may_be_named(kinds[name.lower()])]
        changed = [query for query in (change.added, change.removed) if query is not None]
        if not columns or not changed:
            return change
        rows = (await session.run(changed_rows.few_values(changed, columns, VALUES_MAX))).rows
        if not rows:
            return replace(change, added=None, removed=None, signed="")
        values = named_keys(rows, len(columns)) if len(rows) <= VALUES_MAX else None
        if values is None:
            return change
        added, removed, signed = (
            changed_rows.restricted(query, columns, values) if query else query
            for query in (change.added, change.removed, change.signed)
        )
        return replace(change, added=added, removed=removed, signed=signed or "")


def _may_be_named(kind: str) -> bool:
    """Whether values of the type can be constants, or it is unknown."""
    return not kind or (is_exact(kind) and sql_type(kind) in NAMED_TYPES)
