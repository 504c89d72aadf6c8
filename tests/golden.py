"""Runs the SQL of Spark's own tests on Spark directly and through a gateway: the answers must be the same.

Another database has materialized views and base tables named like words of these files. So the gateway must read the
statements, and cannot forward them unread.
"""

from __future__ import annotations

import re
import time
import zipfile
from ast import literal_eval
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from clients import pyhive, rows
from jars import jar
from pyhive import hive
from spark_corpus import INPUTS, RESULTS, answered, statements, texts
from thrift.Thrift import TException

ELSEWHERE = "golden_elsewhere"
COLLIDING = {"t1": "t2", "emp": "dept", "tab1": "testdata", "view_1": "t", "data": "onek", "v": "tbl"}
"""Views and their base tables: names that the files use for their own tables and views."""
_ONEK = (
    *("unique1 INT", "unique2 INT", "two INT", "four INT", "ten INT", "twenty INT", "hundred INT", "thousand INT"),
    *("twothousand INT", "fivethous INT", "tenthous INT", "odd INT", "even INT", "stringu1 STRING", "stringu2 STRING"),
    "string4 STRING",
)
_TABLES = {
    "testdata": "SELECT CAST(id AS INT) AS key, CAST(id AS STRING) AS value FROM range(1, 101)",
    "arraydata": "SELECT * FROM VALUES (array(1, 2, 3), array(array(1, 2, 3))), "
    "(array(2, 3, 4), array(array(2, 3, 4))) AS v(arraycol, nestedarraycol)",
    "mapdata": "SELECT * FROM VALUES (map(1, 'a1', 2, 'b1', 3, 'c1', 4, 'd1', 5, 'e1')), "
    "(map(1, 'a2', 2, 'b2', 3, 'c2', 4, 'd2')), (map(1, 'a3', 2, 'b3', 3, 'c3')), (map(1, 'a4', 2, 'b4')), "
    "(map(1, 'a5')) AS v(mapcol)",
}
_FILES = {"aggtest": ("agg", ("a INT", "b FLOAT")), "onek": ("onek", _ONEK), "tenk1": ("tenk", _ONEK)}
"""The tables that Spark's suite creates for its files (SQLQueryTestHelper), by a query or from text files."""
_CHANGING = (
    (re.compile(r"#\d+L?"), "#"),
    (re.compile(r"plan_id=\d+"), "plan_id="),
    (re.compile(r"(?:file:)?/[\w/.-]*(?:warehouse|data)[\w/.=-]*"), "/"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} \d\d [\d:]{8} \w+ \d{4}"), "when"),
    (re.compile(r"(?:transient_lastDdlTime|Created Time|Last Access)\D*\d+"), "when"),
    (re.compile(r"@[0-9a-f]{5,8}\b"), "@"),
)
"""What differs at each run: ids of expressions, paths and times."""


class Server(Protocol):
    host: str

    @property
    def port(self) -> int: ...


@dataclass(frozen=True)
class Answer:
    """Columns and rows, or the SQLSTATE and first line of an error."""

    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[str, ...] = ()
    error: str = ""

    def same(self, other: Answer, *, ordered: bool = True) -> bool:
        if (self.columns, self.error) != (other.columns, other.error):
            return False
        return self.rows == other.rows or (not ordered and sorted(self.rows) == sorted(other.rows))

    @property
    def shape(self) -> tuple[object, ...]:
        """What is constant in an answer whose values change."""
        return self.columns, len(self.rows), self.error

    def __str__(self) -> str:
        return self.error or f"{self.columns} {len(self.rows)} rows {str(self.rows)[:300]}"


@dataclass(frozen=True)
class Difference:
    file: str
    statement: str
    direct: Answer
    through: Answer

    def __str__(self) -> str:
        return f"{self.file}: {self.statement[:300]!r}\n  directly {self.direct}\n  through  {self.through}"


@dataclass
class Report:
    """The outcome of statements. Reports of several files can be added."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    differences: list[Difference] = field(default_factory=list)

    def add(self, file: str, command: str, direct: Answer, through: Answer, again: Callable[[], Answer]) -> None:
        """Compares two answers. A difference counts if Spark's answer `again` is the same, or has the same shape."""
        self.counts["statements"] += 1
        self.counts["errors on both sides"] += bool(direct.error and through.error)
        difference, ordered = Difference(file, command, direct, through), _ordered(command)
        if direct.same(through):
            self.counts["same"] += 1
        elif direct.same(through, ordered=ordered):
            self.counts["may differ: order of rows not specified"] += 1
        elif reason := _explained(difference):
            self.counts[f"explained: {reason}"] += 1
        elif direct.same(repeated := again(), ordered=ordered) or direct.shape == repeated.shape != through.shape:
            self.counts["different"] += 1
            self.differences.append(difference)
        else:
            self.counts["may differ: Spark's answer varies"] += 1

    def include(self, other: Report) -> None:
        self.counts.update(other.counts)
        for how, seconds in other.seconds.items():
            self.seconds[how] += seconds
        self.differences += other.differences

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()) if count)
        return f"{counts}; " + ", ".join(f"{seconds:.1f} s {what}" for what, seconds in self.seconds.items())


def files(patterns: Sequence[str] = ()) -> list[str]:
    """The input files that match a pattern, in the order of the patterns, short files first. Patterns that begin with
    "!" exclude files."""
    every = sorted(name.removeprefix(INPUTS) for name in texts() if name.startswith(INPUTS) and name.endswith(".sql"))
    every.sort(key=lambda file: len(_commands(file)))
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    chosen = dict.fromkeys(file for pattern in wanted for file in every if fnmatch(file, pattern))
    return [file for file in chosen if not any(fnmatch(file, pattern) for pattern in unwanted)]


class Golden:
    """Runs files one after the other, and drops what each has left behind."""

    def __init__(self, spark: Server, gateway: Server, directory: Path) -> None:
        self._spark, self._gateway, self._directory = spark, gateway, directory
        self._before: set[str] = set()

    @contextmanager
    def prepared(self, chosen: Sequence[str]) -> Iterator[None]:
        """Creates the tables of these files, and views in another database with the same names, for the context."""
        words = set(re.findall(r"\w+", " ".join(command for file in chosen for command in _commands(file)).lower()))
        try:
            with pyhive(self._spark.host, self._spark.port) as spark:
                for table in sorted(words & _TABLES.keys()):
                    rows(spark, f"CREATE TABLE default.{table} USING parquet AS {_TABLES[table]}")
                for table in sorted(words & _FILES.keys()):
                    self._load(spark, table)
            with pyhive(self._gateway.host, self._gateway.port) as gateway:
                rows(gateway, f"CREATE DATABASE {ELSEWHERE}")
                for view in sorted(words & COLLIDING.keys()):
                    table = f"{ELSEWHERE}.{COLLIDING[view]}"
                    made = f"CREATE MATERIALIZED VIEW {ELSEWHERE}.{view} BUILD DEFERRED AS SELECT a, b FROM {table}"
                    rows(gateway, f"CREATE TABLE {table} (a INT, b INT) USING parquet")
                    rows(gateway, made)
            with pyhive(self._spark.host, self._spark.port) as spark:
                self._before = _drops(spark)
            yield
        finally:
            self._dispose()

    def _load(self, spark: Any, table: str) -> None:
        file, columns = _FILES[table]
        data = self._directory / f"{file}.data"
        with zipfile.ZipFile(jar("spark-sql_2.13")) as archive:
            data.write_bytes(archive.read(f"test-data/postgresql/{file}.data"))
        source = f"USING csv OPTIONS (path '{data}', sep '\\t')"
        rows(spark, f"CREATE TEMPORARY VIEW of_{table} ({', '.join(columns)}) {source}")
        rows(spark, f"CREATE TABLE default.{table} USING parquet AS TABLE of_{table}")

    def _dispose(self) -> None:
        with pyhive(self._gateway.host, self._gateway.port) as gateway:
            for view in COLLIDING:
                rows(gateway, f"DROP MATERIALIZED VIEW IF EXISTS {ELSEWHERE}.{view}")
            rows(gateway, f"DROP DATABASE IF EXISTS {ELSEWHERE} CASCADE")
            for table in (*_TABLES, *_FILES):
                rows(gateway, f"DROP TABLE IF EXISTS default.{table}")

    def run(self, file: str) -> Report:
        commands, again, report = _commands(file), list[Answer](), Report(Counter(files=1))
        direct = self._answers(self._spark, file, report, "directly")
        through = self._answers(self._gateway, file, report, "through the gateway")
        pairs = list(zip(commands, direct, through, strict=True))

        def once_more(place: int) -> Answer:
            last = max(other for other, (_, one, two) in enumerate(pairs) if not one.same(two))
            again[:] = again or self._answers(self._spark, file, report, "once more", last + 1)
            return again[place]

        stored = dict(answered(f"{RESULTS}{file}.out")) if f"{RESULTS}{file}.out" in texts() else {}
        for place, (command, one, two) in enumerate(pairs):
            report.counts["as stored"] += _as_stored(one, stored.get(command))
            report.add(file, command, one, two, partial(once_more, place))
        return report

    def _answers(self, server: Server, file: str, report: Report, how: str, until: int | None = None) -> list[Answer]:
        """The answers in a new session, with only the objects that existed before the first file."""
        began = time.monotonic()
        try:
            # PyHive cannot convert every value to Python, for example a time before the year 1.
            with patch.dict(hive.TYPES_CONVERTER, clear=True), pyhive(server.host, server.port) as cursor:
                for key, value in _settings(file).items():
                    _answer(cursor, f"SET {key}={value}")
                return [_answer(cursor, command) for command in _commands(file)[:until]]
        finally:
            report.seconds[how] += time.monotonic() - began
            if any(map(_LASTING.search, _commands(file))):
                self._clean()

    def _clean(self) -> None:
        with pyhive(self._spark.host, self._spark.port) as cursor:
            for drop in sorted(_drops(cursor) - self._before):
                _answer(cursor, drop)


_LASTING = re.compile(r"\bcreate\b(?!\s+(?:or\s+replace\s+)?temp(?:orary)?\s+(?:view|function)\b)", re.IGNORECASE)
"""Statements whose objects may outlive the session. Only after these are objects listed and dropped, which takes as
long as several statements."""


def _drops(cursor: Any) -> set[str]:
    """The statements that drop everything that sessions may leave behind."""
    views = {row[1] for row in rows(cursor, "SHOW VIEWS IN default")}
    tables = {row[1] for row in rows(cursor, "SHOW TABLES IN default")} - views
    return {
        *(f"DROP DATABASE IF EXISTS `{row[0]}` CASCADE" for row in rows(cursor, "SHOW DATABASES")),
        *(f"DROP FUNCTION IF EXISTS {row[0]}" for row in rows(cursor, "SHOW USER FUNCTIONS")),
        *(f"DROP TABLE IF EXISTS default.`{table}`" for table in tables),
        *(f"DROP VIEW IF EXISTS default.`{view}`" for view in views),
        *(f"DROP VIEW IF EXISTS global_temp.`{row[1]}`" for row in rows(cursor, "SHOW VIEWS IN global_temp")),
    }


@cache
def _commands(file: str) -> list[str]:
    text = texts()[INPUTS + file]
    imported = re.findall(r"^--IMPORT (\S+)", text, re.MULTILINE)
    return [command for other in (*imported, file) for command in statements(texts()[INPUTS + other])]


def _settings(file: str) -> dict[str, str]:
    """The settings of Spark's suite for a file; of each dimension of settings, the first value."""
    text = texts()[INPUTS + file]
    found = {
        "spark.sql.session.timeZone": "America/Los_Angeles",
        "spark.sql.ansi.enabled": str(not file.startswith("nonansi/")).lower(),
        "spark.sql.timestampType": "TIMESTAMP_NTZ" if file.startswith("timestampNTZ/") else "TIMESTAMP_LTZ",
    }
    lines = re.findall(r"^--SET (.+)$", text, re.MULTILINE)
    dimensions = dict(reversed(re.findall(r"^--CONFIG_DIM(\d+) (.+)$", text, re.MULTILINE)))
    for pairs in (*lines, *dimensions.values()):
        for pair in re.split(r",(?=\s*spark\.)", pairs):
            key, _, value = pair.partition("=")
            found[key.strip()] = value.strip()
    return found


def _answer(cursor: Any, sql: str) -> Answer:
    try:
        found = rows(cursor, sql)
        columns = tuple((name, kind) for name, kind, *_ in cursor.description or ())
    except hive.Error as error:
        return Answer(error=_error(error.args[0]))
    except TException as error:  # the connection ended
        return Answer(error=f"{type(error).__name__}: {error}")
    return Answer(columns, tuple(_steady(repr(row)) for row in found))


def _error(response: Any) -> str:
    """The SQLSTATE and the first line of the message; the other lines quote the statement and Spark's classes."""
    status = getattr(response, "status", None)
    if status is None:
        return str(response)
    return f"{status.sqlState} {_steady(str(status.errorMessage).partition(chr(10))[0])}"


def _steady(text: str) -> str:
    for changing, constant in _CHANGING:
        text = changing.sub(constant, text)
    return text


def _ordered(command: str) -> bool:
    """Whether the order of rows is specified; that of a query without ORDER BY is not."""
    query = re.match(r"\W*(?:select|with|from|values|table)\b", command, re.IGNORECASE)
    return query is None or re.search(r"\b(?:order|sort)\s+by\b", command, re.IGNORECASE) is not None


def _explained(difference: Difference) -> str | None:
    direct, through = difference.direct, difference.through
    for statement, expected, reason in _EXPLAINED:
        if re.match(statement, difference.statement, re.IGNORECASE) and expected(direct, through):
            return reason
    return None


def _swapped(direct: Answer, through: Answer) -> bool:
    """Whether the first two columns are swapped."""
    swapped = (repr((row[1], row[0], *row[2:])) for row in map(literal_eval, through.rows))
    columns = (*through.columns[1::-1], *through.columns[2:])
    return len(columns) > 1 and columns == direct.columns and sorted(swapped) == sorted(direct.rows)


_EXPLAINED: tuple[tuple[str, Callable[[Answer, Answer], bool], str], ...] = (
    (r"SHOW (?:TABLES|VIEWS) IN `\w+`$", _swapped, "PyHive gets the name first (healing)"),
)
"""Statements, the expected difference, and the reason."""


def _as_stored(answer: Answer, stored: str | None) -> bool:
    """Whether the golden file has as many rows, or an error of the same class."""
    if stored is None:
        return False
    condition = re.search(r'"(?:errorClass|condition)" : "([A-Z0-9_]+)', stored)
    if condition or answer.error:
        return condition is not None and condition[1] in answer.error
    output = re.split(r"^-- !query output\n", stored, flags=re.MULTILINE)[-1].strip("\n")
    return len(answer.rows) == (len(output.split("\n")) if output else 0)
