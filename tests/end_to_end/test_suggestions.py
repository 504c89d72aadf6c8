"""The views that freshgate.suggested_views suggests are created, and answer their queries, on real Spark."""

from __future__ import annotations

from clients import pyhive, rows
from seen_gateway import Seen

TABLES = [
    "CREATE TABLE sales (d DATE, ts TIMESTAMP, item STRING, shop INT, qty INT, price DECIMAL(10,2), f DOUBLE)"
    " USING parquet",
    "INSERT INTO sales SELECT date_add(DATE '2024-01-01', CAST(id % 90 AS INT)),"
    " timestampadd(HOUR, CAST(id AS INT), TIMESTAMP '2024-01-01 00:00:00'), concat('i', id % 7), CAST(id % 3 AS INT),"
    " CAST(id % 13 AS INT), CAST(id AS DECIMAL(10,2)) / 3, id / 7 FROM range(1000)",
    "CREATE TABLE shops USING parquet AS SELECT CAST(id AS INT) AS shop, concat('c', id % 2) AS city FROM range(3)",
]
DASHBOARDS = [
    "SELECT item, sum(qty) AS s FROM sales WHERE shop = 2 GROUP BY item ORDER BY item",
    "SELECT d, sum(price) AS s FROM sales WHERE d >= DATE '2024-02-01' GROUP BY d ORDER BY d LIMIT 3",
    "SELECT date_trunc('MONTH', d) AS m, count(*) AS c, min(price) AS x FROM sales GROUP BY date_trunc('MONTH', d)"
    " ORDER BY m",
    "SELECT date_trunc('month', ts) AS t, sum(price) AS s FROM sales GROUP BY date_trunc('month', ts) ORDER BY t",
    "SELECT s.city AS city, sum(x.price) AS p FROM sales x JOIN shops s ON x.shop = s.shop"
    " WHERE x.d >= DATE '2024-02-01' GROUP BY s.city ORDER BY city",
    "SELECT item, sum(f) AS p FROM sales GROUP BY item ORDER BY item",
    "SELECT item, count(DISTINCT shop) AS n FROM sales GROUP BY item ORDER BY item",
]


def test_suggested_views_answer_the_queries_for_which_they_were_suggested(rewriting: Seen) -> None:
    gateway = rewriting.gateway
    with pyhive(gateway.host, gateway.port, user="advised") as cursor:
        for text in ("CREATE DATABASE advised", "USE advised", *TABLES):
            rows(cursor, text)
        before = [rows(cursor, text) for text in DASHBOARDS]
        suggested = rows(cursor, "SELECT statement, queries, runs, mean_ms, name FROM freshgate.suggested_views")
        assert sum(queries for _, queries, *_ in suggested) == len(DASHBOARDS)
        assert all(runs == queries and mean_ms > 0 for _, queries, runs, mean_ms, *_ in suggested)
        for statement, *_ in suggested:
            rows(cursor, statement)
        assert [rows(cursor, text) for text in DASHBOARDS] == before
        asked = rows(cursor, "SELECT view, misses_by_reason, shape FROM freshgate.rewrites")
        assert [each for each in asked if each[0] is None] == []
        assert len(asked) == len(DASHBOARDS)
        assert {view for view, *_ in asked} <= {f"advised.{name}" for *_, name in suggested}
        assert rows(cursor, "SELECT * FROM freshgate.suggested_views") == []
        for *_, name in suggested:
            rows(cursor, f"ALTER MATERIALIZED VIEW {name} DISABLE QUERY REWRITE")
        rows(cursor, "ANALYZE TABLE sales COMPUTE STATISTICS FOR COLUMNS item")
        (known,) = rows(
            cursor, "SELECT base_rows, estimated_rows FROM freshgate.suggested_views WHERE statement LIKE '%sum_f%'"
        )
        assert known == (1000, 8)
    with pyhive(gateway.host, gateway.port, user="eve") as cursor:
        assert rows(cursor, "SELECT * FROM freshgate.suggested_views") == []
