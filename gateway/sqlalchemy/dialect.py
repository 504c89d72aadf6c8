"""SQLAlchemy's dialect `freshgate`: connects through PyHive, and reads the catalog with SHOW and DESCRIBE.

Tests: `test_sqlalchemy`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from sqlalchemy import exc, types, util
from sqlalchemy.engine import default

from gateway.sqlalchemy import driver as pyhive_driver
from gateway.sqlalchemy.column_types import INTERVAL_DAY_TIME, TIME, UnknownType, columns, parsed
from gateway.sqlalchemy.rendering import Identifiers, Statements, TableCompiler, TypeCompiler

BINARY_PORT = 10000
HTTP_PORT = 10001
_SYNTAX = "42601"
_NO_TABLE = {"42P01", "42704"}
"""No such table; no such database."""
_LOST_SESSION = "Invalid SessionHandle"

Method = TypeVar("Method", bound=Callable[..., Any])


def cached(method: Method) -> Method:
    """Keeps a method's answers in the inspector's cache. SQLAlchemy 1.4's own decorator cannot read annotations."""

    @functools.wraps(method)
    def read(self: Any, connection: Any, *names: str | None, info_cache: Any = None, **options: Any) -> Any:
        if info_cache is None:
            return method(self, connection, *names, **options)
        known = {name: value for name, value in options.items() if isinstance(value, str)}
        key = (method.__name__, names, tuple(sorted(known.items())))
        if key not in info_cache:
            info_cache[key] = method(self, connection, *names, info_cache=info_cache, **options)
        return info_cache[key]

    return cast(Method, read)


class FreshgateDialect(default.DefaultDialect):
    """`freshgate://USER[:PASSWORD]@HOST:PORT/DATABASE`, over HiveServer2's binary transport with SASL.

    Parameters of the URL are those of `pyhive.hive.connect`, for example `auth=NOSASL`. Works with the gateway and with
    a Thrift server alone, which has no materialized views. Lists leave temporary views out, except that of temporary
    views.
    """

    name = "freshgate"
    driver = "thrift"
    default_paramstyle = pyhive_driver.paramstyle
    preparer = Identifiers  # type: ignore[assignment] # SQLAlchemy declares a variable of its own class.
    statement_compiler = Statements
    type_compiler = TypeCompiler
    type_compiler_cls = TypeCompiler
    ddl_compiler = TableCompiler
    colspecs = {types.Interval: INTERVAL_DAY_TIME, types.Time: TIME}  # noqa: RUF012 # SQLAlchemy's own declaration
    # The text of a statement depends on nothing but the statement.
    supports_statement_cache = True
    supports_alter = False
    supports_comments = True
    inline_comments = True
    supports_default_values = False
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    # Spark's `/` is never an integer division.
    div_is_floordiv = False
    # An INSERT of many rows is one statement, not one for each row.
    use_insertmanyvalues = True
    use_insertmanyvalues_wo_returning = True
    insertmanyvalues_max_parameters = 1_000_000
    postfetch_lastrowid = False

    @classmethod
    def import_dbapi(cls) -> Any:
        return pyhive_driver

    @classmethod
    def dbapi(cls) -> Any:  # type: ignore[override]
        """As SQLAlchemy 1.4 calls it."""
        return pyhive_driver

    def create_connect_args(self, url: Any) -> tuple[list[Any], dict[str, Any]]:
        options = {
            "host": url.host or "localhost",
            "port": url.port or BINARY_PORT,
            "username": url.username,
            "database": _database(url),
            **url.query,
        }
        if url.password is not None:
            options |= {"auth": options.get("auth", "LDAP"), "password": url.password}
        return [], options

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """A text that SQLAlchemy has not compiled has percent signs as they are, unless it comes with parameters."""
        is_verbatim = not parameters and (context is None or context.compiled is None)
        cursor.execute(statement, None if is_verbatim else parameters)

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Does nothing: Spark has no transactions."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Does nothing: Spark has no transactions."""

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, pyhive_driver.ConnectionLost) or _LOST_SESSION in str(e)

    def _get_default_schema_name(self, connection: Any) -> str:
        return _database(connection.engine.url)

    def _check_unicode_returns(self, connection: Any, additional_tests: Any = None) -> bool:
        """As SQLAlchemy 1.4 calls it: PyHive returns str."""
        return True

    # --- the catalog ------------------------------------------------------------------------------------

    @cached
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        return [row[0] for row in self._rows(connection, "SHOW DATABASES")]

    def has_schema(self, connection: Any, schema_name: str, **kw: Any) -> bool:
        return schema_name.lower() in {name.lower() for name in self.get_schema_names(connection, **kw)}

    @cached
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """Tables only: SHOW TABLES lists views as well."""
        views = set(self._shown(connection, "VIEWS", schema, **kw))
        return [name for name in self._shown(connection, "TABLES", schema, **kw) if name not in views]

    @cached
    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """Views without the materialized ones, which SHOW VIEWS lists as well."""
        materialized = set(self.get_materialized_view_names(connection, schema, **kw))
        return [name for name in self._shown(connection, "VIEWS", schema, **kw) if name not in materialized]

    @cached
    def get_materialized_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        """Empty with a server that has no such statement: Spark's Thrift server without the gateway."""
        return [row["name"] for row in self._materialized_views(connection, schema)]

    def get_materialized_view_state(
        self, connection: Any, view_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        """The row of SHOW MATERIALIZED VIEWS, by the names of its columns; empty if it is not a materialized view.
        Asking observes the view's base tables, and refreshes nothing."""
        rows = self._materialized_views(connection, schema)
        return next((dict(row) for row in rows if row["name"] == view_name.lower()), {})

    def _materialized_views(self, connection: Any, schema: str | None) -> list[Any]:
        try:
            return self._named_rows(connection, f"SHOW MATERIALIZED VIEWS{self._within(schema)}")
        except exc.DBAPIError as error:
            if _sqlstate(error) == _SYNTAX:
                return []
            raise

    @cached
    def get_temp_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        rows = self._named_rows(connection, f"SHOW VIEWS{self._within(schema)}")
        return [row["viewName"] for row in rows if row["isTemporary"]]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        """Whether there is a table, view, or materialized view with this name."""
        try:
            self._described(connection, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    @cached
    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        """All columns count as nullable, because DESCRIBE does not tell. A type that is not one of Spark 4 becomes
        NullType, with a warning. Raises NoSuchTableError."""
        return [
            {
                "name": name,
                "type": _type(name, kind),
                "nullable": True,
                "default": None,
                "autoincrement": False,
                "comment": comment,
            }
            for name, kind, comment in columns(iter(self._described(connection, table_name, schema)))
        ]

    @cached
    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        """Raises NoSuchTableError."""
        rows = iter(self._described(connection, table_name, schema, "EXTENDED "))
        for _ in columns(rows):
            pass
        comments = [text for name, text, _ in rows if name == "Comment"]
        return {"text": comments[-1] if comments and comments[-1] else None}

    @cached
    def get_view_definition(self, connection: Any, view_name: str, schema: str | None = None, **kw: Any) -> str:
        """The whole CREATE statement of a view or materialized view. Raises NoSuchTableError."""
        name = self._name(view_name, schema)
        with _missing(name):
            return str(self._rows(connection, f"SHOW CREATE TABLE {name}")[0][0])

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return {"name": None, "constrained_columns": []}

    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        return []

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        return []

    def get_unique_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return []

    def get_check_constraints(self, connection: Any, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return []

    # --- statements -------------------------------------------------------------------------------------

    @cached
    def _shown(self, connection: Any, what: str, schema: str | None = None, **kw: Any) -> list[str]:
        """The names in SHOW TABLES or SHOW VIEWS, without those of temporary views."""
        column = {"TABLES": "tableName", "VIEWS": "viewName"}[what]
        rows = self._named_rows(connection, f"SHOW {what}{self._within(schema)}")
        return [row[column] for row in rows if not row["isTemporary"]]

    def _described(self, connection: Any, name: str, schema: str | None, extended: str = "") -> list[Any]:
        full = self._name(name, schema)
        with _missing(full):
            # Not AS JSON, which Spark supports for its own tables only.
            return self._rows(connection, f"DESCRIBE TABLE {extended}{full}")

    def _within(self, schema: str | None) -> str:
        return f" IN {self._quoted(schema)}" if schema else ""

    def _name(self, name: str, schema: str | None) -> str:
        return f"{self._quoted(schema)}.{self._quoted(name)}" if schema else self._quoted(name)

    def _quoted(self, name: str) -> str:
        return f"`{name.replace('`', '``')}`"

    def _rows(self, connection: Any, statement: str) -> list[Any]:
        return [tuple(row) for row in connection.exec_driver_sql(statement).all()]

    def _named_rows(self, connection: Any, statement: str) -> list[Any]:
        """The gateway exchanges the first columns for PyHive's own dialect, so only their names are certain."""
        return list(connection.exec_driver_sql(statement).mappings().all())


class FreshgateHttpDialect(FreshgateDialect):
    """`freshgate+http://`: HiveServer2's HTTP transport, with the user and password in each request."""

    driver = "http"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        """SQLAlchemy 2.0 looks for this method in the class itself."""
        return pyhive_driver

    def create_connect_args(self, url: Any) -> tuple[list[Any], dict[str, Any]]:
        options = {
            "scheme": self.driver,
            "host": url.host or "localhost",
            "port": url.port or HTTP_PORT,
            "username": url.username,
            "password": url.password,
            "database": _database(url),
            **url.query,
        }
        return [], options


class FreshgateHttpsDialect(FreshgateHttpDialect):
    """`freshgate+https://`: the same within TLS. The server's certificate and name are checked, unless the URL says
    `ssl_cert=none` or `check_hostname=false`."""

    driver = "https"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        """SQLAlchemy 2.0 looks for this method in the class itself."""
        return pyhive_driver

    def create_connect_args(self, url: Any) -> tuple[list[Any], dict[str, Any]]:
        arguments, options = super().create_connect_args(url)
        is_checked = options.setdefault("ssl_cert", "required") == "required"
        return arguments, {"check_hostname": "true" if is_checked else "false", **options}


@contextlib.contextmanager
def _missing(name: str) -> Iterator[None]:
    """Turns Spark's error about a missing table into NoSuchTableError."""
    try:
        yield
    except exc.DBAPIError as error:
        if _sqlstate(error) in _NO_TABLE:
            raise exc.NoSuchTableError(name) from error
        raise


def _sqlstate(error: exc.DBAPIError) -> str | None:
    return error.orig.sqlstate if isinstance(error.orig, pyhive_driver.Refused) else None


def _database(url: Any) -> str:
    return url.database or "default"


def _type(column: str, name: str) -> types.TypeEngine[Any]:
    try:
        return parsed(name)
    except UnknownType:
        util.warn(f"Did not recognize type '{name}' of column '{column}'")
        return types.NullType()
