"""Which partitions of a view a REFRESH means that names them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest
from views import view_of

from gateway.mv.inspection import Inspection
from gateway.mv.model import Version
from gateway.mv.partitions import of_key
from gateway.mv.proposal import Proposer
from sql.maintenance import DEFAULT_PARTITION, PartitionKey

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
    proposer = Proposer(stored, nobody, stored, nobody, nobody, 0)
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
    names = [Name(of_key(VIEW, key).name) for key in keys] + [Name(f"day={key}x") for key in keys]
    assert told(keys, [*names]) == (names[len(keys) :], set(keys))
    # Once to tell which mean nothing, once to tell which are meant.
    assert {name.read for name in names} == {2}
