"""Tests the forms of the gateway's statements at a Spark 3.5, and how the gateway learns the release."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.errors import FreshgateError, SparkLost, StatementFailed, UpstreamLost
from gateway.mv.model.properties import write_creator_settings
from gateway.mv.ports import UNKNOWN_SETTINGS
from gateway.mv.refresh.habits import SINGLE_SESSION, Habits, TooOld
from gateway.spark import older
from gateway.spark.metastore import SparkMetastore
from gateway.spark.printed_description import read_description
from gateway.spark.row_list import RowList
from sql.names import TableName
from sql.releases import NEWEST, SPARK_3_5, Dialect, dialect_of, release_of
from sql.spark_settings import applied
from sql.texts import additions, delta_texts, observation

COLUMNS: list[tuple[Any, ...]] = [("#id", "int", None), ("d", "decimal(10,2)", "x"), ("day", "string", None)]
PARTITIONS: list[tuple[Any, ...]] = [
    ("# Partition Information", "", ""),
    ("# col_name", "data_type", "comment"),
    ("day", "string", None),
]
DETAIL: list[tuple[Any, ...]] = [
    ("", "", ""),
    ("# Detailed Table Information", "", ""),
    ("Catalog", "spark_catalog", ""),
    ("Database", "shop", ""),
    ("Table", "orders", ""),
    ("Created Time", "Fri Nov 27 23:31:53 UTC 2026", ""),
    ("Type", "MANAGED", ""),
    ("Provider", "parquet", ""),
    ("Statistics", "712 bytes, 3 rows", ""),
    ("Location", "file:/w/shop.db/orders", ""),
    ("Partition Provider", "Catalog", ""),
]


SET: list[tuple[Any, ...]] = [("spark.some", "value")]


class Scripted:
    """Answers statements by how they begin, and records them."""

    def __init__(self, dialect: Dialect = SPARK_3_5, **answers: list[tuple[Any, ...]] | FreshgateError) -> None:
        self.dialect = dialect
        self.answers = {start.replace("_", " "): answer for start, answer in answers.items()}
        self.heard: list[str] = []

    @asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[Scripted]:
        yield self

    async def run(self, sql: str) -> RowList:
        return await older.run(self.dialect, sql, self.plainly)

    async def plainly(self, sql: str) -> RowList:
        self.heard.append(sql)
        answer = next((answer for start, answer in self.answers.items() if sql.startswith(start)), [])
        if isinstance(answer, FreshgateError):
            raise answer
        return RowList((), answer)


def relation_of(spark: Scripted) -> Any:
    return asyncio.run(SparkMetastore(spark).relation(TableName("shop", "orders")))  # type: ignore[arg-type]


def test_a_table_is_described_without_json() -> None:
    spark = Scripted(DESCRIBE=[*COLUMNS, *PARTITIONS, *DETAIL])
    found = relation_of(spark)
    assert spark.heard == ["DESCRIBE TABLE EXTENDED `spark_catalog`.`shop`.`orders`"]
    assert [(name, json.loads(kind)["name"]) for name, kind in found.columns] == [
        ("#id", "int"),
        ("d", "decimal"),
        ("day", "string"),
    ]
    assert (found.provider, found.location, found.partition_columns) == (
        "parquet",
        "file:/w/shop.db/orders",
        ("day",),
    )
    assert found.partitions_listed
    assert found.created == "2026-11-27T23:31:53Z"


@pytest.mark.parametrize("printed", ["Fri Nov 27 23:31:53 CET 2026", "Xxx Nov 27 23:31:53 UTC 2026", "UNKNOWN"])
def test_other_times_stay_as_they_are_printed(printed: str) -> None:
    detail = [row if row[0] != "Created Time" else (row[0], printed, "") for row in DETAIL]
    assert relation_of(Scripted(DESCRIBE=[*COLUMNS, *detail])).created == printed


def test_statistics_are_read_from_their_text() -> None:
    spark = Scripted(DESCRIBE=[*COLUMNS, *DETAIL])
    answer = asyncio.run(spark.run("DESCRIBE TABLE EXTENDED `a`.`b` AS JSON"))
    assert json.loads(answer.rows[0][0])["statistics"] == {"size_in_bytes": 712, "num_rows": 3}


def test_the_location_of_a_partition_is_not_that_of_its_table() -> None:
    partition = [("", "", ""), ("# Detailed Partition Information", "", ""), ("Database", "shop", "")]
    storage = [("", "", ""), ("# Storage Information", "", ""), ("Location", "file:/w/table", "")]
    spark = Scripted(DESCRIBE=[*COLUMNS, *partition, ("Location", "file:/w/table/day=1", ""), *storage])
    text = observation.describe_partition(TableName("shop", "orders"), ["day"], ("1",))
    answer = asyncio.run(spark.run(text))
    assert spark.heard == [text.removesuffix(" AS JSON")]
    assert observation.described_location(answer.rows[0][0]) == "file:/w/table/day=1"


def test_a_definition_says_with_which_settings_it_was_created() -> None:
    settings = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}
    stored = [*write_creator_settings(settings).items(), ("transient_lastDdlTime", "1")]
    detail = [row for row in DETAIL if row[0] not in {"Type", "Provider"}]
    view = [("Type", "VIEW", ""), ("View Text", "SELECT 1 AS a", "")]
    shown = ("Table Properties", f"[{', '.join('='.join(pair) for pair in stored)}]", "")
    spark = Scripted(DESCRIBE=[*COLUMNS, *detail, *view, shown], SHOW_TBLPROPERTIES=stored)
    found = relation_of(spark)
    assert (found.view_text, found.settings) == ("SELECT 1 AS a", settings)


@pytest.mark.parametrize(
    ("text", "settings"),
    [("SELECT a FROM t", UNKNOWN_SETTINGS), ("SELECT `a` FROM `s`.`t` WHERE `freshgate_version` = 1", applied({}))],
)
def test_the_settings_of_other_views_are_not_known(text: str, settings: dict[str, str]) -> None:
    detail = [row for row in DETAIL if row[0] not in {"Type", "Provider"}]
    found = relation_of(Scripted(DESCRIBE=[*COLUMNS, *detail, ("Type", "VIEW", ""), ("View Text", text, "")]))
    assert found.settings == settings


def test_a_temporary_view_has_only_columns() -> None:
    assert relation_of(Scripted(DESCRIBE=COLUMNS)).kind.value == "TEMPORARY VIEW"


def test_tables_of_other_catalogs_are_described_as_such() -> None:
    of_catalog = [row for row in DETAIL if row[0] not in {"Database", "Table", "Catalog"}]
    found = relation_of(Scripted(DESCRIBE=[*COLUMNS, *PARTITIONS, *of_catalog]))
    assert (found.provider, found.created) == ("parquet", "")


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        (observation.list_files(["file:/a b/`c'", "file:/d"]), "recursiveFileLookup 'true'"),
        (additions.list_young_files("file:/a[1]", 7, 5), "recursiveFileLookup 'true'"),
        (delta_texts.commits("file:/t", 1, 2), f"pathGlobFilter '{{{1:020},{2:020}}}.json'"),
        (delta_texts.actions("file:/t", 1, 1, 5), f"pathGlobFilter '{{{1:020}}}.json'"),
        (delta_texts.files("file:/t", ["a"], ["x.parquet"]), "pathGlobFilter '{x.parquet}'"),
    ],
)
def test_relations_with_options_become_views_for_one_statement(sql: str, options: str) -> None:
    spark = Scripted()
    asyncio.run(spark.run(sql))
    makes = [text for text in spark.heard if text.startswith("CREATE OR REPLACE TEMPORARY VIEW ")]
    drops = [text for text in spark.heard if text.startswith("DROP VIEW IF EXISTS ")]
    (text,) = (text for text in spark.heard if text not in {*makes, *drops})
    assert len(makes) == len(drops) == sql.count(" WITH ('")
    assert all(options in make for make in makes)
    assert " WITH (" not in text
    assert "_metadata" not in text
    assert spark.heard == [*makes, text, *drops]


@pytest.mark.parametrize("dropped", [{}, {"DROP": UpstreamLost("gone")}, {"DROP": StatementFailed("refused")}])
def test_the_views_are_dropped_if_the_statement_fails(dropped: dict[str, Any]) -> None:
    spark = Scripted(SELECT=StatementFailed("no", "42000"), **dropped)
    with pytest.raises(StatementFailed, match="no"):
        asyncio.run(spark.run(observation.list_files(["file:/a"])))
    assert spark.heard[-1] == f"DROP VIEW IF EXISTS {view_in(spark.heard[0])}"


def view_in(making: str) -> str:
    return making.removeprefix("CREATE OR REPLACE TEMPORARY VIEW ").partition(" ")[0]


def test_what_was_not_made_is_not_dropped() -> None:
    """A view of that name in the current database is a user's."""
    spark = Scripted(CREATE=StatementFailed("no such path", "42K03"))
    with pytest.raises(StatementFailed, match="no such path"):
        asyncio.run(spark.run(observation.list_files(["file:/a"])))
    assert [text.partition(" ")[0] for text in spark.heard] == ["CREATE"]


def test_two_looks_at_once_do_not_read_each_others_views() -> None:
    class Views(Scripted):
        """A session with temporary views, whose statements come one by one, but from two looks in turn."""

        def __init__(self) -> None:
            super().__init__()
            self.views: dict[str, str] = {}

        async def _plainly(self, sql: str) -> RowList:
            await asyncio.sleep(0)
            if sql.startswith("CREATE"):
                self.views[view_in(sql)] = sql.partition("path '")[2].partition("'")[0]
            elif sql.startswith("DROP"):
                self.views.pop(sql.rpartition(" ")[2], None)
            else:
                return RowList(("path",), [(path,) for view, path in self.views.items() if f" {view})" in sql])
            return RowList((), [])

    async def look(spark: Views, path: str) -> list[tuple[Any, ...]]:
        return list((await older.run(SPARK_3_5, observation.list_files([path]), spark._plainly)).rows)

    async def both() -> tuple[Views, list[list[tuple[Any, ...]]]]:
        spark = Views()
        return spark, await asyncio.gather(*(look(spark, path) for path in ("file:/a", "file:/b", "file:/a")))

    spark, found = asyncio.run(both())
    assert found == [[("file:/a",)], [("file:/b",)], [("file:/a",)]]
    assert spark.views == {}


def test_columns_with_the_names_of_headings_are_columns() -> None:
    names = (
        "# Partition Information",
        "# Detailed Table Information",
        "# col_name",
        "Type",
        "Location",
        "# Type: VIEW",
        "",
    )
    forged = [(name, "string", "# Detailed Table Information") for name in names]
    detail = [
        row if row[0] != "Created Time" else ("Comment", "c\nType: VIEW\n# Partition Information", "") for row in DETAIL
    ]
    parts = [*PARTITIONS, ("# col_name", "string", None)]
    found = read_description([*COLUMNS, *forged, *parts, *detail])
    assert [name for name, _ in found.columns] == ["#id", "d", "day", *names]
    assert found.partitioned_by == ("day", "# col_name")
    assert found.detail is not None
    assert (found.detail["Type"], found.detail["Location"]) == ("MANAGED", "file:/w/shop.db/orders")


def test_paths_are_the_same_in_a_view() -> None:
    found = older.on_files(observation.list_files(["file:/a b/`c'\\d"]))
    assert found is not None
    assert found.makes[0].endswith(r"OPTIONS (path 'file:/a b/`c\'\\\\d', recursiveFileLookup 'true')")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'text.`a` WITH (''b'' = ''c'')'",
        "SELECT \"x WITH ('a' = 'b')\" FROM `text.a WITH ('b' = 'c')`",
        "SELECT \"text.`a` WITH ('b' = 'c')\" /* text.`a` WITH ('b' = 'c') */ -- text.`a` WITH ('b' = 'c')",
        "SELECT 1",
    ],
)
def test_other_texts_stay_as_they_are(sql: str) -> None:
    assert older.on_files(sql) is None


def test_spark_4_gets_the_statements_unchanged() -> None:
    spark = Scripted(NEWEST)
    texts = [observation.list_files(["file:/a"]), "DESCRIBE TABLE EXTENDED `a`.`b` AS JSON"]
    for text in texts:
        asyncio.run(spark.run(text))
    assert spark.heard == texts


# --- releases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "dialect"),
    [
        ("3.5.9 7c14a3c28b", SPARK_3_5),
        ("4.0.5 aaa", NEWEST),
        ("4.1.4 bbb", NEWEST),
        ("12.0.0-SNAPSHOT", NEWEST),
        ("something else", NEWEST),
    ],
)
def test_the_release_decides_the_dialect(version: str, dialect: Dialect) -> None:
    habits = Habits()
    asyncio.run(habits.ask(Scripted(SET=SET, SELECT_version=[(version,)])))  # type: ignore[arg-type]
    assert (habits.speaking(), habits.version) == (dialect, version)


@pytest.mark.parametrize(("shared", "whole"), [("false", True), ("true", False)])
def test_sessions_that_share_their_settings_are_recognized(shared: str, whole: bool) -> None:
    """Then nothing is kept in memory for a session: another one may change what its texts mean."""
    answers = {f"SET {SINGLE_SESSION}": [(SINGLE_SESSION, shared)], "SET": [("some", "false")]}
    habits = Habits()
    asyncio.run(habits.ask(Scripted(SELECT_version=[("4.1.4 bbb",)], **answers)))  # type: ignore[arg-type]
    assert habits.collects_whole is whole


@pytest.mark.parametrize("version", ["3.4.4", "2.4.8", "3.0"])
def test_an_older_spark_is_refused(version: str) -> None:
    told = f"needs Spark 3.5 or newer, but the server is Spark {version}"
    with pytest.raises(TooOld, match=told) as error:
        asyncio.run(Habits().ask(Scripted(SET=SET, SELECT_version=[(f"{version} abc",)])))  # type: ignore[arg-type]
    assert error.value.sqlstate == "0A000"


def test_a_server_that_does_not_tell_its_version_counts_as_the_newest() -> None:
    habits = Habits()
    asyncio.run(habits.ask(Scripted(SET=SET, SELECT_version=StatementFailed("no such function"))))  # type: ignore[arg-type]
    assert habits.speaking() == NEWEST
    assert (release_of(""), dialect_of(None)) == (None, NEWEST)


def test_a_server_that_has_lost_its_spark_tells_nothing_about_it() -> None:
    lost = SparkLost("Broken pipe", "08007")
    with pytest.raises(SparkLost):
        asyncio.run(Habits().ask(Scripted(SET=SET, SELECT_version=lost)))  # type: ignore[arg-type]
    with pytest.raises(SparkLost):
        asyncio.run(Habits().greet(Scripted(SET=lost)))  # type: ignore[arg-type]
