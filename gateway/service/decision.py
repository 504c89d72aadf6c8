"""The interface between the proxy, which moves bytes, and the service, which decides about them.

Tests: `test_relay`.
"""

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
    """Passes on a page of rows of a Spark that sends frames; implemented in `wire.page` and `wire.reading`."""

    @property
    def claims(self) -> Ahead | None:
        """The page that has already been requested from Spark; then no request is sent. None otherwise."""

    def receive(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Takes the next bytes of the reply. Returns what goes to the client, including frame headers, and the next
        request to Spark, if one is due. Raises WireError."""

    def ended(self, *, may_read_ahead: bool) -> Ahead | None:
        """Called when the reply has gone to the client. Returns the page to request from Spark now, if any."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Send `payload` to Spark.

    The reply is streamed to the client. With `on_reply` or `mend` it is collected first (up to
    `WireLimits.reply_bytes_max`). `on_reply` is called with the reply once it has gone to the client, so that the
    client does not wait for the bookkeeping, and before anything else is processed. `mend` returns the reply that the
    client gets instead. Neither may block. With `confirm`, `on_reply` is called first, and the client gets the reply
    that the awaitable returns. `page` decides what the client gets of a page of rows, and what else is
    requested from Spark.

    `at_once` is the reply if Spark's is known in advance: if Spark is connected, the client does not wait for it. The
    client's next request does wait, and so does closing the connection to Spark. `on_sent` is called when the client
    has its reply and Spark the request; if the client had to wait, only `on_reply` is called.
    """

    payload: bytes
    on_reply: Callable[[bytes], object] | None = None
    mend: Callable[[bytes], bytes] | None = None
    confirm: Callable[[bytes], Awaitable[bytes]] | None = None
    page: Page | None = None
    at_once: bytes | None = None
    on_sent: Callable[[], object] | None = None

    @property
    def collected(self) -> bool:
        """Whether the reply is needed as a whole."""
        last = self.at_once is not None
        return self.on_reply is not None or self.mend is not None or self.confirm is not None or last


@dataclass(frozen=True, slots=True)
class Answer:
    """Send a reply to the client, without asking Spark.

    With `repeat_while`, the proxy repeats the reply whenever the client repeats the request, apart from sequence ids,
    without calling the dispatcher, until the client sends another request or `repeat_while()` is false.
    """

    payload: bytes
    repeat_while: Callable[[], bool] | None = None


Decision = Forward | Answer | Awaitable[Forward | Answer]
"""An awaitable runs as a task, and the client's next request waits for it. It is cancelled when the client disconnects,
so work that others also wait for must be shielded in it."""


async def decided(decision: Decision) -> Forward | Answer:
    """The result of a decision, awaited if necessary."""
    return decision if isinstance(decision, Forward | Answer) else await decision


def failure(head: Head, error: FreshgateError) -> bytes:
    """The reply to a call that ends with an error."""
    return reply.error(head.name, head.seqid, str(error), error.sqlstate)


class Moving(Protocol):
    """How a client goes on at another leader. The proxy uses it if a door passes the client on."""

    def passed_on(self) -> None:
        """A door passes the client on: its sessions go on at the next leader. Called before the login."""

    def stays(self) -> None:
        """The client cannot go on at the next leader after all. Called before its first request."""

    def ticket(self) -> bytes | None:
        """What the next leader needs to go on with the client; None if it is as it was at the last call."""

    def arrive(self, ticket: bytes) -> Login:
        """The client comes from another leader, where it has logged in with the login that is returned. Called in the
        place of `Dispatcher.login`. Raises WireError."""

    def leaves(self, request: bytes) -> bool:
        """Whether this gateway is being stopped, and leaves the client with this request to the next leader."""

    def left(self) -> None:
        """The next leader goes on with the client. `Dispatcher.client_lost` follows."""


class Dispatcher(Protocol):
    """Decides about the messages of one client. The proxy calls it on the event loop, never concurrently."""

    @property
    def moving(self) -> Moving: ...

    def came_from(self, address: str, do_as: str = "") -> None:
        """Sets the client's address, and in whose name it acts according to its URL. Called first, and again when a web
        proxy's connection carries another client's request."""

    def login(self, login: Login) -> None:
        """Sets the client's login. Without SASL the user is "" here; the name comes in OpenSession.

        The password is unchecked: requests come only after `admit`, and after Spark's check if `admit` demands it.
        """

    @property
    def identity(self) -> Login:
        """The login once it is admitted: a token's has its user's name then."""
        ...

    async def admit(self) -> bool:
        """Checks a login by SASL or HTTP, before the client's connection is joined to a connection to Spark.

        Returns whether it must be joined before the client is accepted, so that Spark checks the login too. If not, the
        first `Forward` connects. Raises FreshgateError, whose text goes to the client, if the user may not log in.
        """

    @property
    def logged_in(self) -> bool:
        """Whether a login was accepted: by SASL or HTTP, or in a successful OpenSession."""

    @property
    def is_busy(self) -> bool:
        """Whether a statement of the client runs, or it may be fetching rows."""

    def request(self, payload: bytes) -> Decision:
        """Decides about a request of the client. Must not block."""

    def upstream_login(self) -> Login:
        """The login for a connection to Spark. Called for each connection."""

    def joined(self, at: str) -> None:
        """Called when the client's connection is joined to a connection to the server with this name."""

    @property
    def at(self) -> str | None:
        """The name of the server that the last request is for; None if any will do."""

    async def refused_by_spark(self, error: FreshgateError) -> None:
        """Called if Spark refuses the login of a client that is not accepted yet. Returns when to tell it."""

    def login_ended(self, error: FreshgateError | None) -> None:
        """Called when a SASL client was accepted, or refused with an error; not called if the client left before."""

    def replied(self) -> None:
        """Called when the reply to the last request has been sent completely."""

    def upstream_lost(self, outstanding: bytes | None) -> bytes | None:
        """Called when the connection to Spark broke.

        `outstanding` is the client's request without a complete reply, if there is one. The returned reply goes to the
        client, which stays connected, and the next `Forward` connects again. If a part of Spark's reply has already
        been sent, or None is returned, the client's connection is closed.
        """

    def not_joined(self, outstanding: bytes, error: FreshgateError) -> bytes:
        """Called when no connection to Spark could be opened for a `Forward`, because of `error`.

        Returns the reply to `outstanding`, which never reached Spark. The client stays connected, and the next
        `Forward` tries again.
        """

    def client_lost(self) -> Awaitable[None] | None:
        """Called exactly once when the client has gone, for whatever reason. The connection to Spark is closed when the
        awaitable is done."""
