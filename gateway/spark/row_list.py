"""A result in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RowList:
    """A whole result: column names and rows. Decimals, dates, timestamps and nested values are strings."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
