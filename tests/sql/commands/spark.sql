-- Spark's clauses for tables and views, on a materialized view.
CREATE MATERIALIZED VIEW mv USING parquet PARTITIONED BY (day) CLUSTERED BY (a, b) SORTED BY (a ASC, b) INTO 8 BUCKETS LOCATION 's3://bucket/mv' TBLPROPERTIES ('k' = 'v') AS SELECT a, b, day FROM t;
--> CreateMaterializedView name=mv query='SELECT a, b, day FROM t' properties=k=v partitioning(column='day') distribution(columns=a,b buckets=8 sorted_by=a,b) file_format='parquet' location='s3://bucket/mv'
CREATE MATERIALIZED VIEW mv CLUSTERED BY (a) INTO 4 BUCKETS AS SELECT a FROM t;
--> CreateMaterializedView name=mv query='SELECT a FROM t' distribution(columns=a buckets=4)
CREATE MATERIALIZED VIEW mv PARTITIONED BY (months(day)) AS SELECT day FROM t;
--> CreateMaterializedView name=mv query='SELECT day FROM t' partitioning(column='day' unit='MONTH')
CREATE MATERIALIZED VIEW mv PARTITION BY date_trunc('YEAR', day) AS SELECT day FROM t;
--> CreateMaterializedView name=mv query='SELECT day FROM t' partitioning(column='day' unit='YEAR')
CREATE MATERIALIZED VIEW mv PARTITIONED BY (day DATE) AS SELECT day FROM t;
--> SyntaxProblem expected a comma or ) after the partition column, found DATE (line 1, column 49)
CREATE MATERIALIZED VIEW mv PARTITIONED BY (bucket(4, a)) AS SELECT a FROM t;
--> CreateMaterializedView name=mv query='SELECT a FROM t' partitioning(column='a' transform='bucket(4)')
CREATE MATERIALIZED VIEW mv PARTITIONED BY (a) PARTITION BY (b) AS SELECT a, b FROM t;
--> SyntaxProblem expected one clause for the partitioning, which PARTITIONED BY already sets, found PARTITION (line 1, column 48)
CREATE MATERIALIZED VIEW mv CLUSTERED BY (a) AS SELECT a FROM t;
--> SyntaxProblem expected SORTED BY or INTO with the number of buckets after CLUSTERED BY, found AS (line 1, column 46)
CREATE MATERIALIZED VIEW mv CLUSTERED BY (a) SORTED BY (a DESC) INTO 4 BUCKETS AS SELECT a FROM t;
--> SyntaxProblem expected ASC, a comma or ) after the column, found DESC (line 1, column 59)
CREATE MATERIALIZED VIEW mv CLUSTERED BY (a) INTO 4 BUCKETS DISTRIBUTED BY RANDOM AS SELECT a FROM t;
--> SyntaxProblem expected one clause for the distribution, which CLUSTERED BY already sets, found DISTRIBUTED (line 1, column 61)
CREATE MATERIALIZED VIEW mv USING csv AS SELECT 1 AS a;
--> SyntaxProblem expected PARQUET, ORC, ICEBERG or DELTA after USING, found csv (line 1, column 35)
CREATE MATERIALIZED VIEW mv USING orc STORED AS orc AS SELECT 1 AS a;
--> SyntaxProblem expected one clause for the file format, which USING already sets, found STORED (line 1, column 39)
CREATE MATERIALIZED VIEW mv LOCATION AS SELECT 1 AS a;
--> SyntaxProblem expected a directory as a string after LOCATION, found AS (line 1, column 38)
CREATE MATERIALIZED VIEW mv TBLPROPERTIES ('freshgate.owner' = 'me') AS SELECT 1 AS a;
--> SyntaxProblem the property freshgate.owner is reserved by Freshgate; choose a name without freshgate. (line 1, column 44)
CREATE MATERIALIZED VIEW mv TBLPROPERTIES ('grace_perod' = '10') AS SELECT 1 AS a;
--> SyntaxProblem the property grace_perod is unknown: did you mean grace_period? (line 1, column 44)
CREATE MATERIALIZED VIEW mv TBLPROPERTIES ('when_stale' = 'inline', 'use_for_rewrite' = 'False', 'a.b' = 1.5) AS SELECT 1 AS a;
--> CreateMaterializedView name=mv query='SELECT 1 AS a' properties=when_stale=INLINE,use_for_rewrite=false,a.b=1.5
CREATE MATERIALIZED VIEW mv TBLPROPERTIES AS SELECT 1 AS a;
--> SyntaxProblem expected (properties), found AS (line 1, column 43)
CREATE MATERIALIZED VIEW mv TBLPROPERTIES ('a' = b) AS SELECT 1 AS a;
--> SyntaxProblem expected a string, a number, TRUE or FALSE as the property's value (line 1, column 50)
ALTER MATERIALIZED VIEW db.mv RENAME TO db.mv2;
--> AlterMaterializedView name=db.mv change=Rename name=db.mv2
ALTER MATERIALIZED VIEW mv SET TBLPROPERTIES ('freshgate.id' = '1');
--> SyntaxProblem the property freshgate.id is reserved by Freshgate; choose a name without freshgate. (line 1, column 47)
ALTER MATERIALIZED VIEW mv UNSET TBLPROPERTIES ('freshgate.id');
--> SyntaxProblem the property freshgate.id belongs to Freshgate and cannot be removed (line 1, column 49)
ALTER MATERIALIZED VIEW mv UNSET PROPERTIES ('a');
--> AlterMaterializedView name=mv change=UnsetProperties keys=a
ALTER MATERIALIZED VIEW mv UNSET ();
--> SyntaxProblem expected a property key, found ) (line 1, column 35)
REFRESH MATERIALIZED VIEW mv PARTITION (year = 2020);
--> RefreshMaterializedView name=mv partitions=year=2020
REFRESH MATERIALIZED VIEW mv PARTITION (day = '2020-01-01');
--> RefreshMaterializedView name=mv partitions=day=2020-01-01
DESCRIBE MATERIALIZED VIEW db.mv;
--> Describe name=db.mv
DESC MATERIALIZED VIEW EXTENDED mv;
--> Describe name=mv extended=True
DESC FORMATTED MATERIALIZED VIEW extended;
--> Describe name=extended extended=True
DESCRIBE MATERIALIZED VIEW mv a;
--> SyntaxProblem expected the end of the statement, found a (line 1, column 31)
EXPLAIN EXTENDED CREATE OR REPLACE MATERIALIZED VIEW mv COMMENT 'x' AS SELECT 1 AS a;
--> Explain statement=CreateMaterializedView name=mv query='SELECT 1 AS a' comment='x' or_replace=True
EXPLAIN FORMATTED REFRESH MATERIALIZED VIEW mv;
--> Explain statement=RefreshMaterializedView name=mv
EXPLAIN REFRESH MATERIALIZED VIEW;
--> SyntaxProblem expected the view's name, found the end of the statement (line 1, column 34)
ANALYZE MATERIALIZED VIEW db.mv COMPUTE STATISTICS FOR ALL COLUMNS;
--> Analyze name=db.mv rest='COMPUTE STATISTICS FOR ALL COLUMNS'
COMMENT ON MATERIALIZED VIEW mv IS "x";
--> AlterMaterializedView name=mv change=SetComment comment='x'
