"""The watched views, and the statements that may be changing them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count

from sql.words import Words


@dataclass(frozen=True, slots=True)
class Suspect:
    """A statement that may change views. `text` contains no password; `words` are its names, case-folded."""

    user: str
    session: str
    statement: int
    text: str
    words: Words = frozenset()
    changes_properties: bool = False
    """Whether it may change comment and properties."""


@dataclass(slots=True, eq=False)
class Watch:
    """The views that a statement may have changed, until they have been checked after its end."""

    suspect: Suspect
    views: frozenset[str]
    ended_at: int | None = None
    """The moment from which on it changes nothing more; None while it may."""


@dataclass(slots=True)
class Watched:
    """A watched view."""

    watches: dict[Watch, None] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    confirmed: int = 0
    """The moment when the last check began that found the view correct or restored it."""


class Watches:
    """Watched views by id. Moments are increasing numbers."""

    def __init__(self) -> None:
        self._watched: dict[str, Watched] = {}
        self._moments = count(1)

    def __len__(self) -> int:
        return len(self._watched)

    def __contains__(self, view_id: str) -> bool:
        return view_id in self._watched

    def moment(self) -> int:
        """A moment later than all earlier ones."""
        return next(self._moments)

    def find(self, view_id: str) -> Watched | None:
        return self._watched.get(view_id)

    def suspects(self, view_id: str) -> tuple[Suspect, ...]:
        """The statements that may have changed this view."""
        watched = self._watched.get(view_id)
        return tuple(watch.suspect for watch in watched.watches) if watched else ()

    def add(self, watch: Watch) -> None:
        for view_id in watch.views:
            self._watched.setdefault(view_id, Watched()).watches[watch] = None

    def confirm(self, view_id: str, watched: Watched, began: int) -> None:
        """Records that a check that began at this moment found the view correct or restored it. Statements that had
        ended before are no longer suspected."""
        watched.confirmed = began
        for watch in [each for each in watched.watches if each.ended_at is not None and each.ended_at < began]:
            del watched.watches[watch]
        if not watched.watches and self._watched.get(view_id) is watched:
            del self._watched[view_id]

    def forget(self, view_id: str) -> None:
        self._watched.pop(view_id, None)
