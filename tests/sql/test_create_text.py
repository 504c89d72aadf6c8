"""Tests that generated CREATE statements parse back to the same values, and Doris' descriptions of a refresh."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statement_cases import is_user_property

from sql.grammar.parser import parse
from sql.lexed import Lexed
from sql.names import Namespace, quote
from sql.reading.lineage import relations
from sql.statement import (
    Clustering,
    CreateClauses,
    CreateMaterializedView,
    Distribution,
    ListedColumn,
    Method,
    Partitioning,
    Refreshing,
    Schedule,
    Security,
    Trigger,
)
from sql.texts.create_text import create_statement, qualified, recurring_strategy, refresh_info

characters = st.characters(blacklist_categories=["Cs"])
names = st.text(characters, min_size=1, max_size=6)
texts = st.text(characters, max_size=12)
name_lists = st.lists(names, min_size=1, max_size=3, unique_by=str.lower).map(tuple)
numbers = st.integers(1, 999_999)
moments = st.datetimes().map(lambda moment: moment.replace(microsecond=0, fold=0).isoformat(sep=" "))
intervals = st.builds(
    Schedule,
    every=numbers,
    unit=st.sampled_from(["SECOND", "MINUTE", "HOUR", "DAY", "WEEK"]),
    starts=st.none() | moments,
)
crons = st.builds(
    Schedule,
    cron=st.sampled_from(["0 0 5 * * ?", "*/5 * * * MON-FRI", "0 0 0 1 JAN ? 2030"]),
    time_zone=st.none() | st.sampled_from(["UTC", "Europe/Berlin"]),
)
methods = st.none() | st.sampled_from(Method)
refreshings = st.one_of(
    st.builds(Refreshing, methods, st.none() | st.sampled_from([Trigger.MANUAL, Trigger.COMMIT])),
    st.builds(Refreshing, methods, st.just(Trigger.SCHEDULE), intervals | crons),
    st.builds(Refreshing, methods, st.just(Trigger.COMMIT), at_most=st.none() | numbers),
    st.builds(Refreshing, methods, st.just(Trigger.LAG)),
    st.builds(Refreshing, methods, st.just(Trigger.LAG), lag=numbers, at_most=st.none() | numbers),
)
partitionings = st.builds(
    Partitioning, names, st.none() | st.sampled_from(["HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"]), st.booleans()
)
distributions = st.one_of(
    st.builds(Distribution, st.just(()) | name_lists, st.none() | numbers),
    st.builds(Distribution, name_lists, numbers, name_lists),
)
clusterings = st.builds(Clustering, name_lists, st.just(()) | name_lists) | name_lists.map(
    lambda columns: Clustering(columns, columns)
)
keyed = st.tuples(st.just(()), st.just(False)) | st.tuples(name_lists, st.booleans())
known = st.fixed_dictionaries(
    {},
    optional={
        "grace_period": st.sampled_from(["0", "10", "0.5"]),
        "when_stale": st.sampled_from(["REFRESH", "SERVE", "INLINE", "FAIL"]),
        "use_for_rewrite": st.sampled_from(["true", "false"]),
        "in_memory": st.sampled_from(["true", "false"]),
        "max_staleness": st.just('INTERVAL "4:0:0" HOUR TO SECOND'),
        "session.spark.sql.ansi.enabled": texts,
    },
)
free = st.dictionaries(names.filter(is_user_property), texts, max_size=3)


@st.composite
def clauses(draw: st.DrawFn) -> CreateClauses:
    keys, duplicate = draw(keyed)
    return CreateClauses(
        deferred=draw(st.booleans()),
        refreshing=draw(refreshings),
        partitioning=draw(st.none() | partitionings),
        distribution=draw(st.none() | distributions),
        clustering=draw(st.none() | clusterings),
        file_format=draw(st.sampled_from([None, "parquet", "orc"])),
        location=draw(st.none() | texts.filter(str.strip)),
        keys=keys,
        duplicate=duplicate,
        security=draw(st.none() | st.sampled_from(Security)),
    )


@given(
    st.lists(names, min_size=1, max_size=3).map(tuple),
    st.lists(st.builds(ListedColumn, names, st.none() | texts), max_size=3).map(tuple),
    st.none() | texts,
    clauses(),
    known,
    free,
    st.sampled_from(["SELECT ';' AS `a;b` FROM t", "(SELECT 1)", "WITH t AS (SELECT 1) SELECT * FROM t -- x\nLIMIT 1"]),
)
def test_a_generated_create_statement_parses_back(
    name: tuple[str, ...],
    columns: tuple[ListedColumn, ...],
    comment: str | None,
    given_clauses: CreateClauses,
    known: dict[str, str],
    free: dict[str, str],
    query: str,
) -> None:
    properties = {**known, **free}
    text = create_statement(".".join(map(quote, name)), columns, comment, given_clauses, properties, query)
    pairs = tuple(properties.items())
    assert parse(Lexed(text)) == CreateMaterializedView(name, query, columns, comment, pairs, clauses=given_clauses)


def test_each_clause_is_on_its_own_line() -> None:
    given_clauses = CreateClauses(
        deferred=True,
        refreshing=Refreshing(Method.AUTO, Trigger.SCHEDULE, Schedule(cron="0 5 * * *", time_zone="UTC")),
        partitioning=Partitioning("k2", "MONTH", follows=True),
        distribution=Distribution(("a",), 2),
        clustering=Clustering(("a",), ("b",)),
        file_format="orc",
        location="/data",
        keys=("a",),
        duplicate=True,
    )
    text = create_statement(
        "`db`.`mv`",
        [ListedColumn("a", "x"), ListedColumn("b")],
        "it's",
        given_clauses,
        (("k", "v"), ("l", "w")),
        "SELECT 1",
    )
    assert text == (
        "CREATE MATERIALIZED VIEW `db`.`mv` (\n  `a` COMMENT 'x',\n  `b`)\n"
        "BUILD DEFERRED\n"
        "REFRESH AUTO\n"
        "SCHEDULE CRON '0 5 * * *' AT TIME ZONE 'UTC'\n"
        "PARTITION BY (date_trunc(`k2`, 'month'))\n"
        "DISTRIBUTED BY HASH(`a`) BUCKETS 2\n"
        "DISTRIBUTED ON (`a`) SORTED ON (`b`)\n"
        "USING orc\n"
        "LOCATION '/data'\n"
        "DUPLICATE KEY (`a`)\n"
        "COMMENT 'it\\'s'\n"
        "TBLPROPERTIES (\n  'k' = 'v',\n  'l' = 'w')\n"
        "AS SELECT 1"
    )


@pytest.mark.parametrize(
    ("query", "namespace", "expected"),
    [
        (
            "SELECT t.a FROM t JOIN other.u ON t.a = u.a",
            Namespace("my db"),
            "SELECT t.a FROM `my db`.t JOIN other.u ON t.a = u.a",
        ),
        (
            "WITH c AS (SELECT * FROM `t`) SELECT * FROM c, t AS c2",
            Namespace("db"),
            "WITH c AS (SELECT * FROM `db`.`t`) SELECT * FROM c, `db`.t AS c2",
        ),
        ("SELECT * FROM t, d.u, x.d.v", Namespace("db", "ice"), "SELECT * FROM `ice`.`db`.t, `ice`.d.u, x.d.v"),
        ("SELECT 1", Namespace("db"), "SELECT 1"),
    ],
)
def test_unqualified_names_are_qualified(query: str, namespace: Namespace, expected: str) -> None:
    found = relations(Lexed(query))
    assert found.exact
    assert qualified(query, found.reads, namespace) == expected


MANUAL = Refreshing(Method.COMPLETE, Trigger.MANUAL)
EVERY = Refreshing(Method.AUTO, Trigger.SCHEDULE, Schedule(10, "HOUR", "2030-01-31 04:00:00"))
CRON = Refreshing(trigger=Trigger.SCHEDULE, schedule=Schedule(cron="0 5 * * *", time_zone="UTC"))


@pytest.mark.parametrize(
    ("given_clauses", "info", "strategy"),
    [
        (CreateClauses(), "BUILD IMMEDIATE REFRESH AUTO ON MANUAL", "MANUAL TRIGGER"),
        (CreateClauses(True, MANUAL), "BUILD DEFERRED REFRESH COMPLETE ON MANUAL", "MANUAL TRIGGER"),
        (
            CreateClauses(refreshing=Refreshing(trigger=Trigger.COMMIT)),
            "BUILD IMMEDIATE REFRESH AUTO ON COMMIT",
            "MANUAL TRIGGER",
        ),
        (
            CreateClauses(refreshing=EVERY),
            'BUILD IMMEDIATE REFRESH AUTO ON SCHEDULE EVERY 10 HOUR STARTS "2030-01-31 04:00:00"',
            "EVERY 10 HOUR STARTS 2030-01-31 04:00:00",
        ),
        (
            CreateClauses(refreshing=CRON),
            'BUILD IMMEDIATE REFRESH AUTO ON SCHEDULE CRON "0 5 * * *" AT TIME ZONE "UTC"',
            "CRON 0 5 * * * AT TIME ZONE UTC",
        ),
        (
            CreateClauses(refreshing=Refreshing(None, Trigger.LAG, lag=5_400, at_most=60)),
            'BUILD IMMEDIATE REFRESH AUTO TARGET LAG "90 minutes" AT MOST EVERY "1 minute"',
            "TARGET LAG 90 minutes AT MOST EVERY 1 minute",
        ),
        (
            CreateClauses(refreshing=Refreshing(None, Trigger.LAG)),
            "BUILD IMMEDIATE REFRESH AUTO TARGET LAG DOWNSTREAM",
            "TARGET LAG DOWNSTREAM",
        ),
        (
            CreateClauses(refreshing=Refreshing(None, Trigger.COMMIT, at_most=172_800)),
            'BUILD IMMEDIATE REFRESH AUTO ON COMMIT AT MOST EVERY "2 days"',
            "AT MOST EVERY 2 days",
        ),
    ],
)
def test_a_refresh_is_described_as_in_doris(given_clauses: CreateClauses, info: str, strategy: str) -> None:
    assert refresh_info(given_clauses, given_clauses.refreshing.trigger or "MANUAL") == info
    assert recurring_strategy(given_clauses) == strategy
