"""Runs `async def` tests, each once on asyncio's own loop and once on uvloop, with a deadline."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest
import uvloop

DEADLINE_SECONDS = 20

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"], autouse=True)
def loop_factory(request: pytest.FixtureRequest) -> LoopFactory:
    factory: LoopFactory = request.param
    return factory


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def within_deadline() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await pyfuncitem.obj(**arguments)

    with asyncio.Runner(loop_factory=pyfuncitem.funcargs["loop_factory"]) as runner:
        runner.run(within_deadline())
    return True
