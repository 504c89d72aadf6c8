"""The origin of work, for log lines. A task sets it for itself and for the tasks that it starts."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkOrigin:
    """The origin of work; "" and 0 if unknown. The ids are public: they give no access to a session."""

    user: str = ""
    session: str = ""
    statement: int = 0
    """The number of the statement since the start of the gateway."""
    operation: str = ""
    account: str = ""
    """Who has logged in, if that is another user."""


NOWHERE = WorkOrigin()
ORIGIN: ContextVar[WorkOrigin] = ContextVar("origin", default=NOWHERE)
