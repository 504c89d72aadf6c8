"""Whose work is under way: set by a task for itself and the tasks that it starts, so that log lines can say it."""

from __future__ import annotations

import uuid
from contextvars import ContextVar
from dataclasses import dataclass

from gateway.wire.message import Handle


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


def public_id(handle: Handle) -> str:
    """The public part of a handle as Spark writes it: a UUID in its UI and logs."""
    return str(uuid.UUID(bytes=handle.guid)) if len(handle.guid) == 16 else handle.guid.hex()
