"""Support for `async def` tests, and the fixtures that the whole run shares: one Spark, one gateway in front of it."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import processes
import pytest
import schedule
from certificates import Certificates, make_certificates
from hypothesis import HealthCheck, settings
from jvm import FOR_TESTS, OF_JAVA
from lake import lake_archives, lake_settings
from processes import STORAGE, Engine, Gateway, Setting
from spark_releases import CHOSEN, ReleaseServer, chosen_home

os.environ.setdefault(OF_JAVA, FOR_TESTS)

# The duration of an example mostly depends on the load of the machine.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

ASYNC_SECONDS = 60
"""The deadline of an `async def` test; these use no Spark. It is long, because only a test that hangs should reach it:
the others have the processors as well."""
StartGateway = Callable[..., Gateway]
_storages = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that start a Spark, so that `scripts/test --quick` skips them, and sorts the modules."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark_server" in item.fixturenames:
            item.add_marker(pytest.mark.spark)
    items.sort(key=schedule.order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> schedule.Scheduling | None:
    return schedule.Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an `async def` test with a deadline, on a loop of the fixture `loop_factory` if the test has it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def within_deadline() -> None:
        async with asyncio.timeout(ASYNC_SECONDS):
            await pyfuncitem.obj(**arguments)

    loop_factory: Any = pyfuncitem.funcargs.get("loop_factory")
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(within_deadline())
    return True


@pytest.fixture(scope="session")
def spark_server() -> None:
    """Allows the test to start a Spark. Without this fixture, starting one fails."""
    processes.allow_spark()


@pytest.fixture(scope="session")
def engine(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine | ReleaseServer]:
    """A real embedded engine, or the Thrift server of the chosen release. All tests share its metastore, so each uses
    its own names and drops them."""
    home, directory = chosen_home(), tmp_path_factory.mktemp("engine")
    running = Engine(directory) if home is None else ReleaseServer(home, directory)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def lake_engine(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine | ReleaseServer]:
    """A Spark with Delta Lake and Iceberg that obeys the modes of files. It is shared as `engine` is."""
    home = tmp_path_factory.mktemp("lake")
    settings = {
        **lake_settings(home / "lake"),
        "spark.sql.shuffle.partitions": "1",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
    }
    chosen = chosen_home()
    running: Engine | ReleaseServer
    if chosen is None:
        running = Engine(home / "data", obeys_modes=True, archives=lake_archives(), spark=settings)
    else:
        running = ReleaseServer(chosen, home / "data", lake_archives(os.environ[CHOSEN]), spark=settings)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def gateway(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway in front of the shared engine, for tests that do not change or stop it."""
    log = tmp_path_factory.mktemp("gateway") / "gateway.log"
    settings: dict[str, Any] = {"storage.database": STORAGE, "storage.locations": tmp_path_factory.getbasetemp()}
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings=settings)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def start_gateway(engine: Engine, tmp_path: Path) -> Iterator[StartGateway]:
    """Starts further gateways in front of the shared engine: `start_gateway(**{"limits.connections": 2})`.

    The gateways of one test have a storage database of their own, because of several gateways on one storage database,
    only the one started last may change views.
    """
    started: list[Gateway] = []
    storage = f"storage_{next(_storages)}"

    def start(
        *, constants: Mapping[str, object] | None = None, take_over: bool = False, **settings: Setting
    ) -> Gateway:
        log = tmp_path / f"gateway-{len(started)}.log"
        settings = {"storage.database": storage, **settings}
        upstream = f"{engine.host}:{engine.port}"
        started.append(Gateway(log, upstream=upstream, constants=constants, take_over=take_over, settings=settings))
        return started[-1]

    yield start
    for running in started:
        running.stop()
