-- BigQuery: the emulator's unchanged examples, then the forms of its documentation.
CREATE MATERIALIZED VIEW sales.daily_totals AS
SELECT DATE(placed_at) AS day, SUM(amount) AS total
FROM sales.orders
GROUP BY day;
--> CreateMaterializedView name=sales.daily_totals query='SELECT DATE(placed_at) AS day, SUM(amount) AS total\nFROM sales.orders\nGROUP BY day'
REFRESH MATERIALIZED VIEW sales.daily_totals;
--> RefreshMaterializedView name=sales.daily_totals
CALL BQ.REFRESH_MATERIALIZED_VIEW('project.sales.daily_totals');
--> RefreshMaterializedView name=sales.daily_totals
DROP MATERIALIZED VIEW sales.daily_totals;
--> DropMaterializedView name=sales.daily_totals
CREATE OR REPLACE MATERIALIZED VIEW `my-project`.shop.daily PARTITION BY DATE(placed_at) CLUSTER BY customer, region OPTIONS (enable_refresh = true, refresh_interval_minutes = 60, max_staleness = INTERVAL "4:0:0" HOUR TO SECOND, friendly_name = "Daily", labels = [("team", "sales"), ("cost", "low")], description = "sums by day") AS SELECT placed_at, customer, region FROM shop.orders;
--> CreateMaterializedView name=my-project.shop.daily query='SELECT placed_at, customer, region FROM shop.orders' comment='sums by day' properties=enable_refresh=true,refresh_interval_minutes=60,max_staleness=INTERVAL "4:0:0" HOUR TO SECOND,friendly_name=Daily,labels=[("team", "sales"), ("cost", "low")] or_replace=True partitioning(column='placed_at' unit='DAY') clustering(distributed=customer,region sorted_by=customer,region)
CREATE MATERIALIZED VIEW mv PARTITION BY DATE_TRUNC(day, MONTH) AS SELECT day FROM t;
--> CreateMaterializedView name=mv query='SELECT day FROM t' partitioning(column='day' unit='MONTH')
CREATE MATERIALIZED VIEW mv PARTITION BY TIMESTAMP_TRUNC(at, HOUR) OPTIONS (allow_non_incremental_definition = TRUE) AS SELECT at FROM t;
--> CreateMaterializedView name=mv query='SELECT at FROM t' properties=allow_non_incremental_definition=true partitioning(column='at' unit='HOUR')
CREATE MATERIALIZED VIEW mv PARTITION BY DATETIME_TRUNC(at, YEAR) AS SELECT at FROM t;
--> CreateMaterializedView name=mv query='SELECT at FROM t' partitioning(column='at' unit='YEAR')
CREATE MATERIALIZED VIEW mv PARTITION BY day CLUSTER BY day AS SELECT day FROM t;
--> CreateMaterializedView name=mv query='SELECT day FROM t' partitioning(column='day') clustering(distributed=day sorted_by=day)
CREATE MATERIALIZED VIEW mv PARTITION BY RANGE_BUCKET(id, GENERATE_ARRAY(0, 100, 10)) AS SELECT id FROM t;
--> SyntaxProblem expected a column or date_trunc(column, 'unit'), found RANGE_BUCKET (line 1, column 42)
CREATE MATERIALIZED VIEW mv PARTITION BY DATE_TRUNC(day, MINUTE) AS SELECT day FROM t;
--> SyntaxProblem timeUnit not support: MINUTE; use HOUR, DAY, WEEK, MONTH, QUARTER or YEAR (line 1, column 58)
CREATE MATERIALIZED VIEW mv PARTITION BY a, b AS SELECT a, b FROM t;
--> SyntaxProblem expected a clause (such as COMMENT, REFRESH, PARTITION BY or TBLPROPERTIES) or AS, found , (line 1, column 43)
CREATE MATERIALIZED VIEW mv OPTIONS (expiration_timestamp = TIMESTAMP "2030-01-01 00:00:00 UTC", kms_key_name = "projects/p/key") AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=expiration_timestamp=TIMESTAMP "2030-01-01 00:00:00 UTC",kms_key_name=projects/p/key
CREATE MATERIALIZED VIEW mv OPTIONS (max_staleness = INTERVAL "0-0 0 8:0:0" YEAR TO SECOND) AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=max_staleness=INTERVAL "0-0 0 8:0:0" YEAR TO SECOND
CREATE MATERIALIZED VIEW mv OPTIONS (max_staleness = INTERVAL 30 MINUTE) AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=max_staleness=INTERVAL 30 MINUTE
CREATE MATERIALIZED VIEW mv OPTIONS (max_staleness = INTERVAL "1" MONTH) AS SELECT 1 AS a;
--> SyntaxProblem valid max_staleness: an interval of fixed length, such as INTERVAL '30' MINUTE; found 'INTERVAL "1" MONTH' (line 1, column 38)
CREATE MATERIALIZED VIEW mv OPTIONS (enable_refresh = "perhaps") AS SELECT 1 AS a;
--> SyntaxProblem valid enable_refresh: true or false; found 'perhaps' (line 1, column 38)
CREATE MATERIALIZED VIEW mv OPTIONS (refresh_interval_minutes = "often") AS SELECT 1 AS a;
--> SyntaxProblem valid refresh_interval_minutes: a number of minutes; found 'often' (line 1, column 38)
CREATE MATERIALIZED VIEW mv OPTIONS (labels = ["a", 1]) AS SELECT 1 AS a;
--> SyntaxProblem expected strings, commas and ] in the array, found 1 (line 1, column 53)
CREATE MATERIALIZED VIEW mv OPTIONS (labels = ["a", "b") AS SELECT 1 AS a;
--> SyntaxProblem expected strings, commas and ] in the array, found ) (line 1, column 56)
CREATE MATERIALIZED VIEW mv OPTIONS (description = "one") COMMENT 'two' AS SELECT 1 AS a;
--> SyntaxProblem expected one clause for the comment, which description already sets, found COMMENT (line 1, column 59)
CREATE MATERIALIZED VIEW mv OPTIONS (expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)) AS SELECT 1 AS a;
--> SyntaxProblem expected a string, a number, TRUE or FALSE as the property's value (line 1, column 61)
ALTER MATERIALIZED VIEW mydataset.mv SET OPTIONS (enable_refresh = false, refresh_interval_minutes = 20);
--> AlterMaterializedView name=mydataset.mv change=SetProperties properties=enable_refresh=false,refresh_interval_minutes=20
ALTER MATERIALIZED VIEW IF EXISTS mv SET OPTIONS (max_staleness = INTERVAL "4" HOUR);
--> AlterMaterializedView name=mv change=SetProperties properties=max_staleness=INTERVAL "4" HOUR if_exists=True
ALTER MATERIALIZED VIEW mv SET OPTIONS (description = "sums by day");
--> AlterMaterializedView name=mv change=SetComment comment='sums by day'
ALTER MATERIALIZED VIEW mv SET OPTIONS (description = "sums", friendly_name = "x");
--> SyntaxProblem the description must be set alone: use a separate statement for it (line 1, column 32)
DROP MATERIALIZED VIEW IF EXISTS p.d.v;
--> DropMaterializedView name=p.d.v if_exists=True
CALL BQ.REFRESH_MATERIALIZED_VIEW('d.v', 'x');
--> SyntaxProblem expected ), found , (line 1, column 40)
CALL BQ.REFRESH_MATERIALIZED_VIEW(d.v);
--> SyntaxProblem expected the view's name as a string, found d (line 1, column 35)
