-- StarRocks.
CREATE MATERIALIZED VIEW IF NOT EXISTS db.mv (a, b) COMMENT 'sums' DISTRIBUTED BY HASH(a) BUCKETS 12 REFRESH ASYNC START('2030-09-01 10:00:00') EVERY (INTERVAL 1 DAY) PARTITION BY date_trunc('month', b) ORDER BY (b) PROPERTIES ("replication_num" = "1", "partition_refresh_number" = "2", "mv_rewrite_staleness_second" = "30") AS SELECT a, b FROM t;
--> CreateMaterializedView name=db.mv query='SELECT a, b FROM t' columns=a,b comment='sums' properties=replication_num=1,partition_refresh_number=2,mv_rewrite_staleness_second=30 if_not_exists=True trigger='SCHEDULE' every=1 unit='DAY' starts='2030-09-01 10:00:00' partitioning(column='b' unit='MONTH') distribution(columns=a buckets=12) clustering(distributed=b sorted_by=b)
CREATE MATERIALIZED VIEW mv REFRESH ASYNC EVERY (INTERVAL 10 MINUTE) AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='SCHEDULE' every=10 unit='MINUTE'
CREATE MATERIALIZED VIEW mv REFRESH ASYNC AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='COMMIT'
CREATE MATERIALIZED VIEW mv REFRESH MANUAL AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='MANUAL'
CREATE MATERIALIZED VIEW mv REFRESH DEFERRED MANUAL AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' deferred=True trigger='MANUAL'
CREATE MATERIALIZED VIEW mv REFRESH IMMEDIATE ASYNC AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='COMMIT'
CREATE MATERIALIZED VIEW mv REFRESH DEFERRED AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' deferred=True
CREATE MATERIALIZED VIEW mv BUILD IMMEDIATE REFRESH DEFERRED MANUAL AS SELECT 1 AS a;
--> SyntaxProblem BUILD IMMEDIATE and REFRESH DEFERRED contradict each other (line 1, column 53)
CREATE MATERIALIZED VIEW mv REFRESH ASYNC START('soon') EVERY (INTERVAL 1 DAY) AS SELECT 1 AS a;
--> SyntaxProblem 'soon' is not a time: write it as '2030-01-31 04:00:00' (line 1, column 49)
CREATE MATERIALIZED VIEW mv PARTITION BY str2date(b, '%Y-%m-%d') AS SELECT b FROM t;
--> SyntaxProblem expected a column or date_trunc(column, 'unit'), found str2date (line 1, column 42)
REFRESH MATERIALIZED VIEW mv FORCE WITH SYNC MODE;
--> RefreshMaterializedView name=mv method='COMPLETE'
REFRESH MATERIALIZED VIEW mv WITH ASYNC MODE;
--> RefreshMaterializedView name=mv wait=False
REFRESH MATERIALIZED VIEW mv PARTITION (p1, p2) FORCE;
--> RefreshMaterializedView name=mv method='COMPLETE' partitions=p1,p2
REFRESH MATERIALIZED VIEW mv PARTITION START ('2020-01-01') END ('2020-02-01');
--> SyntaxProblem expected the end of the statement, found ( (line 1, column 46)
REFRESH MATERIALIZED VIEW mv WITH PRIORITY 80;
--> SyntaxProblem expected SYNC, ASYNC, DATA or NO after WITH, found PRIORITY (line 1, column 35)
ALTER MATERIALIZED VIEW mv RENAME mv2;
--> AlterMaterializedView name=mv change=Rename name=mv2
ALTER MATERIALIZED VIEW mv SWAP WITH mv2;
--> AlterMaterializedView name=mv change=ReplaceWith name=mv2
ALTER MATERIALIZED VIEW mv SET ("session.query_timeout" = "4000");
--> AlterMaterializedView name=mv change=SetProperties properties=session.query_timeout=4000
ALTER MATERIALIZED VIEW mv REFRESH ASYNC EVERY (INTERVAL 2 HOUR);
--> AlterMaterializedView name=mv change=SetRefreshing trigger='SCHEDULE' every=2 unit='HOUR'
ALTER MATERIALIZED VIEW mv INACTIVE;
--> SyntaxProblem INACTIVE is not supported: use REFRESH ON MANUAL to stop refreshes (line 1, column 28)
SHOW MATERIALIZED VIEWS FROM db LIKE 'mv*';
--> ShowMaterializedViews database='db' pattern='mv*'
