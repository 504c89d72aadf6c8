"""Tests that another user cannot drop, change or hide a materialized view in any known way."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from clients import pyhive, rows
from composed_targets import COMMANDS, READS, UNREAD_COMMANDS, Attempt, Attempts
from databases import REFLECT, Database, make_database
from processes import Gateway, wait_until
from pyhive.exc import OperationalError
from raw_session import RawSession, decoded, texts
from tiers import EVERYTHING, sampled

from gateway.service.clients.session import DATABASE_KEY

ATTEMPTS = int(os.environ.get("FRESHGATE_ATTEMPTS", "800" if EVERYTHING else "16"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
RIGHT = [(1,)]
NOT_ALLOWED, NOT_OWNER = "42809", "42501"
"""SQLSTATEs: of a statement that nobody may run on a view, and of one that only its owner may run."""


@dataclass(frozen=True)
class Target:
    """ada's view mv, which counts the one row of t."""

    database: Database
    location: str
    """The location of the storage database."""

    @property
    def name(self) -> str:
        return self.database.name

    def read(self) -> list[tuple[Any, ...]]:
        """Returns the rows that bob sees."""
        with pyhive(self.database.gateway.host, self.database.gateway.port, user="bob") as bob:
            return rows(bob, f"SELECT n FROM {self.name}.mv")


@pytest.fixture(scope="module")
def target(gateway: Gateway) -> Iterator[Target]:
    for database in make_database(gateway, "intruded"):
        with pyhive(gateway.host, gateway.port, user="ada", database=database.name) as ada:
            for statement in (
                "CREATE TABLE t (a INT) USING parquet",
                "INSERT INTO t VALUES (1)",
                "CREATE MATERIALIZED VIEW mv COMMENT 'the number' AS SELECT count(*) AS n FROM t",
            ):
                rows(ada, statement)
            described = dict(row[:2] for row in rows(ada, "DESCRIBE DATABASE EXTENDED freshgate_storage"))
        yield Target(database, described["Location"])
        with pyhive(gateway.host, gateway.port, user="ada") as ada:
            rows(ada, f"DROP MATERIALIZED VIEW {database.name}.mv")


def attempt(cursor: Any, *statements: str) -> list[str]:
    """Runs all statements and returns the SQLSTATEs of the failed ones."""
    states = []
    for statement in statements:
        try:
            rows(cursor, statement)
        except OperationalError as error:
            states.append(str(error.args[0].status.sqlState))
    return states


def refusal_of(attack: str) -> str:
    """Returns the SQLSTATE of the refusal. The gateway runs DROP VIEW, for the view's owner."""
    return NOT_OWNER if attack.startswith("DROP") else NOT_ALLOWED


REPLACED = "SELECT 666L AS n"
DISGUISED = [
    ("CREATE GLOBAL TEMPORARY VIEW mv AS SELECT 1 x", "DROP VIEW global_temp.mv"),
    (f"CREATE TEMPORARY FUNCTION mv AS '{REFLECT}'", "DROP TEMPORARY FUNCTION mv"),
    ("CREATE TEMPORARY FUNCTION mv() RETURNS INT RETURN 1", "DROP TEMPORARY FUNCTION mv"),
]


@pytest.mark.parametrize("attack", ["DROP VIEW mv", f"ALTER VIEW mv AS {REPLACED}"])
@pytest.mark.parametrize(("disguise", "after"), DISGUISED)
def test_other_temporary_objects_of_its_name_do_not_hide_it(
    target: Target, disguise: str, after: str, attack: str
) -> None:
    gateway = target.database.gateway
    with pyhive(gateway.host, gateway.port, user="mallory", database=target.name) as mallory:
        assert attempt(mallory, disguise, attack, after) == [refusal_of(attack)]
    assert target.read() == RIGHT


@pytest.mark.parametrize("attack", ["DROP VIEW mv", f"ALTER VIEW mv AS {REPLACED}"])
def test_names_differ_by_case_if_the_session_is_case_sensitive(target: Target, attack: str) -> None:
    gateway = target.database.gateway
    with pyhive(gateway.host, gateway.port, user="mallory", database=target.name) as mallory:
        states = attempt(
            mallory,
            "SET spark.sql.caseSensitive=true",
            "CREATE TEMPORARY VIEW MV AS SELECT 1 x",
            attack,
            "DROP VIEW MV",
            "SET spark.sql.caseSensitive=false",
        )
        assert states == [refusal_of(attack)]
    assert target.read() == RIGHT


def test_a_temporary_view_of_its_name_belongs_to_its_session(target: Target) -> None:
    gateway = target.database.gateway
    with pyhive(gateway.host, gateway.port, user="mallory", database=target.name) as mallory:
        rows(mallory, "CREATE TEMPORARY VIEW mv AS SELECT 1 AS x")
        rows(mallory, "ALTER VIEW mv AS SELECT 2 AS x")
        assert rows(mallory, "SELECT x FROM mv") == [(2,)]
        rows(mallory, "DROP VIEW mv")
        assert rows(mallory, "SELECT n FROM mv") == RIGHT
        assert attempt(mallory, "DROP VIEW mv") == [NOT_OWNER]
    assert target.read() == RIGHT


MOVES = [
    "USE {}",
    r"EXECUTE IMMEDIATE 'U\SE {}'",
    "u\u017fe {}",
    "/* /*+ */ USE {} -- */",
    "EXECUTE IMMEDIATE 'US' 'E {}'",
]


@pytest.mark.parametrize("move", MOVES)
def test_it_is_protected_from_a_session_that_uses_its_database(target: Target, move: str) -> None:
    gateway = target.database.gateway
    with pyhive(gateway.host, gateway.port, user="mallory") as mallory:
        attempt(mallory, move.format(target.name))
        attempt(mallory, f"ALTER VIEW mv AS {REPLACED}", "DROP VIEW mv")
    assert target.read() == RIGHT


BEGINNINGS = ["`{}`", "NAMESPACE {}"]


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_it_is_protected_from_a_session_that_starts_in_its_database(target: Target, beginning: str) -> None:
    """Spark appends the database of OpenSession to USE, whatever it contains."""
    gateway = target.database.gateway
    with RawSession(gateway, configuration={DATABASE_KEY: beginning.format(target.name)}) as mallory:

        def shown(sql: str) -> list[tuple[str, ...]]:
            return texts(mallory.fetch(mallory.execute(sql)))

        def refused(sql: str) -> str:
            return str(decoded(mallory.list("ExecuteStatement", sql, {}, False, None)).status.sqlState)

        for attack in ("DROP VIEW mv", f"ALTER VIEW mv AS {REPLACED}"):
            assert refused(attack) == refusal_of(attack)
        assert shown("SELECT current_database()") == [(target.name,)]
        # The gateway resolves unqualified names in it: a write makes the view over the table stale.
        for statement in (
            "CREATE TABLE own (a INT) USING parquet",
            "CREATE MATERIALIZED VIEW of_own AS SELECT CAST(count(*) AS STRING) AS n FROM own",
            "INSERT INTO own VALUES (1)",
        ):
            mallory.execute(statement)
        assert shown("SELECT n FROM of_own") == [("1",)]
        for statement in ("DROP MATERIALIZED VIEW of_own", "DROP TABLE own"):
            mallory.execute(statement)
    assert target.read() == RIGHT


@pytest.mark.parametrize("move", MOVES[:2])
def test_it_is_protected_although_nobody_polls_an_asynchronous_use(target: Target, move: str) -> None:
    with RawSession(target.database.gateway) as mallory:
        mallory.execute(move.format(target.name), run_async=True)
        for attack in (f"ALTER VIEW mv AS {REPLACED}", "DROP VIEW mv"):
            with contextlib.suppress(AssertionError):
                mallory.wait(mallory.execute(attack, run_async=True))
    assert target.read() == RIGHT


ATTACKS = [
    r"EXECUTE IMMEDIATE 'D\ROP \VIEW {}.mv'",
    r"EXECUTE IMMEDIATE '\104ROP VIEW {}.m\166'",
    "EXECUTE IMMEDIATE 'DROP VI' 'EW {}.m' 'v'",
    "EXECUTE IMMEDIATE 'DR' || 'OP VIEW {}.m' || 'v'",
    "EXECUTE IMMEDIATE 'ALTER VI' || 'EW {}.mv AS SELECT 666L AS n'",
    "EXECUTE IMMEDIATE 'ALTER VI' || 'EW {}.mv RENAME TO {}.mw'",
    "EXECUTE IMMEDIATE 'ALTER VI' || 'EW {}.mv SET TBLPROPERTIES (''comment'' = ''a lie'')'",
    "BEGIN DECLARE stroke STRING DEFAULT 'DROP V' || 'IEW {}.mv'; EXECUTE IMMEDIATE stroke; END",
    "BEGIN DECLARE a STRING DEFAULT 'DROP V' || 'IEW {0}.mv'; DECLARE b STRING DEFAULT 'CREATE V' || 'IEW {0}.mv AS "
    "SELECT 666L n'; EXECUTE IMMEDIATE a; EXECUTE IMMEDIATE b; END",
    "/* /*+ */ DROP VIEW {}.mv -- */",
    "d\u0072op v\u0131ew {}.mv",
    "DROP VIEW spark_catalog.{}.mv",
    "DROP DATABASE IDENTIFIER('{}') CASCADE",
    "DROP NAMESPACE spark_catalog.{} CASCADE",
    "EXECUTE IMMEDIATE 'DROP SCHEMA {} CASCADE'",
    "ALTER TABLE {}.mv SET TBLPROPERTIES ('a' = 'b')",
    "ALTER DATABASE freshgate_storage SET LOCATION '/tmp/elsewhere'",
]


@pytest.mark.parametrize("attack", sampled(ATTACKS, set(ATTACKS[::2])))
def test_no_obfuscated_statement_drops_or_changes_it(target: Target, attack: str) -> None:
    text = attack.format(target.name, target.name)
    with RawSession(target.database.gateway) as mallory:
        with contextlib.suppress(AssertionError):  # refused
            mallory.wait(mallory.execute(text))
        assert target.read() == RIGHT
    wait_until(lambda: target.read() == RIGHT)
    with pyhive(target.database.gateway.host, target.database.gateway.port, user="bob") as bob:
        views = {row[1] for row in rows(bob, f"SHOW VIEWS IN {target.name}")}
        assert views == {"mv"}
        comment = dict(row[:2] for row in rows(bob, f"DESCRIBE TABLE EXTENDED spark_catalog.{target.name}.mv"))
    assert comment.get("Comment", "the number") == "the number"


# --- targets that are put together -------------------------------------------------------------------------


def outcome(target: Target, made: Attempt) -> str:
    """Runs an attempt in a session of its own. Returns the message of the error, or nothing."""
    gateway = target.database.gateway
    with pyhive(gateway.host, gateway.port, user="mallory") as mallory:
        for statement in made.prelude:
            rows(mallory, statement)
        try:
            rows(mallory, made.text)
        except OperationalError as error:
            return str(error.args[0].status.errorMessage)
    return ""


def stored(target: Target) -> list[Any]:
    """What is stored for the view, and the rows of its definition."""
    with pyhive(target.database.gateway.host, target.database.gateway.port, user="bob") as bob:
        listed = rows(bob, f"SHOW TABLES IN freshgate_storage LIKE '{target.name}__mv__*'")
        table = min(row[1] for row in listed)
        return [
            listed,
            table,
            rows(bob, f"SELECT * FROM freshgate_storage.{table}"),
            rows(bob, f"SHOW TBLPROPERTIES freshgate_storage.{table}"),
            rows(bob, f"SELECT n FROM {target.name}.mv") == rows(bob, f"SELECT count(*) FROM {target.name}.t"),
        ]


def test_no_target_that_is_put_together_is_its_rows(target: Target) -> None:
    before = stored(target)
    attempts = Attempts(SEED, "freshgate_storage", before[1], [*COMMANDS, *UNREAD_COMMANDS])
    for made in islice(attempts, ATTEMPTS):
        message = outcome(target, made)
        assert "materialized view" in message, (made, message)
    assert stored(target) == before


def test_other_targets_that_are_put_together_are_reached(target: Target) -> None:
    with pyhive(target.database.gateway.host, target.database.gateway.port, user="ada") as ada:
        for made in islice(Attempts(SEED, target.name, "other"), ATTEMPTS):
            rows(ada, f"CREATE TABLE IF NOT EXISTS {target.name}.other (n BIGINT) USING parquet")
            message = outcome(target, made)
            assert not made.told or "materialized view" not in message, (made, message)
        rows(ada, f"DROP TABLE IF EXISTS {target.name}.other")
    assert target.read() == RIGHT


def test_what_reads_or_names_its_targets_runs(target: Target) -> None:
    with pyhive(target.database.gateway.host, target.database.gateway.port, user="ada") as ada:
        rows(ada, f"CREATE TABLE {target.name}.others (n BIGINT) USING parquet")
        for text in READS:
            made = Attempt(text.format(f"'{target.name}.' || 'others'", f"{target.name}.others"))
            assert outcome(target, made) == "", made
        assert rows(ada, f"SELECT count(*) FROM {target.name}.others WHERE n = 5") != [(0,)]
