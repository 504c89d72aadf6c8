-- Databricks.
CREATE OR REPLACE MATERIALIZED VIEW main.shop.daily (day COMMENT 'of the order', total) PARTITIONED BY (day) COMMENT 'sums' SCHEDULE EVERY 8 HOURS TBLPROPERTIES ('pipelines.autoOptimize' = 'true') AS SELECT day, total FROM t;
--> CreateMaterializedView name=main.shop.daily query='SELECT day, total FROM t' columns=day:of the order,total comment='sums' properties=pipelines.autoOptimize=true or_replace=True trigger='SCHEDULE' every=8 unit='HOUR' partitioning(column='day')
CREATE MATERIALIZED VIEW mv CLUSTER BY (a, b) SCHEDULE REFRESH EVERY 1 DAY AS SELECT a, b FROM t;
--> CreateMaterializedView name=mv query='SELECT a, b FROM t' trigger='SCHEDULE' every=1 unit='DAY' clustering(distributed=a,b sorted_by=a,b)
CREATE MATERIALIZED VIEW mv SCHEDULE CRON '0 0 5 * * ?' AT TIME ZONE 'America/Los_Angeles' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='SCHEDULE' cron='0 0 5 * * ?' time_zone='America/Los_Angeles'
CREATE MATERIALIZED VIEW mv SCHEDULE REFRESH CRON '*/15  8-17 * JAN,feb MON#1' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='SCHEDULE' cron='*/15 8-17 * JAN,feb MON#1'
CREATE MATERIALIZED VIEW mv REFRESH COMPLETE SCHEDULE EVERY 2 WEEKS AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='COMPLETE' trigger='SCHEDULE' every=2 unit='WEEK'
CREATE MATERIALIZED VIEW mv TRIGGER ON UPDATE AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='COMMIT'
CREATE MATERIALIZED VIEW mv TRIGGER ON UPDATE AT MOST EVERY INTERVAL 1 HOUR AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='COMMIT' at_most=3600
CREATE MATERIALIZED VIEW mv REFRESH POLICY AUTO AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='AUTO'
CREATE MATERIALIZED VIEW mv REFRESH POLICY FULL AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='COMPLETE'
CREATE MATERIALIZED VIEW mv REFRESH POLICY INCREMENTAL AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='INCREMENTAL FALLBACK'
CREATE MATERIALIZED VIEW mv REFRESH POLICY INCREMENTAL STRICT SCHEDULE EVERY 1 DAY AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='INCREMENTAL' trigger='SCHEDULE' every=1 unit='DAY'
CREATE MATERIALIZED VIEW mv REFRESH POLICY FULL STRICT AS SELECT 1 AS a;
--> SyntaxProblem expected a clause (such as COMMENT, REFRESH, PARTITION BY or TBLPROPERTIES) or AS, found STRICT (line 1, column 49)
ALTER MATERIALIZED VIEW mv REFRESH POLICY INCREMENTAL;
--> AlterMaterializedView name=mv change=SetRefreshing method='INCREMENTAL FALLBACK'
ALTER MATERIALIZED VIEW mv REFRESH POLICY INCREMENTAL STRICT;
--> AlterMaterializedView name=mv change=SetRefreshing method='INCREMENTAL'
CREATE MATERIALIZED VIEW mv REFRESH POLICY AS SELECT 1 AS a;
--> SyntaxProblem expected AUTO, INCREMENTAL or FULL after REFRESH POLICY, found AS (line 1, column 44)
CREATE MATERIALIZED VIEW mv REFRESH ON MANUAL SCHEDULE EVERY 1 HOUR AS SELECT 1 AS a;
--> SyntaxProblem expected one clause for the trigger, which REFRESH already sets, found SCHEDULE (line 1, column 47)
CREATE MATERIALIZED VIEW mv SCHEDULE EVERY 1 HOUR REFRESH AUTO ON COMMIT AS SELECT 1 AS a;
--> SyntaxProblem expected one clause for the trigger, which SCHEDULE already sets, found AUTO (line 1, column 59)
CREATE MATERIALIZED VIEW mv SCHEDULE EVERY 1 HOUR TRIGGER ON UPDATE AS SELECT 1 AS a;
--> SyntaxProblem expected one clause for the trigger, which SCHEDULE already sets, found TRIGGER (line 1, column 51)
CREATE MATERIALIZED VIEW mv SCHEDULE EVERY 1 FORTNIGHT AS SELECT 1 AS a;
--> SyntaxProblem expected a unit of the schedule (MINUTE, HOUR, DAY or WEEK), found FORTNIGHT (line 1, column 46)
CREATE MATERIALIZED VIEW mv SCHEDULE HOURLY AS SELECT 1 AS a;
--> SyntaxProblem expected EVERY or CRON after SCHEDULE, found HOURLY (line 1, column 38)
CREATE MATERIALIZED VIEW mv SCHEDULE CRON '0 5 * *' AS SELECT 1 AS a;
--> SyntaxProblem '0 5 * *' is not a cron expression: it has 4 fields; use 5 (minute hour day month weekday), 6 (with a second before them) or 7 (with a year after them) (line 1, column 43)
CREATE MATERIALIZED VIEW mv SCHEDULE CRON 'daily' AS SELECT 1 AS a;
--> SyntaxProblem 'daily' is not a cron expression: it has 1 field; use 5 (minute hour day month weekday), 6 (with a second before them) or 7 (with a year after them) (line 1, column 43)
CREATE MATERIALIZED VIEW mv SCHEDULE CRON '0 5 * * $' AS SELECT 1 AS a;
--> SyntaxProblem '0 5 * * $' is not a cron expression: the field '$' is invalid. Fields consist of numbers, names of three letters such as MON or JAN, and * , - / ? # L (line 1, column 43)
CREATE MATERIALIZED VIEW mv SCHEDULE CRON '0 5 * * ?' AT TIME ZONE 'Mars/Olympus' AS SELECT 1 AS a;
--> SyntaxProblem 'Mars/Olympus' is not a time zone: write it as 'Europe/Berlin' or 'UTC' (line 1, column 68)
CREATE MATERIALIZED VIEW mv CLUSTER BY AUTO AS SELECT 1 AS a;
--> SyntaxProblem expected columns after CLUSTER BY, found AUTO (line 1, column 40)
CREATE MATERIALIZED VIEW mv WITH ROW FILTER f ON (a) AS SELECT 1 AS a;
--> SyntaxProblem WITH ROW FILTER is not supported: put the condition into the definition (line 1, column 29)
EXPLAIN CREATE MATERIALIZED VIEW mv AS SELECT a, sum(b) AS s FROM t GROUP BY a;
--> Explain statement=CreateMaterializedView name=mv query='SELECT a, sum(b) AS s FROM t GROUP BY a'
REFRESH MATERIALIZED VIEW mv FULL;
--> RefreshMaterializedView name=mv method='COMPLETE'
REFRESH MATERIALIZED VIEW mv SYNC;
--> RefreshMaterializedView name=mv
REFRESH MATERIALIZED VIEW mv ASYNC;
--> RefreshMaterializedView name=mv wait=False
REFRESH MATERIALIZED VIEW mv FULL ASYNC;
--> RefreshMaterializedView name=mv method='COMPLETE' wait=False
REFRESH MATERIALIZED VIEW mv SYNC ASYNC;
--> SyntaxProblem expected method, partitions, DATA and SYNC or ASYNC only once each (line 1, column 35)
ALTER MATERIALIZED VIEW mv ADD SCHEDULE EVERY 1 HOUR;
--> AlterMaterializedView name=mv change=SetRefreshing trigger='SCHEDULE' every=1 unit='HOUR'
ALTER MATERIALIZED VIEW mv ALTER SCHEDULE REFRESH CRON '0 0 * * * ?' AT TIME ZONE 'UTC';
--> AlterMaterializedView name=mv change=SetRefreshing trigger='SCHEDULE' cron='0 0 * * * ?' time_zone='UTC'
ALTER MATERIALIZED VIEW mv ADD TRIGGER ON UPDATE;
--> AlterMaterializedView name=mv change=SetRefreshing trigger='COMMIT'
ALTER MATERIALIZED VIEW mv DROP SCHEDULE;
--> AlterMaterializedView name=mv change=DropSchedule
ALTER MATERIALIZED VIEW mv SET OWNER TO `some one`;
--> AlterMaterializedView name=mv change=SetOwner owner='some one'
ALTER MATERIALIZED VIEW mv SET TBLPROPERTIES ('my.key' = 'x', 'when_stale' = 'serve');
--> AlterMaterializedView name=mv change=SetProperties properties=my.key=x,when_stale=SERVE
ALTER MATERIALIZED VIEW mv UNSET TBLPROPERTIES IF EXISTS ('my.key', other);
--> AlterMaterializedView name=mv change=UnsetProperties keys=my.key,other if_exists=True
ALTER MATERIALIZED VIEW mv ADD COLUMN a INT;
--> SyntaxProblem ADD COLUMN is not supported: a view's columns come from its definition; use CREATE OR REPLACE (line 1, column 28)
DROP MATERIALIZED VIEW IF EXISTS mv;
--> DropMaterializedView name=mv if_exists=True
DESCRIBE EXTENDED MATERIALIZED VIEW mv;
--> Describe name=mv extended=True
