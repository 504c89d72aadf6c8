-- MariaDB: the forms that its ticket proposes. (DROP VIEW and SHOW CREATE VIEW of a view: about.sql.)
CREATE MATERIALIZED VIEW view_name as SELECT a, sum(b) AS s FROM t GROUP BY a;
--> CreateMaterializedView name=view_name query='SELECT a, sum(b) AS s FROM t GROUP BY a'
CREATE MATERIALIZED VIEW table_name (column_name, other) WITH (fillfactor = 70) TABLESPACE tablespace_name AS SELECT 1, 2 WITH NO DATA;
--> CreateMaterializedView name=table_name query='SELECT 1, 2' columns=column_name,other properties=fillfactor=70,tablespace=tablespace_name deferred=True
REFRESH MATERIALIZED VIEW view_name;
--> RefreshMaterializedView name=view_name
START TRANSACTION;
--> BeginTransaction
start transaction read only, isolation level repeatable read;
--> BeginTransaction
START TRANSACTION WITH CONSISTENT SNAPSHOT;
--> BeginTransaction snapshot=True
COMMIT WORK;
--> EndTransaction commit=True
ROLLBACK AND CHAIN;
--> EndTransaction chain=True
ROLLBACK TO SAVEPOINT a;
--> SyntaxProblem savepoints are not supported: use ROLLBACK without TO; it ends the transaction and undoes no write (line 1, column 10)
COMMIT now;
--> SyntaxProblem expected the end of the statement, found now (line 1, column 8)
