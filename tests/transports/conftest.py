"""A Spark that is reached in every way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from certificates import Certificates
from processes import ThriftServers


@pytest.fixture(scope="session")
def thrift_servers(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThriftServers]:
    running = ThriftServers(tmp_path_factory.mktemp("thrift_servers"), certificates.key_store)
    yield running
    running.stop()
