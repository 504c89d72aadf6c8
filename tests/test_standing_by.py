"""Tests what a gateway does that another one has superseded: it waits, and serves again when the other has gone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway import server, settings_file
from gateway.config import Address
from gateway.errors import FreshgateError, UpstreamLost
from gateway.mv.catalog.presence import PresenceMark, Process, Vigil
from gateway.spark.engine import ExternalEngine

OTHER = PresenceMark("other", "host b, port 1", Process("0" * 16, 1, 1), "1", leaving=False, ended=False)


class Views(list[SimpleNamespace]):
    """A catalog."""

    def views(self) -> list[SimpleNamespace]:
        return self


class Stage:
    """A server of which every part that reaches Spark is replaced. `done` lists what was done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "TAKING_OVER_SECONDS", 0)
        self.done: list[str] = []
        self.lost: str | None = "Another gateway"
        self.found: PresenceMark | None = OTHER
        self.kept = True
        self.problem: FreshgateError | None = None
        self.server = server.Server(settings_file.load(None, []), ExternalEngine([Address("127.0.0.1", 1)]))
        view = SimpleNamespace(id="v", storage=None, definition=None)
        parts = cast(Any, self.server)
        parts._views = SimpleNamespace(
            fence=self, loading=self, catalog=Views([view]), inspector=SimpleNamespace(seed=lambda: None)
        )
        parts._refreshes = SimpleNamespace(tasks=self)
        parts._versions = SimpleNamespace(janitor=SimpleNamespace(retire=lambda *_, **__: None))

    def vigil(self) -> Vigil:
        return Vigil(Process.own())

    async def other(self) -> PresenceMark | None:
        return self.found

    async def take(self) -> None:
        self.done.append("take")

    async def holds(self) -> bool:
        return self.kept

    async def stop(self, view_id: str) -> None:
        self.done.append(f"stop {view_id}")

    async def reload(self) -> list[Any]:
        if self.problem is not None:
            raise self.problem
        self.done.append("reload")
        return []

    def regain(self) -> None:
        self.done.append("regain")
        self.lost = None

    async def turns(self, count: int = 1) -> list[str]:
        """What was done in so many looks at the other gateway's mark."""
        self.done.clear()
        for _ in range(count):
            await self.server._stand_by()
        return self.done


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_the_catalog_is_read_before_it_may_write_again(stage: Stage) -> None:
    async def story() -> None:
        assert await stage.turns(3) == []
        stage.found = None
        assert await stage.turns() == ["take", "stop v", "reload", "regain"]
        assert stage.lost is None

    asyncio.run(story())


def test_of_two_that_stand_by_one_serves(stage: Stage) -> None:
    async def story() -> None:
        stage.found, stage.kept = None, False
        assert await stage.turns() == ["take"]
        # The other one of the two is watched from now on.
        stage.found = OTHER
        assert await stage.turns() == []
        assert stage.lost is not None

    asyncio.run(story())


def test_a_catalog_that_cannot_be_read_is_read_later(stage: Stage) -> None:
    async def story() -> None:
        stage.found, stage.problem = None, UpstreamLost("Spark is away")
        with pytest.raises(UpstreamLost):
            await stage.turns()
        assert stage.lost is not None
        stage.problem = None
        assert (await stage.turns())[-2:] == ["reload", "regain"]

    asyncio.run(story())
