"""Tests the relay between a client and Spark: logins, order, bytes, back-pressure, and the loss of either end."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable
from dataclasses import replace

import pytest
from proxy.peers import LIMITS, Peer, ScriptedServer, Service, echo, echo_of, gateway, login_bytes, until
from wire import calls

from gateway.service.decision import Answer, Decision, Forward
from gateway.wire import reply as replies
from gateway.wire.connection import NOSASL
from gateway.wire.frame import WireError, frame
from gateway.wire.message import operation_state, peek, reply_status, with_seqid
from gateway.wire.rowset import ResultColumn, row_set
from gateway.wire.sasl import COMPLETE, PLAIN, negotiation, refusal

MECHANISMS = pytest.mark.parametrize("client_mechanism", [PLAIN, NOSASL])
UPSTREAMS = pytest.mark.parametrize("spark_mechanism", [PLAIN, NOSASL])


def service(decide: Callable[[bytes], Decision]) -> Callable[[], Service]:
    return lambda: Service(decide=decide)


def message_of(reply: bytes) -> str | None:
    return reply_status(reply).message


# --- login -----------------------------------------------------------------------------------------------


async def test_spark_checks_the_login_first() -> None:
    spark = ScriptedServer(before_answer=asyncio.Event())
    async with gateway(spark) as gate:
        peer = await gate.dial()
        peer.writer.write(login_bytes())
        await until(lambda: spark.logins)
        assert spark.logins[0].user == "ada"
        assert not peer.reader._buffer  # type: ignore[attr-defined]
        assert spark.before_answer is not None
        spark.before_answer.set()
        assert await peer.reader.readexactly(5) == negotiation(COMPLETE)
        assert gate.service.calls == ["login", "upstream_login"]


async def test_a_refused_login_gets_sparks_message_and_no_request_runs() -> None:
    async with gateway(ScriptedServer(refuse_with="who is ada?")) as gate:
        peer = await gate.dial()
        peer.writer.write(login_bytes() + frame(calls.execute("drop table t")))
        assert await peer.closed() == refusal("who is ada?")
        await until(lambda: gate.has("client_lost"))
        assert gate.service.calls == ["login", "upstream_login", "refused by Spark", "client_lost"]


async def test_a_login_that_the_gateway_refuses_never_reaches_spark() -> None:
    async with gateway(ScriptedServer(), lambda: Service(refuse_with="not you")) as gate:
        peer = await gate.dial()
        peer.writer.write(login_bytes() + frame(calls.execute("drop table t")))
        assert await peer.closed() == refusal("not you")
        assert gate.spark.logins == []


async def test_an_unreachable_spark_is_named() -> None:
    spark = ScriptedServer()
    async with gateway(spark) as gate:
        unused = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        spark.port = unused.sockets[0].getsockname()[1]
        unused.close()
        await unused.wait_closed()
        peer = await gate.dial()
        peer.writer.write(login_bytes())
        answer = await peer.closed()
        assert answer[:1] == b"\x03"
        assert f"127.0.0.1:{spark.port}".encode() in answer


async def test_a_spark_that_does_not_answer_the_login_causes_an_error() -> None:
    async with gateway(
        ScriptedServer(before_answer=asyncio.Event()), limits=replace(LIMITS, login_seconds=0.05)
    ) as gate:
        peer = await gate.dial()
        peer.writer.write(login_bytes())
        assert b"did not answer the login within 0.05 seconds" in await peer.closed()
        assert gate.spark.before_answer is not None
        gate.spark.before_answer.set()


async def test_without_sasl_spark_is_connected_at_the_first_forwarded_request() -> None:
    def decide(request: bytes) -> Decision:
        return Answer(echo_of(request)) if peek(request).name == "GetInfo" else Forward(request)

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client(NOSASL)
        peer.send(calls.samples()[6])
        await peer.message()
        assert gate.spark.peers == []
        peer.send(calls.open_session())
        await peer.message()
        assert gate.service.calls == ["login", "GetInfo", "OpenSession", "upstream_login"]


async def test_without_sasl_a_refusal_by_spark_is_noted() -> None:
    async with gateway(ScriptedServer(refuse_with="who is ada?")) as gate:
        peer = await gate.client(NOSASL)
        peer.send(calls.open_session())
        assert message_of(await peer.message()) == "who is ada?"
        assert gate.service.calls[-2:] == ["refused by Spark", "not_joined"]


async def test_early_requests_wait_for_the_login() -> None:
    async with gateway() as gate:
        peer = await gate.dial()
        peer.framed = True
        peer.writer.write(login_bytes() + frame(calls.open_session()))
        assert await peer.reader.readexactly(5) == negotiation(COMPLETE)
        assert await peer.message() == echo_of(calls.open_session())


# --- bytes and order -------------------------------------------------------------------------------------


@MECHANISMS
@UPSTREAMS
async def test_bytes_are_forwarded_unchanged(client_mechanism: str, spark_mechanism: str) -> None:
    page = replies.fetch(1, row_set([ResultColumn("a"), ResultColumn("b")], [("x" * 40_000, None)] * 100, 9))
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        while True:
            seen.append(await peer.message())
            peer.send(page if peek(seen[-1]).name == "FetchResults" else echo_of(seen[-1]))

    async with gateway(ScriptedServer(spark_mechanism, script)) as gate:
        peer = await gate.client(client_mechanism)
        requests = [*calls.samples(), calls.execute("x" * 300_000), calls.fetch(), calls.status()]
        for request in requests:
            peer.send(request)
            reply = page if peek(request).name == "FetchResults" else echo_of(request)
            assert await peer.message() == reply
        assert seen == requests
        # Every reply counts as a use of the client's session.
        assert gate.service.replies == len(requests)


@MECHANISMS
async def test_an_answer_is_repeated_until_another_request(client_mechanism: str) -> None:
    """The dispatcher gets one of a run of equal requests, and again the next one when the answer becomes invalid."""
    asked: list[int] = []
    valid = True

    def decide(request: bytes) -> Decision:
        seqid = peek(request).seqid
        asked.append(seqid)
        answer = with_seqid(replies.operation_status(0, len(asked)), seqid)
        return Answer(answer, lambda: valid) if peek(request).name == "GetOperationStatus" else Forward(request)

    async def state_of(peer: Peer, seqid: int) -> int | None:
        peer.send(calls.status(seqid))
        reply = await peer.message()
        assert peek(reply).seqid == seqid
        return operation_state(reply)

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client(client_mechanism)
        assert [await state_of(peer, seqid) for seqid in (1, 2, 3)] == [1, 1, 1]
        peer.send(calls.fetch(4))
        await peer.message()
        assert [await state_of(peer, seqid) for seqid in (5, 6)] == [3, 3]
        valid = False
        assert [await state_of(peer, seqid) for seqid in (7, 8)] == [4, 5]
        assert asked == [1, 4, 5, 7, 8]


@MECHANISMS
async def test_a_repeated_request_in_pieces_is_answered(client_mechanism: str) -> None:
    def decide(request: bytes) -> Decision:
        return Answer(with_seqid(replies.operation_status(0, 2), peek(request).seqid), lambda: True)

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client(client_mechanism)
        peer.send(calls.status(1))
        await peer.message()
        whole = frame(calls.status(2)) if peer.framed else calls.status(2)
        for byte in whole * 2:
            peer.writer.write(bytes([byte]))
            await peer.writer.drain()
        assert [peek(await peer.message()).seqid for _ in range(2)] == [2, 2]
        peer.writer.write(whole + whole + whole[:10])
        assert [peek(await peer.message()).seqid for _ in range(2)] == [2, 2]
        peer.writer.write(whole[10:])
        assert peek(await peer.message()).seqid == 2


@MECHANISMS
@UPSTREAMS
async def test_pipelined_requests_keep_their_order(client_mechanism: str, spark_mechanism: str) -> None:
    """The replies are answered, streamed, collected and awaited in turn; the requests are split anywhere."""

    async def later(request: bytes) -> Forward:
        await asyncio.sleep(0)
        return Forward(request)

    def decide(request: bytes) -> Decision:
        kinds: list[Callable[[bytes], Decision]] = [
            Forward,
            lambda payload: Answer(echo_of(payload)),
            lambda payload: Forward(payload, lambda reply: reply),
            later,
        ]
        return kinds[peek(request).seqid % 4](request)

    async with gateway(ScriptedServer(spark_mechanism), service(decide)) as gate:
        peer = await gate.client(client_mechanism)
        requests = [calls.execute(f"select {n}", seqid=n) for n in range(200)]
        stream = b"".join(requests)
        if client_mechanism == PLAIN:
            stream = b"".join(frame(stream[at : at + 777]) for at in range(0, len(stream), 777))
        for at in range(0, len(stream), 5_000):
            peer.writer.write(stream[at : at + 5_000])
        for n, request in enumerate(requests):
            reply = await peer.message()
            assert (peek(reply).seqid, reply) == (n, echo_of(request))


async def test_a_reply_is_changed() -> None:
    def decide(request: bytes) -> Decision:
        return Forward(request, mend=lambda reply: with_seqid(reply, 99))

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client()
        peer.send(calls.status())
        assert peek(await peer.message()).seqid == 99


async def test_a_reply_that_has_to_be_confirmed_is_held_back() -> None:
    """It is noted before, and the client's next request waits."""
    confirming, confirmed, seen = asyncio.Event(), asyncio.Event(), list[str]()

    async def confirm(reply: bytes) -> bytes:
        seen.append("confirmed")
        confirming.set()
        await confirmed.wait()
        return with_seqid(reply, 99)

    def decide(request: bytes) -> Decision:
        if peek(request).name == "FetchResults":
            seen.append("next")
            return Forward(request)
        return Forward(request, lambda _: seen.append("noted"), confirm=confirm)

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client()
        peer.send(calls.status())
        peer.send(calls.fetch())
        await confirming.wait()
        assert seen == ["noted", "confirmed"]
        confirmed.set()
        assert peek(await peer.message()).seqid == 99
        assert await peer.message() == echo_of(calls.fetch())
        assert seen == ["noted", "confirmed", "next"]


async def test_a_client_that_goes_while_a_reply_is_confirmed_leaves_nothing() -> None:
    confirming, over = asyncio.Event(), asyncio.Event()

    async def confirm(reply: bytes) -> bytes:
        confirming.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()
        return reply

    async with gateway(service=service(lambda request: Forward(request, confirm=confirm))) as gate:
        peer = await gate.client()
        peer.send(calls.status())
        await confirming.wait()
        peer.writer.close()
        await over.wait()


async def test_a_reply_is_noted_after_it_was_sent_to_the_client() -> None:
    """It is noted before the client's next request is processed."""
    seen: list[str] = []

    async with gateway() as gate:
        peer = await gate.client()
        client = peer.writer.get_extra_info("socket")

        def on_reply(reply: bytes) -> None:
            seen.append(f"noted, {len(select.select([client], [], [], 0)[0])} there")

        def decide(request: bytes) -> Decision:
            seen.append(peek(request).name)
            return Forward(request, on_reply)

        gate.service.decide = decide
        for request in (calls.status(), calls.fetch()):
            peer.send(request)
        for request in (calls.status(), calls.fetch()):
            assert await peer.message() == echo_of(request)
        assert seen == ["GetOperationStatus", "noted, 1 there", "FetchResults", "noted, 1 there"]


def known(request: bytes) -> Forward:
    """Forwards a call to which Spark's reply is known in advance."""
    return Forward(request, at_once=replies.closed(peek(request).name, peek(request).seqid))


CLOSED = replies.closed("CloseOperation", peek(calls.close()).seqid)


@MECHANISMS
async def test_a_known_reply_is_sent_immediately_and_the_next_request_waits_for_spark(client_mechanism: str) -> None:
    answer, asked = asyncio.Event(), list[str]()

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.message()
            asked.append(peek(request).name)
            if peek(request).name == "CloseOperation":
                await answer.wait()
            peer.send(echo_of(request))

    async with gateway(ScriptedServer(script=script)) as gate:
        peer = await gate.client(client_mechanism)
        peer.send(calls.status())
        await peer.message()
        gate.service.decide = known
        peer.send(calls.close())
        assert await peer.message() == CLOSED
        gate.service.decide = Forward
        peer.send(calls.fetch())
        await until(lambda: asked[1:] == ["CloseOperation"])
        assert "FetchResults" not in gate.service.calls
        answer.set()
        assert await peer.message() == echo_of(calls.fetch())
        assert asked[1:] == ["CloseOperation", "FetchResults"]


async def test_a_known_reply_is_not_used_before_the_connection_to_spark() -> None:
    """The first request of a client without SASL connects to Spark, and must fail if that fails."""
    async with gateway(service=service(known)) as gate:
        peer = await gate.client(NOSASL)
        peer.send(calls.close())
        assert await peer.message() == echo_of(calls.close())


async def test_the_connection_to_spark_is_closed_after_the_reply_of_spark() -> None:
    """This holds even if the client leaves immediately, as clients do after a CloseSession."""
    answer, left = asyncio.Event(), asyncio.Event()
    noted: list[bytes] = []

    async def script(peer: Peer) -> None:
        request = await peer.message()
        await answer.wait()
        peer.send(echo_of(request))
        assert not await peer.closed()
        left.set()

    def decide(request: bytes) -> Decision:
        return replace(known(request), on_reply=noted.append)

    async with gateway(ScriptedServer(script=script), service(decide)) as gate:
        peer = await gate.client()
        peer.send(calls.close())
        assert await peer.message() == CLOSED
        peer.writer.write_eof()
        assert not await peer.closed(), "the gateway has closed its end"
        assert gate.spark.connected() == 1
        assert not gate.has("client_lost"), "the service is ended only after Spark's reply"
        answer.set()
        await left.wait()
        await until(lambda: gate.listener.clients == 0)
        assert noted == [echo_of(calls.close())]
        assert gate.has("client_lost")


@pytest.mark.parametrize("goes", [False, True])
async def test_the_loss_of_spark_after_an_immediate_reply_is_hidden(goes: bool) -> None:
    """The client gets no error, and the gateway does not wait for the client."""
    lose = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.message()
        await lose.wait()
        peer.cut()

    async with gateway(ScriptedServer(script=script), service(known)) as gate:
        peer = await gate.client()
        peer.send(calls.close())
        assert await peer.message() == CLOSED
        gate.service.decide = Forward
        gate.spark.script = echo
        if goes:
            peer.close()
        else:
            peer.send(calls.fetch())
        lose.set()
        if goes:
            await until(lambda: gate.listener.clients == 0)
        else:
            assert await peer.message() == echo_of(calls.fetch())


async def test_a_reply_in_several_frames_is_forwarded() -> None:
    async def script(peer: Peer) -> None:
        while True:
            reply = echo_of(await peer.message())
            for part in (reply[:10], reply[10:20], reply[20:]):
                peer.send(part)
                await peer.writer.drain()

    async with gateway(ScriptedServer(script=script)) as gate:
        peer = await gate.client()
        for request in (calls.status(), calls.fetch()):
            peer.send(request)
            assert await peer.message() == echo_of(request)


async def test_a_request_waits_for_the_decision_before_it() -> None:
    gate_of_first = asyncio.Event()

    async def wait(request: bytes) -> Answer:
        await gate_of_first.wait()
        return Answer(echo_of(request))

    def decide(request: bytes) -> Decision:
        return wait(request) if peek(request).name == "ExecuteStatement" else Answer(echo_of(request))

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client()
        peer.send(calls.execute("select 1"))
        peer.send(calls.status())
        await until(lambda: gate.has("ExecuteStatement"))
        peer.send(calls.fetch())
        other = await gate.client()
        other.send(calls.status())
        assert await other.message() == echo_of(calls.status()), "other clients do not wait"
        assert "GetOperationStatus" not in gate.services[0].calls
        gate_of_first.set()
        names = [peek(await peer.message()).name for _ in range(3)]
        assert names == ["ExecuteStatement", "GetOperationStatus", "FetchResults"]


# --- back-pressure ---------------------------------------------------------------------------------------


@MECHANISMS
@UPSTREAMS
async def test_a_slow_client_slows_spark(client_mechanism: str, spark_mechanism: str) -> None:
    """While the client does not read, Spark can send little more than the sockets and one buffer hold."""
    row = "x" * 1_000_000
    page = replies.fetch(1, row_set([ResultColumn("a")], [(row,)] * 60, 9))
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.message()
        data = frame(page) if spark_mechanism == PLAIN else page
        for at in range(0, len(data), 100_000):
            peer.writer.write(data[at : at + 100_000])
            await peer.writer.drain()
            sent += 100_000

    async with gateway(ScriptedServer(spark_mechanism, script)) as gate:
        peer = await gate.client(client_mechanism)
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.send(calls.fetch())
        relay = next(iter(gate.listener._relays))
        await until(lambda: relay._upstream is not None and relay._upstream._paused)
        assert relay._transport is not None
        held = relay._transport.get_write_buffer_size()
        assert held <= gate.limits.buffer_bytes_max + 300_000
        assert sent < 50_000_000
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await peer.message() == page


async def test_a_client_with_too_many_pipelined_requests_is_not_read() -> None:
    gate_of_first = asyncio.Event()

    async def wait(request: bytes) -> Answer:
        await gate_of_first.wait()
        return Answer(echo_of(request))

    first = True

    def decide(request: bytes) -> Decision:
        nonlocal first
        if first:
            first = False
            return wait(request)
        return Answer(echo_of(request))

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client()
        requests = [calls.execute("x" * 20_000, seqid=n) for n in range(1_000)]
        for request in requests:
            peer.send(request)
        relay = next(iter(gate.listener._relays))
        await until(lambda: not relay._reading)
        assert relay._queue_bytes <= gate.limits.buffer_bytes_max + 600_000
        gate_of_first.set()
        for request in requests:
            assert await peer.message() == echo_of(request)
        assert relay._reading


async def test_a_client_that_does_not_read_gets_no_further_answers() -> None:
    answer = replies.fetch(1, row_set([ResultColumn("a")], [("x" * 100_000,)], 9))
    async with gateway(service=service(lambda _: Answer(answer))) as gate:
        peer = await gate.client()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for seqid in range(500):
            peer.send(calls.fetch(seqid))
        relay = next(iter(gate.listener._relays))
        await until(lambda: not relay._writable and not relay._reading)
        assert relay._transport is not None
        assert relay._transport.get_write_buffer_size() <= gate.limits.buffer_bytes_max + len(answer) + 4
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(500):
            assert await peer.message() == answer


# --- losing the client -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [0, 3, 12, len(login_bytes())])
async def test_a_client_leaves_during_the_login(sent: int) -> None:
    spark = ScriptedServer(before_answer=asyncio.Event())
    async with gateway(spark) as gate:
        peer = await gate.dial()
        peer.writer.write(login_bytes()[:sent])
        await until(lambda: gate.listener.clients == 1)
        if sent == len(login_bytes()):
            await until(lambda: spark.logins)
        peer.close()
        await until(lambda: gate.listener.clients == 0)
        assert len(gate.services) == (sent == len(login_bytes()))
        assert spark.before_answer is not None
        spark.before_answer.set()


@MECHANISMS
@pytest.mark.parametrize("how", ["close", "cut"])
@pytest.mark.parametrize("phase", ["idle", "outstanding", "streaming", "half a request"])
async def test_a_client_leaves(client_mechanism: str, how: str, phase: str) -> None:
    """In every phase, the dispatcher is notified once, and only then the connection to Spark is closed."""

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.message()
            if phase == "streaming":
                peer.writer.write((1_000_000).to_bytes(4, "big") + replies.closed("FetchResults", 7)[:20])
            elif phase != "outstanding":
                peer.send(echo_of(request))

    gone = asyncio.Event()
    async with gateway(ScriptedServer(script=script), lambda: Service(client_lost_gate=gone)) as gate:
        peer = await gate.client(client_mechanism)
        peer.send(calls.fetch())
        await until(lambda: gate.has("FetchResults"))
        if phase == "streaming":
            await peer.reader.readexactly(20)
        elif phase != "outstanding":
            await peer.message()
        if phase == "half a request":
            peer.writer.write((b"\0\0\0\x60" if client_mechanism == PLAIN else b"") + calls.status()[:50])
            await peer.writer.drain()
        # Without SASL, the gateway connects only at the first request, after the dispatcher has got it.
        await until(lambda: gate.spark.connected() == 1)
        getattr(peer, how)()
        await until(lambda: gate.has("client_lost"))
        assert gate.spark.connected() == 1, "the connection to Spark stays open until the dispatcher is done"
        gone.set()
        await until(lambda: gate.spark.connected() == 0)
        assert gate.service.calls[-1] == "client_lost done"


async def test_a_decision_is_cancelled_when_its_client_leaves() -> None:
    seen: list[str] = []

    async def wait(request: bytes) -> Answer:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return Answer(request)

    async with gateway(service=service(wait)) as gate:
        peer = await gate.client()
        peer.send(calls.status())
        await until(lambda: gate.has("GetOperationStatus"))
        peer.close()
        await until(lambda: gate.listener.clients == 0)
        assert seen == ["cancelled"]


# --- losing Spark ----------------------------------------------------------------------------------------


@MECHANISMS
async def test_the_loss_of_spark_before_a_reply_is_an_error_and_the_next_request_reconnects(
    client_mechanism: str,
) -> None:
    lose = False

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.message()
            if lose:
                peer.cut()
                return
            peer.send(echo_of(request))

    async with gateway(ScriptedServer(script=script)) as gate:
        peer = await gate.client(client_mechanism)
        peer.send(calls.open_session())
        assert await peer.message() == echo_of(calls.open_session())
        lose = True
        peer.send(calls.execute("select 1"))
        assert message_of(await peer.message()) == "Spark is gone"
        lose = False
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())
        assert gate.service.calls.count("upstream_login") == 2


async def test_the_loss_of_spark_while_idle_is_noticed_and_the_next_request_reconnects() -> None:
    async with gateway() as gate:
        peer = await gate.client()
        gate.spark.peers[0].cut()
        await until(lambda: gate.has("upstream_lost"))
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())
        assert len(gate.spark.peers) == 2


async def test_a_failed_reconnect_to_spark_is_an_error() -> None:
    async with gateway() as gate:
        peer = await gate.client()
        gate.spark.refuse_with = "not any more"
        gate.spark.peers[0].cut()
        await until(lambda: gate.has("upstream_lost"))
        for _ in range(2):
            peer.send(calls.status())
            assert message_of(await peer.message()) == "not any more"
        gate.spark.refuse_with = None
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())


@MECHANISMS
@UPSTREAMS
@pytest.mark.parametrize("part", [10, 30, 70])
async def test_the_loss_of_spark_within_a_reply_closes_the_client(
    client_mechanism: str, spark_mechanism: str, part: int
) -> None:
    reply = frame(echo_of(calls.status())) if spark_mechanism == PLAIN else echo_of(calls.status())

    async def script(peer: Peer) -> None:
        await peer.message()
        peer.writer.write(reply[:part])
        await peer.writer.drain()
        peer.close()

    async with gateway(ScriptedServer(spark_mechanism, script)) as gate:
        peer = await gate.client(client_mechanism)
        peer.send(calls.status())
        rest = await peer.closed()
        if client_mechanism == spark_mechanism:
            assert rest == reply[:part], "no error may follow an incomplete reply"


async def test_the_loss_of_spark_within_a_collected_reply_is_an_error() -> None:
    async def script(peer: Peer) -> None:
        peer.writer.write(frame(echo_of(await peer.message()))[:40])
        await peer.writer.drain()
        peer.close()

    async with gateway(
        ScriptedServer(script=script), service(lambda request: Forward(request, lambda reply: reply))
    ) as gate:
        peer = await gate.client()
        peer.send(calls.status())
        assert message_of(await peer.message()) == "Spark is gone"


async def test_an_unreadable_reply_counts_as_the_loss_of_spark(caplog: pytest.LogCaptureFixture) -> None:
    """It may come over the client's connection or over one of the service. Neither is logged as an internal error."""

    def unreadable(reply: bytes) -> bytes:
        raise WireError("a reply without a status")

    async def elsewhere(request: bytes) -> Answer:
        raise WireError("a reply without a status")

    def decide(request: bytes) -> Decision:
        match peek(request).name:
            case "GetOperationStatus":
                return Forward(request, mend=unreadable)
            case "ExecuteStatement":
                return Forward(request, unreadable)
        return elsewhere(request)

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client()
        peer.send(calls.status())
        assert message_of(await peer.message()) == "Spark is gone"
        peer.send(calls.fetch())
        assert message_of(await peer.message()) == "Spark's reply cannot be read: a reply without a status."
        # A reply that the client already has cannot be withdrawn. Its next requests are answered.
        peer.send(calls.execute("select 1"))
        peer.send(calls.fetch())
        assert await peer.message() == echo_of(calls.execute("select 1"))
        assert message_of(await peer.message()) == "Spark's reply cannot be read: a reply without a status."
        assert gate.service.calls.count("upstream_lost") == 2
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_loss_without_an_error_reply_closes_the_client() -> None:
    async def script(peer: Peer) -> None:
        await peer.message()

    async with gateway(ScriptedServer(script=script), lambda: Service(reply_to_loss=False)) as gate:
        peer = await gate.client()
        peer.send(calls.status())
        assert await peer.closed() == b""


@MECHANISMS
@pytest.mark.parametrize("unasked", [frame(b"unasked"), bytes((0, 0, 0, 9))], ids=["a frame", "the head of one"])
async def test_unsolicited_bytes_of_spark_end_its_connection(client_mechanism: str, unasked: bytes) -> None:
    async def script(peer: Peer) -> None:
        peer.send(echo_of(await peer.message()))
        await peer.message()
        await peer.closed()

    def decide(request: bytes) -> Decision:
        known = peek(request).name == "OpenSession"
        return Forward(request, mend=bytes) if known else Answer(echo_of(request))

    async with gateway(ScriptedServer(script=script), service(decide)) as gate:
        peer = await gate.client(client_mechanism)
        for request in (calls.open_session(), calls.status()):
            peer.send(request)
            assert await peer.message() == echo_of(request)
        gate.spark.peers[0].writer.write(unasked)
        await until(lambda: gate.has("upstream_lost"))
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())


async def test_a_reply_too_long_to_collect_is_an_error() -> None:
    page = replies.fetch(1, row_set([ResultColumn("a")], [("x" * 10_000,)] * 10, 9))

    async def script(peer: Peer) -> None:
        while True:
            await peer.message()
            peer.send(page)

    limits = replace(LIMITS, reply_bytes_max=50_000)
    decide = service(lambda request: Forward(request, lambda reply: reply))
    async with gateway(ScriptedServer(script=script), decide, limits) as gate:
        peer = await gate.client()
        peer.send(calls.fetch())
        assert message_of(await peer.message()) == "Spark is gone"


# --- internal errors and invalid input -------------------------------------------------------------------


async def test_an_internal_error_fails_one_request_only(caplog: pytest.LogCaptureFixture) -> None:
    async def fail_later(request: bytes) -> Answer:
        raise RuntimeError("a fault made for this test")

    async def cancelled(request: bytes) -> Answer:
        raise asyncio.CancelledError

    def fail_in_reply(reply: bytes) -> bytes:
        raise RuntimeError("a fault made for this test")

    def decide(request: bytes) -> Decision:
        match peek(request).name:
            case "GetInfo":
                raise RuntimeError("a fault made for this test")
            case "FetchResults":
                return fail_later(request)
            case "GetTables":
                return cancelled(request)
            case "OpenSession":
                return Forward(request, mend=fail_in_reply)
            case "ExecuteStatement":
                return Forward(request, fail_in_reply)
        return Forward(request)

    async with gateway(service=service(decide)) as gate:
        peer = await gate.client()
        for request in (calls.samples()[6], calls.fetch(), calls.samples()[7], calls.open_session()):
            peer.send(request)
            reply = await peer.message()
            assert peek(reply)[:2] == (peek(request).name, 3)
            assert "its log says why" in (message_of(reply) or "")
        for request in (calls.execute("select 1"), calls.status()):
            peer.send(request)
            assert await peer.message() == echo_of(request)
    assert "could not be processed" in caplog.text


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b"\0" * 20, os.urandom(50) + b"\xff"],
    ids=["HTTP", "TLS", "zeros", "random"],
)
async def test_another_protocol_closes_the_connection(data: bytes) -> None:
    async with gateway() as gate:
        peer = await gate.dial()
        peer.writer.write(b"\x02" + data if data[0] in (1, 0x80) else data)
        await peer.closed()
        await until(lambda: gate.listener.clients == 0)
        assert gate.services == []


async def test_garbage_after_the_login_closes_only_that_client() -> None:
    async with gateway() as gate:
        other = await gate.client()
        peer = await gate.client()
        peer.writer.write(frame(b"garbage"))
        await peer.closed()
        await until(lambda: gate.spark.connected() == 1)
        other.send(calls.status())
        assert await other.message() == echo_of(calls.status())
