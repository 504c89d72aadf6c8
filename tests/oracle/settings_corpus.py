"""Tables and queries whose rows depend on Spark's settings, and values that settings may have."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

VALUES = {
    "adaptive.autoBroadcastJoinThreshold": "-1",
    "adaptive.coalescePartitions.initialPartitionNum": "7",
    "adaptive.customCostEvaluatorClass": "org.apache.spark.sql.execution.adaptive.SimpleCostEvaluator",
    "adaptive.logLevel": "INFO",
    "autoBroadcastJoinThreshold": "-1",
    "avro.compression.codec": "deflate bzip2",
    "avro.datetimeRebaseModeInRead": "LEGACY EXCEPTION",
    "avro.datetimeRebaseModeInWrite": "LEGACY EXCEPTION",
    "binaryOutputStyle": "HEX BASE64",
    "broadcastTimeout": "1000",
    "codegen.factoryMode": "NO_CODEGEN CODEGEN_ONLY",
    "codegen.logLevel": "INFO",
    "columnNameOfCorruptRecord": "bad",
    "dataframeCache.logLevel": "INFO",
    "defaultCacheStorageLevel": "DISK_ONLY MEMORY_ONLY",
    "error.messageFormat": "MINIMAL STANDARD",
    "execution.arrow.compression.codec": "lz4 zstd",
    "execution.pandas.structHandlingMode": "row dict",
    "expressionTreeChangeLog.level": "INFO",
    # Smaller ones would make hundreds of tasks of each query.
    "files.maxPartitionBytes": "1000",
    "files.maxPartitionNum": "1",
    "files.openCostInBytes": "1000",
    "hive.caseSensitiveInferenceMode": "INFER_ONLY",
    "legacy.csv.enableDateTimeParsingFallback": "true",
    "legacy.ctePrecedencePolicy": "LEGACY EXCEPTION",
    "legacy.json.enableDateTimeParsingFallback": "true",
    "legacy.nullInEmptyListBehavior": "true",
    "legacy.timeParserPolicy": "LEGACY EXCEPTION",
    "mapKeyDedupPolicy": "LAST_WIN",
    # A smaller one would refuse every broadcast.
    "maxBroadcastTableSize": "1gb",
    "nameResolutionLog.level": "INFO",
    "optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConstantFolding "
    "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates",
    "orc.compression.codec": "snappy zlib",
    "orc.impl": "hive",
    "parquet.compression.codec": "gzip zstd",
    "parquet.datetimeRebaseModeInRead": "LEGACY EXCEPTION",
    "parquet.datetimeRebaseModeInWrite": "LEGACY EXCEPTION",
    "parquet.int96RebaseModeInRead": "LEGACY EXCEPTION",
    "parquet.int96RebaseModeInWrite": "LEGACY EXCEPTION",
    "parquet.outputTimestampType": "TIMESTAMP_MILLIS TIMESTAMP_MICROS",
    "planChangeLog.level": "INFO",
    "session.timeZone": "Asia/Tokyo America/New_York",
    # A smaller one would refuse the table that there is.
    "sources.bucketing.maxBuckets": "50",
    "sources.default": "orc",
    "sources.partitionOverwriteMode": "DYNAMIC",
    "storeAssignmentPolicy": "LEGACY STRICT",
    "streaming.multipleWatermarkPolicy": "max",
    "streaming.stateStore.encodingFormat": "avro",
    "timestampType": "TIMESTAMP_NTZ",
    "ui.explainMode": "simple extended",
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
    "wide": "SELECT w.id, initcap(s) i, upper(s) u, split(s, '') p, w.s = w.c same, t.t, t.n, t.d, a, a % 7 b, e, "
    "e * e ee, e / 3 e3, x, f, round(e, 1) r, c.c, c.v, concat(c.c, '|') cp, m, arr, h.n sn, CAST(m AS STRING) ms, "
    "to_json(h.n) j FROM words w JOIN times t ON w.id = t.id JOIN numbers n ON w.id = n.id "
    "LEFT JOIN chars c ON w.id = c.id LEFT JOIN nested h ON w.id = h.id WHERE w.id <> 3",
    "values": "SELECT * FROM VALUES (1, 1.0, 1e0, DATE'1000-01-01'), (2, 2.5, -0e0, NULL) AS v(a, b, c, d)",
}


def candidates(name: str, own: str) -> Iterator[str]:
    """Other values that a setting may have, the likeliest first. `own`: what it is."""
    short = name.removeprefix("spark.sql.")
    if short in VALUES:
        given = VALUES[short].split()
    elif own in {"true", "false"}:
        given = ["false" if own == "true" else "true"]
    else:
        given = ["LEGACY", "3", "1", "1000", "0.5", "1k", "1mb", "true"]
    yield from (value for value in given if value != own)


def rounds(tried: Sequence[Sequence[str]]) -> list[list[str]]:
    """The values of each setting, given as NAME=VALUE, in sets that are tried together: what is turned off hides what
    other settings do, so it has a set of its own."""
    off = [each[0] for each in tried if each and each[0].endswith("=false")]
    first = [each[0] for each in tried if each and each[0] not in off]
    return [each for each in (first, off, [each[1] for each in tried if len(each) > 1]) if each]


def usable(values: Sequence[str], fails: Callable[[Sequence[str]], bool]) -> tuple[list[list[str]], list[str]]:
    """These values in sets with which Spark does not fail at the simplest query, and those with which it always does.
    `fails`: whether it does with some values. To find that with the queries themselves would take long."""

    def check(settings: Sequence[str], keys: Collection[str]) -> Found:
        return dict.fromkeys(keys, "fails") if fails(settings) else {}

    found = [name.split(WITH) for name in divided(values, check, ["the simplest query"])]
    without = {each[-1] for each in found}
    apart = [each[-1:] for each in found if len(each) > 1]
    return [[each for each in values if each not in without], *apart], [each[0] for each in found if len(each) == 1]


_TABLE = re.compile(r"(?:CREATE TABLE|INSERT INTO) (\w+)")


def make(run: Callable[[str], object], files: Path, tables: Collection[str] = ()) -> None:
    """Makes the tables of the queries in the current database, or only some. `files` is a directory for theirs."""
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
        f"CREATE TABLE parts (v INT, p INT) USING parquet PARTITIONED BY (p) LOCATION 'file:{files}/parts'",
        "INSERT INTO parts VALUES (1, 1), (2, 1), (3, 2)",
        "CREATE TABLE nested (id INT, n STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>, arr ARRAY<INT>) USING parquet",
        "INSERT INTO nested VALUES (1, named_struct('a', 1, 'b', 'x'), map('k', 1), array(1, NULL, 3)), "
        "(2, NULL, map(), array(0)), (3, named_struct('a', NULL, 'b', NULL), NULL, array(2))",
        f"CREATE TABLE old (id INT, n STRUCT<a: INT>) USING parquet LOCATION 'file:{files}/old'",
        "INSERT INTO old VALUES (1, named_struct('a', 1)), (2, NULL)",
        # Its files lack a field.
        f"CREATE TABLE grown (id INT, n STRUCT<later: INT>) USING parquet LOCATION 'file:{files}/old'",
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
        if not tables or _TABLE.match(statement)[1] in tables:  # type: ignore[index]
            run(statement)
    # A directory that nobody has registered as a partition.
    shutil.copytree(files / "parts" / "p=2", files / "parts" / "p=3")


WITH = " with "
FAILS = "no view: "
"""What is found of a query that fails, so that no rows are stored: the setting is not guilty."""
Found = dict[str, str]
"""What was found, by query."""
Check = Callable[[Sequence[str], Collection[str]], Found]
"""Tries settings, given as NAME=VALUE, with some of the queries."""


def wrong(guilty: dict[str, Found]) -> dict[str, Found]:
    """What is found of queries that do not fail."""
    kept = {
        each: {key: text for key, text in found.items() if not text.startswith(FAILS)} for each, found in guilty.items()
    }
    return {each: found for each, found in kept.items() if found}


def _telling(check: Check) -> Check:
    """The same check, which tells what it tries and finds, so that a run that is stopped has told what it knows."""

    def telling(settings: Sequence[str], keys: Collection[str]) -> Found:
        began = time.monotonic()
        found = check(settings, keys)
        tried = settings[0] if len(settings) == 1 else f"{len(settings)} values"
        took = f"{time.monotonic() - began:.0f} s"
        told = {key: text[:150] for key, text in found.items()} or "nothing"
        print(f"  {tried}, {len(keys)} queries, {took}: {told}", file=sys.stderr, flush=True)
        return found

    return telling


def divided(settings: Sequence[str], check: Check, keys: Collection[str]) -> dict[str, Found]:
    """Those of the settings because of which something is found. What one does does not hide what others do: they are
    tried again without it. Nor does a query that fails because of one (FAILS)."""
    guilty, rest, check = dict[str, Found](), list(settings), _telling(check)
    while rest and (found := check(rest, keys)):
        parts = _halved(rest, check, found)
        print(f"  found: {', '.join(parts)}", file=sys.stderr, flush=True)
        named = {each for name in parts for each in name.split(WITH)}
        guilty |= parts
        rest = [each for each in rest if each not in named]
    return guilty


def _halved(settings: Sequence[str], check: Check, found: Found) -> dict[str, Found]:
    """The same for settings with which this is found. Only these queries are tried again, with fewer settings."""
    if len(settings) == 1:
        return {settings[0]: {key: text[:300] for key, text in found.items()}}
    parts, half = dict[str, Found](), len(settings) // 2
    for some in (settings[:half], settings[half:]):
        if again := check(some, found):
            parts |= _halved(some, check, again)
    return parts or _together(settings, check, found)


def _together(settings: Sequence[str], check: Check, found: Found) -> dict[str, Found]:
    """No half does it: as few of the settings as do it together."""
    kept = list(settings)
    for each in settings:
        if again := check([other for other in kept if other != each], found):
            kept.remove(each)
            found = again
    return {WITH.join(kept): {key: text[:300] for key, text in found.items()}}
