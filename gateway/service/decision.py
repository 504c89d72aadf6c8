"""What stands between the proxy, which moves bytes, and the service, which decides about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.errors import FreshgateError
from gateway.wire import reply
from gateway.wire.message import Head
from gateway.wire.reading import Ahead
from gateway.wire.sasl import Login

__all__ = ["Answer", "Decision", "Dispatcher", "Forward", "Login", "Page", "decided", "failure"]


class Page(Protocol):
    """How a page of rows is passed on, before a Spark that sends frames: `wire.page` and `wire.reading`."""

    @property
    def claims(self) -> Ahead | None:
        """The page that Spark was asked for already. Then nothing is sent."""

    def receive(self, data: bytes) -> tuple[bytes, bytes | None]:
        """What goes to the client of the reply's next bytes, frames' headers included, and what to ask Spark now, where
        that is due. Raises WireError."""

    def ended(self, *, may_read_ahead: bool) -> Ahead | None:
        """The reply has gone to the client. The page that Spark is to be asked for now."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Send `payload` to Spark.

    Its reply is streamed to the client as it comes. With `on_reply` or `mend` it is collected whole first (bounded by
    `WireLimits.reply_bytes_max`). `on_reply` hears of it when it has just gone to the client, who does not wait for
    what is noted of it; nothing else is looked at before. What `mend` makes of it goes to the client in its place.
    Neither may block. `page` says what goes to the client of a page of rows, and what else Spark is asked for.
    `at_once` is the reply where it is known what Spark will say: the client does not wait for Spark, where it is
    connected. Its next request does, and so does the end of the connection to Spark when it goes. `on_sent` hears when
    both have what is theirs; where the client had to wait, `on_reply` alone is called.
    """

    payload: bytes
    on_reply: Callable[[bytes], object] | None = None
    mend: Callable[[bytes], bytes] | None = None
    page: Page | None = None
    at_once: bytes | None = None
    on_sent: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply, without asking Spark.

    With `repeat_while` it answers the same request again and again, sequence ids aside and without asking the
    dispatcher, as long as nothing else comes from the client and `repeat_while()` is true.
    """

    payload: bytes
    repeat_while: Callable[[], bool] | None = None


Decision = Forward | Answer | Awaitable[Forward | Answer]
"""An awaitable runs as a task, and the client's next request waits for it. It is cancelled when the client
goes: shield in it what others wait for too.
"""


async def decided(decision: Decision) -> Forward | Answer:
    """What comes of it."""
    return decision if isinstance(decision, Forward | Answer) else await decision


def failure(head: Head, error: FreshgateError) -> bytes:
    """The reply to a call that ends with an error."""
    return reply.error(head.name, head.seqid, str(error), error.sqlstate)


class Dispatcher(Protocol):
    """One client's work. The proxy calls it on the event loop and never twice at a time."""

    def came_from(self, address: str) -> None:
        """The client's address, for logs. Called first, and again where another one's request comes the same way."""

    def login(self, login: Login) -> None:
        """The client has said who it is. Without SASL the user is "" here; the name comes in OpenSession.

        Nobody has checked the password yet: no request comes before `admit` did, and Spark where that is asked for.
        """

    async def admit(self) -> bool:
        """Checks a login by SASL or HTTP, before the client's connection is joined to one to Spark.

        Returns whether it must be joined before the client is accepted, so that Spark checks the login, too. If not,
        the first `Forward` connects.
        Raises `FreshgateError`, whose text goes to the client, where the user may not log in.
        """

    @property
    def logged_in(self) -> bool:
        """Somebody's login was accepted: by SASL or HTTP, or in an OpenSession that has succeeded."""

    def request(self, payload: bytes) -> Decision:
        """One request of the client. Must not block."""

    def upstream_login(self) -> Login:
        """With what to log in to Spark; asked for each connection to it."""

    async def refused_by_spark(self, error: FreshgateError) -> None:
        """Spark, asked for a connection before the client is accepted, does not take its login. Returns when the client
        may hear of it."""

    def login_ended(self, error: FreshgateError | None) -> None:
        """A SASL client was accepted, or refused with an error. Called once at most: the client may go before."""

    def replied(self) -> None:
        """The reply to the last request has gone out whole."""

    def upstream_lost(self, outstanding: bytes | None) -> bytes | None:
        """The connection to Spark broke.

        `outstanding` is the client's request that has no complete reply yet. The reply returned goes to the
        client, unless a part of Spark's has gone already; then, or for None, the client is closed. Otherwise
        the client stays, and the next `Forward` connects again.
        """

    def not_joined(self, outstanding: bytes, error: FreshgateError) -> bytes:
        """No connection to Spark could be made for a `Forward`: `error` says why.

        Returns the reply to `outstanding`, of which Spark has heard nothing. The client stays, and the next `Forward`
        tries again.
        """

    def client_lost(self) -> Awaitable[None] | None:
        """The client is gone, however. Called exactly once; the connection to Spark is closed when the
        awaitable is done.
        """
