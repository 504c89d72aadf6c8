"""Why a refresh cannot be incremental."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The words that EXPLAIN REFRESH and tasks use; docs/how-to/incremental.md explains each."""

    OPERATOR = "OPERATOR"
    """The definition has a clause whose result does not follow from the changed rows."""
    AGGREGATE_NOT_ON_TOP = "AGGREGATE_NOT_ON_TOP"
    FUNCTION_NOT_MERGEABLE = "FUNCTION_NOT_MERGEABLE"
    NOT_DETERMINISTIC = "NOT_DETERMINISTIC"
    NULL_SIDE_CHANGED = "NULL_SIDE_CHANGED"
    """A table changed whose new rows can make old rows of the view wrong: the null side of an outer join, or the
    condition of a semi or anti join."""
    ROWS_REMOVED = "ROWS_REMOVED"
    LATE_FILE = "LATE_FILE"
    """A file appeared with a time before the last refresh."""
    TOO_MANY_FILES = "TOO_MANY_FILES"
    HISTORY_GONE = "HISTORY_GONE"
    """The state that the view contains is no longer known, or the table's history since then is gone."""
    BASE_REPLACED = "BASE_REPLACED"
    HIVE_TEXT = "HIVE_TEXT"
    """A table whose files Spark reads with Hive's classes."""
    PROVIDER = "PROVIDER"
    """Changes of a table of this format cannot be found."""
    STATES_MISSING = "STATES_MISSING"
    """The stored rows lack what a merge needs; the next complete refresh adds it."""
    CHANGED_WHILE_READ = "CHANGED_WHILE_READ"
    DEARER = "DEARER"


class NotIncremental(Exception):
    """A refresh by rows is not possible; `detail` is for people."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail
