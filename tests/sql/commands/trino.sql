-- Trino.
CREATE MATERIALIZED VIEW cancelled_orders AS SELECT orderkey, totalprice FROM orders WHERE orderstatus = 3;
--> CreateMaterializedView name=cancelled_orders query='SELECT orderkey, totalprice FROM orders WHERE orderstatus = 3'
CREATE OR REPLACE MATERIALIZED VIEW order_totals GRACE PERIOD INTERVAL '10' MINUTE WHEN STALE INLINE COMMENT 'by day' WITH (format = 'ORC', partitioning = ARRAY['month(order_date)'], sorted_by = ARRAY['order_date'], storage_schema = 's') AS SELECT orderdate AS order_date, sum(totalprice) AS price FROM orders GROUP BY orderdate;
--> CreateMaterializedView name=order_totals query='SELECT orderdate AS order_date, sum(totalprice) AS price FROM orders GROUP BY orderdate' comment='by day' properties=grace_period=600,when_stale=INLINE,sorted_by=ARRAY['order_date'],storage_schema=s or_replace=True partitioning(column='order_date' unit='MONTH') file_format='orc'
CREATE MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '1' DAY WHEN STALE FAIL AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=grace_period=86400,when_stale=FAIL
CREATE MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '1 02:03:04' DAY TO SECOND AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=grace_period=93784
CREATE MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '2:30' HOUR TO MINUTE AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=grace_period=9000
CREATE MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '0.5' SECOND AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=grace_period=0.5
CREATE MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '1' MONTH AS SELECT 1 AS a;
--> SyntaxProblem '1' is not an interval of fixed length in MONTH (line 1, column 42)
CREATE MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '10' AS SELECT 1 AS a;
--> SyntaxProblem expected a unit of time (SECOND, MINUTE, HOUR, DAY or WEEK), found AS (line 1, column 56)
CREATE MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '-10' MINUTE AS SELECT 1 AS a;
--> SyntaxProblem '-10' is not an interval of fixed length in MINUTE (line 1, column 42)
CREATE MATERIALIZED VIEW mv GRACE PERIOD INTERVAL '1:2:3' HOUR TO MINUTE AS SELECT 1 AS a;
--> SyntaxProblem '1:2:3' is not an interval of fixed length in HOUR TO MINUTE (line 1, column 42)
CREATE MATERIALIZED VIEW mv GRACE PERIOD 10 MINUTE GRACE PERIOD 20 MINUTE AS SELECT 1 AS a;
--> SyntaxProblem the property grace_period is given twice (line 1, column 52)
CREATE MATERIALIZED VIEW mv GRACE PERIOD 10 MINUTE TBLPROPERTIES ('grace_period' = '20') AS SELECT 1 AS a;
--> SyntaxProblem the property grace_period is given twice (line 1, column 67)
CREATE MATERIALIZED VIEW mv WHEN STALE SHRUG AS SELECT 1 AS a;
--> SyntaxProblem expected REFRESH, SERVE, INLINE or FAIL after WHEN STALE, found SHRUG (line 1, column 40)
CREATE MATERIALIZED VIEW mv WITH (format = 'AVRO') AS SELECT 1 AS a;
--> SyntaxProblem valid format: PARQUET, ORC; found 'AVRO' (line 1, column 35)
CREATE MATERIALIZED VIEW mv WITH (format = 'PARQUET', location = '/data/mv', partitioned_by = ARRAY['day']) AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' partitioning(column='day') file_format='parquet' location='/data/mv'
CREATE MATERIALIZED VIEW mv WITH (partitioning = ARRAY['bucket(a, 3)']) AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' partitioning(column='a' transform='bucket(3)')
CREATE MATERIALIZED VIEW mv WITH (partitioning = ARRAY['a', 'b']) AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' partitioning(column='a' further=b)
CREATE MATERIALIZED VIEW mv USING orc WITH (format = 'ORC') AS SELECT 1 AS a;
--> SyntaxProblem expected one clause for the file format, which USING already sets, found format (line 1, column 45)
CREATE OR REPLACE MATERIALIZED VIEW mv SECURITY INVOKER GRACE PERIOD 10 MINUTE COMMENT 'c' AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' comment='c' properties=grace_period=600 or_replace=True security='INVOKER'
CREATE MATERIALIZED VIEW IF NOT EXISTS mv (a) PARTITION BY (a) SECURITY DEFINER TBLPROPERTIES ('a' = 'b') AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' columns=a properties=a=b if_not_exists=True partitioning(column='a' follows=True) security='DEFINER'
CREATE MATERIALIZED VIEW mv SECURITY OWNER AS SELECT 1 AS a;
--> SyntaxProblem expected DEFINER or INVOKER after SECURITY, found OWNER (line 1, column 38)
CREATE MATERIALIZED VIEW mv SECURITY INVOKER SECURITY DEFINER AS SELECT 1 AS a;
--> SyntaxProblem expected SECURITY only once, found SECURITY (line 1, column 46)
CREATE MATERIALIZED VIEW security SECURITY INVOKER AS SELECT 1 AS a;
--> CreateMaterializedView name=security query='SELECT 1 AS a' security='INVOKER'
ALTER MATERIALIZED VIEW mv SET SECURITY INVOKER;
--> AlterMaterializedView name=mv change=SetSecurity security='INVOKER'
ALTER MATERIALIZED VIEW mv SET SECURITY DEFINER;
--> AlterMaterializedView name=mv change=SetSecurity security='DEFINER'
ALTER MATERIALIZED VIEW mv SET SECURITY;
--> SyntaxProblem expected DEFINER or INVOKER after SECURITY, found the end of the statement (line 1, column 40)
REFRESH MATERIALIZED VIEW order_totals;
--> RefreshMaterializedView name=order_totals
ALTER MATERIALIZED VIEW IF EXISTS people RENAME TO users;
--> AlterMaterializedView name=people change=Rename name=users if_exists=True
ALTER MATERIALIZED VIEW people SET PROPERTIES sorted_by = ARRAY['a'], grace_period = 60;
--> AlterMaterializedView name=people change=SetProperties properties=sorted_by=ARRAY['a'],grace_period=60
ALTER MATERIALIZED VIEW people SET PROPERTIES format = 'ORC';
--> SyntaxProblem the format cannot be altered: use CREATE OR REPLACE to change it (line 1, column 36)
ALTER MATERIALIZED VIEW people SET PROPERTIES x = 'y';
--> SyntaxProblem illegal key:x; use TBLPROPERTIES for names of your own (line 1, column 47)
ALTER MATERIALIZED VIEW people SET AUTHORIZATION alice;
--> AlterMaterializedView name=people change=SetOwner owner='alice'
ALTER MATERIALIZED VIEW people SET AUTHORIZATION USER alice;
--> AlterMaterializedView name=people change=SetOwner owner='alice'
ALTER MATERIALIZED VIEW people SET AUTHORIZATION ROLE readers;
--> SyntaxProblem expected a user (a role cannot own a view), found ROLE (line 1, column 50)
DROP MATERIALIZED VIEW IF EXISTS orders_by_date;
--> DropMaterializedView name=orders_by_date if_exists=True
SHOW CREATE MATERIALIZED VIEW orders_by_date;
--> ShowCreate name=orders_by_date
COMMENT ON MATERIALIZED VIEW orders_by_date IS 'x';
--> AlterMaterializedView name=orders_by_date change=SetComment comment='x'
