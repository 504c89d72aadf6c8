"""Every choice that a history makes: which event comes next, whether a connection breaks.

A choice is a number below a bound, and 0 is the plainest: the oldest event, no fault. So a history is what its actions
and a list of numbers say, and a shorter list, or one with more zeros, is a plainer story.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class Choices:
    """Choices by chance, or those that were `given`, and then zeros."""

    def __init__(self, seed: int | None = None, given: Sequence[int] = ()) -> None:
        self.made: list[int] = []
        self._given = given
        self._chance = None if seed is None else Random(seed).random

    def of(self, bound: int) -> int:
        """A number from 0 to below `bound`."""
        made = self.made
        if self._chance is not None:
            choice = int(self._chance() * bound)
        else:
            place = len(made)
            choice = self._given[place] % bound if place < len(self._given) else 0
        made.append(choice)
        return choice

    def once_in(self, times: int) -> bool:
        """Whether something happens that does so once in so many times."""
        return self.of(times) == times - 1
