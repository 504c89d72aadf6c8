"""What is known of the rights of users to the definitions of views, and believed for a time.

Tests: `test_readers_rights`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.mv.model.view import MaterializedView, Schema
from sql.mentioned import Mentioned
from sql.names import TableName

KEPT_MAX = 20_000
"""Views times users. Each takes some 300 bytes."""


@dataclass(frozen=True, slots=True)
class _KnownRight:
    until: float
    reason: str
    """What the user lacks; empty if nothing."""
    tables: frozenset[TableName]
    """What the view reads."""
    schemas: Mapping[TableName, Schema]
    """The base tables, as the view's last refresh saw them."""


class KnownRights:
    """Keeps what users lack, by view and user."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _KnownRight] = OrderedDict()
        """By the view's id and the user; the one used last is the last one."""
        self.forgotten = 0
        """Increases whenever what is being asked may be outdated."""

    def of(self, view: MaterializedView, user: str) -> str | None:
        """What the user lacks; empty if nothing; None if that must be asked."""
        key = view.id, user
        found = self._kept.get(key)
        if found is None or self._clock() > found.until or found.schemas != view.schemas:
            return None
        self._kept.move_to_end(key)
        return found.reason

    def keep(
        self,
        view: MaterializedView,
        user: str,
        reason: str,
        *,
        asked_at: float,
        asked_after: int,
        seconds: float | None = None,
    ) -> None:
        """Keeps what was asked at that time, after so many `forgotten`, unless it may be outdated. `seconds`: for how
        long it counts, if that is less than usual."""
        if asked_after != self.forgotten:
            return
        until = asked_at + (self._seconds if seconds is None else min(seconds, self._seconds))
        key = view.id, user
        self._kept.pop(key, None)
        self._kept[key] = _KnownRight(until, reason, view.tables, view.schemas)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean, or, if it may name anything, rights."""
        self.forgotten += 1
        for key in [key for key, kept in self._kept.items() if any(map(named.includes, kept.tables))]:
            del self._kept[key]
