-- Spark's own statements, and what they mean if the name in them is a materialized view; None: not about one name.
DROP VIEW mv;
--> DropMaterializedView name=mv
DROP VIEW IF EXISTS db.`my mv`;
--> DropMaterializedView name=db.my mv if_exists=True
DROP VIEW a, b;
--> None
DROP VIEW ${x};
--> None
DROP TABLE mv;
--> None
SHOW CREATE TABLE db.mv;
--> ShowCreate name=db.mv kind='TABLE'
show create view mv;
--> ShowCreate name=mv kind='VIEW'
SHOW CREATE TABLE mv AS SERDE;
--> None
DESCRIBE EXTENDED mv;
--> Describe name=mv extended=True
DESC TABLE FORMATTED db.mv;
--> Describe name=db.mv extended=True
DESCRIBE mv;
--> None
DESCRIBE TABLE mv;
--> None
DESCRIBE EXTENDED mv a;
--> None
DESCRIBE EXTENDED mv AS JSON;
--> None
DESCRIBE EXTENDED mv PARTITION (a = 1);
--> None
DESCRIBE EXTENDED;
--> None
DESC QUERY SELECT 1;
--> None
SHOW PARTITIONS mv;
--> ShowPartitions name=mv
SHOW PARTITIONS FROM mv;
--> ShowPartitions name=mv
SHOW PARTITIONS from;
--> ShowPartitions name=from
SHOW PARTITIONS mv PARTITION (a = 1);
--> None
SHOW TBLPROPERTIES mv;
--> ShowProperties name=mv
SHOW TBLPROPERTIES db.mv ('grace_period');
--> ShowProperties name=db.mv key='grace_period'
SHOW TBLPROPERTIES mv (my.key);
--> ShowProperties name=mv key='my.key'
SHOW TBLPROPERTIES IDENTIFIER('mv');
--> None
ANALYZE TABLE db.mv COMPUTE STATISTICS NOSCAN;
--> Analyze name=db.mv rest='COMPUTE STATISTICS NOSCAN'
ANALYZE TABLE mv PARTITION (day) COMPUTE STATISTICS; ;
--> Analyze name=mv rest='PARTITION (day) COMPUTE STATISTICS'
ANALYZE TABLE IDENTIFIER('mv') COMPUTE STATISTICS;
--> None
ANALYZE TABLE mv;
--> None
ANALYZE TABLE mv-2 COMPUTE STATISTICS;
--> None
ANALYZE TABLES IN db COMPUTE STATISTICS;
--> None
COMMENT ON TABLE db.mv IS 'it''s';
--> AlterMaterializedView name=db.mv change=SetComment comment="it's"
COMMENT ON VIEW mv IS NULL;
--> AlterMaterializedView name=mv change=SetComment
COMMENT ON DATABASE db IS 'x';
--> None
ALTER VIEW mv RENAME TO db.mv2;
--> AlterMaterializedView name=mv change=Rename name=db.mv2
ALTER TABLE mv RENAME TO mv2;
--> AlterMaterializedView name=mv change=Rename name=mv2
ALTER TABLE mv RENAME COLUMN a TO b;
--> None
ALTER VIEW db.mv SET TBLPROPERTIES ('grace_period' = '60', a.b 1);
--> AlterMaterializedView name=db.mv change=SetProperties properties=grace_period=60,a.b=1
ALTER TABLE mv SET TBLPROPERTIES ('a' = b);
--> None
ALTER TABLE mv UNSET TBLPROPERTIES IF EXISTS ('a', b.c);
--> AlterMaterializedView name=mv change=UnsetProperties keys=a,b.c if_exists=True
ALTER TABLE mv SET OWNER TO alice;
--> AlterMaterializedView name=mv change=SetOwner owner='alice'
ALTER VIEW mv AS SELECT 1;
--> None
ALTER TABLE mv ADD COLUMNS (a INT);
--> None
ALTER TABLE mv RENAME TO a b;
--> None
ALTER TABLE mv. RENAME TO a;
--> None
SELECT * FROM mv;
--> None
DROP VIEW "db"."mv";
--> DropMaterializedView name=db.mv
SHOW PARTITIONS db."mv";
--> ShowPartitions name=db.mv
ALTER VIEW db."mv" RENAME TO "db"."mv2";
--> AlterMaterializedView name=db.mv change=Rename name=db.mv2
DROP VIEW db.'mv';
--> None
REFRESH db.mv;
--> RefreshPath name=db.mv
REFRESH `my mv`;
--> RefreshPath name=my mv
REFRESH TABLE db.mv;
--> None
REFRESH FUNCTION mv;
--> None
REFRESH /lake/mv;
--> None
SHOW GRANTS ON db.mv;
--> ShowGrants name=db.mv
SHOW GRANTS ON TABLE mv;
--> ShowGrants name=mv
SHOW GRANT USER ada ON mv;
--> ShowGrants name=mv grantee=USER ada hive=True
SHOW GRANTS `ada` ON VIEW db.mv;
--> ShowGrants name=db.mv grantee=USER ada
SHOW GRANT ROLE x;
--> None
SHOW GRANTS ON ALL;
--> ShowGrants name=ALL
