"""Tests the counts by the rules of limits.rules: sessions, statements at a time, and those that wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.access_list import Principal
from gateway.errors import LimitReached
from gateway.limit_rules import LimitRules
from gateway.service.clients.quotas import Quotas, StatementTurn, StatementTurns
from gateway.service.clients.session import Sessions

ADA, EVE = (Principal(name, frozenset({"analysts"})) for name in ("ada", "eve"))
ZOE = Principal("zoe")
HERE, THERE = "10.0.0.7:4711", "192.0.2.1:4711"


def quotas(*rules: str) -> Quotas:
    return Quotas(LimitRules(rules))


async def ended() -> None:
    """Nothing to ask."""


# --- sessions --------------------------------------------------------------------------------------------------------


def test_each_user_and_all_together_have_so_many_sessions() -> None:
    sessions = Sessions(quotas=quotas("group:analysts each: sessions 2", "group:analysts: sessions 3"))
    places = [sessions.reserve(ADA, HERE), sessions.reserve(ADA, HERE)]
    with pytest.raises(LimitReached, match=r"ada has 2 open sessions, and the rule 'group:analysts each: sessions 2'"):
        sessions.reserve(ADA, THERE)
    places.append(sessions.reserve(EVE, HERE))
    with pytest.raises(LimitReached, match="group:analysts has 3 open sessions, and the rule 'group:analysts: sess"):
        sessions.reserve(EVE, HERE)
    sessions.reserve(ZOE, HERE)
    places[0].free()
    places[0].free()
    sessions.reserve(EVE, HERE)
    with pytest.raises(LimitReached):
        sessions.reserve(ADA, HERE)
    uses = {(use.bound.shown, use.used, use.refused) for use in sessions.quotas.uses()}
    assert uses == {("ada", 1, 1), ("eve", 2, 0), ("group:analysts", 3, 2)}


def test_a_rule_about_the_user_replaces_the_general_number() -> None:
    sessions = Sessions(1, quotas=quotas("ada: sessions 3", "eve: sessions unlimited"))
    for who, most in ((ADA, 3), (EVE, 10), (ZOE, 1)):
        for _ in range(most):
            sessions.reserve(who, HERE)
        if who is not EVE:
            with pytest.raises(LimitReached):
                sessions.reserve(who, HERE)


def test_an_address_has_so_many_sessions_of_all_users() -> None:
    sessions = Sessions(quotas=quotas("address:10.0.0.0/8 each: sessions 2"))
    sessions.reserve(ADA, "10.0.0.7:1")
    sessions.reserve(EVE, "10.0.0.7:2")
    with pytest.raises(LimitReached, match=r"10\.0\.0\.7 has 2 open sessions"):
        sessions.reserve(ZOE, "10.0.0.7:3")
    sessions.reserve(ZOE, "10.0.0.8:3")
    sessions.reserve(ZOE, THERE)


def test_a_session_that_has_moved_here_counts_and_is_not_refused() -> None:
    sessions = Sessions(quotas=quotas("ada: sessions 1"))
    places = [sessions.place_for(ADA, HERE), sessions.place_for(ADA, HERE)]
    places[0].free()
    with pytest.raises(LimitReached):
        sessions.reserve(ADA, HERE)
    places[1].free()
    sessions.reserve(ADA, HERE)
    assert not Sessions().quotas.sessions


# --- statements ------------------------------------------------------------------------------------------------------


class Stage:
    """Statements under rules, in an event loop."""

    def __init__(self, *rules: str) -> None:
        self.refused: Counter[Any] = Counter()
        self.turns = StatementTurns(LimitRules(rules), self.refused, look_seconds=0.001)

    def enter(self, who: Principal, peer: str = HERE, ask: Callable[[], Awaitable[None]] = ended) -> StatementTurn:
        turn = self.turns.enter(who, peer, ask)
        assert turn is not None
        return turn


def test_statements_wait_in_their_order() -> None:
    async def run() -> None:
        stage = Stage("* each: statements 2")
        first, second, third, fourth = (stage.enter(ADA) for _ in range(4))
        other = stage.enter(EVE)
        assert [turn.waits for turn in (first, second, third, fourth, other)] == [False, False, True, True, False]
        assert "one of 2 statements that ada may run" in third.why
        second.end()
        second.end()
        await third.wait()
        assert fourth.waits
        # One that is given up while it waits makes no room.
        fifth = stage.enter(ADA)
        fourth.end()
        assert fifth.waits
        first.end()
        await fifth.wait()
        assert stage.turns.waiting == 0
        for turn in (third, fifth, other):
            turn.end()
        assert list(stage.turns.uses()) == []

    asyncio.run(run())


def test_a_full_queue_refuses_with_the_rule() -> None:
    async def run() -> None:
        stage = Stage("group:analysts: statements 1, queue 1")
        stage.enter(ADA)
        stage.enter(EVE)
        with pytest.raises(LimitReached, match="group:analysts has 1 running statements and 1 that wait, and the rule"):
            stage.enter(ADA)
        assert stage.turns.enter(ZOE, HERE, ended) is None
        none = Stage("ada: statements 1, queue 0")
        none.enter(ADA)
        with pytest.raises(LimitReached):
            none.enter(ADA)
        (use,) = none.turns.uses()
        assert (use.used, use.waiting, use.refused, use.is_full) == (1, 0, 1, True)

    asyncio.run(run())


def test_who_waits_for_one_number_keeps_nobody_from_another_one() -> None:
    async def run() -> None:
        stage = Stage("* each: statements 1, queue 1", "group:analysts: statements 3, queue 0")
        ada, second, eve = stage.enter(ADA), stage.enter(ADA), stage.enter(EVE)
        assert [ada.waits, second.waits, eve.waits] == [False, True, False]
        with pytest.raises(LimitReached, match="eve has 1 running statements and 1 that wait"):
            [stage.enter(EVE) for _ in range(2)]
        assert stage.turns.waiting == 2
        ada.end()
        await second.wait()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_spark_is_asked_whether_statements_have_ended_while_others_wait() -> None:
    async def run() -> int:
        stage, asked = Stage("* each: statements 1"), 0
        running: list[StatementTurn] = []

        async def ask() -> None:
            nonlocal asked
            asked += 1
            if asked == 3:
                running[0].end()

        running.append(stage.enter(ADA, ask=ask))
        await stage.enter(ADA).wait()
        return asked

    assert asyncio.run(asyncio.wait_for(run(), 20)) == 3


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ada", "eve", "zoe"]), st.booleans(), st.integers(0, 5)), max_size=40))
def test_no_number_is_exceeded_and_nobody_waits_beside_free_room(steps: list[tuple[str, bool, int]]) -> None:
    people = {"ada": ADA, "eve": EVE, "zoe": ZOE}
    rules = ("zoe: statements 3", "* each: statements 2", "group:analysts: statements 3", "*: statements 4")

    async def run() -> None:
        stage, open_turns = Stage(*rules), list[tuple[str, StatementTurn]]()
        for name, enters, which in steps:
            if enters:
                open_turns.append((name, stage.enter(people[name])))
            elif open_turns:
                open_turns.pop(which % len(open_turns))[1].end()
            running = [each for each, turn in open_turns if not turn.waits]
            most = {"ada": 2, "eve": 2, "zoe": 3}
            assert all(running.count(each) <= most[each] for each in most)
            assert running.count("ada") + running.count("eve") <= 3
            assert len(running) <= 4
            full = {use.bound for use in stage.turns.uses() if use.is_full}
            assert all(full.intersection(turn.bounds) for _, turn in open_turns if turn.waits)
        for _, turn in open_turns:
            turn.end()
        assert list(stage.turns.uses()) == []

    asyncio.run(run())
