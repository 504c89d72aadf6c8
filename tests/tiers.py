"""Marks thorough variants of tests: `scripts/test` runs the suite, `scripts/test --all` also the thorough variants."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

ALL = "FRESHGATE_TESTS"
"""The environment variable that scripts/test sets to `all`."""
EVERYTHING = os.environ.get(ALL) == "all"


def sampled(values: Sequence[Any], kept: set[str], names: Sequence[str] | None = None) -> list[Any]:
    """Parameters, or tuples of parameters. Those named in `kept` belong to the suite, the others are thorough."""
    named = names or [str(value) for value in values]
    assert kept <= set(named)
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=name,
            marks=() if name in kept else pytest.mark.thorough,
        )
        for value, name in zip(values, named, strict=True)
    ]
