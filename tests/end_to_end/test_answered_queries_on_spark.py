"""Queries on base tables that are answered from materialized views: on real Spark, with an embedded engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jpype
import pytest
from benchmarks.rate_queries import benchmarks
from benchmarks.rate_views import TPCH
from clients import Jdbc, pyhive, rows
from processes import Engine, Setting, wait_until
from pyhive import hive
from seen_gateway import Seen, start
from tiers import sampled

VIEW = """
    SELECT day, item, count(*) AS orders, sum(qty) AS qty, sum(price) AS price, min(price) AS cheapest
    FROM sales GROUP BY day, item
"""
BY_ITEM = "SELECT item, sum(qty) AS s FROM sales GROUP BY item ORDER BY item"
ALL = "SELECT count(*) AS c FROM sales"
QUERIES = [
    BY_ITEM,
    ALL,
    "SELECT day, sum(price) AS s FROM sales WHERE day >= DATE'2024-02-01' GROUP BY day ORDER BY day LIMIT 3",
    "SELECT date_trunc('MONTH', day) AS m, count(*) AS c, min(price) AS p FROM sales "
    "GROUP BY date_trunc('MONTH', day) ORDER BY m",
    "SELECT count(*) AS c FROM sales WHERE item = 'nothing'",
    "SELECT DISTINCT item FROM sales ORDER BY 1",
    "SELECT item, count(*) AS c, grouping_id() AS g FROM sales GROUP BY ROLLUP (item) ORDER BY g, item",
    "SELECT item, sum(CASE WHEN day < DATE'2024-02-01' THEN price ELSE 0 END) AS s FROM sales "
    "WHERE item IN (SELECT item FROM sales WHERE qty > 11) GROUP BY item ORDER BY item",
]
_numbers = itertools.count(1)


@dataclass
class House:
    """A gateway with an audit log, and a table with a view."""

    seen: Seen

    def connect(self, user: str = "ada", **options: Any) -> Any:
        gateway = self.seen.gateway
        return pyhive(gateway.host, gateway.port, user=user, **{"database": "rw", **options})

    def views_of(self, cursor: Any, text: str) -> tuple[list[tuple[Any, ...]], list[str]]:
        """The rows of a query, and the materialized views that it read, according to the audit."""
        mark = f"/* query {next(_numbers)} */"
        found = rows(cursor, f"{mark} {text}")
        return found, self.seen.line_of(mark).get("views", [])

    def read(self, cursor: Any, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query that is answered from the view."""
        found, views = self.views_of(cursor, text)
        assert views == ["rw.daily"], text
        return found

    def compared_more(self, before: float) -> bool:
        """Whether more answers have been compared."""
        return self.seen.metric("rewrite_compared_total") > before

    def as_written(self, cursor: Any, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query that is forwarded unchanged."""
        found, views = self.views_of(cursor, text)
        assert views == [], text
        return found


@pytest.fixture(scope="module")
def house(rewriting: Seen) -> House:
    made = House(rewriting)
    with made.connect(database="default") as cursor:
        rows(cursor, "CREATE DATABASE rw")
        rows(cursor, "USE rw")
        rows(cursor, "CREATE TABLE sales (day DATE, item STRING, qty INT, price DECIMAL(10,2), at TIMESTAMP)")
        rows(
            cursor,
            "INSERT INTO sales SELECT date_add(DATE'2024-01-01', CAST(id % 90 AS INT)), concat('i', id % 7), "
            "CAST(id % 13 AS INT), CAST(id AS DECIMAL(10,2)) / 3, timestamp_seconds(id * 7200) FROM range(1000)",
        )
        rows(cursor, f"CREATE MATERIALIZED VIEW daily ENABLE QUERY REWRITE AS {VIEW}")
    return made


@pytest.fixture
def ada(house: House) -> Iterator[Any]:
    with house.connect() as cursor:
        rows(cursor, "REFRESH MATERIALIZED VIEW daily AUTO")
        yield cursor


def test_rows_and_types_are_those_of_the_base_tables(house: House, ada: Any) -> None:
    compared = house.seen.metric("rewrite_compared_total")
    with house.connect(user="off") as off:
        rows(off, "SET freshgate.rewrite=off")
        for text in QUERIES:
            found = house.read(ada, text)
            described = ada.description
            assert house.as_written(off, text) == found, text
            assert off.description == described, text
    wait_until(lambda: house.compared_more(compared), what="the gateway's own comparison")


def test_answers_are_compared_although_each_session_is_closed_after_one_query(house: House, ada: Any) -> None:
    for _ in range(2):
        compared = house.seen.metric("rewrite_compared_total")
        with house.connect() as cursor:
            house.read(cursor, BY_ITEM)
        wait_until(partial(house.compared_more, compared), what="the gateway's own comparison")


def test_char_and_varchar_are_keys_of_views(house: House, ada: Any) -> None:
    rows(ada, "CREATE TABLE coded (code CHAR(5), name VARCHAR(10), qty INT)")
    rows(
        ada,
        "INSERT INTO coded VALUES ('a', 'x', 1), ('a ', 'x ', 2), ('ab', 'x', 4), (NULL, 'y', 8), ('abcde', NULL, 16)",
    )
    rows(
        ada,
        "CREATE MATERIALIZED VIEW by_code ENABLE QUERY REWRITE AS SELECT code, name, sum(qty) AS qty FROM coded "
        "GROUP BY code, name",
    )
    texts = [
        "SELECT code, sum(qty) AS s FROM coded GROUP BY code ORDER BY code",
        "SELECT name, sum(qty) AS s FROM coded GROUP BY name ORDER BY name",
        "SELECT sum(qty) AS s FROM coded WHERE code = 'a'",
        "SELECT name, sum(qty) AS s FROM coded WHERE code IN ('ab', 'a') AND name = 'x' GROUP BY name",
        "SELECT length(code) AS l, sum(qty) AS s FROM coded GROUP BY length(code) ORDER BY l",
        "SELECT sum(qty) AS s FROM coded WHERE code > 'a' AND name <> code",
    ]
    with house.connect(user="off") as off:
        rows(off, "SET freshgate.rewrite=off")
        for text in texts:
            found, views = house.views_of(ada, text)
            assert (found, views) == (rows(off, text), ["rw.by_code"]), text


OTHER_VIEWS = {
    "rolled": (
        "SELECT shop, kind, grouping_id(shop, kind) AS level, sum(qty) AS qty, count(*) AS n FROM sold "
        "GROUP BY ROLLUP (shop, kind)",
        "SELECT shop, sum(qty) AS s FROM sold GROUP BY shop ORDER BY shop",
        "SELECT kind, count(*) AS n FROM sold GROUP BY kind ORDER BY kind",
        "SELECT kind, sum(qty) AS s FROM sold WHERE kind = 'a' OR shop IN (SELECT shop FROM shops WHERE open) "
        "GROUP BY kind ORDER BY kind",
    ),
    "joined_fully": (
        "SELECT s.shop, s.kind, h.shop AS other, h.city FROM sold s FULL JOIN shops h ON s.shop = h.shop",
        "SELECT city, count(s.shop) AS n FROM sold s FULL JOIN shops h ON s.shop = h.shop GROUP BY city ORDER BY city",
        "SELECT kind, city FROM sold s JOIN shops h ON s.shop = h.shop ORDER BY kind, city",
    ),
    "placed": (
        "SELECT shop, kind, price, rank() OVER (PARTITION BY shop ORDER BY price DESC) AS place FROM sold",
        "SELECT shop, price FROM (SELECT shop, price, rank() OVER (PARTITION BY shop ORDER BY price DESC) AS r "
        "FROM sold) WHERE r <= 2 ORDER BY shop, price",
    ),
}
"""Views with several sets of keys, a FULL JOIN and ranks, each with queries that it answers."""


def test_views_with_several_sets_of_keys_full_joins_and_ranks_answer(house: House, ada: Any) -> None:
    rows(ada, "CREATE TABLE sold (shop INT, kind STRING, qty INT, price INT)")
    rows(ada, "CREATE TABLE shops (shop INT, city STRING, open BOOLEAN)")
    values = "(1, 'a', 1, 5), (1, NULL, 2, 5), (1, 'b', 4, 3), (2, 'a', 8, 1), (2, 'a', NULL, 9), (NULL, 'b', 16, 2)"
    rows(ada, f"INSERT INTO sold VALUES {values}")
    rows(ada, "INSERT INTO shops VALUES (1, 'x', true), (3, 'y', true), (NULL, 'z', false)")
    with house.connect(user="off") as off:
        rows(off, "SET freshgate.rewrite=off")
        for name, (definition, *texts) in OTHER_VIEWS.items():
            rows(ada, f"CREATE MATERIALIZED VIEW {name} ENABLE QUERY REWRITE AS {definition}")
            for text in texts:
                assert house.views_of(ada, text) == (rows(off, text), [f"rw.{name}"]), text
            rows(ada, f"DROP MATERIALIZED VIEW {name}")


def test_queries_of_tpch_join_tables_that_no_view_reads(house: House) -> None:
    """The view joins lineitem and orders; the queries also read customer and nation."""
    tpch = next(each for each in benchmarks() if each.name == "tpch")
    with house.connect(database="default") as cursor:
        for text in ("CREATE DATABASE tpch_few", "USE tpch_few"):
            rows(cursor, text)
        for text in tpch.statements("lineitem", "orders", "customer", "nation"):
            rows(cursor, text)
        rows(cursor, f"CREATE MATERIALIZED VIEW ordered ENABLE QUERY REWRITE AS {TPCH['ordered']}")
        answered = [name for name in ("q1", "q3", "q4", "q10") if house.views_of(cursor, tpch.queries[name])[1]]
        assert answered == ["q3", "q10"]
        # Their answers are compared by the gateway. A view that comes elsewhere ends no proof.
        rows(cursor, "SET freshgate.rewrite = off")
        expected = rows(cursor, tpch.queries["q10"])
        rows(cursor, "SET freshgate.rewrite = on")
        rows(cursor, "CREATE MATERIALIZED VIEW rw.elsewhere AS SELECT count(*) AS n FROM rw.sales")
        assert house.views_of(cursor, tpch.queries["q10"]) == (expected, ["tpch_few.ordered"])
        rows(cursor, "DROP MATERIALIZED VIEW rw.elsewhere")


def test_a_table_that_is_created_anew_answers_after_the_next_refresh(house: House, ada: Any) -> None:
    query = "SELECT k, sum(n) AS s FROM anew GROUP BY k ORDER BY k"
    rows(ada, "CREATE TABLE anew USING parquet AS SELECT 'a' AS k, 1L AS n")
    rows(ada, "CREATE MATERIALIZED VIEW of_anew ENABLE QUERY REWRITE AS SELECT k, sum(n) AS s FROM anew GROUP BY k")
    assert house.views_of(ada, query) == ([("a", 1)], ["rw.of_anew"])
    rows(ada, "DROP TABLE anew")
    rows(ada, "CREATE TABLE anew USING parquet AS SELECT 1 AS more, 'b' AS k, 2 AS n")
    assert house.as_written(ada, query) == [("b", 2)]
    rows(ada, "REFRESH MATERIALIZED VIEW of_anew")
    assert house.views_of(ada, query) == ([("b", 2)], ["rw.of_anew"])
    rows(ada, "DROP MATERIALIZED VIEW of_anew")
    rows(ada, "DROP TABLE anew")


def test_a_write_ends_it_until_the_refresh(house: House, ada: Any) -> None:
    before = dict(house.read(ada, BY_ITEM))
    rows(ada, "INSERT INTO sales VALUES (DATE'2024-01-01', 'i3', 1000, 1, NULL)")
    after = {**before, "i3": before["i3"] + 1000}
    assert dict(house.as_written(ada, BY_ITEM)) == after
    rows(ada, "REFRESH MATERIALIZED VIEW daily")
    assert dict(house.read(ada, BY_ITEM)) == after


def test_a_write_whose_client_never_asks_for_its_end_is_seen(house: House, ada: Any) -> None:
    """Also by a view whose reads serve what is stored."""
    rows(ada, "ALTER MATERIALIZED VIEW daily SET TBLPROPERTIES ('when_stale' = 'SERVE')")
    try:
        (before,) = house.read(ada, ALL)[0]
        with house.connect() as writer, house.connect(user="off") as off:
            rows(off, "SET freshgate.rewrite=off")
            writer.execute("INSERT INTO sales VALUES (DATE'2024-01-02', 'i4', 1, 1, NULL)", async_=True)
            wait_until(lambda: rows(off, ALL) == [(before + 1,)], what="the write")
            assert house.as_written(ada, ALL) == [(before + 1,)]
    finally:
        rows(ada, "ALTER MATERIALIZED VIEW daily UNSET TBLPROPERTIES ('when_stale')")


@pytest.mark.thorough
def test_a_view_of_the_newest_partitions_does_not_answer(house: House, ada: Any) -> None:
    """Its definition would read more rows than it has."""
    rows(ada, "CREATE TABLE parts (qty INT, day STRING) USING parquet PARTITIONED BY (day)")
    rows(ada, "INSERT INTO parts VALUES (1, '2024-01-01'), (2, '2024-01-02'), (3, '2024-01-03')")
    definition = "SELECT day, sum(qty) AS s FROM parts GROUP BY day"
    clauses = "ENABLE QUERY REWRITE PARTITION BY (day) PROPERTIES ('partition_sync_limit' = '1')"
    rows(ada, f"CREATE MATERIALIZED VIEW newest {clauses} AS {definition}")
    try:
        assert len(rows(ada, "SELECT * FROM newest")) < 3
        assert len(house.as_written(ada, definition)) == 3
    finally:
        rows(ada, "DROP MATERIALIZED VIEW newest")


def test_disable_ends_it_at_once(house: House, ada: Any) -> None:
    house.read(ada, ALL)
    rows(ada, "ALTER MATERIALIZED VIEW daily DISABLE QUERY REWRITE")
    house.as_written(ada, ALL)
    rows(ada, "ALTER MATERIALIZED VIEW daily ENABLE QUERY REWRITE")
    house.read(ada, ALL)


def test_a_session_decides_for_itself(house: House, ada: Any) -> None:
    rows(ada, "SET freshgate.rewrite=off")
    house.as_written(ada, ALL)
    with house.connect() as other:
        house.read(other, ALL)
    rows(ada, "SET freshgate.rewrite=on")
    house.read(ada, ALL)
    rows(ada, "SET freshgate.rewrite=off")
    rows(ada, "RESET freshgate.rewrite")
    house.read(ada, ALL)


def test_names_that_mean_something_else_are_not_rewritten(house: House, ada: Any) -> None:
    (whole,) = house.read(ada, ALL)
    rows(ada, "CREATE TEMPORARY VIEW sales AS SELECT 1 AS qty")
    assert house.as_written(ada, ALL) == [(1,)]
    rows(ada, "DROP VIEW sales")
    assert house.read(ada, ALL) == [whole]
    rows(ada, "CREATE DATABASE IF NOT EXISTS elsewhere")
    rows(ada, "CREATE TABLE elsewhere.sales AS SELECT 5 AS qty UNION ALL SELECT 6")
    rows(ada, "USE elsewhere")
    assert house.as_written(ada, ALL) == [(2,)]
    assert house.read(ada, "SELECT count(*) AS c FROM rw.sales") == [whole]
    rows(ada, "DROP TABLE elsewhere.sales")
    rows(ada, "USE rw")
    assert house.read(ada, ALL) == [whole]
    assert house.as_written(ada, "WITH sales AS (SELECT 1 AS qty) SELECT count(*) AS c FROM sales") == [(1,)]


def test_another_user_has_a_proof_of_his_own(house: House, ada: Any) -> None:
    found = house.read(ada, ALL)
    with house.connect(user="bob") as bob:
        assert house.read(bob, ALL) == found


def test_a_transaction_reads_the_tables(house: House, ada: Any) -> None:
    house.read(ada, ALL)
    rows(ada, "BEGIN")
    house.as_written(ada, ALL)
    rows(ada, "COMMIT")
    house.read(ada, ALL)


@pytest.mark.parametrize(
    "setting",
    sampled(
        ["spark.sql.ansi.enabled=false", "spark.sql.session.timeZone=Asia/Tokyo", "spark.sql.caseSensitive=true"],
        {"spark.sql.caseSensitive=true"},
    ),
)
def test_a_session_with_other_settings_has_its_own_answers(house: House, ada: Any, setting: str) -> None:
    house.read(ada, BY_ITEM)
    rows(ada, f"SET {setting}")
    found, _ = house.views_of(ada, BY_ITEM)
    rows(ada, "SET freshgate.rewrite=off")
    assert house.as_written(ada, BY_ITEM) == found
    if "caseSensitive" in setting:
        rows(ada, "SET freshgate.rewrite=on")
        with pytest.raises(hive.OperationalError, match="UNRESOLVED_COLUMN"):
            rows(ada, "SELECT ITEM, sum(QTY) AS s FROM sales GROUP BY ITEM")


@pytest.mark.thorough
def test_times_of_another_zone(house: House, ada: Any) -> None:
    """The view's days are those of the zone in which it was created."""
    text = "SELECT to_date(at) AS d, count(*) AS c FROM sales WHERE at IS NOT NULL GROUP BY to_date(at) ORDER BY d"
    definition = "SELECT to_date(at) AS d, count(*) AS c FROM sales WHERE at IS NOT NULL GROUP BY to_date(at)"
    rows(ada, f"CREATE MATERIALIZED VIEW days ENABLE QUERY REWRITE AS {definition}")
    try:
        here, views = house.views_of(ada, text)
        assert views == ["rw.days"]
        rows(ada, "SET spark.sql.session.timeZone=Asia/Tokyo")
        there = house.as_written(ada, text)
        assert there != here
    finally:
        rows(ada, "DROP MATERIALIZED VIEW days")


def test_a_rewriting_that_fails_at_spark_runs_the_clients_text_once(house: House, ada: Any) -> None:
    """The view's files are damaged."""
    definition = "SELECT item, max(qty) AS m FROM sales GROUP BY item"
    rows(ada, f"CREATE MATERIALIZED VIEW broken ENABLE QUERY REWRITE AS {definition}")
    # The gateway may remember the rows that are in these files.
    rows(ada, "SET freshgate.result_cache = off")
    try:
        text = "SELECT item, max(qty) AS m FROM sales GROUP BY item ORDER BY item"
        found, views = house.views_of(ada, text)
        assert views == ["rw.broken"]
        (location,) = {
            Path(path.removeprefix("file:")).parent
            for (path,) in rows(ada, "SELECT DISTINCT input_file_name() FROM broken")
        }
        for file in location.glob("*.parquet"):
            file.write_bytes(b"no rows")
        mark = f"/* query {next(_numbers)} */"
        assert rows(ada, f"{mark} {text}") == found
        assert house.seen.line_of(mark).get("views", []) == []
        assert house.as_written(ada, text) == found
    finally:
        rows(ada, "SET freshgate.result_cache = on")
        rows(ada, "DROP MATERIALIZED VIEW broken")


SLOW = (
    "SELECT item, sum(qty) AS s FROM sales "
    "WHERE day >= DATE'{day}' AND upper(reverse(repeat(item, 40000))) LIKE '%1%2%3' GROUP BY item"
)
"""Takes seconds if there are such days: Spark ends a cancelled task only between two rows, and other tests use this
Spark later."""


def test_a_rewritten_query_is_cancelled(house: House, ada: Any) -> None:
    house.read(ada, SLOW.format(day="2099-01-01"))
    mark = f"/* query {next(_numbers)} */"
    ada.execute(f"{mark} {SLOW.format(day='2024-01-01')}", async_=True)
    ada.cancel()
    assert house.seen.line_of(mark)["outcome"] == "cancelled"
    house.read(ada, ALL)


@pytest.mark.thorough
def test_a_rewritten_query_ends_at_its_time_limit(house: House, ada: Any) -> None:
    """The view is used for later queries of the shape."""
    house.read(ada, SLOW.format(day="2099-01-01"))
    gateway = house.seen.gateway
    with Jdbc(f"jdbc:hive2://{gateway.host}:{gateway.port}/rw", user="ada") as jdbc:
        jdbc.statement.setQueryTimeout(2)
        with pytest.raises(jpype.java.sql.SQLException):
            jdbc.query(SLOW.format(day="2024-01-01"))
    house.read(ada, SLOW.format(day="2099-01-02"))


def test_drivers(house: House, ada: Any) -> None:
    """Hive's JDBC driver, which asks for the status, and PyHive, whose statements are synchronous."""
    expected = house.read(ada, BY_ITEM)
    gateway = house.seen.gateway
    with Jdbc(f"jdbc:hive2://{gateway.host}:{gateway.port}/rw", user="ada") as jdbc:
        mark = f"/* query {next(_numbers)} */"
        names, found = jdbc.query(f"{mark} {BY_ITEM}")
        assert house.seen.line_of(mark)["views"] == ["rw.daily"]
        assert (names, found) == (["item", "s"], expected)
        jdbc.statement.setQueryTimeout(60)
        mark = f"/* query {next(_numbers)} */"
        assert jdbc.query(f"{mark} {BY_ITEM}") == (names, expected)
        assert house.seen.line_of(mark)["views"] == ["rw.daily"]


# --- comparing ---------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_answers_are_compared(house: House, ada: Any) -> None:
    """Answers of all types; sums of floating-point numbers, NaN, and a limit."""
    columns = (
        "d, max(s) AS s, min(t) AS t, max(b) AS b, sum(f) AS f, sum(g) AS g, count(*) AS n, min(bool) AS bool, "
        "max(dec) AS dec, min(h) AS h"
    )
    rows(
        ada,
        "CREATE TABLE kinds AS SELECT id % 7 AS d, concat('x', id) AS s, timestamp_seconds(id) AS t, "
        "cast(concat('b', id) AS binary) AS b, id / 7D AS f, if(id = 5, float('NaN'), float(id)) AS g, "
        "id > 3 AS bool, cast(id AS decimal(30, 4)) AS dec, if(id = 3, -0D, NULL) AS h FROM range(50)",
    )
    text = f"SELECT {columns} FROM kinds GROUP BY d"
    rows(ada, f"CREATE MATERIALIZED VIEW kinds_mv ENABLE QUERY REWRITE AS {text}")
    try:
        for query in (text, f"{text} ORDER BY d LIMIT 3", "SELECT d, count(*) AS n FROM kinds WHERE d = 99 GROUP BY d"):
            before = house.seen.metric("rewrite_compared_total")
            _, views = house.views_of(ada, query)
            assert views == ["rw.kinds_mv"], query
            more = partial(house.compared_more, before)
            wait_until(more, what="the comparison")
        assert house.seen.metric("rewrite_differed_total") == 0
    finally:
        rows(ada, "DROP MATERIALIZED VIEW kinds_mv")


@pytest.mark.thorough
def test_a_wrong_proof_is_found(engine: Engine, tmp_path: Path) -> None:
    """Within 100 answers."""
    settings: dict[str, Setting] = {
        "storage.database": "credulous",
        "rewrite.wait": 60,
        "rewrite.canary": 10,
    }
    seen = start(tmp_path, f"{engine.host}:{engine.port}", script="credulous_gateway.py", settings=settings)
    try:
        with pyhive("127.0.0.1", seen.gateway.port) as cursor:
            rows(cursor, "CREATE TABLE believed AS SELECT id % 3 AS k, id % 2 AS j, id AS n FROM range(100)")
            rows(
                cursor,
                "CREATE MATERIALIZED VIEW believed_mv ENABLE QUERY REWRITE AS "
                "SELECT k, j, sum(n) AS n FROM believed GROUP BY k, j",
            )
            # Otherwise a hundred answers take less time than one comparison.
            rows(cursor, "SET freshgate.result_cache=off")
            text = "SELECT k, sum(n) AS n FROM believed GROUP BY k ORDER BY k"
            right = [(k, sum(n for n in range(100) if n % 3 == k)) for k in range(3)]
            answers = 0
            while (found := rows(cursor, text)) != right:
                answers += 1
                assert answers <= 100, found
            assert answers > 0
            (line,) = [line for line in seen.lines() if line["event"] == "rewrite_difference"]
            assert line["views"] == ["default.believed_mv"]
            assert line["error"].startswith("other values in 3 rows")
            assert "ERROR" in seen.gateway.log.read_text(encoding="utf-8")
            assert rows(cursor, text) == right
            rows(cursor, "ALTER MATERIALIZED VIEW believed_mv ENABLE QUERY REWRITE")
            assert rows(cursor, text) != right
            rows(cursor, "DROP MATERIALIZED VIEW believed_mv")
            rows(cursor, "DROP TABLE believed")
    finally:
        seen.gateway.stop()
