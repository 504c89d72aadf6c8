-- The gateway's own statements: a statement, then `--> expected`: the fields that differ from the default.
CREATE MATERIALIZED VIEW mv AS SELECT 1;
--> CreateMaterializedView name=mv query='SELECT 1'
/* x */ create or replace materialized view db.`my mv` as (select 1) -- end;
--> CreateMaterializedView name=db.my mv query='(select 1)' or_replace=True
CREATE MATERIALIZED VIEW IF NOT EXISTS mv (a, `b c` COMMENT 'it''s') TBLPROPERTIES ('k' = 'v', a.b 1.5, c = true) COMMENT 'x' 'y' AS WITH t AS (SELECT 1) SELECT * FROM t;
--> CreateMaterializedView name=mv query='WITH t AS (SELECT 1) SELECT * FROM t' columns=a,b c:it's comment='xy' properties=k=v,a.b=1.5,c=true if_not_exists=True
CREATE MATERIALIZED VIEW mv AS FROM t SELECT a /* mid */ WHERE x = ';';
--> CreateMaterializedView name=mv query="FROM t SELECT a /* mid */ WHERE x = ';'"
DROP MATERIALIZED VIEW IF EXISTS a.b.c;
--> DropMaterializedView name=a.b.c if_exists=True
REFRESH MATERIALIZED VIEW `a.b`.c;
--> RefreshMaterializedView name=a.b.c
call bq . `refresh_materialized_view` ('p-q.d.v');
--> SyntaxProblem expected 'project.dataset.view' or 'dataset.view' in the string
CALL BQ.REFRESH_MATERIALIZED_VIEW('p.d.v');
--> RefreshMaterializedView name=d.v
CALL bq.refresh_materialized_view("`p-q`.d.`v w`");
--> RefreshMaterializedView name=d.v w
CALL bq.refresh_materialized_view('`p-q.d.v`');
--> RefreshMaterializedView name=d.v
SHOW MATERIALIZED VIEWS;
--> ShowMaterializedViews
SHOW MATERIALIZED VIEWS IN `my db` LIKE 'a*|b';
--> ShowMaterializedViews database='my db' pattern='a*|b'
SHOW MATERIALIZED VIEWS FROM spark_catalog.db 'x';
--> ShowMaterializedViews database='db' pattern='x'
SHOW MATERIALIZED VIEWS FROM cat.db 'x';
--> SyntaxProblem expected a database of the catalog spark_catalog, found 'x' (line 1, column 37)
CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS mv AS SELECT 1;
--> SyntaxProblem expected the view's name: OR REPLACE and IF NOT EXISTS exclude each other, found IF (line 1, column 37)
CREATE MATERIALIZED VIEW AS SELECT 1;
--> SyntaxProblem expected the view's name, found AS (line 1, column 26)
CREATE MATERIALIZED VIEW mv SELECT 1;
--> SyntaxProblem expected a clause (such as COMMENT, REFRESH, PARTITION BY or TBLPROPERTIES) or AS, found SELECT (line 1, column 29)
CREATE MATERIALIZED VIEW mv AS DROP TABLE t;
--> SyntaxProblem expected a query after AS (SELECT, WITH, FROM, VALUES, TABLE or a parenthesis), found DROP (line 1, column 32)
CREATE MATERIALIZED VIEW mv COMMENT 'a' COMMENT 'b' AS SELECT 1;
--> SyntaxProblem expected COMMENT only once, found COMMENT (line 1, column 41)
CREATE MATERIALIZED VIEW mv TBLPROPERTIES ('a' = 'b', 'a' = 'c') AS SELECT 1;
--> SyntaxProblem the property a is given twice
CREATE MATERIALIZED VIEW mv AS SELECT 'a;
--> SyntaxProblem the quote ' is not closed
CREATE MATERIALIZED VIEW mv AS SELECT 1; SELECT 2;
--> SyntaxProblem expected the end of the statement after the semicolon
CREATE MATERIALIZED VIEW mv (a b) AS SELECT 1;
--> SyntaxProblem expected COMMENT, a comma or ) in the column list, found b (line 1, column 32)
DROP MATERIALIZED VIEW a.;
--> SyntaxProblem expected a name after the dot
DROP MATERIALIZED VIEW a. /* b */;
--> SyntaxProblem expected a name after the dot, found the end of the statement
REFRESH MATERIALIZED VIEW a.'b';
--> SyntaxProblem expected a name after the dot, found 'b'
REFRESH MATERIALIZED VIEW "a"."b";
--> RefreshMaterializedView name=a.b
ALTER MATERIALIZED VIEW a."b" RENAME TO a."c d";
--> AlterMaterializedView name=a.b change=Rename name=a.c d
DROP MATERIALIZED VIEW mv CASCADE;
--> SyntaxProblem CASCADE is not supported: first drop the views that read this one (line 1, column 27)
REFRESH MATERIALIZED VIEW;
--> SyntaxProblem expected the view's name, found
SHOW MATERIALIZED VIEWS LIKE;
--> SyntaxProblem expected a pattern as a string after LIKE, found
