"""Tests drivers with a login that is checked, over HTTP, TLS and HTTPS."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import impala.dbapi
import jpype
import pytest
import sqlalchemy as sa
from certificates import PASSWORD, Certificates
from clients import impyla, pyhive, rows
from drivers.contents import lives
from drivers.hive_jdbc import OF_SUITE, VERSIONS, connected, texts
from drivers.test_beelines import BEELINES
from drivers.test_node_driver import run_script
from forks import completed
from issuers import Issuer
from passwords import PASSWORDS, checking_gateway
from processes import ROOT, Engine, Gateway, environment
from tiers import sampled

WAYS = ("HTTP", "TLS", "HTTPS")
LIVES = dict(zip(VERSIONS, ("TLS", "HTTP", "HTTPS"), strict=True))
"""The transport with which each version runs the life cycle of a view, which takes some seconds."""
REFUSED = "cannot log in: the user name or password is wrong|HTTP Response code: 401"
"""The errors of a refused login. Hive JDBC 2.3 and 3.1 show only the status of an HTTP response."""


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def plain(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with checking_gateway(engine, tmp_path_factory.mktemp("plain"), "storage_plain") as running:
        yield running


@pytest.fixture(scope="module")
def secure(
    engine: Engine, certificates: Certificates, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """It accepts tokens, too."""
    folder, tls = tmp_path_factory.mktemp("secure"), {"tls.certificate": certificates.server}
    tokens = {**issuer.settings, "authentication.hand_on": "proxy_user"}
    with checking_gateway(engine, folder, "storage_secure", **tls, **tokens) as running:
        yield running


@pytest.fixture(params=sampled(WAYS, {"HTTPS"}))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=sampled(VERSIONS, OF_SUITE))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(way: str, plain: Gateway, secure: Gateway, certificates: Certificates) -> str:
    gate = plain if way == "HTTP" else secure
    port = gate.port if way == "TLS" else gate.http_port
    http = "" if way == "TLS" else ";transportMode=http;httpPath=cliservice"
    trust = f";ssl=true;sslTrustStore={certificates.trust_store};trustStorePassword={PASSWORD}"
    return f"jdbc:hive2://127.0.0.1:{port}/default{http}{'' if way == 'HTTP' else trust}"


def test_hive_jdbc_logs_in_over_each_transport(url: str, way: str, version: str) -> None:
    with (
        pytest.raises(jpype.JException, match=REFUSED),
        connected(version, url, "ada", password="wrong"),
    ):
        pass
    with connected(version, url, "ada", password=PASSWORDS["ada"]) as connection:
        statement = connection.createStatement()

        def run(sql: str) -> list[tuple[str | None, ...]]:
            return texts(statement.getResultSet()) if statement.execute(sql) else []

        assert run("SELECT current_user()") == [("ada",)]
        assert [len(row[0] or "") for row in run("SELECT repeat('x', 5000) FROM range(3000)")] == [5000] * 3000
        if LIVES[version] == way:
            database = f"deployed_{way}_{version.replace('.', '_')}".lower()
            run(f"CREATE DATABASE {database}")
            lives(run, database)
            run(f"DROP DATABASE {database} CASCADE")


@contextlib.contextmanager
def of_impyla(gateway: Gateway, way: str, password: str) -> Iterator[Any]:
    http = {"use_http_transport": True, "http_path": "cliservice"} if way == "HTTP" else {}
    login = {"auth_mechanism": "LDAP", "user": "ada", "password": password}
    port = gateway.http_port if way == "HTTP" else gateway.port
    with contextlib.closing(impala.dbapi.connect(gateway.host, port, **login, **http)) as connection:
        cursor = connection.cursor()
        yield cursor
        cursor.close()


def of_pyhive(gateway: Gateway, way: str, password: str) -> contextlib.AbstractContextManager[Any]:
    if way == "HTTP":
        return pyhive(gateway.host, gateway.http_port, "ada", scheme="http", auth="BASIC", password=password)
    return pyhive(gateway.host, gateway.port, "ada", auth="LDAP", password=password)


@contextlib.contextmanager
def of_sqlalchemy(gateway: Gateway, way: str, password: str) -> Iterator[Any]:
    port = gateway.http_port if way == "HTTP" else gateway.port
    url = sa.URL.create(f"freshgate{'+http' if way == 'HTTP' else ''}", "ada", password, gateway.host, port, "default")
    engine = sa.create_engine(url)
    with contextlib.closing(engine.raw_connection()) as connection:
        yield connection.cursor()
    engine.dispose()


PYTHON = {"impyla": of_impyla, "PyHive": of_pyhive, "SQLAlchemy": of_sqlalchemy}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Refused, impyla leaves its socket open.
@pytest.mark.parametrize("way", ["binary", "HTTP"])
@pytest.mark.parametrize("client", PYTHON)
def test_python_clients_log_in_with_a_password(plain: Gateway, client: str, way: str) -> None:
    with PYTHON[client](plain, way, PASSWORDS["ada"]) as cursor:
        assert rows(cursor, "SELECT current_user()") == [("ada",)]
    # Over HTTP, none of them understands the answer (401).
    refused = "cannot log in" if way == "binary" else None
    with pytest.raises(Exception, match=refused), PYTHON[client](plain, way, "wrong") as cursor:
        rows(cursor, "SELECT 1")


@pytest.mark.parametrize("way", ["binary", "HTTP"])
def test_freshgate_status_logs_in_with_a_password(plain: Gateway, way: str) -> None:
    url = jdbc_url(plain, way)
    for password, code in ((PASSWORDS["ada"], 0), ("wrong", 1)):
        arguments = ["-m", "gateway", "status", "--json", "--url", url, "--user", "ada"]
        done = completed(arguments, {**environment(), "FRESHGATE_PASSWORD": password}, directory=ROOT, seconds=120)
        assert done.returncode == code, done.stderr
        assert ("refused the login" in done.stderr) is (code == 1)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["binary", "HTTP"])
@pytest.mark.parametrize("version", BEELINES)
def test_beeline_logs_in_with_a_password(plain: Gateway, version: str, way: str) -> None:
    command = [*BEELINES[version](), "-u", jdbc_url(plain, way), "-n", "bea", "--outputformat=tsv2"]
    for password, code in ((PASSWORDS["bea"], 0), ("wrong", 1)):
        line = [*command, "-p", password, "-e", "SELECT current_user() AS who"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, env=environment())
        assert (done.returncode == 0) is (code == 0), done.stderr
        assert (done.stdout.split()[-2:] == ["who", "bea"]) is (code == 0), done.stdout


def jdbc_url(gateway: Gateway, way: str) -> str:
    http = ";transportMode=http;httpPath=cliservice" if way == "HTTP" else ""
    return f"jdbc:hive2://{gateway.host}:{gateway.http_port if http else gateway.port}/default{http}"


def test_hive_jdbc_logs_in_with_a_token(secure: Gateway, issuer: Issuer, certificates: Certificates) -> None:
    """Drivers before Hive 4 send none."""
    trust = f"ssl=true;sslTrustStore={certificates.trust_store};trustStorePassword={PASSWORD}"
    url = f"jdbc:hive2://127.0.0.1:{secure.http_port}/default;transportMode=http;httpPath=cliservice;{trust};auth=jwt"
    for wrong in (issuer.token("ada", -120), issuer.token("ada", aud="superset"), "a.b.c"):
        with pytest.raises(jpype.JException, match="401"), connected(VERSIONS[-1], f"{url};jwt={wrong}"):
            pass
    with connected(VERSIONS[-1], f"{url};jwt={issuer.token('zoe', extra='x' * 10_000)}") as connection:
        statement = connection.createStatement()
        assert statement.execute("SELECT current_user()")
        assert texts(statement.getResultSet()) == [("zoe",)]
        statement.execute("CREATE DATABASE tokens_of_zoe")
        statement.execute("CREATE TABLE tokens_of_zoe.t AS SELECT id FROM range(3)")
        statement.execute("CREATE MATERIALIZED VIEW tokens_of_zoe.mv AS SELECT count(*) n FROM tokens_of_zoe.t")
        assert statement.execute("SHOW MATERIALIZED VIEWS IN tokens_of_zoe")
        assert "zoe" in texts(statement.getResultSet())[0]
        statement.execute("DROP MATERIALIZED VIEW tokens_of_zoe.mv")
        statement.execute("DROP DATABASE tokens_of_zoe CASCADE")


def test_impyla_logs_in_with_a_token(secure: Gateway, issuer: Issuer, certificates: Certificates) -> None:
    over_https: dict[str, Any] = {
        "use_http_transport": True,
        "http_path": "cliservice",
        "use_ssl": True,
        "ca_cert": certificates.ca,
    }
    with impyla(secure.http_port, auth_mechanism="JWT", jwt=issuer.token("zoe"), **over_https) as cursor:
        cursor.execute("SELECT current_user()")
        assert cursor.fetchall() == [("zoe",)]


def test_the_node_driver_logs_in_over_http(plain: Gateway) -> None:
    """The package cannot be configured to trust a private certificate, so TLS is not tested."""
    given: dict[str, Any] = {
        "host": plain.host,
        "port": plain.http_port,
        "user": "eve",
        "password": PASSWORDS["eve"],
        "path": "/cliservice",
        "database": "default",
        "steps": [{"sql": "SELECT current_user() AS name"}, {"sql": "SELECT id FROM range(3000)"}],
    }
    who, many = json.loads(run_script(given).stdout)
    assert who["rows"] == [{"name": "eve"}]
    assert len(many["rows"]) == 3000
    refused = run_script({**given, "password": "wrong"})
    assert refused.stdout == ""
    assert "401" in refused.stderr
