"""`freshgate user add | remove | list`: edits the users file."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from gateway.login import user_file
from gateway.login.user_file import BadUser


def add(path: Path, name: str) -> str:
    """Asks for a password and stores its hash. Returns what was done. Raises BadUser, OSError, UnicodeDecodeError."""
    _check(name)
    text_of_hash = user_file.hash_of(_password(name))
    with user_file.changing(path) as place:
        text = user_file.read(place) if place.exists() else ""
        known = name in user_file.names_in(text)
        user_file.write(place, user_file.with_user(text, name, text_of_hash))
    return f"{name}: password changed in {path}." if known else f"{name}: added to {path}."


def remove(path: Path, name: str) -> str:
    """Removes a user. Returns what was done. Raises BadUser, OSError, UnicodeDecodeError."""
    _check(name)
    with user_file.changing(path) as place:
        text = user_file.read(place)
        if name not in user_file.names_in(text):
            raise BadUser(f"{path} has no user '{name}'. `freshgate user list` lists its users.")
        user_file.write(place, user_file.without_user(text, name))
    return f"{name}: removed from {path}."


def names(path: Path) -> list[str]:
    """The names in the file. Raises OSError, also if it does not exist, and UnicodeDecodeError."""
    return user_file.names_in(user_file.read(path))


def _check(name: str) -> None:
    problem = user_file.name_problem(name)
    if problem is not None:
        raise BadUser(f"'{name}' is not a valid user name: {problem}.")


def _password(name: str) -> str:
    """Reads the password from the terminal, twice, or from the first line of standard input. Raises BadUser."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password of {name}: ")
    if getpass.getpass("Again: ") != password:
        raise BadUser("The two passwords differ, and nothing was changed. Run the command again.")
    return password
