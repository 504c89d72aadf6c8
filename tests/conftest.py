"""Fixtures that cost seconds, shared by the whole run: one Spark, and one gateway in front of it; `async def` tests."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import processes
import pytest
from certificates import Certificates, make_certificates
from hypothesis import HealthCheck, settings
from jvm import FOR_TESTS, OF_JAVA
from processes import Engine, Gateway

os.environ.setdefault(OF_JAVA, FOR_TESTS)

# How long an example takes says how busy the machine is.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

ASYNC_SECONDS = 20
"""For an `async def` test, which works with no Spark."""
StartGateway = Callable[..., Gateway]
_storages = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what starts a Spark, so that `scripts/test --quick` leaves it out."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark_server" in item.fixturenames:
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An `async def` test runs within a deadline, on the loop of the fixture `loop_factory` where it has one."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def within_deadline() -> None:
        async with asyncio.timeout(ASYNC_SECONDS):
            await pyfuncitem.obj(**arguments)

    with asyncio.Runner(loop_factory=pyfuncitem.funcargs.get("loop_factory")) as runner:
        runner.run(within_deadline())
    return True


@pytest.fixture(scope="session")
def spark_server() -> None:
    """Whatever starts a Spark asks for this: without it no server of Spark's starts."""
    processes.allow_spark()


@pytest.fixture(scope="session")
def engine(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A real embedded engine. All tests share its metastore: make names of your own, and drop them."""
    running = Engine(tmp_path_factory.mktemp("engine"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def gateway(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway before the shared engine, for tests that do not change or stop it."""
    log = tmp_path_factory.mktemp("gateway") / "gateway.log"
    locations = {"storage.locations": tmp_path_factory.getbasetemp()}
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", **locations)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def start_gateway(engine: Engine, tmp_path: Path) -> Iterator[StartGateway]:
    """Starts further gateways before the shared engine: `start_gateway(**{"limits.connections": 2})`.

    Those of one test share a storage database that is not the shared gateway's: of two gateways on one, the one that
    was started first changes nothing any more.
    """
    started: list[Gateway] = []
    storage = f"storage_{next(_storages)}"

    def start(**settings: object) -> Gateway:
        log = tmp_path / f"gateway-{len(started)}.log"
        settings = {"storage.database": storage, **settings}
        started.append(Gateway(log, upstream=f"{engine.host}:{engine.port}", **settings))
        return started[-1]

    yield start
    for running in started:
        running.stop()
