-- In the manner of Hive's tests of rewriting by materialized views: employees, and a star schema.
/*table*/ CREATE TABLE emps (empid INT, deptno INT, name STRING, salary DECIMAL(10,2), commission INT) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (empid); NOT NULL (deptno); FOREIGN KEY (deptno) REFERENCES depts (deptno)');
/*table*/ CREATE TABLE depts (deptno INT, name STRING, locationid INT) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (deptno); NOT NULL (locationid); FOREIGN KEY (locationid) REFERENCES locations (locationid)');
/*table*/ CREATE TABLE dependents (empid INT, name STRING) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'NOT NULL (empid); FOREIGN KEY (empid) REFERENCES emps (empid)');
/*table*/ CREATE TABLE locations (locationid INT, name STRING) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (locationid)');
/*table*/ CREATE TABLE lineorder (orderkey BIGINT, custkey INT, suppkey INT, partkey INT, orderdate INT, quantity INT, extendedprice BIGINT, discount INT, revenue BIGINT, supplycost BIGINT) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'NOT NULL (custkey); NOT NULL (suppkey); NOT NULL (partkey); NOT NULL (orderdate); FOREIGN KEY (custkey) REFERENCES customer (c_custkey); FOREIGN KEY (suppkey) REFERENCES supplier (s_suppkey); FOREIGN KEY (partkey) REFERENCES part (p_partkey); FOREIGN KEY (orderdate) REFERENCES dates (d_datekey)');
/*table*/ CREATE TABLE customer (c_custkey INT, c_city STRING, c_nation STRING, c_region STRING) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (c_custkey)');
/*table*/ CREATE TABLE supplier (s_suppkey INT, s_city STRING, s_nation STRING, s_region STRING) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (s_suppkey)');
/*table*/ CREATE TABLE part (p_partkey INT, p_mfgr STRING, p_category STRING, p_brand STRING) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (p_partkey)');
/*table*/ CREATE TABLE dates (d_datekey INT, d_year INT, d_yearmonthnum INT, d_yearmonth STRING, d_weeknum INT) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (d_datekey)');

-- filters and roll-up
/*view*/ SELECT empid, deptno, name, salary, commission FROM emps WHERE empid < 120;
/*used*/ SELECT empid, deptno FROM emps WHERE empid < 120 AND deptno = 10;
/*used*/ SELECT empid FROM emps WHERE empid <= 100;
/*used*/ SELECT name, salary FROM emps WHERE empid IN (1, 2, 3);
/*used*/ SELECT deptno, avg(salary) AS a FROM emps WHERE empid < 100 GROUP BY deptno;
/*not*/ SELECT name FROM depts WHERE deptno > 3;
/*view*/ SELECT deptno, name, salary, commission FROM emps GROUP BY deptno, name, salary, commission;
/*used*/ SELECT deptno, salary FROM emps GROUP BY deptno, salary;
/*used*/ SELECT DISTINCT name FROM emps WHERE salary > 10;
/*used*/ SELECT salary, name FROM emps WHERE commission = 3 GROUP BY salary, name;
/*view*/ SELECT deptno, name, salary, commission, sum(empid) AS s FROM emps GROUP BY deptno, name, salary, commission;
/*used*/ SELECT deptno, sum(empid) AS s FROM emps GROUP BY deptno;
/*used*/ SELECT name, sum(empid) FROM emps WHERE deptno > 5 GROUP BY name;
/*not*/ SELECT name, sum(commission) AS s FROM emps GROUP BY name;
/*view*/ SELECT deptno, sum(salary) AS s, count(*) AS c FROM emps WHERE commission >= 10 GROUP BY deptno;
/*used*/ SELECT deptno, sum(salary) AS s FROM emps WHERE commission >= 5 GROUP BY deptno;
/*used*/ SELECT sum(salary) AS s, count(*) AS c FROM emps WHERE commission > 3 AND commission IS NOT NULL;
/*used*/ SELECT deptno, sum(salary) AS s FROM emps WHERE commission >= 10 GROUP BY deptno HAVING sum(salary) > 5;

-- joins with keys
/*view*/ SELECT e.empid, e.salary, d.deptno FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.salary > 5 GROUP BY e.empid, e.salary, d.deptno;
/*used*/ SELECT e.empid, d.deptno FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.salary > 10 GROUP BY e.empid, d.deptno;
/*used*/ SELECT e.empid FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE d.deptno > 3 AND e.salary > 5 GROUP BY e.empid;
/*view*/ SELECT e.empid, d.deptno, d.locationid, d.name, p.name AS pname FROM emps e JOIN depts d ON e.deptno = d.deptno JOIN dependents p ON p.empid = e.empid;
/*used*/ SELECT p.name FROM dependents p JOIN emps e ON p.empid = e.empid;
/*used*/ SELECT p.name, e.deptno FROM dependents p JOIN emps e ON p.empid = e.empid WHERE e.deptno > 10;
/*used*/ SELECT empid, name FROM dependents;
/*used*/ SELECT d.name, p.name AS pname, l.name AS lname FROM locations l JOIN depts d ON d.locationid = l.locationid JOIN emps e ON e.deptno = d.deptno JOIN dependents p ON e.empid = p.empid WHERE l.locationid > 3 AND d.deptno > 1;
/*not*/ SELECT e.empid FROM emps e JOIN depts d ON e.deptno = d.deptno;
/*view*/ SELECT d.deptno, d.name AS dname, l.name AS lname, sum(e.salary) AS s, count(*) AS c FROM emps e JOIN depts d ON e.deptno = d.deptno JOIN locations l ON d.locationid = l.locationid GROUP BY 1, 2, 3;
/*used*/ SELECT l.name, sum(e.salary) AS s FROM emps e JOIN depts d ON e.deptno = d.deptno JOIN locations l ON d.locationid = l.locationid GROUP BY l.name;
/*used*/ SELECT d.name, sum(e.salary) AS s FROM emps e JOIN depts d ON e.deptno = d.deptno GROUP BY d.name;
/*used*/ SELECT deptno, count(*) AS c FROM emps GROUP BY deptno;
/*used*/ SELECT count(*) AS c FROM emps WHERE deptno = 10;
/*not*/ SELECT d.name, count(*) AS c FROM depts d JOIN locations l ON d.locationid = l.locationid GROUP BY d.name;
/*view*/ SELECT l.locationid, l.name, count(*) AS c FROM depts d JOIN locations l ON d.locationid = l.locationid GROUP BY l.locationid, l.name;
/*used*/ SELECT locationid, count(*) AS c FROM depts GROUP BY locationid;
/*view*/ SELECT e.empid, e.name, d.name AS dname, e.deptno FROM emps e LEFT JOIN depts d ON e.deptno = d.deptno;
/*used*/ SELECT e.empid, d.name FROM emps e LEFT JOIN depts d ON e.deptno = d.deptno WHERE e.empid > 10;
/*used*/ SELECT empid, name FROM emps WHERE deptno = 10;
/*used*/ SELECT e.empid, d.name FROM emps e JOIN depts d ON e.deptno = d.deptno;

-- wide star
/*view*/ SELECT c_city, c_nation, c_region, d_year, d_yearmonthnum, d_yearmonth, d_weeknum, p_mfgr, p_category, p_brand, s_city, s_nation, s_region, quantity, extendedprice, discount, revenue, supplycost, extendedprice * discount AS discounted_price, revenue - supplycost AS net_revenue FROM customer, dates, lineorder, part, supplier WHERE orderdate = d_datekey AND partkey = p_partkey AND suppkey = s_suppkey AND custkey = c_custkey;
/*used*/ SELECT sum(extendedprice * discount) AS revenue FROM lineorder, dates WHERE orderdate = d_datekey AND d_year = 1993 AND discount BETWEEN 1 AND 3 AND quantity < 25;
/*used*/ SELECT sum(extendedprice * discount) AS revenue FROM lineorder, dates WHERE orderdate = d_datekey AND d_yearmonthnum = 199401 AND discount BETWEEN 4 AND 6 AND quantity BETWEEN 26 AND 35;
/*used*/ SELECT sum(extendedprice * discount) AS revenue FROM lineorder, dates WHERE orderdate = d_datekey AND d_weeknum = 6 AND d_year = 1994 AND discount BETWEEN 5 AND 7 AND quantity BETWEEN 26 AND 35;
/*used*/ SELECT sum(revenue) AS r, d_year, p_brand FROM lineorder, dates, part, supplier WHERE orderdate = d_datekey AND partkey = p_partkey AND suppkey = s_suppkey AND p_category = 'MFGR#12' AND s_region = 'AMERICA' GROUP BY d_year, p_brand ORDER BY d_year, p_brand;
/*used*/ SELECT sum(revenue) AS r, d_year, p_brand FROM lineorder, dates, part, supplier WHERE orderdate = d_datekey AND partkey = p_partkey AND suppkey = s_suppkey AND p_brand BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s_region = 'ASIA' GROUP BY d_year, p_brand ORDER BY d_year, p_brand;
/*used*/ SELECT c_nation, s_nation, d_year, sum(revenue) AS r FROM customer, lineorder, supplier, dates WHERE custkey = c_custkey AND suppkey = s_suppkey AND orderdate = d_datekey AND c_region = 'ASIA' AND s_region = 'ASIA' AND d_year >= 1992 AND d_year <= 1997 GROUP BY c_nation, s_nation, d_year ORDER BY d_year, r DESC;
/*used*/ SELECT c_city, s_city, d_year, sum(revenue) AS r FROM customer, lineorder, supplier, dates WHERE custkey = c_custkey AND suppkey = s_suppkey AND orderdate = d_datekey AND (c_city = 'UNITED KI1' OR c_city = 'UNITED KI5') AND (s_city = 'UNITED KI1' OR s_city = 'UNITED KI5') AND d_yearmonth = 'Dec1997' GROUP BY c_city, s_city, d_year ORDER BY d_year, r DESC;
/*used*/ SELECT d_year, c_nation, sum(revenue - supplycost) AS profit FROM dates, customer, supplier, part, lineorder WHERE custkey = c_custkey AND suppkey = s_suppkey AND partkey = p_partkey AND orderdate = d_datekey AND c_region = 'AMERICA' AND s_region = 'AMERICA' AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2') GROUP BY d_year, c_nation ORDER BY d_year, c_nation;
/*used*/ SELECT sum(revenue) AS r, sum(quantity) AS q FROM lineorder;
/*used*/ SELECT c_region, count(*) AS c FROM lineorder JOIN customer ON custkey = c_custkey GROUP BY c_region;

-- two views, and views over the same tables
/*view*/ SELECT deptno, sum(salary) AS s FROM emps GROUP BY deptno;
/*view*/ SELECT empid, count(*) AS c FROM dependents GROUP BY empid;
/*used*/ SELECT a.deptno, a.s, b.c FROM (SELECT deptno, sum(salary) AS s FROM emps GROUP BY deptno) a CROSS JOIN (SELECT empid, count(*) AS c FROM dependents GROUP BY empid) b;
/*view*/ SELECT deptno, name FROM depts WHERE deptno > 3;
/*view*/ SELECT empid, deptno, salary FROM emps WHERE salary > 5;
/*used*/ SELECT e.empid, d.name FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE d.deptno > 3 AND e.salary > 5;
/*used*/ SELECT d.name, sum(e.salary) AS s FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.deptno > 4 AND e.salary > 5 GROUP BY d.name;
/*used*/ SELECT d.name FROM depts d WHERE d.deptno > 3 ORDER BY d.name LIMIT 5;

-- subqueries, set operations, definitions with an order
/*view*/ SELECT deptno, name, salary FROM emps ORDER BY salary;
/*used*/ SELECT name, salary FROM emps WHERE deptno = 5;
/*view*/ SELECT e.empid, e.name FROM emps e WHERE e.deptno IN (SELECT deptno FROM depts WHERE name = 'sales');
/*used*/ SELECT e.name FROM emps e WHERE e.deptno IN (SELECT deptno FROM depts WHERE name = 'sales') AND e.empid > 10;
/*view*/ SELECT name, count(*) AS c FROM emps GROUP BY name UNION ALL SELECT name, count(*) AS c FROM depts GROUP BY name;
/*used*/ SELECT name, count(*) AS c FROM emps GROUP BY name UNION ALL SELECT name, count(*) AS c FROM depts GROUP BY name;
/*used*/ SELECT sum(c) AS s FROM (SELECT name, count(*) AS c FROM depts GROUP BY name UNION ALL SELECT name, count(*) AS c FROM emps GROUP BY name);
/*view*/ SELECT deptno, name, sum(salary) AS s, count(salary) AS c, stddev(commission) AS sd, sum(commission) AS sc, sum(commission * commission) AS sq, count(commission) AS cc FROM emps GROUP BY deptno, name;
/*used*/ SELECT deptno, avg(salary) AS a FROM emps GROUP BY deptno;
/*used*/ SELECT deptno, name, stddev(commission) AS a FROM emps GROUP BY deptno, name;
/*used*/ SELECT deptno, var_pop(commission) AS a FROM emps GROUP BY deptno;
/*used*/ SELECT deptno, name, sum(salary), grouping(name) FROM emps GROUP BY deptno, name WITH ROLLUP;
/*used*/ SELECT deptno, name, s, rank() OVER (PARTITION BY deptno ORDER BY s) AS r FROM (SELECT deptno, name, sum(salary) AS s FROM emps GROUP BY deptno, name);
/*not*/ SELECT deptno, count(DISTINCT salary) AS a FROM emps GROUP BY deptno;
