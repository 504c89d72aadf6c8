"""Tests the user file: its format, its changes, and the logins against it."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from forks import completed
from hypothesis import given
from hypothesis import strategies as st
from processes import environment

from gateway.__main__ import main
from gateway.errors import LoginDenied, LoginUnchecked
from gateway.login import command, user_file
from gateway.login.authenticator import Checked
from gateway.login.user_file import BadUser, UserFile, Users
from gateway.login.verifier import Unavailable, WrongLogin
from gateway.wire.http_connection import HTTP
from gateway.wire.memory import Memory
from gateway.wire.sasl import Login

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
HASH = CHEAP.hash("right", salt=b"a grain of salt")
OTHER_HASH = CHEAP.hash("other", salt=b"a grain of salt")

NAMES = st.text(min_size=1, max_size=20).filter(lambda name: user_file.name_problem(name) is None)
LINES = st.lists(st.text(st.characters(exclude_characters="\n\r"), max_size=30), max_size=8)


def verify(path: Path, user: str, password: str) -> bool:
    try:
        UserFile(path).verify(user, password)
    except WrongLogin:
        return False
    return True


def file_of(folder: Path, text: str) -> Path:
    path = folder / "users"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


# --- the text --------------------------------------------------------------------------------------------------


@given(st.dictionaries(NAMES, st.sampled_from([HASH, OTHER_HASH]), max_size=5))
def test_written_users_are_read_back(users: dict[str, str]) -> None:
    text = ""
    for name, text_of_hash in users.items():
        text = user_file.with_user(text, name, text_of_hash)
    assert user_file.parse(text) == Users(users)
    assert user_file.names_in(text) == list(users)


@given(LINES, NAMES)
def test_a_change_keeps_all_other_lines(lines: list[str], name: str) -> None:
    text = "".join(line + "\n" for line in lines)
    changed = user_file.with_user(text, name, HASH)
    assert user_file.parse(changed).hashes[name] == HASH
    others = [line for line in lines if not line.startswith(name + ":")]
    assert [line for line in changed.removesuffix("\n").split("\n") if not line.startswith(name + ":")] == others
    assert user_file.without_user(changed, name) == "".join(line + "\n" for line in others)


@given(st.text(max_size=200))
def test_any_text_is_parsed(text: str) -> None:
    for name in user_file.parse(text).hashes:
        assert user_file.name_problem(name) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a person's password", "line 2 is not NAME:HASH"),
        ("ada:secret", "line 2: 'ada' has no argon2 hash"),
        ("ada:$2b$12$abcdefghijklmnopqrstuv", "line 2: 'ada' has no argon2 hash"),
        ("ada:$argon2id$v=19$m=8,t=1,p=1$a$b", "line 2: 'ada' has no argon2 hash"),
        (f":{HASH}", "line 2: a user name must not be empty"),
        (f" ada:{HASH}", "line 2: a user name must not be empty, and must not begin"),
        (f"eve:{HASH}\neve:{OTHER_HASH}", "line 3: 'eve' is also in line 2, so both lines are ignored"),
    ],
)
def test_an_invalid_line_is_reported_without_a_possible_password(line: str, said: str) -> None:
    users = user_file.parse(f"# users\n{line}\nbob:{HASH}\r\n\n")
    assert list(users.hashes) == ["bob"]
    assert len(users.problems) == 1
    assert users.problems[0].startswith(said)
    assert "secret" not in users.problems[0]
    assert "person" not in users.problems[0]


# --- checks ----------------------------------------------------------------------------------------------------


def test_only_the_right_password_is_accepted_by_the_file(tmp_path: Path) -> None:
    path = file_of(tmp_path, f"ada:{HASH}\nbroken:x\n")
    assert verify(path, "ada", "right")
    assert not verify(path, "ada", "wrong")
    assert not verify(path, "Ada", "right")
    assert not verify(path, "broken", "x")
    assert not verify(path, "nobody", "right")


def test_an_unknown_user_takes_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = UserFile(file_of(tmp_path, f"ada:{HASH}\n"))
    seen: list[str] = []
    real = PasswordHasher.verify

    def watched(self: PasswordHasher, text_of_hash: str, password: str) -> bool:
        seen.append(text_of_hash)
        return real(self, text_of_hash, password)

    monkeypatch.setattr(PasswordHasher, "verify", watched)
    for user in ("ada", "nobody"):
        with pytest.raises(WrongLogin):
            users.verify(user, "wrong")
    assert seen[0] == HASH
    assert seen[1] != HASH
    # The parameters, which determine the cost, come before the salt.
    assert seen[0].split("$")[:4] == seen[1].split("$")[:4]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = file_of(tmp_path, f"ada:{HASH}\n")
    users = UserFile(path)
    users.verify("ada", "right")
    user_file.write(path, f"eve:{HASH}\n")
    users.verify("eve", "right")
    with pytest.raises(WrongLogin):
        users.verify("ada", "right")
    path.unlink()
    with pytest.raises(Unavailable, match="No such file"):
        users.verify("eve", "right")
    file_of(tmp_path, f"ada:{HASH}\n")
    users.verify("ada", "right")
    path.write_bytes(b"\xff\n")
    with pytest.raises(Unavailable, match="UTF-8"):
        users.verify("ada", "right")


def test_a_change_applies_immediately_to_remembered_logins(tmp_path: Path) -> None:
    path = file_of(tmp_path, f"ada:{HASH}\neve:{HASH}\n")
    checked = Checked([UserFile(path)], 0.0, 2, Memory(1000.0))

    def outcome(user: str, password: str = "right") -> str:
        try:
            asyncio.run(checked.check(Login(user, password, HTTP)))
        except (LoginDenied, LoginUnchecked) as error:
            return error.sqlstate
        return "in"

    assert [outcome("ada"), outcome("ada"), outcome("eve")] == ["in"] * 3
    user_file.write(path, f"ada:{OTHER_HASH}\n")
    assert [outcome("ada"), outcome("eve"), outcome("ada", "other")] == ["28000", "28000", "in"]
    path.unlink()
    assert outcome("ada", "other") == "58000"


def test_problems_of_the_file_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = file_of(tmp_path, "ada:secret\n")
    path.chmod(0o644)
    UserFile(path).check()
    assert "line 1: 'ada' has no argon2 hash" in caplog.text
    assert "set its mode to 0600" in caplog.text
    assert "secret" not in caplog.text


# --- the command line ------------------------------------------------------------------------------------------


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_users_are_added_changed_listed_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users"
    for name, password in (("ada", "one"), ("eve", "two"), ("ada", "three")):
        answer(monkeypatch, password + "\n")
        command.add(path, name)
    assert command.names(path) == ["ada", "eve"]
    assert verify(path, "ada", "three")
    assert not verify(path, "ada", "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    command.remove(path, "ada")
    assert command.names(path) == ["eve"]
    assert not verify(path, "ada", "three")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "password"), [("ada", ""), ("ada", " "), ("a:b", "x"), ("", "x"), ("#ada", "x"), ("a\nb", "x")]
)
def test_an_invalid_name_or_password_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, password: str
) -> None:
    answer(monkeypatch, password + "\n")
    with pytest.raises(BadUser):
        command.add(tmp_path / "users", name)
    assert not (tmp_path / "users").exists()


def test_removing_an_unknown_user_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadUser, match="has no user 'ada'"):
        command.remove(file_of(tmp_path, f"eve:{HASH}\n"), "ada")


def test_a_symbolic_link_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(file_of(tmp_path, ""))
    answer(monkeypatch, "right\n")
    command.add(link, "ada")
    assert link.is_symlink()
    assert verify(tmp_path / "users", "ada", "right")


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of(tmp_path, f"ada:{HASH}\n")

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        user_file.write(path, "")
    assert path.read_text(encoding="utf-8") == f"ada:{HASH}\n"
    assert list(tmp_path.iterdir()) == [path]


def test_concurrent_changes_lose_no_user(tmp_path: Path) -> None:
    path = file_of(tmp_path, "")

    def add(name: str) -> None:
        with user_file.changing(path) as place:
            user_file.write(place, user_file.with_user(user_file.read(place), name, HASH))

    names = [f"user{number}" for number in range(20)]
    threads = [threading.Thread(target=add, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(command.names(path)) == sorted(names)


def test_the_command_manages_users(tmp_path: Path) -> None:
    def run(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        program = ["-m", "gateway", "user", *arguments, "--set", f"authentication.users_file={tmp_path}/u"]
        return completed(program, environment(), directory=tmp_path, typed=typed)

    assert run("add", "ada", typed="secret\n").stdout == f"ada: added to {tmp_path}/u.\n"
    assert run("add", "ada", typed="other\n").stdout == f"ada: password changed in {tmp_path}/u.\n"
    assert run("list").stdout == "ada\n"
    refused = run("remove", "eve")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert run("remove", "ada").returncode == 0
    assert run("list").stdout == ""
    nowhere = run("add", "ada", "--file", f"{tmp_path}/none/u", typed="secret\n")
    assert (nowhere.returncode, "No such file" in nowhere.stderr) == (1, True)


def test_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in (["list"], ["remove", "ada"]):
        assert main(["user", *action, "--file", str(tmp_path / "none")]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert (
            printed.err == f"freshgate: {tmp_path / 'none'} cannot be used: No such file or directory. Check --file.\n"
        )


def test_a_file_without_users_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = file_of(tmp_path, "# nobody yet\n")
    with caplog.at_level(logging.INFO):
        UserFile(path).check()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{path}: it has no user, so nobody can log in" in caplog.text
