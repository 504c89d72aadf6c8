"""Queries of shapes that are not learned yet: Spark answers the first ones, and those that come meanwhile wait for what
is learned from them.

Otherwise Spark would be kept busy by a crowd that opens a new dashboard: all of its queries would run there, and take
the longer, and so would the planning after which none of them is Spark's.

Tests: `test_first_queries`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from gateway.service.memory.learned_shapes import SHAPES_MAX, MemoryKey

AT_SPARK = 2
"""So many queries of a shape are at Spark before others wait: a few people gain nothing by waiting for a plan."""
WAITED_SECONDS = 5.0
"""How long a query waits. Those at Spark have taken as long by then, so it at most doubles what a query takes of which
nothing can be learned."""


@dataclass(slots=True)
class _FirstOnes:
    """Those of one shape."""

    at_spark: int = 0
    learns: bool = False
    """Whether an answer of Spark's has come, and its query is being planned."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Nobody needs to wait any more."""


class FirstQueries:
    """The queries of new shapes at Spark, and who waits for them."""

    def __init__(self, seconds: float = WAITED_SECONDS) -> None:
        self._seconds = seconds
        self._shapes: dict[MemoryKey, _FirstOnes] = {}
        self._in_vain: OrderedDict[MemoryKey, None] = OrderedDict()
        """Shapes of which nothing could be learned: nobody waits for them again."""

    async def wait(self, key: MemoryKey) -> bool:
        """Waits until something was learned of the shape, or nothing will be. Returns whether it has waited."""
        first = self._shapes.get(key)
        if first is None or key in self._in_vain or (first.at_spark < AT_SPARK and not first.learns):
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await first.over.wait()
        return True

    @contextmanager
    def at_spark(self, key: MemoryKey) -> Iterator[None]:
        """A query of the shape is at Spark."""
        first = self._shapes.setdefault(key, _FirstOnes())
        first.at_spark += 1
        try:
            yield
        finally:
            first.at_spark -= 1
            if not (first.at_spark or first.learns):
                self._end(key, first)

    def learns(self, key: MemoryKey) -> None:
        """What is learned of the shape will be told by `learned`."""
        self._shapes.setdefault(key, _FirstOnes()).learns = True

    def learned(self, key: MemoryKey, *, anything: bool) -> None:
        if anything:
            self._in_vain.pop(key, None)
        else:
            self._in_vain[key] = None
            if len(self._in_vain) > SHAPES_MAX:
                self._in_vain.popitem(last=False)
        if (first := self._shapes.get(key)) is not None:
            first.learns = False
            self._end(key, first)

    def forget(self) -> None:
        """What could not be learned may be learned now."""
        self._in_vain.clear()

    def _end(self, key: MemoryKey, first: _FirstOnes) -> None:
        first.over.set()
        if self._shapes.get(key) is first:
            del self._shapes[key]
