"""What can be seen of queries that are answered from materialized views: on real Spark, with an embedded engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clients import pyhive, rows
from seen_gateway import Seen

BY_ITEM = "SELECT item, sum(qty) AS s FROM sales GROUP BY item ORDER BY item"


@pytest.fixture(scope="module")
def seen(rewriting: Seen) -> Seen:
    with connect(rewriting, database="default") as cursor:
        rows(cursor, "CREATE DATABASE rs")
        rows(cursor, "USE rs")
        rows(cursor, "CREATE TABLE sales (day DATE, item STRING, qty INT, at TIMESTAMP) USING parquet")
        rows(
            cursor,
            "INSERT INTO sales SELECT date_add(DATE'2024-01-01', CAST(id % 90 AS INT)), concat('i', id % 7), "
            "CAST(id % 13 AS INT), timestamp_seconds(id * 7200) FROM range(1000)",
        )
        rows(
            cursor,
            "CREATE MATERIALIZED VIEW daily ENABLE QUERY REWRITE AS "
            "SELECT day, item, count(*) AS orders, sum(qty) AS qty FROM sales GROUP BY day, item",
        )
    return rewriting


def connect(seen: Seen, user: str = "ada", database: str = "rs") -> Any:
    return pyhive(seen.gateway.host, seen.gateway.port, user=user, database=database)


@pytest.fixture
def ada(seen: Seen) -> Iterator[Any]:
    with connect(seen) as cursor:
        rows(cursor, "REFRESH MATERIALIZED VIEW daily AUTO")
        yield cursor


def read(seen: Seen, cursor: Any, text: str) -> tuple[list[tuple[Any, ...]], bool]:
    """The rows of a query whose text is no other's, and whether the view answered it."""
    found = rows(cursor, text)
    return found, seen.line_of(text).get("views", []) == ["rs.daily"]


def test_explain_rewrite_says_what_a_view_is_to_a_query(seen: Seen, ada: Any) -> None:
    def verdict(query: str) -> tuple[Any, ...]:
        found = rows(ada, f"EXPLAIN REWRITE {query}")
        ((view, word, reason, text),) = [each for each in found if each[0] in ("rs.daily", None)]
        return view, word, reason, text

    view, word, reason, text = verdict(BY_ITEM)
    assert (view, word) == ("rs.daily", "CHOSEN")
    assert "proved to give the same rows, and fresh" in reason
    assert text.splitlines()[1:] == [
        "FROM `spark_catalog`.`rs`.`daily` AS daily",
        "GROUP BY daily.item",
        "ORDER BY item",
    ]
    assert rows(ada, text) == rows(ada, BY_ITEM)
    assert verdict("SELECT max(at) FROM sales")[1:] == ("REJECTED", "the view has no column for at", None)
    assert verdict(BY_ITEM.replace("SELECT", "SELECT /*+ NO_REWRITE */"))[2] == "a hint of the query forbids it"
    assert verdict("SELECT 1")[0] is None
    rows(ada, "INSERT INTO sales VALUES (DATE'2024-01-01', 'i3', 1, NULL)")
    _, word, reason, _ = verdict(BY_ITEM)
    assert (word, "rs.sales has changed" in reason) == ("STALE", True)


def test_explain_shows_the_plan_that_would_run(seen: Seen, ada: Any) -> None:
    with connect(seen, user="off") as off:
        rows(off, "SET freshgate.rewrite=off")
        for mode in ("", "EXTENDED", "FORMATTED", "COST"):
            ((plan,),) = rows(ada, f"EXPLAIN {mode} {BY_ITEM}")
            assert "rs__daily__" in plan, mode
            ((own,),) = rows(off, f"EXPLAIN {mode} {BY_ITEM}")
            assert "rs__daily__" not in own, mode


HINTS = {
    "NO_REWRITE": False,
    "REWRITE(daily)": True,
    "REWRITE(rs.daily)": True,
    "REWRITE(spark_catalog.rs.daily)": True,
    "REWRITE(other)": False,
    "USE_MV(daily, other)": True,
    "NO_USE_MV": False,
    "NO_USE_MV(rs.daily)": False,
    "NO_USE_MV(other)": True,
}


def test_hints_decide(seen: Seen, ada: Any) -> None:
    expected, _ = read(seen, ada, f"{BY_ITEM} -- no hint")
    for hint, used in HINTS.items():
        assert read(seen, ada, BY_ITEM.replace("SELECT", f"SELECT /*+ {hint} */") + " -- hint") == (expected, used), (
            hint
        )


def test_what_views_have_answered_is_counted_and_audited(seen: Seen, ada: Any) -> None:
    query = "SELECT day, max(day) AS latest FROM sales WHERE item = '{}' GROUP BY day"
    before = {name: seen.metric(f"rewrite_{name}_total") for name in ("used", "proved", "saved_seconds")}
    refused = seen.metric("rewrite_refused_total", reason="not fresh")
    for item in ("i1", "i2"):
        assert read(seen, ada, query.format(item))[1]
    rows(ada, "INSERT INTO sales VALUES (DATE'2024-01-01', 'i3', 1, NULL)")
    assert not read(seen, ada, query.format("i3"))[1]
    assert "`rs`.`daily`" in seen.line_of("item = 'i1' GROUP BY day")["rewritten"]
    assert "rewritten" not in seen.line_of("item = 'i3' GROUP BY day")
    assert seen.metric("rewrite_used_total") == before["used"] + 2
    assert seen.metric("rewrite_proved_total") >= before["proved"] + 1
    assert seen.metric("rewrite_refused_total", reason="not fresh") == refused + 1
    mine = (
        "SELECT view, hits, misses, misses_by_reason, saved_ms IS NULL, mean_base_ms > 0, user_name "
        "FROM freshgate.rewrites WHERE shape LIKE '%latest%'"
    )
    expected = [("rs.daily", 2, 1, "not fresh: 1", False, True, "ada")]
    assert rows(ada, mine) == expected
    with connect(seen, user="bob") as bob, connect(seen, user="root") as root:
        assert rows(bob, mine) == []
        assert rows(root, mine) == expected
