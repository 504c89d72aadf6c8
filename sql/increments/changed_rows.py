"""Changed rows of a table that is joined with others: without those that came and left again, and with the values of
the columns that the join compares as constants. From constants, Spark infers which files of the other tables it can
skip.

Tests: `test_increment_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sql.increments.named_keys import NamedKeys
from sql.names import quote

_ROWS = "`freshgate_changed`"


def net(added: str, removed: str) -> tuple[str, str]:
    """The queries `added` and `removed` without rows that are in both, as often as they are."""
    return f"({added}) EXCEPT ALL ({removed})", f"({removed}) EXCEPT ALL ({added})"


def few_values(changed: Sequence[str], columns: Sequence[str], most: int) -> str:
    """Rows of the values of the columns as strings, then their types, in the queries `changed`; no more than one beyond
    `most`."""
    rows = " UNION ALL ".join(f"({query})" for query in changed)
    names = [quote(column) for column in columns]
    items = [*(f"CAST({name} AS STRING)" for name in names), *(f"typeof({name})" for name in names)]
    distinct = f"SELECT DISTINCT {', '.join(names)} FROM ({rows}) AS {_ROWS}"
    return f"SELECT {', '.join(items)} FROM ({distinct}) LIMIT {most + 1}"


def restricted(changed: str, columns: Sequence[str], values: NamedKeys) -> str:
    """The rows of the query `changed`, all of which have these values of the columns."""
    conditions = (f"({values.condition(number, quote(column))})" for number, column in enumerate(columns))
    return f"SELECT * FROM ({changed}) AS {_ROWS} WHERE {' AND '.join(conditions)}"
