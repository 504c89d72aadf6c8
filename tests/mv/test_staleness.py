"""Views on views: what the lowest of them miss, all above them miss, and nobody asks a view twice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from views import SALES, given, view_of

from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.entry import CAUGHT_UP_MAX
from gateway.mv.freshness.inquiry import REASON_CHARACTERS_MAX
from gateway.mv.freshness.ledger import Ledger
from gateway.mv.model.view import Freshness, Version
from sql.names import TableName
from sql.statement import CreateClauses, Refreshing, Trigger

LAYERS = 12
SINCE = 1_700_000_000_000


@dataclass(slots=True)
class Counted(Ledger):
    """Tells how often it was asked."""

    asked: int = 0

    @property
    def stale(self) -> bool:
        self.asked += 1
        return self.ended > self.contains


class Free:
    """A fence that nobody else has taken."""

    lost: str | None = None


class Ladder:
    """Layers of two views, each of which reads both below it: 2 to the power of LAYERS ways lead down from the top."""

    def __init__(self, layers: int = LAYERS, sides: str = "ab") -> None:
        self.catalog = Catalog("s", cast(Any, Free()), lambda: SINCE)
        below: list[str] = []
        for layer in range(layers):
            ids = [f"v{layer}{side}" for side in sides]
            for view_id in ids:
                self.add(view_id, below)
            below = ids
        self.top = below[0]

    def add(self, view_id: str, below: list[str]) -> None:
        view = replace(
            view_of(Version.whole(1, 0, 0, dict.fromkeys(below, 1))),
            id=view_id,
            name=TableName("d", view_id),
            tables=frozenset() if below else frozenset({SALES}),
            views=frozenset(below),
            view_names={base: TableName("d", base) for base in below},
        )
        entry = self.catalog.reserve(view)
        entry.ledger = Counted()  # type: ignore[misc]
        self.catalog.show(entry)

    def most_asked(self) -> int:
        ledgers = [self.catalog.entry(view.id).ledger for view in self.catalog.views()]
        return max(ledger.asked for ledger in ledgers if isinstance(ledger, Counted))


def test_each_view_is_asked_once() -> None:
    ladder = Ladder()
    assert not ladder.catalog.is_stale(ladder.top)
    assert ladder.most_asked() == 1
    assert ladder.catalog.staleness(ladder.top) is None
    assert ladder.most_asked() == 2


@pytest.mark.parametrize("side", "ab")
def test_what_the_lowest_misses_the_highest_misses(side: str) -> None:
    ladder = Ladder()
    ladder.catalog.entry(f"v0{side}").ledger.touch(SINCE, frozenset({SALES}))
    assert ladder.catalog.is_stale(ladder.top)
    staleness = ladder.catalog.staleness(ladder.top)
    assert staleness is not None
    assert staleness.since == SINCE
    assert staleness.reason.startswith(f"the materialized view d.v{LAYERS - 2}a is stale: ")
    assert staleness.reason.endswith(f"the materialized view d.v0{side} is stale: {SALES} has changed")
    # What was found holds for one question.
    ladder.catalog.entry(f"v0{side}").ledger.publish(1)
    assert not ladder.catalog.is_stale(ladder.top)


def test_thousands_of_views_below_each_other() -> None:
    chain = Ladder(layers=3_000, sides="a")
    lowest, top = chain.catalog.entry("v0a"), chain.catalog.entry(chain.top)
    assert chain.catalog.staleness(chain.top) is None
    assert chain.catalog.freshness(chain.top) is Freshness.FRESH
    lowest.ledger.touch(SINCE, frozenset({SALES}))
    assert chain.catalog.is_stale(chain.top)
    staleness = chain.catalog.staleness(chain.top)
    assert staleness is not None
    assert staleness.reason.startswith("the materialized view d.v2998a is stale: ")
    assert staleness.reason.endswith(f": the materialized view d.v0a is stale: {SALES} has changed")
    assert len(staleness.reason) < 2 * REASON_CHARACTERS_MAX
    assert len(chain.catalog.reads(top.view.id)) == 3_000
    given(lowest, views=frozenset({chain.top}), view_names={chain.top: top.view.name})
    assert chain.catalog.is_stale(chain.top)
    assert chain.catalog.staleness(chain.top) is not None


@pytest.mark.parametrize("grace", ["0", "60"])
def test_a_change_from_before_the_clock_was_set_back_is_not_tolerated(grace: str) -> None:
    ladder = Ladder()
    lowest = ladder.catalog.entry("v0a")
    given(lowest, properties={"grace_period": grace})
    lowest.ledger.touch(SINCE + 1_000, frozenset({SALES}))
    staleness = ladder.catalog.staleness("v0a")
    assert staleness is not None
    assert not ladder.catalog.is_tolerated("v0a", staleness)
    assert ladder.catalog.is_tolerated("v0a", replace(staleness, since=SINCE)) == (grace == "60")


def test_a_view_that_came_to_read_itself_is_stale() -> None:
    ladder = Ladder()
    lowest = ladder.catalog.entry("v0a")
    current = replace(lowest.view.current, views={ladder.top: 1})
    names = {ladder.top: TableName("d", ladder.top)}
    given(lowest, views=frozenset({ladder.top}), view_names=names, current=current)
    for view_id in (ladder.top, "v0a", "v3b"):
        assert ladder.catalog.is_stale(view_id)
        assert ladder.catalog.staleness(view_id) is not None
    assert not ladder.catalog.is_stale("v0b")


def test_a_view_counts_as_stale_since_the_first_change_that_it_misses() -> None:
    """Not since its own last refresh, which may be long ago, when the view below it is refreshed."""
    ladder = Ladder(2, "a")
    low, top = ladder.catalog.entry("v0a"), ladder.catalog.entry("v1a")
    given(top, current=replace(top.view.current, started_at=5))
    low._catch_up(1, SINCE)
    low._catch_up(2, SINCE + 1)
    given(low, current=Version.whole(3, 0, 0, {}))
    staleness = ladder.catalog.staleness("v1a")
    assert staleness is not None
    assert (staleness.since, staleness.reason) == (SINCE, "the materialized view d.v0a was refreshed")
    # It has read a version of before the start, of which nothing is known.
    given(top, current=replace(top.view.current, views={"v0a": 0}))
    staleness = ladder.catalog.staleness("v1a")
    assert staleness is not None
    assert staleness.since == 5


def test_old_versions_are_forgotten() -> None:
    low = Ladder(1, "a").catalog.entry("v0a")
    for number in range(1, 3 * CAUGHT_UP_MAX):
        low._catch_up(number, SINCE)
    assert (low.missed_since(1), low.missed_since(3 * CAUGHT_UP_MAX - 1)) == (None, SINCE)
    assert len(low._caught_up) == CAUGHT_UP_MAX
    low._catch_up(5, 0)
    assert low.missed_since(5) is None


@pytest.mark.parametrize(
    ("above", "below", "awaits"),
    [
        (Refreshing(), Refreshing(), True),
        (Refreshing(None, Trigger.COMMIT), Refreshing(None, Trigger.LAG), True),
        (Refreshing(None, Trigger.COMMIT), Refreshing(None, Trigger.MANUAL), False),
        (Refreshing(None, Trigger.COMMIT), Refreshing(None, Trigger.LAG, lag=60), False),
        (Refreshing(None, Trigger.LAG, lag=60), Refreshing(None, Trigger.LAG, lag=60), True),
        (Refreshing(None, Trigger.LAG, lag=60), Refreshing(None, Trigger.COMMIT), False),
    ],
)
def test_a_view_awaits_what_its_own_refreshes_would_end(above: Refreshing, below: Refreshing, awaits: bool) -> None:
    ladder = Ladder(2, "a")
    low, top = ladder.catalog.entry("v0a"), ladder.catalog.entry("v1a")
    given(low, clauses=CreateClauses(refreshing=below))
    given(top, clauses=CreateClauses(refreshing=above))
    low.ledger.touch(SINCE, frozenset({SALES}))
    assert ladder.catalog.is_stale("v1a")
    awaited = ladder.catalog.inquiry().awaited(top.view)
    assert (awaited is not None) is awaits
    assert ladder.catalog.inquiry().awaited(low.view) is not None
