-- In the manner of Calcite's tests of rewriting by materialized views: employees, departments and what belongs to them.
/*table*/ CREATE TABLE emps (empid INT, deptno INT, name STRING, salary DECIMAL(10,2), commission INT) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (empid); NOT NULL (deptno); FOREIGN KEY (deptno) REFERENCES depts (deptno)');
/*table*/ CREATE TABLE depts (deptno INT, name STRING) USING parquet TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (deptno)');
/*table*/ CREATE TABLE dependents (empid INT, name STRING) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (empid); FOREIGN KEY (empid) REFERENCES emps (empid)');
/*table*/ CREATE TABLE locations (locationid INT, deptno INT, state STRING) USING parquet
  TBLPROPERTIES ('freshgate.keys' = 'PRIMARY KEY (locationid); NOT NULL (deptno); FOREIGN KEY (deptno) REFERENCES depts (deptno)');
/*table*/ CREATE TABLE events (eventid INT, ts TIMESTAMP, d DATE, kind INT) USING parquet;

-- filters
/*view*/ SELECT empid, deptno, name, salary, commission FROM emps;
/*used*/ SELECT empid + 1 AS e FROM emps WHERE deptno = 10;
/*used*/ SELECT name FROM emps WHERE deptno IN (10, 20) OR salary > 100;
/*view*/ SELECT empid, deptno, salary FROM emps WHERE deptno = 10;
/*used*/ SELECT empid + 1 AS e FROM emps WHERE deptno = 10;
/*used*/ SELECT empid FROM emps WHERE deptno = 10 AND salary > 100;
/*not*/ SELECT empid FROM emps WHERE deptno = 20;
/*not*/ SELECT empid, name FROM emps WHERE deptno = 10;
/*not*/ SELECT empid FROM emps;
/*view*/ SELECT deptno, empid, name FROM emps WHERE deptno > 10 OR empid > 100;
/*used*/ SELECT name FROM emps WHERE deptno > 30;
/*used*/ SELECT name FROM emps WHERE deptno > 30 OR empid > 200;
/*used*/ SELECT name FROM emps WHERE (deptno > 10 OR empid > 100) AND name LIKE 'a%';
/*view*/ SELECT name, deptno + 1 AS d1, empid FROM emps WHERE empid BETWEEN 0 AND 1000;
/*used*/ SELECT name FROM emps WHERE deptno + 1 = 11 AND empid BETWEEN 10 AND 20;
/*used*/ SELECT deptno + 1 AS x FROM emps WHERE empid = 7;
/*used*/ SELECT name, empid FROM emps WHERE empid > 5 AND empid < 1000;
/*view*/ SELECT deptno, name FROM emps WHERE deptno <> 10;
/*used*/ SELECT name FROM emps WHERE deptno > 10;

-- roll-up
/*view*/ SELECT empid, deptno FROM emps GROUP BY empid, deptno;
/*used*/ SELECT deptno FROM emps GROUP BY deptno;
/*used*/ SELECT DISTINCT deptno FROM emps;
/*used*/ SELECT count(DISTINCT deptno) AS c FROM emps;
/*view*/ SELECT name, deptno, count(*) AS c, sum(empid) AS s, min(empid) AS mi FROM emps GROUP BY name, deptno;
/*used*/ SELECT deptno, count(*) AS c, sum(empid) AS s FROM emps GROUP BY deptno;
/*used*/ SELECT deptno, count(*) FROM emps WHERE deptno > 10 GROUP BY deptno HAVING sum(empid) > 3;
/*used*/ SELECT count(*) + 1 AS c, sum(empid) + 2 AS s FROM emps;
/*used*/ SELECT deptno + 1 AS d, sum(empid) + 1 AS s FROM emps GROUP BY deptno + 1;
/*used*/ SELECT name, deptno, count(*) AS c FROM emps GROUP BY GROUPING SETS ((name, deptno), (name), ());
/*used*/ SELECT deptno, sum(empid) AS s FROM emps GROUP BY ROLLUP (deptno);
/*used*/ SELECT name, deptno, min(empid) AS s FROM emps GROUP BY CUBE (name, deptno);
/*not*/ SELECT deptno, count(DISTINCT empid) AS c FROM emps GROUP BY deptno;
/*not*/ SELECT commission, count(*) AS c FROM emps GROUP BY commission;
/*view*/ SELECT deptno, sum(salary) AS s, sum(empid) AS e FROM emps WHERE deptno >= 10 GROUP BY deptno;
/*used*/ SELECT deptno, sum(salary) AS s FROM emps WHERE deptno > 20 GROUP BY deptno;
/*used*/ SELECT sum(salary) AS s FROM emps WHERE deptno >= 10;
/*not*/ SELECT deptno, sum(salary) AS s FROM emps WHERE deptno >= 5 AND name = 'x' GROUP BY deptno;

-- union of the view and the rest of the rows
/*view*/ SELECT deptno, empid, salary FROM emps WHERE empid > 300;
/*used*/ SELECT deptno, empid, salary FROM emps WHERE empid > 200;
/*used*/ SELECT deptno, sum(salary) AS s FROM emps WHERE empid > 200 GROUP BY deptno;
/*view*/ SELECT deptno, count(*) AS c, sum(salary) AS s, max(empid) AS m FROM emps WHERE commission > 500 GROUP BY deptno;
/*used*/ SELECT deptno, count(*) AS c, sum(salary) AS s FROM emps WHERE commission > 200 GROUP BY deptno;
/*used*/ SELECT deptno, max(empid) AS m FROM emps GROUP BY deptno;
/*used*/ SELECT count(*) AS c FROM emps WHERE commission > 100;
/*view*/ SELECT e.empid, e.deptno, e.salary, d.name FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.empid > 10;
/*used*/ SELECT e.empid, d.name FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.empid > 5;
/*used*/ SELECT d.name, sum(e.salary) AS s FROM emps e JOIN depts d ON e.deptno = d.deptno WHERE e.empid > 5 GROUP BY d.name;

-- joins
/*view*/ SELECT empid, deptno FROM emps;
/*used*/ SELECT e.empid, d.name FROM emps e JOIN depts d ON e.deptno = d.deptno;
/*used*/ SELECT * FROM (SELECT empid, deptno FROM emps WHERE empid > 3) e JOIN depts USING (deptno);
/*view*/ SELECT emps.empid, emps.deptno, depts.name AS dname FROM emps JOIN depts ON emps.deptno = depts.deptno;
/*used*/ SELECT empid, dname FROM (SELECT e.empid, d.name AS dname FROM depts d JOIN emps e ON d.deptno = e.deptno);
/*used*/ SELECT empid FROM emps WHERE deptno > 10;
/*used*/ SELECT empid, deptno FROM emps;
/*used*/ SELECT e.empid, l.state FROM emps e JOIN depts d ON e.deptno = d.deptno JOIN locations l ON l.deptno = d.deptno;
/*used*/ SELECT e.empid, p.name FROM emps e JOIN depts d ON e.deptno = d.deptno JOIN dependents p ON p.empid = e.empid WHERE d.deptno > 10;
/*not*/ SELECT d.name FROM depts d;
/*view*/ SELECT e.empid, d.deptno, d.name FROM emps e JOIN depts d ON e.deptno = d.deptno JOIN dependents p ON p.empid = e.empid;
/*used*/ SELECT p.empid FROM dependents p;
/*used*/ SELECT p.empid, e.deptno FROM dependents p JOIN emps e ON p.empid = e.empid;
/*not*/ SELECT e.empid FROM emps e JOIN depts d ON e.deptno = d.deptno;
/*view*/ SELECT l.locationid, d.deptno, d.name, e.empid FROM locations l JOIN depts d ON l.deptno = d.deptno JOIN emps e ON e.deptno = d.deptno;
/*used*/ SELECT e.empid, l.locationid FROM emps e JOIN locations l ON e.deptno = l.deptno;
/*not*/ SELECT empid FROM emps;

-- joins and groups
/*view*/ SELECT d.deptno, d.name, e.empid, sum(e.salary) AS s, count(*) AS c FROM emps e JOIN depts d ON e.deptno = d.deptno GROUP BY d.deptno, d.name, e.empid;
/*used*/ SELECT d.name, sum(e.salary) AS s FROM depts d JOIN emps e ON e.deptno = d.deptno WHERE e.empid > 10 GROUP BY d.name;
/*used*/ SELECT deptno, sum(salary) AS s FROM emps GROUP BY deptno;
/*used*/ SELECT empid, count(*) AS c FROM emps WHERE deptno = 10 GROUP BY empid;
/*used*/ SELECT d.name, p.name AS p, count(*) AS c FROM emps e JOIN depts d ON e.deptno = d.deptno JOIN dependents p ON p.empid = e.empid GROUP BY d.name, p.name;
/*view*/ SELECT deptno, avg(salary) AS a, sum(salary) AS s, count(salary) AS c FROM emps GROUP BY deptno, name;
/*used*/ SELECT avg(salary) AS a FROM emps GROUP BY deptno;
/*view*/ SELECT deptno, count(DISTINCT empid) AS c FROM emps GROUP BY deptno;
/*used*/ SELECT deptno, count(DISTINCT empid) AS n FROM emps GROUP BY deptno;
/*not*/ SELECT count(DISTINCT empid) AS n FROM emps;

-- times
/*view*/ SELECT date_trunc('hour', ts) AS h, kind, count(*) AS c FROM events GROUP BY 1, 2;
/*used*/ SELECT date_trunc('day', ts) AS d, count(*) AS c FROM events GROUP BY 1;
/*used*/ SELECT date_trunc('month', ts) AS d, kind FROM events GROUP BY date_trunc('month', ts), kind;
/*used*/ SELECT kind, count(*) AS c FROM events WHERE ts >= TIMESTAMP '2024-01-01 00:00:00' AND ts < TIMESTAMP '2025-01-01 00:00:00' GROUP BY kind;
/*used*/ SELECT year(ts) AS y, count(*) AS c FROM events GROUP BY year(ts);
/*not*/ SELECT date_trunc('minute', ts) AS d, count(*) AS c FROM events GROUP BY 1;

-- subqueries and set operations
/*view*/ SELECT empid, deptno, name FROM emps WHERE deptno IN (SELECT deptno FROM depts);
/*used*/ SELECT empid FROM emps WHERE deptno IN (SELECT deptno FROM depts) AND empid > 10;
/*used*/ SELECT empid FROM emps e WHERE EXISTS (SELECT 1 FROM depts d WHERE d.deptno = e.deptno);
/*view*/ SELECT deptno FROM emps UNION ALL SELECT deptno FROM depts;
/*used*/ SELECT deptno FROM depts UNION ALL SELECT deptno FROM emps;
/*used*/ SELECT deptno FROM emps UNION ALL SELECT deptno FROM depts;
/*view*/ SELECT deptno, sum(empid) AS s FROM emps GROUP BY deptno;
/*used*/ SELECT a.deptno, a.s, d.name FROM (SELECT deptno, sum(empid) AS s FROM emps GROUP BY deptno) a LEFT JOIN depts d ON a.deptno = d.deptno;
/*used*/ SELECT deptno, sum(empid) AS s FROM emps GROUP BY deptno UNION ALL SELECT deptno, 0 FROM depts;
/*used*/ SELECT max(s) AS m FROM (SELECT deptno, sum(empid) AS s FROM emps GROUP BY deptno);
