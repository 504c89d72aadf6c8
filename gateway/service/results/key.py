"""What an answer depends on."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.mv.model.view import MaterializedView
from sql.names import Namespace


@dataclass(frozen=True, slots=True)
class Seen:
    """A materialized view as a query reads it. Rows of a version never change."""

    view_id: str
    version: int
    settings: tuple[object, ...]
    """Those of the view, so that ALTER ends its answers."""

    @classmethod
    def of(cls, view: MaterializedView) -> Seen:
        settings = view.name, view.comment, *sorted(view.properties.items())
        return cls(view.id, view.current.number, settings)


@dataclass(frozen=True, slots=True)
class Key:
    """Queries with equal keys have the same answer, byte by byte."""

    text: str
    user: str
    """As Spark sees him; empty if all users have the same rights."""
    protocol: int
    """The session's, counted from 0: it decides the format of pages."""
    settings: str
    """The session's `settings.id`, which also covers whose proxy it is."""
    namespace: Namespace
    views: frozenset[Seen]
    """All that the query reads."""

    @property
    def bytes(self) -> int:
        return 2 * len(self.text) + 200 * len(self.views)
