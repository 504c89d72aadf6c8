"""What a reader is shown of views over tables whose files HDFS keeps from the reader. With impersonation, Spark lists
files as the user, and reads and writes them as its own account. The security page says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clients import pyhive, rows
from cluster import running_hdfs
from jars import jar
from processes import Gateway
from pyhive.exc import OperationalError
from spark_releases import LOCKED, ImpersonatingServer, home_of

pytestmark = pytest.mark.thorough
Ask = Callable[[str, str], Any]
"""Runs a statement as a user. Root is Spark's account."""
DENIED = "Permission denied: user=eve"
TABLES = {"plain": "(a INT) USING parquet", "hive": "(a INT) STORED AS TEXTFILE"}


@pytest.fixture(scope="module")
def ask(spark_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """A gateway whose warehouse is on HDFS. Only root may list the files of the tables, over each of which there is a
    view with SECURITY INVOKER."""
    home, folder = home_of(LOCKED), tmp_path_factory.mktemp("hdfs")
    try:
        jar("hadoop-client-minicluster")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert home is not None
    (folder / "hdfs").mkdir()
    with running_hdfs(folder / "hdfs") as hdfs:
        settings = {"spark.sql.warehouse.dir": f"{hdfs.url}/warehouse", "spark.hadoop.fs.defaultFS": hdfs.url}
        spark = ImpersonatingServer(home, folder / "spark", spark=settings)
        try:
            upstream = f"{spark.host}:{spark.port}"
            gateway = Gateway(folder / "gateway.log", upstream=upstream, settings={"upstream.user": "root"})
            asking = _asking(gateway)
            asking("root", "CREATE DATABASE files")
            for name, columns in TABLES.items():
                asking("root", f"CREATE TABLE files.{name} {columns}")
                asking("root", f"INSERT INTO files.{name} VALUES (7)")
                text = f"SELECT sum(a) AS a FROM files.{name}"
                asking("root", f"CREATE MATERIALIZED VIEW files.of_{name} SECURITY INVOKER AS {text}")
                hdfs.allow(f"/warehouse/files.db/{name}", 0o700)
            yield asking
            gateway.stop()
        finally:
            spark.stop()


def _asking(gateway: Gateway) -> Ask:
    def ask(user: str, text: str) -> Any:
        with pyhive(gateway.host, gateway.port, user=user) as cursor:
            return rows(cursor, text)

    return ask


@pytest.mark.parametrize("name", TABLES)
def test_spark_refuses_whoever_may_not_list_the_files(ask: Ask, name: str) -> None:
    assert ask("root", f"SELECT a FROM files.{name}") == [(7,)]
    with pytest.raises(OperationalError, match=DENIED):
        ask("eve", f"SELECT a FROM files.{name}")


def test_a_view_is_refused_where_spark_lists_files_to_understand_a_query(ask: Ask) -> None:
    assert ask("root", "SELECT a FROM files.of_plain") == [(7,)]
    with pytest.raises(OperationalError, match=DENIED):
        ask("eve", "SELECT a FROM files.of_plain")


def test_a_view_is_shown_where_spark_lists_files_only_to_read_them(ask: Ask) -> None:
    """Neither a plan nor a temporary view tells that Spark would fail."""
    assert ask("eve", "SELECT a FROM files.of_hive") == ask("root", "SELECT a FROM files.of_hive") == [(7,)]
