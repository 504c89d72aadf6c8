"""Whether the rows of a view, or of a base table, are held in memory, as far as people are told.

`mv.memory` decides and changes it; everything else only reads it. Tests: `test_residence`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from gateway.mv.model.view import MaterializedView
from sql.grammar import view_properties
from sql.names import TableName
from sql.statement import Security


class Held(StrEnum):
    """Whether the rows of the current version are in memory."""

    LOADED = "LOADED"
    LOADING = "LOADING"
    WAITING = "WAITING"
    """They will be loaded, unless something else happens."""
    NOT_LOADED = "NOT_LOADED"


class Wish(StrEnum):
    """What asks for the rows of a view to be in memory."""

    VIEW = "VIEW"
    """The view says IN MEMORY."""
    READS = "READS"
    """It was read so often."""


@dataclass(frozen=True, slots=True)
class Residence:
    """What is known of a view that is to be in memory, or is."""

    held: Held
    asked: Wish
    why: str = ""
    """Why it is not loaded, or waits; empty if it is."""
    version: int = -1
    """The version that is loaded; -1: none."""
    rows: int | None = None
    bytes: int | None = None
    since: int | None = None
    """When it was loaded, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class TableResidence:
    """What is known of a base table that is wanted in memory beside views."""

    name: TableName
    residence: Residence
    answers: int
    """The reads that were answered from its rows, since it came to be wanted."""


NOT_LOOKED = "it was not looked at yet"
PUBLISHED = "its current version was just published"
INVOKER = "with SECURITY INVOKER, its readers may be shown different rows"
NOT_BUILT = "it was never built"


def refused(view: MaterializedView) -> str:
    """Why the view's rows may not be in memory, whatever else is known; empty if they may."""
    return INVOKER if view.security is Security.INVOKER else ""


class Residences:
    """What is known of each view, by id. A view that is dropped is forgotten by whoever has set it."""

    def __init__(self) -> None:
        self.off = "no view was looked at yet"
        """Why; empty if it does."""
        self._known: dict[str, Residence] = {}
        self.answers = Counter[str]()
        """The reads that were answered from the rows of a view, by its id, since it came to be wanted in memory."""
        self.tables: Callable[[], Iterable[TableResidence]] = lambda: ()
        """The base tables that are wanted in memory, by name."""

    def set(self, view_id: str, residence: Residence | None) -> None:
        """`None`: the view is neither wanted in memory nor there."""
        if residence is None:
            self._known.pop(view_id, None)
            self.answers.pop(view_id, None)
        else:
            self._known[view_id] = residence

    def of(self, view: MaterializedView) -> Residence | None:
        """None: the view is not wanted in memory."""
        wanted, known = view_properties.in_memory(view.properties), self._known.get(view.id)
        if wanted is False or (wanted is None and known is None):
            return None
        asked = Wish.VIEW if wanted or known is None else known.asked
        if why := self.off or refused(view) or ("" if view.built else NOT_BUILT):
            return Residence(Held.NOT_LOADED, asked, why)
        if known is None:
            return Residence(Held.WAITING, asked, NOT_LOOKED)
        if known.held is Held.LOADED and known.version != view.current.number:
            return Residence(Held.WAITING, asked, PUBLISHED)
        return replace(known, asked=asked)
