"""Tests the drivers that find the gateway in ZooKeeper: their URL has only its servers and a namespace."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jpype
import pytest
from certificates import PASSWORD, Certificates
from clients import BEELINE_SECONDS, SPARK_HOME
from drivers.contents import USER
from drivers.hive_jdbc import OF_SUITE, VERSIONS, connected, texts
from drivers.test_beelines import BEELINES
from processes import Engine, Gateway, Setting, wait_until
from tiers import sampled
from zookeeper_server import ZooKeeperServer

SETTINGS: dict[str, Setting] = {"listen.http_port": 0, "discovery.namespace": "bi/gateways", "log.level": "DEBUG"}
NAMESPACES = {"binary": "bi/gateways", "http": "bi/gateways_http"}


@dataclass
class Found:
    """A gateway that is registered in a ZooKeeper."""

    gateway: Gateway
    zookeeper: ZooKeeperServer

    def url(self, transport: str) -> str:
        mode = f"serviceDiscoveryMode=zooKeeper;zooKeeperNamespace={NAMESPACES[transport]}"
        return f"jdbc:hive2://{self.zookeeper.address}/default;{mode}"


@pytest.fixture(scope="module")
def found(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("zookeeper")
    zookeeper = ZooKeeperServer(folder)
    log = folder / "gateway.log"
    settings: dict[str, Setting] = {**SETTINGS, "discovery.zookeeper": zookeeper.address}
    gateway = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings=settings)
    try:
        wait_until(lambda: log.read_text(encoding="utf-8").count("registered in ZooKeeper as") == 2)
        yield Found(gateway, zookeeper)
    finally:
        gateway.stop()
        zookeeper.stop()


@pytest.mark.parametrize("version", sampled(VERSIONS, OF_SUITE))
def test_hive_jdbc_finds_the_gateway(found: Found, version: str) -> None:
    for transport in NAMESPACES:
        url = found.url(transport)
        with connected(version, url) as connection, connection.createStatement() as statement:
            # The gateway's own statement: Spark would not know it.
            result = statement.executeQuery("SHOW MATERIALIZED VIEWS IN default")
            assert texts(result) == []


@pytest.mark.thorough
@pytest.mark.parametrize("version", BEELINES)
def test_beeline_finds_the_gateway(found: Found, version: str) -> None:
    for transport in NAMESPACES:
        command = [*BEELINES[version](), "-u", found.url(transport), "-n", USER, "--outputformat=tsv2"]
        done = subprocess.run(
            [*command, "-e", "SHOW MATERIALIZED VIEWS IN default", "-e", "SELECT 'there' AS it"],
            capture_output=True,
            text=True,
            timeout=BEELINE_SECONDS,
            check=False,
            env={**os.environ, "SPARK_HOME": str(SPARK_HOME)},
        )
        assert done.returncode == 0, done.stderr
        assert "it\nthere" in done.stdout.replace("\r", "")


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
def test_hive_jdbc_reads_there_whether_to_use_tls_and_sasl(
    found: Found, engine: Engine, certificates: Certificates, tmp_path: Path, version: str
) -> None:
    trust = f";sslTrustStore={certificates.trust_store};trustStorePassword={PASSWORD}"
    kinds: dict[str, dict[str, Setting]] = {
        "tls": {"tls.certificate": certificates.server},
        "nosasl": {"listen.transports": "nosasl"},
    }
    for namespace, settings in kinds.items():
        place = {"discovery.zookeeper": found.zookeeper.address, "discovery.namespace": namespace}
        log = tmp_path / f"{namespace}.log"
        given: dict[str, Setting] = {**place, "discovery.address": "localhost", **settings}
        gateway = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings=given)
        try:
            wait_until(partial(_is_registered, log))
            mode = f"serviceDiscoveryMode=zooKeeper;zooKeeperNamespace={namespace}"
            url = f"jdbc:hive2://{found.zookeeper.address}/default;{mode}{trust if namespace == 'tls' else ''}"
            with connected(version, url) as connection, connection.createStatement() as statement:
                assert texts(statement.executeQuery("SHOW MATERIALIZED VIEWS IN default")) == []
        finally:
            gateway.stop()


def _is_registered(log: Path) -> bool:
    return "registered in ZooKeeper as" in log.read_text(encoding="utf-8")


def test_a_gateway_that_was_stopped_is_not_found(found: Found, engine: Engine) -> None:
    """Its node is deleted, as by an operator: it stops, deletes its other node, and ends."""
    with found.zookeeper.client() as operator:
        for namespace in NAMESPACES.values():
            (node,) = operator.get_children(f"/{namespace}")
            if namespace == NAMESPACES["binary"]:
                operator.delete(f"/{namespace}/{node}")
        assert found.gateway.program.process.wait(60) == 0
        wait_until(lambda: not any(operator.get_children(f"/{each}") for each in NAMESPACES.values()))
    with pytest.raises(jpype.java.sql.SQLException), connected("4.0.1", found.url("binary")):
        raise AssertionError("a gateway was found")
