"""Tests sockets that a service manager passes to the gateway, as systemd does."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from functools import partial

import pytest
from proxy.peers import BOTH, LIMITS, Peer, Service, echo_of, no_upstream, until
from wire import calls

from gateway.errors import FreshgateError
from gateway.proxy import inherited
from gateway.proxy.entrance import Entrance, Port
from gateway.proxy.inherited import InheritedSockets
from gateway.proxy.listener import Listener
from gateway.service.decision import Answer
from gateway.wire.connection import ClientConnection


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket that listens, whose descriptor is the first one that the service manager passes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # The gateway closes the descriptor that it was given; the service manager keeps its own.
        monkeypatch.setattr(inherited, "FIRST", os.dup(listening.fileno()))
        yield listening


def told(names: str = "", *, process: int | None = None, count: str = "1") -> dict[str, str]:
    return {"LISTEN_PID": str(process or os.getpid()), "LISTEN_FDS": count, "LISTEN_FDNAMES": names, "HOME": "/"}


def port(number: int = 0, host: str = "127.0.0.1", transport: str = "binary") -> Port:
    return Port(host, number, lambda: ClientConnection(BOTH, LIMITS), transport=transport)


@pytest.mark.parametrize("named", [True, False])
async def test_clients_wait_until_the_gateway_serves(passed: socket.socket, *, named: bool) -> None:
    number = passed.getsockname()[1]
    environment = told("binary" if named else "freshgate.socket")
    entrance = Entrance([port(0 if named else number)], 10, InheritedSockets.of(environment))
    assert environment == {"HOME": "/"}
    service = partial(Service, decide=lambda payload: Answer(echo_of(payload)))
    listener = Listener(entrance, LIMITS, service, no_upstream)
    await listener.bind()
    assert listener.ports == [number]
    peer = Peer(*await asyncio.open_connection("127.0.0.1", number), False)
    peer.send(calls.open_session())
    assert not entrance._acceptors
    await listener.start()
    assert await peer.message() == echo_of(calls.open_session())
    await until(lambda: listener.clients == 1)
    await peer.end()
    await listener.close()
    # The socket itself still listens, for the next gateway.
    (await asyncio.open_connection("127.0.0.1", number))[1].close()


def test_another_processs_variables_are_removed(passed: socket.socket) -> None:
    environment = told("binary", process=1)
    assert InheritedSockets.of(environment).take(port(passed.getsockname()[1])) == []
    assert environment == {"HOME": "/"}
    os.close(inherited.FIRST)


def test_a_socket_that_no_port_uses_is_an_error(passed: socket.socket) -> None:
    with pytest.raises(FreshgateError, match=rf"rest \(port {passed.getsockname()[1]}\)"):
        Entrance([port(1)], 10, InheritedSockets.of(told("rest")))


def test_a_socket_that_listens_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inherited, "FIRST", socket.socket().detach())
    with pytest.raises(FreshgateError, match="Accept=no"):
        InheritedSockets.of(told("binary"))


def test_a_socket_that_others_reach_needs_settings_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    for host, refused in (("localhost", True), ("127.0.0.1", True), ("0.0.0.0", False), ("gateway.example", False)):
        with socket.create_server(("0.0.0.0", 0)) as listening:
            monkeypatch.setattr(inherited, "FIRST", os.dup(listening.fileno()))
            found = InheritedSockets.of(told("http"))
            number = listening.getsockname()[1]
            if refused:
                with pytest.raises(FreshgateError, match=f"ListenStream={host}:"):
                    found.take(port(number, host, "http"))
            else:
                (taken,) = found.take(port(number, host, "http"))
                taken.close()
