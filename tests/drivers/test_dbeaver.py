"""Tests the calls that DBeaver makes, taken from its source, in its order, with the driver that it downloads.

Names of files are those of dbeaver/dbeaver in October 2024. Without materialized views, each call must have the same
outcome at Spark and through the gateway, whether rows or a failure, because DBeaver continues after many failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jpype
import pytest
from byte_chain import Chain, assert_same_bytes
from drivers.contents import DATABASE, EVERY_TYPE, PAGED, PAGES, SLEEPS, UNREADABLE, Reference, Server, first_line
from drivers.hive_jdbc import cancelled, connected, failure, outcome, text, texts

DBEAVERS = "4.0.1"
FORWARD_ONLY, SCROLLS, READ_ONLY = 1003, 1004, 1007
RETURN_GENERATED_KEYS = 1
SEGMENT = 200
"""ModelPreferences.RESULT_SET_MAX_ROWS: the number of rows that DBeaver reads at a time."""
CURRENT = "SELECT CURRENT_DATABASE()"
"""The driver's parameter query-get-active-db in ext.hive/plugin.xml. GenericSQLDialect also uses it as the ping."""
FAKE_TABLE = "DBEAVERFAKETABLENAMEFORPING"

OF_THE_DIALECT = (
    "getIdentifierQuoteString",
    "getSQLStateType",
    "supportsCorrelatedSubqueries",
    "supportsMixedCaseIdentifiers",
    "supportsMixedCaseQuotedIdentifiers",
    "storesUpperCaseIdentifiers",
    "storesLowerCaseIdentifiers",
    "storesUpperCaseQuotedIdentifiers",
    "storesLowerCaseQuotedIdentifiers",
    "getSearchStringEscape",
    "getCatalogSeparator",
    "supportsCatalogsInDataManipulation",
    "supportsCatalogsInTableDefinitions",
    "supportsSchemasInDataManipulation",
    "supportsSchemasInTableDefinitions",
    "getExtraNameCharacters",
    "isCatalogAtStart",
    "getSQLKeywords",
    "getNumericFunctions",
    "getStringFunctions",
    "getSystemFunctions",
    "getTimeDateFunctions",
)
"""JDBCSQLDialect.initDriverSettings, in order. Only getSQLKeywords calls the server, from driver 3.1 on."""
OF_THE_SERVER = (
    "getDatabaseProductName",
    "getDatabaseProductVersion",
    "getDriverName",
    "getDriverVersion",
    "getDatabaseMajorVersion",
    "getDatabaseMinorVersion",
    "getSchemaTerm",
    "getProcedureTerm",
    "getCatalogTerm",
    "supportsBatchUpdates",
    "supportsTransactions",
)
"""JDBCDataSourceInfo's constructor."""
OF_A_COLUMN = (
    "getColumnLabel",
    "getColumnName",
    "isWritable",
    "getTableName",
    "getCatalogName",
    "getSchemaName",
    "isNullable",
    "getColumnDisplaySize",
    "getColumnTypeName",
    "getColumnType",
    "isAutoIncrement",
    "getPrecision",
    "getScale",
)
"""JDBCColumnMetaData's constructor."""
READERS = {4: "getLong", 5: "getInt", -6: "getShort", 1: "getString", 12: "getString", 16: "getBoolean", 91: "getDate"}
"""The methods with which JDBCNumberValueHandler, JDBCStringValueHandler etc. read values, by java.sql.Types. Values of
other types are read with getObject."""

Rows = list[tuple[str | None, ...]]


# --- DBeaver's calls -------------------------------------------------------------------------------------


def verdict(call: Callable[..., Any], *arguments: Any) -> str | tuple[str, str]:
    """The result of a call as a string, or its failure. DBeaver logs most failures and continues."""
    try:
        return str(call(*arguments))
    except jpype.java.lang.Throwable as error:
        return type(error).__name__, first_line(error.getMessage())


def query_string(connection: Any, sql: str) -> str | tuple[str, str]:
    """The first value of a statement (JDBCUtils.queryString, GenericExecutionContext.determineSelectedEntity)."""

    def ask() -> Any:
        with connection.prepareStatement(sql) as statement:
            result = statement.executeQuery()
            result.next()
            found = result.getString(1)
            result.close()
            return found

    return verdict(ask)


def tell_name(connection: Any, purpose: str) -> tuple[Any, Any]:
    """GenericDataSource.populateClientAppName, which HiveDataSource does not disable: SetClientInfo from 3.1 on."""

    def known() -> list[tuple[str, Any]]:
        listed = connection.getMetaData().getClientInfoProperties()
        found = []
        while listed.next():
            found.append((str(listed.getString("NAME")), verdict(listed.getInt, "MAX_LEN")))
        listed.close()
        return found

    return verdict(known), verdict(connection.setClientInfo, "ApplicationName", f"DBeaver 24.2.3 - {purpose}")


@contextmanager
def context(server: Server, purpose: str, seen: list[Any] | None = None) -> Iterator[Any]:
    """A connection that is prepared like JDBCExecutionContext.connect, and closed like closeConnection."""
    seen = [] if seen is None else seen
    with connected(DBEAVERS, server.url) as connection:
        seen += tell_name(connection, purpose)
        seen += [verdict(connection.setAutoCommit, True), verdict(connection.getAutoCommit)]
        # GenericExecutionContext.refreshDefaults; SQL editors send USE first (initDefaultsFrom).
        if purpose.startswith("SQLEditor"):
            with connection.prepareStatement(f"USE {DATABASE}") as statement:
                seen.append(verdict(statement.execute))
        seen.append(query_string(connection, CURRENT))
        yield connection
        # JDBCConnectionImpl.close, at the end of each use.
        seen += [verdict(connection.getWarnings), verdict(connection.clearWarnings)]


def run(connection: Any, sql: str, offset: int = 0, fetch_size: int = 0) -> Any:
    """The outcome of a statement in an editor: columns and rows or the update count, or the failure; and warnings.

    SQLQueryJob.executeStatement, JDBCTable.readData, DBUtils.makeStatement, JDBCStatementImpl.setLimit.
    """
    with connection.createStatement(SCROLLS if offset else FORWARD_ONLY, READ_ONLY) as statement:
        statement.setMaxRows(offset + SEGMENT)
        if fetch_size:
            statement.setFetchSize(fetch_size)
        try:
            if statement.execute(sql):
                found: Any = fetched(statement.getResultSet(), offset)
            else:
                # getLargeUpdateCount is JDBC's default method, which raises.
                found = verdict(statement.getLargeUpdateCount), verdict(statement.getUpdateCount)
        except jpype.java.sql.SQLException as error:
            found = failure(error)
        return found, verdict(statement.getWarnings), verdict(statement.clearWarnings)


def write(connection: Any, *statements: str) -> None:
    """Runs statements without a result, each of which must succeed."""
    for sql in statements:
        found, *_ = run(connection, sql)
        assert found[1] == [], sql


def fetched(result: Any, offset: int) -> tuple[list[Any], Rows]:
    """JDBCUtils.scrollResultSet, JDBCColumnMetaData, and the handlers of values."""
    if offset and isinstance(verdict(result.absolute, offset), tuple):
        for _ in range(offset):
            result.next()
    metadata = result.getMetaData()
    numbers = range(1, metadata.getColumnCount() + 1)
    columns = [tuple(verdict(getattr(metadata, name), number) for name in OF_A_COLUMN) for number in numbers]
    readers = [READERS.get(int(metadata.getColumnType(number)), "getObject") for number in numbers]
    rows: list[tuple[str | None, ...]] = []
    while len(rows) < SEGMENT and result.next():
        rows.append(tuple(_value(result, number, reader) for number, reader in zip(numbers, readers, strict=True)))
    result.close()
    return columns, rows


def _value(result: Any, number: int, reader: str) -> str | None:
    try:
        value = getattr(result, reader)(number)
    except jpype.java.sql.SQLException:
        value = result.getObject(number)
    return None if result.wasNull() else text(value)


def bound(connection: Any, sql: str, *values: str | int, keys: bool = False) -> Any:
    """A change in the grid (ExecuteBatchImpl): a prepared statement, with its update count and generated keys."""
    with (
        connection.prepareStatement(sql, RETURN_GENERATED_KEYS) if keys else connection.prepareStatement(sql)
    ) as statement:
        for number, value in enumerate(values, 1):
            if isinstance(value, int):
                statement.setInt(number, value)
            else:
                statement.setString(number, value)
        try:
            statement.execute()
        except jpype.java.sql.SQLException as error:
            return failure(error)
        return verdict(statement.getUpdateCount), verdict(statement.getGeneratedKeys)


def source(connection: Any, table: str) -> str:
    """The tab "Source" of a view or "DDL" of a table (HiveMetaModel.getTableDDL)."""
    with connection.prepareStatement(f"SHOW CREATE TABLE {table}") as statement:
        return "\n".join(str(line) for (line,) in texts(statement.executeQuery()))


def ping(connection: Any) -> Any:
    """JDBCUtils.isConnectionAlive, which KeepAlivePingJob calls. It never fetches the rows."""
    if connection.isClosed():
        return False
    with connection.createStatement() as statement:
        return verdict(statement.execute, CURRENT)


def ping_of_apache_spark(connection: Any) -> Any:
    """The ping of DBeaver's driver "Apache Spark", which has no query for it. It does not close the list."""
    valid = verdict(connection.isValid, 10)
    return valid, isinstance(connection.getMetaData().getTables(None, None, FAKE_TABLE, None), jpype.java.sql.ResultSet)


def show_index(connection: Any, table: str) -> Any:
    """HiveTable.IndexCache: DBeaver lists indexes of tables unless `version()` begins with 3."""
    with connection.prepareStatement("SHOW INDEX ON ?") as statement:
        statement.setString(1, table)
        statement.setFetchSize(1000)
        return outcome(statement.executeQuery)


# --- without materialized views --------------------------------------------------------------------------


def connects(server: Server) -> list[Any]:
    """Connects: a connection each for "Main" and "Metadata" (JDBCRemoteInstance), then GenericDataSource.initialize."""
    seen: list[Any] = []
    with context(server, "Main", seen), context(server, "Metadata", seen) as connection:
        metadata = connection.getMetaData()
        seen += [(name, verdict(getattr(metadata, name))) for name in (*OF_THE_DIALECT, *OF_THE_SERVER)]
        seen.append(query_string(connection, "SELECT version()"))
        seen += [outcome(metadata.getTypeInfo), outcome(metadata.getCatalogs)]
        # The gateway hides its own database, and other tests create and drop databases.
        seen.append([row for row in texts(metadata.getSchemas(None, "%")) if row[0] == DATABASE])
    return seen


@pytest.mark.thorough
def test_dbeaver_connects(server: Server, reference: Reference) -> None:
    seen = reference.answer(server, connects)
    # The call SetClientInfo succeeds.
    assert seen[1] == "None"
    assert DATABASE in seen
    assert ("getDatabaseProductName", "Spark SQL") in seen
    assert [row[0] for row in seen[-5]] == [DATABASE]


def expands(server: Server) -> dict[str, Any]:
    """Expands the tree: TableCache, ConstraintKeysCache, ForeignKeysCache, IndexCache, GenericMetaModel, a search."""
    with context(server, "Metadata") as connection:
        metadata = connection.getMetaData()
        return {
            "tables": outcome(metadata.getTables, None, DATABASE, "%", None),
            "one table": outcome(metadata.getTables, None, DATABASE, "orders", None),
            "one view": outcome(metadata.getTables, None, DATABASE, "orders_view", None),
            "search": outcome(metadata.getTables, None, DATABASE, "%order%", None),
            "columns of a table": outcome(metadata.getColumns, None, DATABASE, "every_type", "%"),
            "columns of a view": outcome(metadata.getColumns, None, DATABASE, "orders_view", "%"),
            "columns of all": outcome(metadata.getColumns, None, DATABASE, "%", "%"),
            "keys": outcome(metadata.getPrimaryKeys, None, DATABASE, "orders"),
            "keys of all": outcome(metadata.getPrimaryKeys, None, DATABASE, "%"),
            "imported keys": outcome(metadata.getImportedKeys, None, DATABASE, "orders"),
            "exported keys": outcome(metadata.getExportedKeys, None, DATABASE, "orders"),
            "indexes": outcome(metadata.getIndexInfo, None, DATABASE, "orders", False, True),
            "indexes of all": outcome(metadata.getIndexInfo, None, DATABASE, "%", False, True),
            "indexes of Hive": show_index(connection, "orders"),
            "functions": outcome(metadata.getFunctions, None, DATABASE, "%"),
            "procedures": outcome(metadata.getProcedures, None, DATABASE, "%"),
            "source of a table": source(connection, f"{DATABASE}.every_type"),
            "source of a view": source(connection, f"{DATABASE}.orders_view"),
            "rows of a table": run(connection, f"SELECT COUNT(*) FROM {DATABASE}.every_type"),
        }


def test_dbeaver_expands_the_tree(server: Server, reference: Reference) -> None:
    seen = reference.answer(server, expands)
    assert {"every_type", "orders", "orders_view"} <= {row[2] for row in seen["tables"][1]}
    assert [row[2:4] for row in seen["one view"][1]] == [("orders_view", "VIEW")]
    assert [row[3] for row in seen["columns of a view"][1]] == ["a b"]
    # A failure has four parts; a list has columns and rows.
    assert {name for name, answer in seen.items() if name.startswith(("ind", "exp")) and len(answer) == 4} >= {
        "exported keys",
        "indexes of Hive",
    }
    assert seen["source of a view"].startswith("CREATE VIEW")


def reads(server: Server) -> list[Any]:
    """Reads like the tab "Data" and an SQL editor's grid: segments, a filter with an order, a count, and failures."""
    table = f"{DATABASE}.every_type"
    with context(server, "SQLEditor <Script.sql>") as connection:
        return [
            run(connection, EVERY_TYPE),
            run(connection, PAGES),
            run(connection, PAGES, offset=SEGMENT),
            run(connection, PAGES, offset=2 * SEGMENT, fetch_size=3 * SEGMENT),
            run(connection, f"SELECT x.* FROM {table} x\nWHERE x.id > 1\nORDER BY x.id DESC"),
            run(connection, f"SELECT COUNT(*) FROM {table}"),
            run(connection, f"SELECT COUNT(*) FROM (SELECT id FROM {table}\n) dbvrcnt"),
            # HiveDataSource's QueryTransformerLimit, with the setting "Use SQL to limit fetch size" (off by default).
            run(connection, f"SELECT x.id FROM {table} x\nLIMIT 0, {SEGMENT}"),
            run(connection, UNREADABLE),
        ]


def test_dbeaver_fills_the_grid(server: Server, reference: Reference) -> None:
    every, first, second, third, filtered, count, wrapped, limited, unreadable = (
        found for found, *_ in reference.answer(server, reads)
    )
    assert len(every[1]) == 4
    for segment, (_, rows) in enumerate((first, second, third)):
        expected = PAGED[segment * SEGMENT : (segment + 1) * SEGMENT]
        assert rows == [(f"java.lang.Long {number}", words) for number, words in expected]
    assert len(filtered[1]) == 3
    assert count[1] == wrapped[1] == [("java.lang.Long 4",)]
    assert limited[1] == unreadable[1] == "42601"


def edits(server: Server) -> list[Any]:
    """Runs a script, changes a table in the grid, and renames and drops it in the tree (HiveTableManager)."""
    table = f"{DATABASE}.dbeaver_script"
    with context(server, "SQLEditor <Script.sql>") as connection:
        return [
            *(
                run(connection, sql)
                for sql in (
                    "DROP TABLE IF EXISTS dbeaver_script",
                    "DROP TABLE IF EXISTS dbeaver_renamed",
                    "CREATE TABLE dbeaver_script (a INT, b STRING) USING parquet",
                    "INSERT INTO dbeaver_script VALUES (1, 'one'), (2, 'two')",
                    "SELECT * FROM dbeaver_script ORDER BY a",
                    "ALTER TABLE dbeaver_script ADD COLUMNS (c INT)",
                    "DESCRIBE dbeaver_script",
                    "SET spark.sql.shuffle.partitions=3",
                )
            ),
            bound(connection, f"INSERT INTO {table} (a,b,c)\n\tVALUES (?,?,?)", 3, "it's", 4, keys=True),
            bound(connection, f"UPDATE {table}\n\tSET b=?\n\tWHERE a=?", "more", 3),
            bound(connection, f"DELETE FROM {table}\n\tWHERE a=?", 3),
            run(connection, f"SELECT x.* FROM {table} x\nORDER BY x.a"),
            run(connection, f"ALTER TABLE {DATABASE}.dbeaver_script RENAME TO dbeaver_renamed"),
            run(connection, f"DROP TABLE {DATABASE}.dbeaver_renamed"),
        ]


def test_dbeaver_runs_a_script_and_changes_the_grid(server: Server, reference: Reference) -> None:
    seen = reference.answer(server, edits)
    assert [row[1] for row in seen[4][0][1]] == ["one", "two"]
    assert [row[1] for row in seen[11][0][1]] == ["one", "two", "it's"]


def cancels(server: Server) -> list[Any]:
    """The button "Cancel" (JDBCDataSource.cancelStatementExecute), the calls after it, and the next statement."""
    with context(server, "SQLEditor <Script.sql>") as connection:
        with connection.createStatement(FORWARD_ONLY, READ_ONLY) as statement:
            statement.setMaxRows(SEGMENT)
            seen = [cancelled(statement, SLEEPS), verdict(statement.getWarnings)]
        return [*seen, ping(connection), run(connection, "SELECT 1 AS one")]


def test_dbeaver_cancels(server: Server, reference: Reference) -> None:
    ended, _, alive, (following, *_) = reference.answer(server, cancels)
    assert ended[3].startswith("Query was cancelled")
    assert alive == "True"
    assert len(following[1]) == 1


def idles(server: Server) -> list[Any]:
    """Pings, disconnects (JDBCDataSource.closeConnection), and pings the closed connection."""
    with context(server, "Main") as connection:
        seen = [ping(connection) for _ in range(3)] + [ping_of_apache_spark(connection) for _ in range(3)]
        seen.append(run(connection, "SELECT 1 AS one"))
        # JDBCExecutionContext.disconnect rolls back if auto-commit is off, which it never is with these drivers.
        seen += [verdict(connection.rollback), verdict(connection.close), verdict(connection.isClosed)]
        return [*seen, ping(connection)]


def test_dbeaver_pings_and_disconnects(server: Server, reference: Reference) -> None:
    *pings, (last, *_), rollback, closed, is_closed, after = reference.answer(server, idles)
    assert pings == ["True"] * 3 + [("True", True)] * 3
    assert len(last[1]) == 1
    assert rollback[0].endswith("SQLFeatureNotSupportedException")
    assert (closed, is_closed, after) == ("None", "True", False)


@pytest.mark.thorough
def test_dbeaver_sees_the_bytes_of_spark(recorded: Chain) -> None:
    server = Server("recorded", recorded.host, recorded.port)
    for look in (connects, expands, reads, idles):
        look(server)
    assert assert_same_bytes(recorded)["SetClientInfo"] == 5


# --- a materialized view ---------------------------------------------------------------------------------


def named(result: Any, *columns: str) -> list[tuple[str | None, ...]]:
    """Some columns of a list, read like GenericUtils.safeGetString."""
    found = []
    while result.next():
        found.append(tuple(result.getString(column) for column in columns))
    result.close()
    return sorted(found)


def test_dbeaver_shows_and_changes_a_materialized_view(through: Server, life_database: str) -> None:
    """The test uses the editor, the tree, its tabs and the grid, each with DBeaver's connection for it.

    The names have underscores, which DBeaver does not escape in patterns: `daily_totals` also matches `dailyxtotals`.
    """
    view, raw = f"{life_database}.daily_totals", f"{life_database}.sales_raw"
    with (
        context(through, "Main") as main,
        context(through, "Metadata") as meta,
        context(through, "SQLEditor <Script.sql>") as editor,
    ):
        write(
            editor,
            f"USE {life_database}",
            "CREATE TABLE sales_raw (day STRING, amount INT) USING parquet",
            "CREATE TABLE dailyxtotals (other INT) USING parquet",
            "INSERT INTO sales_raw SELECT CAST(id AS STRING), 1 FROM range(300)",
            "CREATE MATERIALIZED VIEW daily_totals (day COMMENT 'the day', total) COMMENT 'per day' "
            "AS SELECT day, sum(amount) AS total FROM sales_raw GROUP BY day",
        )

        metadata = meta.getMetaData()
        # GenericDataSource.TableTypeCache; GenericMetaModel.isView: types with VIEW in their names are below "Views".
        assert ("MATERIALIZED_VIEW",) in named(metadata.getTableTypes(), "TABLE_TYPE")
        listed = named(metadata.getTables(None, life_database, "%", None), "TABLE_NAME", "TABLE_TYPE", "REMARKS")
        assert ("daily_totals", "MATERIALIZED_VIEW", "per day") in listed
        assert {kind for name, kind, _ in listed if name != "daily_totals"} == {"TABLE"}
        # F5 on the view, and a search.
        for pattern in ("daily_totals", "%totals%"):
            again = named(metadata.getTables(None, life_database, pattern, None), "TABLE_NAME", "TABLE_TYPE")
            assert ("daily_totals", "MATERIALIZED_VIEW") in again
        columns = named(
            metadata.getColumns(None, life_database, "daily_totals", "%"),
            *("TABLE_NAME", "ORDINAL_POSITION", "COLUMN_NAME", "TYPE_NAME", "REMARKS"),
        )
        assert [column[1:] for column in columns if column[0] == "daily_totals"] == [
            ("1", "day", "STRING", "the day"),
            ("2", "total", "BIGINT", ""),
        ]
        # An ER diagram also lists the keys of views; the folder "Indexes" of the schema lists their indexes.
        for call, more in (("getPrimaryKeys", ()), ("getImportedKeys", ()), ("getIndexInfo", (False, True))):
            assert texts(getattr(metadata, call)(None, life_database, "daily_totals", *more)) == [], call

        # The tab "Source": HiveMetaModel replaces CREATE VIEW in it, so it must not occur. Saving the text is refused.
        definition = source(meta, view)
        assert definition.startswith("CREATE MATERIALIZED VIEW")
        assert "CREATE VIEW" not in definition
        assert run(main, definition)[0][1] == "42P07"

        # The tab "Data": two segments with the latest rows, a count, a filter with an order.
        assert run(editor, "INSERT INTO sales_raw VALUES ('0', 41)")[0][1] == []
        data = f"SELECT x.* FROM {view} x"
        (_, first), *_ = run(main, f"{data}\nORDER BY x.day")
        (_, second), *_ = run(main, f"{data}\nORDER BY x.day", offset=SEGMENT)
        assert (len(first), len(second)) == (200, 100)
        assert len({day for day, _ in [*first, *second]}) == 300
        assert ("0", "java.lang.Long 42") in [*first, *second]
        assert run(main, f"SELECT COUNT(*) FROM {view}")[0][1] == [("java.lang.Long 300",)]
        (_, filtered), *_ = run(main, f"{data}\nWHERE x.total > 1\nORDER BY x.day DESC")
        assert filtered == [("0", "java.lang.Long 42")]

        # Changes in its grid are refused, and the connection remains usable.
        for sql, values in (
            (f"INSERT INTO {view} (day,total)\n\tVALUES (?,?)", ("x", 1)),
            (f"UPDATE {view}\n\tSET total=?\n\tWHERE day=?", (1, "0")),
            (f"DELETE FROM {view}\n\tWHERE day=?", ("0",)),
        ):
            assert bound(main, sql, *values)[1] == "42809", sql
        assert ping(main) == "True"

        # The editor changes the view and reads it by its new name. F5 on the schema shows the new name.
        write(
            editor,
            "ALTER MATERIALIZED VIEW daily_totals RENAME TO daily_sums",
            "REFRESH MATERIALIZED VIEW daily_sums",
            "CREATE OR REPLACE MATERIALIZED VIEW daily_sums AS "
            "SELECT day, CAST(max(amount) AS BIGINT) AS most FROM sales_raw GROUP BY day",
        )
        assert run(editor, "SELECT most FROM daily_sums WHERE day = '0'")[0][1] == [("java.lang.Long 41",)]
        listed = named(metadata.getTables(None, life_database, "daily%", None), "TABLE_NAME", "TABLE_TYPE")
        assert listed == [("daily_sums", "MATERIALIZED_VIEW"), ("dailyxtotals", "TABLE")]

        # "Delete" in the tree (GenericViewManager) sends DROP VIEW. The base table follows.
        write(meta, f"DROP VIEW {life_database}.daily_sums", f"DROP TABLE {raw}")
        assert named(metadata.getTables(None, life_database, "%", None), "TABLE_NAME") == [("dailyxtotals",)]
