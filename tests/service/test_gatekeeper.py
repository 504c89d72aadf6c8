"""What mallory tries with ada's view s.mv, and what other people may go on doing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from fake_spark import Answer, SparkOperation, named, not_found
from fakes import Client, Site

from gateway.errors import NotAllowed
from gateway.mv.model.view import MaterializedView
from gateway.mv.ports import Relation, RelationKind
from gateway.service.operations.operation import OperationState
from sql.names import Namespace
from sql.texts.public_view import shown_rows

REFUSED = "42809"
TEMPORARY = Answer([(json.dumps({"table_name": "mv", "catalog_name": "system", "type": "VIEW"}),)])
PERMANENT = Answer([(json.dumps({"table_name": "mv", "catalog_name": "spark_catalog", "type": "VIEW"}),)])


async def stage(database: str = "s", **configuration: str) -> tuple[Site, Client, MaterializedView]:
    """ada's s.mv; mallory is in `database`."""
    site = Site()
    site.table("s.t")
    site.metastore.answers.say(r"^(CREATE|ALTER) VIEW .* AS SELECT", lambda text: show(site, text))
    view = await site.view("s.mv", "SELECT count(*) n FROM s.t")
    mallory = await site.client("mallory", {"use:database": database, **configuration})
    return site, mallory, view


def show(site: Site, text: str) -> Answer:
    site.metastore.add(Relation(named("s.mv"), RelationKind.VIEW, view_text=text[text.index(" AS SELECT") + 4 :]))
    return Answer()


def says(site: Site, answer: Answer | Exception) -> None:
    """What Spark says of a bare `mv` in mallory's session."""
    site.spark.answers.say(r"^DESCRIBE TABLE EXTENDED `mv` AS JSON", answer)  # type: ignore[arg-type]


def is_right(site: Site, view: MaterializedView) -> bool:
    relation = site.metastore.relations.get(view.name)
    expected = shown_rows(view.storage, view.columns, view.current.shown, view.layout)
    return relation is not None and relation.view_text == expected


# --- temporary views ---------------------------------------------------------------------------------------

DISGUISES = [
    "CREATE TEMPORARY FUNCTION mv AS 'f'",
    "CREATE GLOBAL TEMPORARY VIEW mv AS SELECT 1 x",
    "CREATE TEMPORARY VIEW `MV` AS SELECT 1 x",
    "CACHE TABLE mv AS SELECT 1 x",
]
STROKES = [
    "DROP VIEW mv",
    "ALTER VIEW mv AS SELECT 666",
    "ALTER VIEW mv RENAME TO w",
    "ALTER VIEW mv SET TBLPROPERTIES ('a'='b')",
]


@pytest.mark.parametrize("stroke", STROKES)
@pytest.mark.parametrize("disguise", DISGUISES)
async def test_what_is_no_temporary_view_to_spark_opens_no_door(disguise: str, stroke: str) -> None:
    site, mallory, _ = await stage()
    says(site, PERMANENT)
    await (await mallory.execute(disguise)).poll()
    deny(site)
    done = await mallory.execute(stroke)
    assert done.sqlstate == REFUSED
    assert stroke not in site.spark.texts


class Denying:
    """The gateway's own commands: mallory owns nothing."""

    async def run(self, *_: object) -> None:
        raise NotAllowed("not yours")


def deny(site: Site) -> None:
    cast(Any, site.commands).run = Denying().run


@pytest.mark.parametrize("stroke", STROKES)
async def test_a_temporary_view_is_its_sessions_own(stroke: str) -> None:
    site, mallory, _ = await stage()
    says(site, TEMPORARY)
    done = await mallory.execute(stroke)
    assert done.sqlstate is None
    assert site.spark.texts == [stroke]


async def test_a_second_drop_does_not_reach_what_stands_behind() -> None:
    site, mallory, _ = await stage()
    says(site, TEMPORARY)
    site.spark.holds("DROP VIEW mv")
    first = await mallory.execute("DROP VIEW mv")
    assert (await mallory.execute("DROP VIEW mv")).sqlstate == "55006"
    first.at_spark.finish()  # its client does not ask
    assert (await mallory.execute("DROP VIEW mv")).sqlstate is None
    assert site.spark.texts == ["DROP VIEW mv", "DROP VIEW mv"]


async def test_a_temporary_view_may_be_dropped_by_what_is_not_understood() -> None:
    site, mallory, _ = await stage()
    says(site, TEMPORARY)
    script = "BEGIN DROP VIEW nothing; END"
    site.spark.holds(script)
    running = await mallory.execute(script)
    assert (await mallory.execute("DROP VIEW mv")).sqlstate == "55006"
    running.at_spark.finish()
    assert (await mallory.execute("DROP VIEW mv")).sqlstate is None


async def test_a_view_that_is_gone_is_no_temporary_one() -> None:
    site, mallory, _ = await stage()
    says(site, not_found("mv"))
    deny(site)
    assert (await mallory.execute("DROP VIEW mv")).sqlstate == REFUSED


# --- the namespace -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelt", ["`s`", "spark_catalog.s", "s -- x", "/**/s", "NAMESPACE s", "S "])
async def test_a_database_of_the_configuration_is_what_spark_says(spelt: str) -> None:
    _world, mallory, _ = await stage(spelt)
    mallory.at_spark.namespace = Namespace("s")
    assert (await mallory.execute("ALTER VIEW mv AS SELECT 666")).sqlstate == REFUSED


@pytest.mark.parametrize("move", ["USE s", "SET CATALOG x", "EXECUTE IMMEDIATE 'USE s'"])
@pytest.mark.parametrize(
    "stroke", ["ALTER VIEW mv AS SELECT 666", "CREATE OR REPLACE VIEW mv AS SELECT 666", "DROP TABLE s.mv"]
)
async def test_a_name_counts_as_the_views_while_a_use_runs(move: str, stroke: str) -> None:
    site, mallory, _ = await stage("default")
    site.spark.holds(move)
    await mallory.execute(move)
    done = await mallory.execute(stroke)
    assert done.sqlstate == REFUSED
    assert stroke not in site.spark.texts


async def test_a_use_that_has_ended_unasked_counts() -> None:
    _world, mallory, _ = await stage("default")
    await mallory.execute("USE s")
    assert (await mallory.execute("ALTER VIEW mv AS SELECT 666")).sqlstate == REFUSED
    await mallory.execute("USE default")
    assert (await mallory.execute("CREATE OR REPLACE VIEW mv AS SELECT 666")).sqlstate is None


# --- databases ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "DROP DATABASE s CASCADE",
        "DROP SCHEMA IF EXISTS `S` CASCADE",
        "DROP NAMESPACE spark_catalog.s",
        "DROP DATABASE IDENTIFIER('s') CASCADE",
        "DROP DATABASE IDENTIFIER('spark_catalog.s') CASCADE",
        "DROP DATABASE IDENTIFIER('s' || '') CASCADE",
        "DROP DATABASE storage CASCADE",
        "DROP DATABASE spark_catalog.storage CASCADE",
        "ALTER DATABASE storage SET LOCATION '/x'",
        "ALTER NAMESPACE IDENTIFIER('storage') SET LOCATION '/x'",
        "ALTER SCHEMA spark_catalog.storage SET DBPROPERTIES ('a' = 'b')",
        "EXECUTE IMMEDIATE 'ALTER DATABASE storage SET LOCATION \"/x\"'",
        "BEGIN DROP DATABASE s CASCADE; END",
    ],
)
async def test_databases_with_views_stay(text: str) -> None:
    site, mallory, _ = await stage("default")
    assert (await mallory.execute(text)).sqlstate == REFUSED
    assert site.spark.texts == []


async def test_a_database_of_the_same_name_elsewhere_may_go() -> None:
    _world, mallory, _ = await stage("default")
    assert (await mallory.execute("DROP DATABASE lake.s CASCADE")).sqlstate is None


# --- paths -------------------------------------------------------------------------------------------------

WRITES = [
    "INSERT OVERWRITE DIRECTORY '{}' USING parquet SELECT 1",
    "INSERT OVERWRITE LOCAL DIRECTORY '{}' SELECT 1",
    "INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '{}') SELECT 1",
    "WITH q AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{}' SELECT * FROM q",
    "FROM s.t INSERT OVERWRITE DIRECTORY '{}' SELECT 1",
    "CREATE TABLE x (a INT) USING parquet LOCATION '{}'",
    "CREATE EXTERNAL TABLE x (a INT) STORED AS PARQUET LOCATION '{}'",
    "CREATE TABLE x USING parquet OPTIONS ('path' = '{}') AS SELECT 1 a",
    "CREATE TABLE x LIKE s.t LOCATION '{}'",
    "CREATE TEMPORARY VIEW x USING parquet OPTIONS (path '{}')",
    "ALTER TABLE x SET LOCATION '{}'",
    "ALTER TABLE x ADD PARTITION (p = 1) LOCATION '{}'",
    "ALTER TABLE x PARTITION (p = 1) SET LOCATION '{}'",
    "ALTER TABLE x SET SERDEPROPERTIES ('path' = '{}')",
    "LOAD DATA INPATH '{}' INTO TABLE x",
    "LOAD DATA LOCAL INPATH '{}' OVERWRITE INTO TABLE x PARTITION (p = 1)",
    "CREATE DATABASE d LOCATION '{}'",
    "ALTER DATABASE d SET LOCATION '{}'",
    "INSERT INTO delta.`{}` VALUES (1)",
    "DELETE FROM delta.`{}`",
    "TRUNCATE TABLE delta.`{}`",
    "CREATE TABLE delta.`{}` (a INT) USING delta",
    "CONVERT TO DELTA parquet.`{}`",
    "VACUUM '{}'",
    "RESTORE TABLE delta.`{}` TO VERSION AS OF 1",
    "CALL lake.system.remove_orphan_files(table => 'a.b', location => '{}')",
    "EXECUTE IMMEDIATE 'INSERT OVERWRITE DIRECTORY \"{}\" USING parquet SELECT 1'",
    "BEGIN CREATE TABLE x (a INT) USING parquet LOCATION '{}'; DROP TABLE x; END",
    "CREATE MATERIALIZED VIEW v LOCATION '{}' AS SELECT * FROM s.t",
]
PLACES = ["/warehouse/storage.db/x", "FILE:///warehouse/a/../storage.db"]
SURELY = ["/warehouse", "/"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", WRITES)
async def test_rows_are_not_reached_by_path(text: str, place: str) -> None:
    site, mallory, _ = await stage("default")
    assert (await mallory.execute(text.format(place))).sqlstate == REFUSED
    assert site.spark.texts == []


@pytest.mark.parametrize("place", SURELY)
@pytest.mark.parametrize(
    "text", [text for text in WRITES[:-1] if not text.startswith(("VACUUM", "CONVERT", "RESTORE"))]
)
async def test_a_directory_above_is_not_emptied(text: str, place: str) -> None:
    _world, mallory, _ = await stage("default")
    assert (await mallory.execute(text.format(place))).sqlstate == REFUSED


@pytest.mark.parametrize(
    "text",
    [
        """EXECUTE IMMEDIATE 'INSERT INTO "/warehouse" SELECT 1'""",
        """BEGIN DECLARE q STRING DEFAULT 'INSERT INTO '; EXECUTE IMMEDIATE q || '"/warehouse" SELECT 1'; END""",
        """BEGIN DECLARE q STRING DEFAULT 'INSERT INTO '; EXECUTE IMMEDIATE q || ' "/warehouse" SELECT 1'; END""",
    ],
)
async def test_a_path_in_double_quotes_may_be_a_table(text: str) -> None:
    """It is one with spark.sql.ansi.doubleQuotedIdentifiers."""
    _world, mallory, _ = await stage("default")
    assert (await mallory.execute(text)).sqlstate == REFUSED


@pytest.mark.parametrize("text", WRITES[:-1])
async def test_other_paths_are_free(text: str) -> None:
    _world, mallory, _ = await stage("default")
    assert (await mallory.execute(text.format("/data/x"))).sqlstate is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM parquet.`/warehouse/storage.db/x`",
        "INSERT INTO x SELECT * FROM parquet.`/warehouse/other/x`",
        "INSERT INTO x VALUES ('/warehouse', '/', '..')",
        "INSERT INTO x SELECT location, path FROM s.t WHERE path = '/'",
        "CREATE TABLE x (location STRING COMMENT '/', a INT) USING parquet TBLPROPERTIES ('note' = '/')",
        """BEGIN INSERT INTO x SELECT concat(a, "/", '/') FROM s.t; END""",
        """EXECUTE IMMEDIATE 'INSERT INTO x SELECT concat(a, "/", "b/") FROM s.t'""",
    ],
)
async def test_what_is_no_path_that_is_written_to_passes(text: str) -> None:
    _world, mallory, _ = await stage("default")
    assert (await mallory.execute(text)).sqlstate is None


@pytest.mark.parametrize(
    ("values", "text", "passes"),
    [
        ({"p": "/warehouse/storage.db"}, "CREATE TABLE x (a INT) USING parquet LOCATION '${hivevar:p}/x'", False),
        ({"p": "/data"}, "CREATE TABLE x (a INT) USING parquet LOCATION '${hivevar:p}/x'", True),
        ({"p": "${q}", "q": "/warehouse"}, "LOAD DATA INPATH '${p}' INTO TABLE x", False),
        ({"c": "LOCATION '/warehouse'"}, "CREATE TABLE x (a INT) USING parquet ${c}", False),
        ({"c": "DROP VIEW s.mv"}, "${c}", False),
        ({"k": "VIEW"}, "DROP ${k} s.mv", False),
        ({"日本/1": "VIEW"}, "DROP ${hiveconf:日本/1} s.mv", False),
        ({}, "DROP ${é}VIEW s.mv", False),
        ({}, "EXPLAIN EXECUTE IMM${x}EDIATE 'DROP VIEW s.mv'", False),
        ({"x": "*/ DROP VIEW s.mv --"}, "/* ${x} */ SELECT 1", False),
        ({}, "EXECUTE IMMEDIATE '-- a/b\nDRO$' '{x}P VIEW s.mv'", False),
        ({"k": "VIEW"}, "BEGIN EXECUTE IMMEDIATE '-- a/b\nDROP $' '{k} s.mv'; END", False),
        ({"k": "VIEW"}, "EXECUTE IMMEDIATE '-- a/b\nDROP $' '{k} s.other'", True),
        ({"x": "2"}, "SELECT ${x} FROM s.t WHERE a = '/warehouse'", True),
        ({}, "CREATE TABLE x (a INT) USING parquet LOCATION '${env:HOME}'", False),
    ],
)
async def test_variables_are_read_as_spark_reads_them(values: dict[str, str], text: str, passes: bool) -> None:
    site, mallory, _ = await stage("default")
    site.spark.answers.say("^SET `", lambda asked: Answer([(asked[5:-1], values.get(asked[5:-1], "<undefined>"))]))
    deny(site)
    assert ((await mallory.execute(text)).sqlstate is None) is passes


@pytest.mark.parametrize("value", ["x" * 100_000, "${b}${b}"])
async def test_values_of_variables_do_not_grow_without_end(value: str) -> None:
    site, mallory, _ = await stage("default")
    site.spark.answers.say("^SET `", lambda asked: Answer([(asked[5:-1], value.replace("b", asked[5:-1] + "b"))]))
    refused = await mallory.execute("INSERT INTO s.u VALUES (" + "${a}" * 1_000 + ")")
    assert "With the values of its variables" in str(refused.error)


@pytest.mark.parametrize(
    "inner",
    [
        "DROP VIEW s.mv",
        "DROP TABLE storage.s__mv__1",
        "DROP VIEW IDENTIFIER(?)",
        "INSERT OVERWRITE DIRECTORY '/warehouse' SELECT 1",
        "DROP SCHEMA s CASCADE",
    ],
)
async def test_what_spark_says_that_a_text_is_counts(inner: str) -> None:
    site, mallory, _ = await stage("default")
    site.spark.answers.say(r"^SELECT \(a \|\| b\)", Answer([(inner,)]))
    deny(site)
    assert (await mallory.execute("EXECUTE IMMEDIATE a || b USING 's.mv'")).sqlstate == REFUSED
    assert site.spark.texts == []


# --- the net -----------------------------------------------------------------------------------------------

BEYOND = [
    "EXECUTE IMMEDIATE a || b",
    "EXECUTE IMMEDIATE stroke",
    r"EXECUTE IMMEDIATE 'D\ROP V\IEW s.m\v'",
    "EXECUTE IMMEDIATE 'DROP VI' 'EW s.m' 'v'",
    "BEGIN EXECUTE IMMEDIATE a; END",
]


@pytest.mark.parametrize("text", BEYOND)
@pytest.mark.parametrize("polls", [True, False])
async def test_a_view_that_was_forged_past_the_gateway_is_never_read(text: str, polls: bool) -> None:
    site, mallory, view = await stage()
    site.spark.on_finish = forging(site, text)
    done = await mallory.execute(text)
    if done.sqlstate is not None:
        assert site.spark.texts == []
        return  # it was understood after all
    if polls:
        await done.poll()
    bob = await site.client("bob")
    await bob.execute("SELECT n FROM s.mv")
    assert is_right(site, view)
    assert site.service.audit.counts.views_restored == 1


def forging(site: Site, text: str) -> Callable[[SparkOperation], None]:
    def finish(operation: SparkOperation) -> None:
        if operation.text == text and operation.state is OperationState.FINISHED:
            site.metastore.add(Relation(named("s.mv"), RelationKind.VIEW, view_text="SELECT 666 n"))

    return finish


async def test_a_read_waits_for_nothing_where_no_view_is_in_danger() -> None:
    site, mallory, _ = await stage()
    for text in ("EXECUTE IMMEDIATE 'SELECT n FROM s.mv'", "INSERT INTO x SELECT n FROM s.mv", "SELECT n FROM s.mv"):
        await mallory.execute(text)
    site.metastore.asked.clear()
    await mallory.execute("SELECT n FROM s.mv")
    assert ("relation", named("s.mv")) not in site.metastore.asked
