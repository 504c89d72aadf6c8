"""Views over the tables of three benchmarks, a few for each, as an analyst would create them for its dashboards."""

from __future__ import annotations

from collections.abc import Mapping

SSB = {
    "discounts": """
        SELECT d_year, d_yearmonthnum, d_weeknuminyear, lo_discount, lo_quantity,
               sum(lo_extendedprice * lo_discount) AS saved
        FROM lineorder JOIN date ON lo_orderdate = d_datekey GROUP BY ALL""",
    "brands": """
        SELECT d_year, p_category, p_brand1, s_region, sum(lo_revenue) AS revenue
        FROM lineorder JOIN date ON lo_orderdate = d_datekey JOIN part ON lo_partkey = p_partkey
        JOIN supplier ON lo_suppkey = s_suppkey GROUP BY ALL""",
    "trade": """
        SELECT d_year, d_yearmonth, c_region, c_nation, c_city, s_region, s_nation, s_city, sum(lo_revenue) AS revenue
        FROM lineorder JOIN date ON lo_orderdate = d_datekey JOIN customer ON lo_custkey = c_custkey
        JOIN supplier ON lo_suppkey = s_suppkey GROUP BY ALL""",
    "profit": """
        SELECT d_year, p_mfgr, p_category, p_brand1, c_region, c_nation, s_region, s_nation, s_city,
               sum(lo_revenue - lo_supplycost) AS profit
        FROM lineorder JOIN date ON lo_orderdate = d_datekey JOIN part ON lo_partkey = p_partkey
        JOIN customer ON lo_custkey = c_custkey JOIN supplier ON lo_suppkey = s_suppkey GROUP BY ALL""",
}
_DISCOUNTED = "sum(l_extendedprice * (1 - l_discount)) AS discounted"
TPCH = {
    "shipped": f"""
        SELECT l_shipdate, l_returnflag, l_linestatus, l_discount, l_quantity, sum(l_quantity) AS quantity,
               sum(l_extendedprice) AS price, {_DISCOUNTED},
               sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
               sum(l_extendedprice * l_discount) AS saved, sum(l_discount) AS discounts,
               count(l_quantity) AS quantities, count(l_extendedprice) AS prices, count(l_discount) AS discounted_lines,
               count(*) AS lines
        FROM lineitem GROUP BY ALL""",
    "ordered": f"""
        SELECT l_orderkey, l_partkey, l_suppkey, l_shipdate, l_returnflag, o_custkey, o_orderdate, o_shippriority,
               o_totalprice, {_DISCOUNTED}, sum(l_quantity) AS quantity
        FROM lineitem JOIN orders ON l_orderkey = o_orderkey GROUP BY ALL""",
    "parts": f"""
        SELECT l_partkey, l_suppkey, l_shipdate, l_quantity, l_shipmode, l_shipinstruct, {_DISCOUNTED},
               sum(l_extendedprice) AS price, sum(l_quantity) AS quantity, count(l_quantity) AS quantities
        FROM lineitem GROUP BY ALL""",
    "profit": """
        SELECT p_name, s_nationkey, n_name, o_orderdate,
               sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit
        FROM lineitem JOIN supplier ON s_suppkey = l_suppkey
        JOIN partsupp ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey JOIN part ON p_partkey = l_partkey
        JOIN orders ON o_orderkey = l_orderkey JOIN nation ON s_nationkey = n_nationkey GROUP BY ALL""",
    "delays": """
        SELECT l_shipmode, o_orderpriority, l_shipdate, l_commitdate, l_receiptdate, count(*) AS lines
        FROM lineitem JOIN orders ON l_orderkey = o_orderkey GROUP BY ALL""",
    "stock": """
        SELECT ps_partkey, ps_suppkey, n_name, sum(ps_supplycost * ps_availqty) AS value
        FROM partsupp JOIN supplier ON ps_suppkey = s_suppkey JOIN nation ON s_nationkey = n_nationkey GROUP BY ALL""",
}
_STORE_MEASURES = """
    sum(ss_ext_sales_price) AS price, sum(ss_sales_price) AS prices, count(ss_sales_price) AS sales_prices,
    sum(ss_net_profit) AS profit, sum(ss_quantity) AS quantity, count(ss_quantity) AS quantities,
    sum(ss_list_price) AS listed, count(ss_list_price) AS lists, sum(ss_coupon_amt) AS coupons,
    count(ss_coupon_amt) AS couponed, sum(ss_net_paid) AS paid, sum(ss_quantity * ss_list_price) AS value,
    sum(ss_sales_price * ss_quantity) AS volume, count(*) AS lines"""
TPCDS = {
    "store_items": f"""
        SELECT ss_sold_date_sk, ss_item_sk, ss_store_sk, ss_promo_sk, ss_cdemo_sk, {_STORE_MEASURES}
        FROM store_sales GROUP BY ALL""",
    "store_customers": """
        SELECT ss_sold_date_sk, ss_store_sk, ss_customer_sk, ss_addr_sk, ss_hdemo_sk, ss_ticket_number, ss_item_sk,
               sum(ss_ext_sales_price) AS price, sum(ss_ext_list_price) AS listed, sum(ss_ext_tax) AS tax,
               sum(ss_coupon_amt) AS coupons, sum(ss_net_profit) AS profit, sum(ss_net_paid) AS paid,
               sum(ss_quantity * ss_sales_price) AS spent,
               sum(((ss_ext_list_price - ss_ext_wholesale_cost - ss_ext_discount_amt) + ss_ext_sales_price) / 2)
                   AS year_total,
               count(*) AS lines
        FROM store_sales GROUP BY ALL""",
    "store_hours": """
        SELECT ss_sold_time_sk, ss_hdemo_sk, ss_store_sk, count(*) AS lines FROM store_sales GROUP BY ALL""",
    "catalog_items": """
        SELECT cs_sold_date_sk, cs_item_sk, cs_promo_sk, cs_bill_cdemo_sk, cs_call_center_sk, cs_bill_addr_sk,
               cs_bill_customer_sk, sum(cs_ext_sales_price) AS price, sum(cs_sales_price) AS prices,
               count(cs_sales_price) AS sales_prices, sum(cs_quantity) AS quantity, count(cs_quantity) AS quantities,
               sum(cs_list_price) AS listed, count(cs_list_price) AS lists, sum(cs_coupon_amt) AS coupons,
               count(cs_coupon_amt) AS couponed, sum(cs_net_profit) AS profit,
               sum(cs_quantity * cs_list_price) AS value, count(*) AS lines
        FROM catalog_sales GROUP BY ALL""",
    "catalog_deliveries": """
        SELECT cs_ship_date_sk, cs_sold_date_sk, cs_warehouse_sk, cs_ship_mode_sk, cs_call_center_sk, count(*) AS lines
        FROM catalog_sales GROUP BY ALL""",
    "web_items": """
        SELECT ws_sold_date_sk, ws_item_sk, ws_bill_addr_sk, ws_bill_customer_sk, sum(ws_ext_sales_price) AS price,
               sum(ws_sales_price) AS prices, sum(ws_net_paid) AS paid, sum(ws_quantity * ws_list_price) AS value,
               count(*) AS lines
        FROM web_sales GROUP BY ALL""",
    "web_deliveries": """
        SELECT ws_ship_date_sk, ws_sold_date_sk, ws_warehouse_sk, ws_ship_mode_sk, ws_web_site_sk, count(*) AS lines
        FROM web_sales GROUP BY ALL""",
    "stock": """
        SELECT inv_date_sk, inv_item_sk, inv_warehouse_sk, sum(inv_quantity_on_hand) AS quantity,
               count(inv_quantity_on_hand) AS known, count(*) AS lines
        FROM inventory GROUP BY ALL""",
    "store_refunds": """
        SELECT sr_returned_date_sk, sr_customer_sk, sr_store_sk, sum(sr_return_amt) AS amount, sum(sr_fee) AS fee
        FROM store_returns GROUP BY ALL""",
    "web_hours": """
        SELECT ws_sold_time_sk, ws_ship_hdemo_sk, ws_web_page_sk, count(*) AS lines FROM web_sales GROUP BY ALL""",
}
VIEWS: Mapping[str, Mapping[str, str]] = {"ssb": SSB, "tpch": TPCH, "tpcds": TPCDS}
