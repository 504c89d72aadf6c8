"""Several Spark Thrift servers over one metastore: which of them are up, and which one is the home of the gateway.

The gateway's own sessions (looks, refreshes, changes of views) are all at one server, its home. The home stays until it
is lost. Then the next server becomes the home, in the order of the settings, if it passes the same checks.

Clients' sessions are at the home, too, or, where they are shared out, each at the server with the fewest connections of
clients. A server gets its share only while it is the home's equal.

A server that is lost keeps no connection of the gateway's: who waits for an answer of it learns that Spark went away.

Tests: `test_servers`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Protocol
from weakref import WeakSet

from gateway import loops
from gateway.config import Address
from gateway.errors import FreshgateError, NoTicket, UpstreamLost, UpstreamProtocolMismatch

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
"""Pause before each check of the servers."""
LOGIN_SECONDS = 10.0
"""Time limit of a login. It takes hundredths of a second even if all of Spark's cores and threads are busy."""
CHECK_SECONDS = 60.0
"""Time limit of the checks of a server that is not in use yet: a Spark that has just started is slow."""
SILENT_SECONDS = 30.0
"""A server that answers no login for so long is lost: its clients are better served by another one. A full garbage
collection of a large heap takes less."""
BROKEN_SECONDS = 3.0
"""The same, if connections are made and broken: a load balancer answers for a server that is gone."""
FAILED_LOGINS_MIN = 3
"""Failed logins in a row before such a server is lost."""
BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 10.0)
"""Pauses before a lost server is tried again."""
_NOBODY = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})
"""Errors that say at once that no server listens there."""


class Health(Enum):
    """Whether a server answers."""

    UNKNOWN = "unknown"
    """It has not been checked."""
    UP = "up"
    SILENT = "silent"
    """Its last login failed."""
    DOWN = "down"


class Link(Protocol):
    """A connection to a server."""

    at: str
    """The name of the server."""

    @property
    def alive(self) -> bool: ...

    def cut(self) -> None:
        """Breaks it, as if the server had."""


class Checks(Protocol):
    """What a server must pass."""

    async def as_home(self, server: KnownServer, *, moved: bool) -> None:
        """Returns if the gateway's own sessions can be there. `moved`: they were at another server before.

        Raises FreshgateError."""

    async def as_peer(self, server: KnownServer) -> str:
        """Returns why sessions of clients cannot be there while the gateway's own are at the home; empty if they can.

        Raises FreshgateError."""

    async def log_in(self, server: KnownServer) -> None:
        """Does what a client does. Raises UpstreamLost if the server does not answer."""


class KnownServer:
    """One Thrift server."""

    def __init__(self, locate: Callable[[], Awaitable[Address]], name: str = "") -> None:
        """`locate`: where it listens now; raises UpstreamLost."""
        self.name = name
        """HOST:PORT; empty for the only one."""
        self.locate = locate
        self.health = Health.UNKNOWN
        self.error: FreshgateError | None = None
        """Why it cannot be used."""
        self.retry_at = 0.0
        """A server that is down is not tried before."""
        self.unlike = ""
        """Why it is not the home's equal; empty if it is."""
        self.links: WeakSet[Link] = WeakSet()
        self.clients: WeakSet[Link] = WeakSet()
        """Those among them that are clients'."""
        self._failed_since: float | None = None
        self._failures = 0
        self._losses = 0

    def __str__(self) -> str:
        return self.name

    def answered(self) -> None:
        """A login has succeeded, or was refused for its own sake."""
        self._failed_since, self._failures = None, 0
        if self.health is Health.SILENT:
            self.health = Health.UP

    def is_up(self) -> None:
        """It has passed its checks."""
        self.health, self.error = Health.UP, None
        self._failed_since, self._failures, self._losses = None, 0, 0

    def failed(self, error: FreshgateError | TimeoutError, now: float) -> bool:
        """A login has failed. Returns whether the server is lost."""
        self._failures += 1
        if self._failed_since is None:
            self._failed_since = now
        if self.health is Health.UP:
            self.health = Health.SILENT
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _NOBODY:
            return True
        silent = isinstance(error, TimeoutError) or isinstance(cause, TimeoutError)
        limit = SILENT_SECONDS if silent else BROKEN_SECONDS
        return self._failures >= FAILED_LOGINS_MIN and now - self._failed_since >= limit

    def lose(self, error: FreshgateError, now: float) -> None:
        """It is not used until it has passed its checks again. Everything that waits for it fails."""
        self.health, self.error = Health.DOWN, error
        self.retry_at = now + BACK_OFF_SECONDS[min(self._losses, len(BACK_OFF_SECONDS) - 1)]
        self._losses += 1
        self.cut()

    def cut(self) -> None:
        """Breaks all connections."""
        for link in list(self.links):
            link.cut()
        self.links.clear()
        self.clients.clear()

    @property
    def is_answering(self) -> bool:
        return self.health is Health.UP

    def described(self, *, home: bool) -> str:
        """Its state in words."""
        shown = ["home"] if home else []
        shown.append(self.health.value)
        if self.clients:
            shown.append(f"{self.load} connections of clients")
        if self.unlike and not home:
            shown.append(self.unlike)
        return ", ".join(shown)

    @property
    def load(self) -> int:
        """The number of clients' connections."""
        return sum(link.alive for link in self.clients)


class Servers:
    """All servers, in the order of the settings. The only one is always the home, and never checked: everything fails
    until it is up again."""

    def __init__(
        self,
        servers: Sequence[KnownServer],
        checks: Checks,
        *,
        share: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`share`: clients' sessions are shared out."""
        self.all = tuple(servers)
        self.share = share and len(self.all) > 1
        self._checks = checks
        self._clock = clock
        self._home: KnownServer | None = None if self.several else self.all[0]
        self._last_home: KnownServer | None = None
        """The home, or what was the home before it was lost."""
        self._choosing: asyncio.Task[KnownServer] | None = None
        self.lost: list[Callable[[KnownServer], None]] = []
        """Called with each server that is lost."""
        self.loop = loops.Loop("checks of the Spark servers", self._check_again)

    @property
    def several(self) -> bool:
        return len(self.all) > 1

    @property
    def at_home(self) -> KnownServer | None:
        """The home, if there is one at the moment."""
        return self._home

    @property
    def figures(self) -> tuple[Sequence[str], Callable[[], str], Callable[[str], bool]]:
        """For metrics: the names, which one is the home, and whether one is up."""
        by_name = {each.name: each for each in self.all}
        return tuple(by_name), lambda: self._home.name if self._home else "", lambda name: by_name[name].is_answering

    @property
    def described(self) -> str | None:
        """One line about all servers; None if there is only one."""
        if not self.several:
            return None
        return ", ".join(f"{each} ({each.described(home=each is self._home)})" for each in self.all)

    async def home(self) -> KnownServer:
        """The server of the gateway's own sessions; another one if it was lost. Raises UpstreamLost if no server can be
        used, and before there was any, what is wrong with one that cannot."""
        if self._home is not None:
            return self._home
        if self._choosing is None:
            # For all callers, none of which may cancel it for the others.
            self._choosing = asyncio.ensure_future(self._choose())
            self._choosing.add_done_callback(self._chosen)
        return await asyncio.shield(self._choosing)

    async def for_client(self) -> KnownServer:
        """The server of a client's next session. Raises what `home` raises."""
        home = await self.home()
        if not self.share:
            return home
        equals = [each for each in self.all if each is home or (each.health is Health.UP and not each.unlike)]
        return min(equals, key=lambda each: each.load)

    def named(self, name: str) -> KnownServer:
        """The server with this name, for a session that is there. Raises UpstreamLost if it is lost."""
        server = next(each for each in self.all if each.name == name)
        if server.health is Health.DOWN:
            raise UpstreamLost(f"Spark at {server} is lost, and with it the session.")
        return server

    def _chosen(self, choosing: asyncio.Task[KnownServer]) -> None:
        self._choosing = None
        if not choosing.cancelled():
            choosing.exception()  # Marks it as retrieved: all callers may have been cancelled.

    async def _choose(self) -> KnownServer:
        for server in self.all:
            if server.health is Health.DOWN and self._clock() < server.retry_at:
                continue
            if await self._passes(server):
                self._home = server
                if self._last_home not in (None, server):
                    log.warning("Spark at %s takes the place of %s", server, self._last_home)
                    # Whether the others are its equals is not known.
                    for other in self.all:
                        if other is not server and other.health is not Health.DOWN:
                            other.health = Health.UNKNOWN
                self._last_home = server
                self.loop.start()
                return server
        raise self._none_left()

    async def _passes(self, server: KnownServer) -> bool:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._checks.as_home(server, moved=self._last_home is not None)
        except (FreshgateError, TimeoutError) as error:
            self._lose(server, _problem(error, server))
            return False
        server.is_up()
        return True

    def _none_left(self) -> FreshgateError:
        errors = [server.error for server in self.all if server.error is not None]
        if self._last_home is None:
            for error in errors:
                if not isinstance(error, UpstreamLost) or isinstance(error, UpstreamProtocolMismatch):
                    return error  # Waiting does not help.
        return UpstreamLost("No Spark server can be used: " + " ".join(map(str, errors)))

    def reached(self, server: KnownServer, link: Link, *, of_client: bool = False) -> None:
        """A connection was opened. It is cut once the server is lost."""
        link.at = server.name
        if self.several:
            server.answered()
            server.links.add(link)
            if of_client:
                server.clients.add(link)

    def failed(self, server: KnownServer, error: FreshgateError | TimeoutError) -> bool:
        """No connection could be opened. Returns whether the server is lost, so that another one may be tried."""
        if isinstance(error, NoTicket):
            return False  # That says nothing of the server: its sessions go on.
        if not self.several or server.health is Health.DOWN:
            return self.several
        if not server.failed(error, self._clock()):
            return False
        self._lose(server, _problem(error, server))
        return True

    def _lose(self, server: KnownServer, error: FreshgateError) -> None:
        if server.health is not Health.DOWN or str(server.error) != str(error):
            log.warning("Spark at %s is not used: %s", server, error)
        if self._home is server:
            self._home = None
        server.lose(error, self._clock())
        self._tell(server)

    def _tell(self, server: KnownServer) -> None:
        for tell in self.lost:
            tell(server)

    async def _check_again(self) -> None:
        await asyncio.sleep(INTERVAL_SECONDS)
        await self.check()

    async def check(self) -> None:
        """Logs in at the home, so that a server that hangs is noticed even if nobody connects, and looks whether the
        others could take its place."""
        home = self._home
        if home is not None:
            await self._log_in(home)
        try:
            home = await self.home()
        except FreshgateError as error:
            log.info("%s", error)
            return
        await asyncio.gather(*(self._compare(each) for each in self.all if each is not home))

    async def _compare(self, server: KnownServer) -> None:
        """Asks whether another server is up, and the home's equal."""
        if server.health is Health.DOWN and self._clock() < server.retry_at:
            return
        home = self._home
        try:
            async with asyncio.timeout(CHECK_SECONDS if server.health is Health.UNKNOWN else LOGIN_SECONDS):
                unlike = await self._checks.as_peer(server)
        except (UpstreamLost, TimeoutError) as error:
            if server.health is Health.DOWN:
                self._lose(server, _problem(error, server))
            else:
                self.failed(server, error)
            return
        except FreshgateError as error:
            self._lose(server, error)
            return
        if self._home is not home or home is server:
            return  # It was compared with another one.
        if unlike and unlike != server.unlike:
            log.warning("Spark at %s is not like the one at %s: %s", server, home, unlike)
        if server.health is not Health.UP:
            log.info("Spark at %s is up", server)
        server.is_up()
        server.unlike = unlike
        if unlike and server.clients:
            server.cut()
            self._tell(server)

    async def _log_in(self, server: KnownServer) -> None:
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self._checks.log_in(server)
        except (UpstreamLost, TimeoutError) as error:
            self.failed(server, error)
        else:
            server.answered()


def _problem(error: FreshgateError | TimeoutError, server: KnownServer) -> FreshgateError:
    if isinstance(error, FreshgateError):
        return error
    return UpstreamLost(f"Spark at {server} does not answer. Try again later.")
