"""What Spark's settings do to rows, determined by trying them: in one Spark, in this process.

`python settings_net.py DIRECTORY each NAME ...` gives each setting two other values than its own, and prints a line of
JSON for each: what it changes in each of CHECKS. Names that are no settings of Spark's are `NAME=VALUE`.

`python settings_net.py DIRECTORY CHECK ...` gives the settings of a check other values, many at once, and divides those
because of which something is found until each is known. It prints these, and how many values were tried, as JSON.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sql import spark_settings
from sql.names import TableName
from sql.spark_settings import HOW_FAST, HOW_IT_IS_WRITTEN, MEANING, OFFERED, WHAT_IS_SHOWN, names
from sql.texts import maintenance

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


@dataclass(frozen=True)
class Failed:
    """A query has no rows, because of an error of this class."""

    reason: str


Rows = list[str] | Failed
Found = dict[str, str]
"""What was found, by query."""
Check = Callable[[Sequence[str], Collection[str]], Found]
"""Tries settings, given as NAME=VALUE, with some of the queries."""


def answer(session: SparkSession, query: str) -> Rows:
    """The rows of a query in any order."""
    try:
        return sorted(str(tuple(map(repr, row))) for row in session.sql(query).collect())
    except PySparkException as error:
        return Failed(error.getCondition() or type(error).__name__)
    except Py4JJavaError as error:
        return Failed(str(error.java_exception.getClass().getName()))
    except ValueError as error:
        return Failed(str(error))


@dataclass
class View:
    """A materialized view as the gateway makes it, without a public view."""

    definition: TableName
    storage: TableName
    columns: tuple[str, ...]
    version: int = 0

    @property
    def meant(self) -> str:
        return f"SELECT * FROM {self.definition.quoted}"

    @property
    def shown(self) -> str:
        shown = maintenance.Shown.only(self.version)
        return maintenance.shown_rows(self.storage, self.columns, shown, maintenance.UNPARTITIONED)


class Net:
    """One Spark with the tables."""

    def __init__(self, directory: Path) -> None:
        self.spark = spark_in(directory)
        make(self.spark, directory)
        self.spark.sql("CREATE DATABASE storage")
        self.known = entries(self.spark)
        self.plain = {key: answer(self.spark, query) for key, query in QUERIES.items()}
        self._numbers = itertools.count(1)
        self._views = dict[str, View | Failed]()
        """Views that a session without settings has created."""

    # --- values ----------------------------------------------------------------------------------------

    def others(self, name: str) -> list[str]:
        """At most two other values that the setting may have, as NAME=VALUE."""
        own, short = self.known[name]["value"], name.removeprefix(spark_settings.PREFIX)
        if short in VALUES:
            candidates = VALUES[short].split()
        elif own in {"true", "false"}:
            candidates = ["false" if own == "true" else "true"]
        else:
            candidates = ["LEGACY", "3", "1", "1000", "0.5", "1k", "1mb", "true"]
        session, found = self.spark.newSession(), []
        for value in candidates:
            with contextlib.suppress(PySparkException, Py4JJavaError):
                session.conf.set(name, value)
                if value != own:
                    found.append(f"{name}={value}")
        return found[:2]

    def settings(self, given: Iterable[str]) -> list[list[str]]:
        """First other values of these settings, and second ones."""
        here = sorted(name for name in given if name in self.known and not self.known[name]["static"])
        tried = [self.others(name) for name in here]
        return [[each[nth] for each in tried if len(each) > nth] for nth in (0, 1)]

    def session(self, settings: Iterable[str]) -> SparkSession:
        session = self.spark.newSession()
        for each in settings:
            name, _, value = each.partition("=")
            with contextlib.suppress(PySparkException, Py4JJavaError):  # It may not go with another one.
                session.conf.set(name, value)
        return session

    # --- what settings do ------------------------------------------------------------------------------

    def read(self, settings: Sequence[str], keys: Collection[str]) -> Found:
        """Other rows, or none, in a session with the settings."""
        session = self.session(settings)
        found = {key: answer(session, QUERIES[key]) for key in keys}
        return {key: str(rows) for key, rows in found.items() if rows != self.plain[key]}

    def refreshed(self, settings: Sequence[str], keys: Collection[str]) -> Found:
        """Other stored rows than those that the definition has in the session that stores them."""
        return self._stored(self.session(settings), {key: self._plain_view(key) for key in keys}, len(settings) > 1)

    def created(self, settings: Sequence[str], keys: Collection[str]) -> Found:
        """Other stored rows than those of the definition, if a session with the settings creates the view: read with
        what a refresh has of them."""
        creator = self.session(settings)
        refresher = self.session(each for each in settings if spark_settings.has_meaning(each.partition("=")[0]))
        return self._stored(refresher, {key: self._view(creator, key) for key in keys}, len(settings) > 1)

    def shown(self, settings: Sequence[str], keys: Collection[str]) -> Found:
        """Other rows of a view that is read in a session with the settings."""
        found, session = {}, self.session(settings)
        for key in keys:
            view = self._plain_view(key)
            if isinstance(view, Failed):
                continue
            if not view.version:
                self._refresh(self.spark.newSession(), view)
            rows, wanted = answer(session, view.shown), answer(self.spark, view.shown)
            if rows != wanted:
                found[key] = f"{rows} instead of {wanted}"
        return found

    def _stored(self, refresher: SparkSession, views: Mapping[str, View | Failed], several: bool) -> Found:
        """`several`: what fails counts as found, because another setting may be the reason."""
        found: Found = {}
        for key, view in views.items():
            rows: Rows = view if isinstance(view, Failed) else self._refresh(refresher, view)
            wanted = rows if isinstance(view, Failed) else answer(refresher, view.meant)
            if isinstance(wanted, Failed) and not several:
                continue
            if isinstance(wanted, Failed) or rows != wanted:
                found[key] = f"{rows} instead of {wanted}"
        return found

    # --- what the gateway does -------------------------------------------------------------------------

    def _plain_view(self, key: str) -> View | Failed:
        if key not in self._views:
            self._views[key] = self._view(self.spark, key)
        return self._views[key]

    def _view(self, creator: SparkSession, key: str) -> View | Failed:
        number = next(self._numbers)
        definition, storage = TableName("storage", f"d{number}"), TableName("storage", f"t{number}")
        try:
            creator.sql(maintenance.create_definition(definition, QUERIES[key]))
            self.spark.sql(maintenance.create_storage(storage, definition, {}))
            return View(definition, storage, tuple(self.spark.table(definition.quoted).columns))
        except (PySparkException, Py4JJavaError) as error:
            return Failed(str(error)[:100])

    def _refresh(self, refresher: SparkSession, view: View) -> Rows:
        """Stores the rows of a next version, and reads them as another user."""
        view.version += 1
        text = maintenance.insert_version(view.storage, view.definition, view.version, columns=view.columns)
        for name, value in maintenance.STAGED.items():
            refresher.conf.set(name, value)
        try:
            refresher.sql(text)
        except (PySparkException, Py4JJavaError) as error:
            return Failed(str(error)[:100])
        return answer(self.spark, view.shown)

    # --- which one does it -----------------------------------------------------------------------------

    def guilty(self, settings: Sequence[str], check: Check, keys: Collection[str]) -> dict[str, Found]:
        """Those of the settings because of which something is found."""
        found = check(settings, keys) if settings and keys else {}
        if not found:
            return {}
        if len(settings) == 1:
            return {settings[0]: {key: text[:300] for key, text in found.items()}}
        half = len(settings) // 2
        parts = self.guilty(settings[:half], check, found) | self.guilty(settings[half:], check, found)
        return parts or self._together(settings, check, found)

    def _together(self, settings: Sequence[str], check: Check, found: Found) -> dict[str, Found]:
        """No half does it: as few of the settings as do it together."""
        kept = list(settings)
        for each in settings:
            if again := check([other for other in kept if other != each], found):
                kept.remove(each)
                found = again
        return {" with ".join(kept): {key: text[:300] for key, text in found.items()}}


FEW = (
    "words",
    "times",
    "kept_times",
    "of_times",
    "numbers",
    "arithmetic",
    "chars",
    "parts",
    "nested",
    "csv",
    "structs",
)
"""Queries with rows of every type."""
ELSEWHERE = frozenset({"spark.sql.defaultCatalog"})
"""In another default catalog the queries have no tables."""


def _groups(net: Net, name: str) -> Iterator[tuple[list[str], Check, Collection[str]]]:
    """The settings that a check tries together."""
    if name == "harmless":
        for table in (HOW_FAST, WHAT_IS_SHOWN, HOW_IT_IS_WRITTEN):
            for reason, text in table.items():
                for settings in net.settings(names({reason: text}) - ELSEWHERE):
                    yield settings, net.read, QUERIES
    elif name == "refreshed":
        for group in (HOW_FAST, *({reason: text} for table in (MEANING, OFFERED) for reason, text in table.items())):
            for settings in net.settings(names(group)):
                yield settings, net.refreshed, QUERIES
    else:
        check = {"created": net.created, "shown": net.shown}[name]
        for settings in net.settings(net.known.keys() - ELSEWHERE):
            for first in range(0, len(settings), 40):
                yield settings[first : first + 40], check, FEW


CHECKS = ("harmless", "refreshed", "created", "shown")
"""Harmless settings change no query. None that a refresh may have changes what it stores. None that a creator has
changes what a refresh stores, apart from the meaning. None that a reader has changes what a view shows."""


def _check(net: Net, name: str) -> None:
    tried, guilty, began = 0, dict[str, Found](), time.monotonic()
    for settings, check, keys in _groups(net, name):
        tried += len(settings)
        guilty |= net.guilty(settings, check, keys)
        print(f"{name}: {tried} values after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(json.dumps({"check": name, "tried": tried, "guilty": guilty}, ensure_ascii=False), flush=True)


def _each(net: Net, given: Sequence[str]) -> None:
    for name in given:
        for setting in [name] if "=" in name else net.others(name):
            found = {
                check.__name__: check([setting], QUERIES) for check in (net.read, net.refreshed, net.created, net.shown)
            }
            print(json.dumps({"setting": setting, **found}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    made = Net(Path(sys.argv[1]))
    if sys.argv[2] == "each":
        _each(made, sys.argv[3:])
    else:
        for chosen in sys.argv[2:]:
            _check(made, chosen)
