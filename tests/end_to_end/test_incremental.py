"""Refreshes by rows, on real Spark: the view equals its definition after every write, and the task says how."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from clients import pyhive, rows
from databases import Database, make_database
from processes import Engine, Gateway, wait_until
from tiers import EVERYTHING, sampled

SALES = "CREATE TABLE sales (id INT, item STRING, qty INT, price DECIMAL(10,2), weight DOUBLE) USING parquet"
ITEMS = "CREATE TABLE items (item STRING, kind STRING) USING parquet"
FILL = (
    "INSERT INTO sales SELECT {first} + id, CASE WHEN id % 7 > 0 THEN concat('i', id % 7) END, "
    "CASE WHEN id % 5 > 0 THEN CAST(id % 11 AS INT) END, CAST(id AS DECIMAL(10,2)) / 3, id / 4.0D FROM range({count})"
)
APPENDED = {
    "filtered": "SELECT id, upper(item) AS item, qty * 2 AS twice FROM sales WHERE qty > 3",
    "starred": "SELECT * FROM sales",
    "joined": "SELECT s.id, i.kind FROM sales s JOIN items i ON s.item = i.item",
    "outer_joined": "SELECT s.id, i.kind FROM sales s LEFT JOIN items i ON s.item = i.item",
    "itself": "SELECT a.id AS one, b.id AS other FROM sales a JOIN sales b ON a.id = b.id + 1",
    "united": "SELECT id, item FROM sales WHERE qty > 5 UNION ALL SELECT -id, kind FROM sales JOIN items USING (item)",
    "exploded": "SELECT id, part FROM sales LATERAL VIEW explode(split(item, 'i')) p AS part",
    "semi": "SELECT id FROM sales WHERE item IN (SELECT item FROM items WHERE kind = 'a')",
    "starred_join": "SELECT * FROM (SELECT id, item FROM sales) JOIN items USING (item)",
    "named": "SELECT id, name FROM sales JOIN VALUES (1, 'one'), (2, 'two') AS n(q, name) ON qty = q",
    "itself_twice": "WITH s AS (SELECT id, qty FROM sales WHERE qty > 8) SELECT x.id AS one, y.id AS b FROM s x, s y",
    "nested": "WITH s AS (SELECT id, item FROM sales WHERE qty > 2) "
    "SELECT x.id, x.item FROM (SELECT id, item FROM s) x",
}
MERGED = {
    "counted": "SELECT item, count(*) AS n, count(qty) AS q, sum(qty) AS s, sum(price) AS p FROM sales GROUP BY item",
    "averaged": "SELECT item, avg(qty) AS q, avg(price) AS p, avg(qty) + 1 AS r FROM sales GROUP BY item",
    "averaged_wide": "SELECT item, avg(id * 300000000007L - 5000000000000L) AS q FROM sales GROUP BY item",
    "extreme": "SELECT item, min(price) AS low, max(qty) AS high, max_by(id, price) AS top FROM sales GROUP BY item",
    "logical": "SELECT qty % 3 AS r, bool_and(qty > 2) AS b, bit_xor(id) AS x, count_if(qty > 5) AS c FROM sales "
    "GROUP BY qty % 3",
    "having_some": "SELECT item, sum(qty) AS s FROM sales GROUP BY item HAVING sum(qty) > 40",
    "distinct_items": "SELECT DISTINCT item, qty % 2 AS odd FROM sales",
    "rolled": "SELECT item, qty % 2 AS odd, count(*) AS n, sum(price) AS p FROM sales GROUP BY ROLLUP (item, qty % 2)",
    "total": "SELECT count(*) AS n, sum(price) AS p, avg(qty) AS q, max(item) AS m FROM sales",
    "by_kind": "SELECT i.kind, count(*) AS n, sum(s.price) / count(*) AS mean FROM sales s JOIN items i "
    "ON s.item = i.item GROUP BY i.kind",
    "unshown_key": "SELECT sum(qty) AS s FROM sales GROUP BY item",
    "having_alias": "SELECT item, sum(qty) AS qty FROM sales GROUP BY item HAVING sum(qty) > 40 AND qty < 70",
    "having_key": "SELECT item AS qty, qty AS id, count(*) AS n FROM sales GROUP BY item, qty HAVING qty > 3",
    "by_all": "SELECT item, 'of all' AS said, count(*) AS n, max(qty) AS m FROM sales GROUP BY ALL",
    "united_all": "SELECT x, count(*) AS n FROM (SELECT item AS x FROM sales UNION ALL SELECT kind FROM items) "
    "GROUP BY x",
    "united_distinct": "SELECT item FROM sales UNION SELECT kind FROM items",
    "over_groups": "WITH s AS (SELECT item, count(*) AS n, sum(qty) AS q FROM sales GROUP BY 1) "
    "SELECT upper(item) AS item, q / n AS mean FROM s WHERE n > 15",
    "weighed": "SELECT item, sum(weight) AS w FROM sales GROUP BY item",
}
DEFINITIONS = {**APPENDED, **MERGED}


DAYS = "CREATE TABLE days (id INT, item STRING, qty INT, day DATE) USING parquet PARTITIONED BY (day)"
FILL_DAY = (
    "INSERT INTO days SELECT id, concat('i', id % 3), CAST(id % 7 AS INT), DATE'{day}' FROM range({first}, {last})"
)
BY_DAY = "SELECT day, item, sum(qty) AS s FROM days GROUP BY day, item"
OF_DAYS = {
    "kept": ("day", "SELECT id, upper(item) AS item, day FROM days WHERE qty > 1"),
    "daily": ("day", "SELECT day, item, count(*) AS n, avg(qty) AS mean, max(id) AS top FROM days GROUP BY day, item"),
    **({"busy": ("day", f"{BY_DAY} HAVING sum(qty) > 20")} if EVERYTHING else {}),
    "monthly": (
        "date_trunc('month', month)",
        "SELECT date_trunc('MONTH', day) AS month, count(*) AS n, "
        "sum(qty) AS s FROM days GROUP BY date_trunc('MONTH', day)",
    ),
    "by_kind_and_day": (
        "day",
        "SELECT d.day, i.kind, count(*) AS n FROM days d JOIN items i ON d.item = i.item GROUP BY d.day, i.kind",
    ),
}
"""What each is partitioned by, and its definition."""


def routes(database: Database) -> dict[str, tuple[str, str]]:
    """The mode of the last task of each view that has ended, and what it says of its route."""
    found = rows(
        database.cursor,
        'SELECT MvName, RefreshMode, Route FROM tasks("type"="mv") '
        f"WHERE MvDatabaseName = '{database.name}' AND Status IN ('SUCCESS', 'FAILED') "
        "ORDER BY CAST(TaskId AS BIGINT)",
    )
    return {str(view): (str(mode), str(said)) for view, mode, said in found}


def route(database: Database, view: str) -> tuple[str, str]:
    return routes(database)[view]


def assert_equal(database: Database, view: str, definition: str) -> None:
    """The view shows what its definition does, as a bag. Compared here: EXCEPT ALL costs Spark more than both reads."""
    shown, defined = (Counter(database.rows(text)) for text in (f"SELECT * FROM {view}", definition))
    assert shown == defined, (view, shown - defined, defined - shown)


@pytest.fixture(scope="module")
def gateway(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway of this module, whose many views nobody drops: each takes ten statements, and the Spark ends soon. Nor
    does it remove the earlier versions, which would take a tenth of Spark's time."""
    log = tmp_path_factory.mktemp("incremental") / "gateway.log"
    running = Gateway(log, upstream=f"{engine.host}:{engine.port}", settings={"versions.retention": 86400})
    yield running
    running.stop()


@pytest.fixture
def database(gateway: Gateway) -> Iterator[Database]:
    yield from make_database(gateway, "rows", dropped=False)


@pytest.fixture
def sales(database: Database) -> Database:
    database.run(SALES, ITEMS, FILL.format(first=0, count=100), "INSERT INTO items VALUES ('i1', 'a'), ('i2', 'b')")
    return database


OF_EACH_KIND = {
    *("outer_joined", "itself", "united", "exploded", "starred_join"),
    *("averaged", "extreme", "having_alias", "rolled", "total", "over_groups"),
}
"""Definitions of each way in which rows are added or merged, except those of other tests here. tests/sql/increments
compares the rows of all."""


@pytest.mark.parametrize("chosen", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["chosen", "others"])
def test_appends_and_merges(sales: Database, chosen: bool) -> None:
    views = {view: definition for view, definition in DEFINITIONS.items() if (view in OF_EACH_KIND) == chosen}
    for view, definition in views.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    # What was added stays as it was; what was merged is merged again.
    again = {view: definition for view, definition in views.items() if view in MERGED or not chosen}
    for write, read in (
        (FILL.format(first=1000, count=30), views),
        ("INSERT INTO sales VALUES (5, NULL, NULL, NULL, double('NaN'))", again),
    ):
        sales.run(write)
        for view, definition in read.items():
            assert_equal(sales, view, definition)
        found = routes(sales)
        assert {view: found[view] for view in read if found[view][0] != "INCREMENTAL"} == {}


def test_an_average_next_to_the_middle_between_two_decimals(database: Database) -> None:
    """The quotient of so wide decimals has only six digits more than the average. Rounded to these first, it would be
    the middle, and rounded up, if there are a million rows. The suite only computes it in the way that prevents this;
    tests/sql/query/test_averaging.py has the limit."""
    count = 1_000_003 if EVERYTHING else 1_009
    last = (count - 1) // 2 * pow(10**4, -1, count) % count
    definition = "SELECT count(*) AS n, avg(paid) AS mean FROM payments"
    database.run(
        "CREATE TABLE payments (paid DECIMAL(18,2)) USING parquet",
        f"INSERT INTO payments SELECT 0 FROM range({count - 1})",
        f"CREATE MATERIALIZED VIEW averaged REFRESH INCREMENTAL FALLBACK AS {definition}",
        f"INSERT INTO payments VALUES ({last // 100}.{last % 100:02})",
    )
    assert_equal(database, "averaged", definition)
    assert route(database, "averaged")[0] == "INCREMENTAL", route(database, "averaged")


SPARK_VIEWS = {
    "above": "CREATE VIEW above AS SELECT s.*, kind FROM {other}.seen s LEFT JOIN items ON what = item",
    "all_of_it": "CREATE VIEW all_of_it AS SELECT * FROM sales UNION ALL SELECT * FROM sales WHERE qty > 5",
    "per_item": "CREATE VIEW per_item AS SELECT item, count(*) AS n FROM sales GROUP BY item",
}
OVER_VIEWS = {
    "of_view": "SELECT nr, upper(what) AS what FROM {other}.seen",
    "of_above": "SELECT * FROM above WHERE nr > 7",
    "with_itself": "SELECT a.nr, b.nr AS other FROM {other}.seen a JOIN above b ON a.nr = b.nr + 1",
    "counted": "SELECT what, kind, count(*) AS n, max(nr) AS top FROM above GROUP BY what, kind",
    "united": "SELECT item, sum(qty) AS s FROM all_of_it GROUP BY item",
    "shown": "SELECT n, item FROM per_item",
}


@pytest.fixture
def other(gateway: Gateway) -> Iterator[Database]:
    yield from make_database(gateway, "other", dropped=False)


def test_spark_views_stand_for_their_queries(sales: Database, other: Database) -> None:
    seen = f"VIEW seen (nr, what) AS SELECT id, concat(kind, '!') AS k FROM {sales.name}.sales JOIN items USING (item)"
    other.run("CREATE TABLE items AS SELECT 'i3' AS item, 'c' AS kind", f"CREATE {seen} WHERE qty > 2 -- of the day")
    sales.run(*(text.format(other=other.name) for text in SPARK_VIEWS.values()))
    views = {view: text.format(other=other.name) for view, text in OVER_VIEWS.items()}
    for view, definition in views.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    sales.run(FILL.format(first=1000, count=30))
    for view, definition in views.items():
        assert_equal(sales, view, definition)
    found = routes(sales)
    assert {view: found[view] for view in views if found[view][0] != "INCREMENTAL"} == {}
    # It reads the view itself, and through another one.
    view = "with_itself"
    other.run(f"CREATE OR REPLACE {seen} WHERE qty > 3")
    sales.run(FILL.format(first=2000, count=30))
    assert_equal(sales, view, views[view])
    mode, said = route(sales, view)
    assert (mode, "BASE_REPLACED" in said) == ("COMPLETE", True), said
    sales.run(FILL.format(first=3000, count=30))
    assert_equal(sales, view, views[view])
    assert route(sales, view)[0] == "INCREMENTAL", route(sales, view)


def test_spark_views_that_mean_something_else_here(sales: Database) -> None:
    sales.run("SET spark.sql.ansi.enabled = false", "CREATE VIEW lax AS SELECT id, CAST(item AS INT) AS i FROM sales")
    sales.run("SET spark.sql.ansi.enabled = true", "CREATE VIEW narrow AS SELECT id FROM sales")
    for view, why in (("lax", "spark.sql.ansi.enabled"), ("narrow", "other columns")):
        sales.run(f"CREATE MATERIALIZED VIEW of_{view} REFRESH INCREMENTAL FALLBACK AS SELECT * FROM {view}")
        if view == "narrow":
            sales.run("DROP TABLE sales", SALES.replace("id INT", "id SMALLINT"))
        sales.run("INSERT INTO sales VALUES (5, '7', NULL, NULL, NULL)")
        assert_equal(sales, f"of_{view}", f"SELECT * FROM {view}")
        mode, _ = route(sales, f"of_{view}")
        assert mode == "COMPLETE"
        sales.run("INSERT INTO sales VALUES (6, '8', NULL, NULL, NULL)")
        with pytest.raises(Exception, match=why):
            sales.run(f"REFRESH MATERIALIZED VIEW of_{view} INCREMENTAL")


def test_a_definition_that_spark_plans_in_another_way_than_it_reads(sales: Database) -> None:
    """Spark compares the alias `qty` as if it was the column: as a number."""
    key = "CAST(id AS STRING)"
    definition = f"SELECT {key} AS qty, count(*) AS n FROM sales GROUP BY {key} HAVING qty > '5'"
    sales.run(f"CREATE MATERIALIZED VIEW numbers REFRESH INCREMENTAL FALLBACK AS {definition}")
    sales.run(FILL.format(first=1000, count=30))
    assert_equal(sales, "numbers", definition)
    assert route(sales, "numbers")[0] == "COMPLETE"
    sales.run(FILL.format(first=2000, count=3))
    with pytest.raises(Exception, match="Spark plans the definition in another way"):
        sales.run("REFRESH MATERIALIZED VIEW numbers INCREMENTAL")


@pytest.mark.parametrize(
    "write",
    sampled(
        ["INSERT OVERWRITE sales SELECT * FROM VALUES (1, 'i1', 7, 1.5, 2.0D)", "TRUNCATE TABLE sales"],
        {"overwritten"},
        ["overwritten", "truncated"],
    ),
)
def test_what_is_removed_causes_one_complete_refresh(sales: Database, write: str) -> None:
    views = {name: DEFINITIONS[name] for name in ("filtered", "counted", "having_some")}
    for view, definition in views.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    sales.run(write)
    for view, definition in views.items():
        assert_equal(sales, view, definition)
    for mode, said in routes(sales).values():
        assert (mode, "ROWS_REMOVED" in said) == ("COMPLETE", True), said
    sales.run(FILL.format(first=2000, count=40))
    for view, definition in views.items():
        assert_equal(sales, view, definition)
    assert {mode for mode, _ in routes(sales).values()} == {"INCREMENTAL"}


def test_a_changed_dimension(sales: Database) -> None:
    views = {name: DEFINITIONS[name] for name in ("joined", "outer_joined", "semi", "by_kind")}
    for view, definition in views.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    sales.run("INSERT INTO items VALUES ('i3', 'a'), ('i1', 'c')", FILL.format(first=3000, count=20))
    for view, definition in views.items():
        assert_equal(sales, view, definition)
    found = routes(sales)
    assert {view: mode for view, (mode, _) in found.items()} == {
        "joined": "INCREMENTAL",
        "outer_joined": "INCREMENTAL",
        "semi": "INCREMENTAL",
        "by_kind": "INCREMENTAL",
    }


def modes(database: Database) -> dict[str, str]:
    for view, (_, definition) in OF_DAYS.items():
        assert_equal(database, view, definition)
    found = routes(database)
    return {view: found[view][0] for view in OF_DAYS}


def test_within_partitions(sales: Database) -> None:
    sales.run(DAYS, FILL_DAY.format(day="2026-01-31", first=0, last=30), "INSERT INTO items VALUES ('i0', 'z')")
    sales.run(FILL_DAY.format(day="2026-02-01", first=30, last=50))
    for view, (by, definition) in OF_DAYS.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK PARTITION BY ({by}) AS {definition}")
    by_rows, whole = dict.fromkeys(OF_DAYS, "INCREMENTAL"), dict.fromkeys(OF_DAYS, "PARTIAL")
    # More rows of a day that is there, and a new day.
    sales.run(FILL_DAY.format(day="2026-02-01", first=50, last=60))
    sales.run(FILL_DAY.format(day="2026-02-02", first=60, last=90))
    assert modes(sales) == by_rows
    # Days that are replaced, dropped or without a value are recomputed, with all that later refreshes by rows need.
    sales.run(
        "INSERT OVERWRITE days PARTITION (day = DATE'2026-02-01') SELECT 7, 'i1', 6",
        "ALTER TABLE days DROP PARTITION (day = DATE'2026-01-31')",
        "INSERT INTO days VALUES (1, NULL, 3, NULL)",
    )
    assert modes(sales) == whole
    sales.run(FILL_DAY.format(day="2026-02-01", first=90, last=120), "INSERT INTO days VALUES (2, NULL, 90, NULL)")
    # Rows of a table that the partitions do not follow can belong to any of them.
    sales.run("INSERT INTO items VALUES ('i2', 'y')")
    assert modes(sales) == by_rows
    above = {
        "by_day": ("PARTITION BY (day)", "SELECT day, sum(n) AS n FROM daily GROUP BY day"),
        "by_item": ("", "SELECT item, sum(n) AS n FROM daily GROUP BY item"),
    }
    for view, (by, definition) in above.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK {by} AS {definition}")
    sales.run(FILL_DAY.format(day="2026-02-01", first=50, last=60), FILL_DAY.format(day="2026-03-02", first=5, last=9))
    for view, (_, definition) in above.items():
        assert_equal(sales, view, definition.replace("daily", f"({OF_DAYS['daily'][1]})"))
        assert route(sales, view)[0] == "INCREMENTAL", route(sales, view)


KEYED = {
    "visitors": "SELECT day, count(DISTINCT item) AS items, percentile(qty, 0.5) AS middle FROM days GROUP BY day",
    "ranked": "SELECT day, id, row_number() OVER (PARTITION BY day ORDER BY id) AS r FROM days",
    "of_month": "SELECT date_trunc('MONTH', day) AS month, count(DISTINCT id) AS n FROM days GROUP BY 1",
    "mergeable": "SELECT day, item, sum(qty) AS s FROM days GROUP BY day, item HAVING sum(qty) > 9",
}


def test_touched_keys(sales: Database) -> None:
    """What cannot be merged is recomputed for the days that have changed, and no others."""
    sales.run(DAYS, *(FILL_DAY.format(day=f"2026-0{month}-01", first=month, last=30) for month in range(1, 6)))
    for view, definition in KEYED.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    for writes in (
        [FILL_DAY.format(day="2026-02-01", first=20, last=45)],
        [
            "INSERT OVERWRITE days PARTITION (day = DATE'2026-03-01') SELECT 7, 'i1', 10",
            "ALTER TABLE days DROP PARTITION (day = DATE'2026-01-01')",
        ],
        ["INSERT INTO days VALUES (1, NULL, 3, NULL), (2, 'i2', 12, DATE'2026-06-07')"],
        ["INSERT OVERWRITE days PARTITION (day) SELECT 4, 'i4', 10, NULL"],
    ):
        sales.run(*writes)
        for view, definition in KEYED.items():
            assert_equal(sales, view, definition)
        for view, (mode, said) in routes(sales).items():
            whole = view == "mergeable" and writes[0].startswith("INSERT INTO")
            few = "only rows with" in said or "groups are computed again" in said
            assert (mode, few) == ("INCREMENTAL", not whole), (view, writes, said)


def test_views_on_views(sales: Database) -> None:
    lower = "SELECT id, item, qty FROM sales WHERE qty > 1"
    upper = "SELECT item, sum(qty) AS s, count(*) AS n FROM low GROUP BY item"
    sales.run(
        f"CREATE MATERIALIZED VIEW low REFRESH INCREMENTAL FALLBACK AS {lower}",
        f"CREATE MATERIALIZED VIEW high REFRESH INCREMENTAL FALLBACK AS {upper}",
    )
    sales.run(FILL.format(first=100, count=25))
    assert_equal(sales, "high", upper.replace("low", f"({lower})"))
    assert [route(sales, view)[0] for view in ("low", "high")] == ["INCREMENTAL", "INCREMENTAL"]
    sales.run("TRUNCATE TABLE sales")
    assert_equal(sales, "high", upper.replace("low", f"({lower})"))
    assert [route(sales, view)[0] for view in ("low", "high")] == ["COMPLETE", "INCREMENTAL"]


def test_views_on_merged_views(sales: Database) -> None:
    """A group that was merged is another row: the view above subtracts what it was."""
    lower = "SELECT item, qty % 2 AS odd, sum(qty) AS s, count(*) AS n FROM sales GROUP BY item, qty % 2"
    uppers = {
        "by_item": "SELECT item, sum(s) AS s, sum(n) AS n FROM low GROUP BY item",
        "total_of": "SELECT sum(n) AS n, count(s) AS c FROM low",
        "by_kind_of": "SELECT i.kind, sum(l.n) AS n FROM low l JOIN items i ON l.item = i.item GROUP BY i.kind",
        "most": "SELECT item, max(n) AS most FROM low GROUP BY item",
        "listed": "SELECT item, s FROM low WHERE n > 3",
    }
    sales.run(f"CREATE MATERIALIZED VIEW low REFRESH INCREMENTAL FALLBACK AS {lower}")
    for view, definition in uppers.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    # The second time, only the view whose states may be wrong after the first.
    for first, read in ((100, uppers), (200, {"by_item": uppers["by_item"]})):
        sales.run(FILL.format(first=first, count=25))
        for view, definition in read.items():
            assert_equal(sales, view, definition.replace("FROM low", f"FROM ({lower})"))
        found = routes(sales)
        assert {found[view][0] for view in uppers} == {"INCREMENTAL"}, found


def test_the_statement_chooses(sales: Database) -> None:
    sales.run(f"CREATE MATERIALIZED VIEW v REFRESH COMPLETE AS {DEFINITIONS['filtered']}")
    ranked = "SELECT id, row_number() OVER (ORDER BY id) AS r FROM sales"
    sales.run(f"CREATE MATERIALIZED VIEW w REFRESH INCREMENTAL FALLBACK AS {ranked}")
    sales.run(FILL.format(first=100, count=5), "REFRESH MATERIALIZED VIEW v")
    assert route(sales, "v")[0] == "COMPLETE"
    with pytest.raises(Exception, match="OPERATOR"):
        sales.run("REFRESH MATERIALIZED VIEW w INCREMENTAL")
    sales.run("REFRESH MATERIALIZED VIEW w INCREMENTAL FALLBACK")
    assert_equal(sales, "w", ranked)
    sales.run("INSERT INTO sales VALUES (1, 'i1', 1, 1.0, 1.0D)")
    with pytest.raises(Exception, match="REFRESH COMPLETE"):
        sales.run("REFRESH MATERIALIZED VIEW v INCREMENTAL")


def test_explain_shows_the_statements(sales: Database) -> None:
    sales.run(f"CREATE MATERIALIZED VIEW v REFRESH INCREMENTAL FALLBACK AS {DEFINITIONS['filtered']}")
    sales.run(FILL.format(first=100, count=5))
    explained = "\n".join(str(row[0]) for row in rows(sales.cursor, "EXPLAIN REFRESH MATERIALIZED VIEW v INCREMENTAL"))
    assert "method: INCREMENTAL" in explained
    assert "_metadata.file_path IN" in explained


COMPACTED_FROM = 4


@pytest.fixture
def compacted(start_gateway: Any) -> Iterator[Database]:
    """A database behind a gateway that copies fewer versions into one."""
    gateway = start_gateway(constants={"gateway.mv.refresh.tasks.COMPACTED_FROM": COMPACTED_FROM})
    for database in make_database(gateway, "compacted", dropped=False):
        database.run(SALES, FILL.format(first=0, count=100))
        yield database


def test_many_appends_are_copied_into_one_version(compacted: Database) -> None:
    """In the background; a view above goes on by rows."""
    above = f"SELECT item, count(*) AS n FROM ({DEFINITIONS['filtered']}) GROUP BY item"
    compacted.run(
        f"CREATE MATERIALIZED VIEW v REFRESH INCREMENTAL AS {DEFINITIONS['filtered']}",
        "CREATE MATERIALIZED VIEW above REFRESH INCREMENTAL AS SELECT item, count(*) AS n FROM v GROUP BY item",
    )
    for number in range(COMPACTED_FROM - 1):
        write = f"INSERT INTO sales VALUES ({number}, 'i1', 9, 1.0, 1.0D)"
        compacted.run(write, "REFRESH MATERIALIZED VIEW v INCREMENTAL")
    wait_until(lambda: route(compacted, "v") == ("INCREMENTAL", f"copies {COMPACTED_FROM} versions into one"), 60)
    for number in range(2):
        assert_equal(compacted, "v", DEFINITIONS["filtered"])
        assert_equal(compacted, "above", above)
        assert route(compacted, "above")[0] == "INCREMENTAL", route(compacted, "above")
        compacted.run(f"INSERT INTO sales VALUES ({number}, 'i2', 9, 1.0, 1.0D)")


def test_rows_that_arrive_while_others_are_read(sales: Database) -> None:
    """No row is counted twice or lost, whenever it comes."""
    views = {name: DEFINITIONS[name] for name in ("counted", "itself", "by_kind")}
    for view, definition in views.items():
        sales.run(f"CREATE MATERIALIZED VIEW {view} REFRESH INCREMENTAL FALLBACK AS {definition}")
    writing, modes = threading.Event(), set[str]()

    def write() -> None:
        with pyhive(sales.gateway.host, sales.gateway.port, database=sales.name) as cursor:
            for number in range(5):
                rows(cursor, FILL.format(first=5000 + 10 * number, count=10))
        writing.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not writing.is_set():
        for view in views:
            sales.run(f"REFRESH MATERIALIZED VIEW {view} INCREMENTAL FALLBACK")
        modes |= {mode for mode, _ in routes(sales).values()}
    writer.join()
    for view, definition in views.items():
        assert_equal(sales, view, definition)
    assert "INCREMENTAL" in modes


def test_answers_of_every_type_stay_what_they_were(sales: Database) -> None:
    """States are merged with the types of the definition."""
    definition: str = DEFINITIONS["counted"]
    sales.run(f"CREATE MATERIALIZED VIEW v REFRESH INCREMENTAL FALLBACK AS {definition}")
    before: Any = sales.rows("DESCRIBE v")
    sales.run(FILL.format(first=100, count=5))
    assert_equal(sales, "v", definition)
    assert sales.rows("DESCRIBE v") == before


PAST = {
    "grouped": ("", "SELECT day, count(*) AS n, sum(qty) AS s FROM days GROUP BY day HAVING count(*) > 1"),
    "plain": ("", "SELECT day, id, qty FROM days WHERE qty >= 0"),
    "windows": ("", "SELECT day, id, rank() OVER (PARTITION BY day ORDER BY id) AS r FROM days"),
    "parts": ("PARTITION BY (day)", "SELECT day, item, count(*) AS n FROM days GROUP BY day, item"),
}
"""Clauses and definitions of views whose rows before 2024-02-02 are immutable."""


def test_immutable_rows_are_copied_and_the_others_computed(database: Database) -> None:
    """Refreshes by rows, completely and by partitions, also if the old rows of the base table have gone."""
    past = "day < DATE'2024-02-02'"
    database.run(DAYS, *(FILL_DAY.format(day=f"2024-02-0{day}", first=day, last=day + 9) for day in (1, 2, 3)))
    kept, old = {}, FILL_DAY.format(day="2024-02-01", first=50, last=60)
    for view, (clause, definition) in PAST.items():
        method = "REFRESH INCREMENTAL FALLBACK IMMUTABLE WHERE"
        database.run(f"CREATE MATERIALIZED VIEW {view} {clause} {method} ({past}) AS {definition}")
        kept[view] = database.rows(f"SELECT * FROM {view} WHERE {past}")

    def check(how: dict[str, str]) -> None:
        for view, (_, definition) in PAST.items():
            assert database.rows(f"SELECT * FROM {view} WHERE {past}") == kept[view], view
            wanted = database.rows(f"SELECT * FROM ({definition}) WHERE NOT {past}")
            assert database.rows(f"SELECT * FROM {view} WHERE NOT {past}") == wanted, view
        found = routes(database)
        assert {view: found[view][0] for view in how} == how

    database.run(old, FILL_DAY.format(day="2024-02-03", first=50, last=60))
    check({"grouped": "INCREMENTAL", "plain": "INCREMENTAL", "parts": "INCREMENTAL"})
    database.run(
        "ALTER TABLE days DROP PARTITION (day = DATE'2024-02-01')",
        "ALTER TABLE days DROP PARTITION (day = DATE'2024-02-03')",
    )
    check({"parts": "PARTIAL"})
    database.run(old)
    check({"grouped": "INCREMENTAL", "plain": "INCREMENTAL", "parts": "NOT_REFRESH"})
    for view in PAST:
        database.run(f"REFRESH MATERIALIZED VIEW {view}")
    check({**dict.fromkeys(PAST, "COMPLETE"), "parts": "PARTIAL"})
    said = [row[0] for row in rows(database.cursor, "EXPLAIN REFRESH MATERIALIZED VIEW plain")]
    assert any(line.startswith("immutable: rows of version ") and past in line for line in said)
    database.run("ALTER MATERIALIZED VIEW grouped DROP IMMUTABLE")
    assert_equal(database, "grouped", PAST["grouped"][1])
