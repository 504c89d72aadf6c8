"""The columns of the catalog's relations stand in docs/statements.md: nothing else lists them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.service import catalog_tables

PAGE = (Path(__file__).parents[2] / "docs" / "statements.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("relation", "columns"),
    [
        ("INFORMATION_SCHEMA.MATERIALIZED_VIEWS", catalog_tables.INFORMATION_SCHEMA),
        ("mv_infos", catalog_tables.MV_INFOS),
        ("jobs", catalog_tables.JOBS),
        ("tasks", catalog_tables.TASKS),
        ("freshgate.materialized_views", catalog_tables.MATERIALIZED_VIEWS),
    ],
)
def test_all_columns_are_documented_in_their_order(relation: str, columns: tuple[tuple[str, str], ...]) -> None:
    _, _, listed = PAGE.partition("| relation | columns |")
    (line,) = re.findall(rf"^\| `{re.escape(relation)}` \| (.*) \|$", listed, re.MULTILINE)
    # What stands in brackets tells of values.
    assert re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", line)) == [name for name, _ in columns]
