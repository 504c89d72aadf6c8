-- Oracle.
CREATE MATERIALIZED VIEW sales_mv BUILD IMMEDIATE REFRESH FORCE ON DEMAND ENABLE QUERY REWRITE AS SELECT a, sum(b) AS s FROM t GROUP BY a;
--> CreateMaterializedView name=sales_mv query='SELECT a, sum(b) AS s FROM t GROUP BY a' properties=use_for_rewrite=true method='AUTO' trigger='MANUAL'
CREATE MATERIALIZED VIEW mv REFRESH COMPLETE ON COMMIT DISABLE QUERY REWRITE AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=use_for_rewrite=false method='COMPLETE' trigger='COMMIT'
CREATE MATERIALIZED VIEW mv BUILD DEFERRED REFRESH FORCE AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' deferred=True method='AUTO'
CREATE MATERIALIZED VIEW mv REFRESH FAST ON COMMIT AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='INCREMENTAL' trigger='COMMIT'
CREATE MATERIALIZED VIEW mv REFRESH FAST FALLBACK AS SELECT 1 AS a;
--> SyntaxProblem expected a clause (such as COMMENT, REFRESH, PARTITION BY or TBLPROPERTIES) or AS, found FALLBACK (line 1, column 42)
CREATE MATERIALIZED VIEW mv REFRESH COMPLETE ON STATEMENT AS SELECT 1 AS a;
--> SyntaxProblem expected MANUAL, DEMAND, COMMIT or SCHEDULE after ON, found STATEMENT (line 1, column 49)
CREATE MATERIALIZED VIEW mv REFRESH COMPLETE START WITH sysdate NEXT sysdate + 1 AS SELECT 1 AS a;
--> SyntaxProblem START is not supported: use REFRESH ON SCHEDULE EVERY n HOUR STARTS '2030-01-31 04:00:00' (line 1, column 46)
CREATE MATERIALIZED VIEW mv NEVER REFRESH AS SELECT 1 AS a;
--> SyntaxProblem NEVER REFRESH is not supported: use REFRESH ON MANUAL (line 1, column 29)
CREATE MATERIALIZED VIEW mv ON PREBUILT TABLE AS SELECT 1 AS a;
--> SyntaxProblem ON PREBUILT TABLE is not supported: a view stores its rows itself; use BUILD DEFERRED to build it later (line 1, column 29)
CREATE MATERIALIZED VIEW mv REFRESH FORCE WITH ROWID AS SELECT 1 AS a;
--> SyntaxProblem WITH ROWID is not supported: a refresh needs no key (line 1, column 43)
CREATE MATERIALIZED VIEW mv TABLESPACE users BUILD DEFERRED USING INDEX AS SELECT 1 AS a;
--> SyntaxProblem expected PARQUET, ORC, ICEBERG or DELTA after USING, found INDEX (line 1, column 67)
CREATE MATERIALIZED VIEW mv ENABLE QUERY REWRITE DISABLE QUERY REWRITE AS SELECT 1 AS a;
--> SyntaxProblem the property use_for_rewrite is given twice (line 1, column 50)
ALTER MATERIALIZED VIEW mv REFRESH COMPLETE ON DEMAND;
--> AlterMaterializedView name=mv change=SetRefreshing method='COMPLETE' trigger='MANUAL'
ALTER MATERIALIZED VIEW mv REFRESH FAST;
--> AlterMaterializedView name=mv change=SetRefreshing method='INCREMENTAL'
REFRESH MATERIALIZED VIEW mv FAST;
--> RefreshMaterializedView name=mv method='INCREMENTAL'
ALTER MATERIALIZED VIEW mv ENABLE QUERY REWRITE;
--> AlterMaterializedView name=mv change=SetProperties properties=use_for_rewrite=true
ALTER MATERIALIZED VIEW mv COMPILE;
--> SyntaxProblem COMPILE is not supported: use REFRESH MATERIALIZED VIEW; Spark checks the definition each time it runs (line 1, column 28)
REFRESH MATERIALIZED VIEW mv FORCE;
--> RefreshMaterializedView name=mv method='COMPLETE'
COMMENT ON MATERIALIZED VIEW sales_mv IS 'sums';
--> AlterMaterializedView name=sales_mv change=SetComment comment='sums'
