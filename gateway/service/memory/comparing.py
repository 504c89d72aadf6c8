"""Whether an answer from memory is Spark's: the same rows, in the same order where the query has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gateway.wire.columnar import Value
from sql.memory.translation import EngineQuery

Row = Sequence[Value]


def difference(query: EngineQuery, found: Iterable[Row], wanted: Iterable[Row]) -> str | None:
    """What differs between the engine's rows and Spark's; None if nothing does that can be told.

    Rows of a query with several right answers (a LIMIT among equal rows) are only counted, and compared by what orders
    them, as far as all right answers have that in common.
    """
    if not query.counted:
        return None
    ours, sparks = [tuple(map(_comparable, row)) for row in found], [tuple(map(_comparable, row)) for row in wanted]
    if len(ours) != len(sparks):
        return f"{len(ours)} rows instead of {len(sparks)}"
    if query.determined and (missing := Counter(sparks) - Counter(ours)):
        return f"{missing.total()} of {len(sparks)} rows differ"
    if query.order and [_keys(query, row) for row in ours] != [_keys(query, row) for row in sparks]:
        return "the rows have another order"
    return None


def _keys(query: EngineQuery, row: tuple[object, ...]) -> tuple[object, ...]:
    """What orders a row, where -0.0 and 0.0 are equal."""
    return tuple("0.0" if row[each] == "-0.0" else row[each] for each in query.order)


def _comparable(value: Value) -> object:
    """A value that is equal to itself, and of which -0.0 is not 0.0."""
    return repr(value) if isinstance(value, float) else value
