"""Tests pages fetched in advance, on one connection: order, bytes, memory, and the loss of either end."""

from __future__ import annotations

import asyncio
import random

import pytest
from proxy.peers import Gateway, Peer, Script, ScriptedServer, Service, echo_of, gateway, until
from proxy.test_http_relay import post, reply
from wire import calls
from wire.spark_result import SparkResult, fetch

from gateway.proxy import read_ahead
from gateway.proxy.relay import Relay
from gateway.service.decision import Decision, Forward
from gateway.wire.connection import NOSASL
from gateway.wire.frame import frame
from gateway.wire.message import FETCH_FIRST, FETCH_NEXT, FETCH_PRIOR, fetch_call, peek, reply_status
from gateway.wire.reading import Ahead, ResultReading
from gateway.wire.reply import closed
from gateway.wire.sasl import PLAIN

MECHANISMS = pytest.mark.parametrize("client_mechanism", [PLAIN, NOSASL])
NEXT_3 = (FETCH_NEXT, 3)


class Reads:
    """A dispatcher for one result that any number of connections read, each with its own reader."""

    def __init__(self) -> None:
        self.reading = ResultReading()

    def service(self) -> Service:
        reader = object()

        def decide(request: bytes) -> Decision:
            if peek(request).name == "CloseOperation":
                self.reading.close()
                return Forward(request, lambda _: None, at_once=closed("CloseOperation", peek(request).seqid))
            if peek(request).name != "FetchResults":
                return Forward(request)
            return Forward(request, page=self.reading.page(request, self.reading.call(request), reader))

        return Service(decide=decide)


def answering(result: SparkResult, answered: list[bytes] | None = None) -> Script:
    """A Spark with one result, which answers other requests with errors."""

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.message()
            name = peek(request).name
            peer.send(result.answer(request) if name == "FetchResults" else echo_of(request))
            await peer.writer.drain()
            if answered is not None:
                answered.append(request)

    return script


def relay_of(gate: Gateway) -> Relay:
    return next(iter(gate.listener._relays))


async def asked(peer: Peer, request: bytes) -> bytes:
    peer.send(request)
    return await peer.message()


async def two_pages(peer: Peer, rows: int) -> None:
    """Reads two pages, after which the gateway fetches the third one in advance."""
    for number in range(2):
        await asked(peer, fetch(FETCH_NEXT, rows, number))


async def page_over_http(peer: Peer, reads: Reads, rows: int = 3) -> Ahead:
    """Reads two pages, and returns the page fetched in advance."""
    for number in range(2):
        peer.writer.write(post(fetch(FETCH_NEXT, rows, number)))
        await reply(peer)
    assert reads.reading.ahead is not None
    return reads.reading.ahead


@MECHANISMS
async def test_a_client_gets_the_answers_of_spark(client_mechanism: str) -> None:
    """Small pages are kept completely, long ones only in part; other calls come between."""
    taken = dropped = 0
    for seed in range(20):
        chance = random.Random(seed)
        lengths = [chance.choice([10, 3_000, 200_000]) for _ in range(40)]
        plain, result = SparkResult(lengths), SparkResult(lengths)
        async with gateway(ScriptedServer(script=answering(result)), Reads().service) as gate:
            peer = await gate.client(client_mechanism)
            for number in range(30):
                if chance.random() < 0.15:
                    other = calls.execute("x" * chance.randrange(5000), seqid=number)
                    assert await asked(peer, other) == echo_of(other)
                orientation = chance.choices([FETCH_NEXT, FETCH_PRIOR, FETCH_FIRST], [20, 1, 1])[0]
                request = fetch(orientation, chance.choices([3, 1, 50], [20, 1, 1])[0], number)
                assert await asked(peer, request) == plain.answer(request), (seed, number)
            taken += gate.traffic.pages_ahead_taken
            dropped += gate.traffic.pages_ahead - gate.traffic.pages_ahead_taken
    assert taken > 20
    assert dropped > 5


async def test_pages_are_fetched_in_advance_over_http() -> None:
    plain, result = SparkResult([3_000] * 40), SparkResult([3_000] * 40)
    async with gateway(ScriptedServer(script=answering(result)), Reads().service, http=True) as gate:
        peer = await gate.dial()
        for number in range(9):
            request = fetch(FETCH_NEXT, 3, number)
            peer.writer.write(post(request))
            assert await reply(peer) == (200, plain.answer(request))
        assert gate.traffic.pages_ahead_taken == 7


async def test_over_http_another_user_does_not_get_the_page() -> None:
    """The page is discarded before the connection to Spark is closed."""
    reads, result = Reads(), SparkResult([200_000] * 400)
    async with gateway(ScriptedServer(script=answering(result)), reads.service, http=True) as gate:
        peer = await gate.dial()
        ahead = await page_over_http(peer, reads, 100)
        peer.writer.write(post(calls.status(), "eve"))
        assert await reply(peer) == (200, echo_of(calls.status()))
        await until(lambda: ahead.over)
        assert not reads.reading.lost
        await until(lambda: gate.spark.connected() == 1)


async def test_the_third_page_is_fetched_in_advance() -> None:
    result = SparkResult([10] * 20)
    async with gateway(ScriptedServer(script=answering(result)), Reads().service) as gate:
        peer = await gate.client()
        await two_pages(peer, 3)
        await until(lambda: (page := relay_of(gate)._ahead._page) is not None and page.complete)
        assert result.asked == [NEXT_3] * 3
        await asked(peer, fetch(FETCH_NEXT, 3, 9))
        assert gate.traffic.pages_ahead_taken == 1


async def test_the_memory_for_a_page_is_bounded_and_freed_for_other_requests() -> None:
    result = SparkResult([200_000] * 400)
    answered: list[bytes] = []
    async with gateway(ScriptedServer(script=answering(result, answered)), Reads().service) as gate:
        peer = await gate.client()
        await two_pages(peer, 100)
        relay = relay_of(gate)
        await until(lambda: relay._upstream is not None and relay._upstream._paused)
        page = relay._ahead._page
        assert page is not None
        assert gate.limits.buffer_bytes_max < page.held <= gate.limits.buffer_bytes_max + 300_000
        assert len(answered) == 2, "Spark has sent all of it"
        other = calls.execute("select 1")
        assert await asked(peer, other) == echo_of(other)
        assert page.held == 0
        plain = SparkResult([200_000] * 400)
        plain.position = 200
        assert await asked(peer, fetch(FETCH_NEXT, 100, 5)) == plain.answer(fetch(FETCH_NEXT, 100, 5))
        assert result.asked == [(FETCH_NEXT, 100)] * 3 + [(FETCH_PRIOR, 100), (FETCH_NEXT, 100)]


def holding(result: SparkResult, go_on: asyncio.Event, names: list[str]) -> Script:
    """A Spark that answers fetches immediately, and other requests when `go_on` is set."""

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.message()
            names.append(peek(request).name)
            if names[-1] == "FetchResults":
                peer.send(result.answer(request))
            else:
                await go_on.wait()
                peer.send(echo_of(request))

    return script


async def test_spark_steps_back_before_it_gets_another_request() -> None:
    """So while that request runs, rows can be fetched over another connection."""
    reads, result, plain = Reads(), SparkResult([10] * 100), SparkResult([10] * 100)
    go_on = asyncio.Event()
    names: list[str] = []
    async with gateway(ScriptedServer(script=holding(result, go_on, names)), reads.service) as gate:
        peer, elsewhere = await gate.client(), await gate.client()
        await two_pages(peer, 3)
        ahead = reads.reading.ahead
        assert ahead is not None
        await until(lambda: ahead.complete)
        other = calls.execute("select 1")
        peer.send(other)
        await until(lambda: names[-1] == "ExecuteStatement")
        await until(lambda: ahead.over)
        assert ahead.held == 0
        assert result.asked == [*[NEXT_3] * 3, (FETCH_PRIOR, 3)]
        plain.position = 6
        assert await asked(elsewhere, fetch(FETCH_NEXT, 3, 9)) == plain.answer(fetch(FETCH_NEXT, 3, 9))
        go_on.set()
        assert await peer.message() == echo_of(other)


async def test_a_client_that_leaves_during_another_request_loses_no_rows() -> None:
    reads, result = Reads(), SparkResult([10] * 100)
    go_on = asyncio.Event()
    names: list[str] = []
    async with gateway(ScriptedServer(script=holding(result, go_on, names)), reads.service, http=True) as gate:
        peer = await gate.dial()
        ahead = await page_over_http(peer, reads)
        peer.writer.write(post(calls.execute("select 1")))
        await until(lambda: names[-1] == "ExecuteStatement")
        peer.cut()
        await until(lambda: ahead.over and gate.listener.clients == 0)
        assert not reads.reading.lost
        go_on.set()


@pytest.mark.parametrize("eve_leaves", [True, False])
async def test_over_http_another_user_does_not_wait_for_the_page(eve_leaves: bool) -> None:
    """Spark is slow, and a proxy sends the requests of several users over one connection. No rows are lost."""
    reads, result = Reads(), SparkResult([10] * 100)
    comes = asyncio.Event()

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.message()
            if peek(request).name != "FetchResults":
                peer.send(echo_of(request))
                continue
            if len(result.asked) == 2:
                await comes.wait()
            peer.send(result.answer(request))

    async with gateway(ScriptedServer(script=script), reads.service, http=True) as gate:
        peer = await gate.dial()
        ahead = await page_over_http(peer, reads)
        peer.writer.write(post(calls.status(), "eve"))
        if eve_leaves:
            await until(lambda: len(gate.services) == 2)
            peer.cut()
            await until(lambda: gate.listener.clients == 0)
        else:
            assert await reply(peer) == (200, echo_of(calls.status()))
        assert not ahead.over
        comes.set()
        await until(lambda: ahead.over)
        assert not reads.reading.lost
        assert result.position == 6


@pytest.mark.parametrize("how", ["never answers", "breaks", "answers garbage"])
async def test_a_failed_step_back_ends_the_reading(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "BACK_SECONDS", 0.05 if how == "never answers" else 20.0)
    reads, result = Reads(), SparkResult([10] * 100)
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        for _ in range(2):
            peer.send(result.answer(await peer.message()))
        await peer.message()
        await gone.wait()
        if how == "answers garbage":
            peer.send(b"x" * 100)
        if how != "breaks":
            await peer.closed()

    async with gateway(ScriptedServer(script=script), reads.service) as gate:
        peer = await gate.client()
        await two_pages(peer, 3)
        ahead = reads.reading.ahead
        assert ahead is not None
        peer.cut()
        await until(lambda: gate.listener.clients == 0)
        gone.set()
        await until(lambda: ahead.over)
        assert reads.reading.lost
        await until(lambda: gate.spark.connected() == 0)


async def test_a_dropped_page_is_read_even_if_the_client_does_not_read() -> None:
    """Others may wait for Spark to finish the page."""
    reads, result = Reads(), SparkResult([200_000] * 400)
    async with gateway(ScriptedServer(script=answering(result)), reads.service) as gate:
        peer = await gate.client()
        await two_pages(peer, 100)
        relay, ahead = relay_of(gate), reads.reading.ahead
        assert ahead is not None
        relay.pause_writing()
        assert relay._upstream is not None
        assert relay._upstream._paused
        ahead.drop()
        await until(lambda: ahead.over)
        relay.resume_writing()
        other = calls.execute("select 1")
        assert await asked(peer, other) == echo_of(other)


@pytest.mark.parametrize("kept", [True, False])
async def test_after_a_client_has_left_another_one_misses_no_rows(kept: bool) -> None:
    """This applies if Spark, and not the gateway, closes what a client leaves behind."""
    reads = Reads()
    plain, result = SparkResult([10 if kept else 200_000] * 400), SparkResult([10 if kept else 200_000] * 400)
    async with gateway(ScriptedServer(script=answering(result)), reads.service) as gate:
        peer, other = await gate.client(), await gate.client()
        for number in range(2):
            request = fetch(FETCH_NEXT, 100, number)
            assert await asked(peer, request) == plain.answer(request)
        ahead = reads.reading.ahead
        assert ahead is not None
        peer.cut()
        await until(lambda: ahead.over)
        request = fetch(FETCH_NEXT, 100, 7)
        assert await asked(other, request) == plain.answer(request)


async def test_a_long_page_continues_when_the_client_requests_it() -> None:
    plain, result = SparkResult([200_000] * 400), SparkResult([200_000] * 400)
    async with gateway(ScriptedServer(script=answering(result)), Reads().service) as gate:
        peer = await gate.client()
        for number in range(5):
            request = fetch(FETCH_NEXT, 100, number)
            assert await asked(peer, request) == plain.answer(request)
        assert gate.traffic.pages_ahead_taken == 3


async def test_closing_the_operation_discards_the_page() -> None:
    result = SparkResult([200_000] * 400)
    answered: list[bytes] = []
    async with gateway(ScriptedServer(script=answering(result, answered)), Reads().service) as gate:
        peer = await gate.client()
        await two_pages(peer, 100)
        relay = relay_of(gate)
        await until(lambda: relay._upstream is not None and relay._upstream._paused)
        close = calls.close()
        assert await asked(peer, close) == closed("CloseOperation", peek(close).seqid)
        other = calls.execute("select 1")
        assert await asked(peer, other) == echo_of(other)
        assert [peek(each).name for each in answered[-2:]] == ["CloseOperation", "ExecuteStatement"]
        assert relay._ahead._page is None


@pytest.mark.parametrize("rows", [1, 100])
async def test_the_page_of_a_client_that_leaves_is_discarded(rows: int) -> None:
    """Spark sends the page and steps back before the connection is closed."""
    answered: list[bytes] = []
    spark = ScriptedServer(script=answering(SparkResult([200_000] * 400), answered))
    async with gateway(spark, Reads().service) as gate:
        peer = await gate.client()
        await two_pages(peer, rows)
        peer.cut()
        await until(lambda: gate.has("client_lost") and len(answered) == 4)
        asked_for = [fetch_call(each).orientation for each in answered]
        assert asked_for == [FETCH_NEXT, FETCH_NEXT, FETCH_NEXT, FETCH_PRIOR]


async def test_an_unused_page_is_discarded_after_some_time() -> None:
    result = SparkResult([10] * 100)
    reads = Reads()
    async with gateway(ScriptedServer(script=answering(result)), reads.service) as gate:
        peer = await gate.client()
        await two_pages(peer, 3)
        relay = relay_of(gate)
        await until(lambda: relay._ahead._page is not None and relay._ahead._page.complete)
        now = relay._loop.time()
        relay.sweep(now)
        assert relay._ahead._page is not None
        relay.sweep(now + 11)
        await until(lambda: relay._ahead._page is None)
        request = fetch(FETCH_NEXT, 3, 9)
        plain = SparkResult([10] * 100)
        plain.position = 6
        assert await asked(peer, request) == plain.answer(request)
        assert result.asked == [*[NEXT_3] * 3, (FETCH_PRIOR, 3), NEXT_3]


async def test_a_page_is_discarded_if_spark_is_lost() -> None:
    reads = Reads()
    gone = asyncio.Event()
    result = SparkResult([10] * 100)

    async def script(peer: Peer) -> None:
        for _ in range(2):
            peer.send(result.answer(await peer.message()))
        await peer.message()
        gone.set()

    async with gateway(ScriptedServer(script=script), reads.service) as gate:
        peer = await gate.client()
        await two_pages(peer, 3)
        await gone.wait()
        await until(lambda: gate.has("upstream_lost"))
        assert reads.reading.lost
        assert reads.reading.ahead is None
        assert relay_of(gate)._ahead._page is None


@pytest.mark.parametrize("kept", [0, 20, 400])
async def test_spark_is_lost_during_a_requested_page(kept: int) -> None:
    """The client gets an error if nothing of the page was sent; otherwise its connection is closed."""
    result = SparkResult([10] * 100)
    reads = Reads()
    claimed = asyncio.Event()

    async def script(peer: Peer) -> None:
        for _ in range(2):
            peer.send(result.answer(await peer.message()))
        peer.writer.write(frame(SparkResult([500] * 9).answer(await peer.message()))[:kept])
        await peer.writer.drain()
        await claimed.wait()

    async with gateway(ScriptedServer(script=script), reads.service) as gate:
        peer = await gate.client()
        await two_pages(peer, 3)
        relay = relay_of(gate)
        await until(lambda: relay._ahead._page is not None and relay._ahead._page.held == kept)
        peer.send(fetch(FETCH_NEXT, 3, 9))
        await until(lambda: gate.traffic.pages_ahead_taken)
        claimed.set()
        if kept < 28:
            answer = await peer.message()
            assert (peek(answer).seqid, reply_status(answer).message) == (9, "Spark is gone")
            assert reads.reading.lost
        else:
            assert len(await peer.closed()) == kept


async def test_a_page_in_several_frames_ends_the_connection() -> None:
    """Spark never sends one. The rest of the page must not be taken for the next page."""
    result = SparkResult([10] * 100)

    async def script(peer: Peer) -> None:
        peer.send(result.answer(await peer.message()))
        page = result.answer(await peer.message())
        peer.writer.write(frame(page[:400]))
        await peer.message()
        peer.writer.write(frame(page[400:]))
        await peer.closed()

    async with gateway(ScriptedServer(script=script), Reads().service) as gate:
        peer = await gate.client()
        await asked(peer, fetch(FETCH_NEXT, 30, 1))
        peer.send(fetch(FETCH_NEXT, 30, 2))
        await until(lambda: gate.has("upstream_lost"))
        assert gate.traffic.pages_ahead == 1


async def test_no_page_is_fetched_in_advance_without_frames() -> None:
    result, plain = SparkResult([10] * 20), SparkResult([10] * 20)
    async with gateway(ScriptedServer(NOSASL, answering(result)), Reads().service) as gate:
        peer = await gate.client()
        for number in range(9):
            request = fetch(FETCH_NEXT, 3, number)
            assert await asked(peer, request) == plain.answer(request)
        assert gate.traffic.pages_ahead == 0
