"""Scripts that write a base table and read a view over it."""

from __future__ import annotations

import pytest
from fakes import Site


async def stage(**properties: str) -> Site:
    """ada's s.mv, which counts the rows of s.t; s.above reads it, and so does the Spark view s.v."""
    site = Site()
    for name in ("s.t", "s.u", "s.x"):
        site.table(name)
    await site.view("s.mv", "SELECT count(*) n FROM s.t", properties=properties)
    await site.view("s.above", "SELECT n FROM s.mv", properties=properties)
    site.spark_view("s.v", "SELECT n FROM s.above")
    return site


@pytest.mark.parametrize(
    "script",
    [
        "INSERT INTO s.t VALUES (1); SELECT n FROM s.mv;",
        "INSERT INTO s.t VALUES (1); SELECT n FROM s.v;",
        "DELETE FROM s.t; INSERT INTO s.x SELECT n FROM s.above;",
        "DECLARE x INT; MERGE INTO s.t USING s.u ON true WHEN MATCHED THEN DELETE; SET x = (SELECT n FROM s.mv);",
        "USE s; TRUNCATE TABLE t; VALUES ((SELECT n FROM mv));",
        "IF 1 > 0 THEN INSERT INTO s.t VALUES (1); END IF; IF (SELECT n FROM s.mv) > 1 THEN SELECT 1; END IF;",
        "l: LOOP SELECT n FROM s.mv; INSERT INTO s.t VALUES (1); LEAVE l; END LOOP;",
        "FOR r AS SELECT n FROM s.mv DO INSERT INTO s.t VALUES (1); END FOR;",
        "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT n FROM s.mv; END; INSERT INTO s.t SELECT 1 / 0;",
        r"EXECUTE IMMEDIATE 'INSERT INTO\ts.t VALUES (1)'; SELECT n FROM s.mv;",
        "CREATE TEMP VIEW g AS SELECT n FROM s.mv; INSERT INTO s.t VALUES (1); SELECT n FROM g;",
    ],
)
async def test_a_read_behind_a_write_is_refused(script: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    refused = await bob.execute(f"BEGIN {script} END")
    assert refused.sqlstate == "0A000"
    assert "reads the materialized view s." in str(refused.error)
    assert "Run the statements one by one" in str(refused.error)


@pytest.mark.parametrize(
    "script",
    [
        "SELECT n FROM s.mv; INSERT INTO s.t VALUES (1);",
        "INSERT INTO s.t SELECT n FROM s.mv;",
        "INSERT INTO s.x SELECT * FROM s.t; SELECT n FROM s.mv;",
        "SELECT * FROM s.t; SELECT n FROM s.mv;",
        "INSERT INTO s.t VALUES (1); EXECUTE IMMEDIATE 'SELECT ' || what;",
        "IF (SELECT count(*) FROM s.t) > 1 THEN SELECT 1; END IF; SELECT n FROM s.mv;",
    ],
)
async def test_others_run(script: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    assert (await bob.execute(f"BEGIN {script} END")).error is None


async def test_stored_rows_that_may_be_served_are_read() -> None:
    site = await stage(when_stale="SERVE")
    bob = await site.client("bob")
    assert (await bob.execute("BEGIN INSERT INTO s.t VALUES (1); SELECT n FROM s.above; END")).error is None
