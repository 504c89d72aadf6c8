"""Fixtures of dbt-tests-adapter for a running gateway, which FRESHGATE_HOST and FRESHGATE_PORT name.

The profile's schema is chosen by dbt's own fixtures, one for each class of tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

pytest_plugins = ["dbt.tests.fixtures.project"]


@pytest.fixture(scope="session")
def gateway() -> dict[str, Any]:
    """Host and port of the gateway, as a profile has them."""
    return {"host": os.environ["FRESHGATE_HOST"], "port": int(os.environ["FRESHGATE_PORT"])}


@pytest.fixture(scope="class")
def dbt_profile_target(gateway: dict[str, Any]) -> dict[str, Any]:
    return {"type": "freshgate", "method": "thrift", "user": "tester", "threads": 1, **gateway}


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """dbt's own fixture would write into this folder."""
    place = str(tmp_path_factory.mktemp("logs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_LOG_PATH", place)
        yield place
