"""What is asked before a view answers queries that do not name it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from fake_spark import Answer, FakeMetastore, FakePlans, OnePlanPlans
from record_plans import recorded
from views import view_of

from gateway.mv.model.view import MaterializedView, Version
from gateway.mv.ports import OwnerRefused, Plans, SqlSession
from gateway.mv.refresh.habits import TIME_ZONE, Habits
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.proving import Prover, Reader
from gateway.mv.rewriting.readers_rights import RIGHTS_DIFFER, ReadersRights
from gateway.mv.rewriting.refreshers_plans import KEPT_SECONDS, RefreshersPlans
from sql.mentioned import Mentioned
from sql.names import Namespace, TableName
from sql.proof import plan_json
from sql.proof.plan import Plan
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import shape_of

QUERY = "SELECT item, count(*) AS n FROM sales GROUP BY item"
TABLE = TableName("s", "sales")
TYPES: dict[str, str] = {}
"""Of the column of a view, by its quoted name."""


class Session:
    """A session at Spark in which only the time zone is set."""

    def __init__(self, zone: str) -> None:
        self._zone = zone

    async def run(self, sql: str, *, on_start: object = None) -> Answer:
        if sql.startswith("DESCRIBE "):
            return Answer([("item", TYPES.get(sql.rsplit(".", maxsplit=1)[-1], "string"), None)])
        return Answer([(TIME_ZONE, self._zone)])

    def spoil(self) -> None: ...


class OwnSessions:
    """The gateway's own, in which the view's time zone is set. Implements `ports.Sessions`."""

    @asynccontextmanager
    async def session(self, *, fresh: bool = False) -> AsyncIterator[SqlSession]:
        yield Session("UTC")


class NoOwners:
    """Spark knows no owner. Implements `ports.OwnerSessions`."""

    @asynccontextmanager
    async def session(self, owner: str, *, fresh: bool = False) -> AsyncIterator[SqlSession]:
        raise OwnerRefused(owner, "who?")
        yield


class PlansByUser(OnePlanPlans):
    """Ada reads fewer rows than whoever refreshes; a session's name is its user."""

    def __init__(self) -> None:
        known = recorded()
        self.all = plan_json.read(known["SELECT g, sum(x) s FROM t GROUP BY g"])
        filtered = plan_json.read(known["SELECT g, sum(x) s FROM t WHERE x > 0 GROUP BY g"])
        self.of_user = {b"ada": filtered, b"bob": self.all}
        self.below: dict[bytes, Plan] = {}
        """Of the definition of another view."""
        self.asked: list[bytes] = []
        """By the refreshing account: the sessions' names."""

    @asynccontextmanager
    async def of(self, session: SqlSession) -> AsyncIterator[bytes]:
        yield b"refresher"

    async def optimized(self, session: bytes, text: str) -> Plan:
        if session == b"refresher":
            self.asked.append(session)
            return self.all
        return self.below.get(session, self.of_user[session]) if "below" in text else self.of_user[session]


def reader_of(session: SqlSession, user: bytes = b"") -> Reader:
    @asynccontextmanager
    async def twin() -> AsyncIterator[SqlSession]:
        yield session

    return Reader(user, session, user.decode(), twin)


def prover_of(
    plans: Plans, habits: Habits, now: list[float] | None = None, below: Sequence[MaterializedView] = ()
) -> Prover:
    surroundings = Surroundings("pool", habits, FakeMetastore())
    times = now or [0.0]
    refreshers = RefreshersPlans(plans, OwnSessions(), NoOwners(), surroundings, lambda: times[0])
    rights = ReadersRights(plans, refreshers, surroundings, 100.0)
    return Prover(plans, surroundings, refreshers, rights, lambda _: below)


def proposal() -> Proposal:
    bases = {TABLE: ("item", "at")}
    view = RewritableView(TableName("d", "v"), ("item", "n"), ("string", "bigint"), QUERY, Namespace("s"), bases)
    (found,) = propose(QUERY, Namespace("s"), [view], bases.get)
    assert isinstance(found, Proposal)
    return found


@pytest.mark.parametrize(
    ("zone", "reason"), [("Asia/Tokyo", "is Asia/Tokyo in this session, and UTC where"), ("UTC", "There is no plan of")]
)
async def test_a_session_must_read_tables_as_a_refresh_does(zone: str, reason: str) -> None:
    """The plans of both texts are equal in every time zone, but CSV files yield other times in Tokyo."""
    habits = Habits()
    habits.settings = {TIME_ZONE: "UTC"}
    prover = prover_of(FakePlans({}), habits)
    view = replace(view_of(Version.whole(1, 1, 1, {})), settings={TIME_ZONE: "UTC"})
    found = await prover.refutation(reader_of(Session(zone)), shape_of(QUERY), proposal(), [view])
    assert found is not None
    assert reason in found


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"partition_sync_limit": "3", "partition_sync_time_unit": "DAY"}, "only its newest partitions"),
        ({"excluded_trigger_tables": "shops"}, "changes of d.shops do not make the view stale"),
    ],
)
async def test_a_view_whose_fresh_rows_are_not_its_definitions_answers_nothing(
    properties: dict[str, str], reason: str
) -> None:
    prover = prover_of(FakePlans({}), Habits())
    view = replace(view_of(Version.whole(1, 1, 1, {})), properties=properties)
    assert reason in str(await prover.refutation(reader_of(Session("UTC")), shape_of(QUERY), proposal(), [view]))


async def refuted(prover: Prover, user: bytes) -> str | None:
    view = replace(view_of(Version.whole(1, 1, 1, {})), settings={TIME_ZONE: "UTC"})
    return await prover.refutation(reader_of(Session("UTC"), user), shape_of(QUERY), proposal(), [view])


def utc() -> Habits:
    habits = Habits()
    habits.settings = {TIME_ZONE: "UTC"}
    return habits


async def test_a_view_answers_nobody_who_is_shown_other_rows_than_whoever_refreshes_it() -> None:
    """Ada's query and the definition have the same plan: the filter is on both sides."""
    plans = PlansByUser()
    prover = prover_of(plans, utc())
    assert await refuted(prover, b"bob") is None
    assert await refuted(prover, b"ada") == RIGHTS_DIFFER
    assert await refuted(prover, b"bob") is None


async def test_a_view_answers_nobody_from_whom_the_rows_of_a_view_below_are_withheld() -> None:
    """The plan of its own definition only shows the table in which the rows of the view below are stored."""
    below = replace(view_of(Version.whole(1, 1, 1, {})), id="below", definition=TableName("storage", "below"))
    plans = PlansByUser()
    plans.of_user[b"ada"] = plans.all
    plans.below = {b"ada": plan_json.read(recorded()["SELECT g, sum(x) s FROM t WHERE x > 0 GROUP BY g"])}
    prover = prover_of(plans, utc(), below=[below])
    assert await refuted(prover, b"bob") is None
    assert await refuted(prover, b"ada") == RIGHTS_DIFFER


async def test_the_plan_of_whoever_refreshes_is_asked_for_once_in_a_while() -> None:
    plans, now = PlansByUser(), [0.0]
    prover = prover_of(plans, utc(), now)
    for _ in range(3):
        assert await refuted(prover, b"bob") is None
    assert len(plans.asked) == 1
    plans.all = plans.of_user[b"ada"]
    now[0] = KEPT_SECONDS
    assert await refuted(prover, b"bob") == RIGHTS_DIFFER
    assert await refuted(prover, b"ada") is None
    assert len(plans.asked) == 2
    prover.forget(Mentioned(frozenset({"create", "table", "elsewhere"})))
    assert await refuted(prover, b"ada") is None
    assert len(plans.asked) == 2
    prover.forget(Mentioned(frozenset(), anything=True))
    assert await refuted(prover, b"ada") is None
    assert len(plans.asked) == 3


@pytest.mark.parametrize(
    ("defined", "stored", "reason"),
    [
        ("char(5)", "char(5)", None),
        ("char(5)", "string", "the view stores the char(5) of the column item as string"),
        ("char(5)", "char(6)", "the view stores the char(5) of the column item as char(6)"),
        ("array<char(5)>", "array<string>", "the view stores the array<char(5)> of the column item as array<string>"),
        ("varchar(5)", "string", None),
    ],
)
async def test_a_view_that_stores_char_as_something_else_answers_nothing(
    defined: str, stored: str, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`c = 'ab'` compares a CHAR with a padded text, and a STRING with this one."""
    monkeypatch.setitem(TYPES, "`v__definition`", defined)
    monkeypatch.setitem(TYPES, "`v`", stored)
    assert await refuted(prover_of(PlansByUser(), utc()), b"bob") == reason


async def test_the_plan_of_whoever_refreshes_ends_with_the_tables_that_it_reads() -> None:
    plans = PlansByUser()
    prover = prover_of(plans, utc())
    assert await refuted(prover, b"bob") is None
    (table, *_) = view_of(Version.whole(1, 1, 1, {})).tables
    prover.forget(Mentioned(frozenset({"drop", "table", table.table})))
    assert await refuted(prover, b"bob") is None
    assert len(plans.asked) == 2
