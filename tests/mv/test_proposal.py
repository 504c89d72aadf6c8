"""Which partitions of a view a REFRESH means that names them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest
from fake_spark import Answer
from views import SALES, SHOPS, view_of

from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.partitions import StoredPartitions
from gateway.mv.model.snapshot import Observed, Snapshot
from gateway.mv.model.view import Cause, FollowedTable, Manifest, MaterializedView, TriggerMode, Version, base_key
from gateway.mv.observation.inspection import Inspection
from gateway.mv.refresh.habits import Habits
from gateway.mv.refresh.proposal import RefreshProposal
from gateway.mv.refresh.proposer import Proposer
from gateway.mv.refresh.routes import Route
from sql.texts import maintenance
from sql.texts.storage_layout import ALL, DEFAULT_PARTITION, PartitionKey, Selection

VIEW = view_of(Version.whole(1, 0, 0, {}))
"""Partitioned by `day`."""


class Name(str):
    """Counts how often it was read."""

    read = 0

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        self.read += 1
        return super().partition(sep)


class Stored:
    """What of the view is stored; no base table leads to more."""

    def __init__(self, keys: Iterable[PartitionKey]) -> None:
        texts = [DEFAULT_PARTITION if key is None else key for key in keys]
        self.rows = [(f"freshgate_version=1/freshgate_partition={text}",) for text in texts]

    async def run(self, sql: str) -> Stored:
        return self

    async def inspect(self, *_: object) -> Inspection:
        return Inspection({}, {})


def told(keys: Iterable[PartitionKey], names: list[str]) -> tuple[list[str], set[PartitionKey]]:
    """The names that mean nothing, and the partitions that the others mean."""
    stored, nobody = cast(Any, Stored(keys)), cast(Any, None)
    proposer = Proposer(stored, nobody, stored, nobody, nobody, nobody, 0)
    missing = asyncio.run(proposer.missing(VIEW, names, nobody))
    return missing, set(asyncio.run(proposer._called(VIEW, Inspection({}, {}), names, nobody)))


@pytest.mark.parametrize(
    ("names", "missing", "meant"),
    [
        (["p_bj"], [], {"bj"}),
        (["p_bj", "day=bj", "p_bj"], [], {"bj"}),
        (["DAY=bj"], [], {"bj"}),
        # Values, and Doris' names, are told apart by case.
        (["day=BJ", "P_bj"], ["day=BJ", "P_bj"], set()),
        (["p_ab"], [], {"a-b", "a.b"}),
        (["day=a-b"], [], {"a-b"}),
        (["day=c=d"], [], {"c=d"}),
        (["p_NULL"], [], {None, "NULL"}),
        (["day=NULL"], [], {"NULL"}),
        (["day=", "day", "=bj", "", "bj"], ["day=", "day", "=bj", "", "bj"], set()),
        (["`day`=bj", "day='bj'", "day =bj", "other=bj"], ["`day`=bj", "day='bj'", "day =bj", "other=bj"], set()),
        (["p_x", "p_bj", "p_x"], ["p_x", "p_x"], {"bj"}),
        ([], [], set()),
    ],
)
def test_what_names_mean(names: list[str], missing: list[str], meant: set[PartitionKey]) -> None:
    assert told(["bj", "sh", "a-b", "a.b", "c=d", None, "NULL"], names) == (missing, meant)


def test_each_name_is_read_once() -> None:
    """Not once for each partition that there is."""
    keys = [f"k{number}" for number in range(50)]
    names = [Name(StoredPartitions(VIEW).of(key).name) for key in keys] + [Name(f"day={key}x") for key in keys]
    assert told(keys, [*names]) == (names[len(keys) :], set(keys))
    # Once to tell which mean nothing, once to tell which are meant.
    assert {name.read for name in names} == {2}


# --- single partitions of a view that was never built ----------------------------------------------------------

NEVER = view_of(Version.whole(NEVER_BUILT, 0, 0, {}))
LOOKS: dict[str, Observed] = {
    base_key(SALES): Snapshot("sales", "s1", "", {("a",): "1", ("b",): "2"}),
    base_key(SHOPS): Snapshot("shops", "t1"),
}


class TwoPartitions:
    """Two partitions, of which the storage has `present`."""

    def __init__(self, *present: tuple[int, str]) -> None:
        self.present = present
        self.asked: list[str] = []

    async def inspect(self, *_: object) -> Inspection:
        return Inspection(LOOKS, {})

    async def followed(self, view: MaterializedView, *_: object) -> FollowedTable | None:
        return view.followed

    async def run(self, sql: str) -> Answer:
        self.asked.append(sql)
        if sql.startswith("SHOW PARTITIONS"):
            return Answer([(f"freshgate_version={number}/freshgate_partition={key}",) for number, key in self.present])
        if "partitions(place, value0)" in sql:
            found = re.findall(r"\((\d+), '(.)'\)", sql)
            return Answer([(int(place), value, True) for place, value in found])
        if sql.startswith("SELECT DISTINCT"):
            return Answer([("a",), ("b",), ("hidden",)])
        return Answer()

    async def choose(self, *_: object) -> Route:
        return Route()

    async def content(self, *_: object) -> None:
        return None

    def propose(self, view: MaterializedView, *partitions: str, version: int = 1) -> RefreshProposal:
        everything = cast(Any, self)
        proposer = Proposer(everything, everything, everything, Habits(), everything, everything, 30_000)
        cause = Cause(TriggerMode.MANUAL if partitions else TriggerMode.READ, "me", partitions, bool(partitions))
        return asyncio.run(proposer.propose(view, view, cause, version, everything))


def refreshed(view: MaterializedView, proposal: RefreshProposal) -> MaterializedView:
    """The view after what was proposed."""
    plan = proposal.plan
    assert plan is not None
    present = [(plan.version, key) for key in plan.chosen.keys]
    parts = {"manifest": plan.manifest, "shown": plan.shown(present), "contents": proposal.contents(plan.version, None)}
    return replace(view, current=Version(plan.version, 0, 0, {}, **cast(Any, parts)))


def test_a_first_refresh_of_one_partition_writes_that_alone() -> None:
    proposal = TwoPartitions().propose(NEVER, "p_a")
    plan = proposal.plan
    assert plan is not None
    assert plan.chosen == Selection(frozenset({"a"}), all_but=False)
    assert proposal.partly
    view = refreshed(NEVER, proposal)
    assert view.built
    assert not view.complete
    assert view.current.shown.shows(1, "a")
    assert view.current.manifest.writer("b") == NEVER_BUILT


def test_what_is_left_is_built_by_the_next_refresh_of_another_kind() -> None:
    """All of it: rows that no partition of the followed table leads to, too."""
    partly = refreshed(NEVER, TwoPartitions().propose(NEVER, "p_a"))
    plan = TwoPartitions((1, "a")).propose(partly, version=2).plan
    assert plan is not None
    assert plan.chosen == ALL
    assert plan.reason == "only some of its partitions have been built"
    whole = refreshed(partly, TwoPartitions((1, "a")).propose(partly, version=2))
    assert whole.complete
    assert TwoPartitions((2, "a"), (2, "b")).propose(whole, version=3).plan is None


def test_another_partition_is_built_beside_the_first() -> None:
    partly = refreshed(NEVER, TwoPartitions().propose(NEVER, "p_a"))
    proposal = TwoPartitions((1, "a")).propose(partly, "p_b", version=2)
    assert proposal.plan is not None
    assert proposal.plan.chosen == Selection(frozenset({"b"}), all_but=False)
    both = refreshed(partly, proposal)
    assert not both.complete
    assert both.current.manifest == Manifest(NEVER_BUILT, {"a": 1, "b": 2})
    assert both.current.shown.shows(1, "a")


def test_the_definition_is_asked_for_partitions_that_no_look_tells() -> None:
    two = TwoPartitions()
    plan = two.propose(NEVER, "p_hidden").plan
    assert plan is not None
    assert plan.chosen.keys == {"hidden"}
    two.propose(NEVER, "p_a")
    assert [sql for sql in two.asked if "v__definition" in sql] == [
        maintenance.definition_keys(NEVER.definition, NEVER.layout, "")
    ]
