"""Runs the test suite of dbt-freshgate, the adapter of dbt (conf/dbt-freshgate), against gateways of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import Certificates
from installation import build_wheel
from jars import ROOT
from passwords import PASSWORDS, checking_gateway
from processes import Engine, Gateway
from tiers import sampled

ADAPTER = ROOT / "conf" / "dbt-freshgate"
PYTHON = Path(os.environ.get("FRESHGATE_DBT_PYTHON") or ROOT / ".cache" / "dbt" / "bin" / "python")
"""The Python of an environment with dbt and dbt-tests-adapter."""
SECONDS = 1200.0
QUIET = ("-p", "no:cacheprovider", "-p", "no:logging")
"""dbt logs every statement; its output to the terminal says enough."""
MODULES = sorted(path.name for path in (ADAPTER / "tests").glob("test_*.py"))
SERVERS = {"test_delta.py": "served_lake", "test_secure.py": "served_securely"}
"""The fixtures of modules that need a gateway of their own."""
SUFFIXES = {".py", ".sql", ".yml"}
IN_SUITE = "sample"
"""Instead of a module: the tests with this mark, of all modules."""


@pytest.fixture(scope="module")
def served(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A gateway over both transports, as the variables of the adapter's tests."""
    with serving(engine, tmp_path_factory.mktemp("dbt")) as running:
        yield running


@pytest.fixture(scope="module")
def served_lake(lake_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The same in front of a Spark with Delta Lake."""
    with serving(lake_engine, tmp_path_factory.mktemp("dbt")) as running:
        yield running


@pytest.fixture(scope="module")
def served_securely(
    engine: Engine, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A gateway with TLS that checks passwords."""
    user, password = next(iter(PASSWORDS.items()))
    login = {"FRESHGATE_USER": user, "FRESHGATE_PASSWORD": password, "FRESHGATE_CA": str(certificates.ca)}
    settings: dict[str, Any] = {"tls.certificate": certificates.server}
    with checking_gateway(engine, tmp_path_factory.mktemp("dbt"), "dbt_secure_storage", **settings) as gateway:
        yield {**login, **variables(engine, gateway)}


@contextmanager
def serving(engine: Engine, home: Path) -> Iterator[dict[str, str]]:
    locations = home / "locations"
    settings: dict[str, Any] = {"storage.database": "dbt_storage", "storage.locations": locations}
    settings["listen.http_port"] = 0
    gateway = Gateway(home / "gateway.log", upstream=f"{engine.host}:{engine.port}", settings=settings)
    try:
        yield {**variables(engine, gateway), "FRESHGATE_LOCATIONS": str(locations)}
    finally:
        gateway.stop()


def variables(engine: Engine, gateway: Gateway) -> dict[str, str]:
    return {
        "FRESHGATE_HOST": gateway.host,
        "FRESHGATE_PORT": str(gateway.port),
        "FRESHGATE_HTTP_PORT": str(gateway.http_port),
        "FRESHGATE_UPSTREAM_PORT": str(engine.port),
    }


def adapter_tests(served: dict[str, str], place: Path, *arguments: str) -> int:
    """Runs tests of the adapter, of which none may fail, be skipped or be missing. Returns how many passed."""
    done = subprocess.run(
        [str(PYTHON), "-m", "pytest", "-q", *QUIET, f"--basetemp={place / 'base'}", *arguments],
        cwd=ADAPTER,
        env={
            # Options for this run of pytest are not for that one, whose last line is read.
            **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
            **served,
            "PYTHONPATH": str(ADAPTER),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    last = done.stdout.strip().rpartition("\n")[2]
    passed = re.fullmatch(r"(\d+) passed(, \d+ deselected)?(, \d+ warnings?)? in .*", last)
    assert passed is not None, last
    return int(passed[1])


@pytest.mark.parametrize("module", sampled([IN_SUITE, *MODULES], {IN_SUITE}))
def test_the_adapter_passes_its_suite(
    request: pytest.FixtureRequest, engine: Engine, tmp_path: Path, module: str
) -> None:
    served: dict[str, str] = request.getfixturevalue(SERVERS.get(module, "served"))
    tests = ["tests", "-m", IN_SUITE] if module == IN_SUITE else [f"tests/{module}"]
    assert adapter_tests(served, tmp_path, *tests) > 0


def test_the_wheel_adds_only_the_adapter_to_dbt(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ADAPTER, source, ignore=shutil.ignore_patterns("tests"))
    with zipfile.ZipFile(build_wheel(source, tmp_path / "wheel")) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = {path.relative_to(ADAPTER).as_posix() for path in (ADAPTER / "dbt").rglob("*") if path.suffix in SUFFIXES}
    assert files == wanted
    assert all(name.startswith(("dbt/adapters/freshgate/", "dbt/include/freshgate/")) for name in files)
