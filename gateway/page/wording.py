"""How the page writes times, sizes and links.

Tests: `test_browser_page`.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from urllib.parse import quote

from gateway.status.text import duration
from sql.names import TableName

MINUTE = 60
NOTHING = "-"
SYMBOLS = {
    "FRESH": "●",
    "FRESH_WITHIN_GRACE": "◐",
    "STALE": "○",
    "LATE": "○",
    "UNKNOWN": "?",
    "DAMAGED": "✖",
    "FAILING": "✖",
    "FAILED": "✖",
    "SUCCESS": "✔",
    "PAUSED": "⏸",
    "SLOW": "▷",
    "RUNNING": "▶",
    "PENDING": "…",
    "CANCELED": "■",
}
"""Beside each word, so that nobody needs its colour."""


def age(milliseconds: int) -> str:
    """How long ago this moment was, to the minute, so that a page without changes stays the same for a while."""
    if not milliseconds:
        return NOTHING
    seconds = time.time() - milliseconds / 1000
    return "now" if -MINUTE < seconds < MINUTE else ahead(milliseconds) if seconds < 0 else f"{_coarse(seconds)} ago"


def ahead(milliseconds: int) -> str:
    """In how long this moment is."""
    if not milliseconds:
        return NOTHING
    seconds = milliseconds / 1000 - time.time()
    return "due" if seconds < 0 else "in less than a minute" if seconds < MINUTE else f"in {_coarse(seconds)}"


def _coarse(seconds: float) -> str:
    return duration(seconds // MINUTE * MINUTE)


def moment(milliseconds: int) -> str:
    """The moment in UTC."""
    if not milliseconds:
        return NOTHING
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def took(milliseconds: float | None) -> str:
    """A duration."""
    if milliseconds is None:
        return NOTHING
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 60_000 else duration(milliseconds / 1000)


def number(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def symbol(word: str) -> str:
    return SYMBOLS.get(word, "")


def state_class(word: str) -> str:
    """A class of the style sheet."""
    return f"state-{word.lower().replace('_', '-').replace(' ', '-')}"


def link(kind: str, name: TableName) -> str:
    """The address of a view ("views") or of its lineage ("lineage"). A name may contain anything."""
    return f"/{kind}/{quote(name.database, safe='')}/{quote(name.table, safe='')}"


def json_of(value: Any) -> Any:
    """The same value in JSON's types, which have no infinite numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, TableName):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_of(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_of(each) for each in value]
    return value


FILTERS: dict[str, Callable[..., Any]] = {
    "age": age,
    "ahead": ahead,
    "moment": moment,
    "took": took,
    "number": number,
    "symbol": symbol,
    "state_class": state_class,
}
