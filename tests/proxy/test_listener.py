"""Tests the listener: logins, limits, ports, TLS handshakes and closing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trustme
from proxy.peers import BOTH, LIMITS, Peer, ScriptedServer, Service, echo_of, gateway, login_bytes, no_upstream, until
from wire import calls

from gateway.proxy.entrance import Entrance, Port, PortUnavailable
from gateway.proxy.listener import Listener
from gateway.proxy.tls import Certificate
from gateway.proxy.traffic import Traffic
from gateway.service.decision import Answer
from gateway.wire.connection import NOSASL, ClientConnection
from gateway.wire.cookies import Cookies
from gateway.wire.frame import WireLimits, frame
from gateway.wire.http_connection import HttpClientConnection
from gateway.wire.message import peek
from gateway.wire.reply import exception
from gateway.wire.sasl import PLAIN, refusal


@pytest.mark.parametrize("sent", [0, 5, 11])
async def test_a_login_that_takes_too_long_is_refused(sent: int) -> None:
    async with gateway(limits=replace(LIMITS, login_seconds=0.05)) as gate:
        peer = await gate.dial()
        peer.writer.write(login_bytes()[:sent])
        answer = await peer.closed()
        assert answer == (refusal("No login within 0.05 seconds.") if sent else b"")


async def test_without_sasl_an_incomplete_request_is_no_login() -> None:
    async with gateway(limits=replace(LIMITS, login_seconds=0.05)) as gate:
        peer = await gate.dial()
        peer.writer.write(calls.open_session()[:30])
        assert await peer.closed() == b""


async def test_without_sasl_a_request_without_a_session_is_no_login() -> None:
    """It is answered, but does not extend the time for the login."""
    service = partial(Service, decide=lambda payload: Answer(echo_of(payload)))
    async with gateway(service=service, limits=replace(LIMITS, login_seconds=0.2)) as gate:
        peer = await gate.client(NOSASL)
        peer.send(calls.status())
        assert await peer.message() == echo_of(calls.status())
        assert await peer.closed() == b""


async def test_a_slow_login_without_sasl_is_completed() -> None:
    answers = asyncio.Event()

    async def slow(payload: bytes) -> Answer:
        await answers.wait()
        return Answer(echo_of(payload))

    async with gateway(service=lambda: Service(decide=slow), limits=replace(LIMITS, login_seconds=0.05)) as gate:
        peer = await gate.client(NOSASL)
        peer.send(calls.open_session())
        await (await gate.dial()).closed()  # This later connection has already been closed.
        answers.set()
        assert await peer.message() == echo_of(calls.open_session())


async def test_refused_logins_without_sasl_do_not_extend_the_time() -> None:
    """If several logins are pipelined, only the one in progress is answered."""
    asked = asyncio.Semaphore(0)

    class Nobody(Service):
        logged_in = False

    async def refuse(payload: bytes) -> Answer:
        await asked.acquire()
        return Answer(echo_of(payload))

    limits = replace(LIMITS, login_seconds=0.05)
    async with gateway(service=lambda: Nobody(decide=refuse), limits=limits) as gate:
        peer = await gate.client(NOSASL)
        for _ in range(3):
            peer.send(calls.open_session())
        await (await gate.dial()).closed()  # This later connection has already been closed.
        asked.release()
        assert await peer.closed() == echo_of(calls.open_session())


async def test_a_long_request_before_the_login_is_refused() -> None:
    service = partial(Service, decide=lambda payload: Answer(echo_of(payload)))
    long = calls.execute("x" * 20_000)
    async with gateway(service=service, limits=replace(LIMITS, new_bytes_max=10_000)) as gate:
        peer = await gate.client(NOSASL)
        peer.send(long)
        assert b"outside the limit of 10000 bytes" in await peer.closed()
        peer = await gate.client(NOSASL)
        for sent in (calls.open_session(), long):
            peer.send(sent)
            assert await peer.message() == echo_of(sent)


async def test_a_client_that_leaves_during_its_login_counts_as_a_failed_login() -> None:
    accepted = asyncio.Event()
    async with gateway(ScriptedServer(before_answer=accepted)) as gate:
        peer = await gate.dial()
        peer.writer.write(login_bytes())
        await until(lambda: gate.spark.logins)
        peer.cut()
        await until(lambda: gate.service.login_error is not None)
        accepted.set()
        assert "left before its login was answered" in str(gate.service.login_error)


async def test_a_client_that_is_logged_in_may_be_idle() -> None:
    service = partial(Service, decide=lambda payload: Answer(echo_of(payload)))
    async with gateway(service=service, limits=replace(LIMITS, login_seconds=0.05)) as gate:
        peer = await gate.client()
        bare = await gate.client(NOSASL)
        bare.send(calls.open_session())
        await bare.message()
        late = await gate.dial()
        await late.closed()  # This later connection has already been closed.
        for each in (peer, bare):
            each.send(calls.status())
            assert await each.message() == echo_of(calls.status())


async def test_a_connection_above_the_limit_is_refused_with_a_message() -> None:
    async with gateway(limits=replace(LIMITS, connections_max=2)) as gate:
        first, second = await gate.client(), await gate.client()
        third = await gate.dial()
        third.writer.write(login_bytes())
        assert b"Too many connections" in await third.closed()
        bare = await gate.client(NOSASL)
        bare.send(calls.open_session())
        text = "Too many connections: the gateway serves 2. Try again later."
        assert await bare.message() == exception("OpenSession", peek(calls.open_session()).seqid, text)
        first.close()
        await until(lambda: gate.listener.clients == 1)
        fourth = await gate.client()
        for each in (second, fourth):
            each.send(calls.status())
            assert await each.message() == echo_of(calls.status())


async def test_a_transport_can_be_disabled() -> None:
    async with gateway(transports=frozenset({PLAIN})) as gate:
        peer = await gate.dial()
        peer.writer.write(calls.open_session())
        assert b"without auth=noSasl" in await peer.closed()
        await gate.client()


async def test_closing_disconnects_clients_and_waits_for_their_cleanup() -> None:
    gone = asyncio.Event()
    async with gateway(service=lambda: Service(client_lost_gate=gone)) as gate:
        peers = [await gate.client(), await gate.client(), await gate.dial()]
        await until(lambda: gate.listener.clients == 3)
        closing = asyncio.ensure_future(gate.listener.close())
        for peer in peers:
            assert await peer.closed() == b""
        await until(lambda: all("client_lost" in each.calls for each in gate.services))
        assert not closing.done()
        gone.set()
        await closing
        assert [each.calls[-1] for each in gate.services] == ["client_lost done"] * 2
        with pytest.raises(ConnectionError):
            await gate.dial()


async def test_closing_is_bounded() -> None:
    """The client does not read, and its cleanup never ends."""
    answer = calls.execute("x" * 20_000_000)
    async with gateway(
        service=lambda: Service(client_lost_gate=asyncio.Event(), decide=lambda _: Answer(answer))
    ) as gate:
        peer = await gate.client()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.send(calls.status())
        relay = next(iter(gate.listener._relays))
        await until(lambda: not relay._writable)
        await gate.listener.close(grace_seconds=0.05)
        assert gate.listener.clients == 0


async def test_a_port_in_use_is_an_error() -> None:
    async with gateway(ScriptedServer()) as gate:
        port = Port("127.0.0.1", gate.listener.ports[0], lambda: ClientConnection(BOTH, LIMITS))
        second = Listener(Entrance([port], LIMITS.login_seconds), LIMITS, Service, no_upstream)
        with pytest.raises(PortUnavailable, match="in use") as raised:
            await second.start()
        assert raised.value.port is port


async def test_a_name_with_several_addresses_is_served_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses that this machine does not have are skipped."""
    of_test_network = "192.0.2.1"  # reserved for documentation (RFC 5737)

    def getaddrinfo(host: str, port: int, **_: object) -> list[object]:
        addresses = [of_test_network, "127.0.0.2", "127.0.0.3"] if host == "several" else [of_test_network]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    listener = idle_listener(Port("several", 0, lambda: ClientConnection(BOTH, LIMITS)))
    await listener.start()
    try:
        for address in ("127.0.0.2", "127.0.0.3"):
            with socket.socket() as client:
                client.connect((address, listener.ports[0]))
    finally:
        await listener.close()
    with pytest.raises(PortUnavailable, match="assign"):
        await idle_listener(Port("elsewhere", 0, lambda: ClientConnection(BOTH, LIMITS))).start()


def idle_listener(*ports: Port) -> Listener:
    """A listener that never connects to Spark."""
    return Listener(Entrance(ports, LIMITS.login_seconds), LIMITS, Service, no_upstream)


async def test_ports_are_bound_before_the_start() -> None:
    first = idle_listener(Port("127.0.0.1", 0, lambda: ClientConnection(BOTH, LIMITS)))
    await first.bind()
    try:
        taken = Port("127.0.0.1", first.ports[0], lambda: ClientConnection(BOTH, LIMITS))
        free = Port("127.0.0.1", 0, lambda: ClientConnection(BOTH, LIMITS))
        second = idle_listener(free, taken)
        with pytest.raises(PortUnavailable, match="in use") as raised:
            await second.bind()
        assert raised.value.port is taken
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", second.ports[0])
    finally:
        await first.close()


async def test_a_host_that_is_not_local_is_an_error() -> None:
    port = Port("192.0.2.1", 0, lambda: ClientConnection(BOTH, LIMITS))
    with pytest.raises(PortUnavailable, match="Cannot assign") as raised:
        await idle_listener(port).bind()
    assert raised.value.port is port


async def test_a_client_before_the_start_is_refused_with_a_message() -> None:
    def http() -> HttpClientConnection:
        return HttpClientConnection(LIMITS, Cookies(60), secure=False)

    listener = idle_listener(
        Port("127.0.0.1", 0, lambda: ClientConnection(BOTH, LIMITS)), Port("127.0.0.1", 0, http, tied=False)
    )
    await listener.bind()
    try:
        answers = []
        for port in listener.ports:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            answers.append(await reader.read())
            # A client that is still sending its login gets no connection error.
            writer.write(login_bytes())
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        assert answers[0] == refusal("The gateway is starting. Try again in a few seconds.")
        assert answers[1].startswith(b"HTTP/1.1 503 ")
        assert b"The gateway is starting." in answers[1]
        assert listener.clients == 0
        await listener.start()
        _, writer = await asyncio.open_connection("127.0.0.1", listener.ports[0])
        await until(lambda: listener.clients == 1)
        writer.close()
        await until(lambda: listener.clients == 0)
    finally:
        await listener.close()


async def test_a_tls_client_before_the_start_is_refused_with_a_message(tmp_path: Path) -> None:
    authority = trustme.CA()
    pem = tmp_path / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    listener = idle_listener(Port("127.0.0.1", 0, lambda: ClientConnection(BOTH, LIMITS), Certificate(str(pem), "")))
    await listener.bind()
    try:
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.ports[0], ssl=trusting)
        expected = refusal("The gateway is starting. Try again in a few seconds.")
        assert await reader.readexactly(len(expected)) == expected
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
    finally:
        await listener.close()


async def test_a_failed_handshake_does_not_count_as_a_connection(tmp_path: Path) -> None:
    authority = trustme.CA()
    pem = tmp_path / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    port = Port("127.0.0.1", 0, lambda: ClientConnection(BOTH, LIMITS), Certificate(str(pem), ""))
    listener = Listener(
        Entrance([port], LIMITS.login_seconds),
        replace(LIMITS, connections_max=1),
        Service,
        no_upstream,
    )
    await listener.start()
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.ports[0])
        writer.write(b"no TLS at all")
        await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.ports[0], ssl=trusting)
    await until(lambda: listener.clients == 1)
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
    await until(lambda: listener.clients == 0)
    await listener.close()


async def closed(*writers: asyncio.StreamWriter) -> None:
    for each in writers:
        each.transport.abort()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await each.wait_closed()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Waits for the end of a connection; whether nothing was received on it."""
    with contextlib.suppress(ConnectionError):
        return await reader.read() == b""
    return True


def tls_listener(tmp_path: Path, limits: WireLimits, traffic: Traffic) -> tuple[Listener, trustme.CA]:
    authority = trustme.CA()
    pem = tmp_path / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    port = Port("127.0.0.1", 0, lambda: ClientConnection(BOTH, limits), Certificate(str(pem), ""))
    return Listener(Entrance([port], limits.login_seconds), limits, Service, no_upstream, traffic), authority


async def test_a_connection_without_a_handshake_counts_until_it_times_out(tmp_path: Path) -> None:
    traffic = Traffic()
    listener, authority = tls_listener(tmp_path, replace(LIMITS, connections_max=2, login_seconds=1.0), traffic)
    await listener.start()
    silent = [await asyncio.open_connection("127.0.0.1", listener.ports[0]) for _ in range(2)]
    await until(lambda: listener.handshakes == 2)
    reader, refused = await asyncio.open_connection("127.0.0.1", listener.ports[0])
    assert await ended(reader)
    assert (listener.handshakes, traffic.refused) == (2, 1)
    for reader, _ in silent:
        assert await ended(reader)
    await until(lambda: listener.handshakes == 0)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    _, writer = await asyncio.open_connection("127.0.0.1", listener.ports[0], ssl=trusting)
    await until(lambda: traffic.accepted == 1)
    await closed(refused, writer, *(writer for _, writer in silent))
    await listener.close()


async def test_a_handshake_ends_with_the_listener(tmp_path: Path) -> None:
    listener, _ = tls_listener(tmp_path, LIMITS, Traffic())
    await listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.ports[0])
    await until(lambda: listener.handshakes == 1)
    await listener.close()
    assert await ended(reader)
    await closed(writer)


async def test_a_closing_client_that_does_not_read_is_cut_off() -> None:
    async def endless(peer: Peer) -> None:
        await peer.message()
        peer.writer.write(frame(bytes(64 << 20)))
        await peer.writer.drain()

    async with gateway(ScriptedServer(script=endless), limits=replace(LIMITS, stall_seconds=5)) as gate:
        peer = await gate.client()
        peer.send(calls.status())
        relay = next(iter(gate.listener._relays))
        await until(lambda: not relay._writable)
        relay.close()
        now = asyncio.get_running_loop().time()
        relay.sweep(now)
        assert gate.listener.clients == 1
        relay.sweep(now + 6)
        await until(lambda: gate.listener.clients == 0)


async def test_the_gateways_own_answers_wait_for_a_slow_client() -> None:
    async with gateway(http=True) as gate:
        peer = await gate.dial()
        asked = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 60
        await until(lambda: gate.listener.clients == 1)
        relay = next(iter(gate.listener._relays))
        while relay._reading:
            peer.writer.write(asked)
            await asyncio.sleep(0.001)
        assert relay._transport is not None
        assert relay._transport.get_write_buffer_size() < 2 * LIMITS.buffer_bytes_max
        await peer.end()  # Otherwise closing the listener would wait for this client to read.
