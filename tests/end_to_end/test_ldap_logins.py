"""Tests both values of authentication.hand_on, with a Spark that checks passwords in the gateway's LDAP directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from clients import Jdbc, pyhive, rows
from jvm import JAVA_OPTIONS, spark_java_options
from processes import Engine, Gateway, Setting
from pyhive.exc import OperationalError
from slapd import ADMINISTRATOR, ADMINISTRATOR_PASSWORD, GROUPS, PASSWORDS, PEOPLE, Slapd
from tiers import sampled

from gateway.login import user_file

PATTERN = f"uid=%s,{PEOPLE}"


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    running = Slapd(tmp_path_factory.mktemp("slapd"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def strict(spark_server: None, slapd: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Spark's server as companies run it: it checks logins in the directory, and one account may impersonate users."""
    ldap = "-Dhive.server2.authentication.ldap"
    running = Engine(
        tmp_path_factory.mktemp("strict"),
        spark={
            "spark.hadoop.hive.server2.authentication": "LDAP",
            # Spark reads these only from Java's system properties or a hive-site.xml.
            JAVA_OPTIONS: f"{spark_java_options()} {ldap}.url={slapd.url} {ldap}.userDNPattern={PATTERN}",
            "spark.hadoop.hadoop.proxyuser.svc.hosts": "*",
            "spark.hadoop.hadoop.proxyuser.svc.groups": "*",
        },
    )
    yield running
    running.stop()


def start(slapd: Slapd, strict: Engine, folder: Path, hand_on: str, **settings: Setting) -> Gateway:
    return Gateway(
        folder / "gateway.log",
        upstream=f"{strict.host}:{strict.port}",
        settings={
            "authentication": "ldap",
            "authentication.hand_on": hand_on,
            "ldap.url": slapd.url,
            "ldap.start_tls": "true",
            "ldap.ca": slapd.ca,
            "ldap.user_dn_pattern": PATTERN,
            "ldap.group_dn_pattern": f"cn=%s,{GROUPS}",
            "ldap.group_filter": "analysts",
            "upstream.user": "svc",
            "upstream.password": PASSWORDS["svc"],
            "storage.database": f"storage_{hand_on}",
            **settings,
        },
    )


@pytest.mark.thorough
@pytest.mark.parametrize("hand_on", sampled(["replay", "proxy_user"], {"proxy_user"}))
def test_members_of_the_group_log_in_as_themselves(slapd: Slapd, strict: Engine, tmp_path: Path, hand_on: str) -> None:
    gateway = start(slapd, strict, tmp_path, hand_on)
    try:
        with pyhive(gateway.host, gateway.port, "ada", auth="LDAP", password=PASSWORDS["ada"]) as cursor:
            assert rows(cursor, "SELECT current_user()") == [("ada",)]
            for statement in (
                f"CREATE DATABASE {hand_on}",
                f"CREATE TABLE {hand_on}.t USING parquet AS SELECT 1 AS a",
                f"CREATE MATERIALIZED VIEW {hand_on}.m AS SELECT a FROM {hand_on}.t",
                f"INSERT INTO {hand_on}.t VALUES (2)",
            ):
                rows(cursor, statement)
            # The read waits for a refresh, and then continues over the session's second connection.
            assert sorted(rows(cursor, f"SELECT a FROM {hand_on}.m")) == [(1,), (2,)]
            rows(cursor, f"DROP MATERIALIZED VIEW {hand_on}.m")
            rows(cursor, f"DROP DATABASE {hand_on} CASCADE")
        with Jdbc(gateway.url, "ada", PASSWORDS["ada"]) as client:
            assert client.query("SELECT current_user()")[1] == [("ada",)]
        for user, password in (("ada", "wrong"), ("eve", PASSWORDS["eve"])):
            # The message does not tell a wrong password from a missing group.
            with (
                pytest.raises(Exception, match=f"User '{user}' cannot log in"),
                pyhive(gateway.host, gateway.port, user, auth="LDAP", password=password),
            ):
                pass
        log = gateway.log.read_text(encoding="utf-8")
        assert "this user is in no group of ldap.group_filter" in log
        assert "invalidCredentials" in log
        assert not [password for password in PASSWORDS.values() if password in log]
    finally:
        gateway.stop()


@pytest.mark.thorough
def test_only_the_configured_account_may_impersonate_others(strict: Engine) -> None:
    """Checks the documentation's statement about Hadoop's rules."""
    configuration = {"hive.server2.proxy.user": "ada"}
    with pyhive(
        strict.host, strict.port, "svc", auth="LDAP", password=PASSWORDS["svc"], configuration=configuration
    ) as cursor:
        assert rows(cursor, "SELECT current_user()") == [("ada",)]
    with (
        pytest.raises(OperationalError, match="eve is not allowed to impersonate ada"),
        pyhive(strict.host, strict.port, "eve", auth="LDAP", password=PASSWORDS["eve"], configuration=configuration),
    ):
        pass


@pytest.mark.thorough
def test_an_account_of_the_file_acts_for_a_group_of_the_directory(slapd: Slapd, strict: Engine, tmp_path: Path) -> None:
    """Two methods at once. The directory is asked for the named user's groups without the user's password."""
    users = tmp_path / "users"
    users.write_text(f"superset:{user_file.hash_of('its secret')}\n")
    users.chmod(0o600)
    rules: dict[str, Setting] = {
        "authentication": "file, ldap",
        "authentication.users_file": users,
        "ldap.bind_dn": ADMINISTRATOR,
        "ldap.bind_password": ADMINISTRATOR_PASSWORD,
        "ldap.nested_groups": "search",
        "groups.sources": "ldap",
        "access.impersonators": "superset: group:staff from 127.0.0.1",
        "access.administrators": "group:company",
        "storage.database": "storage_acting",
    }
    gateway = start(slapd, strict, tmp_path, "proxy_user", **rules)

    def acting(user: str) -> AbstractContextManager[Any]:
        named = {"hive.server2.proxy.user": user}
        return pyhive(gateway.host, gateway.port, "superset", auth="LDAP", password="its secret", configuration=named)

    try:
        # Analysts are staff, and staff are the company, whose members are administrators: a group does not mean those.
        with pytest.raises(OperationalError, match="'superset' cannot open a session as 'ada'"), acting("ada"):
            pass
        with pyhive(gateway.host, gateway.port, "ada", auth="LDAP", password=PASSWORDS["ada"]) as cursor:
            assert rows(cursor, "SELECT current_user()") == [("ada",)]
        with pytest.raises(OperationalError, match="'superset' cannot open a session as 'eve'"), acting("eve"):
            pass
    finally:
        gateway.stop()
    gateway = start(slapd, strict, tmp_path, "proxy_user", **{**rules, "access.administrators": "root"})
    try:
        with acting("ada") as cursor:
            assert rows(cursor, "SELECT current_user()") == [("ada",)]
        for user in ("eve", "nobody", "root"):
            with pytest.raises(OperationalError, match=f"'superset' cannot open a session as '{user}'"), acting(user):
                pass
    finally:
        gateway.stop()
