-- Forms that no other database has, and combinations of several databases' forms.
CREATE MATERIALIZED VIEW mv WHEN STALE REFRESH AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=when_stale=REFRESH
CREATE MATERIALIZED VIEW mv WHEN STALE serve GRACE PERIOD 2 HOURS AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=when_stale=SERVE,grace_period=7200
CREATE MATERIALIZED VIEW mv GRACE PERIOD 10 AS SELECT 1 AS a;
--> SyntaxProblem expected a unit of time (SECOND, MINUTE, HOUR, DAY or WEEK), found AS (line 1, column 45)
CREATE MATERIALIZED VIEW mv GRACE PERIOD '10 minutes' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=grace_period=600
CREATE MATERIALIZED VIEW mv PROPERTIES ('probe_interval' = '0', 'when_stale' = 'fail') AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=probe_interval=0,when_stale=FAIL
CREATE MATERIALIZED VIEW mv PROPERTIES ('when_stale' = 'never') AS SELECT 1 AS a;
--> SyntaxProblem valid when_stale: REFRESH, SERVE, INLINE, FAIL; found 'never' (line 1, column 41)
CREATE MATERIALIZED VIEW mv PROPERTIES ('when_stale' = 'fail') WHEN STALE FAIL AS SELECT 1 AS a;
--> SyntaxProblem the property when_stale is given twice (line 1, column 64)
CREATE MATERIALIZED VIEW mv TBLPROPERTIES ('query' = 'AS SELECT') USING orc COMMENT 'c' WITH NO DATA GRACE PERIOD 1 MINUTE KEY (a) PARTITION BY (a) CLUSTERED ON (a) DISTRIBUTED BY HASH(a) BUCKETS 2 REFRESH ON COMMIT AS SELECT a FROM t;
--> CreateMaterializedView name=mv query='SELECT a FROM t' comment='c' properties=query=AS SELECT,grace_period=60 deferred=True trigger='COMMIT' partitioning(column='a' follows=True) distribution(columns=a buckets=2) clustering(distributed=a sorted_by=a) file_format='orc' keys=a
ALTER MATERIALIZED VIEW mv SET WHEN STALE SERVE;
--> AlterMaterializedView name=mv change=SetProperties properties=when_stale=SERVE
ALTER MATERIALIZED VIEW mv SET GRACE PERIOD 10 MINUTE;
--> AlterMaterializedView name=mv change=SetProperties properties=grace_period=600
ALTER MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '1' HOUR;
--> AlterMaterializedView name=mv change=SetProperties properties=grace_period=3600
ALTER MATERIALIZED VIEW mv COMMENT 'sums';
--> AlterMaterializedView name=mv change=SetComment comment='sums'
ALTER MATERIALIZED VIEW mv COMMENT;
--> SyntaxProblem expected a string after COMMENT, found the end of the statement (line 1, column 35)
ALTER MATERIALIZED VIEW mv MAKE IT FAST;
--> SyntaxProblem expected RENAME, SET, UNSET, REFRESH, REPLACE WITH, REBUILD, OWNER TO or another change, found MAKE (line 1, column 28)
ALTER MATERIALIZED VIEW mv;
--> SyntaxProblem expected RENAME, SET, UNSET, REFRESH, REPLACE WITH, REBUILD, OWNER TO or another change, found the end of the statement (line 1, column 27)
ALTER MATERIALIZED VIEW;
--> SyntaxProblem expected the view's name, found the end of the statement (line 1, column 24)
SHOW MATERIALIZED VIEW VERSIONS sales.mv;
--> ShowVersions name=sales.mv
SHOW MATERIALIZED VIEW VERSIONS FROM `m v`;
--> ShowVersions name=m v
SHOW MATERIALIZED VIEW VERSIONS;
--> SyntaxProblem expected the view's name, found the end of the statement (line 1, column 32)
SHOW MATERIALIZED VIEW TASKS;
--> SyntaxProblem expected VERSIONS and a view's name (SHOW MATERIALIZED VIEWS lists views, SELECT * FROM jobs("type"="mv") lists jobs, SELECT * FROM tasks("type"="mv") lists tasks), found TASKS (line 1, column 24)
SHOW MATERIALIZED VIEW;
--> SyntaxProblem expected VERSIONS and a view's name (SHOW MATERIALIZED VIEWS lists views, SELECT * FROM jobs("type"="mv") lists jobs, SELECT * FROM tasks("type"="mv") lists tasks), found the end of the statement (line 1, column 23)
SHOW JOBS;
--> SyntaxProblem SHOW JOBS is not supported: SELECT * FROM jobs("type"="mv") lists jobs of materialized views (line 1, column 10)
SHOW TASKS FROM sales;
--> SyntaxProblem SHOW TASKS is not supported: SELECT * FROM tasks("type"="mv") lists tasks of materialized views (line 1, column 12)
EXPLAIN REWRITE SELECT a, sum(b) AS s FROM t GROUP BY a;
--> ExplainRewrite query='SELECT a, sum(b) AS s FROM t GROUP BY a'
EXPLAIN /* why */ REWRITE WITH c AS (SELECT 1 AS a) SELECT /*+ NO_REWRITE */ a FROM c;
--> ExplainRewrite query='WITH c AS (SELECT 1 AS a) SELECT /*+ NO_REWRITE */ a FROM c'
explain rewrite INSERT INTO t SELECT 1;
--> ExplainRewrite query='INSERT INTO t SELECT 1'
EXPLAIN REWRITE;
--> SyntaxProblem expected a query after EXPLAIN REWRITE, found the end of the statement (line 1, column 16)
CREATE MATERIALISED VIEW mv AS SELECT 1 AS a;
--> SyntaxProblem expected MATERIALIZED VIEW, found MATERIALISED (line 1, column 8)
create or replace materilized veiw mv as select 1 as a;
--> SyntaxProblem expected MATERIALIZED VIEW, found materilized (line 1, column 19)
CREATE MATERIALIZED VEIW mv AS SELECT 1 AS a;
--> SyntaxProblem expected VIEW, found VEIW (line 1, column 21)
CREATE MATERIALIZED mv AS SELECT 1 AS a;
--> SyntaxProblem expected VIEW, found mv (line 1, column 21)
/* by a tool */ REFRESH MATERIALISED VIEW mv;
--> SyntaxProblem expected MATERIALIZED VIEW, found MATERIALISED (line 1, column 25)
SHOW MATERIALISED VIEWS;
--> SyntaxProblem expected MATERIALIZED VIEWS, found MATERIALISED (line 1, column 6)
DROP MATERIALIZED TABLE mv;
--> SyntaxProblem expected VIEW, found TABLE (line 1, column 19)
GRANT REFRESH ON MATERIALIZED VIEW s.mv TO USER ada;
--> AlterMaterializedView name=s.mv change=SetRefreshers grantees=USER ada
GRANT REFRESH ON MATERIALIZED VIEW mv TO ada, ROLE night, GROUP `night shift`, 'eve@example.com', PUBLIC, ada;
--> AlterMaterializedView name=mv change=SetRefreshers grantees=USER ada,GROUP night,GROUP night shift,USER eve@example.com,PUBLIC
REVOKE REFRESH ON MATERIALIZED VIEW mv FROM ROLE PUBLIC;
--> AlterMaterializedView name=mv change=SetRefreshers grantees=PUBLIC granted=False
GRANT REFRESH ON mv TO USER public;
--> AlterMaterializedView name=mv change=SetRefreshers grantees=USER public
GRANT REFRESH ON TABLE table TO user, role;
--> AlterMaterializedView name=table change=SetRefreshers grantees=USER user,USER role
REVOKE REFRESH ON table FROM GROUP 'x';
--> AlterMaterializedView name=table change=SetRefreshers grantees=GROUP x granted=False
GRANT REFRESH ON VIEW view.mv TO ada;
--> AlterMaterializedView name=view.mv change=SetRefreshers grantees=USER ada
GRANT REFRESH ON MATERIALIZED VIEW mv;
--> SyntaxProblem expected TO, found the end of the statement (line 1, column 38)
GRANT REFRESH ON MATERIALIZED VIEW mv TO;
--> SyntaxProblem expected USER, GROUP or ROLE and a name, or PUBLIC, found the end of the statement (line 1, column 41)
GRANT REFRESH ON MATERIALIZED VIEW mv TO '';
--> SyntaxProblem expected a name of 1 to 256 characters (line 1, column 42)
GRANT REFRESH ON MATERIALIZED VIEW mv TO a.b;
--> SyntaxProblem expected the end of the statement, found . (line 1, column 43)
GRANT REFRESH, SELECT ON mv TO ada;
--> SyntaxProblem expected REFRESH without other rights, which only Spark can grant, found , (line 1, column 14)
GRANT REFRESH ON mv TO ada WITH GRANT OPTION;
--> SyntaxProblem GRANT OPTION is not supported: a view's owner and the administrators grant the right to refresh it (line 1, column 28)
REVOKE GRANT OPTION FOR REFRESH ON mv FROM ada;
--> SyntaxProblem GRANT OPTION is not supported: a view's owner and the administrators grant the right to refresh it (line 1, column 8)
GRANT SELECT ON MATERIALIZED VIEW mv TO ada;
--> SyntaxProblem the gateway grants REFRESH only; to Spark, which decides about other rights, the view is a table: write ON TABLE (line 1, column 14)
REVOKE ALL PRIVILEGES ON MATERIALIZED VIEW mv FROM ROLE x;
--> SyntaxProblem the gateway grants REFRESH only; to Spark, which decides about other rights, the view is a table: write ON TABLE (line 1, column 23)
GRANT SELECT ON refresh TO materialized;
--> Forwarded touches_rows=False
GRANT materialized TO refresh;
--> Forwarded touches_rows=False
SHOW GRANTS ON MATERIALIZED VIEW s.mv;
--> ShowGrants name=s.mv
SHOW GRANT ROLE night ON MATERIALIZED VIEW mv;
--> ShowGrants name=mv grantee=GROUP night hive=True
SHOW GRANTS ON materialized;
--> Forwarded touches_rows=False
CREATE MATERIALIZED VIEW mv IN MEMORY AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=in_memory=true
CREATE MATERIALIZED VIEW mv ENABLE QUERY REWRITE NOT IN MEMORY COMMENT 'x' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' comment='x' properties=use_for_rewrite=true,in_memory=false
CREATE MATERIALIZED VIEW mv IN MEMORY TBLPROPERTIES ('in_memory' = 'false') AS SELECT 1 AS a;
--> SyntaxProblem the property in_memory is given twice (line 1, column 54)
CREATE MATERIALIZED VIEW mv PROPERTIES ('in_memory' = 'FALSE') AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=in_memory=false
CREATE MATERIALIZED VIEW mv IN STORAGE AS SELECT 1 AS a;
--> SyntaxProblem expected a clause (such as COMMENT, REFRESH, PARTITION BY or TBLPROPERTIES) or AS, found IN (line 1, column 29)
ALTER MATERIALIZED VIEW db.mv SET IN MEMORY;
--> AlterMaterializedView name=db.mv change=SetProperties properties=in_memory=true
ALTER MATERIALIZED VIEW mv NOT IN MEMORY;
--> AlterMaterializedView name=mv change=SetProperties properties=in_memory=false
ALTER MATERIALIZED VIEW mv SET NOT IN MEMORY;
--> AlterMaterializedView name=mv change=SetProperties properties=in_memory=false
ALTER MATERIALIZED VIEW mv UNSET IN MEMORY;
--> AlterMaterializedView name=mv change=UnsetProperties keys=in_memory if_exists=True
ALTER MATERIALIZED VIEW mv UNSET IN STORAGE;
--> SyntaxProblem expected (, found IN (line 1, column 34)
CREATE MATERIALIZED VIEW mv TARGET LAG '10 minutes' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='LAG' lag=600
CREATE MATERIALIZED VIEW mv TARGET_LAG = '1 hour' AT MOST EVERY '30 minutes' REFRESH COMPLETE AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='COMPLETE' trigger='LAG' lag=3600 at_most=1800
CREATE MATERIALIZED VIEW mv REFRESH AUTO TARGET LAG INTERVAL '1' DAY AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='AUTO' trigger='LAG' lag=86400
CREATE MATERIALIZED VIEW mv TARGET LAG DOWNSTREAM AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='LAG'
CREATE MATERIALIZED VIEW mv REFRESH ON COMMIT AT MOST EVERY 5 MINUTES AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='COMMIT' at_most=300
CREATE MATERIALIZED VIEW mv REFRESH ASYNC AT MOST EVERY '5 minutes' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='COMMIT' at_most=300
CREATE MATERIALIZED VIEW mv TARGET LAG '1 hour' SCHEDULE EVERY 1 DAY AS SELECT 1 AS a;
--> SyntaxProblem expected one clause for the trigger, which TARGET LAG already sets, found SCHEDULE (line 1, column 49)
CREATE MATERIALIZED VIEW mv TARGET LAG DOWNSTREAM AT MOST EVERY '1 hour' AS SELECT 1 AS a;
--> SyntaxProblem AT MOST EVERY has no meaning with TARGET LAG DOWNSTREAM: give it to the views that read this one, by whose lags it is refreshed (line 1, column 51)
CREATE MATERIALIZED VIEW mv SCHEDULE EVERY 1 HOUR AT MOST EVERY '1 hour' AS SELECT 1 AS a;
--> SyntaxProblem AT MOST is not supported: write AT MOST EVERY directly behind ON COMMIT, TRIGGER ON UPDATE or TARGET LAG '10 minutes' (line 1, column 51)
CREATE MATERIALIZED VIEW mv TARGET LAG '1.5 seconds' AS SELECT 1 AS a;
--> SyntaxProblem the interval must be of whole seconds, at least one, and of less than a hundred years: write '10 minutes' (line 1, column 40)
CREATE MATERIALIZED VIEW mv TARGET LAG '1 month' AS SELECT 1 AS a;
--> SyntaxProblem expected a unit of time (SECOND, MINUTE, HOUR, DAY or WEEK), found AS (line 1, column 50)
CREATE MATERIALIZED VIEW mv TARGET LAG AS SELECT 1 AS a;
--> SyntaxProblem expected an interval, such as INTERVAL '10' MINUTE or 10 MINUTE, found AS (line 1, column 40)
ALTER MATERIALIZED VIEW mv SET TARGET_LAG = '5 minutes';
--> AlterMaterializedView name=mv change=SetRefreshing trigger='LAG' lag=300
ALTER MATERIALIZED VIEW mv TARGET LAG '2 hours' AT MOST EVERY '30 minutes';
--> AlterMaterializedView name=mv change=SetRefreshing trigger='LAG' lag=7200 at_most=1800
ALTER MATERIALIZED VIEW mv REFRESH INCREMENTAL TARGET LAG DOWNSTREAM;
--> AlterMaterializedView name=mv change=SetRefreshing method='INCREMENTAL' trigger='LAG'
ALTER MATERIALIZED VIEW mv ALTER TRIGGER ON UPDATE AT MOST EVERY INTERVAL '1' HOUR;
--> AlterMaterializedView name=mv change=SetRefreshing trigger='COMMIT' at_most=3600
-- Snowflake's clause.
CREATE MATERIALIZED VIEW mv IMMUTABLE WHERE (day < current_date() - INTERVAL 30 DAYS) PARTITION BY (day) AS SELECT day FROM t;
--> CreateMaterializedView name=mv query='SELECT day FROM t' partitioning(column='day' follows=True) immutable='day < current_date() - INTERVAL 30 DAYS'
CREATE MATERIALIZED VIEW mv IMMUTABLE WHERE ( (n) < (3) /* c */ ) AS SELECT n FROM t;
--> CreateMaterializedView name=mv query='SELECT n FROM t' immutable='(n) < (3)'
CREATE MATERIALIZED VIEW mv IMMUTABLE WHERE n < 3 AS SELECT n FROM t;
--> SyntaxProblem expected (condition), found n (line 1, column 45)
CREATE MATERIALIZED VIEW mv IMMUTABLE WHERE () AS SELECT n FROM t;
--> SyntaxProblem expected a condition and ), found AS (line 1, column 48)
CREATE MATERIALIZED VIEW mv IMMUTABLE WHERE (n < 3 AS SELECT n FROM t;
--> SyntaxProblem expected a condition and ), found the end of the statement (line 1, column 70)
CREATE MATERIALIZED VIEW mv IMMUTABLE WHERE (n < 3) IMMUTABLE WHERE (n < 4) AS SELECT n FROM t;
--> SyntaxProblem expected IMMUTABLE WHERE only once, found IMMUTABLE (line 1, column 53)
ALTER MATERIALIZED VIEW mv SET IMMUTABLE WHERE (day < DATE'2024-01-01');
--> AlterMaterializedView name=mv change=SetImmutable condition="day < DATE'2024-01-01'"
ALTER MATERIALIZED VIEW mv SET IMMUTABLE;
--> SyntaxProblem expected (properties), TBLPROPERTIES, OWNER, SECURITY, IMMUTABLE, WHEN STALE, GRACE PERIOD or IN MEMORY after SET, found IMMUTABLE (line 1, column 32)
ALTER MATERIALIZED VIEW mv UNSET IMMUTABLE;
--> AlterMaterializedView name=mv change=SetImmutable
ALTER MATERIALIZED VIEW IF EXISTS mv DROP IMMUTABLE;
--> AlterMaterializedView name=mv change=SetImmutable if_exists=True
CREATE OR REPLACE MATERIALIZED VIEW mv BUILD COMPLETE AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' or_replace=True anew=True
CREATE MATERIALIZED VIEW mv BUILD COMPLETE AS SELECT 1 AS a WITH NO DATA;
--> SyntaxProblem BUILD COMPLETE and WITH NO DATA contradict each other (line 1, column 61)
REFRESH MATERIALIZED VIEWS IN sales;
--> RefreshMaterializedViews database='sales'
REFRESH MATERIALIZED VIEWS FROM sales AUTO;
--> RefreshMaterializedViews database='sales' method='AUTO'
ALTER MATERIALIZED VIEWS SWAP (a, b);
--> SyntaxProblem expected WITH and the view that takes this one's place, found , (line 1, column 33)
