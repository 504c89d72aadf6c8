"""Pairs in the manner of other projects' tests of rewriting: how many are proved, by Spark's recorded plans."""

from __future__ import annotations

import asyncio

import pytest
from pair_corpora import CORPORA, corpus, outcomes, share, told
from record_pairs import recorded

PROVED = {
    "calcite": 53,
    "doris": 61,
    "hive": 47,
    "starrocks": 55,
    "together": 56,
}
"""Of the pairs whose view is expected to be used. A number that falls is a loss; one that rises is raised here."""


@pytest.mark.parametrize("name", CORPORA)
def test_as_many_pairs_are_proved_as_before(name: str) -> None:
    columns, plans = recorded(name)
    found = asyncio.run(outcomes(corpus(name), columns, plans))
    report = "\n".join(told(corpus(name), found))
    proved, _, others = share(found)
    assert (proved, others) == (PROVED[name], 0), report
