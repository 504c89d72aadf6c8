"""Tests where the groups of users are found, for how long they count, and what happens if a source does not answer."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.__main__ import main
from gateway.login import group_file
from gateway.login.group_file import GroupFile
from gateway.login.groups import DOWN_SECONDS, STALE_SECONDS, UserGroups
from gateway.login.verifier import Unavailable


class Book:
    """A source with the groups of each user."""

    def __init__(
        self, name: str = "book", before: Callable[[], object] = bool, *, cheap: bool = False, **groups: Sequence[str]
    ) -> None:
        self.name = name
        self.is_cheap = cheap
        self.asked: list[str] = []
        self.groups = groups
        self.before = before

    def groups_of(self, user: str) -> frozenset[str]:
        self.asked.append(user)
        self.before()
        return frozenset(self.groups.get(user, ()))


def down() -> None:
    raise Unavailable("it burns")


def fails() -> None:
    raise ZeroDivisionError


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_user_is_in_the_groups_of_all_sources() -> None:
    groups = UserGroups([Book("one", ada=["a", "b"]), Book("two", ada=["b", "c"], eve=["e"])])
    assert groups.has_sources
    assert asyncio.run(groups.of("ada")) == {"a", "b", "c"}
    assert asyncio.run(groups.of("eve")) == {"e"}
    assert asyncio.run(groups.of("zoe")) == set()
    assert not UserGroups().has_sources
    assert asyncio.run(UserGroups().of("ada")) == set()


def test_groups_are_kept_for_a_while_except_of_a_cheap_source() -> None:
    clock, dear, cheap = Clock(), Book(ada=["a"]), Book(cheap=True, ada=["c"])
    groups = UserGroups([dear, cheap], 300.0, clock=clock)
    for clock.now, times in ((100.0, 1), (399.0, 1), (400.0, 2)):
        assert asyncio.run(groups.of("ada")) == {"a", "c"}
        assert len(dear.asked) == times
    assert len(cheap.asked) == 3


def test_many_sessions_of_a_user_ask_once() -> None:
    book, reached = Book(ada=["a"]), threading.Event()
    book.before = lambda: reached.wait(20)

    async def run() -> list[frozenset[str]]:
        groups = UserGroups([book], 300.0)
        asked = [asyncio.create_task(groups.of("ada")) for _ in range(50)]
        await asyncio.sleep(0)
        # One that leaves takes nothing from the others.
        asked.pop(0).cancel()
        reached.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(run()) == [{"a"}] * 49
    assert book.asked == ["ada"]


@pytest.mark.parametrize("broken", [down, fails])
def test_a_source_that_does_not_answer_holds_nobody(
    broken: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    clock, book, other = Clock(), Book(ada=["a"]), Book("other", ada=["b"], eve=["b"])
    groups = UserGroups([book, other], 300.0, clock=clock)
    assert asyncio.run(groups.of("ada")) == {"a", "b"}
    book.before = broken
    clock.now += 300
    # What it last said counts for now.
    assert asyncio.run(groups.of("ada")) == {"a", "b"}
    assert asyncio.run(groups.of("eve")) == {"b"}
    assert book.asked == ["ada", "ada"]
    assert "the groups of 'ada' are not known from book" in caplog.text
    clock.now += DOWN_SECONDS
    assert asyncio.run(groups.of("eve")) == {"b"}
    assert book.asked == ["ada", "ada", "eve"]
    clock.now += STALE_SECONDS
    assert asyncio.run(groups.of("ada")) == {"b"}
    book.before = bool
    clock.now += DOWN_SECONDS
    assert asyncio.run(groups.of("ada")) == {"a", "b"}


def test_a_silent_source_is_given_up() -> None:
    end = threading.Event()
    groups = UserGroups([Book(before=lambda: end.wait(60), ada=["a"]), Book("other", ada=["b"])], answer_seconds=0.05)
    try:
        assert asyncio.run(asyncio.wait_for(groups.of("ada"), 20)) == {"b"}
    finally:
        end.set()


def test_the_command_prints_the_groups_of_a_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "groups"
    path.write_text("b: ada\na: ada\nc: eve\n")
    settings = ["--set", "groups.sources=file", "--set", f"groups.file={path}"]
    assert main(["user", "groups", "ada", *settings]) == 0
    assert capsys.readouterr().out == "a\nb\n"
    assert main(["user", "groups", "zoe", *settings]) == 0
    assert capsys.readouterr().out == ""
    assert main(["user", "groups", "ada"]) != 0
    assert "groups.sources names no source" in capsys.readouterr().err
    path.unlink()
    assert main(["user", "groups", "ada", *settings]) != 0
    assert "cannot be read" in capsys.readouterr().err


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.login.groups.USERS_MAX", 2)
    book = Book()
    groups = UserGroups([book], 300.0)

    async def run() -> None:
        for user in "abca":
            await groups.of(user)

    asyncio.run(run())
    assert book.asked == list("abca")


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_file_lists_the_members_of_groups(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "groups"
    text = "# who is who\n\nanalysts: ada, eve@example.com\r\n data science :ada\nanalysts: zoe\nempty:\nx\n: y\n"
    path.write_bytes(text.encode())
    with caplog.at_level(logging.ERROR):
        groups = GroupFile(path)
        groups.check()
    assert groups.groups_of("ada") == {"analysts", "data science"}
    assert groups.groups_of("eve@example.com") == groups.groups_of("zoe") == {"analysts"}
    assert groups.groups_of("Ada") == groups.groups_of("y") == set()
    assert caplog.messages == [f"groups file {path}: line {number} is not GROUP: USER, USER" for number in (7, 8)]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    path.write_text("a: ada\n")
    groups = GroupFile(path)
    assert groups.groups_of("ada") == {"a"}
    path.write_text("a: eve\nb: ada\n")
    assert groups.groups_of("ada") == {"b"}
    path.unlink()
    with pytest.raises(Unavailable, match="cannot be read: No such file"):
        groups.groups_of("ada")
    path.write_bytes(b"\xff: ada\n")
    with pytest.raises(Unavailable, match="it is not UTF-8"):
        groups.check()
    path.write_text("c: ada\n")
    assert groups.groups_of("ada") == {"c"}


@given(st.text())
def test_no_text_is_too_odd_for_a_file(text: str) -> None:
    found, problems = group_file.parse(text)
    assert all(user.strip() == user and user for user in found)
    assert all(group.strip() == group and group for groups in found.values() for group in groups)
    assert len(problems) <= text.count("\n") + 1
