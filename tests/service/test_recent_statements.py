"""freshgate.statements, freshgate.reads, and who made a view stale."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fakes import Site

from gateway.mv.model.read_counts import DAY_MS, DAYS_MAX, USERS_MAX, How, ReadCounts
from gateway.service.clients.audit import TEXT_CHARACTERS_MAX
from gateway.service.clients.reads_of_views import ReadsOfViews
from gateway.service.clients.recent_statements import EndedStatement, RecentStatements
from gateway.service.routing.writes import WRITER_CHARACTERS_MAX
from sql.names import TableName

ENDED = EndedStatement(
    number=1,
    user="ada",
    account="",
    peer="10.0.0.1:5",
    session="s",
    began=1_000,
    took_ms=10,
    waited_ms=4,
    taken_for="read",
    outcome="succeeded",
    sqlstate="",
    error="",
    views=frozenset(),
    refreshed=(),
    answered_from=(),
    why_not="",
    from_memory=False,
    characters=8,
    text="SELECT 1",
)


async def rows_of(site: Site, user: str, table: str, columns: str = "*") -> list[str]:
    """The rows of a table that a user sees, as SQL."""
    client = await site.client(user)
    await client.execute(f"SELECT {columns} FROM freshgate.{table}")
    found = site.spark.texts[-1]
    return [] if "WHERE FALSE" in found else found.partition("VALUES (")[2].rpartition(") AS t(")[0].split("), (")


async def stage() -> Site:
    site = Site()
    site.table("s.sales")
    await site.view("s.daily", "SELECT n FROM s.sales")
    return site


async def ran(site: Site, user: str, text: str) -> None:
    executed = await (await site.client(user)).execute(text)
    await executed.poll()


# --- statements ----------------------------------------------------------------------------------------------------


async def test_a_statement_is_listed_with_what_it_reads() -> None:
    site = await stage()
    await ran(site, "bob", "SELECT n FROM s.daily")
    (row,) = [each for each in await rows_of(site, "bob", "statements") if "FROM s.daily" in each]
    assert "'bob'" in row
    assert "'read', 'succeeded'" in row
    assert row.endswith("'s.daily', NULL, NULL, NULL, 'SELECT n FROM s.daily'")


async def test_users_see_their_own_statements_and_administrators_all() -> None:
    site = await stage()
    await ran(site, "bob", "SELECT n FROM s.daily")
    assert not [each for each in await rows_of(site, "ada", "statements") if "s.daily" in each]
    assert [each for each in await rows_of(site, "root", "statements") if "s.daily" in each]


async def test_secrets_are_redacted() -> None:
    site = await stage()
    await ran(site, "bob", "SELECT n FROM s.daily WHERE password = 'hunter2'")
    shown = "".join(await rows_of(site, "bob", "statements"))
    assert "hunter2" not in shown
    assert "***" in shown


async def test_a_refused_statement_is_listed_with_its_error() -> None:
    site = await stage()
    await (await site.client("bob")).execute("DROP TABLE s.daily")
    (row,) = [each for each in await rows_of(site, "bob", "statements") if "DROP TABLE" in each]
    assert "'refused', 'refused'" in row


def test_the_number_and_size_of_kept_statements_are_bounded() -> None:
    recent = RecentStatements(most=3, characters=100)
    for number in range(5):
        recent.add(replace(ENDED, number=number))
    assert [each.number for each in recent] == [4, 3, 2]
    recent.add(replace(ENDED, number=5, text="x" * 90))
    assert [each.number for each in recent] == [5, 4]
    recent.add(replace(ENDED, number=6, text="x" * 101))
    assert list(recent) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("SELECT * FROM freshgate.gateway", False),
        ("SELECT name, unix_millis(since) AS since FROM freshgate.attention WHERE database_name = 's'", False),
        ("SELECT * FROM tasks(\"type\"=\"mv\") WHERE Status IN ('RUNNING', 'PENDING')", False),
        ("SELECT * FROM freshgate.statements LIMIT 200", False),
        ("SHOW GATEWAYS", False),
        ("SELECT 1", True),
        ("SELECT * FROM freshgate.reads, s.daily", True),
        ("SELECT * FROM freshgate.reads r JOIN s.daily", True),
        ("SELECT * FROM freshgate.reads WHERE name IN (SELECT n FROM s.daily)", True),
        ("SELECT * FROM freshgate_other.reads", True),
        ("SHOW TABLES", True),
    ],
)
def test_looks_at_the_gateway_displace_no_statements(text: str, kept: bool) -> None:
    recent = RecentStatements()
    recent.add(replace(ENDED, text=text, characters=len(text)))
    assert [each.text for each in recent] == ([text] if kept else [])
    # A failure is worth to be seen.
    recent.add(replace(ENDED, text=text, characters=len(text), outcome="failed"))
    assert next(iter(recent)).outcome == "failed"


async def test_long_texts_are_cut() -> None:
    site = await stage()
    await ran(site, "bob", f"SELECT '{'x' * 3_000}' FROM s.daily")
    longest = max(len(each.text) for each in site.service.audit.recent)
    assert longest == TEXT_CHARACTERS_MAX


# --- reads ---------------------------------------------------------------------------------------------------------


async def test_reads_are_counted_by_view_and_user() -> None:
    site = await stage()
    for user in ("bob", "eve", "bob"):
        await ran(site, user, "SELECT n FROM s.daily")
    (row,) = await rows_of(site, "root", "reads")
    assert re.fullmatch(r"'s', 'daily', 'ada', 3, 0, 0, 0, 3, 3, .*, 2, 'bob, eve'", row), row
    (row,) = await rows_of(site, "bob", "reads")
    assert row.endswith(", 2, NULL")


async def test_a_failed_read_is_none() -> None:
    site = await stage()
    reads, entry = ReadsOfViews(site.catalog), site.entry("s.daily")
    named = replace(ENDED, views=frozenset({entry.view.name}))
    reads.count(replace(named, outcome="failed"))
    assert sum(entry.reads.counts.values()) == 0
    reads.count(named)
    assert entry.reads.counts[How.NAMED] == 1


async def test_reads_are_told_apart_by_how_they_were_answered() -> None:
    site = await stage()
    reads, entry = ReadsOfViews(site.catalog), site.entry("s.daily")
    named = replace(ENDED, views=frozenset({entry.view.name, TableName("s", "gone")}), refreshed=(entry.view.name,))
    reads.count(named)
    reads.count(replace(ENDED, answered_from=(entry.view.id,)))
    reads.count(replace(ENDED, answered_from=(entry.view.id,), from_memory=True))
    reads.count(replace(ENDED, answered_from=("gone",)))
    assert entry.reads.counts == {How.NAMED: 1, How.REWRITTEN: 1, How.MEMORY: 1}
    assert entry.reads.waited_ms == 4


def test_days_and_users_are_bounded_and_stored() -> None:
    reads = ReadCounts()
    assert reads.unsaved() == {}
    for number in range(100):
        reads.count(How.NAMED, f"user{number}", number * DAY_MS, 0)
    assert list(reads.days) == list(range(100 - DAYS_MAX, 100))
    assert list(reads.users) == [f"user{number}" for number in range(100 - USERS_MAX, 100)]
    assert reads.since(93) == 7
    written = reads.unsaved()
    again = ReadCounts.of_stored(written)
    assert (again.days, again.last_at) == (reads.days, 99 * DAY_MS)
    reads.count(How.NAMED, "eve", 99 * DAY_MS, 0)
    reads.saved(written)
    assert reads.unsaved() != {}
    reads.saved(reads.unsaved())
    assert reads.unsaved() == {}


@pytest.mark.parametrize("damaged", ["x6162", "12", "x5b31", "x5b312c5b5b312c225d5d5d"])
def test_damaged_counts_are_ignored(damaged: str) -> None:
    assert ReadCounts.of_stored({"freshgate.reads": damaged}) == ReadCounts()


# --- who made it stale ---------------------------------------------------------------------------------------------


async def test_the_first_writer_since_the_refresh_is_known() -> None:
    site = await stage()
    await ran(site, "eve", f"INSERT INTO s.sales SELECT '{'x' * 1000}'")
    await ran(site, "bob", "INSERT INTO s.sales SELECT 2")
    staleness = site.catalog.staleness(site.entry("s.daily").view.id)
    assert staleness is not None
    assert staleness.writer is not None
    assert (staleness.writer.user, staleness.writer.text[:21]) == ("eve", "INSERT INTO s.sales S")
    assert len(staleness.writer.text) == WRITER_CHARACTERS_MAX
