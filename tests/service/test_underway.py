"""What statements do besides: each effect takes place once, and what is given up anywhere on its way holds nothing."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
from fakes import Answer, World

from gateway.errors import FreshgateError
from gateway.mv.freshness.ledger import TablesWritten
from gateway.service.clients.pending_statement import PendingStatement
from gateway.service.clients.session import Session
from gateway.service.clients.temporary_views import Made, TemporaryViewLeaves, UncertainChange, Underlying
from gateway.service.operations.operation import NO_ROWS, End, Operation, Result, new_handle
from gateway.service.routing import underway
from gateway.service.routing.scope import Scope
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


async def stage() -> World:
    world = World(result_bytes=1 << 20, goes_back=lambda: True)
    world.table("s.t")
    await world.view("s.mv", "SELECT count(*) n FROM s.t")
    return world


def everything(world: World, session: Session) -> tuple[Effect, ...]:
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
        VersionsHeld(world.readers.begin([world.entry("s.mv").view.id])),
    )


def held(world: World, session: Session) -> dict[str, Any]:
    """What statements hold in the gateway; without what is empty."""
    found = {
        "writes": list(world.catalog.writes._pending),
        "versions": list(world.readers._reads),
        "rights": list(world.results._suspended),
        "lists": list(world.scope._changing),
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
    world = await stage()
    session = (await world.client()).session
    under = world.effects.begin(session, Send(effects=everything(world, session)))
    if is_sent:
        under.sent()
        holding = {"writes", "versions", "rights", "lists", "session", "temporary views", "settings"}
        assert held(world, session).keys() == holding
    under.ended(end)
    assert held(world, session).keys() == {"versions"}
    under.closed()
    assert held(world, session) == {}


async def test_only_the_first_end_counts() -> None:
    world = await stage()
    session = (await world.client()).session
    under = world.effects.begin(session, Send(effects=everything(world, session)))
    under.sent()
    under.ended(End.FAILED)
    events, moved, settings = world.ledger("s.mv").events, session.moved, session.settings.id
    for end in End:
        under.ended(end)
        under.abandon(end)
    assert (world.ledger("s.mv").events, session.moved, session.settings.id) == (events, moved, settings)
    assert session.settings.rewrites


async def test_what_has_an_unknown_end_may_still_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is told that it cannot."""
    world = await stage()
    session = (await world.client()).session
    told = asyncio.Event()

    async def outlive(_: PendingStatement) -> None:
        await told.wait()

    monkeypatch.setattr(PendingStatement, "outlive", outlive)
    under = world.effects.begin(session, Send(effects=everything(world, session)))
    under.sent()
    under.abandon()
    assert held(world, session).keys() == {"writes", "temporary views"}
    told.set()
    await world.effects.outcomes.finish(10)
    assert held(world, session) == {}


async def test_a_write_is_noted_when_it_is_sent() -> None:
    world = await stage()
    session = (await world.client()).session
    write = TablesWritten(WORDS, frozenset({TableName("s", "t")}))
    under = world.effects.begin(session, Send(effects=(write,)))
    assert not world.ledger("s.mv").open
    under.sent()
    assert world.ledger("s.mv").open


async def test_a_way_that_is_not_taken_gives_back_what_deciding_held() -> None:
    world = await stage()
    session = (await world.client()).session
    way: Any = await world.router.consider(session, Understood("SELECT n FROM s.mv"))
    assert held(world, session).keys() == {"versions"}
    world.effects.drop(session, sent(way).effects)
    assert held(world, session) == {}


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
    *((Scope, name) for name in ("learn", "views_read", "name_temporary")),
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
        world = await stage()
        world.spark.answers.say("^DESCRIBE TABLE EXTENDED `mv` AS JSON", Answer([(OF_SESSION,)]))
        cast(Any, world.router._version_reads)._versions = SimpleNamespace(numbered=lambda view, _: view.current)
        client = await world.client(configuration={"use:database": "s"})
        world.write("s.t")
        events = world.ledger("s.mv").events
        executing = asyncio.ensure_future(client.execute(text, run_async=run_async))
        for _ in range(moments):
            await asyncio.sleep(0)
        reached = bool(world.spark.texts)
        executing.cancel()
        with suppress(asyncio.CancelledError, FreshgateError):
            await executing
        await client.dispatch.client_lost()
        await world.sessions.end(client.session)
        await asyncio.sleep(0)
        if not world.spark.texts:
            assert held(world, client.session) == {}, f"after {moments} moments"
            assert world.ledger("s.mv").events == events
        moments += 1
        assert moments < 500
    assert moments > 2
