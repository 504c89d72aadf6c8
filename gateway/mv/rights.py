"""Who may change a materialized view: its owner, and the administrators of the gateway."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.errors import NotAllowed
from gateway.mv.model import MaterializedView


class Rights:
    """Reading needs no right here: Spark checks what a reader may read, the definition was checked at its creation."""

    def __init__(self, administrators: Iterable[str]) -> None:
        self._administrators = frozenset(administrators)

    def check(self, user: str, view: MaterializedView, action: str) -> None:
        """Raises NotAllowed (42501) where `user` may not do `action` ("drop it") to the view."""
        if user != view.owner and user not in self._administrators:
            raise NotAllowed(
                f"The materialized view {view.name} belongs to {view.owner}; {user} may not {action}. Ask the owner, "
                f"or an administrator of the gateway, or have it given to you with ALTER MATERIALIZED VIEW "
                f"{view.name} OWNER TO {user}.",
                sqlstate="42501",
            )
