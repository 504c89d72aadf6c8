"""Nothing but refreshes changes the storage database, however a statement names what it changes."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import Client, Site

from gateway.mv.model.view import MaterializedView

REFUSED = "42809"


async def stage(database: str = "default") -> tuple[Site, Client, MaterializedView]:
    """ada's view s.mv over s.t; mallory is in `database`."""
    site = Site()
    site.table("s.t")
    view = await site.view("s.mv", "SELECT count(*) n FROM s.t")
    return site, await site.client("mallory", {"use:database": database}), view


async def state(client: Client, text: str) -> Any:
    return (await client.execute(text)).sqlstate


# --- the statements that only read -------------------------------------------------------------------------

CHANGES = [
    "INSERT INTO {0} VALUES (1)",
    "INSERT OVERWRITE {0} SELECT 1",
    "WITH c AS (SELECT 1) INSERT INTO {0} SELECT * FROM c",
    "FROM s.t INSERT INTO {0} SELECT 1",
    "UPDATE {0} SET n = 1",
    "DELETE FROM {0}",
    "MERGE INTO {0} USING s.t ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {0}",
    "DROP TABLE {0}",
    "DROP TABLE IF EXISTS {0} PURGE",
    "DROP VIEW {1}",
    "ALTER TABLE {0} DROP PARTITION (freshgate_version = 1)",
    "ALTER TABLE {0} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE s.x RENAME TO {0}",
    "ALTER VIEW {1} AS SELECT 1 n",
    "CREATE TABLE {0} (a INT)",
    "CREATE OR REPLACE VIEW {1} AS SELECT 1 n",
    "CREATE FUNCTION {0} AS 'x'",
    "COMMENT ON TABLE {0} IS 'x'",
    "ANALYZE TABLE {0} COMPUTE STATISTICS",
    "MSCK REPAIR TABLE {0}",
    "LOAD DATA INPATH '/x' INTO TABLE {0}",
    "BEGIN INSERT INTO {0} VALUES (1); END",
    "EXECUTE IMMEDIATE 'INSERT INTO {0} VALUES (1)'",
    "EXPLAIN EXECUTE IMMEDIATE 'TRUNCATE TABLE {0}'",
]
WHOLE = [
    "COMMENT ON DATABASE storage IS 'x'",
    "COMMENT ON SCHEMA spark_catalog.storage IS NULL",
    "CREATE DATABASE storage",
    "CREATE SCHEMA IF NOT EXISTS storage LOCATION '/x'",
    "ALTER DATABASE storage SET DBPROPERTIES ('a' = 'b')",
    "ANALYZE TABLES IN storage COMPUTE STATISTICS",
    "DROP DATABASE storage CASCADE",
    "BEGIN COMMENT ON DATABASE storage IS 'x'; END",
    "BEGIN USE storage; DROP TABLE x; END",
]
READS = [
    "SELECT * FROM {0}",
    "SHOW TABLES IN storage",
    "SHOW TBLPROPERTIES {0}",
    "DESCRIBE TABLE EXTENDED {0}",
    "DESCRIBE DATABASE storage",
    "EXPLAIN SELECT * FROM {0}",
    "REFRESH TABLE {0}",
    "USE storage",
    "SET x = storage.y",
    "INSERT INTO s.x SELECT * FROM {0}",
    "CREATE TABLE s.x AS SELECT * FROM {0}",
    "CREATE TEMPORARY VIEW x AS SELECT * FROM {0}",
]


def spell(text: str, view: MaterializedView, spelt: str = "{}") -> str:
    return text.format(*(spelt.format(view.storage.table + end) for end in ("", "__definition")))


@pytest.mark.parametrize("text", CHANGES)
@pytest.mark.parametrize("spelt", ["storage.{}", "`STORAGE`.`{}`", "spark_catalog.storage.{}", "other.storage.{}"])
async def test_a_storage_table_is_not_changed(text: str, spelt: str) -> None:
    site, mallory, view = await stage()
    assert await state(mallory, spell(text, view, spelt)) == REFUSED
    assert site.spark.texts == []


@pytest.mark.parametrize("text", WHOLE)
async def test_the_database_is_not_changed(text: str) -> None:
    site, mallory, _ = await stage()
    assert await state(mallory, text) == REFUSED
    assert site.spark.texts == []


BARE = [text for text in CHANGES if "RENAME" not in text]
"""(A bare new name is in the database of the old one.)"""


@pytest.mark.parametrize("text", BARE)
async def test_a_bare_name_counts_in_the_storage_database(text: str) -> None:
    site, mallory, view = await stage("storage")
    assert await state(mallory, spell(text, view)) == REFUSED
    assert site.spark.texts == []


@pytest.mark.parametrize("text", BARE)
@pytest.mark.parametrize(
    "move", ["USE storage", "use DATABASE `Storage`", "SET CATALOG x", "EXECUTE IMMEDIATE 'US' 'E x'"]
)
async def test_a_bare_name_counts_after_a_move(text: str, move: str) -> None:
    site, mallory, view = await stage()
    await mallory.execute(move)
    mallory.at_spark.namespace = type(mallory.at_spark.namespace)("storage")
    assert await state(mallory, spell(text, view)) == REFUSED
    assert site.spark.texts == [move]


@pytest.mark.parametrize("text", BARE)
async def test_a_bare_name_counts_while_a_move_runs(text: str) -> None:
    site, mallory, view = await stage()
    site.spark.holds("USE storage")
    await mallory.execute("USE storage")
    assert await state(mallory, spell(text, view)) == REFUSED
    assert site.spark.texts == ["USE storage"]


async def test_a_bare_name_in_a_long_text_counts_while_a_move_runs() -> None:
    site, mallory, view = await stage()
    site.spark.holds("USE storage")
    await mallory.execute("USE storage")
    text = f"INSERT INTO {view.storage.table} VALUES " + ", ".join(["(1)"] * 40_000)
    try:
        assert await state(mallory, text) == REFUSED
    finally:
        await site.service.router.close()
    assert site.spark.texts == ["USE storage"]


async def test_a_bare_name_counts_where_a_use_overtakes_a_write_that_waits() -> None:
    site, mallory, view = await stage()
    site.write("s.t")
    site.tasks.working.clear()
    waiting = await mallory.execute(f"INSERT INTO {view.storage.table} SELECT * FROM s.mv", settle=False)
    assert site.spark.texts == []
    await mallory.execute("USE storage")
    site.tasks.working.set()
    done = await waiting.poll()
    assert "Run it again" in str(done)
    assert site.spark.texts == ["USE storage"]


@pytest.mark.parametrize("text", READS)
async def test_whoever_may_read_may_go_on_reading(text: str) -> None:
    site, mallory, view = await stage()
    text = spell(text, view, "storage.{}")
    assert await state(mallory, text) is None
    assert site.spark.texts == [text]


@pytest.mark.parametrize("text", READS)
async def test_a_session_in_the_storage_database_may_read(text: str) -> None:
    _, mallory, view = await stage("storage")
    assert await state(mallory, spell(text, view)) is None


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO s.storage VALUES (1)",
        "DROP TABLE storage",
        "CREATE TABLE s.x (a INT COMMENT 'like storage')",
        "INSERT INTO s.x VALUES ('storage')",
        "COMMENT ON DATABASE s IS 'not storage'",
        "CREATE FUNCTION s.storage AS 'x'",
        "BEGIN INSERT INTO s.x VALUES (1); END",
        "CREATE DATABASE d COMMENT 'beside storage'",
    ],
)
async def test_other_objects_of_its_name_are_free(text: str) -> None:
    site, mallory, _ = await stage()
    assert await state(mallory, text) is None
    assert site.spark.texts == [text]
