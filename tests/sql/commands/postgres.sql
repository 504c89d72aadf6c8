-- PostgreSQL.
CREATE MATERIALIZED VIEW rental_by_category AS SELECT c.name AS category, sum(p.amount) AS total FROM payment p JOIN category c ON p.id = c.id GROUP BY c.name ORDER BY sum(p.amount) DESC WITH NO DATA;
--> CreateMaterializedView name=rental_by_category query='SELECT c.name AS category, sum(p.amount) AS total FROM payment p JOIN category c ON p.id = c.id GROUP BY c.name ORDER BY sum(p.amount) DESC' deferred=True
CREATE MATERIALIZED VIEW IF NOT EXISTS s.mv (a, b) AS SELECT 1, 2 WITH DATA;
--> CreateMaterializedView name=s.mv query='SELECT 1, 2' columns=a,b if_not_exists=True
CREATE MATERIALIZED VIEW mv WITH (fillfactor = 70, autovacuum_enabled, toast.autovacuum_enabled = false) TABLESPACE fast AS (SELECT 1 AS a) WITH NO DATA;
--> CreateMaterializedView name=mv query='(SELECT 1 AS a)' properties=fillfactor=70,autovacuum_enabled=true,toast.autovacuum_enabled=false,tablespace=fast deferred=True
CREATE MATERIALIZED VIEW mv WITH NO DATA AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' deferred=True
CREATE MATERIALIZED VIEW mv WITH DATA AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a'
CREATE MATERIALIZED VIEW mv AS SELECT * FROM (SELECT 1 AS a) /* WITH NO DATA */ with /* not */ no data -- end
--> CreateMaterializedView name=mv query='SELECT * FROM (SELECT 1 AS a)' deferred=True
CREATE MATERIALIZED VIEW mv AS SELECT a AS `with`, 'WITH NO DATA' FROM t;
--> CreateMaterializedView name=mv query="SELECT a AS `with`, 'WITH NO DATA' FROM t"
CREATE MATERIALIZED VIEW mv AS SELECT * FROM t WHERE x IN (SELECT with data);
--> CreateMaterializedView name=mv query='SELECT * FROM t WHERE x IN (SELECT with data)'
CREATE MATERIALIZED VIEW mv AS SELECT a FROM t WITH NO `data`;
--> CreateMaterializedView name=mv query='SELECT a FROM t WITH NO `data`'
CREATE MATERIALIZED VIEW mv WITH DATA AS SELECT 1 AS a WITH NO DATA;
--> SyntaxProblem expected one clause for the data, which WITH DATA already sets, found WITH (line 1, column 56)
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS a WITH NO DATA WITH NO DATA;
--> SyntaxProblem expected WITH NO DATA only once, found WITH (line 1, column 46)
CREATE MATERIALIZED VIEW mv BUILD IMMEDIATE AS SELECT 1 AS a WITH NO DATA;
--> SyntaxProblem BUILD IMMEDIATE and WITH NO DATA contradict each other (line 1, column 62)
CREATE MATERIALIZED VIEW mv BUILD DEFERRED AS SELECT 1 AS a WITH NO DATA;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' deferred=True
CREATE MATERIALIZED VIEW mv AS WITH NO DATA;
--> SyntaxProblem expected a query after AS (SELECT, WITH, FROM, VALUES, TABLE or a parenthesis), found WITH (line 1, column 32)
CREATE MATERIALIZED VIEW mv USING heap AS SELECT 1 AS a;
--> SyntaxProblem expected PARQUET, ORC, ICEBERG or DELTA after USING, found heap (line 1, column 35)
CREATE MATERIALIZED VIEW mv WITH (fillfactr = 70) AS SELECT 1 AS a;
--> SyntaxProblem illegal key:fillfactr; did you mean fillfactor? (line 1, column 35)
REFRESH MATERIALIZED VIEW CONCURRENTLY s.mv;
--> RefreshMaterializedView name=s.mv
REFRESH MATERIALIZED VIEW concurrently;
--> RefreshMaterializedView name=concurrently
REFRESH MATERIALIZED VIEW mv WITH DATA;
--> RefreshMaterializedView name=mv
REFRESH MATERIALIZED VIEW mv WITH NO DATA;
--> RefreshMaterializedView name=mv with_data=False
REFRESH MATERIALIZED VIEW CONCURRENTLY s.mv WITH NO DATA;
--> SyntaxProblem CONCURRENTLY and WITH NO DATA options cannot be used together (line 1, column 57)
REFRESH MATERIALIZED VIEW mv WITH NO DATA CONCURRENTLY;
--> SyntaxProblem CONCURRENTLY and WITH NO DATA options cannot be used together (line 1, column 43)
REFRESH MATERIALIZED VIEW mv CONCURRENTLY;
--> SyntaxProblem expected CONCURRENTLY before the view's name, found CONCURRENTLY (line 1, column 30)
REFRESH MATERIALIZED VIEW mv WITH NO DATA COMPLETE;
--> SyntaxProblem expected no other option with WITH NO DATA, which empties the view, found the end of the statement (line 1, column 51)
REFRESH MATERIALIZED VIEW mv WITH NO;
--> SyntaxProblem expected MODE, found the end of the statement (line 1, column 37)
ALTER MATERIALIZED VIEW foo RENAME TO bar;
--> AlterMaterializedView name=foo change=Rename name=bar
ALTER MATERIALIZED VIEW IF EXISTS s.foo RENAME TO `to`;
--> AlterMaterializedView name=s.foo change=Rename name=to if_exists=True
ALTER MATERIALIZED VIEW foo RENAME;
--> SyntaxProblem expected the view's new name, found the end of the statement (line 1, column 35)
ALTER MATERIALIZED VIEW foo RENAME COLUMN a TO b;
--> SyntaxProblem RENAME COLUMN is not supported: a view's columns come from its definition; use CREATE OR REPLACE (line 1, column 36)
ALTER MATERIALIZED VIEW foo OWNER TO alice;
--> AlterMaterializedView name=foo change=SetOwner owner='alice'
ALTER MATERIALIZED VIEW foo OWNER TO "Alice Liddell";
--> AlterMaterializedView name=foo change=SetOwner owner='Alice Liddell'
ALTER MATERIALIZED VIEW foo OWNER TO CURRENT_USER;
--> SyntaxProblem expected the name of a user, found CURRENT_USER (line 1, column 38)
ALTER MATERIALIZED VIEW foo OWNER TO '';
--> SyntaxProblem the owner is empty: name a user (line 1, column 38)
ALTER MATERIALIZED VIEW foo SET (fillfactor = 70, autovacuum_enabled = false);
--> AlterMaterializedView name=foo change=SetProperties properties=fillfactor=70,autovacuum_enabled=false
ALTER MATERIALIZED VIEW foo RESET (fillfactor, autovacuum_enabled);
--> AlterMaterializedView name=foo change=UnsetProperties keys=fillfactor,autovacuum_enabled if_exists=True
ALTER MATERIALIZED VIEW foo SET TABLESPACE fast;
--> SyntaxProblem expected (properties), TBLPROPERTIES, OWNER, SECURITY, IMMUTABLE, WHEN STALE, GRACE PERIOD or IN MEMORY after SET, found TABLESPACE (line 1, column 33)
ALTER MATERIALIZED VIEW foo CLUSTER ON i;
--> SyntaxProblem CLUSTER is not supported: the layout cannot be altered; use CREATE OR REPLACE (line 1, column 29)
COMMENT ON MATERIALIZED VIEW s.mv IS 'what it''s for';
--> AlterMaterializedView name=s.mv change=SetComment comment="what it's for"
COMMENT ON MATERIALIZED VIEW mv IS NULL;
--> AlterMaterializedView name=mv change=SetComment
COMMENT ON MATERIALIZED VIEW mv 'x';
--> SyntaxProblem expected IS, found 'x' (line 1, column 33)
DROP MATERIALIZED VIEW IF EXISTS order_summary RESTRICT;
--> DropMaterializedView name=order_summary if_exists=True restrict=True
DROP MATERIALIZED VIEW a, b;
--> SyntaxProblem expected the end of the statement, found , (line 1, column 25)
DROP MATERIALIZED VIEW mv CASCADE;
--> SyntaxProblem CASCADE is not supported: first drop the views that read this one (line 1, column 27)
BEGIN;
--> BeginTransaction
BEGIN WORK ISOLATION LEVEL SERIALIZABLE, READ ONLY, NOT DEFERRABLE;
--> BeginTransaction
/* a */ begin transaction;
--> BeginTransaction
ROLLBACK TRANSACTION AND NO CHAIN;
--> EndTransaction
