"""The LDAP server for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slapd import Slapd


@pytest.fixture(scope="session")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    running = Slapd(tmp_path_factory.mktemp("slapd"))
    yield running
    running.stop()
