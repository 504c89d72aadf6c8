"""Tests logins that several methods may check: which one decides, and that one that does not answer holds no others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gateway.login.passwords import Passwords
from gateway.login.threads import LoginThreads
from gateway.login.verifier import Unavailable, UnknownUser, WrongLogin
from gateway.wire.http_connection import HTTP
from gateway.wire.memory import Memory
from gateway.wire.sasl import Login


class Method:
    """A verifier with these passwords, and a group of its own name."""

    def __init__(self, name: str, before: Callable[[], object] = bool, *, sure: bool = False, **passwords: str) -> None:
        self.name = name
        self.knows_its_users = sure
        self.asked: list[str] = []
        self._before = before
        self._passwords = passwords

    def verify(self, user: str, password: str) -> frozenset[str]:
        self.asked.append(user)
        self._before()
        if user not in self._passwords:
            raise UnknownUser("unknown user") if self.knows_its_users else WrongLogin("refused")
        if self._passwords[user] != password:
            raise WrongLogin("wrong password")
        return frozenset({self.name})

    def version(self, _: str) -> None:
        return None


@contextmanager
def silent() -> Iterator[Callable[[], object]]:
    """Blocks the threads that call it, to the end of the test."""
    end = threading.Event()
    try:
        yield lambda: end.wait(60)
    finally:
        end.set()


def down() -> None:
    raise Unavailable("it burns")


def fails() -> None:
    raise ZeroDivisionError


def outcome(*methods: Method, user: str = "ada", password: str = "right", times: int = 1) -> str:
    """Which method has accepted the login, or why none has."""

    async def run() -> str:
        passwords = Passwords(methods, Memory(0.0), 2, patience_seconds=0.05)
        found = ""
        for _ in range(times):
            try:
                (found,) = (await passwords.check(Login(user, password, "PLAIN"))).groups
            except (WrongLogin, Unavailable) as error:
                found = f"{type(error).__name__}: {error}"
        return found

    return asyncio.run(asyncio.wait_for(run(), 20))


def test_the_first_method_that_accepts_the_password_decides() -> None:
    first, second = Method("first", ada="right"), Method("second", ada="other", eve="right")
    assert outcome(first, second) == "first"
    assert second.asked == []
    assert outcome(first, second, password="other") == "second"
    assert outcome(first, second, user="eve") == "second"
    assert outcome(first, second, user="zoe") == "WrongLogin: first: refused; second: refused"
    assert outcome(second) == "WrongLogin: wrong password"


@pytest.mark.parametrize("turned", [False, True])
def test_a_user_of_the_file_is_the_files_alone(turned: bool) -> None:
    """Wherever the file stands in the order: one name has one password."""
    file, other = Method("file", sure=True, ada="right"), Method("other", ada="other", eve="right")
    methods = (other, file) if turned else (file, other)
    assert outcome(*methods) == "file"
    assert outcome(*methods, password="other") == "WrongLogin: wrong password"
    assert other.asked == []
    assert outcome(*methods, user="eve") == "other"


def test_a_method_that_is_down_or_fails_holds_no_logins_of_others() -> None:
    good = Method("good", ada="right")
    for bad in (Method("bad", down, sure=True), Method("bad", down), Method("bad", fails)):
        assert outcome(bad, good) == "good"
        assert outcome(bad, good, password="oops").startswith("Unavailable: bad: ")
    with silent() as wait:
        assert outcome(Method("silent", wait), good) == "good"


def test_a_method_that_did_not_answer_is_asked_last() -> None:
    good = Method("good", ada="right", eve="right")
    for bad in (Method("bad", down), Method("bad", fails)):
        assert outcome(bad, good, times=5) == "good"
        assert len(bad.asked) == 1
    with silent() as wait:
        bad = Method("bad", wait)
        assert outcome(bad, good, times=5) == "good"
        assert len(bad.asked) == 1


def test_a_method_that_answers_again_is_asked_in_its_turn() -> None:
    broken = [True]
    first = Method("first", lambda: down() if broken[0] else None, ada="right")
    second = Method("second", ada="right", eve="right")

    async def run() -> list[frozenset[str]]:
        passwords, found = Passwords([first, second], Memory(0.0), 2), []
        for user, broken[0] in (("ada", True), ("ada", False), ("zoe", False), ("ada", False)):
            try:
                found.append((await passwords.check(Login(user, "right", "PLAIN"))).groups)
            except WrongLogin:
                found.append(frozenset())
        return found

    assert asyncio.run(run()) == [{"second"}, {"second"}, set(), {"first"}]


def test_logins_over_http_keep_the_groups_of_the_method_that_accepted_them() -> None:
    first, second = Method("first", ada="other"), Method("second", ada="right")

    async def run() -> list[frozenset[str]]:
        passwords = Passwords([first, second], Memory(60.0), 2)
        return [(await passwords.check(Login("ada", "right", HTTP))).groups for _ in range(3)]

    assert asyncio.run(run()) == [{"second"}] * 3
    assert len(second.asked) == 1


def test_without_a_method_no_password_is_right() -> None:
    assert outcome().startswith("WrongLogin: no method checks passwords")


# --- threads ---------------------------------------------------------------------------------------------------------


def test_a_check_that_takes_too_long_is_given_up_and_keeps_its_thread() -> None:
    async def run(wait: Callable[[], object]) -> list[str]:
        threads, said = LoginThreads(1, answer_seconds=0.05), []
        for check in (wait, lambda: "done"):
            try:
                said.append(str(await threads.run(check)))
            except Unavailable as error:
                said.append(str(error))
        return said

    with silent() as wait:
        assert asyncio.run(run(wait)) == ["no answer within 0.05 seconds"] * 2


def test_a_check_that_times_out_by_itself_says_so() -> None:
    def check() -> None:
        raise TimeoutError("the socket")

    with pytest.raises(TimeoutError, match="the socket"):
        asyncio.run(LoginThreads(1).run(check))


def test_threads_that_hang_do_not_keep_the_gateway_from_ending() -> None:
    async def run(wait: Callable[[], object]) -> bool:
        threads = LoginThreads(1, answer_seconds=0.01)
        with pytest.raises(Unavailable):
            await threads.run(wait)
        return all(each.daemon for each in threading.enumerate() if each.name == "login")

    with silent() as wait:
        began = time.monotonic()
        assert asyncio.run(run(wait))
        assert time.monotonic() - began < 20
