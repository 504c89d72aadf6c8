"""Subscribers of one kind of event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Subscribers(Generic[P]):
    """Called one after another, in the order in which they were added. `tell` raises what a subscriber raises."""

    def __init__(self) -> None:
        self._told: list[Callable[P, object]] = []

    def add(self, *told: Callable[P, object]) -> None:
        self._told += told

    def tell(self, *what: P.args, **named: P.kwargs) -> None:
        for each in self._told:
            each(*what, **named)
