"""A view of very many partitions does not keep the event loop from others."""

from __future__ import annotations

import asyncio

import pytest
import turns
from partitioned_warehouse import life

from gateway import loops
from gateway.mv.refresh import proposer

PARTITIONS = 10_000
LINES_MAX = PARTITIONS // 2
"""What goes through all partitions runs a line for each at least."""


def test_no_turn_goes_through_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    # In smaller pieces than ever, so that fewer partitions are very many.
    monkeypatch.setattr(loops, "AT_ONCE", 200)
    monkeypatch.setattr(proposer, "KEYS_TOGETHER", 200)

    async def walk() -> None:
        async for _ in life(PARTITIONS):
            pass

    with turns.counted() as counted:
        asyncio.run(walk())
    assert counted.most <= LINES_MAX, str(counted)
