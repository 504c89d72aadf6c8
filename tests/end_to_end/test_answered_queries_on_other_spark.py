"""Tests that views answer queries on base tables with a Spark that the gateway does not embed."""

from __future__ import annotations

from collections.abc import Callable

from clients import pyhive, rows
from processes import Gateway

WAIT_SECONDS = 60.0
QUERY = "SELECT item, sum(qty) AS s FROM texts_sales WHERE d >= DATE'2024-01-02' GROUP BY item ORDER BY item"
UNNAMED = "SELECT d, count(*), sum(price) FROM texts_sales WHERE item = 'pear tree' GROUP BY d ORDER BY d"


def test_a_view_answers_queries_on_base_tables(start_gateway: Callable[..., Gateway]) -> None:
    gateway = start_gateway(**{"rewrite.wait": WAIT_SECONDS})
    with pyhive(gateway.host, gateway.port) as cursor:
        rows(cursor, "CREATE TABLE texts_sales (d DATE, item STRING, qty INT, price DECIMAL(10,2)) USING parquet")
        rows(
            cursor,
            """INSERT INTO texts_sales VALUES (DATE'2024-01-01', 'apple', 1, 1.25), (DATE'2024-01-02', 'apple', 2, 2.5),
               (DATE'2024-01-03', 'apple', 4, NULL), (DATE'2024-01-03', 'pear tree', 8, 0.75)""",
        )
        rows(
            cursor,
            """CREATE MATERIALIZED VIEW texts_daily ENABLE QUERY REWRITE AS SELECT d, item, count(*) AS n,
               sum(qty) AS q, sum(price) AS p FROM texts_sales GROUP BY d, item""",
        )
        try:
            settings = rows(cursor, "SET")
            assert rows(cursor, QUERY) == [("apple", 6), ("pear tree", 8)]
            assert [each[1] for each in rows(cursor, f"EXPLAIN REWRITE {UNNAMED}")] == ["CHOSEN"]
            assert len(rows(cursor, UNNAMED)) == 1
            assert rows(cursor, "SELECT sum(hits) FROM freshgate.rewrites") == [(2,)]
            assert rows(cursor, "SET") == settings

            rows(cursor, "INSERT INTO texts_sales VALUES (DATE'2024-01-03', 'apple', 16, 1)")
            assert rows(cursor, QUERY) == [("apple", 22), ("pear tree", 8)]
            assert rows(cursor, "SELECT sum(hits) FROM freshgate.rewrites") == [(2,)]
            rows(cursor, "REFRESH MATERIALIZED VIEW texts_daily")

            rows(cursor, "SET spark.sql.ansi.enabled=false")
            ((_, verdict, reason, *_),) = rows(cursor, f"EXPLAIN REWRITE {QUERY}")
            assert verdict == "NOT PROVED"
            assert "settings" in reason or "ansi" in reason
        finally:
            rows(cursor, "DROP MATERIALIZED VIEW texts_daily")
            rows(cursor, "DROP TABLE texts_sales")


def test_tables_with_char_columns(start_gateway: Callable[..., Gateway]) -> None:
    gateway = start_gateway(**{"rewrite.wait": WAIT_SECONDS})
    with pyhive(gateway.host, gateway.port) as cursor:
        rows(cursor, "CREATE TABLE texts_codes (code CHAR(5), name VARCHAR(10), qty INT) USING parquet")
        rows(cursor, "INSERT INTO texts_codes VALUES ('a', 'x', 1), ('a ', 'y', 2), ('ab', 'x', 4), (NULL, 'x', 8)")
        rows(
            cursor,
            "CREATE MATERIALIZED VIEW texts_coded ENABLE QUERY REWRITE AS SELECT code, name, sum(qty) AS q "
            "FROM texts_codes GROUP BY code, name",
        )
        try:
            for tail, verdict in (
                ("name = 'x'", "CHOSEN"),
                ("code IS NOT NULL", "CHOSEN"),
                ("code = 'a'", "CHOSEN"),
            ):
                query = f"SELECT code, sum(qty) AS s FROM texts_codes WHERE {tail} GROUP BY code ORDER BY code"
                assert [each[1] for each in rows(cursor, f"EXPLAIN REWRITE {query}")] == [verdict], query
                answered = rows(cursor, query)
                rows(cursor, "SET freshgate.rewrite=off")
                assert rows(cursor, query) == answered
                rows(cursor, "SET freshgate.rewrite=on")
        finally:
            rows(cursor, "DROP MATERIALIZED VIEW texts_coded")
            rows(cursor, "DROP TABLE texts_codes")
