"""What Spark lets a session's user see of a materialized view.

A plugin in Spark may refuse that the user reads or describes the view, filter its rows or mask its columns. What the
gateway answers itself, or lets the user read otherwise than by the view's name, must not show more.

Tests: `test_visibility`, `test_row_policies`.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from gateway.errors import NotAllowed, StatementFailed
from gateway.mv.catalog.index import Catalog
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import WHOLE_TEXTS, SqlSession
from gateway.mv.rewriting.permission import refusal_of_view
from gateway.mv.temporary_settings import with_settings
from gateway.service.clients.session import Session
from sql.texts import maintenance

KNOWN_MAX = 10_000
"""Users and views of which it is remembered that the rows are shown as they are stored."""
COMPARED_MAX = 3
"""How often plans are compared while versions of the view are published."""
_OPTIMIZED = "== Optimized Logical Plan =="
_NEXT = "== Physical Plan =="
_EXPRESSION_ID = re.compile(r"#\d+")


async def check_described(view: MaterializedView, session: Session) -> None:
    """Raises StatementFailed if Spark does not let the user describe the view."""
    await (await session.sql()).run(maintenance.describe(view.name))


async def may_describe(view: MaterializedView, session: Session) -> bool:
    try:
        await check_described(view, session)
    except StatementFailed:
        return False
    return True


class StoredRows:
    """To whom Spark shows a view's rows as they are stored, so that versions of it may be shown as well."""

    def __init__(self, catalog: Catalog, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds`: how long it counts that a user is shown the rows."""
        self._catalog = catalog
        self._seconds = seconds
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], float] = OrderedDict()
        """By user and view id: until when it counts; the oldest first."""

    def are_known(self, session: Session, views: Iterable[str]) -> bool:
        """Whether `check` would ask nothing."""
        now = self._clock()
        return all(self._known.get((session.user, view_id), now) > now for view_id in views)

    async def check(self, session: Session, views: Iterable[str]) -> None:
        """Raises NotAllowed (42501) if Spark shows the user other rows of one of the views than are stored, or none;
        and UpstreamLost."""
        for view_id in sorted(views):
            if not self.are_known(session, [view_id]) and (entry := self._catalog.find(view_id)) is not None:
                if not await self._is_shown_as_stored(entry.view, session):
                    raise _not_shown(entry.view, session.user)
                self._known.pop((session.user, view_id), None)
                self._known[session.user, view_id] = self._clock() + self._seconds
                if len(self._known) > KNOWN_MAX:
                    self._known.popitem(last=False)

    async def _is_shown_as_stored(self, view: MaterializedView, session: Session) -> bool:
        """Whether Spark plans a read of the view as it plans the view's text. Both are planned in a second session of
        the user's, because it takes settings that leave nothing out of plans. EXPLAIN shows plans of what it refuses,
        so that is asked before."""
        async with session.twin() as twin, with_settings(twin, WHOLE_TEXTS):
            if await refusal_of_view(twin, view) is not None:
                return False
            for _ in range(COMPARED_MAX):
                text = view.published_text
                shown = await _plan(twin, view.name.quoted)
                if shown is not None and shown == await _plan(twin, f"({text})"):
                    return True
                if (entry := self._catalog.find(view.id)) is None or entry.view.published_text == text:
                    return False
                view = entry.view
        return False


async def _plan(session: SqlSession, relation: str) -> str | None:
    """Spark's optimized plan of a read of the relation, without what differs each time; None if Spark refuses it."""
    try:
        found = await session.run(f"EXPLAIN EXTENDED SELECT * FROM {relation}")
    except StatementFailed:
        return None
    _, begun, rest = "\n".join(str(row[0]) for row in found.rows).partition(_OPTIMIZED)
    plan, ended, _ = rest.partition(_NEXT)
    return _EXPRESSION_ID.sub("#", plan) if begun and ended else None


def _not_shown(view: MaterializedView, user: str) -> NotAllowed:
    return NotAllowed(
        f"Spark does not show {user} the materialized view {view.name} as it is stored: it filters rows, masks "
        f"columns, or refuses the read. So {user} may not read versions of it, be it by VERSION AS OF, by TIMESTAMP AS "
        f"OF, or in a transaction. Read {view.name} by its name alone, outside of transactions.",
        sqlstate="42501",
    )
