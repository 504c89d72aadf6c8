-- Hive.
CREATE MATERIALIZED VIEW IF NOT EXISTS db.mv DISABLE REWRITE COMMENT 'sums' PARTITIONED ON (day) CLUSTERED ON (a) STORED AS ORC LOCATION '/warehouse/mv' TBLPROPERTIES ('rewriting.time.window' = '10min', 'my.own' = 'x') AS SELECT a, day FROM t;
--> CreateMaterializedView name=db.mv query='SELECT a, day FROM t' comment='sums' properties=use_for_rewrite=false,rewriting.time.window=10min,my.own=x if_not_exists=True partitioning(column='day') clustering(distributed=a sorted_by=a) file_format='orc' location='/warehouse/mv'
CREATE MATERIALIZED VIEW mv DISTRIBUTED ON (a, b) SORTED ON (c) STORED AS PARQUET AS SELECT a, b, c FROM t;
--> CreateMaterializedView name=mv query='SELECT a, b, c FROM t' clustering(distributed=a,b sorted_by=c) file_format='parquet'
CREATE MATERIALIZED VIEW mv DISTRIBUTED ON (a) AS SELECT a FROM t;
--> CreateMaterializedView name=mv query='SELECT a FROM t' clustering(distributed=a)
CREATE MATERIALIZED VIEW mv CLUSTERED ON (a) DISTRIBUTED ON (b) SORTED ON (c) AS SELECT a, b, c FROM t;
--> SyntaxProblem expected one clause for the clustering, which CLUSTERED ON already sets, found DISTRIBUTED (line 1, column 46)
CREATE MATERIALIZED VIEW mv PARTITIONED ON (a, b) AS SELECT a, b FROM t;
--> CreateMaterializedView name=mv query='SELECT a, b FROM t' partitioning(column='a' further=b)
CREATE MATERIALIZED VIEW mv STORED AS TEXTFILE AS SELECT 1 AS a;
--> SyntaxProblem expected PARQUET or ORC after STORED AS, found TEXTFILE (line 1, column 39)
CREATE MATERIALIZED VIEW mv STORED BY 'org.apache.iceberg.mr.hive.HiveIcebergStorageHandler' AS SELECT 1 AS a;
--> SyntaxProblem STORED BY is not supported: the stored files are Parquet or ORC (USING) (line 1, column 29)
CREATE MATERIALIZED VIEW mv ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' AS SELECT 1 AS a;
--> SyntaxProblem ROW FORMAT is not supported: the stored files are Parquet or ORC (USING) (line 1, column 29)
CREATE MATERIALIZED VIEW mv LOCATION ' ' AS SELECT 1 AS a;
--> SyntaxProblem the LOCATION is empty: name a directory (line 1, column 38)
CREATE MATERIALIZED VIEW mv CLUSTERED ON a AS SELECT a FROM t;
--> SyntaxProblem expected (columns) after CLUSTERED ON, found a (line 1, column 42)
ALTER MATERIALIZED VIEW db.mv REBUILD;
--> RefreshMaterializedView name=db.mv method='COMPLETE'
EXPLAIN ALTER MATERIALIZED VIEW db.mv REBUILD;
--> Explain statement=RefreshMaterializedView name=db.mv method='COMPLETE'
EXPLAIN ALTER MATERIALIZED VIEW db.mv RENAME TO x;
--> SyntaxProblem EXPLAIN ALTER MATERIALIZED VIEW is supported only with REBUILD (line 1, column 50)
ALTER MATERIALIZED VIEW mv ENABLE REWRITE;
--> AlterMaterializedView name=mv change=SetProperties properties=use_for_rewrite=true
ALTER MATERIALIZED VIEW mv DISABLE REWRITE;
--> AlterMaterializedView name=mv change=SetProperties properties=use_for_rewrite=false
SHOW MATERIALIZED VIEWS;
--> ShowMaterializedViews
SHOW MATERIALIZED VIEWS IN db 'sums*|totals';
--> ShowMaterializedViews database='db' pattern='sums*|totals'
DESCRIBE FORMATTED MATERIALIZED VIEW db.mv;
--> Describe name=db.mv extended=True
DROP MATERIALIZED VIEW IF EXISTS db.mv;
--> DropMaterializedView name=db.mv if_exists=True
