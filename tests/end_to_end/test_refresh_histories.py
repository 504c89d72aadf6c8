"""Random definitions over random histories of their base tables, on real Spark: a view that is read equals its
definition, whatever has happened to the tables and however the refresh got its rows.

FRESHGATE_REFRESHES is about how many refreshes are tried, FRESHGATE_SEED where the histories begin."""

from __future__ import annotations

import itertools
import math
import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from exact_floats import ExactFloat
from lake import ICEBERG
from processes import Engine, Gateway
from pyhive.exc import OperationalError
from random_texts import random_definition
from tiers import EVERYTHING

REFRESHES = int(os.environ.get("FRESHGATE_REFRESHES", "600" if EVERYTHING else "16"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
PER_HISTORY = 16
COLUMNS = "a INT, b STRING, v INT, w DECIMAL(8,2), f DOUBLE"
FORMATS = {
    "files": "USING parquet",
    "orc": "USING orc",
    "partitions": "USING parquet PARTITIONED BY (a)",
    "delta": "USING delta",
    "feed": "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "mapped": "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')",
    "iceberg": "USING iceberg",
    "vectors": "USING iceberg TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', "
    "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')",
    "hive": "STORED AS PARQUET",
    "hive orc": "STORED AS ORC",
}
DELTA, IN_CATALOG = {"delta", "feed", "mapped"}, {"iceberg", "vectors"}
BELOW = {
    "view": ("CREATE VIEW {name} AS", "SELECT a, b, v, w, f FROM {t} WHERE a IS NULL OR a < 3"),
    "rows": ("CREATE MATERIALIZED VIEW {name} REFRESH INCREMENTAL FALLBACK AS", "SELECT v, a, b, w, f FROM {t}"),
    "groups": (
        "CREATE MATERIALIZED VIEW {name} REFRESH INCREMENTAL FALLBACK AS",
        "SELECT a, b, max(v) AS v, max(w) AS w, min(abs(f)) AS f FROM {t} GROUP BY a, b",
    ),
    "totals": (
        "CREATE MATERIALIZED VIEW {name} REFRESH INCREMENTAL FALLBACK AS",
        "SELECT a, b, CAST(count(v) AS INT) AS v, CAST(sum(w) AS DECIMAL(8,2)) AS w, 0.5D AS f FROM {t} GROUP BY a, b",
    ),
}
"""What some views read in place of t: how it is created, and its query."""
_numbers = itertools.count(1)


@dataclass
class Tables:
    """Base tables t and u of one history, and what may happen to them."""

    chance: random.Random
    database: str
    kinds: dict[str, str]
    direct: Any
    through: Any
    below: str = ""
    """Which of BELOW there is; empty: none."""
    told: list[str] = field(default_factory=list)

    def name(self, table: str) -> str:
        catalog = f"{ICEBERG}." if self.kinds[table] in IN_CATALOG else ""
        return f"{catalog}{self.database}.{table}"

    @property
    def between(self) -> str:
        """The name of what is between t and the views."""
        return f"{self.database}.between"

    def create(self) -> None:
        if IN_CATALOG & set(self.kinds.values()):
            self.run(f"CREATE DATABASE {ICEBERG}.{self.database}")
        for table, kind in self.kinds.items():
            self.run(f"CREATE TABLE {self.name(table)} ({COLUMNS}) {FORMATS[kind]}")
            self.insert(table)
        if self.below:
            self._lay()

    def _lay(self, *, again: bool = False) -> None:
        create, query = BELOW[self.below]
        create = create.format(name=self.between)
        create = create.replace("CREATE", "CREATE OR REPLACE") if again else create
        self.run(f"{create} {query.format(t=self.name('t'))}", past=False)

    def drop_between(self) -> None:
        if self.below:
            kind = "VIEW" if self.below == "view" else "MATERIALIZED VIEW"
            rows(self.through, f"DROP {kind} IF EXISTS {self.between}")

    def texts(self, template: str) -> tuple[str, str]:
        """A view's definition, and what it means in terms of tables alone."""
        names = {table: self.name(table) for table in self.kinds}
        if not self.below or self.chance.random() < 0.2:
            return template.format(**names), template.format(**names)
        query = BELOW[self.below][1].format(**names)
        return template.format(**{**names, "t": self.between}), template.format(**{**names, "t": f"({query})"})

    def run(self, statement: str, *, past: bool = True) -> None:
        self.told.append(statement)
        try:
            rows(self.direct if past else self.through, statement)
        except OperationalError as error:
            # Two writers of one table: one of them has to try again, or not.
            if "conflict" not in str(error):
                raise
            self.told.append("conflicts with another")

    def values(self) -> str:
        some = [
            (
                self.chance.choice(("NULL", "0", "1", "2", "3")),
                self.chance.choice(("NULL", "'x'", "'y'", "''")),
                self.chance.choice(("NULL", "0", "1", "2", "3")),
                self.chance.choice(("NULL", "0.25", "-1.50", "7.00")),
                self.chance.choice(("NULL", "0.5D", "-2.0D", "0.0D", "-0.0D", "double('NaN')")),
            )
            for _ in range(self.chance.randrange(1, 5))
        ]
        columns = "a, b, v, w, f"
        listed = ", ".join(f"({', '.join(row)})" for row in some)
        return f"SELECT {columns} FROM VALUES {listed} AS r({columns})"

    def insert(self, table: str) -> None:
        statement = f"INSERT INTO {self.name(table)} (a, b, v, w, f) {self.values()}"
        self.run(statement, past=self.chance.random() < 0.5)

    def happen(self) -> None:
        table = self.chance.choice(("t", "t", "t", "u"))
        kind = self.kinds[table]
        # Other columns make two refreshes complete, and so does each of what follows for files.
        verbs = ["insert"] * 9 + ["race", "race", "evolve"]
        if kind in DELTA | IN_CATALOG:
            verbs += ["delete", "update", "merge"] * 2 + ["compact"]
        else:
            verbs += ["late", "twin", "vanish", "truncate", "overwrite"]
        if kind in IN_CATALOG:
            verbs += ["roll_back", "expire"]
        if self.below:
            verbs += ["below", "below"]
        getattr(self, f"_{self.chance.choice(verbs)}", self.insert)(table)

    # --- what happens

    def _race(self, table: str) -> None:
        """Rows that arrive while views are refreshed; `Views.check` waits for the end."""
        statements = [f"INSERT INTO {self.name(table)} (a, b, v, w, f) {self.values()}" for _ in range(4)]
        self.told += statements
        self.racing = threading.Thread(target=self._write, args=(statements,))
        self.racing.start()

    racing: threading.Thread | None = None
    peer: tuple[str, int] = ("", 0)

    def _write(self, statements: list[str]) -> None:
        with pyhive(*self.peer) as cursor:
            for statement in statements:
                rows(cursor, statement)

    def _evolve(self, table: str) -> None:
        self.run(f"ALTER TABLE {self.name(table)} ADD COLUMNS (x{next(_numbers)} INT)")

    def _delete(self, table: str) -> None:
        self.run(f"DELETE FROM {self.name(table)} WHERE v = {self.chance.randrange(4)}")

    def _update(self, table: str) -> None:
        self.run(f"UPDATE {self.name(table)} SET v = v + 1, b = 'y' WHERE a = {self.chance.randrange(4)}")

    def _merge(self, table: str) -> None:
        self.run(
            f"MERGE INTO {self.name(table)} AS o USING (SELECT 1 AS a, 'm' AS b) AS n ON o.a = n.a AND o.v > 1 "
            f"WHEN MATCHED THEN UPDATE SET b = n.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (n.a, n.b)"
        )

    def _compact(self, table: str) -> None:
        if self.kinds[table] in IN_CATALOG:
            self.run(f"CALL {ICEBERG}.system.rewrite_data_files(table => '{self.database}.{table}')")
        else:
            self.run(f"OPTIMIZE {self.name(table)}")

    def _roll_back(self, table: str) -> None:
        # The session may know the table as it was before writes of others.
        rows(self.direct, f"REFRESH TABLE {self.name(table)}")
        snapshots = rows(self.direct, f"SELECT snapshot_id FROM {self.name(table)}.snapshots ORDER BY committed_at")
        chosen = int(self.chance.choice(snapshots)[0])
        self.run(f"CALL {ICEBERG}.system.set_current_snapshot('{self.database}.{table}', {chosen})")

    def _expire(self, table: str) -> None:
        kept = self.chance.choice((1, 2))
        options = f"older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => {kept}"
        self.run(f"CALL {ICEBERG}.system.expire_snapshots(table => '{self.database}.{table}', {options})")

    def _below(self, _: str) -> None:
        """The view below changes, or only its version does."""
        if self.below == "view" or self.chance.random() < 0.3:
            self._lay(again=True)
        elif self.chance.random() < 0.5:
            self.run(f"REFRESH MATERIALIZED VIEW {self.between} COMPLETE", past=False)
        else:
            self.run(f"SELECT count(*) FROM {self.between}", past=False)

    def _truncate(self, table: str) -> None:
        self.run(f"TRUNCATE TABLE {self.name(table)}")

    def _overwrite(self, table: str) -> None:
        if self.kinds[table] == "partitions":
            values = self.values().replace("SELECT a,", "SELECT")
            self.run(f"INSERT OVERWRITE {self.name(table)} PARTITION (a = 1) (b, v, w, f) {values}")
        else:
            self.run(f"INSERT OVERWRITE {self.name(table)} (a, b, v, w, f) {self.values()}")

    def _files(self, table: str) -> list[Path]:
        described = rows(self.direct, f"DESCRIBE TABLE EXTENDED {self.name(table)}")
        location = next(str(row[1]) for row in described if row[0] == "Location")
        return sorted(each for each in Path(location.removeprefix("file:")).rglob("part-*") if each.is_file())

    def _copy(self, table: str, older_ns: int) -> None:
        """One more file with the rows of another, that much older than it."""
        if not (files := self._files(table)):
            return
        file = self.chance.choice(files)
        other = file.with_name(f"part-{next(_numbers)}-{file.name.removeprefix('part-')}")
        self.told.append(f"copy of {file.name}, older by {older_ns} ns")
        shutil.copy(file, other)
        at = file.stat().st_mtime_ns - older_ns
        os.utime(other, ns=(at, at))

    def _late(self, table: str) -> None:
        self._copy(table, self.chance.choice((10**9, 7200 * 10**9)))

    def _twin(self, table: str) -> None:
        self._copy(table, 0)

    def _vanish(self, table: str) -> None:
        if files := self._files(table):
            self.told.append("a file vanishes")
            self.chance.choice(files).unlink()


@dataclass
class Views:
    tables: Tables
    definitions: dict[str, tuple[str, str]]
    """By name, the text of each view and what it means."""
    modes: Counter[str] = field(default_factory=Counter)

    def create(self) -> None:
        for view, (definition, _) in self.definitions.items():
            create = f"CREATE MATERIALIZED VIEW {self.tables.database}.{view} REFRESH INCREMENTAL FALLBACK"
            if (
                " p.a AS k0" in definition
                and self.tables.kinds["t"] == "partitions"
                and self.tables.chance.random() < 0.5
            ):
                try:
                    self.tables.run(f"{create} PARTITION BY (k0) AS {definition}", past=False)
                except OperationalError as refused:
                    if "cannot be partitioned by k0" not in str(refused):
                        raise
                else:
                    continue
            self.tables.run(f"{create} AS {definition}", past=False)

    def check(self) -> None:
        tables = self.tables
        some = [view for view in self.definitions if tables.chance.random() < 0.8]
        if tables.racing is not None:
            for view in some:
                rows(tables.through, f"SELECT * FROM {tables.database}.{view}")
            tables.racing.join()
            tables.racing = None
        for table in tables.kinds:
            rows(tables.direct, f"REFRESH TABLE {tables.name(table)}")
        for view in some:
            shown = plain(rows(tables.through, f"SELECT * FROM {tables.database}.{view}"))
            meant = plain(rows(tables.direct, self.definitions[view][1]))
            assert shown == meant, (view, self.definitions[view][0], shown - meant, meant - shown, tables.told)

    def count(self) -> None:
        found = rows(self.tables.through, 'SELECT RefreshMode, MvDatabaseName FROM tasks("type"="mv")')
        self.modes.update(str(mode) for mode, database in found if database == self.tables.database)


def plain(found: list[Any]) -> Counter[Any]:
    return Counter(tuple(_plain(value) for value in row) for row in found)


def _plain(value: Any) -> Any:
    """Sums of DOUBLE depend on the order, but never whether they are 0.0 or -0.0."""
    if isinstance(value, ExactFloat) and value and not math.isnan(value):
        return ExactFloat(round(value, 6) + 0.0)
    return Decimal(value).normalize() if isinstance(value, Decimal) else value


@pytest.fixture(scope="module")
def gateway(lake_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("histories")
    running = Gateway(
        home / "gateway.log",
        upstream=f"{lake_engine.host}:{lake_engine.port}",
        constants={"gateway.assembly.refreshes.Increments.from_bytes": 0},
        settings={"staleness.probe_interval": 0},
    )
    yield running
    running.stop()


def test_random_histories(lake_engine: Engine, gateway: Gateway) -> None:
    modes: Counter[str] = Counter()
    with pyhive(gateway.host, gateway.port) as through, pyhive(lake_engine.host, lake_engine.port) as direct:
        for number in range(SEED, SEED + max(1, REFRESHES // PER_HISTORY)):
            modes += history(number, through, direct, (lake_engine.host, lake_engine.port))
    print(dict(modes))
    assert modes["INCREMENTAL"] > 0, modes


def history(seed: int, through: Any, direct: Any, peer: tuple[str, int]) -> Counter[str]:
    chance = random.Random(seed)
    kinds = {"t": chance.choice(list(FORMATS)), "u": chance.choice(("files", "delta", "feed", "hive"))}
    below = chance.choice(("", "", "", *BELOW))
    tables = Tables(chance, f"history{seed}", kinds, direct, through, below)
    tables.peer = peer
    rows(through, f"CREATE DATABASE {tables.database}")
    holes = {table: f"{{{table}}}" for table in kinds}
    definitions = {f"v{number}": tables.texts(random_definition(chance, holes)) for number in range(4)}
    views = Views(tables, definitions)
    try:
        tables.create()
        views.create()
        for _ in range(5):
            for _ in range(chance.choice((1, 1, 2))):
                if tables.racing is None:
                    tables.happen()
            views.check()
        views.count()
    finally:
        if tables.racing is not None:
            tables.racing.join()
        for view in views.definitions:
            rows(through, f"DROP MATERIALIZED VIEW IF EXISTS {tables.database}.{view}")
        tables.drop_between()
        for table in kinds:
            rows(direct, f"DROP TABLE IF EXISTS {tables.name(table)}")
        rows(through, f"DROP DATABASE {tables.database} CASCADE")
        if IN_CATALOG & set(kinds.values()):
            rows(direct, f"DROP DATABASE {ICEBERG}.{tables.database} CASCADE")
    return views.modes
