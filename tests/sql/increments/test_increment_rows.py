"""Views that are refreshed by rows have the rows of their definitions, whatever changes."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.sql.increments.duck import Definition, Row, Step, play
from tests.sql.increments.random_definitions import DEFINITIONS, STARTS, STEPS

CAREFUL = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@CAREFUL
@given(DEFINITIONS, STARTS, STEPS)
def test_the_view_has_the_rows_of_its_definition(
    definition: Definition, rows: dict[str, list[Row]], steps: list[Step]
) -> None:
    play(definition, rows, steps)
