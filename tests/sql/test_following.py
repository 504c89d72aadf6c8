"""Tests which partitions a view's partitions follow: accepted definitions, refused ones, and arbitrary texts."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sql.definition.following import CannotFollow, Followed, Source, follow
from sql.names import Namespace, TableName

SALES = Namespace("sales")
ORDERS = TableName("sales", "orders")
NULLABLE = "it comes from the side of an outer join that may be NULL"
TWICE = "it reads sales.orders more than once"
COMPUTED = "it is neither a column nor a column truncated by date_trunc, to_date or CAST AS DATE"
UNGROUPED = "GROUP BY does not contain it"
UNCERTAIN = "it is not certain which column"
WINDOW = "a window function is not partitioned by it"


def view(*columns: str, text: str, namespace: Namespace = SALES) -> Source:
    return Source(columns, view_text=text, namespace=namespace)


SOURCES = {
    ORDERS: Source(("id", "customer", "amount", "tags", "d", "hour"), ("d", "hour")),
    TableName("sales", "archive"): Source(("id", "customer", "amount", "d"), ("d",)),
    TableName("sales", "customers"): Source(("id", "name", "d", "region")),
    TableName("sales", "plain"): Source(("k", "v")),
    TableName("other", "orders"): Source(("x", "d"), ("d",)),
    TableName("ns", "orders", "lake"): Source(("k", "Day"), ("Day",)),
    TableName("sales", "all_columns"): Source(("all", "d"), ("d",)),
    TableName("sales", "mixed"): Source(("ID", "p"), ("p",)),
    TableName("sales", "daily"): Source(("ts", "n"), ("ts",), units={"ts": "DAY"}),
    TableName("sales", "weekly"): Source(("ts", "n"), ("ts",), units={"ts": "WEEK"}),
    TableName("sales", "recent"): view("key", "day", text="SELECT id, d FROM orders WHERE amount > 0"),
    TableName("sales", "cut"): view("month", "day", text="SELECT date_trunc('MONTH', d), d FROM orders"),
    TableName("sales", "first_ten"): view("day", text="SELECT d FROM orders LIMIT 10"),
    TableName("sales", "elsewhere"): view("day", text="SELECT d FROM orders", namespace=Namespace("other")),
    TableName("sales", "nested"): view("x", text="SELECT day FROM recent WHERE key IN (SELECT k FROM plain)"),
    TableName("sales", "short"): view("one", "two", text="SELECT d FROM orders"),
    TableName("sales", "starred"): view("id", "customer", "amount", "tags", "d", "hour", text="SELECT * FROM orders"),
    TableName("sales", "grown"): view("d", "id", text="SELECT * EXCEPT (amount) FROM sales.small"),
    TableName("sales", "small"): Source(("id", "amount", "d"), ("d",)),
    TableName("orders", "files", "sales"): Source(("path", "d")),
    TableName("ns.orders", "files", "lake"): Source(("path",)),
    TableName("sales", "snake"): view("a", text="SELECT a FROM snake"),
    TableName("sales", "broken"): view("a", text="SELECT FROM WHERE"),
}

PLAIN = "{}"
DAY = "date_trunc('DAY', try_cast({} AS TIMESTAMP))"
MONTH = "date_trunc('MONTH', try_cast({} AS TIMESTAMP))"
CAST = "try_cast({} AS DATE)"


def outcome(query: str, position: int = 0, unit: str | None = None) -> str:
    """The followed column and its expression, or the reason of the refusal."""
    try:
        found = follow(query, SALES, position, unit, SOURCES)
    except CannotFollow as reason:
        return f"no: {reason}"
    return f"{found.table}.{found.column} {found.expression}"


ACCEPTED = [
    # columns and their permitted expressions
    ("SELECT d FROM orders", PLAIN),
    ("SELECT (d) FROM orders", PLAIN),
    ("SELECT ((D)) AS day FROM Sales.ORDERS", PLAIN),
    ("SELECT `d` `day` FROM `orders` AS o", PLAIN),
    ("SELECT o.d FROM orders o", PLAIN),
    ("SELECT orders.d FROM orders", PLAIN),
    ("SELECT sales.orders.d FROM orders", PLAIN),
    ("SELECT spark_catalog.sales.orders.d FROM orders", PLAIN),
    ("FROM orders SELECT d", PLAIN),
    ("SELECT d FROM orders;", PLAIN),
    ("(SELECT d FROM orders)", PLAIN),
    ("SELECT /*+ BROADCAST(orders) */ d -- comment\nFROM orders", PLAIN),
    ("SELECT date_trunc('day', d) FROM orders", DAY),
    ("SELECT `d` FROM (SELECT date_trunc('MONTH', (d)) AS d FROM orders)", MONTH),
    ("SELECT to_date(d) FROM orders", CAST),
    ("SELECT date(d) x FROM orders", CAST),
    ("SELECT cast(d AS date) FROM orders", CAST),
    ("SELECT date_trunc('MONTH', to_date(d)) FROM orders", f"date_trunc('MONTH', try_cast({CAST} AS TIMESTAMP))"),
    ("SELECT CAST(date_trunc('MONTH', d) AS DATE) AS m FROM orders", f"try_cast({MONTH} AS DATE)"),
    ("SELECT DISTINCT d FROM orders", PLAIN),
    ("SELECT ALL d FROM orders", PLAIN),
    ("SELECT d FROM orders WHERE amount > 3 AND d > '2024' ORDER BY amount", PLAIN),
    ("SELECT d FROM orders DISTRIBUTE BY d SORT BY id", PLAIN),
    ("SELECT d FROM orders CLUSTER BY d", PLAIN),
    # subqueries, CTEs, views
    ("SELECT d FROM (SELECT * FROM orders) WHERE id > 1", PLAIN),
    ("SELECT b FROM (SELECT id, d FROM orders) AS q(a, b)", PLAIN),
    ("SELECT x.e FROM orders AS x(a, b, c, f, e, g)", PLAIN),
    ("WITH q AS (SELECT d FROM orders) SELECT d FROM q", PLAIN),
    ("WITH q(a, b) AS (SELECT id, d FROM orders) SELECT B FROM Q", PLAIN),
    ("WITH a AS (SELECT d FROM orders), b AS (SELECT d AS e FROM a) SELECT x.e FROM b AS x", PLAIN),
    ("WITH orders AS (SELECT * FROM orders WHERE id > 1) SELECT d FROM orders", PLAIN),
    ("WITH unused AS (SELECT d FROM orders) SELECT d FROM orders", PLAIN),
    ("SELECT d FROM (WITH q AS (SELECT d FROM orders) SELECT * FROM q)", PLAIN),
    ("SELECT day FROM recent", PLAIN),
    ("SELECT x FROM nested", PLAIN),
    ("SELECT d FROM starred", PLAIN),
    ("SELECT day FROM cut", PLAIN),
    ("SELECT date_trunc('MONTH', day) FROM recent", MONTH),
    ("SELECT z FROM recent AS r(y, z)", PLAIN),
    # stars
    ("SELECT amount_free.d FROM (SELECT * EXCEPT (amount) FROM orders) amount_free", PLAIN),
    ("TABLE recent", ("sales.orders.d", PLAIN, 1)),
    ("SELECT * FROM orders", ("sales.orders.hour", PLAIN, 5)),
    ("SELECT o.*, 1 FROM orders o", ("sales.orders.d", PLAIN, 4)),
    ("SELECT c.*, o.* FROM customers c, orders o", ("sales.orders.d", PLAIN, 8)),
    ("SELECT * EXCEPT (id, TAGS) FROM orders", ("sales.orders.d", PLAIN, 2)),
    ("SELECT o.* EXCEPT (id) FROM customers c JOIN orders o ON c.id = o.id", ("sales.orders.d", PLAIN, 3)),
    ("SELECT explode(tags) AS t, d FROM orders", ("sales.orders.d", PLAIN, 1)),
    ("SELECT posexplode(tags) AS (p, t), d FROM orders", ("sales.orders.d", PLAIN, 2)),
    ("SELECT count(*), d, amount + 1 FROM orders GROUP BY d, amount", ("sales.orders.d", PLAIN, 1)),
    ("SELECT d AS offset FROM (SELECT d, id AS `limit` FROM orders) WHERE `limit` > 1", PLAIN),
    # groups
    ("SELECT d, count(*) FROM orders GROUP BY d", PLAIN),
    ("SELECT d, count(*) FROM orders GROUP BY 1", PLAIN),
    ("SELECT o.d FROM orders o GROUP BY d, id HAVING max(amount) > 1", PLAIN),
    ("SELECT date_trunc('DAY', d) AS x, sum(amount) FROM orders GROUP BY x", DAY),
    ("SELECT d AS x, d AS x, sum(amount) FROM orders GROUP BY x", PLAIN),
    ("SELECT date_trunc('DAY', d), sum(amount) FROM orders GROUP BY date_trunc('day', d)", DAY),
    ("SELECT date_trunc('DAY', d), sum(amount) FROM orders GROUP BY d", DAY),
    ("SELECT d, sum(amount) FROM orders GROUP BY ALL", PLAIN),
    ("SELECT count(*), date(d) FROM orders GROUP BY 2", ("sales.orders.d", CAST, 1)),
    # windows
    ("SELECT d, rank() OVER (PARTITION BY d ORDER BY id) FROM orders", PLAIN),
    ("SELECT d, rank() OVER (PARTITION BY customer, (d) ORDER BY id) r FROM orders", PLAIN),
    ("SELECT date_trunc('DAY', d), sum(amount) OVER (PARTITION BY d) FROM orders", DAY),
    ("SELECT d, sum(amount) OVER w FROM orders WINDOW w AS (PARTITION BY d)", PLAIN),
    ("SELECT d, sum(amount) OVER (w ORDER BY id) FROM orders WINDOW w AS (PARTITION BY d)", PLAIN),
    ("SELECT a, rank() OVER (PARTITION BY b) FROM (SELECT d a, d b FROM orders)", PLAIN),
    ("SELECT a, rank() OVER (PARTITION BY a) FROM (SELECT d a FROM orders UNION ALL SELECT k FROM plain)", PLAIN),
    ("SELECT d FROM ((SELECT d FROM orders UNION SELECT k FROM plain) UNION ALL SELECT d FROM orders)", PLAIN),
    ("SELECT d, x FROM orders, (SELECT rank() OVER (ORDER BY k) AS x FROM plain)", PLAIN),
    # joins
    ("SELECT d FROM orders CROSS JOIN plain", PLAIN),
    ("SELECT o.d FROM customers c JOIN orders o ON c.id = o.customer", PLAIN),
    ("SELECT o.d FROM orders o LEFT JOIN customers c ON c.id = o.customer", PLAIN),
    ("SELECT o.d FROM customers c RIGHT OUTER JOIN orders o ON c.id = o.customer", PLAIN),
    ("SELECT d FROM orders o LEFT SEMI JOIN customers c ON c.id = o.customer", PLAIN),
    ("SELECT d FROM orders o ANTI JOIN customers c ON c.id = o.customer", PLAIN),
    ("SELECT d FROM orders JOIN customers USING (d)", PLAIN),
    ("SELECT d FROM orders LEFT JOIN customers USING (id, d)", PLAIN),
    ("SELECT d FROM customers RIGHT JOIN orders USING (d)", PLAIN),
    ("SELECT orders.d FROM customers JOIN orders USING (d)", PLAIN),
    ("SELECT d FROM orders NATURAL LEFT JOIN customers", PLAIN),
    ("SELECT * FROM plain JOIN (SELECT amount AS v, d FROM orders) USING (v)", ("sales.orders.d", PLAIN, 2)),
    ("SELECT * FROM orders JOIN customers USING (d)", PLAIN),
    ("SELECT * FROM orders NATURAL JOIN customers", ("sales.orders.d", PLAIN, 1)),
    ("SELECT d FROM (orders JOIN plain ON id = k)", PLAIN),
    ("SELECT d FROM plain JOIN (orders LEFT JOIN plain q ON id = q.k) ON id = plain.k", PLAIN),
    ("SELECT j.d FROM (SELECT o.d FROM orders o, plain p) j", PLAIN),
    ("SELECT d FROM orders LATERAL VIEW explode(tags) t AS tag", PLAIN),
    ("SELECT o.d FROM orders o LATERAL VIEW OUTER posexplode(tags) t", PLAIN),
    ("SELECT o.d FROM orders o, LATERAL (SELECT max(k) FROM plain WHERE v = o.id) x", PLAIN),
    ("SELECT o.d, v.a FROM orders o, VALUES (1, 2) AS v(a, b)", PLAIN),
    ("SELECT orders.d FROM orders, range(10)", PLAIN),
    # further tables
    ("SELECT d FROM orders WHERE customer IN (SELECT id FROM customers)", PLAIN),
    ("SELECT d, (SELECT max(v) FROM plain WHERE k = id LIMIT 1) FROM orders", PLAIN),
    ("SELECT d FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer)", PLAIN),
    ("SELECT d FROM orders WHERE customer = (WITH q AS (SELECT k FROM plain) SELECT max(k) FROM q)", PLAIN),
    ("SELECT d FROM orders, (SELECT k FROM plain ORDER BY v LIMIT 1)", PLAIN),
    ("SELECT o.d FROM orders o JOIN archive a ON o.id = a.id", PLAIN),
    # set operations
    ("SELECT d FROM orders WHERE id = 1 UNION ALL SELECT d FROM orders WHERE id = 2", PLAIN),
    ("SELECT id, d FROM orders EXCEPT SELECT customer, d FROM orders", ("sales.orders.d", PLAIN, 1)),
    ("SELECT d FROM orders MINUS SELECT o.d FROM orders o", PLAIN),
    ("SELECT d FROM orders INTERSECT SELECT d FROM customers", PLAIN),
    ("SELECT d FROM customers UNION SELECT d FROM orders", PLAIN),
    ("SELECT d FROM orders UNION ALL VALUES ('2020')", PLAIN),
    ("SELECT d FROM orders UNION ALL SELECT d FROM archive", PLAIN),
    ("SELECT d FROM (SELECT d FROM orders UNION SELECT '1') q", PLAIN),
    ("SELECT to_date(d) FROM (SELECT d FROM orders UNION ALL SELECT d FROM orders)", CAST),
    ("(SELECT d FROM orders) UNION (SELECT d FROM orders) ORDER BY 1", PLAIN),
    # other databases and catalogs
    ("SELECT Day FROM lake.ns.orders", ("lake.ns.orders.Day", PLAIN, 0)),
    ("SELECT day FROM elsewhere", ("other.orders.d", PLAIN, 0)),
    ("SELECT o.d FROM other.orders o JOIN orders p ON o.x = p.id", ("other.orders.d", PLAIN, 0)),
]


@pytest.mark.parametrize(("query", "expected"), ACCEPTED)
def test_an_accepted_definition_follows_a_partition_column(query: str, expected: str | tuple[str, str, int]) -> None:
    column, expression, position = ("sales.orders.d", expected, 0) if isinstance(expected, str) else expected
    assert outcome(query, position) == f"{column} {expression}"


REFUSED = [
    # columns that are not partition columns
    ("SELECT amount FROM orders", "the column amount of sales.orders is not one of its partition columns (d, hour)"),
    ("SELECT k FROM plain", "sales.plain, from which its column k comes, has no partition columns"),
    ("SELECT key FROM recent", "the column id of sales.orders is not one of its partition columns (d, hour)"),
    ("SELECT o.d FROM orders AS o(d, a, b, c, e, f)", "the column id of sales.orders is not one"),
    ("SELECT 1", COMPUTED),
    ("SELECT max(d) AS d FROM orders GROUP BY d", COMPUTED),
    ("SELECT (SELECT d) FROM orders", COMPUTED),
    # expressions of a column that are refused
    ("SELECT +d FROM orders", COMPUTED),
    ("SELECT + d AS d FROM orders", COMPUTED),
    ("SELECT (+d) FROM orders", COMPUTED),
    ("SELECT -d FROM orders", COMPUTED),
    ("SELECT to_date(+d) FROM orders", COMPUTED),
    ("SELECT date_trunc('DAY', + d) FROM orders", COMPUTED),
    ("SELECT d || '' FROM orders", COMPUTED),
    ("SELECT d COLLATE UTF8_LCASE FROM orders", COMPUTED),
    ("SELECT upper(d) FROM orders", COMPUTED),
    ("SELECT coalesce(d, '2024') FROM orders", COMPUTED),
    ("SELECT to_date(d, 'yyyy-MM-dd') FROM orders", COMPUTED),
    ("SELECT to_date(d, 'yyyy') FROM orders", COMPUTED),
    ("SELECT cast(d AS timestamp) FROM orders", COMPUTED),
    ("SELECT try_cast(d AS date) FROM orders", COMPUTED),
    ("SELECT d::date FROM orders", COMPUTED),
    ("SELECT trunc(d, 'MM') FROM orders", COMPUTED),
    ("SELECT date_trunc('MINUTE', d) FROM orders", COMPUTED),
    ("SELECT date_trunc('DECADE', d) FROM orders", COMPUTED),
    ('SELECT date_trunc("DAY", d) FROM orders', COMPUTED),
    ("SELECT date_trunc(day, d) FROM orders", COMPUTED),
    ("SELECT date_trunc(hour, d) FROM orders", COMPUTED),
    ("SELECT date_trunc('MON' 'TH', d) FROM orders", COMPUTED),
    ("SELECT date_trunc('DAY', d, 1) FROM orders", COMPUTED),
    ("SELECT sales.date_trunc('DAY', d) FROM orders", "it calls the function date_trunc, which may read tables"),
    ("SELECT timestamp_trunc(d, DAY) FROM orders", "it calls the function timestamp_trunc, which may read tables"),
    ("SELECT d.field FROM orders", UNCERTAIN),
    ("SELECT d.a.b FROM orders", UNCERTAIN),
    ("SELECT orders.d.x FROM orders", UNCERTAIN),
    ("SELECT tags[0] FROM orders", COMPUTED),
    ("SELECT DATE '2024-01-01' FROM orders", COMPUTED),
    ("SELECT date_trunc('MONTH', day) AS m FROM (SELECT month AS day FROM cut)", "under its own session settings"),
    ("SELECT month FROM cut", "the view sales.cut computes its column month under its own session settings"),
    # names
    ("SELECT nothing FROM orders", UNCERTAIN),
    ("SELECT orders.d FROM orders o", UNCERTAIN),
    ("SELECT d FROM orders, customers", UNCERTAIN),
    ("SELECT d FROM orders JOIN customers ON orders.id = customers.id", UNCERTAIN),
    ("SELECT d FROM (SELECT d, id AS d FROM orders)", UNCERTAIN),
    ("SELECT x.d FROM orders x, archive x", UNCERTAIN),
    ("SELECT amount AS d, d AS e FROM (SELECT amount FROM orders)", "partition columns (d, hour)"),
    ("SELECT e FROM (SELECT d AS e, e AS f, amount AS e FROM orders)", UNCERTAIN),
    ("SELECT d FROM (SELECT amount AS d FROM orders)", "partition columns (d, hour)"),
    ("SELECT d FROM gone", "the relation sales.gone is not known"),
    ("SELECT d FROM orders WHERE id IN (SELECT 1 FROM gone)", "the relation sales.gone is not known"),
    ("WITH unused AS (SELECT 1 FROM gone) SELECT d FROM orders", "the relation sales.gone is not known"),
    ("SELECT a FROM snake", "the view sales.snake reads itself"),
    ("SELECT a FROM broken", "the query is not understood"),
    ("SELECT one FROM short", UNCERTAIN),
    ("SELECT id FROM grown", "it is not certain which column the view sales.grown shows as id"),
    ("SELECT d FROM orders AS o(a, b, d)", UNCERTAIN),
    ("SELECT d FROM orders, explode(array(1))", UNCERTAIN),
    ("SELECT d FROM orders LATERAL VIEW explode(tags) t", UNCERTAIN),
    ("SELECT d FROM orders LATERAL VIEW explode(tags) t AS d", UNCERTAIN),
    ("SELECT t.d FROM orders LATERAL VIEW explode(tags) t AS d", UNCERTAIN),
    (
        "WITH q AS (SELECT 1 AS d), r AS (WITH q AS (SELECT d FROM orders) SELECT * FROM q) SELECT d FROM r",
        "two CTEs are named q",
    ),
    ("WITH q AS (SELECT d FROM orders), q AS (SELECT 1) SELECT d FROM q", "two CTEs are named q"),
    # the same table read again
    ("SELECT a.d FROM orders a JOIN orders b ON a.id = b.id", TWICE),
    ("SELECT o.d FROM orders o, recent", TWICE),
    ("SELECT d FROM orders WHERE d = (SELECT max(d) FROM orders)", TWICE),
    ("SELECT d, (SELECT count(*) FROM recent) FROM orders", TWICE),
    ("SELECT d FROM orders GROUP BY d HAVING count(*) > (SELECT min(amount) FROM orders)", TWICE),
    ("SELECT d FROM orders ORDER BY (SELECT max(id) FROM orders)", TWICE),
    ("SELECT o.d FROM orders o LEFT SEMI JOIN orders p ON o.id = p.customer", TWICE),
    ("SELECT o.d FROM orders o, LATERAL (SELECT max(id) FROM orders) x", TWICE),
    ("SELECT o.d FROM orders o JOIN plain p ON p.k = (SELECT max(id) FROM orders)", TWICE),
    ("WITH q AS (SELECT * FROM orders) SELECT a.d FROM q a JOIN q b ON a.id = b.id", TWICE),
    ("WITH q AS (SELECT * FROM orders) SELECT d FROM orders WHERE id IN (SELECT id FROM q)", TWICE),
    ("WITH q AS (SELECT * FROM orders) SELECT d FROM q WHERE id IN (WITH r AS (SELECT id FROM q) TABLE r)", TWICE),
    ("SELECT d FROM orders WHERE id IN (WITH orders AS (SELECT id FROM orders) SELECT id FROM orders)", TWICE),
    ("SELECT d FROM orders UNION SELECT d FROM orders WHERE id IN (SELECT id FROM orders)", TWICE),
    ("SELECT d FROM orders UNION SELECT d FROM customers WHERE id IN (SELECT id FROM orders)", "not all parts"),
    ("SELECT d FROM orders LATERAL VIEW explode(array((SELECT max(id) FROM orders))) t AS x", TWICE),
    ("SELECT d, sum(amount) OVER (PARTITION BY d ORDER BY (SELECT max(id) FROM orders)) FROM orders", TWICE),
    ("SELECT o.d FROM orders o JOIN sales.orders.files f ON o.d = f.d", TWICE),
    ("SELECT day FROM lake.ns.orders JOIN lake.ns.orders.files", "it reads lake.ns.orders more than once"),
    # rows that depend on other rows
    ("SELECT d FROM orders LIMIT 10", "it is below LIMIT"),
    ("SELECT d FROM orders LIMIT ALL", "it is below LIMIT"),
    ("SELECT d FROM orders ORDER BY id OFFSET 3", "it is below OFFSET"),
    ("SELECT d FROM (SELECT d FROM orders LIMIT 1)", "it is below LIMIT"),
    ("SELECT d FROM ((SELECT d FROM orders) LIMIT 1)", "it is below LIMIT"),
    ("WITH q AS (SELECT d FROM orders LIMIT 1) SELECT d FROM q", "it is below LIMIT"),
    ("SELECT day FROM first_ten", "it is below LIMIT"),
    ("SELECT d FROM orders UNION ALL SELECT d FROM customers LIMIT 3", "it is below LIMIT"),
    ("SELECT d FROM orders UNION ALL (SELECT d FROM orders LIMIT 3)", "it is below LIMIT"),
    ("SELECT d FROM orders TABLESAMPLE (10 PERCENT)", "it is below TABLESAMPLE"),
    ("SELECT d FROM orders FETCH FIRST 1 ROWS ONLY", "it is below LIMIT"),
    ("SELECT d FROM orders VERSION AS OF 3", UNCERTAIN),
    ("SELECT o.d FROM customers c LEFT JOIN orders o ON c.id = o.customer", NULLABLE),
    ("SELECT o.d FROM orders o RIGHT JOIN customers c ON c.id = o.customer", NULLABLE),
    ("SELECT o.d FROM orders o FULL OUTER JOIN customers c ON c.id = o.customer", NULLABLE),
    ("SELECT o.d FROM customers c FULL JOIN orders o ON c.id = o.customer", NULLABLE),
    ("SELECT o.d FROM plain LEFT JOIN (customers c JOIN orders o ON c.id = o.id) ON k = c.id", NULLABLE),
    ("SELECT o.d FROM orders o JOIN plain p ON o.id = p.k RIGHT JOIN customers c ON c.id = p.k", NULLABLE),
    ("SELECT o.d FROM orders o, plain p RIGHT JOIN customers c ON c.id = p.k", NULLABLE),
    ("SELECT d FROM orders FULL JOIN customers USING (d)", NULLABLE),
    ("SELECT d FROM orders RIGHT JOIN customers USING (d)", "sales.customers, from which its column d comes"),
    ("SELECT orders.d FROM orders RIGHT JOIN customers USING (d)", NULLABLE),
    ("SELECT d FROM customers LEFT JOIN orders USING (d)", "sales.customers, from which its column d comes"),
    # The join compares d after a cast. It shows the left side's value, which may be '2024-1-1'.
    ("SELECT d FROM customers JOIN orders USING (d)", "sales.customers, from which its column d comes"),
    ("SELECT orders.d FROM orders, plain JOIN customers USING (id)", "combined with a comma or CROSS JOIN"),
    ("SELECT orders.d FROM orders NATURAL JOIN mixed", "it is not certain which columns a join by column names has"),
    ("SELECT o.d FROM customers c LEFT SEMI JOIN orders o ON c.id = o.customer", UNCERTAIN),
    ("SELECT o.d FROM orders o ASOF JOIN customers c ON c.id = o.customer", "not"),
    ("SELECT o.d FROM orders o OUTER JOIN customers c ON c.id = o.customer", "the join OUTER is not understood"),
    ("SELECT o.* FROM orders o JOIN customers c USING (id)", "the position of the partition column"),
    # groups and aggregates
    ("SELECT d, count(*) FROM orders GROUP BY customer", UNGROUPED),
    ("SELECT date_trunc('DAY', d), count(*) FROM orders GROUP BY date_trunc('MONTH', d)", UNGROUPED),
    ("SELECT d, count(*) FROM orders GROUP BY date_trunc('MONTH', d)", UNGROUPED),
    ("SELECT d, count(*) FROM orders GROUP BY +d", UNGROUPED),
    ("SELECT d, count(*) FROM orders GROUP BY (d, id)", UNGROUPED),
    ("SELECT d, count(*) FROM orders GROUP BY ()", UNGROUPED),
    ("SELECT d, count(*) FROM orders GROUP BY 2", UNGROUPED),
    ("SELECT d, count(*) FROM orders GROUP BY 7", UNGROUPED),
    ("SELECT d AS customer, count(*) FROM orders GROUP BY customer", UNGROUPED),
    ("SELECT date_trunc('MONTH', d) AS hour, count(*) FROM orders GROUP BY hour", UNGROUPED),
    ("SELECT d, count(*) FROM orders GROUP BY ROLLUP (d)", "several grouping sets"),
    ("SELECT d, count(*) FROM orders GROUP BY d, CUBE (customer)", "several grouping sets"),
    ("SELECT d, count(*) FROM orders GROUP BY d WITH ROLLUP", "it is below ROLLUP"),
    ("SELECT d, count(*) FROM orders GROUP BY d, id WITH CUBE", "it is below CUBE"),
    ("SELECT d, count(*) FROM orders GROUP BY GROUPING SETS ((d), ())", "GROUP BY has several grouping sets"),
    ("SELECT d, count(*) FROM orders GROUP BY d GROUPING SETS ((d), ())", "it is below GROUPING_SETS"),
    ("SELECT d, count(*) FROM all_columns GROUP BY ALL", "it is below ALL"),
    ("SELECT d, count(*) FROM orders", "the query aggregates all rows, without GROUP BY"),
    ("SELECT d FROM orders HAVING d > 1", "the query aggregates all rows, without GROUP BY"),
    # windows
    ("SELECT d, rank() OVER (ORDER BY id) FROM orders", WINDOW),
    ("SELECT d, rank() OVER (PARTITION BY customer ORDER BY d) FROM orders", WINDOW),
    ("SELECT d, sum(amount) OVER (PARTITION BY d), count(*) OVER () FROM orders", WINDOW),
    ("SELECT d, sum(amount) OVER (PARTITION BY date_trunc('MONTH', d)) FROM orders", WINDOW),
    ("SELECT d, sum(amount) OVER (PARTITION BY +d) FROM orders", WINDOW),
    ("SELECT d, sum(amount) OVER (PARTITION BY d || '') FROM orders", WINDOW),
    ("SELECT d, sum(amount) OVER (PARTITION BY (d, id)) FROM orders", WINDOW),
    ("SELECT d, sum(amount) OVER (PARTITION BY 1) FROM orders", WINDOW),
    ("SELECT d, sum(amount) OVER w FROM orders WINDOW w AS (ORDER BY d)", WINDOW),
    ("SELECT d, sum(amount) OVER v FROM orders WINDOW w AS (PARTITION BY d), v AS (ORDER BY d)", WINDOW),
    ("SELECT d FROM (SELECT d, rank() OVER (ORDER BY id) AS r FROM orders) WHERE r = 1", WINDOW),
    ("SELECT d FROM orders ORDER BY rank() OVER (ORDER BY id)", WINDOW),
    ("SELECT o.d, rank() OVER (PARTITION BY c.d ORDER BY o.id) FROM orders o JOIN customers c ON o.d = c.d", WINDOW),
    # A row of plain with v = 1 belongs to the window of the orders with d = k.
    (
        "SELECT a, rank() OVER (PARTITION BY b ORDER BY a) FROM "
        "(SELECT d AS a, d AS b FROM orders UNION ALL SELECT v, k FROM plain)",
        WINDOW,
    ),
    ("SELECT d FROM orders QUALIFY rank() OVER (PARTITION BY customer ORDER BY id) = 1", "it is below QUALIFY"),
    # other clauses
    ("SELECT o.d FROM orders o JOIN plain PIVOT (sum(v) FOR k IN (1, 2)) ON o.id = 1", "it is below PIVOT"),
    ("SELECT d FROM orders PIVOT (sum(amount) FOR hour IN (1))", "it is below PIVOT or UNPIVOT"),
    ("SELECT d FROM orders UNPIVOT (v FOR n IN (id, amount))", "it is below PIVOT or UNPIVOT"),
    ("SELECT d FROM orders |> LIMIT 3", "pipe"),
    ("SELECT d FROM orders |> WHERE id = 1", "pipe"),
    ("SELECT TRANSFORM(d) USING 'cat' AS (d) FROM orders", "the query runs a script"),
    ("SELECT MAP(d, id) USING 'cat' AS (d) FROM orders", "not parsed"),
    ("WITH RECURSIVE q AS (SELECT d FROM orders UNION ALL SELECT d FROM q) SELECT d FROM q", UNCERTAIN),
    ("WITH RECURSIVE q(d) AS (SELECT d FROM orders UNION ALL SELECT d FROM q) SELECT d FROM q", UNCERTAIN),
    ("SELECT d FROM orders UNION ALL BY NAME SELECT d FROM archive", "UNION BY NAME"),
    ("SELECT DISTINCT ON (id) d FROM orders", "DISTINCT ON"),
    ("SELECT d FROM orders FOR UPDATE", "it is below LOCKS"),
    ("SELECT d FROM orders WHERE sales.total() > 1", "it calls the function total, which may read tables"),
    ("SELECT d FROM orders WHERE total(id) > 1", "it calls the function total, which may read tables"),
    ("WITH total(d) AS (SELECT d FROM orders) SELECT d FROM total WHERE total(1) > 1", "it calls the function total"),
    ("SELECT d FROM orders WHERE `exists`((SELECT 1)) AND `by`(1)", "it calls the function by"),
    ("SELECT d FROM orders, total(TABLE(plain))", "it calls the function total"),
    ("SELECT d FROM orders, identifier('plain')", "the query is not understood: IDENTIFIER"),
    ("SELECT d FROM ${t}", "the query is not understood"),
    ("INSERT INTO plain SELECT d FROM orders", "the query is not understood: not a query"),
    ("SELECT d FROM orders; SELECT d FROM orders", "the query is not understood: not one statement"),
    ("DROP TABLE orders", "the query is not understood"),
    ("", "the query is not understood"),
    # set operations
    (
        "SELECT d FROM orders UNION SELECT customer FROM orders",
        "not all parts of a set operation that read sales.orders",
    ),
    ("SELECT d FROM orders UNION SELECT hour FROM orders", "not all parts of a set operation"),
    ("SELECT d FROM orders UNION SELECT date_trunc('DAY', d) FROM orders", "not all parts of a set operation"),
    ("SELECT 1 FROM orders UNION SELECT d FROM orders", "not all parts of a set operation"),
    ("SELECT id, d FROM orders UNION SELECT d, id FROM orders", "not all parts of a set operation"),
    ("SELECT to_date(d) FROM (SELECT d FROM orders UNION SELECT current_timestamp())", "may have given another type"),
    ("SELECT d FROM orders UNION SELECT d, id FROM plain", "the position of the partition column"),
    # uncertain positions
    ("SELECT posexplode(tags), d FROM orders", "the position of the partition column in the query is not certain", 1),
    ("SELECT posexplode(tags), d FROM orders", "the position of the partition column in the query is not certain", 2),
    ("SELECT (explode(tags)), d FROM orders", "the position of the partition column in the query is not certain", 1),
    ("SELECT `(id|d)`, d FROM orders", "the position of the partition column in the query is not certain", 1),
    ("SELECT *, d FROM orders, range(3)", "the position of the partition column in the query is not certain", 1),
    ("SELECT tags.*, d FROM orders", "the position of the partition column in the query is not certain", 1),
    ("SELECT * EXCEPT (tags.x), d FROM orders", "the position of the partition column in the query is not certain", 4),
    ("SELECT * REPLACE (id AS d) FROM orders", "the position of the partition column", 4),
    (
        "SELECT orders.d FROM orders NATURAL JOIN (SELECT count(*) FROM plain)",
        "which columns a join by column names",
        0,
    ),
    ("SELECT d FROM orders", "the position of the partition column in the query is not certain", 1),
    ("SELECT d FROM orders", "the position of the partition column in the query is not certain", -1),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_a_refused_definition_has_a_reason(case: tuple[str, str] | tuple[str, str, int]) -> None:
    found = outcome(case[0], case[2] if len(case) == 3 else 0)
    assert found.startswith("no: ")
    assert case[1] in found


UNITS = [
    ("SELECT d FROM orders", "MONTH", "sales.orders.d {}"),
    ("SELECT date_trunc('DAY', d) FROM orders", "DAY", f"sales.orders.d {DAY}"),
    ("SELECT date_trunc('DAY', d) FROM orders", "MONTH", f"sales.orders.d {DAY}"),
    ("SELECT date_trunc('DAY', d) FROM orders", "WEEK", f"sales.orders.d {DAY}"),
    (
        "SELECT date_trunc('QUARTER', d) FROM orders",
        "YEAR",
        "sales.orders.d date_trunc('QUARTER', try_cast({} AS TIMESTAMP))",
    ),
    ("SELECT date_trunc('DAY', d) FROM orders", "HOUR", "no: the partition column's time unit HOUR should be greater"),
    (
        "SELECT date_trunc('MONTH', d) FROM orders",
        "WEEK",
        "no: the partition column's time unit WEEK should be greater",
    ),
    (
        "SELECT date_trunc('WEEK', d) FROM orders",
        "MONTH",
        "no: the partition column's time unit MONTH should be greater",
    ),
    ("SELECT date_trunc('WEEK', d) FROM orders", "YEAR", "no: the partition column's time unit YEAR should be greater"),
    ("SELECT d FROM orders", "MINUTE", "no: MINUTE is not a unit of partitions"),
    # over a materialized view that is itself partitioned by a unit
    ("SELECT ts FROM daily", "DAY", "sales.daily.ts {}"),
    ("SELECT ts FROM daily", "MONTH", "sales.daily.ts {}"),
    ("SELECT date_trunc('DAY', ts) FROM daily", None, f"sales.daily.ts {DAY}"),
    ("SELECT date_trunc('MONTH', ts) FROM daily", None, f"sales.daily.ts {MONTH}"),
    ("SELECT to_date(ts) FROM daily", None, f"sales.daily.ts {CAST}"),
    ("SELECT date_trunc('HOUR', ts) FROM daily", "DAY", "sales.daily.ts date_trunc('HOUR', try_cast({} AS TIMESTAMP))"),
    ("SELECT ts FROM daily", None, "no: the partition column's time unit should be DAY"),
    ("SELECT ts FROM daily", "HOUR", "no: the partition column's time unit should be DAY"),
    ("SELECT date_trunc('HOUR', ts) FROM daily", None, "no: the partition column's time unit should be DAY"),
    ("SELECT ts FROM weekly", "WEEK", "sales.weekly.ts {}"),
    ("SELECT ts FROM weekly", "MONTH", "no: the partition column's time unit should be WEEK"),
    ("SELECT date_trunc('MONTH', ts) FROM weekly", None, "no: the partition column's time unit should be WEEK"),
    ("SELECT to_date(ts) FROM weekly", None, "no: the partition column's time unit should be WEEK"),
    # The days of one week may belong to two months.
    (
        "SELECT date_trunc('YEAR', date_trunc('WEEK', ts)) FROM daily",
        None,
        "sales.daily.ts date_trunc('YEAR', try_cast(date_trunc('WEEK', try_cast({} AS TIMESTAMP)) AS TIMESTAMP))",
    ),
    ("SELECT date_trunc('WEEK', date_trunc('YEAR', ts)) FROM weekly", None, "no: the partition column's time unit"),
]


@pytest.mark.parametrize(("query", "unit", "expected"), UNITS)
def test_partitions_follow_only_coarser_time_units(query: str, unit: str | None, expected: str) -> None:
    found = outcome(query, 0, unit)
    assert found.startswith(expected) if expected.startswith("no: ") else found == expected


def test_the_partition_column_is_spelled_as_in_its_source() -> None:
    sources = {ORDERS: Source(("Id", "dAy"), ("Day",))}
    assert follow("SELECT DAY FROM orders", SALES, 0, None, sources) == Followed(ORDERS, "Day", "{}")


def test_a_long_chain_of_views_is_refused_without_a_crash() -> None:
    views = {TableName("sales", f"v{n}"): view("d", text=f"SELECT d FROM v{n + 1}") for n in range(1_000)}
    with pytest.raises(CannotFollow, match="nested too deeply"):
        follow("SELECT d FROM v0", SALES, 0, None, views)


def test_each_view_is_analyzed_once() -> None:
    """Without memoization, 2^60 texts would be analyzed."""
    views = {
        TableName("sales", f"v{n}"): view("d", text=f"SELECT a.d FROM v{n + 1} a JOIN v{n + 1} b ON a.d = b.d")
        for n in range(60)
    }
    views[TableName("sales", "v60")] = Source(("d",), ("d",))
    with pytest.raises(CannotFollow, match=r"it reads sales\.v60 more than once"):
        follow("SELECT d FROM v0", SALES, 0, None, views)


WORDS = """
    SELECT FROM WHERE GROUP BY ORDER LIMIT JOIN LEFT RIGHT FULL OUTER SEMI NATURAL USING ON UNION ALL EXCEPT INTERSECT
    WITH RECURSIVE AS DISTINCT OVER PARTITION LATERAL VIEW EXPLODE( PIVOT VALUES TABLE IN EXISTS CASE END CAST( DATE
    date_trunc( to_date( 'DAY' ( ) ) , , . * + ; |> :: d d id hour tags q orders orders recent plain archive customers
    a b 1 'x' `d` " ` -- /* */ ${x} {{ [ ]
"""
TOKENS = WORDS.split()


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=40), st.integers(-1, 3), st.sampled_from([None, "DAY", "x"]))
@example(["SELECT", "d", "FROM", "orders"], 0, None)
def test_any_text_is_followed_or_refused(words: list[str], position: int, unit: str | None) -> None:
    outcome(" ".join(words), position, unit)
    outcome("SELECT " + " ".join(words) + " FROM orders", position, unit)
    outcome("SELECT d FROM orders " + " ".join(words), position, unit)


NEUTRAL = [
    "SELECT d FROM ({})",
    "SELECT d FROM ({}) AS q",
    "WITH w{n} AS ({}) SELECT d FROM w{n}",
    "SELECT DISTINCT d FROM ({}) WHERE d IS NOT NULL",
    "SELECT d, count(*) AS n FROM ({}) GROUP BY d",
    "SELECT q.d FROM ({}) q LEFT JOIN plain ON q.d = k",
    "SELECT q.d FROM plain JOIN ({}) q ON q.d = k",
    "SELECT d, rank() OVER (PARTITION BY d ORDER BY d) AS r FROM ({})",
    "SELECT d FROM ({}) UNION ALL SELECT k FROM plain",
]
SPOILING = [
    "SELECT d FROM ({}) LIMIT 1",
    "SELECT q.d FROM plain LEFT JOIN ({}) q ON q.d = k",
    "SELECT d, rank() OVER (ORDER BY d) AS r FROM ({})",
    "SELECT max(d) AS d FROM ({})",
    "SELECT d FROM ({}) WHERE d = (SELECT max(d) FROM orders)",
    "SELECT +d AS d FROM ({})",
]


def around(layers: list[str]) -> str:
    query = "SELECT d FROM orders"
    for n, layer in enumerate(layers):
        query = layer.replace("{n}", str(n)).replace("{}", query)
    return query


@settings(deadline=None)
@given(st.lists(st.sampled_from(NEUTRAL), max_size=5))
def test_nested_queries_that_keep_partitions_follow(layers: list[str]) -> None:
    assert outcome(around(layers)) == "sales.orders.d {}"


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(NEUTRAL), max_size=3),
    st.sampled_from(SPOILING),
    st.lists(st.sampled_from(NEUTRAL), max_size=3),
)
def test_one_nested_query_that_mixes_partitions_is_refused(below: list[str], spoiling: str, above: list[str]) -> None:
    assert outcome(around([*below, spoiling, *above])).startswith("no: ")
