"""What the service asks of Spark beside the client's own connection, as protocols; `gateway.spark` implements them.

Handles work from any connection, so a second connection can run statements in a client's session while the first
waits for an answer.
"""

from __future__ import annotations

from typing import Protocol

from gateway.mv.ports import SqlSession
from gateway.wire.message import Handle
from gateway.wire.sasl import Login


class SideConnection(Protocol):
    """One connection of the gateway's own to Spark."""

    @property
    def alive(self) -> bool:
        """False when it broke or Spark has closed it."""
        ...

    @property
    def busy(self) -> bool:
        """A call is under way, though nobody may wait for its reply any more."""
        ...

    async def forward(self, payload: bytes) -> bytes:
        """Sends one request message, returns the reply message. Raises UpstreamLost, or StatementFailed for a login
        over HTTP that Spark refuses."""
        ...

    def session(self, handle: Handle) -> SqlSession:
        """A session that was opened elsewhere, to run statements in."""
        ...

    async def close(self) -> None: ...


class Upstream(Protocol):
    """Where Spark is."""

    async def connect(self, login: Login, *, ask: bool = False) -> SideConnection:
        """Logs in as the client did. Raises UpstreamLost, or StatementFailed where Spark refuses.

        Over HTTP each call carries the login, and it is the first call that is refused, unless Spark is to be asked at
        once.
        """
        ...
