"""Tests which views are in memory if there is not room for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.mv.memory.room import BARRED, NO_ROOM, OUTDATED, STAY_MS, UNWANTED, Claim, Steps, allot, plan
from gateway.mv.model.residence import Wish

ROOM = 100


@st.composite
def claims(draw: st.DrawFn) -> list[Claim]:
    """Views of which those in memory, and those being loaded, fit into ROOM."""
    left, found = ROOM, list[Claim]()
    for number in range(draw(st.integers(0, 8))):
        size = draw(st.integers(0, ROOM + 20))
        loading = draw(st.booleans()) and size <= left
        left -= size if loading else 0
        current = not loading and draw(st.booleans()) and size <= left
        before = size if current else draw(st.integers(0, ROOM))
        held = before if current or (draw(st.booleans()) and before <= left) else None
        left -= held or 0
        found.append(
            Claim(
                f"v{number}",
                draw(st.sampled_from([Wish.VIEW, Wish.READS, None])),
                draw(st.integers(0, 4)) * STAY_MS // 2,
                size,
                held,
                current,
                loading,
                draw(st.booleans()),
                draw(st.sampled_from(["", "", "damaged"])),
            )
        )
    return found


def carried_out(before: list[Claim], steps: Steps) -> list[Claim]:
    """What follows from the steps, once everything is loaded."""
    after = []
    for each in before:
        if each.view in steps.drops:
            each = replace(each, held=None, current=False)
        if each.loading and each.view in steps.cancels:
            each = replace(each, loading=False)
        if each.loading or each.view in steps.loads:
            each = replace(each, held=each.bytes, current=True, loading=False)
        after.append(each)
    return after


@given(claims(), st.integers(0, 3))
def test_what_is_loaded_fits_beside_what_is_there(views: list[Claim], places: int) -> None:
    steps = plan(views, ROOM, places)
    kept = sum(each.held for each in views if each.held is not None and each.view not in steps.drops)
    under_way = sum(each.bytes for each in views if each.loading or each.view in steps.loads)
    assert kept + under_way <= ROOM
    assert len(steps.loads) <= places
    assert all(each.ready and not each.loading and not each.current for each in views if each.view in steps.loads)


@given(claims())
def test_nothing_is_kept_that_is_not_wanted_or_not_right(views: list[Claim]) -> None:
    steps = plan(views, ROOM, 2)
    out = {each.view for each in views if each.wish is None or each.barred}
    assert out.isdisjoint(steps.loads)
    assert out & {each.view for each in views if each.loading} <= steps.cancels
    assert out & {each.view for each in views if each.held is not None} <= steps.drops.keys()


@given(claims())
def test_what_was_decided_stands_until_something_changes(views: list[Claim]) -> None:
    """Otherwise views would displace each other for ever."""
    for _ in range(2 * len(views) + 2):
        steps = plan(views, ROOM, 2)
        if not (steps.drops or steps.loads or steps.cancels):
            return
        views = carried_out(views, steps)
    raise AssertionError(f"it never comes to rest: {steps}")


@given(claims())
def test_a_view_that_says_so_is_left_out_only_for_others_that_say_so(views: list[Claim]) -> None:
    chosen = allot(views, ROOM)
    for each in views:
        if each.wish is not Wish.READS and each.view not in chosen:
            before = [other for other in views if other.wish is not Wish.READS and other.rank < each.rank]
            assert sum(other.bytes for other in before if other.view in chosen) + each.bytes > ROOM


def view(name: str, size: int, used_at: int = 0, **rest: Any) -> Claim:
    return replace(Claim(name, Wish.VIEW, used_at, size), **rest)


def test_the_view_that_was_not_read_for_the_longest_time_makes_room() -> None:
    long = 10 * STAY_MS
    there = [view(name, 40, used, held=40, current=True) for name, used in (("old", 0), ("new", long))]
    steps = plan([*there, view("next", 40, long)], ROOM, 2)
    assert (steps.drops, steps.loads) == ({"old": NO_ROOM}, ("next",))


def test_views_that_are_read_in_turns_do_not_displace_each_other() -> None:
    there = view("one", 60, 1_000, held=60, current=True)
    assert plan([there, view("two", 60, STAY_MS)], ROOM, 2) == Steps({}, frozenset(), (), frozenset({"one"}))
    assert plan([there, view("two", 60, STAY_MS + 2_000)], ROOM, 2).loads == ("two",)


def test_a_view_that_is_read_often_makes_room_for_one_that_says_so() -> None:
    often = view("often", 60, 9 * STAY_MS, held=60, current=True, wish=Wish.READS)
    assert plan([often, view("says", 60)], ROOM, 2).drops == {"often": NO_ROOM}


def test_rows_of_an_earlier_version_stay_until_they_are_replaced_if_there_is_room() -> None:
    roomy, tight = view("v", 40, held=40), view("v", 60, held=60)
    assert plan([roomy], ROOM, 2) == Steps({}, frozenset(), ("v",), frozenset({"v"}))
    assert plan([tight], ROOM, 2) == Steps({"v": OUTDATED}, frozenset(), ("v",), frozenset({"v"}))


def test_why_rows_are_dropped() -> None:
    gone = view("gone", 10, held=10, current=True, wish=None)
    damaged = view("damaged", 10, held=10, current=True, barred="changed")
    assert plan([gone, damaged], ROOM, 2).drops == {"gone": UNWANTED, "damaged": BARRED}
