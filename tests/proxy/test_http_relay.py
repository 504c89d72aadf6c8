"""Tests the relay with HTTP clients: users, order of requests, connections to Spark, and errors."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import replace

import pytest
from message_stream import http_reply
from proxy.peers import Peer, Script, ScriptedServer, Service, echo_of, gateway, until
from wire import calls

from gateway.proxy import relay
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.decision import Answer, Decision, Forward
from gateway.wire.frame import frame
from gateway.wire.message import reply_status


def post(body: bytes, user: str = "ada", *headers: str) -> bytes:
    names = base64.b64encode(f"{user}:x".encode()).decode()
    lines = ["POST /cliservice HTTP/1.1", "Host: here", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, f"Authorization: Basic {names}", *headers, "", ""]).encode() + body


async def reply(peer: Peer) -> tuple[int, bytes]:
    """The status and body of the next response."""
    found = await http_reply(peer.reader)
    return found.status, found.body


def answered() -> Service:
    """A service that answers status calls itself and forwards other calls."""

    def decide(payload: bytes) -> Decision:
        return Answer(b"own") if payload == calls.status() else Forward(payload)

    return Service(decide=decide)


@pytest.mark.parametrize("service", [Service, answered], ids=["forwarded", "answered"])
async def test_pipelined_requests_are_answered_in_order(service: Callable[[], Service]) -> None:
    async with gateway(service=service, http=True) as gate:
        peer = await gate.dial()
        requests = [calls.status(), calls.open_session(), calls.status(), calls.status(), calls.open_session()]
        peer.writer.write(b"".join(post(each) for each in requests))
        for each in requests:
            own = service is answered and each == calls.status()
            assert await reply(peer) == (200, b"own" if own else echo_of(each))
        assert len(gate.services) == 1


async def test_each_user_has_a_separate_connection_to_spark() -> None:
    async with gateway(http=True) as gate:
        peer = await gate.dial()
        for user in ("ada", "eve", "ada"):
            peer.writer.write(post(calls.status(), user))
            assert await reply(peer) == (200, echo_of(calls.status()))
        assert [login.user for login in gate.spark.logins] == ["ada", "eve", "ada"]
        await until(lambda: gate.spark.connected() == 1)


def closing(answered: asyncio.Event) -> Script:
    """A Spark that answers a CloseOperation only when `answered` is set."""

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.message()
            if request == calls.close():
                await answered.wait()
            peer.send(echo_of(request))

    return script


def known() -> Service:
    """A service that answers CloseOperation immediately."""
    return Service(decide=lambda request: Forward(request, at_once=b"closed" if request == calls.close() else None))


@pytest.mark.parametrize("answers", [True, False])
async def test_another_users_request_waits_for_the_upstream_reply_to_a_close(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits only for a limited time if Spark does not reply."""
    monkeypatch.setattr(relay, "_SETTLE_SECONDS", 30.0 if answers else 0.01)
    answered = asyncio.Event()
    async with gateway(ScriptedServer(script=closing(answered)), known, http=True) as gate:
        peer = await gate.dial()
        for request in (calls.status(), calls.close()):
            peer.writer.write(post(request, "ada"))
            assert await reply(peer) == (200, b"closed" if request == calls.close() else echo_of(request))
        peer.writer.write(post(calls.status(), "eve"))
        if answers:
            await until(lambda: len(gate.services) == 2)
            assert [login.user for login in gate.spark.logins] == ["ada"]
            answered.set()
        assert await reply(peer) == (200, echo_of(calls.status()))
        assert [login.user for login in gate.spark.logins] == ["ada", "eve"]
        answered.set()


@pytest.mark.parametrize(
    ("request_", "status"),
    [(b"GET /x HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n", 405), (b"no HTTP at all\r\n\r\n", 400)],
)
async def test_a_connection_is_closed_after_an_immediate_answer(request_: bytes, status: int) -> None:
    answered = asyncio.Event()
    async with gateway(ScriptedServer(script=closing(answered)), known, http=True) as gate:
        peer = await gate.dial()
        for request in (calls.status(), calls.close()):
            peer.writer.write(post(request))
            assert (await reply(peer))[0] == 200
        peer.writer.write(request_)
        assert (await reply(peer))[0] == status
        answered.set()
        assert await peer.closed() == b""
        await until(lambda: gate.listener.clients == 0)


async def test_a_client_leaves_while_another_users_login_waits() -> None:
    """The service of the first user is ended, too, which `gateway` checks."""
    answered = asyncio.Event()
    async with gateway(ScriptedServer(script=closing(answered)), known, http=True) as gate:
        peer = await gate.dial()
        for request in (calls.status(), calls.close()):
            peer.writer.write(post(request, "ada"))
            assert (await reply(peer))[0] == 200
        peer.writer.write(post(calls.status(), "eve"))
        await until(lambda: len(gate.services) == 2)
        peer.cut()
        await until(lambda: gate.listener.clients == 0)
        answered.set()


ORIGINS = ["203.0.113.9", "203.0.113.9", "203.0.113.7", ""]


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_trusted_proxy_names_the_client_of_each_request(trusted: bool) -> None:
    """A proxy sends the requests of several clients over one connection. They may all have the same user."""
    addresses: list[str] = []

    def decide(payload: bytes) -> Decision:
        addresses.append(gate.service.address)
        return Answer(b"own")

    proxies = TrustedProxies(["127.0.0.1"] if trusted else [])
    async with gateway(service=lambda: Service(decide=decide), http=True, proxies=proxies) as gate:
        peer = await gate.dial()
        itself = "{}:{}".format(*peer.writer.get_extra_info("sockname"))
        for origin in ORIGINS:
            peer.writer.write(post(calls.status(), "ada", *([f"X-Forwarded-For: {origin}"] if origin else [])))
            assert await reply(peer) == (200, b"own")
        assert addresses == [(trusted and origin) or itself for origin in ORIGINS]
        assert len(gate.services) == 1, "another address needs no new login"


def late() -> Service:
    """A service that answers status calls itself, and accepts logins without Spark."""
    return replace(answered(), spark_accepts=False)


async def test_spark_is_connected_for_the_first_forwarded_request() -> None:
    async with gateway(service=late, http=True) as gate:
        for _ in range(3):
            peer = await gate.dial()
            peer.writer.write(post(calls.status(), "ada", "Connection: close"))
            assert await reply(peer) == (200, b"own")
            assert await peer.closed() == b""
        assert gate.spark.peers == []
        peer = await gate.dial()
        for request in (calls.status(), calls.open_session(), calls.open_session()):
            peer.writer.write(post(request))
            answer = b"own" if request == calls.status() else echo_of(request)
            assert await reply(peer) == (200, answer)
        assert [login.user for login in gate.spark.logins] == ["ada"]


async def test_another_users_request_does_not_use_the_first_users_connection() -> None:
    async with gateway(service=late, http=True) as gate:
        peer = await gate.dial()
        for user, request in (("ada", calls.open_session()), ("eve", calls.status()), ("eve", calls.open_session())):
            peer.writer.write(post(request, user))
            await reply(peer)
        assert [login.user for login in gate.spark.logins] == ["ada", "eve"]
        await until(lambda: gate.spark.connected() == 1)


async def test_a_login_that_spark_refuses_late_fails_the_request() -> None:
    async with gateway(ScriptedServer(refuse_with="not you"), service=late, http=True) as gate:
        peer = await gate.dial()
        for _ in range(2):
            peer.writer.write(post(calls.open_session()))
            status, body = await reply(peer)
            error = reply_status(body)
            assert (status, error.sqlstate, error.message) == (200, "28000", "not you")
        assert len(gate.spark.peers) == 2


async def test_a_refused_login_gets_a_401_and_closes_the_connection() -> None:
    async with gateway(ScriptedServer(refuse_with="not you"), http=True) as gate:
        peer = await gate.dial()
        peer.writer.write(post(calls.status()))
        status, body = await reply(peer)
        assert (status, body) == (401, b"Authentication Error: not you\n")
        assert await peer.closed() == b""


async def test_a_reply_remains_unfinished_if_spark_is_lost_within_it() -> None:
    async def script(peer: Peer) -> None:
        await peer.message()
        peer.writer.write(frame(echo_of(calls.status()))[:40])
        await peer.writer.drain()
        peer.close()

    async with gateway(ScriptedServer(script=script), http=True) as gate:
        peer = await gate.dial()
        peer.writer.write(post(calls.status()))
        rest = await peer.closed()
        assert b"Transfer-Encoding: chunked" in rest
        assert not rest.endswith(b"0\r\n\r\n")


async def test_a_long_reply_is_chunked() -> None:
    long = calls.execute("SELECT 1")

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.message()
            whole = frame(echo_of(request))
            peer.writer.write(whole[:20])
            await peer.writer.drain()
            await asyncio.sleep(0)
            peer.writer.write(whole[20:])

    async with gateway(ScriptedServer(script=script), http=True) as gate:
        peer = await gate.dial()
        for _ in range(3):
            peer.writer.write(post(long))
            assert await reply(peer) == (200, echo_of(long))


async def test_a_client_may_close_the_connection_with_a_header() -> None:
    async with gateway(http=True) as gate:
        peer = await gate.dial()
        peer.writer.write(post(calls.status(), "ada", "Connection: close") + post(calls.status()))
        assert await reply(peer) == (200, echo_of(calls.status()))
        assert await peer.closed() == b""
