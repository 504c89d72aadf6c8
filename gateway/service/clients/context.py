"""Whose work is under way: set by a task for itself and the tasks that it starts, so that log lines can say it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """Where work came from; "" and 0 where that is not known. The ids are public: nobody can use a session by them."""

    user: str = ""
    session: str = ""
    statement: int = 0
    """The number of the statement, counted since the start of the gateway."""
    operation: str = ""


NOWHERE = Origin()
ORIGIN: ContextVar[Origin] = ContextVar("origin", default=NOWHERE)
