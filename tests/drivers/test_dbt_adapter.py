"""Runs the test suite of dbt-freshgate, the adapter of dbt (conf/dbt-freshgate), against gateways of this checkout."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jars import ROOT
from processes import Engine, Gateway
from tiers import sampled

ADAPTER = ROOT / "conf" / "dbt-freshgate"
PYTHON = Path(os.environ.get("FRESHGATE_DBT_PYTHON") or ROOT / ".cache" / "dbt" / "bin" / "python")
"""The Python of an environment with dbt and dbt-tests-adapter."""
SECONDS = 1200.0
MODULES = sorted(path.name for path in (ADAPTER / "tests").glob("test_*.py"))
IN_SUITE = "sample"
"""Instead of a module: the tests with this mark, of all modules."""


@pytest.fixture(scope="module")
def served(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A gateway over both transports, as the variables of the adapter's tests."""
    yield from variables(engine, tmp_path_factory.mktemp("dbt"), "dbt_storage")


@pytest.fixture(scope="module")
def served_lake(lake_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The same in front of a Spark with Delta Lake."""
    yield from variables(lake_engine, tmp_path_factory.mktemp("dbt"), "dbt_storage")


def variables(engine: Engine, home: Path, storage: str) -> Iterator[dict[str, str]]:
    settings: dict[str, Any] = {"storage.database": storage, "listen.http_port": 0}
    gateway = Gateway(home / "gateway.log", upstream=f"{engine.host}:{engine.port}", **settings)
    yield {
        "FRESHGATE_HOST": gateway.host,
        "FRESHGATE_PORT": str(gateway.port),
        "FRESHGATE_HTTP_PORT": str(gateway.http_port),
        "FRESHGATE_UPSTREAM_PORT": str(engine.port),
    }
    gateway.stop()


def adapter_tests(served: dict[str, str], place: Path, *arguments: str) -> int:
    """Runs tests of the adapter, of which none may fail, be skipped or be missing. Returns how many passed."""
    done = subprocess.run(
        [str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={place / 'base'}", *arguments],
        cwd=ADAPTER,
        env={
            **os.environ,
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
    request: pytest.FixtureRequest, served: dict[str, str], tmp_path: Path, module: str
) -> None:
    if module == IN_SUITE:
        assert adapter_tests(served, tmp_path, "tests", "-m", IN_SUITE) > 0
        return
    lake = request.getfixturevalue("served_lake") if module == "test_delta.py" else served
    assert adapter_tests(lake, tmp_path, f"tests/{module}") > 0
