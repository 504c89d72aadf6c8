-- Spark's statements and what the gateway reads from them: a statement, a semicolon at a line's end, `--> expected`.
-- reads: names, `+` for an alias | writes: … | view: … | temp | function | drops: … | database | probe | use | guess
SELECT * FROM a.b;
--> reads: a.b
SELECT * FROM a AS x, `my db`.`c``d`, LATERAL (SELECT * FROM e) y;
--> reads: a+ my db.c`d e
SELECT (SELECT max(x) FROM b) FROM a WHERE EXISTS (SELECT 1 FROM c) AND x IN (TABLE d);
--> reads: b a c d
SELECT * FROM a UNION ALL (SELECT * FROM b) EXCEPT TABLE c;
--> reads: a b c
WITH t AS (SELECT * FROM t) SELECT * FROM t;
--> reads: t
WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM a) SELECT * FROM b JOIN c USING (x);
--> reads: c
WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b;
--> reads: b
WITH a AS (WITH b AS (SELECT * FROM c) SELECT * FROM b) SELECT * FROM a, b;
--> reads: c b
WITH A AS (SELECT 1) SELECT * FROM a, db.a;
--> reads: a db.a
WITH t AS (SELECT 1) SELECT * FROM (WITH u AS (SELECT * FROM t) SELECT * FROM u) JOIN u;
--> reads: u
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t JOIN s) SELECT * FROM t;
--> reads: s
TABLE mv;
--> reads: mv
WITH c AS (TABLE mv) TABLE c;
--> reads: mv
FROM mv SELECT a LIMIT 5;
--> reads: mv
FROM mv |> WHERE x > 1 |> JOIN b USING (x) |> SELECT x;
--> reads: mv b
SELECT * FROM mv VERSION AS OF 3 x;
--> reads: mv+
SELECT * FROM mv PIVOT (sum(x) FOR y IN (1, 2));
--> reads: mv
SELECT * FROM mv TABLESAMPLE (10 PERCENT) WHERE x = 1;
--> reads: mv
SELECT * FROM mv LATERAL VIEW explode(x) t AS y;
--> reads: mv
SELECT /*+ BROADCAST(mv) */ * FROM a /* mv */ JOIN b ON a.x = b.x -- mv;
--> reads: a b
SELECT a AS table FROM t WHERE from_unixtime(x) > trim(BOTH FROM y);
--> reads: t
SELECT 'FROM mv' FROM t WHERE x = "mv";
--> reads: t
SELECT r'\' FROM t WHERE x = '\'' AND y = 'it''s';
--> reads: t
SELECT * FROM range(10);
-->
VALUES (1), (2);
-->
(SELECT * FROM a) ORDER BY 1;
--> reads: a
SELECT * FROM IDENTIFIER('db.mv');
--> reads: … db.mv … | guess
SELECT * FROM f(TABLE(mv));
--> reads: … mv … | guess
SELECT * FROM ${t};
--> reads: … t … | use | guess
SELECT * FROM a JOIN b JOIN c JOIN d JOIN e JOIN f JOIN g JOIN h JOIN i JOIN j JOIN mv;
--> reads: … mv … | guess
SELECT * FROM a WHERE 1=0;
--> reads: a | probe
SELECT * FROM (SELECT * FROM a WHERE x = 1) t WHERE 1 = 2 AND y = 3;
--> reads: a | probe
SELECT * FROM a WHERE (false);
--> reads: a
SELECT * FROM a x WHERE (1 = 0);
--> reads: a+ | probe
SELECT * FROM STREAM a;
--> reads: … a … | guess
EXPLAIN EXECUTE IMMEDIATE 'INSERT INTO a TABLE b';
--> reads: … b … | writes: … a … | guess
WITH c AS (SELECT * FROM a) SELECT * FROM c LIMIT 0;
--> reads: a | probe
SELECT * FROM a UNION SELECT * FROM b LIMIT 0;
--> reads: a b | probe
SELECT * FROM a WHERE 1=0 UNION ALL SELECT * FROM b;
--> reads: a b
SELECT * FROM (SELECT * FROM a LIMIT 0) JOIN b;
--> reads: a b
SELECT * FROM a WHERE 1=0 OR x = 1;
--> reads: a
SELECT * FROM a WHERE 1=1 LIMIT 10;
--> reads: a
SELECT (SELECT max(x) FROM mv), count(*) FROM a WHERE 1=0;
--> reads: mv a
EXPLAIN EXTENDED SELECT * FROM a;
--> reads: a | probe
EXPLAIN INSERT INTO t SELECT * FROM a;
--> reads: a | probe
EXPLAIN DROP TABLE t;
--> probe
DESCRIBE QUERY SELECT * FROM a;
--> reads: a | probe
DESC EXTENDED db.t;
--> probe
DESCRIBE TABLE t;
--> probe
SHOW TABLES IN db LIKE 'mv*';
--> probe
SHOW CREATE TABLE t;
--> probe
INSERT INTO t SELECT * FROM s;
--> reads: s | writes: t
INSERT OVERWRITE TABLE db.t PARTITION (d = 1) IF NOT EXISTS SELECT * FROM s;
--> reads: s | writes: db.t
INSERT INTO t (a, b) VALUES (1, 'select');
--> writes: t
INSERT INTO t VALUES (1, 'x'), (2, 'mv');
--> writes: t
INSERT INTO t (SELECT * FROM s);
--> reads: s | writes: t
INSERT INTO t TABLE s;
--> reads: s | writes: t
INSERT INTO t FROM s SELECT a;
--> reads: s | writes: t
INSERT INTO t REPLACE WHERE a = 1 SELECT * FROM s;
--> reads: s | writes: t
INSERT INTO t BY NAME SELECT 1 AS a;
--> writes: t
INSERT INTO t WITH c AS (SELECT * FROM s) SELECT * FROM c;
--> reads: s | writes: t
WITH c AS (SELECT * FROM s) INSERT INTO t SELECT * FROM c;
--> reads: s | writes: t
FROM s JOIN z ON s.x = z.x INSERT INTO a SELECT x INSERT OVERWRITE TABLE b PARTITION (d = 1) SELECT y WHERE y > 1;
--> reads: s z | writes: a b
INSERT OVERWRITE LOCAL DIRECTORY '/tmp/x' USING parquet SELECT * FROM s;
--> reads: s | files
INSERT INTO IDENTIFIER('t') SELECT 1;
--> reads: … t … | writes: … t … | guess
UPDATE db.t AS x SET a = (SELECT max(b) FROM s) WHERE a = 1;
--> reads: s | writes: db.t
DELETE FROM t WHERE a IN (SELECT b FROM s);
--> reads: s | writes: t
MERGE INTO t x USING (SELECT * FROM s) y ON x.a = y.a WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *;
--> reads: s | writes: t
MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = 1;
--> reads: s | writes: t
LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE db.t PARTITION (a = 1);
--> writes: db.t
TRUNCATE TABLE t PARTITION (a = 1);
--> writes: t
MSCK REPAIR TABLE t SYNC PARTITIONS;
--> writes: t
REPAIR TABLE t;
--> writes: t
COPY INTO t FROM '/x' FILEFORMAT = CSV;
--> writes: t
VACUUM db.t RETAIN 1 HOURS;
--> writes: db.t
OPTIMIZE t ZORDER BY (a);
--> writes: t
RESTORE TABLE t TO VERSION AS OF 1;
--> writes: t
CREATE TABLE t USING parquet PARTITIONED BY (d) COMMENT 'AS SELECT' AS SELECT * FROM s;
--> reads: s | writes: t
CREATE TABLE t STORED AS PARQUET TBLPROPERTIES ('a' = 'b') AS WITH c AS (SELECT * FROM s) SELECT * FROM c;
--> reads: s | writes: t
CREATE OR REPLACE TABLE t USING delta (SELECT * FROM s);
--> reads: s | writes: t
REPLACE TABLE t AS SELECT * FROM s;
--> reads: s | writes: t
CREATE EXTERNAL TABLE t (a INT) ROW FORMAT SERDE 'x' WITH SERDEPROPERTIES ('a' = 'b') STORED AS TEXTFILE LOCATION '/x';
--> writes: t
CREATE TABLE IF NOT EXISTS t LIKE s;
--> writes: t
ALTER TABLE db.t RENAME TO u;
--> writes: db.t db.u
ALTER TABLE t RENAME TO db.u;
--> writes: t db.u
ALTER TABLE t PARTITION (a = 1) RENAME TO PARTITION (a = 2);
--> writes: t
ALTER TABLE t ADD COLUMNS (a INT);
--> writes: t
ALTER DATABASE d SET DBPROPERTIES ('a' = 'b');
--> probe
ALTER VIEW v RENAME TO w;
--> writes: v w
ALTER VIEW v AS SELECT * FROM s;
--> reads: s | writes: v | view: v
CREATE OR REPLACE GLOBAL TEMPORARY VIEW v (a COMMENT 'as', b) AS SELECT * FROM s;
--> reads: s | writes: v | view: v | temp
CREATE VIEW IF NOT EXISTS db.v COMMENT 'x' TBLPROPERTIES ('a' = 'b') WITH SCHEMA BINDING AS FROM s SELECT a;
--> reads: s | writes: db.v | view: db.v
CREATE TEMP VIEW v USING parquet OPTIONS (path '/x');
--> writes: v | view: v | temp
CREATE TEMPORARY  TABLE v(a INT, b STRING)using parquet;
--> writes: v | view: v | temp
CREATE TEMPORARY FUNCTION f(x INT) RETURNS TABLE (a INT) RETURN SELECT * FROM s;
--> reads: s | view: f | temp | function | probe
CREATE FUNCTION f(x INT) RETURNS INT RETURN x + (SELECT max(a) FROM s);
--> reads: s | view: f | function | probe
CREATE FUNCTION f AS 'com.example.F' USING JAR '/x.jar';
--> view: f | function | probe
CREATE DATABASE d;
--> probe
DROP TABLE IF EXISTS db.t PURGE;
--> writes: db.t | drops: db.t
DROP VIEW v;
--> writes: v | drops: v
DROP DATABASE d CASCADE;
--> writes: d | drops: d | database
DROP FUNCTION f;
--> probe
CACHE LAZY TABLE x OPTIONS ('storageLevel' 'DISK_ONLY') AS SELECT * FROM s;
--> reads: s | writes: x | view: x | temp
CACHE TABLE db.x;
--> reads: db.x
UNCACHE TABLE x;
--> probe
REFRESH TABLE x;
--> probe
REFRESH materialized;
--> probe
ANALYZE TABLE db.t COMPUTE STATISTICS;
--> reads: db.t
USE db;
--> probe | use
USE CATALOG c;
--> probe | use
SET CATALOG c;
--> probe | use
SET spark.sql.shuffle.partitions=1;
--> probe
SET spark.sql.defaultCatalog=x;
--> probe | use
SET VAR x = (SELECT max(a) FROM mv);
--> reads: mv
DECLARE VARIABLE x INT DEFAULT (SELECT max(a) FROM mv);
--> reads: mv
ADD JAR /tmp/it's.jar;
--> probe
CALL cat.system.rollback('db.mv');
--> reads: … db.mv … | writes: … db.mv … | guess
EXECUTE IMMEDIATE 'USE db';
--> reads: … db … | writes: … db … | use | guess
BEGIN SELECT * FROM mv; END;
--> reads: … mv … | writes: … mv … | guess
SELECT * FROM a; DROP TABLE mv;
--> reads: … mv … | guess
DROP TABLE a; DROP TABLE mv;
--> reads: … mv … | writes: … mv … | guess
FROBNICATE db.mv;
--> reads: … db.mv … | writes: … db.mv … | guess
-- Double-quoted names (spark.sql.ansi.doubleQuotedIdentifiers). Without this setting Spark refuses all of these.
DROP VIEW sales."mv";
--> writes: sales.mv | drops: sales.mv
DROP VIEW IF EXISTS "sales" . /* a view */ "mv";
--> writes: sales.mv | drops: sales.mv
DROP TABLE "it""s".`a``b`."c`d";
--> writes: it"s.a`b.c`d | drops: it"s.a`b.c`d
DROP DATABASE "d" CASCADE;
--> writes: d | drops: d | database
ALTER VIEW sales."mv" AS SELECT 1;
--> writes: sales.mv | view: sales.mv
ALTER VIEW sales."mv" RENAME TO sales.z;
--> writes: sales.mv sales.z
ALTER TABLE a.t RENAME TO b."u";
--> writes: a.t b.u
ALTER TABLE a.t RENAME TO "u";
--> writes: a.t a.u
ALTER TABLE sales."orders" DROP PARTITION (a = 1);
--> writes: sales.orders
CREATE OR REPLACE VIEW sales."mv" AS SELECT * FROM s;
--> reads: s | writes: sales.mv | view: sales.mv
CREATE TABLE sales."t" SHALLOW CLONE sales."s";
--> reads: sales.s | writes: sales.t
TRUNCATE TABLE spark_catalog.sales."orders";
--> writes: spark_catalog.sales.orders
MSCK REPAIR TABLE sales."orders";
--> writes: sales.orders
LOAD DATA INPATH "/x" INTO TABLE sales."orders";
--> writes: sales.orders | files
CREATE OR REPLACE TABLE x.t USING delta LOCATION '/x' AS SELECT a FROM s;
--> reads: s | writes: x.t | files
CREATE TABLE x.t USING parquet OPTIONS (path '/x') AS SELECT 1 AS a;
--> writes: x.t | files
CREATE TABLE x.t (location INT) USING parquet LOCATION '/x';
--> writes: x.t
CACHE TABLE sales."mv";
--> reads: sales.mv
ANALYZE TABLE "sales"."mv" COMPUTE STATISTICS;
--> reads: sales.mv
INSERT INTO sales."orders" VALUES (1, "x");
--> writes: sales.orders
INSERT INTO "sales"."orders" SELECT * FROM s;
--> reads: s | writes: sales.orders
DELETE FROM sales."orders" WHERE a = 1;
--> reads: … sales.orders … | writes: … sales.orders … | guess
MERGE INTO t USING "sales".mv ON true WHEN MATCHED THEN DELETE;
--> reads: … sales.mv … | writes: … sales.mv … | guess
SELECT * FROM sales."mv";
--> reads: … sales.mv … | guess
SELECT * FROM "sales" . "mv" JOIN b USING (x);
--> reads: … sales.mv … | guess
EXECUTE IMMEDIATE 'TRUNCATE TABLE sales."orders"';
--> reads: … sales.orders … | writes: … sales.orders … | guess
DROP TABLE db.;
--> reads: … db … | writes: … db … | guess
DROP TABLE db.'t';
--> reads: … t … | writes: … t … | guess
-- A part of a name may be IDENTIFIER('…').
TRUNCATE TABLE sales.IDENTIFIER('orders');
--> reads: … sales.orders … | writes: … sales.orders … | guess
SELECT * FROM IDENTIFIER('sales') . mv;
--> reads: … sales.mv … | guess
ALTER TABLE t RENAME TO IDENTIFIER('db.u');
--> reads: … db.u … | writes: … db.u … | guess
ANALYZE TABLE IDENTIFIER('db.' || 't') COMPUTE STATISTICS;
--> reads: … t … | writes: … t … | guess
-- Queries in parentheses, without AS.
CREATE TABLE t USING parquet (TABLE mv);
--> reads: mv | writes: t
CREATE OR REPLACE TABLE t USING parquet ((FROM mv SELECT a));
--> reads: mv | writes: t
REPLACE TABLE t USING delta OPTIONS (table 'x') COMMENT 'BY' (FROM mv |> WHERE a > 1);
--> reads: mv | writes: t
CREATE TABLE t (TABLE sales.mv);
--> reads: sales.mv | writes: t
CREATE TABLE t (FROM date, mv SELECT *);
--> reads: date mv | writes: t
CREATE TABLE t (FROM date day LEFT JOIN mv ON true SELECT *);
--> reads: date+ mv | writes: t
CREATE TABLE t (values DECIMAL(1) UNION TABLE mv);
--> reads: … mv … | writes: … t … | guess
CREATE TABLE t (VALUES (1) |> CROSS JOIN mv);
--> reads: mv | writes: t
CREATE TABLE t USING parquet (MAP a USING 'cat' FROM mv);
--> reads: … mv … | writes: … t … | guess
CREATE TABLE t PARTITIONED BY (table) (SELECT * FROM mv);
--> reads: mv | writes: t
CREATE TABLE t (a INT) ROW FORMAT SERDE 'x' WITH SERDEPROPERTIES ('a' = 'b') (TABLE a) UNION ALL TABLE b;
--> reads: a b | writes: t
CREATE TABLE t (table INT, from STRING);
--> writes: t
CREATE TABLE t (values DECIMAL(9, 2) NOT NULL, map MAP<INT, ARRAY<INT>> COMMENT 'x', with INTERVAL DAY TO SECOND) USING parquet;
--> writes: t
CREATE TABLE t (a INT) USING jdbc OPTIONS (table 'x') PARTITIONED BY (table, from) CLUSTERED BY (values) INTO 2 BUCKETS;
--> writes: t
CREATE TABLE t SKEWED BY (a) ON ((1), (2)) STORED AS DIRECTORIES;
--> writes: t
CREATE VIEW v (table, from) TBLPROPERTIES ('a' = 'b') AS (FROM mv);
--> reads: mv | writes: v | view: v
CREATE TEMP VIEW v (table INT) USING parquet;
--> writes: v | view: v | temp
ALTER VIEW v (TABLE mv);
--> reads: mv | writes: v | view: v
CACHE TABLE x OPTIONS ('a' 'b') (TABLE mv);
--> reads: mv | writes: x | view: x | temp
INSERT INTO t (FROM mv SELECT *);
--> reads: mv | writes: t
INSERT INTO t (TABLE date);
--> reads: date | writes: t
INSERT INTO t (VALUES (1)) UNION ALL TABLE mv;
--> reads: mv | writes: t
INSERT INTO t PARTITION (d = 1) (table, from) (TABLE mv);
--> reads: mv | writes: t
INSERT INTO t (values, select) VALUES (1, 2);
--> writes: t
INSERT OVERWRITE DIRECTORY '/x' USING parquet OPTIONS (table 'x') (TABLE mv);
--> reads: mv | files
-- Pipe operators add relations to a query that reads none.
INSERT INTO t VALUES (1) |> CROSS JOIN mv;
--> reads: mv | writes: t
INSERT INTO t VALUES (1) |> AS a |> NATURAL JOIN LATERAL mv;
--> reads: … mv … | writes: … t … | guess
INSERT INTO t VALUES (1) |> INTERSECT (VALUES (1)) |> EXTEND (TABLE mv) AS m;
--> reads: mv | writes: t
-- Comments, hints, quotes and keywords, as Spark's lexer reads them.
SELECT * FROM /* /*+ */ mv /* */;
--> reads: mv
SELECT /*+ BROADCAST(b), REPARTITION(3) */ * FROM mv b;
--> reads: mv+
SELECT /*+ BROADCAST(b) -- */
*/ * FROM mv b;
--> reads: mv+
SELECT /*+ x('*/') */ * FROM mv;
--> reads: mv
SELECT r'\', ' FROM a, ' FROM mv;
--> reads: mv
SELECT 'it''s', "it's -- " FROM mv QUALIFY 1 > 0;
--> reads: mv
uſe s;
--> use | probe
ınſert ınto t VALUES (1);
--> writes: t
INSERT INTO t VALUES ((ſelect 1 from mv));
--> reads: mv | writes: t
ſelect * from mv ſort by a;
--> reads: mv
-- Case sensitivity is a setting.
WITH MV AS (SELECT 1) SELECT * FROM MV;
-->
WITH MV AS (SELECT 1) SELECT * FROM mv x JOIN MV y;
--> reads: mv+
WITH MV AS (SELECT 1) SELECT * FROM (SELECT * FROM Mv WHERE EXISTS (SELECT 1 FROM mV)) QUALIFY 1 > 0;
--> reads: Mv mV
-- Texts within texts.
EXECUTE IMMEDIATE 'SELECT n FROM\ns.mv';
--> reads: … s.mv … | writes: … s.mv … | guess
EXECUTE IMMEDIATE 'INSERT INTO\ts.t VALUES (1)';
--> reads: … s.t … | writes: … s.t … | guess
EXECUTE IMMEDIATE 'SELECT n FROM s./**/mv';
--> reads: … s.mv … | guess
BEGIN EXECUTE IMMEDIATE 'SELECT n ' "FROM\ns.m" 'v'; END;
--> reads: … s.mv … | writes: … s.mv … | guess
EXECUTE IMMEDIATE 'U\SE s';
--> reads: … s … | writes: … s … | use | guess
EXECUTE IMMEDIATE concat('US', 'E s');
--> reads: … s … | writes: … s … | use | guess
EXPLAIN EXECUTE IMMEDIATE 'INSERT INTO\ts.t SELECT 1';
--> reads: … s.t … | writes: … s.t … | guess
-- A variable may hold any words, even the end of a comment.
/* ${x} */ SELECT * FROM t;
--> reads: … t … | writes: … t … | use | guess
FROM t ${x};
--> reads: … t … | writes: … t … | use | guess
/* ${x} */ SHOW TABLES;
--> reads: … TABLES … | writes: … TABLES … | use | guess
SET CAT${x}ALOG lake;
--> reads: … lake … | writes: … lake … | use | guess
SET V${x}AR a = (SELECT b FROM t);
--> reads: … t … | writes: … t … | use | guess
DECLARE a INT DEF${x}AULT (SELECT b FROM t);
--> reads: … t … | writes: … t … | use | guess
EXPLAIN ${x} 'INSERT INTO t SELECT 1';
--> reads: … t … | writes: … t … | use | guess
EXPLAIN SELECT * FROM ${t};
--> reads: … t … | probe | guess
SHOW ${x};
--> probe
SELECT ${x} FROM t;
--> reads: … t … | use | guess
MERGE INTO t USING values x ON a = b WHEN MATCHED THEN DELETE;
--> reads: … values … | writes: … t … | guess
SELECT * FROM f(TABLE(`1`));
--> reads: … 1 … | guess
SELECT a, from(b);
--> reads: … b … | guess
SELECT DISTINCT from(b);
--> reads: … b … | guess
SELECT * FROM t VERSION AS OF 1, JOIN u;
--> reads: … JOIN … | guess
SELECT * FROM t VERSION AS OF 1, LEFT JOIN u ON true;
--> reads: … LEFT … | guess
FROM LATERAL(VALUES(), (date));
--> reads: … date … | guess
SELECT a, left(b, 1) FROM t VERSION AS OF 1 x;
--> reads: t+
VALUES (f(from(((b)))));
--> reads: … b … | guess
SELECT a FROM values t;
--> reads: … values … | guess
SELECT percentile(a, 5, (SELECT true FROM mv)), percentile_cont(0) WITHIN GROUP (ORDER BY a) FROM t;
--> reads: … mv … | guess
-- Relations that sqlglot leaves out, or takes for others.
SELECT t1 IN (SELECT a FROM t2) FROM d |> AGGREGATE (*) GROUP BY LIMIT;
--> reads: … t2 … | guess
FROM t |> SELECT a UNION SELECT .5e3 FROM 1a;
--> reads: … 1a … | guess
INSERT INTO mv SELECT x FROM SELECT;
--> reads: … SELECT … | writes: … mv … | guess
REPLACE TABLE t AS ((FROM select UNION FROM q));
--> reads: … select … | writes: … t … | guess
SELECT (1 / (tinyint)) FROM LATERAL(parquet(), (null));
--> reads: … LATERAL … | guess
FROM LATERAL(a in('2'));
--> reads: … LATERAL … | guess
SELECT (FROM u, LATERAL((mv)));
--> reads: … LATERAL … | guess
SELECT (SELECT * FROM(emp), s);
--> reads: … FROM … | guess
SELECT (SELECT * FROM (SELECT 1 a) x) FROM u, LATERAL (SELECT 1) y;
--> reads: u
FROM STREAM "/*t";
--> reads: … /*t … | guess
DELETE FROM "/*t";
--> reads: … /*t … | writes: … /*t … | guess
-- A function that an option calls may read anything.
REPLACE TABLE t USING delta OPTIONS (s (`f`())) AS FROM mv;
--> reads: … f … | writes: … f … | guess
-- A name that is put together.
DROP TEMPORARY FUNCTION IDENTIFIER('a' || 'b');
--> reads: … a … | writes: … a … | guess
DROP TEMPORARY FUNCTION IF EXISTS a;
--> probe
-- A second FROM is a name; so is LATERAL before UNION, and VALUES before a word.
SELECT (1) UNION FROM (a) SELECT DISTINCT * FROM(emp) LIMIT '"';
--> reads: … emp … | guess
WITH q AS (SELECT b) FROM ((t)) SELECT DISTINCT * FROM(u);
--> reads: … u … | guess
FROM t SELECT a UNION SELECT b FROM u;
--> reads: t u
FROM LATERAL UNION (SELECT (*) c);
--> reads: … LATERAL … | guess
SELECT a FROM (values VERSION AS OF 1) explode(b);
--> reads: … values … | guess
EXECUTE IMMEDIATE 'BEGIN ADD JAR /tmp/it\'s.jar; INSERT INTO t SELECT 1; END';
--> reads: … t … | writes: … t … | use | guess
SELECT WHERE FALSE WINDOW w AS (PARTITION BY (FROM t));
--> reads: t
FROM VALUES (1), (SET a);
--> reads: … SET … | guess
DELETE FROM /* /* x */ */ "/*t";
--> reads: … /*t … | writes: … /*t … | guess
FROM VALUES (1), (`a-b`.c AS a);
--> reads: … a-b.c … | guess
FROM t, VALUES (1), (CASE a WHEN 1 THEN 2 END), (t.a), (-a);
--> reads: t
FROM VALUES (1), (null string);
--> reads: … null … | guess
SELECT * FROM WHERE f();
--> reads: … WHERE … | guess
SELECT a, offset FROM t;
--> reads: t
SELECT a FROM t, select;
--> reads: … select … | guess
