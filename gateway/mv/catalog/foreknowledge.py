"""Judges what a gateway has read of views while another one led and could change them: a draft of the catalog.

A draft saves the time in which thousands of views are described. What it says of a view is believed only after another
look at that view (`mv.catalog.settlement`). What must be known before is which views there are, and under which names:
a read of an unknown name would be forwarded without a look. Lists of names say that, and are short.

Tests: `test_foreknowledge`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from sql.names import TableName

Listed = Mapping[str, Set[str]]
"""The names of the Spark views of databases; a database that cannot be listed is missing."""


@dataclass(frozen=True, slots=True)
class DraftVerdict:
    """What to do with each view of a draft, by id."""

    kept: frozenset[str]
    """It exists, and its name is still that of a Spark view."""
    gone: frozenset[str]
    """It has no storage table any more."""
    unsure: frozenset[str]
    """Its name may be another one now: it must be read anew."""
    appeared: frozenset[TableName]
    """Names that had no Spark view when the draft began. They may be new names of views that count as kept."""


def judge(names: Mapping[str, TableName], before: Listed, tables: Set[str], now: Listed) -> DraftVerdict:
    """`names`: those of the views of the draft, by id. `before`: lists from before the draft was read; `tables` and
    `now`: the names in the storage database and those lists, after this gateway has taken the epoch."""
    gone = frozenset(view_id for view_id in names if view_id not in tables)
    there = frozenset(
        view_id for view_id, name in names.items() if view_id not in gone and name.table in now.get(name.database, ())
    )
    # A database that was not listed before may have any name of now.
    appeared = frozenset(
        TableName(database, view) for database, views in now.items() for view in views - set(before.get(database, ()))
    )
    return DraftVerdict(there, gone, frozenset(names) - gone - there, appeared)
