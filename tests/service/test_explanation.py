"""What Spark is asked about a text, so that it says which views the text reads and runs nothing of it."""

from __future__ import annotations

import pytest
from fake_spark import Answer
from fakes import Site, plan_of

from gateway.errors import StatementFailed
from gateway.service.routing.explanation import views_in_plan
from gateway.service.routing.long_texts import LongTexts
from sql.understood import Understood

IDS = {"s__mv__0123abcd", "s__mv__89ab4567", "a__b__0123abcd"}
READS = "s__mv__0123abcd"
QUERY = "SELECT n FROM s.mv"


async def asked(text: str, inner: str | None = None, plan: Answer | None = None) -> tuple[frozenset[str] | None, str]:
    """What is found, and what EXPLAIN was asked about. `inner`: what the text names."""
    site = Site()
    client = await site.client()
    explained: list[str] = []

    def explain(_: object, text: str) -> Answer:
        explained.append(text)
        return plan or plan_of(READS)

    site.spark.explain = explain
    site.spark.answers.say("^SELECT [(]", Answer([(inner,)]) if inner is not None else StatementFailed("no"))
    found = await views_in_plan(client.session, Understood(text), text, IDS, LongTexts())
    return found, "".join(explained)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n FROM IDENTIFIER('s.' || 'mv')",
        "/* one */ WITH q AS (SELECT 1) SELECT * FROM q, ${x}",
        "(SELECT n FROM ${x})",
        "INSERT INTO t SELECT n FROM ${x}",
        "CREATE TABLE u AS SELECT n FROM ${x}",
        "CACHE TABLE global_temp.g",
    ],
)
async def test_a_text_that_can_be_explained_is(text: str) -> None:
    assert await asked(text) == (frozenset({READS}), text)


@pytest.mark.parametrize(
    ("text", "inner", "explained"),
    [
        ("EXECUTE IMMEDIATE 'SELECT n FROM ' || x", QUERY, QUERY),
        ("execute immediate x;", QUERY, QUERY),
        ("EXECUTE IMMEDIATE x INTO a", QUERY, QUERY),
        ("EXECUTE IMMEDIATE x USING 1 AS p", QUERY, "EXECUTE IMMEDIATE x USING 1 AS p"),
        ("EXECUTE IMMEDIATE x INTO a USING 1 AS p", QUERY, "EXECUTE IMMEDIATE x USING 1 AS p"),
        ("EXECUTE IMMEDIATE x", "INSERT INTO t SELECT n FROM s.mv", "INSERT INTO t SELECT n FROM s.mv"),
    ],
)
async def test_what_a_text_names_is_explained(text: str, inner: str, explained: str) -> None:
    assert await asked(text, inner) == (frozenset({READS}), explained)


@pytest.mark.parametrize("inner", ["USE s", "SET x = 1", "DROP TABLE t", "SELECT 42", "INSERT INTO t VALUES (1)"])
@pytest.mark.parametrize("rest", ["", " USING 1 AS p"])
async def test_what_reads_nothing_is_not_explained(inner: str, rest: str) -> None:
    assert await asked(f"EXECUTE IMMEDIATE x{rest}", inner) == (frozenset(), "")


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("BEGIN SELECT 1; END", None),
        ("CALL p(1)", None),
        ("EXECUTE IMMEDIATE x", None),
        ("EXECUTE IMMEDIATE x USING 1 AS p", "INSERT INTO t SELECT n FROM s.mv WHERE n = :p"),
        ("EXECUTE IMMEDIATE x", "CALL p(1)"),
        ("EXECUTE IMMEDIATE x", "BEGIN INSERT INTO t VALUES (1); END"),
    ],
)
async def test_what_explain_would_run_it_is_not_asked_about(text: str, inner: str | None) -> None:
    assert await asked(text, inner) == (None, "")


@pytest.mark.parametrize("plan", ["Error occurred during query planning: no", ""])
async def test_a_plan_that_is_none_tells_nothing(plan: str) -> None:
    assert await asked(QUERY, plan=Answer([(plan,)])) == (None, QUERY)
