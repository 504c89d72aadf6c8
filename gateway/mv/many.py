"""Sorting and JSON decoding of very many values, with pauses in which other threads can run.

A view may have a hundred thousand partitions. Processing them takes up to seconds, so it is done in a thread
(`loops.in_thread`). But a single call of `sorted` or `json.loads` would hold the interpreter's lock, and so block the
event loop, for a few hundred milliseconds.
"""

from __future__ import annotations

import heapq
import json
import json.scanner
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

SORTED_AT_ONCE = 2_000
DECODED_AT_ONCE = 100_000
"""Characters; these take a few milliseconds."""
_decoder = json.JSONDecoder()
# The scanner in Python: it takes half as long again, but releases the interpreter's lock between values.
_decoder.scan_once = json.scanner.py_make_scanner(_decoder)  # type: ignore[attr-defined]


def in_order(things: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """As `sorted`."""
    rest = iter(things)
    runs = list(iter(lambda: sorted(islice(rest, SORTED_AT_ONCE), key=key), []))
    return runs[0] if len(runs) == 1 else list(heapq.merge(*runs, key=key))


def decoded(text: str) -> Any:
    """As `json.loads`. Raises ValueError."""
    return json.loads(text) if len(text) <= DECODED_AT_ONCE else _decoder.decode(text)
