-- In the manner of Doris' suites of rewriting by materialized views: lines of orders, with parts and suppliers.
/*table*/ CREATE TABLE lineitem (l_orderkey INT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, l_shipdate DATE, l_commitdate DATE, l_comment STRING) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (l_orderkey, l_linenumber); FOREIGN KEY (l_orderkey) REFERENCES orders (o_orderkey); FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp (ps_partkey, ps_suppkey)');
/*table*/ CREATE TABLE orders (o_orderkey INT, o_custkey INT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority STRING, o_shippriority INT, o_comment STRING) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (o_orderkey)');
/*table*/ CREATE TABLE partsupp (ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost DECIMAL(15,2)) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (ps_partkey, ps_suppkey)');

-- roll-up of one table
/*view*/ SELECT o_shippriority, o_orderstatus, sum(o_totalprice) AS s, max(o_totalprice) AS mx, min(o_totalprice) AS mn, count(*) AS c FROM orders GROUP BY o_shippriority, o_orderstatus;
/*used*/ SELECT o_orderstatus, sum(o_totalprice) AS s, max(o_totalprice) AS mx, min(o_totalprice) AS mn, count(*) AS c FROM orders GROUP BY o_orderstatus;
/*used*/ SELECT sum(o_totalprice), count(*) FROM orders;
/*used*/ SELECT o_shippriority + 1 AS p, count(1) AS c FROM orders WHERE o_orderstatus = 'o' GROUP BY o_shippriority + 1;
/*used*/ SELECT o_orderstatus, sum(o_totalprice) / 2 AS h FROM orders GROUP BY o_orderstatus HAVING count(*) > 1;
/*used*/ SELECT o_shippriority, o_orderstatus, sum(o_totalprice) AS s FROM orders GROUP BY o_shippriority, o_orderstatus;
/*used*/ SELECT o_orderstatus, count(*) AS c FROM orders GROUP BY o_orderstatus WITH ROLLUP;
/*used*/ SELECT o_orderstatus, o_shippriority, grouping_id(o_orderstatus, o_shippriority) AS i, count(*) AS c FROM orders GROUP BY CUBE (o_orderstatus, o_shippriority);
/*used*/ SELECT o_shippriority, o_orderstatus, sum(o_totalprice) AS s FROM orders GROUP BY GROUPING SETS ((o_shippriority), (o_orderstatus), ());
/*not*/ SELECT o_orderdate, count(*) AS c FROM orders GROUP BY o_orderdate;
/*not*/ SELECT o_orderstatus, count(DISTINCT o_totalprice) AS c FROM orders GROUP BY o_orderstatus;
/*view*/ SELECT o_orderdate, o_custkey, count(DISTINCT o_shippriority) AS cd, count(CASE WHEN o_shippriority > 1 AND o_orderkey IN (1, 3) THEN o_custkey END) AS cc, sum(CASE WHEN o_shippriority > 1 THEN o_totalprice ELSE 0 END) AS sc FROM orders GROUP BY o_orderdate, o_custkey;
/*used*/ SELECT o_orderdate, o_custkey, count(DISTINCT o_shippriority) AS cd FROM orders GROUP BY o_orderdate, o_custkey;
/*used*/ SELECT o_orderdate, count(CASE WHEN o_shippriority > 1 AND o_orderkey IN (1, 3) THEN o_custkey END) AS cc FROM orders GROUP BY o_orderdate;
/*used*/ SELECT o_orderdate, sum(CASE WHEN o_shippriority > 1 THEN o_totalprice ELSE 0 END) AS sc FROM orders GROUP BY o_orderdate;
/*view*/ SELECT o_orderdate, o_custkey, sum(o_totalprice) AS s FROM orders GROUP BY ROLLUP (o_orderdate, o_custkey);
/*used*/ SELECT o_orderdate, o_custkey, sum(o_totalprice) AS s FROM orders GROUP BY ROLLUP (o_orderdate, o_custkey);
/*used*/ SELECT o_orderdate, o_custkey, sum(o_totalprice) AS s FROM orders GROUP BY o_orderdate, o_custkey;

-- roll-up of joins
/*view*/ SELECT l_shipdate, o_orderdate, l_partkey, l_suppkey, sum(o_totalprice) AS s, max(o_totalprice) AS mx, count(*) AS c FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey AND l_shipdate = o_orderdate GROUP BY l_shipdate, o_orderdate, l_partkey, l_suppkey;
/*used*/ SELECT l_partkey, l_suppkey, sum(o_totalprice) AS s, count(*) AS c FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey AND l_shipdate = o_orderdate GROUP BY l_partkey, l_suppkey;
/*used*/ SELECT l_suppkey, max(o_totalprice) AS mx FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey AND l_shipdate = o_orderdate WHERE l_partkey = 1 GROUP BY l_suppkey;
/*used*/ SELECT l_suppkey, sum(o_totalprice) AS s FROM lineitem JOIN orders ON l_orderkey = o_orderkey AND l_shipdate = o_orderdate GROUP BY l_suppkey;
/*used*/ SELECT l_suppkey, count(*) AS c FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey AND l_shipdate = o_orderdate WHERE o_orderdate = DATE '2023-12-01' GROUP BY l_suppkey;
/*view*/ SELECT o_orderdate, ps_partkey, sum(l_quantity) AS q, sum(ps_supplycost) AS sc FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey WHERE o_orderdate >= DATE '2023-01-01' GROUP BY o_orderdate, ps_partkey;
/*used*/ SELECT ps_partkey, sum(l_quantity) AS q FROM partsupp, orders, lineitem WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '2023-02-01' GROUP BY ps_partkey;
/*used*/ SELECT year(o_orderdate) AS y, sum(ps_supplycost) AS s FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey WHERE o_orderdate >= DATE '2023-01-01' GROUP BY year(o_orderdate);
/*used*/ SELECT l_partkey, sum(l_quantity) AS q FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey WHERE o_orderdate >= DATE '2023-01-01' GROUP BY l_partkey;
/*used*/ SELECT o_orderdate, sum(l_quantity) AS q FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderdate >= DATE '2023-01-01' AND l_partkey IS NOT NULL AND l_suppkey IS NOT NULL GROUP BY o_orderdate;
/*used*/ SELECT o_orderdate, ps_partkey, sum(l_quantity) AS q FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey WHERE o_orderdate >= DATE '2022-06-01' GROUP BY o_orderdate, ps_partkey;

-- inner joins
/*view*/ SELECT l_linenumber, l_shipdate, o_custkey, o_orderdate, l_orderkey FROM lineitem JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber, o_custkey FROM orders JOIN lineitem ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber FROM lineitem, orders WHERE l_orderkey = o_orderkey AND o_orderkey > 3;
/*used*/ SELECT l_linenumber, l_shipdate FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderdate = DATE '2023-12-08' AND l_linenumber IN (1, 2);
/*used*/ SELECT l_linenumber FROM lineitem WHERE l_orderkey = 3;
/*used*/ SELECT o_custkey, count(*) AS c FROM (SELECT * FROM lineitem WHERE l_linenumber > 3) l JOIN orders o ON l.l_orderkey = o.o_orderkey GROUP BY o_custkey;
/*used*/ SELECT t.l_linenumber, ps_availqty FROM (SELECT l_linenumber, o_custkey FROM lineitem JOIN orders ON l_orderkey = o_orderkey) t JOIN partsupp ON t.o_custkey = ps_partkey;
/*not*/ SELECT o_custkey FROM orders;
/*not*/ SELECT l_linenumber, o_comment FROM lineitem JOIN orders ON l_orderkey = o_orderkey;

-- outer joins
/*view*/ SELECT l_orderkey, l_linenumber, l_shipdate, o_orderkey, o_orderdate, o_custkey FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber, o_custkey FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey WHERE l_shipdate = DATE '2023-12-08';
/*used*/ SELECT l_linenumber, o_custkey FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE o_orderdate >= DATE '2023-12-08';
/*used*/ SELECT l_linenumber, o_custkey FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey WHERE o_custkey = 3;
/*used*/ SELECT l_linenumber, o_custkey FROM orders RIGHT JOIN lineitem ON l_orderkey = o_orderkey WHERE l_linenumber > 3;
/*used*/ SELECT l_linenumber FROM lineitem LEFT ANTI JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber FROM lineitem LEFT SEMI JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber FROM lineitem;
/*view*/ SELECT l_orderkey, l_linenumber, o_custkey FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey WHERE l_shipdate >= DATE '2023-12-08';
/*used*/ SELECT l_linenumber, o_custkey FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey WHERE l_shipdate >= DATE '2023-12-08' AND l_linenumber = 1;
/*not*/ SELECT l_linenumber, o_custkey FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey AND l_shipdate >= DATE '2023-12-08';
/*view*/ SELECT l.l_orderkey, l.l_linenumber, o.o_custkey FROM lineitem l LEFT JOIN (SELECT * FROM orders WHERE o_orderdate = DATE '2023-12-08') o ON l.l_orderkey = o.o_orderkey;
/*used*/ SELECT l.l_linenumber, o.o_custkey FROM lineitem l LEFT JOIN (SELECT o_orderkey, o_custkey FROM orders WHERE o_orderdate = DATE '2023-12-08') o ON l.l_orderkey = o.o_orderkey WHERE l.l_orderkey > 10;
/*used*/ SELECT l.l_linenumber, o.o_custkey FROM lineitem l LEFT JOIN orders o ON l.l_orderkey = o.o_orderkey AND o.o_orderdate = DATE '2023-12-08';
/*view*/ SELECT l_orderkey, l_linenumber, o_orderkey, o_custkey FROM lineitem FULL JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber, o_custkey FROM lineitem FULL JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber, o_custkey FROM lineitem LEFT JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber, o_custkey FROM lineitem JOIN orders ON l_orderkey = o_orderkey;
/*view*/ SELECT l_orderkey, l_linenumber, l_shipdate FROM lineitem LEFT SEMI JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber FROM lineitem LEFT SEMI JOIN orders ON l_orderkey = o_orderkey WHERE l_shipdate = DATE '2023-12-08';
/*used*/ SELECT l_linenumber FROM lineitem WHERE EXISTS (SELECT 1 FROM orders WHERE o_orderkey = l_orderkey);
/*view*/ SELECT l_orderkey, l_linenumber FROM lineitem LEFT ANTI JOIN orders ON l_orderkey = o_orderkey;
/*used*/ SELECT l_linenumber FROM lineitem WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_orderkey = l_orderkey) AND l_orderkey > 3;

-- conditions
/*view*/ SELECT l_orderkey, l_shipdate, l_partkey, l_suppkey, l_quantity FROM lineitem WHERE l_shipdate >= DATE '2023-10-01' AND l_partkey > 1;
/*used*/ SELECT l_orderkey FROM lineitem WHERE l_shipdate > DATE '2023-10-03' AND l_partkey >= 2;
/*used*/ SELECT l_orderkey FROM lineitem WHERE l_shipdate = DATE '2023-10-03' AND l_partkey > 1 AND l_suppkey <> 3;
/*used*/ SELECT l_orderkey FROM lineitem WHERE l_shipdate IN (DATE '2023-10-03', DATE '2023-10-04') AND l_partkey = 5;
/*used*/ SELECT l_shipdate, sum(l_quantity) AS q FROM lineitem WHERE l_shipdate BETWEEN DATE '2023-10-01' AND DATE '2023-10-31' AND l_partkey > 1 GROUP BY l_shipdate;
/*not*/ SELECT l_orderkey, l_comment FROM lineitem WHERE l_shipdate >= DATE '2023-09-01' AND l_partkey > 1;
/*view*/ SELECT l_orderkey, l_shipdate FROM lineitem WHERE l_shipdate >= DATE '2023-10-01' OR l_shipdate < DATE '2020-01-01';
/*used*/ SELECT l_orderkey FROM lineitem WHERE l_shipdate >= DATE '2023-11-01';
/*used*/ SELECT l_orderkey FROM lineitem WHERE l_shipdate >= DATE '2023-11-01' OR l_shipdate < DATE '2019-01-01';

-- times
/*view*/ SELECT date_trunc('day', o_orderdate) AS dt, o_shippriority, sum(o_totalprice) AS s FROM orders GROUP BY date_trunc('day', o_orderdate), o_shippriority;
/*used*/ SELECT date_trunc('month', o_orderdate) AS m, sum(o_totalprice) AS s FROM orders GROUP BY date_trunc('month', o_orderdate);
/*used*/ SELECT date_trunc('year', o_orderdate) AS m, o_shippriority, sum(o_totalprice) AS s FROM orders WHERE o_shippriority > 1 GROUP BY 1, 2;

-- a part of the rows, several blocks, several views, direct and nested
/*view*/ SELECT o_orderdate, o_custkey, sum(o_totalprice) AS s, count(*) AS c FROM orders WHERE o_orderdate < DATE '2023-10-18' GROUP BY o_orderdate, o_custkey;
/*used*/ SELECT o_custkey, sum(o_totalprice) AS s FROM orders WHERE o_orderdate < DATE '2023-10-18' GROUP BY o_custkey;
/*used*/ SELECT o_orderdate, o_custkey, sum(o_totalprice) AS s FROM orders WHERE o_orderdate < DATE '2023-10-20' GROUP BY o_orderdate, o_custkey;
/*used*/ SELECT o_custkey, sum(o_totalprice) AS s, count(*) AS c FROM orders GROUP BY o_custkey;
/*view*/ SELECT o_custkey, max(o_totalprice) AS m FROM orders GROUP BY o_custkey;
/*view*/ SELECT l_partkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_partkey;
/*used*/ SELECT a.o_custkey, a.m, b.q FROM (SELECT o_custkey, max(o_totalprice) AS m FROM orders GROUP BY o_custkey) a JOIN (SELECT l_partkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_partkey) b ON a.o_custkey = b.l_partkey;
/*used*/ SELECT o_custkey, max(o_totalprice) AS m FROM orders GROUP BY o_custkey UNION ALL SELECT ps_partkey, ps_supplycost FROM partsupp;
/*view*/ SELECT a.o_orderkey, a.o_custkey, b.o_totalprice FROM orders a JOIN orders b ON a.o_custkey = b.o_orderkey;
/*used*/ SELECT a.o_orderkey, b.o_totalprice FROM orders a JOIN orders b ON a.o_custkey = b.o_orderkey WHERE a.o_custkey > 1;
/*view*/ SELECT o_custkey, o_orderdate, o_totalprice, rank() OVER (PARTITION BY o_custkey ORDER BY o_totalprice DESC) AS r FROM orders;
/*used*/ SELECT o_custkey, o_totalprice FROM (SELECT o_custkey, o_totalprice, rank() OVER (PARTITION BY o_custkey ORDER BY o_totalprice DESC) AS r FROM orders) WHERE r <= 3;
/*view*/ SELECT o_custkey, o_totalprice FROM orders WHERE o_totalprice > (SELECT avg(o_totalprice) FROM orders);
/*used*/ SELECT o_custkey, o_totalprice FROM orders WHERE o_totalprice > (SELECT avg(o_totalprice) FROM orders) AND o_custkey = 3;
/*used*/ SELECT o_custkey FROM orders WHERE o_totalprice > (SELECT avg(o_totalprice) FROM orders);
/*view*/ SELECT DISTINCT o_custkey, o_orderstatus FROM orders;
/*used*/ SELECT DISTINCT o_custkey FROM orders;
/*used*/ SELECT o_orderstatus FROM orders WHERE o_custkey > 3 GROUP BY o_orderstatus;
