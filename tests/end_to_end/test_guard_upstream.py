"""Tests of the guard as a jar, in a Spark Thrift server that the gateway does not start."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from processes import Gateway
from pyhive.exc import OperationalError
from spark_releases import LOCKED, ReleaseServer, home_of
from tiers import sampled

from gateway.spark.storage_guard import DATABASE, HASH, SECRET, hash_of, signed

OURS, OTHER = "our secret, which is long enough", "another secret that is long enough"
STORAGE = "freshgate_storage"
REFUSED = "42501"
JAVA_8 = 52
"""The version of classes that every Java since 8 reads."""


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar, as the command writes it."""
    path = tmp_path_factory.mktemp("guard") / "guard.jar"
    command = [sys.executable, "-m", "gateway", "guard", "--jar", str(path), "--set", f"upstream.guard_secret={OURS}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"{HASH} {hash_of(OURS)}" in said
    assert f"{DATABASE} {STORAGE}" in said
    assert str(path) in said
    assert OURS not in said
    return path


@pytest.fixture(scope="module", params=sampled((LOCKED, "3.5", "4.0", "4.3"), {LOCKED}))
def server(
    request: pytest.FixtureRequest, jar: Path, spark_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReleaseServer]:
    home = home_of(request.param)
    if home is None:
        pytest.skip(f"Spark {request.param} is not installed: run scripts/setup --spark-versions")
    settings = {"spark.sql.extensions": "freshgate.StorageGuard", HASH: hash_of(OURS), DATABASE: STORAGE}
    running = ReleaseServer(home, tmp_path_factory.mktemp("server"), [jar], **settings)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def gateway(server: ReleaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = start(server, tmp_path_factory.mktemp("gateway"), **{"upstream.guard_secret": OURS})
    yield running
    running.stop()


def start(server: ReleaseServer, directory: Path, **settings: Any) -> Gateway:
    given: dict[str, Any] = {"storage.database": STORAGE, **settings}
    return Gateway(directory / "gateway.log", upstream=f"{server.host}:{server.port}", **given)


def refusal(cursor: Any, statement: str) -> str:
    """The SQLSTATE and message of a statement that fails."""
    with pytest.raises(OperationalError) as caught:
        rows(cursor, statement)
    status = caught.value.args[0].status
    return f"{status.sqlState} {status.errorMessage}"


def test_the_jar_is_for_every_java(jar: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        classes = [name for name in archive.namelist() if name.endswith(".class")]
        assert "freshgate/StorageGuard.class" in classes
        assert {int.from_bytes(archive.read(name)[6:8]) for name in classes} == {JAVA_8}


def test_views_live_behind_the_guard(gateway: Gateway, server: ReleaseServer) -> None:
    assert f"Spark's guard protects the storage database {STORAGE}" in gateway.log.read_text(encoding="utf-8")
    with pyhive(gateway.host, gateway.port, user="ada") as ada, pyhive(server.host, server.port, user="eve") as eve:
        for statement in (
            "CREATE TABLE t (a INT, d STRING) USING parquet",
            "INSERT INTO t VALUES (1, 'x')",
            "CREATE MATERIALIZED VIEW mv AS SELECT d, count(*) AS n FROM t GROUP BY d -- mine",
            "INSERT INTO t VALUES (2, 'x')",
            "REFRESH MATERIALIZED VIEW mv",
            "ALTER MATERIALIZED VIEW mv RENAME TO renamed",
        ):
            rows(ada, statement)
        (table,) = {row[1] for row in rows(eve, f"SHOW TABLES IN {STORAGE}") if "definition" not in row[1]}
        for attack in (
            f"INSERT INTO {STORAGE}.{table} VALUES ('x', 9, 2)",
            f"TRUNCATE TABLE {STORAGE}.{table}",
            f"DROP TABLE {STORAGE}.{table}",
            f"COMMENT ON DATABASE {STORAGE} IS 'eve'",
            f"CREATE FUNCTION {STORAGE}.f AS 'java.lang.String'",
            "DROP VIEW renamed",
            "ALTER VIEW renamed AS SELECT 1 AS n",
            "CREATE OR REPLACE VIEW renamed AS SELECT 1 AS n",
            f"INSERT OVERWRITE DIRECTORY '{server.data_dir}/warehouse/{STORAGE}.db/{table}' USING parquet SELECT 1",
            f"CREATE TABLE x (a INT) USING parquet LOCATION '{server.data_dir}/warehouse/{STORAGE}.db/{table}'",
            f"DROP DATABASE {STORAGE} CASCADE",
        ):
            # On Spark 3.5, errors have no SQLSTATE.
            assert "only the gateway" in refusal(eve, attack).lower(), attack
        rows(eve, "CREATE TABLE copied USING parquet AS SELECT * FROM renamed")
        assert rows(eve, "SELECT * FROM copied") == rows(ada, "SELECT * FROM renamed") == [("x", 2)]
        rows(ada, "DROP MATERIALIZED VIEW renamed")
        rows(ada, "DROP TABLE copied")


def test_a_permit_is_for_one_change_of_one_object(gateway: Gateway, server: ReleaseServer) -> None:
    with (
        pyhive(server.host, server.port, configuration={f"set:hiveconf:{SECRET}": OURS}) as service,
        pyhive(server.host, server.port, user="eve") as eve,
    ):
        rows(service, f"CREATE TABLE {STORAGE}.p__p__12345678 (a INT) USING parquet")
        shown = f"SELECT `a` FROM `{STORAGE}`.`p__p__12345678` WHERE freshgate_version = 1"
        rows(service, f"CREATE TABLE {STORAGE}.v__v__12345678 (a INT, freshgate_version INT) USING parquet")
        rows(service, f"CREATE VIEW v AS {shown.replace('p__p', 'v__v')}")
        dropping = "DROP VIEW IF EXISTS `default`.`v`"
        permitted = signed(OURS, dropping)
        permit = permitted.removeprefix(dropping)
        changed = permit.replace(" */", "0 */"), permit.replace("permits 1", "permits 2"), permit[:-9] + permit[-3:]
        for forged in ("", *changed, signed(OTHER, dropping).removeprefix(dropping)):
            assert "only the gateway" in refusal(eve, dropping + forged)
        assert "only the gateway" in refusal(eve, f"DROP TABLE {STORAGE}.p__p__12345678{permit}")
        # Local properties of Spark hold a client's settings while a command runs, but not while it is analyzed.
        rows(eve, f"SET spark.job.description={permit.strip()}")
        assert "only the gateway" in refusal(eve, dropping)
        rows(eve, permitted)
        rows(service, f"CREATE VIEW v AS {shown.replace('p__p', 'v__v')}")
        assert "only the gateway" in refusal(eve, permitted)
        for statement in (
            "DROP VIEW v",
            f"DROP TABLE {STORAGE}.v__v__12345678",
            f"DROP TABLE {STORAGE}.p__p__12345678",
        ):
            rows(service, statement)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "Set upstream.guard_secret to the one whose SHA-256 Spark has."),
        ({"upstream.guard_secret": OTHER}, "is not the SHA-256 of upstream.guard_secret"),
        ({"upstream.guard_secret": OURS, "storage.database": "other"}, "protects the database freshgate_storage, but"),
    ],
)
def test_a_gateway_that_the_guard_does_not_recognize_says_why_and_ends(
    settings: dict[str, Any], said: str, server: ReleaseServer, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=said.replace(".", r"\.")):
        start(server, tmp_path, **settings)
