"""Views that are refreshed by rows have the rows of their definitions, whatever changes.

`FRESHGATE_REFRESHES=20000 scripts/test tests/sql/increments/test_increment_rows.py` tries about so many refreshes;
another `FRESHGATE_SEED` gives other ones."""

from __future__ import annotations

import os

from duck import Definition, Row, Step, play
from hypothesis import HealthCheck, given, seed, settings
from random_definitions import DEFINITIONS, STARTS, STEPS

REFRESHES = int(os.environ.get("FRESHGATE_REFRESHES", "285"))
SEED = int(os.environ.get("FRESHGATE_SEED", "1"))
PER_EXAMPLE = 1.9
"""Refreshes of an example, on average."""
CAREFUL = settings(
    max_examples=int(REFRESHES / PER_EXAMPLE),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@seed(SEED)
@CAREFUL
@given(DEFINITIONS, STARTS, STEPS)
def test_the_view_has_the_rows_of_its_definition(
    definition: Definition, rows: dict[str, list[Row]], steps: list[Step]
) -> None:
    play(definition, rows, steps)
