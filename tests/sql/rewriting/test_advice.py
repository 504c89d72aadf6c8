"""Views suggested for queries: they answer them, have no literals of theirs, and can be created."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from star import SHOP, TABLES, columns_of
from statement_cases import load

from sql.names import Namespace, TableName
from sql.rewriting.advice import UNKNOWN_KEYS_MAX, Described, Suggestion, suggested, tables_of, without_literals
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import shape_of
from sql.statement import CreateMaterializedView
from sql.understood import Understood

_TYPES = {
    "decimal(15,2)": "l_quantity l_extendedprice l_discount l_tax o_totalprice",
    "decimal(7,2)": "ss_net_paid price",
    "bigint": "l_orderkey l_partkey l_suppkey o_orderkey o_custkey c_custkey c_nationkey n_nationkey n_regionkey"
    " p_partkey clicks user_id",
    "timestamp": "ts",
    "double": "amount",
    "boolean": "flag",
    "date": "l_shipdate l_receiptdate o_orderdate d_date",
    "int": "l_linenumber d_year d_moy d_qoy p_size ss_quantity ss_sold_date_sk ss_item_sk ss_store_sk ss_customer_sk"
    " d_date_sk i_item_sk s_store_sk",
}
_TYPE_OF = {column: type_ for type_, columns in _TYPES.items() for column in columns.split()}
DESCRIBED = {
    table: Described({column: _TYPE_OF.get(column, "string") for column in columns})
    for table, columns in TABLES.items()
}
CORPUS = [text for text, _ in load("rewriting/dashboards.sql")]
NOTHING_FITS = "1 ELSE 0.0 END"
"""A query whose counts would have to be decimals."""


def advised(*texts: str, tables: Mapping[TableName, Described] = DESCRIBED) -> list[Suggestion]:
    return suggested([(text, SHOP) for text in texts], tables)


def only(*texts: str, tables: Mapping[TableName, Described] = DESCRIBED) -> str:
    """The query of the only view that is suggested."""
    (found,) = advised(*texts, tables=tables)
    assert found.serves == tuple(range(len(texts)))
    return found.view.query


FOR_CORPUS = advised(*CORPUS)


def test_few_views_answer_the_dashboards() -> None:
    served = {number for each in FOR_CORPUS for number in each.serves}
    assert [text for number, text in enumerate(CORPUS) if number not in served and NOTHING_FITS not in text] == []
    assert len(FOR_CORPUS) <= 12
    assert len(FOR_CORPUS[0].serves) > 30


@pytest.mark.parametrize("found", FOR_CORPUS, ids=lambda found: found.view.name.table)
def test_a_suggested_view_answers_its_queries(found: Suggestion) -> None:
    for number in found.serves:
        (outcome,) = propose(CORPUS[number], SHOP, [found.view], columns_of)
        assert isinstance(outcome, Proposal)


@pytest.mark.parametrize("found", FOR_CORPUS, ids=lambda found: found.view.name.table)
def test_a_suggestion_is_a_statement_of_ours(found: Suggestion) -> None:
    statement = Understood(found.statement).statement
    assert isinstance(statement, CreateMaterializedView)
    assert TableName.resolve(statement.name, Namespace("other")) == found.view.name
    assert statement.query == found.view.query
    assert tables_of(found.view.query, Namespace("other")) == frozenset(found.view.bases)


def test_a_suggestion_contains_no_literal_of_a_filter() -> None:
    texts = " ".join(found.statement for found in FOR_CORPUS)
    assert set(re.findall(r"'([^']*)'", texts)) <= {"HOUR", "DAY", "yyyy-MM-dd"}
    query = "SELECT country, sum(clicks) AS s FROM events WHERE device = 'secret' AND user_id = 4711 GROUP BY country"
    (found,) = advised(query)
    assert "secret" not in found.statement
    assert "4711" not in found.statement


# --- one view ----------------------------------------------------------------------------------------------------


def test_columns_of_groups_and_filters_become_keys() -> None:
    assert only(
        "SELECT year(o_orderdate) AS y, sum(o_totalprice) AS t FROM orders WHERE o_orderstatus = 'F' GROUP BY 1"
    ) == (
        "SELECT o_orderdate, o_orderstatus, count(*) AS row_count, sum(o_totalprice) AS sum_o_totalprice"
        " FROM shop.orders GROUP BY o_orderdate, o_orderstatus"
    )


def test_an_average_becomes_a_sum_and_a_count() -> None:
    assert only("SELECT l_returnflag, avg(l_tax) AS a FROM lineitem GROUP BY 1") == (
        "SELECT l_returnflag, count(*) AS row_count, sum(l_tax) AS sum_l_tax, count(l_tax) AS count_l_tax"
        " FROM shop.lineitem GROUP BY l_returnflag"
    )


def test_a_time_is_truncated_as_far_as_the_queries_allow() -> None:
    month = "SELECT date_trunc('month', ts) AS m, count(*) AS n FROM events GROUP BY 1"
    hours = "SELECT hour(ts) AS h, count(*) AS n FROM events WHERE ts >= '2024-01-01' GROUP BY 1"
    assert "date_trunc('DAY', ts) AS ts_day" in only(month)
    assert "date_trunc('HOUR', ts) AS ts_hour" in only(month, hours)
    assert "DAY" not in only(month, hours)


def test_joins_are_those_of_the_queries() -> None:
    comma = "SELECT c_name, count(*) AS n FROM orders, customer WHERE o_custkey = c_custkey GROUP BY c_name"
    joined = (
        "SELECT c_name, sum(o_totalprice) AS s FROM customer c JOIN orders o ON c.c_custkey = o.o_custkey GROUP BY 1"
    )
    assert only(comma, joined) == (
        "SELECT customer.c_name, count(*) AS row_count, sum(orders.o_totalprice) AS sum_o_totalprice"
        " FROM shop.orders AS orders INNER JOIN shop.customer AS customer ON orders.o_custkey = customer.c_custkey"
        " GROUP BY customer.c_name"
    )


def test_each_table_is_joined_with_one_before_it() -> None:
    text = "SELECT n_name, p_brand, count(*) AS n FROM nation, part, customer, orders, lineitem"
    text += " WHERE p_partkey = l_partkey AND n_nationkey = c_nationkey"
    text += " AND c_custkey = o_custkey AND l_orderkey = o_orderkey GROUP BY 1, 2"
    joined = only(text)
    assert "CROSS" not in joined
    assert joined.count("INNER JOIN") == 4


def test_no_query_is_read_when_it_is_late() -> None:
    text = "SELECT o_orderstatus, count(*) AS n FROM orders GROUP BY 1"
    assert suggested([(text, SHOP)], DESCRIBED, is_late=lambda: True) == []


def test_sums_of_doubles_get_their_own_groups() -> None:
    text = "SELECT country, sum(amount) AS a FROM events GROUP BY country"
    assert only(text) == (
        "SELECT country, count(*) AS row_count, sum(amount) AS sum_amount FROM shop.events GROUP BY country"
    )
    assert advised("SELECT country, sum(amount) AS a FROM events WHERE device = 'tv' GROUP BY country") == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM events WHERE ts > '2024-01-01 10:11:12'",
        "SELECT amount, count(*) AS n FROM events GROUP BY amount",
        "SELECT a.l_tax AS t, count(*) AS n FROM lineitem a JOIN lineitem b ON a.l_orderkey = b.l_orderkey GROUP BY 1",
        "SELECT country, sum(CASE WHEN device = 'tv' THEN length('secret') END) AS n FROM events GROUP BY country",
        "SELECT country, max(concat(device, 'secret')) AS n FROM events GROUP BY country",
        "SELECT country, count(*) AS n FROM elsewhere GROUP BY country",
        "SELECT country, count(*) AS n FROM events WHERE ts > now() GROUP BY country",
        "SELECT device FROM events WHERE country = 'DE'",
        "SELECT country FROM",
        "INSERT INTO x SELECT country, count(*) FROM events GROUP BY country",
    ],
)
def test_no_view_is_suggested(text: str) -> None:
    assert advised(text) == []


def test_counted_values_do_not_make_the_view_of_others_large() -> None:
    users = "SELECT country, count(DISTINCT user_id) AS u FROM events GROUP BY country"
    devices = "SELECT device, count(*) AS n FROM events GROUP BY device"
    assert [each.serves for each in advised(users, devices)] == [(0,), (1,)]


def test_a_view_has_few_keys_unless_a_query_needs_more() -> None:
    columns = [*TABLES[TableName("shop", "lineitem")]][:8]
    single = [f"SELECT {column}, count(*) AS n FROM lineitem GROUP BY 1" for column in columns]
    assert all(len(each.view.columns) <= UNKNOWN_KEYS_MAX + 1 for each in advised(*single))
    assert len(advised(*single)) == 2
    names = ", ".join(columns)
    assert len(advised(f"SELECT {names}, count(*) AS n FROM lineitem GROUP BY {names}", *single)) == 1


# --- what is known besides ---------------------------------------------------------------------------------------


def test_statistics_bound_the_rows_and_leave_out_large_views() -> None:
    orders = TableName("shop", "orders")
    known = replace(DESCRIBED[orders], rows=1_000, distinct={"o_orderstatus": 3, "o_orderkey": 990, "o_custkey": 300})
    tables = {**DESCRIBED, orders: known}
    small = "SELECT o_orderstatus, count(*) AS n FROM orders GROUP BY 1"
    customers = "SELECT count(*) AS n FROM orders WHERE o_custkey = 7"
    (found,) = advised(small, tables=tables)
    assert found.rows == 4
    assert advised("SELECT count(*) AS n FROM orders WHERE o_orderkey = 7", tables=tables) == []
    assert [each.rows for each in advised(small, customers, tables=tables)] == [4, 301]
    (unknown,) = advised(small)
    assert unknown.rows is None
    (whole,) = advised("SELECT count(*) AS n FROM orders")
    assert whole.rows == 1


def test_names_that_exist_are_not_used() -> None:
    text = "SELECT o_orderstatus, count(*) AS n FROM orders GROUP BY 1"
    names = [TableName("shop", "orders_by_o_orderstatus"), TableName("shop", "orders_by_o_orderstatus_2")]
    (found,) = suggested([(text, SHOP)], DESCRIBED, taken=names)
    assert found.view.name.table == "orders_by_o_orderstatus_3"
    assert found.renamed([found.view.name]).view.name.table == "orders_by_o_orderstatus_3_2"


def test_queries_that_a_view_answers_get_no_other() -> None:
    text = "SELECT o_orderstatus, count(*) AS n FROM orders GROUP BY 1"
    assert (
        suggested([(text, SHOP)], DESCRIBED, is_answered=lambda shape, namespace: shape.key == shape_of(text).key) == []
    )


def test_a_query_is_shown_without_its_literals() -> None:
    text = """SELECT /*+ REWRITE(x) */ a, `b c`, min(1.5) FROM s.t
              WHERE d = "Jane" AND e IN ('Doe', 4711) AND x'00' = f GROUP BY 1, 2"""
    assert without_literals(shape_of(text)) == (
        "SELECT a, `b c`, min(?) FROM s.t WHERE d = ? AND e IN (?, ?) AND ? = f GROUP BY 1, 2"
    )


def test_ctes_that_name_each_other_very_often_have_no_tables() -> None:
    """Each names the one before twice: their sum doubles forty times."""
    ctes = ", ".join(f"a{n} AS (SELECT x.a FROM a{n - 1} x JOIN a{n - 1} y ON x.a = y.a)" for n in range(1, 40))
    text = f"WITH a0 AS (SELECT a FROM t), {ctes} SELECT a FROM a39"
    assert tables_of(text, SHOP) == frozenset()
    assert suggested([(text, SHOP)], {}) == []
