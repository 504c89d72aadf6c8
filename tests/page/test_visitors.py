"""Who has logged in to the page."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gateway.page.visitors import IDLE_SECONDS, LONGEST_SECONDS, VISITORS_MAX, Visitors
from gateway.wire.http_connection import HTTP
from gateway.wire.sasl import Login

ADA = Login("ada", "", HTTP)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_visit_ends_when_nobody_comes_back() -> None:
    clock = Clock()
    visitors = Visitors(clock)
    cookie = visitors.enter(ADA)
    clock.now = IDLE_SECONDS - 1
    assert visitors.find(cookie) is not None
    clock.now += IDLE_SECONDS - 1
    assert visitors.find(cookie) is not None
    clock.now += IDLE_SECONDS
    assert visitors.find(cookie) is None
    clock.now -= 1
    assert visitors.find(cookie) is None


@pytest.mark.parametrize(("until", "ends"), [(math.inf, LONGEST_SECONDS), (100.0, 100.0)])
def test_a_visit_ends_with_its_login_and_after_the_longest_time(until: float, ends: float) -> None:
    clock = Clock()
    visitors = Visitors(clock)
    cookie = visitors.enter(replace(ADA, until=until))
    while clock.now + IDLE_SECONDS / 2 < ends:
        clock.now += IDLE_SECONDS / 2
        assert visitors.find(cookie) is not None
    clock.now = ends
    assert visitors.find(cookie) is None


def test_the_number_of_visitors_is_bounded() -> None:
    visitors = Visitors(Clock())
    first, *others = (visitors.enter(ADA) for _ in range(VISITORS_MAX))
    assert visitors.find(first) is not None
    visitors.enter(ADA)
    assert visitors.find(first) is not None
    assert visitors.find(others[0]) is None


def test_cookies_and_tokens_are_never_the_same() -> None:
    visitors = Visitors(Clock())
    cookies = [visitors.enter(ADA) for _ in range(100)]
    tokens = [found.token for cookie in cookies if (found := visitors.find(cookie)) is not None]
    assert len({*cookies, *tokens}) == 200


@pytest.mark.parametrize("cookie", ["", "x", "é", "\udcff"])
def test_other_cookies_find_nobody(cookie: str) -> None:
    visitors = Visitors(Clock())
    visitors.enter(ADA)
    assert visitors.find(cookie) is None
