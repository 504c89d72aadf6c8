"""Whether Spark lets a user run a query at all.

A plan does not say that. Kyuubi's AuthZ plugin, for one, checks rights when a query runs, and lets anybody have its
plan by EXPLAIN. To be checked, a query need not run: a plugin that guards rows also guards the creation of a temporary
view of them, which reads nothing.

Tests: `test_permission`, `test_row_policies`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from gateway.errors import StatementFailed
from gateway.loops import in_thread
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import SqlSession
from gateway.mv.rewriting.known_rights import KnownRights
from gateway.mv.temporary_settings import with_settings
from sql.lexed import Lexed
from sql.mentioned import Mentioned
from sql.names import TableName, quote
from sql.reading import lineage
from sql.texts import create_text, maintenance

REFUSED_SECONDS = 30.0
"""How long a refusal is believed: Spark may have had another cause than rights, which passes."""
TRIED = "freshgate_tried"

OpenReader: TypeAlias = Callable[[], AbstractAsyncContextManager[SqlSession]]
"""Opens a session of the reader that serves for nothing else."""


class Forbidden(str):
    """Why a user may not run a query: Spark's message."""

    __slots__ = ()


async def refusal(session: SqlSession, text: str) -> Forbidden | None:
    """Why the session's user may not run the query; None if Spark lets the user. `text`: what creates a temporary view
    of it. The session serves for nothing else. Raises UpstreamLost."""
    try:
        await session.run(text)
    except StatementFailed as error:
        return Forbidden(error)
    return None


async def refusal_of_view(session: SqlSession, view: MaterializedView) -> Forbidden | None:
    """The same of a read of a view by its name."""
    return await refusal_of_table(session, view.name)


async def refusal_of_table(session: SqlSession, name: TableName) -> Forbidden | None:
    """The same of a read of a table or view by its name."""
    return await refusal(session, maintenance.create_temporary(TRIED, f"SELECT * FROM {name.quoted}"))


class Permission:
    """Whether Spark lets users run the definitions of views, as their creators wrote them.

    The definition is kept as a view of Spark's, too. But whoever may read a view needs no right to what it reads.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds`: how long it counts that Spark lets a user."""
        self._clock = clock
        self._known = KnownRights(seconds, clock)

    async def refusal(self, view: MaterializedView, user: str, reader: OpenReader) -> Forbidden | None:
        """Why Spark does not let the user run the definition; None if it does. Raises what opening a session raises,
        and UpstreamLost."""
        if (known := self._known.of(view, user)) is not None:
            return Forbidden(known) if known else None
        began, asked_after = self._clock(), self._known.forgotten
        async with reader() as session:
            found = await self._asked(session, view)
        seconds = None if found is None else REFUSED_SECONDS
        self._known.keep(view, user, found or "", asked_at=began, asked_after=asked_after, seconds=seconds)
        return found

    async def _asked(self, session: SqlSession, view: MaterializedView) -> Forbidden | None:
        text = await in_thread(len(view.query), _trial, view)
        # Where the names are qualified, the namespace is of functions, which rarely have one.
        with contextlib.suppress(StatementFailed):
            await session.run(f"USE {quote(view.namespace.catalog)}.{quote(view.namespace.database)}")
        try:
            async with with_settings(session, view.settings or {}):
                return await refusal(session, text)
        except StatementFailed as error:
            return Forbidden(error)

    def forget(self, named: Mentioned) -> None:
        """A statement may have changed what these names mean, or, if it may name anything, rights."""
        self._known.forget(named)


def _trial(view: MaterializedView) -> str:
    """What creates a temporary view of the definition. Blocks as long as the text's analysis takes."""
    found = lineage.relations(Lexed(view.query))
    query = create_text.qualified(view.query, found.reads if found.exact else (), view.namespace)
    return maintenance.create_temporary(TRIED, query, view.listed)
