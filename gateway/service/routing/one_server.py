"""Statements that take effect at one Spark server only, while clients' sessions are shared out over several.

Tests: `test_sessions_elsewhere`.
"""

from __future__ import annotations

from gateway.errors import FreshgateError
from sql.lexed import Cursor
from sql.understood import Understood

_RUNNING = frozenset({"immediate", "begin"})
"""Words of statements that run other statements."""


class OneServerOnly(FreshgateError):
    """A statement has an effect on other sessions at the same server, which those at other servers would lack."""

    sqlstate = "0A000"


def refusal(known: Understood) -> OneServerOnly | None:
    """Why this statement is refused; None if it is not."""
    look = known.look
    runs_others = not look.words.isdisjoint(_RUNNING)
    if look.keyword == "cache" or (runs_others and "cache" in look.words and "table" in look.words):
        return OneServerOnly(
            "CACHE TABLE is refused, because sessions are shared out over several Spark servers (upstream.share): this "
            "server would show the cached rows after another one has changed the table. Read the table without it."
        )
    if look.keyword == "create":
        makes_for_all = _is_for_all(Cursor(known.lexed))
    else:
        makes_for_all = runs_others and "global" in look.words and "view" in look.words
    if not makes_for_all:
        return None
    return OneServerOnly(
        "A global temporary view is refused, because sessions are shared out over several Spark servers "
        "(upstream.share): only those at this server would see it. Create a temporary view in each session, or a view."
    )


def _is_for_all(cursor: Cursor) -> bool:
    cursor.accept("CREATE")
    cursor.accept("OR", "REPLACE")
    return cursor.sees("GLOBAL")
