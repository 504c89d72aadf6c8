"""Connections of the gateway's to Spark that serve again: for whom, for how long, and which never do."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace

import pytest

from gateway.mv.ports import SqlSession
from gateway.service.clients import sides as service_sides
from gateway.service.clients.sides import KEPT_MAX, KEPT_MAX_PER_LOGIN, SPARE_MAX, Sides
from gateway.wire.message import Handle
from gateway.wire.sasl import PLAIN, Login

ADA = Login("ada", "her word", PLAIN)


class Side:
    def __init__(self, login: Login, *, asked: bool, at: str = "") -> None:
        self.login = login
        self.at = at
        self.asked = asked
        self.alive = True
        self.busy = False
        self.ends = asyncio.Event()
        self.ends.set()
        self.closed = asyncio.Event()

    async def forward(self, payload: bytes) -> bytes:
        raise AssertionError("nobody asks for it")

    def session(self, handle: Handle) -> SqlSession:
        raise AssertionError("nobody asks for it")

    async def close(self) -> None:
        self.alive = False
        await self.ends.wait()
        self.closed.set()


class Connections:
    """Implements `side_connections.Upstream`, and keeps what was connected."""

    def __init__(self) -> None:
        self.made: list[Side] = []

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> Side:
        self.made.append(Side(login, asked=ask, at=at or "a"))
        return self.made[-1]


async def test_a_connection_to_another_server_is_not_taken() -> None:
    sides = Sides(Connections(), 60.0)
    await sides.give_back(ADA, first := await sides.connect(ADA))
    assert (other := await sides.connect(ADA, at="b")) is not first
    assert other.at == "b"
    assert await sides.connect(ADA, at="a") is first
    await sides.give_back(ADA, first)
    assert await sides.connect(ADA) is first


async def test_it_serves_again_who_logs_in_alike() -> None:
    spark = Connections()
    sides = Sides(spark, 60.0)
    first = await sides.connect(ADA)
    await sides.give_back(ADA, first)
    for other in (replace(ADA, user="eve"), replace(ADA, password="another")):
        assert await sides.connect(other) is not first
    assert await sides.connect(replace(ADA)) is first
    assert await sides.connect(ADA) is not first, "it is lent"
    assert len(spark.made) == 4


async def test_spark_is_asked_over_another_one_where_it_is_to_be_asked() -> None:
    spark = Connections()
    sides = Sides(spark, 60.0)
    first = await sides.connect(ADA)
    await sides.give_back(ADA, first)
    assert await sides.connect(ADA, ask=True) is not first
    assert spark.made[-1].asked
    await sides.close()


@pytest.mark.parametrize("flaw", ["broken", "busy"])
async def test_one_that_is_no_good_is_closed(flaw: str) -> None:
    sides = Sides(Connections(), 60.0)
    first = await sides.connect(ADA)
    assert isinstance(first, Side)
    first.alive = flaw != "broken"
    first.busy = flaw == "busy"
    await sides.give_back(ADA, first)
    assert not first.alive
    assert await sides.connect(ADA) is not first


async def test_one_that_breaks_while_it_is_kept_is_passed_over() -> None:
    sides = Sides(Connections(), 60.0)
    both = [await sides.connect(ADA) for _ in range(2)]
    for side in both:
        await sides.give_back(ADA, side)
    assert isinstance(both[1], Side)
    both[1].alive = False
    assert await sides.connect(ADA) is both[0]


async def test_it_is_kept_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_sides, "KEPT_SECONDS", 0.01)
    sides = Sides(Connections(), 60.0)
    first = await sides.connect(ADA)
    await sides.give_back(ADA, first)
    assert isinstance(first, Side)
    await first.closed.wait()
    assert await sides.connect(ADA) is not first


@pytest.mark.parametrize("seconds", [0.0, 0.05])
async def test_none_serves_longer_than_its_password_is_trusted(seconds: float) -> None:
    """Also if it is given back again and again, until it is."""
    spark = Connections()
    sides = Sides(spark, seconds)
    first = await sides.connect(ADA)
    assert isinstance(first, Side)
    await sides.give_back(ADA, first)
    while await sides.connect(ADA) is first:
        await sides.give_back(ADA, first)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(first.closed.wait(), 0.001)
    await first.closed.wait()


async def test_those_that_broke_hinder_nobody() -> None:
    """As all do when Spark is started again: the ends of some take a while, and others log in alike meanwhile."""
    spark = Connections()
    sides = Sides(spark, 60.0)
    lent = [await sides.connect(ADA) for _ in range(3)]
    for side in lent:
        await sides.give_back(ADA, side)
    for made in spark.made:
        made.alive = False
        made.ends = asyncio.Event()
    first, second = await asyncio.gather(sides.connect(ADA), sides.connect(ADA))
    assert first is not second
    assert not {first, second} & set(lent)
    for made in spark.made[:3]:
        made.ends.set()


async def test_few_are_kept() -> None:
    spark = Connections()
    sides = Sides(spark, 60.0)
    logins = [replace(ADA, user=str(number)) for number in range(KEPT_MAX)]
    lent = [(login, await sides.connect(login)) for login in [ADA] * (KEPT_MAX_PER_LOGIN + 1) + logins]
    for login, side in lent:
        await sides.give_back(login, side)
    assert sum(side.alive for side in spark.made if side.login == ADA) == KEPT_MAX_PER_LOGIN
    assert sum(side.alive for side in spark.made) == KEPT_MAX
    await sides.close()
    assert not any(side.alive for side in spark.made)


async def test_few_wait_for_spark_at_one_time() -> None:
    """Each has one of its threads. What is given back serves the next one."""
    spark = Connections()
    sides = Sides(spark, 60.0)
    going_on = asyncio.Event()
    lent = Counter[Side]()

    async def ask() -> None:
        async with sides.spare(ADA) as side:
            assert isinstance(side, Side)
            lent[side] += 1
            await going_on.wait()

    asking = [asyncio.create_task(ask()) for _ in range(3 * SPARE_MAX)]
    while len(spark.made) < SPARE_MAX:  # noqa: ASYNC110 (what is waited for sets no event)
        await asyncio.sleep(0)
    assert lent.total() <= SPARE_MAX
    going_on.set()
    await asyncio.gather(*asking)
    assert lent.total() == 3 * SPARE_MAX
    await sides.close()


async def test_what_comes_back_after_the_end_is_closed() -> None:
    sides = Sides(Connections(), 60.0)
    first, second = await sides.connect(ADA), await sides.connect(ADA)
    await sides.give_back(ADA, first)
    await sides.close()
    await sides.give_back(ADA, second)
    assert not first.alive
    assert not second.alive
