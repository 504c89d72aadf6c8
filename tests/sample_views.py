"""A table with three views of one query, for tests of a gateway at another place: a cluster, an object store."""

from __future__ import annotations

from typing import Any

from clients import rows

QUERY = "SELECT d, count(*) AS n, sum(a) AS s FROM {}.t GROUP BY d"
CLAUSES = {"plain": "", "daily": "PARTITION BY (d)", "merged": "REFRESH INCREMENTAL"}
"""By view: plain, with partitions, and refreshed by rows."""


def fill(cursor: Any, database: str) -> None:
    """Creates a database with a partitioned table `t` of 30 rows in several files, and makes it the current one."""
    for statement in (
        f"CREATE DATABASE {database}",
        f"USE {database}",
        "CREATE TABLE t (a INT, d STRING) USING parquet PARTITIONED BY (d)",
        "INSERT INTO t SELECT /*+ REPARTITION(3) */ CAST(id AS INT), concat('d', id % 3) FROM range(30)",
    ):
        rows(cursor, statement)


def create(cursor: Any, database: str, *views: str) -> None:
    for view in views:
        rows(cursor, f"CREATE MATERIALIZED VIEW {database}.{view} {CLAUSES[view]} AS {QUERY.format(database)}")


def check_equal(cursor: Any, database: str, *views: str) -> None:
    """Checks that each view has the rows of its query."""
    expected = sorted(rows(cursor, QUERY.format(database)))
    for view in views:
        assert sorted(rows(cursor, f"SELECT * FROM {database}.{view}")) == expected, view


def freshness(cursor: Any, database: str) -> set[str]:
    return {str(row[2]) for row in rows(cursor, f"SHOW MATERIALIZED VIEWS IN {database}")}


def last_task(cursor: Any, database: str, view: str) -> tuple[str, ...]:
    """Mode and partitions of the last task of a view."""
    found = rows(
        cursor,
        f'SELECT RefreshMode, NeedRefreshPartitions FROM tasks("type"="mv") '
        f"WHERE MvName = '{view}' AND MvDatabaseName = '{database}' ORDER BY CAST(TaskId AS BIGINT) DESC LIMIT 1",
    )
    return found[0]
