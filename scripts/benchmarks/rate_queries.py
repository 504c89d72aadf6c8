"""The tables and queries of three benchmarks, which Spark's own tests contain."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jars import jar

TESTS = "spark-sql_2.13"
NAMES = {"ssb": "Star Schema Benchmark", "tpch": "TPC-H", "tpcds": "TPC-DS"}
_CLASSES = {"ssb": "SSBQuerySuite", "tpch": "TPCHBase", "tpcds": "TPCDSSchema"}
"""Classes of Spark's tests with the columns of each benchmark's tables."""
_TABLE = re.compile(r"CREATE TABLE `(\w+)`\s*\(([^;]*)\)\s*USING", re.IGNORECASE)
_TEXT = re.compile(r"(?:VAR)?CHAR\(\d+\)", re.IGNORECASE)
_COLUMN = re.compile(r"`(\w+)`\s+(\w+(?:\(\d+,\s*\d+\))?)")
ROWS = 60
"""Of each table. Few enough that no LIMIT of a query cuts its answer."""
KEYS = 12
"""How many values a column has: few, so that joins find rows."""
_VALUES = {"string": "concat('v', {n})", "date": "date_add(DATE'1998-01-01', CAST({n} AS INT))"}


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    tables: dict[str, str]
    """The columns of each, as SQL."""
    queries: dict[str, str]

    def statements(self, *tables: str) -> Iterator[str]:
        """Create all or some of the tables in the current database, with a few rows that joins find."""
        for table in tables or self.tables:
            text = self.tables[table]
            # Spark pads values of CHAR where it reads a table; what a view stores is a plain string. So none is proved.
            columns = _COLUMN.findall(_TEXT.sub("STRING", text))
            values = [f"{_value(place, kind)} AS {name}" for place, (name, kind) in enumerate(columns)]
            yield f"CREATE TABLE {table} USING parquet AS SELECT {', '.join(values)} FROM range({ROWS})"


def _value(place: int, kind: str) -> str:
    """A value of a type for each `id`. Columns differ in how their values follow the rows, and a few are NULL."""
    number = f"(id * {place % 5 + 1} + id DIV 7) % {KEYS}"
    value = _VALUES.get(kind.lower(), "{n}").format(n=number)
    return f"CAST(CASE WHEN id % 19 = {place % 19} THEN NULL ELSE {value} END AS {kind})"


def benchmarks() -> Iterator[Benchmark]:
    """Raises FileNotFoundError without the archive of Spark's tests."""
    with zipfile.ZipFile(jar(TESTS)) as archive:
        for name in NAMES:
            yield _read(archive, name)


def _read(archive: zipfile.ZipFile, name: str) -> Benchmark:
    texts = _texts(archive.read(f"org/apache/spark/sql/{_CLASSES[name]}.class"))
    written = {found[1]: found[2] for text in texts if (found := _TABLE.search(_stripped(text)))}
    files = [each for each in archive.namelist() if re.fullmatch(rf"{name}/[\w.]+\.sql", each)]
    queries = {Path(each).stem: archive.read(each).decode().strip().rstrip(";") for each in sorted(files, key=_number)}
    return Benchmark(name, written or dict(_named(texts)), {each: _bare(text) for each, text in queries.items()})


def _named(texts: list[str]) -> Iterator[tuple[str, str]]:
    """The tables of a map from names to columns: each name comes before its columns."""
    previous = ""
    for text in texts:
        if text.lstrip().startswith("|`"):
            yield previous, _stripped(text)
        elif re.fullmatch("[a-z_]+", text):
            previous = text


def _number(path: str) -> tuple[float, str]:
    found = re.search(r"\d+(?:\.\d+)?", Path(path).stem)
    return (float(found[0]) if found else 0.0, path)


def _stripped(text: str) -> str:
    return re.sub(r"^\s*\|", "", text, flags=re.MULTILINE)


def _bare(query: str) -> str:
    return "\n".join(line for line in query.splitlines() if not line.startswith("--"))


def _texts(compiled: bytes) -> list[str]:
    """The texts among the constants of a class, in their order."""
    (count,) = struct.unpack(">H", compiled[8:10])
    found, place, number = [], 10, 1
    while number < count:
        kind = compiled[place]
        if kind == 1:
            (length,) = struct.unpack(">H", compiled[place + 1 : place + 3])
            found.append(compiled[place + 3 : place + 3 + length].decode("utf-8", "replace"))
            place += 3 + length
        else:
            place += _SIZES[kind]
            number += kind in (5, 6)
        number += 1
    return found


_SIZES = {**dict.fromkeys((7, 8, 16, 19, 20), 3), **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 5), 5: 9, 6: 9, 15: 4}
"""Bytes of each kind of constant."""
