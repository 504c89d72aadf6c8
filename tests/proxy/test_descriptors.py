"""Tests what clients see when the process has no file descriptors left: they are told, or wait, and the log says so."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import Iterator

import pytest
from proxy.peers import LIMITS, gateway, login_bytes, until
from wire import calls

from gateway.proxy import acceptor, descriptors
from gateway.wire.connection import NOSASL
from gateway.wire.sasl import COMPLETE, negotiation

WARNING = "nearly as many open files and sockets as the system allows"


@contextlib.contextmanager
def limited(more: int) -> Iterator[int]:
    """A limit of so many descriptors above the lowest free one. Yields the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + more, hard))
    try:
        yield lowest + more
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def exhausted() -> Iterator[None]:
    """No descriptor is left."""
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for each in taken:
            os.close(each)


async def test_a_client_for_which_few_are_left_is_told_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(descriptors, "SPARE", 20)
    async with gateway(limits=LIMITS) as gate:
        with limited(60), caplog.at_level(logging.WARNING):
            served = [await gate.client()]
            while True:
                peer = await gate.dial()
                peer.writer.write(login_bytes())
                if await peer.reader.readexactly(5) != negotiation(COMPLETE):
                    break
                peer.framed = True
                served.append(peer)
            assert b"too many open files" in await peer.closed()
            bare = await gate.dial()
            bare.send(calls.open_session())
            assert b"too many open files" in (await bare.message())
            assert len(served) > 2
            # Those that are served go on, and others are served as soon as there is room.
            for each in served[1:]:
                await each.end()
            await until(lambda: gate.listener.clients == 1)
            await gate.client(NOSASL)
        assert gate.traffic.starved == 2
    assert [each.levelname for each in caplog.records if WARNING in each.message] == ["WARNING"]


async def test_clients_wait_until_one_is_free(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(descriptors, "SPARE", 0)
    monkeypatch.setattr(acceptor, "_RETRY_SECONDS", 0.02)
    async with gateway(limits=LIMITS) as gate:
        with limited(30), caplog.at_level(logging.WARNING), socket.socket() as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            with exhausted():
                await loop.sock_connect(client, ("127.0.0.1", gate.listener.ports[0]))
                await loop.sock_sendall(client, login_bytes())
                await until(lambda: gate.traffic.starved > 1)
            assert await loop.sock_recv(client, 5) == negotiation(COMPLETE)
    assert [each.levelname for each in caplog.records if WARNING in each.message] == ["WARNING"]


@pytest.mark.parametrize(
    ("limit", "descriptor", "short"), [(1000, 899, False), (1000, 900, True), (40, 29, False), (40, 30, True)]
)
def test_some_are_kept_for_the_clients_that_are_served(
    limit: int, descriptor: int, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert descriptors.Room().is_short(descriptor) is short
