"""Tests that the guard inside Spark refuses changes of what the gateway stores, in sessions that bypass the gateway."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from clients import pyhive, rows
from databases import Database, make_database
from processes import Gateway
from pyhive.exc import OperationalError
from seen_gateway import Seen

REFUSED = "42501"


@dataclass(frozen=True)
class Stored:
    """A materialized view `mv`, and what is stored for it."""

    database: Database
    port: int
    """Spark's own port."""
    table: str
    directory: str
    """The storage database's directory, as a path."""

    @property
    def name(self) -> str:
        return self.database.name

    @property
    def warehouse(self) -> str:
        return self.directory.rpartition("/")[0]

    def filled(self, attack: str) -> list[str]:
        """The statements of an attack. @T is the storage table, @D the storage database's directory, @W the one above,
        @N the view's database."""
        for place, value in (("@T", self.table), ("@D", self.directory), ("@W", self.warehouse), ("@N", self.name)):
            attack = attack.replace(place, value)
        return attack.split(" ;; ")

    def facts(self) -> list[str]:
        """Everything that an attack could change, without the gateway's sign of life."""
        with pyhive("127.0.0.1", self.port) as cursor:
            return [
                re.sub(r"freshgate\.gateway_alive,\w+", "", repr(rows(cursor, statement)))
                for statement in (
                    f"SELECT * FROM freshgate_storage.{self.table}",
                    f"SELECT * FROM {self.name}.mv",
                    "SHOW TABLES IN freshgate_storage",
                    "SHOW USER FUNCTIONS IN freshgate_storage",
                    "DESCRIBE DATABASE EXTENDED freshgate_storage",
                    f"SHOW TBLPROPERTIES freshgate_storage.{self.table}",
                    f"SHOW TBLPROPERTIES {self.name}.mv",
                    f"SHOW TABLES IN {self.name}",
                )
            ]


def spark_port(gateway: Gateway) -> int:
    """The port of a gateway's embedded engine."""
    return int(re.findall(r"Spark is up at 127\.0\.0\.1:(\d+)", gateway.log.read_text(encoding="utf-8"))[-1])


@pytest.fixture(scope="module")
def stored(rewriting: Seen) -> Iterator[Stored]:
    for database in make_database(rewriting.gateway, "guarded"):
        database.run(
            "CREATE TABLE t (a INT, b STRING) USING parquet",
            "INSERT INTO t VALUES (1, 'x')",
            "CREATE MATERIALIZED VIEW mv AS SELECT a, b FROM t",
        )
        with pyhive("127.0.0.1", port := spark_port(rewriting.gateway)) as cursor:
            listed = rows(cursor, f"SHOW TABLES IN freshgate_storage LIKE '{database.name}__mv__*'")
            described = dict(row[:2] for row in rows(cursor, "DESCRIBE DATABASE EXTENDED freshgate_storage"))
        (table,) = (row[1] for row in listed if not row[1].endswith("__definition"))
        yield Stored(database, port, table, described["Location"].removeprefix("file:"))


def attempt(port: int, statements: list[str]) -> tuple[str | None, str]:
    """Runs statements in a new session at Spark. Returns the SQLSTATE and message of the one that fails."""
    with pyhive("127.0.0.1", port, user="eve") as cursor:
        for statement in statements:
            try:
                rows(cursor, statement)
            except OperationalError as error:
                return str(error.args[0].status.sqlState), str(error.args[0].status.errorMessage)
    return None, ""


WRITES = (
    "INSERT INTO freshgate_storage.@T VALUES (2, 'y', 1)",
    "INSERT OVERWRITE freshgate_storage.@T VALUES (2, 'y', 1)",
    "INSERT INTO IDENTIFIER('freshgate_' || 'storage.@T') VALUES (2, 'y', 1)",
    "EXECUTE IMMEDIATE 'INSERT INTO ' || 'freshgate_storage.@T VALUES (2, ''y'', 1)'",
    "DECLARE v = 'freshgate_storage.@T' ;; INSERT INTO IDENTIFIER(v) VALUES (2, 'y', 1)",
    "BEGIN DECLARE q STRING DEFAULT 'freshgate_storage.@T'; INSERT INTO IDENTIFIER(q) VALUES (2, 'y', 1); END",
    "SET w1=INSERT INTO ;; SET w2=freshgate_storage.@T ;; ${w1} ${w2} VALUES (2, 'y', 1)",
    "WITH q AS (SELECT 2, 'y', 1) INSERT INTO freshgate_storage.@T SELECT * FROM q",
    "FROM @N.t INSERT INTO @N.t SELECT a, b INSERT INTO freshgate_storage.@T SELECT a, b, 1",
    "USE freshgate_storage ;; TRUNCATE TABLE @T",
    "TRUNCATE TABLE freshgate_storage.@T PARTITION (freshgate_version = 1)",
    "BEGIN IF true THEN TRUNCATE TABLE freshgate_storage.@T; END IF; END",
    "DELETE FROM freshgate_storage.@T",
    "UPDATE freshgate_storage.@T SET a = 2",
    "MERGE INTO freshgate_storage.@T s USING @N.t ON s.a = t.a WHEN MATCHED THEN DELETE",
    "SET spark.sql.hive.convertMetastoreParquet=false ;; INSERT INTO freshgate_storage.@T VALUES (2, 'y', 1)",
)
CHANGES = (
    "USE freshgate_storage ;; DROP TABLE @T",
    "DROP TABLE freshgate_storage.@T PURGE",
    "DROP VIEW freshgate_storage.@T__definition",
    "CREATE OR REPLACE VIEW freshgate_storage.@T__definition AS SELECT 2 AS a, 'y' AS b",
    "ALTER VIEW freshgate_storage.@T__definition AS SELECT 2 AS a, 'y' AS b",
    "ALTER TABLE freshgate_storage.@T DROP PARTITION (freshgate_version = 1)",
    "ALTER TABLE freshgate_storage.@T ADD PARTITION (freshgate_version = 9) LOCATION '/tmp/x'",
    "ALTER TABLE freshgate_storage.@T PARTITION (freshgate_version = 1) SET LOCATION '/tmp/x'",
    "ALTER TABLE freshgate_storage.@T PARTITION (freshgate_version = 1) RENAME TO PARTITION (freshgate_version = 9)",
    "ALTER TABLE freshgate_storage.@T SET TBLPROPERTIES ('freshgate.owner' = 'x657665')",
    "ALTER TABLE freshgate_storage.@T ADD COLUMNS (z INT)",
    "ALTER TABLE freshgate_storage.@T ALTER COLUMN a COMMENT 'eve'",
    "ALTER TABLE freshgate_storage.@T RENAME TO freshgate_storage.gone",
    "MSCK REPAIR TABLE freshgate_storage.@T",
    "ANALYZE TABLE freshgate_storage.@T COMPUTE STATISTICS",
    "ANALYZE TABLES IN freshgate_storage COMPUTE STATISTICS",
    "COMMENT ON TABLE freshgate_storage.@T IS 'eve'",
    "CREATE TABLE freshgate_storage.eve (a INT) USING parquet",
    "CREATE TABLE freshgate_storage.eve AS SELECT 1 AS a",
    "CREATE TABLE freshgate_storage.eve LIKE @N.t",
    "CREATE VIEW freshgate_storage.eve AS SELECT 1 AS a",
    "USE freshgate_storage ;; CREATE FUNCTION f AS 'java.lang.String'",
    "CREATE FUNCTION freshgate_storage.f(x INT) RETURNS INT RETURN x",
    "COMMENT ON DATABASE freshgate_storage IS 'eve'",
    "ALTER DATABASE freshgate_storage SET DBPROPERTIES (eve = 'x')",
    "ALTER DATABASE freshgate_storage SET LOCATION '/tmp/x'",
    "DROP DATABASE freshgate_storage CASCADE",
    "SET spark.sql.legacy.useV1Command=true ;; DROP DATABASE freshgate_storage CASCADE",
)
VIEWS = (
    "DROP VIEW @N.mv",
    "DROP TABLE IF EXISTS @N.mv",
    "USE @N ;; DROP VIEW mv",
    "DROP VIEW IDENTIFIER('@N.' || 'mv')",
    "BEGIN DROP VIEW @N.mv; END",
    "ALTER VIEW @N.mv AS SELECT 2 AS a, 'y' AS b",
    "CREATE OR REPLACE VIEW @N.mv AS SELECT 2 AS a, 'y' AS b",
    "EXECUTE IMMEDIATE 'CREATE OR REPLACE VIEW @N.mv AS SELECT 2 AS a'",
    "ALTER VIEW @N.mv RENAME TO @N.gone",
    "ALTER VIEW @N.mv SET TBLPROPERTIES (eve = 'x')",
    "ALTER VIEW @N.mv UNSET TBLPROPERTIES IF EXISTS (eve)",
    "DROP DATABASE @N CASCADE",
)
DIRECTORIES = (
    "INSERT OVERWRITE DIRECTORY '@D/@T/freshgate_version=1' USING parquet SELECT 2 AS a",
    "INSERT OVERWRITE DIRECTORY 'file:@D/@T/freshgate_version=1' USING parquet SELECT 2 AS a",
    "INSERT OVERWRITE LOCAL DIRECTORY '@D/@T/freshgate_version=1' STORED AS PARQUET SELECT 2 AS a",
    "INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '@D/@T') SELECT 2 AS a",
    "INSERT OVERWRITE DIRECTORY '@W' USING parquet SELECT 2 AS a",
    "INSERT OVERWRITE DIRECTORY '@W/@N.db/../freshgate_storage.db/@T' USING parquet SELECT 2 AS a",
    "LOAD DATA INPATH '@D/@T/freshgate_version=1' INTO TABLE @N.h",
    "LOAD DATA INPATH '@W/*/@T/*' INTO TABLE @N.h",
    "CREATE TABLE @N.x (a INT) USING parquet LOCATION '@D/@T/freshgate_version=1'",
    "CREATE TABLE @N.x USING parquet LOCATION '@W' AS SELECT 1 AS a",
    "CREATE TABLE @N.x USING parquet OPTIONS (path '@D/@T') AS SELECT 1 AS a",
    "USE default ;; CREATE TABLE x (a INT) USING parquet LOCATION 'freshgate_storage.db/@T'",
    "ALTER TABLE @N.t SET LOCATION '../freshgate_storage.db/@T'",
    "ALTER DATABASE @N SET LOCATION '@D'",
    "CREATE DATABASE x LOCATION '@D/x'",
    "CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '@D/@T/freshgate_version=1') ;; INSERT INTO v VALUES (2, 'y')",
)
SWITCHES = (
    "SET spark.freshgate.guard.sha256= ;; DROP TABLE freshgate_storage.@T",
    "SET spark.freshgate.guard.database=x ;; DROP TABLE freshgate_storage.@T",
    "SET freshgate.guard.secret=x ;; DROP TABLE freshgate_storage.@T",
    "SET freshgate.guard.state=active ;; DROP TABLE freshgate_storage.@T",
    "SET spark.job.description=/* freshgate permits aaaa bbbb cccc */ ;; DROP TABLE freshgate_storage.@T",
    "SET spark.sql.optimizer.excludedRules=StorageGuard ;; DROP TABLE freshgate_storage.@T",
    "SET spark.sql.analyzer.singlePassResolver.enabledTentatively=true ;; DROP TABLE freshgate_storage.@T",
    "RESET ;; DROP TABLE freshgate_storage.@T",
)


@pytest.fixture(scope="module")
def hive_table(stored: Stored) -> None:
    stored.database.run("CREATE TABLE h (a INT) STORED AS PARQUET")


@pytest.mark.parametrize("attacks", [WRITES, CHANGES, VIEWS, DIRECTORIES, SWITCHES])
def test_what_the_gateway_stores_is_out_of_reach(attacks: tuple[str, ...], stored: Stored, hive_table: None) -> None:
    before, passed = stored.facts(), []
    for attack in attacks:
        state, message = attempt(stored.port, stored.filled(attack))
        if state != REFUSED or "only the gateway" not in message.lower():
            passed.append((attack, state, message))
    assert passed == []
    assert stored.facts() == before


HARMLESS = (
    "INSERT INTO @N.t SELECT a, b FROM @N.mv",
    "CREATE TABLE @N.copy USING parquet AS SELECT * FROM @N.mv ;; DROP TABLE @N.copy",
    "CREATE VIEW @N.above AS SELECT * FROM @N.mv ;; ALTER VIEW @N.above AS SELECT a FROM @N.mv ;; DROP VIEW @N.above",
    "CREATE VIEW @N.ratio COMMENT 'a * b / c' AS SELECT a * a AS s, a / a AS r FROM @N.t /* x */ ;; DROP VIEW @N.ratio",
    "CREATE VIEW @N.told (x COMMENT '@D', y) COMMENT '@D' AS SELECT '@D', 'freshgate_storage' ;; DROP VIEW @N.told",
    "ALTER TABLE @N.t CHANGE COLUMN a a INT COMMENT '@D'",
    "COMMENT ON TABLE @N.t IS '/' ;; ALTER TABLE @N.t ALTER COLUMN a COMMENT '@D' ;; COMMENT ON TABLE @N.t IS NULL",
    "CREATE DATABASE eve COMMENT '@D' ;; COMMENT ON DATABASE eve IS 'freshgate_storage' ;; DROP DATABASE eve",
    "CREATE TABLE @N.note (a INT COMMENT '/') USING parquet COMMENT '@D'"
    " ;; ALTER TABLE @N.note ADD COLUMNS (c INT COMMENT '@D') ;; DROP TABLE @N.note",
    "ALTER TABLE @N.t SET TBLPROPERTIES ('comment' = '@D')",
    "CREATE FUNCTION @N.g() RETURNS STRING COMMENT '@D' RETURN '@D' ;; DROP FUNCTION @N.g",
    "CREATE TEMPORARY VIEW mv AS SELECT 1 AS x ;; USE @N ;; ALTER VIEW mv AS SELECT 2 AS x ;; DROP VIEW mv",
    "USE @N ;; CREATE OR REPLACE TEMPORARY VIEW mv AS SELECT 1 AS x ;; DROP VIEW mv",
    "CACHE TABLE @N.mv ;; UNCACHE TABLE @N.mv",
    "REFRESH TABLE @N.mv",
    "DESCRIBE EXTENDED @N.mv",
    "SHOW TABLES IN freshgate_storage",
    "SHOW CREATE TABLE @N.mv",
    "EXPLAIN SELECT * FROM @N.mv",
    "BEGIN DECLARE y INT DEFAULT 1; INSERT INTO @N.t SELECT a, b FROM @N.mv WHERE a = y; END",
    "CREATE DATABASE eve ;; CREATE TABLE eve.x (a INT) USING parquet ;; DROP DATABASE eve CASCADE",
    "CREATE FUNCTION @N.f(x INT) RETURNS INT RETURN x ;; DROP FUNCTION @N.f",
)


def test_everything_else_works(stored: Stored) -> None:
    failed = [(text, got) for text in HARMLESS if (got := attempt(stored.port, stored.filled(text))) != (None, "")]
    assert failed == []


def test_a_client_can_neither_read_the_secret_nor_find_it_in_the_configuration(stored: Stored) -> None:
    with pyhive("127.0.0.1", stored.port, user="eve") as cursor:
        settings = dict(row[:2] for row in rows(cursor, "SET"))
        assert "freshgate.guard.secret" not in settings
        assert rows(cursor, "SELECT '${freshgate.guard.secret}'") == [("*********(redacted)",)]
        (hashed,) = rows(cursor, "SET spark.freshgate.guard.sha256")
    # Who has only the hash is nobody.
    attack = f"DROP TABLE freshgate_storage.{stored.table}"
    with (
        pyhive(
            "127.0.0.1", stored.port, user="eve", configuration={"set:hiveconf:freshgate.guard.secret": hashed[1]}
        ) as cursor,
        pytest.raises(OperationalError, match="only the gateway may change"),
    ):
        rows(cursor, attack)


def test_the_gateway_says_that_the_guard_is_there(rewriting: Seen) -> None:
    log = rewriting.gateway.log.read_text(encoding="utf-8")
    assert "Spark's guard protects the storage database freshgate_storage" in log


def test_a_session_that_hides_digits_in_texts_creates_views(stored: Stored) -> None:
    stored.database.run(
        "CREATE TABLE hidden (a INT) USING parquet",
        "INSERT INTO hidden VALUES (1)",
        "SET spark.sql.redaction.string.regex=[0-9]|[A-Za-z0-9+/_-]{16,}",
        "CREATE MATERIALIZED VIEW of_hidden AS SELECT a FROM hidden WHERE a = 1",
        "CREATE OR REPLACE MATERIALIZED VIEW of_hidden AS SELECT a + 1 AS a FROM hidden WHERE a = 1",
    )
    assert stored.database.rows("SELECT * FROM of_hidden") == [(2,)]
    stored.database.run("DROP MATERIALIZED VIEW of_hidden", "RESET spark.sql.redaction.string.regex")


def test_the_life_of_a_view(stored: Stored) -> None:
    """Each statement that the gateway runs in a client's own session needs a permit of the guard."""
    database = stored.database
    database.run(
        "CREATE TABLE base (a INT, d STRING) USING parquet",
        "INSERT INTO base VALUES (1, 'x'), (2, 'y')",
        "CREATE MATERIALIZED VIEW one COMMENT 'first' AS SELECT d, sum(a) AS n FROM base GROUP BY d -- one",
        "CREATE MATERIALIZED VIEW two USING orc PARTITIONED BY (d) AS SELECT a, d FROM base",
        "INSERT INTO base VALUES (3, 'x')",
        "REFRESH MATERIALIZED VIEW one",
        "ALTER MATERIALIZED VIEW one RENAME TO first",
        "ALTER MATERIALIZED VIEW first SET TBLPROPERTIES ('note' = 'x')",
        "CREATE OR REPLACE MATERIALIZED VIEW first AS SELECT d, max(a) AS n FROM base GROUP BY d",
        "CREATE MATERIALIZED VIEW other AS SELECT 'z' AS d, max(a) + 6 AS n FROM base",
        "ALTER MATERIALIZED VIEW first REPLACE WITH MATERIALIZED VIEW other",
    )
    assert database.rows("SELECT * FROM first") == [("z", 9)]
    assert database.rows("SELECT * FROM two") == [(1, "x"), (2, "y"), (3, "x")]
    database.run(*(f"DROP MATERIALIZED VIEW {name}" for name in ("first", "other", "two")))
