"""Tests what people are told of a view in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from views import view_of

from gateway.mv.model import residence
from gateway.mv.model.contents import NEVER_BUILT
from gateway.mv.model.residence import Held, Residence, Residences, Wish
from gateway.mv.model.view import MaterializedView, Version
from sql.statement import CreateClauses, Security

WANTED, REFUSED = {"in_memory": "true"}, {"in_memory": "false"}
LOADED = Residence(Held.LOADED, Wish.READS, "", 3, 10, 4096, 1_700_000_000_000)


def built(number: int = 3, **fields: Any) -> MaterializedView:
    return replace(view_of(Version.whole(number, 0, 0, {})), **fields)


@pytest.fixture
def residences() -> Residences:
    found = Residences()
    found.off = ""
    return found


def test_a_view_is_told_of_only_if_it_is_wanted(residences: Residences) -> None:
    assert residences.of(built()) is None
    assert residences.of(built(properties=WANTED)) == Residence(Held.WAITING, Wish.VIEW, residence.NOT_LOOKED)
    residences.set("v", LOADED)
    assert residences.of(built()) == LOADED
    assert residences.of(built(properties=WANTED)) == replace(LOADED, asked=Wish.VIEW)
    assert residences.of(built(properties=REFUSED)) is None
    residences.set("v", None)
    assert residences.of(built()) is None


def test_another_version_than_the_current_one_does_not_count(residences: Residences) -> None:
    residences.set("v", LOADED)
    assert residences.of(built(4)) == Residence(Held.WAITING, Wish.READS, residence.PUBLISHED)


def test_what_keeps_a_view_out_of_memory_is_told_first(residences: Residences) -> None:
    residences.set("v", LOADED)
    invoking = built(properties=WANTED, clauses=CreateClauses(security=Security.INVOKER))
    assert residences.of(invoking) == Residence(Held.NOT_LOADED, Wish.VIEW, residence.INVOKER)
    unbuilt = built(NEVER_BUILT, properties=WANTED)
    assert residences.of(unbuilt) == Residence(Held.NOT_LOADED, Wish.VIEW, residence.NOT_BUILT)
    residences.off = "memory.bytes is 0"
    assert residences.of(invoking) == Residence(Held.NOT_LOADED, Wish.VIEW, "memory.bytes is 0")
