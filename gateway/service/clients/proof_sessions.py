"""The sessions at Spark in which queries are compared with views: in the background, while or after they run."""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from gateway.errors import FreshgateError, StatementFailed, UpstreamLost
from gateway.mv.ports import Plans, PlanUnavailable, SqlSession
from gateway.mv.rewriting.proving import Reader
from gateway.service.clients.session import Session
from sql.names import Namespace, quote

log = logging.getLogger(__name__)

KNOWN_MAX = 64
"""Sessions' settings that are kept: 20 KB each."""


class ProofSessions:
    """Opens such sessions.

    A Spark that plans in place does so in the client's own session, while that is open. Otherwise a second session is
    opened as the client's was, and gets the settings and the current database that the client's has, or had: many
    clients close a session after each query. What else belongs to a session (temporary views and functions, variables)
    the second one lacks, so queries that use these are not proved.
    """

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._known: OrderedDict[tuple[str, str], Mapping[str, str]] = OrderedDict()
        """By user and `settings.id`: the settings of every such session. The one used last is the last one."""

    def of(self, session: Session, namespace: Namespace, *, apart: bool = False) -> ProofSession:
        """`apart`: not in the client's session, which may have ended."""
        return ProofSession(self, self._plans, session, namespace, apart=apart)

    async def note(self, session: Session) -> None:
        """Asks for the settings of a session that may be closed when it is needed. Never raises FreshgateError."""
        key = session.user, session.settings.id
        if key in self._known or session.settings.opaque or session.pending or _has_ended(session):
            return
        with contextlib.suppress(FreshgateError):
            found = await _settings(await session.sql())
            if session.settings.id == key[1] and not session.settings.opaque and not session.pending:
                self._known[key] = found
                if len(self._known) > KNOWN_MAX:
                    self._known.popitem(last=False)

    @asynccontextmanager
    async def spare(self, session: Session, namespace: Namespace, *, apart: bool = False) -> AsyncIterator[SqlSession]:
        """Lends a session for statements that may take long: the client's, or one like it. Raises as `twin` does."""
        if apart or _has_ended(session):
            async with self.twin(session, namespace) as twin:
                yield twin
        else:
            async with session.spare() as side:
                yield side.session(session.upstream_handle)

    @asynccontextmanager
    async def twin(self, session: Session, namespace: Namespace) -> AsyncIterator[SqlSession]:
        """A session like the client's. Raises PlanUnavailable if it cannot get the same settings, UpstreamLost if these
        are not known, and what Spark raises."""
        async with session.twin() as twin:
            await _equalize(twin, await self._settings_of(session))
            await twin.run(f"USE {quote(namespace.catalog)}.{quote(namespace.database)}")
            yield twin

    async def _settings_of(self, session: Session) -> Mapping[str, str]:
        if not _has_ended(session):
            with contextlib.suppress(FreshgateError):
                return await _settings(await session.sql())
        key = session.user, session.settings.id
        if session.settings.opaque or session.pending or key not in self._known:
            raise UpstreamLost("The session was closed before its settings were known.")
        self._known.move_to_end(key)
        return self._known[key]


class ProofSession:
    """A session in which queries of one client are compared with views, opened when that is first done."""

    def __init__(
        self, sessions: ProofSessions, plans: Plans, session: Session, namespace: Namespace, *, apart: bool
    ) -> None:
        self._sessions = sessions
        self._plans = plans
        self._session = session
        self._namespace = namespace
        self._apart = apart
        self._ends = AsyncExitStack()
        self._reader: Reader | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._ends.aclose()

    async def reader(self) -> Reader:
        """Raises PlanUnavailable, and what Spark raises."""
        if self._reader is None:
            # Making texts changes the settings of a session, which are compared with the view's.
            sql = await self._sql()
            planning = sql if self._plans.in_place else await self._twin()
            name = await self._ends.enter_async_context(self._plans.of(planning))
            self._reader = Reader(name, sql, self._session.user, self._session.twin)
        return self._reader

    async def _sql(self) -> SqlSession:
        if not self._apart and not _has_ended(self._session):
            return await self._session.sql()
        return await self._twin()

    async def _twin(self) -> SqlSession:
        return await self._ends.enter_async_context(self._sessions.twin(self._session, self._namespace))


def _has_ended(session: Session) -> bool:
    return session.closed or session.over


async def _equalize(twin: SqlSession, wanted: Mapping[str, str]) -> None:
    """Gives the twin these settings. Raises PlanUnavailable if they still differ."""
    found = await _settings(twin)
    if wanted == found:
        return
    for name in _differing(wanted, found):
        change = f"RESET {quote(name)}" if name not in wanted else f"SET {quote(name)}={quote(wanted[name])}"
        try:
            await twin.run(change)
        except StatementFailed as error:
            log.info("a session for proofs does not get the setting %s: %s", name, error)
    if left := _differing(wanted, await _settings(twin)):
        raise PlanUnavailable(f"the session's setting {left[0]} cannot be given to the session that plans")


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


async def _settings(session: SqlSession) -> dict[str, str]:
    return {str(name): str(value) for name, value, *_ in (await session.run("SET")).rows}
