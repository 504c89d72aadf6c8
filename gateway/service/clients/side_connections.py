"""Protocols of the service's connections to Spark besides the client's own; `gateway.spark` implements them.

Handles work from any connection, so a second connection can run statements in a client's session while the first
waits for an answer.
"""

from __future__ import annotations

from typing import Protocol

from gateway.mv.ports import SqlSession
from gateway.wire.message import Handle
from gateway.wire.sasl import Login


class SideConnection(Protocol):
    """One of the gateway's own connections to Spark."""

    at: str
    """The name of the server, if there are several."""

    @property
    def alive(self) -> bool:
        """Whether it is open: it has not broken, and Spark has not closed it."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a call is under way, even if nobody waits for its reply any more."""
        ...

    async def forward(self, payload: bytes) -> bytes:
        """Sends a request message, and returns the reply message. Raises UpstreamLost, or StatementFailed if Spark
        refuses a login over HTTP."""
        ...

    def session(self, handle: Handle) -> SqlSession:
        """A session that was opened on another connection, for running statements."""
        ...

    async def close(self) -> None: ...


class SideConnector(Protocol):
    """Connects to Spark."""

    async def connect(self, login: Login, *, ask: bool = False, at: str | None = None) -> SideConnection:
        """Connects with a client's login. `at`: to the server with this name; None: to any one for a new session.
        Raises UpstreamLost, or StatementFailed if Spark refuses the login.

        Over HTTP, each call carries the login, so the first call is refused, unless `ask` makes Spark check it at once.
        """
        ...
