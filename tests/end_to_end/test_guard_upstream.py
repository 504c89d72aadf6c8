"""Tests of the guard as a jar, in a Spark Thrift server that the gateway does not start."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jars
import pytest
from clients import pyhive, rows
from lake import ARCHIVES, ICEBERG, lake_settings
from processes import Gateway, wait_until
from pyhive.exc import OperationalError
from spark_releases import LOCKED, ReleaseServer, home_of
from tiers import sampled

from gateway.mv.refresh.tasks import COMPACTED_FROM
from gateway.spark.storage_guard import DATABASE, HASH, SECRET, hash_of, signed
from sql.texts.epochs import is_epoch

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
OURS, OTHER = "our secret, which is long enough", "another secret that is long enough"
STORAGE = "freshgate_storage"
REFUSED = "42501"
JAVA_8 = 52
"""The version of classes that every Java since 8 reads."""


@dataclass(frozen=True)
class Stored:
    """The view `n.mv`, a user of the gateway, and a user at Spark itself."""

    ada: Any
    eve: Any
    server: ReleaseServer
    table: str
    """The storage table."""

    @property
    def directory(self) -> Path:
        """The storage database's."""
        return self.server.data_dir / "warehouse" / f"{STORAGE}.db"

    @property
    def files(self) -> dict[Path, int]:
        """Everything below, with the time of its last change."""
        return {path: path.stat().st_mtime_ns for path in self.directory.rglob("*")}

    def filled(self, text: str) -> str:
        """@T is the storage table, @D the storage database's directory, @W the one above."""
        places = {"@T": self.table, "@D": str(self.directory), "@W": str(self.directory.parent)}
        for place, value in places.items():
            text = text.replace(place, value)
        return text

    def passed(self, attacks: Iterable[str]) -> list[tuple[str, str]]:
        """The attacks that the guard has not refused, with what was said. The statements of one are divided by ;;."""
        found = []
        for attack in attacks:
            *first, last = self.filled(attack).split(" ;; ")
            with pyhive(self.server.host, self.server.port, user="eve") as cursor:
                for statement in first:
                    rows(cursor, statement)
                try:
                    found.append((attack, str(rows(cursor, last))))
                except OperationalError as error:
                    message = error.args[0].status.errorMessage
                    if "MATERIALIZED_VIEW_STORAGE" not in message and "of materialized views" not in message:
                        found.append((attack, message))
        return found


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
def release(request: pytest.FixtureRequest) -> str:
    """The release of Spark."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(
    release: str, jar: Path, spark_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReleaseServer]:
    home = home_of(release)
    if home is None:
        pytest.skip(f"Spark {release} is not installed: run scripts/setup --spark-versions")
    directory = tmp_path_factory.mktemp("server")
    settings = {"spark.sql.extensions": "freshgate.StorageGuard", HASH: hash_of(OURS), DATABASE: STORAGE}
    archives = [jar]
    if release in ARCHIVES:
        archives += [jars.jar(name, lock=lock) for name, lock in ARCHIVES[release].items() if "iceberg" in name]
        settings |= {name: value for name, value in lake_settings(directory / "lake").items() if ICEBERG in name}
        settings["spark.sql.extensions"] += f",{EXTENSIONS}"
    settings["spark.sql.shuffle.partitions"] = "1"
    running = ReleaseServer(home, directory, archives, spark=settings)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def gateway(server: ReleaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {"upstream.guard_secret": OURS, "versions.retention": 0, "staleness.probe_interval": 0}
    running = start(server, tmp_path_factory.mktemp("gateway"), **settings)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def stored(gateway: Gateway, server: ReleaseServer) -> Iterator[Stored]:
    """A view, and tables of others."""
    with pyhive(gateway.host, gateway.port, user="ada") as ada, pyhive(server.host, server.port, user="eve") as eve:
        for statement in (
            "CREATE DATABASE n",
            "CREATE TABLE n.t (a INT, d STRING) USING parquet",
            "INSERT INTO n.t VALUES (1, 'x')",
            "CREATE MATERIALIZED VIEW n.mv AS SELECT a, d FROM n.t",
        ):
            rows(ada, statement)
        listed = (row[1] for row in rows(eve, f"SHOW TABLES IN {STORAGE} LIKE 'n__mv__*'"))
        (table,) = (name for name in listed if not name.endswith("__definition"))
        yield Stored(ada, eve, server, table)
        rows(ada, "DROP MATERIALIZED VIEW n.mv")
        rows(ada, "DROP DATABASE n CASCADE")


def start(server: ReleaseServer, directory: Path, **settings: Any) -> Gateway:
    given: dict[str, Any] = {"storage.database": STORAGE, **settings}
    return Gateway(directory / "gateway.log", upstream=f"{server.host}:{server.port}", settings=given)


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
        listed = {row[1] for row in rows(eve, f"SHOW TABLES IN {STORAGE}") if not is_epoch(row[1])}
        (table,) = {name for name in listed if "definition" not in name}
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
        rows(service, f"CREATE DATABASE IF NOT EXISTS {STORAGE}")
        rows(service, f"CREATE TABLE {STORAGE}.p__p__12345678 (a INT) USING parquet")
        shown = f"SELECT `a` FROM `{STORAGE}`.`p__p__12345678` WHERE freshgate_version = 1"
        rows(service, f"CREATE TABLE {STORAGE}.v__v__12345678 (a INT, freshgate_version INT) USING parquet")
        rows(service, f"CREATE VIEW v AS {shown.replace('p__p', 'v__v')}")
        dropping = "DROP VIEW IF EXISTS `default`.`v`"
        permitted = signed(OURS, dropping)
        permit = permitted.removeprefix(dropping)
        changed = permit.replace(" */", "a */"), permit.replace("permits a", "permits b"), permit[:-9] + permit[-4:]
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


@pytest.fixture(scope="module")
def iceberg(stored: Stored, release: str) -> None:
    if release not in ARCHIVES:
        pytest.skip(f"no Iceberg was published for Spark {release}")
    rows(stored.eve, "CREATE TABLE lake.n.i (a INT, d STRING) USING iceberg")
    rows(stored.eve, "INSERT INTO lake.n.i VALUES (1, 'x')")


ORPHANS = "CALL lake.system.remove_orphan_files(table => 'n.i', older_than => TIMESTAMP'2020-01-01 00:00:00', {})"
CALLS = (
    ORPHANS.format("location => '@D/@T'"),
    ORPHANS.format("location => '@W'"),
    ORPHANS.format("location => 'file:@W/x/../freshgate_storage.db'"),
    "CREATE TEMPORARY VIEW listed AS SELECT '@D/x' AS file_path, TIMESTAMP'2020-01-01' AS last_modified ;; "
    "CALL lake.system.remove_orphan_files(table => 'n.i', file_list_view => 'listed')",
    "CALL lake.system.snapshot(source_table => 'spark_catalog.freshgate_storage.@T', table => 'n.taken')",
    "CALL lake.system.snapshot('`spark_catalog`.`freshgate_storage`.`@T`', 'n.taken')",
    "USE freshgate_storage ;; CALL lake.system.snapshot(source_table => '@T', table => 'lake.n.taken')",
    "CALL lake.system.migrate('spark_catalog.freshgate_storage.@T')",
    "CALL lake.system.add_files(table => 'n.i', source_table => 'freshgate_storage.@T')",
    "CALL lake.system.add_files('n.i', '`parquet`.`@D/@T/freshgate_version=1`')",
    "CALL lake.system.register_table(table => 'n.taken', metadata_file => '@D/@T/metadata/v1.metadata.json')",
    "CALL lake.system.rollback_to_snapshot('freshgate_storage.@T', 1)",
    "CALL lake.system.set_current_snapshot('freshgate_storage.@T', 1)",
    "CALL lake.system.expire_snapshots(table => 'freshgate_storage.@T')",
    "CALL lake.system.rewrite_data_files('freshgate_storage.@T')",
)
# Iceberg takes only constants in Spark 3.5.
CALLS_SINCE_4 = (
    ORPHANS.format("location => concat('@W', '/freshgate_', 'storage.db')"),
    ORPHANS.format("location => IF(current_timestamp() > TIMESTAMP'2020-01-01', '@D', '/tmp')"),
    "DECLARE place = '@D/@T' ;; " + ORPHANS.format("location => place"),
    "EXECUTE IMMEDIATE 'CALL lake.system.rewrite_manifests(\\'freshgate_storage.@T\\')'",
    "SET spark.sql.scripting.enabled=true ;; BEGIN CALL lake.system.rewrite_manifests('freshgate_storage.@T'); END",
    "SET spark.sql.optimizer.disableHints=true ;; CALL lake.system.rewrite_manifests('freshgate_storage.@T')",
    "SET spark.sql.analyzer.singlePassResolver.enabledTentatively=true ;; "
    "CALL lake.system.rewrite_manifests('freshgate_storage.@T')",
)


def test_procedures_cannot_reach_what_views_store(stored: Stored, iceberg: None, release: str) -> None:
    before = stored.files
    assert stored.passed(CALLS + (() if release == "3.5" else CALLS_SINCE_4)) == []
    assert stored.files == before
    assert rows(stored.ada, "SELECT * FROM n.mv") == [(1, "x")]


def test_procedures_work_on_other_tables(stored: Stored, iceberg: None, release: str) -> None:
    rows(stored.eve, "INSERT INTO lake.n.i VALUES (2, 'y')")
    (first, second) = rows(stored.eve, "SELECT snapshot_id FROM lake.n.i.snapshots ORDER BY committed_at")
    for call in (
        f"rollback_to_snapshot('n.i', {first[0]})",
        f"set_current_snapshot(table => 'n.i', snapshot_id => {second[0]})",
        "rewrite_data_files(table => 'n.i', options => map('rewrite-all', 'true'))",
        f"remove_orphan_files(table => 'n.i', location => '{stored.server.data_dir}/lake/n/i')",
        "expire_snapshots(table => 'n.i', older_than => TIMESTAMP'2020-01-01 00:00:00', retain_last => 1)",
        "add_files(table => 'n.i', source_table => '`parquet`.`@W/n.db/t`')",
    ):
        rows(stored.eve, stored.filled(f"CALL lake.system.{call}"))
    assert sorted(rows(stored.eve, "SELECT * FROM lake.n.i")) == [(1, "x"), (1, "x"), (2, "y")]
    if release != "3.5":  # Which does not parse it.
        assert rows(stored.eve, "EXPLAIN CALL lake.system.ancestors_of('n.i')")
    with pytest.raises(OperationalError, match="nothing"):
        rows(stored.eve, "CALL lake.system.nothing('n.i')")


OWN = (
    "SET spark.sql.catalog.own=org.apache.iceberg.spark.SparkCatalog ;; SET spark.sql.catalog.own.type=hadoop ;; "
    "SET spark.sql.catalog.own.warehouse={} ;; {}"
)
CATALOGS = (
    OWN.format("@D", "CREATE NAMESPACE own.x"),
    OWN.format("@D", "CREATE TABLE own.@T.`freshgate_version=1` (a INT) USING iceberg"),
    OWN.format("@D/@T", "CREATE TABLE own.x USING iceberg AS SELECT 1 AS a"),
    OWN.format("file:@D/@T/..", "CREATE NAMESPACE own.x"),
    OWN.format("@D", "SHOW NAMESPACES IN own ;; SET spark.sql.catalog.own.warehouse=/tmp ;; CREATE NAMESPACE own.x"),
    OWN.format("@W", "CREATE NAMESPACE own.`freshgate_storage.db`.x"),
    OWN.format("@W/x/..", "CREATE TABLE own.`freshgate_storage.db`.@T.y (a INT) USING iceberg"),
    "CREATE TABLE lake.n.w (a INT) USING iceberg TBLPROPERTIES ('write.data.path' = '@D/@T/freshgate_version=1')",
    "CREATE TABLE lake.n.w (a INT) USING iceberg TBLPROPERTIES ('write.data.path' = 'warehouse')",
    "ALTER TABLE lake.n.i SET TBLPROPERTIES ('write.metadata.path' = '@D/@T/freshgate_version=1')",
    "INSERT OVERWRITE DIRECTORY 'warehouse' USING parquet SELECT 1 AS a",
    "INSERT OVERWRITE DIRECTORY '.' USING parquet SELECT 1 AS a",
)


def test_catalogs_of_clients_keep_nothing_in_the_storage(stored: Stored, iceberg: None, tmp_path: Path) -> None:
    """Also directories that are relative to where Spark runs, which is the one above the warehouse here."""
    before = stored.files
    assert stored.passed(CATALOGS) == []
    assert stored.files == before
    for place in (str(tmp_path), "@W"):
        beside = OWN.format(place, "CREATE TABLE own.x.y USING iceberg AS SELECT 1 AS a ;; DROP TABLE own.x.y")
        with pyhive(stored.server.host, stored.server.port, user="eve") as cursor:
            for statement in stored.filled(beside).split(" ;; "):
                rows(cursor, statement)


@pytest.fixture(scope="module")
def administrator(server: ReleaseServer) -> Iterator[Any]:
    """A session that the guard takes for the gateway's."""
    with pyhive(server.host, server.port, configuration={f"set:hiveconf:{SECRET}": OURS}) as cursor:
        yield cursor


def unrefused(gateway: Gateway) -> bool:
    log = gateway.log.read_text(encoding="utf-8")
    return "only the gateway" not in log.lower() and "MATERIALIZED_VIEW_STORAGE" not in log


def test_forged_views_are_restored_behind_the_guard(gateway: Gateway, stored: Stored, administrator: Any) -> None:
    assert rows(stored.ada, "SELECT * FROM n.mv") == [(1, "x")]
    for forgery in (
        "ALTER VIEW n.mv AS SELECT 666 AS a, 'evil' AS d",
        stored.filled(f"INSERT INTO {STORAGE}.@T VALUES (666, 'evil', 1), (666, 'evil', 2), (666, 'evil', 3)"),
        stored.filled(f"TRUNCATE TABLE {STORAGE}.@T"),
    ):
        rows(administrator, forgery)
        assert rows(stored.ada, "SELECT * FROM n.mv") == [(1, "x")], forgery
        assert rows(stored.eve, "SELECT * FROM n.mv") == [(1, "x")], forgery
    assert unrefused(gateway)


def test_replaced_versions_are_dropped_behind_the_guard(gateway: Gateway, stored: Stored) -> None:
    for _ in range(3):
        rows(stored.ada, "REFRESH MATERIALIZED VIEW n.mv COMPLETE")
    parts = f"SHOW PARTITIONS {STORAGE}.{stored.table}"
    wait_until(lambda: len(rows(stored.eve, parts)) == 1, 60, "the other versions to be dropped")
    assert unrefused(gateway)


@pytest.mark.thorough
def test_versions_are_compacted_behind_the_guard(gateway: Gateway, stored: Stored) -> None:
    rows(stored.ada, "CREATE TABLE n.added (a INT) USING parquet")
    rows(stored.ada, "INSERT INTO n.added VALUES (0)")
    rows(stored.ada, "CREATE MATERIALIZED VIEW n.many REFRESH INCREMENTAL FALLBACK AS SELECT a FROM n.added")
    for number in range(1, COMPACTED_FROM):
        rows(stored.ada, f"INSERT INTO n.added VALUES ({number})")
        rows(stored.ada, "REFRESH MATERIALIZED VIEW n.many INCREMENTAL FALLBACK")
    routes = "SELECT Route FROM tasks(\"type\"=\"mv\") WHERE MvName = 'many' AND Status = 'SUCCESS'"
    copied = (f"copies {COMPACTED_FROM} versions into one",)
    wait_until(lambda: copied in rows(stored.ada, routes), 60, "the versions to be copied into one")
    ((table,),) = rows(stored.ada, "SELECT storage_table FROM freshgate.materialized_views WHERE name = 'many'")
    wait_until(lambda: len(rows(stored.eve, f"SHOW PARTITIONS {table}")) == 1, 60, "the others to be dropped")
    assert sorted(rows(stored.eve, "SELECT a FROM n.many")) == [(number,) for number in range(COMPACTED_FROM)]
    rows(stored.ada, "DROP MATERIALIZED VIEW n.many")
    assert unrefused(gateway)


@pytest.mark.thorough
def test_partitions_are_replaced_behind_the_guard(gateway: Gateway, stored: Stored) -> None:
    """Each refresh of a partition hides the old one. The janitor drops it, and shortens the view's text."""
    rows(stored.ada, "CREATE TABLE n.days (a INT, d STRING) USING parquet PARTITIONED BY (d)")
    rows(stored.ada, "INSERT INTO n.days VALUES (1, 'x'), (2, 'y')")
    rows(
        stored.ada, "CREATE MATERIALIZED VIEW n.daily PARTITION BY (d) AS SELECT d, sum(a) AS s FROM n.days GROUP BY d"
    )
    for _ in range(3):
        rows(stored.ada, "INSERT INTO n.days VALUES (10, 'x')")
        assert sorted(rows(stored.ada, "SELECT * FROM n.daily"))[1] == ("y", 2)
    ((table,),) = rows(stored.ada, "SELECT storage_table FROM freshgate.materialized_views WHERE name = 'daily'")
    wait_until(lambda: len(rows(stored.eve, f"SHOW PARTITIONS {table}")) == 2, 60, "the others to be dropped")
    assert sorted(rows(stored.eve, "SELECT * FROM n.daily")) == [("x", 31), ("y", 2)]
    rows(stored.ada, "DROP MATERIALIZED VIEW n.daily")
    assert unrefused(gateway)


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
