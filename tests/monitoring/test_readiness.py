"""Tests readiness, the histogram and the lag of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import UpstreamLost
from gateway.monitoring import lag as lag_of
from gateway.monitoring.lag import LoopLag
from gateway.monitoring.readiness import CHECK_SECONDS_MAX, Readiness
from gateway.tally import Histogram


class Check:
    """A question to Spark that is answered, or raises `error`."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = 0
        self.within = 0.0

    async def ask(self, seconds: float) -> None:
        self.asked += 1
        self.within = seconds
        if self.error is not None:
            raise self.error


def test_readiness_names_what_is_missing() -> None:
    async def scenario() -> None:
        check, now = Check(), [100.0]
        readiness = Readiness(check.ask, 5, lambda: now[0])
        assert [each.split(":")[0] for each in readiness.missing] == [
            "Spark does not answer",
            "The catalog of materialized views is not loaded yet.",
        ]
        await readiness.check()
        readiness.catalog_loaded = True
        assert readiness.missing == []
        assert check.within == CHECK_SECONDS_MAX
        for error, said in (
            (UpstreamLost("Spark is gone."), "Spark does not answer: Spark is gone."),
            (TimeoutError(), "Spark does not answer: it did not within 10 seconds."),
            (ValueError("a fault"), "Spark does not answer: ValueError('a fault')"),
        ):
            check.error = error
            await readiness.check()
            assert readiness.missing == [said]
            check.error = None
            await readiness.check()
            assert readiness.missing == []
        readiness.draining = True
        assert readiness.missing == ["The gateway is being stopped."]
        readiness.draining = False
        now[0] += 31
        assert readiness.missing == ["Spark does not answer: the last check is 31 s old"]

    asyncio.run(scenario())


def test_readiness_is_checked_repeatedly() -> None:
    async def scenario() -> None:
        check = Check()
        readiness = Readiness(check.ask, 0)
        readiness.loop.start()
        async with asyncio.timeout(20):
            while check.asked < 3:  # noqa: ASYNC110 - it sets no event
                await asyncio.sleep(0)
        await readiness.loop.stop()
        asked = check.asked
        await asyncio.sleep(0)
        assert check.asked == asked

    asyncio.run(scenario())


def test_a_histogram_has_cumulative_buckets() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 3.0):
        histogram.add(value)
    assert list(histogram.buckets()) == [("1.0", 2.0), ("2.0", 3.0), ("+Inf", 4.0)]
    assert histogram.total == 6.0


def test_the_lag_of_a_blocked_event_loop_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_of, "INTERVAL_SECONDS", 0.001)

    async def scenario() -> None:
        lag = LoopLag()
        lag.loop.start()
        async with asyncio.timeout(20):
            while not dict(lag.seconds.buckets())["+Inf"]:  # noqa: ASYNC110 - it sets no event
                await asyncio.sleep(0)
        await lag.loop.stop()
        measured = dict(lag.seconds.buckets())["+Inf"]
        lag.measure(30.7)
        lag.measure(-0.001)  # possible because uvloop's clock has milliseconds
        assert lag.greatest == 30.7
        assert dict(lag.seconds.buckets())["+Inf"] == measured + 2

    asyncio.run(scenario())
