"""Of several gateways the one that has put its mark last may write; none starts while another one is alive."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from views import view_of

from gateway.errors import StatementFailed
from gateway.mv.catalog.fence import LATELY, Fence, OtherGateway, Superseded
from gateway.mv.catalog.presence import BEAT_SECONDS, SILENT_SECONDS, Process
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import Version
from gateway.mv.versions.version_numbers import VersionNumbers


@dataclass
class Answer:
    rows: list[tuple[Any, ...]]
    columns: tuple[str, ...] = ()


@dataclass
class Database:
    """A metastore with one database, or none."""

    properties: dict[str, str] | None = field(default_factory=dict)

    async def run(self, sql: str) -> Answer:
        if self.properties is None:
            raise StatementFailed("there is no such database", sqlstate="42704")
        if sql.startswith("ALTER"):
            self.properties |= dict(re.findall(r"'([\w.]+)' = '(\w*)'", sql))
        shown = ", ".join(f"({name},{value})" for name, value in sorted(self.properties.items()))
        return Answer([("Namespace Name", "s"), ("Properties", f"({shown})" if shown else "")])

    async def databases(self) -> frozenset[str]:
        return frozenset({"default", *(["s"] if self.properties is not None else [])})


def fence(
    database: Database,
    here: str = "here",
    clock: Callable[[], float] = time.monotonic,
    process: Process | None = None,
) -> Fence:
    return Fence(database, "s", here, clock, process)  # type: ignore[arg-type]  # it is asked nothing else


def test_the_later_one_wins_and_says_where_it_is() -> None:
    async def story() -> None:
        database = Database()
        first, second = fence(database, "host a"), fence(database, "host b")
        assert not await first.take()
        await first.check()
        assert await second.take()
        await second.check()
        for _ in range(3):
            with pytest.raises(Superseded, match=r"Another gateway \(host b, started .*\)") as raised:
                await first.check()
            # Each one is new: one that is raised for ever would keep all frames that it went through.
            assert len(raised.traceback) < 6
        await first.release()
        await second.check()

    asyncio.run(story())


def test_its_mark_says_where_it_takes_relayed_clients() -> None:
    async def story() -> None:
        database = Database()
        watching = fence(database)
        await fence(database).take()
        assert (found := await watching.other()) is not None
        assert found.relay == ""
        leading = Fence(database, "s", "here", relay="[::1]:10009")  # type: ignore[arg-type]  # it is asked nothing else
        await leading.take()
        assert (found := await watching.other()) is not None
        assert found.relay == "[::1]:10009"

    asyncio.run(story())


def test_it_is_said_once_however_many_ask_at_the_same_time(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        database = Database()
        first, second = fence(database), fence(database)
        await first.take()
        await second.take()
        answer, asked = asyncio.Event(), database.run

        async def slow(sql: str) -> Answer:
            await answer.wait()
            return await asked(sql)

        database.run = slow  # type: ignore[method-assign]
        asking = [asyncio.create_task(first.check()) for _ in range(3)]
        await asyncio.sleep(0)
        answer.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(each) for each in found] == [Superseded] * 3

    asyncio.run(story())
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


def test_an_orderly_end_needs_no_waiting() -> None:
    async def story() -> None:
        database = Database()
        first = fence(database)
        await first.take()
        await first.release()
        second = fence(database)
        assert not await second.take()
        await second.check()
        assert await fence(database).take()

    asyncio.run(story())


def test_a_database_that_is_made_later_or_anew() -> None:
    """The mark is put when there is a place for it; another's mark found then is respected."""

    async def story() -> None:
        database = Database(None)
        first, second = fence(database), fence(database)
        assert not await first.take()
        assert not await second.take()
        await first.check()
        database.properties = {}
        await first.check()
        with pytest.raises(Superseded):
            await second.check()
        database.properties = {}
        await first.check()
        await first.check()

    asyncio.run(story())


def test_no_rows_are_written_once_it_is_lost_though_their_number_is_reserved() -> None:
    async def story() -> None:
        database, nobody, time_now = Database(), cast(Any, None), 0.0
        first, second = fence(database, clock=lambda: time_now), fence(database)
        numbers = VersionNumbers(nobody, first)
        version = Version.whole(1, 0, 0, {})
        entry = Entry(replace(view_of(version), versions_reserved=9))
        await first.take()
        await numbers.reserve(entry, 2, nobody)
        await second.take()
        # A successor waits longer than this before it takes stock.
        time_now += LATELY
        await numbers.reserve(entry, 3, nobody)
        time_now += 0.1
        with pytest.raises(Superseded):
            await numbers.reserve(entry, 3, nobody)

    asyncio.run(story())


class Clock:
    """Time that passes only while a caller sleeps, during which others may act."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[float], Awaitable[None]] | None = None
        monkeypatch.setattr("gateway.mv.catalog.fence.asyncio.sleep", self.sleep)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.meanwhile is not None:
            await self.meanwhile(self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_none_starts_while_another_one_is_alive(clock: Clock) -> None:
    async def story() -> None:
        database = Database()
        first, second = fence(database, "host a", clock), fence(database, "host b", clock)
        await first.take()

        async def live(now: float) -> None:
            if now % BEAT_SECONDS == 0:
                await first.beat()

        clock.meanwhile = live
        with pytest.raises(OtherGateway, match=r"\(host a, started .*\) serves the storage database s .*--take-over"):
            await second.wait_for_other()
        assert clock.now == BEAT_SECONDS
        await first.check()

    asyncio.run(story())


def test_a_gateway_without_a_sign_of_life_is_waited_for(clock: Clock) -> None:
    async def story() -> None:
        database = Database()
        await fence(database, clock=clock).take()
        await fence(database, clock=clock).wait_for_other()
        assert SILENT_SECONDS < clock.now < SILENT_SECONDS + 3

    asyncio.run(story())


def test_a_gateway_that_is_being_stopped_is_waited_for(clock: Clock) -> None:
    async def story() -> None:
        database = Database()
        first, second = fence(database, clock=clock), fence(database, clock=clock)
        await first.take()
        await first.leave()

        async def drain(now: float) -> None:
            await (first.beat() if now < 100 else first.release())

        clock.meanwhile = drain
        await second.wait_for_other()
        assert clock.now == 100

    asyncio.run(story())


@pytest.mark.parametrize("how", ["none", "ended", "killed"])
def test_nothing_is_waited_for_without_need(how: str, clock: Clock) -> None:
    async def story() -> None:
        database = Database(None if how == "none" else {})
        dead = replace(Process.own(), started=1)
        first, second = fence(database, clock=clock, process=dead), fence(database, clock=clock)
        await first.take()
        if how == "ended":
            await first.release()
        await second.wait_for_other()
        assert clock.now == 0

    asyncio.run(story())


def test_the_mark_can_be_taken_back() -> None:
    async def story() -> None:
        database = Database()
        first, second = fence(database, "host a"), fence(database, "host b")
        await first.take()
        await second.take()
        with pytest.raises(Superseded):
            await first.beat()
        assert (found := await first.other()) is not None
        assert (found.where.partition(",")[0], found.ended) == ("host b", False)
        await second.release()
        assert (found := await first.other()) is not None
        assert found.ended
        await first.take()
        assert await first.holds()
        # Not before the catalog was read anew.
        with pytest.raises(Superseded):
            await first.check()
        first.regain()
        await first.check()
        with pytest.raises(Superseded, match="host a"):
            await second.check()

    asyncio.run(story())


def test_a_database_that_is_dropped_has_no_mark_of_another_one() -> None:
    async def story() -> None:
        database = Database()
        first, second = fence(database), fence(database)
        await first.take()
        await second.take()
        with pytest.raises(Superseded):
            await first.check()
        assert not await first.holds()
        database.properties = None
        assert await first.other() is None
        await first.take()
        assert await first.holds()

    asyncio.run(story())


def test_no_sign_of_life_is_given_without_a_place_for_it() -> None:
    async def story() -> None:
        database = Database()
        some = fence(database)
        await some.take()
        database.properties = None
        await some.beat()
        assert database.properties is None

    asyncio.run(story())
