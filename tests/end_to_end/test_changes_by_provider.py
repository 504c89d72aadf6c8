"""Tests every kind of change of a base table, for every table provider, through the gateway and directly on Spark.
After each change the view is correct, and exactly the changed partitions were recomputed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clients import pyhive, rows
from lake import ICEBERG
from processes import Engine, Gateway, wait_until
from pyhive.exc import Error, OperationalError
from tiers import EVERYTHING, sampled

GATEWAY, DIRECT = "through the gateway", "on the engine"
HOUR = "3600"


@dataclass(frozen=True)
class Table:
    """A base table under test, and the location of its files."""

    name: str
    home: Path
    elsewhere: Path
    """A directory outside the table's own; it does not exist yet."""

    def directory(self, value: str) -> Path:
        return self.home / f"d={value}"


def files_in(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.name[0] not in "._"]


def write_file(table: Table) -> None:
    """Adds a file to a partition's directory, as another program would."""
    found = files_in(table.directory("written"))[0]
    shutil.copy(found, found.with_name("another" + found.suffix))


def remove_files(table: Table) -> None:
    for path in files_in(table.directory("removed")):
        path.unlink()


def rewrite_file(table: Table) -> None:
    """Replaces a file by one with other rows, the same size and the same name."""
    found = files_in(table.directory("rewritten"))[0]
    other = files_in(table.directory(OTHER))[0]
    # Otherwise Hadoop would report a checksum error.
    found.with_name(f".{found.name}.crc").unlink()
    before = found.stat()
    assert (found.read_bytes() != other.read_bytes(), before.st_size) == (True, other.stat().st_size)
    found.write_bytes(other.read_bytes())
    # The file system's clock may not have advanced since the file was written.
    os.utime(found, ns=(before.st_atime_ns, before.st_mtime_ns + 2_000_000))


def fill_elsewhere(table: Table) -> None:
    table.elsewhere.mkdir()
    found = files_in(table.directory("kept"))[0]
    shutil.copy(found, table.elsewhere / found.name)


def write_elsewhere(table: Table) -> None:
    found = files_in(table.elsewhere)[0]
    shutil.copy(found, found.with_name("another" + found.suffix))


@dataclass(frozen=True)
class Change:
    """Statements in which {t} is the table and {elsewhere} a directory, or an action of another program."""

    statements: Sequence[str] = ()
    touched: frozenset[str] | None = field(default_factory=frozenset)
    """Values of the partitions that the change touches; None: the whole table."""
    program: Callable[[Table], None] | None = None
    keeps_rows: bool = False
    """Whether the gateway knows that the statement changes no row, and so does not observe the table."""


def change(touched: str | None, *statements: str) -> Change:
    """`touched` is a list of values separated by spaces."""
    return Change(statements, None if touched is None else frozenset(touched.split()))


def program(touched: str, act: Callable[[Table], None]) -> Change:
    return Change((), frozenset(touched.split()), act)


OTHER = "other"
"""The partition whose row differs from the others but has the same size."""
START = f"kept inserted overwritten dropped remade written removed rewritten deleted updated merged {OTHER}"
"""The initial partitions: each change has one of its own."""
CREATE = "CREATE TABLE {t} {stored}"
FILL = f"INSERT INTO {{t}} SELECT if(d = '{OTHER}', '8', '1') AS a, d FROM explode(split('{START}', ' ')) AS t(d)"

INSERT = change("inserted new", "INSERT INTO {t} VALUES ('2', 'inserted'), ('3', 'new')")
INSERT_NULL = change("NULL", "INSERT INTO {t} VALUES ('4', NULL)")
OVERWRITE = change("overwritten", "INSERT OVERWRITE {t} PARTITION (d = 'overwritten') VALUES ('5')")
NOTHING_INSERTED = change("", "INSERT INTO {t} SELECT * FROM {t} WHERE a = '9'")
PROPERTIES = change("", "ALTER TABLE {t} SET TBLPROPERTIES ('some' = 'text')")
ADD_COLUMN = Change(["ALTER TABLE {t} ADD COLUMNS (more STRING)"], None, keeps_rows=True)
RENAME_COLUMN = change(None, "ALTER TABLE {t} RENAME COLUMN more TO other")
DROP_COLUMN = change(None, "ALTER TABLE {t} DROP COLUMN other")
RECREATE = change(None, "DROP TABLE {t}", CREATE, "INSERT INTO {t} VALUES ('1', 'kept'), ('2', 'inserted')")
AFTERWARDS = change("kept", "INSERT INTO {t} VALUES ('7', 'kept')")

PARTITIONS = [
    change("elsewhere", "ALTER TABLE {t} ADD PARTITION (d = 'elsewhere') LOCATION '{elsewhere}'"),
    change("empty", "ALTER TABLE {t} ADD PARTITION (d = 'empty')"),
    change("dropped", "ALTER TABLE {t} DROP PARTITION (d = 'dropped')"),
    change("remade", "ALTER TABLE {t} DROP PARTITION (d = 'remade')", "ALTER TABLE {t} ADD PARTITION (d = 'remade')"),
]
ROWS = [
    change("deleted", "DELETE FROM {t} WHERE d = 'deleted'"),
    change("updated", "UPDATE {t} SET a = '6' WHERE d = 'updated' AND a = '1'"),
    change(
        "merged",
        "MERGE INTO {t} USING (SELECT 'merged' AS d) s ON {t}.d = s.d WHEN MATCHED THEN UPDATE SET a = '7'",
    ),
]
BY_PROGRAMS = [
    program("written", write_file),
    program("removed", remove_files),
    program("rewritten", rewrite_file),
]


@dataclass(frozen=True)
class Provider:
    """A way to store tables, and rounds of changes. A check of the view ends each round, so the changes of a round
    touch different partitions."""

    stored: str
    rounds: Sequence[Sequence[Change]]
    catalog: str = ""


def of_files(stored: str, *, hive: bool = False, briefly: bool = False) -> Provider:
    """`briefly`: only the first round; the later ones do not depend on the format of the files."""
    truncated = f"kept overwritten written rewritten deleted updated merged {OTHER} new elsewhere"
    truncated += "" if hive else " NULL"
    rounds = [
        [*BY_PROGRAMS, INSERT, *([] if hive else [INSERT_NULL]), OVERWRITE, *PARTITIONS],
        [program("elsewhere", write_elsewhere), change("inserted", "TRUNCATE TABLE {t} PARTITION (d = 'inserted')")],
        # Readers of Hive's formats get the table properties and may return other rows after a change.
        *([[NOTHING_INSERTED], [change(None, *PROPERTIES.statements)]] if hive else [[NOTHING_INSERTED, PROPERTIES]]),
        [change(truncated, "TRUNCATE TABLE {t}")],
        [ADD_COLUMN],
        [RECREATE],
        [AFTERWARDS],
    ]
    return Provider(stored, rounds[:1] if briefly else rounds)


def of_commits(stored: str, *rewriting: str, catalog: str = "", renaming: Sequence[Change] = ()) -> Provider:
    """`rewriting`: statements that change no row; `renaming`: changes that allow a column to be renamed."""
    rounds = [
        [INSERT, INSERT_NULL, OVERWRITE, *ROWS],
        [NOTHING_INSERTED, PROPERTIES, *(change("", statement) for statement in rewriting)],
        [change("NULL new " + START.replace("deleted ", ""), "TRUNCATE TABLE {t}")],
        [ADD_COLUMN],
        [*renaming, RENAME_COLUMN],
        [DROP_COLUMN],
        [RECREATE],
        [AFTERWARDS],
    ]
    return Provider(stored, rounds, catalog)


MAPPED = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
PROVIDERS = {
    "parquet": of_files("(a STRING, d STRING) USING parquet PARTITIONED BY (d)"),
    "orc": of_files("(a STRING, d STRING) USING orc PARTITIONED BY (d)", briefly=True),
    "csv": of_files("(a STRING, d STRING) USING csv PARTITIONED BY (d)"),
    "json": of_files("(a STRING, d STRING) USING json PARTITIONED BY (d)", briefly=True),
    "text": of_files("(a STRING, d STRING) USING text PARTITIONED BY (d)", briefly=True),
    # In Hive's formats Spark reads a NULL partition value as a text, which no view can be partitioned by.
    "hive": of_files("(a STRING) PARTITIONED BY (d STRING) STORED AS TEXTFILE", hive=True),
    "delta": of_commits(
        "(a STRING, d STRING) USING delta PARTITIONED BY (d)",
        "OPTIMIZE {t}",
        renaming=[change(None, MAPPED)],
    ),
    "iceberg": of_commits("(a STRING, d STRING) USING iceberg PARTITIONED BY (d)", catalog=f"{ICEBERG}."),
}
QUERY = "SELECT d, count(*) AS n, sum(CAST(a AS INT)) AS s FROM {t} GROUP BY d"


@dataclass(frozen=True)
class Lake:
    """One Spark with all providers, a gateway in front of it, and a cursor on each."""

    warehouse: Path
    gateway: Gateway
    through: Any
    direct: Any

    def cursor(self, way: str) -> Any:
        return self.through if way == GATEWAY else self.direct


@pytest.fixture(scope="module")
def lake(lake_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    home = tmp_path_factory.mktemp("changes")
    own = {"staleness.probe_interval": 0, "versions.retention": 1}
    gateway = Gateway(home / "gateway.log", upstream=f"{lake_engine.host}:{lake_engine.port}", settings=own)
    try:
        with (
            pyhive(gateway.host, gateway.port) as through,
            pyhive(lake_engine.host, lake_engine.port) as direct,
        ):
            yield Lake(home, gateway, through, direct)
    finally:
        gateway.stop()


@dataclass
class Scenario:
    """A table, a view on it, and the changes applied to the table."""

    lake: Lake
    provider: str
    way: str
    table: Table = field(init=False)
    view: str = field(init=False)

    def __post_init__(self) -> None:
        short = "g" if self.way == GATEWAY else "e"
        database = f"c_{self.provider}_{short}"
        self.view = f"{database}.m"
        rows(self.lake.through, f"CREATE DATABASE {database}")
        catalog = PROVIDERS[self.provider].catalog
        self.table = Table(f"{catalog}{database}.t", Path(), self.lake.warehouse / f"{database}_elsewhere")
        self.run(self.lake.direct, CREATE, FILL)
        self.table = Table(self.table.name, self._home(), self.table.elsewhere)
        # Through the gateway only noted writes can cause an observation: the probe interval has not passed.
        seconds = HOUR if self.way == GATEWAY else "0"
        self.run(
            self.lake.through,
            f"CREATE MATERIALIZED VIEW {self.view} PARTITION BY (d) PROPERTIES ('probe_interval' = '{seconds}') "
            f"AS {QUERY}",
        )

    def run(self, cursor: Any, *statements: str) -> None:
        for statement in statements:
            stored = PROVIDERS[self.provider].stored
            rows(cursor, statement.format(t=self.table.name, stored=stored, elsewhere=self.table.elsewhere))

    def _home(self) -> Path:
        described = rows(self.lake.direct, f"DESCRIBE TABLE EXTENDED {self.table.name}")
        return Path(next(str(row[1]) for row in described if row[0] == "Location").removeprefix("file:"))

    def apply(self, change: Change) -> None:
        if change.program is not None:
            change.program(self.table)
        self.run(self.lake.cursor(self.way), *change.statements)

    def task(self) -> tuple[int, str, frozenset[str]]:
        """Returns the number, mode and recomputed partitions of the view's last task."""
        database = self.view.partition(".")[0]
        found = rows(
            self.lake.through,
            'SELECT TaskId, RefreshMode, NeedRefreshPartitions FROM tasks("type"="mv") '
            f"WHERE MvDatabaseName = '{database}' ORDER BY CAST(TaskId AS BIGINT) DESC LIMIT 1",
        )
        number, mode, partitions = found[0]
        return int(number), mode, frozenset() if partitions == "\\N" else frozenset(json.loads(partitions))

    def check(self, touched: frozenset[str] | None) -> None:
        """Checks that a read of the view is correct and recomputed exactly these partitions."""
        before = self.task()
        # Each session caches Iceberg's tables.
        rows(self.lake.direct, f"REFRESH TABLE {self.table.name}")
        expected = sorted(rows(self.lake.direct, QUERY.format(t=self.table.name)), key=repr)
        shown = sorted(rows(self.lake.through, f"SELECT * FROM {self.view}"), key=repr)
        assert shown == expected
        number, mode, partitions = self.task()
        if touched is None:
            assert (mode, number > before[0]) == ("COMPLETE", True)
        elif touched:
            assert partitions == {f"p_{value}" for value in touched}
            assert (mode, number > before[0]) == ("PARTIAL", True)
        else:
            assert (number, mode) == before[:2] or mode == "NOT_REFRESH"
        freshness = rows(self.lake.through, f"SHOW MATERIALIZED VIEWS IN {self.view.partition('.')[0]}")[0][2]
        assert freshness == "FRESH"


@pytest.mark.thorough
def test_a_view_over_a_cached_table_shows_files_written_by_another_program(lake: Lake) -> None:
    """CACHE TABLE caches the rows for all sessions and does not notice files that another program writes."""
    rows(lake.through, "CREATE DATABASE c_cached")
    rows(lake.through, "CREATE TABLE c_cached.t (a INT, d STRING) USING parquet PARTITIONED BY (d)")
    rows(lake.through, "INSERT INTO c_cached.t VALUES (1, 'x')")
    query = "SELECT d, sum(a) AS s FROM c_cached.t GROUP BY d"
    rows(lake.through, f"CREATE MATERIALIZED VIEW c_cached.m AS {query}")
    rows(lake.direct, "CACHE TABLE c_cached.t")
    # The gateway notes this write, and Spark fills its cache again.
    rows(lake.through, "INSERT INTO c_cached.t VALUES (10, 'x')")
    assert rows(lake.direct, query) == [("x", 11)]
    described = rows(lake.direct, "DESCRIBE TABLE EXTENDED c_cached.t")
    home = Path(next(str(row[1]) for row in described if row[0] == "Location").removeprefix("file:"))
    written, other = files_in(home / "d=x")
    one = min(written, other, key=lambda path: path.stat().st_mtime_ns)
    shutil.copy(one, one.with_name("another" + one.suffix))
    assert rows(lake.through, "SELECT * FROM c_cached.m") == [("x", 12)]
    shutil.copy(one, one.with_name("a-third" + one.suffix))
    rows(lake.through, f"CREATE MATERIALIZED VIEW c_cached.later AS {query}")
    rows(lake.direct, "UNCACHE TABLE c_cached.t")
    assert rows(lake.direct, query) == [("x", 13)]
    for view in ("m", "later"):
        assert rows(lake.through, f"SELECT * FROM c_cached.{view}") == [("x", 13)], view


@pytest.mark.thorough
def test_a_view_over_a_cached_table_without_partitions_shows_files_written_by_another_program(lake: Lake) -> None:
    rows(lake.through, "CREATE DATABASE c_kept")
    rows(lake.through, "CREATE TABLE c_kept.t (a INT) USING parquet")
    rows(lake.through, "INSERT INTO c_kept.t VALUES (1)")
    query = "SELECT sum(a) AS s FROM c_kept.t"
    rows(lake.through, f"CREATE MATERIALIZED VIEW c_kept.m AS {query}")
    rows(lake.direct, "CACHE TABLE c_kept.t")
    described = rows(lake.direct, "DESCRIBE TABLE EXTENDED c_kept.t")
    home = Path(next(str(row[1]) for row in described if row[0] == "Location").removeprefix("file:"))
    (written,) = files_in(home)
    shutil.copy(written, written.with_name("another" + written.suffix))
    assert rows(lake.through, "SELECT * FROM c_kept.m") == [(2,)]
    shutil.copy(written, written.with_name("a-third" + written.suffix))
    rows(lake.through, f"CREATE MATERIALIZED VIEW c_kept.later AS {query}")
    rows(lake.direct, "UNCACHE TABLE c_kept.t")
    assert rows(lake.direct, query) == [(3,)]
    for view in ("m", "later"):
        assert rows(lake.through, f"SELECT * FROM c_kept.{view}") == [(3,)], view


@pytest.mark.thorough
def test_a_view_over_symlinked_files_is_recomputed_at_each_read(lake: Lake, tmp_path: Path) -> None:
    """An input format of Hive's may read files outside the table's directory, so changes cannot be detected."""
    rows(lake.through, "CREATE DATABASE c_links")
    data, links = tmp_path / "data.txt", tmp_path / "links"
    data.write_text("1\n")
    links.mkdir()
    (links / "link").write_text(f"{data.as_uri()}\n")
    rows(
        lake.through,
        "CREATE TABLE c_links.t (a STRING) STORED AS INPUTFORMAT "
        "'org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat' OUTPUTFORMAT "
        f"'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat' LOCATION '{links}'",
    )
    rows(lake.through, "CREATE MATERIALIZED VIEW c_links.m AS SELECT count(*) AS n FROM c_links.t")
    assert rows(lake.through, "SELECT n FROM c_links.m") == [(1,)]
    data.write_text("1\n2\n")
    assert rows(lake.through, "SELECT n FROM c_links.m") == [(2,)]
    assert rows(lake.through, "SHOW MATERIALIZED VIEWS IN c_links")[0][2] == "UNKNOWN"


def test_a_view_over_a_table_behind_jdbc_is_refreshed_when_its_watermark_moves(lake: Lake) -> None:
    source = "OPTIONS (url 'jdbc:derby:memory:c_jdbc;create=true', dbtable 'ORDERS')"
    rows(lake.through, "CREATE DATABASE c_jdbc")
    rows(lake.direct, f"CREATE TABLE c_jdbc.t USING jdbc {source} AS SELECT 1 AS id, 10 AS amount")
    create(lake, "c_jdbc.m", "SELECT sum(amount) AS n FROM c_jdbc.t")

    def task() -> int:
        found = rows(lake.through, """SELECT max(CAST(TaskId AS BIGINT)) FROM tasks("type"="mv")""")
        return int(found[0][0])

    # Without a watermark each read refreshes: nothing says whether the rows are the same.
    before = task()
    assert rows(lake.through, "SELECT n FROM c_jdbc.m") == [(10,)]
    assert task() > before
    assert rows(lake.through, "SHOW MATERIALIZED VIEWS IN c_jdbc")[0][2] == "UNKNOWN"

    rows(lake.through, "ALTER TABLE c_jdbc.t SET TBLPROPERTIES ('freshgate.watermark' = 'id')")
    assert shown(lake, "c_jdbc.m") == [10]
    before = task()
    assert shown(lake, "c_jdbc.m") == [10]
    assert task() == before
    rows(lake.direct, "INSERT INTO c_jdbc.t VALUES (2, 5)")
    assert shown(lake, "c_jdbc.m") == [15]
    assert task() > before
    # What the watermark does not show is not seen.
    before = task()
    rows(lake.direct, "INSERT OVERWRITE c_jdbc.t VALUES (1, 100), (2, 100)")
    assert shown(lake, "c_jdbc.m") == [15]
    assert task() == before
    # A write through the gateway is noted, whatever the watermark says.
    rows(lake.through, "INSERT INTO c_jdbc.t VALUES (2, 1)")
    assert shown(lake, "c_jdbc.m") == [201]


@pytest.mark.thorough
def test_a_write_by_path_makes_views_over_the_table_stale(lake: Lake) -> None:
    """The gateway does not know which table the path belongs to, and observes every table."""
    rows(lake.through, "CREATE DATABASE c_path")
    rows(lake.through, "CREATE TABLE c_path.t (a INT) USING delta")
    rows(
        lake.through,
        f"CREATE MATERIALIZED VIEW c_path.m PROPERTIES ('probe_interval' = '{HOUR}') AS "
        "SELECT count(*) AS n FROM c_path.t",
    )
    assert rows(lake.through, "SELECT n FROM c_path.m") == [(0,)]
    location = rows(lake.direct, "DESCRIBE DETAIL c_path.t")[0][4]
    rows(lake.through, f"INSERT INTO delta.`{location}` VALUES (1)")
    assert rows(lake.through, "SELECT n FROM c_path.m") == [(1,)]


def create(lake: Lake, name: str, query: str, seconds: str = "0") -> None:
    rows(lake.through, f"CREATE MATERIALIZED VIEW {name} PROPERTIES ('probe_interval' = '{seconds}') AS {query}")


def shown(lake: Lake, name: str) -> list[Any]:
    """Reads a view; checks that it then counts as fresh."""
    found = rows(lake.through, f"SELECT n FROM {name}")
    database = name.partition(".")[0]
    states = rows(
        lake.through,
        f"SELECT freshness, state FROM freshgate.materialized_views WHERE database_name = '{database}' "
        f"AND name = '{name.partition('.')[2]}'",
    )
    assert states == [("FRESH", "NORMAL")]
    return [row[0] for row in found]


@pytest.mark.thorough
def test_views_over_paths_notice_changes(lake: Lake, tmp_path: Path) -> None:
    """The gateway lists the files, or reads the log, of paths; the case of their names is kept."""
    data = tmp_path / "Data"
    for statement in (
        "CREATE DATABASE c_over",
        f"CREATE TABLE c_over.p USING parquet LOCATION '{data}/P' AS SELECT 1 AS a",
        f"CREATE TABLE c_over.d USING delta LOCATION '{data}/D' AS SELECT 1 AS a",
        f"CREATE VIEW c_over.v AS SELECT a FROM parquet.`{data}/P`",
    ):
        rows(lake.direct, statement)
    (data / "C").mkdir()
    (data / "C" / "One.csv").write_text("1\n")
    create(lake, "c_over.of_parquet", f"SELECT count(*) AS n FROM parquet.`{data}/P`")
    create(lake, "c_over.of_view", "SELECT count(*) AS n FROM c_over.v")
    create(lake, "c_over.of_delta", f"SELECT count(*) AS n FROM DELTA.`{data}/D`", HOUR)
    create(lake, "c_over.of_csv", f"SELECT count(*) AS n FROM csv.`file:{data}/C/*.csv`")
    views = ["of_parquet", "of_view", "of_delta", "of_csv"]
    assert [shown(lake, f"c_over.{view}") for view in views] == [[1], [1], [1], [1]]
    file = files_in(data / "P")[0]
    shutil.copy(file, file.with_name("another" + file.suffix))
    (data / "C" / "Two.csv").write_text("2\n3\n")
    (data / "C" / "Three.txt").write_text("4\n")
    rows(lake.through, f"INSERT INTO delta.`{data}/D` VALUES (2)")
    assert [shown(lake, f"c_over.{view}") for view in views] == [[2], [2], [2], [3]]


def test_what_another_program_has_just_created_is_known(lake: Lake, tmp_path: Path) -> None:
    """The list of the databases and of their views is older than they are: a view that it lacks counts as a table,
    which changes only with its text."""
    rows(lake.direct, "CREATE DATABASE c_known")
    rows(lake.direct, f"CREATE TABLE c_known.t USING parquet LOCATION '{tmp_path}/t' AS SELECT 1 AS a")
    rows(lake.through, "SELECT a FROM c_known.t")
    create(lake, "c_known.m", "SELECT count(*) AS n FROM c_known.t")
    rows(lake.direct, "CREATE DATABASE c_new")
    for database in ("c_known", "c_new"):
        rows(lake.direct, f"CREATE VIEW {database}.v AS SELECT a FROM parquet.`{tmp_path}/t`")
        create(lake, f"{database}.of_view", f"SELECT count(*) AS n FROM {database}.v")
    views = ["c_known.of_view", "c_new.of_view"]
    assert [shown(lake, view) for view in views] == [[1], [1]]
    file = files_in(tmp_path / "t")[0]
    shutil.copy(file, file.with_name("another" + file.suffix))
    assert [shown(lake, view) for view in views] == [[2], [2]]


@pytest.mark.thorough
def test_a_view_over_a_path_without_a_slash_is_never_fresh(lake: Lake) -> None:
    """The gateway cannot resolve the path, and it is not a table."""
    rows(lake.direct, "CREATE DATABASE c_bare")
    home = rows(lake.direct, "SELECT java_method('java.lang.System', 'getProperty', 'user.dir')")[0][0]
    bare = Path(home) / "freshgate_bare"
    bare.mkdir()
    try:
        (bare / "one").write_text("1\n")
        create(lake, "c_bare.m", "SELECT count(*) AS n FROM text.freshgate_bare", HOUR)
        assert rows(lake.through, "SELECT n FROM c_bare.m") == [(1,)]
        (bare / "two").write_text("2\n")
        assert rows(lake.through, "SELECT n FROM c_bare.m") == [(2,)]
        assert rows(lake.through, "SHOW MATERIALIZED VIEWS IN c_bare")[0][2] == "UNKNOWN"
    finally:
        shutil.rmtree(bare)


@pytest.mark.thorough
def test_load_data_makes_views_over_the_source_table_stale(lake: Lake) -> None:
    """LOAD DATA moves the files out of the table that contained them."""
    rows(lake.direct, "CREATE DATABASE c_load")
    for table in ("t", "other"):
        rows(lake.direct, f"CREATE TABLE c_load.{table} (a INT) USING hive")
    rows(lake.direct, "INSERT INTO c_load.t VALUES (1)")
    create(lake, "c_load.m", "SELECT count(*) AS n FROM c_load.t", HOUR)
    assert shown(lake, "c_load.m") == [1]
    described = rows(lake.direct, "DESCRIBE TABLE EXTENDED c_load.t")
    home = Path(next(str(row[1]) for row in described if row[0] == "Location").removeprefix("file:"))
    rows(lake.through, f"LOAD DATA INPATH '{files_in(home)[0]}' INTO TABLE c_load.other")
    assert shown(lake, "c_load.m") == [0]


@pytest.mark.parametrize("when_stale", ["REFRESH", "INLINE"])
def test_no_view_is_read_through_the_cache_of_a_session(lake: Lake, when_stale: str) -> None:
    """An open session reads an Iceberg table as its catalog has cached it, while other sessions write."""
    database = f"c_session_{when_stale.lower()}"
    table, view, query = f"{ICEBERG}.{database}.t", f"{database}.m", "SELECT sum(a) AS s FROM"
    rows(lake.direct, f"CREATE DATABASE {database}")
    rows(lake.direct, f"CREATE TABLE {table} (a INT) USING iceberg")
    with pyhive(lake.gateway.host, lake.gateway.port) as reader, pyhive(lake.gateway.host, lake.gateway.port) as writer:
        rows(writer, f"INSERT INTO {table} VALUES (1)")
        assert rows(reader, f"{query} {table}") == [(1,)]
        rows(writer, f"INSERT INTO {table} VALUES (10)")
        assert rows(reader, f"{query} {table}") == [(1,)]  # the cache
        properties = f"PROPERTIES ('when_stale' = '{when_stale}', 'grace_period' = '0')"
        rows(reader, f"CREATE MATERIALIZED VIEW {view} {properties} AS {query} {table}")
        assert rows(reader, f"SELECT * FROM {view}") == [(11,)]
        rows(reader, f"{query} {table}")
        rows(writer, f"INSERT INTO {table} VALUES (100)")
        assert rows(reader, f"SELECT * FROM {view}") == [(111,)]
        rows(reader, f"{query} {table}")
        rows(lake.direct, f"INSERT INTO {table} VALUES (1000)")
        wait_until(lambda: rows(reader, f"SELECT * FROM {view}") == [(1111,)], 60)


@pytest.mark.thorough
def test_views_over_branches_tags_and_snapshots_of_iceberg_are_correct(lake: Lake) -> None:
    """Branches and tags differ from the table, a snapshot never changes, metadata tables change with the table."""
    table = f"{ICEBERG}.c_refs.t"
    for statement in (
        "CREATE DATABASE c_refs",
        f"CREATE TABLE {table} (a INT) USING iceberg",
        f"INSERT INTO {table} VALUES (1)",
        f"ALTER TABLE {table} CREATE BRANCH b",
        f"ALTER TABLE {table} CREATE TAG g",
    ):
        rows(lake.direct, statement)
    first = rows(lake.direct, f"SELECT snapshot_id FROM {table}.snapshots")[0][0]
    sources = {
        "plain": table,
        "below": f"{table}.branch_b",
        "clause": f"{table} /* a comment */ FOR SYSTEM_VERSION AS OF 'b'",
        "options": f"{table} WITH ('branch' = 'b')",
        "tag": f"{table} VERSION AS OF 'g'",
        "fixed": f"{table} VERSION AS OF {first}",
        "snapshots": f"{table}.snapshots",
    }
    for view, source in sources.items():
        create(lake, f"c_refs.{view}", f"SELECT count(*) AS n FROM {source}", HOUR)

    def counts() -> list[Any]:
        return [shown(lake, f"c_refs.{view}")[0] for view in sources]

    assert counts() == [1, 1, 1, 1, 1, 1, 1]
    rows(lake.through, f"INSERT INTO {table}.branch_b VALUES (2)")
    assert counts() == [1, 2, 2, 2, 1, 1, 2]
    rows(lake.through, f"INSERT INTO {table} VALUES (3), (4)")
    assert counts() == [3, 2, 2, 2, 1, 1, 3]
    rows(lake.through, f"ALTER TABLE {table} CREATE OR REPLACE TAG g")
    assert counts() == [3, 2, 2, 2, 3, 1, 3]


@pytest.mark.thorough
def test_views_over_versions_of_delta_tables_are_correct(lake: Lake) -> None:
    rows(lake.direct, "CREATE DATABASE c_past")
    rows(lake.direct, "CREATE TABLE c_past.t USING delta AS SELECT 1 AS a")
    create(lake, "c_past.fixed", "SELECT count(*) AS n FROM c_past.t VERSION AS OF 0", HOUR)
    create(lake, "c_past.both", "SELECT count(*) AS n FROM c_past.t JOIN c_past.t VERSION AS OF 0 AS old", HOUR)
    rows(lake.through, "INSERT INTO c_past.t VALUES (2)")
    assert [shown(lake, f"c_past.{view}") for view in ("fixed", "both")] == [[1], [2]]
    rows(lake.through, "CREATE OR REPLACE TABLE c_past.t USING delta AS SELECT 1 AS a UNION ALL SELECT 2")
    assert [shown(lake, f"c_past.{view}") for view in ("fixed", "both")] == [[1], [2]]


@pytest.mark.thorough
def test_a_write_in_a_session_with_another_default_catalog_is_noted(lake: Lake) -> None:
    """With spark.sql.defaultCatalog set, names without a catalog belong to that catalog."""
    rows(lake.through, "CREATE DATABASE c_default")
    rows(lake.through, f"CREATE TABLE {ICEBERG}.c_default.t (a INT) USING iceberg")
    rows(
        lake.through,
        f"CREATE MATERIALIZED VIEW c_default.m PROPERTIES ('probe_interval' = '{HOUR}') AS "
        f"SELECT count(*) AS n FROM {ICEBERG}.c_default.t",
    )
    with pyhive(lake.gateway.host, lake.gateway.port) as cursor:
        assert rows(cursor, "SELECT n FROM c_default.m") == [(0,)]
        rows(cursor, f"SET spark.sql.defaultCatalog={ICEBERG}")
        rows(cursor, "INSERT INTO c_default.t VALUES (1)")
        assert rows(cursor, "SELECT n FROM spark_catalog.c_default.m") == [(1,)]


@pytest.mark.thorough
@pytest.mark.parametrize("denied", ["table", "partition"])
def test_a_view_whose_base_files_cannot_be_listed_is_not_fresh(lake: Lake, denied: str) -> None:
    """A read returns what Spark returns: an error, or no rows for a local table directory without permission."""
    database, query = f"c_denied_{denied}", QUERY.format(t=f"c_denied_{denied}.t")
    rows(lake.through, f"CREATE DATABASE {database}")
    rows(lake.through, f"CREATE TABLE {database}.t (a STRING, d STRING) USING parquet PARTITIONED BY (d)")
    rows(lake.through, f"INSERT INTO {database}.t VALUES ('1', 'x'), ('2', 'y')")
    rows(lake.through, f"CREATE MATERIALIZED VIEW {database}.m PARTITION BY (d) AS {query}")
    described = rows(lake.through, f"DESCRIBE TABLE EXTENDED {database}.t")
    home = Path(next(str(row[1]) for row in described if row[0] == "Location").removeprefix("file:"))
    rows(lake.direct, f"INSERT INTO {database}.t VALUES ('3', 'x')")
    closed = home if denied == "table" else home / "d=x"

    def freshness() -> str:
        return str(rows(lake.through, f"SHOW MATERIALIZED VIEWS IN {database}")[0][2])

    closed.chmod(0)
    try:
        assert freshness() == "UNKNOWN"
        if denied == "table":
            assert rows(lake.through, f"SELECT * FROM {database}.m") == rows(lake.direct, query) == []
        else:
            with pytest.raises(OperationalError, match=str(closed)):
                rows(lake.through, f"SELECT * FROM {database}.m")
        assert freshness() == "UNKNOWN"
    finally:
        closed.chmod(0o700)
    assert freshness() == "STALE"
    assert rows(lake.through, f"SELECT * FROM {database}.m ORDER BY d") == [("x", 2, 4), ("y", 1, 2)]
    assert freshness() == "FRESH"


def test_partitioning_by_a_timestamp_column_of_iceberg_is_refused(lake: Lake) -> None:
    """The texts of its partition values are in another time zone."""
    table = f"{ICEBERG}.c_refused.t"
    rows(lake.through, "CREATE DATABASE c_refused")
    rows(lake.direct, f"CREATE TABLE {table} (a INT, at TIMESTAMP) USING iceberg PARTITIONED BY (at)")
    with pytest.raises(OperationalError, match="an Iceberg table is of the type timestamp"):
        rows(lake.through, f"CREATE MATERIALIZED VIEW c_refused.m PARTITION BY (at) AS SELECT a, at FROM {table}")


CASES = [
    *((provider, DIRECT) for provider in PROVIDERS),
    # What the gateway notes depends on the statement, not on the format of the files.
    *((provider, GATEWAY) for provider in ("parquet", "delta", "iceberg")),
]
NAMES = [f"{provider}-{way}" for provider, way in CASES]
OF_SUITE = {f"iceberg-{DIRECT}"}
ROUNDS_OF_SUITE = 2
"""The later ones change tables as a whole; tests/mv/test_observation.py has these changes, too."""


@pytest.mark.parametrize(("provider", "way"), sampled(CASES, OF_SUITE, NAMES))
def test_exactly_the_changed_partitions_are_recomputed(lake: Lake, provider: str, way: str) -> None:
    """Directly on Spark, one observation finds all changes of a round. Through the gateway, each statement is followed
    by a read: with a probe interval of one hour, the view is refreshed only because the write was noted."""
    scenario = Scenario(lake, provider, way)
    for changes in PROVIDERS[provider].rounds[: None if EVERYTHING else ROUNDS_OF_SUITE]:
        if any("{elsewhere}" in statement for change in changes for statement in change.statements):
            fill_elsewhere(scenario.table)
        touched, wholly = set[str](), False
        for change in changes:
            scenario.apply(change)
            touched |= change.touched or set()
            wholly |= change.touched is None and not (change.keeps_rows and way == GATEWAY)
            if change is changes[-1] or (way == GATEWAY and change.statements):
                scenario.check(None if wholly else frozenset(touched))
                touched, wholly = set(), False


# --- other catalogs -----------------------------------------------------------------------------------------


@pytest.fixture
def in_iceberg(lake: Lake) -> Iterator[Any]:
    """A cursor through the gateway with Iceberg's catalog as its current catalog."""
    for statement in (
        f"CREATE NAMESPACE IF NOT EXISTS {ICEBERG}.abroad",
        f"CREATE OR REPLACE TABLE {ICEBERG}.abroad.b (a INT, p STRING) USING iceberg PARTITIONED BY (p)",
        f"INSERT INTO {ICEBERG}.abroad.b VALUES (1, 'x'), (2, 'y')",
        "DROP DATABASE IF EXISTS abroad CASCADE",
        "CREATE DATABASE abroad",
    ):
        rows(lake.direct, statement)
    with pyhive(lake.gateway.host, lake.gateway.port) as cursor:
        rows(cursor, f"USE {ICEBERG}.abroad")
        yield cursor


def test_views_can_be_created_and_used_while_another_catalog_is_current(lake: Lake, in_iceberg: Any) -> None:
    view, query = "spark_catalog.abroad.m", "SELECT p, count(*) AS n, max(a) AS a FROM b GROUP BY p"

    def check() -> None:
        rows(lake.direct, f"REFRESH TABLE {ICEBERG}.abroad.b")
        expected = rows(lake.direct, query.replace("FROM b", f"FROM {ICEBERG}.abroad.b"))
        assert sorted(rows(in_iceberg, f"SELECT * FROM {view}")) == sorted(expected)

    with pytest.raises(Error, match=r"Write spark_catalog\.<database>\.m"):
        rows(in_iceberg, f"CREATE MATERIALIZED VIEW m AS {query}")
    rows(in_iceberg, f"CREATE MATERIALIZED VIEW {view} PARTITION BY (p) COMMENT 'it\\'s' AS {query}")
    check()
    rows(in_iceberg, "INSERT INTO b VALUES (3, 'x')")
    check()
    rows(in_iceberg, f"ALTER MATERIALIZED VIEW {view} SET ('when_stale' = 'INLINE', 'grace_period' = '0')")
    rows(in_iceberg, "INSERT INTO b VALUES (4, 'z')")
    check()
    assert rows(in_iceberg, f"SHOW MATERIALIZED VIEW VERSIONS {view}")[0][1] == "CURRENT"
    assert "partitions: p_z" in str(rows(in_iceberg, f"EXPLAIN REFRESH MATERIALIZED VIEW {view} AUTO"))
    rows(in_iceberg, f"REFRESH MATERIALIZED VIEW {view}")
    number = rows(in_iceberg, f"SHOW MATERIALIZED VIEW VERSIONS {view}")[0][0]
    assert len(rows(in_iceberg, f"SELECT * FROM {view} VERSION AS OF {number}")) == 3
    rows(in_iceberg, "BEGIN TRANSACTION")
    check()
    rows(in_iceberg, "COMMIT")
    described = {row[0]: row[1] for row in rows(in_iceberg, f"DESCRIBE EXTENDED MATERIALIZED VIEW {view}")}
    assert (described["Comment"], described["Base Tables"]) == ("it's", f"{ICEBERG}.abroad.b")
    assert {row[1] for row in rows(in_iceberg, f"SHOW PARTITIONS {view}")} == {"p_x", "p_y", "p_z"}
    rows(in_iceberg, f"ANALYZE TABLE {view} COMPUTE STATISTICS")
    rows(in_iceberg, f"ALTER MATERIALIZED VIEW {view} RENAME TO m2")
    view += "2"
    check()
    assert rows(in_iceberg, "SHOW MATERIALIZED VIEWS") == []
    assert [row[1] for row in rows(in_iceberg, "SHOW MATERIALIZED VIEWS IN spark_catalog.abroad LIKE '%2%'")] == ["m2"]
    (_, created), *_ = rows(in_iceberg, f"SHOW CREATE MATERIALIZED VIEW {view}")
    rows(lake.through, created.replace("CREATE", "CREATE OR REPLACE", 1))
    check()
    with pytest.raises(Error, match=r"Write spark_catalog\.<database>\.m2"):
        rows(in_iceberg, "DROP MATERIALIZED VIEW m2")
    rows(in_iceberg, f"DROP MATERIALIZED VIEW {view}")
    assert rows(lake.direct, "SHOW VIEWS IN abroad") == []
    # The rows of the view that OR REPLACE replaced are kept for versions.retention.
    stored = f"SHOW TABLES IN {lake.gateway.storage} LIKE 'abroad__*'"
    wait_until(lambda: rows(lake.direct, stored) == [], what="the storage of both views to be dropped")


ODD = ["", " ", "  ", "a ", "a", "a_", "it's", 'say "hi"', "back\\slash", "\\", "50%", "ü€", "n\nl", "${x}", "/", "`"]
LITERALS = (("false", "false"), ("true", "false"), ("true", "true"))
"""Values of the settings escapedStringLiterals and doubleQuotedIdentifiers."""


@pytest.mark.thorough
def test_unusual_partition_values_are_refreshed_under_any_literal_settings(lake: Lake, in_iceberg: Any) -> None:
    """Hive's metastore does not distinguish texts that differ only in trailing blanks."""
    query = f"SELECT p, count(*) AS n FROM {ICEBERG}.abroad.b GROUP BY p"
    values = ", ".join(f"(1, CAST(X'{value.encode().hex()}' AS STRING))" for value in ODD)
    rows(in_iceberg, f"INSERT INTO b VALUES {values}, (1, NULL)")
    rows(in_iceberg, f"CREATE MATERIALIZED VIEW spark_catalog.abroad.odd PARTITION BY (p) AS {query}")
    for settings in LITERALS if EVERYTHING else LITERALS[-1:]:
        with pyhive(lake.gateway.host, lake.gateway.port) as cursor:
            rows(cursor, f"SET spark.sql.parser.escapedStringLiterals={settings[0]}")
            rows(cursor, f"SET spark.sql.ansi.doubleQuotedIdentifiers={settings[1]}")
            rows(cursor, f"INSERT INTO {ICEBERG}.abroad.b VALUES {values}")
            rows(lake.direct, f"REFRESH TABLE {ICEBERG}.abroad.b")
            expected = sorted(rows(lake.direct, query), key=repr)
            assert sorted(rows(cursor, "SELECT * FROM abroad.odd"), key=repr) == expected
            assert len(expected) == len(ODD) + 3
            rows(
                cursor,
                "CREATE OR REPLACE MATERIALIZED VIEW abroad.odd PARTITION BY (p) "
                f"COMMENT 'x' TBLPROPERTIES ('q' = 'r') AS {query}",
            )
            assert sorted(rows(cursor, "SELECT * FROM abroad.odd"), key=repr) == expected
    rows(in_iceberg, "INSERT INTO b VALUES (9, 'a ')")
    rows(lake.direct, f"REFRESH TABLE {ICEBERG}.abroad.b")
    assert sorted(rows(in_iceberg, "SELECT * FROM spark_catalog.abroad.odd"), key=repr) == sorted(
        rows(lake.direct, query), key=repr
    )
    (task,) = rows(
        in_iceberg,
        'SELECT RefreshMode, NeedRefreshPartitions FROM tasks("type"="mv") '
        "WHERE MvDatabaseName = 'abroad' AND MvName = 'odd' ORDER BY CAST(TaskId AS BIGINT) DESC LIMIT 1",
    )
    assert task == ("PARTIAL", '["p_a"]')
