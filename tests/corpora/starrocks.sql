-- In the manner of StarRocks' tests of rewriting by materialized views: employees, plain tables, and orders with lines.
/*table*/ CREATE TABLE emps (empid INT, deptno INT, locationid INT, commission INT, name STRING, salary DECIMAL(18,2)) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (empid); NOT NULL (deptno); NOT NULL (locationid); FOREIGN KEY (deptno) REFERENCES depts (deptno); FOREIGN KEY (locationid) REFERENCES locations (locationid)');
/*table*/ CREATE TABLE depts (deptno INT, name STRING) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (deptno)');
/*table*/ CREATE TABLE locations (locationid INT, name STRING) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (locationid)');
/*table*/ CREATE TABLE dependents (empid INT, name STRING) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'NOT NULL (empid); FOREIGN KEY (empid) REFERENCES emps (empid)');
/*table*/ CREATE TABLE t0 (v1 BIGINT, v2 BIGINT, v3 BIGINT) USING parquet;
/*table*/ CREATE TABLE t1 (v4 BIGINT, v5 BIGINT, v6 BIGINT) USING parquet;
/*table*/ CREATE TABLE parts (c1 INT, c2 BIGINT, c3 BIGINT, d DATE) USING parquet;
/*table*/ CREATE TABLE orders (o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority STRING) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (o_orderkey)');
/*table*/ CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey BIGINT, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'NOT NULL (l_orderkey); FOREIGN KEY (l_orderkey) REFERENCES orders (o_orderkey)');

-- projections and filters
/*view*/ SELECT empid, deptno, name, salary FROM emps WHERE empid = 5;
/*used*/ SELECT empid, deptno, name, salary FROM emps WHERE empid = 5;
/*used*/ SELECT empid, length(name), salary + 1 AS s FROM emps WHERE empid = 5;
/*used*/ SELECT name FROM emps WHERE empid = 5 AND deptno > 10;
/*not*/ SELECT name FROM emps WHERE empid = 6;
/*view*/ SELECT empid, deptno, name, salary FROM emps WHERE empid < 5;
/*used*/ SELECT empid, name FROM emps WHERE empid < 4;
/*used*/ SELECT name FROM emps WHERE empid <= 4;
/*used*/ SELECT name FROM emps WHERE empid = 3;
/*used*/ SELECT name FROM emps WHERE empid IN (1, 2);
/*used*/ SELECT name FROM emps WHERE empid < 5 AND salary > 100 OR empid < 5 AND deptno = 3;
/*not*/ SELECT salary FROM emps WHERE deptno < 4 AND commission = 1;
/*view*/ SELECT empid, deptno, name FROM emps WHERE empid > 100 OR deptno IN (1, 2);
/*used*/ SELECT name FROM emps WHERE empid > 200;
/*used*/ SELECT name FROM emps WHERE deptno = 1;

-- joins
/*view*/ SELECT e.empid, e.deptno, d.deptno AS dd, d.name FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.empid < 500;
/*used*/ SELECT e.empid, d.name FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.empid < 500 AND d.deptno > 10;
/*used*/ SELECT count(*) AS c FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.empid < 100;
/*used*/ SELECT e.empid, l.name FROM emps e JOIN depts d USING (deptno) JOIN locations l ON l.locationid = e.empid WHERE e.empid < 500;
/*used*/ SELECT d.name FROM depts d JOIN emps e ON d.deptno = e.deptno AND e.empid < 200;
/*view*/ SELECT e.empid, e.locationid, d.name AS dname, d.deptno FROM emps e JOIN depts d ON e.deptno = d.deptno JOIN locations l ON e.locationid = l.locationid;
/*used*/ SELECT e.empid, d.name FROM depts d JOIN emps e ON e.deptno = d.deptno;
/*used*/ SELECT empid, deptno FROM emps WHERE deptno > 10;
/*used*/ SELECT e.empid FROM emps e JOIN locations l ON e.locationid = l.locationid WHERE l.locationid = 5;
/*used*/ SELECT e.empid, p.name FROM emps e JOIN dependents p ON e.empid = p.empid;
/*not*/ SELECT name FROM depts;
/*view*/ SELECT v1, v2, v4, v5 FROM t0 JOIN t1 ON v1 = v4 WHERE v2 > 10;
/*used*/ SELECT v1, v5 FROM t0 JOIN t1 ON v1 = v4 WHERE v2 > 20 AND v4 < 100;
/*used*/ SELECT v5 FROM t1, t0 WHERE t1.v4 = t0.v1 AND v2 BETWEEN 11 AND 12;
/*not*/ SELECT v1 FROM t0 WHERE v2 > 10;
/*view*/ SELECT v1, v2, v4, v5 FROM t0 JOIN t1 ON v1 = v4 WHERE v1 > 5;
/*used*/ SELECT v2, v5 FROM t0 JOIN t1 ON v1 = v4 WHERE v4 > 5;
/*used*/ SELECT v2, v5 FROM t0 JOIN t1 ON v1 = v4 WHERE v4 > 7;
/*used*/ SELECT v2, v5 FROM t0 JOIN t1 ON v1 = v4 WHERE v4 = 9;

-- outer and semi joins
/*view*/ SELECT v1, v2, v4, v5 FROM t0 LEFT JOIN t1 ON v1 = v4;
/*used*/ SELECT v1, v5 FROM t0 LEFT JOIN t1 ON v1 = v4 WHERE v1 > 10;
/*used*/ SELECT v2, v5 FROM t0 JOIN t1 ON v1 = v4;
/*used*/ SELECT v2, v5 FROM t0 LEFT JOIN t1 ON v1 = v4 WHERE v5 > 3;
/*used*/ SELECT v2 FROM t0 LEFT ANTI JOIN t1 ON v1 = v4;
/*used*/ SELECT v1, sum(v5) AS s FROM t0 JOIN t1 ON v1 = v4 GROUP BY v1;
/*not*/ SELECT v1 FROM t0 FULL JOIN t1 ON v1 = v4;
/*view*/ SELECT v1, v2, v5 FROM t0 LEFT JOIN (SELECT * FROM t1 WHERE v5 > 10) b ON v1 = b.v4;
/*used*/ SELECT v1, v5 FROM t0 LEFT JOIN (SELECT v4, v5 FROM t1 WHERE v5 > 10) b ON v1 = b.v4 WHERE v2 = 3;
/*used*/ SELECT v1, v5 FROM t0 LEFT JOIN t1 ON v1 = v4 AND v5 > 10;
/*view*/ SELECT empid, e.name, d.name AS dname FROM emps e LEFT JOIN depts d ON e.deptno = d.deptno;
/*used*/ SELECT empid, name FROM emps;
/*used*/ SELECT count(*) AS c FROM emps;

-- roll-up
/*view*/ SELECT deptno, empid, sum(salary) AS total, count(salary) AS cnt, count(*) AS c, max(commission) AS mx FROM emps GROUP BY deptno, empid;
/*used*/ SELECT deptno, sum(salary) AS total, count(salary) + 1 AS c FROM emps GROUP BY deptno;
/*used*/ SELECT deptno, count(*) AS c FROM emps WHERE empid > 3 GROUP BY deptno;
/*used*/ SELECT abs(empid), sum(salary) FROM emps GROUP BY abs(empid), deptno;
/*used*/ SELECT max(commission) FROM emps;
/*used*/ SELECT deptno, avg(salary) AS a FROM emps GROUP BY deptno;
/*used*/ SELECT count(DISTINCT deptno) AS a FROM emps;
/*used*/ SELECT deptno, sum(total) AS s FROM (SELECT deptno, empid, sum(salary) AS total FROM emps GROUP BY deptno, empid) GROUP BY deptno;
/*used*/ SELECT a.deptno, a.s, d.name FROM (SELECT deptno, sum(salary) AS s FROM emps GROUP BY deptno) a JOIN depts d ON a.deptno = d.deptno;
/*used*/ SELECT d.name, sum(e.salary) AS s FROM emps e JOIN depts d ON e.deptno = d.deptno GROUP BY d.name;
/*used*/ SELECT deptno, sum(salary) AS s FROM emps GROUP BY deptno HAVING sum(salary) > 100 ORDER BY s DESC LIMIT 10;
/*used*/ SELECT deptno, empid, count(*) AS c FROM emps GROUP BY GROUPING SETS ((deptno), (deptno, empid));
/*used*/ SELECT sum(CASE WHEN deptno = 3 THEN salary ELSE 0 END) AS s FROM emps;
/*not*/ SELECT deptno, count(DISTINCT salary) AS s FROM emps GROUP BY deptno;
/*view*/ SELECT o_orderdate, l_returnflag, sum(l_extendedprice * (1 - l_discount)) AS revenue, sum(l_quantity) AS q FROM lineitem JOIN orders ON l_orderkey = o_orderkey GROUP BY o_orderdate, l_returnflag;
/*used*/ SELECT date_trunc('month', o_orderdate) AS m, sum(l_quantity) AS q FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY 1;
/*used*/ SELECT l_returnflag, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, orders WHERE l_orderkey = o_orderkey AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01' GROUP BY l_returnflag;
/*used*/ SELECT l_returnflag, sum(l_quantity) AS q FROM lineitem GROUP BY l_returnflag;

-- a part of the rows, and the rest from tables
/*view*/ SELECT c1, c2, c3 FROM parts WHERE d >= DATE '2024-01-01';
/*used*/ SELECT c1, c3 FROM parts WHERE c2 > 0 AND d >= DATE '2024-01-01';
/*view*/ SELECT c1, c3, d, sum(c2) AS s FROM parts WHERE c1 < 2000 GROUP BY c1, c3, d;
/*used*/ SELECT c3, sum(c2) AS s FROM parts WHERE c1 < 2000 GROUP BY c3;
/*used*/ SELECT c1, c3, sum(c2) AS s FROM parts WHERE c1 < 3000 GROUP BY c1, c3;
/*used*/ SELECT c3, sum(c2) AS s FROM parts GROUP BY c3;
/*view*/ SELECT c1, c2, c3, d FROM parts WHERE d < DATE '2024-01-01';
/*used*/ SELECT d, sum(c2) AS s, max(c3) AS m FROM parts WHERE d < DATE '2024-06-01' GROUP BY d;
/*used*/ SELECT c1, c2 FROM parts WHERE d < DATE '2024-06-01';

-- views of views, several views, order, windows
/*view*/ SELECT deptno, sum(salary) AS s FROM emps GROUP BY deptno ORDER BY deptno;
/*used*/ SELECT deptno, sum(salary) AS t FROM emps GROUP BY deptno;
/*view*/ SELECT v1, v2, row_number() OVER (PARTITION BY v1 ORDER BY v2, v3) AS r FROM t0;
/*used*/ SELECT v1, v2 FROM (SELECT v1, v2, row_number() OVER (PARTITION BY v1 ORDER BY v2, v3) AS r FROM t0) WHERE r = 1;
/*view*/ SELECT v1, sum(v2) AS s FROM t0 GROUP BY v1;
/*view*/ SELECT v4, max(v5) AS m FROM t1 GROUP BY v4;
/*used*/ SELECT a.v1, a.s, b.m FROM (SELECT v1, sum(v2) AS s FROM t0 GROUP BY v1) a JOIN (SELECT v4, max(v5) AS m FROM t1 GROUP BY v4) b ON a.v1 = b.v4;
/*view*/ SELECT v1 FROM t0 UNION ALL SELECT v4 FROM t1;
/*used*/ SELECT v1 FROM t0 UNION ALL SELECT v4 FROM t1;
/*view*/ SELECT a.v1, b.v2 FROM t0 a JOIN t0 b ON a.v1 = b.v2;
/*used*/ SELECT a.v1, b.v2 FROM t0 a JOIN t0 b ON a.v1 = b.v2 WHERE a.v1 > 3;
