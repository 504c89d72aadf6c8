-- Doris: the unchanged examples of its documentation, then each form of its grammar.
CREATE MATERIALIZED VIEW mv1 
BUILD DEFERRED REFRESH AUTO ON MANUAL
partition by(l_shipdate)
DISTRIBUTED BY RANDOM BUCKETS 2
PROPERTIES ('replication_num' = '1')
AS
select l_shipdate, o_orderdate, l_partkey, l_suppkey, sum(o_totalprice) as sum_total
from lineitem
left join orders on lineitem.l_orderkey = orders.o_orderkey and l_shipdate = o_orderdate
group by
l_shipdate,
o_orderdate,
l_partkey,
l_suppkey;
--> CreateMaterializedView name=mv1 query='select l_shipdate, o_orderdate, l_partkey, l_suppkey, sum(o_totalprice) as sum_total\nfrom lineitem\nleft join orders on lineitem.l_orderkey = orders.o_orderkey and l_shipdate = o_orderdate\ngroup by\nl_shipdate,\no_orderdate,\nl_partkey,\nl_suppkey' properties=replication_num=1 deferred=True method='AUTO' trigger='MANUAL' partitioning(column='l_shipdate' follows=True) distribution(buckets=2)
CREATE MATERIALIZED VIEW mv1
BUILD DEFERRED REFRESH AUTO ON MANUAL
partition by(`order_date`)
DISTRIBUTED BY RANDOM BUCKETS 2
PROPERTIES (
'replication_num' = '1'
)
AS
SELECT t1.o_date as order_date, t1.user_id as user_id, t1.num, t2.age FROM t1 join t2 on t1.user_id=t2.user_id;
--> CreateMaterializedView name=mv1 query='SELECT t1.o_date as order_date, t1.user_id as user_id, t1.num, t2.age FROM t1 join t2 on t1.user_id=t2.user_id' properties=replication_num=1 deferred=True method='AUTO' trigger='MANUAL' partitioning(column='order_date' follows=True) distribution(buckets=2)
CREATE MATERIALIZED VIEW mv2
BUILD DEFERRED REFRESH AUTO ON MANUAL
partition by(`age`)
DISTRIBUTED BY RANDOM BUCKETS 2
PROPERTIES (
'replication_num' = '1'
)
AS
SELECT t1.o_date as order_date, t1.user_id as user_id, t1.num, t2.age FROM t1 join t2 on t1.user_id=t2.user_id;
--> CreateMaterializedView name=mv2 query='SELECT t1.o_date as order_date, t1.user_id as user_id, t1.num, t2.age FROM t1 join t2 on t1.user_id=t2.user_id' properties=replication_num=1 deferred=True method='AUTO' trigger='MANUAL' partitioning(column='age' follows=True) distribution(buckets=2)
CREATE MATERIALIZED VIEW mv_hive
BUILD DEFERRED REFRESH AUTO ON MANUAL
partition by(`year`)
DISTRIBUTED BY RANDOM BUCKETS 2
PROPERTIES ('replication_num' = '1')
AS
SELECT k1,year,region FROM hive1;
--> CreateMaterializedView name=mv_hive query='SELECT k1,year,region FROM hive1' properties=replication_num=1 deferred=True method='AUTO' trigger='MANUAL' partitioning(column='year' follows=True) distribution(buckets=2)
CREATE MATERIALIZED VIEW mv_hive2
BUILD DEFERRED REFRESH AUTO ON MANUAL
partition by(`region`)
DISTRIBUTED BY RANDOM BUCKETS 2
PROPERTIES ('replication_num' = '1')
AS
SELECT k1,year,region FROM hive1;
--> CreateMaterializedView name=mv_hive2 query='SELECT k1,year,region FROM hive1' properties=replication_num=1 deferred=True method='AUTO' trigger='MANUAL' partitioning(column='region' follows=True) distribution(buckets=2)
CREATE MATERIALIZED VIEW mv1
BUILD DEFERRED REFRESH AUTO ON MANUAL
partition by(`k2`)
DISTRIBUTED BY RANDOM BUCKETS 2
PROPERTIES (
'replication_num' = '1',
'partition_sync_limit'='1',
'partition_sync_time_unit'='DAY'
)
AS
SELECT * FROM t1;
--> CreateMaterializedView name=mv1 query='SELECT * FROM t1' properties=replication_num=1,partition_sync_limit=1,partition_sync_time_unit=DAY deferred=True method='AUTO' trigger='MANUAL' partitioning(column='k2' follows=True) distribution(buckets=2)
CREATE MATERIALIZED VIEW mv1
BUILD DEFERRED REFRESH AUTO ON MANUAL
partition by (date_trunc(`k2`,'month'))
DISTRIBUTED BY RANDOM BUCKETS 2
PROPERTIES (
'replication_num' = '1'
)
AS
SELECT * FROM t1;
--> CreateMaterializedView name=mv1 query='SELECT * FROM t1' properties=replication_num=1 deferred=True method='AUTO' trigger='MANUAL' partitioning(column='k2' unit='MONTH' follows=True) distribution(buckets=2)
CREATE MATERIALIZED VIEW mv1
BUILD DEFERRED REFRESH AUTO ON MANUAL
partition by (date_trunc(`k2`,'year'))
DISTRIBUTED BY RANDOM BUCKETS 2
PROPERTIES (
'replication_num' = '1'
)
AS
SELECT * FROM t1;
--> CreateMaterializedView name=mv1 query='SELECT * FROM t1' properties=replication_num=1 deferred=True method='AUTO' trigger='MANUAL' partitioning(column='k2' unit='YEAR' follows=True) distribution(buckets=2)
CREATE MATERIALIZED VIEW mv1
REFRESH COMPLETE ON SCHEDULE EVERY 10 hour
partition by(`xxx`)
AS
select * from t1;
--> CreateMaterializedView name=mv1 query='select * from t1' method='COMPLETE' trigger='SCHEDULE' every=10 unit='HOUR' partitioning(column='xxx' follows=True)
CREATE MATERIALIZED VIEW mv1
REFRESH AUTO ON SCHEDULE EVERY 10 hour
partition by(`xxx`)
AS
select * from t1;
--> CreateMaterializedView name=mv1 query='select * from t1' method='AUTO' trigger='SCHEDULE' every=10 unit='HOUR' partitioning(column='xxx' follows=True)
CREATE MATERIALIZED VIEW mv1
REFRESH ON COMMIT
partition by(`xxx`)
AS
select * from t1;
--> CreateMaterializedView name=mv1 query='select * from t1' trigger='COMMIT' partitioning(column='xxx' follows=True)
REFRESH MATERIALIZED VIEW mv1 partitions(p_20231017_20231018);
--> RefreshMaterializedView name=mv1 partitions=p_20231017_20231018
REFRESH MATERIALIZED VIEW mvName AUTO;
--> RefreshMaterializedView name=mvName method='AUTO'
REFRESH MATERIALIZED VIEW mvName COMPLETE;
--> RefreshMaterializedView name=mvName method='COMPLETE'
REFRESH MATERIALIZED VIEW mvName partitions(partitionName1,partitionName2);
--> RefreshMaterializedView name=mvName partitions=partitionName1,partitionName2
ALTER MATERIALIZED VIEW mv1 set("grace_period"="3333");
--> AlterMaterializedView name=mv1 change=SetProperties properties=grace_period=3333
DROP MATERIALIZED VIEW mv1;
--> DropMaterializedView name=mv1
CREATE MATERIALIZED VIEW IF NOT EXISTS shop.daily (day COMMENT 'of the order', total) BUILD IMMEDIATE REFRESH AUTO ON SCHEDULE EVERY 1 DAY STARTS "2030-01-31 04:00:00" DUPLICATE KEY (day) COMMENT 'sums' PARTITION BY (day) DISTRIBUTED BY HASH(day, total) BUCKETS AUTO PROPERTIES ("grace_period" = "60", "refresh_partition_num" = "2", "use_for_rewrite" = "TRUE", "workload_group" = "g1", "excluded_trigger_tables" = "shop.t2,t3") AS SELECT day, total FROM shop.t;
--> CreateMaterializedView name=shop.daily query='SELECT day, total FROM shop.t' columns=day:of the order,total comment='sums' properties=grace_period=60,refresh_partition_num=2,use_for_rewrite=true,workload_group=g1,excluded_trigger_tables=shop.t2,t3 if_not_exists=True method='AUTO' trigger='SCHEDULE' every=1 unit='DAY' starts='2030-01-31 04:00:00' partitioning(column='day' follows=True) distribution(columns=day,total) keys=day duplicate=True
CREATE MATERIALIZED VIEW mv KEY (a, b) DISTRIBUTED BY RANDOM AS SELECT a, b FROM t;
--> CreateMaterializedView name=mv query='SELECT a, b FROM t' distribution() keys=a,b
CREATE MATERIALIZED VIEW mv REFRESH COMPLETE AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='COMPLETE'
CREATE MATERIALIZED VIEW mv REFRESH ON SCHEDULE EVERY 5 MINUTES AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='SCHEDULE' every=5 unit='MINUTE'
CREATE MATERIALIZED VIEW mv REFRESH ON SCHEDULE EVERY 2 WEEK STARTS '2030-01-31' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' trigger='SCHEDULE' every=2 unit='WEEK' starts='2030-01-31 00:00:00'
CREATE MATERIALIZED VIEW mv REFRESH AUTO ON SCHEDULE EVERY 10 SECOND STARTS '9999-12-13 21:07:09' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='AUTO' trigger='SCHEDULE' every=10 unit='SECOND' starts='9999-12-13 21:07:09'
CREATE MATERIALIZED VIEW mv REFRESH ON SCHEDULE EVERY 1 HOUR STARTS '2030-02-30 04:00:00' AS SELECT 1 AS a;
--> SyntaxProblem '2030-02-30 04:00:00' is not a time: write it as '2030-01-31 04:00:00' (line 1, column 69)
CREATE MATERIALIZED VIEW mv REFRESH ON SCHEDULE EVERY 1 HOUR STARTS 'tomorrow' AS SELECT 1 AS a;
--> SyntaxProblem 'tomorrow' is not a time: write it as '2030-01-31 04:00:00' (line 1, column 69)
CREATE MATERIALIZED VIEW mv REFRESH ON SCHEDULE EVERY 0 HOUR AS SELECT 1 AS a;
--> SyntaxProblem expected how often after EVERY, a whole number from 1 to 999999, found 0 (line 1, column 55)
CREATE MATERIALIZED VIEW mv REFRESH ON SCHEDULE EVERY 1 MONTH AS SELECT 1 AS a;
--> SyntaxProblem expected a unit of the schedule (MINUTE, HOUR, DAY or WEEK), found MONTH (line 1, column 57)
CREATE MATERIALIZED VIEW mv REFRESH ON SCHEDULE 1 HOUR AS SELECT 1 AS a;
--> SyntaxProblem expected EVERY, found 1 (line 1, column 49)
CREATE MATERIALIZED VIEW mv REFRESH AUTO ON SCHEDULE CRON '0 4 * * *' AS SELECT 1 AS a;
--> SyntaxProblem expected EVERY (a cron expression is written SCHEDULE CRON '0 4 * * *', without ON), found CRON (line 1, column 54)
CREATE MATERIALIZED VIEW mv REFRESH AUTO SCHEDULE CRON '0 4 * * *' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='AUTO' trigger='SCHEDULE' cron='0 4 * * *'
CREATE MATERIALIZED VIEW mv REFRESH AS SELECT 1 AS a;
--> SyntaxProblem expected AUTO, INCREMENTAL, COMPLETE, ON with a trigger or TARGET LAG after REFRESH, found AS (line 1, column 37)
CREATE MATERIALIZED VIEW mv REFRESH ON AS SELECT 1 AS a;
--> SyntaxProblem expected MANUAL, DEMAND, COMMIT or SCHEDULE after ON, found AS (line 1, column 40)
CREATE MATERIALIZED VIEW mv REFRESH INCREMENTAL ON MANUAL AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='INCREMENTAL' trigger='MANUAL'
CREATE MATERIALIZED VIEW mv REFRESH INCREMENTAL FALLBACK ON SCHEDULE EVERY 1 HOUR AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' method='INCREMENTAL FALLBACK' trigger='SCHEDULE' every=1 unit='HOUR'
CREATE MATERIALIZED VIEW mv BUILD DEFERRED REFRESH incremental fallback AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' deferred=True method='INCREMENTAL FALLBACK'
CREATE MATERIALIZED VIEW mv REFRESH COMPLETE FALLBACK AS SELECT 1 AS a;
--> SyntaxProblem expected a clause (such as COMMENT, REFRESH, PARTITION BY or TBLPROPERTIES) or AS, found FALLBACK (line 1, column 46)
CREATE MATERIALIZED VIEW mv REFRESH PARTITIONS FALLBACK AS SELECT 1 AS a;
--> SyntaxProblem the method PARTITIONS is not supported: use AUTO (the cheapest method), INCREMENTAL or COMPLETE (line 1, column 37)
CREATE MATERIALIZED VIEW mv REFRESH AUTO REFRESH COMPLETE AS SELECT 1 AS a;
--> SyntaxProblem expected REFRESH only once, found REFRESH (line 1, column 42)
CREATE MATERIALIZED VIEW mv BUILD LATER AS SELECT 1 AS a;
--> SyntaxProblem expected IMMEDIATE, DEFERRED or COMPLETE after BUILD, found LATER (line 1, column 35)
CREATE MATERIALIZED VIEW mv PARTITION BY (date_trunc(k2, 'minute')) AS SELECT k2 FROM t;
--> SyntaxProblem timeUnit not support: minute; use HOUR, DAY, WEEK, MONTH, QUARTER or YEAR (line 1, column 58)
CREATE MATERIALIZED VIEW mv PARTITION BY (a, b) AS SELECT a, b FROM t;
--> CreateMaterializedView name=mv query='SELECT a, b FROM t' partitioning(column='a' follows=True further=b)
CREATE MATERIALIZED VIEW mv PARTITION BY (date_format(k2, '%Y')) AS SELECT k2 FROM t;
--> SyntaxProblem expected a column or date_trunc(column, 'unit'), found date_format (line 1, column 43)
CREATE MATERIALIZED VIEW mv PARTITION BY () AS SELECT k2 FROM t;
--> SyntaxProblem expected a column or date_trunc(column, 'unit'), found ) (line 1, column 43)
CREATE MATERIALIZED VIEW mv PARTITION BY (k2 AS SELECT k2 FROM t;
--> SyntaxProblem expected a comma or ) after the partition column, found AS (line 1, column 46)
CREATE MATERIALIZED VIEW mv PARTITION BY (date_trunc(k2)) AS SELECT k2 FROM t;
--> SyntaxProblem expected a comma (date_trunc takes a column and a unit such as 'month'), found ) (line 1, column 56)
CREATE MATERIALIZED VIEW mv DISTRIBUTED BY k2 BUCKETS 2 AS SELECT k2 FROM t;
--> SyntaxProblem expected HASH or RANDOM after DISTRIBUTED BY, found k2 (line 1, column 44)
CREATE MATERIALIZED VIEW mv DISTRIBUTED BY HASH(k2) BUCKETS 0 AS SELECT k2 FROM t;
--> SyntaxProblem expected AUTO or the number of buckets, a whole number from 1 to 999999, found 0 (line 1, column 61)
CREATE MATERIALIZED VIEW mv DISTRIBUTED BY HASH(k2, K2) BUCKETS 3 AS SELECT k2 FROM t;
--> SyntaxProblem K2 is listed twice (line 1, column 53)
CREATE MATERIALIZED VIEW mv PROPERTIES ('grace_perod' = '10') AS SELECT 1 AS a;
--> SyntaxProblem illegal key:grace_perod; did you mean grace_period? (line 1, column 41)
CREATE MATERIALIZED VIEW mv PROPERTIES ('nobody_knows' = '10') AS SELECT 1 AS a;
--> SyntaxProblem illegal key:nobody_knows; use TBLPROPERTIES for names of your own (line 1, column 41)
CREATE MATERIALIZED VIEW mv PROPERTIES ('grace_period' = 'long') AS SELECT 1 AS a;
--> SyntaxProblem valid grace_period: a number of seconds, 0 or more; found 'long' (line 1, column 41)
CREATE MATERIALIZED VIEW mv PROPERTIES ('grace_period' = '-1') AS SELECT 1 AS a;
--> SyntaxProblem valid grace_period: a number of seconds, 0 or more; found '-1' (line 1, column 41)
CREATE MATERIALIZED VIEW mv PROPERTIES ('partition_sync_limit' = '0') AS SELECT 1 AS a;
--> SyntaxProblem valid partition_sync_limit: a whole number, 1 or more; found '0' (line 1, column 41)
CREATE MATERIALIZED VIEW mv PROPERTIES ('partition_sync_time_unit' = 'week') AS SELECT 1 AS a;
--> SyntaxProblem valid partition_sync_time_unit: DAY, MONTH, YEAR; found 'week' (line 1, column 41)
CREATE MATERIALIZED VIEW mv PROPERTIES ('enable_nondeterministic_function' = 'yes') AS SELECT 1 AS a;
--> SyntaxProblem valid enable_nondeterministic_function: true or false; found 'yes' (line 1, column 41)
CREATE MATERIALIZED VIEW mv PROPERTIES ('partition_date_format' = '%Y-%m-%d', 'refresh_partition_num' = '-3', 'session.spark.sql.shuffle.partitions' = '8') AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=partition_date_format=%Y-%m-%d,refresh_partition_num=-3,session.spark.sql.shuffle.partitions=8
CREATE MATERIALIZED VIEW mv PROPERTIES ('replication_num' = '1') PROPERTIES ('replication_num' = '1') AS SELECT 1 AS a;
--> SyntaxProblem expected PROPERTIES only once, found PROPERTIES (line 1, column 66)
REFRESH MATERIALIZED VIEW mv PARTITION p_2020;
--> RefreshMaterializedView name=mv partitions=p_2020
REFRESH MATERIALIZED VIEW mv PARTITIONS (`p a`, 'd=2020-01-01', p_2020, p_2020);
--> RefreshMaterializedView name=mv partitions=p a,d=2020-01-01,p_2020
REFRESH MATERIALIZED VIEW mv PARTITIONS;
--> SyntaxProblem the method PARTITIONS is not supported: use AUTO (the cheapest method), INCREMENTAL or COMPLETE (line 1, column 30)
REFRESH MATERIALIZED VIEW mv PARTITIONS ();
--> SyntaxProblem expected a partition's name, as shown by SHOW PARTITIONS, found ) (line 1, column 42)
REFRESH MATERIALIZED VIEW mv INCREMENTAL;
--> RefreshMaterializedView name=mv method='INCREMENTAL'
REFRESH MATERIALIZED VIEW mv INCREMENTAL FALLBACK;
--> RefreshMaterializedView name=mv method='INCREMENTAL FALLBACK'
REFRESH MATERIALIZED VIEW mv AS INCREMENTAL FALLBACK ASYNC;
--> RefreshMaterializedView name=mv method='INCREMENTAL FALLBACK' wait=False
REFRESH MATERIALIZED VIEW incremental INCREMENTAL WITH SYNC MODE;
--> RefreshMaterializedView name=incremental method='INCREMENTAL'
REFRESH MATERIALIZED VIEW mv FALLBACK;
--> SyntaxProblem expected the end of the statement, found FALLBACK (line 1, column 30)
REFRESH MATERIALIZED VIEW mv INCREMENTAL COMPLETE;
--> SyntaxProblem expected method, partitions, DATA and SYNC or ASYNC only once each (line 1, column 42)
REFRESH MATERIALIZED VIEW mv INCREMENTAL PARTITIONS (p1);
--> SyntaxProblem expected either a method or partitions, found the end of the statement (line 1, column 57)
REFRESH MATERIALIZED VIEW mv INCREMENTAL WITH NO DATA;
--> SyntaxProblem expected no other option with WITH NO DATA, which empties the view, found the end of the statement (line 1, column 54)
REFRESH MATERIALIZED VIEW mv INCREMENTAL WITH DRY RUN LIMIT 3;
--> SyntaxProblem WITH DRY RUN is not supported: use EXPLAIN REFRESH (line 1, column 42)
EXPLAIN REFRESH MATERIALIZED VIEW mv INCREMENTAL;
--> Explain statement=RefreshMaterializedView name=mv method='INCREMENTAL'
ALTER MATERIALIZED VIEW mv REFRESH INCREMENTAL FALLBACK ON COMMIT;
--> AlterMaterializedView name=mv change=SetRefreshing method='INCREMENTAL FALLBACK' trigger='COMMIT'
REFRESH MATERIALIZED VIEW mv COMPLETE PARTITIONS (p1);
--> SyntaxProblem expected either a method or partitions, found the end of the statement (line 1, column 54)
REFRESH MATERIALIZED VIEW mv AUTO COMPLETE;
--> SyntaxProblem expected method, partitions, DATA and SYNC or ASYNC only once each (line 1, column 35)
EXPLAIN REFRESH MATERIALIZED VIEW mv COMPLETE;
--> Explain statement=RefreshMaterializedView name=mv method='COMPLETE'
ALTER MATERIALIZED VIEW db.mv RENAME mv2;
--> AlterMaterializedView name=db.mv change=Rename name=mv2
ALTER MATERIALIZED VIEW mv REFRESH COMPLETE;
--> AlterMaterializedView name=mv change=SetRefreshing method='COMPLETE'
ALTER MATERIALIZED VIEW mv REFRESH ON MANUAL;
--> AlterMaterializedView name=mv change=SetRefreshing trigger='MANUAL'
ALTER MATERIALIZED VIEW mv REFRESH AUTO ON SCHEDULE EVERY 3 HOUR STARTS '2030-01-31T04:00:00';
--> AlterMaterializedView name=mv change=SetRefreshing method='AUTO' trigger='SCHEDULE' every=3 unit='HOUR' starts='2030-01-31 04:00:00'
ALTER MATERIALIZED VIEW mv REFRESH;
--> SyntaxProblem expected AUTO, INCREMENTAL, COMPLETE, ON with a trigger or TARGET LAG after REFRESH, found the end of the statement (line 1, column 35)
ALTER MATERIALIZED VIEW mv1 REPLACE WITH MATERIALIZED VIEW mv2;
--> AlterMaterializedView name=mv1 change=ReplaceWith name=mv2
ALTER MATERIALIZED VIEW db.mv1 REPLACE WITH MATERIALIZED VIEW db.mv2 PROPERTIES('swap' = 'false');
--> AlterMaterializedView name=db.mv1 change=ReplaceWith name=db.mv2 swap=False
ALTER MATERIALIZED VIEW mv1 REPLACE WITH MATERIALIZED VIEW mv2 PROPERTIES("swap" = "TRUE");
--> AlterMaterializedView name=mv1 change=ReplaceWith name=mv2
ALTER MATERIALIZED VIEW mv1 REPLACE WITH MATERIALIZED VIEW mv2 PROPERTIES('swap' = 'maybe');
--> SyntaxProblem valid swap: true or false; found 'maybe' (line 1, column 74)
ALTER MATERIALIZED VIEW mv1 REPLACE WITH MATERIALIZED VIEW mv2 PROPERTIES('force' = 'true');
--> SyntaxProblem illegal key:force; REPLACE WITH takes only swap (line 1, column 74)
ALTER MATERIALIZED VIEW mv1 REPLACE WITH MATERIALIZED VIEW;
--> SyntaxProblem expected the other view's name, found the end of the statement (line 1, column 59)
ALTER MATERIALIZED VIEW mv SET ("nobody_knows" = "1");
--> SyntaxProblem illegal key:nobody_knows; use TBLPROPERTIES for names of your own (line 1, column 33)
ALTER MATERIALIZED VIEW mv SET ("grace_period" = "soon");
--> SyntaxProblem valid grace_period: a number of seconds, 0 or more; found 'soon' (line 1, column 33)
ALTER MATERIALIZED VIEW mv SET;
--> SyntaxProblem expected (properties), TBLPROPERTIES, OWNER, SECURITY, IMMUTABLE, WHEN STALE, GRACE PERIOD or IN MEMORY after SET, found the end of the statement (line 1, column 31)
DROP MATERIALIZED VIEW IF EXISTS mv ON db.t;
--> DropMaterializedView name=mv if_exists=True
SHOW CREATE MATERIALIZED VIEW db.mv;
--> ShowCreate name=db.mv
SHOW CREATE MATERIALIZED VIEW;
--> SyntaxProblem expected the view's name, found the end of the statement (line 1, column 30)
PAUSE MATERIALIZED VIEW JOB ON mv1;
--> PauseJob name=mv1 paused=True
RESUME MATERIALIZED VIEW JOB ON db.mv1;
--> PauseJob name=db.mv1
RESUME MATERIALIZED VIEW mv1;
--> SyntaxProblem expected JOB ON, found mv1 (line 1, column 26)
PAUSE MATERIALIZED VIEW JOB mv1;
--> PauseJob name=mv1 paused=True
RESUME MATERIALIZED VIEW JOB db.mv1;
--> PauseJob name=db.mv1
PAUSE MATERIALIZED VIEW JOB on;
--> PauseJob name=on paused=True
PAUSE MATERIALIZED VIEW JOB ON on;
--> PauseJob name=on paused=True
PAUSE MATERIALIZED VIEW JOB;
--> SyntaxProblem expected ON and the view's name, found the end of the statement (line 1, column 28)
PAUSE MATERIALIZED VIEW JOB mv1 now;
--> SyntaxProblem expected the end of the statement, found now (line 1, column 33)
CANCEL MATERIALIZED VIEW TASK 7 mv1;
--> CancelTask name=mv1 task=7
REFRESH MATERIALIZED VIEW mv1 AS AUTO;
--> RefreshMaterializedView name=mv1 method='AUTO'
REFRESH MATERIALIZED VIEW db.mv1 AS COMPLETE ASYNC;
--> RefreshMaterializedView name=db.mv1 method='COMPLETE' wait=False
REFRESH MATERIALIZED VIEW mv1 AS ASYNC;
--> RefreshMaterializedView name=mv1 wait=False
REFRESH MATERIALIZED VIEW mv1 AS PARTITIONS (p_1, p_2);
--> RefreshMaterializedView name=mv1 partitions=p_1,p_2
REFRESH MATERIALIZED VIEW mv1 AS PARTITION p_1;
--> RefreshMaterializedView name=mv1 partitions=p_1
REFRESH MATERIALIZED VIEW as AS AUTO;
--> RefreshMaterializedView name=as method='AUTO'
REFRESH MATERIALIZED VIEW mv1 AS;
--> SyntaxProblem expected a method, PARTITIONS, SYNC or ASYNC after AS, found the end of the statement (line 1, column 33)
REFRESH MATERIALIZED VIEW mv1 AS SELECT 1;
--> SyntaxProblem expected a method, PARTITIONS, SYNC or ASYNC after AS, found SELECT (line 1, column 34)
CANCEL MATERIALIZED VIEW TASK 1795284000123456 ON mv1;
--> CancelTask name=mv1 task=1795284000123456
CANCEL MATERIALIZED VIEW TASK x ON mv1;
--> SyntaxProblem expected the task's id after TASK, a whole number from 1 to 9223372036854775807, found x (line 1, column 31)
CREATE MATERIALIZED VIEW mv PARTITION BY (bucket(16, a), date_trunc(b, 'hour')) AS SELECT a, b FROM t;
--> CreateMaterializedView name=mv query='SELECT a, b FROM t' partitioning(column='a' follows=True further=date_trunc(b, 'HOUR') transform='bucket(16)')
CREATE MATERIALIZED VIEW mv PARTITION BY (truncate(a, 2), truncate(3, b)) AS SELECT a, b FROM t;
--> CreateMaterializedView name=mv query='SELECT a, b FROM t' partitioning(column='a' follows=True further=truncate(3, b) transform='truncate(2)')
CREATE MATERIALIZED VIEW mv PARTITION BY (bucket(a)) AS SELECT a FROM t;
--> SyntaxProblem expected a comma and a number after the column, found ) (line 1, column 51)
CREATE MATERIALIZED VIEW mv PARTITION BY (a, A) AS SELECT a FROM t;
--> SyntaxProblem the column A occurs twice (line 1, column 46)
