"""Which versions may go: against a model in which each read sees what was current at some moment of its planning."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.mv.versions.readers import PLANNING_SECONDS, Read, Readers

VIEW = "v"


class History(RuleBasedStateMachine):
    """One view: versions come, reads begin, are planned and end. Spark may plan a read at any moment in between."""

    def __init__(self) -> None:
        super().__init__()
        self.readers = Readers()
        self.number = 1
        self.since = self.readers.now()
        self.retired: dict[int, tuple[int, int]] = {}
        self.reads: dict[Read, set[int]] = {}
        """Of each open read the versions that it may have seen."""

    @rule()
    def publish(self) -> None:
        now = self.readers.now()
        self.retired[self.number] = self.since, now
        self.number, self.since = self.number + 1, now
        for read, seen in self.reads.items():
            if read.planned is None and read.views:
                seen.add(self.number)

    @rule()
    def begin(self) -> None:
        self.reads[self.readers.begin([VIEW])] = {self.number}

    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([*self.retired, self.number]))
        self.reads[self.readers.begin(versions=[(VIEW, number)])] = {number}

    @rule(data=st.data())
    def plan(self, data: st.DataObject) -> None:
        if self.reads:
            self.readers.planned(data.draw(st.sampled_from(list(self.reads))))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.reads:
            read = data.draw(st.sampled_from(list(self.reads)))
            self.readers.release(read)
            del self.reads[read]

    @invariant()
    def counted(self) -> None:
        """Versions that a client may read are kept, and no others."""
        for number, (published, retired) in self.retired.items():
            expected = sum(number in seen for seen in self.reads.values())
            assert self.readers.count(VIEW, number, published, retired) == expected
        expected = sum(self.number in seen for seen in self.reads.values())
        assert self.readers.count(VIEW, self.number, self.since, None) == expected
        assert self.readers.count("other", 1, 0, None) == 0
        assert self.readers.any_of(VIEW, self.readers.now()) == bool(self.reads)
        assert not self.readers.any_of("other", self.readers.now())


TestHistory = History.TestCase


def test_who_reads_a_view_is_asked_of_its_reads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    readers, asked = Readers(), Counter[Read]()
    may_read = Read.may_read

    def counted(read: Read, view_id: str, number: int, published: int, retired: int | None) -> bool:
        asked[read] += 1
        return may_read(read, view_id, number, published, retired)

    monkeypatch.setattr(Read, "may_read", counted)
    for number in range(100):
        readers.begin([f"v{number}"], versions=[(f"w{number}", 1)])
    both = readers.begin([VIEW, "v7"], versions=[(VIEW, 1), (VIEW, 2)])
    assert readers.count(VIEW, 2, 0, None) == 1
    assert asked == {both: 1}
    readers.release(both)
    readers.release(both)
    assert readers.count(VIEW, 2, 0, None) == 0
    assert readers.count("v7", 1, 0, None) == readers.count("w7", 1, 0, None) == 1
    assert asked.total() == 3


def test_who_ends_tells_of_what_was_read() -> None:
    readers, told = Readers(), list[frozenset[str]]()
    readers.released.add(lambda views: told.append(frozenset(views)))
    read = readers.begin([VIEW], versions=[("w", 3)])
    for _ in range(2):
        readers.planned(read)
    for _ in range(2):
        readers.release(read)
    assert told == [frozenset({VIEW, "w"})] * 2


def test_a_name_waits_for_reads_and_reads_wait_for_the_name() -> None:
    async def story() -> None:
        readers, order = Readers(clock=lambda: 0.0), list[str]()
        read, other = readers.begin([VIEW]), readers.begin(["other"])

        async def move() -> None:
            async with readers.held([VIEW]):
                order.append("moved")

        async def enter() -> None:
            await readers.admission([VIEW])
            order.append("admitted")

        moving = asyncio.create_task(move())
        await turns()
        assert (readers.is_held([VIEW]), readers.is_held(["other"])) == (True, False)
        entering = asyncio.create_task(enter())
        await turns()
        assert order == []
        readers.planned(read)
        await asyncio.gather(moving, entering)
        assert order == ["moved", "admitted"]
        assert not readers.is_held([VIEW])
        readers.release(other)

    asyncio.run(story())


def test_a_read_that_does_not_end_keeps_no_name() -> None:
    async def story() -> None:
        moment = 0.0
        readers = Readers(clock=lambda: moment)
        readers.begin([VIEW])
        moment += PLANNING_SECONDS
        readers.planned(readers.begin([VIEW]))
        async with readers.held([VIEW]):
            assert readers.is_held([VIEW])
        assert not readers.is_held([VIEW])

    asyncio.run(story())


async def turns() -> None:
    """Turns of the event loop, with which everything that need not wait is done."""
    for _ in range(10):
        await asyncio.sleep(0)
