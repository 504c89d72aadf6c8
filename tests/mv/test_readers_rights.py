"""What is asked before a reader is shown the stored rows of a view with SECURITY INVOKER."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from fake_spark import FakeMetastore, OnePlanPlans
from mv.test_proving import NoOwners, OwnSessions, Session, utc
from record_plans import recorded
from views import view_of

from gateway.errors import UpstreamLost
from gateway.mv.model.view import MaterializedView, Schema, Version
from gateway.mv.ports import PlanUnavailable, SqlSession
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.readers_rights import RIGHTS_DIFFER, UNKNOWN_SECONDS, ReadersRights
from gateway.mv.rewriting.refreshers_plans import RefreshersPlans
from sql.mentioned import Mentioned
from sql.proof import plan_json
from sql.proof.plan import Plan

SECONDS = 100.0
ANYTHING = Mentioned(frozenset(), anything=True)


class Plans(OnePlanPlans):
    """Plans by user; the name of a session is its user."""

    def __init__(self) -> None:
        known = recorded()
        self.all = plan_json.read(known["SELECT g, sum(x) s FROM t GROUP BY g"])
        self.filtered = plan_json.read(known["SELECT g, sum(x) s FROM t WHERE x > 0 GROUP BY g"])
        self.of_user: dict[bytes, Plan | Exception] = {}
        self.opened: list[str] = []
        self.asked, self.going = asyncio.Event(), asyncio.Event()
        self.going.set()

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        yield getattr(session, "user", "account").encode()

    async def optimized(self, session: bytes, text: str) -> Plan:
        await self.going.wait()
        found = self.of_user.get(session, self.all)
        if isinstance(found, Exception):
            raise found
        return found

    @asynccontextmanager
    async def session(self, user: str) -> AsyncIterator[SqlSession]:
        self.opened.append(user)
        self.asked.set()
        opened = Session("UTC")
        setattr(opened, "user", user)  # noqa: B010
        yield opened


class Readers:
    """Readers of one view."""

    def __init__(self) -> None:
        self.plans, self.now = Plans(), 0.0
        surroundings = Surroundings("pool", utc(), FakeMetastore())
        refreshers = RefreshersPlans(self.plans, OwnSessions(), NoOwners(), surroundings, lambda: self.now)
        self.rights = ReadersRights(self.plans, refreshers, surroundings, SECONDS, lambda: self.now)
        self.view: MaterializedView = replace(view_of(Version.whole(1, 1, 1, {})), settings={})

    async def ask(self, user: str) -> str:
        return await self.rights.difference(self.view, user, lambda: self.plans.session(user))

    def known(self, user: str) -> str | None:
        return self.rights.known(self.view, user)


async def test_only_who_is_shown_the_same_rows_is_shown_the_stored_ones() -> None:
    readers = Readers()
    readers.plans.of_user[b"ada"] = readers.plans.filtered
    assert readers.known("ada") is None
    assert await readers.ask("ada") == readers.known("ada") == RIGHTS_DIFFER
    assert await readers.ask("bob") == readers.known("bob") == ""


async def test_each_user_is_asked_of_once_for_a_time() -> None:
    readers = Readers()
    readers.plans.going.clear()
    asking = [asyncio.create_task(readers.ask("bob")) for _ in range(5)]
    await asyncio.sleep(0)
    asking[0].cancel()
    readers.plans.going.set()
    assert await asyncio.gather(*asking[1:]) == [""] * 4
    readers.now = SECONDS
    assert await readers.ask("bob") == ""
    assert readers.plans.opened == ["bob"]
    readers.now += 1.0
    assert readers.known("bob") is None
    readers.plans.of_user[b"bob"] = readers.plans.filtered
    assert await readers.ask("bob") == RIGHTS_DIFFER
    assert readers.plans.opened == ["bob", "bob"]


async def test_another_schema_and_a_change_of_rights_end_what_is_known() -> None:
    readers = Readers()
    await readers.ask("bob")
    readers.rights.forget(Mentioned(frozenset({"elsewhere"})))
    assert readers.known("bob") == ""
    readers.rights.forget(ANYTHING)
    assert readers.known("bob") is None
    await readers.ask("bob")
    table = min(readers.view.tables)
    readers.view = replace(readers.view, schemas={table: Schema("later", (("n", "int"),))})
    assert readers.known("bob") is None


async def test_an_answer_that_a_change_has_overtaken_is_not_kept() -> None:
    readers = Readers()
    readers.plans.going.clear()
    asking = asyncio.create_task(readers.ask("bob"))
    await readers.plans.asked.wait()
    readers.rights.forget(ANYTHING)
    readers.plans.of_user[b"bob"] = readers.plans.filtered
    later = asyncio.create_task(readers.ask("bob"))
    readers.plans.going.set()
    await asking
    assert await later == RIGHTS_DIFFER
    assert readers.known("bob") == RIGHTS_DIFFER


async def test_rows_that_cannot_be_compared_may_differ() -> None:
    readers = Readers()
    readers.plans.of_user[b"ada"] = PlanUnavailable("it is too odd")
    assert "it is too odd" in await readers.ask("ada")
    readers.now = UNKNOWN_SECONDS
    assert "it is too odd" in (readers.known("ada") or "")
    readers.now += 1.0
    assert readers.known("ada") is None
    readers.plans.of_user[b"bob"] = UpstreamLost("Spark has gone.")
    assert "Spark has gone." in await readers.ask("bob")
    assert readers.known("bob") is None
