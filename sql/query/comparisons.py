"""Whether one comparison of a value with constants implies another: `d >= '2024-01-01'` implies `d >= '2020-01-01'`.

Proposals compare the literals of texts, proofs those of plans. Each reads its own conditions as `Comparison`s, whose
values must be ordered as Spark orders them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Constant = Decimal | int | str | bytes
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""By sign, that of the same comparison with its sides exchanged."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A value compared with a constant: with several, one of which it is, if the sign is `=`."""

    subject: Hashable
    sign: str
    values: tuple[Constant, ...]


def implies(strong: Comparison, weak: Comparison) -> bool:
    """Whether `weak` is true whenever `strong` is."""
    if strong.subject != weak.subject or len({type(value) for value in strong.values + weak.values}) != 1:
        return False
    if strong.sign == "=":
        return all(any(_HOLDS[weak.sign](value, limit) for limit in weak.values) for value in strong.values)
    (value,), limits = strong.values, weak.values
    if weak.sign == "<>" or strong.sign == "<>":
        # x > 5 implies x <> 5.
        return weak == strong or (
            weak.sign == "<>" and strong.sign != "<>" and not _HOLDS[strong.sign](limits[0], value)
        )
    if weak.sign == "=" or strong.sign[0] != weak.sign[0]:
        return False
    return _HOLDS[weak.sign](value, limits[0]) or (value == limits[0] and strong.sign == weak.sign[0])
