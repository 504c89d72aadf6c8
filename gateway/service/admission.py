"""Bounds of what one session may ask for; each returns the refusal, which names the setting, or None."""

from __future__ import annotations

from gateway.errors import LimitReached
from gateway.service.session import Session
from gateway.wire.message import ExecuteCall


def too_long(call: ExecuteCall, limit: int) -> LimitReached | None:
    if 4 * len(call.statement) <= limit:  # A character has at most four bytes in UTF-8.
        return None
    size = len(call.statement.encode())
    if size <= limit:
        return None
    return LimitReached(f"The statement has {size} bytes; limits.statement_bytes allows {limit}.")


def too_many(session: Session, most: int) -> LimitReached | None:
    """`most`: operations that may be open, 0 for any number."""
    if not 0 < most <= len(session.operations) + session.outstanding:
        return None
    return LimitReached(
        f"{len(session.operations)} statements of this session are open; limits.operations_per_session allows no more. "
        "Close some."
    )
