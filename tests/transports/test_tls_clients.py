"""Tests clients over TLS, binary and HTTP, with and without a client certificate."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpype
import pytest
from certificates import PASSWORD, Certificates
from clients import Jdbc, impyla, pyhive, rows
from processes import Engine, Gateway, Setting, environment, wait_until


@pytest.fixture(scope="module")
def served(engine: Engine, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings: dict[str, Setting] = {
        "listen.http_port": 0,
        "tls.certificate": certificates.server,
        "storage.database": "storage_tls",
    }
    log = tmp_path_factory.mktemp("tls") / "gateway.log"
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings=settings)
    yield running
    running.stop()


def read(gateway: Gateway, certificates: Certificates) -> list[tuple[Any, ...]]:
    with impyla(gateway.port, use_ssl=True, ca_cert=str(certificates.ca)) as cursor:
        cursor.execute("SELECT current_user(), 1")
        return list(cursor.fetchall())


def test_impyla_works_over_tls(served: Gateway, certificates: Certificates) -> None:
    assert read(served, certificates) == [("ada", 1)]


def test_pyhive_works_over_tls(served: Gateway, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyHive supports TLS only over HTTP, and does not verify certificates by default."""
    options = {"scheme": "https", "auth": "BASIC", "password": "x"}
    with pyhive("localhost", served.http_port, "ada", **options) as cursor:
        assert rows(cursor, "SELECT current_user()") == [("ada",)]
    checking = {**options, "ssl_cert": "required", "check_hostname": "true"}
    with pytest.raises(ssl.SSLCertVerificationError), pyhive("localhost", served.http_port, "ada", **checking):
        pass
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with pyhive("localhost", served.http_port, "ada", **checking) as cursor:
        assert rows(cursor, "SELECT current_user()") == [("ada",)]


@pytest.mark.parametrize("kind", ["binary", "http"])
def test_jdbc_works_over_tls(served: Gateway, certificates: Certificates, kind: str) -> None:
    address = (served.address if kind == "binary" else served.http_address).replace("/;", "/default;")
    assert address.endswith(";ssl=true")
    url = f"jdbc:hive2://{address};sslTrustStore={certificates.trust_store};trustStorePassword={PASSWORD}"
    with Jdbc(url) as jdbc:
        _, found = jdbc.query("SELECT id, repeat('x', 3000) AS x FROM range(5000) ORDER BY id")
        assert [row[0] for row in found] == list(range(5000))


def status(address: str, certificates: Certificates | None, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs `freshgate status`; without `certificates` it trusts this machine's authorities."""
    url = f"jdbc:hive2://{address.replace('127.0.0.1', 'localhost')}"
    command = [sys.executable, "-m", "gateway", "status", "--json", "--url", url, *options]
    command += ["--ca", str(certificates.ca)] if certificates else []
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=60)


@pytest.mark.parametrize("kind", ["binary", "http"])
def test_freshgate_status_works_over_tls(served: Gateway, certificates: Certificates, kind: str) -> None:
    address = served.address if kind == "binary" else served.http_address
    done = status(address, certificates)
    assert done.returncode == 0, done.stderr
    lists = {"attention", "views", "tasks", "next", "gateways", "reads", "statements", "refresh_costs"}
    others = {"storage_guard", "spark_servers", "limits_reached", "audit_lines_lost", "tables_in_memory"}
    assert json.loads(done.stdout).keys() == lists | others
    refused = status(address, None)
    assert refused.returncode == 1
    assert "certificate" in refused.stderr.lower()


def test_a_client_without_tls_is_not_served(served: Gateway) -> None:
    with socket.create_connection((served.host, served.port), timeout=30) as client:
        client.sendall(b"\x01\x00\x00\x00\x05PLAIN")
        assert client.recv(100)[:1] in (b"", b"\x15"), "the answer is not a TLS alert"


def test_old_tls_is_refused(served: Gateway, certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLS"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((served.host, served.port), timeout=30) as client, pytest.raises(ssl.SSLError):
        context.wrap_socket(client, server_hostname="localhost")


def https_status(gateway: Gateway, certificates: Certificates, *, own: bool) -> int:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    if own:
        context.load_cert_chain(certificates.client)
    connection = http.client.HTTPSConnection("localhost", gateway.http_port, context=context, timeout=30)
    try:
        connection.request("GET", "/cliservice")
        return connection.getresponse().status
    finally:
        connection.close()


def test_client_certificates_may_be_required(start_gateway: Any, certificates: Certificates) -> None:
    gateway: Gateway = start_gateway(
        **{"listen.http_port": 0, "tls.certificate": certificates.server, "tls.client_ca": certificates.ca}
    )
    assert https_status(gateway, certificates, own=True) == 405
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        https_status(gateway, certificates, own=False)
    # Hive JDBC supports client certificates only over HTTP.
    url = f"jdbc:hive2://{gateway.http_address.replace('/;', '/default;')}"
    trusted = f"{url};sslTrustStore={certificates.trust_store};trustStorePassword={PASSWORD}"
    own = f";twoWay=true;sslKeyStore={certificates.client_store};keyStorePassword={PASSWORD}"
    with Jdbc(trusted + own) as jdbc:
        assert jdbc.query("SELECT 1 AS a")[1] == [(1,)]
    with pytest.raises(jpype.JClass("java.sql.SQLException")), Jdbc(trusted):
        pass
    for place in (gateway.address, gateway.http_address):
        done = status(place, certificates, "--cert", str(certificates.client))
        assert done.returncode == 0, done.stderr
        refused = status(place, certificates)
        assert refused.returncode == 1
        # The server may close the connection before it sends a reason.
        assert "Cannot reach a gateway" in refused.stderr


def test_a_renewed_certificate_is_used(start_gateway: Any, certificates: Certificates, tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    certificates.issue(own, "localhost")
    gateway: Gateway = start_gateway(**{"tls.certificate": own})

    def shown() -> bytes:
        context = ssl.create_default_context(cafile=str(certificates.ca))
        with (
            socket.create_connection((gateway.host, gateway.port), timeout=30) as client,
            context.wrap_socket(client, server_hostname="localhost") as secured,
        ):
            return secured.getpeercert(binary_form=True) or b""

    before = shown()
    own.write_text("half a file")
    certificates.issue(own, "localhost")
    wait_until(lambda: shown() != before, what="the new certificate")


def test_tls_may_be_enabled_for_one_port(start_gateway: Any, certificates: Certificates) -> None:
    gateway: Gateway = start_gateway(
        **{"listen.http_port": 0, "tls.certificate": certificates.server, "tls.ports": "binary"}
    )
    connection = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=30)
    connection.request("GET", "/")
    assert connection.getresponse().status == 405
    connection.close()
    assert read(gateway, certificates) == [("ada", 1)]


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_unusable_certificate_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "server.pem"
    if content is not None:
        path.write_text(content)
    command = [sys.executable, "-m", "gateway", "serve", "--port", "0", "--upstream", "127.0.0.1:1"]
    command += ["--set", f"tls.certificate={path}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=60)
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr
