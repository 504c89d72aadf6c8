"""Which statements count as writes to what a view reads, beside its refresh or its creation."""

from __future__ import annotations

import pytest
from fake_spark import Answer
from fakes import Site

DEFINITION = "SELECT count(*) AS n FROM s.t"


async def stage() -> Site:
    site = Site()
    for table in ("s.t", "s.u"):
        site.table(table)
    await site.view("s.other", "SELECT count(*) AS n FROM s.u")
    return site


@pytest.mark.parametrize(
    "statement",
    [
        "EXECUTE IMMEDIATE 'REFRESH TABLE IDENTIFIER(:n)' USING 's.u' AS n",
        "EXECUTE IMMEDIATE ' SELECT * FROM IDENTIFIER(:n)' USING 's.u' AS n",
        "EXECUTE IMMEDIATE 'show tables in IDENTIFIER(?)' USING 's'",
        "EXECUTE IMMEDIATE 'SELECT count(*) FROM IDENTIFIER(:n)' INTO total USING 's.u' AS n",
    ],
)
async def test_a_text_that_writes_nothing_whatever_its_names_are_is_no_write(statement: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    site.spark.holds(statement)
    await bob.execute(statement)
    assert not site.ledger("s.other").events


@pytest.mark.parametrize(
    "statement",
    [
        "EXECUTE IMMEDIATE 'TRUNCATE TABLE IDENTIFIER(:n)' USING 's.u' AS n",
        "EXECUTE IMMEDIATE 'SELECT ' ' * FROM IDENTIFIER(:n)' USING 's.u' AS n",
        "EXECUTE IMMEDIATE 'WITH x AS (SELECT 1) INSERT INTO IDENTIFIER(:n) SELECT * FROM x' USING 's.u' AS n",
    ],
)
async def test_any_other_text_may_write_to_every_table(statement: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    site.spark.holds(statement)
    await bob.execute(statement)
    assert site.ledger("s.other").removed_since(0)


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize(
    ("statement", "asked", "value", "sent"),
    [
        # A string, or with double-quoted identifiers a variable.
        (
            'EXECUTE IMMEDIATE "REFRESH"',
            r'^SELECT \("REFRESH"\)$',
            "TRUNCATE TABLE s.u",
            "EXECUTE IMMEDIATE 'TRUNCATE TABLE s.u'",
        ),
        (
            "EXECUTE IMMEDIATE '${verb} TABLE IDENTIFIER(:n)' USING 's.u' AS n",
            "^SET `verb`$",
            ("verb", "TRUNCATE"),
            "EXECUTE IMMEDIATE 'TRUNCATE TABLE  `s`.`u` ' USING 's.u' AS n",
        ),
    ],
)
async def test_a_text_that_looks_harmless_counts_as_what_spark_makes_of_it(
    statement: str, asked: str, value: object, sent: str, truncates: bool
) -> None:
    """It is sent with that text, so that it cannot become another one."""
    site = await stage()
    bob = await site.client("bob")
    if truncates:
        site.spark.answers.say(asked, Answer([value if isinstance(value, tuple) else (value,)]))
    site.spark.holds(sent)
    await bob.execute(statement)
    assert statement not in site.spark.texts
    assert (sent in site.spark.texts) is truncates
    assert bool(site.ledger("s.other").removed_since(0)) is truncates


@pytest.mark.parametrize(
    "statement",
    [
        "EXECUTE IMMEDIATE said",
        "EXECUTE IMMEDIATE 'SELECT' || said",
        "BEGIN EXECUTE IMMEDIATE 'REFRESH TABLE IDENTIFIER(:n)' USING 's.u' AS n; TRUNCATE TABLE IDENTIFIER(said); END",
    ],
)
async def test_a_text_that_spark_cannot_evaluate_is_refused(statement: str) -> None:
    site = await stage()
    bob = await site.client("bob")
    assert (await bob.execute(statement)).error is not None
    assert not site.ledger("s.other").events


@pytest.mark.parametrize(
    ("statement", "writes"),
    [
        ("CREATE TABLE s.copy AS SELECT * FROM s.t", False),
        ("INSERT INTO s.copy SELECT * FROM s.t", False),
        ("INSERT INTO s.t SELECT * FROM s.copy", True),
        ("CREATE OR REPLACE TABLE t AS SELECT 1 AS x", True),
        ("INSERT INTO other.t SELECT 1", False),
        ("MERGE INTO s.t USING s.copy ON true WHEN MATCHED THEN DELETE", True),
        ("FROM s.copy INSERT OVERWRITE s.t SELECT *", True),
        ("an unknown statement about t", True),
    ],
)
async def test_a_view_that_is_created_meanwhile_knows_the_open_writes_to_its_tables(
    statement: str, writes: bool
) -> None:
    """Before, no view read the table, so that the statement was forwarded unread."""
    site = await stage()
    bob = await site.client("bob", {"use:database": "s"})
    await bob.execute("SELECT 1 FROM s.other")  # Its current database is known now.
    site.spark.holds(statement)
    await bob.execute(statement)
    await site.view("s.mv", DEFINITION)
    assert bool(site.ledger("s.mv").open) is writes
