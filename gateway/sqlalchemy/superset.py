"""Superset's engine spec for the dialect. Superset finds it by an entry point."""

from __future__ import annotations

import datetime
import re
from typing import Any

from sqlalchemy import types
from sqlglot import Dialects
from superset import db
from superset.common.db_query_status import QueryStatus
from superset.constants import TimeGrain
from superset.db_engine_specs.base import BaseEngineSpec
from superset.sql.parse import SQLGLOT_DIALECTS
from superset.utils.core import GenericDataType

from gateway.sqlalchemy.values import literal

# Superset knows the dialects of its own engine specs only, and a new one cannot name its dialect anywhere else.
SQLGLOT_DIALECTS["freshgate"] = Dialects.SPARK


def _minutes(length: int) -> str:
    """The beginning of the part of the hour that has this many minutes."""
    return f"date_trunc('hour', {{col}}) + make_dt_interval(0, 0, minute({{col}}) div {length} * {length}, 0)"


def _text(pattern: str) -> tuple[re.Pattern[str], types.TypeEngine[Any], GenericDataType]:
    return re.compile(pattern, re.IGNORECASE), types.String(), GenericDataType.STRING


class FreshgateEngineSpec(BaseEngineSpec):  # type: ignore[misc]
    """Expressions that Spark 4 accepts in ANSI mode; materialized views; statements that can be stopped."""

    engine = "freshgate"
    engine_name = "Freshgate"
    drivers = {  # noqa: RUF012 # Superset's own declaration
        "thrift": "HiveServer2, binary transport",
        "http": "HiveServer2, HTTP",
        "https": "HiveServer2, HTTPS",
    }
    default_driver = "thrift"
    sqlalchemy_uri_placeholder = "freshgate://user:password@host:port/database"
    metadata = {  # noqa: RUF012
        "description": "Materialized views for Spark SQL.",
        "pypi_packages": ["freshgate"],
        "connection_string": sqlalchemy_uri_placeholder,
        "default_port": 10000,
    }
    supports_dynamic_schema = True
    supports_file_upload = False
    allows_alias_to_source_column = True
    allows_hidden_orderby_agg = False
    supports_multivalues_insert = True
    max_column_name_length = 767

    _time_grain_expressions = {  # noqa: RUF012
        None: "{col}",
        TimeGrain.SECOND: "date_trunc('second', {col})",
        TimeGrain.MINUTE: "date_trunc('minute', {col})",
        TimeGrain.FIVE_MINUTES: _minutes(5),
        TimeGrain.TEN_MINUTES: _minutes(10),
        TimeGrain.FIFTEEN_MINUTES: _minutes(15),
        TimeGrain.THIRTY_MINUTES: _minutes(30),
        TimeGrain.HOUR: "date_trunc('hour', {col})",
        TimeGrain.DAY: "date_trunc('day', {col})",
        TimeGrain.WEEK: "date_trunc('week', {col})",
        TimeGrain.WEEK_STARTING_SUNDAY: "date_trunc('week', {col} + INTERVAL 1 DAY) - INTERVAL 1 DAY",
        TimeGrain.WEEK_STARTING_MONDAY: "date_trunc('week', {col})",
        TimeGrain.WEEK_ENDING_SATURDAY: "date_trunc('week', {col} + INTERVAL 1 DAY) + INTERVAL 5 DAY",
        TimeGrain.WEEK_ENDING_SUNDAY: "date_trunc('week', {col}) + INTERVAL 6 DAY",
        TimeGrain.MONTH: "date_trunc('month', {col})",
        TimeGrain.QUARTER: "date_trunc('quarter', {col})",
        TimeGrain.YEAR: "date_trunc('year', {col})",
    }
    # Before Superset's own patterns, of which `^int` would find INTERVAL.
    column_type_mappings = (
        (re.compile(r"^interval", re.IGNORECASE), types.String(), GenericDataType.STRING),
        *map(_text, ("^array", "^map", "^struct", "^variant", "^binary", "^time(_type)?$")),
        (re.compile(r"^tinyint", re.IGNORECASE), types.SmallInteger(), GenericDataType.NUMERIC),
    )

    @classmethod
    def convert_dttm(
        cls, target_type: str, dttm: datetime.datetime, db_extra: dict[str, Any] | None = None
    ) -> str | None:
        """The literal of a time for a column of this type; None if the column has no times."""
        name = target_type.upper()
        if name.startswith("DATE") and not name.startswith("DATETIME"):
            return literal(dttm.date())
        if name.startswith("TIMESTAMP_NTZ"):
            return f"TIMESTAMP_NTZ'{dttm.replace(tzinfo=None).isoformat(' ')}'"
        return literal(dttm) if name.startswith(("TIMESTAMP", "DATETIME")) else None

    @classmethod
    def epoch_to_dttm(cls) -> str:
        return "timestamp_seconds({col})"

    @classmethod
    def epoch_ms_to_dttm(cls) -> str:
        return "timestamp_millis({col})"

    @classmethod
    def adjust_engine_params(
        cls, uri: Any, connect_args: dict[str, Any], catalog: str | None = None, schema: str | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The schema that a user has selected is the session's current database."""
        return (uri.set(database=schema) if schema else uri), connect_args

    @classmethod
    def get_schema_from_engine_params(cls, sqlalchemy_uri: Any, connect_args: dict[str, Any]) -> str | None:
        return sqlalchemy_uri.database or "default"

    @classmethod
    def get_materialized_view_names(cls, database: Any, inspector: Any, schema: str | None) -> set[str]:
        with inspector.engine.connect() as connection:
            return set(inspector.dialect.get_materialized_view_names(connection, schema))

    @classmethod
    def get_extra_table_metadata(cls, database: Any, table: Any) -> dict[str, Any]:
        """How fresh a materialized view is, and when it was refreshed, for Superset's API."""
        with database.get_inspector(schema=table.schema) as inspector, inspector.engine.connect() as connection:
            state = inspector.dialect.get_materialized_view_state(connection, table.table, table.schema)
        return {"metadata": {name: None if value is None else str(value) for name, value in state.items()}}

    @classmethod
    def get_function_names(cls, database: Any) -> list[str]:
        return list(database.get_df("SHOW FUNCTIONS")["function"])

    @classmethod
    def execute(cls, cursor: Any, query: str, database: Any, async_: bool = False, **options: Any) -> None:
        """Runs a statement. With `async_`, returns at once, so that `handle_cursor` can stop it."""
        try:
            cursor.execute(query, async_=async_)
        except Exception as error:
            raise cls.get_dbapi_mapped_exception(error) from error

    @classmethod
    def handle_cursor(cls, cursor: Any, query: Any) -> None:
        """Waits for the end of a statement of SQL Lab. Cancels it if the user stopped it."""

        def cancel_if_stopped(_: Any) -> None:
            db.session.refresh(query)
            if query.status in {QueryStatus.STOPPED, QueryStatus.TIMED_OUT}:
                cursor.cancel()

        try:
            cursor.wait(cancel_if_stopped)
        except Exception as error:
            raise cls.get_dbapi_mapped_exception(error) from error

    @classmethod
    def fetch_data(cls, cursor: Any, limit: int | None = None) -> list[tuple[Any, ...]]:
        """Some statements have no result, not even an empty one."""
        return super().fetch_data(cursor, limit) if cursor.description else []

    @classmethod
    def has_implicit_cancel(cls) -> bool:
        """`handle_cursor` notices that a query was stopped."""
        return True

    @classmethod
    def _extract_error_message(cls, ex: Exception) -> str:
        return str(ex)
