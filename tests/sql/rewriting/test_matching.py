"""What views can answer: each rule, and the traps in which other systems gave wrong rows."""

from __future__ import annotations

import re

import pytest
from star import SHOP, TABLES, VIEWS, columns_of, outcome, proposed, view

from sql.names import Namespace, TableName
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import TOGETHER_MAX, Miss, Proposal, propose
from sql.rewriting.shape import shape_of


def over(made: RewritableView, text: str) -> str:
    """What is proposed over a view of the test's own."""
    (found,) = propose(text, SHOP, [made], columns_of)
    if isinstance(found, Miss):
        return f"- {found.reason}"
    return found.template.over(made.name.table).fill(shape_of(text).literals)


# --- rules ---------------------------------------------------------------------------------------------

RULES = [
    # Several sets of keys, and queries within expressions.
    (
        "SELECT l_returnflag AS f, year(l_shipdate) AS y, count(*) AS n, grouping(l_returnflag) AS g FROM lineitem "
        "GROUP BY GROUPING SETS ((1, year(l_shipdate)), (f), ())",
        "daily",
        "SELECT daily.flag AS f, year(daily.ship) AS y, sum(daily.lines) AS n, grouping(daily.flag) AS g "
        "FROM daily AS daily GROUP BY GROUPING SETS ((1, year(daily.ship)), daily.flag, ())",
    ),
    (
        "SELECT count(*) AS n FROM lineitem l WHERE l_returnflag IN (SELECT n_name FROM nation) "
        "AND EXISTS (SELECT 1 FROM nation n WHERE n.n_name = l.l_returnflag) "
        "AND l_shipdate > (SELECT max(l_shipdate) FROM lineitem WHERE l_quantity > 7)",
        "daily",
        "SELECT coalesce(sum(daily.lines), 0) AS n FROM daily AS daily WHERE daily.flag IN (SELECT n_name FROM "
        "nation) AND EXISTS(SELECT 1 FROM `spark_catalog`.`shop`.`nation` AS e_0 "
        "WHERE e_0.n_name = daily.flag) AND daily.ship > (SELECT max(l_shipdate) FROM "
        "lineitem WHERE l_quantity > 7)",
    ),
    # A table joined with itself: the occurrence that the view has the rows of.
    (
        "SELECT b.o_custkey, sum(b.o_totalprice) AS t FROM orders a JOIN orders b ON a.o_orderkey = b.o_custkey"
        " WHERE b.o_orderdate >= DATE '2024-01-01' GROUP BY b.o_custkey",
        "recent",
        "SELECT recent.o_custkey, CAST(sum(recent.total) AS DECIMAL(25, 2)) AS t FROM recent AS recent INNER JOIN"
        " orders AS a ON a.o_orderkey = recent.o_custkey WHERE recent.o_orderdate >= CAST('2024-01-01' AS DATE)"
        " GROUP BY recent.o_custkey",
    ),
    # Semi joins are EXISTS.
    (
        "SELECT count(*) AS n FROM lineitem l LEFT SEMI JOIN nation n ON l.l_returnflag = n.n_name"
        " LEFT ANTI JOIN nation m ON m.n_regionkey = 3",
        "daily",
        "SELECT coalesce(sum(daily.lines), 0) AS n FROM daily AS daily WHERE EXISTS(SELECT 1 FROM"
        " `spark_catalog`.`shop`.`nation` AS e_0 WHERE daily.flag = e_0.n_name) AND NOT EXISTS(SELECT 1 FROM nation"
        " AS m WHERE m.n_regionkey = 3)",
    ),
    # A query within an expression that a view answers as well.
    (
        "SELECT l_returnflag, count(*) AS n FROM lineitem GROUP BY 1"
        " HAVING count(*) > (SELECT max(n) FROM (SELECT l_shipdate, count(*) AS n FROM lineitem GROUP BY 1))",
        "daily",
        "SELECT daily.flag AS l_returnflag, sum(daily.lines) AS n FROM daily AS daily GROUP BY daily.flag"
        " HAVING sum(daily.lines) > (SELECT max(n) FROM"
        " (SELECT daily.ship AS l_shipdate, sum(daily.lines) AS n FROM daily AS daily GROUP BY daily.ship))",
    ),
    # The view's own query, with other aliases, conditions and joins in another order, fewer columns.
    (
        "SELECT d_year, d_moy, s_state, i_category, i_brand, sum(ss_net_paid) AS p"
        " FROM item, store, date_dim, store_sales WHERE s_store_sk = ss_store_sk"
        " AND i_item_sk = ss_item_sk AND d_date_sk = ss_sold_date_sk GROUP BY ALL",
        "sales",
        "SELECT sales.year AS d_year, sales.month AS d_moy, sales.state AS s_state, sales.category AS i_category,"
        " sales.brand AS i_brand, sales.paid AS p FROM sales AS sales",
    ),
    (
        "SELECT x.hits FROM (SELECT e.country, e.device, date_trunc('HOUR', e.ts) AS h, count(*) AS hits FROM events e"
        " GROUP BY e.country, e.device, date_trunc('HOUR', e.ts)) x ORDER BY 1 LIMIT 3",
        "hourly",
        "SELECT x.hits FROM (SELECT hourly.country, hourly.device, hourly.hour AS h, hourly.hits FROM hourly AS hourly)"
        " AS x ORDER BY 1 LIMIT 3",
    ),
    # HAVING and windows above the same groups.
    (
        "SELECT country, device, date_trunc('hour', ts) AS h, sum(amount) AS a, rank() OVER (ORDER BY sum(amount)) AS r"
        " FROM events GROUP BY 1, 2, 3 HAVING count(*) > 5",
        "hourly",
        "SELECT hourly.country, hourly.device, hourly.hour AS h, hourly.amount AS a, "
        "rank() OVER (ORDER BY hourly.amount) AS r FROM hourly AS hourly WHERE hourly.hits > 5",
    ),
    # Filters on keys: any expression.
    (
        "SELECT count(*) AS n FROM lineitem WHERE upper(l_returnflag) LIKE 'A%' OR year(l_shipdate) IN (1994, 1995)",
        "daily",
        "SELECT coalesce(sum(daily.lines), 0) AS n FROM daily AS daily WHERE (upper(daily.flag) LIKE 'A%'"
        " OR year(daily.ship) IN (1994, 1995))",
    ),
    # Each aggregate that is merged.
    (
        "SELECT l_returnflag, min(l_linenumber) AS a, max(l_linenumber) AS b, count(l_quantity) AS c"
        " FROM lineitem GROUP BY 1",
        "daily",
        "SELECT daily.flag AS l_returnflag, min(daily.first_line) AS a, max(daily.last_line) AS b, sum(daily.qtys) AS c"
        " FROM daily AS daily GROUP BY daily.flag",
    ),
    # A join with a table that the view does not read, by a key of the view.
    (
        "SELECT c_name, sum(o_totalprice) AS t FROM orders JOIN customer ON c_custkey = o_custkey"
        " WHERE o_orderdate >= DATE '2024-01-01' GROUP BY c_name",
        "recent",
        "SELECT customer.c_name, CAST(sum(recent.total) AS DECIMAL(25, 2)) AS t FROM recent AS recent"
        " INNER JOIN customer AS customer ON customer.c_custkey = recent.o_custkey"
        " WHERE recent.o_orderdate >= CAST('2024-01-01' AS DATE) GROUP BY customer.c_name",
    ),
    # A column that a join makes equal to one of the view.
    (
        "SELECT o_orderkey, l_shipmode FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderstatus = 'F'",
        "shipped",
        "SELECT shipped.orderkey AS o_orderkey, shipped.mode AS l_shipmode FROM shipped AS shipped"
        " WHERE shipped.order_status = 'F'",
    ),
    # USING, and a comma beside a join.
    (
        "SELECT count(*) AS n FROM (SELECT l_orderkey AS k FROM lineitem) l JOIN (SELECT o_orderkey AS k, o_orderstatus"
        " FROM orders) o USING (k) WHERE o_orderstatus = 'O'",
        "shipped",
        "SELECT count(*) AS n FROM shipped AS shipped WHERE shipped.order_status = 'O'",
    ),
    # A column is not a condition in brackets, which Spark could read as the columns of a table's alias.
    (
        "SELECT count(*) AS n FROM events WHERE (flag) AND (NOT (flag)) GROUP BY date_trunc('hour', ts), flag",
        "flagged",
        "SELECT flagged.n FROM flagged AS flagged WHERE flagged.flag AND NOT flagged.flag",
    ),
    # An average from a sum and a count, of the groups of the view and of others.
    (
        "SELECT avg(clicks) AS a FROM events",
        "hourly",
        "SELECT CAST(sum(hourly.clicks) AS DOUBLE) / CAST(sum(hourly.clicked) AS DOUBLE) AS a FROM hourly AS hourly",
    ),
    (
        "SELECT avg(amount) AS a, country, device, date_trunc('hour', ts) AS h FROM events GROUP BY 2, 3, 4",
        "hourly",
        "SELECT hourly.mean AS a, hourly.country, hourly.device, hourly.hour AS h FROM hourly AS hourly",
    ),
    # What is no more than the view's groups is read from them, whatever the aggregate is.
    (
        "SELECT percentile(amount, 0.5) AS p, count(DISTINCT user_id) AS u FROM events"
        " WHERE country = 'NL' GROUP BY date_trunc('hour', ts), country, device",
        "hourly",
        "SELECT hourly.half AS p, hourly.users AS u FROM hourly AS hourly WHERE hourly.country = 'NL'",
    ),
    # CASE of keys, with several branches, and of no key.
    (
        "SELECT sum(CASE l_returnflag WHEN 'A' THEN l_quantity WHEN 'R' THEN l_extendedprice ELSE 0 END) AS s"
        " FROM lineitem",
        "daily",
        "SELECT CAST(sum(CASE daily.flag WHEN 'A' THEN daily.qty WHEN 'R' THEN daily.revenue ELSE 0 END)"
        " AS DECIMAL(25, 2)) AS s FROM daily AS daily",
    ),
    (
        "SELECT sum(if(l_returnflag = 'A', 1, 0)) AS s FROM lineitem",
        "daily",
        "SELECT sum(CASE WHEN daily.flag = 'A' THEN daily.lines ELSE 0 END) AS s FROM daily AS daily",
    ),
    # A query that reads two parts from the view.
    (
        "SELECT a.l_returnflag, a.n / b.n AS share FROM (SELECT l_returnflag, count(*) AS n FROM lineitem GROUP BY 1) a"
        " CROSS JOIN (SELECT count(*) AS n FROM lineitem) b",
        "daily",
        "SELECT a.l_returnflag, a.n / b.n AS share FROM (SELECT daily.flag AS l_returnflag, sum(daily.lines) AS n"
        " FROM daily AS daily GROUP BY daily.flag) AS a CROSS JOIN (SELECT coalesce(sum(daily.lines), 0) AS n"
        " FROM daily AS daily) AS b",
    ),
]


@pytest.mark.parametrize(("text", "name", "expected"), RULES)
def test_rules(text: str, name: str, expected: str) -> None:
    assert proposed(text, name) == expected


@pytest.mark.parametrize("name", ["daily", "segments", "sales", "shipped", "recent", "hourly", "weekly", "dated"])
def test_a_view_answers_its_own_query(name: str) -> None:
    made = VIEWS[name]
    own = [f"c{place}" for place, _ in enumerate(made.columns)]
    text = f"SELECT * FROM ({made.query}) AS q({', '.join(own)})"
    found = outcome(text, name)
    assert isinstance(found, Proposal)
    assert "GROUP BY" not in found.template.fill(shape_of(text).literals)


ROLLUP = "SELECT l_returnflag AS f, sum(l_quantity) AS q FROM lineitem GROUP BY ROLLUP (l_returnflag)"
UNION = "SELECT country AS c FROM events UNION SELECT n_name FROM nation"


@pytest.mark.parametrize("query", [ROLLUP, UNION])
def test_a_query_that_is_not_understood_is_compared_as_a_whole(query: str) -> None:
    columns = "f STRING; q DECIMAL(25,2)" if query is ROLLUP else "c STRING"
    made = view("whole", columns, query)
    shown = ", ".join(f"whole.{name} AS {name}" for name in made.columns)
    first = made.columns[0]
    text = f"{query.lower()} ORDER BY {first} LIMIT 10" if query is UNION else f"{query} ORDER BY {first} LIMIT 10"
    assert over(made, text) == f"SELECT {shown} FROM whole AS whole ORDER BY {first} LIMIT 10"
    assert over(made, f"SELECT * FROM ({query}) x") == f"SELECT * FROM (SELECT {shown} FROM whole AS whole) AS x"
    assert over(made, query.replace("lineitem", "orders").replace("events", "customer")).startswith(
        "- the view answers"
    )


# --- traps ---------------------------------------------------------------------------------------------

MISSES = [
    # A week may lie in two months.
    ("SELECT date_trunc('month', ts) AS m, count(*) AS n FROM events GROUP BY 1", "weekly", "no column for ts"),
    ("SELECT year(ts) AS y, count(*) AS n FROM events GROUP BY 1", "weekly", "no column for ts"),
    # A day is not a moment.
    ("SELECT count(*) AS n FROM events WHERE ts >= '2019-12-31 12:00'", "dated", "no column for ts"),
    ("SELECT count(*) AS n FROM events WHERE ts = DATE '2024-01-01'", "dated", "no column for ts"),
    ("SELECT count(*) AS n FROM events WHERE ts > '2024-01-01'", "dated", "no column for ts"),
    ("SELECT count(*) AS n FROM events WHERE ts <= '2024-01-01'", "dated", "no column for ts"),
    ("SELECT hour(ts) AS h, count(*) AS n FROM events GROUP BY 1", "dated", "no column for ts"),
    ("SELECT minute(ts) AS m, count(*) AS n FROM events GROUP BY 1", "hourly", "no column for ts"),
    # Averages of averages, counts of distinct values and sums of floats cannot be added up; nor can medians.
    (
        "SELECT country, avg(amount) AS a FROM events GROUP BY 1",
        "hourly",
        "an average needs sum(amount) and count(amount)",
    ),
    (
        "SELECT country, count(DISTINCT user_id) AS u FROM events GROUP BY 1",
        "hourly",
        "distinct values of other columns",
    ),
    ("SELECT country, sum(amount) AS a FROM events GROUP BY 1", "hourly", "sums of DOUBLE differ in the last digit"),
    ("SELECT country, percentile(amount, 0.5) AS p FROM events GROUP BY 1", "hourly", "the view has no percentile"),
    (
        "SELECT percentile(amount, 0.9) AS p FROM events GROUP BY date_trunc('hour', ts), country, device",
        "hourly",
        "no perc",
    ),
    # A count of values is not one of rows.
    ("SELECT count(l_discount) AS n FROM lineitem", "daily", "no column for l_discount"),
    ("SELECT count(price) AS n FROM events", "hourly", "no column for price"),
    # Conditions of the view that the query lacks, also where NULL is neither one nor the other.
    (
        "SELECT o_orderdate FROM lineitem JOIN orders ON l_orderkey = o_orderkey",
        "shipped",
        "only rows with o_orderstatus <> 'P'",
    ),
    (
        "SELECT count(*) AS n FROM orders WHERE o_orderdate < DATE '2019-12-31'",
        "recent",
        "only rows with o_orderdate >=",
    ),
    # Columns that the view lacks.
    ("SELECT count(*) AS n FROM lineitem WHERE l_shipmode = 'AIR'", "daily", "no column for l_shipmode"),
    ("SELECT l_shipmode, count(*) AS n FROM lineitem GROUP BY 1", "daily", "no column for l_shipmode"),
    ("SELECT sum(l_tax) AS t FROM lineitem", "daily", "no column for l_tax"),
    ("SELECT sum(l_quantity * l_discount) AS t FROM lineitem", "daily", "the view has no sum(l_quantity * l_discount)"),
    ("SELECT l_returnflag FROM lineitem", "daily", "the query wants single rows"),
    # Joins: the view has more, or others.
    ("SELECT c_mktsegment, count(*) AS n FROM customer GROUP BY 1", "segments", "the view reads shop.orders"),
    (
        "SELECT c_mktsegment, count(*) AS n FROM customer LEFT JOIN orders ON o_custkey = c_custkey GROUP BY 1",
        "segments",
        "the view joins shop.orders in another way",
    ),
    (
        "SELECT c_mktsegment, count(*) AS n FROM orders JOIN customer ON o_custkey < c_custkey GROUP BY 1",
        "segments",
        "only rows with o_custkey = c_custkey",
    ),
    (
        "SELECT c_mktsegment FROM orders FULL JOIN customer ON o_custkey = c_custkey",
        "segments",
        "joins shop.customer in another way",
    ),
    (
        "SELECT a.l_returnflag AS f FROM lineitem a JOIN lineitem b ON a.l_shipdate = b.l_shipdate",
        "daily",
        "the query wants single rows",
    ),
    # Not understood.
    ("SELECT l_returnflag IN ('A') FROM lineitem GROUP BY 1", "daily", "has no alias"),
    ("SELECT count(*) AS n FROM unknown", "daily", "the columns of shop.unknown are not known"),
    ("SELECT count(*) AS n FROM lineitem WHERE colour = 1", "daily", "the column colour is not known"),
    ("SELECT FROM WHERE", "daily", "the query is not understood"),
]


@pytest.mark.parametrize(("text", "name", "reason"), MISSES)
def test_misses(text: str, name: str, reason: str) -> None:
    found = outcome(text, name)
    assert isinstance(found, Miss)
    assert reason in found.reason


TRAPS = [
    # Nothing is counted as 0.
    ("SELECT count(*) AS n FROM lineitem WHERE false", "daily", "coalesce(sum(daily.lines), 0)"),
    (
        "SELECT count(*) FILTER (WHERE l_returnflag = 'A') AS n FROM lineitem",
        "daily",
        "coalesce(sum(daily.lines) FILTER(",
    ),
    ("SELECT l_linestatus, count_if(l_returnflag = 'A') AS n FROM lineitem GROUP BY 1", "daily", "coalesce(sum(CASE"),
    # Distinct values of keys remain distinct.
    ("SELECT sum(DISTINCT length(l_returnflag)) AS n FROM lineitem", "daily", "sum(DISTINCT length(daily.flag))"),
    # A group without aggregates is a group.
    ("SELECT 1 FROM lineitem GROUP BY l_returnflag", "daily", "GROUP BY daily.flag"),
    # HAVING is about the query's groups.
    (
        "SELECT l_returnflag, count(*) AS n FROM lineitem GROUP BY 1 HAVING count(*) > 7",
        "daily",
        "GROUP BY daily.flag HAVING sum(daily.lines) > 7",
    ),
    # An alias means the item in HAVING and ORDER BY, and the column in an aggregate, in WHERE and in GROUP BY.
    (
        "SELECT l_linestatus AS l_returnflag, sum(l_quantity) AS l_quantity FROM lineitem WHERE l_returnflag = 'A'"
        " GROUP BY l_linestatus HAVING sum(l_quantity) > 1 AND l_returnflag = 'F' ORDER BY l_returnflag",
        "daily",
        "WHERE daily.flag = 'A' GROUP BY daily.status HAVING CAST(sum(daily.qty) AS DECIMAL(25, 2)) > 1"
        " AND daily.status = 'F' ORDER BY l_returnflag",
    ),
    # An item may name an earlier one.
    (
        "SELECT upper(l_returnflag) AS f, concat(f, '!') AS g, count(*) AS n FROM lineitem GROUP BY 1, 2",
        "daily",
        "concat(upper(daily.flag), '!') AS g",
    ),
    # A CTE may be called like a table.
    (
        "WITH lineitem AS (SELECT * FROM lineitem WHERE l_returnflag = 'A') SELECT count(*) AS n FROM lineitem",
        "daily",
        "WHERE daily.flag = 'A'",
    ),
]


@pytest.mark.parametrize(("text", "name", "part"), TRAPS)
def test_traps(text: str, name: str, part: str) -> None:
    assert part in proposed(text, name)


def test_keys_without_identity_stand_bare_only() -> None:
    made = view("prices", "price DOUBLE; n BIGINT", "SELECT price, count(*) FROM events GROUP BY price")
    assert (
        over(made, "SELECT price, count(*) AS n FROM events GROUP BY 1")
        == "SELECT prices.price, prices.n FROM prices AS prices"
    )
    for text in (
        "SELECT CAST(price AS STRING) AS p FROM events GROUP BY 1",
        "SELECT count(*) FROM events WHERE price > 0",
    ):
        assert "do not tell 0.0 from -0.0" in over(made, text)
    collated = view(
        "names", "country STRING COLLATE UTF8_LCASE; n BIGINT", "SELECT country, count(*) FROM events GROUP BY 1"
    )
    collated = RewritableView(
        collated.name, ("country", "n"), ("STRING COLLATE UTF8_LCASE", "BIGINT"), collated.query, SHOP, collated.bases
    )
    assert over(collated, "SELECT length(country) AS l FROM events GROUP BY 1").startswith("- ")


def test_an_outer_join_of_a_view_is_that_of_the_query() -> None:
    joined = "FROM orders LEFT JOIN customer ON o_custkey = c_custkey"
    made = view("left", "seg STRING; n BIGINT", f"SELECT c_mktsegment, count(*) {joined} GROUP BY c_mktsegment")
    text = f"SELECT c_mktsegment, count(*) AS n {joined} WHERE c_mktsegment = 'X' GROUP BY 1"
    assert over(made, text) == "SELECT `left`.seg AS c_mktsegment, `left`.n FROM left AS `left` WHERE `left`.seg = 'X'"
    # The view has the rows of an inner join, too: a condition on the right side leaves those that it has.
    inner = text.replace("LEFT JOIN", "JOIN")
    assert over(made, inner) == over(made, text)
    assert "in another way" in over(made, text.replace("= c_custkey", "= c_custkey AND c_mktsegment = 'X'"))


def test_a_view_with_having_answers_its_own_groups() -> None:
    made = view(
        "big", "f STRING; n BIGINT", "SELECT l_returnflag, count(*) FROM lineitem GROUP BY 1 HAVING count(*) > 9"
    )
    text = "SELECT l_returnflag, count(*) AS n FROM lineitem GROUP BY 1"
    assert "HAVING" in over(made, text)
    assert over(made, text + " HAVING count(*) > 9") == (
        "SELECT big.f AS l_returnflag, big.n FROM big AS big WHERE big.n > 9"
    )


def test_a_view_with_a_limit_answers_nothing() -> None:
    query = "SELECT l_returnflag AS f FROM lineitem LIMIT 10"
    assert over(view("some", "f STRING", query), query) == "- the view has a LIMIT"


def test_literals_that_are_compared_with_those_of_the_view_are_pinned() -> None:
    text = (
        "SELECT o_orderstatus, count(*) AS n FROM orders WHERE o_orderdate >= '2024-01-01' AND o_custkey = 5 GROUP BY 1"
    )
    found = outcome(text, "recent")
    assert isinstance(found, Proposal)
    assert found.pinned == {0}
    own = outcome(
        "SELECT l_shipmode FROM lineitem, orders WHERE l_orderkey = o_orderkey AND o_orderstatus <> 'P'", "shipped"
    )
    assert isinstance(own, Proposal)
    assert own.pinned == {0}
    named = outcome("SELECT substr(l_returnflag, 2), 1 AS n FROM lineitem GROUP BY substr(l_returnflag, 2)", "daily")
    assert isinstance(named, Proposal)
    assert named.pinned >= {0, 2}
    month = view("m", "m TIMESTAMP; n BIGINT", "SELECT date_trunc('month', ts), count(*) FROM events GROUP BY 1")
    (found,) = propose("SELECT count(*) AS n FROM events WHERE ts >= '2024-02-01'", SHOP, [month], columns_of)
    assert isinstance(found, Proposal)
    assert found.pinned == {0}
    assert "no column for ts" in over(month, "SELECT count(*) AS n FROM events WHERE ts >= '2024-02-02'")


TOGETHER = [
    # Each takes the place of other tables.
    (
        "SELECT n_name, sum(o_totalprice) AS t FROM orders JOIN customer ON c_custkey = o_custkey JOIN nation ON"
        " c_nationkey = n_nationkey WHERE o_orderdate >= '2024-01-01' GROUP BY n_name",
        ("places", "recent"),
        "SELECT places.name AS n_name, CAST(sum(recent.total) AS DECIMAL(25, 2)) AS t FROM recent AS recent INNER JOIN"
        " places AS places ON places.customer = recent.o_custkey WHERE recent.o_orderdate >= '2024-01-01'"
        " GROUP BY places.name",
    ),
    # Each answers a branch.
    (
        "SELECT count(*) AS n FROM lineitem UNION ALL SELECT count(*) FROM events",
        ("daily", "hourly"),
        "SELECT coalesce(sum(daily.lines), 0) AS n FROM daily AS daily UNION ALL"
        " SELECT coalesce(sum(hourly.hits), 0) AS `count(1)` FROM hourly AS hourly",
    ),
]
PLACES = view(
    "places",
    "customer BIGINT; name STRING",
    "SELECT c_custkey, n_name FROM customer JOIN nation ON c_nationkey = n_nationkey",
)


@pytest.mark.parametrize(("text", "names", "expected"), TOGETHER)
def test_several_views_answer_together(text: str, names: tuple[str, ...], expected: str) -> None:
    found = propose(text, SHOP, [*VIEWS.values(), PLACES], columns_of)
    several = [each for each in found if isinstance(each, Proposal) and len(each.views) > 1]
    (made,) = [each for each in several if {view.table for view in each.views} == set(names)]
    assert made.template.over(*(view.table for view in made.views)).fill(shape_of(text).literals) == expected
    assert made.tables == 0


def test_views_of_which_one_suffices_are_not_proposed_together() -> None:
    found = propose("SELECT count(*) AS n FROM events", SHOP, list(VIEWS.values()), columns_of)
    proposals = [each for each in found if isinstance(each, Proposal)]
    assert len(proposals) > 1
    assert all(len(each.views) == 1 for each in proposals)


def test_few_of_very_many_views_are_tried_together() -> None:
    """Each text is proved, and each view is compared with each text."""
    names = [f"{table}_{number}" for table in ("lineitem", "events", "orders", "part") for number in range(40)]
    views = [view(name, "n BIGINT", f"SELECT count(*) FROM {name.split('_')[0]}") for name in names]
    tables = ("lineitem", "events", "orders", "part")
    text = " UNION ALL ".join(f"SELECT count(*) AS n FROM {table}" for table in tables)
    several = [each for each in propose(text, SHOP, views, columns_of) if isinstance(each, Proposal) and each.views[1:]]
    assert len(several) <= TOGETHER_MAX


OPTIONAL = [
    # The right side of a LEFT JOIN, with the view's condition in ON.
    (
        "SELECT c_name, o_orderstatus FROM customer LEFT JOIN orders ON o_custkey = c_custkey"
        " AND o_orderdate >= '2024-01-01'",
        "SELECT customer.c_name, part_of.status AS o_orderstatus FROM customer AS customer"
        " LEFT JOIN part_of AS part_of ON part_of.customer = customer.c_custkey",
    ),
    (
        "SELECT c_name, o_orderstatus FROM customer LEFT JOIN orders ON o_custkey = c_custkey",
        "- the view has only rows",
    ),
    (
        "SELECT c_name, o_orderstatus FROM customer LEFT JOIN orders ON o_custkey = c_custkey"
        " WHERE o_orderdate >= '2024-01-01'",
        "- the view has only rows",
    ),
    # Without a match it would be NULL, and 'x' in the query.
    (
        "SELECT c_name, coalesce(o_orderpriority, 'x') AS p FROM customer LEFT JOIN orders ON o_custkey = c_custkey"
        " AND o_orderdate >= '2024-01-01'",
        "- the view has no column for o_orderpriority",
    ),
]


@pytest.mark.parametrize(("text", "expected"), OPTIONAL)
def test_the_right_side_of_a_left_join(text: str, expected: str) -> None:
    query = (
        "SELECT o_custkey, o_orderstatus, coalesce(o_orderpriority, 'x'), o_orderdate FROM orders"
        " WHERE o_orderdate >= '2024-01-01'"
    )
    part = view("part_of", "customer BIGINT; status STRING; priority STRING; day TIMESTAMP", query)
    assert over(part, text).startswith(expected)


def test_the_template_can_read_another_relation() -> None:
    found = outcome("SELECT count(*) AS n FROM lineitem WHERE l_returnflag = 'A'", "daily")
    assert isinstance(found, Proposal)
    filled = "SELECT coalesce(sum(daily.lines), 0) AS n FROM {} AS daily WHERE daily.flag = 'R'"
    assert found.template.fill(("'R'",)) == filled.format("`spark_catalog`.`shop`.`daily`")
    assert found.template.over("`s`.`v_1`").fill(("'R'",)) == filled.format("`s`.`v_1`")
    assert found.views == (TableName("shop", "daily"),)


MANY = {
    "conditions": "SELECT count(*) AS n FROM lineitem WHERE " + " AND ".join(["l_returnflag <> 'A'"] * 700),
    "values": f"SELECT count(*) AS n FROM lineitem WHERE l_returnflag IN ({', '.join(['1'] * 2_000)})",
    "subtractions": f"SELECT count(*) AS n FROM lineitem WHERE l_returnflag = {'- ' * 1_400}1",
    "selects": " UNION ".join(["SELECT count(*) AS n FROM lineitem"] * 41),
    "CTEs": "WITH a0 AS (SELECT * FROM lineitem), "
    + ", ".join(f"a{n} AS (SELECT x.* FROM a{n - 1} x, (SELECT 1 FROM a{n - 1}) y)" for n in range(1, 30))
    + " SELECT count(*) AS n FROM a29",
}


@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_long_texts_are_not_worked_on(text: str) -> None:
    found = outcome(text, "daily")
    assert isinstance(found, Miss)
    assert any(word in found.reason for word in ("too deeply", "too long", "more than 40 SELECTs", "too often"))


# --- off altogether ------------------------------------------------------------------------------------

OFF = [
    ("INSERT INTO x SELECT count(*) FROM lineitem", "it is not a query"),
    ("CREATE TABLE x AS SELECT count(*) FROM lineitem", "it is not a query"),
    ("EXECUTE IMMEDIATE 'SELECT count(*) FROM lineitem'", "it is not a query"),
    ("BEGIN SELECT count(*) FROM lineitem; END", "it is not a query"),
    ("SELECT count(*) AS n FROM lineitem; SELECT 1", "it is a script"),
    ("SELECT count(*) AS n FROM lineitem TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
    ("SELECT count(*) AS n FROM lineitem VERSION AS OF 3", "an older version"),
    ("SELECT count(*) AS n FROM lineitem FOR SYSTEM_TIME AS OF '2024-01-01'", "an older version"),
    ("SELECT count(*) AS n FROM `lineitem@v1`", "an older version"),
    ("SELECT count(*) AS n FROM lineitem@v1", "an older version"),
    ("SELECT count(*) AS n FROM IDENTIFIER('lineitem')", "IDENTIFIER"),
    ("SELECT count(*) AS n FROM ${table}", "variables"),
    ("SELECT /*+ BROADCAST(lineitem) */ count(*) AS n FROM lineitem", "the hint BROADCAST"),
    ("SELECT /*+ NO_REWRITE */ count(*) AS n FROM lineitem", "a hint of the query forbids it"),
    ("SELECT /*+ REWRITE(hourly) */ count(*) AS n FROM lineitem", "a hint of the query excludes the view"),
    ("SELECT count(*) AS n FROM lineitem WHERE l_shipdate < current_date", "current_date may have another value"),
    ("SELECT count(*) AS n FROM lineitem WHERE l_shipdate < now()", "now may have another value"),
    ("SELECT count(*) AS n FROM lineitem WHERE unix_timestamp() > 5", "unix_timestamp() may have another value"),
    ("SELECT count(*) AS n FROM lineitem WHERE rand() < 0.5", "rand may have another value"),
    ("SELECT count(*) AS n FROM lineitem WHERE _metadata.file_name = 'x'", "_metadata"),
    ("SELECT count(*) AS n FROM lineitem WHERE l_returnflag = :flag", "parameters"),
    ("SELECT /* a /* b */ c */ count(*) AS n FROM lineitem", "a comment within a comment"),
]


@pytest.mark.parametrize(("text", "reason"), OFF)
def test_off_altogether(text: str, reason: str) -> None:
    found = outcome(text, "daily")
    assert isinstance(found, Miss)
    assert reason in found.reason


def test_temporary_names_are_off() -> None:
    text = "SELECT count(*) AS n FROM lineitem WHERE f(l_returnflag) = 1"
    for name in ("lineitem", "f"):
        found = outcome(text, "daily", frozenset({name}))
        assert isinstance(found, Miss)
        assert "temporary" in found.reason


def test_names_are_resolved_in_the_namespace() -> None:
    text = "SELECT count(*) AS n FROM lineitem"
    (found,) = propose(text, Namespace("other"), [VIEWS["daily"]], columns_of)
    assert isinstance(found, Miss)
    other = {TableName("other", "lineitem"): TABLES[TableName("shop", "lineitem")]}
    (found,) = propose(text, Namespace("other"), [VIEWS["daily"]], other.get)
    assert found == Miss(TableName("shop", "daily"), "the view reads shop.lineitem, which the query does not")
    (found,) = propose("SELECT count(*) AS n FROM shop.lineitem", Namespace("other"), [VIEWS["daily"]], columns_of)
    assert isinstance(found, Proposal)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT o_orderstatus, count(*) AS n FROM orders GROUP BY 1",
        "SELECT count(*) AS n FROM orders WHERE o_orderdate >= DATE '2019-12-31'",
        "SELECT count(*) AS n FROM orders WHERE o_orderdate <= DATE '2024-01-01'",
        "SELECT count(*) AS n FROM orders WHERE o_orderdate <> DATE '2024-01-01'",
    ],
)
def test_the_rest_of_the_rows_comes_from_the_base_tables(text: str) -> None:
    found = outcome(text, "recent")
    assert isinstance(found, Proposal)
    assert found.adds_rest
    written = found.template.fill(shape_of(text).literals)
    assert "FROM `spark_catalog`.`shop`.`recent` AS recent UNION ALL SELECT" in written
    assert re.search(r"WHERE \(\S+ < (DATE )?\S+( AS DATE\))? OR \S+ IS NULL\)", written), written
