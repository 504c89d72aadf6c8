"""Bounds of what one session may ask for; each returns the refusal, which names the setting, or None. And one of what a
statement may become."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.errors import LimitReached
from gateway.service.clients.session import Session
from gateway.wire.message import ExecuteCall
from sql.texts import rewrite

SENT_CHARACTERS_MAX = 16 << 20
"""Of a statement with what the gateway has put into it."""


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


def spliced(text: str, replacements: Sequence[rewrite.Splice]) -> str:
    """As `rewrite.splice`. Raises LimitReached: a statement may name thousands of times what stands for megabytes."""
    size = len(text) + sum(len(new) for _, _, new in replacements)
    if size > SENT_CHARACTERS_MAX:
        raise LimitReached(
            f"With what stands in the place of materialized views, or of their catalog, the statement would have "
            f"{size} characters, of {SENT_CHARACTERS_MAX} at the most. Let it name them fewer times."
        )
    return rewrite.splice(text, replacements)
