"""Tests clients behind nginx, with the configuration in docs/reference/transports.md, and with nginx' defaults."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from certificates import PASSWORD, Certificates
from clients import Jdbc
from http_caller import Caller
from passwords import PASSWORDS, checking_gateway
from processes import Engine, Gateway, wait_until
from recorder import Recorder

DOCUMENTED = Path(__file__).parents[2] / "docs" / "reference" / "transports.md"
AROUND = """
daemon off; worker_processes 1; user {user}; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    {upstream}
    server {{
        listen 127.0.0.1:{port} {tls};
        {location}
    }}
}}
"""
BY_ITSELF = """
location / {{
    proxy_pass http://127.0.0.1:{port};
    proxy_http_version {version};
    proxy_buffering {buffering};
}}
"""


@pytest.fixture(scope="module")
def served(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway at which Ada and Eve may log in."""
    with checking_gateway(engine, tmp_path_factory.mktemp("nginx"), "storage_nginx") as running:
        yield running


@contextmanager
def nginx(folder: Path, location: str, upstream: str = "", tls: str = "") -> Iterator[int]:
    """Runs nginx and yields its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    conf = folder / "nginx.conf"
    user = getpass.getuser()  # Started by root, nginx would run its workers as nobody, who cannot write to the folder.
    conf.write_text(AROUND.format(folder=folder, user=user, port=port, location=location, upstream=upstream, tls=tls))
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")
    assert program is not None
    with open(folder / "output", "w", encoding="utf-8") as output:
        running = subprocess.Popen([program, "-c", str(conf), "-e", str(folder / "error.log")], stderr=output)
    try:
        wait_until(lambda: _accepts(port), what="nginx")
        yield port
    finally:
        running.terminate()
        running.wait(20)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def url(port: int, options: str = "") -> str:
    return f"jdbc:hive2://127.0.0.1:{port}/default;transportMode=http;httpPath=cliservice{options}"


def documented(port: int) -> tuple[str, str]:
    """The blocks `upstream` and `location` of the documentation, for a gateway at this port."""
    (block,) = re.findall(r"```nginx\n(.*?)```", DOCUMENTED.read_text(encoding="utf-8"), re.DOTALL)
    assert "127.0.0.1:10001" in block
    upstream, _, location = block.replace("127.0.0.1:10001", f"127.0.0.1:{port}").partition("\n\n")
    return upstream, location


@pytest.mark.parametrize(("version", "buffering"), [("1.0", "on"), ("1.1", "off")])
def test_nginx_works_with_its_defaults(served: Gateway, tmp_path: Path, version: str, buffering: str) -> None:
    """Unless it is told otherwise, nginx uses HTTP 1.0 to a server, which has no chunked encoding."""
    location = BY_ITSELF.format(port=served.http_port, version=version, buffering=buffering)
    with nginx(tmp_path, location) as port, Jdbc(url(port), "ada", PASSWORDS["ada"]) as jdbc:
        names, found = jdbc.query("SELECT id, repeat('x', 3000) AS x FROM range(3000) ORDER BY id")
        assert [row[0] for row in found] == list(range(3000))
        assert names == ["id", "x"]


def test_two_users_share_the_connections_of_nginx(served: Gateway, certificates: Certificates, tmp_path: Path) -> None:
    """nginx terminates TLS. The test creates, reads, refreshes and drops a view."""
    recorder = Recorder(served.host, served.http_port)
    upstream, location = documented(recorder.port)
    tls = f"ssl; ssl_certificate {certificates.server}; ssl_certificate_key {certificates.server}"
    secure = f";ssl=true;sslTrustStore={certificates.trust_store};trustStorePassword={PASSWORD}"
    try:
        with (
            nginx(tmp_path, location, upstream, tls) as port,
            Jdbc(url(port, secure), "ada", PASSWORDS["ada"]) as ada,
            Jdbc(url(port, secure), "eve", PASSWORDS["eve"]) as eve,
        ):
            for client, user in ((ada, "ada"), (eve, "eve")) * 5:
                assert client.query("SELECT current_user()")[1] == [(user,)]
            assert len(recorder.recordings) < 4
            long = "x" * 2_000_000
            for client in (ada, eve):
                assert client.query(f"SELECT length('{long}')")[1] == [(len(long),)]
            ada.execute("CREATE TABLE nginx_sales (day INT, amount INT) USING parquet")
            totals = "SELECT day, sum(amount) AS total FROM nginx_sales GROUP BY day"
            ada.execute(f"CREATE MATERIALIZED VIEW nginx_totals AS {totals}")
            for amount in (1, 2):
                ada.execute(f"INSERT INTO nginx_sales VALUES (7, {amount})")
                assert eve.query("SELECT * FROM nginx_totals")[1] == [(7, amount * (amount + 1) // 2)]
            with ThreadPoolExecutor(2) as pool:
                found = list(pool.map(_count, (ada, eve)))
            assert found == [2000, 2000]
            with pytest.raises(Exception, match="nginx_totals"):
                eve.execute("DROP MATERIALIZED VIEW nginx_totals")
            ada.execute("DROP MATERIALIZED VIEW nginx_totals")
            ada.execute("DROP TABLE nginx_sales")
        sent = b"".join(bytes(recording.sent) for recording in recorder.recordings)
        # Only the first request of each user has the password; the others have the cookie.
        assert sent.count(b"Authorization: Basic") == 2
        assert sent.count(b"hive.server2.auth=") == sent.count(b"POST /cliservice") - 2 > 50
    finally:
        recorder.close()


def test_the_audit_names_the_client_and_not_nginx(engine: Engine, tmp_path: Path) -> None:
    """The gateway trusts nginx (listen.trusted_proxies), as documented."""
    audit = tmp_path / "audit"
    settings = {"listen.trusted_proxies": "127.0.0.1", "log.audit": str(audit)}
    with checking_gateway(engine, tmp_path, "storage_nginx_audit", **settings) as gateway:
        upstream, location = documented(gateway.http_port)
        with nginx(tmp_path, location, upstream) as port:
            for address in ("127.0.0.2", "127.0.0.3"):
                caller = Caller(port, "ada", password=PASSWORDS["ada"], source=address)
                assert caller.select(caller.open_session(), "SELECT current_user()") == ["ada"]
                caller.close()
    lines = [json.loads(line) for line in audit.read_text(encoding="utf-8").splitlines()]
    clients = [line["client"] for line in lines if line["event"] == "statement"]
    assert clients == ["127.0.0.2", "127.0.0.3"]


def _count(client: Jdbc) -> int:
    return len(client.query("SELECT id, repeat('y', 500) FROM range(2000)")[1])
