"""Views that do not answer queries any more because they once gave other rows than the base tables."""

from __future__ import annotations


class Quarantine:
    """The views that gave wrong rows, in memory. A view is released by ALTER MATERIALIZED VIEW ... ENABLE QUERY
    REWRITE; a view that was dropped or replaced has another id. A refresh does not release a view: the cause may be
    a wrong rewriting as well as wrong rows."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def reason(self, view_id: str) -> str | None:
        return self._reasons.get(view_id)

    def add(self, view_id: str, reason: str) -> None:
        self._reasons[view_id] = reason

    def release(self, view_id: str) -> None:
        self._reasons.pop(view_id, None)
