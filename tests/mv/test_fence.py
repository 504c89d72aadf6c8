"""Of several gateways the one whose epoch stands may write; none starts while another one is alive."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from views import view_of
from warehouse import Warehouse

from gateway.errors import StatementFailed, UpstreamLost
from gateway.mv.catalog.epoch_counts import What
from gateway.mv.catalog.fence import LATELY, SURE_SECONDS, Fence, OtherGateway, Predecessor, Superseded, since_boot
from gateway.mv.catalog.presence import BEAT_SECONDS, SILENT_SECONDS, Process
from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import Version
from gateway.mv.versions.version_numbers import VersionNumbers
from gateway.spark.metastore import SparkMetastore
from sql.names import Namespace, TableName


def database() -> Warehouse:
    """A metastore with an empty storage database."""
    found = Warehouse()
    found.databases["s"] = {}
    return found


def recreate(warehouse: Warehouse) -> None:
    drop(warehouse)
    warehouse.databases["s"] = {}


def drop(warehouse: Warehouse) -> None:
    warehouse.databases.pop("s", None)
    warehouse.things.clear()


def fence(
    warehouse: Warehouse,
    here: str = "here",
    clock: Callable[[], float] | None = None,
    process: Process | None = None,
) -> Fence:
    return Fence(SparkMetastore(warehouse), "s", here, clock, process)


def test_the_later_one_wins_and_says_where_it_is() -> None:
    async def story() -> None:
        warehouse = database()
        first, second = fence(warehouse, "host a"), fence(warehouse, "host b")
        assert await first.take() is Predecessor.NONE
        await first.check()
        assert await second.take() is Predecessor.LOST
        await second.check()
        for _ in range(3):
            with pytest.raises(Superseded, match=r"Another gateway \(host b, started .*\)") as raised:
                await first.check()
            # Each one is new: one that is raised for ever would keep all frames that it went through.
            assert len(raised.traceback) < 6
        assert first.counts.fenced == {What.CHANGE: 3}
        assert (first.epoch_number, second.epoch_number) == (1, 2)
        assert first.since <= time.time()
        await first.release()
        await second.check()

    asyncio.run(story())


def test_its_mark_says_where_it_takes_relayed_clients() -> None:
    async def story() -> None:
        warehouse = database()
        watching = fence(warehouse)
        await fence(warehouse).take()
        assert (found := await watching.other()) is not None
        assert found.relay == ""
        await Fence(SparkMetastore(warehouse), "s", "here", relay="[::1]:10009").take()
        assert (found := await watching.other()) is not None
        assert (found.relay, found.epoch) == ("[::1]:10009", 2)

    asyncio.run(story())


def test_it_is_said_once_however_many_ask_at_the_same_time(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        warehouse = database()
        first, second = fence(warehouse), fence(warehouse)
        await first.take()
        await second.take()
        held = warehouse.hold("SHOW TBLPROPERTIES")
        asking = [asyncio.create_task(first.check()) for _ in range(3)]
        await held.reached.wait()
        held.go.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(each) for each in found] == [Superseded] * 3

    asyncio.run(story())
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


def test_an_orderly_end_needs_no_waiting() -> None:
    async def story() -> None:
        warehouse = database()
        first = fence(warehouse)
        await first.take()
        await first.release()
        second = fence(warehouse)
        assert await second.take() is Predecessor.ENDED
        await second.check()
        assert await fence(warehouse).take() is Predecessor.LOST

    asyncio.run(story())


def test_a_database_that_is_made_later_or_anew() -> None:
    """The mark is put when there is a place for it; another's mark found then is respected."""

    async def story() -> None:
        warehouse = Warehouse()
        first, second = fence(warehouse), fence(warehouse)
        assert await first.take() is Predecessor.NONE
        assert await second.take() is Predecessor.NONE
        await first.check()
        recreate(warehouse)
        await first.check()
        with pytest.raises(Superseded):
            await second.check()
        recreate(warehouse)
        await first.check()
        await first.check()

    asyncio.run(story())


def test_no_rows_are_written_once_it_is_lost_though_their_number_is_reserved() -> None:
    async def story() -> None:
        warehouse, nobody, time_now = database(), cast(Any, None), 0.0
        first, second = fence(warehouse, clock=lambda: time_now), fence(warehouse)
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
        warehouse = database()
        first, second = fence(warehouse, "host a", clock), fence(warehouse, "host b", clock)
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
        warehouse = database()
        await fence(warehouse, clock=clock).take()
        await fence(warehouse, clock=clock).wait_for_other()
        assert SILENT_SECONDS < clock.now < SILENT_SECONDS + 3

    asyncio.run(story())


def test_a_gateway_that_is_being_stopped_is_waited_for(clock: Clock) -> None:
    async def story() -> None:
        warehouse = database()
        first, second = fence(warehouse, clock=clock), fence(warehouse, clock=clock)
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
        warehouse = Warehouse() if how == "none" else database()
        dead = replace(Process.own(), started=1)
        first, second = fence(warehouse, clock=clock, process=dead), fence(warehouse, clock=clock)
        await first.take()
        if how == "ended":
            await first.release()
        await second.wait_for_other()
        assert clock.now == 0

    asyncio.run(story())


def test_the_mark_can_be_taken_back() -> None:
    async def story() -> None:
        warehouse = database()
        first, second = fence(warehouse, "host a"), fence(warehouse, "host b")
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
        warehouse = database()
        first, second = fence(warehouse), fence(warehouse)
        await first.take()
        await second.take()
        with pytest.raises(Superseded):
            await first.check()
        assert not await first.holds()
        drop(warehouse)
        assert await first.other() is None
        await first.take()
        assert await first.holds()

    asyncio.run(story())


def test_no_sign_of_life_is_given_without_a_place_for_it() -> None:
    async def story() -> None:
        warehouse = database()
        some = fence(warehouse)
        await some.take()
        drop(warehouse)
        await some.beat()
        assert warehouse.databases.keys() == {"default"}

    asyncio.run(story())


@pytest.mark.parametrize("late", ["SHOW VIEWS", "CREATE VIEW", "DROP VIEW"])
def test_of_two_that_take_over_at_the_same_moment_one_may_write(late: str) -> None:
    """The slow one waits where it is told to, and the other one does all that it does meanwhile."""

    async def story() -> None:
        warehouse = database()
        dead, slow, fast = fence(warehouse), fence(warehouse, "host a"), fence(warehouse, "host b")
        await dead.take()
        hold = warehouse.hold(late)
        taking = asyncio.create_task(slow.take())
        await hold.reached.wait()
        took = list(await asyncio.gather(fast.take(), return_exceptions=True))
        hold.go.set()
        took += await asyncio.gather(taking, return_exceptions=True)
        assert [type(each) for each in took].count(Superseded) <= 1
        holders = [each for each in (slow, fast, dead) if await each.holds()]
        assert len(holders) == 1
        assert dead not in holders
        await holders[0].check()

    asyncio.run(story())


def test_an_epoch_that_was_created_although_spark_reports_an_error_is_taken() -> None:
    async def story() -> None:
        warehouse = database()
        some = fence(warehouse)
        create = warehouse.answer

        def lost(sql: str, namespace: Namespace) -> Any:
            answer = create(sql, namespace)
            if sql.startswith("CREATE VIEW"):
                raise UpstreamLost("the connection broke")
            return answer

        warehouse.answer = lost  # type: ignore[method-assign]
        await some.take()
        await some.check()
        assert await fence(warehouse).other() is not None

    asyncio.run(story())


def test_numbers_are_never_used_again() -> None:
    """Otherwise a gateway that was paused for long could take the next one's epoch for its own."""

    async def story() -> None:
        warehouse = database()
        for _ in range(3):
            some = fence(warehouse)
            await some.take()
            await some.release()
        assert [name.table for name in warehouse.things] == ["freshgate_epoch_3"]

    asyncio.run(story())


def test_a_fault_of_the_metastore_ends_no_term() -> None:
    """It reports what it cannot read as missing."""

    async def story() -> None:
        warehouse = database()
        some = fence(warehouse)
        await some.take()
        for faults in (["SHOW TBLPROPERTIES"], ["SHOW TBLPROPERTIES", "DESCRIBE DATABASE"]):
            for pattern in faults:
                warehouse.failing[pattern] = StatementFailed("it cannot be found", sqlstate="42P01")
            with contextlib.suppress(StatementFailed):
                await some.check()
            await some.check()

    asyncio.run(story())


async def test_who_must_be_sure_shares_a_check(clock: Clock) -> None:
    warehouse = database()
    some = fence(warehouse, clock=clock)
    await some.take()
    clock.now = 100
    warehouse.texts.clear()
    await asyncio.gather(*(some.sure() for _ in range(50)))
    await some.sure()
    clock.now += SURE_SECONDS - 0.1
    assert some.is_sure_now
    await some.sure()
    assert len(warehouse.texts) == 1
    assert dict(some.counts.check_seconds.buckets())["+Inf"] == 1
    clock.now += 0.2
    assert not some.is_sure_now
    await some.sure()
    assert len(warehouse.texts) == 2


async def test_a_check_that_began_long_before_proves_nothing(clock: Clock) -> None:
    """The process was paused while the metastore answered."""
    warehouse = database()
    paused, other = fence(warehouse, clock=clock), fence(warehouse)
    await paused.take()
    clock.now = 100
    hold = warehouse.hold("SHOW TBLPROPERTIES")
    checking = asyncio.create_task(paused.check())
    await hold.reached.wait()
    clock.now = 200
    hold.go.set()
    await checking
    assert not paused.is_sure_now
    await other.take()
    with pytest.raises(Superseded):
        await paused.sure()


async def test_without_a_clock_that_is_trusted_each_caller_waits_for_a_check(clock: Clock) -> None:
    warehouse = database()
    some = Fence(SparkMetastore(warehouse), "s", "here", clock, several=True, trusts_clock=False)
    await some.take()
    for _ in range(3):
        clock.now += 0.001
        asked = len(warehouse.texts)
        assert not some.is_sure_now
        await some.sure()
        assert warehouse.texts[asked:] == ["SHOW TBLPROPERTIES `spark_catalog`.`s`.`freshgate_epoch_1`"]
    await fence(warehouse).take()
    clock.now += 0.001
    with pytest.raises(Superseded):
        await some.sure()


def test_the_age_of_a_check_counts_a_suspended_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "linux":
        assert since_boot() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=10)
    monkeypatch.setattr("gateway.mv.catalog.fence._BOOT_TIME", None)
    assert since_boot() == pytest.approx(time.monotonic(), abs=10)


async def test_a_failed_check_makes_nobody_sure(clock: Clock) -> None:
    warehouse = database()
    some = fence(warehouse, clock=clock)
    await some.take()
    clock.now = 100
    warehouse.failing["SHOW TBLPROPERTIES"] = UpstreamLost("Spark does not answer.")
    assert [type(each) for each in await asyncio.gather(some.sure(), some.sure(), return_exceptions=True)] == [
        UpstreamLost
    ] * 2
    await some.sure()


async def test_a_gateway_beside_which_others_wait_has_a_database_for_its_epoch() -> None:
    warehouse = Warehouse()
    for _ in range(2):
        some = Fence(SparkMetastore(warehouse), "s", "here", several=True)
        await some.take()
        await some.sure()
        assert await fence(warehouse).other() is not None
    drop(warehouse)
    await some.check()
    assert await fence(warehouse).other() is not None


async def test_who_comes_when_a_check_has_just_ended_begins_another_one(clock: Clock) -> None:
    warehouse, waits = database(), asyncio.Event()
    some = fence(warehouse, clock=clock)
    await some.take()
    clock.now = 100
    hold = warehouse.hold("SHOW TBLPROPERTIES")
    first = asyncio.create_task(some.sure())
    await hold.reached.wait()

    async def come_late() -> None:
        waits.set()
        await hold.go.wait()
        await some.sure()

    late = asyncio.create_task(come_late())
    await waits.wait()
    clock.now = 200
    warehouse.texts.clear()
    hold.go.set()
    await asyncio.gather(first, late)
    assert len(warehouse.texts) == 1


async def test_a_gateway_that_has_handed_over_does_nothing_more() -> None:
    warehouse = database()
    first, second = fence(warehouse), fence(warehouse)
    await first.take()
    await first.check()
    stands = first._stands

    async def stands_then_stops(epoch: TableName) -> bool:
        first.step_down("It is being stopped.")
        return await stands(epoch)

    first._stands = stands_then_stops  # type: ignore[method-assign]
    with pytest.raises(Superseded, match="being stopped"):
        await first.check()
    assert not first.is_sure_now
    with pytest.raises(Superseded):
        await first.sure()
    found = await second.other()
    assert found is not None
    assert not found.ended
    await first.hand_over()
    found = await second.other()
    assert found is not None
    assert found.ended
    assert await second.take() is Predecessor.YIELDED
    # Its end is not recorded where there is a successor.
    await first.release()
    assert await fence(warehouse).take() is Predecessor.LOST
