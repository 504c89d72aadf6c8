"""What Spark's settings do to rows, found out by trying them: in one Spark, in this process.

`python settings_net.py DIRECTORY each NAME ...` gives each setting another value than its own, and prints a line of
JSON for each: the value, the queries whose rows it changes, and those whose rows are others once they were written with
it and are read without it. Names that are no settings of Spark's are `NAME=VALUE`.

`python settings_net.py DIRECTORY check` does so with all settings that are listed as harmless at once, and with all
that a refresh may have, and divides them until those that are listed wrongly are found. It prints these, and how many
were tried, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sql import spark_settings

VALUES = {
    "adaptive.autoBroadcastJoinThreshold": "-1",
    "adaptive.coalescePartitions.initialPartitionNum": "7",
    "autoBroadcastJoinThreshold": "-1",
    "avro.compression.codec": "deflate",
    "binaryOutputStyle": "HEX",
    "broadcastTimeout": "1000",
    "codegen.factoryMode": "NO_CODEGEN",
    "columnNameOfCorruptRecord": "bad",
    "execution.pandas.structHandlingMode": "row",
    # Smaller ones would make hundreds of tasks of each query.
    "files.maxPartitionBytes": "1000",
    "files.maxPartitionNum": "1",
    "files.openCostInBytes": "1000",
    "hive.caseSensitiveInferenceMode": "INFER_ONLY",
    "legacy.ctePrecedencePolicy": "LEGACY",
    "legacy.csv.enableDateTimeParsingFallback": "true",
    "legacy.json.enableDateTimeParsingFallback": "true",
    "legacy.nullInEmptyListBehavior": "true",
    "legacy.timeParserPolicy": "LEGACY",
    "mapKeyDedupPolicy": "LAST_WIN",
    # A smaller one would refuse every broadcast.
    "maxBroadcastTableSize": "1gb",
    "optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
    "orc.compression.codec": "snappy",
    "orc.impl": "hive",
    "parquet.compression.codec": "gzip",
    "parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "session.timeZone": "Asia/Tokyo",
    # A smaller one would refuse the table that there is.
    "sources.bucketing.maxBuckets": "50",
    "sources.default": "orc",
    "sources.partitionOverwriteMode": "DYNAMIC",
    "storeAssignmentPolicy": "LEGACY",
    "timestampType": "TIMESTAMP_NTZ",
    "ui.explainMode": "simple",
}
"""Other values of settings that are neither true or false nor numbers, after `spark.sql.`"""
QUERIES = {
    "words": "SELECT initcap(s) i, upper(s) u, lower(s) l, s RLIKE '\\d' r, split(s, '') p, s = c same FROM words",
    "collated": "SELECT s COLLATE UNICODE_CI AS k, count(*) n FROM words GROUP BY 1",
    "times": "SELECT id, unix_micros(t) m, CAST(t AS STRING) s, CAST(n AS STRING) n, unix_date(d) d, hour(t) h, "
    "date_format(t, 'yyyy-MM-dd HH:mm') f FROM times",
    "kept_times": "SELECT id, t, n, d FROM times WHERE id <> 3",
    "orc_times": "SELECT id, unix_micros(t) m, unix_date(d) d FROM orc_times",
    "of_times": "SELECT max(t) m, min(d) n, count(*) c FROM times WHERE t > TIMESTAMP'1500-01-01 00:00:00'",
    "numbers": "SELECT sum(a) s, avg(e) v, max(x) m, min(f) n, sum(e) se, percentile(a, 0.5) p, "
    "approx_percentile(a, 0.5) ap, count(DISTINCT e) dc, stddev(a) sd FROM numbers",
    "arithmetic": "SELECT a, try_add(a, 1) t, a % 7 b, e * e ee, e / 3 e3, x, round(e, 1) r, cast(e AS STRING) es, "
    "size(NULL) sn, try_cast('x' AS INT) tc FROM numbers",
    "overflow": "SELECT CAST(sum(CAST(a AS BIGINT)) AS INT) s FROM numbers",
    "chars": "SELECT c, v, length(c) l, concat(c, '|') p, c = 'ab' e FROM chars WHERE c = 'ab' OR v = 'x'",
    "parts": "SELECT p, sum(v) s, count(*) c FROM parts GROUP BY p",
    "one_part": "SELECT v, p FROM parts WHERE p > 1",
    "nested": "SELECT id, n.a, n.b, m['k'] k, size(arr) z, arr[0] a0, n FROM nested",
    "grown": "SELECT id, n, n.later lt FROM grown",
    "lines": "SELECT s, count(*) c FROM lines GROUP BY s",
    "csv": "SELECT * FROM csv_rows",
    "json": "SELECT * FROM json_rows",
    "hive_parquet": "SELECT * FROM hive_parquet",
    "hive_orc": "SELECT k, t FROM hive_orc",
    "joined": "SELECT n.a, c.v FROM numbers n JOIN chars c ON n.id = c.id LEFT ANTI JOIN parts p ON p.v = n.a",
    "outer": "SELECT n.id, p.p, w.s FROM numbers n LEFT JOIN parts p ON n.id = p.v FULL JOIN words w ON w.id = n.id",
    "in_list": "SELECT id FROM numbers WHERE id IN (1,2,3,4,5,6,7,8,9,10,11,12) AND a NOT IN (SELECT v FROM parts)",
    "exists": "SELECT id, (SELECT count(*) FROM parts p WHERE p.v = n.id) c FROM numbers n WHERE EXISTS "
    "(SELECT 1 FROM words w WHERE w.id = n.id)",
    "windows": "SELECT id, sum(id) OVER (PARTITION BY id % 2 ORDER BY id) s, rank() OVER (ORDER BY e, id) r "
    "FROM numbers",
    "rolled": "SELECT id % 2 g, p, sum(v) s, grouping_id() gi FROM numbers JOIN parts ON id = v GROUP BY ROLLUP (1, p)",
    "sets": "SELECT id FROM numbers EXCEPT SELECT v FROM parts UNION ALL SELECT v FROM parts "
    "INTERSECT SELECT id FROM words",
    "structs": "SELECT to_json(n) j, cast(m AS STRING) ms, cast(arr AS STRING) ar, "
    "map_from_entries(array(('a',1),('b',2))) me, array_sort(arr) so, exists(arr, x -> x > 1) ex FROM nested",
    "format": "SELECT format_string('%s', id) f, encode(s, 'UTF-8') e, elt(1, 'a', 'b') el, lpad('a', 3, 'x') lp, "
    "base64(CAST(repeat(s, 40) AS BINARY)) b FROM words",
    "bucketed": "SELECT b.k, count(*) c FROM bucketed b JOIN bucketed d ON b.k = d.k WHERE b.k = 3 GROUP BY b.k",
    "distinct": "SELECT DISTINCT c, id % 2 g FROM chars",
    "values": "SELECT * FROM VALUES (1, 1.0, 1e0, DATE'1000-01-01'), (2, 2.5, -0e0, NULL) AS v(a, b, c, d)",
}


def spark_in(directory: Path) -> SparkSession:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.warehouse.dir", f"file:{directory}/warehouse")
        .config(
            "spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={directory}/metastore;create=true"
        )
        .config("spark.hadoop.hive.exec.scratchdir", f"file:{directory}/scratch")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.filesourceTableRelationCacheSize", "0")
        .config("spark.sql.hive.filesourcePartitionFileCacheSize", "0")
        .enableHiveSupport()
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def entries(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """Spark's own settings that a session may set, by name."""
    jvm: Any = spark._jvm
    conf = jvm.java.lang.Class.forName("org.apache.spark.sql.internal.SQLConf$").getField("MODULE$").get(None)
    found, each = {}, conf.getConfigEntries().iterator()
    while each.hasNext():
        entry = each.next()
        found[str(entry.key())] = {
            "value": str(entry.defaultValueString()),
            "static": bool(conf.isStaticConfigKey(entry.key())),
        }
    return found


def make(spark: SparkSession, directory: Path) -> None:
    """The tables of the queries."""
    files = directory / "files"
    for name, text in {
        "lines/a": "a|b\nc|d\n",
        "csv/a.csv": '1,2024-01-01 00:00:00,1.50,a\n2,1500-01-01 00:00:00,x,\n3,1/2/24 5:06,-0.0,"q"\n',
        "json/a.json": '{"id":1,"t":"2024-01-01 00:00:00","n":{"a":1}}\n{"id":"x","t":"1/2/24","n":{"a":"y"}}\n'
        '{broken\n{"id":3,"t":"","n":{}}\n',
    }.items():
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(text, encoding="utf-8")
    for statement in (
        "CREATE TABLE words (id INT, s STRING, c STRING) USING parquet",
        "INSERT INTO words VALUES (1, 'ŉß ǆ ﬁ İ', 'a'), (2, 'O''NEIL x-ray', 'b'), (3, 'abc', 'abc'), (4, NULL, NULL)",
        "CREATE TABLE times (id INT, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE) USING parquet",
        "INSERT INTO times VALUES (1, TIMESTAMP'2024-01-01 00:30:00.123456', "
        "TIMESTAMP_NTZ'2024-01-01 00:30:00.123456', DATE'2024-01-01'), (2, TIMESTAMP'1500-02-28 01:00:00.000001', "
        "TIMESTAMP_NTZ'1500-02-28 01:00:00', "
        "DATE'1500-02-28'), (3, TIMESTAMP'0001-01-01 00:00:00', NULL, DATE'0001-01-01'), (4, NULL, NULL, NULL)",
        "CREATE TABLE orc_times USING orc AS SELECT * FROM times",
        "CREATE TABLE numbers (id INT, a INT, e DECIMAL(20,10), x DOUBLE, f FLOAT) USING parquet",
        "INSERT INTO numbers VALUES (1, 2147483647, 1.5, 0.5D, CAST('NaN' AS FLOAT)), (2, -5, 99999999.123, -0.0D, 1), "
        "(3, 7, NULL, CAST('Infinity' AS DOUBLE), NULL), (4, NULL, -1, 2D, -0.0)",
        "CREATE TABLE chars (id INT, c CHAR(5), v VARCHAR(5)) USING parquet",
        "INSERT INTO chars VALUES (1, 'ab', 'x'), (2, 'ab   ', 'ab'), (3, '', 'y')",
        "CREATE TABLE parts (v INT, p INT) USING parquet PARTITIONED BY (p)",
        "INSERT INTO parts VALUES (1, 1), (2, 1), (3, 2)",
        "CREATE TABLE nested (id INT, n STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>, arr ARRAY<INT>) USING parquet",
        "INSERT INTO nested VALUES (1, named_struct('a', 1, 'b', 'x'), map('k', 1), array(1, NULL, 3)), "
        "(2, NULL, map(), array(0)), (3, named_struct('a', NULL, 'b', NULL), NULL, array(2))",
        "CREATE TABLE old (id INT, n STRUCT<a: INT>) USING parquet",
        "INSERT INTO old VALUES (1, named_struct('a', 1)), (2, NULL)",
        f"CREATE TABLE lines (s STRING) STORED AS TEXTFILE LOCATION 'file:{files}/lines'",
        f"CREATE TABLE csv_rows (a INT, t TIMESTAMP, x DOUBLE, s STRING) USING csv LOCATION 'file:{files}/csv'",
        f"CREATE TABLE json_rows (id INT, t TIMESTAMP, n STRUCT<a: INT>) USING json LOCATION 'file:{files}/json'",
        "CREATE TABLE hive_parquet (k INT, t TIMESTAMP) STORED AS PARQUET",
        "INSERT INTO hive_parquet SELECT id, t FROM times WHERE id = 1",
        "CREATE TABLE hive_orc (k INT, t TIMESTAMP) STORED AS ORC",
        "INSERT INTO hive_orc SELECT id, t FROM times WHERE id = 1",
        "CREATE TABLE bucketed (k INT, v INT) USING parquet CLUSTERED BY (k) INTO 4 BUCKETS",
        "INSERT INTO bucketed SELECT id, id FROM range(20)",
    ):
        spark.sql(statement)
    warehouse = directory / "warehouse"
    # A directory that nobody has registered as a partition; files that lack a field.
    shutil.copytree(warehouse / "parts" / "p=2", warehouse / "parts" / "p=3")
    spark.sql(f"CREATE TABLE grown (id INT, n STRUCT<later: INT>) USING parquet LOCATION 'file:{warehouse / 'old'}'")


def answer(session: SparkSession, query: str) -> object:
    """The rows of a query in any order, or the class of its error."""
    try:
        frame = session.sql(query)
        return sorted(str(tuple(map(repr, row))) for row in frame.collect())
    except PySparkException as error:
        return f"error {error.getCondition() or type(error).__name__}"
    except Py4JJavaError as error:
        return f"error {error.java_exception.getClass().getName()}"
    except ValueError as error:
        return f"error {error}"


def written(spark: SparkSession, session: SparkSession, name: str, query: str) -> object:
    """The rows that a session writes as a refresh does, read in another session."""
    table = f"written_{name}"
    try:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
        shape = f"SELECT *, 1 AS version FROM ({query}) WHERE false"
        spark.sql(f"CREATE TABLE {table} USING parquet PARTITIONED BY (version) AS {shape}")
        session.sql(f"INSERT INTO {table} PARTITION (version = 1) SELECT * FROM ({query})")
        columns = ", ".join(f"`{column}`" for column in spark.table(table).columns[:-1])
        return answer(spark, f"SELECT {columns} FROM {table}")
    except (PySparkException, Py4JJavaError) as error:
        return f"error {type(error).__name__} {str(error)[:200]}"


def others(name: str, value: str) -> Iterator[str]:
    """Values that the setting may take, the likeliest first."""
    short = name.removeprefix("spark.sql.")
    if short in VALUES:
        yield VALUES[short]
    if value in {"true", "false"}:
        yield "false" if value == "true" else "true"
    yield from ("LEGACY", "3", "1", "1000", "0.5", "1k", "1mb", "true")


def vary(session: SparkSession, name: str, value: str) -> str | None:
    """Gives the session another value; None if none is known."""
    for other in others(name, value):
        with contextlib.suppress(PySparkException, Py4JJavaError):
            if other != value:
                session.conf.set(name, other)
                return other
    return None


class Net:
    """One Spark with the tables."""

    def __init__(self, directory: Path) -> None:
        self.spark = spark_in(directory)
        make(self.spark, directory)
        self.known = entries(self.spark)
        self.plain = {key: answer(self.spark, query) for key, query in QUERIES.items()}
        self.storable = {
            key for key, query in QUERIES.items() if written(self.spark, self.spark, key, query) == self.plain[key]
        }

    def session(self, names: Sequence[str]) -> tuple[SparkSession, dict[str, str | None]]:
        """A session with other values of these settings, and these values."""
        session, values = self.spark.newSession(), dict[str, str | None]()
        for each in names:
            name, _, given = each.partition("=")
            if given:
                session.conf.set(name, given)
            values[name] = given or vary(session, name, self.known[name]["value"])
        return session, values

    def changed(self, session: SparkSession) -> dict[str, str]:
        """The queries that have other rows in a session."""
        odd = {key: answer(session, query) for key, query in QUERIES.items()}
        return {key: str(found)[:200] for key, found in odd.items() if found != self.plain[key]}

    def written_otherwise(self, session: SparkSession) -> dict[str, str]:
        """The queries whose rows are others when the session has written them."""
        found = {}
        for key in sorted(self.storable):
            odd = answer(session, QUERIES[key])
            if not str(odd).startswith("error") and (back := written(self.spark, session, key, QUERIES[key])) != odd:
                found[key] = str(back)[:200]
        return found

    def guilty(
        self, names: Sequence[str], found: Callable[[SparkSession], dict[str, str]]
    ) -> dict[str, dict[str, str]]:
        """Those of the settings because of which something is found."""
        session, _ = self.session(names)
        if not (reason := found(session)):
            return {}
        if len(names) == 1:
            return {names[0]: reason}
        half = len(names) // 2
        parts = self.guilty(names[:half], found) | self.guilty(names[half:], found)
        return parts or {" with ".join(names): reason}

    def here(self, names: Iterable[str]) -> list[str]:
        """Those of the settings that this Spark has."""
        return sorted(name for name in names if name in self.known and not self.known[name]["static"])


def _each(net: Net, names: Sequence[str]) -> None:
    for name in names:
        session, values = net.session([name])
        line = {**values, "changed": net.changed(session), "written": net.written_otherwise(session)}
        print(json.dumps(line, ensure_ascii=False), flush=True)


def _check(net: Net) -> None:
    # In another default catalog the queries have no tables.
    harmless = net.here(filter(spark_settings.is_harmless, net.known.keys() - {"spark.sql.defaultCatalog"}))
    print(json.dumps({"harmless": len(harmless), "guilty": net.guilty(harmless, net.changed)}), flush=True)
    offered = net.here(filter(spark_settings.is_offered, net.known))
    print(json.dumps({"offered": len(offered), "guilty": net.guilty(offered, net.written_otherwise)}), flush=True)


if __name__ == "__main__":
    made = Net(Path(sys.argv[1]))
    print(
        json.dumps({"storable": sorted(made.storable), "plain": {k: str(v)[:90] for k, v in made.plain.items()}}),
        flush=True,
    )
    if sys.argv[2] == "check":
        _check(made)
    else:
        _each(made, sys.argv[3:])
