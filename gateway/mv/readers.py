"""Who may read which version: open statements, and what transactions hold on to.

In memory only: after a restart nobody reads through this gateway. Reads straight on Spark are invisible here; the
retention time is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

VersionKey = tuple[str, int]
"""A view's id and the number of one of its versions."""


@dataclass(slots=True, eq=False)
class Read:
    """An open statement, or a transaction's hold on a version. Moments are numbers that grow."""

    began: int
    views: frozenset[str]
    """Views of which it reads the version that is current when Spark plans it."""
    versions: frozenset[VersionKey] = frozenset()
    """Versions that it names itself."""
    planned: int | None = None
    """When Spark was known to have planned it: what is published later it does not see."""

    def may_read(self, view_id: str, number: int, published: int, retired: int | None) -> bool:
        """Whether it reads a version of a view that was current from `published` to `retired` (None: it still is)."""
        if (view_id, number) in self.versions:
            return True
        if view_id not in self.views or (retired is not None and self.began > retired):
            return False
        return self.planned is None or self.planned > published


class Readers:
    """Every open read."""

    def __init__(self) -> None:
        self._moments = count(1)
        self._reads: dict[int, Read] = {}
        self.on_release: Callable[[], None] = lambda: None
        """Called when something may not be read any more."""

    def now(self) -> int:
        """A moment later than all before."""
        return next(self._moments)

    def begin(self, views: Iterable[str] = (), versions: Iterable[VersionKey] = ()) -> Read:
        """Must be released."""
        read = Read(self.now(), frozenset(views), frozenset(versions))
        self._reads[read.began] = read
        return read

    def planned(self, read: Read) -> None:
        """Spark has planned it, for it has ended; its rows may still be fetched."""
        if read.planned is None:
            read.planned = self.now()
            self.on_release()

    def release(self, read: Read) -> None:
        if self._reads.pop(read.began, None):
            self.on_release()

    def count(self, view_id: str, number: int, published: int, retired: int | None) -> int:
        """How many may read a version of a view."""
        return sum(read.may_read(view_id, number, published, retired) for read in self._reads.values())

    def any_of(self, view_id: str, before: int) -> bool:
        """Whether anything that began before a moment may read any version of a view."""
        return any(
            (view_id in read.views and read.began < before) or any(view_id == of for of, _ in read.versions)
            for read in self._reads.values()
        )
