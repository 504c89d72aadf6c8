"""Whose statement it is, and who may change a materialized view: its owner, and the administrators of the gateway."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.errors import NotAllowed
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import SqlSession
from sql.names import Namespace, TableName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose statement it is: his session at Spark, his name, and what his unqualified names mean."""

    session: SqlSession
    user: str
    namespace: Namespace


def log_change(did: str, name: TableName, caller: Caller, began: float) -> None:
    """A line for a change that somebody's statement has made. `began` is the monotonic clock's."""
    log.info("%s the materialized view %s for %s in %.2f s", did, name, caller.user, time.monotonic() - began)


class Rights:
    """Reading needs no right here: Spark checks what a reader may read, the definition was checked at its creation."""

    def __init__(self, administrators: Iterable[str]) -> None:
        self._administrators = frozenset(administrators)

    def check(self, user: str, view: MaterializedView, action: str) -> None:
        """Raises NotAllowed (42501) where `user` may not do `action` ("drop it") to the view."""
        self.check_owner(user, view.owner, view.name, action)

    def check_owner(self, user: str, owner: str | None, name: TableName, action: str) -> None:
        """The same for a damaged view. One whose owner cannot be read is the administrators'."""
        if user == owner or user in self._administrators:
            return
        if owner is None:
            raise NotAllowed(
                f"Nobody can tell whose the materialized view {name} is, so {user} may not {action}. Ask an "
                f"administrator of the gateway (access.administrators).",
                sqlstate="42501",
            )
        raise NotAllowed(
            f"The materialized view {name} belongs to {owner}; {user} may not {action}. Ask the owner, or an "
            f"administrator of the gateway, or have it given to you with ALTER MATERIALIZED VIEW {name} OWNER TO "
            f"{user}.",
            sqlstate="42501",
        )
