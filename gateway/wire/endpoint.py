"""The address of a Thrift server, and the protocol to use."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Protocol

from gateway.wire.connection import UpstreamConnection, UpstreamEnd
from gateway.wire.frame import WireLimits
from gateway.wire.gssapi import ClientContext
from gateway.wire.http_connection import HTTP, HttpUpstreamConnection
from gateway.wire.sasl import PLAIN, Login


class TicketSource(Protocol):
    """Tickets of Kerberos for servers."""

    async def ticket(self, host: str) -> ClientContext:
        """One for a new connection to the server there. Raises UpstreamLost without one, such as from a silent KDC."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`mechanism`: "PLAIN" (SASL), "GSSAPI", "NOSASL" or "HTTP"; `path` is for HTTP. `tls`: None for a server without
    TLS."""

    host: str
    port: int
    mechanism: str = PLAIN
    path: str = "/cliservice"
    tls: ssl.SSLContext | None = None
    tickets: TicketSource | None = None
    """For the mechanism "GSSAPI"."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def connection(self, login: Login, limits: WireLimits, *, early: bool = False) -> UpstreamEnd:
        """Returns the client's end of a new connection. Raises `LoginRefused` if the protocol cannot transmit the
        login, and what `TicketSource.ticket` raises.

        `early`: see `HttpUpstreamConnection`.
        """
        if self.tickets is not None:
            return UpstreamConnection(login, limits, await self.tickets.ticket(self.host))
        if self.mechanism == HTTP:
            return HttpUpstreamConnection(login, limits, str(self), self.path, early=early)
        return UpstreamConnection(Login(login.user, login.password, self.mechanism), limits)
