"""Views of which nobody knows what they show, before a metastore that tells it late, otherwise, or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from views import given, view_of

from gateway.errors import FreshgateError, NoSuchView, StatementFailed, UpstreamLost
from gateway.mv.catalog import naming, settlement
from gateway.mv.catalog.fence import Fence, Superseded
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.loading import Loading
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.concurrency import unbroken
from gateway.mv.freshness.entry import Entry
from gateway.mv.model import properties as stored
from gateway.mv.model.view import Leftover, MaterializedView, Version
from gateway.mv.ports import Metastore, Relation, RelationKind
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.readers import Readers
from gateway.mv.versions.removal import Removal
from sql.names import TableName
from sql.texts.public_view import shown_rows
from sql.texts.storage_layout import UNPARTITIONED, Shown

DEADLINE_SECONDS = 20.0
LOST = UpstreamLost("Spark closed the connection before it answered.")


@dataclass
class StoredViews:
    """A metastore that keeps what is written here, and fails as often as it is told."""

    stored: dict[TableName, dict[str, str]] = field(default_factory=dict)
    shown: dict[TableName, str] = field(default_factory=dict)
    """The text of each public view."""
    failures: list[FreshgateError] = field(default_factory=list)
    asked: int = 0
    ran: list[str] = field(default_factory=list)

    superseded: bool = False

    async def check(self) -> None:
        """As a fence that is held, or lost."""
        if self.superseded:
            raise Superseded("another gateway")

    def show(self, name: TableName, view: MaterializedView, version: int) -> None:
        self.shown[name] = shown_rows(view.storage, view.columns, Shown.only(version), UNPARTITIONED)

    async def relation(self, name: TableName) -> Relation | None:
        self.asked += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        if name in self.shown:
            return Relation(name, RelationKind.VIEW, self.shown[name])
        return Relation(name, RelationKind.TABLE) if name in self.stored else None

    async def properties(self, table: TableName) -> Mapping[str, str]:
        if self.failures:
            raise self.failures.pop(0)
        return dict(self.stored[table])

    async def tables(self, _: str) -> frozenset[str]:
        return frozenset(table.table for table in self.stored)

    async def run(self, sql: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.ran.append(sql)


class Gateway:
    """A catalog with views that show their first version."""

    def __init__(self) -> None:
        self.spark = StoredViews()
        self.catalog = Catalog("s", cast(Fence, self.spark))
        self.left: list[tuple[str, Version | None]] = []
        self.published: list[str] = []
        self.catalog.news.leftover.add(lambda view_id, _, version: self.left.append((view_id, version)))
        self.catalog.news.published.add(self.published.append)
        self.settlement = Settlement(self.catalog, cast(Metastore, self.spark), cast(Fence, self.spark), _nobody)

    def add(self, table: str, *, serve: bool = True) -> Entry:
        storage = TableName("s", f"d__{table}__1")
        view = replace(
            view_of(Version.whole(1, 1, 1, {})),
            id=storage.table,
            name=TableName("d", table),
            storage=storage,
            definition=naming.definition_of(storage),
            layout=UNPARTITIONED,
            followed=None,
        )
        second = Version.whole(2, 1, 1, {})
        self.spark.stored[storage] = {
            **stored.write_view(view),
            **stored.write_published(),
            **stored.write_version(second, 20),
        }
        self.spark.show(view.name, view, 1)
        entry = Entry(view)
        if serve:
            self.catalog.reserve(view)
            self.catalog.show(self.catalog.entry(view.id))
            entry = self.catalog.entry(view.id)
        return entry


async def _nobody(*_: object) -> bool:
    """Restores no view."""
    return False


def run(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def within_deadline() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await check()

    asyncio.run(within_deadline())


def test_a_version_that_was_replaced_unheard_stays_for_those_who_read_it() -> None:
    """Whoever finds it out, here a statement that changes the view."""

    async def check() -> None:
        gateway = Gateway()
        entry = gateway.add("v")
        first = entry.view.current
        gateway.spark.show(entry.view.name, entry.view, 2)
        gateway.settlement.doubt(entry)
        view = await gateway.settlement.certain(entry.view.name)
        assert view is not None
        assert view.current.number == 2
        assert (view.id, first) in gateway.left
        assert gateway.published == [view.id]

    run(check)


def test_a_doubtful_view_is_asked_about_until_the_metastore_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "PAUSE_SECONDS", 0.001)

    async def check() -> None:
        gateway = Gateway()
        entry = gateway.add("v")
        gateway.spark.failures = [LOST, LOST, LOST]
        gateway.settlement.doubt(entry)
        gateway.settlement.doubt(entry)
        while entry.doubtful:  # noqa: ASYNC110 (what is waited for sets no event)
            await asyncio.sleep(0)
        assert not gateway.spark.failures
        gateway.settlement.doubt(entry)
        while entry.doubtful:  # noqa: ASYNC110
            await asyncio.sleep(0)

    run(check)


def test_another_gateway_settles_what_is_in_doubt_once_it_has_come() -> None:
    async def check() -> None:
        gateway = Gateway()
        entry = gateway.add("v")
        settling = gateway.settlement
        gateway.spark.superseded = True
        for _ in range(2):
            gateway.settlement.doubt(entry)
            while settling._settling:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert entry.doubtful

    run(check)


@pytest.mark.parametrize("comes", [True, False])
def test_what_spark_may_still_carry_out_is_waited_for(monkeypatch: pytest.MonkeyPatch, comes: bool) -> None:
    monkeypatch.setattr(naming, "LATE_SECONDS", 0.2)

    async def check() -> None:
        gateway = Gateway()
        entry = gateway.add("v")
        new = TableName("d", "w")
        gateway.spark.stored[entry.view.storage] |= stored.write_move(new, 1)
        gateway.settlement.doubt(entry, error=LOST)
        settling = asyncio.create_task(gateway.settlement.settle(entry))
        while not gateway.spark.asked:  # noqa: ASYNC110
            await asyncio.sleep(0)
        if comes:
            gateway.spark.shown[new] = gateway.spark.shown.pop(entry.view.name)
        await settling
        assert entry.view.name == (new if comes else TableName("d", "v"))
        assert gateway.catalog.named(entry.view.name) is not None

    run(check)


def test_a_doubt_that_comes_while_one_is_settled_is_waited_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark may carry out later what a statement began that had the view's lock before."""
    monkeypatch.setattr(naming, "LATE_SECONDS", 0.2)

    async def check() -> None:
        gateway = Gateway()
        entry = gateway.add("v")
        gateway.settlement.doubt(entry)
        async with entry.lock:
            settling = asyncio.create_task(gateway.settlement.settle(entry))
            while not entry.lock._waiters:  # noqa: ASYNC110
                await asyncio.sleep(0)
            new = TableName("d", "w")
            gateway.spark.stored[entry.view.storage] |= stored.write_move(new, 1)
            gateway.settlement.doubt(entry, error=LOST)
        asked = gateway.spark.asked
        while gateway.spark.asked == asked:  # noqa: ASYNC110
            await asyncio.sleep(0)
        gateway.spark.shown[new] = gateway.spark.shown.pop(entry.view.name)
        await settling
        assert entry.view.name == new

    run(check)


def test_a_replaced_view_keeps_its_name_until_its_successor_has_it() -> None:
    """Whoever asks about the replaced view first. A read of a name without a view would go on, and show old rows."""

    async def check() -> None:
        gateway = Gateway()
        old, new = gateway.add("v"), gateway.add("w")
        name = old.view.name
        gateway.spark.stored[new.view.storage] |= stored.write_move(name, 1)
        gateway.spark.show(name, new.view, 1)
        async with new.lock:
            gateway.settlement.doubt(new, old)
            settling = asyncio.create_task(gateway.settlement.settle(old))
            for _ in range(100):
                await asyncio.sleep(0)
            assert gateway.catalog.entry_named(name) is old
        with pytest.raises(NoSuchView):
            await settling
        assert gateway.catalog.entry_named(name) is new
        assert gateway.catalog.find(old.view.id) is None

    run(check)


@pytest.mark.parametrize("error", [LOST, StatementFailed("not now", "XX000")])
@pytest.mark.parametrize("ends", [True, False])
def test_settings_are_written_as_they_are_after_others_may_have_been_stored(
    monkeypatch: pytest.MonkeyPatch, error: FreshgateError, ends: bool
) -> None:
    """After Spark may have carried that out, unless the gateway ends; and again where it cannot be done."""
    monkeypatch.setattr(naming, "LATE_SECONDS", 60.0 if ends else 0.01)
    monkeypatch.setattr(settlement, "PAUSE_SECONDS", 0.001)

    async def check() -> None:
        gateway = Gateway()
        entry, settling = gateway.add("v"), gateway.settlement
        gateway.spark.failures = [] if ends else [LOST, LOST]
        settling.store(entry, error)
        given(entry, owner="eve")
        if ends:
            await settling.stop()
        while not gateway.spark.ran:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert len(gateway.spark.ran) == 1
        assert b"eve".hex() in gateway.spark.ran[0]

    run(check)


@pytest.mark.parametrize("created", [True, False])
def test_a_view_whose_creation_broke_off_is_found_or_not(monkeypatch: pytest.MonkeyPatch, created: bool) -> None:
    """Late, and after errors."""
    monkeypatch.setattr(naming, "LATE_SECONDS", 0.01)
    monkeypatch.setattr(settlement, "PAUSE_SECONDS", 0.001)

    async def check() -> None:
        gateway, found = Gateway(), asyncio.get_running_loop().create_future()
        reserved = gateway.catalog.reserve(gateway.add("v", serve=False).view)
        shown = gateway.spark.shown.pop(reserved.view.name)
        gateway.spark.failures = [LOST, LOST]

        async def tell(created: bool) -> None:
            found.set_result(created)

        gateway.settlement.find_created(reserved, tell)
        while gateway.spark.asked < 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
        if created:
            gateway.spark.shown[reserved.view.name] = shown
        assert await found is created

    run(check)


def test_a_creation_of_unknown_outcome_is_left_to_the_next_start() -> None:
    async def check() -> None:
        gateway, told = Gateway(), list[bool]()
        reserved = gateway.catalog.reserve(gateway.add("v", serve=False).view)
        gateway.spark.failures = [LOST] * 1_000

        async def tell(created: bool) -> None:
            told.append(created)

        gateway.settlement.find_created(reserved, tell)
        while not gateway.spark.asked:  # noqa: ASYNC110
            await asyncio.sleep(0)
        (task,) = gateway.settlement._creating.values()
        await gateway.settlement.stop()
        assert task.cancelled()
        assert told == []

    run(check)


def test_a_forgotten_intention_takes_nobody_elses_name() -> None:
    """The storage was to be w, which is another view, and its own name shows a third one now."""

    async def check() -> None:
        gateway = Gateway()
        old, other, third = gateway.add("v", serve=False), gateway.add("w"), gateway.add("x")
        properties = {**gateway.spark.stored[old.view.storage], **stored.write_move(other.view.name, 1)}
        gateway.spark.show(old.view.name, third.view, 1)
        metastore = cast(Metastore, gateway.spark)
        assert await naming.settled(metastore, properties, old.view.storage) is None
        assert gateway.spark.ran == []
        # Nothing has its name: it was dropped, or is to take the other one's place.
        del gateway.spark.shown[old.view.name]
        dropped = {key: value for key, value in properties.items() if key not in stored.published_keys()}
        assert await naming.settled(metastore, dropped, old.view.storage) is None
        assert gateway.spark.ran == []
        assert await naming.settled(metastore, properties, old.view.storage) == (other.view.name, 1)
        # As in the middle of a swap, in which the other one is to have this one's name.
        gateway.spark.show(old.view.name, third.view, 1)
        gateway.spark.stored[other.view.storage] |= stored.write_move(old.view.name, 1)
        assert await naming.settled(metastore, properties, old.view.storage) == (other.view.name, 1)

    run(check)


def test_a_table_that_cannot_be_looked_at_keeps_no_other_from_being_found() -> None:
    async def check() -> None:
        gateway = Gateway()
        gateway.add("a", serve=False)
        found = gateway.add("b", serve=False)
        gateway.spark.failures = [LOST]
        loading = Loading(gateway.catalog, cast(Metastore, gateway.spark), 1)
        (leftover,) = await loading.survey()
        assert leftover.storage == found.view.storage
        assert [view.id for view in gateway.catalog.views()] == [found.view.id]
        assert found.view.name.table in gateway.catalog.view_words
        await loading.survey()
        assert len(gateway.catalog.views()) == 2

    run(check)


def test_work_that_is_cancelled_twice_ends_all_the_same() -> None:
    async def check() -> None:
        begun, ends, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work() -> None:
            begun.set()
            await ends.wait()
            ended.set()

        task = asyncio.create_task(unbroken(work()))
        await begun.wait()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        ends.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    run(check)


def test_what_a_cancelled_caller_was_dropping_is_dropped_later() -> None:
    async def check() -> None:
        waits = asyncio.Event()

        class Slow(StoredViews):
            async def relation(self, name: TableName) -> Relation | None:
                await waits.wait()
                return await super().relation(name)

        spark, nothing = Slow(), cast(Any, None)
        removal = Removal(nothing, nothing, nothing, cast(Metastore, spark), nothing)
        janitor = Janitor(removal, Readers(), cast(Fence, spark), 0.0)
        storage = TableName("s", "d__v__1")
        task = asyncio.create_task(janitor.drop_now("v", Leftover(storage, naming.definition_of(storage))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        waits.set()
        assert janitor.waiting == 1
        await janitor.sweep()
        assert janitor.waiting == 0
        assert any("d__v__1" in sql for sql in spark.ran)

    run(check)
