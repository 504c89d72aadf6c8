"""Floating-point numbers that are equal if they are shown alike: NaN equals NaN, and 0.0 is not -0.0.

A row with the other zero is a wrong row. `clients.rows` returns such numbers, so that a comparison finds it.
"""

from __future__ import annotations

import math


class ExactFloat(float):
    """Ordered, too: -0.0 is less than 0.0, and NaN is the largest, as Spark has it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, float | int):
            return NotImplemented
        return self._place == ExactFloat(other)._place

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: float) -> bool:
        return self._place < ExactFloat(other)._place

    def __hash__(self) -> int:
        return 0 if math.isnan(self) else float.__hash__(self)

    @property
    def _place(self) -> tuple[bool, float, float]:
        """In the order of all numbers."""
        return (True, 0.0, 0.0) if math.isnan(self) else (False, float(self), math.copysign(1.0, self))


def exact(row: tuple[object, ...]) -> tuple[object, ...]:
    """The row with exact numbers."""
    return tuple(ExactFloat(value) if isinstance(value, float) else value for value in row)
