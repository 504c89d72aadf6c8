"""A partly stale view, with the rows of its stale partitions computed anew by its definition.

Proofs rely on this text (docs/internals/proof.md, "Partly stale views").
"""

from __future__ import annotations

from collections.abc import Sequence

from sql.names import TableName, quote
from sql.texts.storage_layout import PartitionKey, Selection, StorageLayout, selected


def mixture(
    view: TableName,
    definition: TableName,
    columns: Sequence[str],
    layout: StorageLayout,
    stale: frozenset[PartitionKey],
) -> str:
    """The relation, as SQL: the view's rows outside the `stale` partitions, of which there is one at least, and the
    definition's rows inside.

    `columns` are the view's. The two conditions are the ones by which a refresh writes all but these partitions, and
    only these. For every value of the partition column, NULL included, exactly one of them is true.
    """
    if not stale:
        raise ValueError("no stale partition")
    listed = ", ".join(map(quote, columns))
    return (
        f"(SELECT {listed} FROM {view.quoted} WHERE {selected(Selection(stale), layout)} "
        f"UNION ALL SELECT {listed} FROM {definition.quoted} WHERE {selected(Selection(stale, all_but=False), layout)})"
    )
