"""Tests CREATE, ALTER, REFRESH, SHOW, DESCRIBE, EXPLAIN and the catalog's tables on real Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from clients import Jdbc, beeline, pyhive, rows
from databases import Database
from processes import Gateway, wait_until
from pyhive.exc import OperationalError
from tiers import EVERYTHING, sampled

from gateway.errors import DefinitionRefused
from gateway.mv.statements.admission import check_whole
from sql.names import TableName


def refused(database: Database, sql: str) -> tuple[str, str]:
    """Runs a statement that must be refused; returns SQLSTATE and message."""
    with pytest.raises(OperationalError) as refusal:
        database.run(sql)
    status = refusal.value.args[0].status
    return status.sqlState, status.errorMessage


def described(database: Database, view: str) -> dict[str, str]:
    """Returns the details of DESCRIBE EXTENDED by name."""
    return {row[0]: row[1] for row in rows(database.cursor, f"DESCRIBE EXTENDED {view}")}


def infos(database: Database, columns: str, view: str = "m") -> tuple[Any, ...]:
    sql = f'SELECT {columns} FROM mv_infos("database"="{database.name}") WHERE Name = \'{view}\''
    (row,) = rows(database.cursor, sql)
    return tuple(row)


def tasks(database: Database, columns: str, view: str = "m") -> list[tuple[Any, ...]]:
    sql = (
        f'SELECT {columns} FROM tasks("type"="mv") '
        f"WHERE MvDatabaseName = '{database.name}' AND MvName = '{view}' ORDER BY TaskId"
    )
    return rows(database.cursor, sql)


@pytest.fixture
def base(database: Database) -> Database:
    """A database with a base table t that has two rows."""
    database.run("CREATE TABLE t (a INT, b STRING) USING parquet", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    return database


@pytest.fixture(scope="module")
def unchanged(shared: Database) -> Database:
    """The same for statements that are refused: they leave nothing behind."""
    shared.run("CREATE TABLE t (a INT, b STRING) USING parquet", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    return shared


# --- CREATE --------------------------------------------------------------------------------------------


def test_a_deferred_view_is_built_by_its_first_read(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m BUILD DEFERRED AS SELECT a FROM t")
    assert infos(base, "State, RefreshState, SyncWithBaseTables") == ("INIT", "INIT", False)
    assert base.version("m") == 0
    assert base.rows("SELECT a FROM m") == [(1,), (2,)]
    assert infos(base, "State, RefreshState, SyncWithBaseTables") == ("NORMAL", "SUCCESS", True)
    assert tasks(base, "Status, RefreshMode, Reason") == [("SUCCESS", "COMPLETE", "it has not been built yet")]


@pytest.mark.thorough
def test_a_deferred_view_on_manual_is_not_built_by_reads(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m BUILD DEFERRED REFRESH AUTO ON MANUAL AS SELECT a FROM t")
    sqlstate, message = refused(base, "SELECT a FROM m")
    assert sqlstate == "55000"
    assert f"REFRESH MATERIALIZED VIEW {base.name}.m" in message
    base.run("REFRESH MATERIALIZED VIEW m AUTO")
    assert base.rows("SELECT a FROM m") == [(1,), (2,)]


@pytest.mark.thorough
def test_with_no_data_empties_a_view(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m WHEN STALE FAIL AS SELECT a FROM t WITH DATA")
    assert base.rows("SELECT a FROM m") == [(1,), (2,)]
    base.run("REFRESH MATERIALIZED VIEW m WITH NO DATA")
    assert infos(base, "State") == ("INIT",)
    assert refused(base, "SELECT a FROM m")[0] == "55000"
    base.run("REFRESH MATERIALIZED VIEW CONCURRENTLY m WITH DATA")
    assert base.rows("SELECT a FROM m") == [(1,), (2,)]
    assert base.version("m") > 1


def test_each_change_of_a_view_is_logged(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW logged AS SELECT a FROM t")
    base.run("CREATE MATERIALIZED VIEW IF NOT EXISTS logged AS SELECT a FROM t")
    base.run("ALTER MATERIALIZED VIEW logged SET ('grace_period' = '1')", "DROP MATERIALIZED VIEW logged")
    base.run("DROP MATERIALIZED VIEW IF EXISTS logged")
    line = rf"INFO .*: (\w+) the materialized view {base.name}\.logged for tester in \d+\.\d\d s"
    assert re.findall(line, base.gateway.log.read_text(encoding="utf-8")) == ["Created", "Altered", "Dropped"]


@pytest.mark.thorough
def test_storage_clauses_determine_format_location_and_buckets(base: Database, direct: Any, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    base.run(
        f"CREATE MATERIALIZED VIEW m USING orc LOCATION '{place}' DISTRIBUTED BY HASH(a) BUCKETS 2 "
        "CLUSTER BY (b) AS SELECT a, b FROM t"
    )
    assert base.rows("SELECT a, b FROM m") == [(1, "x"), (2, "y")]
    assert list(place.rglob("*.orc"))
    base.run("INSERT INTO t VALUES (3, 'z')")
    assert base.rows("SELECT a, b FROM m") == [(1, "x"), (2, "y"), (3, "z")]
    storage = described(base, "m")["Storage Table"]
    assert ("Num Buckets", "2") in [row[:2] for row in rows(direct, f"DESCRIBE EXTENDED {storage}")]
    base.run("DROP MATERIALIZED VIEW m")
    assert not list(place.rglob("*.orc"))


@pytest.mark.parametrize(
    ("clause", "sqlstate", "expected"),
    [
        ("PARTITION BY (nope)", "42703", "nope"),
        ("PARTITION BY (date_trunc(a, 'month'))", "42P16", "only support"),
        ("DISTRIBUTED BY HASH(nope) BUCKETS 2", "42703", "nope"),
        ("PARTITION BY (date_trunc(a, 'minute'))", "22023", "minute"),
        ("PROPERTIES ('grace_perod' = '1')", "22023", "grace_period"),
        ("PROPERTIES ('grace_period' = 'soon')", "22023", "valid grace_period"),
        ("USING csv", "42601", "csv"),
    ],
)
def test_an_invalid_clause_is_refused_by_name(unchanged: Database, clause: str, sqlstate: str, expected: str) -> None:
    found, message = refused(unchanged, f"CREATE MATERIALIZED VIEW m {clause} AS SELECT a FROM t")
    assert expected in message
    assert found == sqlstate
    assert rows(unchanged.cursor, "SHOW MATERIALIZED VIEWS") == []


CHANGING = [
    *("rand()", "uuid()", "current_date()", "current_timestamp", "now()", "current_user()", "current_database()"),
    *("to_date('today')", "CAST('now' AS TIMESTAMP)", "reflect('java.util.UUID', 'randomUUID')"),
    *("CAST(lower('TODAY') AS DATE)", "year('today')", "aes_encrypt(string(a), '0000111122223333')"),
    "_metadata.file_name",
]


@pytest.mark.parametrize("expression", sampled(CHANGING, {CHANGING[0], CHANGING[-1]}))
def test_an_expression_that_changes_without_a_write_is_refused(unchanged: Database, expression: str) -> None:
    sqlstate, message = refused(unchanged, f"CREATE MATERIALIZED VIEW m AS SELECT a, {expression} AS x FROM t")
    assert sqlstate == "42P16"
    assert "nonDeterministic" in message


def test_a_plan_of_which_spark_shows_only_the_beginning_is_refused(unchanged: Database) -> None:
    unchanged.run("SET spark.sql.maxPlanStringLength=200")
    ((plan,),) = rows(unchanged.cursor, "EXPLAIN EXTENDED SELECT a, a + 1 AS b, rand() AS r FROM t")
    unchanged.run("RESET spark.sql.maxPlanStringLength")
    with pytest.raises(DefinitionRefused, match="not show it whole"):
        check_whole(TableName("db", "m"), plan)
    ((plan,),) = rows(unchanged.cursor, "EXPLAIN EXTENDED SELECT a, a + 1 AS b FROM t")
    check_whole(TableName("db", "m"), plan)


@pytest.mark.thorough
def test_nondeterministic_functions_are_found_in_views_and_not_in_strings(base: Database) -> None:
    base.run(
        "CREATE FUNCTION drawn AS 'org.apache.hadoop.hive.ql.udf.UDFUUID'", "CREATE VIEW w AS SELECT DATE 'today' d"
    )
    assert "UDFUUID" in refused(base, "CREATE MATERIALIZED VIEW m AS SELECT drawn() AS x FROM t")[1]
    assert "'today'" in refused(base, "CREATE MATERIALIZED VIEW m AS SELECT a, d FROM t, w")[1]
    base.run("CREATE VIEW v AS SELECT a, rand() AS r FROM t", "CREATE TABLE u (user STRING, now INT) USING parquet")
    assert "rand()" in refused(base, "CREATE MATERIALIZED VIEW m AS SELECT r FROM v")[1]
    assert "TABLESAMPLE" in refused(base, "CREATE MATERIALIZED VIEW m AS SELECT a FROM t TABLESAMPLE (10 PERCENT)")[1]
    assert (
        "rand()"
        in refused(
            base,
            "CREATE MATERIALIZED VIEW m PROPERTIES ('enable_nondeterministic_function' = 'true') "
            "AS SELECT rand() AS r, current_date() AS d FROM t",
        )[1]
    )
    base.run(
        "CREATE MATERIALIZED VIEW m AS SELECT user, now, 'rand() and now()' AS s FROM u",
        "CREATE MATERIALIZED VIEW d PROPERTIES ('enable_nondeterministic_function' = 'true') "
        "AS SELECT a, current_date() AS d FROM t",
    )
    assert len(base.rows("SELECT d FROM d")) == 2


def test_select_star_is_expanded_at_creation(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT * FROM t", "ALTER TABLE t ADD COLUMN c INT")
    base.run("INSERT INTO t VALUES (3, 'z', 9)")
    assert base.rows("SELECT * FROM m") == [(1, "x"), (2, "y"), (3, "z")]
    assert infos(base, "State") == ("NORMAL",)


@pytest.mark.parametrize(
    ("properties", "expression", "cause"),
    [
        ("", "CAST(b AS INT)", "[CAST_INVALID_INPUT]"),
        ("PROPERTIES ('session.spark.sql.shuffle.partitions' = 'many')", "a", "[INVALID_CONF_VALUE.TYPE_MISMATCH]"),
    ],
)
def test_a_view_that_cannot_be_built_is_named(
    unchanged: Database, properties: str, expression: str, cause: str
) -> None:
    message = refused(unchanged, f"CREATE MATERIALIZED VIEW m {properties} AS SELECT {expression} AS n FROM t")[1]
    assert (
        f"The materialized view {unchanged.name}.m was not created; nothing has changed. Fix the cause, then" in message
    )
    assert f"Spark said: {cause}" in message
    assert rows(unchanged.cursor, f'SELECT Name FROM mv_infos("database"="{unchanged.name}")') == []


# --- WHEN STALE ----------------------------------------------------------------------------------------


def test_reads_of_stale_views_follow_when_stale(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW serving WHEN STALE SERVE AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW inlining WHEN STALE INLINE AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW failing WHEN STALE FAIL AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW manual REFRESH COMPLETE ON MANUAL AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW tolerant GRACE PERIOD INTERVAL '1' HOUR AS SELECT a FROM t",
        "INSERT INTO t VALUES (3, 'z')",
    )
    for view in ("serving", "manual", "tolerant"):
        assert base.rows(f"SELECT a FROM {view}") == [(1,), (2,)], view
        base.cursor.execute(f"SELECT a FROM {view}")
        said = f"materialized view {base.name}.{view} are stale: {base.name}.t has changed; the view is"
        assert [line for line in base.cursor.fetch_logs() if said in line], view
    assert base.freshness("tolerant") == "FRESH_WITHIN_GRACE"
    assert base.freshness("serving") == "STALE"
    sqlstate, message = refused(base, "SELECT a FROM failing")
    assert sqlstate == "55000"
    assert f"{base.name}.t has changed" in message
    all_rows = [(1,), (2,), (3,)]
    assert base.rows("SELECT a FROM inlining") == all_rows
    assert base.rows("TABLE /* of numbers */ inlining") == all_rows
    assert base.rows(f"SELECT i.a FROM {base.name}.inlining i JOIN inlining ON i.a = inlining.a") == all_rows
    assert base.rows("WITH c AS (SELECT a FROM inlining) SELECT inlining.a FROM c AS inlining") == all_rows
    assert base.version("inlining") == 1
    base.run("CREATE TEMPORARY VIEW inlining AS SELECT 42 AS a")
    assert base.rows("SELECT a FROM inlining") == [(42,)]
    base.run("DROP VIEW inlining", "INSERT INTO t VALUES (4, 'w')")
    # If the view cannot be replaced by its definition, it is refreshed.
    assert base.rows(f"SELECT {base.name} /* . */ . inlining . a FROM {base.name}.inlining") == [*all_rows, (4,)]
    assert base.version("inlining") == 2


@pytest.mark.thorough
def test_inline_also_inlines_the_views_below(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW low WHEN STALE SERVE AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW high WHEN STALE INLINE AS SELECT max(a) AS top FROM low",
        "INSERT INTO t VALUES (9, 'z')",
    )
    assert base.rows("SELECT top FROM high") == [(9,)]
    assert base.version("high") == 1


@pytest.mark.thorough
def test_views_whose_names_are_computed_are_refreshed_before_the_read(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW m BUILD DEFERRED WHEN STALE SERVE AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW f WHEN STALE FAIL AS SELECT a FROM t",
        "INSERT INTO t VALUES (3, 'z')",
    )
    all_rows = [(1,), (2,), (3,)]
    assert base.rows(f"SELECT a FROM IDENTIFIER('{base.name}.' || 'm')") == all_rows
    assert base.rows(f"EXECUTE IMMEDIATE 'SELECT a FROM {base.name}.' || 'f'") == all_rows


# --- ALTER ---------------------------------------------------------------------------------------------


def test_a_renamed_view_keeps_its_rows_and_properties(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW m COMMENT 'mine' TBLPROPERTIES ('team' = 'sales') AS SELECT a FROM t",
        "ALTER MATERIALIZED VIEW m RENAME TO renamed",
        "INSERT INTO t VALUES (3, 'z')",
    )
    assert base.rows("SELECT a FROM renamed") == [(1,), (2,), (3,)]
    assert refused(base, "SELECT a FROM m")[0] == "42P01"
    assert dict(base.rows("SHOW TBLPROPERTIES renamed"))["team"] == "sales"
    assert described(base, "renamed")["Comment"] == "mine"
    base.run("ALTER VIEW renamed RENAME TO again")
    assert [row[1] for row in rows(base.cursor, "SHOW MATERIALIZED VIEWS")] == ["again"]
    assert refused(base, "ALTER MATERIALIZED VIEW again RENAME t")[0] == "42P07"
    assert refused(base, "ALTER MATERIALIZED VIEW again RENAME TO default.elsewhere")[0] == "0A000"
    assert refused(base, "ALTER MATERIALIZED VIEW missing RENAME x")[0] == "42P01"
    base.run("ALTER MATERIALIZED VIEW IF EXISTS missing RENAME x")


@pytest.mark.thorough
def test_replace_with_swaps_or_drops_the_other_view(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW m1 COMMENT 'one' AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW m2 COMMENT 'two' AS SELECT b, count(*) AS n FROM t GROUP BY b",
        "CREATE MATERIALIZED VIEW above AS SELECT count(*) AS n FROM m1",
        "ALTER MATERIALIZED VIEW m1 REPLACE WITH MATERIALIZED VIEW m2",
    )
    assert base.rows("SELECT * FROM m1") == [("x", 1), ("y", 1)]
    assert base.rows("SELECT * FROM m2") == [(1,), (2,)]
    assert described(base, "m1")["Comment"] == "two"
    base.run("INSERT INTO t VALUES (3, 'y')")
    assert base.rows("SELECT * FROM m1") == [("x", 1), ("y", 2)]
    assert base.rows("SELECT * FROM m2") == [(1,), (2,), (3,)]
    assert base.rows("SELECT n FROM above") == [(2,)]
    base.run("ALTER MATERIALIZED VIEW m1 REPLACE WITH MATERIALIZED VIEW m2 PROPERTIES ('swap' = 'false')")
    assert base.rows("SELECT * FROM m1") == [(1,), (2,), (3,)]
    assert refused(base, "SELECT * FROM m2")[0] == "42P01"
    assert [row[1] for row in rows(base.cursor, "SHOW MATERIALIZED VIEWS")] == ["above", "m1"]
    assert base.rows("SELECT n FROM above") == [(3,)]
    assert refused(base, "ALTER MATERIALIZED VIEW m1 REPLACE WITH MATERIALIZED VIEW above")[0] == "42P19"


@pytest.mark.thorough
def test_views_over_swapped_views_are_stale_after_a_restart(base: Database, start_gateway: Any) -> None:
    first = start_gateway()
    with pyhive(first.host, first.port, database=base.name) as cursor:
        for sql in (
            "CREATE MATERIALIZED VIEW ma AS SELECT a, 'A' AS who FROM t",
            "CREATE MATERIALIZED VIEW mb AS SELECT a + 100 AS a, 'B' AS who FROM t",
            "CREATE MATERIALIZED VIEW up AS SELECT * FROM ma",
            "CREATE VIEW sv AS SELECT * FROM ma",
            "CREATE MATERIALIZED VIEW up2 AS SELECT * FROM sv",
            "ALTER MATERIALIZED VIEW ma SWAP WITH mb",
        ):
            rows(cursor, sql)
    assert first.stop() == 0
    again = start_gateway()
    with pyhive(again.host, again.port, database=base.name) as cursor:
        for view in ("up", "up2"):
            assert sorted(rows(cursor, f"SELECT * FROM {view}")) == [(101, "B"), (102, "B")]
        for view in ("up", "up2", "ma", "mb"):
            rows(cursor, f"DROP MATERIALIZED VIEW {view}")


@pytest.mark.thorough
def test_a_view_over_two_swapped_views_is_refreshed(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW ma AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW mb AS SELECT a + 100 AS a FROM t",
        "CREATE MATERIALIZED VIEW both AS SELECT 'A' AS who, max(a) AS a FROM ma UNION ALL SELECT 'B', max(a) FROM mb",
        "CREATE MATERIALIZED VIEW asked AS SELECT * FROM ma UNION ALL SELECT a + 1000 FROM mb",
        "ALTER MATERIALIZED VIEW ma SWAP WITH mb",
    )
    assert base.rows("SELECT who, a FROM both") == [("A", 102), ("B", 2)]
    assert base.freshness("both") == "FRESH"
    base.run("REFRESH MATERIALIZED VIEW asked AUTO")
    assert base.rows("SELECT a FROM asked") == [(1001,), (1002,), (101,), (102,)]
    base.run("ALTER MATERIALIZED VIEW ma SWAP WITH mb")
    assert base.rows("SELECT who, a FROM both") == [("A", 2), ("B", 102)]
    base.run(*(f"DROP MATERIALIZED VIEW {view}" for view in ("both", "asked", "ma", "mb")))


@pytest.mark.thorough
def test_changed_names_and_properties_survive_a_restart(base: Database, start_gateway: Any) -> None:
    first = start_gateway()
    with pyhive(first.host, first.port, database=base.name) as cursor:
        for sql in (
            "CREATE MATERIALIZED VIEW r1 AS SELECT a FROM t",
            "CREATE MATERIALIZED VIEW r2 AS SELECT b FROM t",
            "ALTER MATERIALIZED VIEW r1 REPLACE WITH MATERIALIZED VIEW r2",
            "ALTER MATERIALIZED VIEW r2 RENAME r3",
            "ALTER MATERIALIZED VIEW r3 SET ('grace_period' = '3333')",
            "REFRESH MATERIALIZED VIEW r3",
        ):
            rows(cursor, sql)
    assert first.stop() == 0
    again = start_gateway()
    with pyhive(again.host, again.port, database=base.name) as cursor:
        rows(cursor, "INSERT INTO t VALUES (7, 'seven')")
        assert sorted(rows(cursor, "SELECT * FROM r1")) == [("seven",), ("x",), ("y",)]
        assert dict(rows(cursor, "SHOW TBLPROPERTIES r3")) == {"grace_period": "3333"}
        assert sorted(rows(cursor, "SELECT * FROM r3")) == [(1,), (2,)]
        found = rows(cursor, "SELECT Status FROM tasks('type'='mv') WHERE MvName = 'r3' ORDER BY TaskId")
        assert found == [("SUCCESS",), ("SUCCESS",)]
        for view in ("r1", "r3"):
            rows(cursor, f"DROP MATERIALIZED VIEW {view}")


def test_properties_can_be_set_and_unset(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW m TBLPROPERTIES ('team' = 'sales') AS SELECT a FROM t",
        'ALTER MATERIALIZED VIEW m SET ("grace_period"="3333")',
        "ALTER MATERIALIZED VIEW m SET TBLPROPERTIES ('a.b' = '1')",
        "ALTER TABLE m SET TBLPROPERTIES ('c' = '2')",
        "ALTER MATERIALIZED VIEW m UNSET TBLPROPERTIES ('team')",
        "ALTER MATERIALIZED VIEW m DISABLE REWRITE",
        "ALTER MATERIALIZED VIEW m REFRESH COMPLETE ON SCHEDULE EVERY 2 HOUR STARTS '2999-01-01 00:00:00'",
        "COMMENT ON MATERIALIZED VIEW m IS 'new'",
    )
    expected = {"grace_period": "3333", "a.b": "1", "c": "2", "use_for_rewrite": "false"}
    assert dict(base.rows("SHOW TBLPROPERTIES m")) == expected
    assert base.rows("SHOW TBLPROPERTIES m ('a.b')") == [("a.b", "1")]
    assert described(base, "m")["Comment"] == "new"
    (shown,) = rows(base.cursor, "SHOW MATERIALIZED VIEWS LIKE 'm'")
    assert shown[6:] == ("Refresh by schedule (Valid for 3333s)", "new", "DEFINER", None, "RUNNING")
    info = 'BUILD IMMEDIATE REFRESH COMPLETE ON SCHEDULE EVERY 2 HOUR STARTS "2999-01-01 00:00:00"'
    assert infos(base, "RefreshInfo") == (info,)
    base.run("ALTER MATERIALIZED VIEW m REFRESH AUTO", "COMMENT ON TABLE m IS NULL")
    assert infos(base, "RefreshInfo") == (info.replace("COMPLETE", "AUTO"),)
    assert "Comment" not in described(base, "m")
    for sql, message in (
        ("ALTER MATERIALIZED VIEW m SET ('nonsense' = '1')", "illegal key:nonsense"),
        ("ALTER MATERIALIZED VIEW m SET ('grace_period' = 'x')", "valid grace_period"),
        ("ALTER MATERIALIZED VIEW m UNSET TBLPROPERTIES ('nonsense')", "nonsense"),
        ("ALTER MATERIALIZED VIEW m SET TBLPROPERTIES ('location' = '/x')", "location"),
        ("ALTER TABLE m SET TBLPROPERTIES ('view.query.out.numCols' = '7')", "view.query.out.numCols"),
    ):
        assert message in refused(base, sql)[1]


def in_memory(database: Database, view: str = "m") -> tuple[Any, ...]:
    """Returns what the catalog's table says of the view: state, who asks for it, rows."""
    columns = "memory, memory_asked_by, memory_rows"
    where = f"database_name = '{database.name}' AND name = '{view}'"
    return tuple(rows(database.cursor, f"SELECT {columns} FROM freshgate.materialized_views WHERE {where}")[0])


def test_a_view_in_memory_follows_its_versions(base: Database) -> None:
    """Loaded as a whole, then with the rows of one partition, then with added rows; and dropped."""
    base.run(
        "CREATE TABLE p (n INT, day DATE) USING parquet PARTITIONED BY (day)",
        "INSERT INTO p VALUES (1, DATE '2024-01-01'), (2, DATE '2024-01-02'), (3, NULL)",
        "CREATE MATERIALIZED VIEW m PARTITION BY (day) IN MEMORY AS SELECT n, day FROM p",
        "CREATE MATERIALIZED VIEW added IN MEMORY REFRESH INCREMENTAL AS SELECT a, b FROM t",
    )
    wait_until(lambda: in_memory(base) == ("LOADED", "VIEW", 3) and in_memory(base, "added") == ("LOADED", "VIEW", 2))
    assert described(base, "m")["In Memory"].startswith("LOADED: version 1, 3 rows, ")
    assert "'in_memory' = 'true'" in base.rows("SHOW CREATE MATERIALIZED VIEW m")[0][1]
    base.run(
        "INSERT OVERWRITE p PARTITION (day = DATE '2024-01-02') VALUES (4), (5), (6)",
        "INSERT INTO t VALUES (3, 'z')",
        "REFRESH MATERIALIZED VIEW m AUTO",
        "REFRESH MATERIALIZED VIEW added INCREMENTAL",
    )
    wait_until(lambda: in_memory(base) == ("LOADED", "VIEW", 5) and in_memory(base, "added") == ("LOADED", "VIEW", 3))
    log = base.gateway.log.read_text(encoding="utf-8")
    of_changes = re.findall(rf"of {base.name}\.(\w+) is in memory: .* those that have changed", log)
    assert sorted(of_changes) == ["added", "m"]
    base.run("ALTER MATERIALIZED VIEW m UNSET IN MEMORY", "ALTER MATERIALIZED VIEW added SET NOT IN MEMORY")
    assert in_memory(base) == in_memory(base, "added") == (None, None, None)


# --- REFRESH -------------------------------------------------------------------------------------------


FURTHER_REFRESHES = (
    [
        *(f"REFRESH MATERIALIZED VIEW m {form}" for form in ("COMPLETE", "FULL", "PARTITION m", "SYNC", "WITH DATA")),
        "ALTER MATERIALIZED VIEW m REBUILD",
    ]
    if EVERYTHING
    else []
)
"""The grammar reads them as the others: tests/sql/test_parser.py."""


def test_every_form_of_refresh_works(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m WHEN STALE SERVE AS SELECT a FROM t")
    base.run("REFRESH MATERIALIZED VIEW m AUTO")
    assert base.version("m") == 1
    forms = ("REFRESH MATERIALIZED VIEW m", "REFRESH MATERIALIZED VIEW m PARTITIONS (m)", *FURTHER_REFRESHES)
    for number, form in enumerate(forms, 2):
        base.run(form)
        assert base.version("m") == number, form
    last = len(forms) + 1
    assert refused(base, "REFRESH MATERIALIZED VIEW m PARTITIONS (p_x)")[0] == "42704"
    modes = [row[0] for row in tasks(base, "RefreshMode")]
    assert modes == ["COMPLETE", "NOT_REFRESH", *["COMPLETE"] * len(forms)]
    assert "partitions were asked for" in tasks(base, "Reason")[3][0]
    base.run("INSERT INTO t VALUES (3, 'z')")
    (started,) = rows(base.cursor, "REFRESH MATERIALIZED VIEW m ASYNC")
    wait_until(lambda: base.version("m") == last + 1, what="the refresh in the background")
    task = tasks(base, "TaskId, Status, TriggeredBy, Progress")[-1]
    assert task == (str(started[0]), "SUCCESS", "tester", "100.00% (1/1)")


@pytest.mark.thorough
def test_a_failed_task_has_a_reason_and_survives_a_restart(base: Database, start_gateway: Any) -> None:
    first = start_gateway()
    with pyhive(first.host, first.port, database=base.name) as cursor:
        rows(cursor, "CREATE MATERIALIZED VIEW m AS SELECT a FROM t")
        rows(cursor, "DROP TABLE t")
        with pytest.raises(OperationalError):
            rows(cursor, "REFRESH MATERIALIZED VIEW m")
        last = "SELECT Status, ErrorMsg FROM tasks('type'='mv') WHERE MvName = 'm' ORDER BY TaskId DESC LIMIT 1"
        (before,) = rows(cursor, last)
    assert before[0] == "FAILED"
    assert f"{base.name}`.`t`" in before[1] or "`t`" in before[1]
    assert first.stop() == 0
    again = start_gateway()
    with pyhive(again.host, again.port, database=base.name) as cursor:
        assert rows(cursor, last) == [before]
        assert rows(cursor, f'SELECT RefreshState FROM mv_infos("database"="{base.name}")') == [("FAIL",)]
        rows(cursor, "DROP MATERIALIZED VIEW m")


# --- SHOW and DESCRIBE ---------------------------------------------------------------------------------


def test_show_create_recreates_the_same_view(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW m (k COMMENT 'it''s', v) BUILD DEFERRED REFRESH AUTO ON SCHEDULE EVERY 1 DAY "
        "DUPLICATE KEY (k) COMMENT 'c' PARTITIONED BY (k) DISTRIBUTED BY RANDOM BUCKETS 2 "
        "PROPERTIES ('replication_num' = '1', 'grace_period' = '5') STORED AS orc "
        "AS WITH c AS (SELECT * FROM t) SELECT c.a, x.b FROM c JOIN t AS x ON c.a = x.a"
    )
    ((name, text),) = rows(base.cursor, "SHOW CREATE MATERIALIZED VIEW m")
    assert name == "m"
    base.run("DROP MATERIALIZED VIEW m", "USE default", text, f"USE {base.name}")
    assert rows(base.cursor, "SHOW CREATE MATERIALIZED VIEW m") == [(name, text)]
    for statement in ("SHOW CREATE TABLE m", f"SHOW CREATE VIEW {base.name}.m", "show create table m;"):
        assert rows(base.cursor, statement) == [(text,)]
    base.run("REFRESH MATERIALIZED VIEW m")
    assert base.rows("SELECT k, v FROM m") == [(1, "x"), (2, "y")]


@pytest.mark.thorough
def test_show_create_of_an_expanded_star_lists_the_columns(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT * FROM t", "ALTER TABLE t ADD COLUMN c INT")
    assert base.freshness("m") == "FRESH"
    ((_, text),) = rows(base.cursor, "SHOW CREATE MATERIALIZED VIEW m")
    base.run("DROP MATERIALIZED VIEW m", text)
    assert [row[0] for row in rows(base.cursor, "DESCRIBE m")] == ["a", "b"]
    assert rows(base.cursor, "SHOW CREATE MATERIALIZED VIEW m") == [("m", text)]


def test_describe_shows_columns_and_details(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m (k COMMENT 'the key', v) AS SELECT a, b FROM t")
    columns = [("k", "int", "the key"), ("v", "string", None)]
    for form in ("DESCRIBE m", "DESC TABLE m", "DESCRIBE MATERIALIZED VIEW m", "DESCRIBE QUERY SELECT * FROM m"):
        assert rows(base.cursor, form) == columns, form
    for form in ("DESCRIBE EXTENDED m", "DESC FORMATTED m", "DESCRIBE EXTENDED MATERIALIZED VIEW m"):
        assert rows(base.cursor, form)[:2] == columns
        details = {row[0]: row[1] for row in rows(base.cursor, form)}
        assert details["Type"] == "MATERIALIZED_VIEW"
        assert details["View Text"] == "SELECT a, b FROM t"
        assert details["Base Tables"] == f"{base.name}.t"
        assert details["Freshness"] == "FRESH"
    ((text,),) = rows(base.cursor, "DESCRIBE TABLE EXTENDED m AS JSON")
    assert [column["name"] for column in json.loads(text)["columns"]] == ["k", "v"]


def test_listings_include_views_but_not_the_storage(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t", "CREATE VIEW v AS SELECT a FROM t")
    assert {row[1] for row in rows(base.cursor, "SHOW TABLES")} == {"t", "m", "v"}
    assert {row[1] for row in rows(base.cursor, f"SHOW VIEWS IN {base.name}")} == {"m", "v"}
    for form in ("SHOW DATABASES", "SHOW SCHEMAS LIKE '*'", "/* x */ show namespaces"):
        names = {row[0] for row in rows(base.cursor, form)}
        assert base.name in names, form
        assert "freshgate_storage" not in names, form


@pytest.mark.thorough
def test_partitions_without_a_followed_table_are_listed(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT, d DATE, s STRING) USING parquet",
        "INSERT INTO t VALUES (1, DATE'2023-10-17', 'bj'), (2, DATE'2023-10-17', NULL), (3, DATE'2023-11-01', '')",
        "CREATE MATERIALIZED VIEW by_day PARTITIONED BY (d) AS SELECT a, d FROM t",
        "CREATE MATERIALIZED VIEW by_month PARTITIONED BY (date_trunc(`d`,'month')) AS SELECT a, d FROM t",
        "CREATE MATERIALIZED VIEW by_text BUILD DEFERRED PARTITIONED BY (s) AS SELECT a, s FROM t",
        "CREATE MATERIALIZED VIEW whole AS SELECT a FROM t",
    )

    def shown(view: str) -> list[tuple[Any, ...]]:
        return [(row[1], row[6], row[7], row[9]) for row in rows(database.cursor, f"SHOW PARTITIONS FROM {view}")]

    assert shown("by_day") == [
        ("p_20231017_20231018", "[('2023-10-17'), ('2023-10-18'))", True, 2),
        ("p_20231101_20231102", "[('2023-11-01'), ('2023-11-02'))", True, 1),
    ]
    assert [row[0] for row in shown("by_month")] == ["p_20231001_20231101", "p_20231101_20231201"]
    assert [row[0] for row in shown("by_text")] == ["p_NULL", "p_", "p_bj"]
    assert shown("whole") == [("whole", "", True, 3)]
    database.run("REFRESH MATERIALIZED VIEW by_day PARTITIONS (p_20231017_20231018, p_20231101_20231102)")
    database.run("REFRESH MATERIALIZED VIEW by_day PARTITION (d = '2023-11-01')")
    assert "partition not exist: a=1" in refused(database, "REFRESH MATERIALIZED VIEW by_day PARTITION (a = 1)")[1]
    assert "partition not exist: p_1" in refused(database, "REFRESH MATERIALIZED VIEW by_day PARTITIONS (p_1)")[1]
    database.run("INSERT INTO t VALUES (4, DATE'2023-11-01', 'x')")
    assert {row[2] for row in shown("by_day")} == {False}


def test_analyze_counts_the_stored_rows(base: Database, direct: Any) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t", "ANALYZE TABLE m COMPUTE STATISTICS")
    storage = described(base, "m")["Storage Table"]
    statistics = dict(row[:2] for row in rows(direct, f"DESCRIBE EXTENDED {storage}"))["Statistics"]
    assert "2 rows" in statistics
    base.run("ANALYZE TABLE m COMPUTE STATISTICS FOR ALL COLUMNS")


def test_drop_view_drops_and_drop_table_names_the_right_statement(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t")
    sqlstate, message = refused(base, "DROP TABLE m")
    assert sqlstate == "42809"
    assert f"DROP MATERIALIZED VIEW {base.name}.m" in message
    base.run("DROP VIEW IF EXISTS m")
    assert rows(base.cursor, "SHOW MATERIALIZED VIEWS") == []
    assert base.rows("SHOW TABLES IN freshgate_storage LIKE '" + base.name + "*'") == []


# --- EXPLAIN -------------------------------------------------------------------------------------------


def test_explain_shows_the_plan_of_refresh_and_create(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW low AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW m AS SELECT max(a) AS top FROM low",
    )

    def plan(sql: str) -> str:
        return "\n".join(row[0] for row in rows(base.cursor, sql))

    assert "NOT_REFRESH" in plan("EXPLAIN REFRESH MATERIALIZED VIEW m AUTO")
    base.run("INSERT INTO t VALUES (3, 'z')")
    shown = plan("EXPLAIN REFRESH MATERIALIZED VIEW m AUTO")
    assert f"first: REFRESH MATERIALIZED VIEW {base.name}.low" in shown
    assert "INSERT OVERWRITE" in shown
    assert "ALTER VIEW" in shown
    assert base.freshness("m") == "STALE"
    shown = plan("EXPLAIN CREATE MATERIALIZED VIEW x REFRESH AUTO ON MANUAL AS SELECT a FROM t")
    assert f"reads: {base.name}.t" in shown
    assert "when stale: SERVE" in shown
    assert "FileScan parquet" in shown
    assert refused(base, "EXPLAIN CREATE MATERIALIZED VIEW m AS SELECT a FROM t")[0] == "42P07"
    for sql, sqlstate in (
        ("EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT nope FROM t", "42703"),
        ("EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT a FROM missing", "42P01"),
        ("EXPLAIN CREATE MATERIALIZED VIEW x PARTITION BY (nope) AS SELECT a FROM t", "42703"),
        ("EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT rand() AS r FROM t", "42P16"),
    ):
        assert refused(base, sql)[0] == sqlstate
    assert len(rows(base.cursor, "SHOW MATERIALIZED VIEWS")) == 2


# --- the catalog as tables -----------------------------------------------------------------------------


def test_doris_table_functions_work_in_any_query(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m PROPERTIES ('grace_period' = '7') AS SELECT a FROM t")
    (row,) = rows(base.cursor, f'select * from mv_infos("database"="{base.name}") where Name="m"')
    assert len(row) == 12
    assert row[1] == "m"
    assert row[2].startswith("inner_mtmv_")
    assert row[7:11] == (
        "SELECT a FROM t",
        f"EnvInfo{{ctlId='spark_catalog', dbId='{base.name}'}}",
        "{grace_period=7}",
        "MTMVPartitionInfo{partitionType=SELF_MANAGE}",
    )
    joined = rows(
        base.cursor,
        'WITH j AS (SELECT * FROM jobs("type"="mv")) SELECT j.ExecuteType, j.RecurringStrategy, j.Status, t.Status '
        'FROM j JOIN tasks("type"="mv") t ON t.JobId = j.Id WHERE j.MvName = \'m\' '
        f"AND j.MvDatabaseName = '{base.name}'",
    )
    assert joined == [("MANUAL", "MANUAL TRIGGER", "RUNNING", "SUCCESS")]
    base.run('CREATE TABLE kept AS SELECT Name FROM mv_infos("database"="' + base.name + '")')
    assert base.rows("SELECT * FROM kept") == [("m",)]
    assert refused(base, "SELECT * FROM mv_infos()")[0] == "22023"
    assert "type" in refused(base, 'SELECT * FROM jobs("type"="insert")')[1]
    assert refused(base, 'CREATE VIEW pv AS SELECT * FROM tasks("type"="mv")')[0] == "0A000"


@pytest.mark.thorough
def test_the_catalog_table_shows_freshness_size_and_refreshes(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m WHEN STALE SERVE AS SELECT a FROM t", "INSERT INTO t VALUES (3, 'z')")
    select = (
        "SELECT freshness, stale_because, state, version, row_count, size_bytes > 0, versions_kept >= 1, base_tables, "
        "last_refresh_method, last_task_status, last_refresh_ms > 0, owner, is_refreshing, stale_since IS NOT NULL "
        f"FROM freshgate.materialized_views WHERE database_name = '{base.name}' AND name = 'm'"
    )
    (row,) = rows(base.cursor, select)
    assert row[:8] == ("STALE", f"{base.name}.t has changed", "NORMAL", 1, 2, True, True, f"{base.name}.t")
    assert row[8:] == ("COMPLETE", "SUCCESS", True, "tester", False, True)
    base.run("REFRESH MATERIALIZED VIEW m")
    assert rows(base.cursor, select)[0][:5] == ("FRESH", None, "NORMAL", 2, 3)


# --- State ---------------------------------------------------------------------------------------------


def test_the_state_follows_the_base_tables(base: Database) -> None:
    state = "State, RefreshState, SyncWithBaseTables"
    base.run("CREATE MATERIALIZED VIEW m REFRESH AUTO ON MANUAL AS SELECT a FROM t")
    assert infos(base, state) == ("NORMAL", "SUCCESS", True)
    base.run("ALTER TABLE t ADD COLUMN c INT")
    assert infos(base, "State, RefreshState") == ("NORMAL", "SUCCESS")
    base.run("ALTER TABLE t RENAME TO moved")
    assert infos(base, state) == ("SCHEMA_CHANGE", "SUCCESS", False)
    assert f"{base.name}.t was dropped or renamed" in infos(base, "SchemaChangeDetail")[0]
    assert base.rows("SELECT a FROM m") == [(1,), (2,)]
    assert "t" in refused(base, "REFRESH MATERIALIZED VIEW m")[1]
    base.run("ALTER TABLE moved RENAME TO t", "REFRESH MATERIALIZED VIEW m")
    assert infos(base, state) == ("NORMAL", "SUCCESS", True)
    base.run("DROP TABLE t", "CREATE TABLE t (a BIGINT) USING parquet", "INSERT INTO t VALUES (5000000000)")
    assert infos(base, "State") == ("SCHEMA_CHANGE",)
    sqlstate, message = refused(base, "REFRESH MATERIALIZED VIEW m")
    assert sqlstate == "22003"
    assert re.search("What it reads has changed: .* was replaced .* CREATE OR REPLACE MATERIALIZED VIEW", message)


@pytest.mark.thorough
def test_the_state_follows_the_views_below(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW low AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW m REFRESH AUTO ON MANUAL AS SELECT a FROM low",
        "ALTER MATERIALIZED VIEW low RENAME TO other",
    )
    assert infos(base, "State, SchemaChangeDetail") == (
        "SCHEMA_CHANGE",
        f"the materialized view {base.name}.low was renamed to {base.name}.other",
    )
    sqlstate, message = refused(base, "REFRESH MATERIALIZED VIEW m")
    assert (sqlstate, "was renamed to" in message) == ("42P01", True)
    assert refused(base, "DROP MATERIALIZED VIEW other RESTRICT")[0] == "2BP01"
    base.run("ALTER MATERIALIZED VIEW other RENAME TO low", "REFRESH MATERIALIZED VIEW m")
    assert infos(base, "State") == ("NORMAL",)
    base.run("DROP MATERIALIZED VIEW low")
    assert infos(base, "SchemaChangeDetail") == (f"the materialized view {base.name}.low was dropped",)


def test_a_missing_base_table_is_not_retried_at_each_read(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t", "DROP TABLE t")
    for _ in range(3):
        assert base.rows("SELECT a FROM m") == [(1,), (2,)]
    assert [row[0] for row in tasks(base, "Status")] == ["SUCCESS", "FAILED"]
    base.run("CREATE TABLE t (a INT) USING parquet", "INSERT INTO t VALUES (7)")
    assert base.rows("SELECT a FROM m") == [(7,)]


def test_a_statement_that_spark_cannot_parse_makes_no_view_stale(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t")
    for typo in ("SELEC * FROM t", "INSERT INT t VALUES (1)", "CREATE MATERIALZED VIEW x AS SELECT a FROM t"):
        refused(base, typo)
        assert base.freshness("m") == "FRESH", typo
    with Jdbc(f"jdbc:hive2://{base.gateway.host}:{base.gateway.port}/{base.name}") as jdbc:
        with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
            jdbc.execute("INSERT INT t VALUES (1)")
        assert base.freshness("m") == "FRESH"


@pytest.mark.thorough
def test_a_missing_base_column_does_not_stop_reads(base: Database) -> None:
    base.run(
        "CREATE MATERIALIZED VIEW m AS SELECT a, b FROM t",
        "DROP TABLE t",
        "CREATE TABLE t (a INT) USING parquet",
    )
    assert base.rows("SELECT a, b FROM m") == [(1, "x"), (2, "y")]
    assert infos(base, "State, RefreshState") == ("SCHEMA_CHANGE", "FAIL")
    assert "b" in refused(base, "REFRESH MATERIALIZED VIEW m")[1]


@pytest.mark.thorough
def test_beeline_shows_the_warning_about_a_missing_base_table(base: Database) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t", "DROP TABLE t")
    shown = beeline(f"jdbc:hive2://{base.gateway.host}:{base.gateway.port}/{base.name}", "SELECT a FROM m")
    assert re.search(r"^1$", shown.stdout.replace("\r", ""), re.MULTILINE)
    assert "Warning: serving the stored rows" in shown.stderr


# --- rights --------------------------------------------------------------------------------------------


def test_only_the_owner_may_change_a_view(base: Database, gateway: Gateway) -> None:
    base.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t")
    with pyhive(gateway.host, gateway.port, user="other", database=base.name) as cursor:
        other = Database(base.name, gateway, cursor)
        assert other.rows("SELECT a FROM m") == [(1,), (2,)]
        for sql in (
            "DROP MATERIALIZED VIEW m",
            "DROP VIEW m",
            f"DROP VIEW IDENTIFIER('{base.name}.' || 'm')",
            "REFRESH MATERIALIZED VIEW m",
            "ALTER MATERIALIZED VIEW m RENAME x",
            "ALTER MATERIALIZED VIEW m OWNER TO other",
            "COMMENT ON MATERIALIZED VIEW m IS 'mine now'",
            "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT 1 AS a FROM t",
            "ANALYZE TABLE m COMPUTE STATISTICS",
        ):
            sqlstate, message = refused(other, sql)
            assert sqlstate == "42501", sql
            assert "tester" in message
        for sql in (
            f"EXECUTE IMMEDIATE 'DROP VIEW {base.name}.m'",
            f"EXECUTE IMMEDIATE '\\u0044ROP VIEW {base.name}.\\u006d'",
            "BEGIN DROP VIEW m; END",
            f"BEGIN USE {base.name}; ALTER VIEW m RENAME TO stolen; END",
            f"DROP VIEW IDENTIFIER('{base.name}.m')",
            f"EXECUTE IMMEDIATE 'ALTER VIEW {base.name}.m AS SELECT 666 AS a'",
            f"EXECUTE IMMEDIATE 'CREATE OR REPLACE VIEW {base.name}.m AS SELECT 667 AS a'",
            f"EXECUTE IMMEDIATE 'DROP DATABASE {base.name} CASCADE'",
        ):
            assert refused(other, sql)[0] == "42809", sql
        assert other.rows("SELECT a FROM m") == [(1,), (2,)]
        base.run("ALTER MATERIALIZED VIEW m OWNER TO `other`")
        other.run("REFRESH MATERIALIZED VIEW m")
        assert refused(base, "REFRESH MATERIALIZED VIEW m")[0] == "42501"
        other.run("ALTER MATERIALIZED VIEW m OWNER TO tester")


def test_the_right_to_refresh_is_granted_and_revoked(base: Database, gateway: Gateway) -> None:
    """It outlives what a view's name and owner may become, and allows nothing else."""
    base.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t")
    with pyhive(gateway.host, gateway.port, user="other", database=base.name) as cursor:
        other = Database(base.name, gateway, cursor)
        message = refused(other, "REFRESH MATERIALIZED VIEW m")[1]
        grant = re.search(r"GRANT REFRESH ON MATERIALIZED VIEW \S+ TO USER `other`", message)
        assert grant is not None
        assert refused(other, grant[0])[0] == "42501"
        base.run(grant[0], "GRANT REFRESH ON m TO ROLE night, GROUP night, eve")
        other.run("REFRESH MATERIALIZED VIEW m", "ALTER MATERIALIZED VIEW m REBUILD")
        (task,) = other.rows("REFRESH MATERIALIZED VIEW m ASYNC")[0]
        wait_until(lambda: {status for (status,) in tasks(other, "Status")} == {"SUCCESS"}, what="the end of the task")
        assert "has no running task" in refused(other, f"CANCEL MATERIALIZED VIEW TASK {task} ON m")[1]
        (of_another,) = base.rows("REFRESH MATERIALIZED VIEW m ASYNC")[0]
        for sql in (
            "REFRESH MATERIALIZED VIEW m WITH NO DATA",
            "PAUSE MATERIALIZED VIEW JOB ON m",
            f"CANCEL MATERIALIZED VIEW TASK {of_another} ON m",
            "GRANT REFRESH ON m TO PUBLIC",
            "REVOKE REFRESH ON m FROM other",
            "ALTER MATERIALIZED VIEW m OWNER TO other",
        ):
            assert refused(other, sql)[0] == "42501", sql
        assert {row[:2] for row in other.rows("SHOW GRANTS ON m")} == {("tester", "OWN"), ("other", "REFRESH")}
        hive = {row[4:7] for row in base.rows("SHOW GRANT ON MATERIALIZED VIEW m")}
        assert {("tester", "USER", "OWN"), ("night", "GROUP", "REFRESH")} < hive
        listed = "SELECT may_refresh, refresh_granted_to FROM freshgate.materialized_views WHERE database_name = "
        assert other.rows(f"{listed}'{base.name}'") == [(True, None)]
        assert base.rows(f"{listed}'{base.name}'") == [(True, "GROUP night, USER eve, USER other")]
        base.run(
            "ALTER MATERIALIZED VIEW m RENAME n",
            "CREATE OR REPLACE MATERIALIZED VIEW n AS SELECT a + 1 AS a FROM t",
            "CREATE MATERIALIZED VIEW o AS SELECT a FROM t",
            "ALTER MATERIALIZED VIEW n SWAP WITH o",
            "ALTER MATERIALIZED VIEW o OWNER TO boss",
        )
        other.run("REFRESH MATERIALIZED VIEW o")
        with pyhive(gateway.host, gateway.port, user="boss", database=base.name) as boss:
            rows(boss, "ALTER MATERIALIZED VIEW o OWNER TO tester")
        assert refused(other, "REFRESH MATERIALIZED VIEW n")[0] == "42501"
        base.run("GRANT REFRESH ON n TO PUBLIC")
        other.run("REFRESH MATERIALIZED VIEW n")
        base.run("REVOKE REFRESH ON n FROM PUBLIC", "REVOKE REFRESH ON n FROM PUBLIC")
        assert refused(other, "REFRESH MATERIALIZED VIEW n")[0] == "42501"
    for sql in ("GRANT REFRESH ON t TO other", "SHOW GRANTS ON MATERIALIZED VIEW t"):
        assert refused(base, sql)[0] == "42809"
    for sql in ("GRANT SELECT ON t TO other", "SHOW GRANTS ON t"):
        assert "ParseException" in refused(base, sql)[1]


@pytest.mark.thorough
def test_an_administrator_may_change_any_view(base: Database, start_gateway: Any) -> None:
    gateway = start_gateway(**{"access.administrators": "root,boss"})
    with pyhive(gateway.host, gateway.port, database=base.name) as cursor:
        rows(cursor, "CREATE MATERIALIZED VIEW owned AS SELECT a FROM t")
    with pyhive(gateway.host, gateway.port, user="boss", database=base.name) as cursor:
        rows(cursor, "REFRESH MATERIALIZED VIEW owned")
        rows(cursor, "DROP MATERIALIZED VIEW owned")


@pytest.mark.thorough
def test_nested_statements_are_read_as_spark_reads_them(base: Database) -> None:
    name = base.name
    base.run("CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    ((before,),) = base.rows("SELECT n FROM m")
    base.run(rf"EXECUTE IMMEDIATE 'INSERT INTO\t{name}./**/t SELECT * FROM {name}.t LIMIT 1'")
    assert base.rows(rf"EXECUTE IMMEDIATE 'SELECT n FROM\n{name}./* /*+ */m'") == [(before + 1,)]
    base.run(rf"EXPLAIN EXECUTE IMMEDIATE 'INSERT \INTO\t{name}.t SELECT * FROM {name}.t LIMIT 1'")
    assert base.rows("SELECT n FROM " + "\u017f".join(["m WHERE n > 0 ", "ort by n"])) == [(before + 2,)]
    for text in (rf"'D\ROP \VIEW\n{name}.m'", "'DROP VI' /* c */ 'EW m'"):
        assert "is a materialized view" in refused(base, f"EXECUTE IMMEDIATE {text}")[1]
    sqlstate, message = refused(base, "BEGIN INSERT INTO t SELECT * FROM t LIMIT 1; SELECT n FROM m; END")
    assert (sqlstate, "Run the statements one by one" in message) == ("0A000", True)
    base.run("SET spark.sql.caseSensitive = true", "INSERT INTO t SELECT * FROM t LIMIT 1")
    assert base.rows("WITH M AS (SELECT 5 AS n) SELECT n FROM m") == [(before + 3,)]
    base.run("RESET spark.sql.caseSensitive")
    assert base.rows("WITH M AS (SELECT 5 AS n) SELECT n FROM m") == [(5,)]
    assert "has materialized views" in refused(base, f"DROP SCHEMA IDENTIFIER('{name[:2]}' || '{name[2:]}')")[1]
