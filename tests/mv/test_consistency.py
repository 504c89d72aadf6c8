"""Which views may answer queries that do not name them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from views import view_of

from gateway.mv.freshness.entry import Entry
from gateway.mv.model.view import Freshness, Version
from gateway.mv.rewriting.consistency import PAST, Standing
from sql.statement import CreateClauses


class Fresh:
    """A catalog with one fresh view; nothing is in quarantine, and no write is open."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.writes = self

    def find(self, view_id: str) -> Entry:
        return self._entry

    def freshness(self, view_id: str) -> Freshness:
        return Freshness.FRESH

    def reason(self, view_id: str) -> None: ...

    async def ask(self, views: list[str]) -> None: ...

    async def check(self, views: list[str], not_before: float = 0) -> None: ...

    async def check_storage(self, views: list[str]) -> None: ...

    def due(self, views: list[str]) -> bool:
        return False


@pytest.mark.parametrize(
    ("immutable", "consistency", "objection"),
    [
        (None, "CHECKED", None),
        ("day < '2024'", "CHECKED", PAST),
        ("day < '2024'", "STRICT", PAST),
        ("day < '2024'", "LOOSE", PAST),
        ("day < '2024'", "OFF", None),
    ],
)
def test_a_view_with_an_immutable_past_answers_only_where_its_owner_says_so(
    immutable: str | None, consistency: str, objection: str | None
) -> None:
    made = view_of(Version.whole(1, 0, 0, {}))
    made = replace(made, properties={"rewrite_consistency": consistency}, clauses=CreateClauses(immutable=immutable))
    entry = Entry(made)
    fresh = cast(Any, Fresh(entry))
    standing = Standing(fresh, fresh, fresh, fresh)
    assert asyncio.run(standing.objection("v", made.name)) == objection
    assert standing.holds("v") == (objection is None)
