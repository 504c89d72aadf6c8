"""Spark's functions, by what an incremental refresh can do with them."""

from __future__ import annotations

from sql.definition.determinism import CHANGING_FUNCTIONS, DATE_FUNCTIONS, UNSEEDED

TIMES = frozenset({"session_window", "window", "window_time"})
"""Functions that make windows of time, which may overlap or grow together."""
CHANGING = CHANGING_FUNCTIONS | DATE_FUNCTIONS | {UNSEEDED}
NOW_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp"})
"""Without arguments they are the current time."""
QUANTIFIERS = frozenset({"any", "some", "all"})
"""Behind LIKE these are not functions."""
