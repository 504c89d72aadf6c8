"""A file of users: one `name:hash` per line, with argon2 hashes. Empty lines and lines that begin with # are
skipped."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import Argon2Error, HashingError, InvalidHashError

from gateway.login.verifier import NO_GROUPS, USER_CHARACTERS_MAX, Unavailable, UnknownUser, WrongLogin

log = logging.getLogger(__name__)

READABLE_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH
SALT_BYTES_MIN = 8
HASH_BYTES_MIN = 4
"""Argon2's own minimums (RFC 9106, section 3.1; for the salt, the reference code)."""

_Stamp = tuple[int, int, int]
"""Identifies a state of the file: inode, modification time in nanoseconds, and size in bytes."""


class BadUser(Exception):
    """The file cannot hold the name or password, or does not contain the user. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Users:
    """The content of a file. `problems` has a text for each ignored line."""

    hashes: Mapping[str, str] = field(default_factory=dict, repr=False)
    problems: tuple[str, ...] = ()
    named: frozenset[str] = field(default=frozenset(), compare=False)
    """All names, also those of ignored lines."""


def name_problem(name: str) -> str | None:
    """Returns why the file cannot hold this name; None if it can."""
    if not name or name != name.strip():
        return "a user name must not be empty, and must not begin or end with a space"
    if ":" in name or name.startswith("#") or not name.isprintable():
        return "a user name must not contain ':' or control characters, or begin with '#'"
    if len(name) > USER_CHARACTERS_MAX:
        return f"a user name may have at most {USER_CHARACTERS_MAX} characters"
    return None


def parse(text: str) -> Users:
    """Parses a file. All entries of a duplicate name are ignored, because nobody knows which password is meant."""
    hashes: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        # An invalid line may contain a password: only its number and name are reported.
        name, colon, text_of_hash = line.rstrip("\r").partition(":")
        if not colon:
            problems.append(f"line {number} is not NAME:HASH")
        elif (problem := name_problem(name)) is not None:
            problems.append(f"line {number}: {problem}")
        elif name in lines:
            problems.append(f"line {number}: {name!r} is also in line {lines[name]}, so both lines are ignored")
            hashes.pop(name, None)
        else:
            lines[name] = number
            if _is_hash(text_of_hash):
                hashes[name] = text_of_hash
            else:
                problems.append(f"line {number}: {name!r} has no argon2 hash; create one with `freshgate user add`")
    return Users(hashes, tuple(problems), frozenset(lines))


def _is_hash(text: str) -> bool:
    try:
        found = extract_parameters(text)
    except InvalidHashError:
        return False
    return found.salt_len >= SALT_BYTES_MIN and found.hash_len >= HASH_BYTES_MIN


def with_user(text: str, name: str, text_of_hash: str) -> str:
    """Returns the file's text with the user's hash added or replaced. All other lines stay unchanged."""
    return _edited(text, name, f"{name}:{text_of_hash}")


def without_user(text: str, name: str) -> str:
    """Returns the file's text without the user."""
    return _edited(text, name, None)


def names_in(text: str) -> list[str]:
    """The names in a file, in its order, including those with invalid hashes."""
    names = [line.partition(":")[0] for line in text.split("\n") if ":" in line and not line.startswith("#")]
    return list(dict.fromkeys(name for name in names if name_problem(name) is None))


def _edited(text: str, name: str, replacement: str | None) -> str:
    kept: list[str] = []
    for line in text.removesuffix("\n").split("\n") if text else []:
        if line.partition(":")[0] != name or ":" not in line:
            kept.append(line)
        elif replacement is not None:
            kept.append(replacement)
            replacement = None
    if replacement is not None:
        kept.append(replacement)
    return "".join(line + "\n" for line in kept)


class UserFile:
    """Checks passwords against a file, which is read again after a change. Implements `Verifier`."""

    name = "file"
    knows_its_users = True

    def __init__(self, path: Path, *, alone: bool = True) -> None:
        """`alone`: no other method checks passwords."""
        self._path = path
        self._alone = alone
        self._lock = threading.Lock()
        self._stamp: _Stamp | None = None
        self._users = Users()
        self._hasher = PasswordHasher()
        self._nobody = ""
        """A hash that belongs to no user and costs as much to check."""

    def verify(self, user: str, password: str) -> frozenset[str]:
        users, nobody = self._current()
        found = users.hashes.get(user)
        if found is None and user not in users.named and not self._alone:
            raise UnknownUser("the users file does not have this user")
        try:
            # Checking an unknown user takes as long as a wrong password; otherwise the time would tell who exists.
            self._hasher.verify(found or nobody, password)
        except Argon2Error as error:
            raise WrongLogin("unknown user" if found is None else f"wrong password ({type(error).__name__})") from None
        except InvalidHashError:
            raise WrongLogin("the users file has a hash that argon2 cannot read") from None
        if found is None:
            raise WrongLogin("unknown user")
        return NO_GROUPS

    def version(self, user: str) -> str | None:
        """The user's hash; None without one."""
        return self._current()[0].hashes.get(user)

    def check(self) -> None:
        """Reads the file, and logs its problems. Raises Unavailable if it cannot be read."""
        self._current()

    def _current(self) -> tuple[Users, str]:
        with self._lock:
            try:
                state = self._path.stat()
                stamp = (state.st_ino, state.st_mtime_ns, state.st_size)
                if stamp != self._stamp:
                    self._load(state.st_mode)
                    self._stamp = stamp
            except (OSError, UnicodeDecodeError) as error:
                self._stamp = None
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise Unavailable(f"the users file {self._path} cannot be read: {reason}") from error
            return self._users, self._nobody

    def _load(self, mode: int) -> None:
        users = parse(self._path.read_bytes().decode("utf-8"))
        for problem in users.problems:
            log.error("users file %s: %s", self._path, problem)
        if mode & READABLE_BY_OTHERS:
            log.warning("users file %s: other accounts can read or write it; set its mode to 0600", self._path)
        like = next(iter(users.hashes.values()), None)
        self._nobody = _hash_like(like) if like else self._hasher.hash(os.urandom(32))
        self._users = users
        if users.hashes:
            log.info("users file %s: %d users", self._path, len(users.hashes))
        else:
            log.warning(
                "users file %s: it has no user, so nobody can log in; add users with `freshgate user add`", self._path
            )


def _hash_like(known: str) -> str:
    """A hash of a random password, as costly to check as the known one."""
    try:
        return PasswordHasher.from_parameters(extract_parameters(known)).hash(os.urandom(32))
    except HashingError:
        return PasswordHasher().hash(os.urandom(32))


def hash_of(password: str) -> str:
    """Hashes a password, which takes about 50 ms. Raises BadUser for a password that no login could have."""
    if not password.strip() or "\0" in password:
        raise BadUser("The password is empty. Enter a password.")
    return PasswordHasher().hash(password)


def read(path: Path) -> str:
    """Returns the file's text. Raises OSError, UnicodeDecodeError."""
    return path.read_bytes().decode("utf-8")


@contextlib.contextmanager
def changing(path: Path) -> Iterator[Path]:
    """Locks the file against other callers of this function, and yields its real path. Raises OSError."""
    place = Path(os.path.realpath(path))
    directory = os.open(place.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield place
    finally:
        os.close(directory)


def write(path: Path, text: str) -> None:
    """Replaces the file atomically, so that a reader sees the old or the new one. Only its owner may read it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        # mkstemp creates it with mode 0600.
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            with contextlib.suppress(FileNotFoundError, PermissionError):
                old = path.stat()
                # Keeps the owner when root edits the file of the gateway's account.
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:  # Also for an interrupt: a partial file of passwords must not be left behind.
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
