"""What statements do besides: each effect takes place once, and what is given up anywhere on its way holds nothing."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
from fake_spark import Answer
from fakes import Site

from gateway.errors import FreshgateError
from gateway.mv.freshness.ledger import TablesWritten
from gateway.service.clients.pending_statement import PendingStatement
from gateway.service.clients.session import Session
from gateway.service.clients.temporary_views import Made, TemporaryViewLeaves, UncertainChange, Underlying
from gateway.service.operations.operation import NO_ROWS, End, Operation, Result, new_handle
from gateway.service.routing import underway
from gateway.service.routing.scope import ViewScope
from gateway.service.routing.ways import (
    Effect,
    MeaningsMove,
    OwnSettingsChanged,
    RightsChanged,
    RowsCollectedInParts,
    Send,
    SettingsChanged,
    SparkViewsChanged,
    TemporaryViewsChanged,
    VersionsHeld,
    sent,
)
from sql.names import TableName
from sql.understood import Understood

WORDS = frozenset({"insert", "t"})


async def stage() -> Site:
    site = Site(result_bytes=1 << 20)
    site.habits.collects_whole = True
    site.table("s.t")
    await site.view("s.mv", "SELECT count(*) n FROM s.t")
    return site


def everything(site: Site, session: Session) -> tuple[Effect, ...]:
    """Effects that hold something until the statement has ended."""
    return (
        TablesWritten(WORDS, frozenset({TableName("s", "t")})),
        SparkViewsChanged(frozenset({"s"}), lists=True),
        MeaningsMove(moves=True, words=WORDS),
        TemporaryViewsChanged(session.temporary, UncertainChange(made=(Made("v", Underlying()),))),
        TemporaryViewLeaves(("v",)),
        SettingsChanged("SET a = 1", constant=True),
        OwnSettingsChanged({"freshgate.rewrite": "off"}),
        RowsCollectedInParts(),
        RightsChanged(),
        VersionsHeld(site.readers.begin([site.entry("s.mv").view.id])),
    )


def held(site: Site, session: Session) -> dict[str, Any]:
    """What statements hold in the gateway; without what is empty."""
    found = {
        "writes": list(site.catalog.writes._pending),
        "versions": list(site.readers._reads),
        "rights": list(site.results._suspended),
        "lists": list(site.scope._changing),
        "session": list(session.pending),
        "temporary views": [*session.temporary.leaving, *session.temporary._open],
        "settings": list(session.settings._under_way),
    }
    return {name: each for name, each in found.items() if each}


def test_every_effect_takes_place_some_time() -> None:
    """An effect that `underway` does not know would be ignored."""
    known = {*underway._BEGUN, *underway._SENT, *underway._ENDED}
    assert known == set(get_args(Effect))


@pytest.mark.parametrize("end", [End.SUCCEEDED, End.FAILED, End.REFUSED])
@pytest.mark.parametrize("is_sent", [True, False])
async def test_what_a_statement_holds_ends_with_it(end: End, is_sent: bool) -> None:
    site = await stage()
    session = (await site.client()).session
    under = site.effects.begin(session, Send(effects=everything(site, session)))
    if is_sent:
        under.sent()
        holding = {"writes", "versions", "rights", "lists", "session", "temporary views", "settings"}
        assert held(site, session).keys() == holding
    under.ended(end)
    assert held(site, session).keys() == {"versions"}
    under.closed()
    assert held(site, session) == {}


async def test_only_the_first_end_counts() -> None:
    site = await stage()
    session = (await site.client()).session
    under = site.effects.begin(session, Send(effects=everything(site, session)))
    under.sent()
    under.ended(End.FAILED)
    events, moved, settings = site.ledger("s.mv").events, session.moved, session.settings.id
    for end in End:
        under.ended(end)
        under.abandon(end)
    assert (site.ledger("s.mv").events, session.moved, session.settings.id) == (events, moved, settings)
    assert session.settings.rewrites


async def test_what_has_an_unknown_end_may_still_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is told that it cannot."""
    site = await stage()
    session = (await site.client()).session
    told = asyncio.Event()

    async def outlive(_: PendingStatement) -> None:
        await told.wait()

    monkeypatch.setattr(PendingStatement, "outlive", outlive)
    under = site.effects.begin(session, Send(effects=everything(site, session)))
    under.sent()
    under.abandon()
    assert held(site, session).keys() == {"writes", "temporary views"}
    told.set()
    await site.effects.outcomes.finish(10)
    assert held(site, session) == {}


async def test_a_write_is_noted_when_it_is_sent() -> None:
    site = await stage()
    session = (await site.client()).session
    write = TablesWritten(WORDS, frozenset({TableName("s", "t")}))
    under = site.effects.begin(session, Send(effects=(write,)))
    assert not site.ledger("s.mv").open
    under.sent()
    assert site.ledger("s.mv").open


async def test_a_way_that_is_not_taken_gives_back_what_deciding_held() -> None:
    site = await stage()
    session = (await site.client()).session
    way: Any = await site.router.consider(session, Understood("SELECT n FROM s.mv"))
    assert held(site, session).keys() == {"versions"}
    site.effects.drop(session, sent(way).effects)
    assert held(site, session) == {}


async def test_an_operation_that_is_cancelled_at_once_clears_up() -> None:
    """Its task has not begun then, and would never begin."""
    cleared = asyncio.Event()

    async def work() -> Result:
        try:
            await asyncio.sleep(10)
        finally:
            cleared.set()
        return NO_ROWS

    operation = Operation(new_handle(), 9)
    operation.start(work())
    await operation.cancel()
    assert cleared.is_set()
    assert operation.settled


PAUSING = (
    *((Session, name) for name in ("sql", "side", "resolve_namespace", "settle")),
    *((ViewScope, name) for name in ("learn", "views_read", "name_temporary")),
)
STATEMENTS = (
    "INSERT INTO s.t VALUES (1)",
    "INSERT INTO s.other SELECT n FROM s.mv",
    "SELECT n FROM s.mv",
    "SELECT n FROM s.mv VERSION AS OF 1",
    "CREATE TEMPORARY VIEW v AS SELECT n FROM s.mv",
    "CREATE VIEW s.w AS SELECT n FROM s.mv",
    "DROP VIEW mv",
    "GRANT SELECT ON s.t TO bob",
    "SET freshgate.rewrite = off",
    "EXECUTE IMMEDIATE 'INSERT INTO s.' || 't VALUES (1)'",
    "BEGIN INSERT INTO s.t VALUES (1); DROP VIEW s.w; END",
)
OF_SESSION = json.dumps({"table_name": "mv", "catalog_name": "system", "type": "VIEW"})
"""What Spark says of `mv`: it is a temporary view."""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run where the gateway may have to wait for Spark, before and after."""
    for owner, name in PAUSING:

        def paused(work: Any) -> Any:
            async def pausing(*arguments: Any, **named: Any) -> Any:
                await asyncio.sleep(0)
                found = await work(*arguments, **named)
                await asyncio.sleep(0)
                return found

            return pausing

        monkeypatch.setattr(owner, name, paused(getattr(owner, name)))


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("run_async", [True, False])
@pytest.mark.parametrize("text", STATEMENTS)
async def test_a_client_may_go_at_any_moment(text: str, run_async: bool) -> None:
    """What was not sent by then holds nothing, and makes nothing stale."""
    moments, reached = 0, False
    while not reached:
        site = await stage()
        site.spark.answers.say("^DESCRIBE TABLE EXTENDED `mv` AS JSON", Answer([(OF_SESSION,)]))
        cast(Any, site.router._version_reads)._versions = SimpleNamespace(numbered=lambda view, _: view.current)
        client = await site.client(configuration={"use:database": "s"})
        site.write("s.t")
        events = site.ledger("s.mv").events
        executing = asyncio.ensure_future(client.execute(text, run_async=run_async))
        for _ in range(moments):
            await asyncio.sleep(0)
        reached = bool(site.spark.texts)
        executing.cancel()
        with suppress(asyncio.CancelledError, FreshgateError):
            await executing
        await client.dispatch.client_lost()
        await site.sessions.end(client.session)
        await asyncio.sleep(0)
        if not site.spark.texts:
            assert held(site, client.session) == {}, f"after {moments} moments"
            assert site.ledger("s.mv").events == events
        moments += 1
        assert moments < 500
    assert moments > 2
