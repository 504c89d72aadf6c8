"""The sessions at Spark in which queries are compared with views."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Self

from gateway.errors import StatementFailed
from gateway.mv.ports import PlanTexts, PlanUnavailable, SqlSession
from gateway.service.clients.session import Session
from sql.names import Namespace, quote

log = logging.getLogger(__name__)


class ProofSessions:
    """Opens such sessions.

    The embedded engine plans in the client's own session, which that leaves as it was.

    Another Spark explains texts (`texts`). That needs settings that the client must not have, so a second session is
    opened as the client's was, and gets the settings that the client's has now. What else belongs to a session
    (temporary views and functions, variables) it lacks, so queries that use these are not proved.
    """

    def __init__(self, texts: PlanTexts | None = None) -> None:
        self._texts = texts

    def of(self, session: Session, namespace: Namespace) -> ProofSession:
        return ProofSession(self._texts, session, namespace)


class ProofSession:
    """A session in which queries of one client are compared with views, opened when that is first done."""

    def __init__(self, texts: PlanTexts | None, session: Session, namespace: Namespace) -> None:
        self._texts = texts
        self._session = session
        self._namespace = namespace
        self._ends = AsyncExitStack()
        self._name: bytes | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._ends.aclose()

    async def name(self) -> bytes:
        """Its name for `Plans.optimized`. Raises PlanUnavailable, and what Spark raises."""
        if self._texts is None:
            return self._session.upstream_handle.guid
        if self._name is None:
            twin = await self._ends.enter_async_context(self._session.twin())
            await _equalize(twin, await self._session.sql())
            await twin.run(f"USE {quote(self._namespace.catalog)}.{quote(self._namespace.database)}")
            self._name = await self._ends.enter_async_context(self._texts.of(twin))
        return self._name


async def _equalize(twin: SqlSession, session: SqlSession) -> None:
    """Gives the twin the settings of the session. Raises PlanUnavailable if they still differ."""
    wanted, found = await _settings(session), await _settings(twin)
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
