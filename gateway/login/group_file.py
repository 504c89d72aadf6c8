"""A file of groups: one `group: user, user` per line. Empty lines and lines that begin with # are skipped.

Tests: `test_groups`.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from gateway.login.verifier import NO_GROUPS, Unavailable

log = logging.getLogger(__name__)


def parse(text: str) -> tuple[Mapping[str, frozenset[str]], list[str]]:
    """The groups of each user, and a text for each line that is ignored. A group may have several lines."""
    found: dict[str, set[str]] = defaultdict(set)
    problems = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        group, colon, members = line.partition(":")
        if not colon or not group.strip():
            problems.append(f"line {number} is not GROUP: USER, USER")
            continue
        for user in filter(None, (each.strip() for each in members.split(","))):
            found[user].add(group.strip())
    return {user: frozenset(groups) for user, groups in found.items()}, problems


class GroupFile:
    """The groups in a file, which is read again after a change. Implements `GroupSource`."""

    name = "file"
    is_cheap = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._groups: Mapping[str, frozenset[str]] = {}

    def groups_of(self, user: str) -> frozenset[str]:
        return self._current().get(user, NO_GROUPS)

    def check(self) -> None:
        """Reads the file, and logs its problems. Raises Unavailable if it cannot be read."""
        self._current()

    def _current(self) -> Mapping[str, frozenset[str]]:
        with self._lock:
            try:
                state = self._path.stat()
                stamp = state.st_ino, state.st_mtime_ns, state.st_size
                if stamp != self._stamp:
                    self._groups, problems = parse(self._path.read_bytes().decode("utf-8"))
                    for problem in problems:
                        log.error("groups file %s: %s", self._path, problem)
                    self._stamp = stamp
            except (OSError, UnicodeDecodeError) as error:
                self._stamp = None
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise Unavailable(f"the groups file {self._path} cannot be read: {reason}") from error
            return self._groups
