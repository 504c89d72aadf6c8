"""What settings of sessions do to rows that the gateway stores, rewrites or remembers, compared with plain Spark.

The suite tries those of CHOSEN, the thorough variants each setting of Spark's with two other values. What settings do
in Spark itself, `tests/spark/test_spark_settings.py` tries.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from clients import pyhive, rows
from oracle.settings_corpus import FAILS, QUERIES, Found, candidates, divided, make, rounds, usable, wrong
from processes import Gateway
from pyhive import hive
from seen_gateway import Seen, told
from setting_lists import listed
from spark_releases import LOCKED
from tiers import EVERYTHING

from sql import spark_settings

VIEWS = {
    "words": "id, s, i, u, l",
    "of_times": "unix_micros(m), n, c",
    "orc_times": "*",
    "numbers": "*",
    "chars": "*",
    "parts": "*",
    "grown": "*",
    "lines": "*",
    "json": "a",
    "structs": "*",
    "lambdas": "*",
    "grouped": "*",
}
"""Queries that are views, and what is read of them: nothing that the reader's time zone prints."""
TEXTS = {
    **QUERIES,
    "words": "SELECT id, s, initcap(s) i, upper(s) u, lower(s) l FROM words",
    "numbers": "SELECT id % 2 g, sum(a) s, min(e * e) ee, max(e / 3) e3, count(a % 7) m FROM numbers GROUP BY id % 2",
    "grouped": "SELECT id % 2 g, count(*) n FROM numbers GROUP BY 1",
    "chars": "SELECT c, v, count(*) n FROM chars WHERE c = 'ab' OR v = 'x' GROUP BY c, v",
    "json": "SELECT id, count(*) a FROM json_rows GROUP BY id",
    "grown": "SELECT id, n FROM grown",
    "structs": "SELECT id, CAST(m AS STRING) ms, CAST(arr AS STRING) ar FROM nested",
    "lambdas": "SELECT id, size(arr) z, exists(arr, x -> x > 1) ex FROM nested",
}
UNPROVED = {"lambdas"}
"""Views that answer no queries that do not name them."""
CHOSEN = {
    "spark.sql.ansi.enabled=false": "numbers",
    "spark.sql.session.timeZone=Asia/Tokyo": "of_times",
    "spark.sql.timestampType=TIMESTAMP_NTZ": "of_times",
    "spark.sql.legacy.timeParserPolicy=LEGACY": "json",
    "spark.sql.decimalOperations.allowPrecisionLoss=false": "numbers",
    "spark.sql.icu.caseMappings.enabled=false": "words",
    "spark.sql.mapKeyDedupPolicy=LAST_WIN": "structs",
    "spark.sql.legacy.sizeOfNull=true": "lambdas",
    "spark.sql.legacy.followThreeValuedLogicInArrayExists=false": "lambdas",
    "spark.sql.legacy.castComplexTypesToString.enabled=true": "structs",
    "spark.sql.readSideCharPadding=false": "chars",
    "spark.sql.parquet.enableVectorizedReader=false": "grown",
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing=true": "grown",
    "spark.sql.orc.filterPushdown=false": "orc_times",
    "spark.sql.hive.manageFilesourcePartitions=false": "parts",
    "spark.sql.sources.partitionColumnTypeInference.enabled=false": "parts",
    "spark.sql.groupByOrdinal=false": "grouped",
    "spark.sql.groupByAliases=false": "grouped",
    "spark.sql.brandNew=true": "parts",
    "textinputformat.record.delimiter=|": "lines",
}
"""Settings that may change rows, each with a query that it may concern."""
HARMLESS = (
    "spark.sql.adaptive.enabled=false",
    "spark.sql.autoBroadcastJoinThreshold=-1",
    f"spark.sql.codegen.wholeStage={'false' if EVERYTHING else 'true'}",
    "spark.sql.parquet.compression.codec=gzip",
    "spark.sql.parquet.outputTimestampType=TIMESTAMP_MILLIS",
    "spark.sql.shuffle.partitions=3",
    "spark.sql.sources.partitionOverwriteMode=DYNAMIC",
    "spark.sql.storeAssignmentPolicy=LEGACY",
)


TABLES = ("words", "times", "orc_times", "numbers", "chars", "parts", "old", "grown", "lines", "json_rows", "nested")
SETTINGS = {name: setting for name, setting in listed()[LOCKED].items() if not setting.static}
UNUSABLE = {"spark.sql.defaultCatalog", "spark.sql.catalog.spark_catalog"} | {
    name for name in SETTINGS if ".analyzer.singlePassResolver." in name
}
"""In another catalog there are no tables, and with the other resolver not even RESET."""
QUOTED = "spark.sql.preserveCharVarcharTypeInfo"
"""With it, Spark's Thrift server puts the values of all CHAR and VARCHAR columns in quotes."""
FAILED = "SQLSTATE"
PLAIN = ("freshgate.rewrite=off", "freshgate.result_cache=off")
"""With these, rows are Spark's own."""
Values = Mapping[str, Sequence[str]]
GROUP = 100
"""How many settings are tried together."""


@pytest.fixture(scope="module")
def gateway(rewriting: Seen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """With the tables and a view of each query."""
    gateway = rewriting.gateway
    with pyhive(gateway.host, gateway.port, user="ada") as ada:
        rows(ada, "CREATE DATABASE each")
        rows(ada, "USE each")
        make(lambda statement: rows(ada, statement), tmp_path_factory.mktemp("each"), TABLES)
        for key in VIEWS:
            # Nobody writes to the tables, so no read need look at them.
            seldom = "PROPERTIES ('probe_interval' = '3600')"
            rows(ada, f"CREATE MATERIALIZED VIEW v_{key} ENABLE QUERY REWRITE {seldom} AS {TEXTS[key]}")
    yield gateway
    with pyhive(gateway.host, gateway.port, user="ada", database="each") as ada:
        for key in VIEWS:
            rows(ada, f"DROP MATERIALIZED VIEW v_{key}")
        rows(ada, "DROP DATABASE each CASCADE")


@pytest.fixture(scope="module")
def of_spark(gateway: Gateway) -> None:
    """A view of Spark's own of each query."""
    with pyhive(gateway.host, gateway.port, user="ada", database="each") as ada:
        for key in VIEWS:
            rows(ada, f"CREATE VIEW s_{key} AS {TEXTS[key]}")


@pytest.fixture(scope="module")
def plain(gateway: Gateway) -> Found:
    """What a session without settings reads of the views, which the gateway remembers then."""
    with session(gateway) as bob:
        for key in VIEWS:
            said = told(bob, f"v_{key}", TEXTS[key])
            assert ("CHOSEN" in said) is (key not in UNPROVED), said
            assert rows(bob, TEXTS[key]), key
        return {key: answer(bob, shown(f"v_{key}", key)) for key in VIEWS}


@contextmanager
def session(gateway: Gateway, settings: Sequence[str] = ()) -> Iterator[Any]:
    """A session of bob's with these settings, as far as Spark accepts them together."""
    with pyhive(gateway.host, gateway.port, user="bob", database="each") as cursor:
        for setting in settings:
            with suppress(hive.OperationalError):
                rows(cursor, f"SET {setting}")
        yield cursor


def shown(view: str, key: str) -> str:
    return f"SELECT {VIEWS[key]} FROM {view}"


def answer(cursor: Any, text: str) -> str:
    """The rows of a query in any order, or the class of its error."""
    try:
        return str(sorted(rows(cursor, text), key=repr))
    except hive.OperationalError as error:
        return f"{FAILED} {error.args[0].status.sqlState}"


def name_of(setting: str) -> str:
    return setting.partition("=")[0]


# --- readers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", CHOSEN)
def test_a_reader_has_the_rows_of_plain_spark(gateway: Gateway, plain: Found, setting: str) -> None:
    """Rewritten and remembered answers are those of the same session without rewriting and memory."""
    key = CHOSEN[setting]
    text, read = TEXTS[key], shown(f"v_{key}", key)
    with session(gateway, [setting]) as odd:
        said = told(odd, f"v_{key}", text)
        assert name_of(setting) in said or key in UNPROVED, said
        found = [answer(odd, each) for each in (text, text, read, read)]
        with session(gateway, [setting]) as alike:
            found += [answer(alike, each) for each in (text, read)]
        for each in PLAIN:
            rows(odd, f"SET {each}")
        of_spark, of_view = answer(odd, text), answer(odd, read)
    assert found == [of_spark, of_spark, of_view, of_view, of_spark, of_view]
    assert of_view == plain[key]


def test_readers_with_harmless_settings_are_answered_from_views(gateway: Gateway, plain: Found) -> None:
    with session(gateway, HARMLESS) as odd, session(gateway, PLAIN) as off:
        for key in ("words", "numbers", "of_times", "parts"):
            assert "CHOSEN" in told(odd, f"v_{key}", TEXTS[key]), key
            assert answer(odd, TEXTS[key]) == answer(off, TEXTS[key]), key


# --- creators ------------------------------------------------------------------------------------------------


def created(gateway: Gateway, settings: Sequence[str], keys: Collection[str]) -> Found:
    """Views of a session with the settings that have other rows than Spark's own views of that session, read with what
    refreshes have of the settings."""
    found = {}
    meaning = [setting for setting in settings if spark_settings.has_meaning(name_of(setting))]
    with session(gateway, settings) as creator, session(gateway, [*meaning, *PLAIN]) as wanted, session(gateway) as bob:
        for key in keys:
            made = answer(creator, f"CREATE VIEW spark_{key} AS {TEXTS[key]}")
            built = answer(creator, f"CREATE MATERIALIZED VIEW own_{key} AS {TEXTS[key]}")
            own, sparks = answer(bob, shown(f"own_{key}", key)), answer(wanted, shown(f"spark_{key}", key))
            if own.startswith(FAILED) and sparks.startswith(FAILED):
                found[key] = f"{FAILS}{built} {made}"
            elif own != sparks:
                found[key] = f"{built} {own} instead of {made} {sparks}"
            rows(bob, f"DROP MATERIALIZED VIEW IF EXISTS own_{key}")
            rows(bob, f"DROP VIEW IF EXISTS spark_{key}")
    return found


def test_the_views_of_a_creator_have_the_rows_of_sparks_own(gateway: Gateway) -> None:
    found = created(gateway, [*CHOSEN, *HARMLESS], VIEWS)
    assert wrong({"together": found}) == {}


# --- each setting --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def values(gateway: Gateway) -> dict[str, list[str]]:
    """At most two other values of each setting that Spark accepts, as NAME=VALUE."""
    accepted: dict[str, list[str]] = {}
    rest = sorted(SETTINGS.keys() - UNUSABLE)
    while rest:
        with session(gateway) as trying, suppress(hive.OperationalError):
            while rest:
                name = rest.pop()
                accepted[name] = []
                # Spark's Thrift server and the gateway begin sessions with values of their own.
                for value in candidates(name, str(rows(trying, f"SET {name}")[0][1])):
                    with suppress(hive.OperationalError):
                        rows(trying, f"SET {name}={value}")
                        accepted[name].append(f"{name}={value}")
                    if len(accepted[name]) == 2:
                        break
                # If this fails, the setting has spoilt the session.
                rows(trying, f"RESET {name}")
    return accepted


def others(values: Values, names: Iterable[str]) -> Iterator[list[str]]:
    """Other values of these settings, in sets that are tried together."""
    for each in rounds([values[name] for name in sorted(names)]):
        yield from (each[first : first + GROUP] for first in range(0, len(each), GROUP))


def fails(gateway: Gateway, text: str, settings: Sequence[str]) -> bool:
    with session(gateway, settings) as cursor:
        return answer(cursor, text).startswith(FAILED)


@pytest.mark.thorough
def test_each_harmless_setting_leaves_answers_to_views(gateway: Gateway, plain: Found, values: Values) -> None:
    def changed(settings: Sequence[str], keys: Collection[str]) -> Found:
        found = {}
        with session(gateway, settings) as odd, session(gateway, PLAIN) as off:
            for key in keys:
                said, own = told(odd, f"v_{key}", TEXTS[key]), answer(odd, TEXTS[key])
                if ("CHOSEN" not in said and key not in UNPROVED) or own != answer(off, TEXTS[key]):
                    found[key] = f"{said} {own}"
        return found

    guilty: dict[str, Found] = {}
    for settings in others(values, filter(spark_settings.is_harmless, values)):
        guilty |= divided(settings, changed, VIEWS)
    assert guilty == {}


@pytest.mark.thorough
def test_each_other_setting_makes_a_session_different(gateway: Gateway, plain: Found, values: Values) -> None:
    odd = {}
    for settings in others(values, {name for name in values if not spark_settings.is_harmless(name)}):
        for setting in settings:
            with session(gateway, [setting]) as reader:
                try:
                    said = told(reader, "v_parts", TEXTS["parts"])
                except hive.OperationalError:
                    said = name_of(setting) if answer(reader, TEXTS["parts"]).startswith(FAILED) else "an error"
                # What hides other settings makes these different.
                if name_of(setting) not in said and " in this session, and " not in said:
                    odd[setting] = said
        print(f"  {len(settings)} values, odd: {odd}", file=sys.stderr, flush=True)
    assert odd == {}


@pytest.mark.thorough
@pytest.mark.usefixtures("of_spark")
def test_no_setting_of_a_reader_changes_what_a_view_shows(gateway: Gateway, plain: Found, values: Values) -> None:
    def changed(settings: Sequence[str], keys: Collection[str]) -> Found:
        with session(gateway, settings) as reader:
            found = {}
            for key in keys:
                if (own := answer(reader, shown(f"v_{key}", key))) == plain[key]:
                    continue
                sparks = answer(reader, shown(f"s_{key}", key))
                both_fail = own.startswith(FAILED) and sparks.startswith(FAILED)
                found[key] = f"{FAILS if both_fail else ''}{own}"
        return found

    with session(gateway, [f"{QUOTED}=true"]) as reader:
        own, of_table = (answer(reader, text) for text in (shown("v_chars", "chars"), "SELECT c FROM chars"))
        assert own == answer(reader, shown("s_chars", "chars"))
        assert '"ab   "' in own
        assert '"ab   "' in of_table
    guilty: dict[str, Found] = {}
    for settings in others(values, values.keys() - {QUOTED}):
        good, _ = usable(settings, partial(fails, gateway, "SELECT id FROM words"))
        for each in good:
            guilty |= wrong(divided(each, changed, VIEWS))
    assert guilty == {}


@pytest.mark.thorough
def test_each_setting_of_a_creator(gateway: Gateway, values: Values) -> None:
    guilty: dict[str, Found] = {}
    for settings in others(values, values):
        good, _ = usable(settings, partial(fails, gateway, "CREATE OR REPLACE VIEW simplest AS SELECT id FROM words"))
        for each in good:
            guilty |= wrong(divided(each, partial(created, gateway), VIEWS))
    assert guilty == {}
