"""No address keeps others from logging in, or fills the log."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from gateway.errors import LoginDenied, LoginUnchecked
from gateway.login import address_turns, refusal_log
from gateway.login.address_turns import SUSPECT_AFTER, SUSPECT_SECONDS, WAITING_MAX, AddressTurns
from gateway.login.authenticator import Checked
from gateway.login.refusal_log import LINES, RefusalLog
from gateway.login.verifier import Unavailable, WrongLogin
from gateway.wire.sasl import PLAIN, Login


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def hold(turns: AddressTurns, name: str, end: asyncio.Event, entered: list[str]) -> None:
    async with turns.turn(name):
        entered.append(name)
        await end.wait()


async def test_an_address_has_its_share_and_others_have_theirs() -> None:
    turns, end, entered = AddressTurns(2), asyncio.Event(), list[str]()
    held = [asyncio.ensure_future(hold(turns, name, end, entered)) for name in "aaaabb"]
    await asyncio.sleep(0)
    assert entered == ["a", "a", "b", "b"]
    end.set()
    await asyncio.gather(*held)
    assert entered == ["a", "a", "b", "b", "a", "a"]


async def test_an_address_with_many_refusals_has_one_turn_for_a_while() -> None:
    clock = Clock()
    turns = AddressTurns(4, clock)
    async with turns.turn("a"):
        for _ in range(SUSPECT_AFTER):
            assert not turns.is_suspect("a")
            turns.refused("a")
    assert turns.is_suspect("a")
    assert not turns.is_suspect("b")
    clock.now += SUSPECT_SECONDS
    assert not turns.is_suspect("a")


async def test_too_many_that_wait_are_refused_and_one_that_leaves_makes_room() -> None:
    turns, end, entered = AddressTurns(1), asyncio.Event(), list[str]()
    held = [asyncio.ensure_future(hold(turns, "a", end, entered)) for _ in range(1 + WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match=f"{WAITING_MAX} logins from a are already waiting"):
        await hold(turns, "a", end, entered)
    await asyncio.wait_for(hold_briefly(turns, "b"), 1)
    held.pop().cancel()
    held.append(asyncio.ensure_future(hold(turns, "a", end, entered)))
    end.set()
    await asyncio.gather(*held, return_exceptions=True)
    assert len(entered) == 1 + WAITING_MAX
    await asyncio.wait_for(hold_briefly(turns, "a"), 1)


async def hold_briefly(turns: AddressTurns, name: str) -> None:
    async with turns.turn(name):
        await asyncio.sleep(0)


async def test_one_that_leaves_when_its_turn_comes_passes_it_on() -> None:
    turns, first, last, entered = AddressTurns(1), asyncio.Event(), asyncio.Event(), list[str]()
    held = [asyncio.ensure_future(hold(turns, "a", end, entered)) for end in (first, last, last)]
    await asyncio.sleep(0)
    first.set()
    await held[0]
    held[1].cancel()  # It has been admitted, and has not run yet.
    last.set()
    await asyncio.wait_for(held[2], 1)


async def test_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_turns, "ADDRESSES_MAX", 3)
    turns = AddressTurns(1)
    for number in range(20):
        await hold_briefly(turns, str(number))
    assert len(turns._addresses) == 3


class SlowBook:
    """Every password is wrong but `right`, and takes a while."""

    name, knows_its_users = "file", True

    def version(self, _: str) -> int:
        return 1

    def verify(self, user: str, password: str) -> frozenset[str]:
        time.sleep(0.01)
        if password != "right":
            raise WrongLogin("the password is wrong")
        return frozenset()


def test_a_flood_from_one_address_delays_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Neither does it fill the log. Each of its logins has a clear error, and none passes."""

    async def flood() -> tuple[float, list[Any]]:
        checked = Checked([SlowBook()], 0.0, 4)
        wrong = [asyncio.ensure_future(checked.check(Login("ada", str(n), PLAIN), f"6.6.6.6:{n}")) for n in range(500)]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await checked.check(Login("ada", "right", PLAIN), "10.0.0.1:5")
        passed = time.monotonic() - began
        return passed, await asyncio.gather(*wrong, return_exceptions=True)

    passed, outcomes = asyncio.run(flood())
    assert {type(outcome) for outcome in outcomes} == {LoginDenied, LoginUnchecked}
    assert passed < 0.5, "500 checks one after the other take five seconds, WAITING_MAX of them 0.6"
    assert sum("refused" in record.getMessage() for record in caplog.records) <= LINES + 1


async def test_refusals_beyond_the_first_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refusal_log, "SECONDS", 0.01)
    caplog.set_level(logging.WARNING)
    refusals = RefusalLog()
    for number in range(LINES + 7):
        refusals.refused("'ada'", f"[::1]:{number}", "the password is wrong")
    refusals.refused("'bob'", "10.0.0.1:5", "the password is wrong")
    assert len(caplog.messages) == LINES + 1
    assert caplog.messages[0] == "login of 'ada' from [::1]:0 refused: the password is wrong"
    await asyncio.sleep(0.1)
    assert caplog.messages[-1] == "7 more logins from [::1] were refused within 0.01 seconds"
    refusals.refused("'ada'", "[::1]:9", "the password is wrong")
    assert "login of 'ada' from [::1]:9" in caplog.messages[-1]


async def test_very_many_addresses_are_counted_together(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refusal_log, "ADDRESSES_MAX", 5)
    refusals = RefusalLog()
    for number in range(100):
        refusals.refused("'ada'", f"10.0.0.{number}:5", "the password is wrong")
    assert len(caplog.messages) == 5 + LINES
