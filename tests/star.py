"""Tables of a shop and its website, and views over them, for the tests of rewriting."""

from __future__ import annotations

from collections.abc import Sequence

from sql.names import Namespace, TableName
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Miss, Proposal, propose
from sql.rewriting.shape import shape_of

SHOP = Namespace("shop")
_TABLES = {
    "lineitem": "l_orderkey l_partkey l_suppkey l_linenumber l_quantity l_extendedprice l_discount l_tax l_returnflag"
    " l_linestatus l_shipdate l_receiptdate l_shipmode",
    "orders": "o_orderkey o_custkey o_orderstatus o_totalprice o_orderdate o_orderpriority",
    "customer": "c_custkey c_name c_nationkey c_mktsegment",
    "nation": "n_nationkey n_name n_regionkey",
    "part": "p_partkey p_name p_brand p_type p_size",
    "store_sales": "ss_sold_date_sk ss_item_sk ss_store_sk ss_customer_sk ss_quantity ss_net_paid",
    "date_dim": "d_date_sk d_date d_year d_moy d_qoy",
    "item": "i_item_sk i_category i_brand",
    "store": "s_store_sk s_state s_name",
    "events": "ts user_id country device clicks amount price flag",
}
TABLES = {TableName("shop", name): tuple(columns.split()) for name, columns in _TABLES.items()}


def view(name: str, columns: str, query: str) -> RewritableView:
    """`columns`: name and type of each, separated by semicolons."""
    pairs = [each.split() for each in columns.split(";")]
    words = set(query.lower().replace(",", " ").replace("(", " ").split())
    bases = {table: names for table, names in TABLES.items() if table.table in words}
    names, types = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    return RewritableView(TableName("shop", name), names, types, query, SHOP, bases)


VIEWS = {
    each.name.table: each
    for each in (
        view(
            "daily",
            "ship DATE; flag STRING; status STRING; revenue DECIMAL(25,2); qty DECIMAL(25,2); qtys BIGINT;"
            "net DECIMAL(36,4); lines BIGINT; first_line INT; last_line INT",
            "SELECT l_shipdate, l_returnflag, l_linestatus, sum(l_extendedprice), sum(l_quantity), count(l_quantity),"
            " sum(l_extendedprice * (1 - l_discount)), count(*), min(l_linenumber), max(l_linenumber)"
            " FROM lineitem GROUP BY l_shipdate, l_returnflag, l_linestatus",
        ),
        view(
            "segments",
            "segment STRING; day TIMESTAMP; priority STRING; nation BIGINT; total DECIMAL(25,2); orders BIGINT",
            "SELECT c_mktsegment AS segment, date_trunc('DAY', o_orderdate) AS day, o_orderpriority AS priority,"
            " c.c_nationkey, sum(o_totalprice) AS total, count(*) AS orders"
            " FROM orders o INNER JOIN customer c ON o.o_custkey = c.c_custkey"
            " GROUP BY c_mktsegment, date_trunc('DAY', o_orderdate), o_orderpriority, c.c_nationkey",
        ),
        view(
            "sales",
            "year INT; month INT; state STRING; category STRING; brand STRING; paid DECIMAL(17,2); pieces BIGINT;"
            " sales BIGINT",
            "SELECT d_year AS year, d_moy AS month, s_state, i_category, i_brand, sum(ss_net_paid), sum(ss_quantity),"
            " count(1) FROM store_sales, date_dim, item, store WHERE ss_sold_date_sk = d_date_sk"
            " AND ss_item_sk = i_item_sk AND ss_store_sk = s_store_sk GROUP BY 1, 2, 3, 4, 5",
        ),
        view(
            "shipped",
            "orderkey BIGINT; part BIGINT; price DECIMAL(15,2); mode STRING; ordered DATE; order_status STRING",
            "SELECT l_orderkey, l_partkey, l_extendedprice, l_shipmode, o_orderdate, o_orderstatus"
            " FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderstatus <> 'P'",
        ),
        view(
            "recent",
            "o_orderdate DATE; o_orderstatus STRING; o_custkey BIGINT; total DECIMAL(25,2); n BIGINT",
            "SELECT o_orderdate, o_orderstatus, o_custkey, sum(o_totalprice) AS total, count(*) AS n FROM orders"
            " WHERE o_orderdate >= DATE '2020-01-01' GROUP BY o_orderdate, o_orderstatus, o_custkey",
        ),
        view(
            "hourly",
            "hour TIMESTAMP; country STRING; device STRING; hits BIGINT; clicks BIGINT; clicked BIGINT; amount DOUBLE;"
            " highest DOUBLE; users BIGINT; flagged BOOLEAN; mean DOUBLE; half DOUBLE",
            "SELECT date_trunc('hour', ts) AS hour, country, device, count(*), sum(clicks), count(clicks), sum(amount),"
            " max(amount), count(DISTINCT user_id), bool_or(flag), avg(amount), percentile(amount, 0.5) AS half"
            " FROM events GROUP BY date_trunc('hour', ts), country, device",
        ),
        view(
            "weekly",
            "week TIMESTAMP; country STRING; hits BIGINT",
            "SELECT date_trunc('week', ts), country, count(*) FROM events GROUP BY date_trunc('week', ts), country",
        ),
        view(
            "flagged",
            "hour TIMESTAMP; flag BOOLEAN; n BIGINT",
            "SELECT date_trunc('hour', ts), flag, count(*) FROM events GROUP BY date_trunc('hour', ts), flag",
        ),
        view(
            "dated",
            "day DATE; country STRING; hits BIGINT",
            "SELECT to_date(ts), country, count(*) FROM events GROUP BY to_date(ts), country",
        ),
    )
}


def columns_of(table: TableName) -> Sequence[str] | None:
    return TABLES.get(table)


def outcome(text: str, name: str, temporary: frozenset[str] = frozenset()) -> Proposal | Miss:
    """What the view of that name can do for the text."""
    (found,) = propose(text, SHOP, [VIEWS[name]], columns_of, temporary)
    return found


def proposed(text: str, name: str) -> str:
    """The text over the view, with the view's plain name; `-` and the reason if there is none."""
    found = outcome(text, name)
    if isinstance(found, Miss):
        return f"- {found.reason}"
    return found.template.over(name).fill(shape_of(text).literals)
