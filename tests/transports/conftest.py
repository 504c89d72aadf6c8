"""A Spark with a Thrift server for every transport."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from certificates import Certificates
from processes import ThriftServers
from slapd import PEOPLE, Slapd


@pytest.fixture(scope="session")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    running = Slapd(tmp_path_factory.mktemp("slapd"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def thrift_servers(
    spark_server: None, certificates: Certificates, slapd: Slapd, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThriftServers]:
    directory = tmp_path_factory.mktemp("thrift_servers")
    running = ThriftServers(directory, certificates.key_store, (slapd.url, f"uid=%s,{PEOPLE}"))
    yield running
    running.stop()
