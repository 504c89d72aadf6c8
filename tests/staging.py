"""Tests that are coroutines, each with a stage of its own: a house, and what a module adds to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from warehouse import House


class HasHouse(Protocol):
    house: House


Stage = TypeVar("Stage", bound=HasHouse)


def staged_by(
    make: Callable[[], Stage], prepare: Callable[[Stage], Awaitable[object]]
) -> Callable[[Callable[[Stage], Awaitable[None]]], Callable[[], None]]:
    """Returns a decorator: the test is run on a new stage that has been prepared, and what it has begun is ended."""

    def staged(work: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
        async def run() -> None:
            stage = make()
            await prepare(stage)
            await work(stage)
            await stage.house.refreshes.tasks.stop_all()

        def test() -> None:
            asyncio.run(run())

        test.__name__ = work.__name__
        return test

    return staged
