"""What is asked before a view answers queries that do not name it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import Answer, FakeMetastore, FakePlans
from views import view_of

from gateway.mv.model.view import Version
from gateway.mv.refresh.habits import TIME_ZONE, Habits
from gateway.mv.refresh.surroundings import Surroundings
from gateway.mv.rewriting.proving import Prover
from sql.names import Namespace, TableName
from sql.rewriting.candidate import RewritableView
from sql.rewriting.matching import Proposal, propose
from sql.rewriting.shape import shape_of

QUERY = "SELECT item, count(*) AS n FROM sales GROUP BY item"
TABLE = TableName("s", "sales")


class Session:
    """A session at Spark in which only the time zone is set."""

    def __init__(self, zone: str) -> None:
        self._zone = zone

    async def run(self, sql: str, *, on_start: object = None) -> Answer:
        return Answer([(TIME_ZONE, self._zone)])

    def spoil(self) -> None: ...


def proposal() -> Proposal:
    bases = {TABLE: ("item", "at")}
    view = RewritableView(TableName("s", "m"), ("item", "n"), ("string", "bigint"), QUERY, Namespace("s"), bases)
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
    prover = Prover(FakePlans({}), Surroundings("pool", habits, FakeMetastore()))
    view = replace(view_of(Version.whole(1, 1, 1, {})), settings={TIME_ZONE: "UTC"})
    found = await prover.refutation(b"", Session(zone), shape_of(QUERY), proposal(), view)
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
    prover = Prover(FakePlans({}), Surroundings("pool", Habits(), FakeMetastore()))
    view = replace(view_of(Version.whole(1, 1, 1, {})), properties=properties)
    assert reason in str(await prover.refutation(b"", Session("UTC"), shape_of(QUERY), proposal(), view))
