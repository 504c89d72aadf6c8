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
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True


class Site:
    """Servers a, b and c."""

    def __init__(self) -> None:
        self.now = 100.0
        self.problems: dict[str, FreshgateError] = {}
        """What is wrong with a server; the others pass."""
        self.asked: list[tuple[str, bool]] = []
        self.told: list[str] = []
        self.servers = Servers([self._server(name) for name in "abc"], self, clock=lambda: self.now)
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

    async def log_in(self, server: KnownServer) -> None:
        await self.as_home(server, moved=False)

    async def home(self) -> str:
        return (await self.servers.home()).name

    def named(self, name: str) -> KnownServer:
        return next(server for server in self.servers.all if server.name == name)


def story(told: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        site = Site()
        await told(site)
        await site.servers.loop.stop()

    asyncio.run(run())


def test_the_first_one_that_passes_is_the_home_until_it_is_lost() -> None:
    async def told(site: Site) -> None:
        site.problems["a"] = refused()
        assert await asyncio.gather(*(site.home() for _ in range(5))) == ["b"] * 5
        assert site.asked == [("a", False), ("b", False)]
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
            assert home.health is Health.SILENT
            site.servers.reached(home, Connected())
            assert home.health is Health.UP
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
