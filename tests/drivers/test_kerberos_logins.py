"""Tests real drivers with tickets of a real KDC, through a gateway, and a gateway in front of a Spark with Kerberos."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kdc
import pytest
from clients import SPARK_HOME, pyhive, rows
from drivers.kerberos_clients import ROWS
from jvm import JAVA_OPTIONS, class_path, spark_java_options
from kdc import FOREIGN, REALM, Kdc
from processes import ROOT, Engine, Gateway

kdc.available()

HOST = "localhost"
SECONDS = 180.0


@pytest.fixture(scope="module")
def running_kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    folder = tmp_path_factory.mktemp("kdc")
    variables = {"KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5RCACHEDIR": str(folder)}
    with kdc.variables({**variables, "KRB5CCNAME": f"FILE:{folder / 'ada'}"}):
        running = Kdc(folder)
        running.keytab("gate", f"hive/{HOST}", f"HTTP/{HOST}", "freshgate")
        for user in ("ada", "bob", f"ada@{FOREIGN}"):
            running.log_in(user, user)
        yield running
        running.stop()


@pytest.fixture(scope="module")
def settings(running_kdc: Kdc) -> dict[str, Any]:
    return {
        "listen.http_port": 0,
        "authentication": "kerberos",
        "authentication.hand_on": "proxy_user",
        "kerberos.keytab": running_kdc.folder / "gate",
        "access.impersonators": '["bob: carol"]',
    }


@pytest.fixture(scope="module")
def plain(engine: Engine, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that protects no frames. The engine lets it name users."""
    log = tmp_path_factory.mktemp("plain") / "gateway.log"
    audit = {"log.audit": log.with_name("audit.log")}
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings={**settings, **audit})
    yield running
    running.stop()


@pytest.fixture(scope="module")
def protecting(engine: Engine, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that protects frames as its clients ask."""
    log = tmp_path_factory.mktemp("protecting") / "gateway.log"
    offers = {"kerberos.qop": '["auth", "auth-int", "auth-conf"]'}
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings={**settings, **offers})
    yield running
    running.stop()


def logged_in(*clients: tuple[str, str]) -> list[Any]:
    """What each client got at each URL."""
    command = [sys.executable, str(ROOT / "tests" / "drivers" / "kerberos_clients.py")]
    done = subprocess.run(
        [*command, *map("=".join, clients)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
        env=kdc_environment(),
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def kdc_environment() -> dict[str, str]:
    paths = [ROOT, ROOT / "tests"]
    return {**os.environ, "PYTHONPATH": ":".join(map(str, paths)), "SPARK_HOME": str(SPARK_HOME)}


def jdbc_url(gateway: Gateway, more: str = "", http: bool = False) -> str:
    if http:
        variables = f"principal=HTTP/{HOST}@{REALM};transportMode=http;httpPath=cliservice"
        return f"jdbc:hive2://{HOST}:{gateway.http_port}/default;{variables}"
    return f"jdbc:hive2://{HOST}:{gateway.port}/default;principal=hive/{HOST}@{REALM}{more}"


def test_python_drivers_log_in(plain: Gateway) -> None:
    found = logged_in(
        ("pyhive", f"//{HOST}:{plain.port}"),
        ("impyla", f"//{HOST}:{plain.port}"),
        ("impyla", f"http://{HOST}:{plain.http_port}"),
    )
    assert found == [["ada", ROWS]] * 3


def test_the_newest_jdbc_driver_logs_in(protecting: Gateway) -> None:
    found = logged_in(("4.0.1", jdbc_url(protecting, ";saslQop=auth-conf")), ("4.0.1", jdbc_url(protecting, http=True)))
    assert found == [["ada", ROWS]] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("version", ["2.3.10", "3.1.3", "4.0.1"])
def test_each_jdbc_driver_logs_in_with_each_protection(protecting: Gateway, version: str) -> None:
    urls = [jdbc_url(protecting, f";saslQop={qop}") for qop in ("auth", "auth-int", "auth-conf")]
    found = logged_in(*((version, url) for url in (*urls, jdbc_url(protecting, http=True))))
    assert found == [["ada", ROWS]] * 4


@pytest.mark.thorough
def test_beeline_logs_in(protecting: Gateway, running_kdc: Kdc) -> None:
    command = [str(SPARK_HOME / "bin" / "beeline"), "-u", jdbc_url(protecting), "--outputformat=tsv2"]
    options = f"-Djava.security.krb5.conf={running_kdc.config} -Djavax.security.auth.useSubjectCredsOnly=false"
    done = subprocess.run(
        [*command, "-e", "SELECT current_user() AS who"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
        env={**kdc_environment(), "JAVA_TOOL_OPTIONS": options},
    )
    assert done.stdout.split()[-2:] == ["who", "ada"]


@contextlib.contextmanager
def as_user(gateway: Gateway, folder: Path, user: str, **configuration: str) -> Iterator[Any]:
    """A PyHive cursor of a user."""
    options: dict[str, Any] = {"auth": "KERBEROS", "kerberos_service_name": "hive", "configuration": configuration}
    with contextlib.ExitStack() as stack:
        with kdc.variables({"KRB5CCNAME": f"FILE:{folder / user}"}):
            cursor = stack.enter_context(pyhive(HOST, gateway.port, "", **options))
        yield cursor


def test_users_are_known_by_their_names(plain: Gateway, running_kdc: Kdc) -> None:
    folder = running_kdc.folder
    with as_user(plain, folder, "ada") as ada:
        rows(ada, "CREATE DATABASE kerberos_of_ada")
        rows(ada, "CREATE TABLE kerberos_of_ada.t USING parquet AS SELECT 1 AS a")
        rows(ada, "CREATE MATERIALIZED VIEW kerberos_of_ada.m AS SELECT a FROM kerberos_of_ada.t")
        rows(ada, "INSERT INTO kerberos_of_ada.t VALUES (2)")
        assert sorted(rows(ada, "SELECT a FROM kerberos_of_ada.m")) == [(1,), (2,)]
        with as_user(plain, folder, "bob") as bob, pytest.raises(Exception, match="ada"):
            rows(bob, "DROP MATERIALIZED VIEW kerberos_of_ada.m")
        with as_user(plain, folder, "bob", **{"hive.server2.proxy.user": "carol"}) as carol:
            assert rows(carol, "SELECT current_user()") == [("carol",)]
        rows(ada, "DROP MATERIALIZED VIEW kerberos_of_ada.m")
        rows(ada, "DROP DATABASE kerberos_of_ada CASCADE")
    lines = [json.loads(line) for line in plain.log.with_name("audit.log").read_text(encoding="utf-8").splitlines()]
    assert any({"bob", "carol"} <= set(map(str, line.values())) for line in lines)


def test_a_user_of_a_foreign_realm_is_told_why(plain: Gateway, running_kdc: Kdc) -> None:
    with kdc.variables({"KRB5CCNAME": f"FILE:{running_kdc.folder / f'ada@{FOREIGN}'}"}):
        (said,) = logged_in(("pyhive", f"//{HOST}:{plain.port}"))
    assert "The ticket of Kerberos is not accepted: no rule of kerberos.auth_to_local is for ada@B.TEST." in said


@pytest.mark.thorough
@pytest.mark.parametrize("qop", ["auth", "auth-conf"])
def test_a_spark_with_kerberos_is_behind_the_gateway(
    spark_server: None, running_kdc: Kdc, settings: dict[str, Any], tmp_path: Path, qop: str
) -> None:
    configuration = tmp_path / "hadoop"
    configuration.mkdir()
    values = {
        "hadoop.security.authentication": "kerberos",
        "hadoop.proxyuser.freshgate.hosts": "*",
        "hadoop.proxyuser.freshgate.groups": "*",
    }
    lines = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in values.items())
    (configuration / "core-site.xml").write_text(f"<configuration>{lines}</configuration>", encoding="utf-8")
    hive = "spark.hadoop.hive.server2"
    with kdc.variables({"HADOOP_CONF_DIR": str(configuration)}):
        spark = Engine(
            tmp_path / "spark",
            spark={
                JAVA_OPTIONS: f"{spark_java_options()} -Djava.security.krb5.conf={running_kdc.config}",
                **class_path(configuration),
                f"{hive}.authentication": "KERBEROS",
                f"{hive}.authentication.kerberos.principal": f"hive/{HOST}@{REALM}",
                f"{hive}.authentication.kerberos.keytab": str(running_kdc.folder / "gate"),
                f"{hive}.thrift.sasl.qop": qop,
            },
        )
    try:
        place = f"jdbc:hive2://{HOST}:{spark.port}/;principal=hive/_HOST@{REALM}"
        gateway = Gateway(tmp_path / "gateway.log", upstream=place, settings=settings)
        try:
            with as_user(gateway, running_kdc.folder, "ada") as ada:
                assert rows(ada, "SELECT current_user()") == [("ada",)]
                rows(ada, "CREATE DATABASE behind")
                rows(ada, "CREATE TABLE behind.t USING parquet AS SELECT id FROM range(10)")
                rows(ada, "CREATE MATERIALIZED VIEW behind.m AS SELECT sum(id) AS s FROM behind.t")
                rows(ada, "INSERT INTO behind.t VALUES (100)")
                assert rows(ada, "SELECT s FROM behind.m") == [(145,)]
                ada.execute("SELECT id, repeat('x', 1000) FROM range(20000)")
                assert sum(len(row[1]) for row in ada) == 20_000_000
                # Sessions go on without a KDC, and the gateway has its tickets.
                running_kdc.stop()
                rows(ada, "INSERT INTO behind.t VALUES (1000)")
                assert rows(ada, "SELECT s FROM behind.m") == [(1145,)]
                running_kdc.start()
            found = logged_in(("4.0.1", jdbc_url(gateway)), ("4.0.1", jdbc_url(gateway, http=True)))
            assert found == [["ada", ROWS]] * 2
        finally:
            gateway.stop()
    finally:
        spark.stop()
