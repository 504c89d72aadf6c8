"""Limits of a session's statements. The checks return a refusal that names the setting, or None."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.errors import LimitReached
from gateway.service.clients.session import Session
from gateway.wire.message import ExecuteCall
from sql.texts import rewrite

SENT_CHARACTERS_MAX = 16 << 20
"""Longest statement after the gateway has spliced texts into it."""


def too_long(call: ExecuteCall, limit: int) -> LimitReached | None:
    if 4 * len(call.statement) <= limit:  # A character has at most four bytes in UTF-8.
        return None
    size = len(call.statement.encode())
    if size <= limit:
        return None
    return LimitReached(f"The statement has {size} bytes; limits.statement_bytes allows {limit}.")


def too_many(session: Session, most: int) -> LimitReached | None:
    """`most`: the number of operations that may be open; 0: unlimited."""
    if not 0 < most <= len(session.operations) + session.outstanding:
        return None
    return LimitReached(
        f"{len(session.operations)} statements of this session are open, and a session may have no more. Close some."
    )


def spliced(text: str, replacements: Sequence[rewrite.Splice]) -> str:
    """Like `rewrite.splice`. Raises LimitReached: a statement may name a large catalog table thousands of times."""
    size = len(text) + sum(len(new) for _, _, new in replacements)
    if size > SENT_CHARACTERS_MAX:
        raise LimitReached(
            f"With the texts that replace materialized views or catalog tables, the statement would have {size} "
            f"characters; at most {SENT_CHARACTERS_MAX} are possible. Name them fewer times."
        )
    return rewrite.splice(text, replacements)
