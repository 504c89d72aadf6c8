"""Tests the choice of one of several Spark servers, with a clock and checks that the test sets."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.config import Address
from gateway.errors import FreshgateError, UpstreamLost
from gateway.spark.servers import (
    BACK_OFF_SECONDS,
    BROKEN_SECONDS,
    FAILED_LOGINS_MIN,
    SILENT_SECONDS,
    Health,
    KnownServer,
    Servers,
)
from gateway.spark.storage_guard import GuardRefuses


def refused() -> UpstreamLost:
    error = UpstreamLost("Cannot connect to Spark.")
    error.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    return error


def broken() -> UpstreamLost:
    error = UpstreamLost("Cannot connect to Spark.")
    error.__cause__ = EOFError("the server closed the connection during the login")
    return error


class Connected:
    """A connection to a server."""

    def __init__(self) -> None:
        self.at = ""
        self.is_cut = False

    @property
    def alive(self) -> bool:
        return not self.is_cut

    def cut(self) -> None:
        self.is_cut = True


class Site:
    """Servers a, b and c."""

    def __init__(self, *, share: bool) -> None:
        self.now = 100.0
        self.problems: dict[str, FreshgateError] = {}
        """What is wrong with a server; the others pass."""
        self.asked: list[tuple[str, bool]] = []
        self.compared: list[str] = []
        self.unlike: dict[str, str] = {}
        """Why a server is not the home's equal."""
        self.told: list[str] = []
        servers = [self._server(name) for name in "abc"]
        self.servers = Servers(servers, self, share=share, clock=lambda: self.now)
        self.servers.lost.append(lambda server: self.told.append(server.name))

    def _server(self, name: str) -> KnownServer:
        async def locate() -> Address:
            return Address(name, 1)

        return KnownServer(locate, name)

    async def as_home(self, server: KnownServer, *, moved: bool) -> None:
        self.asked.append((server.name, moved))
        await asyncio.sleep(0)
        if server.name in self.problems:
            raise self.problems[server.name]

    async def as_peer(self, server: KnownServer) -> str:
        self.compared.append(server.name)
        if server.name in self.problems:
            raise self.problems[server.name]
        return self.unlike.get(server.name, "")

    async def log_in(self, server: KnownServer) -> None:
        await self.as_home(server, moved=False)

    async def home(self) -> str:
        return (await self.servers.home()).name

    async def client(self) -> Connected:
        """A new client's connection."""
        server, link = await self.servers.for_client(), Connected()
        self.servers.reached(server, link, of_client=True)
        return link

    async def clients(self, number: int) -> list[str]:
        self.kept = [await self.client() for _ in range(number)]
        return sorted(link.at for link in self.kept)

    def named(self, name: str) -> KnownServer:
        return next(server for server in self.servers.all if server.name == name)


def story(told: Callable[[Site], Coroutine[Any, Any, None]], *, share: bool = False) -> None:
    async def run() -> None:
        site = Site(share=share)
        await told(site)
        await site.servers.loop.stop()

    asyncio.run(run())


def test_the_first_one_that_passes_is_the_home_until_it_is_lost() -> None:
    async def told(site: Site) -> None:
        site.problems["a"] = refused()
        assert await asyncio.gather(*(site.home() for _ in range(5))) == ["b"] * 5
        assert site.asked == [("a", False), ("b", False)]
        site.told.clear()
        link, other = Connected(), Connected()
        site.servers.reached(site.named("b"), link)
        site.servers.reached(site.named("c"), other)
        site.problems = {"b": refused()}
        assert await site.home() == "b"
        assert site.servers.failed(site.named("b"), refused())
        assert (link.is_cut, other.is_cut, site.told) == (True, False, ["b"])
        # The first one is tried again, but not before its pause is over.
        assert await site.home() == "c"
        assert site.asked[2:] == [("c", True)]
        site.now += BACK_OFF_SECONDS[0]
        assert site.servers.failed(site.named("c"), refused())
        assert await site.home() == "a"

    story(told)


def test_servers_that_are_down_are_not_asked_for_every_statement() -> None:
    async def told(site: Site) -> None:
        site.problems = {name: refused() for name in "abc"}
        for _ in range(10):
            with pytest.raises(UpstreamLost, match="No Spark server can be used"):
                await site.home()
        assert len(site.asked) == 3
        site.now += BACK_OFF_SECONDS[0]
        for _ in range(10):
            with pytest.raises(UpstreamLost):
                await site.home()
        assert len(site.asked) == 6
        site.now += BACK_OFF_SECONDS[0]
        with pytest.raises(UpstreamLost):
            await site.home()
        assert len(site.asked) == 6
        site.problems.clear()
        site.now += BACK_OFF_SECONDS[1]
        assert await site.home() == "a"

    story(told)


def test_a_server_is_given_up_for_silence_only_after_a_while() -> None:
    async def told(site: Site) -> None:
        assert await site.home() == "a"
        home = site.named("a")
        for error, seconds in ((TimeoutError(), SILENT_SECONDS), (broken(), BROKEN_SECONDS)):
            for _ in range(2 * FAILED_LOGINS_MIN):
                assert not site.servers.failed(home, error)
            silent = home.health
            site.servers.reached(home, Connected())
            assert (silent, home.health) == (Health.SILENT, Health.UP)
            assert not site.servers.failed(home, error)
            site.now += seconds
            assert not site.servers.failed(home, error)
            assert site.told == []
            assert site.servers.failed(home, error)
            assert site.told == ["a"]
            site.told.clear()
            site.now += BACK_OFF_SECONDS[-1]
            assert await site.home() == "a"

    story(told)


def test_a_server_that_hangs_is_noticed_although_nobody_connects() -> None:
    async def told(site: Site) -> None:
        assert await site.home() == "a"
        site.problems["a"] = UpstreamLost("Spark does not answer.")
        site.problems["a"].__cause__ = TimeoutError()
        for _ in range(FAILED_LOGINS_MIN):
            assert site.servers.at_home is site.named("a")
            await site.servers.check()
            site.now += SILENT_SECONDS / 2
        assert site.servers.at_home is site.named("b")

    story(told)


def test_wrong_settings_of_a_server_stop_the_start_but_not_a_gateway_that_runs() -> None:
    async def told(site: Site) -> None:
        site.problems = {"a": refused(), "b": GuardRefuses("wrong secret"), "c": refused()}
        with pytest.raises(GuardRefuses):
            await site.home()
        del site.problems["c"]
        site.now += BACK_OFF_SECONDS[-1]
        assert await site.home() == "c"
        site.problems["c"] = refused()
        site.servers.failed(site.named("c"), refused())
        site.now += BACK_OFF_SECONDS[-1]
        with pytest.raises(UpstreamLost, match="wrong secret"):
            await site.home()

    story(told)


def test_a_caller_that_leaves_does_not_stop_the_choice_for_others() -> None:
    async def told(site: Site) -> None:
        leaving = asyncio.ensure_future(site.servers.home())
        staying = asyncio.ensure_future(site.servers.home())
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).name == "a"

    story(told)


def test_the_only_server_is_always_the_home_and_never_cut() -> None:
    async def told(site: Site) -> None:
        only = Servers([site.named("a")], site)
        link = Connected()
        only.reached(site.named("a"), link)
        assert not only.failed(site.named("a"), refused())
        assert (await only.home()).name == "a"
        assert not link.is_cut
        assert site.asked == []

    story(told)


def test_clients_are_at_the_home_unless_they_are_shared_out() -> None:
    async def told(site: Site) -> None:
        assert await site.home() == "a"
        await site.servers.check()
        assert await site.clients(6) == ["a"] * 6

    story(told)


def test_clients_are_shared_out_over_equal_servers() -> None:
    async def told(site: Site) -> None:
        site.unlike["c"] = "spark.sql.ansi.enabled is false"
        assert await site.clients(2) == ["a", "a"]
        await site.servers.check()
        # The server with the fewest comes first, and "a" has two.
        kept = [await site.client() for _ in range(4)]
        assert [link.at for link in kept] == ["b", "b", "a", "b"]
        site.unlike.clear()
        await site.servers.check()
        assert await site.clients(3) == ["c"] * 3

    story(told, share=True)


def test_a_server_that_is_no_longer_equal_keeps_no_client() -> None:
    async def told(site: Site) -> None:
        await site.home()
        await site.servers.check()
        links = [await site.client() for _ in range(3)]
        site.unlike["b"] = "its version is 3.5"
        await site.servers.check()
        assert [(link.at, link.is_cut) for link in links] == [("a", False), ("b", True), ("c", False)]
        assert site.told == ["b"]

    story(told, share=True)


def test_after_a_new_home_the_others_are_compared_with_it_first() -> None:
    async def told(site: Site) -> None:
        await site.home()
        await site.servers.check()
        links = [await site.client() for _ in range(3)]
        site.problems["a"] = refused()
        site.servers.failed(site.named("a"), refused())
        assert [link.is_cut for link in links] == [True, False, False]
        assert await site.clients(2) == ["b", "b"]
        await site.servers.check()
        assert (await site.client()).at == "c"
        assert site.named("b").load == 4 - 1

    story(told, share=True)


def test_a_session_is_not_looked_for_at_another_server() -> None:
    async def told(site: Site) -> None:
        await site.home()
        assert site.servers.named("b") is site.named("b")
        site.servers.failed(site.named("b"), refused())
        with pytest.raises(UpstreamLost, match="b is lost, and with it the session"):
            site.servers.named("b")

    story(told, share=True)
