"""Tests that a client's immediate next request is read without the event loop, and that others do not wait for it."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from proxy.peers import Service, echo_of, gateway, login_bytes, until
from wire import calls

from gateway.proxy.busy_poll import RESTS_AFTER_TRAFFIC, RESTS_MAX, BusyPoll
from gateway.proxy.traffic import Traffic
from gateway.service.decision import Answer, Decision, Forward
from gateway.wire import reply as replies
from gateway.wire.frame import frame
from gateway.wire.message import peek, with_seqid
from gateway.wire.sasl import COMPLETE, negotiation

FINISHED = replies.operation_status(0, 2)
ASKED = 10
ALL_DAY = 10.0


class End(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.lost = False
        self.traffic = Traffic()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.traffic.from_clients += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Pair:
    """The gateway's end of a connection, and the client's socket."""

    def __init__(self, transport: asyncio.Transport, end: End, client: socket.socket) -> None:
        self.transport, self.end, self.client = transport, end, client
        self.traffic = Traffic()

    def poll(self, poll_seconds: float = 0.0) -> BusyPoll:
        return BusyPoll(self.transport, self.traffic, poll_seconds)

    def exchange(self, poll: BusyPoll, answer: bytes = b"answer") -> bytes:
        """Answers like the relay, which also counts the request."""
        self.traffic.from_clients += ASKED
        return poll.exchange(answer, ASKED)

    async def answered(self, data: bytes) -> None:
        got = b""
        while len(got) < len(data):
            got += await asyncio.to_thread(self.client.recv, len(data) - len(got))
        assert got == data


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        near, _ = server.accept()
    near.setblocking(False)
    end = End()
    transport, _ = await loop.create_connection(lambda: end, sock=near)
    try:
        yield Pair(transport, end, client)
    finally:
        client.close()
        transport.abort()


async def test_an_immediate_request_is_returned() -> None:
    async with pair() as both:
        poll = both.poll(ALL_DAY)

        def ask() -> None:
            assert both.client.recv(100) == b"answer"
            both.client.sendall(b"next")

        asking = threading.Thread(target=ask)
        asking.start()
        assert both.exchange(poll) == b"next"
        asking.join()
        assert not both.end.received


async def test_each_unsuccessful_poll_lengthens_the_pause() -> None:
    """During the pause, the transport reads the requests."""
    async with pair() as both:
        poll = both.poll()
        rests: list[float] = []
        while sum(rests) < 3 * RESTS_MAX:
            assert both.exchange(poll) == b""  # An unsuccessful poll.
            await both.answered(b"answer")
            both.client.sendall(b"n")
            await until(lambda: both.end.received)
            both.end.received = b""
            before = poll._rest
            for _ in range(before):
                assert both.exchange(poll) == b""
                await both.answered(b"answer")
            assert poll._rest == 0
            rests.append(before)
        assert rests == [2, 4, 8, 16, 32, 64, 64, 64][: len(rests)]


async def test_polling_returns_to_the_event_loop() -> None:
    async with pair() as both:
        poll = both.poll()
        both.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found: list[bytes] = []
        while b"" not in found and len(found) < 100_000:
            both.client.sendall(b"next")
            found.append(both.exchange(poll))
        assert found.count(b"next") >= 1
        assert found[-1] == b""
        await until(lambda: both.end.received == b"next")


async def test_there_is_no_poll_if_others_are_active() -> None:
    """Bytes of another client or of Spark have arrived since the last answer."""
    async with pair() as both:
        poll = both.poll(ALL_DAY)
        for where in ("from_clients", "from_spark"):
            setattr(both.traffic, where, getattr(both.traffic, where) + 1)
            assert [both.exchange(poll) for _ in range(RESTS_AFTER_TRAFFIC)] == [b""] * RESTS_AFTER_TRAFFIC
        both.client.sendall(b"next")
        assert both.exchange(poll) == b"next"


async def test_a_slow_client_gets_all_answers_in_order() -> None:
    async with pair() as both:
        # Otherwise the kernel enlarges its buffers while nobody reads, and may take the whole answer.
        both.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        both.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        poll = both.poll()
        long = Random(1).randbytes(1 << 22)
        assert both.exchange(poll, long) == b""
        assert both.transport.get_write_buffer_size()
        assert both.exchange(poll, b"the next") == b""
        await both.answered(long + b"the next")


@pytest.mark.parametrize("end", [socket.socket.close, lambda client: client.shutdown(socket.SHUT_WR)])
async def test_the_transport_notices_a_closed_connection(end: Callable[[socket.socket], None]) -> None:
    async with pair() as both:
        end(both.client)
        assert both.exchange(both.poll(ALL_DAY)) == b""
        await until(lambda: both.end.lost)


class Secured:
    """A transport that claims to use TLS."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def get_extra_info(self, name: str) -> object:
        return self if name == "sslcontext" else self._transport.get_extra_info(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_the_transport_reads_requests_over_tls() -> None:
    """The poll waits until the request has arrived, so that the event loop reads it without sleeping."""
    async with pair() as both:
        both.end.traffic = both.traffic  # The relay counts like this; it may read before the poll begins.
        poll = BusyPoll(Secured(both.transport), both.traffic, ALL_DAY)  # type: ignore[arg-type]
        asked = threading.Event()

        def ask() -> None:
            assert both.client.recv(100) == b"answer"
            asked.set()
            both.client.sendall(b"next")

        asking = threading.Thread(target=ask)
        asking.start()
        assert both.exchange(poll) == b""
        await asyncio.sleep(0)
        assert asked.is_set()
        await until(lambda: both.end.received == b"next")
        asking.join()


async def test_an_unsuccessful_poll_over_tls_ends() -> None:
    async with pair() as both:
        poll = BusyPoll(Secured(both.transport), both.traffic, 0.001)  # type: ignore[arg-type]
        assert both.exchange(poll) == b""
        await both.answered(b"answer")
        assert poll._rest == 2


def read_exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += client.recv(count - len(data))
    return data


class Binary:
    """A client of the binary transport."""

    http = False

    def log_in(self, client: socket.socket) -> None:
        client.sendall(login_bytes())
        assert read_exactly(client, 5) == negotiation(COMPLETE)

    def written(self, request: bytes) -> bytes:
        return frame(request)

    def reply(self, client: socket.socket) -> bytes:
        return read_exactly(client, int.from_bytes(read_exactly(client, 4), "big"))


class Http(Binary):
    http = True

    def log_in(self, client: socket.socket) -> None:
        pass

    def written(self, request: bytes) -> bytes:
        head = f"POST /cliservice HTTP/1.1\r\nHost: here\r\nContent-Length: {len(request)}\r\n"
        return f"{head}Authorization: Basic YWRhOng=\r\n\r\n".encode() + request

    def reply(self, client: socket.socket) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += read_exactly(client, 1)
        (length,) = re.findall(rb"(?i)content-length: (\d+)", head)
        assert head.startswith(b"HTTP/1.1 200")
        return read_exactly(client, int(length))


def ask_and_check(port: int, transport: Binary, random: Random) -> int:
    """Sends each request immediately after the answer, some in pieces or pipelined. Returns the number of polls."""
    equal = 0
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.log_in(client)
        for seqid in range(0, 6000, 3):
            count = random.choice([1] * 9 + [3])
            other = random.random() < 0.02
            sent = [calls.fetch(seqid)] if other else [calls.status(seqid + n) for n in range(count)]
            equal += 0 if other else count
            data = b"".join(map(transport.written, sent))
            cut = random.randrange(len(data)) if random.random() < 0.1 else 0
            client.sendall(data[:cut])
            client.sendall(data[cut:])
            for request in sent:
                expected = echo_of(request) if other else with_seqid(FINISHED, peek(request).seqid)
                assert transport.reply(client) == expected
    return equal


@pytest.mark.parametrize("transport", [Binary(), Http()], ids=["binary", "http"])
async def test_repeated_polls_among_other_requests_are_answered_in_order(transport: Binary) -> None:
    def decide(request: bytes) -> Decision:
        if peek(request).name != "GetOperationStatus":
            return Forward(request)
        return Answer(with_seqid(FINISHED, peek(request).seqid), lambda: True)

    async with gateway(service=lambda: Service(decide=decide), http=transport.http) as gate:
        equal = await asyncio.to_thread(ask_and_check, gate.listener.ports[0], transport, Random(7))
        assert equal / 2 < gate.traffic.repeated < equal
