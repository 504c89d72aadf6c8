"""The simulation's own loop, choices and readings of texts."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

import pytest

from sql.names import TableName
from sql.texts import maintenance, public_view
from sql.texts.storage_layout import Shown, StorageLayout
from world.choices import Choices
from world.loop import WHO, Loop
from world.narration import words
from world.statements import known
from world.storage import shown

STORAGE = TableName("freshgate_storage", "s__v__0123abcd")
BY_D = StorageLayout("d", "string", "{}", holds_column=True)


def run_out(loop: Loop) -> None:
    """Runs what is ready, and lets the time pass to each timer."""
    with loop.running():
        while loop.ready or (timer := loop.next_timer()) is not None:
            if loop.ready:
                loop.step()
            elif timer is not None:
                loop.pass_time(timer)


def test_time_passes_only_where_a_task_waits_for_it() -> None:
    loop = Loop(100.0)
    woken: list[tuple[str, float]] = []

    async def nap(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((name, loop.time()))

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7.0):
                await asyncio.gather(nap("a", 5.0), nap("b", 2.0), nap("c", 30.0))

    with loop.running():
        done = loop.create_task(scenario())
    run_out(loop)
    assert done.done()
    assert done.exception() is None
    assert woken == [("b", 102.0), ("a", 105.0)]
    assert loop.time() == 107.0


def test_each_process_has_a_clock_of_its_own() -> None:
    loop, shown = Loop(100.0), dict[str, tuple[float, float]]()
    rates = {"slow": 0.5, "fast": 2.0, "other": 1.0}

    async def nap(name: str) -> None:
        await asyncio.sleep(10.0)
        shown[name] = loop.time(), loop.now

    with loop.running():
        for name, rate in rates.items():
            loop.set_rate(name, rate)
            context = copy_context()
            context.run(WHO.set, name)
            loop.create_task(nap(name), context=context)
    run_out(loop)
    assert shown == {"slow": (110.0, 120.0), "fast": (110.0, 105.0), "other": (110.0, 110.0)}


def test_callbacks_keep_their_order() -> None:
    loop = Loop(0.0)
    called: list[int] = []
    for number in range(3):
        loop.call_soon(called.append, number)
    loop.call_later(1.0, called.append, 9).cancel()
    run_out(loop)
    assert called == [0, 1, 2]


def test_choices_are_made_again_as_they_were() -> None:
    first = Choices(seed=7)
    made = [first.of(bound) for bound in (2, 5, 100, 3)]
    again = Choices(given=first.made)
    assert [again.of(bound) for bound in (2, 5, 100, 3)] == made
    assert again.of(10) == 0


@pytest.mark.parametrize(
    ("said", "places"),
    [
        (Shown.only(3), {(3, "a"), (3, None)}),
        (Shown(3, ((1, 1), (3, 3)), {1: frozenset({"a"})}), {(1, None), (3, "a"), (3, None)}),
        (Shown(3, ((1, 3),), {1: frozenset({"a", None}), 2: frozenset({None})}), {(2, "a"), (3, "a"), (3, None)}),
    ],
)
def test_what_a_public_view_shows_is_read_from_its_text(said: Shown, places: set[tuple[int, str | None]]) -> None:
    public = shown(public_view.shown_rows(STORAGE, ["d", "k"], said, BY_D))
    assert public is not None
    assert (public.storage, public.number) == ("freshgate_storage.s__v__0123abcd", 3)
    every = {(version, key) for version in (1, 2, 3) for key in ("a", None)}
    assert {place for place in every if public.has(place)} == places


def test_an_unknown_statement_is_a_fault_of_the_history() -> None:
    with pytest.raises(ValueError, match="no statement that the simulation knows"):
        known("ANALYZE TABLE s.t COMPUTE STATISTICS")


def test_statements_are_told_in_words() -> None:
    view = TableName("s", "v")
    publish = public_view.publish(view, STORAGE, ["k"], Shown.only(3))
    assert words(publish) == "s.v shows version 3"
    definition = TableName(STORAGE.database, f"{STORAGE.table}__definition")
    insert = maintenance.insert_version(STORAGE, definition, 4)
    assert words(insert) == "writes version 4 of the rows of s.v"
    assert words(maintenance.drop_versions(STORAGE, [2])) == "drops version 2 of the rows of s.v"
