"""Sockets that a service manager has opened for this process: systemd's socket activation.

They stay open while the process is restarted, so clients that connect meanwhile wait instead of being refused.

Tests: `test_inherited`.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable, MutableMapping
from typing import Protocol

from gateway.errors import FreshgateError

FIRST = 3
"""The descriptor of the first one (sd_listen_fds(3)). The others follow."""


class Numbered(Protocol):
    """A port of the settings."""

    @property
    def transport(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class InheritedSockets:
    """Sockets by name. Each is taken once."""

    def __init__(self, sockets: Iterable[tuple[str, socket.socket]] = ()) -> None:
        self._sockets = list(sockets)

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> InheritedSockets:
        """Those that the environment tells of. The variables are removed, so that no child process takes them for its
        own. Raises FreshgateError for a socket that no client can connect to."""
        told = [environment.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")]
        process, count, names = told
        if process != str(os.getpid()) or not count.isdigit():
            return cls()
        named = names.split(":") if names else []
        named += [""] * (int(count) - len(named))
        return cls((named[at], _listening(FIRST + at, named[at])) for at in range(int(count)))

    def take(self, port: Numbered) -> list[socket.socket]:
        """The sockets for a port: those named after its transport (`binary`, `http`), otherwise those with its number.
        Empty if there are none. Raises FreshgateError for one that other machines reach, if the port's host is this
        machine's own: the settings were checked for that only."""
        found = [each for each in self._sockets if each[0] == port.transport]
        found = found or [each for each in self._sockets if each[1].getsockname()[1] == port.port]
        for name, each in found:
            if _is_local(port.host) and not _is_local(reached := each.getsockname()[0]):
                self._close()
                raise FreshgateError(
                    f"The socket {name or 'unnamed'} that systemd has opened listens at {reached}, but listen.host is "
                    f"{port.host}, which only this machine reaches. Set ListenStream={port.host}:{port.port} in the "
                    "socket unit, or listen.host to the same address."
                )
        self._sockets = [each for each in self._sockets if each not in found]
        return [each for _, each in found]

    def _close(self) -> None:
        for _, each in self._sockets:
            each.close()

    def raise_if_left(self) -> None:
        """Raises FreshgateError if there are sockets that no port has taken: their clients would wait for ever."""
        if not self._sockets:
            return
        left = ", ".join(f"{name or 'unnamed'} (port {each.getsockname()[1]})" for name, each in self._sockets)
        self._close()
        raise FreshgateError(
            f"systemd has opened sockets that no port of the settings uses: {left}. Set listen.port or "
            "listen.http_port to the same number, or FileDescriptorName=binary or http in the socket unit."
        )


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(descriptor: int, name: str) -> socket.socket:
    os.set_inheritable(descriptor, False)
    found = socket.socket(fileno=descriptor)
    inet = found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM
    if not inet or not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        found.close()
        raise FreshgateError(
            f"The socket {name or descriptor} that systemd has opened is none that clients connect to. Use "
            "ListenStream= with a port, and Accept=no, in the socket unit."
        )
    return found
