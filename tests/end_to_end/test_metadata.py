"""Tests the metadata that tools see: JDBC's DatabaseMetaData as DBeaver calls it, HiveServer2's calls, SQLAlchemy and
beeline.

If no materialized view is involved, the answers must equal Spark's.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy
from clients import Jdbc, beeline, pyhive, rows
from databases import Database
from processes import STORAGE, Engine, Gateway
from recorder import Recorder
from TCLIService import ttypes
from tiers import sampled

NEXT, FIRST = 0, 4
COLUMNAR, ROW_WISE = 5, 4
"""HIVE_CLI_SERVICE_PROTOCOL_V6 and V5."""
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def tree(shared: Database) -> Iterator[Database]:
    """A table `t`, a view `v`, a materialized view `m`; in another database `t` is a materialized view, `m` a table."""
    other = f"{shared.name}_other"
    shared.run(
        "CREATE TABLE t (a INT COMMENT 'its key', price DECIMAL(10,2), tags ARRAY<STRING>, `Odd name` DATE) "
        "USING parquet",
        "INSERT INTO t VALUES (1, 2.50, array('x'), DATE'2026-01-31')",
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE MATERIALIZED VIEW m (a, price COMMENT 'what it costs', tags, day) COMMENT 'sales by key' "
        "AS SELECT a, price, tags, `Odd name` FROM t",
        f"CREATE DATABASE {other}",
        f"CREATE MATERIALIZED VIEW {other}.t AS SELECT count(*) AS n FROM t",
        f"CREATE TABLE {other}.m (a INT) USING parquet",
    )
    yield shared
    shared.run(f"DROP MATERIALIZED VIEW {other}.t", f"DROP DATABASE {other} CASCADE")


@pytest.fixture(scope="module")
def tool(tree: Database) -> Iterator[Any]:
    """The DatabaseMetaData of a connection through the gateway."""
    with Jdbc(f"jdbc:hive2://{tree.gateway.host}:{tree.gateway.port}/{tree.name}") as jdbc:
        yield jdbc.connection.getMetaData()


@pytest.fixture(scope="module")
def plain(engine: Engine) -> Iterator[Any]:
    """The DatabaseMetaData of a direct connection to Spark."""
    with Jdbc(engine.url) as jdbc:
        yield jdbc.connection.getMetaData()


def listed(result: Any, *columns: int) -> list[Row]:
    """Returns the rows of a JDBC result as texts; `columns` selects columns, counted from 1."""
    wanted = columns or range(1, result.getMetaData().getColumnCount() + 1)
    found = []
    while result.next():
        found.append(tuple(None if (value := result.getObject(each)) is None else str(value) for each in wanted))
    result.close()
    return found


def names(result: Any) -> list[Row]:
    """Returns name and type of each object that getTables lists."""
    return sorted(listed(result, 3, 4))


# --- JDBC ------------------------------------------------------------------------------------------------


def test_table_types_include_materialized_view(tool: Any, plain: Any) -> None:
    assert listed(tool.getTableTypes()) == [("MATERIALIZED_VIEW",), *listed(plain.getTableTypes())]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (None, [("m", "MATERIALIZED_VIEW"), ("t", "TABLE"), ("v", "VIEW")]),
        ([], [("m", "MATERIALIZED_VIEW"), ("t", "TABLE"), ("v", "VIEW")]),
        (["TABLE"], [("m", "VIEW"), ("t", "TABLE")]),
        (["VIEW"], [("m", "VIEW"), ("v", "VIEW")]),
        (["TABLE", "VIEW"], [("m", "VIEW"), ("t", "TABLE"), ("v", "VIEW")]),
        (["MATERIALIZED_VIEW"], [("m", "MATERIALIZED_VIEW")]),
        (["MATERIALIZED VIEW"], [("m", "MATERIALIZED_VIEW")]),
        (["TABLE", "MATERIALIZED_VIEW"], [("m", "MATERIALIZED_VIEW"), ("t", "TABLE")]),
        (["TABLE", "VIEW", "MATERIALIZED_VIEW"], [("m", "MATERIALIZED_VIEW"), ("t", "TABLE"), ("v", "VIEW")]),
        (["LOCAL TEMPORARY", "SYSTEM TABLE"], []),
    ],
)
def test_tables_are_listed_by_type(tree: Database, tool: Any, types: list[str] | None, expected: list[Row]) -> None:
    assert names(tool.getTables(None, tree.name, "%", types)) == expected


def test_a_materialized_view_has_its_comment(tree: Database, tool: Any) -> None:
    assert listed(tool.getTables(None, tree.name, "m", None), 2, 3, 4, 5) == [
        (tree.name, "m", "MATERIALIZED_VIEW", "sales by key")
    ]


def test_equal_names_in_another_database_have_their_own_types(tree: Database, tool: Any) -> None:
    found = tool.getTables(None, f"{tree.name}_other", "%", None)
    assert names(found) == [("m", "TABLE"), ("t", "MATERIALIZED_VIEW")]
    both = sorted(listed(tool.getTables(None, f"{tree.name}%", "t", None), 2, 4))
    assert both == [(tree.name, "TABLE"), (f"{tree.name}_other", "MATERIALIZED_VIEW")]


def test_a_temporary_view_of_the_same_name_is_a_view(tree: Database) -> None:
    """Spark lists a session's temporary views for every pattern, without a database."""
    with Jdbc(f"jdbc:hive2://{tree.gateway.host}:{tree.gateway.port}/{tree.name}") as jdbc:
        jdbc.execute("CREATE TEMPORARY VIEW m AS SELECT 1 AS x")
        found = listed(jdbc.connection.getMetaData().getTables(None, tree.name, "m", None), 2, 4)
        assert set(found) == {(None, "VIEW"), (tree.name, "MATERIALIZED_VIEW")}
        only_tables = listed(jdbc.connection.getMetaData().getTables(None, tree.name, "m", ["TABLE"]), 2, 4)
        assert only_tables == [(tree.name, "VIEW")]


@pytest.mark.parametrize("pattern", [None, "%", "", "fresh%", STORAGE, "%_storage", "freshgate_storag_"])
def test_the_storage_database_is_not_listed(tree: Database, tool: Any, plain: Any, pattern: str | None) -> None:
    there = listed(plain.getSchemas(None, pattern))
    assert listed(tool.getSchemas(None, pattern)) == [row for row in there if row[0] != STORAGE]
    assert (STORAGE, "") in there


def test_schemas_are_listed_by_pattern(tree: Database, tool: Any) -> None:
    assert listed(tool.getSchemas(None, f"{tree.name}%"), 1) == [(tree.name,), (f"{tree.name}_other",)]
    assert (tree.name,) in listed(tool.getSchemas(), 1)


@pytest.mark.parametrize("pattern", [None, "%", "fresh%", STORAGE])
def test_objects_of_the_storage_database_are_not_listed(
    tree: Database, tool: Any, plain: Any, pattern: str | None
) -> None:
    """This includes tables, columns, and the functions that Spark lists in every database."""
    for call, arguments in (
        ("getTables", ("%", None)),
        ("getTables", ("%", ["TABLE"])),
        ("getColumns", ("%", "%")),
        ("getFunctions", ("a%",)),
    ):
        there = listed(getattr(plain, call)(None, pattern, *arguments), 2)
        here = listed(getattr(tool, call)(None, pattern, *arguments), 2)
        assert (STORAGE,) in there, call
        assert (STORAGE,) not in here, call
        if arguments != ("%", ["TABLE"]):
            assert here == [row for row in there if row != (STORAGE,)], call


def test_columns_equal_the_definitions(tree: Database, tool: Any) -> None:
    found = listed(tool.getColumns(None, tree.name, "m", "%"), 3, 4, 6, 12, 17)
    assert found == [
        ("m", "a", "INT", "its key", "1"),
        ("m", "price", "DECIMAL(10,2)", "what it costs", "2"),
        ("m", "tags", "ARRAY<STRING>", "", "3"),
        ("m", "day", "DATE", "", "4"),
    ]
    assert listed(tool.getColumns(None, tree.name, "m", "p%"), 4) == [("price",)]


def test_calls_that_involve_no_materialized_view_return_sparks_answer(tree: Database, tool: Any, plain: Any) -> None:
    for call, *arguments in (
        ("getCatalogs",),
        ("getTypeInfo",),
        ("getTables", None, tree.name, "t", ["TABLE", "VIEW"]),
        ("getTables", None, tree.name, "v", None),
        ("getTables", None, "nowhere", "%", None),
        ("getColumns", None, tree.name, "t", "%"),
        ("getColumns", None, tree.name, "%", "%"),
        ("getFunctions", None, tree.name, "a%"),
        ("getPrimaryKeys", None, tree.name, "m"),
        ("getImportedKeys", None, tree.name, "m"),
        ("getCrossReference", None, tree.name, "m", None, tree.name, "t"),
        ("getIndexInfo", None, tree.name, "m", False, True),
        ("getProcedures", None, tree.name, "%"),
        ("getUDTs", None, tree.name, "%", None),
    ):
        assert listed(getattr(tool, call)(*arguments)) == listed(getattr(plain, call)(*arguments)), call
    for call in ("getDatabaseProductName", "getDatabaseProductVersion", "getCatalogSeparator", "getSchemaTerm"):
        assert getattr(tool, call)() == getattr(plain, call)()


# --- HiveServer2's calls ---------------------------------------------------------------------------------


class Raw:
    """A session that makes HiveServer2's calls directly, in one of its protocol versions."""

    def __init__(self, client: Any, protocol: int) -> None:
        self.client = client
        opened = client.OpenSession(ttypes.TOpenSessionReq(protocol, "tester", None, {}))
        assert opened.serverProtocolVersion == protocol
        self.session = opened.sessionHandle

    def begin(self, name: str, *arguments: Any) -> Any:
        """Begins a metadata call and returns its operation."""
        begun = getattr(self.client, name)(getattr(ttypes, f"T{name}Req")(self.session, *arguments))
        assert begun.status.statusCode == 0, begun.status
        return begun.operationHandle

    def fetch(self, operation: Any, rows_max: int, orientation: int = NEXT) -> list[Row]:
        """Returns one page of texts."""
        page = self.client.FetchResults(ttypes.TFetchResultsReq(operation, orientation, rows_max, 0))
        assert page.status.statusCode == 0, page.status.errorMessage
        if page.results.columns is not None:
            return list(zip(*(column.stringVal.values for column in page.results.columns), strict=True))
        return [tuple(value.stringVal.value for value in row.colVals) for row in page.results.rows]

    def fetch_all(self, operation: Any, rows_max: int, orientation: int = NEXT) -> list[Row]:
        """Fetches until an empty page, as clients do."""
        found: list[Row] = []
        while page := self.fetch(operation, rows_max, orientation):
            assert len(page) <= rows_max
            found += page
            orientation = NEXT
        return found


@contextlib.contextmanager
def raw(host: str, port: int, protocol: int = COLUMNAR) -> Iterator[Raw]:
    with pyhive(host, port) as cursor:
        session = Raw(cursor._connection.client, protocol)
        yield session
        session.client.CloseSession(ttypes.TCloseSessionReq(session.session))


@pytest.fixture
def many_hidden(direct: Any) -> Iterator[None]:
    """More storage tables than small pages have rows."""
    views = [f"{STORAGE}.many_{number}" for number in range(12)]
    for view in views:
        rows(direct, f"CREATE VIEW {view} AS SELECT 1 AS x")
    yield
    for view in views:
        rows(direct, f"DROP VIEW {view}")


LISTINGS = [(rows_max, protocol) for rows_max in (1, 5, 100_000) for protocol in (COLUMNAR, ROW_WISE)]


@pytest.mark.usefixtures("many_hidden")
@pytest.mark.parametrize(
    ("rows_max", "protocol"),
    sampled(
        LISTINGS, {f"1-{COLUMNAR}", f"5-{ROW_WISE}"}, [f"{rows_max}-{protocol}" for rows_max, protocol in LISTINGS]
    ),
)
def test_pages_that_contain_only_hidden_rows_do_not_end_a_listing(
    tree: Database, engine: Engine, database: Database, protocol: int, rows_max: int
) -> None:
    """In Spark's lists the tests' databases come before and after the storage database."""
    database.run("CREATE TABLE after_storage (a INT) USING parquet")
    with raw(tree.gateway.host, tree.gateway.port, protocol) as here, raw(engine.host, engine.port, protocol) as there:
        for call in (("GetTables", None, "%", "%", ["TABLE", "VIEW"]), ("GetSchemas", None, "%")):
            column = 1 if call[0] == "GetTables" else 0
            for orientation in (NEXT, FIRST):
                at_spark, operation = there.begin(*call), here.begin(*call)
                direct = there.fetch_all(at_spark, rows_max, orientation)
                expected = [row for row in direct if row[column] != STORAGE]
                assert expected != direct
                assert here.fetch_all(operation, rows_max, orientation) == expected
                assert here.fetch(operation, rows_max) == []
                # Spark does not keep metadata rows that it has sent: FETCH_FIRST cannot return to them.
                assert here.fetch(operation, rows_max, FIRST) == there.fetch(at_spark, rows_max, FIRST) == []


@pytest.mark.parametrize("protocol", [COLUMNAR, ROW_WISE])
@pytest.mark.parametrize("rows_max", [1, 2, 100])
def test_table_types_can_be_fetched_page_by_page(tree: Database, protocol: int, rows_max: int) -> None:
    with raw(tree.gateway.host, tree.gateway.port, protocol) as here:
        for orientation in (NEXT, FIRST):
            operation = here.begin("GetTableTypes")
            assert here.fetch_all(operation, rows_max, orientation) == [("MATERIALIZED_VIEW",), ("TABLE",), ("VIEW",)]
            assert here.fetch(operation, rows_max, FIRST) == []


@pytest.mark.thorough
def test_a_view_dropped_during_a_listing_is_still_listed(database: Database) -> None:
    """Spark has already made the list."""
    database.run(
        "CREATE TABLE a (n INT) USING parquet",
        "CREATE MATERIALIZED VIEW m AS SELECT n FROM a",
        "CREATE MATERIALIZED VIEW stays AS SELECT n FROM a",
    )
    with raw(database.gateway.host, database.gateway.port) as here:
        for types, seen_as in (
            (None, "MATERIALIZED_VIEW"),
            (["MATERIALIZED_VIEW"], "MATERIALIZED_VIEW"),
            (["TABLE"], "VIEW"),
        ):
            operation = here.begin("GetTables", None, database.name, "%", types)
            database.run("DROP MATERIALIZED VIEW m")
            found = [row[2:4] for row in here.fetch_all(operation, 1) if row[3] != "TABLE"]
            assert sorted(found) == [("m", seen_as), ("stays", seen_as)]
            anew = here.begin("GetTables", None, database.name, "%", types)
            assert [row[2] for row in here.fetch_all(anew, 1) if row[3] != "TABLE"] == ["stays"]
            database.run("CREATE MATERIALIZED VIEW m AS SELECT n FROM a")


def test_a_listing_is_cancelled_and_closed_as_at_spark(tree: Database, engine: Engine) -> None:
    outcomes = []
    for server in (tree.gateway, engine):
        with raw(server.host, server.port) as session:
            operation = session.begin("GetTables", None, tree.name, "v", ["TABLE", "VIEW"])
            assert [row[2] for row in session.fetch(operation, 10)] == ["v"]
            fetch = ttypes.TFetchResultsReq(operation, NEXT, 10, 0)
            log = session.client.FetchResults(ttypes.TFetchResultsReq(operation, NEXT, 10, 1)).status.statusCode
            cancelled = session.client.CancelOperation(ttypes.TCancelOperationReq(operation)).status.statusCode
            after_cancel = session.client.FetchResults(fetch).status
            closed = session.client.CloseOperation(ttypes.TCloseOperationReq(operation)).status.statusCode
            after_close = session.client.FetchResults(fetch).status
            assert "Invalid OperationHandle" in after_close.errorMessage
            outcomes.append((log, cancelled, after_cancel.statusCode, after_cancel.errorMessage, closed))
    assert outcomes[0] == outcomes[1]


class Breakable(Recorder):
    """A relay to Spark whose connections can be cut."""

    def cut(self) -> None:
        """Breaks all connections; new ones can be opened."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for recording in self.recordings:
            assert recording.done.wait(10)


def test_a_listing_fails_if_its_session_is_lost(tree: Database, engine: Engine, tmp_path: Any) -> None:
    relay = Breakable(engine.host, engine.port)
    gateway = Gateway(
        tmp_path / "gateway.log",
        upstream=f"{relay.host}:{relay.port}",
        settings={"storage.database": "storage_of_metadata"},
    )
    try:
        with pyhive(gateway.host, gateway.port, database=tree.name) as cursor:
            rows(cursor, "CREATE MATERIALIZED VIEW lost AS SELECT a FROM t")
        with raw(gateway.host, gateway.port) as session:
            call = ("GetTables", None, tree.name, "%", ["MATERIALIZED_VIEW"])
            operation = session.begin(*call)
            assert len(session.fetch(operation, 10)) == 1
            relay.cut()
            lost = session.client.FetchResults(ttypes.TFetchResultsReq(operation, NEXT, 10, 0)).status
            assert (lost.statusCode, lost.sqlState) == (3, "08S01")
            assert session.client.CloseOperation(ttypes.TCloseOperationReq(operation)).status.statusCode == 0
            assert [row[2:4] for row in session.fetch_all(session.begin(*call), 10)] == [("lost", "MATERIALIZED_VIEW")]
        with pyhive(gateway.host, gateway.port, database=tree.name) as cursor:
            rows(cursor, "DROP MATERIALIZED VIEW lost")
    finally:
        gateway.stop()
        relay.close()


# --- other tools -----------------------------------------------------------------------------------------


def test_sqlalchemy_reflects_and_reads(tree: Database) -> None:
    engine = sqlalchemy.create_engine(f"hive://tester@{tree.gateway.host}:{tree.gateway.port}/{tree.name}")
    try:
        with engine.connect() as connection:
            inspector = sqlalchemy.inspect(connection)
            schemas = inspector.get_schema_names()
            assert tree.name in schemas
            assert STORAGE not in schemas
            # PyHive's own lists use the first column, which is the database in Spark's answer.
            for sql, expected in (("SHOW TABLES", {"m", "t", "v"}), ("SHOW VIEWS", {"m", "v"})):
                assert expected == {
                    row.tableName if "TABLES" in sql else row.viewName
                    for row in connection.execute(sqlalchemy.text(sql))
                }
            assert inspector.has_table("m")
            table = sqlalchemy.Table("m", sqlalchemy.MetaData(), autoload_with=connection)
            assert [(column.name, type(column.type).__name__) for column in table.columns] == [
                ("a", "Integer"),
                ("price", "HiveDecimal"),
                ("tags", "String"),
                ("day", "HiveDate"),
            ]
            found = connection.execute(sqlalchemy.select(table.c.a, table.c.price).where(table.c.a == 1)).all()
            assert [(row.a, str(row.price)) for row in found] == [(1, "2.50")]
            other = sqlalchemy.Table("t", sqlalchemy.MetaData(), schema=f"{tree.name}_other", autoload_with=connection)
            assert connection.execute(sqlalchemy.select(other.c.n)).scalar_one() == 1
    finally:
        engine.dispose()


def test_beeline_lists_describes_and_reads(tree: Database) -> None:
    url = f"jdbc:hive2://{tree.gateway.host}:{tree.gateway.port}/{tree.name}"
    done = beeline(url, "!tables", "!columns m", "DESCRIBE m", "SELECT a, price FROM m")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert ["m", "MATERIALIZED_VIEW"] in [line[2:4] for line in lines]
    assert not [line for line in lines if STORAGE in line]
    assert [tree.name, "m", "price"] in [line[1:4] for line in lines]
    assert ["price", "decimal(10,2)", "what it costs"] in lines
    assert ["1", "2.50"] in lines
