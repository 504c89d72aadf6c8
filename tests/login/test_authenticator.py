"""Tests the check of logins: what reaches a verifier, the messages, the delay after a refusal, and the memory."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable

import pytest

from gateway.errors import LoginDenied, LoginUnchecked
from gateway.login.authenticator import Checked, Unchecked
from gateway.login.threads import WAITING_MAX
from gateway.login.verifier import NO_GROUPS, Unavailable, WrongLogin
from gateway.wire.http_connection import HTTP
from gateway.wire.memory import Memory
from gateway.wire.sasl import Login


class Book:
    """A verifier that knows one user, and records the users that it checks."""

    name = "book"
    knows_its_users = False

    def __init__(self, before: Callable[[], object] = bool) -> None:
        self.asked: list[str] = []
        self.edition = 0
        self._before = before

    def version(self, _: str) -> int:
        return self.edition

    def verify(self, user: str, password: str) -> frozenset[str]:
        self.asked.append(user)
        self._before()
        if user == "down":
            raise Unavailable("the directory burns")
        if user == "bug":
            raise ZeroDivisionError
        if (user, password) != ("ada", "right"):
            raise WrongLogin("wrong password")
        return NO_GROUPS


def plain(user: str, password: str = "right") -> Login:
    return Login(user, password, "PLAIN")


async def outcomes(*checked: Awaitable[Login]) -> list[BaseException | None]:
    """None for a login that was accepted."""
    found = await asyncio.gather(*checked, return_exceptions=True)
    return [each if isinstance(each, BaseException) else None for each in found]


def checks(book: Book, *logins: Login, delay: float = 0.0, count: int = 2) -> list[BaseException | None]:
    """The outcomes of logins that begin simultaneously."""

    async def all_of_them() -> list[BaseException | None]:
        checked = Checked([book], delay, count)
        return await outcomes(*(checked.check(login, f"10.0.0.{n}:5") for n, login in enumerate(logins, 1)))

    return asyncio.run(all_of_them())


def test_only_the_right_password_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    passed, wrong, unknown = checks(Book(), plain("ada"), plain("ada", "oops"), plain("eve", "oops"))
    assert passed is None
    assert isinstance(wrong, LoginDenied)
    assert wrong.sqlstate == "28000"
    # The messages do not reveal which user exists.
    assert str(wrong).replace("ada", "eve") == str(unknown)
    assert "login of 'ada' from 10.0.0.2:5 refused: wrong password" in caplog.text
    assert "oops" not in caplog.text


@pytest.mark.parametrize(
    "login",
    [plain("ada", ""), plain("ada", "  "), plain(""), plain(" "), plain("a\0b"), plain("ada", "a\0"), plain("a" * 1025),
     plain("ada", "a" * 4097)],
)  # fmt: skip
def test_an_invalid_login_does_not_reach_the_verifier(login: Login) -> None:
    book = Book()
    (outcome,) = checks(book, login)
    assert isinstance(outcome, LoginDenied)
    assert book.asked == []


@pytest.mark.parametrize("user", ["down", "bug"])
def test_a_login_that_cannot_be_checked_is_refused(user: str, caplog: pytest.LogCaptureFixture) -> None:
    (outcome,) = checks(Book(), plain(user))
    assert isinstance(outcome, LoginUnchecked)
    assert outcome.sqlstate == "58000"
    assert "burns" not in str(outcome)
    assert ("burns" if user == "down" else "ZeroDivisionError") in caplog.text


def test_a_client_that_leaves_before_the_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    reached = threading.Event()
    ends = threading.Event()

    def hold() -> None:
        reached.set()
        ends.wait(20)

    async def leave() -> None:
        checking = asyncio.ensure_future(Checked([Book(hold)], 0.0, 1).check(plain("ada", "oops"), "10.0.0.1:5"))
        await asyncio.to_thread(reached.wait, 20)
        checking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await checking
        ends.set()

    asyncio.run(leave())
    assert "login of 'ada' from 10.0.0.1:5: the client left before it was checked" in caplog.text


def test_too_many_simultaneous_logins_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    ends = threading.Event()

    async def flood() -> list[BaseException | None]:
        checked = Checked([Book(lambda: ends.wait(20))], 0.0, 1)
        waiting = [asyncio.ensure_future(checked.check(plain("ada"), f"{n}:5")) for n in range(1 + WAITING_MAX)]
        # Tasks start in the order of their creation.
        late = await outcomes(checked.check(plain("ada")))
        ends.set()
        return [*late, *await outcomes(*waiting)]

    late, *others = asyncio.run(flood())
    assert isinstance(late, LoginUnchecked)
    assert others == [None] * (1 + WAITING_MAX)
    assert f"{1 + WAITING_MAX} logins are already being checked or waiting" in caplog.text


def test_a_user_name_cannot_forge_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    checks(Book(), plain("a\nWARNING: all is well" + "x" * 500))
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "\n" not in line
    assert len(line) < 300


def test_delayed_refusals_hold_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a single thread, a login is accepted while fifty refusals are delayed."""
    delays: list[float] = []

    async def run() -> list[str]:
        ended: list[str] = []
        all_wait = asyncio.Event()
        checked = Checked([Book()], 0.25, 1)

        async def sleep(seconds: float) -> None:
            """Replaces asyncio.sleep, so that the test does not sleep."""
            delays.append(seconds)
            if len(delays) == 50:
                await one("ada")
                all_wait.set()
            await all_wait.wait()

        async def one(user: str) -> None:
            try:
                await checked.check(plain(user))
            except LoginDenied:
                ended.append("refused")
            else:
                ended.append("passed")

        monkeypatch.setattr(asyncio, "sleep", sleep)
        async with asyncio.timeout(20):
            await asyncio.gather(*(one("eve") for _ in range(50)))
        return ended

    assert asyncio.run(run()) == ["passed"] + ["refused"] * 50
    assert len(delays) == 50
    assert all(0 < delay <= 0.25 for delay in delays)


def test_the_number_of_simultaneous_checks_is_limited() -> None:
    most, now, lock = 0, 0, threading.Lock()
    meet = threading.Barrier(3)

    def before() -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        meet.wait(10)
        with lock:
            now -= 1

    checks(Book(before), *[plain("ada")] * 9, count=3)
    assert most == 3


def over_http(user: str, password: str = "right") -> Login:
    return Login(user, password, HTTP)


def in_turn(checked: Checked, *logins: Login) -> list[bool]:
    """Checks the logins one after the other; whether each is accepted."""

    async def run() -> list[bool]:
        passed = []
        for login in logins:
            try:
                await checked.check(login)
                passed.append(True)
            except (LoginDenied, LoginUnchecked):
                passed.append(False)
        return passed

    return asyncio.run(run())


def test_an_accepted_login_over_http_is_remembered_for_a_while() -> None:
    book, now = Book(), [100.0]
    checked = Checked([book], 0.0, 2, Memory(60.0, lambda: now[0]))
    assert in_turn(checked, *[over_http("ada")] * 3) == [True] * 3
    assert book.asked == ["ada"]
    # The time counts from the check, not from the last use.
    for now[0], times in ((159.0, 1), (160.0, 2), (219.0, 2), (220.0, 3)):
        assert in_turn(checked, over_http("ada")) == [True]
        assert len(book.asked) == times


def test_a_remembered_login_applies_only_to_the_same_user_password_and_transport() -> None:
    book = Book()
    checked = Checked([book], 0.0, 2, Memory(60.0))
    logins = [over_http("ada"), over_http("ada", "righ"), over_http("adar", "ight"), plain("ada"), plain("ada", "oops")]
    assert in_turn(checked, *logins) == [True, False, False, True, False]
    assert book.asked == ["ada", "ada", "adar", "ada", "ada"]


def test_a_refusal_is_not_remembered() -> None:
    book = Book()
    checked = Checked([book], 0.0, 2, Memory(60.0))
    assert in_turn(checked, *[over_http("eve")] * 2, *[over_http("down")] * 2) == [False] * 4
    assert len(book.asked) == 4


def test_a_changed_user_file_invalidates_remembered_logins() -> None:
    """This holds for a change during a check, too."""
    book = Book()
    checked = Checked([book], 0.0, 2, Memory(60.0))
    assert in_turn(checked, *[over_http("ada")] * 2) == [True] * 2
    book.edition += 1
    assert in_turn(checked, over_http("ada")) == [True]
    assert len(book.asked) == 2

    def change() -> None:
        book.edition += 1

    book = Book(change)
    checked = Checked([book], 0.0, 2, Memory(60.0))
    assert in_turn(checked, *[over_http("ada")] * 3) == [True] * 3
    assert len(book.asked) == 3


@pytest.mark.parametrize("memory", [None, Memory(0.0)], ids=["none", "of no seconds"])
def test_without_a_memory_each_login_is_checked(memory: Memory | None) -> None:
    book = Book()
    assert in_turn(Checked([book], 0.0, 2, memory), *[over_http("ada")] * 3) == [True] * 3
    assert len(book.asked) == 3


def test_the_memory_for_logins_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.wire.memory.LOGINS_MAX", 3)
    memory = Memory(60.0)
    users = [over_http(user) for user in "abcd"]
    for user in users:
        memory.keep(user, 1)
    assert [memory.knows(user, 1) for user in users] == [False, True, True, True]


def test_logins_are_not_checked_if_spark_checks_them() -> None:
    assert not Unchecked().required
    asyncio.run(Unchecked().check(plain("anybody", "")))
