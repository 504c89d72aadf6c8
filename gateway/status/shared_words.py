"""The words that `freshgate status` and the page share, and their order. What is wrong with a view, and what to do, the
gateway says itself (`mv.freshness.troubles`).

Tests: `test_surfaces_in_step`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

FRESHNESS_ORDER = ("FRESH", "FRESH_WITHIN_GRACE", "STALE", "UNKNOWN", "DAMAGED")
NO_VIEWS = "No materialized views"
GUARD = "Guard inside Spark"
SERVERS = "Spark servers"
LIMITS = "At a limit"
AUDIT = "Audit"
NOTHING_WRONG = "Nothing is wrong with any view."
GATEWAY_HEADS = ("Gateway", "Role", "For", "Epoch", "Clients", "Version")
ATTENTION_HEADS = ("What", "View", "Since", "Why", "What to do")
VIEW_HEADS = ("View", "State", "Stale for", "Refreshed", "Trigger", "Next", "Last task")
"""Those of a list of views that the page and the terminal both have."""


def lost_lines(number: int) -> str:
    return f"{number:,} line{'' if number == 1 else 's'} could not be written"


def views(number: int) -> str:
    if not number:
        return NO_VIEWS
    return f"{number:,} materialized {'view' if number == 1 else 'views'}"


def in_memory(rows: int | None, size: int | None) -> str:
    """What is loaded of a view."""
    return f"loaded, {rows or 0:,} rows, {mebibytes(size or 0)}"


def not_in_memory(state: str, why: str | None) -> str:
    """`state`: LOADING, WAITING or NOT_LOADED."""
    word = state.lower().replace("_", " ")
    return word + (f", because {why}" if why else "")


def views_in_memory(loaded: int, wanted: int, size: int, tables: Sequence[int] = ()) -> str:
    """How many of the views that are to be in memory are there, and the bytes of their rows. `tables`: the bytes of the
    base tables that are there."""
    views = f"In memory: {loaded:,} of {wanted:,} {'view' if wanted == 1 else 'views'}, {mebibytes(size)}"
    if not tables:
        return views
    return f"{views}; {len(tables):,} base {'table' if len(tables) == 1 else 'tables'}, {mebibytes(sum(tables))}"


def mebibytes(number: int) -> str:
    return f"{number / (1 << 20):,.1f} MiB"


def by_freshness(counts: Mapping[str, int]) -> Counter[str]:
    """Views by freshness, in the order in which they are told; those without views are left out."""
    known = [*FRESHNESS_ORDER, *sorted(counts.keys() - set(FRESHNESS_ORDER))]
    return Counter({word: counts[word] for word in known if counts.get(word)})
