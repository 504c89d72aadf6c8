"""The subscribers of one kind of event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Subscribers(Generic[P]):
    """Calls subscribers one after another, in the order in which they were added. `tell` raises what they raise."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[P, object]] = []

    def add(self, *subscribers: Callable[P, object]) -> None:
        self._subscribers += subscribers

    def tell(self, *what: P.args, **named: P.kwargs) -> None:
        for subscriber in self._subscribers:
            subscriber(*what, **named)
